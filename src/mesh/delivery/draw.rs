//! Which nodes are told next.
//!
//! Canaries first: `plan.canary` nodes of each stratum, told together; later one node of each stratum that
//! has no confirmed node yet, for a stratum whose nodes were all away begins with one node alone. Then
//! the plan's sizes, drawn at random from a seed made of the rollout's id, so that a repeated step draws
//! the same nodes (C74). Never more than `max_in_change` told and undecided.
//!
//! Small fleets: up to [`TINY_MAX`] nodes have one canary; up to [`SMALL_MAX`] nodes no wave is larger
//! than [`SMALL_WAVE`].

use super::CONTROL_MAX;
use super::clock::Look;
use super::eligible::eligible;
use super::state::{Member, Outcome, Rollout, StratumKey, Told, Wave};
use super::view::NodeView;
use crate::model::NodeId;
use std::collections::{BTreeMap, BTreeSet};

/// Up to this many nodes there is one canary.
pub const TINY_MAX: usize = 5;
/// Up to this many nodes a wave has at most [`SMALL_WAVE`] nodes.
pub const SMALL_MAX: usize = 20;
/// See [`SMALL_MAX`].
pub const SMALL_WAVE: usize = 2;

/// Draws and opens the next wave; `false`: nobody can be told now.
pub fn open_wave(rollout: &mut Rollout, look: &Look<'_>, catch_up: bool) -> bool {
    let candidates = candidates(rollout, look);
    let room = max_in_change(rollout).saturating_sub(in_change(rollout, look));
    if candidates.is_empty() || room == 0 {
        return false;
    }
    let (canary, nodes) = if catch_up {
        (false, first(&candidates, 1))
    } else {
        match canaries(rollout, &candidates, room) {
            Some(nodes) => (true, nodes),
            None => (false, first(&candidates, wave_size(rollout).min(room))),
        }
    };
    let number = rollout.waves.len();
    let control = control(rollout, look, &nodes);
    for id in &nodes {
        tell(rollout, look, id, number);
    }
    // The control group of a wave that is over is of no more use; a large rollout has many waves.
    if let Some(over) = rollout.waves.last_mut() {
        over.control.clear();
    }
    rollout.waves.push(Wave {
        canary,
        catch_up,
        nodes,
        control,
        told_at: look.at,
        decided_at: None,
        passed_at: None,
    });
    true
}

/// Tells one more node of the same stratum in the place of a canary; `false`: there is none.
pub fn replace(rollout: &mut Rollout, look: &Look<'_>, stratum: &StratumKey) -> bool {
    let room = max_in_change(rollout) > in_change(rollout, look);
    let spare = candidates(rollout, look).into_iter().find(|(_, key)| key == stratum);
    let (Some((id, _)), Some(number), true) = (spare, rollout.waves.len().checked_sub(1), room) else {
        return false;
    };
    rollout.replaced.insert(stratum.clone());
    tell(rollout, look, &id, number);
    if let Some(wave) = rollout.waves.last_mut() {
        wave.control.remove(&id);
        wave.nodes.insert(id);
        wave.decided_at = None;
    }
    true
}

/// Marks a member as told. The driver's `Tell` follows from it, again and again until it is declared.
fn tell(rollout: &mut Rollout, look: &Look<'_>, id: &NodeId, wave: usize) {
    let (Some(member), Some(node)) = (rollout.members.get_mut(id), look.view.nodes.get(id)) else { return };
    let running = node.presence.version.as_ref().map(ToString::to_string).unwrap_or_default();
    member.name.clone_from(&node.name);
    member.stratum = StratumKey::new(&node.facts, &running);
    member.wave = Some(wave);
    member.told = Some(Told { at: look.at, before: node.presence.spoke.clone(), generation: None });
    member.outcome = Outcome::Told;
}

/// The members that can be told now with their present strata, in the seeded order of the next wave:
/// steady nodes first while canaries are drawn, for a lid closed in the window looks like a dead release.
pub fn candidates(rollout: &Rollout, look: &Look<'_>) -> Vec<(NodeId, StratumKey)> {
    let seed = format!("{}/{}", rollout.id, rollout.waves.len());
    let prefer_steady = !rollout.waves.iter().any(|wave| wave.passed_at.is_some());
    let mut found: Vec<(bool, u64, NodeId, StratumKey)> = rollout
        .members
        .iter()
        .filter(|(_, member)| member.outcome == Outcome::Pending)
        .filter_map(|(id, _)| {
            let node = eligible(rollout, look, id).ok()?;
            let running = node.presence.version.as_ref().map(ToString::to_string).unwrap_or_default();
            let roams = prefer_steady && node.presence.absences > 0;
            Some((roams, mix(&seed, id.as_str()), id.clone(), StratumKey::new(&node.facts, &running)))
        })
        .collect();
    found.sort();
    found.into_iter().map(|(_, _, id, stratum)| (id, stratum)).collect()
}

