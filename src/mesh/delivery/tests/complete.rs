//! When a rollout is complete, and what becomes of the nodes that come back afterwards.

use super::cases::pass_wave;
use super::world::*;
use crate::mesh::delivery::*;

/// All but the told ones are quiet, or heard again.
fn others(world: &mut World, alive: bool) {
    let told: Vec<usize> =
        world.numbers().into_iter().filter(|n| world.rollout.members[&id(*n)].told.is_some()).collect();
    for number in world.numbers().into_iter().filter(|n| !told.contains(n)) {
        world.machine(number).alive = alive;
    }
}

/// A fleet of eight, complete, six of them away.
fn six_away() -> World {
    let mut world = fleet(8).start();
    for number in world.told() {
        world.upgrade(number);
    }
    others(&mut world, false);
    world.pass(31 * MINUTE);
    assert_eq!(world.rollout.state, State::Complete);
    assert_eq!(world.report.summary, "2/8 on 1.5.0, 6 pending off-line");
    world
}

#[test]
fn a_short_absence_of_the_rest_is_not_the_end() {
    for restart in [false, true] {
        let mut world = fleet(8).start();
        for number in world.told() {
            world.upgrade(number);
        }
        world.pass(28 * MINUTE);
        others(&mut world, false);
        if restart {
            world.restart_mesh(60 * MINUTE);
        }
        world.pass(5 * MINUTE);
        assert_eq!((world.rollout.state, world.told().len()), (State::Running, 0));
        let wait = world.report.waiting_for.iter().find(|wait| wait.reason == "node_online").unwrap();
        assert!(wait.name.is_some() && wait.left_ms.is_some_and(|left| left <= 6 * MINUTE), "{wait:?}");
        // They are back: a wave like any other, which stops when both of it fail.
        others(&mut world, true);
        world.pass(MINUTE);
        let told = world.told();
        assert_eq!(told.len(), 2);
        for number in told {
            assert!(world.receive(number) && world.claim(number));
            world.roll_back(number);
        }
        world.pass(60 * MINUTE);
        assert_eq!(world.rollout.state, State::Stopped);
        assert_eq!(world.report.stopped_because.unwrap().kind, StopKind::RolledBack);
        assert_eq!(world.report.nodes.len(), 4);
    }
}

#[test]
fn c88_the_end_of_an_outage_is_not_the_end_of_the_rollout() {
    let mut world = fleet(8).start_with(Plan { soak_ms: 2 * MINUTE, ..Plan::default() });
    for number in world.told() {
        world.upgrade(number);
    }
    world.outage = true;
    world.pass(60 * MINUTE);
    world.outage = false;
    // The others take a little longer to be heard again.
    others(&mut world, false);
    world.pass(4 * MINUTE);
    assert_eq!((world.rollout.state, world.told().len()), (State::Running, 0), "{}", world.report.text());
    others(&mut world, true);
    world.pass(MINUTE);
    assert_eq!(world.told().len(), 2);
}

#[test]
fn c73_the_second_failure_of_those_who_catch_up_stops() {
    let mut world = six_away();
    others(&mut world, true);
    world.pass(MINUTE);
    let first = world.told();
    assert_eq!(first.len(), 1, "all at once");
    world.pass(5 * MINUTE);
    assert_eq!(world.told(), first, "another one before the first was decided");
    world.fail(first[0]);
    world.step();
    assert_eq!(world.rollout.state, State::Complete);
    let failed = world.report.waves.iter().find(|wave| wave.nodes == [id(first[0]).to_string()]).unwrap();
    assert_eq!(failed.state, "not_passed");
    assert!(world.report.verdict.is_some());
    // One that does well in between takes nothing back.
    let good = world.told()[0];
    world.upgrade(good);
    world.step();
    let second = world.told()[0];
    world.fail(second);
    world.pass(60 * MINUTE);
    assert_eq!((world.rollout.state, world.told().len()), (State::Stopped, 0));
    let why = world.report.stopped_because.clone().unwrap();
    assert_eq!((why.kind, why.text.contains(&format!("web0{second}"))), (StopKind::RolledBack, true));
    assert_eq!(world.report.nodes.len(), 5);
    assert_eq!(world.report.waves.last().unwrap().state, "not_passed");
}

