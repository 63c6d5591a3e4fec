//! The data layer through its public interface: all models, transactions, indexes, isolation and limits.

mod common;
mod cursors;
mod files;
mod indexes;
mod isolation;
mod kv;
mod limits;
mod model;
mod names;
mod relationship_indexes;
mod statistics;
mod threads;
