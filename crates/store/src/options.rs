//! How to open a store.

use std::{
    fmt,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use isomer_storage::{MAX_TRANSACTION_BYTES, Memory};
use isomer_vfs::{Disk, RealDisk, RealTime, Seal, Time, keys::MasterKey};

/// Where the time comes from: milliseconds since 1970.
pub type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;
/// Where random numbers come from.
pub type Random = Arc<dyn Fn() -> u64 + Send + Sync>;

/// How to open a [`crate::StoreEngine`].
#[derive(Clone)]
pub struct StoreOptions {
    /// Makes the database if nothing is there.
    pub create: bool,
    /// Opens without writing a byte; commits are refused.
    pub read_only: bool,
    /// Where the files are.
    pub disk: Arc<dyn Disk>,
    /// The key of an encrypted database, and of one that is made.
    pub key: Option<MasterKey>,
    /// What encrypts them. Made from `key` and the database's file of keys, unless it encrypts already.
    pub seal: Seal,
    /// Bytes of memory for cached blocks, indexes and filters.
    pub cache_bytes: usize,
    /// A budget that the cache takes more from while nobody else needs it, up to so many bytes in all.
    pub spare_memory: Option<(Memory, usize)>,
    /// Bytes of memory at which a memtable is sealed and written to tables. There are two at most times, three at worst.
    pub memtable_bytes: usize,
    /// Bytes of a segment of the log. More than a memtable takes, so that a segment ends with its memtable.
    pub segment_bytes: u64,
    /// Largest write set of a transaction.
    pub max_transaction_bytes: usize,
    /// What is kept beyond the last version.
    ///
    /// What the bounds of the change stream let go counts as trimmed from then on.
    pub retention: Retention,
    /// Values of at least so many bytes are kept apart from their keys.
    pub blob_threshold_bytes: usize,
    /// Lengths of beginnings of keys that the filters of tables written from now on know of, too: a scan of all keys that
    /// begin with so many bytes passes tables that have none. Each costs up to 10 bits a key.
    pub filter_prefixes: Vec<usize>,
    /// Bytes per second that flushes and merges may write to tables, together; a flush comes first. Whoever commits faster for
    /// long is held up as soon as memtables are full. No limit unless said otherwise; bulk loads have none.
    pub background_bytes_per_second: Option<u64>,
    /// The clock of that limit.
    pub time: Arc<dyn Time>,
    /// Whether blocks are compressed (LZ4) where that pays.
    pub compression: bool,
    /// Whether threads of the engine flush and compact. Without, that happens inside [`crate::StoreEngine::flush`] and
    /// [`crate::StoreEngine::compact`] only, and runs are deterministic.
    pub background: bool,
    /// The clock.
    pub clock: Clock,
    /// Random numbers, for salts and identities.
    pub random: Random,
}

/// What is kept beyond the last version.
///
/// What the bounds of the change stream let go counts as trimmed from then on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// Every version of the last so many milliseconds can be read.
    pub versions_ms: u64,
    /// Entries of the change stream are forgotten, trimmed or not, when they are older than so many milliseconds.
    pub stream_ms: Option<u64>,
    /// Entries of the change stream are forgotten, trimmed or not, when the log takes more than so many bytes.
    pub stream_bytes: Option<u64>,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            create: true,
            read_only: false,
            disk: Arc::new(RealDisk),
            key: None,
            seal: Seal::plain(),
            spare_memory: None,
            cache_bytes: 128 << 20,
            memtable_bytes: 32 << 20,
            segment_bytes: 40 << 20,
            max_transaction_bytes: MAX_TRANSACTION_BYTES,
            retention: Retention::default(),
            blob_threshold_bytes: 1 << 10,
            filter_prefixes: Vec::new(),
            background_bytes_per_second: None,
            time: Arc::new(RealTime::default()),
            compression: true,
            background: true,
            clock: Arc::new(now_ms),
            random: Arc::new(random),
        }
    }
}

impl fmt::Debug for StoreOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("StoreOptions")
            .field("create", &self.create)
            .field("read_only", &self.read_only)
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
