//! Rows made by several threads: a chain of operators over a scan runs once per thread, each over its share of the nodes.
//!
//! Below an aggregation whose answer does not depend on the order in which rows come, below `DISTINCT`, and below `ORDER BY`, where rows say
//! which would have come first had one thread made them all, so that equal ones stay in that order; of a statement that reads, and only where many
//! rows are expected. `DISTINCT` and `LIMIT` leave most of their rows out in each thread already. Every thread has a reader of the same version, the query's own handle to stop it and its deadline.
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
    expr::{Expr, SlotId},
    function::{Aggregation, Purity},
    physical::{self, Op, OpId, RelationshipScan, StatementClass},
};

use super::{Argument, Child, Operate, Spot, blocking::Sort, row::Distinct};
use crate::{
    chunk::Chunk,
    column::Column,
    context::{Cx, Run},
    error::{ExecError, Result},
    limits::{OnTheWay, Room},
    result::OperatorProfile,
};

/// Ids in a share.
const MORSEL: u64 = 4096;
/// With less memory for each thread, one does it all.
const LEAST_BYTES: usize = 8 << 20;
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

    /// The number of the share that an id is in.
    pub(crate) fn number_of(id: u64) -> u64 {
        id / MORSEL
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
    part: Part,
    way: Way,
}

/// What each thread does with the rows of its chain.
#[derive(Clone)]
enum Part {
    /// Hands them on.
    All,
    /// Hands on those that it has not seen, for this operator.
    Distinct(OpId),
    /// Hands them on with their places, for this operator; the first ones in its order where few are wanted.
    Sorted(OpId),
}

impl Part {
    /// The states of a thread.
    fn build(&self, spot: &Spot) -> Child {
        let chain = Child::build(&spot.plan, spot.id, &Argument::root());
        let plan = spot.plan.clone();
        let state: Box<dyn Operate> = match self {
            Self::All => return chain,
            Self::Distinct(id) => Box::new(Distinct::in_part(Spot { plan, id: *id }, chain)),
            Self::Sorted(id) => {
                let placed = Child {
                    state: Box::new(Placed {
                        slot: place_slot(&plan, *id),
                        input: chain,
                        share: u64::MAX,
                        rows: 0,
                    }),
                    spot: spot.clone(),
                };
                Box::new(Sort::in_part(Spot { plan, id: *id }, placed))
            }
        };
        Child {
            state,
            spot: spot.clone(),
        }
    }
}

/// Where rows for the sort `id` say which would have come first.
pub(super) fn place_slot(plan: &Plan, id: OpId) -> SlotId {
    SlotId((plan.slots.len() + id.index()) as u32)
}

/// Gives rows their places: the number of their share, and where in it they come.
struct Placed {
    slot: SlotId,
    input: Child,
    share: u64,
    rows: u64,
}

impl Operate for Placed {
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

enum Way {
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
    /// Rows, and what they hold while they wait.
    Rows(Chunk, OnTheWay),
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

/// Whether an aggregation answers the same in whatever order its rows come, up to the order within a list: a running
/// deviation is rounded from row to row.
pub(super) fn any_order(aggregate: &physical::Aggregate) -> bool {
    let rounds = |function| matches!(function, Aggregation::StDev | Aggregation::StDevP);
    !aggregate
        .aggregates
        .iter()
        .any(|(_, call)| rounds(call.function))
}

/// The states of a chain below an aggregation, behind an exchange where the plan allows one.
pub(super) fn below_aggregation(plan: &Arc<Plan>, top: OpId, argument: &Argument) -> Child {
    below(plan, top, Part::All, argument)
}

/// The states of a chain below the `DISTINCT` of number `id`, in the same way.
pub(super) fn below_distinct(plan: &Arc<Plan>, id: OpId, top: OpId, argument: &Argument) -> Child {
    below(plan, top, Part::Distinct(id), argument)
}

/// The states of a chain below the sort of number `id`, in the same way.
pub(super) fn below_sort(plan: &Arc<Plan>, id: OpId, top: OpId, argument: &Argument) -> Child {
    match sorts_in_parts(plan, id, top) {
        true => below(plan, top, Part::Sorted(id), argument),
        false => Child::build(plan, top, argument),
    }
}

/// Whether threads may each sort their rows for the sort of number `id` over the chain `top`.
fn sorts_in_parts(plan: &Plan, id: OpId, top: OpId) -> bool {
    // Threads and their consumer compute keys and limits each for themselves.
    let settled = match &plan.operator(id).op {
        Op::Top { keys, limit, .. } => {
            !is_volatile(limit) && !keys.iter().any(|key| is_volatile(&key.expr))
        }
        _ => true,
    };
    // One thread finds the relationships of one type after those of another, not share by share.
    let in_order = scan_below(plan, top).is_some_and(|scan| match &plan.operator(scan).op {
        Op::RelationshipScan(scan) => scan.types.len() < 2,
        _ => true,
    });
    settled && in_order
}

fn below(plan: &Arc<Plan>, top: OpId, part: Part, argument: &Argument) -> Child {
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
            part,
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
        // What is at hand in each thread is beside what may be held.
        let least_bytes = cx.run.workers * LEAST_BYTES;
        if !matches!(self.part, Part::All) && cx.run.watch.limits().memory_bytes < least_bytes {
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
            let (spot, sender, stop) = (self.spot.clone(), sender.clone(), team.stop.clone());
            let (part, room) = (self.part.clone(), team.room.clone());
            let thread = std::thread::Builder::new()
                .name("isomer-query".into())
                .spawn(move || work(&spot, &part, transaction, run, &sender, &room, &stop));
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
    part: &Part,
    mut transaction: Transaction,
    mut run: Run,
    rows: &SyncSender<Message>,
    room: &Arc<Room>,
    stop: &AtomicBool,
) {
    let mut chain = part.build(spot);
    let mut cx = Cx {
        tx: &mut transaction,
        run: &mut run,
    };
    while !stop.load(Ordering::Relaxed) {
        let message = match chain.pull(&mut cx) {
            Ok(Some(chunk)) if chunk.is_empty() => continue,
            Ok(Some(chunk)) => match cx.run.watch.on_the_way(chunk.bytes(), room) {
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
            match self.rows.recv_timeout(LOOK) {
                Ok(Message::Rows(chunk, held)) => {
                    drop(held);
                    return Ok(Some(chunk));
                }
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
        // Who takes all rows before it gives one ends soon, too.
        self.morsels.finish();
        self.at_work = 0;
        // A thread that waits for room finds nobody there any more.
        self.room.close();
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

#[cfg(test)]
mod tests {
    use super::*;
    use isomer_plan::catalog::MockCatalog;

    /// Whether threads take part in the sort of a query.
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
