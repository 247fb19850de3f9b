//! What a node states about itself, and the answer.
//!
//! Facts only: the mesh decides what they mean. `version` is the one compiled into the running process,
//! never a stored value (C27). Order of statements: boot epoch, start id, sequence (C81).

use super::limits;
use crate::model::Facts;
use miniserde::{Deserialize, Serialize};

/// `POST /v1/heartbeat`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heartbeat {
    /// See [`super::FORMAT`].
    pub format: u64,
    /// The node's id.
    pub node: String,
    /// The kernel's boot id.
    pub boot: String,
    /// Grows with every start of the host.
    pub start: u64,
    /// Grows with every heartbeat of one start.
    pub sequence: u64,
    /// The running version, compiled in.
    pub version: String,
    /// Whether this version got through a full reconcile here.
    pub confirmed: bool,
    /// Milliseconds since this process started, monotonic.
    pub up_ms: u64,
    /// The version in `known-good`.
    pub known_good: Option<String>,
    /// Whether a rollback would work now.
    pub armed: bool,
    /// Why it would not.
    pub unarmed_because: Option<String>,
    /// Generation of the newest declaration that the node accepted; 0: none.
    pub accepted: u64,
    /// Generation of the newest declaration that a reconcile got through; 0: none.
    pub applied: u64,
    /// Number of resources that failed in the last reconcile.
    pub failed: u64,
    /// The first of them.
    pub failures: Vec<Failure>,
    /// Versions that are not installed here, and why.
    pub refused: Vec<Refused>,
    /// The order at hand, or the last one, if it is not confirmed yet.
    pub order: Option<OrderState>,
    /// Rollbacks that the mesh has not acknowledged yet, oldest first.
    pub rollbacks: Vec<Rollback>,
    /// Why the last declaration was refused, if it was.
    pub declaration_refused: Option<String>,
    /// The reason, when this is the last heartbeat of a host that was asked to stop.
    pub goodbye: Option<String>,
    /// What kind of machine it is; only in the first heartbeat of a start and when it changed.
    pub facts: Option<Facts>,
}

/// A resource that could not be brought to its declared state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// `kind:name` of the resource.
    pub name: String,
    /// What happened, one line.
    pub error: String,
}

/// A version that this node does not install until a newer attempt asks for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// The version.
    pub version: String,
    /// The attempt that failed; 0: installed by hand.
    pub attempt: u64,
    /// Why, one line.
    pub reason: String,
}

/// How far the node is with an order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderState {
    /// The rollout that ordered it.
    pub rollout: String,
    /// The attempt id.
    pub attempt: u64,
    /// The version ordered.
    pub version: String,
    /// `received`, `fetching`, `ready`, `installing`, `installed`, `failed`, `deferred`.
    pub state: String,
    /// For `failed`: `machine` or `release`.
    pub class: Option<String>,
    /// For `failed` and `deferred`: one word (`disk`, `lock`, `unavailable`, `held`, …).
    pub reason: Option<String>,
    /// One line for a person.
    pub detail: Option<String>,
}

/// What the rollback script recorded, on behalf of the version that would not start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rollback {
    /// The record's number on the node; with `boot` it names the record.
    pub id: u64,
    /// Boot id of the rollback.
    pub boot: String,
    /// The version that failed.
    pub from: String,
    /// The version that was brought back.
    pub to: String,
    /// The attempt that had installed `from`; 0: by hand.
    pub attempt: u64,
    /// The rollout of that attempt.
    pub rollout: Option<String>,
    /// `rolled-back` or `failed`.
    pub outcome: String,
    /// Why, in a word or a line.
    pub reason: String,
    /// systemd's result of the failed unit: `exit-code`, `timeout`, `watchdog`, `start-limit-hit`, …
    pub result: Option<String>,
    /// `exited`, `killed`, `dumped`.
    pub code: Option<String>,
    /// Exit status or signal name.
    pub status: Option<String>,
    /// The failed version's last log lines.
    pub log: Vec<String>,
}

