//! Carries the declared version out, step by step: retain, fetch, preflight, claim, order, install.
//!
//! [`Upgrade::advance`] is called by the loop after each reconcile; the decision is `life::upgrade`'s.
//! Whatever fails leaves the running version untouched (C51). The host never runs the package manager
//! itself: the install script does, in a unit of its own (C48).

pub mod contents;
pub mod fetch;
pub mod install;
pub mod preflight;
pub mod retain;

use super::heartbeat::random;
use super::life::backoff;
use super::life::refuse::Refused;
use super::life::upgrade::{
    Attempted, Class, Decision, Failure, Progress, Reason, View, Waiting, decide, tries_so_far,
};
use super::link::Link;
use super::machine::{self, Installed};
use super::state::{Root, State};
use crate::model::Version;
use crate::sys::clock;
use crate::sys::wait::Waiter;
use crate::wire::declaration::{Document, Host, Spec, Target};
use crate::wire::heartbeat::OrderState;
use std::time::Duration;

/// The first wait before an attempt goes on that could not, and the longest.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(300));

/// What the loop does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing is at hand.
    Idle,
    /// An install is watched: look again soon.
    Soon,
    /// Something more urgent ended a call.
    Disturbed,
    /// The new version is installed: a clean exit starts it (rule 10).
    Exit,
}

/// Why a step did not succeed.
#[derive(Debug)]
pub enum Stop {
    /// A signal or the bell.
    Disturbed,
    /// Not now; the same attempt goes on later. A word and a line.
    Later(&'static str, String),
    /// The attempt has failed.
    Failed(Failure),
}

impl Stop {
    fn failed(class: Class, reason: Reason, detail: impl Into<String>) -> Self {
        Stop::Failed(Failure { class, reason, detail: detail.into() })
    }
}

/// What the steps need of the node.
#[derive(Clone, Copy)]
pub struct Tools<'a> {
    /// The state folder.
    pub state: &'a State,
    /// The link.
    pub link: &'a Link,
    /// The thread's wait.
    pub waiter: &'a Waiter,
    /// The running version.
    pub running: &'a Version,
    /// What is installed.
    pub installed: &'a Installed,
    /// Called with each state of an order, so that the mesh hears of it at once.
    pub tell: &'a dyn Fn(&OrderState),
}

impl Tools<'_> {
    fn root(&self) -> &Root {
        self.state.root()
    }
}

/// How far the node is with the declared version.
#[derive(Debug, Default)]
pub struct Upgrade {
    /// What the heartbeat says of it.
    pub order: Option<OrderState>,
    /// Whether a rollback could follow; why not.
    pub unarmed: Option<String>,
    /// The last order worked on.
    pub last: Option<Attempted>,
    verified: retain::Verified,
    watch: Option<install::Watch>,
    failures: u32,
    not_before: Duration,
    retain_failures: u32,
    retain_trouble: Option<String>,
    retain_not_before: Duration,
}

impl Upgrade {
    /// What lies in the state folder.
    pub fn load(state: &State, running: &Version, installed: &Installed) -> Self {
        let mut upgrade = Upgrade { last: state.attempted(), ..Upgrade::default() };
        let known_good = state.known_good();
        upgrade.unarmed = upgrade.verified.unarmed(state.root(), running, installed, known_good.as_ref());
        upgrade
    }

    /// Asks once, after the start, whether an install runs: then this process waits for it, and neither
    /// confirms nor orders.
    pub fn look_for_install(&mut self, root: &Root, waiter: &Waiter) {
        self.watch = install::Watch::of_another(root, waiter);
    }

    /// Whether an install runs that is to be waited for.
    pub fn install_runs(&self) -> bool {
        self.watch.is_some()
    }

    /// When to go on with an attempt that waits; monotonic.
    pub fn not_before(&self) -> Duration {
        self.not_before
    }

    /// A new declaration: what waited may be tried at once.
    pub fn again(&mut self) {
        self.failures = 0;
        self.not_before = Duration::ZERO;
        self.retain_not_before = Duration::ZERO;
    }

    /// Does what can be done now.
    pub fn advance(
        &mut self,
        tools: Tools<'_>,
        document: Option<&Document>,
        refused: &Refused,
        reconciled: bool,
    ) -> Next {
        if let Some(next) = self.look_at_install(tools) {
            return next;
        }
        let host = document.and_then(host_of).cloned().unwrap_or_default();
        if let Err(Stop::Disturbed) = self.retain(tools, &host, refused) {
            return Next::Disturbed;
        }
        let Some(target) = &host.target else {
            self.order = None;
            return Next::Idle;
        };
        let view = View {
            running: tools.running,
            armed: self.unarmed.is_none(),
            pinned: tools.state.exists("pin"),
            reconciled,
            install_runs: false,
            refused,
            last: self.last.as_ref(),
        };
        let decision = decide(target, &view);
        if decision == Decision::Go {
            return self.go(tools, target);
        }
        self.order = self.waiting(tools, target, decision);
        Next::Idle
    }

