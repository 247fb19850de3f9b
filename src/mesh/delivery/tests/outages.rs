//! An outage of the mesh is neither a stop nor a pass, whenever it comes; the silence of the release is.

use super::world::*;
use crate::mesh::delivery::*;

fn plan() -> Plan {
    Plan { window_ms: 4 * MINUTE, confirm_deadline_ms: 8 * MINUTE, soak_ms: 3 * MINUTE, ..Default::default() }
}

/// Half a minute of a rollout of a good release: each told node is one stage further.
fn stage(world: &mut World) {
    for number in world.told() {
        let machine = world.machine(number);
        if machine.changing && machine.beat.version == OLD {
            world.start_new(number);
        } else if machine.changing {
            world.confirm(number);
        } else if machine.beat.order.is_some() {
            // A claim goes through the same ears as a heartbeat.
            let _ = !world.outage && world.claim(number);
        } else {
            let _ = !world.outage && world.receive(number);
        }
    }
    world.pass(30 * SECOND);
}

fn passed(world: &World) -> usize {
    world.rollout.waves.iter().filter(|wave| wave.passed_at.is_some()).count()
}

/// Lets the rollout go on to its end, and says so if it does not come.
fn goes_on_well(mut world: World, count: usize, when: &str) {
    for _ in 0..40 * count {
        stage(&mut world);
        assert_ne!(world.rollout.state, State::Stopped, "{count} nodes, {when}:\n{}", world.report.text());
    }
    let wanted = format!("{count}/{count} on {NEW}");
    assert_eq!((world.rollout.state, &world.report.summary), (State::Complete, &wanted), "{when}");
}

/// Nobody is heard for this long, beginning now; then everybody again, `first` a moment before the others.
fn outage(world: &mut World, minutes: u64, first: Option<usize>) {
    world.outage = true;
    for _ in 0..4 {
        stage(world);
    }
    let noticed = (passed(world), world.rollout.waves.len());
    for _ in 4..2 * minutes {
        stage(world);
    }
    assert_eq!((passed(world), world.rollout.waves.len()), noticed, "passed or told in an outage");
    assert!(minutes < 5 || world.rollout.held_since.is_some(), "not noticed");
    world.outage = false;
    if let Some(number) = first {
        world.now += SECOND;
        world.beat(number);
        world.step();
    }
}

#[test]
fn an_outage_at_any_moment_neither_stops_nor_passes() {
    for count in 2..=7 {
        let mut world = fleet(count).start_with(plan());
        let mut moment = 0;
        while world.rollout.state != State::Complete {
            for (minutes, first) in [(2, None), (30, Some(1 + moment % count))] {
                let mut cut = world.clone();
                outage(&mut cut, minutes, first);
                goes_on_well(cut, count, &format!("an outage of {minutes} minutes at moment {moment}"));
            }
            stage(&mut world);
            moment += 1;
        }
        assert!(moment > 10, "the rollout was over before anything could break");
    }
}

#[test]
fn an_outage_while_a_node_catches_up_is_no_failure_of_it() {
    let mut world = fleet(4).start_with(plan());
    let late: Vec<usize> =
        world.numbers().into_iter().filter(|n| !world.told().contains(n)).take(2).collect();
    for &number in &late {
        world.machine(number).alive = false;
    }
    world.pass(6 * MINUTE);
    world.finish_well();
    for &number in &late {
        world.machine(number).alive = true;
    }
    world.pass(MINUTE);
    for moment in 0..6 {
        let mut cut = world.clone();
        outage(&mut cut, 30, Some(1 + moment % 4));
        goes_on_well(cut, 4, &format!("an outage at moment {moment} of catching up"));
        stage(&mut world);
    }
}

