//! Functions on dates, times, date-times and durations; arithmetic and fields of them.

use isomer_plan::{expr::Arithmetic, function::Function as Builtin};
use isomer_value::Value;

use super::{Function, lenient};
use crate::error::Result;

pub(super) fn find(function: Builtin) -> Option<Function> {
    match function {
        Builtin::Timestamp => {
            lenient(|_, env| Ok(Value::Int(env.statement_time().as_millisecond())))
        }
        _ => None,
    }
}

/// A temporal value as text; none for other values.
pub(super) fn to_text(_value: &Value) -> Option<String> {
    None
}

/// Arithmetic with a temporal value on at least one side; none where there is no such operation.
pub(crate) fn arithmetic(_op: Arithmetic, _left: &Value, _right: &Value) -> Option<Result<Value>> {
    None
}

/// `value.name` of a temporal value; none for other values.
pub(super) fn field(_value: &Value, _name: &str) -> Option<Result<Value>> {
    None
}
