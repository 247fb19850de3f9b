//! One step of a rollout.

use super::report::{Report, report};
use super::state::Rollout;
use super::view::{Action, FleetView};
use crate::mesh::presence::Millis;

/// Looks at the fleet and moves the rollout as far as it goes. The caller stores the result by
/// compare-and-swap if it differs from what it read, and only then carries the actions out.
pub fn step(rollout: &Rollout, view: &FleetView, now: Millis) -> (Rollout, Vec<Action>, Report) {
    let next = rollout.clone();
    let said = report(&next, view, now);
    (next, Vec::new(), said)
}
