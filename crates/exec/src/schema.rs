//! Schema commands, mapped to the data layer.

use std::{ops::Bound, sync::Arc};

use isomer_data::{
    Check, ConstraintKind, ConstraintSpec, ConvergentKind, FieldCheck, FieldPath, IndexField,
    IndexSpec, SchemaChange, ScopeName, ValueType,
};
use isomer_plan::{
    expr::{Comparison, TypeExpr},
    physical::PlanBody,
    schema::{
        FieldRule, IndexedPath, ObjectName, PropertyPath, Requirement, Rule, SchemaCommand,
        SchemaTarget,
    },
};
use isomer_value::{IndexId, Value};

use crate::{
    context::Cx,
    error::{ErrorClass, ExecError, Result, shown},
};

/// Runs the plan's schema command.
pub(crate) fn change(cx: &mut Cx<'_>) -> Result<()> {
    let plan = cx.run.plan.clone();
    let PlanBody::Schema(command) = &plan.body else {
        return Err(ExecError::Internal(
            "a schema change without its command".into(),
        ));
    };
    let counts_index = matches!(
        command,
        SchemaCommand::CreateIndex { .. } | SchemaCommand::DropIndex { .. }
    );
    for change in changes(command, &cx.run.parameters)? {
        let mut stopped = None;
        let outcome = cx.tx.change_schema_while(change, &mut || {
            stopped = cx.run.watch.check_now().err();
            stopped.is_none()
        });
        if let Some(stopped) = stopped {
            return Err(stopped);
        }
        let outcome = outcome?;
        let (created, dropped) = (outcome.created.len() as u64, outcome.dropped.len() as u64);
        if counts_index {
            cx.run.report.counters.indexes_added += created;
            cx.run.report.counters.indexes_removed += dropped;
        } else {
            cx.run.report.counters.constraints_added += created;
            cx.run.report.counters.constraints_removed += dropped;
        }
    }
    Ok(())
}

