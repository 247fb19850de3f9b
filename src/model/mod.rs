//! Values that every room shares: versions, ids, digests, strata, `key=value` files.
//!
//! Pure: no clock, no file system, no log. Imports nothing of ours. Everything is parsed at the
//! door; a value of a type in here is valid.

pub mod digest;
pub mod ids;
pub mod keyvalue;
pub mod stratum;
pub mod version;

pub use digest::Digest;
pub use ids::{Attempt, BootId, Generation, NodeId, NodeName, RolloutId, StartId};
pub use stratum::{Facts, Stratum};
pub use version::Version;
