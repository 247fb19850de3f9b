//! Kind `file`: a regular file with a whole content, an owner and a mode.

pub mod act;
pub mod plan;
