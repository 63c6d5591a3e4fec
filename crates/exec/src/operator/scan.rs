//! Sources of nodes and relationships: scans, and lookups by key and id. Each runs once per input row.

use isomer_data::{GraphRead, RelRow};
use isomer_plan::{
    expr::{BoundExpr, LabelRef, SlotId},
    physical::{self, Direction, Op, SeekKeys},
};
use isomer_value::{GroupKey, LabelId, NodeId, RelId, TypeId, Value};
use rustc_hash::FxHashSet;

use super::{
    Argument, Batch, Child, FULL_BATCH, Morsels, Operate, OperatorRef,
    input::{RowInput, set_live},
};
use crate::{
    chunk::Chunk,
    column::Column,
    context::{Cx, TypeFilter},
    error::{ExecError, Result, not_a_list, shown},
    eval::{Row, value},
};

/// All nodes, or those of a label.
pub(super) struct NodeScan {
    op_ref: OperatorRef,
    input: RowInput,
    batch: Batch,
    scanning: bool,
    after: Option<NodeId>,
    /// The ids that remain for this thread, if several threads scan together.
    share: Option<(u64, u64)>,
}

impl NodeScan {
    pub(super) fn new(op_ref: OperatorRef, input: Child) -> Self {
        Self {
            op_ref,
            input: RowInput::new(input),
            batch: Batch::default(),
            scanning: false,
            after: None,
            share: None,
        }
    }

    /// The next nodes of this thread's shares.
    fn next_of_share(
        &mut self,
        morsels: &Morsels,
        node: SlotId,
        label: Option<LabelRef>,
        cx: &mut Cx<'_>,
    ) -> Result<Option<Chunk>> {
        let known = label.map(|label| cx.label(label));
        if known == Some(None) {
            return Ok(None);
        }
        loop {
            let Some((from, to)) = self.share.take().or_else(|| morsels.take()) else {
                return Ok(None);
            };
            cx.run.threads.share = Morsels::number_of(from);
            let wanted = FULL_BATCH.min((to - from) as usize);
            let after = from.checked_sub(1).map(NodeId);
            let mut nodes = Vec::with_capacity(wanted);
            cx.reader()
                .scan_nodes(known.flatten(), after, wanted, &mut nodes)?;
            cx.tick(nodes.len() + 1)?;
            let own = nodes.partition_point(|node| node.0 < to);
            match nodes.last() {
                // The following ids are in shares that no thread has taken yet.
                Some(last) if last.0 >= to => {}
                Some(last) if nodes.len() == wanted => {
                    if last.0 + 1 < to {
                        self.share = Some((last.0 + 1, to));
                    }
                }
                _ => morsels.finish(),
            }
            if own == 0
                && let Some(next) = nodes.first()
            {
                // The share is empty, and so are those up to this id: other threads need not look.
                morsels.skip_to(next.0);
            }
            nodes.truncate(own);
            if !nodes.is_empty() {
                let mut chunk = Chunk::new(nodes.len(), self.op_ref.plan.slots.len());
                set_live(&self.op_ref, &mut chunk, node, Column::Nodes(nodes));
                return Ok(Some(chunk));
            }
        }
    }
}

