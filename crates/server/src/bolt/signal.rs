//! Signals from a connection to its query, which runs on another thread.

use std::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    time::Instant,
};

use isomer_db::CancelHandle;
use parking_lot::Mutex;

/// Shared by the task of a connection and the thread that runs its messages.
#[derive(Default)]
pub struct Signal {
    /// Received `RESET` messages that were not answered yet.
    resets: AtomicUsize,
    /// Whether the client has disconnected.
    gone: AtomicBool,
    /// Handle and deadline of the running query.
    running: Mutex<Option<(CancelHandle, Option<Instant>)>>,
    /// Answers that can be sent while the query runs.
    ready: Mutex<Vec<u8>>,
}

impl Signal {
    /// Makes answers available for sending.
    pub fn hand_over(&self, mut bytes: Vec<u8>) {
        let mut ready = self.ready.lock();
        if ready.is_empty() {
            *ready = bytes;
        } else {
            ready.append(&mut bytes);
        }
    }

    /// Takes the answers that can be sent.
    pub fn take_ready(&self) -> Vec<u8> {
        std::mem::take(&mut *self.ready.lock())
    }

    /// Records that `resets` messages `RESET` arrived: cancels the running query; messages before them are ignored.
    pub fn interrupt(&self, resets: usize) {
        if resets > 0 {
            self.resets.fetch_add(resets, Ordering::SeqCst);
            self.stop();
        }
    }

    /// Records that the client has disconnected.
    pub fn end(&self) {
        self.gone.store(true, Ordering::SeqCst);
        self.stop();
    }

    /// Whether a message is to be ignored because a `RESET` follows it, or the client has disconnected.
    pub fn is_interrupted(&self) -> bool {
        self.resets.load(Ordering::SeqCst) > 0 || self.is_gone()
    }

    /// Whether the client has disconnected.
    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::SeqCst)
    }

    /// Records that a `RESET` was answered.
    pub fn reset(&self) {
        // Saturates at 0: a malformed `RESET` was not counted.
        let _ = self
            .resets
            .try_update(Ordering::SeqCst, Ordering::SeqCst, |resets| {
                resets.checked_sub(1)
            });
    }

    /// Cancels a query that exceeds its time limit.
    pub fn check_time(&self) {
        if let Some((cancel, Some(end))) = &*self.running.lock()
            && *end <= Instant::now()
        {
            cancel.cancel();
        }
    }

    /// Registers a running query until the result is dropped.
    pub fn work(&self, cancel: &CancelHandle, end: Option<Instant>) -> Running<'_> {
        *self.running.lock() = Some((cancel.clone(), end));
        // The `RESET` may have arrived just before.
        if self.is_interrupted() {
            cancel.cancel();
        }
        Running(self)
    }

    fn stop(&self) {
        if let Some((cancel, _)) = &*self.running.lock() {
            cancel.cancel();
        }
    }
}

/// A running query.
pub struct Running<'s>(&'s Signal);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        *self.0.running.lock() = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reset_cancels_the_running_query_and_those_that_begin_before_it_is_answered() {
        let signal = Signal::default();
        let first = CancelHandle::new();
        let working = signal.work(&first, None);
        signal.check_time();
        assert!(!first.is_cancelled() && !signal.is_interrupted());
        signal.interrupt(1);
        assert!(first.is_cancelled() && signal.is_interrupted());
        drop(working);
        let second = CancelHandle::new();
        drop(signal.work(&second, None));
        assert!(second.is_cancelled());
        signal.reset();
        assert!(!signal.is_interrupted());
        let third = CancelHandle::new();
        let _working = signal.work(&third, Some(Instant::now()));
        assert!(!third.is_cancelled());
        signal.check_time();
        assert!(third.is_cancelled());
    }
}
