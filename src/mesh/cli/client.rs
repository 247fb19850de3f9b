//! One call to the operator API over its Unix socket.

use crate::mesh::body::FileBody;
use crate::wire::join::ErrorAnswer;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::{Method, Request, header};
use hyper_util::rt::TokioIo;
use std::fmt;
use std::io;
use std::path::Path;
use std::process::ExitCode;
use tokio::net::UnixStream;

/// What a call carries.
pub type Payload = BoxBody<Bytes, io::Error>;

/// Why a verb did not work.
#[derive(Debug)]
pub enum Failure {
    /// Nobody answers on the socket.
    Unreachable(String),
    /// The mesh refused: HTTP status and its sentence.
    Refused(u16, String),
    /// Something on this side: a file, an answer that cannot be read.
    Local(String),
}

impl Failure {
    /// See the module `cli`.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Failure::Unreachable(_) => 6,
            Failure::Refused(422, _) => 4,
            Failure::Refused(400, _) => 2,
            Failure::Refused(500.., _) => 1,
            Failure::Refused(_, _) => 5,
            Failure::Local(_) => 1,
        })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Unreachable(text) | Failure::Refused(_, text) | Failure::Local(text) => {
                f.write_str(text)
            }
        }
    }
}

/// An empty payload.
pub fn nothing() -> Payload {
    Full::new(Bytes::new()).map_err(|never| match never {}).boxed()
}

/// JSON as a payload.
pub fn json(value: &impl serde::Serialize) -> Result<Payload, Failure> {
    let text = serde_json::to_string(value).map_err(|error| Failure::Local(error.to_string()))?;
    Ok(Full::new(Bytes::from(text)).map_err(|never| match never {}).boxed())
}

/// A file as a payload.
pub fn file(path: &Path) -> Result<Payload, Failure> {
    let open = || -> io::Result<FileBody> {
        let file = std::fs::File::open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::other("not a file"));
        }
        Ok(FileBody::new(file, metadata.len()))
    };
    Ok(open().map_err(|error| Failure::Local(format!("{}: {error}", path.display())))?.boxed())
}

/// Makes the call; gives the text of a good answer.
pub async fn call(socket: &Path, method: Method, path: &str, payload: Payload) -> Result<String, Failure> {
    let unreachable = |error: &dyn fmt::Display| {
        Failure::Unreachable(format!(
            "the mesh does not answer on {}: {error}; is 'nox-mesh serve' running, and is --socket right?",
            socket.display()
        ))
    };
    let stream = UnixStream::connect(socket).await.map_err(|error| unreachable(&error))?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| unreachable(&error))?;
    tokio::spawn(connection);
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::HOST, "mesh")
        .body(payload)
        .map_err(|error| Failure::Local(error.to_string()))?;
    let answer = sender.send_request(request).await.map_err(|error| unreachable(&error))?;
    let status = answer.status();
    let bytes = answer.into_body().collect().await.map_err(|error| unreachable(&error))?.to_bytes();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    if status.is_success() {
        return Ok(text);
    }
    let said = miniserde::json::from_str::<ErrorAnswer>(&text).map(|answer| answer.error);
    Err(Failure::Refused(status.as_u16(), said.unwrap_or_else(|_| format!("the mesh answered {status}"))))
}
