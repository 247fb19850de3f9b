//! What a scenario ends with, and how it waits. Every wait has a limit, and one that ran out says what for.

use std::fmt;
use std::time::{Duration, Instant};

/// How often a condition is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Why a scenario failed: a sentence for a person.
pub struct Failure(String);

/// What a scenario returns.
pub type Done = Result<(), Failure>;

impl Failure {
    /// A failure with this text.
    pub fn new(text: impl Into<String>) -> Failure {
        Failure(text.into())
    }

    /// The same failure, with what was being done in front of it.
    pub fn while_doing(self, what: impl fmt::Display) -> Failure {
        Failure(format!("{what}: {}", self.0))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

// Not an Error itself, so that `?` takes every error there is.
impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure(error.to_string())
    }
}

/// Fails the scenario with a sentence.
pub fn fail<T>(text: impl Into<String>) -> Result<T, Failure> {
    Err(Failure::new(text))
}

/// Fails the scenario with a sentence unless the condition holds.
pub fn check(holds: bool, otherwise: impl FnOnce() -> String) -> Done {
    if holds { Ok(()) } else { fail(otherwise()) }
}

/// A number of seconds.
pub fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// Waits until the closure gives a value, and returns it with the time it took.
pub fn wait_for<T>(
    what: &str,
    limit: Duration,
    mut look: impl FnMut() -> Result<Option<T>, Failure>,
) -> Result<(T, Duration), Failure> {
    let started = Instant::now();
    loop {
        if let Some(value) = look().map_err(|e| e.while_doing(format_args!("waiting until {what}")))? {
            return Ok((value, started.elapsed()));
        }
        if started.elapsed() >= limit {
            return fail(format!("waited {:.1} s in vain until {what}", limit.as_secs_f64()));
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Waits until the closure says yes, and returns the time it took.
pub fn wait_until(
    what: &str,
    limit: Duration,
    mut look: impl FnMut() -> Result<bool, Failure>,
) -> Result<Duration, Failure> {
    wait_for(what, limit, || Ok(look()?.then_some(()))).map(|(_, took)| took)
}

/// Looks again and again for the whole time, and fails at the first moment the condition does not hold.
pub fn stays(what: &str, time: Duration, mut look: impl FnMut() -> Result<bool, Failure>) -> Done {
    let started = Instant::now();
    while started.elapsed() < time {
        if !look()? {
            let after = started.elapsed().as_secs_f64();
            return fail(format!("after {after:.1} s it was no longer so that {what}"));
        }
        std::thread::sleep(LOOK_EVERY * 4);
    }
    Ok(())
}
