//! The wires: a bridge in the scenario's own network namespace, a veth and a namespace for each node.
//!
//! A node's address is set from outside, in a namespace that outlives the node's processes: it is there from
//! the first instant of a boot and after a power cut.

use std::net::Ipv4Addr;

use crate::command::Run;
use crate::wait::Done;

const BRIDGE: &str = "lab0";

/// The address that nodes dial.
pub const MESH: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);

/// A node's address.
pub fn address(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, 0, 10 + number)
}

/// The network namespace of a node.
pub fn namespace(number: u8) -> String {
    format!("n{number}")
}

fn ip(words: &str) -> Done {
    Run::new(std::iter::once("ip").chain(words.split(' '))).ok().map(|_| ())
}

/// The bridge, once.
pub fn lay() -> Done {
    ip("link set lo up")?;
    ip(&format!("link add {BRIDGE} type bridge"))?;
    ip(&format!("addr add {MESH}/24 dev {BRIDGE}"))?;
    ip(&format!("link set {BRIDGE} up"))
}

/// One node's namespace and wire.
pub fn plug_in(number: u8) -> Done {
    let (space, address) = (namespace(number), address(number));
    ip(&format!("netns add {space}"))?;
    ip(&format!("link add v{number} type veth peer name host0 netns {space}"))?;
    ip(&format!("link set v{number} master {BRIDGE} up"))?;
    ip(&format!("-n {space} addr add {address}/24 dev host0"))?;
    ip(&format!("-n {space} link set lo up"))?;
    ip(&format!("-n {space} link set host0 up"))?;
    ip(&format!("-n {space} route add default via {MESH}"))
}

/// Pulls the wire, or plugs it in again.
pub fn set_link(number: u8, up: bool) -> Done {
    ip(&format!("link set v{number} {}", if up { "up" } else { "down" }))
}
