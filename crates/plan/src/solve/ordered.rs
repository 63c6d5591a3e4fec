//! Rows in the order of an index: sorts that are not needed, the smallest and largest value without a scan.
//!
//! The rows of a seek come in the order of the index, and the operators looked through here keep the order of their
//! input. What is not in an index is a node without a value for one of its fields: a whole index stands for a label only
//! where something says that there is a value; otherwise the nodes without one, the last of an ascending order, are scanned
//! after the index, where somebody reads on so far.

use isomer_value::IndexId;

use crate::arena::Arena;
use crate::expr::{AggregateCall, Comparison, Expr, LabelRef, PropRef, SlotId};
use crate::function::Aggregation;
use crate::physical::{IndexRange, IndexSeek, Op, OpId, SortKey, constant_count};

use super::cost::Costs;
use super::{Flow, Planner};

/// A whole index is read in its order where a sort wants no more than this share of the rows.
const SHARE_WANTED: f64 = 0.25;
/// What a limit that is not known yet is taken for.
const UNKNOWN_LIMIT: f64 = 100.0;

/// A chain of operators that keep the order of their input, from a scan upwards.
struct Chain {
    /// From the top down, without the scan.
    above: Vec<OpId>,
    scan: OpId,
    /// What is sorted by, as the scan's node has it.
    path: Vec<Vec<PropRef>>,
    node: SlotId,
}

impl Planner<'_> {
    /// Whether the rows of `flow` come, or were made to come, in the order of `keys`. `limit` says how many of them are
    /// wanted.
    pub(super) fn in_order(
        &mut self,
        flow: &mut Flow,
        keys: &[SortKey],
        limit: Option<&Expr>,
    ) -> bool {
        let Some(descending) = keys.first().map(|key| key.descending) else {
            return false;
        };
        if keys.iter().any(|key| key.descending != descending) {
            return false;
        }
        let exprs: Vec<&Expr> = keys.iter().map(|key| &key.expr).collect();
        let Some(chain) = chain(self.arena, flow.op, &exprs) else {
            return false;
        };
        if self.seek_in_order(&chain, descending) {
            return true;
        }
        let Some(limit) = limit else { return false };
        let wanted = constant_count(limit).unwrap_or(UNKNOWN_LIMIT);
        if wanted > SHARE_WANTED * self.arena.rows(flow.op) {
            return false;
        }
        let Some((label, index, whole)) = self.index_of(&chain) else {
            return false;
        };
        if whole {
            self.read_index(&chain, label, index, descending);
            return true;
        }
        if descending || chain.path.len() > 1 || !self.can_repeat(&chain) {
            return false;
        }
        self.nulls_after_index(flow, &chain, label, index, wanted);
        true
    }

    /// Lets a seek that is there already run in the order of the keys, where its index has it.
    fn seek_in_order(&mut self, chain: &Chain, descending: bool) -> bool {
        let Op::IndexSeek(seek) = &self.arena.operators[chain.scan.index()].op else {
            return false;
        };
        let Some(id) = self.costs.catalog.label(self.arena.label_name(seek.label)) else {
            return false;
        };
        let indexes = self.costs.catalog.indexes(id);
        let Some(index) = indexes.iter().find(|one| one.id == seek.index) else {
            return false;
        };
        if index.each_element {
            return false;
        }
        // Fields that are all equal order nothing.
        let equal = seek.prefix.len();
        let mut fields = index.paths[equal..].iter();
        let same = |path: &[PropRef], field: &[std::sync::Arc<str>]| same(self.arena, path, field);
        let ordered = chain.path.iter().all(|path| {
            index.paths[..equal].iter().any(|field| same(path, field))
                || fields.next().is_some_and(|field| same(path, field))
        });
        if !ordered {
            return false;
        }
        if let Op::IndexSeek(seek) = &mut self.arena.operators[chain.scan.index()].op {
            seek.descending = descending;
        }
        true
    }

    /// An index that orders the nodes of a label scan, and whether no node of the chain's rows is missing from it.
    fn index_of(&self, chain: &Chain) -> Option<(LabelRef, IndexId, bool)> {
        let Op::LabelScan { label, .. } = self.arena.operators[chain.scan.index()].op else {
            return None;
        };
        let id = self.costs.catalog.label(self.arena.label_name(label))?;
        let indexes = self.costs.catalog.indexes(id);
        let mut found = None;
        for index in indexes.iter().filter(|index| !index.each_element) {
            let orders = chain.path.len() <= index.paths.len()
                && chain
                    .path
                    .iter()
                    .zip(&index.paths)
                    .all(|(path, field)| same(self.arena, path, field));
            if !orders {
                continue;
            }
            let whole = index.paths.iter().all(|field| {
                self.costs.catalog.is_required(id, field) || has_value(self.arena, chain, field)
            });
            if whole {
                return Some((label, index.id, true));
            }
            if index.paths.len() == 1 {
                found = Some((label, index.id, false));
            }
        }
        found
    }

    fn read_index(&mut self, chain: &Chain, label: LabelRef, index: IndexId, descending: bool) {
        let operator = &mut self.arena.operators[chain.scan.index()];
        let [input] = operator.op.children()[..] else {
            return;
        };
        operator.op = Op::IndexSeek(IndexSeek {
            input,
            node: chain.node,
            label,
            index,
            prefix: Vec::new(),
            range: IndexRange::All,
            descending,
        });
    }

    /// Whether the chain may stand twice in a plan.
    fn can_repeat(&self, chain: &Chain) -> bool {
        let plain = |id: &OpId| match &self.arena.operators[id.index()].op {
            Op::Filter { predicates, .. } => predicates.iter().all(has_no_plan),
            Op::Project { columns, .. } => columns.iter().all(|(_, column)| has_no_plan(column)),
            _ => false,
        };
        chain.above.iter().all(plain)
    }

    /// The rows of the index in its order, then those of the nodes without a value.
    fn nulls_after_index(
        &mut self,
        flow: &mut Flow,
        chain: &Chain,
        label: LabelRef,
        index: IndexId,
        wanted: f64,
    ) {
        let rows = self.arena.rows(flow.op);
        self.read_index(chain, label, index, false);
        let leaf = self.argument();
        let count = self.costs.nodes(Some(label), self.arena);
        let node = chain.node;
        let scan = self.arena.push(
            Op::LabelScan {
                input: leaf,
                node,
                label,
            },
            count,
        );
        let value = chain.path[0]
            .iter()
            .fold(Expr::Slot(node), |base, name| Expr::Property {
                base: Box::new(base),
                name: *name,
            });
        let mut top = self.arena.push(
            Op::Filter {
                input: scan,
                predicates: vec![Expr::IsNull(Box::new(value))],
            },
            (rows - wanted).clamp(0.0, count * 0.1),
        );
        for id in chain.above.iter().rev() {
            let operator = self.arena.operators[id.index()].clone();
            let mut op = operator.op;
            op.map_children(&mut |_| top);
            top = self.arena.push(op, operator.rows * 0.1);
        }
        let inputs = vec![flow.op, top];
        flow.op = self.arena.push(Op::Union { inputs }, rows);
    }

    /// `min` or `max` of what an index orders: of its first entry. The flow then ends with that row.
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
        // Below the limit every row of a node counts once only if nothing multiplies them; more would do no harm, but
        // nothing is gained by it either.
        let thins = |id: &OpId| {
            matches!(
                self.arena.operators[id.index()].op,
                Op::Filter { .. } | Op::Project { .. }
            )
        };
        if !chain.above.iter().all(thins) {
            return;
        }
        if !self.seek_in_order(&chain, descending) {
            // A node without a value says nothing about the smallest and largest one; of an index with other fields
            // nodes may be missing that have one.
            let Some((label, index, whole)) = self.index_of(&chain) else {
                return;
            };
            let alone = self
                .costs
                .catalog
                .label(self.arena.label_name(label))
                .is_some_and(|id| {
                    let indexes = self.costs.catalog.indexes(id);
                    indexes
                        .iter()
                        .any(|one| one.id == index && one.paths.len() == 1)
                });
            if !whole && !alone {
                return;
            }
            self.read_index(&chain, label, index, descending);
        }
        self.push(
            flow,
            |input| Op::Limit {
                input,
                count: Expr::Const(isomer_value::Value::Int(1)),
            },
            1.0,
        );
    }
}

