//! What a transaction has changed itself, for readers of views.

use isomer_layout::keyspace::Side;
use isomer_value::{LabelId, NodeId, TypeId};

use crate::{
    Direction, Transaction,
    dirty::{Dirty, sides},
};

/// Reads that a read view answered: they enter the footprint as the read of rows of the same name does. Nothing is
/// read.
#[derive(Clone, Copy)]
pub struct ViewReads<'t> {
    pub(crate) tx: &'t Transaction,
}

impl Transaction {
    /// For read views: declares reads that they answered.
    pub fn view_reads(&self) -> ViewReads<'_> {
        ViewReads { tx: self }
    }
}

/// For read views: recording observations made in one. Each method records what the read of rows of the same name does.
impl<'t> ViewReads<'t> {
    /// What this transaction's own writes changed.
    pub fn dirty(self) -> &'t Dirty {
        &self.tx.changes.dirty
    }

    /// Whether observations are recorded at all: not in a read-only transaction.
    pub fn notes(self) -> bool {
        self.tx.footprint().active()
    }

    /// The relationships of `node` in `direction` of `types` (empty: all) were observed.
    pub fn note_adjacency(self, node: NodeId, direction: Direction, types: &[TypeId]) {
        let mut footprint = self.tx.footprint();
        if !footprint.active() {
            return;
        }
        for &side in sides(direction) {
            if types.is_empty() {
                footprint.read_adjacency(node, side, None);
            }
            for &type_id in types {
                footprint.read_adjacency(node, side, Some(type_id));
            }
        }
    }

    /// Observed which relationships of `types` (empty: all) lead from `node` to `other`, seen in `direction`.
    pub fn note_presence(
        self,
        node: NodeId,
        other: NodeId,
        direction: Direction,
        types: &[TypeId],
    ) {
        let mut footprint = self.tx.footprint();
        if !footprint.active() {
            return;
        }
        for side in sides(direction) {
            let (source, target) = match side {
                Side::Out => (node, other),
                Side::In => (other, node),
            };
            if types.is_empty() {
                footprint.read_presence(source, target, None);
            }
            for &type_id in types {
                footprint.read_presence(source, target, Some(type_id));
            }
        }
    }

    /// Observed which nodes carry `label`, or exist.
    pub fn note_members(self, label: Option<LabelId>) {
        self.tx.footprint().read_members(label);
    }

    /// Observed which relationships of `rel_type`, or of any type, exist.
    pub fn note_type_members(self, rel_type: Option<TypeId>) {
        self.tx.footprint().read_type_members(rel_type);
    }

    /// Labels or properties of a node were observed; `label` is any one of its labels, `None` for a node without
    /// labels: a transaction that changes too many nodes to name them declares all of their labels.
    pub fn note_node(self, id: NodeId, label: Option<LabelId>) {
        self.tx.footprint().read_node(id, label);
    }

    /// Observed that a node exists; `label` as in [`ViewReads::note_node`].
    pub fn note_exists(self, id: NodeId, label: Option<LabelId>) {
        self.tx.footprint().read_exists(id, label);
    }
}
