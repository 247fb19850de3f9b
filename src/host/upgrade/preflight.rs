//! Looks at the candidate before it replaces anything: unpacked into a folder, the machine that it was
//! built for, whether it could be left again ([`contents`]), and what its `--version` says (C62).
//!
//! What cannot be found out (no unpacker here, a folder without execution) is no failure: the package
//! manager checks again, and the start is watched.

use super::{Stop, Tools, contents};
use crate::host::life::upgrade::{Class, Reason};
use crate::model::Version;
use crate::model::keyvalue::Pairs;
use crate::sys::command::{self, End, Output, Program};
use crate::sys::durable;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

const UNPACK_LIMIT: Duration = Duration::from_secs(120);
const VERSION_LIMIT: Duration = Duration::from_secs(10);

/// Checks the package of this name.
pub fn check(tools: Tools<'_>, version: &Version, name: &str) -> Result<(), Stop> {
    let folder = tools.root().state("preflight");
    clear(&folder)?;
    std::fs::create_dir(&folder).map_err(disk)?;
    let checked = unpack(tools, &folder, name).and_then(|known| match known {
        true => look(tools, version, &folder),
        false => Ok(()),
    });
    let cleared = clear(&folder);
    checked.and(cleared)
}

/// False if it cannot be unpacked here.
fn unpack(tools: Tools<'_>, folder: &Path, name: &str) -> Result<bool, Stop> {
    let package = tools.root().state(&format!("packages/{name}"));
    let arguments = [OsStr::new("-x"), package.as_os_str(), folder.as_os_str()];
    let ended = match run(tools, OsStr::new("dpkg-deb"), &arguments, UNPACK_LIMIT) {
        Ok(ended) => ended,
        Err(error) => {
            log::warn!("the candidate cannot be unpacked here ({error}): not looked at");
            return Ok(false);
        }
    };
    match ended.end {
        End::Exit(0) => Ok(true),
        End::Interrupted => Err(Stop::Disturbed),
        End::OverTime => Err(Stop::failed(Class::Machine, Reason::Timeout, "unpacking took too long")),
        End::Exit(_) if ended.tail.contains("No space left") => {
            Err(Stop::failed(Class::Machine, Reason::Disk, ended.tail))
        }
        End::Exit(_) | End::Killed(_) => Err(Stop::failed(
            Class::Release,
            Reason::Package,
            format!("it cannot be unpacked: {}", ended.tail),
        )),
    }
}

fn look(tools: Tools<'_>, version: &Version, folder: &Path) -> Result<(), Stop> {
    let broken = |detail: String| Err(Stop::failed(Class::Release, Reason::Package, detail));
    let description = durable::read(&folder.join("usr/lib/nox-mesh-host/package"), 64 * 1024).ok().flatten();
    let described = description.and_then(|bytes| Pairs::parse(&bytes).ok()?.parsed::<Version>("version"));
    if described.as_ref() != Some(version) {
        return broken("the package does not say that it is the ordered version".into());
    }
    let binary = folder.join("usr/bin/nox-mesh-host");
    let (Ok(theirs), Ok(ours)) = (machine_of(&binary), machine_of(Path::new("/proc/self/exe"))) else {
        return broken("the program in the package is missing or no ELF file".into());
    };
    if theirs != ours {
        return broken("the program in the package is for another architecture".into());
    }
    contents::check(tools, folder)?;
    let ended = match run(tools, binary.as_os_str(), &[OsStr::new("--version")], VERSION_LIMIT) {
        Ok(ended) => ended,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            log::warn!("the candidate cannot be run here ({error}): not tried");
            return Ok(());
        }
        Err(error) => return broken(format!("the program in the package does not run: {error}")),
    };
    let wanted = format!("nox-mesh-host {version}");
    match ended.end {
        End::Exit(0) if ended.tail.lines().next() == Some(wanted.as_str()) => Ok(()),
        End::Exit(0) => broken(format!("it says that it is '{}'", ended.tail)),
        End::Interrupted => Err(Stop::Disturbed),
        End::OverTime => broken("its --version does not end".into()),
        End::Exit(status) => broken(format!("its --version ends with {status}: {}", ended.tail)),
        End::Killed(signal) => broken(format!("its --version is killed by signal {signal}")),
    }
}

/// Runs a program of the preflight; what it says is kept.
pub fn run(
    tools: Tools<'_>,
    program: &OsStr,
    arguments: &[&OsStr],
    limit: Duration,
) -> io::Result<command::Ended> {
    let program = Program { program, arguments, environment: &[], output: Output::Kept, limit };
    command::run(tools.waiter, &program)
}

/// Class, byte order and machine of an ELF file (elf(5)).
fn machine_of(path: &Path) -> io::Result<[u8; 4]> {
    let mut head = [0u8; 20];
    File::open(path)?.read_exact(&mut head)?;
    match head {
        [0x7f, b'E', b'L', b'F', class, order, .., machine_low, machine_high] => {
            Ok([class, order, machine_low, machine_high])
        }
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

fn clear(folder: &Path) -> Result<(), Stop> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(disk(error)),
        _ => Ok(()),
    }
}

fn disk(error: io::Error) -> Stop {
    Stop::failed(Class::Machine, Reason::Disk, format!("preflight/: {error}"))
}
