//! What the service manager understood of the units, which is not always what the file says (E0, C06).

use crate::base::Base;
use crate::facts::{HOST, ROLLBACK, STATE};
use crate::node::Node;
use crate::package::Kind;
use crate::room::Lab;
use crate::scenarios::upgrade::order;
use crate::wait::{Done, Failure, check, fail, secs};

/// Limits, handler and timeouts as `systemctl show` has them, and no complaint of `systemd-analyze verify`.
pub fn facts(lab: &Lab, base: Base) -> Done {
    let node = lab.node("u1", base)?;
    node.boot()?;
    lab.install_confirmed(&node, "1.0.0")?;
    let mut wanted = vec![
        ("StartLimitIntervalUSec", "2min"),
        ("StartLimitBurst", "3"),
        ("OnFailure", ROLLBACK),
        ("Restart", "always"),
        ("RestartUSec", "1s"),
        ("Type", "notify"),
        ("TimeoutStartUSec", "20s"),
        ("TimeoutStartFailureMode", "kill"),
        ("TimeoutStopUSec", "5s"),
        ("TimeoutAbortUSec", "5s"),
        ("WatchdogUSec", "30s"),
        ("UnitFileState", "enabled"),
    ];
    if base.knows_restart_mode() {
        wanted.push(("RestartMode", "direct"));
    }
    is_so(&node, HOST, &wanted)?;
    let shown =
        node.show(HOST, &["TimeoutStartUSec", "TimeoutStopUSec", "RestartUSec", "StartLimitIntervalUSec"])?;
    let time = |name: &str| seconds(shown.get(name).map_or("", String::as_str));
    let cycle = time("TimeoutStartUSec")? + time("TimeoutStopUSec")? + time("RestartUSec")?;
    lab.say(format!("a hang costs {cycle} s a round, three cost {} s", 3.0 * cycle));
    check(3.0 * cycle < time("StartLimitIntervalUSec")?, || {
        format!("three hangs of {cycle} s do not fit in the start limit's interval")
    })?;
    let after = node.property(HOST, "After")?;
    check(!after.contains("network-online"), || format!("it waits for the network: {after}"))?;
    helpers(lab, &node)?;
    verify(lab, &node, base)?;
    c03_no_rollback_so_far(&node)
}

/// The units beside the host's: the rollback that tries again, the timer that is off, the install outliving
/// the host and is looked after when it is killed.
fn helpers(lab: &Lab, node: &Node) -> Done {
    let rollback = [
        ("Type", "oneshot"),
        ("Restart", "on-failure"),
        ("RestartUSec", "30s"),
        ("RestartPreventExitStatus", "3"),
        ("TimeoutStartUSec", "1h 15min"),
        ("TimeoutStopUSec", "1min 30s"),
        ("StartLimitIntervalUSec", "10min"),
        ("StartLimitBurst", "15"),
        ("BindsTo", ""),
        ("PartOf", ""),
    ];
    is_so(node, ROLLBACK, &rollback)?;
    is_so(node, "nox-mesh-host-retry.timer", &[("UnitFileState", "disabled"), ("ActiveState", "inactive")])?;
    let retry = node.property("nox-mesh-host-retry.service", "ExecCondition")?;
    check(retry.contains("is-failed"), || {
        format!("the retry does not ask whether the host failed: {retry}")
    })?;
    // An install that waits for the package lock, long enough to be looked at.
    node.retain(&lab.package("1.1.0", Kind::Good)?)?;
    order(node, "1.1.0")?;
    node.sh("sed -i 's/^sha256=.*/sha256=0/' /var/lib/mesh-host/order")?;
    node.sh("mv /usr/lib/nox-mesh-host/install /usr/lib/nox-mesh-host/install.kept")?;
    node.sh("cd /usr/lib/nox-mesh-host && sed 's/^run() {/run() { sleep 8/' install.kept >install")?;
    node.sh("chmod 755 /usr/lib/nox-mesh-host/install; /usr/lib/nox-mesh-host/install start")?;
    let install = [
        ("ActiveState", "active"),
        ("RuntimeMaxUSec", "50min"),
        ("TimeoutStopUSec", "1min 30s"),
        ("CollectMode", "inactive-or-failed"),
    ];
    is_so(node, "nox-mesh-host-install.service", &install)?;
    let after = node.property("nox-mesh-host-install.service", "ExecStopPost")?;
    check(after.contains("install ended"), || format!("nobody looks after a killed install: {after}"))?;
    node.wait_until("the install has ended", secs(20), || {
        Ok(!node.read(&format!("{STATE}/result")).is_empty())
    })?;
    node.sh(
        "mv /usr/lib/nox-mesh-host/install.kept /usr/lib/nox-mesh-host/install; rm /var/lib/mesh-host/result",
    )
    .map(drop)
}

fn is_so(node: &Node, unit: &str, wanted: &[(&str, &str)]) -> Done {
    let names: Vec<&str> = wanted.iter().map(|(name, _)| *name).collect();
    let shown = node.show(unit, &names)?;
    for (name, value) in wanted {
        let is = shown.get(*name).map_or("", String::as_str);
        check(is == *value, || format!("{unit}: {name} is '{is}', not '{value}'"))?;
    }
    Ok(())
}

fn verify(lab: &Lab, node: &crate::node::Node, base: Base) -> Done {
    let units = node.sh("ls /usr/lib/systemd/system/nox-mesh-host*")?;
    // In a unit of its own: systemd 247 wants to find itself in a cgroup of the node.
    let run = ["systemd-run", "--quiet", "--wait", "--pipe", "systemd-analyze", "verify"];
    let words = run.into_iter().chain(units.lines());
    let output = node.command(words)?.limit(secs(60)).output()?;
    let said = format!("{}{}", output.out, output.err);
    let complaint = |line: &&str| {
        let old = !base.knows_restart_mode() && line.contains("Unknown key") && line.contains("RestartMode");
        line.contains("nox-mesh-host") && !old
    };
    let complaints: Vec<&str> = said.lines().filter(complaint).collect();
    lab.say(format!("verified {} units, exit status {}", units.lines().count(), output.code));
    check(complaints.is_empty() && output.is_ok(), || format!("systemd-analyze verify says:\n{said}"))
}

fn c03_no_rollback_so_far(node: &crate::node::Node) -> Done {
    let starts = node.rollback_unit_starts()?;
    check(starts == 0, || format!("the rollback unit ran {starts} times for a healthy host"))
}

/// A time span as `systemctl show` prints it, in seconds.
fn seconds(span: &str) -> Result<f64, Failure> {
    let mut sum = 0.0;
    for part in span.split_whitespace() {
        let digits = part.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(part.len());
        let (number, unit) = part.split_at(digits);
        let factor = match unit {
            "us" => 0.000_001,
            "ms" => 0.001,
            "s" => 1.0,
            "min" => 60.0,
            "h" => 3600.0,
            _ => return fail(format!("not a time span: '{span}'")),
        };
        sum += number.parse::<f64>()? * factor;
    }
    Ok(sum)
}
