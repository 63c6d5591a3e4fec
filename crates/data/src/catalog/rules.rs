//! What constraints demand of a record.

use std::{cmp::Ordering, ops::Bound};

use isomer_value::{Value, equality, order};

use super::{
    Catalog, Check, Constraint, ConstraintKind, FieldCheck, FieldPath, IndexState, Schema,
};
use crate::{
    DataError,
    graph::{KEY, NodeState},
    properties::{at_path, brief},
};

impl Schema {
    /// Refuses a node that breaks a constraint of one of its labels. Uniqueness is kept by indexes.
    pub(crate) fn check(&self, catalog: &Catalog, node: &NodeState) -> Result<(), DataError> {
        for constraint in &self.constraints {
            if node.labels.binary_search(&constraint.label).is_ok() {
                constraint.check(catalog, node)?;
            }
        }
        Ok(())
    }
}

impl Schema {
    /// As [`Schema::check`], by the constraints alone that existing records are known to keep.
    pub(crate) fn check_ready(&self, catalog: &Catalog, node: &NodeState) -> Result<(), DataError> {
        let ready = |constraint: &&Constraint| {
            constraint.state == IndexState::Ready
                && node.labels.binary_search(&constraint.label).is_ok()
        };
        self.constraints
            .iter()
            .filter(ready)
            .try_for_each(|constraint| constraint.check(catalog, node))
    }
}

impl Constraint {
    /// Refuses a node of the constraint's label that breaks it.
    pub(crate) fn check(&self, catalog: &Catalog, node: &NodeState) -> Result<(), DataError> {
        let found = match &self.kind {
            ConstraintKind::Unique { .. } => None,
            ConstraintKind::Required { path } => at_path(&node.properties, path)
                .is_none()
                .then(|| (path.clone(), "is missing".to_owned())),
            ConstraintKind::Type { path, types } => at_path(&node.properties, path)
                .filter(|value| !types.iter().any(|kind| kind.admits(value)))
                .map(|value| {
                    let allowed: Vec<_> = types.iter().map(|kind| kind.name()).collect();
                    (
                        path.clone(),
                        format!(
                            "is a {}, {} is allowed",
                            value.type_name(),
                            allowed.join(" or ")
                        ),
                    )
                }),
            ConstraintKind::Check { checks } => {
                checks.iter().find_map(|FieldCheck { path, check }| {
                    let problem = check.problem(at_path(&node.properties, path)?)?;
                    Some((path.clone(), problem))
                })
            }
            ConstraintKind::Closed { names } => node
                .properties
                .names()
                .find(|name| name.as_ref() != KEY && !names.contains(name))
                .map(|name| {
                    (
                        FieldPath(vec![name.clone()]),
                        "is no property of this label".to_owned(),
                    )
                }),
            ConstraintKind::Convergent { path, kind } => {
                at_path(&node.properties, path).map(|_| {
                    let problem = format!(
                        "holds a plain value, a convergent {} is demanded",
                        kind.name()
                    );
                    (path.clone(), problem)
                })
            }
        };
        match found {
            None => Ok(()),
            Some((field, problem)) => Err(DataError::Violates {
                label: catalog
                    .label_name(self.label)
                    .unwrap_or_default()
                    .to_string(),
                field: field.to_string(),
                problem,
                rule: self.name.to_string(),
            }),
        }
    }
}

impl Check {
    /// What is wrong with `value`.
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
                        return Some(format!("is a {}, which has no length", other.type_name()));
                    }
                } as u64;
                if let Some(min) = min.filter(|min| length < *min) {
                    return Some(format!("has length {length}, at least {min} is demanded"));
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
