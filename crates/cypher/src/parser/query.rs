//! Queries and their clauses.

use std::sync::Arc;

use super::clause_order::{
    QueryPosition, as_procedure_call, check_in_query_call, check_last, check_order, clause_name,
    no_clause,
};
use super::cursor::{CLAUSES, Context, PResult, Parser};
use super::expr::{
    arguments, expression, expression_before_bar, operand, optional_where, predicate,
};
use super::gql::{chained, conditional, filter_clause, for_clause, is_gql_clause, let_clause};
use super::hint::hints;
use super::label::label_expression;
use super::pattern::{PatternUse, match_mode, path_pattern, pattern};
use super::transactions::in_transactions;
use crate::ast::{
    CallProcedure, CallSubquery, Clause, Create, Delete, Expr, ExprKind, Foreach, Ident, LabelExpr,
    Literal, LoadCsv, Match, Merge, MergeAction, MergeEvent, Projection, ProjectionItem,
    QualifiedName, RegularQuery, Remove, RemoveItem, Return, Set, SetItem, SingleQuery, SortItem,
    SubqueryImports, UnionKind, Unwind, With, Yield, YieldItem, YieldItems,
};
use crate::error::{Detail, ParseError};
use crate::token::{Keyword, Symbol, TokenKind};
use crate::{SourceText, Span};

pub(super) fn query(p: &mut Parser<'_>, position: QueryPosition) -> PResult<RegularQuery> {
    let is_read_only = p.context.is_read_only || matches!(position, QueryPosition::Expression(_));
    let context = Context {
        is_read_only,
        ..Context::default()
    };
    p.nested(|p| p.within(context, |p| chained(p, |p| union(p, position))))
}

fn union(p: &mut Parser<'_>, position: QueryPosition) -> PResult<RegularQuery> {
    let start = p.span();
    if p.is_keyword(Keyword::When) {
        return conditional(p, predicate, |p| branch_body(p, position));
    }
    let mut branches = vec![single_query(p, position)?];
    let mut union = None;
    while p.is_keyword(Keyword::Union) {
        let keyword = p.advance();
        let kind = if p.eat_keyword(Keyword::All) {
            UnionKind::All
        } else {
            p.eat_keyword(Keyword::Distinct);
            UnionKind::Distinct
        };
        if union.is_some_and(|union| union != kind) {
            return Err(ParseError::new(
                Detail::InvalidClauseComposition,
                keyword,
                "UNION and UNION ALL in one query",
            )
            .with_hint("use one of them throughout, or put one part into CALL { … }"));
        }
        union = Some(kind);
        branches.push(single_query(p, position)?);
    }
    Ok(RegularQuery {
        branches,
        union: union.unwrap_or_default(),
        span: p.since(start),
    })
}

fn single_query(p: &mut Parser<'_>, position: QueryPosition) -> PResult<SingleQuery> {
    let start = p.span();
    let mut clauses: Vec<Clause> = Vec::new();
    while starts_clause(p) {
        let clause = clause(p)?;
        check_order(p, clauses.last(), &clause)?;
        clauses.push(clause);
    }
    let (Some(last), length) = (clauses.last(), clauses.len()) else {
        return Err(no_clause(p));
    };
    check_last(p, last, length, position)?;
    for call in clauses
        .iter()
        .filter(|_| length > 1)
        .filter_map(as_procedure_call)
    {
        check_in_query_call(call)?;
    }
    Ok(SingleQuery {
        clauses,
        span: p.since(start),
    })
}

/// Whether the current token starts a clause. The words of GQL are no keywords: they may be variables.
fn starts_clause(p: &Parser<'_>) -> bool {
    match p.peek() {
        TokenKind::Keyword(Keyword::For) => p.is_variable_at(1),
        TokenKind::Keyword(keyword) => CLAUSES.contains(&keyword),
        TokenKind::Name => is_gql_clause(p) || is_finish(p),
        _ => false,
    }
}

fn is_finish(p: &Parser<'_>) -> bool {
    p.is_word("FINISH")
        && matches!(
            p.peek_at(1),
            TokenKind::End
                | TokenKind::Symbol(Symbol::Semicolon | Symbol::RightBrace)
                | TokenKind::Keyword(Keyword::Union)
        )
}

