//! Upgrades that go well, and the one that the printed unit would have broken.

use crate::base::Base;
use crate::facts::{HOST, STATE, value};
use crate::node::Node;
use crate::package::Kind;
use crate::room::Lab;
use crate::scenarios::broken::ready;
use crate::wait::{Done, check, secs, stays};

/// A clean exit after an upgrade comes back as the new version (rule 10).
pub fn clean_exit(lab: &Lab, base: Base) -> Done {
    let node = ready(lab, base)?;
    unpack_and_exit(lab, &node)?;
    let took = node.wait_until("1.1.0 runs and has confirmed itself", secs(10), || {
        Ok(node.runs("1.1.0")? && node.known_good() == "1.1.0")
    })?;
    lab.say(format!("1.1.0 after {:.1} s", took.as_secs_f64()));
    check(node.rollbacks().is_empty(), || "a rollback was recorded".into())
}

/// The same on a node whose unit says Restart=on-failure: the new version is never started. This is what
/// Restart=always is there for, and it shows that the scenario above can fail.
pub fn clean_exit_on_failure(lab: &Lab, base: Base) -> Done {
    let node = ready(lab, base)?;
    node.write(
        "/etc/systemd/system/nox-mesh-host.service.d/restart.conf",
        "[Service]\nRestart=on-failure\n",
    )?;
    node.sh("systemctl daemon-reload")?;
    unpack_and_exit(lab, &node)?;
    let dead = || Ok(node.property(HOST, "ActiveState")? == "inactive");
    node.wait_until("the host has ended", secs(10), dead)?;
    stays("the host stays dead", secs(10), dead)
}

fn unpack_and_exit(lab: &Lab, node: &Node) -> Done {
    let deb = lab.package("1.1.0", Kind::Good)?;
    node.install_deb_with(&deb, &[("NOX_MESH_HOST_TRANSACTION", "1")])?.ok()?;
    // The package's own scripts must leave the host alone: it is the one that ends itself.
    let pid = node.property(HOST, "MainPID")?;
    let running = node.run([format!("/proc/{pid}/exe").as_str(), "--version"])?;
    check(running.out.starts_with("nox-mesh-host 1.0.0"), || {
        format!("the package's scripts restarted the host: {}", running.out)
    })?;
    node.write(&format!("{STATE}/result"), "format=1\nversion=1.1.0\nattempt=1\nstatus=installed\n")
}

/// The whole way by the script: an order, `install start`, its result, the clean exit, the new version.
pub fn ordered(lab: &Lab, base: Base) -> Done {
    let node = ready(lab, base)?;
    let deb = lab.package("1.1.0", Kind::Good)?;
    node.retain(&deb)?;
    order(&node, "1.1.0")?;
    node.sh("/usr/lib/nox-mesh-host/install start")?;
    let result = || node.read(&format!("{STATE}/result"));
    node.wait_until("the install has written its result", secs(30), || Ok(!result().is_empty()))?;
    let text = result();
    check(value(&text, "status") == "installed", || format!("the install did not go well:\n{text}"))?;
    check(value(&text, "attempt") == "7", || format!("another attempt's result:\n{text}"))?;
    let took = node.wait_until("1.1.0 runs and has confirmed itself", secs(10), || {
        Ok(node.runs("1.1.0")? && node.known_good() == "1.1.0")
    })?;
    lab.say(format!("1.1.0 after {:.1} s more", took.as_secs_f64()));
    let idle = node.sh("/usr/lib/nox-mesh-host/install state")?;
    check(idle.trim() == "idle", || format!("install state says {idle}"))
}

