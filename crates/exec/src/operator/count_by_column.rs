//! Counting a label's nodes by one property, page by page of its column.

use std::collections::hash_map::Entry;

use isomer_data::GraphRead;
use isomer_plan::physical::{self, Op};
use isomer_value::{GroupKey, NodeId, PropId, Value};
use isomer_views::{Cell, ColumnAt, ColumnPage, PAGE_ROWS, PageBits, PageValues};
use rustc_hash::FxHashMap;

use super::{Argument, FULL_BATCH, Operate, OperatorRef, fallback::LazyChild, scan::misplaced};
use crate::{
    chunk::Chunk,
    column::Column,
    context::Cx,
    error::{ExecError, Result},
    value_size::value_bytes,
};

/// `MATCH (n:L) RETURN n.p, count(*)` over the column of `p`; its fallback runs if the column cannot answer.
pub(super) struct CountByColumn {
    op_ref: OperatorRef,
    /// One row.
    input: LazyChild,
    fallback: LazyChild,
    strategy: Strategy,
    held: usize,
}

enum Strategy {
    Undecided,
    /// Groups that were not returned yet, last first.
    Groups(Vec<(Value, i64)>),
    Fallback,
}

/// The number of nodes per value.
#[derive(Default)]
struct Counts {
    ints: FxHashMap<i64, i64>,
    /// Values that are not integers; null among them.
    others: FxHashMap<GroupKey, i64>,
    /// Heap bytes of the texts and lists among them.
    text_bytes: usize,
}

impl Counts {
    fn add_int(&mut self, int: i64, count: i64) {
        *self.ints.entry(int).or_default() += count;
    }

    fn add(&mut self, value: Value, count: i64) {
        match value {
            Value::Int(int) => self.add_int(int, count),
            other => match self.others.entry(GroupKey(other)) {
                Entry::Occupied(mut known) => *known.get_mut() += count,
                Entry::Vacant(new) => {
                    self.text_bytes += value_bytes(&new.key().0) - size_of::<Value>();
                    new.insert(count);
                }
            },
        }
    }

    /// Bytes held by the groups, and by the list of values that is built from them.
    fn bytes(&self) -> usize {
        let ints = self.ints.capacity() * (size_of::<(i64, i64)>() + 1);
        let others = self.others.capacity() * (size_of::<(GroupKey, i64)>() + 1);
        let listed = (self.ints.len() + self.others.len()) * size_of::<(Value, i64)>();
        ints + others + listed + self.text_bytes
    }

    /// Adds the rows of a page that are in `rows`; none of them is irregular.
    fn add_page(&mut self, page: &ColumnPage, rows: &PageBits) {
        let mut valid = *page.valid();
        let mut nulls = 0;
        for ((valid, member), row) in valid.iter_mut().zip(page.members()).zip(rows) {
            nulls += (member & !*valid & row).count_ones();
            *valid &= row;
        }
        if nulls > 0 {
            self.add(Value::Null, i64::from(nulls));
        }
        match page.values() {
            PageValues::Nothing => {}
            PageValues::Int8 { base, offsets } => {
                let mut counts = [0_u32; 256];
                each_row(&valid, |row| counts[usize::from(offsets[row])] += 1);
                for (offset, count) in counts.into_iter().enumerate().filter(|(_, n)| *n > 0) {
                    self.add_int(base.wrapping_add(offset as i64), i64::from(count));
                }
            }
            PageValues::Int16 { base, offsets } => each_row(&valid, |row| {
                self.add_int(base.wrapping_add(i64::from(offsets[row])), 1);
            }),
            PageValues::Int32 { base, offsets } => each_row(&valid, |row| {
                self.add_int(base.wrapping_add(i64::from(offsets[row])), 1);
            }),
            PageValues::Int64(values) => each_row(&valid, |row| self.add_int(values[row], 1)),
            PageValues::Words { codes, words } => {
                let mut counts = vec![0_i64; words.len()];
                each_row(&valid, |row| counts[usize::from(codes[row])] += 1);
                for (word, count) in words.iter().zip(counts).filter(|(_, count)| *count > 0) {
                    self.add(Value::String(word.clone()), count);
                }
            }
            _ => each_row(&valid, |row| {
                if let Cell::Value(value) = page.cell(row) {
                    self.add(value, 1);
                }
            }),
        }
    }

