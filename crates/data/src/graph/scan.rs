//! Scans over all nodes and relationships, and their counts.

use isomer_layout::{
    DataError,
    graph::rows::{RelRow, row_of},
    keyspace::{self, TAG_NODE, TAG_REL, after_prefix, push_id, sole_id},
    stream::change::Counted,
};
use isomer_value::{LabelId, NodeId, RelId, TypeId, record::RecordRef};

use super::records::id_of;
use crate::Graph;

impl Graph<'_> {
    pub(super) fn node_ids(
        self,
        label: Option<LabelId>,
        after: Option<NodeId>,
        limit: usize,
        out: &mut Vec<NodeId>,
    ) -> Result<(), DataError> {
        self.tx.footprint().read_members(label);
        let prefix = label.map_or_else(|| vec![TAG_NODE], keyspace::members_of);
        let mut start = prefix.clone();
        match after {
            Some(NodeId(u64::MAX)) => return Ok(()),
            Some(after) => push_id(&mut start, after.0 + 1),
            None => {}
        }
        out.reserve(limit.min(1 << 16));
        self.tx
            .raw()
            .each_pair(&start, after_prefix(&prefix).as_deref(), limit, |key, _| {
                out.push(NodeId(sole_id(
                    &key[prefix.len()..],
                    "an entry of a label",
                )?));
                Ok(())
            })
    }

    pub(super) fn rel_rows(
        self,
        rel_type: Option<TypeId>,
        after: Option<RelId>,
        limit: usize,
        out: &mut Vec<RelRow>,
    ) -> Result<(), DataError> {
        self.tx.footprint().read_type_members(rel_type);
        let from = match after {
            Some(RelId(u64::MAX)) => return Ok(()),
            Some(after) => after.0 + 1,
            None => 0,
        };
        let stop = out.len().saturating_add(limit);
        for (start, end) in self.rel_ranges(rel_type, from) {
            self.tx
                .raw()
                .each_pair(&start, end.as_deref(), stop - out.len(), |key, bytes| {
                    let id = RelId(id_of(key)?);
                    out.push(row_of(id, &RecordRef::new(bytes)?)?);
                    Ok(())
                })?;
            if out.len() == stop {
                break;
            }
        }
        Ok(())
    }

    /// For read views: calls `visit` for the next at most `limit` relationships of a type with an id above `after`,
    /// with their records. Returns the last one's id where there may be more. Observes nothing, so only in a read-only
    /// transaction.
    pub fn visit_relationships(
        self,
        rel_type: TypeId,
        after: Option<RelId>,
        limit: usize,
        mut visit: impl FnMut(RelId, &RecordRef<'_>) -> Result<(), DataError>,
    ) -> Result<Option<RelId>, DataError> {
        let from = match after {
            Some(after) => after.0.saturating_add(1),
            None => 0,
        };
        let (mut left, mut last) = (limit, None);
        for (start, end) in self.rel_ranges(Some(rel_type), from) {
            self.tx
                .raw()
                .each_pair(&start, end.as_deref(), left, |key, bytes| {
                    let id = RelId(id_of(key)?);
                    (left, last) = (left - 1, Some(id));
                    visit(id, &RecordRef::new(bytes)?)
                })?;
            if left == 0 {
                return Ok(last);
            }
        }
        Ok(None)
    }

    /// Relationships of a type, without an observation: for indexes and constraints that are being built, which each
    /// transaction that creates a relationship concurrently maintains itself.
    pub(crate) fn unobserved_relationships(
        self,
        rel_type: TypeId,
        after: Option<RelId>,
        limit: usize,
        out: &mut Vec<RelId>,
    ) -> Result<(), DataError> {
        let from = match after {
            Some(RelId(u64::MAX)) => return Ok(()),
            Some(after) => after.0 + 1,
            None => 0,
        };
        for (start, end) in self.rel_ranges(Some(rel_type), from) {
            let left = limit - out.len();
            self.tx
                .raw()
                .each_pair(&start, end.as_deref(), left, |key, _| {
                    out.push(RelId(id_of(key)?));
                    Ok(())
                })?;
            if out.len() == limit {
                break;
            }
        }
        Ok(())
    }

    /// The key ranges of the relationships of a type with ids from `from`: its extents.
    fn rel_ranges(self, rel_type: Option<TypeId>, from: u64) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
        let key = |id: u64| keyspace::relationship(RelId(id));
        let Some(rel_type) = rel_type else {
            return vec![(key(from), after_prefix(&[TAG_REL]))];
        };
        let extents = self
            .tx
            .store()
            .shared()
            .relationships
            .of(rel_type.0)
            .into_iter();
        extents
            .filter(|(first, length)| first + length > from)
            .map(|(first, length)| (key(first.max(from)), Some(key(first + length))))
            .collect()
    }

    pub(super) fn count_nodes(self, label: Option<LabelId>) -> Result<u64, DataError> {
        self.tx.footprint().read_members(label);
        let counted = label.map_or(Counted::Nodes, Counted::Label);
        if let Some(count) = self.known_count(counted)? {
            return Ok(count);
        }
        let prefix = label.map_or_else(|| vec![TAG_NODE], keyspace::members_of);
        self.tx
            .raw()
            .count_pairs(&prefix, after_prefix(&prefix).as_deref())
    }

    pub(super) fn count_relationships(self, rel_type: Option<TypeId>) -> Result<u64, DataError> {
        self.tx.footprint().read_type_members(rel_type);
        let counted = rel_type.map_or(Counted::Relationships, Counted::Type);
        if let Some(count) = self.known_count(counted)? {
            return Ok(count);
        }
        let ranges = self.rel_ranges(rel_type, 0);
        ranges.iter().try_fold(0, |sum, (start, end)| {
            Ok(sum + self.tx.raw().count_pairs(start, end.as_deref())?)
        })
    }

    /// The maintained count at this transaction's version, with its own changes.
    fn known_count(self, counted: Counted) -> Result<Option<u64>, DataError> {
        let known = self.tx.store().counts().at(counted, self.tx.version())?;
        Ok(known.and_then(|count| count.checked_add_signed(self.tx.changes.deltas.get(counted))))
    }

    pub(super) fn estimate(self, counted: Counted) -> Result<u64, DataError> {
        match self.known_count(counted)? {
            Some(count) => Ok(count),
            None => Ok(self
                .tx
                .store()
                .counts()
                .now(counted)?
                .saturating_add_signed(self.tx.changes.deltas.get(counted))),
        }
    }
}
