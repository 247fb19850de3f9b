//! The verbs: each is one call and how its answer is printed.

use super::client::{self, Failure};
use super::context::{Context, print, read, text};
use super::table::table;
use super::values::ago;
use super::{DeclareArgs, LabelArgs, Output, PackageVerb, RolloutVerb, StartArgs, TokenVerb, Verb, watch};
use crate::mesh::delivery::{Plan, Report};
use crate::mesh::operator::nodes::NodeLine;
use crate::mesh::operator::routes::{
    Changed, DeclareAnswer, DeclareRequest, LabelRequest, PackageAnswer, StartRequest, StopRequest,
    TokenAnswer, TokenRequest,
};
use crate::mesh::registry::packages::Listed;
use crate::model::RolloutId;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Runs a verb.
pub async fn run(context: &Context, verb: Verb) -> Result<ExitCode, Failure> {
    match verb {
        Verb::Serve(_) => Err(Failure::Local("serve is no call".into())),
        Verb::Token(TokenVerb::Create { uses, expires }) => token(context, uses, expires).await,
        Verb::Nodes => {
            context.show(&context.get("/v1/nodes").await?, |lines: &Vec<NodeLine>| node_table(lines))?;
            Ok(ExitCode::SUCCESS)
        }
        Verb::Label(arguments) => label(context, arguments).await,
        Verb::Package(PackageVerb::Add { files }) => add(context, &files).await,
        Verb::Package(PackageVerb::List) => {
            context
                .show(&context.get("/v1/packages").await?, |listed: &Vec<Listed>| package_table(listed))?;
            Ok(ExitCode::SUCCESS)
        }
        Verb::Declare(arguments) => declare(context, &arguments).await,
        Verb::Rollout(verb) => rollout(context, verb).await,
    }
}

async fn token(context: &Context, uses: u64, expires: Duration) -> Result<ExitCode, Failure> {
    let request = TokenRequest { uses, expires_s: expires.as_secs() };
    let answer = context.post("/v1/tokens", client::json(&request)?).await?;
    context.show(&answer, |token: &TokenAnswer| {
        let machines = if uses == 1 { "one machine".into() } else { format!("{uses} machines") };
        let life = ago(expires.as_secs());
        format!(
            "Lets {machines} join within {life}; run there:\n\n  {}\n\noverlay = {}\n",
            token.join_command, token.overlay
        )
    })?;
    Ok(ExitCode::SUCCESS)
}

async fn label(context: &Context, arguments: LabelArgs) -> Result<ExitCode, Failure> {
    let pair = |text: &String| match text.split_once('=') {
        Some((key, value)) if !key.is_empty() && key != "name" && key != "id" => {
            Ok((key.to_owned(), value.to_owned()))
        }
        _ => Err(Failure::Refused(
            400,
            format!("'{text}' is no label: expected KEY=VALUE, KEY not name or id"),
        )),
    };
    let labels = arguments.labels.iter().map(pair).collect::<Result<Vec<_>, _>>()?;
    let request = LabelRequest { select: arguments.select, labels };
    let answer = context.post("/v1/labels", client::json(&request)?).await?;
    context.show(&answer, |done: &Changed| format!("{} nodes changed\n", done.changed))?;
    Ok(ExitCode::SUCCESS)
}

async fn add(context: &Context, files: &[PathBuf]) -> Result<ExitCode, Failure> {
    let mut answers = Vec::new();
    for file in files {
        let answer = context.post("/v1/packages", client::file(file)?).await;
        let answer = answer.map_err(|failure| match failure {
            Failure::Refused(status, text) => Failure::Refused(status, format!("{}: {text}", file.display())),
            other => other,
        })?;
        let added: PackageAnswer = read(&answer)?;
        if context.output == Output::Table {
            let word = if added.was_there { "was there already" } else { "added" };
            let listed = &added.listed;
            print(&format!("{} {} {}: {word}\n", listed.package.version, listed.architecture, listed.format));
        }
        answers.push(added);
    }
    if context.output == Output::Json {
        let text = serde_json::to_string(&answers).map_err(|error| Failure::Local(error.to_string()))?;
        print(&format!("{text}\n"));
    }
    Ok(ExitCode::SUCCESS)
}

