//! Which versions are not to be installed here: those that were rolled back, until a newer attempt
//! asks (E11, C17, C32). Derived from the rollback script's records, never from the host's own opinion.

use crate::model::{Attempt, Version};
use std::collections::BTreeMap;

/// Most versions that are remembered; the lowest ones go first. Each rollback adds one at most.
pub const REFUSED_MAX: usize = 64;

/// The refused versions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refused(BTreeMap<Version, Entry>);

/// Why and since which attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The highest attempt that is answered by this refusal; 0: installed by hand.
    pub attempt: Attempt,
    /// For a person.
    pub reason: String,
}

/// What a rollback record says about a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// The version that did not stay up.
    pub version: Version,
    /// The attempt that had installed it; 0: by hand.
    pub attempt: Attempt,
    /// For a person.
    pub reason: String,
}

impl Refused {
    /// Adds what was rolled back. The attempt that is declared now for the same version is answered
    /// too: it asked before the failure, so it does not ask again.
    pub fn add(&mut self, failed: Failed, declared: Option<(&Version, Attempt)>) {
        let asked = declared.filter(|(version, _)| **version == failed.version).map(|(_, attempt)| attempt);
        let attempt = failed.attempt.max(asked.unwrap_or_default());
        let entry = self.0.entry(failed.version).or_insert(Entry { attempt, reason: String::new() });
        entry.attempt = entry.attempt.max(attempt);
        entry.reason = failed.reason;
        while self.0.len() > REFUSED_MAX {
            self.0.pop_first();
        }
    }

    /// Puts a stored entry back.
    pub fn restore(&mut self, version: Version, entry: Entry) {
        self.0.insert(version, entry);
    }

    /// A version got through a reconcile here after all.
    pub fn forgive(&mut self, version: &Version) -> bool {
        self.0.remove(version).is_some()
    }

    /// Why this order is refused, if it is.
    pub fn of(&self, version: &Version, attempt: Attempt) -> Option<&Entry> {
        self.0.get(version).filter(|entry| attempt <= entry.attempt)
    }

    /// Whether this version is among them, whatever the attempt.
    pub fn holds(&self, version: &Version) -> bool {
        self.0.contains_key(version)
    }

    /// All of them, lowest version first.
    pub fn iter(&self) -> impl Iterator<Item = (&Version, &Entry)> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v(text: &str) -> Version {
        text.parse().unwrap()
    }

    fn failed(version: &str, attempt: Attempt) -> Failed {
        Failed { version: v(version), attempt, reason: "exit-code".into() }
    }

    #[test]
    fn c17_a_rolled_back_version_is_refused_until_a_newer_attempt() {
        let mut refused = Refused::default();
        refused.add(failed("1.5.0", 3), None);
        assert!(refused.of(&v("1.5.0"), 3).is_some());
        assert!(refused.of(&v("1.5.0"), 2).is_some());
        assert!(refused.of(&v("1.5.0"), 4).is_none());
        assert!(refused.of(&v("1.5.1"), 3).is_none(), "1.5.1 is taken as usual");
        refused.add(failed("1.5.0", 4), None);
        assert!(refused.of(&v("1.5.0"), 4).is_some());
        assert!(refused.forgive(&v("1.5.0")) && refused.of(&v("1.5.0"), 1).is_none());
    }

    #[test]
    fn a_failure_by_hand_answers_the_attempt_that_was_declared_before_it() {
        let mut refused = Refused::default();
        refused.add(failed("1.5.0", 0), Some((&v("1.5.0"), 5)));
        assert!(refused.of(&v("1.5.0"), 5).is_some());
        assert!(refused.of(&v("1.5.0"), 6).is_none());
        refused.add(failed("1.6.0", 0), Some((&v("1.5.0"), 5)));
        assert!(refused.of(&v("1.6.0"), 1).is_none());
    }

    #[test]
    fn the_list_is_bounded() {
        let mut refused = Refused::default();
        for n in 0..200 {
            refused.add(failed(&format!("1.0.{n}"), 1), None);
        }
        assert_eq!(refused.iter().count(), REFUSED_MAX);
        assert!(refused.holds(&v("1.0.199")) && !refused.holds(&v("1.0.0")));
    }
}
