//! Procedures and functions that others add to the language.

use std::sync::{Arc, OnceLock};

use isomer_data::Transaction;
use isomer_plan::catalog::{FunctionSignature, ProcedureSignature};
use isomer_value::Value;
use rustc_hash::FxHashMap;

use crate::error::{ErrorClass, ExecError, Result};

/// A procedure: called once per row, gives any number of rows.
pub trait Procedure: Send + Sync {
    /// Its name, parameters and results.
    fn signature(&self) -> &Arc<ProcedureSignature>;
    /// Runs it. `arguments` has one value per parameter, already of the declared kind; every row passed to `emit` has one
    /// value per result. An error of `emit` must be passed on.
    fn call(
        &self,
        arguments: &[Value],
        transaction: &mut Transaction,
        emit: &mut dyn FnMut(Vec<Value>) -> Result<()>,
    ) -> Result<()>;
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
