//! What reads, transactions and commits of an engine are: the traits and types below [`crate::Engine`].

use std::{
    any::Any,
    fmt,
    ops::ControlFlow,
    path::PathBuf,
    task::{Poll, Waker},
};

use thiserror::Error;

/// Called with each pair of a scan; returns whether to continue.
pub type Visitor<'a> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a;

/// Called with each value of a batch, `None` for a missing key; returns whether to continue.
pub type ValueVisitor<'a> = dyn FnMut(Option<&[u8]>) -> ControlFlow<()> + 'a;

/// Number of a commit: 1 for the first, increasing by at least 1. Version 0 is the empty database.
pub type Version = u64;

/// The error for a version that cannot be read (any more).
pub fn version_not_kept(version: Version, oldest: Version) -> StorageError {
    StorageError::Invalid(format!(
        "version {version} is not kept, the oldest one that can be read is {oldest}: \
         ask for a later one, or have versions kept for longer"
    ))
}

/// Reads common to snapshots and transactions.
pub trait Read: Send {
    /// The version that is read (a transaction's own writes come on top).
    fn version(&self) -> Version;
    /// The value under `key`.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StorageError>;
    /// Calls `visit` with the value under each of `keys`, in their order, until it breaks. One round trip. An
    /// engine that has values in memory lends them (zero-copy); `visit` may block, panic, or read and write the
    /// database.
    fn visit_many(&self, keys: &[&[u8]], visit: &mut ValueVisitor<'_>) -> Result<(), StorageError>;
    /// The values under `keys`, in their order. One round trip.
    fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>, StorageError> {
        let mut values = Vec::with_capacity(keys.len());
        self.visit_many(keys, &mut |value| {
            values.push(value.map(<[u8]>::to_vec));
            ControlFlow::Continue(())
        })?;
        Ok(values)
    }
    /// The first page of the pairs in `range`; continue by passing [`Page::next`] as the new range. Clears
    /// `page` and fills it, so that one allocation serves a whole scan.
    fn scan(
        &self,
        range: KeyRange<'_>,
        order: Order,
        limit: PageLimit,
        page: &mut Page,
    ) -> Result<(), StorageError>;
    /// Calls `visit` with the pairs of `range` in `order` until it breaks or the range ends. An engine that has
    /// its pairs in memory lends them (zero-copy) instead of copying a page; `visit` may block, panic, or read
    /// and write the database.
    fn visit(
        &self,
        range: KeyRange<'_>,
        order: Order,
        visit: &mut Visitor<'_>,
    ) -> Result<(), StorageError> {
        visit_by_pages(self, range, order, visit)
    }
}

/// Pairs and bytes of the pages that are read for a visit.
const VISITED: PageLimit = PageLimit {
    keys: 1024,
    bytes: 1 << 20,
};

/// [`Read::visit`] for implementations that have pages.
pub(crate) fn visit_by_pages(
    read: &(impl Read + ?Sized),
    range: KeyRange<'_>,
    order: Order,
    visit: &mut Visitor<'_>,
) -> Result<(), StorageError> {
    let mut page = Page::new();
    read.scan(range, order, VISITED, &mut page)?;
    loop {
        for (key, value) in page.iter() {
            if visit(key, value) == ControlFlow::Break(()) {
                return Ok(());
            }
        }
        let Some((start, end)) = page.next.take() else {
            return Ok(());
        };
        let rest = KeyRange {
            start: &start,
            end: end.as_deref(),
        };
        read.scan(rest, order, VISITED, &mut page)?;
    }
}

/// A read view of one version.
pub trait Snapshot: Read + Sync {}

/// A transaction: reads its snapshot and its own writes. Dropping it without a commit leaves no trace.
///
/// Nothing is checked against other transactions before [`EngineTransaction::commit`]; then every guard is.
pub trait EngineTransaction: Read {
    /// Puts `value` under `key`, which has at least one byte.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), StorageError>;
    /// Deletes `key`; no error if it does not exist.
    fn delete(&mut self, key: &[u8]) -> Result<(), StorageError>;
    /// Deletes every key in `range`, including this transaction's own writes.
    fn delete_range(&mut self, range: KeyRange<'_>) -> Result<(), StorageError>;
    /// Declares a part of the footprint; the same granule may be declared several times and in several modes.
    fn guard(&mut self, granule: Granule, mode: GuardMode);
    /// Appends `bytes` to this commit's change-stream entry.
    fn append_stream(&mut self, bytes: &[u8]);
    /// Like [`EngineTransaction::append_stream`], taking ownership of the buffer.
    fn append_stream_owned(&mut self, bytes: Vec<u8>) {
        self.append_stream(&bytes);
    }
    /// Sets a savepoint, so that a failed statement can be rolled back alone.
    fn savepoint(&mut self) -> EngineSavepoint;
    /// Undoes all writes and stream bytes since `savepoint`, which may be used again. Guards stay: an
    /// observation cannot be undone. A savepoint that was released or rolled back is ignored.
    fn rollback_to(&mut self, savepoint: EngineSavepoint);
    /// Drops `savepoint` and the later ones, keeping the writes; frees their undo log.
    fn release(&mut self, savepoint: EngineSavepoint);
    /// Bytes that the write set holds in memory.
    fn write_bytes(&self) -> usize;
    /// Checks the footprint and applies the writes. Returns the version at which they are visible; a transaction that
    /// wrote nothing returns the version it read and never conflicts.
    fn commit(self: Box<Self>, durability: Durability) -> Result<Version, StorageError>;
    /// Like [`EngineTransaction::commit`], asynchronously. The commit is under way, or complete, when this returns:
    /// an engine without asynchronous commits waits here. `during` is dropped when the commit is complete,
    /// whether it was polled or not.
    fn start_commit(
        self: Box<Self>,
        durability: Durability,
        during: Box<dyn Send>,
    ) -> Box<dyn EngineCommit> {
        let committed = self.commit(durability);
        drop(during);
        Box::new(Completed(committed))
    }
}

/// A commit that is under way. Dropping this does not cancel the commit.
pub trait EngineCommit: Send {
    /// Its result, once; until then `waker` (the last one passed) is woken when it is complete. Wakers run one
    /// after the other: a waker may commit and block its thread on that, but must not wait for another waker.
    fn poll(&mut self, waker: &Waker) -> Poll<Result<Version, StorageError>>;
    /// Waits for its end.
    fn wait(self: Box<Self>) -> Result<Version, StorageError>;
}

/// A commit that is complete.
pub(crate) struct Completed(pub(crate) Result<Version, StorageError>);

impl EngineCommit for Completed {
    fn poll(&mut self, _: &Waker) -> Poll<Result<Version, StorageError>> {
        let polled_twice = Err(StorageError::Invalid(
            "the result of a commit can be polled only once".to_owned(),
        ));
        Poll::Ready(std::mem::replace(&mut self.0, polled_twice))
    }

