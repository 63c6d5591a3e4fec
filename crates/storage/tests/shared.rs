//! Several engines on one shared log.

#[path = "shared/backend.rs"]
mod backend;
#[path = "shared/simulation.rs"]
mod simulation;
