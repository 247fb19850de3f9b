//! Random scripts in worlds of up to fifty nodes, with shrinking. The invariants are those of
//! [`World::step`].

use super::world::*;
use crate::mesh::delivery::*;
use proptest::prelude::*;

/// A script's line: what happens, and to which of the told nodes (or of all).
fn event() -> impl Strategy<Value = (u8, u8)> {
    (0u8..32, any::<u8>())
}

fn pick(world: &World, (what, who): (u8, u8)) -> Event {
    let told = world.told();
    let all = world.numbers();
    let from = if told.is_empty() || what >= 28 { &all } else { &told };
    let n = from[usize::from(who) % from.len()];
    match what {
        0..6 => Event::Minute,
        6 => Event::Restart,
        7..12 => Event::Receive(n),
        12 => Event::ReceiveUnheard(n),
        13..18 => Event::Claim(n),
        18..24 => Event::Confirm(n),
        24 => Event::RollBack(n),
        25 => Event::FailInstall(n),
        26 | 28 => Event::Die(n),
        27 | 29 => Event::Goodbye(n),
        30 => Event::Return(n),
        _ if who < 10 => Event::Abort,
        _ if who < 80 => Event::Outage,
        _ => Event::Minute,
    }
}

/// Plays a script; `crashes`: before which lines the mesh crashes between storing and acting.
fn play(count: usize, script: &[(u8, u8)], crashes: &[usize]) -> World {
    let plan =
        Plan { window_ms: 3 * MINUTE, confirm_deadline_ms: 5 * MINUTE, soak_ms: MINUTE, ..Plan::default() };
    let mut world = fleet(count).start_with(plan);
    for (index, line) in script.iter().enumerate() {
        let event = pick(&world, *line);
        world.happen(event);
        if crashes.contains(&index) {
            world.crash_in_step();
        }
        world.step();
    }
    world
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn c74_no_script_breaks_an_invariant_and_no_crash_changes_the_end(
        count in prop_oneof![12 => 1usize..8, 4 => 8usize..24, 1 => 24usize..=50],
        script in prop::collection::vec(event(), 1..50),
        crashes in prop::collection::vec(0usize..50, 0..6),
    ) {
        let plain = play(count, &script, &[]);
        let crashed = play(count, &script, &crashes);
        prop_assert_eq!(plain.rollout, crashed.rollout);
        prop_assert_eq!(plain.report, crashed.report);
    }
}
