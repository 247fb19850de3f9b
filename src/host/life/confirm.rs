//! When a version counts as confirmed: it started, and it got once through the whole newest accepted
//! declaration. Not health, not the link (C23, C26, C27, C33).

/// What is known after a reconcile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// A declaration is accepted and stored. A node that holds none confirms nothing.
    pub holds_declaration: bool,
    /// This process attempted every resource of the accepted declaration, whatever each came to.
    pub full_reconcile: bool,
    /// The accepted declaration is set aside and an older one is in force.
    pub set_aside: bool,
    /// An install is under way: the version on the disk may be about to change.
    pub install_runs: bool,
    /// The version that was compiled in is a proper one: only such a version can be come back to.
    pub proper_version: bool,
}

/// Whether the running version may be written to `known-good`.
pub fn may_confirm(standing: Standing) -> bool {
    let Standing { holds_declaration, full_reconcile, set_aside, install_runs, proper_version } = standing;
    holds_declaration && full_reconcile && !set_aside && !install_runs && proper_version
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c27_only_a_full_reconcile_of_an_accepted_declaration_confirms() {
        let mut confirmed = 0;
        for bits in 0..32u8 {
            let bit = |n: u8| bits & (1 << n) != 0;
            let standing = Standing {
                holds_declaration: bit(0),
                full_reconcile: bit(1),
                set_aside: bit(2),
                install_runs: bit(3),
                proper_version: bit(4),
            };
            confirmed += u32::from(may_confirm(standing));
        }
        let good = Standing {
            holds_declaration: true,
            full_reconcile: true,
            set_aside: false,
            install_runs: false,
            proper_version: true,
        };
        assert!(may_confirm(good));
        assert_eq!(confirmed, 1, "exactly one of the thirty-two standings confirms");
    }
}
