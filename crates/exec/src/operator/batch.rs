//! `CALL { … } IN TRANSACTIONS`: a sub-plan that runs in separate transactions, each for a batch of rows.
//!
//! The input is read in the statement's transaction, so that the batches change none of its rows. A transaction that
//! loses a race against another one is run again. Once the input has ended, the statement's transaction is replaced by
//! one at the last version: what follows (behind a barrier of the planner) reads what the batches committed. Memory:
//! the rows of the batches that run at once, and what they return.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use isomer_data::{Access, Durability, ErrorKind, Transaction, TransactionStarter};
use isomer_plan::{
    expr::BoundExpr,
    physical::{BatchApply as Plan, OnBatchError, Op},
};
use isomer_value::{Map, Value};

use super::{Argument, Child, Operate, OperatorRef, check_owed_relationships, scan::misplaced};
use crate::{
    chunk::Chunk,
    column::Column,
    context::{Cx, ExecutionState, write_error},
    error::{ErrorClass, ExecError, Result, shown},
    eval::{Row, value},
    host::TRANSACTION_PREFIX,
};

/// Rows of one transaction where the statement gives no number.
const BATCH_ROWS: usize = 1_000;
/// Transactions that may run at once, whatever the statement says.
const MAX_CONCURRENCY: usize = 64;
/// A transaction that loses this many races fails.
const MAX_ATTEMPTS: u32 = 100;
/// The pause before a transaction is run again grows up to this.
const MAX_PAUSE: Duration = Duration::from_millis(20);

/// Runs the sub-plan for batches of the input.
pub(super) struct BatchApply {
    op_ref: OperatorRef,
    input: Child,
    /// Rows of the input that were not used up, and the first that is left.
    rest: Option<(Chunk, usize)>,
    /// Results that were not returned yet.
    ready: VecDeque<Chunk>,
    /// Batches begun so far.
    count: u64,
    /// `ON ERROR BREAK`, and a transaction failed.
    stopped: bool,
    ended: bool,
}

/// What a statement asks of its batches.
#[derive(Clone, Copy)]
struct BatchSettings {
    rows: usize,
    concurrency: usize,
}

/// One transaction's work, for any thread.
struct Job {
    op_ref: OperatorRef,
    rows: Chunk,
    number: u64,
    starter: TransactionStarter,
    durability: Durability,
}

/// The outcome of one transaction.
struct Outcome {
    rows: Result<Chunk>,
    id: String,
    /// What it counted and measured; none if it failed.
    run: Option<ExecutionState>,
}

impl BatchApply {
    pub(super) fn new(op_ref: OperatorRef, input: Child) -> Self {
        Self {
            op_ref,
            input,
            rest: None,
            ready: VecDeque::new(),
            count: 0,
            stopped: false,
            ended: false,
        }
    }

    /// The next rows of the input, up to a number.
    fn take_batch(&mut self, most: usize, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        let mut batch: Option<Chunk> = None;
        loop {
            let (chunk, from) = match self.rest.take() {
                Some(rest) => rest,
                None => match self.input.pull_flat(cx)? {
                    Some(chunk) => (chunk, 0),
                    None => return Ok(batch),
                },
            };
            let room = most - batch.as_ref().map_or(0, Chunk::len);
            let to = from.saturating_add(room).min(chunk.len());
            let piece = match (from, to == chunk.len()) {
                (0, true) => chunk,
                (_, is_end) => {
                    let rows: Vec<u32> = (from as u32..to as u32).collect();
                    let piece = chunk.gather(&rows);
                    self.rest = (!is_end).then_some((chunk, to));
                    piece
                }
            };
            match &mut batch {
                Some(batch) => batch.append(piece),
                none => *none = Some(piece),
            }
            if batch.as_ref().is_some_and(|batch| batch.len() >= most) {
                return Ok(batch);
            }
        }
    }

