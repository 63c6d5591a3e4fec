//! Operators as text.

use super::expression::Printer;
use crate::expr::{AggregateCall, Expr, SlotId, TypeRef};
use crate::physical::{
    Aggregate, CountOf, CreateItem, CreatePattern, Direction, InThread, IndexRange, Op, PathSearch,
    Properties, SeekBound, SeekKeys, SetItem, SortKey, Step,
};
use crate::schema::{SchemaCommand, SchemaTarget};
use crate::walk::{Selector, WalkStep};

/// The operator's name.
pub(super) fn name(op: &Op) -> &'static str {
    match op {
        Op::Argument => "Argument",
        Op::AllNodesScan { .. } => "AllNodesScan",
        Op::LabelScan { .. } => "LabelScan",
        Op::NodeByKey { .. } => "NodeByKey",
        Op::NodeById { .. } => "NodeById",
        Op::IndexSeek(_) => "IndexSeek",
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

/// Details of the operator, in one line.
pub(super) fn details(p: &Printer<'_>, op: &Op) -> String {
    match op {
        Op::Argument
        | Op::Eager { .. }
        | Op::Union { .. }
        | Op::Apply { .. }
        | Op::SemiApply { .. }
        | Op::CartesianProduct { .. } => String::new(),
        Op::AllNodesScan { node, .. } => p.slot(*node),
        Op::LabelScan { node, label, .. } => {
            format!("{}:{}", p.slot(*node), p.plan.label_name(*label))
        }
        Op::NodeByKey {
            node, label, keys, ..
        } => {
            format!(
                "{}:{} _key {}",
                p.slot(*node),
                p.plan.label_name(*label),
                keys_text(p, keys)
            )
        }
        Op::NodeById { node, ids, .. } => format!("{} {}", p.slot(*node), keys_text(p, ids)),
        Op::IndexSeek(seek) => {
            let mut parts: Vec<String> = seek
                .prefix
                .iter()
                .map(|value| format!("= {}", p.expr(value)))
                .collect();
            parts.extend(range_text(p, &seek.range));
            let mut text = format!(
                "{}:{} index {}",
                p.slot(seek.node),
                p.plan.label_name(seek.label),
                seek.index
            );
            if !parts.is_empty() {
                text.push(' ');
                text.push_str(&parts.join(", "));
            }
            if seek.descending {
                text.push_str(" descending");
            }
            text
        }
        Op::RelationshipScan(scan) => pattern(
            p,
            scan.from,
            Some(scan.relationship),
            &scan.types,
            "",
            scan.direction,
            scan.to,
        ),
        Op::RelationshipById {
            relationship,
            from,
            to,
            direction,
            ids,
            ..
        } => {
            format!(
                "{} {}",
                pattern(p, *from, Some(*relationship), &[], "", *direction, *to),
                keys_text(p, ids)
            )
        }
        Op::Expand(expand) => {
            let text = pattern(
                p,
                expand.from,
                expand.relationship,
                &expand.types,
                "",
                expand.direction,
                expand.to,
            );
            text + &distinct(p, &expand.distinct_from)
        }
        Op::DistinctEnds(ends) => {
            steps(p, &p.slot(ends.from), &ends.steps, &p.slot(ends.to)) + different(ends.differ)
        }
        Op::ExpandInto(expand) => {
            let text = pattern(
                p,
                expand.from,
                expand.relationship,
                &expand.types,
                "",
                expand.direction,
                expand.to,
            );
            text + &distinct(p, &expand.distinct_from)
        }
        Op::Degree(degree) => {
            let types = types_text(p, &degree.types);
            let (before, after) = arrows(degree.direction);
            let text = format!(
                "({}){before}[{types}]{after}() as {}",
                p.slot(degree.from),
                p.slot(degree.count)
            );
            text + &distinct(p, &degree.distinct_from)
        }
        Op::CountApply { count, factor, .. } => match factor {
            Some(factor) => format!("{} times {}", p.slot(*count), p.slot(*factor)),
            None => p.slot(*count),
        },
        Op::Count(count) => {
            let of = match &count.of {
                CountOf::Nodes(None) => "()".to_owned(),
                CountOf::Nodes(Some(label)) => format!("(:{})", p.plan.label_name(*label)),
                CountOf::Relationships(types) => format!("()-[{}]->()", types_text(p, types)),
            };
            format!("{of} as {}", slots(p, &count.counts))
        }
        Op::VarExpand(expand) => {
            let max = expand.max.map(|max| max.to_string()).unwrap_or_default();
            let length = format!("*{}..{max}", expand.min);
            let mut text = pattern(
                p,
                expand.from,
                expand.relationships,
                &expand.types,
                &length,
                expand.direction,
                expand.to,
            );
            if expand.into {
                text.push_str(" into");
            }
            if expand.distinct_ends {
                text.push_str(" distinct ends");
            }
            if let Some((_, predicate)) = &expand.step_predicate {
                text.push_str(&format!(" each {}", p.expr(predicate)));
            }
            text + &distinct(p, &expand.distinct_from)
        }
        Op::ShortestPath(shortest) => {
            let max = shortest.max.map(|max| max.to_string()).unwrap_or_default();
            let length = format!("*{}..{max}", shortest.min);
            let mut text = pattern(
                p,
                shortest.from,
                shortest.relationships,
                &shortest.types,
                &length,
                shortest.direction,
                shortest.to,
            );
            if let Some(path) = shortest.path {
                text = format!("{} = {text}", p.slot(path));
            }
            if let Some((_, predicate)) = &shortest.step_predicate {
                text.push_str(&format!(" each {}", p.expr(predicate)));
            }
            if let Some(predicate) = &shortest.predicate {
                text.push_str(&format!(" where {}", p.expr(predicate)));
            }
            text
        }
        Op::PathSearch(search) => path_search(p, search),
        Op::RelationshipEnds(ends) => {
            let text = pattern(
                p,
                ends.from,
                Some(ends.relationship),
                &ends.types,
                "",
                ends.direction,
                ends.to,
            );
            text + &distinct(p, &ends.distinct_from)
        }
        Op::OptionalApply {
            nulls, row_wise, ..
        } => {
            let mode = if *row_wise { " row-wise" } else { "" };
            format!("{}{mode}", slots(p, nulls))
        }
        Op::HashJoin {
            input_keys,
            right_keys,
            ..
        } => {
            let keys: Vec<String> = input_keys
                .iter()
                .zip(right_keys)
                .map(|(a, b)| format!("{} = {}", p.expr(a), p.expr(b)))
                .collect();
            keys.join(", ")
        }
        Op::Filter { predicates, .. } => p.list(predicates, " AND "),
        Op::Project { columns, .. } => {
            assignments(p, columns.iter().map(|(slot, expr)| (*slot, expr)))
        }
        Op::Aggregate(aggregate) | Op::CountByNode(aggregate) => aggregation(p, aggregate),
        Op::CountByNeighbour(count) => {
            let (from, to) = (p.slot(count.from), end_of(p, &count.aggregate));
            let over = steps(p, &from, std::slice::from_ref(&count.step), &to);
            format!("{} over {over}", aggregation(p, &count.aggregate))
        }
        Op::GroupByKey(group) => {
            let mut text = aggregation(p, &group.aggregate);
            if let Some(first) = &group.first {
                let which = if first.largest { "largest" } else { "smallest" };
                text.push_str(&format!(" {which} {}", p.expr(&first.limit)));
            }
            text
        }
        Op::CountByColumn(count) => {
            let names = count.path.iter().map(|name| &**p.plan.property_name(*name));
            let path: Vec<&str> = names.collect();
            format!(
                "{} by {} over :{}.{}",
                slots(p, &count.counts),
                p.slot(count.key),
                p.plan.label_name(count.label),
                path.join(".")
            )
        }
        Op::CountPaths(count) => {
            let first = Step {
                direction: count.first.direction.reversed(),
                types: count.first.types.clone(),
            };
            let over = steps(p, "", &[first, count.second.clone()], "");
            let counts = slots(p, &count.counts);
            format!("{counts} over {over}{}", different(count.differ))
        }
        Op::Exchange(exchange) => match &exchange.in_thread {
            InThread::Nothing => String::new(),
            InThread::Distinct(of) => format!("distinct {}", slots(p, of)),
            InThread::Sort => "in order".to_owned(),
            InThread::Top { keys, limit } => {
                format!("top {} by {}", p.expr(limit), sort_keys(p, keys))
            }
        },
        Op::Distinct { slots: of, .. } => slots(p, of),
        Op::Sort { keys, .. } => sort_keys(p, keys),
        Op::Top { keys, limit, .. } => format!("{} by {}", p.expr(limit), sort_keys(p, keys)),
        Op::Skip { count, .. } | Op::Limit { count, .. } => p.expr(count),
        Op::Unwind { list, element, .. } | Op::ForEach { list, element, .. } => {
            format!("{} IN {}", p.slot(*element), p.expr(list))
        }
        Op::ProcedureCall(call) => {
            let yields: Vec<String> = call
                .yields
                .iter()
                .map(|(position, slot)| {
                    format!(
                        "{} as {}",
                        call.procedure.results[*position].name,
                        p.slot(*slot)
                    )
                })
                .collect();
            format!(
                "{}({}) {}",
                call.procedure.name,
                p.list(&call.arguments, ", "),
                yields.join(", ")
            )
        }
        Op::LoadCsv { url, row, .. } => format!("{} from {}", p.slot(*row), p.expr(url)),
        Op::Create { pattern, .. } => create_text(p, pattern),
        Op::Merge(merge) => {
            let mut text = create_text(p, &merge.create);
            for (event, items) in [
                (" on create ", &merge.on_create),
                (" on match ", &merge.on_match),
            ] {
                if !items.is_empty() {
                    text.push_str(event);
                    text.push_str(&set_text(p, items));
                }
            }
            text
        }
        Op::Set { items, .. } => set_text(p, items),
        Op::Delete { targets, .. } => p.list(targets, ", "),
        Op::ProduceResult { columns, .. } => slots(p, columns),
        Op::Show { show, .. } => format!("{show:?}").to_lowercase(),
    }
}

fn slots(p: &Printer<'_>, slots: &[SlotId]) -> String {
    slots
        .iter()
        .map(|slot| p.slot(*slot))
        .collect::<Vec<_>>()
        .join(", ")
}

fn distinct(p: &Printer<'_>, from: &[SlotId]) -> String {
    if from.is_empty() {
        String::new()
    } else {
        format!(" not {}", slots(p, from))
    }
}

/// Whether relationships must differ.
fn different(differ: bool) -> &'static str {
    if differ {
        " different relationships"
    } else {
        ""
    }
}

