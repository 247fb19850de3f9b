//! The second thread: states what the node is, every interval with jitter and at once on a change.
//!
//! It reads one `Mutex<Statement>` that the loop replaces as a whole, and never waits for the loop. It
//! brings home what the mesh answers: a newer generation (rings the loop's bell), rollback records that
//! are stored (the only writer of `rollbacks.acked`), the wish for calm. Rollback records go one by one
//! until each is acknowledged (C28). When the mesh is away it backs off with full jitter, and a change
//! does not shorten that (C87).

use super::life::backoff;
use super::link::{Link, Trouble};
use super::state::{Identity, RecordKey, RollbackRecord, Root, State};
use super::{fault, machine};
use crate::model::{Facts, Generation};
use crate::sys::wait::{Bell, Waiter, Woken};
use crate::sys::{clock, crypt};
use crate::wire::heartbeat::{Heartbeat, HeartbeatAnswer, OrderState};
use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Stack of the thread: a TLS handshake needs the most of it.
const STACK_BYTES: usize = 160 * 1024;
/// Between two heartbeats at the least, however often something changes.
const CALM: Duration = Duration::from_secs(1);
/// The first wait after a failure, and the longest.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// Bounds for an interval that the mesh asks for.
const INTERVAL: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(3600));
/// The longest calm that the mesh may ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(3600);
/// How long the loop waits for the goodbye.
const GOODBYE_LIMIT: Duration = Duration::from_secs(1);

/// What the loop lets the thread say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statement {
    /// Everything but sequence, up time, facts and rollbacks.
    pub heartbeat: Heartbeat,
    /// The rollback records at hand, oldest first.
    pub rollbacks: Vec<RollbackRecord>,
}

/// What both threads share.
#[derive(Debug)]
pub struct Shared {
    statement: Mutex<Statement>,
    changed: AtomicBool,
    stop: AtomicBool,
    over: AtomicBool,
    newest: AtomicU64,
    heard: AtomicBool,
    loop_bell: Bell,
    waiter: Arc<Waiter>,
}

impl Shared {
    /// Nothing is said yet; `loop_bell` wakes the loop.
    pub fn new(loop_bell: Bell) -> io::Result<Arc<Self>> {
        Ok(Arc::new(Shared {
            statement: Mutex::default(),
            changed: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            over: AtomicBool::new(false),
            newest: AtomicU64::new(0),
            heard: AtomicBool::new(false),
            loop_bell,
            waiter: Arc::new(Waiter::plain()?),
        }))
    }

    /// Replaces the statement; a change is sent at once.
    pub fn publish(&self, statement: Statement) {
        self.change(|current| *current = statement);
    }

    /// Replaces what is said of the order at hand, in the middle of it.
    pub fn tell(&self, order: &OrderState) {
        self.change(|current| current.heartbeat.order = Some(order.clone()));
    }

    fn change(&self, change: impl FnOnce(&mut Statement)) {
        let mut current = self.statement.lock().unwrap_or_else(PoisonError::into_inner);
        let before = current.clone();
        change(&mut current);
        if *current != before {
            self.changed.store(true, Ordering::Release);
            self.waiter.bell().ring();
        }
    }

    /// The newest generation that the mesh has told of.
    pub fn newest(&self) -> Generation {
        self.newest.load(Ordering::Acquire)
    }

    /// Whether the last heartbeat was answered.
    pub fn is_heard(&self) -> bool {
        self.heard.load(Ordering::Acquire)
    }

    /// Ends the thread after a last heartbeat with this reason; waits for it, not for long.
    pub fn goodbye(&self, waiter: &Waiter, reason: &str) {
        {
            let mut current = self.statement.lock().unwrap_or_else(PoisonError::into_inner);
            current.heartbeat.goodbye = Some(reason.to_owned());
        }
        self.stop.store(true, Ordering::Release);
        self.waiter.bell().ring();
        let until = clock::monotonic() + GOODBYE_LIMIT;
        while !self.over.load(Ordering::Acquire) {
            let left = until.saturating_sub(clock::monotonic());
            waiter.take_bell();
            // A second signal during the goodbye ends the wait.
            if left.is_zero() || !matches!(waiter.pause(left), Ok(Woken::Bell)) {
                return;
            }
        }
    }
}

/// Starts the thread.
pub fn start(shared: &Arc<Shared>, identity: &Identity, root: &Root) -> io::Result<()> {
    let waiter = shared.waiter.clone();
    let state = State::new(root.clone());
    let acknowledged = state.acknowledged();
    if !acknowledged.is_empty()
        && let Err(error) = state.store_acknowledged(&acknowledged)
    {
        log::error!("rollbacks.acked cannot be written: {error}");
    }
    let mut thread = Thread {
        link: Link::joined(identity, waiter.clone())?,
        waiter,
        shared: shared.clone(),
        acknowledged,
        state,
        interval: identity.heartbeat.clamp(INTERVAL.0, INTERVAL.1),
        began: clock::monotonic(),
        sequence: 0,
        failures: 0,
        facts_told: None,
    };
    std::thread::Builder::new()
        .name("heartbeat".into())
        .stack_size(STACK_BYTES)
        .spawn(move || thread.run())?;
    Ok(())
}

