//! The last step: chooses among operators that return the same rows.
//!
//! An aggregation that only counts may be answered by an array of nodes, a column or the adjacency; a chain over a scan
//! may run in several threads. What depends on the moment of a run (which views there are, how many threads) is left to
//! the operator: it names the operator that it replaces as its fallback.

use crate::arena::Arena;
use crate::expr::{AggregateCall, BoundExpr, PropRef, SlotId, StaticType};
use crate::function::{Aggregation, Purity};
use crate::physical::{
    Aggregate, CountByColumn, CountByNeighbour, CountPaths, Exchange, ExpandStep, FirstGroups,
    GroupByKey, InThread, Op, OpId, Operator, RelationshipScan, SortKey, StatementClass,
};

use super::reachable::ReachableOperators;

/// The property that holds a node's key.
const KEY: &str = "_key";

/// Chooses the operators of a plan of this class. Needs the live slots. Operators that it adds follow all others.
pub(crate) fn choose_operators(arena: &mut Arena, root: Option<OpId>, class: StatementClass) {
    let reachable = ReachableOperators::of(arena, root);
    let chooser = Chooser {
        parallel: class == StatementClass::Read,
        reachable: &reachable,
        arena,
    };
    // All choices first: each looks at the operators below as they were planned, not at those that replace them.
    let choices: Vec<Choice> = (0..arena.operators.len())
        .filter(|at| reachable.contains(*at))
        .filter_map(|at| chooser.choice(OpId(at as u32)))
        .collect();
    for choice in choices {
        apply(arena, choice);
    }
}

/// What is chosen for one operator.
struct Choice {
    id: OpId,
    /// An exchange above its input.
    exchange: Option<Exchange>,
    /// What replaces it; it is the fallback then.
    replacement: Replacement,
}

enum Replacement {
    None,
    ByNode,
    ByNeighbour {
        input: OpId,
        from: SlotId,
        step: ExpandStep,
    },
    ByKey(GroupByKey),
    ByColumn(CountByColumn),
    Paths(CountPaths),
}

fn apply(arena: &mut Arena, choice: Choice) {
    let chosen = arena.operators[choice.id.index()].clone();
    let mut op = chosen.op.clone();
    if let Some(exchange) = choice.exchange {
        let input = exchange.input;
        let chain = arena.operators[input.index()].clone();
        // Threads that drop rows return about those that are left above, unless one thread does all the work.
        let rows = match exchange.in_thread {
            InThread::Nothing | InThread::Sort => chain.rows,
            InThread::Distinct(_) | InThread::Top { .. } => chosen.rows.min(chain.rows),
        };
        // The chain stays as it is below the exchange, so that it can also run in the thread of the query.
        let id = arena.push_like(Op::Exchange(exchange), &Operator { rows, ..chain });
        op.map_children(&mut |child| if child == input { id } else { child });
    }
    let op = match (choice.replacement, op) {
        (Replacement::None, op) => op,
        (Replacement::ByNode, Op::Aggregate(aggregate)) => Op::CountByNode(aggregate),
        (Replacement::ByNeighbour { input, from, step }, Op::Aggregate(aggregate)) => {
            let of_input = Aggregate {
                input,
                ..aggregate.clone()
            };
            Op::CountByNeighbour(CountByNeighbour {
                aggregate: of_input,
                from,
                step,
                fallback: arena.push_like(Op::CountByNode(aggregate), &chosen),
            })
        }
        (Replacement::ByKey(mut group), op) => {
            group.fallback = arena.push_like(op, &chosen);
            Op::GroupByKey(group)
        }
        (Replacement::ByColumn(mut count), op) => {
            count.fallback = arena.push_like(op, &chosen);
            Op::CountByColumn(count)
        }
        (Replacement::Paths(mut count), op) => {
            count.fallback = arena.push_like(op, &chosen);
            Op::CountPaths(count)
        }
        (Replacement::ByNode | Replacement::ByNeighbour { .. }, _) => {
            unreachable!("only aggregations count")
        }
    };
    arena.operators[choice.id.index()].op = op;
}

/// Chooses for one operator after the other; none is replaced before all are chosen.
struct Chooser<'p> {
    arena: &'p Arena,
    reachable: &'p ReachableOperators,
    /// Whether several threads may run the statement.
    parallel: bool,
}

/// The id of a fallback that is not in the arena yet.
const LATER: OpId = OpId(u32::MAX);

