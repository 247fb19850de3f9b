//! Tests of the project as a whole, one binary: rules of the house and the programs from outside.

mod tidy;
