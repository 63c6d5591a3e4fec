//! What a connection tells its query while that is at work on another thread.

use std::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    time::Instant,
};

use isomer_db::CancelHandle;
use parking_lot::Mutex;

/// Between the task of a connection and the thread that works for it.
#[derive(Default)]
pub struct Signal {
    /// Messages `RESET` that have come and were not answered yet.
    resets: AtomicUsize,
    /// Whether the client has gone away.
    gone: AtomicBool,
    /// What stops the query at work, and when it must end.
    at_work: Mutex<Option<(CancelHandle, Option<Instant>)>>,
    /// Answers that can be sent while the query is at work.
    ready: Mutex<Vec<u8>>,
}

impl Signal {
    /// These answers can be sent.
    pub fn hand_over(&self, mut bytes: Vec<u8>) {
        let mut ready = self.ready.lock();
        if ready.is_empty() {
            *ready = bytes;
        } else {
            ready.append(&mut bytes);
        }
    }

    /// The answers that can be sent.
    pub fn take_ready(&self) -> Vec<u8> {
        std::mem::take(&mut *self.ready.lock())
    }

    /// So many messages `RESET` have come: what is at work stops, and what stands before them is ignored.
    pub fn interrupt(&self, resets: usize) {
        if resets > 0 {
            self.resets.fetch_add(resets, Ordering::SeqCst);
            self.stop();
        }
    }

    /// The client has gone away.
    pub fn end(&self) {
        self.gone.store(true, Ordering::SeqCst);
        self.stop();
    }

    /// Whether a message is to be ignored because a `RESET` stands behind it, or nobody waits for an answer.
    pub fn is_interrupted(&self) -> bool {
        self.resets.load(Ordering::SeqCst) > 0 || self.is_gone()
    }

    /// Whether the client has gone away.
    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::SeqCst)
    }

    /// A `RESET` is answered.
    pub fn reset(&self) {
        // What was not counted (a message that is none) is not taken away.
        let _ = self
            .resets
            .try_update(Ordering::SeqCst, Ordering::SeqCst, |resets| {
                resets.checked_sub(1)
            });
    }

    /// Stops what works for longer than it may.
    pub fn check_time(&self) {
        if let Some((cancel, Some(end))) = &*self.at_work.lock()
            && *end <= Instant::now()
        {
            cancel.cancel();
        }
    }

    /// A query is at work until what comes back is dropped.
    pub fn work(&self, cancel: &CancelHandle, end: Option<Instant>) -> AtWork<'_> {
        *self.at_work.lock() = Some((cancel.clone(), end));
        // It may have come just before.
        if self.is_interrupted() {
            cancel.cancel();
        }
        AtWork(self)
    }

    fn stop(&self) {
        if let Some((cancel, _)) = &*self.at_work.lock() {
            cancel.cancel();
        }
    }
}

/// A query at work.
pub struct AtWork<'s>(&'s Signal);

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        *self.0.at_work.lock() = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reset_stops_what_is_at_work_and_what_begins_before_it_is_answered() {
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
