//! What kind of machine a node is, and which nodes count as alike.

use miniserde::{Deserialize, Serialize};
use std::fmt;

/// What a node says of its machine, at join and when it changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// The distribution's name of the architecture: `amd64`, `arm64`.
    pub architecture: String,
    /// `deb`, `rpm`, `pacman`, `bare`.
    pub package_format: String,
    /// `ID-VERSION_ID` of os-release(5), for example `debian-12`.
    pub distribution: String,
    /// Kernel release, as `uname -r` prints it.
    pub kernel: String,
}

/// Nodes of one stratum are alike enough that one failing says something about the others: same
/// architecture, package format, distribution and current version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stratum {
    /// See [`Facts::architecture`].
    pub architecture: String,
    /// See [`Facts::package_format`].
    pub package_format: String,
    /// See [`Facts::distribution`].
    pub distribution: String,
    /// The version that the node runs now.
    pub version: String,
}

impl fmt::Display for Stratum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Stratum { architecture, package_format, distribution, version } = self;
        write!(f, "{architecture}/{package_format}/{distribution}/{version}")
    }
}
