//! Pipeline breakers: operators that read all rows before they return the first (sort, top, eager).

use std::{borrow::Cow, cmp::Ordering, collections::VecDeque};

use isomer_plan::{
    expr::{BoundExpr, SlotId},
    physical::{self, InThread, Op, OpId, SortKey},
};
use isomer_value::{Value, order::cmp_order};

use super::{
    Argument, Child, FULL_BATCH, Operate, OperatorRef, Pieces,
    position::{position_slot, position_slot_of},
    scan::{misplaced, row_count},
};
use crate::{
    chunk::Chunk,
    context::Cx,
    error::Result,
    eval::{Selection, column},
    spill::{Layout, MergedRows, SortedRuns, Spool, SpoolReader},
    value_size::value_bytes,
};

/// Stable sort; with a limit only the first rows are kept while reading.
pub(super) struct Sort {
    op_ref: OperatorRef,
    input: Child,
    sorted: Option<Output>,
    /// The slot of positions, for rows from several threads: see [`super::exchange`].
    place: Option<SlotId>,
    /// Whether other threads handle other rows: then all columns stay, for the consumer that sees all rows.
    in_part: bool,
    held: usize,
}

/// If more rows than this are wanted, threads do not truncate their rows.
const MAX_TRUNCATED_ROWS: usize = 1 << 14;

/// Sorted rows, in memory or on disk, and how many of them remain to be returned.
enum Output {
    Memory(Sorted),
    Disk(MergedRows, usize),
}

struct Sorted {
    rows: Chunk,
    /// The order: positions in `rows`.
    order: Vec<u32>,
    at: usize,
}

/// Rows with their sort keys.
#[derive(Default)]
struct KeyedRows {
    rows: Chunk,
    /// One column per key.
    keys: Vec<Vec<Value>>,
}

impl KeyedRows {
    /// Indexes of the rows in the order of their keys, at most `limit`; stable. Sorted in pieces that are merged, so
    /// that cancellation is noticed in time.
    fn order(&self, keys: &[SortKey], limit: Option<usize>, cx: &mut Cx<'_>) -> Result<Vec<u32>> {
        let compare = |a: &u32, b: &u32| {
            keys.iter()
                .zip(&self.keys)
                .map(|(key, values)| {
                    let order = cmp_order(&values[*a as usize], &values[*b as usize]);
                    if key.descending {
                        order.reverse()
                    } else {
                        order
                    }
                })
                .find(|order| order.is_ne())
                .unwrap_or(Ordering::Equal)
        };
        // Keys may be long lists: then fewer comparisons run between two checks of the clock.
        let key_bytes: usize = self.keys.iter().flatten().map(value_bytes).sum();
        let weight = key_bytes / self.rows.len().max(1) / size_of::<Value>() + 1;
        let piece_len = (MAX_UNCHECKED_KEYS / weight).clamp(8, MAX_UNCHECKED_KEYS);
        let mut order: Vec<u32> = (0..self.rows.len() as u32).collect();
        // Quickselect instead of a sort, O(n): the number of a row breaks ties, which keeps it stable.
        if let Some(last) = limit.and_then(|limit| limit.checked_sub(1))
            && last < order.len()
            && order.len() <= piece_len
        {
            // Selects the first ones in any order; only these are then sorted.
            order.select_nth_unstable_by(last, |a, b| compare(a, b).then(a.cmp(b)));
            order.truncate(last + 1);
            order.sort_unstable();
        }
        for piece in order.chunks_mut(piece_len) {
            piece.sort_by(compare);
            cx.tick(MAX_UNCHECKED_KEYS)?;
        }
        // A bottom-up merge sort above pieces that the standard library sorts.
        let mut sorted = piece_len;
        while sorted < order.len() {
            let mut merged = Vec::with_capacity(order.len());
            for pair in order.chunks(2 * sorted) {
                let (left, right) = pair.split_at(sorted.min(pair.len()));
                merge(left, right, weight, compare, &mut merged, cx)?;
            }
            order = merged;
            sorted *= 2;
        }
        order.truncate(limit.unwrap_or(usize::MAX));
        Ok(order)
    }

