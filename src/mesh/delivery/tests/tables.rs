//! Tables: a function's rows, one by one.

use super::world::*;
use crate::mesh::delivery::*;
use crate::mesh::presence::Listening;
use crate::wire::heartbeat::{Refused as RefusedVersion, Rollback};

#[test]
fn who_is_told_and_why_the_others_are_not() {
    let refused = RefusedVersion { version: NEW.into(), attempt: 1, reason: "rolled back".into() };
    let other = |attempt| OrderView {
        rollout: "r-9".parse().unwrap(),
        attempt,
        version: version("1.6.0"),
        generation: 1,
    };
    let mut fleet = fleet(12)
        .with(1, |machine, _| machine.beat.version = NEW.into())
        .with(2, |machine, _| machine.beat.refused = vec![refused])
        .with(3, |machine, _| machine.alive = false)
        .with(4, |machine, _| {
            machine.beat.armed = false;
            machine.beat.unarmed_because = Some("package not retained".into());
        })
        .with(5, |_, node| node.has_package = false)
        .with(6, |machine, _| machine.beat.goodbye = Some("suspend".into()))
        .with(7, |_, node| node.order = Some(other(8)))
        .with(8, |_, node| node.order = Some(other(6)));
    fleet.hear_all();
    fleet.now += 80 * SECOND;
    let mut world = fleet.start();
    let rows = [
        (1, "already there"),
        (2, "refuses it: rolled back; to ask again, start with --retry-refused"),
        (3, "never heard"),
        (4, "no rollback could follow: package not retained"),
        (5, "no package for amd64 deb"),
        (6, "offline: said goodbye (suspend)"),
        (7, "has a newer order of rollout r-9"),
    ];
    for (number, reason) in rows {
        assert_eq!(world.why_not(number), reason, "{number}");
    }
    world.machine(12).alive = false;
    world.pass(3 * MINUTE);
    if !world.told().contains(&12) {
        assert_eq!(world.why_not(12), "offline: not heard recently");
    }
    // An unarmed node is told when a person insists.
    let plan = Plan { insist_unarmed: true, ..Plan::default() };
    let world = super::world::fleet(1).with(1, |machine, _| machine.beat.armed = false).start_with(plan);
    assert!(matches!(world.acts[..], [Action::Tell { insist_unarmed: true, .. }]));
}

#[test]
fn how_a_rollout_starts() {
    let refused = |plan: Plan| fleet(3).try_start(plan).unwrap_err().to_string();
    let plan = Plan::default;
    assert!(refused(Plan { canary: 0, ..plan() }).contains("at least one canary"));
    assert!(refused(Plan { waves: vec![], ..plan() }).contains("at least one wave"));
    assert!(refused(Plan { max_in_change: Size::Percent(101), ..plan() }).contains("more than 100 %"));
    assert!(refused(Plan { waves: vec![Size::Nodes(0)], ..plan() }).contains("a wave of no node"));
    assert!(refused(Plan { window_ms: 0, ..plan() }).contains("window"));
    assert!(refused(Plan { canary: u32::MAX, ..plan() }).contains("more than 1000 canaries"));
    assert!(refused(Plan { waves: vec![Size::Nodes(1); 101], ..plan() }).contains("more than 100 sizes"));
    assert!(refused(Plan { waves: vec![Size::Nodes(u32::MAX)], ..plan() }).contains("more than 1000000"));
    assert!(refused(Plan { max_in_change: Size::Nodes(u32::MAX), ..plan() }).contains("more than 1000000"));
    for time in [u64::MAX, 31 * 24 * 60 * MINUTE] {
        assert!(refused(Plan { window_ms: time, ..plan() }).contains("more than 30 days"));
        assert!(refused(Plan { confirm_deadline_ms: time, ..plan() }).contains("more than 30 days"));
        assert!(refused(Plan { soak_ms: time, ..plan() }).contains("more than 30 days"));
    }
    let nothing = fleet(0).try_start(plan());
    assert_eq!(nothing.unwrap_err(), Refused::NothingMatched);
    let mut none_fits = fleet(2).with(1, |_, n| n.has_package = false).with(2, |_, n| n.has_package = false);
    assert_eq!(none_fits.try_start(plan()).unwrap_err(), Refused::NoPackage(version(NEW)));

    let there = |machine: &mut Machine, _: &mut NodeView| machine.beat.version = NEW.into();
    let world = fleet(2).with(1, there).with(2, there).start();
    assert_eq!((world.rollout.state, world.report.summary.as_str()), (State::Complete, "2/2 on 1.5.0"));
    let away = |machine: &mut Machine, _: &mut NodeView| machine.beat.goodbye = Some("shutdown".into());
    let mut world = fleet(2).with(1, away).with(2, away).start();
    world.machine(1).alive = false;
    world.machine(2).alive = false;
    world.pass(600 * MINUTE);
    assert_eq!(world.rollout.state, State::Waiting, "only offline nodes: waiting, never complete");
    assert_eq!(world.report.waiting_for[0].reason, "eligible_node");
}

