//! Large values as plain files, named by their SHA-256.
//!
//! A draft is written under a name that nobody looks for, hashed on the way, synced and renamed when it
//! is kept (C43). What a crash leaves of drafts is swept away at the next start. Used by the engines.

use crate::model::Digest;
use crate::sys::crypt::{Hasher, hex, random};
use crate::sys::durable;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The folder of the large values.
pub struct Folder {
    path: PathBuf,
}

/// A large value that is being written; dropped before it is kept, it is gone.
pub struct Draft {
    path: PathBuf,
    file: File,
    hasher: Hasher,
    length: u64,
    kept: bool,
}

impl Folder {
    /// Opens the folder, makes it if need be, and removes the drafts that a crash left.
    pub fn open(path: &Path) -> io::Result<Self> {
        fs::create_dir_all(path)?;
        durable::sync_folder_of(path)?;
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with("draft-") {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(Folder { path: path.to_owned() })
    }

    /// Begins a value.
    pub fn begin(&self) -> io::Result<Draft> {
        let path = self.path.join(format!("draft-{}", hex(&random::<8>()?)));
        let file = OpenOptions::new().write(true).read(true).create_new(true).mode(0o600).open(&path)?;
        Ok(Draft { path, file, hasher: Hasher::default(), length: 0, kept: false })
    }

    /// Keeps a finished value.
    pub fn keep(&self, mut draft: Draft) -> io::Result<(Digest, u64)> {
        let digest = Digest::new(std::mem::take(&mut draft.hasher).finish());
        durable::rename(&draft.path, &self.path.join(digest.to_string()))?;
        draft.kept = true;
        Ok((digest, draft.length))
    }

    /// Opens a kept value.
    pub fn open_value(&self, digest: &Digest) -> io::Result<Option<(File, u64)>> {
        match File::open(self.path.join(digest.to_string())) {
            Ok(file) => {
                let length = file.metadata()?.len();
                Ok(Some((file, length)))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Draft {
    /// Adds a piece.
    pub fn write(&mut self, piece: &[u8]) -> io::Result<()> {
        self.file.write_all(piece)?;
        self.hasher.update(piece);
        self.length += piece.len() as u64;
        Ok(())
    }

    /// The hash of what is in it so far.
    pub fn digest(&self) -> Digest {
        Digest::new(self.hasher.clone().finish())
    }

    /// How much is in it so far.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Opens what is in it so far for reading, from its beginning.
    pub fn reader(&self) -> io::Result<File> {
        File::open(&self.path)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.kept {
            // Best effort: the next start sweeps drafts away.
            let _ = fs::remove_file(&self.path);
        }
    }
}
