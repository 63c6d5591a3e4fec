//! One execution of a plan: started in a transaction, pulled for rows, resumable between pulls.

use std::{
    path::Path,
    sync::{Arc, OnceLock},
};

use isomer_data::{Durability, GraphRead, Savepoint, Transaction};
use isomer_plan::{
    Plan,
    physical::{Notice, Op, OpId, PlanBody, StatementClass, StatementMode},
};
use isomer_value::{Map, Value, jiff};
use isomer_views::Views;

use crate::{
    chunk::Chunk,
    context::{Cx, ExecutionState, ExternalInputs, write_error},
    download::CsvUrls,
    error::{ErrorClass, ExecError, Result, shown},
    eval::{Row, value},
    host::Host,
    limits::{CancelHandle, LimitGuard, Limits},
    operator::{Argument, Child, Pieces},
    procedure::Registry,
    profiler::Profiler,
    result::{Counters, OperatorProfile, ResultRows, RunningQueries},
};

/// Inputs of an execution in addition to plan, parameters and transaction.
#[derive(Clone)]
pub struct ExecutionOptions {
    /// Its limits.
    pub limits: Limits,
    /// Stops it from another thread.
    pub cancel: CancelHandle,
    /// Procedures and functions in addition to the built-in ones.
    pub registry: Arc<Registry>,
    /// When the transaction began; the statement's own start if absent.
    pub transaction_time: Option<jiff::Timestamp>,
    /// The session's time zone.
    pub time_zone: jiff::tz::TimeZone,
    /// Seed of `rand()` and `randomUUID()`; from the operating system's clock and address space if absent.
    pub seed: Option<u64>,
    /// Provides `SHOW QUERIES`.
    pub running: Option<Arc<dyn RunningQueries>>,
    /// Answers statements about the program that runs the database.
    pub host: Option<Arc<dyn Host>>,
    /// The folder that `LOAD CSV` may read from; `LOAD CSV` is disabled if absent.
    pub csv_folder: Option<Arc<Path>>,
    /// The addresses that `LOAD CSV` may read; none if absent.
    pub csv_urls: Option<CsvUrls>,
    /// Threads that may work for it at once, including the caller's; 0 for the number of cores.
    pub workers: usize,
    /// Minimum number of scanned nodes for which several threads compute an aggregation's rows.
    pub parallel_rows: u64,
    /// How subqueries with `IN TRANSACTIONS` commit, if the statement's transaction is its own. Without it they are
    /// refused: the caller decides what is committed.
    pub own_commits: Option<Durability>,
    /// The database's read views; without them everything is read from the rows.
    pub views: Option<Arc<Views>>,
    /// Plans statements that a procedure runs, and holds the graphs in memory; procedures that need it are refused
    /// without it.
    #[cfg(feature = "algorithms")]
    pub planner: Option<Arc<dyn crate::projection::StatementPlanner>>,
}

impl Default for ExecutionOptions {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            cancel: CancelHandle::new(),
            registry: Registry::builtins(),
            transaction_time: None,
            time_zone: jiff::tz::TimeZone::UTC,
            seed: None,
            running: None,
            host: None,
            csv_folder: None,
            csv_urls: None,
            workers: 0,
            parallel_rows: 16_384,
            own_commits: None,
            views: None,
            #[cfg(feature = "algorithms")]
            planner: None,
        }
    }
}

/// A running statement. It does not own the transaction: each call is given the one it was started in.
///
/// A statement that writes does so while its rows are pulled: pull to the end, or call [`Execution::finish`]. When a
/// call returns an error, everything that the statement wrote is rolled back, and the transaction remains usable.
pub struct Execution {
    run: ExecutionState,
    /// How deep a pull may recurse.
    depth: usize,
    body: State,
    /// The rows that come out of a pipeline.
    pieces: Pieces,
    /// Where its writes begin, if it may write.
    mark: Option<Savepoint>,
    steps: Steps,
    /// Whether it writes in the transaction it is given, rather than in separate transactions.
    writes_here: bool,
    rows_given: u64,
}

enum State {
    Pipeline { root: Child, produces: bool },
    Point,
    Schema,
    Kill,
    Done,
}

