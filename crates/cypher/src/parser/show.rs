//! `SHOW`, `KILL QUERY` and `TERMINATE TRANSACTIONS`.
//!
//! After `YIELD`, a listing may be ordered, paged and returned like rows of a query, in the order of Neo4j's grammar:
//! `YIELD … [ORDER BY …] [SKIP …] [LIMIT …] [WHERE …] [RETURN …]`.

use super::cursor::{PResult, Parser};
use super::expr::{expression, optional_where};
use super::query::{paging, return_clause, yield_clause};
use crate::Span;
use crate::ast::{
    CallProcedure, Clause, Expr, ExprKind, Ident, IndexType, KillQuery, Literal, Projection,
    QualifiedName, RegularQuery, Show, ShowKind, ShowOnly, ShownRule, SingleQuery, StatementBody,
    UnionKind, With, Yield, YieldItems,
};
use crate::error::{Detail, ParseError};
use crate::token::{Keyword, Symbol, TokenKind};

/// The procedure that `TERMINATE TRANSACTIONS` calls.
const TERMINATE: [&str; 2] = ["db", "terminateTransactions"];

/// Listings that take neither a type nor names: their words, the longest first.
const PLAIN: [(&[&str], ShowKind); 15] = [
    (&["LABELS"], ShowKind::Labels),
    (&["TYPES"], ShowKind::Types),
    (&["PROPERTIES"], ShowKind::Properties),
    (&["BUCKETS"], ShowKind::Buckets),
    (&["CONFLICTS"], ShowKind::Conflicts),
    (&["QUERIES"], ShowKind::Queries),
    (&["PROCEDURES"], ShowKind::Procedures),
    (&["PROCEDURE"], ShowKind::Procedures),
    (&["DATABASES"], ShowKind::Databases),
    (&["DEFAULT", "DATABASE"], ShowKind::DefaultDatabase),
    (&["HOME", "DATABASE"], ShowKind::HomeDatabase),
    (&["CURRENT", "USER"], ShowKind::CurrentUser),
    (&["USERS"], ShowKind::Users),
    (&["USER"], ShowKind::Users),
    (&["ALL", "USERS"], ShowKind::Users),
];

/// Keywords that a listing may begin with, for hints.
const WORDS: [Keyword; 8] = [
    Keyword::Indexes,
    Keyword::Constraints,
    Keyword::Labels,
    Keyword::Types,
    Keyword::Buckets,
    Keyword::Queries,
    Keyword::Functions,
    Keyword::Procedures,
];

pub(super) fn show(p: &mut Parser<'_>) -> PResult<StatementBody> {
    let start = p.advance();
    let (kind, only, names) = listing(p)?;
    if matches!(kind, ShowKind::Functions | ShowKind::Procedures) {
        executable(p)?;
    }
    let yields = match p.peek() {
        TokenKind::Keyword(Keyword::Yield) => Some(yield_clause(p)?),
        TokenKind::Keyword(Keyword::Where) => {
            let start = p.span();
            Some(Yield {
                items: YieldItems::Default,
                predicate: optional_where(p)?,
                span: p.since(start),
            })
        }
        _ => None,
    };
    let has_columns = yields
        .as_ref()
        .is_some_and(|yields| yields.items != YieldItems::Default);
    let then = match has_columns {
        true => after_yield(p)?,
        false => Vec::new(),
    };
    Ok(StatementBody::Show(Show {
        kind,
        only,
        names,
        yields,
        then,
        span: p.since(start),
    }))
}

/// What is listed: the words between `SHOW` and `YIELD`.
fn listing(p: &mut Parser<'_>) -> PResult<(ShowKind, Option<ShowOnly>, Vec<Expr>)> {
    // `USER DEFINED FUNCTIONS` before `USER`.
    if let Some((kind, only)) = functions(p) {
        return Ok((kind, only, Vec::new()));
    }
    if let Some((_, kind)) = PLAIN.iter().find(|(words, _)| eat_words(p, words)) {
        return Ok((*kind, None, Vec::new()));
    }
    if eat_words(p, &["DATABASE"]) {
        let name = match is_name(p) {
            true => {
                let name = p.name("the name of a database")?;
                Expr::new(ExprKind::Literal(Literal::String(name.name)), name.span)
            }
            false => object_name(p)?,
        };
        return Ok((ShowKind::Databases, None, vec![name]));
    }
    for (words, kind) in [
        (["SETTINGS", "SETTING"], ShowKind::Settings),
        (["TRANSACTIONS", "TRANSACTION"], ShowKind::Transactions),
    ] {
        if eat_any(p, &words) {
            let names = match p.peek() {
                TokenKind::String | TokenKind::Parameter => p.comma_separated(object_name)?,
                _ => Vec::new(),
            };
            return Ok((kind, None, names));
        }
    }
    match indexes(p).or_else(|| constraints(p)) {
        Some((kind, only)) => Ok((kind, only, Vec::new())),
        None => Err(p.unexpected_word(
            "INDEXES, CONSTRAINTS, LABELS, TYPES, PROPERTIES, BUCKETS, QUERIES, FUNCTIONS, PROCEDURES, DATABASES, USERS, \
             SETTINGS or TRANSACTIONS",
            &WORDS,
        )),
    }
}

