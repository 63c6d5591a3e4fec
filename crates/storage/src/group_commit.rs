//! Group commit: a leader commits the queued transactions as one group and notifies the members.
//!
//! Committing threads enqueue; the first in the queue becomes the leader: it takes the whole queue, commits it
//! as one group and notifies the members. While one group is being synced, the next one gathers. If a sync
//! makes groups slow, or for asynchronous commits, the leadership passes to a dedicated leader thread until the
//! queue is empty: it notifies the members of a group and starts the next group before the notified threads are
//! scheduled.
//!
//! The leader thread also runs the wakers of asynchronous commits: a separate thread would cost two context
//! switches for each group. But a waker is foreign code: it may block, commit, wait for commits on its thread
//! and panic, and must not delay other groups. So a standby leader polls the leader thread. If that has been
//! running wakers for long, the standby leads until it is back, and leaves the wakers to it: wakers run one
//! after the other, and a waker that waits for another one would deadlock. Without a standby, a thread never
//! runs wakers while it is the leader.

use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    task::{Poll, Waker},
    time::{Duration, Instant},
};

use crate::{
    EngineCommit, StorageError, Version,
    sync::{Condvar, Mutex, MutexGuard, Thread, elapsed},
};

/// How long a leader waits for further members, at least and at most: not at all if a commit takes microseconds.
const MIN_GATHER_WAIT: Duration = Duration::from_micros(100);
const MAX_GATHER_WAIT: Duration = Duration::from_millis(2);
/// How long the leader may run wakers before its standby leads, and how often the standby polls it.
const WAKERS_TOO_LONG: Duration = Duration::from_millis(5);

/// Commits groups.
pub(crate) trait Committer: Send + Sync + 'static {
    /// The data to be committed for one transaction.
    type Work: Send + Sync;

    /// Held while a group is gathered and committed.
    fn writer(&self) -> &Mutex<()>;

    /// Commits a group, in its order; returns one outcome per member.
    fn commit_group(&self, group: &[&Self::Work]) -> Vec<Result<Version, StorageError>>;
}

/// The queue in front of a committer, and the threads that lead it.
pub(crate) struct GroupCommit<C: Committer> {
    committer: Arc<C>,
    queue: Mutex<Queue<C::Work>>,
    /// Signalled when all expected members are in the queue.
    joined: Condvar,
    /// Signalled when the leader thread must lead, run wakers, or shut down.
    called: Condvar,
    /// Signalled when the standby must take over, poll the leader, or shut down.
    standby_called: Condvar,
    /// Started on demand.
    threads: Mutex<Option<Threads>>,
}

/// The leader thread and its standby.
struct Threads(Thread, Thread);

struct Queue<W> {
    waiting: VecDeque<Arc<Ticket<W>>>,
    /// Whether there is a leader, or one was requested.
    led: bool,
    /// Whether the dedicated leader thread, or its standby, was requested to lead.
    called: bool,
    /// The wakers that the leader thread has to run.
    wakers: Vec<Waker>,
    /// Since when the leader thread runs wakers.
    waking: Option<Instant>,
    /// Whether it has been doing so for long, so that its standby has to lead.
    standby_leads: bool,
    /// Whether the standby polls the leader; otherwise it sleeps.
    polled: bool,
    /// Whether the leader ran wakers since the last poll.
    woke: bool,
    /// The engine is being dropped: the threads shut down.
    ends: bool,
    /// The leader thread has ended, or never existed.
    left: bool,
    /// Number of writers during the last group: its members and those that arrived in the meantime.
    writers: usize,
    /// Duration of the last group.
    took: Duration,
}

impl<W> Queue<W> {
    fn new() -> Self {
        Self {
            waiting: VecDeque::new(),
            led: false,
            called: false,
            wakers: Vec::new(),
            waking: None,
            standby_leads: false,
            polled: false,
            woke: false,
            ends: false,
            left: false,
            writers: 0,
            took: Duration::ZERO,
        }
    }
}

/// A transaction in the queue.
struct Ticket<W> {
    work: W,
    state: Mutex<State>,
    changed: Condvar,
    /// Whether a thread that can lead waits for it.
    has_thread: bool,
    /// Dropped when the commit is complete.
    during: Mutex<Option<Box<dyn Send>>>,
}

enum State {
    Waiting(Option<Waker>),
    Leads,
    Done(Result<Version, StorageError>),
}

