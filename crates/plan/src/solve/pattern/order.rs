//! The cheapest order of a connected part of a pattern, by dynamic programming over its sets of relationships.
//!
//! A *part* is up to [`MOST_EDGES`] relationships that hang together through nodes not yet bound. For each set of them
//! that hangs together the cheapest way to find it is kept, built from smaller sets: follow one more relationship, close
//! one between nodes already found (after finding its far end by key, where that is cheap), or join two sets by the nodes
//! they share. How many rows a set has does not depend on the way: it is the product of its nodes (each thinned by what
//! is said about it alone), of the share of pairs that each relationship connects, and of the predicates over several.
//!
//! The work is in sets: 2^edges of them, 3^edges pairs to join, a few nanoseconds each.

use rustc_hash::FxHashSet;

use super::{Problem, Progress};
use crate::expr::{Expr, LabelRef, SlotId};
use crate::logical::Length;
use crate::physical::Direction;
use crate::solve::Planner;
use crate::solve::seek::{Access, AccessKind};

/// Relationships of a part that are ordered exactly; larger parts are found step by step.
pub(super) const MOST_EDGES: usize = 10;
/// Nodes and relationships of a pattern that is taken apart; larger ones are found step by step.
const MOST_LOOKED_AT: usize = 200;
/// What a scan costs besides its rows: see [`super::search`].
const SCAN: f64 = super::search::SCAN;
/// What it costs to test one predicate on one row, in rows.
const TEST: f64 = 0.5;
/// What it costs to look whether two nodes are connected, in rows.
const LOOK: f64 = 1.5;
/// What it costs to put a row into a hash table, and to look one up in it.
const BUILD: f64 = 4.0;
const PROBE: f64 = 2.0;
/// Joins keep one side in memory: more rows than this are not worth the risk.
const MOST_BUILT: f64 = 300_000.0;

/// A connected part of a pattern.
#[derive(Clone, Debug)]
pub(super) struct Part {
    /// Nodes to be found, by position in the graph.
    pub nodes: Vec<usize>,
    /// Relationships, by position in the graph.
    pub edges: Vec<usize>,
    /// Whether it touches something bound.
    pub attached: bool,
}

/// What a part is found on top of.
pub(super) struct Base<'b> {
    pub bound: &'b FxHashSet<SlotId>,
    pub rows: f64,
}

/// A set of relationships, or what stands before any of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Nothing but what is bound.
    Nothing,
    /// A node of the part.
    Node(usize),
    /// Relationships of the part, by their bits.
    Edges(u32),
}

/// How a set of relationships is found.
#[derive(Clone, Copy, Debug)]
pub(super) enum Way {
    /// All relationships of one pattern relationship, with both ends.
    Scan,
    /// From what was found, follow it: from `from` if the flag says so.
    Follow(Found, usize, bool),
    /// Both its ends are found.
    Close(Found, usize),
    /// Its far end (a node of the part) is looked up, then it is closed.
    FindAndClose(Found, usize, usize),
    /// Two sets, joined by the nodes they share.
    Join(u32, u32),
}

/// The cheapest ways of all sets.
pub(super) struct Order {
    pub part: Part,
    /// Nodes to be looked up before anything else, by position in the graph; they are none of the part's.
    pub first: Vec<usize>,
    /// What finding the whole part costs, and how many rows it has.
    pub cost: f64,
    pub rows: f64,
    ways: Vec<Option<(f64, Way)>>,
    set_rows: Vec<f64>,
    node_rows: Vec<f64>,
    base_rows: f64,
    pub whole: Found,
    /// The nodes of each set, by their bits.
    pub set_nodes: Vec<u32>,
}

impl Order {
    /// How to find a set.
    pub fn way(&self, set: u32) -> Option<Way> {
        self.ways[set as usize].map(|(_, way)| way)
    }

    /// How many rows there are then.
    pub fn rows_of(&self, found: Found) -> f64 {
        match found {
            Found::Nothing => self.base_rows,
            Found::Node(node) => self.base_rows * self.node_rows[node],
            Found::Edges(set) => self.set_rows[set as usize],
        }
    }
}

/// A relationship of the part.
struct Edge {
    /// Nodes of the part, or none where the end is bound already.
    from: Option<usize>,
    to: Option<usize>,
    /// Rows per pair of nodes.
    share: f64,
    /// Rows of following it from `from`, from `to`, before anything is tested.
    forward: f64,
    backward: f64,
    /// All of them, as a scan gives them; absent where it cannot be scanned.
    scanned: Option<f64>,
    walk: bool,
    /// Predicates about it alone.
    tests: f64,
}

