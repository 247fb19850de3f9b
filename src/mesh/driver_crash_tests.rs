//! What a mesh that dies at the worst moment must not lose, and what it must not do too early.

use super::*;
use crate::mesh::trial::{Failing, mesh_on};

/// The canary of a rollout of two nodes, told and claimed.
async fn claimed(mesh: &Mesh) -> (Fleet, RolloutId, NodeId) {
    let mut fleet = Fleet::new(mesh, 2).await;
    mesh.hearing.checkpoint(mesh.registry.store(), true).await.unwrap();
    let id = start(mesh).await;
    mesh.tick().await.unwrap();
    fleet.speak(mesh, &[]).await;
    let canary = fleet.told(mesh).pop().unwrap();
    assert!(mesh.claim(&canary, &claim(&id)).await.unwrap().granted);
    (fleet, id, canary)
}

fn rolled_back(fleet: &Fleet, mesh: &Mesh, canary: &NodeId, id: &RolloutId) -> Heartbeat {
    Heartbeat {
        start: 5,
        rollbacks: vec![Rollback {
            id: 1,
            boot: format!("b-{canary}"),
            from: "1.5.0".into(),
            to: "1.4.0".into(),
            attempt: claim(id).attempt,
            rollout: Some(id.to_string()),
            outcome: "rolled-back".into(),
            reason: "it would not start".into(),
            result: Some("exit-code".into()),
            code: Some("exited".into()),
            status: Some("42".into()),
            log: vec!["panicked".into()],
        }],
        ..fleet.beat(mesh, canary, false)
    }
}

#[tokio::test]
async fn c79_evidence_that_was_acknowledged_is_in_the_report_of_the_next_mesh() {
    let folder = Folder::new("driver-evidence-kill");
    let (fleet, id, canary) = {
        let (mesh, _stop) = mesh(&folder).await;
        let (fleet, id, canary) = claimed(&mesh).await;
        let beat = rolled_back(&fleet, &mesh, &canary, &id);
        assert_eq!(mesh.heartbeat(&canary, &beat).await.unwrap().stored_rollbacks, [1]);
        // Dropped here, right after the answer: no look, no checkpoint.
        (fleet, id, canary)
    };
    let (mesh, _stop) = mesh(&folder).await;
    // The node was told that the mesh has the record, and never says it again.
    let beat = Heartbeat { start: 5, sequence: 99, ..fleet.beat(&mesh, &canary, false) };
    mesh.heartbeat(&canary, &beat).await.unwrap();
    for _ in 0..3 {
        mesh.tick().await.unwrap();
    }
    let report = mesh.report(&id).await.unwrap();
    assert_eq!(report.state, State::Stopped, "{}", report.text());
    let evidence = report.nodes.iter().find_map(|node| node.evidence.clone()).unwrap();
    assert_eq!((evidence.status.as_deref(), evidence.log), (Some("42"), vec!["panicked".to_owned()]));
}

#[tokio::test]
async fn evidence_that_comes_with_a_late_statement_is_shown_too() {
    let folder = Folder::new("driver-evidence-late");
    let (mesh, _stop) = mesh(&folder).await;
    let (fleet, id, canary) = claimed(&mesh).await;
    let beat = rolled_back(&fleet, &mesh, &canary, &id);
    let newer = Heartbeat { sequence: beat.sequence + 1, rollbacks: Vec::new(), ..beat.clone() };
    mesh.heartbeat(&canary, &newer).await.unwrap();
    assert_eq!(mesh.heartbeat(&canary, &beat).await.unwrap().stored_rollbacks, [1]);
    assert_eq!(mesh.hearing.presence(&canary).rollbacks.len(), 1, "acknowledged and not known");
}

#[tokio::test]
async fn c74_the_order_is_in_the_stored_rollout_before_anything_is_done() {
    let folder = Folder::new("driver-stored-first");
    {
        let (mesh, _stop) = mesh_that_pauses(&folder, Some(PausePoint::OrderBeforePut)).await;
        let _fleet = Fleet::new(&mesh, 4).await;
        start(&mesh).await;
        assert!(tokio::time::timeout(Duration::from_millis(300), mesh.tick()).await.is_err());
    }
    let (mesh, _stop) = mesh(&folder).await;
    let id = mesh.rollout_ids().pop().unwrap();
    let (_, rollout) = mesh.load(&id).await.unwrap();
    let told = rollout.members.values().filter(|member| member.told.is_some()).count();
    assert_eq!((told, rollout.waves.len()), (1, 1), "a fresh draw could choose another canary");
}

#[tokio::test]
async fn c74_a_rollout_that_cannot_be_stored_tells_nobody() {
    let folder = Folder::new("driver-store-fails");
    let store = Failing::new(&folder);
    let (mesh, _stop) = mesh_on(&folder, store.clone(), 1000, None).await;
    let fleet = Fleet::new(&mesh, 4).await;
    start(&mesh).await;
    store.fail("rollout/");
    assert!(mesh.tick().await.is_err());
    assert_eq!(fleet.told(&mesh), [], "acted on what is not stored");
    store.fail("");
    mesh.tick().await.unwrap();
    assert_eq!(fleet.told(&mesh).len(), 1);
}

