//! Parallel execution: a chain of operators over a scan runs once per thread, each over its share of the ids.
//!
//! Used below an aggregation whose result does not depend on the order of its rows, below `DISTINCT`, and below `ORDER
//! BY`. For `ORDER BY`, rows carry the position that a single thread would have given them, so that equal rows keep
//! that order. Only statements that read run in parallel, and only if many rows are expected. `DISTINCT` and `LIMIT`
//! are applied in each thread first, which removes most rows early. Every thread has a reader of the same version, and
//! shares the query's cancel handle and deadline. Threads take the scan's nodes or relationships in small ranges of ids
//! (morsels: Leis, Boncz, Kemper and Neumann, SIGMOD 2014), so that the work is balanced.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
    thread::JoinHandle,
    time::Duration,
};

use isomer_data::Transaction;
use isomer_plan::{
    Plan,
    expr::{Expr, SlotId},
    function::{Aggregation, Purity},
    physical::{self, Op, OpId, RelationshipScan, StatementClass},
};

use super::{Argument, Child, Operate, OperatorRef, blocking::Sort, row::Distinct};
use crate::{
    chunk::Chunk,
    column::Column,
    context::{Cx, Run},
    error::{ExecError, Result},
    limits::{InFlightBytes, Room},
    result::OperatorProfile,
};

/// Ids per share.
const MORSEL: u64 = 4096;
/// If there is less memory per thread than this, one thread does all the work.
const LEAST_BYTES: usize = 8 << 20;
/// How long the consumer waits before it checks the query's limits.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The shares of a scan's nodes or relationships that no thread has taken yet.
#[derive(Debug)]
pub(crate) struct Morsels {
    /// The scan that they belong to.
    pub(crate) scan: OpId,
    next: AtomicU64,
    done: AtomicBool,
}

impl Morsels {
    fn new(scan: OpId) -> Self {
        Self {
            scan,
            next: AtomicU64::new(0),
            done: AtomicBool::new(false),
        }
    }

    /// The next share of ids: from, to.
    pub(crate) fn take(&self) -> Option<(u64, u64)> {
        if self.done.load(Ordering::Relaxed) {
            return None;
        }
        let start = self.next.fetch_add(MORSEL, Ordering::Relaxed);
        Some((start, start.saturating_add(MORSEL)))
    }

    /// The index of the share that an id is in.
    pub(crate) fn number_of(id: u64) -> u64 {
        id / MORSEL
    }

    /// There is no id between the last share taken and `id`.
    pub(crate) fn skip_to(&self, id: u64) {
        self.next.fetch_max(id / MORSEL * MORSEL, Ordering::Relaxed);
    }

    /// No remaining share has any id.
    pub(crate) fn finish(&self) {
        self.done.store(true, Ordering::Relaxed);
    }
}

/// Returns the rows of a chain, run by several threads if that pays.
pub(super) struct Exchange {
    op_ref: OperatorRef,
    scan: OpId,
    /// The chain itself, used when one thread is enough.
    alone: Child,
    /// Whether there is an outer row, which other threads do not have.
    rooted: bool,
    output: ThreadOutput,
    strategy: Strategy,
}

/// What each thread does with the rows of its chain.
#[derive(Clone)]
enum ThreadOutput {
    /// Forwards them.
    All,
    /// Forwards the rows that this thread has not seen, for this `DISTINCT` operator.
    Distinct(OpId),
    /// Forwards them with their positions, for this sort; only the first rows in its order if there is a limit.
    Sorted(OpId),
}

impl ThreadOutput {
    /// The states of a thread.
    fn build(&self, op_ref: &OperatorRef) -> Child {
        let chain = Child::build(&op_ref.plan, op_ref.id, &Argument::root());
        let plan = op_ref.plan.clone();
        let state: Box<dyn Operate> = match self {
            Self::All => return chain,
            Self::Distinct(id) => Box::new(Distinct::in_part(OperatorRef { plan, id: *id }, chain)),
            Self::Sorted(id) => {
                let positioned = Child {
                    state: Box::new(Positioned {
                        slot: position_slot(&plan, *id),
                        input: chain,
                        share: u64::MAX,
                        rows: 0,
                    }),
                    op_ref: op_ref.clone(),
                };
                Box::new(Sort::in_part(OperatorRef { plan, id: *id }, positioned))
            }
        };
        Child {
            state,
            op_ref: op_ref.clone(),
        }
    }
}

