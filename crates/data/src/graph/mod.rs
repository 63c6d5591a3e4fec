//! The graph: nodes and relationships as key-value rows, read in batches.

mod by_key;
mod expand;
mod handles;
pub(crate) mod key_hints;
mod nodes;
mod records;
mod relationships;
mod scan;

use std::sync::Arc;

use isomer_layout::{DataError, catalog::Catalog, graph::rows::RelRow, stream::change::Counted};
use isomer_value::{
    LabelId, NodeContent, NodeId, PropId, RelId, RelationshipContent, TypeId, Value,
};

use crate::{Direction, GraphRead, IndexCursor, IndexSeek, Neighbours, NodeLabels, Transaction};

pub use by_key::NodeRecord;
pub use handles::{Graph, GraphMut};

pub(crate) use crate::graph::key_hints::KeyHints;

impl GraphRead for Transaction {
    fn catalog(&self) -> Arc<Catalog> {
        self.names().clone()
    }

    fn node_count(&self, label: Option<LabelId>) -> Result<u64, DataError> {
        self.graph()
            .estimate(label.map_or(Counted::Nodes, Counted::Label))
    }

    fn relationship_count(&self, rel_type: Option<TypeId>) -> Result<u64, DataError> {
        self.graph()
            .estimate(rel_type.map_or(Counted::Relationships, Counted::Type))
    }

    fn exact_node_count(&self, label: Option<LabelId>) -> Result<u64, DataError> {
        self.graph().count_nodes(label)
    }

    fn exact_relationship_count(&self, rel_type: Option<TypeId>) -> Result<u64, DataError> {
        self.graph().count_relationships(rel_type)
    }

    fn scan_nodes(
        &self,
        label: Option<LabelId>,
        after: Option<NodeId>,
        limit: usize,
        out: &mut Vec<NodeId>,
    ) -> Result<(), DataError> {
        self.graph().node_ids(label, after, limit, out)
    }

    fn scan_relationships(
        &self,
        rel_type: Option<TypeId>,
        after: Option<RelId>,
        limit: usize,
        out: &mut Vec<RelRow>,
    ) -> Result<(), DataError> {
        self.graph().rel_rows(rel_type, after, limit, out)
    }

    fn expand(
        &self,
        nodes: &[NodeId],
        direction: Direction,
        types: &[TypeId],
        out: &mut Neighbours,
    ) -> Result<(), DataError> {
        self.graph().expand_rows(nodes, direction, types, out)
    }

    fn expand_into(
        &self,
        pairs: &[(NodeId, NodeId)],
        direction: Direction,
        types: &[TypeId],
        out: &mut Neighbours,
    ) -> Result<(), DataError> {
        self.graph().expand_pairs(pairs, direction, types, out)
    }

    fn degree(
        &self,
        nodes: &[NodeId],
        direction: Direction,
        types: &[TypeId],
        out: &mut Vec<u64>,
    ) -> Result<(), DataError> {
        self.graph().degrees(nodes, direction, types, out)
    }

    fn nodes_exist(&self, ids: &[NodeId], out: &mut Vec<bool>) -> Result<(), DataError> {
        self.graph().exist(ids, out)
    }

    fn node_labels(&self, ids: &[NodeId], out: &mut NodeLabels) -> Result<(), DataError> {
        self.graph().labels_of(ids, out)
    }

    fn node_properties(
        &self,
        ids: &[NodeId],
        props: &[PropId],
        out: &mut [Vec<Value>],
    ) -> Result<(), DataError> {
        self.graph().node_columns(ids, props, out)
    }

    fn node_contents(
        &self,
        ids: &[NodeId],
        out: &mut Vec<Option<Arc<NodeContent>>>,
    ) -> Result<(), DataError> {
        self.graph().node_contents_within(ids, usize::MAX, out)
    }

    fn relationship_rows(
        &self,
        ids: &[RelId],
        out: &mut Vec<Option<RelRow>>,
    ) -> Result<(), DataError> {
        self.graph().rows_of(ids, out)
    }

    fn relationship_properties(
        &self,
        ids: &[RelId],
        props: &[PropId],
        out: &mut [Vec<Value>],
    ) -> Result<(), DataError> {
        self.graph().relationship_columns(ids, props, out)
    }

    fn relationship_contents(
        &self,
        ids: &[RelId],
        out: &mut Vec<Option<Arc<RelationshipContent>>>,
    ) -> Result<(), DataError> {
        self.graph()
            .relationship_contents_within(ids, usize::MAX, out)
    }

    fn node_by_key(&self, label: LabelId, key: &Value) -> Result<Option<NodeId>, DataError> {
        self.graph().find_key(label, key)
    }

    fn index_seek(
        &self,
        seek: &IndexSeek<'_>,
        cursor: &mut IndexCursor,
        limit: usize,
        out: &mut Vec<NodeId>,
    ) -> Result<(), DataError> {
        self.indexes().seek(seek, cursor, limit, out)
    }

    fn relationship_index_seek(
        &self,
        seek: &IndexSeek<'_>,
        cursor: &mut IndexCursor,
        limit: usize,
        out: &mut Vec<RelRow>,
    ) -> Result<(), DataError> {
        self.indexes().seek_relationships(seek, cursor, limit, out)
    }
}
