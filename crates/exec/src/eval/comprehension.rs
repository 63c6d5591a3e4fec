//! Expressions that bind a variable, and sub-plans.

use isomer_plan::expr::{BoundExpr, LocalId, QuantifierKind, Subquery, SubqueryResult};
use isomer_value::{Value, limits::MAX_NESTING};

use super::{Row, holds, truth, value};
use crate::{
    chunk::Chunk,
    column::Column,
    context::Cx,
    error::{ExecError, Result, shown},
    operator::{Argument, Child},
    value_size::{distinct_bytes, value_bytes},
};

fn items(
    list: &BoundExpr,
    what: &str,
    row: Row<'_>,
    cx: &mut Cx<'_>,
) -> Result<Option<std::sync::Arc<Vec<Value>>>> {
    match value(list, row, cx)? {
        Value::List(items) => Ok(Some(items)),
        Value::Null => Ok(None),
        other => Err(ExecError::type_mismatch(format!(
            "{what} iterates over a list, not {}",
            shown(&other)
        ))),
    }
}

/// `[x IN list WHERE predicate | result]`
pub(super) fn list(
    list: &BoundExpr,
    local: LocalId,
    predicate: Option<&BoundExpr>,
    result: Option<&BoundExpr>,
    row: Row<'_>,
    cx: &mut Cx<'_>,
) -> Result<Value> {
    let Some(items) = items(list, "a list comprehension", row, cx)? else {
        return Ok(Value::Null);
    };
    let mut made = Vec::new();
    let before = cx.run.watch.computed_bytes();
    for item in items.iter() {
        cx.tick(1)?;
        cx.set_local(local, item.clone());
        if let Some(predicate) = predicate
            && !holds(predicate, row, cx)?
        {
            continue;
        }
        made.push(match result {
            Some(result) => {
                let value = value(result, row, cx)?;
                cx.count_computed(&value)?;
                value
            }
            None => item.clone(),
        });
        if made.len() % 1024 == 0 {
            cx.run
                .watch
                .allow_computing(made.len() * size_of::<Value>())?;
        }
    }
    // The list is counted where it is kept.
    cx.run.watch.set_computed(before);
    Ok(Value::from(made))
}

/// `all`, `any`, `none`, `single`. Stops at the first element that decides.
pub(super) fn quantifier(
    kind: QuantifierKind,
    list: &BoundExpr,
    local: LocalId,
    predicate: &BoundExpr,
    row: Row<'_>,
    cx: &mut Cx<'_>,
) -> Result<Value> {
    let Some(items) = items(list, "a quantifier", row, cx)? else {
        return Ok(Value::Null);
    };
    let (mut trues, mut unknowns) = (0_u64, 0_u64);
    for item in items.iter() {
        cx.tick(1)?;
        cx.set_local(local, item.clone());
        let answer = truth(&value(predicate, row, cx)?, "the predicate of a quantifier")?;
        match (kind, answer) {
            (QuantifierKind::All, Some(false)) | (QuantifierKind::None, Some(true)) => {
                return Ok(Value::Bool(false));
            }
            (QuantifierKind::Any, Some(true)) => return Ok(Value::Bool(true)),
            (QuantifierKind::Single, Some(true)) if trues == 1 => return Ok(Value::Bool(false)),
            (_, Some(true)) => trues += 1,
            (_, Some(false)) => {}
            (_, None) => unknowns += 1,
        }
    }
    if unknowns > 0 {
        return Ok(Value::Null);
    }
    Ok(Value::Bool(match kind {
        QuantifierKind::All | QuantifierKind::None => true,
        QuantifierKind::Any => false,
        QuantifierKind::Single => trues == 1,
    }))
}

