//! The declaration: the desired state of one node, whole.
//!
//! [`read`] turns the signed text into a [`Document`]. A fault of the document as a whole (no JSON, no
//! generation, another format) refuses it whole; a fault of one resource (unknown kind, missing field)
//! makes that resource a [`Spec::Unusable`], which is reported as failed and does not stop the others:
//! an older host must live with a newer mesh.

use super::json::{self, At, Wrong};
use super::limits;
use crate::model::{Attempt, Digest, Generation, NodeId, RolloutId, Version};
use std::fmt;

/// A whole declaration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// The node it is for.
    pub node: NodeId,
    /// Grows with every declaration for this node.
    pub generation: Generation,
    /// In the order of the document.
    pub resources: Vec<Resource>,
}

/// One thing that shall be so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// `kind:name`, unique in a document.
    pub id: String,
    /// What shall be so.
    pub spec: Spec,
}

/// The kinds of resources that this release knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spec {
    /// A folder with a mode and an owner.
    Directory(Directory),
    /// A file with its content, mode and owner.
    File(File),
    /// The version of the host itself; always the last to be carried out.
    Host(Host),
    /// Cannot be carried out by this release; the text says why.
    Unusable(String),
}

/// Owner and mode, as far as they are declared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Permission bits, 0 to 0o7777.
    pub mode: Option<u32>,
    /// User name or number.
    pub owner: Option<String>,
    /// Group name or number.
    pub group: Option<String>,
}

/// Kind `directory`; the name is the absolute path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    /// Absolute, without `..`, `.` or empty parts.
    pub path: String,
    /// Owner and mode.
    pub access: Access,
}

/// Kind `file`; the name is the absolute path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Absolute, without `..`, `.` or empty parts.
    pub path: String,
    /// The whole content.
    pub content: String,
    /// Owner and mode.
    pub access: Access,
}

/// Kind `host`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// The version to run; none: whatever runs now.
    pub target: Option<Target>,
    /// The package of the version that the node runs now, to be kept so that a rollback can work.
    pub retain: Option<Package>,
}

/// An order to run a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The package to install.
    pub package: Package,
    /// The rollout that orders it.
    pub rollout: RolloutId,
    /// The attempt; a newer one asks a refused node again.
    pub attempt: Attempt,
    /// Whether to upgrade although no rollback could follow.
    pub insist_unarmed: bool,
}

/// A package in the mesh's store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    /// The version in it.
    pub version: Version,
    /// Its name in the store.
    pub sha256: Digest,
    /// In bytes.
    pub size: u64,
}

/// Why a declaration is refused whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// More bytes than the limit.
    TooLarge(usize),
    /// Something is wrong at a place.
    Wrong(Wrong),
    /// A format that this release does not know.
    Format(u64),
    /// For another node.
    OtherNode(NodeId),
    /// Not newer than the accepted one: (this one, the accepted one).
    NotNewer(Generation, Generation),
    /// More resources than the limit.
    TooMany(usize),
    /// The same resource twice.
    Twice(String),
}

impl From<Wrong> for Refusal {
    fn from(wrong: Wrong) -> Self {
        Refusal::Wrong(wrong)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::TooLarge(bytes) => {
                write!(f, "{bytes} bytes are too many: at most {}", limits::DECLARATION_BYTES_MAX)
            }
            Refusal::Wrong(wrong) => wrong.fmt(f),
            Refusal::Format(format) => {
                write!(
                    f,
                    "format {format} is newer than this host understands ({}): upgrade the host",
                    super::FORMAT
                )
            }
            Refusal::OtherNode(node) => write!(f, "it is for node {node}"),
            Refusal::NotNewer(this, accepted) => {
                write!(f, "generation {this} is not above the accepted generation {accepted}")
            }
            Refusal::TooMany(count) => {
                write!(f, "{count} resources are too many: at most {}", limits::RESOURCES_MAX)
            }
            Refusal::Twice(id) => write!(f, "resource {id} is declared twice"),
        }
    }
}

impl std::error::Error for Refusal {}

/// Reads a declaration's text.
pub fn read(text: &str) -> Result<Document, Refusal> {
    if text.len() > limits::DECLARATION_BYTES_MAX {
        return Err(Refusal::TooLarge(text.len()));
    }
    let value = json::parse(text)?;
    let root = At::root(&value);
    let format = root.field("format")?.number()?;
    if format != super::FORMAT {
        return Err(Refusal::Format(format));
    }
    let node = root.field("node")?.parsed("a node id")?;
    let generation = root.field("generation")?.number()?;
    if generation == 0 {
        return Err(root.field("generation")?.wrong("a generation from 1 on").into());
    }
    let items = root.field("resources")?.items()?;
    if items.len() > limits::RESOURCES_MAX {
        return Err(Refusal::TooMany(items.len()));
    }
    let mut resources: Vec<Resource> = Vec::with_capacity(items.len());
    let mut seen = std::collections::BTreeSet::new();
    for item in &items {
        let resource = resource(item)?;
        if !seen.insert(resource.id.clone()) {
            return Err(Refusal::Twice(resource.id));
        }
        resources.push(resource);
    }
    Ok(Document { node, generation, resources })
}

