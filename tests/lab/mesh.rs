//! The mesh in the lab: the real program on the bridge's address, to be killed, paused, restarted and asked.

use std::cell::RefCell;
use std::fs::{self, File};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::command::{Output, Run};
use crate::node::tail;
use crate::wait::{Done, Failure, fail, secs, wait_until};
use crate::{enclosure, network};

const PROGRAM: &str = env!("CARGO_BIN_EXE_nox-mesh");

/// One `nox-mesh serve` and its data folder.
pub struct Mesh {
    folder: PathBuf,
    port: u16,
    options: RefCell<Vec<String>>,
    process: RefCell<Option<Child>>,
}

impl Mesh {
    /// Not started yet. The first listens on port 8443, a second one on the next.
    pub fn new(number: usize) -> Result<Mesh, Failure> {
        let folder = Path::new(enclosure::ROOM).join(format!("mesh{number}"));
        fs::create_dir_all(&folder)?;
        let port = 8443 + u16::try_from(number)?;
        let (options, process) = (RefCell::default(), RefCell::default());
        Ok(Mesh { folder, port, options, process })
    }

    /// Further options of `serve`, from the next start on (`--heartbeat 2s`).
    pub fn options(&self, options: &[&str]) {
        *self.options.borrow_mut() = options.iter().map(|o| (*o).to_owned()).collect();
    }

    /// The data folder.
    pub fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// What nodes dial.
    pub fn url(&self) -> String {
        format!("https://{}:{}", network::MESH, self.port)
    }

    /// Starts it and waits until it answers both nodes and operators.
    pub fn start(&self) -> Done {
        self.spawn(&[])?;
        self.wait_answers()
    }

    /// Waits until it accepts connections of nodes and answers an operator.
    pub fn wait_answers(&self) -> Done {
        let address = SocketAddr::from((network::MESH, self.port));
        wait_until("the mesh answers nodes and operators", secs(20), || {
            self.insist_alive()?;
            Ok(TcpStream::connect_timeout(&address, secs(1)).is_ok() && self.cli(&["nodes"]).is_ok())
        })?;
        Ok(())
    }

    /// Starts it so that it stops dead at a named point and waits there to be killed. Does not wait for it.
    pub fn start_paused_at(&self, point: &str) -> Done {
        let _ = fs::remove_file(self.data().join("paused"));
        self.spawn(&["--pause-at", point])
    }

    /// Waits until it has reached the point.
    pub fn wait_paused(&self, limit: Duration) -> Result<Duration, Failure> {
        wait_until("the mesh has paused at its point", limit, || {
            self.insist_alive()?;
            Ok(self.data().join("paused").exists())
        })
    }

    /// Kills it: no warning, no farewell.
    pub fn kill_9(&self) -> Done {
        match self.process.borrow_mut().take() {
            Some(mut child) => {
                child.kill()?;
                child.wait()?;
                Ok(())
            }
            None => fail("the mesh is not running"),
        }
    }

    /// Kills it and starts it again on the same data.
    pub fn restart(&self) -> Done {
        self.kill_9()?;
        self.start()
    }

    /// Runs `nox-mesh ARGUMENTS --output json` and returns what it printed. Exit status 0 is insisted on.
    pub fn cli(&self, arguments: &[&str]) -> Result<Value, Failure> {
        let output = self.cli_output(&[arguments, &["--output", "json"]].concat())?.ok()?;
        let text = output.text();
        if text.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_str(text)
            .map_err(|e| Failure::from(e).while_doing(format_args!("{arguments:?} printed {text}")))
    }

    /// Runs `nox-mesh ARGUMENTS` beside the scenario, whatever becomes of it: the mesh may die meanwhile.
    pub fn ask_in_background(&self, arguments: &[&str]) -> std::thread::JoinHandle<()> {
        let words: Vec<String> =
            std::iter::once(&PROGRAM).chain(arguments).map(|word| (*word).to_owned()).collect();
        let socket = self.data().join("operator.sock");
        std::thread::spawn(move || {
            let _ = Run::new(words).env("NOX_MESH_SOCKET", socket).limit(secs(120)).output();
        })
    }

    /// `nox-mesh ARGUMENTS`, to be started by the caller.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args(arguments).env("NOX_MESH_SOCKET", self.data().join("operator.sock"));
        command
    }

    /// Runs `nox-mesh ARGUMENTS` whatever its exit status.
    pub fn cli_output(&self, arguments: &[&str]) -> Result<Output, Failure> {
        Run::new(std::iter::once(PROGRAM).chain(arguments.iter().copied()))
            .env("NOX_MESH_SOCKET", self.data().join("operator.sock"))
            .limit(secs(120))
            .output()
    }

    /// The last lines of its log, over all starts.
    pub fn log_tail(&self, lines: usize) -> String {
        tail(&fs::read_to_string(self.log()).unwrap_or_default(), lines)
    }

    /// What explains a failure.
    pub fn evidence(&self) -> String {
        let state = if self.process.borrow().is_some() { "started" } else { "not running" };
        format!("--- mesh on port {} ({state})\n{}\n", self.port, self.log_tail(60))
    }

    fn log(&self) -> PathBuf {
        self.folder.join("log")
    }

    fn spawn(&self, more: &[&str]) -> Done {
        if self.process.borrow().is_some() {
            return fail("the mesh is running already");
        }
        let log = File::options().create(true).append(true).open(self.log())?;
        let mut command = Command::new(PROGRAM);
        command.arg("serve").arg("--data").arg(self.data());
        command.args(["--listen", &format!("{}:{}", network::MESH, self.port)]);
        command.args(["--advertise", &self.url()]).args(self.options.borrow().iter()).args(more);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        *self.process.borrow_mut() = Some(command.spawn()?);
        Ok(())
    }

    fn insist_alive(&self) -> Done {
        let mut process = self.process.borrow_mut();
        let Some(child) = process.as_mut() else {
            return fail("the mesh is not running");
        };
        match child.try_wait()? {
            None => Ok(()),
            Some(status) => fail(format!("the mesh ended by itself: {status}")),
        }
    }
}

impl Drop for Mesh {
    fn drop(&mut self) {
        if self.process.borrow().is_some() {
            let _ = self.kill_9();
        }
    }
}
