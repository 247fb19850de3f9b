//! What it was: a broken release, a broken machine, the mesh's own outage, or not to be decided.
//!
//! Made anew for each report, so that what is heard after a stop (the second canary rolls back too) makes
//! the verdict better while the decision stays. One failure of one node of its kind is weak evidence, two
//! of two are strong (delivery statistics): hence `undecided` for the first, with what would decide it.

use super::clock::Look;
use super::judge::{Weight, kind_of, weigh};
use super::outage;
use super::report::{VerdictKind, VerdictReport};
use super::state::{Member, Outcome, Rollout, State, StopKind, StratumKey};
use super::text::{duration, names};
use crate::model::NodeId;
use crate::wire::limits::cut;
use std::collections::BTreeSet;

/// How likely the release is to blame when one node of its kind tried it and failed (delivery statistics).
const ONE_OF_ONE: &str = "71 to 95 % likelihood";
/// Longest last words in a sentence, in bytes; the whole line stands in the evidence.
const WORDS_BYTES_MAX: usize = 120;
/// Most nodes with an evidence line of their own.
const EVIDENCE_NODES_MAX: usize = 5;

/// Why the rollout stops, in a sentence.
pub fn why_stopped(rollout: &Rollout, kind: StopKind, nodes: &BTreeSet<NodeId>) -> String {
    let version = &rollout.version;
    let all = nodes.iter().filter_map(|id| rollout.members.get(id));
    // Only those to whom it happened are named: a silent node beside one that rolled back is in the list.
    let members: Vec<&Member> = all.filter(|member| kind_of(member) == Some(kind)).collect();
    let who = names(members.iter().map(|member| member.name.as_str()));
    match kind {
        StopKind::RolledBack => format!("{version} was rolled back on {who}"),
        StopKind::Silence => {
            let window = duration(rollout.plan.window_ms);
            format!("silence: {who} told to run {version} and then not heard for more than {window}")
        }
        StopKind::InstallFailed if members.iter().all(|member| is_unreachable(member)) => {
            format!("release not reachable: {who} could not fetch {version}")
        }
        StopKind::InstallFailed => format!("{version} could not be installed on {who}"),
        StopKind::NotConfirmed if members.iter().any(|member| member.fell.is_some()) => {
            format!("{who} left {version} again after confirming it")
        }
        StopKind::NotConfirmed if members.iter().all(|member| member.received.is_none()) => {
            format!("{who} alive, and never took the order to run {version}")
        }
        StopKind::NotConfirmed => {
            let deadline = duration(rollout.plan.confirm_deadline_ms);
            format!("not confirmed in time: {who} alive, and not confirmed on {version} within {deadline}")
        }
        StopKind::NoCanary if members.is_empty() => {
            format!("no canary was heard confirmed on {version}, and none failed")
        }
        StopKind::NoCanary => {
            format!("no canary was heard confirmed on {version}: {who} run another version")
        }
        StopKind::Aborted => "stopped by a person".into(),
    }
}

fn is_unreachable(member: &Member) -> bool {
    matches!(&member.outcome, Outcome::InstallFailed { reason, .. } if reason == "unavailable")
}

/// The told nodes, sorted by what they say.
struct Case<'a> {
    bad: Vec<&'a Member>,
    machine: Vec<&'a Member>,
    good: Vec<&'a Member>,
}

/// The verdict; none while there is nothing to judge.
pub fn verdict(rollout: &Rollout, look: &Look<'_>) -> Option<VerdictReport> {
    if rollout.state == State::Holding {
        return Some(outage(rollout, look));
    }
    let mut case = Case { bad: Vec::new(), machine: Vec::new(), good: Vec::new() };
    for member in rollout.members.values() {
        match weigh(member) {
            Weight::None => {}
            Weight::Good => case.good.push(member),
            Weight::Machine => case.machine.push(member),
            Weight::Failed(_) | Weight::Silent => case.bad.push(member),
        }
    }
    if rollout.state != State::Stopped && case.bad.is_empty() && case.machine.is_empty() {
        return None;
    }
    let (kind, text, next) =
        if case.bad.is_empty() { without_failures(rollout, &case) } else { with_failures(rollout, &case) };
    Some(VerdictReport { kind, text, evidence: evidence(rollout, look, &case), next })
}

