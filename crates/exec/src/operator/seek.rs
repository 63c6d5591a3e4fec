//! Seeks of nodes and relationships in indexes: equality, lists of keys, ranges, prefixes of strings.

use std::{collections::VecDeque, hash::Hash, ops::Bound};

use isomer_data::{DataError, GraphRead, IndexCursor, IndexSeek, Order, RelRow};
use isomer_plan::{
    expr::BoundExpr,
    physical::{IndexRange, Op, SeekBound},
};
use isomer_value::{IndexId, Map, NodeId, RelId, Value};
use rustc_hash::FxHashSet;

use super::{
    Argument, Batch, Child, Operate, OperatorRef,
    input::{RowInput, set_live},
    scan::{each_end_pair, misplaced, seek_keys},
};
use crate::{
    chunk::Chunk,
    column::Column,
    context::Cx,
    error::Result,
    eval::{Row, value},
};

/// Finds nodes through an index.
pub(super) type SeekNodes = Seek<NodeId>;

/// Finds relationships and both their ends through an index.
pub(super) type SeekRelationships = Seek<RelRow>;

/// Finds entities through an index.
pub(super) struct Seek<E: IndexedEntity> {
    op_ref: OperatorRef,
    input: RowInput,
    batch: Batch,
    ranges: SeekRanges,
    seen: FxHashSet<E::Id>,
}

/// What an index finds: nodes or relationships.
pub(super) trait IndexedEntity: Sized {
    type Id: Copy + Eq + Hash + Send;
    /// The columns of a chunk that the operator fills.
    type Columns: Default;

    /// What the operator seeks; none if it seeks another kind of entity.
    fn terms(op: &Op) -> Option<SeekTerms<'_>>;

    fn id(&self) -> Self::Id;

    /// Reads from the index, at most about `limit` entities.
    fn read(
        cx: &Cx<'_>,
        seek: &IndexSeek<'_>,
        cursor: &mut IndexCursor,
        limit: usize,
        found: &mut Vec<Self>,
    ) -> std::result::Result<(), DataError>;

    /// The properties of entities; none for one that does not exist.
    fn properties(found: &[Self], cx: &Cx<'_>) -> Result<Vec<Option<Map>>>;

    /// Appends the rows that an entity leads to. Returns the number of all rows.
    fn push(self, op: &Op, columns: &mut Self::Columns) -> usize;

    /// Sets the columns that the plan reads.
    fn set(columns: Self::Columns, op_ref: &OperatorRef, chunk: &mut Chunk);
}

/// What an operator seeks in its index.
#[derive(Clone, Copy)]
pub(super) struct SeekTerms<'p> {
    index: IndexId,
    prefix: &'p [BoundExpr],
    range: &'p IndexRange,
    descending: bool,
}

impl SeekTerms<'_> {
    /// Whether the index has an entry for each element of a list.
    fn has_elements(self, cx: &Cx<'_>) -> bool {
        let catalog = cx.tx.catalog();
        let index = catalog.index(self.index);
        index.is_none_or(|index| index.fields.iter().any(|field| field.each))
    }
}

/// The ranges of an index that one input row leads to, as far as they are not read.
#[derive(Default)]
struct SeekRanges {
    pending: VecDeque<Lookup>,
    cursor: IndexCursor,
    /// Whether the same record can be found twice for one row.
    repeats: bool,
    /// Comparisons that the index order cannot decide for the current range.
    check: Option<Recheck>,
}

impl SeekRanges {
    /// The ranges of an input row.
    fn start(&mut self, terms: SeekTerms<'_>, row: Row<'_>, cx: &mut Cx<'_>) -> Result<()> {
        self.cursor = IndexCursor::default();
        self.pending = lookups(terms, row, cx)?;
        self.check = Recheck::of(self.pending.front());
        // Each record occurs once unless the index has an entry per list element. A statement that writes could move
        // an entry while the seek runs.
        self.repeats =
            self.pending.len() > 1 || cx.tx.view_reads().notes() || terms.has_elements(cx);
        if terms.descending {
            self.pending.make_contiguous().reverse();
        }
        Ok(())
    }

