//! TLS of the link endpoint: version 1.3 only, our certificate, no client certificates (the credential
//! is in the request). With `accept`, the only place of the mesh that names rustls for a connection.

use crate::mesh::ca::ServerIdentity;
use rustls::ServerConfig;
use std::io;
use std::sync::Arc;

/// The settings of every connection.
pub fn config(identity: ServerIdentity) -> io::Result<Arc<ServerConfig>> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(identity.chain, identity.key))
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, format!("TLS settings: {error}")))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // Early data may be replayed: never.
    config.max_early_data_size = 0;
    Ok(Arc::new(config))
}
