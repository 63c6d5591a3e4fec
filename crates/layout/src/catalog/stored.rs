//! How names and schema are stored.
//!
//! A definition is a list of values in the key codec, which describes itself. An index: name, label, unique, ready,
//! fields, each field a list of `each` and the names of its path. The label is its number; where the records are
//! relationships, a list with the number of their type is in its place. A constraint: name, label, ready, kind (1
//! unique, 2 required, 3 types, 4 checks, 5 closed, 6 convergent, 7 key), then what the kind needs: of 1 and 7 the
//! index's number. Checks are lists of path, kind (1 range, 2 one of, 3 length) and what that needs; a bound is an
//! empty list, or the value and whether it is included.

use std::{ops::Bound, sync::Arc};

use isomer_storage::Read;
use isomer_value::{IndexId, LabelId, TypeId, Value, key};

use crate::{
    DataError,
    catalog::{
        names::{NameKind, NameTables},
        schema::{
            Check, Constraint, ConstraintKind, FieldCheck, FieldPath, IndexDef, IndexField,
            IndexState, RecordScope, Schema, ValueType,
        },
    },
    convergent::place::ConvergentKind,
    keyspace::{TAG_NAME, TAG_SCHEMA},
    pairs::each_pair,
};

impl NameTables {
    /// Loads all names.
    pub fn load(read: &dyn Read) -> Result<Self, DataError> {
        let names = Self::default();
        each_pair(read, &[TAG_NAME], |key, value| {
            names.enter_stored(key, value)
        })?;
        Ok(names)
    }

    /// Adds the name in a stored pair.
    ///
    /// # Errors
    /// [`DataError::Corrupt`] for a pair that is not of a name.
    pub fn enter_stored(&self, key: &[u8], value: &[u8]) -> Result<(), DataError> {
        let entry = (|| {
            let (&kind, id) = key.get(1..)?.split_first()?;
            let kind = NameKind::ALL
                .into_iter()
                .find(|known| *known as u8 == kind)?;
            Some((
                kind,
                u32::from_be_bytes(id.try_into().ok()?),
                std::str::from_utf8(value).ok()?,
            ))
        })();
        let (kind, id, name) =
            entry.ok_or_else(|| DataError::corrupt("an interned name is malformed"))?;
        self.enter(kind, id, name);
        Ok(())
    }
}

impl Schema {
    /// Loads all indexes and constraints.
    pub fn load(read: &dyn Read) -> Result<Self, DataError> {
        let mut schema = Self::default();
        each_pair(read, &[TAG_SCHEMA], |key, value| {
            schema.enter_stored(key, Some(value))
        })?;
        schema.join_keys();
        Ok(schema)
    }

