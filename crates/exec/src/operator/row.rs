//! Operators that process rows one by one: filter, project, distinct, skip, limit, unwind, union, the result.

use std::sync::Arc;

use isomer_plan::{
    expr::{BoundExpr, SlotId},
    function::Function as Builtin,
    physical::{self, InThread, Op},
};
use isomer_value::{GroupKey, NodeId, Value};
use rustc_hash::FxHashSet;

use super::{
    Argument, Batch, Child, FULL_BATCH, Operate, OperatorRef, Pieces,
    input::set_live,
    scan::{misplaced, row_count},
};
use crate::{
    chunk::Chunk,
    column::Column,
    context::Cx,
    dense::IdSet,
    error::{ExecError, Result},
    eval::{Selection, column, truths},
    function::IntegerRange,
    spill::{MergedRows, distinct::DistinctSpill},
    value_size::value_bytes,
};

/// Keeps the rows for which all predicates are true.
pub(super) struct Filter {
    op_ref: OperatorRef,
    input: Child,
    pieces: Pieces,
}

impl Filter {
    pub(super) fn new(op_ref: OperatorRef, input: Child) -> Self {
        Self {
            op_ref,
            input,
            pieces: Pieces::default(),
        }
    }
}

/// Keeps the rows of a chunk for which all predicates are true. What it has dropped before an error stays dropped.
fn keep_matching(predicates: &[BoundExpr], chunk: &mut Chunk, cx: &mut Cx<'_>) -> Result<()> {
    for predicate in predicates {
        if chunk.is_factorised() && reads_list(predicate, chunk) {
            chunk.flatten();
        }
        let truths = truths(predicate, "WHERE", chunk, Selection::All(chunk.len()), cx)?;
        let keep: Vec<bool> = truths
            .into_iter()
            .map(|truth| truth == Some(true))
            .collect();
        // Nothing that was computed is passed on.
        cx.forget_computed();
        if keep.iter().all(|keep| *keep) {
            continue;
        }
        chunk.retain_grouped(&keep);
        if chunk.is_empty() {
            break;
        }
    }
    Ok(())
}

impl Operate for Filter {
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        let op_ref = self.op_ref.clone();
        let Op::Filter { predicates, .. } = op_ref.op() else {
            return Err(misplaced(op_ref.op()));
        };
        let matching = self.pieces.next(&mut self.input, cx, |chunk, cx| {
            keep_matching(predicates, chunk, cx)
        })?;
        let Some((mut chunk, ())) = matching else {
            return Ok(None);
        };
        op_ref.prune(&mut chunk);
        Ok(Some(chunk))
    }

    fn open(&mut self, argument: &Argument) {
        self.input.open(argument);
        self.pieces.open();
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        self.input.close(cx);
        self.pieces.close(cx);
    }
}

/// Whether an expression reads a slot of the chunk's list group.
pub(super) fn reads_list(expr: &BoundExpr, chunk: &Chunk) -> bool {
    let mut reads = false;
    expr.for_each_slot(&mut |slot| reads |= chunk.is_listed(slot));
    reads
}

/// Adds columns.
pub(super) struct Project {
    op_ref: OperatorRef,
    input: Child,
    pieces: Pieces,
}

impl Project {
    pub(super) fn new(op_ref: OperatorRef, input: Child) -> Self {
        Self {
            op_ref,
            input,
            pieces: Pieces::default(),
        }
    }
}

impl Operate for Project {
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        let op_ref = self.op_ref.clone();
        let Op::Project { columns, .. } = op_ref.op() else {
            return Err(misplaced(op_ref.op()));
        };
        let projected = self.pieces.next(&mut self.input, cx, |chunk, cx| {
            if chunk.is_factorised() && columns.iter().any(|(_, expr)| reads_list(expr, chunk)) {
                chunk.flatten();
            }
            let mut made = Vec::with_capacity(columns.len());
            for (slot, expr) in columns {
                made.push((
                    *slot,
                    column(expr, chunk, Selection::All(chunk.len()), cx)?.into_owned(),
                ));
            }
            Ok(made)
        })?;
        let Some((mut chunk, made)) = projected else {
            return Ok(None);
        };
        for (slot, column) in made {
            chunk.set(slot, column);
        }
        op_ref.prune(&mut chunk);
        Ok(Some(chunk))
    }

    fn open(&mut self, argument: &Argument) {
        self.input.open(argument);
        self.pieces.open();
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        self.input.close(cx);
        self.pieces.close(cx);
    }
}

