//! THE loop of the first thread: observe, plan, persist, act, report - then wait for news.
//!
//! ```text
//!  reconcile ─► confirm ─► upgrade ─► report ─► wait (long poll, or a pause when the mesh is away)
//!      ▲                                          │ newer declaration, bell, signal, interval
//!      └──────────────────────────────────────────┘
//! ```
//!
//! Nothing that comes from outside ends it: a bad declaration, a mesh that is away, a full disk and a
//! damaged file are reported. It ends when it is asked to, or because a new version is installed.

use super::declared::Declared;
use super::heartbeat::{Shared, random};
use super::history::History;
use super::life::backoff;
use super::life::confirm::may_confirm;
use super::link::{Link, Trouble};
use super::machine::{self, Installed};
use super::settings::{self, Settings};
use super::state::{Identity, Owned, State};
use super::statement::{self, Facts};
use super::upgrade::{Next, Tools, Upgrade, host_of};
use super::{fault, heartbeat, resource};
use crate::model::{BootId, StartId, Version};
use crate::sys::notify::Notifier;
use crate::sys::wait::{Signal, Waiter};
use crate::sys::{clock, durable, journal};
use crate::wire::heartbeat::{Failure, OrderState};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// The first wait after the mesh did not answer, or answered with nonsense; and the longest.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// Failed resources are tried again after this long at first; the interval is the longest.
const RETRY: Duration = Duration::from_secs(5);
/// Between two looks at an install that runs.
const WATCH_EVERY: Duration = Duration::from_secs(1);

/// Why the loop ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It was asked to.
    Asked,
    /// A new version is installed and waits to be started.
    NewVersion,
}

/// A joined node.
pub struct Node {
    state: State,
    waiter: Arc<Waiter>,
    notifier: Arc<Notifier>,
    identity: Identity,
    link: Link,
    shared: Arc<Shared>,
    settings: Settings,
    mistakes: Vec<String>,
    running: Version,
    installed: Installed,
    boot: BootId,
    start: StartId,
    declared: Declared,
    owned: Owned,
    history: History,
    upgrade: Upgrade,
    failures: Vec<Failure>,
    state_trouble: Option<Failure>,
    retries: u32,
    link_failures: u32,
    link_trouble: Option<String>,
    reconcile_at: Duration,
    signal: Option<Signal>,
}

impl Node {
    /// Loads the state and starts the heartbeat thread.
    pub fn load(
        state: State,
        identity: Identity,
        waiter: Arc<Waiter>,
        notifier: Arc<Notifier>,
        (settings, mistakes): (Settings, Vec<String>),
    ) -> io::Result<Self> {
        let boot =
            machine::boot_id().ok_or_else(|| io::Error::other("the kernel's boot id cannot be read"))?;
        let lost_count = u64::try_from(clock::boot_time().as_millis()).unwrap_or(u64::MAX);
        let (start, stored) = state.next_start_id(lost_count);
        let declared = Declared::load(&state, &identity);
        let root = state.root().clone();
        let (running, installed) = (machine::running(), machine::installed(&root));
        let mut node = Node {
            link: Link::joined(&identity, waiter.clone())?,
            shared: Shared::new(waiter.bell())?,
            upgrade: Upgrade::load(&state, &running, &installed),
            running,
            installed,
            history: History::load(&state),
            owned: state.owned(),
            state,
            waiter,
            notifier,
            identity,
            settings,
            mistakes,
            boot,
            start,
            declared,
            failures: Vec::new(),
            state_trouble: None,
            retries: 0,
            link_failures: 0,
            link_trouble: None,
            reconcile_at: Duration::ZERO,
            signal: None,
        };
        node.remember("start-id", stored);
        if !["identity", "identity.copy"].iter().all(|name| node.state.exists(name)) {
            let stored = node.state.store_identity(&node.identity);
            node.remember("identity", stored);
        }
        node.read_records();
        // The first heartbeat already says what was rolled back and what is refused (C28).
        node.publish();
        heartbeat::start(&node.shared, &node.identity, &root)?;
        Ok(node)
    }

