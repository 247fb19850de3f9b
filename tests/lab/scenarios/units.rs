//! What the service manager understood of the units, which is not always what the file says (E0, C06).

use crate::base::Base;
use crate::facts::{HOST, ROLLBACK};
use crate::room::Lab;
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
    let names: Vec<&str> = wanted.iter().map(|(name, _)| *name).collect();
    let shown = node.show(HOST, &names)?;
    for (name, value) in wanted {
        let is = shown.get(name).map_or("", String::as_str);
        check(is == value, || format!("{name} is '{is}', not '{value}'"))?;
    }
    let time = |name: &str| seconds(shown.get(name).map_or("", String::as_str));
    let cycle = time("TimeoutStartUSec")? + time("TimeoutStopUSec")? + time("RestartUSec")?;
    lab.say(format!("a hang costs {cycle} s a round, three cost {} s", 3.0 * cycle));
    check(3.0 * cycle < time("StartLimitIntervalUSec")?, || {
        format!("three hangs of {cycle} s do not fit in the start limit's interval")
    })?;
    let after = node.property(HOST, "After")?;
    check(!after.contains("network-online"), || format!("it waits for the network: {after}"))?;
    verify(lab, &node, base)?;
    c03_no_rollback_so_far(&node)
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
