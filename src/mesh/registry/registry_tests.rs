use super::*;
use crate::mesh::engine::embedded::Embedded;
use crate::mesh::trial::Folder;
use crate::wire::declaration::{Spec, read};
use crate::wire::heartbeat::Rollback;
use crate::wire::join::JoinRequest;

async fn open(folder: &Folder) -> Registry {
    Registry::open(Arc::new(Embedded::open(folder.path()).unwrap())).await.unwrap()
}

fn request(token: &str, name: Option<&str>) -> JoinRequest {
    JoinRequest {
        format: 1,
        token: token.into(),
        name: name.map(str::to_owned),
        hostname: "web".into(),
        overlay_key: None,
        facts: Facts {
            architecture: "amd64".into(),
            package_format: "deb".into(),
            distribution: "debian-12".into(),
            kernel: "6.1".into(),
        },
    }
}

async fn joined(registry: &Registry, name: &str) -> NodeId {
    let token = registry.make_token(1, 60, 1000).await.unwrap();
    registry.join(&request(&token, Some(name)), 1000).await.unwrap().node.id.clone()
}

async fn add(registry: &Registry, version: &str, data: &[u8]) -> Result<packages::Added, Fault> {
    let mut draft = registry.store.begin_large().unwrap();
    draft.write(&deb::tests::package(version, "amd64", data)).unwrap();
    registry.add_package(draft).await
}

