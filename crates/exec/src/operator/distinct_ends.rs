//! Distinct neighbours: if duplicate rows make no difference above, each end is returned once, however many paths lead
//! to it.
//!
//! For two steps the middle nodes are collected first, so that each is expanded once. Whether its neighbours are ends
//! depends on how the middle was reached: if over two or more relationships, every relationship of the second step
//! differs from one of them; if over a single one, all relationships but that one qualify.

use isomer_plan::{
    expr::SlotId,
    physical::{self, Direction, ExpandStep, Op},
};
use isomer_value::{NodeId, Value};

use super::{
    Argument, FULL_BATCH, Operate, OperatorRef, expand::bound_nodes, fallback::LazyChild,
    scan::misplaced,
};
use crate::{
    chunk::Chunk,
    column::Column,
    context::Cx,
    dense::{Marks, Numbers, WalkScratch, Walks, small},
    error::{ExecError, Result},
};

/// Relationships that are examined between two checks of the clock.
const TICK_LINKS: usize = 1 << 14;

/// Each end of one step, or of two, once; its fallback runs if the adjacency has no views.
pub(super) struct DistinctEnds {
    op_ref: OperatorRef,
    input: LazyChild,
    fallback: LazyChild,
    strategy: Strategy,
}

enum Strategy {
    Undecided,
    /// No view is available: the plain expands run and may return duplicates.
    Fallback,
    OneStep(Box<OneStep>),
    TwoSteps(Box<TwoSteps>),
}

impl DistinctEnds {
    pub(super) fn new(
        op_ref: OperatorRef,
        plan: &physical::DistinctEnds,
        argument: &Argument,
    ) -> Self {
        Self {
            input: LazyChild::new(&op_ref, plan.input, argument),
            fallback: LazyChild::new(&op_ref, plan.fallback, argument),
            op_ref,
            strategy: Strategy::Undecided,
        }
    }

    /// The search, if views are available for all steps.
    fn search(&self, plan: &physical::DistinctEnds, cx: &mut Cx<'_>) -> Option<Strategy> {
        if self.is_batched() {
            return None;
        }
        let mut walks = |step: &ExpandStep| {
            let filter = cx.type_filter(&step.types);
            cx.walks(&filter, step.direction)
        };
        match plan.steps.as_slice() {
            [step] => Some(Strategy::OneStep(Box::new(OneStep {
                walks: walks(step)?,
                seen: Marks::take(),
                scratch: WalkScratch::default(),
            }))),
            [first, second] => {
                let live = self.op_ref.live().iter().copied();
                let others: Vec<SlotId> = live.filter(|slot| *slot != plan.to).collect();
                Some(Strategy::TwoSteps(Box::new(TwoSteps {
                    first: walks(first)?,
                    second: walks(second)?,
                    return_rule: ReturnRule::of(plan.differ, first.direction, second.direction),
                    alone: others.is_empty(),
                    others,
                    chunk: None,
                    started: Marks::take(),
                    middles: Middles::new(),
                    seen: Marks::take(),
                    at: 0,
                    scratch: WalkScratch::default(),
                })))
            }
            _ => None,
        }
    }

    /// Whether several outer rows arrive at once: they are distinguished by a bookkeeping slot that the plan does not
    /// know.
    fn is_batched(&self) -> bool {
        let mut slots = self.input.argument().chunk().slots();
        slots.any(|slot| slot.index() >= self.op_ref.plan.slots.len())
    }
}

impl Operate for DistinctEnds {
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        let op_ref = self.op_ref.clone();
        let Op::DistinctEnds(plan) = op_ref.op() else {
            return Err(misplaced(op_ref.op()));
        };
        if let Strategy::Undecided = self.strategy {
            self.strategy = match self.search(plan, cx) {
                Some(search) => {
                    cx.run.note_view(op_ref.id);
                    search
                }
                None => {
                    cx.run.note_fallback(op_ref.id);
                    Strategy::Fallback
                }
            };
        }
        match &mut self.strategy {
            Strategy::Fallback => self.fallback.pull(cx),
            Strategy::OneStep(one) => one.next(plan, &op_ref, &mut self.input, cx),
            Strategy::TwoSteps(two) => two.next(plan, &op_ref, &mut self.input, cx),
            Strategy::Undecided => Err(ExecError::Internal("an operator did not decide".into())),
        }
    }

    fn open(&mut self, argument: &Argument) {
        self.input.open(argument);
        self.fallback.open(argument);
        // Decided again: since the last outer row, the transaction may have written, which the views do not show.
        self.strategy = Strategy::Undecided;
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        self.input.close(cx);
        self.fallback.close(cx);
        self.strategy = Strategy::Undecided;
    }
}

