//! Bad input of the first issue as rows: refused whole, or partly usable with a clear report.

use super::*;

const SHA: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn with(resources: &str) -> String {
    format!(r#"{{"format":1,"node":"n-1","generation":7,"resources":[{resources}]}}"#)
}

fn refusal(text: &str) -> String {
    read(text).unwrap_err().to_string()
}

fn unusable(resource: &str) -> String {
    let document = read(&with(resource)).unwrap();
    match &document.resources[0].spec {
        Spec::Unusable(why) => why.clone(),
        usable => panic!("{resource} is usable: {usable:?}"),
    }
}

#[test]
fn a_whole_declaration_is_read() {
    let text = with(&format!(
        r#"{{"kind":"directory","name":"/etc/app","mode":"0750","owner":"root","group":"0"}},
           {{"kind":"file","name":"/etc/app/conf","content":"a\n","later_field":1}},
           {{"kind":"host","name":"host",
             "target":{{"rollout":"r-1","attempt":3,
               "package":{{"version":"1.5.0","sha256":"{SHA}","size":9}}}},
             "retain":{{"version":"1.4.0","sha256":"{SHA}","size":8}}}}"#
    ));
    let document = read(&text).unwrap();
    assert_eq!(document.generation, 7);
    let ids: Vec<&str> = document.resources.iter().map(|r| r.id.as_str()).collect();
    assert_eq!(ids, ["directory:/etc/app", "file:/etc/app/conf", "host:host"]);
    let Spec::Directory(directory) = &document.resources[0].spec else { panic!() };
    assert_eq!(directory.access.mode, Some(0o750));
    let Spec::Host(host) = &document.resources[2].spec else { panic!() };
    let target = host.target.as_ref().unwrap();
    assert_eq!((target.attempt, target.insist_unarmed), (3, false));
    assert_eq!(host.retain.as_ref().unwrap().version.to_string(), "1.4.0");
}

#[test]
fn bad_documents_are_refused_whole_with_the_place() {
    let deep = "[".repeat(10_000) + &"]".repeat(10_000);
    let rows = [
        ("", "the document: expected JSON, found nothing"),
        ("null", "the document: expected an object, found null"),
        ("[]", "the document: expected an object, found an array"),
        ("{}", "format: expected a value, found nothing"),
        (r#"{"format":"1"}"#, "format: expected a whole number from 0 on, found '1'"),
        (r#"{"format":9}"#, "format 9 is newer than this host understands (1): upgrade the host"),
        (r#"{"format":1,"node":"../n"}"#, "node: expected a node id, found '../n'"),
        (
            r#"{"format":1,"node":"n","generation":0,"resources":[]}"#,
            "generation: expected a generation from 1 on, found 0",
        ),
        (r#"{"format":1,"node":"n","generation":1}"#, "resources: expected a value, found nothing"),
        (
            r#"{"format":1,"node":"n","generation":1,"resources":{}}"#,
            "resources: expected an array, found an object",
        ),
        (&deep, "the document: expected an object, found an array"),
    ];
    for (text, said) in rows {
        assert_eq!(refusal(text), said);
    }
    assert_eq!(refusal(&with(r#"{"name":"x"}"#)), "resources[0].kind: expected a value, found nothing");
    let file = r#"{"kind":"file","name":"/a","content":""}"#;
    assert_eq!(refusal(&with(&format!("{file},{file}"))), "resource file:/a is declared twice");
    assert_eq!(refusal(&"x".repeat(50_000_000)), "50000000 bytes are too many: at most 1048576");
    let many = vec![r#"{"kind":"x","name":"y"}"#; limits::RESOURCES_MAX + 1].join(",");
    assert_eq!(refusal(&with(&many)), "4097 resources are too many: at most 4096");
}

#[test]
fn a_bad_resource_is_reported_and_the_others_stay_usable() {
    let document = read(&with(
        r#"{"kind":"teapot","name":"x"},{"kind":"file","name":"relative","content":""},
           {"kind":"directory","name":"/ok"}"#,
    ))
    .unwrap();
    assert!(matches!(document.resources[0].spec, Spec::Unusable(_)));
    assert!(matches!(document.resources[1].spec, Spec::Unusable(_)));
    assert!(matches!(document.resources[2].spec, Spec::Directory(_)));
    let rows = [
        (r#"{"kind":"teapot","name":"x"}"#, "this host does not know the kind 'teapot'"),
        (r#"{"kind":"file","name":"/a"}"#, "resources[0].content: expected a value, found nothing"),
        (
            r#"{"kind":"file","name":"/a","content":"","mode":420}"#,
            "resources[0].mode: expected text, found 420",
        ),
        (
            r#"{"kind":"file","name":"/a","content":"","mode":"+644"}"#,
            "resources[0].mode: expected an octal mode such as \"0644\", found '+644'",
        ),
    ];
    for (resource, said) in rows {
        assert_eq!(unusable(resource), said);
    }
    for path in ["/", "", "a", "/a/../b", "/a//b", "/./a", "/a/", "/a\\u0000b"] {
        unusable(&format!(r#"{{"kind":"directory","name":"{path}"}}"#));
    }
    for package in ["{}", r#"{"version":"1","sha256":"","size":1}"#] {
        unusable(&format!(r#"{{"kind":"host","name":"host","retain":{package}}}"#));
    }
}

#[test]
fn a_node_takes_only_its_own_and_only_newer_ones() {
    let document = read(&with("")).unwrap();
    let me: NodeId = "n-1".parse().unwrap();
    let other: NodeId = "n-2".parse().unwrap();
    assert_eq!(accept(&document, &me, 6), Ok(()));
    assert_eq!(accept(&document, &me, 7), Err(Refusal::NotNewer(7, 7)));
    assert_eq!(accept(&document, &me, 8), Err(Refusal::NotNewer(7, 8)));
    assert_eq!(accept(&document, &other, 0), Err(Refusal::OtherNode(me)));
}
