//! What the procedures take: their database, their user, and texts.

use std::sync::Arc;

use isomer_value::Value;

use crate::{
    error::{ExecError, Result, shown},
    procedure::{CallContext, CallDatabase, settings::refused},
};

/// The database of a call; refused in a statement that a procedure runs.
pub(super) fn database(procedure: &str, call: &CallContext<'_>) -> Result<CallDatabase> {
    call.database.clone().ok_or_else(|| {
        ExecError::Unsupported(format!(
            "{procedure} needs a database with graphs in memory: call it in a separate statement, not in a query \
             that a procedure runs"
        ))
    })
}

/// The user whose graphs a call sees; empty in a program.
pub(super) fn user(call: &CallContext<'_>) -> Arc<str> {
    let host = call.host.as_ref();
    host.map(|host| host.user_name()).unwrap_or_default()
}

/// A text argument.
pub(super) fn text(
    procedure: &str,
    arguments: &[Value],
    at: usize,
    name: &str,
) -> Result<Arc<str>> {
    match arguments.get(at) {
        Some(Value::String(text)) => Ok(text.clone()),
        other => {
            let given = shown(other.unwrap_or(&Value::Null));
            Err(refused(
                procedure,
                format!("`{name}` is a string, not {given}"),
            ))
        }
    }
}
