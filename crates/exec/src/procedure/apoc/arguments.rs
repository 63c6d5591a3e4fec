//! The arguments of a call as APOC's functions read them, and what several of them need.

use isomer_plan::expr::StaticType;
use isomer_value::{Map, Value, json, temporal};

use crate::error::{ErrorClass, ExecError, Result, shown};

/// The kind of a list of any values. The planner does not know more about the results of these functions.
pub(super) const LIST: StaticType = StaticType::Any;
/// The kind of a map.
pub(super) const MAP: StaticType = StaticType::Any;

/// The arguments of a call.
#[derive(Clone, Copy)]
pub(super) struct Arguments<'a> {
    function: &'static str,
    values: &'a [Value],
}

impl<'a> Arguments<'a> {
    pub(super) fn new(function: &'static str, values: &'a [Value]) -> Self {
        Self { function, values }
    }

    pub(super) fn value(self, at: usize) -> &'a Value {
        self.values.get(at).unwrap_or(&Value::Null)
    }

    /// A list; none for null.
    pub(super) fn list(self, at: usize) -> Result<Option<&'a [Value]>> {
        match self.value(at) {
            Value::Null => Ok(None),
            Value::List(items) => Ok(Some(items)),
            other => Err(self.wrong("a list", other)),
        }
    }

    /// A map; none for null.
    pub(super) fn map(self, at: usize) -> Result<Option<&'a Map>> {
        match self.value(at) {
            Value::Null => Ok(None),
            Value::Map(map) => Ok(Some(map)),
            other => Err(self.wrong("a map", other)),
        }
    }

    /// A text; none for null.
    pub(super) fn text(self, at: usize) -> Result<Option<&'a str>> {
        match self.value(at) {
            Value::Null => Ok(None),
            Value::String(text) => Ok(Some(text)),
            other => Err(self.wrong("a string", other)),
        }
    }

    /// An integer; none for null.
    pub(super) fn integer(self, at: usize) -> Result<Option<i64>> {
        match self.value(at) {
            Value::Null => Ok(None),
            Value::Int(number) => Ok(Some(*number)),
            other => Err(self.wrong("an integer", other)),
        }
    }

    pub(super) fn boolean(self, at: usize) -> Result<bool> {
        match self.value(at) {
            Value::Null => Ok(false),
            Value::Bool(value) => Ok(*value),
            other => Err(self.wrong("true or false", other)),
        }
    }

    pub(super) fn wrong(self, takes: &str, got: &Value) -> ExecError {
        let function = self.function;
        ExecError::type_error(format!("{function}() takes {takes}, not {}", shown(got)))
    }

    pub(super) fn invalid(self, why: impl std::fmt::Display) -> ExecError {
        invalid(self.function, why)
    }
}

/// The error for an argument of the right type and with an invalid value.
pub(super) fn invalid(function: &str, why: impl std::fmt::Display) -> ExecError {
    ExecError::raised(
        ErrorClass::ArgumentError,
        "InvalidArgumentValue",
        format!("{function}(): {why}"),
    )
}

/// A value as text, as `toString` in Java prints it: texts without quotes, null as `null`.
pub(super) fn plain_text(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::String(text) => text.to_string(),
        Value::Float(number) => crate::function::float_text(*number),
        other => temporal::to_text(other)
            .or_else(|| json::to_string(other).ok())
            .unwrap_or_default(),
    }
}
