//! The envelope around a declaration: the exact bytes that were signed, the key's id, the signature.
//!
//! Signatures and identity are over the exact bytes of the inner text, never over a parsed value.
//! Verifying needs crypto and is done by the caller (`sys::crypt`).

use super::limits::{DECLARATION_BYTES_MAX, ENVELOPE_BYTES_MAX};
use miniserde::{Deserialize, Serialize};
use std::fmt;

/// A declaration as it travels and as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Envelope {
    /// The declaration's JSON text, exactly as signed.
    pub declaration: String,
    /// Id of the key that signed it.
    pub key: String,
    /// Ed25519 signature over the bytes of `declaration`, base64 (RFC 4648, with padding).
    pub signature: String,
}

/// Why bytes are no envelope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoEnvelope {
    /// More bytes than the limit.
    TooLarge(usize),
    /// Not the expected JSON object.
    NotAnEnvelope,
}

impl fmt::Display for NoEnvelope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoEnvelope::TooLarge(bytes) => {
                write!(
                    f,
                    "the declaration is too large: {bytes} bytes, at most {DECLARATION_BYTES_MAX} are taken"
                )
            }
            NoEnvelope::NotAnEnvelope => {
                f.write_str("no declaration envelope: expected an object with declaration, key and signature")
            }
        }
    }
}

impl std::error::Error for NoEnvelope {}

impl Envelope {
    /// Reads an envelope from the bytes of an answer or of a file.
    pub fn read(bytes: &[u8]) -> Result<Self, NoEnvelope> {
        if bytes.len() > ENVELOPE_BYTES_MAX {
            return Err(NoEnvelope::TooLarge(bytes.len()));
        }
        let text = std::str::from_utf8(bytes).map_err(|_| NoEnvelope::NotAnEnvelope)?;
        let envelope: Envelope = miniserde::json::from_str(text).map_err(|_| NoEnvelope::NotAnEnvelope)?;
        if envelope.declaration.len() > DECLARATION_BYTES_MAX {
            return Err(NoEnvelope::TooLarge(envelope.declaration.len()));
        }
        Ok(envelope)
    }

    /// The envelope as JSON text.
    pub fn write(&self) -> String {
        miniserde::json::to_string(self)
    }
}
