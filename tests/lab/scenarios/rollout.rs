//! The product's main job, end to end: real hosts on real nodes, a real mesh, rollouts that pass and
//! rollouts that stop.

use serde_json::Value;

use crate::base::Base;
use crate::command::Run;
use crate::fleet::Fleet;
use crate::hosts::Host;
use crate::node::Node;
use crate::package::Kind;
use crate::room::Lab;
use crate::wait::{Done, check, secs, stays};

pub const OLD: Host = Host::good("1.0.0");
pub const GOOD: Host = Host::good("1.1.0");
pub const EXITS: Host = Host::broken("1.2.0", "exit-at-start");
pub const PANICS: Host = Host::broken("1.2.0", "panic-in-reconcile");
pub const HANGS: Host = Host::broken("1.2.0", "hang-at-start");
pub const NEXT: Host = Host::good("1.3.0");

/// Good to all, broken to one, and the next good one to all: the story that the README tells. The broken one
/// panics in its first reconcile. E11, C17: what was rolled back is not taken again; the next one is.
pub fn e11_story(lab: &Lab, base: Base) -> Done {
    let fleet = Fleet::new(lab, base, 3, OLD)?;
    fleet.carry_out(lab, GOOD)?;
    for node in &fleet.nodes {
        check(node.runs("1.1.0")?, || format!("{} does not run 1.1.0", node.name))?;
    }
    let canary = stops_at_the_canary(lab, &fleet, PANICS, "1.1.0", secs(15))?;
    let log = canary["evidence"]["log"].to_string();
    check(log.contains("fault: panic-in-reconcile"), || format!("the panic is not in the log lines: {log}"))?;
    fleet.carry_out(lab, NEXT)?;
    for node in &fleet.nodes {
        check(node.runs("1.3.0")?, || format!("{} did not take the next version", node.name))?;
    }
    Ok(())
}

/// Exits 1 at once.
pub fn exits(lab: &Lab, base: Base) -> Done {
    let fleet = Fleet::new(lab, base, 2, OLD)?;
    let canary = stops_at_the_canary(lab, &fleet, EXITS, "1.0.0", secs(15))?;
    let evidence = &canary["evidence"];
    check(evidence["status"] == "1", || format!("the exit status is not in the report: {evidence}"))?;
    // Refused on this node until somebody asks again, also across a boot.
    let node = fleet.node(&canary)?;
    node.reboot()?;
    node.wait_until("1.0.0 runs after the boot", secs(20), || node.runs("1.0.0"))?;
    stays("1.0.0 runs", secs(4), || node.runs("1.0.0"))?;
    let said = fleet.mesh.node(&node.name)?;
    check(refuses(&said, "1.2.0"), || format!("after a boot 1.2.0 is not refused any more: {said}"))
}

/// Hangs at its start: over within three start timeouts.
pub fn hangs(lab: &Lab, base: Base) -> Done {
    let fleet = Fleet::new(lab, base, 2, OLD)?;
    let canary = stops_at_the_canary(lab, &fleet, HANGS, "1.0.0", secs(60))?;
    let result = &canary["evidence"]["result"];
    check(result == "timeout", || format!("the report does not say that it hung: {result}"))
}

/// Rolls a broken version out: one canary takes it, falls back, is heard, and nobody else hears of it.
/// Returns the canary's part of the report.
fn stops_at_the_canary(
    lab: &Lab,
    fleet: &Fleet,
    broken: Host,
    back: &str,
    limit: std::time::Duration,
) -> Result<Value, crate::wait::Failure> {
    fleet.add(lab, broken)?;
    let rollout = fleet.start(broken.version, &["--window", "80s"])?;
    let canary = fleet.first_start_of(broken.version, secs(40))?;
    // From here on the clock runs: the broken version's first start.
    let took = fleet.mesh.wait_node(&canary.name, "back and confirmed, and what it refuses", limit, |n| {
        n["version"] == back && n["confirmed"] == true && n["armed"] == true && refuses(n, broken.version)
    })?;
    lab.say(format!(
        "{} back on {back} and heard {:.1} s after the first start",
        canary.name,
        took.as_secs_f64()
    ));
    check(canary.runs(back)?, || format!("{} does not run {back}", canary.name))?;
    let state = fleet.ended(&rollout, secs(20))?;
    check(state == "stopped", || format!("the rollout of a broken version is {state}"))?;
    let report = fleet.mesh.report(&rollout)?;
    check(report["stopped_because"]["kind"] == "rolled_back", || {
        format!("stopped for another reason: {report:#}")
    })?;
    fleet.only_touched(&rollout, broken.version, &[&canary.name])?;
    let member = report["nodes"].as_array().and_then(|nodes| nodes.first()).cloned().unwrap_or_default();
    let evidence = &member["evidence"];
    let whole = report["version"] == broken.version
        && member["name"] == canary.name.as_str()
        && evidence["from"] == broken.version
        && evidence["to"] == back
        && !evidence["result"].is_null()
        && evidence["log"].as_array().is_some_and(|log| !log.is_empty());
    check(whole, || format!("the report lacks version, node or evidence: {report:#}"))?;
    let text = fleet.mesh.cli_output(&["rollout", "report", &rollout])?;
    lab.say(text.text());
    for word in [broken.version, &canary.name, "fault: "] {
        check(text.text().contains(word), || format!("the report for people does not say '{word}'"))?;
    }
    Ok(member)
}

