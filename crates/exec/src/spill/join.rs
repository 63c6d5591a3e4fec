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
    partition::{Partition, Partitions},
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

fn key_of(row: &[Value], key_count: usize) -> Vec<GroupKey> {
    row.iter()
        .skip(1)
        .take(key_count)
        .cloned()
        .map(GroupKey)
        .collect()
}

fn join_part(
    key_count: usize,
    picks: &[Pick],
    left: &Partition,
    right: &Partition,
    runs: &mut SortedRuns,
    cx: &mut Cx<'_>,
) -> Result<()> {
    let mut right = right.rows();
    // The first row of the next piece.
    let mut row = Vec::new();
    let mut more = right.next(&mut row, cx)?;
    while more {
        let mut table: FxHashMap<Vec<GroupKey>, Vec<Vec<Value>>> = FxHashMap::default();
        let mut held = 0;
        let outcome = (|| {
            while more {
                let bytes = 128 + 2 * row.iter().map(value_bytes).sum::<usize>();
                if !cx.run.watch.try_hold(bytes) {
                    if !table.is_empty() {
                        break;
                    }
                    cx.run.watch.hold(bytes)?;
                }
                held += bytes;
                let key = key_of(&row, key_count);
                table.entry(key).or_default().push(std::mem::take(&mut row));
                more = right.next(&mut row, cx)?;
            }
            runs.add(cx, |writer, cx| {
                let mut left = left.rows();
                let (mut row, mut made) = (Vec::new(), Vec::new());
                while left.next(&mut row, cx)? {
                    let found = table.get(&key_of(&row, key_count));
                    for partner in found.into_iter().flatten() {
                        cx.tick(1)?;
                        made.clear();
                        made.push(row[0].clone());
                        made.extend(picks.iter().map(|pick| {
                            let value = match pick {
                                Pick::Left(at) => row.get(*at),
                                Pick::Right(at) => partner.get(*at),
                            };
                            value.cloned().unwrap_or_default()
                        }));
                        writer.push(&made)?;
                    }
                }
                Ok(())
            })
        })();
        cx.run.watch.release(held);
        outcome?;
    }
    Ok(())
}