/// A member of a group, and the outcome of its commit.
type Ended<W> = (Arc<Ticket<W>>, Result<Version, StorageError>);

impl<W> Ticket<W> {
    /// `during` is given if no thread waits for the commit.
    fn new(work: W, during: Option<Box<dyn Send>>) -> Arc<Self> {
        Arc::new(Self {
            work,
            state: Mutex::new(State::Waiting(None)),
            changed: Condvar::new(),
            has_thread: during.is_none(),
            during: Mutex::new(during),
        })
    }

    /// Changes the state and notifies the thread that waits; returns the waker, if there is one, which the
    /// caller has to run.
    fn set(&self, state: State) -> Option<Waker> {
        // The lock is released at the end of this statement: the thread that is
        // notified does not block on it.
        let before = std::mem::replace(&mut *self.state.lock(), state);
        match before {
            State::Waiting(Some(waker)) => Some(waker),
            _ => {
                self.changed.notify_one();
                None
            }
        }
    }
}

/// An asynchronous commit.
struct Queued<W>(Arc<Ticket<W>>);

impl<W: Send + Sync> EngineCommit for Queued<W> {
    fn poll(&mut self, waker: &Waker) -> Poll<Result<Version, StorageError>> {
        // Cloning and dropping a waker runs foreign code: not under the lock.
        let waits = State::Waiting(Some(waker.clone()));
        let before = std::mem::replace(&mut *self.0.state.lock(), waits);
        match before {
            State::Done(result) => Poll::Ready(result),
            State::Waiting(_) | State::Leads => Poll::Pending,
        }
    }

    fn wait(self: Box<Self>) -> Result<Version, StorageError> {
        loop {
            let mut state = self.0.state.lock();
            match std::mem::replace(&mut *state, State::Waiting(None)) {
                State::Done(result) => return result,
                // As above: not under the lock.
                State::Waiting(Some(waker)) => {
                    drop(state);
                    drop(waker);
                }
                State::Waiting(None) | State::Leads => self.0.changed.wait(&mut state),
            }
        }
    }
}

impl<C: Committer> GroupCommit<C> {
    /// An empty queue.
    pub(crate) fn new(committer: Arc<C>) -> Arc<Self> {
        Arc::new(Self {
            committer,
            queue: Mutex::new(Queue::new()),
            joined: Condvar::new(),
            called: Condvar::new(),
            standby_called: Condvar::new(),
            threads: Mutex::default(),
        })
    }

    /// Commits; this thread waits, or leads.
    pub(crate) fn commit(self: &Arc<Self>, work: C::Work) -> Result<Version, StorageError> {
        let ticket = Ticket::new(work, None);
        if self.join(ticket.clone()) {
            self.lead();
        }
        loop {
            let mut state = ticket.state.lock();
            match std::mem::replace(&mut *state, State::Waiting(None)) {
                State::Done(result) => return result,
                // The state is `Waiting` again before this thread leads: its own ticket may be in the
                // group, which sets it to `Done`.
                State::Leads => {
                    drop(state);
                    self.lead();
                }
                State::Waiting(_) => ticket.changed.wait(&mut state),
            }
        }
    }

    /// Starts a commit; this thread leads only if it `is_quick`. `during` is dropped when the commit is
    /// complete.
    pub(crate) fn start(
        self: &Arc<Self>,
        work: C::Work,
        is_quick: bool,
        during: Box<dyn Send>,
    ) -> Box<dyn EngineCommit> {
        let ticket = Ticket::new(work, Some(during));
        if self.join(ticket.clone()) {
            match is_quick {
                // The queue is empty: committing here takes no longer than handing over to another thread.
                true => self.lead(),
                false => self.call(true, Vec::new()),
            }
        }
        Box::new(Queued(ticket))
    }

    /// Shuts the threads down. Queued transactions are committed and notified.
    pub(crate) fn end(&self) {
        self.queue.lock().ends = true;
        self.called.notify_one();
        let threads = self.threads.lock().take();
        if let Some(Threads(leader, standby)) = threads {
            // A waker run by the leader thread may drop the engine; then the standby is not joined, as it stays
            // until the leader is back.
            let waits = !leader.is_current();
            leader.join();
            if waits {
                standby.join();
            }
        }
    }

