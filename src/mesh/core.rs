//! What the doors of the mesh share: the registry, what is heard, the keys, and the settings of `serve`.
//!
//! Made once by `serve`; held by the link, the operator API and the delivery driver. Owns nothing else.

use super::attempts::Attempts;
use super::ca::Ca;
use super::driver::{self, Standing};
use super::engine::Store;
use super::fault::Fault;
use super::hear::Hearing;
use super::registry::Registry;
use crate::model::Attempt;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::{Mutex, Notify, watch};

/// Which CA and declaration key the nodes of this store trust.
const CA_KEY: &str = "ca";

/// See the module.
pub struct Mesh {
    /// Nodes, tokens, packages, declarations.
    pub registry: Registry,
    /// What was heard of the nodes.
    pub hearing: Hearing,
    /// Certificates and the declaration key.
    pub ca: Ca,
    /// `https://HOST:PORT` as nodes are told.
    pub advertise: String,
    /// The interval that nodes are told, in milliseconds.
    pub heartbeat_ms: u64,
    /// One at a time changes rollouts and acts on them: an action that was decided before a stop is
    /// never carried out after it.
    pub turn: Mutex<()>,
    /// Every rollout by its attempt: what the driver's clock looks at.
    pub index: std::sync::Mutex<BTreeMap<Attempt, Standing>>,
    /// The numbers of attempts.
    pub attempts: Attempts,
    /// Rings when delivery should look at once.
    pub bell: Notify,
    /// Where tests make the process stand still.
    pub pause: Pause,
    /// Turns true when the process is asked to end.
    pub stopping: watch::Receiver<bool>,
}

impl Mesh {
    /// Reads the store and puts the parts together; a new epoch of listening begins.
    pub async fn open(
        store: Store,
        ca: Ca,
        told: Told,
        pause: Pause,
        stopping: watch::Receiver<bool>,
    ) -> Result<Self, Fault> {
        let known = driver::known(&store).await?;
        let hearing = Hearing::open(&store, known.latest).await?;
        let registry = Registry::open(store).await?;
        for (id, stored) in registry.all_rollbacks().await? {
            if registry.node(&id).is_some() {
                hearing.recall(&id, &stored);
            }
        }
        let orders = registry.nodes().into_iter().filter_map(|record| Some(record.target.as_ref()?.attempt));
        let attempt = orders.chain(known.index.keys().copied()).max().unwrap_or(0);
        Ok(Mesh {
            attempts: Attempts::open(registry.store(), attempt).await?,
            registry,
            hearing,
            ca,
            advertise: told.advertise,
            heartbeat_ms: told.heartbeat_ms,
            turn: Mutex::new(()),
            index: std::sync::Mutex::new(known.index),
            bell: Notify::new(),
            pause,
            stopping,
        })
    }
}

/// Opens the CA of this store; one is made only for a store that no node was ever told of.
///
/// # Errors
/// The CA is missing or another one than the store knows: nodes would find nobody whom they trust.
pub async fn authority(store: &Store, data: &Path) -> Result<Ca, Fault> {
    let known = store.get(CA_KEY).await?;
    let is_used = known.is_some() || !store.list("node/").await?.is_empty();
    let ca = Ca::open(data, is_used)?;
    let ours = format!("{} {}", ca.fingerprint, ca.declaration_key_id);
    match known {
        None => {
            store.put_if(CA_KEY, 0, ours.into_bytes()).await?;
        }
        Some(entry) if entry.value == ours.as_bytes() => {}
        Some(_) => {
            let text = format!(
                "{} is not the one that mesh.db belongs to: nodes would refuse it. Put both back from \
                 one backup",
                data.join("ca").display()
            );
            return Err(Fault::Refused(text));
        }
    }
    Ok(ca)
}

/// What nodes are told.
pub struct Told {
    /// `https://HOST:PORT`.
    pub advertise: String,
    /// The interval of heartbeats, in milliseconds.
    pub heartbeat_ms: u64,
}

/// A named point at which a test wants to kill the process.
#[derive(Default)]
pub struct Pause {
    at: Option<PausePoint>,
    mark: PathBuf,
}

/// The points, in the order in which a step passes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum PausePoint {
    /// A rollout was stored; nothing of what it orders was done.
    RolloutStored,
    /// An order is about to be put into a declaration.
    OrderBeforePut,
    /// An order was put into a declaration.
    OrderAfterPut,
    /// A claim was stored; the node has no answer.
    ClaimStored,
    /// A stop was stored; no order was withdrawn.
    StopStored,
}

impl Pause {
    /// Stands still at `at`, after writing the file `mark`.
    pub fn new(at: Option<PausePoint>, mark: PathBuf) -> Self {
        Pause { at, mark }
    }

    /// Passed by the code that reaches a point.
    pub async fn reach(&self, point: PausePoint) -> io::Result<()> {
        if self.at == Some(point) {
            crate::sys::durable::replace(&self.mark, format!("{point:?}\n").as_bytes(), 0o600)?;
            log::warn!("standing still at {point:?}, as --pause-at says: kill this process");
            loop {
                tokio::time::sleep(Duration::from_secs(3600)).await;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mesh::engine::embedded::Embedded;
    use crate::mesh::trial::Folder;
    use std::sync::Arc;

    #[tokio::test]
    async fn a_store_with_nodes_never_gets_another_ca() {
        let folder = Folder::new("core-authority");
        let data = folder.path();
        let (ca, away) = (data.join("ca"), data.join("away"));
        let store: Store = Arc::new(Embedded::open(data).unwrap());
        let first = authority(&store, data).await.unwrap().fingerprint;
        assert_eq!(authority(&store, data).await.unwrap().fingerprint, first);
        std::fs::rename(&ca, &away).unwrap();
        let missing = authority(&store, data).await.err().unwrap().to_string();
        assert!(missing.contains("backup") && !ca.exists(), "{missing}");
        Ca::open(data, false).unwrap();
        let other = authority(&store, data).await.err().unwrap().to_string();
        assert!(other.contains("one backup"), "{other}");
        std::fs::remove_dir_all(&ca).unwrap();
        std::fs::rename(&away, &ca).unwrap();
        assert_eq!(authority(&store, data).await.unwrap().fingerprint, first);
    }

    #[tokio::test]
    async fn a_store_of_an_earlier_release_is_known_by_its_nodes() {
        let folder = Folder::new("core-authority-old");
        let store: Store = Arc::new(Embedded::open(folder.path()).unwrap());
        store.put_if("node/n-1", 0, b"{}".to_vec()).await.unwrap();
        assert!(authority(&store, folder.path()).await.is_err());
        assert!(!folder.path().join("ca").exists());
    }
}
