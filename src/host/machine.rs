//! What kind of machine this is, and which package is installed on it: read from files, never asked of
//! a program.

use super::state::Root;
use crate::model::keyvalue::Pairs;
use crate::model::{BootId, Facts, Version};
use crate::sys::durable;
use std::path::Path;

/// Largest of these small files, in bytes.
const BYTES_MAX: usize = 64 * 1024;

/// The version of this program, compiled in.
pub const VERSION: &str = match option_env!("NOX_MESH_HOST_VERSION") {
    Some(version) => version,
    None => env!("CARGO_PKG_VERSION"),
};

/// The running version.
pub fn running() -> Version {
    // The build checks the grammar (below); should one slip through, it is version 0.0.0, which nothing
    // declares and nothing confirms, instead of a crash.
    VERSION.parse().unwrap_or_else(|_| Version::zero())
}

/// What is wrong with the running version, for the report; such a one is never confirmed.
pub fn version_trouble(running: &Version) -> Option<&'static str> {
    (*running == Version::zero()).then_some("this build has no proper version: it is never confirmed")
}

const _: () = assert!(is_a_version(VERSION.as_bytes()), "NOX_MESH_HOST_VERSION is not a version");

/// The grammar of [`Version`] for the compiler, which cannot call its parser. `0.0.0` is none here: it
/// stands for a version that is not known.
const fn is_a_version(text: &[u8]) -> bool {
    let (mut at, mut number, mut any) = (0, 0, false);
    while number < 3 {
        let from = at;
        while at < text.len() && text[at].is_ascii_digit() {
            any |= text[at] != b'0';
            at += 1;
        }
        let digits = at - from;
        if digits == 0 || digits > 9 || (digits > 1 && text[from] == b'0') {
            return false;
        }
        number += 1;
        if number < 3 {
            if at == text.len() || text[at] != b'.' {
                return false;
            }
            at += 1;
        }
    }
    if at == text.len() {
        return any;
    }
    let suffix = text.len() - at - 1;
    if !matches!(text[at], b'~' | b'+') || suffix == 0 || suffix > 32 {
        return false;
    }
    at += 1;
    while at < text.len() {
        if !text[at].is_ascii_alphanumeric() && text[at] != b'.' {
            return false;
        }
        at += 1;
    }
    true
}

/// What `package` says about the installed package.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Installed {
    /// Its version.
    pub version: Option<Version>,
    /// `deb`, `rpm`, `pacman`, or `bare` when there is no package.
    pub format: String,
    /// The distribution's name of the architecture.
    pub architecture: String,
}

/// Reads the installed package's own description.
pub fn installed(root: &Root) -> Installed {
    let pairs =
        read(&root.library("package")).and_then(|bytes| Pairs::parse(&bytes).ok()).unwrap_or_default();
    let word = |key: &str, otherwise: &str| {
        let known = pairs.get(key).filter(|word| word.parse::<crate::model::NodeName>().is_ok());
        known.unwrap_or(otherwise).to_owned()
    };
    Installed {
        version: pairs.parsed("version"),
        format: word("package_format", "bare"),
        architecture: word("architecture", architecture()),
    }
}

/// What is wrong when another version is installed than runs, for the report.
pub fn package_trouble(installed: &Installed, running: &Version) -> Option<String> {
    let version = installed.version.as_ref().filter(|version| *version != running)?;
    Some(format!("{version} is installed, {running} runs: the next start takes the installed one"))
}

/// Debian's name of the architecture that this program was built for.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// The file name of a version's package inside `packages/`.
pub fn package_name(version: &Version, installed: &Installed) -> String {
    format!("nox-mesh-host_{version}_{}.deb", installed.architecture)
}

/// The facts that go to the mesh.
pub fn facts(root: &Root, installed: &Installed) -> Facts {
    let release = read(&root.path("etc/os-release")).or_else(|| read(&root.path("usr/lib/os-release")));
    let release = String::from_utf8_lossy(&release.unwrap_or_default()).into_owned();
    Facts {
        architecture: installed.architecture.clone(),
        package_format: installed.format.clone(),
        distribution: distribution(&release),
        kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
    }
}

/// `ID-VERSION_ID` of os-release(5).
fn distribution(release: &str) -> String {
    let value = |key: &str| {
        let line = release.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        line.map(|value| value.trim_matches(['"', '\'']).to_owned()).filter(|value| !value.is_empty())
    };
    let id = value("ID").unwrap_or_else(|| "linux".into());
    match value("VERSION_ID") {
        Some(version) => format!("{id}-{version}"),
        None => id,
    }
}

/// The kernel's id of this boot.
pub fn boot_id() -> Option<BootId> {
    // Always the kernel's own, also for a test's root: no folder can stand in for a boot.
    let bytes = read(Path::new("/proc/sys/kernel/random/boot_id"))?;
    std::str::from_utf8(&bytes).ok()?.trim_end().parse().ok()
}

/// The machine's host name.
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

fn read(path: &Path) -> Option<Vec<u8>> {
    durable::read(path, BYTES_MAX).ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_compiled_in_version_is_a_version() {
        assert_eq!(running().to_string(), VERSION);
    }

    #[test]
    fn what_the_compiler_takes_for_a_version_is_one() {
        let long = format!("1.2.3~{}", "a".repeat(32));
        for good in ["1.2.3", "0.1.0", "0.0.0~rc1", "999999999.0.1", "1.5.0~rc1", "1.5.0+fix.2", &long] {
            assert!(is_a_version(good.as_bytes()) && good.parse::<Version>().is_ok(), "{good}");
        }
        let long = format!("{long}a");
        let bad =
            ["", "1", "1.2", "1.2.", "1.2.3.4", "1.01.0", "01.1.0", "1.2.1234567890", "v1.2.3", "1.2.3-1"];
        for bad in bad.iter().copied().chain(["1.2.3~", "1.2.3+a_b", "1.2.3 ", "1..3", "1.2.3\n", &long]) {
            assert!(!is_a_version(bad.as_bytes()) && bad.parse::<Version>().is_err(), "{bad}");
        }
        assert!(!is_a_version(b"0.0.0"), "0.0.0 is never confirmed");
    }

    #[test]
    fn a_build_without_a_proper_version_says_so() {
        assert!(version_trouble(&Version::zero()).is_some());
        assert_eq!(version_trouble(&running()), None);
    }

    #[test]
    fn distributions_by_os_release() {
        assert_eq!(distribution("NAME=x\nID=debian\nVERSION_ID=\"12\"\n"), "debian-12");
        assert_eq!(distribution("ID=arch\n"), "arch");
        assert_eq!(distribution(""), "linux");
        assert!(boot_id().is_some());
    }

    #[test]
    fn a_machine_without_the_package_file_is_bare() {
        let state = crate::host::state::tests::scratch("machine");
        let bare = installed(state.root());
        assert_eq!((bare.version.as_ref(), bare.format.as_str()), (None, "bare"));
        let text = "format=1\nname=nox-mesh-host\nversion=1.4.0\npackage_format=deb\narchitecture=arm64\n";
        std::fs::write(state.root().library("package"), text).unwrap();
        let found = installed(state.root());
        let version = found.version.clone().unwrap();
        assert_eq!(package_name(&version, &found), "nox-mesh-host_1.4.0_arm64.deb");
    }
}
