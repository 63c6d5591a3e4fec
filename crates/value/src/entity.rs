//! Nodes, relationships and paths as values.

use std::sync::Arc;

use crate::{Map, NodeId, RelId, TypeId};

/// A node. Equality and order use the id alone.
///
/// Inside a query only the id is known; `content` is read when the value leaves the query in a result.
/// Closed: all else that is known of a node is part of its content.
#[derive(Clone, Debug)]
pub struct Node {
    /// The node's id in its database.
    pub id: NodeId,
    /// Labels and properties, if they were read.
    pub content: Option<Arc<NodeContent>>,
}

/// Names of labels, sorted; nodes of the same labels share them.
pub type Labels = Arc<[Arc<str>]>;

/// The content of a node. Closed: a record has labels and properties.
#[derive(Clone, Debug, Default)]
pub struct NodeContent {
    /// Its labels.
    pub labels: Labels,
    /// Properties; includes `_key` if the node has one.
    pub properties: Map,
}

/// A relationship. Equality and order use the id alone. Closed: all else that is known of it is part of its content.
#[derive(Clone, Debug)]
pub struct Relationship {
    /// The relationship's id in its database.
    pub id: RelId,
    /// The number of its type in the catalog.
    pub type_id: TypeId,
    /// The source node.
    pub source: NodeId,
    /// The target node.
    pub target: NodeId,
    /// Type name and properties, if they were read.
    pub content: Option<Arc<RelationshipContent>>,
}

/// The content of a relationship. Closed: a record has a type and properties.
#[derive(Clone, Debug, Default)]
pub struct RelationshipContent {
    /// The name of its type.
    pub type_name: Arc<str>,
    /// Properties.
    pub properties: Map,
}

impl Node {
    /// A node with its id only.
    pub fn new(id: NodeId) -> Self {
        Self { id, content: None }
    }
}

impl Relationship {
    /// A relationship without its content.
    pub fn new(id: RelId, type_id: TypeId, source: NodeId, target: NodeId) -> Self {
        Self {
            id,
            type_id,
            source,
            target,
            content: None,
        }
    }
}

impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for Node {}

impl PartialEq for Relationship {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for Relationship {}

/// A walk: `nodes.len() == relationships.len() + 1`; relationship `i` joins nodes `i` and `i + 1` in either
/// direction. Closed: a walk is nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// The nodes in the order of the walk; at least one.
    pub nodes: Vec<Node>,
    /// The relationships in the order of the walk.
    pub relationships: Vec<Relationship>,
}
