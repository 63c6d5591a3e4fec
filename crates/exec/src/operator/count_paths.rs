//! Counts paths of two relationships without enumerating them: for each middle node, its in-degree times its
//! out-degree, minus the paths that would use one relationship twice.

use isomer_plan::physical::{self, Direction, Op};
use isomer_views::AdjacencySide;

use super::{Argument, Operate, OperatorRef, fallback::LazyChild, scan::misplaced};
use crate::{
    chunk::Chunk,
    column::Column,
    context::{Cx, TypeFilter},
    dense::{WalkScratch, Walks},
    error::{ExecError, Result},
};

/// `MATCH ()-[:R]->()-[:S]->() RETURN count(*)` over the read views; its fallback runs if they are not available.
pub(super) struct CountPaths {
    op_ref: OperatorRef,
    /// One row.
    input: LazyChild,
    fallback: LazyChild,
    strategy: Strategy,
}

enum Strategy {
    Undecided,
    Done,
    Fallback,
}

impl CountPaths {
    pub(super) fn new(
        op_ref: OperatorRef,
        plan: &physical::CountPaths,
        argument: &Argument,
    ) -> Self {
        Self {
            input: LazyChild::new(&op_ref, plan.input, argument),
            fallback: LazyChild::new(&op_ref, plan.fallback, argument),
            op_ref,
            strategy: Strategy::Undecided,
        }
    }

    /// The number of paths, if the views can provide it.
    fn count(&self, plan: &physical::CountPaths, cx: &mut Cx<'_>) -> Result<Option<i64>> {
        let directions = (plan.first.direction, plan.second.direction);
        let first_types = cx.type_filter(&plan.first.types);
        let second_types = cx.type_filter(&plan.second.types);
        if first_types == TypeFilter::Nothing || second_types == TypeFilter::Nothing {
            return Ok(None);
        }
        make_views(&first_types, directions.0, cx);
        make_views(&second_types, directions.1, cx);
        let (first, second) = (
            cx.walks(&first_types, directions.0),
            cx.walks(&second_types, directions.1),
        );
        let (Some(first), Some(second)) = (first, second) else {
            return Ok(None);
        };
        let shared = match (
            plan.differ,
            shared_direction(directions.0, directions.1),
            shared_types(first_types, second_types),
        ) {
            (false, ..) | (_, _, TypeFilter::Nothing) => None,
            (true, Some(direction), types) => {
                let Some(walks) = cx.walks(&types, direction) else {
                    return Ok(None);
                };
                Some((walks, false))
            }
            (true, None, types) => {
                let direction = Direction::Outgoing;
                let Some(walks) = cx.walks(&types, direction) else {
                    return Ok(None);
                };
                Some((walks, true))
            }
        };
        cx.run.note_view(self.op_ref.id);
        let total = sum(&first, &second, shared.as_ref(), cx)?;
        let overflow = || ExecError::overflow("the number of paths does not fit into 64 bits");
        i64::try_from(total).map(Some).map_err(|_| overflow())
    }
}

/// Builds missing views first: otherwise all rows would be read, more than once.
fn make_views(types: &TypeFilter, direction: Direction, cx: &Cx<'_>) {
    let TypeFilter::These(types) = types else {
        return;
    };
    if !cx.reader().is_plain() {
        return;
    }
    let sides: &[AdjacencySide] = match direction {
        Direction::Outgoing => &[AdjacencySide::Out],
        Direction::Incoming => &[AdjacencySide::In],
        Direction::Both => &AdjacencySide::BOTH,
    };
    let stop = cx.run.watch.stop();
    let should_continue = || stop.check().is_ok();
    for &type_id in types {
        for &side in sides {
            // If a view cannot be built, the rows are used.
            let _ = cx.run.views.adjacency_now(type_id, side, &should_continue);
        }
    }
}

/// Nodes between two checks of the clock.
const PIECE: u32 = 4096;

/// The sum over all middle nodes. `shared` are the relationships that both steps can use; only self loops if its flag
/// says so.
fn sum(
    first: &Walks,
    second: &Walks,
    shared: Option<&(Walks, bool)>,
    cx: &mut Cx<'_>,
) -> Result<u128> {
    let mut scratch = WalkScratch::default();
    let mut total = 0_u128;
    let bound = first.id_bound().min(second.id_bound());
    for start in (0..bound).step_by(PIECE as usize) {
        for node in start..bound.min(start.saturating_add(PIECE)) {
            let ways = first.degree(node, &mut scratch);
            if ways == 0 {
                continue;
            }
            // Pairs of relationships through the middle node, counted by its degrees: O(nodes), whatever the number
            // of paths. Pairs that are one relationship twice are taken off.
            total += u128::from(ways) * u128::from(second.degree(node, &mut scratch));
            total -= match shared {
                None => 0,
                Some((walks, false)) => u128::from(walks.degree(node, &mut scratch)),
                Some((walks, true)) => u128::from(walks.loops(node, &mut scratch)),
            };
        }
        cx.tick(PIECE as usize)?;
    }
    Ok(total)
}

/// The direction of the relationships that both steps can use; none if these are self loops only.
fn shared_direction(a: Direction, b: Direction) -> Option<Direction> {
    match (a, b) {
        (Direction::Both, other) | (other, Direction::Both) => Some(other),
        (a, b) => (a == b).then_some(a),
    }
}

fn shared_types(a: TypeFilter, b: TypeFilter) -> TypeFilter {
    match (a, b) {
        (TypeFilter::Any, other) | (other, TypeFilter::Any) => other,
        (TypeFilter::These(a), TypeFilter::These(b)) => {
            let both: Vec<_> = a.into_iter().filter(|one| b.contains(one)).collect();
            if both.is_empty() {
                TypeFilter::Nothing
            } else {
                TypeFilter::These(both)
            }
        }
        (TypeFilter::Nothing, _) | (_, TypeFilter::Nothing) => TypeFilter::Nothing,
    }
}

impl Operate for CountPaths {
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        let op_ref = self.op_ref.clone();
        let Op::CountPaths(plan) = op_ref.op() else {
            return Err(misplaced(op_ref.op()));
        };
        match self.strategy {
            Strategy::Done => Ok(None),
            Strategy::Fallback => self.fallback.pull(cx),
            Strategy::Undecided => {
                let Some(count) = self.count(plan, cx)? else {
                    self.strategy = Strategy::Fallback;
                    cx.run.note_fallback(op_ref.id);
                    return self.fallback.pull(cx);
                };
                // The outer row, of which nothing is read.
                while self.input.pull(cx)?.is_some() {}
                self.strategy = Strategy::Done;
                let mut chunk = Chunk::new(1, op_ref.plan.slots.len());
                for slot in &plan.counts {
                    chunk.set(*slot, Column::Ints(vec![count]));
                }
                op_ref.prune(&mut chunk);
                Ok(Some(chunk))
            }
        }
    }

    fn open(&mut self, argument: &Argument) {
        self.input.open(argument);
        self.fallback.open(argument);
        self.strategy = Strategy::Undecided;
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        self.input.close(cx);
        self.fallback.close(cx);
        self.strategy = Strategy::Done;
    }
}
