//! The registry: nodes, join tokens, packages, rollback evidence, and what each node is declared to be.
//!
//! The only writer of those records; each change is a compare-and-swap on one record, stored before
//! anybody sees it. Called by the link (join, declarations), by `hear` (transitions only, never a
//! heartbeat), by the operator API, and by the delivery driver, which changes the declared host version
//! and nothing else. Records are held in memory as well: reading one costs no query.

pub mod deb;
pub mod evidence;
pub mod join;
pub mod node;
pub mod packages;
pub mod select;
pub mod specs;
pub mod tokens;

use crate::mesh::engine::{Put, Revision, Store};
use crate::mesh::fault::Fault;
use crate::model::{Attempt, Digest, Facts, Generation, NodeId, RolloutId, Version};
use crate::sys::crypt::SigningKey;
use crate::wire::envelope::Envelope;
use crate::wire::limits::cut;
use node::{NodeRecord, TargetRecord};
use packages::Packages;
use specs::Specs;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, PoisonError, RwLock};
use tokio::sync::watch;

/// No larger generation is ever issued: JSON numbers above it are not read exactly by every program.
pub const GENERATION_MAX: Generation = 1 << 53;
/// A node that reports a larger generation than this, and than its own declaration's, is not believed:
/// counters do not get there. Half of the above, so that after the largest one that is believed there
/// are enough left to be issued.
pub const REPORTED_MAX: Generation = GENERATION_MAX / 2;

/// See the module.
pub struct Registry {
    store: Store,
    nodes: RwLock<BTreeMap<NodeId, Arc<Slot>>>,
    packages: Packages,
    specs: Specs,
    joining: tokio::sync::Mutex<()>,
}

/// A node in memory: its record, and the bell that a waiting long poll hears.
struct Slot {
    record: RwLock<(Revision, Arc<NodeRecord>)>,
    generation: watch::Sender<Generation>,
}

impl Slot {
    fn new(revision: Revision, record: NodeRecord) -> Arc<Slot> {
        let generation = watch::channel(record.generation).0;
        Arc::new(Slot { record: RwLock::new((revision, Arc::new(record))), generation })
    }

    fn current(&self) -> (Revision, Arc<NodeRecord>) {
        self.record.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes a record over unless a newer one is here already; wakes whoever waits for its generation.
    fn take(&self, revision: Revision, record: Arc<NodeRecord>) {
        let mut held = self.record.write().unwrap_or_else(PoisonError::into_inner);
        if revision > held.0 {
            self.generation
                .send_if_modified(|g| std::mem::replace(g, record.generation) != record.generation);
            *held = (revision, record);
        }
    }
}

fn node_key(id: &NodeId) -> String {
    format!("node/{id}")
}

impl Registry {
    /// Reads everything from the store.
    pub async fn open(store: Store) -> Result<Self, Fault> {
        let mut nodes = BTreeMap::new();
        for (_, entry) in store.list("node/").await? {
            let record: NodeRecord = serde_json::from_slice(&entry.value)?;
            nodes.insert(record.id.clone(), Slot::new(entry.revision, record));
        }
        let packages = Packages::open(&store).await?;
        let specs = Specs::open(&store).await?;
        Ok(Registry { store, nodes: RwLock::new(nodes), packages, specs, joining: Default::default() })
    }

    /// One node.
    pub fn node(&self, id: &NodeId) -> Option<Arc<NodeRecord>> {
        self.slot(id).map(|slot| slot.current().1)
    }

    /// Every node, by id.
    pub fn nodes(&self) -> Vec<Arc<NodeRecord>> {
        let nodes = self.nodes.read().unwrap_or_else(PoisonError::into_inner);
        nodes.values().map(|slot| slot.current().1).collect()
    }

    /// The packages of the store.
    pub fn packages(&self) -> &Packages {
        &self.packages
    }

    /// The store itself, for the records of others (presence, delivery).
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Whether this is the node's credential: the hashes are compared, so that the time it takes says
    /// nothing about the credential.
    pub fn is_credential_of(&self, id: &NodeId, credential: &str) -> bool {
        let shown = Digest::new(crate::sys::crypt::sha256(credential.as_bytes()));
        self.node(id).is_some_and(|record| record.credential == shown)
    }

    /// A bell that rings when the node's declaration changes.
    pub fn generations(&self, id: &NodeId) -> Option<watch::Receiver<Generation>> {
        self.slot(id).map(|slot| slot.generation.subscribe())
    }

    /// The current declaration, signed over its exact bytes.
    pub fn declaration(&self, id: &NodeId, key: &SigningKey, key_id: &str) -> Result<Envelope, Fault> {
        let record = self.node(id).ok_or_else(|| no_such_node(id))?;
        let declaration = record.declaration(&self.specs.get(&record.spec)?);
        let signature = key.sign(declaration.as_bytes());
        Ok(Envelope { declaration, key: key_id.to_owned(), signature })
    }

    /// Declares resources for these nodes, and for nodes that join later where `also_later`.
    pub async fn declare(&self, nodes: &[NodeId], spec: String, also_later: bool) -> Result<usize, Fault> {
        let digest = self.specs.keep(&self.store, spec).await?;
        if also_later {
            self.specs.keep_default(&self.store, digest).await?;
        }
        let mut changed = 0;
        for id in nodes {
            changed += usize::from(self.change(id, |record| record.spec = digest).await?);
        }
        Ok(changed)
    }

