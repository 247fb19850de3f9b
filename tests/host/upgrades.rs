//! Armed, ordered, installed, refused, held: the host's part of a rollout.

use crate::world::{Machine, Mesh, Process, RUNNING, store, until};
use std::time::Duration;

/// A joined machine whose running version is confirmed and armed, and the resource for `target`.
pub fn armed(name: &str) -> (Mesh, Machine, String) {
    let (mesh, machine) = (Mesh::start(), Machine::new(name));
    machine.join(&mesh);
    let own = machine.build_package(RUNNING, "");
    let retain = store(&mesh, RUNNING, &own);
    (mesh, machine, retain)
}

pub fn ordering(retain: &str, package: &str, attempt: u64) -> String {
    format!(
        r#"{{"kind":"host","name":"host","retain":{retain},
            "target":{{"rollout":"r-1","attempt":{attempt},"package":{package}}}}}"#
    )
}

pub fn calls(machine: &Machine, verb: &str) -> usize {
    let calls = machine.read("usr/lib/nox-mesh-host/calls").unwrap_or_default();
    calls.lines().filter(|line| *line == verb).count()
}

pub fn state_of(mesh: &Mesh, state: &str) -> nox_mesh::wire::heartbeat::OrderState {
    let heartbeat = mesh.hears(state, |h| h.order.as_ref().is_some_and(|order| order.state == state));
    heartbeat.order.unwrap()
}

#[test]
fn an_armed_node_fetches_claims_installs_and_ends_cleanly() {
    let (mesh, machine, retain) = armed("installs");
    machine.put("usr/lib/nox-mesh-host/install.result", "status=installed\nclass=none\nreason=none\n");
    let candidate = machine.build_package("9.0.0", "nox-mesh-host 9.0.0");
    let package = store(&mesh, "9.0.0", &candidate);
    mesh.desk().cut_at = Some(100);
    mesh.declare(1, &ordering(&retain, &package, 3));
    let mut process = machine.run();
    assert!(process.ended().success());
    let desk = mesh.desk();
    assert!(desk.ranges.contains(&"bytes=100-".to_owned()), "resumed: {:?}", desk.ranges);
    assert_eq!(desk.claims.len(), 1);
    let states: Vec<_> =
        desk.heartbeats.iter().filter_map(|h| h.order.as_ref()).map(|o| o.state.as_str()).collect();
    assert!(states.contains(&"installing"), "{states:?}");
    assert_eq!(desk.heartbeats.last().unwrap().goodbye.as_deref(), Some("upgrade"));
    drop(desk);
    let order = std::fs::read_to_string(machine.state("order")).unwrap();
    assert!(order.contains("version=9.0.0\nrollout=r-1\nattempt=3\npackage=nox-mesh-host_9.0.0_amd64.deb\n"));
    let sum =
        std::fs::read_to_string(machine.state("packages/nox-mesh-host_9.0.0_amd64.deb.sha256")).unwrap();
    assert!(sum.ends_with("  nox-mesh-host_9.0.0_amd64.deb\n"));
    assert!(!machine.state("preflight").exists());
}

#[test]
fn c37_a_version_put_back_by_hand_is_held_until_a_newer_attempt() {
    let (mesh, machine, retain) = armed("held");
    let package = store(&mesh, "9.0.0", b"not even a package");
    let attempt = "format=1\nversion=9.0.0\nattempt=3\nrollout=r-1\nstate=reached\n";
    std::fs::write(machine.state("attempt"), attempt).unwrap();
    mesh.declare(1, &ordering(&retain, &package, 3));
    let mut process = machine.run();
    let order = state_of(&mesh, "deferred");
    assert_eq!(order.reason.as_deref(), Some("held"));
    assert!(process.is_up() && calls(&machine, "start") == 0);
    mesh.declare(2, &ordering(&retain, &package, 4));
    let order = state_of(&mesh, "failed");
    assert_eq!((order.class.as_deref(), order.reason.as_deref()), (Some("release"), Some("package")));
}

