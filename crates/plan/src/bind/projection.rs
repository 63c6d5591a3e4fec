//! `WITH` and `RETURN`: columns, grouping, order, paging.

use std::sync::Arc;

use isomer_cypher::ast::{self, ExprKind, Literal};
use rustc_hash::FxHashSet;

use super::grouping::{Aggregating, Grouping, has_aggregate, is_simple_key, walk};
use super::query::Column;
use super::scope::{Scope, Variable};
use super::types::wrong_kind;
use super::{Binder, Result};
use crate::error::PlanError;
use crate::expr::{BoundExpr, SlotId, StaticType};
use crate::logical::{LogicalStep, conjuncts};
use crate::physical::SortKey;

/// Which clause projects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProjectionClause {
    With,
    Return,
}

/// The state of binding a projection.
struct Projected<'a> {
    columns: Vec<Column>,
    /// The source text of each column; absent for those of `*`.
    written: Vec<Option<&'a ast::Expr>>,
}

/// `ORDER BY`, `SKIP`, `LIMIT` and `WHERE` after the columns.
#[derive(Clone, Copy)]
struct Tail<'a> {
    order_by: &'a [ast::SortItem],
    predicate: Option<&'a ast::Expr>,
}

/// Sort keys and the condition of a [`Tail`].
type Bound = (Vec<SortKey>, Option<BoundExpr>);

impl<'a> Binder<'a> {
    /// Binds a projection and the `WHERE` after it; the scope remains the one before it until the caller
    /// [`enter`](Self::enter)s the new one.
    pub(super) fn bind_projection(
        &mut self,
        projection: &'a ast::Projection,
        predicate: Option<&'a ast::Expr>,
        projecting: ProjectionClause,
        steps: &mut Vec<LogicalStep>,
    ) -> Result<Vec<Column>> {
        let mut projected = star_columns(self, projection, projecting)?;
        check_names(projection, projecting, &projected.columns)?;
        let tail = Tail {
            order_by: &projection.order_by,
            predicate,
        };
        // Sort keys and the condition are bound with the columns, although their steps come later: only
        // here both the columns and the variables before them are in scope.
        let is_grouped = projection
            .items
            .iter()
            .any(|item| has_aggregate(&item.expr));
        let (keys, filter) = if is_grouped {
            bind_grouped(self, projection, &mut projected, tail, steps)?
        } else {
            bind_plain(self, projection, &mut projected, steps)?;
            bind_tail(self, projection, &projected, tail)?
        };
        self.aggregating = Aggregating::Forbidden("here");
        if is_grouped || projection.distinct {
            self.frame().csv_origin = None;
        }
        if projection.distinct {
            steps.push(LogicalStep::Distinct(
                projected.columns.iter().map(|column| column.slot).collect(),
            ));
        }
        if !keys.is_empty() {
            steps.push(LogicalStep::Sort(keys));
        }
        for (count, wrap) in [
            (
                &projection.skip,
                LogicalStep::Skip as fn(BoundExpr) -> LogicalStep,
            ),
            (
                &projection.limit,
                LogicalStep::Limit as fn(BoundExpr) -> LogicalStep,
            ),
        ] {
            if let Some(count) = count {
                let bound = bind_count(self, count)?;
                steps.push(wrap(bound));
            }
        }
        if let Some(filter) = filter {
            let mut terms = Vec::new();
            conjuncts(filter, &mut terms);
            steps.push(LogicalStep::Filter(terms));
        }
        Ok(projected.columns)
    }

    /// Makes the columns the only variables in scope.
    pub(super) fn enter(&mut self, columns: Vec<Column>) {
        let mut scope = Scope::default();
        for column in columns {
            scope.set(
                column.name,
                Variable {
                    slot: column.slot,
                    kind: column.kind,
                },
            );
        }
        self.frame().scope = scope;
    }
}

fn star_columns<'a>(
    binder: &mut Binder<'a>,
    projection: &ast::Projection,
    projecting: ProjectionClause,
) -> Result<Projected<'a>> {
    let mut projected = Projected {
        columns: Vec::new(),
        written: Vec::new(),
    };
    if projection.star {
        if projecting == ProjectionClause::Return && binder.frame().scope.is_empty() {
            return Err(PlanError::syntax(
                "NoVariablesInScope",
                "there are no variables for `*`",
                projection.span,
            )
            .with_hint("give the parts of the pattern names"));
        }
        for (name, Variable { slot, kind }) in binder.frame().scope.sorted() {
            projected.columns.push(Column { name, slot, kind });
            projected.written.push(None);
        }
    }
    Ok(projected)
}

fn bind_plain<'a>(
    binder: &mut Binder<'a>,
    projection: &'a ast::Projection,
    projected: &mut Projected<'a>,
    steps: &mut Vec<LogicalStep>,
) -> Result<()> {
    let mut computed = Vec::new();
    for item in &projection.items {
        let bound = binder.bind_expr(&item.expr)?;
        let slot = column_slot(binder, item, bound.expr, &bound.kind, &mut computed);
        projected.columns.push(Column {
            name: item.column().clone(),
            slot,
            kind: bound.kind,
        });
        projected.written.push(Some(&item.expr));
    }
    if !computed.is_empty() {
        steps.push(LogicalStep::Project(computed));
    }
    Ok(())
}

