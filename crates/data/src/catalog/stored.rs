//! How names and schema are stored.
//!
//! A definition is a list of values in the key codec, which describes itself. An index: name, label, unique, ready,
//! fields, each field a list of `each` and the names of its path. A constraint: name, label, ready, kind (1 unique,
//! 2 required, 3 types, 4 range, 5 one of, 6 length, 7 closed), then what the kind needs.

use std::sync::Arc;

use isomer_storage::Read;
use isomer_value::{IndexId, LabelId, Value, key};

use super::{
    Check, Constraint, ConstraintKind, FieldPath, IndexDef, IndexField, IndexState, NameKind,
    Names, Schema, ValueType,
};
use crate::{
    DataError,
    keyspace::{SCHEMA_VERSION, TAG_NAME, TAG_SCHEMA},
    read::each_pair,
};

impl Names {
    /// Loads all names.
    pub(crate) fn load(read: &dyn Read) -> Result<Self, DataError> {
        let names = Self::default();
        each_pair(read, &[TAG_NAME], |key, value| {
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
            names.enter(kind, id, name);
            Ok(())
        })?;
        Ok(names)
    }
}

impl Schema {
    /// Loads all indexes and constraints.
    pub(crate) fn load(read: &dyn Read) -> Result<Self, DataError> {
        let mut schema = Self::default();
        if let Some(value) = read.get(SCHEMA_VERSION)? {
            let (version, next) = value
                .split_first_chunk::<8>()
                .and_then(|(version, next)| {
                    Some((
                        u64::from_be_bytes(*version),
                        u32::from_be_bytes(next.try_into().ok()?),
                    ))
                })
                .ok_or_else(|| DataError::corrupt("the schema version is malformed"))?;
            (schema.version, schema.next_index) = (version, next);
        }
        each_pair(read, &[TAG_SCHEMA], |key, value| {
            let malformed =
                || DataError::corrupt("the definition of an index or constraint is malformed");
            let definition = match key.get(1) {
                Some(1 | 2) => match key::decode(value)? {
                    Value::List(fields) => fields,
                    _ => return Err(malformed()),
                },
                _ => return Ok(()),
            };
            if key[1] == 1 {
                let id = key
                    .get(2..)
                    .and_then(|id| id.try_into().ok())
                    .map(u32::from_be_bytes)
                    .ok_or_else(malformed)?;
                schema
                    .indexes
                    .push(index_from(IndexId(id), &definition).ok_or_else(malformed)?);
            } else {
                schema
                    .constraints
                    .push(constraint_from(&definition).ok_or_else(malformed)?);
            }
            Ok(())
        })?;
        Ok(schema)
    }

    /// The value of the schema version's key.
    pub(crate) fn version_value(&self) -> Vec<u8> {
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

/// The stored form of an index.
pub(crate) fn index_value(index: &IndexDef) -> Result<Vec<u8>, DataError> {
    let fields = index
        .fields
        .iter()
        .map(|field| list(vec![Value::Bool(field.each), path_value(&field.path)]))
        .collect();
    Ok(key::encode(&list(vec![
        text(&index.name),
        Value::Int(index.label.0.into()),
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
        label: LabelId(number(label)?),
        unique: unique.as_bool()?,
        state: state(ready)?,
        fields: fields.collect::<Option<_>>()?,
    })
}

/// The stored form of a constraint.
pub(crate) fn constraint_value(constraint: &Constraint) -> Result<Vec<u8>, DataError> {
    let optional = |bound: &Option<Value>| bound.clone().unwrap_or_default();
    let length = |bound: &Option<u64>| {
        bound.map_or(Value::Null, |bound| {
            Value::Int(i64::try_from(bound).unwrap_or(i64::MAX))
        })
    };
    let mut fields = vec![
        text(&constraint.name),
        Value::Int(constraint.label.0.into()),
        Value::Bool(constraint.state == IndexState::Ready),
    ];
    match &constraint.kind {
        ConstraintKind::Unique { index } => {
            fields.extend([Value::Int(1), Value::Int(index.0.into())])
        }
        ConstraintKind::Required { path } => fields.extend([Value::Int(2), path_value(path)]),
        ConstraintKind::Type { path, types } => {
            let types = types.iter().map(|kind| Value::Int(*kind as i64)).collect();
            fields.extend([Value::Int(3), path_value(path), list(types)]);
        }
        ConstraintKind::Check { path, check } => match check {
            Check::Range { min, max } => fields.extend([
                Value::Int(4),
                path_value(path),
                optional(min),
                optional(max),
            ]),
            Check::OneOf(values) => {
                fields.extend([Value::Int(5), path_value(path), list(values.clone())])
            }
            Check::Length { min, max } => {
                fields.extend([Value::Int(6), path_value(path), length(min), length(max)])
            }
        },
        ConstraintKind::Closed { names } => {
            fields.extend([
                Value::Int(7),
                list(names.iter().cloned().map(Value::String).collect()),
            ]);
        }
    }
    Ok(key::encode(&list(fields))?)
}

fn constraint_from(definition: &[Value]) -> Option<Constraint> {
    let [name, label, ready, Value::Int(kind), rest @ ..] = definition else {
        return None;
    };
    let bound = |value: &Value| (!value.is_null()).then(|| value.clone());
    let length = |value: &Value| value.as_int().and_then(|length| u64::try_from(length).ok());
    let kind = match (kind, rest) {
        (1, [index]) => ConstraintKind::Unique {
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
        (4, [path, min, max]) => ConstraintKind::Check {
            path: path_from(path)?,
            check: Check::Range {
                min: bound(min),
                max: bound(max),
            },
        },
        (5, [path, Value::List(values)]) => ConstraintKind::Check {
            path: path_from(path)?,
            check: Check::OneOf(values.to_vec()),
        },
        (6, [path, min, max]) => ConstraintKind::Check {
            path: path_from(path)?,
            check: Check::Length {
                min: length(min),
                max: length(max),
            },
        },
        (7, [Value::List(names)]) => ConstraintKind::Closed {
            names: names.iter().map(string).collect::<Option<_>>()?,
        },
        _ => return None,
    };
    Some(Constraint {
        name: string(name)?,
        label: LabelId(number(label)?),
        kind,
        state: state(ready)?,
    })
}
