//! Conversion between chunks and spilled rows.

use isomer_data::{MemoryKind, Reservation};
use isomer_plan::expr::SlotId;
use isomer_value::Value;

use crate::{
    chunk::Chunk,
    column::{Column, rel_row},
    context::Cx,
    error::Result,
    limits::over_budget,
};

/// The slot of each value of a spilled row.
///
/// Chunks of one input may have different columns: a slot that appears later is added at the end, and rows written
/// before are null in it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layout {
    slots: Vec<SlotId>,
}

impl Layout {
    /// A layout of these slots.
    pub(crate) fn of(slots: impl IntoIterator<Item = SlotId>) -> Self {
        Self {
            slots: slots.into_iter().collect(),
        }
    }

    /// Adds the columns of a chunk.
    pub(crate) fn add_columns(&mut self, chunk: &Chunk) {
        for slot in chunk.slots() {
            if !self.slots.contains(&slot) {
                self.slots.push(slot);
            }
        }
    }

    /// The slots.
    pub(crate) fn slots(&self) -> &[SlotId] {
        &self.slots
    }

    /// Where the value of a slot is in a row.
    pub(crate) fn position(&self, slot: SlotId) -> Option<usize> {
        self.slots.iter().position(|one| *one == slot)
    }

    /// Appends the values of a chunk's row, without list group.
    pub(crate) fn push_row(&self, chunk: &Chunk, row: usize, out: &mut Vec<Value>) {
        out.extend(self.slots.iter().map(|slot| chunk.value(*slot, row)));
    }
}

/// The memory of rows that are read from disk: those of the batch read last, until the next one begins, and what is
/// kept.
pub(super) struct Room {
    kept: Reservation,
    batch: Reservation,
    /// Bytes and rows of the batch.
    bytes: usize,
    rows: usize,
    most: usize,
}

/// Smaller batches are not reserved, to keep small rows fast.
const RESERVED_FROM: usize = 64 << 10;

impl Room {
    pub(super) fn new(cx: &Cx<'_>) -> Self {
        let reservation = || cx.tx.store().memory().reservation(MemoryKind::Queries);
        Self {
            kept: reservation(),
            batch: reservation(),
            bytes: 0,
            rows: 0,
            most: cx.run.watch.batch_bytes(),
        }
    }

    /// Reserves `bytes` for as long as the rows are read.
    pub(super) fn keep(&mut self, bytes: usize) -> Result<()> {
        self.kept.grow(bytes).map_err(|over| over_budget(&over))
    }

    /// Begins the next batch: the one before was used.
    pub(super) fn begin(&mut self) {
        (self.bytes, self.rows) = (0, 0);
        self.batch.clear();
    }

    /// Adds a row of `bytes` on disk; returns false if the batch should end with it.
    pub(super) fn add(&mut self, bytes: usize) -> Result<bool> {
        self.bytes += bytes;
        self.rows += 1;
        if self.bytes < RESERVED_FROM {
            return Ok(true);
        }
        match self.batch.resize(self.bytes) {
            Ok(()) => Ok(self.bytes < self.most),
            // A single row must fit; otherwise the batch ends before the row that does not.
            Err(over) if self.rows == 1 => Err(over_budget(&over)),
            Err(_) => Ok(false),
        }
    }
}

/// Rows that are collected into a chunk.
pub(super) struct Gathered {
    columns: Vec<Vec<Value>>,
    len: usize,
}

impl Gathered {
    pub(super) fn new(layout: &Layout) -> Self {
        Self {
            columns: vec![Vec::new(); layout.slots.len()],
            len: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Adds a row; missing values at the end are null.
    pub(super) fn push(&mut self, row: impl IntoIterator<Item = Value>) {
        let mut row = row.into_iter();
        for column in &mut self.columns {
            column.push(row.next().unwrap_or_default());
        }
        self.len += 1;
    }

    pub(super) fn into_chunk(self, layout: &Layout) -> Chunk {
        let mut chunk = Chunk::new(self.len, layout.slots.len());
        for (slot, values) in layout.slots.iter().zip(self.columns) {
            chunk.set(*slot, typed(values));
        }
        chunk
    }
}

/// A column of these values, typed if all have one type, which is faster for the operators above.
fn typed(values: Vec<Value>) -> Column {
    macro_rules! all {
        ($column:ident, $pattern:pat => $item:expr) => {{
            let items: Option<Vec<_>> = values
                .iter()
                .map(|value| match value {
                    $pattern => Some($item),
                    _ => None,
                })
                .collect();
            match items {
                Some(items) => Column::$column(items),
                None => Column::Values(values),
            }
        }};
    }
    match values.first() {
        Some(Value::Node(_)) => all!(Nodes, Value::Node(node) => node.id),
        Some(Value::Relationship(_)) => all!(Rels, Value::Relationship(rel) => rel_row(rel)),
        Some(Value::Int(_)) => all!(Ints, Value::Int(int) => *int),
        Some(Value::Float(_)) => all!(Floats, Value::Float(float) => *float),
        _ => Column::Values(values),
    }
}
