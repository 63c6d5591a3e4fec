//! Operators as text: a line each.

use super::expression::ExprPrinter;
use super::{pattern, write};
use crate::expr::{AggregateCall, BoundExpr, LabelRef, SlotId};
use crate::physical::{
    Aggregate, BatchApply, Count, CountByColumn, CountByNeighbour, CountOf, GroupByKey, InThread,
    IndexRange, NodeIndexSeek, OnBatchError, Op, OpId, ProcedureCall, RelationshipIndexSeek,
    SeekBound, SeekKeys, SortKey,
};

/// The operator's name.
pub(super) fn name(op: &Op) -> &'static str {
    match op {
        Op::Argument => "Argument",
        Op::AllNodesScan { .. } => "AllNodesScan",
        Op::LabelScan { .. } => "LabelScan",
        Op::NodeByKey { .. } => "NodeByKey",
        Op::NodeById { .. } => "NodeById",
        Op::IndexSeek(_) => "IndexSeek",
        Op::RelationshipIndexSeek(_) => "RelationshipIndexSeek",
        Op::RelationshipScan(_) => "RelationshipScan",
        Op::RelationshipById { .. } => "RelationshipById",
        Op::Expand(expand) if expand.group => "ExpandGroup",
        Op::Expand(_) => "Expand",
        Op::DistinctEnds(_) => "DistinctEnds",
        Op::ExpandInto(_) => "ExpandInto",
        Op::Degree(_) => "Degree",
        Op::Count(_) => "Count",
        Op::VarExpand(_) => "VarExpand",
        Op::ShortestPath(shortest) if shortest.all => "AllShortestPaths",
        Op::ShortestPath(_) => "ShortestPath",
        Op::PathSearch(search) if search.selector.is_some() => "ShortestWalks",
        Op::PathSearch(_) => "RepeatExpand",
        Op::RelationshipEnds(_) => "RelationshipEnds",
        Op::Apply { .. } => "Apply",
        Op::BatchApply(_) => "ApplyInTransactions",
        Op::OptionalApply { .. } => "OptionalApply",
        Op::SemiApply { anti: false, .. } => "SemiApply",
        Op::SemiApply { anti: true, .. } => "AntiSemiApply",
        Op::CountApply { .. } => "CountApply",
        Op::CartesianProduct { .. } => "CartesianProduct",
        Op::HashJoin { .. } => "HashJoin",
        Op::Union { .. } => "Union",
        Op::Filter { .. } => "Filter",
        Op::Project { .. } => "Project",
        Op::Aggregate(_) => "Aggregate",
        Op::CountByNode(_) => "CountByNode",
        Op::CountByNeighbour(_) => "CountByNeighbour",
        Op::GroupByKey(_) => "GroupByKey",
        Op::CountByColumn(_) => "CountByColumn",
        Op::CountPaths(_) => "CountPaths",
        Op::Exchange(_) => "Exchange",
        Op::Distinct { .. } => "Distinct",
        Op::Sort { .. } => "Sort",
        Op::Top { .. } => "Top",
        Op::Skip { .. } => "Skip",
        Op::Limit { .. } => "Limit",
        Op::Unwind { .. } => "Unwind",
        Op::ProcedureCall(_) => "ProcedureCall",
        Op::LoadCsv { .. } => "LoadCsv",
        Op::Eager { .. } => "Eager",
        Op::Create { .. } => "Create",
        Op::Merge(_) => "Merge",
        Op::Set { .. } => "Set",
        Op::Delete { detach: true, .. } => "DetachDelete",
        Op::Delete { .. } => "Delete",
        Op::ForEach { .. } => "ForEach",
        Op::ProduceResult { .. } => "ProduceResult",
        Op::Show { .. } => "Show",
    }
}

/// The role of an operator's inputs other than the first; of all inputs of a union.
pub(super) fn role(op: &Op) -> &'static str {
    match op {
        Op::Union { .. } => "branch",
        op if op.fallback().is_some() => "fallback",
        Op::Merge(_) => "match",
        Op::ForEach { .. } => "each",
        Op::HashJoin { .. } => "build",
        _ => "right",
    }
}

