//! The packages that nodes may be told to install: name, version, format, architecture, hash.
//!
//! One version of one format and architecture has one content, for ever: nodes that got 'the same'
//! version must run the same bytes, or no verdict about it means anything.

use super::deb;
use super::node::PackageRecord;
use crate::mesh::engine::large::Draft;
use crate::mesh::engine::{Put, Store};
use crate::mesh::fault::Fault;
use crate::model::{Digest, Facts, Version};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

/// A package as it is stored and listed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// `deb`.
    pub format: String,
    /// The distribution's name of the architecture.
    pub architecture: String,
    /// Version, hash and size.
    #[serde(flatten)]
    pub package: PackageRecord,
}

/// How an addition ended.
pub struct Added {
    /// What is in the store now.
    pub listed: Listed,
    /// The very same file was there before.
    pub was_there: bool,
}

/// Format, architecture, version.
type Key = (String, String, String);

/// All packages, in memory and in the store.
pub struct Packages {
    listed: RwLock<BTreeMap<Key, Listed>>,
    adding: tokio::sync::Mutex<()>,
}

impl Packages {
    /// Reads all of them.
    pub async fn open(store: &Store) -> Result<Self, Fault> {
        let mut packages = BTreeMap::new();
        for (_, entry) in store.list("package/").await? {
            let listed: Listed = serde_json::from_slice(&entry.value)?;
            packages.insert(key(&listed), listed);
        }
        Ok(Packages { listed: RwLock::new(packages), adding: Default::default() })
    }

    /// The package of a version for this kind of machine.
    pub fn find(&self, facts: &Facts, version: &Version) -> Option<PackageRecord> {
        let key = (facts.package_format.clone(), facts.architecture.clone(), version.to_string());
        self.listed
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&key)
            .map(|listed| listed.package.clone())
    }

    /// All of them, by format, architecture and version.
    pub fn list(&self) -> Vec<Listed> {
        let mut list: Vec<Listed> =
            self.listed.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        list.sort_by(|a, b| {
            (&a.format, &a.architecture, &a.package.version).cmp(&(
                &b.format,
                &b.architecture,
                &b.package.version,
            ))
        });
        list
    }

    /// Whether a package has this hash: a node may fetch packages and nothing else.
    pub fn has(&self, digest: &Digest) -> bool {
        let packages = self.listed.read().unwrap_or_else(PoisonError::into_inner);
        packages.values().any(|listed| listed.package.sha256 == *digest)
    }

    /// Reads what the file says of itself and keeps it.
    pub(super) async fn add(&self, store: &Store, draft: Draft) -> Result<Added, Fault> {
        let control = deb::read(draft.reader()?).map_err(|refusal| Fault::Refused(refusal.to_string()))?;
        let listed = Listed {
            format: "deb".into(),
            architecture: control.architecture,
            package: PackageRecord { version: control.version, sha256: draft.digest(), size: draft.length() },
        };
        let (format, architecture, version) = key(&listed);
        let path = format!("package/{format}/{architecture}/{version}");
        // The record is looked at before the file is kept: of a refused package nothing stays. One
        // addition at a time, or two of one version could both find nothing.
        let _one_at_a_time = self.adding.lock().await;
        let entry = store.get(&path).await?;
        let before: Option<Listed> = entry.map(|entry| serde_json::from_slice(&entry.value)).transpose()?;
        if before.as_ref().is_some_and(|before| *before != listed) {
            let text = format!(
                "{version} for {architecture} is here already with other content: a version is never \
                 replaced; build it again under a new version"
            );
            return Err(Fault::Refused(text));
        }
        store.keep_large(draft).await?;
        let was_there = before.is_some();
        if !was_there && store.put_if(&path, 0, serde_json::to_vec(&listed)?).await? == Put::Conflict {
            return Err(Fault::Refused(format!("{version} for {architecture} was added this moment")));
        }
        self.listed.write().unwrap_or_else(PoisonError::into_inner).insert(key(&listed), listed.clone());
        Ok(Added { listed, was_there })
    }
}

fn key(listed: &Listed) -> Key {
    (listed.format.clone(), listed.architecture.clone(), listed.package.version.to_string())
}
