//! Operations of the language on convergent fields.

use isomer_data::ConvergentOp;
use isomer_plan::function::Convergence;
use isomer_value::Value;

use crate::error::{ExecError, Result, shown};

/// Applies the operations to the field, one after the other. A null argument is a no-op, and nulls within a list are
/// skipped: there is nothing to add or remove.
pub(super) fn operations(
    operation: Convergence,
    arguments: Vec<Value>,
) -> Result<Vec<ConvergentOp>> {
    let mut arguments = arguments.into_iter();
    let first = arguments.next().unwrap_or_default();
    let name = operation.name();
    let each = |make: fn(Value) -> ConvergentOp| {
        Ok(items(name, first.clone())?.into_iter().map(make).collect())
    };
    let one = |make: fn(Value) -> ConvergentOp| {
        let given = Some(first.clone()).filter(|value| !value.is_null());
        Ok(given.map(make).into_iter().collect())
    };
    match operation {
        Convergence::CounterAdd | Convergence::CounterSubtract => {
            let by = match &first {
                Value::Null => return Ok(Vec::new()),
                Value::Int(by) => *by,
                other => {
                    return Err(ExecError::type_error(format!(
                        "{name}() takes an integer, not {}",
                        shown(other)
                    )));
                }
            };
            let by = match operation {
                Convergence::CounterAdd => Some(by),
                _ => by.checked_neg(),
            };
            let by = by.ok_or_else(|| {
                ExecError::type_error(format!("{name}() does not accept the smallest integer"))
            })?;
            Ok(vec![ConvergentOp::Count(by)])
        }
        Convergence::SetAdd => one(ConvergentOp::Insert),
        Convergence::SetAddAll => each(ConvergentOp::Insert),
        Convergence::SetRemove => one(ConvergentOp::Remove),
        Convergence::SetRemoveAll => each(ConvergentOp::Remove),
        Convergence::GrowSetAdd => one(ConvergentOp::InsertGrowing),
        Convergence::GrowSetAddAll => each(ConvergentOp::InsertGrowing),
        Convergence::RegisterSet if first.is_null() => Ok(vec![ConvergentOp::Clear]),
        Convergence::RegisterSet => one(ConvergentOp::Assign),
        Convergence::MultiSet if first.is_null() => Ok(vec![ConvergentOp::Clear]),
        Convergence::MultiSet => one(ConvergentOp::AssignMulti),
        Convergence::FlagEnable => Ok(vec![ConvergentOp::Enable]),
        Convergence::FlagDisable => Ok(vec![ConvergentOp::Disable]),
        Convergence::HllAdd | Convergence::HllAddAll => {
            let precision = match arguments.next() {
                None | Some(Value::Null) => None,
                Some(Value::Int(given)) => Some(u8::try_from(given).unwrap_or(u8::MAX)),
                Some(other) => {
                    return Err(ExecError::type_error(format!(
                        "the precision of {name}() is an integer, not {}",
                        shown(&other)
                    )));
                }
            };
            let values = match operation {
                Convergence::HllAddAll => items(name, first)?,
                _ if first.is_null() => Vec::new(),
                _ => vec![first],
            };
            let observe = |value| ConvergentOp::Observe(value, precision);
            Ok(values.into_iter().map(observe).collect())
        }
    }
}

/// The elements of a list that are not null.
fn items(name: &str, value: Value) -> Result<Vec<Value>> {
    match value {
        Value::Null => Ok(Vec::new()),
        Value::List(items) => Ok(items
            .iter()
            .filter(|item| !item.is_null())
            .cloned()
            .collect()),
        other => Err(ExecError::type_error(format!(
            "{name}() takes a list, not {}",
            shown(&other)
        ))),
    }
}
