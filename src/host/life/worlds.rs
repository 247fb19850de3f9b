//! Every order of events up to a depth, on a model of one node: the host's decisions are the real ones,
//! the service manager and the rollback script are three lines each.

use super::confirm::{Standing, may_confirm};
use super::refuse::{Failed, Refused};
use super::upgrade::{Attempted, Decision, Progress, View, Waiting, decide, tries_so_far};
use crate::model::{Attempt, Digest, Version};
use crate::wire::declaration::{Package, Target};

const DEPTH: usize = 6;

/// Versions: 1 and 3 work, 2 dies before its first reconcile is over.
fn version(n: u64) -> Version {
    format!("1.{n}.0").parse().unwrap()
}

fn works(n: u64) -> bool {
    n != 2
}

#[derive(Clone, Debug)]
struct Node {
    installed: u64,
    known_good: Option<u64>,
    retained: Option<u64>,
    refused: Refused,
    last: Option<Attempted>,
    declared: Option<(u64, Attempt)>,
    attempts: Attempt,
    /// (version, attempt) of each install that a decision led to.
    ordered: Vec<(u64, Attempt)>,
    /// Changes of version by anybody.
    changes: Vec<u64>,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    /// The operator asks for a version, with a new attempt.
    Ask(u64),
    /// The host starts, loads, reconciles, decides.
    Run,
    /// The power goes in the middle of an install that the host would begin now.
    CutInInstall,
    /// A person installs a version.
    ByHand(u64),
    /// The mesh's copy of the running version arrives.
    Retain,
    /// The file about the last order is damaged: what was rolled back is refused all the same.
    Forget,
}

const EVENTS: [Event; 9] = [
    Event::Ask(2),
    Event::Ask(3),
    Event::Ask(1),
    Event::Run,
    Event::CutInInstall,
    Event::ByHand(1),
    Event::ByHand(2),
    Event::Retain,
    Event::Forget,
];

fn target(declared: (u64, Attempt)) -> Target {
    Target {
        package: Package { version: version(declared.0), sha256: Digest::new([0; 32]), size: 1 },
        rollout: "r".parse().unwrap(),
        attempt: declared.1,
        insist_unarmed: false,
    }
}

impl Node {
    fn new() -> Self {
        Node {
            installed: 1,
            known_good: None,
            retained: None,
            refused: Refused::default(),
            last: None,
            declared: None,
            attempts: 0,
            ordered: vec![],
            changes: vec![1],
        }
    }

    fn apply(&mut self, event: Event) {
        match event {
            Event::Ask(n) => {
                self.attempts += 1;
                self.declared = Some((n, self.attempts));
            }
            Event::ByHand(n) => self.change(n),
            Event::Retain => self.retained = Some(self.installed),
            Event::Forget => self.last = None,
            Event::Run => self.run(false),
            Event::CutInInstall => self.run(true),
        }
    }

    fn change(&mut self, n: u64) {
        self.installed = n;
        self.changes.push(n);
    }

    /// One life of the installed version; a dead one is rolled back by the script.
    fn run(&mut self, cut: bool) {
        if !works(self.installed) {
            let Some(good) = self.known_good.filter(|good| *good != self.installed) else { return };
            let (dead, attempt) = (self.installed, self.attempt_of(self.installed));
            self.change(good);
            let declared = self.declared.map(|(n, attempt)| (version(n), attempt));
            let failed = Failed { version: version(dead), attempt, reason: "exit-code".into() };
            self.refused.add(failed, declared.as_ref().map(|(v, a)| (v, *a)));
            return;
        }
        let standing = Standing {
            holds_declaration: self.declared.is_some(),
            full_reconcile: true,
            set_aside: false,
            install_runs: false,
            proper_version: true,
        };
        if may_confirm(standing) {
            self.known_good = Some(self.installed);
            self.refused.forgive(&version(self.installed));
        }
        let Some(declared) = self.declared else { return };
        let target = target(declared);
        let armed = self.known_good == Some(self.installed) && self.retained == Some(self.installed);
        let view = View {
            running: &version(self.installed),
            armed,
            pinned: false,
            reconciled: true,
            install_runs: false,
            refused: &self.refused,
            last: self.last.as_ref(),
        };
        match decide(&target, &view) {
            Decision::Nothing => self.note(&target, Progress::Reached),
            Decision::Go => {
                assert!(armed, "an order while unarmed: {self:?}");
                self.ordered.push(declared);
                let tries = tries_so_far(&target, self.last.as_ref()) + 1;
                self.note(&target, Progress::Begun(tries));
                if !cut {
                    self.note(&target, Progress::Installed);
                    self.change(declared.0);
                }
            }
            Decision::Refused(_) | Decision::Failed(_) | Decision::Wait(_) => {}
        }
    }

    fn note(&mut self, target: &Target, state: Progress) {
        let Target { package, rollout, attempt, .. } = target.clone();
        self.last = Some(Attempted { version: package.version, attempt, rollout, state });
    }

