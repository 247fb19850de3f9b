//! What travels over the link, for both sides: one codec, so that node and mesh cannot read the same
//! bytes differently.
//!
//! Pure. Small documents (heartbeat, join, claim) are flat structs with miniserde's derive: unknown
//! fields are ignored, a missing optional field is `None`. Declarations, which decide what a machine
//! becomes, are walked by [`json`], which can say where and what was wrong.

pub mod claim;
pub mod declaration;
pub mod envelope;
pub mod heartbeat;
pub mod join;
pub mod json;
pub mod limits;
pub mod range;

/// The `format` number of every document of this release.
pub const FORMAT: u64 = 1;
