//! What happened here: the rollback records, and the versions that they make refused (E11).
//!
//! Used by the loop. A record is known by its number, its boot and its time together: the numbers start
//! again when somebody empties the folder, and a rollback that nobody hears of is the worst of all. The
//! list of refused versions is derived from the records; when its file is lost it is derived again.

use super::life::refuse::{Failed, Refused};
use super::state::{RecordKey, RollbackRecord, State, StoredRefused};
use crate::model::{Attempt, Version};
use std::collections::BTreeSet;
use std::io;

/// Known records beyond which those that are not on the disk any more are forgotten.
const KNOWN_MAX: usize = 128;

/// The records and what follows from them.
#[derive(Debug, Default)]
pub struct History {
    /// The versions that are refused.
    pub refused: Refused,
    /// The newest records, oldest first.
    pub records: Vec<RollbackRecord>,
    known: BTreeSet<RecordKey>,
    through: u64,
    /// The list was lost: it follows from all the records again.
    is_lost: bool,
}

impl History {
    /// What lies in the state folder.
    pub fn load(state: &State) -> Self {
        let Some(stored) = state.refused() else { return History { is_lost: true, ..History::default() } };
        let StoredRefused { refused, through, known } = stored;
        // The file of an earlier release knows its records by their numbers alone.
        let by_number =
            || state.rollbacks().into_iter().map(|record| record.key).filter(|key| key.id <= through);
        let known = known.unwrap_or_else(|| by_number().collect());
        History { refused, through, known, ..History::default() }
    }

    /// Reads the records; what was rolled back is refused from now on. `asked` is the version that is
    /// declared now. Returns how storing the list went, if it changed.
    pub fn read(&mut self, state: &State, asked: Option<(&Version, Attempt)>) -> Option<io::Result<()>> {
        self.records = state.rollbacks();
        let acknowledged = state.acknowledged();
        for record in self.records.iter_mut().filter(|record| acknowledged.contains(&record.key)) {
            // The mesh has it: no need to hold its log.
            record.report.log = Vec::new();
        }
        // Also an empty list is stored: from then on a missing one is a lost one.
        let mut is_new = self.is_lost;
        for (place, record) in self.records.iter().enumerate() {
            if !self.known.insert(record.key.clone()) {
                continue;
            }
            is_new = true;
            self.through = self.through.max(record.key.id);
            let Some(version) = record.from.clone() else { continue };
            if self.is_lost && is_confirmed_since(state, &self.records, place, &version) {
                continue;
            }
            log::warn!("{version} was rolled back here ({}): refused", record.report.reason);
            let (attempt, reason) = (record.report.attempt, record.report.reason.clone());
            // An old record may be older than what is declared: that may be a newer wish.
            let asked = asked.filter(|_| !self.is_lost || attempt == 0);
            self.refused.add(Failed { version, attempt, reason }, asked);
        }
        self.is_lost = false;
        is_new.then(|| self.store(state))
    }

    /// The running version is confirmed: it is not refused any more. Returns how storing went.
    pub fn forgive(&mut self, state: &State, running: &Version) -> Option<io::Result<()>> {
        self.refused.forgive(running).then(|| self.store(state))
    }

    /// What is on record now is over (a later failure is a new event). Returns how storing went.
    pub fn settle(&self, state: &State) -> Option<io::Result<()>> {
        let newest = self.records.iter().map(|record| record.key.id).max().unwrap_or_default();
        (newest > state.settled()).then(|| state.store_settled(newest))
    }

    fn store(&mut self, state: &State) -> io::Result<()> {
        if self.known.len() > KNOWN_MAX {
            self.known.retain(|key| self.records.iter().any(|record| record.key == *key));
        }
        state.store_refused(&self.refused, self.through, &self.known)
    }
}

/// Whether the version of the record at `place` got through a reconcile here after it: it is known-good,
/// a later rollback led to it, or it was the last order and was reached.
fn is_confirmed_since(state: &State, records: &[RollbackRecord], place: usize, version: &Version) -> bool {
    let came_back = |record: &RollbackRecord| record.report.to.parse().as_ref() == Ok(version);
    let reached = state.attempted().filter(|last| last.version == *version && last.is_reached());
    let failed_at = records.get(place).map(|record| record.report.attempt);
    state.known_good().as_ref() == Some(version)
        || records.iter().skip(place + 1).any(came_back)
        || reached.is_some_and(|last| failed_at.is_some_and(|failed| last.attempt > failed))
}

#[cfg(test)]
#[path = "history_tests.rs"]
mod tests;
