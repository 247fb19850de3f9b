//! Whether to carry out the declared version now. The host has no wish of its own: it moves only when a
//! rollout asks, only once for each attempt (C18), only when it could come back, and not against a
//! person's hand (C37).

use super::refuse::Refused;
use crate::model::{Attempt, RolloutId, Version};
use crate::wire::declaration::Target;
use std::fmt;

/// Times that one attempt may begin to install before it counts as failed: power cuts are no fault of
/// the release, but there is an end to everything.
pub const TRIES_MAX: u32 = 3;

/// The last order that this node worked on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempted {
    /// The version ordered.
    pub version: Version,
    /// The attempt.
    pub attempt: Attempt,
    /// The rollout.
    pub rollout: RolloutId,
    /// How far it came.
    pub state: Progress,
}

impl Attempted {
    /// Whether the version ran here and was confirmed.
    pub fn is_reached(&self) -> bool {
        self.state == Progress::Reached
    }
}

/// How far an order came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The install began this many times; no result yet.
    Begun(u32),
    /// The package is installed; the version has not been confirmed yet.
    Installed,
    /// The version ran here and was confirmed.
    Reached,
    /// It ended without the version.
    Failed(Failure),
}

/// Why an order failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Whose fault it is.
    pub class: Class,
    /// One word.
    pub reason: Reason,
    /// One line for a person.
    pub detail: String,
}

/// Whose fault a failed order is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// This machine.
    Machine,
    /// The release.
    Release,
}

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$word_doc:meta])* $variant:ident = $word:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$word_doc])* $variant),* }

        impl $name {
            /// Every one of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// As it is written in files and on the wire.
            pub fn word(self) -> &'static str {
                match self { $(Self::$variant => $word),* }
            }

            /// Reads the word.
            pub fn from_word(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|one| one.word() == word)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.word())
            }
        }
    };
}

words!(
    /// The reasons of `result`, plus those that the host finds before an install.
    Reason {
        /// Too little space, or the disk refuses.
        Disk = "disk",
        /// Somebody else uses the package manager.
        Lock = "lock",
        /// The package database is broken.
        Database = "database",
        /// The state folder or the order is not as it should be.
        State = "state",
        /// The package is not what it should be, or its scripts fail.
        Package = "package",
        /// The package cannot be had now.
        Unavailable = "unavailable",
        /// A time limit.
        Timeout = "timeout",
        /// A person holds the package.
        Held = "held",
        /// The claim ran out before the package manager could begin.
        Claim = "claim",
    }
);

words!(
    /// Why an order waits.
    Waiting {
        /// An install runs.
        Installing = "installing",
        /// A person changed the version after this attempt had succeeded, or holds the package (C37).
        Held = "held",
        /// The pin file of a person.
        Pinned = "pinned",
        /// The first reconcile of this process is not over.
        Reconciling = "reconciling",
        /// A rollback could not follow.
        Unarmed = "unarmed",
    }
);

impl Reason {
    /// Whether the same attempt is tried again after a while.
    pub fn passes(self) -> bool {
        matches!(self, Reason::Lock | Reason::Unavailable | Reason::Held | Reason::Claim)
    }
}

/// What is known when the decision is made.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The running version, compiled in.
    pub running: &'a Version,
    /// Whether a rollback could follow.
    pub armed: bool,
    /// Whether the pin file exists.
    pub pinned: bool,
    /// Whether this process got through a full reconcile.
    pub reconciled: bool,
    /// Whether an install runs.
    pub install_runs: bool,
    /// What was rolled back here.
    pub refused: &'a Refused,
    /// The last order worked on.
    pub last: Option<&'a Attempted>,
}

/// What to do about the declared version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It runs.
    Nothing,
    /// It was rolled back here; the text says why.
    Refused(String),
    /// This attempt failed; it is not tried again.
    Failed(Failure),
    /// Not now.
    Wait(Waiting),
    /// Fetch, preflight, claim, install.
    Go,
}

/// Decides. The order of the questions is the order of their weight.
pub fn decide(target: &Target, view: &View<'_>) -> Decision {
    let version = &target.package.version;
    if version == view.running {
        return Decision::Nothing;
    }
    if view.install_runs {
        return Decision::Wait(Waiting::Installing);
    }
    if let Some(entry) = view.refused.of(version, target.attempt) {
        return Decision::Refused(entry.reason.clone());
    }
    let answered = view.last.filter(|last| last.version == *version && target.attempt <= last.attempt);
    match answered.map(|last| &last.state) {
        None => {}
        Some(Progress::Reached | Progress::Installed) => return Decision::Wait(Waiting::Held),
        Some(Progress::Failed(failure)) if !failure.reason.passes() => {
            return Decision::Failed(failure.clone());
        }
        Some(Progress::Begun(tries)) if *tries >= TRIES_MAX => return Decision::Failed(interrupted(*tries)),
        Some(Progress::Failed(_) | Progress::Begun(_)) => {}
    }
    if view.pinned {
        return Decision::Wait(Waiting::Pinned);
    }
    if !view.reconciled {
        return Decision::Wait(Waiting::Reconciling);
    }
    if !view.armed && !target.insist_unarmed {
        return Decision::Wait(Waiting::Unarmed);
    }
    Decision::Go
}

/// How often the order's install has begun before, for the next [`Progress::Begun`].
pub fn tries_so_far(target: &Target, last: Option<&Attempted>) -> u32 {
    let same = last.filter(|last| last.version == target.package.version && last.attempt == target.attempt);
    match same.map(|last| &last.state) {
        Some(Progress::Begun(tries)) => *tries,
        _ => 0,
    }
}

fn interrupted(tries: u32) -> Failure {
    let detail = format!("the install was cut off {tries} times");
    Failure { class: Class::Machine, reason: Reason::State, detail }
}

impl Class {
    /// As it is written in files and on the wire.
    pub fn word(self) -> &'static str {
        match self {
            Class::Machine => "machine",
            Class::Release => "release",
        }
    }

    /// Reads the word.
    pub fn from_word(word: &str) -> Option<Self> {
        [Class::Machine, Class::Release].into_iter().find(|class| class.word() == word)
    }
}