impl Operate for NodeScan {
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        let (node, label) = match self.op_ref.op() {
            Op::AllNodesScan { node, .. } => (*node, None),
            Op::LabelScan { node, label, .. } => (*node, Some(*label)),
            other => return Err(misplaced(other)),
        };
        if let Some(morsels) = &cx.run.threads.morsels
            && morsels.scan == self.op_ref.id
        {
            let morsels = morsels.clone();
            return self.next_of_share(&morsels, node, label, cx);
        }
        let limit = self.batch.next();
        let (mut rows, mut nodes) = (Vec::new(), Vec::new());
        loop {
            if !self.scanning {
                if !nodes.is_empty() && !self.input.has_more() {
                    break;
                }
                if !self.input.advance(cx)? {
                    return Ok(None);
                }
                self.scanning = true;
                self.after = None;
            }
            // Looked up for each batch: a row before this one may have created the first node of the label.
            let known = label.map(|label| cx.label(label));
            if known == Some(None) {
                self.scanning = false; // the label was never used
                continue;
            }
            // Results of several input rows share a chunk; the scan remembers where it stopped.
            let (before, wanted) = (nodes.len(), limit - nodes.len());
            cx.reader()
                .scan_nodes(known.flatten(), self.after, wanted, &mut nodes)?;
            cx.tick(nodes.len() - before + 1)?;
            self.scanning = nodes.len() - before == wanted;
            self.after = nodes.last().copied().filter(|_| nodes.len() > before);
            rows.resize(nodes.len(), self.input.position());
            if nodes.len() >= limit {
                break;
            }
        }
        let mut chunk = self.input.gather(&self.op_ref, &rows);
        set_live(&self.op_ref, &mut chunk, node, Column::Nodes(nodes));
        Ok(Some(chunk))
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

/// The keys of a seek for one row: without nulls and duplicates.
pub(super) fn seek_keys(keys: &SeekKeys, row: Row<'_>, cx: &mut Cx<'_>) -> Result<Vec<Value>> {
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
            other => Err(not_a_list(&other)),
        },
    }
}

/// A non-negative number with an integral value, of either numeric type.
fn whole(key: &Value) -> Option<u64> {
    match key {
        Value::Int(id) => u64::try_from(*id).ok(),
        Value::Float(id) if id.fract() == 0.0 && *id >= 0.0 && *id < 9e15 => Some(*id as u64),
        _ => None,
    }
}

/// Nodes by key or by id.
pub(super) struct NodeLookup {
    op_ref: OperatorRef,
    input: Child,
}

impl NodeLookup {
    pub(super) fn new(op_ref: OperatorRef, input: Child) -> Self {
        Self { op_ref, input }
    }
}

impl Operate for NodeLookup {
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        let Some(chunk) = self.input.pull_flat(cx)? else {
            return Ok(None);
        };
        let (mut rows, mut nodes) = (Vec::new(), Vec::new());
        let slot = match self.op_ref.op() {
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
                cx.reader().nodes_exist(&asked, &mut exist)?;
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
        self.op_ref.prune(&mut made);
        Ok(Some(made))
    }

    fn open(&mut self, argument: &Argument) {
        self.input.open(argument);
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        self.input.close(cx);
    }
}

/// The node with a key. Values that cannot be keys find nothing; `1.0` finds the same node as `1`.
pub(crate) fn node_by_key(label: LabelId, key: &Value, cx: &mut Cx<'_>) -> Result<Option<NodeId>> {
    match key {
        Value::Int(_) | Value::String(_) => Ok(cx.reader().node_by_key(label, key)?),
        Value::Float(float) if float.fract() == 0.0 && float.abs() < 9.2e18 => {
            Ok(cx.reader().node_by_key(label, &Value::Int(*float as i64))?)
        }
        _ => Ok(None),
    }
}

/// Calls `emit` with the relationship and both its ends for each end from which `direction` reads it; a self loop once.
pub(super) fn each_end_pair(
    rel: RelRow,
    direction: Direction,
    mut emit: impl FnMut(RelRow, NodeId, NodeId),
) {
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
    op_ref: OperatorRef,
    input: RowInput,
    batch: Batch,
    filter: Option<TypeFilter>,
    type_at: usize,
    after: Option<RelId>,
}

impl RelationshipScan {
    pub(super) fn new(op_ref: OperatorRef, input: Child) -> Self {
        Self {
            op_ref,
            input: RowInput::new(input),
            batch: Batch::default(),
            filter: None,
            type_at: 0,
            after: None,
        }
    }
}

/// The rows of some relationships.
fn rows_of(
    scan: &physical::RelationshipScan,
    found: Vec<RelRow>,
    op_ref: &OperatorRef,
    rows: impl FnOnce(usize) -> Chunk,
) -> Chunk {
    let (mut rels, mut from, mut to) = (Vec::new(), Vec::new(), Vec::new());
    for rel in found {
        each_end_pair(rel, scan.direction, |rel, a, b| {
            rels.push(rel);
            from.push(a);
            to.push(b);
        });
    }
    let mut chunk = rows(rels.len());
    chunk.set(scan.relationship, Column::Rels(rels));
    chunk.set(scan.from, Column::Nodes(from));
    chunk.set(scan.to, Column::Nodes(to));
    op_ref.prune(&mut chunk);
    chunk
}