type Said = (VerdictKind, String, String);

/// Release-class failures or silence.
fn with_failures(rollout: &Rollout, case: &Case<'_>) -> Said {
    let version = &rollout.version;
    let who = names(case.bad.iter().map(|member| member.name.as_str()));
    let heard = case.bad.iter().filter(|member| is_heard(member)).count();
    let how = if heard == 0 { "went silent" } else { "failed" };
    let alike: BTreeSet<&StratumKey> = case.bad.iter().map(|member| &member.stratum).collect();
    let good_alike = case.good.iter().filter(|member| alike.contains(&member.stratum)).count();
    if case.bad.len() == 1 && good_alike > 0 {
        let text = format!(
            "{who} {how}, and {good_alike} like it confirmed {version}: rather that machine than the release"
        );
        let next = if rollout.state == State::Stopped {
            format!("look at {who}; then start {version} again for the others")
        } else {
            format!("look at {who}")
        };
        return (VerdictKind::BrokenMachine, text, next);
    }
    if case.bad.len() == 1 {
        let text = if heard == 0 {
            format!(
                "{who} is the only node of its kind that tried {version}, and went silent: a dead release \
                 and a machine that was switched off look the same from here"
            )
        } else {
            let crash = case.bad.first().map(|member| crash(member)).unwrap_or_default();
            format!(
                "{who} is the only node of its kind that tried {version}, and failed ({crash}): it is the \
                 release with {ONE_OF_ONE}, and else that machine; one node cannot decide it"
            )
        };
        let next = format!(
            "look at {who}; to decide it, start {version} for one more node of its kind (--select name=OTHER)"
        );
        return (VerdictKind::Undecided, text, next);
    }
    let share = format!("{} of {}", case.bad.len(), case.bad.len() + case.good.len());
    let text = match confined_to(case) {
        Some((value, others)) => format!(
            "{version} does not work on {value}: all {} {value} nodes that tried it {how}, \
             none of {others} others",
            case.bad.len()
        ),
        None if heard == 0 => format!("{version} does not work: {share} nodes that tried it went silent"),
        None => format!("{version} does not work: {share} nodes that tried it failed"),
    };
    let next = format!("do not ship {version}; release a fixed version under a new number and start that");
    (VerdictKind::BrokenRelease, text, next)
}

/// Nothing speaks against the release.
fn without_failures(rollout: &Rollout, case: &Case<'_>) -> Said {
    let version = &rollout.version;
    if case.machine.is_empty() {
        let text = format!("nothing was heard that speaks against {version}");
        let next = format!("start {version} again when its nodes are there");
        return (VerdictKind::Undecided, text, next);
    }
    let who = names(case.machine.iter().map(|member| member.name.as_str()));
    if case.machine.iter().all(|member| is_unreachable(member)) {
        let text =
            format!("release not reachable: {who} could not fetch {version}, and still run what they ran");
        let next = format!("check the mesh's package store and endpoint, then start {version} again");
        return (VerdictKind::MeshOutage, text, next);
    }
    if case.machine.len() == 1 || !case.good.is_empty() {
        let text = format!("{who} could not take {version} for a reason of the machine, not of the release");
        let next = format!("repair {who}; then start {version} again");
        return (VerdictKind::BrokenMachine, text, next);
    }
    let text = format!("{who} could not take {version}, each for a reason of its machine; none could");
    let next = format!("look at the reasons below; then start {version} again");
    (VerdictKind::Undecided, text, next)
}

fn is_heard(member: &Member) -> bool {
    weigh(member) != Weight::Silent || member.evidence.is_some()
}

