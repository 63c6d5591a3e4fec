//! Queries: clauses in order, unions, and the permitted order of clauses.

use std::sync::Arc;

use isomer_cypher::Span;
use isomer_cypher::ast::{self, Clause};

use super::projection::ProjectionClause;
use super::scope::Frame;
use super::{Binder, Result};
use crate::error::PlanError;
use crate::expr::{BoundExpr, SlotId, StaticType};
use crate::logical::{LogicalQuery, LogicalStep};

/// One column of a projection.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub name: Arc<str>,
    pub slot: SlotId,
    pub kind: StaticType,
}

/// A bound query: its effects and its columns.
#[derive(Debug)]
pub(crate) struct BoundQuery {
    pub logical: LogicalQuery,
    /// Absent if it returns nothing (it ends with an update, or is an `EXISTS { MATCH … }` without `RETURN`).
    pub columns: Option<Vec<Column>>,
}

/// The context of a query, which determines how it may end and whether it may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueryContext {
    /// The statement itself.
    Statement,
    /// `CALL { … }`.
    Call,
    /// `EXISTS { … }` and `COUNT { … }`: may leave `RETURN` out, may not write.
    Test,
    /// `COLLECT { … }`: returns one column, may not write.
    Collect,
}

/// Prepares the frame of a branch; returns how many of its clauses that consumed.
pub(crate) type MakeFrame<'m, 'a> =
    &'m mut dyn FnMut(&mut Binder<'a>, &'a ast::SingleQuery) -> Result<(Frame, usize)>;

impl<'a> Binder<'a> {
    /// Binds a query in a frame per branch, which `make_frame` prepares.
    pub(crate) fn bind_query(
        &mut self,
        query: &'a ast::RegularQuery,
        standing: QueryContext,
        make_frame: MakeFrame<'_, 'a>,
    ) -> Result<(BoundQuery, Vec<(SlotId, BoundExpr)>)> {
        let mut branches = Vec::with_capacity(query.branches.len());
        let mut columns: Option<Option<Vec<Column>>> = None;
        let mut arguments: Vec<(SlotId, BoundExpr)> = Vec::new();
        let union = query.branches.len() > 1;
        for branch in &query.branches {
            let (frame, skipped) = make_frame(self, branch)?;
            self.frames.push(frame);
            let bound = bind_branch(self, branch, skipped, standing);
            let frame = self.frames.pop().expect("pushed above");
            let (mut steps, found) = bound?;
            for (slot, outside) in frame.arguments {
                if !arguments.iter().any(|(known, _)| *known == slot) {
                    arguments.push((slot, outside));
                }
            }
            match &mut columns {
                None if union => columns = Some(union_columns(self, found, &mut steps)),
                None => columns = Some(found),
                Some(first) => join_columns(first, found, &mut steps, branch.span)?,
            }
            branches.push(steps);
        }
        let columns = columns.flatten();
        let outputs = columns.iter().flatten().map(|column| column.slot).collect();
        let distinct = union && query.union == ast::UnionKind::Distinct;
        Ok((
            BoundQuery {
                logical: LogicalQuery {
                    branches,
                    outputs,
                    distinct,
                },
                columns,
            },
            arguments,
        ))
    }
}

/// The columns of a union's first branch, in slots that all branches write.
fn union_columns(
    binder: &mut Binder<'_>,
    found: Option<Vec<Column>>,
    steps: &mut Vec<LogicalStep>,
) -> Option<Vec<Column>> {
    let found = found?;
    let mut outputs = Vec::with_capacity(found.len());
    let mut copies = Vec::with_capacity(found.len());
    for column in found {
        // Other branches may return any kind.
        let slot = binder.arena.slot(column.name.clone(), StaticType::Any);
        copies.push((slot, BoundExpr::Slot(column.slot)));
        outputs.push(Column {
            name: column.name,
            slot,
            kind: StaticType::Any,
        });
    }
    steps.push(LogicalStep::Project(copies));
    Some(outputs)
}

