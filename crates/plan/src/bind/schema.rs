//! Schema commands and `SHOW`.

use std::sync::Arc;

use isomer_cypher::ast::{self, ConstraintRequirement, FieldReference, FieldStep, YieldItems};

use super::query::Column;
use super::scope::Variable;
use super::{Binder, Result, condition::field_rules};
use crate::error::PlanError;
use crate::expr::Kind;
use crate::logical::{LogicalStep, conjuncts};
use crate::schema::{
    IndexedPath, PropertyPath, Requirement, SchemaCommand, SchemaTarget, ShowKind,
};

/// `CREATE INDEX`.
pub(crate) fn create_index(command: &ast::CreateIndex) -> Result<SchemaCommand> {
    Ok(SchemaCommand::CreateIndex {
        name: command.name.as_ref().map(|name| name.name.clone()),
        target: target(&command.target),
        unique: command.unique,
        paths: command
            .fields
            .iter()
            .map(indexed_path)
            .collect::<Result<_>>()?,
        if_not_exists: command.if_not_exists,
    })
}

/// `CREATE CONSTRAINT`.
pub(crate) fn create_constraint(
    binder: &mut Binder<'_>,
    command: &ast::CreateConstraint,
) -> Result<SchemaCommand> {
    let (requirement, fields) = match &command.kind {
        ConstraintRequirement::Unique(fields) => (Requirement::Unique, fields.as_slice()),
        ConstraintRequirement::Key(fields) => (Requirement::Key, fields.as_slice()),
        ConstraintRequirement::NotNull(field) => {
            (Requirement::NotNull, std::slice::from_ref(field))
        }
        ConstraintRequirement::Typed(field, value_type) => (
            Requirement::Type(value_type.clone()),
            std::slice::from_ref(field),
        ),
        ConstraintRequirement::Convergent(field, kind) => (
            Requirement::Convergent(kind.clone()),
            std::slice::from_ref(field),
        ),
        ConstraintRequirement::KeepEndpoints => (Requirement::KeepEndpoints, &[][..]),
        ConstraintRequirement::Check(condition) => {
            let variable = match &command.target {
                ast::SchemaPattern::Node { variable, .. }
                | ast::SchemaPattern::Relationship { variable, .. } => variable.name.clone(),
            };
            let text = condition.span.slice(binder.text).into();
            let rules = field_rules(&variable, condition);
            let requirement = Requirement::Check {
                variable,
                text,
                rules,
            };
            (requirement, &[][..])
        }
    };
    Ok(SchemaCommand::CreateConstraint {
        name: command.name.as_ref().map(|name| name.name.clone()),
        target: target(&command.target),
        requirement,
        paths: fields.iter().map(plain_path).collect::<Result<_>>()?,
        if_not_exists: command.if_not_exists,
    })
}

/// `SHOW … [YIELD …] [WHERE …]`: its steps and its columns.
pub(crate) fn show_objects<'a>(
    binder: &mut Binder<'a>,
    show: &'a ast::Show,
) -> Result<(Vec<LogicalStep>, Vec<Column>)> {
    let kind = show_kind(show.kind);
    let fields = kind.fields();
    let mut slots = Vec::with_capacity(fields.len());
    for field in fields {
        slots.push(binder.arena.slot(*field, Kind::Any));
    }
    let column = |at: usize, name: Arc<str>| Column {
        name,
        slot: slots[at],
        kind: Kind::Any,
    };
    let columns: Vec<Column> = match show.yields.as_ref().map(|given| &given.items) {
        Some(YieldItems::Named(items)) => items
            .iter()
            .map(|item| {
                let at = fields.iter().position(|field| *field == &*item.column.name);
                at.map(|at| column(at, item.variable().name.clone()))
                    .ok_or_else(|| no_column(item, fields))
            })
            .collect::<Result<_>>()?,
        _ => (0..fields.len())
            .map(|at| column(at, fields[at].into()))
            .collect(),
    };
    for column in &columns {
        let variable = Variable {
            slot: column.slot,
            kind: Kind::Any,
        };
        binder.frame().scope.set(column.name.clone(), variable);
    }
    let mut steps = vec![LogicalStep::Show { show: kind, slots }];
    if let Some(condition) = show
        .yields
        .as_ref()
        .and_then(|given| given.predicate.as_ref())
    {
        let mut terms = Vec::new();
        conjuncts(binder.bind_condition(condition)?, &mut terms);
        steps.push(LogicalStep::Filter(terms));
    }
    Ok((steps, columns))
}

fn no_column(item: &ast::YieldItem, fields: &[&str]) -> PlanError {
    PlanError::syntax(
        "UndefinedVariable",
        format!("there is no column `{}` to be shown", item.column.name),
        item.column.span,
    )
    .with_near(&item.column.name, fields.iter().copied())
}

fn show_kind(kind: ast::ShowKind) -> ShowKind {
    match kind {
        ast::ShowKind::Indexes => ShowKind::Indexes,
        ast::ShowKind::Constraints => ShowKind::Constraints,
        ast::ShowKind::Labels => ShowKind::Labels,
        ast::ShowKind::Types => ShowKind::Types,
        ast::ShowKind::Properties => ShowKind::Properties,
        ast::ShowKind::Buckets => ShowKind::Buckets,
        ast::ShowKind::Conflicts => ShowKind::Conflicts,
        ast::ShowKind::Queries => ShowKind::Queries,
        ast::ShowKind::Functions => ShowKind::Functions,
        ast::ShowKind::Procedures => ShowKind::Procedures,
    }
}

fn target(target: &ast::SchemaPattern) -> SchemaTarget {
    match target {
        ast::SchemaPattern::Node { label, .. } => SchemaTarget::Label(label.name.clone()),
        ast::SchemaPattern::Relationship { rel_type, .. } => {
            SchemaTarget::Type(rel_type.name.clone())
        }
    }
}

fn indexed_path(field: &FieldReference) -> Result<IndexedPath> {
    let mut names = Vec::new();
    let mut elements_after = None;
    for step in &field.steps {
        match step {
            FieldStep::Name(name) => names.push(name.name.clone()),
            FieldStep::Elements if elements_after.is_none() => elements_after = Some(names.len()),
            FieldStep::Elements => {
                return Err(PlanError::unsupported(
                    "an index through lists of lists",
                    field.span,
                ));
            }
        }
    }
    Ok(IndexedPath {
        names,
        elements_after,
    })
}

fn plain_path(field: &FieldReference) -> Result<PropertyPath> {
    let path = indexed_path(field)?;
    match path.elements_after {
        None => Ok(path.names),
        Some(_) => Err(PlanError::unsupported(
            "a constraint on the elements of a list",
            field.span,
        )),
    }
}

pub(crate) fn drop_index(command: &ast::DropSchema) -> SchemaCommand {
    SchemaCommand::DropIndex {
        name: command.name.name.clone(),
        if_exists: command.if_exists,
    }
}

pub(crate) fn drop_constraint(command: &ast::DropSchema) -> SchemaCommand {
    SchemaCommand::DropConstraint {
        name: command.name.name.clone(),
        if_exists: command.if_exists,
    }
}
