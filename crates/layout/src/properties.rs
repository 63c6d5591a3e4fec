//! Maps of properties: reading and setting values at paths, merging, formatting for messages.

use std::sync::Arc;

use isomer_value::{Map, Value, limits::MAX_NESTING};

use crate::{DataError, catalog::schema::FieldPath};

/// The value at a path; nothing if a step is missing, null or not a map.
pub fn at_path<'a>(properties: &'a Map, path: &FieldPath) -> Option<&'a Value> {
    let (first, rest) = path.0.split_first()?;
    let mut value = properties.get(first)?;
    for name in rest {
        let Value::Map(map) = value else { return None };
        value = map.get(name)?;
    }
    (!value.is_null()).then_some(value)
}

/// Sets the value at a path; `Null` removes it. Enclosing maps are created where absent, unless the value is null.
pub fn set_path(properties: &mut Map, path: &[&str], value: Value) -> Result<(), DataError> {
    if path.len() > MAX_NESTING {
        return Err(DataError::Limit {
            what: "the path of a property".into(),
            size: format!("{} names", path.len()),
            max: format!("{MAX_NESTING} names"),
            advice: "flatten the record",
        });
    }
    let Some((last, way)) = path.split_last() else {
        return Err(DataError::invalid(
            "the path of a property is empty: name a property",
        ));
    };
    let mut map = properties;
    for (depth, name) in way.iter().enumerate() {
        if matches!(map.get(name), None | Some(Value::Null)) {
            if value.is_null() {
                return Ok(());
            }
            map.insert(*name, Value::Map(Arc::default()));
        }
        map = match map.get_mut(name) {
            Some(Value::Map(nested)) => Arc::make_mut(nested),
            other => {
                let found = other.map_or("NULL", |value| value.type_name());
                let path = path[..=depth].join(".");
                return Err(DataError::invalid(format!(
                    "{path} is a {found}, not a map: set it as a whole, or remove it first"
                )));
            }
        };
    }
    if value.is_null() {
        map.remove(last);
    } else {
        map.insert(*last, value);
    }
    Ok(())
}

/// Merges `patch` into `properties`, nested maps too; nulls remove.
pub fn merge_deep(properties: &mut Map, patch: &Map) -> Result<(), DataError> {
    merge_at(properties, patch, MAX_NESTING)
}

fn merge_at(properties: &mut Map, patch: &Map, depth_left: usize) -> Result<(), DataError> {
    let depth_left = depth_left
        .checked_sub(1)
        .ok_or(isomer_value::ValueError::TooDeep { max: MAX_NESTING })?;
    for (name, value) in patch.iter() {
        match value {
            Value::Null => {
                properties.remove(name);
            }
            Value::Map(nested) => {
                if !matches!(properties.get(name), Some(Value::Map(_))) {
                    properties.insert(name.clone(), Value::Map(Arc::default()));
                }
                if let Some(Value::Map(own)) = properties.get_mut(name) {
                    merge_at(Arc::make_mut(own), nested, depth_left)?;
                }
            }
            _ => {
                properties.insert(name.clone(), value.clone());
            }
        }
    }
    Ok(())
}

/// Top-level nulls mean absence.
pub fn without_nulls(properties: &Map) -> Map {
    if properties.values().any(Value::is_null) {
        properties
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    } else {
        properties.clone()
    }
}

/// Sets the properties in `changes`, and removes those that are null in it.
pub fn merge_top(properties: &mut Map, changes: &Map) {
    for (name, value) in changes.iter() {
        if value.is_null() {
            properties.remove(name);
        } else {
            properties.insert(name.clone(), value.clone());
        }
    }
}

/// A value in a message: short, whatever its size.
pub fn brief(value: &Value) -> String {
    const MAX_CHARS: usize = 60;
    match value {
        Value::Null => "null".into(),
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Float(value) => value.to_string(),
        Value::String(text) if text.chars().nth(MAX_CHARS).is_some() => {
            format!("\"{}…\"", text.chars().take(MAX_CHARS).collect::<String>())
        }
        Value::String(text) => format!("\"{text}\""),
        Value::List(items) => format!("a list of {} elements", items.len()),
        Value::Map(map) => format!("a map of {} entries", map.len()),
        other => format!("a {}", other.type_name()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(entries: &[(&str, Value)]) -> Map {
        entries
            .iter()
            .map(|(name, value)| (*name, value.clone()))
            .collect()
    }

    #[test]
    fn paths_make_the_maps_on_their_way() {
        let mut properties = Map::new();
        set_path(&mut properties, &["a", "b", "c"], Value::Int(1)).unwrap();
        assert_eq!(
            at_path(&properties, &FieldPath::new(["a", "b", "c"])),
            Some(&Value::Int(1))
        );
        set_path(&mut properties, &["a", "x", "y"], Value::Null).unwrap();
        assert_eq!(at_path(&properties, &FieldPath::new(["a", "x"])), None);
        set_path(&mut properties, &["a", "b", "c"], Value::Null).unwrap();
        assert_eq!(at_path(&properties, &FieldPath::new(["a", "b", "c"])), None);
        let refused = set_path(&mut properties, &["a", "b", "c", "d"], Value::Int(1));
        assert!(refused.is_ok());
        let refused =
            set_path(&mut properties, &["a", "b", "c", "d", "e"], Value::Int(1)).unwrap_err();
        assert!(
            refused
                .to_string()
                .starts_with("a.b.c.d is a INTEGER, not a map"),
            "{refused}"
        );
    }

    #[test]
    fn a_patch_merges_and_removes() {
        let mut own = map(&[
            ("keep", Value::Int(1)),
            ("gone", Value::Int(2)),
            ("map", Value::Map(Arc::new(map(&[("x", Value::Int(1))])))),
        ]);
        let nested = map(&[("y", Value::Int(2)), ("x", Value::Null)]);
        merge_deep(
            &mut own,
            &map(&[("gone", Value::Null), ("map", Value::Map(Arc::new(nested)))]),
        )
        .unwrap();
        let expected = map(&[
            ("keep", Value::Int(1)),
            ("map", Value::Map(Arc::new(map(&[("y", Value::Int(2))])))),
        ]);
        assert_eq!(own, expected);
    }
}