fn join_columns(
    first: &Option<Vec<Column>>,
    found: Option<Vec<Column>>,
    steps: &mut Vec<LogicalStep>,
    span: Span,
) -> Result<()> {
    let (Some(first), Some(found)) = (first, &found) else {
        return match (first, found) {
            (None, None) => Ok(()),
            _ => Err(different_columns(span)),
        };
    };
    if first.len() != found.len() {
        return Err(different_columns(span));
    }
    let mut copies = Vec::with_capacity(found.len());
    for output in first {
        let Some(column) = found.iter().find(|column| column.name == output.name) else {
            return Err(different_columns(span));
        };
        copies.push((output.slot, BoundExpr::Slot(column.slot)));
    }
    steps.push(LogicalStep::Project(copies));
    Ok(())
}

fn bind_branch<'a>(
    binder: &mut Binder<'a>,
    branch: &'a ast::SingleQuery,
    skipped: usize,
    standing: QueryContext,
) -> Result<(Vec<LogicalStep>, Option<Vec<Column>>)> {
    check_composition(branch, standing)?;
    let mut steps = Vec::new();
    let (last, before) = branch.clauses.split_last().expect("a query has a clause");
    for clause in before.iter().skip(skipped) {
        binder.bind_clause(clause, &mut steps)?;
    }
    match last {
        Clause::Return(clause) => {
            let columns = binder.bind_projection(
                &clause.projection,
                None,
                ProjectionClause::Return,
                &mut steps,
            )?;
            Ok((steps, Some(columns)))
        }
        Clause::Call(call) if before.is_empty() && standing == QueryContext::Statement => {
            let columns = binder.bind_standalone_call(call, &mut steps)?;
            Ok((steps, Some(columns).filter(|columns| !columns.is_empty())))
        }
        last => {
            if skipped <= before.len() {
                binder.bind_clause(last, &mut steps)?;
            }
            Ok((steps, None))
        }
    }
}

fn different_columns(span: Span) -> PlanError {
    PlanError::syntax(
        "DifferentColumnsInUnion",
        "all parts of a UNION return columns of the same names",
        span,
    )
}

/// Checks which clauses may follow one another, and which may end a query.
fn check_composition(branch: &ast::SingleQuery, standing: QueryContext) -> Result<()> {
    let mut wrote = false;
    for (position, clause) in branch.clauses.iter().enumerate() {
        let last = position + 1 == branch.clauses.len();
        match clause {
            Clause::Return(clause) if !last => {
                return Err(composition(
                    "RETURN is the last clause of a query",
                    clause.span,
                ));
            }
            Clause::With(_) => wrote = false,
            Clause::Match(_) | Clause::Unwind(_) | Clause::LoadCsv(_) if wrote => {
                return Err(composition(
                    "a clause that reads cannot follow one that writes",
                    clause.span(),
                )
                .with_hint("put a WITH between them"));
            }
            clause if clause.is_update() => {
                if matches!(standing, QueryContext::Test | QueryContext::Collect) {
                    return Err(composition(
                        "a subquery in an expression cannot write",
                        clause.span(),
                    ));
                }
                wrote = true;
            }
            _ => {}
        }
    }
    let last = branch.clauses.last().expect("a query has a clause");
    let ends = match last {
        Clause::Return(_) | Clause::Finish(_) => true,
        Clause::Call(_) => standing != QueryContext::Collect,
        Clause::Subquery(_) => standing != QueryContext::Collect,
        clause if clause.is_update() => true,
        Clause::With(_) => standing == QueryContext::Test,
        _ => standing == QueryContext::Test,
    };
    if !ends {
        return Err(composition(
            "a query ends with RETURN or with a clause that writes",
            last.span(),
        )
        .with_hint("add a RETURN"));
    }
    Ok(())
}

fn composition(message: &str, span: Span) -> PlanError {
    PlanError::syntax("InvalidClauseComposition", message, span)
}
