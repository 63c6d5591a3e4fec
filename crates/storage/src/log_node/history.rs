//! Reading the shared log as the history of a database: versions, times, and entries of the change stream.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use isomer_shared_log::{LogError, Position, Record, Retry, SharedLog};
use isomer_vfs::Time;

use super::{
    SharedOptions,
    record::{GroupHead, GroupRecord},
};
use crate::{StorageError, StreamEntry, Version, sync::Mutex};

/// Bytes of records that are read at once.
const PAGE_BYTES: usize = 1 << 20;
/// A position is remembered after that many records, or bytes.
const MARK_RECORDS: u64 = 256;
const MARK_BYTES: u64 = 1 << 20;
/// Records whose entries of the change stream are counted at most when counting begins.
const MAX_COUNTED_RECORDS: u64 = 1 << 16;
/// Positions that are remembered; then every other one is forgotten.
const MAX_MARKS: usize = 4096;

/// What a process knows of the log, and how it reads it.
///
/// Memory: 32 bytes for each position that is remembered.
pub(super) struct History {
    log: Arc<dyn SharedLog>,
    time: Arc<dyn Time>,
    random: Arc<dyn Fn() -> u64 + Send + Sync>,
    retry: Retry,
    /// The position behind the last record that was applied.
    applied: AtomicU64,
    /// The change stream is trimmed up to and including this version.
    trimmed: AtomicU64,
    passed: Mutex<Passed>,
    /// Entries of the change stream that were counted.
    counted: Mutex<Counted>,
    /// Why a record could not be applied.
    failure: Mutex<Option<String>>,
}

/// What is known of the records that were applied.
#[derive(Default)]
struct Passed {
    /// The position behind them, and the version that was published then.
    tip: (Position, Version),
    marks: Marks,
}

/// Some positions of the log, in order.
#[derive(Default)]
struct Marks {
    list: Vec<Mark>,
    records: u64,
    bytes: u64,
    /// Records between two marks are at least [`MARK_RECORDS`] times this.
    spacing: u64,
}

#[derive(Clone, Copy)]
struct Mark {
    at: Position,
    first: Version,
    time_ms: u64,
}

/// The entries of the versions after `trimmed` in the records before `upto`.
#[derive(Clone, Copy, Default)]
struct Counted {
    trimmed: Version,
    upto: Position,
    entries: u64,
    /// Each version before this one counts as an entry: its record is not read.
    read_from: Version,
}

/// A record that was read: its head, and the version behind it.
#[derive(Clone, Copy)]
pub(super) struct LoggedGroup {
    pub(super) at: Position,
    pub(super) head: GroupHead,
    pub(super) next_version: Version,
}

impl Marks {
    /// The record at `at`, with a content of `bytes` bytes, was applied.
    fn note(&mut self, at: Position, head: &GroupHead, bytes: usize) {
        self.records += 1;
        self.bytes += bytes as u64;
        let spacing = self.spacing.max(1);
        if self.records < MARK_RECORDS * spacing && self.bytes < MARK_BYTES * spacing {
            return;
        }
        (self.records, self.bytes) = (0, 0);
        self.list.push(Mark {
            at,
            first: head.first,
            time_ms: head.time_ms,
        });
        if self.list.len() > MAX_MARKS {
            self.spacing = spacing * 2;
            let mut number = 0_u32;
            self.list.retain(|_| {
                number += 1;
                number.is_multiple_of(2)
            });
        }
    }
}

impl History {
    /// The history before the position `next`, where `version` is published.
    pub(super) fn new(
        log: Arc<dyn SharedLog>,
        options: &SharedOptions,
        next: Position,
        version: Version,
    ) -> Self {
        Self {
            log,
            time: options.time.clone(),
            random: options.random.clone(),
            retry: options.retry,
            applied: AtomicU64::new(next),
            trimmed: AtomicU64::new(0),
            passed: Mutex::new(Passed {
                tip: (next, version),
                marks: Marks::default(),
            }),
            counted: Mutex::default(),
            failure: Mutex::default(),
        }
    }

