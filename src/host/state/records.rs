//! The files about versions: `order`, `result`, `rollbacks/`, `rollbacks.settled`, `rollbacks.acked`,
//! `refused`, `applying`, `set-aside`, `attempt`.
//!
//! `rollbacks/` is written by the rollback script and `result` by the install script; both are only
//! read here. A record that the script is still writing does not exist: it renames it into place.

use super::State;
use crate::host::life::quarantine::Mark;
use crate::host::life::refuse::{Entry, Refused};
use crate::host::life::upgrade::{Attempted, Class, Failure, Progress, Reason};
use crate::model::keyvalue::Pairs;
use crate::model::{Attempt, BootId, Digest, Generation, RolloutId, Version};
use crate::wire::heartbeat::Rollback;
use std::collections::BTreeSet;
use std::io;

/// Most rollback records that are looked at: the newest ones.
const RECORDS_MAX: usize = 32;

/// `order`: what the install script is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// The version.
    pub version: Version,
    /// The rollout.
    pub rollout: RolloutId,
    /// The attempt.
    pub attempt: Attempt,
    /// File name inside `packages/`.
    pub package: String,
    /// Of that file.
    pub sha256: Digest,
    /// The boot in which the mesh granted it.
    pub boot_id: BootId,
}

/// `result`: how an install ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The attempt that it belongs to.
    pub attempt: Attempt,
    /// The version.
    pub version: Option<Version>,
    /// `None`: installed.
    pub failure: Option<Failure>,
}

/// One record of the rollback script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RollbackRecord {
    /// Its number.
    pub id: u64,
    /// The version that failed; `None`: the script could not tell.
    pub from: Option<Version>,
    /// As it goes to the mesh.
    pub report: Rollback,
    /// Whether the rollback has ended, well or not.
    pub ended: bool,
}

impl State {
    /// Writes the order.
    pub fn store_order(&self, order: &Order) -> io::Result<()> {
        let mut pairs = Pairs::new();
        pairs
            .push("format", 1)
            .push("version", &order.version)
            .push("rollout", &order.rollout)
            .push("attempt", order.attempt)
            .push("package", &order.package)
            .push("sha256", order.sha256)
            .push("boot_id", &order.boot_id);
        self.store_pairs("order", &pairs)
    }

    /// How the last install ended.
    pub fn outcome(&self) -> Option<Outcome> {
        let pairs = self.pairs("result")?;
        let failure = match pairs.get("status")? {
            "installed" => None,
            _ => Some(Failure {
                class: pairs.get("class").and_then(Class::from_word).unwrap_or(Class::Machine),
                reason: pairs.get("reason").and_then(Reason::from_word).unwrap_or(Reason::State),
                detail: pairs.get("detail").unwrap_or_default().to_owned(),
            }),
        };
        Some(Outcome { attempt: pairs.parsed("attempt")?, version: pairs.parsed("version"), failure })
    }

    /// The last order worked on.
    pub fn attempted(&self) -> Option<Attempted> {
        let pairs = self.pairs("attempt")?;
        let state = match pairs.get("state")? {
            "begun" => Progress::Begun(pairs.parsed("tries")?),
            "installed" => Progress::Installed,
            "reached" => Progress::Reached,
            _ => Progress::Failed(Failure {
                class: pairs.get("class").and_then(Class::from_word)?,
                reason: pairs.get("reason").and_then(Reason::from_word)?,
                detail: pairs.get("detail").unwrap_or_default().to_owned(),
            }),
        };
        Some(Attempted {
            version: pairs.parsed("version")?,
            attempt: pairs.parsed("attempt")?,
            rollout: pairs.parsed("rollout")?,
            state,
        })
    }

