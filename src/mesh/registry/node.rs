//! One node's record, and the declaration that follows from it.
//!
//! The declaration is a pure function of the record: same record, same bytes. What it says (resources,
//! target, retained package) and its generation change in one compare-and-swap of one record, so that
//! no crash can leave a generation whose content is another one.

use crate::mesh::text;
use crate::model::{Attempt, Digest, Facts, Generation, NodeId, NodeName, RolloutId, Version};
use crate::wire;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What the registry knows of a node. Heartbeats are not in here (rule 11 of the system).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// Given at join, never reused.
    #[serde(with = "text")]
    pub id: NodeId,
    /// Unique among nodes.
    #[serde(with = "text")]
    pub name: NodeName,
    /// A person's own marks, for selecting.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// SHA-256 of the credential; the credential itself is only on the node.
    #[serde(with = "text")]
    pub credential: Digest,
    /// What the node said of its machine.
    #[serde(with = "text::FactsText")]
    pub facts: Facts,
    /// When it joined, wall clock, information only.
    pub joined_unix: u64,
    /// The version that it last reported as running and confirmed.
    #[serde(with = "text::option")]
    pub version: Option<Version>,
    /// The hash of the declared resources (`registry::specs`), all but the host itself.
    #[serde(with = "text")]
    pub spec: Digest,
    /// The host version that delivery declares.
    pub target: Option<TargetRecord>,
    /// The package of `version`, if the store has it: what a rollback needs.
    pub retain: Option<PackageRecord>,
    /// Of the current declaration; only grows.
    pub generation: Generation,
}

/// A declared host version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetRecord {
    /// What to install.
    pub package: PackageRecord,
    /// Who ordered it.
    #[serde(with = "text")]
    pub rollout: RolloutId,
    /// A newer one asks a refused node again.
    pub attempt: Attempt,
    /// Upgrade although no rollback could follow.
    pub insist_unarmed: bool,
    /// Generation of the first declaration that carries it; 0 until the registry stores it.
    pub since: Generation,
}

/// A package of the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackageRecord {
    /// Its version.
    #[serde(with = "text")]
    pub version: Version,
    /// Its name among the large values.
    #[serde(with = "text")]
    pub sha256: Digest,
    /// In bytes.
    pub size: u64,
}

impl NodeRecord {
    /// Whether the declaration of `other` would say something else.
    pub fn declares_differently(&self, other: &NodeRecord) -> bool {
        self.spec != other.spec || self.target != other.target || self.retain != other.retain
    }

    /// The text of the declaration; `spec` is the JSON array that `self.spec` names.
    pub fn declaration(&self, spec: &str) -> String {
        compose(&self.id, self.generation, spec, &self.host())
    }

    fn host(&self) -> serde_json::Value {
        let package = |p: &PackageRecord| {
            serde_json::json!({
                "version": p.version.to_string(), "sha256": p.sha256.to_string(), "size": p.size,
            })
        };
        let mut host = serde_json::json!({ "kind": "host", "name": "host" });
        if let Some(target) = &self.target {
            host["target"] = serde_json::json!({
                "rollout": target.rollout.as_str(),
                "attempt": target.attempt,
                "insist_unarmed": target.insist_unarmed,
                "package": package(&target.package),
            });
        }
        if let Some(retain) = &self.retain {
            host["retain"] = package(retain);
        }
        host
    }
}

/// The declaration as JSON; the host comes last, as it is carried out last.
fn compose(id: &NodeId, generation: Generation, spec: &str, host: &serde_json::Value) -> String {
    let items = spec.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or_default();
    let comma = if items.is_empty() { "" } else { "," };
    let format = wire::FORMAT;
    format!(
        r#"{{"format":{format},"node":"{id}","generation":{generation},"resources":[{items}{comma}{host}]}}"#
    )
}

/// Checks declared resources as the node would read them; gives the text to be stored.
///
/// # Errors
/// A sentence that names the place. What a node could not carry out is refused here, before it is
/// signed, and not discovered node by node.
pub fn check_spec(resources: &[serde_json::Value]) -> Result<String, String> {
    if let Some(index) = resources.iter().position(|resource| resource["kind"] == "host") {
        let text = "the host's version is changed by a rollout: see 'nox-mesh rollout start --help'";
        return Err(format!("resource {}: {text}", index + 1));
    }
    let spec = serde_json::to_string(resources).map_err(|error| error.to_string())?;
    let id: NodeId = "n-check".parse().map_err(|error| format!("{error}"))?;
    // As long as a host resource gets: the limit must hold with it.
    let padding = serde_json::json!({ "kind": "host", "name": "host", "padding": "x".repeat(1024) });
    let text = compose(&id, u64::MAX >> 1, &spec, &padding);
    let document = wire::declaration::read(&text).map_err(|refusal| refusal.to_string())?;
    let mut places: BTreeMap<&str, String> = BTreeMap::new();
    for (index, (said, read)) in resources.iter().zip(&document.resources).enumerate() {
        let place = format!("resource {} ({})", index + 1, read.id);
        if let wire::declaration::Spec::Unusable(why) = &read.spec {
            return Err(format!("{place}: {why}"));
        }
        check_fields(said).map_err(|why| format!("{place}: {why}"))?;
        let path = said["name"].as_str().unwrap_or_default();
        if let Some(other) = places.insert(path, place.clone()) {
            return Err(format!("{place}: {other} declares {path} as something else"));
        }
    }
    Ok(spec)
}

