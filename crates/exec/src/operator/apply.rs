//! The apply family: the right side is run for rows of the left.
//!
//! The left input is processed in batches. If the right side runs batched ([`isomer_plan::Plan::runs_batched`], which
//! `EXPLAIN` shows), a batch is a whole chunk: its rows pass through the right side with their index in a bookkeeping
//! column after the plan's own slots, which joins results with their input row. Otherwise a batch is one row.

use isomer_plan::{expr::SlotId, physical::Op};
use isomer_value::Value;

use super::{Argument, Child, Operate, OperatorRef, scan::misplaced};
use crate::{
    chunk::Chunk,
    column::Column,
    context::Cx,
    error::{ExecError, Result},
};

/// The left input in batches, and the right side run for each.
struct OuterBatches {
    op_ref: OperatorRef,
    input: Child,
    right: Child,
    /// Passes the index of the batch's row through the right side.
    ordinal: SlotId,
    /// Whether a batch is a whole chunk, not one row.
    batched: bool,
    chunk: Option<Chunk>,
    row: usize,
    piece: Option<Chunk>,
}

impl OuterBatches {
    fn new(op_ref: OperatorRef, input: Child, right: Child) -> Self {
        // One per operator, as applies nest: the column of an outer one passes through
        // the right side of an inner one.
        let ordinal = SlotId((op_ref.plan.slots.len() + op_ref.id.index()) as u32);
        let batched = op_ref.plan.runs_batched(right.id());
        Self {
            op_ref,
            input,
            right,
            ordinal,
            batched,
            chunk: None,
            row: 0,
            piece: None,
        }
    }

    /// Takes the next batch and opens the right side with it; false at the end.
    fn next_piece(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        if self
            .chunk
            .as_ref()
            .is_none_or(|chunk| self.row >= chunk.len())
        {
            self.chunk = self.input.pull_flat(cx)?;
            self.row = 0;
        }
        let Some(chunk) = &mut self.chunk else {
            self.piece = None;
            return Ok(false);
        };
        // A whole chunk at once costs one call of each operator on the right instead of one per row.
        let mut piece = if self.batched || chunk.len() == 1 {
            self.row = chunk.len();
            std::mem::take(chunk)
        } else {
            self.row += 1;
            chunk.gather(&[self.row as u32 - 1])
        };
        if chunk.is_empty() {
            self.chunk = None;
        }
        let numbers = Column::Ints((0..piece.len() as i64).collect());
        piece.set(self.ordinal, numbers);
        self.right.open(&Argument::new(piece.clone()));
        self.piece = Some(piece);
        Ok(true)
    }

    /// The next rows of the right side for the batch, with their row indexes.
    fn right_rows(&mut self, cx: &mut Cx<'_>) -> Result<Option<(Chunk, Vec<u32>)>> {
        let Some(mut chunk) = self.right.pull_flat(cx)? else {
            return Ok(None);
        };
        // The bookkeeping column tells which input row each result belongs to; operators above do not know it.
        let numbers = match chunk.take(self.ordinal) {
            Some(Column::Ints(numbers)) => {
                numbers.into_iter().map(|number| number as u32).collect()
            }
            Some(other) => (0..chunk.len())
                .map(|row| other.get(row).as_int().unwrap_or(0) as u32)
                .collect(),
            None => vec![0; chunk.len()],
        };
        let piece = self.piece()?;
        for slot in piece
            .slots()
            .filter(|slot| *slot != self.ordinal && self.op_ref.is_live(*slot))
        {
            if chunk.column(slot).is_none()
                && let Some(column) = piece.column(slot)
            {
                chunk.set(slot, column.gather(&numbers));
            }
        }
        self.op_ref.prune(&mut chunk);
        Ok(Some((chunk, numbers)))
    }

    fn piece(&self) -> Result<&Chunk> {
        self.piece
            .as_ref()
            .ok_or_else(|| ExecError::Internal("an apply without a row".into()))
    }

    fn open(&mut self, argument: &Argument) {
        self.input.open(argument);
        self.chunk = None;
        self.piece = None;
        self.row = 0;
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        self.input.close(cx);
        self.right.close(cx);
        self.chunk = None;
        self.piece = None;
    }
}

/// The rows of the right side.
pub(super) struct Apply(OuterBatches);

impl Apply {
    pub(super) fn new(op_ref: OperatorRef, input: Child, right: Child) -> Self {
        Self(OuterBatches::new(op_ref, input, right))
    }
}

impl Operate for Apply {
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        loop {
            if self.0.piece.is_some() {
                if let Some((chunk, _)) = self.0.right_rows(cx)? {
                    return Ok(Some(chunk));
                }
                self.0.right.close(cx);
                self.0.piece = None;
            }
            if !self.0.next_piece(cx)? {
                return Ok(None);
            }
        }
    }

    fn open(&mut self, argument: &Argument) {
        self.0.open(argument);
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        self.0.close(cx);
    }
}

/// The rows of the right side, and once each the rows for which it returns none.
pub(super) struct OptionalApply {
    batches: OuterBatches,
    /// The first row of the batch that was not returned yet.
    next: u32,
}

impl OptionalApply {
    pub(super) fn new(op_ref: OperatorRef, input: Child, right: Child) -> Self {
        Self {
            batches: OuterBatches::new(op_ref, input, right),
            next: 0,
        }
    }

