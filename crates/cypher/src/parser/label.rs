//! Label expressions: conditions on the labels of a node or the type of a relationship.

use super::cursor::{Context, PResult, Parser, Rule};
use crate::Span;
use crate::ast::{Expr, LabelExpr, LabelExprKind};
use crate::token::{Symbol, TokenKind};

/// Parses from the first colon on. `expression` parses what computes a name.
pub(super) fn label_expression(p: &mut Parser<'_>, expression: Rule<Expr>) -> PResult<LabelExpr> {
    p.expect(Symbol::Colon)?;
    label_alternatives(p, expression)
}

fn label_alternatives(p: &mut Parser<'_>, expression: Rule<Expr>) -> PResult<LabelExpr> {
    let start = p.span();
    let mut parts = vec![label_conjunction(p, expression)?];
    while !p.context.bar_ends && p.is(Symbol::Bar) {
        p.advance();
        p.eat(Symbol::Colon);
        parts.push(label_conjunction(p, expression)?);
    }
    Ok(joined(parts, LabelExprKind::Or, p.since(start)))
}

fn label_conjunction(p: &mut Parser<'_>, expression: Rule<Expr>) -> PResult<LabelExpr> {
    let start = p.span();
    let mut parts = vec![label_term(p, expression)?];
    while p.is(Symbol::Ampersand) || p.is(Symbol::Colon) {
        p.advance();
        parts.push(label_term(p, expression)?);
    }
    Ok(joined(parts, LabelExprKind::And, p.since(start)))
}

fn label_term(p: &mut Parser<'_>, expression: Rule<Expr>) -> PResult<LabelExpr> {
    let start = p.span();
    let kind = match p.peek() {
        TokenKind::Symbol(Symbol::Bang) => {
            p.advance();
            let inner = p.nested(|p| label_term(p, expression))?;
            LabelExprKind::Not(Box::new(inner))
        }
        TokenKind::Symbol(Symbol::Percent) => {
            p.advance();
            LabelExprKind::Any
        }
        TokenKind::Symbol(Symbol::LeftParen) => {
            p.advance();
            let context = Context {
                bar_ends: false,
                ..p.context
            };
            let inner = p.nested(|p| p.within(context, |p| label_alternatives(p, expression)))?;
            p.expect(Symbol::RightParen)?;
            return Ok(inner);
        }
        TokenKind::Symbol(Symbol::Dollar) => dynamic_names(p, expression, false)?,
        TokenKind::Parameter if p.is_at(1, Symbol::LeftParen) => {
            let word = p.token_text();
            if word.eq_ignore_ascii_case("$any") {
                dynamic_names(p, expression, true)?
            } else if word.eq_ignore_ascii_case("$all") {
                dynamic_names(p, expression, false)?
            } else {
                return Err(p.unexpected("a label or type, `$(…)`, `$all(…)` or `$any(…)`"));
            }
        }
        TokenKind::Parameter => {
            return Err(p.unexpected("a label or type").with_hint(format!(
                "a computed name is written `$({})`",
                p.token_text()
            )));
        }
        _ => LabelExprKind::Name(p.name("a label or type")?),
    };
    Ok(LabelExpr {
        kind,
        span: p.since(start),
    })
}

/// `$(expression)`, from the word before the parenthesis on.
fn dynamic_names(p: &mut Parser<'_>, expression: Rule<Expr>, any: bool) -> PResult<LabelExprKind> {
    p.advance();
    p.expect(Symbol::LeftParen)?;
    let names = p.nested(expression)?;
    p.expect(Symbol::RightParen)?;
    Ok(LabelExprKind::Dynamic {
        names: Box::new(names),
        any,
    })
}

fn joined(
    mut parts: Vec<LabelExpr>,
    join: fn(Vec<LabelExpr>) -> LabelExprKind,
    span: Span,
) -> LabelExpr {
    match parts.len() {
        1 => parts.remove(0),
        _ => LabelExpr {
            kind: join(parts),
            span,
        },
    }
}
