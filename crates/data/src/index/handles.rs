//! The handles through which a transaction reads and builds indexes.

use crate::Transaction;

/// Property indexes as one transaction sees them: entries, their nodes, and the entries that a node should have.
///
/// A seek costs one range scan, and enters the footprint as the range that it has returned.
#[derive(Clone, Copy)]
pub struct Indexes<'t> {
    pub(crate) tx: &'t Transaction,
}

/// Changes of index entries where no record changes: for indexes that are being built, and for convergent fields.
///
/// Changes of records maintain the indexes themselves; see [`crate::GraphMut`].
pub struct IndexesMut<'t> {
    pub(crate) tx: &'t mut Transaction,
}

impl Transaction {
    /// Reads of the indexes.
    pub fn indexes(&self) -> Indexes<'_> {
        Indexes { tx: self }
    }

    /// Changes of index entries.
    pub fn indexes_mut(&mut self) -> IndexesMut<'_> {
        IndexesMut { tx: self }
    }
}
