//! What stays in `packages/`, and whether a rollback could follow.
//!
//! Kept: known-good, the running version, the candidate, and one more before them; nothing older.
//! Armed: known-good is the running version and its package lies there verified.

use super::{Tools, fetch};
use crate::host::life::refuse::Refused;
use crate::host::machine::{self, Installed};
use crate::host::state::Root;
use crate::model::{Digest, Version};
use crate::sys::durable;
use crate::wire::declaration::Host;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::SystemTime;

/// Files that were hashed once and have not changed since, by name: size, inode, time of change.
#[derive(Debug, Default)]
pub struct Verified(BTreeMap<String, (u64, u64, i64, i64)>);

impl Verified {
    /// Whether the package of this name is what its sum says.
    pub fn is_whole(&mut self, root: &Root, name: &str) -> bool {
        let path = root.state(&format!("packages/{name}"));
        let Ok(metadata) = path.metadata() else {
            self.0.remove(name);
            return false;
        };
        let mark = (metadata.len(), metadata.ino(), metadata.mtime(), metadata.mtime_nsec());
        let Some(sum) = sum_of(&path, name) else { return false };
        if self.0.get(name) == Some(&mark) {
            return true;
        }
        let whole = fetch::hash_of(&path).ok().flatten() == Some(*sum.bytes());
        if whole {
            self.0.insert(name.to_owned(), mark);
        }
        whole
    }

    /// Forgets what was hashed: a disk may lose bits without any mark of it.
    pub fn doubt(&mut self) {
        self.0.clear();
    }

    /// Why no rollback could follow; `None`: armed.
    pub fn unarmed(
        &mut self,
        root: &Root,
        running: &Version,
        installed: &Installed,
        known_good: Option<&Version>,
    ) -> Option<String> {
        let Some(known_good) = known_good else { return Some("no version is confirmed here yet".into()) };
        if known_good != running {
            return Some(format!("{running} is not confirmed yet, known-good is {known_good}"));
        }
        let name = machine::package_name(known_good, installed);
        if !root.state(&format!("packages/{name}")).exists() {
            return Some(format!("{name} is not in packages/"));
        }
        (!self.is_whole(root, &name)).then(|| format!("{name} in packages/ is damaged or has no sum"))
    }
}

fn sum_of(path: &Path, name: &str) -> Option<Digest> {
    let bytes = durable::read(&path.with_file_name(format!("{name}.sha256")), 1024).ok()??;
    let text = std::str::from_utf8(&bytes).ok()?;
    let (digest, named) = text.trim_end().split_once("  ")?;
    if named == name { digest.parse().ok() } else { None }
}

/// Removes what is not to be kept. Without a readable known-good nothing is removed: it might be that.
pub fn tidy(tools: Tools<'_>, known_good: Option<&Version>, host: &Host, refused: &Refused) {
    let Some(known_good) = known_good else { return };
    let mut kept = vec![known_good, tools.running];
    kept.extend(host.retain.as_ref().map(|package| &package.version));
    kept.extend(host.target.as_ref().map(|target| &target.package.version));
    let Ok(folder) = std::fs::read_dir(tools.root().state("packages")) else { return };
    let mut surplus: Vec<(SystemTime, Version, String)> = Vec::new();
    for entry in folder.flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        let Some(version) = version_of(&name) else { continue };
        if kept.contains(&&version) {
            continue;
        }
        let changed = entry.metadata().and_then(|metadata| metadata.modified());
        surplus.push((changed.unwrap_or(SystemTime::UNIX_EPOCH), version, name));
    }
    surplus.sort();
    // The one before: the newest file of a version that did not fail here.
    let before = surplus.iter().rev().map(|(_, version, _)| version).find(|version| !refused.holds(version));
    let before = before.cloned();
    for (_, version, name) in surplus {
        if Some(version) != before {
            log::info!("packages/{name} is not needed any more: removed");
            if let Err(error) = durable::remove(&tools.root().state(&format!("packages/{name}"))) {
                log::warn!("packages/{name} cannot be removed: {error}");
            }
        }
    }
}

/// The version of a file that is ours by its name: a package, its sum, a part of it.
fn version_of(name: &str) -> Option<Version> {
    let rest = name.strip_prefix("nox-mesh-host_")?;
    let (version, rest) = rest.split_once('_')?;
    let suffix = rest.split_once('.').map(|(_, suffix)| suffix)?;
    if !matches!(suffix, "deb" | "deb.sha256" | "deb.partial") {
        return None;
    }
    version.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_files_have_a_version() {
        for suffix in ["", ".sha256", ".partial"] {
            let name = format!("nox-mesh-host_1.4.0~rc1_amd64.deb{suffix}");
            assert_eq!(version_of(&name).unwrap().to_string(), "1.4.0~rc1");
        }
        for other in ["nox-mesh-host_1.4.0_amd64.deb.bak", "other_1.4.0_amd64.deb", "nox-mesh-host_x_a.deb"] {
            assert_eq!(version_of(other), None, "{other}");
        }
    }
}
