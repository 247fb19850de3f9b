//! Real hosts of given versions, with or without a fault compiled in. Called by the runner before scenarios
//! start, because a build takes longer than a scenario may; scenarios then only pick them up.
//!
//! A finished binary is kept under a name made of its version, fault and the newest change of the source, so
//! that it is built again exactly when it has to be.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{FlockOperation, flock};

use crate::room::Lab;
use crate::wait::{Failure, fail};

const TARGET: &str = "x86_64-unknown-linux-musl";

/// A host to build.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Host {
    /// What it says of itself.
    pub version: &'static str,
    /// The name of the fault compiled into it, none for a good one.
    pub fault: Option<&'static str>,
}

impl Host {
    /// A good one.
    pub const fn good(version: &'static str) -> Host {
        Host { version, fault: None }
    }

    /// One with a fault.
    pub const fn broken(version: &'static str, fault: &'static str) -> Host {
        Host { version, fault: Some(fault) }
    }

    /// The finished binary, built when it is not there.
    pub fn build(self) -> Result<PathBuf, Failure> {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hosts");
        fs::create_dir_all(&folder)?;
        let lock = File::create(folder.join("lock"))?;
        flock(&lock, FlockOperation::LockExclusive)?;
        let name = format!("{}-{}-{:x}", self.version, self.fault.unwrap_or("good"), newest_change()?);
        let place = folder.join(name);
        if place.exists() {
            return Ok(place);
        }
        println!("building the host {} ({})", self.version, self.fault.unwrap_or("good"));
        self.compile(&folder.join("target"), &place)?;
        Ok(place)
    }

    fn compile(self, target: &Path, place: &Path) -> Result<(), Failure> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command.args(["build", "--quiet", "--locked", "--profile", "lab", "--bin", "nox-mesh-host"]);
        command.args(["--target", TARGET]).current_dir(env!("CARGO_MANIFEST_DIR"));
        command.env("CARGO_TARGET_DIR", target).env("CC_x86_64_unknown_linux_musl", "musl-gcc");
        command.env("NOX_MESH_HOST_VERSION", self.version);
        match self.fault {
            Some(fault) => command.env("NOX_MESH_HOST_FAULT", fault),
            None => command.env_remove("NOX_MESH_HOST_FAULT"),
        };
        if !command.status()?.success() {
            return fail(format!("the host {} could not be built", self.version));
        }
        // Those of an older source are of no use to anybody.
        let kind = format!("{}-{}-", self.version, self.fault.unwrap_or("good"));
        for entry in fs::read_dir(place.parent().unwrap_or(target))?.flatten() {
            if entry.file_name().to_string_lossy().starts_with(&kind) {
                fs::remove_file(entry.path())?;
            }
        }
        let part = place.with_extension("part");
        fs::copy(target.join(TARGET).join("lab/nox-mesh-host"), &part)?;
        Ok(fs::rename(part, place)?)
    }
}

impl Lab {
    /// The package around a real host. The scenario's line names the host, so that it was built before.
    pub fn host_package(&self, host: Host) -> Result<PathBuf, Failure> {
        let fault = host.fault.unwrap_or("real");
        let folder = Path::new(crate::enclosure::ROOM).join(format!("packages/{}-{fault}", host.version));
        self.package_of(&host.build()?, host.version, &folder)
    }
}

/// When the newest file that a host is made of was changed.
fn newest_change() -> Result<u128, Failure> {
    fn newest(path: &Path) -> std::io::Result<SystemTime> {
        let own = fs::metadata(path)?;
        let mut time = own.modified()?;
        if own.is_dir() {
            for entry in fs::read_dir(path)? {
                time = time.max(newest(&entry?.path())?);
            }
        }
        Ok(time)
    }
    let tree = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut time = UNIX_EPOCH;
    for part in ["src", "Cargo.toml", "Cargo.lock", "rust-toolchain.toml"] {
        time = time.max(newest(&tree.join(part))?);
    }
    Ok(time.duration_since(UNIX_EPOCH)?.as_nanos())
}
