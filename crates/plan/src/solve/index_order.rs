//! Index order: sorts that an index makes unnecessary, and `min` and `max` without a scan.
//!
//! The rows of a seek come in the order of the index, and the operators of a chain keep the order of their input. A
//! node without a value for one of the index's fields is not in the index: a whole index can replace a label scan only
//! if a value is known to exist; otherwise the nodes without one, which are last in ascending order, are scanned after
//! the index, if the reader gets that far.

use isomer_value::IndexId;

use crate::arena::Arena;
use crate::catalog::IndexInfo;
use crate::expr::{AggregateCall, BoundExpr, Comparison, LabelRef, PropRef, SlotId};
use crate::function::Aggregation;
use crate::physical::{
    IndexRange, NodeIndexSeek, Op, OpId, RelationshipIndexSeek, RelationshipScan, SortKey,
    constant_count,
};

use super::cost::Costs;
use super::{Flow, Planner};

/// A full index scan replaces a sort if at most this fraction of the rows is wanted.
const SHARE_WANTED: f64 = 0.25;
/// Assumed value of a limit that is unknown when planning.
const UNKNOWN_LIMIT: f64 = 100.0;

/// A chain of operators that keep the order of their input, from a scan upwards.
struct Chain {
    /// From the top down, without the scan.
    above: Vec<OpId>,
    scan: OpId,
    /// The sort keys, as properties of the scan's node or relationship.
    path: Vec<Vec<PropRef>>,
    record: SlotId,
}

/// An index that orders what a scan finds.
struct OrderingIndex {
    /// The label of a label scan; absent for a scan of relationships.
    label: Option<LabelRef>,
    index: IndexId,
    /// Whether it contains all records of the chain's rows.
    whole: bool,
    /// Whether it has one field.
    alone: bool,
}

impl Planner<'_> {
    /// Whether the rows of `flow` come in the order of `keys`, or could be made to. `limit` is the number of rows
    /// wanted.
    pub(super) fn in_order(
        &mut self,
        flow: &mut Flow,
        keys: &[SortKey],
        limit: Option<&BoundExpr>,
    ) -> bool {
        let Some(descending) = keys.first().map(|key| key.descending) else {
            return false;
        };
        // An index scan has one direction.
        if keys.iter().any(|key| key.descending != descending) {
            return false;
        }
        let exprs: Vec<&BoundExpr> = keys.iter().map(|key| &key.expr).collect();
        let Some(chain) = chain(self.arena, flow.op, &exprs) else {
            return false;
        };
        if seek_in_order(self, &chain, descending) {
            return true;
        }
        let Some(limit) = limit else { return false };
        let wanted = constant_count(limit).unwrap_or(UNKNOWN_LIMIT);
        // Unlike a seek, a full index scan only pays if the limit stops it early.
        if wanted > SHARE_WANTED * self.arena.rows(flow.op) {
            return false;
        }
        let Some(ordering) = index_of(self, &chain) else {
            return false;
        };
        if ordering.whole {
            read_index(self, &chain, &ordering, descending);
            return true;
        }
        // Nodes without a value can be appended only where they sort last, and the union contains the chain twice.
        let Some(label) = ordering.label else {
            return false;
        };
        if descending || chain.path.len() > 1 || !can_repeat(self, &chain) {
            return false;
        }
        nulls_after_index(self, flow, &chain, label, &ordering, wanted);
        true
    }

    /// `min` or `max` of what an index orders: read from its first entry. The flow then ends with that row.
    pub(super) fn end_of_index(&mut self, flow: &mut Flow, aggregates: &[(SlotId, AggregateCall)]) {
        let [(_, call)] = aggregates else { return };
        let descending = match call.function {
            Aggregation::Min => false,
            Aggregation::Max => true,
            _ => return,
        };
        let [argument] = call.arguments.as_slice() else {
            return;
        };
        let Some(chain) = chain(self.arena, flow.op, &[argument]) else {
            return;
        };
        // Below the limit every row of a node counts once only if no operator multiplies rows. Multiplication would be
        // correct, but slower.
        let thins = |id: &OpId| {
            matches!(
                self.arena.operators[id.index()].op,
                Op::Filter { .. } | Op::Project { .. }
            )
        };
        if !chain.above.iter().all(thins) {
            return;
        }
        if !seek_in_order(self, &chain, descending) {
            // A node without a value does not affect the smallest and greatest one; but an index with other fields may
            // lack nodes that have one.
            let Some(ordering) = index_of(self, &chain) else {
                return;
            };
            if !ordering.whole && !ordering.alone {
                return;
            }
            read_index(self, &chain, &ordering, descending);
        }
        self.push(
            flow,
            |input| Op::Limit {
                input,
                count: BoundExpr::Const(isomer_value::Value::Int(1)),
            },
            1.0,
        );
    }
}

