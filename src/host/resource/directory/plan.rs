//! What has to be done so that a folder is as declared. Pure.

use crate::host::resource::access::{Change, Seen, Wanted, changes};

/// The mode of a new folder whose mode is not declared.
const MODE: u32 = 0o755;

/// What stands at the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Observed {
    /// Nothing.
    Missing,
    /// A folder.
    Folder(Seen),
    /// Something else.
    Other,
}

/// One thing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Note that it is ours.
    Own,
    /// Make it.
    Make,
    /// Change owner or mode.
    Change(Change),
}

/// The steps, or why it cannot be done.
pub fn plan(wanted: Wanted, observed: Observed) -> Result<Vec<Step>, &'static str> {
    match observed {
        Observed::Missing => {
            let mut steps = vec![Step::Own, Step::Make];
            if wanted.uid.is_some() || wanted.gid.is_some() {
                steps.push(Step::Change(Change::Own(wanted.uid, wanted.gid)));
            }
            // Always: what a new folder gets depends on the process's mask.
            steps.push(Step::Change(Change::Mode(wanted.mode.unwrap_or(MODE))));
            Ok(steps)
        }
        Observed::Folder(seen) => Ok(changes(wanted, seen).into_iter().map(Step::Change).collect()),
        Observed::Other => Err("something that is no folder is in the way: remove it by hand"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_as_a_table() {
        let seen = Seen { mode: 0o755, uid: 0, gid: 0 };
        let none = Wanted::default();
        let new = [Step::Own, Step::Make, Step::Change(Change::Mode(0o755))];
        assert_eq!(plan(none, Observed::Missing).unwrap(), new);
        assert_eq!(plan(none, Observed::Folder(seen)).unwrap(), []);
        let wanted = Wanted { mode: Some(0o750), uid: Some(5), gid: None };
        let changes = [Step::Change(Change::Own(Some(5), None)), Step::Change(Change::Mode(0o750))];
        assert_eq!(plan(wanted, Observed::Folder(seen)).unwrap(), changes);
        assert_eq!(plan(wanted, Observed::Missing).unwrap()[2..], changes);
        assert!(plan(none, Observed::Other).is_err());
    }
}
