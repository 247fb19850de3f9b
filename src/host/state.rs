//! The state folder: where every file lies, and how a damaged one is met.
//!
//! Every path derives from one root, which is `/` in production. A file whose content is damaged is set
//! aside as `<name>.damaged`, reported, and counts as missing: it is never a crash (rule 13). One that
//! the system does not let us read now stays where it is: the next read may succeed. What each file
//! holds stands in `records`, `rollbacks`, `identity` and `owned`; each file has one writer.

mod identity;
mod owned;
mod records;
mod rollbacks;

pub use identity::Identity;
pub use owned::Owned;
pub use records::{Order, Outcome};
pub use rollbacks::{RecordKey, RollbackRecord, StoredRefused};

use crate::model::keyvalue::{FILE_BYTES_MAX, Pairs};
use crate::model::{StartId, Version};
use crate::sys::durable;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

/// The environment variable that names another root, for tests; the scripts know the same one.
pub const ROOT_VARIABLE: &str = "NOX_MESH_HOST_ROOT";
/// The state folder, below the root.
const FOLDER: &str = "var/lib/mesh-host";
/// The folder with the scripts, below the root.
const LIBRARY: &str = "usr/lib/nox-mesh-host";
/// Most damaged files that are remembered for the report.
const DAMAGED_MAX: usize = 16;

/// The root of the machine, or of a test's folder.
#[derive(Clone, Debug)]
pub struct Root(PathBuf);

impl Root {
    /// As the environment says; `/` otherwise.
    pub fn from_environment() -> Self {
        Root(
            std::env::var_os(ROOT_VARIABLE).filter(|root| !root.is_empty()).map_or("/".into(), PathBuf::from),
        )
    }

    /// A root for a test.
    pub fn at(path: &Path) -> Self {
        Root(path.to_owned())
    }

    /// A path of the machine; a leading slash is the root's.
    pub fn path(&self, path: &str) -> PathBuf {
        self.0.join(path.trim_start_matches('/'))
    }

    /// A file of the state folder.
    pub fn state(&self, name: &str) -> PathBuf {
        self.path(FOLDER).join(name)
    }

    /// A file of the package's library folder.
    pub fn library(&self, name: &str) -> PathBuf {
        self.path(LIBRARY).join(name)
    }

    /// What a script needs in its environment to use the same root.
    pub fn environment(&self) -> Vec<(&'static str, OsString)> {
        if self.0 == Path::new("/") { Vec::new() } else { vec![(ROOT_VARIABLE, self.0.clone().into())] }
    }
}

/// The state folder of one thread.
#[derive(Debug)]
pub struct State {
    root: Root,
    damaged: RefCell<Vec<(String, String)>>,
    unreadable: RefCell<BTreeMap<String, String>>,
}

impl State {
    /// Below this root.
    pub fn new(root: Root) -> Self {
        State { root, damaged: RefCell::default(), unreadable: RefCell::default() }
    }

    /// The root.
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// What was found damaged so far: file and why.
    pub fn damaged(&self) -> Vec<(String, String)> {
        self.damaged.borrow().clone()
    }

    /// What could not be read when it was last tried: file and why.
    pub fn unreadable(&self) -> Vec<(String, String)> {
        self.unreadable.borrow().iter().map(|(name, why)| (name.clone(), why.clone())).collect()
    }

    /// The bytes of a file; a file that cannot be read counts as missing and is reported.
    pub fn bytes(&self, name: &str, bytes_max: usize) -> Option<Vec<u8>> {
        let found = match durable::read(&self.root.state(name), bytes_max) {
            Ok(found) => found,
            // Something else has taken its place, or it has grown beyond all measure: no read will help.
            Err(error)
                if matches!(error.kind(), io::ErrorKind::IsADirectory | io::ErrorKind::FileTooLarge) =>
            {
                self.set_aside(name, &error.to_string());
                None
            }
            Err(error) => {
                self.note_unreadable(name, &error.to_string());
                return None;
            }
        };
        self.unreadable.borrow_mut().remove(name);
        found
    }

    fn note_unreadable(&self, name: &str, why: &str) {
        let mut unreadable = self.unreadable.borrow_mut();
        if unreadable.len() < DAMAGED_MAX && !unreadable.contains_key(name) {
            log::error!("{name} cannot be read now: {why}");
            unreadable.insert(name.to_owned(), why.to_owned());
        }
    }

    /// The pairs of a file, the same way.
    pub fn pairs(&self, name: &str) -> Option<Pairs> {
        let bytes = self.bytes(name, FILE_BYTES_MAX)?;
        match Pairs::parse(&bytes) {
            Ok(pairs) => Some(pairs),
            Err(damaged) => {
                self.set_aside(name, &damaged.to_string());
                None
            }
        }
    }

    /// Replaces a file.
    pub fn store(&self, name: &str, content: &[u8]) -> io::Result<()> {
        durable::replace(&self.root.state(name), content, 0o600)
    }

    /// Replaces a file of pairs.
    pub fn store_pairs(&self, name: &str, pairs: &Pairs) -> io::Result<()> {
        self.store(name, pairs.to_string().as_bytes())
    }

