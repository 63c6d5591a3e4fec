//! Several engines on one shared log.

#[path = "shared/backend.rs"]
mod backend;
#[path = "shared/directory.rs"]
mod directory;
#[path = "shared/processes.rs"]
mod processes;
#[path = "shared/simulation.rs"]
mod simulation;
