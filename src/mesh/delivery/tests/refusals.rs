//! Nodes that refuse the version.

use super::world::*;
use crate::mesh::delivery::*;
use crate::wire::heartbeat::Refused as RefusedVersion;

fn refusing(attempt: u64) -> impl Fn(&mut Machine, &mut NodeView) {
    move |machine, _| {
        let reason = "rolled back before".into();
        machine.beat.refused = vec![RefusedVersion { version: NEW.into(), attempt, reason }];
    }
}

fn retry() -> Plan {
    Plan { retry_refused: true, ..Plan::default() }
}

#[test]
fn who_is_asked_again() {
    // (attempt of the refusal, retry, asked); the rollout's attempt is 7.
    let rows = [(3, false, false), (3, true, true), (0, true, true), (7, true, false), (8, true, false)];
    for (attempt, retry_refused, asked) in rows {
        let plan = Plan { retry_refused, ..Plan::default() };
        let mut world = fleet(4).with(2, refusing(attempt)).start_with(plan);
        world.finish_well();
        assert_eq!(world.outcome(2) == "confirmed", asked, "{attempt} {retry_refused}");
        let hint = world.why_not(2).ends_with("; to ask again, start with --retry-refused");
        assert_eq!(hint, !retry_refused, "{}", world.why_not(2));
    }
}

#[test]
fn c38_a_node_that_was_asked_again_and_failed_is_not_asked_once_more() {
    let mut world = fleet(1).with(1, refusing(3)).start_with(retry());
    world.fail(1);
    world.pass(60 * MINUTE);
    assert_eq!((world.rollout.state, world.rollout.waves.len()), (State::Stopped, 1));
}

#[test]
fn a_rollout_that_every_node_refuses_is_not_started() {
    let all = || fleet(2).with(1, refusing(3)).with(2, refusing(4));
    let refused = all().try_start(Plan::default()).unwrap_err().to_string();
    let wanted = "nobody is left to ask for 1.5.0: web01 refuses it: rolled back before; to ask again";
    assert!(refused.starts_with(wanted), "{refused}");
    assert!(all().try_start(retry()).is_ok());
    // One that is there, or has no package, does not change it; one that may come does.
    let there = |machine: &mut Machine, _: &mut NodeView| machine.beat.version = NEW.into();
    let bare = |_: &mut Machine, node: &mut NodeView| node.has_package = false;
    let off = |machine: &mut Machine, _: &mut NodeView| machine.beat.goodbye = Some("shutdown".into());
    assert!(matches!(all().with(1, there).try_start(Plan::default()), Err(Refused::AllRefuse(..))));
    assert!(matches!(
        fleet(2).with(1, refusing(3)).with(2, bare).try_start(Plan::default()),
        Err(Refused::AllRefuse(..))
    ));
    assert!(fleet(2).with(1, refusing(3)).with(2, off).try_start(Plan::default()).is_ok());
}

#[test]
fn a_rollout_that_finds_only_refusals_while_it_waits_stops() {
    let off = |machine: &mut Machine, _: &mut NodeView| machine.beat.goodbye = Some("shutdown".into());
    let mut world = fleet(2).with(1, off).with(2, off).start();
    assert_eq!(world.rollout.state, State::Waiting);
    for number in [1, 2] {
        assert_eq!(world.rollout.state, State::Waiting);
        let machine = world.machine(number);
        machine.beat.goodbye = None;
        refusing(3)(machine, &mut NodeView::default());
        world.beat(number);
        world.step();
    }
    let why = world.report.stopped_because.unwrap();
    assert_eq!((world.rollout.state, why.kind), (State::Stopped, StopKind::NoCanary));
    assert!(why.text.contains("--retry-refused"), "{}", why.text);
}

#[test]
fn a_plan_of_an_older_mesh_is_read() {
    let mut plan = serde_json::to_value(Plan::default()).unwrap();
    plan.as_object_mut().unwrap().remove("retry_refused");
    assert_eq!(serde_json::from_value::<Plan>(plan).unwrap(), Plan::default());
}
