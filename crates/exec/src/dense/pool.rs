//! Scratch memory that threads keep between queries: bounded per process, because no query's budget counts it.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Larger arrays are freed after use.
const MAX_ARRAY_BYTES: usize = 64 << 20;
/// Maximum number of pooled arrays of one kind per thread.
const MAX_ARRAYS: usize = 4;
/// Maximum bytes pooled by all threads of the process.
const MAX_BYTES: usize = 256 << 20;

static BYTES: AtomicUsize = AtomicUsize::new(0);

/// The accounting of a pooled array; released on drop.
#[derive(Debug)]
pub(super) struct PooledBytes(usize);

impl PooledBytes {
    /// Accounts for this number of bytes; none if the array is empty, or the process-wide limit is reached.
    pub(super) fn try_reserve(bytes: usize) -> Option<Self> {
        if bytes == 0 || bytes > MAX_ARRAY_BYTES {
            return None;
        }
        let fits = |kept: usize| (kept + bytes <= MAX_BYTES).then_some(kept + bytes);
        BYTES
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits)
            .ok()?;
        Some(Self(bytes))
    }
}

impl Drop for PooledBytes {
    fn drop(&mut self) {
        BYTES.fetch_sub(self.0, Ordering::Relaxed);
    }
}

/// A pool of arrays of one kind.
#[derive(Debug)]
pub(super) struct Pool<T>(Vec<(T, PooledBytes)>);

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Pool<T> {
    /// Takes an array out of the pool.
    pub(super) fn take(&mut self) -> Option<T> {
        self.0.pop().map(|(array, _)| array)
    }

    /// Returns an array to the pool, unless the pool is full.
    pub(super) fn put(&mut self, array: T, place: PooledBytes) {
        if self.0.len() < MAX_ARRAYS {
            self.0.push((array, place));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pooled_memory_of_all_threads_is_bounded() {
        let try_reserve =
            |mib: usize| (0..1000).map_while(move |_| PooledBytes::try_reserve(mib << 20));
        let mut kept: Vec<PooledBytes> = try_reserve(32).collect();
        assert!((1..=8).contains(&kept.len()), "{}", kept.len());
        kept.extend(try_reserve(1));
        assert!(PooledBytes::try_reserve(32 << 20).is_none());
        assert!(
            PooledBytes::try_reserve(0).is_none()
                && PooledBytes::try_reserve(MAX_ARRAY_BYTES + 1).is_none()
        );
        // A thread that ends releases its pooled memory.
        std::thread::scope(|scope| {
            let ended = scope.spawn(move || {
                let mut pool = Pool::default();
                kept.into_iter().for_each(|place| pool.put((), place));
                assert!(pool.take().is_some());
            });
            assert!(ended.join().is_ok());
        });
        assert!(PooledBytes::try_reserve(32 << 20).is_some());
    }
}
