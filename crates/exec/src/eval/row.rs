//! Evaluation of an expression for one row.

use isomer_plan::{
    expr::{BoundExpr, MapItem},
    function::Function as Builtin,
};
use isomer_value::{Map, Path, Relationship, Value};

use super::{comprehension, strict, truth::truth};
use crate::{
    chunk::Chunk,
    context::Cx,
    error::{ExecError, Result, shown},
};

/// One flat row of a chunk.
#[derive(Clone, Copy)]
pub(crate) struct Row<'a> {
    /// The chunk.
    pub(crate) chunk: &'a Chunk,
    /// The index of the row.
    pub(crate) row: usize,
}

/// The value of `expr` for one row.
pub(crate) fn value(expr: &BoundExpr, row: Row<'_>, cx: &mut Cx<'_>) -> Result<Value> {
    match expr {
        BoundExpr::Const(value) => Ok(value.clone()),
        BoundExpr::Param(param) => Ok(cx.run.parameters[param.index()].clone()),
        BoundExpr::Slot(slot) => Ok(row.chunk.value(*slot, row.row)),
        BoundExpr::Local(local) => Ok(cx.local(*local)),
        BoundExpr::At { inner, place } => value(inner, row, cx).map_err(|error| error.at(*place)),
        BoundExpr::And(terms) => conjunction(terms, false, row, cx),
        BoundExpr::Or(terms) => conjunction(terms, true, row, cx),
        BoundExpr::Early(condition) => early(condition, row, cx),
        BoundExpr::Case {
            subject,
            arms,
            otherwise,
        } => case(subject.as_deref(), arms, otherwise.as_deref(), row, cx),
        BoundExpr::Call {
            function: Builtin::Coalesce,
            arguments,
        } => coalesce(arguments, row, cx),
        BoundExpr::MapProjection { base, items } => map_projection(base, items, row, cx),
        BoundExpr::ListComprehension {
            list,
            local,
            predicate,
            result,
        } => comprehension::list(
            list,
            *local,
            predicate.as_deref(),
            result.as_deref(),
            row,
            cx,
        ),
        BoundExpr::Quantifier {
            kind,
            list,
            local,
            predicate,
        } => comprehension::quantifier(*kind, list, *local, predicate, row, cx),
        BoundExpr::Reduce {
            accumulator,
            init,
            element,
            list,
            step,
        } => comprehension::reduce(*accumulator, init, *element, list, step, row, cx),
        BoundExpr::Subquery(subquery) => comprehension::subquery(subquery, row, cx),
        BoundExpr::BuildPath { start, steps } => build_path(*start, steps, row, cx),
        _ => strictly(expr, row, cx),
    }
}

fn strictly(expr: &BoundExpr, row: Row<'_>, cx: &mut Cx<'_>) -> Result<Value> {
    let mut operands = Vec::with_capacity(3);
    let mut failed = None;
    let before = cx.run.watch.computed_bytes();
    expr.for_each_child(&mut |child| {
        if failed.is_none() {
            let operand = value(child, row, cx).and_then(|operand| {
                cx.count_computed(&operand)?;
                Ok(operand)
            });
            match operand {
                Ok(operand) => operands.push(operand),
                Err(error) => failed = Some(error),
            }
        }
    });
    let applied = match failed {
        Some(error) => Err(error),
        None => strict::apply(expr, &operands, cx),
    };
    // The operands end here; what was made of them is counted where it is kept.
    cx.run.watch.set_computed(before);
    applied
}

fn case(
    subject: Option<&BoundExpr>,
    arms: &[(BoundExpr, BoundExpr)],
    otherwise: Option<&BoundExpr>,
    row: Row<'_>,
    cx: &mut Cx<'_>,
) -> Result<Value> {
    let subject = subject.map(|subject| value(subject, row, cx)).transpose()?;
    for (when, then) in arms {
        let when = value(when, row, cx)?;
        let taken = match &subject {
            Some(subject) => strict::equal_truth(subject, &when),
            None => truth(&when, "WHEN")?,
        };
        if taken == Some(true) {
            return value(then, row, cx);
        }
    }
    otherwise.map_or(Ok(Value::Null), |otherwise| value(otherwise, row, cx))
}

