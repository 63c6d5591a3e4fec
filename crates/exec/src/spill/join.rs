//! A hash join whose build side does not fit into memory.
//!
//! Both sides are partitioned by their keys. For each partition, as much of the right side as fits is loaded, the left
//! side's rows are looked up in it, and then the next piece is loaded. Results are merged by the index of their left
//! row.

use isomer_plan::{expr::SlotId, physical::OpId};
use isomer_value::{GroupKey, Value};
use rustc_hash::FxHashMap;

use super::{
    Layout, MergedRows, SortedRuns,
    partition::{Partition, PartitionRows, Partitions},
    runs::RunWriter,
};
use crate::{chunk::Chunk, context::Cx, error::Result, value_size::value_bytes};

/// One side of the join.
pub(crate) struct JoinSide {
    partitions: Partitions,
    layout: Layout,
    count: i64,
    key_count: usize,
    row: Vec<Value>,
}

impl JoinSide {
    /// No rows yet; the keys have this number of parts.
    pub(crate) fn new(op: OpId, key_count: usize, cx: &Cx<'_>) -> Result<Self> {
        Ok(Self {
            partitions: Partitions::new(op, 0, cx)?,
            layout: Layout::default(),
            count: 0,
            key_count,
            row: Vec::new(),
        })
    }

    /// Adds the rows of a chunk that have a key; the others equal nothing.
    pub(crate) fn add(
        &mut self,
        chunk: &Chunk,
        keys: &[Option<Vec<GroupKey>>],
        cx: &mut Cx<'_>,
    ) -> Result<()> {
        self.layout.add_columns(chunk);
        cx.tick(chunk.len())?;
        for (row, key) in keys.iter().enumerate() {
            let Some(key) = key else { continue };
            self.row.clear();
            self.row.push(Value::Int(self.count));
            self.row.extend(key.iter().map(|part| part.0.clone()));
            self.layout.push_row(chunk, row, &mut self.row);
            self.partitions.push(key, &self.row)?;
            self.count += 1;
        }
        Ok(())
    }
}

/// The joined rows in the order of the left side; a slot that both sides have is taken from the left.
pub(crate) fn join(
    op: OpId,
    left: JoinSide,
    right: JoinSide,
    is_live: impl Fn(SlotId) -> bool,
    cx: &mut Cx<'_>,
) -> Result<MergedRows> {
    let first = 1 + left.key_count;
    let mut picks = Vec::new();
    let mut slots = Vec::new();
    for (at, slot) in left.layout.slots().iter().enumerate() {
        if is_live(*slot) {
            slots.push(*slot);
            picks.push(Pick::Left(first + at));
        }
    }
    for (at, slot) in right.layout.slots().iter().enumerate() {
        if is_live(*slot) && left.layout.position(*slot).is_none() {
            slots.push(*slot);
            picks.push(Pick::Right(first + at));
        }
    }
    let key_count = left.key_count;
    let mut runs = SortedRuns::new(op, [false], cx);
    let left = left.partitions.finish(cx)?;
    let right = right.partitions.finish(cx)?;
    for (left, right) in left.into_iter().zip(right) {
        if !left.is_empty() && !right.is_empty() {
            join_part(key_count, &picks, &left, &right, &mut runs, cx)?;
        }
    }
    runs.merge(Layout::of(slots), cx)
}

/// Source of a value of the result.
enum Pick {
    Left(usize),
    Right(usize),
}

impl Pick {
    fn value(&self, left: &[Value], right: &[Value]) -> Value {
        let value = match self {
            Self::Left(at) => left.get(*at),
            Self::Right(at) => right.get(*at),
        };
        // A slot that a chunk did not have was null there, and may be missing at the end of a row.
        value.cloned().unwrap_or_default()
    }
}

fn key_of(row: &[Value], key_count: usize) -> Vec<GroupKey> {
    row.iter()
        .skip(1)
        .take(key_count)
        .cloned()
        .map(GroupKey)
        .collect()
}

/// Joins a partition of the left side with the same one of the right side: in one pass over the left if the right
/// fits into memory, otherwise in one pass for each piece of the right that does (a block nested-loop join).
///
/// Partitioning again would not help where it is needed most: many rows of one key stay together.
fn join_part(
    key_count: usize,
    picks: &[Pick],
    left: &Partition,
    right: &Partition,
    runs: &mut SortedRuns,
    cx: &mut Cx<'_>,
) -> Result<()> {
    let mut right = BuildRows::new(right.rows(), cx)?;
    while right.has_more {
        let mut piece = Piece::default();
        let loaded = piece.load(&mut right, key_count, cx);
        // Each piece gives one run: the merge of the runs brings the rows into the order of the left side.
        let outcome = loaded.and_then(|()| {
            runs.add(cx, |writer, cx| {
                piece.probe(left, key_count, picks, writer, cx)
            })
        });
        // Also after an error: nothing else knows that these bytes are held.
        cx.run.watch.release(piece.held_bytes);
        outcome?;
    }
    Ok(())
}

/// The rows of the right side, of which the next one has been read.
struct BuildRows {
    rows: PartitionRows,
    next: Vec<Value>,
    has_more: bool,
}

impl BuildRows {
    fn new(mut rows: PartitionRows, cx: &mut Cx<'_>) -> Result<Self> {
        let mut next = Vec::new();
        let has_more = rows.next(&mut next, cx)?;
        Ok(Self {
            rows,
            next,
            has_more,
        })
    }

    /// The row that was read, after reading the one behind it.
    fn take(&mut self, cx: &mut Cx<'_>) -> Result<Vec<Value>> {
        let row = std::mem::take(&mut self.next);
        self.has_more = self.rows.next(&mut self.next, cx)?;
        Ok(row)
    }
}

/// As many rows of the right side as fit into memory, by their keys.
#[derive(Default)]
struct Piece {
    table: FxHashMap<Vec<GroupKey>, Vec<Vec<Value>>>,
    /// Bytes of the query's memory that the rows take.
    held_bytes: usize,
}

impl Piece {
    fn load(&mut self, right: &mut BuildRows, key_count: usize, cx: &mut Cx<'_>) -> Result<()> {
        while right.has_more {
            // The row's values twice, because its key is copied, and the table's share.
            let bytes = 128 + 2 * right.next.iter().map(value_bytes).sum::<usize>();
            if !cx.run.watch.try_hold(bytes) {
                if !self.table.is_empty() {
                    break;
                }
                // A piece has at least one row: if not even that fits, the query fails here with the limit.
                cx.run.watch.hold(bytes)?;
            }
            self.held_bytes += bytes;
            let row = right.take(cx)?;
            let key = key_of(&row, key_count);
            self.table.entry(key).or_default().push(row);
        }
        Ok(())
    }

    /// Looks up the rows of the left side, and writes each match after the number of its left row.
    fn probe(
        &self,
        left: &Partition,
        key_count: usize,
        picks: &[Pick],
        writer: &mut RunWriter<'_>,
        cx: &mut Cx<'_>,
    ) -> Result<()> {
        let mut left = left.rows();
        let (mut row, mut joined) = (Vec::new(), Vec::new());
        while left.next(&mut row, cx)? {
            let partners = self.table.get(&key_of(&row, key_count));
            for partner in partners.into_iter().flatten() {
                cx.tick(1)?;
                joined.clear();
                joined.push(row[0].clone());
                joined.extend(picks.iter().map(|pick| pick.value(&row, partner)));
                writer.push(&joined)?;
            }
        }
        Ok(())
    }
}
