//! Functions, as openCypher defines them.

use super::Interpreter;
use crate::fault::{Fault, Result, raised};
use crate::logic::equal;
use crate::notation::literal;
use crate::{Datum, temporal};

pub(super) fn call(world: &Interpreter<'_>, name: &str, arguments: &[Datum]) -> Result<Datum> {
    // These accept null; the others return null for a null argument.
    match (name, arguments) {
        ("nullif", [a, b]) => {
            return Ok(match equal(a, b) {
                Some(true) => Datum::Null,
                _ => a.clone(),
            });
        }
        ("exists", [value]) => return Ok(Datum::Bool(!value.is_null())),
        ("tointegerornull", [value]) => return Ok(to_integer(value).unwrap_or_default()),
        ("tofloatornull", [value]) => return Ok(to_float(value).unwrap_or_default()),
        ("tobooleanornull", [value]) => return Ok(to_boolean(value).unwrap_or_default()),
        ("tostringornull", [value]) => return Ok(to_string(value).unwrap_or_default()),
        ("pi", []) => return Ok(Datum::Float(std::f64::consts::PI)),
        ("e", []) => return Ok(Datum::Float(std::f64::consts::E)),
        _ => {}
    }
    if arguments.iter().any(Datum::is_null) {
        return Ok(Datum::Null);
    }
    let of_kind = of_value(name, arguments)
        .or_else(|| of_text(name, arguments))
        .or_else(|| of_graph(world, name, arguments));
    match of_kind {
        Some(result) => result,
        None if is_known(name) => {
            let shown: Vec<String> = arguments.iter().map(literal).collect();
            raised(format!("{name}({})", shown.join(", ")))
        }
        None => temporal::call(name, arguments)
            .unwrap_or_else(|| Err(Fault::Unknown(format!("the function {name}")))),
    }
}

/// Functions of lists and numbers, and conversions; none for any other call.
fn of_value(name: &str, arguments: &[Datum]) -> Option<Result<Datum>> {
    Some(match (name, arguments) {
        ("size", [Datum::List(items)]) => Ok(Datum::Int(items.len() as i64)),
        ("size", [Datum::Map(map)]) => Ok(Datum::Int(map.len() as i64)),
        ("size" | "char_length", [Datum::Text(text)]) => {
            Ok(Datum::Int(text.chars().count() as i64))
        }
        ("length", [Datum::Path(path)]) => Ok(Datum::Int(path.relationships.len() as i64)),
        ("isempty", [Datum::List(items)]) => Ok(Datum::Bool(items.is_empty())),
        ("isempty", [Datum::Map(map)]) => Ok(Datum::Bool(map.is_empty())),
        ("isempty", [Datum::Text(text)]) => Ok(Datum::Bool(text.is_empty())),
        ("head", [Datum::List(items)]) => Ok(items.first().cloned().unwrap_or_default()),
        ("last", [Datum::List(items)]) => Ok(items.last().cloned().unwrap_or_default()),
        ("tail", [Datum::List(items)]) => Ok(items.iter().skip(1).cloned().collect()),
        ("reverse", [Datum::List(items)]) => Ok(items.iter().rev().cloned().collect()),
        ("reverse", [Datum::Text(text)]) => Ok(text.chars().rev().collect::<String>().into()),
        ("range", [Datum::Int(from), Datum::Int(to)]) => range(*from, *to, 1),
        ("range", [Datum::Int(from), Datum::Int(to), Datum::Int(step)]) => range(*from, *to, *step),
        ("tointeger", [value]) => to_integer(value),
        ("tofloat", [value]) => to_float(value),
        ("toboolean", [value]) => to_boolean(value),
        ("tostring", [value]) => to_string(value),
        ("abs", [Datum::Int(value)]) => match value.checked_abs() {
            Some(value) => Ok(Datum::Int(value)),
            None => raised("overflow"),
        },
        ("abs", [Datum::Float(value)]) => Ok(Datum::Float(value.abs())),
        ("sign", [Datum::Int(value)]) => Ok(Datum::Int(value.signum())),
        ("sign", [Datum::Float(value)]) if value.is_nan() => Ok(Datum::Null),
        ("sign", [Datum::Float(value)]) if *value == 0.0 => Ok(Datum::Int(0)),
        ("sign", [Datum::Float(value)]) => Ok(Datum::Int(value.signum() as i64)),
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
        ("isnan", [Datum::Int(_)]) => Ok(Datum::Bool(false)),
        ("isnan", [Datum::Float(value)]) => Ok(Datum::Bool(value.is_nan())),
        _ => return None,
    })
}

/// Functions of texts.
fn of_text(name: &str, arguments: &[Datum]) -> Option<Result<Datum>> {
    Some(match (name, arguments) {
        ("toupper" | "upper", [Datum::Text(text)]) => Ok(text.to_uppercase().into()),
        ("tolower" | "lower", [Datum::Text(text)]) => Ok(text.to_lowercase().into()),
        ("trim", [Datum::Text(text)]) => Ok(text.trim().into()),
        ("ltrim", [Datum::Text(text)]) => Ok(text.trim_start().into()),
        ("rtrim", [Datum::Text(text)]) => Ok(text.trim_end().into()),
        ("left", [Datum::Text(text), Datum::Int(count)]) => part(text, 0, Some(*count)),
        ("right", [Datum::Text(text), Datum::Int(count)]) => count_of(*count).map(|count| {
            let left_out = text.chars().count().saturating_sub(count);
            text.chars().skip(left_out).collect::<String>().into()
        }),
        ("substring", [Datum::Text(text), Datum::Int(from)]) => part(text, *from, None),
        ("substring", [Datum::Text(text), Datum::Int(from), Datum::Int(count)]) => {
            part(text, *from, Some(*count))
        }
        ("replace", [Datum::Text(text), Datum::Text(search), Datum::Text(by)]) => {
            Ok(text.replace(&**search, by).into())
        }
        ("split", [Datum::Text(text), Datum::Text(by)]) if !by.is_empty() => {
            Ok(text.split(&**by).map(Datum::from).collect())
        }
        _ => return None,
    })
}

