//! A confirmed version, then a broken one over it: the confirmed one must come back, whatever is broken.

use std::time::Duration;
use std::time::Instant;

use crate::base::Base;
use crate::facts::{HOST, Record};
use crate::node::Node;
use crate::package::Kind;
use crate::room::Lab;
use crate::wait::{Done, Failure, check, secs, stays};

const OLD: &str = "1.0.0";
const NEW: &str = "1.1.0";

/// A broken version is off the machine within this time. One that hangs takes two start and stop timeouts.
const LIMIT: Duration = Duration::from_secs(15);
const HANG_LIMIT: Duration = Duration::from_secs(60);

pub fn exit1(lab: &Lab, base: Base) -> Done {
    let record = recovers(lab, base, Kind::Exit1, LIMIT)?;
    let log = record.log();
    check(log.iter().any(|l| l.contains("last words: cannot go on")), || {
        format!("the last log line of the failed version is not in the record: {log:?}")
    })?;
    record.insist("status", "1")
}

pub fn exit0(lab: &Lab, base: Base) -> Done {
    recovers(lab, base, Kind::Exit0, LIMIT).map(|_| ())
}

pub fn hang(lab: &Lab, base: Base) -> Done {
    recovers(lab, base, Kind::Hang, HANG_LIMIT)?.insist("result", "timeout")
}

pub fn garbage(lab: &Lab, base: Base) -> Done {
    recovers(lab, base, Kind::Garbage, LIMIT).map(|_| ())
}

pub fn other_architecture(lab: &Lab, base: Base) -> Done {
    recovers(lab, base, Kind::OtherArchitecture, LIMIT).map(|_| ())
}

/// E9.
pub fn missing(lab: &Lab, base: Base) -> Done {
    recovers(lab, base, Kind::Missing, LIMIT).map(|_| ())
}

/// C05, E4: the start limit alone never sees it; the count on disk does.
pub fn slow_crash(lab: &Lab, base: Base) -> Done {
    recovers(lab, base, Kind::SlowCrash(41), secs(150)).map(|_| ())
}

/// C15: alive and READY, but stuck: the watchdog ends it, twice.
pub fn freeze(lab: &Lab, base: Base) -> Done {
    recovers(lab, base, Kind::Freeze, secs(100)).map(|_| ())
}

/// C01, E1: one crash that heals itself is no rollback, on no version of the service manager.
pub fn c01_heals(lab: &Lab, base: Base) -> Done {
    let node = ready(lab, base)?;
    node.install_deb(&lab.package(NEW, Kind::Heals)?)?.ok()?;
    let took = node.wait_until("1.1.0 has healed and confirmed itself", secs(20), || {
        Ok(node.runs(NEW)? && node.known_good() == NEW)
    })?;
    lab.say(format!("healed after {:.1} s", took.as_secs_f64()));
    let restarts = node.property(HOST, "NRestarts")?;
    check(restarts == "1", || format!("it was to crash once, and was restarted {restarts} times"))?;
    stays("1.1.0 runs", secs(5), || node.runs(NEW))?;
    let (records, starts) = (node.rollbacks().len(), node.rollback_unit_starts()?);
    check(records == 0, || format!("{records} records of a rollback for one crash"))?;
    check(starts == 0, || format!("the rollback unit ran {starts} times for one crash"))
}

/// A node with a confirmed version and no starts counted.
pub fn ready(lab: &Lab, base: Base) -> Result<std::rc::Rc<Node>, Failure> {
    let node = lab.node("b1", base)?;
    node.boot()?;
    lab.install_confirmed(&node, OLD)?;
    node.forget_starts()?;
    Ok(node)
}

fn recovers(lab: &Lab, base: Base, kind: Kind, limit: Duration) -> Result<Record, Failure> {
    let node = ready(lab, base)?;
    let deb = lab.package(NEW, kind)?;
    // From before the installation, so the figure is never better than what a person would see.
    let started = Instant::now();
    node.install_deb(&deb)?.ok().map_err(|e| e.while_doing("dpkg -i of a broken version"))?;
    lab.say(format!("{NEW} ({kind:?}) installed after {:.1} s", started.elapsed().as_secs_f64()));
    // Taken while 1.1.0 is there: a start that fails must leave dpkg's own state whole (C54).
    let dpkg = node.dpkg()?;
    check(dpkg.starts_with("installed "), || format!("dpkg says '{dpkg}' after the installation"))?;
    let rest = limit.saturating_sub(started.elapsed());
    node.wait_until("1.0.0 is back and active", rest, || node.runs(OLD))?;
    lab.say(format!("{OLD} back after {:.1} s", started.elapsed().as_secs_f64()));
    node.wait_until("the record is complete", secs(10), || {
        Ok(node.rollbacks().last().is_some_and(|r| r.get("state") == "rolled-back"))
    })?;
    check(node.known_good() == OLD, || format!("known-good is now {}", node.known_good()))?;
    stays("1.0.0 runs", secs(4), || node.runs(OLD))?;
    let mut records = node.rollbacks();
    check(records.len() == 1, || format!("not one record but {}", records.len()))?;
    let Some(record) = records.pop() else {
        return Err(Failure::new("no record"));
    };
    record.insist("from", NEW)?;
    record.insist("to", OLD)?;
    record.insist("id", "1")?;
    lab.say(format!("the record: {record:?}"));
    Ok(record)
}
