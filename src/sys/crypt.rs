//! SHA-256, Ed25519, random bytes, base64: the crates behind these are named here and nowhere else.
//!
//! Crypto is never ours; this only gives ring's pieces the shapes that both sides need.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::digest::{Context, SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use std::io;

/// The SHA-256 of bytes at hand.
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut out = [0u8; 32];
    out.copy_from_slice(digest(&SHA256, bytes).as_ref());
    out
}

/// A SHA-256 over pieces, for what does not fit into memory.
#[derive(Clone)]
pub struct Hasher(Context);

impl Default for Hasher {
    fn default() -> Self {
        Hasher(Context::new(&SHA256))
    }
}

impl Hasher {
    /// Adds a piece.
    pub fn update(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    /// The hash of all pieces.
    pub fn finish(self) -> [u8; 32] {
        let mut out = [0u8; 32];
        out.copy_from_slice(self.0.finish().as_ref());
        out
    }
}

/// An Ed25519 key pair that signs.
pub struct SigningKey(Ed25519KeyPair);

impl SigningKey {
    /// A new key as a PKCS #8 document, to be stored.
    pub fn generate() -> io::Result<Vec<u8>> {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new())
            .map_err(|_| io::Error::other("the system gives no random bytes"))?;
        Ok(document.as_ref().to_vec())
    }

    /// From a PKCS #8 document.
    pub fn from_pkcs8(document: &[u8]) -> io::Result<Self> {
        Ed25519KeyPair::from_pkcs8(document)
            .map(SigningKey)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, format!("no Ed25519 key: {error}")))
    }

    /// The public half, base64.
    pub fn public(&self) -> String {
        base64(self.0.public_key().as_ref())
    }

    /// A signature, base64.
    pub fn sign(&self, message: &[u8]) -> String {
        base64(self.0.sign(message).as_ref())
    }
}

/// Whether `signature` (base64) over exactly `message` was made by the key `public` (base64).
pub fn verify(public: &str, message: &[u8], signature: &str) -> bool {
    let (Ok(public), Ok(signature)) = (STANDARD.decode(public), STANDARD.decode(signature)) else {
        return false;
    };
    UnparsedPublicKey::new(&ED25519, public).verify(message, &signature).is_ok()
}

/// Base64 with padding.
pub fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// The bytes of a base64 text with padding; `None` if it is none.
pub fn unbase64(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}

/// `N` random bytes.
pub fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0u8; N];
    fill_random(&mut bytes)?;
    Ok(bytes)
}

/// Fills a buffer with random bytes.
pub fn fill_random(bytes: &mut [u8]) -> io::Result<()> {
    SystemRandom::new().fill(bytes).map_err(|_| io::Error::other("the system gives no random bytes"))
}

/// 256 random bits as base64url without padding: a credential or a token.
pub fn random_secret() -> io::Result<String> {
    Ok(URL_SAFE_NO_PAD.encode(random::<32>()?))
}

/// Lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut out, byte| {
        // invariant: writing to a String cannot fail.
        let _ = write!(out, "{byte:02x}");
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sha256_of_abc_as_published() {
        // FIPS 180-4, example of one block.
        let known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hex(&sha256(b"abc")), known);
        let mut hasher = Hasher::default();
        hasher.update(b"a");
        hasher.update(b"bc");
        assert_eq!(hex(&hasher.finish()), known);
    }

    #[test]
    fn a_signature_holds_for_the_exact_bytes_and_the_one_key() {
        let key = SigningKey::from_pkcs8(&SigningKey::generate().unwrap()).unwrap();
        let other = SigningKey::from_pkcs8(&SigningKey::generate().unwrap()).unwrap();
        let signature = key.sign(b"{ }");
        assert!(verify(&key.public(), b"{ }", &signature));
        assert!(!verify(&key.public(), b"{}", &signature));
        assert!(!verify(&other.public(), b"{ }", &signature));
        for bad in ["", "!!", "AAAA"] {
            assert!(!verify(bad, b"{ }", &signature));
            assert!(!verify(&key.public(), b"{ }", bad));
        }
    }
}
