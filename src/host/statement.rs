//! What the node states about itself: the loop's facts as one heartbeat, and as one line for a person.

use super::declared::Declared;
use super::heartbeat::Statement;
use super::life::refuse::Refused;
use super::state::{Identity, RollbackRecord};
use super::upgrade::Upgrade;
use crate::model::{BootId, StartId, Version};
use crate::wire::heartbeat::{Failure, Heartbeat, Refused as RefusedVersion};

/// What there is to state.
pub struct Facts<'a> {
    /// Who the node is.
    pub identity: &'a Identity,
    /// This boot.
    pub boot: &'a BootId,
    /// This start.
    pub start: StartId,
    /// The version compiled in (C27).
    pub running: &'a Version,
    /// The confirmed version.
    pub known_good: Option<&'a Version>,
    /// The declarations.
    pub declared: &'a Declared,
    /// What did not succeed: resources, damaged files, settings.
    pub failures: Vec<Failure>,
    /// The refused versions.
    pub refused: &'a Refused,
    /// The order at hand.
    pub upgrade: &'a Upgrade,
    /// The records of rollbacks.
    pub records: &'a [RollbackRecord],
}

/// The statement for the heartbeat thread.
pub fn statement(facts: &Facts<'_>) -> Statement {
    let Facts { declared, upgrade, .. } = facts;
    let refused = facts.refused.iter().map(|(version, entry)| RefusedVersion {
        version: version.to_string(),
        attempt: entry.attempt,
        reason: entry.reason.clone(),
    });
    let heartbeat = Heartbeat {
        format: crate::wire::FORMAT,
        node: facts.identity.node.to_string(),
        boot: facts.boot.to_string(),
        start: facts.start,
        version: facts.running.to_string(),
        confirmed: facts.known_good == Some(facts.running),
        known_good: facts.known_good.map(ToString::to_string),
        armed: upgrade.unarmed.is_none(),
        unarmed_because: upgrade.unarmed.clone(),
        accepted: declared.accepted,
        applied: applied(declared),
        failed: facts.failures.len() as u64,
        failures: facts.failures.clone(),
        refused: refused.collect(),
        order: upgrade.order.clone(),
        declaration_refused: declared.refusal.clone(),
        ..Heartbeat::default()
    };
    // A record that is still open may yet end well; it is told when it is over.
    let ended = facts.records.iter().filter(|record| record.ended);
    Statement { heartbeat: heartbeat.bounded(), rollbacks: ended.cloned().collect() }
}

/// The generation that this process got through, else the last good one.
fn applied(declared: &Declared) -> u64 {
    let in_force = declared.in_force.as_ref().map_or(0, |document| document.generation);
    if declared.is_through { in_force } else { declared.good }
}

/// One line for `systemctl status`.
pub fn status_line(facts: &Facts<'_>, link_trouble: Option<&str>) -> String {
    let Facts { identity, running, declared, upgrade, .. } = facts;
    let confirmed = if facts.known_good == Some(*running) { "confirmed" } else { "not confirmed yet" };
    let mut line = format!("{}: {running} {confirmed}", identity.name);
    match declared.accepted {
        0 => line.push_str("; no declaration yet"),
        accepted if declared.set_aside.is_some() => {
            line.push_str(&format!("; declaration {accepted} is set aside, {} applies", applied(declared)));
        }
        accepted => line.push_str(&format!("; declaration {accepted}")),
    }
    match facts.failures.as_slice() {
        [] => {}
        [one] => line.push_str(&format!("; {}: {}", one.name, one.error)),
        [first, rest @ ..] => {
            line.push_str(&format!("; {}: {} (and {} more)", first.name, first.error, rest.len()))
        }
    }
    if let Some(order) = &upgrade.order {
        line.push_str(&format!("; {} {}", order.version, order.state));
        if let Some(reason) = &order.reason {
            line.push_str(&format!(" ({reason})"));
        }
    }
    if let Some(why) = &upgrade.unarmed {
        line.push_str(&format!("; rollback not armed: {why}"));
    }
    if let Some(trouble) = link_trouble {
        line.push_str(&format!("; {trouble}"));
    }
    line
}
