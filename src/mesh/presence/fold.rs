//! The fold: one heartbeat, or a look at the clock, at a time.

use super::{
    BOOTS_MAX, Listening, Millis, Order, Presence, ROLLBACKS_MAX, Refusal, RollbackRecord, Spoke, Transition,
};
use crate::wire::heartbeat::{Heartbeat, OrderState, Refused, Rollback};

/// Takes a heartbeat heard at `now`. A duplicate or an older statement changes nothing, except that one of
/// an earlier boot that is *newer* than that boot's last one is counted: a boot never comes back, so the
/// second of them betrays a second machine with the same identity (a cloned disk).
pub fn hear(mut presence: Presence, beat: &Heartbeat, now: Millis) -> (Presence, Vec<Transition>) {
    let spoke = Spoke { boot: beat.boot.clone(), start: beat.start, sequence: beat.sequence };
    let first = presence.heard_at.is_none();
    if !first && presence.spoke.boot == spoke.boot {
        if !later(&spoke, &presence.spoke) {
            return (presence, Vec::new());
        }
    } else if let Some(known) = presence.earlier_boots.iter_mut().find(|b| b.boot == spoke.boot) {
        if !later(&spoke, known) {
            return (presence, Vec::new());
        }
        *known = spoke;
        return stray(presence);
    } else {
        // A new boot opens a new epoch, also with a lower start id: the state folder was restored, and
        // a node that is dropped for ever would look like a dead one.
        if !first {
            let before = std::mem::take(&mut presence.spoke);
            presence.earlier_boots.push(before);
            let over = presence.earlier_boots.len().saturating_sub(BOOTS_MAX);
            presence.earlier_boots.drain(..over);
        }
        presence.boot_epoch += 1;
    }
    presence.spoke = spoke;
    take(presence, beat, first, now)
}

/// Whether `a` was said after `b`, both under one boot.
fn later(a: &Spoke, b: &Spoke) -> bool {
    (a.start, a.sequence) > (b.start, b.sequence)
}

/// A statement of an earlier boot that was not heard before. One may have been under way for long.
fn stray(mut presence: Presence) -> (Presence, Vec<Transition>) {
    presence.strays = presence.strays.saturating_add(1);
    if presence.strays < 2 || presence.duplicated {
        return (presence, Vec::new());
    }
    presence.duplicated = true;
    (presence, vec![Transition::DuplicatedIdentity])
}

/// Takes over what a newer statement says, and tells what that changed.
fn take(mut presence: Presence, beat: &Heartbeat, first: bool, now: Millis) -> (Presence, Vec<Transition>) {
    let mut changes = Vec::new();
    let was_away = presence.silent_at.is_some() || presence.goodbye.is_some();
    if first {
        changes.push(Transition::FirstHeard);
    } else if was_away {
        changes.push(Transition::CameBack);
    }
    if first || was_away {
        presence.present_since = now;
    }
    presence.heard_at = Some(now);
    presence.silent_at = None;

    let version = beat.version.parse().ok();
    let same_version = presence.version == version;
    if !first && !same_version {
        let before = presence.version.as_ref().map(ToString::to_string).unwrap_or_default();
        changes.push(Transition::VersionChanged(before, beat.version.clone()));
    }
    if beat.confirmed && !(presence.confirmed && same_version) {
        changes.push(Transition::Confirmed(beat.version.clone()));
    }
    presence.version = version;
    presence.confirmed = beat.confirmed;
    presence.known_good = beat.known_good.as_ref().and_then(|text| text.parse().ok());
    presence.armed = beat.armed;
    presence.unarmed_because = beat.unarmed_because.clone();
    presence.accepted = beat.accepted;
    presence.applied = beat.applied;
    presence.failed = beat.failed;
    presence.failures = beat.failures.iter().map(|f| (f.name.clone(), f.error.clone())).collect();
    presence.declaration_refused = beat.declaration_refused.clone();
    take_rollbacks(&mut presence, &beat.rollbacks, &mut changes);
    take_lists(&mut presence, beat, &mut changes);
    (presence, changes)
}

/// Keeps new rollback records, and those that say more than before (a rollback that was tried again).
fn take_rollbacks(presence: &mut Presence, said: &[Rollback], changes: &mut Vec<Transition>) {
    for rollback in said {
        let record = record(rollback);
        let known = presence.rollbacks.iter_mut().find(|r| r.id == record.id && r.boot == record.boot);
        match known {
            Some(known) if *known == record => continue,
            Some(known) => *known = record.clone(),
            None => presence.rollbacks.push(record.clone()),
        }
        changes.push(Transition::RolledBack(record));
    }
    let over = presence.rollbacks.len().saturating_sub(ROLLBACKS_MAX);
    presence.rollbacks.drain(..over);
}

fn take_lists(presence: &mut Presence, beat: &Heartbeat, changes: &mut Vec<Transition>) {
    let order = beat.order.as_ref().map(order);
    if presence.order != order {
        presence.order.clone_from(&order);
        changes.push(Transition::OrderChanged(order));
    }
    let refused: Vec<Refusal> = beat.refused.iter().map(refusal).collect();
    if presence.refused != refused {
        presence.refused.clone_from(&refused);
        changes.push(Transition::RefusedChanged(refused));
    }
    presence.goodbye.clone_from(&beat.goodbye);
    if let Some(reason) = &beat.goodbye {
        presence.absences = presence.absences.saturating_add(1);
        changes.push(Transition::SaidGoodbye(reason.clone()));
    }
}

/// Looks whether the node went silent: nothing heard for `silence_ms` of listening. A node that said
/// goodbye is offline and never becomes silent.
pub fn look(
    mut presence: Presence,
    listening: &Listening,
    silence_ms: Millis,
    now: Millis,
) -> (Presence, Vec<Transition>) {
    let Some(heard_at) = presence.heard_at else { return (presence, Vec::new()) };
    let away = presence.silent_at.is_some() || presence.goodbye.is_some();
    if away || listening.in_vain(heard_at, now) <= silence_ms {
        return (presence, Vec::new());
    }
    presence.silent_at = Some(now);
    presence.absences = presence.absences.saturating_add(1);
    (presence, vec![Transition::WentSilent])
}

fn record(said: &Rollback) -> RollbackRecord {
    RollbackRecord {
        id: said.id,
        boot: said.boot.clone(),
        from: said.from.clone(),
        to: said.to.clone(),
        attempt: said.attempt,
        rollout: said.rollout.clone(),
        outcome: said.outcome.clone(),
        reason: said.reason.clone(),
        result: said.result.clone(),
        code: said.code.clone(),
        status: said.status.clone(),
        log: said.log.clone(),
    }
}

fn order(said: &OrderState) -> Order {
    Order {
        rollout: said.rollout.clone(),
        attempt: said.attempt,
        version: said.version.clone(),
        state: said.state.clone(),
        class: said.class.clone(),
        reason: said.reason.clone(),
        detail: said.detail.clone(),
    }
}

fn refusal(said: &Refused) -> Refusal {
    Refusal { version: said.version.clone(), attempt: said.attempt, reason: said.reason.clone() }
}
