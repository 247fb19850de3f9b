//! The installed package and the running program are not always of one version.

use crate::upgrades::{armed, calls, ordering, state_of};
use crate::world::{RUNNING, store};
use nox_mesh::wire::heartbeat::{Failure, Heartbeat};
use std::time::Duration;

fn package_failure(heartbeat: &Heartbeat) -> Option<&Failure> {
    heartbeat.failures.iter().find(|failure| failure.name == "package:nox-mesh-host")
}

#[test]
fn a_package_that_disagrees_with_its_program_is_reported_and_ends_nothing() {
    let (mesh, machine, retain) = armed("disagrees");
    machine.package("9.0.0");
    mesh.declare(1, &format!(r#"{{"kind":"host","name":"host","retain":{retain}}}"#));
    let mut process = machine.run();
    let told = mesh.hears("the report", |heartbeat| package_failure(heartbeat).is_some());
    let said = &package_failure(&told).unwrap().error;
    assert!(said.starts_with(&format!("9.0.0 is installed, {RUNNING} runs")), "{said}");
    mesh.hears("a confirmation", |heartbeat| heartbeat.confirmed);
    std::thread::sleep(Duration::from_secs(4));
    assert!(process.is_up(), "it saw no install: its end would help nothing");
    // Put right by a person or a script.
    machine.package(RUNNING);
    mesh.hears("that it is over", |heartbeat| package_failure(heartbeat).is_none());
}

#[test]
fn a_failed_install_that_left_its_version_behind_is_reported() {
    let (mesh, machine, retain) = armed("left-behind");
    let result = "status=failed\nclass=machine\nreason=timeout\nexit=14\ndetail=cut off\n";
    machine.put("usr/lib/nox-mesh-host/install.result", &format!("{result}leaves=status=installed\n"));
    let package = store(&mesh, "9.0.0", &machine.build_package("9.0.0", "nox-mesh-host 9.0.0"));
    mesh.declare(1, &ordering(&retain, &package, 3));
    let mut process = machine.run();
    assert_eq!(state_of(&mesh, "failed").reason.as_deref(), Some("timeout"));
    mesh.hears("the report", |heartbeat| package_failure(heartbeat).is_some());
    assert!(process.is_up() && calls(&machine, "start") == 1);
    // The same after a power cut that took the result.
    process.signal("KILL");
    process.ended();
    std::fs::remove_file(machine.state("result")).unwrap();
    let begun = "format=1\nversion=9.0.0\nattempt=3\nrollout=r-1\nstate=begun\ntries=1\n";
    std::fs::write(machine.state("attempt"), begun).unwrap();
    mesh.desk().grants = false;
    let mut process = machine.run();
    let told =
        mesh.hears("the report", |heartbeat| heartbeat.start == 2 && package_failure(heartbeat).is_some());
    assert_eq!(told.version, RUNNING);
    mesh.hears("the claim", |h| h.start == 2 && h.order.as_ref().is_some_and(|o| o.state == "deferred"));
    assert!(process.is_up(), "claimed anew, not ended");
}
