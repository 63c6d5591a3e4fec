//! A subset of Neo4j's Graph Data Science library: named graphs in memory, and algorithms on them, `gds.*`.
//!
//! A projection copies a part of the database as the transaction sees it. Algorithms read the copy: later commits do
//! not change it, and its reads are not part of a transaction's footprint.

mod cypher;
mod graph;
mod listing;
mod native;
mod results;
mod run;

use std::sync::Arc;

use isomer_value::Value;

use super::{
    CallContext, CallDatabase, Registry,
    settings::refused,
    table::{register_functions, register_procedures},
};
use crate::error::{ExecError, Result};

/// The database of a call; refused in a statement that a procedure runs.
fn database(procedure: &str, call: &CallContext<'_>) -> Result<CallDatabase> {
    call.database.clone().ok_or_else(|| {
        ExecError::Unsupported(format!(
            "{procedure} needs a database with graphs in memory: call it in a statement of its own, not in a query \
             that a procedure runs"
        ))
    })
}

/// The user whose graphs a call sees; empty in a program.
fn user(call: &CallContext<'_>) -> Arc<str> {
    let host = call.host.as_ref();
    host.map(|host| host.user_name()).unwrap_or_default()
}

/// Registers the procedures and functions.
pub(super) fn register(registry: &mut Registry) {
    register_procedures(registry, native::PROCEDURES);
    register_procedures(registry, cypher::PROCEDURES);
    register_procedures(registry, listing::PROCEDURES);
    run::register(registry);
    register_functions(registry, results::FUNCTIONS);
}

/// A text argument.
fn text(procedure: &str, arguments: &[Value], at: usize, name: &str) -> Result<Arc<str>> {
    match arguments.get(at) {
        Some(Value::String(text)) => Ok(text.clone()),
        other => {
            let given = crate::error::shown(other.unwrap_or(&Value::Null));
            Err(refused(
                procedure,
                format!("`{name}` is a string, not {given}"),
            ))
        }
    }
}
