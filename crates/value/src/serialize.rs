//! Serde serialisation of values.
//!
//! To most formats, a value is plain data: dates, times and durations are ISO 8601 text, points maps, nodes and
//! relationships the maps of their properties, paths the lists of their nodes. A serialiser that makes values itself
//! gets the value unchanged: it calls [`capture`] for newtype structures with the name [`NAME`].

use std::{cell::Cell, sync::Arc};

use serde_core::{
    Serialize, Serializer,
    ser::{SerializeMap, SerializeSeq},
};

use crate::{Map, Node, Point, Value, temporal::to_text};

/// The name of the newtype structure around each serialised [`Value`] and [`Map`].
pub const NAME: &str = "$isomer::Value";

enum Capture {
    Off,
    Wanted,
    Done(Value),
}

thread_local! {
    static CAPTURE: Cell<Capture> = const { Cell::new(Capture::Off) };
}

/// Serialises the content of a newtype structure with the name [`NAME`] by `serialize`, which ignores what it gets, and
/// returns the value that was serialised.
pub fn capture<E>(serialize: impl FnOnce() -> Result<(), E>) -> Result<Option<Value>, E> {
    CAPTURE.set(Capture::Wanted);
    let outcome = serialize();
    let captured = CAPTURE.replace(Capture::Off);
    outcome?;
    Ok(match captured {
        Capture::Done(value) => Some(value),
        Capture::Off | Capture::Wanted => None,
    })
}

/// Hands `value` to the caller of [`capture`], if there is one.
fn captured(value: impl FnOnce() -> Value) -> bool {
    match CAPTURE.replace(Capture::Off) {
        Capture::Wanted => {
            CAPTURE.set(Capture::Done(value()));
            true
        }
        other => {
            CAPTURE.set(other);
            false
        }
    }
}

struct Content<'v, T>(&'v T);

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_newtype_struct(NAME, &Content(self))
    }
}

impl Serialize for Map {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_newtype_struct(NAME, &Content(self))
    }
}

impl Serialize for Content<'_, Map> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if captured(|| Value::Map(Arc::new(self.0.clone()))) {
            return serializer.serialize_unit();
        }
        map(self.0, serializer)
    }
}

impl Serialize for Content<'_, Value> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if captured(|| self.0.clone()) {
            return serializer.serialize_unit();
        }
        match self.0 {
            Value::Null => serializer.serialize_unit(),
            Value::Bool(truth) => serializer.serialize_bool(*truth),
            Value::Int(number) => serializer.serialize_i64(*number),
            Value::Float(number) => serializer.serialize_f64(*number),
            Value::String(text) => serializer.serialize_str(text),
            Value::Bytes(bytes) => serializer.serialize_bytes(bytes),
            Value::List(items) => serializer.collect_seq(items.iter()),
            Value::Map(entries) => map(entries, serializer),
            Value::Node(node) => {
                properties(node.content.as_ref().map(|own| &own.properties), serializer)
            }
            Value::Relationship(relationship) => {
                let content = relationship.content.as_ref();
                properties(content.map(|own| &own.properties), serializer)
            }
            Value::Path(path) => {
                let mut nodes = serializer.serialize_seq(Some(path.nodes.len()))?;
                for node in &path.nodes {
                    nodes.serialize_element(&Properties(node))?;
                }
                nodes.end()
            }
            Value::Point(point) => point_map(point, serializer),
            temporal => serializer.serialize_str(&to_text(temporal).unwrap_or_default()),
        }
    }
}

fn map<S: Serializer>(map: &Map, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(map.iter().map(|(name, value)| (&**name, value)))
}

struct Properties<'v>(&'v Node);

impl Serialize for Properties<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        properties(
            self.0.content.as_ref().map(|own| &own.properties),
            serializer,
        )
    }
}

fn properties<S: Serializer>(content: Option<&Map>, serializer: S) -> Result<S::Ok, S::Error> {
    match content {
        Some(content) => map(content, serializer),
        None => Err(serde_core::ser::Error::custom(
            "the properties were not read",
        )),
    }
}

fn point_map<S: Serializer>(point: &Point, serializer: S) -> Result<S::Ok, S::Error> {
    let has_z = point.crs.has_z();
    let mut map = serializer.serialize_map(Some(3 + usize::from(has_z)))?;
    map.serialize_entry("crs", point.crs.name())?;
    map.serialize_entry("x", &point.x)?;
    map.serialize_entry("y", &point.y)?;
    if has_z {
        map.serialize_entry("z", &point.z)?;
    }
    map.end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_formats_get_plain_data() {
        let date = Value::Date(jiff::civil::date(2026, 11, 19));
        let map: Map = [("at", date), ("n", Value::Int(1))].into_iter().collect();
        let text = serde_json::to_string(&Value::from(vec![Value::from(map), Value::Null]));
        assert_eq!(text.unwrap(), r#"[{"at":"2026-11-19","n":1},null]"#);
    }
}
