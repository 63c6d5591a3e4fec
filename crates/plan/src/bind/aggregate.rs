//! Where aggregate functions are allowed, and how they are planned.
//!
//! In a projection with aggregates, the items without one are the grouping keys. An item with aggregates is computed
//! after the grouping, from aggregates, constants, and grouping keys that are variables or properties of variables;
//! anything else in it is ambiguous, because its value may differ between the rows of a group.

use isomer_cypher::Span;
use isomer_cypher::ast::{self, ExprKind};

use super::grouping::{Aggregating, is_simple_key, random_call};
use super::{Binder, Result, Typed};
use crate::error::PlanError;
use crate::expr::{AggregateCall, BoundExpr, StaticType};
use crate::function::Aggregation;

impl<'a> Binder<'a> {
    /// Binds an aggregate call: its value is in a slot once the rows are grouped.
    pub(super) fn bind_aggregate(
        &mut self,
        expr: &'a ast::Expr,
        function: Aggregation,
    ) -> Result<Typed> {
        match &self.aggregating {
            Aggregating::Forbidden(place) => return Err(misplaced(function, place, expr.span)),
            Aggregating::Inside => {
                return Err(PlanError::syntax(
                    "NestedAggregation",
                    format!(
                        "`{}()` is used inside another aggregate function",
                        function.name()
                    ),
                    expr.span,
                )
                .with_hint("aggregate first in a WITH"));
            }
            Aggregating::After(grouping) => {
                if grouping.closed > 0 {
                    return Err(misplaced(
                        function,
                        "in a comprehension or subquery",
                        expr.span,
                    ));
                }
                // The same call in several columns, or in a column and in `ORDER BY`, is computed once.
                if let Some((_, slot, _)) = grouping.calls.iter().find(|(known, ..)| *known == expr)
                {
                    let slot = *slot;
                    let kind = self.arena.kind(slot).clone();
                    return Ok(Typed::new(BoundExpr::Slot(slot), kind));
                }
                if let Some((name, span)) = grouping.dropped_variable(expr) {
                    return Err(PlanError::syntax(
                        "UndefinedVariable",
                        format!("`{name}` is out of scope after the aggregation"),
                        span,
                    )
                    .with_hint(format!(
                        "make `{}()` of it a column and sort by that",
                        function.name()
                    )));
                }
            }
        }
        // The arguments are evaluated for each row before the grouping, with its variables. The state
        // is restored before an error is returned.
        let after = std::mem::replace(&mut self.aggregating, Aggregating::Inside);
        let bound = bind_aggregate_arguments(self, expr, function);
        self.aggregating = after;
        let (call, kind) = bound?;
        let name = expr.span.slice(self.text).to_owned();
        let slot = self.arena.slot(name, kind.clone());
        if let Aggregating::After(grouping) = &mut self.aggregating {
            grouping.calls.push((expr, slot, call));
        }
        Ok(Typed::new(BoundExpr::Slot(slot), kind))
    }

    /// In an item computed after grouping: the value of a grouping key or column, if `expr` is one.
    pub(super) fn grouped(&mut self, expr: &'a ast::Expr) -> Result<Option<Typed>> {
        let Aggregating::After(grouping) = &self.aggregating else {
            return Ok(None);
        };
        if !is_simple_key(expr) {
            return Ok(None);
        }
        if let ExprKind::Variable(name) = &expr.kind {
            // A local, such as the variable of a comprehension, shadows columns and keys of the same name.
            if self
                .frames
                .last()
                .is_some_and(|frame| frame.locals.iter().any(|(local, ..)| local == name))
            {
                return Ok(None);
            }
            if let Some((_, slot, kind)) =
                grouping.columns.iter().find(|(column, ..)| column == name)
            {
                return Ok(Some(Typed::new(BoundExpr::Slot(*slot), kind.clone())));
            }
        }
        // Compared as written: keys are variables and properties of variables, for
        // which equal text is equal value.
        if let Some((_, slot, kind)) = grouping.keys.iter().find(|(key, ..)| *key == expr) {
            return Ok(Some(Typed::new(BoundExpr::Slot(*slot), kind.clone())));
        }
        match &expr.kind {
            ExprKind::Variable(name) => {
                // A variable from outside of this query is constant for all of its rows.
                let frame = self.frames.last().expect("a statement is bound in a frame");
                if frame.scope.get(name).is_none() {
                    return Ok(None);
                }
                Err(PlanError::syntax(
                    "AmbiguousAggregationExpression",
                    format!("`{name}` is neither aggregated nor a grouping key"),
                    expr.span,
                )
                .with_hint(format!(
                    "project `{}` by itself, or in a WITH before",
                    expr.span.slice(self.text)
                )))
            }
            _ => Ok(None),
        }
    }
}

fn bind_aggregate_arguments<'a>(
    binder: &mut Binder<'a>,
    expr: &'a ast::Expr,
    function: Aggregation,
) -> Result<(AggregateCall, StaticType)> {
    let (arguments, distinct): (&'a [ast::Expr], bool) = match &expr.kind {
        ExprKind::Function {
            arguments,
            distinct,
            ..
        } => (arguments, *distinct),
        _ => (&[], false),
    };
    if function == Aggregation::ProjectGraph && binder.catalog.procedure(function.name()).is_none()
    {
        return Err(PlanError::syntax(
            "UnknownFunction",
            format!(
                "there is no function `{}()`: this build has no graph algorithms",
                function.name()
            ),
            expr.span,
        ));
    }
    let (fewest, most) = function.arity();
    if arguments.len() < fewest || arguments.len() > most {
        return Err(super::function::wrong_count(
            function.name(),
            fewest,
            most,
            arguments.len(),
            expr.span,
        ));
    }
    let mut bound = Vec::with_capacity(arguments.len());
    for argument in arguments {
        bound.push(binder.bind_expr(argument)?);
    }
    if let Some(random) = arguments.iter().find_map(random_call) {
        return Err(PlanError::syntax(
            "NonConstantExpression",
            format!("a random value inside `{}()`", function.name()),
            random.span,
        )
        .with_hint("compute it in a WITH before"));
    }
    let kind = match (function, bound.first()) {
        (Aggregation::Min | Aggregation::Max, Some(argument)) => argument.kind.clone(),
        (Aggregation::Collect, Some(argument)) => StaticType::List(Box::new(argument.kind.clone())),
        _ => function.kind(),
    };
    let mut arguments: Vec<BoundExpr> = bound.into_iter().map(|one| one.expr).collect();
    if function == Aggregation::ProjectGraph {
        // One value per row, which is a list of all arguments.
        arguments.resize(most, BoundExpr::null());
        arguments = vec![BoundExpr::List(arguments)];
    }
    Ok((
        AggregateCall {
            function,
            distinct,
            arguments,
        },
        kind,
    ))
}

fn misplaced(function: Aggregation, place: &str, span: Span) -> PlanError {
    let name = function.name().trim_end_matches("(*)");
    PlanError::syntax(
        "InvalidAggregation",
        format!("the aggregate function `{name}()` is not allowed {place}"),
        span,
    )
    .with_hint("aggregate in a WITH before it")
}
