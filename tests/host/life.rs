//! Joining, applying, confirming, bad declarations, a mesh that is away, the end.

use crate::world::{Machine, Mesh, RUNNING, until};
use std::time::Duration;

const FILES: &str = r#"{"kind":"directory","name":"/etc/app","mode":"0755"},
    {"kind":"file","name":"/etc/app/conf","content":"one\n"}"#;

#[test]
fn a_machine_joins_applies_confirms_and_says_goodbye() {
    let (mesh, machine) = (Mesh::start(), Machine::new("joins"));
    let mut process = machine.run();
    until("READY of an unjoined host", || {
        let told = machine.told();
        told.contains("READY=1") || told.contains("STATUS=not joined")
    });
    assert!(!machine.state("known-good").exists());
    let said = machine.join(&mesh);
    assert!(said.contains("as web01 (n-1)") && said.contains("overlay = none"), "{said}");
    assert!(machine.join(&mesh).contains("already"), "a second join changes nothing");
    let first = mesh.hears("a first heartbeat", |_| true);
    assert_eq!((first.accepted, first.confirmed, first.start), (0, false, 1));
    std::thread::sleep(Duration::from_secs(3));
    assert!(!machine.state("known-good").exists(), "nothing is confirmed without a declaration");
    mesh.declare(1, FILES);
    let confirmed = mesh.hears("a confirmation", |heartbeat| heartbeat.confirmed);
    assert_eq!((confirmed.version.as_str(), confirmed.applied, confirmed.failed), (RUNNING, 1, 0));
    assert!(mesh.desk().heartbeats.iter().any(|heartbeat| heartbeat.facts.is_some()));
    assert_eq!(machine.read("etc/app/conf").as_deref(), Some("one\n"));
    for name in ["known-good", "known-good.copy"] {
        assert_eq!(std::fs::read_to_string(machine.state(name)).unwrap(), format!("{RUNNING}\n"));
    }
    assert!(!machine.state("applying").exists() && machine.state("declaration.good").exists());

    let status = std::fs::read_to_string(format!("/proc/{}/status", process.child.id())).unwrap();
    assert!(status.contains("Threads:\t2\n"), "two threads, no more: {status}");
    let rollup = std::fs::read_to_string(format!("/proc/{}/smaps_rollup", process.child.id())).unwrap();
    let pss = rollup.lines().find_map(|line| line.strip_prefix("Pss:")).unwrap();
    eprintln!("idle, proportional set size: {}", pss.trim());
    let sockets = listening(process.child.id());
    assert_eq!(sockets, 0, "nothing listens");
    until("the watchdog's food", || machine.told().contains("WATCHDOG=1"));

    // Taken while a long poll is open: at once.
    mesh.declare(2, r#"{"kind":"teapot","name":"x"},{"kind":"directory","name":"/etc/app"}"#);
    let failed = mesh.hears("the failed resource", |heartbeat| heartbeat.applied == 2);
    assert_eq!(failed.failures[0].error, "this host does not know the kind 'teapot'");
    until("the removal", || !machine.path("etc/app/conf").exists());

    process.signal("TERM");
    assert!(process.ended().success());
    let last = mesh.desk().heartbeats.last().unwrap().clone();
    assert_eq!(last.goodbye.as_deref(), Some("stopped"));
    assert!(machine.told().contains("STOPPING=1"));
}

/// Sockets of a process that listen: states of `/proc/net/tcp` (0A) by the inodes of its descriptors.
fn listening(process: u32) -> usize {
    let tables = ["tcp", "tcp6"].map(|table| std::fs::read_to_string(format!("/proc/net/{table}")).unwrap());
    let inodes: Vec<String> = std::fs::read_dir(format!("/proc/{process}/fd"))
        .unwrap()
        .filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok())
        .filter_map(|target| Some(target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned()))
        .collect();
    let lines = tables.iter().flat_map(|table| table.lines().skip(1));
    let listens = lines.filter(|line| line.split_whitespace().nth(3) == Some("0A"));
    listens.filter(|line| inodes.iter().any(|inode| line.split_whitespace().nth(9) == Some(inode))).count()
}

