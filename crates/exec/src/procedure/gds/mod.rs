//! A subset of Neo4j's Graph Data Science library: named graphs in memory, and algorithms on them, `gds.*`.
//!
//! A projection copies a part of the database as the transaction sees it. Algorithms read the copy: later commits do
//! not change it, and its reads are not part of a transaction's footprint.

mod catalog;
mod cypher;
mod graph;
mod listing;
mod native;
mod results;
mod run;

use std::sync::Arc;

use isomer_data::Transaction;
use isomer_plan::Plan;
use isomer_value::Value;
use isomer_views::Views;

use super::{
    CallContext, Registry,
    settings::refused,
    table::{register_functions, register_procedures},
};
use crate::{
    context::HostAccess,
    error::{ExecError, Result},
};

pub use catalog::GraphCatalog;

/// What a database does for the procedures that run statements or hold graphs.
pub trait StatementPlanner: Send + Sync {
    /// Plans a text for the transaction.
    fn plan(&self, text: &str, transaction: &Transaction) -> Result<Arc<Plan>>;
    /// The graphs in memory.
    fn graphs(&self) -> &GraphCatalog;
}

/// The database of a call.
#[derive(Clone)]
pub(crate) struct Nested {
    planner: Arc<dyn StatementPlanner>,
    registry: Arc<Registry>,
    views: Option<Arc<Views>>,
}

impl Nested {
    pub(super) fn of(access: &HostAccess, registry: &Arc<Registry>) -> Option<Self> {
        Some(Self {
            planner: access.planner.clone()?,
            registry: registry.clone(),
            views: access.views.clone(),
        })
    }
}

/// The database of a call; refused in a statement that a procedure runs.
fn database(procedure: &str, call: &CallContext<'_>) -> Result<Nested> {
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
