//! `IN … TRANSACTIONS` after a subquery.

use super::cursor::{PResult, Parser, Rule};
use crate::ast::{Concurrency, Expr, ExprKind, InTransactions, Literal, OnBatchError};
use crate::error::{Detail, ParseError};
use crate::token::Keyword;

/// From `IN` on.
pub(super) fn in_transactions(
    p: &mut Parser<'_>,
    expression: Rule<Expr>,
) -> PResult<InTransactions> {
    let start = p.advance();
    let mut concurrency = None;
    if p.eat_word("CONCURRENT") {
        concurrency = Some(Concurrency::Default);
    } else if !is_transactions(p) {
        concurrency = Some(Concurrency::Count(positive(p, expression)?));
        if !p.eat_word("CONCURRENT") {
            return Err(p.unexpected("CONCURRENT TRANSACTIONS"));
        }
    }
    if !is_transactions(p) {
        return Err(p.unexpected("TRANSACTIONS"));
    }
    p.advance();
    let mut found = InTransactions {
        concurrency,
        batch_rows: None,
        on_error: OnBatchError::Fail,
        status: None,
        span: start,
    };
    let mut has_on_error = false;
    // In any order, each at most once.
    loop {
        if found.batch_rows.is_none() && p.eat_word("OF") {
            found.batch_rows = Some(positive(p, expression)?);
            if !(p.eat_word("ROWS") || p.eat_word("ROW")) {
                return Err(p.unexpected("ROWS"));
            }
        } else if !has_on_error && p.is_keyword(Keyword::On) {
            has_on_error = true;
            found.on_error = on_error(p)?;
        } else if found.status.is_none() && p.eat_word("REPORT") {
            if !p.eat_word("STATUS") {
                return Err(p.unexpected("STATUS AS and a variable"));
            }
            p.expect_keyword(Keyword::As)?;
            found.status = Some(p.variable()?);
        } else {
            break;
        }
    }
    found.span = p.since(start);
    if found.status.is_some() && found.on_error == OnBatchError::Fail {
        return Err(ParseError::new(
            Detail::UnexpectedSyntax,
            found.span,
            "REPORT STATUS needs ON ERROR CONTINUE or ON ERROR BREAK: after ON ERROR FAIL no row is left to report in",
        ));
    }
    Ok(found)
}

fn is_transactions(p: &Parser<'_>) -> bool {
    p.is_word("TRANSACTIONS") || p.is_word("TRANSACTION")
}

/// `ON ERROR CONTINUE`, `BREAK` or `FAIL`
fn on_error(p: &mut Parser<'_>) -> PResult<OnBatchError> {
    p.advance();
    if !p.eat_word("ERROR") {
        return Err(p.unexpected("ERROR CONTINUE, ERROR BREAK or ERROR FAIL"));
    }
    if p.eat_word("CONTINUE") {
        Ok(OnBatchError::Continue)
    } else if p.eat_word("BREAK") {
        Ok(OnBatchError::Break)
    } else if p.eat_word("FAIL") {
        Ok(OnBatchError::Fail)
    } else {
        Err(p.unexpected("CONTINUE, BREAK or FAIL"))
    }
}

/// An expression whose value is a positive integer.
fn positive(p: &mut Parser<'_>, expression: Rule<Expr>) -> PResult<Expr> {
    let count = expression(p)?;
    match &count.kind {
        ExprKind::Literal(Literal::Int(number)) if *number > 0 => Ok(count),
        ExprKind::Literal(_) => Err(ParseError::new(
            Detail::InvalidArgumentType,
            count.span,
            "the number of rows or transactions is a positive integer",
        )),
        _ => Ok(count),
    }
}
