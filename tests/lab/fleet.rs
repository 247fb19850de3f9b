//! Nodes that belong to a mesh: joining, rollouts with windows that fit a test, and who was touched by one.

use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use serde_json::Value;

use crate::base::Base;
use crate::facts::{STATE, value};
use crate::hosts::Host;
use crate::mesh::Mesh;
use crate::node::Node;
use crate::room::Lab;
use crate::wait::{Done, Failure, check, fail, secs, wait_for, wait_until};

/// A mesh and its nodes.
pub struct Fleet {
    pub mesh: Rc<Mesh>,
    pub nodes: Vec<Rc<Node>>,
}

impl Fleet {
    /// Nodes that are joined, confirmed and armed on this version.
    pub fn new(lab: &Lab, base: Base, count: u8, host: Host) -> Result<Fleet, Failure> {
        let fleet = Fleet::joined(lab, base, count, host)?;
        fleet.add(lab, host)?;
        for node in &fleet.nodes {
            fleet.mesh.wait_node(&node.name, "confirmed and armed", secs(30), |n| {
                n["armed"] == true && n["confirmed"] == true && n["version"] == host.version
            })?;
        }
        Ok(fleet)
    }

    /// Nodes that are joined; the mesh's store is empty.
    pub fn joined(lab: &Lab, base: Base, count: u8, host: Host) -> Result<Fleet, Failure> {
        let mesh = lab.mesh()?;
        mesh.options(&["--heartbeat", "1s"]);
        mesh.start()?;
        let nodes = lab.nodes("n", count, base)?;
        let package = lab.host_package(host)?;
        for node in &nodes {
            node.install_deb(&package)?.ok()?;
            mesh.join(node)?;
        }
        Ok(Fleet { mesh, nodes })
    }

    /// Puts a real host's package into the mesh's store.
    pub fn add(&self, lab: &Lab, host: Host) -> Done {
        self.add_file(&lab.host_package(host)?)
    }

    /// Puts a package into the mesh's store.
    pub fn add_file(&self, package: &Path) -> Done {
        self.mesh.cli(&["package", "add", &package.to_string_lossy()])?;
        Ok(())
    }

    /// Declares resources for every node.
    pub fn declare(&self, toml: &str) -> Done {
        let file = self.mesh.data().join("../declared.toml");
        std::fs::write(&file, toml)?;
        self.mesh.cli(&["declare", &file.to_string_lossy()])?;
        Ok(())
    }

    /// Starts a rollout; later options win over those that a test usually wants.
    pub fn start(&self, version: &str, options: &[&str]) -> Result<String, Failure> {
        let answer = self.mesh.cli(&start_words(version, options))?;
        answer["id"].as_str().map(str::to_owned).ok_or_else(|| Failure::new("rollout start gave no id"))
    }

    /// Adds a good version and rolls it out to the end.
    pub fn carry_out(&self, lab: &Lab, host: Host) -> Done {
        self.add(lab, host)?;
        let rollout = self.start(host.version, &[])?;
        let state = self.ended(&rollout, secs(120))?;
        check(state == "complete", || format!("the rollout of {} is {state}", host.version))
    }

    /// Where a rollout stands.
    pub fn state(&self, rollout: &str) -> Result<String, Failure> {
        let report = self.mesh.report(rollout)?;
        Ok(report["state"].as_str().unwrap_or_default().to_owned())
    }

    /// Waits for a terminal state.
    pub fn ended(&self, rollout: &str, limit: Duration) -> Result<String, Failure> {
        let mut state = String::new();
        wait_until(&format!("rollout {rollout} has ended"), limit, || {
            state = self.state(rollout)?;
            Ok(matches!(state.as_str(), "complete" | "stopped"))
        })?;
        Ok(state)
    }

