//! Operators that look at rows as they pass: filter, project, distinct, skip, limit, unwind, union, the result.

use std::sync::Arc;

use isomer_plan::{
    expr::{Expr, SlotId},
    function::Function as Builtin,
    physical::Op,
};
use isomer_value::{GroupKey, NodeId, Value};
use rustc_hash::FxHashSet;

use super::{
    Argument, Batch, Child, FULL_BATCH, Operate, Spot,
    input::set_live,
    scan::{misplaced, row_count},
};
use crate::{
    chunk::Chunk,
    column::{Column, value_bytes},
    context::Cx,
    dense::IdSet,
    error::{ExecError, Result},
    eval::{Selection, column, truths},
    function::IntegerRange,
    spill::{MergedRows, distinct::DistinctSpill},
};

/// Keeps the rows for which all predicates are true.
pub(super) struct Filter {
    spot: Spot,
    input: Child,
}

impl Filter {
    pub(super) fn new(spot: Spot, input: Child) -> Self {
        Self { spot, input }
    }
}

impl Operate for Filter {
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        let spot = self.spot.clone();
        let Op::Filter { predicates, .. } = spot.op() else {
            return Err(misplaced(spot.op()));
        };
        let Some(mut chunk) = self.input.pull(cx)? else {
            return Ok(None);
        };
        for predicate in predicates {
            if chunk.is_factorised() && reads_list(predicate, &chunk) {
                chunk.flatten();
            }
            let truths = truths(predicate, "WHERE", &chunk, Selection::All(chunk.len()), cx)?;
            let keep: Vec<bool> = truths
                .into_iter()
                .map(|truth| truth == Some(true))
                .collect();
            if keep.iter().all(|keep| *keep) {
                continue;
            }
            chunk.retain_grouped(&keep);
            if chunk.is_empty() {
                break;
            }
        }
        spot.prune(&mut chunk);
        Ok(Some(chunk))
    }

    fn open(&mut self, argument: &Argument) {
        self.input.open(argument);
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        self.input.close(cx);
    }
}

/// Whether an expression reads a slot of the chunk's list group.
pub(super) fn reads_list(expr: &Expr, chunk: &Chunk) -> bool {
    let mut reads = false;
    expr.for_each_slot(&mut |slot| reads |= chunk.is_listed(slot));
    reads
}

/// Adds columns.
pub(super) struct Project {
    spot: Spot,
    input: Child,
}

impl Project {
    pub(super) fn new(spot: Spot, input: Child) -> Self {
        Self { spot, input }
    }
}

impl Operate for Project {
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        let spot = self.spot.clone();
        let Op::Project { columns, .. } = spot.op() else {
            return Err(misplaced(spot.op()));
        };
        let Some(mut chunk) = self.input.pull(cx)? else {
            return Ok(None);
        };
        if chunk.is_factorised() && columns.iter().any(|(_, expr)| reads_list(expr, &chunk)) {
            chunk.flatten();
        }
        let mut made = Vec::with_capacity(columns.len());
        for (slot, expr) in columns {
            made.push((
                *slot,
                column(expr, &chunk, Selection::All(chunk.len()), cx)?.into_owned(),
            ));
        }
        for (slot, column) in made {
            chunk.set(slot, column);
        }
        spot.prune(&mut chunk);
        Ok(Some(chunk))
    }

    fn open(&mut self, argument: &Argument) {
        self.input.open(argument);
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        self.input.close(cx);
    }
}

/// Each combination of some slots once.
pub(super) struct Distinct {
    spot: Spot,
    input: Child,
    seen: Seen,
    spilled: Spilled,
    /// Whether what is held belongs to an outer row before.
    reopened: bool,
    /// Whether others look at other rows.
    in_part: bool,
    held: usize,
}

/// Where rows go of which memory cannot tell whether they are new.
enum Spilled {
    /// Memory suffices so far.
    No,
    Writing(DistinctSpill),
    Reading(MergedRows),
}

/// The combinations seen. Nodes and integers by themselves are kept as numbers.
#[derive(Default)]
struct Seen {
    nodes: IdSet<NodeId>,
    ints: IdSet<i64>,
    keys: FxHashSet<Vec<GroupKey>>,
}

impl Seen {
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

    /// Whether the row's combination is new, and the bytes that it holds then.
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

    /// Whether each row's combination is new, and the bytes that the new ones hold.
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

    /// The row's combination, where it is one number.
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
            // A float that is a whole number is the same as the integer.
            Value::Float(float) => whole_number(*float).map_or(Single::No, Single::Int),
            _ => Single::No,
        }
    }
}

/// A combination that is one number.
enum Single {
    Node(NodeId),
    Int(i64),
    No,
}

/// The integer that a float is equal to.
fn whole_number(float: f64) -> Option<i64> {
    let fits = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&float);
    (fits && float.fract() == 0.0).then_some(float as i64)
}

impl Distinct {
    pub(super) fn new(spot: Spot, input: Child) -> Self {
        Self {
            spot,
            input,
            seen: Seen::default(),
            spilled: Spilled::No,
            reopened: false,
            in_part: false,
            held: 0,
        }
    }

    /// For the rows of one of several threads: all columns stay, for the one that sees all rows.
    pub(super) fn in_part(spot: Spot, input: Child) -> Self {
        Self {
            in_part: true,
            ..Self::new(spot, input)
        }
    }

    fn prune(&self, chunk: &mut Chunk) {
        if !self.in_part {
            self.spot.prune(chunk);
        }
    }

