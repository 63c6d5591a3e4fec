//! The cheapest order of a connected component of a pattern, by dynamic programming over its sets of relationships.
//!
//! A *component* is up to [`MAX_ORDERED_EDGES`] relationships that are connected through nodes not yet bound. For each
//! connected set of them the cheapest plan is kept, built from smaller sets: follow one more relationship, close one
//! between nodes already found (after a lookup of its far end by key, if that is cheap), or join two sets by the nodes
//! they share. The cardinality of a set does not depend on its plan: it is the product of its nodes (each reduced by
//! the predicates on it alone), of the fraction of pairs that each relationship connects, and of the predicates over
//! several elements.
//!
//! The cost is in sets: 2^edges of them, 3^edges pairs to join, a few nanoseconds each.

use rustc_hash::FxHashSet;

use super::hints::UNFULFILLED;
use super::{Problem, Progress};
use crate::expr::{BoundExpr, LabelRef, SlotId};
use crate::logical::{HintKind, Length, PatternRelationship};
use crate::physical::Direction;
use crate::solve::Planner;
use crate::solve::seek::{Access, AccessKind};

/// Maximum relationships of a component that is ordered exactly; larger ones are solved greedily, step by step.
pub(super) const MAX_ORDERED_EDGES: usize = 10;
/// Maximum nodes and relationships of a pattern that is split into components; larger ones are solved step by step.
const MAX_PATTERN_ELEMENTS: usize = 200;
/// Fixed cost of a scan: see [`super::search`].
const SCAN_COST: f64 = super::search::SCAN_COST;
/// Cost of testing one predicate on one row, in rows.
const TEST_COST: f64 = 0.5;
/// Cost of checking whether two nodes are connected, in rows.
const CHECK_COST: f64 = 1.5;
/// Cost of inserting a row into a hash table, or of one lookup.
const BUILD_COST: f64 = 4.0;
const PROBE_COST: f64 = 2.0;
/// Joins buffer one side in memory: more rows than this are too risky.
const MAX_BUILD_ROWS: f64 = 300_000.0;

/// A connected component of a pattern.
#[derive(Clone, Debug)]
pub(super) struct Component {
    /// Nodes to be found, by index in the graph.
    pub nodes: Vec<usize>,
    /// Relationships, by index in the graph.
    pub edges: Vec<usize>,
    /// Whether it touches a bound slot.
    pub attached: bool,
}

/// The rows on which a component is solved.
pub(super) struct Base<'b> {
    pub bound: &'b FxHashSet<SlotId>,
    pub rows: f64,
}

/// A set of relationships, or one of the states before any relationship is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PartialMatch {
    /// Nothing but the bound slots.
    Nothing,
    /// A node of the part.
    Node(usize),
    /// Relationships of the part, by their bits.
    Edges(u32),
}

/// How a set of relationships is found.
#[derive(Clone, Copy, Debug)]
pub(super) enum SetPlan {
    /// A scan of all relationships of one pattern relationship, with both ends.
    Scan,
    /// Follows it from what was found: from `from` if the flag is set.
    Follow(PartialMatch, usize, bool),
    /// Both its ends are found: checks the connection.
    Close(PartialMatch, usize),
    /// Looks up its far end (a node of the component), then closes it.
    FindAndClose(PartialMatch, usize, usize),
    /// Joins two sets by the nodes they share.
    Join(u32, u32),
}

/// The cheapest plans of all sets.
pub(super) struct Order {
    pub component: Component,
    /// Nodes that are looked up before anything else, by index in the graph; they are not part of the component.
    pub first: Vec<usize>,
    /// Cost and cardinality of the whole component.
    pub cost: f64,
    pub rows: f64,
    set_plans: Vec<Option<(f64, SetPlan)>>,
    set_rows: Vec<f64>,
    node_rows: Vec<f64>,
    base_rows: f64,
    pub whole: PartialMatch,
    /// The nodes of each set, by their bits.
    pub set_nodes: Vec<u32>,
}

impl Order {
    /// The plan of a set.
    pub fn set_plan(&self, set: u32) -> Option<SetPlan> {
        self.set_plans[set as usize].map(|(_, set_plan)| set_plan)
    }

    /// The cardinality of a set.
    pub fn rows_of(&self, found: PartialMatch) -> f64 {
        match found {
            PartialMatch::Nothing => self.base_rows,
            PartialMatch::Node(node) => self.base_rows * self.node_rows[node],
            PartialMatch::Edges(set) => self.set_rows[set as usize],
        }
    }
}

