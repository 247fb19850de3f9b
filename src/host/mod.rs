//! The node: one process, two threads, no listener.
//!
//! `main` wires it up. The first thread is the loop of [`reconcile`], and everything that it does waits
//! in one place ([`crate::sys::wait`]). The second sends heartbeats. A machine that has not joined
//! stays up and looks for its identity; nothing that is wrong with it ends the process.

pub mod cli;
pub mod declared;
pub mod fault;
pub mod heartbeat;
pub mod history;
pub mod join;
pub mod life;
pub mod link;
pub mod machine;
#[cfg(test)]
#[path = "../../tests/host/peer.rs"]
#[allow(dead_code)]
pub(crate) mod peer;
pub mod reconcile;
pub mod resource;
pub mod settings;
pub mod state;
pub mod statement;
pub mod status;
pub mod upgrade;

use crate::sys::journal;
use crate::sys::notify::Notifier;
use crate::sys::wait::{Signal, Waiter};
use cli::Command;
use reconcile::{End, Node, load_settings};
use settings::Settings;
use state::{Identity, Root, State};
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// Between two looks for the identity.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Asked for before READY: loading a large declaration from a slow disk.
const LOADING: Duration = Duration::from_secs(20);
/// Between two tries to load, when the system itself refuses (no memory, no descriptors).
const LOAD_AGAIN: Duration = Duration::from_secs(10);

/// The program.
pub fn main() -> ExitCode {
    let command = match cli::parse(std::env::args_os()) {
        Ok(command) => command,
        Err(error) => {
            let _ = writeln!(io::stderr(), "nox-mesh-host: {error}\n\n{}", cli::HELP);
            return ExitCode::from(2);
        }
    };
    let state = State::new(Root::from_environment());
    match command {
        Command::Help => print(cli::HELP),
        Command::Version => print(&version()),
        Command::Status => answer(status::status(&state)),
        Command::Join(request) => {
            journal::start(log::LevelFilter::Warn);
            answer(join::join(&state, &request).map(|said| said + "\n"))
        }
        Command::Run => run(state),
    }
}

fn version() -> String {
    let fault = fault::NAME.map(|name| format!("fault: {name}\n")).unwrap_or_default();
    format!("nox-mesh-host {}\n{fault}", machine::VERSION)
}

fn print(text: &str) -> ExitCode {
    // A reader that went away is no error.
    let _ = io::stdout().write_all(text.as_bytes());
    ExitCode::SUCCESS
}

fn answer(said: Result<String, String>) -> ExitCode {
    match said {
        Ok(text) => print(&text),
        Err(error) => {
            let _ = writeln!(io::stderr(), "nox-mesh-host: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(state: State) -> ExitCode {
    journal::start(Settings::default().log_level);
    log::info!("nox-mesh-host {} starts", machine::VERSION);
    fault::at_start();
    let notifier = Arc::new(Notifier::from_environment());
    let waiter = match Waiter::with_signals(notifier.clone()) {
        Ok(waiter) => Arc::new(waiter),
        Err(error) => {
            log::error!("the system gives no signalfd or eventfd: {error}");
            return ExitCode::FAILURE;
        }
    };
    notifier.extend(LOADING);
    let folder = state.root().state("packages");
    if let Err(error) = std::fs::create_dir_all(&folder) {
        log::error!("{}: {error}", folder.display());
    }
    let settings = load_settings(&state, Settings::default());
    journal::set_level(settings.0.log_level);
    let Some(identity) = joined(&state, &waiter, &notifier) else { return ExitCode::SUCCESS };
    let mut node = loop {
        let again = State::new(state.root().clone());
        match Node::load(again, identity.clone(), waiter.clone(), notifier.clone(), settings.clone()) {
            Ok(node) => break node,
            Err(error) => {
                log::error!("the node cannot be loaded: {error}");
                notifier.ready();
                if stops_within(&waiter, LOAD_AGAIN) {
                    return ExitCode::SUCCESS;
                }
            }
        }
    };
    notifier.ready();
    match node.run() {
        End::Asked => log::info!("stopped, as asked"),
        End::NewVersion => log::info!("a new version is installed: the service manager starts it"),
    }
    ExitCode::SUCCESS
}

/// The identity, as soon as there is one; `None` when the end is asked for before.
fn joined(state: &State, waiter: &Waiter, notifier: &Notifier) -> Option<Identity> {
    let mut told = false;
    loop {
        if let Some(identity) = state.identity() {
            return Some(identity);
        }
        if !told {
            told = true;
            notifier.ready();
            match state.unreadable().first() {
                // Not a reason to join anew: the disk may give it back.
                Some((name, why)) => notifier.status(&format!("{name} cannot be read now: {why}")),
                None => {
                    log::warn!(
                        "this machine has not joined a mesh; `nox-mesh token create` prints the command"
                    );
                    notifier.status("not joined; run the join command that `nox-mesh token create` prints");
                }
            }
        }
        if stops_within(waiter, LOOK_EVERY) {
            notifier.stopping();
            return None;
        }
    }
}

fn stops_within(waiter: &Waiter, time: Duration) -> bool {
    // An error here is as good as a wait that is over: the next look comes anyway.
    let _ = waiter.pause(time);
    waiter.take_bell();
    waiter.take_signal() == Some(Signal::Stop)
}