impl Chooser<'_> {
    fn operator(&self, id: OpId) -> &Operator {
        &self.arena.operators[id.index()]
    }

    fn op(&self, id: OpId) -> &Op {
        &self.operator(id).op
    }

    fn choice(&self, id: OpId) -> Option<Choice> {
        let (exchange, replacement) = match self.op(id) {
            Op::Aggregate(aggregate) => self.aggregation(id, aggregate),
            Op::Distinct { input, slots } => (
                self.exchange(id, *input, InThread::Distinct(slots.clone())),
                Replacement::None,
            ),
            Op::Sort { input, .. } if self.keeps_order(*input) => {
                (self.exchange(id, *input, InThread::Sort), Replacement::None)
            }
            Op::Top { input, keys, limit } => self.top(id, *input, keys, limit),
            _ => return None,
        };
        let is_new = exchange.is_some() || !matches!(replacement, Replacement::None);
        is_new.then_some(Choice {
            id,
            exchange,
            replacement,
        })
    }

    fn aggregation(&self, id: OpId, aggregate: &Aggregate) -> (Option<Exchange>, Replacement) {
        let exchange = || {
            if is_independent_of_order(aggregate) {
                self.exchange(id, aggregate.input, InThread::Nothing)
            } else {
                None
            }
        };
        if self.counts_by_node(aggregate) {
            let by_neighbour = self.by_neighbour(aggregate);
            return (exchange(), by_neighbour.unwrap_or(Replacement::ByNode));
        }
        // No exchange: the rows below are counts per node already.
        if let Some(group) = self.by_key(id, aggregate) {
            return (None, Replacement::ByKey(group));
        }
        let replacement = None
            .or_else(|| self.by_column(aggregate).map(Replacement::ByColumn))
            .or_else(|| self.paths(aggregate).map(Replacement::Paths));
        (exchange(), replacement.unwrap_or(Replacement::None))
    }
}

// --- several threads

impl Chooser<'_> {
    /// An exchange between the operator `id` and the chain `top`, if that can run in several threads.
    fn exchange(&self, id: OpId, top: OpId, in_thread: InThread) -> Option<Exchange> {
        // Other threads have no outer row.
        if !self.parallel || self.reachable.has_outer_rows(id.index()) {
            return None;
        }
        Some(Exchange {
            input: top,
            scan: self.scan_below(top)?,
            in_thread,
        })
    }

    fn top(
        &self,
        id: OpId,
        input: OpId,
        keys: &[SortKey],
        limit: &BoundExpr,
    ) -> (Option<Exchange>, Replacement) {
        // The operator and its threads each evaluate keys and limits: they must give the same values.
        let are_settled = is_settled(limit) && keys.iter().all(|key| is_settled(&key.expr));
        let exchange = if are_settled && self.keeps_order(input) {
            self.exchange(
                id,
                input,
                InThread::Top {
                    keys: keys.to_vec(),
                    limit: limit.clone(),
                },
            )
        } else {
            None
        };
        (exchange, Replacement::None)
    }

    /// Whether a row's place among those of its thread tells its place among those of a single thread: that one finds
    /// the relationships type by type, not share by share.
    fn keeps_order(&self, top: OpId) -> bool {
        self.scan_below(top)
            .is_some_and(|scan| match self.op(scan) {
                Op::RelationshipScan(scan) => scan.types.len() < 2,
                _ => true,
            })
    }

    /// The scan at the bottom of a chain of operators that treat each row independently and can run in several
    /// threads.
    fn scan_below(&self, top: OpId) -> Option<OpId> {
        let mut at = top;
        loop {
            at = match self.op(at) {
                Op::Expand(expand) => expand.input,
                Op::ExpandInto(expand) => expand.input,
                Op::DistinctEnds(ends) => ends.input,
                Op::Degree(degree) => degree.input,
                Op::Filter { input, predicates } if predicates.iter().all(is_settled) => *input,
                Op::Project { input, columns }
                    if columns.iter().all(|(_, expr)| is_settled(expr)) =>
                {
                    *input
                }
                Op::AllNodesScan { input, .. }
                | Op::LabelScan { input, .. }
                | Op::RelationshipScan(RelationshipScan { input, .. }) => {
                    // A scan that runs once: only then its ids can be shared out.
                    return matches!(self.op(*input), Op::Argument).then_some(at);
                }
                _ => return None,
            };
        }
    }
}

/// Whether it has the same value in each thread, and needs no sub-plan.
fn is_settled(expr: &BoundExpr) -> bool {
    let mut settled = match expr {
        BoundExpr::Call { function, .. } => function.purity() != Purity::Volatile,
        BoundExpr::CallRegistered { .. } | BoundExpr::Subquery(_) => false,
        _ => true,
    };
    expr.for_each_child(&mut |child| settled &= is_settled(child));
    settled
}

