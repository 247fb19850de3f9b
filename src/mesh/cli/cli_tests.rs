//! The command line as a table: what is taken, what is refused, what it means.

use super::verbs::resources_of;
use super::*;
use crate::mesh::delivery::Size;
use crate::mesh::trial::Folder;
use clap::CommandFactory;

fn parse(line: &str) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(std::iter::once("nox-mesh").chain(line.split_whitespace()))
}

#[test]
fn the_command_line_is_sound() {
    Cli::command().debug_assert();
}

#[test]
fn what_is_taken_and_what_is_not() {
    let good = [
        "serve --data d --listen 127.0.0.1:0",
        "serve --data d --listen [::1]:7443 --advertise https://m:7443 --heartbeat 500ms --operator-socket s",
        "serve --data d --listen 127.0.0.1:0 --pause-at order-before-put",
        "token create",
        "token create --uses 3 --expires 2h --output json",
        "nodes --socket /run/s",
        "--output json nodes",
        "label rack=7 --select name=a",
        "package add a.deb b.deb",
        "package list",
        "declare f.toml --select name=a --select name=b",
        "rollout start --version 1.5.0",
        "rollout status",
        "rollout status r-1",
        "rollout watch",
        "rollout watch r-1",
        "rollout report",
        "rollout report r-1",
        "rollout stop r-1 --why because",
        "rollout abort r-1",
    ];
    for line in good {
        assert!(parse(line).is_ok(), "{line}: {}", parse(line).unwrap_err());
    }
    let bad = [
        "serve --data d",
        "serve --data d --listen nowhere",
        "serve --data d --listen 127.0.0.1:0 --pause-at somewhere",
        "token create --expires 1",
        "label rack=7",
        "package add",
        "rollout start",
        "rollout start --version 1.5.0 --waves 0",
        "rollout start --version 1.5.0 --max-in-change 120%",
        "rollout stop",
        "roll",
        "nodes --output yaml",
    ];
    for line in bad {
        assert!(parse(line).is_err(), "{line}");
    }
}

#[test]
fn the_plan_of_a_rollout_is_what_was_typed() {
    let line = "rollout start --version 1.5.0 --canary 1 --window 10s --confirm-deadline 1m --soak 2s \
                --waves 2,50% --max-in-change 3 --insist-unarmed --retry-refused";
    let Verb::Rollout(RolloutVerb::Start(arguments)) = parse(line).unwrap().verb else { panic!("{line}") };
    let request = verbs::start_request(arguments);
    let plan = request.plan;
    assert_eq!((request.version.as_str(), plan.canary, plan.window_ms), ("1.5.0", 1, 10_000));
    assert_eq!((plan.confirm_deadline_ms, plan.soak_ms, plan.insist_unarmed), (60_000, 2_000, true));
    assert!(plan.retry_refused);
    assert_eq!(plan.waves, [Size::Nodes(2), Size::Percent(50)]);
    assert_eq!(plan.max_in_change, Size::Nodes(3));
    let Verb::Rollout(RolloutVerb::Start(arguments)) = parse("rollout start --version 1.5.0").unwrap().verb
    else {
        panic!("no start")
    };
    assert_eq!(verbs::start_request(arguments).plan, crate::mesh::delivery::Plan::default());
}

#[test]
fn a_declaration_file_with_a_mistake_names_it() {
    let folder = Folder::new("cli-toml");
    let path = folder.path().join("f.toml");
    let read = |text: &str| {
        std::fs::write(&path, text).unwrap();
        resources_of(&path).map_err(|failure| failure.to_string())
    };
    let good = read("[[resource]]\nkind=\"file\"\nname=\"/a\"\ncontent=\"x\"\nmode=\"0644\"\n").unwrap();
    assert_eq!((good.len(), good[0]["mode"].as_str()), (1, Some("0644")));
    assert_eq!(read("").unwrap().len(), 0);
    for (text, wanted) in [
        ("[[resource]\n", "line 1"),
        ("[resource]\nkind=\"file\"\n", "[[resource]]"),
        ("[[resources]]\nkind=\"file\"\n", "'resources' is not known"),
    ] {
        let said = read(text).unwrap_err();
        assert!(said.contains(wanted), "{said}");
    }
    assert!(resources_of(&folder.path().join("none")).is_err());
}

#[test]
fn watching_prints_what_is_new_and_nothing_twice() {
    let report = |state: &str, outcome: &str, wave: &str| {
        serde_json::json!({
            "id": "r-1", "version": "1.5.0", "state": state, "summary": "1 of 1",
            "waves": [{"number": 1, "canary": true, "state": wave, "nodes": ["n-1"]}],
            "nodes": [{"id": "n-1", "name": "web", "wave": 1, "outcome": outcome, "version": "1.4.0"}],
            "stopped_because": null, "verdict": null, "not_included": [], "waiting_for": [],
        })
    };
    let (told, rolled) = (report("running", "told", "open"), report("stopped", "rolled-back", "not_passed"));
    let first = watch::lines(&serde_json::Value::Null, &told);
    let wanted = ["wave 1 (canary): 1 nodes told", "web: told (runs 1.4.0)", "1.5.0: running: 1 of 1"];
    assert_eq!(first.len(), 3, "{first:?}");
    for (line, wanted) in first.iter().zip(wanted) {
        assert!(line.contains(wanted), "{line}");
    }
    assert_eq!(watch::lines(&told, &told), Vec::<String>::new());
    let after = watch::lines(&told, &rolled).join("\n");
    for wanted in ["wave 1 (canary): not passed", "web: rolled-back", "stopped", "rollout report r-1"] {
        assert!(after.contains(wanted), "{after}");
    }
}