/// A relationship of the component.
struct Edge {
    /// Nodes of the component, or none if the end is bound already.
    from: Option<usize>,
    to: Option<usize>,
    /// Rows per pair of nodes.
    share: f64,
    /// Rows of following it from `from` or from `to`, before any test.
    forward: f64,
    backward: f64,
    /// Rows of finding it with both its ends, and the fixed cost of that; absent if it cannot be found by itself.
    found: Option<(f64, f64)>,
    walk: bool,
    /// Predicates on it alone.
    tests: f64,
    /// Whether a hint asks to find it with both its ends.
    hinted: bool,
}

impl Edge {
    fn nodes(&self) -> u32 {
        let bit = |end: Option<usize>| end.map_or(0, |at| 1 << at);
        bit(self.from) | bit(self.to)
    }
}

/// A node of the component.
struct Node {
    access: Access,
    /// Rows after all predicates on it alone.
    rows: f64,
    /// Number of predicates on it alone.
    tests: f64,
    /// Whether a lookup finds almost nothing, directly.
    quick: bool,
    /// Whether a hint says how it is found.
    hinted: bool,
    /// Cost of an access that is not the one of its hint.
    penalty: f64,
}

impl Planner<'_> {
    /// The connected components of what is unsolved, in the order of their first relationship, then single nodes. None
    /// if the pattern contains something that must be solved step by step, or a component is too large.
    pub(super) fn components(
        &self,
        problem: &Problem,
        progress: &Progress,
    ) -> Option<Vec<Component>> {
        let graph = &problem.graph;
        let mut waiting = graph
            .relationships
            .iter()
            .zip(&progress.relationship_open)
            .filter(|(one, open)| **open && one.bound);
        if graph.relationships.len() + graph.nodes.len() > MAX_PATTERN_ELEMENTS
            || waiting.next().is_some()
        {
            return None;
        }
        // Union by relationship: one that touches several components found so far makes them one.
        let mut part_of: Vec<Option<usize>> = vec![None; graph.nodes.len()];
        let mut components: Vec<Option<Component>> = Vec::new();
        for (at, one) in graph.relationships.iter().enumerate() {
            if !progress.relationship_open[at] || !can_order(problem, progress, at) {
                continue;
            }
            let ends = [one.from, one.to].map(|end| problem.positions.get(&end).copied());
            let open = ends.map(|end| end.filter(|node| progress.node_open[*node]));
            // An end that another component has already found waits until the components are joined.
            if self.is_elsewhere(problem, progress, one.from)
                || self.is_elsewhere(problem, progress, one.to)
            {
                continue;
            }
            let mut own = Component {
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
                // The merged component leaves a gap, so that the indices in `part_of` stay valid.
                if let Some(other) = components[other].take() {
                    own.nodes.extend(other.nodes);
                    own.edges.extend(other.edges);
                    own.attached |= other.attached;
                }
            }
            for node in &own.nodes {
                part_of[*node] = Some(components.len());
            }
            components.push(Some(own));
        }
        // A node without relationships is a separate component; it will be joined, or multiplied with the rest.
        for (node, component) in part_of.iter().enumerate() {
            if progress.node_open[node] && component.is_none() {
                components.push(Some(Component {
                    nodes: vec![node],
                    edges: Vec::new(),
                    attached: false,
                }));
            }
        }
        let mut components: Vec<Component> = components.into_iter().flatten().collect();
        for component in &mut components {
            component.nodes.sort_unstable();
            component.edges.sort_unstable();
            if component.edges.len() > MAX_ORDERED_EDGES {
                return None;
            }
        }
        Some(components)
    }

    /// The cheapest plan of a component on top of `base`: selective lookups either all first, or each in its turn.
    pub(super) fn order(
        &self,
        problem: &Problem,
        progress: &Progress,
        component: Component,
        base: &Base<'_>,
    ) -> Order {
        // Nodes that a unique key finds. Bound before the search, they turn ends to be found into ends to be checked,
        // which the search itself could only do by a join.
        let first: Vec<usize> = component
            .nodes
            .iter()
            .copied()
            .filter(|node| {
                let slot = problem.graph.nodes[*node];
                let access = self.access_with(problem, progress, slot, base.bound);
                access.is_seek() && access.rows <= 1.0
            })
            .collect();
        if component.edges.is_empty()
            || first.is_empty()
            // With a single one and nothing bound, the search begins there anyway.
            || !(component.attached || first.len() > 1)
        {
            return order_of(self, problem, progress, component, base);
        }
        let (mut bound, mut rows, mut cost) = (base.bound.clone(), base.rows, 0.0);
        for node in &first {
            let slot = problem.graph.nodes[*node];
            let found = node_facts(self, problem, progress, slot, base);
            cost += rows * (1.0 + found.access.rows);
            rows *= found.rows;
            bound.insert(slot);
        }
        let rest = Component {
            nodes: component
                .nodes
                .iter()
                .copied()
                .filter(|node| !first.contains(node))
                .collect(),
            edges: component.edges.clone(),
            attached: true,
        };
        let on_top = Base {
            bound: &bound,
            rows,
        };
        let mut looked_up = order_of(self, problem, progress, rest, &on_top);
        looked_up.cost += cost;
        looked_up.first = first;
        let in_turn = order_of(self, problem, progress, component, base);
        if looked_up.cost <= in_turn.cost {
            looked_up
        } else {
            in_turn
        }
    }
}