    /// Adds nodes that changed since the base was built; returns those whose values the column cannot provide.
    fn add_changed(
        &mut self,
        column: &ColumnAt,
        changed: &[u32],
        tick: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Vec<NodeId>> {
        let mut without_cell = Vec::new();
        for &node in changed {
            match column.cell(node) {
                Cell::Value(value) => self.add(value, 1),
                Cell::Absent => {}
                Cell::Rows => without_cell.push(NodeId(node.into())),
            }
            tick()?;
        }
        Ok(without_cell)
    }

    /// Bytes needed to merge the groups of integers and integral floats, if that is required.
    fn finish_bytes(&self) -> usize {
        if self.has_whole_floats() {
            2 * self.ints.len() * (size_of::<(GroupKey, i64)>() + 1)
        } else {
            0
        }
    }

    fn has_whole_floats(&self) -> bool {
        let whole = |key: &GroupKey| matches!(key.0, Value::Float(float) if float.fract() == 0.0);
        self.others.keys().any(whole)
    }

    /// One group per value; an integral float is in the group of the integer.
    fn finish(mut self) -> Vec<(Value, i64)> {
        if self.has_whole_floats() {
            for (int, count) in std::mem::take(&mut self.ints) {
                *self.others.entry(GroupKey(Value::Int(int))).or_default() += count;
            }
        }
        let ints = self.ints.into_iter().map(|(int, n)| (Value::Int(int), n));
        ints.chain(self.others.into_iter().map(|(key, n)| (key.0, n)))
            .collect()
    }
}

/// Visits the rows of a page whose bits are set.
#[inline]
fn each_row(rows: &PageBits, mut visit: impl FnMut(usize)) {
    for (at, word) in rows.iter().enumerate() {
        let mut left = *word;
        if left == u64::MAX {
            (at * 64..at * 64 + 64).for_each(&mut visit);
            continue;
        }
        while left != 0 {
            visit(at * 64 + left.trailing_zeros() as usize);
            left &= left - 1;
        }
    }
}

/// The rows of the page `number`, except the `changed` nodes, which ascend.
fn unchanged_rows(changed: &[u32], number: usize) -> PageBits {
    let mut rows = [u64::MAX; PAGE_ROWS / 64];
    let first = changed.partition_point(|node| (*node as usize / PAGE_ROWS) < number);
    let own = changed[first..].iter().map(|node| *node as usize);
    for node in own.take_while(|node| node / PAGE_ROWS == number) {
        let row = node % PAGE_ROWS;
        rows[row / 64] &= !(1 << (row % 64));
    }
    rows
}

impl CountByColumn {
    pub(super) fn new(
        op_ref: OperatorRef,
        plan: &physical::CountByColumn,
        argument: &Argument,
    ) -> Self {
        Self {
            input: LazyChild::new(&op_ref, plan.input, argument),
            fallback: LazyChild::new(&op_ref, plan.fallback, argument),
            op_ref,
            strategy: Strategy::Undecided,
            held: 0,
        }
    }

