//! A mesh in a folder of its own, driven by its command line alone.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// What a test waits for at most.
const PATIENCE: Duration = Duration::from_secs(30);

/// A folder with everything of one test in it; gone when the test is over.
pub struct World {
    pub folder: PathBuf,
    serving: Option<Child>,
}

impl World {
    pub fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("nox-mesh-test-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        World { folder, serving: None }
    }

    pub fn path(&self, name: &str) -> String {
        self.folder.join(name).to_str().unwrap().to_owned()
    }

    pub fn write(&self, name: &str, content: &[u8]) -> String {
        let path = self.path(name);
        std::fs::create_dir_all(Path::new(&path).parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    /// Serves and waits until it answers.
    pub fn serve(&mut self) {
        let child = serve(&self.path("data"), &[]).stderr(Stdio::null()).spawn().unwrap();
        self.serving = Some(child);
        let until = Instant::now() + PATIENCE;
        while self.mesh(&["nodes"]).status.code() != Some(0) {
            assert!(Instant::now() < until, "the mesh does not answer");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// As a power cut would end it.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.serving.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// One command of an operator.
    pub fn mesh(&self, arguments: &[&str]) -> Output {
        let socket = self.path("data/operator.sock");
        Command::new(env!("CARGO_BIN_EXE_nox-mesh"))
            .args(["--socket", &socket])
            .args(arguments)
            .output()
            .unwrap()
    }

    pub fn code(&self, arguments: &[&str]) -> i32 {
        self.mesh(arguments).status.code().unwrap()
    }

    /// A machine joins, as the printed command says; gives the machine's root folder.
    pub fn join(&self, name: &str) {
        let package = "format=1\nname=nox-mesh-host\nversion=1.4.0\npackage_format=deb\narchitecture=amd64\n";
        self.write(&format!("{name}/usr/lib/nox-mesh-host/package"), package.as_bytes());
        std::fs::create_dir_all(self.path(&format!("{name}/var/lib/mesh-host"))).unwrap();
        let answer = self.mesh(&["token", "create", "--output", "json"]);
        let token: serde_json::Value = serde_json::from_slice(&answer.stdout).unwrap();
        let command = token["join_command"].as_str().unwrap().to_owned();
        let words: Vec<&str> = command.split(' ').skip(1).collect();
        let joined = Command::new(env!("CARGO_BIN_EXE_nox-mesh-host"))
            .args(words)
            .args(["--name", name])
            .env("NOX_MESH_HOST_ROOT", self.path(name))
            .output()
            .unwrap();
        assert!(joined.status.success(), "{joined:?}");
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.kill();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// `serve` on a free port.
pub fn serve(data: &str, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nox-mesh"));
    command.args(["serve", "--data", data, "--listen", "127.0.0.1:0"]).args(more).stdin(Stdio::null());
    command
}

/// The exit code of a `serve` that shall not come up.
pub fn serve_fails(data: &str, more: &[&str]) -> (i32, String) {
    let mut child = serve(data, more).stderr(Stdio::piped()).spawn().unwrap();
    let until = Instant::now() + PATIENCE;
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > until {
            child.kill().unwrap();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let ended = child.wait_with_output().unwrap();
    (ended.status.code().unwrap_or(-1), String::from_utf8_lossy(&ended.stderr).into_owned())
}

/// The smallest package of the host that the mesh takes.
pub fn package(version: &str) -> Vec<u8> {
    let control = format!("Package: nox-mesh-host\nVersion: {version}\nArchitecture: amd64\n");
    let mut tar = vec![0u8; 512];
    tar[..7].copy_from_slice(b"control");
    tar[124..136].copy_from_slice(format!("{:011o}\0", control.len()).as_bytes());
    tar.extend_from_slice(control.as_bytes());
    tar.resize(1024, 0);
    let mut file = b"!<arch>\n".to_vec();
    for (name, content) in [("debian-binary", b"2.0\n".as_slice()), ("control.tar", &tar), ("data.tar", b"")]
    {
        let head = format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, 0, 100_644, content.len());
        file.extend_from_slice(head.as_bytes());
        file.extend_from_slice(content);
    }
    file
}
