//! nox-mesh-host: a fleet agent whose own bad version cannot silence the fleet.
//!
//! # The rooms, and who may import whom
//!
//! | room | what | may import |
//! |---|---|---|
//! | [`model`] | pure: shared values | nothing of ours |
//! | [`wire`] | pure: what travels between node and mesh | `model` |
//! | [`sys`] | effects that know no domain: files, commands, waiting, crypto | nothing of ours |
//! | [`host`] | the node: reconcile loop, heartbeat, upgrade | `sys`, `wire`, `model` |
//! | `mesh` | the other end (feature `mesh`): link, registry, presence, delivery | `sys`, `wire`, `model` |
//!
//! `host` and `mesh` never import each other. Pure rooms (also `host::life`, every `plan.rs`,
//! `mesh::presence` and `mesh::delivery`) have no clock, no file system, no processes, no log.
//! `tests/tidy.rs` holds all of this.
//!
//! # Threads
//!
//! The host has two: the reconcile loop and the heartbeat. No async runtime. The mesh is an ordinary
//! tokio server.

pub mod host;
#[cfg(feature = "mesh")]
pub mod mesh;
pub mod model;
pub mod sys;
pub mod wire;
