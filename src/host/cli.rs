//! The command line: raw arguments become a [`Command`] without a look at the world; then it is done.
//!
//! Exit codes: 0 done, 1 failed, 2 the command line is wrong.

use crate::sys::tls::Pin;
use lexopt::prelude::{Long, Short, Value};
use std::ffi::OsString;

/// The help text.
pub const HELP: &str = "\
nox-mesh-host - makes this machine match its declaration

  nox-mesh-host run
      run as the node's host (what the service does)
  nox-mesh-host join --mesh https://HOST:PORT --token TOKEN --ca sha256:HEX [--name NAME]
      make this machine a node; `nox-mesh token create` prints the whole command
  nox-mesh-host status
      what this node is and what it runs, from its files
  nox-mesh-host --version
  nox-mesh-host --help

Exit codes: 0 done, 1 failed, 2 wrong command line.
";

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Run as the host.
    Run,
    /// Become a node.
    Join(Join),
    /// Print what the node is.
    Status,
    /// Print the version.
    Version,
    /// Print the help.
    Help,
}

/// The arguments of `join`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Join {
    /// `https://HOST:PORT`.
    pub mesh: String,
    /// The join token.
    pub token: String,
    /// The CA's fingerprint.
    pub ca: Pin,
    /// The name that a person wants.
    pub name: Option<String>,
}

/// Reads the arguments; the error is a sentence.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Command, String> {
    let mut parser = lexopt::Parser::from_iter(arguments);
    let mut verb: Option<String> = None;
    let (mut mesh, mut token, mut ca, mut name) = (None, None, None, None);
    while let Some(argument) = parser.next().map_err(|error| error.to_string())? {
        match argument {
            // These win over everything else that stands there.
            Short('V') | Long("version") => return Ok(Command::Version),
            Short('h') | Long("help") => return Ok(Command::Help),
            Long("mesh") => mesh = Some(text(&mut parser)?),
            Long("token") => token = Some(text(&mut parser)?),
            Long("ca") => ca = Some(text(&mut parser)?),
            Long("name") => name = Some(text(&mut parser)?),
            Value(value) if verb.is_none() => verb = Some(value.to_string_lossy().into_owned()),
            other => return Err(other.unexpected().to_string()),
        }
    }
    let is_join = verb.as_deref() == Some("join");
    if !is_join && (mesh.is_some() || token.is_some() || ca.is_some() || name.is_some()) {
        return Err("these options belong to 'join'".into());
    }
    match verb.as_deref() {
        Some("run") => Ok(Command::Run),
        Some("status") => Ok(Command::Status),
        Some("help") => Ok(Command::Help),
        Some("join") => join(mesh, token, ca, name).map(Command::Join),
        Some(other) => Err(format!("there is no '{other}': run, join, status")),
        None => Err("say what to do: run, join, status".into()),
    }
}

fn text(parser: &mut lexopt::Parser) -> Result<String, String> {
    let value = parser.value().map_err(|error| error.to_string())?;
    value.into_string().map_err(|value| format!("{value:?} is no text"))
}

fn join(
    mesh: Option<String>,
    token: Option<String>,
    ca: Option<String>,
    name: Option<String>,
) -> Result<Join, String> {
    let mesh = mesh.ok_or("join needs --mesh https://HOST:PORT")?;
    let token = token.filter(|token| !token.is_empty()).ok_or("join needs --token TOKEN")?;
    let ca = ca.ok_or("join needs --ca sha256:HEX, the fingerprint of the mesh's CA")?;
    let host = mesh.strip_prefix("https://").map(|rest| rest.trim_end_matches('/')).unwrap_or_default();
    if host.is_empty() || host.contains(['/', '?', '#', '@']) || host.chars().any(char::is_whitespace) {
        return Err(format!("'{mesh}' is no mesh: expected https://HOST:PORT"));
    }
    let fingerprint = ca.strip_prefix("sha256:").and_then(|hex| hex.parse::<crate::model::Digest>().ok());
    let ca = fingerprint.map(|digest| Pin::Fingerprint(*digest.bytes()));
    let ca = ca.ok_or("--ca: expected sha256: and 64 hexadecimal digits")?;
    if let Some(name) = &name {
        name.parse::<crate::model::NodeName>().map_err(|error| error.to_string())?;
    }
    Ok(Join { mesh: format!("https://{host}"), token, ca, name })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(line: &str) -> Result<Command, String> {
        parse(["nox-mesh-host"].into_iter().chain(line.split_whitespace()).map(OsString::from))
    }

    #[test]
    fn lines_as_a_table() {
        for (line, command) in [
            ("run", Command::Run),
            ("status", Command::Status),
            ("--version", Command::Version),
            ("run --version", Command::Version),
            ("-h", Command::Help),
            ("help", Command::Help),
        ] {
            assert_eq!(said(line), Ok(command), "{line}");
        }
        for bad in ["", "fly", "run now", "run --token x", "--nope", "join", "status --mesh https://x"] {
            assert!(said(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn join_checks_each_value() {
        let hex = "ab".repeat(32);
        let good = format!("join --mesh https://mesh.example:7443/ --token t --ca sha256:{hex} --name web01");
        let Ok(Command::Join(join)) = said(&good) else { panic!("{:?}", said(&good)) };
        assert_eq!((join.mesh.as_str(), join.name.as_deref()), ("https://mesh.example:7443", Some("web01")));
        assert_eq!(join.ca, Pin::Fingerprint([0xab; 32]));
        for (from, to) in [
            ("https://", "http://"),
            ("mesh.example:7443/", ""),
            ("mesh.example", "u@mesh.example"),
            ("sha256:", "md5:"),
            ("web01", "../x"),
            ("--token t", ""),
        ] {
            assert!(said(&good.replace(from, to)).is_err(), "{to}");
        }
    }
}
