//! The calls of the link, from the node: join, declaration, heartbeat, claim, package.
//!
//! Each call has all its limits: time for every phase, bytes for every body, which is cut off while it
//! is read. An answer is either what was asked for or a [`Trouble`] that says what the node may do
//! about it; none of them ends the process (C22).

use crate::sys::tls::{self, Pin};
use crate::sys::wait::Waiter;
use crate::wire::claim::{ClaimAnswer, ClaimRequest};
use crate::wire::heartbeat::{Heartbeat, HeartbeatAnswer};
use crate::wire::join::{ErrorAnswer, JoinAnswer, JoinRequest, authorization};
use crate::wire::{limits, range};
use std::fmt;
use std::io::{self, Read};
use std::sync::Arc;
use std::time::Duration;
use ureq::http::{Request, Response, StatusCode};
use ureq::{Agent, Body};

use super::machine::VERSION;
use super::state::Identity;
use crate::model::Digest;

/// For the answer of a short call.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);
/// For a declaration's body: a megabyte over a poor line.
const DECLARATION_LIMIT: Duration = Duration::from_secs(60);
/// What a long poll may be late.
const POLL_GRACE: Duration = Duration::from_secs(15);
/// For one piece of a package's body; a line that gives nothing for that long is broken.
const STALL_LIMIT: Duration = Duration::from_secs(30);
/// For a whole package; it is resumed, so the next try goes on from there.
const PACKAGE_LIMIT: Duration = Duration::from_secs(1800);

/// Why a call brought nothing.
#[derive(Debug)]
pub enum Trouble {
    /// A signal or the bell ended it.
    Disturbed,
    /// The mesh cannot be reached, or did not answer in time.
    Unreachable(String),
    /// The mesh answered with an error.
    Refused(u16, String, Option<Duration>),
    /// The mesh's answer is not what was asked for.
    Nonsense(String),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::Disturbed => f.write_str("given up: something more urgent came"),
            Trouble::Unreachable(why) => write!(f, "the mesh cannot be reached: {why}"),
            Trouble::Refused(status, why, _) => write!(f, "the mesh refuses ({status}): {why}"),
            Trouble::Nonsense(what) => write!(f, "the mesh's answer is not understood: {what}"),
        }
    }
}

impl Trouble {
    /// How long the mesh asked to be left alone.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Trouble::Refused(_, _, after) => *after,
            Trouble::Disturbed | Trouble::Unreachable(_) | Trouble::Nonsense(_) => None,
        }
    }
}

/// One thread's connection to the mesh.
#[derive(Debug)]
pub struct Link {
    agent: Agent,
    mesh: String,
    authorization: Option<String>,
    waiter: Arc<Waiter>,
}

/// What a package call brought.
pub struct Piece {
    /// The offset of the first byte.
    pub first: u64,
    /// The bytes from there on.
    pub bytes: Box<dyn Read>,
}

impl Link {
    /// For a node.
    pub fn joined(identity: &Identity, waiter: Arc<Waiter>) -> io::Result<Self> {
        let authorization = authorization(identity.node.as_str(), &identity.credential);
        let pin = Pin::Certificate(identity.ca.clone());
        Ok(Link { authorization: Some(authorization), ..Link::new(&identity.mesh, pin, waiter)? })
    }

    /// For a machine that knows the mesh's fingerprint and nothing else.
    pub fn new(mesh: &str, pin: Pin, waiter: Arc<Waiter>) -> io::Result<Self> {
        let agent = tls::client(pin, waiter.clone(), &format!("nox-mesh-host/{VERSION}"))?;
        Ok(Link { agent, mesh: mesh.trim_end_matches('/').to_owned(), authorization: None, waiter })
    }

    /// `POST /v1/join`.
    pub fn join(&self, request: &JoinRequest) -> Result<JoinAnswer, Trouble> {
        self.post("/v1/join", miniserde::json::to_string(request))
    }

    /// `POST /v1/heartbeat`.
    pub fn heartbeat(&self, heartbeat: &Heartbeat) -> Result<HeartbeatAnswer, Trouble> {
        self.post("/v1/heartbeat", miniserde::json::to_string(heartbeat))
    }

    /// `POST /v1/orders/claim`.
    pub fn claim(&self, request: &ClaimRequest) -> Result<ClaimAnswer, Trouble> {
        self.post("/v1/orders/claim", miniserde::json::to_string(request))
    }

