//! Makes packages for nodes: the real packing around a real host, or around a stand-in for a version of it.
//!
//! Packages are made anew for each scenario, in its own room: that takes a third of a second, and nothing in
//! it can be older than the scripts that are tested.

use std::fs;
use std::path::{Path, PathBuf};

use crate::command::Run;
use crate::enclosure::ROOM;
use crate::facts::{HOST, STATE};
use crate::node::Node;
use crate::room::Lab;
use crate::wait::{Done, Failure, fail, secs};

/// How a stand-in for a host version behaves; `broken/host.c` says it in full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Confirms itself and stays.
    Good,
    /// Exits 1 at once.
    Exit1,
    /// READY, then exits 0, again and again.
    Exit0,
    /// Never READY, deaf to SIGTERM.
    Hang,
    /// READY, then silent to the watchdog and deaf to SIGTERM.
    Freeze,
    /// READY, then exits 1 after so many seconds, unconfirmed.
    SlowCrash(u32),
    /// Exits 1 once, good from then on.
    Heals,
    /// Random bytes in place of a program.
    Garbage,
    /// A whole program, for another architecture.
    OtherArchitecture,
    /// A package without the binary.
    Missing,
}

impl Kind {
    fn mode(self) -> &'static str {
        match self {
            Kind::Good | Kind::Missing => "good",
            Kind::Exit1 => "exit1",
            Kind::Exit0 => "exit0",
            Kind::Hang => "hang",
            Kind::Freeze => "freeze",
            Kind::SlowCrash(_) => "slow-crash",
            Kind::Heals => "heals",
            Kind::Garbage => "garbage",
            Kind::OtherArchitecture => "other-architecture",
        }
    }
}

/// The script that packs, of this source tree or of the one that NOX_LAB_SOURCE names.
fn packer() -> PathBuf {
    let tree = std::env::var_os("NOX_LAB_SOURCE").map_or_else(|| source(""), PathBuf::from);
    tree.join("packaging/build-deb")
}

fn source(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The stand-in's program.
fn binary(version: &str, kind: Kind, folder: &Path) -> Result<PathBuf, Failure> {
    let file = folder.join("nox-mesh-host");
    match kind {
        Kind::Garbage => {
            let mut bytes = vec![0_u8; 64 * 1024];
            rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
            // Not by accident the head of a script or a program.
            if let Some(first) = bytes.first_mut() {
                *first = 0;
            }
            fs::write(&file, bytes)?;
        }
        Kind::OtherArchitecture => {
            let compiler = ["aarch64-linux-gnu-gcc", "-static", "-nostdlib", "-ffreestanding", "-s", "-o"];
            Run::new(compiler).arg(&file).arg(source("tests/lab/broken/bare.c")).ok()?;
        }
        _ => {
            let seconds = if let Kind::SlowCrash(n) = kind { n } else { 0 };
            Run::new(["musl-gcc", "-static", "-Os", "-s", "-o"])
                .arg(&file)
                .arg(format!("-DVERSION=\"{version}\""))
                .arg(format!("-DMODE=\"{}\"", kind.mode()))
                .arg(format!("-DSECONDS={seconds}"))
                .arg(source("tests/lab/broken/host.c"))
                .ok()?;
        }
    }
    Run::new(["chmod", "0755"]).arg(&file).ok()?;
    Ok(file)
}

/// The same package without its binary: as a half-unpacked one looks to the service manager (E9).
fn without_binary(deb: &Path, folder: &Path) -> Done {
    let tree = folder.join("tree");
    Run::new(["dpkg-deb", "-R"]).arg(deb).arg(&tree).ok()?;
    fs::remove_file(tree.join("usr/bin/nox-mesh-host"))?;
    Run::new(["dpkg-deb", "--root-owner-group", "-Zgzip", "-z1", "-b"]).arg(&tree).arg(deb).ok()?;
    Ok(fs::remove_dir_all(tree)?)
}

impl Lab {
    /// A package of this version around a stand-in.
    pub fn package(&self, version: &str, kind: Kind) -> Result<PathBuf, Failure> {
        let folder = Path::new(ROOM).join(format!("packages/{version}-{kind:?}"));
        fs::create_dir_all(&folder)?;
        let deb = self.package_of(&binary(version, kind, &folder)?, version, &folder)?;
        if kind == Kind::Missing {
            without_binary(&deb, &folder)?;
        }
        Ok(deb)
    }

    /// A package of this version around a given binary, made by the script that makes the real ones. It is
    /// not looked into: broken ones must be packed too.
    pub fn package_of(&self, binary: &Path, version: &str, folder: &Path) -> Result<PathBuf, Failure> {
        Run::new([packer()])
            .arg("--allow-broken")
            .arg(binary)
            .args([version, "x86_64-unknown-linux-musl"])
            .arg(folder)
            .ok()
            .map_err(|e| e.while_doing(format_args!("packing {version}")))?;
        let deb = folder.join(format!("nox-mesh-host_{version}_amd64.deb"));
        if deb.is_file() { Ok(deb) } else { fail(format!("build-deb made no {}", deb.display())) }
    }

    /// Installs a stand-in for a good version, waits until it has confirmed itself, and retains its package
    /// as the host does: from then on a rollback can lead there.
    pub fn install_confirmed(&self, node: &Node, version: &str) -> Done {
        let deb = self.package(version, Kind::Good)?;
        node.install_deb(&deb)?.ok()?;
        node.retain(&deb)?;
        node.wait_until(&format!("{version} has confirmed itself"), secs(20), || {
            Ok(node.runs(version)? && node.known_good() == version)
        })?;
        self.say(format!("{} runs {version}, confirmed and retained", node.name));
        Ok(())
    }
}

impl Node {
    /// Puts a package where the host retains those that a rollback may need.
    pub fn retain(&self, deb: &Path) -> Done {
        let name = deb.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let sum = Run::new(["sha256sum"]).arg(deb).ok()?.out;
        let hex = sum.split_whitespace().next().unwrap_or_default();
        self.write(&format!("{STATE}/packages/{name}"), fs::read(deb)?)?;
        self.write(&format!("{STATE}/packages/{name}.sha256"), format!("{hex}  {name}\n"))
    }

    /// Forgets what the service manager counted, so that a scenario's own starts are all that counts.
    pub fn forget_starts(&self) -> Done {
        self.run(["systemctl", "reset-failed", HOST])?.ok().map(|_| ())
    }
}
