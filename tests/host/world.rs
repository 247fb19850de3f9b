//! A machine in a folder, the real program, and a mesh of forty lines.

use crate::peer::{Authority, Request, Wire, reply, serve};
use nox_mesh::model::Digest;
use nox_mesh::sys::crypt::{SigningKey, hex, sha256};
use nox_mesh::wire::claim::ClaimAnswer;
use nox_mesh::wire::envelope::Envelope;
use nox_mesh::wire::heartbeat::{Heartbeat, HeartbeatAnswer};
use nox_mesh::wire::join::JoinAnswer;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The program under test; `NOX_MESH_HOST_PROGRAM` names another build of it.
fn program() -> String {
    std::env::var("NOX_MESH_HOST_PROGRAM").unwrap_or_else(|_| env!("CARGO_BIN_EXE_nox-mesh-host").into())
}

pub const RUNNING: &str = env!("CARGO_PKG_VERSION");
/// What a test waits for at most.
const PATIENCE: Duration = Duration::from_secs(40);

#[derive(Default)]
pub struct Desk {
    /// The envelope that a poll gets, and its generation.
    pub envelope: Option<(u64, Vec<u8>)>,
    pub heartbeats: Vec<Heartbeat>,
    pub packages: BTreeMap<String, Vec<u8>>,
    pub claims: Vec<String>,
    pub grants: bool,
    /// How long a claim is valid.
    pub valid_ms: u64,
    /// Answer everything with this status.
    pub broken: Option<&'static str>,
    /// Store rollback records.
    pub stores: bool,
    /// Cut packages off after this many bytes, once.
    pub cut_at: Option<usize>,
    pub ranges: Vec<String>,
    pub polls: usize,
    /// Say 'nothing new' at once.
    pub is_hasty: bool,
}

pub struct Mesh {
    pub url: String,
    pub authority: Authority,
    pub key: Arc<SigningKey>,
    pub desk: Arc<Mutex<Desk>>,
}

impl Mesh {
    pub fn start() -> Self {
        let authority = Authority::new();
        let key = Arc::new(SigningKey::from_pkcs8(&SigningKey::generate().unwrap()).unwrap());
        let desk =
            Arc::new(Mutex::new(Desk { grants: true, valid_ms: 60_000, stores: true, ..Desk::default() }));
        let (inner, pem, public) = (desk.clone(), authority.pem.clone(), key.public());
        let (url, _) = serve(&authority, move |request, wire| answer(request, wire, &inner, &pem, &public));
        Mesh { url, authority, key, desk }
    }

    pub fn seal(&self, text: &str) -> Vec<u8> {
        let signature = self.key.sign(text.as_bytes());
        Envelope { declaration: text.into(), key: "k1".into(), signature }.write().into_bytes()
    }

    pub fn declare(&self, generation: u64, resources: &str) {
        let text =
            format!(r#"{{"format":1,"node":"n-1","generation":{generation},"resources":[{resources}]}}"#);
        let envelope = self.seal(&text);
        self.desk().envelope = Some((generation, envelope));
    }

    pub fn desk(&self) -> std::sync::MutexGuard<'_, Desk> {
        self.desk.lock().unwrap()
    }

    /// The first heartbeat for which this holds, among those still to come or the last one.
    pub fn hears(&self, what: &str, holds: impl Fn(&Heartbeat) -> bool) -> Heartbeat {
        let mut seen = self.desk().heartbeats.len().saturating_sub(1);
        eventually(what, || {
            let desk = self.desk();
            let found = desk.heartbeats.iter().skip(seen).find(|heartbeat| holds(heartbeat)).cloned();
            seen = seen.max(desk.heartbeats.len().saturating_sub(1));
            found.ok_or_else(|| format!("{:#?}", desk.heartbeats.last()))
        })
    }
}

