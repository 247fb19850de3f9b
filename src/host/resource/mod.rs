//! The resources of a declaration: per kind a pure `plan` and an effect `act`.
//!
//! [`reconcile`] makes the machine match: first what is owned and no longer declared is taken away,
//! then every resource is attempted in [`order`]. One that fails is reported and never stops the
//! others. The kind `host` is not carried out here: it is last, and `upgrade` has it.

pub mod access;
pub mod directory;
pub mod file;
pub mod order;

use super::state::{Owned, State};
use crate::wire::declaration::{Document, Resource, Spec};
use crate::wire::heartbeat::Failure;
use std::collections::BTreeSet;

/// Brings every resource but the host to its declared state, as far as it can be done.
///
/// `go_on` is asked before each resource; it feeds the watchdog, and says no when the host is to end.
/// Returns the failures, or `None` when it was asked to leave off.
pub fn reconcile(
    state: &State,
    document: &Document,
    owned: &mut Owned,
    go_on: &mut dyn FnMut() -> bool,
) -> Option<Vec<Failure>> {
    let mut failures = Vec::new();
    let declared: BTreeSet<&str> = document.resources.iter().map(|resource| resource.id.as_str()).collect();
    for id in owned.deepest_first() {
        if declared.contains(id.as_str()) {
            continue;
        }
        if !go_on() {
            return None;
        }
        if let Err(error) = take_away(state, owned, &id) {
            failures.push(Failure { name: id, error });
        }
    }
    for resource in order::order(&document.resources) {
        if !go_on() {
            return None;
        }
        if let Err(error) = bring_about(state, owned, resource) {
            failures.push(Failure { name: resource.id.clone(), error });
        }
    }
    Some(failures)
}

fn bring_about(state: &State, owned: &mut Owned, resource: &Resource) -> Result<(), String> {
    match &resource.spec {
        Spec::Directory(directory) => directory::act::bring_about(state, owned, &resource.id, directory),
        Spec::File(file) => file::act::bring_about(state, owned, &resource.id, file),
        Spec::Unusable(why) => Err(why.clone()),
        Spec::Host(_) => Ok(()),
    }
}

fn take_away(state: &State, owned: &mut Owned, id: &str) -> Result<(), String> {
    match id.split_once(':') {
        Some(("file", path)) => file::act::take_away(state, owned, id, path),
        Some(("directory", path)) => directory::act::take_away(state, owned, id, path),
        // Made by a newer release, which is gone again: it stays, and stays owned.
        _ => Ok(()),
    }
}

/// Notes ownership before the thing is made.
fn own(state: &State, owned: &mut Owned, id: &str) -> Result<(), String> {
    if owned.add(id) { store(state, owned) } else { Ok(()) }
}

/// Drops ownership after the thing is gone.
fn release(state: &State, owned: &mut Owned, id: &str) -> Result<(), String> {
    if owned.release(id) { store(state, owned) } else { Ok(()) }
}

fn store(state: &State, owned: &Owned) -> Result<(), String> {
    state.store_owned(owned).map_err(|error| format!("'owned' cannot be written: {error}"))
}

#[cfg(test)]
mod tests;
