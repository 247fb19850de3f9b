//! The lab's own promises: that a node is a machine, that power and wire do what they say.

use crate::base::Base;
use crate::room::Lab;
use crate::wait::{Done, check, secs};

/// A node boots to the end with nothing failed, has its own identity, and two see each other.
pub fn boots(lab: &Lab, base: Base) -> Done {
    let nodes = lab.nodes("m", 2, base)?;
    for node in &nodes {
        node.wait_until("everything has started", secs(30), || {
            Ok(node.run(["systemctl", "is-system-running"])?.text() == "running")
        })?;
        let seen = node.sh("hostname; cat /etc/machine-id; systemctl --version | head -n1")?;
        lab.say(format!(
            "{} in {} KiB: {}",
            node.name,
            node.memory_kib(),
            seen.replace('\n', " ")
        ));
        check(seen.starts_with(&node.name), || {
            format!("the hostname is not {}", node.name)
        })?;
    }
    let ids: Vec<String> = nodes.iter().map(|n| n.read("/etc/machine-id")).collect();
    check(ids.first() != ids.last(), || {
        "two nodes share a machine id".into()
    })
}

/// A power cut ends every process at once and keeps the disk; a reboot is one.
pub fn power(lab: &Lab, base: Base) -> Done {
    let node = lab.node("m1", base)?;
    lab.say(format!("boot {:.2} s", node.boot()?.as_secs_f64()));
    let boot_id = || node.sh("cat /proc/sys/kernel/random/boot_id");
    let first = boot_id()?;
    node.sh("echo kept > /var/lib/kept; logger -t lab before; journalctl --sync")?;
    lab.say(format!(
        "power cut {:.3} s",
        node.power_cut()?.as_secs_f64()
    ));
    check(node.read("/var/lib/kept") == "kept\n", || {
        "the disk lost a file".into()
    })?;
    node.write("/etc/written-while-off", "yes")?;
    lab.say(format!("boot {:.2} s", node.boot()?.as_secs_f64()));
    check(node.sh("cat /etc/written-while-off")? == "yes", || {
        "a file written while off is not there".into()
    })?;
    lab.say(format!("reboot {:.2} s", node.reboot()?.as_secs_f64()));
    check(boot_id()? != first, || "a reboot kept the boot id".into())?;
    check(node.journal("").contains("before"), || {
        "the journal of the first boot is gone".into()
    })
}

/// The wire can be pulled and plugged in, and the address survives a power cut.
pub fn link(lab: &Lab, base: Base) -> Done {
    let nodes = lab.nodes("m", 2, base)?;
    let (Some(one), Some(two)) = (nodes.first(), nodes.last()) else {
        return Ok(());
    };
    let script = format!("bash -c 'exec 3<>/dev/tcp/{}/9' 2>&1; true", two.address);
    // Nothing listens there: a live wire is refused at once, a dead one is not answered.
    let reached = || {
        Ok(one
            .run(["timeout", "1", "sh", "-c", &script])?
            .out
            .contains("refused"))
    };
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
