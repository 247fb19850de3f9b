//! Fills in the report: who is where, who is not told and why, what is being waited for.
//!
//! Made from the rollout and the view alone, so that nobody has to put it together from logs.

use super::clock::Look;
use super::eligible::{NotEligible, eligible, may_be_back_in};
use super::judge::{Weight, weigh};
use super::observe::{patience_ms, waited_for};
use super::report::{
    EvidenceReport, NodeReport, NotIncluded, Report, StoppedBecause, WaitingFor, WaveReport,
};
use super::state::{Evidence, Member, Outcome, Rollout, State, Wave};
use super::verdict::verdict;
use super::view::{FleetView, NodeView};
use super::words::{detail, outcome_word};
use crate::mesh::presence::Millis;
use crate::model::NodeId;

/// Makes the report. Pure: the same rollout and view give the same report.
pub fn report(rollout: &Rollout, view: &FleetView, now: Millis) -> Report {
    let look = Look::new(rollout, view, now);
    Report {
        id: rollout.id.to_string(),
        version: rollout.version.to_string(),
        state: rollout.state,
        summary: summary(rollout, &look),
        stopped_because: rollout.stopped.as_ref().map(|stopped| StoppedBecause {
            kind: stopped.kind,
            text: stopped.text.clone(),
            begun: stopped.begun.iter().map(|id| name_of(rollout, id)).collect(),
        }),
        verdict: verdict(rollout, &look),
        waves: waves(rollout),
        nodes: nodes(rollout, &look),
        not_included: not_included(rollout, &look),
        waiting_for: waiting_for(rollout, &look),
    }
}

fn name_of(rollout: &Rollout, id: &NodeId) -> String {
    rollout.members.get(id).map_or_else(|| id.to_string(), |member| member.name.clone())
}

/// The counts in one line; nodes that were taken out of the fleet leave the sums.
fn summary(rollout: &Rollout, look: &Look<'_>) -> String {
    let (mut all, mut there, mut absent, mut failed, mut silent) = (0, 0, 0, 0, 0);
    for (id, member) in &rollout.members {
        let pending = member.outcome == Outcome::Pending;
        let reason = if pending { eligible(rollout, look, id).err() } else { None };
        all += usize::from(reason != Some(NotEligible::Gone));
        there += usize::from(weigh(member) == Weight::Good || reason == Some(NotEligible::AlreadyThere));
        absent += usize::from(reason.is_some_and(|reason| reason.is_absence()));
        match weigh(member) {
            Weight::Good | Weight::None => {}
            Weight::Silent => silent += 1,
            Weight::Failed(_) | Weight::Machine => failed += 1,
        }
    }
    let mut line = format!("{there}/{all} on {}", rollout.version);
    for (count, what) in [(failed, "failed"), (silent, "silent"), (absent, "pending off-line")] {
        if count > 0 {
            line.push_str(&format!(", {count} {what}"));
        }
    }
    line
}

fn waves(rollout: &Rollout) -> Vec<WaveReport> {
    let last = rollout.waves.len();
    let state = |number: usize, wave: &Wave| {
        let current = number + 1 == last;
        let open = rollout.wave_members(wave).any(|(_, member)| member.is_open());
        let good = rollout.wave_members(wave).any(|(_, member)| weigh(member) == Weight::Good);
        let live = matches!(rollout.state, State::Running | State::Holding);
        if open {
            "open"
        } else if wave.passed_at.is_some() || (current && good && rollout.state == State::Complete) {
            "passed"
        } else if current && live {
            "soaking"
        } else {
            "not_passed"
        }
    };
    let waves = rollout.waves.iter().enumerate();
    waves
        .map(|(number, wave)| WaveReport {
            number: number + 1,
            canary: wave.canary,
            state: state(number, wave).to_owned(),
            nodes: wave.nodes.iter().map(ToString::to_string).collect(),
        })
        .collect()
}

fn nodes(rollout: &Rollout, look: &Look<'_>) -> Vec<NodeReport> {
    let told = rollout.members.iter().filter(|(_, member)| member.told.is_some());
    told.map(|(id, member)| {
        let presence = look.view.nodes.get(id).map(|node| &node.presence);
        NodeReport {
            id: id.to_string(),
            name: member.name.clone(),
            wave: member.wave.map(|wave| wave + 1),
            outcome: outcome_word(member).to_owned(),
            detail: detail(member),
            version: presence.and_then(|p| p.version.as_ref()).map(ToString::to_string),
            evidence: member.evidence.as_ref().map(evidence),
        }
    })
    .collect()
}

