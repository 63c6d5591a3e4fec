//! Rows on their way between operators: columns, one flat group and at most one list group.

use isomer_plan::expr::SlotId;
use isomer_value::Value;

use crate::column::Column;

/// A batch of rows, factorised.
///
/// Shape: `len` flat rows. With a list group, flat row `i` represents the `offsets[i + 1] - offsets[i]` rows that
/// combine it with the elements `offsets[i]..offsets[i + 1]` of every list column (no elements: no row). Columns are
/// indexed by slot; a slot that was not written yet, or is not read any more, has no column.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chunk {
    len: usize,
    columns: Vec<Option<Column>>,
    list: Option<ListGroup>,
}

/// The list group of a chunk.
#[derive(Clone, Debug)]
struct ListGroup {
    /// One entry more than there are flat rows.
    offsets: Vec<u32>,
    /// The columns that belong to the list group, by slot.
    columns: Vec<(SlotId, Column)>,
}

impl Chunk {
    /// `len` rows without a column; room for `slots` columns.
    pub(crate) fn new(len: usize, slots: usize) -> Self {
        Self {
            len,
            columns: (0..slots).map(|_| None).collect(),
            list: None,
        }
    }

    /// Number of flat rows: the number of rows if there is no list group.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Number of rows, with those of the list group multiplied out.
    pub(crate) fn row_count(&self) -> usize {
        self.list.as_ref().map_or(self.len, |list| {
            list.offsets.last().map_or(0, |&end| end as usize)
        })
    }

    /// Whether there is no row.
    pub(crate) fn is_empty(&self) -> bool {
        self.row_count() == 0
    }

    /// Whether there is a list group that can be multiplied out.
    pub(crate) fn is_factorised(&self) -> bool {
        self.list.is_some()
    }

    /// How many rows flat row `row` represents.
    pub(crate) fn multiplicity(&self, row: usize) -> usize {
        self.list.as_ref().map_or(1, |list| {
            (list.offsets[row + 1] - list.offsets[row]) as usize
        })
    }

    /// Whether `slot` is in the list group.
    pub(crate) fn is_listed(&self, slot: SlotId) -> bool {
        self.list
            .as_ref()
            .is_some_and(|list| list.columns.iter().any(|(listed, _)| *listed == slot))
    }

    /// The bounds of each flat row's elements in the list group, and the column of `slot` in it.
    pub(crate) fn listed(&self, slot: SlotId) -> Option<(&[u32], &Column)> {
        let list = self.list.as_ref()?;
        let (_, column) = list.columns.iter().find(|(listed, _)| *listed == slot)?;
        Some((&list.offsets, column))
    }

    /// The flat column of `slot`.
    pub(crate) fn column(&self, slot: SlotId) -> Option<&Column> {
        self.columns.get(slot.index())?.as_ref()
    }

    /// Sets a flat column.
    pub(crate) fn set(&mut self, slot: SlotId, column: Column) {
        let at = slot.index();
        if at >= self.columns.len() {
            self.columns.resize_with(at + 1, || None);
        }
        self.columns[at] = Some(column);
    }

    /// Removes and returns a flat column.
    pub(crate) fn take(&mut self, slot: SlotId) -> Option<Column> {
        self.columns.get_mut(slot.index())?.take()
    }

    /// Drops the flat columns for which `live` is false.
    pub(crate) fn prune(&mut self, live: impl Fn(SlotId) -> bool) {
        for (at, column) in self.columns.iter_mut().enumerate() {
            if column.is_some() && !live(SlotId(at as u32)) {
                *column = None;
            }
        }
    }

    /// Sets the list group; there is none yet. `offsets` has one entry more than there are flat rows.
    pub(crate) fn set_list(&mut self, offsets: Vec<u32>, columns: Vec<(SlotId, Column)>) {
        debug_assert!(self.list.is_none() && offsets.len() == self.len + 1);
        self.list = Some(ListGroup { offsets, columns });
    }

