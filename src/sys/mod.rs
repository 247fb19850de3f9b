//! Effects that know no domain: each small, named and in one place.
//!
//! Only `durable` renames and syncs; only `command` starts a program; only `wait` waits and holds the
//! one `unsafe`; only `clock` reads a clock; only `crypt` and `tls` name the crypto crates. Imports
//! nothing of ours, not even `model`.

pub mod clock;
pub mod command;
pub mod crypt;
pub mod durable;
pub mod journal;
pub mod notify;
pub mod tls;
pub mod wait;