/// Makes an existing seek run in the order of the keys, if its index has that order.
fn seek_in_order(planner: &mut Planner<'_>, chain: &Chain, descending: bool) -> bool {
    let (indexes, id, equal) = match &planner.arena.operators[chain.scan.index()].op {
        Op::IndexSeek(seek) => {
            let indexes = label_indexes(planner, seek.label);
            (indexes, seek.index, seek.prefix.len())
        }
        Op::RelationshipIndexSeek(seek) => {
            let indexes = type_indexes(planner, &seek.scan);
            (indexes, seek.index, seek.prefix.len())
        }
        _ => return false,
    };
    let Some(index) = indexes.iter().find(|one| one.id == id) else {
        return false;
    };
    if index.each_element {
        return false;
    }
    // Fields that are fixed by an equality do not affect the order.
    let mut fields = index.paths[equal..].iter();
    let same = |path: &[PropRef], field: &[std::sync::Arc<str>]| same(planner.arena, path, field);
    let ordered = chain.path.iter().all(|path| {
        index.paths[..equal].iter().any(|field| same(path, field))
            || fields.next().is_some_and(|field| same(path, field))
    });
    if !ordered {
        return false;
    }
    match &mut planner.arena.operators[chain.scan.index()].op {
        Op::IndexSeek(seek) => seek.descending = descending,
        Op::RelationshipIndexSeek(seek) => seek.descending = descending,
        _ => return false,
    }
    true
}

fn label_indexes(planner: &Planner<'_>, label: LabelRef) -> Vec<IndexInfo> {
    let catalog = planner.costs.catalog;
    let label = catalog.label(planner.arena.label_name(label));
    label.map_or_else(Vec::new, |label| catalog.indexes(label))
}

/// The indexes over what a scan of one type finds.
fn type_indexes(planner: &Planner<'_>, scan: &RelationshipScan) -> Vec<IndexInfo> {
    let catalog = planner.costs.catalog;
    let [of_type] = scan.types[..] else {
        return Vec::new();
    };
    let of_type = catalog.relationship_type(planner.arena.type_name(of_type));
    of_type.map_or_else(Vec::new, |of_type| catalog.relationship_indexes(of_type))
}

