//! Statements and queries: everything above the clauses.

use super::{Clause, CreateConstraint, CreateIndex, DropSchema, KillQuery, ProcedureCall, Show};
use crate::Span;

/// One statement.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// Whether the statement is run, explained or profiled.
    pub mode: Mode,
    /// The body.
    pub body: StatementBody,
    /// Source span, prefix included.
    pub span: Span,
}

/// Execution mode of a statement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Returns the result.
    #[default]
    Run,
    /// `EXPLAIN`: returns the plan without executing it.
    Explain,
    /// `PROFILE`: returns the result and the plan with actual row counts.
    Profile,
}

/// The kinds of statements.
#[derive(Clone, Debug, PartialEq)]
pub enum StatementBody {
    /// Reads or writes data.
    Query(Query),
    /// `CREATE [UNIQUE] INDEX …`
    CreateIndex(CreateIndex),
    /// `DROP INDEX name [IF EXISTS]`
    DropIndex(DropSchema),
    /// `CREATE CONSTRAINT …`
    CreateConstraint(CreateConstraint),
    /// `DROP CONSTRAINT name [IF EXISTS]`
    DropConstraint(DropSchema),
    /// `SHOW INDEXES` and the other `SHOW` commands.
    Show(Show),
    /// `KILL QUERY id`
    KillQuery(KillQuery),
}

/// One or more single queries joined by `UNION`.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    /// The single queries in order; at least one.
    pub branches: Vec<SingleQuery>,
    /// How the branches are joined; meaningless for a single branch. The two kinds never mix in one query.
    pub union: UnionKind,
    /// Source span.
    pub span: Span,
}

/// Whether a union keeps duplicates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum UnionKind {
    /// `UNION`: duplicates are removed.
    #[default]
    Distinct,
    /// `UNION ALL`: duplicates are kept.
    All,
}

/// A list of clauses.
#[derive(Clone, Debug, PartialEq)]
pub struct SingleQuery {
    /// The clauses; at least one.
    pub clauses: Vec<Clause>,
    /// Source span.
    pub span: Span,
}

impl Query {
    /// Whether a clause of it, or of a `CALL { … }` inside, changes data. Procedures are not looked into.
    pub fn updates(&self) -> bool {
        let mut clauses = self.branches.iter().flat_map(|branch| &branch.clauses);
        clauses.any(|clause| match clause {
            Clause::Subquery(subquery) => subquery.query.updates(),
            clause => clause.is_update(),
        })
    }

    /// The procedure call that is the whole query; its arguments may come from the parameters, and its
    /// columns are the result.
    pub fn standalone_call(&self) -> Option<&ProcedureCall> {
        match self.branches.as_slice() {
            [SingleQuery { clauses, .. }] => match clauses.as_slice() {
                [Clause::Call(call)] => Some(call),
                _ => None,
            },
            _ => None,
        }
    }
}
