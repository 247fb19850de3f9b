//! Every order of events in a world of four nodes, to a depth. After each event the invariants of
//! [`World::step`] hold, a crash in between changes nothing, and what is left alone comes to an end.

use super::world::*;
use crate::mesh::delivery::*;
use std::collections::{BTreeMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Every so many states are left alone, to see that they come to an end.
const LEFT_ALONE: usize = 100;

fn plan() -> Plan {
    Plan { window_ms: 2 * MINUTE, confirm_deadline_ms: 4 * MINUTE, soak_ms: MINUTE, ..Default::default() }
}

/// What can happen to a node, and is worth trying: everything to the told ones, absence to one other.
/// After a stop only what could still begin or end.
fn events(world: &World) -> Vec<Event> {
    let holds =
        |n: &usize| world.view.nodes[&id(*n)].order.is_some() || world.machines[&id(*n)].beat.order.is_some();
    let (touched, others): (Vec<usize>, Vec<usize>) = world.numbers().into_iter().partition(holds);
    let stopped = world.rollout.state == State::Stopped;
    let mut events = vec![Event::Minute];
    for &n in &touched {
        events.extend([Event::Claim(n), Event::Confirm(n), Event::RollBack(n), Event::Return(n)]);
    }
    if stopped {
        return events;
    }
    events.extend([Event::Restart, Event::Outage, Event::Abort]);
    for &n in touched.iter().chain(others.first()) {
        events.extend([Event::Receive(n), Event::ReceiveUnheard(n), Event::FailInstall(n)]);
        events.extend([Event::Die(n), Event::Goodbye(n)]);
    }
    events.extend(others.first().map(|n| Event::Return(*n)));
    events
}

/// Where to begin, and how many events in a row: the canary told; the second wave told; complete, with one
/// node away.
fn beginnings() -> Vec<(World, usize)> {
    let canary = fleet(4).start_with(plan());
    let mut wave = canary.clone();
    for number in wave.told() {
        wave.upgrade(number);
    }
    wave.pass(3 * MINUTE);
    assert_eq!(wave.told().len(), 2);
    let mut complete = wave.clone();
    let away = *complete.numbers().iter().find(|n| complete.outcome(**n) == "not told").unwrap();
    complete.machine(away).alive = false;
    complete.finish_well();
    vec![(canary, 5), (wave, 4), (complete, 4)]
}

/// What the future depends on; times as ages, so that states that differ only in their dates are one.
fn key(world: &World) -> u64 {
    let mut hash = DefaultHasher::new();
    let at = world.rollout.clock.read(&world.view.listening, world.now);
    let age = |time: u64| at.saturating_sub(time).min(20 * MINUTE);
    format!("{:?}{}", world.rollout.state, age(world.rollout.held_until)).hash(&mut hash);
    for (id, m) in &world.rollout.members {
        (format!("{:?}{:?}", m.outcome, m.fell), m.wave, m.claimed, m.replaced).hash(&mut hash);
        (m.told.as_ref().map(|t| age(t.at)), m.received.map(age), m.decided.map(age)).hash(&mut hash);
        let (machine, node) = (&world.machines[id], &world.view.nodes[id]);
        (world.outage, machine.alive, machine.changing, &machine.beat.version, node.order.is_some())
            .hash(&mut hash);
        (machine.beat.order.as_ref().map(|o| &o.state), &node.presence.goodbye).hash(&mut hash);
        let vain = world.view.listening.in_vain(node.presence.heard_at.unwrap(), world.now);
        (vain.min(20 * MINUTE), node.presence.accepted == machine.beat.accepted).hash(&mut hash);
        node.presence.version.as_ref().map(ToString::to_string).hash(&mut hash);
    }
    for wave in &world.rollout.waves {
        (wave.canary, wave.catch_up, wave.decided_at.map(age), wave.passed_at.is_some()).hash(&mut hash);
    }
    hash.finish()
}

#[test]
fn every_order_of_events_in_a_small_world() {
    let mut ends = BTreeMap::new();
    for (world, depth) in beginnings() {
        let mut seen = HashSet::new();
        let mut front = vec![world];
        for _ in 0..depth {
            front = front.iter().flat_map(|world| all_that_follows(world, &mut seen)).collect();
            for world in &front {
                *ends.entry(world.rollout.state.word()).or_insert(0) += 1;
            }
        }
    }
    println!("{ends:?}");
    // The world must not become smaller unnoticed.
    for (state, least) in [("running", 2000), ("stopped", 1000), ("holding", 50), ("complete", 500)] {
        assert!(ends.get(state).is_some_and(|count| *count >= least), "{state}: {ends:?}");
    }
}

/// Every state that one event leads to and that was not met before.
fn all_that_follows(world: &World, seen: &mut HashSet<u64>) -> Vec<World> {
    let mut found = Vec::new();
    for event in events(world) {
        let mut after = world.clone();
        if !after.happen(event) {
            continue;
        }
        let mut crashed = after.clone();
        after.step();
        if !seen.insert(key(&after)) {
            continue;
        }
        crashed.crash_in_step();
        crashed.step();
        assert_eq!(crashed.rollout, after.rollout, "a crash after {event:?} changed the rollout");
        assert_eq!(crashed.acts, after.acts, "a crash after {event:?} changed what is done");
        if seen.len().is_multiple_of(LEFT_ALONE) {
            comes_to_an_end(after.clone());
            an_outage_decides_nothing(after.clone());
        }
        found.push(after);
    }
    found
}

/// When nothing more happens but time, and the mesh hears, nobody stays open: every silent canary ends
/// in a decision by its deadline.
fn comes_to_an_end(mut world: World) {
    world.outage = false;
    let open: Vec<usize> = world.told();
    let wave = world.rollout.waves.len();
    for _ in 0..16 {
        world.happen(Event::Minute);
        world.step();
    }
    let still = world.told().into_iter().filter(|n| open.contains(n) && world.rollout.waves.len() == wave);
    let still: Vec<usize> = still.collect();
    let held = world.rollout.state == State::Holding;
    assert!(held || still.is_empty(), "{still:?} never decided:\n{}", world.report.text());
}

/// When nobody at all is heard any more, then from the moment that this can be known nothing is stopped,
/// passed, told or complete.
fn an_outage_decides_nothing(mut world: World) {
    world.outage = true;
    let minute = |world: &mut World| {
        world.happen(Event::Minute);
        world.step();
        let passed = world.rollout.waves.iter().filter(|wave| wave.passed_at.is_some()).count();
        // Held or not is what an outage does decide.
        let ended = matches!(world.rollout.state, State::Complete | State::Stopped);
        (ended, passed, world.rollout.waves.len())
    };
    let mut known = (false, 0, 0);
    for _ in 0..2 {
        known = minute(&mut world);
    }
    for _ in 0..30 {
        assert_eq!(minute(&mut world), known, "decided in an outage:\n{}", world.report.text());
    }
}
