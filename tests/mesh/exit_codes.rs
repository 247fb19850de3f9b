//! Exit codes are a contract with scripts: each from the real program.

use crate::world::{World, package, serve_fails};

#[test]
fn every_exit_code_is_the_one_that_the_help_promises() {
    let mut world = World::new("exit-codes");
    assert_eq!(world.code(&["nodes"]), 6, "nobody serves");
    assert_eq!(world.code(&["rollout", "watch", "r-1"]), 6);
    world.serve();
    let deb = world.write("nox-mesh-host_1.5.0_amd64.deb", &package("1.5.0"));
    let junk = world.write("junk.deb", b"junk");
    let good = world.write("good.toml", b"[[resource]]\nkind=\"directory\"\nname=\"/etc/app\"\n");
    let bad = world.write("bad.toml", b"[[resource]]\nkind=\"directory\"\nname=\"etc/app\"\n");
    let absent = world.path("absent");
    let start = ["rollout", "start", "--version", "1.5.0"];
    let run = |rows: &[(i32, &[&str])]| {
        for (wanted, arguments) in rows {
            let said = world.mesh(arguments);
            assert_eq!(said.status.code(), Some(*wanted), "{arguments:?}: {said:?}");
        }
    };
    run(&[
        (0, &["nodes"]),
        (2, &["rollout", "stop"]),
        (4, &start),
        (4, &["declare", &good, "--select", "name=nobody"]),
        (4, &["label", "rack=7", "--select", "name=nobody"]),
        (5, &["rollout", "watch"]),
        (5, &["rollout", "status", "r-9"]),
        (5, &["declare", &bad]),
        (5, &["package", "add", &junk]),
        (1, &["package", "add", &absent]),
        (0, &["package", "add", &deb]),
        (0, &["declare", &good]),
    ]);
    world.join("web");
    run(&[
        (5, &["rollout", "start", "--version", "9.9.9"]),
        (2, &["rollout", "start", "--version", "newest"]),
        (4, &["rollout", "start", "--version", "1.5.0", "--select", "name=nobody"]),
        (0, &start),
        (5, &start),
    ]);
    let newest = || {
        let said = world.mesh(&["rollout", "status", "--output", "json"]);
        let all: serde_json::Value = serde_json::from_slice(&said.stdout).unwrap();
        all.as_array().unwrap().last().unwrap().clone()
    };
    let id = newest()["id"].as_str().unwrap().to_owned();
    let (no_id, also_none) = (id.replace('-', " /-"), id.replace('-', "/"));
    run(&[
        (2, &["rollout", "stop", &no_id]),
        (2, &["rollout", "status", &also_none]),
        (2, &["rollout", "watch", ""]),
    ]);
    assert_eq!(newest()["state"], "waiting", "something that is no id stopped it");
    run(&[
        (0, &["rollout", "stop", &id]),
        (3, &["rollout", "watch", &id]),
        (3, &["rollout", "watch", &id, "--output", "json"]),
        (3, &["rollout", "watch"]),
        (0, &["rollout", "status", &id]),
        (0, &["rollout", "report", &id]),
    ]);
    world.kill();
    assert_eq!(world.code(&["nodes"]), 6, "it was killed and its socket is still there");
}

#[test]
fn a_second_mesh_does_not_take_the_socket_of_the_first() {
    let mut world = World::new("socket");
    world.serve();
    let (code, said) =
        serve_fails(&world.path("other"), &["--operator-socket", &world.path("data/operator.sock")]);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("--operator-socket"), "{said}");
    assert_eq!(world.code(&["nodes"]), 0, "the first one lost its socket");
}

#[test]
fn a_serve_that_makes_no_sense_is_a_mistake_in_its_use() {
    let world = World::new("serve-usage");
    for wrong in [
        ["--heartbeat", "99ms"],
        ["--heartbeat", "61m"],
        ["--heartbeat", "365d"],
        ["--advertise", "https://mesh.example:0"],
        ["--advertise", "https://0.0.0.0:7443"],
        ["--advertise", "https://a..b:7443"],
    ] {
        let (code, said) = serve_fails(&world.path("data"), &wrong);
        assert_eq!(code, 2, "{wrong:?}: {said}");
        assert!(said.contains(wrong[0]), "{said}");
    }
}
