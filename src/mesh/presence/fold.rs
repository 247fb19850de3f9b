//! The fold: one heartbeat, or a look at the clock, at a time.
//!
//! The door for everything that a node says: texts are cut and freed of control characters here, for they
//! end up in a person's terminal; lists keep the lengths of the link.

use super::{
    BOOTS_MAX, LINE_BYTES_MAX, Listening, Millis, Order, Presence, ROLLBACKS_MAX, Refusal, RollbackRecord,
    Spoke, Transition, WORD_BYTES_MAX,
};
use crate::wire::heartbeat::{Heartbeat, OrderState, Refused, Rollback};
use crate::wire::limits::{EVIDENCE_LINES_MAX, FAILURES_MAX, REFUSED_MAX, cut};

/// An id, a version or a word of a node.
fn word(said: &str) -> String {
    cut(said, WORD_BYTES_MAX)
}

/// A sentence or a log line of a node.
fn line(said: &str) -> String {
    cut(said, LINE_BYTES_MAX)
}

fn words(said: &Option<String>) -> Option<String> {
    said.as_deref().map(word)
}

fn lines(said: &Option<String>) -> Option<String> {
    said.as_deref().map(line)
}

/// Takes a heartbeat heard at `now`. A duplicate or an older statement changes nothing, except that one of
/// an earlier boot that is *newer* than that boot's last one is counted: a boot never comes back, so the
/// second of them betrays a second machine with the same identity (a cloned disk).
pub fn hear(mut presence: Presence, beat: &Heartbeat, now: Millis) -> (Presence, Vec<Transition>) {
    let spoke = Spoke { boot: word(&beat.boot), start: beat.start, sequence: beat.sequence };
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
        changes.push(Transition::VersionChanged(before, word(&beat.version)));
    }
    if beat.confirmed && !(presence.confirmed && same_version) {
        changes.push(Transition::Confirmed(word(&beat.version)));
    }
    presence.version = version;
    presence.confirmed = beat.confirmed;
    presence.known_good = beat.known_good.as_ref().and_then(|text| text.parse().ok());
    presence.armed = beat.armed;
    presence.unarmed_because = lines(&beat.unarmed_because);
    presence.accepted = beat.accepted;
    presence.applied = beat.applied;
    presence.failed = beat.failed;
    let failures = beat.failures.iter().take(FAILURES_MAX);
    presence.failures = failures.map(|f| (line(&f.name), line(&f.error))).collect();
    presence.declaration_refused = lines(&beat.declaration_refused);
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
    let refused: Vec<Refusal> = beat.refused.iter().take(REFUSED_MAX).map(refusal).collect();
    if presence.refused != refused {
        presence.refused.clone_from(&refused);
        changes.push(Transition::RefusedChanged(refused));
    }
    presence.goodbye = lines(&beat.goodbye);
    if let Some(reason) = &presence.goodbye {
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
        boot: word(&said.boot),
        from: word(&said.from),
        to: word(&said.to),
        attempt: said.attempt,
        rollout: words(&said.rollout),
        outcome: word(&said.outcome),
        reason: line(&said.reason),
        result: words(&said.result),
        code: words(&said.code),
        status: words(&said.status),
        log: said.log.iter().take(EVIDENCE_LINES_MAX).map(|said| line(said)).collect(),
    }
}

fn order(said: &OrderState) -> Order {
    Order {
        rollout: word(&said.rollout),
        attempt: said.attempt,
        version: word(&said.version),
        state: word(&said.state),
        class: words(&said.class),
        reason: lines(&said.reason),
        detail: lines(&said.detail),
    }
}

fn refusal(said: &Refused) -> Refusal {
    Refusal { version: word(&said.version), attempt: said.attempt, reason: line(&said.reason) }
}
