//! Rows made by several threads: a chain of operators over a scan runs once per thread, each over its share of the nodes.
//!
//! Only below an aggregation, which does not ask in which order rows come, of a statement that reads; and only where many
//! rows are expected. Every thread has a reader of the same version, the query's own handle to stop it and its deadline.
//! Threads take the scan's nodes or relationships in small ranges of ids (morsels: Leis, Boncz, Kemper and Neumann, SIGMOD 2014), so that
//! none is left with all the work.

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
    expr::Expr,
    function::Purity,
    physical::{Op, OpId, RelationshipScan, StatementClass},
};

use super::{Argument, Child, Operate, Spot};
use crate::{
    chunk::Chunk,
    context::{Cx, Run},
    error::{ExecError, Result},
    result::OperatorProfile,
};

/// Ids in a share.
const MORSEL: u64 = 4096;
/// How long the consumer waits before it looks at the query's limits.
const LOOK: Duration = Duration::from_millis(50);

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

    /// There is none between what was taken and `id`.
    pub(crate) fn skip_to(&self, id: u64) {
        self.next.fetch_max(id / MORSEL * MORSEL, Ordering::Relaxed);
    }

    /// There is none in any share that was not taken.
    pub(crate) fn finish(&self) {
        self.done.store(true, Ordering::Relaxed);
    }
}

/// Hands out the rows of a chain, made by several threads where that pays.
pub(super) struct Exchange {
    spot: Spot,
    scan: OpId,
    /// The chain itself, for where one thread is enough.
    alone: Child,
    /// Whether there is an outer row, which other threads do not have.
    rooted: bool,
    way: Way,
}

enum Way {
    Undecided,
    Alone,
    Together(Team),
}

struct Team {
    rows: Receiver<Message>,
    threads: Vec<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    at_work: usize,
}

enum Message {
    Rows(Chunk),
    Done(Option<Vec<OperatorProfile>>),
    Failed(ExecError),
}

/// The scan at the end of a chain of operators that treat each row by itself and may run in several threads at once.
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

/// The states of a chain below an aggregation, behind an exchange where the plan allows one.
pub(super) fn below_aggregation(plan: &Arc<Plan>, top: OpId, argument: &Argument) -> Child {
    let alone = Child::build(plan, top, argument);
    if plan.class != StatementClass::Read {
        return alone;
    }
    let Some(scan) = scan_below(plan, top) else {
        return alone;
    };
    let spot = alone.spot().clone();
    Child {
        state: Box::new(Exchange {
            spot: spot.clone(),
            scan,
            alone,
            rooted: is_root(argument),
            way: Way::Undecided,
        }),
        spot,
    }
}

fn is_root(argument: &Argument) -> bool {
    argument.chunk().len() == 1 && argument.chunk().slots().next().is_none()
}

impl Exchange {
    /// Starts the threads, if there may be some and there is enough for them to do.
    fn gather_team(&self, cx: &Cx<'_>) -> Option<Team> {
        let enough = self.spot.plan.operator(self.scan).rows >= cx.run.parallel_rows;
        if !self.rooted || !enough || cx.run.workers < 2 {
            return None;
        }
        let forks: Option<Vec<Transaction>> = (0..cx.run.workers).map(|_| cx.tx.fork()).collect();
        let morsels = Arc::new(Morsels::new(self.scan));
        let (sender, rows) = sync_channel(2 * cx.run.workers);
        let mut team = Team {
            rows,
            threads: Vec::new(),
            stop: Arc::default(),
            at_work: 0,
        };
        for (number, transaction) in forks?.into_iter().enumerate() {
            let run = cx
                .run
                .fork(number as u64 + 1, &transaction, morsels.clone());
            let (spot, sender, stop) = (self.spot.clone(), sender.clone(), team.stop.clone());
            let thread = std::thread::Builder::new()
                .name("isomer-query".into())
                .spawn(move || work(&spot, transaction, run, &sender, &stop));
            match thread {
                Ok(thread) => team.threads.push(thread),
                Err(_) => break, // no thread can be had now: fewer do the same work
            }
        }
        team.at_work = team.threads.len();
        (team.at_work > 0).then_some(team)
    }
}

/// One thread's part.
fn work(
    spot: &Spot,
    mut transaction: Transaction,
    mut run: Run,
    rows: &SyncSender<Message>,
    stop: &AtomicBool,
) {
    let mut chain = Child::build(&spot.plan, spot.id, &Argument::root());
    let mut cx = Cx {
        tx: &mut transaction,
        run: &mut run,
    };
    while !stop.load(Ordering::Relaxed) {
        let message = match chain.pull(&mut cx) {
            Ok(Some(chunk)) if chunk.is_empty() => continue,
            Ok(Some(chunk)) => Message::Rows(chunk),
            Ok(None) => Message::Done(cx.run.profile.take()),
            Err(error) => Message::Failed(error),
        };
        let last = !matches!(message, Message::Rows(_));
        if rows.send(message).is_err() || last {
            break;
        }
    }
    chain.close(&mut cx);
}

impl Team {
    fn next(&mut self, own: OpId, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        while self.at_work > 0 {
            match self.rows.recv_timeout(LOOK) {
                Ok(Message::Rows(chunk)) => return Ok(Some(chunk)),
                Ok(Message::Done(figures)) => {
                    self.at_work -= 1;
                    add_figures(cx.run.profile.as_mut(), figures, own);
                }
                Ok(Message::Failed(error)) => return Err(error),
                Err(RecvTimeoutError::Timeout) => cx.run.watch.look()?,
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
        self.at_work = 0;
        // A thread that waits for room finds nobody there any more.
        let (_, nobody) = sync_channel(1);
        drop(std::mem::replace(&mut self.rows, nobody));
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

/// Adds up what the operators did in another thread; what the one at the top gave is counted where it arrives.
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
        if let Way::Undecided = self.way {
            self.way = self.gather_team(cx).map_or(Way::Alone, Way::Together);
        }
        match &mut self.way {
            Way::Together(team) => team.next(self.spot.id, cx),
            // As if it stood here itself: its figures are counted above.
            _ => self.alone.state.next(cx),
        }
    }

    fn open(&mut self, argument: &Argument) {
        self.alone.open(argument);
        self.rooted = is_root(argument);
        self.way = Way::Undecided;
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        self.alone.close(cx);
        self.way = Way::Alone;
    }
}
