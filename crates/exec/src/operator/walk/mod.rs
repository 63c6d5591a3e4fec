//! Path patterns with repeated groups, and the shortest walks along any pattern.
//!
//! Without a selector, walks are enumerated depth first; the enumeration resumes between chunks. With a selector, walks
//! are explored in order of length by A* (the heuristic is in [`ahead`]) until enough of them are found. A walk
//! uses no relationship twice, unless the pattern allows it ([`Walk::repeats`]), and all state counts against the
//! query's memory.

mod ahead;
mod machine;
mod shortest;

use std::sync::Arc;

use isomer_plan::{
    expr::{BoundExpr, SlotId},
    physical::{self, Op},
    walk::Walk,
};
use isomer_value::{Node, NodeId, Path, Value};

use super::{
    Argument, Batch, Child, Operate, OperatorRef,
    expand::Used,
    input::{RowInput, set_live},
    scan::misplaced,
};
use crate::{
    chunk::Chunk,
    column::{Column, relationship, relationship_value},
    context::Cx,
    error::Result,
    eval::{Row, holds},
    function::node_value,
};

use machine::{Enumeration, Machine, WalkHop};

/// Walks from a bound node.
pub(super) struct PathSearch {
    op_ref: OperatorRef,
    input: RowInput,
    batch: Batch,
    search: Option<Search>,
}

/// The walks of one row.
enum Search {
    /// All of them, one after the other.
    Every(Box<Machine>, Enumeration),
    /// The walks that the selector picked.
    Selected(std::vec::IntoIter<Vec<WalkHop>>),
}

impl PathSearch {
    pub(super) fn new(op_ref: OperatorRef, input: Child) -> Self {
        Self {
            op_ref,
            input: RowInput::new(input),
            batch: Batch::default(),
            search: None,
        }
    }

    /// Starts the search for the current row; none if an end is null.
    fn start(&self, plan: &physical::PathSearch, cx: &mut Cx<'_>) -> Result<Option<Search>> {
        let row = self.input.row()?;
        let node = |slot| {
            row.chunk
                .column(slot)
                .and_then(|column| column.node(row.row))
        };
        let Some(from) = node(plan.from) else {
            return Ok(None);
        };
        let into = if plan.into {
            match node(plan.to) {
                Some(to) => Some(to),
                None => return Ok(None),
            }
        } else {
            None
        };
        let barred = Used::new(&plan.distinct_from, row.chunk).ids(row.row);
        let machine = Machine::new(plan, from, into, barred, cx);
        let Some(selector) = plan.selector else {
            return Ok(Some(Search::Every(
                Box::new(machine),
                Enumeration::new(from),
            )));
        };
        let fits = |walk: &[WalkHop], cx: &mut Cx<'_>| match &plan.predicate {
            None => Ok(true),
            Some(predicate) => fits(plan, from, walk, predicate, row, cx),
        };
        let walks = shortest::select(&machine, &plan.walk, selector, &fits, row, cx)?;
        Ok(Some(Search::Selected(walks.into_iter())))
    }
}

impl Search {
    fn next(
        &mut self,
        plan: &physical::PathSearch,
        row: Row<'_>,
        cx: &mut Cx<'_>,
    ) -> Result<Option<Vec<WalkHop>>> {
        match self {
            Self::Every(machine, enumeration) => machine.next(&plan.walk, enumeration, row, cx),
            Self::Selected(walks) => Ok(walks.next()),
        }
    }
}

