//! The namespaces that a scenario runs in. Called by the runner (outside) and at a scenario's start (inside).
//!
//! ```text
//! lab (outside)
//!  └─ setpriv --pdeathsig KILL unshare --kill-child      dies with the lab
//!      └─ lab --inside NAME        PID 1 of its namespace; dies with unshare, and takes all of it along
//!          ├─ systemd-nspawn … node a
//!          └─ nox-mesh serve
//! ```
//! Mounts, bridge and veths go with the last process. Only empty cgroups stay; the next run removes them.
//! Outside, nothing of the machine is changed.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::fs::{FlockOperation, flock};

use crate::command::Run;
use crate::queue::most_nodes;
use crate::wait::{Done, Failure, check, fail};

const CGROUP: &str = "/sys/fs/cgroup";
const CGROUP_PREFIX: &str = "nox-lab.";

/// The variable that names a scenario's lab; its cgroup has the same name.
pub const ID: &str = "NOX_LAB_ID";

/// Where a scenario keeps its things: below the private /run.
pub const ROOM: &str = "/run/nox-lab";

/// Starts this program again, in namespaces of its own, for one scenario. Must be called by a thread that
/// lives until the child's end: the kernel ties the child's life to it.
pub fn start(
    scenario: &str,
    id: &str,
    variables: &[(String, PathBuf)],
    log: &File,
) -> Result<Child, Failure> {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "unshare", "--mount", "--propagation", "private"]);
    command.args(["--net", "--pid", "--fork", "--kill-child", "--mount-proc"]);
    command.arg(std::env::current_exe()?).args(["--inside", scenario]).env(ID, id);
    command.envs(variables.iter().map(|(name, value)| (name, value)));
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log.try_clone()?);
    // A group of its own: an interrupt from the keyboard ends the lab, and that ends the child.
    Ok(command.process_group(0).spawn()?)
}

/// Inside: this lab's own name.
pub fn id() -> Result<String, Failure> {
    Ok(std::env::var(ID)?)
}

/// Outside: a name for a run that no other run has, also not one in other namespaces.
pub fn new_id() -> Result<String, Failure> {
    if let Ok(given) = id() {
        return Ok(given);
    }
    let mut bytes = [0_u8; 4];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(format!("{:08x}", u32::from_ne_bytes(bytes)))
}

/// The cgroup of a scenario, held by a lock that ends with its process.
pub struct Cgroup {
    /// Its folder; each node has one below it.
    pub folder: PathBuf,
    _lock: File,
}

/// Inside: makes the mounts that nodes need, and returns the cgroup that is theirs.
pub fn enter() -> Result<Cgroup, Failure> {
    let id = id()?;
    // One private /run gives `ip netns` its folder, nspawn the tmpfs that it insists on, and hides the
    // machine's own service manager from every tool that would look for it there.
    Run::new(["mount", "-t", "tmpfs", "-o", "mode=0755", "none", "/run"]).ok()?;
    for folder in ["/run/netns", "/run/systemd/nspawn", ROOM] {
        fs::create_dir_all(folder)?;
    }
    // A machine may mount cgroup v1 here, or both. Nodes get cgroup2 alone, whatever it is outside.
    Run::new(["umount", "-R", CGROUP]).output()?;
    Run::new(["mount", "-t", "cgroup2", "none", CGROUP]).ok()?;
    let ours = Path::new(CGROUP).join(format!("{CGROUP_PREFIX}{id}"));
    // Another lab may be sweeping right now: hold it, then see whether it is still there.
    for _ in 0..100 {
        fs::create_dir_all(&ours)?;
        let lock = File::open(&ours)?;
        if flock(&lock, FlockOperation::LockExclusive).is_ok() && ours.exists() {
            return Ok(Cgroup { folder: ours, _lock: lock });
        }
    }
    fail("a cgroup of its own could not be held")
}

/// The cgroups of labs, running ones and ended ones.
pub fn cgroups() -> Vec<PathBuf> {
    let tops = [Path::new(CGROUP).to_owned(), Path::new(CGROUP).join("unified")];
    let entries = tops.iter().filter_map(|top| fs::read_dir(top).ok()).flatten().flatten();
    let ours = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with(CGROUP_PREFIX);
    entries.filter(ours).map(|entry| entry.path()).collect()
}

/// Removes the empty cgroups that ended runs left. Those that another lab holds stay.
pub fn sweep() {
    for folder in cgroups() {
        let Ok(lock) = File::open(&folder) else {
            continue;
        };
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            remove_cgroup(&folder);
        }
    }
}

/// Removes a cgroup with the empty ones below it. The kernel itself refuses one that has processes.
pub fn remove_cgroup(folder: &Path) {
    if let Ok(entries) = fs::read_dir(folder) {
        for entry in entries.flatten().filter(|e| e.path().is_dir()) {
            remove_cgroup(&entry.path());
        }
    }
    let _ = fs::remove_dir(folder);
}

/// Whether this user may run a lab at all.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A tool that is not there, if any.
pub fn missing_tool() -> Option<&'static str> {
    let tools = ["setpriv", "unshare", "nsenter", "ip", "systemd-nspawn", "dpkg-deb", "musl-gcc"];
    tools.into_iter().chain(["aarch64-linux-gnu-gcc"]).find(|tool| !on_path(tool))
}

fn on_path(tool: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(tool).is_file())
}

/// Our own standard output, for a scenario that is told as it happens.
pub fn standard_output() -> Result<File, Failure> {
    use std::os::fd::AsFd;
    Ok(File::from(std::io::stdout().as_fd().try_clone_to_owned()?))
}

/// A file for a scenario's narration, gone when it is closed.
pub fn narration() -> Result<File, Failure> {
    use rustix::fs::{MemfdFlags, memfd_create};
    Ok(File::from(memfd_create("lab-narration", MemfdFlags::CLOEXEC)?))
}

/// Tells when the machine's limits are too small for so many nodes. It changes no limit.
pub fn room_for(nodes: usize) -> Done {
    let most = most_nodes();
    check(nodes <= most, || {
        format!("{nodes} nodes: fs.inotify.max_user_instances carries only {most}, please raise it")
    })
}
