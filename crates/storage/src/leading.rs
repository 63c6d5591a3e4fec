//! Group commit: who leads a group, whom it is made of, and who tells them how it ended.
//!
//! What is to be committed queues; the first in the queue leads: it takes everybody who waits, has them committed as one
//! group, and wakes them. While one group is being synced, the next one gathers. Where that happens, and for those who do
//! not wait for their commits, a thread of the engine's own leads from then on, until nobody is left: it tells who is in a
//! group how it ended, and goes on with the next one before those run whose threads wait for theirs.
//!
//! That leader wakes those who do not wait, too: a thread apart for it would be two switches of threads more for each
//! group. But what those do is their own affair: it may take its time, commit, have its thread wait for commits and panic,
//! and must hold up no group. So the leader has a stand-in, who looks at it from time to time. Where it has been waking
//! somebody for long, the stand-in leads until it is back, and leaves the waking to it: wakers are woken one after the
//! other, and one that waited for another would wait for ever. Where
//! there is no stand-in, nobody is woken by a thread that has the lead.

use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    task::{Poll, Waker},
    time::{Duration, Instant},
};

use crate::{
    Committing, StorageError, Version,
    sync::{Condvar, Mutex, MutexGuard, Thread, elapsed},
};

/// How long a leader waits for the others: not at all where a commit takes microseconds.
const MIN_PATIENCE: Duration = Duration::from_micros(100);
const MAX_PATIENCE: Duration = Duration::from_millis(2);
/// How long the leader may wake others before its stand-in leads, and how often that one looks.
const LONG: Duration = Duration::from_millis(5);

/// What commits groups.
pub(crate) trait Committer: Send + Sync + 'static {
    /// What is to be committed of one transaction.
    type Work: Send + Sync;

    /// Held while a group is gathered and committed.
    fn writer(&self) -> &Mutex<()>;

    /// Commits a group, in its order; one outcome for each.
    fn commit_group(&self, group: &[&Self::Work]) -> Vec<Result<Version, StorageError>>;
}

/// The queue before a committer, and the threads that lead it.
pub(crate) struct Leading<C: Committer> {
    committer: Arc<C>,
    queue: Mutex<Queue<C::Work>>,
    /// Told when all are in the queue whom a leader awaits.
    joined: Condvar,
    /// Told when the leader has to lead, to wake somebody, or to end.
    called: Condvar,
    /// Told when its stand-in has to lead, to look at it, or to end.
    substituted: Condvar,
    /// From the first work for them on.
    threads: Mutex<Option<Threads>>,
}

/// The leader and its stand-in.
struct Threads(Thread, Thread);

struct Queue<W> {
    waiting: VecDeque<Arc<Ticket<W>>>,
    /// Whether somebody leads, or has to.
    led: bool,
    /// Whether it is the engine's own leader, or its stand-in, who has to.
    called: bool,
    /// Whom the leader has to wake.
    wakers: Vec<Waker>,
    /// Since when it wakes somebody.
    waking: Option<Instant>,
    /// Whether it has been doing so for long, so that its stand-in has to lead.
    stands_in: bool,
    /// Whether the stand-in looks from time to time. Else it sleeps.
    watched: bool,
    /// Whether the leader woke anybody since.
    woke: bool,
    /// The engine goes: its own threads end.
    ends: bool,
    /// The leader has ended, or there never was one.
    left: bool,
    /// How many writers were about during the last group: its members and those who came meanwhile.
    writers: usize,
    /// How long the last group took.
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
            stands_in: false,
            watched: false,
            woke: false,
            ends: false,
            left: false,
            writers: 0,
            took: Duration::ZERO,
        }
    }
}

/// What waits for its commit.
struct Ticket<W> {
    work: W,
    state: Mutex<State>,
    changed: Condvar,
    /// Whether a thread waits for it that can lead.
    has_thread: bool,
    /// Dropped when it is over.
    during: Mutex<Option<Box<dyn Send>>>,
}

enum State {
    Waiting(Option<Waker>),
    Leads,
    Done(Result<Version, StorageError>),
}

/// A member of a group, and how its commit ended.
type Ended<W> = (Arc<Ticket<W>>, Result<Version, StorageError>);

impl<W> Ticket<W> {
    /// `during` is given where no thread waits for it.
    fn new(work: W, during: Option<Box<dyn Send>>) -> Arc<Self> {
        Arc::new(Self {
            work,
            state: Mutex::new(State::Waiting(None)),
            changed: Condvar::new(),
            has_thread: during.is_none(),
            during: Mutex::new(during),
        })
    }

