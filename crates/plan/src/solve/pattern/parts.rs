//! Parts of a pattern that nothing bound leads to: where to start in them, and how to join them to the rest.

use super::emit::overlapping;
use super::{Move, Problem, Progress};
use crate::expr::{Comparison, Expr, SlotId};
use crate::logical::Length;
use crate::physical::Op;
use crate::solve::{Flow, Planner};
use rustc_hash::FxHashSet;

/// Starts tried one by one; in a larger part only the most selective ones.
const STARTS_TRIED: usize = 12;
/// In a pattern of more relationships than this only the most selective start is tried.
const SMALL_PATTERN: usize = 64;
/// Nodes looked at for a start, in the order written.
const NODES_LOOKED_AT: usize = 256;

impl Planner<'_> {
    /// Starts on a part of the pattern that nothing bound leads to.
    pub(super) fn next_part(
        &mut self,
        problem: &Problem,
        progress: &mut Progress,
        flow: &mut Flow,
        solved: &mut Vec<usize>,
    ) {
        let Some((start, alone)) = self.cheapest_start(problem, progress) else {
            return;
        };
        let single = self.rows(flow) <= 2.0;
        let seeks =
            matches!(&start, Move::Find(_, access) if access.is_seek() && access.rows <= 2.0);
        // A part that hangs together with something open cannot be found apart and joined.
        if single || seeks || !is_whole(problem, progress, &alone) {
            self.advance(problem, progress, &start);
            return self.emit(problem, progress, flow, start, solved);
        }
        self.join_part(problem, progress, flow, solved, start, alone);
    }

    /// The best first move of any open part, with how the part alone would come out.
    pub(super) fn cheapest_start(
        &self,
        problem: &Problem,
        progress: &Progress,
    ) -> Option<(Move, Progress)> {
        let mut candidates: Vec<Move> = Vec::new();
        // A relationship that something else binds brings its ends along.
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
                candidates.push(Move::Find(at, self.access(problem, progress, *node)));
            }
        }
        let scan = |next: &Move| match next {
            Move::Find(_, access) => access.rows,
            _ => f64::MAX,
        };
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
                candidates.push(Move::Scan(at));
            }
        }
        if candidates.is_empty() {
            let node = progress.node_open.iter().position(|open| *open)?;
            candidates.push(Move::Find(
                node,
                self.access(problem, progress, problem.graph.nodes[node]),
            ));
        }
        let mut best: Option<(f64, Move, Progress)> = None;
        for start in candidates {
            let mut trial = Progress {
                rows: 1.0,
                work: 0.0,
                bound: self.context.clone(),
                ..progress.clone()
            };
            self.advance(problem, &mut trial, &start);
            self.thin(problem, &mut trial);
            while let Some(next) = self.next_move(problem, &trial) {
                self.advance(problem, &mut trial, &next);
                self.thin(problem, &mut trial);
            }
            // A start that leads to the whole part goes before one that gets stuck in it.
            let whole = is_whole(problem, progress, &trial);
            let cost = trial.work + trial.rows + if whole { 0.0 } else { 1e12 };
            if best.as_ref().is_none_or(|(known, ..)| cost < *known) {
                best = Some((cost, start, trial));
            }
        }
        best.map(|(_, start, trial)| (start, trial))
    }

    /// Finds a part by itself and joins it: by equal keys where a predicate says so, otherwise as a product.
    pub(super) fn join_part(
        &mut self,
        problem: &Problem,
        progress: &mut Progress,
        flow: &mut Flow,
        solved: &mut Vec<usize>,
        start: Move,
        alone: Progress,
    ) {
        let left_rows = self.rows(flow);
        let leaf = self.argument();
        let mut right = Flow {
            op: leaf,
            bound: self.context.clone(),
            ..flow.clone()
        };
        let mut part = problem.start(&self.context, 1.0);
        // Only what the trial found belongs to this part.
        let mine = |before: &[bool], after: &[bool]| -> Vec<bool> {
            before
                .iter()
                .zip(after)
                .map(|(before, after)| *before && !*after)
                .collect()
        };
        let own_nodes = mine(&progress.node_open, &alone.node_open);
        let own_relationships = mine(&progress.relationship_open, &alone.relationship_open);
        part.node_open.clone_from(&own_nodes);
        part.relationship_open.clone_from(&own_relationships);
        part.predicate_open.clone_from(&progress.predicate_open);
        part.path_open.clone_from(&progress.path_open);
        let mut part_solved = Vec::new();
        let start = match start {
            Move::Find(node, _) => {
                Move::Find(node, self.access(problem, &part, problem.graph.nodes[node]))
            }
            other => other,
        };
        self.advance(problem, &mut part, &start);
        self.emit(problem, &mut part, &mut right, start, &mut part_solved);
        while let Some(next) = self.next_move(problem, &part) {
            self.advance(problem, &mut part, &next);
            self.emit(problem, &mut part, &mut right, next, &mut part_solved);
        }
        progress.node_open = left_open(&progress.node_open, &own_nodes, &part.node_open);
        progress.relationship_open = left_open(
            &progress.relationship_open,
            &own_relationships,
            &part.relationship_open,
        );
        progress.predicate_open.clone_from(&part.predicate_open);
        progress.path_open.clone_from(&part.path_open);
        let (input_keys, right_keys, joined) = if self.arena.plain {
            Default::default()
        } else {
            join_keys(problem, progress, &flow.bound, &part.bound, &self.context)
        };
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
        progress.bound.extend(part.bound.iter().copied());
        let pairs = part_solved
            .iter()
            .flat_map(|at| overlapping(problem, *at, solved).map(|other| (*at, other)))
            .collect();
        self.keep_apart(problem, flow, pairs);
        solved.extend(part_solved);
        self.settle(problem, progress, flow);
    }
}

/// Whether nothing open touches what a trial has bound.
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

/// What is open still, after a part of it (`own`) was worked on and came out as `after`.
fn left_open(before: &[bool], own: &[bool], after: &[bool]) -> Vec<bool> {
    (0..before.len())
        .map(|at| before[at] && (!own[at] || after[at]))
        .collect()
}

/// Open equalities between something of the left side and something of the right.
fn join_keys(
    problem: &Problem,
    progress: &Progress,
    left: &FxHashSet<SlotId>,
    right: &FxHashSet<SlotId>,
    context: &FxHashSet<SlotId>,
) -> (Vec<Expr>, Vec<Expr>, Vec<usize>) {
    let (mut left_keys, mut right_keys, mut used) = (Vec::new(), Vec::new(), Vec::new());
    let reads_only = |expr: &Expr, side: &FxHashSet<SlotId>| {
        let (mut all, mut own) = (true, false);
        expr.for_each_slot(&mut |slot| {
            all &= side.contains(&slot);
            own |= !context.contains(&slot);
        });
        all && own
    };
    for (at, predicate) in problem.graph.predicates.iter().enumerate() {
        let Expr::Compare {
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