/// Distinct ends of one step, over all rows.
struct OneStep {
    walks: Walks,
    seen: Marks,
    scratch: WalkScratch,
}

impl OneStep {
    fn next(
        &mut self,
        plan: &physical::DistinctEnds,
        op_ref: &OperatorRef,
        input: &mut LazyChild,
        cx: &mut Cx<'_>,
    ) -> Result<Option<Chunk>> {
        let Some(chunk) = input.pull_flat(cx)? else {
            return Ok(None);
        };
        let mut ends = Vec::new();
        let mut looked_at = 0;
        for node in bound_nodes(&chunk, plan.from)?
            .1
            .into_iter()
            .filter_map(small)
        {
            let neighbours = self.walks.neighbours(node, &mut self.scratch);
            looked_at += neighbours.len();
            // Duplicates are dropped where they arise: no row is made for them.
            let new = neighbours.iter().filter(|to| self.seen.insert(**to));
            ends.extend(new.map(|to| NodeId(u64::from(*to))));
            if looked_at >= TICK_LINKS {
                cx.tick(std::mem::take(&mut looked_at))?;
                cx.run.watch.allow(self.seen.bytes() + ends.len() * 8)?;
            }
        }
        cx.tick(looked_at)?;
        cx.run.watch.allow(self.seen.bytes() + ends.len() * 8)?;
        let mut made = Chunk::new(ends.len(), op_ref.plan.slots.len());
        made.set(plan.to, Column::Nodes(ends));
        Ok(Some(made))
    }
}

/// Whether the second step can return over the relationship of the first step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReturnRule {
    /// It may: the relationships need not differ.
    Allowed,
    /// It would only if that is a self loop.
    SelfLoop,
    /// It always would, to the start of the first step.
    ToStart,
    /// It would if that points in the direction of the second step.
    SameDirection,
}

impl ReturnRule {
    fn of(differ: bool, first: Direction, second: Direction) -> Self {
        if !differ {
            return Self::Allowed;
        }
        match (first, second) {
            (_, Direction::Both) => Self::ToStart,
            (Direction::Both, _) => Self::SameDirection,
            (one, other) if one == other => Self::SelfLoop,
            _ => Self::ToStart,
        }
    }
}

/// The middle nodes of a two-step expand.
struct Middles {
    nodes: Vec<u32>,
    reached: Marks,
    /// Middles that were reached over several relationships.
    again: Marks,
    /// For the others, the node from which they were reached.
    from: Numbers,
}

impl Middles {
    fn new() -> Self {
        Self {
            nodes: Vec::new(),
            reached: Marks::take(),
            again: Marks::take(),
            from: Numbers::take(),
        }
    }

    fn clear(&mut self) {
        self.nodes.clear();
        self.reached.clear();
        self.again.clear();
    }

    fn bytes(&self) -> usize {
        self.nodes.capacity() * 4 + self.reached.bytes() + self.again.bytes() + self.from.bytes()
    }
}

/// Distinct ends of two steps, over all rows, or per row if other slots of the rows are read.
struct TwoSteps {
    first: Walks,
    second: Walks,
    return_rule: ReturnRule,
    /// Other slots of the rows that are read above.
    others: Vec<SlotId>,
    /// Whether there are none.
    alone: bool,
    /// The start nodes: a relationship that leads back to one of them is the one of the first step.
    started: Marks,
    /// The start rows, and how many of them were consumed.
    chunk: Option<(Chunk, usize)>,
    middles: Middles,
    seen: Marks,
    /// Index of the next middle node.
    at: usize,
    scratch: WalkScratch,
}

