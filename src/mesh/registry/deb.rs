//! What a `.deb` says of itself: the control file, read without any helper program.
//!
//! deb(5): an `ar` archive with `debian-binary`, `control.tar[.gz|…]` and the data. Ours are built with
//! gzip; other compressions are refused with what to do. Everything is bounded: the file comes from a
//! person's disk and may be anything.

use crate::model::Version;
use std::fmt;
use std::io::{self, Read};

/// The Debian package that carries the host.
pub const PACKAGE_NAME: &str = "nox-mesh-host";
/// Largest control archive, packed: it holds a few scripts.
const CONTROL_BYTES_MAX: u64 = 1024 * 1024;
/// Largest control archive, unpacked.
const UNPACKED_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// The fields that the mesh needs.
#[derive(Debug, PartialEq, Eq)]
pub struct Control {
    /// `Version`.
    pub version: Version,
    /// `Architecture`.
    pub architecture: String,
}

/// Why a file is not taken.
#[derive(Debug)]
pub enum Refusal {
    /// It cannot be read to its end as a Debian package.
    NotADeb(String),
    /// The control archive is packed in a way that is not read here.
    Compression(String),
    /// It is some other package, or one that nodes could not install.
    Content(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NotADeb(why) => write!(f, "this is not a whole Debian package: {why}"),
            Refusal::Compression(name) => write!(
                f,
                "the package holds {name}, only control.tar and control.tar.gz are read: build it with \
                 dpkg-deb -Zgzip --uniform-compression"
            ),
            Refusal::Content(why) => f.write_str(why),
        }
    }
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Refusal::NotADeb(error.to_string())
    }
}

/// Reads the control file of a package.
pub fn read(mut file: impl Read) -> Result<Control, Refusal> {
    let mut magic = [0u8; 8];
    file.read_exact(&mut magic)?;
    if &magic != b"!<arch>\n" {
        return Err(Refusal::NotADeb("it is no ar archive".into()));
    }
    let (name, version) = member(&mut file)?;
    if name != "debian-binary" || !version.starts_with(b"2.") {
        return Err(Refusal::NotADeb("it does not begin with debian-binary 2".into()));
    }
    let (name, packed) = member(&mut file)?;
    let archive = match name.as_str() {
        "control.tar" => packed,
        "control.tar.gz" => unpack(&packed)?,
        other => return Err(Refusal::Compression(other.to_owned())),
    };
    let control = control_of(&archive).ok_or_else(|| Refusal::NotADeb("it has no control file".into()))?;
    fields(&String::from_utf8_lossy(control))
}

/// The next member of the ar archive: its name and content.
fn member(file: &mut impl Read) -> Result<(String, Vec<u8>), Refusal> {
    let mut head = [0u8; 60];
    file.read_exact(&mut head)?;
    let text =
        |from: usize, to: usize| String::from_utf8_lossy(head.get(from..to).unwrap_or_default()).into_owned();
    let size: u64 =
        text(48, 58).trim().parse().map_err(|_| Refusal::NotADeb("a member has no size".into()))?;
    if size > CONTROL_BYTES_MAX {
        return Err(Refusal::NotADeb("its control archive is too large".into()));
    }
    let mut content = Vec::new();
    file.by_ref().take(size).read_to_end(&mut content)?;
    if content.len() as u64 != size {
        return Err(Refusal::NotADeb("it is cut off".into()));
    }
    if size % 2 == 1 {
        file.read_exact(&mut [0u8; 1])?;
    }
    Ok((text(0, 16).trim().trim_end_matches('/').to_owned(), content))
}

fn unpack(packed: &[u8]) -> Result<Vec<u8>, Refusal> {
    let mut unpacked = Vec::new();
    flate2::read::GzDecoder::new(packed).take(UNPACKED_BYTES_MAX + 1).read_to_end(&mut unpacked)?;
    if unpacked.len() as u64 > UNPACKED_BYTES_MAX {
        return Err(Refusal::NotADeb("its control archive is too large".into()));
    }
    Ok(unpacked)
}

/// The file `control` out of a tar archive.
fn control_of(archive: &[u8]) -> Option<&[u8]> {
    let mut rest = archive;
    loop {
        let (head, tail) = rest.split_at_checked(512)?;
        let field = |from: usize, to: usize| {
            let bytes = head.get(from..to).unwrap_or_default();
            let text = bytes.split(|b| *b == 0).next().unwrap_or_default();
            String::from_utf8_lossy(text).trim().to_owned()
        };
        let size = usize::from_str_radix(&field(124, 136), 8).ok()?;
        let content = tail.get(..size)?;
        if matches!(field(0, 100).as_str(), "./control" | "control") {
            return Some(content);
        }
        rest = tail.get(size.div_ceil(512) * 512..)?;
    }
}

fn fields(control: &str) -> Result<Control, Refusal> {
    let field = |name: &str| {
        let found = control.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        found.map(str::trim).ok_or_else(|| Refusal::NotADeb(format!("its control file has no {name}")))
    };
    let package = field("Package")?;
    if package != PACKAGE_NAME {
        let shown = crate::wire::limits::cut(package, 64);
        return Err(Refusal::Content(format!("this is the package {shown}, not {PACKAGE_NAME}")));
    }
    let version = field("Version")?
        .parse()
        .map_err(|error| Refusal::Content(format!("the package's version: {error}")))?;
    let architecture = field("Architecture")?;
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if architecture.is_empty() || architecture.len() > 32 || !architecture.bytes().all(plain) {
        return Err(Refusal::Content("the package's architecture is no such name".into()));
    }
    Ok(Control { version, architecture: architecture.to_owned() })
}

#[cfg(test)]
#[path = "deb_tests.rs"]
pub(in crate::mesh) mod tests;