#[test]
fn a_last_wave_whose_node_failed_is_not_called_passed() {
    let mut world = six_away();
    assert_eq!(world.report.waves.last().unwrap().state, "passed");
    let late = world.numbers().into_iter().find(|n| world.outcome(*n) == "not told").unwrap();
    world.machine(late).alive = true;
    world.pass(MINUTE);
    world.fail(late);
    world.pass(5 * MINUTE);
    assert_eq!((world.rollout.state, world.report.waves.len()), (State::Complete, 2));
    assert_eq!(world.report.waves[1].state, "not_passed");
}

#[test]
fn c73_silence_of_those_who_catch_up_counts_and_the_machines_fault_does_not() {
    let mut world = six_away();
    others(&mut world, true);
    world.pass(MINUTE);
    // Their disks are full: reported, and no reason to stop.
    for _ in 0..3 {
        let number = world.told()[0];
        assert!(world.receive(number));
        let order = world.machine(number).beat.order.as_mut().unwrap();
        order.state = "failed".into();
        (order.class, order.reason) = (Some("machine".into()), Some("disk".into()));
        world.beat(number);
        world.step();
        assert_eq!(world.rollout.state, State::Complete);
    }
    for state in [State::Complete, State::Stopped] {
        let number = world.told()[0];
        assert!(world.receive(number) && world.claim(number));
        world.machine(number).alive = false;
        world.pass(11 * MINUTE);
        assert_eq!((world.outcome(number), world.rollout.state), ("silent", state));
    }
    assert_eq!(world.report.stopped_because.unwrap().kind, StopKind::Silence);
}

#[test]
fn nodes_that_leave_after_it_was_complete_reopen_nothing() {
    let mut world = fleet(12).start();
    pass_wave(&mut world);
    world.finish_well();
    for number in world.numbers() {
        world.machine(number).alive = number == 1;
    }
    world.pass(60 * MINUTE);
    assert_eq!(world.rollout.state, State::Complete);
}

#[test]
fn a_closed_rollout_grants_nothing_and_takes_back_what_has_not_begun() {
    let running = fleet(8).start();
    assert_eq!(close(&running.rollout), running.rollout, "only a complete rollout is closed");
    for begun in [false, true] {
        let mut world = six_away();
        others(&mut world, true);
        world.pass(MINUTE);
        let late = world.told()[0];
        assert!(world.receive(late));
        world.beat(late);
        world.step();
        assert!(!begun || world.claim(late));
        world.rollout = close(&world.rollout);
        assert_eq!(claim(&world.rollout, &id(late), 7), Err(NotGranted::Closed));
        world.crash_in_step();
        world.step();
        let withdrawn = [Action::Withdraw { node: id(late), attempt: 7 }];
        assert_eq!(world.acts, if begun { &[][..] } else { &withdrawn[..] });
        assert_eq!(world.rollout.is_unsettled(), begun);
        if begun {
            world.roll_back(late);
        }
        world.pass(60 * MINUTE);
        assert_eq!(world.outcome(late), if begun { "rolled-back" } else { "withdrawn" });
        assert_eq!(
            (world.rollout.state, world.told().len(), world.report.nodes.len()),
            (State::Complete, 0, 3)
        );
        assert!(!world.rollout.is_unsettled());
    }
}

#[test]
fn what_a_node_said_before_it_fell_silent_does_not_put_it_there() {
    let mut fleet = fleet(3).with(1, |machine, _| machine.beat.version = NEW.into());
    fleet.hear_all();
    let mut world = fleet.start();
    assert_eq!(world.why_not(1), "already there");
    world.machine(1).alive = false;
    world.pass(3 * MINUTE);
    assert_eq!(world.why_not(1), "offline: not heard recently");
}
