//! The claim: a node's last question before it touches a package.

use super::state::Rollout;
use crate::model::{Attempt, NodeId};

/// Why a node may not begin. Displays as a sentence for the node's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotGranted {
    /// The node is not, or no longer, told by this rollout.
    NotTold,
    /// Another attempt than this rollout's.
    OtherAttempt,
    /// The rollout was stopped.
    Stopped,
    /// The rollout is being held; ask again later.
    Holding,
    /// The node's attempt is over: one attempt a node and rollout (C38).
    Decided,
}

/// Grants the claim, as a rollout to be stored by compare-and-swap *before* the node is answered; stop
/// and claim meet there (C76). Asking again is granted again.
pub fn claim(rollout: &Rollout, node: &NodeId, attempt: Attempt) -> Result<Rollout, NotGranted> {
    let _ = (rollout, node, attempt);
    Err(NotGranted::NotTold)
}
