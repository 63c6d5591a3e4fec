//! How much a query may take, and how it is stopped.

use std::{
    cell::{Cell, RefCell},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use isomer_data::{Memory, MemoryKind, OverBudget, Reservation};
use parking_lot::{Condvar, Mutex};

use crate::error::{ExecError, Result};

/// The limits of one query.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// Longest running time.
    pub time: Option<Duration>,
    /// Most bytes held at once by sorts, groups, lists, searches and buffers.
    pub memory_bytes: usize,
    /// Most rows in the result.
    pub rows: Option<u64>,
    /// Most steps of a variable-length or shortest path that has no upper bound of its own.
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

/// Stops a query from another thread. Clones stop the same query.
#[derive(Clone, Debug, Default)]
pub struct CancelHandle(Arc<AtomicBool>);

impl CancelHandle {
    /// A handle that nobody pulled yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks the query to stop. It answers [`ExecError::Cancelled`] within about a thousand rows.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it was asked to stop.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// When a query is to stop, for the threads that work for it.
#[derive(Clone, Debug)]
pub struct Stop {
    cancel: CancelHandle,
    deadline: Option<Instant>,
    time: Option<Duration>,
}

impl Stop {
    /// Answers an error when the query was cancelled or its time is over. Reads the clock: call it every few
    /// milliseconds of work, not every step.
    pub fn check(&self) -> Result<()> {
        if self.cancel.is_cancelled() {
            return Err(ExecError::Cancelled);
        }
        match self.deadline {
            Some(deadline) if Instant::now() >= deadline => Err(ExecError::limit(
                format!("{:?} of time", self.time.unwrap_or_default()),
                "narrow it (labels, bounds of paths, LIMIT), add an index, or raise the time limit",
            )),
            _ => Ok(()),
        }
    }
}

/// Keeps watch over the limits while a query runs.
#[derive(Debug)]
pub(crate) struct Watch {
    limits: Limits,
    cancel: CancelHandle,
    deadline: Option<Instant>,
    /// Work units until the clock is read again.
    ticks: u32,
    held_bytes: usize,
    /// What was last allowed to a thread beside others, which count it too: until it asks again. None for the query's own
    /// thread, which may be done with it long since.
    allowed: Option<Cell<usize>>,
    /// What all threads of the query hold.
    all: Arc<Held>,
    spilled_bytes: u64,
    /// What the query has of the budget of all: what is held beyond [`FREE_BYTES`].
    reservation: RefCell<Reservation>,
}

/// Room for what is on its way between the threads of a query: who finds none waits.
#[derive(Debug, Default)]
pub(crate) struct Room {
    taken: Mutex<Taken>,
    less: Condvar,
}

#[derive(Debug, Default)]
struct Taken {
    bytes: usize,
    /// Nobody takes what is sent any more.
    closed: bool,
}

impl Room {
    /// Takes `bytes` of at most `most` as soon as they are free; where nothing is taken there is always room. False where
    /// nobody takes anything any more.
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

    /// Nobody takes anything any more: who waits is sent away.
    pub(crate) fn close(&self) {
        self.taken.lock().closed = true;
        self.less.notify_all();
    }
}

/// Bytes between two threads of a query.
#[derive(Debug)]
pub(crate) struct OnTheWay {
    all: Arc<Held>,
    room: Arc<Room>,
    bytes: usize,
}

impl Drop for OnTheWay {
    fn drop(&mut self) {
        self.all.take(self.bytes);
        self.room.leave(self.bytes);
    }
}

/// What the threads of a query hold together.
#[derive(Debug, Default)]
struct Held {
    bytes: AtomicUsize,
    peak: AtomicUsize,
}

impl Held {
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

/// A query holds so much without asking the budget of all: small ones never touch it.
const FREE_BYTES: usize = 256 << 10;

/// Others give way to a query that can spill until it has this much.
const WORKING_BYTES: usize = 4 << 20;

/// The part of a query's memory that may be on its way between its threads.
const WAY_SHARE: usize = 8;

/// The clock is read once per so many rows or steps.
const TICKS: u32 = 1024;

impl Watch {
    pub(crate) fn new(limits: Limits, cancel: CancelHandle, memory: &Memory) -> Self {
        let deadline = limits
            .time
            .and_then(|time| Instant::now().checked_add(time));
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
        }
    }

    /// The watch of a thread that works for the same query: the same deadline and handle, and one count of what all hold.
    pub(crate) fn fork(&self, memory: &Memory) -> Self {
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
        }
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Counts `units` rows or steps; looks at the clock and the handle now and then.
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
            None => self.look(),
        }
    }

    /// Looks at the clock and the handle.
    pub(crate) fn look(&mut self) -> Result<()> {
        self.ticks = TICKS;
        self.check()
    }

    /// As [`Watch::look`], without counting.
    pub(crate) fn check(&self) -> Result<()> {
        if self.cancel.is_cancelled() {
            return Err(ExecError::Cancelled);
        }
        match self.deadline {
            Some(deadline) if Instant::now() >= deadline => Err(ExecError::limit(
                format!("{:?} of time", self.limits.time.unwrap_or_default()),
                "narrow it (labels, bounds of paths, LIMIT), add an index, or raise the time limit",
            )),
            _ => Ok(()),
        }
    }

    /// When to stop, for other threads.
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

    /// Holds `bytes` that go from one thread to another, until what is answered is dropped. Waits while much is on its way,
    /// so that the one that takes them has room to work; none where nobody takes them any more.
    pub(crate) fn on_the_way(&self, bytes: usize, room: &Arc<Room>) -> Option<OnTheWay> {
        self.forget_allowed();
        // One thread has its rows at hand without asking: several do so one at a time where there is no more memory.
        let held = self.held_bytes.saturating_add(bytes);
        let most = match self.reserve(held, held <= WORKING_BYTES) {
            Ok(()) => self.limits.memory_bytes / WAY_SHARE,
            Err(_) => 0,
        };
        if !room.enter(bytes, most) {
            return None;
        }
        self.all.add(bytes);
        Some(OnTheWay {
            all: self.all.clone(),
            room: room.clone(),
            bytes,
        })
    }

    /// What was allowed is not there any more, or is held.
    fn forget_allowed(&self) {
        if let Some(allowed) = &self.allowed {
            self.all.take(allowed.take());
        }
    }

    /// As [`Watch::hold`], for those who can spill instead: false, and nothing is held, where the query would hold more
    /// than half of its limit, or where others would have to give way beyond what is needed to work at all.
    pub(crate) fn try_hold(&mut self, bytes: usize) -> bool {
        self.forget_allowed();
        let held = self.held_bytes.saturating_add(bytes);
        let all = self.all.bytes().saturating_add(bytes);
        if all > self.limits.memory_bytes / 2 || self.reserve(held, held <= WORKING_BYTES).is_err()
        {
            return false;
        }
        self.held_bytes = held;
        self.all.add(bytes);
        true
    }

    /// Gives back what was held.
    pub(crate) fn release(&mut self, bytes: usize) {
        let bytes = bytes.min(self.held_bytes);
        self.held_bytes -= bytes;
        self.all.take(bytes);
        let reservation = self.reservation.get_mut();
        let needed = self.held_bytes.saturating_sub(FREE_BYTES);
        reservation.shrink(reservation.bytes().saturating_sub(needed));
    }

    /// Refuses `bytes` where they do not fit into the memory limit, or the budget of all, beside what is held.
    pub(crate) fn allow(&self, bytes: usize) -> Result<()> {
        self.forget_allowed();
        if bytes > self.limits.memory_bytes.saturating_sub(self.all.bytes()) {
            return Err(ExecError::limit(
                format!("{} bytes of memory", self.limits.memory_bytes),
                "aggregate or LIMIT earlier, read it in parts, or raise the memory limit",
            ));
        }
        self.reserve(self.held_bytes + bytes, true)
            .map_err(|over| {
                ExecError::limit(
                    format!("memory for all queries together ({over})"),
                    "run fewer at once, read it in parts, or raise the memory option",
                )
            })?;
        if let Some(allowed) = &self.allowed {
            allowed.set(bytes);
            self.all.add(bytes);
        }
        Ok(())
    }

    /// Makes the reservation cover so many bytes.
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

    /// Counts what went to disk.
    pub(crate) fn count_spilled(&mut self, bytes: u64) {
        self.spilled_bytes += bytes;
    }

    /// Bytes that went to disk so far.
    pub(crate) fn spilled_bytes(&self) -> u64 {
        self.spilled_bytes
    }

    /// Bytes held now.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Most bytes held at once so far.
    pub(crate) fn peak_bytes(&self) -> usize {
        self.all.peak.load(Ordering::Relaxed)
    }
}

