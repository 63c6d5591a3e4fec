//! The reads of queries: batched, so that a call is one round trip however many ids it names.
//!
//! [`crate::Transaction`] implements this trait by key-value rows; read views implement it in memory.

use std::{ops::Bound, sync::Arc};

use isomer_layout::{DataError, catalog::Catalog, graph::rows::RelRow};
use isomer_storage::Order;
use isomer_value::{
    IndexId, LabelId, NodeContent, NodeId, PropId, RelId, RelationshipContent, TypeId, Value,
};

pub use isomer_value::Direction;

/// Relationships grouped by request, in compressed sparse row form.
///
/// Shape: group `i` is `rows[offsets[i]..offsets[i + 1]]`; `offsets` has one entry more than there are groups.
#[derive(Clone, Debug)]
pub struct Neighbours {
    pub(crate) offsets: Vec<u32>,
    pub(crate) rows: Vec<RelRow>,
}

impl Default for Neighbours {
    fn default() -> Self {
        Self {
            offsets: vec![0],
            rows: Vec::new(),
        }
    }
}

impl Neighbours {
    /// No group.
    pub fn new() -> Self {
        Self::default()
    }

    /// Empties it and keeps its buffers.
    pub fn clear(&mut self) {
        self.offsets.truncate(1);
        self.rows.clear();
    }

    /// Number of groups.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Whether there is no group.
    pub fn is_empty(&self) -> bool {
        self.offsets.len() == 1
    }

    /// Group number `at`.
    pub fn of(&self, at: usize) -> &[RelRow] {
        &self.rows[self.offsets[at] as usize..self.offsets[at + 1] as usize]
    }

    /// All rows, group after group.
    pub fn rows(&self) -> &[RelRow] {
        &self.rows
    }

    /// The offsets of the groups in [`Neighbours::rows`].
    pub fn offsets(&self) -> &[u32] {
        &self.offsets
    }

    /// Appends a row to the group that is being built.
    pub fn push(&mut self, row: RelRow) {
        self.rows.push(row);
    }

    /// Ends the group that is being built.
    pub fn end_group(&mut self) {
        self.offsets.push(
            u32::try_from(self.rows.len()).expect("a batch holds fewer than 2^32 relationships"),
        );
    }
}

/// Labels grouped by node, in the order of the requested nodes; a missing node has an empty group.
#[derive(Clone, Debug)]
pub struct NodeLabels {
    pub(crate) offsets: Vec<u32>,
    pub(crate) labels: Vec<LabelId>,
}

impl Default for NodeLabels {
    fn default() -> Self {
        Self {
            offsets: vec![0],
            labels: Vec::new(),
        }
    }
}

impl NodeLabels {
    /// No node.
    pub fn new() -> Self {
        Self::default()
    }

    /// Empties it and keeps its buffers.
    pub fn clear(&mut self) {
        self.offsets.truncate(1);
        self.labels.clear();
    }

    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Whether there is no node.
    pub fn is_empty(&self) -> bool {
        self.offsets.len() == 1
    }

    /// The labels of node number `at`, ascending.
    pub fn of(&self, at: usize) -> &[LabelId] {
        &self.labels[self.offsets[at] as usize..self.offsets[at + 1] as usize]
    }

    /// Appends a node.
    pub fn push(&mut self, labels: &[LabelId]) {
        self.labels.extend_from_slice(labels);
        self.offsets
            .push(u32::try_from(self.labels.len()).expect("a batch holds fewer than 2^32 labels"));
    }
}

/// What to look up in an index: equality on the first fields, then a range on the next one.
///
/// Nulls are not indexed: a record is found only if all the index's fields have a value. `range` must be unbounded
/// on both sides when `prefix` names all fields. A bound of one kind (say, a number) reaches the end of that kind
/// only: `> 5` finds numbers, not strings.
#[derive(Clone, Copy, Debug)]
pub struct IndexSeek<'a> {
    /// The index.
    pub index: IndexId,
    /// Values of the first fields.
    pub prefix: &'a [Value],
    /// Bounds of the field after them.
    pub range: (Bound<&'a Value>, Bound<&'a Value>),
    /// Order of the entries: by value, then by the id of the record.
    pub order: Order,
}

/// What remains of a range of keys: start, and end unless it is the last key.
pub(crate) type RemainingRange = (Vec<u8>, Option<Vec<u8>>);

/// Where an index seek continues. Starts as `IndexCursor::default()`; belongs to one seek.
#[derive(Clone, Debug, Default)]
pub struct IndexCursor {
    pub(crate) rest: Option<RemainingRange>,
    pub(crate) done: bool,
}

impl IndexCursor {
    /// Whether the seek is exhausted.
    pub fn is_done(&self) -> bool {
        self.done
    }
}