/// Parses one clause; the current token starts one.
pub(super) fn clause(p: &mut Parser<'_>) -> PResult<Clause> {
    let start = p.span();
    let TokenKind::Keyword(keyword) = p.peek() else {
        if is_finish(p) {
            return Ok(Clause::Finish(p.advance()));
        }
        return gql_clause(p, start);
    };
    match keyword {
        Keyword::Match | Keyword::Optional => match_clause(p, start),
        Keyword::Unwind => unwind(p, start),
        Keyword::With => with(p, start),
        Keyword::Return => return_clause(p, start),
        Keyword::Create => create(p, start),
        Keyword::Merge => merge(p, start),
        Keyword::Set => set(p, start),
        Keyword::Remove => remove(p, start),
        Keyword::Delete | Keyword::Detach => delete(p, start),
        Keyword::Foreach => p.nested(|p| foreach(p, start)),
        Keyword::Call => call(p, start, false),
        Keyword::Load => load_csv(p, start),
        Keyword::For => for_clause(p, start, expression),
        _ => Err(p.unexpected_word("a clause", CLAUSES)),
    }
}

/// A clause that only GQL has; the current token is a name.
fn gql_clause(p: &mut Parser<'_>, start: Span) -> PResult<Clause> {
    if !is_gql_clause(p) {
        return Err(p.unexpected_word("a clause", CLAUSES));
    }
    if p.is_word("INSERT") {
        return create(p, start);
    }
    if p.eat_word("NODETACH") {
        return delete(p, start);
    }
    if p.eat_word("LET") {
        return let_clause(p, start, expression);
    }
    // `FILTER [WHERE] predicate`
    p.advance();
    p.eat_keyword(Keyword::Where);
    let condition = predicate(p)?;
    Ok(filter_clause(condition, p.since(start)))
}

/// The query after `THEN` or `ELSE`, which may stand in braces.
fn branch_body(p: &mut Parser<'_>, position: QueryPosition) -> PResult<RegularQuery> {
    if p.eat(Symbol::LeftBrace) {
        let inner = query(p, QueryPosition::Call)?;
        p.expect(Symbol::RightBrace)?;
        return Ok(inner);
    }
    p.nested(|p| union(p, position))
}

fn match_clause(p: &mut Parser<'_>, start: Span) -> PResult<Clause> {
    let optional = p.eat_keyword(Keyword::Optional);
    if optional && p.is_keyword(Keyword::Call) {
        return call(p, start, true);
    }
    p.expect_keyword(Keyword::Match)?;
    let mode = match_mode(p)?;
    let pattern = pattern(p, PatternUse::Match)?;
    let hints = hints(p)?;
    let predicate = optional_where(p)?;
    Ok(Clause::Match(Match {
        optional,
        mode,
        pattern,
        hints,
        predicate,
        span: p.since(start),
    }))
}

fn unwind(p: &mut Parser<'_>, start: Span) -> PResult<Clause> {
    p.advance();
    let list = expression(p)?;
    p.expect_keyword(Keyword::As)?;
    let variable = p.variable()?;
    Ok(Clause::Unwind(Unwind {
        list,
        variable,
        position: None,
        span: p.since(start),
    }))
}

fn with(p: &mut Parser<'_>, start: Span) -> PResult<Clause> {
    p.advance();
    let projection = projection(p)?;
    let predicate = optional_where(p)?;
    Ok(Clause::With(With {
        projection,
        predicate,
        span: p.since(start),
    }))
}

pub(super) fn return_clause(p: &mut Parser<'_>, start: Span) -> PResult<Clause> {
    p.advance();
    let projection = projection(p)?;
    Ok(Clause::Return(Return {
        projection,
        span: p.since(start),
    }))
}

pub(super) fn projection(p: &mut Parser<'_>) -> PResult<Projection> {
    let start = p.span();
    let distinct = p.eat_keyword(Keyword::Distinct);
    let star = p.eat(Symbol::Star);
    let items = if star && !p.eat(Symbol::Comma) {
        Vec::new()
    } else {
        p.comma_separated(projection_item)?
    };
    let (order_by, skip, limit) = paging(p)?;
    Ok(Projection {
        distinct,
        star,
        items,
        order_by,
        skip,
        limit,
        span: p.since(start),
    })
}

