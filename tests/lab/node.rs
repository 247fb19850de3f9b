//! A node: its disk, its power switch, its wire. What is done inside a booted one stands in `inside.rs`.
//!
//! ```text
//!          boot                 power_cut (cgroup.kill)
//!   off ──────────► on ──────────────────────────────► off      the disk stays as it was at that instant
//!                   │  reboot: the node's own shutdown, then boot
//! ```

use std::cell::RefCell;
use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitOptions, waitpid};

use crate::base::Base;
use crate::command::Run;
use crate::wait::{Done, Failure, fail, secs, wait_for, wait_until};
use crate::{enclosure, network};

/// A boot takes half a second on a quiet machine.
const BOOT_LIMIT: Duration = Duration::from_secs(60);

/// Units that a node in a lab has no use for, and that would disturb times or journals.
const MASKED: [&str; 9] = [
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "fstrim.timer",
    "getty.target",
    "console-getty.service",
    "systemd-networkd-wait-online.service",
];

/// One machine of the lab.
pub struct Node {
    /// Its hostname.
    pub name: String,
    /// What it boots from.
    pub base: Base,
    /// Its address on the lab's network.
    pub address: Ipv4Addr,
    number: u8,
    folder: PathBuf,
    cgroup: PathBuf,
    power: RefCell<Option<Power>>,
}

/// The processes of a node that is on.
struct Power {
    supervisor: Child,
    /// The node's PID 1, as seen from the lab.
    leader: i32,
}

impl Node {
    /// A new node that is off: overlay, identity, address.
    pub fn new(name: &str, base: Base, number: u8, cgroups: &Path) -> Result<Node, Failure> {
        let node = Node {
            name: name.to_owned(),
            base,
            address: network::address(number),
            number,
            folder: Path::new(enclosure::ROOM).join(name),
            cgroup: cgroups.join(name),
            power: RefCell::new(None),
        };
        node.make_disk().map_err(|e| e.while_doing(format_args!("the disk of node {name}")))?;
        network::plug_in(number)?;
        Ok(node)
    }

    fn make_disk(&self) -> Done {
        for part in ["upper", "work", "root"] {
            fs::create_dir_all(self.folder.join(part))?;
        }
        let (base, at) = (self.base.folder()?, self.folder.display());
        let options = format!("lowerdir={},upperdir={at}/upper,workdir={at}/work", base.display());
        let root = self.root();
        Run::new(["mount", "-t", "overlay", "none", "-o", &options]).arg(&root).ok()?;
        fs::write(root.join("etc/hostname"), format!("{}\n", self.name))?;
        // Else all nodes would share the base's, and with it everything derived from it.
        fs::write(root.join("etc/machine-id"), format!("{:032x}\n", 0xa0_u32 + u32::from(self.number)))?;
        for unit in MASKED {
            std::os::unix::fs::symlink("/dev/null", root.join("etc/systemd/system").join(unit))?;
        }
        // Kept on the disk, so that evidence is there after a power cut.
        fs::create_dir_all(root.join("var/log/journal"))?;
        Ok(())
    }

    /// The root folder of its disk, on or off.
    pub fn root(&self) -> PathBuf {
        self.folder.join("root")
    }

    /// Switches it on and waits until its service manager answers. Returns the time that took.
    pub fn boot(&self) -> Result<Duration, Failure> {
        let started = Instant::now();
        self.switch_on()?;
        self.wait_up()?;
        Ok(started.elapsed())
    }

