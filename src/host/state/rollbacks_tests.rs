//! Each file is read as it is written; records are read as the script writes them.

use super::super::tests::{scratch, write};
use super::*;

fn v(text: &str) -> Version {
    text.parse().unwrap()
}

fn key(id: u64, begun: &str) -> RecordKey {
    RecordKey { id, boot: "b-1".into(), begun: begun.into() }
}

#[test]
fn c32_the_records_of_the_script_are_read_as_it_writes_them() {
    let state = scratch("records");
    write(
        &state,
        "rollbacks/2",
        b"format=1\nid=2\nfrom=1.5.0\nto=1.4.0\nattempt=3\nrollout=r-1\nboot_id=b-1\nbegun=1\ntries=1\n\
          state=rolled-back\nreason=none\nstarted=yes\nresult=exit-code\n\
          code=exited\nstatus=1\nlog=one\nlog=two\n",
    );
    write(&state, "rollbacks/10", b"format=1\nid=10\nfrom=unknown\nto=1.4.0\nstate=begun\nreason=disk\n");
    write(&state, "rollbacks/11", b"\0\0\0\0");
    write(&state, "rollbacks/.12.new", b"half");
    let records = state.rollbacks();
    let ids: Vec<u64> = records.iter().map(|record| record.key.id).collect();
    assert_eq!(ids, [2, 10]);
    let report = &records[0].report;
    assert_eq!(
        (report.outcome.as_str(), report.reason.as_str(), report.attempt),
        ("rolled-back", "exit-code", 3)
    );
    assert_eq!(report.log, ["one", "two"]);
    assert!(records[0].ended && !records[1].ended);
    assert_eq!((records[1].from.as_ref(), records[1].report.outcome.as_str()), (None, "failed"));
    assert!(state.exists("rollbacks/11.damaged"));
}

#[test]
fn own_files_round_trip() {
    let state = scratch("own-rollbacks");
    assert_eq!(state.refused(), None);
    let mut refused = Refused::default();
    refused.restore(v("1.5.0"), Entry { attempt: 3, reason: "watchdog, twice".into() });
    refused.restore(v("1.6.0~rc1"), Entry { attempt: 0, reason: String::new() });
    for known in [BTreeSet::new(), [key(9, "1"), key(9, "2"), RecordKey::default()].into()] {
        state.store_refused(&refused, 9, &known).unwrap();
        let stored = StoredRefused { refused: refused.clone(), through: 9, known: Some(known) };
        assert_eq!(state.refused(), Some(stored));
    }
    let keys: BTreeSet<RecordKey> = (1..=100).map(|id| key(id, "1")).collect();
    write(&state, "rollbacks/5", b"format=1\nboot_id=b-1\nbegun=1\n");
    state.store_acknowledged(&keys).unwrap();
    let kept = state.acknowledged();
    assert!(kept.contains(&key(100, "1")) && kept.contains(&key(5, "1")) && kept.len() == 33, "{kept:?}");
    state.store_settled(4).unwrap();
    assert_eq!(state.settled(), 4);
}

#[test]
fn c36_acknowledgements_of_an_earlier_release_are_those_of_the_records_at_hand() {
    let state = scratch("acked");
    write(&state, "rollbacks.acked", b"format=1\nid=1\nid=2\n");
    write(&state, "rollbacks/2", b"format=1\nboot_id=b-1\nbegun=7\n");
    assert_eq!(state.acknowledged(), [key(2, "7")].into());
    state.store_acknowledged(&state.acknowledged()).unwrap();
    let text = state.bytes("rollbacks.acked", 4096).unwrap();
    assert_eq!(text, b"format=1\nid=2\nrecord=2 boot=b-1 begun=7\n", "the scripts read the plain number");
    // The folder was emptied: the same number is another record.
    write(&state, "rollbacks/2", b"format=1\nboot_id=b-1\nbegun=8\n");
    assert!(!state.acknowledged().contains(&key(2, "8")));
}
