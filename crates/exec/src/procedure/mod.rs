//! Procedures: their interface, those of the language, and functions that other crates register.

#[cfg(feature = "algorithms")]
mod algorithms;
mod apoc;
mod builtins;
mod estimate;
#[cfg(feature = "algorithms")]
mod gds;
mod indexes;
mod neo4j;
#[cfg(feature = "algorithms")]
mod network;
mod paths;
mod schema_facts;
mod settings;
mod standard;
mod statistics;
mod table;

use std::sync::Arc;

use isomer_data::Transaction;
use isomer_plan::catalog::{FunctionSignature, ProcedureSignature};
use isomer_value::Value;
use isomer_views::{ViewReader, ViewsAt};
use rustc_hash::FxHashMap;

use crate::{
    error::{ErrorClass, ExecError, Result},
    host::Host,
    limits::{LimitGuard, Stop},
    result::{Counters, RunningQueries},
};

/// A procedure: called once per row, returns any number of rows.
pub trait Procedure: Send + Sync {
    /// Its name, parameters and results.
    fn signature(&self) -> &Arc<ProcedureSignature>;
    /// Runs it. `arguments` has one value per parameter, already of the declared type; rows are passed to
    /// [`CallContext::emit`].
    fn call(&self, arguments: &[Value], call: &mut CallContext<'_>) -> Result<()>;
    /// What it does, in one line.
    fn description(&self) -> Option<&'static str> {
        None
    }
}

/// What a call may use of the database in addition to its transaction.
#[cfg(feature = "algorithms")]
#[derive(Clone)]
pub(crate) struct CallDatabase {
    /// Plans statements, and holds the graphs in memory.
    pub(crate) planner: Arc<dyn crate::projection::StatementPlanner>,
    /// For the statements that it runs.
    pub(crate) registry: Arc<Registry>,
    /// For the statements that it runs.
    pub(crate) views: Option<Arc<isomer_views::Views>>,
}

/// Makes the graph in memory of the rows of an aggregation, for a user.
#[cfg(feature = "algorithms")]
pub(crate) type GraphMaker = fn(
    &[Value],
    Option<&dyn crate::projection::StatementPlanner>,
    &Arc<str>,
    &Transaction,
    &dyn crate::function::Environment,
) -> Result<Value>;

/// One call of a procedure: its transaction, its limits, and the consumer of its rows.
pub struct CallContext<'a> {
    pub(crate) transaction: &'a mut Transaction,
    /// The views at the transaction's version.
    pub(crate) views: &'a ViewsAt,
    pub(crate) watch: &'a mut LimitGuard,
    /// Consumes a row; the watch is the call's own.
    pub(crate) sink: &'a mut dyn FnMut(Vec<Value>, &mut LimitGuard) -> Result<()>,
    /// The registry of running queries.
    pub(crate) running: Option<Arc<dyn RunningQueries>>,
    /// The program that runs the database.
    pub(crate) host: Option<Arc<dyn Host>>,
    /// The database, for statements within the call and for its graphs in memory.
    #[cfg(feature = "algorithms")]
    pub(crate) database: Option<CallDatabase>,
    /// What it has changed.
    pub(crate) counters: Counters,
    /// Bytes of the query's memory that this call holds.
    held_bytes: usize,
}

impl<'a> CallContext<'a> {
    pub(crate) fn new(
        transaction: &'a mut Transaction,
        views: &'a ViewsAt,
        watch: &'a mut LimitGuard,
        sink: &'a mut dyn FnMut(Vec<Value>, &mut LimitGuard) -> Result<()>,
    ) -> Self {
        Self {
            transaction,
            views,
            watch,
            sink,
            running: None,
            host: None,
            #[cfg(feature = "algorithms")]
            database: None,
            counters: Counters::default(),
            held_bytes: 0,
        }
    }

    /// With what it may ask about the program that runs the database.
    pub(crate) fn with_program(
        mut self,
        running: Option<Arc<dyn RunningQueries>>,
        host: Option<Arc<dyn Host>>,
    ) -> Self {
        self.running = running;
        self.host = host;
        self
    }

    /// With the database.
    #[cfg(feature = "algorithms")]
    pub(crate) fn with_database(mut self, database: Option<CallDatabase>) -> Self {
        self.database = database;
        self
    }

