//! One step of a rollout: listen, observe, excuse, judge, pass, draw; then say what is to be done.

use super::clock::{Look, MARK_MS};
use super::draw;
use super::eligible::{NotEligible, all_refuse, eligible, may_be_back_in};
use super::judge;
use super::list::report;
use super::observe::{self, Sees};
use super::outage;
use super::report::Report;
use super::state::{Outcome, Rollout, State, StopKind, Stopped};
use super::text::names;
use super::verdict;
use super::view::{Action, FleetView};
use crate::mesh::presence::Millis;
use crate::model::NodeId;
use std::collections::BTreeSet;

/// Looks at the fleet and moves the rollout as far as it goes. The caller stores the result by
/// compare-and-swap if it differs from what it read, and only then carries the actions out.
///
/// A stopped rollout may be stepped too, as long as members are undecided or silent
/// ([`Rollout::is_unsettled`]): what is heard later comes into its list (C67), nobody is told, and why it
/// stopped stays. The only action then is to withdraw an order that is still declared.
pub fn step(rollout: &Rollout, view: &FleetView, now: Millis) -> (Rollout, Vec<Action>, Report) {
    let look = Look::new(rollout, view, now);
    let mut next = rollout.clone();
    let deaf = outage::is_deaf(&next, &look);
    hold_or_go_on(&mut next, deaf, &look);
    observe_all(&mut next, deaf, &look);
    if next.state == State::Stopped || next.closed {
        take_back_open_orders(&mut next, &look);
    } else {
        excuse(&mut next, deaf, &look);
        if let Some((kind, nodes)) = judge::must_stop(&next) {
            stop(&mut next, kind, nodes, None, look.at);
            take_back_open_orders(&mut next, &look);
        } else if !deaf {
            go_on(&mut next, &look);
        }
    }
    mark(rollout, &mut next, &look);
    let actions = actions(&next, &look);
    let said = report(&next, view, now);
    (next, actions, said)
}

/// Running and holding follow what can be heard; the clocks of silence start again when a hold ends. A
/// complete rollout stays complete while it is held: a node that catches up is judged like the others.
fn hold_or_go_on(next: &mut Rollout, deaf: bool, look: &Look<'_>) {
    match (next.state, deaf) {
        (State::Running, true) => {
            next.state = State::Holding;
            next.held_since = Some(look.at);
        }
        (State::Holding, false) => {
            next.state = State::Running;
            next.held_since = None;
            next.held_until = look.at;
        }
        (State::Complete, true) => next.held_since = next.held_since.or(Some(look.at)),
        (State::Complete, false) if next.held_since.is_some() => {
            next.held_since = None;
            next.held_until = look.at;
        }
        (State::Running | State::Holding | State::Waiting | State::Complete | State::Stopped, _) => {}
    }
}

/// Takes over what is heard of every told node; one that was taken out of the fleet leaves the sums.
fn observe_all(next: &mut Rollout, deaf: bool, look: &Look<'_>) {
    let current = next.waves.len().checked_sub(1);
    let told: Vec<NodeId> =
        next.members.iter().filter(|(_, m)| m.told.is_some()).map(|(id, _)| id.clone()).collect();
    for id in told {
        let (Some(member), node) = (next.members.get(&id), look.view.nodes.get(&id)) else { continue };
        let Some(node) = node else {
            if member.is_open() {
                excuse_one(next, &id);
            }
            continue;
        };
        let sees = Sees { deaf, open: member.wave == current && next.state != State::Complete };
        let seen = observe::observe(next, member, node, look, sees);
        next.members.insert(id, seen);
    }
}