    /// Makes a call of the log, repeatedly while the log cannot be reached.
    pub(super) fn call<T>(
        &self,
        mut call: impl FnMut(&dyn SharedLog) -> Result<T, LogError>,
    ) -> Result<T, LogError> {
        let random = || (self.random)();
        self.retry.call(&*self.time, random, || call(&*self.log))
    }

    /// The time by a monotonic clock.
    pub(super) fn now(&self) -> Duration {
        self.time.now()
    }

    /// The first position that is left.
    pub(super) fn first(&self) -> Result<Position, StorageError> {
        self.call(|log| log.first()).map_err(log_error)
    }

    /// The log itself, for calls that are not to be repeated.
    pub(super) fn log(&self) -> &dyn SharedLog {
        &*self.log
    }

    /// The position behind the last record that was applied.
    pub(super) fn applied(&self) -> Position {
        self.applied.load(Ordering::Acquire)
    }

    /// The version up to which the change stream is trimmed.
    pub(super) fn trimmed(&self) -> Version {
        self.trimmed.load(Ordering::Acquire)
    }

    pub(super) fn set_trimmed(&self, trimmed: Version) {
        if self.trimmed() < trimmed {
            self.trimmed.fetch_max(trimmed, Ordering::AcqRel);
        }
    }

    /// The record at `at` is applied, and `published` is the last version.
    pub(super) fn note(&self, at: Position, head: &GroupHead, published: Version, bytes: usize) {
        self.set_trimmed(head.stream.trimmed);
        let mut passed = self.passed.lock();
        passed.tip = (at + 1, published);
        passed.marks.note(at, head, bytes);
        drop(passed);
        self.applied.store(at + 1, Ordering::Release);
    }

    /// Remembers why a record could not be applied.
    pub(super) fn note_outcome(&self, applied: &Result<(), String>) {
        if let Err(reason) = applied {
            self.failure.lock().get_or_insert_with(|| reason.clone());
        }
    }

    /// Why a record could not be applied.
    pub(super) fn failure(&self) -> Option<String> {
        self.failure.lock().clone()
    }

    /// Reads the record at `at`; `None` if there is none any more, or not yet.
    pub(super) fn read(&self, at: Position) -> Result<Option<LoggedGroup>, StorageError> {
        let page = match self.call(|log| log.read(at, 0)) {
            Err(LogError::Trimmed { .. }) => return Ok(None),
            page => page.map_err(log_error)?,
        };
        let Some(bytes) = page.first() else {
            return Ok(None);
        };
        let group = self.decode(at, bytes)?;
        Ok(Some(LoggedGroup {
            at,
            head: group.head,
            next_version: group.next_version(),
        }))
    }