/// The one property that all failed nodes share and no confirmed one has, and how many confirmed.
fn confined_to<'a>(case: &Case<'a>) -> Option<(&'a str, usize)> {
    let properties: [fn(&StratumKey) -> &str; 4] =
        [|s| &s.architecture, |s| &s.distribution, |s| &s.package_format, |s| &s.version];
    let first = *case.bad.first()?;
    properties.iter().find_map(|property| {
        let value = property(&first.stratum);
        let all_bad = case.bad.iter().all(|member| property(&member.stratum) == value);
        let none_good = case.good.iter().all(|member| property(&member.stratum) != value);
        (all_bad && none_good && !case.good.is_empty()).then_some((value, case.good.len()))
    })
}

fn outage(rollout: &Rollout, look: &Look<'_>) -> VerdictReport {
    let alone = rollout.wave().is_none_or(|wave| outage::witnesses(wave, look).is_empty());
    let text = if look.view.listening.hears && alone && outage::hears_nobody(look) {
        "nobody at all is heard: it is the mesh or a network, and nothing is judged"
    } else if look.view.listening.hears {
        "nodes outside the wave went quiet together with nodes of the wave: it is the mesh or a network"
    } else {
        "the mesh cannot hear"
    };
    VerdictReport {
        kind: VerdictKind::MeshOutage,
        text: text.into(),
        evidence: control_line(rollout, look).into_iter().collect(),
        next: "check the mesh's endpoint and its network; the rollout goes on by itself when nodes are heard"
            .into(),
    }
}

/// What the verdict rests on: a line for each node that failed, the others as counts.
fn evidence(rollout: &Rollout, look: &Look<'_>, case: &Case<'_>) -> Vec<String> {
    let failed = case.bad.iter().chain(&case.machine);
    let mut lines: Vec<String> = failed.clone().take(EVIDENCE_NODES_MAX).map(|m| evidence_line(m)).collect();
    let more = failed.count().saturating_sub(EVIDENCE_NODES_MAX);
    if more > 0 {
        lines.push(format!("and {more} more"));
    }
    if !case.good.is_empty() {
        let who = names(case.good.iter().map(|member| member.name.as_str()));
        lines.push(format!("confirmed on {}: {who}", rollout.version));
    }
    lines.extend(control_line(rollout, look));
    lines
}

/// How one node failed, in brackets: what the service manager said of it and its last words.
fn crash(member: &Member) -> String {
    let Some(record) = &member.evidence else { return super::words::outcome_text(member) };
    let result = record.result.as_ref().map(|result| format!("result {result}"));
    let status = record.status.as_ref().map(|status| format!("status {status}"));
    let mut parts: Vec<String> = [result, record.code.clone(), status].into_iter().flatten().collect();
    // The runtime's hint below a panic says nothing about it.
    let is_word = |line: &&String| !line.starts_with("note: run with `RUST_BACKTRACE");
    let words = record.log.iter().rfind(is_word);
    parts.extend(words.map(|line| format!("last words \"{}\"", cut(line, WORDS_BYTES_MAX))));
    if parts.is_empty() { "it would not start".into() } else { parts.join(", ") }
}

fn evidence_line(member: &Member) -> String {
    let name = &member.name;
    let Some(record) = &member.evidence else {
        return format!("{name}: {}", super::words::outcome_text(member));
    };
    let word = |value: &Option<String>| value.clone().unwrap_or_else(|| "unknown".into());
    format!(
        "{name}: {} would not start (result {}, {}, status {}); {} {}",
        record.from,
        word(&record.result),
        word(&record.code),
        word(&record.status),
        if record.outcome == "failed" { "the rollback failed too, to" } else { "back on" },
        record.to
    )
}

/// How many of the nodes outside the wave are heard.
fn control_line(rollout: &Rollout, look: &Look<'_>) -> Option<String> {
    let wave = rollout.wave().filter(|_| rollout.state != State::Complete)?;
    let witnesses = outage::witnesses(wave, look);
    let there = witnesses.iter().filter(|(_, node)| look.is_there(node)).count();
    (!witnesses.is_empty()).then(|| format!("outside the wave: {there} of {} nodes heard", witnesses.len()))
}