/// Steps from one node to another, of which nothing else is read.
fn steps(p: &Printer<'_>, from: &str, steps: &[Step], to: &str) -> String {
    let one = |step: &Step| {
        let (before, after) = arrows(step.direction);
        format!("{before}[{}]{after}", types_text(p, &step.types))
    };
    let steps: Vec<String> = steps.iter().map(one).collect();
    format!("({from}){}({to})", steps.join("()"))
}

/// The node by which an aggregation counts.
fn end_of(p: &Printer<'_>, aggregate: &Aggregate) -> String {
    let keys = aggregate.keys.iter().map(|(_, key)| p.expr(key));
    keys.collect::<Vec<_>>().join(", ")
}

fn aggregation(p: &Printer<'_>, aggregate: &Aggregate) -> String {
    let keys = assignments(p, aggregate.keys.iter().map(|(slot, expr)| (*slot, expr)));
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
        text.push_str(&format!(" times {}", slots(p, &aggregate.factors)));
    }
    text
}

fn types_text(p: &Printer<'_>, types: &[TypeRef]) -> String {
    if types.is_empty() {
        return String::new();
    }
    let names: Vec<&str> = types.iter().map(|one| &**p.plan.type_name(*one)).collect();
    format!(":{}", names.join("|"))
}

fn arrows(direction: Direction) -> (&'static str, &'static str) {
    match direction {
        Direction::Outgoing => ("-", "->"),
        Direction::Incoming => ("<-", "-"),
        Direction::Both => ("-", "-"),
    }
}

