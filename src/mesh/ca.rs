//! The mesh's own certificate authority, its server certificate and the key that signs declarations.
//!
//! Made at the first start, whole or not at all: a folder is filled beside its place and renamed. The
//! join command carries the CA's fingerprint, so a node needs no other trust. Called by `serve`; never
//! speaks TLS itself (`link::tls` does). P-256 only, because the host's trimmed provider knows no RSA.
//!
//! Certificates begin in 1970 and the CA never ends: a node whose clock is lost must still find its
//! way to the mesh (C88). The server's certificate is renewed a year before it ends, or when the name
//! that nodes are told changes; the CA that they pinned stays the same.

use crate::model::keyvalue::Pairs;
use crate::sys::crypt::{SigningKey, hex, sha256};
use crate::sys::durable;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// How long a server certificate is good for, in days.
const SERVER_DAYS: i64 = 3650;
/// Renewed when fewer days than this are left: any restart within a year does it.
const RENEW_DAYS: i64 = 365;
const FILE_BYTES_MAX: usize = 64 * 1024;

/// The CA as it lies in the data folder.
pub struct Ca {
    folder: PathBuf,
    /// The CA certificate, PEM: what nodes pin.
    pub certificate_pem: String,
    /// `sha256:` and the SHA-256 of the certificate's DER.
    pub fingerprint: String,
    /// Signs declarations.
    pub declaration_key: SigningKey,
    /// Names the key above on the wire.
    pub declaration_key_id: String,
    key: KeyPair,
}

/// What the link endpoint shows: leaf, CA, and the leaf's key.
pub struct ServerIdentity {
    /// Leaf first, then the CA.
    pub chain: Vec<CertificateDer<'static>>,
    /// The leaf's key.
    pub key: PrivateKeyDer<'static>,
}

impl Ca {
    /// Opens the CA under `data`, makes it at the first start.
    pub fn open(data: &Path) -> io::Result<Self> {
        let folder = data.join("ca");
        if !folder.exists() {
            make(data, &folder)?;
        }
        let certificate_pem = text(&folder.join("ca.pem"))?;
        let key = KeyPair::from_pem(&text(&folder.join("ca.key"))?).map_err(unusable)?;
        let signing = durable::read(&folder.join("declaration.key"), FILE_BYTES_MAX)?
            .ok_or_else(|| unusable("declaration.key is missing"))?;
        let declaration_key = SigningKey::from_pkcs8(&signing)?;
        let der = CertificateDer::from_pem_slice(certificate_pem.as_bytes()).map_err(unusable)?;
        let declaration_key_id = format!("d-{}", &hex(&sha256(declaration_key.public().as_bytes()))[..16]);
        Ok(Ca {
            fingerprint: format!("sha256:{}", hex(&sha256(&der))),
            folder,
            certificate_pem,
            declaration_key,
            declaration_key_id,
            key,
        })
    }

    /// The server certificate for `host` (an IP address or a DNS name); a new one where the stored one
    /// is for another host or near its end.
    pub fn server(&self, host: &str, now_unix: u64) -> io::Result<ServerIdentity> {
        let path = self.folder.join("server");
        let stored = durable::read(&path, FILE_BYTES_MAX)?.and_then(|bytes| String::from_utf8(bytes).ok());
        let usable = stored.filter(|stored| is_usable(stored, host, now_unix));
        let content = match usable {
            Some(content) => content,
            None => {
                let content = self.issue(host, now_unix)?;
                durable::replace(&path, content.as_bytes(), 0o600)?;
                log::info!("made a server certificate for {host}");
                content
            }
        };
        let leaf = CertificateDer::from_pem_slice(content.as_bytes()).map_err(unusable)?;
        let ca = CertificateDer::from_pem_slice(self.certificate_pem.as_bytes()).map_err(unusable)?;
        let key = PrivateKeyDer::from_pem_slice(content.as_bytes()).map_err(unusable)?;
        Ok(ServerIdentity { chain: vec![leaf, ca], key })
    }

    /// One file for key, certificate and what we must know about it: replaced as one.
    fn issue(&self, host: &str, now_unix: u64) -> io::Result<String> {
        let mut params = CertificateParams::new(vec![host.to_owned()]).map_err(unusable)?;
        params.distinguished_name.push(DnType::CommonName, host);
        params.not_before = date_time_ymd(1970, 1, 1);
        let not_after = now_unix.cast_signed() + SERVER_DAYS * 86_400;
        params.not_after = params.not_before + std::time::Duration::from_secs(not_after.unsigned_abs());
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().map_err(unusable)?;
        let ca_params = ca_params()?;
        let issuer = Issuer::from_params(&ca_params, &self.key);
        let certificate = params.signed_by(&key, &issuer).map_err(unusable)?;
        let mut head = Pairs::new();
        head.push("format", 1).push("host", host).push("not_after", not_after);
        Ok(format!("{head}\n{}{}", key.serialize_pem(), certificate.pem()))
    }
}