impl Operate for PathSearch {
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        let op_ref = self.op_ref.clone();
        let Op::PathSearch(plan) = op_ref.op() else {
            return Err(misplaced(op_ref.op()));
        };
        let limit = self.batch.next();
        let slots: Vec<SlotId> = bound_slots(plan)
            .into_iter()
            .filter(|slot| op_ref.is_live(*slot))
            .collect();
        let mut columns: Vec<Vec<Value>> = slots.iter().map(|_| Vec::new()).collect();
        let (mut rows, mut ends, mut bytes) = (Vec::new(), Vec::new(), 0_usize);
        while ends.len() < limit {
            let Some(search) = &mut self.search else {
                if !ends.is_empty() && !self.input.has_more() {
                    break;
                }
                if !self.input.advance(cx)? {
                    return Ok(None);
                }
                self.search = self.start(plan, cx)?;
                continue;
            };
            let row = self.input.row()?;
            let Some(walk) = search.next(plan, row, cx)? else {
                self.search = None;
                continue;
            };
            let from = row
                .chunk
                .column(plan.from)
                .and_then(|column| column.node(row.row));
            let Some(from) = from else { continue };
            rows.push(self.input.position());
            ends.push(walk.last().map_or(from, |taken| taken.node));
            bytes += walk.len() * 96 * slots.len();
            cx.run.watch.allow(bytes)?;
            for (slot, column) in slots.iter().zip(&mut columns) {
                column.push(bound_value(plan, *slot, from, &walk));
            }
        }
        let mut chunk = self.input.gather(&op_ref, &rows);
        if !plan.into {
            set_live(&op_ref, &mut chunk, plan.to, Column::Nodes(ends));
        }
        for (slot, values) in slots.into_iter().zip(columns) {
            chunk.set(slot, Column::of_values(values));
        }
        Ok(Some(chunk))
    }

    fn open(&mut self, argument: &Argument) {
        self.input.open(argument);
        self.search = None;
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        self.input.close(cx);
        self.search = None;
    }
}

/// The slots that a search binds, except its end.
fn bound_slots(plan: &physical::PathSearch) -> Vec<SlotId> {
    let whole = plan.path.into_iter().chain(plan.relationships);
    plan.walk.slots().chain(whole).collect()
}

/// Whether the condition on a whole walk holds.
fn fits(
    plan: &physical::PathSearch,
    from: NodeId,
    walk: &[WalkHop],
    predicate: &BoundExpr,
    row: Row<'_>,
    cx: &mut Cx<'_>,
) -> Result<bool> {
    let mut chunk = row.chunk.gather(&[row.row as u32]);
    for slot in bound_slots(plan) {
        if predicate.reads(slot) {
            let value = bound_value(plan, slot, from, walk);
            chunk.set(slot, Column::of_values(vec![value]));
        }
    }
    let row = Row {
        chunk: &chunk,
        row: 0,
    };
    holds(predicate, row, cx)
}

/// The value that a walk binds to a slot.
fn bound_value(plan: &physical::PathSearch, slot: SlotId, from: NodeId, walk: &[WalkHop]) -> Value {
    if plan.path == Some(slot) {
        return path_value(from, walk, plan.reversed);
    }
    if plan.relationships == Some(slot) {
        let all = walk.iter().map(|taken| relationship_value(taken.rel));
        return list(all.collect(), plan.reversed);
    }
    for (at, junction) in plan.walk.junctions.iter().enumerate() {
        if junction.slot == Some(slot) {
            let before = walk.iter().rev().find(|taken| taken.link <= at);
            return node_value(before.map_or(from, |taken| taken.node));
        }
    }
    element_value(&plan.walk, slot, from, walk, plan.reversed)
}

fn element_value(
    walk: &Walk,
    slot: SlotId,
    from: NodeId,
    taken: &[WalkHop],
    reversed: bool,
) -> Value {
    for (at, link) in walk.links.iter().enumerate() {
        let Some(element) = link
            .elements()
            .position(|element| element.slot == Some(slot))
        else {
            continue;
        };
        let mut found = Vec::new();
        let mut before = from;
        for one in taken {
            if one.link == at {
                match element {
                    0 if one.step == 0 => found.push(node_value(before)),
                    element if element == 2 * one.step + 1 => {
                        found.push(relationship_value(one.rel));
                    }
                    element if element == 2 * one.step + 2 => found.push(node_value(one.node)),
                    _ => {}
                }
            }
            before = one.node;
        }
        return match link.repeat {
            Some(_) => list(found, reversed),
            None => found.pop().unwrap_or_default(),
        };
    }
    Value::Null
}

fn list(mut values: Vec<Value>, reversed: bool) -> Value {
    if reversed {
        values.reverse();
    }
    Value::List(Arc::new(values))
}

fn path_value(from: NodeId, walk: &[WalkHop], reversed: bool) -> Value {
    let node = |id| Node { id, content: None };
    let mut nodes: Vec<Node> = std::iter::once(from)
        .chain(walk.iter().map(|taken| taken.node))
        .map(node)
        .collect();
    let mut relationships: Vec<_> = walk.iter().map(|taken| relationship(taken.rel)).collect();
    if reversed {
        nodes.reverse();
        relationships.reverse();
    }
    Value::from(Path {
        nodes,
        relationships,
    })
}
