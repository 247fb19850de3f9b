//! Kind `directory`: a folder with an owner and a mode. Its parents are declared too, or exist.

pub mod act;
pub mod plan;
