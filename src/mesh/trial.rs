//! For the tests of this room: a folder that is gone when the test is over, a mesh in it, a node that
//! speaks to it over real TLS.

use super::ca::Ca;
use super::core::{Mesh, Pause, PausePoint, Told};
use super::engine::embedded::Embedded;
use super::engine::{self, Engine, Entry, Put, Revision, Store};
use super::link::{accept, routes, tls};
use crate::wire::join::{JoinAnswer, authorization};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::{HeaderMap, Request};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// A folder of one test.
pub struct Folder(PathBuf);

impl Folder {
    /// An empty folder; `name` tells the tests apart.
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("nox-mesh-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A mesh on its folder, without a link.
pub async fn mesh(folder: &Folder) -> (Arc<Mesh>, watch::Sender<bool>) {
    mesh_that_pauses(folder, None).await
}

/// A mesh on its folder that stands still at a point.
pub async fn mesh_that_pauses(folder: &Folder, at: Option<PausePoint>) -> (Arc<Mesh>, watch::Sender<bool>) {
    let store: Store = Arc::new(Embedded::open(folder.path()).unwrap());
    mesh_on(folder, store, 1000, at).await
}

/// A mesh on a store of the test's own, with its interval of heartbeats.
pub async fn mesh_on(
    folder: &Folder,
    store: Store,
    heartbeat_ms: u64,
    at: Option<PausePoint>,
) -> (Arc<Mesh>, watch::Sender<bool>) {
    let ca = Ca::open(folder.path(), false).unwrap();
    let stop = watch::Sender::new(false);
    let told = Told { advertise: "https://127.0.0.1:1".into(), heartbeat_ms };
    let pause = Pause::new(at, folder.path().join("paused"));
    let mesh = Mesh::open(store, ca, told, pause, stop.subscribe()).await.unwrap();
    (Arc::new(mesh), stop)
}

/// A mesh with its link on loopback.
pub struct Served {
    /// The mesh.
    pub mesh: Arc<Mesh>,
    /// Where the link listens.
    pub address: SocketAddr,
    /// Ends it.
    pub stop: watch::Sender<bool>,
    /// The accept loop.
    pub running: tokio::task::JoinHandle<()>,
}

impl Served {
    /// Serves with room for `connections_max` connections.
    pub async fn new(folder: &Folder, connections_max: usize) -> Self {
        let (mesh, stop) = mesh(folder).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let config = tls::config(mesh.ca.server("127.0.0.1", 1_800_000_000).unwrap()).unwrap();
        let door = accept::Door {
            tls: watch::Sender::new(config).subscribe(),
            router: routes::router(mesh.clone()),
            stopping: stop.subscribe(),
        };
        let running = tokio::spawn(accept::run(listener, door, connections_max));
        Served { mesh, address, stop, running }
    }

    /// A node that has joined.
    pub async fn node(&self, name: &str) -> Node {
        let token = self.mesh.registry.make_token(1, 3600, super::clock::unix_seconds()).await.unwrap();
        let facts =
            r#"{"architecture":"amd64","package_format":"deb","distribution":"debian-12","kernel":"6"}"#;
        let body =
            format!(r#"{{"format":1,"token":"{token}","name":"{name}","hostname":"h","facts":{facts}}}"#);
        let answer = self.call("POST", "/v1/join", "", &[], &body).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let joined: JoinAnswer = miniserde::json::from_str(&answer.text()).unwrap();
        Node { authorization: authorization(&joined.node, &joined.credential), joined }
    }

    /// One call on a connection of its own.
    pub async fn call(
        &self,
        method: &str,
        path: &str,
        authorization: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let stream = self.connect(&[&rustls::version::TLS13]).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let mut request = Request::builder().method(method).uri(path).header("host", "mesh");
        if !authorization.is_empty() {
            request = request.header("authorization", authorization);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(Bytes::from(body.to_owned()))).unwrap();
        let answer = sender.send_request(request).await.unwrap();
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        Answer { status, headers, body: answer.into_body().collect().await.unwrap().to_bytes().into() }
    }

    /// A TLS connection that trusts this mesh's CA and nothing else.
    pub async fn connect(
        &self,
        versions: &[&'static rustls::SupportedProtocolVersion],
    ) -> std::io::Result<tokio_rustls::client::TlsStream<TcpStream>> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.mesh.ca.certificate_pem.as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let stream = TcpStream::connect(self.address).await?;
        tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream).await
    }
}

/// A node's identity.
pub struct Node {
    /// What it got at join.
    pub joined: JoinAnswer,
    /// The value of its `Authorization` header.
    pub authorization: String,
}

/// An answer, whole.
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// Headers.
    pub headers: HeaderMap,
    /// Body.
    pub body: Vec<u8>,
}

impl Answer {
    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// A store that can be told to refuse writes below a prefix.
pub struct Failing {
    inner: Embedded,
    /// Writes of keys with this prefix fail; empty: none does.
    pub prefix: std::sync::Mutex<String>,
}

impl Failing {
    /// On a folder; nothing fails yet.
    pub fn new(folder: &Folder) -> Arc<Self> {
        Arc::new(Failing { inner: Embedded::open(folder.path()).unwrap(), prefix: Default::default() })
    }

    /// From now on.
    pub fn fail(&self, prefix: &str) {
        prefix.clone_into(&mut self.prefix.lock().unwrap());
    }
}

impl Engine for Failing {
    fn get<'a>(&'a self, key: &'a str) -> engine::Answer<'a, Option<Entry>> {
        self.inner.get(key)
    }

    fn put_if<'a>(&'a self, key: &'a str, revision: Revision, value: Vec<u8>) -> engine::Answer<'a, Put> {
        let prefix = self.prefix.lock().unwrap().clone();
        if !prefix.is_empty() && key.starts_with(&prefix) {
            return Box::pin(async { Err(std::io::Error::other("the disk is full")) });
        }
        self.inner.put_if(key, revision, value)
    }

    fn list<'a>(&'a self, prefix: &'a str) -> engine::Answer<'a, Vec<(String, Entry)>> {
        self.inner.list(prefix)
    }

    fn watch(&self, prefix: &str) -> watch::Receiver<u64> {
        self.inner.watch(prefix)
    }

    fn begin_large(&self) -> std::io::Result<engine::large::Draft> {
        self.inner.begin_large()
    }

    fn keep_large(&self, draft: engine::large::Draft) -> engine::Answer<'_, (crate::model::Digest, u64)> {
        self.inner.keep_large(draft)
    }

    fn open_large<'a>(
        &'a self,
        digest: &'a crate::model::Digest,
    ) -> engine::Answer<'a, Option<(std::fs::File, u64)>> {
        self.inner.open_large(digest)
    }
}