/// The chain below `top` if its rows come from one scan of a node whose properties the keys are.
fn chain(arena: &Arena, top: OpId, keys: &[&Expr]) -> Option<Chain> {
    let mut keys: Vec<Expr> = keys.iter().map(|key| (*key).clone()).collect();
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
                    if let Expr::Slot(slot) = key
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
    node: SlotId,
    keys: &[Expr],
    above: Vec<OpId>,
) -> Option<Chain> {
    // Once for all: of several rows below each would bring the order anew.
    if !matches!(arena.operators[input.index()].op, Op::Argument) {
        return None;
    }
    let path = keys
        .iter()
        .map(|key| path_of(key, node))
        .collect::<Option<Vec<_>>>()?;
    Some(Chain {
        above,
        scan,
        path,
        node,
    })
}

fn path_of(key: &Expr, node: SlotId) -> Option<Vec<PropRef>> {
    let mut path = Vec::new();
    let mut at = key;
    while let Expr::Property { base, name } = at {
        path.push(*name);
        at = base;
    }
    path.reverse();
    matches!(at, Expr::Slot(slot) if *slot == node && !path.is_empty()).then_some(path)
}

fn same(arena: &Arena, path: &[PropRef], field: &[std::sync::Arc<str>]) -> bool {
    path.len() == field.len()
        && path
            .iter()
            .zip(field)
            .all(|(name, part)| arena.property_name(*name) == &**part)
}

/// Whether a filter of the chain passes only nodes that have a value there.
fn has_value(arena: &Arena, chain: &Chain, field: &[std::sync::Arc<str>]) -> bool {
    let is_field =
        |expr: &Expr| path_of(expr, chain.node).is_some_and(|path| same(arena, &path, field));
    let demands = |predicate: &Expr| match predicate {
        Expr::IsNotNull(value) => is_field(value),
        // Null compares with nothing.
        Expr::Compare { op, left, right } => {
            *op != Comparison::NotEqual && (is_field(left) || is_field(right))
        }
        Expr::StringTest { left, .. } => is_field(left),
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

fn has_no_plan(expr: &Expr) -> bool {
    let mut plain = !matches!(expr, Expr::Subquery(_));
    expr.for_each_child(&mut |child| plain &= has_no_plan(child));
    plain
}

/// How many distinct combinations the keys of a grouping have: no more than there are rows.
pub(super) fn groups(costs: &Costs<'_>, arena: &Arena, keys: &[(SlotId, Expr)], rows: f64) -> f64 {
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
