//! The numbers of attempts: each is given once, and none that a node has ever spoken of is given again.
//!
//! A node refuses a version until a *newer* attempt asks, so a store that was put back from an old copy
//! must not count from where the copy stood: what nodes report raises the stored maximum, whatever the
//! clocks say. Called by the driver when a rollout starts and by `hear` for each heartbeat, which costs a
//! write only when a node speaks of a number above all that are known.

use super::core::Mesh;
use super::engine::{Put, Store};
use super::fault::Fault;
use crate::model::Attempt;
use crate::wire::heartbeat::Heartbeat;
use std::sync::atomic::{AtomicU64, Ordering};

const KEY: &str = "attempts";
/// A node that speaks of a larger one is not believed: one liar must not use the numbers up.
const REPORTED_MAX: Attempt = 1 << 52;

/// The largest number that was given or reported.
pub struct Attempts(AtomicU64);

impl Attempts {
    /// Reads it; `known` is the largest one in other records.
    pub async fn open(store: &Store, known: Attempt) -> Result<Self, Fault> {
        let attempts = Attempts(AtomicU64::new(0));
        let stored = attempts.raise(store, |stored| stored.max(known)).await?;
        log::debug!("attempts up to {stored} are known");
        Ok(attempts)
    }

    /// A new number, above all that are known; used once, also by a start that fails.
    pub async fn next(&self, store: &Store) -> Result<Attempt, Fault> {
        self.raise(store, |stored| stored + 1).await
    }

    /// Takes notice of what a node speaks of.
    pub async fn see(&self, store: &Store, beat: &Heartbeat) -> Result<(), Fault> {
        let order = beat.order.iter().map(|order| order.attempt);
        let refused = beat.refused.iter().map(|refused| refused.attempt);
        let rollbacks = beat.rollbacks.iter().map(|rollback| rollback.attempt);
        let said = order.chain(refused).chain(rollbacks).filter(|attempt| *attempt <= REPORTED_MAX).max();
        if let Some(said) = said.filter(|said| *said > self.0.load(Ordering::Relaxed)) {
            self.raise(store, |stored| stored.max(said)).await?;
        }
        Ok(())
    }

    async fn raise(&self, store: &Store, to: impl Fn(Attempt) -> Attempt) -> Result<Attempt, Fault> {
        loop {
            let entry = store.get(KEY).await?;
            let revision = entry.as_ref().map_or(0, |entry| entry.revision);
            let stored: Attempt =
                entry.map(|entry| serde_json::from_slice(&entry.value)).transpose()?.unwrap_or(0);
            let next = to(stored);
            let unchanged = next == stored;
            if unchanged || store.put_if(KEY, revision, serde_json::to_vec(&next)?).await? != Put::Conflict {
                self.0.fetch_max(next, Ordering::Relaxed);
                return Ok(next);
            }
        }
    }
}

impl Mesh {
    /// See [`Attempts::next`].
    pub(super) async fn next_attempt(&self) -> Result<Attempt, Fault> {
        self.attempts.next(self.registry.store()).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mesh::engine::embedded::Embedded;
    use crate::mesh::trial::Folder;
    use crate::wire::heartbeat::{OrderState, Refused, Rollback};
    use std::sync::Arc;

    #[tokio::test]
    async fn a_number_is_above_all_that_were_ever_given_or_heard_of() {
        let folder = Folder::new("attempts");
        let store: Store = Arc::new(Embedded::open(folder.path()).unwrap());
        let attempts = Attempts::open(&store, 0).await.unwrap();
        assert_eq!(attempts.next(&store).await.unwrap(), 1);
        let see = async |beat: Heartbeat| attempts.see(&store, &beat).await.unwrap();
        let order = Some(OrderState { attempt: 7, ..OrderState::default() });
        see(Heartbeat { order, ..Heartbeat::default() }).await;
        assert_eq!(attempts.next(&store).await.unwrap(), 8);
        let refused = vec![Refused { attempt: 20, ..Refused::default() }, Refused::default()];
        see(Heartbeat { refused, ..Heartbeat::default() }).await;
        assert_eq!(attempts.next(&store).await.unwrap(), 21);
        let rollbacks = vec![Rollback { attempt: 30, ..Rollback::default() }];
        see(Heartbeat { rollbacks, ..Heartbeat::default() }).await;
        let refused = vec![Refused { attempt: u64::MAX, ..Refused::default() }];
        see(Heartbeat { refused, ..Heartbeat::default() }).await;
        // Nothing of it is heard again after the next start.
        let again = Attempts::open(&store, 0).await.unwrap();
        assert_eq!(again.next(&store).await.unwrap(), 31);
        let restored = Attempts::open(&store, 99).await.unwrap();
        assert_eq!(restored.next(&store).await.unwrap(), 100);
    }
}
