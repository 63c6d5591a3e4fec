//! Commands on the schema, in the words of the data layer.

use std::sync::Arc;

use isomer_data::{
    ConstraintKind, ConstraintSpec, FieldPath, IndexField, IndexSpec, SchemaChange, ValueType,
};
use isomer_plan::{
    physical::Body,
    schema::{PropertyPath, Requirement, SchemaCommand, SchemaTarget},
};
use isomer_value::IndexId;

use crate::{
    context::Cx,
    error::{ErrorClass, ExecError, Result},
};

/// Runs the plan's schema command.
pub(crate) fn change(cx: &mut Cx<'_>) -> Result<()> {
    let plan = cx.run.plan.clone();
    let Body::Schema(command) = &plan.body else {
        return Err(ExecError::Internal(
            "a schema change without its command".into(),
        ));
    };
    let counts_index = matches!(
        command,
        SchemaCommand::CreateIndex { .. } | SchemaCommand::DropIndex { .. }
    );
    for change in changes(command)? {
        let outcome = cx.tx.change_schema(change)?;
        let (created, dropped) = (outcome.created.len() as u64, outcome.dropped.len() as u64);
        if counts_index {
            cx.run.counters.indexes_added += created;
            cx.run.counters.indexes_removed += dropped;
        } else {
            cx.run.counters.constraints_added += created;
            cx.run.counters.constraints_removed += dropped;
        }
    }
    Ok(())
}

fn changes(command: &SchemaCommand) -> Result<Vec<SchemaChange>> {
    Ok(match command {
        SchemaCommand::CreateIndex {
            name,
            target,
            paths,
            each_element,
            if_not_exists,
        } => vec![SchemaChange::CreateIndex {
            spec: IndexSpec {
                name: name.as_ref().map(|name| name.to_string()),
                label: label(target)?,
                fields: fields(paths, *each_element),
                unique: false,
            },
            if_not_exists: *if_not_exists,
        }],
        SchemaCommand::DropIndex { name, if_exists } => {
            vec![SchemaChange::DropIndex {
                name: name.to_string(),
                if_exists: *if_exists,
            }]
        }
        SchemaCommand::DropConstraint { name, if_exists } => {
            vec![SchemaChange::DropConstraint {
                name: name.to_string(),
                if_exists: *if_exists,
            }]
        }
        SchemaCommand::CreateConstraint {
            name,
            target,
            requirement,
            paths,
            if_not_exists,
        } => {
            let constraint = |name: Option<String>, kind, unique_fields| -> Result<SchemaChange> {
                Ok(SchemaChange::CreateConstraint {
                    spec: ConstraintSpec {
                        name,
                        label: label(target)?,
                        kind,
                        unique_fields,
                    },
                    if_not_exists: *if_not_exists,
                })
            };
            let name = name.as_ref().map(|name| name.to_string());
            // With several properties a constraint of one property each: only the first bears the name given.
            let numbered = |at: usize| {
                name.as_ref().map(|name| {
                    if at == 0 {
                        name.clone()
                    } else {
                        format!("{name}_{}", at + 1)
                    }
                })
            };
            let unique = || {
                constraint(
                    name.clone(),
                    ConstraintKind::Unique { index: IndexId(0) },
                    fields(paths, false),
                )
            };
            let required = |from: usize| {
                paths
                    .iter()
                    .enumerate()
                    .map(|(at, path)| {
                        constraint(
                            numbered(at + from),
                            ConstraintKind::Required {
                                path: field_path(path),
                            },
                            Vec::new(),
                        )
                    })
                    .collect::<Result<Vec<_>>>()
            };
            match requirement {
                Requirement::Unique => vec![unique()?],
                Requirement::NotNull => required(0)?,
                Requirement::Key => {
                    let mut all = vec![unique()?];
                    all.extend(required(1)?);
                    all
                }
                Requirement::Type(word) => {
                    let types = value_types(word)?;
                    paths
                        .iter()
                        .enumerate()
                        .map(|(at, path)| {
                            constraint(
                                numbered(at),
                                ConstraintKind::Type {
                                    path: field_path(path),
                                    types: types.clone(),
                                },
                                Vec::new(),
                            )
                        })
                        .collect::<Result<Vec<_>>>()?
                }
            }
        }
    })
}

fn label(target: &SchemaTarget) -> Result<String> {
    match target {
        SchemaTarget::Label(label) => Ok(label.to_string()),
        SchemaTarget::Type(name) => Err(ExecError::Unsupported(format!(
            "indexes and constraints on relationships (type {name}) are not available in this version: put the property on a node"
        ))),
    }
}

fn field_path(path: &PropertyPath) -> FieldPath {
    FieldPath(path.iter().map(Arc::clone).collect())
}

fn fields(paths: &[PropertyPath], each: bool) -> Vec<IndexField> {
    paths
        .iter()
        .map(|path| IndexField {
            path: field_path(path),
            each,
        })
        .collect()
}

fn value_types(word: &str) -> Result<Vec<ValueType>> {
    word.split('|')
        .map(|word| {
            let upper = word.trim().to_ascii_uppercase();
            let name = upper.strip_suffix(" NOT NULL").unwrap_or(&upper);
            Ok(match name {
                "BOOLEAN" | "BOOL" => ValueType::Bool,
                "INTEGER" | "INT" => ValueType::Int,
                "FLOAT" => ValueType::Float,
                "NUMBER" => ValueType::Number,
                "STRING" => ValueType::String,
                "BYTES" => ValueType::Bytes,
                "MAP" => ValueType::Map,
                "DATE" => ValueType::Date,
                "LOCAL TIME" => ValueType::LocalTime,
                "ZONED TIME" | "TIME" => ValueType::ZonedTime,
                "LOCAL DATETIME" => ValueType::LocalDateTime,
                "ZONED DATETIME" | "DATETIME" => ValueType::ZonedDateTime,
                "DURATION" => ValueType::Duration,
                "POINT" => ValueType::Point,
                _ if name.starts_with("LIST") => ValueType::List,
                _ => {
                    return Err(ExecError::raised(
                        ErrorClass::SyntaxError,
                        "InvalidArgumentType",
                        format!("`{word}` is not a type of values: use BOOLEAN, INTEGER, FLOAT, NUMBER, STRING, LIST, MAP, DATE, …"),
                    ));
                }
            })
        })
        .collect()
}
