//! Join ordering: the order in which a pattern is matched.
//!
//! A pattern is solved by [`Move`]s: find a node, follow a relationship, close a triangle. Its connected components of
//! up to ten relationships are each ordered by dynamic programming ([`order`]), which also considers joins of smaller
//! sets, and converted to moves ([`tree`]). Larger ones, and those that cannot be ordered in advance (shortest paths,
//! walks whose conditions read elements found later), are solved greedily: from the bound slots, the cheapest move is
//! taken until nothing is left ([`search`]); for a component that no bound slot leads to, every node in it is tried as
//! the start ([`components`]).

mod components;
mod emit;
mod hints;
mod order;
mod outer_values;
mod search;
mod tree;

use crate::expr::{BoundExpr, LabelRef, SlotId};
use crate::logical::{HintKind, QueryGraph};
use crate::physical::Op;
use crate::solve::failure::slots_of;
use crate::solve::seek::{Access, RelAccess};
use crate::solve::{Flow, Planner, Result};
use outer_values::OuterValues;
use rustc_hash::{FxHashMap, FxHashSet};

/// One step towards the whole pattern.
#[derive(Clone, Debug)]
enum Move {
    /// Find this node (by index in the graph).
    Find(usize, Access),
    /// Find relationships of a pattern relationship, with both their ends, through an index or a scan.
    Scan(usize, RelAccess),
    /// Follow a relationship from one end; from `from` if the flag is set.
    Follow(usize, bool),
    /// Both ends are bound.
    Close(usize),
    /// The relationship itself is bound.
    Check(usize),
}

/// A partly solved pattern. Cheap to clone, for trials.
#[derive(Clone)]
struct Progress {
    bound: FxHashSet<SlotId>,
    /// By index in the graph.
    node_open: Vec<bool>,
    relationship_open: Vec<bool>,
    predicate_open: Vec<bool>,
    path_open: Vec<bool>,
    rows: f64,
    work: f64,
}

/// A pattern, prepared for the search.
struct Problem {
    graph: QueryGraph,
    /// The slots that each predicate reads.
    predicate_slots: Vec<Vec<SlotId>>,
    /// The predicates that read each slot.
    about: FxHashMap<SlotId, Vec<usize>>,
    /// The labels that each node must have.
    labels: FxHashMap<SlotId, Vec<LabelRef>>,
    path_slots: Vec<Vec<SlotId>>,
    /// The index of each node in the graph.
    positions: FxHashMap<SlotId, usize>,
    /// The hints for nodes and relationships.
    hinted: FxHashMap<SlotId, HintKind>,
    /// Slots that a shortest path's conditions read in addition to its ends.
    condition_slots: Vec<Vec<SlotId>>,
    outer_values: OuterValues,
}

impl Problem {
    fn new(graph: QueryGraph, outer_values: OuterValues) -> Self {
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
            if let BoundExpr::HasLabels {
                entity,
                labels: all,
            } = predicate
                && let BoundExpr::Slot(slot) = **entity
            {
                // Only labels that every match must have: those below OR and NOT say nothing about the node.
                labels.entry(slot).or_default().extend(all);
            }
        }
        for all in labels.values_mut() {
            all.sort_unstable();
            all.dedup();
        }
        let path_slots = graph.paths.iter().map(|(_, path)| slots_of(path)).collect();
        let condition_slots = graph
            .relationships
            .iter()
            .map(|relationship| {
                let mut slots = Vec::new();
                relationship.for_each_expr(&mut |condition| slots.extend(slots_of(condition)));
                let own = relationship.inner_slots();
                slots.retain(|slot| *slot != relationship.slot && !own.contains(slot));
                slots
            })
            .collect();
        let positions = graph
            .nodes
            .iter()
            .enumerate()
            .map(|(at, node)| (*node, at))
            .collect();
        let hinted = graph
            .hints
            .iter()
            .filter_map(|hint| match &hint.kind {
                HintKind::NodeIndex { node: slot, .. }
                | HintKind::LabelScan { node: slot, .. }
                | HintKind::RelationshipIndex {
                    relationship: slot, ..
                }
                | HintKind::TypeScan { relationship: slot } => Some((*slot, hint.kind.clone())),
                HintKind::Join(_) => None,
            })
            .collect();
        Self {
            hinted,
            positions,
            graph,
            predicate_slots,
            about,
            labels,
            path_slots,
            condition_slots,
            outer_values,
        }
    }

    fn about(&self, slot: SlotId) -> &[usize] {
        self.about.get(&slot).map_or(&[], Vec::as_slice)
    }

    fn labels(&self, node: SlotId) -> &[LabelRef] {
        self.labels.get(&node).map_or(&[], Vec::as_slice)
    }

    /// Whether a hint says how this node or relationship is found, other than from its neighbours.
    fn is_hinted(&self, slot: SlotId) -> bool {
        !self.hinted.is_empty() && self.hinted.contains_key(&slot)
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
    ///
    /// # Errors
    ///
    /// A hint that the plan does not follow.
    pub(in crate::solve) fn pattern(&mut self, flow: &mut Flow, graph: QueryGraph) -> Result<()> {
        let outer_values = match self.arena.plain {
            true => OuterValues::default(),
            false => OuterValues::of(&graph, &self.context, self.arena),
        };
        let problem = Problem::new(graph, outer_values);
        let first = self.arena.operators.len();
        // Estimates of a property depend on the labels of its node, wherever in the statement it is read.
        for (node, labels) in &problem.labels {
            self.costs.note_labels(*node, labels);
        }
        let mut progress = problem.start(&flow.bound, self.rows(flow));
        // Relationships in the order in which they were solved: each later one must differ from those of its clause.
        let mut solved: Vec<usize> = Vec::new();
        self.emit_testable(&problem, &mut progress, flow);
        // Components that bound slots lead to come first: they start from few rows, and each may bind slots that lead
        // to the next. Only then a component without any connection begins, with a scan or a join.
        loop {
            if !self.arena.plain
                && self.attached_component(&problem, &mut progress, flow, &mut solved)
            {
                continue;
            }
            if let Some(next) = self.next_move(&problem, &progress) {
                self.take(&problem, &mut progress, flow, &mut solved, next);
                continue;
            }
            if !progress.node_open.contains(&true) {
                break;
            }
            self.next_component(&problem, &mut progress, flow, &mut solved);
        }
        debug_assert!(
            !progress.relationship_open.contains(&true),
            "every relationship is solved"
        );
        debug_assert!(
            !progress.predicate_open.contains(&true),
            "every predicate is tested"
        );
        hints::check(&problem.graph.hints, &self.arena.operators[first..])
    }

    /// Emits the paths and filters that can be evaluated now.
    fn emit_testable(&mut self, problem: &Problem, progress: &mut Progress, flow: &mut Flow) {
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
            .map(|at| problem.condition(*at, &progress.bound).clone())
            .collect();
        self.filter(flow, predicates);
        flow.bound.clone_from(&progress.bound);
        progress.rows = self.rows(flow);
    }
}
