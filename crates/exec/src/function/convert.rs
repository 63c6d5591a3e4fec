//! Functions that turn a value of one type into another type.

use isomer_plan::function::Function as Builtin;
use isomer_value::Value;

use super::{Environment, Function, lenient, list, strict, string, wrong};
use crate::error::{ExecError, Result};

pub(super) fn find(function: Builtin) -> Option<Function> {
    macro_rules! each {
        ($name:literal, $body:path) => {
            strict(|args, _| each($name, &args[0], $body))
        };
    }
    match function {
        Builtin::ToInteger => strict(|args, _| to_integer("toInteger", &args[0])),
        Builtin::ToFloat => strict(|args, _| to_float("toFloat", &args[0])),
        Builtin::ToBoolean => strict(|args, _| to_boolean("toBoolean", &args[0])),
        Builtin::ToString => strict(|args, _| to_string("toString", &args[0])),
        Builtin::ToIntegerOrNull => {
            lenient(|args, _| Ok(to_integer("toIntegerOrNull", &args[0]).unwrap_or_default()))
        }
        Builtin::ToFloatOrNull => {
            lenient(|args, _| Ok(to_float("toFloatOrNull", &args[0]).unwrap_or_default()))
        }
        Builtin::ToBooleanOrNull => {
            lenient(|args, _| Ok(to_boolean("toBooleanOrNull", &args[0]).unwrap_or_default()))
        }
        Builtin::ToStringOrNull => {
            lenient(|args, _| Ok(to_string("toStringOrNull", &args[0]).unwrap_or_default()))
        }
        Builtin::ToIntegerList => each!("toIntegerList", to_integer),
        Builtin::ToFloatList => each!("toFloatList", to_float),
        Builtin::ToBooleanList => each!("toBooleanList", to_boolean),
        Builtin::ToStringList => each!("toStringList", to_string),
        Builtin::ValueType => lenient(value_type),
        Builtin::RandomUuid => lenient(random_uuid),
        _ => None,
    }
}

/// Converts every element; those that cannot be converted become null.
fn each(
    function: &'static str,
    value: &Value,
    body: fn(&'static str, &Value) -> Result<Value>,
) -> Result<Value> {
    match value {
        Value::List(items) => Ok(list(
            items
                .iter()
                .map(|item| body(function, item).unwrap_or_default())
                .collect(),
        )),
        other => Err(wrong(function, "a list", other)),
    }
}

fn to_integer(function: &'static str, value: &Value) -> Result<Value> {
    match value {
        Value::Int(_) => Ok(value.clone()),
        Value::Bool(b) => Ok(Value::Int(i64::from(*b))),
        Value::Float(f) => float_to_integer(*f).map(Value::Int).ok_or_else(|| {
            ExecError::overflow(format!(
                "{function}({f:?}) does not fit into a 64-bit integer"
            ))
        }),
        Value::String(text) => {
            let text = text.trim();
            let parsed = text
                .parse::<i64>()
                .ok()
                .or_else(|| decimal(text).and_then(float_to_integer));
            Ok(parsed.map_or(Value::Null, Value::Int))
        }
        Value::Null => Ok(Value::Null),
        other => Err(wrong(function, "a number, boolean or string", other)),
    }
}

fn to_float(function: &'static str, value: &Value) -> Result<Value> {
    match value {
        Value::Float(_) => Ok(value.clone()),
        Value::Int(i) => Ok(Value::Float(*i as f64)),
        Value::String(text) => Ok(decimal(text.trim()).map_or(Value::Null, Value::Float)),
        Value::Null => Ok(Value::Null),
        other => Err(wrong(function, "a number or string", other)),
    }
}

fn to_boolean(function: &'static str, value: &Value) -> Result<Value> {
    match value {
        Value::Bool(_) => Ok(value.clone()),
        Value::Int(i) => Ok(Value::Bool(*i != 0)),
        Value::String(text) => Ok(match text.trim() {
            text if text.eq_ignore_ascii_case("true") => Value::Bool(true),
            text if text.eq_ignore_ascii_case("false") => Value::Bool(false),
            _ => Value::Null,
        }),
        Value::Null => Ok(Value::Null),
        other => Err(wrong(function, "a boolean, integer or string", other)),
    }
}

fn to_string(function: &'static str, value: &Value) -> Result<Value> {
    match value {
        Value::String(_) | Value::Null => Ok(value.clone()),
        Value::Bool(b) => Ok(string(if *b { "true" } else { "false" })),
        Value::Int(i) => Ok(string(i.to_string())),
        Value::Float(f) => Ok(string(float_text(*f))),
        other => super::temporal::to_text(other).map(string).ok_or_else(|| {
            wrong(
                function,
                "a number, boolean, string or temporal value",
                other,
            )
        }),
    }
}

/// A float as the language prints it: always with a point or an exponent, so that it reads back as a float.
pub(crate) fn float_text(value: f64) -> String {
    if value.is_nan() {
        "NaN".into()
    } else if value.is_infinite() {
        if value > 0.0 {
            "Infinity".into()
        } else {
            "-Infinity".into()
        }
    } else {
        format!("{value:?}")
    }
}

/// Truncates towards zero; none for what lies outside 64 bits.
fn float_to_integer(value: f64) -> Option<i64> {
    // 2^63 is exact as a float: everything below it fits.
    (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0)
        .contains(&value)
        .then_some(value as i64)
}

/// A decimal number; unlike `str::parse` it takes no words such as `inf`.
fn decimal(text: &str) -> Option<f64> {
    let plain = text
        .bytes()
        .all(|b| b.is_ascii_digit() || matches!(b, b'+' | b'-' | b'.' | b'e' | b'E'));
    if !plain {
        return match text {
            "NaN" => Some(f64::NAN),
            "Infinity" | "+Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        };
    }
    text.parse().ok()
}

fn value_type(args: &[Value], _: &dyn Environment) -> Result<Value> {
    Ok(string(args[0].type_name()))
}

/// A version 4 UUID.
fn random_uuid(_: &[Value], env: &dyn Environment) -> Result<Value> {
    let bits = (u128::from(env.random()) << 64) | u128::from(env.random());
    let bits = (bits & !(0xf << 76) & !(0x3 << 62)) | (0x4 << 76) | (0x2 << 62);
    let hex = format!("{bits:032x}");
    Ok(string(format!(
        "{}-{}-{}-{}-{}",
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..]
    )))
}