fn is_usable(stored: &str, host: &str, now_unix: u64) -> bool {
    let head = stored.split_once("\n\n").map(|(head, _)| format!("{head}\n")).unwrap_or_default();
    let Ok(pairs) = Pairs::parse(head.as_bytes()) else { return false };
    let left = pairs.parsed::<i64>("not_after").map_or(0, |end| end - now_unix.cast_signed());
    pairs.get("host") == Some(host) && left > RENEW_DAYS * 86_400
}

/// Fills `ca.new` and renames it: a crash leaves no CA or a whole one.
fn make(data: &Path, folder: &Path) -> io::Result<()> {
    let new = data.join("ca.new");
    match fs::remove_dir_all(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => fs::create_dir(&new)?,
    }
    let key = KeyPair::generate().map_err(unusable)?;
    let certificate = ca_params()?.self_signed(&key).map_err(unusable)?;
    durable::replace(&new.join("ca.key"), key.serialize_pem().as_bytes(), 0o600)?;
    durable::replace(&new.join("declaration.key"), &SigningKey::generate()?, 0o600)?;
    durable::replace(&new.join("ca.pem"), certificate.pem().as_bytes(), 0o644)?;
    durable::rename(&new, folder)?;
    log::info!("made this mesh's own certificate authority in {}", folder.display());
    Ok(())
}

fn ca_params() -> io::Result<CertificateParams> {
    let mut params = CertificateParams::new(Vec::new()).map_err(unusable)?;
    params.distinguished_name.push(DnType::CommonName, "nox-mesh CA");
    params.not_before = date_time_ymd(1970, 1, 1);
    // RFC 5280, 4.1.2.5: the date that means 'no end'.
    params.not_after = date_time_ymd(9999, 12, 31);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(params)
}

fn text(path: &Path) -> io::Result<String> {
    let bytes = durable::read(path, FILE_BYTES_MAX)?
        .ok_or_else(|| unusable(format!("{} is missing", path.display())))?;
    String::from_utf8(bytes).map_err(unusable)
}

fn unusable(error: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the mesh's certificates: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mesh::trial::Folder;
    use std::os::unix::fs::PermissionsExt;

    const NOW: u64 = 1_800_000_000;

    #[test]
    fn the_ca_stays_and_its_keys_are_for_nobody_else() {
        let folder = Folder::new("ca-stays");
        let first = Ca::open(folder.path()).unwrap();
        let again = Ca::open(folder.path()).unwrap();
        assert_eq!(first.fingerprint, again.fingerprint);
        assert_eq!(first.declaration_key.public(), again.declaration_key.public());
        first.server("127.0.0.1", NOW).unwrap();
        for name in ["ca.key", "declaration.key", "server"] {
            let mode = fs::metadata(folder.path().join("ca").join(name)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
    }

    #[test]
    fn c43_a_half_made_ca_is_made_anew() {
        let folder = Folder::new("ca-half");
        fs::create_dir(folder.path().join("ca.new")).unwrap();
        fs::write(folder.path().join("ca.new/ca.key"), "half").unwrap();
        assert!(Ca::open(folder.path()).is_ok());
        assert!(!folder.path().join("ca.new").exists());
    }

    #[test]
    fn the_server_certificate_follows_the_name_and_the_calendar() {
        let folder = Folder::new("ca-renew");
        let ca = Ca::open(folder.path()).unwrap();
        let leaf = |host: &str, now: u64| ca.server(host, now).unwrap().chain[0].to_vec();
        let first = leaf("127.0.0.1", NOW);
        let year = 365 * 86_400;
        assert_eq!(first, leaf("127.0.0.1", NOW + 8 * year), "renewed for no reason");
        let renewed = leaf("127.0.0.1", NOW + 9 * year + 86_400);
        assert_ne!(first, renewed);
        assert_ne!(renewed, leaf("mesh.example", NOW + 9 * year + 86_400));
        fs::write(folder.path().join("ca/server"), "format=1\n").unwrap();
        leaf("mesh.example", NOW);
    }
}
