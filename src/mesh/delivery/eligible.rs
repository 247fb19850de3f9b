//! Who can be told, and why the others cannot.

use super::clock::Look;
use super::observe::window_ms;
use super::state::{Outcome, Rollout, StratumKey};
use super::view::NodeView;
use crate::mesh::presence::{Millis, Refusal};
use crate::model::NodeId;
use std::fmt;

/// Why a node is not told. Displays as a sentence for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotEligible {
    /// It was taken out of the fleet.
    Gone,
    /// It runs the version already.
    AlreadyThere,
    /// It has never been heard.
    NeverHeard,
    /// It refuses the version.
    Refuses {
        /// The node's reason.
        reason: String,
        /// Whether a rollout that retries would ask it again.
        could_retry: bool,
    },
    /// The store has no package for this architecture and format.
    NoPackage(String),
    /// It said goodbye; the reason.
    Offline(String),
    /// It has not been heard recently.
    NotHeard,
    /// No rollback could follow; the node's reason.
    Unarmed(String),
    /// A newer attempt of another rollout stands in its declaration.
    OtherOrder(String),
}

impl fmt::Display for NotEligible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotEligible::Gone => f.write_str("no longer in the fleet"),
            NotEligible::AlreadyThere => f.write_str("already there"),
            NotEligible::NeverHeard => f.write_str("never heard"),
            NotEligible::Refuses { reason, could_retry: false } => write!(f, "refuses it: {reason}"),
            NotEligible::Refuses { reason, could_retry: true } => {
                write!(f, "refuses it: {reason}; to ask again, start with --retry-refused")
            }
            NotEligible::NoPackage(what) => write!(f, "no package for {what}"),
            NotEligible::Offline(reason) => write!(f, "offline: said goodbye ({reason})"),
            NotEligible::NotHeard => f.write_str("offline: not heard recently"),
            NotEligible::Unarmed(reason) => write!(f, "no rollback could follow: {reason}"),
            NotEligible::OtherOrder(rollout) => write!(f, "has a newer order of rollout {rollout}"),
        }
    }
}

impl NotEligible {
    /// Whether waiting alone may change it: the node may come back.
    pub fn is_absence(&self) -> bool {
        match self {
            NotEligible::NeverHeard | NotEligible::Offline(_) | NotEligible::NotHeard => true,
            NotEligible::Gone
            | NotEligible::AlreadyThere
            | NotEligible::Refuses { .. }
            | NotEligible::NoPackage(_)
            | NotEligible::Unarmed(_)
            | NotEligible::OtherOrder(_) => false,
        }
    }
}

/// How much longer a node that is not heard must stay so until it counts as away, and not as one that is
/// about to be heard again; none: it said goodbye, or is away already. A short absence, a restart of the
/// mesh and the end of an outage leave nodes unheard for a moment.
pub fn may_be_back_in(rollout: &Rollout, look: &Look<'_>, node: &NodeView) -> Option<Millis> {
    if node.presence.goodbye.is_some() {
        return None;
    }
    let since_hold =
        if rollout.held_until == 0 { Millis::MAX } else { look.at.saturating_sub(rollout.held_until) };
    let unheard = look.in_vain(node).min(since_hold);
    window_ms(rollout, look).checked_sub(unheard).filter(|left| *left > 0)
}

/// Whether a node can be told now. Absence comes after what stays true when it is back, so that the list
/// names the reason that lasts.
pub fn eligible<'a>(rollout: &Rollout, look: &Look<'a>, id: &NodeId) -> Result<&'a NodeView, NotEligible> {
    let node = look.view.nodes.get(id).ok_or(NotEligible::Gone)?;
    let presence = &node.presence;
    if presence.heard_at.is_none() {
        return Err(NotEligible::NeverHeard);
    }
    if presence.version.as_ref() == Some(&rollout.version) {
        // What a node said before it fell silent proves nothing: it may run another version by now, and
        // say nothing because of that.
        let is_known = look.is_there(node) || presence.goodbye.is_some();
        return Err(if is_known { NotEligible::AlreadyThere } else { NotEligible::NotHeard });
    }
    let ours = |text: &str| text.parse().ok().as_ref() == Some(&rollout.version);
    // A refusal stands against every attempt up to its own: only a newer one asks again.
    let stands = |r: &&Refusal| !rollout.plan.retry_refused || r.attempt >= rollout.attempt;
    if let Some(refused) = presence.refused.iter().filter(|r| ours(&r.version)).find(stands) {
        let could_retry = !rollout.plan.retry_refused;
        return Err(NotEligible::Refuses { reason: refused.reason.clone(), could_retry });
    }
    if !node.has_package {
        let kind = StratumKey::new(&node.facts, "");
        return Err(NotEligible::NoPackage(format!("{} {}", kind.architecture, kind.package_format)));
    }
    if let Some(order) = &node.order
        && order.attempt > rollout.attempt
    {
        return Err(NotEligible::OtherOrder(order.rollout.to_string()));
    }
    if let Some(reason) = &presence.goodbye {
        return Err(NotEligible::Offline(reason.clone()));
    }
    if !look.is_there(node) {
        return Err(NotEligible::NotHeard);
    }
    if !presence.armed && !rollout.plan.insist_unarmed {
        let reason = presence.unarmed_because.clone().unwrap_or_else(|| "the node does not say why".into());
        return Err(NotEligible::Unarmed(reason));
    }
    Ok(node)
}

/// The refusals, with the nodes' names, when every member that does not run the version refuses it or has
/// no package: waiting changes nothing then.
pub fn all_refuse(rollout: &Rollout, look: &Look<'_>) -> Option<Vec<(String, NotEligible)>> {
    let mut refusals = Vec::new();
    for (id, member) in rollout.members.iter().filter(|(_, member)| member.outcome == Outcome::Pending) {
        match eligible(rollout, look, id) {
            Err(reason @ NotEligible::Refuses { .. }) => refusals.push((member.name.clone(), reason)),
            Err(NotEligible::AlreadyThere | NotEligible::Gone | NotEligible::NoPackage(_)) => {}
            Ok(_) | Err(_) => return None,
        }
    }
    (!refusals.is_empty()).then_some(refusals)
}