#[test]
fn how_large_the_waves_are() {
    // (nodes, sizes of the waves of a good release)
    let rows: [(usize, &[usize]); 7] = [
        (1, &[1]),
        (3, &[1, 2]),
        (5, &[1, 2, 2]),
        (6, &[2, 2, 2]),
        (20, &[2; 10]),
        (40, &[2, 2, 2, 8, 8, 8, 8, 2]),
        (100, &[2, 2, 5, 20, 20, 20, 20, 11]),
    ];
    for (count, sizes) in rows {
        let mut world = fleet(count).start();
        world.finish_well();
        let drawn: Vec<usize> = world.rollout.waves.iter().map(|wave| wave.nodes.len()).collect();
        assert_eq!(drawn, sizes, "{count} nodes");
    }
}

#[test]
fn a_wave_is_never_larger_than_what_may_be_in_change() {
    let rows = [
        (Size::Nodes(1), 10, 1),
        (Size::Nodes(3), 30, 3),
        (Size::Percent(10), 50, 5),
        (Size::Nodes(9), 10, 2),
    ];
    for (max_in_change, count, largest) in rows {
        let mut world = fleet(count).start_with(Plan { max_in_change, ..Plan::default() });
        world.finish_well();
        assert_eq!(world.rollout.waves.iter().map(|wave| wave.nodes.len()).max(), Some(largest));
    }
}

#[test]
fn the_draw_is_the_same_each_time_and_differs_between_rollouts() {
    let told = |name: &str| {
        let mut world = fleet(50).start();
        world.rollout.id = name.parse().unwrap();
        world.rollout.waves.clear();
        for member in world.rollout.members.values_mut() {
            (member.told, member.wave, member.outcome) = (None, None, Outcome::Pending);
        }
        let (next, _, _) = step(&world.rollout, &world.view, world.now);
        next.waves[0].nodes.clone()
    };
    assert_eq!(told("r-1"), told("r-1"));
    let different: std::collections::BTreeSet<_> = (0..20).map(|n| told(&format!("r-{n}"))).collect();
    assert!(different.len() > 15, "{different:?}");
}

#[test]
fn steady_nodes_are_canaries_before_those_that_come_and_go() {
    for round in 0..5 {
        let mut fleet = fleet(10);
        fleet.hear_all();
        for number in (1..=10).filter(|n| n % 5 != round) {
            let node = fleet.view.nodes.get_mut(&id(number)).unwrap();
            std::sync::Arc::make_mut(&mut node.presence).absences = 1;
        }
        let world = fleet.start();
        assert!(world.told().iter().all(|n| n % 5 == round), "{:?}", world.told());
    }
}

#[test]
fn rollout_time_counts_listening_only() {
    let clock = Clock { listened: 100, epoch: 1, marked: 1000 };
    let hears = |epoch, since| Listening { epoch, since, hears: true };
    let rows = [
        // (listening, now, rollout time)
        (hears(1, 0), 1500, 600),
        (hears(1, 0), 900, 100),
        (hears(1, 0).deafen(), 1500, 100),
        (hears(2, 1400), 1500, 200),
        (hears(2, 1_000_000), 1_000_001, 101),
    ];
    for (listening, now, wanted) in rows {
        assert_eq!(clock.read(&listening, now), wanted, "{listening:?} {now}");
        let marked = clock.mark(&listening, now);
        assert_eq!(marked.read(&listening, now), wanted);
    }
}

#[test]
fn whom_a_rollback_of_a_machine_reason_speaks_against() {
    // (reason, outcome in the record, where one of two canaries with it leaves the rollout)
    let rows = [
        ("would not start", "rolled-back", State::Stopped),
        ("none", "rolled-back", State::Stopped),
        ("state", "rolled-back", State::Stopped),
        ("disk", "rolled-back", State::Running),
        ("read-only", "rolled-back", State::Running),
        ("database", "rolled-back", State::Running),
        ("lock", "rolled-back", State::Running),
        // It says why the old version did not come back.
        ("disk", "failed", State::Stopped),
    ];
    for (reason, outcome, state) in rows {
        let mut world = fleet(10).start();
        let number = world.told()[0];
        assert!(world.receive(number) && world.claim(number));
        world.roll_back(number);
        let record = &mut world.machine(number).beat.rollbacks[0];
        (record.reason, record.outcome) = (reason.into(), outcome.into());
        world.beat(number);
        world.step();
        assert_eq!(
            (world.outcome(number), world.rollout.state),
            ("rolled-back", state),
            "{reason} {outcome}"
        );
    }
}

