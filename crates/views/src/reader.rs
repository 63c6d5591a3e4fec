//! Reads the graph as a transaction sees it: from views if they are ready, otherwise from the rows.

use std::{ops::Bound, sync::Arc};

use isomer_data::{
    Catalog, DataError, Direction, GraphRead, IndexCursor, IndexSeek, Neighbours, NodeLabels,
    RelRow, Transaction,
};
use isomer_value::{
    LabelId, NodeContent, NodeId, PropId, RelId, RelationshipContent, TypeId, Value,
};

use crate::{
    AdjacencyAt, ColumnAt, LinkScratch, NodeLinks, Owner, ViewsAt, id::small, members::MemberBase,
    side::AdjacencySide, slot::Pinned, status::Records,
};

/// Fewer nodes than this are read from the rows: looking up the views would cost as much.
const FEW_NODES: u64 = 4;
/// Nodes whose values are prefetched together.
const FETCHED: usize = 64;
/// If a label has changed, a set at this version is built only for at least this many membership tests.
const WORTH_A_COPY: usize = 1024;

/// Reads a transaction through the views of its version.
///
/// Reads of anything that the transaction wrote use the rows. Every observation made in a view is added to
/// the footprint as reading the row would have added it. Results equal those of the transaction's own
/// [`GraphRead`], in the same order.
#[derive(Clone, Copy)]
pub struct ViewReader<'a> {
    tx: &'a Transaction,
    views: &'a ViewsAt,
    enabled: bool,
}

impl<'a> ViewReader<'a> {
    /// Reads `tx` through `views`, which must be those [at](crate::Views::at) its version; other views are
    /// ignored.
    pub fn new(tx: &'a Transaction, views: &'a ViewsAt) -> Self {
        Self {
            tx,
            views,
            enabled: views.is_enabled() && views.version() == tx.version(),
        }
    }