fn first(candidates: &[(NodeId, StratumKey)], count: usize) -> BTreeSet<NodeId> {
    candidates.iter().take(count).map(|(id, _)| id.clone()).collect()
}

/// The next canaries; none: every stratum among the candidates has a confirmed node.
fn canaries(rollout: &Rollout, candidates: &[(NodeId, StratumKey)], room: usize) -> Option<BTreeSet<NodeId>> {
    let proven: BTreeSet<&StratumKey> = rollout
        .members
        .values()
        .filter(|m| m.outcome == Outcome::Confirmed && m.fell.is_none())
        .map(|m| &m.stratum)
        .collect();
    let mut strata: BTreeMap<&StratumKey, Vec<&NodeId>> = BTreeMap::new();
    for (id, stratum) in candidates.iter().filter(|(_, stratum)| !proven.contains(stratum)) {
        strata.entry(stratum).or_default().push(id);
    }
    if strata.is_empty() {
        return None;
    }
    let all = rollout.members.len();
    let began = rollout.waves.iter().any(|wave| !wave.nodes.is_empty());
    let each = if began { 1 } else { (rollout.plan.canary as usize).max(1) };
    let most = if all <= TINY_MAX { 1 } else { cap(rollout, room) };
    // The largest strata first, one node of each in turn, so that what does not fit is the rarest.
    let mut order: Vec<&Vec<&NodeId>> = strata.values().collect();
    order.sort_by_key(|nodes| std::cmp::Reverse(nodes.len()));
    let longest = order.first().map_or(0, |nodes| nodes.len());
    let turns = (0..each.min(longest)).flat_map(|turn| order.iter().filter_map(move |nodes| nodes.get(turn)));
    Some(turns.take(most.min(room)).map(|id| (*id).clone()).collect())
}

/// Size of the next wave after the canaries: the plan's sizes in turn, the last one repeated, and never
/// smaller than the one before (5 % of twelve nodes is less than the two of the wave before). A wave that
/// did not pass does not move on in the plan.
fn wave_size(rollout: &Rollout) -> usize {
    let passed = rollout.waves.iter().filter(|w| !w.canary && !w.catch_up && w.passed_at.is_some()).count();
    let sizes = rollout.plan.waves.iter().take(passed + 1).map(|size| size.of(rollout.members.len()));
    cap(rollout, sizes.max().unwrap_or(1))
}

fn cap(rollout: &Rollout, size: usize) -> usize {
    if rollout.members.len() <= SMALL_MAX { size.min(SMALL_WAVE) } else { size }
}

/// Most nodes that may be told and undecided at a time.
pub fn max_in_change(rollout: &Rollout) -> usize {
    let all = rollout.members.len();
    let wanted = rollout.plan.max_in_change.of(all);
    if all > SMALL_MAX {
        wanted
    } else if matches!(rollout.plan.max_in_change, super::Size::Nodes(_)) {
        wanted.min(SMALL_WAVE)
    } else {
        // A share of so few nodes says little.
        SMALL_WAVE
    }
}

/// How many nodes are in change: told and undecided, or lost after they had claimed, for as long as their
/// upgrade could still be going on.
pub fn in_change(rollout: &Rollout, look: &Look<'_>) -> usize {
    rollout.members.values().filter(|m| m.is_open() || may_be_changing(rollout, m, look)).count()
}

fn may_be_changing(rollout: &Rollout, member: &Member, look: &Look<'_>) -> bool {
    let lost = matches!(member.outcome, Outcome::Silent | Outcome::NotConfirmed);
    let since = look.at.saturating_sub(member.decided.unwrap_or(0));
    lost && member.claimed && member.later.is_none() && since < rollout.plan.confirm_deadline_ms
}

/// Nodes that the rollout has not touched and that are heard now, a bounded sample: when they go quiet
/// too, it is not the release. Nodes on the target are left out: a release that dies after an hour takes
/// them along, and must not look like an outage.
fn control(rollout: &Rollout, look: &Look<'_>, nodes: &BTreeSet<NodeId>) -> BTreeSet<NodeId> {
    let outside = |id: &NodeId| {
        let touched = rollout.members.get(id).is_some_and(|member| member.told.is_some());
        !nodes.contains(id) && !touched
    };
    let on_target = |node: &NodeView| node.presence.version.as_ref() == Some(&rollout.version);
    let mut heard: Vec<(u64, &NodeId)> = look
        .view
        .nodes
        .iter()
        .filter(|(id, node)| outside(id) && !on_target(node) && look.is_there(node))
        .map(|(id, _)| (mix(rollout.id.as_str(), id.as_str()), id))
        .collect();
    heard.sort();
    heard.into_iter().take(CONTROL_MAX).map(|(_, id)| id.clone()).collect()
}

/// A number that looks random and is the same each time: FNV-1a over both texts, then stirred so that
/// alike ids do not stay neighbours.
fn mix(seed: &str, text: &str) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325_u64;
    let bytes = seed.bytes().chain([0]).chain(text.bytes());
    let mut hash = bytes.fold(start, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}