/// `DISTINCT`: each combination of some slots once.
pub(super) struct Distinct {
    op_ref: OperatorRef,
    input: Child,
    seen: SeenKeys,
    spilled: Spilled,
    /// Whether the state belongs to an earlier outer row.
    reopened: bool,
    /// Whether other threads handle other rows.
    in_part: bool,
    held: usize,
}

/// Where rows go when memory cannot decide whether they are new.
enum Spilled {
    /// Memory suffices so far.
    No,
    Writing(DistinctSpill),
    Reading(MergedRows),
}

/// The combinations seen. Single nodes and single integers are kept as numbers.
#[derive(Default)]
struct SeenKeys {
    nodes: IdSet<NodeId>,
    ints: IdSet<i64>,
    keys: FxHashSet<Vec<GroupKey>>,
}

impl SeenKeys {
    /// Whether the row's combination was seen.
    fn contains(&self, slots: &[SlotId], chunk: &Chunk, row: usize) -> bool {
        match Self::single(slots, chunk, row) {
            Single::Node(node) => self.nodes.contains(node),
            Single::Int(int) => self.ints.contains(int),
            Single::No => {
                let key: Vec<GroupKey> = slots
                    .iter()
                    .map(|slot| GroupKey(chunk.value(*slot, row)))
                    .collect();
                self.keys.contains(&key)
            }
        }
    }

    /// Whether the row's combination is new, and if so the bytes that it takes.
    fn insert(&mut self, slots: &[SlotId], chunk: &Chunk, row: usize) -> (bool, usize) {
        match Self::single(slots, chunk, row) {
            Single::Node(node) => (self.nodes.insert(node), 16),
            Single::Int(int) => (self.ints.insert(int), 16),
            Single::No => {
                let key: Vec<GroupKey> = slots
                    .iter()
                    .map(|slot| GroupKey(chunk.value(*slot, row)))
                    .collect();
                let bytes = 48 + key.iter().map(|part| value_bytes(&part.0)).sum::<usize>();
                (self.keys.insert(key), bytes)
            }
        }
    }

    /// Whether each row's combination is new, and the bytes that the new ones take.
    fn insert_all(&mut self, slots: &[SlotId], chunk: &Chunk) -> (Vec<bool>, usize) {
        let mut keep: Vec<bool> = Vec::with_capacity(chunk.len());
        let column = match slots {
            [slot] => chunk.column(*slot),
            _ => None,
        };
        match column {
            Some(Column::Nodes(nodes)) => {
                keep.extend(nodes.iter().map(|node| self.nodes.insert(*node)));
            }
            Some(Column::Ints(ints)) => {
                keep.extend(ints.iter().map(|int| self.ints.insert(*int)));
            }
            _ => {
                let mut bytes = 0;
                for row in 0..chunk.len() {
                    let (new, size) = self.insert(slots, chunk, row);
                    bytes += if new { size } else { 0 };
                    keep.push(new);
                }
                return (keep, bytes);
            }
        }
        let bytes = 16 * keep.iter().filter(|new| **new).count();
        (keep, bytes)
    }

    /// The row's combination, if it is a single number.
    fn single(slots: &[SlotId], chunk: &Chunk, row: usize) -> Single {
        let [slot] = slots else { return Single::No };
        let value = match chunk.column(*slot) {
            Some(Column::Nodes(nodes)) => return Single::Node(nodes[row]),
            Some(Column::Ints(ints)) => return Single::Int(ints[row]),
            Some(Column::Values(values)) => &values[row],
            Some(Column::Const(value)) => value,
            Some(Column::Floats(floats)) => {
                return whole_number(floats[row]).map_or(Single::No, Single::Int);
            }
            _ => return Single::No,
        };
        match value {
            Value::Int(int) => Single::Int(*int),
            Value::Node(node) => Single::Node(node.id),
            // A float with an integral value equals the integer.
            Value::Float(float) => whole_number(*float).map_or(Single::No, Single::Int),
            _ => Single::No,
        }
    }
}

/// A combination that is a single number.
enum Single {
    Node(NodeId),
    Int(i64),
    No,
}