    /// Removes a file if it is there.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        durable::remove(&self.root.state(name))
    }

    /// Whether a file is there.
    pub fn exists(&self, name: &str) -> bool {
        self.root.state(name).symlink_metadata().is_ok()
    }

    /// Moves a damaged file out of the way, under a name that a person finds.
    pub fn set_aside(&self, name: &str, why: &str) {
        log::error!("{name} is damaged ({why}): set aside as {name}.damaged");
        let from = self.root.state(name);
        if let Err(error) = durable::rename(&from, &self.root.state(&format!("{name}.damaged"))) {
            log::error!("{name} cannot be set aside: {error}");
        }
        let mut damaged = self.damaged.borrow_mut();
        if damaged.len() < DAMAGED_MAX && !damaged.iter().any(|(known, _)| known == name) {
            damaged.push((name.to_owned(), why.to_owned()));
        }
    }

    /// The confirmed version: `known-good`, else its copy (C45).
    pub fn known_good(&self) -> Option<Version> {
        self.one_version("known-good").or_else(|| self.one_version("known-good.copy"))
    }

    fn one_version(&self, name: &str) -> Option<Version> {
        let bytes = self.bytes(name, 256)?;
        let version = std::str::from_utf8(&bytes)
            .ok()
            .and_then(|text| text.strip_suffix('\n'))
            .and_then(|line| line.parse().ok());
        if version.is_none() {
            self.set_aside(name, "it is not exactly one line with a version");
        }
        version
    }

    /// Writes the confirmed version: the copy first, so that one of the two is whole at any cut (C46).
    /// Files that say so already are left alone.
    pub fn store_known_good(&self, version: &Version) -> io::Result<()> {
        for name in ["known-good.copy", "known-good"] {
            if self.one_version(name).as_ref() != Some(version) {
                durable::replace(&self.root.state(name), format!("{version}\n").as_bytes(), 0o644)?;
            }
        }
        Ok(())
    }

    /// The next start id, stored. `unlike_any` is a number that no earlier start can have had, for a
    /// node that lost its count.
    pub fn next_start_id(&self, unlike_any: StartId) -> (StartId, io::Result<()>) {
        let existed = self.exists("start-id");
        let bytes = self.bytes("start-id", 64);
        let last = bytes.as_deref().and_then(|bytes| std::str::from_utf8(bytes).ok());
        let next = match last.and_then(|text| text.trim_end().parse::<StartId>().ok()) {
            Some(last) => last.saturating_add(1),
            None if existed => {
                if bytes.is_some() {
                    self.set_aside("start-id", "it is not one number");
                }
                unlike_any
            }
            None => 1,
        };
        (next, self.store("start-id", format!("{next}\n").as_bytes()))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn scratch(name: &str) -> State {
        let path = std::env::temp_dir().join(format!("nox-host-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        let root = Root::at(&path);
        std::fs::create_dir_all(root.state("packages")).unwrap();
        std::fs::create_dir_all(root.state("rollbacks")).unwrap();
        std::fs::create_dir_all(root.library("")).unwrap();
        State::new(root)
    }

    pub(crate) fn write(state: &State, name: &str, content: &[u8]) {
        std::fs::write(state.root().state(name), content).unwrap();
    }

    #[test]
    fn c45_a_known_good_of_nul_bytes_is_set_aside_and_its_copy_holds() {
        let state = scratch("c45");
        let version: Version = "1.4.0".parse().unwrap();
        state.store_known_good(&version).unwrap();
        for bad in [&b"\0\0\0\0\0\0"[..], b"", b"1.4.0", b"1.4.0\n1.5.0\n", b"-x\n", b"1.4.0\n\0"] {
            write(&state, "known-good", bad);
            assert_eq!(state.known_good(), Some(version.clone()), "{bad:?}");
            assert!(state.exists("known-good.damaged") && !state.exists("known-good"));
        }
        assert_eq!(state.damaged().len(), 1);
        state.store_known_good(&version).unwrap();
        assert_eq!(state.bytes("known-good", 100).unwrap(), b"1.4.0\n");
    }

    #[test]
    fn the_start_id_only_grows() {
        let state = scratch("start-id");
        assert_eq!(state.next_start_id(0).0, 1);
        assert_eq!(state.next_start_id(0).0, 2);
        write(&state, "start-id", b"\0\0");
        assert_eq!(state.next_start_id(9_000).0, 9_000);
        assert_eq!(state.next_start_id(0).0, 9_001);
    }

    #[test]
    fn a_file_that_the_disk_refuses_for_now_stays_where_it_is() {
        let state = scratch("refuses");
        // Its first byte cannot be read: an I/O error, as of a disk that fails.
        std::os::unix::fs::symlink("/proc/self/mem", state.root().state("known-good")).unwrap();
        write(&state, "known-good.copy", b"1.4.0\n");
        for _ in 0..2 {
            assert_eq!(state.known_good(), "1.4.0".parse().ok());
            assert!(state.exists("known-good") && !state.exists("known-good.damaged"));
            assert_eq!((state.damaged().len(), state.unreadable().len()), (0, 1));
        }
        std::fs::remove_file(state.root().state("known-good")).unwrap();
        write(&state, "known-good", b"1.5.0\n");
        assert_eq!(state.known_good(), "1.5.0".parse().ok());
        assert!(state.unreadable().is_empty(), "read again, it is no trouble any more");
    }

    #[test]
    fn a_folder_in_place_of_a_file_is_no_crash() {
        let state = scratch("folder");
        std::fs::create_dir(state.root().state("order")).unwrap();
        assert!(state.pairs("order").is_none());
        assert!(state.exists("order.damaged"));
    }
}
