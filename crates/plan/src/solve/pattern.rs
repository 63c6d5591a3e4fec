//! The order in which a pattern is found.
//!
//! A pattern is solved by [`Move`]s: find a node, follow a relationship, close a triangle. From the slots bound so far
//! the cheapest move is taken until nothing is left; for a part of the pattern that nothing leads to, every node in it is
//! tried as the start and the cheapest whole is taken. The moves possible in a state and their costs are all that a
//! better search (dynamic programming over connected subsets) would need.

use rustc_hash::{FxHashMap, FxHashSet};

use super::cost::cheapest_first;
use super::seek::{Access, Facts, best_access};
use super::{Flow, Planner};
use crate::expr::{Comparison, Expr, LabelRef, LocalId, QuantifierKind, SlotId, TypeRef};
use crate::logical::{Length, PatternRelationship, QueryGraph};
use crate::physical::{
    Direction, Expand, ExpandInto, Op, RelationshipEnds, RelationshipScan, ShortestPath, VarExpand,
};

/// Starts tried one by one; in a larger part only the most selective ones.
const STARTS_TRIED: usize = 12;
/// In a pattern of more relationships than this only the most selective start is tried.
const SMALL_PATTERN: usize = 64;
/// Nodes looked at for a start, in the order written.
const NODES_LOOKED_AT: usize = 256;

/// One step towards the whole pattern.
#[derive(Clone, Debug)]
enum Move {
    /// Find this node (by position in the graph).
    Find(usize, Access),
    /// Find all relationships of a pattern relationship, with both their ends.
    Scan(usize),
    /// Follow a relationship from one end; the flag says whether from `from`.
    Follow(usize, bool),
    /// Both ends are bound.
    Close(usize),
    /// The relationship itself is bound.
    Check(usize),
}

/// A pattern partly solved. Cheap to clone, for trying.
#[derive(Clone)]
struct Progress {
    bound: FxHashSet<SlotId>,
    /// By position in the graph.
    node_open: Vec<bool>,
    relationship_open: Vec<bool>,
    predicate_open: Vec<bool>,
    path_open: Vec<bool>,
    rows: f64,
    work: f64,
}

/// What a pattern says, prepared for the search.
struct Problem {
    graph: QueryGraph,
    /// The slots that each predicate reads.
    predicate_slots: Vec<Vec<SlotId>>,
    /// The predicates that read each slot.
    about: FxHashMap<SlotId, Vec<usize>>,
    /// The labels that each node must have.
    labels: FxHashMap<SlotId, Vec<LabelRef>>,
    path_slots: Vec<Vec<SlotId>>,
    /// Where each node is in the graph.
    positions: FxHashMap<SlotId, usize>,
    /// Slots that a shortest path's conditions read besides its ends.
    condition_slots: Vec<Vec<SlotId>>,
}

impl Problem {
    fn new(graph: QueryGraph) -> Self {
        let slots_of = |expr: &Expr| {
            let mut slots = Vec::new();
            expr.for_each_slot(&mut |slot| slots.push(slot));
            slots
        };
        let predicate_slots: Vec<Vec<SlotId>> = graph.predicates.iter().map(slots_of).collect();
        let mut about: FxHashMap<SlotId, Vec<usize>> = FxHashMap::default();
        for (at, slots) in predicate_slots.iter().enumerate() {
            for slot in slots {
                let known = about.entry(*slot).or_default();
                if known.last() != Some(&at) {
                    known.push(at);
                }
            }
        }
        let mut labels: FxHashMap<SlotId, Vec<LabelRef>> = FxHashMap::default();
        for predicate in &graph.predicates {
            if let Expr::HasLabels {
                entity,
                labels: all,
            } = predicate
                && let Expr::Slot(slot) = **entity
            {
                labels.entry(slot).or_default().extend(all);
            }
        }
        let path_slots = graph.paths.iter().map(|(_, path)| slots_of(path)).collect();
        let condition_slots = graph
            .relationships
            .iter()
            .map(|relationship| {
                let mut slots = Vec::new();
                if let Some((_, condition)) = &relationship.step_predicate {
                    slots.extend(slots_of(condition));
                }
                if let Length::Shortest {
                    path,
                    predicate: Some(predicate),
                    ..
                } = &relationship.length
                {
                    slots.extend(slots_of(predicate));
                    slots.retain(|slot| *slot != relationship.slot && Some(*slot) != *path);
                }
                slots
            })
            .collect();
        let positions = graph
            .nodes
            .iter()
            .enumerate()
            .map(|(at, node)| (*node, at))
            .collect();
        Self {
            positions,
            graph,
            predicate_slots,
            about,
            labels,
            path_slots,
            condition_slots,
        }
    }