/// Excuses nodes that left before they held the order, and tells others in the place of canaries that are
/// of no use: once a stratum, never more in flight than before (C69, C70).
fn excuse(next: &mut Rollout, deaf: bool, look: &Look<'_>) {
    let Some(wave) = next.wave() else { return };
    let canary = wave.canary;
    for id in wave.nodes.clone() {
        let (Some(member), Some(node)) = (next.members.get(&id), look.view.nodes.get(&id)) else { continue };
        let stratum = member.stratum.clone();
        let newer = node.order.as_ref().is_some_and(|order| order.attempt > next.attempt);
        if newer && member.is_open() && !member.claimed {
            decide(next, &id, Outcome::Withdrawn, look.at);
        } else if observe::left_before_receipt(next, member, node, look, deaf) {
            excuse_one(next, &id);
        } else if !(canary && judge::wants_replacement(member)) {
            continue;
        }
        if canary
            && !deaf
            && !next.replaced.contains(&stratum)
            && draw::replace(next, look, &stratum)
            && let Some(member) = next.members.get_mut(&id)
        {
            member.replaced = true;
        }
    }
}

/// Takes a node out of its wave as if it had never been told. Its order is withdrawn, and a claim that
/// comes too late is refused, so it cannot upgrade behind the rollout's back.
fn excuse_one(next: &mut Rollout, id: &NodeId) {
    if let Some(wave) = next.waves.last_mut() {
        wave.nodes.remove(id);
    }
    if let Some(member) = next.members.get_mut(id) {
        member.wave = None;
        member.told = None;
        member.received = None;
        member.outcome = Outcome::Pending;
    }
}

fn decide(next: &mut Rollout, id: &NodeId, outcome: Outcome, at: Millis) {
    if let Some(member) = next.members.get_mut(id) {
        member.outcome = outcome;
        member.decided = Some(at);
    }
}

/// Closes the current wave when it is done, and opens the next one after its soak.
fn go_on(next: &mut Rollout, look: &Look<'_>) {
    let soaked = soaked(next, look);
    let catch_up = next.state == State::Complete;
    if !soaked {
        // Nobody is left who could still come: there is nothing to soak for.
        if next.state == State::Running && nobody_open(next) && nobody_pending(next, look) {
            next.state = State::Complete;
        }
        return;
    }
    if draw::open_wave(next, look, catch_up) {
        if next.state == State::Waiting {
            next.state = State::Running;
        }
        return;
    }
    if next.state == State::Running && nobody_open(next) && draw::candidates(next, look).is_empty() {
        let any = next.members.values().any(|member| member.outcome == Outcome::Confirmed);
        if !any {
            next.state = State::Waiting;
        } else if !somebody_may_be_back(next, look) {
            next.state = State::Complete;
        }
    } else if next.state == State::Waiting && nobody_pending(next, look) {
        next.state = State::Complete;
    } else if next.state == State::Waiting
        && let Some(refusals) = all_refuse(next, look)
    {
        // Waiting for them would block the next rollout for ever.
        let reasons: Vec<String> = refusals.iter().map(|(name, why)| format!("{name} {why}")).collect();
        let who = names(reasons.iter().map(String::as_str));
        let text = format!("nobody is left to ask for {}: {who}", next.version);
        stop(next, StopKind::NoCanary, BTreeSet::new(), Some(text), look.at);
    }
}

/// Whether the current wave is decided and has soaked. It passes only if a node was heard confirmed in it:
/// silence never passes a wave.
fn soaked(next: &mut Rollout, look: &Look<'_>) -> bool {
    let Some(wave) = next.wave() else { return true };
    let open = next.wave_members(wave).any(|(_, member)| !member.outcome.is_terminal());
    let confirmed = next.wave_members(wave).any(|(_, m)| judge::weigh(m) == judge::Weight::Good);
    let soak_ms = if wave.catch_up || wave.nodes.is_empty() { 0 } else { next.plan.soak_ms };
    let Some(wave) = next.waves.last_mut() else { return true };
    if open {
        return false;
    }
    let decided_at = (*wave.decided_at.get_or_insert(look.at)).max(next.held_until);
    if look.at.saturating_sub(decided_at) < soak_ms {
        return false;
    }
    if confirmed && wave.passed_at.is_none() {
        wave.passed_at = Some(look.at);
    }
    true
}

