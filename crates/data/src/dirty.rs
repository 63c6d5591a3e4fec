//! What a transaction's own writes touched, and what it observed without reading rows.
//!
//! Read views know what is committed. Whoever answers reads from them asks the rows about everything that the
//! transaction itself has touched, and notes here what was observed in a view as reading the row would have noted it.

use isomer_value::{LabelId, NodeId, TypeId};
use rustc_hash::FxHashSet;

use crate::{Direction, Transaction, keyspace::Side};

/// What a transaction's own writes touched. Only grows: what was undone stays in it, for the rows are always right.
#[derive(Clone, Debug, Default)]
pub struct Dirty {
    nodes: FxHashSet<NodeId>,
    linked: FxHashSet<NodeId>,
    labels: FxHashSet<LabelId>,
    types: FxHashSet<TypeId>,
    /// Of a relationship that was created or deleted last.
    last_type: Option<TypeId>,
    relationships: bool,
}

impl Dirty {
    /// Whether nothing was touched.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty() && self.linked.is_empty() && !self.relationships
    }

    /// Nodes that were created, deleted or changed in labels or properties.
    pub fn nodes(&self) -> &FxHashSet<NodeId> {
        &self.nodes
    }

    /// Nodes that gained or lost a relationship.
    pub fn linked(&self) -> &FxHashSet<NodeId> {
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
        self.nodes.insert(id);
    }

    pub(crate) fn label(&mut self, label: LabelId) {
        self.labels.insert(label);
    }

    pub(crate) fn relationship(&mut self) {
        self.relationships = true;
    }

    /// A relationship was created or deleted: its ends are told to [`Dirty::link_end`].
    pub(crate) fn link(&mut self, type_id: TypeId) {
        self.relationships = true;
        if self.last_type != Some(type_id) {
            self.types.insert(type_id);
            self.last_type = Some(type_id);
        }
    }

    pub(crate) fn link_end(&mut self, end: NodeId) {
        self.linked.insert(end);
    }
}

/// The sides that a direction looks at, in the order of their rows.
pub(crate) fn sides(direction: Direction) -> &'static [Side] {
    match direction {
        Direction::Outgoing => &[Side::Out],
        Direction::Incoming => &[Side::In],
        Direction::Both => &[Side::Out, Side::In],
    }
}

/// For read views: noting what was observed in one. Each does what the read from rows of its name does.
impl Transaction {
    /// What this transaction's own writes touched.
    pub fn dirty(&self) -> &Dirty {
        self.dirty_ref()
    }

    /// Whether observations are noted at all: not in a transaction that only reads.
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

    /// It was observed which relationships of `types` (empty: all) lead from `node` to `other`, seen in `direction`.
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

    /// It was observed which nodes carry `label`, or exist.
    pub fn note_members(&self, label: Option<LabelId>) {
        self.footprint().read_members(label);
    }

    /// It was observed which relationships of `rel_type`, or of any type, exist.
    pub fn note_type_members(&self, rel_type: Option<TypeId>) {
        self.footprint().read_type_members(rel_type);
    }

    /// Labels or properties of a node were observed; `label` is one that it carries, none where it carries none.
    ///
    /// Any of its labels will do: whoever changes too many nodes to name them declares all of their labels.
    pub fn note_node(&self, id: NodeId, label: Option<LabelId>) {
        self.footprint().read_node(id, label);
    }

    /// It was observed that a node exists; `label` as in [`Transaction::note_node`].
    pub fn note_exists(&self, id: NodeId, label: Option<LabelId>) {
        self.footprint().read_exists(id, label);
    }
}
