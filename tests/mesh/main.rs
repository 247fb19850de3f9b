//! The mesh as a process: the real `nox-mesh` on loopback, and what its callers get to see.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

mod exit_codes;
mod world;
