//! Functions, by what openCypher says of them.

use isomer_value::jiff::Timestamp;
use isomer_value::{Node, NodeId, Value, temporal};

use super::logic::equal;
use super::notation::literal;
use super::{Fault, Interpreter, Result, raised};

pub(super) fn call(world: &Interpreter<'_>, name: &str, arguments: &[Value]) -> Result<Value> {
    // These see null; the others are null where an argument is.
    match (name, arguments) {
        ("nullif", [a, b]) => {
            return Ok(match equal(a, b) {
                Some(true) => Value::Null,
                _ => a.clone(),
            });
        }
        ("exists", [value]) => return Ok(Value::Bool(!value.is_null())),
        ("tointegerornull", [value]) => return Ok(to_integer(value).unwrap_or_default()),
        ("tofloatornull", [value]) => return Ok(to_float(value).unwrap_or_default()),
        ("tobooleanornull", [value]) => return Ok(to_boolean(value).unwrap_or_default()),
        ("tostringornull", [value]) => return Ok(to_string(value).unwrap_or_default()),
        ("pi", []) => return Ok(Value::Float(std::f64::consts::PI)),
        ("e", []) => return Ok(Value::Float(std::f64::consts::E)),
        _ => {}
    }
    if arguments.iter().any(Value::is_null) {
        return Ok(Value::Null);
    }
    match (name, arguments) {
        ("size", [Value::List(items)]) => Ok(Value::Int(items.len() as i64)),
        ("size", [Value::Map(map)]) => Ok(Value::Int(map.len() as i64)),
        ("size" | "char_length", [Value::String(text)]) => {
            Ok(Value::Int(text.chars().count() as i64))
        }
        ("length", [Value::Path(path)]) => Ok(Value::Int(path.relationships.len() as i64)),
        ("isempty", [Value::List(items)]) => Ok(Value::Bool(items.is_empty())),
        ("isempty", [Value::Map(map)]) => Ok(Value::Bool(map.is_empty())),
        ("isempty", [Value::String(text)]) => Ok(Value::Bool(text.is_empty())),
        ("head", [Value::List(items)]) => Ok(items.first().cloned().unwrap_or_default()),
        ("last", [Value::List(items)]) => Ok(items.last().cloned().unwrap_or_default()),
        ("tail", [Value::List(items)]) => Ok(items.iter().skip(1).cloned().collect()),
        ("reverse", [Value::List(items)]) => Ok(items.iter().rev().cloned().collect()),
        ("reverse", [Value::String(text)]) => Ok(text.chars().rev().collect::<String>().into()),
        ("range", [Value::Int(from), Value::Int(to)]) => range(*from, *to, 1),
        ("range", [Value::Int(from), Value::Int(to), Value::Int(step)]) => range(*from, *to, *step),
        ("tointeger", [value]) => to_integer(value),
        ("tofloat", [value]) => to_float(value),
        ("toboolean", [value]) => to_boolean(value),
        ("tostring", [value]) => to_string(value),
        ("abs", [Value::Int(value)]) => match value.checked_abs() {
            Some(value) => Ok(Value::Int(value)),
            None => raised("overflow"),
        },
        ("abs", [Value::Float(value)]) => Ok(Value::Float(value.abs())),
        ("sign", [Value::Int(value)]) => Ok(Value::Int(value.signum())),
        ("sign", [Value::Float(value)]) if value.is_nan() => Ok(Value::Null),
        ("sign", [Value::Float(value)]) if *value == 0.0 => Ok(Value::Int(0)),
        ("sign", [Value::Float(value)]) => Ok(Value::Int(value.signum() as i64)),
        ("ceil", [value]) => float(value, f64::ceil),
        ("floor", [value]) => float(value, f64::floor),
        ("round", [value]) => float(value, |x| {
            if x - x.floor() >= 0.5 {
                x.floor() + 1.0
            } else {
                x.floor()
            }
        }),
        ("sqrt", [value]) => float(value, f64::sqrt),
        ("isnan", [Value::Int(_)]) => Ok(Value::Bool(false)),
        ("isnan", [Value::Float(value)]) => Ok(Value::Bool(value.is_nan())),
        ("toupper" | "upper", [Value::String(text)]) => Ok(text.to_uppercase().into()),
        ("tolower" | "lower", [Value::String(text)]) => Ok(text.to_lowercase().into()),
        ("trim", [Value::String(text)]) => Ok(text.trim().into()),
        ("ltrim", [Value::String(text)]) => Ok(text.trim_start().into()),
        ("rtrim", [Value::String(text)]) => Ok(text.trim_end().into()),
        ("left", [Value::String(text), Value::Int(count)]) => Ok(text
            .chars()
            .take(count_of(*count)?)
            .collect::<String>()
            .into()),
        ("right", [Value::String(text), Value::Int(count)]) => {
            let left_out = text.chars().count().saturating_sub(count_of(*count)?);
            Ok(text.chars().skip(left_out).collect::<String>().into())
        }
        ("substring", [Value::String(text), Value::Int(from)]) => Ok(text
            .chars()
            .skip(count_of(*from)?)
            .collect::<String>()
            .into()),
        ("substring", [Value::String(text), Value::Int(from), Value::Int(count)]) => {
            let rest = text.chars().skip(count_of(*from)?);
            Ok(rest.take(count_of(*count)?).collect::<String>().into())
        }
        (
            "replace",
            [
                Value::String(text),
                Value::String(search),
                Value::String(by),
            ],
        ) => Ok(text.replace(&**search, by).into()),
        ("split", [Value::String(text), Value::String(by)]) if !by.is_empty() => {
            Ok(text.split(&**by).map(Value::from).collect())
        }
        ("nodes", [Value::Path(path)]) => Ok(path.nodes.iter().cloned().map(Value::from).collect()),
        ("relationships", [Value::Path(path)]) => Ok(path
            .relationships
            .iter()
            .cloned()
            .map(Value::from)
            .collect()),
        ("startnode", [Value::Relationship(one)]) => Ok(Node::new(one.source).into()),
        ("endnode", [Value::Relationship(one)]) => Ok(Node::new(one.target).into()),
        ("labels", [Value::Node(node)]) => match world.graph.borrow().nodes.get(&node.id.0) {
            Some(node) => Ok(node
                .labels
                .iter()
                .map(|label| Value::from(label.as_str()))
                .collect()),
            None => raised("the node was deleted"),
        },
        ("type", [Value::Relationship(one)]) => {
            let graph = world.graph.borrow();
            let deleted = world.types_of_deleted.borrow();
            let held = graph.relationships.get(&one.id.0).map(|one| &one.name);
            match held.or_else(|| deleted.get(&one.id.0)) {
                Some(name) => Ok(name.as_str().into()),
                None => raised("there is no such relationship"),
            }
        }
        ("keys", [value]) => {
            let properties = world.properties(value)?;
            Ok(properties
                .names()
                .map(|name| Value::String(name.clone()))
                .collect())
        }
        ("properties", [value]) => Ok(world.properties(value)?.into()),
        ("degree", [Value::Node(node)]) => Ok(Value::Int(degree(world, node.id))),
        ("date" | "duration", [text @ Value::String(_)]) => temporal_value(name, text),
        ("date", [Value::Date(_)]) => Ok(arguments[0].clone()),
        _ if is_known(name) => {
            let shown: Vec<String> = arguments.iter().map(literal).collect();
            raised(format!("{name}({})", shown.join(", ")))
        }
        _ => Err(Fault::Unknown(format!("the function {name}"))),
    }
}

