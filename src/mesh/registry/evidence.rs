//! Rollback records as the nodes brought them: stored durably before they are acknowledged, because the
//! node forgets a record once the mesh says that it has it. What is stored here is what reports show:
//! `hear` takes it over when a record comes and when the mesh starts.

use super::Registry;
use crate::mesh::engine::{Entry, Put};
use crate::mesh::fault::Fault;
use crate::model::NodeId;
use crate::wire::heartbeat::Rollback;
use std::collections::BTreeMap;

/// Most records kept of one node: a machine that rolls back this often is broken or lies.
const RECORDS_MAX: usize = 1000;
/// Longest text of a field that becomes part of a key, in bytes.
const BOOT_BYTES_MAX: usize = 64;

impl Registry {
    /// Stores the records; gives the numbers that may be acknowledged. A record that says something new
    /// (a rollback that was tried again) takes the place of what it said before; one out of a `late`
    /// statement does not.
    pub async fn keep_rollbacks(
        &self,
        node: &NodeId,
        rollbacks: &[Rollback],
        late: bool,
    ) -> Result<Vec<u64>, Fault> {
        let mut stored = Vec::with_capacity(rollbacks.len());
        if rollbacks.is_empty() {
            return Ok(stored);
        }
        let known = self.store.list(&format!("rollback/{node}/")).await?;
        for rollback in rollbacks {
            let key = key(node, rollback);
            if known.len() >= RECORDS_MAX && known.iter().all(|(known, _)| *known != key) {
                log::warn!("node {node} brought more than {RECORDS_MAX} rollback records: no more are kept");
                continue;
            }
            self.keep_rollback(&key, rollback, late).await?;
            stored.push(rollback.id);
        }
        Ok(stored)
    }

    async fn keep_rollback(&self, key: &str, rollback: &Rollback, late: bool) -> Result<(), Fault> {
        let value = miniserde::json::to_string(rollback).into_bytes();
        loop {
            let before = self.store.get(key).await?;
            // The very same record again: the acknowledgement got lost (C79).
            if before.as_ref().is_some_and(|entry| late || entry.value == value) {
                return Ok(());
            }
            let revision = before.map_or(0, |entry| entry.revision);
            if let Put::Stored(_) = self.store.put_if(key, revision, value.clone()).await? {
                return Ok(());
            }
        }
    }

    /// Every record of a node, in the order in which they were stored.
    pub async fn rollbacks(&self, node: &NodeId) -> Result<Vec<Rollback>, Fault> {
        Ok(in_order(self.store.list(&format!("rollback/{node}/")).await?))
    }

    /// Every record of every node that has one.
    pub async fn all_rollbacks(&self) -> Result<BTreeMap<NodeId, Vec<Rollback>>, Fault> {
        let mut nodes: BTreeMap<NodeId, Vec<(String, Entry)>> = BTreeMap::new();
        for (key, entry) in self.store.list("rollback/").await? {
            if let Some(Ok(node)) = key.split('/').nth(1).map(str::parse) {
                nodes.entry(node).or_default().push((key, entry));
            }
        }
        Ok(nodes.into_iter().map(|(node, entries)| (node, in_order(entries))).collect())
    }
}

fn key(node: &NodeId, rollback: &Rollback) -> String {
    let plain = |c: &char| c.is_ascii_alphanumeric() || *c == '-';
    let boot: String = rollback.boot.chars().filter(plain).take(BOOT_BYTES_MAX).collect();
    format!("rollback/{node}/{:020}-{boot}", rollback.id)
}

/// By the write that stored it: numbers begin anew on a node whose state folder was lost.
fn in_order(mut entries: Vec<(String, Entry)>) -> Vec<Rollback> {
    entries.sort_by_key(|(_, entry)| entry.revision);
    let read = |value: &[u8]| miniserde::json::from_str(std::str::from_utf8(value).ok()?).ok();
    entries.iter().filter_map(|(_, entry)| read(&entry.value)).collect()
}
