//! Values to JSON text.

use base64::{Engine, prelude::BASE64_STANDARD};

use crate::{
    Crs, Map, Node, Path, Point, Relationship, Value, ValueError, limits::MAX_NESTING, temporal,
};

/// Maximum nesting of written text: that of a stored document, and as much again for the query around it.
const MAX_WRITTEN: usize = 2 * MAX_NESTING;

/// The JSON text of a value, in the forms that the [module](super) lists.
///
/// # Errors
/// `TooDeep` for nesting over twice [`MAX_NESTING`].
pub fn to_string(value: &Value) -> Result<String, ValueError> {
    let mut out = String::new();
    write(value, &mut out)?;
    Ok(out)
}

/// Appends the JSON text of a value. On an error `out` is as before.
///
/// # Errors
/// Like [`to_string`].
pub fn write(value: &Value, out: &mut String) -> Result<(), ValueError> {
    let start = out.len();
    put(value, out, MAX_WRITTEN).inspect_err(|_| out.truncate(start))
}

fn put(value: &Value, out: &mut String, depth_left: usize) -> Result<(), ValueError> {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Int(int) => put_int(*int, out),
        Value::Float(float) => put_float(*float, out),
        Value::String(text) => put_string(text, out),
        Value::Bytes(bytes) => {
            out.push_str("{\"$bytes\":\"");
            BASE64_STANDARD.encode_string(bytes, out);
            out.push_str("\"}");
        }
        Value::List(items) => {
            let depth_left = deeper(depth_left)?;
            put_separated(out, '[', ']', items.iter(), |item, out| {
                put(item, out, depth_left)
            })?;
        }
        Value::Map(map) => put_map(map, out, depth_left)?,
        Value::Node(node) => put_node(node, out)?,
        Value::Relationship(relationship) => put_relationship(relationship, out)?,
        Value::Path(path) => put_path(path, out)?,
        Value::Point(point) => put_point(point, out),
        Value::Date(_)
        | Value::LocalTime(_)
        | Value::ZonedTime(_)
        | Value::LocalDateTime(_)
        | Value::ZonedDateTime(_)
        | Value::Duration(_) => put_string(&temporal::to_text(value).unwrap_or_default(), out),
    }
    Ok(())
}

fn deeper(depth_left: usize) -> Result<usize, ValueError> {
    depth_left
        .checked_sub(1)
        .ok_or(ValueError::TooDeep { max: MAX_WRITTEN })
}

fn put_separated<T>(
    out: &mut String,
    open: char,
    close: char,
    items: impl Iterator<Item = T>,
    mut each: impl FnMut(T, &mut String) -> Result<(), ValueError>,
) -> Result<(), ValueError> {
    out.push(open);
    for (index, item) in items.enumerate() {
        if index > 0 {
            out.push(',');
        }
        each(item, out)?;
    }
    out.push(close);
    Ok(())
}

fn put_map(map: &Map, out: &mut String, depth_left: usize) -> Result<(), ValueError> {
    let depth_left = deeper(depth_left)?;
    put_separated(out, '{', '}', map.iter(), |(name, value), out| {
        put_string(name, out);
        out.push(':');
        put(value, out, depth_left)
    })
}

/// The content of an entity is a stored value, so its depth is counted separately.
fn put_node(node: &Node, out: &mut String) -> Result<(), ValueError> {
    out.push_str("{\"$node\":");
    out.push_str(&node.id.to_string());
    if let Some(content) = &node.content {
        out.push_str(",\"labels\":");
        put_separated(out, '[', ']', content.labels.iter(), |label, out| {
            put_string(label, out);
            Ok(())
        })?;
        out.push_str(",\"properties\":");
        put_map(&content.properties, out, MAX_NESTING)?;
    }
    out.push('}');
    Ok(())
}

fn put_relationship(relationship: &Relationship, out: &mut String) -> Result<(), ValueError> {
    out.push_str("{\"$relationship\":");
    out.push_str(&relationship.id.to_string());
    if let Some(content) = &relationship.content {
        out.push_str(",\"type\":");
        put_string(&content.type_name, out);
    }
    out.push_str(&format!(
        ",\"source\":{},\"target\":{}",
        relationship.source, relationship.target
    ));
    if let Some(content) = &relationship.content {
        out.push_str(",\"properties\":");
        put_map(&content.properties, out, MAX_NESTING)?;
    }
    out.push('}');
    Ok(())
}

fn put_path(path: &Path, out: &mut String) -> Result<(), ValueError> {
    out.push_str("{\"$path\":[");
    for (index, node) in path.nodes.iter().enumerate() {
        if let Some(before) = index
            .checked_sub(1)
            .and_then(|step| path.relationships.get(step))
        {
            out.push(',');
            put_relationship(before, out)?;
            out.push(',');
        }
        put_node(node, out)?;
    }
    out.push_str("]}");
    Ok(())
}

fn put_point(point: &Point, out: &mut String) {
    let Point { crs, x, y, z } = point;
    out.push_str("{\"crs\":");
    put_string(Crs::name(*crs), out);
    let coordinates = [("x", x), ("y", y), ("z", z)];
    for (name, value) in &coordinates[..if crs.has_z() { 3 } else { 2 }] {
        out.push_str(&format!(",\"{name}\":"));
        put_float(**value, out);
    }
    out.push('}');
}

fn put_int(int: i64, out: &mut String) {
    use std::fmt::Write;
    let _ = write!(out, "{int}"); // writing to a String cannot fail
}

fn put_float(float: f64, out: &mut String) {
    use std::fmt::Write;
    match float {
        float if float.is_nan() => out.push_str("\"NaN\""),
        f64::INFINITY => out.push_str("\"Infinity\""),
        f64::NEG_INFINITY => out.push_str("\"-Infinity\""),
        // `Debug` writes the shortest text that reads back as the same float, with a point or an exponent.
        float => {
            let _ = write!(out, "{float:?}"); // writing to a String cannot fail
        }
    }
}

fn put_string(text: &str, out: &mut String) {
    out.push('"');
    let mut run = 0;
    for (at, byte) in text.bytes().enumerate() {
        let short = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            0..b' ' => "",
            _ => continue,
        };
        out.push_str(&text[run..at]);
        run = at + 1;
        if short.is_empty() {
            out.push_str(&format!("\\u{byte:04x}"));
        } else {
            out.push_str(short);
        }
    }
    out.push_str(&text[run..]);
    out.push('"');
}
