//! The last steps: the claim, the order, the start of the install, and watching for its end.
//!
//! The install runs in a unit of its own and outlives this process; nobody waits on a pipe (C48, C49).

use super::{Stop, Tools};
use crate::host::life::upgrade::{Class, Reason};
use crate::host::link::Trouble;
use crate::host::machine;
use crate::host::state::{Order, Root};
use crate::sys::clock;
use crate::sys::command::{self, End, Output, Program};
use crate::sys::wait::Waiter;
use crate::wire::claim::{CLAIM_VALID_MS, ClaimRequest};
use crate::wire::declaration::Target;
use crate::wire::limits;
use std::ffi::OsStr;
use std::io;
use std::time::Duration;

const START_LIMIT: Duration = Duration::from_secs(60);
const STATE_LIMIT: Duration = Duration::from_secs(15);
/// Between two questions to the install script whether it runs.
const ASK_EVERY: Duration = Duration::from_secs(3);
/// Answers of `idle` without a result, in a row, before an install of ours counts as gone.
const IDLE_MAX: u32 = 5;

/// The last moment, on the boot-time clock, at which a granted claim may be used.
#[derive(Clone, Copy, Debug)]
pub struct Granted(Duration);

/// Asks the mesh, right before the package step. No answer means no (C76).
pub fn claim(tools: Tools<'_>, target: &Target) -> Result<Granted, Stop> {
    let asked_at = clock::boot_time();
    let request = ClaimRequest {
        format: crate::wire::FORMAT,
        rollout: target.rollout.to_string(),
        attempt: target.attempt,
        version: target.package.version.to_string(),
    };
    match tools.link.claim(&request) {
        Ok(answer) if answer.granted => {
            Ok(Granted(asked_at + Duration::from_millis(answer.valid_ms.min(CLAIM_VALID_MS))))
        }
        Ok(answer) => {
            let why = answer.reason.unwrap_or_else(|| "no reason given".into());
            let why = limits::cut(&why, limits::ERROR_BYTES_MAX);
            Err(Stop::Later("claim", format!("the mesh does not grant the order: {why}")))
        }
        Err(Trouble::Disturbed) => Err(Stop::Disturbed),
        Err(trouble) => Err(Stop::Later("unavailable", trouble.to_string())),
    }
}

/// Writes the order and starts the install.
pub fn start(tools: Tools<'_>, target: &Target, name: &str, granted: Granted) -> Result<Watch, Stop> {
    let state_trouble = |what: &str, error: io::Error| {
        Stop::failed(Class::Machine, Reason::State, format!("{what}: {error}"))
    };
    let boot_id = machine::boot_id()
        .ok_or_else(|| Stop::failed(Class::Machine, Reason::State, "the kernel's boot id cannot be read"))?;
    let order = Order {
        version: target.package.version.clone(),
        rollout: target.rollout.clone(),
        attempt: target.attempt,
        package: name.to_owned(),
        sha256: target.package.sha256,
        boot_id,
        // Rounded down: the script may wait for a lock, and must not begin later than granted.
        claim_until: granted.0.as_secs(),
    };
    // A result of an earlier try of the same attempt must not be taken for this one's.
    tools.state.remove("result").map_err(|error| state_trouble("result", error))?;
    tools.state.store_order(&order).map_err(|error| state_trouble("order", error))?;
    if clock::boot_time() >= granted.0 {
        // As a failure that passes: a try that never began is not counted among those that were cut off.
        let detail = "the claim ran out before the install could begin";
        return Err(Stop::failed(Class::Machine, Reason::Claim, detail));
    }
    log::info!("{} is being installed, attempt {}", order.version, order.attempt);
    let ended = ask(tools.root(), tools.waiter, "start", Output::Ours, START_LIMIT)
        .map_err(|error| state_trouble("the install script", error))?;
    match ended.end {
        // Whether it was started before the signal came is not known: the next process looks.
        End::Interrupted => Err(Stop::Disturbed),
        End::Exit(0) => Ok(Watch::new(Some(target.attempt))),
        End::Exit(3) => Err(Stop::failed(Class::Machine, Reason::Lock, "another install runs")),
        End::OverTime => {
            Err(Stop::failed(Class::Machine, Reason::Timeout, "the install did not start in time"))
        }
        End::Exit(_) | End::Killed(_) => {
            Err(Stop::failed(Class::Machine, Reason::State, "the install could not be started"))
        }
    }
}

/// An install that runs.
#[derive(Debug)]
pub struct Watch {
    ours: Option<u64>,
    asked_at: Option<Duration>,
    idle: u32,
}

impl Watch {
    fn new(ours: Option<u64>) -> Self {
        Watch { ours, asked_at: None, idle: 0 }
    }

    /// An install that was started before this process, if one runs.
    pub fn of_another(root: &Root, waiter: &Waiter) -> Option<Self> {
        runs(root, waiter).then(|| Watch::new(None))
    }

    /// Whether it has ended. Asks the script now and then; a result of ours is seen at once.
    pub fn is_over(&mut self, tools: Tools<'_>) -> bool {
        if let Some(attempt) = self.ours
            && tools.state.exists("result")
            && tools.state.outcome().is_some_and(|outcome| outcome.attempt == attempt)
        {
            return true;
        }
        let now = clock::monotonic();
        if self.asked_at.is_some_and(|asked_at| now < asked_at + ASK_EVERY) {
            return false;
        }
        self.asked_at = Some(now);
        self.idle = if runs(tools.root(), tools.waiter) { 0 } else { self.idle + 1 };
        // One that is just being started says idle too; one that was seen running has ended.
        self.idle >= if self.ours.is_some() { IDLE_MAX } else { 1 }
    }
}

fn runs(root: &Root, waiter: &Waiter) -> bool {
    match ask(root, waiter, "state", Output::Kept, STATE_LIMIT) {
        Ok(ended) => ended.end == End::Exit(0) && ended.tail.lines().last() == Some("running"),
        // A machine without the package has no install script.
        Err(_) => false,
    }
}

fn ask(
    root: &Root,
    waiter: &Waiter,
    verb: &str,
    output: Output,
    limit: Duration,
) -> io::Result<command::Ended> {
    let script = root.library("install");
    let program = Program {
        program: script.as_os_str(),
        arguments: &[OsStr::new(verb)],
        environment: &root.environment(),
        output,
        limit,
    };
    command::run(waiter, &program)
}
