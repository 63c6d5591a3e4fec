//! Rows of relationships, from their records and their entries of adjacency.

use isomer_value::{NodeId, RelId, TypeId, record::RecordRef};

use crate::{
    DataError,
    keyspace::{self, Side, take_id},
};

/// A relationship without its properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RelRow {
    /// The relationship.
    pub id: RelId,
    /// Its type.
    pub type_id: TypeId,
    /// Where it starts.
    pub source: NodeId,
    /// Where it ends.
    pub target: NodeId,
}

impl RelRow {
    /// The end that is not `node`; `node` itself for a self loop.
    pub fn other(&self, node: NodeId) -> NodeId {
        if self.source == node {
            self.target
        } else {
            self.source
        }
    }
}

/// Type and ends of a relationship's record.
pub fn row_of(id: RelId, record: &RecordRef<'_>) -> Result<RelRow, DataError> {
    let (type_id, source, target): (TypeId, NodeId, NodeId) =
        record.endpoints().ok_or_else(|| {
            DataError::corrupt(format!("the record of relationship {id} is a node's"))
        })?;
    Ok(RelRow {
        id,
        type_id,
        source,
        target,
    })
}

/// The entry of adjacency of a relationship, at its source if `outgoing`, else at its target.
pub fn adjacency(row: &RelRow, outgoing: bool) -> Vec<u8> {
    match outgoing {
        true => keyspace::adjacency(row.source, Side::Out, row.type_id, row.target, row.id),
        false => keyspace::adjacency(row.target, Side::In, row.type_id, row.source, row.id),
    }
}

/// Decodes what [`adjacency`] returns: the relationship, and whether the entry is the one at its source.
pub fn take_adjacency(key: &[u8]) -> Result<(RelRow, bool), DataError> {
    let mut rest = key.get(1..).unwrap_or_default();
    let node = take_id(&mut rest)
        .map(NodeId)
        .ok_or_else(|| DataError::corrupt("an adjacency entry is malformed"))?;
    let (side, type_id, other, id) = keyspace::take_adjacency(rest)?;
    let outgoing = side == Side::Out;
    let (source, target) = match outgoing {
        true => (node, other),
        false => (other, node),
    };
    let row = RelRow {
        id,
        type_id,
        source,
        target,
    };
    Ok((row, outgoing))
}
