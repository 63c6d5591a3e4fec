//! Typed JSON of Neo4j's Query API (`application/vnd.neo4j.query`): each value says its type, so that a client gets
//! back what it stored.
//!
//! A value is `{"$type": …, "_value": …}`:
//!
//! | `$type` | `_value` |
//! |---|---|
//! | `Null` | `null` |
//! | `Boolean` | `true`, `false` |
//! | `Integer`, `Float` | text: `"1"`, `"1.5"`, `"NaN"`, `"Infinity"` |
//! | `String` | text |
//! | `Base64` | bytes |
//! | `List`, `Map` | typed values |
//! | `Date`, `Time`, `LocalTime`, `LocalDateTime`, `OffsetDateTime`, `ZonedDateTime`, `Duration` | text (ISO 8601) |
//! | `Point` | `"SRID=4326;POINT (1.0 2.0)"` |
//! | `Node` | `{"_element_id", "_labels", "_properties"}` |
//! | `Relationship` | `{"_element_id", "_start_node_element_id", "_end_node_element_id", "_type", "_properties"}` |
//! | `Path` | its nodes and relationships in turn |
//!
//! Parameters have the same form, except that there are no nodes, relationships and paths.

use std::sync::Arc;

use isomer_db::{Crs, Map, Point, Value, params};
use isomer_value::{DatabaseId, Node, Relationship, ZonedDateTime, temporal};

use super::{
    base64,
    query_api::{json_float, node_id, relationship_id, well_known_text},
};
use crate::{Result, ServerError};

/// The media type, and those of its versions begin with it.
pub(super) const TYPED_JSON: &str = "application/vnd.neo4j.query";

/// A value with its type. Values are nested at most as deep as the language allows, so this may recurse.
pub(super) fn typed(value: &Value, database: DatabaseId) -> Value {
    let (name, content): (&str, Value) = match value {
        Value::Null => ("Null", Value::Null),
        Value::Bool(_) => ("Boolean", value.clone()),
        Value::Int(number) => ("Integer", number.to_string().into()),
        Value::Float(number) => ("Float", float_text(*number).into()),
        Value::String(_) => ("String", value.clone()),
        Value::Bytes(bytes) => ("Base64", base64::encode_padded(bytes).into()),
        Value::List(items) => {
            let items = items.iter().map(|item| typed(item, database));
            ("List", items.collect())
        }
        Value::Map(map) => ("Map", typed_map(map, database)),
        Value::Point(point) => ("Point", well_known_text(point).into()),
        Value::Node(node) => ("Node", typed_node(node, database)),
        Value::Relationship(one) => ("Relationship", typed_relationship(one, database)),
        Value::Path(path) => {
            let mut parts = Vec::with_capacity(2 * path.nodes.len());
            for (at, node) in path.nodes.iter().enumerate() {
                parts.push(typed(&Value::Node(Arc::new(node.clone())), database));
                if let Some(one) = path.relationships.get(at) {
                    let one = Value::Relationship(Arc::new(one.clone()));
                    parts.push(typed(&one, database));
                }
            }
            ("Path", parts.into())
        }
        other => (
            temporal_name(other),
            temporal::to_text(other).unwrap_or_default().into(),
        ),
    };
    params! { "$type" => name, "_value" => content }.into()
}

fn temporal_name(value: &Value) -> &'static str {
    match value {
        Value::Date(_) => "Date",
        Value::LocalTime(_) => "LocalTime",
        Value::ZonedTime(_) => "Time",
        Value::LocalDateTime(_) => "LocalDateTime",
        Value::ZonedDateTime(zoned) if zoned.zone_name().is_some() => "ZonedDateTime",
        Value::ZonedDateTime(_) => "OffsetDateTime",
        _ => "Duration",
    }
}

fn float_text(number: f64) -> String {
    match number.is_finite() {
        true => format!("{number:?}"),
        false => json_float(number).to_owned(),
    }
}

fn typed_map(map: &Map, database: DatabaseId) -> Value {
    let entries = map.iter();
    let typed = entries.map(|(name, value)| (name.clone(), typed(value, database)));
    Map::from_iter(typed).into()
}

fn typed_node(node: &Node, database: DatabaseId) -> Value {
    let content = node.content.clone().unwrap_or_default();
    let labels: Value = content.labels.iter().cloned().map(Value::String).collect();
    params! {
        "_element_id" => node_id(node.id, database),
        "_labels" => labels,
        "_properties" => typed_map(&content.properties, database),
    }
    .into()
}

