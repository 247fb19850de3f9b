//! For the tests of this room: a folder that is gone when the test is over.

use std::path::{Path, PathBuf};

/// A folder of one test.
pub struct Folder(PathBuf);

impl Folder {
    /// An empty folder; `name` tells the tests apart.
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("nox-mesh-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