    /// What the heartbeat says when nothing is done about the target.
    fn waiting(&self, tools: Tools<'_>, target: &Target, decision: Decision) -> Option<OrderState> {
        match decision {
            Decision::Nothing if tools.state.known_good().as_ref() == Some(tools.running) => None,
            Decision::Nothing => Some(order_state(target, "installed", None, None)),
            // The rollback record and the list of refused versions say it.
            Decision::Refused(_) => None,
            Decision::Failed(failure) => Some(ended_state(target, &failure)),
            Decision::Wait(Waiting::Installing) | Decision::Go => {
                Some(order_state(target, "installing", None, None))
            }
            Decision::Wait(Waiting::Reconciling) => Some(order_state(target, "received", None, None)),
            Decision::Wait(waiting) => {
                let detail = match waiting {
                    Waiting::Unarmed => self.unarmed.clone(),
                    _ => None,
                };
                Some(order_state(target, "deferred", Some(waiting.word()), detail))
            }
        }
    }

    fn look_at_install(&mut self, tools: Tools<'_>) -> Option<Next> {
        let watched = self.watch.is_some();
        let over = match &mut self.watch {
            None => true,
            Some(watch) => watch.is_over(tools),
        };
        if !over {
            return Some(Next::Soon);
        }
        self.watch = None;
        self.take_result(tools, watched);
        // Only a process that saw the install leaves because of it: a package that disagrees with its
        // binary must not end the host again and again.
        let failed = self.last.as_ref().is_some_and(|last| matches!(last.state, Progress::Failed(_)));
        let new = machine::installed(tools.root()).version;
        let leaves = watched && !failed && new.is_some_and(|version| version != *tools.running);
        leaves.then_some(Next::Exit)
    }

    /// Takes the result of the last order in, once.
    fn take_result(&mut self, tools: Tools<'_>, watched: bool) {
        let Some(last) = &mut self.last else { return };
        if !matches!(last.state, Progress::Begun(_)) {
            return;
        }
        let outcome = tools.state.outcome().filter(|outcome| outcome.attempt == last.attempt);
        last.state = match outcome {
            Some(outcome) => match outcome.failure {
                None => Progress::Installed,
                Some(failure) => Progress::Failed(failure),
            },
            None if watched => Progress::Failed(Failure {
                class: Class::Machine,
                reason: Reason::State,
                detail: "the install ended without a result".into(),
            }),
            // Cut off with an earlier process: the attempt is claimed anew.
            None => return,
        };
        match &last.state {
            Progress::Failed(failure) => {
                log::error!("{} was not installed: {}", last.version, failure.detail)
            }
            _ => log::info!("{} is installed", last.version),
        }
        if matches!(&last.state, Progress::Failed(failure) if failure.reason.passes()) {
            self.wait_longer();
        }
        self.note(tools);
    }

    /// Keeps the package of the running version at hand: without it no rollback could follow.
    fn retain(&mut self, tools: Tools<'_>, host: &Host, refused: &Refused) -> Result<(), Stop> {
        let known_good = tools.state.known_good();
        let wanted = host.retain.as_ref().filter(|package| {
            package.version == *tools.running || known_good.as_ref() == Some(&package.version)
        });
        let mut trouble = None;
        if let Some(package) = wanted {
            let name = machine::package_name(&package.version, tools.installed);
            let is_due = clock::monotonic() >= self.retain_not_before;
            if is_due && !self.verified.is_whole(tools.root(), &name) {
                match fetch::fetch(tools, package, &name) {
                    Ok(()) => {
                        log::info!("{name} is retained");
                        self.retain_failures = 0;
                    }
                    Err(Stop::Disturbed) => return Err(Stop::Disturbed),
                    Err(Stop::Later(_, why)) => trouble = Some(why),
                    Err(Stop::Failed(failure)) => trouble = Some(failure.detail),
                }
            }
        }
        retain::tidy(tools, known_good.as_ref(), host, refused);
        self.unarmed =
            self.verified.unarmed(tools.root(), tools.running, tools.installed, known_good.as_ref());
        if let Some(trouble) = trouble {
            self.retain_failures = self.retain_failures.saturating_add(1);
            let wait = backoff::after(self.retain_failures, BACKOFF.0, BACKOFF.1, random());
            self.retain_not_before = clock::monotonic() + wait;
            self.retain_trouble = Some(trouble);
        } else if self.retain_failures == 0 {
            self.retain_trouble = None;
        }
        if let (Some(why), Some(trouble)) = (&mut self.unarmed, &self.retain_trouble) {
            *why = format!("{why}: {trouble}");
        }
        Ok(())
    }