async fn declare(context: &Context, arguments: &DeclareArgs) -> Result<ExitCode, Failure> {
    let resources = resources_of(&arguments.file)?;
    let count = resources.len();
    let request = DeclareRequest { resources, select: arguments.select.clone() };
    let answer = context.post("/v1/declarations", client::json(&request)?).await?;
    context.show(&answer, |done: &DeclareAnswer| {
        let later = if done.also_later { ", and for nodes that join later" } else { "" };
        format!(
            "{count} resources declared for {} nodes{later}; new to {} of them\n",
            done.nodes, done.changed
        )
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The `[[resource]]` tables of a file; a mistake is told with its line.
pub(super) fn resources_of(path: &Path) -> Result<Vec<Value>, Failure> {
    let wrong = |what: String| Failure::Refused(409, format!("{}: {what}", path.display()));
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::Local(format!("{}: {error}", path.display())))?;
    let parsed: Value = toml::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    let fields = parsed.as_object().map(|object| object.keys().cloned().collect()).unwrap_or_default();
    let unknown: Vec<String> = Vec::into_iter(fields).filter(|key| key != "resource").collect();
    if !unknown.is_empty() {
        return Err(wrong(format!("'{}' is not known: expected [[resource]] tables", unknown.join("', '"))));
    }
    match parsed.get("resource") {
        None => Ok(Vec::new()),
        Some(Value::Array(resources)) => Ok(resources.clone()),
        Some(_) => Err(wrong("[resource] stands once: expected [[resource]] tables".into())),
    }
}

async fn rollout(context: &Context, verb: RolloutVerb) -> Result<ExitCode, Failure> {
    match verb {
        RolloutVerb::Start(arguments) => {
            let answer = context.post("/v1/rollouts", client::json(&start_request(arguments))?).await?;
            context.show(&answer, |report: &Value| {
                let id = text(report, "id");
                let not = report["not_included"].as_array().map_or(0, Vec::len);
                let but = if not == 0 {
                    String::new()
                } else {
                    format!(" ({not} nodes not included: 'rollout report {id}')")
                };
                format!(
                    "{id} of {}: {}{but}\nFollow it: nox-mesh rollout watch {id}\n",
                    text(report, "version"),
                    text(report, "summary")
                )
            })?;
        }
        RolloutVerb::Status { id: None } => {
            context
                .show(&context.get("/v1/rollouts").await?, |reports: &Vec<Value>| watch::overview(reports))?;
        }
        RolloutVerb::Status { id: Some(id) } => {
            context.show(&context.get(&path(&id, "")?).await?, Report::status)?;
        }
        RolloutVerb::Report { id } => {
            let id = known_or_newest(context, id).await?;
            context.show(&context.get(&path(&id, "")?).await?, Report::text)?;
        }
        RolloutVerb::Watch { id } => {
            let id = known_or_newest(context, id).await?;
            return watch::watch(context, &path(&id, "")?).await;
        }
        RolloutVerb::Stop { id, why } => {
            let answer = context.post(&path(&id, "/stop")?, client::json(&StopRequest { why })?).await?;
            context.show(&answer, Report::status)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The id that was given, else that of the newest rollout.
async fn known_or_newest(context: &Context, id: Option<String>) -> Result<String, Failure> {
    if let Some(id) = id {
        return Ok(id);
    }
    let all: Vec<Value> = read(&context.get("/v1/rollouts").await?)?;
    let newest = all.last().map(|report| text(report, "id").to_owned());
    newest.ok_or_else(|| Failure::Refused(404, "there is no rollout yet: nox-mesh rollout start".into()))
}

/// An id is one part of a path: what is not an id is refused as it was typed, never bent into another.
fn path(id: &str, rest: &str) -> Result<String, Failure> {
    let id = id.parse::<RolloutId>().map_err(|error| Failure::Refused(400, error.to_string()))?;
    Ok(format!("/v1/rollouts/{id}{rest}"))
}

pub(super) fn start_request(arguments: StartArgs) -> StartRequest {
    let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    StartRequest {
        version: arguments.to,
        select: arguments.select,
        plan: Plan {
            canary: arguments.canary,
            waves: arguments.waves.0,
            max_in_change: arguments.max_in_change,
            window_ms: millis(arguments.window),
            confirm_deadline_ms: millis(arguments.confirm_deadline),
            soak_ms: millis(arguments.soak),
            insist_unarmed: arguments.insist_unarmed,
            retry_refused: arguments.retry_refused,
        },
    }
}

fn node_table(lines: &[NodeLine]) -> String {
    if lines.is_empty() {
        return "No node has joined yet: 'nox-mesh token create' prints the command that joins one.\n".into();
    }
    let rows: Vec<Vec<String>> = lines.iter().map(node_row).collect();
    let mut out = table(
        &["NAME", "PRESENCE", "HEARD", "VERSION", "ROLLBACK", "GENERATION", "FAILED", "MACHINE"],
        &rows,
    );
    for line in lines {
        let failures = line.failures.iter().map(|f| format!("{}: {}", f.name, f.error));
        let refused = line.refused.iter().map(|r| format!("refuses {}: {}", r.version, r.reason));
        for said in failures.chain(refused).chain(line.remarks.iter().cloned()) {
            out.push_str(&format!("{}: {}\n", line.name, crate::wire::limits::cut(&said, 400)));
        }
    }
    out
}

fn node_row(line: &NodeLine) -> Vec<String> {
    let version = match (&line.version, line.confirmed) {
        (None, _) => "-".into(),
        (Some(version), true) => version.clone(),
        (Some(version), false) => format!("{version} (not confirmed)"),
    };
    let rollback = match (line.armed, &line.armed_reason) {
        (true, _) => format!("to {}", line.known_good.as_deref().unwrap_or("-")),
        (false, Some(why)) => format!("no: {why}"),
        (false, None) => "no".into(),
    };
    let generation = match line.generation == line.declared_generation {
        true => line.generation.to_string(),
        false => format!("{} of {}", line.generation, line.declared_generation),
    };
    vec![
        line.name.clone(),
        line.presence.clone(),
        match line.last_heard_s {
            Some(seconds) => format!("{} ago", ago(seconds)),
            None if line.heard_before_restart => "before restart".into(),
            None => "-".into(),
        },
        version,
        rollback,
        generation,
        line.failed.to_string(),
        format!("{}/{}/{}", line.architecture, line.package_format, line.distribution),
    ]
}

fn package_table(listed: &[Listed]) -> String {
    let row = |l: &Listed| {
        let p = &l.package;
        vec![
            p.version.to_string(),
            l.architecture.clone(),
            l.format.clone(),
            p.size.to_string(),
            p.sha256.to_string(),
        ]
    };
    let rows: Vec<Vec<String>> = listed.iter().map(row).collect();
    table(&["VERSION", "ARCHITECTURE", "FORMAT", "BYTES", "SHA256"], &rows)
}
