//! The product's main job, end to end: real hosts on real nodes, a real mesh, rollouts that pass and
//! rollouts that stop.

use std::rc::Rc;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::base::Base;
use crate::hosts::Host;
use crate::mesh::Mesh;
use crate::node::Node;
use crate::room::Lab;
use crate::wait::{Done, Failure, check, secs, wait_until};

pub const OLD: Host = Host::good("1.0.0");
pub const GOOD: Host = Host::good("1.1.0");
pub const PANICS: Host = Host::broken("1.2.0", "panic-in-reconcile");
pub const NEXT: Host = Host::good("1.3.0");

/// Good to all, broken to one, and the next good one to all: the story that the README tells.
pub fn story(lab: &Lab, base: Base) -> Done {
    let fleet = Fleet::new(lab, base, 3)?;
    fleet.add(lab, GOOD)?;
    let rollout = fleet.start("1.1.0", &[])?;
    let state = fleet.ended(&rollout, secs(90))?;
    check(state == "complete", || format!("the good version ended {state}"))?;
    for node in &fleet.nodes {
        check(node.runs("1.1.0")?, || format!("{} does not run 1.1.0", node.name))?;
    }
    fleet.add(lab, PANICS)?;
    let rollout = fleet.start("1.2.0", &[])?;
    let state = fleet.ended(&rollout, secs(90))?;
    check(state == "stopped", || format!("the broken version ended {state}"))?;
    let report = fleet.mesh.report(&rollout)?;
    lab.say(format!("{report:#}"));
    Ok(())
}

/// A mesh and nodes that belong to it, armed on [`OLD`].
pub struct Fleet {
    pub mesh: Rc<Mesh>,
    pub nodes: Vec<Rc<Node>>,
}

impl Fleet {
    pub fn new(lab: &Lab, base: Base, count: u8) -> Result<Fleet, Failure> {
        let mesh = lab.mesh()?;
        mesh.options(&["--heartbeat", "1s"]);
        mesh.start()?;
        let nodes = lab.nodes("n", count, base)?;
        let fleet = Fleet { mesh, nodes };
        fleet.add(lab, OLD)?;
        let package = lab.host_package(OLD)?;
        for node in &fleet.nodes {
            node.install_deb(&package)?.ok()?;
            fleet.mesh.join(node)?;
        }
        for node in &fleet.nodes {
            fleet.mesh.wait_node(&node.name, "armed on 1.0.0", secs(20), |n| {
                n["armed"] == true && n["confirmed"] == true && n["version"] == "1.0.0"
            })?;
        }
        Ok(fleet)
    }

    pub fn add(&self, lab: &Lab, host: Host) -> Done {
        let package = lab.host_package(host)?;
        self.mesh.cli(&["package", "add", &package.to_string_lossy()])?;
        Ok(())
    }

    /// Starts a rollout with windows that fit a test.
    pub fn start(&self, version: &str, options: &[&str]) -> Result<String, Failure> {
        let words =
            ["rollout", "start", "--version", version, "--window", "25s", "--confirm-deadline", "100s"];
        let words = words.into_iter().chain(["--soak", "1s"]).chain(options.iter().copied());
        let words: Vec<&str> = words.collect();
        let answer = self.mesh.cli(&words)?;
        answer["id"].as_str().map(str::to_owned).ok_or_else(|| Failure::new("rollout start gave no id"))
    }

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
}

#[allow(dead_code)]
fn unused(_: Instant, _: Value) {}
