//! What the mesh hears: feeds heartbeats into the pure fold of `presence`, keeps the result in memory,
//! writes it down coarsely, and passes transitions on.
//!
//! Called by the link for each heartbeat and by the driver's clock. A heartbeat costs no write (rule 11
//! of the system): only what it *changes* (facts, the confirmed version, a rollback's evidence) reaches
//! the registry. The checkpoint is for a mesh that was killed: nodes are then known, with when they were
//! last heard, and a new epoch of listening begins, so that no clock of silence runs on.

use super::clock;
use super::core::Mesh;
use super::engine::{Put, Store};
use super::fault::Fault;
use super::presence::{Listening, Millis, Presence, ROLLBACKS_MAX, RollbackRecord, Transition, hear, look};
use crate::model::NodeId;
use crate::wire::FORMAT;
use crate::wire::heartbeat::{Heartbeat, HeartbeatAnswer, Rollback};
use crate::wire::limits::cut;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Presence is written in this many parts, so that one changed node does not rewrite the fleet.
const SHARDS: u64 = 256;
/// Most parts written in one go: a fleet that comes back at once is written over several.
const SHARDS_PER_FLUSH: usize = 16;
/// How often everything that was heard is written, in milliseconds.
const COARSE_MS: Millis = 300_000;
/// A clock that jumped by this much between two looks means that the process stood still and could not
/// hear: silence starts anew (C88).
const STOOD_STILL_MS: Millis = 5_000;
const LISTENING_KEY: &str = "listening";

/// See the module.
pub struct Hearing {
    /// Mesh time when this process' clock said zero: mesh time goes on over a restart.
    base: Millis,
    /// Mesh time when this process began to listen.
    began: Millis,
    heard: Mutex<Heard>,
}

#[derive(Default)]
struct Heard {
    nodes: BTreeMap<NodeId, Arc<Presence>>,
    listening: Listening,
    /// Parts with a transition that is not written yet.
    urgent: BTreeSet<u64>,
    /// Parts with anything that is not written yet.
    dirty: BTreeSet<u64>,
    looked_at: Millis,
    coarse_at: Millis,
}

#[derive(Serialize, Deserialize)]
struct Shard {
    now: Millis,
    nodes: BTreeMap<String, Presence>,
}

#[derive(Serialize, Deserialize)]
struct Stored {
    now: Millis,
    listening: Listening,
}

impl Hearing {
    /// Reads the checkpoint and begins a new epoch of listening, stored before anything is heard.
    /// `after` is a mesh time that other records name: time never goes back behind it.
    pub async fn open(store: &Store, after: Millis) -> Result<Self, Fault> {
        let mut heard = Heard::default();
        let mut base = after;
        for (_, entry) in store.list("presence/").await? {
            let shard: Shard = serde_json::from_slice(&entry.value)?;
            base = base.max(shard.now);
            for (id, presence) in shard.nodes {
                let id = id.parse().map_err(|error| std::io::Error::other(format!("{error}")))?;
                base = base.max(presence.heard_at.unwrap_or(0));
                heard.nodes.insert(id, Arc::new(presence));
            }
        }
        let entry = store.get(LISTENING_KEY).await?;
        let stored: Option<Stored> =
            entry.as_ref().map(|entry| serde_json::from_slice(&entry.value)).transpose()?;
        let revision = entry.map_or(0, |entry| entry.revision);
        base = base.max(stored.as_ref().map_or(0, |stored| stored.now)) + 1;
        let base = base.saturating_sub(clock::monotonic_ms());
        let now = base + clock::monotonic_ms();
        heard.listening = stored.map(|stored| stored.listening).unwrap_or_default().begin(now);
        (heard.looked_at, heard.coarse_at) = (now, now);
        let value = serde_json::to_vec(&Stored { now, listening: heard.listening })?;
        match store.put_if(LISTENING_KEY, revision, value).await? {
            Put::Stored(_) => Ok(Hearing { base, began: now, heard: Mutex::new(heard) }),
            Put::Conflict => Err(Fault::Refused("another nox-mesh serve began at this moment".into())),
        }
    }

    /// Mesh time.
    pub fn now(&self) -> Millis {
        self.base + clock::monotonic_ms()
    }

    /// Whether that was before this process began: how long ago is not known then.
    pub fn is_before_restart(&self, at: Millis) -> bool {
        at < self.began
    }

    /// When and whether the mesh can hear.
    pub fn listening(&self) -> Listening {
        self.hold().listening
    }

    /// What the mesh knows of a node.
    pub fn presence(&self, id: &NodeId) -> Arc<Presence> {
        self.hold().nodes.get(id).cloned().unwrap_or_default()
    }

    /// What the mesh knows of every node that was ever heard.
    pub fn all(&self) -> BTreeMap<NodeId, Arc<Presence>> {
        self.hold().nodes.clone()
    }