fn answer(request: &Request, wire: &mut Wire, desk: &Mutex<Desk>, ca: &str, key: &str) -> bool {
    let broken = desk.lock().unwrap().broken;
    if let Some(status) = broken {
        return reply(wire, status, "", b"");
    }
    let ok = |wire: &mut Wire, body: String| reply(wire, "200 OK", "", body.as_bytes());
    match request.line.split(' ').nth(1).unwrap() {
        "/v1/join" => ok(
            wire,
            miniserde::json::to_string(&JoinAnswer {
                format: 1,
                node: "n-1".into(),
                name: "web01".into(),
                credential: "secret".into(),
                declaration_key_id: "k1".into(),
                declaration_key: key.into(),
                heartbeat_ms: 500,
                overlay: "none".into(),
                ca: ca.into(),
            }),
        ),
        _ if request.header("authorization") != Some("Bearer n-1:secret") => {
            reply(wire, "401 Unauthorized", "", br#"{"error":"who are you?"}"#)
        }
        "/v1/heartbeat" => {
            let heartbeat: Heartbeat = miniserde::json::from_str(&request.body).unwrap();
            let mut desk = desk.lock().unwrap();
            let newest = desk.envelope.as_ref().map_or(0, |(generation, _)| *generation);
            let stored = heartbeat.rollbacks.iter().map(|record| record.id).filter(|_| desk.stores).collect();
            desk.heartbeats.push(heartbeat);
            drop(desk);
            let answer =
                HeartbeatAnswer { format: 1, newest, stored_rollbacks: stored, ..Default::default() };
            ok(wire, miniserde::json::to_string(&answer))
        }
        "/v1/orders/claim" => {
            let mut desk = desk.lock().unwrap();
            desk.claims.push(request.body.clone());
            let (granted, valid_ms) = (desk.grants, desk.valid_ms);
            let answer = ClaimAnswer { format: 1, granted, reason: None, valid_ms };
            drop(desk);
            ok(wire, miniserde::json::to_string(&answer))
        }
        path if path.starts_with("/v1/packages/") => package(request, wire, desk, &path[13..]),
        path => poll(wire, desk, path),
    }
}

fn package(request: &Request, wire: &mut Wire, desk: &Mutex<Desk>, digest: &str) -> bool {
    let mut desk = desk.lock().unwrap();
    let Some(bytes) = desk.packages.get(digest).cloned() else {
        return reply(wire, "404 Not Found", "", b"");
    };
    let range = request.header("range").unwrap_or_default().to_owned();
    let from = range.trim_start_matches("bytes=").trim_end_matches('-').parse().unwrap_or(0usize);
    desk.ranges.push(range);
    let cut = desk.cut_at.take();
    drop(desk);
    if let Some(cut) = cut {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", bytes.len());
        let _ = std::io::Write::write_all(wire, head.as_bytes());
        let _ = std::io::Write::write_all(wire, &bytes[..cut]);
        return false;
    }
    let range = format!("content-range: bytes {from}-{}/{}\r\n", bytes.len() - 1, bytes.len());
    match from {
        0 => reply(wire, "200 OK", "", &bytes),
        _ => reply(wire, "206 Partial Content", &range, &bytes[from..]),
    }
}

fn poll(wire: &mut Wire, desk: &Mutex<Desk>, path: &str) -> bool {
    let number = |key: &str| -> u64 {
        let rest = path.split(key).nth(1).unwrap_or_default();
        rest.split('&').next().unwrap().parse().unwrap()
    };
    let (after, wait) = (number("after="), number("wait="));
    let until = Instant::now() + Duration::from_secs(wait);
    desk.lock().unwrap().polls += 1;
    loop {
        if let Some((generation, envelope)) = &desk.lock().unwrap().envelope
            && *generation > after
        {
            return reply(wire, "200 OK", "", envelope);
        }
        if Instant::now() >= until || desk.lock().unwrap().is_hasty {
            return reply(wire, "204 No Content", "", b"");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A machine in a folder.
pub struct Machine {
    pub root: PathBuf,
    told: Arc<Mutex<String>>,
}

/// An install script that the test's folder steers: it writes down its calls, and `install.result`
/// becomes the result.
const INSTALL: &str = r#"#!/bin/sh
set -eu
state=$NOX_MESH_HOST_ROOT/var/lib/mesh-host
lib=$NOX_MESH_HOST_ROOT/usr/lib/nox-mesh-host
echo "$1" >>"$lib/calls"
case $1 in
state) if [ -e "$lib/running" ]; then echo running; else echo idle; fi ;;
start)
    [ -e "$lib/install.result" ] || exit 0
    version=$(sed -n 's/^version=//p' "$state/order")
    attempt=$(sed -n 's/^attempt=//p' "$state/order")
    if grep -q status=installed "$lib/install.result"; then
        printf 'format=1\nversion=%s\npackage_format=deb\narchitecture=amd64\n' "$version" >"$lib/package"
    fi
    printf 'format=1\nversion=%s\nattempt=%s\n' "$version" "$attempt" >"$state/result.new"
    cat "$lib/install.result" >>"$state/result.new"
    mv "$state/result.new" "$state/result" ;;
esac
"#;

impl Machine {
    pub fn new(name: &str) -> Self {
        let root = std::env::temp_dir().join(format!("nox-node-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&root);
        for folder in ["var/lib/mesh-host/rollbacks", "usr/lib/nox-mesh-host", "etc/nox-mesh-host"] {
            std::fs::create_dir_all(root.join(folder)).unwrap();
        }
        let ear = UnixDatagram::bind(root.join("notify")).unwrap();
        let told = Arc::new(Mutex::new(String::new()));
        let heard = told.clone();
        std::thread::spawn(move || {
            let mut buffer = [0u8; 4096];
            while let Ok(length) = ear.recv(&mut buffer) {
                let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
                heard.lock().unwrap().push_str(&(text + "\n"));
            }
        });
        let machine = Machine { root, told };
        machine.put("usr/lib/nox-mesh-host/install", INSTALL);
        let script = machine.path("usr/lib/nox-mesh-host/install");
        std::fs::set_permissions(script, PermissionsExt::from_mode(0o755)).unwrap();
        machine.package(RUNNING);
        machine.put("etc/nox-mesh-host/settings", "log_level=debug\nreconcile_seconds=2\n");
        machine
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    pub fn state(&self, name: &str) -> PathBuf {
        self.path("var/lib/mesh-host").join(name)
    }

    pub fn put(&self, path: &str, text: &str) {
        std::fs::write(self.path(path), text).unwrap();
    }

    pub fn read(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.path(path)).ok()
    }

    /// What is installed, as far as the package says.
    pub fn package(&self, version: &str) {
        self.put(
            "usr/lib/nox-mesh-host/package",
            &format!(
                "format=1\nname=nox-mesh-host\nversion={version}\npackage_format=deb\narchitecture=amd64\n"
            ),
        );
    }

    pub fn join(&self, mesh: &Mesh) -> String {
        let ca = format!("sha256:{}", hex(&sha256(&mesh.authority.ca)));
        let said = self
            .command()
            .args(["join", "--mesh", &mesh.url, "--token", "t", "--ca", &ca])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        format!("{}{}", String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr))
    }

    pub fn command(&self) -> Command {
        let mut command = Command::new(program());
        command.env("NOX_MESH_HOST_ROOT", &self.root).stdin(Stdio::null());
        command
    }

    pub fn run(&self) -> Process {
        self.run_watched("3000000")
    }

    /// With a watchdog that bites after so many microseconds.
    pub fn run_watched(&self, watchdog_us: &str) -> Process {
        let log = std::fs::File::options().create(true).append(true).open(self.path("log")).unwrap();
        let child = self
            .command()
            .arg("run")
            .env("NOTIFY_SOCKET", self.path("notify"))
            .env("WATCHDOG_USEC", watchdog_us)
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        Process { child, log: self.path("log") }
    }

    /// What the supervisor has been told.
    pub fn told(&self) -> String {
        self.told.lock().unwrap().clone()
    }

    /// A real package with a program that says `says`.
    pub fn build_package(&self, version: &str, says: &str) -> Vec<u8> {
        self.build_changed(version, says, |_| {})
    }

    /// The same, with something changed in its tree before it is packed.
    pub fn build_changed(&self, version: &str, says: &str, change: impl Fn(&Path)) -> Vec<u8> {
        let tree = self.path("tree");
        let _ = std::fs::remove_dir_all(&tree);
        for folder in ["DEBIAN", "usr/bin", "usr/lib/nox-mesh-host", "usr/lib/systemd/system"] {
            std::fs::create_dir_all(tree.join(folder)).unwrap();
        }
        put_parts(&tree);
        let control = format!(
            "Package: nox-mesh-host\nVersion: {version}\nArchitecture: amd64\n\
             Maintainer: t <t@example.org>\nDescription: t\n"
        );
        std::fs::write(tree.join("DEBIAN/control"), control).unwrap();
        std::fs::write(tree.join("usr/lib/nox-mesh-host/package"), format!("format=1\nversion={version}\n"))
            .unwrap();
        let source = format!("#include <stdio.h>\nint main(void) {{ puts(\"{says}\"); return 0; }}\n");
        std::fs::write(self.path("p.c"), source).unwrap();
        let binary = tree.join("usr/bin/nox-mesh-host");
        run("cc", &[&self.path("p.c"), Path::new("-o"), &binary]);
        change(&tree);
        let package = self.path("p.deb");
        run("dpkg-deb", &[Path::new("--root-owner-group"), Path::new("--build"), &tree, &package]);
        std::fs::read(package).unwrap()
    }
}

/// The scripts and units of a package, which the preflight looks at.
fn put_parts(tree: &Path) {
    for script in ["rollback", "start-guard", "install"] {
        let path = tree.join("usr/lib/nox-mesh-host").join(script);
        std::fs::write(&path, "#!/bin/sh\nexit 0\n").unwrap();
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
    }
    let units = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/systemd");
    for unit in ["nox-mesh-host.service", "nox-mesh-host-rollback.service"] {
        std::fs::copy(units.join(unit), tree.join("usr/lib/systemd/system").join(unit)).unwrap();
    }
}

fn run(program: &str, arguments: &[&Path]) {
    let ended = Command::new(program).args(arguments).stdout(Stdio::null()).status().unwrap();
    assert!(ended.success(), "{program} {arguments:?}");
}

/// Puts a package into the mesh's store; returns its JSON for a declaration.
pub fn store(mesh: &Mesh, version: &str, bytes: &[u8]) -> String {
    let digest = Digest::new(sha256(bytes)).to_string();
    let json = format!(r#"{{"version":"{version}","sha256":"{digest}","size":{}}}"#, bytes.len());
    mesh.desk().packages.insert(digest, bytes.to_vec());
    json
}

/// The running program; killed when the test ends.
pub struct Process {
    pub child: Child,
    log: PathBuf,
}

impl Process {
    pub fn signal(&self, signal: &str) {
        let ended = Command::new("kill").args([format!("-{signal}"), self.child.id().to_string()]).status();
        assert!(ended.unwrap().success());
    }

    pub fn ended(&mut self) -> ExitStatus {
        let child = &mut self.child;
        eventually("the end of the process", || child.try_wait().unwrap().ok_or_else(String::new))
    }

    pub fn is_up(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("{}", std::fs::read_to_string(&self.log).unwrap_or_default());
        }
    }
}

/// Waits until it is so; the error tells what is instead.
pub fn eventually<T>(what: &str, mut is: impl FnMut() -> Result<T, String>) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        match is() {
            Ok(value) => return value,
            Err(instead) if Instant::now() > until => panic!("{what} did not come: {instead}"),
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

pub fn until(what: &str, mut is: impl FnMut() -> bool) {
    eventually(what, || if is() { Ok(()) } else { Err(String::new()) });
}
