//! A node as the operator sees it: the record and what was heard, side by side.

use crate::mesh::core::Mesh;
use crate::mesh::presence::Presence;
use crate::mesh::registry::node::NodeRecord;
use crate::model::{Facts, Version};
use serde::{Deserialize, Serialize};

/// One line of `nox-mesh nodes`; the JSON is a contract.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeLine {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// `heard`, `silent`, `offline` (it said goodbye) or `never`.
    pub presence: String,
    /// Seconds since it was last heard; none: never, or before the mesh was started anew.
    pub last_heard_s: Option<u64>,
    /// It was heard before the mesh was started anew, and not since.
    pub heard_before_restart: bool,
    /// The version that it runs.
    pub version: Option<String>,
    /// Whether that version got through a full reconcile there.
    pub confirmed: bool,
    /// The version that a rollback would return to.
    pub known_good: Option<String>,
    /// Whether a rollback would work.
    pub armed: bool,
    /// Why it would not.
    pub armed_reason: Option<String>,
    /// Generation that the node has applied.
    pub generation: u64,
    /// Generation that the mesh declares.
    pub declared_generation: u64,
    /// How many resources failed.
    pub failed: u64,
    /// The first of them.
    pub failures: Vec<FailureLine>,
    /// Versions that it does not install.
    pub refused: Vec<RefusedLine>,
    /// What is wrong with the node besides, in sentences.
    pub remarks: Vec<String>,
    /// The distribution's name of the architecture.
    pub architecture: String,
    /// `deb`, …
    pub package_format: String,
    /// For example `debian-12`.
    pub distribution: String,
}

/// A resource that failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureLine {
    /// `kind:name`.
    pub name: String,
    /// What happened.
    pub error: String,
}

/// A version that is refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedLine {
    /// The version.
    pub version: String,
    /// Why.
    pub reason: String,
}

impl Mesh {
    /// Every node, by name.
    pub fn node_lines(&self) -> Vec<NodeLine> {
        let now = self.hearing.now();
        let mut heard = self.hearing.all();
        let nodes = self.registry.nodes();
        let lines = nodes.iter().map(|record| {
            let presence = heard.remove(&record.id).unwrap_or_default();
            let mut line = line(record, &presence, now);
            line.remarks = self.remarks(record, &presence);
            if presence.heard_at.is_some_and(|at| self.hearing.is_before_restart(at)) {
                (line.last_heard_s, line.heard_before_restart) = (None, true);
            }
            line
        });
        let mut lines: Vec<NodeLine> = lines.collect();
        lines.sort_by(|a, b| a.name.cmp(&b.name));
        lines
    }

    fn remarks(&self, record: &NodeRecord, presence: &Presence) -> Vec<String> {
        let mut remarks = Vec::new();
        if presence.duplicated {
            remarks.push("two machines use this node's identity: join one of them again".to_owned());
        }
        if let Some(why) = &presence.declaration_refused {
            remarks.push(format!("it refused its declaration: {why}"));
        }
        if let Some(version) = record.version.as_ref().filter(|_| record.retain.is_none()) {
            remarks.push(missing_package(&record.facts, version));
        }
        remarks
    }
}

/// What a node whose rollback has no package needs.
fn missing_package(facts: &Facts, version: &Version) -> String {
    let (format, architecture) = (&facts.package_format, &facts.architecture);
    if format != "deb" {
        return format!(
            "it runs {version}, which was not installed from a package: nothing can be rolled out to it \
             or rolled back there before it is"
        );
    }
    format!(
        "the store lacks the package that a rollback to {version} needs: \
         nox-mesh package add nox-mesh-host_{version}_{architecture}.deb"
    )
}

fn line(record: &NodeRecord, presence: &Presence, now: u64) -> NodeLine {
    let word = match (presence.heard_at, presence.silent_at, &presence.goodbye) {
        (None, _, _) => "never",
        (_, Some(_), _) => "silent",
        (_, _, Some(_)) => "offline",
        _ => "heard",
    };
    let failures = presence.failures.iter();
    let refused = presence.refused.iter();
    NodeLine {
        id: record.id.to_string(),
        name: record.name.to_string(),
        presence: word.to_owned(),
        heard_before_restart: false,
        last_heard_s: presence.heard_at.map(|at| now.saturating_sub(at) / 1000),
        version: presence.version.as_ref().or(record.version.as_ref()).map(ToString::to_string),
        confirmed: presence.confirmed,
        known_good: presence.known_good.as_ref().map(ToString::to_string),
        armed: presence.armed,
        armed_reason: presence.unarmed_because.clone(),
        generation: presence.applied,
        declared_generation: record.generation,
        failed: presence.failed,
        failures: failures
            .map(|(name, error)| FailureLine { name: name.clone(), error: error.clone() })
            .collect(),
        refused: refused
            .map(|r| RefusedLine { version: r.version.clone(), reason: r.reason.clone() })
            .collect(),
        remarks: Vec::new(),
        architecture: record.facts.architecture.clone(),
        package_format: record.facts.package_format.clone(),
        distribution: record.facts.distribution.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_without_a_package_is_not_told_to_add_one_that_nobody_can_build() {
        let said = |format: &str| {
            let facts =
                Facts { package_format: format.into(), architecture: "amd64".into(), ..Facts::default() };
            missing_package(&facts, &"1.4.0".parse().unwrap())
        };
        assert!(said("deb").contains("package add nox-mesh-host_1.4.0_amd64.deb"));
        assert!(!said("bare").contains("package add"), "{}", said("bare"));
    }
}