/// Whether a relationship can be followed as soon as one of its ends is found.
fn can_order(problem: &Problem, progress: &Progress, at: usize) -> bool {
    let one = &problem.graph.relationships[at];
    !one.bound
        && !one.needs_both_ends()
        && problem.condition_slots[at]
            .iter()
            .all(|slot| progress.bound.contains(slot))
}

fn order_of(
    planner: &Planner<'_>,
    problem: &Problem,
    progress: &Progress,
    component: Component,
    base: &Base<'_>,
) -> Order {
    let nodes: Vec<Node> = component
        .nodes
        .iter()
        .map(|at| node_facts(planner, problem, progress, problem.graph.nodes[*at], base))
        .collect();
    let edges: Vec<Edge> = component
        .edges
        .iter()
        .map(|at| edge_facts(planner, problem, progress, &component, *at, base))
        .collect();
    let crossing = crossing(planner, problem, progress, &component, &edges, base);
    // A sub-plan runs once per outer row, and would build the hash table of a join each time.
    let joins = planner.context.is_empty();
    let joined_on = joined_on(problem, &component);
    Search {
        joined_on,
        nodes,
        edges,
        crossing,
        base_rows: base.rows,
        joins,
    }
    .run(component)
}

fn node_facts(
    planner: &Planner<'_>,
    problem: &Problem,
    progress: &Progress,
    node: SlotId,
    base: &Base<'_>,
) -> Node {
    let access = planner.access_with(problem, progress, node, base.bound);
    let labels = problem.labels(node);
    let labelled = planner.costs.labelled(labels, planner.arena);
    let mut rows = match &access.kind {
        AccessKind::All => labelled,
        AccessKind::Label { .. } => labelled,
        AccessKind::Id { .. } => access.rows,
        AccessKind::Union(_) => access.rows.min(labelled),
        // The access estimates nodes of one label; the other labels thin them out.
        AccessKind::Key { label, .. } | AccessKind::Index { label, .. } => {
            access.rows * labelled / planner.costs.nodes(Some(*label), planner.arena)
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
        if !matches!(predicate, BoundExpr::HasLabels { .. }) {
            rows *= planner.costs.selectivity(predicate, planner.arena);
        }
    }
    let quick = access.is_seek() && access.rows <= 2.0;
    let hint = problem.hinted.get(&node);
    let is_unmet = hint.is_some_and(|hint| !access.follows(hint));
    Node {
        hinted: hint.is_some(),
        penalty: if is_unmet { UNFULFILLED } else { 0.0 },
        access,
        rows,
        tests,
        quick,
    }
}

fn edge_facts(
    planner: &Planner<'_>,
    problem: &Problem,
    progress: &Progress,
    component: &Component,
    at: usize,
    base: &Base<'_>,
) -> Edge {
    let one = &problem.graph.relationships[at];
    let local = |slot: SlotId| {
        let node = problem.positions.get(&slot)?;
        component.nodes.iter().position(|known| known == node)
    };
    let (from_labels, to_labels) = (problem.labels(one.from), problem.labels(one.to));
    let count = |labels: &[LabelRef]| match labels {
        [] => planner.costs.nodes(None, planner.arena),
        labels => planner.costs.labelled(labels, planner.arena).max(1.0),
    };
    let rarest = |labels: &[LabelRef]| {
        labels
            .iter()
            .map(|label| planner.costs.nodes(Some(*label), planner.arena))
            .fold(planner.costs.nodes(None, planner.arena), f64::min)
    };
    let forward = planner
        .costs
        .fan_out(one, from_labels, one.direction, planner.arena);
    let backward = planner
        .costs
        .fan_out(one, to_labels, one.direction.reversed(), planner.arena);
    let walk = !matches!(one.length, Length::One);
    let between = planner.costs.between(
        &one.types,
        from_labels,
        to_labels,
        one.direction,
        planner.arena,
    );
    let mut share = if walk {
        // Both directions estimate the same number of walks. The smaller estimate is taken, unless it is implausibly
        // small compared with the other.
        forward.min(backward.max(forward * 0.01)) / count(to_labels)
    } else {
        // The fraction of all pairs that is connected. Never zero: with an estimate of no rows all orders would cost
        // the same.
        between.max(0.05) / (rarest(from_labels) * rarest(to_labels))
    };
    if one.from == one.to {
        share = share.min(1.0);
    }
    let (from, to) = (local(one.from), local(one.to));
    let apart = from.is_some() && to.is_some() && from != to;
    let access = (apart && !walk).then(|| planner.rel_access(problem, progress, at, base.bound));
    let mut covered: &[usize] = &[];
    if let Some(access) = access.as_ref().filter(|access| access.is_seek()) {
        // The index knows better how many there are than the predicates' selectivities.
        covered = &access.covers;
        share *= access.rows / (all_relationships(planner, one)).max(1.0);
    }
    let mut tests = 0.0;
    for predicate in problem.about(one.slot) {
        let alone = problem.predicate_slots[*predicate]
            .iter()
            .all(|slot| *slot == one.slot || base.bound.contains(slot));
        if progress.predicate_open[*predicate] && alone {
            tests += 1.0;
            if !covered.contains(predicate) {
                let predicate = &problem.graph.predicates[*predicate];
                share *= planner.costs.selectivity(predicate, planner.arena);
            }
        }
    }
    let found = access.map(|access| {
        let fixed = if access.is_seek() { 1.0 } else { SCAN_COST };
        (access.rows, fixed)
    });
    Edge {
        from,
        to,
        share,
        forward,
        backward,
        found,
        walk,
        tests,
        hinted: problem.is_hinted(one.slot),
    }
}

/// Relationships that a scan of the pattern's types returns.
fn all_relationships(planner: &Planner<'_>, one: &PatternRelationship) -> f64 {
    let count = planner.costs.relationships(&one.types, planner.arena);
    // A scan without direction returns each relationship twice, once from each end.
    match one.direction {
        Direction::Both => count * 2.0,
        Direction::Outgoing | Direction::Incoming => count,
    }
}

/// Predicates over several nodes and relationships of the component: the nodes and relationships they need (by
/// their bits), and their selectivity.
fn crossing(
    planner: &Planner<'_>,
    problem: &Problem,
    progress: &Progress,
    component: &Component,
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
                .and_then(|node| component.nodes.iter().position(|own| own == node));
            let edge = component
                .edges
                .iter()
                .position(|edge| problem.graph.relationships[*edge].slot == *slot);
            match (node, edge) {
                (Some(node), _) => nodes |= 1 << node,
                (None, Some(edge)) => sets |= 1 << edge,
                (None, None) => known &= base.bound.contains(slot),
            }
        }
        // Predicates on one element alone are among the facts of that element.
        if known && (nodes.count_ones() + sets.count_ones()) > 1 {
            let share = planner
                .costs
                .selectivity(&problem.graph.predicates[at], planner.arena);
            found.push((nodes, sets, share));
        }
    }
    debug_assert!(edges.len() == component.edges.len(), "an edge each");
    found
}