/// The slots that hold the positions of rows for the sort `id`.
pub(super) fn position_slot(plan: &Plan, id: OpId) -> SlotId {
    SlotId((plan.slots.len() + id.index()) as u32)
}

/// Adds positions to rows: the index of their share, and their position within it.
struct Positioned {
    slot: SlotId,
    input: Child,
    share: u64,
    rows: u64,
}

impl Operate for Positioned {
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        let Some(mut chunk) = self.input.pull_flat(cx)? else {
            return Ok(None);
        };
        if std::mem::replace(&mut self.share, cx.run.share) != cx.run.share {
            self.rows = 0;
        }
        let first = ((self.share << 32) + self.rows) as i64;
        self.rows += chunk.len() as u64;
        let places = (first..).take(chunk.len()).collect();
        chunk.set(self.slot, Column::Ints(places));
        Ok(Some(chunk))
    }

    fn open(&mut self, argument: &Argument) {
        self.input.open(argument);
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        self.input.close(cx);
    }
}

enum Strategy {
    Undecided,
    Alone,
    Together(Team),
}

struct Team {
    rows: Receiver<Message>,
    threads: Vec<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    room: Arc<Room>,
    morsels: Arc<Morsels>,
    at_work: usize,
}

enum Message {
    /// Rows, and the memory reserved for them while they wait.
    Rows(Chunk, InFlightBytes),
    Done(Option<Vec<OperatorProfile>>),
    Failed(ExecError),
}

/// The scan at the bottom of a chain of operators that treat each row independently and can run in several threads.
fn scan_below(plan: &Plan, top: OpId) -> Option<OpId> {
    let mut at = top;
    loop {
        let op = &plan.operator(at).op;
        let mut shared = true;
        let mut test = |expr: &Expr| shared &= !is_volatile(expr);
        at = match op {
            Op::Expand(expand) => expand.input,
            Op::ExpandInto(expand) => expand.input,
            Op::Degree(degree) => degree.input,
            Op::Filter { input, predicates } => {
                predicates.iter().for_each(&mut test);
                *input
            }
            Op::Project { input, columns } => {
                columns.iter().for_each(|(_, expr)| test(expr));
                *input
            }
            Op::AllNodesScan { input, .. }
            | Op::LabelScan { input, .. }
            | Op::RelationshipScan(RelationshipScan { input, .. }) => {
                return matches!(plan.operator(*input).op, Op::Argument).then_some(at);
            }
            _ => return None,
        };
        if !shared {
            return None;
        }
    }
}

fn is_volatile(expr: &Expr) -> bool {
    let mut found = match expr {
        Expr::Call { function, .. } => function.purity() == Purity::Volatile,
        Expr::CallRegistered { .. } | Expr::Subquery(_) => true,
        _ => false,
    };
    expr.for_each_child(&mut |child| found |= is_volatile(child));
    found
}

/// Whether an aggregation gives the same result for any order of its rows, except for the order within a list: a
/// running standard deviation is rounded per row.
pub(super) fn any_order(aggregate: &physical::Aggregate) -> bool {
    let rounds = |function| matches!(function, Aggregation::StDev | Aggregation::StDevP);
    !aggregate
        .aggregates
        .iter()
        .any(|(_, call)| rounds(call.function))
}

/// The states of a chain below an aggregation, behind an exchange if the plan allows one.
pub(super) fn below_aggregation(plan: &Arc<Plan>, top: OpId, argument: &Argument) -> Child {
    below(plan, top, ThreadOutput::All, argument)
}

/// The states of a chain below the `DISTINCT` operator `id`, likewise.
pub(super) fn below_distinct(plan: &Arc<Plan>, id: OpId, top: OpId, argument: &Argument) -> Child {
    below(plan, top, ThreadOutput::Distinct(id), argument)
}

/// The states of a chain below the sort operator `id`, likewise.
pub(super) fn below_sort(plan: &Arc<Plan>, id: OpId, top: OpId, argument: &Argument) -> Child {
    match sorts_in_parts(plan, id, top) {
        true => below(plan, top, ThreadOutput::Sorted(id), argument),
        false => Child::build(plan, top, argument),
    }
}

