//! Whole reconciles on a real folder.

use super::*;
use crate::host::state::tests::scratch;
use crate::wire::declaration;

fn document(resources: &str) -> Document {
    declaration::read(&format!(r#"{{"format":1,"node":"n","generation":1,"resources":[{resources}]}}"#))
        .unwrap()
}

fn run(state: &State, resources: &str) -> Vec<String> {
    let mut owned = state.owned();
    let failures = reconcile(state, &document(resources), &mut owned, &mut || true).unwrap();
    assert_eq!(state.owned(), owned, "ownership is stored");
    failures.into_iter().map(|failure| format!("{}: {}", failure.name, failure.error)).collect()
}

const FOLDER: &str = r#"{"kind":"directory","name":"/etc","mode":"0755"}"#;
const FILE: &str = r#"{"kind":"file","name":"/etc/app","content":"one\n","mode":"0640"}"#;

#[test]
fn resources_are_made_kept_and_taken_away() {
    let state = scratch("resources");
    let at = |path: &str| state.root().path(path);
    assert_eq!(run(&state, &format!("{FILE},{FOLDER}")), [""; 0]);
    assert_eq!(std::fs::read(at("/etc/app")).unwrap(), b"one\n");
    std::fs::write(at("/etc/app"), "changed by hand\n").unwrap();
    std::fs::write(at("/etc/foreign"), "").unwrap();
    let foreign = r#"{"kind":"file","name":"/etc/foreign","content":"now ours to keep, not to remove"}"#;
    assert_eq!(run(&state, &format!("{FILE},{FOLDER},{foreign}")), [""; 0]);
    assert_eq!(std::fs::read(at("/etc/app")).unwrap(), b"one\n");
    assert_eq!(run(&state, FOLDER), [""; 0]);
    assert!(!at("/etc/app").exists(), "ours and no longer declared");
    assert!(at("/etc/foreign").exists(), "not made by us");
    assert_eq!(run(&state, ""), [""; 0]);
    assert!(at("/etc").exists(), "not empty");
    std::fs::remove_file(at("/etc/foreign")).unwrap();
    assert_eq!(run(&state, ""), [""; 0]);
    assert!(!at("/etc").exists());
}

#[test]
fn one_failure_does_not_stop_the_others() {
    let state = scratch("failures");
    let failures = run(
        &state,
        &format!(
            r#"{{"kind":"file","name":"/nowhere/x","content":""}},{{"kind":"teapot","name":"t"}},
            {FILE},{FOLDER},
            {{"kind":"file","name":"/etc/o","content":"","owner":"nobody-at-all"}},
            {{"kind":"file","name":"/etc","content":""}}"#
        ),
    );
    assert_eq!(failures.len(), 4, "{failures:?}");
    assert_eq!(failures[0], "file:/nowhere/x: its folder does not exist: declare the folder too");
    assert!(state.root().path("/etc/app").exists());
}

#[test]
fn asked_to_leave_off_it_leaves_off() {
    let state = scratch("leave-off");
    let mut owned = Owned::default();
    let mut asked = 0;
    let mut go_on = || {
        asked += 1;
        asked < 2
    };
    assert_eq!(reconcile(&state, &document(&format!("{FILE},{FOLDER}")), &mut owned, &mut go_on), None);
    assert!(state.root().path("/etc").exists() && !state.root().path("/etc/app").exists());
}
