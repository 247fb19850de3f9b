//! What comes in the middle of a reconcile: signals, and the watchdog's hunger.

use crate::world::{Machine, Mesh, Process, until};

/// So many that a reconcile takes a while.
const FILES: usize = 4000;

/// A node in the middle of its first reconcile.
fn in_the_middle(name: &str) -> (Mesh, Machine, Process) {
    let (mesh, machine) = (Mesh::start(), Machine::new(name));
    machine.join(&mesh);
    machine.put("etc/nox-mesh-host/settings", "reconcile_seconds=3600\n");
    let file = |n| format!(r#",{{"kind":"file","name":"/etc/app/{n:04}","content":"x"}}"#);
    let files: String = (0..FILES).map(file).collect();
    mesh.declare(1, &format!(r#"{{"kind":"directory","name":"/etc/app"}}{files}"#));
    // A hungry watchdog, so that a fast disk feeds it more than once too.
    let process = machine.run_watched("60000");
    until("the first file", || machine.path("etc/app/0000").exists());
    (mesh, machine, process)
}

fn last_file(machine: &Machine) -> bool {
    machine.path(&format!("etc/app/{:04}", FILES - 1)).exists()
}

#[test]
fn c27_an_end_in_the_middle_confirms_nothing_and_blames_nobody() {
    let (_mesh, machine, mut process) = in_the_middle("middle-end");
    process.signal("TERM");
    assert!(process.ended().success());
    assert!(!last_file(&machine), "it was over before the signal came");
    assert!(!machine.state("known-good").exists() && !machine.state("applying").exists());
}

#[test]
fn c92_a_signal_in_the_middle_is_heeded_when_it_is_over() {
    let (mesh, machine, process) = in_the_middle("middle-again");
    machine.put("etc/nox-mesh-host/settings", "reconcile_seconds=3600\nlog_level=loud\n");
    process.signal("HUP");
    assert!(!last_file(&machine), "it was over before the signal came");
    mesh.hears("the mistake", |h| h.failures.iter().any(|failure| failure.error.contains("log_level")));
    assert!(last_file(&machine));
}

#[test]
fn the_watchdog_is_fed_in_the_middle() {
    let (_mesh, machine, _process) = in_the_middle("middle-watchdog");
    let fed = || machine.told().matches("WATCHDOG=1").count();
    let (before, mut last) = (fed(), 0);
    until("the last file", || {
        last = if last_file(&machine) { last } else { fed() };
        last_file(&machine)
    });
    assert!(last > before, "{before} {last}");
}
