//! The claim: a node's last question before it touches a package, and the mesh's answer.
//!
//! Stop and claim meet in one compare-and-swap on the rollout (C76): after a stop is acknowledged no
//! claim is granted. No answer means no.

use miniserde::{Deserialize, Serialize};

/// `POST /v1/orders/claim`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimRequest {
    /// See [`super::FORMAT`].
    pub format: u64,
    /// The rollout that ordered the version.
    pub rollout: String,
    /// The attempt id of the order.
    pub attempt: u64,
    /// The version that the node is about to install.
    pub version: String,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimAnswer {
    /// See [`super::FORMAT`].
    pub format: u64,
    /// Whether the node may begin.
    pub granted: bool,
    /// Why not.
    pub reason: Option<String>,
    /// How long the claim is good for, in milliseconds of the node's own boot-time clock.
    pub valid_ms: u64,
}

/// How long a granted claim is good for, in milliseconds (2-node, Upgrade, step 5).
pub const CLAIM_VALID_MS: u64 = 60_000;
