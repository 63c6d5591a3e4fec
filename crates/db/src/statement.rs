//! From a text to rows: plan cache, planning, running.

use std::sync::{Arc, atomic::Ordering};

use isomer_cypher::{Normalised, Span, ast::Literal};
use isomer_data::{GraphRead, MemoryKind, Transaction};
use isomer_exec::{Counters, ExecError, Execution, ExecutionOptions, ResultRows};
use isomer_plan::{
    Plan, PlanError,
    explain::text as plan_text,
    physical::{Notice, StatementClass, StatementMode},
};
use isomer_value::{Map, Value};

use crate::{
    Database, Error, ErrorKind, QueryOptions, QueryResult, Result,
    cache::Ready,
    catalog::PlanCatalog,
    layers::{LayerError as _, LayerResult as _},
    result_size::HeldBytes,
    rows::Batch,
    running::Registration,
};

/// A plan is outdated when the number of nodes and relationships has grown or shrunk by this factor since it was made.
const AGEING: u64 = 8;
/// Below this number of nodes and relationships, plans never become outdated.
const SMALL: u64 = 1_000;

/// A text with its plan.
#[derive(Clone, Debug)]
pub(crate) struct Statement {
    pub(crate) text: Arc<str>,
    pub(crate) ready: Ready,
}

impl Statement {
    /// The text's cached plan. It may be outdated: see [`is_valid`].
    pub(crate) fn cached(db: &Database, text: &str) -> Lookup {
        if let Some(ready) = db.inner.plans.get(text) {
            return Lookup {
                known: Some(Self {
                    text: text.into(),
                    ready,
                }),
                normalised: None,
            };
        }
        let normalised = isomer_cypher::normalise(text);
        if normalised.literals.is_empty() {
            return Lookup {
                known: None,
                normalised: Some(normalised),
            };
        }
        let known = db.inner.plans.get(&normalised.key).and_then(|mut ready| {
            ready.lifted = Arc::new(lifted(&normalised));
            let serves = !is_special(&ready.plan, &ready.lifted);
            serves.then(|| Self {
                text: text.into(),
                ready,
            })
        });
        Lookup {
            known,
            normalised: Some(normalised),
        }
    }

    /// The text's plan: from the cache if it is still valid, otherwise planned and cached.
    pub(crate) fn ready(db: &Database, transaction: &Transaction, text: &str) -> Result<Self> {
        Self::reuse_or_plan(db, transaction, text, Self::cached(db, text))
    }

    /// The cached plan if it is still valid, otherwise a new one.
    pub(crate) fn reuse_or_plan(
        db: &Database,
        transaction: &Transaction,
        text: &str,
        lookup: Lookup,
    ) -> Result<Self> {
        match lookup.known {
            Some(statement) if is_valid(&statement.ready, transaction) => Ok(statement),
            _ => {
                let normalised = lookup
                    .normalised
                    .unwrap_or_else(|| isomer_cypher::normalise(text));
                let ready = make(db, transaction, text, &normalised)?;
                let key = if ready.lifted.is_empty() {
                    text
                } else {
                    &normalised.key
                };
                db.inner.plans.put(key, ready.clone());
                Ok(Self {
                    text: text.into(),
                    ready,
                })
            }
        }
    }

    pub(crate) fn reads(&self) -> bool {
        self.ready.plan.class == StatementClass::Read
    }
}

/// The result of a cache lookup.
pub(crate) struct Lookup {
    pub(crate) known: Option<Statement>,
    normalised: Option<Normalised>,
}

/// Whether a plan is still valid for the schema and the size of the database.
pub(crate) fn is_valid(ready: &Ready, transaction: &Transaction) -> bool {
    if ready.plan.schema_version != crate::catalog::planned_version(transaction) {
        return false;
    }
    // New names do not change the schema version: an unknown name may exist by now.
    if ready
        .plan
        .notices
        .iter()
        .any(|notice| notice.code.starts_with("Unknown"))
    {
        return false;
    }
    // The read of a single record has no better plan, for any number of records.
    if ready.point.is_some() {
        return true;
    }
    let size = database_size(transaction);
    let (low, high) = (ready.planned_for.min(size), ready.planned_for.max(size));
    high < SMALL || high / AGEING <= low
}

fn database_size(transaction: &Transaction) -> u64 {
    let nodes = transaction.node_count(None).unwrap_or(0);
    nodes + transaction.relationship_count(None).unwrap_or(0)
}

fn lifted(normalised: &Normalised) -> Map {
    let value = |literal: &Literal| match literal {
        Literal::Null => Value::Null,
        Literal::Bool(truth) => Value::Bool(*truth),
        Literal::Int(number) => Value::Int(*number),
        Literal::Float(number) => Value::Float(*number),
        Literal::String(text) => Value::String(text.clone()),
    };
    normalised
        .literals
        .iter()
        .map(|(name, literal)| (name.as_str(), value(literal)))
        .collect()
}

