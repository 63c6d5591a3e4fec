//! Sharded, cache-padded values, which avoid false sharing of cache lines between threads.

use std::sync::atomic::{AtomicUsize, Ordering};

const SHARDS: usize = if cfg!(feature = "model") { 2 } else { 8 };

/// One value for each group of threads.
#[derive(Default)]
pub(crate) struct Sharded<T>([CachePadded<T>; SHARDS]);

/// A value that shares no cache line with others (two lines, as processors prefetch pairs).
#[derive(Default)]
#[repr(align(128))]
struct CachePadded<T>(T);

impl<T> Sharded<T> {
    /// Creates each value with `make`.
    pub(crate) fn from_fn(mut make: impl FnMut() -> T) -> Self {
        Self(std::array::from_fn(|_| CachePadded(make())))
    }

    /// The value of this thread; threads started one after another use different ones.
    #[inline]
    pub(crate) fn local(&self) -> &T {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static SHARD: usize = NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS;
        }
        &self.0[SHARD.with(|shard| *shard)].0
    }

    /// All values.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|shard| &shard.0)
    }
}
