//! Label expressions: conditions on the labels of a node or the type of a relationship.

use super::cursor::{Context, PResult, Parser};
use crate::Span;
use crate::ast::{LabelExpr, LabelExprKind};
use crate::token::{Symbol, TokenKind};

/// Parses from the first colon on.
pub(super) fn label_expression(p: &mut Parser<'_>) -> PResult<LabelExpr> {
    p.expect(Symbol::Colon)?;
    label_alternatives(p)
}

fn label_alternatives(p: &mut Parser<'_>) -> PResult<LabelExpr> {
    let start = p.span();
    let mut parts = vec![label_conjunction(p)?];
    while !p.context.bar_ends && p.is(Symbol::Bar) {
        p.advance();
        p.eat(Symbol::Colon);
        parts.push(label_conjunction(p)?);
    }
    Ok(joined(parts, LabelExprKind::Or, p.since(start)))
}

fn label_conjunction(p: &mut Parser<'_>) -> PResult<LabelExpr> {
    let start = p.span();
    let mut parts = vec![label_term(p)?];
    while p.is(Symbol::Ampersand) || p.is(Symbol::Colon) {
        p.advance();
        parts.push(label_term(p)?);
    }
    Ok(joined(parts, LabelExprKind::And, p.since(start)))
}

fn label_term(p: &mut Parser<'_>) -> PResult<LabelExpr> {
    let start = p.span();
    let kind = match p.peek() {
        TokenKind::Symbol(Symbol::Bang) => {
            p.advance();
            let inner = p.nested(label_term)?;
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
            let inner = p.nested(|p| p.within(context, label_alternatives))?;
            p.expect(Symbol::RightParen)?;
            return Ok(inner);
        }
        _ => LabelExprKind::Name(p.name("a label or type")?),
    };
    Ok(LabelExpr {
        kind,
        span: p.since(start),
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