fn changes(command: &SchemaCommand, parameters: &[Value]) -> Result<Vec<SchemaChange>> {
    let named = |name: &Option<ObjectName>| {
        let name = name.as_ref();
        name.map(|name| object_name(name, parameters)).transpose()
    };
    Ok(match command {
        SchemaCommand::CreateIndex {
            name,
            target,
            paths,
            unique,
            if_not_exists,
        } => vec![SchemaChange::CreateIndex {
            spec: IndexSpec {
                name: named(name)?,
                scope: scope(target),
                fields: paths.iter().map(indexed_field).collect::<Result<_>>()?,
                unique: *unique,
            },
            if_not_exists: *if_not_exists,
        }],
        SchemaCommand::CreateLookupIndex {
            if_not_exists: true,
            ..
        } => Vec::new(),
        SchemaCommand::CreateLookupIndex { of_types, .. } => {
            let indexed = if *of_types {
                "relationship types"
            } else {
                "labels"
            };
            return Err(ExecError::raised(
                ErrorClass::ConstraintVerificationFailed,
                "IndexAlreadyExists",
                format!("{indexed} are always indexed: omit the command, or say IF NOT EXISTS"),
            ));
        }
        SchemaCommand::DropIndex { name, if_exists } => {
            vec![SchemaChange::DropIndex {
                name: object_name(name, parameters)?,
                if_exists: *if_exists,
            }]
        }
        SchemaCommand::DropConstraint { name, if_exists } => {
            vec![SchemaChange::DropConstraint {
                name: object_name(name, parameters)?,
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
            let constraint = NewConstraint {
                name: named(name)?,
                target,
                if_not_exists: *if_not_exists,
            };
            constraint.changes(requirement, paths)?
        }
    })
}

/// The name that a command gives to an index or constraint.
fn object_name(name: &ObjectName, parameters: &[Value]) -> Result<String> {
    match name {
        ObjectName::Fixed(name) => Ok(name.to_string()),
        ObjectName::Parameter(parameter) => {
            let given = parameters.get(parameter.index()).unwrap_or(&Value::Null);
            given.as_str().map(str::to_owned).ok_or_else(|| {
                ExecError::type_error(format!(
                    "the name of an index or constraint is a string, not {}",
                    shown(given)
                ))
            })
        }
    }
}

/// A `CREATE CONSTRAINT` without its requirement.
struct NewConstraint<'c> {
    name: Option<String>,
    target: &'c SchemaTarget,
    if_not_exists: bool,
}

impl NewConstraint<'_> {
    fn changes(
        &self,
        requirement: &Requirement,
        paths: &[PropertyPath],
    ) -> Result<Vec<SchemaChange>> {
        // The index's number is not assigned yet.
        let index = IndexId(0);
        Ok(match requirement {
            Requirement::Unique => vec![self.indexed(ConstraintKind::Unique { index }, paths)?],
            Requirement::Key => vec![self.indexed(ConstraintKind::Key { index }, paths)?],
            Requirement::NotNull => {
                self.numbered(paths, |path| ConstraintKind::Required { path })?
            }
            Requirement::Check {
                rules: Some(rules), ..
            } => {
                let checks = rules.iter().map(|FieldRule { path, rule }| FieldCheck {
                    path: field_path(path),
                    check: check(rule),
                });
                let kind = ConstraintKind::Check {
                    checks: checks.collect(),
                };
                vec![self.change(self.name.clone(), kind, Vec::new())?]
            }
            Requirement::Check { text, .. } => {
                return Err(ExecError::Unsupported(format!(
                    "a constraint cannot check `{text}` in this version: compare properties, or their size(), with constants \
                     (`n.age >= 0 AND n.age < 150`, `n.sex IN ['f', 'm']`, `size(n.name) <= 100`)"
                )));
            }
            Requirement::Convergent(words) => {
                let kind = convergent_kind(words)?;
                let convergent = |path| {
                    let path = field_path(path);
                    let kind = ConstraintKind::Convergent { path, kind };
                    self.change(self.name.clone(), kind, Vec::new())
                };
                paths.iter().map(convergent).collect::<Result<_>>()?
            }
            Requirement::KeepEndpoints => vec![self.keep_endpoints()?],
            Requirement::Type(word) => {
                let types = value_types(word)?;
                self.numbered(paths, |path| ConstraintKind::Type {
                    path,
                    types: types.clone(),
                })?
            }
        })
    }

    fn change(
        &self,
        name: Option<String>,
        kind: ConstraintKind,
        unique_fields: Vec<IndexField>,
    ) -> Result<SchemaChange> {
        Ok(SchemaChange::CreateConstraint {
            spec: ConstraintSpec {
                name,
                scope: scope(self.target),
                kind,
                unique_fields,
            },
            if_not_exists: self.if_not_exists,
        })
    }

    /// A constraint over all properties together, which an index enforces.
    fn indexed(&self, kind: ConstraintKind, paths: &[PropertyPath]) -> Result<SchemaChange> {
        self.change(self.name.clone(), kind, whole_fields(paths))
    }

    /// One constraint per property. The first one has the given name, the others the name with a number.
    fn numbered(
        &self,
        paths: &[PropertyPath],
        kind: impl Fn(FieldPath) -> ConstraintKind,
    ) -> Result<Vec<SchemaChange>> {
        let name = |at: usize| {
            let name = self.name.as_ref()?;
            Some(match at {
                0 => name.clone(),
                at => format!("{name}_{}", at + 1),
            })
        };
        let paths = paths.iter().enumerate();
        paths
            .map(|(at, path)| self.change(name(at), kind(field_path(path)), Vec::new()))
            .collect()
    }

    fn keep_endpoints(&self) -> Result<SchemaChange> {
        match self.target {
            SchemaTarget::Type(rel_type) => Ok(SchemaChange::KeepEndpoints {
                name: self.name.clone(),
                rel_type: rel_type.to_string(),
                if_not_exists: self.if_not_exists,
            }),
            SchemaTarget::Label(label) => Err(ExecError::Unsupported(format!(
                "only relationships keep their ends, and {label} is a label: CREATE CONSTRAINT FOR ()-[r:TYPE]-() REQUIRE KEEP ENDPOINTS"
            ))),
        }
    }
}

fn convergent_kind(words: &str) -> Result<ConvergentKind> {
    ConvergentKind::by_name(words).ok_or_else(|| {
        let known = ConvergentKind::ALL.map(ConvergentKind::name).join(", ");
        ExecError::Unsupported(format!(
            "there is no convergent field of the kind `{words}`: the kinds are {known}"
        ))
    })
}