    /// The loop.
    pub fn run(&mut self) -> End {
        self.upgrade.look_for_install(self.state.root(), &self.waiter);
        loop {
            if self.asked_to_stop() {
                return self.end(End::Asked);
            }
            // Also while an install runs: it may wait for a lock for minutes.
            if clock::monotonic() >= self.reconcile_at {
                self.reconcile();
                self.confirm();
            }
            match self.advance() {
                Next::Exit => return self.end(End::NewVersion),
                Next::Soon => {
                    self.publish();
                    self.watch();
                }
                Next::Disturbed => {
                    // Whatever it was that rang: a newer declaration would be it.
                    self.waiter.take_bell();
                    self.poll(Duration::ZERO);
                }
                Next::Idle => {
                    self.publish();
                    self.wait_for_news();
                }
            }
        }
    }

    fn end(&mut self, end: End) -> End {
        self.notifier.stopping();
        let is_confirmed = self.state.known_good().as_ref() == Some(&self.running);
        // An unconfirmed version that goes leaves no word: whether it went well is not its to say.
        if is_confirmed {
            let reason = match end {
                End::Asked => "stopped",
                End::NewVersion => "upgrade",
            };
            self.shared.goodbye(&self.waiter, reason);
        }
        end
    }

    /// Takes signals; true when the end was asked for.
    fn asked_to_stop(&mut self) -> bool {
        while let Some(signal) = self.waiter.take_signal() {
            match signal {
                Signal::Stop => self.signal = Some(Signal::Stop),
                Signal::Again => self.reconcile_again(),
            }
        }
        self.signal == Some(Signal::Stop)
    }

    fn reconcile_again(&mut self) {
        self.read_settings();
        self.reconcile_at = Duration::ZERO;
    }

    fn read_settings(&mut self) {
        (self.settings, self.mistakes) = load_settings(&self.state, self.settings);
        journal::set_level(self.settings.log_level);
    }

    fn reconcile(&mut self) {
        self.read_records();
        let is_confirmed = self.state.known_good().as_ref() == Some(&self.running);
        self.declared.begin(&self.state, &self.identity, &self.running, is_confirmed);
        fault::in_reconcile();
        let Some(document) = &self.declared.in_force else {
            self.failures.clear();
            self.reconcile_at = clock::monotonic() + self.settings.reconcile;
            return;
        };
        let (waiter, notifier, signal) = (&self.waiter, &self.notifier, &mut self.signal);
        let mut again = false;
        let mut go_on = || {
            notifier.progress();
            match waiter.take_signal() {
                Some(Signal::Stop) => *signal = Some(Signal::Stop),
                // Heeded when this one is over: its settings are not to change halfway.
                Some(Signal::Again) => again = true,
                None => {}
            }
            *signal != Some(Signal::Stop)
        };
        let failures = resource::reconcile(&self.state, document, &mut self.owned, &mut go_on);
        let Some(failures) = failures else {
            let left_off = self.declared.leave_off(&self.state);
            self.remember("applying", left_off);
            return;
        };
        let ended = self.declared.end(&self.state);
        self.remember("declaration.good", ended);
        for failure in failures.iter().filter(|failure| !self.failures.contains(failure)) {
            log::error!("{}: {}", failure.name, failure.error);
        }
        self.retries = if failures.is_empty() { 0 } else { self.retries.saturating_add(1) };
        self.failures = failures;
        let wait = match self.retries {
            0 => self.settings.reconcile,
            retries => backoff::after(retries, RETRY, self.settings.reconcile.max(RETRY), random()),
        };
        self.reconcile_at = clock::monotonic() + wait;
        if again {
            self.reconcile_again();
        }
    }