impl Edge {
    fn nodes(&self) -> u32 {
        let bit = |end: Option<usize>| end.map_or(0, |at| 1 << at);
        bit(self.from) | bit(self.to)
    }
}

/// A node of the part.
struct Node {
    access: Access,
    /// Rows once everything about it alone is tested.
    rows: f64,
    /// How many predicates are about it alone.
    tests: f64,
    /// Whether the lookup finds next to nothing at once.
    quick: bool,
}

impl Planner<'_> {
    /// The connected parts of what is open, in the order of their first relationship, then single nodes. Nothing where the
    /// pattern has something that must be found step by step, or a part is too large.
    pub(super) fn parts(&self, problem: &Problem, progress: &Progress) -> Option<Vec<Part>> {
        let graph = &problem.graph;
        let mut waiting = graph
            .relationships
            .iter()
            .zip(&progress.relationship_open)
            .filter(|(one, open)| **open && one.bound);
        if graph.relationships.len() + graph.nodes.len() > MOST_LOOKED_AT
            || waiting.next().is_some()
        {
            return None;
        }
        let mut part_of: Vec<Option<usize>> = vec![None; graph.nodes.len()];
        let mut parts: Vec<Option<Part>> = Vec::new();
        for (at, one) in graph.relationships.iter().enumerate() {
            if !progress.relationship_open[at] || !self.can_order(problem, progress, at) {
                continue;
            }
            let ends = [one.from, one.to].map(|end| problem.positions.get(&end).copied());
            let open = ends.map(|end| end.filter(|node| progress.node_open[*node]));
            // An end that another part has found already waits until the parts are joined.
            if self.is_elsewhere(problem, progress, one.from)
                || self.is_elsewhere(problem, progress, one.to)
            {
                continue;
            }
            let mut own = Part {
                nodes: Vec::new(),
                edges: vec![at],
                attached: open.iter().any(Option::is_none),
            };
            let mut touched: Vec<usize> = open
                .iter()
                .flatten()
                .filter_map(|node| part_of[*node])
                .collect();
            touched.sort_unstable();
            touched.dedup();
            for node in open.into_iter().flatten() {
                if part_of[node].is_none() && !own.nodes.contains(&node) {
                    own.nodes.push(node);
                }
            }
            for other in touched {
                if let Some(other) = parts[other].take() {
                    own.nodes.extend(other.nodes);
                    own.edges.extend(other.edges);
                    own.attached |= other.attached;
                }
            }
            for node in &own.nodes {
                part_of[*node] = Some(parts.len());
            }
            parts.push(Some(own));
        }
        for (node, part) in part_of.iter().enumerate() {
            if progress.node_open[node] && part.is_none() {
                parts.push(Some(Part {
                    nodes: vec![node],
                    edges: Vec::new(),
                    attached: false,
                }));
            }
        }
        let mut parts: Vec<Part> = parts.into_iter().flatten().collect();
        for part in &mut parts {
            part.nodes.sort_unstable();
            part.edges.sort_unstable();
            if part.edges.len() > MOST_EDGES {
                return None;
            }
        }
        Some(parts)
    }

    /// Whether a relationship can be found as soon as one of its ends is.
    fn can_order(&self, problem: &Problem, progress: &Progress, at: usize) -> bool {
        let one = &problem.graph.relationships[at];
        !one.bound
            && !one.needs_both_ends()
            && problem.condition_slots[at]
                .iter()
                .all(|slot| progress.bound.contains(slot))
    }

    /// The cheapest way to find a part on top of `base`: with the nodes that are looked up at once found before all
    /// others, or each when its turn comes.
    pub(super) fn order(
        &self,
        problem: &Problem,
        progress: &Progress,
        part: Part,
        base: &Base<'_>,
    ) -> Order {
        let first: Vec<usize> = part
            .nodes
            .iter()
            .copied()
            .filter(|node| {
                let slot = problem.graph.nodes[*node];
                let access = self.access_with(problem, progress, slot, base.bound);
                access.is_seek() && access.rows <= 1.0
            })
            .collect();
        if part.edges.is_empty() || first.is_empty() || !(part.attached || first.len() > 1) {
            return self.order_of(problem, progress, part, base);
        }
        let (mut bound, mut rows, mut cost) = (base.bound.clone(), base.rows, 0.0);
        for node in &first {
            let slot = problem.graph.nodes[*node];
            let found = self.node_facts(problem, progress, slot, base);
            cost += rows * (1.0 + found.access.rows);
            rows *= found.rows;
            bound.insert(slot);
        }
        let rest = Part {
            nodes: part
                .nodes
                .iter()
                .copied()
                .filter(|node| !first.contains(node))
                .collect(),
            edges: part.edges.clone(),
            attached: true,
        };
        let on_top = Base {
            bound: &bound,
            rows,
        };
        let mut looked_up = self.order_of(problem, progress, rest, &on_top);
        looked_up.cost += cost;
        looked_up.first = first;
        let in_turn = self.order_of(problem, progress, part, base);
        if looked_up.cost <= in_turn.cost {
            looked_up
        } else {
            in_turn
        }
    }

    fn order_of(
        &self,
        problem: &Problem,
        progress: &Progress,
        part: Part,
        base: &Base<'_>,
    ) -> Order {
        let nodes: Vec<Node> = part
            .nodes
            .iter()
            .map(|at| self.node_facts(problem, progress, problem.graph.nodes[*at], base))
            .collect();
        let edges: Vec<Edge> = part
            .edges
            .iter()
            .map(|at| self.edge_facts(problem, progress, &part, *at, base))
            .collect();
        let crossing = self.crossing(problem, progress, &part, &edges, base);
        let joins = self.context.is_empty();
        Search {
            nodes,
            edges,
            crossing,
            base_rows: base.rows,
            joins,
        }
        .run(part)
    }

    fn node_facts(
        &self,
        problem: &Problem,
        progress: &Progress,
        node: SlotId,
        base: &Base<'_>,
    ) -> Node {
        let access = self.access_with(problem, progress, node, base.bound);
        let labels = problem.labels(node);
        let labelled = self.costs.labelled(labels, self.arena);
        let mut rows = match &access.kind {
            AccessKind::All => labelled,
            AccessKind::Label { .. } => labelled,
            AccessKind::Id { .. } => access.rows,
            AccessKind::Key { label, .. } | AccessKind::Index { label, .. } => {
                access.rows * labelled / self.costs.nodes(Some(*label), self.arena)
            }
        };
        let mut tests = 0.0;
        for at in problem.about(node) {
            let alone = problem.predicate_slots[*at]
                .iter()
                .all(|slot| *slot == node || base.bound.contains(slot));
            if !progress.predicate_open[*at] || !alone || access.covers.contains(at) {
                continue;
            }
            tests += 1.0;
            let predicate = &problem.graph.predicates[*at];
            if !matches!(predicate, Expr::HasLabels { .. }) {
                rows *= self.costs.selectivity(predicate, self.arena);
            }
        }
        let quick = access.is_seek() && access.rows <= 2.0;
        Node {
            access,
            rows,
            tests,
            quick,
        }
    }

    fn edge_facts(
        &self,
        problem: &Problem,
        progress: &Progress,
        part: &Part,
        at: usize,
        base: &Base<'_>,
    ) -> Edge {
        let one = &problem.graph.relationships[at];
        let local = |slot: SlotId| {
            let node = problem.positions.get(&slot)?;
            part.nodes.iter().position(|known| known == node)
        };
        let (from_labels, to_labels) = (problem.labels(one.from), problem.labels(one.to));
        let count = |labels: &[LabelRef]| match labels {
            [] => self.costs.nodes(None, self.arena),
            labels => self.costs.labelled(labels, self.arena).max(1.0),
        };
        let rarest = |labels: &[LabelRef]| {
            labels
                .iter()
                .map(|label| self.costs.nodes(Some(*label), self.arena))
                .fold(self.costs.nodes(None, self.arena), f64::min)
        };
        let forward = self
            .costs
            .fan_out(one, from_labels, one.direction, self.arena);
        let backward = self
            .costs
            .fan_out(one, to_labels, one.direction.reversed(), self.arena);
        let walk = !matches!(one.length, Length::One);
        let between = self.costs.between(
            &one.types,
            from_labels,
            to_labels,
            one.direction,
            self.arena,
        );
        let mut share = if walk {
            forward.min(backward.max(forward * 0.01)) / count(to_labels)
        } else {
            between.max(0.05) / (rarest(from_labels) * rarest(to_labels))
        };
        if one.from == one.to {
            share = share.min(1.0);
        }
        let mut tests = 0.0;
        for predicate in problem.about(one.slot) {
            let alone = problem.predicate_slots[*predicate]
                .iter()
                .all(|slot| *slot == one.slot || base.bound.contains(slot));
            if progress.predicate_open[*predicate] && alone {
                tests += 1.0;
                share *= self
                    .costs
                    .selectivity(&problem.graph.predicates[*predicate], self.arena);
            }
        }
        let ways = if one.direction == Direction::Both {
            2.0
        } else {
            1.0
        };
        let (from, to) = (local(one.from), local(one.to));
        let apart = from.is_some() && to.is_some() && from != to;
        Edge {
            from,
            to,
            share,
            forward,
            backward,
            scanned: (apart && !walk)
                .then(|| self.costs.relationships(&one.types, self.arena) * ways),
            walk,
            tests,
        }
    }

    /// Predicates over several nodes and relationships of the part: which nodes and relationships they need (by their
    /// bits), and the share of rows that they keep.
    fn crossing(
        &self,
        problem: &Problem,
        progress: &Progress,
        part: &Part,
        edges: &[Edge],
        base: &Base<'_>,
    ) -> Vec<(u32, u32, f64)> {
        let mut found = Vec::new();
        for (at, slots) in problem.predicate_slots.iter().enumerate() {
            if !progress.predicate_open[at] {
                continue;
            }
            let (mut nodes, mut sets, mut known) = (0u32, 0u32, true);
            for slot in slots {
                let node = problem
                    .positions
                    .get(slot)
                    .and_then(|node| part.nodes.iter().position(|own| own == node));
                let edge = part
                    .edges
                    .iter()
                    .position(|edge| problem.graph.relationships[*edge].slot == *slot);
                match (node, edge) {
                    (Some(node), _) => nodes |= 1 << node,
                    (None, Some(edge)) => sets |= 1 << edge,
                    (None, None) => known &= base.bound.contains(slot),
                }
            }
            if known && (nodes.count_ones() + sets.count_ones()) > 1 {
                let share = self
                    .costs
                    .selectivity(&problem.graph.predicates[at], self.arena);
                found.push((nodes, sets, share));
            }
        }
        debug_assert!(edges.len() == part.edges.len(), "an edge each");
        found
    }
}