/// The join hints whose nodes all belong to the component.
fn joined_on(problem: &Problem, component: &Component) -> Vec<u32> {
    let bit = |slot: &SlotId| {
        let node = problem.positions.get(slot)?;
        let at = component.nodes.iter().position(|own| own == node)?;
        Some(1 << at)
    };
    let hints = problem.graph.hints.iter();
    let nodes = hints.filter_map(|hint| match &hint.kind {
        HintKind::Join(nodes) => nodes.iter().map(bit).collect::<Option<Vec<u32>>>(),
        _ => None,
    });
    nodes
        .map(|bits| bits.into_iter().fold(0, |all, bit| all | bit))
        .collect()
}

/// The search over one component.
struct Search {
    nodes: Vec<Node>,
    edges: Vec<Edge>,
    /// Predicates over several elements: nodes, relationships, selectivity.
    crossing: Vec<(u32, u32, f64)>,
    base_rows: f64,
    joins: bool,
    /// The sets of nodes that hints ask to join on, by their bits.
    joined_on: Vec<u32>,
}

impl Search {
    fn run(self, component: Component) -> Order {
        let sets = 1usize << self.edges.len();
        let mut order = Order {
            component,
            first: Vec::new(),
            cost: 0.0,
            rows: self.base_rows,
            set_plans: vec![None; sets],
            set_rows: vec![self.base_rows; sets],
            node_rows: self.nodes.iter().map(|node| node.rows).collect(),
            base_rows: self.base_rows,
            whole: PartialMatch::Nothing,
            set_nodes: vec![0; sets],
        };
        let starts: Vec<f64> = (0..self.nodes.len()).map(|at| self.start(at)).collect();
        if self.edges.is_empty() {
            order.cost = starts[0];
            order.rows = order.rows_of(PartialMatch::Node(0));
            order.whole = PartialMatch::Node(0);
            return order;
        }
        // Cardinalities first. They belong to a set, not to a plan of it, so that the cheapest plan of a set is built
        // from the cheapest plans of its parts (Bellman's principle of optimality).
        for set in 1..sets as u32 {
            // The nodes of the set without its lowest relationship are known: that set is a smaller number.
            let lowest = set.trailing_zeros() as usize;
            order.set_nodes[set as usize] =
                order.set_nodes[(set & (set - 1)) as usize] | self.edges[lowest].nodes();
            order.set_rows[set as usize] = self.rows(set, order.set_nodes[set as usize]);
        }
        // Ascending numbers visit each set after all its subsets: its plan is final when it is extended. This is
        // DPsub (Moerkotte and Neumann, VLDB 2006) with the steps of a graph traversal in addition to joins.
        self.first_edges(&mut order, &starts);
        for set in 1..sets as u32 {
            if self.joins && set.count_ones() > 1 {
                self.join(&mut order, set);
            }
            if let Some((cost, _)) = order.set_plans[set as usize] {
                let nodes = order.set_nodes[set as usize];
                for edge in 0..self.edges.len() {
                    if set & (1 << edge) == 0 {
                        self.extend(&mut order, PartialMatch::Edges(set), nodes, cost, edge);
                    }
                }
            }
        }
        let all = sets as u32 - 1;
        order.whole = PartialMatch::Edges(all);
        order.rows = order.set_rows[all as usize];
        order.cost = order.set_plans[all as usize].map_or(f64::INFINITY, |(cost, _)| cost);
        order
    }

