//! Checking records against constraints.

use std::{cmp::Ordering, ops::Bound};

use isomer_value::{Map, Value, equality, order};

use crate::{
    DataError,
    catalog::{
        Catalog,
        schema::{
            Check, Constraint, ConstraintKind, FieldCheck, FieldPath, IndexField, IndexState,
            RecordScope, Schema,
        },
    },
    graph::state::{KEY, NodeState, RecordId, RecordState},
    properties::{at_path, brief},
};

impl Catalog {
    /// Refuses a new node that breaks a constraint of one of its labels. Uniqueness is enforced by indexes.
    pub fn check_new_node(&self, node: &NodeState) -> Result<(), DataError> {
        self.schema.check(self, None, node)
    }

    /// Refuses an existing record that breaks one of the constraints that existing records are known to satisfy.
    pub fn check_existing(&self, id: RecordId, record: &impl RecordState) -> Result<(), DataError> {
        self.schema.check_ready(self, id, record)
    }
}

impl Schema {
    /// Refuses a record that breaks a constraint of one of its labels, or of its type. Uniqueness is enforced by
    /// indexes.
    pub fn check(
        &self,
        catalog: &Catalog,
        id: Option<RecordId>,
        record: &impl RecordState,
    ) -> Result<(), DataError> {
        for constraint in &self.constraints {
            if record.is_in(constraint.scope) {
                constraint.check(catalog, id, record.properties())?;
            }
        }
        Ok(())
    }

    /// As [`Schema::check`], only by the constraints that existing records are known to satisfy.
    pub(crate) fn check_ready(
        &self,
        catalog: &Catalog,
        id: RecordId,
        record: &impl RecordState,
    ) -> Result<(), DataError> {
        let ready = |constraint: &&Constraint| {
            constraint.state == IndexState::Ready && record.is_in(constraint.scope)
        };
        self.constraints
            .iter()
            .filter(ready)
            .try_for_each(|constraint| constraint.check(catalog, Some(id), record.properties()))
    }
}

impl Constraint {
    /// Refuses the properties of a record that the constraint is about where they break it; `id` is its number, where
    /// it has one already.
    pub fn check(
        &self,
        catalog: &Catalog,
        id: Option<RecordId>,
        properties: &Map,
    ) -> Result<(), DataError> {
        let found = match &self.kind {
            ConstraintKind::Unique { .. } => None,
            ConstraintKind::Key { index } => {
                let fields = catalog.index(*index).map_or(&[][..], |index| &index.fields);
                let absent = |field: &&IndexField| at_path(properties, &field.path).is_none();
                let field = fields.iter().find(absent);
                field.map(|field| missing(&field.path))
            }
            ConstraintKind::Required { path } => {
                at_path(properties, path).is_none().then(|| missing(path))
            }
            ConstraintKind::Type { path, types } => at_path(properties, path)
                .filter(|value| !types.iter().any(|kind| kind.admits(value)))
                .map(|value| {
                    let allowed: Vec<_> = types.iter().map(|kind| kind.name()).collect();
                    (
                        path.clone(),
                        format!(
                            "is a {} ({}), {} is allowed",
                            value.type_name(),
                            brief(value),
                            allowed.join(" or ")
                        ),
                    )
                }),
            ConstraintKind::Check { checks } => {
                checks.iter().find_map(|FieldCheck { path, check }| {
                    let problem = check.problem(at_path(properties, path)?)?;
                    Some((path.clone(), problem))
                })
            }
            ConstraintKind::Closed { names } => properties
                .names()
                .find(|name| name.as_ref() != KEY && !names.contains(name))
                .map(|name| {
                    (
                        FieldPath(vec![name.clone()]),
                        match self.scope {
                            RecordScope::Label(_) => "is not a property of this label",
                            RecordScope::Type(_) => "is not a property of this type",
                        }
                        .to_owned(),
                    )
                }),
            ConstraintKind::Convergent { path, kind } => at_path(properties, path).map(|_| {
                let problem = format!(
                    "holds a plain value, a convergent {} is required",
                    kind.name()
                );
                (path.clone(), problem)
            }),
        };
        match found {
            None => Ok(()),
            Some((field, problem)) => Err(DataError::Violates {
                label: catalog
                    .scope_name(self.scope)
                    .unwrap_or_default()
                    .as_ref()
                    .into(),
                field: field.to_string().into(),
                record: described(id, properties.get(KEY)).into(),
                problem: problem.into(),
                rule: self.name.to_string().into(),
            }),
        }
    }
}

fn missing(path: &FieldPath) -> (FieldPath, String) {
    (path.clone(), "is missing".to_owned())
}

/// A record for a message: its number, and its `_key` where it has one.
pub fn described(id: Option<RecordId>, key: Option<&Value>) -> String {
    let named = match id {
        Some(RecordId::Node(id)) => format!("node {id}"),
        Some(RecordId::Relationship(id)) => format!("relationship {id}"),
        None => "the record".to_owned(),
    };
    match key {
        Some(key) => format!("{named} ({KEY} {})", brief(key)),
        None => named,
    }
}

impl Check {
    /// The violation of `value`, if any.
    fn problem(&self, value: &Value) -> Option<String> {
        match self {
            Self::Range { min, max } => {
                let (wrong, bound) = [(min, Ordering::Less), (max, Ordering::Greater)]
                    .into_iter()
                    .find_map(|(bound, wrong)| match bound {
                        Bound::Included(bound) => {
                            outside(value, bound, &[wrong]).then_some((wrong, bound))
                        }
                        Bound::Excluded(bound) => outside(value, bound, &[wrong, Ordering::Equal])
                            .then_some((wrong, bound)),
                        Bound::Unbounded => None,
                    })?;
                let side = match (wrong, order::cmp_order(value, bound)) {
                    _ if !comparable(value, bound) => "which does not compare with",
                    (_, Ordering::Equal) => "which is excluded by the bound",
                    (Ordering::Less, _) => "below",
                    _ => "above",
                };
                Some(format!("is {}, {side} {}", brief(value), brief(bound)))
            }
            Self::OneOf(allowed) => {
                let known = allowed.iter().any(|one| equality::equivalent(one, value));
                (!known).then(|| {
                    let allowed: Vec<_> = allowed.iter().take(10).map(brief).collect();
                    format!("is {}, none of {}", brief(value), allowed.join(", "))
                })
            }
            Self::Length { min, max } => {
                let length = match value {
                    Value::String(text) => text.chars().count(),
                    Value::Bytes(bytes) => bytes.len(),
                    Value::List(items) => items.len(),
                    Value::Map(map) => map.len(),
                    other => {
                        return Some(format!(
                            "is a {}, which does not have a length",
                            other.type_name()
                        ));
                    }
                } as u64;
                if let Some(min) = min.filter(|min| length < *min) {
                    return Some(format!("has length {length}, at least {min} is required"));
                }
                let max = max.filter(|max| length > *max)?;
                Some(format!("has length {length}, at most {max} is allowed"))
            }
        }
    }
}

fn comparable(value: &Value, bound: &Value) -> bool {
    bound.type_name() == value.type_name() || bound.is_number() && value.is_number()
}

/// Whether a value does not compare with a bound, or compares in one of these ways.
fn outside(value: &Value, bound: &Value, wrong: &[Ordering]) -> bool {
    !comparable(value, bound) || wrong.contains(&order::cmp_order(value, bound))
}