/// What a broken package does when it arrives by hand: the same, and the mesh hears of it.
pub fn by_hand(lab: &Lab, base: Base) -> Done {
    let fleet = Fleet::new(lab, base, 1, OLD)?;
    let Some(node) = fleet.nodes.first() else { return Ok(()) };
    let kinds = [("2.0.1", Kind::Garbage), ("2.0.2", Kind::OtherArchitecture), ("2.0.3", Kind::Missing)];
    for (version, kind) in kinds {
        node.install_deb(&lab.package(version, kind)?)?.ok()?;
        let took = fleet.mesh.wait_node(&node.name, "back, confirmed, refusing", secs(15), |n| {
            n["version"] == "1.0.0" && n["confirmed"] == true && n["armed"] == true && refuses(n, version)
        })?;
        lab.say(format!("{version} ({kind:?}): back and heard after {:.1} s", took.as_secs_f64()));
        check(node.runs("1.0.0")?, || "1.0.0 does not run".into())?;
    }
    // Once means once per event: the same bad version by hand again is rolled back again.
    node.install_deb(&lab.package("2.0.2", Kind::OtherArchitecture)?)?.ok()?;
    node.wait_until("1.0.0 is back after the same bad version again", secs(15), || {
        Ok(node.rollbacks().len() == 4 && node.runs("1.0.0")?)
    })?;
    Ok(())
}

/// The same packages by a rollout: refused by the node before anything is touched.
pub fn preflight(lab: &Lab, base: Base) -> Done {
    let fleet = Fleet::new(lab, base, 2, OLD)?;
    let kinds = [("2.0.1", Kind::Garbage), ("2.0.2", Kind::OtherArchitecture), ("2.0.3", Kind::Missing)];
    for (version, kind) in kinds {
        fleet.add_file(&lab.package(version, kind)?)?;
        let rollout = fleet.start(version, &[])?;
        let state = fleet.ended(&rollout, secs(40))?;
        let report = fleet.mesh.report(&rollout)?;
        check(state == "stopped" && report["stopped_because"]["kind"] == "install_failed", || {
            format!("{version} ({kind:?}) was not refused as a broken package: {report:#}")
        })?;
        lab.say(report["stopped_because"]["text"].to_string());
        for node in &fleet.nodes {
            check(node.runs("1.0.0")?, || format!("{} does not run 1.0.0", node.name))?;
            check(node.rollbacks().is_empty(), || format!("{} had to roll back", node.name))?;
            let log = node.sh("grep -F ' 2.0.' /var/log/dpkg.log || :")?;
            check(log.is_empty(), || format!("dpkg touched it on {}: {log}", node.name))?;
        }
    }
    Ok(())
}