    /// The cardinality of a set of relationships.
    fn rows(&self, set: u32, nodes: u32) -> f64 {
        let mut rows = self.base_rows;
        // Factors are assumed to be independent. Where they are not, the error is the same for all plans of the set,
        // which is what the comparison needs.
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

    /// Cost of finding a node by itself.
    fn start(&self, at: usize) -> f64 {
        let node = &self.nodes[at];
        let scan = if node.access.is_seek() {
            0.0
        } else {
            SCAN_COST
        };
        let cost = 1.0 + scan + node.access.rows * (1.0 + TEST_COST * node.tests);
        self.base_rows * cost + node.penalty
    }

    /// Plans that find a single relationship first.
    fn first_edges(&self, order: &mut Order, starts: &[f64]) {
        for edge in 0..self.edges.len() {
            let of = &self.edges[edge];
            if of.from.is_none() || of.to.is_none() {
                self.extend(order, PartialMatch::Nothing, 0, 0.0, edge);
            }
            for node in of.from.into_iter().chain(of.to) {
                self.extend(
                    order,
                    PartialMatch::Node(node),
                    1 << node,
                    starts[node],
                    edge,
                );
            }
            // A scan of the type gives both ends at once: the best start if the type is rarer than the labels, or an
            // index finds few of its relationships.
            if let Some((rows, fixed)) = of.found {
                let ends = of.from.into_iter().chain(of.to);
                let tests: f64 = ends.map(|node| self.tests_of(node)).sum();
                let mut cost =
                    self.base_rows * (fixed + rows * (1.0 + TEST_COST * (tests + of.tests)));
                let mut ends = of.from.into_iter().chain(of.to);
                if !of.hinted && ends.any(|node| self.nodes[node].hinted) {
                    cost += UNFULFILLED;
                }
                consider(order, 1 << edge, cost, SetPlan::Scan);
            }
        }
    }

    /// Number of tests on a node found by following: its labels and its predicates.
    fn tests_of(&self, node: usize) -> f64 {
        self.nodes[node].tests + self.nodes[node].access.covers.len() as f64
    }

    /// Adds one relationship to a set that was found at `cost`.
    fn extend(&self, order: &mut Order, found: PartialMatch, nodes: u32, cost: f64, edge: usize) {
        let of = &self.edges[edge];
        let has = |end: Option<usize>| end.is_none_or(|at| nodes & (1 << at) != 0);
        let set = match found {
            PartialMatch::Edges(set) => set,
            _ => 0,
        } | 1 << edge;
        let rows = order.rows_of(found);
        let cost = if of.hinted { cost + UNFULFILLED } else { cost };
        let tested = |node: usize| 1.0 + TEST_COST * (self.tests_of(node) + of.tests);
        match (has(of.from), has(of.to)) {
            (true, true) => {
                let tried = if of.walk {
                    1.0 + of.forward
                } else {
                    CHECK_COST
                };
                consider(order, set, cost + rows * tried, SetPlan::Close(found, edge));
            }
            // Not connected with the set: that would be a product, which is left to the joins of components.
            (false, false) => {}
            (forward, _) => {
                let Some(far) = (if forward { of.to } else { of.from }) else {
                    return;
                };
                let fan_out = if forward { of.forward } else { of.backward };
                let node = &self.nodes[far];
                let mut follow = cost + rows * (1.0 + fan_out * tested(far));
                if node.hinted {
                    follow += UNFULFILLED;
                }
                consider(order, set, follow, SetPlan::Follow(found, edge, forward));
                if node.quick && !of.walk || node.hinted {
                    // Instead of reading all neighbours of a node of high degree: one lookup of the other end, and a
                    // check of the connection.
                    let check = if of.walk { 1.0 + fan_out } else { CHECK_COST };
                    let find_and_close =
                        rows * (1.0 + node.access.rows * (1.0 + check)) + node.penalty;
                    consider(
                        order,
                        set,
                        cost + find_and_close,
                        SetPlan::FindAndClose(found, edge, far),
                    );
                }
            }
        }
    }

    /// Joins of two smaller sets that share a node and no relationship; the second is buffered in memory.
    fn join(&self, order: &mut Order, set: u32) {
        // All ways to split the set in two, as descending submasks. Sides without a common node would be a product.
        let mut right = (set - 1) & set;
        while right != 0 {
            let left = set & !right;
            if let (Some((left_cost, _)), Some((right_cost, _))) = (
                order.set_plans[left as usize],
                order.set_plans[right as usize],
            ) && order.set_nodes[left as usize] & order.set_nodes[right as usize] != 0
                && self.stands_alone(right)
            {
                let (left_rows, right_rows) = (
                    order.set_rows[left as usize],
                    order.set_rows[right as usize],
                );
                let right_rows = right_rows / self.base_rows.max(1.0);
                let shared = order.set_nodes[left as usize] & order.set_nodes[right as usize];
                // A join on the nodes of a hint is worth more than any plan without it, once.
                let is_new = left_cost > -0.5 * UNFULFILLED && right_cost > -0.5 * UNFULFILLED;
                let hinted = is_new && self.joined_on.contains(&shared);
                let cost = left_cost
                    + right_cost
                    + SCAN_COST
                    + BUILD_COST * right_rows
                    + PROBE_COST * left_rows
                    + order.set_rows[set as usize]
                    - if hinted { UNFULFILLED } else { 0.0 };
                // A wrong estimate costs memory here, not only time: the limit is on the side that is buffered.
                if right_rows <= MAX_BUILD_ROWS || hinted {
                    consider(order, set, cost, SetPlan::Join(left, right));
                }
            }
            right = (right - 1) & set;
        }
    }

    /// Whether a set can be found without bound slots: only then it is found once instead of once per row. (With a
    /// single input row without slots there is no difference.)
    fn stands_alone(&self, set: u32) -> bool {
        self.base_rows <= 1.0
            && self
                .edges
                .iter()
                .enumerate()
                .all(|(at, edge)| set & (1 << at) == 0 || edge.from.is_some() && edge.to.is_some())
    }
}

fn consider(order: &mut Order, set: u32, cost: f64, set_plan: SetPlan) {
    let known = &mut order.set_plans[set as usize];
    if known.is_none_or(|(best, _)| cost < best) {
        *known = Some((cost, set_plan));
    }
}
