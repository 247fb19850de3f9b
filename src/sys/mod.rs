//! Effects that know no domain: each small, named and in one place.
//!
//! Only `durable` renames and syncs; only `crypt` and `tls` name the crypto crates. Imports nothing of
//! ours, not even `model`.

pub mod crypt;
pub mod durable;
