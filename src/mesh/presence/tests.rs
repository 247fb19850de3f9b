//! The fold's rules: order, duplicates, transitions, silence in listening time.

use super::*;
use crate::wire::heartbeat::{Failure, Heartbeat, OrderState, Refused, Rollback};
use proptest::prelude::*;

fn beat(boot: &str, start: u64, sequence: u64) -> Heartbeat {
    Heartbeat {
        format: 1,
        node: "n-1".into(),
        boot: boot.into(),
        start,
        sequence,
        version: "1.4.0".into(),
        confirmed: true,
        armed: true,
        ..Default::default()
    }
}

fn heard(beats: &[Heartbeat]) -> (Presence, Vec<Transition>) {
    let mut presence = Presence::default();
    let mut all = Vec::new();
    for (index, beat) in beats.iter().enumerate() {
        let (next, changes) = hear(presence, beat, 1000 * (index as u64 + 1));
        presence = next;
        all.extend(changes);
    }
    (presence, all)
}

#[test]
fn a_first_heartbeat_and_a_quiet_second_one() {
    let (presence, changes) = heard(&[beat("a", 1, 1), beat("a", 1, 2)]);
    assert_eq!(changes, [Transition::FirstHeard, Transition::Confirmed("1.4.0".into())]);
    assert_eq!((presence.heard_at, presence.present_since, presence.boot_epoch), (Some(2000), 1000, 1));
}

#[test]
fn c81_an_older_statement_and_a_duplicate_change_nothing() {
    let mut newer = beat("a", 2, 1);
    newer.version = "1.5.0".into();
    let (before, _) = heard(&[beat("a", 1, 7), newer.clone()]);
    for late in [beat("a", 1, 8), beat("a", 1, 7), newer] {
        let (after, changes) = hear(before.clone(), &late, 99_000);
        assert_eq!((after, changes), (before.clone(), vec![]));
    }
}

#[test]
fn a_new_boot_with_a_lower_start_id_opens_an_epoch_and_the_old_boot_stays_over() {
    let (before, _) = heard(&[beat("a", 9, 9), beat("b", 1, 1)]);
    assert_eq!((before.boot_epoch, before.spoke.boot.as_str()), (2, "b"));
    let (after, changes) = hear(before.clone(), &beat("a", 9, 9), 5000);
    assert_eq!((after, changes), (before, vec![]));
}

#[test]
fn a_cloned_disk_is_noticed_at_its_second_statement() {
    let beats = [beat("a", 1, 1), beat("b", 2, 1), beat("a", 1, 2), beat("b", 2, 2), beat("a", 1, 3)];
    let (presence, changes) = heard(&beats);
    assert!(presence.duplicated);
    assert_eq!(changes.iter().filter(|c| **c == Transition::DuplicatedIdentity).count(), 1);
    assert_eq!(presence.spoke.boot, "b");
}

#[test]
fn c28_a_rollback_is_told_once_and_kept_and_told_again_when_it_says_more() {
    let mut with = beat("a", 2, 1);
    let record = Rollback { id: 1, boot: "a".into(), outcome: "failed".into(), ..Default::default() };
    with.rollbacks = vec![record.clone()];
    let mut again = with.clone();
    again.sequence = 2;
    let mut more = with.clone();
    more.sequence = 3;
    more.rollbacks = vec![Rollback { outcome: "rolled-back".into(), ..record }];
    let (presence, changes) = heard(&[beat("a", 1, 1), with, again, more, beat("a", 2, 4)]);
    let told: Vec<&str> = changes
        .iter()
        .filter_map(|c| if let Transition::RolledBack(r) = c { Some(r.outcome.as_str()) } else { None })
        .collect();
    assert_eq!(told, ["failed", "rolled-back"]);
    assert_eq!(presence.rollbacks.len(), 1);
}

#[test]
fn each_change_is_one_transition() {
    let mut changed = beat("a", 2, 1);
    changed.version = "1.5.0".into();
    changed.confirmed = false;
    changed.order = Some(OrderState { state: "installed".into(), ..Default::default() });
    changed.refused = vec![Refused { version: "1.3.0".into(), ..Default::default() }];
    let mut confirmed = changed.clone();
    confirmed.sequence = 2;
    confirmed.confirmed = true;
    let (presence, changes) = heard(&[beat("a", 1, 1), changed, confirmed]);
    assert_eq!(
        changes.get(2..).unwrap(),
        [
            Transition::VersionChanged("1.4.0".into(), "1.5.0".into()),
            Transition::OrderChanged(presence.order.clone()),
            Transition::RefusedChanged(presence.refused.clone()),
            Transition::Confirmed("1.5.0".into()),
        ]
    );
}

#[test]
fn leaving_is_not_silence() {
    let mut goodbye = beat("a", 1, 2);
    goodbye.goodbye = Some("shutdown".into());
    let listening = Listening { epoch: 1, since: 0, hears: true };
    let (gone, changes) = heard(&[beat("a", 1, 1), goodbye]);
    assert!(changes.contains(&Transition::SaidGoodbye("shutdown".into())));
    let (gone, changes) = look(gone, &listening, 90_000, 10_000_000);
    assert_eq!(changes, []);
    let (back, changes) = hear(gone, &beat("b", 2, 1), 10_000_000);
    assert_eq!(changes, [Transition::CameBack]);
    assert_eq!((back.goodbye, back.present_since, back.absences), (None, 10_000_000, 1));
}