    /// The next records of the current range, at most about `limit`; none if no range is left.
    fn next<T>(
        &mut self,
        terms: SeekTerms<'_>,
        cx: &mut Cx<'_>,
        read: impl FnOnce(
            &mut Cx<'_>,
            &IndexSeek<'_>,
            &mut IndexCursor,
            &mut Vec<T>,
        ) -> std::result::Result<(), DataError>,
    ) -> Result<Option<Vec<T>>> {
        let Some(lookup) = self.pending.front() else {
            return Ok(None);
        };
        let order = match terms.descending {
            true => Order::Descending,
            false => Order::Ascending,
        };
        let seek = IndexSeek {
            index: terms.index,
            prefix: &lookup.prefix,
            range: (lookup.from.as_ref(), lookup.to.as_ref()),
            order,
        };
        let mut found = Vec::new();
        read(cx, &seek, &mut self.cursor, &mut found)?;
        cx.tick(found.len() + 1)?;
        if self.cursor.is_done() {
            self.pending.pop_front();
            self.cursor = IndexCursor::default();
        }
        Ok(Some(found))
    }
}

/// One range of an index.
struct Lookup {
    prefix: Vec<Value>,
    from: Bound<Value>,
    to: Bound<Value>,
}

/// The bounds of a range over values that `<` orders differently than the index does: lists with incomparable elements,
/// maps, durations, points. Values found in the index are compared again under the language's rules.
struct Recheck {
    from: Bound<Value>,
    to: Bound<Value>,
}

impl Recheck {
    fn of(lookup: Option<&Lookup>) -> Option<Self> {
        let Lookup { from, to, .. } = lookup?;
        let partly_ordered = |bound: &Bound<Value>| match bound {
            Bound::Unbounded => false,
            Bound::Included(value) | Bound::Excluded(value) => !matches!(
                value,
                Value::Bool(_)
                    | Value::Int(_)
                    | Value::Float(_)
                    | Value::String(_)
                    | Value::Date(_)
                    | Value::LocalTime(_)
                    | Value::LocalDateTime(_)
            ),
        };
        (partly_ordered(from) || partly_ordered(to)).then(|| Self {
            from: from.clone(),
            to: to.clone(),
        })
    }

    /// Which of these records, given by their properties, have a value of the index field `field` that satisfies the
    /// bounds.
    fn passes(&self, terms: SeekTerms<'_>, records: &[Option<Map>], cx: &Cx<'_>) -> Vec<bool> {
        let catalog = cx.tx.catalog();
        let index = catalog.index(terms.index);
        let field = index.and_then(|index| index.fields.get(terms.prefix.len()));
        let passes = |properties: &Option<Map>| {
            let Some(field) = field else { return true };
            let found = properties
                .as_ref()
                .and_then(|properties| at_path(properties, &field.path.0));
            found.is_some_and(|found| match found.as_list() {
                Some(elements) if field.each => elements.iter().any(|one| self.holds(one)),
                _ => self.holds(found),
            })
        };
        records.iter().map(passes).collect()
    }

    fn holds(&self, value: &Value) -> bool {
        use isomer_value::equality::compare;
        let above = match &self.from {
            Bound::Unbounded => Some(true),
            Bound::Included(from) => compare(value, from).greater_or_equal(),
            Bound::Excluded(from) => compare(value, from).greater(),
        };
        let below = match &self.to {
            Bound::Unbounded => Some(true),
            Bound::Included(to) => compare(value, to).less_or_equal(),
            Bound::Excluded(to) => compare(value, to).less(),
        };
        above == Some(true) && below == Some(true)
    }
}

/// The value at a path of names through nested maps.
fn at_path<'m>(map: &'m Map, path: &[std::sync::Arc<str>]) -> Option<&'m Value> {
    let (first, rest) = path.split_first()?;
    let value = map.get(first)?;
    if rest.is_empty() {
        return Some(value);
    }
    at_path(value.as_map()?, rest)
}

impl<E: IndexedEntity> Seek<E> {
    pub(super) fn new(op_ref: OperatorRef, input: Child) -> Self {
        Self {
            op_ref,
            input: RowInput::new(input),
            batch: Batch::default(),
            ranges: SeekRanges::default(),
            seen: FxHashSet::default(),
        }
    }
}

