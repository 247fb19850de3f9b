//! Cases by their numbers.

use super::world::*;
use crate::mesh::delivery::*;
use crate::wire::heartbeat::{OrderState, Refused};

/// Upgrades everybody told and waits for the soak: the next wave is told.
pub fn pass_wave(world: &mut World) {
    for number in world.told() {
        world.upgrade(number);
    }
    world.pass(31 * MINUTE);
}

#[test]
fn c17_c38_one_attempt_a_node_and_one_that_refuses_is_not_asked() {
    let refused = Refused { version: NEW.into(), attempt: 3, reason: "rolled back before".into() };
    let mut world = fleet(10).with(4, |machine, _| machine.beat.refused = vec![refused]).start();
    pass_wave(&mut world);
    let bad = world.told()[0];
    world.fail(bad);
    world.step();
    for _ in 0..50 {
        for number in world.told() {
            world.upgrade(number);
        }
        world.pass(5 * MINUTE);
        assert!(!world.told().contains(&bad), "told a second time");
    }
    assert_eq!(world.rollout.state, State::Complete);
    assert_eq!(world.outcome(bad), "rolled-back");
    assert_eq!(world.why_not(4), "refuses it: rolled back before; to ask again, start with --retry-refused");
    assert_eq!(world.report.verdict.unwrap().kind, VerdictKind::BrokenMachine);
}

#[test]
fn c28_c32_a_rolled_back_canary_is_failed_and_not_silent() {
    let mut world = fleet(10).start();
    let canaries = world.told();
    world.fail(canaries[0]);
    // The other one had begun; it rolls back too, after the stop.
    assert!(world.receive(canaries[1]) && world.claim(canaries[1]));
    world.step();
    let stopped = world.report.stopped_because.clone().unwrap();
    assert_eq!(stopped.kind, StopKind::RolledBack);
    assert_eq!(stopped.begun.len(), 1);
    world.roll_back(canaries[1]);
    world.pass(MINUTE);
    assert_eq!(world.outcome(canaries[1]), "rolled-back");
    let verdict = world.report.verdict.unwrap();
    assert_eq!(verdict.kind, VerdictKind::BrokenRelease);
    let evidence = world.report.nodes[0].evidence.clone().unwrap();
    assert_eq!((evidence.from.as_str(), evidence.status.as_deref()), (NEW, Some("101")));
}

#[test]
fn c67_a_silent_canary_stops_at_the_window_and_a_later_word_changes_the_list_only() {
    let mut world = fleet(12).start();
    let canaries = world.told();
    let lost = canaries[0];
    assert!(world.receive(lost));
    world.beat(lost);
    world.step();
    assert!(world.claim(lost));
    world.machine(lost).alive = false;
    world.upgrade(canaries[1]);
    world.pass(10 * MINUTE);
    assert_eq!(world.rollout.state, State::Running);
    world.pass(30 * SECOND);
    assert_eq!(world.rollout.state, State::Stopped);
    assert_eq!(world.outcome(lost), "silent");
    let stopped = world.report.stopped_because.clone().unwrap();
    assert_eq!(stopped.kind, StopKind::Silence);
    assert!(stopped.text.starts_with("silence: "), "{}", stopped.text);
    // It comes back, on the new version.
    world.machine(lost).alive = true;
    world.start_new(lost);
    world.confirm(lost);
    world.pass(60 * MINUTE);
    assert_eq!((world.rollout.state, world.outcome(lost)), (State::Stopped, "silent"));
    let row = world.report.nodes.iter().find(|n| n.outcome == "silent").unwrap();
    assert_eq!(row.version.as_deref(), Some(NEW));
    assert!(row.detail.as_ref().unwrap().contains("heard later, confirmed on 1.5.0"));
    assert_eq!(world.rollout.waves.len(), 1);
}

