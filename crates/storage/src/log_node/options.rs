//! How a database is shared.

use std::{
    fmt,
    hash::{BuildHasher, Hasher, RandomState},
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use isomer_shared_log::Retry;
use isomer_vfs::{BootTime, Time};

/// What stays in the shared log in addition to what processes need to open the database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogRetention {
    /// The versions of this many past milliseconds can be found by their time.
    pub versions_ms: u64,
    /// Entries of the change stream older than this many milliseconds are dropped, trimmed or not.
    pub stream_ms: Option<u64>,
    /// Entries of the change stream are dropped, trimmed or not, while the log takes more than this many bytes.
    pub stream_bytes: Option<u64>,
}

/// Options of an engine that commits to a shared log.
#[derive(Clone)]
pub struct SharedOptions {
    /// Milliseconds since 1970. Times in the log never decrease, whatever the clocks of the processes say.
    pub clock: Arc<dyn Fn() -> u64 + Send + Sync>,
    /// Random numbers that no other process draws.
    pub random: Arc<dyn Fn() -> u64 + Send + Sync>,
    /// A monotonic clock that counts the time in which the process, or the machine, is suspended.
    pub time: Arc<dyn Time>,
    /// How long calls of the log are repeated.
    pub retry: Retry,
    /// What stays in the log.
    pub retention: LogRetention,
    /// Whether a thread applies commits of other processes as they arrive. Otherwise they are applied by the next call,
    /// and nothing trims the log but [`crate::Optimistic::trim_log`] and trims of the change stream.
    pub follow: bool,
}

impl Default for SharedOptions {
    fn default() -> Self {
        Self {
            clock: Arc::new(now_ms),
            random: Arc::new(random),
            time: Arc::new(BootTime),
            retry: Retry::default(),
            retention: LogRetention::default(),
            follow: true,
        }
    }
}

impl fmt::Debug for SharedOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("SharedOptions")
            .field("retry", &self.retry)
            .field("retention", &self.retention)
            .field("follow", &self.follow)
            .finish_non_exhaustive()
    }
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}

/// Numbers that differ between calls, threads and processes: the standard library's hash keys are random.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
