//! The registry of scenarios. A new one is a function and a line here.
//!
//! One with several nodes and real hosts says so, for the runner to make room and build them first:
//!
//! ```ignore
//! const TWO: &[Host] = &[Host::good("1.0.0"), Host::broken("1.1.0", "panic-in-reconcile")];
//! hosts(TWO, nodes(3, s("rollout-stops", BOOKWORM, 300, rollout::stops)))
//! ```

mod broken;
mod demo;
mod killed;
mod machine;
mod no_rollback;
mod power;
mod readme;
mod rollout;
mod stubborn;
mod units;
mod upgrade;

use std::time::Duration;

use crate::base::Base;
use crate::hosts::Host;
use crate::room::Lab;
use crate::wait::{Done, secs};

/// A scenario, which runs once for each of its bases.
#[derive(Clone, Copy)]
struct Scenario {
    name: &'static str,
    bases: &'static [Base],
    /// The real hosts that it installs, to be built before it starts.
    hosts: &'static [Host],
    /// How many nodes it boots: the runner keeps the sum of those that run side by side in bounds.
    nodes: usize,
    /// When the runner gives up on it. Its own waits should fail first, because they say what for.
    limit: Duration,
    run: fn(&Lab, Base) -> Done,
}

/// Run only when they are named in full: a part of `machine-kill-9`, and what `make demo` shows.
const ONLY_BY_NAME: [&str; 2] = [HELD, "demo"];
pub const HELD: &str = "machine-hold";

const ALL: &[Base] = &Base::ALL;
const BOOKWORM: &[Base] = &[Base::Bookworm];

const ONE: &[Host] = &[rollout::OLD];
const TWO: &[Host] = &[rollout::OLD, rollout::GOOD];
const EXITS: &[Host] = &[rollout::OLD, rollout::EXITS];
const HANGS: &[Host] = &[rollout::OLD, rollout::HANGS];
const STORY: &[Host] = &[rollout::OLD, rollout::GOOD, rollout::PANICS, rollout::NEXT];

/// One node, unless `nodes` says otherwise.
fn s(name: &'static str, bases: &'static [Base], limit: u64, run: fn(&Lab, Base) -> Done) -> Scenario {
    Scenario { name, bases, hosts: &[], nodes: 1, limit: secs(limit), run }
}

fn nodes(nodes: usize, scenario: Scenario) -> Scenario {
    Scenario { nodes, ..scenario }
}

fn hosts(hosts: &'static [Host], scenario: Scenario) -> Scenario {
    Scenario { hosts, ..scenario }
}

/// The node alone, with stand-ins for versions of the host.
fn alone() -> Vec<Scenario> {
    vec![
        nodes(2, s("machine-boots", ALL, 120, machine::boots)),
        s("machine-power", BOOKWORM, 120, machine::power),
        nodes(2, s("machine-link", BOOKWORM, 120, machine::link)),
        nodes(2, s("machine-kill-9", BOOKWORM, 120, machine::kill_9)),
        s(HELD, BOOKWORM, 120, machine::hold),
        s("units-facts", ALL, 120, units::facts),
        s("broken-slow-crash", BOOKWORM, 240, broken::slow_crash),
        s("broken-freeze", BOOKWORM, 240, broken::freeze),
        s("broken-hang", ALL, 180, broken::hang),
        s("broken-exit1", ALL, 120, broken::exit1),
        s("broken-exit0", ALL, 120, broken::exit0),
        s("broken-garbage", BOOKWORM, 120, broken::garbage),
        s("broken-other-architecture", BOOKWORM, 120, broken::other_architecture),
        s("broken-missing", ALL, 120, broken::missing),
        s("c01-one-crash-heals", ALL, 120, broken::c01_heals),
        s("no-known-good", ALL, 120, no_rollback::no_known_good),
        s("known-good-crashes", ALL, 120, no_rollback::known_good_crashes),
        s("c03-four-restarts", ALL, 120, no_rollback::c03_restarts),
        s("upgrade-clean-exit", ALL, 120, upgrade::clean_exit),
        s("upgrade-on-failure-stays-dead", BOOKWORM, 120, upgrade::clean_exit_on_failure),
        s("upgrade-ordered", ALL, 120, upgrade::ordered),
        s("stubborn-reloads", BOOKWORM, 120, stubborn::e6_reloads),
        s("stubborn-reboot-loop", ALL, 120, stubborn::reboot_loop),
        s("stubborn-same-again", BOOKWORM, 120, stubborn::again),
        s("stubborn-held", BOOKWORM, 120, stubborn::held),
        s("stubborn-lock", BOOKWORM, 120, stubborn::c52_lock),
        s("power-mid-rollback", BOOKWORM, 300, power::mid_rollback),
        s("power-mid-upgrade", BOOKWORM, 240, power::mid_upgrade),
        s("stubborn-person-first", BOOKWORM, 120, stubborn::person_first),
        s("stubborn-removed", BOOKWORM, 120, stubborn::removed),
        s("stubborn-read-only", BOOKWORM, 400, stubborn::read_only),
        s("upgrade-person-first", BOOKWORM, 120, upgrade::person_first),
        s("upgrade-killed", BOOKWORM, 180, upgrade::killed),
    ]
}