/// The mesh's answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeartbeatAnswer {
    /// See [`super::FORMAT`].
    pub format: u64,
    /// Generation of the newest declaration for this node.
    pub newest: u64,
    /// Rollback records that the mesh has stored, as their numbers.
    pub stored_rollbacks: Vec<u64>,
    /// How long the node should be quiet, in milliseconds, when the mesh wants calm.
    pub retry_after_ms: Option<u64>,
    /// A new heartbeat interval, in milliseconds.
    pub heartbeat_ms: Option<u64>,
}

impl Heartbeat {
    /// Cuts everything that has a limit to it, so that the statement always fits.
    pub fn bounded(mut self) -> Self {
        self.failures.truncate(limits::FAILURES_MAX);
        for failure in &mut self.failures {
            failure.name = limits::cut(&failure.name, limits::ERROR_BYTES_MAX);
            failure.error = limits::cut(&failure.error, limits::ERROR_BYTES_MAX);
        }
        self.refused.truncate(limits::REFUSED_MAX);
        for refused in &mut self.refused {
            refused.reason = limits::cut(&refused.reason, limits::ERROR_BYTES_MAX);
        }
        self.rollbacks.truncate(limits::ROLLBACKS_PER_HEARTBEAT_MAX);
        for rollback in &mut self.rollbacks {
            bound_log(&mut rollback.log);
        }
        self
    }
}

/// Keeps the last lines that fit: the end of a log says why it ended.
fn bound_log(log: &mut Vec<String>) {
    let mut left = limits::EVIDENCE_BYTES_MAX;
    let mut kept: Vec<String> = Vec::new();
    for line in log.iter().rev().take(limits::EVIDENCE_LINES_MAX) {
        let line = limits::cut(line, 400);
        // A character may take two bytes in JSON (quotes, backslashes); count for the worst.
        let cost = 2 * line.len() + 3;
        if cost > left {
            break;
        }
        left -= cost;
        kept.push(line);
    }
    kept.reverse();
    *log = kept;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quiet_heartbeat_is_small_and_the_largest_one_fits() {
        let quiet = Heartbeat {
            format: 1,
            node: "n-0123456789abcdef".into(),
            boot: "0f4f2d80-93c5-4a9c-8c53-8f5c28e2a9aa".into(),
            version: "1.4.0".into(),
            known_good: Some("1.4.0".into()),
            armed: true,
            confirmed: true,
            ..Default::default()
        };
        assert!(miniserde::json::to_string(&quiet.clone().bounded()).len() < 600);
        let mut worst = quiet;
        worst.failures = vec![Failure { name: "\"".repeat(999), error: "\\".repeat(999) }; 99];
        worst.refused = vec![Refused { version: "1.0.0".into(), attempt: 1, reason: "\"".repeat(999) }; 99];
        worst.rollbacks = vec![Rollback { log: vec!["\"".repeat(999); 99], ..Default::default() }; 9];
        let text = miniserde::json::to_string(&worst.bounded());
        assert!(text.len() <= limits::HEARTBEAT_BYTES_MAX, "{}", text.len());
    }

    #[test]
    fn the_last_log_lines_are_kept() {
        let mut log: Vec<String> = (0..100).map(|n| format!("line {n}")).collect();
        bound_log(&mut log);
        assert_eq!(log.len(), limits::EVIDENCE_LINES_MAX);
        assert_eq!(log.last().map(String::as_str), Some("line 99"));
    }

    #[test]
    fn a_newer_release_may_say_more_and_an_older_one_less() {
        let text = r#"{"format":2,"node":"n","boot":"b","start":1,"sequence":1,"version":"1.0.0",
            "confirmed":true,"up_ms":1,"armed":false,"accepted":0,"applied":0,"failed":0,"failures":[],
            "refused":[],"rollbacks":[],"new_field":{"x":[1]}}"#;
        let read: Heartbeat = miniserde::json::from_str(text).unwrap();
        assert_eq!(read.version, "1.0.0");
        assert_eq!(read.order, None);
    }
}
