//! The mesh's two clocks: the only place in this room that reads one.
//!
//! Everything that is measured (silence, windows, deadlines) uses the monotonic clock, so that a step of
//! the wall clock neither stops nor passes a rollout (C88). The wall clock serves expiry dates of tokens
//! and certificates and what people read.

use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

static START: OnceLock<Instant> = OnceLock::new();

/// Milliseconds since this process first asked; never goes back, begins anew at each start.
pub fn monotonic_ms() -> u64 {
    let since = START.get_or_init(Instant::now).elapsed();
    // invariant: 584 million years of milliseconds fit.
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Seconds since 1970 by the wall clock; 0 for a clock before that.
pub fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs()
}
