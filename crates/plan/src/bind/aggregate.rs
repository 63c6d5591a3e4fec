//! Where aggregate functions are allowed, and how they are planned.
//!
//! In a projection with aggregates, the items without one are the grouping keys. An item with aggregates is computed
//! after the grouping, from aggregates, constants, and grouping keys that are variables or properties of variables;
//! anything else in it is ambiguous, because its value may differ between the rows of a group.

use isomer_cypher::Span;
use isomer_cypher::ast::{self, ExprKind};

use super::{Binder, Result, Typed};
use crate::error::PlanError;
use crate::expr::{AggregateCall, Expr, Kind, SlotId};
use crate::function::Aggregation;

/// How aggregate functions are handled in the current context.
#[derive(Debug)]
pub(crate) enum Aggregating<'a> {
    /// They are not allowed here (the text names the place).
    Forbidden(&'static str),
    /// In the argument of one: no nesting.
    Inside,
    /// In an item computed after grouping.
    After(Grouping<'a>),
}

/// A projection that aggregates.
#[derive(Debug, Default)]
pub(crate) struct Grouping<'a> {
    /// Grouping keys: source text and slot.
    pub keys: Vec<(&'a ast::Expr, SlotId, Kind)>,
    /// Aggregates found so far: source text and slot.
    pub calls: Vec<(&'a ast::Expr, SlotId, AggregateCall)>,
    /// Columns by name that `ORDER BY` may use in addition to the keys.
    pub columns: Vec<(std::sync::Arc<str>, SlotId, Kind)>,
    /// In a comprehension or a subquery, where aggregates are not allowed.
    pub closed: u32,
    /// After the columns, where only they are still variables.
    pub is_tail: bool,
}

impl Grouping<'_> {
    /// After the columns: the first variable in a new aggregate that is not a column.
    fn gone_variable(&self, aggregate: &ast::Expr) -> Option<(std::sync::Arc<str>, Span)> {
        let mut gone = None;
        if self.is_tail {
            walk(aggregate, &mut |one| {
                if let ExprKind::Variable(name) = &one.kind
                    && !self.columns.iter().any(|(column, ..)| column == name)
                {
                    gone.get_or_insert((name.clone(), one.span));
                }
                gone.is_none()
            });
        }
        gone
    }
}

/// Whether it contains an aggregate function, not counting those inside subqueries.
pub(crate) fn has_aggregate(expr: &ast::Expr) -> bool {
    let mut found = false;
    walk(expr, &mut |one| {
        found |= is_aggregate(one).is_some();
        !found
    });
    found
}

/// The aggregation that this call is.
pub(crate) fn is_aggregate(expr: &ast::Expr) -> Option<Aggregation> {
    match &expr.kind {
        ExprKind::CountStar => Some(Aggregation::CountRows),
        ExprKind::Function { name, .. } if name.parts.len() == 1 => {
            Aggregation::by_name(name.parts[0].as_str())
        }
        _ => None,
    }
}

/// Whether an expression may serve as a grouping key inside an item that aggregates.
pub(crate) fn is_simple_key(expr: &ast::Expr) -> bool {
    match &expr.kind {
        ExprKind::Variable(_) => true,
        ExprKind::Property { base, .. } => is_simple_key(base),
        _ => false,
    }
}

/// Calls `visit` for an expression and, while it returns true, for those in it; not inside subqueries and patterns.
pub(crate) fn walk<'e>(expr: &'e ast::Expr, visit: &mut dyn FnMut(&'e ast::Expr) -> bool) {
    if !visit(expr) {
        return;
    }
    match &expr.kind {
        ExprKind::Literal(_)
        | ExprKind::Parameter(_)
        | ExprKind::Variable(_)
        | ExprKind::CountStar
        | ExprKind::PatternPredicate(_)
        | ExprKind::ShortestPath(_)
        | ExprKind::Subquery { .. } => {}
        ExprKind::List(items)
        | ExprKind::And(items)
        | ExprKind::Or(items)
        | ExprKind::Xor(items) => {
            items.iter().for_each(|item| walk(item, visit));
        }
        ExprKind::Map(entries) => entries.iter().for_each(|entry| walk(&entry.value, visit)),
        ExprKind::Property { base, .. } => walk(base, visit),
        ExprKind::Index { base, index } => {
            walk(base, visit);
            walk(index, visit);
        }
        ExprKind::Slice { base, from, to } => {
            walk(base, visit);
            from.iter().chain(to).for_each(|bound| walk(bound, visit));
        }
        ExprKind::Unary { operand, .. }
        | ExprKind::IsNull { operand, .. }
        | ExprKind::IsTyped { operand, .. }
        | ExprKind::HasLabels { operand, .. } => walk(operand, visit),
        ExprKind::Binary { left, right, .. } => {
            walk(left, visit);
            walk(right, visit);
        }
        ExprKind::ComparisonChain { operands, .. } | ExprKind::ArithmeticChain { operands, .. } => {
            operands.iter().for_each(|operand| walk(operand, visit))
        }
        ExprKind::Case {
            subject,
            branches,
            otherwise,
        } => {
            subject.iter().for_each(|subject| walk(subject, visit));
            for branch in branches {
                walk(&branch.when, visit);
                walk(&branch.then, visit);
            }
            otherwise
                .iter()
                .for_each(|otherwise| walk(otherwise, visit));
        }
        ExprKind::Function { arguments, .. } => {
            arguments.iter().for_each(|argument| walk(argument, visit))
        }
        ExprKind::ListComprehension {
            list,
            predicate,
            projection,
            ..
        } => {
            walk(list, visit);
            predicate
                .iter()
                .chain(projection)
                .for_each(|one| walk(one, visit));
        }
        ExprKind::PatternComprehension {
            predicate,
            projection,
            ..
        } => {
            predicate.iter().for_each(|one| walk(one, visit));
            walk(projection, visit);
        }
        ExprKind::Quantifier {
            list, predicate, ..
        } => {
            walk(list, visit);
            predicate.iter().for_each(|one| walk(one, visit));
        }
        ExprKind::Reduce {
            initial,
            list,
            step,
            ..
        } => {
            walk(initial, visit);
            walk(list, visit);
            walk(step, visit);
        }
        ExprKind::MapProjection { items, .. } => {
            for item in items {
                if let ast::MapProjectionItem::Entry(entry) = item {
                    walk(&entry.value, visit);
                }
            }
        }
    }
}

/// The call of a function whose value differs from call to call.
fn random_call(expr: &ast::Expr) -> Option<&ast::Expr> {
    let mut found = None;
    walk(expr, &mut |one| {
        if let ExprKind::Function { name, .. } = &one.kind
            && ["rand", "randomuuid"].contains(&name.dotted().to_lowercase().as_str())
        {
            found = Some(one);
        }
        found.is_none()
    });
    found
}

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
                if let Some((_, slot, _)) = grouping.calls.iter().find(|(known, ..)| *known == expr)
                {
                    let slot = *slot;
                    let kind = self.arena.kind(slot).clone();
                    return Ok(Typed::new(Expr::Slot(slot), kind));
                }
                if let Some((name, span)) = grouping.gone_variable(expr) {
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
        let after = std::mem::replace(&mut self.aggregating, Aggregating::Inside);
        let bound = self.bind_aggregate_arguments(expr, function);
        self.aggregating = after;
        let (call, kind) = bound?;
        let name = expr.span.slice(self.text).to_owned();
        let slot = self.arena.slot(name, kind.clone());
        if let Aggregating::After(grouping) = &mut self.aggregating {
            grouping.calls.push((expr, slot, call));
        }
        Ok(Typed::new(Expr::Slot(slot), kind))
    }

    fn bind_aggregate_arguments(
        &mut self,
        expr: &'a ast::Expr,
        function: Aggregation,
    ) -> Result<(AggregateCall, Kind)> {
        let (arguments, distinct): (&'a [ast::Expr], bool) = match &expr.kind {
            ExprKind::Function {
                arguments,
                distinct,
                ..
            } => (arguments, *distinct),
            _ => (&[], false),
        };
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
            bound.push(self.bind_expr(argument)?);
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
            (Aggregation::Collect, Some(argument)) => Kind::List(Box::new(argument.kind.clone())),
            _ => function.kind(),
        };
        let arguments = bound.into_iter().map(|one| one.expr).collect();
        Ok((
            AggregateCall {
                function,
                distinct,
                arguments,
            },
            kind,
        ))
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
                return Ok(Some(Typed::new(Expr::Slot(*slot), kind.clone())));
            }
        }
        if let Some((_, slot, kind)) = grouping.keys.iter().find(|(key, ..)| *key == expr) {
            return Ok(Some(Typed::new(Expr::Slot(*slot), kind.clone())));
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

fn misplaced(function: Aggregation, place: &str, span: Span) -> PlanError {
    let name = function.name().trim_end_matches("(*)");
    PlanError::syntax(
        "InvalidAggregation",
        format!("the aggregate function `{name}()` is not allowed {place}"),
        span,
    )
    .with_hint("aggregate in a WITH before it")
}
