//! Procedures: what one is, those of the language itself, and functions that others add.

mod algorithms;
mod estimate;
mod network;
mod paths;
mod settings;
mod statistics;

use std::sync::{Arc, OnceLock};

use isomer_data::Transaction;
use isomer_plan::catalog::{FunctionSignature, ProcedureSignature};
use isomer_value::Value;
use isomer_views::{Reader, ViewsAt};
use rustc_hash::FxHashMap;

use crate::{
    error::{ErrorClass, ExecError, Result},
    limits::{Stop, Watch},
};

/// A procedure: called once per row, gives any number of rows.
pub trait Procedure: Send + Sync {
    /// Its name, parameters and results.
    fn signature(&self) -> &Arc<ProcedureSignature>;
    /// Runs it. `arguments` has one value per parameter, already of the declared kind; its rows go to [`Call::emit`].
    fn call(&self, arguments: &[Value], call: &mut Call<'_>) -> Result<()>;
}

/// One call of a procedure: where it reads and writes, what it may take, and where its rows go.
pub struct Call<'a> {
    pub(crate) transaction: &'a mut Transaction,
    /// Those of the transaction's version.
    pub(crate) views: &'a ViewsAt,
    pub(crate) watch: &'a mut Watch,
    /// Takes a row; the watch is the call's own.
    pub(crate) sink: &'a mut dyn FnMut(Vec<Value>, &mut Watch) -> Result<()>,
    /// Bytes that this call holds of what the query may.
    held_bytes: usize,
}

impl<'a> Call<'a> {
    pub(crate) fn new(
        transaction: &'a mut Transaction,
        views: &'a ViewsAt,
        watch: &'a mut Watch,
        sink: &'a mut dyn FnMut(Vec<Value>, &mut Watch) -> Result<()>,
    ) -> Self {
        Self {
            transaction,
            views,
            watch,
            sink,
            held_bytes: 0,
        }
    }

    /// The transaction it runs in.
    pub fn transaction(&mut self) -> &mut Transaction {
        self.transaction
    }

    /// What the transaction sees, from read views where they stand.
    pub fn reader(&self) -> Reader<'_> {
        Reader::new(self.transaction, self.views)
    }

    /// Gives a row: one value per result. An error must be passed on.
    pub fn emit(&mut self, row: Vec<Value>) -> Result<()> {
        self.watch.tick(1)?;
        (self.sink)(row, self.watch)
    }

    /// Counts so many steps of work; answers an error when the query is to stop.
    pub fn tick(&mut self, steps: usize) -> Result<()> {
        self.watch.tick(steps)
    }

    /// Takes so many bytes of what the query may hold, until the call ends or [`Call::release`].
    pub fn hold(&mut self, bytes: usize) -> Result<()> {
        self.watch.hold(bytes)?;
        self.held_bytes += bytes;
        Ok(())
    }

    /// Gives back what was held.
    pub fn release(&mut self, bytes: usize) {
        let bytes = bytes.min(self.held_bytes);
        self.held_bytes -= bytes;
        self.watch.release(bytes);
    }

    /// When to stop, for threads that work for this call.
    pub fn stop(&self) -> Stop {
        self.watch.stop()
    }
}

impl Drop for Call<'_> {
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
}

/// What can be called beside the built-in functions. Names are found whatever their case.
#[derive(Clone, Default)]
pub struct Registry {
    procedures: FxHashMap<String, Arc<dyn Procedure>>,
    functions: FxHashMap<String, Arc<dyn ScalarFunction>>,
}

impl Registry {
    /// Nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// The procedures that belong to the language.
    pub fn with_builtins() -> Self {
        let mut registry = Self::new();
        crate::builtin::register(&mut registry);
        crate::files::register(&mut registry);
        algorithms::register(&mut registry);
        paths::register(&mut registry);
        statistics::register(&mut registry);
        registry
    }

    /// [`Registry::with_builtins`], made once and shared.
    pub(crate) fn builtins() -> Arc<Self> {
        static BUILTINS: OnceLock<Arc<Registry>> = OnceLock::new();
        BUILTINS
            .get_or_init(|| Arc::new(Self::with_builtins()))
            .clone()
    }

    /// Adds a procedure, or replaces the one of its name.
    pub fn add_procedure(&mut self, procedure: Arc<dyn Procedure>) {
        self.procedures
            .insert(procedure.signature().name.to_lowercase(), procedure);
    }

    /// Adds a function, or replaces the one of its name.
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

/// The error of a procedure that was there when the query was planned and is not any more.
pub(crate) fn gone(name: &str) -> ExecError {
    ExecError::raised(
        ErrorClass::ProcedureError,
        "ProcedureNotFound",
        format!("there is no procedure or function {name}"),
    )
}
