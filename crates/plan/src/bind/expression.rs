//! Expressions: operators, containers, comprehensions.
//!
//! The parser bounds the depth of the syntax tree, so these functions recurse; long `AND` and `OR` chains are flat.

use isomer_cypher::Span;
use isomer_cypher::ast::{self, BinaryOp, ExprKind, LabelExprKind, Literal, UnaryOp};
use isomer_value::Value;

use super::element_id;
use super::function::convergent_or_plain;
use super::grouping::{Aggregating, is_aggregate};
use super::types::{expect_boolean, expect_container, join_all, wrong_kind};
use super::{Binder, Result, Typed};
use crate::error::PlanError;
use crate::expr::{
    Arithmetic, BoundExpr, Comparison, MapItem, QuantifierKind, StaticType, StringTest,
};
use crate::function::Function;

impl<'a> Binder<'a> {
    /// Binds an expression whose value is used.
    ///
    /// Texts may nest a few hundred levels deep: this function and those it calls keep their stack frames small by
    /// delegating each case to a separate function.
    pub(super) fn bind_expr(&mut self, expr: &'a ast::Expr) -> Result<Typed> {
        match &expr.kind {
            ExprKind::Literal(_) | ExprKind::Parameter(_) | ExprKind::Variable(_) => {
                bind_leaf(self, expr)
            }
            ExprKind::CountStar | ExprKind::Function { .. } => bind_any_call(self, expr),
            ExprKind::Property { .. } => bind_any_property(self, expr),
            ExprKind::List(items) => bind_list(self, items),
            ExprKind::Map(entries) => bind_map(self, entries),
            ExprKind::Unary { op, operand } => bind_unary(self, *op, operand),
            ExprKind::Binary { op, left, right } => bind_binary(self, *op, left, right),
            ExprKind::And(_) | ExprKind::Or(_) | ExprKind::Xor(_) => bind_connective(self, expr),
            _ => bind_rest(self, expr),
        }
    }

    /// Binds a condition: a bare pattern is allowed here, too; a value that cannot be a boolean is not.
    pub(super) fn bind_condition(&mut self, expr: &'a ast::Expr) -> Result<BoundExpr> {
        if let ExprKind::PatternPredicate(path) = &expr.kind {
            return Ok(self.bind_pattern_predicate(path, expr.span)?.expr);
        }
        let bound = self.bind_expr(expr)?;
        expect_boolean("a condition", &bound.kind, expr.span)?;
        Ok(bound.expr)
    }

    /// `entity:labels` for a node.
    pub(super) fn label_predicate(
        &mut self,
        entity: &BoundExpr,
        labels: &'a ast::LabelExpr,
    ) -> Result<BoundExpr> {
        let has = |labels| BoundExpr::HasLabels {
            entity: Box::new(entity.clone()),
            labels,
        };
        Ok(match &labels.kind {
            LabelExprKind::Name(name) => has(vec![self.label(name)]),
            // No label named: the node has any.
            LabelExprKind::Any => has(Vec::new()),
            LabelExprKind::Not(inner) => match inner.kind {
                LabelExprKind::Any => BoundExpr::Not(Box::new(has(Vec::new()))),
                _ => BoundExpr::Not(Box::new(self.label_predicate(entity, inner)?)),
            },
            LabelExprKind::And(parts) => BoundExpr::all_of(
                parts
                    .iter()
                    .map(|part| self.label_predicate(entity, part))
                    .collect::<Result<_>>()?,
            ),
            LabelExprKind::Or(parts) => BoundExpr::Or(
                parts
                    .iter()
                    .map(|part| self.label_predicate(entity, part))
                    .collect::<Result<_>>()?,
            ),
            LabelExprKind::Dynamic { names, any } => {
                let carried = call(Function::Labels, vec![entity.clone()]);
                let names = self.bind_expr(names)?.expr;
                has_names(carried, names, *any)
            }
        })
    }