impl<E: IndexedEntity> Operate for Seek<E> {
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        let op_ref = self.op_ref.clone();
        let terms = E::terms(op_ref.op()).ok_or_else(|| misplaced(op_ref.op()))?;
        let limit = self.batch.next();
        let mut rows: Vec<u32> = Vec::new();
        let mut columns = E::Columns::default();
        while rows.len() < limit {
            let left = limit - rows.len();
            let found = self.ranges.next(terms, cx, |cx, seek, cursor, found| {
                E::read(cx, seek, cursor, left, found)
            })?;
            let Some(mut found) = found else {
                if !rows.is_empty() && !self.input.has_more() {
                    break;
                }
                if !self.input.advance(cx)? {
                    return Ok(None);
                }
                self.seen.clear();
                self.ranges.start(terms, self.input.row()?, cx)?;
                continue;
            };
            if self.ranges.repeats {
                found.retain(|entity: &E| self.seen.insert(entity.id()));
            }
            if let Some(check) = &self.ranges.check {
                let properties = E::properties(&found, cx)?;
                let mut passes = check.passes(terms, &properties, cx).into_iter();
                found.retain(|_| passes.next().unwrap_or_default());
            }
            let mut count = rows.len();
            for entity in found {
                count = entity.push(op_ref.op(), &mut columns);
            }
            rows.resize(count, self.input.position());
        }
        let mut chunk = self.input.gather(&op_ref, &rows);
        E::set(columns, &op_ref, &mut chunk);
        Ok(Some(chunk))
    }

    fn open(&mut self, argument: &Argument) {
        self.input.open(argument);
        self.ranges.pending.clear();
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        self.input.close(cx);
        self.ranges.pending.clear();
        self.seen.clear();
    }
}

impl IndexedEntity for NodeId {
    type Id = Self;
    type Columns = Vec<Self>;

    fn terms(op: &Op) -> Option<SeekTerms<'_>> {
        let Op::IndexSeek(seek) = op else { return None };
        Some(SeekTerms {
            index: seek.index,
            prefix: &seek.prefix,
            range: &seek.range,
            descending: seek.descending,
        })
    }

    fn id(&self) -> Self {
        *self
    }

    fn read(
        cx: &Cx<'_>,
        seek: &IndexSeek<'_>,
        cursor: &mut IndexCursor,
        limit: usize,
        found: &mut Vec<Self>,
    ) -> std::result::Result<(), DataError> {
        cx.reader().index_seek(seek, cursor, limit, found)
    }

    fn properties(found: &[Self], cx: &Cx<'_>) -> Result<Vec<Option<Map>>> {
        let mut contents = Vec::with_capacity(found.len());
        cx.reader().node_contents(found, &mut contents)?;
        let properties = contents.iter().map(|content| {
            let content = content.as_ref()?;
            Some(content.properties.clone())
        });
        Ok(properties.collect())
    }

    fn push(self, _: &Op, columns: &mut Self::Columns) -> usize {
        columns.push(self);
        columns.len()
    }

    fn set(columns: Self::Columns, op_ref: &OperatorRef, chunk: &mut Chunk) {
        if let Op::IndexSeek(seek) = op_ref.op() {
            set_live(op_ref, chunk, seek.node, Column::Nodes(columns));
        }
    }
}

/// Relationships with the ends that they were found with.
#[derive(Default)]
pub(super) struct RelationshipColumns {
    relationships: Vec<RelRow>,
    from: Vec<NodeId>,
    to: Vec<NodeId>,
}

impl IndexedEntity for RelRow {
    type Id = RelId;
    type Columns = RelationshipColumns;

    fn terms(op: &Op) -> Option<SeekTerms<'_>> {
        let Op::RelationshipIndexSeek(seek) = op else {
            return None;
        };
        Some(SeekTerms {
            index: seek.index,
            prefix: &seek.prefix,
            range: &seek.range,
            descending: seek.descending,
        })
    }

    fn id(&self) -> RelId {
        self.id
    }

    fn read(
        cx: &Cx<'_>,
        seek: &IndexSeek<'_>,
        cursor: &mut IndexCursor,
        limit: usize,
        found: &mut Vec<Self>,
    ) -> std::result::Result<(), DataError> {
        let reader = cx.reader();
        reader.relationship_index_seek(seek, cursor, limit, found)
    }

    fn properties(found: &[Self], cx: &Cx<'_>) -> Result<Vec<Option<Map>>> {
        let ids: Vec<RelId> = found.iter().map(|rel| rel.id).collect();
        let mut contents = Vec::with_capacity(ids.len());
        cx.reader().relationship_contents(&ids, &mut contents)?;
        let properties = contents.iter().map(|content| {
            let content = content.as_ref()?;
            Some(content.properties.clone())
        });
        Ok(properties.collect())
    }

    fn push(self, op: &Op, columns: &mut Self::Columns) -> usize {
        if let Op::RelationshipIndexSeek(seek) = op {
            each_end_pair(self, seek.scan.direction, |rel, from, to| {
                columns.relationships.push(rel);
                columns.from.push(from);
                columns.to.push(to);
            });
        }
        columns.relationships.len()
    }

    fn set(columns: Self::Columns, op_ref: &OperatorRef, chunk: &mut Chunk) {
        let Op::RelationshipIndexSeek(seek) = op_ref.op() else {
            return;
        };
        let RelationshipColumns {
            relationships,
            from,
            to,
        } = columns;
        let scan = &seek.scan;
        set_live(
            op_ref,
            chunk,
            scan.relationship,
            Column::Rels(relationships),
        );
        set_live(op_ref, chunk, scan.from, Column::Nodes(from));
        set_live(op_ref, chunk, scan.to, Column::Nodes(to));
    }
}

