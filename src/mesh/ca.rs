//! The mesh's own certificate authority, its server certificate and the key that signs declarations.
//!
//! Made at the first start, whole or not at all: a folder is filled beside its place and renamed. The
//! join command carries the CA's fingerprint, so a node needs no other trust. Called by `serve`; never
//! speaks TLS itself (`link::tls` does). P-256 only, because the host's trimmed provider knows no RSA.
//!
//! Certificates begin in 1970 and the CA never ends: a node whose clock is lost must still find its
//! way to the mesh (C88). The server's certificate is renewed a year before it ends, or when the name
//! that nodes are told changes; the CA that they pinned stays the same. It carries every name that nodes
//! were ever told, newest first: a node dials the name it was told when it joined, for ever.

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
/// Most names in it: a certificate is sent with every connection.
const NAMES_MAX: usize = 100;
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
    /// Opens the CA under `data`. It is made at the first start only: `is_used` says that the store knows
    /// of nodes or of a CA already, and nodes would trust no other one than theirs.
    pub fn open(data: &Path, is_used: bool) -> io::Result<Self> {
        let folder = data.join("ca");
        if !folder.exists() {
            if is_used {
                let text = format!(
                    "{} is missing, and nodes trust nothing else: put it back from the backup that \
                     mesh.db is from. If it is lost for ever, begin with an empty data folder and join \
                     every node again",
                    folder.display()
                );
                return Err(unusable(text));
            }
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

    /// The server certificate for `host` (an IP address or a DNS name) and for every name before it; a
    /// new one where the stored one lacks a name, begins with another one or is near its end.
    pub fn server(&self, host: &str, now_unix: u64) -> io::Result<ServerIdentity> {
        let path = self.folder.join("server");
        let stored = durable::read(&path, FILE_BYTES_MAX)?.and_then(|bytes| String::from_utf8(bytes).ok());
        let names = self.names(host, stored.as_deref())?;
        let usable = stored.filter(|stored| is_usable(stored, &names, now_unix));
        let content = match usable {
            Some(content) => content,
            None => {
                let content = self.issue(&names, now_unix)?;
                durable::replace(&path, content.as_bytes(), 0o600)?;
                log::info!("made a server certificate for {}", names.join(", "));
                content
            }
        };
        let leaf = CertificateDer::from_pem_slice(content.as_bytes()).map_err(unusable)?;
        let ca = CertificateDer::from_pem_slice(self.certificate_pem.as_bytes()).map_err(unusable)?;
        let key = PrivateKeyDer::from_pem_slice(content.as_bytes()).map_err(unusable)?;
        Ok(ServerIdentity { chain: vec![leaf, ca], key })
    }

    /// Every name that nodes were told, newest first, in a file of its own: a damaged certificate is made
    /// anew, and no name is lost with it.
    fn names(&self, host: &str, stored: Option<&str>) -> io::Result<Vec<String>> {
        let path = self.folder.join("names");
        let known = durable::read(&path, FILE_BYTES_MAX)?;
        let known = known.and_then(|bytes| Pairs::parse(&bytes).ok()).unwrap_or_default();
        let certified = stored.and_then(head).unwrap_or_default();
        let mut names = vec![host.to_owned()];
        for name in known.all("name").chain(certified.all("host")) {
            if !names.iter().any(|known| known == name) {
                names.push(name.to_owned());
            }
        }
        if names.len() > NAMES_MAX {
            log::warn!("nodes were told more than {NAMES_MAX} names: the certificate drops the oldest");
            names.truncate(NAMES_MAX);
        }
        let mut file = Pairs::new();
        file.push("format", 1);
        for name in &names {
            file.push("name", name);
        }
        let content = file.to_string();
        if durable::read(&path, FILE_BYTES_MAX)?.as_deref() != Some(content.as_bytes()) {
            durable::replace(&path, content.as_bytes(), 0o600)?;
        }
        Ok(names)
    }

    /// One file for key, certificate and what we must know about it: replaced as one.
    fn issue(&self, names: &[String], now_unix: u64) -> io::Result<String> {
        let mut params = CertificateParams::new(names).map_err(unusable)?;
        params.distinguished_name.push(DnType::CommonName, names.first().map_or("nox-mesh", String::as_str));
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
        head.push("format", 1).push("not_after", not_after);
        for name in names {
            head.push("host", name);
        }
        Ok(format!("{head}\n{}{}", key.serialize_pem(), certificate.pem()))
    }
}

/// What a stored certificate says of itself, before its keys.
fn head(stored: &str) -> Option<Pairs> {
    let (head, _) = stored.split_once("\n\n")?;
    Pairs::parse(format!("{head}\n").as_bytes()).ok()
}

fn is_usable(stored: &str, names: &[String], now_unix: u64) -> bool {
    let Some(pairs) = head(stored) else { return false };
    let left = pairs.parsed::<i64>("not_after").map_or(0, |end| end - now_unix.cast_signed());
    pairs.all("host").eq(names.iter().map(String::as_str)) && left > RENEW_DAYS * 86_400
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
        let first = Ca::open(folder.path(), false).unwrap();
        let again = Ca::open(folder.path(), false).unwrap();
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
        assert!(Ca::open(folder.path(), false).is_ok());
        fs::rename(folder.path().join("ca"), folder.path().join("away")).unwrap();
        let said = Ca::open(folder.path(), true).err().unwrap().to_string();
        assert!(said.contains("backup") && !folder.path().join("ca").exists(), "{said}");
        assert!(!folder.path().join("ca.new").exists());
    }

    #[test]
    fn the_server_certificate_follows_the_name_and_the_calendar() {
        let folder = Folder::new("ca-renew");
        let ca = Ca::open(folder.path(), false).unwrap();
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

    #[test]
    fn a_name_that_nodes_were_told_stays_in_the_certificate() {
        let folder = Folder::new("ca-names");
        let open = || Ca::open(folder.path(), false).unwrap();
        let names = |ca: &Ca, host: &str| {
            let mut roots = rustls::RootCertStore::empty();
            roots.add(CertificateDer::from_pem_slice(ca.certificate_pem.as_bytes()).unwrap()).unwrap();
            let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
            let chain = ca.server(host, NOW).unwrap().chain;
            let verifier =
                rustls::client::WebPkiServerVerifier::builder_with_provider(roots.into(), provider);
            let verifier = verifier.build().unwrap();
            let time = rustls::pki_types::UnixTime::since_unix_epoch(std::time::Duration::from_secs(NOW));
            ["10.0.0.1", "mesh.example", "other.example"].map(|name| {
                let name = rustls::pki_types::ServerName::try_from(name).unwrap();
                verifier.verify_server_cert(&chain[0], &chain[1..], &name, &[], time).is_ok()
            })
        };
        use rustls::client::danger::ServerCertVerifier;
        assert_eq!(names(&open(), "10.0.0.1"), [true, false, false]);
        // A folder of an earlier release knows the name from the certificate alone.
        fs::remove_file(folder.path().join("ca/names")).unwrap();
        assert_eq!(names(&open(), "mesh.example"), [true, true, false]);
        fs::write(folder.path().join("ca/server"), "format=1\n").unwrap();
        assert_eq!(names(&open(), "other.example"), [true, true, true]);
        let stored = fs::read_to_string(folder.path().join("ca/names")).unwrap();
        assert_eq!(stored, "format=1\nname=other.example\nname=mesh.example\nname=10.0.0.1\n");
        assert_eq!(names(&open(), "mesh.example"), [true, true, true]);
    }
}
