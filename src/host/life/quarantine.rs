//! A declaration that kills the host: set aside before the third crash, so that no useless rollback of
//! the version follows (C92, C93).
//!
//! Before a reconcile the mark `applying` is written: generation, version, and how many reconciles of
//! both began without an end. Two limits keep a broken *version* from hiding behind this: a mark of
//! another version is evidence only; and a generation that known-good has got through is never set
//! aside by an unconfirmed version.

use crate::model::{Generation, Version};

/// Reconciles that may begin without an end before the generation is set aside. The third crash would
/// trip the service manager's limit.
pub const UNFINISHED_MAX: u32 = 2;

/// The write-ahead mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// What was being applied.
    pub generation: Generation,
    /// By which version.
    pub version: Version,
    /// How many reconciles of these two began without an end.
    pub unfinished: u32,
}

/// What to do with a generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Apply it; this is the mark to write first.
    Apply(Mark),
    /// Leave it out and take the last good one.
    SetAside,
}

/// Judges `generation` by the mark that the last process left, if it left one.
///
/// `good` is the generation that a confirmed version got through last; `confirmed` says whether the
/// running version is known-good.
pub fn judge(
    mark: Option<&Mark>,
    generation: Generation,
    running: &Version,
    confirmed: bool,
    good: Option<Generation>,
) -> Verdict {
    let own = mark.filter(|mark| mark.generation == generation && mark.version == *running);
    let unfinished = own.map_or(0, |mark| mark.unfinished);
    let version_is_to_blame = !confirmed && good == Some(generation);
    if unfinished >= UNFINISHED_MAX && !version_is_to_blame {
        return Verdict::SetAside;
    }
    Verdict::Apply(Mark { generation, version: running.clone(), unfinished: unfinished.saturating_add(1) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v(text: &str) -> Version {
        text.parse().unwrap()
    }

    fn mark(generation: Generation, version: &str, unfinished: u32) -> Mark {
        Mark { generation, version: v(version), unfinished }
    }

    #[test]
    fn c93_the_third_start_on_its_own_mark_sets_the_generation_aside() {
        let running = v("1.4.0");
        let mut left = None;
        for unfinished in 1..=UNFINISHED_MAX {
            let verdict = judge(left.as_ref(), 7, &running, true, Some(6));
            assert_eq!(verdict, Verdict::Apply(mark(7, "1.4.0", unfinished)));
            left = Some(mark(7, "1.4.0", unfinished));
        }
        assert_eq!(judge(left.as_ref(), 7, &running, true, Some(6)), Verdict::SetAside);
        // C97: the fix is not held back by the poisoned one.
        assert_eq!(judge(left.as_ref(), 8, &running, true, Some(6)), Verdict::Apply(mark(8, "1.4.0", 1)));
    }

    #[test]
    fn a_mark_of_another_version_is_evidence_only() {
        let left = mark(7, "1.5.0", 9);
        let verdict = judge(Some(&left), 7, &v("1.4.0"), true, Some(6));
        assert_eq!(verdict, Verdict::Apply(mark(7, "1.4.0", 1)));
    }

    #[test]
    fn what_known_good_got_through_is_not_set_aside_by_an_unconfirmed_version() {
        let left = mark(7, "1.5.0", 9);
        assert_eq!(judge(Some(&left), 7, &v("1.5.0"), false, Some(7)), Verdict::Apply(mark(7, "1.5.0", 10)));
        assert_eq!(judge(Some(&left), 7, &v("1.5.0"), true, Some(7)), Verdict::SetAside);
        assert_eq!(judge(Some(&left), 7, &v("1.5.0"), false, Some(6)), Verdict::SetAside);
    }
}
