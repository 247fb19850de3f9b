//! The link over real TLS on loopback.

use crate::mesh::registry::deb;
use crate::mesh::trial::{Folder, Node, Served};
use crate::sys::crypt::verify;
use crate::wire::envelope::Envelope;
use crate::wire::heartbeat::{Heartbeat, HeartbeatAnswer, Rollback};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

fn beat(node: &Node, sequence: u64) -> Heartbeat {
    Heartbeat {
        format: 1,
        node: node.joined.node.clone(),
        boot: "b-1".into(),
        start: 1,
        sequence,
        version: "1.4.0".into(),
        confirmed: true,
        ..Heartbeat::default()
    }
}

async fn send(served: &Served, node: &Node, beat: &Heartbeat) -> HeartbeatAnswer {
    let body = miniserde::json::to_string(beat);
    let answer = served.call("POST", "/v1/heartbeat", &node.authorization, &[], &body).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    miniserde::json::from_str(&answer.text()).unwrap()
}

#[tokio::test]
async fn a_node_speaks_for_itself_only() {
    let folder = Folder::new("link-self");
    let served = Served::new(&folder, 100).await;
    let (a, b) = (served.node("a").await, served.node("b").await);
    let cases = [
        (String::new(), 401),
        ("Bearer x".into(), 401),
        (format!("Bearer {}:{}", a.joined.node, b.joined.credential), 401),
        (format!("Bearer {}:", a.joined.node), 401),
        (format!("Basic {}:{}", a.joined.node, a.joined.credential), 401),
        (a.authorization.clone(), 204),
    ];
    for (authorization, status) in cases {
        let answer = served.call("GET", "/v1/declaration?after=1&wait=0", &authorization, &[], "").await;
        assert_eq!(answer.status, status, "{authorization}");
    }
    let body = miniserde::json::to_string(&beat(&b, 1));
    let answer = served.call("POST", "/v1/heartbeat", &a.authorization, &[], &body).await;
    assert_eq!(answer.status, 401, "{}", answer.text());
    for path in ["/v1/nodes", "/v1/tokens", "/v1/rollouts", "/", "/v1/packages"] {
        let answer = served.call("GET", path, &a.authorization, &[], "").await;
        assert_eq!(answer.status, 404, "{path}: the operator's calls are on the link");
    }
}

#[tokio::test]
async fn a_new_declaration_wakes_the_long_poll_at_once() {
    let folder = Folder::new("link-poll");
    let served = Served::new(&folder, 100).await;
    let node = served.node("a").await;
    let first = served.call("GET", "/v1/declaration?after=0&wait=60", &node.authorization, &[], "").await;
    assert_eq!(first.status, 200);
    let poll = served.call("GET", "/v1/declaration?after=1&wait=60", &node.authorization, &[], "");
    let declare = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let id = node.joined.node.parse().unwrap();
        let spec = r#"[{"kind":"directory","name":"/x"}]"#.to_owned();
        served.mesh.registry.declare(&[id], spec, false).await.unwrap();
        Instant::now()
    };
    let (answer, declared) = tokio::join!(poll, declare);
    assert!(declared.elapsed() < Duration::from_secs(1), "the bell did not ring");
    let envelope = Envelope::read(&answer.body).unwrap();
    assert!(verify(&node.joined.declaration_key, envelope.declaration.as_bytes(), &envelope.signature));
    assert_eq!(envelope.key, node.joined.declaration_key_id);
    let document = crate::wire::declaration::read(&envelope.declaration).unwrap();
    assert_eq!((document.generation, document.node.to_string()), (2, node.joined.node.clone()));
}

#[tokio::test]
async fn c79_evidence_is_acknowledged_when_it_is_stored_and_again_when_it_is_sent_again() {
    let folder = Folder::new("link-evidence");
    let served = Served::new(&folder, 100).await;
    let node = served.node("a").await;
    let mut said = beat(&node, 1);
    said.rollbacks = vec![Rollback {
        id: 7,
        boot: "b-1".into(),
        from: "1.5.0".into(),
        to: "1.4.0".into(),
        ..Default::default()
    }];
    assert_eq!(send(&served, &node, &said).await.stored_rollbacks, [7]);
    said.sequence = 2;
    assert_eq!(send(&served, &node, &said).await.stored_rollbacks, [7]);
    let id = node.joined.node.parse().unwrap();
    assert_eq!(served.mesh.registry.rollbacks(&id).await.unwrap().len(), 1);
}

#[tokio::test]
async fn rule_11_a_heartbeat_that_changes_nothing_writes_nothing() {
    let folder = Folder::new("link-rule11");
    let served = Served::new(&folder, 100).await;
    let node = served.node("a").await;
    send(&served, &node, &beat(&node, 1)).await;
    let mut watch = served.mesh.registry.store().watch("");
    watch.mark_unchanged();
    for sequence in 2..20 {
        send(&served, &node, &beat(&node, sequence)).await;
    }
    assert!(!watch.has_changed().unwrap(), "a heartbeat wrote a record");
}

