//! The fold: one heartbeat, or a look at the clock, at a time.

use super::{Listening, Millis, Presence, Transition};
use crate::wire::heartbeat::Heartbeat;

/// Takes a heartbeat heard at `now`. A duplicate or an older statement changes nothing at all, except
/// that one of an earlier boot that is *newer* than that boot's last one betrays a second machine.
pub fn hear(presence: Presence, beat: &Heartbeat, now: Millis) -> (Presence, Vec<Transition>) {
    let _ = (beat, now);
    (presence, Vec::new())
}

/// Looks whether the node went silent: nothing heard for `silence_ms` of listening.
pub fn look(
    presence: Presence,
    listening: &Listening,
    silence_ms: Millis,
    now: Millis,
) -> (Presence, Vec<Transition>) {
    let _ = (listening, silence_ms, now);
    (presence, Vec::new())
}
