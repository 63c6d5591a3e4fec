//! What the database stores, as values and as bytes: the key map, the catalog's definitions, records, rows and the
//! operations of the change stream; and the rules that follow from how it is stored, such as the merge of convergent
//! fields.
//!
//! Everything here is a function of its arguments. Snapshots are read at most, to load definitions; nothing begins a
//! transaction and nothing writes. Invariants:
//! - every key of the database is made in [`keyspace`], and nowhere else;
//! - encoded keys sort as their values do;
//! - bytes that do not decode are [`DataError::Corrupt`], never a panic.

/// Test programs of this crate's files that other crates include name it from the outside.
#[cfg(test)]
extern crate self as isomer_layout;

pub mod catalog;
pub mod convergent;
mod error;
pub mod files;
pub mod graph;
pub mod index;
pub mod keyspace;
pub mod kv;
pub mod lineage;
pub mod pairs;
pub mod properties;
pub mod replicated;
pub mod stream;

pub use error::{DataError, ErrorKind, SchemaClash};
