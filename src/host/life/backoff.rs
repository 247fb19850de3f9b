//! How long to wait after failures: full jitter, so that a fleet that lost its mesh does not come back
//! in one second (C87).

use std::time::Duration;

/// Doublings after which the longest wait is reached at the latest; more would overflow.
const DOUBLINGS_MAX: u32 = 20;

/// After the `failures`-th failure in a row (from 1 on): somewhere between a tenth and the whole of
/// `first` doubled for each further failure, at most `longest`. `random` is any random number.
pub fn after(failures: u32, first: Duration, longest: Duration, random: u64) -> Duration {
    let doublings = failures.saturating_sub(1).min(DOUBLINGS_MAX);
    let ceiling = first.saturating_mul(1 << doublings).min(longest);
    let floor = ceiling / 10;
    floor + scaled(ceiling - floor, random)
}

/// `interval` give or take a tenth.
pub fn jittered(interval: Duration, random: u64) -> Duration {
    interval - interval / 10 + scaled(interval / 5, random)
}

/// `span` times a number from 0 to 1 that `random` chooses.
fn scaled(span: Duration, random: u64) -> Duration {
    const STEPS: u32 = 1 << 16;
    let step = u32::try_from(random % u64::from(STEPS)).unwrap_or_default();
    span / STEPS * step
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_the_longest_and_never_reach_zero() {
        let (first, longest) = (Duration::from_secs(1), Duration::from_secs(60));
        for failures in 0..200 {
            for random in [0, 1, 12_345, u64::MAX] {
                let wait = after(failures, first, longest, random);
                assert!(wait >= first / 10 && wait <= longest, "{failures} {random}: {wait:?}");
            }
        }
        assert!(after(1, first, longest, u64::MAX) <= first);
        assert!(after(50, first, longest, u64::MAX) > longest / 2);
        let spread = [0, u64::MAX].map(|random| jittered(Duration::from_secs(30), random));
        assert!(spread[0] == Duration::from_secs(27) && spread[1] > Duration::from_secs(32));
    }
}
