//! Where nodes and relationships come from: scans, and lookups by key, id and index. Each runs once per input row.

use std::{collections::VecDeque, ops::Bound};

use isomer_data::{GraphRead, IndexCursor, IndexSeek, Order, RelRow};
use isomer_plan::{
    expr::{Expr, SlotId},
    physical::{Direction, IndexRange, Op, SeekBound, SeekKeys},
};
use isomer_value::{GroupKey, LabelId, NodeId, RelId, Value};
use rustc_hash::FxHashSet;

use super::{Argument, Batch, Child, Operate, Spot};
use crate::{
    chunk::Chunk,
    column::Column,
    context::{Cx, TypeFilter},
    error::{ExecError, Result, shown},
    eval::{Row, value},
};

/// The input of an operator that fans each row out: the chunk it is in and the row it is at.
pub(super) struct RowInput {
    child: Child,
    chunk: Option<Chunk>,
    row: usize,
}

impl RowInput {
    pub(super) fn new(child: Child) -> Self {
        Self {
            child,
            chunk: None,
            row: 0,
        }
    }

    /// Goes to the next row; false at the end.
    pub(super) fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        self.row += 1;
        if self
            .chunk
            .as_ref()
            .is_some_and(|chunk| self.row < chunk.len())
        {
            return Ok(true);
        }
        self.row = 0;
        self.chunk = self.child.pull_flat(cx)?;
        Ok(self.chunk.is_some())
    }

    /// The row it is at.
    pub(super) fn row(&self) -> Result<Row<'_>> {
        match &self.chunk {
            Some(chunk) => Ok(Row {
                chunk,
                row: self.row,
            }),
            None => Err(ExecError::Internal(
                "an operator looked at a row before its first".into(),
            )),
        }
    }

    /// The row it is at, `times` times, as a chunk of its own.
    pub(super) fn repeat(&self, spot: &Spot, times: usize) -> Chunk {
        let mut made = Chunk::new(times, spot.plan.slots.len());
        if let Some(chunk) = &self.chunk {
            for slot in chunk.slots().filter(|slot| spot.is_live(*slot)) {
                made.set(slot, Column::Const(chunk.value(slot, self.row)));
            }
        }
        made
    }

    pub(super) fn open(&mut self, argument: &Argument) {
        self.child.open(argument);
        self.chunk = None;
        self.row = 0;
    }

    pub(super) fn close(&mut self, cx: &mut Cx<'_>) {
        self.child.close(cx);
        self.chunk = None;
    }
}

/// All nodes, or those of a label.
pub(super) struct NodeScan {
    spot: Spot,
    input: RowInput,
    batch: Batch,
    scanning: bool,
    after: Option<NodeId>,
}

impl NodeScan {
    pub(super) fn new(spot: Spot, input: Child) -> Self {
        Self {
            spot,
            input: RowInput::new(input),
            batch: Batch::default(),
            scanning: false,
            after: None,
        }
    }
}

impl Operate for NodeScan {
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        let (node, label) = match self.spot.op() {
            Op::AllNodesScan { node, .. } => (*node, None),
            Op::LabelScan { node, label, .. } => (*node, Some(*label)),
            other => return Err(misplaced(other)),
        };
        loop {
            if !self.scanning {
                if !self.input.advance(cx)? {
                    return Ok(None);
                }
                self.scanning = true;
                self.after = None;
            }
            let label = match label {
                None => None,
                Some(label) => match cx.label(label) {
                    Some(id) => Some(id),
                    None => {
                        self.scanning = false;
                        continue;
                    }
                },
            };
            let limit = self.batch.next();
            let mut found = Vec::with_capacity(limit);
            cx.tx.scan_nodes(label, self.after, limit, &mut found)?;
            self.scanning = found.len() == limit;
            let Some(last) = found.last() else { continue };
            self.after = Some(*last);
            let mut chunk = self.input.repeat(&self.spot, found.len());
            if self.spot.is_live(node) {
                chunk.set(node, Column::Nodes(found));
            }
            return Ok(Some(chunk));
        }
    }

    fn open(&mut self, argument: &Argument) {
        self.input.open(argument);
        self.scanning = false;
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        self.input.close(cx);
        self.scanning = false;
    }
}