    /// Writes known-good, if this version has earned it. Never waits for the link (C33).
    fn confirm(&mut self) {
        if !may_confirm(self.declared.standing(&self.running, self.upgrade.install_runs())) {
            return;
        }
        let is_new = self.state.known_good().as_ref() != Some(&self.running);
        let confirmed = self.state.store_known_good(&self.running).and_then(|()| self.state.remove("starts"));
        if self.remember("known-good", confirmed).is_none() {
            return;
        }
        if is_new {
            log::info!("{} is confirmed: it got through a full reconcile", self.running);
        }
        if let Some(stored) = self.history.forgive(&self.state, &self.running) {
            self.remember("refused", stored);
        }
        self.upgrade.reached(&self.state, &self.running, self.declared.in_force.as_ref());
        if let Some(settled) = self.history.settle(&self.state) {
            self.remember("rollbacks.settled", settled);
        }
        fault::after_confirm();
    }

    /// Reads the rollback script's records; what was rolled back is refused from now on (E11).
    fn read_records(&mut self) {
        let asked = self.declared.in_force.as_ref().and_then(host_of).and_then(|host| host.target.as_ref());
        let asked = asked.map(|target| (&target.package.version, target.attempt));
        if let Some(stored) = self.history.read(&self.state, asked) {
            self.remember("refused", stored);
        }
    }

    fn advance(&mut self) -> Next {
        self.installed = machine::installed(self.state.root());
        let shared = &self.shared;
        let tools = Tools {
            state: &self.state,
            link: &self.link,
            waiter: &self.waiter,
            running: &self.running,
            installed: &self.installed,
            tell: &|order: &OrderState| shared.tell(order),
        };
        let document = self.declared.in_force.as_ref();
        self.upgrade.advance(tools, document, &self.history.refused, self.declared.is_through)
    }

    fn publish(&mut self) {
        let known_good = self.state.known_good();
        let facts = Facts {
            identity: &self.identity,
            boot: &self.boot,
            start: self.start,
            running: &self.running,
            known_good: known_good.as_ref(),
            declared: &self.declared,
            failures: self.all_failures(),
            refused: &self.history.refused,
            upgrade: &self.upgrade,
            records: &self.history.records,
        };
        self.shared.publish(statement::statement(&facts));
        self.notifier.status(&statement::status_line(&facts, self.link_trouble.as_deref()));
    }

    /// Everything that did not succeed: what is wrong with the node itself first.
    fn all_failures(&self) -> Vec<Failure> {
        let damaged = self.state.damaged().into_iter().map(|(name, why)| Failure {
            name: format!("state:{name}"),
            error: format!("damaged, set aside: {why}"),
        });
        let unreadable = self.state.unreadable().into_iter().map(|(name, why)| Failure {
            name: format!("state:{name}"),
            error: format!("cannot be read now: {why}"),
        });
        let mistakes =
            self.mistakes.iter().map(|mistake| Failure { name: "settings".into(), error: mistake.clone() });
        let version = machine::version_trouble(&self.running)
            .map(|error| Failure { name: "version".into(), error: error.into() });
        // While an install runs the two differ for a moment, and rightly.
        let package = machine::package_trouble(&self.installed, &self.running)
            .filter(|_| !self.upgrade.install_runs())
            .map(|error| Failure { name: "package:nox-mesh-host".into(), error });
        let version = version.into_iter().chain(package);
        let own = self
            .state_trouble
            .clone()
            .into_iter()
            .chain(version)
            .chain(damaged)
            .chain(unreadable)
            .chain(mistakes);
        own.chain(self.failures.iter().cloned()).collect()
    }

    /// Keeps the trouble with a state file for the report; gone when the same file is written again.
    fn remember(&mut self, name: &str, done: io::Result<()>) -> Option<()> {
        let name = format!("state:{name}");
        match done {
            Ok(()) => {
                self.state_trouble.take_if(|trouble| trouble.name == name);
                Some(())
            }
            Err(error) => {
                log::error!("{name} cannot be written: {error}");
                self.state_trouble = Some(Failure { name, error: format!("cannot be written: {error}") });
                None
            }
        }
    }

