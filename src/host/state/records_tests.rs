//! Each file is read as it is written; the scripts' files are read as the scripts write them.

use super::super::tests::{scratch, write};
use super::*;

fn v(text: &str) -> Version {
    text.parse().unwrap()
}

#[test]
fn results_of_the_install_script() {
    let state = scratch("results");
    assert_eq!(state.outcome(), None);
    let head = "format=1\nversion=1.5.0\nattempt=3\n";
    write(
        &state,
        "result",
        format!("{head}status=installed\nclass=none\nreason=none\nexit=0\ndetail=x\n").as_bytes(),
    );
    assert_eq!(state.outcome(), Some(Outcome { attempt: 3, version: Some(v("1.5.0")), failure: None }));
    write(
        &state,
        "result",
        format!("{head}status=failed\nclass=machine\nreason=disk\nexit=1\ndetail=full\n").as_bytes(),
    );
    let failure = state.outcome().unwrap().failure.unwrap();
    assert_eq!((failure.class, failure.reason), (Class::Machine, Reason::Disk));
    write(&state, "result", format!("{head}status=failed\nreason=later\n").as_bytes());
    assert_eq!(state.outcome().unwrap().failure.unwrap().reason, Reason::State);
}

#[test]
fn own_files_round_trip() {
    let state = scratch("own");
    let failure = Failure { class: Class::Release, reason: Reason::Package, detail: "a b".into() };
    for progress in [Progress::Begun(2), Progress::Installed, Progress::Reached, Progress::Failed(failure)] {
        let attempted =
            Attempted { version: v("1.5.0"), attempt: 3, rollout: "r-1".parse().unwrap(), state: progress };
        state.store_attempted(&attempted).unwrap();
        assert_eq!(state.attempted(), Some(attempted));
    }
    let mark = Mark { generation: 7, version: v("1.4.0"), unfinished: 1 };
    state.store_mark(&mark).unwrap();
    assert_eq!(state.mark(), Some(mark.clone()));
    state.store_quarantined(&mark).unwrap();
    assert_eq!(state.quarantined(), Some((7, v("1.4.0"))));
}

#[test]
fn the_order_is_what_the_install_script_reads() {
    let state = scratch("order");
    state
        .store_order(&Order {
            version: v("1.5.0"),
            rollout: "r-1".parse().unwrap(),
            attempt: 3,
            package: "nox-mesh-host_1.5.0_amd64.deb".into(),
            sha256: "00".repeat(32).parse().unwrap(),
            boot_id: "b-1".parse().unwrap(),
            claim_until: 3600,
        })
        .unwrap();
    let text = String::from_utf8(state.bytes("order", 1000).unwrap()).unwrap();
    let zeros = "0".repeat(64);
    assert_eq!(
        text,
        format!(
            "format=1\nversion=1.5.0\nrollout=r-1\nattempt=3\npackage=nox-mesh-host_1.5.0_amd64.deb\n\
             sha256={zeros}\nboot_id=b-1\nclaim_until=3600\n"
        )
    );
}
