//! Owner and mode of files and folders: looking up names, reading and setting them.
//!
//! Names are looked up in `/etc/passwd` and `/etc/group` only: a static program has no other sources.

use crate::host::state::Root;
use crate::wire::declaration::Access;
use std::fmt;
use std::fs::{Metadata, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;

/// Largest user or group file that is read, in bytes.
const TABLE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Owner and mode as numbers, as far as they are declared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Permission bits.
    pub mode: Option<u32>,
    /// User.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
}

/// Owner and mode as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Permission bits.
    pub mode: u32,
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = |id: &Option<u32>| id.map_or("as it is".into(), |id| id.to_string());
        match self {
            Change::Own(uid, gid) => write!(f, "owner {}, group {}", number(uid), number(gid)),
            Change::Mode(mode) => write!(f, "mode {mode:04o}"),
        }
    }
}

impl Seen {
    /// Of a file that was looked at.
    pub fn of(metadata: &Metadata) -> Self {
        Seen { mode: metadata.mode() & 0o7777, uid: metadata.uid(), gid: metadata.gid() }
    }
}

/// What has to be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Give it to this user and group.
    Own(Option<u32>, Option<u32>),
    /// Set the permission bits.
    Mode(u32),
}

/// The changes from one to the other, in the order in which they must be made: a change of owner clears
/// the set-user bits, so the mode comes after it.
pub fn changes(wanted: Wanted, seen: Seen) -> Vec<Change> {
    let mut changes = Vec::new();
    let uid = wanted.uid.filter(|uid| *uid != seen.uid);
    let gid = wanted.gid.filter(|gid| *gid != seen.gid);
    let owns = uid.is_some() || gid.is_some();
    if owns {
        changes.push(Change::Own(uid, gid));
    }
    let mode = wanted.mode.unwrap_or(seen.mode);
    if mode != seen.mode || (owns && mode & 0o6000 != 0) {
        changes.push(Change::Mode(mode));
    }
    changes
}

/// Turns names into numbers.
pub fn resolve(root: &Root, access: &Access) -> Result<Wanted, String> {
    let number = |name: &Option<String>, table: &str, what: &str| -> Result<Option<u32>, String> {
        let Some(name) = name else { return Ok(None) };
        if let Ok(number) = name.parse() {
            return Ok(Some(number));
        }
        let path = root.path(table);
        let bytes = crate::sys::durable::read(&path, TABLE_BYTES_MAX).map_err(|e| format!("{table}: {e}"))?;
        let text = String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned();
        look_up(&text, name).map(Some).ok_or_else(|| format!("there is no {what} '{name}' on this machine"))
    };
    Ok(Wanted {
        mode: access.mode,
        uid: number(&access.owner, "etc/passwd", "user")?,
        gid: number(&access.group, "etc/group", "group")?,
    })
}

/// The third field of the line that begins with this name (passwd(5), group(5)).
fn look_up(table: &str, name: &str) -> Option<u32> {
    table.lines().find_map(|line| {
        let mut fields = line.split(':');
        if fields.next() == Some(name) { fields.nth(1)?.parse().ok() } else { None }
    })
}

/// Makes a change.
pub fn change(path: &Path, change: Change) -> Result<(), String> {
    match change {
        Change::Own(uid, gid) => chown(path, uid, gid).map_err(|error| format!("owner: {error}")),
        Change::Mode(mode) => std::fs::set_permissions(path, Permissions::from_mode(mode))
            .map_err(|error| format!("mode: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_the_least_and_in_order() {
        let seen = Seen { mode: 0o644, uid: 0, gid: 0 };
        assert_eq!(changes(Wanted::default(), seen), []);
        assert_eq!(changes(Wanted { mode: Some(0o644), uid: Some(0), gid: Some(0) }, seen), []);
        assert_eq!(
            changes(Wanted { mode: Some(0o4755), uid: Some(5), gid: None }, seen),
            [Change::Own(Some(5), None), Change::Mode(0o4755)]
        );
        let suid = Seen { mode: 0o4755, ..seen };
        assert_eq!(
            changes(Wanted { mode: None, uid: None, gid: Some(3) }, suid),
            [Change::Own(None, Some(3)), Change::Mode(0o4755)],
            "the new owner must not lose the bit"
        );
    }

    #[test]
    fn names_are_found_by_the_whole_field() {
        let table = "root:x:0:0::/root:/bin/sh\nwww-data:x:33:33::/:/x\nbroken:x\n";
        assert_eq!(look_up(table, "www-data"), Some(33));
        for missing in ["www", "broken", "x", ""] {
            assert_eq!(look_up(table, missing), None, "{missing}");
        }
    }
}
