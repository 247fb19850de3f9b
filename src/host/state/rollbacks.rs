//! The files about rollbacks: `rollbacks/`, `rollbacks.settled`, `rollbacks.acked`, `refused`.
//!
//! `rollbacks/` is written by the rollback script and only read here. A record that the script is still
//! writing does not exist: it renames it into place. The scripts read `id=` and `through=`; the lines
//! `record=` beside them name the records beyond doubt and are the host's own.

use super::State;
use crate::host::life::refuse::{Entry, Refused};
use crate::model::Version;
use crate::model::keyvalue::Pairs;
use crate::wire::heartbeat::Rollback;
use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::str::FromStr;

/// Most rollback records that are looked at: the newest ones.
const RECORDS_MAX: usize = 32;

/// What names one record: numbers start again when the folder is emptied.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecordKey {
    /// Its number.
    pub id: u64,
    /// The boot in which it was begun.
    pub boot: String,
    /// When, as the script wrote it; compared, never counted with.
    pub begun: String,
}

impl fmt::Display for RecordKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RecordKey { id, boot, begun } = self;
        write!(f, "{id} boot={boot} begun={begun}")
    }
}

impl FromStr for RecordKey {
    type Err = ();

    fn from_str(line: &str) -> Result<Self, ()> {
        let mut parts = line.split(' ');
        let id = parts.next().and_then(|id| id.parse().ok()).ok_or(())?;
        let mut part = |key: &str| parts.next()?.strip_prefix(key)?.strip_prefix('=').map(str::to_owned);
        Ok(RecordKey { id, boot: part("boot").ok_or(())?, begun: part("begun").ok_or(())? })
    }
}

/// One record of the rollback script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RollbackRecord {
    /// What names it.
    pub key: RecordKey,
    /// The version that failed; `None`: the script could not tell.
    pub from: Option<Version>,
    /// As it goes to the mesh.
    pub report: Rollback,
    /// Whether the rollback has ended, well or not.
    pub ended: bool,
}

/// What `refused` holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRefused {
    /// The refused versions.
    pub refused: Refused,
    /// The highest number of a record that is among them.
    pub through: u64,
    /// The records that are among them; `None`: written by a release that knew only `through`.
    pub known: Option<BTreeSet<RecordKey>>,
}

impl State {
    /// The newest rollback records, oldest first.
    pub fn rollbacks(&self) -> Vec<RollbackRecord> {
        let Ok(folder) = std::fs::read_dir(self.root().state("rollbacks")) else { return Vec::new() };
        let names = folder.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let mut numbers: Vec<u64> = names.filter_map(|name| name.parse().ok()).collect();
        numbers.sort_unstable();
        let surplus = numbers.len().saturating_sub(RECORDS_MAX);
        numbers.drain(..surplus);
        numbers.into_iter().filter_map(|id| self.rollback(id)).collect()
    }

    fn rollback(&self, id: u64) -> Option<RollbackRecord> {
        let pairs = self.pairs(&format!("rollbacks/{id}"))?;
        let text = |key: &str| pairs.get(key).filter(|value| !value.is_empty()).map(str::to_owned);
        let word = |key: &str| text(key).unwrap_or_default().replace(' ', "?");
        let state = pairs.get("state").unwrap_or_default();
        let reason = text("reason").filter(|reason| reason != "none").or_else(|| text("result"));
        let report = Rollback {
            id,
            boot: text("boot_id").unwrap_or_default(),
            from: text("from").unwrap_or_default(),
            to: text("to").unwrap_or_default(),
            attempt: pairs.parsed("attempt").unwrap_or_default(),
            rollout: text("rollout"),
            // A record that was left open by a script that is gone is no success.
            outcome: if state == "rolled-back" { state } else { "failed" }.to_owned(),
            reason: reason.unwrap_or_else(|| "it did not stay up".into()),
            result: text("result"),
            code: text("code"),
            status: text("status"),
            log: pairs.all("log").map(str::to_owned).collect(),
        };
        let key = RecordKey { id, boot: word("boot_id"), begun: word("begun") };
        Some(RollbackRecord { key, from: pairs.parsed("from"), report, ended: state != "begun" })
    }

