//! Nodes that belong to a mesh: joining, and what the mesh says of them.
#![allow(dead_code)] // for the scenarios with a real host

use std::time::Duration;

use serde_json::Value;

use crate::mesh::Mesh;
use crate::node::Node;
use crate::wait::{Done, Failure, fail, wait_until};

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
        wait_until(&format!("the mesh says of {name}: {what}"), limit, || Ok(holds(&self.node(name)?)))
    }

    /// The report of a rollout.
    pub fn report(&self, rollout: &str) -> Result<Value, Failure> {
        self.cli(&["rollout", "report", rollout])
    }
}
