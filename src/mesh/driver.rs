//! Drives the pure delivery machine: load with revision, build the view, step, store by compare-and-swap,
//! *then* act. On conflict everything is dropped and done over.
//!
//! Called by its own clock, by transitions (through the bell), by a node's claim and by the operator API.
//! A crash between any two lines repeats a step, never skips or widens one: actions are idempotent and
//! the next step finds by itself what is still to be done (C74). Decides nothing.

use super::clock;
use super::core::{Mesh, PausePoint};
use super::delivery::{self, Action, FleetView, NodeView, OrderView, Plan, Report, Rollout, State};
use super::engine::{Entry, Put, Revision, Store};
use super::fault::Fault;
use super::presence::Millis;
use super::registry::node::{NodeRecord, TargetRecord};
use super::registry::select::Select;
use crate::model::{Attempt, NodeId, RolloutId, Version};
use crate::wire::FORMAT;
use crate::wire::claim::{CLAIM_VALID_MS, ClaimAnswer, ClaimRequest};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

/// How often delivery looks when nothing rings.
pub const TICK: Duration = Duration::from_millis(250);
/// A node that was not heard for this many heartbeat intervals is not 'there': one may get lost.
const RECENT_INTERVALS: Millis = 3;
/// Most rollouts that are over and still followed for their lists: a node that never comes back must not
/// keep every old rollout in motion.
const LISTS_MAX: usize = 4;

fn key(id: &RolloutId) -> String {
    format!("rollout/{id}")
}

fn read(entry: &Entry) -> Result<Rollout, Fault> {
    Ok(serde_json::from_slice(&entry.value)?)
}

/// What `serve` has to know of the stored rollouts.
pub struct Known {
    /// Where each stands, by attempt.
    pub index: BTreeMap<Attempt, Standing>,
    /// The latest mesh time that any of them names.
    pub latest: Millis,
}

/// Where a stored rollout stands.
#[derive(Clone)]
pub struct Standing {
    /// Its id.
    pub id: RolloutId,
    /// Its state.
    pub state: State,
    /// Complete, and a newer one has taken over.
    pub closed: bool,
    /// Something may still be heard for its list.
    pub unsettled: bool,
}

impl From<&Rollout> for Standing {
    fn from(rollout: &Rollout) -> Self {
        Standing {
            id: rollout.id.clone(),
            state: rollout.state,
            closed: rollout.closed,
            unsettled: rollout.is_unsettled(),
        }
    }
}

/// Reads every stored rollout once.
pub async fn known(store: &Store) -> Result<Known, Fault> {
    let mut known = Known { index: BTreeMap::new(), latest: 0 };
    for (_, entry) in store.list("rollout/").await? {
        let rollout = read(&entry)?;
        known.latest = known.latest.max(rollout.clock.marked);
        known.index.insert(rollout.attempt, Standing::from(&rollout));
    }
    Ok(known)
}

/// The driver's clock: looks, steps, writes down, until the process is asked to end.
pub async fn run(mesh: Arc<Mesh>) {
    let mut stopping = mesh.stopping.clone();
    while !*stopping.borrow() {
        let begun = clock::monotonic_ms();
        let rest = match mesh.tick().await {
            // A large fleet takes longer to look at: delivery leaves three quarters of a core to others.
            Ok(()) => Duration::from_millis(3 * (clock::monotonic_ms() - begun)),
            Err(fault) => {
                log::error!("delivery: {fault}; looking again in a moment");
                Duration::from_secs(1)
            }
        };
        let rested = async {
            tokio::time::sleep(rest).await;
            let _ = tokio::time::timeout(TICK, mesh.bell.notified()).await;
        };
        tokio::select! {
            () = rested => {}
            _ = stopping.changed() => break,
        }
    }
}

impl Mesh {
    /// A node not heard for this long is silent or off.
    pub fn recent_ms(&self) -> Millis {
        RECENT_INTERVALS * self.heartbeat_ms
    }

    /// One look at everything.
    pub async fn tick(&self) -> Result<(), Fault> {
        self.hearing.listen_anew(self.registry.store()).await?;
        for (id, transitions) in self.hearing.look(self.recent_ms()) {
            let name = self.registry.node(&id).map(|record| record.name.to_string());
            self.pass_on(name.as_deref().unwrap_or(id.as_str()), &transitions);
        }
        self.hearing.checkpoint(self.registry.store(), false).await?;
        let _turn = self.turn.lock().await;
        // A store of an earlier release may hold several that are complete and not closed.
        let newest = self.index().values().last().map(|standing| standing.id.clone());
        self.close_all_but(newest.as_ref()).await?;
        for id in self.due() {
            self.step(&id).await?;
        }
        Ok(())
    }

