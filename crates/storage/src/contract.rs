//! The traits and types that an engine fills.

use std::{
    any::Any,
    fmt,
    ops::ControlFlow,
    path::Path,
    sync::Arc,
    task::{Poll, Waker},
};

use thiserror::Error;

use crate::{ValueVisitor, Visitor};

/// Number of a commit: 1 for the first, increasing by at least 1. Version 0 is the empty database.
pub type Version = u64;

/// An engine: one database directory, or one memory, opened once.
pub trait Engine: Send + Sync {
    /// What this engine can do and how much it takes.
    fn capabilities(&self) -> Capabilities;
    /// The last committed and visible version.
    fn version(&self) -> Version;
    /// A read view of the last committed version, valid for as long as it is held, on any thread.
    fn snapshot(&self) -> Result<Arc<dyn Snapshot>, StorageError>;
    /// A read view of an earlier version, from [`Engine::oldest_version`] on; [`StorageError::Invalid`] for others. An
    /// engine that keeps one version only answers for that one.
    fn snapshot_at(&self, version: Version) -> Result<Arc<dyn Snapshot>, StorageError> {
        let last = self.snapshot()?;
        if last.version() == version {
            return Ok(last);
        }
        Err(version_not_kept(version, last.version()))
    }
    /// The oldest version that can be read for sure, at this moment.
    fn oldest_version(&self) -> Version {
        self.version()
    }
    /// The last version that was committed at or before a time, in milliseconds since 1970; `None` where nobody knows
    /// any more, or the engine does not note times.
    fn version_at(&self, time_ms: u64) -> Result<Option<Version>, StorageError> {
        let _ = time_ms;
        Ok(None)
    }
    /// A transaction that reads the last committed version and may write.
    fn begin(&self) -> Result<Box<dyn Transaction>, StorageError>;
    /// Change-stream entries with a version above `after`, ascending, at most `max_entries` and about `max_bytes`
    /// (at least one entry where there is one). Only entries that are durable are returned when `durable_only`.
    fn stream(
        &self,
        after: Version,
        max_entries: usize,
        max_bytes: usize,
        durable_only: bool,
    ) -> Result<Vec<StreamEntry>, StorageError>;
    /// Forgets change-stream entries with a version up to and including `upto`.
    fn trim_stream(&self, upto: Version) -> Result<(), StorageError>;
    /// The change stream was forgotten up to and including this version; 0 where nothing was. Who has read it up to an
    /// earlier one has missed something: read a part of the stream first, then ask.
    fn stream_trimmed(&self) -> Result<Version, StorageError>;
    /// Makes every commit so far durable, those with [`Durability::Buffered`] included.
    fn sync(&self) -> Result<(), StorageError>;
    /// Waits until nothing is left to do in the background: what was written is where it stays, and whatever is merged
    /// by and by has been.
    fn settle(&self) -> Result<(), StorageError> {
        self.sync()
    }
    /// Rewrites what is stored so that it takes as little room as it can; nothing, where an engine has no such thing.
    fn compact(&self) -> Result<(), StorageError> {
        self.settle()
    }
    /// Writes a copy of the last committed version to `target`, which must not exist or be an empty folder, while
    /// reads and writes go on. The copy opens as a database of its own.
    fn checkpoint(&self, target: &Path) -> Result<(), StorageError>;
    /// Puts ascending, distinct pairs past the transaction path, all or nothing, as one commit with one optional
    /// change-stream entry. `pairs` yields sorted runs; the keys must not exist yet. Engines without
    /// [`Capabilities::ingest`] run it as one large transaction.
    fn ingest(
        &self,
        pairs: &mut dyn Iterator<Item = Result<(Vec<u8>, Vec<u8>), StorageError>>,
        stream: Option<&[u8]>,
    ) -> Result<Version, StorageError>;
    /// Registers who is told of every commit before it becomes visible, in place of whoever was before.
    fn set_hook(&self, hook: Arc<dyn CommitHook>);
    /// Sizes and counts, for people and planners.
    fn statistics(&self) -> Result<Statistics, StorageError>;
    /// Reads everything that is stored and reports what is damaged; `progress` is called with (done, total) bytes.
    fn verify(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<Vec<String>, StorageError>;
}

/// The error for a version that cannot be read (any more).
pub fn version_not_kept(version: Version, oldest: Version) -> StorageError {
    StorageError::Invalid(format!(
        "version {version} is not kept, the oldest one that can be read is {oldest}: \
         ask for a later one, or have versions kept for longer"
    ))
}

/// Told of every commit, on the thread that applies it: what it does delays all commits, and it must not call the
/// engine.
pub trait CommitHook: Send + Sync {
    /// The commit `version` with the change-stream entry `stream` is valid and about to be applied; nobody sees it yet.
    /// Versions ascend. Commits without an entry are announced too.
    fn committing(&self, version: Version, stream: &[u8]);
    /// The commits announced with a version of `from` and above did not happen; their versions may be used again.
    fn abandoned(&self, from: Version);
    /// Nobody knows whether the commits announced with a version of `from` and above happened; the engine is closed to
    /// writers.
    fn unsettled(&self, from: Version);
}

/// What both snapshots and transactions read.
pub trait Read: Send {
    /// The version that is read (a transaction's own writes come on top).
    fn version(&self) -> Version;
    /// The value under `key`.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StorageError>;
    /// Calls `visit` with the value under each of `keys`, in their order, until it breaks. One round trip. An engine that has
    /// values at hand lends them; `visit` may take its time, read and write elsewhere, and panic.
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
    /// The first page of the pairs in `range`; go on by passing [`Page::next`] as the new range. Appends to `page`
    /// after clearing it, so that one allocation serves a whole scan.
    fn scan(
        &self,
        range: KeyRange<'_>,
        order: Order,
        limit: PageLimit,
        page: &mut Page,
    ) -> Result<(), StorageError>;
    /// Calls `visit` with the pairs of `range` in `order` until it breaks or the range ends. An engine that has its pairs at
    /// hand lends them, where a page would be a copy; `visit` may take its time, read and write elsewhere, and panic.
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

/// [`Read::visit`] for whatever has pages.
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
/// Nothing is checked against other transactions before [`Transaction::commit`]; then every guard is.
pub trait Transaction: Read {
    /// Puts `value` under `key`, which has at least one byte.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), StorageError>;
    /// Takes `key` out; no error where it is not there.
    fn delete(&mut self, key: &[u8]) -> Result<(), StorageError>;
    /// Takes every key in `range` out, those of this transaction's own writes included.
    fn delete_range(&mut self, range: KeyRange<'_>) -> Result<(), StorageError>;
    /// Declares a part of the footprint; the same granule may be declared several times and in several modes.
    fn guard(&mut self, granule: Granule, mode: GuardMode);
    /// Appends `bytes` to this commit's change-stream entry.
    fn append_stream(&mut self, bytes: &[u8]);
    /// Marks the present state, so that a failed statement can be undone alone.
    fn savepoint(&mut self) -> Savepoint;
    /// Undoes all writes and stream bytes since `savepoint`, which may be used again (guards stay: what was observed
    /// stays observed). A savepoint that was released or undone is ignored.
    fn rollback_to(&mut self, savepoint: Savepoint);
    /// Forgets `savepoint` and the ones set after it, keeping the writes; saves the memory that undoing would take.
    fn release(&mut self, savepoint: Savepoint);
    /// Bytes that the write set holds in memory.
    fn write_bytes(&self) -> usize;
    /// Checks the footprint and applies the writes. Returns the version at which they are visible; a transaction that
    /// wrote nothing returns the version it read and never conflicts.
    fn commit(self: Box<Self>, durability: Durability) -> Result<Version, StorageError>;
    /// As [`Transaction::commit`], for whoever has other things to do than to wait for it. It is under way when this returns,
    /// or over: an engine that cannot do one thing and another waits here. `during` is dropped when it is over, whether anybody
    /// has asked or not.
    fn start_commit(
        self: Box<Self>,
        durability: Durability,
        during: Box<dyn Send>,
    ) -> Box<dyn Committing> {
        let committed = self.commit(durability);
        drop(during);
        Box::new(Settled(committed))
    }
}

/// A commit that is under way. It goes on, and is not taken back, when this is dropped.
pub trait Committing: Send {
    /// How it ended, once; where it has not, `waker` is woken when it has (the one given last). Wakers are woken one after
    /// the other: one may commit and wait for that by its thread, but must not wait for another waker.
    fn poll(&mut self, waker: &Waker) -> Poll<Result<Version, StorageError>>;
    /// Waits for its end.
    fn wait(self: Box<Self>) -> Result<Version, StorageError>;
}

/// A commit that is over.
pub(crate) struct Settled(pub(crate) Result<Version, StorageError>);

impl Committing for Settled {
    fn poll(&mut self, _: &Waker) -> Poll<Result<Version, StorageError>> {
        let told = Err(StorageError::Invalid(
            "the end of a commit is told once".to_owned(),
        ));
        Poll::Ready(std::mem::replace(&mut self.0, told))
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

/// Direction of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// From the first key of the range.
    Ascending,
    /// From the last key of the range.
    Descending,
}

/// Bounds of a page; a page holds at least one pair where there is one.
#[derive(Clone, Copy, Debug)]
pub struct PageLimit {
    /// Most pairs.
    pub keys: usize,
    /// About how many bytes of keys and values.
    pub bytes: usize,
}

/// Pairs in the order of the scan, in one buffer, and where to go on.
#[derive(Clone, Debug, Default)]
pub struct Page {
    bytes: Vec<u8>,
    /// Per pair: end of the key and end of the value in `bytes`; each begins where the one before ended.
    ends: Vec<(u32, u32)>,
    next: Option<(Vec<u8>, Option<Vec<u8>>)>,
    parked: Parked,
}

/// What an engine left where a page ended, so that the next page of the same scan needs no search: a cursor, with what
/// it holds of the engine. It goes with the page that it is in; without it a scan goes on all the same.
#[derive(Default)]
pub struct Parked(Option<Box<dyn Any + Send + Sync>>);

impl Parked {
    /// Leaves something.
    pub fn put<T: Any + Send + Sync>(&mut self, left: Box<T>) {
        self.0 = Some(left);
    }

