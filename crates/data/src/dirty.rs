//! What a transaction's own writes changed, and what it observed in read views.
//!
//! Read views know only committed data. A reader that answers from a view reads the rows for everything that the
//! transaction itself has changed, and records here what it observed in a view, as reading the row would have recorded
//! it.

use isomer_value::{LabelId, NodeId, TypeId};
use rustc_hash::FxHashSet;

use crate::{Direction, IdSet, Transaction, keyspace::Side};

/// What a transaction's own writes changed. It only grows: rolled-back changes stay in it, as reading rows is always
/// correct.
#[derive(Clone, Debug, Default)]
pub struct Dirty {
    nodes: IdSet,
    linked: IdSet,
    labels: FxHashSet<LabelId>,
    types: FxHashSet<TypeId>,
    /// The type of the relationship that was created or deleted last.
    last_type: Option<TypeId>,
    relationships: bool,
}

impl Dirty {
    /// Approximate bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.nodes.bytes() + self.linked.bytes()
    }

    /// Whether nothing was changed.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty() && self.linked.is_empty() && !self.relationships
    }

    /// Nodes that were created, deleted or changed in labels or properties.
    pub fn nodes(&self) -> &IdSet {
        &self.nodes
    }

    /// Nodes that gained or lost a relationship.
    pub fn linked(&self) -> &IdSet {
        &self.linked
    }

    /// Labels that gained or lost a node.
    pub fn labels(&self) -> &FxHashSet<LabelId> {
        &self.labels
    }

    /// Types that gained or lost a relationship.
    pub fn types(&self) -> &FxHashSet<TypeId> {
        &self.types
    }

    /// Whether any relationship was created, deleted or changed.
    pub fn relationships(&self) -> bool {
        self.relationships
    }

    pub(crate) fn node(&mut self, id: NodeId) {
        self.nodes.insert(id.0);
    }

    pub(crate) fn label(&mut self, label: LabelId) {
        self.labels.insert(label);
    }

    pub(crate) fn relationship(&mut self) {
        self.relationships = true;
    }

    /// A relationship was created or deleted; [`Dirty::link_end`] records its ends.
    pub(crate) fn link(&mut self, type_id: TypeId) {
        self.relationships = true;
        if self.last_type != Some(type_id) {
            self.types.insert(type_id);
            self.last_type = Some(type_id);
        }
    }

    pub(crate) fn link_end(&mut self, end: NodeId) {
        self.linked.insert(end.0);
    }
}

/// The sides of a direction, in the order of their rows.
pub(crate) fn sides(direction: Direction) -> &'static [Side] {
    match direction {
        Direction::Outgoing => &[Side::Out],
        Direction::Incoming => &[Side::In],
        Direction::Both => &[Side::Out, Side::In],
    }
}

/// For read views: recording observations made in one. Each method records what the read of rows of the same name does.
impl Transaction {
    /// What this transaction's own writes changed.
    pub fn dirty(&self) -> &Dirty {
        self.dirty_ref()
    }

    /// Whether observations are recorded at all: not in a read-only transaction.
    pub fn notes(&self) -> bool {
        self.footprint().active()
    }

    /// The relationships of `node` in `direction` of `types` (empty: all) were observed.
    pub fn note_adjacency(&self, node: NodeId, direction: Direction, types: &[TypeId]) {
        let mut footprint = self.footprint();
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
        &self,
        node: NodeId,
        other: NodeId,
        direction: Direction,
        types: &[TypeId],
    ) {
        let mut footprint = self.footprint();
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
    pub fn note_members(&self, label: Option<LabelId>) {
        self.footprint().read_members(label);
    }

    /// Observed which relationships of `rel_type`, or of any type, exist.
    pub fn note_type_members(&self, rel_type: Option<TypeId>) {
        self.footprint().read_type_members(rel_type);
    }

    /// Labels or properties of a node were observed; `label` is any one of its labels, `None` for a node without
    /// labels: a transaction that changes too many nodes to name them declares all of their labels.
    pub fn note_node(&self, id: NodeId, label: Option<LabelId>) {
        self.footprint().read_node(id, label);
    }

    /// Observed that a node exists; `label` as in [`Transaction::note_node`].
    pub fn note_exists(&self, id: NodeId, label: Option<LabelId>) {
        self.footprint().read_exists(id, label);
    }
}