    /// Keeps the first `limit` rows in the order of the keys.
    fn cut(&mut self, keys: &[SortKey], limit: usize, cx: &mut Cx<'_>) -> Result<()> {
        let order = self.order(keys, Some(limit), cx)?;
        self.rows = self.rows.gather(&order);
        for values in &mut self.keys {
            *values = order
                .iter()
                .map(|&row| std::mem::take(&mut values[row as usize]))
                .collect();
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.rows.bytes() + self.keys.iter().flatten().map(value_bytes).sum::<usize>()
    }

    /// Writes the rows, sorted, and clears them.
    fn spill(
        &mut self,
        keys: &[SortKey],
        limit: Option<usize>,
        spilled: &mut Spilled,
        cx: &mut Cx<'_>,
    ) -> Result<()> {
        let order = self.order(keys, limit, cx)?;
        spilled.layout.add_columns(&self.rows);
        let layout = &spilled.layout;
        spilled.runs.add(cx, |writer, cx| {
            let mut values = Vec::new();
            for &row in &order {
                cx.tick(1)?;
                values.clear();
                values.extend(self.keys.iter().map(|key| key[row as usize].clone()));
                layout.push_row(&self.rows, row as usize, &mut values);
                writer.push(&values)?;
            }
            Ok(())
        })?;
        self.rows = Chunk::new(0, 0);
        self.keys.iter_mut().for_each(Vec::clear);
        Ok(())
    }
}

/// Rows that spilled to disk.
struct Spilled {
    runs: SortedRuns,
    layout: Layout,
}

/// Values of keys that are sorted between two checks of the clock.
const MAX_UNCHECKED_KEYS: usize = 1 << 16;

/// Merges two sorted pieces into `out`; of equal rows the left one comes first. A comparison reads `weight` values.
fn merge(
    left: &[u32],
    right: &[u32],
    weight: usize,
    compare: impl Fn(&u32, &u32) -> Ordering,
    out: &mut Vec<u32>,
    cx: &mut Cx<'_>,
) -> Result<()> {
    let (mut at_left, mut at_right) = (0, 0);
    while at_left < left.len() && at_right < right.len() {
        cx.tick(weight)?;
        if compare(&right[at_right], &left[at_left]).is_lt() {
            out.push(right[at_right]);
            at_right += 1;
        } else {
            out.push(left[at_left]);
            at_left += 1;
        }
    }
    out.extend_from_slice(&left[at_left..]);
    out.extend_from_slice(&right[at_right..]);
    Ok(())
}

impl Sort {
    pub(super) fn new(op_ref: OperatorRef, input: Child) -> Self {
        Self {
            place: position_slot_of(&input),
            op_ref,
            input,
            sorted: None,
            in_part: false,
            held: 0,
        }
    }

    /// For the rows of one of the threads of an exchange; it forwards only the first rows if few are wanted.
    pub(super) fn in_part(op_ref: OperatorRef, input: Child) -> Self {
        Self {
            place: Some(position_slot(&op_ref.plan, op_ref.id)),
            in_part: true,
            ..Self::new(op_ref, input)
        }
    }

    /// Writes the rows that were read so far.
    fn spill(
        &self,
        run: &mut KeyedRows,
        keys: &[SortKey],
        limit: Option<usize>,
        spilled: &mut Option<Spilled>,
        cx: &mut Cx<'_>,
    ) -> Result<()> {
        let spilled = spilled.get_or_insert_with(|| Spilled {
            runs: SortedRuns::new(self.op_ref.id, keys.iter().map(|key| key.descending), cx),
            layout: Layout::default(),
        });
        run.spill(keys, limit, spilled, cx)
    }

    /// Takes rows with their keys; rows that do not fit go to disk.
    fn take(
        &mut self,
        mut rows: Chunk,
        values: Vec<Vec<Value>>,
        (keys, limit): (&[SortKey], Option<usize>),
        run: &mut KeyedRows,
        spilled: &mut Option<Spilled>,
        cx: &mut Cx<'_>,
    ) -> Result<()> {
        // Columns that no operator above reads are dropped before the rows are held.
        if !self.in_part {
            let (op_ref, place) = (&self.op_ref, self.place);
            rows.prune(|slot| Some(slot) != place && op_ref.is_live(slot));
        }
        let added = rows.bytes_appended() + values.iter().flatten().map(value_bytes).sum::<usize>();
        run.rows.append(rows);
        for (all, more) in run.keys.iter_mut().zip(values) {
            all.extend(more);
        }
        // External merge sort (Knuth, volume 3, 5.4): a sorted run for each time the memory is full.
        if !cx.run.watch.try_hold(added) {
            self.spill(run, keys, limit, spilled, cx)?;
            cx.run.watch.release(std::mem::take(&mut self.held));
            return Ok(());
        }
        self.held += added;
        if let Some(limit) = limit
            // Top-k by truncation: the memory stays within twice the limit, and each row is moved O(1) times on
            // average.
            && run.rows.len() >= limit.saturating_mul(2).max(4 * FULL_BATCH)
        {
            run.cut(keys, limit, cx)?;
            cx.run.watch.release(std::mem::take(&mut self.held));
            // Fewer than were held just now; but others may have taken what was released.
            let bytes = run.bytes();
            if cx.run.watch.try_hold(bytes) {
                self.held = bytes;
            } else {
                self.spill(run, keys, Some(limit), spilled, cx)?;
            }
        }
        Ok(())
    }

