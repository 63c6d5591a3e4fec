//! Nodes and relationships as values: what a change of one changes.

use isomer_value::{LabelId, Map, NodeId, TypeId};

use crate::{
    catalog::schema::RecordScope, convergent::position::ConvergentOwner, graph::rows::RelRow,
    keyspace::push_id,
};

/// A node or a relationship by its id, as the owner of index entries and the subject of constraints.
pub type RecordId = ConvergentOwner;

/// A record as indexes and constraints read it.
pub trait RecordState {
    /// Whether an index or constraint of this scope is about it.
    fn is_in(&self, scope: RecordScope) -> bool;

    /// Its properties, without nulls.
    fn properties(&self) -> &Map;
}

/// The property that holds a record's key in its labels.
pub const KEY: &str = "_key";

/// Labels and properties of a node.
#[derive(Clone, Debug, Default)]
pub struct NodeState {
    /// Ascending, distinct.
    pub labels: Vec<LabelId>,
    /// Without nulls, `_key` among them where the node has one.
    pub properties: Map,
}

impl RecordState for NodeState {
    fn is_in(&self, scope: RecordScope) -> bool {
        match scope {
            RecordScope::Label(label) => self.labels.binary_search(&label).is_ok(),
            RecordScope::Type(_) => false,
        }
    }

    fn properties(&self) -> &Map {
        &self.properties
    }
}

/// Type and properties of a relationship.
#[derive(Clone, Debug)]
pub struct RelState {
    /// Its type, which never changes.
    pub type_id: TypeId,
    /// Without nulls.
    pub properties: Map,
}

impl RecordState for RelState {
    fn is_in(&self, scope: RecordScope) -> bool {
        scope == RecordScope::Type(self.type_id)
    }

    fn properties(&self) -> &Map {
        &self.properties
    }
}

/// A record as the owner of index entries: what identifies it, and what its entries carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryOwner {
    /// A node.
    Node(NodeId),
    /// A relationship: its entries carry its ends, so that a seek need not read its record.
    Relationship(RelRow),
}

impl EntryOwner {
    /// Which record it is.
    pub fn record(self) -> RecordId {
        match self {
            Self::Node(id) => RecordId::Node(id),
            Self::Relationship(row) => RecordId::Relationship(row.id),
        }
    }

    /// Its id, in the space of its kind.
    pub fn number(self) -> u64 {
        self.record().parts().1
    }

    /// The value of each of its entries: how long the id at the end of the key is, and a relationship's source and
    /// target.
    pub fn entry_value(self) -> Vec<u8> {
        let mut value = vec![crate::keyspace::id_len(self.number()) as u8];
        if let Self::Relationship(row) = self {
            push_id(&mut value, row.source.0);
            push_id(&mut value, row.target.0);
        }
        value
    }
}

/// Keys of a node in its labels that are added or removed.
#[derive(Default)]
pub struct KeyChanges {
    /// Keys that lead to no node from now on.
    pub removed: Vec<(LabelId, Vec<u8>)>,
    /// Keys that lead to this node from now on.
    pub added: Vec<(LabelId, Vec<u8>)>,
    /// Keys that lead to another node from now on.
    pub passed: Vec<(LabelId, Vec<u8>, NodeId)>,
}
