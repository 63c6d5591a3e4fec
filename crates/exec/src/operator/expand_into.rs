//! Relationships between two bound nodes.

use isomer_data::{GraphRead, Neighbours, RelRow};
use isomer_plan::physical::Op;

use super::{
    Argument, Child, Operate, OperatorRef,
    expand::{Used, end_of, is_found, too_many},
    input::set_live,
    scan::misplaced,
};
use crate::{
    chunk::{Chunk, repeat_rows},
    column::Column,
    context::Cx,
    dense::{Marks, WalkScratch, Walks, small},
    error::Result,
};

/// Relationships between two bound nodes.
pub(super) struct ExpandInto {
    op_ref: OperatorRef,
    input: Child,
}

impl ExpandInto {
    pub(super) fn new(op_ref: OperatorRef, input: Child) -> Self {
        Self { op_ref, input }
    }
}

/// The node pairs between which the rows of a chunk look for relationships; none if a node is null or not in any view.
type Pairs = Vec<Option<(u32, u32)>>;

/// Minimum run of rows with a common end for which marking the neighbours of that end pays, ...
const WORTH_MARKS: usize = 8;
/// ... if it has at most this many neighbours per row: one lookup costs about as much as this many marks.
const NEIGHBOURS_PER_LOOKUP: u64 = 16;

/// Counts relationships between pairs of nodes that come in runs with a common end.
struct Counting<'w> {
    walks: &'w Walks,
    /// The reverse view, if it is available.
    back: Option<&'w Walks>,
    scratch: WalkScratch,
}

impl Counting<'_> {
    /// The count for each pair; `tick` is called with the number of neighbours examined.
    fn count(
        &mut self,
        pairs: &Pairs,
        tick: &mut dyn FnMut(usize) -> Result<()>,
    ) -> Result<Vec<u64>> {
        let mut counts = Vec::with_capacity(pairs.len());
        let mut marks = Marks::take();
        while let Some(pair) = pairs.get(counts.len()) {
            let rest = &pairs[counts.len()..];
            let Some((from, to)) = *pair else {
                counts.push(0);
                continue;
            };
            let run = |same: &dyn Fn((u32, u32)) -> bool| {
                let like = |pair: &&Option<(u32, u32)>| pair.is_some_and(same);
                rest.iter().take_while(like).count()
            };
            let (from_run, to_run) = (run(&|pair| pair.0 == from), run(&|pair| pair.1 == to));
            // Intersects the neighbours of the common end with the other ends of the run.
            let (length, side, end, forward) = match self.back {
                Some(back) if to_run > from_run => (to_run, back, to, false),
                _ => (from_run, self.walks, from, true),
            };
            let marked = length >= WORTH_MARKS
                && side.degree(end, &mut self.scratch) <= NEIGHBOURS_PER_LOOKUP * length as u64;
            if marked {
                marks.clear();
                let neighbours = side.neighbours(end, &mut self.scratch);
                neighbours.iter().for_each(|one| {
                    marks.insert(*one);
                });
                tick(neighbours.len())?;
            }
            for (from, to) in rest[..length].iter().flatten() {
                let other = if forward { *to } else { *from };
                // The marks rule out most pairs without a lookup.
                let possible = !marked || marks.contains(other);
                counts.push(if possible {
                    self.walks.between(*from, *to, &mut self.scratch)
                } else {
                    0
                });
            }
            tick(length)?;
        }
        Ok(counts)
    }
}

