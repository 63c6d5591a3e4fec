//! Suites of shared logs and of the nodes on them.

#[path = "shared/conformance.rs"]
mod conformance;
#[path = "shared/simulation.rs"]
mod simulation;
