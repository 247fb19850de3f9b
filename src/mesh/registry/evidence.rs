//! Rollback records as the nodes brought them: stored durably before they are acknowledged, because the
//! node forgets a record once the mesh says that it has it.

use super::Registry;
use crate::mesh::fault::Fault;
use crate::model::NodeId;
use crate::wire::heartbeat::Rollback;

/// Most records kept of one node: a machine that rolls back this often is broken or lies.
const RECORDS_MAX: usize = 1000;
/// Longest text of a field that becomes part of a key, in bytes.
const BOOT_BYTES_MAX: usize = 64;

impl Registry {
    /// Stores the records; gives the numbers that may be acknowledged.
    pub async fn keep_rollbacks(&self, node: &NodeId, rollbacks: &[Rollback]) -> Result<Vec<u64>, Fault> {
        let mut stored = Vec::with_capacity(rollbacks.len());
        if rollbacks.is_empty() {
            return Ok(stored);
        }
        if self.store.list(&format!("rollback/{node}/")).await?.len() >= RECORDS_MAX {
            log::warn!("node {node} brought more than {RECORDS_MAX} rollback records: no more are kept");
            return Ok(stored);
        }
        for rollback in rollbacks {
            let boot: String = rollback
                .boot
                .chars()
                .filter(|c| c.is_ascii_alphanumeric() || *c == '-')
                .take(BOOT_BYTES_MAX)
                .collect();
            let key = format!("rollback/{node}/{:020}-{boot}", rollback.id);
            let value = miniserde::json::to_string(rollback).into_bytes();
            // A conflict says that it is stored already: the acknowledgement got lost (C79).
            self.store.put_if(&key, 0, value).await?;
            stored.push(rollback.id);
        }
        Ok(stored)
    }

    /// Every record of a node, oldest first.
    pub async fn rollbacks(&self, node: &NodeId) -> Result<Vec<Rollback>, Fault> {
        let entries = self.store.list(&format!("rollback/{node}/")).await?;
        let read = |value: &[u8]| miniserde::json::from_str(std::str::from_utf8(value).ok()?).ok();
        Ok(entries.iter().filter_map(|(_, entry)| read(&entry.value)).collect())
    }
}
