//! State is written whole or not at all.
//!
//! Replace: write a temporary file in the same folder, fsync it, rename it over the old one, fsync the
//! folder (C43, C45, C46). A reader meets the old or the new content at any power cut, never nothing.
//! Two writers of one file would share the temporary name: each file has one writer, by design.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Replaces `path` with `content`; `mode` are the permission bits of the new file.
pub fn replace(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let temporary = temporary_beside(path)?;
    let written = write_new(&temporary, content, mode).and_then(|()| fs::rename(&temporary, path));
    if let Err(error) = written {
        // Best effort: the next write of the same file would replace it anyway.
        let _ = fs::remove_file(&temporary);
        return Err(error);
    }
    sync_folder_of(path)
}

fn write_new(temporary: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    match fs::remove_file(temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(temporary)?;
    file.write_all(content)?;
    file.sync_all()
}

/// Moves a finished file of the same file system over `path`; both sides are synced.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    File::open(from)?.sync_all()?;
    fs::rename(from, to)?;
    sync_folder_of(to)?;
    if from.parent() != to.parent() { sync_folder_of(from) } else { Ok(()) }
}

/// Removes a file if it is there, durably.
pub fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Ok(()) => sync_folder_of(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Reads a file of at most `bytes_max` bytes; `None` if it is not there.
///
/// # Errors
/// What the system says, and `FileTooLarge` for a larger file.
pub fn read(path: &Path, bytes_max: usize) -> io::Result<Option<Vec<u8>>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut content = Vec::new();
    file.take(bytes_max as u64 + 1).read_to_end(&mut content)?;
    if content.len() > bytes_max {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("more than {bytes_max} bytes")));
    }
    Ok(Some(content))
}

/// Syncs the folder that holds `path`, so that a rename or removal in it is on the disk.
pub fn sync_folder_of(path: &Path) -> io::Result<()> {
    File::open(folder_of(path))?.sync_all()
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

fn temporary_beside(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no file name"))?;
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(name);
    hidden.push(".new");
    Ok(folder_of(path).join(hidden))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn folder(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("nox-durable-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        path
    }

    #[test]
    fn c43_a_shorter_content_leaves_nothing_of_the_longer_one() {
        let folder = folder("shorter");
        let path = folder.join("known-good");
        replace(&path, b"1.10.0\n", 0o644).unwrap();
        replace(&path, b"1.9.0\n", 0o600).unwrap();
        assert_eq!(read(&path, 100).unwrap().unwrap(), b"1.9.0\n");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "a temporary file stayed");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_failed_write_leaves_the_old_content() {
        let folder = folder("failed");
        let path = folder.join("state");
        replace(&path, b"old\n", 0o644).unwrap();
        fs::create_dir_all(folder.join(".state.new/in-the-way")).unwrap();
        assert!(replace(&path, b"new\n", 0o644).is_err());
        assert_eq!(read(&path, 100).unwrap().unwrap(), b"old\n");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn reading_is_bounded_and_a_missing_file_is_no_error() {
        let folder = folder("bounded");
        let path = folder.join("f");
        assert_eq!(read(&path, 3).unwrap(), None);
        fs::write(&path, b"1234").unwrap();
        assert_eq!(read(&path, 3).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(read(&path, 4).unwrap().unwrap(), b"1234");
        remove(&path).unwrap();
        remove(&path).unwrap();
        fs::remove_dir_all(folder).unwrap();
    }
}
