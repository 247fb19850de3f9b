//! The other end of the link: `nox-mesh serve`, and the operator's commands that talk to it.
//!
//! | part | what | writes |
//! |---|---|---|
//! | [`engine`] | everything durable: compare-and-swap on keys, large values by hash | bytes for others |
//! | [`registry`] | nodes, tokens, packages, what each node is declared to be | its records |

pub mod ca;
pub mod clock;
pub mod engine;
pub mod fault;
pub mod registry;
pub mod text;
#[cfg(test)]
pub mod trial;
