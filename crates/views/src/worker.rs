//! The thread that makes and merges views.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::{Condvar, Mutex};

use crate::{Views, status::ViewKind};

/// Something to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Job {
    /// A base from the rows or from another view; of adjacency with the relationships' ids where so.
    Build { kind: ViewKind, with_ids: bool },
    /// A newer base from an older one and its delta.
    Merge(ViewKind),
    /// The file of a view.
    Save(ViewKind),
    /// What commits have handed in is told.
    Tell,
    /// All files: whether they hold back too much of the change stream.
    LookAfterFiles,
}

/// Jobs in order, and the thread that does them, which begins with the first one.
pub(crate) struct Worker {
    queue: Arc<Queue>,
}

struct Queue {
    state: Mutex<State>,
    changed: Condvar,
    /// Looked at while jobs run.
    stop: AtomicBool,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    /// Whether there is a thread.
    started: bool,
    /// Whether it is at work.
    working: bool,
    /// No more jobs.
    closed: bool,
}

impl Worker {
    pub(crate) fn new() -> Self {
        Self {
            queue: Arc::new(Queue {
                state: Mutex::default(),
                changed: Condvar::new(),
                stop: AtomicBool::new(false),
            }),
        }
    }

    /// Looked at by long work.
    pub(crate) fn stop(&self) -> &AtomicBool {
        &self.queue.stop
    }

    /// Puts a job at the end of the queue, unless it waits there already. False where nobody will do it.
    pub(crate) fn push(&self, views: &Weak<Views>, job: Job) -> bool {
        let mut state = self.queue.state.lock();
        if state.closed {
            return false;
        }
        if !state.jobs.contains(&job) {
            state.jobs.push_back(job);
        }
        if !state.started {
            let (queue, views) = (self.queue.clone(), views.clone());
            let thread = std::thread::Builder::new().name("isomer-views".into());
            state.started = thread.spawn(move || queue.work(&views)).is_ok();
            if !state.started {
                state.jobs.clear(); // rows answer
                return false;
            }
        }
        self.queue.changed.notify_all();
        true
    }

    /// Waits until nothing is left to do.
    pub(crate) fn wait_idle(&self) {
        let mut state = self.queue.state.lock();
        while state.working || !state.jobs.is_empty() {
            self.queue.changed.wait(&mut state);
        }
    }

    /// After [`Worker::close`]: lets who closed it work on its own thread.
    pub(crate) fn go_on(&self, on: bool) {
        self.queue.stop.store(!on, Ordering::Relaxed);
    }

    /// Takes no more jobs, forgets those that wait, and waits for the one at work to end.
    pub(crate) fn close(&self) {
        self.queue.stop.store(true, Ordering::Relaxed);
        let mut state = self.queue.state.lock();
        state.closed = true;
        state.jobs.clear();
        self.queue.changed.notify_all();
        while state.working {
            self.queue.changed.wait(&mut state);
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Without waiting: it may be the worker itself that drops the last handle.
        self.queue.stop.store(true, Ordering::Relaxed);
        let mut state = self.queue.state.lock();
        state.closed = true;
        state.jobs.clear();
        self.queue.changed.notify_all();
    }
}

impl Queue {
    fn work(&self, views: &Weak<Views>) {
        loop {
            let job = {
                let mut state = self.state.lock();
                state.working = false;
                self.changed.notify_all();
                loop {
                    if state.closed {
                        return;
                    }
                    if let Some(job) = state.jobs.pop_front() {
                        state.working = true;
                        break job;
                    }
                    self.changed.wait(&mut state);
                }
            };
            // A job that panics is an error of the program, told where panics are; it takes the other views with it as little
            // as those who wait.
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                if let Some(views) = views.upgrade() {
                    views.run(&job);
                }
            }));
        }
    }
}