    fn sort(&mut self, keys: &[SortKey], limit: Option<usize>, cx: &mut Cx<'_>) -> Result<Output> {
        cx.run.watch.release(std::mem::take(&mut self.held));
        let mut spilled: Option<Spilled> = None;
        if limit == Some(0) {
            // Nothing is wanted, but the operators below may write.
            while self.input.pull(cx)?.is_some() {}
            return Ok(Output::Memory(Sorted {
                rows: Chunk::new(0, 0),
                order: Vec::new(),
                at: 0,
            }));
        }
        let mut next = self.input.pull_flat(cx)?;
        let mut keys = Cow::Borrowed(keys);
        if let (Some(chunk), Some(place)) = (&next, self.place)
            && chunk.column(place).is_some()
        {
            // Among equal rows, in the order that a single thread would give.
            keys.to_mut().push(SortKey {
                expr: BoundExpr::Slot(place),
                descending: false,
            });
        }
        let keys = &*keys;
        let mut run = KeyedRows {
            rows: Chunk::new(0, 0),
            keys: vec![Vec::new(); keys.len()],
        };
        let mut pieces = Pieces::default();
        while let Some(chunk) = next {
            pieces.each(chunk, cx, |chunk, cx| {
                let made = keys
                    .iter()
                    .map(|key| {
                        let made = column(&key.expr, chunk, Selection::All(chunk.len()), cx)?;
                        Ok(made.into_owned().into_values(chunk.len()))
                    })
                    .collect::<Result<Vec<_>>>()?;
                cx.run.watch.use_computed();
                let rows = std::mem::take(chunk);
                self.take(rows, made, (keys, limit), &mut run, &mut spilled, cx)
            })?;
            next = self.input.pull_flat(cx)?;
        }
        if let Some(mut spilled) = spilled {
            run.spill(keys, limit, &mut spilled, cx)?;
            cx.run.watch.release(std::mem::take(&mut self.held));
            // Runs are merged in the order in which they were written, so equal rows stay in theirs: the sort is
            // stable on disk too.
            let merged = spilled.runs.merge(spilled.layout, cx)?;
            return Ok(Output::Disk(merged, limit.unwrap_or(usize::MAX)));
        }
        let order = run.order(keys, limit, cx)?;
        Ok(Output::Memory(Sorted {
            rows: run.rows,
            order,
            at: 0,
        }))
    }
}

impl Operate for Sort {
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        let op_ref = self.op_ref.clone();
        if self.sorted.is_none() {
            let sorted = match op_ref.op() {
                Op::Sort { keys, .. } => self.sort(keys, None, cx)?,
                Op::Top { keys, limit, .. }
                | Op::Exchange(physical::Exchange {
                    in_thread: InThread::Top { keys, limit },
                    ..
                }) => {
                    let limit = match (row_count(limit, "LIMIT", cx), limit) {
                        (Ok(limit), _) => usize::try_from(limit).unwrap_or(usize::MAX),
                        // `SKIP` plus `LIMIT` may exceed 64 bits: the operator above that counts rows reports which of
                        // them is invalid.
                        (Err(_), BoundExpr::Arith { .. }) => usize::MAX,
                        (Err(error), _) => return Err(error),
                    };
                    // Each thread would hold as many rows as the operator that merges them: passing them on is
                    // cheaper.
                    if self.in_part && limit > MAX_TRUNCATED_ROWS {
                        return self.input.pull(cx);
                    }
                    self.sort(keys, Some(limit), cx)?
                }
                other => return Err(misplaced(other)),
            };
            self.sorted = Some(sorted);
        }
        let sorted = match &mut self.sorted {
            Some(Output::Memory(sorted)) => sorted,
            Some(Output::Disk(merged, wanted)) => {
                let chunk = merged.next_chunk(*wanted, cx)?;
                *wanted -= chunk.as_ref().map_or(0, Chunk::len);
                return Ok(chunk);
            }
            None => return Ok(None),
        };
        let end = (sorted.at + FULL_BATCH).min(sorted.order.len());
        if sorted.at >= end {
            return Ok(None);
        }
        let chunk = sorted.rows.gather(&sorted.order[sorted.at..end]);
        sorted.at = end;
        Ok(Some(chunk))
    }

