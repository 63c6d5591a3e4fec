//! Joins of two independent inputs.

use isomer_plan::{expr::BoundExpr, physical::Op};
use isomer_value::GroupKey;
use rustc_hash::FxHashMap;

use super::{
    Argument, Child, FULL_BATCH, Operate, OperatorRef, Pieces, blocking::BufferedRows,
    scan::misplaced,
};
use crate::{
    chunk::Chunk,
    column::Column,
    context::Cx,
    error::Result,
    eval::{Selection, column},
    spill::{
        MergedRows, Spool, SpoolReader,
        join::{JoinSide, join},
    },
    value_size::value_bytes,
};

/// The Cartesian product: every row of the left with every row of the right, which is buffered.
pub(super) struct CartesianProduct {
    op_ref: OperatorRef,
    input: Child,
    right: Child,
    kept: Option<Right>,
    left: Option<Chunk>,
    /// The next left row and its next right row.
    at: (usize, usize),
    held: usize,
}

/// The right side's rows.
enum Right {
    Memory(Chunk),
    /// Read again for each row of the left.
    Disk(Spool, Option<Box<SpoolReader>>),
}

impl CartesianProduct {
    pub(super) fn new(op_ref: OperatorRef, input: Child, right: Child) -> Self {
        Self {
            op_ref,
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
            // The right side is read after the first row of the left exists: without one, it need not run.
            let kept = match &mut self.kept {
                Some(kept) => kept,
                none => {
                    // Of an earlier execution: `open` resets the operator without access to the memory budget.
                    cx.run.watch.release(std::mem::take(&mut self.held));
                    let right = take_right(&self.op_ref, &mut self.right, &mut self.held, cx)?;
                    none.insert(right)
                }
            };
            let kept = match kept {
                Right::Memory(kept) => kept,
                Right::Disk(spool, reader) => {
                    // On disk, the right side is read once per left row.
                    let rows = reader.get_or_insert_with(|| Box::new(spool.reader()));
                    let Some(rows) = rows.next_chunk(spool, cx)? else {
                        *reader = None;
                        self.at.0 += 1;
                        continue;
                    };
                    let left_rows = vec![self.at.0 as u32; rows.len()];
                    let right_rows: Vec<u32> = (0..rows.len() as u32).collect();
                    return Ok(Some(pair(
                        &self.op_ref,
                        left,
                        &left_rows,
                        &rows,
                        &right_rows,
                    )));
                }
            };
            // No partner for any row; but the left must be read to its end, because it may write.
            if kept.is_empty() {
                self.at.0 = left.len();
                continue;
            }
            let (mut left_rows, mut right_rows) = (Vec::new(), Vec::new());
            while left_rows.len() < FULL_BATCH && self.at.0 < left.len() {
                // Whole stretches of right rows per left row keep both sides in order, and copy columns instead of
                // values.
                let count = (FULL_BATCH - left_rows.len()).min(kept.len() - self.at.1);
                left_rows.resize(left_rows.len() + count, self.at.0 as u32);
                right_rows.extend(self.at.1 as u32..(self.at.1 + count) as u32);
                self.at.1 += count;
                if self.at.1 == kept.len() {
                    self.at = (self.at.0 + 1, 0);
                }
            }
            cx.run.watch.tick(left_rows.len())?;
            return Ok(Some(pair(
                &self.op_ref,
                left,
                &left_rows,
                kept,
                &right_rows,
            )));
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
fn take_right(
    op_ref: &OperatorRef,
    right: &mut Child,
    held: &mut usize,
    cx: &mut Cx<'_>,
) -> Result<Right> {
    let BufferedRows { chunks, spool } = BufferedRows::take(op_ref.id, right, held, cx)?;
    let Some(rest) = spool else {
        let mut rows = Chunk::new(0, 0);
        chunks.into_iter().for_each(|chunk| rows.append(chunk));
        return Ok(Right::Memory(rows));
    };
    // Buffered as a whole: rows in memory would have to be released before the next operator runs.
    let mut spool = Spool::new(op_ref.id, cx)?;
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

/// Combines rows of the left with rows of the right; a slot that both have is taken from the left.
fn pair(
    op_ref: &OperatorRef,
    left: &Chunk,
    left_rows: &[u32],
    right: &Chunk,
    right_rows: &[u32],
) -> Chunk {
    let mut made = left.gather(left_rows);
    for slot in right.slots() {
        if op_ref.is_live(slot)
            && left.column(slot).is_none()
            && let Some(column) = right.column(slot)
        {
            made.set(slot, column.gather(right_rows));
        }
    }
    op_ref.prune(&mut made);
    made
}

/// A hash join: rows with equal keys.
pub(super) struct HashJoin {
    op_ref: OperatorRef,
    input: Child,
    right: Child,
    table: Option<Table>,
    /// The result of the join on disk, if the right side exceeded the memory.
    merged: Option<MergedRows>,
    held: usize,
    pieces: Pieces,
    left: Option<Chunk>,
    /// The keys of the left chunk's rows.
    keys: JoinKeys,
    /// The next left row and its next partner.
    at: (usize, usize),
}

struct Table {
    rows: Chunk,
    index: FxHashMap<Vec<GroupKey>, Vec<u32>>,
}

impl Table {
    /// The next pairs of left and right rows from `at` on, about a chunk's worth; none at the end.
    fn pairs(
        &self,
        keys: &[Option<Vec<GroupKey>>],
        at: &mut (usize, usize),
    ) -> (Vec<u32>, Vec<u32>) {
        let (mut left, mut right) = (Vec::new(), Vec::new());
        while at.0 < keys.len() && left.len() < FULL_BATCH {
            let found = keys[at.0].as_ref().and_then(|key| self.index.get(key));
            // Partners in the order of the right side: the join keeps the order of the left, then of the right.
            let rest = found.map_or(&[][..], |found| &found[at.1..]);
            let count = rest.len().min(FULL_BATCH - left.len());
            left.resize(left.len() + count, at.0 as u32);
            right.extend(&rest[..count]);
            // A key with many partners is continued in the next chunk: the output of one row may
            // be as large as the right side.
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
    pub(super) fn new(op_ref: OperatorRef, input: Child, right: Child) -> Self {
        Self {
            op_ref,
            input,
            right,
            table: None,
            merged: None,
            held: 0,
            pieces: Pieces::default(),
            left: None,
            keys: Vec::new(),
            at: (0, 0),
        }
    }
}

/// The build side, ready for lookups.
enum Built {
    Memory(Table),
    Disk(JoinSide),
}

impl HashJoin {
    /// Reads the right side and builds the hash table.
    fn build(&mut self, keys: &[BoundExpr], cx: &mut Cx<'_>) -> Result<Built> {
        let mut rows = Chunk::new(0, 0);
        let mut index: FxHashMap<Vec<GroupKey>, Vec<u32>> = FxHashMap::default();
        let mut spilled: Option<JoinSide> = None;
        let mut pieces = Pieces::default();
        while let Some(chunk) = self.right.pull_flat(cx)? {
            pieces.each(chunk, cx, |chunk, cx| {
                let found = join_keys(keys, chunk, cx)?;
                cx.run.watch.use_computed();
                if let Some(spilled) = &mut spilled {
                    // Once one row is on disk, all later ones follow: a key's rows must be in one place.
                    return spilled.add(chunk, &found, cx);
                }
                // The key is held in the table in addition to the row.
                let parts = found.iter().flatten().flatten();
                let bytes = chunk.bytes_appended()
                    + parts.map(|part| 64 + value_bytes(&part.0)).sum::<usize>();
                if cx.run.watch.try_hold(bytes) {
                    self.held += bytes;
                    let first = rows.len() as u32;
                    for (row, key) in (first..).zip(found) {
                        if let Some(key) = key {
                            index.entry(key).or_default().push(row);
                        }
                    }
                    rows.append(std::mem::take(chunk));
                    return Ok(());
                }
                // The memory is used up: from here on a Grace hash join (Kitsuregawa, Tanaka and Moto-oka, 1983),
                // which writes both sides, partitioned by the hash of their keys.
                let mut side = JoinSide::new(self.op_ref.id, keys.len(), cx)?;
                index = FxHashMap::default();
                if !rows.is_empty() {
                    let mut before = Pieces::default();
                    // The keys are computed again: the table that has them is gone, to make room for this.
                    before.each(std::mem::take(&mut rows), cx, |rows, cx| {
                        let found = join_keys(keys, rows, cx)?;
                        cx.run.watch.use_computed();
                        side.add(rows, &found, cx)
                    })?;
                    cx.run.watch.release(std::mem::take(&mut self.held));
                }
                side.add(chunk, &found, cx)?;
                spilled = Some(side);
                Ok(())
            })?;
        }
        Ok(match spilled {
            Some(side) => Built::Disk(side),
            None => Built::Memory(Table { rows, index }),
        })
    }

    /// The next rows of the left and their keys.
    fn keyed(&mut self, keys: &[BoundExpr], cx: &mut Cx<'_>) -> Result<Option<(Chunk, JoinKeys)>> {
        self.pieces.next(&mut self.input, cx, |rows, cx| {
            rows.flatten();
            join_keys(keys, rows, cx)
        })
    }

    /// Joins on disk; `first` are the first rows of the left.
    fn on_disk(
        &mut self,
        first: Chunk,
        keys: &[BoundExpr],
        right: JoinSide,
        cx: &mut Cx<'_>,
    ) -> Result<MergedRows> {
        // The right side is complete on disk, in partitions by hash. The left is partitioned in the
        // same way, so that each pair of partitions can be joined alone.
        let mut left = JoinSide::new(self.op_ref.id, keys.len(), cx)?;
        let found = join_keys(keys, &first, cx)?;
        left.add(&first, &found, cx)?;
        drop((first, found));
        while let Some((rows, found)) = self.keyed(keys, cx)? {
            left.add(&rows, &found, cx)?;
        }
        let op_ref = self.op_ref.clone();
        join(op_ref.id, left, right, |slot| op_ref.is_live(slot), cx)
    }
}

/// The keys of rows; none if a part is null or NaN: it equals nothing.
type JoinKeys = Vec<Option<Vec<GroupKey>>>;

/// The keys of all rows of a chunk.
fn join_keys(exprs: &[BoundExpr], chunk: &Chunk, cx: &mut Cx<'_>) -> Result<JoinKeys> {
    let columns = exprs
        .iter()
        .map(|expr| column(expr, chunk, Selection::All(chunk.len()), cx))
        .collect::<Result<Vec<_>>>()?;
    let part = |column: &Column, row: usize| {
        let value = column.get(row);
        // `=` of a value with itself is not true for null, NaN, and lists that contain them.
        (isomer_value::equality::equal(&value, &value) == Some(true)).then_some(GroupKey(value))
    };
    Ok((0..chunk.len())
        .map(|row| columns.iter().map(|column| part(column, row)).collect())
        .collect())
}

impl Operate for HashJoin {
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        let op_ref = self.op_ref.clone();
        let Op::HashJoin {
            input_keys,
            right_keys,
            ..
        } = op_ref.op()
        else {
            return Err(misplaced(op_ref.op()));
        };
        loop {
            // On disk, the join is complete when its first row is returned.
            if let Some(merged) = &mut self.merged {
                return merged.next_chunk(FULL_BATCH, cx);
            }
            if let (Some(left), Some(table)) = (&self.left, &self.table) {
                let (left_rows, right_rows) = table.pairs(&self.keys, &mut self.at);
                if !left_rows.is_empty() {
                    cx.run.watch.tick(left_rows.len())?;
                    return Ok(Some(pair(
                        &op_ref,
                        left,
                        &left_rows,
                        &table.rows,
                        &right_rows,
                    )));
                }
                self.left = None;
            }
            let Some((left, found)) = self.keyed(input_keys, cx)? else {
                return Ok(None);
            };
            // Built when the left has a row: an empty left side costs no table.
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
            self.keys = found;
            self.at = (0, 0);
            self.left = Some(left);
        }
    }

    fn open(&mut self, argument: &Argument) {
        self.input.open(argument);
        self.right.open(argument);
        self.pieces.open();
        self.table = None;
        self.merged = None;
        self.left = None;
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        self.input.close(cx);
        self.right.close(cx);
        self.pieces.close(cx);
        self.table = None;
        self.merged = None;
        self.left = None;
        cx.run.watch.release(std::mem::take(&mut self.held));
    }
}