pub(super) fn misplaced(op: &Op) -> ExecError {
    ExecError::Internal(format!(
        "an operator's state met the plan of another one: {op:?}"
    ))
}

/// The keys of a seek for one row: nulls left out, each once.
fn seek_keys(keys: &SeekKeys, row: Row<'_>, cx: &mut Cx<'_>) -> Result<Vec<Value>> {
    match keys {
        SeekKeys::One(expr) => {
            let key = value(expr, row, cx)?;
            Ok(if key.is_null() { Vec::new() } else { vec![key] })
        }
        SeekKeys::Each(expr) => match value(expr, row, cx)? {
            Value::Null => Ok(Vec::new()),
            Value::List(items) => {
                let mut seen = FxHashSet::default();
                Ok(items
                    .iter()
                    .filter(|key| !key.is_null() && seen.insert(GroupKey((*key).clone())))
                    .cloned()
                    .collect())
            }
            other => Err(ExecError::type_mismatch(format!(
                "IN looks into a list, not into {}",
                shown(&other)
            ))),
        },
    }
}

/// A number that is whole, whatever its type.
fn whole(key: &Value) -> Option<u64> {
    match key {
        Value::Int(id) => u64::try_from(*id).ok(),
        Value::Float(id) if id.fract() == 0.0 && *id >= 0.0 && *id < 9e15 => Some(*id as u64),
        _ => None,
    }
}

/// Nodes by key or by id.
pub(super) struct NodeLookup {
    spot: Spot,
    input: Child,
}

impl NodeLookup {
    pub(super) fn new(spot: Spot, input: Child) -> Self {
        Self { spot, input }
    }
}

impl Operate for NodeLookup {
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        let Some(chunk) = self.input.pull_flat(cx)? else {
            return Ok(None);
        };
        let (mut rows, mut nodes) = (Vec::new(), Vec::new());
        let slot = match self.spot.op() {
            Op::NodeByKey {
                node, label, keys, ..
            } => {
                if let Some(label) = cx.label(*label) {
                    for row in 0..chunk.len() {
                        for key in seek_keys(keys, Row { chunk: &chunk, row }, cx)? {
                            if let Some(found) = node_by_key(label, &key, cx)? {
                                rows.push(row as u32);
                                nodes.push(found);
                            }
                        }
                    }
                }
                *node
            }
            Op::NodeById { node, ids, .. } => {
                let (mut asked_rows, mut asked, mut exist) = (Vec::new(), Vec::new(), Vec::new());
                for row in 0..chunk.len() {
                    for id in seek_keys(ids, Row { chunk: &chunk, row }, cx)?
                        .iter()
                        .filter_map(whole)
                    {
                        asked_rows.push(row as u32);
                        asked.push(NodeId(id));
                    }
                }
                cx.tx.nodes_exist(&asked, &mut exist)?;
                for (at, _) in exist.iter().enumerate().filter(|(_, exists)| **exists) {
                    rows.push(asked_rows[at]);
                    nodes.push(asked[at]);
                }
                *node
            }
            other => return Err(misplaced(other)),
        };
        let mut made = chunk.gather(&rows);
        made.set(slot, Column::Nodes(nodes));
        self.spot.prune(&mut made);
        Ok(Some(made))
    }

    fn open(&mut self, argument: &Argument) {
        self.input.open(argument);
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        self.input.close(cx);
    }
}

/// The node with a key; values that cannot be keys find nothing, and `1.0` finds what `1` does.
fn node_by_key(label: LabelId, key: &Value, cx: &mut Cx<'_>) -> Result<Option<NodeId>> {
    match key {
        Value::Int(_) | Value::String(_) => Ok(cx.tx.node_by_key(label, key)?),
        Value::Float(float) if float.fract() == 0.0 && float.abs() < 9e15 => {
            Ok(cx.tx.node_by_key(label, &Value::Int(*float as i64))?)
        }
        _ => Ok(None),
    }
}

/// Nodes through an index.
pub(super) struct Seek {
    spot: Spot,
    input: RowInput,
    batch: Batch,
    /// What is still to be looked for, for the row that the input is at.
    pending: VecDeque<Lookup>,
    cursor: IndexCursor,
    seen: FxHashSet<NodeId>,
    /// What the index's order cannot tell about the range that it looks into.
    check: Option<Recheck>,
}

