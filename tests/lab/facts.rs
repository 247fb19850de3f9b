//! What a node says about its host, read the way a person would: units, dpkg, the plain files of the state.

use std::fs;

use crate::node::Node;
use crate::wait::{Failure, check};

/// The host's unit.
pub const HOST: &str = "nox-mesh-host.service";
/// The unit that brings the confirmed version back.
pub const ROLLBACK: &str = "nox-mesh-host-rollback.service";
/// The state folder.
pub const STATE: &str = "/var/lib/mesh-host";

/// One record of a rollback.
#[derive(Debug)]
pub struct Record {
    text: String,
}

impl Record {
    /// A field; an empty text when it has none of that name.
    pub fn get(&self, key: &str) -> &str {
        value(&self.text, key)
    }

    /// The failed version's last lines.
    pub fn log(&self) -> Vec<&str> {
        self.text.lines().filter_map(|line| line.strip_prefix("log=")).collect()
    }

    /// Insists on a field.
    pub fn insist(&self, key: &str, wanted: &str) -> Result<(), Failure> {
        check(self.get(key) == wanted, || {
            format!("the record says {key}={}, not {wanted}:\n{}", self.get(key), self.text)
        })
    }
}

/// The first value of a key in a text of `key=value` lines.
pub fn value<'a>(text: &'a str, key: &str) -> &'a str {
    let wanted = |line: &'a str| line.strip_prefix(key).and_then(|rest| rest.strip_prefix('='));
    text.lines().find_map(wanted).unwrap_or_default()
}

impl Node {
    /// The version that the package says is installed.
    pub fn installed(&self) -> String {
        value(&self.read("/usr/lib/nox-mesh-host/package"), "version").to_owned()
    }

    /// What dpkg says: `installed 1.0.0`, `half-configured 1.1.0`, …
    pub fn dpkg(&self) -> Result<String, Failure> {
        let format = "${db:Status-Status} ${Version}";
        Ok(self.run(["dpkg-query", "-W", "-f", format, "nox-mesh-host"])?.out)
    }

    /// The confirmed version; empty when there is none.
    pub fn known_good(&self) -> String {
        self.read(&format!("{STATE}/known-good")).trim_end().to_owned()
    }

    /// Whether the host is active, and package, dpkg and the running binary agree on this version.
    pub fn runs(&self, version: &str) -> Result<bool, Failure> {
        if self.installed() != version || self.dpkg()? != format!("installed {version}") {
            return Ok(false);
        }
        let shown = self.show(HOST, &["ActiveState", "MainPID"])?;
        let get = |name: &str| shown.get(name).map_or("", String::as_str);
        if get("ActiveState") != "active" || get("MainPID") == "0" {
            return Ok(false);
        }
        // The file that the process runs, not the one that lies at its path by now.
        let running = format!("/proc/{}/exe", get("MainPID"));
        let said = self.run([running.as_str(), "--version"])?.out;
        Ok(said.lines().next() == Some(format!("nox-mesh-host {version}").as_str()))
    }

    /// The records of rollbacks, oldest first.
    pub fn rollbacks(&self) -> Vec<Record> {
        let folder = self.place(&format!("{STATE}/rollbacks"));
        let names = fs::read_dir(&folder).into_iter().flatten().flatten();
        let mut numbers: Vec<u32> =
            names.filter_map(|entry| entry.file_name().to_string_lossy().parse().ok()).collect();
        numbers.sort_unstable();
        let read = |n: &u32| fs::read_to_string(folder.join(n.to_string())).unwrap_or_default();
        numbers.iter().map(|n| Record { text: read(n) }).collect()
    }

    /// How often the service manager has started the rollback unit since the node's first boot.
    pub fn rollback_unit_starts(&self) -> Result<usize, Failure> {
        // The message id of "Starting …" is the same in every version.
        let id = "MESSAGE_ID=7d4958e842da4a758f6c1cdc7b36dcc5";
        let unit = format!("UNIT={ROLLBACK}");
        Ok(self.run(["journalctl", "-q", "-o", "cat", id, &unit])?.out.lines().count())
    }
}