#[test]
fn c67_a_stopped_rollout_that_is_stepped_on_changes_its_list_only() {
    // The node that had not begun, and the one that had; both silent, both back hours later.
    for begun in [false, true] {
        let mut world = fleet(12).start();
        let lost = world.told()[0];
        assert!(world.receive(lost));
        world.beat(lost);
        world.step();
        assert!(!begun || world.claim(lost));
        world.machine(lost).alive = false;
        world.pass(11 * MINUTE);
        assert_eq!((world.rollout.state, world.outcome(lost)), (State::Stopped, "silent"));
        let stopped = world.rollout.stopped.clone();
        for back in [false, true] {
            world.machine(lost).alive = back;
            for _ in 0..120 {
                assert!(world.rollout.is_unsettled());
                world.pass(MINUTE);
                assert_eq!(world.acts, []);
            }
        }
        assert_eq!((world.rollout.state, &world.rollout.stopped), (State::Stopped, &stopped));
        let row = world.report.nodes.iter().find(|node| node.outcome == "silent").unwrap();
        assert!(row.detail.as_ref().unwrap().ends_with("; heard later, on 1.4.0"), "{row:?}");
    }
}

#[test]
fn c68_only_confirmed_on_the_target_counts() {
    let mut world = fleet(6).start();
    let canaries = world.told();
    for &number in &canaries {
        assert!(world.receive(number));
        world.beat(number);
        world.step();
        assert!(world.claim(number));
        let beat = &mut world.machine(number).beat;
        beat.order.as_mut().unwrap().state = "installed".into();
        world.beat(number);
    }
    world.step();
    assert_eq!(world.outcome(canaries[0]), "received");
    world.start_new(canaries[0]);
    world.pass(10 * MINUTE);
    assert_eq!(world.outcome(canaries[0]), "waiting");
    assert_eq!(world.rollout.waves.len(), 1, "an unconfirmed canary passed the wave");
    world.roll_back(canaries[0]);
    world.pass(MINUTE);
    assert_eq!(world.outcome(canaries[0]), "rolled-back");
    assert_eq!(world.rollout.state, State::Stopped);
}

#[test]
fn c68_a_confirmed_canary_that_runs_the_old_version_again_closes_the_gate() {
    let mut world = fleet(6).start();
    for number in world.told() {
        world.upgrade(number);
    }
    world.step();
    let first = *world.numbers().iter().find(|n| world.outcome(**n) == "confirmed").unwrap();
    let beat = &mut world.machine(first).beat;
    (beat.version, beat.start) = (OLD.into(), beat.start + 1);
    world.pass(MINUTE);
    assert_eq!(world.rollout.state, State::Stopped);
    assert_eq!(world.outcome(first), "confirmed");
}

#[test]
fn c69_a_canary_whose_machine_cannot_is_replaced_once() {
    let mut world = fleet(10).start();
    let canaries = world.told();
    let fail = |world: &mut World, number: usize| {
        assert!(world.receive(number));
        let order = world.machine(number).beat.order.as_mut().unwrap();
        order.state = "failed".into();
        (order.class, order.reason) = (Some("machine".into()), Some("disk".into()));
        world.beat(number);
        world.step();
    };
    fail(&mut world, canaries[0]);
    assert_eq!(world.outcome(canaries[0]), "install-failed");
    let told = world.told();
    assert_eq!(told.len(), 2);
    let spare = *told.iter().find(|n| !canaries.contains(n)).unwrap();
    fail(&mut world, spare);
    // Two of three: it stops, and says that the release is not to blame.
    assert_eq!(world.rollout.state, State::Stopped);
    assert_eq!(world.report.stopped_because.unwrap().kind, StopKind::InstallFailed);
    assert_ne!(world.report.verdict.unwrap().kind, VerdictKind::BrokenRelease);
}

