//! Parallel execution: a chain of operators over a scan runs once per thread, each over its share of the ids.
//!
//! The planner adds an exchange below an aggregation whose result does not depend on the order of its rows, below
//! `DISTINCT`, and below `ORDER BY`, in statements that only read. It starts threads if many rows are expected. For
//! `ORDER BY`, rows carry the position that a single thread would have given them, so that equal rows keep that order.
//! `DISTINCT` and `LIMIT` are applied in each thread first, which removes most rows early. Every thread has a reader of
//! the same version, and shares the query's cancel handle and deadline. Threads take the scan's nodes or relationships
//! in small ranges of ids ([`Morsels`]), so that the work is balanced.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
    thread::JoinHandle,
    time::Duration,
};

use isomer_data::Transaction;
use isomer_plan::{
    expr::SlotId,
    physical::{InThread, Op, OpId},
};

use super::{
    Argument, Child, Morsels, Operate, OperatorRef, blocking::Sort, position::position_slot,
    row::Distinct, scan::misplaced,
};
use crate::{
    chunk::Chunk,
    column::Column,
    context::{Cx, ExecutionState},
    error::{ExecError, Result},
    limits::{InFlightBytes, Room},
    profiler::Profiler,
};

/// If there is less memory per thread than this, one thread does all the work.
const MIN_THREAD_BYTES: usize = 8 << 20;
/// How long the consumer waits before it checks the query's limits.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Returns the rows of a chain, run by several threads if that pays.
pub(super) struct Exchange {
    op_ref: OperatorRef,
    scan: OpId,
    /// The chain itself, used when one thread is enough.
    alone: Child,
    /// Whether there is no outer row: other threads do not have it.
    is_outermost: bool,
    strategy: Strategy,
}

/// The states of a thread of the exchange `op_ref`.
fn build_thread(op_ref: &OperatorRef) -> Result<Child> {
    let Op::Exchange(exchange) = op_ref.op() else {
        return Err(misplaced(op_ref.op()));
    };
    let chain = Child::build(&op_ref.plan, exchange.input, &Argument::root());
    let positioned = |chain: Child| {
        let positioned = Positioned {
            slot: position_slot(&op_ref.plan, op_ref.id),
            input: chain,
            share: u64::MAX,
            rows: 0,
        };
        Child::of(op_ref.clone(), Box::new(positioned))
    };
    Ok(match &exchange.in_thread {
        InThread::Nothing => chain,
        InThread::Distinct(_) => {
            let distinct = Distinct::in_part(op_ref.clone(), chain);
            Child::of(op_ref.clone(), Box::new(distinct))
        }
        InThread::Sort => positioned(chain),
        InThread::Top { .. } => {
            let sort = Sort::in_part(op_ref.clone(), positioned(chain));
            Child::of(op_ref.clone(), Box::new(sort))
        }
    })
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
        if std::mem::replace(&mut self.share, cx.run.threads.share) != cx.run.threads.share {
            self.rows = 0;
        }
        // Shares are taken in the order of ids, so (share, row) is the order of a single thread: stable sorts and
        // DISTINCT give the same rows as without threads.
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
    /// The exchange that it runs for.
    exchange: OpId,
    rows: Receiver<Message>,
    /// Each returns what it measured for `PROFILE`.
    threads: Vec<JoinHandle<Option<Profiler>>>,
    stop: Arc<AtomicBool>,
    room: Arc<Room>,
    morsels: Arc<Morsels>,
    at_work: usize,
}

enum Message {
    /// Rows, and the memory reserved for them while they wait.
    Rows(Chunk, InFlightBytes),
    Done,
    Failed(ExecError),
}

fn is_root(argument: &Argument) -> bool {
    argument.chunk().len() == 1 && argument.chunk().slots().next().is_none()
}

impl Exchange {
    pub(super) fn new(op_ref: OperatorRef, scan: OpId, alone: Child, argument: &Argument) -> Self {
        Self {
            op_ref,
            scan,
            alone,
            is_outermost: is_root(argument),
            strategy: Strategy::Undecided,
        }
    }

    /// Whether the threads pass on the rows of the chain as they are.
    fn passes_all(&self) -> bool {
        matches!(self.op_ref.op(), Op::Exchange(exchange) if matches!(exchange.in_thread, InThread::Nothing))
    }