    /// Adds a ticket to the queue; returns whether there is no leader, so that the caller has to lead or
    /// request one.
    fn join(&self, ticket: Arc<Ticket<C::Work>>) -> bool {
        let mut queue = self.queue.lock();
        queue.waiting.push_back(ticket);
        if queue.waiting.len() >= queue.writers {
            self.joined.notify_one();
        }
        // Under the lock of the queue: of the threads that find it without a
        // leader, one becomes the leader.
        !std::mem::replace(&mut queue.led, true)
    }

    /// Commits the queue, then passes the leadership on if the queue is not empty: to the leader thread if
    /// groups take long, otherwise to the first waiting thread.
    fn lead(self: &Arc<Self>) {
        let ended = self.lead_group();
        let mut queue = self.queue.lock();
        // The successor is appointed before the members are notified: the next group starts while these
        // threads are scheduled, and members that return with another commit join it.
        let mut calls = false;
        match queue.waiting.front() {
            None => self.resign(&mut queue),
            Some(next) if next.has_thread && queue.took < MIN_GATHER_WAIT => {
                next.set(State::Leads);
            }
            Some(_) => calls = true,
        }
        drop(queue);
        let wakers = notify_members(ended);
        if calls || !wakers.is_empty() {
            self.call(calls, wakers);
        }
    }

    /// Requests the leader thread to run these wakers, and to lead if `leads`; if it cannot be started, the
    /// caller does both.
    fn call(self: &Arc<Self>, mut leads: bool, mut wakers: Vec<Waker>) {
        if self.has_threads() {
            let mut queue = self.queue.lock();
            if !queue.left {
                queue.called |= leads;
                queue.wakers.extend(wakers);
                let standby_leads = queue.standby_leads;
                drop(queue);
                let called = if standby_leads {
                    &self.standby_called
                } else {
                    &self.called
                };
                called.notify_one();
                return;
            }
        }
        while leads {
            wakers.extend(notify_members(self.lead_group()));
            let mut queue = self.queue.lock();
            leads = match queue.waiting.front() {
                Some(next) if !next.has_thread => true,
                Some(next) => {
                    next.set(State::Leads);
                    false
                }
                None => {
                    self.resign(&mut queue);
                    false
                }
            };
        }
        wake_all(wakers);
    }

    /// Gives up the leadership. A leader thread that is shutting down waits for that; any leader may call it.
    fn resign(&self, queue: &mut Queue<C::Work>) {
        queue.led = false;
        if queue.ends {
            self.called.notify_one();
        }
    }

    /// Starts the threads unless they run; returns whether they run.
    fn has_threads(self: &Arc<Self>) -> bool {
        let mut threads = self.threads.lock();
        // `end` takes the threads after it has set `ends`: from then on no others are started.
        if threads.is_none() && !self.queue.lock().ends {
            *threads = self.start_threads();
        }
        threads.is_some()
    }

    /// Both, or neither: without a standby, wakers run by the leader could block all other commits.
    fn start_threads(self: &Arc<Self>) -> Option<Threads> {
        let group_commit = self.clone();
        let standby = Thread::start("commit-standby", move || group_commit.run_standby())?;
        let group_commit = self.clone();
        match Thread::start("commit-leader", move || group_commit.run_leader()) {
            Some(leader) => Some(Threads(leader, standby)),
            None => {
                self.queue.lock().left = true;
                self.standby_called.notify_one();
                standby.join();
                self.queue.lock().left = false;
                None
            }
        }
    }

    fn run_leader(&self) {
        let mut queue = self.queue.lock();
        loop {
            if !queue.wakers.is_empty() {
                queue = self.wake(queue);
            } else if std::mem::take(&mut queue.called) {
                drop(queue);
                queue = self.lead_once();
            } else if queue.ends && !queue.led {
                queue.left = true;
                drop(queue);
                self.standby_called.notify_one();
                return;
            } else {
                self.called.wait(&mut queue);
            }
        }
    }