/// `[ORDER BY …] [SKIP …] [LIMIT …]`
pub(super) fn paging(p: &mut Parser<'_>) -> PResult<(Vec<SortItem>, Option<Expr>, Option<Expr>)> {
    let order_by = if p.eat_keyword(Keyword::Order) {
        p.expect_keyword(Keyword::By)?;
        p.comma_separated(sort_item)?
    } else {
        Vec::new()
    };
    let skip = if p.is_keyword(Keyword::Skip) || p.is_keyword(Keyword::Offset) {
        Some(row_count(p)?)
    } else {
        None
    };
    let limit = if p.is_keyword(Keyword::Limit) {
        Some(row_count(p)?)
    } else {
        None
    };
    Ok((order_by, skip, limit))
}

fn projection_item(p: &mut Parser<'_>) -> PResult<ProjectionItem> {
    let start = p.span();
    let expr = expression(p)?;
    let span = p.since(start);
    let text = match &expr.kind {
        // `RETURN n {.name}` has the column `n`.
        ExprKind::MapProjection { variable, .. } => SourceText(variable.name.clone()),
        _ => SourceText(Arc::from(span.slice(p.text))),
    };
    let alias = if p.eat_keyword(Keyword::As) {
        Some(p.variable()?)
    } else {
        None
    };
    Ok(ProjectionItem {
        expr,
        alias,
        text,
        span: p.since(start),
    })
}

fn sort_item(p: &mut Parser<'_>) -> PResult<SortItem> {
    let start = p.span();
    let expr = expression(p)?;
    let descending = p.eat_keyword(Keyword::Desc) || p.eat_keyword(Keyword::Descending);
    if !descending {
        let _ = p.eat_keyword(Keyword::Asc) || p.eat_keyword(Keyword::Ascending);
    }
    Ok(SortItem {
        expr,
        descending,
        span: p.since(start),
    })
}

/// The expression after `SKIP` or `LIMIT`.
fn row_count(p: &mut Parser<'_>) -> PResult<Expr> {
    let keyword = p.token_text().to_ascii_uppercase();
    p.advance();
    let count = expression(p)?;
    let wrong = |detail, what: &str| {
        Err(ParseError::new(
            detail,
            count.span,
            format!("{keyword} takes {what}"),
        ))
    };
    match &count.kind {
        ExprKind::Literal(Literal::Int(number)) if *number < 0 => {
            wrong(Detail::NegativeIntegerArgument, "a non-negative integer")
        }
        ExprKind::Literal(Literal::Int(_)) => Ok(count),
        ExprKind::Literal(_) => wrong(Detail::InvalidArgumentType, "an integer"),
        _ => Ok(count),
    }
}

fn create(p: &mut Parser<'_>, start: Span) -> PResult<Clause> {
    p.advance();
    let pattern = pattern(p, PatternUse::Create)?;
    Ok(Clause::Create(Create {
        pattern,
        span: p.since(start),
    }))
}

fn merge(p: &mut Parser<'_>, start: Span) -> PResult<Clause> {
    p.advance();
    let path = path_pattern(p, PatternUse::Merge)?;
    let mut actions = Vec::new();
    while p.is_keyword(Keyword::On) {
        let start = p.advance();
        let event = match p.peek() {
            TokenKind::Keyword(Keyword::Create) => MergeEvent::Create,
            TokenKind::Keyword(Keyword::Match) => MergeEvent::Match,
            _ => {
                return Err(
                    p.unexpected_word("CREATE or MATCH", &[Keyword::Create, Keyword::Match])
                );
            }
        };
        p.advance();
        p.expect_keyword(Keyword::Set)?;
        let items = p.comma_separated(set_item)?;
        actions.push(MergeAction {
            event,
            items,
            span: p.since(start),
        });
    }
    Ok(Clause::Merge(Merge {
        path,
        actions,
        span: p.since(start),
    }))
}

fn set(p: &mut Parser<'_>, start: Span) -> PResult<Clause> {
    p.advance();
    let items = p.comma_separated(set_item)?;
    Ok(Clause::Set(Set {
        items,
        span: p.since(start),
    }))
}