#[test]
fn a_pin_and_an_unarmed_node_wait() {
    let (mesh, machine, retain) = armed("pinned");
    let package = store(&mesh, "9.0.0", b"x");
    std::fs::write(machine.state("pin"), "hold\n").unwrap();
    mesh.declare(1, &ordering(&retain, &package, 3));
    let _process = machine.run();
    assert_eq!(state_of(&mesh, "deferred").reason.as_deref(), Some("pinned"));
    std::fs::remove_file(machine.state("pin")).unwrap();
    let own = format!("packages/nox-mesh-host_{RUNNING}_amd64.deb");
    until("the retained package", || machine.state(&own).exists());
    mesh.declare(2, r#"{"kind":"directory","name":"/etc/app"}"#);
    mesh.hears("the second", |heartbeat| heartbeat.applied == 2 && heartbeat.armed);
    std::fs::write(machine.state(&own), "damaged").unwrap();
    let unarmed = mesh.hears("unarmed", |heartbeat| !heartbeat.armed);
    assert!(unarmed.unarmed_because.unwrap().contains("damaged"));
    mesh.declare(3, &ordering(&retain, &package, 3).replace(&format!("\"retain\":{retain},"), ""));
    let order =
        mesh.hears("deferred", |h| h.order.as_ref().is_some_and(|o| o.reason.as_deref() == Some("unarmed")));
    assert!(order.order.unwrap().detail.unwrap().contains("damaged"));
    assert_eq!(calls(&machine, "start"), 0);
}

#[test]
fn e11_c28_c32_after_a_rollback_the_version_is_reported_and_refused() {
    let (mesh, machine, retain) = armed("refuses");
    let package = store(&mesh, "9.0.0", b"x");
    std::fs::write(machine.state("known-good"), format!("{RUNNING}\n")).unwrap();
    for (id, attempt) in [(1, 2), (2, 3)] {
        let record = format!(
            "format=1\nid={id}\nfrom=9.0.0\nto={RUNNING}\nattempt={attempt}\nrollout=r-1\nboot_id=b\n\
             begun=1\ntries=1\n\
             state=rolled-back\nreason=none\nresult=watchdog\ncode=killed\nstatus=6\nlog=last words\n"
        );
        std::fs::write(machine.state(&format!("rollbacks/{id}")), record).unwrap();
    }
    mesh.desk().stores = false;
    mesh.declare(1, &ordering(&retain, &package, 3));
    let mut process = machine.run();
    let first = mesh.hears("the first heartbeat", |_| true);
    assert_eq!((first.rollbacks.len(), first.rollbacks[0].id), (1, 1), "one by one, oldest first");
    assert_eq!(first.rollbacks[0].log, ["last words"]);
    assert_eq!((first.refused[0].version.as_str(), first.refused[0].attempt), ("9.0.0", 3));
    mesh.hears("told again until it is stored", |h| h.sequence > 2 && h.rollbacks[0].id == 1);
    mesh.desk().stores = true;
    mesh.hears("the second record", |h| h.rollbacks.first().is_some_and(|record| record.id == 2));
    mesh.hears("silence about both", |heartbeat| heartbeat.rollbacks.is_empty());
    let refusing = mesh.hears("armed and applied", |heartbeat| heartbeat.armed && heartbeat.applied == 1);
    assert_eq!((refusing.order, refusing.refused.len()), (None, 1));
    assert!(std::fs::read_to_string(machine.state("rollbacks.settled")).unwrap().contains("through=2\n"));
    process.signal("TERM");
    process.ended();
    let mut process = machine.run();
    let again = mesh.hears("a new start", |heartbeat| heartbeat.start == 2 && heartbeat.confirmed);
    assert!(again.rollbacks.is_empty() && again.refused.len() == 1);
    std::thread::sleep(Duration::from_secs(3));
    assert!(process.is_up() && calls(&machine, "start") == 0);
    mesh.declare(2, &ordering(&retain, &package, 4));
    state_of(&mesh, "failed");
}

#[test]
fn c63_a_machine_s_failure_is_reported_and_the_attempt_not_repeated() {
    let (mesh, machine, retain) = armed("fails");
    let result = "status=failed\nclass=machine\nreason=database\nexit=12\ndetail=dpkg is broken\n";
    machine.put("usr/lib/nox-mesh-host/install.result", result);
    let package = store(&mesh, "9.0.0", &machine.build_package("9.0.0", "nox-mesh-host 9.0.0"));
    mesh.declare(1, &ordering(&retain, &package, 3));
    let mut process = machine.run();
    let order = state_of(&mesh, "failed");
    assert_eq!((order.class.as_deref(), order.reason.as_deref()), (Some("machine"), Some("database")));
    assert_eq!(order.detail.as_deref(), Some("dpkg is broken"));
    std::thread::sleep(Duration::from_secs(4));
    assert!(process.is_up());
    assert_eq!(calls(&machine, "start"), 1);
    restart(&mut process);
    let _process = machine.run();
    mesh.hears("a new start", |h| {
        h.start == 2 && h.order.as_ref().is_some_and(|order| order.state == "failed")
    });
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(calls(&machine, "start"), 1, "not after a restart either");
}

#[test]
fn c52_a_lock_is_deferred_and_tried_again() {
    deferred_and_tried_again("lock", "apt runs");
}

#[test]
fn c37_what_a_person_holds_is_deferred_and_goes_on_when_it_is_let_go() {
    deferred_and_tried_again("held", "the package is on hold");
}

#[test]
fn c76_a_claim_that_ran_out_during_the_wait_for_a_lock_is_made_anew() {
    deferred_and_tried_again("claim", "the claim ran out while another program held the lock");
}

/// An install that ends with this reason, and later with success.
fn deferred_and_tried_again(reason: &str, detail: &str) {
    let (mesh, machine, retain) = armed(&format!("again-{reason}"));
    let result = "usr/lib/nox-mesh-host/install.result";
    let failed = format!("status=failed\nclass=machine\nreason={reason}\nexit=1\ndetail={detail}\n");
    machine.put(result, &failed);
    let package = store(&mesh, "9.0.0", &machine.build_package("9.0.0", "nox-mesh-host 9.0.0"));
    mesh.declare(1, &ordering(&retain, &package, 3));
    let mut process = machine.run();
    let order = state_of(&mesh, "deferred");
    assert_eq!((order.reason.as_deref(), order.detail.as_deref()), (Some(reason), Some(detail)));
    assert!(mesh.desk().heartbeats.iter().all(|h| h.order.as_ref().is_none_or(|o| o.state != "failed")));
    machine.put(result, "status=installed\nclass=none\nreason=none\n");
    assert!(process.ended().success());
    assert!(mesh.desk().claims.len() >= 2, "claimed anew");
}

#[test]
fn an_install_that_was_cut_off_is_claimed_anew_and_not_for_ever() {
    let (mesh, machine, retain) = armed("cut-off");
    let package = store(&mesh, "9.0.0", &machine.build_package("9.0.0", "nox-mesh-host 9.0.0"));
    let begun = |tries: u32| {
        let text = format!("format=1\nversion=9.0.0\nattempt=3\nrollout=r-1\nstate=begun\ntries={tries}\n");
        std::fs::write(machine.state("attempt"), text).unwrap();
    };
    begun(3);
    mesh.declare(1, &ordering(&retain, &package, 3));
    let mut process = machine.run();
    let order = state_of(&mesh, "failed");
    assert_eq!((order.class.as_deref(), order.reason.as_deref()), (Some("machine"), Some("state")));
    assert!(mesh.desk().claims.is_empty());
    process.signal("KILL");
    process.ended();
    begun(1);
    machine.put("usr/lib/nox-mesh-host/install.result", "status=installed\nclass=none\nreason=none\n");
    assert!(machine.run().ended().success());
    assert_eq!(mesh.desk().claims.len(), 1);
}

fn restart(process: &mut Process) {
    process.signal("TERM");
    process.ended();
}

#[test]
fn c62_a_candidate_that_is_something_else_is_never_installed() {
    let (mesh, machine, retain) = armed("preflight");
    let wrong = machine.build_package("9.0.0", "nox-mesh-host 8.0.0");
    let package = store(&mesh, "9.0.0", &wrong);
    mesh.declare(1, &ordering(&retain, &package, 3));
    let _process = machine.run();
    let order = state_of(&mesh, "failed");
    assert_eq!(order.detail.as_deref(), Some("it says that it is 'nox-mesh-host 8.0.0'"));
    assert!(mesh.desk().claims.is_empty() && calls(&machine, "start") == 0);
}

#[test]
fn c76_no_claim_no_install() {
    let (mesh, machine, retain) = armed("claims");
    machine.put("usr/lib/nox-mesh-host/install.result", "status=installed\nclass=none\nreason=none\n");
    let package = store(&mesh, "9.0.0", &machine.build_package("9.0.0", "nox-mesh-host 9.0.0"));
    mesh.desk().grants = false;
    mesh.declare(1, &ordering(&retain, &package, 3));
    let mut process = machine.run();
    assert_eq!(state_of(&mesh, "deferred").reason.as_deref(), Some("claim"));
    assert!(process.is_up() && calls(&machine, "start") == 0);
    mesh.desk().grants = true;
    assert!(process.ended().success(), "granted later, it goes on");
}

#[test]
fn c76_a_claim_has_an_end_that_the_order_names() {
    let (mesh, machine, retain) = armed("claim-end");
    machine.put("usr/lib/nox-mesh-host/install.result", "status=installed\nclass=none\nreason=none\n");
    let package = store(&mesh, "9.0.0", &machine.build_package("9.0.0", "nox-mesh-host 9.0.0"));
    mesh.desk().valid_ms = 0;
    mesh.declare(1, &ordering(&retain, &package, 3));
    let mut process = machine.run();
    let order = state_of(&mesh, "deferred");
    assert_eq!(order.reason.as_deref(), Some("claim"));
    assert!(order.detail.unwrap().contains("ran out") && calls(&machine, "start") == 0);
    until("more claims than tries", || mesh.desk().claims.len() >= 4);
    assert_eq!(calls(&machine, "start"), 0);
    let up = || {
        std::fs::read_to_string("/proc/uptime").unwrap().split('.').next().unwrap().parse::<u64>().unwrap()
    };
    let before = up();
    mesh.desk().valid_ms = 50_000;
    assert!(process.ended().success());
    let order = std::fs::read_to_string(machine.state("order")).unwrap();
    let until = order.lines().find_map(|line| line.strip_prefix("claim_until=")).unwrap();
    let until: u64 = until.parse().unwrap();
    assert!(before + 49 <= until && until <= up() + 50, "{before} {until}");
}

#[test]
fn a_result_of_before_is_not_taken_for_that_of_the_install_that_runs() {
    let (mesh, machine, retain) = armed("old-result");
    let old =
        "format=1\nversion=9.0.0\nattempt=3\nstatus=failed\nclass=machine\nreason=database\ndetail=old\n";
    std::fs::write(machine.state("result"), old).unwrap();
    let package = store(&mesh, "9.0.0", &machine.build_package("9.0.0", "nox-mesh-host 9.0.0"));
    mesh.declare(1, &ordering(&retain, &package, 3));
    let mut process = machine.run();
    until("the start", || calls(&machine, "start") == 1);
    // From here on the install goes on for a while.
    machine.put("usr/lib/nox-mesh-host/running", "");
    std::thread::sleep(Duration::from_secs(3));
    let desk = mesh.desk();
    assert!(desk.heartbeats.iter().filter_map(|h| h.order.as_ref()).all(|order| order.state != "failed"));
    assert!(!machine.state("result").exists() && process.is_up());
}

#[test]
fn a_host_that_starts_during_an_install_waits_for_it() {
    let (mesh, machine, retain) = armed("waits");
    machine.put("usr/lib/nox-mesh-host/running", "");
    let folder = r#"{"kind":"directory","name":"/etc/app"},"#;
    let host = ordering(&retain, &store(&mesh, "9.0.0", b"x"), 3);
    mesh.declare(1, &format!("{folder}{host}"));
    let mut process = machine.run();
    mesh.hears("a heartbeat", |heartbeat| heartbeat.sequence > 2);
    assert!(!machine.state("known-good").exists(), "it does not confirm");
    until("it goes on reconciling", || machine.path("etc/app").exists());
    machine.package("9.0.0");
    std::fs::remove_file(machine.path("usr/lib/nox-mesh-host/running")).unwrap();
    assert!(process.ended().success(), "another version is installed now");
    assert_eq!(calls(&machine, "start"), 0, "it does not order");
}

#[test]
fn a_bit_that_flipped_in_the_retained_package_is_found_before_the_claim() {
    let (mesh, machine, retain) = armed("bit-flip");
    machine.put("usr/lib/nox-mesh-host/install.result", "status=installed\nclass=none\nreason=none\n");
    mesh.declare(1, &format!(r#"{{"kind":"host","name":"host","retain":{retain}}}"#));
    let mut process = machine.run();
    mesh.hears("armed", |heartbeat| heartbeat.armed && heartbeat.confirmed);
    let own = machine.state(&format!("packages/nox-mesh-host_{RUNNING}_amd64.deb"));
    flip_unseen(&own);
    let package = store(&mesh, "9.0.0", &machine.build_package("9.0.0", "nox-mesh-host 9.0.0"));
    // The mesh has lost the old package for now: nothing can be put right yet.
    let packages = mesh.desk().packages.clone();
    mesh.desk().packages.retain(|digest, _| package.contains(digest.as_str()));
    mesh.declare(2, &ordering(&retain, &package, 3));
    let told = mesh.hears("unarmed", |h| !h.armed && h.order.as_ref().is_some_and(|o| o.state == "deferred"));
    assert_eq!(told.order.unwrap().reason.as_deref(), Some("unarmed"));
    assert!(told.unarmed_because.unwrap().contains("damaged"));
    assert!(mesh.desk().claims.is_empty() && calls(&machine, "start") == 0);
    mesh.desk().packages = packages;
    assert!(process.ended().success(), "fetched again, it goes on");
    assert_eq!(mesh.desk().claims.len(), 1);
}

/// Changes one byte and nothing that `stat` shows.
fn flip_unseen(path: &std::path::Path) {
    let mut bytes = std::fs::read(path).unwrap();
    let modified = std::fs::metadata(path).unwrap().modified().unwrap();
    bytes[100] ^= 1;
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    std::io::Write::write_all(&mut &file, &bytes).unwrap();
    file.set_modified(modified).unwrap();
}