/// Whether an aggregation gives the same result for any order of its rows, except for the order within a list: a
/// running standard deviation is rounded per row.
fn is_independent_of_order(aggregate: &Aggregate) -> bool {
    let rounds = |function| matches!(function, Aggregation::StDev | Aggregation::StDevP);
    !aggregate
        .aggregates
        .iter()
        .any(|(_, call)| rounds(call.function))
}

// --- aggregations

impl Chooser<'_> {
    /// Whether an aggregation only counts rows by one node.
    fn counts_by_node(&self, aggregate: &Aggregate) -> bool {
        let by_node = match aggregate.keys.as_slice() {
            [(_, BoundExpr::Slot(slot))] => matches!(self.arena.kind(*slot), StaticType::Node),
            _ => false,
        };
        let counts = |call: &AggregateCall| match (call.function, call.arguments.as_slice()) {
            (Aggregation::CountRows, _) => true,
            (Aggregation::Count, [BoundExpr::Const(value)]) => !call.distinct && !value.is_null(),
            _ => false,
        };
        by_node && aggregate.aggregates.iter().all(|(_, call)| counts(call))
    }

    /// The expand below an aggregation that counts by its end, if nothing else of the relationships is read.
    fn by_neighbour(&self, aggregate: &Aggregate) -> Option<Replacement> {
        let [(_, BoundExpr::Slot(key))] = aggregate.keys.as_slice() else {
            return None;
        };
        let below = self.operator(aggregate.input);
        let Op::Expand(expand) = &below.op else {
            return None;
        };
        let reads_relationship = expand
            .relationship
            .is_some_and(|slot| below.live.contains(&slot));
        // The relationships must not be read: the adjacency answers in their place, and has only their ends.
        let fits = expand.to == *key && !reads_relationship && expand.distinct_from.is_empty();
        fits.then(|| Replacement::ByNeighbour {
            input: expand.input,
            from: expand.from,
            step: ExpandStep {
                direction: expand.direction,
                types: expand.types.clone(),
            },
        })
    }

    /// Counts of rows by the key of a node, over counts by that node. The planner groups by the node before it reads
    /// keys.
    fn by_key(&self, id: OpId, aggregate: &Aggregate) -> Option<GroupByKey> {
        let Op::Aggregate(below) = self.op(aggregate.input) else {
            return None;
        };
        let ([(_, key)], [count]) = (aggregate.keys.as_slice(), aggregate.factors.as_slice())
        else {
            return None;
        };
        let BoundExpr::Property { base, name, .. } = unplaced(key) else {
            return None;
        };
        let BoundExpr::Slot(node) = unplaced(base) else {
            return None;
        };
        let fits = self.arena.property_name(*name) == KEY
            && self.counts_by_node(below)
            && below.keys[0].0 == *node
            && below.aggregates.iter().any(|(slot, _)| slot == count)
            && aggregate
                .aggregates
                .iter()
                .all(|(_, call)| call.function == Aggregation::CountRows);
        fits.then(|| GroupByKey {
            node: *node,
            count: *count,
            first: self.first_groups(id, aggregate),
            aggregate: aggregate.clone(),
            fallback: LATER,
        })
    }

    /// Which groups are wanted, if the operator above takes the first ones in the order of their counts.
    fn first_groups(&self, id: OpId, aggregate: &Aggregate) -> Option<FirstGroups> {
        let operators = self.arena.operators.iter().enumerate();
        let mut above = operators.filter(|(at, _)| self.reachable.contains(*at));
        above.find_map(|(_, operator)| {
            let Op::Top { input, keys, limit } = &operator.op else {
                return None;
            };
            let first = keys.first().filter(|_| *input == id)?;
            let BoundExpr::Slot(by) = unplaced(&first.expr) else {
                return None;
            };
            let by_count = aggregate.aggregates.iter().any(|(slot, _)| slot == by);
            // Both operators evaluate the limit.
            (by_count && is_settled(limit)).then(|| FirstGroups {
                limit: limit.clone(),
                largest: first.descending,
            })
        })
    }

    /// The column that answers an aggregation: it counts a label's nodes by one property.
    fn by_column(&self, aggregate: &Aggregate) -> Option<CountByColumn> {
        let Op::LabelScan { input, node, label } = self.op(aggregate.input) else {
            return None;
        };
        let [(slot, key)] = aggregate.keys.as_slice() else {
            return None;
        };
        let counts = |call: &AggregateCall| match (call.function, call.arguments.as_slice()) {
            (Aggregation::CountRows, _) => true,
            (Aggregation::Count, [BoundExpr::Slot(slot)]) => !call.distinct && slot == node,
            _ => false,
        };
        let path = path_of(key, *node)?;
        let fits = matches!(self.op(*input), Op::Argument)
            && aggregate.factors.is_empty()
            && aggregate.aggregates.iter().all(|(_, call)| counts(call));
        fits.then(|| CountByColumn {
            input: *input,
            label: *label,
            path,
            key: *slot,
            counts: slots(aggregate),
            fallback: LATER,
        })
    }

    /// The two relationships whose paths an aggregation counts.
    fn paths(&self, aggregate: &Aggregate) -> Option<CountPaths> {
        let counts = |call: &AggregateCall| call.function == Aggregation::CountRows;
        let counts_rows =
            aggregate.keys.is_empty() && aggregate.aggregates.iter().all(|(_, call)| counts(call));
        let Op::Degree(degree) = self.op(aggregate.input) else {
            return None;
        };
        let Op::RelationshipScan(scan) = self.op(degree.input) else {
            return None;
        };
        let direction = if degree.from == scan.to {
            scan.direction.reversed()
        } else if degree.from == scan.from {
            scan.direction
        } else {
            return None;
        };
        let differ = match degree.distinct_from.as_slice() {
            [] => false,
            [one] if *one == scan.relationship => true,
            _ => return None,
        };
        let fits = counts_rows
            && matches!(self.op(scan.input), Op::Argument)
            && scan.from != scan.to
            && aggregate.factors == [degree.count];
        fits.then(|| CountPaths {
            input: scan.input,
            first: ExpandStep {
                direction,
                types: scan.types.clone(),
            },
            second: ExpandStep {
                direction: degree.direction,
                types: degree.types.clone(),
            },
            differ,
            counts: slots(aggregate),
            fallback: LATER,
        })
    }
}