    /// The transaction.
    pub fn transaction(&self) -> &'a Transaction {
        self.tx
    }

    /// The views, for operators that read them directly; requires [`ViewReader::is_plain`].
    pub fn views(&self) -> &'a ViewsAt {
        self.views
    }

    /// Whether views alone suffice: no footprint is recorded, and the transaction has no writes.
    pub fn is_plain(&self) -> bool {
        self.enabled && !self.tx.view_reads().notes() && self.tx.view_reads().dirty().is_empty()
    }

    /// Whether a ready column has this property of some label's nodes, so that reading it again costs less
    /// than caching it.
    pub fn has_column(&self, prop: PropId) -> bool {
        self.enabled && self.views.columns_of(Records::Nodes, prop).is_some()
    }

    /// A column of one label with a value of this property for each of these nodes, so all of them have its
    /// label. Requires [`ViewReader::is_plain`].
    pub fn column_of_all(&self, prop: PropId, nodes: &[u32]) -> Option<ColumnAt> {
        let columns = self
            .views
            .columns_of(Records::Nodes, prop)
            .filter(|_| self.is_plain())?;
        let has_all = |column: &&ColumnAt| nodes.iter().all(|node| column.has_value(*node));
        columns.iter().find(has_all).cloned()
    }

    /// Whether views have the labels of all nodes, so that reading them again costs less than caching them.
    pub fn has_labels(&self) -> bool {
        self.all_members(FEW_NODES).is_some()
    }

    /// The views that answer a query for relationships, in row order: by side, then by type.
    fn links(
        &self,
        direction: Direction,
        types: &[TypeId],
        with_ids: bool,
        demand: usize,
    ) -> Option<Vec<AdjacencyAt>> {
        if !self.enabled {
            return None;
        }
        let mut all: Vec<TypeId> = if types.is_empty() {
            self.views.all_types()?.to_vec()
        } else {
            types.to_vec()
        };
        all.sort_unstable();
        all.dedup();
        let sides: &[AdjacencySide] = match direction {
            Direction::Outgoing => &[AdjacencySide::Out],
            Direction::Incoming => &[AdjacencySide::In],
            Direction::Both => &AdjacencySide::BOTH,
        };
        let mut found = Vec::with_capacity(sides.len() * all.len());
        let mut missing = false;
        for &side in sides {
            for &type_id in &all {
                let one = self
                    .views
                    .adjacency_of(type_id, side, with_ids, demand as u64);
                missing |= one.is_none();
                found.extend(one);
            }
        }
        // All or nothing: mixing views and rows would need a merge of both. The loop still visits every type,
        // so that all missing views are requested.
        (!missing).then_some(found)
    }

    /// Whether this node's relationships must be read from the rows.
    fn own_links(&self, node: NodeId) -> bool {
        let linked = self.tx.view_reads().dirty().linked();
        !linked.is_empty() && linked.contains(node.0)
    }

    /// Whether this node's labels and properties must be read from the rows.
    fn own_record(&self, node: NodeId) -> bool {
        let nodes = self.tx.view_reads().dirty().nodes();
        !nodes.is_empty() && nodes.contains(node.0)
    }

    fn members(&self, label: Option<LabelId>, demand: u64) -> Option<Pinned<MemberBase>> {
        if !self.enabled {
            return None;
        }
        self.views.members_of(label, demand)
    }

    /// The members of every label, ascending, if all those views are ready.
    fn all_members(&self, demand: u64) -> Option<Vec<(LabelId, Pinned<MemberBase>)>> {
        if !self.enabled || demand < FEW_NODES {
            return None;
        }
        let labels = self.views.all_labels().filter(|all| !all.is_empty())?;
        let mut found = Vec::with_capacity(labels.len());
        for &label in labels {
            found.extend(Some(label).zip(self.members(Some(label), demand)));
        }
        (found.len() == labels.len()).then_some(found)
    }

    /// Per property the columns that have it, if there are some for each.
    fn columns(&self, ids: &[NodeId], props: &[PropId]) -> Option<Vec<Arc<[ColumnAt]>>> {
        if !self.enabled || (ids.len() as u64) < FEW_NODES {
            return None;
        }
        let mut found = Vec::with_capacity(props.len());
        for &prop in props {
            match self.views.columns_of(Records::Nodes, prop) {
                Some(columns) => found.push(columns),
                None => {
                    let count = ids.len() as u64;
                    self.views.count_property(self.tx, ids[0], prop, count);
                }
            }
        }
        (found.len() == props.len()).then_some(found)
    }

    /// Properties of nodes, in the order of `ids`, a column for each of `props`: of all nodes where columns have them,
    /// otherwise until the records have `most` bytes as stored, of one node at least, of as many as come to each
    /// column.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn node_properties_within(
        &self,
        ids: &[NodeId],
        props: &[PropId],
        most: usize,
        out: &mut [Vec<Value>],
    ) -> Result<(), DataError> {
        let Some(columns) = self.columns(ids, props) else {
            return self
                .tx
                .graph()
                .node_properties_within(ids, props, most, out);
        };
        out.iter_mut().for_each(|column| column.reserve(ids.len()));
        let fields = self.tx.fields().note_plain(props);
        let start = out.first().map_or(0, Vec::len);
        let noted = self.tx.view_reads().notes();
        let mut missing = Vec::new();
        let (mut group, mut owners) = (Vec::with_capacity(FETCHED), Vec::with_capacity(FETCHED));
        for (first, ids) in ids.chunks(FETCHED).enumerate() {
            group.clear();
            let known = |id: &NodeId| small(id.0).filter(|_| !self.own_record(*id));
            group.extend(ids.iter().map(known));
            for column in columns.iter().flat_map(|columns| columns.iter()) {
                column.fetch(group.iter().flatten().copied());
            }
            push_group(&columns, &group, out, &mut owners);
            for (at, (&id, owner)) in ids.iter().zip(&owners).enumerate() {
                match owner {
                    Some(Owner::Nodes(label)) if noted => {
                        self.tx.view_reads().note_node(id, Some(*label));
                        self.tx.fields().note_fields(id, &fields);
                    }
                    Some(_) => {}
                    None => missing.push((first * FETCHED + at, id)),
                }
            }
        }
        self.fill_missing(start, &missing, props, out)
    }

    /// As [`ViewReader::node_properties_within`], of relationships.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn relationship_properties_within(
        &self,
        ids: &[RelId],
        props: &[PropId],
        most: usize,
        out: &mut [Vec<Value>],
    ) -> Result<(), DataError> {
        let plain = !self.tx.view_reads().notes() && !self.tx.view_reads().dirty().relationships();
        let Some(columns) = self.rel_columns(ids, props).filter(|_| plain) else {
            return self
                .tx
                .graph()
                .relationship_properties_within(ids, props, most, out);
        };
        let start = out.first().map_or(0, Vec::len);
        let mut missing = Vec::new();
        let (mut group, mut owners) = (Vec::with_capacity(FETCHED), Vec::with_capacity(FETCHED));
        for (first, ids) in ids.chunks(FETCHED).enumerate() {
            group.clear();
            group.extend(ids.iter().map(|id| small(id.0)));
            push_group(&columns, &group, out, &mut owners);
            let unknown = ids.iter().zip(&owners).enumerate();
            let unknown = unknown.filter(|(_, (_, owner))| owner.is_none());
            missing.extend(unknown.map(|(at, (id, _))| (first * FETCHED + at, *id)));
        }
        if missing.is_empty() {
            return Ok(());
        }
        let asked: Vec<RelId> = missing.iter().map(|(_, id)| *id).collect();
        let mut read: Vec<Vec<Value>> = vec![Vec::with_capacity(asked.len()); props.len()];
        self.tx.relationship_properties(&asked, props, &mut read)?;
        for (column, values) in out.iter_mut().zip(read) {
            for (value, (at, _)) in values.into_iter().zip(&missing) {
                column[start + at] = value;
            }
        }
        Ok(())
    }

    /// Per property of relationships the columns that have it, if there are some for each.
    fn rel_columns(&self, ids: &[RelId], props: &[PropId]) -> Option<Vec<Arc<[ColumnAt]>>> {
        if !self.enabled || (ids.len() as u64) < FEW_NODES {
            return None;
        }
        let known = |prop: &PropId| self.views.columns_of(Records::Relationships, *prop);
        props.iter().map(known).collect()
    }

    /// Reads the nodes that no column has from the rows, and fills their results in.
    fn fill_missing(
        &self,
        start: usize,
        missing: &[(usize, NodeId)],
        props: &[PropId],
        out: &mut [Vec<Value>],
    ) -> Result<(), DataError> {
        let Some((_, first)) = missing.first() else {
            return Ok(());
        };
        let ids: Vec<NodeId> = missing.iter().map(|(_, id)| *id).collect();
        let mut read: Vec<Vec<Value>> = vec![Vec::with_capacity(ids.len()); props.len()];
        self.tx.node_properties(&ids, props, &mut read)?;
        for (column, values) in out.iter_mut().zip(read) {
            for (value, (at, _)) in values.into_iter().zip(missing) {
                column[start + at] = value;
            }
        }
        if ids.len() as u64 >= FEW_NODES {
            for &prop in props {
                let count = ids.len() as u64;
                self.views.count_property(self.tx, *first, prop, count);
            }
        }
        Ok(())
    }

    /// Appends the rows of one node.
    fn push_rows(
        node: NodeId,
        direction: Direction,
        links: &[AdjacencyAt],
        scratch: &mut LinkScratch,
        out: &mut Neighbours,
    ) {
        let Some(small) = small(node.0) else {
            return;
        };
        for at in links {
            let (Some(side), Some(type_id)) = (at.side(), at.type_id()) else {
                continue;
            };
            let NodeLinks { others, ids } = at.relationships(small, scratch);
            // `ids` parallels `others`, as the links were requested with ids.
            for (&other, &id) in others.iter().zip(ids) {
                // A self loop is in both sides; for both directions together it is one relationship.
                if direction == Direction::Both && side == AdjacencySide::In && other == small {
                    continue;
                }
                out.push(row(type_id, side, node, other, id));
            }
        }
    }
}

