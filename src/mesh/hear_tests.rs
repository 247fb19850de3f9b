//! The checkpoint, and who is noticed to be silent.

use crate::mesh::core::Mesh;
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
