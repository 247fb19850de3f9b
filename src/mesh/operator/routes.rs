//! The operator's calls.

use crate::mesh::answer::{collect, json};
use crate::mesh::clock::unix_seconds;
use crate::mesh::core::Mesh;
use crate::mesh::delivery::{Plan, Report};
use crate::mesh::fault::Fault;
use crate::mesh::registry::node::check_spec;
use crate::mesh::registry::packages::Listed;
use crate::mesh::registry::select::Select;
use crate::model::RolloutId;
use crate::wire::limits;
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{get, post};
use http_body_util::BodyExt;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

type Shared = State<Arc<Mesh>>;

/// Largest request of an operator: a declaration as JSON, escaped.
const REQUEST_BYTES_MAX: usize = limits::ENVELOPE_BYTES_MAX;

/// The operator's calls.
pub fn router(mesh: Arc<Mesh>) -> Router {
    Router::new()
        .route("/v1/tokens", post(make_token))
        .route("/v1/nodes", get(nodes))
        .route("/v1/labels", post(label))
        .route("/v1/packages", get(packages).post(add_package))
        .route("/v1/declarations", post(declare))
        .route("/v1/rollouts", get(rollouts).post(start))
        .route("/v1/rollouts/{id}", get(report))
        .route("/v1/rollouts/{id}/stop", post(stop))
        .fallback(async || Fault::NotFound("there is no such call: is nox-mesh of one release?".into()))
        .with_state(mesh)
}

/// Asks for a token.
#[derive(Debug, Serialize, Deserialize)]
pub struct TokenRequest {
    /// How many machines it lets in.
    pub uses: u64,
    /// For how long, in seconds.
    pub expires_s: u64,
}

/// A token and how to use it.
#[derive(Debug, Serialize, Deserialize)]
pub struct TokenAnswer {
    /// The token.
    pub token: String,
    /// Fingerprint of the mesh's CA.
    pub ca: String,
    /// Where nodes find the mesh.
    pub mesh: String,
    /// To be run on the machine.
    pub join_command: String,
    /// `none`: this mesh has no overlay.
    pub overlay: String,
}

/// Declares resources.
#[derive(Debug, Serialize, Deserialize)]
pub struct DeclareRequest {
    /// As the wire has them.
    pub resources: Vec<serde_json::Value>,
    /// `key=value` terms; none: every node, also those that join later.
    pub select: Vec<String>,
}

/// What a declaration did.
#[derive(Debug, Serialize, Deserialize)]
pub struct DeclareAnswer {
    /// Nodes that were meant.
    pub nodes: usize,
    /// Those of them for which it says something new.
    pub changed: usize,
    /// Whether nodes that join later get it, too.
    pub also_later: bool,
}

/// Labels nodes.
#[derive(Debug, Serialize, Deserialize)]
pub struct LabelRequest {
    /// Which nodes.
    pub select: Vec<String>,
    /// What to set; an empty value takes the label off.
    pub labels: Vec<(String, String)>,
}

/// How many nodes a call changed.
#[derive(Debug, Serialize, Deserialize)]
pub struct Changed {
    /// That many.
    pub changed: usize,
}

/// A package that was added.
#[derive(Debug, Serialize, Deserialize)]
pub struct PackageAnswer {
    /// What it is.
    #[serde(flatten)]
    pub listed: Listed,
    /// The same file was there before.
    pub was_there: bool,
}

/// Starts a rollout.
#[derive(Debug, Serialize, Deserialize)]
pub struct StartRequest {
    /// The version.
    pub version: String,
    /// `key=value` terms; none: every node.
    pub select: Vec<String>,
    /// How careful.
    pub plan: Plan,
}

/// Stops a rollout.
#[derive(Debug, Serialize, Deserialize)]
pub struct StopRequest {
    /// For the report.
    pub why: String,
}

fn read<T: for<'de> Deserialize<'de>>(text: &str) -> Result<T, Fault> {
    serde_json::from_str(text).map_err(|error| Fault::Malformed(format!("the request: {error}")))
}

fn answer<T: Serialize>(value: &T) -> Result<Response, Fault> {
    Ok(json(StatusCode::OK, serde_json::to_string(value)?))
}