fn coalesce(arguments: &[BoundExpr], row: Row<'_>, cx: &mut Cx<'_>) -> Result<Value> {
    for argument in arguments {
        let found = value(argument, row, cx)?;
        if !found.is_null() {
            return Ok(found);
        }
    }
    Ok(Value::Null)
}

/// `AND` (or, if `or` is set, `OR`) of all terms, in order; stops at the first that decides.
fn conjunction(terms: &[BoundExpr], or: bool, row: Row<'_>, cx: &mut Cx<'_>) -> Result<Value> {
    let mut unknown = false;
    for term in terms {
        match truth(&value(term, row, cx)?, if or { "OR" } else { "AND" })? {
            Some(known) if known == or => return Ok(Value::Bool(or)),
            Some(_) => {}
            None => unknown = true,
        }
    }
    Ok(if unknown {
        Value::Null
    } else {
        Value::Bool(!or)
    })
}

/// The truth value of a condition, and true where its evaluation fails: it is tested again, and fails then.
fn early(condition: &BoundExpr, row: Row<'_>, cx: &mut Cx<'_>) -> Result<Value> {
    match value(condition, row, cx).and_then(|value| truth(&value, "WHERE")) {
        Ok(known) => Ok(known.map_or(Value::Null, Value::Bool)),
        Err(ExecError::Raised { .. }) => Ok(Value::Bool(true)),
        Err(error) => Err(error),
    }
}

/// Whether a predicate holds for a row.
pub(crate) fn holds(predicate: &BoundExpr, row: Row<'_>, cx: &mut Cx<'_>) -> Result<bool> {
    Ok(truth(&value(predicate, row, cx)?, "a predicate")? == Some(true))
}

fn map_projection(
    base: &BoundExpr,
    items: &[MapItem],
    row: Row<'_>,
    cx: &mut Cx<'_>,
) -> Result<Value> {
    let base = value(base, row, cx)?;
    if base.is_null() {
        return Ok(Value::Null);
    }
    let mut map = Map::new();
    let before = cx.run.watch.computed_bytes();
    for item in items {
        match item {
            MapItem::Entry(name, expr) => {
                let entry = value(expr, row, cx)?;
                cx.count_computed(&entry)?;
                map.insert(name.clone(), entry);
            }
            MapItem::All => {
                for (name, entry) in strict::properties_of(&base, cx)? {
                    map.insert(name, entry);
                }
            }
        }
    }
    cx.run.watch.set_computed(before);
    Ok(Value::from(map))
}

fn build_path(
    start: isomer_plan::expr::SlotId,
    steps: &[isomer_plan::expr::PathSegment],
    row: Row<'_>,
    _: &mut Cx<'_>,
) -> Result<Value> {
    use isomer_value::Node;

    let at = |slot| row.chunk.value(slot, row.row);
    let Value::Node(first) = at(start) else {
        return Ok(Value::Null);
    };
    let mut path = Path {
        nodes: vec![Node {
            id: first.id,
            content: None,
        }],
        relationships: Vec::new(),
    };
    let walk = |path: &mut Path, relationship: &Relationship| {
        let here = path.nodes.last().map_or(first.id, |node| node.id);
        let next = if relationship.source == here {
            relationship.target
        } else {
            relationship.source
        };
        path.relationships.push(relationship.clone());
        path.nodes.push(Node {
            id: next,
            content: None,
        });
    };
    for step in steps {
        match at(step.relationship) {
            Value::Relationship(relationship) => walk(&mut path, &relationship),
            Value::List(relationships) => {
                for item in relationships.iter() {
                    match item {
                        Value::Relationship(relationship) => walk(&mut path, relationship),
                        other => {
                            return Err(ExecError::type_mismatch(format!(
                                "a path is made of relationships, not {}",
                                shown(other)
                            )));
                        }
                    }
                }
            }
            Value::Null => return Ok(Value::Null),
            other => {
                return Err(ExecError::type_mismatch(format!(
                    "a path is made of relationships, not {}",
                    shown(&other)
                )));
            }
        }
        if at(step.node).is_null() {
            return Ok(Value::Null);
        }
    }
    Ok(Value::from(path))
}
