//! Functions on numbers.

use isomer_plan::function::Function as Builtin;
use isomer_value::Value;

use super::{
    body::{Function, integer, lenient, number, strict, text, wrong},
    environment::Environment,
};
use crate::error::{ExecError, Result};

pub(super) fn find(function: Builtin) -> Option<Function> {
    macro_rules! float {
        ($name:literal, $body:expr) => {
            strict(|args, _| {
                let body: fn(f64) -> f64 = $body;
                Ok(Value::Float(body(number($name, &args[0])?)))
            })
        };
    }
    match function {
        Builtin::Abs => strict(abs),
        Builtin::Sign => strict(sign),
        Builtin::Ceil => float!("ceil", f64::ceil),
        Builtin::Floor => float!("floor", f64::floor),
        Builtin::Round => strict(round),
        Builtin::Sqrt => float!("sqrt", f64::sqrt),
        Builtin::Exp => float!("exp", f64::exp),
        Builtin::Log => float!("log", f64::ln),
        Builtin::Log10 => float!("log10", f64::log10),
        Builtin::Sin => float!("sin", f64::sin),
        Builtin::Cos => float!("cos", f64::cos),
        Builtin::Tan => float!("tan", f64::tan),
        Builtin::Cot => float!("cot", |x| 1.0 / x.tan()),
        Builtin::Asin => float!("asin", f64::asin),
        Builtin::Acos => float!("acos", f64::acos),
        Builtin::Atan => float!("atan", f64::atan),
        Builtin::Degrees => float!("degrees", f64::to_degrees),
        Builtin::Radians => float!("radians", f64::to_radians),
        Builtin::Haversin => float!("haversin", |x| (1.0 - x.cos()) / 2.0),
        Builtin::Atan2 => strict(|args, _| {
            Ok(Value::Float(
                number("atan2", &args[0])?.atan2(number("atan2", &args[1])?),
            ))
        }),
        Builtin::IsNaN => strict(|args, _| Ok(Value::Bool(number("isNaN", &args[0])?.is_nan()))),
        Builtin::Pi => lenient(|_, _| Ok(Value::Float(std::f64::consts::PI))),
        Builtin::E => lenient(|_, _| Ok(Value::Float(std::f64::consts::E))),
        Builtin::Rand => lenient(|_, env| {
            Ok(Value::Float(
                (env.random() >> 11) as f64 / (1_u64 << 53) as f64,
            ))
        }),
        _ => None,
    }
}

fn abs(args: &[Value], _: &dyn Environment) -> Result<Value> {
    match &args[0] {
        Value::Int(i) => i
            .checked_abs()
            .map(Value::Int)
            .ok_or_else(|| ExecError::overflow(format!("abs({i}) does not fit into 64 bits"))),
        Value::Float(f) => Ok(Value::Float(f.abs())),
        other => Err(wrong("abs", "a number", other)),
    }
}

fn sign(args: &[Value], _: &dyn Environment) -> Result<Value> {
    match &args[0] {
        Value::Int(i) => Ok(Value::Int(i.signum())),
        Value::Float(f) if f.is_nan() => Ok(Value::Null),
        Value::Float(f) if *f == 0.0 => Ok(Value::Int(0)),
        Value::Float(f) => Ok(Value::Int(if *f > 0.0 { 1 } else { -1 })),
        other => Err(wrong("sign", "a number", other)),
    }
}

/// `round(x)` rounds ties up; with a precision, ties round away from zero unless a mode is given.
fn round(args: &[Value], _: &dyn Environment) -> Result<Value> {
    let x = number("round", &args[0])?;
    let Some(precision) = args.get(1) else {
        let floor = x.floor();
        return Ok(Value::Float(if x - floor >= 0.5 {
            floor + 1.0
        } else {
            floor
        }));
    };
    let precision = integer("round", precision)?;
    if !(0..=300).contains(&precision) {
        return Err(ExecError::out_of_range(format!(
            "the precision of round() is {precision}: it must be 0 to 300"
        )));
    }
    let mode = match args.get(2) {
        Some(mode) => text("round", mode)?.to_ascii_uppercase(),
        None => "HALF_UP".into(),
    };
    let scale = 10_f64.powi(precision as i32);
    let scaled = x * scale;
    if !scaled.is_finite() {
        return Ok(Value::Float(x)); // too large for digits after the decimal point, or NaN
    }
    let tie = (scaled.abs().fract() - 0.5).abs() < 1e-9;
    let rounded = match mode.as_str() {
        "UP" => scaled.abs().ceil().copysign(scaled),
        "DOWN" => scaled.trunc(),
        "CEILING" => scaled.ceil(),
        "FLOOR" => scaled.floor(),
        "HALF_UP" => (scaled.abs() + if tie { 0.5 + 1e-9 } else { 0.5 })
            .floor()
            .copysign(scaled),
        "HALF_DOWN" if tie => scaled.trunc(),
        "HALF_EVEN" if tie => 2.0 * (scaled / 2.0).round(),
        "HALF_DOWN" | "HALF_EVEN" => scaled.round(),
        other => {
            return Err(ExecError::out_of_range(format!(
                "round() does not know the mode '{other}': use UP, DOWN, CEILING, FLOOR, HALF_UP, HALF_DOWN or HALF_EVEN"
            )));
        }
    };
    Ok(Value::Float(rounded / scale))
}
