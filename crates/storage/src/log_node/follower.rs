//! The thread that applies commits of other processes as they arrive.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use isomer_shared_log::{LogError, SharedLog};

use super::Shared;
use crate::{
    Backend, StorageError,
    sync::{Condvar, Mutex, Thread},
};

/// The thread waits for the log that long at once.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);
/// While this process commits by itself, it applies the commits of others on the way. The thread then looks at the log
/// that often instead of waiting for it: a waiting thread would be woken by each commit of this process.
const PAUSE: Duration = Duration::from_millis(2);
/// How long the thread pauses when the log cannot be reached, or its records cannot be applied now: longer each time.
const FAILURE_PAUSE: Duration = Duration::from_millis(200);
const MAX_FAILURE_PAUSE: Duration = Duration::from_secs(5);

/// The thread, and how it is stopped.
#[derive(Default)]
pub(super) struct Follower {
    thread: Mutex<Option<Thread>>,
    stop: Arc<AtomicBool>,
    paused: Mutex<()>,
    stopped: Condvar,
    /// Groups that this process has committed.
    groups: AtomicU64,
}

impl Follower {
    /// Counts a group that this process has committed.
    pub(super) fn note_group(&self) {
        self.groups.fetch_add(1, Ordering::Relaxed);
    }

    /// Stops the thread and waits for its end.
    pub(super) fn stop(&self, log: &dyn SharedLog) {
        self.stop.store(true, Ordering::Release);
        log.wake();
        drop(self.paused.lock());
        self.stopped.notify_all();
        if let Some(thread) = self.thread.lock().take() {
            thread.join();
        }
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Waits for a while, or until the thread is stopped.
    fn pause(&self, time: Duration) {
        let mut paused = self.paused.lock();
        if !self.is_stopped() {
            self.stopped.wait_for(&mut paused, time);
        }
    }
}

impl<B: Backend> Shared<B> {
    /// Starts the thread.
    pub(super) fn follow(self: &Arc<Self>) -> Result<(), StorageError> {
        let shared = self.clone();
        let thread = Thread::start("log-follower", move || shared.run_follower());
        let thread = thread.ok_or_else(|| {
            let what = "a thread that follows the shared log cannot be started: \
                        raise the limit of threads, and open the database again";
            StorageError::Unavailable(what.to_owned())
        })?;
        *self.follower.thread.lock() = Some(thread);
        Ok(())
    }

    fn run_follower(&self) {
        let follower = &self.follower;
        let mut groups = 0;
        let mut failure_pause = FAILURE_PAUSE;
        while !follower.is_stopped() {
            let before = std::mem::replace(&mut groups, follower.groups.load(Ordering::Relaxed));
            if groups != before {
                follower.pause(PAUSE);
            } else {
                let seen = self.history.applied();
                let log = self.history.log();
                let wait = self.time_to_trim().unwrap_or(LONGEST_WAIT);
                match log.wait_unless(seen, wait.min(LONGEST_WAIT), &follower.stop) {
                    Ok(_) => {}
                    Err(LogError::Unavailable(_)) => follower.pause(FAILURE_PAUSE),
                    // Each call of this process says so.
                    Err(_) => return,
                }
            }
            if follower.is_stopped() {
                return;
            }
            if self.catch_up().is_err() {
                // Each call of this process says so.
                if self.node.lock().has_failed() {
                    return;
                }
                follower.pause(failure_pause);
                failure_pause = (2 * failure_pause).min(MAX_FAILURE_PAUSE);
            } else {
                failure_pause = FAILURE_PAUSE;
            }
            if self.may_trim() && self.trim_log().is_err() {
                follower.pause(FAILURE_PAUSE);
            }
        }
    }
}
