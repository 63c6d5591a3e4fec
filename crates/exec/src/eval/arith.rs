//! Arithmetic on values: numbers, strings, lists and temporal values.

use std::sync::Arc;

use isomer_plan::expr::Arithmetic;
use isomer_value::Value;

use crate::error::{ErrorClass, ExecError, Result, shown};
use crate::function::{Environment, float_text};

/// Applies a binary operator; null if either side is null.
pub(crate) fn arithmetic(
    op: Arithmetic,
    left: &Value,
    right: &Value,
    env: &dyn Environment,
) -> Result<Value> {
    if op == Arithmetic::Concat {
        return concatenate(left, right, env);
    }
    match (left, right) {
        (Value::Int(a), Value::Int(b)) => integers(op, *a, *b),
        (Value::Float(a), Value::Float(b)) => Ok(Value::Float(floats(op, *a, *b))),
        (Value::Int(a), Value::Float(b)) => Ok(Value::Float(floats(op, *a as f64, *b))),
        (Value::Float(a), Value::Int(b)) => Ok(Value::Float(floats(op, *a, *b as f64))),
        (Value::Null, _) | (_, Value::Null) => Ok(Value::Null),
        _ if op == Arithmetic::Add => add(left, right, env),
        _ => temporal(op, left, right).unwrap_or_else(|| Err(operand_mismatch(op, left, right))),
    }
}

/// Integer arithmetic; overflow of 64 bits is an error.
pub(crate) fn integers(op: Arithmetic, a: i64, b: i64) -> Result<Value> {
    let result = match op {
        Arithmetic::Add => a.checked_add(b),
        Arithmetic::Subtract => a.checked_sub(b),
        Arithmetic::Multiply => a.checked_mul(b),
        Arithmetic::Divide | Arithmetic::Modulo if b == 0 => {
            return Err(ExecError::raised(
                ErrorClass::ArithmeticError,
                "DivisionByZero",
                format!(
                    "{a} {} 0: division by zero; test the divisor first, or divide floats",
                    symbol(op)
                ),
            ));
        }
        Arithmetic::Divide => a.checked_div(b),
        Arithmetic::Modulo => Some(a.checked_rem(b).unwrap_or(0)), // i64::MIN % -1 is 0
        Arithmetic::Power => return Ok(Value::Float((a as f64).powf(b as f64))),
        Arithmetic::Concat => return Err(operand_mismatch(op, &Value::Int(a), &Value::Int(b))),
    };
    result.map(Value::Int).ok_or_else(|| {
        ExecError::overflow(format!(
            "{a} {} {b} does not fit into 64 bits: use floats or smaller numbers",
            symbol(op)
        ))
    })
}

/// Float arithmetic, IEEE 754.
pub(crate) fn floats(op: Arithmetic, a: f64, b: f64) -> f64 {
    match op {
        Arithmetic::Add => a + b,
        Arithmetic::Subtract => a - b,
        Arithmetic::Multiply => a * b,
        Arithmetic::Divide => a / b,
        Arithmetic::Modulo => a % b,
        Arithmetic::Power => a.powf(b),
        Arithmetic::Concat => f64::NAN, // numbers were refused before
    }
}

/// `||`: two strings or two lists.
fn concatenate(left: &Value, right: &Value, env: &dyn Environment) -> Result<Value> {
    match (left, right) {
        (Value::Null, _) | (_, Value::Null) => Ok(Value::Null),
        (Value::String(a), Value::String(b)) => concat(a, b, env),
        (Value::List(a), Value::List(b)) => join(a, b, env),
        _ => Err(operand_mismatch(Arithmetic::Concat, left, right)),
    }
}

/// `+` for operands that are not both numbers: concatenates lists and strings, adds durations.
fn add(left: &Value, right: &Value, env: &dyn Environment) -> Result<Value> {
    match (left, right) {
        (Value::List(a), Value::List(b)) => join(a, b, env),
        (Value::List(a), item) => join(a, std::slice::from_ref(item), env),
        (item, Value::List(b)) => join(std::slice::from_ref(item), b, env),
        (Value::String(a), Value::String(b)) => concat(a, b, env),
        (Value::String(a), Value::Int(b)) => concat(a, &b.to_string(), env),
        (Value::Int(a), Value::String(b)) => concat(&a.to_string(), b, env),
        (Value::String(a), Value::Float(b)) => concat(a, &float_text(*b), env),
        (Value::Float(a), Value::String(b)) => concat(&float_text(*a), b, env),
        (Value::String(a), Value::Bool(b)) => concat(a, if *b { "true" } else { "false" }, env),
        (Value::Bool(a), Value::String(b)) => concat(if *a { "true" } else { "false" }, b, env),
        _ => temporal(Arithmetic::Add, left, right)
            .unwrap_or_else(|| Err(operand_mismatch(Arithmetic::Add, left, right))),
    }
}

fn join(a: &[Value], b: &[Value], env: &dyn Environment) -> Result<Value> {
    // Both operands are alive while the result is built; the accumulator of `reduce` is not counted elsewhere.
    env.allow_bytes(2 * (a.len() + b.len()) * size_of::<Value>())?;
    Ok(Value::List(Arc::new(a.iter().chain(b).cloned().collect())))
}

fn concat(a: &str, b: &str, env: &dyn Environment) -> Result<Value> {
    // Both operands, the resulting text, and its copy as a shared string.
    env.allow_bytes(3 * (a.len() + b.len()))?;
    let mut text = String::with_capacity(a.len() + b.len());
    text.push_str(a);
    text.push_str(b);
    Ok(Value::String(text.into()))
}