    /// Runs the pending wakers. This thread does not lead in the meantime: a request to lead is served when it
    /// is back, or by its standby.
    fn wake<'q>(
        &'q self,
        mut queue: MutexGuard<'q, Queue<C::Work>>,
    ) -> MutexGuard<'q, Queue<C::Work>> {
        let wakers = std::mem::take(&mut queue.wakers);
        queue.waking = Some(Instant::now());
        queue.woke = true;
        let was_polled = std::mem::replace(&mut queue.polled, true);
        drop(queue);
        if !was_polled {
            self.standby_called.notify_one();
        }
        wake_all(wakers);
        let mut queue = self.queue.lock();
        queue.waking = None;
        queue.standby_leads = false;
        queue
    }

    fn run_standby(&self) {
        let mut queue = self.queue.lock();
        loop {
            if queue.standby_leads && std::mem::take(&mut queue.called) {
                drop(queue);
                queue = self.lead_once();
                // The leader may be back: pending wakers and requests are its task again.
                self.called.notify_one();
            } else if queue.left {
                return;
            } else if let Some(since) = queue.waking
                && !queue.standby_leads
                && elapsed(since) >= WAKERS_TOO_LONG
            {
                // From here on requests to lead go to the standby (`call`), until the leader
                // thread is back from its wakers.
                queue.standby_leads = true;
            } else if queue.waking.is_some() || std::mem::take(&mut queue.woke) {
                self.standby_called.wait_for(&mut queue, WAKERS_TOO_LONG);
            } else {
                queue.polled = false;
                self.standby_called.wait(&mut queue);
            }
        }
    }

    /// Leads one group; leaves the wakers to run, and whether a leader is still needed, in the queue.
    fn lead_once(&self) -> MutexGuard<'_, Queue<C::Work>> {
        let wakers = notify_members(self.lead_group());
        let mut queue = self.queue.lock();
        queue.wakers.extend(wakers);
        queue.led = !queue.waiting.is_empty();
        // This thread leads again before it sleeps: the queue has filled
        // while this group was committed.
        queue.called = queue.led;
        queue
    }

    /// Commits the queue. The caller stays the leader and notifies the members.
    fn lead_group(&self) -> Vec<Ended<C::Work>> {
        // Before the queue is taken. While another thread has the writer lock, for a bulk load or a
        // sync, further members join the group.
        let writer = self.committer.writer().lock();
        let group = self.gather();
        let began = Instant::now();
        // The members wait for this thread. Without an answer they would wait for ever, and
        // their versions may be on disk.
        let results = catch_unwind(AssertUnwindSafe(|| {
            let group: Vec<_> = group.iter().map(|ticket| &ticket.work).collect();
            self.committer.commit_group(&group)
        }))
        .unwrap_or_else(|_| {
            let text = "a panic interrupted the commit: reopen the database and check";
            group
                .iter()
                .map(|_| Err(StorageError::CommitUnknown(text.to_owned())))
                .collect()
        });
        drop(writer);
        let mut queue = self.queue.lock();
        queue.took = elapsed(began);
        // What `gather` expects of the next group: the same writers, once each has
        // returned with another commit.
        queue.writers = group.len() + queue.waiting.len();
        drop(queue);
        group.into_iter().zip(results).collect()
    }

    /// Takes the queue. If groups take long, because they sync, the writers of the last group get a moment to
    /// return, so that they share one sync with those that arrived in the meantime. If no thread waits there is
    /// no such pause: the next commits are prepared while this group syncs.
    fn gather(&self) -> Vec<Arc<Ticket<C::Work>>> {
        let mut queue = self.queue.lock();
        let wait = match queue.waiting.iter().any(|ticket| ticket.has_thread) {
            true => queue.took / 2,
            false => Duration::ZERO,
        };
        if wait >= MIN_GATHER_WAIT {
            let deadline = Instant::now() + wait.min(MAX_GATHER_WAIT);
            while queue.waiting.len() < queue.writers {
                if self.joined.wait_until(&mut queue, deadline).timed_out() {
                    break;
                }
            }
        }
        queue.waiting.drain(..).collect()
    }
}

/// Notifies the members of a group; returns the wakers to run. Each ticket is dropped at once, so that the
/// waiting thread frees its own buffers: freed here, they would end up in the leader's heap arena.
fn notify_members<W>(ended: Vec<Ended<W>>) -> Vec<Waker> {
    let mut wakers = Vec::new();
    for (ticket, result) in ended {
        drop(ticket.during.lock().take());
        wakers.extend(ticket.set(State::Done(result)));
    }
    wakers
}

fn wake_all(wakers: Vec<Waker>) {
    for waker in wakers {
        // The panic hook has reported a panic of the waker; it must not affect other commits.
        let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
    }
}
