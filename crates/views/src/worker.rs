//! The background thread that builds and merges views.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::{Condvar, Mutex};

use crate::{Views, status::ViewKind};

/// A background job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Job {
    /// Builds a base from the rows or from another view; adjacency with relationship ids if set.
    Build { kind: ViewKind, with_ids: bool },
    /// Merges a base with its delta.
    Merge(ViewKind),
    /// Writes the file of a view.
    Save(ViewKind),
    /// Applies the enqueued commits.
    ApplyCommits,
    /// Reviews all files: whether they retain too much of the change stream.
    ReviewFiles,
}

/// A job queue, and the thread that runs the jobs, which starts with the first one.
pub(crate) struct Worker {
    queue: Arc<Queue>,
}

struct Queue {
    state: Mutex<State>,
    changed: Condvar,
    /// Cancellation flag for running jobs.
    stop: AtomicBool,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    /// Whether the thread exists.
    started: bool,
    /// Whether a job is running.
    working: bool,
    /// No further jobs are accepted.
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

    /// The cancellation flag, for long work.
    pub(crate) fn stop(&self) -> &AtomicBool {
        &self.queue.stop
    }

    /// Enqueues a job unless it is queued already. Returns false if no thread will run it.
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
                state.jobs.clear(); // reads use the rows
                return false;
            }
        }
        self.queue.changed.notify_all();
        true
    }

    /// Waits until the queue is empty and no job runs.
    pub(crate) fn wait_idle(&self) {
        let mut state = self.queue.state.lock();
        while state.working || !state.jobs.is_empty() {
            self.queue.changed.wait(&mut state);
        }
    }

    /// After [`Worker::close`]: lets the closing thread do its final work.
    pub(crate) fn allow_final_work(&self, on: bool) {
        self.queue.stop.store(!on, Ordering::Relaxed);
    }

    /// Accepts no more jobs, drops the queued ones, and waits for the running one.
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
        // Without waiting: the worker itself may drop the last handle.
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
            // A panicking job is a bug, reported by the panic hook; other views and waiting threads are
            // unaffected.
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                if let Some(views) = views.upgrade() {
                    views.run(&job);
                }
            }));
        }
    }
}
