//! Seeks of nodes and relationships in indexes: equality, lists of keys, ranges, prefixes of strings.

use std::{collections::VecDeque, ops::Bound};

use isomer_data::{DataError, GraphRead, IndexCursor, IndexSeek, Order, RelRow};
use isomer_plan::{
    expr::BoundExpr,
    physical::{IndexRange, NodeIndexSeek, Op, RelationshipIndexSeek, SeekBound},
};
use isomer_value::{IndexId, Map, NodeId, RelId, Value};
use rustc_hash::FxHashSet;

use super::{
    Argument, Batch, Child, Operate, OperatorRef,
    input::{RowInput, set_live},
    scan::{misplaced, seek_keys, ways},
};
use crate::{
    chunk::Chunk,
    column::Column,
    context::Cx,
    error::Result,
    eval::{Row, value},
};

/// Finds nodes through an index.
pub(super) struct Seek {
    op_ref: OperatorRef,
    input: RowInput,
    batch: Batch,
    ranges: SeekRanges,
    seen: FxHashSet<NodeId>,
}

/// Finds relationships and both their ends through an index.
pub(super) struct RelSeek {
    op_ref: OperatorRef,
    input: RowInput,
    batch: Batch,
    ranges: SeekRanges,
    seen: FxHashSet<RelId>,
}

/// What an operator seeks in its index.
#[derive(Clone, Copy)]
struct SeekTerms<'p> {
    index: IndexId,
    prefix: &'p [BoundExpr],
    range: &'p IndexRange,
    descending: bool,
}

impl<'p> SeekTerms<'p> {
    fn of_nodes(seek: &'p NodeIndexSeek) -> Self {
        Self {
            index: seek.index,
            prefix: &seek.prefix,
            range: &seek.range,
            descending: seek.descending,
        }
    }

    fn of_relationships(seek: &'p RelationshipIndexSeek) -> Self {
        Self {
            index: seek.index,
            prefix: &seek.prefix,
            range: &seek.range,
            descending: seek.descending,
        }
    }

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
    fn passes<'m>(
        &self,
        terms: SeekTerms<'_>,
        records: impl Iterator<Item = Option<&'m Map>>,
        cx: &Cx<'_>,
    ) -> Vec<bool> {
        let catalog = cx.tx.catalog();
        let index = catalog.index(terms.index);
        let field = index.and_then(|index| index.fields.get(terms.prefix.len()));
        let passes = |properties: Option<&Map>| {
            let Some(field) = field else { return true };
            let found = properties.and_then(|properties| at_path(properties, &field.path.0));
            found.is_some_and(|found| match found.as_list() {
                Some(elements) if field.each => elements.iter().any(|one| self.holds(one)),
                _ => self.holds(found),
            })
        };
        records.map(passes).collect()
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

impl Seek {
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

impl Operate for Seek {
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        let op_ref = self.op_ref.clone();
        let Op::IndexSeek(seek) = op_ref.op() else {
            return Err(misplaced(op_ref.op()));
        };
        let terms = SeekTerms::of_nodes(seek);
        let limit = self.batch.next();
        let (mut rows, mut nodes): (Vec<u32>, Vec<NodeId>) = (Vec::new(), Vec::new());
        while nodes.len() < limit {
            let left = limit - nodes.len();
            let found = self.ranges.next(terms, cx, |cx, seek, cursor, found| {
                cx.reader().index_seek(seek, cursor, left, found)
            })?;
            let Some(mut found) = found else {
                if !nodes.is_empty() && !self.input.has_more() {
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
                found.retain(|node| self.seen.insert(*node));
            }
            if let Some(check) = &self.ranges.check {
                let mut contents = Vec::with_capacity(found.len());
                cx.reader().node_contents(&found, &mut contents)?;
                let properties = contents
                    .iter()
                    .map(|content| content.as_ref().map(|content| &content.properties));
                let mut passes = check.passes(terms, properties, cx).into_iter();
                found.retain(|_| passes.next().unwrap_or_default());
            }
            nodes.extend(found);
            rows.resize(nodes.len(), self.input.position());
        }
        let mut chunk = self.input.gather(&op_ref, &rows);
        set_live(&op_ref, &mut chunk, seek.node, Column::Nodes(nodes));
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

impl RelSeek {
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

impl Operate for RelSeek {
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        let op_ref = self.op_ref.clone();
        let Op::RelationshipIndexSeek(seek) = op_ref.op() else {
            return Err(misplaced(op_ref.op()));
        };
        let terms = SeekTerms::of_relationships(seek);
        let limit = self.batch.next();
        let mut rows: Vec<u32> = Vec::new();
        let (mut rels, mut from, mut to) = (Vec::new(), Vec::new(), Vec::new());
        while rels.len() < limit {
            let left = limit - rels.len();
            let found = self.ranges.next(terms, cx, |cx, seek, cursor, found| {
                let reader = cx.reader();
                reader.relationship_index_seek(seek, cursor, left, found)
            })?;
            let Some(mut found) = found else {
                if !rels.is_empty() && !self.input.has_more() {
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
                found.retain(|rel: &RelRow| self.seen.insert(rel.id));
            }
            if let Some(check) = &self.ranges.check {
                let ids: Vec<RelId> = found.iter().map(|rel| rel.id).collect();
                let mut contents = Vec::with_capacity(found.len());
                cx.reader().relationship_contents(&ids, &mut contents)?;
                let properties = contents
                    .iter()
                    .map(|content| content.as_ref().map(|content| &content.properties));
                let mut passes = check.passes(terms, properties, cx).into_iter();
                found.retain(|_| passes.next().unwrap_or_default());
            }
            for rel in found {
                ways(rel, seek.scan.direction, |rel, a, b| {
                    rels.push(rel);
                    from.push(a);
                    to.push(b);
                });
            }
            rows.resize(rels.len(), self.input.position());
        }
        let mut chunk = self.input.gather(&op_ref, &rows);
        set_live(
            &op_ref,
            &mut chunk,
            seek.scan.relationship,
            Column::Rels(rels),
        );
        set_live(&op_ref, &mut chunk, seek.scan.from, Column::Nodes(from));
        set_live(&op_ref, &mut chunk, seek.scan.to, Column::Nodes(to));
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
