//! Limits of a query, and its cancellation.

use std::{
    cell::{Cell, RefCell},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use isomer_data::{MemoryBudget, MemoryKind, OverBudget, Reservation};
use parking_lot::{Condvar, Mutex};

use crate::error::{ExecError, Result};

/// The limits of one query.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// Timeout.
    pub time: Option<Duration>,
    /// Maximum bytes held at once by sorts, groups, lists, searches and buffers.
    pub memory_bytes: usize,
    /// Maximum number of rows in the result.
    pub rows: Option<u64>,
    /// Maximum number of steps of a variable-length or shortest path without an upper bound.
    pub path_steps: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            time: Some(Duration::from_secs(300)),
            memory_bytes: 1 << 30,
            rows: None,
            path_steps: 10_000,
        }
    }
}

/// Cancels a query from another thread. Clones cancel the same query.
#[derive(Clone, Debug, Default)]
pub struct CancelHandle(Arc<AtomicBool>);

impl CancelHandle {
    /// A handle in the state "not cancelled".
    pub fn new() -> Self {
        Self::default()
    }

    /// Requests cancellation. The query fails as cancelled within about a thousand rows.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether cancellation was requested.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The stop condition of a query, for the threads that work for it.
#[derive(Clone, Debug)]
pub struct Stop {
    cancel: CancelHandle,
    deadline: Option<Instant>,
    time: Option<Duration>,
}

impl Stop {
    /// Fails if the query was cancelled or timed out. Reads the clock: call it every few milliseconds of work, not
    /// every step.
    pub fn check(&self) -> Result<()> {
        check_time(&self.cancel, self.deadline, self.time)
    }

    /// How long the query may still run; none without a time limit.
    pub(crate) fn time_left(&self) -> Option<Duration> {
        let deadline = self.deadline?;
        Some(deadline.saturating_duration_since(Instant::now()))
    }
}

/// Fails if the query was cancelled, or if the deadline that its limit of time gives has passed.
fn check_time(
    cancel: &CancelHandle,
    deadline: Option<Instant>,
    limit: Option<Duration>,
) -> Result<()> {
    if cancel.is_cancelled() {
        return Err(ExecError::Cancelled);
    }
    match deadline {
        Some(deadline) if Instant::now() >= deadline => Err(ExecError::limit(
            format!("{} s of time", limit.unwrap_or_default().as_secs_f64()),
            "narrow it (labels, bounds of paths, LIMIT), add an index, or raise the time limit",
        )),
        _ => Ok(()),
    }
}

/// Graph algorithms stop with their query.
#[cfg(feature = "algorithms")]
impl isomer_algorithms::StopCheck for Stop {
    type Error = ExecError;

    fn check(&self) -> Result<()> {
        Stop::check(self)
    }
}

/// Enforces the limits while a query runs.
#[derive(Debug)]
pub(crate) struct LimitGuard {
    limits: Limits,
    cancel: CancelHandle,
    deadline: Option<Instant>,
    /// Work units until the clock is read again.
    ticks: u32,
    held_bytes: usize,
    /// Bytes that were last allowed to a worker thread, which the other threads count too, until it asks again. None
    /// for the query's own thread, because it may have released them long ago.
    allowed: Option<Cell<usize>>,
    /// Memory held by all threads of the query.
    all: Arc<QueryMemory>,
    spilled_bytes: u64,
    /// The query's reservation in the shared memory budget: what is held beyond [`FREE_BYTES`].
    reservation: RefCell<Reservation>,
    /// Bytes of values that were computed for the batches under evaluation and are not held by an operator yet.
    computed: Cell<usize>,
    /// Bytes of all values that were computed and counted since the query began, wrapping.
    computed_ever: Cell<usize>,
    evaluation: Cell<Evaluation>,
    /// The most bytes that the values computed for one batch take, unless one row alone takes more.
    batch_bytes: usize,
}

/// The bounds of the evaluation of a batch: see [`LimitGuard::begin_evaluation`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Evaluation {
    /// What was computed before it began.
    start: usize,
    /// A batch ends early once more than this was computed.
    end_above: usize,
    /// Ending this batch or one around it early frees memory once more than this was computed.
    frees_above: usize,
}

impl Evaluation {
    /// Outside of any batch: nothing can end early.
    const NONE: Self = Self {
        start: 0,
        end_above: usize::MAX,
        frees_above: usize::MAX,
    };
}

