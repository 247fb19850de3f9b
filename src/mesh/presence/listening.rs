//! When the mesh was able to hear.

use super::Millis;
use serde::{Deserialize, Serialize};

/// The mesh's ability to hear: an input of every judgement of silence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listening {
    /// Grows with every start of the mesh, failover and end of a deafness; must never repeat, so the
    /// driver stores it before it listens.
    pub epoch: u64,
    /// Mesh time at which this epoch began.
    pub since: Millis,
    /// Whether the mesh can hear now.
    pub hears: bool,
}

impl Listening {
    /// A new epoch begins: the mesh has started, taken over, or can hear again.
    pub fn begin(self, now: Millis) -> Listening {
        Listening { epoch: self.epoch + 1, since: now, hears: true }
    }

    /// The mesh cannot hear any more (its endpoint is down, its store does not answer).
    pub fn deafen(self) -> Listening {
        Listening { hears: false, ..self }
    }

    /// For how long the mesh has listened in vain for something last heard at `heard_at`.
    pub fn in_vain(&self, heard_at: Millis, now: Millis) -> Millis {
        if self.hears { now.saturating_sub(heard_at.max(self.since)) } else { 0 }
    }
}
