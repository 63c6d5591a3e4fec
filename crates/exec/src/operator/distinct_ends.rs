//! Neighbours, each once: where rows that look the same make no difference above, an end is found once however many ways
//! lead to it.
//!
//! Over two steps the nodes in the middle are gathered first, so that each is expanded once. Whether its neighbours are
//! ends depends on how it was reached: over two relationships or more, each of its own differs from one of these; over a
//! single one, all but that one do.

use isomer_plan::{
    expr::SlotId,
    physical::{self, Direction, Op, OpId},
};
use isomer_value::{NodeId, Value};

use super::{
    Argument, Child, FULL_BATCH, Operate, Spot,
    expand::{Expand, bound_nodes},
    scan::misplaced,
};
use crate::{
    chunk::Chunk,
    column::Column,
    context::{Cx, data_direction},
    dense::{Marks, Numbers, WalkScratch, Walks, small},
    error::{ExecError, Result},
};

/// Relationships that are looked at between two looks at the clock.
const TICK_LINKS: usize = 1 << 14;

/// An expand of which each end is wanted once.
pub(super) struct DistinctEnds {
    spot: Spot,
    argument: Argument,
    way: Way,
}

enum Way {
    Undecided,
    /// Where no view stands: all rows, as it may.
    Rows(Box<Expand>),
    One(Box<One>),
    Two(Box<Two>),
}

impl DistinctEnds {
    pub(super) fn new(spot: Spot, argument: &Argument) -> Self {
        Self {
            spot,
            argument: argument.clone(),
            way: Way::Undecided,
        }
    }

    fn decide(&self, plan: &physical::Expand, cx: &mut Cx<'_>) -> Result<Way> {
        let child = |id| Child::build(&self.spot.plan, id, &self.argument);
        let walks = |expand: &physical::Expand, cx: &mut Cx<'_>| {
            let filter = cx.type_filter(&expand.types);
            cx.walks(&filter, data_direction(expand.direction))
        };
        let Some(second) = walks(plan, cx).filter(|_| !self.together()) else {
            let rows = Expand::new(self.spot.clone(), child(plan.input));
            return Ok(Way::Rows(Box::new(rows)));
        };
        cx.run.note_view(self.spot.id);
        let live = self.spot.live();
        if let Some(first_plan) = plan.two_steps(live, &self.spot.plan.operators)
            && let Some(first) = walks(first_plan, cx)
        {
            cx.run.note_view(plan.input);
            let others: Vec<SlotId> = live
                .iter()
                .copied()
                .filter(|slot| *slot != plan.to)
                .collect();
            return Ok(Way::Two(Box::new(Two {
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
            return Ok(Way::One(Box::new(One {
                input: child(plan.input),
                walks: second,
                seen: Marks::take(),
                scratch: WalkScratch::default(),
            })));
        }
        let rows = Expand::new(self.spot.clone(), child(plan.input));
        Ok(Way::Rows(Box::new(rows)))
    }

    /// Whether several outer rows come at once: they are told apart by a slot that the plan does not know.
    fn together(&self) -> bool {
        let mut slots = self.argument.chunk().slots();
        slots.any(|slot| slot.index() >= self.spot.plan.slots.len())
    }
}

impl Operate for DistinctEnds {
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        let spot = self.spot.clone();
        let Op::Expand(plan) = spot.op() else {
            return Err(misplaced(spot.op()));
        };
        if let Way::Undecided = self.way {
            self.way = self.decide(plan, cx)?;
        }
        match &mut self.way {
            Way::Rows(rows) => rows.next(cx),
            Way::One(one) => one.next(plan, &spot, cx),
            Way::Two(two) => two.next(plan, &spot, cx),
            Way::Undecided => Err(ExecError::Internal("an operator did not decide".into())),
        }
    }

    fn open(&mut self, argument: &Argument) {
        self.argument = argument.clone();
        let together = self.together();
        match &mut self.way {
            Way::Rows(rows) => rows.open(argument),
            Way::One(one) if !together => {
                one.input.open(argument);
                one.seen.clear();
            }
            Way::Two(two) if !together => two.open(argument),
            way => *way = Way::Undecided,
        }
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        match &mut self.way {
            Way::Rows(rows) => rows.close(cx),
            Way::One(one) => one.input.close(cx),
            Way::Two(two) => two.input.close(cx),
            Way::Undecided => {}
        }
        self.way = Way::Undecided;
    }
}

/// Ends of one step, each once of all rows.
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
        spot: &Spot,
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
        let mut made = Chunk::new(ends.len(), spot.plan.slots.len());
        made.set(plan.to, Column::Nodes(ends));
        Ok(Some(made))
    }
}

/// How the second step may find the relationship of the first one again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Apart {
    /// It may: they need not differ.
    No,
    /// Only where it is a self loop.
    Loops,
    /// Always, back to where the first step came from.
    Back,
    /// Where it points the second step's way.
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

/// The nodes that a first step leads to.
struct Middles {
    nodes: Vec<u32>,
    reached: Marks,
    /// Those reached over several relationships.
    again: Marks,
    /// Where the others were reached from.
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

/// Ends of two steps, each once for all rows, or for each row where something of the rows is read.
struct Two {
    input: Child,
    first: Walks,
    second: Walks,
    apart: Apart,
    /// What else is read of the rows.
    others: Vec<SlotId>,
    /// Whether that is nothing.
    alone: bool,
    /// The expand of the first step.
    first_id: OpId,
    /// The nodes that steps began at: a relationship that is met again from there is the same one.
    started: Marks,
    /// The rows that steps begin at, and how many of them were taken.
    chunk: Option<(Chunk, usize)>,
    middles: Middles,
    seen: Marks,
    /// Which of the middles comes next.
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
        spot: &Spot,
        cx: &mut Cx<'_>,
    ) -> Result<Option<Chunk>> {
        let Some(first) = plan.two_steps(spot.live(), &spot.plan.operators) else {
            return Err(misplaced(spot.op()));
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
        let mut made = Chunk::new(ends.len(), spot.plan.slots.len());
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

    /// Takes the first steps from the next row, or from all; false where there is none.
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

    /// The next ends that were not given yet.
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

    /// The neighbour of a node in the middle that is no end: where only the relationship over which it was reached leads.
    fn barred(&mut self, middle: u32) -> Option<u32> {
        if self.apart == Apart::No || self.middles.again.contains(middle) {
            return None;
        }
        let from = self.middles.from.get(middle);
        if self.apart == Apart::Loops && from != middle {
            return None;
        }
        // Several relationships lead there, and only one of them was used; none, and nothing is to be left out.
        (self.second.between(middle, from, &mut self.scratch) == 1).then_some(from)
    }
}
