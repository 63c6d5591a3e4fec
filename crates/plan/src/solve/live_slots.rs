//! Live slots: which slots are still read above each operator; slots that are not read are dropped.

use rustc_hash::FxHashSet;

use crate::arena::Arena;
use crate::error::{PlanError, PlanErrorKind};
use crate::expr::{BoundExpr, SlotId};
use crate::physical::{
    CreateItem, CreatePattern, EntityChange, IndexRange, NodeIndexSeek, Op, OpId, Operator,
    RelationshipIndexSeek, SeekBound, SeekKeys,
};

type Slots = FxHashSet<SlotId>;

/// Fills in [`Operator::live`](crate::physical::Operator::live) for the plan under `root` and for all sub-plans.
pub(crate) fn mark_live(arena: &mut Arena, root: Option<OpId>) -> Result<(), PlanError> {
    let count = arena.operators.len();
    let written = written_below(arena);
    let mut needs: Vec<Slots> = vec![Slots::default(); count];
    let mut used = vec![false; count];
    let elements = elements_over(arena);
    if let Some(root) = root {
        used[root.index()] = true;
    }
    for (root, wanted) in &arena.subplans {
        used[root.index()] = true;
        needs[root.index()].extend(wanted);
    }
    // Inputs precede their readers: in reverse order, all readers of an operator are visited before it.
    for at in (0..count).rev() {
        if !used[at] {
            continue;
        }
        let need = std::mem::take(&mut needs[at]);
        // Pruned before its own needs are collected: what it no longer computes needs nothing below.
        prune(&mut arena.operators[at].op, &need);
        let op = &arena.operators[at].op;
        let below = needs_below(arena, op, &need)?;
        // A leaf returns rows of the outer operator, so what is read above
        // the leaf must stay alive there.
        if matches!(op, Op::Argument)
            && let Some(outer) = arena.outer_of.get(&OpId(at as u32))
        {
            // The element of a FOREACH comes from the loop, not from the row around it.
            let own = |slot: &&SlotId| elements.contains(&(*outer, **slot));
            needs[outer.index()].extend(below.iter().filter(|slot| !own(slot)));
        }
        for (position, child) in op.children().into_iter().enumerate() {
            used[child.index()] = true;
            let right = position > 0 && !matches!(op, Op::Union { .. });
            let child_needs = &mut needs[child.index()];
            if right {
                // The right side returns what it binds; the rest of the row comes from the left.
                child_needs.extend(
                    below
                        .iter()
                        .filter(|slot| written[child.index()].contains(slot)),
                );
                if !matches!(
                    op,
                    Op::SemiApply { .. } | Op::CountApply { .. } | Op::ForEach { .. }
                ) {
                    child_needs.extend(
                        need.iter()
                            .filter(|slot| written[child.index()].contains(slot)),
                    );
                }
            } else {
                child_needs.extend(&below);
            }
        }
        restrict_left(arena, at, &written, &mut needs);
        let mut live: Vec<SlotId> = need.into_iter().collect();
        live.sort_unstable();
        arena.operators[at].live = live;
    }
    Ok(())
}

/// The slots that an operator needs of its inputs, if the operators above need the slots `need` of it.
fn needs_below(arena: &Arena, op: &Op, need: &Slots) -> Result<Slots, PlanError> {
    let own = writes(op);
    let passed_on = need.iter().copied().filter(|slot| !own.contains(slot));
    let mut below: Slots = passed_on.collect();
    // An aggregation passes on nothing but its results: the binder rejects most such statements, this check the rest.
    if matches!(op, Op::Aggregate(_))
        && let Some(lost) = below.iter().next()
    {
        return Err(lost_slot(arena, *lost));
    }
    for_each_read(op, &mut |slot| {
        below.insert(slot);
    });
    match op {
        // Its conditions read what it binds itself.
        Op::PathSearch(search) => search.inner_slots().iter().for_each(|slot| {
            below.remove(slot);
        }),
        // A property may read a node created before it.
        Op::Create { pattern, .. } => pattern.slots().for_each(|slot| {
            below.remove(&slot);
        }),
        _ => {}
    }
    Ok(below)
}