    /// `entity:types` for a relationship.
    pub(super) fn type_predicate(
        &mut self,
        entity: &BoundExpr,
        types: &'a ast::LabelExpr,
    ) -> Result<BoundExpr> {
        if let Some(names) = types.as_disjunction() {
            let types = names.into_iter().map(|name| self.rel_type(name)).collect();
            return Ok(BoundExpr::HasType {
                entity: Box::new(entity.clone()),
                types,
            });
        }
        Ok(match &types.kind {
            LabelExprKind::Name(name) => {
                let types = vec![self.rel_type(name)];
                BoundExpr::HasType {
                    entity: Box::new(entity.clone()),
                    types,
                }
            }
            // Every relationship has a type.
            LabelExprKind::Any => BoundExpr::IsNotNull(Box::new(entity.clone())),
            LabelExprKind::Not(inner) => {
                BoundExpr::Not(Box::new(self.type_predicate(entity, inner)?))
            }
            LabelExprKind::And(parts) => BoundExpr::all_of(
                parts
                    .iter()
                    .map(|part| self.type_predicate(entity, part))
                    .collect::<Result<_>>()?,
            ),
            LabelExprKind::Or(parts) => BoundExpr::Or(
                parts
                    .iter()
                    .map(|part| self.type_predicate(entity, part))
                    .collect::<Result<_>>()?,
            ),
            LabelExprKind::Dynamic { names, any } => {
                let names = self.bind_expr(names)?.expr;
                type_has_names(entity.clone(), names, *any)
            }
        })
    }

    /// Runs `body` in a context without aggregates.
    pub(super) fn without_aggregates<T>(
        &mut self,
        body: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        if let Aggregating::After(grouping) = &mut self.aggregating {
            grouping.closed += 1;
        }
        // A counter, as such contexts nest.
        let result = body(self);
        if let Aggregating::After(grouping) = &mut self.aggregating {
            grouping.closed -= 1;
        }
        result
    }

    pub(super) fn label(&mut self, name: &ast::Ident) -> crate::expr::LabelRef {
        self.arena.label(&name.name)
    }

    pub(super) fn rel_type(&mut self, name: &ast::Ident) -> crate::expr::TypeRef {
        self.arena.rel_type(&name.name)
    }
}

/// Expressions that seldom nest deeply.
fn bind_rest<'a>(binder: &mut Binder<'a>, expr: &'a ast::Expr) -> Result<Typed> {
    match &expr.kind {
        ExprKind::Index { base, index } => bind_index(binder, base, index),
        ExprKind::Slice { base, from, to } => {
            bind_slice(binder, base, from.as_deref(), to.as_deref())
        }
        ExprKind::ComparisonChain {
            operands,
            operators,
        } => bind_chain(binder, operands, operators),
        ExprKind::ArithmeticChain {
            operands,
            operators,
        } => bind_arithmetic_chain(binder, operands, operators),
        ExprKind::IsNull { operand, negated } => bind_is_null(binder, operand, *negated),
        ExprKind::IsTyped { .. } => bind_is_typed(binder, expr),
        ExprKind::HasLabels { operand, labels } => bind_has_labels(binder, operand, labels),
        ExprKind::Case {
            subject,
            branches,
            otherwise,
        } => bind_case(binder, subject.as_deref(), branches, otherwise.as_deref()),
        ExprKind::ListComprehension { .. } => bind_list_comprehension(binder, expr),
        ExprKind::PatternComprehension {
            path,
            predicate,
            projection,
        } => binder.bind_pattern_comprehension(path, predicate.as_deref(), projection, expr.span),
        ExprKind::Quantifier {
            kind,
            variable,
            list,
            predicate,
        } => bind_quantifier(binder, *kind, variable, list, predicate.as_deref()),
        ExprKind::Reduce {
            accumulator,
            initial,
            variable,
            list,
            step,
        } => bind_reduce(binder, accumulator, initial, variable, list, step),
        ExprKind::MapProjection { variable, items } => bind_map_projection(binder, variable, items),
        ExprKind::ShortestPath(path) => binder.bind_shortest_path_value(path, expr.span),
        ExprKind::Subquery { kind, query } => binder.bind_subquery(*kind, query, expr.span),
        _ => Err(pattern_as_value(expr.span)),
    }
}