/// The told nodes die at their claim, everybody else is heard.
#[test]
fn a_silent_canary_stops_whether_others_are_many_or_none() {
    for count in [1, 2, 3, 8] {
        let mut world = fleet(count).start_with(plan());
        for number in world.told() {
            assert!(world.receive(number) && world.claim(number));
            world.machine(number).alive = false;
        }
        world.pass(5 * MINUTE);
        assert_eq!(world.rollout.state, State::Stopped, "{count} nodes");
        assert_eq!(world.report.stopped_because.unwrap().kind, StopKind::Silence);
    }
}

/// The last wave: nobody is left on the old version, so the confirmed nodes are the witnesses.
fn last_wave() -> World {
    let mut world = fleet(5).start_with(plan());
    while world.rollout.members.values().any(|member| member.told.is_none()) {
        stage(&mut world);
    }
    for number in world.told() {
        assert!(world.receive(number) && world.claim(number));
        world.beat(number);
    }
    world.step();
    assert!(world.told().len() == 2 && world.rollout.wave().unwrap().control.is_empty());
    world
}

#[test]
fn the_last_wave_silent_alone_stops_and_together_with_the_confirmed_holds() {
    for together in [false, true] {
        let mut world = last_wave();
        let told = world.told();
        let quiet = world.numbers().into_iter().filter(|n| told.contains(n) || (together && *n < 5));
        for number in quiet.collect::<Vec<_>>() {
            world.machine(number).alive = false;
        }
        world.pass(20 * MINUTE);
        let state = if together { State::Holding } else { State::Stopped };
        assert_eq!(world.rollout.state, state, "{}", world.report.text());
        let kind = world.report.verdict.unwrap().kind;
        assert_eq!(kind == VerdictKind::MeshOutage, together);
    }
}

#[test]
fn a_confirmed_node_that_was_lost_long_before_is_no_witness() {
    let mut world = last_wave();
    let told = world.told();
    let others: Vec<usize> = world.numbers().into_iter().filter(|n| !told.contains(n)).collect();
    // Two of the three witnesses are switched off, each well before the wave goes quiet.
    for &number in others.iter().take(2) {
        world.machine(number).alive = false;
    }
    world.pass(4 * MINUTE);
    assert_eq!(world.rollout.state, State::Running);
    for &number in &told {
        world.machine(number).alive = false;
    }
    world.pass(6 * MINUTE);
    assert_eq!(world.rollout.state, State::Stopped, "{}", world.report.text());
}

#[test]
fn when_nobody_at_all_is_heard_it_holds_also_without_a_witness() {
    let mut world = fleet(2).with(2, |machine, _| machine.beat.goodbye = Some("shutdown".into())).start();
    assert_eq!(world.told(), [1]);
    assert!(world.receive(1) && world.claim(1));
    world.beat(1);
    for number in [1, 2] {
        world.machine(number).alive = false;
    }
    world.pass(60 * MINUTE);
    assert_eq!(world.rollout.state, State::Holding, "{}", world.report.text());
    assert!(world.report.text().contains("nobody at all is heard"), "{}", world.report.text());
    let machine = world.machine(2);
    (machine.alive, machine.beat.goodbye) = (true, None);
    world.pass(12 * MINUTE);
    assert_eq!(world.rollout.state, State::Stopped, "the other one is heard, the canary is not");
}

#[test]
fn a_canary_that_was_heard_a_little_before_the_others_is_not_the_first_to_be_silent() {
    let mut world = fleet(3).start_with(Plan { window_ms: SECOND, ..plan() });
    let canary = world.told()[0];
    assert!(world.receive(canary) && world.claim(canary));
    world.beat(canary);
    for _ in 0..8 {
        world.now += 10 * SECOND;
        world.step();
    }
    world.numbers().into_iter().filter(|n| *n != canary).for_each(|n| world.beat(n));
    for _ in 0..60 {
        world.step();
        world.now += 10 * SECOND;
        assert_ne!(world.rollout.state, State::Stopped);
    }
    assert_eq!(world.rollout.state, State::Holding);
}