#[test]
fn c88_silence_is_counted_in_listening_time_only() {
    let (presence, _) = heard(&[beat("a", 1, 1)]);
    let first = Listening::default().begin(0);
    let rows = [
        // (listening, now, silent)
        (first, 91_000, false),
        (first, 91_001, true),
        (first.deafen(), 10_000_000, false),
        (first.deafen().begin(9_950_000), 10_000_000, false),
        (first.deafen().begin(9_950_000), 10_040_001, true),
    ];
    for (listening, now, silent) in rows {
        let (after, changes) = look(presence.clone(), &listening, 90_000, now);
        assert_eq!(changes == [Transition::WentSilent], silent, "{listening:?} {now}");
        assert_eq!(after.silent_at.is_some(), silent);
        // Told once.
        assert_eq!(
            look(after, &listening, 90_000, now + 1).1.is_empty(),
            silent || !listening.hears || now != 91_000
        );
    }
}

/// A heartbeat whose every text would draw on a terminal, or fill a screen.
fn forged() -> Heartbeat {
    let text = || format!("\u{1b}[2J\r\nweb09 confirmed\u{9b}{}", "x".repeat(2000));
    let said = || Some(text());
    Heartbeat {
        boot: text(),
        version: text(),
        known_good: said(),
        unarmed_because: said(),
        failures: vec![Failure { name: text(), error: text() }; 100],
        refused: vec![Refused { version: text(), attempt: 1, reason: text() }; 100],
        order: Some(OrderState {
            rollout: text(),
            attempt: 1,
            version: text(),
            state: text(),
            class: said(),
            reason: said(),
            detail: said(),
        }),
        rollbacks: vec![Rollback {
            boot: text(),
            from: text(),
            to: text(),
            rollout: said(),
            outcome: text(),
            reason: text(),
            result: said(),
            code: said(),
            status: said(),
            log: vec![text(); 100],
            ..Default::default()
        }],
        declaration_refused: said(),
        goodbye: said(),
        ..beat("a", 2, 1)
    }
}

#[test]
fn what_a_node_says_neither_draws_on_a_terminal_nor_fills_it() {
    let (presence, changes) = heard(&[beat("a", 1, 1), Heartbeat { confirmed: true, ..forged() }]);
    let texts = format!("{changes:?} {}", serde_json::to_string(&presence).unwrap());
    assert!(!texts.contains('\\'), "a control character was written with an escape: {texts}");
    assert!(!texts.contains(&"x".repeat(LINE_BYTES_MAX)), "a text was not cut");
    let record = presence.rollbacks.first().unwrap();
    assert_eq!((record.log.len(), presence.refused.len(), presence.failures.len()), (40, 8, 8));
    assert!(record.from.starts_with("?[2J??web09 confirmed?xxx"), "{}", record.from);
    // The same process says something again: it is known by what was kept of its boot id.
    let again = Heartbeat { sequence: 2, ..forged() };
    assert_eq!(hear(presence, &again, 9000).0.boot_epoch, 2);
}

#[test]
fn a_checkpoint_is_read_as_it_was_written() {
    let (presence, _) = heard(&[beat("a", 1, 1), beat("b", 2, 1)]);
    let text = serde_json::to_string(&presence).unwrap();
    assert_eq!(serde_json::from_str::<Presence>(&text).unwrap(), presence);
}

proptest! {
    /// What is heard in order, plus any duplicates and late statements in between, gives what the order
    /// alone gives (apart from the time of hearing).
    #[test]
    fn duplicates_and_reordering_change_nothing(
        starts in prop::collection::vec((0u64..3, 0u64..3), 1..12),
        noise in prop::collection::vec((0usize..12, 0usize..12), 0..24),
    ) {
        let (mut boot, mut start, mut sequence) = (0u64, 1u64, 0u64);
        let mut beats = Vec::new();
        for (jump, version) in starts {
            sequence += 1;
            if jump == 1 { start += 1; sequence = 1; }
            if jump == 2 { boot += 1; start += 1; sequence = 1; }
            let mut next = beat(&format!("boot-{}", boot % 1000), start, sequence);
            next.version = format!("1.{version}.0");
            beats.push(next);
        }
        let (wanted, told) = heard(&beats);
        let mut presence = Presence::default();
        let mut all = Vec::new();
        for (index, one) in beats.iter().enumerate() {
            let (next, changes) = hear(presence, one, 1000 * (index as u64 + 1));
            presence = next;
            all.extend(changes);
            for (_, old) in noise.iter().filter(|(at, _)| *at == index) {
                // Of the boots that are remembered; an older one cannot be told from a new machine.
                let late = beats.iter().take(index + 1).nth(*old);
                if let Some(late) = late.filter(|b| presence.spoke.boot == b.boot
                    || presence.earlier_boots.iter().any(|e| e.boot == b.boot)) {
                    let (next, changes) = hear(presence.clone(), late, 1_000_000);
                    prop_assert_eq!(&next, &presence);
                    prop_assert_eq!(changes, vec![]);
                }
            }
        }
        prop_assert_eq!(presence, wanted);
        prop_assert_eq!(all, told);
    }
}