/// The search over one part.
struct Search {
    nodes: Vec<Node>,
    edges: Vec<Edge>,
    /// Predicates over several: nodes, relationships, share.
    crossing: Vec<(u32, u32, f64)>,
    base_rows: f64,
    joins: bool,
}

impl Search {
    fn run(self, part: Part) -> Order {
        let sets = 1usize << self.edges.len();
        let mut order = Order {
            part,
            first: Vec::new(),
            cost: 0.0,
            rows: self.base_rows,
            ways: vec![None; sets],
            set_rows: vec![self.base_rows; sets],
            node_rows: self.nodes.iter().map(|node| node.rows).collect(),
            base_rows: self.base_rows,
            whole: Found::Nothing,
            set_nodes: vec![0; sets],
        };
        let starts: Vec<f64> = (0..self.nodes.len()).map(|at| self.start(at)).collect();
        if self.edges.is_empty() {
            order.cost = starts[0];
            order.rows = order.rows_of(Found::Node(0));
            order.whole = Found::Node(0);
            return order;
        }
        for set in 1..sets as u32 {
            let lowest = set.trailing_zeros() as usize;
            order.set_nodes[set as usize] =
                order.set_nodes[(set & (set - 1)) as usize] | self.edges[lowest].nodes();
            order.set_rows[set as usize] = self.rows(set, order.set_nodes[set as usize]);
        }
        self.first_edges(&mut order, &starts);
        for set in 1..sets as u32 {
            if self.joins && set.count_ones() > 1 {
                self.join(&mut order, set);
            }
            if let Some((cost, _)) = order.ways[set as usize] {
                let nodes = order.set_nodes[set as usize];
                for edge in 0..self.edges.len() {
                    if set & (1 << edge) == 0 {
                        self.extend(&mut order, Found::Edges(set), nodes, cost, edge);
                    }
                }
            }
        }
        let all = sets as u32 - 1;
        order.whole = Found::Edges(all);
        order.rows = order.set_rows[all as usize];
        order.cost = order.ways[all as usize].map_or(f64::INFINITY, |(cost, _)| cost);
        order
    }