    fn wait(self: Box<Self>) -> Result<Version, StorageError> {
        self.0
    }
}

/// Half-open range of keys: `start` inclusive, `end` exclusive, `None` for the end of the key space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyRange<'a> {
    /// First key of the range.
    pub start: &'a [u8],
    /// First key after the range.
    pub end: Option<&'a [u8]>,
}

/// Direction of a scan. Closed: keys have two directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// From the first key of the range.
    Ascending,
    /// From the last key of the range.
    Descending,
}

/// Limits of a page; a page holds at least one pair if there is one.
#[derive(Clone, Copy, Debug)]
pub struct PageLimit {
    /// Largest number of pairs.
    pub keys: usize,
    /// Approximate limit in bytes of keys and values.
    pub bytes: usize,
}

/// Pairs in the order of the scan, in one buffer, and where to continue.
#[derive(Clone, Debug, Default)]
pub struct Page {
    bytes: Vec<u8>,
    /// Per pair: end of the key and end of the value in `bytes`; each begins where the one before ended.
    ends: Vec<(u32, u32)>,
    next: Option<(Vec<u8>, Option<Vec<u8>>)>,
    parked: Parked,
}

/// State that an engine left at the end of a page, so that the next page of the same scan needs no search: a
/// cursor, with the resources it holds. It is optional: without it a scan continues with a search.
#[derive(Default)]
pub struct Parked(Option<Box<dyn Any + Send + Sync>>);

