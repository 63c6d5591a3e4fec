//! Recognises a lookup of one record by its key, which needs no pipeline.

use crate::arena::Arena;
use crate::expr::{BoundExpr, LabelRef, SlotId};
use crate::logical::{LogicalQuery, LogicalStep, QueryGraph};
use crate::physical::PointRead;

/// The plan of `MATCH (n:Label {_key: key}) RETURN …`, if the query has exactly that form.
pub(crate) fn point_read(query: &LogicalQuery, arena: &Arena) -> Option<PointRead> {
    let [steps] = query.branches.as_slice() else {
        return None;
    };
    let (graph, columns) = match steps.as_slice() {
        [
            LogicalStep::Match {
                graph,
                optional: false,
            },
        ] => (graph, [].as_slice()),
        [
            LogicalStep::Match {
                graph,
                optional: false,
            },
            LogicalStep::Project(columns),
        ] => (graph, columns.as_slice()),
        _ => return None,
    };
    if query.outputs.is_empty() {
        return None;
    }
    let (node, label, key) = key_lookup(graph, arena)?;
    let mut outputs = Vec::with_capacity(query.outputs.len());
    for output in &query.outputs {
        let expr = match columns.iter().find(|(slot, _)| slot == output) {
            Some((_, expr)) => expr.clone(),
            None => BoundExpr::Slot(*output),
        };
        if expr.has_subquery() {
            return None;
        }
        outputs.push(expr);
    }
    Some(PointRead {
        label,
        key,
        node,
        columns: outputs,
    })
}

fn key_lookup(graph: &QueryGraph, arena: &Arena) -> Option<(SlotId, LabelRef, BoundExpr)> {
    let [node] = graph.nodes.as_slice() else {
        return None;
    };
    if !graph.relationships.is_empty() || !graph.paths.is_empty() {
        return None;
    }
    let (mut label, mut key) = (None, None);
    for predicate in &graph.predicates {
        match predicate {
            BoundExpr::HasLabels { labels, .. } if labels.len() == 1 && label.is_none() => {
                label = Some(labels[0])
            }
            BoundExpr::Compare {
                op: crate::expr::Comparison::Equal,
                left,
                right,
            } if key.is_none() => {
                let is_key = |side: &BoundExpr| match side {
                    BoundExpr::Property { base, name, .. } => {
                        matches!(**base, BoundExpr::Slot(slot) if slot == *node)
                            && arena.property_name(*name) == "_key"
                    }
                    _ => false,
                };
                let value = match (is_key(left), is_key(right)) {
                    (true, false) => right,
                    (false, true) => left,
                    _ => return None,
                };
                let mut constant = !value.has_subquery();
                value.for_each_slot(&mut |_| constant = false);
                if !constant {
                    return None;
                }
                key = Some((**value).clone());
            }
            _ => return None,
        }
    }
    Some((*node, label?, key?))
}