#[test]
fn why_it_stopped_follows_what_happened() {
    let stopped = |change: &dyn Fn(&mut World, usize)| {
        let mut world = fleet(3).start();
        // The canary and the one in its place.
        for _ in 0..2 {
            let number = world.told()[0];
            change(&mut world, number);
            world.beat(number);
            world.step();
        }
        let why = world.report.stopped_because.unwrap();
        (why.kind, why.text.split(' ').skip(1).collect::<Vec<_>>().join(" "))
    };
    let disk = |world: &mut World, number: usize| {
        assert!(world.receive(number) && world.claim(number));
        world.roll_back(number);
        world.machine(number).beat.rollbacks[0].reason = "disk".into();
    };
    let by_hand = |world: &mut World, number: usize| {
        let beat = &mut world.machine(number).beat;
        (beat.version, beat.start) = ("1.4.9".into(), 2);
    };
    let (kind, text) = stopped(&disk);
    assert_eq!(kind, StopKind::RolledBack);
    assert!(text.starts_with("was rolled back on web"), "{text}");
    let (kind, text) = stopped(&by_hand);
    assert_eq!(kind, StopKind::NoCanary);
    assert!(text.contains("run another version"), "{text}");
}

#[test]
fn a_stop_for_rollbacks_names_those_that_rolled_back() {
    let mut world = fleet(10).start();
    let canaries = world.told();
    assert!(world.receive(canaries[0]));
    world.beat(canaries[0]);
    world.step();
    world.machine(canaries[0]).alive = false;
    world.pass(10 * MINUTE);
    assert!(world.receive(canaries[1]) && world.claim(canaries[1]));
    world.roll_back(canaries[1]);
    world.pass(30 * SECOND);
    let why = world.report.stopped_because.clone().unwrap();
    let text = format!("1.5.0 was rolled back on {}", world.rollout.members[&id(canaries[1])].name);
    assert_eq!((why.kind, why.text), (StopKind::RolledBack, text));
}

#[test]
fn whose_rollback_it_is() {
    // (from, attempt, counts)
    let rows = [(NEW, 7, true), (NEW, 6, false), (NEW, 0, false), ("1.3.0", 7, false)];
    for (from, attempt, counts) in rows {
        let mut world = fleet(10).start();
        let number = world.told()[0];
        world.machine(number).beat.rollbacks =
            vec![Rollback { from: from.into(), attempt, ..Default::default() }];
        world.beat(number);
        world.step();
        assert_eq!(world.rollout.state == State::Stopped, counts, "{from} {attempt}");
    }
}

#[test]
fn who_may_begin() {
    let mut world = fleet(10).start();
    let canaries = world.told();
    let other = world.numbers().into_iter().find(|n| !canaries.contains(n)).unwrap();
    let told = id(canaries[0]);
    assert!(claim(&world.rollout, &told, 7).is_ok());
    assert_eq!(claim(&world.rollout, &told, 6), Err(NotGranted::OtherAttempt));
    assert_eq!(claim(&world.rollout, &id(other), 7), Err(NotGranted::NotTold));
    assert_eq!(claim(&world.rollout, &id(99), 7), Err(NotGranted::NotTold));
    assert!(world.receive(canaries[0]) && world.claim(canaries[0]));
    assert!(claim(&world.rollout, &told, 7).is_ok(), "asked again, after a reboot");
    world.start_new(canaries[0]);
    world.confirm(canaries[0]);
    world.beat(canaries[0]);
    world.step();
    assert_eq!(claim(&world.rollout, &told, 7), Err(NotGranted::Decided));
}

#[test]
fn a_newer_rollout_takes_its_nodes_over() {
    let mut world = fleet(10).start();
    let number = world.told()[0];
    let begun = world.told()[1];
    assert!(world.receive(begun) && world.claim(begun));
    let order =
        OrderView { rollout: "r-2".parse().unwrap(), attempt: 8, version: version("1.6.0"), generation: 9 };
    for node in [number, begun] {
        world.view.nodes.get_mut(&id(node)).unwrap().order = Some(order.clone());
    }
    world.step();
    assert_eq!((world.outcome(number), world.outcome(begun)), ("withdrawn", "received"));
    let fought =
        |act: &Action| matches!(act, Action::Tell { node, .. } if [id(number), id(begun)].contains(node));
    assert!(!world.acts.iter().any(fought));
}

#[test]
fn an_unexpected_version_is_no_failure_of_the_release() {
    let mut world = fleet(10).start();
    let number = world.told()[0];
    let beat = &mut world.machine(number).beat;
    (beat.version, beat.start) = ("1.4.9".into(), 2);
    world.beat(number);
    world.step();
    assert_eq!(world.outcome(number), "unexpected-version");
    assert_eq!((world.rollout.state, world.told().len()), (State::Running, 2));
}
