//! The driver on a real store: killed between any two lines, it goes on and never widens.

#[path = "driver_crash_tests.rs"]
mod crash;

use super::*;
use crate::mesh::registry::deb;
use crate::mesh::trial::{Folder, mesh, mesh_that_pauses};
use crate::model::Facts;
use crate::wire::heartbeat::{Heartbeat, Rollback};
use crate::wire::join::JoinRequest;

struct Fleet {
    nodes: Vec<NodeId>,
    sequence: u64,
    bytes: usize,
}

impl Fleet {
    /// Nodes that run and confirmed 1.4.0, with the packages of 1.4.0 and 1.5.0 in the store.
    async fn new(mesh: &Mesh, count: usize) -> Self {
        for version in ["1.4.0", "1.5.0"] {
            let mut draft = mesh.registry.store().begin_large().unwrap();
            draft.write(&deb::tests::package(version, "amd64", version.as_bytes())).unwrap();
            mesh.registry.add_package(draft).await.unwrap();
        }
        let facts = Facts {
            architecture: "amd64".into(),
            package_format: "deb".into(),
            distribution: "debian-12".into(),
            kernel: "6".into(),
        };
        let token = mesh.registry.make_token(100_000, 60, 1000).await.unwrap();
        let mut nodes = Vec::new();
        for _ in 0..count {
            let request = JoinRequest {
                format: 1,
                token: token.clone(),
                name: Some(format!("web-{}", nodes.len())),
                hostname: "web".into(),
                overlay_key: None,
                facts: facts.clone(),
            };
            nodes.push(mesh.registry.join(&request, 1000).await.unwrap().node.id.clone());
        }
        let mut fleet = Fleet { nodes, sequence: 0, bytes: 0 };
        fleet.speak(mesh, &[]).await;
        fleet
    }

    /// Every node says where it is; those named run 1.5.0 under a new process.
    async fn speak(&mut self, mesh: &Mesh, upgraded: &[NodeId]) {
        self.sequence += 1;
        for id in &self.nodes {
            let beat = self.beat(mesh, id, upgraded.contains(id));
            self.bytes = miniserde::json::to_string(&beat).len();
            mesh.heartbeat(id, &beat).await.unwrap();
        }
    }

    fn beat(&self, mesh: &Mesh, id: &NodeId, new: bool) -> Heartbeat {
        let version = if new { "1.5.0" } else { "1.4.0" };
        let accepted = mesh.registry.node(id).unwrap().generation;
        Heartbeat {
            format: 1,
            node: id.to_string(),
            boot: format!("b-{id}"),
            start: if new { 2 } else { 1 },
            sequence: self.sequence,
            version: version.into(),
            confirmed: true,
            known_good: Some(version.into()),
            armed: true,
            accepted,
            applied: accepted,
            ..Heartbeat::default()
        }
    }

    fn told(&self, mesh: &Mesh) -> Vec<NodeId> {
        let told = |id: &&NodeId| mesh.registry.node(id).unwrap().target.is_some();
        self.nodes.iter().filter(told).cloned().collect()
    }
}

fn plan() -> Plan {
    Plan { canary: 1, waves: vec![delivery::Size::Nodes(1)], soak_ms: 0, ..Plan::default() }
}

async fn start(mesh: &Mesh) -> RolloutId {
    let report = mesh.start_rollout(plan(), "1.5.0".parse().unwrap(), &Select::default()).await.unwrap();
    report.id.parse().unwrap()
}

fn claim(id: &RolloutId) -> ClaimRequest {
    let attempt = id.as_str().trim_start_matches("r-").parse().unwrap();
    ClaimRequest { format: 1, rollout: id.to_string(), attempt, version: "1.5.0".into() }
}

