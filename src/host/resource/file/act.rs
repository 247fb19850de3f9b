//! Carries a file's plan out. No decision is made here: they could not be tested without a disk.

use super::plan::{Observed, Step, plan};
use crate::host::resource::access::{self, Change, Seen};
use crate::host::resource::{own, release};
use crate::host::state::{Owned, State};
use crate::sys::durable;
use crate::wire::declaration::File;
use std::io;
use std::path::Path;

/// Makes the file as it is declared.
pub fn bring_about(state: &State, owned: &mut Owned, id: &str, file: &File) -> Result<(), String> {
    if file.path.chars().any(char::is_control) {
        return Err("the path holds a control character".into());
    }
    let wanted = access::resolve(state.root(), &file.access)?;
    let path = state.root().path(&file.path);
    let observed = observe(&path, file.content.as_bytes()).map_err(|error| error.to_string())?;
    for step in plan(wanted, observed)? {
        match step {
            Step::Own => own(state, owned, id)?,
            Step::Write(mode, uid, gid) => {
                log::info!("{id}: written, {} bytes", file.content.len());
                write(&path, file.content.as_bytes(), mode, uid, gid)?;
            }
            Step::Change(change) => {
                log::info!("{id}: {change}");
                access::change(&path, change)?;
            }
        }
    }
    Ok(())
}

/// Removes a file that is ours and no longer declared.
pub fn take_away(state: &State, owned: &mut Owned, id: &str, path: &str) -> Result<(), String> {
    let at = state.root().path(path);
    match at.symlink_metadata() {
        Ok(found) if !found.is_dir() => {
            log::info!("{id}: removed, it is no longer declared");
            durable::remove(&at).map_err(|error| error.to_string())?;
        }
        // A folder is not what we made; nothing there is what we want.
        Ok(_) => {}
        Err(error) if is_absent(&error) => {}
        Err(error) => return Err(error.to_string()),
    }
    release(state, owned, id)
}

fn observe(path: &Path, content: &[u8]) -> io::Result<Observed> {
    let metadata = match path.symlink_metadata() {
        Ok(metadata) => metadata,
        Err(error) if is_absent(&error) => return Ok(Observed::Missing),
        Err(error) => return Err(error),
    };
    if !metadata.is_file() {
        return Ok(Observed::Other);
    }
    // A file of another length is not read.
    let same = metadata.len() == content.len() as u64
        && durable::read(path, content.len())?.is_some_and(|found| found == content);
    Ok(Observed::File { same, seen: Seen::of(&metadata) })
}

/// Nobody but the owner reads a file before it has its owner and mode.
fn write(path: &Path, content: &[u8], mode: u32, uid: Option<u32>, gid: Option<u32>) -> Result<(), String> {
    durable::replace(path, content, mode & 0o700).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => "its folder does not exist: declare the folder too".to_owned(),
        _ => error.to_string(),
    })?;
    if uid.is_some() || gid.is_some() {
        access::change(path, Change::Own(uid, gid))?;
    }
    access::change(path, Change::Mode(mode))
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