    /// Folds one heartbeat in.
    fn fold(&self, id: &NodeId, beat: &Heartbeat) -> (Arc<Presence>, Vec<Transition>) {
        let now = self.now();
        let mut heard = self.hold();
        let before = heard.nodes.remove(id).unwrap_or_default();
        let (after, transitions) = hear(Arc::unwrap_or_clone(before), beat, now);
        let after = Arc::new(after);
        heard.nodes.insert(id.clone(), after.clone());
        heard.note(id, !transitions.is_empty());
        (after, transitions)
    }

    /// Takes over rollback records as the registry stored them, oldest first: a node tells a record until
    /// it is acknowledged, and a presence that was lost since would never hear of it again.
    pub fn recall(&self, id: &NodeId, stored: &[Rollback]) {
        let stored = records(stored);
        let mut heard = self.hold();
        let before = heard.nodes.get(id).cloned().unwrap_or_default();
        let mut rollbacks = before.rollbacks.clone();
        for record in stored {
            match rollbacks.iter_mut().find(|r| r.id == record.id && r.boot == record.boot) {
                Some(known) => *known = record,
                None => rollbacks.push(record),
            }
        }
        rollbacks.drain(..rollbacks.len().saturating_sub(ROLLBACKS_MAX));
        if rollbacks != before.rollbacks {
            let after = Presence { rollbacks, ..Arc::unwrap_or_clone(before) };
            heard.nodes.insert(id.clone(), Arc::new(after));
            heard.note(id, true);
        }
    }

    /// Whether something newer was heard of the same boot: this statement was under way for long.
    fn is_late(&self, id: &NodeId, beat: &Heartbeat) -> bool {
        let heard = self.hold();
        let spoke = heard.nodes.get(id).map(|presence| &presence.spoke);
        spoke.is_some_and(|s| s.boot == beat.boot && (beat.start, beat.sequence) < (s.start, s.sequence))
    }

    /// Begins a new epoch if the process itself stood still; the epoch is stored before it is used, so
    /// that none is ever used twice. To be called before each look.
    pub async fn listen_anew(&self, store: &Store) -> Result<(), Fault> {
        let now = self.now();
        let (looked_at, before) = {
            let heard = self.hold();
            (heard.looked_at, heard.listening)
        };
        if now.saturating_sub(looked_at) <= STOOD_STILL_MS {
            return Ok(());
        }
        log::warn!("this process stood still for {} ms: listening anew", now - looked_at);
        let listening = before.begin(now);
        let value = serde_json::to_vec(&Stored { now, listening })?;
        let revision = store.get(LISTENING_KEY).await?.map_or(0, |entry| entry.revision);
        if store.put_if(LISTENING_KEY, revision, value).await? == Put::Conflict {
            return Err(Fault::Refused("another process writes into this store".into()));
        }
        let mut heard = self.hold();
        (heard.listening, heard.looked_at) = (listening, now);
        Ok(())
    }

    /// Looks who went silent.
    pub fn look(&self, silence_ms: Millis) -> Vec<(NodeId, Vec<Transition>)> {
        let now = self.now();
        let mut heard = self.hold();
        heard.looked_at = now;
        let listening = heard.listening;
        // Only those that can change: a look at a node copies it while somebody else holds it.
        let overdue = |presence: &Presence| {
            presence.silent_at.is_none()
                && presence.heard_at.is_some_and(|at| listening.in_vain(at, now) >= silence_ms)
        };
        let ids: Vec<NodeId> =
            heard.nodes.iter().filter(|(_, p)| overdue(p)).map(|(id, _)| id.clone()).collect();
        let mut changes = Vec::new();
        for id in ids {
            let Some(before) = heard.nodes.remove(&id) else { continue };
            let (after, transitions) = look(Arc::unwrap_or_clone(before), &listening, silence_ms, now);
            heard.nodes.insert(id.clone(), Arc::new(after));
            if !transitions.is_empty() {
                heard.note(&id, true);
                changes.push((id, transitions));
            }
        }
        changes
    }

    /// Writes down what is due: parts with transitions soon, the others now and then; all if `all`.
    pub async fn checkpoint(&self, store: &Store, all: bool) -> Result<(), Fault> {
        let mut parts = self.parts(&self.due(all));
        while let Some((shard, part)) = parts.pop_first() {
            if let Err(fault) = write(store, shard, &part).await {
                // Not written is not done: they are due again.
                let mut heard = self.hold();
                heard.urgent.insert(shard);
                heard.urgent.extend(parts.into_keys());
                return Err(fault);
            }
        }
        Ok(())
    }

    fn due(&self, all: bool) -> Vec<u64> {
        let now = self.now();
        let mut heard = self.hold();
        if all || now.saturating_sub(heard.coarse_at) >= COARSE_MS {
            heard.coarse_at = now;
            let dirty = std::mem::take(&mut heard.dirty);
            heard.urgent.extend(dirty);
        }
        let most = if all { usize::MAX } else { SHARDS_PER_FLUSH };
        let due: Vec<u64> = heard.urgent.iter().copied().take(most).collect();
        for shard in &due {
            heard.urgent.remove(shard);
            heard.dirty.remove(shard);
        }
        due
    }

