//! A query with its parameters and options.

use std::{sync::Arc, time::Duration};

use isomer_exec::{CancelHandle, Limits};
use isomer_plan::physical::StatementClass;
use isomer_value::{Map, Value};

use crate::{IntoParameters, QueryOptions, Result, parameters::checked};

/// A query: a text, its parameters, and options that differ from the database's.
///
/// Everything that runs a query takes one, or what becomes one: a text, or a pair of a text and
/// [parameters](IntoParameters).
///
/// ```
/// use isomerdb::{Database, Query, params};
/// use std::time::Duration;
///
/// let db = Database::open_in_memory()?;
/// db.query("CREATE (:City {name: 'Lucca'})")?;
/// db.query(("CREATE (:City {name: $name})", params! { "name" => "Pisa" }))?;
/// let query = Query::new("MATCH (c:City {name: $name}) RETURN c").param("name", "Pisa").time_limit(Duration::from_secs(1));
/// assert_eq!(db.query(query)?.len(), 1);
/// # Ok::<(), isomerdb::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a query does nothing until it is run"]
pub struct Query<'q> {
    text: &'q str,
    parameters: Map,
    options: QueryOptions,
}

impl<'q> Query<'q> {
    /// A query without parameters.
    pub fn new(text: &'q str) -> Self {
        Self {
            text,
            parameters: Map::new(),
            options: QueryOptions::default(),
        }
    }

    /// Sets a parameter.
    pub fn param(mut self, name: impl Into<Arc<str>>, value: impl Into<Value>) -> Self {
        self.parameters.insert(name, value.into());
        self
    }

    /// Sets all parameters.
    pub fn params(mut self, parameters: impl IntoParameters) -> Self {
        self.parameters = parameters.into_parameters();
        self
    }

    /// Sets all options.
    pub fn options(mut self, options: &QueryOptions) -> Self {
        self.options = options.clone();
        self
    }

    /// Sets the limits.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.options = self.options.limits(limits);
        self
    }

    /// Sets the timeout.
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.options = self.options.time_limit(limit);
        self
    }

    /// Lets `handle` cancel the query.
    pub fn cancel(mut self, handle: CancelHandle) -> Self {
        self.options = self.options.cancel(handle);
        self
    }

    /// Refuses a statement of a higher class: see [`QueryOptions::allow`].
    pub fn allow(mut self, class: StatementClass) -> Self {
        self.options = self.options.allow(class);
        self
    }

    /// Its parts; refuses parameters that nest too deep.
    pub(crate) fn into_parts(self) -> Result<(&'q str, Map, QueryOptions)> {
        Ok((self.text, checked(self.parameters)?, self.options))
    }
}

impl<'q, T: AsRef<str> + ?Sized> From<&'q T> for Query<'q> {
    fn from(text: &'q T) -> Self {
        Self::new(text.as_ref())
    }
}

impl<'q, T: AsRef<str> + ?Sized, P: IntoParameters> From<(&'q T, P)> for Query<'q> {
    fn from((text, parameters): (&'q T, P)) -> Self {
        Self::new(text.as_ref()).params(parameters)
    }
}