#[tokio::test]
async fn a_download_goes_on_where_it_broke_off() {
    let folder = Folder::new("link-range");
    let served = Served::new(&folder, 100).await;
    let node = served.node("a").await;
    let bytes = deb::tests::package("1.5.0", "amd64", &vec![7u8; 300_001]);
    let mut draft = served.mesh.registry.store().begin_large().unwrap();
    draft.write(&bytes).unwrap();
    let added = served.mesh.registry.add_package(draft).await.unwrap();
    let path = format!("/v1/packages/{}", added.listed.package.sha256);
    let whole = served.call("GET", &path, &node.authorization, &[], "").await;
    assert!(whole.status == 200 && whole.body == bytes);
    let part = served.call("GET", &path, &node.authorization, &[("range", "bytes=200000-")], "").await;
    assert_eq!((part.status, part.body.as_slice()), (206, &bytes[200_000..]));
    let range = part.headers["content-range"].to_str().unwrap();
    assert_eq!(range, format!("bytes 200000-{}/{}", bytes.len() - 1, bytes.len()));
    let past = format!("bytes={}-", bytes.len());
    let past = served.call("GET", &path, &node.authorization, &[("range", &past)], "").await;
    assert_eq!(past.status, 416);
    assert_eq!(served.call("GET", &path, "", &[], "").await.status, 401);
    // Bytes that were uploaded and refused are no package, whatever their hash.
    let refused = deb::tests::package("1.5.0", "amd64", b"other");
    let mut draft = served.mesh.registry.store().begin_large().unwrap();
    draft.write(&refused).unwrap();
    assert!(served.mesh.registry.add_package(draft).await.is_err());
    let hash = crate::model::Digest::new(crate::sys::crypt::sha256(&refused));
    let path = format!("/v1/packages/{hash}");
    assert_eq!(served.call("GET", &path, &node.authorization, &[], "").await.status, 404);
    for other in ["00", "../ca/ca.key", &"0".repeat(64)] {
        let path = format!("/v1/packages/{other}");
        assert_eq!(served.call("GET", &path, &node.authorization, &[], "").await.status, 404, "{other}");
    }
}

#[tokio::test]
async fn what_is_too_large_or_no_sense_is_refused() {
    let folder = Folder::new("link-limits");
    let served = Served::new(&folder, 100).await;
    let node = served.node("a").await;
    let huge = format!("{{\"format\":1,\"x\":\"{}\"}}", "x".repeat(17 * 1024));
    let newer = r#"{"format":2}"#;
    let other = miniserde::json::to_string(&Heartbeat { format: 2, ..beat(&node, 1) });
    let rows = [(huge.as_str(), 413), ("{", 400), ("", 400), (newer, 400), (other.as_str(), 400)];
    for (body, status) in rows {
        let answer = served.call("POST", "/v1/heartbeat", &node.authorization, &[], body).await;
        assert_eq!(answer.status, status, "{}", answer.text());
        assert!(answer.text().contains("\"error\""));
    }
    for path in
        ["/v1/declaration?after=x", "/v1/declaration?after=18446744073709551615", "/v1/declaration?after=-1"]
    {
        assert_eq!(served.call("GET", path, &node.authorization, &[], "").await.status, 400, "{path}");
    }
}

#[tokio::test]
async fn only_tls_13_and_nobody_waits_for_a_peer_that_says_nothing() {
    let folder = Folder::new("link-tls");
    let served = Served::new(&folder, 100).await;
    assert!(served.connect(&[&rustls::version::TLS13]).await.is_ok());
    let mut plain = TcpStream::connect(served.address).await.unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut said = Vec::new();
    let ended = tokio::time::timeout(Duration::from_secs(5), plain.read_to_end(&mut said)).await;
    assert!(ended.is_ok() && !said.starts_with(b"HTTP"), "plain HTTP was answered");
    let mut silent = TcpStream::connect(served.address).await.unwrap();
    let deadline = super::HANDSHAKE_TIME + Duration::from_secs(5);
    let ended = tokio::time::timeout(deadline, silent.read_to_end(&mut said)).await;
    assert!(ended.is_ok(), "a peer that says nothing keeps its connection");
}

#[tokio::test]
async fn a_full_house_makes_new_ones_wait_and_serves_those_inside() {
    let folder = Folder::new("link-full");
    let served = Served::new(&folder, 2).await;
    let node = served.node("a").await;
    let one = served.connect(&[&rustls::version::TLS13]).await.unwrap();
    let two = served.connect(&[&rustls::version::TLS13]).await.unwrap();
    let third = served.call("GET", "/v1/declaration?after=0", &node.authorization, &[], "");
    let mut third = std::pin::pin!(third);
    assert!(tokio::time::timeout(Duration::from_millis(300), third.as_mut()).await.is_err());
    drop(one);
    assert_eq!(third.await.status, 200);
    drop(two);
}

#[tokio::test]
async fn asked_to_stop_it_answers_long_polls_and_ends() {
    let folder = Folder::new("link-stop");
    let served = Served::new(&folder, 100).await;
    let node = served.node("a").await;
    let poll = served.call("GET", "/v1/declaration?after=1&wait=60", &node.authorization, &[], "");
    let stop = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        served.stop.send_replace(true);
    };
    let (answer, ()) = tokio::join!(poll, stop);
    assert_eq!(answer.status, 204);
    tokio::time::timeout(Duration::from_secs(5), served.running).await.unwrap().unwrap();
}