    /// Multiplies the list group out.
    pub(crate) fn flatten(&mut self) {
        let Some(list) = self.list.take() else { return };
        let total = list.offsets.last().map_or(0, |&end| end as usize);
        let one_each =
            total == self.len && list.offsets.windows(2).all(|pair| pair[1] - pair[0] == 1);
        if !one_each {
            let rows = repeat_rows(&list.offsets);
            for column in self.columns.iter_mut().flatten() {
                if !matches!(column, Column::Const(_)) {
                    *column = column.gather(&rows);
                }
            }
        }
        self.len = total;
        for (slot, column) in list.columns {
            self.set(slot, column);
        }
    }

    /// The value of a slot in a flat row; null if the slot has no column.
    pub(crate) fn value(&self, slot: SlotId, row: usize) -> Value {
        self.column(slot)
            .map_or(Value::Null, |column| column.get(row))
    }

    /// Keeps the flat rows for which `keep` is true. There is no list group.
    pub(crate) fn retain(&mut self, keep: &[bool]) {
        debug_assert!(self.list.is_none());
        let kept = keep.iter().filter(|keep| **keep).count();
        if kept == self.len {
            return;
        }
        for column in self.columns.iter_mut().flatten() {
            column.retain(keep);
        }
        self.len = kept;
    }

    /// Keeps the flat rows for which `keep` is true, with their elements of the list group.
    pub(crate) fn retain_grouped(&mut self, keep: &[bool]) {
        let Some(mut list) = self.list.take() else {
            return self.retain(keep);
        };
        let mut listed = Vec::with_capacity(list.offsets.last().map_or(0, |&end| end as usize));
        let mut offsets = vec![0_u32];
        let mut end = 0;
        for (pair, keep) in list.offsets.windows(2).zip(keep) {
            let count = pair[1] - pair[0];
            listed.resize(pair[1] as usize, *keep);
            if *keep {
                end += count;
                offsets.push(end);
            }
        }
        self.retain(keep);
        list.columns
            .iter_mut()
            .for_each(|(_, column)| column.retain(&listed));
        self.list = Some(ListGroup {
            offsets,
            columns: list.columns,
        });
    }

    /// The flat rows `rows`, in that order; rows may repeat. There is no list group.
    pub(crate) fn gather(&self, rows: &[u32]) -> Self {
        debug_assert!(self.list.is_none());
        let gathered = |column: &Column| match column {
            // A constant column is not copied.
            Column::Values(values) if values.len() == 1 && rows.len() > 1 => {
                Column::Const(values[0].clone())
            }
            column => column.gather(rows),
        };
        Self {
            len: rows.len(),
            columns: self
                .columns
                .iter()
                .map(|column| column.as_ref().map(gathered))
                .collect(),
            list: None,
        }
    }

    /// Keeps the first `len` rows.
    pub(crate) fn truncate(&mut self, len: usize) {
        debug_assert!(self.list.is_none());
        if len < self.len {
            self.columns
                .iter_mut()
                .flatten()
                .for_each(|column| column.truncate(len));
            self.len = len;
        }
    }

    /// Drops the first `count` rows.
    pub(crate) fn skip(&mut self, count: usize) {
        debug_assert!(self.list.is_none());
        let count = count.min(self.len);
        self.columns
            .iter_mut()
            .flatten()
            .for_each(|column| column.skip(count));
        self.len -= count;
    }

    /// Appends the rows of `other`; neither has a list group.
    pub(crate) fn append(&mut self, other: Self) {
        debug_assert!(self.list.is_none() && other.list.is_none());
        if self.len == 0 {
            *self = other;
            return;
        }
        if other.columns.len() > self.columns.len() {
            self.columns.resize_with(other.columns.len(), || None);
        }
        let (len, other_len) = (self.len, other.len);
        let mut others = other.columns.into_iter();
        for column in &mut self.columns {
            match (column.as_mut(), others.next().flatten()) {
                (Some(mine), Some(theirs)) => mine.append(len, theirs, other_len),
                (Some(mine), None) => mine.append(len, Column::Const(Value::Null), other_len),
                (None, Some(theirs)) => {
                    let mut mine = Column::Const(Value::Null);
                    mine.append(len, theirs, other_len);
                    *column = Some(mine);
                }
                (None, None) => {}
            }
        }
        self.len += other_len;
    }