    /// The rollouts to be stepped, oldest first. One that is over is stepped as long as an order of it
    /// stands (a crash may have kept it from being withdrawn), and the last few also as long as something
    /// may be heard for their lists (C67).
    fn due(&self) -> Vec<RolloutId> {
        let nodes = self.registry.nodes();
        let standing: BTreeSet<&RolloutId> =
            nodes.iter().filter_map(|record| Some(&record.target.as_ref()?.rollout)).collect();
        let index = self.index();
        let mut lists = LISTS_MAX;
        let mut due = Vec::new();
        for rollout in index.values().rev() {
            let over = rollout.state == State::Stopped || rollout.closed;
            let listed = over && rollout.unsettled && lists > 0;
            lists -= usize::from(listed);
            if !over || listed || standing.contains(&rollout.id) {
                due.push(rollout.id.clone());
            }
        }
        due.reverse();
        due
    }

    /// Closes every rollout that is complete, but this one: a newer one has taken over.
    async fn close_all_but(&self, newest: Option<&RolloutId>) -> Result<(), Fault> {
        let is_left = |r: &&Standing| r.state == State::Complete && !r.closed && Some(&r.id) != newest;
        let left: Vec<RolloutId> = self.index().values().filter(is_left).map(|r| r.id.clone()).collect();
        for id in left {
            loop {
                let (entry, rollout) = self.load(&id).await?;
                let next = delivery::close(&rollout);
                if next == rollout || self.put(&next, entry.revision).await? != Put::Conflict {
                    log::info!("rollout {id} of {}: a newer one takes over, nobody catches up", next.version);
                    break;
                }
            }
        }
        Ok(())
    }

    /// Steps one rollout until it stands still for now.
    async fn step(&self, id: &RolloutId) -> Result<(), Fault> {
        loop {
            let (entry, rollout) = self.load(id).await?;
            let view = self.view(&rollout.version);
            let (next, actions, report) = delivery::step(&rollout, &view, self.hearing.now());
            if next != rollout {
                if self.put(&next, entry.revision).await? == Put::Conflict {
                    continue;
                }
                if next.state != rollout.state {
                    log::info!("rollout {id} of {}: {:?}: {}", next.version, next.state, report.summary);
                }
                let stopped = next.state == State::Stopped && rollout.state != State::Stopped;
                self.stored(stopped).await?;
            }
            return self.act(&next, actions).await;
        }
    }

    async fn stored(&self, stopped: bool) -> Result<(), Fault> {
        let point = if stopped { PausePoint::StopStored } else { PausePoint::RolloutStored };
        Ok(self.pause.reach(point).await?)
    }

    /// Carries out what a stored rollout asks for; again is the same as once.
    async fn act(&self, rollout: &Rollout, actions: Vec<Action>) -> Result<(), Fault> {
        for action in actions {
            match action {
                Action::Tell { node, version, attempt, insist_unarmed } => {
                    let Some(record) = self.registry.node(&node) else { continue };
                    let Some(package) = self.registry.packages().find(&record.facts, &version) else {
                        log::error!("node {}: the store has no package of {version} for it", record.name);
                        continue;
                    };
                    let rollout = rollout.id.clone();
                    let target = TargetRecord { package, rollout, attempt, insist_unarmed, since: 0 };
                    self.pause.reach(PausePoint::OrderBeforePut).await?;
                    if self.registry.tell(&node, &target).await? {
                        log::info!("node {}: told to run {version} ({})", record.name, target.rollout);
                    }
                    self.pause.reach(PausePoint::OrderAfterPut).await?;
                }
                Action::Withdraw { node, attempt } => {
                    if self.registry.withdraw(&node, &rollout.id, attempt).await? {
                        log::info!("node {node}: the order of {} is withdrawn", rollout.id);
                    }
                }
            }
        }
        Ok(())
    }

    /// Grants or refuses a node's claim. Stop and claim meet in one compare-and-swap (C76).
    pub async fn claim(&self, node: &NodeId, request: &ClaimRequest) -> Result<ClaimAnswer, Fault> {
        let no = |reason: String| ClaimAnswer {
            format: FORMAT,
            granted: false,
            reason: Some(reason),
            valid_ms: 0,
        };
        let Ok(id) = request.rollout.parse::<RolloutId>() else {
            return Ok(no("the rollout's id is not one".into()));
        };
        loop {
            let Some(entry) = self.registry.store().get(&key(&id)).await? else {
                return Ok(no(format!("there is no rollout {id}")));
            };
            let rollout = read(&entry)?;
            if request.version != rollout.version.to_string() {
                return Ok(no(format!("rollout {id} carries {}", rollout.version)));
            }
            let stands = self.registry.node(node).and_then(|record| record.target.clone());
            if stands.is_none_or(|target| target.rollout != id || target.attempt != request.attempt) {
                return Ok(no(format!("the node's declaration does not carry this order of {id}")));
            }
            let next = match delivery::claim(&rollout, node, request.attempt) {
                Ok(next) => next,
                Err(refusal) => return Ok(no(refusal.to_string())),
            };
            if next != rollout && self.put(&next, entry.revision).await? == Put::Conflict {
                continue;
            }
            self.pause.reach(PausePoint::ClaimStored).await?;
            self.bell.notify_one();
            return Ok(ClaimAnswer { format: FORMAT, granted: true, reason: None, valid_ms: CLAIM_VALID_MS });
        }
    }