/// The slots of an aggregation's results.
fn slots(aggregate: &Aggregate) -> Vec<SlotId> {
    aggregate.aggregates.iter().map(|(slot, _)| *slot).collect()
}

fn unplaced(mut expr: &BoundExpr) -> &BoundExpr {
    while let BoundExpr::At { inner, .. } = expr {
        expr = inner;
    }
    expr
}

/// The names in `node.a.b`.
fn path_of(expr: &BoundExpr, node: SlotId) -> Option<Vec<PropRef>> {
    let mut path = Vec::new();
    let mut at = expr;
    while let BoundExpr::Property { base, name, .. } = at {
        path.push(*name);
        at = base;
    }
    path.reverse();
    (matches!(at, BoundExpr::Slot(slot) if *slot == node) && !path.is_empty()).then_some(path)
}

#[cfg(test)]
mod tests {
    use crate::catalog::MockCatalog;
    use crate::physical::{InThread, Op};

    /// Whether threads may take part in the sort of a query.
    fn sorts_in_threads(query: &str) -> bool {
        let catalog = MockCatalog::new()
            .with_label("N", 20_000)
            .with_type("X", 20_000)
            .with_type("Y", 20_000);
        let plan = crate::prepare(query, &catalog, &crate::PlanningOptions::default()).unwrap();
        let is_sort = |op: &Op| match op {
            Op::Exchange(exchange) => !matches!(exchange.in_thread, InThread::Nothing),
            _ => false,
        };
        plan.operators.iter().any(|one| is_sort(&one.op))
    }

    #[test]
    fn keys_and_limits_that_are_drawn_are_drawn_once() {
        assert!(sorts_in_threads(
            "MATCH (n:N) RETURN n.i ORDER BY n.k LIMIT 10"
        ));
        assert!(sorts_in_threads("MATCH (n:N) RETURN n.i ORDER BY n.k"));
        for query in [
            "MATCH (n:N) RETURN n.i ORDER BY rand() LIMIT 10",
            "MATCH (n:N) RETURN n.i ORDER BY n.k, n.i + rand() LIMIT 10",
            "MATCH (n:N) RETURN n.i ORDER BY n.k LIMIT toInteger(rand() * 100)",
        ] {
            assert!(!sorts_in_threads(query), "{query}");
        }
    }

    #[test]
    fn relationships_of_two_types_keep_their_order() {
        assert!(sorts_in_threads(
            "MATCH ()-[r:X]->(b) RETURN b.i ORDER BY r.k LIMIT 10"
        ));
        assert!(!sorts_in_threads(
            "MATCH ()-[r:X|Y]->(b) RETURN b.i ORDER BY r.k LIMIT 10"
        ));
    }
}