    /// Estimated bytes of the chunk.
    pub(crate) fn bytes(&self) -> usize {
        self.columns
            .iter()
            .flatten()
            .map(|column| column.bytes(self.len))
            .sum()
    }

    /// Like [`Chunk::bytes`], for rows that are appended to others: there a constant value is stored per row.
    pub(crate) fn bytes_appended(&self) -> usize {
        let bytes = |column: &Column| match column {
            Column::Const(value) => crate::value_size::value_bytes(value).saturating_mul(self.len),
            column => column.bytes(self.len),
        };
        self.columns.iter().flatten().map(bytes).sum()
    }

    /// Estimated bytes of one more row in the flat columns of these slots, without shared strings and lists.
    pub(crate) fn row_bytes(&self, live: impl Fn(SlotId) -> bool) -> usize {
        let columns = self.columns.iter().enumerate();
        columns
            .filter(|(at, _)| live(SlotId(*at as u32)))
            .filter_map(|(_, column)| column.as_ref().map(Column::row_bytes))
            .sum()
    }

    /// The slots that have a flat column.
    pub(crate) fn slots(&self) -> impl Iterator<Item = SlotId> + '_ {
        self.columns
            .iter()
            .enumerate()
            .filter(|(_, column)| column.is_some())
            .map(|(at, _)| SlotId(at as u32))
    }
}

/// For offsets `[0, 2, 2, 3]` the rows `[0, 0, 2]`.
pub(crate) fn repeat_rows(offsets: &[u32]) -> Vec<u32> {
    let mut rows = Vec::with_capacity(offsets.last().map_or(0, |&end| end as usize));
    for (row, pair) in offsets.windows(2).enumerate() {
        rows.resize(pair[1] as usize, row as u32);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ints(chunk: &Chunk, slot: u32) -> Vec<Value> {
        (0..chunk.len())
            .map(|row| chunk.value(SlotId(slot), row))
            .collect()
    }

    #[test]
    fn a_list_group_multiplies_flat_rows() {
        let mut chunk = Chunk::new(3, 2);
        chunk.set(SlotId(0), Column::Ints(vec![1, 2, 3]));
        chunk.set_list(
            vec![0, 2, 2, 3],
            vec![(SlotId(1), Column::Ints(vec![10, 11, 30]))],
        );
        assert_eq!(
            (chunk.len(), chunk.row_count(), chunk.multiplicity(0)),
            (3, 3, 2)
        );
        chunk.flatten();
        assert_eq!(ints(&chunk, 0), [1, 1, 3].map(Value::Int));
        assert_eq!(ints(&chunk, 1), [10, 11, 30].map(Value::Int));
    }

    #[test]
    fn appending_keeps_types_or_widens_them() {
        let mut chunk = Chunk::new(1, 2);
        chunk.set(SlotId(0), Column::Ints(vec![1]));
        let mut other = Chunk::new(2, 2);
        other.set(SlotId(0), Column::Const(Value::Bool(true)));
        other.set(SlotId(1), Column::Ints(vec![7, 8]));
        chunk.append(other);
        assert_eq!(
            ints(&chunk, 0),
            [Value::Int(1), Value::Bool(true), Value::Bool(true)]
        );
        assert_eq!(ints(&chunk, 1), [Value::Null, Value::Int(7), Value::Int(8)]);
        chunk.retain(&[false, true, true]);
        chunk.skip(1);
        assert_eq!(ints(&chunk, 1), [Value::Int(8)]);
    }
}
