//! The only place that reads a clock.
//!
//! Intervals are monotonic; what expires uses the boot-time clock, which goes on through a suspend.
//! The time of day is read by nobody here: a machine that starts in 1970 and jumps must not notice it
//! in any decision (C88).

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Time since some fixed point of this boot, without suspends.
pub fn monotonic() -> Duration {
    read(ClockId::Monotonic)
}

/// Time since boot, suspends included.
pub fn boot_time() -> Duration {
    read(ClockId::Boottime)
}

fn read(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    #[test]
    fn both_clocks_go_forward() {
        let (monotonic, boot) = (super::monotonic(), super::boot_time());
        assert!(super::monotonic() >= monotonic);
        assert!(super::boot_time() >= boot && !boot.is_zero());
    }
}