fn bind_leaf<'a>(binder: &mut Binder<'a>, expr: &'a ast::Expr) -> Result<Typed> {
    match &expr.kind {
        ExprKind::Literal(literal) => Ok(bind_literal(literal)),
        ExprKind::Parameter(name) => Ok(Typed::new(
            BoundExpr::Param(binder.arena.parameter(name)),
            StaticType::Any,
        )),
        ExprKind::Variable(name) => {
            // After the grouping, a name is a column of the group. The variable of the rows
            // before it may have the same name.
            if let Some(grouped) = binder.grouped(expr)? {
                return Ok(grouped);
            }
            binder
                .lookup(name)
                .ok_or_else(|| binder.undefined(name, expr.span))
        }
        _ => Err(pattern_as_value(expr.span)),
    }
}

fn bind_any_call<'a>(binder: &mut Binder<'a>, expr: &'a ast::Expr) -> Result<Typed> {
    match (is_aggregate(expr), &expr.kind) {
        (Some(function), _) => binder.bind_aggregate(expr, function),
        (
            None,
            ExprKind::Function {
                name,
                distinct,
                arguments,
            },
        ) => binder.bind_function(name, *distinct, arguments, expr.span),
        _ => Err(pattern_as_value(expr.span)),
    }
}

fn bind_any_property<'a>(binder: &mut Binder<'a>, expr: &'a ast::Expr) -> Result<Typed> {
    if let Some(grouped) = binder.grouped(expr)? {
        return Ok(grouped);
    }
    match &expr.kind {
        ExprKind::Property { base, key } => bind_property(binder, base, key),
        _ => Err(pattern_as_value(expr.span)),
    }
}

fn bind_connective<'a>(binder: &mut Binder<'a>, expr: &'a ast::Expr) -> Result<Typed> {
    type Connect = fn(Vec<BoundExpr>) -> BoundExpr;
    let (name, terms, connect): (_, _, Connect) = match &expr.kind {
        ExprKind::And(terms) => ("AND", terms, BoundExpr::And),
        ExprKind::Or(terms) => ("OR", terms, BoundExpr::Or),
        ExprKind::Xor(terms) => ("XOR", terms, BoundExpr::Xor),
        _ => return Err(pattern_as_value(expr.span)),
    };
    let mut bound = Vec::with_capacity(terms.len());
    for term in terms {
        bound.push(bind_operand(binder, name, term)?);
    }
    Ok(boolean(connect(bound)))
}

fn bind_is_null<'a>(
    binder: &mut Binder<'a>,
    operand: &'a ast::Expr,
    negated: bool,
) -> Result<Typed> {
    let operand = Box::new(binder.bind_expr(operand)?.expr);
    Ok(boolean(if negated {
        BoundExpr::IsNotNull(operand)
    } else {
        BoundExpr::IsNull(operand)
    }))
}

fn bind_is_typed<'a>(binder: &mut Binder<'a>, expr: &'a ast::Expr) -> Result<Typed> {
    let ExprKind::IsTyped {
        operand,
        value_type,
        negated,
    } = &expr.kind
    else {
        return Err(pattern_as_value(expr.span));
    };
    let operand = Box::new(binder.bind_expr(operand)?.expr);
    let test = BoundExpr::IsTyped {
        operand,
        value_type: value_type.clone(),
    };
    Ok(boolean(if *negated {
        BoundExpr::Not(Box::new(test))
    } else {
        test
    }))
}

/// Binds an operand of a boolean operator.
fn bind_operand<'a>(
    binder: &mut Binder<'a>,
    operator: &str,
    expr: &'a ast::Expr,
) -> Result<BoundExpr> {
    if let ExprKind::PatternPredicate(path) = &expr.kind {
        return Ok(binder.bind_pattern_predicate(path, expr.span)?.expr);
    }
    let bound = binder.bind_expr(expr)?;
    expect_boolean(operator, &bound.kind, expr.span)?;
    Ok(bound.expr)
}

fn bind_list<'a>(binder: &mut Binder<'a>, items: &'a [ast::Expr]) -> Result<Typed> {
    let mut bound = Vec::with_capacity(items.len());
    let mut kinds = Vec::with_capacity(items.len());
    for item in items {
        let item = binder.bind_expr(item)?;
        bound.push(item.expr);
        kinds.push(item.kind);
    }
    let kind = StaticType::List(Box::new(join_all(&kinds)));
    Ok(Typed::new(fold_list(bound), kind))
}

