//! `owned`: what this host created, one `owned=kind:name` line each, sorted.
//!
//! Written before the thing is made, so that a cut between the two leaves an entry for nothing, which
//! the next reconcile makes or drops, and never a thing that nobody will take away again. Not
//! [`Pairs`](crate::model::keyvalue::Pairs): a large declaration needs more than their limit.

use super::State;
use std::collections::BTreeSet;
use std::io;

/// Largest file: every resource of a declaration with the longest path, and as many of the one before.
const BYTES_MAX: usize = 32 * 1024 * 1024;

/// The ids of what this host created.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owned(BTreeSet<String>);

impl Owned {
    /// Whether this host created it.
    pub fn holds(&self, id: &str) -> bool {
        self.0.contains(id)
    }

    /// All ids, deepest path first: the order in which things can be taken away.
    pub fn deepest_first(&self) -> Vec<String> {
        self.0.iter().rev().cloned().collect()
    }

    /// Adds an id; true if it is new.
    pub fn add(&mut self, id: &str) -> bool {
        self.0.insert(id.to_owned())
    }

    /// Removes an id; true if it was there.
    pub fn release(&mut self, id: &str) -> bool {
        self.0.remove(id)
    }
}

impl State {
    /// What this host created.
    pub fn owned(&self) -> Owned {
        let Some(bytes) = self.bytes("owned", BYTES_MAX) else { return Owned::default() };
        let text = std::str::from_utf8(&bytes).ok().and_then(|text| text.strip_suffix('\n'));
        let Some(text) = text.filter(|text| !text.contains('\0')) else {
            self.set_aside("owned", "it is no whole text");
            return Owned::default();
        };
        Owned(text.lines().filter_map(|line| line.strip_prefix("owned=")).map(str::to_owned).collect())
    }

    /// Stores it.
    pub fn store_owned(&self, owned: &Owned) -> io::Result<()> {
        let mut text = String::from("format=1\n");
        for id in &owned.0 {
            text.push_str("owned=");
            text.push_str(id);
            text.push('\n');
        }
        self.store("owned", text.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{scratch, write};
    use super::*;

    #[test]
    fn owned_round_trips_and_a_damaged_one_owns_nothing() {
        let state = scratch("owned");
        let mut owned = Owned::default();
        for n in 0..4096 {
            owned.add(&format!("file:/etc/a-rather-long-name/of-a-folder/{n}"));
        }
        state.store_owned(&owned).unwrap();
        assert_eq!(state.owned(), owned);
        write(&state, "owned", b"format=1\nowned=file:/a");
        assert_eq!(state.owned(), Owned::default());
        assert!(state.exists("owned.damaged"));
    }

    #[test]
    fn the_inner_ones_come_first() {
        let mut owned = Owned::default();
        for id in ["directory:/a", "directory:/a/b", "file:/a/b/c", "directory:/a/b/d"] {
            owned.add(id);
        }
        let order = owned.deepest_first();
        assert_eq!(order, ["file:/a/b/c", "directory:/a/b/d", "directory:/a/b", "directory:/a"]);
    }
}
