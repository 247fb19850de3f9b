//! A fault as an HTTP answer, and JSON bodies: shared by the link and the operator API.

use super::fault::Fault;
use crate::wire::join::ErrorAnswer;
use axum::body::Body;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use http_body_util::{BodyExt, Limited};
use std::time::Duration;

/// How long a body may take to arrive: a heartbeat over the slowest line that is still a line.
pub const BODY_TIME: Duration = Duration::from_secs(20);

impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let error = match &self {
            // What broke inside is for the log; a node could do nothing with it.
            Fault::Broken(error) => {
                log::error!("a call failed: {error}");
                format!("the mesh failed at this: {error}")
            }
            other => other.to_string(),
        };
        json(status, miniserde::json::to_string(&ErrorAnswer { error }))
    }
}

/// An answer with a JSON text.
pub fn json(status: StatusCode, text: String) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], text).into_response()
}

/// A whole body of at most `bytes_max` bytes, within [`BODY_TIME`].
pub async fn collect(body: Body, bytes_max: usize) -> Result<String, Fault> {
    let limited = Limited::new(body, bytes_max);
    let collected = tokio::time::timeout(BODY_TIME, limited.collect())
        .await
        .map_err(|_| Fault::TooSlow("the body took too long".into()))?;
    let bytes = collected
        .map_err(|error| match error.downcast_ref::<http_body_util::LengthLimitError>() {
            Some(_) => Fault::TooLarge(format!("the body has more than {bytes_max} bytes")),
            None => Fault::Malformed("the body broke off".into()),
        })?
        .to_bytes();
    String::from_utf8(bytes.into()).map_err(|_| Fault::Malformed("the body is no text".into()))
}