fn evidence(record: &Evidence) -> EvidenceReport {
    EvidenceReport {
        from: record.from.clone(),
        to: record.to.clone(),
        reason: record.reason.clone(),
        result: record.result.clone(),
        code: record.code.clone(),
        status: record.status.clone(),
        log: record.log.clone(),
    }
}

/// Nodes that are not told, with the reason; those that only wait for their wave are not among them.
fn not_included(rollout: &Rollout, look: &Look<'_>) -> Vec<NotIncluded> {
    let pending = rollout.members.iter().filter(|(_, member)| member.told.is_none());
    pending
        .filter_map(|(id, member)| {
            let reason = match eligible(rollout, look, id) {
                Err(reason) => reason.to_string(),
                Ok(_) if rollout.state == State::Stopped => "the rollout stopped before its turn".into(),
                Ok(_) => return None,
            };
            Some(NotIncluded { id: id.to_string(), name: member.name.clone(), reason })
        })
        .collect()
}

fn waiting_for(rollout: &Rollout, look: &Look<'_>) -> Vec<WaitingFor> {
    let whole = |reason: &str, for_ms, left_ms| {
        let reason = reason.to_owned();
        WaitingFor { id: None, name: None, reason, for_ms, left_ms }
    };
    let mut list = Vec::new();
    let held_for = look.at.saturating_sub(rollout.held_since.unwrap_or(look.at));
    match rollout.state {
        State::Holding if look.view.listening.hears => list.push(whole("control_group", held_for, None)),
        State::Holding => list.push(whole("mesh_hearing", held_for, None)),
        State::Waiting => list.push(whole("eligible_node", look.at, None)),
        State::Running | State::Complete | State::Stopped => {}
    }
    let current = rollout.wave().filter(|_| rollout.state == State::Running);
    if let Some(decided) = current.and_then(|wave| wave.decided_at) {
        let for_ms = look.at.saturating_sub(decided.max(rollout.held_until));
        let left = rollout.plan.soak_ms.saturating_sub(for_ms);
        list.push(whole("soak", for_ms, Some(left)));
    }
    for (id, member) in &rollout.members {
        let node = look.view.nodes.get(id);
        if let Some((reason, for_ms, left_ms)) =
            node.and_then(|node| node_waits(rollout, look, id, member, node))
        {
            let (id, name) = (Some(id.to_string()), Some(member.name.clone()));
            list.push(WaitingFor { id, name, reason: reason.to_owned(), for_ms, left_ms });
        }
    }
    list
}

/// What one node keeps the rollout waiting for, since when, and for how much longer at most.
fn node_waits(
    rollout: &Rollout,
    look: &Look<'_>,
    id: &NodeId,
    member: &Member,
    node: &NodeView,
) -> Option<(&'static str, Millis, Option<Millis>)> {
    if member.outcome == Outcome::Pending && rollout.state != State::Stopped {
        let absent = eligible(rollout, look, id).is_err_and(|reason| reason.is_absence());
        // The rollout stays open for a node that is only just not heard.
        let last = rollout.state == State::Running && !rollout.members.values().any(Member::is_open);
        let left = may_be_back_in(rollout, look, node).filter(|_| last);
        return absent.then(|| ("node_online", look.in_vain(node), left));
    }
    let told = member.told.as_ref().filter(|_| member.is_open())?;
    let silent_for = look.silent_for(node, told.at, rollout.held_until);
    if silent_for > look.view.recent_ms {
        let left = patience_ms(rollout, node, look).saturating_sub(silent_for);
        return Some(("heartbeat", silent_for, Some(left)));
    }
    let for_ms = waited_for(rollout, member, look);
    let left = Some(rollout.plan.confirm_deadline_ms.saturating_sub(for_ms));
    let reason = if member.received.is_none() {
        "receipt"
    } else if matches!(member.outcome, Outcome::Deferring { .. }) {
        "node_ready"
    } else {
        "confirmation"
    };
    Some((reason, for_ms, left))
}
