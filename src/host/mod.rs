//! The node.
pub mod life;
pub mod resource;
pub mod settings;
pub mod state;
