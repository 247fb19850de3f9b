//! No rollback is overlooked, and a lost list follows from the records again.

use super::super::state::tests::{scratch, write};
use super::*;

fn v(text: &str) -> Version {
    text.parse().unwrap()
}

fn record(state: &State, id: u64, from: &str, to: &str, attempt: u64, begun: u64) {
    let text = format!(
        "format=1\nid={id}\nfrom={from}\nto={to}\nattempt={attempt}\nrollout=r-1\nboot_id=b-1\n\
         begun={begun}\ntries=1\nstate=rolled-back\nreason=none\nresult=watchdog\n"
    );
    write(state, &format!("rollbacks/{id}"), text.as_bytes());
}

fn attempt_of(history: &History, version: &str) -> Option<Attempt> {
    history.refused.iter().find(|(known, _)| **known == v(version)).map(|(_, entry)| entry.attempt)
}

#[test]
fn a_record_whose_number_was_used_before_is_a_new_one() {
    let state = scratch("history-numbers");
    for id in 1..=3 {
        record(&state, id, "1.5.0", "1.4.0", id, id);
    }
    let mut history = History::load(&state);
    history.read(&state, None).unwrap().unwrap();
    assert_eq!(attempt_of(&history, "1.5.0"), Some(3));
    history.settle(&state).unwrap().unwrap();
    assert_eq!(state.settled(), 3);
    assert!(history.read(&state, None).is_none(), "nothing is new");
    // Somebody empties the folder; the next rollback gets number 1 again.
    for id in 1..=3 {
        state.remove(&format!("rollbacks/{id}")).unwrap();
    }
    record(&state, 1, "1.6.0", "1.4.0", 4, 99);
    let mut after_a_start = History::load(&state);
    for history in [&mut after_a_start, &mut history] {
        history.read(&state, None).unwrap().unwrap();
        assert_eq!((attempt_of(history, "1.5.0"), attempt_of(history, "1.6.0")), (Some(3), Some(4)));
    }
    assert!(History::load(&state).read(&state, None).is_none(), "known after a start too");
}

#[test]
fn the_attempt_that_is_declared_at_a_failure_is_answered_by_it() {
    let state = scratch("history-first");
    History::load(&state).read(&state, None).unwrap().unwrap();
    record(&state, 1, "1.5.0", "1.4.0", 3, 1);
    let declared = v("1.5.0");
    let mut history = History::load(&state);
    history.read(&state, Some((&declared, 4))).unwrap().unwrap();
    assert_eq!(attempt_of(&history, "1.5.0"), Some(4), "the first rollback of all is not an old one");
}

#[test]
fn c36_a_list_of_an_earlier_release_knows_its_records_by_number() {
    let state = scratch("history-earlier");
    write(&state, "refused", b"format=1\nthrough=2\nrefused=version=1.5.0 attempt=2 reason=watchdog\n");
    record(&state, 2, "1.3.0", "1.4.0", 1, 1);
    let mut history = History::load(&state);
    assert!(history.read(&state, None).is_none(), "2 is known");
    record(&state, 3, "1.6.0", "1.4.0", 4, 2);
    history.read(&state, None).unwrap().unwrap();
    assert_eq!(attempt_of(&history, "1.3.0"), None);
    assert_eq!((attempt_of(&history, "1.5.0"), attempt_of(&history, "1.6.0")), (Some(2), Some(4)));
    let text = String::from_utf8(state.bytes("refused", 4096).unwrap()).unwrap();
    assert!(text.contains("through=3\n") && text.contains("record=3 boot=b-1 begun=2\n"), "{text}");
}

#[test]
fn e11_a_lost_list_is_made_again_from_every_record() {
    for lost in [None, Some(&b"\0\0\0"[..])] {
        let state = scratch("history-lost");
        state.store_known_good(&v("1.4.0")).unwrap();
        record(&state, 1, "1.4.0", "1.3.0", 1, 1);
        record(&state, 2, "1.3.9", "1.3.0", 2, 2);
        record(&state, 3, "1.5.0", "1.3.9", 3, 3);
        record(&state, 4, "1.6.0", "1.4.0", 4, 4);
        record(&state, 5, "1.7.0", "1.4.0", 0, 5);
        state.store_settled(5).unwrap();
        if let Some(bytes) = lost {
            write(&state, "refused", bytes);
        }
        let declared = v("1.6.0");
        let mut history = History::load(&state);
        history.read(&state, Some((&declared, 9))).unwrap().unwrap();
        let refused: Vec<_> =
            history.refused.iter().map(|(version, e)| (version.to_string(), e.attempt)).collect();
        let expected = [("1.5.0", 3), ("1.6.0", 4), ("1.7.0", 0)].map(|(version, n)| (version.to_owned(), n));
        assert_eq!(
            refused, expected,
            "without 1.4.0 (known-good) and 1.3.9 (was known-good); 9 is a new wish"
        );
        assert!(History::load(&state).read(&state, None).is_none(), "stored");
    }
}