    /// Rows of a set of relationships.
    fn rows(&self, set: u32, nodes: u32) -> f64 {
        let mut rows = self.base_rows;
        for (at, node) in self.nodes.iter().enumerate() {
            if nodes & (1 << at) != 0 {
                rows *= node.rows;
            }
        }
        for (at, edge) in self.edges.iter().enumerate() {
            if set & (1 << at) != 0 {
                rows *= edge.share;
            }
        }
        for (of_nodes, of_edges, share) in &self.crossing {
            if of_nodes & !nodes == 0 && of_edges & !set == 0 {
                rows *= share;
            }
        }
        rows
    }

    /// What it costs to find a node by itself.
    fn start(&self, at: usize) -> f64 {
        let node = &self.nodes[at];
        let scan = if node.access.is_seek() { 0.0 } else { SCAN };
        self.base_rows * (1.0 + scan + node.access.rows * (1.0 + TEST * node.tests))
    }

    /// The ways to find each relationship first.
    fn first_edges(&self, order: &mut Order, starts: &[f64]) {
        for edge in 0..self.edges.len() {
            let of = &self.edges[edge];
            if of.from.is_none() || of.to.is_none() {
                self.extend(order, Found::Nothing, 0, 0.0, edge);
            }
            for node in of.from.into_iter().chain(of.to) {
                self.extend(order, Found::Node(node), 1 << node, starts[node], edge);
            }
            if let Some(all) = of.scanned {
                let ends = of.from.into_iter().chain(of.to);
                let tests: f64 = ends.map(|node| self.tests_of(node)).sum();
                let cost = self.base_rows * (SCAN + all * (1.0 + TEST * (tests + of.tests)));
                consider(order, 1 << edge, cost, Way::Scan);
            }
        }
    }

