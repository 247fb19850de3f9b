//! Who calls: every call of the link but join names its node and proves it.

use crate::mesh::core::Mesh;
use crate::mesh::fault::Fault;
use crate::model::NodeId;
use crate::wire::join::read_authorization;
use axum::extract::FromRequestParts;
use axum::http::header;
use axum::http::request::Parts;
use std::sync::Arc;

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
