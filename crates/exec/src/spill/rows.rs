//! Rows between chunks and files.

use isomer_plan::expr::SlotId;
use isomer_value::Value;

use crate::{
    chunk::Chunk,
    column::{Column, rel_row},
};

/// Which slot each value of a spilled row belongs to.
///
/// Chunks of one input need not have the same columns: a slot that comes later is added at the end, and rows that were
/// written before are null in it.
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

    /// Makes room for the columns of a chunk.
    pub(crate) fn take_in(&mut self, chunk: &Chunk) {
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

/// Rows that become a chunk.
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

    /// Adds a row; values that it lacks at the end are null.
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

/// A column of these values, typed where all are of one type: operators above are faster then.
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
