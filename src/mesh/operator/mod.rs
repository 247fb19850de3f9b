//! The operator's API: HTTP and JSON over a Unix socket that only the mesh's own user may open.
//!
//! Another listener than the link's, so no node's credential can ever reach it. Called by `cli`; the
//! JSON here is what `--output json` prints. Decides nothing: registry and driver do.

pub mod nodes;
pub mod routes;

use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use tokio::net::UnixListener;

/// Binds the socket, 0600 from its first moment; a socket that a killed mesh left is replaced.
pub fn bind(path: &Path) -> io::Result<UnixListener> {
    match std::fs::symlink_metadata(path) {
        Ok(metadata) if metadata.file_type().is_socket() => std::fs::remove_file(path)?,
        Ok(_) => {
            let text = format!("{} is in the way of the operator's socket", path.display());
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let before = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o177));
    let bound = UnixListener::bind(path);
    rustix::process::umask(before);
    bound.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}
