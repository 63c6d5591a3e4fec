//! Suites of shared logs and of the nodes on them.

#[path = "nodes/conformance.rs"]
mod conformance;
#[path = "nodes/simulation.rs"]
mod simulation;