/// Whether each thread may sort its rows for the sort `id` over the chain `top`.
fn sorts_in_parts(plan: &Plan, id: OpId, top: OpId) -> bool {
    // The consumer and its threads each evaluate keys and limits: they must give the same values.
    let same_values = match &plan.operator(id).op {
        Op::Top { keys, limit, .. } => {
            !is_volatile(limit) && !keys.iter().any(|key| is_volatile(&key.expr))
        }
        _ => true,
    };
    // A single thread finds the relationships type by type, not share by share.
    let in_order = scan_below(plan, top).is_some_and(|scan| match &plan.operator(scan).op {
        Op::RelationshipScan(scan) => scan.types.len() < 2,
        _ => true,
    });
    same_values && in_order
}

fn below(plan: &Arc<Plan>, top: OpId, output: ThreadOutput, argument: &Argument) -> Child {
    let alone = Child::build(plan, top, argument);
    if plan.class != StatementClass::Read {
        return alone;
    }
    let Some(scan) = scan_below(plan, top) else {
        return alone;
    };
    let op_ref = alone.op_ref().clone();
    Child {
        state: Box::new(Exchange {
            op_ref: op_ref.clone(),
            scan,
            alone,
            rooted: is_root(argument),
            output,
            strategy: Strategy::Undecided,
        }),
        op_ref,
    }
}

fn is_root(argument: &Argument) -> bool {
    argument.chunk().len() == 1 && argument.chunk().slots().next().is_none()
}

impl Exchange {
    /// Starts the threads, if threads are allowed and there is enough work for them.
    fn start_team(&self, cx: &Cx<'_>) -> Option<Team> {
        let enough = self.op_ref.plan.operator(self.scan).rows >= cx.run.parallel_rows;
        if !self.rooted || !enough || cx.run.workers < 2 {
            return None;
        }
        // The chunk that each thread is working on is not part of the bytes in flight.
        let least_bytes = cx.run.workers * LEAST_BYTES;
        if !matches!(self.output, ThreadOutput::All)
            && cx.run.watch.limits().memory_bytes < least_bytes
        {
            return None;
        }
        let forks: Option<Vec<Transaction>> = (0..cx.run.workers).map(|_| cx.tx.fork()).collect();
        let morsels = Arc::new(Morsels::new(self.scan));
        let (sender, rows) = sync_channel(2 * cx.run.workers);
        let mut team = Team {
            rows,
            threads: Vec::new(),
            stop: Arc::default(),
            room: Arc::default(),
            morsels: morsels.clone(),
            at_work: 0,
        };
        for (number, transaction) in forks?.into_iter().enumerate() {
            let run = cx
                .run
                .fork(number as u64 + 1, &transaction, morsels.clone());
            let (op_ref, sender, stop) = (self.op_ref.clone(), sender.clone(), team.stop.clone());
            let (output, room) = (self.output.clone(), team.room.clone());
            let thread = std::thread::Builder::new()
                .name("isomer-query".into())
                .spawn(move || work(&op_ref, &output, transaction, run, &sender, &room, &stop));
            match thread {
                Ok(thread) => team.threads.push(thread),
                Err(_) => break, // no thread could be started: fewer threads do the same work
            }
        }
        team.at_work = team.threads.len();
        (team.at_work > 0).then_some(team)
    }
}

/// The body of one thread.
fn work(
    op_ref: &OperatorRef,
    output: &ThreadOutput,
    mut transaction: Transaction,
    mut run: Run,
    rows: &SyncSender<Message>,
    room: &Arc<Room>,
    stop: &AtomicBool,
) {
    let mut chain = output.build(op_ref);
    let mut cx = Cx {
        tx: &mut transaction,
        run: &mut run,
    };
    while !stop.load(Ordering::Relaxed) {
        let message = match chain.pull(&mut cx) {
            Ok(Some(chunk)) if chunk.is_empty() => continue,
            Ok(Some(chunk)) => match cx.run.watch.hold_in_flight(chunk.bytes(), room) {
                Some(held) => Message::Rows(chunk, held),
                None => break,
            },
            Ok(None) => Message::Done(cx.run.profile.take()),
            Err(error) => Message::Failed(error),
        };
        let last = !matches!(message, Message::Rows(..));
        if rows.send(message).is_err() || last {
            break;
        }
    }
    chain.close(&mut cx);
}