fn host(registry: &Registry, id: &NodeId) -> (u64, crate::wire::declaration::Host) {
    let record = registry.node(id).unwrap();
    let document = read(&record.declaration(&registry.specs.get(&record.spec).unwrap())).unwrap();
    match document.resources.last().map(|resource| resource.spec.clone()) {
        Some(Spec::Host(host)) => (document.generation, host),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_token_for_one_machine_joins_one_machine() {
    let folder = Folder::new("registry-token");
    let registry = Arc::new(open(&folder).await);
    let token = registry.make_token(1, 60, 1000).await.unwrap();
    let racers: Vec<_> = (0..16)
        .map(|_| {
            let (registry, token) = (registry.clone(), token.clone());
            tokio::spawn(async move { registry.join(&request(&token, None), 1000).await.is_ok() })
        })
        .collect();
    let mut wins = 0;
    for racer in racers {
        wins += u32::from(racer.await.unwrap());
    }
    assert_eq!((wins, registry.nodes().len()), (1, 1));
    // The same without the lock that makes joins one at a time: the compare-and-swap alone holds.
    let token = registry.make_token(3, 60, 1000).await.unwrap();
    let takers: Vec<_> = (0..16)
        .map(|_| {
            let (registry, token) = (registry.clone(), token.clone());
            tokio::spawn(async move { registry.take_use(&token, 1000).await.is_ok() })
        })
        .collect();
    let mut uses = 0;
    for taker in takers {
        uses += u32::from(taker.await.unwrap());
    }
    assert_eq!(uses, 3);
}

#[tokio::test]
async fn a_token_expires_and_a_wrong_one_never_was() {
    let folder = Folder::new("registry-expiry");
    let registry = open(&folder).await;
    let token = registry.make_token(5, 60, 1000).await.unwrap();
    assert!(registry.join(&request(&token, None), 1059).await.is_ok());
    assert!(matches!(registry.join(&request(&token, None), 1060).await, Err(Fault::NotYou(_))));
    assert!(matches!(registry.join(&request("x", None), 1000).await, Err(Fault::NotYou(_))));
}

#[tokio::test]
async fn names_are_unique_and_a_refused_name_costs_no_use() {
    let folder = Folder::new("registry-names");
    let registry = open(&folder).await;
    let token = registry.make_token(3, 60, 1000).await.unwrap();
    let first = registry.join(&request(&token, Some("web")), 1000).await.unwrap();
    assert!(matches!(registry.join(&request(&token, Some("web")), 1000).await, Err(Fault::Refused(_))));
    let second = registry.join(&request(&token, None), 1000).await.unwrap();
    assert_eq!((first.node.name.as_str(), second.node.name.as_str()), ("web", "web-2"));
    assert!(registry.join(&request(&token, Some("other")), 1000).await.is_ok(), "a use was wasted");
    assert!(registry.is_credential_of(&first.node.id, &first.credential));
    assert!(!registry.is_credential_of(&second.node.id, &first.credential));
    assert!(!registry.is_credential_of(&first.node.id, ""));
}

#[tokio::test]
async fn a_join_that_crashed_half_way_leaves_its_name_free() {
    let folder = Folder::new("registry-crash");
    let registry = open(&folder).await;
    registry.store.put_if("name/web", 0, b"n-never".to_vec()).await.unwrap();
    let id = joined(&registry, "web").await;
    assert_eq!(registry.node(&id).unwrap().name.as_str(), "web");
}

#[tokio::test]
async fn c97_a_generation_comes_only_with_new_content_and_survives_a_restart() {
    let folder = Folder::new("registry-generation");
    let id;
    {
        let registry = open(&folder).await;
        id = joined(&registry, "a").await;
        let mut bell = registry.generations(&id).unwrap();
        assert_eq!(host(&registry, &id).0, 1);
        let spec = || node::check_spec(&[serde_json::json!({"kind":"directory","name":"/x"})]).unwrap();
        assert_eq!(registry.declare(std::slice::from_ref(&id), spec(), true).await.unwrap(), 1);
        assert!(bell.has_changed().unwrap());
        bell.mark_unchanged();
        assert_eq!(registry.declare(std::slice::from_ref(&id), spec(), true).await.unwrap(), 0);
        assert!(!bell.has_changed().unwrap(), "the same content woke the node");
        assert_eq!(host(&registry, &id).0, 2);
    }
    let registry = open(&folder).await;
    assert_eq!(host(&registry, &id).0, 2);
    let later = joined(&registry, "b").await;
    assert_eq!(registry.node(&later).unwrap().spec, registry.node(&id).unwrap().spec);
}

#[tokio::test]
async fn after_a_restore_generations_continue_above_what_nodes_hold() {
    let folder = Folder::new("registry-restore");
    let registry = open(&folder).await;
    let id = joined(&registry, "a").await;
    assert!(registry.seen_generation(&id, 40).await.unwrap());
    assert_eq!(host(&registry, &id).0, 41);
    assert!(!registry.seen_generation(&id, 41).await.unwrap());
    registry.withdraw(&id, &"r-1".parse().unwrap(), 1).await.unwrap();
    assert_eq!(host(&registry, &id).0, 41);
    for lie in [u64::MAX, GENERATION_MAX + 1, GENERATION_MAX, GENERATION_MAX - 1] {
        assert!(registry.seen_generation(&id, lie).await.is_err(), "{lie}");
        assert_eq!(host(&registry, &id).0, 41);
    }
    // The largest that is believed is still followed by ones that the node may report.
    assert!(registry.seen_generation(&id, REPORTED_MAX).await.unwrap());
    let issued = host(&registry, &id).0;
    assert!(issued > REPORTED_MAX && issued < GENERATION_MAX);
    assert!(!registry.seen_generation(&id, issued).await.unwrap(), "its own generation is refused");
}

#[tokio::test]
async fn the_package_that_a_rollback_needs_is_named() {
    let folder = Folder::new("registry-retain");
    let registry = open(&folder).await;
    let id = joined(&registry, "a").await;
    registry.set_version(&id, &"1.4.0".parse().unwrap()).await.unwrap();
    assert_eq!(host(&registry, &id), (1, Default::default()));
    let added = add(&registry, "1.4.0", b"one").await.unwrap();
    let (generation, declared) = host(&registry, &id);
    assert_eq!((generation, declared.retain.unwrap().sha256), (2, added.listed.package.sha256));
    assert!(registry.packages().has(&added.listed.package.sha256));
    assert!(add(&registry, "1.4.0", b"one").await.unwrap().was_there);
    let files = || std::fs::read_dir(folder.path().join("large")).unwrap().count();
    assert_eq!(files(), 1);
    assert!(matches!(add(&registry, "1.4.0", b"two").await, Err(Fault::Refused(_))));
    assert_eq!(files(), 1, "the file of a refused package stayed");
    assert_eq!(host(&registry, &id).0, 2);
}

#[tokio::test]
async fn c79_evidence_is_stored_once_however_often_it_is_sent() {
    let folder = Folder::new("registry-evidence");
    let registry = open(&folder).await;
    let id = joined(&registry, "a").await;
    let record = Rollback { id: 3, boot: "b/../1".into(), from: "1.5.0".into(), ..Default::default() };
    for _ in 0..2 {
        assert_eq!(registry.keep_rollbacks(&id, std::slice::from_ref(&record), false).await.unwrap(), [3]);
    }
    assert_eq!(registry.rollbacks(&id).await.unwrap(), std::slice::from_ref(&record));
    let again = Rollback { outcome: "rolled-back".into(), ..record.clone() };
    assert_eq!(registry.keep_rollbacks(&id, std::slice::from_ref(&again), false).await.unwrap(), [3]);
    assert_eq!(
        registry.rollbacks(&id).await.unwrap(),
        std::slice::from_ref(&again),
        "the record says more now"
    );
    assert_eq!(registry.keep_rollbacks(&id, &[record], true).await.unwrap(), [3]);
    let other = Rollback { id: 1, boot: "b-2".into(), ..again.clone() };
    registry.keep_rollbacks(&id, std::slice::from_ref(&other), false).await.unwrap();
    assert_eq!(
        registry.rollbacks(&id).await.unwrap(),
        [again, other],
        "oldest first, a late one changes nothing"
    );
}

#[tokio::test]
async fn an_order_of_an_earlier_attempt_never_replaces_a_later_one() {
    let folder = Folder::new("registry-attempts");
    let registry = open(&folder).await;
    let id = joined(&registry, "a").await;
    let package = add(&registry, "1.5.0", b"five").await.unwrap().listed.package;
    let order = |attempt: u64| TargetRecord {
        package: package.clone(),
        rollout: format!("r-{attempt}").parse().unwrap(),
        attempt,
        insist_unarmed: false,
        since: 0,
    };
    assert!(registry.tell(&id, &order(7)).await.unwrap());
    assert!(!registry.tell(&id, &order(6)).await.unwrap());
    assert!(!registry.tell(&id, &order(7)).await.unwrap());
    assert_eq!(registry.node(&id).unwrap().target.as_ref().unwrap().attempt, 7);
    assert!(!registry.withdraw(&id, &"r-6".parse().unwrap(), 6).await.unwrap());
    assert!(registry.tell(&id, &order(8)).await.unwrap());
    assert_eq!(registry.node(&id).unwrap().target.as_ref().unwrap().attempt, 8);
}