/// The integer that a float is equal to.
fn whole_number(float: f64) -> Option<i64> {
    // Integers and floats are compared by value, so 1 and 1.0 are one combination.
    let fits = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&float);
    (fits && float.fract() == 0.0).then_some(float as i64)
}

impl Distinct {
    pub(super) fn new(op_ref: OperatorRef, input: Child) -> Self {
        Self {
            op_ref,
            input,
            seen: SeenKeys::default(),
            spilled: Spilled::No,
            reopened: false,
            in_part: false,
            held: 0,
        }
    }

    /// For the rows of one of several threads: all columns stay, for the consumer that sees all rows.
    pub(super) fn in_part(op_ref: OperatorRef, input: Child) -> Self {
        Self {
            in_part: true,
            ..Self::new(op_ref, input)
        }
    }

    fn prune(&self, chunk: &mut Chunk) {
        if !self.in_part {
            self.op_ref.prune(chunk);
        }
    }

    /// Reads the rest of the input: rows that memory has not seen go to disk and come back without duplicates.
    fn spill_rest(&mut self, slots: &[SlotId], cx: &mut Cx<'_>) -> Result<MergedRows> {
        let Spilled::Writing(mut spill) = std::mem::replace(&mut self.spilled, Spilled::No) else {
            return Err(ExecError::Internal("nothing is being spilled".into()));
        };
        while let Some(chunk) = self.input.pull_flat(cx)? {
            // The set in memory still filters: it has every combination returned so far.
            let unknown: Vec<bool> = (0..chunk.len())
                .map(|row| !self.seen.contains(slots, &chunk, row))
                .collect();
            spill.add(&chunk, &unknown, cx)?;
        }
        self.seen = SeenKeys::default();
        cx.run.watch.release(std::mem::take(&mut self.held));
        spill.finish(cx)
    }
}

impl Operate for Distinct {
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        let op_ref = self.op_ref.clone();
        let (Op::Distinct { slots, .. }
        | Op::Exchange(physical::Exchange {
            in_thread: InThread::Distinct(slots),
            ..
        })) = op_ref.op()
        else {
            return Err(misplaced(op_ref.op()));
        };
        if matches!(self.spilled, Spilled::No) {
            if std::mem::take(&mut self.reopened) {
                cx.run.watch.release(std::mem::take(&mut self.held));
            }
            let Some(mut chunk) = self.input.pull_flat(cx)? else {
                return Ok(None);
            };
            // DISTINCT streams: a new combination is returned at once. Only what no longer fits waits for the end.
            let (keep, bytes) = self.seen.insert_all(slots, &chunk);
            if cx.run.watch.try_hold(bytes) {
                self.held += bytes;
            } else {
                // These are known to be new; later rows are not.
                self.spilled = Spilled::Writing(DistinctSpill::new(op_ref.id, slots, cx)?);
            }
            chunk.retain(&keep);
            self.prune(&mut chunk);
            return Ok(Some(chunk));
        }
        if let Spilled::Writing(_) = self.spilled {
            let merged = self.spill_rest(slots, cx)?;
            self.spilled = Spilled::Reading(merged);
        }
        let Spilled::Reading(merged) = &mut self.spilled else {
            return Ok(None);
        };
        let mut chunk = merged.next_chunk(FULL_BATCH, cx)?;
        if let Some(chunk) = &mut chunk {
            self.prune(chunk);
        }
        Ok(chunk)
    }

    fn open(&mut self, argument: &Argument) {
        self.input.open(argument);
        self.seen = SeenKeys::default();
        self.spilled = Spilled::No;
        self.reopened = true;
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        self.input.close(cx);
        self.seen = SeenKeys::default();
        self.spilled = Spilled::No;
        cx.run.watch.release(std::mem::take(&mut self.held));
    }
}

/// Skips the first rows, or keeps only them.
pub(super) struct SkipLimit {
    op_ref: OperatorRef,
    input: Child,
    left: Option<u64>,
}

impl SkipLimit {
    pub(super) fn new(op_ref: OperatorRef, input: Child) -> Self {
        Self {
            op_ref,
            input,
            left: None,
        }
    }
}

