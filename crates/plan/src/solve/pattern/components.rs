//! Components of a pattern that no bound slot leads to: the choice of a start, and the join with the rest.

use super::emit::overlapping;
use super::{Move, Problem, Progress};
use crate::expr::{BoundExpr, Comparison, SlotId};
use crate::logical::Length;
use crate::physical::Op;
use crate::solve::{Flow, Planner};
use rustc_hash::FxHashSet;

/// Maximum number of starts that are tried one by one; in a larger component only the most selective ones.
const STARTS_TRIED: usize = 12;
/// In a pattern with more relationships than this, only the most selective start is tried.
const SMALL_PATTERN: usize = 64;
/// Nodes considered as a start, in the order written.
const NODES_LOOKED_AT: usize = 256;

/// A component that is solved separately, to be joined.
pub(super) struct JoinSide {
    /// Its nodes and relationships, by index in the graph.
    pub nodes: Vec<bool>,
    pub relationships: Vec<bool>,
    /// Nodes that are found on the other side, too.
    pub shared: Vec<SlotId>,
}

/// Solves a side.
pub(super) type Find<'f, 'p> =
    &'f mut dyn FnMut(&mut Planner<'p>, &mut Progress, &mut Flow, &mut Vec<usize>);

impl<'p> Planner<'p> {
    /// Chooses a start in a component of the pattern that no bound slot leads to.
    pub(super) fn next_component(
        &mut self,
        problem: &Problem,
        progress: &mut Progress,
        flow: &mut Flow,
        solved: &mut Vec<usize>,
    ) {
        if !self.arena.plain && self.next_ordered_part(problem, progress, flow, solved) {
            return;
        }
        let Some((start, alone)) = cheapest_start(self, problem, progress) else {
            return;
        };
        // The same trade-off as for ordered components: a join pays if many rows would each run the component.
        let single = self.rows(flow) <= 2.0;
        let seeks = match &start {
            Move::Find(_, access) => access.is_seek() && access.rows <= 2.0,
            Move::Scan(_, access) => access.is_seek() && access.rows <= 2.0,
            _ => false,
        };
        // A component that is connected to unsolved elements cannot be solved separately and joined.
        if single || seeks || !is_whole(problem, progress, &alone) {
            return self.take(problem, progress, flow, solved, start);
        }
        // Only what the trial found belongs to this component.
        let mine = |before: &[bool], after: &[bool]| -> Vec<bool> {
            before
                .iter()
                .zip(after)
                .map(|(before, after)| *before && !*after)
                .collect()
        };
        let side = JoinSide {
            nodes: mine(&progress.node_open, &alone.node_open),
            relationships: mine(&progress.relationship_open, &alone.relationship_open),
            shared: Vec::new(),
        };
        self.join_side(
            problem,
            progress,
            flow,
            solved,
            side,
            &mut |planner, component, right, found| {
                let start = match &start {
                    Move::Find(node, _) => {
                        let access = planner.access(problem, component, problem.graph.nodes[*node]);
                        Move::Find(*node, access)
                    }
                    Move::Scan(at, _) => {
                        let access = planner.rel_access(problem, component, *at, &component.bound);
                        Move::Scan(*at, access)
                    }
                    other => other.clone(),
                };
                planner.take(problem, component, right, found, start);
                while let Some(next) = planner.next_move(problem, component) {
                    planner.take(problem, component, right, found, next);
                }
            },
        );
    }

    /// Applies a move: its bindings, and its operator.
    pub(super) fn take(
        &mut self,
        problem: &Problem,
        progress: &mut Progress,
        flow: &mut Flow,
        solved: &mut Vec<usize>,
        next: Move,
    ) {
        self.advance(problem, progress, &next);
        self.emit(problem, progress, flow, next, solved);
    }