/// The steps of an execution that writes, in a transaction that others may use between them.
#[derive(Clone, Copy)]
enum Steps {
    NotBegun,
    /// Nothing else has written since its first step.
    Alone {
        write_count: u64,
    },
    Interleaved,
}

impl Execution {
    /// Prepares to run `plan`. Fails if a parameter is missing. Parameter values must not nest deeper than
    /// [`isomer_value::limits::MAX_NESTING`]: comparing, sorting and printing recurse to that depth.
    pub fn start(
        plan: Arc<Plan>,
        parameters: &Map,
        options: &ExecutionOptions,
        transaction: &mut Transaction,
    ) -> Result<Self> {
        let depth = depth(&plan);
        on_deep_stack(depth, || {
            Self::start_here(plan.clone(), depth, parameters, options, transaction)
        })
    }

    fn start_here(
        plan: Arc<Plan>,
        depth: usize,
        parameters: &Map,
        options: &ExecutionOptions,
        transaction: &mut Transaction,
    ) -> Result<Self> {
        let values = plan
            .parameters
            .iter()
            .map(|name| {
                // A plan that is only shown needs no values.
                if plan.mode == StatementMode::Explain {
                    return Ok(parameters.get(name).cloned().unwrap_or_default());
                }
                let value = parameters.get(name).cloned().ok_or_else(|| {
                    ExecError::raised(
                        ErrorClass::ParameterMissing,
                        "MissingParameter",
                        format!("the query uses ${name} and no value was given for it: pass a parameter of that name"),
                    )
                })?;
                Ok(value)
            })
            .collect::<Result<Vec<_>>>()?;
        let statement_time = jiff::Timestamp::now();
        let external = ExternalInputs {
            statement_time,
            transaction_time: options.transaction_time.unwrap_or(statement_time),
            time_zone: options.time_zone.clone(),
            seed: options.seed.unwrap_or_else(fresh_seed),
        };
        let body = match &plan.body {
            _ if plan.mode == StatementMode::Explain => State::Done,
            PlanBody::Pipeline(root) => State::Pipeline {
                root: Child::build(&plan, *root, &Argument::root()),
                produces: matches!(plan.operator(*root).op, Op::ProduceResult { .. }),
            },
            PlanBody::PointRead(_) => State::Point,
            PlanBody::Schema(_) => State::Schema,
            PlanBody::KillQuery(_) => State::Kill,
        };
        let profiled = plan.mode == StatementMode::Profile;
        let operator_count = plan.operators.len();
        let writes_here = plan.class == StatementClass::Write
            && !plan
                .operators
                .iter()
                .any(|one| matches!(one.op, Op::BatchApply(_)));
        let watch = LimitGuard::new(
            options.limits.clone(),
            options.cancel.clone(),
            transaction.store().memory(),
        );
        let mut run = ExecutionState::new(
            plan,
            values,
            watch,
            options.registry.clone(),
            external,
            &transaction.catalog(),
        );
        run.host.running = options.running.clone();
        run.host.program = options.host.clone();
        run.host.csv_folder = options.csv_folder.clone();
        run.host.csv_urls = options.csv_urls.clone();
        run.host.own_commits = options.own_commits;
        #[cfg(feature = "algorithms")]
        {
            run.host.planner = options.planner.clone();
        }
        run.threads.min_rows = options.parallel_rows as f64;
        run.threads.workers = match options.workers {
            0 => cores(),
            workers => workers,
        };
        if let Some(views) = &options.views {
            run.views = views.at(transaction);
            run.host.views = Some(views.clone());
        }
        run.report.profiler = profiled.then(|| Profiler::new(operator_count));
        Ok(Self {
            run,
            depth,
            body,
            pieces: Pieces::default(),
            mark: None,
            steps: Steps::NotBegun,
            writes_here,
            rows_given: 0,
        })
    }

    /// The names of the result's columns.
    pub fn columns(&self) -> &[Arc<str>] {
        &self.run.plan.columns
    }