    fn open(&mut self, argument: &Argument) {
        self.input.open(argument);
        self.sorted = None;
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        self.input.close(cx);
        self.sorted = None;
        cx.run.watch.release(std::mem::take(&mut self.held));
    }
}

/// Reads all rows before it returns the first.
pub(super) struct Eager {
    op_ref: OperatorRef,
    input: Child,
    kept: Option<Drain>,
    held: usize,
}

impl Eager {
    pub(super) fn new(op_ref: OperatorRef, input: Child) -> Self {
        Self {
            op_ref,
            input,
            kept: None,
            held: 0,
        }
    }
}

impl Operate for Eager {
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        // The planner puts this operator between reads and writes that could observe one another
        // (the Halloween problem): without it, a scan below would find rows that a write above
        // has just created or changed.
        let kept = match &mut self.kept {
            Some(kept) => kept,
            none => {
                cx.run.watch.release(std::mem::take(&mut self.held));
                let kept = BufferedRows::take(self.op_ref.id, &mut self.input, &mut self.held, cx)?;
                none.insert(kept.drain())
            }
        };
        kept.next(&mut self.held, cx)
    }

    fn open(&mut self, argument: &Argument) {
        self.input.open(argument);
        self.kept = None;
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        self.input.close(cx);
        self.kept = None;
        cx.run.watch.release(std::mem::take(&mut self.held));
    }
}

/// All rows of an input, multiplied out: in memory as far as they fit, the rest on disk.
#[derive(Default)]
pub(super) struct BufferedRows {
    pub(super) chunks: Vec<Chunk>,
    pub(super) spool: Option<Spool>,
}

impl BufferedRows {
    /// Reads them, for the operator `op`; the bytes held are added to `held`.
    pub(super) fn take(
        op: OpId,
        input: &mut Child,
        held: &mut usize,
        cx: &mut Cx<'_>,
    ) -> Result<Self> {
        let mut kept = Self::default();
        while let Some(chunk) = input.pull_flat(cx)? {
            let bytes = chunk.bytes_appended();
            // Once a chunk is on disk, all later ones follow, so that the rows keep their order.
            if kept.spool.is_none() && cx.run.watch.try_hold(bytes) {
                *held += bytes;
                kept.chunks.push(chunk);
                continue;
            }
            let spool = match &mut kept.spool {
                Some(spool) => spool,
                none => none.insert(Spool::new(op, cx)?),
            };
            spool.push(&chunk, cx)?;
        }
        Ok(kept)
    }

    /// Calls a function for each chunk.
    pub(super) fn each(
        &self,
        cx: &mut Cx<'_>,
        mut look: impl FnMut(&Chunk, &mut Cx<'_>) -> Result<()>,
    ) -> Result<()> {
        for chunk in &self.chunks {
            look(chunk, cx)?;
        }
        if let Some(spool) = &self.spool {
            let mut reader = spool.reader();
            while let Some(chunk) = reader.next_chunk(spool, cx)? {
                look(&chunk, cx)?;
            }
        }
        Ok(())
    }

    /// Returns them chunk by chunk.
    pub(super) fn drain(self) -> Drain {
        Drain {
            chunks: self.chunks.into(),
            spooled: self.spool.map(|spool| {
                let reader = spool.reader();
                (spool, reader)
            }),
        }
    }
}

/// Buffered rows that are being returned.
pub(super) struct Drain {
    chunks: VecDeque<Chunk>,
    spooled: Option<(Spool, SpoolReader)>,
}

impl Drain {
    /// The next rows; their bytes are subtracted from `held`.
    pub(super) fn next(&mut self, held: &mut usize, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        if let Some(chunk) = self.chunks.pop_front() {
            // Released as the chunk is passed on: from here on the consumer accounts for it.
            let bytes = chunk.bytes_appended().min(*held);
            *held -= bytes;
            cx.run.watch.release(bytes);
            return Ok(Some(chunk));
        }
        match &mut self.spooled {
            Some((spool, reader)) => reader.next_chunk(spool, cx),
            None => Ok(None),
        }
    }
}