    /// Runs the next batches, as many at once as the statement allows. False at the end of the input.
    fn run_next(&mut self, plan: &Plan, settings: BatchSettings, cx: &mut Cx<'_>) -> Result<bool> {
        let Some(durability) = cx.run.host.own_commits else {
            return Err(in_caller_transaction());
        };
        let mut jobs = Vec::with_capacity(settings.concurrency);
        while jobs.len() < settings.concurrency {
            let Some(rows) = self.take_batch(settings.rows, cx)? else {
                break;
            };
            if self.stopped {
                self.pass_failed(plan, rows, &not_started());
                return Ok(true);
            }
            self.count += 1;
            jobs.push(Job {
                op_ref: self.op_ref.clone(),
                rows,
                number: self.count,
                starter: cx.tx.starter(),
                durability,
            });
        }
        if jobs.is_empty() {
            return Ok(false);
        }
        let held = jobs.iter().map(|job| job.rows.bytes()).sum();
        cx.run.watch.hold(held)?;
        let outcomes = run_all(jobs, cx);
        cx.run.watch.release(held);
        for (rows, outcome) in outcomes? {
            self.take_outcome(plan, rows, outcome, cx)?;
        }
        Ok(true)
    }

    fn take_outcome(
        &mut self,
        plan: &Plan,
        rows: Chunk,
        outcome: Outcome,
        cx: &mut Cx<'_>,
    ) -> Result<()> {
        if let Some(run) = outcome.run {
            cx.run.report.counters.add(&run.report.counters);
            cx.run.report.notices.extend(run.report.notices);
            if let (Some(all), Some(one)) = (&mut cx.run.report.profiler, &run.report.profiler) {
                all.add_thread(self.op_ref.id, one);
            }
        }
        let error = match outcome.rows {
            Ok(mut returned) => {
                if let Some(slot) = plan.status {
                    let status = status(true, true, Some(&outcome.id), None);
                    returned.set(slot, Column::Const(status));
                }
                self.ready.push_back(returned);
                return Ok(());
            }
            Err(error) => error,
        };
        // Not errors of this batch's rows: later batches would meet them as well.
        let ends_statement = matches!(
            error,
            ExecError::Cancelled | ExecError::Internal(_) | ExecError::Limit { .. }
        );
        if plan.on_error == OnBatchError::Fail || ends_statement {
            return Err(error);
        }
        self.stopped |= plan.on_error == OnBatchError::Break;
        let message = error.to_string();
        let status = status(true, false, Some(&outcome.id), Some(&message));
        self.pass_failed(plan, rows, &status);
        Ok(())
    }

    /// Returns rows whose transaction did not commit.
    fn pass_failed(&mut self, plan: &Plan, mut rows: Chunk, status: &Value) {
        for slot in &plan.outputs {
            rows.set(*slot, Column::Const(Value::Null));
        }
        if let Some(slot) = plan.status {
            rows.set(slot, Column::Const(status.clone()));
        }
        self.ready.push_back(rows);
    }
}

/// Runs each job, several in separate threads; in the order of the jobs.
fn run_all(jobs: Vec<Job>, cx: &mut Cx<'_>) -> Result<Vec<(Chunk, Outcome)>> {
    if jobs.len() == 1 {
        let alone = jobs.into_iter().map(|job| {
            let outcome = job.run(cx.run);
            (job.rows, outcome)
        });
        return Ok(alone.collect());
    }
    let mut prepared = Vec::with_capacity(jobs.len());
    for job in jobs {
        let base = cx.run.for_transaction(cx.tx, job.number);
        prepared.push((job, base));
    }
    std::thread::scope(|scope| {
        let threads: Vec<_> = prepared
            .into_iter()
            .map(|(job, base)| {
                std::thread::Builder::new()
                    .name("isomer-batch".into())
                    .stack_size(THREAD_STACK_BYTES)
                    .spawn_scoped(scope, move || {
                        let outcome = job.run(&base);
                        (job.rows, outcome)
                    })
            })
            .collect();
        let join = |thread: std::io::Result<std::thread::ScopedJoinHandle<'_, _>>| match thread {
            Ok(thread) => match thread.join() {
                Ok(done) => Ok(done),
                Err(panic) => std::panic::resume_unwind(panic),
            },
            Err(error) => Err(ExecError::Unsupported(format!(
                "no thread could be started for a transaction ({error}): run fewer at once"
            ))),
        };
        // Every thread is waited for, also after an error of one.
        let all: Vec<_> = threads.into_iter().map(join).collect();
        all.into_iter().collect()
    })
}