/// Bytes in flight between the threads of a query; a sender waits while there is no room.
#[derive(Debug, Default)]
pub(crate) struct Room {
    taken: Mutex<InFlight>,
    less: Condvar,
}

#[derive(Debug, Default)]
struct InFlight {
    bytes: usize,
    /// The receiver is gone.
    closed: bool,
}

impl Room {
    /// Takes `bytes` of at most `most` as soon as they are free; if nothing is in flight, there is always room. False
    /// if the receiver is gone.
    fn enter(&self, bytes: usize, most: usize) -> bool {
        let mut taken = self.taken.lock();
        while !taken.closed && taken.bytes > 0 && taken.bytes.saturating_add(bytes) > most {
            self.less.wait(&mut taken);
        }
        if taken.closed {
            return false;
        }
        taken.bytes += bytes;
        true
    }

    fn leave(&self, bytes: usize) {
        self.taken.lock().bytes -= bytes;
        self.less.notify_all();
    }

    /// The receiver is gone: waiting senders are released.
    pub(crate) fn close(&self) {
        self.taken.lock().closed = true;
        self.less.notify_all();
    }
}

/// Bytes in flight between two threads of a query.
#[derive(Debug)]
pub(crate) struct InFlightBytes {
    all: Arc<QueryMemory>,
    room: Arc<Room>,
    bytes: usize,
}

impl Drop for InFlightBytes {
    fn drop(&mut self) {
        self.all.take(self.bytes);
        self.room.leave(self.bytes);
    }
}

/// Memory held by the threads of a query together.
#[derive(Debug, Default)]
struct QueryMemory {
    bytes: AtomicUsize,
    peak: AtomicUsize,
}

impl QueryMemory {
    fn add(&self, bytes: usize) {
        let now = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.peak.fetch_max(now, Ordering::Relaxed);
    }