impl Drop for Watch {
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
        let mut watch = Watch::new(
            Limits {
                memory_bytes: 100,
                ..Limits::default()
            },
            CancelHandle::new(),
            &Memory::new(0),
        );
        watch.hold(60).unwrap();
        assert!(matches!(watch.hold(41), Err(ExecError::Limit { .. })));
        watch.release(60);
        watch.hold(100).unwrap();
        assert_eq!(watch.peak_bytes(), 100);
    }

    #[test]
    fn all_queries_together_keep_to_the_budget() {
        let memory = Memory::new(8 << 20);
        let watch = || Watch::new(Limits::default(), CancelHandle::new(), &memory);
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
    fn threads_of_one_query_share_its_limit() {
        let limits = Limits {
            memory_bytes: 1000,
            ..Limits::default()
        };
        let memory = Memory::new(0);
        let mut own = Watch::new(limits, CancelHandle::new(), &memory);
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
    fn what_is_allowed_to_threads_is_added_up() {
        let limits = Limits {
            memory_bytes: 1000,
            ..Limits::default()
        };
        let memory = Memory::new(0);
        let mut own = Watch::new(limits, CancelHandle::new(), &memory);
        let (mut one, other) = (own.fork(&memory), own.fork(&memory));
        one.allow(600).unwrap();
        assert!(other.allow(500).is_err() && own.hold(500).is_err());
        // Asking again is not asking for more.
        one.allow(700).unwrap();
        one.allow(300).unwrap();
        one.hold(300).unwrap();
        other.allow(700).unwrap();
        drop(other);
        let waiting = one.on_the_way(600, &Arc::default()).unwrap();
        assert!(own.hold(200).is_err());
        drop((waiting, one));
        own.hold(1000).unwrap();
    }

    #[test]
    fn who_finds_no_room_waits_for_it_and_does_not_fail() {
        let limits = Limits {
            memory_bytes: 800,
            ..Limits::default()
        };
        let memory = Memory::new(0);
        let own = Watch::new(limits, CancelHandle::new(), &memory);
        let room = Arc::<Room>::default();
        // More than there is: one always may. Then an eighth.
        let first = own.fork(&memory).on_the_way(900, &room).unwrap();
        std::thread::scope(|scope| {
            let others: Vec<_> = [60, 30, 70]
                .map(|bytes| {
                    let (other, room) = (own.fork(&memory), &room);
                    scope.spawn(move || other.on_the_way(bytes, room).map(|way| way.bytes))
                })
                .into();
            drop(first);
            let bytes: Vec<_> = others.into_iter().map(|one| one.join().unwrap()).collect();
            assert_eq!(bytes, [Some(60), Some(30), Some(70)]);
        });
        let _first = own.fork(&memory).on_the_way(60, &room).unwrap();
        std::thread::scope(|scope| {
            let (other, room) = (own.fork(&memory), &room);
            let other = scope.spawn(move || other.on_the_way(60, room).is_none());
            room.close();
            assert!(other.join().unwrap());
        });
        assert_eq!(own.peak_bytes(), 900);
    }

    #[test]
    fn who_can_spill_leaves_half_to_others() {
        let limits = Limits {
            memory_bytes: 1000,
            ..Limits::default()
        };
        let mut watch = Watch::new(limits, CancelHandle::new(), &Memory::new(0));
        assert!(watch.try_hold(500));
        assert!(!watch.try_hold(1));
        watch.hold(500).unwrap();
        watch.count_spilled(7);
        assert_eq!((watch.held_bytes(), watch.spilled_bytes()), (1000, 7));
    }

    #[test]
    fn time_and_cancellation_are_noticed_within_a_thousand_ticks() {
        let handle = CancelHandle::new();
        let mut watch = Watch::new(
            Limits {
                time: None,
                ..Limits::default()
            },
            handle.clone(),
            &Memory::new(0),
        );
        handle.cancel();
        let stopped = (0..2 * TICKS).find_map(|_| watch.tick(1).err());
        assert!(matches!(stopped, Some(ExecError::Cancelled)));

        let mut watch = Watch::new(
            Limits {
                time: Some(Duration::ZERO),
                ..Limits::default()
            },
            CancelHandle::new(),
            &Memory::new(0),
        );
        let error = watch.tick(5000).unwrap_err();
        assert!(error.to_string().contains("time"), "{error}");
    }
}