#[test]
fn c70_a_canary_that_leaves_before_receipt_is_replaced_once_and_catches_up() {
    let mut world = fleet(10).start();
    let canaries = world.told();
    let lost = canaries[0];
    world.machine(lost).alive = false;
    world.pass(10 * MINUTE + 30 * SECOND);
    let told = world.told();
    assert!(told.len() == 2 && !told.contains(&lost), "{told:?}");
    // Too late: its claim is refused, its order withdrawn.
    assert!(world.view.nodes[&id(lost)].order.is_none());
    assert_eq!(claim(&world.rollout, &id(lost), 7), Err(NotGranted::NotTold));
    world.finish_well();
    assert_eq!(world.report.summary, "9/10 on 1.5.0, 1 pending off-line");
    world.machine(lost).alive = true;
    world.pass(MINUTE);
    assert_eq!(world.told(), [lost]);
    world.upgrade(lost);
    world.step();
    assert_eq!(world.report.summary, "10/10 on 1.5.0");
}

#[test]
fn c70_the_replacement_is_not_replaced() {
    let mut world = fleet(10).start();
    let canaries = world.told();
    world.upgrade(canaries[1]);
    world.machine(canaries[0]).alive = false;
    world.pass(11 * MINUTE);
    let spare = world.told();
    assert_eq!(spare.len(), 1);
    world.machine(spare[0]).alive = false;
    world.pass(11 * MINUTE);
    assert_eq!(world.told(), [0usize; 0]);
    // The canary that was heard confirmed is enough to go on.
    world.pass(31 * MINUTE);
    assert_eq!((world.rollout.waves.len(), world.told().len()), (2, 2));
}

#[test]
fn c70_after_receipt_silence_counts_also_after_a_goodbye() {
    for (goodbye, minutes) in [("stopped by a person", 10), ("shutdown", 20), ("suspend", 20)] {
        let mut world = fleet(10).start();
        let lost = world.told()[0];
        assert!(world.receive(lost));
        world.machine(lost).beat.goodbye = Some(goodbye.into());
        world.beat(lost);
        world.step();
        world.machine(lost).alive = false;
        let other = world.told()[1];
        world.upgrade(other);
        world.pass(minutes * MINUTE);
        assert_eq!(world.rollout.state, State::Running, "{goodbye}");
        world.pass(30 * SECOND);
        assert_eq!(world.rollout.state, State::Stopped, "{goodbye}");
    }
}

#[test]
fn c70_a_confirmed_canary_that_goes_silent_in_the_soak_stops_and_one_that_says_goodbye_does_not() {
    for goodbye in [None, Some("shutdown".to_string())] {
        let mut world = fleet(10).start();
        let canaries = world.told();
        for &number in &canaries {
            world.upgrade(number);
        }
        world.step();
        world.machine(canaries[0]).beat.goodbye.clone_from(&goodbye);
        world.beat(canaries[0]);
        world.machine(canaries[0]).alive = false;
        world.pass(12 * MINUTE);
        assert_eq!(world.outcome(canaries[0]), "confirmed");
        assert_eq!(world.rollout.state == State::Stopped, goodbye.is_none());
    }
}

#[test]
fn c72_an_unreachable_release_stops_and_nothing_is_marked_bad() {
    let mut world = fleet(10).start();
    for number in world.told() {
        assert!(world.receive(number));
        let order = world.machine(number).beat.order.as_mut().unwrap();
        order.state = "failed".into();
        (order.class, order.reason) = (Some("machine".into()), Some("unavailable".into()));
        world.beat(number);
    }
    world.step();
    assert_eq!(world.rollout.state, State::Stopped);
    assert!(world.report.stopped_because.unwrap().text.starts_with("release not reachable"));
    assert_eq!(world.report.verdict.unwrap().kind, VerdictKind::MeshOutage);
}

