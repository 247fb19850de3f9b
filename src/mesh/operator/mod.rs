//! The operator's API: HTTP and JSON over a Unix socket that only the mesh's own user may open.
//!
//! Another listener than the link's, so no node's credential can ever reach it. Called by `cli`; the
//! JSON here is what `--output json` prints. Decides nothing: registry and driver do.

pub mod nodes;
pub mod routes;

use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use tokio::net::{UnixListener, UnixStream};

/// The place of a socket that this process bound: device and inode say whether it is still ours.
#[derive(Debug)]
pub struct Bound {
    path: PathBuf,
    file: (u64, u64),
}

impl Bound {
    /// Removes the socket, unless another one took its place.
    pub fn remove(&self) -> io::Result<()> {
        match file_of(&self.path) {
            Ok(file) if file == self.file => std::fs::remove_file(&self.path),
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }
}

fn file_of(path: &Path) -> io::Result<(u64, u64)> {
    std::fs::symlink_metadata(path).map(|metadata| (metadata.dev(), metadata.ino()))
}

/// Binds the socket, 0600 from its first moment. A socket that a killed mesh left is replaced, one on
/// which somebody answers is not.
pub async fn bind(path: &Path) -> io::Result<(UnixListener, Bound)> {
    let in_the_way = |kind: io::ErrorKind, what: &str| {
        io::Error::new(kind, format!("the operator's socket {}: {what}", path.display()))
    };
    match std::fs::symlink_metadata(path) {
        Ok(metadata) if metadata.file_type().is_socket() => match UnixStream::connect(path).await {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path)?,
            // A full queue of callers is a sign of life, too.
            Ok(_) | Err(_) => {
                let text = "another process answers on it: stop that one, or choose another place with \
                            --operator-socket";
                return Err(in_the_way(io::ErrorKind::AddrInUse, text));
            }
        },
        Ok(_) => {
            return Err(in_the_way(
                io::ErrorKind::AlreadyExists,
                "something that is no socket is in the way",
            ));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(in_the_way(error.kind(), &error.to_string())),
    }
    let before = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o177));
    let bound = UnixListener::bind(path);
    rustix::process::umask(before);
    let listener = bound.map_err(|error| in_the_way(error.kind(), &error.to_string()))?;
    Ok((listener, Bound { path: path.to_owned(), file: file_of(path)? }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mesh::trial::Folder;
    use std::os::unix::fs::PermissionsExt;

    #[tokio::test]
    async fn the_socket_is_for_its_owner_only_and_a_stale_one_is_replaced() {
        let folder = Folder::new("socket-stale");
        let path = folder.path().join("operator.sock");
        for _ in 0..2 {
            let (listener, _) = bind(&path).await.unwrap();
            let mode = std::fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
            // As after a kill: nobody listens, the file is still there.
            drop(listener);
            assert!(path.exists());
        }
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "somebody's file").unwrap();
        assert!(bind(&path).await.is_err());
        assert!(path.exists());
    }

    #[tokio::test]
    async fn a_socket_in_use_is_refused_and_only_our_own_is_removed() {
        let folder = Folder::new("socket-live");
        let path = folder.path().join("operator.sock");
        let (_listener, first) = bind(&path).await.unwrap();
        let said = bind(&path).await.unwrap_err().to_string();
        assert!(said.contains("--operator-socket"), "{said}");
        UnixStream::connect(&path).await.unwrap();
        // Somebody put another one there by hand.
        std::fs::rename(&path, folder.path().join("away")).unwrap();
        let (_other, second) = bind(&path).await.unwrap();
        first.remove().unwrap();
        UnixStream::connect(&path).await.unwrap();
        second.remove().unwrap();
        assert!(!path.exists());
        second.remove().unwrap();
    }
}