/// An index that orders the records of a scan.
fn index_of(planner: &Planner<'_>, chain: &Chain) -> Option<OrderingIndex> {
    let (label, indexes) = match &planner.arena.operators[chain.scan.index()].op {
        Op::LabelScan { label, .. } => (Some(*label), label_indexes(planner, *label)),
        Op::RelationshipScan(scan) => (None, type_indexes(planner, scan)),
        _ => return None,
    };
    let id = label.and_then(|label| {
        let name = planner.arena.label_name(label);
        planner.costs.catalog.label(name)
    });
    let mut found = None;
    for index in indexes.iter().filter(|index| !index.each_element) {
        let orders = chain.path.len() <= index.paths.len()
            && chain
                .path
                .iter()
                .zip(&index.paths)
                .all(|(path, field)| same(planner.arena, path, field));
        if !orders {
            continue;
        }
        // Constraints hold between statements, not within a statement that writes.
        let required = |field: &[std::sync::Arc<str>]| {
            let is_required = |id| planner.costs.catalog.is_required(id, field);
            !planner.arena.updates && id.is_some_and(is_required)
        };
        let mut fields = index.paths.iter();
        let whole = fields.all(|field| required(field) || has_value(planner.arena, chain, field));
        let ordering = OrderingIndex {
            label,
            index: index.id,
            whole,
            alone: index.paths.len() == 1,
        };
        if whole {
            return Some(ordering);
        }
        if ordering.alone {
            found = Some(ordering);
        }
    }
    found
}

fn read_index(
    planner: &mut Planner<'_>,
    chain: &Chain,
    ordering: &OrderingIndex,
    descending: bool,
) {
    let operator = &mut planner.arena.operators[chain.scan.index()];
    let (index, prefix, range) = (ordering.index, Vec::new(), IndexRange::All);
    operator.op = match &operator.op {
        Op::LabelScan { input, node, label } => Op::IndexSeek(NodeIndexSeek {
            input: *input,
            node: *node,
            label: *label,
            index,
            prefix,
            range,
            descending,
        }),
        Op::RelationshipScan(scan) => Op::RelationshipIndexSeek(RelationshipIndexSeek {
            scan: scan.clone(),
            index,
            prefix,
            range,
            descending,
        }),
        _ => return,
    };
}

/// Whether the chain may be duplicated in a plan.
fn can_repeat(planner: &Planner<'_>, chain: &Chain) -> bool {
    let plain = |id: &OpId| match &planner.arena.operators[id.index()].op {
        Op::Filter { predicates, .. } => predicates.iter().all(has_no_plan),
        Op::Project { columns, .. } => columns.iter().all(|(_, column)| has_no_plan(column)),
        _ => false,
    };
    chain.above.iter().all(plain)
}

/// The rows of the index in its order, then those of the nodes without a value.
fn nulls_after_index(
    planner: &mut Planner<'_>,
    flow: &mut Flow,
    chain: &Chain,
    label: LabelRef,
    ordering: &OrderingIndex,
    wanted: f64,
) {
    let rows = planner.arena.rows(flow.op);
    read_index(planner, chain, ordering, false);
    let leaf = planner.argument();
    let count = planner.costs.nodes(Some(label), planner.arena);
    let node = chain.record;
    let scan = planner.arena.push(
        Op::LabelScan {
            input: leaf,
            node,
            label,
        },
        count,
    );
    let value = BoundExpr::path(BoundExpr::Slot(node), &chain.path[0]);
    let mut top = planner.arena.push(
        Op::Filter {
            input: scan,
            predicates: vec![BoundExpr::IsNull(Box::new(value))],
        },
        (rows - wanted).clamp(0.0, count * 0.1),
    );
    for id in chain.above.iter().rev() {
        let operator = planner.arena.operators[id.index()].clone();
        let mut op = operator.op;
        op.map_children(&mut |_| top);
        top = planner.arena.push(op, operator.rows * 0.1);
    }
    let inputs = vec![flow.op, top];
    flow.op = planner.arena.push(Op::Union { inputs }, rows);
}

