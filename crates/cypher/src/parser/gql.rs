//! Clauses of GQL, as the clauses of Cypher that they amount to.

use std::sync::Arc;

use super::cursor::{PResult, Parser, Rule};
use crate::SourceText;
use crate::Span;
use crate::ast::{
    BinaryOp, CallSubquery, CaseBranch, Clause, Expr, ExprKind, Ident, Literal, Projection,
    ProjectionItem, RegularQuery, Return, SingleQuery, SubqueryImports, UnionKind, Unwind, With,
};
use crate::error::{Detail, ParseError};
use crate::token::{Keyword, Symbol, TokenKind};

/// Variable with the number of the taken branch of `WHEN`; no text can contain it.
const TAKEN: &str = " branch";

/// Whether the current name starts a clause.
pub(super) fn is_gql_clause(p: &Parser<'_>) -> bool {
    p.is_word("INSERT") && p.is_at(1, Symbol::LeftParen)
        || p.is_word("FILTER")
        || p.is_word("LET") && p.is_at(2, Symbol::Equal)
        || p.is_word("NODETACH") && p.is_keyword_at(1, Keyword::Delete)
}

/// `FILTER predicate`: `WITH * WHERE predicate`
pub(super) fn filter_clause(predicate: Expr, span: Span) -> Clause {
    with_all(Vec::new(), Some(predicate), span)
}

/// `LET a = x, b = y`: `WITH *, x AS a, y AS b`
pub(super) fn let_clause(
    p: &mut Parser<'_>,
    start: Span,
    expression: Rule<Expr>,
) -> PResult<Clause> {
    let items = p.comma_separated(|p| {
        let variable = p.variable()?;
        p.expect(Symbol::Equal)?;
        let expr = expression(p)?;
        Ok(item(expr, variable))
    })?;
    Ok(with_all(items, None, p.since(start)))
}

/// `FOR x IN list`: `UNWIND list AS x`
pub(super) fn for_clause(
    p: &mut Parser<'_>,
    start: Span,
    expression: Rule<Expr>,
) -> PResult<Clause> {
    p.advance();
    let variable = p.variable()?;
    p.expect_keyword(Keyword::In)?;
    let list = expression(p)?;
    Ok(Clause::Unwind(Unwind {
        list,
        variable,
        span: p.since(start),
    }))
}

