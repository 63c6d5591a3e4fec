//! Clauses: each becomes one or a few steps.

use isomer_cypher::ast::{self, Clause};

use super::create::{MadePattern, PatternClause};
use super::hint::bind_hint;
use super::pattern::NewNames;
use super::projection::ProjectionClause;
use super::types::wrong_kind;
use super::{Binder, Result};
use crate::error::PlanError;
use crate::expr::{BoundExpr, StaticType};
use crate::logical::{CsvOrigin, LogicalStep, MergeStep};
use crate::physical::{CreateItem, Properties};
use crate::solve::sees_creation;

impl<'a> Binder<'a> {
    /// Binds one clause; `RETURN` is bound by its query.
    pub(super) fn bind_clause(
        &mut self,
        clause: &'a Clause,
        steps: &mut Vec<LogicalStep>,
    ) -> Result<()> {
        match clause {
            Clause::Match(clause) => bind_match(self, clause, steps),
            Clause::Unwind(clause) => bind_unwind(self, clause, steps),
            Clause::With(clause) => bind_with(self, clause, steps),
            Clause::Return(clause) => Err(PlanError::syntax(
                "InvalidClauseComposition",
                "RETURN is the last clause of a query",
                clause.span,
            )),
            Clause::Create(clause) => bind_create(self, clause, steps),
            Clause::Merge(clause) => bind_merge(self, clause, steps),
            Clause::Set(clause) => {
                steps.push(LogicalStep::Set(self.bind_set_items(&clause.items)?));
                Ok(())
            }
            Clause::Remove(clause) => {
                steps.push(LogicalStep::Set(self.bind_remove_items(&clause.items)?));
                Ok(())
            }
            Clause::Delete(clause) => {
                steps.push(self.bind_delete(clause)?);
                Ok(())
            }
            Clause::Foreach(clause) => bind_foreach(self, clause, steps),
            Clause::Call(clause) => self.bind_call(clause, steps),
            Clause::Subquery(clause) => self.bind_call_subquery(clause, steps),
            Clause::LoadCsv(clause) => bind_load_csv(self, clause, steps),
            Clause::Finish(_) => Ok(()),
        }
    }
}

fn bind_match<'a>(
    binder: &mut Binder<'a>,
    clause: &'a ast::Match,
    steps: &mut Vec<LogicalStep>,
) -> Result<()> {
    let pattern = binder.bind_pattern_in(
        clause.mode,
        clause.pattern.paths.iter(),
        clause.predicate.as_ref(),
        NewNames::Allowed,
    )?;
    let mut pattern = pattern;
    for hint in &clause.hints {
        bind_hint(binder, hint, &mut pattern.graph)?;
    }
    if !pattern.casts.is_empty() {
        steps.push(LogicalStep::Project(pattern.casts));
    }
    steps.push(LogicalStep::Match {
        graph: pattern.graph,
        optional: clause.optional,
    });
    Ok(())
}

fn bind_unwind<'a>(
    binder: &mut Binder<'a>,
    clause: &'a ast::Unwind,
    steps: &mut Vec<LogicalStep>,
) -> Result<()> {
    let list = binder.bind_expr(&clause.list)?;
    let element = match &list.kind {
        StaticType::List(element) => (**element).clone(),
        StaticType::Any => StaticType::Any,
        other => other.clone(),
    };
    let element = binder.declare_new(&clause.variable, element)?;
    let position = match &clause.position {
        Some(position) => {
            let slot = binder.declare_new(&position.variable, StaticType::Integer)?;
            Some((slot, position.first))
        }
        None => None,
    };
    steps.push(LogicalStep::Unwind {
        list: list.expr,
        element,
        position,
    });
    Ok(())
}

fn bind_with<'a>(
    binder: &mut Binder<'a>,
    clause: &'a ast::With,
    steps: &mut Vec<LogicalStep>,
) -> Result<()> {
    let columns = binder.bind_projection(
        &clause.projection,
        clause.predicate.as_ref(),
        ProjectionClause::With,
        steps,
    )?;
    binder.enter(columns);
    Ok(())
}

fn bind_create<'a>(
    binder: &mut Binder<'a>,
    clause: &'a ast::Create,
    steps: &mut Vec<LogicalStep>,
) -> Result<()> {
    let mut made = binder.bind_made_pattern(&clause.pattern.paths, PatternClause::Create)?;
    if !made.casts.is_empty() {
        steps.push(LogicalStep::Project(made.casts));
    }
    // Adjacent clauses are merged into one operator: a script of a thousand CREATEs must not be a deep plan. Not if
    // one of them can observe for how many rows the other one has run.
    if let Some(LogicalStep::Create(before)) = steps.last_mut()
        && !sees_creation(&made.create, before, &binder.arena)
    {
        before.items.append(&mut made.create.items);
        before.paths.append(&mut made.create.paths);
    } else {
        steps.push(LogicalStep::Create(made.create));
    }
    Ok(())
}