/// Functions of which every call that is not among the above is an error.
fn is_known(name: &str) -> bool {
    [
        "size",
        "char_length",
        "length",
        "isempty",
        "head",
        "last",
        "tail",
        "reverse",
        "range",
        "abs",
        "sign",
        "ceil",
        "floor",
        "round",
        "sqrt",
        "isnan",
        "toupper",
        "upper",
        "tolower",
        "lower",
        "trim",
        "ltrim",
        "rtrim",
        "left",
        "right",
        "substring",
        "replace",
        "nodes",
        "relationships",
        "startnode",
        "endnode",
        "labels",
        "type",
        "degree",
    ]
    .contains(&name)
}

fn temporal_value(name: &str, text: &Value) -> Result<Value> {
    let Some(function) = temporal::function(name) else {
        return Err(Fault::Unknown(name.into()));
    };
    let now = temporal::Now::utc(Timestamp::UNIX_EPOCH);
    match function.call(std::slice::from_ref(text), &now) {
        Ok(value) => Ok(value),
        Err(error) => raised(error.to_string()),
    }
}

fn degree(world: &Interpreter<'_>, node: NodeId) -> i64 {
    let graph = world.graph.borrow();
    let ends = graph
        .relationships
        .values()
        .flat_map(|one| [one.source, one.target]);
    ends.filter(|end| *end == node.0).count() as i64
}

