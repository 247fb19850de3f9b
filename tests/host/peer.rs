//! A peer for tests: real TLS on loopback, answers from a closure, any manners.

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A request, as far as tests look at it.
#[derive(Clone, Debug)]
pub struct Request {
    pub line: String,
    pub headers: Vec<String>,
    pub body: String,
}

impl Request {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find_map(|line| line.strip_prefix(&format!("{name}: ")))
    }
}

pub type Wire = StreamOwned<ServerConnection, TcpStream>;

/// A CA and a certificate for loopback.
pub struct Authority {
    pub ca: Vec<u8>,
    pub pem: String,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl Authority {
    pub fn new() -> Self {
        Authority::for_names(&["127.0.0.1".into(), "localhost".into()], |_| {})
    }

    pub fn for_names(names: &[String], change: impl Fn(&mut CertificateParams)) -> Self {
        let ca_key = KeyPair::generate().unwrap();
        let mut ca = CertificateParams::new(Vec::<String>::new()).unwrap();
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        change(&mut ca);
        let ca_certificate = ca.self_signed(&ca_key).unwrap();
        let key = KeyPair::generate().unwrap();
        let mut leaf = CertificateParams::new(names.to_vec()).unwrap();
        change(&mut leaf);
        let leaf = leaf.signed_by(&key, &Issuer::new(ca, ca_key)).unwrap();
        Authority {
            ca: ca_certificate.der().to_vec(),
            pem: ca_certificate.pem(),
            chain: vec![leaf.der().clone(), ca_certificate.der().clone()],
            key: PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        }
    }
}

/// Serves on loopback until the test's process ends; returns the URL and the requests seen so far.
pub fn serve(
    authority: &Authority,
    answer: impl Fn(&Request, &mut Wire) -> bool + Send + Sync + 'static,
) -> (String, Arc<Mutex<Vec<Request>>>) {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(authority.chain.clone(), authority.key.clone_key())
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (answer, log) = (Arc::new(answer), seen.clone());
    std::thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            let (config, answer, log) = (config.clone(), answer.clone(), log.clone());
            std::thread::spawn(move || {
                let mut wire = StreamOwned::new(ServerConnection::new(config).unwrap(), socket);
                while let Some(request) = read(&mut wire) {
                    log.lock().unwrap().push(request.clone());
                    if !answer(&request, &mut wire) {
                        break;
                    }
                }
                wire.conn.send_close_notify();
                let _ = wire.flush();
            });
        }
    });
    (url, seen)
}

fn read(wire: &mut Wire) -> Option<Request> {
    let mut head = Vec::new();
    let mut byte = [0u8; 1];
    while !head.ends_with(b"\r\n\r\n") {
        if wire.read(&mut byte).ok()? == 0 {
            return None;
        }
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    let mut lines = head.trim_end().lines().map(str::to_owned);
    let line = lines.next().unwrap();
    let mut request = Request { line, headers: lines.collect(), body: String::new() };
    let length = request.header("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0u8; length];
    wire.read_exact(&mut body).ok()?;
    request.body = String::from_utf8(body).unwrap();
    Some(request)
}

/// Writes an answer; false when the other side is gone.
pub fn reply(wire: &mut Wire, status: &str, headers: &str, body: &[u8]) -> bool {
    let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n{headers}\r\n", body.len());
    wire.write_all(head.as_bytes()).and_then(|()| wire.write_all(body)).and_then(|()| wire.flush()).is_ok()
}
