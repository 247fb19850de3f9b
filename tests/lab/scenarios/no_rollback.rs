//! When a rollback must not happen: nothing to go back to, not the binary's fault, nobody's fault.

use crate::base::Base;
use crate::facts::HOST;
use crate::node::Node;
use crate::package::Kind;
use crate::room::Lab;
use crate::scenarios::broken::ready;
use crate::wait::{Done, check, secs, stays};

/// A machine whose host never confirmed: nothing is changed, it is said, and the unit stands failed.
pub fn no_known_good(lab: &Lab, base: Base) -> Done {
    let node = lab.node("n1", base)?;
    node.boot()?;
    node.install_deb(&lab.package("1.0.0", Kind::Exit1)?)?.ok()?;
    ends_failed(&node, "1.0.0")?;
    let said = node.journal("nox-mesh-host-rollback");
    check(said.contains("known-good"), || format!("the missing known-good is not named:\n{said}"))
}

/// The confirmed version itself crashes: the binary is not the problem, so nothing is changed.
pub fn known_good_crashes(lab: &Lab, base: Base) -> Done {
    let node = lab.node("n1", base)?;
    node.boot()?;
    let deb = lab.package("1.0.0", Kind::Exit1)?;
    node.write("/var/lib/mesh-host/known-good", "1.0.0\n")?;
    node.write("/var/lib/mesh-host/known-good.copy", "1.0.0\n")?;
    node.retain(&deb)?;
    node.install_deb(&deb)?.ok()?;
    ends_failed(&node, "1.0.0")
}

fn ends_failed(node: &Node, version: &str) -> Done {
    let failed = || Ok(node.property(HOST, "ActiveState")? == "failed");
    node.wait_until("the unit has failed", secs(30), failed)?;
    node.wait_until("the rollback unit has looked", secs(30), || Ok(node.rollback_unit_starts()? > 0))?;
    // Long enough for whatever might still want to start it.
    stays("the unit stays failed", secs(8), failed)?;
    check(node.installed() == version, || format!("{} is installed now", node.installed()))?;
    let records = node.rollbacks();
    check(records.is_empty(), || format!("there is a record: {records:?}"))
}

/// C03, E3: an administrator's four restarts in two minutes leave it running, at its version.
pub fn c03_restarts(lab: &Lab, base: Base) -> Done {
    let node = ready(lab, base)?;
    for round in 1..=4 {
        let output = node.run(["systemctl", "restart", HOST])?;
        lab.say(format!("restart {round}: exit status {} {}", output.code, output.err.trim()));
    }
    let took = node.wait_until("1.0.0 runs again", secs(15), || node.runs("1.0.0"))?;
    lab.say(format!("running after {:.1} s", took.as_secs_f64()));
    stays("1.0.0 runs", secs(5), || node.runs("1.0.0"))?;
    let records = node.rollbacks();
    check(records.is_empty(), || format!("a rollback was spent on it: {records:?}"))
}
