//! The lab's own promises: that a node is a machine, that power and wire do what they say.

use std::fs;
use std::process::{Command, Stdio};

use crate::base::Base;
use crate::enclosure;
use crate::room::Lab;
use crate::scenarios::HELD;
use crate::wait::{Done, Failure, check, secs, wait_until};

/// A node boots to the end with nothing failed, has its own identity, and two see each other.
pub fn boots(lab: &Lab, base: Base) -> Done {
    let nodes = lab.nodes("m", 2, base)?;
    for node in &nodes {
        node.wait_until("everything has started", secs(30), || {
            Ok(node.run(["systemctl", "is-system-running"])?.text() == "running")
        })?;
        let seen = node.sh("hostname; cat /etc/machine-id; systemctl --version | head -n1")?;
        lab.say(format!("{} in {} KiB: {}", node.name, node.memory_kib(), seen.replace('\n', " ")));
        check(seen.starts_with(&node.name), || format!("the hostname is not {}", node.name))?;
    }
    let ids: Vec<String> = nodes.iter().map(|n| n.read("/etc/machine-id")).collect();
    check(ids.first() != ids.last(), || "two nodes share a machine id".into())
}

/// A power cut ends every process at once and keeps the disk; a reboot is one.
pub fn power(lab: &Lab, base: Base) -> Done {
    let node = lab.node("m1", base)?;
    lab.say(format!("boot {:.2} s", node.boot()?.as_secs_f64()));
    let boot_id = || node.sh("cat /proc/sys/kernel/random/boot_id");
    let first = boot_id()?;
    node.sh("echo kept > /var/lib/kept; logger -t lab before; journalctl --sync")?;
    lab.say(format!("power cut {:.3} s", node.power_cut()?.as_secs_f64()));
    check(node.read("/var/lib/kept") == "kept\n", || "the disk lost a file".into())?;
    node.write("/etc/written-while-off", "yes")?;
    lab.say(format!("boot {:.2} s", node.boot()?.as_secs_f64()));
    check(node.sh("cat /etc/written-while-off")? == "yes", || {
        "a file written while off is not there".into()
    })?;
    lab.say(format!("reboot {:.2} s", node.reboot()?.as_secs_f64()));
    check(boot_id()? != first, || "a reboot kept the boot id".into())?;
    check(node.journal("").contains("before"), || "the journal of the first boot is gone".into())
}

/// The wire can be pulled and plugged in, and the address survives a power cut.
pub fn link(lab: &Lab, base: Base) -> Done {
    let nodes = lab.nodes("m", 2, base)?;
    let (Some(one), Some(two)) = (nodes.first(), nodes.last()) else {
        return Ok(());
    };
    let script = format!("bash -c 'exec 3<>/dev/tcp/{}/9' 2>&1; true", two.address);
    // Nothing listens there: a live wire is refused at once, a dead one is not answered.
    let reached = || Ok(one.run(["timeout", "1", "sh", "-c", &script])?.out.contains("refused"));
    check(reached()?, || "the nodes do not reach each other".into())?;
    two.cut_link()?;
    check(!reached()?, || "a cut link still carries".into())?;
    two.restore_link()?;
    one.wait_until("the link carries again", secs(10), reached)?;
    two.power_cut()?;
    two.boot()?;
    one.wait_until("the address is back after a power cut", secs(10), reached)?;
    Ok(())
}

/// A whole lab inside this one, killed without a warning while its nodes are up: nothing of it goes on, and
/// what it leaves (empty cgroups) the next run removes. Also shows that two labs do not disturb each other.
pub fn kill_9(lab: &Lab, base: Base) -> Done {
    let node = lab.node("m1", base)?;
    node.boot()?;
    let before = processes()?;
    let name = format!("{}-inner", enclosure::id()?);
    let left = || enclosure::cgroups().iter().filter(|c| c.to_string_lossy().contains(&name)).count();
    let mut inner = Command::new(std::env::current_exe()?);
    inner.args(["--jobs", "2", HELD]).env(enclosure::ID, &name);
    let mut inner = inner.stdin(Stdio::null()).stdout(Stdio::null()).spawn()?;
    wait_until("the other lab's node has booted", secs(60), || {
        check(inner.try_wait()?.is_none(), || "the other lab ended by itself".into())?;
        Ok(processes()?.iter().filter(|name| *name == "systemd-journal").count() >= 2)
    })?;
    check(left() > 0, || "the other lab has no cgroup".into())?;
    lab.say(format!("{} processes with the other lab, {} before", processes()?.len(), before.len()));
    inner.kill()?;
    inner.wait()?;
    let took =
        wait_until("nothing of the killed lab runs", secs(5), || Ok(processes()?.len() <= before.len()))?;
    lab.say(format!("all gone {:.2} s after the kill", took.as_secs_f64()));
    // Any lab may sweep, so they may be gone already; after ours they must be.
    wait_until("its empty cgroups are swept", secs(5), || {
        enclosure::sweep();
        Ok(left() == 0)
    })?;
    check(node.sh("systemctl is-system-running || true")?.trim() == "running", || {
        "the first lab's node suffered from the other's end".into()
    })
}

/// Not a scenario of its own: what `kill_9` kills.
pub fn hold(lab: &Lab, base: Base) -> Done {
    lab.nodes("h", 1, base)?;
    std::thread::sleep(secs(20));
    Ok(())
}

/// The names of all live processes of this lab and of whatever is inside it.
fn processes() -> Result<Vec<String>, Failure> {
    let mut names = Vec::new();
    for entry in fs::read_dir("/proc")?.flatten() {
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let Some((head, rest)) = stat.rsplit_once(')') else {
            continue;
        };
        let name = head.split_once('(').map_or("", |(_, name)| name);
        // A zombie is only a number that nobody has fetched yet.
        if !rest.trim_start().starts_with('Z') {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}
