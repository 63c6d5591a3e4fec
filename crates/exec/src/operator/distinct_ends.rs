//! Distinct neighbours: if duplicate rows make no difference above, each end is returned once, however many paths lead
//! to it.
//!
//! For two steps the middle nodes are collected first, so that each is expanded once. Whether its neighbours are ends
//! depends on how the middle was reached: if over two or more relationships, every relationship of the second step
//! differs from one of them; if over a single one, all relationships but that one qualify.

use isomer_plan::{
    expr::SlotId,
    physical::{self, Direction, Op, OpId},
};
use isomer_value::{NodeId, Value};

use super::{
    Argument, Child, FULL_BATCH, Operate, OperatorRef,
    expand::{Expand, bound_nodes},
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

/// An expand whose ends are wanted once each.
pub(super) struct DistinctEnds {
    op_ref: OperatorRef,
    argument: Argument,
    strategy: Strategy,
}

enum Strategy {
    Undecided,
    /// No view is available: the plain expand runs and may return duplicates.
    Rows(Box<Expand>),
    One(Box<One>),
    Two(Box<Two>),
}

impl DistinctEnds {
    pub(super) fn new(op_ref: OperatorRef, argument: &Argument) -> Self {
        Self {
            op_ref,
            argument: argument.clone(),
            strategy: Strategy::Undecided,
        }
    }

    fn decide(&self, plan: &physical::Expand, cx: &mut Cx<'_>) -> Result<Strategy> {
        let child = |id| Child::build(&self.op_ref.plan, id, &self.argument);
        let walks = |expand: &physical::Expand, cx: &mut Cx<'_>| {
            let filter = cx.type_filter(&expand.types);
            cx.walks(&filter, expand.direction)
        };
        let Some(second) = walks(plan, cx).filter(|_| !self.together()) else {
            let rows = Expand::new(self.op_ref.clone(), child(plan.input));
            return Ok(Strategy::Rows(Box::new(rows)));
        };
        cx.run.note_view(self.op_ref.id);
        let live = self.op_ref.live();
        if let Some(first_plan) = plan.two_steps(live, &self.op_ref.plan.operators)
            && let Some(first) = walks(first_plan, cx)
        {
            cx.run.note_view(plan.input);
            let others: Vec<SlotId> = live
                .iter()
                .copied()
                .filter(|slot| *slot != plan.to)
                .collect();
            return Ok(Strategy::Two(Box::new(Two {
                input: child(first_plan.input),
                first,
                second,
                apart: Apart::of(first_plan, plan),
                alone: others.is_empty(),
                others,
                first_id: plan.input,
                chunk: None,
                started: Marks::take(),
                middles: Middles::new(),
                seen: Marks::take(),
                at: 0,
                scratch: WalkScratch::default(),
            })));
        }
        if *live == [plan.to] && plan.distinct_from.is_empty() {
            return Ok(Strategy::One(Box::new(One {
                input: child(plan.input),
                walks: second,
                seen: Marks::take(),
                scratch: WalkScratch::default(),
            })));
        }
        let rows = Expand::new(self.op_ref.clone(), child(plan.input));
        Ok(Strategy::Rows(Box::new(rows)))
    }

    /// Whether several outer rows arrive at once: they are distinguished by a bookkeeping slot that the plan does not
    /// know.
    fn together(&self) -> bool {
        let mut slots = self.argument.chunk().slots();
        slots.any(|slot| slot.index() >= self.op_ref.plan.slots.len())
    }
}

impl Operate for DistinctEnds {
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        let op_ref = self.op_ref.clone();
        let Op::Expand(plan) = op_ref.op() else {
            return Err(misplaced(op_ref.op()));
        };
        if let Strategy::Undecided = self.strategy {
            self.strategy = self.decide(plan, cx)?;
        }
        match &mut self.strategy {
            Strategy::Rows(rows) => rows.next(cx),
            Strategy::One(one) => one.next(plan, &op_ref, cx),
            Strategy::Two(two) => two.next(plan, &op_ref, cx),
            Strategy::Undecided => Err(ExecError::Internal("an operator did not decide".into())),
        }
    }

    fn open(&mut self, argument: &Argument) {
        self.argument = argument.clone();
        let together = self.together();
        match &mut self.strategy {
            Strategy::Rows(rows) => rows.open(argument),
            Strategy::One(one) if !together => {
                one.input.open(argument);
                one.seen.clear();
            }
            Strategy::Two(two) if !together => two.open(argument),
            strategy => *strategy = Strategy::Undecided,
        }
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        match &mut self.strategy {
            Strategy::Rows(rows) => rows.close(cx),
            Strategy::One(one) => one.input.close(cx),
            Strategy::Two(two) => two.input.close(cx),
            Strategy::Undecided => {}
        }
        self.strategy = Strategy::Undecided;
    }
}