    /// Fills `rows` with the next rows, at least one unless there are no more. Returns whether there may be more.
    pub fn next_rows(
        &mut self,
        transaction: &mut Transaction,
        rows: &mut ResultRows,
    ) -> Result<bool> {
        rows.begin(self.run.plan.columns.len());
        if self.writes_here {
            self.mark_writes(transaction);
        }
        let outcome = on_deep_stack(self.depth, || self.advance(transaction, rows));
        match outcome {
            Ok(more) => {
                if let Steps::Alone { write_count } = &mut self.steps {
                    *write_count = transaction.write_count();
                }
                self.rows_given += rows.len() as u64;
                if let Some(limit) = self.run.watch.limits().rows
                    && self.rows_given > limit
                {
                    self.fail(transaction)?;
                    return Err(ExecError::limit(
                        format!("{limit} result rows"),
                        "add LIMIT, read pages with SKIP and LIMIT, or raise the limit",
                    ));
                }
                if !more {
                    self.body = State::Done;
                    // A release takes later savepoints along, which may be those of queries that were begun meanwhile.
                    if let Some(mark) = self.mark.take()
                        && !matches!(self.steps, Steps::Interleaved)
                    {
                        transaction.release(mark);
                    }
                }
                Ok(more)
            }
            Err(error) => {
                rows.clear();
                self.fail(transaction)?;
                Err(error)
            }
        }
    }

    /// Runs to the end and drops the rows that are left.
    pub fn finish(&mut self, transaction: &mut Transaction) -> Result<()> {
        let mut rows = ResultRows::new();
        while self.next_rows(transaction, &mut rows)? {}
        Ok(())
    }

    /// The changes so far.
    pub fn counters(&self) -> &Counters {
        &self.run.report.counters
    }

    /// Notices about the data that it met so far, in addition to those of the plan.
    pub fn notices(&self) -> &[Notice] {
        &self.run.report.notices
    }

    /// Profiles per operator, by [`OpId`], if the plan says `PROFILE`.
    pub fn profile(&self) -> Option<&[OperatorProfile]> {
        Some(self.run.report.profiler.as_ref()?.operators())
    }

    /// The profile of one operator, if the plan says `PROFILE`.
    pub fn operator_profile(&self, id: OpId) -> Option<&OperatorProfile> {
        self.profile()?.get(id.index())
    }

    /// The plan as text, with each operator's profile if the plan says `PROFILE`.
    pub fn explain(&self) -> String {
        let plan = &self.run.plan;
        match self.profile() {
            None => isomer_plan::explain::text(plan),
            Some(profile) => {
                let expected = comparable(plan, profile);
                isomer_plan::explain::annotated_text(plan, &|id| {
                    let figures = profile.get(id.index())?;
                    Some(figures_text(figures, expected[id.index()]))
                })
            }
        }
    }

    /// Like [`Execution::explain`], as a value to be written as JSON: each operator with its estimate as `rows`, and
    /// its profile if the statement was profiled.
    pub fn explain_value(&self) -> Value {
        isomer_plan::explain::annotated_value(&self.run.plan, &|id| self.profile_map(id))
    }

    /// The JSON text of [`Execution::explain_value`].
    pub fn explain_json(&self) -> String {
        isomer_plan::explain::annotated_json(&self.run.plan, &|id| self.profile_map(id))
    }

    fn profile_map(&self, id: OpId) -> Option<Map> {
        Some(self.operator_profile(id)?.to_map())
    }

    /// Peak of the bytes held.
    pub fn peak_bytes(&self) -> usize {
        self.run.watch.peak_bytes()
    }

    /// Bytes spilled to disk so far.
    pub fn spilled_bytes(&self) -> u64 {
        self.run.watch.spilled_bytes()
    }

    /// Bytes held now.
    pub fn held_bytes(&self) -> usize {
        self.run.watch.held_bytes()
    }

    fn advance(&mut self, transaction: &mut Transaction, rows: &mut ResultRows) -> Result<bool> {
        let mut cx = Cx {
            tx: transaction,
            run: &mut self.run,
        };
        match &mut self.body {
            State::Done => Ok(false),
            State::Point => {
                crate::point::read(&mut cx, rows)?;
                Ok(false)
            }
            State::Schema => {
                crate::schema::change(&mut cx)?;
                Ok(false)
            }
            State::Kill => {
                kill(&mut cx)?;
                Ok(false)
            }
            State::Pipeline { root, produces } => {
                let writes = self.mark.is_some();
                if writes {
                    cx.tx.constraints_mut().defer_checks();
                }
                let (produces, id) = (*produces, root.id());
                loop {
                    let piece = self.pieces.next(root, &mut cx, |chunk, cx| {
                        if produces && !chunk.is_empty() {
                            // All writes happen before the first row is returned.
                            check_statement_end(cx, writes)?;
                            crate::hydrate::produce(cx, chunk, id, rows)?;
                        }
                        Ok(())
                    })?;
                    if piece.is_none() {
                        break;
                    }
                    if !rows.is_empty() {
                        return Ok(true);
                    }
                }
                check_statement_end(&mut cx, writes)?;
                // Below a limit, threads may still be running: they stop, and report what they have measured.
                root.close(&mut cx);
                Ok(false)
            }
        }
    }

