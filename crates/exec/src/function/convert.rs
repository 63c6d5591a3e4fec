//! Functions that turn a value of one type into another type.

use isomer_plan::function::Function as Builtin;
use isomer_value::Value;

use super::{
    body::{Function, lenient, list, strict, string, wrong},
    environment::Environment,
};
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
        Value::Float(f) => float_to_integer(*f)
            .map(Value::Int)
            .ok_or_else(|| too_large(function, &format!("{f:?}"), "a 64-bit integer")),
        Value::String(text) => match Decimal::parse(text.trim()) {
            None => Ok(Value::Null),
            Some(decimal) => decimal
                .truncated()
                .map(Value::Int)
                .ok_or_else(|| too_large(function, &format!("'{text}'"), "a 64-bit integer")),
        },
        Value::Null => Ok(Value::Null),
        other => Err(wrong(function, "a number, boolean or string", other)),
    }
}

fn to_float(function: &'static str, value: &Value) -> Result<Value> {
    match value {
        Value::Float(_) => Ok(value.clone()),
        Value::Int(i) => Ok(Value::Float(*i as f64)),
        Value::String(text) => text_to_float(function, text),
        Value::Null => Ok(Value::Null),
        other => Err(wrong(function, "a number or string", other)),
    }
}

/// A decimal number, or one of the words that `toString` writes. As for a literal, a number out of the range of a float
/// is an error: infinity would be a different number.
fn text_to_float(function: &'static str, text: &str) -> Result<Value> {
    let trimmed = text.trim();
    let number = match trimmed {
        "NaN" => f64::NAN,
        "Infinity" | "+Infinity" => f64::INFINITY,
        "-Infinity" => f64::NEG_INFINITY,
        _ if Decimal::parse(trimmed).is_none() => return Ok(Value::Null),
        _ => match trimmed.parse::<f64>() {
            Ok(number) if number.is_finite() => number,
            _ => return Err(too_large(function, &format!("'{text}'"), "a 64-bit float")),
        },
    };
    Ok(Value::Float(number))
}

#[cold]
fn too_large(function: &str, argument: &str, type_name: &str) -> ExecError {
    let shown: String = argument.chars().take(60).collect();
    ExecError::overflow(format!("{function}({shown}) does not fit into {type_name}"))
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

/// A float as the language prints it: always with a decimal point or an exponent, so that it is read back as a float.
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

/// Truncates towards zero; none if the result exceeds 64 bits.
fn float_to_integer(value: f64) -> Option<i64> {
    // 2^63 is exact as a float: everything below it fits.
    (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0)
        .contains(&value)
        .then_some(value as i64)
}

/// A parsed decimal number: `-12.5e3`.
struct Decimal<'t> {
    negative: bool,
    /// Digits before and after the decimal point.
    whole: &'t str,
    fraction: &'t str,
    /// The power of ten; limited to 31 bits.
    exponent: i64,
}

impl<'t> Decimal<'t> {
    /// A sign, digits with or without a decimal point, an exponent; none for other texts, including words such as
    /// `inf`.
    fn parse(text: &'t str) -> Option<Self> {
        let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            None => (text, 0),
            Some((mantissa, exponent)) => {
                let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
                if digits.is_empty() || !is_digits(digits) {
                    return None;
                }
                let limit = i64::from(i32::MAX);
                let size = digits.parse().map_or(limit, |size: i64| size.min(limit));
                (
                    mantissa,
                    if exponent.starts_with('-') {
                        -size
                    } else {
                        size
                    },
                )
            }
        };
        let unsigned = mantissa.strip_prefix(['+', '-']).unwrap_or(mantissa);
        let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
        let digits = whole.len() + fraction.len();
        (digits > 0 && is_digits(whole) && is_digits(fraction)).then_some(Self {
            negative: mantissa.starts_with('-'),
            whole,
            fraction,
            exponent,
        })
    }

    /// The integer part, exactly; none if it exceeds 64 bits.
    fn truncated(&self) -> Option<i64> {
        let digits = || self.whole.bytes().chain(self.fraction.bytes());
        let count = self.whole.len() as i64 + self.exponent;
        let mut number: i64 = 0;
        let mut at = 0;
        for digit in digits().take(count.max(0) as usize) {
            let digit = i64::from(digit - b'0');
            number = number.checked_mul(10)?;
            number = if self.negative {
                number.checked_sub(digit)?
            } else {
                number.checked_add(digit)?
            };
            at += 1;
        }
        // Trailing zeros from the exponent.
        while number != 0 && at < count {
            number = number.checked_mul(10)?;
            at += 1;
        }
        Some(number)
    }
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