fn set_item(p: &mut Parser<'_>) -> PResult<SetItem> {
    if p.is_variable_at(0) {
        match p.peek_at(1) {
            TokenKind::Symbol(Symbol::Equal) => {
                let variable = p.variable()?;
                p.advance();
                return Ok(SetItem::Replace {
                    variable,
                    value: expression(p)?,
                });
            }
            TokenKind::Symbol(Symbol::PlusEqual) => {
                let variable = p.variable()?;
                p.advance();
                return Ok(SetItem::Merge {
                    variable,
                    value: expression(p)?,
                });
            }
            TokenKind::Symbol(Symbol::Colon) => {
                let (variable, labels) = variable_with_labels(p)?;
                return Ok(SetItem::Labels { variable, labels });
            }
            _ => {}
        }
    }
    let target = property_target(p)?;
    p.expect(Symbol::Equal)?;
    Ok(SetItem::Property {
        target,
        value: expression(p)?,
    })
}

/// `n:A:B` or `n:$(expression)`, where no other label expression is allowed.
fn variable_with_labels(p: &mut Parser<'_>) -> PResult<(Ident, LabelExpr)> {
    let variable = p.variable()?;
    let labels = label_expression(p, expression)?;
    if labels.as_labels().is_none() {
        return Err(ParseError::new(
            Detail::UnexpectedSyntax,
            labels.span,
            "SET and REMOVE take plain labels, not a label expression",
        )
        .with_hint("list the labels: `:A:B`, or `:$(list)` for computed ones"));
    }
    Ok((variable, labels))
}

/// `n.a`, `n.a.b`, `n['a']`, `(…).a`
fn property_target(p: &mut Parser<'_>) -> PResult<Expr> {
    let target = p.nested(operand)?;
    match target.kind {
        ExprKind::Property { .. } | ExprKind::Index { .. } => Ok(target),
        _ => Err(ParseError::new(
            Detail::UnexpectedSyntax,
            target.span,
            "only a property can be set or removed here",
        )
        .with_hint("write `n.name`, or `n` with `=`, `+=` or `:Label`")),
    }
}

fn remove(p: &mut Parser<'_>, start: Span) -> PResult<Clause> {
    p.advance();
    let items = p.comma_separated(|p| {
        if p.is_variable_at(0) && p.is_at(1, Symbol::Colon) {
            let (variable, labels) = variable_with_labels(p)?;
            return Ok(RemoveItem::Labels { variable, labels });
        }
        property_target(p).map(RemoveItem::Property)
    })?;
    Ok(Clause::Remove(Remove {
        items,
        span: p.since(start),
    }))
}

fn delete(p: &mut Parser<'_>, start: Span) -> PResult<Clause> {
    let detach = p.eat_keyword(Keyword::Detach);
    p.expect_keyword(Keyword::Delete)?;
    let targets = p.comma_separated(expression)?;
    for target in &targets {
        if matches!(target.kind, ExprKind::HasLabels { .. }) {
            return Err(ParseError::new(
                Detail::InvalidDelete,
                target.span,
                "DELETE deletes nodes and relationships, not labels",
            )
            .with_hint("use REMOVE to remove labels"));
        }
    }
    Ok(Clause::Delete(Delete {
        detach,
        targets,
        span: p.since(start),
    }))
}

fn foreach(p: &mut Parser<'_>, start: Span) -> PResult<Clause> {
    p.advance();
    p.expect(Symbol::LeftParen)?;
    let variable = p.variable()?;
    p.expect_keyword(Keyword::In)?;
    let list = expression_before_bar(p)?;
    p.expect(Symbol::Bar)?;
    let mut clauses = Vec::new();
    while !p.is(Symbol::RightParen) || clauses.is_empty() {
        let clause = clause(p)?;
        if !clause.is_update() {
            let message = format!(
                "{} inside FOREACH, which only changes data",
                clause_name(&clause)
            );
            return Err(
                ParseError::new(Detail::InvalidClauseComposition, clause.span(), message)
                    .with_hint("use UNWIND, or CALL { … }, where rows are read"),
            );
        }
        clauses.push(clause);
    }
    p.expect(Symbol::RightParen)?;
    Ok(Clause::Foreach(Foreach {
        variable,
        list,
        clauses,
        span: p.since(start),
    }))
}

