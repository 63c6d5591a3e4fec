//! The database through its public interface: the API for Rust, queries, limits and maintenance.

mod algorithms;
mod api;
mod batches;
mod cancel;
mod convergent;
mod directory;
mod grouping;
mod handles;
mod kept_views;
mod language;
mod large_values;
mod neo4j;
mod place;
mod planning;
mod points;
mod projections;
mod queries;
mod readers;
mod shared;
mod spill;
mod started;
mod walks;
