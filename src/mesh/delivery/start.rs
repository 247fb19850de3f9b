//! How a rollout begins, and how a person ends it.

use super::FORMAT;
use super::clock::Look;
use super::eligible::all_refuse;
use super::state::{Clock, Member, Outcome, Plan, Rollout, Size, State, StopKind, StratumKey};
use super::step::stop;
use super::text::names;
use super::view::FleetView;
use crate::mesh::presence::{LINE_BYTES_MAX, Millis};
use crate::model::{Attempt, NodeId, RolloutId, Version};
use crate::wire::limits::cut;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Most canaries of one stratum, most waves in a plan, most nodes in one size, longest time: far beyond
/// any fleet, and small enough that no count of it stalls the mesh.
const CANARIES_MAX: u32 = 1000;
const WAVES_MAX: usize = 100;
const NODES_MAX: u32 = 1_000_000;
const TIME_MAX: Millis = 30 * 24 * 3_600_000;

/// Why a rollout is not started. Displays as a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The selector matched no node.
    NothingMatched,
    /// No package of this version fits any of the nodes.
    NoPackage(Version),
    /// Every node that does not run this version refuses it; their names and reasons.
    AllRefuse(Version, Vec<String>),
    /// A number in the plan makes no sense; which one.
    Plan(&'static str),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::NothingMatched => f.write_str("the selector matches no node; see 'nox-mesh nodes'"),
            Refused::NoPackage(version) => {
                write!(
                    f,
                    "no package of {version} fits any of these nodes; add one with 'nox-mesh package add'"
                )
            }
            Refused::AllRefuse(version, reasons) => {
                let reasons = names(reasons.iter().map(String::as_str));
                write!(f, "nobody is left to ask for {version}: {reasons}")
            }
            Refused::Plan(what) => write!(f, "the plan makes no sense: {what}"),
        }
    }
}

impl std::error::Error for Refused {}

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
    check(&plan)?;
    let members: BTreeMap<NodeId, Member> = matched
        .iter()
        .filter_map(|id| view.nodes.get_key_value(id))
        .map(|(id, node)| {
            let running = node.presence.version.as_ref().map(ToString::to_string).unwrap_or_default();
            (id.clone(), pending(&node.name, StratumKey::new(&node.facts, &running)))
        })
        .collect();
    if members.is_empty() {
        return Err(Refused::NothingMatched);
    }
    let mut missing = members
        .keys()
        .filter_map(|id| view.nodes.get(id))
        .filter(|node| node.presence.version.as_ref() != Some(&version))
        .peekable();
    let all_there = missing.peek().is_none();
    if !all_there && !missing.any(|node| node.has_package) {
        return Err(Refused::NoPackage(version));
    }
    let rollout = Rollout {
        format: FORMAT,
        id,
        version,
        attempt,
        plan,
        state: if all_there { State::Complete } else { State::Waiting },
        stopped: None,
        clock: Clock { listened: 0, epoch: view.listening.epoch, marked: now },
        held_since: None,
        held_until: 0,
        members,
        waves: Vec::new(),
        replaced: BTreeSet::new(),
        closed: false,
    };
    match all_refuse(&rollout, &Look::new(&rollout, view, now)) {
        Some(refusals) => {
            let reasons = refusals.iter().map(|(name, reason)| format!("{name} {reason}")).collect();
            Err(Refused::AllRefuse(rollout.version, reasons))
        }
        None => Ok(rollout),
    }
}

fn pending(name: &str, stratum: StratumKey) -> Member {
    Member {
        name: name.to_owned(),
        stratum,
        wave: None,
        told: None,
        received: None,
        claimed: false,
        outcome: Outcome::Pending,
        decided: None,
        fell: None,
        evidence: None,
        later: None,
        replaced: false,
    }
}

fn check(plan: &Plan) -> Result<(), Refused> {
    let nothing = |size: &Size| matches!(size, Size::Nodes(0) | Size::Percent(0));
    let too_much = |size: &Size| matches!(size, Size::Percent(101..));
    let sizes = || plan.waves.iter().chain([&plan.max_in_change]);
    let times = [plan.window_ms, plan.confirm_deadline_ms, plan.soak_ms];
    let rules = [
        (plan.canary == 0, "a rollout needs at least one canary"),
        (plan.waves.is_empty(), "a rollout needs at least one wave after the canary"),
        (sizes().any(nothing), "a wave of no node"),
        (sizes().any(too_much), "more than 100 %"),
        (plan.window_ms == 0, "a window of no time"),
        (plan.confirm_deadline_ms == 0, "a confirm deadline of no time"),
        (plan.canary > CANARIES_MAX, "more than 1000 canaries of one kind"),
        (plan.waves.len() > WAVES_MAX, "more than 100 sizes of waves"),
        (
            sizes().any(|size| matches!(size, Size::Nodes(n) if *n > NODES_MAX)),
            "a wave of more than 1000000 nodes",
        ),
        (times.iter().any(|time| *time > TIME_MAX), "a time of more than 30 days"),
    ];
    rules.iter().find(|(wrong, _)| *wrong).map_or(Ok(()), |(_, what)| Err(Refused::Plan(what)))
}

/// Stops a rollout by a person's order. A rollout that has stopped already stays as it is; a complete one
/// stops catching up. The next step withdraws the orders of those who have not begun.
pub fn abort(rollout: &Rollout, why: &str, view: &FleetView, now: Millis) -> Rollout {
    let mut next = rollout.clone();
    if next.state == State::Stopped {
        return next;
    }
    let at = Look::new(rollout, view, now).at;
    next.clock = rollout.clock.mark(&view.listening, now);
    let text = if why.is_empty() {
        "stopped by a person".into()
    } else {
        format!("stopped by a person: {}", cut(why, LINE_BYTES_MAX))
    };
    stop(&mut next, StopKind::Aborted, BTreeSet::new(), Some(text), at);
    next
}

/// Closes a rollout that is complete, when a newer one starts: it grants no claim and tells nobody any
/// more; the next step withdraws the order of a node that has not begun, and one that has is heard to its
/// end. A rollout that is not complete stays as it is. Stored by compare-and-swap, before the newer one.
pub fn close(rollout: &Rollout) -> Rollout {
    Rollout { closed: rollout.closed || rollout.state == State::Complete, ..rollout.clone() }
}