/// Functions of nodes, relationships and paths.
fn of_graph(world: &Interpreter<'_>, name: &str, arguments: &[Datum]) -> Option<Result<Datum>> {
    Some(match (name, arguments) {
        ("nodes", [Datum::Path(path)]) => {
            Ok(path.nodes.iter().map(|node| Datum::node(node.id)).collect())
        }
        ("relationships", [Datum::Path(path)]) => Ok(path
            .relationships
            .iter()
            .map(|one| Datum::Relationship(one.clone().into()))
            .collect()),
        ("startnode", [Datum::Relationship(one)]) => Ok(Datum::node(one.source)),
        ("endnode", [Datum::Relationship(one)]) => Ok(Datum::node(one.target)),
        ("labels", [Datum::Node(node)]) => match world.graph.borrow().nodes.get(&node.id) {
            Some(node) => Ok(node
                .labels
                .iter()
                .map(|label| Datum::from(label.as_str()))
                .collect()),
            None => raised("the node was deleted"),
        },
        ("type", [Datum::Relationship(one)]) => {
            let graph = world.graph.borrow();
            let deleted = world.types_of_deleted.borrow();
            let held = graph.relationships.get(&one.id).map(|one| &one.name);
            match held.or_else(|| deleted.get(&one.id)) {
                Some(name) => Ok(name.as_str().into()),
                None => raised("there is no such relationship"),
            }
        }
        ("keys", [value]) => world.properties(value).map(|properties| {
            let names = properties.keys();
            names.map(|name| Datum::Text(name.clone())).collect()
        }),
        ("properties", [value]) => world.properties(value).map(Into::into),
        ("degree", [Datum::Node(node)]) => Ok(Datum::Int(degree(world, node.id))),
        _ => return None,
    })
}

/// The characters of a text from one on; all that follow where no count is given.
fn part(text: &str, from: i64, count: Option<i64>) -> Result<Datum> {
    let rest = text.chars().skip(count_of(from)?);
    Ok(match count {
        Some(count) => rest.take(count_of(count)?).collect::<String>(),
        None => rest.collect(),
    }
    .into())
}

/// Functions for which every call not listed above is an error.
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

fn degree(world: &Interpreter<'_>, node: u64) -> i64 {
    let graph = world.graph.borrow();
    let ends = graph
        .relationships
        .values()
        .flat_map(|one| [one.source, one.target]);
    ends.filter(|end| *end == node).count() as i64
}

fn count_of(number: i64) -> Result<usize> {
    match usize::try_from(number) {
        Ok(count) => Ok(count),
        Err(_) => raised(format!("{number} is not a length")),
    }
}

fn range(from: i64, to: i64, step: i64) -> Result<Datum> {
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
        numbers.push(Datum::Int(at as i64));
        at += i128::from(step);
    }
    Ok(numbers.into())
}

fn float(value: &Datum, body: fn(f64) -> f64) -> Result<Datum> {
    match value.to_f64() {
        Some(number) => Ok(Datum::Float(body(number))),
        None => raised(format!("{} is not a number", literal(value))),
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

fn to_integer(value: &Datum) -> Result<Datum> {
    match value {
        Datum::Null | Datum::Int(_) => Ok(value.clone()),
        Datum::Bool(truth) => Ok(Datum::Int(i64::from(*truth))),
        Datum::Float(number) => match whole(*number) {
            Some(number) => Ok(Datum::Int(number)),
            None => raised(format!("{number} is out of range")),
        },
        Datum::Text(text) => Ok(match text.trim().parse::<i64>() {
            Ok(number) => Datum::Int(number),
            Err(_) => parsed(text).and_then(whole).into(),
        }),
        other => raised(format!("{} is not a number", literal(other))),
    }
}

fn to_float(value: &Datum) -> Result<Datum> {
    match value {
        Datum::Null | Datum::Float(_) => Ok(value.clone()),
        Datum::Int(number) => Ok(Datum::Float(*number as f64)),
        Datum::Text(text) => Ok(parsed(text).into()),
        other => raised(format!("{} is not a number", literal(other))),
    }
}

fn to_boolean(value: &Datum) -> Result<Datum> {
    match value {
        Datum::Null | Datum::Bool(_) => Ok(value.clone()),
        Datum::Int(number) => Ok(Datum::Bool(*number != 0)),
        Datum::Text(text) => Ok(match text.trim().to_lowercase().as_str() {
            "true" => Datum::Bool(true),
            "false" => Datum::Bool(false),
            _ => Datum::Null,
        }),
        other => raised(format!("{} is not a boolean", literal(other))),
    }
}

fn to_string(value: &Datum) -> Result<Datum> {
    match value {
        Datum::Null | Datum::Text(_) => Ok(value.clone()),
        Datum::Bool(_) | Datum::Int(_) | Datum::Float(_) => {
            super::expression::arithmetic(isomer_cypher::ast::BinaryOp::Add, &"".into(), value)
        }
        other => match temporal::show(other) {
            Some(text) => Ok(text.into()),
            None => raised(format!("{} has no text", literal(other))),
        },
    }
}