    /// Solves a side separately and joins it: by the nodes that both sides have, by equal keys if a predicate gives
    /// them, otherwise as a Cartesian product.
    pub(super) fn join_side(
        &mut self,
        problem: &Problem,
        progress: &mut Progress,
        flow: &mut Flow,
        solved: &mut Vec<usize>,
        side: JoinSide,
        find: Find<'_, 'p>,
    ) {
        let left_rows = self.rows(flow);
        let leaf = self.argument();
        let mut right = Flow {
            op: leaf,
            bound: self.context.clone(),
            ..flow.clone()
        };
        let mut component = problem.start(&self.context, 1.0);
        component.node_open.clone_from(&side.nodes);
        component.relationship_open.clone_from(&side.relationships);
        component
            .predicate_open
            .clone_from(&progress.predicate_open);
        component.path_open.clone_from(&progress.path_open);
        // Predicates on a shared node reduce both sides.
        for node in &side.shared {
            for at in problem.about(*node) {
                let alone = problem.predicate_slots[*at]
                    .iter()
                    .all(|slot| slot == node || self.context.contains(slot));
                component.predicate_open[*at] |= alone;
            }
        }
        let mut part_solved = Vec::new();
        find(self, &mut component, &mut right, &mut part_solved);
        // What the side has solved or tested need not be done again on top of the join.
        progress.node_open = left_open(&progress.node_open, &side.nodes, &component.node_open);
        progress.relationship_open = left_open(
            &progress.relationship_open,
            &side.relationships,
            &component.relationship_open,
        );
        let both = |before: &mut Vec<bool>, after: &[bool]| {
            before
                .iter_mut()
                .zip(after)
                .for_each(|(before, after)| *before &= *after);
        };
        both(&mut progress.predicate_open, &component.predicate_open);
        both(&mut progress.path_open, &component.path_open);
        // Equalities across the sides make a hash join of what would be a product.
        let (mut input_keys, mut right_keys, joined) = if self.arena.plain {
            Default::default()
        } else {
            join_keys(
                problem,
                progress,
                &flow.bound,
                &component.bound,
                &self.context,
            )
        };
        for keys in [&mut input_keys, &mut right_keys] {
            keys.splice(0..0, side.shared.iter().map(|node| BoundExpr::Slot(*node)));
        }
        let right_rows = self.rows(&right);
        let right_op = right.op;
        if input_keys.is_empty() {
            self.push(
                flow,
                |input| Op::CartesianProduct {
                    input,
                    right: right_op,
                },
                left_rows * right_rows,
            );
        } else {
            for at in joined {
                progress.predicate_open[at] = false;
            }
            // The estimate of System R for an equi-join whose larger side has as many distinct keys as rows.
            let rows = (left_rows * right_rows / left_rows.max(right_rows).max(1.0)).max(1.0);
            self.push(
                flow,
                |input| Op::HashJoin {
                    input,
                    right: right_op,
                    input_keys,
                    right_keys,
                },
                rows,
            );
        }
        progress.bound.extend(component.bound.iter().copied());
        // Within a MATCH no relationship occurs twice; the sides have not seen one another's until now.
        let pairs = part_solved
            .iter()
            .flat_map(|at| overlapping(problem, *at, solved).map(|other| (*at, other)))
            .collect();
        self.keep_apart(problem, flow, pairs);
        solved.extend(part_solved);
        self.emit_testable(problem, progress, flow);
    }
}