fn bind_map<'a>(binder: &mut Binder<'a>, entries: &'a [ast::MapEntry]) -> Result<Typed> {
    let mut bound = Vec::with_capacity(entries.len());
    for entry in entries {
        bound.push((entry.key.name.clone(), binder.bind_expr(&entry.value)?.expr));
    }
    Ok(Typed::new(BoundExpr::Map(bound), StaticType::Map))
}

fn bind_property<'a>(
    binder: &mut Binder<'a>,
    base: &'a ast::Expr,
    key: &ast::Ident,
) -> Result<Typed> {
    let bound = binder.bind_expr(base)?;
    expect_container(&bound.kind, base.span)?;
    let name = binder.arena.property(&key.name);
    let plain = BoundExpr::Property {
        base: Box::new(bound.expr),
        name,
        nested: is_path(base),
    };
    // Only the requested entry of a map in a record is read.
    if !matches!(base.kind, ExprKind::Property { .. }) {
        return Ok(Typed::new(plain, StaticType::Any));
    }
    let look = binder.bind_inner_look(base, &key.name)?;
    Ok(Typed::new(
        convergent_or_plain(look, plain),
        StaticType::Any,
    ))
}

fn bind_index<'a>(
    binder: &mut Binder<'a>,
    base: &'a ast::Expr,
    index: &'a ast::Expr,
) -> Result<Typed> {
    let list = binder.bind_expr(base)?;
    if !matches!(list.kind, StaticType::List(_)) {
        expect_container(&list.kind, base.span)?;
    }
    let position = binder.bind_expr(index)?;
    let kind = list.kind.element();
    let made = BoundExpr::Index {
        base: Box::new(list.expr),
        index: Box::new(position.expr),
        nested: is_path(base),
    };
    // An entity's property with a computed name cannot have a wrong static type.
    let made = match list.kind {
        StaticType::Node | StaticType::Relationship => made,
        _ => made.at((base.span.start, index.span.end)),
    };
    Ok(Typed::new(made, kind))
}

fn bind_slice<'a>(
    binder: &mut Binder<'a>,
    base: &'a ast::Expr,
    from: Option<&'a ast::Expr>,
    to: Option<&'a ast::Expr>,
) -> Result<Typed> {
    let list = binder.bind_expr(base)?;
    if !matches!(list.kind, StaticType::List(_) | StaticType::Any) {
        return Err(wrong_kind("a slice", "a list", &list.kind, base.span));
    }
    let from = from
        .map(|bound| binder.bind_expr(bound))
        .transpose()?
        .map(|bound| Box::new(bound.expr));
    let to = to
        .map(|bound| binder.bind_expr(bound))
        .transpose()?
        .map(|bound| Box::new(bound.expr));
    let kind = list.kind;
    Ok(Typed::new(
        BoundExpr::Slice {
            base: Box::new(list.expr),
            from,
            to,
        },
        kind,
    ))
}

fn bind_unary<'a>(binder: &mut Binder<'a>, op: UnaryOp, operand: &'a ast::Expr) -> Result<Typed> {
    if op == UnaryOp::Not {
        let bound = bind_operand(binder, "NOT", operand)?;
        return Ok(boolean(BoundExpr::Not(Box::new(bound))));
    }
    let bound = binder.bind_expr(operand)?;
    if !bound.kind.maybe_number() && bound.kind != StaticType::Temporal {
        return Err(wrong_kind("a sign", "a number", &bound.kind, operand.span));
    }
    let inner = Box::new(bound.expr);
    Ok(Typed::new(
        if op == UnaryOp::Minus {
            BoundExpr::Negate(inner)
        } else {
            BoundExpr::Plus(inner)
        },
        bound.kind,
    ))
}

