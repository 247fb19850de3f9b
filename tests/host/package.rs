//! The installed package and the running program are not always of one version.

use crate::upgrades::{armed, calls, ordering, state_of};
use crate::world::{RUNNING, store};
use nox_mesh::wire::heartbeat::{Failure, Heartbeat};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
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

/// A way to break a package's tree.
type Breakage = fn(&Path);

#[test]
fn c62_a_candidate_that_could_not_be_left_again_is_never_installed() {
    let (mesh, machine, retain) = armed("no-way-back");
    let rows: [(&str, Breakage); 5] = [
        ("its rollback is empty", |tree| {
            std::fs::write(tree.join("usr/lib/nox-mesh-host/rollback"), "").unwrap()
        }),
        ("its start-guard is not executable", |tree| {
            let path = tree.join("usr/lib/nox-mesh-host/start-guard");
            std::fs::set_permissions(path, PermissionsExt::from_mode(0o644)).unwrap();
        }),
        ("its install is no shell script", |tree| {
            std::fs::write(tree.join("usr/lib/nox-mesh-host/install"), "#!/bin/sh\nif true; then\n").unwrap();
        }),
        ("its install is missing", |tree| {
            std::fs::remove_file(tree.join("usr/lib/nox-mesh-host/install")).unwrap();
        }),
        ("its units lack OnFailure=nox-mesh-host-rollback.service", |tree| {
            let unit = tree.join("usr/lib/systemd/system/nox-mesh-host.service");
            let text = std::fs::read_to_string(&unit).unwrap();
            std::fs::write(unit, text.replace("OnFailure=", "OnSuccess=")).unwrap();
        }),
    ];
    let _process = machine.run();
    for (number, (said, breakage)) in (1u64..).zip(rows) {
        let version = format!("9.0.{number}");
        let bytes = machine.build_changed(&version, &format!("nox-mesh-host {version}"), breakage);
        mesh.declare(number, &ordering(&retain, &store(&mesh, &version, &bytes), number));
        let failed = |order: &nox_mesh::wire::heartbeat::OrderState| {
            order.state == "failed" && order.version == version
        };
        let order = mesh.hears(said, |h| h.order.as_ref().is_some_and(failed)).order.unwrap();
        assert_eq!((order.class.as_deref(), order.reason.as_deref()), (Some("release"), Some("package")));
        assert!(order.detail.as_ref().unwrap().starts_with(said), "{said}: {order:?}");
    }
    assert!(mesh.desk().claims.is_empty() && calls(&machine, "start") == 0);
}
