//! Signals to those that wait for a commit.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use isomer_storage::Version;

use parking_lot::{Condvar, Mutex};

/// Wakes threads that wait for a commit.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    pub(crate) count: Mutex<u64>,
    pub(crate) changed: Condvar,
    /// The last commit of another process that was announced; it may not be visible yet.
    announced: AtomicU64,
}

impl Signal {
    /// A commit of another process is about to become visible.
    pub(crate) fn announce(&self, version: Version) {
        self.announced.fetch_max(version, Ordering::AcqRel);
        self.notify();
    }

    /// The last commit of another process that was announced.
    pub(crate) fn announced(&self) -> Version {
        self.announced.load(Ordering::Acquire)
    }

    pub(crate) fn count(&self) -> u64 {
        *self.count.lock()
    }

    /// Something was committed, or the state must be checked.
    pub(crate) fn notify(&self) {
        *self.count.lock() += 1;
        self.changed.notify_all();
    }

    /// Waits until the count exceeds `seen`; false after the deadline.
    pub(crate) fn wait(&self, seen: u64, deadline: Option<Instant>) -> bool {
        let mut count = self.count.lock();
        while *count == seen {
            match deadline {
                None => self.changed.wait(&mut count),
                Some(deadline) => {
                    if self.changed.wait_until(&mut count, deadline).timed_out() {
                        return *count != seen;
                    }
                }
            }
        }
        true
    }
}

/// Held by the store: waiting threads wake up when the store closes.
#[derive(Debug, Default)]
pub(crate) struct Signals(pub(crate) Arc<Signal>);

impl Drop for Signals {
    fn drop(&mut self) {
        self.0.notify();
    }
}