    /// The rows `rows` of the batch, with nulls in the slots that the right side would have bound.
    fn unmatched(&self, rows: &[u32], nulls: &[SlotId]) -> Result<Chunk> {
        let mut chunk = self.batches.piece()?.gather(rows);
        chunk.take(self.batches.ordinal);
        for slot in nulls {
            chunk.set(*slot, Column::Const(Value::Null));
        }
        self.batches.op_ref.prune(&mut chunk);
        Ok(chunk)
    }
}

impl Operate for OptionalApply {
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        let op_ref = self.batches.op_ref.clone();
        let Op::OptionalApply { nulls, .. } = op_ref.op() else {
            return Err(misplaced(op_ref.op()));
        };
        loop {
            if self.batches.piece.is_some() {
                if let Some((chunk, numbers)) = self.batches.right_rows(cx)? {
                    return self.with_gaps(chunk, &numbers, nulls).map(Some);
                }
                self.batches.right.close(cx);
                // The right side has ended: no row behind the last match has one.
                let rest: Vec<u32> = (self.next..self.batches.piece()?.len() as u32).collect();
                let chunk = if rest.is_empty() {
                    None
                } else {
                    Some(self.unmatched(&rest, nulls)?)
                };
                self.batches.piece = None;
                if chunk.is_some() {
                    return Ok(chunk);
                }
            }
            self.next = 0;
            if !self.batches.next_piece(cx)? {
                return Ok(None);
            }
        }
    }

    fn open(&mut self, argument: &Argument) {
        self.batches.open(argument);
        self.next = 0;
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        self.batches.close(cx);
    }
}

impl OptionalApply {
    /// `chunk`, with the rows that the right side skipped inserted in order.
    fn with_gaps(&mut self, mut chunk: Chunk, numbers: &[u32], nulls: &[SlotId]) -> Result<Chunk> {
        let matched = chunk.len() as u32;
        // A batched right side returns results in the order of its input rows. So each number that is
        // skipped is a row without a match, and its place is before the next result.
        let (mut gaps, mut order) = (Vec::new(), Vec::with_capacity(numbers.len()));
        for (row, &number) in numbers.iter().enumerate() {
            while self.next < number {
                order.push(matched + gaps.len() as u32);
                gaps.push(self.next);
                self.next += 1;
            }
            self.next = self.next.max(number + 1);
            order.push(row as u32);
        }
        if gaps.is_empty() {
            return Ok(chunk);
        }
        chunk.append(self.unmatched(&gaps, nulls)?);
        Ok(chunk.gather(&order))
    }
}

/// The rows for which the right side returns a row, or returns none.
pub(super) struct SemiApply(OuterBatches);

impl SemiApply {
    pub(super) fn new(op_ref: OperatorRef, input: Child, right: Child) -> Self {
        Self(OuterBatches::new(op_ref, input, right))
    }
}

impl Operate for SemiApply {
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        let op_ref = self.0.op_ref.clone();
        let Op::SemiApply { anti, .. } = op_ref.op() else {
            return Err(misplaced(op_ref.op()));
        };
        if !self.0.next_piece(cx)? {
            return Ok(None);
        }
        let mut matched = vec![false; self.0.piece()?.len()];
        let mut open = matched.len();
        // The right side is not read further once every row has a match.
        while open > 0
            && let Some((_, numbers)) = self.0.right_rows(cx)?
        {
            for number in numbers {
                if let Some(matched) = matched.get_mut(number as usize)
                    && !*matched
                {
                    *matched = true;
                    open -= 1;
                }
            }
        }
        self.0.right.close(cx);
        let keep: Vec<bool> = matched.iter().map(|matched| matched != anti).collect();
        let mut chunk = self
            .0
            .piece
            .take()
            .ok_or_else(|| ExecError::Internal("an apply without a row".into()))?;
        chunk.take(self.0.ordinal);
        chunk.retain(&keep);
        op_ref.prune(&mut chunk);
        Ok(Some(chunk))
    }

    fn open(&mut self, argument: &Argument) {
        self.0.open(argument);
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        self.0.close(cx);
    }
}

/// The number of rows that the right side returns for each row.
pub(super) struct CountApply(OuterBatches);

impl CountApply {
    pub(super) fn new(op_ref: OperatorRef, input: Child, right: Child) -> Self {
        Self(OuterBatches::new(op_ref, input, right))
    }
}

impl Operate for CountApply {
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        let op_ref = self.0.op_ref.clone();
        let Op::CountApply { count, factor, .. } = op_ref.op() else {
            return Err(misplaced(op_ref.op()));
        };
        if !self.0.next_piece(cx)? {
            return Ok(None);
        }
        let mut counts = vec![0i64; self.0.piece()?.len()];
        while let Some(chunk) = self.0.right.pull_flat(cx)? {
            let numbers = chunk.column(self.0.ordinal);
            let times = factor.and_then(|factor| chunk.column(factor));
            for row in 0..chunk.len() {
                let number = numbers.and_then(|numbers| numbers.get(row).as_int());
                let times = times.map_or(Some(1), |times| times.get(row).as_int());
                if let Some(counted) = counts.get_mut(number.unwrap_or(0) as usize) {
                    *counted = counted.saturating_add(times.unwrap_or(0));
                }
            }
        }
        self.0.right.close(cx);
        let mut chunk = self
            .0
            .piece
            .take()
            .ok_or_else(|| ExecError::Internal("an apply without a row".into()))?;
        chunk.take(self.0.ordinal);
        chunk.set(*count, Column::Ints(counts));
        op_ref.prune(&mut chunk);
        Ok(Some(chunk))
    }

    fn open(&mut self, argument: &Argument) {
        self.0.open(argument);
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        self.0.close(cx);
    }
}
