//! Statements and queries: everything above the clauses.

use super::{Clause, CreateConstraint, CreateIndex, DropSchema, KillQuery, ProcedureCall, Show};
use crate::Span;

/// One statement.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// Whether it is to be run, explained or profiled.
    pub mode: Mode,
    /// What it says.
    pub body: StatementBody,
    /// Where it stands, the prefix included.
    pub span: Span,
}

/// What is wanted of a statement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Its result.
    #[default]
    Run,
    /// `EXPLAIN`: its plan; nothing is executed.
    Explain,
    /// `PROFILE`: its result and the plan with actual figures.
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
    /// `SHOW INDEXES` and its like.
    Show(Show),
    /// `KILL QUERY id`
    KillQuery(KillQuery),
}

/// One or more single queries joined by `UNION`.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    /// The single queries in order; at least one.
    pub branches: Vec<SingleQuery>,
    /// How the branches are joined; without meaning for a single branch. The two kinds never mix in one query.
    pub union: UnionKind,
    /// Where it stands.
    pub span: Span,
}

/// Whether a union keeps duplicates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum UnionKind {
    /// `UNION`: each row once.
    #[default]
    Distinct,
    /// `UNION ALL`: all rows.
    All,
}

/// Clauses in order.
#[derive(Clone, Debug, PartialEq)]
pub struct SingleQuery {
    /// The clauses; at least one.
    pub clauses: Vec<Clause>,
    /// Where it stands.
    pub span: Span,
}

impl Query {
    /// The procedure call that is the whole query, whose arguments may come from the parameters and whose
    /// columns are its result.
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