    /// The transaction it runs in.
    pub fn transaction(&mut self) -> &mut Transaction {
        self.transaction
    }

    /// The transaction's data, from read views if they are available.
    pub fn reader(&self) -> ViewReader<'_> {
        ViewReader::new(self.transaction, self.views)
    }

    /// Emits a row: one value per result. The caller must propagate errors.
    pub fn emit(&mut self, row: Vec<Value>) -> Result<()> {
        self.watch.tick(1)?;
        (self.sink)(row, self.watch)
    }

    /// Counts units of work; fails when the query must stop.
    pub fn tick(&mut self, steps: usize) -> Result<()> {
        self.watch.tick(steps)
    }

    /// Reserves memory of the query, until the call ends or [`CallContext::release`].
    pub fn hold(&mut self, bytes: usize) -> Result<()> {
        self.watch.hold(bytes)?;
        self.held_bytes += bytes;
        Ok(())
    }

    /// Releases reserved memory.
    pub fn release(&mut self, bytes: usize) {
        let bytes = bytes.min(self.held_bytes);
        self.held_bytes -= bytes;
        self.watch.release(bytes);
    }

    /// The stop condition, for threads that work for this call.
    pub fn stop(&self) -> Stop {
        self.watch.stop()
    }
}

impl Drop for CallContext<'_> {
    fn drop(&mut self) {
        self.watch.release(self.held_bytes);
    }
}

/// A function of values alone.
pub trait ScalarFunction: Send + Sync {
    /// Its name, parameters and result.
    fn signature(&self) -> &Arc<FunctionSignature>;
    /// Runs it.
    fn call(&self, arguments: &[Value]) -> Result<Value>;
    /// What it gives, in one line.
    fn description(&self) -> Option<&'static str> {
        None
    }
}

/// Functions and procedures in addition to the built-in functions. Names are case-insensitive.
#[derive(Clone, Default)]
pub struct Registry {
    procedures: FxHashMap<String, Arc<dyn Procedure>>,
    functions: FxHashMap<String, Arc<dyn ScalarFunction>>,
    #[cfg(feature = "algorithms")]
    graph_maker: Option<GraphMaker>,
}

impl Registry {
    /// What makes the graphs of the aggregation `gds.graph.project`.
    #[cfg(feature = "algorithms")]
    pub(crate) fn graph_maker(&self) -> Option<GraphMaker> {
        self.graph_maker
    }

    /// An empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers a procedure; replaces one of the same name.
    pub fn add_procedure(&mut self, procedure: Arc<dyn Procedure>) {
        self.procedures
            .insert(procedure.signature().name.to_lowercase(), procedure);
    }

    /// Registers a function; replaces one of the same name.
    pub fn add_function(&mut self, function: Arc<dyn ScalarFunction>) {
        self.functions
            .insert(function.signature().name.to_lowercase(), function);
    }

    /// The procedure of this name.
    pub fn procedure(&self, name: &str) -> Option<&Arc<dyn Procedure>> {
        self.procedures.get(&name.to_lowercase())
    }

    /// The function of this name.
    pub fn function(&self, name: &str) -> Option<&Arc<dyn ScalarFunction>> {
        self.functions.get(&name.to_lowercase())
    }

    /// All procedures, by name.
    pub fn procedures(&self) -> Vec<&Arc<dyn Procedure>> {
        let mut all: Vec<_> = self.procedures.values().collect();
        all.sort_by(|a, b| a.signature().name.cmp(&b.signature().name));
        all
    }

    /// All functions, by name.
    pub fn functions(&self) -> Vec<&Arc<dyn ScalarFunction>> {
        let mut all: Vec<_> = self.functions.values().collect();
        all.sort_by(|a, b| a.signature().name.cmp(&b.signature().name));
        all
    }
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registry")
            .field("procedures", &self.procedures.len())
            .field("functions", &self.functions.len())
            .finish()
    }
}

/// The error for a procedure that existed when the query was planned and was removed since.
pub(crate) fn procedure_not_found(name: &str) -> ExecError {
    ExecError::raised(
        ErrorClass::ProcedureError,
        "ProcedureNotFound",
        format!("there is no procedure or function {name}"),
    )
}
