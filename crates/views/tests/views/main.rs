//! Read views against rows: random histories, files, budgets and conflicts.

mod adjacency;
mod budget;
mod common;
mod fields;
mod footprint;
mod keeping;
mod loading;
mod model;
