//! Carries a folder's plan out. No decision is made here.

use super::plan::{Observed, Step, plan};
use crate::host::resource::access::{self, Seen};
use crate::host::resource::{own, release};
use crate::host::state::{Owned, State};
use crate::sys::durable;
use crate::wire::declaration::Directory;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// Makes the folder as it is declared.
pub fn bring_about(state: &State, owned: &mut Owned, id: &str, folder: &Directory) -> Result<(), String> {
    if folder.path.chars().any(char::is_control) {
        return Err("the path holds a control character".into());
    }
    let wanted = access::resolve(state.root(), &folder.access)?;
    let path = state.root().path(&folder.path);
    for step in plan(wanted, observe(&path).map_err(|error| error.to_string())?)? {
        match step {
            Step::Own => own(state, owned, id)?,
            Step::Make => {
                log::info!("{id}: made");
                make(&path)?;
            }
            Step::Change(change) => {
                log::info!("{id}: {change}");
                access::change(&path, change)?;
            }
        }
    }
    Ok(())
}

/// Removes a folder that is ours and no longer declared, if nothing lies in it. One that somebody else
/// filled stays, and stays ours, until it is empty.
pub fn take_away(state: &State, owned: &mut Owned, id: &str, path: &str) -> Result<(), String> {
    match std::fs::remove_dir(state.root().path(path)) {
        Ok(()) => log::info!("{id}: removed, it is no longer declared"),
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => return Ok(()),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {}
        Err(error) => return Err(error.to_string()),
    }
    release(state, owned, id)
}

fn observe(path: &Path) -> io::Result<Observed> {
    match path.symlink_metadata() {
        Ok(metadata) if metadata.is_dir() => Ok(Observed::Folder(Seen::of(&metadata))),
        Ok(_) => Ok(Observed::Other),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Observed::Missing),
        Err(error) => Err(error),
    }
}

fn make(path: &Path) -> Result<(), String> {
    std::fs::DirBuilder::new().mode(0o700).create(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => "the folder above it does not exist: declare it too".to_owned(),
        _ => error.to_string(),
    })?;
    durable::sync_folder_of(path).map_err(|error| error.to_string())
}
