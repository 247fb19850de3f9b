//! What a rollout tells people and programs, as values. [`super::list`] fills them in.

use crate::mesh::presence::Millis;
use serde::{Deserialize, Serialize};

/// `rollout report`: the JSON of it is a contract.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The rollout's id.
    pub id: String,
    /// The version.
    pub version: String,
    /// `running`, `waiting`, `holding`, `complete`, `stopped`.
    pub state: super::State,
    /// One line: where it stands, with the counts.
    pub summary: String,
    /// Why it stopped.
    pub stopped_because: Option<StoppedBecause>,
    /// What it was: set when stopped, holding, or when single nodes failed.
    pub verdict: Option<VerdictReport>,
    /// The waves so far.
    pub waves: Vec<WaveReport>,
    /// The nodes that were told.
    pub nodes: Vec<NodeReport>,
    /// The nodes that were not, with the reason.
    pub not_included: Vec<NotIncluded>,
    /// What it is waiting for.
    pub waiting_for: Vec<WaitingFor>,
}

/// Why it stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoppedBecause {
    /// In a word.
    pub kind: super::StopKind,
    /// In a sentence.
    pub text: String,
    /// Names of the nodes that had begun before the stop.
    pub begun: Vec<String>,
}

/// What it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerdictReport {
    /// `broken_release`, `broken_machine`, `mesh_outage`, `undecided`.
    pub kind: VerdictKind,
    /// In a sentence.
    pub text: String,
    /// What it rests on, a line each.
    pub evidence: Vec<String>,
    /// What to do next.
    pub next: String,
}

/// What it was, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VerdictKind {
    /// The version does not work.
    BrokenRelease,
    /// One machine does not work; others like it do.
    BrokenMachine,
    /// The mesh or its network was deaf or did not deliver.
    MeshOutage,
    /// The evidence does not decide; `next` says what would.
    Undecided,
}

/// A wave.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaveReport {
    /// Counted from one.
    pub number: usize,
    /// Judged by the canary's rules.
    pub canary: bool,
    /// `open`, `soaking`, `passed`, `not_passed`.
    pub state: String,
    /// Ids of its nodes.
    pub nodes: Vec<String>,
}

/// A node that was told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeReport {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its wave, counted from one; none: excused.
    pub wave: Option<usize>,
    /// `told`, `received`, `waiting` (runs it, not confirmed yet), `confirmed`, `rolled-back`,
    /// `install-failed`, `deferred`, `silent`, `not-confirmed`, `unexpected-version`, `withdrawn`.
    pub outcome: String,
    /// More about the outcome, one line.
    pub detail: Option<String>,
    /// The version that it runs now, as far as it was heard.
    pub version: Option<String>,
    /// The rollback that it reported.
    pub evidence: Option<EvidenceReport>,
}

/// A rollback.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvidenceReport {
    /// The version that failed.
    pub from: String,
    /// The version that was brought back.
    pub to: String,
    /// Why the script acted.
    pub reason: String,
    /// The service manager's result.
    pub result: Option<String>,
    /// `exited`, `killed`, `dumped`.
    pub code: Option<String>,
    /// Exit status or signal.
    pub status: Option<String>,
    /// The failed version's last log lines.
    pub log: Vec<String>,
}

/// A node that was not told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotIncluded {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Why, in a sentence.
    pub reason: String,
}

/// Something that the rollout waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingFor {
    /// The node; none: the rollout as a whole.
    pub id: Option<String>,
    /// Its name.
    pub name: Option<String>,
    /// What for, in a word: `receipt`, `confirmation`, `node_online`, `soak`, `mesh_hearing`, …
    pub reason: String,
    /// For how long already, in milliseconds of listening time.
    pub for_ms: Millis,
    /// At most how much longer, where there is a limit.
    pub left_ms: Option<Millis>,
}