/// Whether one of the literals is a value that far more or far fewer nodes have than average: the text is then planned
/// for this value, and cached under the text itself.
fn is_special(plan: &Plan, lifted: &Map) -> bool {
    plan.skewed.iter().any(|(parameter, values)| {
        let literal = lifted.get(parameter);
        literal.is_some_and(|literal| values.contains(literal))
    })
}

/// Plans a text: with its literals extracted if that gives a plan, otherwise unchanged, so that errors refer to
/// positions in the user's text.
pub(crate) fn make(
    db: &Database,
    transaction: &Transaction,
    text: &str,
    normalised: &Normalised,
) -> Result<Ready> {
    let planned_for = database_size(transaction);
    if !normalised.literals.is_empty()
        && let Ok(plan) = plan(db, transaction, &normalised.key)
        && plan.notices.is_empty()
    {
        let lifted = lifted(normalised);
        if !is_special(&plan, &lifted) {
            return Ok(Ready::new(plan, lifted, planned_for));
        }
    }
    let plan = plan(db, transaction, text).map_err(|error| {
        let place = error
            .span
            .map(|span| (span, error.message.clone(), error.hint.clone()));
        let made = error.lift();
        match place {
            Some((span, message, hint)) => made.at(text, span, message, hint),
            None => made,
        }
    })?;
    Ok(Ready::new(plan, Map::default(), planned_for))
}

fn plan(db: &Database, transaction: &Transaction, text: &str) -> Result<Arc<Plan>, PlanError> {
    let db = &db.inner;
    let catalog = PlanCatalog::new(transaction, &db.registry, db.options.plan_statistics);
    isomer_plan::prepare(text, &catalog, &db.options.planning)
}

/// Procedures run statements within the transaction of the call.
#[cfg(feature = "algorithms")]
impl isomer_exec::StatementPlanner for crate::database::Inner {
    fn plan(&self, text: &str, transaction: &Transaction) -> Result<Arc<Plan>, ExecError> {
        let catalog = PlanCatalog::new(transaction, &self.registry, self.options.plan_statistics);
        isomer_plan::prepare(text, &catalog, &self.options.planning).map_err(|error| {
            ExecError::raised(
                isomer_exec::ErrorClass::SyntaxError,
                "InvalidArgumentValue",
                format!(
                    "the statement `{text}` cannot be planned: {}",
                    error.message
                ),
            )
        })
    }

    fn graphs(&self) -> &isomer_exec::GraphCatalog {
        &self.graphs
    }
}

/// Who decides what a statement's transaction commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransactionOwner {
    /// The transaction was begun for the statement, and ends with it.
    Statement,
    /// The caller began it.
    Caller,
}

/// A running statement.
pub(crate) struct StatementRun {
    execution: Execution,
    place: Registration,
    pub(crate) columns: Arc<[Arc<str>]>,
    plan: Arc<Plan>,
    /// The plan is for the text with its literals extracted.
    lifted: bool,
}

impl StatementRun {
    /// Starts a statement in a transaction.
    pub(crate) fn start(
        db: &Database,
        transaction: &mut Transaction,
        statement: &Statement,
        parameters: &Map,
        options: &QueryOptions,
        owner: TransactionOwner,
    ) -> Result<Self> {
        options.check_allowed(statement.ready.plan.class)?;
        let inner = &db.inner;
        let is_secret = statement.ready.plan.has_secrets();
        let user = options.host.as_ref().map(|host| host.user_name());
        let user = user.unwrap_or_default();
        let cancel = options.cancel.clone();
        let place = inner
            .running
            .enter(&statement.text, is_secret, user, cancel);
        let mut options = ExecutionOptions {
            limits: options.resolved_limits(&inner.options.limits),
            cancel: options.cancel.clone(),
            registry: inner.registry.clone(),
            running: Some(inner.running.clone()),
            host: options.host.clone(),
            csv_folder: inner.options.csv_folder.clone(),
            csv_urls: inner.options.csv_urls.clone(),
            views: Some(inner.views.clone()),
            #[cfg(feature = "algorithms")]
            planner: Some(inner.clone()),
            workers: inner.options.workers,
            own_commits: match owner {
                TransactionOwner::Statement => Some(inner.options.durability),
                TransactionOwner::Caller => None,
            },
            ..ExecutionOptions::default()
        };
        if let Some(rows) = inner.options.parallel_rows {
            options.parallel_rows = rows;
        }
        let plan = statement.ready.plan.clone();
        let columns = statement.ready.columns.clone();
        let execution = if statement.ready.lifted.is_empty() {
            Execution::start(plan.clone(), parameters, &options, transaction).lift()?
        } else {
            let mut all = parameters.clone();
            for (name, value) in statement.ready.lifted.iter() {
                all.insert(name.clone(), value.clone());
            }
            Execution::start(plan.clone(), &all, &options, transaction).lift()?
        };
        Ok(Self {
            execution,
            place,
            columns,
            plan,
            lifted: !statement.ready.lifted.is_empty(),
        })
    }