    fn about(&self, slot: SlotId) -> &[usize] {
        self.about.get(&slot).map_or(&[], Vec::as_slice)
    }

    fn labels(&self, node: SlotId) -> &[LabelRef] {
        self.labels.get(&node).map_or(&[], Vec::as_slice)
    }

    fn start(&self, bound: &FxHashSet<SlotId>, rows: f64) -> Progress {
        Progress {
            bound: bound.clone(),
            node_open: self
                .graph
                .nodes
                .iter()
                .map(|node| !bound.contains(node))
                .collect(),
            relationship_open: vec![true; self.graph.relationships.len()],
            predicate_open: vec![true; self.graph.predicates.len()],
            path_open: vec![true; self.graph.paths.len()],
            rows,
            work: 0.0,
        }
    }
}

impl Planner<'_> {
    /// Solves a pattern on top of `flow`.
    pub(super) fn pattern(&mut self, flow: &mut Flow, graph: QueryGraph) {
        let problem = Problem::new(graph);
        let mut progress = problem.start(&flow.bound, self.rows(flow));
        let mut solved: Vec<usize> = Vec::new();
        self.settle(&problem, &mut progress, flow);
        loop {
            while let Some(next) = self.next_move(&problem, &progress) {
                self.advance(&problem, &mut progress, &next);
                self.emit(&problem, &mut progress, flow, next, &mut solved);
            }
            if !progress.node_open.contains(&true) {
                break;
            }
            self.next_part(&problem, &mut progress, flow, &mut solved);
        }
        debug_assert!(
            !progress.relationship_open.contains(&true),
            "every relationship is solved"
        );
        debug_assert!(
            !progress.predicate_open.contains(&true),
            "every predicate is tested"
        );
    }

    /// The cheapest move from what is bound; none if nothing open touches it.
    fn next_move(&self, problem: &Problem, progress: &Progress) -> Option<Move> {
        let mut best: Option<(f64, Move)> = None;
        let mut consider = |cost: f64, next: Move| {
            if best.as_ref().is_none_or(|(known, _)| cost < *known) {
                best = Some((cost, next));
            }
        };
        for (at, relationship) in problem.graph.relationships.iter().enumerate() {
            if !progress.relationship_open[at] {
                continue;
            }
            let ready = problem.condition_slots[at]
                .iter()
                .all(|slot| progress.bound.contains(slot));
            let from = progress.bound.contains(&relationship.from);
            let to = progress.bound.contains(&relationship.to);
            // An end that another part has found already: this relationship waits until the parts are joined.
            if self.is_elsewhere(problem, progress, relationship.from)
                || self.is_elsewhere(problem, progress, relationship.to)
            {
                continue;
            }
            match (&relationship.length, relationship.bound, from, to) {
                (_, true, ..) => {
                    if progress.bound.contains(&relationship.slot) {
                        consider(progress.rows * 0.5, Move::Check(at));
                    }
                }
                (Length::Shortest { .. }, _, true, true) if ready => {
                    consider(progress.rows * 3.0, Move::Close(at))
                }
                (Length::Shortest { .. }, ..) => {}
                _ if !ready && (from || to) => {}
                (_, _, true, true) => {
                    consider(
                        progress.rows * self.closing_rows(problem, relationship),
                        Move::Close(at),
                    );
                }
                (_, _, true, false) | (_, _, false, true) => {
                    let (near, far) = if from {
                        (relationship.from, relationship.to)
                    } else {
                        (relationship.to, relationship.from)
                    };
                    let fan_out = self.fan_out(problem, relationship, near);
                    let kept = self.kept(problem, progress, far, relationship.slot);
                    consider(
                        progress.rows * (1.0 + fan_out * (0.5 + kept)),
                        Move::Follow(at, from),
                    );
                    // Where the far end is one record away, finding it beats walking through a crowd.
                    if let Some(node) = problem.graph.nodes.iter().position(|slot| *slot == far) {
                        let access = self.access(problem, progress, far);
                        if access.is_seek() && access.rows <= 2.0 && fan_out > 4.0 {
                            consider(
                                progress.rows * (1.0 + access.rows),
                                Move::Find(node, access),
                            );
                        }
                    }
                }
                (_, _, false, false) => {}
            }
        }
        if best.is_none() {
            best = self.stuck_move(problem, progress).map(|next| (0.0, next));
        }
        best.map(|(_, next)| next)
    }

    /// Whether a node of the pattern is found, but not in the part that is being solved.
    fn is_elsewhere(&self, problem: &Problem, progress: &Progress, node: SlotId) -> bool {
        let position = problem.positions.get(&node);
        position.is_some_and(|at| !progress.node_open[*at]) && !progress.bound.contains(&node)
    }

    /// Moves whose conditions can never be met first: a walk whose step condition reads something found later in the
    /// pattern is followed once all else is found.
    fn stuck_move(&self, problem: &Problem, progress: &Progress) -> Option<Move> {
        if progress.node_open.iter().filter(|open| **open).count() > 0 {
            return None;
        }
        problem
            .graph
            .relationships
            .iter()
            .enumerate()
            .find_map(|(at, one)| {
                // In a part that is found by itself, an end may belong to another part: then it waits for the join.
                let both = progress.bound.contains(&one.from) && progress.bound.contains(&one.to);
                (progress.relationship_open[at] && both).then_some(Move::Close(at))
            })
    }

    fn access(&self, problem: &Problem, progress: &Progress, node: SlotId) -> Access {
        let facts = Facts {
            predicates: &problem.graph.predicates,
            open: &progress.predicate_open,
            about: problem.about(node),
            labels: problem.labels(node),
        };
        best_access(&self.costs, self.arena, &facts, node, &progress.bound)
    }

    fn fan_out(&self, problem: &Problem, relationship: &PatternRelationship, near: SlotId) -> f64 {
        self.costs
            .fan_out(relationship, problem.labels(near), self.arena)
    }

    fn closing_rows(&self, problem: &Problem, relationship: &PatternRelationship) -> f64 {
        let fan_out = self.fan_out(problem, relationship, relationship.from);
        (fan_out / self.costs.nodes(None, self.arena)).min(1.0)
    }

    /// The share of rows that the predicates on a node and relationship just bound keep.
    fn kept(
        &self,
        problem: &Problem,
        progress: &Progress,
        node: SlotId,
        relationship: SlotId,
    ) -> f64 {
        let mut kept = 1.0;
        for at in problem
            .about(node)
            .iter()
            .chain(problem.about(relationship))
        {
            let testable = problem.predicate_slots[*at].iter().all(|slot| {
                *slot == node || *slot == relationship || progress.bound.contains(slot)
            });
            if progress.predicate_open[*at] && testable {
                kept *= self
                    .costs
                    .selectivity(&problem.graph.predicates[*at], self.arena);
            }
        }
        kept
    }

    /// Takes a move in the search: what becomes bound, how many rows there are.
    fn advance(&self, problem: &Problem, progress: &mut Progress, next: &Move) {
        let rows = progress.rows;
        let (found, covers): (f64, &[usize]) = match next {
            Move::Find(node, access) => {
                progress.node_open[*node] = false;
                progress.bound.insert(problem.graph.nodes[*node]);
                (rows * access.rows, &access.covers)
            }
            Move::Scan(at) => {
                let relationship = &problem.graph.relationships[*at];
                let each_way = self.costs.relationships(&relationship.types, self.arena);
                let ways = if relationship.direction == Direction::Both {
                    2.0
                } else {
                    1.0
                };
                self.bind_relationship(problem, progress, *at);
                (rows * each_way * ways, &[])
            }
            Move::Follow(at, from) => {
                let relationship = &problem.graph.relationships[*at];
                let near = if *from {
                    relationship.from
                } else {
                    relationship.to
                };
                let fan_out = self.fan_out(problem, relationship, near);
                self.bind_relationship(problem, progress, *at);
                (rows * fan_out, &[])
            }
            Move::Close(at) => {
                let relationship = &problem.graph.relationships[*at];
                let share = match relationship.length {
                    Length::Shortest { .. } => 1.0,
                    _ => self.closing_rows(problem, relationship),
                };
                self.bind_relationship(problem, progress, *at);
                (rows * share, &[])
            }
            Move::Check(at) => {
                self.bind_relationship(problem, progress, *at);
                (rows, &[])
            }
        };
        progress.work += rows + found;
        progress.rows = found;
        for at in covers {
            progress.predicate_open[*at] = false;
        }
    }

    fn bind_relationship(&self, problem: &Problem, progress: &mut Progress, at: usize) {
        let relationship = &problem.graph.relationships[at];
        progress.relationship_open[at] = false;
        progress
            .bound
            .extend([relationship.slot, relationship.from, relationship.to]);
        if let Length::Shortest {
            path: Some(path), ..
        } = relationship.length
        {
            progress.bound.insert(path);
        }
        for (node, open) in problem.graph.nodes.iter().zip(&mut progress.node_open) {
            if *node == relationship.from || *node == relationship.to {
                *open = false;
            }
        }
    }

    /// Marks the predicates that can be tested now as tested, and returns them; paths whose parts are bound likewise.
    fn testable(&self, problem: &Problem, progress: &mut Progress) -> (Vec<usize>, Vec<usize>) {
        let mut paths = Vec::new();
        for (at, (slot, _)) in problem.graph.paths.iter().enumerate() {
            let ready = problem.path_slots[at]
                .iter()
                .all(|slot| progress.bound.contains(slot));
            if progress.path_open[at] && ready {
                progress.path_open[at] = false;
                progress.bound.insert(*slot);
                paths.push(at);
            }
        }
        let mut predicates = Vec::new();
        for (at, slots) in problem.predicate_slots.iter().enumerate() {
            if progress.predicate_open[at] && slots.iter().all(|slot| progress.bound.contains(slot))
            {
                progress.predicate_open[at] = false;
                predicates.push(at);
            }
        }
        (paths, predicates)
    }

    /// In the search: thins the rows by what can be tested.
    fn thin(&self, problem: &Problem, progress: &mut Progress) {
        let (_, predicates) = self.testable(problem, progress);
        for at in predicates {
            progress.work += progress.rows * 0.5;
            progress.rows *= self
                .costs
                .selectivity(&problem.graph.predicates[at], self.arena);
        }
    }

    /// Builds paths and filters for what can be tested now.
    fn settle(&mut self, problem: &Problem, progress: &mut Progress, flow: &mut Flow) {
        let (paths, predicates) = self.testable(problem, progress);
        if !paths.is_empty() {
            let rows = self.rows(flow);
            let columns: Vec<_> = paths
                .iter()
                .map(|at| problem.graph.paths[*at].clone())
                .collect();
            self.push(flow, |input| Op::Project { input, columns }, rows);
        }
        let predicates = predicates
            .iter()
            .map(|at| problem.graph.predicates[*at].clone())
            .collect();
        self.filter(flow, cheapest_first(predicates));
        flow.bound.clone_from(&progress.bound);
        progress.rows = self.rows(flow);
    }

    /// Pushes the operator of a move that [`advance`](Self::advance) has taken.
    fn emit(
        &mut self,
        problem: &Problem,
        progress: &mut Progress,
        flow: &mut Flow,
        next: Move,
        solved: &mut Vec<usize>,
    ) {
        let rows = progress.rows;
        let mut apart: Vec<usize> = Vec::new();
        let relationship = match &next {
            Move::Scan(at) | Move::Follow(at, _) | Move::Close(at) | Move::Check(at) => Some(*at),
            Move::Find(..) => None,
        };
        match next {
            Move::Find(node, access) => {
                let node = problem.graph.nodes[node];
                self.push(flow, |input| access.operator(input, node), rows);
            }
            Move::Scan(at) => {
                let one = &problem.graph.relationships[at];
                let scan = |input| {
                    Op::RelationshipScan(RelationshipScan {
                        input,
                        relationship: one.slot,
                        from: one.from,
                        to: one.to,
                        direction: one.direction,
                        types: one.types.clone(),
                    })
                };
                self.push(flow, scan, rows);
                apart.push(at);
            }
            Move::Follow(at, from) => self.emit_follow(problem, flow, at, from, solved, rows),
            Move::Close(at) => self.emit_close(problem, flow, at, solved, rows),
            Move::Check(at) => self.emit_check(problem, flow, at, solved, rows),
        }
        if let Some(at) = relationship {
            let apart = apart
                .iter()
                .flat_map(|at| overlapping(problem, *at, solved))
                .map(|other| (at, other))
                .collect();
            self.keep_apart(problem, flow, apart);
            solved.push(at);
        }
        self.settle(problem, progress, flow);
    }

    fn emit_follow(
        &mut self,
        problem: &Problem,
        flow: &mut Flow,
        at: usize,
        forward: bool,
        solved: &[usize],
        rows: f64,
    ) {
        let one = &problem.graph.relationships[at];
        let (from, to) = if forward {
            (one.from, one.to)
        } else {
            (one.to, one.from)
        };
        let direction = if forward {
            one.direction
        } else {
            one.direction.reversed()
        };
        let distinct_from = slots(problem, overlapping(problem, at, solved));
        let types = one.types.clone();
        // Both ends may be one node: `(a)-->(a)`.
        if from == to {
            return self.emit_close(problem, flow, at, solved, rows);
        }
        match &one.length {
            Length::One => self.push(
                flow,
                |input| {
                    Op::Expand(Expand {
                        input,
                        from,
                        direction,
                        types,
                        relationship: Some(one.slot),
                        to,
                        distinct_from,
                        group: false,
                    })
                },
                rows,
            ),
            Length::Walk { .. } => self.emit_walk(
                problem,
                flow,
                at,
                (from, to),
                direction,
                false,
                solved,
                rows,
            ),
            Length::Shortest { .. } => {
                unreachable!("a shortest path is never followed from one end")
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "one operator's worth of facts")]
    fn emit_walk(
        &mut self,
        problem: &Problem,
        flow: &mut Flow,
        at: usize,
        (from, to): (SlotId, SlotId),
        direction: Direction,
        into: bool,
        solved: &[usize],
        rows: f64,
    ) {
        let one = &problem.graph.relationships[at];
        let Length::Walk { min, max } = one.length else {
            return;
        };
        let walk = |input| {
            Op::VarExpand(VarExpand {
                input,
                from,
                to,
                into,
                direction,
                types: one.types.clone(),
                min,
                max,
                relationships: Some(one.slot),
                reversed: from == one.to && one.from != one.to,
                distinct_from: slots(problem, overlapping(problem, at, solved)),
                step_predicate: one.step_predicate.clone(),
                distinct_ends: false,
            })
        };
        self.push(flow, walk, rows);
    }

    fn emit_close(
        &mut self,
        problem: &Problem,
        flow: &mut Flow,
        at: usize,
        solved: &[usize],
        rows: f64,
    ) {
        let one = &problem.graph.relationships[at];
        let distinct_from = slots(problem, overlapping(problem, at, solved));
        let (from, to, direction, types) = (one.from, one.to, one.direction, one.types.clone());
        match &one.length {
            Length::One => {
                let relationship = Some(one.slot);
                self.push(
                    flow,
                    |input| {
                        Op::ExpandInto(ExpandInto {
                            input,
                            from,
                            to,
                            direction,
                            types,
                            relationship,
                            distinct_from,
                        })
                    },
                    rows,
                );
            }
            Length::Walk { .. } => {
                self.emit_walk(problem, flow, at, (from, to), direction, true, solved, rows)
            }
            Length::Shortest {
                min,
                max,
                all,
                path,
                predicate,
            } => {
                let shortest = |input| {
                    Op::ShortestPath(ShortestPath {
                        input,
                        from,
                        to,
                        direction,
                        types,
                        min: *min,
                        max: *max,
                        all: *all,
                        path: *path,
                        relationships: Some(one.slot),
                        step_predicate: one.step_predicate.clone(),
                        predicate: predicate.clone(),
                    })
                };
                self.push(flow, shortest, rows);
            }
        }
    }

    fn emit_check(
        &mut self,
        problem: &Problem,
        flow: &mut Flow,
        at: usize,
        solved: &[usize],
        rows: f64,
    ) {
        let one = &problem.graph.relationships[at];
        let ends = |input| {
            Op::RelationshipEnds(RelationshipEnds {
                input,
                relationship: one.slot,
                from: one.from,
                from_bound: flow.bound.contains(&one.from),
                to: one.to,
                to_bound: flow.bound.contains(&one.to),
                direction: one.direction,
                types: one.types.clone(),
                distinct_from: slots(problem, overlapping(problem, at, solved)),
            })
        };
        flow.op = self.arena.push(ends(flow.op), rows);
    }

    /// Tests that relationships found apart are different ones.
    fn keep_apart(&mut self, problem: &Problem, flow: &mut Flow, pairs: Vec<(usize, usize)>) {
        let tests = pairs
            .into_iter()
            .map(|(a, b)| {
                let local = self.arena.local();
                different(
                    &problem.graph.relationships[a],
                    &problem.graph.relationships[b],
                    local,
                )
            })
            .collect();
        self.filter(flow, tests);
    }

    /// Starts on a part of the pattern that nothing bound leads to.
    fn next_part(
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
    fn cheapest_start(&self, problem: &Problem, progress: &Progress) -> Option<(Move, Progress)> {
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
    fn join_part(
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
        let (input_keys, right_keys, joined) =
            join_keys(problem, progress, &flow.bound, &part.bound, &self.context);
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
        .filter(|(one, open)| **open && !matches!(one.length, Length::Shortest { .. }))
        .all(|(one, _)| !(touched(one.from) || touched(one.to) || one.bound && touched(one.slot)))
}

/// What is open still, after a part of it (`own`) was worked on and came out as `after`.
fn left_open(before: &[bool], own: &[bool], after: &[bool]) -> Vec<bool> {
    (0..before.len())
        .map(|at| before[at] && (!own[at] || after[at]))
        .collect()
}

/// Relationships solved before that the one at `at` must differ from: of the same clause, and possibly the same.
fn overlapping<'s>(
    problem: &'s Problem,
    at: usize,
    solved: &'s [usize],
) -> impl Iterator<Item = usize> + 's {
    let one = &problem.graph.relationships[at];
    solved.iter().copied().filter(move |other| {
        let other = &problem.graph.relationships[*other];
        let shortest = |one: &PatternRelationship| matches!(one.length, Length::Shortest { .. });
        other.clause == one.clause
            && !shortest(one)
            && !shortest(other)
            && types_overlap(&one.types, &other.types)
    })
}

fn types_overlap(a: &[TypeRef], b: &[TypeRef]) -> bool {
    a.is_empty() || b.is_empty() || a.iter().any(|one| b.contains(one))
}

fn slots(problem: &Problem, relationships: impl Iterator<Item = usize>) -> Vec<SlotId> {
    relationships
        .map(|at| problem.graph.relationships[at].slot)
        .collect()
}

/// The test that two pattern relationships share no relationship.
fn different(a: &PatternRelationship, b: &PatternRelationship, local: LocalId) -> Expr {
    let single = |one: &PatternRelationship| matches!(one.length, Length::One);
    let slot = |one: &PatternRelationship| Box::new(Expr::Slot(one.slot));
    match (single(a), single(b)) {
        (true, true) => Expr::Compare {
            op: Comparison::NotEqual,
            left: slot(a),
            right: slot(b),
        },
        (true, false) => Expr::Not(Box::new(Expr::In {
            item: slot(a),
            list: slot(b),
        })),
        (false, true) => Expr::Not(Box::new(Expr::In {
            item: slot(b),
            list: slot(a),
        })),
        (false, false) => Expr::Quantifier {
            kind: QuantifierKind::None,
            list: slot(a),
            local,
            predicate: Box::new(Expr::In {
                item: Box::new(Expr::Local(local)),
                list: slot(b),
            }),
        },
    }
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
