//! `join`: how the machine becomes a node. Talks to the mesh once and stores the identity.

use super::cli::Join;
use super::link::Link;
use super::machine;
use super::state::{Identity, State};
use crate::sys::crypt;
use crate::sys::tls::Pin;
use crate::sys::wait::Waiter;
use crate::wire::join::JoinRequest;
use std::sync::Arc;
use std::time::Duration;

/// Joins; the text is for the person who typed the command.
pub fn join(state: &State, request: &Join) -> Result<String, String> {
    if let Some(identity) = state.identity() {
        return Err(format!(
            "this machine is node {} ({}) of {} already; to join anew, stop the host and remove \
             the files identity and identity.copy",
            identity.name, identity.node, identity.mesh
        ));
    }
    let folder = state.root().state("");
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let waiter = Arc::new(Waiter::plain().map_err(|error| error.to_string())?);
    let link = Link::new(&request.mesh, request.ca.clone(), waiter).map_err(|error| error.to_string())?;
    let installed = machine::installed(state.root());
    let answer = link
        .join(&JoinRequest {
            format: crate::wire::FORMAT,
            token: request.token.clone(),
            name: request.name.clone(),
            hostname: machine::host_name(),
            overlay_key: None,
            facts: machine::facts(state.root(), &installed),
        })
        .map_err(|trouble| trouble.to_string())?;
    let understood = |what: &str| format!("the mesh's answer is not understood: {what}");
    let Some(Pin::Certificate(ca)) = Pin::from_pem(&answer.ca) else {
        return Err(understood("no CA certificate"));
    };
    // The certificate that is pinned from now on must be the one that the command named.
    if request.ca != Pin::Fingerprint(crypt::sha256(&ca)) {
        return Err("the CA in the mesh's answer is not the one that the join command names".into());
    }
    let identity = Identity {
        node: answer.node.parse().map_err(|_| understood("the node id"))?,
        name: answer.name.parse().map_err(|_| understood("the node's name"))?,
        mesh: request.mesh.clone(),
        credential: answer.credential,
        declaration_key_id: answer.declaration_key_id,
        declaration_key: answer.declaration_key,
        ca,
        heartbeat: Duration::from_millis(answer.heartbeat_ms),
    };
    state.store_identity(&identity).map_err(|error| format!("the identity cannot be stored: {error}"))?;
    let overlay = match answer.overlay.as_str() {
        "none" => "\nThis mesh has no overlay: nodes do not reach each other through it (overlay = none).",
        _ => "",
    };
    Ok(format!("joined {} as {} ({}){overlay}", identity.mesh, identity.name, identity.node))
}
