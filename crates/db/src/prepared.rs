//! Prepared queries.

use std::sync::Arc;

use isomer_data::{Access, Transaction};
use isomer_plan::physical::{StatementClass, StatementMode};
use isomer_value::Map;
use parking_lot::RwLock;

use crate::{
    Database, IntoParameters, QueryOptions, QueryResult, ReadTransaction, Result,
    cache::Ready,
    catalog::planned_version,
    layers::LayerResult as _,
    parameters::checked,
    statement::{self, Statement},
};

impl Database {
    /// Prepares a query that will run many times with other parameters.
    ///
    /// ```
    /// use isomerdb::{Database, params};
    ///
    /// let db = Database::open_in_memory()?;
    /// db.query("UNWIND range(1, 10) AS n CREATE (:Number {_key: n, square: n * n})")?;
    /// let square = db.prepare("MATCH (n:Number {_key: $n}) RETURN n.square AS square")?;
    /// for n in 1..=10 {
    ///     assert_eq!(square.query(params! { "n" => n })?.single()?.get::<i32>("square")?, n * n);
    /// }
    /// # Ok::<(), isomerdb::Error>(())
    /// ```
    pub fn prepare(&self, text: &str) -> Result<Prepared> {
        Prepared::new(self.clone(), text)
    }
}

impl ReadTransaction {
    /// Runs a prepared query and collects its rows.
    pub fn query_prepared(
        &self,
        prepared: &Prepared,
        parameters: impl IntoParameters,
    ) -> Result<QueryResult> {
        let parameters = checked(parameters.into_parameters())?;
        self.run_prepared(prepared, &parameters, &QueryOptions::default())
    }

    pub(crate) fn run_prepared(
        &self,
        prepared: &Prepared,
        parameters: &Map,
        options: &QueryOptions,
    ) -> Result<QueryResult> {
        let statement = self.noted(prepared.statement(&*self.borrow()?))?;
        self.gather(&statement, parameters, options)
    }
}

/// What a run of a [`Prepared`] query takes: [parameters](IntoParameters), or a pair of parameters and
/// [`QueryOptions`] that differ from the database's.
#[derive(Clone, Debug)]
pub struct Arguments<'o> {
    parameters: Map,
    options: Option<&'o QueryOptions>,
}

impl<P: IntoParameters> From<P> for Arguments<'_> {
    fn from(parameters: P) -> Self {
        Self {
            parameters: parameters.into_parameters(),
            options: None,
        }
    }
}

impl<'o, P: IntoParameters> From<(P, &'o QueryOptions)> for Arguments<'o> {
    fn from((parameters, options): (P, &'o QueryOptions)) -> Self {
        Self {
            parameters: parameters.into_parameters(),
            options: Some(options),
        }
    }
}

/// A query that was prepared once and runs many times: see [`Database::prepare`].
pub struct Prepared {
    db: Database,
    text: Arc<str>,
    ready: RwLock<Ready>,
}

impl Prepared {
    pub(crate) fn new(db: Database, text: &str) -> Result<Self> {
        let statement = db.begin_read()?.statement(text)?;
        Ok(Self {
            db,
            text: statement.text,
            ready: RwLock::new(statement.ready),
        })
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The names of its result's columns.
    pub fn columns(&self) -> Vec<Arc<str>> {
        self.ready.read().plan.columns.clone()
    }

    /// Its plan as text with `?` in place of every constant, for output that must not show data, such as a log.
    pub fn outline(&self) -> String {
        isomer_plan::explain::outline(&self.ready.read().plan)
    }

    /// The names of its parameters.
    pub fn parameters(&self) -> Vec<Arc<str>> {
        self.ready.read().plan.parameters.clone()
    }

    /// Whether it only reads.
    pub fn is_read_only(&self) -> bool {
        self.ready.read().plan.class == StatementClass::Read
    }

    /// Whether it begins with `EXPLAIN`: it returns its plan instead of running.
    pub fn is_explain(&self) -> bool {
        self.ready.read().plan.mode == StatementMode::Explain
    }

    /// Whether it begins with `PROFILE`: it runs and returns its plan with a profile.
    pub fn is_profile(&self) -> bool {
        self.ready.read().plan.mode == StatementMode::Profile
    }

    /// Runs it in its own transaction: see [`Database::query`]. Takes parameters, or a pair of parameters and
    /// [`QueryOptions`].
    ///
    /// ```
    /// use isomerdb::{Database, QueryOptions, params};
    /// use std::time::Duration;
    ///
    /// let db = Database::open_in_memory()?;
    /// let double = db.prepare("RETURN 2 * $n AS n")?;
    /// assert_eq!(double.query(params! { "n" => 4 })?.single()?.get::<i32>("n")?, 8);
    /// let options = QueryOptions::new().time_limit(Duration::from_secs(1));
    /// assert_eq!(double.query((params! { "n" => 5 }, &options))?.single()?.get::<i32>("n")?, 10);
    /// # Ok::<(), isomerdb::Error>(())
    /// ```
    pub fn query<'o>(&self, arguments: impl Into<Arguments<'o>>) -> Result<QueryResult> {
        let arguments = arguments.into();
        let parameters = checked(arguments.parameters)?;
        let default = QueryOptions::default();
        let options = arguments.options.unwrap_or(&default);
        if let Some(result) = self.read_point(&parameters, options)? {
            return Ok(result);
        }
        self.db.retrying(|| {
            let access = match self.is_read_only() {
                true => Access::Read,
                false => self.db.most_access(),
            };
            let transaction = ReadTransaction::begin_for_statement(self.db.clone(), access)?;
            let result = transaction.run_prepared(self, &parameters, options)?;
            transaction.finish()?;
            Ok(result)
        })
    }

    /// Executes a point read; none if it is not one, or must run as a pipeline.
    fn read_point(&self, parameters: &Map, options: &QueryOptions) -> Result<Option<QueryResult>> {
        let ready = self.ready.read();
        let Some(point) = &ready.point else {
            return Ok(None);
        };
        let transaction = self.db.store()?.begin(Access::Read).lift()?;
        if ready.plan.schema_version != planned_version(&transaction) {
            return Ok(None);
        }
        let limits = &self.db.inner.options.limits;
        point.read(&transaction, &ready, parameters, options, limits)
    }

    /// The plan, made again if the schema or the size of the database changed.
    pub(crate) fn statement(&self, transaction: &Transaction) -> Result<Statement> {
        let ready = self.ready.read().clone();
        if statement::is_valid(&ready, transaction) {
            return Ok(Statement {
                text: self.text.clone(),
                ready,
            });
        }
        let ready = statement::make(
            &self.db,
            transaction,
            &self.text,
            &isomer_cypher::normalise(&self.text),
        )?;
        *self.ready.write() = ready.clone();
        Ok(Statement {
            text: self.text.clone(),
            ready,
        })
    }
}

impl std::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prepared")
            .field("text", &self.text)
            .finish_non_exhaustive()
    }
}
