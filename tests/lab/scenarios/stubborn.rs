//! Recovery with something in its way: reloads, reboots, a foreign lock, a hold, the same fault again.

use std::time::Instant;

use crate::base::Base;
use crate::facts::HOST;
use crate::node::Node;
use crate::package::Kind;
use crate::room::Lab;
use crate::scenarios::broken::ready;
use crate::scenarios::upgrade::hold_lock;
use crate::wait::{Done, Failure, check, secs, stays};

const OLD: &str = "1.0.0";
const NEW: &str = "1.1.0";

/// E6: a configuration tool reloads the service manager all the time, which forgets its counter each time.
pub fn e6_reloads(lab: &Lab, base: Base) -> Done {
    let node = ready(lab, base)?;
    let reload = "while :; do systemctl daemon-reload; sleep 1; done";
    node.sh(&format!("systemd-run --quiet --unit=reloader sh -c '{reload}'"))?;
    let starts = back(lab, &node, NEW, 30)?;
    check(starts <= 5, || format!("the broken version was started {starts} times"))
}

/// A version that takes the machine down with it: the service manager's counter is new at every boot, the
/// count on the disk is not.
pub fn reboot_loop(lab: &Lab, base: Base) -> Done {
    let node = ready(lab, base)?;
    node.install_deb(&lab.package(NEW, Kind::SlowCrash(100))?)?.ok()?;
    for round in 1..=3 {
        node.wait_until(&format!("1.1.0 starts, time {round}"), secs(20), || {
            Ok(node.is_active(HOST)? && node.journal(HOST).matches("stand-in 1.1.0").count() >= round)
        })?;
        node.power_cut()?;
        node.boot()?;
    }
    let started = Instant::now();
    node.wait_until("1.0.0 is back after the third crash of the machine", secs(30), || node.runs(OLD))?;
    lab.say(format!("back {:.1} s after the last boot", started.elapsed().as_secs_f64()));
    let starts = node.journal(HOST).matches("stand-in 1.1.0").count();
    check(starts == 3, || format!("1.1.0 was started {starts} times"))
}

/// A bad version that somebody installs again is a new event: rolled back again, with its own record.
pub fn again(lab: &Lab, base: Base) -> Done {
    let node = ready(lab, base)?;
    back(lab, &node, NEW, 15)?;
    node.wait_until("the first rollback is settled", secs(10), || {
        Ok(node.read("/var/lib/mesh-host/rollbacks.settled").contains("through=1"))
    })?;
    back(lab, &node, NEW, 15)?;
    let ids: Vec<String> = node.rollbacks().iter().map(|r| r.get("id").to_owned()).collect();
    check(ids == ["1", "2"], || format!("the records are {ids:?}"))
}

/// A package on hold: a rollback works in spite of it and leaves it in place.
pub fn held(lab: &Lab, base: Base) -> Done {
    let node = ready(lab, base)?;
    node.install_deb(&lab.package(NEW, Kind::Exit1)?)?.ok()?;
    // After the installation, which takes a hold off; the rollback comes three seconds later.
    node.sh("echo 'nox-mesh-host hold' | dpkg --set-selections")?;
    check(node.rollbacks().is_empty(), || "the rollback was there before the hold".into())?;
    node.wait_until("1.0.0 is back", secs(15), || node.runs(OLD))?;
    node.wait_until("the hold is in place", secs(5), || {
        Ok(node.sh("dpkg-query -W -f '${db:Status-Want}' nox-mesh-host")? == "hold")
    })?;
    stays("1.0.0 runs", secs(3), || node.runs(OLD))
}

