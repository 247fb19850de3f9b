//! What a step is shown of the fleet, and what it wants done.

use crate::mesh::presence::{Listening, Millis, Presence};
use crate::model::{Attempt, Facts, Generation, NodeId, RolloutId, Version};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The fleet as it is now: every node, also those outside the rollout (they are the control group).
/// A node that is missing here was taken out of the fleet.
#[derive(Clone, Debug, Default)]
pub struct FleetView {
    /// When and whether the mesh can hear.
    pub listening: Listening,
    /// A node heard within this time counts as there: about three heartbeat intervals.
    pub recent_ms: Millis,
    /// The nodes.
    pub nodes: BTreeMap<NodeId, NodeView>,
}

/// One node, from the registry (left) and presence.
#[derive(Clone, Debug, Default)]
pub struct NodeView {
    /// Its name.
    pub name: String,
    /// What kind of machine it is.
    pub facts: Facts,
    /// Whether the store holds a package of the rollout's version for its architecture and format.
    pub has_package: bool,
    /// The order in its declaration, if there is one.
    pub order: Option<OrderView>,
    /// What it last said.
    pub presence: Arc<Presence>,
}

/// The order that stands in a node's declaration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderView {
    /// The rollout that ordered it.
    pub rollout: RolloutId,
    /// The attempt. Attempt ids grow over the whole mesh.
    pub attempt: Attempt,
    /// The version.
    pub version: Version,
    /// Generation of the first declaration that carried this order.
    pub generation: Generation,
}

/// What the driver has to do after it stored the rollout. Doing it twice is the same as once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// Put this order into the node's declaration.
    Tell {
        /// The node.
        node: NodeId,
        /// The version that it shall run.
        version: Version,
        /// The attempt.
        attempt: Attempt,
        /// Upgrade although no rollback could follow.
        insist_unarmed: bool,
    },
    /// Take the order of this attempt out of the node's declaration, if it is still in there. The node
    /// goes on with what it runs.
    Withdraw {
        /// The node.
        node: NodeId,
        /// The attempt whose order is taken out.
        attempt: Attempt,
    },
}