/// The stack of a thread that runs a sub-plan of any depth.
const THREAD_STACK_BYTES: usize = 64 << 20;

impl Job {
    /// Runs the transaction, again and again while it loses races.
    fn run(&self, base: &ExecutionState) -> Outcome {
        let mut pause = Duration::from_micros(50);
        for _ in 0..MAX_ATTEMPTS {
            let mut id = format!("{TRANSACTION_PREFIX}{}", self.number);
            let attempt = self.attempt(base, &mut id);
            match attempt {
                Err(ExecError::Data(error)) if error.kind() == ErrorKind::Retry => {
                    if let Err(error) = base.watch.check() {
                        return Outcome::failed(id, error);
                    }
                    // Different for each transaction, so that two of them do not meet again.
                    let share = 1 + (self.number % 7) as u32;
                    std::thread::sleep(pause * share / 7);
                    pause = (pause * 2).min(MAX_PAUSE);
                }
                Err(error) => return Outcome::failed(id, error),
                Ok((rows, run)) => {
                    return Outcome {
                        rows: Ok(rows),
                        id,
                        run: Some(run),
                    };
                }
            }
        }
        let limit = format!("{MAX_ATTEMPTS} attempts for one transaction of a subquery");
        let error = ExecError::limit(
            limit,
            "other transactions change the same records: use fewer rows per transaction, or run it again",
        );
        Outcome::failed(format!("{TRANSACTION_PREFIX}{}", self.number), error)
    }

    fn attempt(&self, base: &ExecutionState, id: &mut String) -> Result<(Chunk, ExecutionState)> {
        // A new snapshot for each attempt: the one that lost the race would lose it again.
        let mut transaction = self.starter.begin()?;
        *id = format!(
            "{TRANSACTION_PREFIX}{}.{}",
            transaction.version(),
            self.number
        );
        let mut run = base.for_transaction(&transaction, self.number);
        let mut cx = Cx {
            tx: &mut transaction,
            run: &mut run,
        };
        let rows = self.rows(&mut cx)?;
        transaction
            .commit_with(self.durability)
            .map_err(ExecError::Data)?;
        Ok((rows, run))
    }

    /// The rows that the sub-plan returns for the batch.
    fn rows(&self, cx: &mut Cx<'_>) -> Result<Chunk> {
        let Op::BatchApply(plan) = self.op_ref.op() else {
            return Err(misplaced(self.op_ref.op()));
        };
        let writes = cx.tx.access() == Access::Write;
        if writes {
            cx.tx.constraints_mut().defer_checks();
        }
        let mut right = Child::build(&self.op_ref.plan, plan.right, &Argument::root());
        let mut returned: Option<Chunk> = None;
        let mut keep = |chunk: Chunk| match &mut returned {
            Some(returned) => returned.append(chunk),
            none => *none = Some(chunk),
        };
        for row in 0..self.rows.len() {
            cx.tick(1)?;
            // Row by row, because the rows of a batch may read what earlier ones of it have written.
            let mut outer = self.rows.gather(&[row as u32]);
            right.open(&Argument::new(outer.clone()));
            let mut found = false;
            while let Some(mut chunk) = right.pull_flat(cx)? {
                if plan.outputs.is_empty() {
                    continue;
                }
                found = true;
                let repeat = vec![0; chunk.len()];
                for slot in outer.slots().collect::<Vec<_>>() {
                    if chunk.column(slot).is_none()
                        && let Some(column) = outer.column(slot)
                    {
                        chunk.set(slot, column.gather(&repeat));
                    }
                }
                self.op_ref.prune(&mut chunk);
                keep(chunk);
            }
            right.close(cx);
            if plan.outputs.is_empty() || (plan.optional && !found) {
                for slot in &plan.outputs {
                    outer.set(*slot, Column::Const(Value::Null));
                }
                keep(outer);
            }
        }
        check_owed_relationships(cx)?;
        if writes {
            let mut constraints = cx.tx.constraints_mut();
            constraints.check_deferred().map_err(write_error)?;
        }
        Ok(returned.unwrap_or_default())
    }
}