    fn go(&mut self, tools: Tools<'_>, target: &Target) -> Next {
        if clock::monotonic() < self.not_before {
            // After a result that passes, the decision is to go on, but not yet.
            if let Some(Attempted { attempt, state: Progress::Failed(failure), .. }) = &self.last
                && *attempt == target.attempt
            {
                self.order = Some(ended_state(target, failure));
            }
            return Next::Idle;
        }
        match self.steps(tools, target) {
            Ok(watch) => {
                self.watch = Some(watch);
                self.order = Some(order_state(target, "installing", None, None));
                return Next::Soon;
            }
            Err(Stop::Disturbed) => return Next::Disturbed,
            Err(Stop::Later(word, why)) => {
                log::warn!("{}: {why}", target.package.version);
                self.wait_longer();
                self.order = Some(order_state(target, "deferred", Some(word), Some(why)));
            }
            Err(Stop::Failed(failure)) => {
                log::error!("{}: {}", target.package.version, failure.detail);
                if failure.reason.passes() {
                    self.wait_longer();
                }
                self.order = Some(ended_state(target, &failure));
                self.set_last(tools, target, Progress::Failed(failure));
            }
        }
        Next::Idle
    }

    fn steps(&mut self, tools: Tools<'_>, target: &Target) -> Result<install::Watch, Stop> {
        let tell = |state: &str| (tools.tell)(&order_state(target, state, None, None));
        let name = machine::package_name(&target.package.version, tools.installed);
        tell("fetching");
        fetch::fetch(tools, &target.package, &name)?;
        preflight::check(tools, &target.package.version, &name)?;
        tell("ready");
        self.still_armed(tools, target)?;
        let granted = install::claim(tools, target)?;
        let tries = tries_so_far(target, self.last.as_ref()) + 1;
        self.set_last(tools, target, Progress::Begun(tries));
        tell("installing");
        install::start(tools, target, &name, granted)
    }

    /// Hashes known-good's package anew, right before the claim: from here on it may be needed.
    fn still_armed(&mut self, tools: Tools<'_>, target: &Target) -> Result<(), Stop> {
        self.verified.doubt();
        let known_good = tools.state.known_good();
        self.unarmed =
            self.verified.unarmed(tools.root(), tools.running, tools.installed, known_good.as_ref());
        match &self.unarmed {
            Some(why) if !target.insist_unarmed => {
                // A damaged one is fetched again without delay.
                self.retain_not_before = Duration::ZERO;
                Err(Stop::Later(Waiting::Unarmed.word(), why.clone()))
            }
            _ => Ok(()),
        }
    }

    fn wait_longer(&mut self) {
        self.failures = self.failures.saturating_add(1);
        let wait = backoff::after(self.failures, BACKOFF.0, BACKOFF.1, random());
        self.not_before = clock::monotonic() + wait;
    }

    /// Notes that the running version is what was asked for: from now on a change is a person's (C37).
    pub fn reached(&mut self, state: &State, running: &Version, document: Option<&Document>) {
        let asked = document.and_then(host_of).and_then(|host| host.target.as_ref());
        let asked = asked.filter(|target| target.package.version == *running);
        let known = self.last.as_ref().filter(|last| last.version == *running);
        let reached = match (asked, known) {
            (Some(target), _) => Attempted {
                version: running.clone(),
                attempt: target.attempt.max(known.map_or(0, |last| last.attempt)),
                rollout: target.rollout.clone(),
                state: Progress::Reached,
            },
            (None, Some(last)) => Attempted { state: Progress::Reached, ..last.clone() },
            (None, None) => return,
        };
        if self.last.as_ref() != Some(&reached) {
            self.last = Some(reached);
            self.store(state);
        }
    }

    fn set_last(&mut self, tools: Tools<'_>, target: &Target, state: Progress) {
        let Target { package, rollout, attempt, .. } = target;
        let (version, rollout) = (package.version.clone(), rollout.clone());
        self.last = Some(Attempted { version, attempt: *attempt, rollout, state });
        self.note(tools);
    }

    fn note(&self, tools: Tools<'_>) {
        self.store(tools.state);
    }

    fn store(&self, state: &State) {
        if let Some(last) = &self.last
            && let Err(error) = state.store_attempted(last)
        {
            log::error!("'attempt' cannot be written: {error}");
        }
    }
}

/// The host resource of a document.
pub fn host_of(document: &Document) -> Option<&Host> {
    document.resources.iter().find_map(|resource| match &resource.spec {
        Spec::Host(host) => Some(host),
        Spec::Directory(_) | Spec::File(_) | Spec::Unusable(_) => None,
    })
}

fn order_state(target: &Target, state: &str, reason: Option<&str>, detail: Option<String>) -> OrderState {
    OrderState {
        rollout: target.rollout.to_string(),
        attempt: target.attempt,
        version: target.package.version.to_string(),
        state: state.to_owned(),
        class: None,
        reason: reason.map(str::to_owned),
        detail: detail.map(|text| crate::wire::limits::cut(&text, crate::wire::limits::ERROR_BYTES_MAX)),
    }
}

/// What is tried again, or waits for a person, is deferred; `failed` is the end of the attempt.
fn ended_state(target: &Target, failure: &Failure) -> OrderState {
    let detail = Some(failure.detail.clone());
    if failure.reason.passes() {
        return order_state(target, "deferred", Some(failure.reason.word()), detail);
    }
    OrderState {
        class: Some(failure.class.word().to_owned()),
        ..order_state(target, "failed", Some(failure.reason.word()), detail)
    }
}
