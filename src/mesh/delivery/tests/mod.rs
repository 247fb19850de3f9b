//! Tests of delivery, against a small world of nodes that say heartbeats.

mod cases;
mod complete;
mod golden;
mod outages;
mod properties;
mod refusals;
mod rules;
mod small_world;
mod tables;
mod world;
