//! Faults that are compiled in, so that tests can ship a version that really is broken.
//!
//! `NOX_MESH_HOST_FAULT` at build time names one; a release build never sets it, and then all of this
//! is nothing. `--version` tells of a fault in a second line.

use std::time::Duration;

/// The fault of this build.
pub const NAME: Option<&str> = option_env!("NOX_MESH_HOST_FAULT");

/// Every fault that can be built.
pub const NAMES: [&str; 9] = [
    "panic-at-start",
    "exit-at-start",
    "clean-exit-at-start",
    "hang-at-start",
    "panic-in-reconcile",
    "hang-in-reconcile",
    "slow-crash",
    "no-heartbeat",
    "crash-after-confirm",
];

fn is(name: &str) -> bool {
    NAME == Some(name)
}

/// Before anything is loaded.
pub fn at_start() {
    if is("panic-at-start") {
        broken("panic-at-start");
    } else if is("exit-at-start") {
        log::error!("fault: exit-at-start");
        std::process::exit(1);
    } else if is("clean-exit-at-start") {
        log::error!("fault: clean-exit-at-start");
        std::process::exit(0);
    } else if is("hang-at-start") {
        hang("hang-at-start");
    }
}

/// In the middle of a reconcile.
pub fn in_reconcile() {
    if is("panic-in-reconcile") {
        broken("panic-in-reconcile");
    } else if is("hang-in-reconcile") {
        hang("hang-in-reconcile");
    } else if is("slow-crash") {
        // Slower than the service manager's window for three starts, quicker than the watchdog.
        std::thread::sleep(Duration::from_secs(25));
        broken("slow-crash");
    }
}

/// Whether heartbeats are sent.
pub fn sends_heartbeats() -> bool {
    !is("no-heartbeat")
}

/// After the version was confirmed, or found to be: at every start of it that gets this far.
pub fn after_confirm() {
    if is("crash-after-confirm") {
        broken("crash-after-confirm");
    }
}

fn hang(name: &str) -> ! {
    log::error!("fault: {name}");
    loop {
        std::thread::sleep(Duration::from_secs(3600));
    }
}

#[allow(clippy::panic)]
fn broken(name: &str) -> ! {
    panic!("fault: {name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_that_is_built_in_is_one_that_exists() {
        assert!(NAME.is_none_or(|name| NAMES.contains(&name)), "unknown fault {NAME:?}");
    }
}
