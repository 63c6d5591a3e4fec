//! What a transaction's own writes changed, and what it observed in read views.
//!
//! Read views know only committed data. A reader that answers from a view reads the rows for everything that the
//! transaction itself has changed, and records here what it observed in a view, as reading the row would have recorded
//! it.

use isomer_layout::keyspace::Side;
use isomer_value::{LabelId, NodeId, TypeId};
use rustc_hash::FxHashSet;

use crate::{Direction, IdSet};

/// What a transaction's own writes changed. It only grows: rolled-back changes stay in it, as reading rows is always
/// correct.
#[derive(Clone, Debug, Default)]
pub struct Dirty {
    pub(crate) nodes: IdSet,
    pub(crate) linked: IdSet,
    pub(crate) labels: FxHashSet<LabelId>,
    pub(crate) types: FxHashSet<TypeId>,
    /// The type of the relationship that was created or deleted last.
    last_type: Option<TypeId>,
    pub(crate) relationships: bool,
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