    /// Takes what was left, where it is a `T`; whatever else it is, it is gone.
    pub fn take<T: Any>(&mut self) -> Option<Box<T>> {
        self.0.take()?.downcast().ok()
    }
}

impl Clone for Parked {
    /// Nothing: a cursor stands in one scan.
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

    /// Empties the page and keeps its buffers.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.next = None;
        self.parked = Parked::default();
    }

    /// Takes what the engine left for the next page.
    pub fn take_parked(&mut self) -> Parked {
        std::mem::take(&mut self.parked)
    }

    /// Leaves something for the next page.
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

    /// Sets where the scan goes on: the rest of its range, or `None` at the end.
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

/// One unit of the logical footprint: a 128-bit hash of what it stands for, made by the layer above.
///
/// Ranges are mapped to fixed granules, so that an embedded engine can check them at commit and a distributed one
/// can lock them. Two things that share a hash conflict for nothing, with probability below 2⁻⁶⁰ in any database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Granule(pub u128);

/// How a transaction touched a granule. With another transaction that committed since the snapshot:
///
/// | this one \ the other | read | write | add |
/// |---|---|---|---|
/// | read  | – | conflict | conflict |
/// | write | – | conflict | conflict |
/// | add   | – | –        | –        |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum GuardMode {
    /// Observed.
    Read,
    /// Changed after it was observed.
    Write,
    /// Changed blind, by an operation that commutes with its like.
    Add,
}

/// How durable a commit is when it returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// On disk (fsync; many transactions share one).
    #[default]
    Synced,
    /// In the engine's hands: lost with the machine, perhaps with the process, until a later synced commit or
    /// [`Engine::sync`]. Never half applied.
    Buffered,
}

/// A mark inside a transaction's write set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Savepoint(pub usize);

/// One commit's entry in the change stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamEntry {
    /// The commit.
    pub version: Version,
    /// What the layer above appended.
    pub bytes: Vec<u8>,
}

/// What an engine can do.
#[derive(Clone, Copy, Debug)]
pub struct Capabilities {
    /// Short name, for people: `memory`, `redb`, `store`.
    pub name: &'static str,
    /// Longest key in bytes.
    pub max_key_bytes: usize,
    /// Longest value in bytes.
    pub max_value_bytes: usize,
    /// Largest write set in bytes: beyond it `put` answers `TooLarge`.
    pub max_transaction_bytes: usize,
    /// Whether `ingest` avoids the transaction path.
    pub ingest: bool,
    /// Whether commits survive the process.
    pub durable: bool,
    /// Whether several processes may open the database at once.
    pub several_processes: bool,
}

/// Sizes and counts of an engine.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    /// Pairs stored; an estimate where there are many and counting would read them all.
    pub key_count: u64,
    /// Bytes on disk (or in memory).
    pub stored_bytes: u64,
    /// Commits since opening, and the syncs that they shared.
    pub commits: u64,
    /// Syncs since opening.
    pub syncs: u64,
    /// Commits refused by a guard since opening.
    pub conflicts: u64,
    /// Change-stream entries kept.
    pub stream_entries: u64,
    /// Further figures of this engine, by name.
    pub details: Vec<(String, String)>,
}

/// What an engine can answer instead, split by what the caller does next.
#[derive(Debug, Error)]
pub enum StorageError {
    /// Run the transaction again.
    #[error("another transaction changed what this one observed (version {version}): run it again")]
    Conflict {
        /// The granule that collided.
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
    /// The database cannot be used now: locked, full disk, no permission, poisoned by a failed sync.
    #[error("{0}")]
    Unavailable(String),
    /// The commit may or may not have happened: look before trying again.
    #[error("{0}")]
    CommitUnknown(String),
    /// Bytes on disk are not what was written, or not a database.
    #[error("{0}")]
    Corrupt(String),
    /// The caller used the contract wrongly.
    #[error("{0}")]
    Invalid(String),
}
