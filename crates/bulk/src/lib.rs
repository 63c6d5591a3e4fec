//! Bulk loading: bypasses the transaction path, sorted, all or nothing, in bounded memory.
//!
//! A load has two phases. **Reading** takes the rows, checks them, finds the ends of relationships, encodes the records
//! and sorts what must be sorted (keys, index entries, adjacency), in memory up to a budget and in runs on disk beyond.
//! The database stays open for all readers and writers. **Writing** hands one ascending sequence of pairs to the
//! engine, which commits them atomically; other writers wait during this phase. If the preconditions of the first phase
//! changed in between (a new record of the label, a deleted end, an index), the load is refused with a conflict and
//! nothing has happened.

mod entries;
mod links;
mod load;
mod nodes;
mod pipeline;
mod relationships;
mod sorter;
mod uniques;

pub use load::{
    BulkEnds, BulkNode, BulkOptions, BulkOutcome, BulkPhase, BulkRelationship, BulkWatch,
};
pub use nodes::{KeyTypes, key_types, load_nodes};
pub use relationships::load_relationships;