/// The slot that an expression already is, or a new one that is computed.
fn column_slot(
    binder: &mut Binder<'_>,
    item: &ast::ProjectionItem,
    expr: BoundExpr,
    kind: &StaticType,
    computed: &mut Vec<(SlotId, BoundExpr)>,
) -> SlotId {
    match expr {
        BoundExpr::Slot(slot) => slot,
        expr => {
            let slot = binder.arena.slot(item.column().clone(), kind.clone());
            computed.push((slot, expr));
            slot
        }
    }
}

fn bind_grouped<'a>(
    binder: &mut Binder<'a>,
    projection: &'a ast::Projection,
    projected: &mut Projected<'a>,
    tail: Tail<'a>,
    steps: &mut Vec<LogicalStep>,
) -> Result<Bound> {
    let mut keys: Vec<(SlotId, BoundExpr)> = Vec::new();
    let mut grouping = Grouping::default();
    for column in &projected.columns {
        keys.push((column.slot, BoundExpr::Slot(column.slot)));
        grouping
            .columns
            .push((column.name.clone(), column.slot, column.kind.clone()));
    }
    // First the keys, in any position, then what is computed from them and from aggregates.
    let mut key_columns: Vec<Option<Column>> = Vec::with_capacity(projection.items.len());
    for item in &projection.items {
        if has_aggregate(&item.expr) {
            key_columns.push(None);
            continue;
        }
        let bound = binder.bind_expr(&item.expr)?;
        let slot = match bound.expr {
            BoundExpr::Slot(slot) => slot,
            _ => binder.arena.slot(item.column().clone(), bound.kind.clone()),
        };
        // Two columns may be one variable; it is grouped by once.
        if !keys.iter().any(|(known, _)| *known == slot) {
            keys.push((slot, bound.expr));
        }
        // Only variables and their properties are recognised in other items. Any other key is a column
        // only: in `RETURN a + 1, a + 1 + count(*)` the second `a` is ambiguous.
        if is_simple_key(&item.expr) {
            grouping.keys.push((&item.expr, slot, bound.kind.clone()));
        }
        key_columns.push(Some(Column {
            name: item.column().clone(),
            slot,
            kind: bound.kind,
        }));
    }
    binder.aggregating = Aggregating::After(grouping);
    let mut computed = Vec::new();
    for (item, key) in projection.items.iter().zip(key_columns) {
        let column = match key {
            Some(column) => column,
            None => {
                let bound = binder.bind_expr(&item.expr)?;
                let slot = column_slot(binder, item, bound.expr, &bound.kind, &mut computed);
                Column {
                    name: item.column().clone(),
                    slot,
                    kind: bound.kind,
                }
            }
        };
        projected.columns.push(column);
        projected.written.push(Some(&item.expr));
    }
    // Before the grouping is taken: `ORDER BY` may add aggregates that are not among the columns.
    let bound = bind_tail_after(binder, projected, tail)?;
    let after = std::mem::replace(&mut binder.aggregating, Aggregating::Forbidden("here"));
    let Aggregating::After(grouping) = after else {
        unreachable!("set above")
    };
    let aggregates = grouping
        .calls
        .into_iter()
        .map(|(_, slot, call)| (slot, call))
        .collect();
    steps.push(LogicalStep::Aggregate { keys, aggregates });
    if !computed.is_empty() {
        steps.push(LogicalStep::Project(computed));
    }
    Ok(bound)
}

/// Binds the rest of a projection without aggregation. After `DISTINCT` only its columns are in scope; otherwise
/// columns and the variables before them.
fn bind_tail<'a>(
    binder: &mut Binder<'a>,
    projection: &'a ast::Projection,
    projected: &Projected<'a>,
    tail: Tail<'a>,
) -> Result<Bound> {
    if projection.distinct {
        // After `DISTINCT` the rows before it are gone: as after a grouping by all columns, but
        // without aggregates (`closed`).
        let mut grouping = Grouping {
            closed: 1,
            ..Grouping::default()
        };
        for (column, written) in projected.columns.iter().zip(&projected.written) {
            if let Some(written) = written.filter(|written| is_simple_key(written)) {
                grouping
                    .keys
                    .push((written, column.slot, column.kind.clone()));
            }
        }
        binder.aggregating = Aggregating::After(grouping);
        return bind_tail_after(binder, projected, tail);
    }
    let before = binder.frame().scope.clone();
    for column in &projected.columns {
        let variable = Variable {
            slot: column.slot,
            kind: column.kind.clone(),
        };
        binder.frame().scope.set(column.name.clone(), variable);
    }
    // Without a grouping column it is unknown which rows an aggregate in ORDER BY would combine.
    binder.aggregating =
        Aggregating::Forbidden("in ORDER BY or WHERE after columns without aggregates");
    let bound = bind_tail_items(binder, projected, tail);
    binder.frame().scope = before;
    bound
}

