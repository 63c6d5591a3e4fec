//! From the order of a part to moves, and in which order whole parts are found.

use super::order::{Base, Found, MOST_EDGES, Order, Part, Way};
use super::parts::Side;
use super::{Move, Problem, Progress};
use crate::expr::SlotId;
use crate::solve::{Flow, Planner};

/// What it costs to put a row beside those of another part, in rows.
const PAIR: f64 = 1.0;
/// What it costs to keep a row of a part found apart.
const KEEP: f64 = 4.0;

impl Planner<'_> {
    /// Finds a part that something bound leads to: the one that makes the fewest rows of each. Whether there was one.
    pub(super) fn attached_part(
        &mut self,
        problem: &Problem,
        progress: &mut Progress,
        flow: &mut Flow,
        solved: &mut Vec<usize>,
    ) -> bool {
        let Some(parts) = self.parts(problem, progress) else {
            return false;
        };
        let base = Base {
            bound: &progress.bound,
            rows: self.rows(flow),
        };
        let mut best: Option<(f64, Order)> = None;
        for part in parts.into_iter().filter(|part| part.attached) {
            let order = self.order(problem, progress, part, &base);
            if !order.cost.is_finite() {
                continue;
            }
            let growth = (order.rows + 0.1 * order.cost) / base.rows.max(1e-9);
            if best.as_ref().is_none_or(|(known, ..)| growth < *known) {
                best = Some((growth, order));
            }
        }
        let Some((growth, order)) = best else {
            return false;
        };
        // A shortest path whose ends are there makes one row of each.
        if growth > 1.0
            && let Some(at) = self.ready_path(problem, progress)
        {
            self.take(problem, progress, flow, solved, Move::Close(at));
            return true;
        }
        self.find_part(problem, &order, progress, flow, solved);
        true
    }

    fn ready_path(&self, problem: &Problem, progress: &Progress) -> Option<usize> {
        let relationships = problem.graph.relationships.iter().enumerate();
        relationships
            .filter(|(at, one)| {
                progress.relationship_open[*at] && !one.bound && one.needs_both_ends()
            })
            .find(|(at, one)| {
                let bound = |slot: &SlotId| progress.bound.contains(slot);
                bound(&one.from) && bound(&one.to) && problem.condition_slots[*at].iter().all(bound)
            })
            .map(|(at, _)| at)
    }

    /// Finds the cheapest part that nothing bound leads to: on top of the rows there are, or apart from them and joined.
    /// Nothing where a part cannot be ordered.
    pub(super) fn next_ordered_part(
        &mut self,
        problem: &Problem,
        progress: &mut Progress,
        flow: &mut Flow,
        solved: &mut Vec<usize>,
    ) -> bool {
        let Some(parts) = self.parts(problem, progress) else {
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
        for part in parts {
            let order = self.order(problem, progress, part.clone(), &here);
            let mut cost = order.cost + order.rows;
            let mut chosen = (order, false);
            if rows > 2.0 && self.is_apart(problem, progress, &part) {
                let apart = self.order(problem, progress, part, &alone);
                let joined =
                    apart.cost + KEEP * apart.rows + PAIR * (rows + chosen.0.rows) + chosen.0.rows;
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
            self.find_part(problem, &order, progress, flow, solved);
            return true;
        }
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
                planner.find_part(problem, &order, own, right, found);
            },
        );
        true
    }

    /// Takes the moves by which a part is found.
    fn find_part(
        &mut self,
        problem: &Problem,
        order: &Order,
        progress: &mut Progress,
        flow: &mut Flow,
        solved: &mut Vec<usize>,
    ) {
        for node in &order.first {
            let access = self.access(problem, progress, problem.graph.nodes[*node]);
            let next = Move::Find(*node, access);
            self.take(problem, progress, flow, solved, next);
        }
        self.find(problem, order, order.whole, (progress, flow, solved));
    }

    /// Whether nothing open but shortest paths leads from a part to what is not of it.
    fn is_apart(&self, problem: &Problem, progress: &Progress, part: &Part) -> bool {
        let own = |slot: SlotId| {
            let node = problem.positions.get(&slot);
            node.is_some_and(|node| part.nodes.contains(node))
        };
        let relationships = problem.graph.relationships.iter().enumerate();
        relationships
            .filter(|(at, one)| {
                progress.relationship_open[*at]
                    && !part.edges.contains(at)
                    && !one.needs_both_ends()
            })
            .all(|(_, one)| !own(one.from) && !own(one.to))
    }

    /// Takes the moves by which a set of a part is found.
    fn find(
        &mut self,
        problem: &Problem,
        order: &Order,
        found: Found,
        (progress, flow, solved): (&mut Progress, &mut Flow, &mut Vec<usize>),
    ) {
        let part = &order.part;
        debug_assert!(part.edges.len() <= MOST_EDGES, "the depth of a recursion");
        let look_up = |planner: &mut Self, node: usize, progress: &mut Progress| {
            let node = part.nodes[node];
            let access = planner.access(problem, progress, problem.graph.nodes[node]);
            Move::Find(node, access)
        };
        match found {
            Found::Nothing => return,
            Found::Node(node) => {
                let next = look_up(self, node, progress);
                self.take(problem, progress, flow, solved, next);
            }
            Found::Edges(set) => match order.way(set) {
                None => return,
                Some(Way::Scan) => {
                    let edge = part.edges[set.trailing_zeros() as usize];
                    self.take(problem, progress, flow, solved, Move::Scan(edge));
                }
                Some(Way::Follow(before, edge, forward)) => {
                    self.find(problem, order, before, (progress, flow, solved));
                    let next = Move::Follow(part.edges[edge], forward);
                    self.take(problem, progress, flow, solved, next);
                }
                Some(Way::Close(before, edge)) => {
                    self.find(problem, order, before, (progress, flow, solved));
                    let next = Move::Close(part.edges[edge]);
                    self.take(problem, progress, flow, solved, next);
                }
                Some(Way::FindAndClose(before, edge, far)) => {
                    self.find(problem, order, before, (progress, flow, solved));
                    let next = look_up(self, far, progress);
                    self.take(problem, progress, flow, solved, next);
                    let next = Move::Close(part.edges[edge]);
                    self.take(problem, progress, flow, solved, next);
                }
                Some(Way::Join(left, right)) => {
                    let (left_nodes, right_nodes) = (
                        order.set_nodes[left as usize],
                        order.set_nodes[right as usize],
                    );
                    let shared = (0..part.nodes.len())
                        .filter(|node| left_nodes & right_nodes & (1 << node) != 0)
                        .map(|node| problem.graph.nodes[part.nodes[node]])
                        .collect();
                    let right = Found::Edges(right);
                    let left = Found::Edges(left);
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
        // What the order says of the whole set is better than what its last step says.
        let rows = order.rows_of(found);
        self.arena.operators[flow.op.index()].rows = rows;
        progress.rows = rows;
    }
}

/// What a set of a part consists of.
fn side(problem: &Problem, order: &Order, found: Found, shared: Vec<SlotId>) -> Side {
    let part = &order.part;
    let (nodes, edges) = match found {
        Found::Nothing => (0, 0),
        Found::Node(node) => (1 << node, 0),
        Found::Edges(set) => (order.set_nodes[set as usize], set),
    };
    let mut side = Side {
        nodes: vec![false; problem.graph.nodes.len()],
        relationships: vec![false; problem.graph.relationships.len()],
        shared,
    };
    for (at, node) in part.nodes.iter().enumerate() {
        side.nodes[*node] = nodes & (1u32 << at) != 0;
    }
    for (at, edge) in part.edges.iter().enumerate() {
        side.relationships[*edge] = edges & (1u32 << at) != 0;
    }
    side
}
