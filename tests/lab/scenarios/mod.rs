//! The registry of scenarios. A new one is a function and a line here.

mod machine;

use std::time::Duration;

use crate::base::Base;
use crate::room::Lab;
use crate::wait::{Done, secs};

/// A scenario, which runs once for each of its bases.
struct Scenario {
    name: &'static str,
    bases: &'static [Base],
    /// When the runner gives up on it. Its own waits should fail first, because they say what for.
    limit: Duration,
    run: fn(&Lab, Base) -> Done,
}

const ALL: &[Base] = &Base::ALL;
const BOOKWORM: &[Base] = &[Base::Bookworm];

fn scenarios() -> Vec<Scenario> {
    let s = |name, bases, limit, run| Scenario {
        name,
        bases,
        limit: secs(limit),
        run,
    };
    vec![
        s("machine-boots", ALL, 120, machine::boots),
        s("machine-power", BOOKWORM, 120, machine::power),
        s("machine-link", BOOKWORM, 120, machine::link),
    ]
}

/// One scenario on one base: what the runner counts.
pub struct Case {
    scenario: Scenario,
    base: Base,
}

/// Every case, in the order of the registry.
pub fn all() -> Vec<Case> {
    let each = |s: Scenario| {
        let Scenario {
            name,
            bases,
            limit,
            run,
        } = s;
        bases.iter().map(move |base| Case {
            scenario: Scenario {
                name,
                bases,
                limit,
                run,
            },
            base: *base,
        })
    };
    scenarios().into_iter().flat_map(each).collect()
}

impl Case {
    /// `NAME/BASE`.
    pub fn name(&self) -> String {
        format!("{}/{}", self.scenario.name, self.base.name())
    }

    /// What it boots from.
    pub fn bases(&self) -> Vec<Base> {
        vec![self.base]
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
