//! `status`: what the node is and runs, from its files alone; works while the host is down.

use super::machine;
use super::state::State;
use crate::wire::limits;
use std::fmt::Write as _;

/// The text.
pub fn status(state: &State) -> Result<String, String> {
    let folder = state.root().state("");
    std::fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut text = String::new();
    let mut line = |key: &str, value: &str| {
        // invariant: writing to a String cannot fail.
        let _ = writeln!(text, "{key:<12} {value}");
    };
    let installed = machine::installed(state.root());
    let shown = |version: Option<crate::model::Version>| version.map_or("none".into(), |v| v.to_string());
    match state.identity() {
        Some(identity) => {
            line("node", &format!("{} ({})", identity.name, identity.node));
            line("mesh", &identity.mesh);
        }
        None => line("node", "not joined; `nox-mesh token create` prints the join command"),
    }
    line("program", machine::VERSION);
    line(
        "package",
        &format!("{} ({}, {})", shown(installed.version), installed.format, installed.architecture),
    );
    line("known-good", &shown(state.known_good()));
    if let Some(mark) = state.mark() {
        line("applying", &format!("declaration {}, {} unfinished", mark.generation, mark.unfinished));
    }
    if let Some(last) = state.attempted() {
        line("last order", &format!("{} (attempt {} of {})", last.version, last.attempt, last.rollout));
    }
    let refused = state.refused().map(|stored| stored.refused).unwrap_or_default();
    for (version, entry) in refused.iter() {
        line(
            "refused",
            &format!("{version} up to attempt {}: {}", entry.attempt, limits::cut(&entry.reason, 120)),
        );
    }
    if state.exists("pin") {
        line("pin", "a person holds the version");
    }
    for record in state.rollbacks() {
        let report = record.report;
        line("rollback", &format!("{}: {} -> {}, {}", report.id, report.from, report.to, report.outcome));
    }
    Ok(text)
}