#[tokio::test]
async fn a_rollout_reaches_every_node_one_wave_after_the_other() {
    let folder = Folder::new("driver-whole");
    let (mesh, _stop) = mesh(&folder).await;
    let mut fleet = Fleet::new(&mesh, 3).await;
    let id = start(&mesh).await;
    let mut most = 0;
    for _ in 0..40 {
        mesh.tick().await.unwrap();
        let told = fleet.told(&mesh);
        let upgraded =
            |id: &NodeId| mesh.hearing.presence(id).version.as_ref().unwrap().to_string() == "1.5.0";
        most = most.max(told.iter().filter(|id| !upgraded(id)).count());
        fleet.speak(&mesh, &told).await;
        if mesh.report(&id).await.unwrap().state == State::Complete {
            break;
        }
    }
    let report = mesh.report(&id).await.unwrap();
    assert_eq!((report.state, fleet.told(&mesh).len()), (State::Complete, 3), "{}", report.text());
    assert_eq!(most, 1, "more nodes in change than the plan allows");
    let retained = mesh.registry.node(&fleet.nodes[0]).unwrap().retain.clone().unwrap();
    assert_eq!(retained.version.to_string(), "1.5.0");
}

#[tokio::test]
async fn c74_killed_at_any_point_the_next_mesh_goes_on_and_tells_nobody_more() {
    use PausePoint::{OrderAfterPut, OrderBeforePut, RolloutStored};
    for point in [RolloutStored, OrderBeforePut, OrderAfterPut] {
        let folder = Folder::new(&format!("driver-kill-{point:?}"));
        let mut fleet = {
            let (mesh, _stop) = mesh(&folder).await;
            let fleet = Fleet::new(&mesh, 4).await;
            mesh.hearing.checkpoint(mesh.registry.store(), true).await.unwrap();
            fleet
        };
        // Stands still at the point, is dropped there, as a kill would have it; again and again.
        for round in 0..3 {
            let (mesh, _stop) = mesh_that_pauses(&folder, Some(point)).await;
            fleet.speak(&mesh, &[]).await;
            let mark = folder.path().join("paused");
            let _ = std::fs::remove_file(&mark);
            let until_paused = async {
                while !mark.exists() {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            let work = async {
                if round == 0 {
                    start(&mesh).await;
                }
                mesh.tick().await.unwrap();
                mesh.tick().await.unwrap();
            };
            tokio::select! { () = work => {}, () = until_paused => {} }
            assert!(fleet.told(&mesh).len() <= 1, "{point:?}, round {round}");
        }
        let (mesh, _stop) = mesh(&folder).await;
        assert!(mesh.hearing.presence(&fleet.nodes[0]).heard_at.is_some(), "not known as heard before");
        let line = mesh.node_lines().remove(0);
        assert!(line.heard_before_restart && line.presence == "heard", "{line:?}");
        fleet.speak(&mesh, &[]).await;
        assert!(!mesh.node_lines().remove(0).heard_before_restart);
        for _ in 0..3 {
            mesh.tick().await.unwrap();
        }
        assert_eq!(fleet.told(&mesh).len(), 1, "{point:?}: the canary, and nobody else");
        let id = mesh.rollout_ids().pop().unwrap();
        assert_eq!(mesh.report(&id).await.unwrap().waves.len(), 1, "{point:?}");
    }
}

#[tokio::test]
async fn c76_after_a_stop_is_answered_no_claim_is_granted() {
    let folder = Folder::new("driver-stop");
    let (mesh, _stop) = mesh(&folder).await;
    let mut fleet = Fleet::new(&mesh, 4).await;
    let id = start(&mesh).await;
    mesh.tick().await.unwrap();
    let told = fleet.told(&mesh);
    let (canary, other) = (&told[0], fleet.nodes.iter().find(|id| !told.contains(id)).unwrap().clone());
    assert!(!mesh.claim(&other, &claim(&id)).await.unwrap().granted, "a node that was not told may begin");
    let wrong = ClaimRequest { version: "1.6.0".into(), ..claim(&id) };
    assert!(!mesh.claim(canary, &wrong).await.unwrap().granted);
    fleet.speak(&mesh, &[]).await;
    let first = mesh.claim(canary, &claim(&id)).await.unwrap();
    assert!(first.granted, "{first:?}");
    let report = mesh.stop_rollout(&id, "trial").await.unwrap();
    assert_eq!(report.state, State::Stopped);
    assert_eq!(report.stopped_because.unwrap().begun.len(), 1, "it had begun before the stop");
    assert_eq!(fleet.told(&mesh), told, "what had begun is followed to its end, nobody else is told");
    assert!(!mesh.claim(canary, &claim(&id)).await.unwrap().granted);
}

#[tokio::test]
async fn a_canary_that_rolled_back_stops_the_rollout_and_its_evidence_is_kept() {
    let folder = Folder::new("driver-rolled-back");
    let (mesh, _stop) = mesh(&folder).await;
    let mut fleet = Fleet::new(&mesh, 6).await;
    let id = start(&mesh).await;
    mesh.tick().await.unwrap();
    let canary = fleet.told(&mesh).pop().unwrap();
    fleet.speak(&mesh, &[]).await;
    assert!(mesh.claim(&canary, &claim(&id)).await.unwrap().granted);
    let beat = Heartbeat {
        start: 5,
        rollbacks: vec![Rollback {
            id: 1,
            boot: format!("b-{canary}"),
            from: "1.5.0".into(),
            to: "1.4.0".into(),
            attempt: claim(&id).attempt,
            rollout: Some(id.to_string()),
            outcome: "rolled-back".into(),
            reason: "it would not start".into(),
            result: Some("exit-code".into()),
            log: vec!["panicked".into()],
            ..Rollback::default()
        }],
        ..fleet.beat(&mesh, &canary, false)
    };
    assert_eq!(mesh.heartbeat(&canary, &beat).await.unwrap().stored_rollbacks, [1]);
    for _ in 0..3 {
        mesh.tick().await.unwrap();
    }
    let report = mesh.report(&id).await.unwrap();
    assert_eq!(report.state, State::Stopped, "{}", report.text());
    assert_eq!(report.stopped_because.unwrap().kind, delivery::StopKind::RolledBack);
    let evidence = report.nodes.iter().find_map(|node| node.evidence.clone()).unwrap();
    assert_eq!(evidence.log, ["panicked"]);
    assert_eq!(fleet.told(&mesh), [], "an order of the bad version stands");
    assert!(!mesh.claim(&canary, &claim(&id)).await.unwrap().granted);
}

#[tokio::test]
async fn c76_a_claim_that_was_stored_and_not_answered_is_granted_again_by_the_next_mesh() {
    let folder = Folder::new("driver-claim-kill");
    let (id, canary) = {
        let (mesh, _stop) = mesh_that_pauses(&folder, Some(PausePoint::ClaimStored)).await;
        let mut fleet = Fleet::new(&mesh, 2).await;
        let id = start(&mesh).await;
        mesh.tick().await.unwrap();
        fleet.speak(&mesh, &[]).await;
        let canary = fleet.told(&mesh).pop().unwrap();
        let claim = claim(&id);
        let asked = mesh.claim(&canary, &claim);
        assert!(tokio::time::timeout(Duration::from_millis(300), asked).await.is_err());
        (id, canary)
    };
    let (mesh, _stop) = mesh(&folder).await;
    let answer = mesh.claim(&canary, &claim(&id)).await.unwrap();
    assert!(answer.granted, "{answer:?}");
    let report = mesh.stop_rollout(&id, "trial").await.unwrap();
    assert_eq!(report.stopped_because.unwrap().begun.len(), 1, "the stored claim was forgotten");
}

#[tokio::test]
async fn c76_a_claim_needs_the_order_in_the_declaration() {
    let folder = Folder::new("driver-claim-early");
    let (mesh, _stop) = mesh_that_pauses(&folder, Some(PausePoint::OrderBeforePut)).await;
    let mut fleet = Fleet::new(&mesh, 2).await;
    let id = start(&mesh).await;
    assert!(tokio::time::timeout(Duration::from_millis(300), mesh.tick()).await.is_err());
    fleet.speak(&mesh, &[]).await;
    for node in &fleet.nodes {
        let answer = mesh.claim(node, &claim(&id)).await.unwrap();
        assert!(!answer.granted, "granted for an order that the node cannot have");
    }
}

#[tokio::test]
async fn a_stop_that_was_stored_and_not_acted_upon_is_acted_upon_by_the_next_mesh() {
    let folder = Folder::new("driver-stop-kill");
    let fleet = {
        let (mesh, _stop) = mesh_that_pauses(&folder, Some(PausePoint::StopStored)).await;
        let fleet = Fleet::new(&mesh, 4).await;
        let id = start(&mesh).await;
        mesh.tick().await.unwrap();
        assert_eq!(fleet.told(&mesh).len(), 1);
        let stop = mesh.stop_rollout(&id, "trial");
        assert!(tokio::time::timeout(Duration::from_millis(300), stop).await.is_err());
        assert_eq!(fleet.told(&mesh).len(), 1, "acted before the pause");
        fleet
    };
    let (mesh, _stop) = mesh(&folder).await;
    mesh.tick().await.unwrap();
    assert_eq!(fleet.told(&mesh), []);
}

#[tokio::test]
async fn c88_a_restart_begins_a_new_epoch_and_time_never_goes_back() {
    let folder = Folder::new("driver-epoch");
    let (mut epoch, mut now) = (0, 0);
    for _ in 0..3 {
        let (mesh, _stop) = mesh(&folder).await;
        let listening = mesh.hearing.listening();
        assert!(listening.epoch == epoch + 1 && listening.since > now, "{listening:?} after {epoch} {now}");
        (epoch, now) = (listening.epoch, mesh.hearing.now());
        mesh.hearing.checkpoint(mesh.registry.store(), true).await.unwrap();
    }
}

#[tokio::test]
async fn one_rollout_at_a_time_and_ids_are_used_once() {
    let folder = Folder::new("driver-one");
    let (mesh, _stop) = mesh(&folder).await;
    let nobody = mesh.start_rollout(plan(), "1.5.0".parse().unwrap(), &Select::default()).await;
    assert!(matches!(nobody, Err(Fault::NothingMatched(_))));
    let _fleet = Fleet::new(&mesh, 2).await;
    let missing = mesh.start_rollout(plan(), "1.9.0".parse().unwrap(), &Select::default()).await;
    assert!(matches!(missing, Err(Fault::Refused(_))));
    let id = start(&mesh).await;
    let again = mesh.start_rollout(plan(), "1.5.0".parse().unwrap(), &Select::default()).await;
    assert!(matches!(again, Err(Fault::Refused(_))));
    mesh.stop_rollout(&id, "trial").await.unwrap();
    assert_ne!(start(&mesh).await, id);
}

/// Not a judgement, a measurement: run with `--ignored --nocapture` in an optimised profile.
#[tokio::test]
#[ignore = "measures"]
async fn what_a_large_fleet_costs() {
    let folder = Folder::new("driver-large");
    let (mesh, _stop) = mesh(&folder).await;
    let count: usize = std::env::var("NODES").ok().and_then(|text| text.parse().ok()).unwrap_or(2000);
    let clock = std::time::Instant::now;
    let begun = clock();
    let mut fleet = Fleet::new(&mesh, count).await;
    println!("{count} joins and first heartbeats: {:?}", begun.elapsed());
    let begun = clock();
    fleet.speak(&mesh, &[]).await;
    println!("{count} heartbeats that change nothing: {:?}", begun.elapsed());
    let begun = clock();
    mesh.hearing.checkpoint(mesh.registry.store(), true).await.unwrap();
    println!("checkpoint of everything: {:?}", begun.elapsed());
    let begun = clock();
    start(&mesh).await;
    println!("start: {:?}", begun.elapsed());
    for round in 0..3 {
        let begun = clock();
        mesh.tick().await.unwrap();
        println!("tick {round}: {:?}", begun.elapsed());
    }
    let rss = std::fs::read_to_string("/proc/self/status").unwrap();
    println!("{}", rss.lines().find(|line| line.starts_with("VmRSS")).unwrap());
    println!("bytes of a heartbeat: {}", fleet.bytes);
}
