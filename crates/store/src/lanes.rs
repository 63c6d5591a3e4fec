//! Threads told apart, so that each counts in memory of its own.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Threads are told apart where processors would otherwise hand one word of memory to and fro.
pub const LANES: usize = if cfg!(feature = "model") { 2 } else { 8 };

/// The lane of this thread: threads that begin one after another have different ones.
#[inline]
pub fn lane() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static LANE: usize = NEXT.fetch_add(1, Ordering::Relaxed) % LANES;
    }
    LANE.with(|lane| *lane)
}