fn count_of(number: i64) -> Result<usize> {
    match usize::try_from(number) {
        Ok(count) => Ok(count),
        Err(_) => raised(format!("{number} is no length")),
    }
}

fn range(from: i64, to: i64, step: i64) -> Result<Value> {
    if step == 0 {
        return raised("a range with the step 0");
    }
    let mut numbers = Vec::new();
    let mut at = i128::from(from);
    while if step > 0 {
        at <= i128::from(to)
    } else {
        at >= i128::from(to)
    } {
        if numbers.len() > 10_000 {
            return Err(Fault::TooLarge);
        }
        numbers.push(Value::Int(at as i64));
        at += i128::from(step);
    }
    Ok(numbers.into())
}

fn float(value: &Value, body: fn(f64) -> f64) -> Result<Value> {
    match value.to_f64() {
        Some(number) => Ok(Value::Float(body(number))),
        None => raised(format!("{} is no number", literal(value))),
    }
}

fn whole(number: f64) -> Option<i64> {
    let fits = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&number);
    fits.then_some(number.trunc() as i64)
}

fn parsed(text: &str) -> Option<f64> {
    let is_number = |c: char| c.is_ascii_digit() || "+-.eE".contains(c);
    match text.trim() {
        "NaN" => Some(f64::NAN),
        "Infinity" | "+Infinity" => Some(f64::INFINITY),
        "-Infinity" => Some(f64::NEG_INFINITY),
        text if text.chars().all(is_number) => text.parse().ok(),
        _ => None,
    }
}

fn to_integer(value: &Value) -> Result<Value> {
    match value {
        Value::Null | Value::Int(_) => Ok(value.clone()),
        Value::Bool(truth) => Ok(Value::Int(i64::from(*truth))),
        Value::Float(number) => match whole(*number) {
            Some(number) => Ok(Value::Int(number)),
            None => raised(format!("{number} is out of range")),
        },
        Value::String(text) => Ok(match text.trim().parse::<i64>() {
            Ok(number) => Value::Int(number),
            Err(_) => parsed(text).and_then(whole).into(),
        }),
        other => raised(format!("{} is no number", literal(other))),
    }
}

fn to_float(value: &Value) -> Result<Value> {
    match value {
        Value::Null | Value::Float(_) => Ok(value.clone()),
        Value::Int(number) => Ok(Value::Float(*number as f64)),
        Value::String(text) => Ok(parsed(text).into()),
        other => raised(format!("{} is no number", literal(other))),
    }
}

fn to_boolean(value: &Value) -> Result<Value> {
    match value {
        Value::Null | Value::Bool(_) => Ok(value.clone()),
        Value::Int(number) => Ok(Value::Bool(*number != 0)),
        Value::String(text) => Ok(match text.trim().to_lowercase().as_str() {
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            _ => Value::Null,
        }),
        other => raised(format!("{} is no truth value", literal(other))),
    }
}

fn to_string(value: &Value) -> Result<Value> {
    match value {
        Value::Null | Value::String(_) => Ok(value.clone()),
        Value::Bool(_) | Value::Int(_) | Value::Float(_) => {
            super::expression::arithmetic(isomer_cypher::ast::BinaryOp::Add, &"".into(), value)
        }
        other => match temporal::to_text(other) {
            Some(text) => Ok(text.into()),
            None => raised(format!("{} has no text", literal(other))),
        },
    }
}
