//! The handles through which a transaction reads and changes its graph.

use crate::Transaction;

/// Nodes and relationships as one transaction sees them: records, keys, adjacency, counts.
///
/// The batched reads of queries are the methods of [`crate::GraphRead`], which [`Transaction`] implements with this
/// handle. A lookup by id or key is one read of the engine; a batch of ascending dense ids is one range. All reads
/// enter the footprint, except those whose documentation says that they observe nothing.
#[derive(Clone, Copy)]
pub struct Graph<'t> {
    pub(crate) tx: &'t Transaction,
}

/// Creates, changes and deletes nodes and relationships.
///
/// A change of a node reads its record and writes the record, its labels, keys and index entries. A relationship is a
/// record and one adjacency entry at each end, whatever the degrees are. Each change is also an operation of the change
/// stream. A refused change writes nothing.
pub struct GraphMut<'t> {
    pub(crate) tx: &'t mut Transaction,
}

impl Transaction {
    /// Reads of the graph.
    pub fn graph(&self) -> Graph<'_> {
        Graph { tx: self }
    }

    /// Changes of the graph.
    pub fn graph_mut(&mut self) -> GraphMut<'_> {
        GraphMut { tx: self }
    }
}
