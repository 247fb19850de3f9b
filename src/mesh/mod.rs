//! x

pub mod delivery;
pub mod presence;
