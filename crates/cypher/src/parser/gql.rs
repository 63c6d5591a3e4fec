//! Clauses of GQL, as the clauses of Cypher that they amount to.

use std::sync::Arc;

use super::cursor::{PResult, Parser, Rule};
use crate::SourceText;
use crate::Span;
use crate::ast::{
    BinaryOp, CallSubquery, CaseBranch, Clause, Expr, ExprKind, Ident, ListPosition, Literal,
    MapEntry, Projection, ProjectionItem, QualifiedName, RegularQuery, Return, SingleQuery,
    SubqueryImports, UnionKind, Unwind, With,
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

/// `FOR x IN list [WITH ORDINALITY i | WITH OFFSET i]`: `UNWIND list AS x`
pub(super) fn for_clause(
    p: &mut Parser<'_>,
    start: Span,
    expression: Rule<Expr>,
) -> PResult<Clause> {
    p.advance();
    let variable = p.variable()?;
    p.expect_keyword(Keyword::In)?;
    let list = expression(p)?;
    let position = list_position(p)?;
    Ok(Clause::Unwind(Unwind {
        list,
        variable,
        position,
        span: p.since(start),
    }))
}

/// `WITH ORDINALITY i` or `WITH OFFSET i`. A `WITH` of variables of these names has no name after the first one.
fn list_position(p: &mut Parser<'_>) -> PResult<Option<ListPosition>> {
    let is_variable = matches!(p.peek_at(2), TokenKind::Name | TokenKind::QuotedName);
    if !p.is_keyword(Keyword::With) || !is_variable {
        return Ok(None);
    }
    let start = p.at;
    p.advance();
    let first = if p.eat_word("ORDINALITY") {
        1
    } else if p.eat_keyword(Keyword::Offset) {
        0
    } else {
        p.at = start;
        return Ok(None);
    };
    let variable = p.variable()?;
    Ok(Some(ListPosition { variable, first }))
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

/// `after` with the rows of `before`. The clauses of `before` become the first ones.
fn joined(before: RegularQuery, after: RegularQuery, next: Span) -> PResult<RegularQuery> {
    let span = before.span.to(after.span);
    let passed = match <[SingleQuery; 1]>::try_from(after.branches) {
        Ok([branch]) => Passed::To(branch),
        Err(branches) => Passed::ToUnion {
            names: columns(&before, "before a NEXT with a UNION")?,
            query: RegularQuery {
                branches,
                union: after.union,
                span: after.span,
            },
        },
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
    match passed {
        Passed::To(branch) => clauses.extend(branch.clauses),
        Passed::ToUnion { names, query } => clauses.extend(with_all_rows(&names, query)?),
    }
    Ok(RegularQuery {
        branches: vec![SingleQuery { clauses, span }],
        union: after.union,
        span,
    })
}

/// What follows a `NEXT`.
enum Passed {
    To(SingleQuery),
    /// Each branch takes all rows, which have these columns.
    ToUnion {
        names: Vec<Arc<str>>,
        query: RegularQuery,
    },
}

/// Variables with the rows before a `NEXT`, and with one of them.
const ROWS: &str = " rows";
const ROW: &str = " row";

/// The clauses that run each branch of `query` over all rows so far: `WITH collect({a: a}) AS rows`, and a subquery
/// whose branches begin with `UNWIND rows AS row WITH row.a AS a`. A branch may combine rows, so that it cannot run for
/// each of them alone, and what was before must not run once for each branch.
fn with_all_rows(names: &[Arc<str>], mut query: RegularQuery) -> PResult<Vec<Clause>> {
    let span = query.span;
    let ident = |name: &str| Ident::new(name, span);
    let variable = |name: &str| Expr::new(ExprKind::Variable(name.into()), span);
    let entries = names.iter().map(|name| MapEntry {
        key: ident(name),
        value: variable(name),
    });
    let row = Expr::new(ExprKind::Map(entries.collect()), span);
    let collected = ExprKind::Function {
        name: QualifiedName {
            parts: vec![ident("collect")],
            span,
        },
        distinct: false,
        arguments: vec![row],
    };
    let returned = columns(&query, "after NEXT")?;
    for branch in &mut query.branches {
        let taken = names.iter().map(|name| {
            let value = ExprKind::Property {
                base: Box::new(variable(ROW)),
                key: ident(name),
            };
            item(Expr::new(value, span), ident(name))
        });
        let first = [
            Clause::Unwind(Unwind {
                list: variable(ROWS),
                variable: ident(ROW),
                position: None,
                span,
            }),
            Clause::With(With {
                projection: projection(taken.collect(), false, span),
                predicate: None,
                span,
            }),
        ];
        branch.clauses.splice(0..0, first);
    }
    let rows = item(Expr::new(collected, span), ident(ROWS));
    let mut clauses = vec![
        Clause::With(With {
            projection: projection(vec![rows], false, span),
            predicate: None,
            span,
        }),
        Clause::Subquery(CallSubquery {
            optional: false,
            imports: SubqueryImports::Named(vec![ident(ROWS)]),
            query,
            transactions: None,
            span,
        }),
    ];
    clauses.extend(return_columns(&returned, span));
    Ok(clauses)
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
        Some(first) => columns(first, "after THEN")?,
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

/// The names of the columns of a query that stands at `place`.
fn columns(query: &RegularQuery, place: &str) -> PResult<Vec<Arc<str>>> {
    let last = query.branches.first().and_then(|one| one.clauses.last());
    let Some(Clause::Return(last)) = last else {
        return Ok(Vec::new());
    };
    if last.projection.star {
        return Err(ParseError::new(
            Detail::UnexpectedSyntax,
            last.span,
            format!("RETURN * in a query {place}"),
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