    /// Starts a rollout.
    pub async fn start_rollout(
        &self,
        plan: Plan,
        version: Version,
        select: &Select,
    ) -> Result<Report, Fault> {
        let _turn = self.turn.lock().await;
        let open = |state: State| matches!(state, State::Waiting | State::Running | State::Holding);
        let other = self.index().values().find(|standing| open(standing.state)).cloned();
        if let Some(Standing { id: other, .. }) = other {
            let text =
                format!("rollout {other} is still open: wait for it, or 'nox-mesh rollout stop {other}'");
            return Err(Fault::Refused(text));
        }
        let matched = self.registry.select(select)?.iter().map(|record| record.id.clone()).collect();
        let attempt = self.next_attempt().await?;
        let id: RolloutId =
            format!("r-{attempt}").parse().map_err(|error| Fault::Malformed(format!("{error}")))?;
        let view = self.view(&version);
        let now = self.hearing.now();
        let rollout =
            delivery::start(plan, version, id.clone(), attempt, &matched, &view, now).map_err(|refused| {
                match refused {
                    delivery::Refused::NothingMatched => Fault::NothingMatched(refused.to_string()),
                    delivery::Refused::NoPackage(_)
                    | delivery::Refused::AllRefuse(..)
                    | delivery::Refused::Plan(_) => Fault::Refused(refused.to_string()),
                }
            })?;
        // Before the new one is stored: two that tell nodes at a time must never be.
        self.close_all_but(None).await?;
        if self.put(&rollout, 0).await? == Put::Conflict {
            return Err(Fault::Refused(format!("a rollout {id} is there already: start again")));
        }
        log::info!("rollout {id} of {}: started for {} nodes", rollout.version, rollout.members.len());
        self.pause.reach(PausePoint::RolloutStored).await?;
        self.bell.notify_one();
        Ok(delivery::report(&rollout, &view, now))
    }

    /// Stops a rollout by a person's order. Once this has answered, no node begins any more.
    pub async fn stop_rollout(&self, id: &RolloutId, why: &str) -> Result<Report, Fault> {
        let _turn = self.turn.lock().await;
        loop {
            let (entry, rollout) = self.load(id).await?;
            let view = self.view(&rollout.version);
            let next = delivery::abort(&rollout, why, &view, self.hearing.now());
            if next != rollout {
                if self.put(&next, entry.revision).await? == Put::Conflict {
                    continue;
                }
                log::info!("rollout {id} of {}: stopped by a person: {why}", next.version);
                self.stored(true).await?;
            }
            self.step(id).await?;
            return self.report(id).await;
        }
    }

    /// Every rollout, oldest first.
    pub fn rollout_ids(&self) -> Vec<RolloutId> {
        self.index().values().map(|standing| standing.id.clone()).collect()
    }

    fn index(&self) -> MutexGuard<'_, BTreeMap<Attempt, Standing>> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores a rollout; the index follows what is stored.
    async fn put(&self, rollout: &Rollout, revision: Revision) -> Result<Put, Fault> {
        let value = serde_json::to_vec(rollout)?;
        let put = self.registry.store().put_if(&key(&rollout.id), revision, value).await?;
        if let Put::Stored(_) = put {
            self.index().insert(rollout.attempt, rollout.into());
        }
        Ok(put)
    }

    /// What a rollout says for people and programs.
    pub async fn report(&self, id: &RolloutId) -> Result<Report, Fault> {
        let (_, rollout) = self.load(id).await?;
        let view = self.view(&rollout.version);
        Ok(delivery::report(&rollout, &view, self.hearing.now()))
    }

    async fn load(&self, id: &RolloutId) -> Result<(Entry, Rollout), Fault> {
        let entry = self.registry.store().get(&key(id)).await?;
        let entry = entry.ok_or_else(|| {
            Fault::NotFound(format!("there is no rollout {id}: 'nox-mesh rollout status' lists them"))
        })?;
        let rollout = read(&entry)?;
        Ok((entry, rollout))
    }

    /// The fleet as a rollout of `version` sees it.
    pub fn view(&self, version: &Version) -> FleetView {
        let mut heard = self.hearing.all();
        let node = |record: &NodeRecord| NodeView {
            name: record.name.to_string(),
            facts: record.facts.clone(),
            has_package: self.registry.packages().find(&record.facts, version).is_some(),
            order: record.target.as_ref().map(|target| OrderView {
                rollout: target.rollout.clone(),
                attempt: target.attempt,
                version: target.package.version.clone(),
                generation: target.since,
            }),
            presence: Default::default(),
        };
        let nodes = self.registry.nodes();
        let nodes = nodes.iter().map(|record| {
            let presence = heard.remove(&record.id).unwrap_or_default();
            (record.id.clone(), NodeView { presence, ..node(record) })
        });
        FleetView { listening: self.hearing.listening(), recent_ms: self.recent_ms(), nodes: nodes.collect() }
    }
}

#[cfg(test)]
#[path = "driver_tests.rs"]
mod tests;