    /// Starts the threads, if threads are allowed and there is enough work for them.
    fn start_team(&self, cx: &Cx<'_>) -> Option<Team> {
        let enough = self.op_ref.plan.operator(self.scan).rows >= cx.run.threads.min_rows;
        if !self.is_outermost || !enough || cx.run.threads.workers < 2 {
            return None;
        }
        // The chunk that each thread is working on is not part of the bytes in flight.
        let least_bytes = cx.run.threads.workers * MIN_THREAD_BYTES;
        if !self.passes_all() && cx.run.watch.limits().memory_bytes < least_bytes {
            return None;
        }
        // Each thread reads the same version in a separate transaction, without locks between them.
        let forks: Option<Vec<Transaction>> =
            (0..cx.run.threads.workers).map(|_| cx.tx.fork()).collect();
        let morsels = Arc::new(Morsels::new(self.scan));
        // Bounded: a consumer that is slower than the threads stops them instead of filling the memory.
        let (sender, rows) = sync_channel(2 * cx.run.threads.workers);
        let mut team = Team {
            exchange: self.op_ref.id,
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
            let room = team.room.clone();
            let thread = std::thread::Builder::new()
                .name("isomer-query".into())
                .spawn(move || work(&op_ref, transaction, run, &sender, &room, &stop));
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
    mut transaction: Transaction,
    mut run: ExecutionState,
    rows: &SyncSender<Message>,
    room: &Arc<Room>,
    stop: &AtomicBool,
) -> Option<Profiler> {
    let mut chain = match build_thread(op_ref) {
        Ok(chain) => chain,
        Err(error) => {
            let _ = rows.send(Message::Failed(error)); // the consumer may be gone
            return None;
        }
    };
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
            Ok(None) => Message::Done,
            Err(error) => Message::Failed(error),
        };
        let last = !matches!(message, Message::Rows(..));
        if rows.send(message).is_err() || last {
            break;
        }
    }
    chain.close(&mut cx);
    run.report.profiler
}

impl Team {
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        while self.at_work > 0 {
            match self.rows.recv_timeout(POLL_INTERVAL) {
                Ok(Message::Rows(chunk, held)) => {
                    // The rows have arrived: the consumer accounts for those that it keeps.
                    drop(held);
                    return Ok(Some(chunk));
                }
                Ok(Message::Done) => self.at_work -= 1,
                Ok(Message::Failed(error)) => return Err(error),
                // The consumer does no work that would notice a cancellation or the deadline.
                Err(RecvTimeoutError::Timeout) => cx.run.watch.check_now()?,
                Err(RecvTimeoutError::Disconnected) => {
                    self.end(None);
                    return Err(ExecError::Internal("a thread of the query is gone".into()));
                }
            }
        }
        self.end(cx.run.report.profiler.as_mut());
        Ok(None)
    }

    /// Stops the threads, waits for them, and adds what they measured.
    fn end(&mut self, mut profiler: Option<&mut Profiler>) {
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
            match (thread.join(), &mut profiler) {
                (Ok(Some(measured)), Some(all)) => all.add_thread(self.exchange, &measured),
                (Err(panic), _) if !std::thread::panicking() => std::panic::resume_unwind(panic),
                _ => {}
            }
        }
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.end(None);
    }
}

impl Operate for Exchange {
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        if let Strategy::Undecided = self.strategy {
            self.strategy = self
                .start_team(cx)
                .map_or(Strategy::Alone, Strategy::Together);
            let threads = match &self.strategy {
                Strategy::Together(team) => team.at_work,
                _ => 1,
            };
            cx.run.note_threads(self.op_ref.id, threads);
        }
        match &mut self.strategy {
            Strategy::Together(team) => team.next(cx),
            _ => self.alone.pull(cx),
        }
    }

    fn open(&mut self, argument: &Argument) {
        self.alone.open(argument);
        self.is_outermost = is_root(argument);
        self.strategy = Strategy::Undecided;
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        self.alone.close(cx);
        if let Strategy::Together(team) = &mut self.strategy {
            team.end(cx.run.report.profiler.as_mut());
        }
        self.strategy = Strategy::Alone;
    }
}