    /// Changes the state, which the thread that waits is told of; whoever else is to be woken is the caller's.
    fn set(&self, state: State) -> Option<Waker> {
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

/// A commit that somebody asks for from time to time.
struct Queued<W>(Arc<Ticket<W>>);

impl<W: Send + Sync> Committing for Queued<W> {
    fn poll(&mut self, waker: &Waker) -> Poll<Result<Version, StorageError>> {
        // Whatever a waker does when it is copied or dropped is not done under the lock.
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

impl<C: Committer> Leading<C> {
    /// An empty queue.
    pub(crate) fn new(committer: Arc<C>) -> Arc<Self> {
        Arc::new(Self {
            committer,
            queue: Mutex::new(Queue::new()),
            joined: Condvar::new(),
            called: Condvar::new(),
            substituted: Condvar::new(),
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
                State::Leads => {
                    drop(state);
                    self.lead();
                }
                State::Waiting(_) => ticket.changed.wait(&mut state),
            }
        }
    }

    /// Has it committed, by this thread only where that `is_quick`. `during` is dropped when it is over.
    pub(crate) fn start(
        self: &Arc<Self>,
        work: C::Work,
        is_quick: bool,
        during: Box<dyn Send>,
    ) -> Box<dyn Committing> {
        let ticket = Ticket::new(work, Some(during));
        if self.join(ticket.clone()) {
            match is_quick {
                // Nobody else is under way: it takes no longer than handing it to another thread.
                true => self.lead(),
                false => self.call(true, Vec::new()),
            }
        }
        Box::new(Queued(ticket))
    }

    /// Ends the threads. Who is in the queue by then is committed, and told.
    pub(crate) fn end(&self) {
        self.queue.lock().ends = true;
        self.called.notify_one();
        let threads = self.threads.lock().take();
        if let Some(Threads(leader, stand_in)) = threads {
            // Whom it wakes may let go of the engine; the stand-in then stays until it is back.
            let waits = !leader.is_current();
            leader.join();
            if waits {
                stand_in.join();
            }
        }
    }

    /// Puts a ticket into the queue; whether nobody leads, and who put it there has to see to it.
    fn join(&self, ticket: Arc<Ticket<C::Work>>) -> bool {
        let mut queue = self.queue.lock();
        queue.waiting.push_back(ticket);
        if queue.waiting.len() >= queue.writers {
            self.joined.notify_one();
        }
        !std::mem::replace(&mut queue.led, true)
    }

    /// Commits everybody who waits, then hands the lead on, if anybody came meanwhile: to the engine's own leader where
    /// groups take long, else to the first of those who came.
    fn lead(self: &Arc<Self>) {
        let ended = self.lead_group();
        let mut queue = self.queue.lock();
        let mut calls = false;
        match queue.waiting.front() {
            None => self.lay_down(&mut queue),
            Some(next) if next.has_thread && queue.took < MIN_PATIENCE => {
                next.set(State::Leads);
            }
            Some(_) => calls = true,
        }
        drop(queue);
        let wakers = tell(ended);
        if calls || !wakers.is_empty() {
            self.call(calls, wakers);
        }
    }

    /// Has the engine's own threads wake these, and lead where that has to be; where there are none to be had, the caller
    /// does.
    fn call(self: &Arc<Self>, mut leads: bool, mut wakers: Vec<Waker>) {
        if self.has_threads() {
            let mut queue = self.queue.lock();
            if !queue.left {
                queue.called |= leads;
                queue.wakers.extend(wakers);
                let stands_in = queue.stands_in;
                drop(queue);
                return match stands_in {
                    true => drop(self.substituted.notify_one()),
                    false => drop(self.called.notify_one()),
                };
            }
        }
        while leads {
            wakers.extend(tell(self.lead_group()));
            let mut queue = self.queue.lock();
            leads = match queue.waiting.front() {
                Some(next) if !next.has_thread => true,
                Some(next) => {
                    next.set(State::Leads);
                    false
                }
                None => {
                    self.lay_down(&mut queue);
                    false
                }
            };
        }
        wake_all(wakers);
    }

    /// Nobody leads any more. The leader, where it is to end, waits for that: whoever leads may call it.
    fn lay_down(&self, queue: &mut Queue<C::Work>) {
        queue.led = false;
        if queue.ends {
            self.called.notify_one();
        }
    }

    /// Starts the engine's own threads, unless they are there; whether they are.
    fn has_threads(self: &Arc<Self>) -> bool {
        let mut threads = self.threads.lock();
        // Whoever ends them takes them from here afterwards: no others are started then.
        if threads.is_none() && !self.queue.lock().ends {
            *threads = self.start_threads();
        }
        threads.is_some()
    }

    /// Both, or neither: without a stand-in, whom the leader wakes could hold up all others.
    fn start_threads(self: &Arc<Self>) -> Option<Threads> {
        let leading = self.clone();
        let stand_in = Thread::start("commit-stand-in", move || leading.run_stand_in())?;
        let leading = self.clone();
        match Thread::start("commit-leader", move || leading.run_leader()) {
            Some(leader) => Some(Threads(leader, stand_in)),
            None => {
                self.queue.lock().left = true;
                self.substituted.notify_one();
                stand_in.join();
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
                queue = self.lead_on();
            } else if queue.ends && !queue.led {
                queue.left = true;
                drop(queue);
                self.substituted.notify_one();
                return;
            } else {
                self.called.wait(&mut queue);
            }
        }
    }

    /// Wakes whom the leader has to wake. It does not lead meanwhile: whoever calls it is heard when it is back, or by its
    /// stand-in.
    fn wake<'q>(
        &'q self,
        mut queue: MutexGuard<'q, Queue<C::Work>>,
    ) -> MutexGuard<'q, Queue<C::Work>> {
        let wakers = std::mem::take(&mut queue.wakers);
        queue.waking = Some(Instant::now());
        queue.woke = true;
        let was_watched = std::mem::replace(&mut queue.watched, true);
        drop(queue);
        if !was_watched {
            self.substituted.notify_one();
        }
        wake_all(wakers);
        let mut queue = self.queue.lock();
        queue.waking = None;
        queue.stands_in = false;
        queue
    }

    fn run_stand_in(&self) {
        let mut queue = self.queue.lock();
        loop {
            if queue.stands_in && std::mem::take(&mut queue.called) {
                drop(queue);
                queue = self.lead_on();
                // The leader may be back: whom to wake, and who is called then, is its affair.
                self.called.notify_one();
            } else if queue.left {
                return;
            } else if let Some(since) = queue.waking
                && !queue.stands_in
                && elapsed(since) >= LONG
            {
                queue.stands_in = true;
            } else if queue.waking.is_some() || std::mem::take(&mut queue.woke) {
                self.substituted.wait_for(&mut queue, LONG);
            } else {
                queue.watched = false;
                self.substituted.wait(&mut queue);
            }
        }
    }

    /// Leads one group, and leaves it in the queue who is to be woken and whether somebody has to lead.
    fn lead_on(&self) -> MutexGuard<'_, Queue<C::Work>> {
        let wakers = tell(self.lead_group());
        let mut queue = self.queue.lock();
        queue.wakers.extend(wakers);
        queue.led = !queue.waiting.is_empty();
        queue.called = queue.led;
        queue
    }

    /// Commits everybody who waits. The lead stays with the caller, who tells them how it ended.
    fn lead_group(&self) -> Vec<Ended<C::Work>> {
        let writer = self.committer.writer().lock();
        let group = self.gather();
        let began = Instant::now();
        let results = catch_unwind(AssertUnwindSafe(|| {
            let group: Vec<_> = group.iter().map(|ticket| &ticket.work).collect();
            self.committer.commit_group(&group)
        }))
        .unwrap_or_else(|_| {
            let text = "the commit broke off in the middle: reopen the database and look";
            group
                .iter()
                .map(|_| Err(StorageError::CommitUnknown(text.to_owned())))
                .collect()
        });
        drop(writer);
        let mut queue = self.queue.lock();
        queue.took = elapsed(began);
        queue.writers = group.len() + queue.waiting.len();
        drop(queue);
        group.into_iter().zip(results).collect()
    }

    /// Takes everybody who waits. Where groups take long, because they sync, the writers of the last group get a
    /// moment to come back, so that they share one sync with those who came meanwhile. Where nobody's thread waits there is
    /// none: the next commits are made ready while this group syncs.
    fn gather(&self) -> Vec<Arc<Ticket<C::Work>>> {
        let mut queue = self.queue.lock();
        let patience = match queue.waiting.iter().any(|ticket| ticket.has_thread) {
            true => queue.took / 2,
            false => Duration::ZERO,
        };
        if patience >= MIN_PATIENCE {
            let deadline = Instant::now() + patience.min(MAX_PATIENCE);
            while queue.waiting.len() < queue.writers {
                if self.joined.wait_until(&mut queue, deadline).timed_out() {
                    break;
                }
            }
        }
        queue.waiting.drain(..).collect()
    }
}

/// Tells the members of a group how it ended; who is still to be woken. Each is let go of at once, so that who waits for it
/// frees its buffers: freed here, they would lie about in his thread's share of the heap.
fn tell<W>(ended: Vec<Ended<W>>) -> Vec<Waker> {
    let mut wakers = Vec::new();
    for (ticket, result) in ended {
        drop(ticket.during.lock().take());
        wakers.extend(ticket.set(State::Done(result)));
    }
    wakers
}

fn wake_all(wakers: Vec<Waker>) {
    for waker in wakers {
        // Its panic is told by the hook, and is nobody else's.
        let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
    }
}