/// Queries joined by `NEXT`: each begins with the rows that the one before returns.
pub(super) fn chained(
    p: &mut Parser<'_>,
    one: impl Fn(&mut Parser<'_>) -> PResult<RegularQuery>,
) -> PResult<RegularQuery> {
    let mut query = one(p)?;
    while p.peek() == TokenKind::Name && p.is_word("NEXT") {
        let next = p.advance();
        let following = one(p)?;
        query = joined(query, following, next)?;
    }
    Ok(query)
}

/// `after` with the rows of `before`. The clauses of `before` become the first ones, so `after` is a single query: with
/// a `UNION`, each of its branches would need a copy of them.
fn joined(before: RegularQuery, after: RegularQuery, next: Span) -> PResult<RegularQuery> {
    let span = before.span.to(after.span);
    let Ok([after_branch]) = <[SingleQuery; 1]>::try_from(after.branches) else {
        return Err(
            ParseError::new(Detail::InvalidClauseComposition, next, "a UNION after NEXT")
                .with_hint("put the UNION into CALL { … }, or in front of NEXT"),
        );
    };
    let mut clauses = match <[SingleQuery; 1]>::try_from(before.branches) {
        Ok([mut only]) => {
            let Some(Clause::Return(last)) = only.clauses.pop() else {
                return Err(ParseError::new(
                    Detail::InvalidClauseComposition,
                    next,
                    "NEXT takes the rows of a RETURN, and the query before it ends without one",
                ));
            };
            only.clauses.push(as_with(last));
            only.clauses
        }
        Err(branches) => vec![Clause::Subquery(CallSubquery {
            optional: false,
            imports: SubqueryImports::ByWith,
            query: RegularQuery {
                branches,
                union: before.union,
                span: before.span,
            },
            transactions: None,
            span: before.span,
        })],
    };
    clauses.extend(after_branch.clauses);
    Ok(RegularQuery {
        branches: vec![SingleQuery { clauses, span }],
        union: after.union,
        span,
    })
}

/// A `RETURN` as the `WITH` of the same columns.
fn as_with(clause: Return) -> Clause {
    let mut projection = clause.projection;
    for item in &mut projection.items {
        if item.alias.is_none() && item.expr.as_variable().is_none() {
            item.alias = Some(Ident::new(item.column().clone(), item.span));
        }
    }
    Clause::With(With {
        projection,
        predicate: None,
        span: clause.span,
    })
}

/// `WHEN predicate THEN query … [ELSE query]`: the first query whose predicate is true, for each row.
///
/// The predicates are one `CASE` that gives the number of the query, so that each is evaluated at most once; the
/// queries are branches of a `UNION ALL` that begin with a test of this number.
pub(super) fn conditional(
    p: &mut Parser<'_>,
    predicate: Rule<Expr>,
    body: impl Fn(&mut Parser<'_>) -> PResult<RegularQuery>,
) -> PResult<RegularQuery> {
    let start = p.span();
    let mut conditions = Vec::new();
    let mut bodies: Vec<RegularQuery> = Vec::new();
    let number = |number: usize| {
        let number = Literal::Int(number as i64);
        Expr::new(ExprKind::Literal(number), start)
    };
    while p.eat_keyword(Keyword::When) {
        let when = predicate(p)?;
        p.expect_keyword(Keyword::Then)?;
        conditions.push(CaseBranch {
            when,
            then: number(bodies.len()),
        });
        bodies.push(body(p)?);
    }
    let mut otherwise = None;
    if p.eat_keyword(Keyword::Else) {
        otherwise = Some(Box::new(number(bodies.len())));
        bodies.push(body(p)?);
    }
    let span = p.since(start);
    let columns = match bodies.first() {
        Some(first) => columns(first)?,
        None => Vec::new(),
    };
    let taken = Expr::new(
        ExprKind::Case {
            subject: None,
            branches: conditions,
            otherwise,
        },
        span,
    );
    let variable = || Expr::new(ExprKind::Variable(TAKEN.into()), span);
    let branches = bodies.into_iter().enumerate().map(|(at, body)| {
        let test = ExprKind::Binary {
            op: BinaryOp::Equal,
            left: Box::new(variable()),
            right: Box::new(number(at)),
        };
        let mut clauses = vec![
            with_all(Vec::new(), Some(Expr::new(test, span)), span),
            in_scope(body, span),
        ];
        clauses.extend(return_columns(&columns, span));
        SingleQuery { clauses, span }
    });
    let cases = RegularQuery {
        branches: branches.collect(),
        union: UnionKind::All,
        span,
    };
    let mut clauses = vec![
        with_all(vec![item(taken, Ident::new(TAKEN, span))], None, span),
        in_scope(cases, span),
    ];
    clauses.extend(return_columns(&columns, span));
    Ok(RegularQuery {
        branches: vec![SingleQuery { clauses, span }],
        union: UnionKind::All,
        span,
    })
}

/// The names of a query's columns.
fn columns(query: &RegularQuery) -> PResult<Vec<Arc<str>>> {
    let last = query.branches.first().and_then(|one| one.clauses.last());
    let Some(Clause::Return(last)) = last else {
        return Ok(Vec::new());
    };
    if last.projection.star {
        return Err(ParseError::new(
            Detail::UnexpectedSyntax,
            last.span,
            "RETURN * in a query after THEN",
        )
        .with_hint("name the columns"));
    }
    let items = last.projection.items.iter();
    Ok(items.map(|item| item.column().clone()).collect())
}

fn return_columns(columns: &[Arc<str>], span: Span) -> Option<Clause> {
    let items = columns.iter().map(|name| {
        let variable = Expr::new(ExprKind::Variable(name.clone()), span);
        item(variable, Ident::new(name.clone(), span))
    });
    let projection = projection(items.collect(), false, span);
    (!columns.is_empty()).then_some(Clause::Return(Return { projection, span }))
}

/// `CALL (*) { query }`
fn in_scope(query: RegularQuery, span: Span) -> Clause {
    Clause::Subquery(CallSubquery {
        optional: false,
        imports: SubqueryImports::Star,
        query,
        transactions: None,
        span,
    })
}

/// `WITH *, items [WHERE predicate]`
fn with_all(items: Vec<ProjectionItem>, predicate: Option<Expr>, span: Span) -> Clause {
    Clause::With(With {
        projection: projection(items, true, span),
        predicate,
        span,
    })
}

fn projection(items: Vec<ProjectionItem>, star: bool, span: Span) -> Projection {
    Projection {
        distinct: false,
        star,
        items,
        order_by: Vec::new(),
        skip: None,
        limit: None,
        span,
    }
}

fn item(expr: Expr, alias: Ident) -> ProjectionItem {
    let span = expr.span;
    ProjectionItem {
        text: SourceText(alias.name.clone()),
        expr,
        alias: Some(alias),
        span,
    }
}