fn bind_binary<'a>(
    binder: &mut Binder<'a>,
    op: BinaryOp,
    left: &'a ast::Expr,
    right: &'a ast::Expr,
) -> Result<Typed> {
    let (left_span, right_span) = (left.span, right.span);
    let field = right;
    // Both sides in the order of the text, before the operator is examined: of several errors the
    // first in the text is reported.
    let left = binder.bind_expr(left)?;
    let right = binder.bind_expr(right)?;
    if let Some(op) = arithmetic(op) {
        return bind_arithmetic(op, left, right, left_span, right_span);
    }
    if let Some(op) = comparison(op) {
        return Ok(boolean(element_id::compare(
            op,
            left.expr,
            right.expr,
            &binder.arena,
        )));
    }
    if let Some(op) = string_test(op) {
        return Ok(boolean(BoundExpr::StringTest {
            op,
            left: Box::new(left.expr),
            right: Box::new(right.expr),
        }));
    }
    if !matches!(right.kind, StaticType::List(_) | StaticType::Any) {
        return Err(wrong_kind(
            "IN",
            "a list on its right",
            &right.kind,
            right_span,
        ));
    }
    let look = Function::ConvergentContains;
    let look = binder.bind_field_query(look, field, Some(left.expr.clone()))?;
    let plain = element_id::contains(left.expr, right.expr, &binder.arena);
    Ok(boolean(convergent_or_plain(look, plain)))
}

fn bind_chain<'a>(
    binder: &mut Binder<'a>,
    operands: &'a [ast::Expr],
    operators: &[BinaryOp],
) -> Result<Typed> {
    let mut bound = Vec::with_capacity(operands.len());
    for operand in operands {
        bound.push(binder.bind_expr(operand)?.expr);
    }
    let pairs = bound.windows(2).zip(operators).map(|(pair, operator)| {
        let op = comparison(*operator).expect("a chain holds comparisons");
        // Each inner operand occurs in two comparisons: `a < b < c` is defined as `a < b AND b < c`.
        element_id::compare(op, pair[0].clone(), pair[1].clone(), &binder.arena)
    });
    Ok(boolean(BoundExpr::all_of(pairs.collect())))
}

fn bind_arithmetic_chain<'a>(
    binder: &mut Binder<'a>,
    operands: &'a [ast::Expr],
    operators: &[BinaryOp],
) -> Result<Typed> {
    let mut bound: Vec<BoundExpr> = Vec::with_capacity(operands.len());
    let mut ops = Vec::with_capacity(operators.len());
    // The parser returns a long sum as one chain and not as nested pairs, or binding, planning and
    // evaluating it would recurse as deeply as it has operands. Kinds are combined from left to
    // right as for nested pairs, so the same operands are refused.
    let mut whole: Option<(StaticType, Span)> = None;
    for (at, operand) in operands.iter().enumerate() {
        let right = binder.bind_expr(operand)?;
        whole = Some(match whole {
            None => (right.kind, operand.span),
            Some((kind, span)) => {
                let op = arithmetic(operators[at - 1]).expect("a chain holds arithmetic");
                ops.push(op);
                // Only the kinds are used here.
                let left = Typed::new(BoundExpr::null(), kind);
                let pair = Typed::new(BoundExpr::null(), right.kind);
                let kind = bind_arithmetic(op, left, pair, span, operand.span)?.kind;
                (kind, span.to(operand.span))
            }
        });
        bound.push(right.expr);
    }
    let (kind, span) = whole.unwrap_or((StaticType::Any, Span::default()));
    let made = BoundExpr::ArithChain {
        operands: bound,
        ops,
    };
    Ok(Typed::new(made.at((span.start, span.end)), kind))
}

/// Whether labels that a node carries match computed names.
pub(super) fn has_names(carried: BoundExpr, names: BoundExpr, any: bool) -> BoundExpr {
    let function = match any {
        true => Function::HasAnyName,
        false => Function::HasAllNames,
    };
    call(function, vec![carried, names])
}

/// Whether the type of a relationship matches computed names.
pub(super) fn type_has_names(relationship: BoundExpr, names: BoundExpr, any: bool) -> BoundExpr {
    let carried = call(Function::Type, vec![relationship]);
    has_names(carried, names, any)
}

fn call(function: Function, arguments: Vec<BoundExpr>) -> BoundExpr {
    BoundExpr::Call {
        function,
        arguments,
    }
}