/// One range of an index.
struct Lookup {
    prefix: Vec<Value>,
    from: Bound<Value>,
    to: Bound<Value>,
}

impl Seek {
    pub(super) fn new(spot: Spot, input: Child) -> Self {
        Self {
            spot,
            input: RowInput::new(input),
            batch: Batch::default(),
            pending: VecDeque::new(),
            cursor: IndexCursor::default(),
            seen: FxHashSet::default(),
            check: None,
        }
    }
}

/// The bounds of a range over values that `<` does not order as the index does: lists with incomparable elements,
/// maps, durations, points. What the index finds is compared once more, as the language would.
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

    /// Keeps the nodes whose value at the index's field number `field` lies between the bounds.
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
        cx.tx.node_contents(nodes, &mut contents)?;
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
        let spot = self.spot.clone();
        let Op::IndexSeek(seek) = spot.op() else {
            return Err(misplaced(spot.op()));
        };
        loop {
            let Some(lookup) = self.pending.front() else {
                if !self.input.advance(cx)? {
                    return Ok(None);
                }
                self.seen.clear();
                self.cursor = IndexCursor::default();
                self.pending = lookups(seek, self.input.row()?, cx)?;
                self.check = Recheck::of(self.pending.front());
                if seek.descending {
                    self.pending.make_contiguous().reverse();
                }
                continue;
            };
            let mut found = Vec::new();
            let limit = self.batch.next();
            cx.tx.index_seek(
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
                limit,
                &mut found,
            )?;
            if self.cursor.is_done() {
                self.pending.pop_front();
                self.cursor = IndexCursor::default();
            }
            found.retain(|node| self.seen.insert(*node));
            cx.tick(limit)?;
            if let Some(check) = &self.check {
                check.retain(seek.index, seek.prefix.len(), &mut found, cx)?;
            }
            if found.is_empty() {
                continue;
            }
            let mut chunk = self.input.repeat(&self.spot, found.len());
            chunk.set(seek.node, Column::Nodes(found));
            return Ok(Some(chunk));
        }
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