    /// How many tests a node found by following takes: its labels and what is said about it.
    fn tests_of(&self, node: usize) -> f64 {
        self.nodes[node].tests + self.nodes[node].access.covers.len() as f64
    }

    /// Adds one relationship to what was found at `cost`.
    fn extend(&self, order: &mut Order, found: Found, nodes: u32, cost: f64, edge: usize) {
        let of = &self.edges[edge];
        let has = |end: Option<usize>| end.is_none_or(|at| nodes & (1 << at) != 0);
        let set = match found {
            Found::Edges(set) => set,
            _ => 0,
        } | 1 << edge;
        let rows = order.rows_of(found);
        let tested = |node: usize| 1.0 + TEST * (self.tests_of(node) + of.tests);
        match (has(of.from), has(of.to)) {
            (true, true) => {
                let tried = if of.walk { 1.0 + of.forward } else { LOOK };
                consider(order, set, cost + rows * tried, Way::Close(found, edge));
            }
            (false, false) => {}
            (forward, _) => {
                let Some(far) = (if forward { of.to } else { of.from }) else {
                    return;
                };
                let fan_out = if forward { of.forward } else { of.backward };
                let follow = cost + rows * (1.0 + fan_out * tested(far));
                consider(order, set, follow, Way::Follow(found, edge, forward));
                let node = &self.nodes[far];
                if node.quick && !of.walk {
                    let look = rows * (1.0 + node.access.rows * (1.0 + LOOK));
                    consider(order, set, cost + look, Way::FindAndClose(found, edge, far));
                }
            }
        }
    }

    /// Joins of two smaller sets that share a node and no relationship; the second is kept in memory.
    fn join(&self, order: &mut Order, set: u32) {
        let mut right = (set - 1) & set;
        while right != 0 {
            let left = set & !right;
            if let (Some((left_cost, _)), Some((right_cost, _))) =
                (order.ways[left as usize], order.ways[right as usize])
                && order.set_nodes[left as usize] & order.set_nodes[right as usize] != 0
                && self.stands_alone(right)
            {
                let (left_rows, right_rows) = (
                    order.set_rows[left as usize],
                    order.set_rows[right as usize],
                );
                let right_rows = right_rows / self.base_rows.max(1.0);
                let cost = left_cost
                    + right_cost
                    + SCAN
                    + BUILD * right_rows
                    + PROBE * left_rows
                    + order.set_rows[set as usize];
                if right_rows <= MOST_BUILT {
                    consider(order, set, cost, Way::Join(left, right));
                }
            }
            right = (right - 1) & set;
        }
    }

    /// Whether a set can be found without what is bound: only then it is found once, not once a row. (With one row of
    /// nothing bound below, there is no difference.)
    fn stands_alone(&self, set: u32) -> bool {
        self.base_rows <= 1.0
            && self
                .edges
                .iter()
                .enumerate()
                .all(|(at, edge)| set & (1 << at) == 0 || edge.from.is_some() && edge.to.is_some())
    }
}

fn consider(order: &mut Order, set: u32, cost: f64, way: Way) {
    let known = &mut order.ways[set as usize];
    if known.is_none_or(|(best, _)| cost < best) {
        *known = Some((cost, way));
    }
}