fn bind_has_labels<'a>(
    binder: &mut Binder<'a>,
    operand: &'a ast::Expr,
    labels: &'a ast::LabelExpr,
) -> Result<Typed> {
    let bound = binder.bind_expr(operand)?;
    match bound.kind {
        StaticType::Node | StaticType::Any => {
            Ok(boolean(binder.label_predicate(&bound.expr, labels)?))
        }
        StaticType::Relationship => Ok(boolean(binder.type_predicate(&bound.expr, labels)?)),
        other => Err(wrong_kind(
            "a label test",
            "a node or a relationship",
            &other,
            operand.span,
        )),
    }
}

fn bind_case<'a>(
    binder: &mut Binder<'a>,
    subject: Option<&'a ast::Expr>,
    branches: &'a [ast::CaseBranch],
    otherwise: Option<&'a ast::Expr>,
) -> Result<Typed> {
    let tested = subject.is_some();
    let subject = subject
        .map(|subject| binder.bind_expr(subject))
        .transpose()?
        .map(|bound| Box::new(bound.expr));
    let mut arms = Vec::with_capacity(branches.len());
    let mut kinds = Vec::new();
    for branch in branches {
        let when = if tested {
            binder.bind_expr(&branch.when)?.expr
        } else {
            binder.bind_condition(&branch.when)?
        };
        let then = binder.bind_expr(&branch.then)?;
        arms.push((when, then.expr));
        kinds.push(then.kind);
    }
    let otherwise = match otherwise {
        None => None,
        Some(expr) => {
            let bound = binder.bind_expr(expr)?;
            kinds.push(bound.kind);
            Some(Box::new(bound.expr))
        }
    };
    Ok(Typed::new(
        BoundExpr::Case {
            subject,
            arms,
            otherwise,
        },
        join_all(&kinds),
    ))
}

fn bind_source_list<'a>(
    binder: &mut Binder<'a>,
    what: &str,
    list: &'a ast::Expr,
) -> Result<(Box<BoundExpr>, StaticType)> {
    let bound = binder.bind_expr(list)?;
    if !matches!(bound.kind, StaticType::List(_) | StaticType::Any) {
        return Err(wrong_kind(what, "a list", &bound.kind, list.span));
    }
    let element = bound.kind.element();
    Ok((Box::new(bound.expr), element))
}

fn bind_list_comprehension<'a>(binder: &mut Binder<'a>, expr: &'a ast::Expr) -> Result<Typed> {
    let ExprKind::ListComprehension {
        variable,
        list,
        predicate,
        projection,
    } = &expr.kind
    else {
        return Err(pattern_as_value(expr.span));
    };
    // Bound before the variable exists: in `[x IN x | …]` the list is the outer `x`.
    let (list, element) = bind_source_list(binder, "a list comprehension", list)?;
    let (local, (predicate, result)) =
        binder.with_local(&variable.name, element.clone(), |binder| {
            binder.without_aggregates(|binder| {
                let predicate = predicate
                    .as_deref()
                    .map(|one| binder.bind_condition(one))
                    .transpose()?;
                let result = projection
                    .as_deref()
                    .map(|one| binder.bind_expr(one))
                    .transpose()?;
                Ok((predicate, result))
            })
        })?;
    let kind = StaticType::List(Box::new(
        result
            .as_ref()
            .map_or(element, |result| result.kind.clone()),
    ));
    let (predicate, result) = (
        predicate.map(Box::new),
        result.map(|one| Box::new(one.expr)),
    );
    Ok(Typed::new(
        BoundExpr::ListComprehension {
            list,
            local,
            predicate,
            result,
        },
        kind,
    ))
}

fn bind_quantifier<'a>(
    binder: &mut Binder<'a>,
    kind: QuantifierKind,
    variable: &'a ast::Ident,
    list: &'a ast::Expr,
    predicate: Option<&'a ast::Expr>,
) -> Result<Typed> {
    let (list, element) = bind_source_list(binder, "a quantifier", list)?;
    let (local, predicate) = binder.with_local(&variable.name, element, |binder| {
        binder.without_aggregates(|binder| {
            predicate.map(|one| binder.bind_condition(one)).transpose()
        })
    })?;
    let predicate = Box::new(predicate.unwrap_or(BoundExpr::Local(local)));
    Ok(boolean(BoundExpr::Quantifier {
        kind,
        list,
        local,
        predicate,
    }))
}

