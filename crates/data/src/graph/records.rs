//! Reading records by id, many at a time.

use std::{ops::ControlFlow, sync::Arc};

use isomer_layout::{
    DataError,
    catalog::{Catalog, names::NameTables},
    convergent::position::ConvergentOwner,
    graph::rows::{RelRow, row_of},
    keyspace::{self, TAG_NODE, TAG_REL, push_id, take_id},
};
use isomer_storage::{KeyRange, Order, Page, PageLimit};
use isomer_value::{
    LabelId, Labels, Map, NodeContent, NodeId, PropId, RelId, RelationshipContent, Value,
    record::{RecordRef, RecordSealer},
};

use crate::{Graph, NodeLabels, batch::KeyBatch};

/// Ids at most this far apart are read as one range: skipping the rows between costs less than looking up each one.
const DENSE: u64 = 4;
/// Below this number of ids, looking up each one is as good.
pub(crate) const MIN_RANGE_IDS: usize = 8;

impl Graph<'_> {
    pub(crate) fn exist(self, ids: &[NodeId], out: &mut Vec<bool>) -> Result<(), DataError> {
        out.reserve(ids.len());
        let watched = self.tx.footprint().active();
        self.each_node(ids, |id, record| {
            match record {
                Some(record) if watched => {
                    self.tx.footprint().read_exists(id, record.labels().next())
                }
                None if watched => self.tx.footprint().read_absent_node(),
                _ => {}
            }
            out.push(record.is_some());
            Ok(())
        })
    }

    pub(crate) fn labels_of(self, ids: &[NodeId], out: &mut NodeLabels) -> Result<(), DataError> {
        let mut labels: Vec<LabelId> = Vec::new();
        self.each_node(ids, |id, record| {
            labels.clear();
            if let Some(record) = record {
                labels.extend(record.labels());
            }
            self.note_record(id, record);
            out.push(&labels);
            Ok(())
        })
    }

    pub(crate) fn node_columns(
        self,
        ids: &[NodeId],
        props: &[PropId],
        out: &mut [Vec<Value>],
    ) -> Result<(), DataError> {
        self.node_properties_within(ids, props, usize::MAX, out)
    }

    /// Properties of nodes, in the order of `ids`, a column for each of `props`, until the records have `most` bytes
    /// as stored: of one at least, of as many as come to each column.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn node_properties_within(
        self,
        ids: &[NodeId],
        props: &[PropId],
        most: usize,
        out: &mut [Vec<Value>],
    ) -> Result<(), DataError> {
        let names: &NameTables = &self.tx.names().names;
        out.iter_mut().for_each(|column| column.reserve(ids.len()));
        let watched = self.tx.footprint().active();
        let start = out.first().map_or(0, Vec::len);
        self.each_node_within(ids, most, |id, record| {
            if watched {
                self.note_record(id, record);
            }
            push_row(record, props, names, out)
        })?;
        self.tx
            .fields()
            .overlay_columns(|at| ConvergentOwner::Node(ids[at]), start, props, out)
    }

    /// For read views: calls `visit` for each id with the node's record, none if it does not exist. Observes
    /// nothing, so only in a read-only transaction.
    pub fn visit_node_records(
        self,
        ids: &[NodeId],
        visit: impl FnMut(NodeId, Option<&RecordRef<'_>>) -> Result<(), DataError>,
    ) -> Result<(), DataError> {
        self.each_node(ids, visit)
    }

    /// For read views: calls `visit` with the record of a relationship, where it exists. Observes nothing, so only in a
    /// read-only transaction.
    pub fn visit_relationship_record(
        self,
        id: RelId,
        mut visit: impl FnMut(&RecordRef<'_>) -> Result<(), DataError>,
    ) -> Result<(), DataError> {
        self.each_relationship(&[id], |_, found| match found {
            Some((_, record)) => visit(&record),
            None => Ok(()),
        })
    }

    /// Labels and properties of nodes, in the order of `ids`, until the records have `most` stored bytes: of at least
    /// one node; the length of `out` says of how many.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn node_contents_within(
        self,
        ids: &[NodeId],
        most: usize,
        out: &mut Vec<Option<Arc<NodeContent>>>,
    ) -> Result<(), DataError> {
        let catalog = self.tx.names();
        let mut sealer = RecordSealer::new(catalog.names.clone());
        let mut label_sets = LabelSets::new(catalog, ids.len());
        let mut gathered = Vec::new();
        let make = |labels, properties| NodeContent { labels, properties };
        let watched = self.tx.footprint().active();
        self.each_node_within(ids, most, |id, record| {
            if watched {
                self.note_record(id, record);
            }
            if let Some(record) = record {
                let labels = label_sets.of(id, record)?;
                sealer.gather(record)?;
                gathered.push((out.len(), ConvergentOwner::Node(id), labels));
            }
            out.push(None);
            if sealer.is_full() {
                self.put_gathered(&mut sealer, &mut gathered, make, out)?;
            }
            Ok(())
        })?;
        self.put_gathered(&mut sealer, &mut gathered, make, out)
    }

    /// Puts the results of `make` for the collected records in their positions.
    fn put_gathered<N, C>(
        self,
        sealer: &mut RecordSealer,
        gathered: &mut Vec<(usize, ConvergentOwner, N)>,
        make: impl Fn(N, Map) -> C,
        out: &mut [Option<Arc<C>>],
    ) -> Result<(), DataError> {
        for ((at, owner, names), mut properties) in gathered.drain(..).zip(sealer.finish()) {
            self.tx.fields().overlay_map(owner, &mut properties)?;
            out[at] = Some(Arc::new(make(names, properties)));
        }
        Ok(())
    }

    pub(crate) fn rows_of(
        self,
        ids: &[RelId],
        out: &mut Vec<Option<RelRow>>,
    ) -> Result<(), DataError> {
        self.each_relationship(ids, |_, found| {
            out.push(found.map(|(row, _)| row));
            Ok(())
        })
    }

    pub(crate) fn relationship_columns(
        self,
        ids: &[RelId],
        props: &[PropId],
        out: &mut [Vec<Value>],
    ) -> Result<(), DataError> {
        self.relationship_properties_within(ids, props, usize::MAX, out)
    }

    /// As [`Graph::node_properties_within`], of relationships.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn relationship_properties_within(
        self,
        ids: &[RelId],
        props: &[PropId],
        most: usize,
        out: &mut [Vec<Value>],
    ) -> Result<(), DataError> {
        let names: &NameTables = &self.tx.names().names;
        let start = out.first().map_or(0, Vec::len);
        self.each_relationship_within(ids, most, |_, found| {
            push_row(found.as_ref().map(|(_, record)| record), props, names, out)
        })?;
        self.tx.fields().overlay_columns(
            |at| ConvergentOwner::Relationship(ids[at]),
            start,
            props,
            out,
        )
    }

    /// As [`Graph::node_contents_within`], of relationships.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn relationship_contents_within(
        self,
        ids: &[RelId],
        most: usize,
        out: &mut Vec<Option<Arc<RelationshipContent>>>,
    ) -> Result<(), DataError> {
        let catalog = self.tx.names();
        let mut sealer = RecordSealer::new(catalog.names.clone());
        let mut gathered = Vec::new();
        let make = |type_name, properties| RelationshipContent {
            type_name,
            properties,
        };
        self.each_relationship_within(ids, most, |id, found| {
            if let Some((row, record)) = found {
                let type_name = catalog.type_name(row.type_id).ok_or_else(|| {
                    DataError::corrupt(format!("relationship {id} has a type without a name"))
                })?;
                sealer.gather(&record)?;
                gathered.push((out.len(), ConvergentOwner::Relationship(id), type_name));
            }
            out.push(None);
            if sealer.is_full() {
                self.put_gathered(&mut sealer, &mut gathered, make, out)?;
            }
            Ok(())
        })?;
        self.put_gathered(&mut sealer, &mut gathered, make, out)
    }

    /// Records that labels or properties of a node were observed.
    fn note_record(self, id: NodeId, record: Option<&RecordRef<'_>>) {
        let mut footprint = self.tx.footprint();
        match record {
            Some(record) => footprint.read_node(id, record.labels().next()),
            None => footprint.read_absent_node(),
        }
    }

    fn each_node(
        self,
        ids: &[NodeId],
        visit: impl FnMut(NodeId, Option<&RecordRef<'_>>) -> Result<(), DataError>,
    ) -> Result<(), DataError> {
        self.each_node_within(ids, usize::MAX, visit)
    }

    /// As [`Graph::each_node`], until the records visited have `most` bytes together.
    fn each_node_within(
        self,
        ids: &[NodeId],
        most: usize,
        mut visit: impl FnMut(NodeId, Option<&RecordRef<'_>>) -> Result<(), DataError>,
    ) -> Result<(), DataError> {
        self.each_record(
            TAG_NODE,
            ids.len(),
            most,
            |at| ids[at].0,
            |at, bytes| match bytes {
                Some(bytes) => visit(ids[at], Some(&RecordRef::new(bytes)?)),
                None => visit(ids[at], None),
            },
        )
    }

    fn each_relationship(
        self,
        ids: &[RelId],
        visit: impl FnMut(RelId, Option<(RelRow, RecordRef<'_>)>) -> Result<(), DataError>,
    ) -> Result<(), DataError> {
        self.each_relationship_within(ids, usize::MAX, visit)
    }

    /// As [`Graph::each_relationship`], until the records visited have `most` bytes together.
    fn each_relationship_within(
        self,
        ids: &[RelId],
        most: usize,
        mut visit: impl FnMut(RelId, Option<(RelRow, RecordRef<'_>)>) -> Result<(), DataError>,
    ) -> Result<(), DataError> {
        let watched = self.tx.footprint().active();
        self.each_record(
            TAG_REL,
            ids.len(),
            most,
            |at| ids[at].0,
            |at, bytes| {
                let found = match bytes {
                    Some(bytes) => {
                        let record = RecordRef::new(bytes)?;
                        Some((row_of(ids[at], &record)?, record))
                    }
                    None => None,
                };
                if watched {
                    match &found {
                        Some((row, _)) => {
                            self.tx.footprint().read_relationship(row.id, row.type_id)
                        }
                        None => self.tx.footprint().read_type_members(None),
                    }
                }
                visit(ids[at], found)
            },
        )
    }

    /// Calls `visit` for each position in order, with the record's bytes if it exists, until these are `most` together.
    fn each_record(
        self,
        tag: u8,
        count: usize,
        most: usize,
        id_at: impl Fn(usize) -> u64,
        mut visit: impl FnMut(usize, Option<&[u8]>) -> Result<(), DataError>,
    ) -> Result<(), DataError> {
        let mut left = most;
        let mut visit = |at: usize, bytes: Option<&[u8]>| {
            visit(at, bytes)?;
            left = left.saturating_sub(bytes.map_or(0, <[u8]>::len));
            Ok(match left {
                0 => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            })
        };
        let mut at = 0;
        while at < count {
            // The longest ascending run from here whose ids are close together.
            let mut end = at + 1;
            while end < count && id_at(end) > id_at(end - 1) && id_at(end) - id_at(end - 1) <= DENSE
            {
                end += 1;
            }
            if end - at >= MIN_RANGE_IDS {
                if self
                    .record_range(tag, at, end, &id_at, &mut visit)?
                    .is_break()
                {
                    return Ok(());
                }
            } else {
                // Up to the next long run; a short look ahead keeps single lookups in one batch.
                end = (at + 256).min(count).min(next_run(at, count, &id_at));
                if end - at == 1 {
                    let bytes = self.tx.read().get(&record_key(tag, id_at(at)))?;
                    if visit(at, bytes.as_deref())?.is_break() {
                        return Ok(());
                    }
                    at = end;
                    continue;
                }
                let mut keys = KeyBatch::with_room(end - at, (end - at) * 6);
                for at in at..end {
                    keys.push(|key| {
                        key.push(tag);
                        push_id(key, id_at(at));
                    });
                }
                let visited = keys.visit(self.tx.read(), |place, bytes| visit(at + place, bytes));
                if visited?.is_break() {
                    return Ok(());
                }
            }
            at = end;
        }
        Ok(())
    }

    /// Positions `at..end`, whose ids ascend, through one range of keys.
    fn record_range(
        self,
        tag: u8,
        mut at: usize,
        end: usize,
        id_at: &impl Fn(usize) -> u64,
        visit: &mut impl FnMut(usize, Option<&[u8]>) -> Result<ControlFlow<()>, DataError>,
    ) -> Result<ControlFlow<()>, DataError> {
        let stop = record_key(tag, id_at(end - 1) + 1);
        let mut range = Some((record_key(tag, id_at(at)), Some(stop)));
        let mut page = Page::new();
        while let Some((start, stop)) = range.take() {
            let limit = PageLimit {
                keys: 4096,
                bytes: 1 << 20,
            };
            self.tx.read().scan(
                KeyRange {
                    start: &start,
                    end: stop.as_deref(),
                },
                Order::Ascending,
                limit,
                &mut page,
            )?;
            for (key, bytes) in page.iter() {
                let id = keyspace::sole_id(&key[1..], "the key of a record")?;
                while at < end && id_at(at) < id {
                    // A missing record has no bytes.
                    let _ = visit(at, None)?;
                    at += 1;
                }
                if at < end && id_at(at) == id {
                    if visit(at, Some(bytes))?.is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                    at += 1;
                }
            }
            range = page
                .next()
                .map(|next| (next.start.to_vec(), next.end.map(<[u8]>::to_vec)));
        }
        while at < end {
            let _ = visit(at, None)?;
            at += 1;
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// The names of labels, for the nodes of one batch: nodes with the same labels share them. A large batch copies the
/// strings, so that threads that read concurrently do not contend for the reference counts of shared ones.
pub(crate) struct LabelSets<'c> {
    pub(crate) catalog: &'c Catalog,
    pub(crate) own: bool,
    pub(crate) known: Vec<(Vec<LabelId>, Labels)>,
}

impl<'c> LabelSets<'c> {
    /// For a batch of `nodes` nodes.
    pub(crate) fn new(catalog: &'c Catalog, nodes: usize) -> Self {
        Self {
            catalog,
            own: nodes >= MIN_RANGE_IDS,
            known: Vec::new(),
        }
    }

    /// The names of a node's labels, sorted.
    pub(crate) fn of(&mut self, id: NodeId, record: &RecordRef<'_>) -> Result<Labels, DataError> {
        let known = |(labels, _): &&(Vec<LabelId>, _)| record.labels().eq(labels.iter().copied());
        if let Some((_, names)) = self.known.iter().find(known) {
            return Ok(names.clone());
        }
        let mut names: Vec<Arc<str>> = Vec::with_capacity(1);
        for label in record.labels() {
            let name = self.catalog.label_name(label).ok_or_else(|| {
                DataError::corrupt(format!("node {id} has a label without a name"))
            })?;
            names.push(if self.own { Arc::from(&*name) } else { name });
        }
        names.sort_unstable();
        let names: Labels = names.into();
        if self.own && self.known.len() < MAX_LABEL_SETS {
            self.known.push((record.labels().collect(), names.clone()));
        }
        Ok(names)
    }
}

/// Sets of labels that are compared before a new one is made.
const MAX_LABEL_SETS: usize = 16;

/// The start of the next run after `at` that is worth a range scan.
fn next_run(at: usize, count: usize, id_at: &impl Fn(usize) -> u64) -> usize {
    let mut start = at + 1;
    let mut length = 1;
    for next in at + 2..count.min(at + 257) {
        if id_at(next) > id_at(next - 1) && id_at(next) - id_at(next - 1) <= DENSE {
            length += 1;
            if length >= MIN_RANGE_IDS {
                return start;
            }
        } else {
            start = next;
            length = 1;
        }
    }
    count
}

pub(crate) fn record_key(tag: u8, id: u64) -> Vec<u8> {
    let mut key = Vec::with_capacity(10);
    key.push(tag);
    push_id(&mut key, id);
    key
}

fn push_row(
    record: Option<&RecordRef<'_>>,
    props: &[PropId],
    names: &NameTables,
    out: &mut [Vec<Value>],
) -> Result<(), DataError> {
    for (prop, column) in props.iter().zip(out) {
        let value = match record {
            Some(record) => record.get(*prop, names)?,
            None => None,
        };
        column.push(value.unwrap_or_default());
    }
    Ok(())
}

/// The id in a record's key.
pub(crate) fn id_of(key: &[u8]) -> Result<u64, DataError> {
    let mut rest = key.get(1..).unwrap_or_default();
    take_id(&mut rest)
        .filter(|_| rest.is_empty())
        .ok_or_else(|| DataError::corrupt("the key of a record is malformed"))
}
