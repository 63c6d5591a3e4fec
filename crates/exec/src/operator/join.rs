//! Joins of two inputs that do not depend on one another.

use isomer_plan::physical::Op;
use isomer_value::GroupKey;
use rustc_hash::FxHashMap;

use super::{
    Argument, Child, FULL_BATCH, Operate, Spot, blocking::take_all_as_one, scan::misplaced,
};
use crate::{
    chunk::Chunk,
    column::{Column, value_bytes},
    context::Cx,
    error::Result,
    eval::{Selection, column},
};

/// Every row of the left with every row of the right, which is kept.
pub(super) struct CartesianProduct {
    spot: Spot,
    input: Child,
    right: Child,
    kept: Option<Chunk>,
    left: Option<Chunk>,
    /// The left row and the first right row that come next.
    at: (usize, usize),
    held: usize,
}

impl CartesianProduct {
    pub(super) fn new(spot: Spot, input: Child, right: Child) -> Self {
        Self {
            spot,
            input,
            right,
            kept: None,
            left: None,
            at: (0, 0),
            held: 0,
        }
    }
}

impl Operate for CartesianProduct {
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        loop {
            if self
                .left
                .as_ref()
                .is_none_or(|left| self.at.0 >= left.len())
            {
                self.left = self.input.pull_flat(cx)?;
                self.at = (0, 0);
            }
            let Some(left) = &self.left else {
                return Ok(None);
            };
            if self.kept.is_none() {
                self.kept = Some(take_all_as_one(&mut self.right, &mut self.held, cx)?);
            }
            let Some(kept) = &self.kept else {
                return Ok(None);
            };
            if kept.is_empty() {
                self.at.0 = left.len();
                continue;
            }
            let (mut left_rows, mut right_rows) = (Vec::new(), Vec::new());
            while left_rows.len() < FULL_BATCH && self.at.0 < left.len() {
                let count = (FULL_BATCH - left_rows.len()).min(kept.len() - self.at.1);
                left_rows.resize(left_rows.len() + count, self.at.0 as u32);
                right_rows.extend(self.at.1 as u32..(self.at.1 + count) as u32);
                self.at.1 += count;
                if self.at.1 == kept.len() {
                    self.at = (self.at.0 + 1, 0);
                }
            }
            cx.run.watch.tick(left_rows.len())?;
            return Ok(Some(pair(&self.spot, left, &left_rows, kept, &right_rows)));
        }
    }

    fn open(&mut self, argument: &Argument) {
        self.input.open(argument);
        self.right.open(argument);
        self.kept = None;
        self.left = None;
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        self.input.close(cx);
        self.right.close(cx);
        self.kept = None;
        self.left = None;
        cx.run.watch.release(std::mem::take(&mut self.held));
    }
}

/// Rows of the left beside rows of the right; a slot that both have is taken from the left.
fn pair(spot: &Spot, left: &Chunk, left_rows: &[u32], right: &Chunk, right_rows: &[u32]) -> Chunk {
    let mut made = left.gather(left_rows);
    for slot in right.slots() {
        if spot.is_live(slot)
            && left.column(slot).is_none()
            && let Some(column) = right.column(slot)
        {
            made.set(slot, column.gather(right_rows));
        }
    }
    spot.prune(&mut made);
    made
}

/// Rows whose keys are equal.
pub(super) struct HashJoin {
    spot: Spot,
    input: Child,
    right: Child,
    table: Option<Table>,
    held: usize,
    left: Option<Chunk>,
    /// Pairs found for the left chunk that were not given yet.
    pairs: (Vec<u32>, Vec<u32>),
    pairs_at: usize,
}

struct Table {
    rows: Chunk,
    index: FxHashMap<Vec<GroupKey>, Vec<u32>>,
}

impl HashJoin {
    pub(super) fn new(spot: Spot, input: Child, right: Child) -> Self {
        Self {
            spot,
            input,
            right,
            table: None,
            held: 0,
            left: None,
            pairs: (Vec::new(), Vec::new()),
            pairs_at: 0,
        }
    }
}

/// The keys of all rows; none where a part is null or NaN: it equals nothing.
fn join_keys(
    exprs: &[isomer_plan::expr::Expr],
    chunk: &Chunk,
    cx: &mut Cx<'_>,
) -> Result<Vec<Option<Vec<GroupKey>>>> {
    let columns = exprs
        .iter()
        .map(|expr| column(expr, chunk, Selection::All(chunk.len()), cx))
        .collect::<Result<Vec<_>>>()?;
    let part = |column: &Column, row: usize| {
        let value = column.get(row);
        // `=` with itself is not true for null, NaN, and lists that hold them.
        (isomer_value::equality::equal(&value, &value) == Some(true)).then_some(GroupKey(value))
    };
    Ok((0..chunk.len())
        .map(|row| columns.iter().map(|column| part(column, row)).collect())
        .collect())
}

impl Operate for HashJoin {
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        let spot = self.spot.clone();
        let Op::HashJoin {
            input_keys,
            right_keys,
            ..
        } = spot.op()
        else {
            return Err(misplaced(spot.op()));
        };
        loop {
            if let (Some(left), Some(table)) = (&self.left, &self.table)
                && self.pairs_at < self.pairs.0.len()
            {
                let end = (self.pairs_at + FULL_BATCH).min(self.pairs.0.len());
                let made = pair(
                    &spot,
                    left,
                    &self.pairs.0[self.pairs_at..end],
                    &table.rows,
                    &self.pairs.1[self.pairs_at..end],
                );
                self.pairs_at = end;
                return Ok(Some(made));
            }
            let Some(left) = self.input.pull_flat(cx)? else {
                return Ok(None);
            };
            if self.table.is_none() {
                let rows = take_all_as_one(&mut self.right, &mut self.held, cx)?;
                let mut index: FxHashMap<Vec<GroupKey>, Vec<u32>> = FxHashMap::default();
                let mut bytes = 0;
                for (row, key) in join_keys(right_keys, &rows, cx)?.into_iter().enumerate() {
                    if let Some(key) = key {
                        bytes += 64 + key.iter().map(|part| value_bytes(&part.0)).sum::<usize>();
                        index.entry(key).or_default().push(row as u32);
                    }
                }
                cx.run.watch.hold(bytes)?;
                self.held += bytes;
                self.table = Some(Table { rows, index });
            }
            let keys = join_keys(input_keys, &left, cx)?;
            self.pairs.0.clear();
            self.pairs.1.clear();
            self.pairs_at = 0;
            if let Some(table) = &self.table {
                for (row, key) in keys.into_iter().enumerate() {
                    if let Some(found) = key.and_then(|key| table.index.get(&key)) {
                        self.pairs
                            .0
                            .resize(self.pairs.0.len() + found.len(), row as u32);
                        self.pairs.1.extend(found);
                    }
                }
            }
            self.left = Some(left);
        }
    }

    fn open(&mut self, argument: &Argument) {
        self.input.open(argument);
        self.right.open(argument);
        self.table = None;
        self.left = None;
        self.pairs_at = usize::MAX;
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        self.input.close(cx);
        self.right.close(cx);
        self.table = None;
        self.left = None;
        cx.run.watch.release(std::mem::take(&mut self.held));
    }
}
