//! Joins of two inputs that do not depend on one another.

use isomer_plan::{expr::Expr, physical::Op};
use isomer_value::GroupKey;
use rustc_hash::FxHashMap;

use super::{Argument, Child, FULL_BATCH, Operate, Spot, blocking::Kept, scan::misplaced};
use crate::{
    chunk::Chunk,
    column::{Column, value_bytes},
    context::Cx,
    error::Result,
    eval::{Selection, column},
    spill::{
        MergedRows, Spool, SpoolReader,
        join::{JoinSide, join},
    },
};

/// Every row of the left with every row of the right, which is kept.
pub(super) struct CartesianProduct {
    spot: Spot,
    input: Child,
    right: Child,
    kept: Option<Right>,
    left: Option<Chunk>,
    /// The left row and the first right row that come next.
    at: (usize, usize),
    held: usize,
}

/// The right side's rows.
enum Right {
    Memory(Chunk),
    /// Read again for each row of the left.
    Disk(Spool, Option<SpoolReader>),
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
            let kept = match &mut self.kept {
                Some(kept) => kept,
                none => {
                    cx.run.watch.release(std::mem::take(&mut self.held));
                    let right = take_right(&self.spot, &mut self.right, &mut self.held, cx)?;
                    none.insert(right)
                }
            };
            let kept = match kept {
                Right::Memory(kept) => kept,
                Right::Disk(spool, reader) => {
                    let rows = reader.get_or_insert_with(|| spool.reader());
                    let Some(rows) = rows.next_chunk(spool, cx)? else {
                        *reader = None;
                        self.at.0 += 1;
                        continue;
                    };
                    let left_rows = vec![self.at.0 as u32; rows.len()];
                    let right_rows: Vec<u32> = (0..rows.len() as u32).collect();
                    return Ok(Some(pair(&self.spot, left, &left_rows, &rows, &right_rows)));
                }
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

/// The rows of the right side, in one chunk or on disk.
fn take_right(spot: &Spot, right: &mut Child, held: &mut usize, cx: &mut Cx<'_>) -> Result<Right> {
    let Kept { chunks, spool } = Kept::take(spot.id, right, held, cx)?;
    let Some(rest) = spool else {
        let mut rows = Chunk::new(0, 0);
        chunks.into_iter().for_each(|chunk| rows.append(chunk));
        return Ok(Right::Memory(rows));
    };
    // All of them in one place: the rows that fit would have to be given back before what comes next.
    let mut spool = Spool::new(spot.id, cx)?;
    for chunk in chunks {
        spool.push(&chunk, cx)?;
    }
    cx.run.watch.release(std::mem::take(held));
    let mut reader = rest.reader();
    while let Some(chunk) = reader.next_chunk(&rest, cx)? {
        spool.push(&chunk, cx)?;
    }
    Ok(Right::Disk(spool, None))
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
    /// The result, where the right side did not fit into memory.
    merged: Option<MergedRows>,
    held: usize,
    left: Option<Chunk>,
    /// The keys of the left chunk's rows.
    keys: Vec<Option<Vec<GroupKey>>>,
    /// The left row, and the first of its partners, that come next.
    at: (usize, usize),
}

struct Table {
    rows: Chunk,
    index: FxHashMap<Vec<GroupKey>, Vec<u32>>,
}

impl Table {
    /// The next pairs from `at` on, a left row beside a right one, about as many as fit into a chunk; none at the end.
    fn pairs(
        &self,
        keys: &[Option<Vec<GroupKey>>],
        at: &mut (usize, usize),
    ) -> (Vec<u32>, Vec<u32>) {
        let (mut left, mut right) = (Vec::new(), Vec::new());
        while at.0 < keys.len() && left.len() < FULL_BATCH {
            let found = keys[at.0].as_ref().and_then(|key| self.index.get(key));
            let rest = found.map_or(&[][..], |found| &found[at.1..]);
            let count = rest.len().min(FULL_BATCH - left.len());
            left.resize(left.len() + count, at.0 as u32);
            right.extend(&rest[..count]);
            *at = if count == rest.len() {
                (at.0 + 1, 0)
            } else {
                (at.0, at.1 + count)
            };
        }
        (left, right)
    }
}

impl HashJoin {
    pub(super) fn new(spot: Spot, input: Child, right: Child) -> Self {
        Self {
            spot,
            input,
            right,
            table: None,
            merged: None,
            held: 0,
            left: None,
            keys: Vec::new(),
            at: (0, 0),
        }
    }
}

/// The right side, ready to be looked up in.
enum Built {
    Memory(Table),
    Disk(JoinSide),
}

impl HashJoin {
    /// Takes the right side.
    fn build(&mut self, keys: &[Expr], cx: &mut Cx<'_>) -> Result<Built> {
        let mut rows = Chunk::new(0, 0);
        let mut index: FxHashMap<Vec<GroupKey>, Vec<u32>> = FxHashMap::default();
        let mut spilled: Option<JoinSide> = None;
        while let Some(chunk) = self.right.pull_flat(cx)? {
            let found = join_keys(keys, &chunk, cx)?;
            if let Some(spilled) = &mut spilled {
                spilled.add(&chunk, &found, cx)?;
                continue;
            }
            let parts = found.iter().flatten().flatten();
            let bytes =
                chunk.bytes_appended() + parts.map(|part| 64 + value_bytes(&part.0)).sum::<usize>();
            if cx.run.watch.try_hold(bytes) {
                self.held += bytes;
                let first = rows.len() as u32;
                for (row, key) in (first..).zip(found) {
                    if let Some(key) = key {
                        index.entry(key).or_default().push(row);
                    }
                }
                rows.append(chunk);
                continue;
            }
            let mut side = JoinSide::new(self.spot.id, keys.len(), cx)?;
            index = FxHashMap::default();
            if !rows.is_empty() {
                let before = join_keys(keys, &rows, cx)?;
                side.add(&rows, &before, cx)?;
                rows = Chunk::new(0, 0);
                cx.run.watch.release(std::mem::take(&mut self.held));
            }
            side.add(&chunk, &found, cx)?;
            spilled = Some(side);
        }
        Ok(match spilled {
            Some(side) => Built::Disk(side),
            None => Built::Memory(Table { rows, index }),
        })
    }

    /// Joins on disk; `first` are the first rows of the left.
    fn on_disk(
        &mut self,
        first: Chunk,
        keys: &[Expr],
        right: JoinSide,
        cx: &mut Cx<'_>,
    ) -> Result<MergedRows> {
        let mut left = JoinSide::new(self.spot.id, keys.len(), cx)?;
        let mut next = Some(first);
        while let Some(chunk) = next {
            let found = join_keys(keys, &chunk, cx)?;
            left.add(&chunk, &found, cx)?;
            next = self.input.pull_flat(cx)?;
        }
        let spot = self.spot.clone();
        join(spot.id, left, right, |slot| spot.is_live(slot), cx)
    }
}

/// The keys of all rows; none where a part is null or NaN: it equals nothing.
fn join_keys(exprs: &[Expr], chunk: &Chunk, cx: &mut Cx<'_>) -> Result<Vec<Option<Vec<GroupKey>>>> {
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
            if let Some(merged) = &mut self.merged {
                return merged.next_chunk(FULL_BATCH, cx);
            }
            if let (Some(left), Some(table)) = (&self.left, &self.table) {
                let (left_rows, right_rows) = table.pairs(&self.keys, &mut self.at);
                if !left_rows.is_empty() {
                    cx.run.watch.tick(left_rows.len())?;
                    return Ok(Some(pair(
                        &spot,
                        left,
                        &left_rows,
                        &table.rows,
                        &right_rows,
                    )));
                }
                self.left = None;
            }
            let Some(left) = self.input.pull_flat(cx)? else {
                return Ok(None);
            };
            if self.table.is_none() {
                cx.run.watch.release(std::mem::take(&mut self.held));
                match self.build(right_keys, cx)? {
                    Built::Memory(table) => self.table = Some(table),
                    Built::Disk(right) => {
                        self.merged = Some(self.on_disk(left, input_keys, right, cx)?);
                        continue;
                    }
                }
            }
            self.keys = join_keys(input_keys, &left, cx)?;
            self.at = (0, 0);
            self.left = Some(left);
        }
    }

    fn open(&mut self, argument: &Argument) {
        self.input.open(argument);
        self.right.open(argument);
        self.table = None;
        self.merged = None;
        self.left = None;
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        self.input.close(cx);
        self.right.close(cx);
        self.table = None;
        self.merged = None;
        self.left = None;
        cx.run.watch.release(std::mem::take(&mut self.held));
    }
}
