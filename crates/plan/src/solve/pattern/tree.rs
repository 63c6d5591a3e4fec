//! Converts the order of a component to moves, and orders whole components.

use super::components::JoinSide;
use super::order::{Base, Component, MAX_ORDERED_EDGES, Order, PartialMatch, SetPlan};
use super::{Move, Problem, Progress};
use crate::expr::SlotId;
use crate::solve::{Flow, Planner};

/// Cost of combining a row with those of another component, in rows.
const PAIR_COST: f64 = 1.0;
/// Cost of buffering a row of a component that is solved separately.
const BUFFER_COST: f64 = 4.0;

impl Planner<'_> {
    /// Solves a component that a bound slot leads to: the one with the fewest rows per input row. Returns whether there
    /// was one.
    pub(super) fn attached_component(
        &mut self,
        problem: &Problem,
        progress: &mut Progress,
        flow: &mut Flow,
        solved: &mut Vec<usize>,
    ) -> bool {
        let Some(components) = self.components(problem, progress) else {
            return false;
        };
        let base = Base {
            bound: &progress.bound,
            rows: self.rows(flow),
        };
        let mut best: Option<(f64, Order)> = None;
        for component in components
            .into_iter()
            .filter(|component| component.attached)
        {
            let order = self.order(problem, progress, component, &base);
            if !order.cost.is_finite() {
                continue;
            }
            // Greedy: all later components run on top of these rows, so the fewest rows go first; a part of the cost
            // decides between equally selective ones.
            let growth = (order.rows + 0.1 * order.cost) / base.rows.max(1e-9);
            if best.as_ref().is_none_or(|(known, ..)| growth < *known) {
                best = Some((growth, order));
            }
        }
        let Some((growth, order)) = best else {
            return false;
        };
        // A shortest path with both ends bound gives one row per input row.
        if growth > 1.0
            && let Some(at) = ready_path(problem, progress)
        {
            self.take(problem, progress, flow, solved, Move::Close(at));
            return true;
        }
        find_part(self, problem, &order, progress, flow, solved);
        true
    }

    /// Solves the cheapest component that no bound slot leads to: on top of the current rows, or separately with a
    /// join. None if a component cannot be ordered.
    pub(super) fn next_ordered_part(
        &mut self,
        problem: &Problem,
        progress: &mut Progress,
        flow: &mut Flow,
        solved: &mut Vec<usize>,
    ) -> bool {
        let Some(components) = self.components(problem, progress) else {
            return false;
        };
        let rows = self.rows(flow);
        let alone = Base {
            bound: &self.context,
            rows: 1.0,
        };
        let here = Base {
            bound: &progress.bound,
            rows,
        };
        let mut best: Option<(f64, Order, bool)> = None;
        for component in components {
            let order = self.order(problem, progress, component.clone(), &here);
            let mut cost = order.cost + order.rows;
            let mut chosen = (order, false);
            // On top of one or two rows, solving the component again for each of them is cheaper than a join.
            if rows > 2.0 && is_apart(problem, progress, &component) {
                let apart = self.order(problem, progress, component, &alone);
                let joined = apart.cost
                    + BUFFER_COST * apart.rows
                    + PAIR_COST * (rows + chosen.0.rows)
                    + chosen.0.rows;
                if joined < cost || !chosen.0.cost.is_finite() {
                    cost = joined;
                    chosen = (apart, true);
                }
            }
            if chosen.0.cost.is_finite() && best.as_ref().is_none_or(|(known, ..)| cost < *known) {
                best = Some((cost, chosen.0, chosen.1));
            }
        }
        let Some((_, order, apart)) = best else {
            return false;
        };
        if !apart {
            find_part(self, problem, &order, progress, flow, solved);
            return true;
        }
        // Solved once, apart from the current rows, and joined with them afterwards.
        let mut side = side(problem, &order, order.whole, Vec::new());
        for node in &order.first {
            side.nodes[*node] = true;
        }
        self.join_side(
            problem,
            progress,
            flow,
            solved,
            side,
            &mut |planner, own, right, found| {
                find_part(planner, problem, &order, own, right, found);
            },
        );
        true
    }

    /// Applies the moves that find a set of a component.
    fn find(
        &mut self,
        problem: &Problem,
        order: &Order,
        found: PartialMatch,
        (progress, flow, solved): (&mut Progress, &mut Flow, &mut Vec<usize>),
    ) {
        let component = &order.component;
        debug_assert!(
            component.edges.len() <= MAX_ORDERED_EDGES,
            "the depth of a recursion"
        );
        let look_up = |planner: &mut Self, node: usize, progress: &mut Progress| {
            let node = component.nodes[node];
            let access = planner.access(problem, progress, problem.graph.nodes[node]);
            Move::Find(node, access)
        };
        match found {
            PartialMatch::Nothing => return,
            PartialMatch::Node(node) => {
                let next = look_up(self, node, progress);
                self.take(problem, progress, flow, solved, next);
            }
            PartialMatch::Edges(set) => match order.set_plan(set) {
                None => return,
                Some(SetPlan::Scan) => {
                    let edge = component.edges[set.trailing_zeros() as usize];
                    let access = self.rel_access(problem, progress, edge, &progress.bound);
                    let next = Move::Scan(edge, access);
                    self.take(problem, progress, flow, solved, next);
                }
                Some(SetPlan::Follow(before, edge, forward)) => {
                    self.find(problem, order, before, (progress, flow, solved));
                    let next = Move::Follow(component.edges[edge], forward);
                    self.take(problem, progress, flow, solved, next);
                }
                Some(SetPlan::Close(before, edge)) => {
                    self.find(problem, order, before, (progress, flow, solved));
                    let next = Move::Close(component.edges[edge]);
                    self.take(problem, progress, flow, solved, next);
                }
                Some(SetPlan::FindAndClose(before, edge, far)) => {
                    self.find(problem, order, before, (progress, flow, solved));
                    let next = look_up(self, far, progress);
                    self.take(problem, progress, flow, solved, next);
                    let next = Move::Close(component.edges[edge]);
                    self.take(problem, progress, flow, solved, next);
                }
                Some(SetPlan::Join(left, right)) => {
                    let (left_nodes, right_nodes) = (
                        order.set_nodes[left as usize],
                        order.set_nodes[right as usize],
                    );
                    // Both sides find the shared nodes by themselves; the join compares them.
                    let shared = (0..component.nodes.len())
                        .filter(|node| left_nodes & right_nodes & (1 << node) != 0)
                        .map(|node| problem.graph.nodes[component.nodes[node]])
                        .collect();
                    let right = PartialMatch::Edges(right);
                    let left = PartialMatch::Edges(left);
                    self.find(problem, order, left, (progress, flow, solved));
                    let side = side(problem, order, right, shared);
                    self.join_side(
                        problem,
                        progress,
                        flow,
                        solved,
                        side,
                        &mut |planner, own, op, found| {
                            planner.find(problem, order, right, (own, op, found));
                        },
                    );
                }
            },
        }
        // The cardinality of the whole set is a better estimate than that of its last step.
        let rows = order.rows_of(found);
        self.arena.operators[flow.op.index()].rows = rows;
        progress.rows = rows;
    }
}

