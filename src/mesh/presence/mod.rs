//! Presence: what each node last stated, and when the mesh heard it.
//!
//! Owns one [`Presence`] a node: a pure fold of its heartbeats. The link calls [`hear`] for each
//! heartbeat, the driver calls [`look`] now and then to notice who went silent; both pass the
//! [`Transition`]s on to whoever records them. Never the source of truth of anything, never a clock, a
//! file or a log: a lost presence is told again by the next heartbeat.
//!
//! Time is *mesh time*: milliseconds of the mesh's own monotonic clock (C88). What a node says of time is
//! information only. After a restart, a failover or deafness a new [`Listening`] epoch begins, and every
//! clock of silence starts again: silence counts only while the mesh could hear.
//!
//! ```text
//!            heartbeat                       no heartbeat for silence_ms of listening
//!   never ──────────────► heard ◄──────────────────────────────────────────► silent
//!                           │  ▲  heartbeat
//!             goodbye       ▼  │
//!                          offline   (never becomes silent: leaving is not silence)
//! ```

mod fold;
mod listening;
mod stored;
#[cfg(test)]
mod tests;

use crate::model::{Generation, StartId, Version};
use serde::{Deserialize, Serialize};

pub use fold::{hear, look};
pub use listening::Listening;

/// Milliseconds of mesh time: monotonic, never a date.
pub type Millis = u64;

/// Most rollback records kept of one node: enough for the present rollout and its predecessors.
pub const ROLLBACKS_MAX: usize = 4;
/// Most earlier boots remembered of one node, to tell a late heartbeat from a new machine.
pub const BOOTS_MAX: usize = 4;
/// Longest id, version or word that is taken of a node, in bytes: a boot id has 36, a version less.
pub const WORD_BYTES_MAX: usize = 96;
/// Longest sentence or log line that is taken of a node, in bytes: what a rollback record keeps of a line.
pub const LINE_BYTES_MAX: usize = 400;

/// What the mesh knows of one node from its heartbeats. A checkpoint of it may be stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Presence {
    /// Mesh time of the last heartbeat that was taken; none: never heard.
    pub heard_at: Option<Millis>,
    /// Since when it was heard without an absence, in mesh time.
    pub present_since: Millis,
    /// How often it went silent or said goodbye: zero is a steady node. Saturates.
    pub absences: u32,
    /// Set while it is silent: when that was noticed.
    pub silent_at: Option<Millis>,
    /// The reason, when its last heartbeat was a goodbye.
    pub goodbye: Option<String>,
    /// Which process spoke, and its last statement's number.
    pub spoke: Spoke,
    /// Grows with every boot seen of this node.
    pub boot_epoch: u64,
    /// Earlier boots with the last statement taken from each, newest last.
    pub earlier_boots: Vec<Spoke>,
    /// Statements of earlier boots that came after their time.
    pub strays: u32,
    /// Two machines speak with this node's identity (a cloned disk).
    pub duplicated: bool,
    /// The running version; none: it said something that is not a version.
    pub version: Option<Version>,
    /// Whether that version got through a full reconcile.
    pub confirmed: bool,
    /// The version that a rollback would return to.
    pub known_good: Option<Version>,
    /// Whether a rollback would work now.
    pub armed: bool,
    /// Why it would not.
    pub unarmed_because: Option<String>,
    /// Generation of the newest declaration that it accepted.
    pub accepted: Generation,
    /// Generation of the newest declaration that a reconcile got through.
    pub applied: Generation,
    /// How many resources failed in the last reconcile.
    pub failed: u64,
    /// The first of them: name and error.
    pub failures: Vec<(String, String)>,
    /// Versions that it does not install until a newer attempt asks.
    pub refused: Vec<Refusal>,
    /// How far it is with its order.
    pub order: Option<Order>,
    /// The last rollbacks that it reported, oldest first, kept after they are acknowledged.
    pub rollbacks: Vec<RollbackRecord>,
    /// Why it refused the last declaration.
    pub declaration_refused: Option<String>,
}

/// A process on a node and the last statement heard of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spoke {
    /// The kernel's boot id.
    pub boot: String,
    /// Grows with every start of the host.
    pub start: StartId,
    /// Grows with every heartbeat of one start.
    pub sequence: u64,
}

/// A version that a node refuses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The version, as the node wrote it.
    pub version: String,
    /// The attempt that failed; 0: installed by hand.
    pub attempt: u64,
    /// Why.
    pub reason: String,
}

/// How far a node is with an order. The words are those of the heartbeat.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// The rollout that ordered it.
    pub rollout: String,
    /// The attempt id.
    pub attempt: u64,
    /// The version ordered.
    pub version: String,
    /// `received`, `fetching`, `ready`, `installing`, `installed`, `failed`, `deferred`.
    pub state: String,
    /// For `failed`: `machine` or `release`.
    pub class: Option<String>,
    /// For `failed` and `deferred`: one word.
    pub reason: Option<String>,
    /// One line for a person.
    pub detail: Option<String>,
}

/// A rollback as the node's script recorded it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RollbackRecord {
    /// The record's number on the node; with `boot` it names the record.
    pub id: u64,
    /// Boot id of the rollback.
    pub boot: String,
    /// The version that failed.
    pub from: String,
    /// The version that was brought back.
    pub to: String,
    /// The attempt that had installed `from`; 0: by hand.
    pub attempt: u64,
    /// The rollout of that attempt.
    pub rollout: Option<String>,
    /// `rolled-back` or `failed`.
    pub outcome: String,
    /// Why, in a word or a line.
    pub reason: String,
    /// systemd's result of the failed unit.
    pub result: Option<String>,
    /// `exited`, `killed`, `dumped`.
    pub code: Option<String>,
    /// Exit status or signal name.
    pub status: Option<String>,
    /// The failed version's last log lines.
    pub log: Vec<String>,
}

/// A change worth recording (rule 11: heartbeats are presence, only transitions are recorded).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transition {
    /// It was heard for the first time.
    FirstHeard,
    /// It runs another version than before: (before, now), as texts.
    VersionChanged(String, String),
    /// Its running version is confirmed now.
    Confirmed(String),
    /// It reported a rollback that was not known yet.
    RolledBack(RollbackRecord),
    /// It was not heard for the time of silence while the mesh listened.
    WentSilent,
    /// It is heard again after silence or a goodbye.
    CameBack,
    /// It said goodbye, with this reason.
    SaidGoodbye(String),
    /// Its order's state changed; none: it has no order any more.
    OrderChanged(Option<Order>),
    /// The list of versions that it refuses changed.
    RefusedChanged(Vec<Refusal>),
    /// Another machine speaks with the same identity.
    DuplicatedIdentity,
}
