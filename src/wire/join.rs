//! How a machine becomes a node.

use crate::model::Facts;
use miniserde::{Deserialize, Serialize};

/// `POST /v1/join`. The connection's certificate was checked against the fingerprint of the mesh's CA
/// that the join command carries; the token is the machine's only credential so far.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinRequest {
    /// See [`super::FORMAT`].
    pub format: u64,
    /// The join token.
    pub token: String,
    /// The name that a person wants for the node; the mesh takes the machine's host name else.
    pub name: Option<String>,
    /// The machine's host name.
    pub hostname: String,
    /// The machine's public overlay key, base64; none while the mesh has no overlay.
    pub overlay_key: Option<String>,
    /// What kind of machine it is.
    pub facts: Facts,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinAnswer {
    /// See [`super::FORMAT`].
    pub format: u64,
    /// The node's id.
    pub node: String,
    /// The node's name, as the mesh knows it.
    pub name: String,
    /// 256 random bits, base64url without padding; the mesh keeps only a hash of it.
    pub credential: String,
    /// Id of the key that signs declarations.
    pub declaration_key_id: String,
    /// Ed25519 public key that signs declarations, base64 with padding.
    pub declaration_key: String,
    /// Heartbeat interval in milliseconds.
    pub heartbeat_ms: u64,
    /// `none`: this mesh has no overlay range. The host says so (rule 8).
    pub overlay: String,
    /// The mesh's CA certificate, PEM: what the node pins from now on.
    pub ca: String,
}

/// The value of the `Authorization` header of every call but join.
pub fn authorization(node: &str, credential: &str) -> String {
    format!("Bearer {node}:{credential}")
}

/// Node id and credential out of an `Authorization` header's value.
pub fn read_authorization(value: &str) -> Option<(&str, &str)> {
    value.strip_prefix("Bearer ")?.split_once(':')
}

/// An error that the mesh answers with, whatever the call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorAnswer {
    /// A sentence for a person.
    pub error: String,
}