fn is_name(p: &Parser<'_>) -> bool {
    let begins_clause = p.is_keyword(Keyword::Yield) || p.is_keyword(Keyword::Where);
    !begins_clause
        && matches!(
            p.peek(),
            TokenKind::Name | TokenKind::Keyword(_) | TokenKind::QuotedName
        )
}

/// `[ALL | type] INDEX[ES]`
fn indexes(p: &mut Parser<'_>) -> Option<(ShowKind, Option<ShowOnly>)> {
    let at = p.at;
    let mut only = None;
    if !p.eat_word("ALL") && p.peek() == TokenKind::Name {
        only = IndexType::by_word(p.token_text()).map(ShowOnly::Indexes);
        if only.is_some() {
            p.advance();
        }
    }
    let found = eat_any(p, &["INDEXES", "INDEX"]).then_some((ShowKind::Indexes, only));
    rewind_without(p, at, found)
}

/// `[ALL | BUILT IN | USER DEFINED] FUNCTION[S]`
fn functions(p: &mut Parser<'_>) -> Option<(ShowKind, Option<ShowOnly>)> {
    let at = p.at;
    let mut only = None;
    if eat_words(p, &["BUILT", "IN"]) {
        only = Some(ShowOnly::BuiltIn(true));
    } else if eat_words(p, &["USER", "DEFINED"]) {
        only = Some(ShowOnly::BuiltIn(false));
    } else {
        p.eat_word("ALL");
    }
    let found = eat_any(p, &["FUNCTIONS", "FUNCTION"]).then_some((ShowKind::Functions, only));
    rewind_without(p, at, found)
}

/// `[ALL | [NODE | RELATIONSHIP | REL] [PROPERTY] rule] CONSTRAINT[S]`
fn constraints(p: &mut Parser<'_>) -> Option<(ShowKind, Option<ShowOnly>)> {
    let at = p.at;
    let mut only = None;
    if !p.eat_word("ALL") {
        let of_nodes = if p.eat_word("NODE") {
            Some(true)
        } else {
            eat_any(p, &["RELATIONSHIP", "REL"]).then_some(false)
        };
        let property = p.eat_word("PROPERTY");
        let rule = if eat_any(p, &["UNIQUE", "UNIQUENESS"]) {
            Some(ShownRule::Unique)
        } else if eat_any(p, &["EXIST", "EXISTS", "EXISTENCE"]) {
            Some(ShownRule::Existence)
        } else if !property && p.eat_word("KEY") {
            Some(ShownRule::Key)
        } else {
            (property && p.eat_word("TYPE")).then_some(ShownRule::PropertyType)
        };
        if rule.is_none() && (property || of_nodes.is_some()) {
            p.at = at;
            return None;
        }
        only = rule.map(|rule| ShowOnly::Constraints(rule, of_nodes));
    }
    let found = eat_any(p, &["CONSTRAINTS", "CONSTRAINT"]).then_some((ShowKind::Constraints, only));
    rewind_without(p, at, found)
}

/// `[EXECUTABLE [BY CURRENT USER | BY name]]`: every user may call every procedure and function, within the classes of
/// statements that the user may run.
fn executable(p: &mut Parser<'_>) -> PResult<()> {
    if p.eat_word("EXECUTABLE") && p.eat_keyword(Keyword::By) && !eat_words(p, &["CURRENT", "USER"])
    {
        p.name("CURRENT USER or the name of a user")?;
    }
    Ok(())
}

/// `[ORDER BY …] [SKIP …] [LIMIT …] [WHERE …] [RETURN …]`
fn after_yield(p: &mut Parser<'_>) -> PResult<Vec<Clause>> {
    let start = p.span();
    let mut clauses = Vec::new();
    let (order_by, skip, limit) = paging(p)?;
    if !order_by.is_empty() || skip.is_some() || limit.is_some() {
        let projection = Projection {
            distinct: false,
            star: true,
            items: Vec::new(),
            order_by,
            skip,
            limit,
            span: p.since(start),
        };
        clauses.push(Clause::With(With {
            projection,
            predicate: optional_where(p)?,
            span: p.since(start),
        }));
    }
    if p.is_keyword(Keyword::Return) {
        let start = p.span();
        clauses.push(return_clause(p, start)?);
    }
    Ok(clauses)
}

