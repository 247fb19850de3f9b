//! `identity` and `identity.copy`: who the node is and whom it believes. Mode 0600, kept twice.

use super::State;
use crate::model::keyvalue::Pairs;
use crate::model::{NodeId, NodeName};
use crate::sys::crypt;
use std::io;
use std::time::Duration;

const NAMES: [&str; 2] = ["identity.copy", "identity"];

/// What a joined node knows of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The node's id.
    pub node: NodeId,
    /// The node's name.
    pub name: NodeName,
    /// `https://HOST:PORT` of the mesh.
    pub mesh: String,
    /// The node's one credential.
    pub credential: String,
    /// Id of the key that signs declarations.
    pub declaration_key_id: String,
    /// The key, base64.
    pub declaration_key: String,
    /// The mesh's CA certificate, DER.
    pub ca: Vec<u8>,
    /// The heartbeat interval that the mesh gave at join.
    pub heartbeat: Duration,
}

impl State {
    /// The identity, if the machine has joined; one damaged copy does not matter.
    pub fn identity(&self) -> Option<Identity> {
        NAMES.iter().rev().find_map(|name| {
            let pairs = self.pairs(name)?;
            let identity = read(&pairs);
            if identity.is_none() {
                self.set_aside(name, "a field is missing or is not what it should be");
            }
            identity
        })
    }

    /// Stores both copies.
    pub fn store_identity(&self, identity: &Identity) -> io::Result<()> {
        NAMES.iter().try_for_each(|name| self.store_pairs(name, &write(identity)))
    }
}

fn read(pairs: &Pairs) -> Option<Identity> {
    let plain = |key: &str| pairs.get(key).filter(|value| !value.is_empty()).map(str::to_owned);
    Some(Identity {
        node: pairs.parsed("node")?,
        name: pairs.parsed("name")?,
        mesh: plain("mesh").filter(|mesh| mesh.starts_with("https://"))?,
        credential: plain("credential")?,
        declaration_key_id: plain("declaration_key_id")?,
        declaration_key: plain("declaration_key")?,
        ca: crypt::unbase64(pairs.get("ca")?).filter(|der| !der.is_empty())?,
        heartbeat: Duration::from_millis(pairs.parsed::<u64>("heartbeat_ms")?.max(1)),
    })
}

fn write(identity: &Identity) -> Pairs {
    let mut pairs = Pairs::new();
    pairs
        .push("format", 1)
        .push("node", &identity.node)
        .push("name", &identity.name)
        .push("mesh", &identity.mesh)
        .push("credential", &identity.credential)
        .push("declaration_key_id", &identity.declaration_key_id)
        .push("declaration_key", &identity.declaration_key)
        .push("ca", crypt::base64(&identity.ca))
        .push("heartbeat_ms", identity.heartbeat.as_millis());
    pairs
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::tests::{scratch, write};
    use super::*;

    pub(crate) fn identity() -> Identity {
        Identity {
            node: "n-1".parse().unwrap(),
            name: "web01".parse().unwrap(),
            mesh: "https://127.0.0.1:1".into(),
            credential: "c".into(),
            declaration_key_id: "k".into(),
            declaration_key: "a2V5".into(),
            ca: vec![1, 2, 3],
            heartbeat: Duration::from_secs(30),
        }
    }

    #[test]
    fn one_damaged_copy_does_not_unjoin_the_node() {
        let state = scratch("identity");
        assert_eq!(state.identity(), None);
        state.store_identity(&identity()).unwrap();
        assert_eq!(state.identity(), Some(identity()));
        write(&state, "identity", b"format=1\nnode=n-1\n");
        assert_eq!(state.identity(), Some(identity()));
        write(&state, "identity.copy", b"\0");
        assert_eq!(state.identity(), None);
        assert_eq!(state.damaged().len(), 2);
    }
}
