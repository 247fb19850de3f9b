//! The mesh dies in the middle of a rollout of a bad version, and the nodes outside the canary never hear of
//! it: rule 9. Also a canary that goes silent, with nothing but its silence to tell.

use std::time::{Duration, Instant};

use crate::base::Base;
use crate::fleet::{Fleet, start_words};
use crate::package::Kind;
use crate::room::Lab;
use crate::scenarios::rollout::{OLD, refuses};
use crate::seed::Chance;
use crate::wait::{Done, check, secs, wait_until};

/// Between the storing of an order and its effect, each once.
const POINTS: [&str; 5] =
    ["rollout-stored", "order-before-put", "order-after-put", "claim-stored", "stop-stored"];
/// Kills at random moments.
const RANDOM_RUNS: u64 = 15;

/// Killed once at each of the named points.
pub fn at_points(lab: &Lab, base: Base) -> Done {
    let fleet = Fleet::new(lab, base, 3, OLD)?;
    for (n, point) in POINTS.iter().enumerate() {
        let version = format!("2.0.{n}");
        fleet.add_file(&lab.package(&version, Kind::Exit1)?)?;
        fleet.mesh.kill_9()?;
        fleet.mesh.start_paused_at(point)?;
        fleet.mesh.wait_answers()?;
        heard_again(&fleet)?;
        // The answer never comes when the mesh stands still before it: not waited for, not insisted on.
        let asked = fleet.mesh.ask_in_background(&start_words(&version, &[]));
        let paused = fleet.mesh.wait_paused(secs(60))?;
        lab.say(format!("{version}: standing still at {point} after {:.1} s", paused.as_secs_f64()));
        if point.starts_with("order-") {
            is_stored(&fleet, &version)?;
        }
        fleet.mesh.kill_9()?;
        let _ = asked.join();
        fleet.mesh.start()?;
        stops_at_one(lab, &fleet, &version)?;
    }
    Ok(())
}

/// Killed at random moments, one to three times a run.
pub fn at_random(lab: &Lab, base: Base) -> Done {
    let mut chance = Chance::new(lab)?;
    let fleet = Fleet::new(lab, base, 3, OLD)?;
    for n in 0..RANDOM_RUNS {
        let version = format!("3.0.{n}");
        fleet.add_file(&lab.package(&version, Kind::Exit1)?)?;
        heard_again(&fleet)?;
        fleet.start(&version, &[])?;
        let kills = 1 + chance.below(3);
        for _ in 0..kills {
            std::thread::sleep(Duration::from_millis(chance.below(4000)));
            fleet.mesh.restart()?;
        }
        lab.say(format!("{version}: killed {kills} times"));
        stops_at_one(lab, &fleet, &version)?;
    }
    Ok(())
}

/// The link of the canary is cut after it received the order and before it can tell anything: the stop
/// comes from silence alone, and the report says so.
pub fn c67_silence(lab: &Lab, base: Base) -> Done {
    let fleet = Fleet::new(lab, base, 3, OLD)?;
    fleet.add_file(&lab.package("2.0.0", Kind::Exit1)?)?;
    let rollout = fleet.start("2.0.0", &["--window", "12s"])?;
    let canary = fleet.first_start_of("2.0.0", secs(30))?;
    canary.cut_link()?;
    let cut = Instant::now();
    let state = fleet.ended(&rollout, secs(60))?;
    lab.say(format!("{state} {:.1} s after the cut", cut.elapsed().as_secs_f64()));
    let report = fleet.mesh.report(&rollout)?;
    check(state == "stopped" && report["stopped_because"]["kind"] == "silence", || {
        format!("it was to stop because of silence: {report:#}")
    })?;
    let text = fleet.mesh.cli_output(&["rollout", "report", &rollout])?;
    lab.say(text.text());
    let wrong = text.text().contains("rolled back on") || !text.text().contains("silen");
    check(!wrong, || "the report for people does not say that it was silence".into())?;
    fleet.only_touched(&rollout, "2.0.0", &[&canary.name])?;
    // The node did its part meanwhile, alone; a later word changes the list and not the decision (C67).
    canary.wait_until("1.0.0 is back without any mesh", secs(20), || canary.runs("1.0.0"))?;
    canary.restore_link()?;
    fleet.mesh.wait_node(&canary.name, "heard again, refusing 2.0.0", secs(40), |n| {
        n["presence"] == "heard" && n["version"] == "1.0.0" && refuses(n, "2.0.0")
    })?;
    check(fleet.state(&rollout)? == "stopped", || "a stopped rollout went on".into())
}

/// Waits until every node was heard since the mesh was started: eligible again.
fn heard_again(fleet: &Fleet) -> Done {
    for node in &fleet.nodes {
        fleet.mesh.wait_node(&node.name, "heard, armed, on 1.0.0", secs(30), |n| {
            n["presence"] == "heard"
                && n["armed"] == true
                && n["confirmed"] == true
                && n["version"] == "1.0.0"
        })?;
    }
    Ok(())
}

/// An order that is about to be given stands in the stored rollout already: after a kill a fresh draw could
/// choose another canary beside the first. Asked of the mesh while it stands still, so of its store.
fn is_stored(fleet: &Fleet, version: &str) -> Done {
    let all = fleet.mesh.cli(&["rollout", "status"])?;
    let all = all.as_array().cloned().unwrap_or_default();
    let told = all.iter().find(|r| r["version"] == version).map(|r| r["waves"][0]["nodes"].clone());
    let count = told.as_ref().and_then(|nodes| nodes.as_array()).map_or(0, Vec::len);
    check(count == 1, || {
        format!("an order of {version} was given that is not in the stored rollout: {told:?}")
    })
}

/// The newest rollout of this version stops, and one canary is all that it touched.
fn stops_at_one(lab: &Lab, fleet: &Fleet, version: &str) -> Done {
    let mut id = String::new();
    wait_until(&format!("the rollout of {version} has stopped"), secs(90), || {
        let all = fleet.mesh.cli(&["rollout", "status"])?;
        let all = all.as_array().cloned().unwrap_or_default();
        let Some(ours) = all.into_iter().find(|r| r["version"] == version) else { return Ok(false) };
        id = ours["id"].as_str().unwrap_or_default().to_owned();
        Ok(ours["state"] == "stopped")
    })?;
    let report = fleet.mesh.report(&id)?;
    let told = report["nodes"].as_array().cloned().unwrap_or_default();
    let names: Vec<&str> = told.iter().filter_map(|n| n["name"].as_str()).collect();
    check(names.len() == 1, || format!("{version} was told to {names:?}: {report:#}"))?;
    fleet.only_touched(&id, version, &names)?;
    let why = &report["stopped_because"];
    lab.say(format!("{version}: {names:?}, {}", why["text"]));
    check(why["kind"] == "rolled_back", || format!("{version} stopped for another reason: {report:#}"))?;
    let log = told[0]["evidence"]["log"].to_string();
    check(log.contains("cannot go on"), || {
        format!("the last words of {version} are not in the report: {log}")
    })
}
