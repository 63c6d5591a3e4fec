//! What threads would otherwise hand to and fro between processors, once for each lane of threads.

use std::sync::atomic::{AtomicUsize, Ordering};

const LANES: usize = if cfg!(feature = "model") { 2 } else { 8 };

/// One of each for the threads of each lane.
#[derive(Default)]
pub(crate) struct Lanes<T>([Lane<T>; LANES]);

/// In lines of memory of its own.
#[derive(Default)]
#[repr(align(128))]
struct Lane<T>(T);

impl<T> Lanes<T> {
    /// Makes each by `make`.
    pub(crate) fn from_fn(mut make: impl FnMut() -> T) -> Self {
        Self(std::array::from_fn(|_| Lane(make())))
    }

    /// That of this thread: threads that begin one after another have different ones.
    #[inline]
    pub(crate) fn here(&self) -> &T {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static LANE: usize = NEXT.fetch_add(1, Ordering::Relaxed) % LANES;
        }
        &self.0[LANE.with(|lane| *lane)].0
    }

    /// All of them.
    pub(crate) fn each(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|lane| &lane.0)
    }
}