/// Distinct ends of one step, over all rows.
struct One {
    input: Child,
    walks: Walks,
    seen: Marks,
    scratch: WalkScratch,
}

impl One {
    fn next(
        &mut self,
        plan: &physical::Expand,
        op_ref: &OperatorRef,
        cx: &mut Cx<'_>,
    ) -> Result<Option<Chunk>> {
        let Some(chunk) = self.input.pull_flat(cx)? else {
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

/// Whether the second step can find the relationship of the first step again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Apart {
    /// It may: they need not differ.
    No,
    /// Only if it is a self loop.
    Loops,
    /// Always, back to the start of the first step.
    Back,
    /// If it points in the direction of the second step.
    IfSeen,
}

impl Apart {
    fn of(first: &physical::Expand, second: &physical::Expand) -> Self {
        if second.distinct_from.is_empty() {
            return Self::No;
        }
        match (first.direction, second.direction) {
            (_, Direction::Both) => Self::Back,
            (Direction::Both, _) => Self::IfSeen,
            (one, other) if one == other => Self::Loops,
            _ => Self::Back,
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
struct Two {
    input: Child,
    first: Walks,
    second: Walks,
    apart: Apart,
    /// Other slots of the rows that are read above.
    others: Vec<SlotId>,
    /// Whether there are none.
    alone: bool,
    /// The expand of the first step.
    first_id: OpId,
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

impl Two {
    fn open(&mut self, argument: &Argument) {
        self.input.open(argument);
        self.chunk = None;
        self.started.clear();
        self.middles.clear();
        self.seen.clear();
        self.at = 0;
    }

    fn next(
        &mut self,
        plan: &physical::Expand,
        op_ref: &OperatorRef,
        cx: &mut Cx<'_>,
    ) -> Result<Option<Chunk>> {
        let Some(first) = plan.two_steps(op_ref.live(), &op_ref.plan.operators) else {
            return Err(misplaced(op_ref.op()));
        };
        while self.at == self.middles.nodes.len() {
            self.middles.clear();
            self.at = 0;
            if !self.begin(first.from, cx)? {
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
    fn begin(&mut self, from: SlotId, cx: &mut Cx<'_>) -> Result<bool> {
        let mut any = false;
        loop {
            let Some((chunk, taken)) = self.chunk.as_mut().filter(|(chunk, at)| *at < chunk.len())
            else {
                match self.input.pull_flat(cx)? {
                    Some(chunk) => self.chunk = Some((chunk, 0)),
                    None => return Ok(any),
                }
                continue;
            };
            let node = chunk.column(from).and_then(|column| column.node(*taken));
            *taken += 1;
            any = true;
            let node = node.and_then(small);
            if let Some(node) = node.filter(|node| !self.alone || self.started.insert(*node)) {
                let neighbours = self.first.neighbours(node, &mut self.scratch);
                let middles = &mut self.middles;
                for &middle in neighbours {
                    if middles.reached.insert(middle) {
                        middles.nodes.push(middle);
                        middles.from.put(middle, node);
                    } else {
                        middles.again.insert(middle);
                    }
                }
                cx.run.note_rows(self.first_id, neighbours.len());
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
            let barred = self.barred(middle);
            let neighbours = self.second.neighbours(middle, &mut self.scratch);
            looked_at += neighbours.len() + 1;
            for &to in neighbours {
                if Some(to) != barred && self.seen.insert(to) {
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
    fn barred(&mut self, middle: u32) -> Option<u32> {
        if self.apart == Apart::No || self.middles.again.contains(middle) {
            return None;
        }
        let from = self.middles.from.get(middle);
        if self.apart == Apart::Loops && from != middle {
            return None;
        }
        // Either several relationships lead there and only one of them was used, or none does: then nothing is
        // excluded.
        (self.second.between(middle, from, &mut self.scratch) == 1).then_some(from)
    }
}
