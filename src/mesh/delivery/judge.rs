//! Whether the rollout goes on, holds, or stops.
//!
//! Figures are floors that err on the side of stopping, for fleets of any size, until the exact tests are
//! here (delivery statistics):
//!
//! | where | what | stops at |
//! |---|---|---|
//! | canary | rolled back, or would not install, for the release's sake | 1 |
//! | canary | silent past the window, or fallen after it confirmed | 1 |
//! | canary | alive and not confirmed in time | 1 |
//! | later | failures heard, counted over all later waves | [`FAILED_MAX`] |
//! | later | failed, silent or machine's fault, in one wave or over all later waves | 2 and half of them |
//! | any | no canary confirmed anywhere and none left to try | at once |
//! | catch-up | failed for the release's sake or silent, over all that caught up | [`CAUGHT_UP_BAD_MAX`] |

use super::state::{Fell, Member, Outcome, Rollout, State, StopKind, Wave};
use crate::model::NodeId;
use std::collections::BTreeSet;

/// So many failures heard in later waves stop the rollout.
pub const FAILED_MAX: usize = 2;
/// So many failed or silent nodes stop the catching up of a complete rollout: one alone reopens nothing
/// (C73), a second one is no chance any more.
pub const CAUGHT_UP_BAD_MAX: usize = 2;

/// What a node's outcome means for the release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// Nothing final yet, or nothing to do with anybody.
    None,
    /// Confirmed, and still so.
    Good,
    /// A failure that was heard and that the release may be to blame for.
    Failed(StopKind),
    /// Silence.
    Silent,
    /// The machine or its surroundings.
    Machine,
}

/// Weighs one member.
pub fn weigh(member: &Member) -> Weight {
    match &member.outcome {
        Outcome::Confirmed => match &member.fell {
            None => Weight::Good,
            Some(Fell::Silent) => Weight::Silent,
            Some(Fell::Version { .. }) => Weight::Failed(StopKind::NotConfirmed),
        },
        Outcome::RolledBack { machine: false } => Weight::Failed(StopKind::RolledBack),
        Outcome::InstallFailed { machine: false, .. } => Weight::Failed(StopKind::InstallFailed),
        Outcome::NotConfirmed if member.received.is_some() => Weight::Failed(StopKind::NotConfirmed),
        Outcome::Silent => Weight::Silent,
        Outcome::RolledBack { machine: true }
        | Outcome::InstallFailed { machine: true, .. }
        | Outcome::NotConfirmed
        | Outcome::UnexpectedVersion { .. } => Weight::Machine,
        Outcome::Pending
        | Outcome::Told
        | Outcome::Received
        | Outcome::Starting
        | Outcome::Deferring { .. }
        | Outcome::Deferred { .. }
        | Outcome::Withdrawn => Weight::None,
    }
}

/// What happened to a member that counts as failed, silent or hindered by its machine, as the kind of a stop.
pub fn kind_of(member: &Member) -> Option<StopKind> {
    match weigh(member) {
        Weight::None | Weight::Good => None,
        Weight::Failed(kind) => Some(kind),
        Weight::Silent => Some(StopKind::Silence),
        Weight::Machine => Some(match &member.outcome {
            Outcome::RolledBack { .. } => StopKind::RolledBack,
            Outcome::InstallFailed { .. } => StopKind::InstallFailed,
            Outcome::NotConfirmed => StopKind::NotConfirmed,
            _ => StopKind::NoCanary,
        }),
    }
}