fn pattern(
    p: &Printer<'_>,
    from: SlotId,
    relationship: Option<SlotId>,
    types: &[TypeRef],
    length: &str,
    direction: Direction,
    to: SlotId,
) -> String {
    let (before, after) = arrows(direction);
    let name = relationship.map(|slot| p.slot(slot)).unwrap_or_default();
    format!(
        "({}){before}[{name}{}{length}]{after}({})",
        p.slot(from),
        types_text(p, types),
        p.slot(to)
    )
}

/// A walk as it would be written.
fn path_search(p: &Printer<'_>, search: &PathSearch) -> String {
    let mut text = match search.selector {
        None => String::new(),
        Some(Selector::Paths(count)) => format!("SHORTEST {count} "),
        Some(Selector::Groups(count)) => format!("SHORTEST {count} GROUPS "),
    };
    if let Some(path) = search.path {
        text = format!("{} = {text}", p.slot(path));
    }
    text.push_str(&format!("({})", p.slot(search.from)));
    for (at, link) in search.walk.links.iter().enumerate() {
        if let Some(junction) = at
            .checked_sub(1)
            .and_then(|before| search.walk.junctions.get(before))
        {
            text.push_str(&format!("({})", optional(p, junction.slot)));
        }
        let step = |step: &WalkStep| {
            let (before, after) = arrows(step.direction);
            let name = optional(p, step.relationship.slot);
            format!("{before}[{name}{}]{after}", types_text(p, &step.types))
        };
        match link.repeat {
            None => link.steps.iter().for_each(|one| text.push_str(&step(one))),
            Some((min, max)) => {
                text.push_str(&format!("(({})", optional(p, link.start.slot)));
                for one in &link.steps {
                    text.push_str(&format!("{}({})", step(one), optional(p, one.node.slot)));
                }
                let max = max.map(|max| max.to_string()).unwrap_or_default();
                text.push_str(&format!("){{{min},{max}}}"));
            }
        }
    }
    text.push_str(&format!("({})", p.slot(search.to)));
    if search.into {
        text.push_str(" into");
    }
    let mut checks = Vec::new();
    search
        .walk
        .for_each_expr(&mut |one| checks.push(p.expr(one)));
    if !checks.is_empty() {
        text.push_str(&format!(" each {}", checks.join(", ")));
    }
    if let Some(predicate) = &search.predicate {
        text.push_str(&format!(" where {}", p.expr(predicate)));
    }
    text + &distinct(p, &search.distinct_from)
}