/// Arithmetic with a temporal value on at least one side; none if the operation does not exist.
fn temporal(op: Arithmetic, left: &Value, right: &Value) -> Option<Result<Value>> {
    crate::function::temporal_arithmetic(op, left, right)
}

/// `-x`
pub(crate) fn negate(value: &Value) -> Result<Value> {
    match value {
        Value::Null => Ok(Value::Null),
        Value::Int(i) => i
            .checked_neg()
            .map(Value::Int)
            .ok_or_else(|| ExecError::overflow(format!("-({i}) does not fit into 64 bits"))),
        Value::Float(f) => Ok(Value::Float(-f)),
        Value::Duration(_) => arithmetic_temporal_negate(value),
        other => Err(ExecError::type_mismatch(format!(
            "`-` takes a number, not {}",
            shown(other)
        ))),
    }
}

fn arithmetic_temporal_negate(value: &Value) -> Result<Value> {
    temporal(Arithmetic::Multiply, value, &Value::Int(-1)).unwrap_or_else(|| {
        Err(operand_mismatch(
            Arithmetic::Multiply,
            value,
            &Value::Int(-1),
        ))
    })
}

/// `+x`
pub(crate) fn plus(value: &Value) -> Result<Value> {
    match value {
        Value::Null | Value::Int(_) | Value::Float(_) | Value::Duration(_) => Ok(value.clone()),
        other => Err(ExecError::type_mismatch(format!(
            "`+` takes a number, not {}",
            shown(other)
        ))),
    }
}

fn symbol(op: Arithmetic) -> &'static str {
    match op {
        Arithmetic::Add => "+",
        Arithmetic::Subtract => "-",
        Arithmetic::Multiply => "*",
        Arithmetic::Divide => "/",
        Arithmetic::Modulo => "%",
        Arithmetic::Power => "^",
        Arithmetic::Concat => "||",
    }
}

fn operand_mismatch(op: Arithmetic, left: &Value, right: &Value) -> ExecError {
    ExecError::type_mismatch(format!(
        "`{}` does not combine {} with {}",
        symbol(op),
        shown(left),
        shown(right)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::function::tests::Stub;

    fn apply(op: Arithmetic, a: impl Into<Value>, b: impl Into<Value>) -> Result<Value> {
        arithmetic(op, &a.into(), &b.into(), &Stub)
    }

    #[test]
    fn integers_stay_exact_or_fail() {
        assert_eq!(apply(Arithmetic::Divide, 7, -2).unwrap(), Value::Int(-3));
        assert_eq!(apply(Arithmetic::Modulo, -7, 2).unwrap(), Value::Int(-1));
        assert_eq!(
            apply(Arithmetic::Modulo, i64::MIN, -1).unwrap(),
            Value::Int(0)
        );
        assert_eq!(apply(Arithmetic::Power, 2, 3).unwrap(), Value::Float(8.0));
        for (op, a, b) in [
            (Arithmetic::Add, i64::MAX, 1),
            (Arithmetic::Subtract, i64::MIN, 1),
            (Arithmetic::Multiply, i64::MAX, 2),
            (Arithmetic::Divide, i64::MIN, -1),
        ] {
            let error = apply(op, a, b).unwrap_err();
            assert_eq!(
                error.classified(),
                Some((ErrorClass::ArithmeticError, "IntegerOverflow")),
                "{error}"
            );
        }
        for op in [Arithmetic::Divide, Arithmetic::Modulo] {
            assert_eq!(
                apply(op, 1, 0).unwrap_err().classified(),
                Some((ErrorClass::ArithmeticError, "DivisionByZero"))
            );
        }
        assert_eq!(
            apply(Arithmetic::Divide, 1.0, 0).unwrap(),
            Value::Float(f64::INFINITY)
        );
    }

    #[test]
    fn addition_joins_strings_and_lists() {
        assert_eq!(apply(Arithmetic::Add, "a", "b").unwrap(), "ab".into());
        assert_eq!(apply(Arithmetic::Add, "a", 1).unwrap(), "a1".into());
        let list = |items: &[i64]| items.iter().copied().map(Value::Int).collect::<Value>();
        assert_eq!(
            apply(Arithmetic::Add, list(&[1]), list(&[2])).unwrap(),
            list(&[1, 2])
        );
        assert_eq!(
            apply(Arithmetic::Add, list(&[1]), 2).unwrap(),
            list(&[1, 2])
        );
        assert_eq!(
            apply(Arithmetic::Add, 0, list(&[1])).unwrap(),
            list(&[0, 1])
        );
        assert_eq!(
            apply(Arithmetic::Add, Value::Null, list(&[1])).unwrap(),
            Value::Null
        );
    }

    #[test]
    fn operands_that_do_not_combine_are_a_type_error() {
        for (op, a, b) in [
            (Arithmetic::Subtract, Value::from("a"), Value::Int(1)),
            (Arithmetic::Add, true.into(), 1.into()),
        ] {
            assert_eq!(
                arithmetic(op, &a, &b, &Stub).unwrap_err().classified(),
                Some((ErrorClass::TypeError, "InvalidArgumentType"))
            );
        }
        assert!(negate(&"a".into()).is_err());
        assert!(negate(&i64::MIN.into()).is_err());
    }
}
