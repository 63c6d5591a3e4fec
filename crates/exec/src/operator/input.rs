//! The input of operators that produce any number of rows for each input row.

use isomer_plan::expr::SlotId;

use super::{Argument, Child, OperatorRef};
use crate::{
    chunk::Chunk,
    column::Column,
    context::Cx,
    error::{ExecError, Result},
    eval::Row,
};

/// A chunk of the input and the current row.
///
/// The output of all rows of one chunk is collected in shared output chunks: the operator records for each output row
/// its input row, and emits a chunk when it is large enough or when [`RowInput::has_more`] returns false.
pub(super) struct RowInput {
    child: Child,
    chunk: Option<Chunk>,
    row: usize,
}

impl RowInput {
    pub(super) fn new(child: Child) -> Self {
        Self {
            child,
            chunk: None,
            row: 0,
        }
    }

    /// Moves to the next row, fetching the next chunk if this one is exhausted; false at the end of the input.
    pub(super) fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        if self.has_more() {
            self.row += 1;
            return Ok(true);
        }
        self.row = 0;
        self.chunk = self.child.pull_flat(cx)?;
        Ok(self.chunk.is_some())
    }

    /// Whether the chunk has rows after the current one.
    pub(super) fn has_more(&self) -> bool {
        self.chunk
            .as_ref()
            .is_some_and(|chunk| self.row + 1 < chunk.len())
    }

    /// The position of the current row in its chunk.
    pub(super) fn position(&self) -> u32 {
        self.row as u32
    }

    /// The current row.
    pub(super) fn row(&self) -> Result<Row<'_>> {
        match &self.chunk {
            Some(chunk) => Ok(Row {
                chunk,
                row: self.row,
            }),
            None => Err(ExecError::Internal(
                "an operator looked at a row before its first".into(),
            )),
        }
    }

    /// The live columns of the current row, repeated `times` times.
    pub(super) fn repeat(&self, op_ref: &OperatorRef, times: usize) -> Chunk {
        let mut made = Chunk::new(times, op_ref.plan.slots.len());
        if let Some(chunk) = &self.chunk {
            for slot in live_slots(chunk, op_ref) {
                made.set(slot, Column::Const(chunk.value(slot, self.row)));
            }
        }
        made
    }

    /// The live columns of the rows `rows` of the chunk, ascending; a row may repeat.
    pub(super) fn gather(&self, op_ref: &OperatorRef, rows: &[u32]) -> Chunk {
        match (rows.first(), rows.last()) {
            // All results of one row, the common case of a search: constants instead of copies.
            (Some(first), Some(last)) if first == last && *first == self.position() => {
                return self.repeat(op_ref, rows.len());
            }
            _ => {}
        }
        let mut made = Chunk::new(rows.len(), op_ref.plan.slots.len());
        if let Some(chunk) = &self.chunk {
            for slot in live_slots(chunk, op_ref) {
                if let Some(column) = chunk.column(slot) {
                    made.set(slot, column.gather(rows));
                }
            }
        }
        made
    }

    pub(super) fn open(&mut self, argument: &Argument) {
        self.child.open(argument);
        self.chunk = None;
        self.row = 0;
    }

    pub(super) fn close(&mut self, cx: &mut Cx<'_>) {
        self.child.close(cx);
        self.chunk = None;
    }
}

fn live_slots<'c>(chunk: &'c Chunk, op_ref: &'c OperatorRef) -> impl Iterator<Item = SlotId> + 'c {
    chunk.slots().filter(|slot| op_ref.is_live(*slot))
}

/// Adds a slot's column if an operator above reads it.
pub(super) fn set_live(op_ref: &OperatorRef, chunk: &mut Chunk, slot: SlotId, column: Column) {
    if op_ref.is_live(slot) {
        chunk.set(slot, column);
    }
}