/// C52, C37: a person's own version, installed while the ordered install waits for the package lock, stays.
pub fn person_first(lab: &Lab, base: Base) -> Done {
    let node = ready(lab, base)?;
    let fix = lab.package("1.2.0", Kind::Good)?;
    std::fs::copy(&fix, node.place("/var/tmp/fix.deb"))?;
    node.retain(&lab.package("1.1.0", Kind::Good)?)?;
    order(&node, "1.1.0")?;
    hold_lock(&node, 6, "dpkg -i /var/tmp/fix.deb")?;
    node.sh("/usr/lib/nox-mesh-host/install start")?;
    let result = || node.read(&format!("{STATE}/result"));
    node.wait_until("the install has written its result", secs(40), || Ok(!result().is_empty()))?;
    check(value(&result(), "reason") == "held", || format!("not what a person did:\n{}", result()))?;
    node.wait_until("1.2.0 runs", secs(20), || node.runs("1.2.0"))?;
    stays("1.2.0 runs", secs(5), || node.runs("1.2.0"))
}

/// C61: an install that is killed in the middle leaves a whole package, a result, and what runs is installed.
pub fn killed(lab: &Lab, base: Base) -> Done {
    let node = ready(lab, base)?;
    node.retain(&lab.package("1.1.0", Kind::Good)?)?;
    for ms in [40_u32, 80, 120, 160, 220] {
        if node.installed() != "1.0.0" {
            break;
        }
        order(&node, "1.1.0")?;
        node.sh(&format!(
            "rm -f {STATE}/result; /usr/lib/nox-mesh-host/install start; \
             n=0; while ! pgrep -x dpkg >/dev/null && [ $n -lt 400 ]; do n=$((n + 1)); sleep 0.01; done; \
             sleep 0.{ms:03}; systemctl kill -s KILL nox-mesh-host-install || true"
        ))?;
        let result = || node.read(&format!("{STATE}/result"));
        node.wait_until("a result is there all the same", secs(40), || Ok(!result().is_empty()))?;
        let (status, dpkg) = (value(&result(), "status").to_owned(), node.dpkg()?);
        lab.say(format!("killed {ms} ms into it: {status}, {dpkg}"));
        check(dpkg.starts_with("installed "), || format!("the package is not whole: {dpkg}"))?;
        let wanted = if status == "installed" { "1.1.0" } else { "1.0.0" };
        check(node.installed() == wanted, || format!("{} is installed", node.installed()))?;
    }
    node.wait_until("what is installed runs", secs(10), || node.runs(&node.installed())).map(drop)
}

/// Another program holds the package lock, runs a command under it, and lets go.
pub fn hold_lock(node: &Node, seconds: u32, command: &str) -> Done {
    let lock = format!(
        "use Fcntl qw(:DEFAULT :flock F_SETLK F_WRLCK); \
         open(my $h, \">>\", \"/var/lib/dpkg/lock-frontend\") or die; \
         my $l = pack(\"s s x4 q q i x4\", F_WRLCK, 0, 0, 0, 0); fcntl($h, F_SETLK, $l) or die \"$!\"; \
         sleep {seconds}; $ENV{{DPKG_FRONTEND_LOCKED}}=1; system(q({command})); sleep 3;"
    );
    node.write("/root/hold-lock", lock)?;
    node.sh("systemd-run --quiet --unit=updater perl /root/hold-lock")?;
    node.wait_until("the lock is held", secs(5), || node.is_active("updater.service"))?;
    std::thread::sleep(secs(1));
    Ok(())
}

/// The order that the host writes before an install.
pub fn order(node: &Node, version: &str) -> Done {
    let name = format!("nox-mesh-host_{version}_amd64.deb");
    let sum = node.read(&format!("{STATE}/packages/{name}.sha256"));
    let hex = sum.split_whitespace().next().unwrap_or_default();
    let boot_id = node.sh("cat /proc/sys/kernel/random/boot_id")?;
    let text = format!(
        "format=1\nversion={version}\nrollout=r1\nattempt=7\npackage={name}\nsha256={hex}\nboot_id={boot_id}"
    );
    node.write(&format!("{STATE}/order"), text)
}
