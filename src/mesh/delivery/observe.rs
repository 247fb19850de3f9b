//! What the fleet says of one told node, as an outcome.
//!
//! Statements first, time last: a node that was heard confirmed is confirmed, however late. A terminal
//! outcome is never touched again here; what is heard afterwards goes to `later` and `fell`.

use super::clock::Look;
use super::state::{Evidence, Fell, Member, Outcome, Rollout, Told};
use super::view::NodeView;
use crate::mesh::presence::{Millis, Order, Spoke};

/// Causes of a failure that lie in the machine: disk full, read-only file system, broken package database,
/// a lock that somebody holds. `state` says only that something was not as expected: no cause.
const MACHINE_REASONS: [&str; 4] = ["disk", "read-only", "database", "lock"];

/// Whether the record itself says that the machine was at fault and not the release. Of a rollback that
/// failed the reason tells why the old version did not come back, not why the new one fell.
fn blames_the_machine(record: &Evidence) -> bool {
    record.outcome != "failed" && MACHINE_REASONS.contains(&record.reason.as_str())
}

impl Outcome {
    /// Whether nothing more is expected of the node.
    pub fn is_terminal(&self) -> bool {
        match self {
            Outcome::Pending
            | Outcome::Told
            | Outcome::Received
            | Outcome::Starting
            | Outcome::Deferring { .. } => false,
            Outcome::Confirmed
            | Outcome::RolledBack { .. }
            | Outcome::InstallFailed { .. }
            | Outcome::Deferred { .. }
            | Outcome::Silent
            | Outcome::NotConfirmed
            | Outcome::UnexpectedVersion { .. }
            | Outcome::Withdrawn => true,
        }
    }
}

/// Looks at one told member. `deaf`: silence must not be judged now. `open`: its wave is the current one.
pub fn observe(rollout: &Rollout, member: &Member, node: &NodeView, look: &Look<'_>, sees: Sees) -> Member {
    let mut member = member.clone();
    if let Some(record) = record_of(rollout, node) {
        member.evidence = Some(record.clone());
    }
    let Some(told) = member.told.clone() else { return member };
    if member.outcome.is_terminal() {
        after_decision(rollout, &mut member, node, look, &told, sees);
        return member;
    }
    receive(rollout, &mut member, node, look, told);
    let heard = outcome_heard(rollout, &member, node);
    member.outcome =
        if heard.is_terminal() { heard } else { outcome_in_time(rollout, &member, node, look, heard, sees) };
    if member.outcome.is_terminal() {
        member.decided = Some(look.at);
    }
    member
}

/// What may be judged of a node in this step.
#[derive(Clone, Copy)]
pub struct Sees {
    /// The mesh or the control group is deaf: silence is not judged.
    pub deaf: bool,
    /// The node's wave is the current one: a confirmed node that falls is noticed.
    pub open: bool,
}

/// Whether the node left before it held the order: it is excused, and its order taken back.
pub fn left_before_receipt(
    rollout: &Rollout,
    member: &Member,
    node: &NodeView,
    look: &Look<'_>,
    deaf: bool,
) -> bool {
    let Some(told) = &member.told else { return false };
    if member.outcome.is_terminal() || member.received.is_some() || member.claimed || deaf {
        return false;
    }
    let silent = look.silent_for(node, told.at, rollout.held_until);
    node.presence.goodbye.is_some() || silent > window_ms(rollout, look)
}

/// The record of a rollback of this attempt.
fn record_of<'a>(rollout: &Rollout, node: &'a NodeView) -> Option<&'a Evidence> {
    let ours = |text: &str| text.parse().ok().as_ref() == Some(&rollout.version);
    node.presence.rollbacks.iter().rev().find(|r| r.attempt == rollout.attempt && ours(&r.from))
}

/// The node's own statement about this attempt's order.
fn order_of<'a>(rollout: &Rollout, node: &'a NodeView) -> Option<&'a Order> {
    let ours = |o: &&Order| o.attempt == rollout.attempt && o.rollout == rollout.id.as_str();
    node.presence.order.as_ref().filter(ours)
}

/// Notes that the node holds the order: it says so, it accepted the declaration with the order, it claimed,
/// it runs the target. An acknowledgement that was lost is made up for by any later one (C79).
fn receive(rollout: &Rollout, member: &mut Member, node: &NodeView, look: &Look<'_>, mut told: Told) {
    let ours = node.order.as_ref().filter(|o| o.rollout == rollout.id && o.attempt == rollout.attempt);
    if told.generation.is_none() {
        told.generation = ours.map(|o| o.generation);
    }
    let accepted = told.generation.is_some_and(|generation| node.presence.accepted >= generation);
    member.told = Some(told);
    let runs_it = node.presence.version.as_ref() == Some(&rollout.version);
    let holds = accepted || member.claimed || runs_it || order_of(rollout, node).is_some();
    if member.received.is_none() && (holds || member.evidence.is_some()) {
        member.received = Some(look.at);
    }
}