impl Outcome {
    fn failed(id: String, error: ExecError) -> Self {
        Self {
            rows: Err(error),
            id,
            run: None,
        }
    }
}

/// The map that `REPORT STATUS` binds.
fn status(started: bool, committed: bool, id: Option<&str>, error: Option<&str>) -> Value {
    let text = |text: Option<&str>| text.map_or(Value::Null, Value::from);
    let mut map = Map::new();
    map.insert("started", started.into());
    map.insert("committed", committed.into());
    map.insert("transactionId", text(id));
    map.insert("errorMessage", text(error));
    Value::Map(Arc::new(map))
}

/// The status of rows after `ON ERROR BREAK`.
fn not_started() -> Value {
    status(false, false, None, None)
}

/// The error of a subquery with its own transactions where the caller decides what is committed.
fn in_caller_transaction() -> ExecError {
    ExecError::raised(
        ErrorClass::SemanticError,
        "InvalidTransaction",
        "A query with 'CALL { ... } IN TRANSACTIONS' can only be executed in an implicit transaction, but tried to \
         execute in an explicit transaction: run it as a separate statement",
    )
}

/// A number of rows or transactions.
fn count(expr: Option<&BoundExpr>, what: &str, cx: &mut Cx<'_>) -> Result<Option<i64>> {
    let Some(expr) = expr else {
        return Ok(None);
    };
    let chunk = Chunk::new(1, 0);
    let row = Row {
        chunk: &chunk,
        row: 0,
    };
    match value(expr, row, cx)? {
        Value::Int(count) if count >= 0 => Ok(Some(count)),
        other => Err(ExecError::out_of_range(format!(
            "the number of {what} is a positive integer, not {}",
            shown(&other)
        ))),
    }
}

fn settings(plan: &Plan, cx: &mut Cx<'_>) -> Result<BatchSettings> {
    let rows = match count(plan.batch_rows.as_ref(), "rows of a transaction", cx)? {
        None => BATCH_ROWS,
        Some(0) => {
            return Err(ExecError::out_of_range(
                "the number of rows of a transaction is a positive integer, not 0",
            ));
        }
        Some(rows) => usize::try_from(rows).unwrap_or(usize::MAX),
    };
    let concurrency = match count(plan.concurrency.as_ref(), "concurrent transactions", cx)? {
        None => 1,
        Some(0) => cx.run.threads.workers,
        Some(count) => usize::try_from(count).unwrap_or(usize::MAX),
    };
    Ok(BatchSettings {
        rows,
        concurrency: concurrency.clamp(1, MAX_CONCURRENCY),
    })
}

/// Replaces the statement's transaction by one at the last version.
fn read_latest(cx: &mut Cx<'_>) -> Result<()> {
    let latest: Transaction = cx.tx.starter().begin()?;
    *cx.tx = latest;
    if let Some(views) = &cx.run.host.views {
        cx.run.views = views.at(cx.tx);
    }
    cx.run.caches.forget();
    Ok(())
}

impl Operate for BatchApply {
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        let op_ref = self.op_ref.clone();
        let Op::BatchApply(plan) = op_ref.op() else {
            return Err(misplaced(op_ref.op()));
        };
        let settings = settings(plan, cx)?;
        loop {
            if let Some(mut chunk) = self.ready.pop_front() {
                op_ref.prune(&mut chunk);
                return Ok(Some(chunk));
            }
            if self.ended {
                return Ok(None);
            }
            if !self.run_next(plan, settings, cx)? {
                self.ended = true;
                read_latest(cx)?;
            }
        }
    }

    fn open(&mut self, argument: &Argument) {
        self.input.open(argument);
        self.rest = None;
        self.ready.clear();
        (self.stopped, self.ended) = (false, false);
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        self.input.close(cx);
        self.rest = None;
        self.ready.clear();
    }
}
