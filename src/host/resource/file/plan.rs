//! What has to be done so that a file is as declared. Pure.

use crate::host::resource::access::{Change, Seen, Wanted, changes};

/// The mode of a new file whose mode is not declared.
const MODE: u32 = 0o644;

/// What stands at the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Observed {
    /// Nothing.
    Missing,
    /// A regular file.
    File {
        /// Whether the content is the declared one.
        same: bool,
        /// Owner and mode.
        seen: Seen,
    },
    /// Something that is no regular file.
    Other,
}

/// One thing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Note that it is ours.
    Own,
    /// Replace the whole file; it gets this mode and, as far as given, this owner.
    Write(u32, Option<u32>, Option<u32>),
    /// Change owner or mode.
    Change(Change),
}

/// The steps, or why it cannot be done.
pub fn plan(wanted: Wanted, observed: Observed) -> Result<Vec<Step>, &'static str> {
    match observed {
        Observed::Missing => {
            Ok(vec![Step::Own, Step::Write(wanted.mode.unwrap_or(MODE), wanted.uid, wanted.gid)])
        }
        Observed::File { same: true, seen } => {
            Ok(changes(wanted, seen).into_iter().map(Step::Change).collect())
        }
        // What is not declared stays as it is, although the file is a new one.
        Observed::File { same: false, seen } => Ok(vec![Step::Write(
            wanted.mode.unwrap_or(seen.mode),
            Some(wanted.uid.unwrap_or(seen.uid)),
            Some(wanted.gid.unwrap_or(seen.gid)),
        )]),
        Observed::Other => Err("something that is no regular file is in the way: remove it by hand"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The machine, as far as a plan changes it.
    fn run(steps: &[Step], before: Observed) -> (Observed, bool) {
        let mut owns = false;
        let mut now = before;
        for step in steps {
            now = match (*step, now) {
                (Step::Own, now) => {
                    owns = true;
                    now
                }
                (Step::Write(mode, uid, gid), _) => Observed::File {
                    same: true,
                    seen: Seen { mode, uid: uid.unwrap_or(0), gid: gid.unwrap_or(0) },
                },
                (Step::Change(Change::Mode(mode)), Observed::File { same, seen }) => {
                    Observed::File { same, seen: Seen { mode, ..seen } }
                }
                (Step::Change(Change::Own(uid, gid)), Observed::File { same, seen }) => Observed::File {
                    same,
                    seen: Seen {
                        uid: uid.unwrap_or(seen.uid),
                        gid: gid.unwrap_or(seen.gid),
                        mode: seen.mode & 0o1777,
                    },
                },
                (step, now) => panic!("{step:?} on {now:?}"),
            };
        }
        (now, owns)
    }

    #[test]
    fn one_round_converges_and_the_next_has_nothing_to_do() {
        let some = |value| [None, Some(value)];
        for mode in [None, Some(0o600), Some(0o644), Some(0o4755)] {
            for uid in some(5) {
                for gid in some(6) {
                    let wanted = Wanted { mode, uid, gid };
                    for before in [
                        Observed::Missing,
                        Observed::File { same: false, seen: Seen { mode: 0o640, uid: 1, gid: 2 } },
                        Observed::File { same: true, seen: Seen { mode: 0o4640, uid: 1, gid: 2 } },
                    ] {
                        let (after, owns) = run(&plan(wanted, before).unwrap(), before);
                        assert_eq!(plan(wanted, after), Ok(vec![]), "{wanted:?} {before:?}");
                        assert_eq!(owns, before == Observed::Missing, "only what we made is ours");
                    }
                }
            }
        }
        assert!(plan(Wanted::default(), Observed::Other).is_err());
    }
}