fn typed_relationship(relationship: &Relationship, database: DatabaseId) -> Value {
    let content = relationship.content.clone().unwrap_or_default();
    params! {
        "_element_id" => relationship_id(relationship.id, database),
        "_start_node_element_id" => node_id(relationship.source, database),
        "_end_node_element_id" => node_id(relationship.target, database),
        "_type" => Value::String(content.type_name.clone()),
        "_properties" => typed_map(&content.properties, database),
    }
    .into()
}

/// Parameters of a request: typed values by name.
pub(super) fn parameters(typed: Map) -> Result<Map> {
    let entries = typed.iter();
    entries
        .map(|(name, value)| Ok((name.clone(), untyped(name, value)?)))
        .collect()
}

/// The value of the form `{"$type": …, "_value": …}`. Bodies are nested at most as deep as the language allows.
fn untyped(name: &str, given: &Value) -> Result<Value> {
    let wrong = |why: &str| {
        Err(ServerError::Invalid(format!(
            "parameter `{name}`: {why}: send {{\"$type\": \"Integer\", \"_value\": \"1\"}} and the like"
        )))
    };
    let Some(map) = given.as_map() else {
        return wrong("a typed value is an object");
    };
    let (Some(Value::String(kind)), Some(content)) = (map.get("$type"), map.get("_value")) else {
        return wrong("a typed value has `$type` and `_value`");
    };
    let parsed = match (&**kind, content) {
        ("Null", Value::Null) => Some(Value::Null),
        ("Boolean", Value::Bool(_)) | ("String", Value::String(_)) => Some(content.clone()),
        ("List", Value::List(items)) => {
            let items = items.iter().map(|item| untyped(name, item));
            return items.collect::<Result<Vec<Value>>>().map(Value::from);
        }
        ("Map", Value::Map(map)) => {
            let entries = map.iter();
            let entries = entries.map(|(key, value)| Ok((key.clone(), untyped(name, value)?)));
            return entries.collect::<Result<Map>>().map(Value::from);
        }
        (kind, Value::String(text)) => of_text(kind, text),
        _ => None,
    };
    match parsed {
        Some(value) => Ok(value),
        None => wrong(&format!(
            "`{kind}` does not have such a `_value`, or cannot be a parameter"
        )),
    }
}

fn of_text(kind: &str, text: &str) -> Option<Value> {
    Some(match kind {
        "Integer" => Value::Int(text.parse().ok()?),
        "Float" => Value::Float(text.parse().ok()?),
        "Base64" => Value::from(base64::decode(text)?),
        "Date" => temporal::date_of_text(text).ok()?.into(),
        "Time" => temporal::zoned_time_of_text(text).ok()?.into(),
        "LocalTime" => temporal::local_time_of_text(text).ok()?.into(),
        "LocalDateTime" => temporal::local_date_time_of_text(text).ok()?.into(),
        "OffsetDateTime" | "ZonedDateTime" => text.parse::<ZonedDateTime>().ok()?.into(),
        "Duration" => temporal::duration_of_text(text).ok()?.into(),
        "Point" => point(text)?.into(),
        _ => return None,
    })
}

/// A point of the form `SRID=4326;POINT (x y)` or `SRID=4979;POINT Z (x y z)`.
fn point(text: &str) -> Option<Point> {
    let (srid, rest) = text.strip_prefix("SRID=")?.split_once(';')?;
    let srid: i64 = srid.trim().parse().ok()?;
    let crs = [
        Crs::Cartesian,
        Crs::Cartesian3d,
        Crs::Wgs84,
        Crs::Wgs84Height,
    ];
    let crs = crs.into_iter().find(|crs| crs.srid() == srid)?;
    let rest = rest.trim().strip_prefix("POINT")?.trim_start();
    let rest = rest.strip_prefix('Z').unwrap_or(rest).trim();
    let inside = rest.strip_prefix('(')?.strip_suffix(')')?;
    let numbers: Option<Vec<f64>> = inside
        .split_whitespace()
        .map(|number| number.parse().ok())
        .collect();
    let is_flat = matches!(crs, Crs::Cartesian | Crs::Wgs84);
    match (numbers?.as_slice(), is_flat) {
        ([x, y], true) => Some(Point {
            crs,
            x: *x,
            y: *y,
            z: 0.0,
        }),
        ([x, y, z], false) => Some(Point {
            crs,
            x: *x,
            y: *y,
            z: *z,
        }),
        _ => None,
    }
}