impl Operate for SkipLimit {
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        let op_ref = self.op_ref.clone();
        let (count, skips) = match op_ref.op() {
            Op::Skip { count, .. } => (count, true),
            Op::Limit { count, .. } => (count, false),
            other => return Err(misplaced(other)),
        };
        let left = match self.left {
            Some(left) => left,
            None => row_count(count, if skips { "SKIP" } else { "LIMIT" }, cx)?,
        };
        self.left = Some(left);
        if skips {
            let Some(mut chunk) = self.input.pull_flat(cx)? else {
                return Ok(None);
            };
            let dropped = (chunk.len() as u64).min(left);
            chunk.skip(dropped as usize);
            self.left = Some(left - dropped);
            return Ok(Some(chunk));
        }
        if left == 0 {
            // No more rows are wanted, but the operators below may write.
            if below_writes(&self.input) {
                while self.input.pull(cx)?.is_some() {}
            }
            return Ok(None);
        }
        let Some(mut chunk) = self.input.pull_flat(cx)? else {
            return Ok(None);
        };
        chunk.truncate(usize::try_from(left).unwrap_or(usize::MAX));
        self.left = Some(left - chunk.len() as u64);
        Ok(Some(chunk))
    }

    fn open(&mut self, argument: &Argument) {
        self.input.open(argument);
        self.left = None;
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        self.input.close(cx);
    }
}

/// Whether an operator below changes the database: then all its rows must be pulled, however few are wanted.
fn below_writes(child: &Child) -> bool {
    let plan = &child.op_ref().plan;
    let mut todo = vec![child.id()];
    while let Some(id) = todo.pop() {
        let op = &plan.operator(id).op;
        if op.writes() {
            return true;
        }
        // A fallback only reads, and has the input of its operator: with both, the number of paths to an operator far
        // below would be exponential.
        let fallback = op.fallback();
        let children = op.children().into_iter();
        todo.extend(children.filter(|child| Some(*child) != fallback));
    }
    false
}

/// One row per element of a list.
pub(super) struct Unwind {
    op_ref: OperatorRef,
    input: Child,
    batch: Batch,
    pieces: Pieces,
    chunk: Option<Unwound>,
}

/// A chunk of the input, its lists, and how far they are unwound.
struct Unwound {
    rows: Chunk,
    lists: Lists,
    row: usize,
    /// The remaining elements of the list of `row`.
    elements: Elements,
    /// How many of its elements were taken.
    taken: usize,
}

/// The lists of a chunk's rows.
enum Lists {
    /// As values.
    Values(Column),
    /// The arguments of `range()`: its numbers are generated on demand.
    Ranges(Vec<Column>),
}

/// The remaining elements of one list.
enum Elements {
    Unopened,
    Range(IntegerRange),
    List(Arc<Vec<Value>>, usize),
    Single(Value),
    Done,
}

impl Lists {
    fn of(list: &BoundExpr, rows: &Chunk, cx: &mut Cx<'_>) -> Result<Self> {
        let all = Selection::All(rows.len());
        if let BoundExpr::Call {
            function: Builtin::Range,
            arguments,
        } = list
        {
            return arguments
                .iter()
                .map(|argument| Ok(column(argument, rows, all, cx)?.into_owned()))
                .collect::<Result<_>>()
                .map(Self::Ranges);
        }
        Ok(Self::Values(column(list, rows, all, cx)?.into_owned()))
    }

    fn open(&self, row: usize) -> Result<Elements> {
        match self {
            Self::Ranges(arguments) => {
                let arguments: Vec<Value> = arguments.iter().map(|one| one.get(row)).collect();
                if arguments.iter().any(Value::is_null) {
                    return Ok(Elements::Done);
                }
                IntegerRange::new(&arguments).map(Elements::Range)
            }
            Self::Values(lists) => Ok(match lists.get(row) {
                Value::Null => Elements::Done,
                Value::List(items) => Elements::List(items, 0),
                single => Elements::Single(single),
            }),
        }
    }
}

impl Elements {
    /// Moves at most `room` elements to `out`.
    fn take(&mut self, room: usize, out: &mut Vec<Value>) {
        match self {
            Self::Unopened | Self::Done => {}
            Self::Range(range) => {
                let before = out.len();
                out.extend(range.by_ref().take(room).map(Value::Int));
                if out.len() - before < room {
                    *self = Self::Done;
                }
            }
            Self::List(items, at) => {
                let end = (*at + room).min(items.len());
                out.extend_from_slice(&items[*at..end]);
                *at = end;
                if end == items.len() {
                    *self = Self::Done;
                }
            }
            Self::Single(value) => {
                out.push(std::mem::take(value));
                *self = Self::Done;
            }
        }
    }
}