    /// Switches it on and does not wait.
    pub fn switch_on(&self) -> Done {
        if self.power.borrow().is_some() {
            return fail(format!("node {} is on already", self.name));
        }
        fs::create_dir_all(&self.cgroup)?;
        let console = File::options().create(true).append(true).open(self.console())?;
        // The shell joins the node's cgroup before nspawn is there, so that everything is in it.
        let mut command = Command::new("sh");
        command.args(["-c", r#"echo $$ >"$1/cgroup.procs" && shift && exec systemd-nspawn "$@""#, "sh"]);
        command.arg(&self.cgroup).args(["--quiet", "--register=no", "--keep-unit", "--boot"]);
        command.args(["--console=read-only", "--machine", &self.name, "--directory"]).arg(self.root());
        command.arg(format!("--network-namespace-path=/run/netns/{}", network::namespace(self.number)));
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("LC_ALL", "C");
        command.stdin(Stdio::null()).stdout(console.try_clone()?).stderr(console);
        *self.power.borrow_mut() = Some(Power { supervisor: command.spawn()?, leader: 0 });
        Ok(())
    }

    /// Waits until the service manager of a node that was switched on answers.
    pub fn wait_up(&self) -> Done {
        let what = format!("node {} has booted", self.name);
        let (leader, _) = wait_for(&what, BOOT_LIMIT, || {
            if self.has_ended()? {
                return fail(format!("node {} ended while booting\n{}", self.name, self.console_tail()));
            }
            Ok(self.find_leader())
        })?;
        if let Some(power) = self.power.borrow_mut().as_mut() {
            power.leader = leader;
        }
        wait_until(&what, BOOT_LIMIT, || {
            let shown = self.run(["systemctl", "show", "-p", "ActiveState", "--value", "basic.target"]);
            Ok(shown?.text() == "active")
        })?;
        Ok(())
    }

    /// Takes its power: every process ends at once, nothing is asked, nothing is flushed. What had been
    /// written to files stays (a crash of all processes, not a loss of unsynced data).
    pub fn power_cut(&self) -> Result<Duration, Failure> {
        let started = Instant::now();
        let Some(mut power) = self.power.borrow_mut().take() else {
            return fail(format!("node {} is off already", self.name));
        };
        fs::write(self.cgroup.join("cgroup.kill"), "1")?;
        power.supervisor.wait()?;
        wait_until(&format!("node {} is off", self.name), secs(20), || {
            let events = fs::read_to_string(self.cgroup.join("cgroup.events"))?;
            Ok(events.contains("populated 0"))
        })?;
        // We are PID 1 of the namespace: the node's first process was left to us.
        if let Some(pid) = Pid::from_raw(power.leader) {
            let _ = waitpid(Some(pid), WaitOptions::NOHANG);
        }
        enclosure::remove_cgroup(&self.cgroup);
        Ok(started.elapsed())
    }

    /// Lets it shut down in order and boots it again.
    pub fn reboot(&self) -> Result<Duration, Failure> {
        let started = Instant::now();
        self.run(["systemctl", "--no-block", "reboot"])?;
        wait_until(&format!("node {} has shut down", self.name), secs(120), || self.has_ended())?;
        self.power_cut()?;
        self.boot()?;
        Ok(started.elapsed())
    }

    /// Whether it is on.
    pub fn is_on(&self) -> bool {
        self.power.borrow().is_some()
    }

    /// Pulls its wire. Its processes see a link without carrier.
    pub fn cut_link(&self) -> Done {
        network::set_link(self.number, false)
    }

    /// Plugs the wire in again.
    pub fn restore_link(&self) -> Done {
        network::set_link(self.number, true)
    }

    /// Memory of all its processes, shared pages counted in part, in KiB.
    pub fn memory_kib(&self) -> u64 {
        processes(&self.cgroup).into_iter().filter_map(pss_kib).sum()
    }

    /// The node's PID 1 as seen from the lab; 0 while it is off.
    pub fn leader(&self) -> i32 {
        self.power.borrow().as_ref().map_or(0, |power| power.leader)
    }

    /// The last lines of its console.
    pub fn console_tail(&self) -> String {
        tail(&fs::read_to_string(self.console()).unwrap_or_default(), 15)
    }

    fn console(&self) -> PathBuf {
        self.folder.join("console.log")
    }

    fn has_ended(&self) -> Result<bool, Failure> {
        match self.power.borrow_mut().as_mut() {
            Some(power) => Ok(power.supervisor.try_wait()?.is_some()),
            None => Ok(true),
        }
    }

    // The process that is number 1 in a process namespace right below ours.
    fn find_leader(&self) -> Option<i32> {
        processes(&self.cgroup).into_iter().find(|pid| {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            let line = status.lines().find_map(|l| l.strip_prefix("NSpid:")).unwrap_or_default();
            let numbers: Vec<&str> = line.split_whitespace().collect();
            numbers.len() == 2 && numbers.get(1) == Some(&"1")
        })
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if self.is_on() {
            let _ = self.power_cut();
        }
    }
}

/// The last lines of a text.
pub fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    all.get(all.len().saturating_sub(lines)..).unwrap_or_default().join("\n")
}

fn processes(cgroup: &Path) -> Vec<i32> {
    let mut found: Vec<i32> = fs::read_to_string(cgroup.join("cgroup.procs"))
        .unwrap_or_default()
        .lines()
        .filter_map(|line| line.parse().ok())
        .collect();
    for entry in fs::read_dir(cgroup).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            found.extend(processes(&entry.path()));
        }
    }
    found
}

fn pss_kib(pid: i32) -> Option<u64> {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = rollup.lines().find_map(|l| l.strip_prefix("Pss:"))?;
    line.split_whitespace().next()?.parse().ok()
}