impl Team {
    fn next(&mut self, own: OpId, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        while self.at_work > 0 {
            match self.rows.recv_timeout(POLL_INTERVAL) {
                Ok(Message::Rows(chunk, held)) => {
                    // The rows have arrived: the consumer accounts for those that it keeps.
                    drop(held);
                    return Ok(Some(chunk));
                }
                Ok(Message::Done(figures)) => {
                    self.at_work -= 1;
                    add_figures(cx.run.profile.as_mut(), figures, own);
                }
                Ok(Message::Failed(error)) => return Err(error),
                Err(RecvTimeoutError::Timeout) => cx.run.watch.check_now()?,
                Err(RecvTimeoutError::Disconnected) => {
                    self.end();
                    return Err(ExecError::Internal("a thread of the query is gone".into()));
                }
            }
        }
        self.end();
        Ok(None)
    }

    /// Waits for the threads.
    fn end(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // An operator that reads all its input before it returns a row also stops soon.
        self.morsels.finish();
        self.at_work = 0;
        // A thread that waits for room is released: the receiver is gone.
        self.room.close();
        // Dropping the receiver makes pending and later sends fail, so that no thread blocks on a full channel.
        let (_, disconnected) = sync_channel(1);
        drop(std::mem::replace(&mut self.rows, disconnected));
        for thread in self.threads.drain(..) {
            if let Err(panic) = thread.join()
                && !std::thread::panicking()
            {
                std::panic::resume_unwind(panic);
            }
        }
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.end();
    }
}

/// Adds the figures of a thread's operators; the rows of its top operator are counted where they arrive.
fn add_figures(
    all: Option<&mut Vec<OperatorProfile>>,
    more: Option<Vec<OperatorProfile>>,
    top: OpId,
) {
    let (Some(all), Some(more)) = (all, more) else {
        return;
    };
    for (at, (figures, more)) in all.iter_mut().zip(more).enumerate() {
        figures.from_view |= more.from_view;
        if at != top.index() {
            figures.rows += more.rows;
            figures.calls += more.calls;
            figures.time += more.time;
        }
    }
}

impl Operate for Exchange {
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        if let Strategy::Undecided = self.strategy {
            self.strategy = self
                .start_team(cx)
                .map_or(Strategy::Alone, Strategy::Together);
        }
        match &mut self.strategy {
            Strategy::Together(team) => team.next(self.op_ref.id, cx),
            // As if it ran in this operator's place: its rows were counted above.
            _ => self.alone.state.next(cx),
        }
    }

    fn open(&mut self, argument: &Argument) {
        self.alone.open(argument);
        self.rooted = is_root(argument);
        self.strategy = Strategy::Undecided;
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        self.alone.close(cx);
        self.strategy = Strategy::Alone;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isomer_plan::catalog::MockCatalog;

    /// Whether threads may take part in the sort of a query.
    fn in_parts(query: &str) -> bool {
        let catalog = MockCatalog::new()
            .with_label("N", 20_000)
            .with_type("X", 20_000)
            .with_type("Y", 20_000);
        let plan = isomer_plan::prepare(query, &catalog, &isomer_plan::Options::default()).unwrap();
        let sorts = plan.operators.iter().enumerate().filter_map(|(at, one)| {
            let id = OpId(at as u32);
            match &one.op {
                Op::Sort { input, .. } | Op::Top { input, .. } => {
                    Some(sorts_in_parts(&plan, id, *input))
                }
                _ => None,
            }
        });
        let found: Vec<bool> = sorts.collect();
        assert_eq!(found.len(), 1, "{query}");
        found[0]
    }

    #[test]
    fn keys_and_limits_that_are_drawn_are_drawn_once() {
        assert!(in_parts("MATCH (n:N) RETURN n.i ORDER BY n.k LIMIT 10"));
        assert!(in_parts("MATCH (n:N) RETURN n.i ORDER BY n.k"));
        assert!(!in_parts("MATCH (n:N) RETURN n.i ORDER BY rand() LIMIT 10"));
        assert!(!in_parts(
            "MATCH (n:N) RETURN n.i ORDER BY n.k, n.i + rand() LIMIT 10"
        ));
        assert!(!in_parts(
            "MATCH (n:N) RETURN n.i ORDER BY n.k LIMIT toInteger(rand() * 100)"
        ));
    }

    #[test]
    fn relationships_of_two_types_keep_their_order() {
        assert!(in_parts(
            "MATCH ()-[r:X]->(b) RETURN b.i ORDER BY r.k LIMIT 10"
        ));
        assert!(!in_parts(
            "MATCH ()-[r:X|Y]->(b) RETURN b.i ORDER BY r.k LIMIT 10"
        ));
    }
}