/// The relationships of the next non-empty share, if several threads scan together.
fn next_of_share(
    morsels: &Morsels,
    scan: &physical::RelationshipScan,
    op_ref: &OperatorRef,
    cx: &mut Cx<'_>,
) -> Result<Option<Chunk>> {
    let types: Vec<Option<TypeId>> = match cx.type_filter(&scan.types) {
        TypeFilter::Any => vec![None],
        TypeFilter::These(ids) => ids.into_iter().map(Some).collect(),
        TypeFilter::Nothing => return Ok(None),
    };
    while let Some((from, to)) = morsels.take() {
        cx.run.threads.share = Morsels::number_of(from);
        let mut own = Vec::new();
        // The first relationship after the share, of any type.
        let mut behind: Option<RelId> = None;
        for rel_type in &types {
            let mut after = from.checked_sub(1).map(RelId);
            loop {
                let mut found = Vec::with_capacity(FULL_BATCH);
                cx.reader()
                    .scan_relationships(*rel_type, after, FULL_BATCH, &mut found)?;
                cx.tick(found.len() + 1)?;
                let inside = found.partition_point(|rel| rel.id.0 < to);
                own.extend_from_slice(&found[..inside]);
                if let Some(next) = found.get(inside) {
                    behind = Some(behind.map_or(next.id, |first| first.min(next.id)));
                    break;
                }
                match found.last() {
                    Some(last) if found.len() == FULL_BATCH => after = Some(last.id),
                    _ => break,
                }
            }
        }
        match behind {
            None => morsels.finish(),
            Some(next) if own.is_empty() => morsels.skip_to(next.0),
            Some(_) => {}
        }
        if !own.is_empty() {
            let slots = op_ref.plan.slots.len();
            return Ok(Some(rows_of(scan, own, op_ref, |len| {
                Chunk::new(len, slots)
            })));
        }
    }
    Ok(None)
}

impl Operate for RelationshipScan {
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        let op_ref = self.op_ref.clone();
        let Op::RelationshipScan(scan) = op_ref.op() else {
            return Err(misplaced(op_ref.op()));
        };
        if let Some(morsels) = &cx.run.threads.morsels
            && morsels.scan == op_ref.id
        {
            let morsels = morsels.clone();
            return next_of_share(&morsels, scan, &op_ref, cx);
        }
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
            cx.reader()
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
            let input = &self.input;
            return Ok(Some(rows_of(scan, found, &op_ref, |len| {
                input.repeat(&op_ref, len)
            })));
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
    op_ref: OperatorRef,
    input: Child,
}

impl RelationshipLookup {
    pub(super) fn new(op_ref: OperatorRef, input: Child) -> Self {
        Self { op_ref, input }
    }
}

impl Operate for RelationshipLookup {
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        let op_ref = self.op_ref.clone();
        let Op::RelationshipById {
            relationship,
            from,
            to,
            direction,
            ids,
            ..
        } = op_ref.op()
        else {
            return Err(misplaced(op_ref.op()));
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
        cx.reader().relationship_rows(&asked, &mut found)?;
        let (mut rows, mut rels, mut froms, mut tos) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (at, rel) in found.into_iter().enumerate() {
            let Some(rel) = rel else { continue };
            each_end_pair(rel, *direction, |rel, a, b| {
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
        self.op_ref.prune(&mut made);
        Ok(Some(made))
    }

    fn open(&mut self, argument: &Argument) {
        self.input.open(argument);
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        self.input.close(cx);
    }
}

/// The value of a limit, which reads no slots: a non-negative integer.
pub(super) fn row_count(expr: &BoundExpr, clause: &str, cx: &mut Cx<'_>) -> Result<u64> {
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
