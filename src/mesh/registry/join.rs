//! How a machine with a token becomes a node.
//!
//! The token's use is taken before anything is made: a crash in between wastes a use and makes no node
//! that nobody asked for. One join at a time, so that names stay unique; a join writes three records.

use super::node::NodeRecord;
use super::{Registry, Slot, bounded, node_key};
use crate::mesh::engine::{Put, Revision};
use crate::mesh::fault::Fault;
use crate::model::{Digest, NodeId, NodeName};
use crate::sys::crypt::{hex, random, random_secret, sha256};
use crate::wire::join::JoinRequest;
use crate::wire::limits::cut;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

/// A node that just joined.
pub struct Joined {
    /// Its record.
    pub node: Arc<NodeRecord>,
    /// Told once, to the node, and kept nowhere else.
    pub credential: String,
}

/// Most names tried for a machine whose host name is taken: `web`, `web-2`, …
const SUFFIXES_MAX: u32 = 1000;

impl Registry {
    /// Lets a machine in.
    pub async fn join(&self, request: &JoinRequest, now_unix: u64) -> Result<Joined, Fault> {
        let _one_at_a_time = self.joining.lock().await;
        self.check_token(&request.token, now_unix).await?;
        let (name, revision) = self.free_name(request).await?;
        self.take_use(&request.token, now_unix).await?;
        let id: NodeId = format!("n-{}", hex(&random::<8>()?)).parse().map_err(unlikely)?;
        let reserved = self.store.put_if(&name_key(&name), revision, id.as_str().into()).await?;
        if reserved == Put::Conflict {
            return Err(Fault::Refused(format!("the name {name} was taken this moment: join again")));
        }
        let credential = random_secret()?;
        let facts = bounded(&request.facts);
        let node = NodeRecord {
            id: id.clone(),
            name,
            labels: BTreeMap::new(),
            credential: Digest::new(sha256(credential.as_bytes())),
            facts,
            joined_unix: now_unix,
            version: None,
            spec: self.specs.default_spec(),
            target: None,
            retain: None,
            generation: 1,
        };
        let stored = match self.store.put_if(&node_key(&id), 0, serde_json::to_vec(&node)?).await? {
            Put::Stored(revision) => revision,
            Put::Conflict => return Err(unlikely("the node's id is taken")),
        };
        let slot = Slot::new(stored, node);
        let node = slot.current().1;
        self.nodes.write().unwrap_or_else(PoisonError::into_inner).insert(id, slot);
        Ok(Joined { node, credential })
    }

    /// A name that no node has, and the revision of its reservation. A reservation without a node is
    /// what a crash in the middle of a join left: joins are one at a time, so it is free.
    async fn free_name(&self, request: &JoinRequest) -> Result<(NodeName, Revision), Fault> {
        if let Some(wanted) = request.name.as_deref().filter(|name| !name.is_empty()) {
            let name: NodeName = wanted.parse().map_err(|error| Fault::Malformed(format!("{error}")))?;
            return match self.reservation(&name).await? {
                Some(revision) => Ok((name, revision)),
                None => {
                    let text = format!("a node named {name} is here already: join with another --name");
                    Err(Fault::Refused(text))
                }
            };
        }
        let base = name_from(&request.hostname);
        for number in 1..=SUFFIXES_MAX {
            let text = if number == 1 { base.clone() } else { format!("{base}-{number}") };
            let name: NodeName = text.parse().map_err(unlikely)?;
            if let Some(revision) = self.reservation(&name).await? {
                return Ok((name, revision));
            }
        }
        Err(Fault::Refused(format!("too many nodes are named {base}: join with --name")))
    }

    /// The revision to reserve the name with; `None` if a node has it.
    async fn reservation(&self, name: &NodeName) -> Result<Option<Revision>, Fault> {
        let Some(entry) = self.store.get(&name_key(name)).await? else { return Ok(Some(0)) };
        let owner = String::from_utf8_lossy(&entry.value).into_owned();
        let lives = self.store.get(&format!("node/{owner}")).await?.is_some();
        Ok((!lives).then_some(entry.revision))
    }
}

fn name_key(name: &NodeName) -> String {
    format!("name/{name}")
}

/// A name out of whatever a machine calls itself.
fn name_from(hostname: &str) -> String {
    let clean: String = hostname
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' })
        .collect();
    let name = cut(clean.trim_start_matches(['.', '-']), 56);
    if name.is_empty() { "node".into() } else { name }
}

fn unlikely(error: impl ToString) -> Fault {
    Fault::Broken(std::io::Error::other(error.to_string()))
}