impl Parked {
    /// Stores a value.
    pub fn put<T: Any + Send + Sync>(&mut self, left: Box<T>) {
        self.0 = Some(left);
    }

    /// Takes the value if it is a `T`; drops it otherwise.
    pub fn take<T: Any>(&mut self) -> Option<Box<T>> {
        self.0.take()?.downcast().ok()
    }
}

impl Clone for Parked {
    /// Empty: a cursor belongs to one scan.
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl fmt::Debug for Parked {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Parked").finish_non_exhaustive()
    }
}

impl Page {
    /// An empty page.
    pub fn new() -> Self {
        Self::default()
    }

    /// Clears the page and keeps its buffers.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.next = None;
        self.parked = Parked::default();
    }

    /// Takes the state that the engine left for the next page.
    pub fn take_parked(&mut self) -> Parked {
        std::mem::take(&mut self.parked)
    }

    /// Stores state for the next page.
    pub fn set_parked(&mut self, parked: Parked) {
        self.parked = parked;
    }

    /// Appends a pair.
    pub fn push(&mut self, key: &[u8], value: &[u8]) {
        self.bytes.reserve(key.len() + value.len());
        self.bytes.extend_from_slice(key);
        let key_end = self.end();
        self.bytes.extend_from_slice(value);
        self.ends.push((key_end, self.end()));
    }

    /// Sets where the scan continues: the rest of its range, or `None` at the end.
    pub fn set_next(&mut self, rest: Option<(Vec<u8>, Option<Vec<u8>>)>) {
        self.next = rest;
    }

    /// The range that remains; pass it to the next `scan` in the same order.
    pub fn next(&self) -> Option<KeyRange<'_>> {
        self.next.as_ref().map(|(start, end)| KeyRange {
            start,
            end: end.as_deref(),
        })
    }

    /// Number of pairs.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is no pair.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Bytes of keys and values.
    pub fn byte_len(&self) -> usize {
        self.bytes.len()
    }

    /// Pair number `at`.
    pub fn pair(&self, at: usize) -> (&[u8], &[u8]) {
        let start = if at == 0 {
            0
        } else {
            self.ends[at - 1].1 as usize
        };
        let (key_end, value_end) = self.ends[at];
        (
            &self.bytes[start..key_end as usize],
            &self.bytes[key_end as usize..value_end as usize],
        )
    }

    /// All pairs in the order of the scan.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], &[u8])> {
        let mut start = 0;
        self.ends.iter().map(move |&(key_end, value_end)| {
            let (key_end, value_end) = (key_end as usize, value_end as usize);
            let pair = (&self.bytes[start..key_end], &self.bytes[key_end..value_end]);
            start = value_end;
            pair
        })
    }

    fn end(&self) -> u32 {
        u32::try_from(self.bytes.len())
            .expect("a page stays far below 4 GiB: its limit is in bytes")
    }
}

/// One unit of the logical footprint (conflict granule): a 128-bit hash of the thing it represents, computed by
/// the layer above.
///
/// Ranges are mapped to fixed granules, so that an embedded engine can check them at commit and a distributed
/// one can lock them. Two things with equal hashes cause a false conflict, with probability below 2⁻⁶⁰ in any
/// database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Granule(pub u128);

/// How a transaction accessed a granule. With another transaction that committed since the snapshot:
///
/// | this one \ the other | read | write | add |
/// |---|---|---|---|
/// | read  | – | conflict | conflict |
/// | write | – | conflict | conflict |
/// | add   | – | –        | –        |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum GuardMode {
    /// Read.
    Read,
    /// Written after it was read.
    Write,
    /// Changed without reading it, by a commutative operation.
    Add,
}

/// How durable a commit is when it returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Durability {
    /// On disk (fsync; many transactions share one).
    #[default]
    Synced,
    /// In the engine's or the operating system's memory: lost if the machine crashes, perhaps if the process
    /// crashes, until a later synced commit or a sync of the engine. Never half applied.
    Buffered,
}

