//! Statements: queries and schema commands.

use super::{
    CreateConstraint, CreateIndex, CreateLookupIndex, DropSchema, KillQuery, RegularQuery, Show,
};
use crate::Span;

/// One statement.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// Whether the statement is run, explained or profiled.
    pub mode: StatementMode,
    /// The body.
    pub body: StatementBody,
    /// Source span, prefix included.
    pub span: Span,
}

/// Execution mode of a statement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum StatementMode {
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
    Query(RegularQuery),
    /// `CREATE [UNIQUE] INDEX …`
    CreateIndex(CreateIndex),
    /// `CREATE LOOKUP INDEX …`
    CreateLookupIndex(CreateLookupIndex),
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