    /// Notes how far an order came.
    pub fn store_attempted(&self, attempted: &Attempted) -> io::Result<()> {
        let mut pairs = Pairs::new();
        pairs
            .push("format", 1)
            .push("version", &attempted.version)
            .push("attempt", attempted.attempt)
            .push("rollout", &attempted.rollout);
        match &attempted.state {
            Progress::Begun(tries) => pairs.push("state", "begun").push("tries", tries),
            Progress::Installed => pairs.push("state", "installed"),
            Progress::Reached => pairs.push("state", "reached"),
            Progress::Failed(failure) => pairs
                .push("state", "failed")
                .push("class", failure.class.word())
                .push("reason", failure.reason)
                .push("detail", &failure.detail),
        };
        self.store_pairs("attempt", &pairs)
    }

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
        Some(RollbackRecord { id, from: pairs.parsed("from"), report, ended: state != "begun" })
    }

    /// The highest record number that is over.
    pub fn settled(&self) -> u64 {
        self.pairs("rollbacks.settled").and_then(|pairs| pairs.parsed("through")).unwrap_or_default()
    }

    /// Settles the records up to this number.
    pub fn store_settled(&self, through: u64) -> io::Result<()> {
        self.store_pairs("rollbacks.settled", Pairs::new().push("format", 1).push("through", through))
    }

    /// The records that the mesh has stored.
    pub fn acknowledged(&self) -> BTreeSet<u64> {
        let pairs = self.pairs("rollbacks.acked").unwrap_or_default();
        pairs.all("id").filter_map(|id| id.parse().ok()).collect()
    }

    /// Notes them; only the newest are of interest.
    pub fn store_acknowledged(&self, ids: &BTreeSet<u64>) -> io::Result<()> {
        let mut pairs = Pairs::new();
        pairs.push("format", 1);
        for id in ids.iter().rev().take(2 * RECORDS_MAX).rev() {
            pairs.push("id", id);
        }
        self.store_pairs("rollbacks.acked", &pairs)
    }

    /// The refused versions, and the number of the newest rollback record that is among them.
    pub fn refused(&self) -> (Refused, u64) {
        let mut refused = Refused::default();
        let pairs = self.pairs("refused").unwrap_or_default();
        let through = pairs.parsed("through").unwrap_or_default();
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
        (refused, through)
    }

    /// Stores the refused versions.
    pub fn store_refused(&self, refused: &Refused, through: u64) -> io::Result<()> {
        let mut pairs = Pairs::new();
        pairs.push("format", 1).push("through", through);
        for (version, Entry { attempt, reason }) in refused.iter() {
            pairs.push("refused", format!("version={version} attempt={attempt} reason={reason}"));
        }
        self.store_pairs("refused", &pairs)
    }

    /// The write-ahead mark of a reconcile that did not end.
    pub fn mark(&self) -> Option<Mark> {
        self.read_mark("applying")
    }

    /// Writes the mark.
    pub fn store_mark(&self, mark: &Mark) -> io::Result<()> {
        self.write_mark("applying", mark)
    }

    /// The generation that was set aside, and by which version.
    pub fn quarantined(&self) -> Option<(Generation, Version)> {
        self.read_mark("set-aside").map(|mark| (mark.generation, mark.version))
    }

    /// Sets a generation aside.
    pub fn store_quarantined(&self, mark: &Mark) -> io::Result<()> {
        self.write_mark("set-aside", mark)
    }

    fn read_mark(&self, name: &str) -> Option<Mark> {
        let pairs = self.pairs(name)?;
        Some(Mark {
            generation: pairs.parsed("generation")?,
            version: pairs.parsed("version")?,
            unfinished: pairs.parsed("unfinished")?,
        })
    }

    fn write_mark(&self, name: &str, mark: &Mark) -> io::Result<()> {
        let mut pairs = Pairs::new();
        pairs
            .push("format", 1)
            .push("generation", mark.generation)
            .push("version", &mark.version)
            .push("unfinished", mark.unfinished);
        self.store_pairs(name, &pairs)
    }
}

#[cfg(test)]
#[path = "records_tests.rs"]
mod tests;
