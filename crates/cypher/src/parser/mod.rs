//! Recursive-descent parser from tokens to a syntax tree; operators by precedence climbing.
//!
//! Grammar rules are functions over [`Parser`], the state of one parse: expressions, patterns and queries, which are
//! mutually recursive, and the files that they use. Errors are reported at the current token.
//!
//! Two limits bound the stack depth of this pass and of those that follow. Recursion is counted
//! ([`ParseLimits::max_nesting`]), and so is the height of every expression, which also grows by operators that
//! are chained rather than nested ([`ParseLimits::max_height`]). `AND`, `OR`, `XOR` and comparisons chain in one
//! node and are limited only by the size of the text.

mod administration;
mod attempt;
mod clause_order;
mod cursor;
mod errors;
mod expr;
mod gql;
mod hint;
mod label;
mod literal;
mod operator;
mod pattern;
mod query;
mod schema;
mod show;
#[cfg(test)]
mod tests;
mod transactions;
mod value_type;

use administration::{administration, is_administration};
use clause_order::QueryPosition;
pub use cursor::ParseLimits;
use cursor::{PResult, Parser};
use expr::{expression, predicate};
use query::query;
use schema::{create_schema, drop_schema, is_schema_command};
use show::{is_terminate, kill_query, options, show, terminate};

use crate::Span;
use crate::ast::{Expr, Statement, StatementBody, StatementMode};
use crate::error::{Detail, ParseError};
use crate::lexer::tokenize;
use crate::token::{Keyword, Symbol, TokenKind};

/// Parses one statement, optionally followed by a semicolon, within the default [`ParseLimits`].
pub fn parse(text: &str) -> Result<Statement, ParseError> {
    parse_within(text, ParseLimits::default())
}

/// Parses one statement within the given limits.
pub fn parse_within(text: &str, limits: ParseLimits) -> Result<Statement, ParseError> {
    run(text, limits, |parser| {
        let statement = statement(parser)?;
        parser.eat(Symbol::Semicolon);
        parser.expect_end("the end of the statement")?;
        Ok(statement)
    })
}

/// Parses one standalone expression, such as the predicate of a stored constraint.
pub fn parse_expression(text: &str) -> Result<Expr, ParseError> {
    run(text, ParseLimits::default(), |parser| {
        let expr = predicate(parser)?;
        parser.expect_end("the end of the expression")?;
        Ok(expr)
    })
}

fn run<T>(
    text: &str,
    limits: ParseLimits,
    parse: impl FnOnce(&mut Parser<'_>) -> PResult<T>,
) -> PResult<T> {
    if text.len() > limits.max_text_bytes {
        let message = format!(
            "the text is {} bytes, the limit is {}",
            text.len(),
            limits.max_text_bytes
        );
        return Err(
            ParseError::new(Detail::LimitExceeded, Span::new(0, 0), message)
                .with_hint("pass the data as parameters"),
        );
    }
    let tokens = tokenize(text);
    let mut parser = Parser::new(text, &tokens, limits);
    parse(&mut parser).map_err(|error| match parser.failed_pattern.take() {
        // Both readings of a parenthesis failed: report the one that got further, which is more likely the
        // intended one.
        Some(other) if other.span.start > error.span.start => other,
        _ => error,
    })
}

fn statement(p: &mut Parser<'_>) -> PResult<Statement> {
    let start = p.span();
    options(p)?;
    let mode = match p.peek() {
        TokenKind::Keyword(Keyword::Explain) => StatementMode::Explain,
        TokenKind::Keyword(Keyword::Profile) => StatementMode::Profile,
        _ => StatementMode::Run,
    };
    if mode != StatementMode::Run {
        p.advance();
        options(p)?;
    }
    let body = match p.peek() {
        _ if is_administration(p) => administration(p, expression)?,
        TokenKind::Keyword(Keyword::Create) if is_schema_command(p) => create_schema(p)?,
        TokenKind::Keyword(Keyword::Drop) => drop_schema(p)?,
        TokenKind::Keyword(Keyword::Show) => show(p)?,
        TokenKind::Keyword(Keyword::Kill) => kill_query(p)?,
        TokenKind::Name if is_terminate(p) => terminate(p)?,
        TokenKind::Name if p.is_word("USING") => return Err(periodic_commit(p)),
        _ => StatementBody::Query(query(p, QueryPosition::Statement)?),
    };
    Ok(Statement {
        mode,
        body,
        span: p.since(start),
    })
}

/// The error of `USING PERIODIC COMMIT`, or of another misplaced `USING`.
fn periodic_commit(p: &Parser<'_>) -> ParseError {
    let message = "USING PERIODIC COMMIT is not a part of the language any more";
    ParseError::new(Detail::UnexpectedSyntax, p.span(), message)
        .with_hint("write LOAD CSV … AS row CALL (row) { … } IN TRANSACTIONS OF 1000 ROWS")
}
