//! The files about orders and declarations: `order`, `result`, `attempt`, `applying`, `set-aside`.
//!
//! `result` is written by the install script and only read here.

use super::State;
use crate::host::life::quarantine::Mark;
use crate::host::life::upgrade::{Attempted, Class, Failure, Progress, Reason};
use crate::model::keyvalue::Pairs;
use crate::model::{Attempt, BootId, Digest, Generation, RolloutId, Version};
use std::io;

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
    /// The end of the claim: seconds of that boot's clock, as `/proc/uptime` counts them.
    pub claim_until: u64,
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
            .push("boot_id", &order.boot_id)
            .push("claim_until", order.claim_until);
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
