//! The input of operators that fan each row out into any number of rows.

use isomer_plan::expr::SlotId;

use super::{Argument, Child, Spot};
use crate::{
    chunk::Chunk,
    column::Column,
    context::Cx,
    error::{ExecError, Result},
    eval::Row,
};

/// A chunk of the input and the row that is being fanned out.
///
/// What the rows of one chunk give is gathered into common output chunks: the operator notes for each output row which
/// input row it came from, and hands out what it has when that is enough or [`RowInput::has_more`] says no.
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

    /// Goes to the next row, of the next chunk where this one is at its end; false at the end of the input.
    pub(super) fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        if self.has_more() {
            self.row += 1;
            return Ok(true);
        }
        self.row = 0;
        self.chunk = self.child.pull_flat(cx)?;
        Ok(self.chunk.is_some())
    }

    /// Whether the chunk has a row after the present one.
    pub(super) fn has_more(&self) -> bool {
        self.chunk
            .as_ref()
            .is_some_and(|chunk| self.row + 1 < chunk.len())
    }

    /// The position of the present row in its chunk.
    pub(super) fn position(&self) -> u32 {
        self.row as u32
    }

    /// The present row.
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

    /// The live columns of the present row, `times` times.
    pub(super) fn repeat(&self, spot: &Spot, times: usize) -> Chunk {
        let mut made = Chunk::new(times, spot.plan.slots.len());
        if let Some(chunk) = &self.chunk {
            for slot in live_slots(chunk, spot) {
                made.set(slot, Column::Const(chunk.value(slot, self.row)));
            }
        }
        made
    }

    /// The live columns of the rows `rows` of the chunk, ascending, each as often as it stands there.
    pub(super) fn gather(&self, spot: &Spot, rows: &[u32]) -> Chunk {
        match (rows.first(), rows.last()) {
            (Some(first), Some(last)) if first == last && *first == self.position() => {
                return self.repeat(spot, rows.len());
            }
            _ => {}
        }
        let mut made = Chunk::new(rows.len(), spot.plan.slots.len());
        if let Some(chunk) = &self.chunk {
            for slot in live_slots(chunk, spot) {
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

fn live_slots<'c>(chunk: &'c Chunk, spot: &'c Spot) -> impl Iterator<Item = SlotId> + 'c {
    chunk.slots().filter(|slot| spot.is_live(*slot))
}

/// Puts a slot's column where somebody reads it.
pub(super) fn set_live(spot: &Spot, chunk: &mut Chunk, slot: SlotId, column: Column) {
    if spot.is_live(slot) {
        chunk.set(slot, column);
    }
}