    fn take(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// A query holds this much without a reservation in the shared budget: small queries never touch it.
const FREE_BYTES: usize = 256 << 10;

/// Caches are evicted for a query that can spill only until it holds this much.
const WORKING_BYTES: usize = 4 << 20;

/// The values of a batch take at most this part of the query's memory and, of the whole budget,
/// [`BATCH_SHARE_OF_BUDGET`],
const BATCH_SHARE: usize = 16;
const BATCH_SHARE_OF_BUDGET: usize = 64;
/// but may take at least and at most so much.
const BATCH_BYTES: (usize, usize) = (64 << 10, 8 << 20);

/// Batches of the budget that operators which can spill leave to evaluation.
const SPARE_BATCHES: usize = 8;

/// Computed bytes between two comparisons with the limits.
const COMPUTED_STEP: usize = 32 << 10;

/// Maximum bytes in flight between the threads, as a fraction of a query's memory.
const IN_FLIGHT_SHARE: usize = 8;

/// The clock is read once per this number of rows or steps.
const TICKS: u32 = 1024;

impl LimitGuard {
    pub(crate) fn new(limits: Limits, cancel: CancelHandle, memory: &MemoryBudget) -> Self {
        let deadline = limits
            .time
            .and_then(|time| Instant::now().checked_add(time));
        let share = (limits.memory_bytes / BATCH_SHARE)
            .min(memory.total_bytes() / BATCH_SHARE_OF_BUDGET)
            .clamp(BATCH_BYTES.0, BATCH_BYTES.1);
        Self {
            limits,
            cancel,
            deadline,
            ticks: TICKS,
            held_bytes: 0,
            allowed: None,
            all: Arc::default(),
            spilled_bytes: 0,
            reservation: RefCell::new(memory.reservation(MemoryKind::Queries)),
            computed: Cell::new(0),
            computed_ever: Cell::new(0),
            evaluation: Cell::new(Evaluation::NONE),
            batch_bytes: share,
        }
    }

    /// The watch of a thread that works for the same query: it shares the deadline, the cancel handle and the memory
    /// count.
    pub(crate) fn fork(&self, memory: &MemoryBudget) -> Self {
        Self {
            limits: self.limits.clone(),
            all: self.all.clone(),
            cancel: self.cancel.clone(),
            deadline: self.deadline,
            ticks: TICKS,
            held_bytes: 0,
            allowed: Some(Cell::new(0)),
            spilled_bytes: 0,
            reservation: RefCell::new(memory.reservation(MemoryKind::Queries)),
            computed: Cell::new(0),
            computed_ever: Cell::new(0),
            evaluation: Cell::new(Evaluation::NONE),
            batch_bytes: self.batch_bytes,
        }
    }

    /// The limits of a statement that runs within this one, and the handle that cancels both.
    #[cfg(feature = "algorithms")]
    pub(crate) fn of_nested(&self) -> (Limits, CancelHandle) {
        let now = Instant::now();
        let limits = Limits {
            time: self
                .deadline
                .map(|deadline| deadline.saturating_duration_since(now)),
            memory_bytes: self.limits.memory_bytes.saturating_sub(self.all.bytes()),
            rows: None,
            path_steps: self.limits.path_steps,
        };
        (limits, self.cancel.clone())
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Counts `units` rows or steps; checks the clock and the cancel handle periodically.
    #[inline]
    pub(crate) fn tick(&mut self, units: usize) -> Result<()> {
        match u32::try_from(units)
            .ok()
            .and_then(|units| self.ticks.checked_sub(units))
        {
            Some(rest) => {
                self.ticks = rest;
                Ok(())
            }
            None => self.check_now(),
        }
    }

    /// Checks the clock and the cancel handle.
    pub(crate) fn check_now(&mut self) -> Result<()> {
        self.ticks = TICKS;
        self.check()
    }

    /// Like [`LimitGuard::check`], without resetting the count of units.
    pub(crate) fn check(&self) -> Result<()> {
        check_time(&self.cancel, self.deadline, self.limits.time)
    }

    /// The stop condition, for other threads.
    pub(crate) fn stop(&self) -> Stop {
        Stop {
            cancel: self.cancel.clone(),
            deadline: self.deadline,
            time: self.limits.time,
        }
    }

    /// Counts `bytes` as held until they are released.
    pub(crate) fn hold(&mut self, bytes: usize) -> Result<()> {
        self.allow(bytes)?;
        self.forget_allowed();
        self.held_bytes += bytes;
        self.all.add(bytes);
        Ok(())
    }

    /// Holds `bytes` that are passed from one thread to another, until the returned guard is dropped. Waits while too
    /// many bytes are in flight, so that the receiver has room to work; none if the receiver is gone.
    pub(crate) fn hold_in_flight(&self, bytes: usize, room: &Arc<Room>) -> Option<InFlightBytes> {
        self.forget_allowed();
        // A single thread holds its current rows without a reservation: if memory is short, several threads take turns.
        let held = self.held_bytes.saturating_add(bytes);
        let most = match self.reserve(held, held <= WORKING_BYTES) {
            Ok(()) => self.limits.memory_bytes / IN_FLIGHT_SHARE,
            Err(_) => 0,
        };
        if !room.enter(bytes, most) {
            return None;
        }
        self.all.add(bytes);
        Some(InFlightBytes {
            all: self.all.clone(),
            room: room.clone(),
            bytes,
        })
    }

    /// What was allowed before has been released, or is counted as held.
    fn forget_allowed(&self) {
        if let Some(allowed) = &self.allowed {
            self.all.take(allowed.take());
        }
    }

    /// Like [`LimitGuard::hold`], for operators that can spill instead: returns false, and holds nothing, if the query
    /// would exceed half of its limit, or if caches would have to be evicted beyond the minimum that the query needs to
    /// work.
    pub(crate) fn try_hold(&mut self, bytes: usize) -> bool {
        self.forget_allowed();
        let held = self.held_bytes.saturating_add(bytes);
        let all = self.all.bytes().saturating_add(bytes);
        if all > self.limits.memory_bytes / 2 || self.reserve(held, held <= WORKING_BYTES).is_err()
        {
            return false;
        }
        // The rows that come next are computed in what is left.
        if held > WORKING_BYTES {
            let mut reservation = self.reservation.borrow_mut();
            let spare = reservation.memory().free_bytes();
            if spare < SPARE_BATCHES * self.batch_bytes {
                let needed = self.held_bytes.saturating_sub(FREE_BYTES);
                let taken = reservation.bytes().saturating_sub(needed);
                reservation.shrink(taken);
                return false;
            }
        }
        self.held_bytes = held;
        self.all.add(bytes);
        true
    }

    /// Releases memory.
    pub(crate) fn release(&mut self, bytes: usize) {
        let bytes = bytes.min(self.held_bytes);
        self.held_bytes -= bytes;
        self.all.take(bytes);
        let reservation = self.reservation.get_mut();
        let needed = self.held_bytes.saturating_sub(FREE_BYTES);
        reservation.shrink(reservation.bytes().saturating_sub(needed));
    }

    /// Refuses `bytes` if they do not fit into the memory limit, or the shared budget, in addition to what is held.
    pub(crate) fn allow(&self, bytes: usize) -> Result<()> {
        self.forget_allowed();
        if bytes > self.limits.memory_bytes.saturating_sub(self.all.bytes()) {
            return Err(ExecError::limit(
                format!("{} bytes of memory", self.limits.memory_bytes),
                "aggregate or LIMIT earlier, read it in parts, or raise the memory limit",
            ));
        }
        self.reserve(self.held_bytes + bytes, true)
            .map_err(|over| over_budget(&over))?;
        if let Some(allowed) = &self.allowed {
            allowed.set(bytes);
            self.all.add(bytes);
        }
        Ok(())
    }

    /// Begins the evaluation of a batch. Where `can_end_early`, [`ExecError::BatchFull`] asks for fewer rows at once
    /// as soon as what is computed takes more than its share. Returns the evaluation around it, for
    /// [`LimitGuard::end_evaluation`].
    pub(crate) fn begin_evaluation(&self, can_end_early: bool) -> Evaluation {
        let start = self.computed.get();
        let around = self.evaluation.get();
        self.evaluation.set(Evaluation {
            start,
            end_above: if can_end_early {
                start.saturating_add(self.batch_bytes)
            } else {
                usize::MAX
            },
            frees_above: if can_end_early {
                start.min(around.frees_above)
            } else {
                around.frees_above
            },
        });
        around
    }

    /// Ends it; returns the bytes that were computed in it and kept.
    pub(crate) fn end_evaluation(&self, around: Evaluation) -> usize {
        let start = self.evaluation.replace(around).start;
        self.computed.replace(start).saturating_sub(start)
    }

    /// The evaluation does not end early any more: what it computed is used from here on.
    pub(crate) fn use_computed(&self) {
        let evaluation = self.evaluation.get();
        self.evaluation.set(Evaluation {
            end_above: usize::MAX,
            frees_above: usize::MAX,
            ..evaluation
        });
    }

    /// What the batch under evaluation has computed is used up.
    pub(crate) fn forget_computed(&mut self) {
        let start = self.evaluation.get().start;
        if self.computed.replace(start) >= start + COMPUTED_STEP {
            self.release(0);
        }
    }

    /// Bytes of the values computed so far for the batches under evaluation.
    pub(crate) fn computed_bytes(&self) -> usize {
        self.computed.get()
    }

    /// Bytes of all values that were computed and counted since the query began, wrapping.
    pub(crate) fn computed_ever(&self) -> usize {
        self.computed_ever.get()
    }

    /// Resets the count of computed bytes to an earlier value, when the values computed since are dropped.
    pub(crate) fn set_computed(&self, bytes: usize) {
        self.computed.set(bytes);
    }

    /// What may be computed for the batch under evaluation before it ends early.
    pub(crate) fn computable_bytes(&self) -> usize {
        let end = self.evaluation.get().end_above;
        end.saturating_sub(self.computed.get())
    }

    /// The most bytes that the values of a batch should take.
    pub(crate) fn batch_bytes(&self) -> usize {
        self.batch_bytes
    }

    /// Counts a value that was computed and stays until its batch is used.
    #[inline]
    pub(crate) fn count_computed(&self, bytes: usize) -> Result<()> {
        let before = self.computed.get();
        let now = before.saturating_add(bytes);
        self.computed.set(now);
        self.computed_ever
            .set(self.computed_ever.get().wrapping_add(bytes));
        if before / COMPUTED_STEP == now / COMPUTED_STEP {
            return Ok(());
        }
        self.allow_computing(0)
    }

    /// Refuses `bytes` for a value that is about to be computed if they do not fit in addition to what is computed and
    /// held: with [`ExecError::BatchFull`] if fewer rows at once would help.
    pub(crate) fn allow_computing(&self, bytes: usize) -> Result<()> {
        let computed = self.computed.get();
        let evaluation = self.evaluation.get();
        if computed > evaluation.end_above {
            return Err(ExecError::BatchFull);
        }
        match self.allow(computed.saturating_add(bytes)) {
            Err(ExecError::Limit { .. }) if computed > evaluation.frees_above => {
                Err(ExecError::BatchFull)
            }
            outcome => outcome,
        }
    }

    /// Adjusts the reservation to cover this number of bytes.
    fn reserve(&self, bytes: usize, others_give_way: bool) -> Result<(), OverBudget> {
        let needed = bytes.saturating_sub(FREE_BYTES);
        if needed == 0 {
            return Ok(());
        }
        let mut reservation = self.reservation.borrow_mut();
        let more = needed.saturating_sub(reservation.bytes());
        if others_give_way {
            reservation.grow(more)
        } else {
            reservation.try_grow(more)
        }
    }

    /// Counts bytes spilled to disk.
    pub(crate) fn count_spilled(&mut self, bytes: u64) {
        self.spilled_bytes += bytes;
    }

    /// Bytes spilled to disk so far.
    pub(crate) fn spilled_bytes(&self) -> u64 {
        self.spilled_bytes
    }

    /// Bytes held now.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Peak of the bytes held.
    pub(crate) fn peak_bytes(&self) -> usize {
        self.all.peak.load(Ordering::Relaxed)
    }
}

/// The error where the budget has no room.
pub(crate) fn over_budget(over: &OverBudget) -> ExecError {
    ExecError::limit(
        format!("memory for all queries together ({over})"),
        "run fewer at once, read it in parts, or raise the memory option",
    )
}

impl Drop for LimitGuard {
    fn drop(&mut self) {
        self.forget_allowed();
        self.all.take(self.held_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_counted_and_given_back() {
        let mut watch = LimitGuard::new(
            Limits {
                memory_bytes: 100,
                ..Limits::default()
            },
            CancelHandle::new(),
            &MemoryBudget::new(0),
        );
        watch.hold(60).unwrap();
        assert!(matches!(watch.hold(41), Err(ExecError::Limit { .. })));
        watch.release(60);
        watch.hold(100).unwrap();
        assert_eq!(watch.peak_bytes(), 100);
    }

    #[test]
    fn all_queries_together_keep_to_the_budget() {
        let memory = MemoryBudget::new(8 << 20);
        let watch = || LimitGuard::new(Limits::default(), CancelHandle::new(), &memory);
        let (mut first, mut second) = (watch(), watch());
        first.hold(FREE_BYTES).unwrap();
        assert_eq!(memory.used_bytes(), 0);
        first.hold(6 << 20).unwrap();
        let error = second.hold(4 << 20).unwrap_err();
        assert!(error.to_string().contains("all queries"), "{error}");
        assert!(!second.try_hold(4 << 20));
        assert!(second.try_hold(1 << 20));
        first.release(6 << 20);
        second.hold(4 << 20).unwrap();
        drop((first, second));
        assert_eq!(memory.used_bytes(), 0);
    }

    #[test]
    fn a_batch_ends_early_where_what_is_computed_takes_its_share_or_does_not_fit() {
        let memory = MemoryBudget::new(16 << 20);
        let mut watch = LimitGuard::new(Limits::default(), CancelHandle::new(), &memory);
        let share = watch.batch_bytes();
        assert_eq!(share, 256 << 10);
        let around = watch.begin_evaluation(true);
        watch.count_computed(share).unwrap();
        // The value that goes beyond it is still computed, the next one is not.
        watch.allow_computing(share).unwrap();
        assert!(matches!(
            watch.count_computed(share),
            Err(ExecError::BatchFull)
        ));
        assert_eq!(watch.end_evaluation(around), 2 * share);
        // A single row has what the limits give, and is refused by their names.
        let around = watch.begin_evaluation(false);
        watch.count_computed(8 << 20).unwrap();
        assert!(memory.used_bytes() >= 7 << 20);
        let error = watch.allow_computing(9 << 20).unwrap_err();
        assert!(error.to_string().contains("raise the memory option"));
        // Within a batch that can end early that is what helps.
        assert_eq!(watch.end_evaluation(around), 8 << 20);
        let outer = watch.begin_evaluation(true);
        watch.count_computed(share).unwrap();
        let inner = watch.begin_evaluation(false);
        let full = watch.allow_computing(20 << 20);
        assert!(matches!(full, Err(ExecError::BatchFull)));
        watch.use_computed();
        let refused = watch.allow_computing(20 << 20);
        assert!(matches!(refused, Err(ExecError::Limit { .. })));
        watch.end_evaluation(inner);
        watch.end_evaluation(outer);
        watch.release(0);
        assert_eq!(watch.computed_bytes(), 0);
        drop(watch);
        assert_eq!(memory.used_bytes(), 0);
    }

    #[test]
    fn threads_of_one_query_share_its_limit() {
        let limits = Limits {
            memory_bytes: 1000,
            ..Limits::default()
        };
        let memory = MemoryBudget::new(0);
        let mut own = LimitGuard::new(limits, CancelHandle::new(), &memory);
        let mut other = own.fork(&memory);
        own.hold(700).unwrap();
        other.hold(300).unwrap();
        assert!(own.hold(1).is_err() && other.hold(1).is_err());
        assert!(!other.try_hold(1));
        own.release(600);
        assert!(own.try_hold(100));
        drop(other);
        own.hold(800).unwrap();
        assert_eq!((own.held_bytes(), own.peak_bytes()), (1000, 1000));
    }

    #[test]
    fn allowed_bytes_of_threads_are_added_up() {
        let limits = Limits {
            memory_bytes: 1000,
            ..Limits::default()
        };
        let memory = MemoryBudget::new(0);
        let mut own = LimitGuard::new(limits, CancelHandle::new(), &memory);
        let (mut one, other) = (own.fork(&memory), own.fork(&memory));
        one.allow(600).unwrap();
        assert!(other.allow(500).is_err() && own.hold(500).is_err());
        // Asking again does not add up.
        one.allow(700).unwrap();
        one.allow(300).unwrap();
        one.hold(300).unwrap();
        other.allow(700).unwrap();
        drop(other);
        let waiting = one.hold_in_flight(600, &Arc::default()).unwrap();
        assert!(own.hold(200).is_err());
        drop((waiting, one));
        own.hold(1000).unwrap();
    }

    #[test]
    fn a_sender_without_room_waits_instead_of_failing() {
        let limits = Limits {
            memory_bytes: 800,
            ..Limits::default()
        };
        let memory = MemoryBudget::new(0);
        let own = LimitGuard::new(limits, CancelHandle::new(), &memory);
        let room = Arc::<Room>::default();
        // More than the limit: a single sender is always admitted. Then an eighth.
        let first = own.fork(&memory).hold_in_flight(900, &room).unwrap();
        std::thread::scope(|scope| {
            let others: Vec<_> = [60, 30, 70]
                .map(|bytes| {
                    let (other, room) = (own.fork(&memory), &room);
                    scope.spawn(move || other.hold_in_flight(bytes, room).map(|way| way.bytes))
                })
                .into();
            drop(first);
            let bytes: Vec<_> = others.into_iter().map(|one| one.join().unwrap()).collect();
            assert_eq!(bytes, [Some(60), Some(30), Some(70)]);
        });
        let _first = own.fork(&memory).hold_in_flight(60, &room).unwrap();
        std::thread::scope(|scope| {
            let (other, room) = (own.fork(&memory), &room);
            let other = scope.spawn(move || other.hold_in_flight(60, room).is_none());
            room.close();
            assert!(other.join().unwrap());
        });
        assert_eq!(own.peak_bytes(), 900);
    }

    #[test]
    fn an_operator_that_can_spill_leaves_half_of_the_memory() {
        let limits = Limits {
            memory_bytes: 1000,
            ..Limits::default()
        };
        let mut watch = LimitGuard::new(limits, CancelHandle::new(), &MemoryBudget::new(0));
        assert!(watch.try_hold(500));
        assert!(!watch.try_hold(1));
        watch.hold(500).unwrap();
        watch.count_spilled(7);
        assert_eq!((watch.held_bytes(), watch.spilled_bytes()), (1000, 7));
    }

    #[test]
    fn time_and_cancellation_are_noticed_within_a_thousand_ticks() {
        let handle = CancelHandle::new();
        let mut watch = LimitGuard::new(
            Limits {
                time: None,
                ..Limits::default()
            },
            handle.clone(),
            &MemoryBudget::new(0),
        );
        handle.cancel();
        let stopped = (0..2 * TICKS).find_map(|_| watch.tick(1).err());
        assert!(matches!(stopped, Some(ExecError::Cancelled)));

        let mut watch = LimitGuard::new(
            Limits {
                time: Some(Duration::ZERO),
                ..Limits::default()
            },
            CancelHandle::new(),
            &MemoryBudget::new(0),
        );
        let error = watch.tick(5000).unwrap_err();
        assert!(error.to_string().contains("time"), "{error}");
    }
}
