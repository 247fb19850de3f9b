//! The host as a process: the real program in a folder of its own, against a small mesh.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::print_stderr)]

#[allow(dead_code)]
mod peer;
mod world;

mod history;
mod life;
mod middle;
mod package;
mod upgrades;