#[test]
fn c33_c22_a_stored_declaration_is_confirmed_without_a_mesh() {
    let (mesh, machine) = (Mesh::start(), Machine::new("offline"));
    machine.join(&mesh);
    mesh.declare(1, FILES);
    let mut process = machine.run();
    mesh.hears("a confirmation", |heartbeat| heartbeat.confirmed);
    process.signal("KILL");
    process.ended();
    for name in ["known-good", "known-good.copy", "start-id"] {
        std::fs::remove_file(machine.state(name)).unwrap();
    }
    std::fs::remove_file(machine.path("etc/app/conf")).unwrap();
    mesh.desk().broken = Some("503 Service Unavailable");
    let starts = format!("format=1\nversion={RUNNING}\ncount=2\nboot_id=b\n");
    std::fs::write(machine.state("starts"), starts).unwrap();
    let mut process = machine.run();
    until("a confirmation offline", || machine.state("known-good").exists());
    until("the end of the count of its starts", || !machine.state("starts").exists());
    assert!(machine.path("etc/app/conf").exists());
    std::thread::sleep(Duration::from_secs(3));
    assert!(process.is_up());
    mesh.desk().broken = None;
    mesh.hears("the report when the link is back", |heartbeat| heartbeat.confirmed && heartbeat.sequence > 1);
}