/// The ranges that a seek looks into for one row.
fn lookups(
    seek: &isomer_plan::physical::IndexSeek,
    row: Row<'_>,
    cx: &mut Cx<'_>,
) -> Result<VecDeque<Lookup>> {
    let mut prefix = Vec::with_capacity(seek.prefix.len() + 1);
    for expr in &seek.prefix {
        let component = value(expr, row, cx)?;
        // Null and what holds a null is equal to nothing, not even to itself.
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
                    isomer_value::equality::Comparison::Unknown
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

/// A bound's value; none if it is null or NaN, for which every comparison fails.
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

/// The first string after all that start with `prefix`, where there is one.
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

/// Appends what a relationship between `from` and `to` gives under a direction: (row, from, to), the loop once.
fn ways(rel: RelRow, direction: Direction, mut emit: impl FnMut(RelRow, NodeId, NodeId)) {
    match direction {
        Direction::Outgoing => emit(rel, rel.source, rel.target),
        Direction::Incoming => emit(rel, rel.target, rel.source),
        Direction::Both => {
            emit(rel, rel.source, rel.target);
            if rel.source != rel.target {
                emit(rel, rel.target, rel.source);
            }
        }
    }
}

/// All relationships of some types.
pub(super) struct RelationshipScan {
    spot: Spot,
    input: RowInput,
    batch: Batch,
    filter: Option<TypeFilter>,
    type_at: usize,
    after: Option<RelId>,
}

impl RelationshipScan {
    pub(super) fn new(spot: Spot, input: Child) -> Self {
        Self {
            spot,
            input: RowInput::new(input),
            batch: Batch::default(),
            filter: None,
            type_at: 0,
            after: None,
        }
    }
}

impl Operate for RelationshipScan {
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        let spot = self.spot.clone();
        let Op::RelationshipScan(scan) = spot.op() else {
            return Err(misplaced(spot.op()));
        };
        loop {
            let Some(filter) = &self.filter else {
                if !self.input.advance(cx)? {
                    return Ok(None);
                }
                self.filter = Some(cx.type_filter(&scan.types));
                (self.type_at, self.after) = (0, None);
                continue;
            };
            let rel_type = match filter {
                TypeFilter::Any if self.type_at == 0 => None,
                TypeFilter::These(ids) if self.type_at < ids.len() => Some(ids[self.type_at]),
                _ => {
                    self.filter = None;
                    continue;
                }
            };
            let limit = self.batch.next();
            let mut found = Vec::with_capacity(limit);
            cx.tx
                .scan_relationships(rel_type, self.after, limit, &mut found)?;
            match found.last() {
                Some(last) if found.len() == limit => self.after = Some(last.id),
                _ => {
                    self.type_at += 1;
                    self.after = None;
                }
            }
            if found.is_empty() {
                continue;
            }
            let (mut rels, mut from, mut to) = (Vec::new(), Vec::new(), Vec::new());
            for rel in found {
                ways(rel, scan.direction, |rel, a, b| {
                    rels.push(rel);
                    from.push(a);
                    to.push(b);
                });
            }
            let mut chunk = self.input.repeat(&self.spot, rels.len());
            chunk.set(scan.relationship, Column::Rels(rels));
            chunk.set(scan.from, Column::Nodes(from));
            chunk.set(scan.to, Column::Nodes(to));
            self.spot.prune(&mut chunk);
            return Ok(Some(chunk));
        }
    }

    fn open(&mut self, argument: &Argument) {
        self.input.open(argument);
        self.filter = None;
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        self.input.close(cx);
        self.filter = None;
    }
}

/// Relationships by id.
pub(super) struct RelationshipLookup {
    spot: Spot,
    input: Child,
}

impl RelationshipLookup {
    pub(super) fn new(spot: Spot, input: Child) -> Self {
        Self { spot, input }
    }
}

impl Operate for RelationshipLookup {
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        let spot = self.spot.clone();
        let Op::RelationshipById {
            relationship,
            from,
            to,
            direction,
            ids,
            ..
        } = spot.op()
        else {
            return Err(misplaced(spot.op()));
        };
        let Some(chunk) = self.input.pull_flat(cx)? else {
            return Ok(None);
        };
        let (mut asked_rows, mut asked, mut found) = (Vec::new(), Vec::new(), Vec::new());
        for row in 0..chunk.len() {
            for id in seek_keys(ids, Row { chunk: &chunk, row }, cx)?
                .iter()
                .filter_map(whole)
            {
                asked_rows.push(row as u32);
                asked.push(RelId(id));
            }
        }
        cx.tx.relationship_rows(&asked, &mut found)?;
        let (mut rows, mut rels, mut froms, mut tos) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (at, rel) in found.into_iter().enumerate() {
            let Some(rel) = rel else { continue };
            ways(rel, *direction, |rel, a, b| {
                rows.push(asked_rows[at]);
                rels.push(rel);
                froms.push(a);
                tos.push(b);
            });
        }
        let mut made = chunk.gather(&rows);
        made.set(*relationship, Column::Rels(rels));
        made.set(*from, Column::Nodes(froms));
        made.set(*to, Column::Nodes(tos));
        self.spot.prune(&mut made);
        Ok(Some(made))
    }

    fn open(&mut self, argument: &Argument) {
        self.input.open(argument);
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        self.input.close(cx);
    }
}

/// A count that reads no slots: a non-negative integer.
pub(super) fn row_count(expr: &Expr, clause: &str, cx: &mut Cx<'_>) -> Result<u64> {
    let empty = Chunk::new(1, 0);
    match value(
        expr,
        Row {
            chunk: &empty,
            row: 0,
        },
        cx,
    )? {
        Value::Int(count) => u64::try_from(count).map_err(|_| {
            ExecError::raised(
                crate::ErrorClass::SyntaxError,
                "NegativeIntegerArgument",
                format!("{clause} is {count}: it must not be negative"),
            )
        }),
        other => Err(ExecError::raised(
            crate::ErrorClass::SyntaxError,
            "InvalidArgumentType",
            format!("{clause} takes an integer, not {}", shown(&other)),
        )),
    }
}

/// Puts a slot's column where somebody reads it.
pub(super) fn set_live(spot: &Spot, chunk: &mut Chunk, slot: SlotId, column: Column) {
    if spot.is_live(slot) {
        chunk.set(slot, column);
    }
}