/// The best first move of any unsolved component, with the outcome of solving the component separately.
fn cheapest_start(
    planner: &Planner<'_>,
    problem: &Problem,
    progress: &Progress,
) -> Option<(Move, Progress)> {
    let mut candidates: Vec<Move> = Vec::new();
    // A relationship that is bound elsewhere binds its ends as well.
    let brought = |node: SlotId| {
        problem
            .graph
            .relationships
            .iter()
            .zip(&progress.relationship_open)
            .any(|(relationship, open)| {
                *open
                    && relationship.bound
                    && (relationship.from == node || relationship.to == node)
            })
    };
    for (at, node) in problem.graph.nodes.iter().enumerate() {
        if candidates.len() < NODES_LOOKED_AT && progress.node_open[at] && !brought(*node) {
            candidates.push(Move::Find(at, planner.access(problem, progress, *node)));
        }
    }
    let scan = |next: &Move| match next {
        Move::Find(_, access) => access.rows,
        _ => f64::MAX,
    };
    // Each start costs a greedy run over the whole component: only the most selective ones are tried.
    candidates.sort_by(|a, b| scan(a).total_cmp(&scan(b)));
    let tried = if problem.graph.relationships.len() > SMALL_PATTERN {
        1
    } else {
        STARTS_TRIED
    };
    candidates.truncate(tried);
    for (at, relationship) in problem.graph.relationships.iter().enumerate().take(tried) {
        let apart = relationship.from != relationship.to;
        let open = progress.relationship_open[at]
            && !progress.bound.contains(&relationship.from)
            && !progress.bound.contains(&relationship.to);
        if open && apart && !relationship.bound && matches!(relationship.length, Length::One) {
            let access = planner.rel_access(problem, progress, at, &progress.bound);
            candidates.push(Move::Scan(at, access));
        }
    }
    let starts_as_hinted = |start: &Move| match start {
        Move::Find(at, _) => problem.is_hinted(problem.graph.nodes[*at]),
        Move::Scan(at, _) => problem.is_hinted(problem.graph.relationships[*at].slot),
        _ => false,
    };
    if !problem.hinted.is_empty() && candidates.iter().any(starts_as_hinted) {
        candidates.retain(starts_as_hinted);
    }
    if candidates.is_empty() {
        let node = progress.node_open.iter().position(|open| *open)?;
        candidates.push(Move::Find(
            node,
            planner.access(problem, progress, problem.graph.nodes[node]),
        ));
    }
    let mut best: Option<(f64, Move, Progress)> = None;
    for start in candidates {
        // The component is solved as if alone, to compare starts by their whole plan instead of by their first step.
        let mut trial = Progress {
            rows: 1.0,
            work: 0.0,
            bound: planner.context.clone(),
            ..progress.clone()
        };
        planner.advance(problem, &mut trial, &start);
        planner.thin(problem, &mut trial);
        while let Some(next) = planner.next_move(problem, &trial) {
            planner.advance(problem, &mut trial, &next);
            planner.thin(problem, &mut trial);
        }
        // A start that solves the whole component is preferred over one that gets stuck.
        let whole = is_whole(problem, progress, &trial);
        let cost = trial.work + trial.rows + if whole { 0.0 } else { 1e12 };
        if best.as_ref().is_none_or(|(known, ..)| cost < *known) {
            best = Some((cost, start, trial));
        }
    }
    best.map(|(_, start, trial)| (start, trial))
}

/// Whether no unsolved element touches what a trial has bound.
fn is_whole(problem: &Problem, before: &Progress, trial: &Progress) -> bool {
    let touched = |slot: SlotId| trial.bound.contains(&slot) && !before.bound.contains(&slot);
    problem
        .graph
        .relationships
        .iter()
        .zip(&trial.relationship_open)
        .filter(|(one, open)| **open && !one.needs_both_ends())
        .all(|(one, _)| !(touched(one.from) || touched(one.to) || one.bound && touched(one.slot)))
}

/// What remains unsolved after a component (`own`) was solved with the result `after`.
fn left_open(before: &[bool], own: &[bool], after: &[bool]) -> Vec<bool> {
    (0..before.len())
        .map(|at| before[at] && (!own[at] || after[at]))
        .collect()
}

/// Untested equalities between an expression of the left side and one of the right.
fn join_keys(
    problem: &Problem,
    progress: &Progress,
    left: &FxHashSet<SlotId>,
    right: &FxHashSet<SlotId>,
    context: &FxHashSet<SlotId>,
) -> (Vec<BoundExpr>, Vec<BoundExpr>, Vec<usize>) {
    let (mut left_keys, mut right_keys, mut used) = (Vec::new(), Vec::new(), Vec::new());
    let reads_only = |expr: &BoundExpr, side: &FxHashSet<SlotId>| {
        let (mut all, mut own) = (true, false);
        expr.for_each_slot(&mut |slot| {
            all &= side.contains(&slot);
            own |= !context.contains(&slot);
        });
        all && own
    };
    for (at, predicate) in problem.graph.predicates.iter().enumerate() {
        let BoundExpr::Compare {
            op: Comparison::Equal,
            left: a,
            right: b,
        } = predicate
        else {
            continue;
        };
        if !progress.predicate_open[at] {
            continue;
        }
        let (a, b) = match (
            reads_only(a, left) && reads_only(b, right),
            reads_only(b, left) && reads_only(a, right),
        ) {
            (true, _) => (a, b),
            (_, true) => (b, a),
            _ => continue,
        };
        left_keys.push((**a).clone());
        right_keys.push((**b).clone());
        used.push(at);
    }
    (left_keys, right_keys, used)
}