fn bind_reduce<'a>(
    binder: &mut Binder<'a>,
    accumulator: &'a ast::Ident,
    initial: &'a ast::Expr,
    variable: &'a ast::Ident,
    list: &'a ast::Expr,
    step: &'a ast::Expr,
) -> Result<Typed> {
    let init = Box::new(binder.bind_expr(initial)?.expr);
    let (list, element_kind) = bind_source_list(binder, "reduce()", list)?;
    let (accumulator, (element, step)) =
        // Of any type: the result of a step may be of another type than the initial value.
        binder.with_local(&accumulator.name, StaticType::Any, |binder| {
            binder.with_local(&variable.name, element_kind, |binder| {
                binder.without_aggregates(|binder| Ok(binder.bind_expr(step)?.expr))
            })
        })?;
    Ok(Typed::new(
        BoundExpr::Reduce {
            accumulator,
            init,
            element,
            list,
            step: Box::new(step),
        },
        StaticType::Any,
    ))
}

fn bind_map_projection<'a>(
    binder: &mut Binder<'a>,
    variable: &'a ast::Ident,
    items: &'a [ast::MapProjectionItem],
) -> Result<Typed> {
    let base = bind_name(binder, variable)?;
    expect_container(&base.kind, variable.span)?;
    let mut bound = Vec::with_capacity(items.len());
    for item in items {
        bound.push(match item {
            ast::MapProjectionItem::AllProperties => MapItem::All,
            ast::MapProjectionItem::Property(key) => {
                let name = binder.arena.property(&key.name);
                MapItem::Entry(
                    key.name.clone(),
                    BoundExpr::property(base.expr.clone(), name),
                )
            }
            ast::MapProjectionItem::Entry(entry) => {
                MapItem::Entry(entry.key.name.clone(), binder.bind_expr(&entry.value)?.expr)
            }
            ast::MapProjectionItem::Variable(name) => {
                MapItem::Entry(name.name.clone(), bind_name(binder, name)?.expr)
            }
        });
    }
    Ok(Typed::new(
        BoundExpr::MapProjection {
            base: Box::new(base.expr),
            items: bound,
        },
        StaticType::Map,
    ))
}

/// Binds a variable that is used as a name, not as an expression.
fn bind_name(binder: &mut Binder<'_>, name: &ast::Ident) -> Result<Typed> {
    if let Aggregating::After(grouping) = &binder.aggregating {
        let key = grouping
            .keys
            .iter()
            .find(|(key, ..)| key.as_variable() == Some(&name.name));
        if let Some((_, slot, kind)) = key {
            return Ok(Typed::new(BoundExpr::Slot(*slot), kind.clone()));
        }
    }
    binder
        .lookup(&name.name)
        .ok_or_else(|| binder.undefined(&name.name, name.span))
}

fn pattern_as_value(span: Span) -> PlanError {
    PlanError::syntax(
        "UnexpectedSyntax",
        "a pattern is a condition, not a value",
        span,
    )
    .with_hint("use EXISTS { … }, COUNT { … } or a pattern comprehension [(a)-->(b) | b]")
}

pub(super) fn boolean(expr: BoundExpr) -> Typed {
    Typed::new(expr, StaticType::Boolean)
}

fn bind_literal(literal: &Literal) -> Typed {
    let (value, kind) = match literal {
        Literal::Null => (Value::Null, StaticType::Any),
        Literal::Bool(value) => (Value::Bool(*value), StaticType::Boolean),
        Literal::Int(value) => (Value::Int(*value), StaticType::Integer),
        Literal::Float(value) => (Value::Float(*value), StaticType::Float),
        Literal::String(value) => (Value::String(value.clone()), StaticType::String),
    };
    Typed::new(BoundExpr::Const(value), kind)
}

/// A list of constants is folded to a constant.
fn fold_list(items: Vec<BoundExpr>) -> BoundExpr {
    if !items.iter().all(|item| matches!(item, BoundExpr::Const(_))) {
        return BoundExpr::List(items);
    }
    let values = items.into_iter().map(|item| match item {
        BoundExpr::Const(value) => value,
        _ => unreachable!("all are constants"),
    });
    BoundExpr::Const(Value::List(std::sync::Arc::new(values.collect())))
}

