//! x
pub mod model;