/// Binds the rest of a projection after which only columns, grouping keys and aggregates are in scope.
fn bind_tail_after<'a>(
    binder: &mut Binder<'a>,
    projected: &Projected<'a>,
    tail: Tail<'a>,
) -> Result<Bound> {
    if let Aggregating::After(grouping) = &mut binder.aggregating {
        grouping.is_tail = true;
        for column in &projected.columns {
            grouping
                .columns
                .push((column.name.clone(), column.slot, column.kind.clone()));
        }
    }
    // Aliases are not in the scope before the projection: they are added, and `grouped` finds their slots.
    let before = binder.frame().scope.clone();
    for column in &projected.columns {
        if before.get(&column.name).is_none() {
            let variable = Variable {
                slot: column.slot,
                kind: column.kind.clone(),
            };
            binder.frame().scope.set(column.name.clone(), variable);
        }
    }
    let bound = bind_tail_items(binder, projected, tail);
    binder.frame().scope = before;
    bound
}

fn bind_tail_items<'a>(
    binder: &mut Binder<'a>,
    projected: &Projected<'a>,
    tail: Tail<'a>,
) -> Result<Bound> {
    let mut keys = Vec::with_capacity(tail.order_by.len());
    for item in tail.order_by {
        let key = bind_sort_item(binder, item, projected);
        keys.push(key.map_err(|error| as_undefined_variable(error, &item.expr))?);
    }
    let filter = match tail.predicate {
        None => None,
        Some(predicate) => {
            let bound = binder.without_aggregates(|binder| binder.bind_condition(predicate));
            Some(bound.map_err(|error| as_undefined_variable(error, predicate))?)
        }
    };
    Ok((keys, filter))
}

fn bind_sort_item<'a>(
    binder: &mut Binder<'a>,
    item: &'a ast::SortItem,
    projected: &Projected<'a>,
) -> Result<SortKey> {
    let same = projected
        .written
        .iter()
        .position(|written| written.is_some_and(|written| *written == item.expr));
    // A column of this name shadows the earlier variable.
    let shadowed = item
        .expr
        .as_variable()
        .is_some_and(|name| projected.columns.iter().any(|column| column.name == *name));
    // An expression written as a column is already computed: the sort reads the column.
    let expr = match same {
        Some(position) if !shadowed => BoundExpr::Slot(projected.columns[position].slot),
        _ => binder.bind_expr(&item.expr)?.expr,
    };
    Ok(SortKey {
        expr,
        descending: item.descending,
    })
}

/// The number of a `SKIP` or `LIMIT`.
fn bind_count<'a>(binder: &mut Binder<'a>, count: &'a ast::Expr) -> Result<BoundExpr> {
    let mut variable = None;
    walk(count, &mut |one| {
        if matches!(one.kind, ExprKind::Variable(_)) {
            variable.get_or_insert(one.span);
        }
        true
    });
    if let Some(span) = variable {
        return Err(PlanError::syntax(
            "NonConstantExpression",
            "a number of rows cannot depend on a row",
            span,
        )
        .with_hint("use a literal or a parameter"));
    }
    if let ExprKind::Literal(Literal::Int(rows)) = count.kind
        && rows < 0
    {
        return Err(PlanError::syntax(
            "NegativeIntegerArgument",
            format!("a number of rows is not negative, as {rows} is"),
            count.span,
        ));
    }
    let bound = binder.bind_expr(count)?;
    match bound.kind {
        StaticType::Integer | StaticType::Number | StaticType::Any => Ok(bound.expr),
        other => Err(wrong_kind(
            "a number of rows",
            "an integer",
            &other,
            count.span,
        )),
    }
}

/// Without an aggregate in the expression, a variable that the projection dropped is an ordinary undefined variable.
fn as_undefined_variable(error: PlanError, expr: &ast::Expr) -> PlanError {
    if error.detail == "AmbiguousAggregationExpression" && !has_aggregate(expr) {
        return PlanError {
            detail: "UndefinedVariable",
            ..error
        };
    }
    error
}

/// Column names must be unique; in a `WITH` every expression needs a name.
fn check_names(
    projection: &ast::Projection,
    projecting: ProjectionClause,
    star: &[Column],
) -> Result<()> {
    let mut names: FxHashSet<&Arc<str>> = star.iter().map(|column| &column.name).collect();
    for item in &projection.items {
        if projecting == ProjectionClause::With
            && item.alias.is_none()
            && item.expr.as_variable().is_none()
        {
            return Err(PlanError::syntax(
                "NoExpressionAlias",
                "an expression in WITH needs a name",
                item.span,
            )
            .with_hint("write: expression AS name"));
        }
        if !names.insert(item.column()) {
            return Err(PlanError::syntax(
                "ColumnNameConflict",
                format!("two columns are named `{}`", item.column()),
                item.span,
            )
            .with_hint("give one of them another name with AS"));
        }
    }
    Ok(())
}
