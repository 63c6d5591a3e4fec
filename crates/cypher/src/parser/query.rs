//! Statements, queries and the order of clauses.

use super::{CLAUSES, Context, PResult, Parser};
use crate::ast::{
    Clause, Mode, Query, SingleQuery, Statement, StatementBody, SubqueryKind, UnionKind, YieldItems,
};
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

impl Parser<'_> {
    pub(super) fn statement(&mut self) -> PResult<Statement> {
        let start = self.span();
        let mode = match self.peek() {
            TokenKind::Keyword(Keyword::Explain) => Mode::Explain,
            TokenKind::Keyword(Keyword::Profile) => Mode::Profile,
            _ => Mode::Run,
        };
        if mode != Mode::Run {
            self.advance();
        }
        let body = match self.peek() {
            TokenKind::Keyword(Keyword::Create) if self.is_schema_command() => {
                self.create_schema()?
            }
            TokenKind::Keyword(Keyword::Drop) => self.drop_schema()?,
            TokenKind::Keyword(Keyword::Show) => self.show()?,
            TokenKind::Keyword(Keyword::Kill) => self.kill_query()?,
            _ => StatementBody::Query(self.query(QueryPosition::Statement)?),
        };
        Ok(Statement {
            mode,
            body,
            span: self.since(start),
        })
    }

    pub(super) fn query(&mut self, position: QueryPosition) -> PResult<Query> {
        let is_read_only =
            self.context.is_read_only || matches!(position, QueryPosition::Expression(_));
        let context = Context {
            is_read_only,
            ..Context::default()
        };
        self.nested(|parser| parser.within(context, |parser| parser.union(position)))
    }

    fn union(&mut self, position: QueryPosition) -> PResult<Query> {
        let start = self.span();
        let mut branches = vec![self.single_query(position)?];
        let mut union = None;
        while self.is_keyword(Keyword::Union) {
            let keyword = self.advance();
            let kind = match self.eat_keyword(Keyword::All) {
                true => UnionKind::All,
                false => {
                    self.eat_keyword(Keyword::Distinct);
                    UnionKind::Distinct
                }
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
            branches.push(self.single_query(position)?);
        }
        Ok(Query {
            branches,
            union: union.unwrap_or_default(),
            span: self.since(start),
        })
    }

    fn single_query(&mut self, position: QueryPosition) -> PResult<SingleQuery> {
        let start = self.span();
        let mut clauses: Vec<Clause> = Vec::new();
        while matches!(self.peek(), TokenKind::Keyword(keyword) if CLAUSES.contains(&keyword)) {
            let clause = self.clause()?;
            self.check_order(clauses.last(), &clause)?;
            clauses.push(clause);
        }
        let (Some(last), length) = (clauses.last(), clauses.len()) else {
            return Err(self.no_clause());
        };
        self.check_last(last, length, position)?;
        for call in clauses
            .iter()
            .filter(|_| length > 1)
            .filter_map(as_procedure_call)
        {
            check_in_query_call(call)?;
        }
        Ok(SingleQuery {
            clauses,
            span: self.since(start),
        })
    }

    fn no_clause(&self) -> ParseError {
        let statements = [
            Keyword::Explain,
            Keyword::Profile,
            Keyword::Drop,
            Keyword::Show,
            Keyword::Kill,
        ]
        .into_iter()
        .filter(|_| self.depth <= 1);
        let candidates: Vec<Keyword> = CLAUSES.iter().copied().chain(statements).collect();
        self.unexpected_word("a clause such as MATCH, CREATE or RETURN", &candidates)
    }

    /// Checks the order of clauses: nothing follows `RETURN`, and a `WITH` separates an update from the next
    /// reading clause.
    fn check_order(&self, before: Option<&Clause>, clause: &Clause) -> PResult<()> {
        let error = |message: String| {
            Err(ParseError::new(
                Detail::InvalidClauseComposition,
                clause.span(),
                message,
            ))
        };
        if self.context.is_read_only && clause.is_update() {
            return error(format!(
                "{} changes data, which a subquery in an expression may not",
                clause_name(clause)
            ));
        }
        let Some(before) = before else { return Ok(()) };
        if matches!(before, Clause::Return(_)) {
            return error(format!(
                "{} after RETURN, which must be the last clause",
                clause_name(clause)
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

    fn check_last(&self, last: &Clause, length: usize, position: QueryPosition) -> PResult<()> {
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
        match ends || may_lack_return {
            true => Ok(()),
            false => {
                let what = if length == 1 {
                    "the query is only"
                } else {
                    "the query ends with"
                };
                let message = format!("{what} {}, which has no result", clause_name(last));
                let error = ParseError::new(Detail::InvalidClauseComposition, last.span(), message);
                let candidates: Vec<Keyword> = super::AFTER_EXPRESSION
                    .iter()
                    .chain(CLAUSES)
                    .copied()
                    .collect();
                let found = self.unexpected_word("a clause", &candidates);
                Err(match self.peek() {
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
    }
}

fn as_procedure_call(clause: &Clause) -> Option<&crate::ast::ProcedureCall> {
    match clause {
        Clause::Call(call) => Some(call),
        _ => None,
    }
}

/// Inside a query a call must write out its arguments and its columns.
fn check_in_query_call(call: &crate::ast::ProcedureCall) -> PResult<()> {
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
    }
}
