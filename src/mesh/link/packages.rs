//! Packages to nodes: by hash, from wherever a broken-off download goes on.

use super::caller::Caller;
use crate::mesh::body::FileBody;
use crate::mesh::core::Mesh;
use crate::mesh::fault::Fault;
use crate::model::Digest;
use crate::wire::range::{Served, Wanted, wanted};
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Response, StatusCode, header};
use std::io::{Seek, SeekFrom};
use std::sync::Arc;

/// `GET /v1/packages/<sha256>`.
pub async fn fetch(
    State(mesh): State<Arc<Mesh>>,
    Caller(_): Caller,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Response<Body>, Fault> {
    let missing = || Fault::NotFound("there is no such package".into());
    let digest: Digest = name.parse().map_err(|_| missing())?;
    if !mesh.registry.packages().has(&digest) {
        return Err(missing());
    }
    let (mut file, length) = mesh.registry.store().open_large(&digest).await?.ok_or_else(missing)?;
    let range = headers.get(header::RANGE).and_then(|value| value.to_str().ok());
    let (status, first, last) = match wanted(range, length) {
        Wanted::Whole => (StatusCode::OK, 0, length.saturating_sub(1)),
        Wanted::From(first) => (StatusCode::PARTIAL_CONTENT, first, length - 1),
        Wanted::Between(first, last) => (StatusCode::PARTIAL_CONTENT, first, last),
        Wanted::Unsatisfiable => {
            return Response::builder()
                .status(StatusCode::RANGE_NOT_SATISFIABLE)
                .header(header::CONTENT_RANGE, format!("bytes */{length}"))
                .body(Body::empty())
                .map_err(unlikely);
        }
    };
    file.seek(SeekFrom::Start(first))?;
    let count = if length == 0 { 0 } else { last - first + 1 };
    let mut answer = Response::builder()
        .status(status)
        .header(header::CONTENT_TYPE, "application/octet-stream")
        .header(header::ACCEPT_RANGES, "bytes")
        .header(header::CONTENT_LENGTH, count);
    if status == StatusCode::PARTIAL_CONTENT {
        answer = answer.header(header::CONTENT_RANGE, Served { first, last, length }.to_string());
    }
    answer.body(Body::new(FileBody::new(file, count))).map_err(unlikely)
}

fn unlikely(error: axum::http::Error) -> Fault {
    Fault::Broken(std::io::Error::other(error))
}