    /// Declares a host version; says whether that changed anything. An order of a later attempt stays:
    /// attempts grow over the whole mesh, so an earlier one is stale.
    pub async fn tell(&self, id: &NodeId, target: &TargetRecord) -> Result<bool, Fault> {
        self.change(id, |record| match &record.target {
            Some(current) if current.attempt >= target.attempt => {}
            _ => record.target = Some(target.clone()),
        })
        .await
    }

    /// Takes the order of this attempt back, if it still stands.
    pub async fn withdraw(&self, id: &NodeId, rollout: &RolloutId, attempt: Attempt) -> Result<bool, Fault> {
        self.change(id, |record| {
            record.target.take_if(|target| target.rollout == *rollout && target.attempt == attempt);
        })
        .await
    }

    /// Sets labels; an empty value takes one off.
    pub async fn label(&self, id: &NodeId, labels: &[(String, String)]) -> Result<bool, Fault> {
        self.change(id, |record| {
            for (key, value) in labels {
                match value.as_str() {
                    "" => record.labels.remove(key),
                    value => record.labels.insert(key.clone(), value.to_owned()),
                };
            }
        })
        .await
    }

    /// The node runs this version and has confirmed it.
    pub async fn set_version(&self, id: &NodeId, version: &Version) -> Result<bool, Fault> {
        self.change(id, |record| record.version = Some(version.clone())).await
    }

    /// The node says that its machine is like this.
    pub async fn set_facts(&self, id: &NodeId, facts: &Facts) -> Result<bool, Fault> {
        self.change(id, |record| record.facts = bounded(facts)).await
    }

    /// The node holds a declaration of this generation. After a restore of an older store it may be
    /// above ours; then ours is issued anew above it, or the node would never take another one.
    pub async fn seen_generation(&self, id: &NodeId, reported: Generation) -> Result<bool, Fault> {
        match self.node(id) {
            Some(record) if record.generation < reported => {
                if reported > REPORTED_MAX {
                    return Err(Fault::Malformed(format!("generation {reported} is not one of this mesh")));
                }
                self.change(id, |record| record.generation = record.generation.max(reported + 1)).await
            }
            _ => Ok(false),
        }
    }

    /// Adds a package that was uploaded and brings it to the nodes that run its version.
    pub async fn add_package(
        &self,
        draft: crate::mesh::engine::large::Draft,
    ) -> Result<packages::Added, Fault> {
        let added = self.packages.add(&self.store, draft).await?;
        for record in self.nodes() {
            if record.version.as_ref() == Some(&added.listed.package.version) {
                // The retained package is looked up with every change.
                self.change(&record.id, |_| {}).await?;
            }
        }
        Ok(added)
    }

    /// Edits a record by compare-and-swap; says whether anything changed. The retained package follows
    /// from version and packages, the generation from whether the declaration says something new.
    async fn change(&self, id: &NodeId, edit: impl Fn(&mut NodeRecord)) -> Result<bool, Fault> {
        let slot = self.slot(id).ok_or_else(|| no_such_node(id))?;
        loop {
            let (revision, old) = slot.current();
            let mut new = (*old).clone();
            edit(&mut new);
            new.retain = new.version.as_ref().and_then(|version| self.packages.find(&new.facts, version));
            if new.declares_differently(&old) && new.generation == old.generation {
                new.generation += 1;
            }
            if let Some(target) = new.target.as_mut().filter(|target| target.since == 0) {
                target.since = new.generation;
            }
            if new == *old {
                return Ok(false);
            }
            if new.generation > GENERATION_MAX && new.generation != old.generation {
                return Err(io::Error::other(format!("the generations of node {id} are used up")).into());
            }
            match self.store.put_if(&node_key(id), revision, serde_json::to_vec(&new)?).await? {
                Put::Stored(stored) => {
                    slot.take(stored, Arc::new(new));
                    return Ok(true);
                }
                Put::Conflict => self.reload(id, &slot).await?,
            }
        }
    }

    async fn reload(&self, id: &NodeId, slot: &Slot) -> Result<(), Fault> {
        let entry = self.store.get(&node_key(id)).await?;
        let entry = entry.ok_or_else(|| io::Error::other(format!("the record of node {id} is gone")))?;
        slot.take(entry.revision, Arc::new(serde_json::from_slice(&entry.value)?));
        Ok(())
    }

    fn slot(&self, id: &NodeId) -> Option<Arc<Slot>> {
        self.nodes.read().unwrap_or_else(PoisonError::into_inner).get(id).cloned()
    }
}

/// Facts are a node's own words: cut to what a record may hold.
fn bounded(facts: &Facts) -> Facts {
    Facts {
        architecture: cut(&facts.architecture, 32),
        package_format: cut(&facts.package_format, 32),
        distribution: cut(&facts.distribution, 64),
        kernel: cut(&facts.kernel, 96),
    }
}

fn no_such_node(id: &NodeId) -> Fault {
    Fault::NotFound(format!("there is no node {id}"))
}

#[cfg(test)]
#[path = "registry_tests.rs"]
mod tests;
