//! Rollouts for people: the overview, and `watch`, which prints a line for each thing that happens until
//! the rollout ends. What one report says as text stands with the report itself (`delivery::Report::text`).
//!
//! `watch` asks again and again and prints what is new. The lines are a pure function of two reports, so
//! that a missed answer or a mesh that restarts in between costs nothing but time.

use super::Output;
use super::client::Failure;
use super::context::{Context, print, read, text};
use super::table::table;
use crate::mesh::delivery::Report;
use crate::wire::limits::cut;
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

/// How often the mesh is asked.
const INTERVAL: Duration = Duration::from_millis(500);
/// How long a mesh may be away while it is watched: restarts take seconds.
const AWAY_MAX: u32 = 120;
/// The exit code of a rollout that stopped.
const STOPPED: u8 = 3;

/// Follows a rollout to its end.
pub async fn watch(context: &Context, path: &str) -> Result<ExitCode, Failure> {
    let mut before = Value::Null;
    let mut away = 0;
    loop {
        match context.get(path).await {
            Ok(answer) => {
                away = 0;
                let report: Value = read(&answer)?;
                show(context, &before, &report);
                match text(&report, "state") {
                    "complete" => return Ok(ExitCode::SUCCESS),
                    "stopped" => return Ok(ExitCode::from(STOPPED)),
                    _ => before = report,
                }
            }
            Err(Failure::Unreachable(why)) if !before.is_null() && away < AWAY_MAX => {
                if away == 0 && context.output == Output::Table {
                    print(&format!("the mesh is away: {why}\n"));
                }
                away += 1;
            }
            Err(failure) => return Err(failure),
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

fn show(context: &Context, before: &Value, report: &Value) {
    match context.output {
        Output::Json if before != report => print(&format!("{report}\n")),
        Output::Json => {}
        Output::Table => {
            print(&lines(before, report).iter().map(|line| format!("{line}\n")).collect::<String>())
        }
    }
}

/// What happened between two reports; a first report is told against nothing.
pub fn lines(before: &Value, after: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    let id = text(after, "id");
    let waves = array(after, "waves");
    for (index, wave) in waves.iter().enumerate() {
        let old = &before["waves"][index];
        let number = &wave["number"];
        let kind = if wave["canary"] == true { " (canary)" } else { "" };
        if old.is_null() {
            lines.push(format!("wave {number}{kind}: {} nodes told", array(wave, "nodes").len()));
        }
        if old["state"] != wave["state"] && !(old.is_null() && wave["state"] == "open") {
            lines.push(format!("wave {number}{kind}: {}", text(wave, "state").replace('_', " ")));
        }
    }
    let old: BTreeMap<&str, &Value> =
        array(before, "nodes").iter().map(|node| (text(node, "id"), node)).collect();
    for node in array(after, "nodes") {
        let was = old.get(text(node, "id"));
        if was.is_none_or(|was| was["outcome"] != node["outcome"] || was["detail"] != node["detail"]) {
            lines.push(node_line(node));
        }
    }
    if before["state"] != after["state"] || (before.is_null() && after["state"] != "complete") {
        lines.push(format!(
            "{id} of {}: {}: {}",
            text(after, "version"),
            text(after, "state"),
            text(after, "summary")
        ));
    }
    if matches!(text(after, "state"), "stopped") {
        let report: Option<Report> = serde_json::from_value(after.clone()).ok();
        lines.extend(
            report
                .map(|report| report.why().lines().map(str::to_owned).collect::<Vec<_>>())
                .into_iter()
                .flatten(),
        );
        lines.push(format!("Everything about it: nox-mesh rollout report {id}"));
    }
    lines.iter().map(|line| cut(line, 600)).collect()
}

fn node_line(node: &Value) -> String {
    let detail = node["detail"].as_str().map(|detail| format!(": {detail}")).unwrap_or_default();
    let runs = node["version"].as_str().map(|version| format!(" (runs {version})")).unwrap_or_default();
    format!("{}: {}{detail}{runs}", text(node, "name"), text(node, "outcome"))
}

/// `rollout status` without an id.
pub fn overview(reports: &[Value]) -> String {
    let row = |report: &Value| {
        ["id", "version", "state", "summary"].iter().map(|field| text(report, field).to_owned()).collect()
    };
    table(&["ID", "VERSION", "STATE", "SUMMARY"], &reports.iter().map(row).collect::<Vec<_>>())
}

fn array<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value[field].as_array().map_or(&[], Vec::as_slice)
}