impl ExpandInto {
    /// Counts over the read views, if no operator reads which relationships were found.
    fn over_views(
        walks: &Walks,
        back: Option<&Walks>,
        op_ref: &OperatorRef,
        chunk: &Chunk,
        cx: &mut Cx<'_>,
    ) -> Result<Chunk> {
        let Op::ExpandInto(expand) = op_ref.op() else {
            return Err(misplaced(op_ref.op()));
        };
        let (from, to) = (chunk.column(expand.from), chunk.column(expand.to));
        let node = |column: Option<&Column>, row| column.and_then(|column| column.node(row));
        let pair = |row| Some((small(node(from, row)?)?, small(node(to, row)?)?));
        let pairs: Pairs = (0..chunk.len()).map(pair).collect();
        if pairs.len() >= WORTH_MARKS {
            // One bit per possible neighbour id, and room to grow.
            let bound = back.map_or(0, Walks::id_bound).max(walks.id_bound());
            cx.run.watch.allow(bound as usize / 4)?;
        }
        let mut counting = Counting {
            walks,
            back,
            scratch: WalkScratch::default(),
        };
        let mut counts = counting.count(&pairs, &mut |examined| cx.tick(examined))?;
        let used = Used::new(&expand.distinct_from, chunk);
        if !used.is_empty() {
            let filter = cx.type_filter(&expand.types);
            let mut barred = Vec::new();
            for (row, count) in counts
                .iter_mut()
                .enumerate()
                .filter(|(_, count)| **count > 0)
            {
                let (Some(from), Some(to)) = (node(from, row), node(to, row)) else {
                    continue;
                };
                used.rows(row, &mut barred);
                let found = |rel: &&RelRow| {
                    is_found(rel, from, expand.direction, &filter)
                        && end_of(rel, from, expand.direction) == to
                };
                // Relationships that the row already uses were counted as well.
                *count -= barred.iter().filter(found).count() as u64;
            }
        }
        // No row is multiplied: filtering avoids copies.
        if counts.iter().all(|count| *count < 2) {
            let mut kept = chunk.clone();
            op_ref.prune(&mut kept);
            kept.retain(&counts.iter().map(|count| *count > 0).collect::<Vec<_>>());
            return Ok(kept);
        }
        let (mut offsets, mut end) = (vec![0_u32], 0_u64);
        for count in counts {
            end += count;
            offsets.push(u32::try_from(end).map_err(|_| too_many())?);
        }
        cx.run.watch.allow(end as usize * size_of::<u32>())?;
        let mut made = chunk.gather(&repeat_rows(&offsets));
        op_ref.prune(&mut made);
        Ok(made)
    }
}

impl Operate for ExpandInto {
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        let op_ref = self.op_ref.clone();
        let Op::ExpandInto(expand) = op_ref.op() else {
            return Err(misplaced(op_ref.op()));
        };
        let Some(chunk) = self.input.pull_flat(cx)? else {
            return Ok(None);
        };
        if !expand.relationship.is_some_and(|slot| op_ref.is_live(slot)) {
            let filter = cx.type_filter(&expand.types);
            let direction = expand.direction;
            if let Some(walks) = cx.walks(&filter, direction) {
                cx.run.note_view(op_ref.id);
                // The reverse view only serves marking: for a few rows it is neither requested nor built.
                let worth = chunk.len() >= WORTH_MARKS;
                let back = worth.then(|| cx.walks(&filter, direction.reversed()));
                let back = back.flatten();
                return Self::over_views(&walks, back.as_ref(), &op_ref, &chunk, cx).map(Some);
            }
        }
        let (mut offsets, mut rels) = (vec![0_u32], Vec::new());
        let filter = cx.type_filter(&expand.types);
        let mut pairs = Vec::with_capacity(chunk.len());
        let mut pair_rows = Vec::with_capacity(chunk.len());
        for row in 0..chunk.len() {
            let node = |slot| chunk.column(slot).and_then(|column| column.node(row));
            if let (Some(from), Some(to)) = (node(expand.from), node(expand.to)) {
                pairs.push((from, to));
                pair_rows.push(row);
            }
        }
        let mut found = Neighbours::new();
        if let Some(types) = filter.ids() {
            cx.reader()
                .expand_into(&pairs, expand.direction, types, &mut found)?;
            cx.tick(found.rows().len())?;
        } else {
            pairs.iter().for_each(|_| found.end_group());
        }
        let used = Used::new(&expand.distinct_from, &chunk);
        let mut groups = pair_rows.iter().enumerate().peekable();
        for row in 0..chunk.len() {
            if let Some((group, _)) = groups.next_if(|(_, at)| **at == row) {
                rels.extend(
                    found
                        .of(group)
                        .iter()
                        .filter(|rel| !used.contains(row, rel.id)),
                );
            }
            offsets.push(rels.len() as u32);
        }
        let mut made = chunk.gather(&repeat_rows(&offsets));
        if let Some(slot) = expand.relationship {
            set_live(&op_ref, &mut made, slot, Column::Rels(rels));
        }
        op_ref.prune(&mut made);
        Ok(Some(made))
    }

    fn open(&mut self, argument: &Argument) {
        self.input.open(argument);
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        self.input.close(cx);
    }
}