    /// `GET /v1/declaration`: waits up to `wait` for one above `after`. The bell ends it.
    pub fn declaration(&self, after: u64, wait: Duration) -> Result<Option<Vec<u8>>, Trouble> {
        let seconds = wait.as_secs().min(limits::POLL_SECONDS_MAX);
        let path = format!("/v1/declaration?after={after}&wait={seconds}");
        let answer_in = Duration::from_secs(seconds) + POLL_GRACE;
        self.waiter.heed_bell(true);
        let answer = self.get(&path, None, answer_in, DECLARATION_LIMIT);
        let found = answer.and_then(|response| match response.status() {
            StatusCode::NO_CONTENT => Ok(None),
            StatusCode::OK => body(response, limits::ENVELOPE_BYTES_MAX).map(Some),
            _ => Err(refused(response)),
        });
        self.waiter.heed_bell(false);
        found
    }

    /// `GET /v1/packages/<sha256>` from `offset` on. The bell ends it, also in the middle; whoever
    /// reads the piece switches that off ([`Link::calm`]).
    pub fn package(&self, sha256: &Digest, offset: u64) -> Result<Piece, Trouble> {
        let range = (offset > 0).then(|| format!("bytes={offset}-"));
        self.waiter.heed_bell(true);
        let response = self.get(&format!("/v1/packages/{sha256}"), range, ANSWER_LIMIT, PACKAGE_LIMIT)?;
        let first = match response.status() {
            StatusCode::OK => 0,
            StatusCode::PARTIAL_CONTENT => {
                let header = response.headers().get("content-range").and_then(|value| value.to_str().ok());
                let served = header.and_then(range::served);
                served.ok_or_else(|| Trouble::Nonsense("no Content-Range".into()))?.first
            }
            _ => return Err(refused(response)),
        };
        Ok(Piece { first, bytes: Box::new(response.into_body().into_reader()) })
    }

    /// The bell does not end calls any more.
    pub fn calm(&self) {
        self.waiter.heed_bell(false);
    }

    fn get(
        &self,
        path: &str,
        range: Option<String>,
        answer_in: Duration,
        body_in: Duration,
    ) -> Result<Response<Body>, Trouble> {
        let mut request = self.agent.get(format!("{}{path}", self.mesh));
        if let Some(authorization) = &self.authorization {
            request = request.header("authorization", authorization);
        }
        if let Some(range) = range {
            request = request.header("range", range);
        }
        request
            .config()
            .timeout_recv_response(Some(answer_in))
            .timeout_recv_body(Some(body_in))
            .timeout_per_read(Some(STALL_LIMIT.max(answer_in)))
            .timeout_global(Some(answer_in + body_in + ANSWER_LIMIT))
            .build()
            .call()
            .map_err(trouble)
    }

    fn post<T: miniserde::Deserialize>(&self, path: &str, body_text: String) -> Result<T, Trouble> {
        let mut request =
            Request::post(format!("{}{path}", self.mesh)).header("content-type", "application/json");
        if let Some(authorization) = &self.authorization {
            request = request.header("authorization", authorization);
        }
        let request = request.body(body_text).map_err(|error| Trouble::Nonsense(error.to_string()))?;
        let response = self.agent.run(request).map_err(trouble)?;
        if !response.status().is_success() {
            return Err(refused(response));
        }
        let bytes = body(response, limits::ANSWER_BYTES_MAX)?;
        let text = std::str::from_utf8(&bytes).map_err(|_| Trouble::Nonsense("it is no text".into()))?;
        miniserde::json::from_str(text).map_err(|_| Trouble::Nonsense(format!("'{}'", limits::cut(text, 64))))
    }
}

/// Reads a body up to its limit; what is larger is cut off and is an error.
fn body(response: Response<Body>, bytes_max: usize) -> Result<Vec<u8>, Trouble> {
    let mut bytes = Vec::new();
    let mut reader = response.into_body().into_reader().take(bytes_max as u64 + 1);
    reader.read_to_end(&mut bytes).map_err(broken)?;
    if bytes.len() > bytes_max {
        return Err(Trouble::Nonsense(format!("it is larger than {bytes_max} bytes")));
    }
    Ok(bytes)
}

fn refused(response: Response<Body>) -> Trouble {
    let status = response.status().as_u16();
    let header = response.headers().get("retry-after").and_then(|value| value.to_str().ok());
    let after = header.and_then(|text| text.trim().parse().ok()).map(Duration::from_secs);
    let bytes = body(response, limits::ANSWER_BYTES_MAX).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let error = miniserde::json::from_str::<ErrorAnswer>(&text).map_or(text, |answer| answer.error);
    Trouble::Refused(status, limits::cut(&error, limits::ERROR_BYTES_MAX), after)
}

/// What an error while reading a body means.
pub fn broken(error: io::Error) -> Trouble {
    if tls::is_disturbed(&error) { Trouble::Disturbed } else { Trouble::Unreachable(error.to_string()) }
}

fn trouble(error: ureq::Error) -> Trouble {
    match error {
        ureq::Error::Io(error) => broken(error),
        other => Trouble::Unreachable(other.to_string()),
    }
}

#[cfg(test)]
#[path = "link_tests.rs"]
mod tests;