fn row(type_id: TypeId, side: AdjacencySide, node: NodeId, other: u32, id: u32) -> RelRow {
    let other = NodeId(other.into());
    let (source, target) = match side {
        AdjacencySide::Out => (node, other),
        AdjacencySide::In => (other, node),
    };
    RelRow {
        id: RelId(id.into()),
        type_id,
        source,
        target,
    }
}

/// Appends the values of at most [`FETCHED`] records, column by column, with null for a record that no column
/// has or that is `None`. Sets per record in `owners` a label or type that it has, or `None` if some column does
/// not know its value; the appended values of such a record are undefined.
fn push_group(
    columns: &[Arc<[ColumnAt]>],
    group: &[Option<u32>],
    out: &mut [Vec<Value>],
    owners: &mut Vec<Option<Owner>>,
) {
    owners.clear();
    owners.resize(group.len(), None);
    for (number, (own, out)) in columns.iter().zip(out).enumerate() {
        for (record, owner) in group.iter().zip(&mut *owners) {
            let found = record.and_then(|record| {
                let mut own = own.iter();
                own.find_map(|column| Some((column.owner(), column.value(record)?)))
            });
            match &found {
                // The first column names the owner; a later column that does not know the record revokes it.
                Some((of, _)) if number == 0 => *owner = Some(*of),
                Some(_) => {}
                None => *owner = None,
            }
            out.push(found.map_or(Value::Null, |(_, value)| value));
        }
    }
}

