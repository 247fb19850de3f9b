//! The node.
pub mod life;