struct Thread {
    link: Link,
    waiter: Arc<Waiter>,
    shared: Arc<Shared>,
    state: State,
    acknowledged: BTreeSet<RecordKey>,
    interval: Duration,
    began: Duration,
    sequence: u64,
    failures: u32,
    facts_told: Option<Facts>,
}

impl Thread {
    fn run(&mut self) {
        loop {
            let stops = self.shared.stop.load(Ordering::Acquire);
            self.shared.changed.store(false, Ordering::Release);
            let wait = self.beat();
            if stops {
                break;
            }
            self.rest(wait);
        }
        self.shared.over.store(true, Ordering::Release);
        self.shared.loop_bell.ring();
    }

    /// Sends one heartbeat; returns how long to rest, and whether a change shortens it.
    fn beat(&mut self) -> (Duration, bool) {
        if !fault::sends_heartbeats() {
            return (self.interval, false);
        }
        let (heartbeat, facts, sent) = self.compose();
        let was_heard = self.shared.is_heard();
        let random = random();
        match self.link.heartbeat(&heartbeat) {
            Ok(answer) => {
                if !was_heard {
                    log::info!("the mesh hears this node");
                }
                self.failures = 0;
                self.facts_told = Some(facts);
                self.shared.heard.store(true, Ordering::Release);
                let more = self.take(&answer, sent);
                match answer.retry_after_ms.map(Duration::from_millis) {
                    Some(calm) => (calm.min(RETRY_AFTER_MAX) + backoff::jittered(CALM, random), false),
                    None if more => (CALM, true),
                    None => (backoff::jittered(self.interval, random), true),
                }
            }
            Err(trouble) => {
                self.failures = self.failures.saturating_add(1);
                self.shared.heard.store(false, Ordering::Release);
                if self.failures == 1 || matches!(trouble, Trouble::Nonsense(_)) {
                    log::warn!("heartbeat: {trouble}");
                } else {
                    log::debug!("heartbeat: {trouble}");
                }
                let longest = BACKOFF.1.max(self.interval);
                let wait = backoff::after(self.failures, BACKOFF.0, longest, random);
                let asked = trouble.retry_after().unwrap_or_default().min(RETRY_AFTER_MAX);
                (wait.max(asked), false)
            }
        }
    }

    fn compose(&mut self) -> (Heartbeat, Facts, Vec<RecordKey>) {
        let statement = self.shared.statement.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.sequence += 1;
        let facts = machine::facts(self.state.root(), &machine::installed(self.state.root()));
        let mut heartbeat = statement.heartbeat;
        heartbeat.sequence = self.sequence;
        heartbeat.up_ms = millis(clock::monotonic().saturating_sub(self.began));
        heartbeat.facts = (self.facts_told.as_ref() != Some(&facts)).then(|| facts.clone());
        let mut told = statement.rollbacks;
        told.retain(|record| !self.acknowledged.contains(&record.key));
        let sent = told.iter().map(|record| record.key.clone()).collect();
        heartbeat.rollbacks = told.into_iter().map(|record| record.report).collect();
        (heartbeat.bounded(), facts, sent)
    }

    /// Takes the answer in; true if there is more to be said at once.
    fn take(&mut self, answer: &HeartbeatAnswer, sent: Vec<RecordKey>) -> bool {
        if let Some(interval) = answer.heartbeat_ms.map(Duration::from_millis) {
            self.interval = interval.clamp(INTERVAL.0, INTERVAL.1);
        }
        // Rung once for each generation: one that the loop refuses must not wake it for ever.
        let is_news = self.shared.newest.swap(answer.newest, Ordering::AcqRel) != answer.newest;
        let statement = self.shared.statement.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if is_news && answer.newest > statement.heartbeat.accepted {
            self.shared.loop_bell.ring();
        }
        let before = self.acknowledged.len();
        // The mesh answers with numbers: they mean the records that were sent, not later ones.
        self.acknowledged.extend(sent.into_iter().filter(|key| answer.stored_rollbacks.contains(&key.id)));
        if self.acknowledged.len() == before {
            return false;
        }
        if let Err(error) = self.state.store_acknowledged(&self.acknowledged) {
            log::error!("rollbacks.acked cannot be written: {error}");
        }
        statement.rollbacks.iter().any(|record| !self.acknowledged.contains(&record.key))
    }

    fn rest(&self, (wait, change_shortens): (Duration, bool)) {
        let began = clock::monotonic();
        let until = began + wait;
        loop {
            let now = clock::monotonic();
            let stops = self.shared.stop.load(Ordering::Acquire);
            let changed = change_shortens && self.shared.changed.load(Ordering::Acquire);
            if stops || now >= until || (changed && now >= began + CALM) {
                return;
            }
            let next = if changed { (began + CALM).min(until) } else { until };
            self.waiter.take_bell();
            // The flags are read again after the bell was taken: what was rung before is seen.
            if self.shared.stop.load(Ordering::Acquire) {
                return;
            }
            if !changed && change_shortens && self.shared.changed.load(Ordering::Acquire) {
                continue;
            }
            if let Err(error) = self.waiter.pause(next.saturating_sub(now)) {
                log::error!("heartbeat: waiting fails: {error}");
                std::thread::sleep(CALM);
            }
        }
    }
}

/// Any number; without random bytes the jitter is only smaller.
pub fn random() -> u64 {
    crypt::random::<8>().map_or_else(|_| clock::monotonic().as_nanos() as u64, u64::from_ne_bytes)
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