#[test]
fn c73_powered_off_nodes_do_not_keep_the_fleet_upgrading() {
    let mut world = fleet(20).start();
    world.pass(MINUTE);
    for number in
        world.numbers().into_iter().filter(|n| !world.told().contains(n)).take(2).collect::<Vec<_>>()
    {
        world.machine(number).alive = false;
    }
    world.pass(5 * MINUTE);
    world.finish_well();
    assert_eq!(world.report.summary, "18/20 on 1.5.0, 2 pending off-line");
    world.pass(100 * MINUTE);
    let off: Vec<usize> = world.numbers().into_iter().filter(|n| !world.machines[&id(*n)].alive).collect();
    for &number in &off {
        world.machine(number).alive = true;
    }
    world.pass(MINUTE);
    assert_eq!(world.told().len(), 1, "both at once");
    let first = world.told()[0];
    world.fail(first);
    world.pass(MINUTE);
    assert_eq!(world.rollout.state, State::Complete, "a late failure reopened it");
    assert_eq!(world.outcome(first), "rolled-back");
    assert_eq!(world.told().len(), 1);
}

#[test]
fn c74_never_more_than_allowed_whatever_is_restarted() {
    let mut world = fleet(20).start();
    for round in 0..400 {
        world.crash_in_step();
        world.crash_in_step();
        if round % 7 == 0 {
            world.restart_mesh(MINUTE);
        }
        world.pass(MINUTE);
        let told = world.told();
        assert!(told.len() <= 2, "{told:?}");
        if round % 3 == 0
            && let Some(&number) = told.first()
            && world.view.nodes[&id(number)].order.is_some()
        {
            world.upgrade(number);
        }
        if world.rollout.state == State::Complete {
            return;
        }
    }
    panic!("not complete: {}", world.report.text());
}

#[test]
fn c74_a_node_that_began_and_was_lost_keeps_its_place_for_as_long_as_it_may_be_changing() {
    let mut world = fleet(12).start_with(Plan { soak_ms: MINUTE, ..Plan::default() });
    for number in world.told() {
        world.upgrade(number);
    }
    world.pass(3 * MINUTE);
    let told = world.told();
    assert!(world.receive(told[0]) && world.claim(told[0]));
    world.machine(told[0]).alive = false;
    world.upgrade(told[1]);
    world.pass(14 * MINUTE);
    assert_eq!((world.outcome(told[0]), world.told().len()), ("silent", 1));
    let next = world.told()[0];
    world.pass(15 * MINUTE);
    world.upgrade(next);
    world.pass(10 * MINUTE);
    assert_eq!(world.told().len(), 1);
    let next = world.told()[0];
    world.pass(10 * MINUTE);
    world.upgrade(next);
    world.pass(3 * MINUTE);
    assert_eq!(world.told().len(), 2);
}

#[test]
fn c75_c76_after_a_stop_nobody_begins_and_who_has_begun_finishes() {
    let mut world = fleet(10).start();
    let canaries = world.told();
    for &number in &canaries {
        assert!(world.receive(number));
        world.beat(number);
    }
    world.step();
    assert!(world.claim(canaries[0]));
    world.rollout = abort(&world.rollout, "wrong file", &world.view, world.now);
    assert!(!world.claim(canaries[1]), "a claim after the stop");
    assert_eq!(claim(&world.rollout, &id(canaries[0]), 7), Err(NotGranted::Stopped));
    world.step();
    assert_eq!(world.acts, [Action::Withdraw { node: id(canaries[1]), attempt: 7 }]);
    // An order that got lost is not given again, not even to a node that had begun.
    world.view.nodes.get_mut(&id(canaries[0])).unwrap().order = None;
    world.step();
    assert_eq!(world.acts, []);
    world.start_new(canaries[0]);
    world.confirm(canaries[0]);
    world.pass(60 * MINUTE);
    assert_eq!(world.outcome(canaries[0]), "confirmed");
    assert_eq!(world.outcome(canaries[1]), "withdrawn");
    let said = world.report.stopped_because.unwrap();
    assert_eq!((said.text.as_str(), said.begun.len()), ("stopped by a person: wrong file", 1));
}

