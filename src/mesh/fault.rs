//! Why a call of a node or of an operator was not carried out, as one sentence and one kind.
//!
//! Each door turns the kind into its own language: the link and the operator API into an HTTP status,
//! the CLI into an exit code.

use std::fmt;
use std::io;

/// See the module.
#[derive(Debug)]
pub enum Fault {
    /// What was sent is not what the call takes.
    Malformed(String),
    /// No credential, or not the right one.
    NotYou(String),
    /// There is no such thing.
    NotFound(String),
    /// A selector that nothing matches.
    NothingMatched(String),
    /// Understood and refused; the text says what to do instead.
    Refused(String),
    /// More bytes than the call takes.
    TooLarge(String),
    /// It took too long to arrive.
    TooSlow(String),
    /// The store or the system failed.
    Broken(io::Error),
}

impl Fault {
    /// The HTTP status of the answer.
    pub fn status(&self) -> u16 {
        match self {
            Fault::Malformed(_) => 400,
            Fault::NotYou(_) => 401,
            Fault::NotFound(_) => 404,
            Fault::NothingMatched(_) => 422,
            Fault::Refused(_) => 409,
            Fault::TooLarge(_) => 413,
            Fault::TooSlow(_) => 408,
            Fault::Broken(_) => 500,
        }
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Fault::Broken(error)
    }
}

impl From<serde_json::Error> for Fault {
    fn from(error: serde_json::Error) -> Self {
        Fault::Broken(io::Error::new(io::ErrorKind::InvalidData, error))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Malformed(text)
            | Fault::NotYou(text)
            | Fault::NotFound(text)
            | Fault::NothingMatched(text)
            | Fault::Refused(text)
            | Fault::TooLarge(text)
            | Fault::TooSlow(text) => f.write_str(text),
            Fault::Broken(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Fault {}
