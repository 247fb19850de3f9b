//! Whom the node believes: one CA, pinned.
//!
//! At join the CA is known by its SHA-256 fingerprint and must be among the certificates that the peer
//! presents; afterwards it is known whole. Nothing of the system's certificates is looked at.
//!
//! The validity period of certificates is *not* enforced: the node's clock may stand in 1970 or in
//! 2040, and a fleet that goes silent because of a date is what this project is against (C88, C89).
//! No clock is read: the verifier begins at the epoch and is led on by what the certificates say, so
//! that a moment is wanted at which all of them hold. Pin, chain, name and signature are enforced.
//!
//! The provider holds the minimum for that: TLS 1.3 with AES-128-GCM and ChaCha20-Poly1305, X25519,
//! certificates with P-256 or Ed25519.

use crate::sys::crypt;
use ring::signature::{ECDSA_P256_SHA256_ASN1, ED25519, UnparsedPublicKey, VerificationAlgorithm};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring::cipher_suite::{TLS13_AES_128_GCM_SHA256, TLS13_CHACHA20_POLY1305_SHA256};
use rustls::crypto::ring::kx_group::X25519;
use rustls::crypto::{CryptoProvider, GetRandomFailed, KeyProvider, SecureRandom, WebPkiSupportedAlgorithms};
use rustls::pki_types::{
    AlgorithmIdentifier, CertificateDer, InvalidSignature, PrivateKeyDer, ServerName,
    SignatureVerificationAlgorithm, UnixTime, alg_id,
};
use rustls::time_provider::TimeProvider;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use std::sync::Arc;
use std::time::Duration;

/// How the CA is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pin {
    /// Whole, DER.
    Certificate(Vec<u8>),
    /// By the SHA-256 of its DER form.
    Fingerprint([u8; 32]),
}

impl Pin {
    /// The certificate in a PEM text that holds one.
    pub fn from_pem(pem: &str) -> Option<Self> {
        let body: String = pem.lines().map(str::trim).filter(|line| !line.starts_with("-----")).collect();
        crypt::unbase64(&body).filter(|der| !der.is_empty()).map(Pin::Certificate)
    }
}

/// The TLS configuration for this pin.
pub fn config(pin: Pin) -> Result<ClientConfig, Error> {
    let provider = Arc::new(provider());
    let verifier = Arc::new(Pinned { pin, provider: provider.clone() });
    let mut config = ClientConfig::builder_with_details(provider, Arc::new(Timeless))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    // One peer, one connection at a time: tickets would only cost memory.
    config.resumption = rustls::client::Resumption::disabled();
    Ok(config)
}

#[derive(Debug)]
struct Pinned {
    pin: Pin,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let unknown = Error::InvalidCertificate(CertificateError::UnknownIssuer);
        let ca = match &self.pin {
            Pin::Certificate(der) => CertificateDer::from(der.as_slice()),
            Pin::Fingerprint(wanted) => {
                let is_it = |der: &&CertificateDer<'_>| crypt::sha256(der.as_ref()) == *wanted;
                intermediates.iter().find(is_it).cloned().ok_or(unknown)?
            }
        };
        let mut roots = RootCertStore::empty();
        roots.add(ca.into_owned())?;
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), self.provider.clone())
            .build()
            .map_err(|error| Error::General(error.to_string()))?;
        let verify = |time| verifier.verify_server_cert(end_entity, intermediates, name, &[], time);
        let mut time = now;
        // Leaf and CA may each ask for a later moment once, and for an earlier one.
        for _ in 0..4 {
            time = match verify(time) {
                Err(Error::InvalidCertificate(CertificateError::ExpiredContext { not_after, .. })) => {
                    not_after
                }
                Err(Error::InvalidCertificate(CertificateError::NotValidYetContext {
                    not_before, ..
                })) => not_before,
                other => return other,
            };
        }
        verify(time)
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("TLS 1.2 is not spoken here".into()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls13_signature(message, certificate, signature, &ALGORITHMS)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        ALGORITHMS.supported_schemes()
    }
}

fn provider() -> CryptoProvider {
    CryptoProvider {
        cipher_suites: vec![TLS13_AES_128_GCM_SHA256, TLS13_CHACHA20_POLY1305_SHA256],
        kx_groups: vec![X25519],
        signature_verification_algorithms: ALGORITHMS,
        secure_random: &Random,
        key_provider: &NoKeys,
    }
}

static P256: Verifies =
    Verifies { with: &ECDSA_P256_SHA256_ASN1, key: alg_id::ECDSA_P256, signature: alg_id::ECDSA_SHA256 };
static EDWARDS: Verifies = Verifies { with: &ED25519, key: alg_id::ED25519, signature: alg_id::ED25519 };
static ALGORITHMS: WebPkiSupportedAlgorithms = WebPkiSupportedAlgorithms {
    all: &[&P256, &EDWARDS],
    mapping: &[(SignatureScheme::ECDSA_NISTP256_SHA256, &[&P256]), (SignatureScheme::ED25519, &[&EDWARDS])],
};

/// One of ring's verifications in the shape that certificates need.
#[derive(Debug)]
struct Verifies {
    with: &'static dyn VerificationAlgorithm,
    key: AlgorithmIdentifier,
    signature: AlgorithmIdentifier,
}

impl SignatureVerificationAlgorithm for Verifies {
    fn verify_signature(&self, key: &[u8], message: &[u8], signature: &[u8]) -> Result<(), InvalidSignature> {
        UnparsedPublicKey::new(self.with, key).verify(message, signature).map_err(|_| InvalidSignature)
    }

    fn public_key_alg_id(&self) -> AlgorithmIdentifier {
        self.key
    }

    fn signature_alg_id(&self) -> AlgorithmIdentifier {
        self.signature
    }
}

/// See the header.
#[derive(Debug)]
struct Timeless;

impl TimeProvider for Timeless {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::ZERO))
    }
}

#[derive(Debug)]
struct Random;

impl SecureRandom for Random {
    fn fill(&self, buffer: &mut [u8]) -> Result<(), GetRandomFailed> {
        crypt::fill_random(buffer).map_err(|_| GetRandomFailed)
    }
}

/// The node has no certificate of its own.
#[derive(Debug)]
struct NoKeys;

impl KeyProvider for NoKeys {
    fn load_private_key(
        &self,
        _: PrivateKeyDer<'static>,
    ) -> Result<Arc<dyn rustls::sign::SigningKey>, Error> {
        Err(Error::General("no private keys here".into()))
    }
}
