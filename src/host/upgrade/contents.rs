//! Looks at the parts of the candidate that bring the old version back: once it is installed, the
//! rollback that runs is its own. A package whose rollback cannot run is never installed.

use super::{Stop, Tools, preflight};
use crate::host::life::upgrade::{Class, Reason};
use crate::sys::command::End;
use crate::sys::durable;
use std::ffi::OsStr;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

const SCRIPTS: [&str; 3] = ["rollback", "start-guard", "install"];
const SYNTAX_LIMIT: Duration = Duration::from_secs(10);
/// Largest unit file, in bytes.
const UNIT_BYTES_MAX: usize = 64 * 1024;
/// The permission bit of the owner, who is root.
const EXECUTABLE: u32 = 0o100;

/// Checks the scripts and the units of a package that is unpacked in `folder`.
pub fn check(tools: Tools<'_>, folder: &Path) -> Result<(), Stop> {
    for name in SCRIPTS {
        let path = folder.join("usr/lib/nox-mesh-host").join(name);
        match path.symlink_metadata() {
            Ok(found) if !found.is_file() || found.len() == 0 => {
                return broken(format!("its {name} is empty"));
            }
            Ok(found) if found.mode() & EXECUTABLE == 0 => {
                return broken(format!("its {name} is not executable"));
            }
            Ok(_) => syntax(tools, &path, name)?,
            Err(_) => return broken(format!("its {name} is missing")),
        }
    }
    let unit = |name: &str| {
        let bytes = durable::read(&folder.join("usr/lib/systemd/system").join(name), UNIT_BYTES_MAX);
        let text = bytes.ok().flatten().map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        Unit(text.unwrap_or_default())
    };
    let (host, rollback) = (unit("nox-mesh-host.service"), unit("nox-mesh-host-rollback.service"));
    missing(&host, &rollback).map_or(Ok(()), |what| broken(format!("its units lack {what}")))
}

fn broken(detail: String) -> Result<(), Stop> {
    Err(Stop::failed(Class::Release, Reason::Package, detail))
}

/// Whether the shell of this machine can read the script.
fn syntax(tools: Tools<'_>, path: &Path, name: &str) -> Result<(), Stop> {
    let arguments = [OsStr::new("-n"), path.as_os_str()];
    let ended = match preflight::run(tools, OsStr::new("sh"), &arguments, SYNTAX_LIMIT) {
        Ok(ended) => ended,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => {
            return Err(Stop::failed(Class::Machine, Reason::State, format!("sh cannot be run: {error}")));
        }
    };
    match ended.end {
        End::Exit(0) => Ok(()),
        End::Interrupted => Err(Stop::Disturbed),
        End::OverTime => Err(Stop::failed(Class::Machine, Reason::Timeout, "sh -n took too long")),
        End::Exit(_) | End::Killed(_) => broken(format!("its {name} is no shell script: {}", ended.tail)),
    }
}

/// What no rollback could begin without, if the units lack it.
fn missing(host: &Unit, rollback: &Unit) -> Option<&'static str> {
    let guard = "/usr/lib/nox-mesh-host/start-guard";
    let first = |value: &str, word: &str| value.split_whitespace().next() == Some(word);
    let counts = |value: &str| value.parse::<u32>().is_ok_and(|times| times > 0);
    let starts = |value: &str| value.split_whitespace().any(|unit| unit == "nox-mesh-host-rollback.service");
    // Where systemd ignores a key, it only says so in the journal: the section counts too (E0).
    let needed = [
        (host.any("Unit", "OnFailure", starts), "OnFailure=nox-mesh-host-rollback.service"),
        (host.any("Unit", "StartLimitBurst", counts), "StartLimitBurst= in [Unit]"),
        (
            host.any("Service", "ExecStartPre", |value| first(value, guard)),
            "ExecStartPre= with the start-guard",
        ),
        (host.any("Service", "Restart", |value| value == "always"), "Restart=always"),
        (
            rollback.any("Service", "ExecStart", |value| first(value, "/usr/lib/nox-mesh-host/rollback")),
            "the rollback's ExecStart=/usr/lib/nox-mesh-host/rollback",
        ),
    ];
    needed.into_iter().find(|(is_there, _)| !is_there).map(|(_, what)| what)
}

/// The text of a unit file.
struct Unit(String);

impl Unit {
    /// Whether one of the key's values in this section is as wanted.
    fn any(&self, section: &str, key: &str, wanted: impl Fn(&str) -> bool) -> bool {
        let (mut here, mut found) = (false, false);
        for line in self.0.lines().map(str::trim) {
            if let Some(name) = line.strip_prefix('[') {
                here = name.strip_suffix(']') == Some(section);
            } else if here && let Some((name, value)) = line.split_once('=') {
                let (name, value) = (name.trim(), value.trim());
                // An empty value takes back what was said before (systemd.syntax(7)).
                found = name != key && found || name == key && !value.is_empty() && (found || wanted(value));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: &str = include_str!("../../../packaging/systemd/nox-mesh-host.service");
    const ROLLBACK: &str = include_str!("../../../packaging/systemd/nox-mesh-host-rollback.service");

    fn lacks(host: &str, rollback: &str) -> Option<&'static str> {
        missing(&Unit(host.into()), &Unit(rollback.into()))
    }

    #[test]
    fn c62_units_without_a_way_back_are_found() {
        assert_eq!(lacks(HOST, ROLLBACK), None, "the units of this release");
        let rows = [
            ("OnFailure=nox-mesh-host-rollback.service\n", "", "OnFailure"),
            ("OnFailure=nox-mesh-host-rollback.service", "OnFailure=other.service", "OnFailure"),
            (
                "OnFailure=nox-mesh-host-rollback.service",
                "#OnFailure=nox-mesh-host-rollback.service",
                "OnFailure",
            ),
            ("\n[Service]", "\nOnFailure=\n[Service]", "OnFailure"),
            ("StartLimitBurst=3\n", "", "StartLimitBurst"),
            ("StartLimitBurst=3", "StartLimitBurst=0", "StartLimitBurst"),
            ("ExecStartPre=/usr/lib/nox-mesh-host/start-guard start\n", "", "ExecStartPre"),
            ("ExecStartPre=/", "ExecStartPre=-/", "ExecStartPre"),
            ("Restart=always", "Restart=no", "Restart"),
        ];
        for (from, to, what) in rows {
            assert!(HOST.contains(from), "{from}");
            let said = lacks(&HOST.replace(from, to), ROLLBACK);
            assert!(said.is_some_and(|said| said.starts_with(what)), "{from} -> {to}: {said:?}");
        }
        let moved =
            HOST.replace("StartLimitBurst=3\n", "").replace("[Service]\n", "[Service]\nStartLimitBurst=3\n");
        assert!(lacks(&moved, ROLLBACK).is_some_and(|said| said.contains("in [Unit]")), "E0");
        for broken in ["", &ROLLBACK.replace("nox-mesh-host/rollback", "nox-mesh-host/other")] {
            assert!(lacks(HOST, broken).is_some_and(|said| said.contains("rollback's ExecStart")));
        }
    }
}