#[tokio::test]
async fn c76_a_stop_waits_for_its_turn() {
    let folder = Folder::new("driver-turn");
    let (mesh, _stop) = mesh(&folder).await;
    let _fleet = Fleet::new(&mesh, 4).await;
    let id = start(&mesh).await;
    let turn = mesh.turn.lock().await;
    let stop = mesh.stop_rollout(&id, "trial");
    let early = tokio::time::timeout(Duration::from_millis(100), stop).await;
    assert!(early.is_err(), "answered while actions that were decided before it are being carried out");
    assert_eq!(mesh.report(&id).await.unwrap().stopped_because, None);
    drop(turn);
    assert_eq!(mesh.stop_rollout(&id, "trial").await.unwrap().state, State::Stopped);
}

#[tokio::test]
async fn a_restored_store_gives_no_attempt_that_a_node_has_spoken_of() {
    let folder = Folder::new("driver-restored");
    let (mesh, _stop) = mesh(&folder).await;
    let fleet = Fleet::new(&mesh, 2).await;
    let node = &fleet.nodes[0];
    let refused = vec![crate::wire::heartbeat::Refused {
        version: "1.5.0".into(),
        attempt: 9,
        reason: "it was rolled back".into(),
    }];
    let beat = Heartbeat { sequence: 9, refused, ..fleet.beat(&mesh, node, false) };
    mesh.heartbeat(node, &beat).await.unwrap();
    assert_eq!(start(&mesh).await.as_str(), "r-10");
}

async fn ticks(mesh: &Mesh, fleet: &mut Fleet, upgraded: &[NodeId]) {
    for _ in 0..6 {
        mesh.tick().await.unwrap();
        fleet.speak(mesh, upgraded).await;
    }
}

#[tokio::test]
async fn a_new_rollout_closes_an_older_one_that_is_complete() {
    let folder = Folder::new("driver-close");
    let (mesh, _stop) = mesh(&folder).await;
    let mut fleet = Fleet::new(&mesh, 2).await;
    let late = fleet.nodes[1].clone();
    let goodbye = Heartbeat { sequence: 50, goodbye: Some("stop".into()), ..fleet.beat(&mesh, &late, false) };
    mesh.heartbeat(&late, &goodbye).await.unwrap();
    fleet.nodes.truncate(1);
    let first = start(&mesh).await;
    for _ in 0..10 {
        mesh.tick().await.unwrap();
        let told = fleet.told(&mesh);
        fleet.speak(&mesh, &told).await;
    }
    assert_eq!(mesh.report(&first).await.unwrap().state, State::Complete);
    // It comes back and is told: catching up.
    fleet.nodes.push(late.clone());
    fleet.sequence = 60;
    let upgraded = [fleet.nodes[0].clone()];
    ticks(&mesh, &mut fleet, &upgraded).await;
    let order = |id: &NodeId| Some(mesh.registry.node(id)?.target.as_ref()?.rollout.clone());
    assert_eq!(order(&late), Some(first.clone()));
    let mut draft = mesh.registry.store().begin_large().unwrap();
    draft.write(&deb::tests::package("1.6.0", "amd64", b"six")).unwrap();
    mesh.registry.add_package(draft).await.unwrap();
    let select = Select::parse(&[format!("id={}", fleet.nodes[0])]).unwrap();
    let second = mesh.start_rollout(plan(), "1.6.0".parse().unwrap(), &select).await.unwrap();
    // At once, not with the next look: it must not begin an upgrade that nobody watches.
    let answer = mesh.claim(&late, &claim(&first)).await.unwrap();
    assert!(!answer.granted, "{answer:?}");
    ticks(&mesh, &mut fleet, &upgraded).await;
    assert_eq!(order(&late), None, "an order of the closed rollout stands");
    assert_eq!(order(&fleet.nodes[0]).unwrap().as_str(), second.id);
    let left = mesh.report(&first).await.unwrap();
    let outcome = left.nodes.iter().find(|node| node.id == late.as_str()).unwrap().outcome.clone();
    assert_ne!(format!("{outcome:?}").to_lowercase(), "\"told\"", "told for ever");
}

#[tokio::test]
async fn c67_a_stopped_rollout_is_followed_for_its_list() {
    let folder = Folder::new("driver-list");
    let (mesh, _stop) = mesh_on(&folder, Failing::new(&folder), 10, None).await;
    let mut fleet = Fleet::new(&mesh, 4).await;
    let plan = Plan { window_ms: 40, confirm_deadline_ms: 60_000, ..plan() };
    let report = mesh.start_rollout(plan, "1.5.0".parse().unwrap(), &Select::default()).await.unwrap();
    let id: RolloutId = report.id.parse().unwrap();
    mesh.tick().await.unwrap();
    fleet.speak(&mesh, &[]).await;
    let canary = fleet.told(&mesh).pop().unwrap();
    // It holds the order and does not ask whether it may begin.
    let all = fleet.nodes.clone();
    fleet.nodes.retain(|node| *node != canary);
    for _ in 0..60 {
        fleet.speak(&mesh, &[]).await;
        mesh.tick().await.unwrap();
        if mesh.report(&id).await.unwrap().state == State::Stopped {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let stopped = mesh.report(&id).await.unwrap();
    assert_eq!(
        stopped.stopped_because.as_ref().unwrap().kind,
        delivery::StopKind::Silence,
        "{}",
        stopped.text()
    );
    ticks(&mesh, &mut fleet, &[]).await;
    fleet.nodes = all;
    assert_eq!(fleet.told(&mesh), [], "an order of a stopped rollout stands");
    ticks(&mesh, &mut fleet, &[]).await;
    let (_, rollout) = mesh.load(&id).await.unwrap();
    let later = rollout.members[&canary].later.clone().unwrap_or_default();
    assert!(later.starts_with("heard later"), "{later:?}");
}
