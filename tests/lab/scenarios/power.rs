//! Power cuts in the middle of a rollback: the node must still end on the confirmed version.

use std::time::{Duration, Instant};

use crate::base::Base;
use crate::facts::STATE;
use crate::package::Kind;
use crate::room::Lab;
use crate::scenarios::upgrade::order;
use crate::seed::Chance;
use crate::wait::{Done, check, fail, secs, stays};

const ROUNDS: u32 = 8;

/// Cuts at several instants after the rollback has begun, the same ones for the same seed.
pub fn mid_rollback(lab: &Lab, base: Base) -> Done {
    let mut chance = Chance::new(lab)?;
    let node = lab.node("p1", base)?;
    node.boot()?;
    lab.install_confirmed(&node, "1.0.0")?;
    for round in 1..=ROUNDS {
        // The package manager works from about 80 to 300 ms after the record, where most cuts shall fall;
        // the first comes at the very record.
        let delay = Duration::from_millis(if round == 1 { 0 } else { chance.below(400) });
        let before = node.rollbacks().len();
        node.forget_starts()?;
        let version = format!("1.{round}.0");
        node.install_deb(&lab.package(&version, Kind::Exit1)?)?.ok()?;
        wait_for_record(&node, before)?;
        std::thread::sleep(delay);
        node.power_cut()?;
        let last = node.rollbacks().pop();
        let state = last.as_ref().map_or("none", |r| r.get("state")).to_owned();
        let (ms, on_disk) = (delay.as_millis(), node.installed());
        lab.say(format!("{version}: cut {ms} ms after the record; state {state}, '{on_disk}' on the disk"));
        node.boot()?;
        let took = node.wait_until("1.0.0 is back after the cut", secs(60), || node.runs("1.0.0"))?;
        lab.say(format!("{version}: 1.0.0 back {:.1} s after the boot", took.as_secs_f64()));
        stays("1.0.0 runs", secs(3), || node.runs("1.0.0"))?;
        // Not only the version: the record too must come to its end, or the mesh hears of it for ever.
        node.wait_until("the record is complete", secs(30), || {
            Ok(node.rollbacks().last().is_some_and(|r| r.get("state") == "rolled-back"))
        })?;
        let records = node.rollbacks();
        check(records.iter().all(|r| !r.get("id").is_empty()), || format!("a torn record: {records:?}"))?;
        check(node.known_good() == "1.0.0", || "known-good has changed".into())?;
    }
    Ok(())
}

/// C61: cuts in the middle of an upgrade. Whatever the instant, after the boot the package is whole under
/// the host that runs, and what is installed is what runs.
pub fn mid_upgrade(lab: &Lab, base: Base) -> Done {
    let mut chance = Chance::new(lab)?;
    let node = lab.node("p2", base)?;
    node.boot()?;
    lab.install_confirmed(&node, "1.0.0")?;
    for round in 1..=5 {
        let version = format!("1.{round}.0");
        node.retain(&lab.package(&version, Kind::Good)?)?;
        order(&node, &version)?;
        node.sh(&format!("rm -f {STATE}/result; /usr/lib/nox-mesh-host/install start"))?;
        let delay = Duration::from_millis(150 + chance.below(600));
        std::thread::sleep(delay);
        node.power_cut()?;
        node.boot()?;
        node.wait_until("the package is whole", secs(60), || Ok(node.dpkg()?.starts_with("installed ")))?;
        let installed = node.installed();
        node.wait_until("what is installed runs", secs(20), || node.runs(&installed))?;
        lab.say(format!("{version}: cut after {} ms: {installed} runs", delay.as_millis()));
    }
    check(node.rollbacks().is_empty(), || "a rollback was recorded".into())
}

// Looked for on the disk and without a pause, as the cut must come early.
fn wait_for_record(node: &crate::node::Node, before: usize) -> Done {
    let started = Instant::now();
    while node.rollbacks().len() <= before {
        if started.elapsed() > secs(20) {
            return fail("waited 20 s in vain for the record of a rollback");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}
