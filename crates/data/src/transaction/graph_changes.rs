//! What a transaction has changed in the graph, apart from keys.

use isomer_layout::stream::change::Deltas;

use crate::{Dirty, IdSet, deferred::Deferred, statistics::Changed};

/// The changes of a transaction in the graph, as its own reads, checks and statistics need them.
#[derive(Default)]
pub(crate) struct GraphChanges {
    /// Changes of counts.
    pub(crate) deltas: Deltas,
    /// Approximate input of the statistics: rolled-back changes stay in it.
    pub(crate) statistics: Changed,
    /// For readers of views.
    pub(crate) dirty: Dirty,
    /// Checks that are due at the end of the current statement.
    pub(crate) deferred: Deferred,
    /// Nodes that were found to exist, as ends of relationships; cleared where one may be deleted.
    pub(crate) ends: IdSet,
}

impl GraphChanges {
    /// Drops what rests on writes that are rolled back, to `deltas`. Checks are no longer deferred.
    pub(super) fn roll_back(&mut self, deltas: Deltas) {
        self.deltas = deltas;
        self.deferred = Deferred::default();
        self.ends.clear();
    }
}