/// A node freshly installed by `dpkg -i` becomes armed by itself, before any upgrade.
pub fn arms_itself(lab: &Lab, base: Base) -> Done {
    let fleet = Fleet::joined(lab, base, 1, OLD)?;
    let Some(node) = fleet.nodes.first() else { return Ok(()) };
    fleet.mesh.wait_node(&node.name, "confirmed, and says why it is not armed", secs(20), |n| {
        n["confirmed"] == true && n["armed"] == false && n["armed_reason"].is_string()
    })?;
    let retained = node.sh("ls /var/lib/mesh-host/packages")?;
    check(retained.is_empty(), || format!("it was to have no package yet: {retained}"))?;
    let remarks = fleet.mesh.node(&node.name)?["remarks"].to_string();
    check(remarks.contains("package add nox-mesh-host_1.0.0_amd64.deb"), || {
        format!("the mesh does not say which package its store lacks: {remarks}")
    })?;
    // C25, C58: not armed, so left out of a rollout, with the reason.
    fleet.add(lab, GOOD)?;
    let rollout = fleet.start("1.1.0", &[])?;
    stays("the node is left out", secs(4), || node.runs("1.0.0"))?;
    let report = fleet.mesh.report(&rollout)?;
    check(report["state"] == "waiting", || format!("the rollout does not wait: {report:#}"))?;
    fleet.mesh.cli(&["rollout", "stop", &rollout])?;
    fleet.add(lab, OLD)?;
    fleet.mesh.wait_node(&node.name, "armed", secs(20), |n| n["armed"] == true)?;
    let retained = node.sh("cd /var/lib/mesh-host/packages && sha256sum -c *.sha256")?;
    check(retained.contains("nox-mesh-host_1.0.0_amd64.deb: OK"), || format!("not retained: {retained}"))?;
    check(node.rollbacks().is_empty() && node.runs("1.0.0")?, || "something else happened to it".into())
}

/// Nothing listens, two threads, static, no async runtime in it; files and folders are made and taken away.
pub fn the_host_itself(lab: &Lab, base: Base) -> Done {
    let fleet = Fleet::new(lab, base, 1, OLD)?;
    let Some(node) = fleet.nodes.first() else { return Ok(()) };
    let pid = node.property("nox-mesh-host.service", "MainPID")?;
    // Asked outside: the node has no such tool.
    let kind = Run::new(["file", "--brief"]).arg(node.place("/usr/bin/nox-mesh-host")).ok()?.out;
    check(kind.contains("static-pie linked") && kind.contains("stripped"), || format!("the host is {kind}"))?;
    // Internet sockets of any kind, and Unix ones that listen: its notify socket has no address.
    let ours = "grep -F nox-mesh-host || :";
    let inet = node.sh(&format!("ss -H --listening --tcp --udp --raw --processes | {ours}"))?;
    let unix = node.sh(&format!("ss -H --listening --unix --processes | grep -F LISTEN | {ours}"))?;
    check(inet.is_empty() && unix.is_empty(), || format!("the host listens: {inet} {unix}"))?;
    let status = node.sh(&format!("cat /proc/{pid}/status"))?;
    let threads =
        status.lines().find_map(|l| l.strip_prefix("Threads:")).unwrap_or_default().trim().to_owned();
    check(threads == "2", || format!("the host has {threads} threads"))?;
    resources(&fleet, node)?;
    let threads = node.sh(&format!("ls /proc/{pid}/task | wc -l"))?;
    check(threads.trim() == "2", || format!("the host has {threads} threads after work"))?;
    let memory = node.sh(&format!("grep ^Pss: /proc/{pid}/smaps_rollup"))?;
    lab.say(format!("memory of the host: {memory}"));
    Ok(())
}

fn resources(fleet: &Fleet, node: &Node) -> Done {
    let file = |text: &str| format!("[[resource]]\nkind = \"file\"\nname = \"/etc/app/conf\"\n{text}\n");
    let folder = "[[resource]]\nkind = \"directory\"\nname = \"/etc/app\"\nmode = \"0750\"\n";
    fleet.declare(&format!("{folder}{}", file("content = \"one\\n\"\nmode = \"0640\"")))?;
    node.wait_until("the file is there", secs(10), || Ok(node.read("/etc/app/conf") == "one\n"))?;
    let modes = node.sh("stat --format=%a /etc/app /etc/app/conf")?;
    check(modes.split_whitespace().eq(["750", "640"]), || format!("modes are {modes}"))?;
    fleet.declare(&format!("{folder}{}", file("content = \"two\\n\"")))?;
    node.wait_until("the file is changed", secs(10), || Ok(node.read("/etc/app/conf") == "two\n"))?;
    fleet.declare("")?;
    node.wait_until("what was made is taken away", secs(10), || Ok(!node.has("/etc/app")))?;
    Ok(())
}

/// Whether the mesh says that a node refuses a version.
pub fn refuses(node: &Value, version: &str) -> bool {
    node["refused"].as_array().is_some_and(|all| all.iter().any(|r| r["version"] == version))
}