/// A position in a transaction's undo log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EngineSavepoint(pub usize);

/// The change-stream entry of one commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamEntry {
    /// The commit.
    pub version: Version,
    /// The bytes that the layer above appended.
    pub bytes: Vec<u8>,
}

/// Features and limits of an engine.
#[derive(Clone, Copy, Debug)]
pub struct Capabilities {
    /// Short name, for display: `memory`, `redb`, `lsm`.
    pub name: &'static str,
    /// Longest key in bytes.
    pub max_key_bytes: usize,
    /// Longest value in bytes.
    pub max_value_bytes: usize,
    /// Largest write set in bytes; a `put` beyond it returns `TooLarge`.
    pub max_transaction_bytes: usize,
    /// Whether `ingest` bypasses the transaction path.
    pub ingest: bool,
    /// Whether commits survive the process.
    pub durable: bool,
    /// Whether several processes may open the database at once.
    pub several_processes: bool,
}

/// Sizes and counts of an engine.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Statistics {
    /// Stored pairs; an estimate if there are too many to count.
    pub key_count: u64,
    /// Bytes on disk (or in memory).
    pub stored_bytes: u64,
    /// Commits since opening.
    pub commits: u64,
    /// Syncs since opening; several commits may share one.
    pub syncs: u64,
    /// Commits since opening that failed validation.
    pub conflicts: u64,
    /// Change-stream entries kept. Where it would take long to count them, a commit without an entry may count as well.
    pub stream_entries: u64,
    /// Further metrics of this engine, by name.
    pub details: Vec<(String, String)>,
}

/// What can go wrong in an engine, split by what the caller does next.
#[derive(Debug, Error)]
pub enum StorageError {
    /// Run the transaction again.
    #[error("another transaction changed what this one observed (version {version}): run it again")]
    Conflict {
        /// The granule in conflict.
        granule: Granule,
        /// The commit that changed it.
        version: Version,
    },
    /// Make it smaller.
    #[error("{what} is {size} bytes, the limit is {max}: {advice}")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// Its size in bytes.
        size: usize,
        /// The limit in bytes.
        max: usize,
        /// What to do.
        advice: &'static str,
    },
    /// The database cannot be used at present: full disk, no permission, poisoned by a failed sync.
    #[error("{0}")]
    Unavailable(String),
    /// The database is open elsewhere, in this process or another one: close it there first.
    #[error("the database `{}` is {}", .path.display(), open_elsewhere(*.pid))]
    InUse {
        /// The folder of the database.
        path: PathBuf,
        /// The process that has it open, if its lock file names one.
        pid: Option<u32>,
    },
    /// The operation needs the database alone, and other processes have it open: nothing has changed.
    #[error("the database `{}` is in use, and this needs it alone: {}", .path.display(), end_others(.processes))]
    NeedsAlone {
        /// The folder of the database.
        path: PathBuf,
        /// The others, as far as they are known: those that only read are not.
        processes: Vec<(u32, String)>,
    },
    /// The commit may or may not have been applied: check before retrying.
    #[error("{0}")]
    CommitUnknown(String),
    /// Bytes on disk are damaged, or the files are not a database.
    #[error("{0}")]
    Corrupt(String),
    /// The caller violated the contract.
    #[error("{0}")]
    Invalid(String),
}

/// The end of the message of [`StorageError::NeedsAlone`].
fn end_others(processes: &[(u32, String)]) -> String {
    let listed = processes
        .iter()
        .map(|(pid, kind)| format!("{pid} ({kind})"));
    match listed.collect::<Vec<_>>().join(", ") {
        none if none.is_empty() => "end the processes that have it open to read".to_owned(),
        listed => format!("end these processes: {listed}"),
    }
}

/// The end of the message of [`StorageError::InUse`].
fn open_elsewhere(pid: Option<u32>) -> String {
    match pid {
        Some(pid) if pid == std::process::id() => {
            format!("already open in this process ({pid}): share the open one, or close it first")
        }
        Some(pid) => format!("in use by process {pid}: close it there first"),
        None => "in use by another process: close it there first".to_owned(),
    }
}
