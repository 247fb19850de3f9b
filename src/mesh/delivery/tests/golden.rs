//! What people read, and the JSON that programs read. Review of a change here is a diff of these texts.

use super::world::*;
use expect_test::{Expect, expect};

fn check(world: &World, wanted: Expect) {
    wanted.assert_eq(&world.report.text());
}

#[test]
fn a_broken_release_names_version_nodes_status_and_log() {
    let mut world = fleet(12).start();
    for number in world.told() {
        assert!(world.receive(number) && world.claim(number));
        world.roll_back(number);
        world.beat(number);
    }
    world.step();
    check(
        &world,
        expect![[r#"
            rollout r-1 of 1.5.0: stopped (0/12 on 1.5.0, 2 failed)
              stopped: 1.5.0 was rolled back on web02, web08
              verdict: broken release - 1.5.0 does not work: 2 of 2 nodes that tried it failed
                web02: 1.5.0 would not start (result exit-code, exited, status 101); back on 1.4.0
                web08: 1.5.0 would not start (result exit-code, exited, status 101); back on 1.4.0
                outside the wave: 10 of 10 nodes heard
              next: do not ship 1.5.0; release a fixed version under a new number and start that
            wave 1 (canary): not passed
              web02            rolled-back        runs 1.4.0
                1.5.0 -> 1.4.0 (would not start): result exit-code, exited, status 101
                | reading settings
                | panicked at reconcile: no such key
                | note: run with `RUST_BACKTRACE=1` to see more
              web08            rolled-back        runs 1.4.0
                1.5.0 -> 1.4.0 (would not start): result exit-code, exited, status 101
                | reading settings
                | panicked at reconcile: no such key
                | note: run with `RUST_BACKTRACE=1` to see more
            not told
              web01            the rollout stopped before its turn
              web03            the rollout stopped before its turn
              web04            the rollout stopped before its turn
              web05            the rollout stopped before its turn
              web06            the rollout stopped before its turn
              web07            the rollout stopped before its turn
              web09            the rollout stopped before its turn
              web10            the rollout stopped before its turn
              web11            the rollout stopped before its turn
              web12            the rollout stopped before its turn
        "#]],
    );
}

#[test]
fn one_of_one_is_undecided_and_says_what_would_decide() {
    let mut world = fleet(3).start();
    let number = world.told()[0];
    world.fail(number);
    world.step();
    check(
        &world,
        expect![[r#"
            rollout r-1 of 1.5.0: stopped (0/3 on 1.5.0, 1 failed)
              stopped: 1.5.0 was rolled back on web02
              verdict: undecided - web02 is the only node of its kind that tried 1.5.0, and failed (result
                  exit-code, exited, status 101, last words "panicked at reconcile: no such key"): it is the
                  release with 71 to 95 % likelihood, and else that machine; one node cannot decide it
                web02: 1.5.0 would not start (result exit-code, exited, status 101); back on 1.4.0
                outside the wave: 2 of 2 nodes heard
              next: look at web02; to decide it, start 1.5.0 for one more node of its kind (--select
                  name=OTHER)
            wave 1 (canary): not passed
              web02            rolled-back        runs 1.4.0
                1.5.0 -> 1.4.0 (would not start): result exit-code, exited, status 101
                | reading settings
                | panicked at reconcile: no such key
                | note: run with `RUST_BACKTRACE=1` to see more
            not told
              web01            the rollout stopped before its turn
              web03            the rollout stopped before its turn
        "#]],
    );
}

#[test]
fn silence_is_called_silence() {
    let mut world = fleet(12).start();
    let canaries = world.told();
    assert!(world.receive(canaries[0]) && world.claim(canaries[0]));
    world.beat(canaries[0]);
    world.step();
    world.machine(canaries[0]).alive = false;
    world.upgrade(canaries[1]);
    world.pass(11 * MINUTE);
    check(
        &world,
        expect![[r#"
            rollout r-1 of 1.5.0: stopped (1/12 on 1.5.0, 1 silent)
              stopped: silence: web02 told to run 1.5.0 and then not heard for more than 10 min
              verdict: broken machine - web02 went silent, and 1 like it confirmed 1.5.0: rather that
                  machine than the release
                web02: silent: not heard for the window after it held the order
                confirmed on 1.5.0: web08
                outside the wave: 10 of 10 nodes heard
              next: look at web02; then start 1.5.0 again for the others
            wave 1 (canary): not passed
              web02            silent             runs 1.4.0  not heard for the window after it held the order
              web08            confirmed          runs 1.5.0
            not told
              web01            the rollout stopped before its turn
              web03            the rollout stopped before its turn
              web04            the rollout stopped before its turn
              web05            the rollout stopped before its turn
              web06            the rollout stopped before its turn
              web07            the rollout stopped before its turn
              web09            the rollout stopped before its turn
              web10            the rollout stopped before its turn
              web11            the rollout stopped before its turn
              web12            the rollout stopped before its turn
        "#]],
    );
}

#[test]
fn one_architecture_is_named() {
    let mut fleet = fleet(30);
    for number in 1..=10 {
        fleet = fleet.with(number, |_, node| node.facts = facts("arm64"));
    }
    let mut world = fleet.start();
    let (arm, amd): (Vec<usize>, Vec<usize>) = world.told().into_iter().partition(|n| *n <= 10);
    for number in amd {
        world.upgrade(number);
    }
    for number in arm {
        assert!(world.receive(number) && world.claim(number));
        world.roll_back(number);
        world.beat(number);
    }
    world.step();
    let verdict = world.report.verdict.unwrap();
    expect!["1.5.0 does not work on arm64: all 2 arm64 nodes that tried it failed, none of 2 others"]
        .assert_eq(&verdict.text);
}

#[test]
fn running_says_what_it_waits_for() {
    let mut world = fleet(8)
        .with(8, |machine, _| machine.beat.goodbye = Some("shutdown".into()))
        .with(7, |machine, _| {
            machine.beat.armed = false;
            machine.beat.unarmed_because = Some("package not retained".into());
        })
        .start();
    world.machine(8).alive = false;
    let canaries = world.told();
    world.upgrade(canaries[0]);
    world.machine(canaries[1]).alive = false;
    world.pass(4 * MINUTE);
    check(
        &world,
        expect![[r#"
        rollout r-1 of 1.5.0: running (1/8 on 1.5.0, 1 pending off-line)
        wave 1 (canary): open
          web02            confirmed          runs 1.5.0
          web05            told               runs 1.4.0
        not told
          web07            no rollback could follow: package not retained
          web08            offline: said goodbye (shutdown)
        waiting: web05 for heartbeat, since 4 min, at most 6 min more
        waiting: web08 for node online, since 4 min
    "#]],
    );
    for number in world.numbers() {
        world.machine(number).alive = false;
    }
    world.pass(2 * MINUTE);
    check(
        &world,
        expect![[r#"
            rollout r-1 of 1.5.0: holding (1/8 on 1.5.0, 6 pending off-line)
              verdict: mesh outage - nodes outside the wave went quiet together with nodes of the wave: it
                  is the mesh or a network
                outside the wave: 0 of 5 nodes heard
              next: check the mesh's endpoint and its network; the rollout goes on by itself when nodes are
                  heard
            wave 1 (canary): open
              web02            confirmed          runs 1.5.0
              web05            told               runs 1.4.0
            not told
              web01            offline: not heard recently
              web03            offline: not heard recently
              web04            offline: not heard recently
              web06            offline: not heard recently
              web07            offline: not heard recently
              web08            offline: said goodbye (shutdown)
            waiting: rollout for control group, since 0 s
            waiting: web01 for node online, since 2 min
            waiting: web03 for node online, since 2 min
            waiting: web04 for node online, since 2 min
            waiting: web05 for heartbeat, since 6 min, at most 4 min more
            waiting: web06 for node online, since 2 min
            waiting: web07 for node online, since 2 min
            waiting: web08 for node online, since 6 min
        "#]],
    );
}

#[test]
fn complete_with_one_broken_machine() {
    let mut world = fleet(6).start();
    for number in world.told() {
        world.upgrade(number);
    }
    world.pass(31 * MINUTE);
    let number = world.told()[0];
    world.fail(number);
    world.step();
    world.finish_well();
    check(
        &world,
        expect![[r#"
            rollout r-1 of 1.5.0: complete (5/6 on 1.5.0, 1 failed)
              verdict: broken machine - web01 failed, and 5 like it confirmed 1.5.0: rather that machine
                  than the release
                web01: 1.5.0 would not start (result exit-code, exited, status 101); back on 1.4.0
                confirmed on 1.5.0: web02, web03, web04, web05, web06
              next: look at web01
            wave 1 (canary): passed
              web02            confirmed          runs 1.5.0
              web05            confirmed          runs 1.5.0
            wave 2: passed
              web01            rolled-back        runs 1.4.0
                1.5.0 -> 1.4.0 (would not start): result exit-code, exited, status 101
                | reading settings
                | panicked at reconcile: no such key
                | note: run with `RUST_BACKTRACE=1` to see more
              web06            confirmed          runs 1.5.0
            wave 3: passed
              web03            confirmed          runs 1.5.0
              web04            confirmed          runs 1.5.0
        "#]],
    );
}

#[test]
fn the_json_of_the_contract() {
    let mut world = fleet(2).with(2, |machine, _| machine.beat.armed = false).start();
    world.fail(world.told()[0]);
    world.step();
    let verdict = world.report.verdict.as_mut().unwrap();
    (verdict.text, verdict.next) = ("...".into(), "...".into());
    expect![[r#"
        {
          "id": "r-1",
          "version": "1.5.0",
          "state": "stopped",
          "summary": "0/2 on 1.5.0, 1 failed",
          "stopped_because": {
            "kind": "rolled_back",
            "text": "1.5.0 was rolled back on web01",
            "begun": []
          },
          "verdict": {
            "kind": "undecided",
            "text": "...",
            "evidence": [
              "web01: 1.5.0 would not start (result exit-code, exited, status 101); back on 1.4.0",
              "outside the wave: 1 of 1 nodes heard"
            ],
            "next": "..."
          },
          "waves": [
            {
              "number": 1,
              "canary": true,
              "state": "not_passed",
              "nodes": [
                "n-01"
              ]
            }
          ],
          "nodes": [
            {
              "id": "n-01",
              "name": "web01",
              "wave": 1,
              "outcome": "rolled-back",
              "detail": null,
              "version": "1.4.0",
              "evidence": {
                "from": "1.5.0",
                "to": "1.4.0",
                "reason": "would not start",
                "result": "exit-code",
                "code": "exited",
                "status": "101",
                "log": [
                  "reading settings",
                  "panicked at reconcile: no such key",
                  "note: run with `RUST_BACKTRACE=1` to see more"
                ]
              }
            }
          ],
          "not_included": [
            {
              "id": "n-02",
              "name": "web02",
              "reason": "no rollback could follow: the node does not say why"
            }
          ],
          "waiting_for": []
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&world.report).unwrap());
}