    /// Waits until a node has let this version start, and says which.
    pub fn first_start_of(&self, version: &str, limit: Duration) -> Result<Rc<Node>, Failure> {
        let (node, _) = wait_for(&format!("a node has started {version}"), limit, || {
            let started = |n: &&Rc<Node>| value(&n.read(&format!("{STATE}/started")), "version") == version;
            Ok(self.nodes.iter().find(started).cloned())
        })?;
        Ok(node)
    }

    /// The node that a member of a report is about.
    pub fn node(&self, member: &Value) -> Result<Rc<Node>, Failure> {
        let found = self.nodes.iter().find(|n| member["name"] == n.name.as_str());
        found.cloned().map_or_else(|| fail(format!("no node is named in {member}")), Ok)
    }

    /// Insists that the rollout told these nodes and no other, by its own report and by what is on the nodes:
    /// a node that was not told has never heard of the version.
    pub fn only_touched(&self, rollout: &str, version: &str, names: &[&str]) -> Done {
        let report = self.mesh.report(rollout)?;
        let told = report["nodes"].as_array().cloned().unwrap_or_default();
        let told: Vec<&str> = told.iter().filter_map(|n| n["name"].as_str()).collect();
        check(told == names, || format!("told were {told:?}, not {names:?}"))?;
        for node in self.nodes.iter().filter(|n| !names.contains(&n.name.as_str())) {
            let heard = node.sh(&format!(
                "grep -lF '{version}' {STATE}/declaration {STATE}/order {STATE}/refused {STATE}/started \
                 /var/log/dpkg.log 2>/dev/null || :; \
                 journalctl -q -u nox-mesh-host.service | grep -F '{version}' || :"
            ))?;
            check(heard.is_empty(), || {
                format!("{} was outside the wave and heard of {version}: {heard}", node.name)
            })?;
        }
        Ok(())
    }
}

/// The words of `rollout start` with windows that fit a test. An option that a test gives replaces ours.
pub fn start_words<'a>(version: &'a str, options: &[&'a str]) -> Vec<&'a str> {
    let mut words = vec!["rollout", "start", "--version", version];
    for pair in [["--window", "25s"], ["--confirm-deadline", "100s"], ["--soak", "1s"]] {
        if !options.contains(&pair[0]) {
            words.extend(pair);
        }
    }
    words.extend(options);
    words
}

impl Mesh {
    /// Joins a node that has the host installed, under its own name.
    pub fn join(&self, node: &Node) -> Done {
        let token = self.cli(&["token", "create"])?;
        let text = |key: &str| token.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (mesh, token, ca) = (self.url(), text("token"), text("ca"));
        let words = ["nox-mesh-host", "join", "--mesh", &mesh, "--token", &token, "--ca", &ca];
        let words = words.into_iter().chain(["--name", &node.name]);
        node.run(words)?.ok().map_err(|e| e.while_doing(format_args!("joining {}", node.name)))?;
        Ok(())
    }

    /// What the mesh says of a node.
    pub fn node(&self, name: &str) -> Result<Value, Failure> {
        let nodes = self.cli(&["nodes"])?;
        let all = nodes.as_array().cloned().unwrap_or_default();
        let found = all.into_iter().find(|n| n.get("name").and_then(Value::as_str) == Some(name));
        found.map_or_else(|| fail(format!("the mesh knows no node {name}")), Ok)
    }

    /// Waits until the mesh says something of a node.
    pub fn wait_node(
        &self,
        name: &str,
        what: &str,
        limit: Duration,
        mut holds: impl FnMut(&Value) -> bool,
    ) -> Result<Duration, Failure> {
        let mut last = Value::Null;
        let waited = wait_until(&format!("the mesh says of {name}: {what}"), limit, || {
            last = self.node(name)?;
            Ok(holds(&last))
        });
        waited.map_err(|failure| failure.while_doing(format_args!("the mesh last said {last}")))
    }

    /// The report of a rollout.
    pub fn report(&self, rollout: &str) -> Result<Value, Failure> {
        self.cli(&["rollout", "report", rollout])
    }
}