    /// Sets the savepoint before the first step, and notices writes of others between two steps: a rollback to the
    /// savepoint would take them along.
    fn mark_writes(&mut self, transaction: &mut Transaction) {
        let now = transaction.write_count();
        self.steps = match self.steps {
            Steps::NotBegun => {
                self.mark = Some(transaction.savepoint());
                Steps::Alone { write_count: now }
            }
            Steps::Alone { write_count } if write_count != now => Steps::Interleaved,
            steps => steps,
        };
    }

    /// Rolls back the statement, or where that is impossible refuses the commit of the whole transaction.
    fn fail(&mut self, transaction: &mut Transaction) -> Result<()> {
        self.body = State::Done;
        self.run.report.counters = Counters::default();
        let Some(mark) = self.mark.take() else {
            return Ok(());
        };
        if matches!(self.steps, Steps::Interleaved) || transaction.rollback_to(mark).is_err() {
            transaction.refuse_commit();
        }
        Ok(())
    }
}

/// At the end of a statement: no relationship may be owed, and its writes must satisfy all constraints.
fn check_statement_end(cx: &mut Cx<'_>, writes: bool) -> Result<()> {
    crate::operator::check_owed_relationships(cx)?;
    if writes {
        cx.tx
            .constraints_mut()
            .check_deferred()
            .map_err(write_error)?;
    }
    Ok(())
}

/// A tree of operators is as deep as its statement is long: dropping it recurses as deep as running it.
impl Drop for Execution {
    fn drop(&mut self) {
        if self.depth > SHALLOW {
            let body = std::mem::replace(&mut self.body, State::Done);
            let subplans = std::mem::take(&mut self.run.subplans);
            // If no thread can be started, the closure is dropped here, on the caller's stack: there is no alternative.
            let _ = on_deep_stack(self.depth, move || {
                drop(body);
                drop(subplans);
                Ok(())
            });
        }
    }
}

/// Maximum depth of operators for the caller's own stack: 32 KiB for each, of the 2 MiB that a thread has by default.
const SHALLOW: usize = 64;
/// Stack size for deeper plans: 22 KiB for each of 12,000 operators, three times the planner's maximum, because a step
/// may have two fallbacks. A test measures what an operator takes. Only touched pages take memory.
const DEEP_STACK_BYTES: usize = 256 << 20;

/// How deep running a plan may recurse, at most: exactly if it has more than [`SHALLOW`] operators.
fn depth(plan: &Plan) -> usize {
    match plan.operators.len() {
        few if few <= SHALLOW => few,
        _ => plan.depth(),
    }
}

