//! Truth values.

use isomer_value::Value;

use crate::error::{ErrorClass, ExecError, Result, shown};

/// A truth value; anything but booleans and null is an error.
pub(crate) fn truth(value: &Value, operator: &str) -> Result<Option<bool>> {
    match value {
        Value::Bool(truth) => Ok(Some(*truth)),
        Value::Null => Ok(None),
        other => Err(not_boolean(other, operator)),
    }
}

pub(super) fn not_boolean(value: &Value, operator: &str) -> ExecError {
    ExecError::raised(
        ErrorClass::TypeError,
        "InvalidArgumentType",
        format!("{operator} takes booleans, not {}", shown(value)),
    )
}