/// C52: another program holds the package database for a while. It is waited for, never broken.
pub fn c52_lock(lab: &Lab, base: Base) -> Done {
    let node = ready(lab, base)?;
    let deb = lab.package(NEW, Kind::Exit1)?;
    node.install_deb(&deb)?.ok()?;
    // Taken between the installation and the rollback, in dpkg's own way, as an updater does.
    let lock = "use Fcntl qw(:DEFAULT :flock F_SETLK F_WRLCK); my @h; \
        for my $f (qw(lock-frontend lock)) { open(my $h, \">>\", \"/var/lib/dpkg/$f\") or die; \
        my $l = pack(\"s s x4 q q i x4\", F_WRLCK, 0, 0, 0, 0); \
        fcntl($h, F_SETLK, $l) or die \"$f: $!\"; push @h, $h; } sleep 12;";
    node.write("/root/hold-lock", lock)?;
    node.sh("systemd-run --quiet --unit=updater perl /root/hold-lock")?;
    std::thread::sleep(secs(1));
    check(node.is_active("updater.service")?, || format!("no lock is held: {}", node.journal("updater")))?;
    let started = Instant::now();
    node.wait_until("1.0.0 is back", secs(40), || node.runs(OLD))?;
    let took = started.elapsed();
    lab.say(format!("back {:.1} s after the lock was taken", took.as_secs_f64()));
    check(took > secs(10), || "the rollback did not wait for the lock".into())?;
    let result = node.property("updater.service", "Result")?;
    check(result == "success", || format!("the lock's holder ended with {result}"))
}

/// C37, C52: the fix that a person installs while the rollback waits for the package lock stays.
pub fn person_first(lab: &Lab, base: Base) -> Done {
    let node = ready(lab, base)?;
    std::fs::copy(lab.package("1.2.0", Kind::Good)?, node.place("/var/tmp/fix.deb"))?;
    node.install_deb(&lab.package(NEW, Kind::Exit1)?)?.ok()?;
    hold_lock(&node, 10, "dpkg -i /var/tmp/fix.deb")?;
    node.wait_until("1.2.0 runs", secs(30), || node.runs("1.2.0"))?;
    stays("1.2.0 runs", secs(12), || node.runs("1.2.0"))
}

/// C55: a removal ends the rollback that waits for the lock, and nothing comes back.
pub fn removed(lab: &Lab, base: Base) -> Done {
    let node = ready(lab, base)?;
    node.install_deb(&lab.package(NEW, Kind::Exit1)?)?.ok()?;
    hold_lock(&node, 8, "dpkg -r nox-mesh-host")?;
    node.wait_until("the package is removed", secs(30), || Ok(node.installed().is_empty()))?;
    stays("nothing comes back", secs(10), || Ok(node.installed().is_empty() && !node.is_active(HOST)?))
}

/// C19: /usr cannot be written for longer than three tries take; after that the rollback goes through.
pub fn read_only(lab: &Lab, base: Base) -> Done {
    let node = ready(lab, base)?;
    node.install_deb(&lab.package(NEW, Kind::Exit1)?)?.ok()?;
    node.sh("mount --bind /usr /usr && mount -o remount,ro,bind /usr && ! touch /usr/x 2>/dev/null")?;
    let waits = || node.rollbacks().last().map_or(0, |r| r.get("waits").parse().unwrap_or(0));
    node.wait_until("three tries have failed", secs(180), || Ok(waits() >= 3))?;
    node.sh("mount -o remount,rw,bind /usr")?;
    let took = node.wait_until("1.0.0 is back", secs(150), || node.runs(OLD))?;
    lab.say(format!("back {:.0} s after /usr could be written again", took.as_secs_f64()));
    Ok(())
}

/// Installs a version that exits 1, waits for the old one, and returns how often the bad one was started.
fn back(lab: &Lab, node: &Node, version: &str, limit: u64) -> Result<usize, Failure> {
    let words = format!("stand-in {version} (exit1): starts");
    let before = node.journal(HOST).matches(&words).count();
    node.forget_starts()?;
    node.install_deb(&lab.package(version, Kind::Exit1)?)?.ok()?;
    let took = node.wait_until("1.0.0 is back", secs(limit), || node.runs(OLD))?;
    let starts = node.journal(HOST).matches(&words).count() - before;
    lab.say(format!("{OLD} back after {:.1} s and {starts} starts of {version}", took.as_secs_f64()));
    stays("1.0.0 runs", secs(3), || node.runs(OLD))?;
    Ok(starts)
}