    /// The groups, if a column can provide them.
    fn count(
        &mut self,
        plan: &physical::CountByColumn,
        cx: &mut Cx<'_>,
    ) -> Result<Option<Vec<(Value, i64)>>> {
        let path: Option<Vec<PropId>> = plan.path.iter().map(|name| cx.prop(*name)).collect();
        let (Some(label), Some(path)) = (cx.label(plan.label), path) else {
            return Ok(None);
        };
        if !cx.reader().is_plain() {
            return Ok(None);
        }
        let stop = cx.run.watch.stop();
        let should_continue = || stop.check().is_ok();
        let Some(column) = cx.run.views.column_now(label, &path, &should_continue) else {
            stop.check()?;
            return Ok(None);
        };
        if column
            .pages()
            .iter()
            .flatten()
            .any(|page| !page.odd().is_empty())
        {
            return Ok(None);
        }
        let mut counts = Counts::default();
        // Only the current values of changed nodes count: a removed value must not determine the representation of an
        // equal one.
        for (number, page) in column.pages().iter().enumerate() {
            let Some(page) = page else {
                continue;
            };
            counts.add_page(page, &unchanged_rows(column.changed(), number));
            cx.tick(PAGE_ROWS)?;
            if !self.hold(counts.bytes(), cx) {
                return Ok(None); // grouping row by row can continue on disk
            }
        }
        for changed in column.changed().chunks(PAGE_ROWS) {
            let without_cell = counts.add_changed(&column, changed, &mut || cx.tick(1))?;
            if !without_cell.is_empty() {
                let [prop] = path[..] else {
                    return Ok(None);
                };
                let mut values = [Vec::new()];
                let rows = cx.reader().transaction();
                rows.node_properties(&without_cell, &[prop], &mut values)?;
                let [values] = values;
                values.into_iter().for_each(|value| counts.add(value, 1));
            }
            if !self.hold(counts.bytes(), cx) {
                return Ok(None);
            }
        }
        if !self.hold(counts.bytes() + counts.finish_bytes(), cx) {
            return Ok(None);
        }
        cx.run.note_view(self.op_ref.id);
        Ok(Some(counts.finish()))
    }

    /// Reserves this number of bytes in total; false if the memory is not available.
    fn hold(&mut self, bytes: usize, cx: &mut Cx<'_>) -> bool {
        let more = bytes.saturating_sub(self.held);
        let fits = cx.run.watch.try_hold(more);
        self.held += if fits { more } else { 0 };
        fits
    }
}

impl Operate for CountByColumn {
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        let op_ref = self.op_ref.clone();
        let Op::CountByColumn(plan) = op_ref.op() else {
            return Err(misplaced(op_ref.op()));
        };
        if let Strategy::Undecided = self.strategy {
            self.strategy = match self.count(plan, cx)? {
                Some(groups) => {
                    // The outer row, of which nothing is read.
                    while self.input.pull(cx)?.is_some() {}
                    Strategy::Groups(groups)
                }
                None => {
                    cx.run.watch.release(std::mem::take(&mut self.held));
                    cx.run.note_fallback(op_ref.id);
                    Strategy::Fallback
                }
            };
        }
        let groups = match &mut self.strategy {
            Strategy::Fallback => return self.fallback.pull(cx),
            Strategy::Groups(groups) => groups,
            Strategy::Undecided => {
                return Err(ExecError::Internal("an operator did not decide".into()));
            }
        };
        if groups.is_empty() {
            return Ok(None);
        }
        let given = groups.split_off(groups.len().saturating_sub(FULL_BATCH));
        let (keys, counts): (Vec<Value>, Vec<i64>) = given.into_iter().unzip();
        let mut chunk = Chunk::new(counts.len(), op_ref.plan.slots.len());
        for slot in &plan.counts {
            chunk.set(*slot, Column::Ints(counts.clone()));
        }
        chunk.set(plan.key, Column::of_values(keys));
        op_ref.prune(&mut chunk);
        Ok(Some(chunk))
    }

    fn open(&mut self, argument: &Argument) {
        self.input.open(argument);
        self.fallback.open(argument);
        self.strategy = Strategy::Undecided;
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        self.input.close(cx);
        self.fallback.close(cx);
        self.strategy = Strategy::Groups(Vec::new());
        cx.run.watch.release(std::mem::take(&mut self.held));
    }
}
