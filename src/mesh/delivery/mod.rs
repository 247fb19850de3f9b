//! Delivery: carries a version to a fleet in waves, stops by itself, and says what it was.
//!
//! Owns the [`Rollout`]: its waves, what was heard of each node, why it stopped. The driver calls
//! [`start`] once, [`step`] whenever something changed or time passed, [`claim`] when a node asks
//! whether it may begin, and [`report`] for people. It stores the new rollout by compare-and-swap
//! *before* it carries the actions out. Never a clock, a file, a log, a node spoken to; no randomness but
//! a seed made from the rollout's id.
//!
//! Level-triggered: a step compares what should be told with what *is* declared, so lost actions come
//! again and a crash between two steps repeats, never skips (C74).
//!
//! ```text
//!               nobody can be told yet
//!        ┌──────────────────────────────────┐
//!   waiting ────────────► running ◄────────► holding    the control group or the mesh itself is deaf
//!        ▲ first eligible   │  │
//!      start                │  └──────────► stopped     evidence, silence, a person; final
//!                           │               ▲ failures of those who catch up
//!                           └─────────────► complete    nobody is left to tell: the others are away, and
//!                                                       not for a moment; who comes back gets it alone
//! ```
//!
//! One node in a rollout:
//!
//! ```text
//!   pending ─► told ─► received ─► (claimed) ─► confirmed            heard, never assumed (C68)
//!      ▲         │         ├──► rolled-back, install-failed, not-confirmed, unexpected-version
//!      └─────────┘         ├──► deferred
//!    lost before receipt   └──► silent
//! ```
//! What stands on the right is terminal: a later heartbeat updates the list, never the decision (C67).
//!
//! | file | what |
//! |---|---|
//! | `state`, `view` | the stored rollout; what a step is shown, what it wants done |
//! | `start`, `claim`, `step` | the entrances |
//! | `clock` | listening time, who is there, who is silent |
//! | `eligible`, `draw` | who can be told, who is told next |
//! | `observe` | one node's outcome |
//! | `outage` | whether silence may be judged, or is the mesh's own |
//! | `judge` | go on or stop |
//! | `verdict`, `list`, `report`, `text` | what people and programs are told |

mod claim;
mod clock;
mod draw;
mod eligible;
mod judge;
mod list;
mod observe;
mod outage;
mod report;
mod start;
mod state;
mod step;
#[cfg(test)]
mod tests;
mod text;
mod verdict;
mod view;
mod words;

pub use claim::{NotGranted, claim};
pub use list::report;
pub use report::{
    EvidenceReport, NodeReport, NotIncluded, Report, StoppedBecause, VerdictKind, VerdictReport, WaitingFor,
    WaveReport,
};
pub use start::{Refused, abort, close, start};
pub use state::{
    Clock, Evidence, FORMAT, Fell, Member, Outcome, Plan, Rollout, Size, State, StopKind, Stopped,
    StratumKey, Told, Wave,
};
pub use step::step;
pub use view::{Action, FleetView, NodeView, OrderView};

/// Most nodes of the control group that are remembered for a wave: enough to see an outage.
pub const CONTROL_MAX: usize = 200;
