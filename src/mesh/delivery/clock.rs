//! Rollout time, and what "there" and "silent" mean in it.

use super::state::{Clock, Rollout};
use super::view::{FleetView, NodeView};
use crate::mesh::presence::{Listening, Millis};

/// The clock's mark is stored at least this often; a crash of the mesh loses at most this much.
pub const MARK_MS: Millis = 60_000;

impl Clock {
    /// Rollout time now. Nothing is added while the mesh is deaf, or for the time between two epochs.
    pub fn read(&self, listening: &Listening, now: Millis) -> Millis {
        if !listening.hears {
            return self.listened;
        }
        let from = if listening.epoch == self.epoch { self.marked } else { listening.since };
        self.listened + now.saturating_sub(from)
    }

    /// The same clock, counted up to now.
    pub fn mark(&self, listening: &Listening, now: Millis) -> Clock {
        Clock { listened: self.read(listening, now), epoch: listening.epoch, marked: now }
    }
}

/// One step's look at the fleet.
pub struct Look<'a> {
    /// The fleet.
    pub view: &'a FleetView,
    /// Mesh time.
    pub now: Millis,
    /// Rollout time.
    pub at: Millis,
}

impl<'a> Look<'a> {
    /// The look of a step at this moment.
    pub fn new(rollout: &Rollout, view: &'a FleetView, now: Millis) -> Self {
        Look { view, now, at: rollout.clock.read(&view.listening, now) }
    }

    /// Heard within a few heartbeats, by this epoch's ears, and did not say goodbye.
    pub fn is_there(&self, node: &NodeView) -> bool {
        let presence = &node.presence;
        let Some(heard_at) = presence.heard_at else { return false };
        presence.goodbye.is_none()
            && heard_at >= self.view.listening.since
            && self.view.listening.hears
            && self.now.saturating_sub(heard_at) <= self.view.recent_ms
    }

    /// For how long the mesh listened for this node in vain.
    pub fn in_vain(&self, node: &NodeView) -> Millis {
        self.view.listening.in_vain(node.presence.heard_at.unwrap_or(0), self.now)
    }

    /// For how long a node that was told at `told_at` has been silent: since it was heard, since it was
    /// told, since the last hold ended, whatever came last.
    pub fn silent_for(&self, node: &NodeView, told_at: Millis, held_until: Millis) -> Millis {
        let heard = self.at.saturating_sub(self.in_vain(node));
        self.at.saturating_sub(heard.max(told_at).max(held_until))
    }
}