/// The variables of `FOREACH`es, with the operator whose rows their bodies return: the body reads the element from the
/// loop, not from these rows.
fn elements_over(arena: &Arena) -> FxHashSet<(OpId, SlotId)> {
    let element = |operator: &Operator| match &operator.op {
        Op::ForEach { input, element, .. } => Some((*input, *element)),
        _ => None,
    };
    arena.operators.iter().filter_map(element).collect()
}

/// Slots that only the right side binds are not required of the left.
fn restrict_left(arena: &Arena, at: usize, written: &[Slots], needs: &mut [Slots]) {
    let op = &arena.operators[at].op;
    let children = op.children();
    let (Some(left), Some(right)) = (children.first(), children.get(1)) else {
        return;
    };
    if matches!(op, Op::Union { .. }) {
        return;
    }
    let only_right = &written[right.index()];
    let on_left = &written[left.index()];
    // A slot that both sides write, such as a variable that the right side
    // passes on, is read from the left.
    needs[left.index()].retain(|slot| !only_right.contains(slot) || on_left.contains(slot));
}

/// For each operator the slots written by it and by everything below it.
fn written_below(arena: &Arena) -> Vec<Slots> {
    let mut all: Vec<Slots> = Vec::with_capacity(arena.operators.len());
    for operator in &arena.operators {
        let mut slots: Slots = writes(&operator.op).into_iter().collect();
        for child in operator.op.children() {
            slots.extend(&all[child.index()]);
        }
        all.push(slots);
    }
    all
}

fn lost_slot(arena: &Arena, slot: SlotId) -> PlanError {
    let name = &arena.slots[slot.index()].name;
    PlanError {
        kind: PlanErrorKind::SyntaxError,
        detail: "AmbiguousAggregationExpression",
        message: format!("`{name}` is used after an aggregation that does not keep it"),
        span: None,
        hint: Some("make it a grouping key".to_owned()),
    }
}

/// Removes what is not read: a relationship's slot, a column that is cheap and cannot fail.
fn prune(op: &mut Op, need: &Slots) {
    let unread = |slot: &Option<SlotId>| slot.is_some_and(|slot| !need.contains(&slot));
    match op {
        Op::Expand(expand) if unread(&expand.relationship) => expand.relationship = None,
        Op::ExpandInto(expand) if unread(&expand.relationship) => expand.relationship = None,
        Op::VarExpand(expand) if unread(&expand.relationships) => expand.relationships = None,
        Op::ShortestPath(shortest) => {
            let kept = |slot: SlotId| {
                need.contains(&slot)
                    || shortest
                        .predicate
                        .as_ref()
                        .is_some_and(|one| one.reads(slot))
            };
            let (path, relationships) = (
                shortest.path.filter(|slot| kept(*slot)),
                shortest.relationships.filter(|slot| kept(*slot)),
            );
            shortest.path = path;
            shortest.relationships = relationships;
        }
        Op::PathSearch(search) => {
            let kept = |slot: SlotId| {
                let read = search.predicate.as_ref().is_some_and(|one| one.reads(slot));
                need.contains(&slot) || read
            };
            let unread: Vec<SlotId> = search
                .inner_slots()
                .into_iter()
                .filter(|slot| !kept(*slot))
                .collect();
            let mut drop_unread = |slot: &mut Option<SlotId>| {
                *slot = slot.filter(|slot| !unread.contains(slot));
            };
            drop_unread(&mut search.path);
            drop_unread(&mut search.relationships);
            search.walk.for_each_slot_mut(&mut drop_unread);
        }
        Op::Project { columns, .. } => {
            // A column that is not read but may fail stays: the error is part of the statement's result.
            columns.retain(|(slot, expr)| need.contains(slot) || !cannot_fail(expr))
        }
        _ => {}
    }
}

fn cannot_fail(expr: &BoundExpr) -> bool {
    matches!(
        expr,
        BoundExpr::Slot(_)
            | BoundExpr::Const(_)
            | BoundExpr::Param(_)
            | BoundExpr::BuildPath { .. }
    )
}