/// Nodes by weight.
#[derive(Default)]
struct Tally<'a> {
    all: usize,
    good: usize,
    failed: Vec<(&'a NodeId, StopKind)>,
    silent: Vec<&'a NodeId>,
    machine: Vec<(&'a NodeId, StopKind)>,
}

impl<'a> Tally<'a> {
    fn of(rollout: &'a Rollout, wave: &'a Wave) -> Tally<'a> {
        let mut tally = Tally::default();
        tally.add(rollout, wave);
        tally
    }

    fn add(&mut self, rollout: &'a Rollout, wave: &'a Wave) {
        for (id, member) in rollout.wave_members(wave) {
            self.all += 1;
            match weigh(member) {
                Weight::None => {}
                Weight::Good => self.good += 1,
                Weight::Failed(kind) => self.failed.push((id, kind)),
                Weight::Silent => self.silent.push(id),
                Weight::Machine => self.machine.extend(kind_of(member).map(|kind| (id, kind))),
            }
        }
    }

    fn bad(&self) -> usize {
        self.failed.len() + self.silent.len() + self.machine.len()
    }

    /// At least two, and at least half.
    fn is_half_bad(&self) -> bool {
        self.bad() >= 2 && 2 * self.bad() >= self.all
    }

    /// What most of the bad nodes say: failures heard weigh more than silence, silence more than machines.
    fn kind(&self) -> StopKind {
        let first = |of: &[(&NodeId, StopKind)]| of.iter().map(|(_, kind)| *kind).min();
        let silence = || (!self.silent.is_empty()).then_some(StopKind::Silence);
        first(&self.failed).or_else(silence).or_else(|| first(&self.machine)).unwrap_or(StopKind::NoCanary)
    }

    fn nodes(&self) -> BTreeSet<NodeId> {
        let heard = self.failed.iter().chain(&self.machine).map(|(id, _)| *id);
        heard.chain(self.silent.iter().copied()).cloned().collect()
    }
}

/// Whether to stop now, and about which nodes. Of a complete rollout only the nodes that caught up are
/// judged.
pub fn must_stop(rollout: &Rollout) -> Option<(StopKind, BTreeSet<NodeId>)> {
    if rollout.state == State::Complete {
        return must_stop_catching_up(rollout);
    }
    let wave = rollout.wave().filter(|wave| !wave.catch_up)?;
    let tally = Tally::of(rollout, wave);
    if wave.canary {
        let release = !tally.failed.is_empty() || !tally.silent.is_empty();
        if release || tally.is_half_bad() || no_canary_left(rollout, wave) {
            return Some((tally.kind(), tally.nodes()));
        }
        return None;
    }
    if tally.is_half_bad() {
        return Some((tally.kind(), tally.nodes()));
    }
    let mut later = Tally::default();
    for wave in rollout.waves.iter().filter(|wave| !wave.canary && !wave.catch_up) {
        later.add(rollout, wave);
    }
    let stop = later.failed.len() >= FAILED_MAX || later.is_half_bad();
    stop.then(|| (later.kind(), later.nodes()))
}

/// They are told one at a time without a soak, often long after everybody looked: so they are counted
/// together, however large the fleet is.
fn must_stop_catching_up(rollout: &Rollout) -> Option<(StopKind, BTreeSet<NodeId>)> {
    let mut late = Tally::default();
    for wave in rollout.waves.iter().filter(|wave| wave.catch_up) {
        late.add(rollout, wave);
    }
    late.machine.clear();
    (late.bad() >= CAUGHT_UP_BAD_MAX).then(|| (late.kind(), late.nodes()))
}

/// Every canary is decided, none is confirmed, and none was before: there is nothing to go on from.
fn no_canary_left(rollout: &Rollout, wave: &Wave) -> bool {
    let none_open = rollout.wave_members(wave).all(|(_, member)| member.outcome.is_terminal());
    let good = rollout.members.values().any(|member| weigh(member) == Weight::Good);
    !wave.nodes.is_empty() && none_open && !good
}

/// Whether a decided canary is to be replaced: its machine was at fault, or it put the order off.
pub fn wants_replacement(member: &Member) -> bool {
    let excused = weigh(member) == Weight::Machine || matches!(member.outcome, Outcome::Deferred { .. });
    excused && !member.replaced
}
