//! Tests of the project as a whole, one binary: rules of the house and the programs from outside.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod tidy;
