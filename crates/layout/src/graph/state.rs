//! Nodes and relationships as values: what a change of one changes.

use isomer_value::{LabelId, Map, NodeId};

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