impl GraphRead for ViewReader<'_> {
    fn catalog(&self) -> Arc<Catalog> {
        self.tx.catalog()
    }

    fn node_count(&self, label: Option<LabelId>) -> Result<u64, DataError> {
        self.tx.node_count(label)
    }

    fn relationship_count(&self, rel_type: Option<TypeId>) -> Result<u64, DataError> {
        self.tx.relationship_count(rel_type)
    }

    fn exact_node_count(&self, label: Option<LabelId>) -> Result<u64, DataError> {
        self.tx.exact_node_count(label)
    }

    fn exact_relationship_count(&self, rel_type: Option<TypeId>) -> Result<u64, DataError> {
        self.tx.exact_relationship_count(rel_type)
    }

    fn scan_nodes(
        &self,
        label: Option<LabelId>,
        after: Option<NodeId>,
        limit: usize,
        out: &mut Vec<NodeId>,
    ) -> Result<(), DataError> {
        let dirty = self.tx.view_reads().dirty();
        let own = match label {
            Some(label) => dirty.labels().contains(&label),
            None => !dirty.nodes().is_empty(),
        };
        let Some(members) = self.members(label, 0).filter(|_| !own) else {
            let before = out.len();
            self.tx.scan_nodes(label, after, limit, out)?;
            self.members(label, (out.len() - before) as u64);
            return Ok(());
        };
        if members.overlaid && limit < WORTH_A_COPY {
            return self.tx.scan_nodes(label, after, limit, out);
        }
        self.tx.view_reads().note_members(label);
        let from = match after {
            None => Bound::Unbounded,
            Some(after) => match small(after.0) {
                Some(after) => Bound::Excluded(after),
                None => return Ok(()),
            },
        };
        let set = members.set();
        let found = set.range((from, Bound::Unbounded)).take(limit);
        out.extend(found.map(|id| NodeId(id.into())));
        Ok(())
    }

    fn scan_relationships(
        &self,
        rel_type: Option<TypeId>,
        after: Option<RelId>,
        limit: usize,
        out: &mut Vec<RelRow>,
    ) -> Result<(), DataError> {
        self.tx.scan_relationships(rel_type, after, limit, out)
    }

    fn expand(
        &self,
        nodes: &[NodeId],
        direction: Direction,
        types: &[TypeId],
        out: &mut Neighbours,
    ) -> Result<(), DataError> {
        let Some(links) = self.links(direction, types, true, nodes.len()) else {
            return self.tx.expand(nodes, direction, types, out);
        };
        let mut scratch = LinkScratch::new();
        let mut own = Neighbours::new();
        for &node in nodes {
            if self.own_links(node) {
                own.clear();
                self.tx.expand(&[node], direction, types, &mut own)?;
                own.rows().iter().for_each(|row| out.push(*row));
            } else {
                self.tx.view_reads().note_adjacency(node, direction, types);
                Self::push_rows(node, direction, &links, &mut scratch, out);
            }
            out.end_group();
        }
        Ok(())
    }

    fn expand_into(
        &self,
        pairs: &[(NodeId, NodeId)],
        direction: Direction,
        types: &[TypeId],
        out: &mut Neighbours,
    ) -> Result<(), DataError> {
        let Some(links) = self.links(direction, types, true, pairs.len()) else {
            return self.tx.expand_into(pairs, direction, types, out);
        };
        let mut scratch = LinkScratch::new();
        let mut own = Neighbours::new();
        for &(node, other) in pairs {
            if self.own_links(node) || self.own_links(other) {
                own.clear();
                self.tx
                    .expand_into(&[(node, other)], direction, types, &mut own)?;
                own.rows().iter().for_each(|row| out.push(*row));
                out.end_group();
                continue;
            }
            self.tx
                .view_reads()
                .note_presence(node, other, direction, types);
            if let (Some(from), Some(to)) = (small(node.0), small(other.0)) {
                for at in &links {
                    let (Some(side), Some(type_id)) = (at.side(), at.type_id()) else {
                        continue;
                    };
                    if direction == Direction::Both && side == AdjacencySide::In && from == to {
                        continue; // a self loop is returned once
                    }
                    let NodeLinks { others, ids } = at.relationships(from, &mut scratch);
                    let first = others.partition_point(|one| *one < to);
                    let parallel = others[first..].iter().take_while(|one| **one == to);
                    for (_, &id) in parallel.zip(&ids[first..]) {
                        out.push(row(type_id, side, node, to, id));
                    }
                }
            }
            out.end_group();
        }
        Ok(())
    }

    fn degree(
        &self,
        nodes: &[NodeId],
        direction: Direction,
        types: &[TypeId],
        out: &mut Vec<u64>,
    ) -> Result<(), DataError> {
        let Some(links) = self.links(direction, types, false, nodes.len()) else {
            return self.tx.degree(nodes, direction, types, out);
        };
        let mut scratch = Vec::new();
        for &node in nodes {
            if self.own_links(node) {
                self.tx.degree(&[node], direction, types, out)?;
                continue;
            }
            self.tx.view_reads().note_adjacency(node, direction, types);
            let Some(small) = small(node.0) else {
                out.push(0);
                continue;
            };
            let mut degree = 0;
            for at in &links {
                degree += u64::from(at.degree(small));
                if direction == Direction::Both && at.side() == Some(AdjacencySide::In) {
                    let others = at.neighbours(small, &mut scratch);
                    let first = others.partition_point(|one| *one < small);
                    let loops = others[first..].iter().take_while(|one| **one == small);
                    degree -= loops.count() as u64;
                }
            }
            out.push(degree);
        }
        Ok(())
    }

    fn nodes_exist(&self, ids: &[NodeId], out: &mut Vec<bool>) -> Result<(), DataError> {
        // The footprint entry of a node names one of its labels, which this set does not know.
        let members = self
            .members(None, 0)
            .filter(|_| !self.tx.view_reads().notes());
        let Some(members) = members else {
            self.members(None, ids.len() as u64);
            return self.tx.nodes_exist(ids, out);
        };
        for &id in ids {
            match small(id.0) {
                Some(_) if self.own_record(id) => self.tx.nodes_exist(&[id], out)?,
                Some(node) => out.push(members.contains(node)),
                None => out.push(false),
            }
        }
        Ok(())
    }

    fn node_labels(&self, ids: &[NodeId], out: &mut NodeLabels) -> Result<(), DataError> {
        let Some(sets) = self.all_members(ids.len() as u64) else {
            return self.tx.node_labels(ids, out);
        };
        let (mut known, mut missing) = (NodeLabels::new(), Vec::new());
        let mut labels = Vec::new();
        for &id in ids {
            labels.clear();
            if let Some(node) = small(id.0).filter(|_| !self.own_record(id)) {
                let carried = sets.iter().filter(|(_, members)| members.contains(node));
                labels.extend(carried.map(|(label, _)| *label));
            }
            // A node without labels may not exist, which is recorded differently.
            match labels.first() {
                None => missing.push(id),
                label => self.tx.view_reads().note_node(id, label.copied()),
            }
            known.push(&labels);
        }
        let mut read = NodeLabels::new();
        self.tx.node_labels(&missing, &mut read)?;
        let mut next = 0;
        for at in 0..ids.len() {
            match known.of(at) {
                [] => {
                    out.push(read.of(next));
                    next += 1;
                }
                labels => out.push(labels),
            }
        }
        Ok(())
    }

    fn node_properties(
        &self,
        ids: &[NodeId],
        props: &[PropId],
        out: &mut [Vec<Value>],
    ) -> Result<(), DataError> {
        self.node_properties_within(ids, props, usize::MAX, out)
    }

    fn node_contents(
        &self,
        ids: &[NodeId],
        out: &mut Vec<Option<Arc<NodeContent>>>,
    ) -> Result<(), DataError> {
        self.tx.node_contents(ids, out)
    }

    fn relationship_rows(
        &self,
        ids: &[RelId],
        out: &mut Vec<Option<RelRow>>,
    ) -> Result<(), DataError> {
        self.tx.relationship_rows(ids, out)
    }

    fn relationship_properties(
        &self,
        ids: &[RelId],
        props: &[PropId],
        out: &mut [Vec<Value>],
    ) -> Result<(), DataError> {
        self.relationship_properties_within(ids, props, usize::MAX, out)
    }

    fn relationship_contents(
        &self,
        ids: &[RelId],
        out: &mut Vec<Option<Arc<RelationshipContent>>>,
    ) -> Result<(), DataError> {
        self.tx.relationship_contents(ids, out)
    }

    fn node_by_key(&self, label: LabelId, key: &Value) -> Result<Option<NodeId>, DataError> {
        self.tx.node_by_key(label, key)
    }

    fn index_seek(
        &self,
        seek: &IndexSeek<'_>,
        cursor: &mut IndexCursor,
        limit: usize,
        out: &mut Vec<NodeId>,
    ) -> Result<(), DataError> {
        self.tx.index_seek(seek, cursor, limit, out)
    }

    fn relationship_index_seek(
        &self,
        seek: &IndexSeek<'_>,
        cursor: &mut IndexCursor,
        limit: usize,
        out: &mut Vec<RelRow>,
    ) -> Result<(), DataError> {
        self.tx.relationship_index_seek(seek, cursor, limit, out)
    }
}
