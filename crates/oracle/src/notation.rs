//! Values in the syntax of the language.

use crate::temporal::show;
use crate::{Datum, Map};

/// The value as an expression of the language. Values without literals (entities, bytes, points) are described.
pub fn literal(value: &Datum) -> String {
    let call = |function: &str| {
        let text = show(value).unwrap_or_default();
        format!("{function}({})", quoted(&text))
    };
    match value {
        Datum::Null => "null".into(),
        Datum::Bool(value) => value.to_string(),
        Datum::Int(value) => value.to_string(),
        Datum::Float(value) if value.is_nan() => "(0.0 / 0.0)".into(),
        Datum::Float(value) if value.is_infinite() && *value > 0.0 => "(1.0 / 0.0)".into(),
        Datum::Float(value) if value.is_infinite() => "(-1.0 / 0.0)".into(),
        Datum::Float(value) => format!("{value:?}"),
        Datum::Text(value) => quoted(value),
        Datum::List(items) => {
            let items: Vec<String> = items.iter().map(literal).collect();
            format!("[{}]", items.join(", "))
        }
        Datum::Map(map) => map_literal(map),
        Datum::Date(_) => call("date"),
        Datum::Duration(_) => call("duration"),
        Datum::LocalTime(_) => call("localtime"),
        Datum::LocalDateTime(..) => call("localdatetime"),
        Datum::Time(..) => call("time"),
        Datum::DateTime(_) => call("datetime"),
        Datum::Node(node) => format!("node {}", node.id),
        Datum::Relationship(relationship) => format!("relationship {}", relationship.id),
        Datum::Path(path) => {
            let nodes: Vec<String> = path.nodes.iter().map(|node| node.id.to_string()).collect();
            format!("path over nodes {}", nodes.join(", "))
        }
        Datum::Bytes(bytes) => format!("bytes {bytes:?}"),
        Datum::Point(point) => format!("point {:?} of system {}", point.coordinates, point.system),
    }
}

/// A map as an expression.
pub fn map_literal(map: &Map) -> String {
    let entries: Vec<String> = map
        .iter()
        .map(|(name, value)| format!("{}: {}", named(name), literal(value)))
        .collect();
    format!("{{{}}}", entries.join(", "))
}

/// A name, in backquotes unless it is made of letters, digits and underscores.
fn named(name: &str) -> String {
    let starts = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    let is_plain = starts
        && name
            .chars()
            .all(|one| one.is_ascii_alphanumeric() || one == '_');
    match is_plain {
        true => name.to_owned(),
        false => format!("`{}`", name.replace('`', "``")),
    }
}

/// Text in single quotes; whatever is not printable ASCII, and no letter, by its code point.
fn quoted(text: &str) -> String {
    let mut out = String::from("'");
    for one in text.chars() {
        match one {
            '\'' | '\\' => out.extend(['\\', one]),
            one if one.is_control() => out += &format!("\\u{:04X}", u32::from(one)),
            one => out.push(one),
        }
    }
    out + "'"
}
