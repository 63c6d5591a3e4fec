//! Schema commands.

use isomer_cypher::ast::{self, ConstraintRequirement, FieldReference, FieldStep};

use super::{Binder, Result, condition::field_rules};
use crate::error::PlanError;
use crate::schema::{
    IndexedPath, ObjectName, PropertyPath, Requirement, SchemaCommand, SchemaTarget,
};

/// `CREATE INDEX`.
pub(crate) fn create_index(
    binder: &mut Binder<'_>,
    command: &ast::CreateIndex,
) -> Result<SchemaCommand> {
    Ok(SchemaCommand::CreateIndex {
        name: optional_name(binder, command.name.as_ref()),
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
        name: optional_name(binder, command.name.as_ref()),
        target: target(&command.target),
        requirement,
        paths: fields.iter().map(plain_path).collect::<Result<_>>()?,
        if_not_exists: command.if_not_exists,
    })
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

pub(crate) fn create_lookup_index(command: &ast::CreateLookupIndex) -> SchemaCommand {
    SchemaCommand::CreateLookupIndex {
        of_types: command.of_types,
        if_not_exists: command.if_not_exists,
    }
}

pub(crate) fn drop_index(binder: &mut Binder<'_>, command: &ast::DropSchema) -> SchemaCommand {
    SchemaCommand::DropIndex {
        name: object_name(binder, &command.name),
        if_exists: command.if_exists,
    }
}

pub(crate) fn drop_constraint(binder: &mut Binder<'_>, command: &ast::DropSchema) -> SchemaCommand {
    SchemaCommand::DropConstraint {
        name: object_name(binder, &command.name),
        if_exists: command.if_exists,
    }
}

fn optional_name(binder: &mut Binder<'_>, name: Option<&ast::SchemaName>) -> Option<ObjectName> {
    name.map(|name| object_name(binder, name))
}

fn object_name(binder: &mut Binder<'_>, name: &ast::SchemaName) -> ObjectName {
    match name {
        ast::SchemaName::Fixed(name) => ObjectName::Fixed(name.name.clone()),
        ast::SchemaName::Parameter(name) => {
            ObjectName::Parameter(binder.arena.parameter(&name.name))
        }
    }
}
