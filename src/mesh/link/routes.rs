//! The calls of the wire, as the wire page has them.

use crate::mesh::answer::{collect, json};
use crate::mesh::clock::unix_seconds;
use crate::mesh::core::Mesh;
use crate::mesh::fault::Fault;
use crate::model::NodeId;
use crate::wire::claim::ClaimRequest;
use crate::wire::heartbeat::Heartbeat;
use crate::wire::join::{JoinAnswer, JoinRequest, read_authorization};
use crate::wire::{FORMAT, limits};
use axum::Router;
use axum::body::Body;
use axum::extract::{FromRequestParts, RawQuery, State};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
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

/// The node that calls, proved by its credential.
pub struct Caller(pub NodeId);

impl FromRequestParts<Arc<Mesh>> for Caller {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, mesh: &Arc<Mesh>) -> Result<Self, Fault> {
        let value = parts.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let caller = value.and_then(read_authorization).and_then(|(node, credential)| {
            let id: NodeId = node.parse().ok()?;
            mesh.registry.is_credential_of(&id, credential).then_some(Caller(id))
        });
        // One sentence for every reason: who guesses learns nothing.
        caller.ok_or_else(|| {
            Fault::NotYou("this mesh does not know this node and credential: join again".into())
        })
    }
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