/// A text or parameter that names an object.
fn object_name(p: &mut Parser<'_>) -> PResult<Expr> {
    let name = expression(p)?;
    match name.kind {
        ExprKind::Literal(Literal::String(_)) | ExprKind::Parameter(_) => Ok(name),
        _ => Err(ParseError::new(
            Detail::UnexpectedSyntax,
            name.span,
            "expected a name as text, or a parameter",
        )),
    }
}

pub(super) fn kill_query(p: &mut Parser<'_>) -> PResult<StatementBody> {
    let start = p.advance();
    p.expect_keyword(Keyword::Query)?;
    let id = expression(p)?;
    match id.kind {
        ExprKind::Literal(_) | ExprKind::Parameter(_) => Ok(StatementBody::KillQuery(KillQuery {
            id,
            span: p.since(start),
        })),
        _ => Err(ParseError::new(
            Detail::UnexpectedSyntax,
            id.span,
            "KILL QUERY takes the id of a query",
        )
        .with_hint("SHOW QUERIES lists them")),
    }
}

/// Whether a statement begins with `TERMINATE TRANSACTION[S]`.
pub(super) fn is_terminate(p: &mut Parser<'_>) -> bool {
    let at = p.at;
    let found = p.eat_word("TERMINATE") && eat_any(p, &["TRANSACTIONS", "TRANSACTION"]);
    p.at = at;
    found
}

/// `TERMINATE TRANSACTION[S] id, … [YIELD … [RETURN …]]`: the call of a procedure.
pub(super) fn terminate(p: &mut Parser<'_>) -> PResult<StatementBody> {
    let start = p.advance();
    p.advance();
    let ids_start = p.span();
    let ids = p.comma_separated(expression)?;
    let list = Expr::new(ExprKind::List(ids), p.since(ids_start));
    let yields = match p.is_keyword(Keyword::Yield) {
        true => Some(yield_clause(p)?),
        false => None,
    };
    let then = match &yields {
        Some(_) => after_yield(p)?,
        None => Vec::new(),
    };
    let call = CallProcedure {
        optional: false,
        name: QualifiedName {
            parts: TERMINATE
                .map(|part| Ident::new(part, start))
                .into_iter()
                .collect(),
            span: start,
        },
        arguments: Some(vec![list]),
        yields,
        span: p.since(start),
    };
    let mut clauses = vec![Clause::Call(call)];
    clauses.extend(then);
    let span = p.since(start);
    Ok(StatementBody::Query(RegularQuery {
        branches: vec![SingleQuery { clauses, span }],
        union: UnionKind::All,
        span,
    }))
}

/// Consumes all of these words, or nothing.
fn eat_words(p: &mut Parser<'_>, words: &[&str]) -> bool {
    let at = p.at;
    let found = words.iter().all(|word| p.eat_word(word));
    if !found {
        p.at = at;
    }
    found
}

/// Consumes one of these words.
fn eat_any(p: &mut Parser<'_>, words: &[&str]) -> bool {
    words.iter().any(|word| p.eat_word(word))
}

fn rewind_without<T>(p: &mut Parser<'_>, at: usize, found: Option<T>) -> Option<T> {
    if found.is_none() {
        p.at = at;
    }
    found
}

/// The span of a statement's options: `CYPHER 5`, `CYPHER 25 runtime=slotted`. They choose between versions of Neo4j's
/// language and planner; here there is one of each, so they change nothing.
pub(super) fn options(p: &mut Parser<'_>) -> PResult<Option<Span>> {
    if !p.is_word("CYPHER") {
        return Ok(None);
    }
    let start = p.advance();
    if p.peek() == TokenKind::Integer {
        if !matches!(p.token_text(), "5" | "25") {
            let message = format!(
                "the language version {} is not available: CYPHER 5 and CYPHER 25 are accepted",
                p.token_text()
            );
            return Err(ParseError::new(Detail::UnexpectedSyntax, p.span(), message));
        }
        p.advance();
    }
    while p.peek() == TokenKind::Name && p.is_at(1, Symbol::Equal) {
        p.advance();
        p.advance();
        p.name("the value of an option")?;
    }
    Ok(Some(p.since(start)))
}