fn call(p: &mut Parser<'_>, start: Span, optional: bool) -> PResult<Clause> {
    p.advance();
    let mut clause = match p.peek() {
        TokenKind::Symbol(Symbol::LeftBrace) => call_subquery(p, start, SubqueryImports::ByWith)?,
        TokenKind::Symbol(Symbol::LeftParen) => {
            let imports = subquery_imports(p)?;
            call_subquery(p, start, imports)?
        }
        _ => Clause::Call(procedure_call(p, start)?),
    };
    match &mut clause {
        Clause::Call(call) => call.optional = optional,
        Clause::Subquery(call) => call.optional = optional,
        _ => {}
    }
    Ok(clause)
}

fn subquery_imports(p: &mut Parser<'_>) -> PResult<SubqueryImports> {
    p.expect(Symbol::LeftParen)?;
    let imports = match p.peek() {
        TokenKind::Symbol(Symbol::Star) => {
            p.advance();
            SubqueryImports::Star
        }
        TokenKind::Symbol(Symbol::RightParen) => SubqueryImports::Named(Vec::new()),
        _ => SubqueryImports::Named(p.comma_separated(Parser::variable)?),
    };
    p.expect(Symbol::RightParen)?;
    Ok(imports)
}

fn call_subquery(p: &mut Parser<'_>, start: Span, imports: SubqueryImports) -> PResult<Clause> {
    p.expect(Symbol::LeftBrace)?;
    let query = query(p, QueryPosition::Call)?;
    p.expect(Symbol::RightBrace)?;
    let transactions = match p.is_keyword(Keyword::In) {
        true => Some(in_transactions(p, expression)?),
        false => None,
    };
    Ok(Clause::Subquery(CallSubquery {
        optional: false,
        imports,
        query,
        transactions,
        span: p.since(start),
    }))
}

fn procedure_call(p: &mut Parser<'_>, start: Span) -> PResult<CallProcedure> {
    let name_start = p.span();
    let mut parts = vec![p.name("the name of a procedure, or `{`")?];
    while p.eat(Symbol::Dot) {
        parts.push(p.name("the name of a procedure")?);
    }
    let name = QualifiedName {
        parts,
        span: p.since(name_start),
    };
    let arguments = if p.eat(Symbol::LeftParen) {
        Some(arguments(p, expression)?)
    } else {
        None
    };
    let yields = if p.is_keyword(Keyword::Yield) {
        Some(yield_clause(p)?)
    } else {
        None
    };
    Ok(CallProcedure {
        optional: false,
        name,
        arguments,
        yields,
        span: p.since(start),
    })
}

pub(super) fn yield_clause(p: &mut Parser<'_>) -> PResult<Yield> {
    let start = p.advance();
    let items = match p.peek() {
        TokenKind::Symbol(Symbol::Star) => {
            p.advance();
            YieldItems::Star
        }
        TokenKind::Symbol(Symbol::Minus) => {
            p.advance();
            YieldItems::Nothing
        }
        _ => YieldItems::Named(p.comma_separated(|p| {
            let column = p.name("a column of the procedure")?;
            let alias = if p.eat_keyword(Keyword::As) {
                Some(p.variable()?)
            } else {
                None
            };
            Ok(YieldItem { column, alias })
        })?),
    };
    let predicate = optional_where(p)?;
    Ok(Yield {
        items,
        predicate,
        span: p.since(start),
    })
}

fn load_csv(p: &mut Parser<'_>, start: Span) -> PResult<Clause> {
    p.advance();
    p.expect_keyword(Keyword::Csv)?;
    let with_headers = p.eat_keyword(Keyword::With);
    if with_headers {
        p.expect_keyword(Keyword::Headers)?;
    }
    p.expect_keyword(Keyword::From)?;
    let source = expression(p)?;
    p.expect_keyword(Keyword::As)?;
    let variable = p.variable()?;
    let field_terminator = if p.eat_keyword(Keyword::FieldTerminator) {
        Some(expression(p)?)
    } else {
        None
    };
    Ok(Clause::LoadCsv(LoadCsv {
        with_headers,
        source,
        variable,
        field_terminator,
        span: p.since(start),
    }))
}