/// The slots that an operator itself binds. Operators chosen after this pass bind what their fallbacks bind.
///
/// This and the functions below have no default arm: an operator that is missing here would lose columns silently.
pub(super) fn writes(op: &Op) -> Vec<SlotId> {
    match op {
        Op::AllNodesScan { node, .. }
        | Op::LabelScan { node, .. }
        | Op::NodeByKey { node, .. }
        | Op::NodeById { node, .. } => vec![*node],
        Op::IndexSeek(seek) => vec![seek.node],
        Op::RelationshipScan(scan)
        | Op::RelationshipIndexSeek(RelationshipIndexSeek { scan, .. }) => {
            vec![scan.relationship, scan.from, scan.to]
        }
        Op::RelationshipById {
            relationship,
            from,
            to,
            ..
        } => vec![*relationship, *from, *to],
        Op::Expand(expand) => expand.relationship.into_iter().chain([expand.to]).collect(),
        Op::ExpandInto(expand) => expand.relationship.into_iter().collect(),
        Op::Degree(degree) => vec![degree.count],
        Op::Count(count) => count.counts.clone(),
        Op::CountApply { count, .. } => vec![*count],
        Op::VarExpand(expand) => expand
            .relationships
            .into_iter()
            .chain((!expand.into).then_some(expand.to))
            .collect(),
        Op::ShortestPath(shortest) => shortest
            .path
            .into_iter()
            .chain(shortest.relationships)
            .collect(),
        Op::PathSearch(search) => {
            let mut slots = search.inner_slots();
            slots.extend((!search.into).then_some(search.to));
            slots
        }
        Op::RelationshipEnds(ends) => {
            let from = (!ends.from_bound).then_some(ends.from);
            from.into_iter()
                .chain((!ends.to_bound).then_some(ends.to))
                .collect()
        }
        Op::Project { columns, .. } => columns.iter().map(|(slot, _)| *slot).collect(),
        Op::Aggregate(aggregate) => {
            let keys = aggregate.keys.iter().map(|(slot, _)| *slot);
            keys.chain(aggregate.aggregates.iter().map(|(slot, _)| *slot))
                .collect()
        }
        Op::Unwind {
            element, position, ..
        } => std::iter::once(*element)
            .chain(position.map(|(slot, _)| slot))
            .collect(),
        Op::ProcedureCall(call) => call.yields.iter().map(|(_, slot)| *slot).collect(),
        Op::LoadCsv {
            row, line, file, ..
        } => vec![*row, *line, *file],
        Op::Create { pattern, .. } => pattern.slots().collect(),
        Op::Merge(merge) => merge.create.slots().collect(),
        Op::Show { slots, .. } => slots.clone(),
        Op::OptionalApply { nulls, .. } => nulls.clone(),
        Op::BatchApply(batches) => batches.slots().collect(),
        Op::Argument
        | Op::DistinctEnds(_)
        | Op::Apply { .. }
        | Op::SemiApply { .. }
        | Op::CartesianProduct { .. }
        | Op::HashJoin { .. }
        | Op::Union { .. }
        | Op::Filter { .. }
        | Op::CountByNode(_)
        | Op::CountByNeighbour(_)
        | Op::GroupByKey(_)
        | Op::CountByColumn(_)
        | Op::CountPaths(_)
        | Op::Exchange(_)
        | Op::Distinct { .. }
        | Op::Sort { .. }
        | Op::Top { .. }
        | Op::Skip { .. }
        | Op::Limit { .. }
        | Op::Eager { .. }
        | Op::Set { .. }
        | Op::Delete { .. }
        | Op::ForEach { .. }
        | Op::ProduceResult { .. } => Vec::new(),
    }
}

