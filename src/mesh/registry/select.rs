//! Selectors: `name=web01`, `id=n-…`, or a label `rack=7`. Several of one key: any of them; different
//! keys: all of them; none: every node.

use super::Registry;
use super::node::NodeRecord;
use crate::mesh::fault::Fault;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A parsed selector.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Select(BTreeMap<String, Vec<String>>);

impl Select {
    /// Parses `key=value` texts.
    pub fn parse(terms: &[String]) -> Result<Self, Fault> {
        let mut select = Select::default();
        for term in terms {
            match term.split_once('=') {
                Some((key, value)) if !key.is_empty() && !value.is_empty() => {
                    select.0.entry(key.to_owned()).or_default().push(value.to_owned());
                }
                _ => {
                    let text = format!("'{term}' selects nothing: expected name=…, id=… or label=value");
                    return Err(Fault::Malformed(text));
                }
            }
        }
        Ok(select)
    }

    /// Whether every node is meant.
    pub fn is_all(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this node is meant.
    pub fn matches(&self, node: &NodeRecord) -> bool {
        self.0.iter().all(|(key, values)| {
            let has = match key.as_str() {
                "name" => Some(node.name.as_str()),
                "id" => Some(node.id.as_str()),
                label => node.labels.get(label).map(String::as_str),
            };
            has.is_some_and(|has| values.iter().any(|value| value == has))
        })
    }
}

impl Registry {
    /// The nodes that are meant; an error if there are none: a mistyped name must not pass as done.
    pub fn select(&self, select: &Select) -> Result<Vec<Arc<NodeRecord>>, Fault> {
        let nodes: Vec<_> = self.nodes().into_iter().filter(|node| select.matches(node)).collect();
        if nodes.is_empty() {
            let text = if select.is_all() {
                "no node has joined yet: 'nox-mesh token create' prints the command that joins one"
            } else {
                "no node matches: 'nox-mesh nodes' lists names and ids"
            };
            return Err(Fault::NothingMatched(text.into()));
        }
        Ok(nodes)
    }
}
