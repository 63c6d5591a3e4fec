//! Which clauses may follow one another, and which may end a query.

use super::cursor::{AFTER_EXPRESSION, CLAUSES, PResult, Parser};
use crate::ast::{CallProcedure, Clause, SubqueryKind, YieldItems};
use crate::error::{Detail, ParseError};
use crate::token::{Keyword, Symbol, TokenKind};

/// The position of a query.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum QueryPosition {
    /// The whole statement.
    Statement,
    /// The body of `CALL { … }`.
    Call,
    /// The body of `EXISTS`, `COUNT` or `COLLECT`.
    Expression(SubqueryKind),
}

pub(super) fn no_clause(p: &Parser<'_>) -> ParseError {
    let statements = [
        Keyword::Explain,
        Keyword::Profile,
        Keyword::Drop,
        Keyword::Show,
        Keyword::Kill,
    ]
    .into_iter()
    .filter(|_| p.depth <= 1);
    let candidates: Vec<Keyword> = CLAUSES.iter().copied().chain(statements).collect();
    p.unexpected_word("a clause such as MATCH, CREATE or RETURN", &candidates)
}

/// Checks that `clause` may follow `before`: nothing follows `RETURN`, and a `WITH` separates an update from the next
/// reading clause.
pub(super) fn check_order(p: &Parser<'_>, before: Option<&Clause>, clause: &Clause) -> PResult<()> {
    let error = |message: String| {
        Err(ParseError::new(
            Detail::InvalidClauseComposition,
            clause.span(),
            message,
        ))
    };
    if p.context.is_read_only && clause.is_update() {
        return error(format!(
            "{} changes data, which a subquery in an expression may not",
            clause_name(clause)
        ));
    }
    let Some(before) = before else { return Ok(()) };
    if matches!(before, Clause::Return(_) | Clause::Finish(_)) {
        return error(format!(
            "{} after {}, which must be the last clause",
            clause_name(clause),
            clause_name(before)
        ));
    }
    let reads = matches!(
        clause,
        Clause::Match(_) | Clause::Unwind(_) | Clause::LoadCsv(_)
    );
    if reads && before.is_update() {
        return error(format!(
            "{} directly after {}",
            clause_name(clause),
            clause_name(before)
        ))
        .map_err(|error| error.with_hint("put `WITH *` between them"));
    }
    Ok(())
}

pub(super) fn check_last(
    p: &Parser<'_>,
    last: &Clause,
    length: usize,
    position: QueryPosition,
) -> PResult<()> {
    let ends = match last {
        Clause::Return(_) | Clause::Subquery(_) => true,
        Clause::Call(_) => true,
        Clause::Match(_) | Clause::Unwind(_) | Clause::With(_) | Clause::LoadCsv(_) => false,
        _ => position != QueryPosition::Expression(SubqueryKind::Collect),
    };
    let may_lack_return = matches!(
        position,
        QueryPosition::Expression(SubqueryKind::Exists | SubqueryKind::Count)
    );
    if ends || may_lack_return {
        Ok(())
    } else {
        let what = if length == 1 {
            "the query is only"
        } else {
            "the query ends with"
        };
        let message = format!("{what} {}, which has no result", clause_name(last));
        let error = ParseError::new(Detail::InvalidClauseComposition, last.span(), message);
        let candidates: Vec<Keyword> = AFTER_EXPRESSION.iter().chain(CLAUSES).copied().collect();
        let found = p.unexpected_word("a clause", &candidates);
        Err(match p.peek() {
            // An unrecognised clause follows, so the query does not end here.
            TokenKind::End
            | TokenKind::Symbol(Symbol::RightBrace | Symbol::Semicolon)
            | TokenKind::Keyword(Keyword::Union) => {
                error.with_hint("end it with RETURN or a clause that changes data")
            }
            _ => found,
        })
    }
}

pub(super) fn as_procedure_call(clause: &Clause) -> Option<&CallProcedure> {
    match clause {
        Clause::Call(call) => Some(call),
        _ => None,
    }
}

/// Inside a query a call must write out its arguments and its columns.
pub(super) fn check_in_query_call(call: &CallProcedure) -> PResult<()> {
    if call.arguments.is_none() {
        let message = format!(
            "{} without its arguments inside a query",
            call.name.dotted()
        );
        return Err(
            ParseError::new(Detail::InvalidArgumentPassingMode, call.span, message).with_hint(
                "write them in parentheses; only a standalone CALL takes them from parameters",
            ),
        );
    }
    match &call.yields {
        Some(yields) if yields.items == YieldItems::Star => Err(ParseError::new(
            Detail::UnexpectedSyntax,
            yields.span,
            "YIELD * inside a query",
        )
        .with_hint("name the columns: YIELD a, b")),
        _ => Ok(()),
    }
}

/// The keyword of a clause, for messages.
pub(super) fn clause_name(clause: &Clause) -> &'static str {
    match clause {
        Clause::Match(clause) if clause.optional => "OPTIONAL MATCH",
        Clause::Match(_) => "MATCH",
        Clause::Unwind(_) => "UNWIND",
        Clause::With(_) => "WITH",
        Clause::Return(_) => "RETURN",
        Clause::Create(_) => "CREATE",
        Clause::Merge(_) => "MERGE",
        Clause::Set(_) => "SET",
        Clause::Remove(_) => "REMOVE",
        Clause::Delete(_) => "DELETE",
        Clause::Foreach(_) => "FOREACH",
        Clause::Call(_) | Clause::Subquery(_) => "CALL",
        Clause::LoadCsv(_) => "LOAD CSV",
        Clause::Finish(_) => "FINISH",
    }
}