/// Calls `visit` for every slot that an operator itself reads of its input.
pub(super) fn for_each_read(op: &Op, visit: &mut dyn FnMut(SlotId)) {
    for_each_expr(op, &mut |expr| expr.for_each_slot(visit));
    match op {
        Op::Expand(expand) => {
            visit(expand.from);
            expand.distinct_from.iter().for_each(|slot| visit(*slot));
        }
        Op::ExpandInto(expand) => {
            visit(expand.from);
            visit(expand.to);
            expand.distinct_from.iter().for_each(|slot| visit(*slot));
        }
        Op::Degree(degree) => {
            visit(degree.from);
            degree.distinct_from.iter().for_each(|slot| visit(*slot));
        }
        Op::CountApply { factor, .. } => factor.iter().for_each(|slot| visit(*slot)),
        Op::VarExpand(expand) => {
            visit(expand.from);
            if expand.into {
                visit(expand.to);
            }
            expand.distinct_from.iter().for_each(|slot| visit(*slot));
        }
        Op::ShortestPath(shortest) => {
            visit(shortest.from);
            visit(shortest.to);
        }
        Op::PathSearch(search) => {
            visit(search.from);
            if search.into {
                visit(search.to);
            }
            search.distinct_from.iter().for_each(|slot| visit(*slot));
        }
        Op::RelationshipEnds(ends) => {
            visit(ends.relationship);
            if ends.from_bound {
                visit(ends.from);
            }
            if ends.to_bound {
                visit(ends.to);
            }
            ends.distinct_from.iter().for_each(|slot| visit(*slot));
        }
        Op::Distinct { slots, .. } => slots.iter().for_each(|slot| visit(*slot)),
        Op::Aggregate(aggregate) => aggregate.factors.iter().for_each(|slot| visit(*slot)),
        Op::ProduceResult { columns, .. } => columns.iter().for_each(|slot| visit(*slot)),
        Op::Create { pattern, .. } => for_each_bound_end(pattern, visit),
        Op::Merge(merge) => for_each_bound_end(&merge.create, visit),
        Op::Argument
        | Op::AllNodesScan { .. }
        | Op::LabelScan { .. }
        | Op::NodeByKey { .. }
        | Op::NodeById { .. }
        | Op::IndexSeek(_)
        | Op::RelationshipScan(_)
        | Op::RelationshipIndexSeek(_)
        | Op::RelationshipById { .. }
        | Op::DistinctEnds(_)
        | Op::Apply { .. }
        | Op::BatchApply(_)
        | Op::OptionalApply { .. }
        | Op::SemiApply { .. }
        | Op::CartesianProduct { .. }
        | Op::HashJoin { .. }
        | Op::Union { .. }
        | Op::Count(_)
        | Op::Filter { .. }
        | Op::Project { .. }
        | Op::CountByNode(_)
        | Op::CountByNeighbour(_)
        | Op::GroupByKey(_)
        | Op::CountByColumn(_)
        | Op::CountPaths(_)
        | Op::Exchange(_)
        | Op::Sort { .. }
        | Op::Top { .. }
        | Op::Skip { .. }
        | Op::Limit { .. }
        | Op::Unwind { .. }
        | Op::ProcedureCall(_)
        | Op::LoadCsv { .. }
        | Op::Eager { .. }
        | Op::Set { .. }
        | Op::Delete { .. }
        | Op::ForEach { .. }
        | Op::Show { .. } => {}
    }
}

/// The ends of relationships to create that were bound before.
fn for_each_bound_end(pattern: &CreatePattern, visit: &mut dyn FnMut(SlotId)) {
    let made: Slots = pattern.slots().collect();
    for item in &pattern.items {
        if let CreateItem::Relationship(relationship) = item {
            [relationship.source, relationship.target]
                .into_iter()
                .filter(|slot| !made.contains(slot))
                .for_each(&mut *visit);
        }
    }
    for (_, path) in &pattern.paths {
        path.for_each_slot(&mut |slot| {
            if !made.contains(&slot) {
                visit(slot);
            }
        });
    }
}