    /// Fills `rows` with the next rows; returns whether there may be more.
    pub(crate) fn next_rows(
        &mut self,
        transaction: &mut Transaction,
        rows: &mut ResultRows,
    ) -> Result<bool> {
        let more = self
            .execution
            .next_rows(transaction, rows)
            .map_err(|error| self.locate_error(error))?;
        self.place
            .query
            .rows
            .fetch_add(rows.len() as u64, Ordering::Relaxed);
        self.place
            .query
            .bytes
            .store(self.execution.held_bytes() as u64, Ordering::Relaxed);
        Ok(more)
    }

    /// Bytes held now.
    pub(crate) fn held_bytes(&self) -> usize {
        self.execution.held_bytes()
    }

    /// The error, with its line if the position is known.
    fn locate_error(&self, error: ExecError) -> Error {
        let place = error.place();
        let made = error.lift();
        let Some((start, end)) = place else {
            return made;
        };
        let text = &self.place.query.text;
        let mut span = Span { start, end };
        if self.lifted {
            span = isomer_cypher::normalise(text).in_text(span);
        }
        let message = made.message().to_owned();
        made.at(text, span, message, None)
    }

    pub(crate) fn class(&self) -> StatementClass {
        self.plan.class
    }

    pub(crate) fn counters(&self) -> Counters {
        *self.execution.counters()
    }

    pub(crate) fn mode(&self) -> StatementMode {
        self.plan.mode
    }

    pub(crate) fn plan_value(&self) -> Option<Value> {
        match self.plan.mode {
            StatementMode::Run => None,
            StatementMode::Explain => Some(isomer_plan::explain::value(&self.plan)),
            StatementMode::Profile => Some(self.execution.explain_value()),
        }
    }

    fn explained(&self) -> Option<String> {
        match self.plan.mode {
            StatementMode::Run => None,
            StatementMode::Explain => Some(plan_text(&self.plan)),
            StatementMode::Profile => Some(self.execution.explain()),
        }
    }

    /// Notices of the plan, and those of the execution so far.
    pub(crate) fn notices(&self) -> Vec<Notice> {
        let notices = self.plan.notices.iter().chain(self.execution.notices());
        notices.cloned().collect()
    }
}

/// A collected result up to this size is not counted against the shared memory budget.
const UNCOUNTED_BYTES: usize = 256 << 10;

/// Runs a statement to its end and collects its rows, within its memory limit.
pub(crate) fn gather(
    db: &Database,
    transaction: &mut Transaction,
    statement: &Statement,
    parameters: &Map,
    options: &QueryOptions,
    owner: TransactionOwner,
) -> Result<QueryResult> {
    let default_limits = &db.inner.options.limits;
    if let Some(point) = &statement.ready.point
        && !db.is_closed()
    {
        let read = point.read(
            transaction,
            &statement.ready,
            parameters,
            options,
            default_limits,
        )?;
        if let Some(result) = read {
            return Ok(result);
        }
    }
    let max_bytes = options.resolved_limits(default_limits).memory_bytes;
    let mut run = StatementRun::start(db, transaction, statement, parameters, options, owner)?;
    if run.plan.mode == StatementMode::Explain {
        // In a collected result, the plan is returned as rows; a stream has no rows, but the columns of the query
        // without `EXPLAIN`.
        let columns: Arc<[Arc<str>]> = Arc::new(["plan".into()]);
        let mut result = QueryResult::of(columns.clone(), run.class());
        let text = plan_text(&run.plan);
        let lines: Vec<Value> = text.lines().map(Value::from).collect();
        let count = lines.len();
        result.push(Batch::new(columns, lines, count));
        result.plan = Some(text);
        result.plan_json = Some(isomer_plan::explain::json(&run.plan));
        result.notices = run.notices();
        return Ok(result);
    }
    let mut result = QueryResult::of(run.columns.clone(), run.class());
    let mut rows = ResultRows::new();
    let mut held = HeldBytes::default();
    // The rows count in the budget until they are dropped.
    let store = db.store()?;
    let mut reservation = store.memory().reservation(MemoryKind::Queries);
    loop {
        let more = run.next_rows(transaction, &mut rows)?;
        let count = rows.len();
        let values = rows.take_values();
        held.add_rows(count, &values);
        if count > 0 {
            result.push(Batch::new(run.columns.clone(), values, count));
        }
        if held.bytes() > max_bytes {
            let message = format!(
                "the result is larger than {} MiB: add LIMIT, stream it, or raise the memory limit",
                max_bytes >> 20
            );
            return Err(Error::new(ErrorKind::Limit, message));
        }
        // Small results never touch the shared budget.
        if held.bytes() > UNCOUNTED_BYTES {
            reservation
                .resize(held.bytes())
                .map_err(isomer_data::DataError::from)
                .lift()?;
        }
        if !more {
            break;
        }
    }
    if reservation.bytes() > 0 {
        result.held = Some(Arc::new(reservation));
    }
    result.counters = run.counters();
    result.plan = run.explained();
    if run.plan.mode == StatementMode::Profile {
        result.plan_json = Some(run.execution.explain_json());
    }
    result.notices = run.notices();
    Ok(result)
}
