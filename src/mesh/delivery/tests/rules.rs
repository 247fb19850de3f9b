//! Delivery's rules that have no case number.

use super::cases::pass_wave;
use super::world::*;
use crate::mesh::delivery::*;
use crate::wire::heartbeat::Refused;

#[test]
fn a_good_release_reaches_everyone_in_waves() {
    for count in [1, 2, 3, 5, 6, 12, 20, 40] {
        let mut world = fleet(count).start();
        world.finish_well();
        assert_eq!(world.report.summary, format!("{count}/{count} on {NEW}"));
        assert_eq!(world.report.verdict, None);
        let largest = world.rollout.waves.iter().map(|w| w.nodes.len()).max().unwrap();
        assert!(count > 20 || largest <= 2, "{count} nodes, a wave of {largest}");
        let canaries = world.rollout.waves[0].nodes.len();
        assert_eq!(canaries, if count <= 5 { 1 } else { 2 });
    }
}

#[test]
fn an_outage_holds_and_is_no_stop() {
    let mut world = fleet(10).start();
    let canaries = world.told();
    assert!(world.receive(canaries[0]) && world.receive(canaries[1]));
    world.pass(MINUTE);
    for number in world.numbers() {
        world.machine(number).alive = false;
    }
    world.pass(60 * MINUTE);
    assert_eq!(world.rollout.state, State::Holding);
    assert_eq!(world.report.verdict.clone().unwrap().kind, VerdictKind::MeshOutage);
    assert_eq!(claim(&world.rollout, &id(canaries[0]), 7), Err(NotGranted::Holding));
    for number in world.numbers() {
        world.machine(number).alive = number != canaries[0];
    }
    world.pass(9 * MINUTE);
    assert_eq!(world.rollout.state, State::Running);
    world.pass(3 * MINUTE);
    assert_eq!(world.rollout.state, State::Stopped, "the window starts again when the hold ends");
}

#[test]
fn one_quiet_node_outside_the_wave_is_no_outage() {
    let mut world = fleet(3).start();
    let canary = world.told()[0];
    assert!(world.receive(canary));
    world.beat(canary);
    world.step();
    let other = world.numbers().into_iter().find(|n| *n != canary).unwrap();
    world.machine(canary).alive = false;
    world.machine(other).alive = false;
    world.pass(11 * MINUTE);
    assert_eq!(world.rollout.state, State::Stopped);
}

#[test]
fn a_window_shorter_than_the_heartbeats_calls_nobody_silent() {
    let mut world = fleet(3).start_with(Plan { window_ms: SECOND, ..Plan::default() });
    let canary = world.told()[0];
    assert!(world.receive(canary));
    world.pass(5 * MINUTE);
    assert_eq!(world.outcome(canary), "received");
}

#[test]
fn a_canary_alive_on_the_old_version_fails_at_its_deadline() {
    let mut world = fleet(10).start();
    let canaries = world.told();
    assert!(world.receive(canaries[0]));
    world.upgrade(canaries[1]);
    world.pass(29 * MINUTE);
    assert_eq!(world.rollout.state, State::Running);
    world.pass(2 * MINUTE);
    assert_eq!(world.outcome(canaries[0]), "not-confirmed");
    assert_eq!(world.report.stopped_because.unwrap().kind, StopKind::NotConfirmed);
}

#[test]
fn one_silent_node_of_a_later_wave_is_listed_and_two_of_two_stop() {
    for silent in [1, 2] {
        let mut world = fleet(12).start();
        pass_wave(&mut world);
        let told = world.told();
        assert_eq!(told.len(), 2);
        for (index, &number) in told.iter().enumerate() {
            if index < silent {
                assert!(world.receive(number));
                world.beat(number);
                world.step();
                world.machine(number).alive = false;
            } else {
                world.upgrade(number);
            }
        }
        world.pass(45 * MINUTE);
        assert_eq!(world.outcome(told[0]), "silent");
        assert_eq!(world.rollout.state == State::Stopped, silent == 2);
        if silent == 2 {
            assert_eq!(world.report.stopped_because.unwrap().kind, StopKind::Silence);
        }
    }
}

#[test]
fn each_stratum_has_its_canaries_and_one_whose_nodes_were_away_begins_alone() {
    let mut fleet = fleet(30);
    for number in 1..=10 {
        fleet = fleet.with(number, |_, node| node.facts = facts("arm64"));
    }
    for number in 11..=15 {
        fleet = fleet.with(number, |machine, node| {
            node.facts = facts("riscv64");
            machine.beat.goodbye = Some("shutdown".into());
        });
    }
    let mut world = fleet.start();
    let told = world.told();
    let arm = told.iter().filter(|n| **n <= 10).count();
    assert_eq!((told.len(), arm), (4, 2));
    for number in 11..=15 {
        world.machine(number).alive = false;
    }
    pass_wave(&mut world);
    let told = world.told();
    assert!(told.len() == 2 && told.iter().all(|n| !(11..=15).contains(n)), "{told:?}");
    for number in 11..=15 {
        let machine = world.machine(number);
        (machine.alive, machine.beat.goodbye) = (true, None);
    }
    pass_wave(&mut world);
    let told = world.told();
    assert!(told.len() == 1 && (11..=15).contains(&told[0]), "{told:?}");
    assert!(world.rollout.waves.last().unwrap().canary);
}

