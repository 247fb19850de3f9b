//! The other end of the link: `nox-mesh serve`, and the operator's commands that talk to it.
//!
//! | part | owns | never |
//! |---|---|---|
//! | [`link`] | sessions with nodes: TLS, credentials, limits | writes a record of its own accord |
//! | [`registry`] | nodes, tokens, packages, what each node is declared to be | sees a heartbeat |
//! | [`hear`] with the pure [`presence`] | when each node was heard, what it said | is the source of truth |
//! | [`driver`] with the pure [`delivery`] | rollouts | talks to a node |
//! | [`operator`] | the API on a Unix socket, for [`cli`] | decides anything |
//! | [`engine`] | bytes under keys, by compare-and-swap | knows what they mean |
//!
//! [`serve`] puts them together. Everything durable passes through `engine`; everything that decides is
//! pure and gets its time handed in.

pub mod answer;
pub mod attempts;
pub mod body;
pub mod ca;
pub mod cli;
pub mod clock;
pub mod core;
pub mod delivery;
pub mod driver;
pub mod engine;
pub mod fault;
pub mod hear;
pub mod link;
pub mod logger;
pub mod operator;
pub mod presence;
pub mod registry;
pub mod serve;
pub mod text;
#[cfg(test)]
pub mod trial;

pub use cli::main;