/// What the last statement says, time left aside.
fn outcome_heard(rollout: &Rollout, member: &Member, node: &NodeView) -> Outcome {
    if let Some(evidence) = &member.evidence {
        return Outcome::RolledBack { machine: blames_the_machine(evidence) };
    }
    let presence = &node.presence;
    let running = presence.version.as_ref();
    if running == Some(&rollout.version) {
        let later = member.told.as_ref().is_some_and(|told| is_later_process(&told.before, &presence.spoke));
        return if presence.confirmed && later { Outcome::Confirmed } else { Outcome::Starting };
    }
    if let Some(order) = order_of(rollout, node) {
        let reason = order.reason.clone().unwrap_or_default();
        if order.state == "failed" {
            let machine = order.class.as_deref() != Some("release");
            return Outcome::InstallFailed {
                machine,
                reason,
                detail: order.detail.clone().unwrap_or_default(),
            };
        }
        if order.state == "deferred" {
            return Outcome::Deferring { reason };
        }
    }
    // The record itself was acknowledged and lost with a mesh that died: the refusal that follows from it
    // still says what happened (C79).
    let refused = |text: &str| text.parse().ok().as_ref() == Some(&rollout.version);
    if presence.refused.iter().any(|r| r.attempt == rollout.attempt && refused(&r.version)) {
        return Outcome::RolledBack { machine: false };
    }
    match running {
        Some(other) if other.to_string() != member.stratum.version => {
            Outcome::UnexpectedVersion { version: other.to_string() }
        }
        Some(_) | None if member.received.is_some() => Outcome::Received,
        Some(_) | None => Outcome::Told,
    }
}

/// A node that ran another version when it was told must have started anew to run the target; a statement
/// of the old process can therefore never confirm (C68, C81).
fn is_later_process(before: &Spoke, now: &Spoke) -> bool {
    now.boot != before.boot || now.start > before.start
}

/// What time makes of a node that said nothing final.
fn outcome_in_time(
    rollout: &Rollout,
    member: &Member,
    node: &NodeView,
    look: &Look<'_>,
    heard: Outcome,
    sees: Sees,
) -> Outcome {
    let Some(told) = member.told.as_ref().filter(|_| !sees.deaf) else { return heard };
    let silent_for = look.silent_for(node, told.at, rollout.held_until);
    if member.received.is_some() && silent_for > patience_ms(rollout, node, look) {
        return Outcome::Silent;
    }
    // While it is silent, the window decides and not the deadline: late is said of a node that is alive.
    if silent_for > look.view.recent_ms {
        return heard;
    }
    if waited_for(rollout, member, look) <= rollout.plan.confirm_deadline_ms {
        return heard;
    }
    match heard {
        Outcome::Deferring { reason } => Outcome::Deferred { reason },
        Outcome::Pending | Outcome::Told | Outcome::Received | Outcome::Starting => Outcome::NotConfirmed,
        terminal => terminal,
    }
}

/// The window, and never less than twice the time in which a healthy node is heard: with a shorter one,
/// nodes that were heard a little earlier than others would be silent in an outage before the others are
/// noticed to be quiet too.
pub fn window_ms(rollout: &Rollout, look: &Look<'_>) -> Millis {
    rollout.plan.window_ms.max(2 * look.view.recent_ms)
}

/// How long a node was given so far: since it held the order, or the last hold ended, for a node cannot
/// begin while the rollout is held.
pub fn waited_for(rollout: &Rollout, member: &Member, look: &Look<'_>) -> Millis {
    let told_at = member.told.as_ref().map_or(look.at, |told| told.at);
    look.at.saturating_sub(member.received.unwrap_or(told_at).max(rollout.held_until))
}

/// The window, and one more for a node that said that its machine goes down or sleeps: it holds an order,
/// so the clock runs on.
pub fn patience_ms(rollout: &Rollout, node: &NodeView, look: &Look<'_>) -> Millis {
    let window = window_ms(rollout, look);
    match node.presence.goodbye.as_deref() {
        Some(why) if why.contains("shutdown") || why.contains("suspend") || why.contains("reboot") => {
            2 * window
        }
        Some(_) | None => window,
    }
}

/// What is heard after the decision: for the list, and for the gate of a wave that is still open.
fn after_decision(
    rollout: &Rollout,
    member: &mut Member,
    node: &NodeView,
    look: &Look<'_>,
    told: &Told,
    sees: Sees,
) {
    let presence = &node.presence;
    let running = presence.version.as_ref().map(ToString::to_string).unwrap_or_default();
    let on_target = presence.version.as_ref() == Some(&rollout.version);
    if member.outcome == Outcome::Confirmed {
        if !on_target {
            member.later = Some(format!("runs {running} again"));
            if sees.open && member.fell.is_none() {
                member.fell = Some(Fell::Version { version: running });
            }
        } else if sees.open && !sees.deaf && member.fell.is_none() && presence.goodbye.is_none() {
            let base = member.decided.unwrap_or(told.at);
            if look.silent_for(node, base, rollout.held_until) > window_ms(rollout, look) {
                member.fell = Some(Fell::Silent);
            }
        }
        return;
    }
    if member.evidence.is_some() && !matches!(member.outcome, Outcome::RolledBack { .. }) {
        member.later = Some(format!("rolled back later, on {running}"));
    } else if on_target && presence.confirmed && is_later_process(&told.before, &presence.spoke) {
        member.later = Some(format!("heard later, confirmed on {running}"));
    } else if member.outcome == Outcome::Silent && look.is_there(node) {
        member.later = Some(format!("heard later, on {running}"));
    }
}