/// Calls `visit` for every expression of an operator that is evaluated on rows of its input. Those that an operator
/// repeats from its fallback, or an exchange from the operator above, are not visited again.
pub(crate) fn for_each_expr<'o>(op: &'o Op, visit: &mut dyn FnMut(&'o BoundExpr)) {
    match op {
        Op::NodeByKey { keys, .. }
        | Op::NodeById { ids: keys, .. }
        | Op::RelationshipById { ids: keys, .. } => {
            visit_keys(keys, visit);
        }
        Op::IndexSeek(NodeIndexSeek { prefix, range, .. })
        | Op::RelationshipIndexSeek(RelationshipIndexSeek { prefix, range, .. }) => {
            prefix.iter().for_each(&mut *visit);
            match range {
                IndexRange::All => {}
                IndexRange::Keys(keys) => visit_keys(keys, visit),
                IndexRange::Between(low, high) => {
                    for bound in [low, high] {
                        if let SeekBound::Included(value) | SeekBound::Excluded(value) = bound {
                            visit(value);
                        }
                    }
                }
                IndexRange::StartsWith(prefix) => visit(prefix),
            }
        }
        Op::VarExpand(expand) => expand.step_predicate.iter().for_each(|(_, one)| visit(one)),
        Op::ShortestPath(shortest) => {
            shortest
                .step_predicate
                .iter()
                .for_each(|(_, one)| visit(one));
            shortest.predicate.iter().for_each(visit);
        }
        Op::PathSearch(search) => {
            search.walk.for_each_expr(visit);
            search.predicate.iter().for_each(visit);
        }
        Op::HashJoin {
            input_keys,
            right_keys,
            ..
        } => input_keys.iter().chain(right_keys).for_each(visit),
        Op::Filter { predicates, .. } => predicates.iter().for_each(visit),
        Op::Project { columns, .. } => columns.iter().for_each(|(_, one)| visit(one)),
        Op::Aggregate(aggregate) | Op::CountByNode(aggregate) => {
            aggregate.keys.iter().for_each(|(_, one)| visit(one));
            aggregate
                .aggregates
                .iter()
                .flat_map(|(_, call)| &call.arguments)
                .for_each(visit);
        }
        Op::Sort { keys, .. } => keys.iter().for_each(|key| visit(&key.expr)),
        Op::Top { keys, limit, .. } => {
            keys.iter().for_each(|key| visit(&key.expr));
            visit(limit);
        }
        Op::Skip { count, .. } | Op::Limit { count, .. } => visit(count),
        Op::Unwind { list, .. } | Op::ForEach { list, .. } => visit(list),
        Op::BatchApply(batches) => {
            let counts = batches.batch_rows.iter().chain(&batches.concurrency);
            counts.for_each(visit);
        }
        Op::ProcedureCall(call) => call.arguments.iter().for_each(visit),
        Op::LoadCsv {
            url,
            field_terminator,
            ..
        } => std::iter::once(url).chain(field_terminator).for_each(visit),
        Op::Create { pattern, .. } => visit_created(pattern, visit),
        Op::Merge(merge) => {
            visit_created(&merge.create, visit);
            merge
                .on_create
                .iter()
                .chain(&merge.on_match)
                .for_each(|item| visit_item(item, visit));
        }
        Op::Set { items, .. } => items.iter().for_each(|item| visit_item(item, visit)),
        Op::Delete { targets, .. } => targets.iter().for_each(visit),
        Op::Argument
        | Op::AllNodesScan { .. }
        | Op::LabelScan { .. }
        | Op::RelationshipScan(_)
        | Op::Expand(_)
        | Op::DistinctEnds(_)
        | Op::ExpandInto(_)
        | Op::Degree(_)
        | Op::RelationshipEnds(_)
        | Op::Apply { .. }
        | Op::OptionalApply { .. }
        | Op::SemiApply { .. }
        | Op::CountApply { .. }
        | Op::CartesianProduct { .. }
        | Op::Union { .. }
        | Op::Count(_)
        | Op::CountByNeighbour(_)
        | Op::GroupByKey(_)
        | Op::CountByColumn(_)
        | Op::CountPaths(_)
        | Op::Exchange(_)
        | Op::Distinct { .. }
        | Op::Eager { .. }
        | Op::ProduceResult { .. }
        | Op::Show { .. } => {}
    }
}

fn visit_keys<'o>(keys: &'o SeekKeys, visit: &mut dyn FnMut(&'o BoundExpr)) {
    match keys {
        SeekKeys::One(key) | SeekKeys::Each(key) => visit(key),
    }
}

fn visit_created<'o>(pattern: &'o CreatePattern, visit: &mut dyn FnMut(&'o BoundExpr)) {
    for item in &pattern.items {
        item.for_each_expr(visit);
    }
}

fn visit_item<'o>(item: &'o EntityChange, visit: &mut dyn FnMut(&'o BoundExpr)) {
    match item {
        EntityChange::Property { entity, value, .. }
        | EntityChange::NestedProperty { entity, value, .. }
        | EntityChange::Replace { entity, value }
        | EntityChange::Merge { entity, value } => {
            visit(entity);
            visit(value);
        }
        EntityChange::DynamicProperty {
            entity,
            name,
            value,
        } => {
            visit(entity);
            visit(name);
            visit(value);
        }
        EntityChange::Converge {
            entity, arguments, ..
        } => {
            visit(entity);
            arguments.iter().for_each(visit);
        }
        EntityChange::AddLabels {
            entity, dynamic, ..
        }
        | EntityChange::RemoveLabels {
            entity, dynamic, ..
        } => {
            visit(entity);
            dynamic.iter().for_each(visit);
        }
        EntityChange::RemoveProperty { entity, .. } => visit(entity),
    }
}