/// Runs `work` on the caller's stack or, if `depth` operators may recurse too deep for it, on a thread with a larger
/// one.
fn on_deep_stack<T: Send>(depth: usize, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    if depth <= SHALLOW {
        return work();
    }
    std::thread::scope(|scope| {
        let worker = std::thread::Builder::new()
            .name("isomer-deep-query".into())
            .stack_size(DEEP_STACK_BYTES)
            .spawn_scoped(scope, work)
            .map_err(|error| {
                ExecError::limit(
                    format!("{SHALLOW} nested operators on the caller's stack, and a thread with a larger stack could not be started ({error})"),
                    "split the statement, or free memory and threads",
                )
            })?;
        match worker.join() {
            Ok(outcome) => outcome,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Cancels another query.
fn kill(cx: &mut Cx<'_>) -> Result<()> {
    let plan = cx.run.plan.clone();
    let PlanBody::KillQuery(id) = &plan.body else {
        return Err(ExecError::Internal("a kill without its query".into()));
    };
    let empty = Chunk::new(1, 0);
    let id = value(
        id,
        Row {
            chunk: &empty,
            row: 0,
        },
        cx,
    )?;
    match &cx.run.host.running {
        Some(running) if running.kill(&id) => Ok(()),
        Some(_) => Err(ExecError::raised(
            ErrorClass::EntityNotFound,
            "QueryNotFound",
            format!(
                "no running query has the id {}: SHOW QUERIES lists them",
                shown(&id)
            ),
        )),
        None => Err(ExecError::Unsupported(
            "this database has no registry of running queries".into(),
        )),
    }
}

/// The number of cores that this process may use.
fn cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// A seed that differs from call to call.
fn fresh_seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::time::SystemTime::now())
}

/// An operator's profile in its line.
fn figures_text(figures: &OperatorProfile, expected: Option<(f64, bool)>) -> String {
    if !figures.ran() {
        return "rows 0, not run".to_owned();
    }
    let mut text = format!(
        "rows {}{}, {:.3} ms",
        figures.rows,
        missed(expected, figures.rows),
        figures.time.as_secs_f64() * 1e3
    );
    if figures.memory_bytes > 0 {
        text.push_str(&format!(", {} KiB", figures.memory_bytes.div_ceil(1024)));
    }
    if figures.spilled_bytes > 0 {
        text.push_str(&format!(
            ", spilled {} KiB",
            figures.spilled_bytes.div_ceil(1024)
        ));
    }
    match figures.threads {
        0 => {}
        1 => text.push_str(", 1 thread"),
        threads => text.push_str(&format!(", {threads} threads")),
    }
    if figures.from_view {
        text.push_str(", from a view");
    }
    if figures.fell_back {
        text.push_str(", by its fallback");
    }
    text
}

/// The estimates that can be compared with the total rows of an operator: those of operators that ran once, or not at
/// all. Below a limit, which stops them early, only a higher row count than estimated is significant.
fn comparable(plan: &Plan, profile: &[OperatorProfile]) -> Vec<Option<(f64, bool)>> {
    let mut expected = vec![None; plan.operators.len()];
    let isomer_plan::physical::PlanBody::Pipeline(root) = plan.body else {
        return expected;
    };
    let mut open = vec![(root, false)];
    while let Some((id, cut)) = open.pop() {
        let operator = plan.operator(id);
        // An operator and its fallback have one input, so that there may be exponentially many paths to it.
        if expected[id.index()].is_some_and(|(_, known)| known || !cut) {
            continue;
        }
        expected[id.index()] = Some((expected_rows(plan, profile, id), cut));
        let cut = cut || matches!(operator.op, Op::Limit { .. });
        let input = operator.op.children().first().copied();
        let below = input.into_iter().chain(operator.op.fallback());
        open.extend(below.map(|id| (id, cut)));
    }
    expected
}

/// The estimate for what ran: the fallback in place of its operator, and an exchange with its number of threads.
fn expected_rows(plan: &Plan, profile: &[OperatorProfile], mut id: OpId) -> f64 {
    while profile[id.index()].fell_back
        && let Some(fallback) = plan.operator(id).op.fallback()
    {
        id = fallback;
    }
    let operator = plan.operator(id);
    let Op::Exchange(exchange) = &operator.op else {
        return operator.rows;
    };
    // Each thread may return all rows that are left above; a single one passes on the rows of the chain.
    let of_chain = plan.operator(exchange.input).rows;
    match profile[id.index()].threads {
        0 | 1 => of_chain,
        threads => (operator.rows * threads as f64).min(of_chain),
    }
}

/// Reports an estimate that was far off.
fn missed(expected: Option<(f64, bool)>, rows: u64) -> String {
    let Some((expected, cut)) = expected else {
        return String::new();
    };
    let (expected, rows) = (expected.max(1.0), (rows as f64).max(1.0));
    if rows.max(expected) < 100.0 {
        return String::new();
    }
    if rows / expected >= 10.0 {
        format!(" ({:.0} times the estimate)", rows / expected)
    } else if expected / rows >= 10.0 && !cut {
        format!(" ({:.0} times fewer than estimated)", expected / rows)
    } else {
        String::new()
    }
}
