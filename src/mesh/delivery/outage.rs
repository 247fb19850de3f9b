//! Whether silence may be judged now, or is an outage of the mesh or of a network.
//!
//! Silence of told nodes speaks against the release only while others are heard. Who the others are:
//!
//! | witnesses | when |
//! |---|---|
//! | the control group: nodes that were not touched, on the old version | where there is one |
//! | the nodes outside the open wave, the confirmed ones included, heard as long as the quiet ones | else |
//! | nobody | a fleet of one: its silence is judged |
//!
//! When most witnesses are quiet together with some of the wave, or when of a fleet of two or more nobody at
//! all is heard, nothing is judged.

use super::clock::Look;
use super::state::{Rollout, Wave};
use super::view::NodeView;
use crate::mesh::presence::Millis;
use crate::model::NodeId;

/// Whether nothing may be judged. With the whole wave heard there is no silence to judge, and nothing to
/// hold for.
pub fn is_deaf(rollout: &Rollout, look: &Look<'_>) -> bool {
    if !look.view.listening.hears || hears_nobody(look) {
        return true;
    }
    let Some(wave) = rollout.wave().filter(|wave| quiet_since(wave, look).is_some()) else { return false };
    let witnesses = witnesses(wave, look);
    let silent = witnesses.iter().filter(|(_, node)| is_quiet(node, look)).count();
    2 * silent > witnesses.len()
}

/// Those by whom it is judged whether the mesh can hear the nodes of this wave.
pub fn witnesses<'a>(wave: &Wave, look: &Look<'a>) -> Vec<(&'a NodeId, &'a NodeView)> {
    let expected = |node: &NodeView| node.presence.goodbye.is_none() && node.presence.heard_at.is_some();
    let of = |id: &NodeId| look.view.nodes.get_key_value(id).filter(|(_, node)| expected(node));
    let control: Vec<_> = wave.control.iter().filter_map(of).collect();
    if !control.is_empty() {
        return control;
    }
    // Who was lost long before the wave went quiet says nothing of it.
    let together = quiet_since(wave, look).unwrap_or(0).saturating_sub(look.view.recent_ms);
    let outside = look.view.nodes.iter().filter(|(id, node)| !wave.nodes.contains(*id) && expected(node));
    outside.filter(|(_, node)| node.presence.heard_at >= Some(together)).collect()
}

/// When the first of the wave's quiet nodes was heard last, in mesh time; none: all of them are heard.
fn quiet_since(wave: &Wave, look: &Look<'_>) -> Option<Millis> {
    let nodes = wave.nodes.iter().filter_map(|id| look.view.nodes.get(id));
    nodes.filter(|node| is_quiet(node, look)).filter_map(|node| node.presence.heard_at).min()
}

fn is_quiet(node: &NodeView, look: &Look<'_>) -> bool {
    look.in_vain(node) > look.view.recent_ms
}

/// Whether nobody of two or more nodes that were ever heard is heard now.
pub fn hears_nobody(look: &Look<'_>) -> bool {
    let mut known = look.view.nodes.values().filter(|node| node.presence.heard_at.is_some()).peekable();
    let mut count = 0;
    known.all(|node| {
        count += 1;
        is_quiet(node, look)
    }) && count >= 2
}
