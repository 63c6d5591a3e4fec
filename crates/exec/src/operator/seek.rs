//! Index seeks: equality, lists of keys, ranges, prefixes of strings.

use std::{collections::VecDeque, ops::Bound};

use isomer_data::{GraphRead, IndexCursor, IndexSeek, Order};
use isomer_plan::physical::{IndexRange, Op, SeekBound};
use isomer_value::{NodeId, Value};
use rustc_hash::FxHashSet;

use super::{
    Argument, Batch, Child, Operate, OperatorRef,
    input::{RowInput, set_live},
    scan::{misplaced, seek_keys},
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
    /// Ranges that remain to be read for the current input row.
    pending: VecDeque<Lookup>,
    cursor: IndexCursor,
    /// Whether the same node can be found twice for one row.
    repeats: bool,
    seen: FxHashSet<NodeId>,
    /// Comparisons that the index order cannot decide for the current range.
    check: Option<Recheck>,
}

/// One range of an index.
struct Lookup {
    prefix: Vec<Value>,
    from: Bound<Value>,
    to: Bound<Value>,
}

impl Seek {
    pub(super) fn new(op_ref: OperatorRef, input: Child) -> Self {
        Self {
            op_ref,
            input: RowInput::new(input),
            batch: Batch::default(),
            pending: VecDeque::new(),
            cursor: IndexCursor::default(),
            repeats: true,
            seen: FxHashSet::default(),
            check: None,
        }
    }
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

    /// Keeps the nodes whose value of the index field `field` satisfies the bounds.
    fn retain(
        &self,
        index: isomer_value::IndexId,
        field: usize,
        nodes: &mut Vec<NodeId>,
        cx: &mut Cx<'_>,
    ) -> Result<()> {
        let catalog = cx.tx.catalog();
        let Some(field) = catalog
            .index(index)
            .and_then(|index| index.fields.get(field))
        else {
            return Ok(());
        };
        let mut contents = Vec::with_capacity(nodes.len());
        cx.reader().node_contents(nodes, &mut contents)?;
        let mut contents = contents.into_iter();
        nodes.retain(|_| {
            let content = contents.next().flatten();
            let found = content
                .as_ref()
                .and_then(|content| at_path(&content.properties, &field.path.0));
            found.is_some_and(|found| match found.as_list() {
                Some(elements) if field.each => elements.iter().any(|one| self.holds(one)),
                _ => self.holds(found),
            })
        });
        Ok(())
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
fn at_path<'m>(map: &'m isomer_value::Map, path: &[std::sync::Arc<str>]) -> Option<&'m Value> {
    let (first, rest) = path.split_first()?;
    let value = map.get(first)?;
    if rest.is_empty() {
        return Some(value);
    }
    at_path(value.as_map()?, rest)
}

impl Operate for Seek {
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        let op_ref = self.op_ref.clone();
        let Op::IndexSeek(seek) = op_ref.op() else {
            return Err(misplaced(op_ref.op()));
        };
        let limit = self.batch.next();
        let (mut rows, mut nodes) = (Vec::new(), Vec::new());
        while nodes.len() < limit {
            let Some(lookup) = self.pending.front() else {
                if !nodes.is_empty() && !self.input.has_more() {
                    break;
                }
                if !self.input.advance(cx)? {
                    return Ok(None);
                }
                self.seen.clear();
                self.cursor = IndexCursor::default();
                self.pending = lookups(seek, self.input.row()?, cx)?;
                self.check = Recheck::of(self.pending.front());
                // Each node occurs once unless the index has an entry per list element. A statement that writes could
                // move an entry while the seek runs.
                self.repeats =
                    self.pending.len() > 1 || cx.tx.view_reads().notes() || has_elements(seek, cx);
                if seek.descending {
                    self.pending.make_contiguous().reverse();
                }
                continue;
            };
            let mut found = Vec::new();
            cx.reader().index_seek(
                &IndexSeek {
                    index: seek.index,
                    prefix: &lookup.prefix,
                    range: (lookup.from.as_ref(), lookup.to.as_ref()),
                    order: if seek.descending {
                        Order::Descending
                    } else {
                        Order::Ascending
                    },
                },
                &mut self.cursor,
                limit - nodes.len(),
                &mut found,
            )?;
            cx.tick(found.len() + 1)?;
            if self.cursor.is_done() {
                self.pending.pop_front();
                self.cursor = IndexCursor::default();
            }
            if self.repeats {
                found.retain(|node| self.seen.insert(*node));
            }
            if let Some(check) = &self.check {
                check.retain(seek.index, seek.prefix.len(), &mut found, cx)?;
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
        self.pending.clear();
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        self.input.close(cx);
        self.pending.clear();
        self.seen.clear();
    }
}

/// Whether the index has an entry for each element of a list.
fn has_elements(seek: &isomer_plan::physical::NodeIndexSeek, cx: &Cx<'_>) -> bool {
    let catalog = cx.tx.catalog();
    let index = catalog.index(seek.index);
    index.is_none_or(|index| index.fields.iter().any(|field| field.each))
}

/// The index ranges to read for one row.
fn lookups(
    seek: &isomer_plan::physical::NodeIndexSeek,
    row: Row<'_>,
    cx: &mut Cx<'_>,
) -> Result<VecDeque<Lookup>> {
    let mut prefix = Vec::with_capacity(seek.prefix.len() + 1);
    for expr in &seek.prefix {
        let component = value(expr, row, cx)?;
        // Null, and values that contain null or NaN, equal nothing, not even themselves. A value that equals itself
        // equals exactly the values with the same index key, so no filter is needed after the seek.
        if isomer_value::equality::equal(&component, &component) != Some(true) {
            return Ok(VecDeque::new());
        }
        prefix.push(component);
    }
    Ok(match &seek.range {
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
