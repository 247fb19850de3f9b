//! The rollout as it is stored.
//!
//! Every time in here is *rollout time*: milliseconds that this rollout spent while the mesh could hear.
//! So a restart of the mesh, a jump of its clock or an hour of deafness cannot pass a window (C88).

use crate::mesh::presence::{Millis, RollbackRecord, Spoke, WORD_BYTES_MAX};
use crate::model::{Attempt, Facts, Generation, NodeId, RolloutId, Stratum, Version};
use crate::wire::limits::cut;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The format number of a stored rollout.
pub const FORMAT: u32 = 1;

/// A rollout: everything that delivery knows of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rollout {
    /// See [`FORMAT`].
    pub format: u32,
    /// Its id.
    pub id: RolloutId,
    /// The version that it carries.
    pub version: Version,
    /// The attempt on each of its orders; grows over the whole mesh.
    pub attempt: Attempt,
    /// How careful it is.
    pub plan: Plan,
    /// Where it stands.
    pub state: State,
    /// Why it stopped; set once, never taken back.
    pub stopped: Option<Stopped>,
    /// Its own time.
    pub clock: Clock,
    /// Since when it is held.
    pub held_since: Option<Millis>,
    /// Until when it was held last: clocks of silence start there.
    pub held_until: Millis,
    /// The nodes that the selector matched.
    pub members: BTreeMap<NodeId, Member>,
    /// The waves so far; the last one is the current one.
    pub waves: Vec<Wave>,
    /// Strata whose canary was replaced: each at most once (C70).
    pub replaced: BTreeSet<StratumKey>,
    /// Complete, and a newer rollout has taken over: nobody catches up any more.
    #[serde(default)]
    pub closed: bool,
}

/// How careful a rollout is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Canaries for each stratum.
    pub canary: u32,
    /// Sizes of the waves after the canary; the last is repeated.
    pub waves: Vec<Size>,
    /// Most nodes that are told and not yet decided at a time.
    pub max_in_change: Size,
    /// Silence longer than this is silence.
    pub window_ms: Millis,
    /// A node that received its order is confirmed within this time, or failed.
    pub confirm_deadline_ms: Millis,
    /// Listening time between the last confirmation of a wave and the next wave.
    pub soak_ms: Millis,
    /// Tell nodes too on which no rollback could follow.
    pub insist_unarmed: bool,
    /// Ask nodes again that refuse the version since an older attempt than this rollout's.
    #[serde(default)]
    pub retry_refused: bool,
}

/// A number of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Size {
    /// This many.
    Nodes(u32),
    /// This share of the nodes that the selector matched.
    Percent(u32),
}

impl Size {
    /// As a number of nodes out of `all`, at least one.
    pub fn of(self, all: usize) -> usize {
        let nodes = match self {
            Size::Nodes(nodes) => nodes as usize,
            Size::Percent(percent) => all.saturating_mul(percent as usize) / 100,
        };
        nodes.max(1)
    }
}

impl Default for Plan {
    fn default() -> Self {
        let minutes = 60_000;
        Plan {
            canary: 2,
            waves: vec![Size::Nodes(2), Size::Percent(5), Size::Percent(20)],
            max_in_change: Size::Percent(20),
            window_ms: 10 * minutes,
            confirm_deadline_ms: 30 * minutes,
            soak_ms: 30 * minutes,
            insist_unarmed: false,
            retry_refused: false,
        }
    }
}

/// Where a rollout stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Nobody could be told yet.
    Waiting,
    /// A wave is out, soaks, or is about to be drawn.
    Running,
    /// The mesh or the control group is deaf: nothing is judged, nobody new is told.
    Holding,
    /// Nobody is left to tell; whoever comes back later gets it alone.
    Complete,
    /// Final. No node begins any more.
    Stopped,
}

/// Why a rollout stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stopped {
    /// In a word.
    pub kind: StopKind,
    /// In a sentence.
    pub text: String,
    /// When.
    pub at: Millis,
    /// The nodes that it is about.
    pub nodes: BTreeSet<NodeId>,
    /// The nodes that had claimed before the stop and were not decided: they had begun.
    pub begun: BTreeSet<NodeId>,
}

/// Why a rollout stopped, in a word; what weighs most first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopKind {
    /// The version would not start and was rolled back.
    RolledBack,
    /// Told nodes went silent while others were heard.
    Silence,
    /// The package could not be fetched or installed.
    InstallFailed,
    /// Told nodes are alive and did not confirm in time.
    NotConfirmed,
    /// No canary of a stratum could be heard confirmed, without anybody's fault.
    NoCanary,
    /// A person stopped it.
    Aborted,
}

