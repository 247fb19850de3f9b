//! Ids and counters. Each is checked once, here, so that none can smuggle a path, an option, a line
//! break or a header into a file name, a command or a request.

use std::fmt;
use std::str::FromStr;

/// The number of a node's declaration; only grows. Zero: the node holds none.
pub type Generation = u64;
/// The number on each order to install a version; a newer one asks a refused node again.
pub type Attempt = u64;
/// Grows with every start of the host on a node; orders statements of different processes.
pub type StartId = u64;

/// Longest id or name, in bytes.
pub const NAME_BYTES_MAX: usize = 64;

/// Why a text is not an id or name of this kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotAName {
    what: &'static str,
    text: String,
}

impl fmt::Display for NotAName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: String =
            self.text.chars().take(64).map(|c| if c.is_control() { '?' } else { c }).collect();
        write!(
            f,
            "'{shown}' is no {}: expected a letter or digit, then letters, digits, . _ -, ",
            self.what
        )?;
        write!(f, "at most {NAME_BYTES_MAX} in all")
    }
}

impl std::error::Error for NotAName {}

fn check(what: &'static str, text: &str) -> Result<String, NotAName> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    let good = !text.is_empty()
        && text.len() <= NAME_BYTES_MAX
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.bytes().all(allowed);
    if good { Ok(text.to_owned()) } else { Err(NotAName { what, text: text.to_owned() }) }
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            /// The text of it.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = NotAName;
            fn from_str(text: &str) -> Result<Self, NotAName> {
                check($what, text).map($name)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name!(
    /// A node's id, given by the mesh at join.
    NodeId,
    "node id"
);
name!(
    /// A node's name, chosen by a person or taken from its host name.
    NodeName,
    "node name"
);
name!(
    /// A rollout's id.
    RolloutId,
    "rollout id"
);
name!(
    /// The kernel's id of one boot of a machine (`/proc/sys/kernel/random/boot_id`).
    BootId,
    "boot id"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_carry_nothing_that_a_shell_a_path_or_a_header_could_mistake() {
        for good in ["n-1", "web01.example", "A_b-c", "0f4f2d80-93c5-4a9c-8c53-8f5c28e2a9aa"] {
            assert!(good.parse::<NodeId>().is_ok(), "{good}");
        }
        let long = "a".repeat(65);
        for bad in ["", "-x", ".x", "../x", "a/b", "a b", "a\nb", "a\0", "ä", "a;b", long.as_str()] {
            assert!(bad.parse::<NodeName>().is_err(), "{bad:?}");
        }
    }
}