/// Real hosts and a mesh.
fn fleets() -> Vec<Scenario> {
    vec![
        hosts(STORY, nodes(3, s("demo", BOOKWORM, 600, demo::demo))),
        hosts(STORY, nodes(3, s("e11-rollout-story", ALL, 300, rollout::e11_story))),
        hosts(EXITS, nodes(2, s("rollout-exits", BOOKWORM, 200, rollout::exits))),
        hosts(HANGS, nodes(2, s("rollout-hangs", BOOKWORM, 240, rollout::hangs))),
        hosts(ONE, nodes(3, s("killed-at-points", BOOKWORM, 400, killed::at_points))),
        hosts(ONE, nodes(3, s("killed-at-random", BOOKWORM, 900, killed::at_random))),
        hosts(ONE, nodes(3, s("c67-silence", BOOKWORM, 200, killed::c67_silence))),
        hosts(ONE, s("rollout-by-hand", BOOKWORM, 200, rollout::by_hand)),
        hosts(ONE, nodes(2, s("rollout-preflight", BOOKWORM, 240, rollout::preflight))),
        hosts(TWO, s("rollout-arms-itself", BOOKWORM, 120, rollout::arms_itself)),
        hosts(TWO, s("readme-install", BOOKWORM, 180, readme::install_for_real)),
        hosts(ONE, s("rollout-host-itself", ALL, 120, rollout::the_host_itself)),
    ]
}

/// One scenario on one base: what the runner counts.
pub struct Case {
    scenario: Scenario,
    base: Base,
}

/// Every case, in the order of the registry.
pub fn all() -> Vec<Case> {
    let each = |scenario: Scenario| scenario.bases.iter().map(move |base| Case { scenario, base: *base });
    alone().into_iter().chain(fleets()).flat_map(each).collect()
}

impl Case {
    /// `NAME/BASE`.
    pub fn name(&self) -> String {
        format!("{}/{}", self.scenario.name, self.base.name())
    }

    /// Whether these names, parts of names or none at all mean it.
    pub fn is_meant_by(&self, names: &[String]) -> bool {
        if ONLY_BY_NAME.contains(&self.scenario.name) {
            return names.iter().any(|n| n == self.scenario.name);
        }
        names.is_empty() || names.iter().any(|n| self.name().contains(n.as_str()))
    }

    /// What it boots from.
    pub fn base(&self) -> Base {
        self.base
    }

    /// The real hosts that it installs.
    pub fn hosts(&self) -> &'static [Host] {
        self.scenario.hosts
    }

    /// How many nodes it boots.
    pub fn nodes(&self) -> usize {
        self.scenario.nodes
    }

    /// When the runner gives up.
    pub fn limit(&self) -> Duration {
        self.scenario.limit
    }

    /// Runs it, inside.
    pub fn run(&self, lab: &Lab) -> Done {
        (self.scenario.run)(lab, self.base)
    }
}
