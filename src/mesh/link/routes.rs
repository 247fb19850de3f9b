//! The calls of the wire, as the wire page has them.

use super::caller::Caller;
use crate::mesh::answer::{collect, json};
use crate::mesh::clock::unix_seconds;
use crate::mesh::core::Mesh;
use crate::mesh::fault::Fault;
use crate::wire::claim::ClaimRequest;
use crate::wire::heartbeat::Heartbeat;
use crate::wire::join::{JoinAnswer, JoinRequest};
use crate::wire::{FORMAT, limits};
use axum::Router;
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use std::sync::Arc;
use std::time::Duration;

type Shared = State<Arc<Mesh>>;

/// The link's calls.
pub fn router(mesh: Arc<Mesh>) -> Router {
    Router::new()
        .route("/v1/join", post(join))
        .route("/v1/declaration", get(declaration))
        .route("/v1/heartbeat", post(heartbeat))
        .route("/v1/orders/claim", post(claim))
        .route("/v1/packages/{sha256}", get(super::packages::fetch))
        .fallback(async || Fault::NotFound("there is no such call".into()))
        .method_not_allowed_fallback(async || Fault::NotFound("there is no such call".into()))
        .with_state(mesh)
}

fn read<T: miniserde::Deserialize>(text: &str, what: &str) -> Result<T, Fault> {
    miniserde::json::from_str(text).map_err(|_| Fault::Malformed(format!("the body is not a {what}")))
}

fn check_format(format: u64) -> Result<(), Fault> {
    if format == FORMAT {
        return Ok(());
    }
    Err(Fault::Malformed(format!("format {format} is not known to this mesh: upgrade the mesh first")))
}

async fn join(State(mesh): Shared, body: Body) -> Result<Response, Fault> {
    let text = collect(body, limits::HEARTBEAT_BYTES_MAX).await?;
    let request: JoinRequest = read(&text, "join request")?;
    check_format(request.format)?;
    let joined = mesh.registry.join(&request, unix_seconds()).await?;
    log::info!("node {} joined as {}, overlay = none", joined.node.name, joined.node.id);
    let answer = JoinAnswer {
        format: FORMAT,
        node: joined.node.id.to_string(),
        name: joined.node.name.to_string(),
        credential: joined.credential,
        declaration_key_id: mesh.ca.declaration_key_id.clone(),
        declaration_key: mesh.ca.declaration_key.public(),
        heartbeat_ms: mesh.heartbeat_ms,
        overlay: "none".into(),
        ca: mesh.ca.certificate_pem.clone(),
    };
    Ok(json(StatusCode::OK, miniserde::json::to_string(&answer)))
}

async fn heartbeat(State(mesh): Shared, Caller(id): Caller, body: Body) -> Result<Response, Fault> {
    let text = collect(body, limits::HEARTBEAT_BYTES_MAX).await?;
    let beat: Heartbeat = read(&text, "heartbeat")?;
    check_format(beat.format)?;
    if beat.node != id.as_str() {
        return Err(Fault::NotYou("a node speaks for itself only".into()));
    }
    let answer = mesh.heartbeat(&id, &beat).await?;
    Ok(json(StatusCode::OK, miniserde::json::to_string(&answer)))
}

async fn claim(State(mesh): Shared, Caller(id): Caller, body: Body) -> Result<Response, Fault> {
    let text = collect(body, limits::ANSWER_BYTES_MAX).await?;
    let request: ClaimRequest = read(&text, "claim")?;
    check_format(request.format)?;
    let answer = mesh.claim(&id, &request).await?;
    let said = answer.reason.as_deref().unwrap_or("granted");
    log::info!("node {id}: claim of {} for {}: {said}", request.rollout, request.version);
    Ok(json(StatusCode::OK, miniserde::json::to_string(&answer)))
}

/// The long poll: answers at once if there is something newer, else when there is, else with 204.
async fn declaration(
    State(mesh): Shared,
    Caller(id): Caller,
    RawQuery(query): RawQuery,
) -> Result<Response, Fault> {
    let query = query.unwrap_or_default();
    let after = number(&query, "after")?;
    let wait = number(&query, "wait")?.min(limits::POLL_SECONDS_MAX);
    mesh.registry.seen_generation(&id, after).await?;
    let bell = mesh.registry.generations(&id);
    let mut bell = bell.ok_or_else(|| Fault::NotYou("the node is gone".into()))?;
    let mut stopping = mesh.stopping.clone();
    let newer = tokio::select! {
        rung = bell.wait_for(|generation| *generation > after) => rung.is_ok(),
        () = tokio::time::sleep(Duration::from_secs(wait)) => false,
        _ = stopping.wait_for(|stop| *stop) => false,
    };
    if !newer {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let envelope = mesh.registry.declaration(&id, &mesh.ca.declaration_key, &mesh.ca.declaration_key_id)?;
    Ok(json(StatusCode::OK, envelope.write()))
}

/// A number out of a query; missing is 0.
fn number(query: &str, name: &str) -> Result<u64, Fault> {
    let value = query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
    value.map_or(Ok(0), str::parse).map_err(|_| Fault::Malformed(format!("{name} is not a number")))
}
