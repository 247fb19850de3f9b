//! A SHA-256 digest as 64 lower-case hexadecimal characters.

use std::fmt;
use std::str::FromStr;

/// The SHA-256 of a package or of another large value.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

/// The text is not 64 lower-case hexadecimal characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotADigest;

impl fmt::Display for NotADigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a SHA-256 digest: expected 64 characters of 0-9 a-f")
    }
}

impl std::error::Error for NotADigest {}

impl Digest {
    /// From the 32 bytes of the hash.
    pub fn new(bytes: [u8; 32]) -> Self {
        Digest(bytes)
    }

    /// The 32 bytes of the hash.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl FromStr for Digest {
    type Err = NotADigest;

    fn from_str(text: &str) -> Result<Self, NotADigest> {
        let hex = text.as_bytes();
        if hex.len() != 64 {
            return Err(NotADigest);
        }
        let mut bytes = [0u8; 32];
        for (byte, pair) in bytes.iter_mut().zip(hex.chunks_exact(2)) {
            let (high, low) = match pair {
                [high, low] => (nibble(*high)?, nibble(*low)?),
                _ => return Err(NotADigest),
            };
            *byte = high << 4 | low;
        }
        Ok(Digest(bytes))
    }
}

fn nibble(character: u8) -> Result<u8, NotADigest> {
    match character {
        b'0'..=b'9' => Ok(character - b'0'),
        b'a'..=b'f' => Ok(character - b'a' + 10),
        _ => Err(NotADigest),
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_bytes_round_trip_and_nothing_else_is_taken() {
        let text = "0123456789abcdef".repeat(4);
        assert_eq!(text.parse::<Digest>().unwrap().to_string(), text);
        for bad in ["", "ab", &text.to_uppercase(), &format!("{}g", &text[..63]), &"é".repeat(32)] {
            assert!(bad.parse::<Digest>().is_err(), "{bad}");
        }
    }
}