impl TwoSteps {
    fn next(
        &mut self,
        plan: &physical::DistinctEnds,
        op_ref: &OperatorRef,
        input: &mut LazyChild,
        cx: &mut Cx<'_>,
    ) -> Result<Option<Chunk>> {
        while self.at == self.middles.nodes.len() {
            self.middles.clear();
            self.at = 0;
            if !self.begin(plan.from, input, cx)? {
                return Ok(None);
            }
            if !self.alone {
                self.seen.clear();
            }
        }
        let ends = self.ends(cx)?;
        let mut made = Chunk::new(ends.len(), op_ref.plan.slots.len());
        if let Some((chunk, taken)) = &self.chunk {
            for slot in &self.others {
                let value = match taken.checked_sub(1) {
                    Some(row) => chunk.value(*slot, row),
                    None => Value::Null,
                };
                made.set(*slot, Column::Const(value));
            }
        }
        made.set(plan.to, Column::Nodes(ends));
        Ok(Some(made))
    }

    /// Runs the first step for the next row, or for all rows; false if there is none.
    fn begin(&mut self, from: SlotId, input: &mut LazyChild, cx: &mut Cx<'_>) -> Result<bool> {
        let mut any = false;
        loop {
            let Some((chunk, taken)) = self.chunk.as_mut().filter(|(chunk, at)| *at < chunk.len())
            else {
                match input.pull_flat(cx)? {
                    Some(chunk) => self.chunk = Some((chunk, 0)),
                    None => return Ok(any),
                }
                continue;
            };
            let node = chunk.column(from).and_then(|column| column.node(*taken));
            *taken += 1;
            any = true;
            let node = node.and_then(small);
            // Without other slots, all rows are one search, and a start that occurs twice adds nothing.
            if let Some(node) = node.filter(|node| !self.alone || self.started.insert(*node)) {
                let neighbours = self.first.neighbours(node, &mut self.scratch);
                let middles = &mut self.middles;
                for &middle in neighbours {
                    if middles.reached.insert(middle) {
                        middles.nodes.push(middle);
                        // Reached once so far: only from here the second step could go back over the same
                        // relationship.
                        middles.from.put(middle, node);
                    } else {
                        middles.again.insert(middle);
                    }
                }
                cx.tick(neighbours.len() + 1)?;
                cx.run.watch.allow(self.seen.bytes() + middles.bytes())?;
            }
            if !self.alone {
                return Ok(true);
            }
        }
    }

    /// The next ends that were not returned yet.
    fn ends(&mut self, cx: &mut Cx<'_>) -> Result<Vec<NodeId>> {
        let mut ends = Vec::new();
        let mut looked_at = 0;
        while let Some(&middle) = self.middles.nodes.get(self.at) {
            if ends.len() >= FULL_BATCH {
                break;
            }
            self.at += 1;
            let excluded_end = self.excluded_end(middle);
            let neighbours = self.second.neighbours(middle, &mut self.scratch);
            looked_at += neighbours.len() + 1;
            for &to in neighbours {
                if Some(to) != excluded_end && self.seen.insert(to) {
                    ends.push(NodeId(u64::from(to)));
                }
            }
            if looked_at >= TICK_LINKS {
                cx.tick(std::mem::take(&mut looked_at))?;
                let held = self.seen.bytes() + self.middles.bytes();
                cx.run.watch.allow(held + ends.len() * 8)?;
            }
        }
        cx.tick(looked_at)?;
        Ok(ends)
    }

    /// The neighbour of a middle node that is not an end, because only the relationship of the first step leads there.
    fn excluded_end(&mut self, middle: u32) -> Option<u32> {
        if self.return_rule == ReturnRule::Allowed || self.middles.again.contains(middle) {
            return None;
        }
        let from = self.middles.from.get(middle);
        if self.return_rule == ReturnRule::SelfLoop && from != middle {
            return None;
        }
        // Either several relationships lead there and only one of them was used, or none does: then nothing is
        // excluded.
        (self.second.between(middle, from, &mut self.scratch) == 1).then_some(from)
    }
}