/// The chain below `top`, if its rows come from one scan of a node whose properties are the keys.
fn chain(arena: &Arena, top: OpId, keys: &[&BoundExpr]) -> Option<Chain> {
    let mut keys: Vec<BoundExpr> = keys.iter().map(|key| (*key).clone()).collect();
    let mut above = Vec::new();
    let mut at = top;
    loop {
        let op = &arena.operators[at.index()].op;
        let below = match op {
            Op::Filter { input, .. } | Op::SemiApply { input, .. } => *input,
            Op::Expand(expand) => expand.input,
            Op::ExpandInto(expand) => expand.input,
            Op::Project { input, columns } => {
                for key in &mut keys {
                    if let BoundExpr::Slot(slot) = key
                        && let Some((_, column)) = columns.iter().find(|(own, _)| own == slot)
                    {
                        *key = column.clone();
                    }
                }
                *input
            }
            Op::LabelScan { input, node, .. } => {
                return of_scan(arena, at, *input, *node, &keys, above);
            }
            Op::IndexSeek(seek) => {
                return of_scan(arena, at, seek.input, seek.node, &keys, above);
            }
            Op::RelationshipScan(scan)
            | Op::RelationshipIndexSeek(RelationshipIndexSeek { scan, .. }) => {
                return of_scan(arena, at, scan.input, scan.relationship, &keys, above);
            }
            _ => return None,
        };
        above.push(at);
        at = below;
    }
}

fn of_scan(
    arena: &Arena,
    scan: OpId,
    input: OpId,
    record: SlotId,
    keys: &[BoundExpr],
    above: Vec<OpId>,
) -> Option<Chain> {
    // A right side runs per outer row: the order would start again for each.
    if !matches!(arena.operators[input.index()].op, Op::Argument) {
        return None;
    }
    let path = keys
        .iter()
        .map(|key| path_of(key, record))
        .collect::<Option<Vec<_>>>()?;
    Some(Chain {
        above,
        scan,
        path,
        record,
    })
}

fn path_of(key: &BoundExpr, record: SlotId) -> Option<Vec<PropRef>> {
    let mut path = Vec::new();
    let mut at = key;
    while let BoundExpr::Property { base, name, .. } = at {
        path.push(*name);
        at = base;
    }
    path.reverse();
    matches!(at, BoundExpr::Slot(slot) if *slot == record && !path.is_empty()).then_some(path)
}

fn same(arena: &Arena, path: &[PropRef], field: &[std::sync::Arc<str>]) -> bool {
    path.len() == field.len()
        && path
            .iter()
            .zip(field)
            .all(|(name, part)| arena.property_name(*name) == &**part)
}

/// Whether a filter of the chain only passes nodes that have a value there.
fn has_value(arena: &Arena, chain: &Chain, field: &[std::sync::Arc<str>]) -> bool {
    let is_field = |expr: &BoundExpr| {
        path_of(expr, chain.record).is_some_and(|path| same(arena, &path, field))
    };
    let demands = |predicate: &BoundExpr| match predicate {
        BoundExpr::IsNotNull(value) => is_field(value),
        // Comparisons with null are never true.
        BoundExpr::Compare { op, left, right } => {
            *op != Comparison::NotEqual && (is_field(left) || is_field(right))
        }
        BoundExpr::StringTest { left, .. } => is_field(left),
        _ => false,
    };
    chain
        .above
        .iter()
        .any(|id| match &arena.operators[id.index()].op {
            Op::Filter { predicates, .. } => predicates.iter().any(demands),
            _ => false,
        })
}

fn has_no_plan(expr: &BoundExpr) -> bool {
    let mut plain = !matches!(expr, BoundExpr::Subquery(_));
    expr.for_each_child(&mut |child| plain &= has_no_plan(child));
    plain
}

/// Estimated number of distinct combinations of grouping keys: at most the number of rows.
pub(super) fn groups(
    costs: &Costs<'_>,
    arena: &Arena,
    keys: &[(SlotId, BoundExpr)],
    rows: f64,
) -> f64 {
    if keys.is_empty() {
        return 1.0;
    }
    let unknown = rows.sqrt();
    let mut product = 1.0;
    for (_, key) in keys {
        match costs.distinct(key, arena) {
            Some(distinct) => product *= distinct.max(1.0),
            None => return unknown.max(product).min(rows).max(rows.min(1.0)),
        }
    }
    product.min(rows).max(rows.min(1.0))
}