    /// Takes the rest of the input: what memory has not seen goes to disk and comes back once each.
    fn spill_rest(&mut self, slots: &[SlotId], cx: &mut Cx<'_>) -> Result<MergedRows> {
        let Spilled::Writing(mut spill) = std::mem::replace(&mut self.spilled, Spilled::No) else {
            return Err(ExecError::Internal("nothing is being spilled".into()));
        };
        while let Some(chunk) = self.input.pull_flat(cx)? {
            let unknown: Vec<bool> = (0..chunk.len())
                .map(|row| !self.seen.contains(slots, &chunk, row))
                .collect();
            spill.add(&chunk, &unknown, cx)?;
        }
        self.seen = Seen::default();
        cx.run.watch.release(std::mem::take(&mut self.held));
        spill.finish(cx)
    }
}

impl Operate for Distinct {
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        let spot = self.spot.clone();
        let Op::Distinct { slots, .. } = spot.op() else {
            return Err(misplaced(spot.op()));
        };
        if matches!(self.spilled, Spilled::No) {
            if std::mem::take(&mut self.reopened) {
                cx.run.watch.release(std::mem::take(&mut self.held));
            }
            let Some(mut chunk) = self.input.pull_flat(cx)? else {
                return Ok(None);
            };
            let (keep, bytes) = self.seen.insert_all(slots, &chunk);
            if cx.run.watch.try_hold(bytes) {
                self.held += bytes;
            } else {
                // These are known to be new; what comes after them is not.
                self.spilled = Spilled::Writing(DistinctSpill::new(spot.id, slots, cx)?);
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
        self.seen = Seen::default();
        self.spilled = Spilled::No;
        self.reopened = true;
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        self.input.close(cx);
        self.seen = Seen::default();
        self.spilled = Spilled::No;
        cx.run.watch.release(std::mem::take(&mut self.held));
    }
}

/// Drops the first rows, or keeps only them.
pub(super) struct SkipLimit {
    spot: Spot,
    input: Child,
    left: Option<u64>,
}

impl SkipLimit {
    pub(super) fn new(spot: Spot, input: Child) -> Self {
        Self {
            spot,
            input,
            left: None,
        }
    }
}

impl Operate for SkipLimit {
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        let spot = self.spot.clone();
        let (count, skips) = match spot.op() {
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
            // Nothing more is wanted, but what is below may write.
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

/// Whether an operator below changes the database: then its rows must all pass, however few are wanted.
fn below_writes(child: &Child) -> bool {
    let plan = &child.spot().plan;
    let mut todo = vec![child.id()];
    while let Some(id) = todo.pop() {
        let op = &plan.operator(id).op;
        if op.writes() {
            return true;
        }
        todo.extend(op.children());
    }
    false
}

/// One row per element of a list.
pub(super) struct Unwind {
    spot: Spot,
    input: Child,
    batch: Batch,
    chunk: Option<Unwound>,
}

/// A chunk of the input, its lists, and how far they are unwound.
struct Unwound {
    rows: Chunk,
    lists: Lists,
    row: usize,
    /// What is left of the list of `row`.
    elements: Elements,
}

/// The lists of a chunk's rows.
enum Lists {
    /// As values.
    Values(Column),
    /// The arguments of `range()`: its numbers are counted, not kept.
    Ranges(Vec<Column>),
}

/// What is left of one list.
enum Elements {
    Unopened,
    Range(IntegerRange),
    List(Arc<Vec<Value>>, usize),
    Single(Value),
    Done,
}

impl Lists {
    fn of(list: &Expr, rows: &Chunk, cx: &mut Cx<'_>) -> Result<Self> {
        let all = Selection::All(rows.len());
        if let Expr::Call {
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
    pub(super) fn new(spot: Spot, input: Child) -> Self {
        Self {
            spot,
            input,
            batch: Batch::default(),
            chunk: None,
        }
    }
}

impl Operate for Unwind {
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        let spot = self.spot.clone();
        let Op::Unwind { list, element, .. } = spot.op() else {
            return Err(misplaced(spot.op()));
        };
        let limit = self.batch.next();
        let (mut rows, mut elements) = (Vec::new(), Vec::new());
        let unwound = match &mut self.chunk {
            Some(unwound) => unwound,
            None => {
                let Some(rows) = self.input.pull_flat(cx)? else {
                    return Ok(None);
                };
                let lists = Lists::of(list, &rows, cx)?;
                self.chunk.insert(Unwound {
                    rows,
                    lists,
                    row: 0,
                    elements: Elements::Unopened,
                })
            }
        };
        while elements.len() < limit && unwound.row < unwound.rows.len() {
            if matches!(unwound.elements, Elements::Unopened) {
                unwound.elements = unwound.lists.open(unwound.row)?;
            }
            unwound.elements.take(limit - elements.len(), &mut elements);
            rows.resize(elements.len(), unwound.row as u32);
            if matches!(unwound.elements, Elements::Done) {
                unwound.row += 1;
                unwound.elements = Elements::Unopened;
            }
        }
        spot.prune(&mut unwound.rows);
        let mut chunk = unwound.rows.gather(&rows);
        set_live(&spot, &mut chunk, *element, Column::of_values(elements));
        if unwound.row >= unwound.rows.len() {
            self.chunk = None;
        }
        Ok(Some(chunk))
    }

    fn open(&mut self, argument: &Argument) {
        self.input.open(argument);
        self.chunk = None;
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        self.input.close(cx);
        self.chunk = None;
    }
}

/// The rows of all inputs, one after the other.
pub(super) struct Union {
    spot: Spot,
    inputs: Vec<Child>,
    at: usize,
}

impl Union {
    pub(super) fn new(spot: Spot, inputs: Vec<Child>) -> Self {
        Self {
            spot,
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
                self.spot.prune(&mut chunk);
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