/// `reduce(accumulator = init, x IN list | step)`
pub(super) fn reduce(
    accumulator: LocalId,
    init: &BoundExpr,
    element: LocalId,
    list: &BoundExpr,
    step: &BoundExpr,
    row: Row<'_>,
    cx: &mut Cx<'_>,
) -> Result<Value> {
    let Some(items) = items(list, "reduce()", row, cx)? else {
        return Ok(Value::Null);
    };
    let mut result = value(init, row, cx)?;
    let before = cx.run.watch.computed_bytes();
    let mut measured = Measured::new(cx);
    for item in items.iter() {
        cx.tick(1)?;
        cx.set_local(accumulator, result);
        cx.set_local(element, item.clone());
        result = value(step, row, cx)?;
        measured.measure(&result, before, cx)?;
        if result.nests_deeper(MAX_NESTING) {
            return Err(ExecError::limit(
                format!("{MAX_NESTING} levels of nested lists and maps"),
                "reduce() made a value that nests deeper with every element: join lists with + instead",
            ));
        }
    }
    cx.set_local(accumulator, Value::Null);
    cx.run.watch.set_computed(before);
    Ok(result)
}

/// What the accumulator of `reduce()` holds: a list may grow by a value that is computed in each step.
///
/// It is measured whenever so much was computed since that it may have grown by a quarter, or by [`GROWTH_BYTES`]: all
/// measurements together cost about as much as the steps do.
struct Measured {
    bytes: usize,
    /// Bytes that the query had computed then.
    computed: usize,
}

/// An accumulator that grew by less is not measured.
const GROWTH_BYTES: usize = 1 << 20;

impl Measured {
    fn new(cx: &Cx<'_>) -> Self {
        Self {
            bytes: 0,
            computed: cx.run.watch.computed_ever(),
        }
    }

    /// Counts the accumulator instead of what was computed since there were `before` bytes.
    #[inline]
    fn measure(&mut self, accumulator: &Value, before: usize, cx: &mut Cx<'_>) -> Result<()> {
        let watch = &cx.run.watch;
        let computed = watch.computed_ever().wrapping_sub(self.computed);
        if computed < GROWTH_BYTES.max(self.bytes / 4) {
            return Ok(());
        }
        self.bytes = distinct_bytes(accumulator);
        watch.set_computed(before);
        watch.count_computed(self.bytes)?;
        self.computed = watch.computed_ever();
        Ok(())
    }
}

/// Runs a sub-plan for one row.
pub(super) fn subquery(subquery: &Subquery, row: Row<'_>, cx: &mut Cx<'_>) -> Result<Value> {
    let mut argument = Chunk::new(1, cx.run.plan.slots.len());
    for (slot, expr) in &subquery.arguments {
        argument.set(*slot, Column::Values(vec![value(expr, row, cx)?]));
    }
    let argument = Argument::new(argument);
    let mut child = match cx.run.subplans.remove(&subquery.root) {
        Some(mut child) => {
            child.open(&argument);
            child
        }
        None => Child::build(&cx.run.plan.clone(), subquery.root, &argument),
    };
    let before = cx.run.watch.computed_bytes();
    let result = drain(subquery.kind, &mut child, cx);
    child.close(cx);
    // A list is counted where it is kept.
    cx.run.watch.set_computed(before);
    cx.run.subplans.insert(subquery.root, child);
    result
}

fn drain(kind: SubqueryResult, child: &mut Child, cx: &mut Cx<'_>) -> Result<Value> {
    let mut count = 0_i64;
    let mut collected = Vec::new();
    while let Some(mut chunk) = child.pull(cx)? {
        match kind {
            SubqueryResult::Exists if !chunk.is_empty() => return Ok(Value::Bool(true)),
            SubqueryResult::Exists => {}
            SubqueryResult::Count => count += chunk.row_count() as i64,
            SubqueryResult::Collect(slot) => {
                chunk.flatten();
                let mut bytes = 0;
                for row in 0..chunk.len() {
                    let item = chunk.value(slot, row);
                    bytes += value_bytes(&item);
                    collected.push(item);
                }
                cx.run.watch.count_computed(bytes)?;
            }
        }
    }
    Ok(match kind {
        SubqueryResult::Exists => Value::Bool(false),
        SubqueryResult::Count => Value::Int(count),
        SubqueryResult::Collect(_) => Value::from(collected),
    })
}
