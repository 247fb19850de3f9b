//! Brings a package into `packages/`: resumed where it broke off, verified before it gets its name.
//!
//! The bytes go to `<name>.partial`; only after size and SHA-256 are right does it become `<name>`,
//! with `<name>.sha256` beside it in the format of sha256sum. Nothing is deleted for it (C51).

use super::{Stop, Tools};
use crate::host::life::upgrade::{Class, Reason};
use crate::host::link::{self, Trouble};
use crate::sys::{crypt, durable};
use crate::wire::declaration::Package;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// What must be free beside the package itself, in bytes (C63).
const MARGIN_BYTES: u64 = 4 * 1024 * 1024;
/// The package, unpacked for the preflight, takes about this many times its size.
const UNPACKED_FACTOR: u64 = 3;
/// Bytes read at once.
const PIECE_BYTES: usize = 16 * 1024;

/// Fetches the package under this name, if it is not there already.
pub fn fetch(tools: Tools<'_>, package: &Package, name: &str) -> Result<(), Stop> {
    let root = tools.root();
    let whole = root.state(&format!("packages/{name}"));
    let partial = root.state(&format!("packages/{name}.partial"));
    std::fs::create_dir_all(root.state("packages")).map_err(disk)?;
    if hash_of(&whole).map_err(disk)?.as_ref() == Some(package.sha256.bytes()) {
        return seal(&whole, name, package).map_err(disk);
    }
    let size = |path: &Path| path.metadata().map_or(0, |metadata| metadata.len());
    room(&whole, package.size.saturating_sub(size(&partial)), package.size)?;
    let resumed = size(&partial) > 0;
    download(tools, package, &partial)?;
    let mut found = hash_of(&partial).map_err(disk)?;
    if found.as_ref() != Some(package.sha256.bytes()) && resumed {
        // What was there from before may have been another package's beginning.
        durable::remove(&partial).map_err(disk)?;
        download(tools, package, &partial)?;
        found = hash_of(&partial).map_err(disk)?;
    }
    if found.as_ref() != Some(package.sha256.bytes()) {
        durable::remove(&partial).map_err(disk)?;
        let detail = format!("{name} is not what was ordered: its SHA-256 differs");
        return Err(Stop::failed(Class::Release, Reason::Package, detail));
    }
    durable::rename(&partial, &whole).map_err(disk)?;
    seal(&whole, name, package).map_err(disk)
}

fn download(tools: Tools<'_>, package: &Package, partial: &Path) -> Result<(), Stop> {
    let mut have = partial.metadata().map_or(0, |metadata| metadata.len());
    if have > package.size {
        durable::remove(partial).map_err(disk)?;
        have = 0;
    }
    if have == package.size {
        return Ok(());
    }
    let written = pour(tools, package, partial, have);
    tools.link.calm();
    written
}

fn pour(tools: Tools<'_>, package: &Package, partial: &Path, have: u64) -> Result<(), Stop> {
    let mut piece = tools.link.package(&package.sha256, have).map_err(later)?;
    let goes_on = piece.first == have && have > 0;
    if piece.first != have && piece.first != 0 {
        return Err(Stop::Later("unavailable", "the mesh served another range than was asked for".into()));
    }
    let mut file = OpenOptions::new()
        .create(true)
        .write(true)
        .append(goes_on)
        .truncate(!goes_on)
        .mode(0o600)
        .open(partial)
        .map_err(disk)?;
    let mut total = if goes_on { have } else { 0 };
    let mut bytes = vec![0u8; PIECE_BYTES];
    loop {
        let length = match piece.bytes.read(&mut bytes) {
            Ok(0) => break,
            Ok(length) => length,
            // What came so far is kept for the next time. It is not synced: after a power cut the hash
            // tells, and the download begins anew.
            Err(error) => return Err(later(link::broken(error))),
        };
        total += length as u64;
        if total > package.size {
            drop(file);
            durable::remove(partial).map_err(disk)?;
            return Err(Stop::failed(Class::Release, Reason::Package, "the package is larger than declared"));
        }
        file.write_all(bytes.get(..length).unwrap_or_default()).map_err(disk)?;
    }
    if total < package.size {
        return Err(Stop::Later("unavailable", format!("{total} of {} bytes came", package.size)));
    }
    Ok(())
}

/// Refuses before anything is written when the disk would run full (C63).
fn room(path: &Path, missing: u64, size: u64) -> Result<(), Stop> {
    let Some(folder) = path.parent() else { return Ok(()) };
    let Ok(disk) = rustix::fs::statvfs(folder) else { return Ok(()) };
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    let needed = missing + size.saturating_mul(UNPACKED_FACTOR) + MARGIN_BYTES;
    if free < needed {
        let detail = format!("{} KiB are free, {} KiB are needed", free / 1024, needed / 1024);
        return Err(Stop::failed(Class::Machine, Reason::Disk, detail));
    }
    Ok(())
}

/// Writes the sum beside the package, if it is not there.
fn seal(whole: &Path, name: &str, package: &Package) -> io::Result<()> {
    let line = format!("{}  {name}\n", package.sha256);
    let path = whole.with_file_name(format!("{name}.sha256"));
    if durable::read(&path, 1024)?.as_deref() == Some(line.as_bytes()) {
        return Ok(());
    }
    durable::replace(&path, line.as_bytes(), 0o600)
}

/// The SHA-256 of a file; `None` if it is not there.
pub fn hash_of(path: &Path) -> io::Result<Option<[u8; 32]>> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut hasher = crypt::Hasher::default();
    let mut bytes = vec![0u8; 4 * PIECE_BYTES];
    loop {
        match file.read(&mut bytes)? {
            0 => return Ok(Some(hasher.finish())),
            length => hasher.update(bytes.get(..length).unwrap_or_default()),
        }
    }
}

fn disk(error: io::Error) -> Stop {
    Stop::failed(Class::Machine, Reason::Disk, format!("packages/: {error}"))
}

fn later(trouble: Trouble) -> Stop {
    match trouble {
        Trouble::Disturbed => Stop::Disturbed,
        other => Stop::Later("unavailable", other.to_string()),
    }
}