/// Fields that a node would not know. A node ignores them, because a later mesh may know more than it; a
/// person who types one has mistyped it.
fn check_fields(resource: &serde_json::Value) -> Result<(), String> {
    let known: &[&str] = match resource["kind"].as_str() {
        Some("file") => &["kind", "name", "content", "mode", "owner", "group"],
        _ => &["kind", "name", "mode", "owner", "group"],
    };
    let mut fields = resource.as_object().into_iter().flat_map(|object| object.keys());
    match fields.find(|field| !known.contains(&field.as_str())) {
        None => Ok(()),
        Some(field) => {
            let field = wire::limits::cut(field, 64);
            Err(format!("'{field}' is not known: expected {}", known.join(", ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::declaration::{Spec, read};
    use serde_json::json;

    fn record() -> NodeRecord {
        let package =
            PackageRecord { version: "1.5.0".parse().unwrap(), sha256: Digest::new([5; 32]), size: 9 };
        NodeRecord {
            id: "n-1".parse().unwrap(),
            name: "a".parse().unwrap(),
            labels: BTreeMap::new(),
            credential: Digest::new([1; 32]),
            facts: Facts::default(),
            joined_unix: 0,
            version: None,
            spec: Digest::new([0; 32]),
            target: Some(TargetRecord {
                package: package.clone(),
                rollout: "r-1".parse().unwrap(),
                attempt: 3,
                insist_unarmed: true,
                since: 7,
            }),
            retain: Some(package),
            generation: 7,
        }
    }

    #[test]
    fn a_record_reads_back_and_its_declaration_is_one_that_nodes_take() {
        let record = record();
        let stored = serde_json::to_vec(&record).unwrap();
        assert_eq!(serde_json::from_slice::<NodeRecord>(&stored).unwrap(), record);
        let spec = check_spec(&[json!({"kind":"directory","name":"/etc/app","mode":"0755"})]).unwrap();
        for (spec, count) in [("[]", 1), (spec.as_str(), 2)] {
            let document = read(&record.declaration(spec)).unwrap();
            assert_eq!((document.generation, document.resources.len()), (7, count));
            let Spec::Host(host) = &document.resources[count - 1].spec else { panic!("no host at the end") };
            let target = host.target.clone().unwrap();
            assert_eq!((target.attempt, target.insist_unarmed, target.package.size), (3, true, 9));
            assert!(host.retain.is_some());
        }
    }

    #[test]
    fn what_a_node_could_not_carry_out_is_refused_with_its_place() {
        let rows = [
            (json!([{"kind":"file","name":"/a","content":"x"},{"kind":"file","name":"/b"}]), "resource 2"),
            (json!([{"kind":"file","name":"b","content":""}]), "resource 1 (file:b): resources[0].name"),
            (json!([{"kind":"fiel","name":"/b"}]), "does not know the kind 'fiel'"),
            (json!([{"name":"/b"}]), "resources[0].kind"),
            (json!([{"kind":"directory","name":"/b"},{"kind":"directory","name":"/b"}]), "declared twice"),
            (json!([{"kind":"file","name":"/b","content":"","mdoe":"0600"}]), "resource 1 (file:/b): 'mdoe'"),
            (
                json!([{"kind":"directory","name":"/b","content":"x"}]),
                "expected kind, name, mode, owner, group",
            ),
            (
                json!([{"kind":"directory","name":"/a"},{"kind":"file","name":"/a","content":""}]),
                "resource 2 (file:/a): resource 1 (directory:/a) declares /a",
            ),
            (json!([{"kind":"host","name":"host"}]), "rollout start"),
            (json!([{"kind":"file","name":"/b","content":"x".repeat(1 << 20)}]), "too many"),
        ];
        for (resources, wanted) in rows {
            let said = check_spec(resources.as_array().unwrap()).unwrap_err();
            assert!(said.contains(wanted), "{said}");
        }
    }
}
