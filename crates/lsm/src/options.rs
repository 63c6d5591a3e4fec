//! Options for opening a database.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use isomer_shared_log::SharedLog;
use isomer_storage::{MAX_TRANSACTION_BYTES, MemoryBudget};
use isomer_vfs::{Disk, RealDisk, RealTime, Seal, Time, keys::MasterKey};

/// Source of the time: milliseconds since 1970.
pub type TimeSource = Arc<dyn Fn() -> u64 + Send + Sync>;
/// Source of random numbers.
pub type RandomSource = Arc<dyn Fn() -> u64 + Send + Sync>;

/// Options for opening a [`crate::LsmEngine`].
#[derive(Clone)]
pub struct LsmOptions {
    /// Creates the database if it does not exist.
    pub create: bool,
    /// Opens without writing anything; commits are refused.
    pub read_only: bool,
    /// Whether other processes may have the database open at the same time.
    pub sharing: LogSharing,
    /// What other processes of a shared database see of this one, such as `server`: its first 16 bytes.
    pub process_kind: String,
    /// The disk with the files.
    pub disk: Arc<dyn Disk>,
    /// The key of an encrypted database; also encrypts one that is created.
    pub key: Option<MasterKey>,
    /// Encryption of the files. Derived from `key` and the database's file of keys, unless it is set.
    pub seal: Seal,
    /// Bytes of memory for cached blocks, indexes and filters.
    pub cache_bytes: usize,
    /// A budget in which the cache reserves more while it is unused, up to the given total.
    pub spare_memory: Option<(MemoryBudget, usize)>,
    /// The budget for memtables and the other memory of commits; not counted if there is none.
    pub memory: Option<MemoryBudget>,
    /// Bytes at which a memtable is sealed and flushed. There are usually two, at worst three.
    pub memtable_bytes: usize,
    /// Bytes of a log segment. More than a memtable takes, so that a segment ends with its memtable.
    pub segment_bytes: u64,
    /// Largest write set of a transaction.
    pub max_transaction_bytes: usize,
    /// What is kept in addition to the last version.
    ///
    /// Entries of the change stream dropped by its limits count as trimmed from then on.
    pub retention: Retention,
    /// Values of at least this many bytes go into blob files.
    pub blob_threshold_bytes: usize,
    /// Lengths of key prefixes that are added to the filters of newly written tables: a scan of all keys with
    /// such a prefix skips tables without any. Each costs up to 10 bits per key.
    pub filter_prefixes: Vec<usize>,
    /// Bytes per second that flushes and compactions may write, together; flushes have priority. Writers that
    /// are faster for long are delayed as soon as memtables are full. No limit by default; bulk loads are not
    /// limited.
    pub background_bytes_per_second: Option<u64>,
    /// How long commits of a shared database, whose tables another process maintains, wait for that process when their
    /// memory is full.
    pub maintainer_patience: Duration,
    /// The clock of that rate limit.
    pub time: Arc<dyn Time>,
    /// Whether blocks are compressed (LZ4) if that saves space.
    pub compression: bool,
    /// Whether background threads flush and compact. Without them, that happens inside
    /// [`crate::LsmEngine::flush`] and [`crate::LsmEngine::compact`] only, and runs are deterministic.
    pub background: bool,
    /// The clock.
    pub clock: TimeSource,
    /// Random numbers, for salts and identities.
    pub random: RandomSource,
}

/// Whether several processes may have a database open.
#[derive(Clone, Debug, Default)]
pub enum LogSharing {
    /// One process that writes, or several that only read. A database that was shared before stays in its format: its
    /// commits go through the shared log.
    #[default]
    Exclusive,
    /// Any number of processes that read and write. The first opening in this way converts the database: earlier
    /// versions of the program refuse it from then on. Ignored when a database that was never shared is opened
    /// read-only.
    Shared,
    /// As the database is stored: `Shared` if it was opened in that way before, otherwise `Exclusive`. For a new
    /// database, and for a copy of a shared one that was not opened for writing yet, `Shared` where the folder allows
    /// it (see [`LsmEngine::check_sharing`](crate::LsmEngine::check_sharing)), otherwise `Exclusive`.
    AsStored,
    /// Like `Shared`, with a log that is elsewhere: for tests.
    #[doc(hidden)]
    Over(Arc<dyn SharedLog>),
}

impl LogSharing {
    /// Whether other processes may have the database open.
    pub(crate) fn is_shared(&self) -> bool {
        !matches!(self, Self::Exclusive)
    }
}

/// What is kept in addition to the last version.
///
/// Entries of the change stream dropped by its limits count as trimmed from then on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// Every version of this many past milliseconds can be read.
    pub versions_ms: u64,
    /// Entries of the change stream older than this many milliseconds are dropped, trimmed or not.
    pub stream_ms: Option<u64>,
    /// Entries of the change stream are dropped, trimmed or not, while the log takes more than this many bytes.
    pub stream_bytes: Option<u64>,
}

impl Default for LsmOptions {
    fn default() -> Self {
        Self {
            create: true,
            read_only: false,
            sharing: LogSharing::Exclusive,
            process_kind: "library".to_owned(),
            disk: Arc::new(RealDisk),
            key: None,
            seal: Seal::plain(),
            spare_memory: None,
            memory: None,
            cache_bytes: 128 << 20,
            memtable_bytes: 32 << 20,
            segment_bytes: 40 << 20,
            max_transaction_bytes: MAX_TRANSACTION_BYTES,
            retention: Retention::default(),
            blob_threshold_bytes: 1 << 10,
            filter_prefixes: Vec::new(),
            background_bytes_per_second: None,
            maintainer_patience: Duration::from_secs(30),
            time: Arc::new(RealTime::default()),
            compression: true,
            background: true,
            clock: Arc::new(now_ms),
            random: Arc::new(random),
        }
    }
}

impl fmt::Debug for LsmOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("LsmOptions")
            .field("create", &self.create)
            .field("read_only", &self.read_only)
            .field("sharing", &self.sharing)
            .field("cache_bytes", &self.cache_bytes)
            .field("memtable_bytes", &self.memtable_bytes)
            .field("segment_bytes", &self.segment_bytes)
            .field("retention", &self.retention)
            .field("background", &self.background)
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
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish()
}
