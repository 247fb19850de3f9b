//! The checkpoint, and who is noticed to be silent.

use super::{Listening, STOOD_STILL_MS, Stored, Transition};
use crate::mesh::core::Mesh;
use crate::mesh::engine::Engine;
use crate::mesh::trial::{Failing, Folder, mesh_on};
use crate::model::{Facts, NodeId};
use crate::wire::heartbeat::Heartbeat;
use crate::wire::join::JoinRequest;
use std::time::Duration;

async fn joined(mesh: &Mesh) -> NodeId {
    let token = mesh.registry.make_token(1, 60, 1000).await.unwrap();
    let (hostname, facts) = ("web".into(), Facts::default());
    let request = JoinRequest { format: 1, token, name: None, hostname, overlay_key: None, facts };
    mesh.registry.join(&request, 1000).await.unwrap().node.id.clone()
}

fn beat(id: &NodeId, sequence: u64) -> Heartbeat {
    let version = "1.4.0".to_owned();
    Heartbeat { node: id.to_string(), boot: "b".into(), start: 1, sequence, version, ..Heartbeat::default() }
}

#[tokio::test]
async fn a_checkpoint_that_could_not_be_written_is_written_later() {
    let folder = Folder::new("hear-fails");
    let id = "n-1".parse().unwrap();
    {
        let store = Failing::new(&folder);
        let (mesh, _stop) = mesh_on(&folder, store.clone(), 1000, None).await;
        mesh.hearing.fold(&id, &beat(&id, 1));
        store.fail("presence/");
        assert!(mesh.hearing.checkpoint(mesh.registry.store(), false).await.is_err());
        store.fail("");
        mesh.hearing.checkpoint(mesh.registry.store(), false).await.unwrap();
    }
    let (mesh, _stop) = mesh_on(&folder, Failing::new(&folder), 1000, None).await;
    assert!(mesh.hearing.presence(&id).heard_at.is_some(), "the failed write was forgotten");
}

#[tokio::test]
async fn a_look_notices_who_is_silent_and_a_heartbeat_ends_it() {
    let folder = Folder::new("hear-silent");
    let (mesh, _stop) = mesh_on(&folder, Failing::new(&folder), 10, None).await;
    let id = joined(&mesh).await;
    let word = || mesh.node_lines()[0].presence.clone();
    mesh.heartbeat(&id, &beat(&id, 1)).await.unwrap();
    mesh.tick().await.unwrap();
    assert_eq!(word(), "heard");
    tokio::time::sleep(Duration::from_millis(60)).await;
    assert_eq!(word(), "heard", "only a look notices silence");
    mesh.tick().await.unwrap();
    assert_eq!(word(), "silent");
    mesh.heartbeat(&id, &beat(&id, 2)).await.unwrap();
    assert_eq!((word().as_str(), mesh.hearing.presence(&id).absences), ("heard", 1));
}

#[tokio::test]
async fn silence_is_told_once_and_written_down() {
    let folder = Folder::new("hear-told");
    let id = "n-1".parse().unwrap();
    {
        let (mesh, _stop) = mesh_on(&folder, Failing::new(&folder), 1000, None).await;
        mesh.hearing.fold(&id, &beat(&id, 1));
        mesh.hearing.checkpoint(mesh.registry.store(), false).await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert_eq!(mesh.hearing.look(5), [(id.clone(), vec![Transition::WentSilent])]);
        assert_eq!(mesh.hearing.look(5), []);
        mesh.hearing.checkpoint(mesh.registry.store(), false).await.unwrap();
    }
    let (mesh, _stop) = mesh_on(&folder, Failing::new(&folder), 1000, None).await;
    assert!(mesh.hearing.presence(&id).silent_at.is_some());
}

#[tokio::test]
async fn c88_the_epoch_after_a_standstill_is_stored_before_it_is_used() {
    let folder = Folder::new("hear-standstill");
    let epoch = {
        let store = Failing::new(&folder);
        // Late enough in mesh time for a look to lie in the past.
        let long_ago = Stored { now: 1_000_000, listening: Listening::default() };
        store.put_if("listening", 0, serde_json::to_vec(&long_ago).unwrap()).await.unwrap();
        let (mesh, _stop) = mesh_on(&folder, store.clone(), 1000, None).await;
        mesh.tick().await.unwrap();
        let before = mesh.hearing.listening().epoch;
        mesh.hearing.hold().looked_at -= STOOD_STILL_MS + 1;
        store.fail("listening");
        assert!(mesh.tick().await.is_err());
        assert_eq!(mesh.hearing.listening().epoch, before, "used and not stored");
        store.fail("");
        mesh.tick().await.unwrap();
        assert_eq!(mesh.hearing.listening().epoch, before + 1);
        mesh.tick().await.unwrap();
        mesh.hearing.listening().epoch
    };
    let (mesh, _stop) = mesh_on(&folder, Failing::new(&folder), 1000, None).await;
    assert_eq!(mesh.hearing.listening().epoch, epoch + 1, "an epoch was used twice");
}