#[test]
fn a_node_taken_out_of_the_fleet_leaves_the_sums() {
    let mut world = fleet(10).start();
    let canaries = world.told();
    world.view.nodes.remove(&id(canaries[0]));
    world.machines.remove(&id(canaries[0]));
    world.step();
    assert!(!world.told().contains(&canaries[0]));
    world.finish_well();
    assert_eq!(world.report.summary, "9/9 on 1.5.0");
    assert_eq!(world.why_not(canaries[0]), "no longer in the fleet");
}

#[test]
fn a_release_that_dies_later_takes_upgraded_nodes_along_and_is_no_outage() {
    let mut world = fleet(12).start();
    for _ in 0..3 {
        pass_wave(&mut world);
    }
    for number in world.told() {
        world.upgrade(number);
    }
    world.step();
    // Everybody on the new version dies within the soak of the current wave.
    for number in world.numbers() {
        let machine = world.machine(number);
        machine.alive = machine.beat.version == OLD;
    }
    world.pass(12 * MINUTE);
    assert_eq!(world.rollout.state, State::Stopped);
    assert_eq!(world.report.stopped_because.unwrap().kind, StopKind::Silence);
}

#[test]
fn two_failures_heard_in_two_later_waves_stop() {
    let mut world = fleet(60).start();
    for _ in 0..3 {
        pass_wave(&mut world);
    }
    for state in [State::Running, State::Stopped] {
        let told = world.told();
        world.fail(told[0]);
        world.step();
        assert_eq!(world.rollout.state, state);
        for number in world.told() {
            world.upgrade(number);
        }
        world.pass(31 * MINUTE);
    }
    assert_eq!(world.report.verdict.unwrap().kind, VerdictKind::BrokenRelease);
}

#[test]
fn one_silent_laptop_in_a_large_wave_does_not_stop_and_eleven_of_twelve_do() {
    for silent in [1, 5, 11] {
        let mut world = fleet(60).start();
        for _ in 0..3 {
            pass_wave(&mut world);
        }
        let told = world.told();
        assert_eq!(told.len(), 12);
        for (index, &number) in told.iter().enumerate() {
            assert!(world.receive(number));
            world.beat(number);
            world.step();
            if index < silent {
                world.machine(number).alive = false;
            } else {
                assert!(world.claim(number));
                world.start_new(number);
                world.confirm(number);
            }
        }
        world.pass(12 * MINUTE);
        assert_eq!(world.rollout.state == State::Stopped, silent == 11, "{silent} of 12");
    }
}

/// Nobody but the report itself breaks its lines, whatever a node or a person says.
#[test]
fn nothing_that_is_said_reaches_a_terminal_as_it_is() {
    let evil = || "\u{1b}[2J\r\nverdict: fine\u{9b}".to_string();
    let mut world = fleet(8)
        .with(1, |machine, _| machine.beat.goodbye = Some(evil()))
        .with(2, |machine, _| (machine.beat.armed, machine.beat.unarmed_because) = (false, Some(evil())))
        .with(3, |machine, _| {
            let refused = Refused { version: NEW.into(), attempt: 1, reason: evil() };
            machine.beat.refused = vec![refused];
        })
        .with(4, |_, node| (node.has_package, node.facts.architecture) = (false, evil()))
        .start();
    world.machine(1).alive = false;
    let canaries = world.told();
    assert!(world.receive(canaries[0]) && world.claim(canaries[0]));
    world.roll_back(canaries[0]);
    let record = &mut world.machine(canaries[0]).beat.rollbacks[0];
    (record.to, record.reason, record.result) = (evil(), evil(), Some(evil()));
    (record.code, record.status, record.log) = (Some(evil()), Some(evil()), vec![evil()]);
    world.beat(canaries[0]);
    assert!(world.receive(canaries[1]));
    let order = world.machine(canaries[1]).beat.order.as_mut().unwrap();
    (order.state, order.reason, order.detail) = ("failed".into(), Some(evil()), Some(evil()));
    world.beat(canaries[1]);
    world.step();
    assert_eq!(world.rollout.state, State::Stopped);
    let stopped = abort(&fleet(1).start().rollout, &evil(), &world.view, world.now).stopped.unwrap();
    let said = format!("{}{}", world.report.text(), stopped.text);
    assert!(said.matches("?[2J??verdict: fine?").count() >= 12, "{said}");
    assert!(!said.contains(|c: char| c.is_control() && c != '\n'), "{said:?}");
    assert!(!said.contains("\nverdict: fine"), "{said}");
}
