//! Operators that look at rows as they pass: filter, project, distinct, skip, limit, unwind, union, the result.

use std::collections::VecDeque;

use isomer_plan::{
    expr::{Expr, SlotId},
    function::Function as Builtin,
    physical::Op,
};
use isomer_value::{GroupKey, NodeId, Value};
use rustc_hash::FxHashSet;

use super::{
    Argument, Batch, Child, Operate, Spot,
    scan::{RowInput, misplaced, row_count},
};
use crate::{
    chunk::Chunk,
    column::{Column, value_bytes},
    context::Cx,
    error::Result,
    eval::{Selection, column, truths, value},
    function::IntegerRange,
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
    held: usize,
}

/// The combinations seen. Nodes and integers by themselves are kept as numbers.
#[derive(Default)]
struct Seen {
    nodes: FxHashSet<NodeId>,
    ints: FxHashSet<i64>,
    keys: FxHashSet<Vec<GroupKey>>,
}

impl Seen {
    /// Whether the row's combination is new, and the bytes that it holds then.
    fn insert(&mut self, slots: &[SlotId], chunk: &Chunk, row: usize) -> (bool, usize) {
        let single = match slots {
            [slot] => chunk.column(*slot),
            _ => None,
        };
        let value = match single {
            Some(Column::Nodes(nodes)) => return (self.nodes.insert(nodes[row]), 16),
            Some(Column::Ints(ints)) => return (self.ints.insert(ints[row]), 16),
            Some(Column::Values(values)) => Some(&values[row]),
            Some(Column::Const(value)) => Some(value),
            _ => None,
        };
        match value {
            Some(Value::Int(int)) => return (self.ints.insert(*int), 16),
            Some(Value::Node(node)) => return (self.nodes.insert(node.id), 16),
            // A float that is a whole number is the same as the integer.
            Some(Value::Float(float)) => {
                if let Some(int) = whole_number(*float) {
                    return (self.ints.insert(int), 16);
                }
            }
            _ => {}
        }
        let key: Vec<GroupKey> = slots
            .iter()
            .map(|slot| GroupKey(chunk.value(*slot, row)))
            .collect();
        let bytes = 48 + key.iter().map(|part| value_bytes(&part.0)).sum::<usize>();
        (self.keys.insert(key), bytes)
    }
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
            held: 0,
        }
    }
}

impl Operate for Distinct {
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        let spot = self.spot.clone();
        let Op::Distinct { slots, .. } = spot.op() else {
            return Err(misplaced(spot.op()));
        };
        let Some(mut chunk) = self.input.pull_flat(cx)? else {
            return Ok(None);
        };
        let mut keep = Vec::with_capacity(chunk.len());
        let mut bytes = 0;
        for row in 0..chunk.len() {
            let (new, size) = self.seen.insert(slots, &chunk, row);
            bytes += if new { size } else { 0 };
            keep.push(new);
        }
        cx.run.watch.hold(bytes)?;
        self.held += bytes;
        chunk.retain(&keep);
        spot.prune(&mut chunk);
        Ok(Some(chunk))
    }

    fn open(&mut self, argument: &Argument) {
        self.input.open(argument);
        self.seen = Seen::default();
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        self.input.close(cx);
        self.seen = Seen::default();
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
    input: RowInput,
    batch: Batch,
    elements: Elements,
}

/// What is left of the list of one row.
enum Elements {
    None,
    Range(IntegerRange),
    List(VecDeque<Value>),
}

impl Unwind {
    pub(super) fn new(spot: Spot, input: Child) -> Self {
        Self {
            spot,
            input: RowInput::new(input),
            batch: Batch::default(),
            elements: Elements::None,
        }
    }

    /// The list of the row that the input is at; `range()` is not built, only counted.
    fn elements(&self, list: &Expr, cx: &mut Cx<'_>) -> Result<Elements> {
        let row = self.input.row()?;
        if let Expr::Call {
            function: Builtin::Range,
            arguments,
        } = list
        {
            let arguments = arguments
                .iter()
                .map(|argument| value(argument, row, cx))
                .collect::<Result<Vec<_>>>()?;
            if arguments.iter().any(Value::is_null) {
                return Ok(Elements::None);
            }
            return Ok(Elements::Range(IntegerRange::new(&arguments)?));
        }
        Ok(match value(list, row, cx)? {
            Value::Null => Elements::None,
            Value::List(items) => Elements::List(items.iter().cloned().collect()),
            single => Elements::List(VecDeque::from([single])),
        })
    }
}

impl Operate for Unwind {
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        let spot = self.spot.clone();
        let Op::Unwind { list, element, .. } = spot.op() else {
            return Err(misplaced(spot.op()));
        };
        let mut gathered: Option<Chunk> = None;
        let limit = self.batch.next();
        loop {
            let room = limit - gathered.as_ref().map_or(0, Chunk::len);
            let column = match &mut self.elements {
                Elements::Range(range) => Some(Column::Ints(range.by_ref().take(room).collect())),
                Elements::List(items) => {
                    let count = room.min(items.len());
                    Some(Column::of_values(items.drain(..count).collect()))
                }
                Elements::None => None,
            };
            let count = match &column {
                Some(Column::Ints(items)) => items.len(),
                Some(Column::Nodes(items)) => items.len(),
                Some(Column::Values(items)) => items.len(),
                _ => 0,
            };
            if let Some(column) = column.filter(|_| count > 0) {
                let mut chunk = self.input.repeat(&spot, count);
                chunk.set(*element, column);
                match &mut gathered {
                    Some(gathered) => gathered.append(chunk),
                    None => gathered = Some(chunk),
                }
                if gathered.as_ref().map_or(0, Chunk::len) >= limit {
                    return Ok(gathered);
                }
            }
            self.elements = Elements::None;
            // A row at a time where rows were made: what is below may be slow, and the reader waits.
            if !self.input.advance(cx)? {
                return Ok(gathered);
            }
            self.elements = self.elements(list, cx)?;
        }
    }

    fn open(&mut self, argument: &Argument) {
        self.input.open(argument);
        self.elements = Elements::None;
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        self.input.close(cx);
        self.elements = Elements::None;
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