/// Whether a node takes this document: its own, and newer than what it has accepted.
pub fn accept(document: &Document, node: &NodeId, accepted: Generation) -> Result<(), Refusal> {
    if document.node != *node {
        return Err(Refusal::OtherNode(document.node.clone()));
    }
    if document.generation <= accepted {
        return Err(Refusal::NotNewer(document.generation, accepted));
    }
    Ok(())
}

/// A resource without kind or name cannot even be reported, so it refuses the document.
fn resource(at: &At<'_>) -> Result<Resource, Wrong> {
    let kind = at.field("kind")?.text()?;
    let name = at.field("name")?.text()?;
    let spec = match kind {
        "directory" => path(at).and_then(|path| Ok(Spec::Directory(Directory { path, access: access(at)? }))),
        "file" => file(at),
        "host" => host(at).map(Spec::Host),
        unknown => {
            Ok(Spec::Unusable(format!("this host does not know the kind '{}'", limits::cut(unknown, 64))))
        }
    };
    let spec = spec.unwrap_or_else(|wrong| Spec::Unusable(wrong.to_string()));
    Ok(Resource { id: limits::cut(&format!("{kind}:{name}"), limits::ERROR_BYTES_MAX), spec })
}

fn file(at: &At<'_>) -> Result<Spec, Wrong> {
    let content = at.field("content")?.text()?.to_owned();
    Ok(Spec::File(File { path: path(at)?, content, access: access(at)? }))
}

fn path(at: &At<'_>) -> Result<String, Wrong> {
    let name = at.field("name")?;
    let path = name.text()?;
    let relative = path.strip_prefix('/').unwrap_or_default();
    let clean = !relative.is_empty()
        && path.len() <= 4096
        && !path.contains('\0')
        && relative.split('/').all(|part| !matches!(part, "" | "." | ".."));
    if clean {
        Ok(path.to_owned())
    } else {
        Err(name.wrong("an absolute path without '.', '..' or a slash too many"))
    }
}

fn access(at: &At<'_>) -> Result<Access, Wrong> {
    let mode = match at.optional("mode")? {
        None => None,
        Some(mode) => {
            let text = mode.text()?;
            let octal =
                text.len() <= 5 && !text.is_empty() && text.bytes().all(|b| (b'0'..=b'7').contains(&b));
            let bits = u32::from_str_radix(text, 8).ok().filter(|bits| octal && *bits <= 0o7777);
            Some(bits.ok_or_else(|| mode.wrong("an octal mode such as \"0644\""))?)
        }
    };
    let text = |name: &str| -> Result<Option<String>, Wrong> {
        match at.optional(name)? {
            None => Ok(None),
            Some(value) => match value.text()? {
                "" => Err(value.wrong("a name or number")),
                text => Ok(Some(text.to_owned())),
            },
        }
    };
    Ok(Access { mode, owner: text("owner")?, group: text("group")? })
}

fn host(at: &At<'_>) -> Result<Host, Wrong> {
    let target = match at.optional("target")? {
        None => None,
        Some(target) => Some(Target {
            package: package(&target.field("package")?)?,
            rollout: target.field("rollout")?.parsed("a rollout id")?,
            attempt: target.field("attempt")?.number()?,
            insist_unarmed: match target.optional("insist_unarmed")? {
                None => false,
                Some(insist) => insist.flag()?,
            },
        }),
    };
    let retain = at.optional("retain")?.map(|retain| package(&retain)).transpose()?;
    Ok(Host { target, retain })
}

fn package(at: &At<'_>) -> Result<Package, Wrong> {
    let size = at.field("size")?;
    let bytes = size.number()?;
    if bytes == 0 || bytes > limits::PACKAGE_BYTES_MAX {
        return Err(size.wrong(format!("a size from 1 to {} bytes", limits::PACKAGE_BYTES_MAX)));
    }
    Ok(Package {
        version: at.field("version")?.parsed("a version such as 1.4.0")?,
        sha256: at.field("sha256")?.parsed("a SHA-256 of 64 characters")?,
        size: bytes,
    })
}

#[cfg(test)]
#[path = "declaration_tests.rs"]
mod tests;
