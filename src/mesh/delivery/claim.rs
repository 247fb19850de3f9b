//! The claim: a node's last question before it touches a package.

use super::state::{Outcome, Rollout, State};
use crate::model::{Attempt, NodeId};
use std::fmt;

/// Why a node may not begin. Displays as a sentence for the node's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotGranted {
    /// The node is not, or no longer, told by this rollout.
    NotTold,
    /// Another attempt than this rollout's.
    OtherAttempt,
    /// The rollout was stopped.
    Stopped,
    /// The rollout is complete, and a newer one has taken over.
    Closed,
    /// The rollout is being held; ask again later.
    Holding,
    /// The node's attempt is over: one attempt a node and rollout (C38).
    Decided,
}

impl fmt::Display for NotGranted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NotGranted::NotTold => "this node is not in the current wave of the rollout",
            NotGranted::OtherAttempt => "this attempt is not the rollout's",
            NotGranted::Stopped => "the rollout was stopped",
            NotGranted::Closed => "the rollout is over; a newer one has begun",
            NotGranted::Holding => "the rollout is on hold; ask again later",
            NotGranted::Decided => "this node's attempt in the rollout is over",
        })
    }
}

/// Grants the claim, as a rollout to be stored by compare-and-swap *before* the node is answered; stop
/// and claim meet there (C76). Asking again is granted again. A complete rollout grants only the node that
/// it lets catch up, for nobody else is told then.
pub fn claim(rollout: &Rollout, node: &NodeId, attempt: Attempt) -> Result<Rollout, NotGranted> {
    match rollout.state {
        State::Stopped => return Err(NotGranted::Stopped),
        State::Holding => return Err(NotGranted::Holding),
        State::Complete if rollout.closed => return Err(NotGranted::Closed),
        State::Waiting | State::Running | State::Complete => {}
    }
    if attempt != rollout.attempt {
        return Err(NotGranted::OtherAttempt);
    }
    let member = rollout.members.get(node).ok_or(NotGranted::NotTold)?;
    if member.outcome.is_terminal() {
        return Err(NotGranted::Decided);
    }
    if member.outcome == Outcome::Pending || member.told.is_none() {
        return Err(NotGranted::NotTold);
    }
    let mut next = rollout.clone();
    if let Some(member) = next.members.get_mut(node) {
        member.claimed = true;
    }
    Ok(next)
}