    /// The parts with what is in them now, in one pass over the fleet.
    fn parts(&self, shards: &[u64]) -> BTreeMap<u64, Shard> {
        let now = self.now();
        let empty = |shard: &u64| (*shard, Shard { now, nodes: BTreeMap::new() });
        let mut parts: BTreeMap<u64, Shard> = shards.iter().map(empty).collect();
        if !parts.is_empty() {
            for (id, presence) in &self.hold().nodes {
                if let Some(part) = parts.get_mut(&shard_of(id)) {
                    part.nodes.insert(id.to_string(), (**presence).clone());
                }
            }
        }
        parts
    }

    fn hold(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn write(store: &Store, shard: u64, part: &Shard) -> Result<(), Fault> {
    let key = format!("presence/{shard:04}");
    let value = serde_json::to_vec(part)?;
    loop {
        let revision = store.get(&key).await?.map_or(0, |entry| entry.revision);
        if let Put::Stored(_) = store.put_if(&key, revision, value.clone()).await? {
            return Ok(());
        }
    }
}

/// Records in the form of presence: as the fold makes them of a heartbeat that says nothing else.
fn records(stored: &[Rollback]) -> Vec<RollbackRecord> {
    let beat = Heartbeat { rollbacks: stored.to_vec(), ..Heartbeat::default() };
    hear(Presence::default(), &beat, 0).0.rollbacks
}

impl Heard {
    fn note(&mut self, id: &NodeId, urgent: bool) {
        let shard = shard_of(id);
        self.dirty.insert(shard);
        if urgent {
            self.urgent.insert(shard);
        }
    }
}

/// The same in every release: a part that moved would be read twice.
fn shard_of(id: &NodeId) -> u64 {
    let fold = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    id.as_str().as_bytes().iter().fold(0xcbf2_9ce4_8422_2325, fold) % SHARDS
}

impl Mesh {
    /// Takes a node's heartbeat and answers it.
    pub async fn heartbeat(&self, id: &NodeId, beat: &Heartbeat) -> Result<HeartbeatAnswer, Fault> {
        // Evidence first: the answer below lets the node forget it.
        let late = self.hearing.is_late(id, beat);
        let stored_rollbacks = self.registry.keep_rollbacks(id, &beat.rollbacks, late).await?;
        self.registry.seen_generation(id, beat.accepted).await?;
        self.attempts.see(self.registry.store(), beat).await?;
        let (presence, transitions) = self.hearing.fold(id, beat);
        if !beat.rollbacks.is_empty() {
            self.hearing.recall(id, &self.registry.rollbacks(id).await?);
        }
        let record = self.registry.node(id).ok_or_else(|| Fault::NotFound("the node is gone".into()))?;
        if let Some(facts) = &beat.facts {
            self.registry.set_facts(id, facts).await?;
        }
        if let Some(version) = presence.version.as_ref().filter(|_| presence.confirmed)
            && record.version.as_ref() != Some(version)
        {
            self.registry.set_version(id, version).await?;
        }
        self.pass_on(record.name.as_str(), &transitions);
        let newest = self.registry.node(id).map_or(0, |record| record.generation);
        Ok(HeartbeatAnswer {
            format: FORMAT,
            newest,
            stored_rollbacks,
            retry_after_ms: None,
            heartbeat_ms: Some(self.heartbeat_ms),
        })
    }

    /// Says transitions to people and wakes delivery.
    pub fn pass_on(&self, name: &str, transitions: &[Transition]) {
        for transition in transitions {
            let line = match transition {
                Transition::FirstHeard => "heard for the first time".into(),
                Transition::VersionChanged(before, now) => format!("runs {now} now, {before} before"),
                Transition::Confirmed(version) => format!("confirmed {version}"),
                Transition::RolledBack(record) => {
                    format!("rolled back from {} to {}: {}", record.from, record.to, record.reason)
                }
                Transition::WentSilent => "went silent".into(),
                Transition::CameBack => "came back".into(),
                Transition::SaidGoodbye(reason) => format!("said goodbye: {reason}"),
                Transition::OrderChanged(None) => "has no order any more".into(),
                Transition::OrderChanged(Some(order)) => {
                    format!("order of {} for {}: {}", order.rollout, order.version, order.state)
                }
                Transition::RefusedChanged(refused) => {
                    let versions: Vec<&str> = refused.iter().map(|r| r.version.as_str()).collect();
                    format!(
                        "refuses: {}",
                        if versions.is_empty() { "nothing".into() } else { versions.join(" ") }
                    )
                }
                Transition::DuplicatedIdentity => {
                    "two machines speak with this node's identity (a cloned disk?): join one of them again"
                        .into()
                }
            };
            log::info!("node {name}: {}", cut(&line, 400));
        }
        if !transitions.is_empty() {
            self.bell.notify_one();
        }
    }
}

#[cfg(test)]
#[path = "hear_tests.rs"]
mod tests;
