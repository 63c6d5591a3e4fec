//! Points at which a test may kill the process.

/// The number of times that [`crash_point`] is reached before the process exits: a test sets it for a process that it
/// starts.
#[cfg(debug_assertions)]
const CRASH_AT_VARIABLE: &str = "ISOMER_TEST_END_AT";

/// A point at which a test may kill the process, as `kill -9` does, between two steps of an exchange. Does nothing in a
/// release build.
#[inline]
pub fn crash_point() {
    #[cfg(debug_assertions)]
    {
        use std::sync::{
            LazyLock,
            atomic::{AtomicU64, Ordering},
        };
        static LEFT: LazyLock<Option<AtomicU64>> = LazyLock::new(|| {
            let times = std::env::var(CRASH_AT_VARIABLE).ok()?;
            times.parse().ok().map(AtomicU64::new)
        });
        if let Some(left) = &*LEFT
            && left.fetch_sub(1, Ordering::Relaxed) == 1
        {
            std::process::abort();
        }
    }
}
