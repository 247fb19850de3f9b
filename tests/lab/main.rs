//! The lab: boots real nodes (systemd as PID 1, real dpkg, the real package), breaks them, cuts them off,
//! takes their power away, and looks at what is left.
//!
//! ```text
//! cargo test --features mesh --test lab                      everything
//! cargo test --features mesh --test lab -- rollback          what has `rollback` in its name
//! cargo test --features mesh --test lab -- --list            the names
//! cargo test --features mesh --test lab -- --verbose units   with each scenario's own narration
//! ```
//!
//! A scenario is a function and a line in a registry (`scenarios/mod.rs`):
//!
//! ```ignore
//! fn survives_a_power_cut(lab: &Lab, base: Base) -> Done {
//!     let node = lab.node("a", base)?;             // overlay, address, own machine-id; still off
//!     node.boot()?;                                // systemd answers
//!     lab.install_confirmed(&node, "1.0.0")?;      // the package with a stand-in for a good host
//!     let bad = lab.package("1.1.0", Kind::Exit1)?;
//!     node.install_deb(&bad)?.ok()?;
//!     node.power_cut();                            // every process gone at once
//!     node.boot()?;
//!     node.wait_until("1.0.0 is back", secs(15), || node.runs("1.0.0"))?;
//!     Ok(())
//! }
//! ```
//!
//! The rest of the interface: `lab.nodes(name, count, base)` boots several side by side; `node.reboot()`,
//! `node.cut_link()`, `node.restore_link()`, `node.sh(line)`, `node.read/write(path)` (on or off),
//! `node.journal(unit)`, `node.show(unit, names)`, `node.rollbacks()`, `node.memory_kib()`; `lab.mesh()` with
//! `start`, `kill_9`, `restart`, `start_paused_at`, `wait_paused`, `cli`, `join`, `wait_node`, `report`;
//! `lab.host_package(Host::broken("1.1.0", "panic-in-reconcile"))` for a real host, named in its line too.
//!
//! Each scenario runs in mount, network and process namespaces of its own (`enclosure.rs`), so two may run
//! at once, none can leave anything behind, and the end of this process ends them all, `kill -9` included.
//! Owns nothing outside its target folder and the cache of bases. Never used by the product.

// A report for a person is this program's output.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod base;
mod command;
mod enclosure;
mod facts;
mod fleet;
mod hosts;
mod inside;
mod mesh;
mod network;
mod node;
mod package;
mod queue;
mod room;
mod runner;
mod scenarios;
mod seed;
mod wait;

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let first = arguments.next();
    if first.as_deref() == Some("--inside") {
        return match arguments.next() {
            Some(name) => runner::inside(&name),
            None => ExitCode::from(2),
        };
    }
    match runner::Wish::read(first.into_iter().chain(arguments)) {
        Ok(wish) => runner::run(&wish),
        Err(text) => {
            eprintln!("lab: {text}\nusage: lab [--list] [--verbose] [--jobs N] [NAME...]");
            ExitCode::from(2)
        }
    }
}
