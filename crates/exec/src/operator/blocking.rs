//! Operators that take all rows before they give the first: sort, top, eager.

use std::{cmp::Ordering, collections::VecDeque};

use isomer_plan::physical::{Op, SortKey};
use isomer_value::{Value, order::cmp_order};

use super::{
    Argument, Child, FULL_BATCH, Operate, Spot,
    scan::{misplaced, row_count},
};
use crate::{
    chunk::Chunk,
    column::value_bytes,
    context::Cx,
    error::{ExecError, Result},
    eval::{Selection, column},
};

/// Stable sort; with a limit only the first rows are kept while reading.
pub(super) struct Sort {
    spot: Spot,
    input: Child,
    sorted: Option<Sorted>,
    held: usize,
}

struct Sorted {
    rows: Chunk,
    /// The order: positions in `rows`.
    order: Vec<u32>,
    at: usize,
}

/// Rows with their sort keys.
#[derive(Default)]
struct Run {
    rows: Chunk,
    /// One column per key.
    keys: Vec<Vec<Value>>,
}

impl Run {
    /// The rows in the order of their keys: stable. Sorted in pieces that are then merged, so that a query stops in time.
    fn order(&self, keys: &[SortKey], cx: &mut Cx<'_>) -> Result<Vec<u32>> {
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
        let mut order: Vec<u32> = (0..self.rows.len() as u32).collect();
        for piece in order.chunks_mut(PIECE) {
            piece.sort_by(compare);
            cx.tick(PIECE)?;
        }
        let mut sorted = PIECE;
        while sorted < order.len() {
            let mut merged = Vec::with_capacity(order.len());
            for pair in order.chunks(2 * sorted) {
                let (left, right) = pair.split_at(sorted.min(pair.len()));
                merge(left, right, compare, &mut merged, cx)?;
            }
            order = merged;
            sorted *= 2;
        }
        Ok(order)
    }

    /// Keeps the first `limit` rows in the order of the keys.
    fn cut(&mut self, keys: &[SortKey], limit: usize, cx: &mut Cx<'_>) -> Result<()> {
        let mut order = self.order(keys, cx)?;
        order.truncate(limit);
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
}

/// Rows that are sorted without a look at the clock.
const PIECE: usize = 1 << 16;

/// Appends two sorted pieces to `out`, sorted; of equal rows the left one first.
fn merge(
    left: &[u32],
    right: &[u32],
    compare: impl Fn(&u32, &u32) -> Ordering,
    out: &mut Vec<u32>,
    cx: &mut Cx<'_>,
) -> Result<()> {
    let (mut at_left, mut at_right) = (0, 0);
    while at_left < left.len() && at_right < right.len() {
        cx.tick(1)?;
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
    pub(super) fn new(spot: Spot, input: Child) -> Self {
        Self {
            spot,
            input,
            sorted: None,
            held: 0,
        }
    }

    fn sort(&mut self, keys: &[SortKey], limit: Option<usize>, cx: &mut Cx<'_>) -> Result<Sorted> {
        let mut run = Run {
            rows: Chunk::new(0, 0),
            keys: vec![Vec::new(); keys.len()],
        };
        if limit == Some(0) {
            while self.input.pull(cx)?.is_some() {}
            return Ok(Sorted {
                rows: run.rows,
                order: Vec::new(),
                at: 0,
            });
        }
        while let Some(mut chunk) = self.input.pull_flat(cx)? {
            let before = run.keyed_rows();
            for (key, values) in keys.iter().zip(&mut run.keys) {
                let made = column(&key.expr, &chunk, Selection::All(chunk.len()), cx)?.into_owned();
                values.extend(made.into_values(chunk.len()));
            }
            self.spot.prune(&mut chunk);
            let added = chunk.bytes()
                + run
                    .keys
                    .iter()
                    .map(|values| {
                        values[before.min(values.len())..]
                            .iter()
                            .map(value_bytes)
                            .sum::<usize>()
                    })
                    .sum::<usize>();
            run.rows.append(chunk);
            cx.run.watch.hold(added)?;
            self.held += added;
            if let Some(limit) = limit
                && run.rows.len() >= limit.saturating_mul(2).max(4 * FULL_BATCH)
            {
                run.cut(keys, limit, cx)?;
                cx.run.watch.release(std::mem::take(&mut self.held));
                let bytes = run.bytes();
                cx.run.watch.hold(bytes)?;
                self.held = bytes;
            }
        }
        let mut order = run.order(keys, cx)?;
        if let Some(limit) = limit {
            order.truncate(limit);
        }
        Ok(Sorted {
            rows: run.rows,
            order,
            at: 0,
        })
    }
}

impl Run {
    /// Number of rows whose keys are in already.
    fn keyed_rows(&self) -> usize {
        self.keys.first().map_or(0, Vec::len)
    }
}

impl Operate for Sort {
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        let spot = self.spot.clone();
        if self.sorted.is_none() {
            let sorted = match spot.op() {
                Op::Sort { keys, .. } => self.sort(keys, None, cx)?,
                Op::Top { keys, limit, .. } => {
                    let limit = row_count(limit, "LIMIT", cx)?;
                    self.sort(keys, Some(usize::try_from(limit).unwrap_or(usize::MAX)), cx)?
                }
                other => return Err(misplaced(other)),
            };
            self.sorted = Some(sorted);
        }
        let Some(sorted) = &mut self.sorted else {
            return Ok(None);
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

/// Takes all rows before it passes the first.
pub(super) struct Eager {
    input: Child,
    chunks: Option<VecDeque<Chunk>>,
    held: usize,
}

impl Eager {
    pub(super) fn new(input: Child) -> Self {
        Self {
            input,
            chunks: None,
            held: 0,
        }
    }
}

impl Operate for Eager {
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        if self.chunks.is_none() {
            let chunks = take_all(&mut self.input, &mut self.held, cx)?;
            self.chunks = Some(chunks.into());
        }
        let chunks = self
            .chunks
            .as_mut()
            .ok_or_else(|| ExecError::Internal("an eager operator lost its rows".into()))?;
        let chunk = chunks.pop_front();
        if let Some(chunk) = &chunk {
            let bytes = chunk.bytes().min(self.held);
            self.held -= bytes;
            cx.run.watch.release(bytes);
        }
        Ok(chunk)
    }

    fn open(&mut self, argument: &Argument) {
        self.input.open(argument);
        self.chunks = None;
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        self.input.close(cx);
        self.chunks = None;
        cx.run.watch.release(std::mem::take(&mut self.held));
    }
}

/// All rows of `input`, multiplied out; what they hold is added to `held`.
pub(super) fn take_all(input: &mut Child, held: &mut usize, cx: &mut Cx<'_>) -> Result<Vec<Chunk>> {
    let mut chunks = Vec::new();
    while let Some(chunk) = input.pull_flat(cx)? {
        let bytes = chunk.bytes();
        cx.run.watch.hold(bytes)?;
        *held += bytes;
        chunks.push(chunk);
    }
    Ok(chunks)
}

/// All rows of `input` in one chunk.
pub(super) fn take_all_as_one(
    input: &mut Child,
    held: &mut usize,
    cx: &mut Cx<'_>,
) -> Result<Chunk> {
    let mut rows = Chunk::new(0, 0);
    for chunk in take_all(input, held, cx)? {
        rows.append(chunk);
    }
    Ok(rows)
}
