//! Bad declarations change nothing; poisoned ones are set aside.

use super::*;
use crate::host::life::confirm::may_confirm;
use crate::host::state::tests::{scratch, write};
use crate::sys::crypt::SigningKey;

fn signer() -> (SigningKey, Identity) {
    let key = SigningKey::from_pkcs8(&SigningKey::generate().unwrap()).unwrap();
    let identity = Identity {
        node: "n-1".parse().unwrap(),
        name: "web01".parse().unwrap(),
        mesh: "https://127.0.0.1:1".into(),
        credential: "c".into(),
        declaration_key_id: "k1".into(),
        declaration_key: key.public(),
        ca: vec![1],
        heartbeat: std::time::Duration::from_secs(30),
    };
    (key, identity)
}

fn sealed(key: &SigningKey, text: &str) -> Vec<u8> {
    let signature = key.sign(text.as_bytes());
    Envelope { declaration: text.into(), key: "k1".into(), signature }.write().into_bytes()
}

fn text(generation: u64) -> String {
    format!(r#"{{"format":1,"node":"n-1","generation":{generation},"resources":[]}}"#)
}

#[test]
fn bad_declarations_are_refused_and_the_last_good_one_stays() {
    let state = scratch("declared");
    let (key, identity) = signer();
    let mut declared = Declared::load(&state, &identity);
    assert_eq!(declared.accepted, 0);
    assert!(declared.offer(&state, &identity, &sealed(&key, &text(7))));
    let deep = "[".repeat(10_000) + &"]".repeat(10_000);
    let other = text(8).replace("n-1", "n-2");
    let (stranger, _) = signer();
    let mut renamed = Envelope::read(&sealed(&key, &text(8))).unwrap();
    renamed.key = "k2".into();
    let rows: [(Vec<u8>, &str); 11] = [
        (vec![], "no declaration envelope"),
        (b"null".to_vec(), "no declaration envelope"),
        (b"[1]".to_vec(), "no declaration envelope"),
        (vec![b'x'; 50_000_000], "too large"),
        (deep.into_bytes(), "no declaration envelope"),
        (sealed(&key, ""), "expected JSON, found nothing"),
        (sealed(&key, &other), "it is for node n-2"),
        (sealed(&key, &text(6)), "generation 6 is not above the accepted generation 7"),
        (sealed(&key, &text(7)), "generation 7 is not above the accepted generation 7"),
        (sealed(&stranger, &text(8)), "its signature is not that of the mesh"),
        (renamed.write().into_bytes(), "unknown key 'k2'"),
    ];
    for (bytes, said) in rows {
        assert!(!declared.offer(&state, &identity, &bytes));
        let refusal = declared.refusal.clone().unwrap();
        assert!(refusal.contains(said), "{refusal}");
        assert_eq!(declared.accepted, 7);
    }
    assert_eq!(Declared::load(&state, &identity).accepted, 7);
    assert!(declared.offer(&state, &identity, &sealed(&key, &text(8))));
    assert_eq!(declared.refusal, None);
}

#[test]
fn c93_a_declaration_that_ends_the_host_is_set_aside_before_the_third_crash() {
    let state = scratch("poison");
    let (key, identity) = signer();
    let running: Version = "1.4.0".parse().unwrap();
    let mut declared = Declared::load(&state, &identity);
    declared.offer(&state, &identity, &sealed(&key, &text(6)));
    declared.begin(&state, &identity, &running, true);
    declared.end(&state).unwrap();
    assert!(!state.exists("applying"));
    declared.offer(&state, &identity, &sealed(&key, &text(7)));
    declared.begin(&state, &identity, &running, true);
    for crash in 1..=3 {
        // The process ended without `end`.
        declared = Declared::load(&state, &identity);
        declared.begin(&state, &identity, &running, true);
        let generation = declared.in_force.as_ref().unwrap().generation;
        assert_eq!(generation, if crash < 2 { 7 } else { 6 }, "after crash {crash}");
        assert_eq!(declared.set_aside, (crash >= 2).then_some(7));
    }
    declared.end(&state).unwrap();
    assert_eq!((declared.accepted, declared.good), (7, 6));
    assert!(declared.refusal.as_ref().unwrap().contains("declaration 7 ended the host twice"));
    // Another version tries it, and the next generation is taken by everybody.
    let newer: Version = "1.5.0".parse().unwrap();
    let mut other = Declared::load(&state, &identity);
    other.begin(&state, &identity, &newer, false);
    assert_eq!(other.in_force.as_ref().unwrap().generation, 7);
    assert!(declared.offer(&state, &identity, &sealed(&key, &text(8))));
    declared.begin(&state, &identity, &running, true);
    assert_eq!((declared.set_aside, declared.in_force.unwrap().generation), (None, 8));
}

#[test]
fn damaged_files_fall_back_and_are_reported() {
    let state = scratch("declared-damaged");
    let (key, identity) = signer();
    let mut declared = Declared::load(&state, &identity);
    declared.offer(&state, &identity, &sealed(&key, &text(6)));
    declared.end(&state).unwrap();
    write(&state, "declaration", &[0; 100]);
    let declared = Declared::load(&state, &identity);
    assert_eq!((declared.accepted, declared.good), (6, 6));
    assert_eq!(state.damaged().len(), 1);
    write(&state, "declaration.good", b"{}");
    write(&state, "declaration", b"{}");
    assert_eq!(Declared::load(&state, &identity).accepted, 0);
}

#[test]
fn only_what_was_got_through_by_a_proper_version_can_be_confirmed() {
    let one: Version = "1.0.0".parse().unwrap();
    let text = r#"{"format":1,"node":"n-1","generation":1,"resources":[]}"#;
    let good = || Declared {
        in_force: declaration::read(text).ok(),
        accepted: 1,
        is_through: true,
        ..Declared::default()
    };
    let confirms = |declared: &Declared, version: &Version, install_runs: bool| {
        may_confirm(declared.standing(version, install_runs))
    };
    assert!(confirms(&good(), &one, false));
    assert!(!confirms(&good(), &one, true));
    assert!(!confirms(&good(), &Version::zero(), false), "not a proper version");
    assert!(!confirms(&Declared { in_force: None, ..good() }, &one, false), "nothing is declared");
    assert!(!confirms(&Declared { is_through: false, ..good() }, &one, false), "not got through yet");
    assert!(!confirms(&Declared { set_aside: Some(2), ..good() }, &one, false), "set aside");
}