async fn make_token(State(mesh): Shared, body: Body) -> Result<Response, Fault> {
    let request: TokenRequest = read(&collect(body, REQUEST_BYTES_MAX).await?)?;
    let token = mesh.registry.make_token(request.uses, request.expires_s, unix_seconds()).await?;
    let (ca, address) = (mesh.ca.fingerprint.clone(), mesh.advertise.clone());
    let join_command = format!("nox-mesh-host join --mesh {address} --token {token} --ca {ca}");
    answer(&TokenAnswer { token, ca, mesh: address, join_command, overlay: "none".into() })
}

async fn nodes(State(mesh): Shared) -> Result<Response, Fault> {
    answer(&mesh.node_lines())
}

async fn label(State(mesh): Shared, body: Body) -> Result<Response, Fault> {
    let request: LabelRequest = read(&collect(body, REQUEST_BYTES_MAX).await?)?;
    let nodes = mesh.registry.select(&Select::parse(&request.select)?)?;
    let mut changed = 0;
    for node in nodes {
        changed += usize::from(mesh.registry.label(&node.id, &request.labels).await?);
    }
    answer(&Changed { changed })
}

async fn packages(State(mesh): Shared) -> Result<Response, Fault> {
    answer(&mesh.registry.packages().list())
}

async fn add_package(State(mesh): Shared, mut body: Body) -> Result<Response, Fault> {
    let mut draft = mesh.registry.store().begin_large()?;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Fault::Malformed("the upload broke off".into()))?;
        if let Ok(piece) = frame.into_data() {
            if draft.length() + piece.len() as u64 > limits::PACKAGE_BYTES_MAX {
                let text = format!("a package has at most {} bytes", limits::PACKAGE_BYTES_MAX);
                return Err(Fault::TooLarge(text));
            }
            draft.write(&piece)?;
        }
    }
    let added = mesh.registry.add_package(draft).await?;
    let package = &added.listed.package;
    log::info!("package {} for {}: {}", package.version, added.listed.architecture, package.sha256);
    answer(&PackageAnswer { listed: added.listed, was_there: added.was_there })
}

async fn declare(State(mesh): Shared, body: Body) -> Result<Response, Fault> {
    let request: DeclareRequest = read(&collect(body, REQUEST_BYTES_MAX).await?)?;
    let spec = check_spec(&request.resources).map_err(Fault::Refused)?;
    let select = Select::parse(&request.select)?;
    let also_later = select.is_all();
    let ids: Vec<_> = match mesh.registry.select(&select) {
        Ok(nodes) => nodes.iter().map(|node| node.id.clone()).collect(),
        // For everybody before anybody has joined: it is what they get when they do.
        Err(Fault::NothingMatched(_)) if also_later => Vec::new(),
        Err(fault) => return Err(fault),
    };
    let changed = mesh.registry.declare(&ids, spec, also_later).await?;
    log::info!("{} resources declared for {} nodes, new to {changed}", request.resources.len(), ids.len());
    answer(&DeclareAnswer { nodes: ids.len(), changed, also_later })
}

async fn start(State(mesh): Shared, body: Body) -> Result<Response, Fault> {
    let request: StartRequest = read(&collect(body, REQUEST_BYTES_MAX).await?)?;
    let version = request.version.parse().map_err(|error| Fault::Malformed(format!("{error}")))?;
    let select = Select::parse(&request.select)?;
    answer(&mesh.start_rollout(request.plan, version, &select).await?)
}

async fn rollouts(State(mesh): Shared) -> Result<Response, Fault> {
    let mut reports: Vec<Report> = Vec::new();
    for id in mesh.rollout_ids() {
        reports.push(mesh.report(&id).await?);
    }
    answer(&reports)
}

fn id(text: &str) -> Result<RolloutId, Fault> {
    text.parse().map_err(|error| Fault::Malformed(format!("{error}")))
}

async fn report(State(mesh): Shared, Path(name): Path<String>) -> Result<Response, Fault> {
    answer(&mesh.report(&id(&name)?).await?)
}

async fn stop(State(mesh): Shared, Path(name): Path<String>, body: Body) -> Result<Response, Fault> {
    let request: StopRequest = read(&collect(body, REQUEST_BYTES_MAX).await?)?;
    answer(&mesh.stop_rollout(&id(&name)?, &limits::cut(&request.why, 200)).await?)
}
