//! The body of a function, and how it reads its arguments.

use std::sync::Arc;

use isomer_value::{Node, Value};

use super::environment::Environment;
use crate::error::{ExecError, Result, shown};

/// The body of a function. The binder has checked the number of arguments.
pub(crate) type Body = fn(&[Value], &dyn Environment) -> Result<Value>;

/// An entry of the function table.
#[derive(Clone, Copy)]
pub(crate) struct Function {
    /// Whether a null argument makes the result null without a call.
    pub(crate) strict: bool,
    /// The body.
    pub(crate) body: Body,
}

impl Function {
    /// Calls the function.
    pub(crate) fn call(&self, args: &[Value], env: &dyn Environment) -> Result<Value> {
        if self.strict && args.iter().any(Value::is_null) {
            return Ok(Value::Null);
        }
        (self.body)(args, env)
    }
}

/// A function that maps null to null.
pub(super) const fn strict(body: Body) -> Option<Function> {
    Some(Function { strict: true, body })
}

/// A function that handles null itself.
pub(super) const fn lenient(body: Body) -> Option<Function> {
    Some(Function {
        strict: false,
        body,
    })
}

/// The error for an argument of the wrong type.
pub(super) fn wrong(function: &str, expected: &str, got: &Value) -> ExecError {
    ExecError::type_error(format!("{function}() takes {expected}, not {}", shown(got)))
}

pub(super) fn text<'a>(function: &str, value: &'a Value) -> Result<&'a Arc<str>> {
    match value {
        Value::String(text) => Ok(text),
        other => Err(wrong(function, "a string", other)),
    }
}

pub(super) fn integer(function: &str, value: &Value) -> Result<i64> {
    match value {
        Value::Int(i) => Ok(*i),
        other => Err(wrong(function, "an integer", other)),
    }
}

pub(super) fn number(function: &str, value: &Value) -> Result<f64> {
    match value {
        Value::Int(i) => Ok(*i as f64),
        Value::Float(f) => Ok(*f),
        other => Err(wrong(function, "a number", other)),
    }
}

pub(super) fn node<'a>(function: &str, value: &'a Value) -> Result<&'a Node> {
    match value {
        Value::Node(node) => Ok(node),
        other => Err(wrong(function, "a node", other)),
    }
}

pub(super) fn string(text: impl Into<Arc<str>>) -> Value {
    Value::String(text.into())
}

pub(super) fn list(items: Vec<Value>) -> Value {
    Value::List(Arc::new(items))
}