    /// The highest record number that is over.
    pub fn settled(&self) -> u64 {
        self.pairs("rollbacks.settled").and_then(|pairs| pairs.parsed("through")).unwrap_or_default()
    }

    /// Settles the records up to this number.
    pub fn store_settled(&self, through: u64) -> io::Result<()> {
        self.store_pairs("rollbacks.settled", Pairs::new().push("format", 1).push("through", through))
    }

    /// The records that the mesh has stored. An `id=` line without its `record=` line is of an earlier
    /// release and means the record that has this number on the disk now.
    pub fn acknowledged(&self) -> BTreeSet<RecordKey> {
        let pairs = self.pairs("rollbacks.acked").unwrap_or_default();
        let mut keys: BTreeSet<RecordKey> =
            pairs.all("record").filter_map(|line| line.parse().ok()).collect();
        let ids = pairs.all("id").filter_map(|id| id.parse().ok());
        let plain: BTreeSet<u64> = ids.filter(|id| !keys.iter().any(|key| key.id == *id)).collect();
        if !plain.is_empty() {
            let records = self.rollbacks().into_iter().map(|record| record.key);
            keys.extend(records.filter(|key| plain.contains(&key.id)));
        }
        keys
    }

    /// Notes them, with those of the highest numbers for the scripts; those without a record on the
    /// disk go when there are many.
    pub fn store_acknowledged(&self, keys: &BTreeSet<RecordKey>) -> io::Result<()> {
        let mut kept: Vec<&RecordKey> = keys.iter().collect();
        if kept.len() > 2 * RECORDS_MAX {
            let here: BTreeSet<RecordKey> = self.rollbacks().into_iter().map(|record| record.key).collect();
            let highest = kept.len() - RECORDS_MAX;
            let mut place = 0;
            kept.retain(|key| {
                place += 1;
                place > highest || here.contains(key)
            });
        }
        let mut pairs = Pairs::new();
        pairs.push("format", 1);
        for key in kept {
            pairs.push("id", key.id).push("record", key);
        }
        self.store_pairs("rollbacks.acked", &pairs)
    }

    /// The refused versions; `None` when the file is missing or damaged.
    pub fn refused(&self) -> Option<StoredRefused> {
        let pairs = self.pairs("refused")?;
        let mut refused = Refused::default();
        for line in pairs.all("refused") {
            let mut parts = line.splitn(3, ' ');
            let mut part = |key: &str| parts.next()?.strip_prefix(key)?.strip_prefix('=');
            let (version, attempt, reason) = (part("version"), part("attempt"), part("reason"));
            let (Some(Ok(version)), Some(Ok(attempt))) = (version.map(str::parse), attempt.map(str::parse))
            else {
                continue;
            };
            refused.restore(version, Entry { attempt, reason: reason.unwrap_or_default().to_owned() });
        }
        let known = pairs.all("record").filter_map(|line| line.parse().ok()).collect();
        let has_keys = pairs.get("known").is_some();
        let through = pairs.parsed("through").unwrap_or_default();
        Some(StoredRefused { refused, through, known: has_keys.then_some(known) })
    }

    /// Stores the refused versions and the records that are among them.
    pub fn store_refused(
        &self,
        refused: &Refused,
        through: u64,
        known: &BTreeSet<RecordKey>,
    ) -> io::Result<()> {
        let mut pairs = Pairs::new();
        pairs.push("format", 1).push("through", through).push("known", "record");
        for (version, Entry { attempt, reason }) in refused.iter() {
            pairs.push("refused", format!("version={version} attempt={attempt} reason={reason}"));
        }
        for key in known {
            pairs.push("record", key);
        }
        self.store_pairs("refused", &pairs)
    }
}

#[cfg(test)]
#[path = "rollbacks_tests.rs"]
mod tests;
