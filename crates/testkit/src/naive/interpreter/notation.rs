//! Values as the language writes them.

use isomer_cypher::{quote_name, quote_string};
use isomer_value::{Value, temporal};

/// The value as an expression of the language. Entities, which cannot be written, are shown by their numbers.
pub fn literal(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Float(value) if value.is_nan() => "(0.0 / 0.0)".into(),
        Value::Float(value) if value.is_infinite() => if *value > 0.0 {
            "(1.0 / 0.0)"
        } else {
            "(-1.0 / 0.0)"
        }
        .into(),
        Value::Float(value) => format!("{value:?}"),
        Value::String(value) => quote_string(value),
        Value::List(items) => {
            let items: Vec<String> = items.iter().map(literal).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Map(map) => {
            let entries = map
                .iter()
                .map(|(name, value)| format!("{}: {}", quote_name(name), literal(value)));
            format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
        }
        Value::Date(_) => call("date", value),
        Value::Duration(_) => call("duration", value),
        Value::LocalTime(_) => call("localtime", value),
        Value::LocalDateTime(_) => call("localdatetime", value),
        Value::ZonedTime(_) => call("time", value),
        Value::ZonedDateTime(_) => call("datetime", value),
        Value::Node(node) => format!("node {}", node.id.0),
        Value::Relationship(relationship) => format!("relationship {}", relationship.id.0),
        other => format!("{other:?}"),
    }
}

fn call(function: &str, value: &Value) -> String {
    let text = temporal::to_text(value).unwrap_or_default();
    format!("{function}({})", quote_string(&text))
}