    fn attempt_of(&self, n: u64) -> Attempt {
        self.last.as_ref().filter(|last| last.version == version(n)).map_or(0, |last| last.attempt)
    }

    fn check(&self, path: &[Event]) {
        assert!(self.known_good.is_none_or(works), "{path:?}: a dead version is known-good");
        let mut installs = self.ordered.clone();
        installs.sort_unstable();
        for (n, attempt) in &installs {
            let times = installs.iter().filter(|one| *one == &(*n, *attempt)).count();
            let forgot = path.iter().any(|event| matches!(event, Event::Forget));
            assert!(forgot || times <= 3, "{path:?}: attempt {attempt} of {n} was begun {times} times");
        }
        // Two versions never flap: the dead version comes once for each asking or each hand, no more.
        let dead = self.changes.iter().filter(|n| !works(**n)).count();
        // Whoever put the old version back by hand and then lost the file is asked once more.
        let counts = |e: &&Event| matches!(e, Event::Ask(2) | Event::ByHand(2) | Event::Forget);
        let asked = path.iter().filter(counts).count();
        assert!(dead <= asked, "{path:?}: the dead version came {dead} times, asked for {asked} times");
    }
}

#[test]
fn c18_e11_no_order_of_events_flaps_or_confirms_a_dead_version() {
    let mut path = Vec::new();
    let visited = explore(&Node::new(), &mut path);
    assert!(visited > 200_000, "{visited}");
}

fn explore(node: &Node, path: &mut Vec<Event>) -> usize {
    if path.len() == DEPTH {
        return 1;
    }
    let mut visited = 1;
    for event in EVENTS {
        let mut next = node.clone();
        path.push(event);
        next.apply(event);
        next.check(path);
        visited += explore(&next, path);
        path.pop();
    }
    visited
}

#[test]
fn c37_a_version_changed_by_hand_stays_until_asked_again() {
    let mut node = Node::new();
    for event in [Event::Ask(3), Event::Run, Event::Retain, Event::Run, Event::Run, Event::ByHand(1)] {
        node.apply(event);
    }
    assert_eq!(node.known_good, Some(3));
    for _ in 0..5 {
        node.apply(Event::Retain);
        node.apply(Event::Run);
    }
    assert_eq!(node.installed, 1, "held by operator");
    node.apply(Event::Ask(3));
    node.apply(Event::Run);
    assert_eq!(node.installed, 3, "asked again");
}

#[test]
fn decisions_as_a_table() {
    let (one, refused) = (version(1), Refused::default());
    let asked = target((3, 7));
    let failed = |reason| {
        Progress::Failed(super::upgrade::Failure {
            class: super::upgrade::Class::Machine,
            reason,
            detail: String::new(),
        })
    };
    let last =
        |state, attempt| Attempted { version: version(3), attempt, rollout: "r".parse().unwrap(), state };
    let view = View {
        running: &one,
        armed: true,
        pinned: false,
        reconciled: true,
        install_runs: false,
        refused: &refused,
        last: None,
    };
    use super::upgrade::Reason;
    assert_eq!(decide(&asked, &view), Decision::Go);
    assert_eq!(decide(&target((1, 7)), &view), Decision::Nothing);
    let mut dead = Refused::default();
    dead.add(Failed { version: version(3), attempt: 7, reason: "watchdog".into() }, None);
    let refusing = View { refused: &dead, pinned: true, ..view };
    assert_eq!(decide(&asked, &refusing), Decision::Refused("watchdog".into()));
    assert_eq!(decide(&target((3, 8)), &View { pinned: false, ..refusing }), Decision::Go);
    let rows = [
        (View { install_runs: true, pinned: true, ..view }, Waiting::Installing),
        (View { pinned: true, armed: false, ..view }, Waiting::Pinned),
        (View { reconciled: false, armed: false, ..view }, Waiting::Reconciling),
        (View { armed: false, ..view }, Waiting::Unarmed),
        (View { last: Some(&last(Progress::Reached, 7)), ..view }, Waiting::Held),
        (View { last: Some(&last(Progress::Installed, 8)), ..view }, Waiting::Held),
    ];
    for (view, waiting) in rows {
        assert_eq!(decide(&asked, &view), Decision::Wait(waiting), "{view:?}");
    }
    for (state, again) in [
        (failed(Reason::Lock), true),
        (failed(Reason::Unavailable), true),
        (failed(Reason::Held), true),
        (failed(Reason::Claim), true),
        (failed(Reason::Disk), false),
        (failed(Reason::Package), false),
        (Progress::Begun(2), true),
        (Progress::Begun(3), false),
    ] {
        let same = last(state.clone(), 7);
        let decision = decide(&asked, &View { last: Some(&same), ..view });
        assert_eq!(decision == Decision::Go, again, "{state:?}");
        let older = last(state, 6);
        assert_eq!(decide(&asked, &View { last: Some(&older), ..view }), Decision::Go);
    }
    let insisted = Target { insist_unarmed: true, ..asked };
    assert_eq!(decide(&insisted, &View { armed: false, ..view }), Decision::Go);
}