    fn decode<'a>(&self, at: Position, bytes: &'a [u8]) -> Result<GroupRecord<'a>, StorageError> {
        let corrupt = |error: &dyn std::fmt::Display| {
            StorageError::Corrupt(format!("the record {at} of the shared log: {error}"))
        };
        let record = Record::decode(bytes, at, self.log.id());
        let (record, _) = record.map_err(|error| corrupt(&error))?;
        GroupRecord::decode(record.content).map_err(|error| corrupt(&error))
    }

    /// The last record among those applied for which `is_before` holds: it does for a beginning of the log. `None` if
    /// it holds for none that is left.
    fn last_where(
        &self,
        is_before: impl Fn(Version, u64) -> bool,
    ) -> Result<Option<LoggedGroup>, StorageError> {
        let end = self.applied();
        let first = self.first()?;
        let (mut low, mut high) = (first, end);
        {
            let passed = self.passed.lock();
            let marks = &passed.marks;
            let known = marks
                .list
                .partition_point(|mark| is_before(mark.first, mark.time_ms));
            if let Some(mark) = known.checked_sub(1).and_then(|at| marks.list.get(at)) {
                low = low.max(mark.at);
            }
            if let Some(mark) = marks.list.get(known) {
                high = high.min(mark.at).max(low);
            }
        }
        let mut found = None;
        while low < high {
            let middle = low + (high - low) / 2;
            match self.read(middle)? {
                Some(record) if is_before(record.head.first, record.head.time_ms) => {
                    low = middle + 1;
                    found = Some(record);
                }
                Some(_) => high = middle,
                // It was trimmed in between.
                None => low = (middle + 1).max(self.first()?),
            }
        }
        Ok(found)
    }

    /// The record that has the commit `version`, or the last one before it; the first one that is left if none is
    /// before it.
    pub(super) fn position_of(&self, version: Version) -> Result<Position, StorageError> {
        match self.last_where(|first, _| first <= version)? {
            Some(found) => Ok(found.at),
            None => self.first(),
        }
    }

    /// The last record that was written at or before a time.
    pub(super) fn at_time(&self, time_ms: u64) -> Result<Option<LoggedGroup>, StorageError> {
        self.last_where(|_, written_ms| written_ms <= time_ms)
    }

    /// The last version that survives a loss of power, as far as this process has applied the log.
    pub(super) fn durable_version(&self) -> Result<Version, StorageError> {
        let (next, version) = self.passed.lock().tip;
        let durable = self.call(|log| log.durable()).map_err(log_error)?;
        if durable >= next {
            return Ok(version);
        }
        let found = match self.read(durable)? {
            Some(found) => Some(found),
            None => self.read(self.first()?)?,
        };
        Ok(found.map_or(0, |found| found.head.first - 1).min(version))
    }

    /// Calls `each` with the records from `from` on that were applied, until it returns `false`. Records that are
    /// trimmed in the meantime are left out.
    fn for_each(
        &self,
        from: Position,
        mut each: impl FnMut(Position, &GroupRecord<'_>) -> Result<bool, StorageError>,
    ) -> Result<(), StorageError> {
        let (mut at, end) = (from, self.applied());
        while at < end {
            let page = match self.call(|log| log.read(at, PAGE_BYTES)) {
                Err(LogError::Trimmed { first }) if first > at => {
                    at = first;
                    continue;
                }
                page => page.map_err(log_error)?,
            };
            if page.is_empty() {
                return Ok(());
            }
            for bytes in page {
                if at >= end || !each(at, &self.decode(at, &bytes)?)? {
                    return Ok(());
                }
                at += 1;
            }
        }
        Ok(())
    }

    /// Entries of the change stream, as in [`crate::Backend::stream`].
    pub(super) fn stream(
        &self,
        after: Version,
        upto: Version,
        max_entries: usize,
        max_bytes: usize,
    ) -> Result<Vec<StreamEntry>, StorageError> {
        let after = after.max(self.trimmed());
        let mut entries = Vec::new();
        if after >= upto {
            return Ok(entries);
        }
        let mut bytes = 0;
        let from = self.position_of(after + 1)?;
        self.for_each(from, |at, group| {
            if group.head.first > upto {
                return Ok(false);
            }
            for commit in group.commits().map_err(|error| malformed(at, error))? {
                let is_asked_for = commit.version > after && commit.version <= upto;
                if !is_asked_for || commit.stream.is_empty() {
                    continue;
                }
                let is_full = entries.len() >= max_entries.max(1) || bytes >= max_bytes;
                if is_full && !entries.is_empty() {
                    return Ok(false);
                }
                bytes += commit.stream.len();
                entries.push(StreamEntry {
                    version: commit.version,
                    bytes: commit.stream.to_vec(),
                });
            }
            Ok(true)
        })?;
        Ok(entries)
    }

    /// Number of entries of the change stream. Reads what was applied, and what was trimmed, since the last call. The
    /// first call does not read a long log: of its older part, each commit counts as one with an entry.
    pub(super) fn stream_entries(&self) -> Result<u64, StorageError> {
        let mut counted = self.counted.lock();
        let trimmed = self.trimmed();
        if counted.upto == 0 || !self.discount(&mut counted, trimmed)? {
            *counted = self.begin_to_count(trimmed)?;
        }
        let mut now = *counted;
        self.for_each(counted.upto, |at, group| {
            now.entries += entries_within(at, group, trimmed, Version::MAX)?;
            now.upto = at + 1;
            Ok(true)
        })?;
        *counted = now;
        Ok(now.entries)
    }

    /// A count that goes on with the last records.
    fn begin_to_count(&self, trimmed: Version) -> Result<Counted, StorageError> {
        let first = self.position_of(trimmed + 1)?;
        let mut counted = Counted {
            trimmed,
            upto: first,
            ..Counted::default()
        };
        let last = self.applied().saturating_sub(MAX_COUNTED_RECORDS);
        if last > first
            && let Some(found) = self.read(last)?
        {
            counted.upto = last;
            counted.read_from = found.head.first;
            counted.entries = (found.head.first - 1).saturating_sub(trimmed);
        }
        Ok(counted)
    }

    /// Subtracts the entries that were trimmed since they were counted; returns `false` if they cannot be read any
    /// more.
    fn discount(&self, counted: &mut Counted, trimmed: Version) -> Result<bool, StorageError> {
        if counted.trimmed == trimmed {
            return Ok(true);
        }
        let (from, estimated) = (counted.trimmed, counted.read_from.saturating_sub(1));
        let mut removed = trimmed.min(estimated).saturating_sub(from);
        let after = from.max(estimated);
        if after < trimmed {
            let begin = self.position_of(after + 1)?;
            let mut is_whole = false;
            self.for_each(begin, |at, group| {
                is_whole |= at == begin && group.head.first <= after + 1;
                if !is_whole || at >= counted.upto || group.head.first > trimmed {
                    return Ok(false);
                }
                removed += entries_within(at, group, after, trimmed)?;
                Ok(true)
            })?;
            if !is_whole || self.first()? > begin {
                return Ok(false);
            }
        }
        counted.entries = counted.entries.saturating_sub(removed);
        counted.trimmed = trimmed;
        Ok(true)
    }

    /// The last version in the records that are followed by at least `max_bytes` of later ones; 0 if there are none.
    /// Reads the log from its end on in parts.
    pub(super) fn version_before_bytes(&self, max_bytes: u64) -> Result<Version, StorageError> {
        let first = self.first()?;
        let mut end = self.applied();
        let mut bytes = 0;
        while end > first {
            let begin = end.saturating_sub(MARK_RECORDS).max(first);
            let mut sizes = Vec::new();
            let mut at = begin;
            while at < end {
                let page = match self.call(|log| log.read(at, PAGE_BYTES)) {
                    Err(LogError::Trimmed { .. }) => return Ok(0),
                    page => page.map_err(log_error)?,
                };
                if page.is_empty() {
                    break;
                }
                at += page.len() as u64;
                sizes.extend(page.iter().map(|record| record.len() as u64));
            }
            sizes.truncate((end - begin) as usize);
            for (behind, size) in sizes.iter().rev().enumerate() {
                bytes += size;
                if bytes > max_bytes {
                    let found = self.read(end - 1 - behind as u64)?;
                    return Ok(found.map_or(0, |found| found.next_version - 1));
                }
            }
            end = begin;
        }
        Ok(0)
    }
}

/// Number of entries of the change stream in a record, of the versions above `after` and up to `upto`.
fn entries_within(
    at: Position,
    group: &GroupRecord<'_>,
    after: Version,
    upto: Version,
) -> Result<u64, StorageError> {
    let commits = group.commits().map_err(|error| malformed(at, error))?;
    let counts = commits.iter().filter(|commit| {
        commit.version > after && commit.version <= upto && !commit.stream.is_empty()
    });
    Ok(counts.count() as u64)
}

fn malformed(at: Position, error: super::GroupError) -> StorageError {
    StorageError::Corrupt(format!("the record {at} of the shared log: {error}"))
}

/// An error of the log.
pub(super) fn log_error(error: LogError) -> StorageError {
    match error {
        LogError::TooLarge { bytes, max } => StorageError::TooLarge {
            what: "a transaction of a shared database",
            size: bytes,
            max,
            advice: "commit in smaller parts",
        },
        LogError::Damaged(_) => StorageError::Corrupt(error.to_string()),
        other => StorageError::Unavailable(other.to_string()),
    }
}
