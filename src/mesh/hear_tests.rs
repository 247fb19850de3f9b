//! The checkpoint, and who is noticed to be silent.

use crate::mesh::trial::{Failing, Folder, mesh_on};
use crate::wire::heartbeat::Heartbeat;

fn beat(id: &crate::model::NodeId, sequence: u64) -> Heartbeat {
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