/// The index ranges to read for one row.
fn lookups(seek: SeekTerms<'_>, row: Row<'_>, cx: &mut Cx<'_>) -> Result<VecDeque<Lookup>> {
    let mut prefix = Vec::with_capacity(seek.prefix.len() + 1);
    for expr in seek.prefix {
        let component = value(expr, row, cx)?;
        // Null, and values that contain null or NaN, equal nothing, not even themselves. A value that equals itself
        // equals exactly the values with the same index key, so no filter is needed after the seek.
        if isomer_value::equality::equal(&component, &component) != Some(true) {
            return Ok(VecDeque::new());
        }
        prefix.push(component);
    }
    Ok(match seek.range {
        IndexRange::All => VecDeque::from([Lookup {
            prefix,
            from: Bound::Unbounded,
            to: Bound::Unbounded,
        }]),
        IndexRange::Keys(keys) => {
            let mut keys = seek_keys(keys, row, cx)?;
            keys.retain(|key| isomer_value::equality::equal(key, key) == Some(true));
            keys.sort_by(isomer_value::order::cmp_order);
            keys.into_iter()
                .map(|key| {
                    let mut prefix = prefix.clone();
                    prefix.push(key);
                    Lookup {
                        prefix,
                        from: Bound::Unbounded,
                        to: Bound::Unbounded,
                    }
                })
                .collect()
        }
        IndexRange::Between(from, to) => {
            let (Some(from), Some(to)) = (bound(from, row, cx)?, bound(to, row, cx)?) else {
                return Ok(VecDeque::new());
            };
            // `1 < x < 'a'` is null for every x.
            if let (
                Bound::Included(a) | Bound::Excluded(a),
                Bound::Included(b) | Bound::Excluded(b),
            ) = (&from, &to)
                && matches!(
                    isomer_value::equality::compare(a, b),
                    isomer_value::equality::ComparisonResult::Unknown
                )
            {
                return Ok(VecDeque::new());
            }
            VecDeque::from([Lookup { prefix, from, to }])
        }
        IndexRange::StartsWith(expr) => match value(expr, row, cx)? {
            Value::String(start) => {
                let to = after_prefix(&start)
                    .map_or(Bound::Unbounded, |end| Bound::Excluded(Value::from(end)));
                VecDeque::from([Lookup {
                    prefix,
                    from: Bound::Included(Value::String(start)),
                    to,
                }])
            }
            _ => VecDeque::new(),
        },
    })
}

/// The value of a bound; none if it is null or NaN, for which every comparison fails.
fn bound(bound: &SeekBound, row: Row<'_>, cx: &mut Cx<'_>) -> Result<Option<Bound<Value>>> {
    let usable = |value: Value| match value {
        Value::Null => None,
        Value::Float(float) if float.is_nan() => None,
        other => Some(other),
    };
    Ok(match bound {
        SeekBound::Unbounded => Some(Bound::Unbounded),
        SeekBound::Included(expr) => usable(value(expr, row, cx)?).map(Bound::Included),
        SeekBound::Excluded(expr) => usable(value(expr, row, cx)?).map(Bound::Excluded),
    })
}

/// The smallest string greater than all strings with this prefix; none if there is no such string.
fn after_prefix(prefix: &str) -> Option<String> {
    let mut chars: Vec<char> = prefix.chars().collect();
    while let Some(last) = chars.pop() {
        let next = match last {
            '\u{d7ff}' => Some('\u{e000}'),
            other => char::from_u32(other as u32 + 1),
        };
        if let Some(next) = next {
            chars.push(next);
            return Some(chars.into_iter().collect());
        }
    }
    None
}