fn ready_path(problem: &Problem, progress: &Progress) -> Option<usize> {
    let relationships = problem.graph.relationships.iter().enumerate();
    relationships
        .filter(|(at, one)| progress.relationship_open[*at] && !one.bound && one.needs_both_ends())
        .find(|(at, one)| {
            let bound = |slot: &SlotId| progress.bound.contains(slot);
            bound(&one.from) && bound(&one.to) && problem.condition_slots[*at].iter().all(bound)
        })
        .map(|(at, _)| at)
}

/// Applies the moves that solve a component.
fn find_part(
    planner: &mut Planner<'_>,
    problem: &Problem,
    order: &Order,
    progress: &mut Progress,
    flow: &mut Flow,
    solved: &mut Vec<usize>,
) {
    for node in &order.first {
        let access = planner.access(problem, progress, problem.graph.nodes[*node]);
        let next = Move::Find(*node, access);
        planner.take(problem, progress, flow, solved, next);
    }
    planner.find(problem, order, order.whole, (progress, flow, solved));
}

/// Whether only shortest paths connect a component with the rest of what is unsolved.
fn is_apart(problem: &Problem, progress: &Progress, component: &Component) -> bool {
    let own = |slot: SlotId| {
        let node = problem.positions.get(&slot);
        node.is_some_and(|node| component.nodes.contains(node))
    };
    let relationships = problem.graph.relationships.iter().enumerate();
    relationships
        .filter(|(at, one)| {
            progress.relationship_open[*at]
                && !component.edges.contains(at)
                && !one.needs_both_ends()
        })
        .all(|(_, one)| !own(one.from) && !own(one.to))
}

/// The elements of a set of a component.
fn side(problem: &Problem, order: &Order, found: PartialMatch, shared: Vec<SlotId>) -> JoinSide {
    let component = &order.component;
    let (nodes, edges) = match found {
        PartialMatch::Nothing => (0, 0),
        PartialMatch::Node(node) => (1 << node, 0),
        PartialMatch::Edges(set) => (order.set_nodes[set as usize], set),
    };
    let mut side = JoinSide {
        nodes: vec![false; problem.graph.nodes.len()],
        relationships: vec![false; problem.graph.relationships.len()],
        shared,
    };
    for (at, node) in component.nodes.iter().enumerate() {
        side.nodes[*node] = nodes & (1u32 << at) != 0;
    }
    for (at, edge) in component.edges.iter().enumerate() {
        side.relationships[*edge] = edges & (1u32 << at) != 0;
    }
    side
}
