//! Rollback records: none is overlooked, whatever a person does to the folder.

use crate::world::{Machine, Mesh, RUNNING, until};

fn record(machine: &Machine, id: u64, from: &str, begun: u64) {
    let record = format!(
        "format=1\nid={id}\nfrom={from}\nto={RUNNING}\nattempt=3\nrollout=r-1\nboot_id=b\nbegun={begun}\n\
         tries=1\nstate=rolled-back\nreason=none\nresult=watchdog\ncode=killed\nstatus=6\n"
    );
    // Whole or not at all, as the script does it.
    std::fs::write(machine.state("rollbacks/.new"), record).unwrap();
    std::fs::rename(machine.state("rollbacks/.new"), machine.state(&format!("rollbacks/{id}"))).unwrap();
}

#[test]
fn e11_c28_a_rollback_after_the_records_were_removed_is_reported_too() {
    let (mesh, machine) = (Mesh::start(), Machine::new("emptied"));
    machine.join(&mesh);
    mesh.declare(1, r#"{"kind":"directory","name":"/etc/app"}"#);
    record(&machine, 1, "9.0.0", 1);
    let mut process = machine.run();
    mesh.hears("the first", |heartbeat| heartbeat.rollbacks.first().is_some_and(|r| r.from == "9.0.0"));
    mesh.hears("silence", |heartbeat| heartbeat.rollbacks.is_empty() && heartbeat.confirmed);
    until("settled", || machine.state("rollbacks.settled").exists());
    let acked = || std::fs::read_to_string(machine.state("rollbacks.acked")).unwrap_or_default();
    until("acknowledged", || acked().contains("id=1\nrecord=1 boot=b begun=1\n"));
    // While it runs, and before a start.
    for (number, from) in [(2, "9.1.0"), (3, "9.2.0")] {
        std::fs::remove_file(machine.state("rollbacks/1")).unwrap();
        if number == 3 {
            process.signal("TERM");
            process.ended();
        }
        record(&machine, 1, from, number);
        if number == 3 {
            process = machine.run();
        }
        let told = mesh.hears(from, |heartbeat| heartbeat.rollbacks.first().is_some_and(|r| r.from == from));
        assert_eq!(told.refused.len() as u64, number, "{:?}", told.refused);
        mesh.hears("silence", |heartbeat| heartbeat.rollbacks.is_empty());
    }
}
