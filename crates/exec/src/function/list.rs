//! Functions on lists, and those on both lists and strings.

use std::sync::Arc;

use isomer_plan::function::Function as Builtin;
use isomer_value::{Value, equality};

use super::{
    body::{Function, lenient, list, strict, string, wrong},
    environment::Environment,
};
use crate::error::{ExecError, Result, shown};

pub(super) fn find(function: Builtin) -> Option<Function> {
    match function {
        Builtin::Size => strict(size),
        Builtin::Length => strict(length),
        Builtin::Head => strict(|args, _| {
            Ok(items("head", &args[0])?
                .first()
                .cloned()
                .unwrap_or_default())
        }),
        Builtin::Last => {
            strict(|args, _| Ok(items("last", &args[0])?.last().cloned().unwrap_or_default()))
        }
        Builtin::Tail => strict(|args, _| {
            Ok(list(
                items("tail", &args[0])?
                    .get(1..)
                    .unwrap_or_default()
                    .to_vec(),
            ))
        }),
        Builtin::Reverse => strict(reverse),
        Builtin::Range => strict(range),
        Builtin::IsEmpty => strict(is_empty),
        Builtin::Coalesce => lenient(|args, _| {
            Ok(args
                .iter()
                .find(|arg| !matches!(arg, Value::Null))
                .cloned()
                .unwrap_or_default())
        }),
        Builtin::NullIf => lenient(|args, _| {
            Ok(if equality::equal(&args[0], &args[1]) == Some(true) {
                Value::Null
            } else {
                args[0].clone()
            })
        }),
        // The binder replaces these by what `LOAD CSV` gives; there is none here.
        Builtin::LineNumber | Builtin::CsvFile => lenient(|_, _| Ok(Value::Null)),
        Builtin::Exists => lenient(|args, _| Ok(Value::Bool(!matches!(args[0], Value::Null)))),
        _ => None,
    }
}

fn items<'a>(function: &str, value: &'a Value) -> Result<&'a Arc<Vec<Value>>> {
    match value {
        Value::List(items) => Ok(items),
        other => Err(wrong(function, "a list", other)),
    }
}

fn size(args: &[Value], _: &dyn Environment) -> Result<Value> {
    match &args[0] {
        Value::List(items) => Ok(Value::Int(items.len() as i64)),
        Value::String(text) => Ok(Value::Int(text.chars().count() as i64)),
        Value::Bytes(bytes) => Ok(Value::Int(bytes.len() as i64)),
        Value::Map(map) => Ok(Value::Int(map.len() as i64)),
        other => Err(wrong("size", "a list, string, map or bytes", other)),
    }
}

fn length(args: &[Value], _: &dyn Environment) -> Result<Value> {
    match &args[0] {
        Value::Path(path) => Ok(Value::Int(path.relationships.len() as i64)),
        other => Err(wrong(
            "length",
            "a path (size() takes lists and strings)",
            other,
        )),
    }
}

fn is_empty(args: &[Value], _: &dyn Environment) -> Result<Value> {
    match &args[0] {
        Value::List(items) => Ok(Value::Bool(items.is_empty())),
        Value::String(text) => Ok(Value::Bool(text.is_empty())),
        Value::Map(map) => Ok(Value::Bool(map.is_empty())),
        other => Err(wrong("isEmpty", "a list, map or string", other)),
    }
}

fn reverse(args: &[Value], _: &dyn Environment) -> Result<Value> {
    match &args[0] {
        Value::List(items) => Ok(list(items.iter().rev().cloned().collect())),
        Value::String(text) => Ok(string(text.chars().rev().collect::<String>())),
        other => Err(wrong("reverse", "a list or string", other)),
    }
}

/// The numbers of `range(start, end, step)`, both ends included, generated on demand.
#[derive(Clone, Debug)]
pub(crate) struct IntegerRange {
    next: Option<i64>,
    end: i64,
    step: i64,
}

impl IntegerRange {
    /// Reads the arguments; none of them is null.
    pub(crate) fn new(args: &[Value]) -> Result<Self> {
        let number = |at: usize| match &args[at] {
            Value::Int(i) => Ok(*i),
            other => Err(ExecError::raised(
                crate::ErrorClass::ArgumentError,
                "InvalidArgumentType",
                format!("range() takes integers, not {}", shown(other)),
            )),
        };
        let (start, end) = (number(0)?, number(1)?);
        let step = if args.len() > 2 { number(2)? } else { 1 };
        if step == 0 {
            return Err(ExecError::out_of_range(
                "the step of range() is 0: it would never end",
            ));
        }
        let empty = if step > 0 { start > end } else { start < end };
        Ok(Self {
            next: (!empty).then_some(start),
            end,
            step,
        })
    }

    /// How many numbers remain.
    pub(crate) fn remaining(&self) -> u64 {
        self.next.map_or(0, |next| {
            (next.abs_diff(self.end) / self.step.unsigned_abs()).saturating_add(1)
        })
    }
}

impl Iterator for IntegerRange {
    type Item = i64;

    fn next(&mut self) -> Option<i64> {
        let now = self.next?;
        self.next = now.checked_add(self.step).filter(|&next| {
            if self.step > 0 {
                next <= self.end
            } else {
                next >= self.end
            }
        });
        Some(now)
    }
}

fn range(args: &[Value], env: &dyn Environment) -> Result<Value> {
    let range = IntegerRange::new(args)?;
    let count = usize::try_from(range.remaining()).unwrap_or(usize::MAX);
    env.allow_bytes(count.saturating_mul(size_of::<Value>()))?;
    Ok(list(range.map(Value::Int).collect()))
}