    /// This schema after a commit that made these writes to its keys; `None` for a deleted one.
    ///
    /// # Errors
    /// [`DataError::Corrupt`] for a malformed definition.
    pub fn changed<'w>(
        &self,
        writes: impl IntoIterator<Item = (&'w [u8], Option<&'w [u8]>)>,
    ) -> Result<Self, DataError> {
        let mut schema = self.clone();
        for (key, value) in writes {
            schema.enter_stored(key, value)?;
        }
        Ok(schema)
    }

    /// Enters one stored pair, or removes what was stored under its key.
    fn enter_stored(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), DataError> {
        let malformed =
            || DataError::corrupt("the definition of an index or constraint is malformed");
        let fields = |value: &[u8]| match key::decode(value)? {
            Value::List(fields) => Ok(fields),
            _ => Err(malformed()),
        };
        match (key.get(1), value) {
            (Some(0), Some(value)) => {
                let numbers = value.split_first_chunk::<8>().and_then(|(version, next)| {
                    let next = u32::from_be_bytes(next.try_into().ok()?);
                    Some((u64::from_be_bytes(*version), next))
                });
                (self.version, self.next_index) =
                    numbers.ok_or_else(|| DataError::corrupt("the schema version is malformed"))?;
            }
            (Some(1), value) => {
                let id = key.get(2..).and_then(|id| id.try_into().ok());
                let id = IndexId(id.map(u32::from_be_bytes).ok_or_else(malformed)?);
                self.indexes.retain(|own| own.id != id);
                if let Some(value) = value {
                    let index = index_from(id, &fields(value)?).ok_or_else(malformed)?;
                    self.indexes.push(index);
                }
            }
            (Some(2), value) => {
                let name = &key[2..];
                self.constraints.retain(|own| own.name.as_bytes() != name);
                if let Some(value) = value {
                    let constraint = constraint_from(&fields(value)?).ok_or_else(malformed)?;
                    self.constraints.push(constraint);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The value of the schema version's key.
    pub fn version_value(&self) -> Vec<u8> {
        let mut value = self.version.to_be_bytes().to_vec();
        value.extend(self.next_index.to_be_bytes());
        value
    }
}

fn text(value: &str) -> Value {
    Value::String(value.into())
}

fn list(values: Vec<Value>) -> Value {
    Value::List(Arc::new(values))
}

fn path_value(path: &FieldPath) -> Value {
    list(path.0.iter().cloned().map(Value::String).collect())
}

fn path_from(value: &Value) -> Option<FieldPath> {
    let Value::List(names) = value else {
        return None;
    };
    names
        .iter()
        .map(string)
        .collect::<Option<Vec<_>>>()
        .filter(|names| !names.is_empty())
        .map(FieldPath)
}

fn string(value: &Value) -> Option<Arc<str>> {
    match value {
        Value::String(text) => Some(text.clone()),
        _ => None,
    }
}

fn state(ready: &Value) -> Option<IndexState> {
    Some(if ready.as_bool()? {
        IndexState::Ready
    } else {
        IndexState::Building
    })
}

fn number(value: &Value) -> Option<u32> {
    value.as_int().and_then(|int| u32::try_from(int).ok())
}

fn scope_value(scope: RecordScope) -> Value {
    match scope {
        RecordScope::Label(label) => Value::Int(label.0.into()),
        RecordScope::Type(type_id) => list(vec![Value::Int(type_id.0.into())]),
    }
}

fn scope(value: &Value) -> Option<RecordScope> {
    match value {
        Value::List(of_type) => match of_type.as_slice() {
            [type_id] => Some(RecordScope::Type(TypeId(number(type_id)?))),
            _ => None,
        },
        label => Some(RecordScope::Label(LabelId(number(label)?))),
    }
}

/// The stored form of an index.
pub fn index_value(index: &IndexDef) -> Result<Vec<u8>, DataError> {
    let fields = index
        .fields
        .iter()
        .map(|field| list(vec![Value::Bool(field.each), path_value(&field.path)]))
        .collect();
    Ok(key::encode(&list(vec![
        text(&index.name),
        scope_value(index.scope),
        Value::Bool(index.unique),
        Value::Bool(index.state == IndexState::Ready),
        list(fields),
    ]))?)
}

fn index_from(id: IndexId, definition: &[Value]) -> Option<IndexDef> {
    let [name, label, unique, ready, Value::List(fields)] = definition else {
        return None;
    };
    let fields = fields.iter().map(|field| {
        let Value::List(parts) = field else {
            return None;
        };
        let [each, path] = parts.as_slice() else {
            return None;
        };
        Some(IndexField {
            path: path_from(path)?,
            each: each.as_bool()?,
        })
    });
    Some(IndexDef {
        id,
        name: string(name)?,
        scope: scope(label)?,
        unique: unique.as_bool()?,
        state: state(ready)?,
        fields: fields.collect::<Option<_>>()?,
    })
}

/// The stored form of a constraint.
pub fn constraint_value(constraint: &Constraint) -> Result<Vec<u8>, DataError> {
    let bound = |bound: &Bound<Value>| match bound {
        Bound::Unbounded => list(Vec::new()),
        Bound::Included(value) => list(vec![value.clone(), Value::Bool(true)]),
        Bound::Excluded(value) => list(vec![value.clone(), Value::Bool(false)]),
    };
    let length = |bound: &Option<u64>| {
        bound.map_or(Value::Null, |bound| {
            Value::Int(i64::try_from(bound).unwrap_or(i64::MAX))
        })
    };
    let mut fields = vec![
        text(&constraint.name),
        scope_value(constraint.scope),
        Value::Bool(constraint.state == IndexState::Ready),
    ];
    match &constraint.kind {
        ConstraintKind::Unique { index } => {
            fields.extend([Value::Int(1), Value::Int(index.0.into())])
        }
        ConstraintKind::Key { index } => {
            fields.extend([Value::Int(7), Value::Int(index.0.into())]);
        }
        ConstraintKind::Required { path } => fields.extend([Value::Int(2), path_value(path)]),
        ConstraintKind::Type { path, types } => {
            let types = types.iter().map(|kind| Value::Int(*kind as i64)).collect();
            fields.extend([Value::Int(3), path_value(path), list(types)]);
        }
        ConstraintKind::Check { checks } => {
            let checks = checks.iter().map(|FieldCheck { path, check }| {
                let mut parts = vec![path_value(path)];
                match check {
                    Check::Range { min, max } => {
                        parts.extend([Value::Int(1), bound(min), bound(max)])
                    }
                    Check::OneOf(values) => parts.extend([Value::Int(2), list(values.clone())]),
                    Check::Length { min, max } => {
                        parts.extend([Value::Int(3), length(min), length(max)])
                    }
                }
                list(parts)
            });
            fields.extend([Value::Int(4), list(checks.collect())]);
        }
        ConstraintKind::Closed { names } => {
            fields.extend([
                Value::Int(5),
                list(names.iter().cloned().map(Value::String).collect()),
            ]);
        }
        ConstraintKind::Convergent { path, kind } => {
            fields.extend([Value::Int(6), path_value(path), Value::Int(*kind as i64)]);
        }
    }
    Ok(key::encode(&list(fields))?)
}

fn constraint_from(definition: &[Value]) -> Option<Constraint> {
    let [name, label, ready, Value::Int(kind), rest @ ..] = definition else {
        return None;
    };
    let bound = |value: &Value| match value {
        Value::List(parts) => match parts.as_slice() {
            [] => Some(Bound::Unbounded),
            [value, Value::Bool(true)] => Some(Bound::Included(value.clone())),
            [value, Value::Bool(false)] => Some(Bound::Excluded(value.clone())),
            _ => None,
        },
        _ => None,
    };
    let length = |value: &Value| value.as_int().and_then(|length| u64::try_from(length).ok());
    let kind = match (kind, rest) {
        (1, [index]) => ConstraintKind::Unique {
            index: IndexId(number(index)?),
        },
        (7, [index]) => ConstraintKind::Key {
            index: IndexId(number(index)?),
        },
        (2, [path]) => ConstraintKind::Required {
            path: path_from(path)?,
        },
        (3, [path, Value::List(types)]) => {
            let types = types
                .iter()
                .map(|code| ValueType::from_code(code.as_int()?))
                .collect::<Option<_>>()?;
            ConstraintKind::Type {
                path: path_from(path)?,
                types,
            }
        }
        (4, [Value::List(checks)]) => {
            let checks = checks.iter().map(|parts| {
                let Value::List(parts) = parts else {
                    return None;
                };
                let (path, check) = match parts.as_slice() {
                    [path, Value::Int(1), min, max] => (
                        path,
                        Check::Range {
                            min: bound(min)?,
                            max: bound(max)?,
                        },
                    ),
                    [path, Value::Int(2), Value::List(values)] => {
                        (path, Check::OneOf(values.to_vec()))
                    }
                    [path, Value::Int(3), min, max] => (
                        path,
                        Check::Length {
                            min: length(min),
                            max: length(max),
                        },
                    ),
                    _ => return None,
                };
                Some(FieldCheck {
                    path: path_from(path)?,
                    check,
                })
            });
            ConstraintKind::Check {
                checks: checks.collect::<Option<_>>()?,
            }
        }
        (5, [Value::List(names)]) => ConstraintKind::Closed {
            names: names.iter().map(string).collect::<Option<_>>()?,
        },
        (6, [path, code]) => ConstraintKind::Convergent {
            path: path_from(path)?,
            kind: ConvergentKind::from_code(u8::try_from(code.as_int()?).ok()?)?,
        },
        _ => return None,
    };
    Some(Constraint {
        name: string(name)?,
        scope: scope(label)?,
        kind,
        state: state(ready)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_come_back() {
        let path = FieldPath::new(["a", "b"]);
        let checks = vec![
            Check::Range {
                min: Bound::Included(Value::Int(0)),
                max: Bound::Excluded(Value::Float(1.5)),
            },
            Check::Range {
                min: Bound::Unbounded,
                max: Bound::Unbounded,
            },
            Check::OneOf(vec![text("x"), Value::Bool(true)]),
            Check::Length {
                min: None,
                max: Some(7),
            },
        ];
        let checks = checks
            .into_iter()
            .map(|check| FieldCheck {
                path: path.clone(),
                check,
            })
            .collect();
        for kind in [
            ConstraintKind::Unique { index: IndexId(3) },
            ConstraintKind::Key { index: IndexId(4) },
            ConstraintKind::Required { path: path.clone() },
            ConstraintKind::Type {
                path,
                types: ValueType::ALL.to_vec(),
            },
            ConstraintKind::Check { checks },
            ConstraintKind::Closed {
                names: vec!["a".into(), "".into()],
            },
            ConstraintKind::Convergent {
                path: FieldPath::top("likes"),
                kind: ConvergentKind::Counter,
            },
        ] {
            for (state, scope) in [
                (IndexState::Building, RecordScope::Label(LabelId(7))),
                (IndexState::Ready, RecordScope::Type(TypeId(7))),
            ] {
                let constraint = Constraint {
                    name: "c".into(),
                    scope,
                    kind: kind.clone(),
                    state,
                };
                let Value::List(definition) =
                    key::decode(&constraint_value(&constraint).unwrap()).unwrap()
                else {
                    panic!("a definition is a list");
                };
                let back = constraint_from(&definition).unwrap();
                assert_eq!(format!("{back:?}"), format!("{constraint:?}"));
                // A truncated definition is rejected without a panic.
                for cut in 0..definition.len() {
                    assert!(constraint_from(&definition[..cut]).is_none());
                }
            }
        }
    }
}
