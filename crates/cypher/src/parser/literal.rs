//! Numbers and parameters.

use std::borrow::Cow;
use std::sync::Arc;

use super::cursor::{PResult, Parser};
use crate::Span;
use crate::ast::{Expr, ExprKind, Literal};
use crate::error::{Detail, ParseError};
use crate::lexer::quoted_name_value;
use crate::token::TokenKind;

/// A number, with an optional leading minus that is part of the literal.
pub(super) fn number(p: &mut Parser<'_>, minus: Option<Span>) -> PResult<Expr> {
    let start = minus.unwrap_or(p.span());
    let is_float = p.peek() == TokenKind::Float;
    let span = p.span();
    let literal = if is_float {
        Literal::Float(unsigned_float(p)? * if minus.is_some() { -1.0 } else { 1.0 })
    } else {
        let magnitude = i128::from(unsigned_integer(p)?);
        let number = if minus.is_some() {
            -magnitude
        } else {
            magnitude
        };
        let number = i64::try_from(number).map_err(|_| integer_overflow(p, span))?;
        Literal::Int(number)
    };
    Ok(Expr::new(ExprKind::Literal(literal), p.since(start)))
}

fn unsigned_float(p: &mut Parser<'_>) -> PResult<f64> {
    let text = p.token_text();
    let span = p.advance();
    match without_separators(text).parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(number),
        _ => Err(ParseError::new(
            Detail::FloatingPointOverflow,
            span,
            format!("{text} is above the largest float"),
        )
        .with_hint("floats reach up to about 1.8e308")),
    }
}

/// The current token as an unsigned number of up to 64 bits.
pub(super) fn unsigned_integer(p: &mut Parser<'_>) -> PResult<u64> {
    let text = p.token_text();
    let span = p.advance();
    let (digits, radix) = match text.as_bytes() {
        [b'0', b'x' | b'X', ..] => (&text[2..], 16),
        [b'0', b'o' | b'O', ..] => (&text[2..], 8),
        _ => (text, 10),
    };
    u64::from_str_radix(&without_separators(digits), radix).map_err(|_| integer_overflow(p, span))
}

/// Digits without the underscores between them.
fn without_separators(digits: &str) -> Cow<'_, str> {
    match digits.contains('_') {
        true => Cow::Owned(digits.replace('_', "")),
        false => Cow::Borrowed(digits),
    }
}

fn integer_overflow(p: &Parser<'_>, span: Span) -> ParseError {
    let number: String = span.slice(p.text).chars().take(40).collect();
    ParseError::new(
        Detail::IntegerOverflow,
        span,
        format!("{number} does not fit into 64 bits"),
    )
    .with_hint(
        "integers reach from -9223372036854775808 to 9223372036854775807; add `.0` for a float",
    )
}

pub(super) fn parameter(p: &mut Parser<'_>) -> PResult<Expr> {
    let text = p.token_text().get(1..).unwrap_or("");
    let name = if text.starts_with('`') {
        Arc::from(quoted_name_value(text))
    } else {
        Arc::from(text)
    };
    Ok(Expr::new(ExprKind::Parameter(name), p.advance()))
}