/// One node of a rollout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// What kind of node it was when the rollout started, or when it was told.
    pub stratum: StratumKey,
    /// The wave that it belongs to, counted from zero; none: not told, or excused.
    pub wave: Option<usize>,
    /// Set when it is told.
    pub told: Option<Told>,
    /// When it was known to hold the order.
    pub received: Option<Millis>,
    /// Whether it has claimed: it may have begun.
    pub claimed: bool,
    /// What was heard of it; terminal values stay.
    pub outcome: Outcome,
    /// When the outcome became terminal.
    pub decided: Option<Millis>,
    /// A confirmed node that fell afterwards, while its wave was open.
    pub fell: Option<Fell>,
    /// The rollback that it reported for this attempt.
    pub evidence: Option<Evidence>,
    /// What was heard after the decision, for the list only.
    pub later: Option<String>,
    /// Whether it was replaced as a canary.
    pub replaced: bool,
}

/// What was known of a node when it was told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// When.
    pub at: Millis,
    /// The process that spoke then: a confirmation must come from a later one (C68, C81).
    pub before: Spoke,
    /// Generation of its order, once it was seen in the declaration.
    pub generation: Option<Generation>,
}

/// What was heard of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "is")]
pub enum Outcome {
    /// Not told.
    Pending,
    /// Told, and not known to hold the order.
    Told,
    /// Holds the order; still on the old version.
    Received,
    /// Runs the target; not confirmed yet.
    Starting,
    /// Puts the order off (a hold, a maintenance window); not a failure (C77).
    Deferring {
        /// The node's reason.
        reason: String,
    },
    /// Heard confirmed on the target after the order.
    Confirmed,
    /// The version would not start there.
    RolledBack {
        /// The machine was at fault (disk full, …), not the release.
        machine: bool,
    },
    /// The package could not be installed.
    InstallFailed {
        /// The machine or its surroundings were at fault.
        machine: bool,
        /// In a word.
        reason: String,
        /// One line.
        detail: String,
    },
    /// Put off until its deadline.
    Deferred {
        /// The node's reason.
        reason: String,
    },
    /// Nothing heard for the window after the order was received.
    Silent,
    /// Alive, and not confirmed in time.
    NotConfirmed,
    /// Runs a version that nobody ordered.
    UnexpectedVersion {
        /// That version.
        version: String,
    },
    /// Its order was taken back before it began: the rollout stopped, or a newer one took over.
    Withdrawn,
}

/// How a confirmed node fell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "is")]
pub enum Fell {
    /// It went silent without a goodbye.
    Silent,
    /// It runs another version again.
    Version {
        /// That version.
        version: String,
    },
}

/// The rollback record of the version that would not start.
pub type Evidence = RollbackRecord;

/// A stratum as it is stored: nodes that are alike.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct StratumKey {
    /// Architecture.
    pub architecture: String,
    /// Package format.
    pub package_format: String,
    /// Distribution.
    pub distribution: String,
    /// The version before the rollout.
    pub version: String,
}

/// Nodes told together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wave {
    /// Judged by the canary's rules.
    pub canary: bool,
    /// After `complete`: a node that came back, alone.
    pub catch_up: bool,
    /// Its nodes, those that were excused left out.
    pub nodes: BTreeSet<NodeId>,
    /// Up to [`super::CONTROL_MAX`] nodes outside the wave that were heard when it was told.
    pub control: BTreeSet<NodeId>,
    /// When it was told.
    pub told_at: Millis,
    /// When its last node was decided.
    pub decided_at: Option<Millis>,
    /// When it passed.
    pub passed_at: Option<Millis>,
}

/// Rollout time: grows only while the mesh hears.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clock {
    /// Listening time so far, up to `marked`.
    pub listened: Millis,
    /// The listening epoch of `marked`.
    pub epoch: u64,
    /// Mesh time up to which `listened` counts.
    pub marked: Millis,
}

impl Member {
    /// Told, and nothing final heard: its order is in force.
    pub fn is_open(&self) -> bool {
        self.told.is_some() && !self.outcome.is_terminal()
    }
}

impl Rollout {
    /// The current wave.
    pub fn wave(&self) -> Option<&Wave> {
        self.waves.last()
    }

    /// Whether something could still be heard for its list: members are undecided, or silent. The driver
    /// may step a rollout that has stopped, or was closed, for as long: that changes the list only.
    pub fn is_unsettled(&self) -> bool {
        self.members.values().any(|member| member.is_open() || member.outcome == Outcome::Silent)
    }

    /// The members of one wave.
    pub fn wave_members<'a>(&'a self, wave: &'a Wave) -> impl Iterator<Item = (&'a NodeId, &'a Member)> {
        wave.nodes.iter().filter_map(|id| self.members.get_key_value(id))
    }
}

impl StratumKey {
    /// The stratum of a node with these facts on this version. What a node says of its machine is shown to
    /// people, in verdicts: it is cut and freed of control characters like the rest.
    pub fn new(facts: &Facts, version: &str) -> Self {
        let word = |said: &str| cut(said, WORD_BYTES_MAX);
        StratumKey {
            architecture: word(&facts.architecture),
            package_format: word(&facts.package_format),
            distribution: word(&facts.distribution),
            version: version.to_owned(),
        }
    }

    /// As the model's value.
    pub fn stratum(&self) -> Stratum {
        Stratum {
            architecture: self.architecture.clone(),
            package_format: self.package_format.clone(),
            distribution: self.distribution.clone(),
            version: self.version.clone(),
        }
    }
}