fn scope(target: &SchemaTarget) -> ScopeName {
    match target {
        SchemaTarget::Label(label) => ScopeName::label(label),
        SchemaTarget::Type(name) => ScopeName::rel_type(name),
    }
}

/// The check that enforces a rule.
fn check(rule: &Rule) -> Check {
    match rule {
        Rule::OneOf(values) => Check::OneOf(values.clone()),
        Rule::Value(op, bound) => {
            let (min, max) = match op {
                Comparison::Less => (Bound::Unbounded, Bound::Excluded(bound.clone())),
                Comparison::LessOrEqual => (Bound::Unbounded, Bound::Included(bound.clone())),
                Comparison::Greater => (Bound::Excluded(bound.clone()), Bound::Unbounded),
                Comparison::GreaterOrEqual => (Bound::Included(bound.clone()), Bound::Unbounded),
                Comparison::Equal | Comparison::NotEqual => {
                    return Check::OneOf(vec![bound.clone()]);
                }
            };
            Check::Range { min, max }
        }
        Rule::Size(op, bound) => {
            let at_least = |bound: i64| Some(u64::try_from(bound).unwrap_or(0));
            // A size cannot be negative: the maximum 0 with the minimum 1 refuses everything.
            let at_most = |bound: i64| match u64::try_from(bound) {
                Ok(bound) => (None, Some(bound)),
                Err(_) => (Some(1), Some(0)),
            };
            let (min, max) = match op {
                Comparison::Less => at_most(bound.saturating_sub(1)),
                Comparison::LessOrEqual => at_most(*bound),
                Comparison::Greater => (at_least(bound.saturating_add(1)), None),
                Comparison::GreaterOrEqual => (at_least(*bound), None),
                Comparison::Equal | Comparison::NotEqual => match at_most(*bound) {
                    (None, max) => (at_least(*bound), max),
                    none => none,
                },
            };
            Check::Length { min, max }
        }
    }
}

fn field_path(path: &PropertyPath) -> FieldPath {
    FieldPath(path.iter().map(Arc::clone).collect())
}

fn whole_fields(paths: &[PropertyPath]) -> Vec<IndexField> {
    paths
        .iter()
        .map(|path| IndexField {
            path: field_path(path),
            each: false,
        })
        .collect()
}

fn indexed_field(path: &IndexedPath) -> Result<IndexField> {
    match path.elements_after {
        Some(names) if names != path.names.len() => Err(ExecError::Unsupported(format!(
            "an index over fields inside list elements (`{}[]…`) is not available in this version: index the list's elements, or store the field outside of the list",
            path.names[..names.min(path.names.len())].join(".")
        ))),
        each => Ok(IndexField {
            path: field_path(&path.names),
            each: each.is_some(),
        }),
    }
}

fn value_types(word: &TypeExpr) -> Result<Vec<ValueType>> {
    Ok(match word {
        TypeExpr::Boolean => vec![ValueType::Bool],
        TypeExpr::Integer => vec![ValueType::Int],
        TypeExpr::Float => vec![ValueType::Float],
        TypeExpr::Number => vec![ValueType::Number],
        TypeExpr::String => vec![ValueType::String],
        TypeExpr::Bytes => vec![ValueType::Bytes],
        TypeExpr::Date => vec![ValueType::Date],
        TypeExpr::LocalTime => vec![ValueType::LocalTime],
        TypeExpr::ZonedTime => vec![ValueType::ZonedTime],
        TypeExpr::LocalDateTime => vec![ValueType::LocalDateTime],
        TypeExpr::ZonedDateTime => vec![ValueType::ZonedDateTime],
        TypeExpr::Duration => vec![ValueType::Duration],
        TypeExpr::Point => vec![ValueType::Point],
        TypeExpr::Map => vec![ValueType::Map],
        TypeExpr::List(of) if **of == TypeExpr::Any => vec![ValueType::List],
        TypeExpr::Union(words) => {
            let mut all = Vec::new();
            for word in words {
                all.extend(value_types(word)?);
            }
            all
        }
        other => {
            return Err(ExecError::Unsupported(format!(
                "a constraint cannot ask for the type {other}: use BOOLEAN, INTEGER, FLOAT, NUMBER, STRING, BYTES, LIST, MAP, a temporal type or POINT"
            )));
        }
    })
}