#[test]
fn bad_declarations_are_reported_and_the_next_good_one_is_taken() {
    let (mesh, machine) = (Mesh::start(), Machine::new("bad"));
    machine.join(&mesh);
    mesh.declare(1, FILES);
    let mut process = machine.run();
    mesh.hears("a confirmation", |heartbeat| heartbeat.confirmed);
    let deep = "[".repeat(10_000) + &"]".repeat(10_000);
    let document = |node: &str, generation: &str| {
        mesh.seal(&format!(r#"{{"format":1,"node":"{node}","generation":{generation},"resources":[]}}"#))
    };
    let mut forged = String::from_utf8(document("n-1", "9")).unwrap();
    forged = forged.replace("\\\"generation\\\":9", "\\\"generation\\\":8");
    let rows: [(Vec<u8>, &str); 8] = [
        (b"".to_vec(), "no declaration envelope"),
        // Between two of one answer, so that neither is taken for the other.
        (vec![b' '; 50_000_000], "larger than"),
        (b"null".to_vec(), "no declaration envelope"),
        (mesh.seal(&deep), "expected an object, found an array"),
        (document("n-1", "\"nine\""), "generation: expected a whole number"),
        (document("n-2", "9"), "it is for node n-2"),
        (document("n-1", "1"), "generation 1 is not above the accepted generation 1"),
        (forged.into_bytes(), "signature"),
    ];
    for (bytes, said) in rows {
        mesh.desk().envelope = Some((9, bytes));
        mesh.hears(said, |h| h.declaration_refused.as_ref().is_some_and(|why| why.contains(said)));
        assert!(process.is_up());
        assert_eq!(machine.read("etc/app/conf").as_deref(), Some("one\n"), "the last good one went: {said}");
    }
    // One kind that this host does not know: the rest is applied, and the unknown one is reported by name.
    mesh.declare(10, r#"{"kind":"directory","name":"/etc/app"},{"kind":"teapot","name":"brown"}"#);
    let partly = mesh.hears("the newest one, in part", |heartbeat| heartbeat.applied == 10);
    assert_eq!(partly.declaration_refused, None);
    let failure = partly.failures.first().expect("the unknown kind is not reported");
    assert_eq!((partly.failed, failure.name.as_str()), (1, "teapot:brown"));
    assert!(failure.error.contains("does not know the kind 'teapot'"), "{}", failure.error);
}

#[test]
fn a_mesh_that_says_nothing_new_at_once_is_not_asked_without_a_pause() {
    let (mesh, machine) = (Mesh::start(), Machine::new("hasty"));
    machine.join(&mesh);
    machine.put("etc/nox-mesh-host/settings", "reconcile_seconds=60\n");
    mesh.declare(1, FILES);
    mesh.desk().is_hasty = true;
    let _process = machine.run();
    mesh.hears("a confirmation", |heartbeat| heartbeat.confirmed);
    std::thread::sleep(Duration::from_secs(4));
    assert!(mesh.desk().polls < 30, "{} polls", mesh.desk().polls);
    mesh.declare(2, FILES);
    mesh.hears("the next one", |heartbeat| heartbeat.applied == 2);
}

#[test]
fn c92_settings_are_read_again_at_a_signal_and_a_mistake_is_reported() {
    let (mesh, machine) = (Mesh::start(), Machine::new("settings"));
    machine.join(&mesh);
    mesh.declare(1, FILES);
    let mut process = machine.run();
    mesh.hears("a confirmation", |heartbeat| heartbeat.confirmed && heartbeat.failed == 0);
    machine.put("etc/nox-mesh-host/settings", "log_level=loud\n");
    process.signal("HUP");
    let report = mesh.hears("the mistake", |heartbeat| heartbeat.failed == 1);
    assert!(report.failures[0].error.starts_with("settings, line 1: log_level"), "{report:#?}");
    assert!(process.is_up());
}

#[test]
fn c43_damaged_state_files_are_reported_and_nothing_ends() {
    let (mesh, machine) = (Mesh::start(), Machine::new("damaged"));
    machine.join(&mesh);
    for name in ["known-good", "identity", "declaration", "declaration.good", "owned", "refused", "attempt"] {
        std::fs::write(machine.state(name), [0u8; 64]).unwrap();
    }
    for name in ["start-id", "result", "applying", "rollbacks.acked", "rollbacks.settled", "rollbacks/1"] {
        std::fs::write(machine.state(name), "x").unwrap();
    }
    machine.put("etc/nox-mesh-host/settings", "reconcile_seconds=two\n");
    mesh.declare(1, FILES);
    let mut process = machine.run();
    let report = mesh.hears("a confirmation", |heartbeat| heartbeat.confirmed);
    assert!(report.failed >= 6, "{report:#?}");
    assert!(machine.state("known-good.damaged").exists());
    assert!(process.is_up());
}

#[test]
fn c93_a_declaration_that_ends_the_host_is_set_aside() {
    let (mesh, machine) = (Mesh::start(), Machine::new("poison"));
    machine.join(&mesh);
    mesh.declare(6, FILES);
    let mut process = machine.run();
    mesh.hears("a confirmation", |heartbeat| heartbeat.confirmed && heartbeat.applied == 6);
    process.signal("KILL");
    process.ended();
    for name in ["known-good", "known-good.copy"] {
        std::fs::remove_file(machine.state(name)).unwrap();
    }
    // The crash of a release that dies of generation 7, twice.
    std::fs::write(machine.state("declaration"), mesh.seal(&seven())).unwrap();
    let mark = format!("format=1\ngeneration=7\nversion={RUNNING}\nunfinished=2\n");
    std::fs::write(machine.state("applying"), mark).unwrap();
    mesh.desk().envelope = Some((7, mesh.seal(&seven())));
    let _process = machine.run();
    let report = mesh.hears("the report", |heartbeat| heartbeat.declaration_refused.is_some());
    assert_eq!((report.accepted, report.applied), (7, 6));
    assert!(!report.confirmed && !machine.state("known-good").exists(), "not what was set aside");
    mesh.declare(8, FILES);
    mesh.hears("the next one", |heartbeat| heartbeat.applied == 8);
}

fn seven() -> String {
    r#"{"format":1,"node":"n-1","generation":7,"resources":[]}"#.to_owned()
}

/// Only for a build with the fault of this name; it proves the fault, not the host:
/// `NOX_MESH_HOST_FAULT=crash-after-confirm cargo test --test host after_every`.
#[test]
fn the_fault_crash_after_confirm_crashes_after_every_confirmed_start() {
    if option_env!("NOX_MESH_HOST_FAULT") != Some("crash-after-confirm") {
        return;
    }
    let (mesh, machine) = (Mesh::start(), Machine::new("crashes"));
    machine.join(&mesh);
    mesh.declare(1, FILES);
    for _ in 0..3 {
        assert!(!machine.run().ended().success());
        assert!(machine.state("known-good").exists());
    }
}