fn bind_arithmetic(
    op: Arithmetic,
    left: Typed,
    right: Typed,
    left_span: Span,
    right_span: Span,
) -> Result<Typed> {
    // Only what cannot succeed for any value is refused here. An operand of unknown kind is
    // checked when it is evaluated.
    let joins = matches!(op, Arithmetic::Add | Arithmetic::Concat);
    for (side, span) in [(&left, left_span), (&right, right_span)] {
        let wrong = match side.kind {
            StaticType::String | StaticType::List(_) => !joins,
            // A list accepts any element.
            StaticType::Boolean
            | StaticType::Map
            | StaticType::Node
            | StaticType::Relationship
            | StaticType::Path => !joins,
            _ => false,
        };
        if wrong {
            return Err(wrong_kind("arithmetic", "numbers", &side.kind, span));
        }
    }
    let kind = match (op, &left.kind, &right.kind) {
        (Arithmetic::Power, a, b) if a.maybe_number() && b.maybe_number() => StaticType::Float,
        (Arithmetic::Add | Arithmetic::Concat, StaticType::List(a), StaticType::List(b)) => {
            StaticType::List(Box::new(a.join(b)))
        }
        (Arithmetic::Add, StaticType::List(_), _) | (Arithmetic::Add, _, StaticType::List(_)) => {
            StaticType::List(Box::new(StaticType::Any))
        }
        (Arithmetic::Add | Arithmetic::Concat, StaticType::String, StaticType::String) => {
            StaticType::String
        }
        (_, StaticType::Integer, StaticType::Integer) => StaticType::Integer,
        (_, StaticType::Float, StaticType::Integer | StaticType::Float | StaticType::Number)
        | (_, StaticType::Integer | StaticType::Number, StaticType::Float) => StaticType::Float,
        (_, StaticType::Integer | StaticType::Number, StaticType::Integer | StaticType::Number) => {
            StaticType::Number
        }
        _ => StaticType::Any,
    };
    let span = left_span.to(right_span);
    let made = BoundExpr::Arith {
        op,
        left: Box::new(left.expr.without_place()),
        right: Box::new(right.expr.without_place()),
    };
    Ok(Typed::new(made.at((span.start, span.end)), kind))
}

fn arithmetic(op: BinaryOp) -> Option<Arithmetic> {
    Some(match op {
        BinaryOp::Add => Arithmetic::Add,
        BinaryOp::Subtract => Arithmetic::Subtract,
        BinaryOp::Multiply => Arithmetic::Multiply,
        BinaryOp::Divide => Arithmetic::Divide,
        BinaryOp::Modulo => Arithmetic::Modulo,
        BinaryOp::Power => Arithmetic::Power,
        BinaryOp::Concat => Arithmetic::Concat,
        _ => return None,
    })
}

fn comparison(op: BinaryOp) -> Option<Comparison> {
    Some(match op {
        BinaryOp::Equal => Comparison::Equal,
        BinaryOp::NotEqual => Comparison::NotEqual,
        BinaryOp::Less => Comparison::Less,
        BinaryOp::LessOrEqual => Comparison::LessOrEqual,
        BinaryOp::Greater => Comparison::Greater,
        BinaryOp::GreaterOrEqual => Comparison::GreaterOrEqual,
        _ => return None,
    })
}

fn string_test(op: BinaryOp) -> Option<StringTest> {
    Some(match op {
        BinaryOp::StartsWith => StringTest::StartsWith,
        BinaryOp::EndsWith => StringTest::EndsWith,
        BinaryOp::Contains => StringTest::Contains,
        BinaryOp::RegexMatch => StringTest::Matches,
        _ => return None,
    })
}

/// Whether an expression is a path below a property, through maps and lists. `n['name']` is a spelling of `n.name`;
/// a number in brackets is the place in a list, which alone makes no path.
fn is_path(expr: &ast::Expr) -> bool {
    match &expr.kind {
        ExprKind::Property { .. } => true,
        ExprKind::Index { base, index } => {
            matches!(index.kind, ExprKind::Literal(Literal::String(_))) || is_path(base)
        }
        _ => false,
    }
}