fn nobody_open(next: &Rollout) -> bool {
    !next.members.values().any(super::Member::is_open)
}

/// Whether every member is decided or already there.
fn nobody_pending(next: &Rollout, look: &Look<'_>) -> bool {
    let settled = |reason: &NotEligible| matches!(reason, NotEligible::AlreadyThere | NotEligible::Gone);
    next.members
        .iter()
        .filter(|(_, member)| member.outcome == Outcome::Pending)
        .all(|(id, _)| eligible(next, look, id).is_err_and(|reason| settled(&reason)))
}

/// Whether a member that is not told is only just not heard. A complete rollout tells nodes without a soak
/// between them: it must be those who were away, never the rest of a fleet that was quiet for a minute.
fn somebody_may_be_back(next: &Rollout, look: &Look<'_>) -> bool {
    let mut pending = next.members.iter().filter(|(_, member)| member.outcome == Outcome::Pending);
    pending.any(|(id, _)| {
        let absent = eligible(next, look, id).is_err_and(|reason| reason.is_absence());
        let node = look.view.nodes.get(id).filter(|_| absent);
        node.is_some_and(|node| may_be_back_in(next, look, node).is_some())
    })
}

/// Stops, once and for all.
pub fn stop(next: &mut Rollout, kind: StopKind, nodes: BTreeSet<NodeId>, text: Option<String>, at: Millis) {
    let begun = next.members.iter().filter(|(_, m)| m.is_open() && m.claimed);
    let begun = begun.map(|(id, _)| id.clone()).collect();
    let text = text.unwrap_or_else(|| verdict::why_stopped(next, kind, &nodes));
    next.stopped = Some(Stopped { kind, text, at, nodes, begun });
    next.state = State::Stopped;
}

/// After a stop, or when it is closed: who has not claimed does not begin any more (C75, C76); who has,
/// finishes and reports.
fn take_back_open_orders(next: &mut Rollout, look: &Look<'_>) {
    for member in next.members.values_mut().filter(|m| m.is_open() && !m.claimed) {
        member.outcome = Outcome::Withdrawn;
        member.decided = Some(look.at);
    }
}

/// Counts the clock up whenever something else changed, and now and then without.
fn mark(before: &Rollout, next: &mut Rollout, look: &Look<'_>) {
    let listening = &look.view.listening;
    let due = look.at.saturating_sub(before.clock.listened) >= MARK_MS;
    if *next != *before || due || listening.epoch != before.clock.epoch {
        next.clock = before.clock.mark(listening, look.now);
    }
}

/// Compares what should be declared with what is.
fn actions(next: &Rollout, look: &Look<'_>) -> Vec<Action> {
    let mut actions = Vec::new();
    for (id, node) in &look.view.nodes {
        let order = node.order.as_ref();
        let ours = order.is_some_and(|o| o.rollout == next.id && o.attempt == next.attempt);
        let newer = order.is_some_and(|o| o.attempt > next.attempt);
        let member = next.members.get(id);
        let may_tell = matches!(next.state, State::Running | State::Complete) && !next.closed;
        let open = member.is_some_and(super::Member::is_open);
        if open && may_tell && !ours && !newer {
            actions.push(Action::Tell {
                node: id.clone(),
                version: next.version.clone(),
                attempt: next.attempt,
                insist_unarmed: next.plan.insist_unarmed,
            });
        } else if ours && !member.is_some_and(keeps_its_order) {
            actions.push(Action::Withdraw { node: id.clone(), attempt: next.attempt });
        }
    }
    actions
}

/// Whether an order that is declared stays declared.
fn keeps_its_order(member: &super::Member) -> bool {
    let lost = matches!(member.outcome, Outcome::Silent | Outcome::NotConfirmed);
    member.outcome == Outcome::Confirmed || member.is_open() || (lost && member.claimed)
}