fn bind_merge<'a>(
    binder: &mut Binder<'a>,
    clause: &'a ast::Merge,
    steps: &mut Vec<LogicalStep>,
) -> Result<()> {
    let mut made =
        binder.bind_made_pattern(std::slice::from_ref(&clause.path), PatternClause::Merge)?;
    compute_volatile_once(binder, &mut made);
    let graph = binder.graph_to_find(&made);
    let (mut on_create, mut on_match) = (Vec::new(), Vec::new());
    for action in &clause.actions {
        let items = binder.bind_set_items(&action.items)?;
        match action.event {
            ast::MergeEvent::Create => on_create.extend(items),
            ast::MergeEvent::Match => on_match.extend(items),
        }
    }
    if made
        .create
        .items
        .iter()
        .all(|item| matches!(item, CreateItem::Node(_)))
        && made.create.items.is_empty()
    {
        return Err(PlanError::syntax(
            "VariableAlreadyBound",
            "MERGE has no pattern",
            clause.span,
        ));
    }
    if !made.casts.is_empty() {
        steps.push(LogicalStep::Project(made.casts));
    }
    steps.push(LogicalStep::Merge(Box::new(MergeStep {
        graph,
        create: made.create,
        on_create,
        on_match,
    })));
    Ok(())
}

/// Volatile properties of a `MERGE` (`{id: randomUUID()}`) are computed once for each row: what is searched for is what
/// is created.
fn compute_volatile_once(binder: &mut Binder<'_>, made: &mut MadePattern) {
    for item in &mut made.create.items {
        let properties = match item {
            CreateItem::Node(node) => &mut node.properties,
            CreateItem::Relationship(relationship) => &mut relationship.properties,
        };
        let Properties::Entries(entries) = properties else {
            continue;
        };
        for (_, expr) in entries.iter_mut().filter(|(_, expr)| expr.is_volatile()) {
            let slot = binder.arena.slot("", StaticType::Any);
            let computed = std::mem::replace(expr, BoundExpr::Slot(slot));
            made.casts.push((slot, computed));
        }
    }
}

fn bind_foreach<'a>(
    binder: &mut Binder<'a>,
    clause: &'a ast::Foreach,
    steps: &mut Vec<LogicalStep>,
) -> Result<()> {
    let list = binder.bind_expr(&clause.list)?;
    let kind = match &list.kind {
        StaticType::List(element) => (**element).clone(),
        StaticType::Any => StaticType::Any,
        other => return Err(wrong_kind("FOREACH", "a list", other, clause.list.span)),
    };
    let outside = binder.frame().scope.clone();
    let element = binder.declare(&clause.variable.name, kind);
    let mut body = Vec::new();
    for inner in &clause.clauses {
        if !inner.is_update() {
            return Err(PlanError::syntax(
                "InvalidClauseComposition",
                "FOREACH holds only clauses that write",
                inner.span(),
            )
            .with_hint("use UNWIND, or CALL { … }"));
        }
        binder.bind_clause(inner, &mut body)?;
    }
    binder.frame().scope = outside;
    steps.push(LogicalStep::ForEach {
        list: list.expr,
        element,
        body,
    });
    Ok(())
}

fn bind_load_csv<'a>(
    binder: &mut Binder<'a>,
    clause: &'a ast::LoadCsv,
    steps: &mut Vec<LogicalStep>,
) -> Result<()> {
    let url: BoundExpr = binder.bind_expr(&clause.source)?.expr;
    let field_terminator = match &clause.field_terminator {
        Some(terminator) => Some(binder.bind_expr(terminator)?.expr),
        None => None,
    };
    let kind = if clause.with_headers {
        StaticType::Map
    } else {
        StaticType::List(Box::new(StaticType::String))
    };
    let row = binder.declare_new(&clause.variable, kind)?;
    let origin = CsvOrigin {
        line: binder.arena.slot("linenumber()", StaticType::Integer),
        file: binder.arena.slot("file()", StaticType::String),
    };
    binder.frame().csv_origin = Some(origin);
    steps.push(LogicalStep::LoadCsv {
        url,
        headers: clause.with_headers,
        field_terminator,
        row,
        origin,
    });
    Ok(())
}