/// How the right side of an apply is run: for a whole chunk of outer rows at once, or for each of them.
fn run_of(p: &ExprPrinter<'_>, right: OpId) -> &'static str {
    match p.plan.runs_batched(right) {
        true => "batched",
        false => "",
    }
}

/// Two details, of which the second may be empty.
fn joined(first: &str, second: &str) -> String {
    match second {
        "" => first.to_owned(),
        second => format!("{first} {second}"),
    }
}

/// Details of the operator, in one line.
pub(super) fn details(p: &ExprPrinter<'_>, op: &Op) -> String {
    match op {
        Op::Argument | Op::Eager { .. } | Op::Union { .. } | Op::CartesianProduct { .. } => {
            String::new()
        }
        Op::AllNodesScan { node, .. } => p.slot(*node),
        Op::LabelScan { node, label, .. } => labelled(p, *node, *label),
        Op::NodeByKey {
            node, label, keys, ..
        } => format!("{} _key {}", labelled(p, *node, *label), keys_text(p, keys)),
        Op::NodeById { node, ids, .. } => format!("{} {}", p.slot(*node), keys_text(p, ids)),
        Op::IndexSeek(seek) => index_seek(p, seek),
        Op::RelationshipScan(scan) => pattern::relationship_scan(p, scan),
        Op::RelationshipIndexSeek(seek) => relationship_index_seek(p, seek),
        Op::RelationshipById {
            relationship,
            from,
            to,
            direction,
            ids,
            ..
        } => {
            let one = pattern::relationship(p, *relationship, *from, *direction, *to);
            format!("{one} {}", keys_text(p, ids))
        }
        Op::Expand(expand) => pattern::expand(p, expand),
        Op::DistinctEnds(ends) => pattern::distinct_ends(p, ends),
        Op::ExpandInto(expand) => pattern::expand_into(p, expand),
        Op::Degree(degree) => pattern::degree(p, degree),
        Op::VarExpand(expand) => pattern::var_expand(p, expand),
        Op::ShortestPath(shortest) => pattern::shortest_path(p, shortest),
        Op::PathSearch(search) => pattern::path_search(p, search),
        Op::RelationshipEnds(ends) => pattern::relationship_ends(p, ends),
        Op::Apply { right, .. } | Op::SemiApply { right, .. } => run_of(p, *right).to_owned(),
        Op::OptionalApply { nulls, right, .. } => joined(&p.slots(nulls), run_of(p, *right)),
        Op::BatchApply(batches) => batch_apply(p, batches),
        Op::CountApply {
            count,
            factor,
            right,
            ..
        } => {
            let counted = match factor {
                Some(factor) => format!("{} times {}", p.slot(*count), p.slot(*factor)),
                None => p.slot(*count),
            };
            joined(&counted, run_of(p, *right))
        }
        Op::HashJoin {
            input_keys,
            right_keys,
            ..
        } => join_keys(p, input_keys, right_keys),
        Op::Count(count) => stored_count(p, count),
        Op::Filter { predicates, .. } => p.list(predicates, " AND "),
        Op::Project { columns, .. } => assignments(p, columns),
        Op::Aggregate(aggregate) | Op::CountByNode(aggregate) => aggregation(p, aggregate),
        Op::CountByNeighbour(count) => count_by_neighbour(p, count),
        Op::GroupByKey(group) => group_by_key(p, group),
        Op::CountByColumn(count) => count_by_column(p, count),
        Op::CountPaths(count) => pattern::count_paths(p, count),
        Op::Exchange(exchange) => in_thread(p, &exchange.in_thread),
        Op::Distinct { slots, .. } => p.slots(slots),
        Op::Sort { keys, .. } => sort_keys(p, keys),
        Op::Top { keys, limit, .. } => top(p, keys, limit),
        Op::Skip { count, .. } | Op::Limit { count, .. } => p.expr(count),
        Op::Unwind {
            list,
            element,
            position: Some((position, first)),
            ..
        } => format!(
            "{} IN {} WITH {} {}",
            p.slot(*element),
            p.expr(list),
            if *first == 0 { "OFFSET" } else { "ORDINALITY" },
            p.slot(*position)
        ),
        Op::Unwind { list, element, .. } | Op::ForEach { list, element, .. } => {
            format!("{} IN {}", p.slot(*element), p.expr(list))
        }
        Op::ProcedureCall(call) => procedure_call(p, call),
        Op::LoadCsv { url, row, .. } => format!("{} from {}", p.slot(*row), p.expr(url)),
        Op::Create { pattern, .. } => write::create(p, pattern),
        Op::Merge(merge) => write::merge(p, merge),
        Op::Set { items, .. } => write::set(p, items),
        Op::Delete { targets, .. } => p.list(targets, ", "),
        Op::ProduceResult { columns, .. } => p.slots(columns),
        Op::Show { show, .. } => show.title().to_owned(),
    }
}

/// A node and its label.
fn labelled(p: &ExprPrinter<'_>, node: SlotId, label: LabelRef) -> String {
    format!("{}:{}", p.slot(node), p.plan.label_name(label))
}

fn index_seek(p: &ExprPrinter<'_>, seek: &NodeIndexSeek) -> String {
    let found = labelled(p, seek.node, seek.label);
    let range = index_range(p, &seek.prefix, &seek.range, seek.descending);
    format!("{found} index {}{range}", seek.index)
}

fn relationship_index_seek(p: &ExprPrinter<'_>, seek: &RelationshipIndexSeek) -> String {
    let found = pattern::relationship_scan(p, &seek.scan);
    let range = index_range(p, &seek.prefix, &seek.range, seek.descending);
    format!("{found} index {}{range}", seek.index)
}

/// What is read of an index, after a space: nothing for the whole index.
fn index_range(
    p: &ExprPrinter<'_>,
    prefix: &[BoundExpr],
    range: &IndexRange,
    descending: bool,
) -> String {
    let equal = prefix.iter();
    let mut parts: Vec<String> = equal.map(|value| format!("= {}", p.expr(value))).collect();
    parts.extend(range_text(p, range));
    let mut text = String::new();
    if !parts.is_empty() {
        text.push(' ');
        text.push_str(&parts.join(", "));
    }
    if descending {
        text.push_str(" descending");
    }
    text
}

fn join_keys(p: &ExprPrinter<'_>, input_keys: &[BoundExpr], right_keys: &[BoundExpr]) -> String {
    let pairs = input_keys.iter().zip(right_keys);
    let keys: Vec<String> = pairs
        .map(|(a, b)| format!("{} = {}", p.expr(a), p.expr(b)))
        .collect();
    keys.join(", ")
}

fn stored_count(p: &ExprPrinter<'_>, count: &Count) -> String {
    let of = match &count.of {
        CountOf::Nodes(None) => "()".to_owned(),
        CountOf::Nodes(Some(label)) => format!("(:{})", p.plan.label_name(*label)),
        CountOf::Relationships(types) => format!("()-[{}]->()", pattern::types(p, types)),
    };
    format!("{of} as {}", p.slots(&count.counts))
}

fn count_by_neighbour(p: &ExprPrinter<'_>, count: &CountByNeighbour) -> String {
    let (from, to) = (p.slot(count.from), end_of(p, &count.aggregate));
    let over = pattern::steps(p, &from, std::slice::from_ref(&count.step), &to);
    format!("{} over {over}", aggregation(p, &count.aggregate))
}

fn group_by_key(p: &ExprPrinter<'_>, group: &GroupByKey) -> String {
    let mut text = aggregation(p, &group.aggregate);
    if let Some(first) = &group.first {
        let which = if first.largest { "largest" } else { "smallest" };
        text.push_str(&format!(" {which} {}", p.expr(&first.limit)));
    }
    text
}

fn count_by_column(p: &ExprPrinter<'_>, count: &CountByColumn) -> String {
    let names = count.path.iter().map(|name| &**p.plan.property_name(*name));
    let path: Vec<&str> = names.collect();
    format!(
        "{} by {} over :{}.{}",
        p.slots(&count.counts),
        p.slot(count.key),
        p.plan.label_name(count.label),
        path.join(".")
    )
}

/// What each thread of an exchange does with its rows.
fn in_thread(p: &ExprPrinter<'_>, in_thread: &InThread) -> String {
    match in_thread {
        InThread::Nothing => String::new(),
        InThread::Distinct(slots) => format!("distinct {}", p.slots(slots)),
        InThread::Sort => "in order".to_owned(),
        InThread::Top { keys, limit } => format!("top {}", top(p, keys, limit)),
    }
}

fn top(p: &ExprPrinter<'_>, keys: &[SortKey], limit: &BoundExpr) -> String {
    format!("{} by {}", p.expr(limit), sort_keys(p, keys))
}

fn procedure_call(p: &ExprPrinter<'_>, call: &ProcedureCall) -> String {
    let results = &call.procedure.results;
    let one = |(position, slot): &(usize, SlotId)| {
        format!("{} as {}", results[*position].name, p.slot(*slot))
    };
    let yields: Vec<String> = call.yields.iter().map(one).collect();
    format!(
        "{}({}) {}",
        call.procedure.name,
        p.list(&call.arguments, ", "),
        yields.join(", ")
    )
}

/// The node by which an aggregation counts.
fn end_of(p: &ExprPrinter<'_>, aggregate: &Aggregate) -> String {
    let keys = aggregate.keys.iter().map(|(_, key)| p.expr(key));
    keys.collect::<Vec<_>>().join(", ")
}

fn aggregation(p: &ExprPrinter<'_>, aggregate: &Aggregate) -> String {
    let keys = assignments(p, &aggregate.keys);
    let calls: Vec<String> = aggregate
        .aggregates
        .iter()
        .map(|(slot, call)| named(p, *slot, &aggregate_text(p, call)))
        .collect();
    let mut text = calls.join(", ");
    if !keys.is_empty() {
        text.push_str(&format!(
            "{}by {keys}",
            if text.is_empty() { "" } else { " " }
        ));
    }
    if !aggregate.factors.is_empty() {
        text.push_str(&format!(" times {}", p.slots(&aggregate.factors)));
    }
    text
}

fn keys_text(p: &ExprPrinter<'_>, keys: &SeekKeys) -> String {
    match keys {
        SeekKeys::One(key) => format!("= {}", p.expr(key)),
        SeekKeys::Each(keys) => format!("IN {}", p.expr(keys)),
    }
}

fn range_text(p: &ExprPrinter<'_>, range: &IndexRange) -> Option<String> {
    let bound = |bound: &SeekBound, open: &str, closed: &str| match bound {
        SeekBound::Unbounded => None,
        SeekBound::Included(value) => Some(format!("{closed} {}", p.expr(value))),
        SeekBound::Excluded(value) => Some(format!("{open} {}", p.expr(value))),
    };
    match range {
        IndexRange::All => None,
        IndexRange::Keys(keys) => Some(keys_text(p, keys)),
        IndexRange::StartsWith(prefix) => Some(format!("STARTS WITH {}", p.expr(prefix))),
        IndexRange::Between(low, high) => {
            let parts: Vec<String> = bound(low, ">", ">=")
                .into_iter()
                .chain(bound(high, "<", "<="))
                .collect();
            Some(parts.join(" and "))
        }
    }
}

fn named(p: &ExprPrinter<'_>, slot: SlotId, text: &str) -> String {
    let name = p.slot(slot);
    if name == text {
        name
    } else {
        format!("{text} as {name}")
    }
}

fn assignments(p: &ExprPrinter<'_>, columns: &[(SlotId, BoundExpr)]) -> String {
    let one = |(slot, expr): &(SlotId, BoundExpr)| named(p, *slot, &p.expr(expr));
    columns.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn aggregate_text(p: &ExprPrinter<'_>, call: &AggregateCall) -> String {
    let name = call.function.name().trim_end_matches("(*)");
    let distinct = if call.distinct { "DISTINCT " } else { "" };
    let arguments = if call.arguments.is_empty() {
        "*".to_owned()
    } else {
        p.list(&call.arguments, ", ")
    };
    format!("{name}({distinct}{arguments})")
}

fn sort_keys(p: &ExprPrinter<'_>, keys: &[SortKey]) -> String {
    let key = |key: &SortKey| {
        format!(
            "{}{}",
            p.expr(&key.expr),
            if key.descending { " DESC" } else { "" }
        )
    };
    keys.iter().map(key).collect::<Vec<_>>().join(", ")
}

/// `of 1000 rows, on error continue`
fn batch_apply(p: &ExprPrinter<'_>, batches: &BatchApply) -> String {
    let mut parts = Vec::new();
    if let Some(rows) = &batches.batch_rows {
        parts.push(format!("of {} rows", p.expr(rows)));
    }
    if let Some(count) = &batches.concurrency {
        parts.push(format!("{} concurrent", p.expr(count)));
    }
    match batches.on_error {
        OnBatchError::Fail => {}
        OnBatchError::Continue => parts.push("on error continue".to_owned()),
        OnBatchError::Break => parts.push("on error break".to_owned()),
    }
    if let Some(status) = batches.status {
        parts.push(format!("status {}", p.slot(status)));
    }
    parts.join(", ")
}