fn optional(p: &Printer<'_>, slot: Option<SlotId>) -> String {
    slot.map(|slot| p.slot(slot).to_string())
        .unwrap_or_default()
}

fn keys_text(p: &Printer<'_>, keys: &SeekKeys) -> String {
    match keys {
        SeekKeys::One(key) => format!("= {}", p.expr(key)),
        SeekKeys::Each(keys) => format!("IN {}", p.expr(keys)),
    }
}

fn range_text(p: &Printer<'_>, range: &IndexRange) -> Option<String> {
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

fn named(p: &Printer<'_>, slot: SlotId, text: &str) -> String {
    let name = p.slot(slot);
    if name == text {
        name
    } else {
        format!("{text} as {name}")
    }
}

fn assignments<'e>(p: &Printer<'_>, columns: impl Iterator<Item = (SlotId, &'e Expr)>) -> String {
    columns
        .map(|(slot, expr)| named(p, slot, &p.expr(expr)))
        .collect::<Vec<_>>()
        .join(", ")
}

fn aggregate_text(p: &Printer<'_>, call: &AggregateCall) -> String {
    let name = call.function.name().trim_end_matches("(*)");
    let distinct = if call.distinct { "DISTINCT " } else { "" };
    let arguments = if call.arguments.is_empty() {
        "*".to_owned()
    } else {
        p.list(&call.arguments, ", ")
    };
    format!("{name}({distinct}{arguments})")
}

fn sort_keys(p: &Printer<'_>, keys: &[SortKey]) -> String {
    let key = |key: &SortKey| {
        format!(
            "{}{}",
            p.expr(&key.expr),
            if key.descending { " DESC" } else { "" }
        )
    };
    keys.iter().map(key).collect::<Vec<_>>().join(", ")
}

fn properties_text(p: &Printer<'_>, properties: &Properties) -> String {
    match properties {
        Properties::Entries(entries) if entries.is_empty() => String::new(),
        Properties::Entries(entries) => {
            let parts: Vec<String> = entries
                .iter()
                .map(|(name, value)| format!("{}: {}", p.plan.property_name(*name), p.expr(value)))
                .collect();
            format!(" {{{}}}", parts.join(", "))
        }
        Properties::Map(value) => format!(" {}", p.expr(value)),
    }
}

fn create_text(p: &Printer<'_>, pattern: &CreatePattern) -> String {
    let item = |item: &CreateItem| match item {
        CreateItem::Node(node) => {
            let labels: String = node
                .labels
                .iter()
                .map(|label| format!(":{}", p.plan.label_name(*label)))
                .collect();
            format!(
                "({}{labels}{})",
                p.slot(node.node),
                properties_text(p, &node.properties)
            )
        }
        CreateItem::Relationship(one) => format!(
            "({})-[{}:{}{}]->({})",
            p.slot(one.source),
            p.slot(one.relationship),
            p.plan.type_name(one.rel_type),
            properties_text(p, &one.properties),
            p.slot(one.target)
        ),
    };
    let mut items: Vec<String> = pattern.items.iter().take(20).map(item).collect();
    if pattern.items.len() > 20 {
        items.push(format!("and {} more", pattern.items.len() - 20));
    }
    items.join(", ")
}

fn set_text(p: &Printer<'_>, items: &[SetItem]) -> String {
    let path = |names: &[crate::expr::PropRef]| {
        names
            .iter()
            .map(|name| p.plan.property_name(*name).to_string())
            .collect::<Vec<_>>()
            .join(".")
    };
    let labels = |labels: &[crate::expr::LabelRef]| {
        labels
            .iter()
            .map(|label| format!(":{}", p.plan.label_name(*label)))
            .collect::<String>()
    };
    let item = |item: &SetItem| match item {
        SetItem::Property {
            entity,
            name,
            value,
        } => {
            format!(
                "{}.{} = {}",
                p.expr(entity),
                p.plan.property_name(*name),
                p.expr(value)
            )
        }
        SetItem::NestedProperty {
            entity,
            path: names,
            value,
        } => {
            format!("{}.{} = {}", p.expr(entity), path(names), p.expr(value))
        }
        SetItem::DynamicProperty {
            entity,
            name,
            value,
        } => {
            format!("{}[{}] = {}", p.expr(entity), p.expr(name), p.expr(value))
        }
        SetItem::Converge {
            entity,
            path: names,
            operation,
            arguments,
        } => {
            let field = format!("{}.{}", p.expr(entity), path(names));
            let arguments: String = arguments
                .iter()
                .map(|argument| format!(", {}", p.expr(argument)))
                .collect();
            format!("{field} = {}({field}{arguments})", operation.name())
        }
        SetItem::Replace { entity, value } => format!("{} = {}", p.expr(entity), p.expr(value)),
        SetItem::Merge { entity, value } => format!("{} += {}", p.expr(entity), p.expr(value)),
        SetItem::AddLabels {
            entity,
            labels: names,
        } => format!("{}{}", p.expr(entity), labels(names)),
        SetItem::RemoveLabels {
            entity,
            labels: names,
        } => format!("remove {}{}", p.expr(entity), labels(names)),
        SetItem::RemoveProperty {
            entity,
            path: names,
        } => format!("remove {}.{}", p.expr(entity), path(names)),
    };
    items.iter().map(item).collect::<Vec<_>>().join(", ")
}

/// A schema command in one line.
pub(super) fn schema_command(command: &SchemaCommand) -> String {
    let target = |target: &SchemaTarget| match target {
        SchemaTarget::Label(label) => format!("(:{label})"),
        SchemaTarget::Type(name) => format!("-[:{name}]-"),
    };
    match command {
        SchemaCommand::CreateIndex {
            target: on,
            paths,
            unique,
            ..
        } => {
            let paths: Vec<String> = paths.iter().map(|path| path.names.join(".")).collect();
            format!(
                "create {}index {} ({})",
                if *unique { "unique " } else { "" },
                target(on),
                paths.join(", ")
            )
        }
        SchemaCommand::CreateConstraint {
            target: on,
            requirement,
            paths,
            ..
        } => {
            let paths: Vec<String> = paths.iter().map(|path| path.join(".")).collect();
            format!(
                "create constraint {} ({}) {requirement:?}",
                target(on),
                paths.join(", ")
            )
        }
        SchemaCommand::DropIndex { name, .. } => format!("drop index {name}"),
        SchemaCommand::DropConstraint { name, .. } => format!("drop constraint {name}"),
    }
}
