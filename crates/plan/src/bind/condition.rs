//! Conditions of constraints that can be checked record by record: conjunctions of terms that compare one property, or
//! its size, with constants.

use std::sync::Arc;

use isomer_cypher::ast::{BinaryOp, Expr, ExprKind, Literal};
use isomer_value::Value;

use crate::{
    expr::Comparison,
    schema::{FieldRule, PropertyPath, Rule},
};

/// The terms of `condition` over the record `variable`; `None` if one of them has another form.
pub(super) fn field_rules(variable: &str, condition: &Expr) -> Option<Vec<FieldRule>> {
    match &condition.kind {
        ExprKind::And(terms) => {
            let mut rules = Vec::new();
            for term in terms {
                // A nested conjunction comes from parentheses: one level of nesting is supported.
                match &term.kind {
                    ExprKind::And(inner) => {
                        for term in inner {
                            rules.extend(term_rules(variable, term)?);
                        }
                    }
                    _ => rules.extend(term_rules(variable, term)?),
                }
            }
            Some(rules)
        }
        _ => term_rules(variable, condition),
    }
}

fn term_rules(variable: &str, term: &Expr) -> Option<Vec<FieldRule>> {
    match &term.kind {
        ExprKind::Binary {
            op: BinaryOp::In,
            left,
            right,
        } => {
            let ExprKind::List(items) = &right.kind else {
                return None;
            };
            let values = items.iter().map(constant).collect::<Option<_>>()?;
            Some(vec![FieldRule {
                path: path(variable, left)?,
                rule: Rule::OneOf(values),
            }])
        }
        ExprKind::Binary { op, left, right } => Some(vec![comparison(variable, *op, left, right)?]),
        ExprKind::ComparisonChain {
            operands,
            operators,
        } => operators
            .iter()
            .zip(operands.windows(2))
            .map(|(op, pair)| comparison(variable, *op, &pair[0], &pair[1]))
            .collect(),
        _ => None,
    }
}

fn comparison(variable: &str, op: BinaryOp, left: &Expr, right: &Expr) -> Option<FieldRule> {
    let op = match op {
        BinaryOp::Equal => Comparison::Equal,
        BinaryOp::Less => Comparison::Less,
        BinaryOp::LessOrEqual => Comparison::LessOrEqual,
        BinaryOp::Greater => Comparison::Greater,
        BinaryOp::GreaterOrEqual => Comparison::GreaterOrEqual,
        _ => return None,
    };
    let (op, tested, bound) = match (constant(right), constant(left)) {
        (Some(bound), None) => (op, left, bound),
        (None, Some(bound)) => (turned(op), right, bound),
        _ => return None,
    };
    if let Some(path) = path(variable, tested) {
        return Some(FieldRule {
            path,
            rule: Rule::Value(op, bound),
        });
    }
    let ExprKind::Function {
        name,
        distinct: false,
        arguments,
    } = &tested.kind
    else {
        return None;
    };
    let [argument] = arguments.as_slice() else {
        return None;
    };
    let is_size = name.parts.len() == 1 && name.parts[0].name.eq_ignore_ascii_case("size");
    let bound = bound.as_int().filter(|_| is_size)?;
    Some(FieldRule {
        path: path(variable, argument)?,
        rule: Rule::Size(op, bound),
    })
}

/// The comparison with swapped sides.
fn turned(op: Comparison) -> Comparison {
    match op {
        Comparison::Less => Comparison::Greater,
        Comparison::LessOrEqual => Comparison::GreaterOrEqual,
        Comparison::Greater => Comparison::Less,
        Comparison::GreaterOrEqual => Comparison::LessOrEqual,
        same => same,
    }
}

/// `variable.a.b` as a path.
fn path(variable: &str, expr: &Expr) -> Option<PropertyPath> {
    let mut names: Vec<Arc<str>> = Vec::new();
    let mut expr = expr;
    loop {
        match &expr.kind {
            ExprKind::Property { base, key } => {
                names.push(key.name.clone());
                expr = base;
            }
            ExprKind::Variable(name) if name.as_ref() == variable && !names.is_empty() => {
                names.reverse();
                return Some(names);
            }
            _ => return None,
        }
    }
}

fn constant(expr: &Expr) -> Option<Value> {
    match &expr.kind {
        ExprKind::Literal(Literal::Bool(value)) => Some(Value::Bool(*value)),
        ExprKind::Literal(Literal::Int(value)) => Some(Value::Int(*value)),
        ExprKind::Literal(Literal::Float(value)) => Some(Value::Float(*value)),
        ExprKind::Literal(Literal::String(value)) => Some(Value::String(value.clone())),
        _ => None,
    }
}
