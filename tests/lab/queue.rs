//! Which scenario runs next. Called by the runner's threads.
//!
//! Longest limit first, so that the last one to end is a short one; and never more nodes side by side than
//! the machine's limits carry, other labs' nodes not counted.

use std::fs;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::scenarios::Case;

/// A node's service manager and journal hold about six inotify instances of the 128 that root has by default.
pub const INOTIFY_PER_NODE: usize = 6;

/// The scenarios that have not been started, and what the started ones hold.
pub struct Queue {
    /// How many run side by side.
    pub jobs: usize,
    most_nodes: usize,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    waiting: Vec<Case>,
    nodes: usize,
}

impl Queue {
    /// All of these, at most so many side by side.
    pub fn new(mut waiting: Vec<Case>, jobs: usize) -> Queue {
        waiting.sort_by_key(|case| std::cmp::Reverse(case.limit()));
        let jobs = jobs.min(waiting.len());
        let state = Mutex::new(State { waiting, nodes: 0 });
        Queue { jobs, most_nodes: most_nodes(), state, changed: Condvar::new() }
    }

    /// The next one that there is room for; waits for room; none when all are taken.
    pub fn take(&self) -> Option<Case> {
        let mut state = self.lock();
        while !state.waiting.is_empty() {
            let room = self.most_nodes.saturating_sub(state.nodes);
            // One that is larger than all the room there is runs alone, and says itself what is too small.
            let alone = state.nodes == 0;
            if let Some(place) = state.waiting.iter().position(|c| alone || c.nodes() <= room) {
                let case = state.waiting.remove(place);
                state.nodes += case.nodes();
                return Some(case);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        None
    }

    /// A taken one has ended.
    pub fn give_back(&self, case: &Case) {
        self.lock().nodes -= case.nodes();
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many nodes fit on this machine at once, with a fifth left for what else runs.
pub fn most_nodes() -> usize {
    let limit = fs::read_to_string("/proc/sys/fs/inotify/max_user_instances").unwrap_or_default();
    let limit: usize = limit.trim().parse().unwrap_or(128);
    limit * 4 / 5 / INOTIFY_PER_NODE
}
