//! The public Rust API: databases, transactions, queries and errors by kind.

pub use isomer_value::{Map, Node, Path, Relationship, Value, jiff};