impl Unwind {
    pub(super) fn new(op_ref: OperatorRef, input: Child) -> Self {
        Self {
            op_ref,
            input,
            batch: Batch::default(),
            pieces: Pieces::default(),
            chunk: None,
        }
    }
}

impl Operate for Unwind {
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        let op_ref = self.op_ref.clone();
        let Op::Unwind {
            list,
            element,
            position,
            ..
        } = op_ref.op()
        else {
            return Err(misplaced(op_ref.op()));
        };
        let limit = self.batch.next();
        let (mut rows, mut elements) = (Vec::new(), Vec::new());
        let mut positions = Vec::new();
        let unwound = match &mut self.chunk {
            Some(unwound) => unwound,
            None => {
                let found = self.pieces.next(&mut self.input, cx, |rows, cx| {
                    rows.flatten();
                    Lists::of(list, rows, cx)
                })?;
                let Some((rows, lists)) = found else {
                    return Ok(None);
                };
                self.chunk.insert(Unwound {
                    rows,
                    lists,
                    row: 0,
                    elements: Elements::Unopened,
                    taken: 0,
                })
            }
        };
        while elements.len() < limit && unwound.row < unwound.rows.len() {
            if matches!(unwound.elements, Elements::Unopened) {
                unwound.elements = unwound.lists.open(unwound.row)?;
            }
            let before = elements.len();
            unwound.elements.take(limit - elements.len(), &mut elements);
            let end = unwound.taken + elements.len() - before;
            if let Some((_, first)) = position {
                let numbers = unwound.taken..end;
                positions.extend(numbers.map(|at| Value::Int(first + at as i64)));
            }
            unwound.taken = end;
            rows.resize(elements.len(), unwound.row as u32);
            if matches!(unwound.elements, Elements::Done) {
                unwound.row += 1;
                unwound.elements = Elements::Unopened;
                unwound.taken = 0;
            }
        }
        op_ref.prune(&mut unwound.rows);
        let mut chunk = unwound.rows.gather(&rows);
        set_live(&op_ref, &mut chunk, *element, Column::of_values(elements));
        if let Some((slot, _)) = position {
            set_live(&op_ref, &mut chunk, *slot, Column::of_values(positions));
        }
        if unwound.row >= unwound.rows.len() {
            self.chunk = None;
        }
        Ok(Some(chunk))
    }

    fn open(&mut self, argument: &Argument) {
        self.input.open(argument);
        self.pieces.open();
        self.chunk = None;
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        self.input.close(cx);
        self.pieces.close(cx);
        self.chunk = None;
    }
}

/// The rows of all inputs, one after the other.
pub(super) struct Union {
    op_ref: OperatorRef,
    inputs: Vec<Child>,
    at: usize,
}

impl Union {
    pub(super) fn new(op_ref: OperatorRef, inputs: Vec<Child>) -> Self {
        Self {
            op_ref,
            inputs,
            at: 0,
        }
    }
}

impl Operate for Union {
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        while let Some(input) = self.inputs.get_mut(self.at) {
            if let Some(mut chunk) = input.pull(cx)? {
                chunk.flatten();
                self.op_ref.prune(&mut chunk);
                return Ok(Some(chunk));
            }
            self.at += 1;
        }
        Ok(None)
    }

    fn open(&mut self, argument: &Argument) {
        self.inputs
            .iter_mut()
            .for_each(|input| input.open(argument));
        self.at = 0;
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        self.inputs.iter_mut().for_each(|input| input.close(cx));
    }
}

/// The result: its rows are hydrated by the execution.
pub(super) struct ProduceResult {
    input: Child,
}

impl ProduceResult {
    pub(super) fn new(input: Child) -> Self {
        Self { input }
    }
}

impl Operate for ProduceResult {
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        self.input.pull(cx)
    }

    fn open(&mut self, argument: &Argument) {
        self.input.open(argument);
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        self.input.close(cx);
    }
}
