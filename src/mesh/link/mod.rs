//! The link endpoint: HTTPS for nodes, always dialled by them.
//!
//! [`accept`] owns connections (TLS, deadlines, caps), [`routes`] the calls, [`packages`] the downloads.
//! Authenticates, hands out and passes on; writes no record of its own accord. A node's credential
//! speaks for that node only (rule 7 of the system), and no credential of a node opens anything else.

pub mod accept;
pub mod caller;
pub mod packages;
pub mod routes;
pub mod stall;
#[cfg(test)]
#[path = "link_tests.rs"]
mod tests;
pub mod tls;

use std::time::Duration;

/// How long a TLS handshake may take: two round trips on a satellite line, with room.
pub const HANDSHAKE_TIME: Duration = Duration::from_secs(10);
/// How long a connection may wait for the next whole request head. Longer than two heartbeat intervals,
/// so that a node may keep its connection; it bounds a client that sends a byte now and then, too.
pub const HEAD_TIME: Duration = Duration::from_secs(75);
/// How long a peer may take nothing of what is sent to it.
pub const STALL_TIME: Duration = Duration::from_secs(60);
/// How long open connections get to end when the mesh is asked to stop.
pub const FAREWELL_TIME: Duration = Duration::from_secs(3);
/// Largest request head, in bytes: ours have 300.
pub const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Most header lines in a request head.
pub const HEAD_LINES_MAX: usize = 40;
/// Most connections at once; each costs about 40 KB with TLS. Lowered to what the system allows.
pub const CONNECTIONS_MAX: usize = 200_000;
