//! Where the verbs call and how they print: what they all share.

use super::Output;
use super::client::{self, Failure, Payload};
use hyper::Method;
use serde::Deserialize;
use serde_json::Value;
use std::io::Write;
use std::path::PathBuf;

/// Where to call and how to print.
pub struct Context {
    /// The operator socket.
    pub socket: PathBuf,
    /// How to print.
    pub output: Output,
}

impl Context {
    /// Asks.
    pub(super) async fn get(&self, path: &str) -> Result<String, Failure> {
        client::call(&self.socket, Method::GET, path, client::nothing()).await
    }

    /// Tells.
    pub(super) async fn post(&self, path: &str, payload: Payload) -> Result<String, Failure> {
        client::call(&self.socket, Method::POST, path, payload).await
    }

    /// Prints the answer: as it is for programs, through `people` for people.
    pub(super) fn show<T>(&self, answer: &str, people: impl Fn(&T) -> String) -> Result<(), Failure>
    where
        T: for<'de> Deserialize<'de>,
    {
        match self.output {
            Output::Json => print(&format!("{answer}\n")),
            Output::Table => print(&people(&read(answer)?)),
        }
        Ok(())
    }
}

/// Reads an answer.
pub(super) fn read<T: for<'de> Deserialize<'de>>(answer: &str) -> Result<T, Failure> {
    serde_json::from_str(answer).map_err(|error| {
        Failure::Local(format!("the mesh's answer is not understood ({error}): is nox-mesh of one release?"))
    })
}

/// Prints; a reader that went away is no error.
pub(super) fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

pub(super) fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or("-")
}
