//! `make demo`: three real nodes and a mesh; a good version reaches all, a broken one reaches one, is taken
//! back there by the shell script, stops the rollout, and is explained. Told as it happens.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::time::Duration;

use crate::base::Base;
use crate::facts::STATE;
use crate::fleet::{Fleet, start_words};
use crate::node::Node;
use crate::room::Lab;
use crate::scenarios::rollout::{GOOD, OLD, PANICS};
use crate::wait::{Done, Failure, check, secs, wait_until};

/// What of a node's journal tells the story; the rest is detail.
const TOLD: [&str; 9] = [
    "confirmed: it got through",
    "start-guard:",
    "rollback:",
    "install:",
    "panicked at",
    "fault:",
    "Main process exited",
    "repeated too quickly",
    "Triggering OnFailure",
];

/// The whole of it.
pub fn demo(lab: &Lab, base: Base) -> Done {
    chapter("A mesh and three machines. Each boots its own systemd; the host 1.0.0 is installed by dpkg.");
    let fleet = Fleet::joined(lab, base, 3, OLD)?;
    lab.say("joined. The mesh has no package of 1.0.0 yet, so no node could go back to it: not armed.");
    table(&fleet)?;
    fleet.add(lab, OLD)?;
    for node in &fleet.nodes {
        fleet
            .mesh
            .wait_node(&node.name, "armed", secs(30), |n| n["armed"] == true && n["confirmed"] == true)?;
    }
    lab.say("package 1.0.0 added to the mesh; each node fetched and kept it: armed.");
    table(&fleet)?;

    chapter("A good version: 1.1.0. One node first, then the others in waves.");
    fleet.add(lab, GOOD)?;
    follow(lab, &fleet, "1.1.0")?;
    for node in &fleet.nodes {
        check(node.runs("1.1.0")?, || format!("{} does not run 1.1.0", node.name))?;
    }
    table(&fleet)?;

    chapter("A broken version: 1.2.0. It panics in its first reconcile, on every machine that starts it.");
    fleet.add(lab, PANICS)?;
    let rollout = follow(lab, &fleet, "1.2.0")?;
    let report = fleet.mesh.report(&rollout)?;
    check(report["state"] == "stopped", || format!("the rollout is {}", report["state"]))?;
    for node in &fleet.nodes {
        node.wait_until("1.1.0 runs", secs(20), || node.runs("1.1.0"))?;
        let known_good = node.read(&format!("{STATE}/known-good"));
        lab.say(format!("{}: runs 1.1.0, known-good says {}", node.name, known_good.trim()));
    }

    chapter("What the operator is told: nox-mesh rollout report");
    println!("{}", fleet.mesh.cli_output(&["rollout", "report", &rollout])?.text());
    table(&fleet)?;
    chapter("One machine was down for some seconds. The others never heard of 1.2.0.");
    Ok(())
}

fn chapter(text: &str) {
    println!("\n=== {text}\n");
}

fn table(fleet: &Fleet) -> Done {
    println!("$ nox-mesh nodes\n{}\n", fleet.mesh.cli_output(&["nodes"])?.text());
    Ok(())
}

/// Starts a rollout and tells what the mesh and the nodes say until it ends. Returns its id.
fn follow(lab: &Lab, fleet: &Fleet, version: &str) -> Result<String, Failure> {
    for node in &fleet.nodes {
        // From here on: what was before has been told.
        news(node)?;
    }
    let words = start_words(version, &["--window", "60s"]);
    println!("$ nox-mesh {}", words.join(" "));
    let answer = fleet.mesh.cli(&words)?;
    let rollout = answer["id"].as_str().unwrap_or_default().to_owned();
    println!("$ nox-mesh rollout watch {rollout}");
    let mut watch = fleet.mesh.watch(&rollout)?;
    let reader = relay(&mut watch);
    wait_until("the rollout has ended", secs(180), || {
        for node in &fleet.nodes {
            for line in news(node)?.lines().filter(|line| TOLD.iter().any(|told| line.contains(told))) {
                lab.say(format!("{:>5} | {line}", node.name));
            }
        }
        std::thread::sleep(Duration::from_millis(300));
        Ok(watch.try_wait()?.is_some())
    })?;
    let _ = reader.map(std::thread::JoinHandle::join);
    Ok(rollout)
}

/// The lines of the node's journal that were not asked for before.
fn news(node: &Node) -> Result<String, Failure> {
    node.sh("journalctl --quiet --cursor-file=/run/demo.cursor --output=cat --unit=nox-mesh-host.service \
         --unit=nox-mesh-host-rollback.service --unit=nox-mesh-host-install.service")
}

fn relay(watch: &mut Child) -> Option<std::thread::JoinHandle<()>> {
    let lines = BufReader::new(watch.stdout.take()?).lines();
    Some(std::thread::spawn(move || {
        lines.map_while(Result::ok).for_each(|line| println!("           mesh | {line}"))
    }))
}

impl crate::mesh::Mesh {
    /// `nox-mesh rollout watch`, its output in a pipe.
    fn watch(&self, rollout: &str) -> Result<Child, Failure> {
        let mut command = self.command(&["rollout", "watch", rollout]);
        Ok(command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?)
    }
}
