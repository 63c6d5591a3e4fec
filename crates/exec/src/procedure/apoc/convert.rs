//! `apoc.convert.*`: values to and from JSON, and between lists, sets and maps.

use isomer_plan::expr::StaticType;
use isomer_value::{Value, json};

use super::{
    arguments::{Arguments, LIST, MAP},
    coll::distinct,
};
use crate::{error::Result, procedure::table::FunctionRow};

/// The functions.
pub(super) const FUNCTIONS: &[FunctionRow] = &[
    FunctionRow::new(
        "apoc.convert.toJson",
        "value: ANY",
        StaticType::Any,
        "a value as JSON",
        |args| {
            let args = Arguments::new("apoc.convert.toJson", args);
            let text = json::to_string(args.value(0)).map_err(|error| args.invalid(error))?;
            Ok(text.into())
        },
    ),
    FunctionRow::new(
        "apoc.convert.fromJsonMap",
        "map: STRING?, path: STRING = ''",
        MAP,
        "the map of a JSON text",
        |args| of_json("apoc.convert.fromJsonMap", args),
    ),
    FunctionRow::new(
        "apoc.convert.fromJsonList",
        "list: STRING?, path: STRING = ''",
        LIST,
        "the list of a JSON text",
        |args| of_json("apoc.convert.fromJsonList", args),
    ),
    FunctionRow::new(
        "apoc.convert.toList",
        "value: ANY",
        LIST,
        "a list as it is, and any other value as a list of one element",
        |args| {
            let value = Arguments::new("apoc.convert.toList", args).value(0);
            Ok(match value {
                Value::Null | Value::List(_) => value.clone(),
                other => vec![other.clone()].into(),
            })
        },
    ),
    FunctionRow::new(
        "apoc.convert.toSet",
        "value: ANY",
        LIST,
        "the distinct elements of a list",
        |args| {
            let value = Arguments::new("apoc.convert.toSet", args).value(0);
            Ok(match value {
                Value::Null => Value::Null,
                Value::List(items) => distinct(items).into(),
                other => vec![other.clone()].into(),
            })
        },
    ),
    FunctionRow::new(
        "apoc.convert.toMap",
        "value: ANY",
        MAP,
        "a map as it is; null for other values (`n {.*}` is the map of a node)",
        |args| {
            let value = Arguments::new("apoc.convert.toMap", args).value(0);
            Ok(match value {
                Value::Map(_) => value.clone(),
                _ => Value::Null,
            })
        },
    ),
];

/// The value of a JSON text, or the part of it at a path such as `$.a.b[0]`.
fn of_json(function: &'static str, args: &[Value]) -> Result<Value> {
    let args = Arguments::new(function, args);
    let Some(text) = args.text(0)? else {
        return Ok(Value::Null);
    };
    let mut value = json::parse(text).map_err(|error| args.invalid(error))?;
    let path = args.text(1)?.unwrap_or_default();
    let steps = path
        .trim_start_matches('$')
        .replace('[', ".")
        .replace(']', "");
    for step in steps.split('.').filter(|step| !step.is_empty()) {
        let part = match &value {
            Value::Map(map) => map.get(step).cloned(),
            Value::List(items) => step
                .parse()
                .ok()
                .and_then(|at: usize| items.get(at).cloned()),
            _ => None,
        };
        value = part.unwrap_or_default();
    }
    Ok(value)
}
