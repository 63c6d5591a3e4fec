//! Aggregation in the syntax tree: which expressions aggregate, and which are grouping keys.

use isomer_cypher::Span;
use isomer_cypher::ast::{self, ExprKind};

use crate::expr::{AggregateCall, SlotId, StaticType};
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
    pub keys: Vec<(&'a ast::Expr, SlotId, StaticType)>,
    /// Aggregates found so far: source text and slot.
    pub calls: Vec<(&'a ast::Expr, SlotId, AggregateCall)>,
    /// Columns by name that `ORDER BY` may use in addition to the keys.
    pub columns: Vec<(std::sync::Arc<str>, SlotId, StaticType)>,
    /// In a comprehension or a subquery, where aggregates are not allowed.
    pub closed: u32,
    /// After the columns, where only they are still variables.
    pub is_tail: bool,
}

impl Grouping<'_> {
    /// After the columns: the first variable in a new aggregate that is not a column.
    pub(super) fn dropped_variable(
        &self,
        aggregate: &ast::Expr,
    ) -> Option<(std::sync::Arc<str>, Span)> {
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
        ExprKind::Function { name, .. } if name.parts[0].as_str().eq_ignore_ascii_case("gds") => {
            Aggregation::by_name(&name.dotted())
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
        | ExprKind::IsTyped { operand, .. } => walk(operand, visit),
        ExprKind::HasLabels { operand, labels } => {
            walk(operand, visit);
            labels.for_each_expr(&mut |names| walk(names, visit));
        }
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
pub(super) fn random_call(expr: &ast::Expr) -> Option<&ast::Expr> {
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