    /// While an install runs: look again soon, and take a newer declaration if there is one.
    fn watch(&mut self) {
        self.pause(WATCH_EVERY);
        if self.shared.newest() > self.declared.accepted && self.declared.refusal.is_none() {
            self.poll(Duration::ZERO);
        }
    }

    /// The long poll up to the next thing that is due.
    fn wait_for_news(&mut self) {
        let now = clock::monotonic();
        let upgrade_at = self.upgrade.not_before();
        let due = if upgrade_at > now { self.reconcile_at.min(upgrade_at) } else { self.reconcile_at };
        let wait = due.saturating_sub(now);
        // The poll counts in whole seconds; the rest is paused.
        if wait < Duration::from_secs(1) {
            self.pause(wait);
        } else {
            self.poll(wait);
        }
    }

    fn poll(&mut self, wait: Duration) {
        let wait = wait.min(self.settings.reconcile);
        let began = clock::monotonic();
        match self.link.declaration(self.declared.accepted, wait) {
            Ok(None) => {
                self.link_trouble = None;
                // A mesh that stops, or a peer in between, says 'nothing new' at once: that must not
                // become a loop without a pause.
                if clock::monotonic() - began < wait / 2 {
                    self.step_back(None);
                } else {
                    self.link_failures = 0;
                }
            }
            Ok(Some(bytes)) => {
                self.link_trouble = None;
                if self.declared.offer(&self.state, &self.identity, &bytes) {
                    self.link_failures = 0;
                    self.upgrade.again();
                    self.reconcile_at = Duration::ZERO;
                    self.publish();
                    // What rang for this one is answered; what rang for a still newer one is not.
                    self.waiter.take_bell();
                    if self.shared.newest() > self.declared.accepted {
                        self.waiter.bell().ring();
                    }
                } else {
                    drop(bytes);
                    self.step_back(None);
                }
            }
            Err(Trouble::Disturbed) => {
                self.waiter.take_bell();
            }
            Err(trouble) => {
                if let Trouble::Nonsense(what) = &trouble {
                    self.declared.refuse(format!("what the mesh sent is no declaration: {what}"));
                }
                if self.link_trouble.is_none() {
                    log::warn!("{trouble}");
                }
                self.link_trouble = Some(trouble.to_string());
                self.step_back(trouble.retry_after());
            }
        }
    }

    /// The mesh is away or says nothing useful: leave it alone for a while, ever longer.
    fn step_back(&mut self, asked: Option<Duration>) {
        self.link_failures = self.link_failures.saturating_add(1);
        self.publish();
        let wait = backoff::after(self.link_failures, BACKOFF.0, BACKOFF.1, random());
        let wait = wait.max(asked.unwrap_or_default().min(BACKOFF.1));
        let due = self.reconcile_at.saturating_sub(clock::monotonic());
        self.pause(wait.min(due));
    }

    /// Until the bell, a signal or the end of this time.
    fn pause(&self, time: Duration) {
        if let Err(error) = self.waiter.pause(time) {
            log::error!("waiting fails: {error}");
            std::thread::sleep(WATCH_EVERY);
        }
        self.waiter.take_bell();
    }
}

/// The settings in force, from the file if there is one.
pub fn load_settings(state: &State, in_force: Settings) -> (Settings, Vec<String>) {
    match durable::read(&state.root().path(settings::PATH), settings::BYTES_MAX) {
        Ok(None) => (in_force, Vec::new()),
        Ok(Some(bytes)) => {
            let (settings, mistakes) = settings::read(&String::from_utf8_lossy(&bytes), in_force);
            mistakes.iter().for_each(|mistake| log::warn!("{mistake}"));
            (settings, mistakes)
        }
        Err(error) => (in_force, vec![format!("settings cannot be read: {error}")]),
    }
}