#[test]
fn c77_putting_off_is_not_a_failure() {
    let mut world = fleet(10).start();
    let canaries = world.told();
    let slow = canaries[0];
    assert!(world.receive(slow));
    let order: &mut OrderState = world.machine(slow).beat.order.as_mut().unwrap();
    (order.state, order.reason) = ("deferred".into(), Some("held".into()));
    world.upgrade(canaries[1]);
    world.pass(29 * MINUTE);
    assert_eq!(world.outcome(slow), "deferred");
    assert_eq!(world.told(), [slow]);
    world.pass(3 * MINUTE);
    let told = world.told();
    assert!(told.len() == 1 && told != [slow], "not replaced: {told:?}");
    assert_eq!(world.rollout.state, State::Running);
    assert_eq!(world.report.verdict, None);
}

#[test]
fn c79_every_lost_acknowledgement_is_made_up_for_by_the_next_heartbeat() {
    let mut world = fleet(6).start();
    for number in world.told() {
        // Nothing is heard until it is over.
        assert!(world.receive(number) && world.claim(number));
        world.start_new(number);
        world.confirm(number);
        world.beat(number);
    }
    world.step();
    assert!(world.report.nodes.iter().all(|node| node.outcome == "confirmed"));
    // Of a rollback, only the refusal that follows from it is left.
    let mut world = fleet(6).start();
    let number = world.told()[0];
    assert!(world.receive(number) && world.claim(number));
    world.roll_back(number);
    world.machine(number).beat.rollbacks.clear();
    world.beat(number);
    world.step();
    assert_eq!((world.outcome(number), world.rollout.state), ("rolled-back", State::Stopped));
}

#[test]
fn c81_a_late_statement_of_the_old_process_neither_confirms_nor_fails() {
    let mut world = fleet(6).start();
    let number = world.told()[0];
    assert!(world.receive(number));
    world.now += SECOND;
    world.beat(number);
    let late = world.machine(number).beat.clone();
    world.step();
    assert_eq!(world.outcome(number), "received");
    assert!(world.claim(number));
    world.start_new(number);
    world.confirm(number);
    world.now += 3 * SECOND;
    world.beat(number);
    world.step();
    assert_eq!(world.outcome(number), "confirmed");
    world.heard(number, &late);
    world.step();
    assert_eq!(world.outcome(number), "confirmed");
    assert_eq!(world.report.nodes[0].detail, None);
}

#[test]
fn c88_a_jump_of_the_clock_and_a_restart_neither_stop_nor_pass() {
    let mut world = fleet(10).start();
    let canaries = world.told();
    assert!(world.receive(canaries[0]));
    world.beat(canaries[0]);
    world.step();
    world.machine(canaries[0]).alive = false;
    world.upgrade(canaries[1]);
    world.pass(9 * MINUTE);
    for _ in 0..5 {
        world.restart_mesh(60 * MINUTE);
        world.step();
        assert_eq!(world.rollout.state, State::Running, "time that nobody listened was counted");
        world.pass(5 * MINUTE);
        assert_eq!(world.rollout.state, State::Running);
    }
    world.pass(6 * MINUTE);
    assert_eq!(world.rollout.state, State::Stopped);
    // The soak is listening time too.
    let mut world = fleet(10).start();
    for number in world.told() {
        world.upgrade(number);
    }
    world.pass(10 * MINUTE);
    world.view.listening = world.view.listening.deafen();
    world.now += 120 * MINUTE;
    world.step();
    assert_eq!((world.rollout.state, world.rollout.waves.len()), (State::Holding, 1));
    world.restart_mesh(MINUTE);
    world.step();
    world.pass(5 * MINUTE);
    assert_eq!((world.rollout.state, world.rollout.waves.len()), (State::Running, 1));
}

#[test]
fn c81_a_confirmation_comes_from_a_later_process_than_the_one_that_was_told() {
    let mut world = fleet(6).start();
    let number = world.told()[0];
    assert!(world.receive(number));
    let beat = &mut world.machine(number).beat;
    beat.version = NEW.into();
    world.beat(number);
    world.step();
    assert_eq!(world.outcome(number), "waiting");
    world.machine(number).beat.start += 1;
    world.beat(number);
    world.step();
    assert_eq!(world.outcome(number), "confirmed");
}
