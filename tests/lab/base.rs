//! The base systems: which there are, and where their folders lie. Making them is the script `bases`' work.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::wait::{Failure, fail};

/// A distribution that nodes boot from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Base {
    /// Debian 11, systemd 247: neither RestartMode= nor the MONITOR variables.
    Bullseye,
    /// Debian 12, systemd 252: no RestartMode=.
    Bookworm,
    /// Debian 13, systemd 257: without RestartMode=direct the handler runs at every crash (E1).
    Trixie,
}

impl Base {
    /// All of them, oldest first.
    pub const ALL: [Base; 3] = [Base::Bullseye, Base::Bookworm, Base::Trixie];

    /// The suite's name.
    pub fn name(self) -> &'static str {
        match self {
            Base::Bullseye => "bullseye",
            Base::Bookworm => "bookworm",
            Base::Trixie => "trixie",
        }
    }

    /// Whether its service manager knows RestartMode=.
    pub fn knows_restart_mode(self) -> bool {
        self == Base::Trixie
    }

    /// The folder, as `obtain` told the scenarios' processes.
    pub fn folder(self) -> Result<PathBuf, Failure> {
        match std::env::var_os(self.variable()) {
            Some(folder) => Ok(folder.into()),
            None => fail(format!("this scenario did not name the base {} in its line", self.name())),
        }
    }

    /// The environment variable that carries the folder to a scenario's process.
    pub fn variable(self) -> String {
        format!("NOX_LAB_BASE_{}", self.name())
    }

    /// Makes the base when it is not there (this takes the network and about half a minute), and returns
    /// its folder.
    pub fn obtain(self) -> Result<PathBuf, Failure> {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/lab/bases");
        let output = Command::new(script).arg(self.name()).stderr(Stdio::inherit()).output()?;
        let folder = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if !output.status.success() || folder.is_empty() {
            return fail(format!("no base system {}", self.name()));
        }
        Ok(folder.into())
    }
}