/// The graph as one transaction sees it.
///
/// Results are appended in the order of the requested ids, and `out` is not cleared. Ids that do not exist (never, or
/// not any more) read as absent: no labels, `Null` properties, `None` content, no relationships.
pub trait GraphRead {
    /// Names and schema, with this transaction's own additions.
    fn catalog(&self) -> Arc<Catalog>;

    /// About how many nodes carry `label`, or exist. For planners: no footprint, may lag by the commits in flight.
    fn node_count(&self, label: Option<LabelId>) -> Result<u64, DataError>;
    /// About how many relationships have `rel_type`, or exist. As [`GraphRead::node_count`].
    fn relationship_count(&self, rel_type: Option<TypeId>) -> Result<u64, DataError>;
    /// Exactly how many nodes carry `label` in this transaction. Footprint: the label's membership.
    fn exact_node_count(&self, label: Option<LabelId>) -> Result<u64, DataError>;
    /// Exactly how many relationships have `rel_type` in this transaction. Footprint: the type's membership.
    fn exact_relationship_count(&self, rel_type: Option<TypeId>) -> Result<u64, DataError>;

    /// The next at most `limit` nodes with an id above `after`, ascending; fewer than `limit` means the end.
    /// Footprint: the label's membership.
    fn scan_nodes(
        &self,
        label: Option<LabelId>,
        after: Option<NodeId>,
        limit: usize,
        out: &mut Vec<NodeId>,
    ) -> Result<(), DataError>;
    /// The next at most `limit` relationships with an id above `after`, ascending; fewer than `limit` means the end.
    /// Footprint: the type's membership.
    fn scan_relationships(
        &self,
        rel_type: Option<TypeId>,
        after: Option<RelId>,
        limit: usize,
        out: &mut Vec<RelRow>,
    ) -> Result<(), DataError>;

    /// One group of relationships per node. `types` empty means all. Within a group: outgoing before incoming, then
    /// by type, other end and id.
    fn expand(
        &self,
        nodes: &[NodeId],
        direction: Direction,
        types: &[TypeId],
        out: &mut Neighbours,
    ) -> Result<(), DataError>;
    /// One group per pair: the relationships of `direction`, seen from the pair's first node, that end at its second.
    fn expand_into(
        &self,
        pairs: &[(NodeId, NodeId)],
        direction: Direction,
        types: &[TypeId],
        out: &mut Neighbours,
    ) -> Result<(), DataError>;
    /// How many rows [`GraphRead::expand`] would return per node.
    fn degree(
        &self,
        nodes: &[NodeId],
        direction: Direction,
        types: &[TypeId],
        out: &mut Vec<u64>,
    ) -> Result<(), DataError>;

    /// Whether the nodes exist.
    fn nodes_exist(&self, ids: &[NodeId], out: &mut Vec<bool>) -> Result<(), DataError>;
    /// The nodes' labels.
    fn node_labels(&self, ids: &[NodeId], out: &mut NodeLabels) -> Result<(), DataError>;
    /// One column per property: `out[p]` gets one value per id. Ascending dense ids are read as one range.
    fn node_properties(
        &self,
        ids: &[NodeId],
        props: &[PropId],
        out: &mut [Vec<Value>],
    ) -> Result<(), DataError>;
    /// Labels and all properties.
    fn node_contents(
        &self,
        ids: &[NodeId],
        out: &mut Vec<Option<Arc<NodeContent>>>,
    ) -> Result<(), DataError>;

    /// Type and ends of relationships.
    fn relationship_rows(
        &self,
        ids: &[RelId],
        out: &mut Vec<Option<RelRow>>,
    ) -> Result<(), DataError>;
    /// One column per property, as [`GraphRead::node_properties`].
    fn relationship_properties(
        &self,
        ids: &[RelId],
        props: &[PropId],
        out: &mut [Vec<Value>],
    ) -> Result<(), DataError>;
    /// Type name and all properties.
    fn relationship_contents(
        &self,
        ids: &[RelId],
        out: &mut Vec<Option<Arc<RelationshipContent>>>,
    ) -> Result<(), DataError>;

    /// The node that has `key` as its `_key` in `label`. Footprint: that key alone.
    fn node_by_key(&self, label: LabelId, key: &Value) -> Result<Option<NodeId>, DataError>;
    /// The next at most `limit` entries; [`IndexCursor::is_done`] says whether more follow. A node appears once per
    /// entry: an index over list elements may return it several times. Footprint: the requested range.
    fn index_seek(
        &self,
        seek: &IndexSeek<'_>,
        cursor: &mut IndexCursor,
        limit: usize,
        out: &mut Vec<NodeId>,
    ) -> Result<(), DataError>;
    /// As [`GraphRead::index_seek`], in an index over relationships.
    fn relationship_index_seek(
        &self,
        seek: &IndexSeek<'_>,
        cursor: &mut IndexCursor,
        limit: usize,
        out: &mut Vec<RelRow>,
    ) -> Result<(), DataError>;
}
