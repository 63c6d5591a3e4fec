//! The write-ahead log: commits in order, written before the memtable. It is the change stream as well.
//!
//! Records are written to segments (see [`segment`], [`record`]). A group of commits is one write, and one sync
//! if one was requested. A segment that neither the memtables nor the change stream need is reused under a new
//! number.
//!
//! Damage and torn tails: commits have consecutive versions, and each record contains the version that was
//! durable when it was written (the durable watermark); after the last record of a synced group a receipt
//! contains it. If the next version is missing, what follows cannot be used. If anything after the gap says
//! that the missing version was durable, the log is damaged and refused; otherwise the power was lost while the
//! tail was written, and the tail is dropped.
//!
//! Damaged records whose commits are in tables are no longer needed, except for the change stream. So a segment
//! with entries of the change stream is closed before its commits count as flushed: from then on all of it must
//! be intact.
//!
//! The following rules ensure that a loss of power is not mistaken for damage, in whatever order the disk wrote
//! the data:
//!
//! - A record or a receipt says that a version is durable only after it was synced here, or is in tables that
//!   the manifest names durably.
//! - A segment gets its closing part only when it was synced, and when every commit in earlier segments was
//!   synced or is in such tables. So syncs and closing parts proceed in ascending order: while the database is
//!   open, when it is closed, and when it is opened. Opening syncs everything that it keeps before it closes the
//!   first segment (a killed process leaves unsynced data in the operating system's memory, and the power may be
//!   lost while recovering).
//! - Segment numbers are assigned in ascending order and removed in descending order at the end, so that there
//!   are no gaps: what precedes a missing number was about to be removed. An empty segment is not removed if the
//!   next one would not get its number. Up to [`SPARES`] empty segments follow the current one; if the first is
//!   too small, a new file replaces it in one step.
//! - The trim watermark of the change stream is never ahead of the existing commits: a note counts only after
//!   the commit that it follows, and a closing part contains no more than what is durable.
//! - Segments are removed only when the remaining ones record, durably, that their part of the change stream is
//!   trimmed: a stream that begins in the middle must not be mistaken for a complete one.

pub mod chain;
mod cut;
mod export;
#[cfg(any(test, fuzzing))]
pub mod fuzzed;
mod reader;
mod record;
mod recover;
mod segment;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use isomer_storage::sync::{Condvar, Mutex, RwLock};
use isomer_storage::{Commit, StorageError, StreamEntry, Version, io_error};
use isomer_vfs::{Disk, OpenMode, Seal};

pub use self::{
    chain::{Chain, Ended, Link, Links},
    cut::{Cut, closed_links, cut, last_ms},
    export::SegmentExport,
    record::{Change, Content, Record, Write},
    recover::{Flushed, Replayed},
    segment::has_other_history,
};
use self::{
    reader::{ReadOutcome, Reader},
    record::RecordPosition,
    segment::{Closing, Extent, FIRST_RECORD, Segment, SegmentHead},
};
use crate::RandomSource;

/// Options of the log.
#[derive(Clone)]
pub struct LogOptions {
    /// Where they are.
    pub disk: Arc<dyn Disk>,
    /// The encryption of records.
    pub seal: Seal,
    /// Bytes of a segment; a larger group gets a larger one.
    pub segment_bytes: u64,
    /// Source of salts.
    pub random: RandomSource,
    /// Whether the log is opened read-only.
    pub read_only: bool,
    /// The segments that the manifest names.
    pub chain: Arc<Chain>,
}

/// The log. One thread commits ([`Log::append`], [`Log::sync`], [`Log::rotate`]); others read and tidy up.
/// Tidying may write a note between two groups of commits.
pub struct Log {
    folder: PathBuf,
    options: LogOptions,
    segments: RwLock<BTreeMap<u64, Arc<Segment>>>,
    writer: Mutex<Writer>,
    spares: Mutex<Spares>,
    /// Notified when a spare segment was created, or could not be.
    spare_made: Condvar,
    lacks_spare: AtomicBool,
    /// A segment that is no longer needed, kept for reuse.
    reusable: Mutex<Option<Arc<Segment>>>,
    /// Number of the segment that was last written to.
    current: AtomicU64,
    trimmed: AtomicU64,
    recorded: Mutex<RecordedTrim>,
    durable: AtomicU64,
    syncs: AtomicU64,
    dropped_bytes: u64,
}

/// The trim watermark that the log has recorded durably.
#[derive(Clone, Copy, Debug, Default)]
struct RecordedTrim {
    /// The segment that records it.
    segment: u64,
    /// The change stream is trimmed up to here.
    trimmed: Version,
}

/// Records of a group of at least this many bytes are written in pieces, unless they are encrypted.
pub const LARGE_RECORD_BYTES: usize = if cfg!(debug_assertions) {
    64 << 10
} else {
    4 << 20
};

/// A larger buffer is not kept for the next group.
const MAX_REUSED_BUFFER_BYTES: usize = 4 << 20;

/// Where a group was written: the segment, the offset and the length; and whether that succeeded.
type Written = (Arc<Segment>, u64, u64, io::Result<()>);

struct Writer {
    /// The segment that is written to; `None` if nothing was written since opening or rotating.
    active: Option<Arc<Segment>>,
    buffer: Vec<u8>,
    /// Offsets of the records of the last group.
    starts: Vec<u64>,
    /// Segments with unsynced data.
    unsynced: Vec<Arc<Segment>>,
    /// What made it unknown what is in the log: nothing more is written.
    failed: Option<String>,
    last: Version,
    last_ms: u64,
}

/// Number of segments created in advance: creating one may take as long as a writer takes to fill another.
const SPARES: usize = 2;

/// Segments created in advance, with the numbers after the current one.
#[derive(Default)]
struct Spares {
    ready: VecDeque<Arc<Segment>>,
    /// Numbers of those whose names may be lost.
    doubted: BTreeSet<u64>,
    /// Whether the next one is being created. Only one is at a time.
    making: bool,
}

/// Ends the creation of a spare when dropped, whether it succeeded or not.
struct Making<'a>(&'a Log);

impl Drop for Making<'_> {
    fn drop(&mut self) {
        self.0.spares.lock().making = false;
        self.0.spare_made.notify_all();
    }
}

/// What must be kept of the log.
#[derive(Clone, Copy, Debug, Default)]
pub struct Keep {
    /// The first segment with commits that are not in tables.
    pub needed_from: u64,
    /// Times of commits can be looked up from here on.
    pub versions_since_ms: Option<u64>,
    /// Older entries of the change stream are dropped, trimmed or not.
    pub stream_since_ms: Option<u64>,
    /// Entries of the change stream are dropped, trimmed or not, while the log is larger than this.
    pub stream_bytes: Option<u64>,
}

/// A failure while writing.
#[derive(Debug)]
pub enum Failure {
    /// Nothing of the write is in the log.
    Refused(StorageError),
    /// It is unknown what is in the log.
    Unknown(String),
}

/// Sizes.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogStatistics {
    /// Segments.
    pub segments: u64,
    /// Bytes that they take on disk.
    pub stored_bytes: u64,
    /// Entries of the change stream that are not trimmed.
    pub stream_entries: u64,
    /// Syncs since opening.
    pub syncs: u64,
    /// Bytes of a torn tail that opening dropped.
    pub dropped_bytes: u64,
}

/// The contents of the log at one time. While this is held they do not change, and their files are not reused.
pub struct Pinned(Vec<(Arc<Segment>, Extent)>);

impl Pinned {
    /// Bytes of records.
    pub fn record_bytes(&self) -> u64 {
        self.0
            .iter()
            .map(|(_, state)| state.end - FIRST_RECORD)
            .sum()
    }
}

/// Result of reading all records.
#[derive(Clone, Debug, Default)]
pub struct Verified {
    /// The damage found.
    pub damage: Vec<String>,
    /// From this version on the log has every commit up to `last`.
    pub whole_from: Version,
    /// The last commit in it; 0 if there is none.
    pub last: Version,
    last_ms: u64,
}

impl Verified {
    fn note(&mut self, record: &Record<'_>) {
        let version = record.version;
        // A note may have a later time than the next record, if the log was reopened after the clock was set
        // back.
        if let Content::Trim(_) = record.content {
            return;
        }
        if record.time_ms < self.last_ms {
            self.damage.push(format!(
                "the commit {version} in the log has an earlier time than the one before it"
            ));
        }
        self.last_ms = record.time_ms;
        if version <= self.last {
            self.damage.push(format!(
                "the commit {version} follows the commit {} in the log",
                self.last
            ));
        }
        // Versions lost with the power are in tables, otherwise the log would not have been opened.
        if version != self.last + 1 {
            self.whole_from = version;
        }
        self.last = version;
    }
}

impl Log {
    /// The last version that is durable.
    pub fn durable(&self) -> Version {
        self.durable.load(Ordering::Acquire)
    }

    /// Records that everything up to `version` is durable, in tables.
    pub fn note_durable(&self, version: Version) {
        self.durable.fetch_max(version, Ordering::AcqRel);
        self.writer.lock().unsynced.retain(|segment| {
            let state = segment.state.lock();
            !state.closed || state.last > version
        });
    }

    /// Time of the last commit, in milliseconds since 1970; 0 if none is known.
    pub fn last_ms(&self) -> u64 {
        self.writer.lock().last_ms
    }

    /// The change stream is trimmed up to here.
    pub fn trimmed(&self) -> Version {
        self.trimmed.load(Ordering::Acquire)
    }

    /// Writes a group of commits. `time_ms` never decreases.
    pub fn append(&self, commits: &[Commit<'_>], time_ms: u64) -> Result<(), Failure> {
        let writes = commits.iter().map(|commit| Write::Commit(*commit));
        self.write(writes, time_ms).map(drop)
    }

    /// Writes the record of an ingestion.
    pub fn append_ingestion(
        &self,
        version: Version,
        stream: &[u8],
        time_ms: u64,
    ) -> Result<(), Failure> {
        self.write(
            std::iter::once(Write::Ingestion { version, stream }),
            time_ms,
        )
        .map(drop)
    }

    /// Writes a group to the end of the log and returns its segment.
    fn write<'a>(
        &self,
        writes: impl Iterator<Item = Write<'a>> + Clone,
        time_ms: u64,
    ) -> Result<Arc<Segment>, Failure> {
        let mut writer = self.writer.lock();
        let writer = &mut *writer;
        if let Some(what) = &writer.failed {
            return Err(Failure::Unknown(what.clone()));
        }
        // Record times never decrease, even if the system clock is set back.
        let time_ms = time_ms.max(writer.last_ms);
        let durable = self.durable();
        let content = writes
            .clone()
            .map(|write| write.content_bytes())
            .sum::<usize>();
        let mut last = writer.last;
        for version in writes.clone().filter_map(|write| write.new_version()) {
            assert!(
                version > last,
                "the log has version {last} already: {version} cannot follow it"
            );
            last = version;
        }
        let (segment, end, bytes, written) =
            match content >= LARGE_RECORD_BYTES && !self.options.seal.encrypts() {
                true => self.write_pieces(writer, writes.clone(), time_ms, durable)?,
                false => self.write_whole(writer, writes.clone(), time_ms, durable)?,
            };
        if let Err(error) = written {
            let failure = self.take_back(&segment, &writer.starts, &error);
            if let Failure::Unknown(what) = &failure {
                writer.failed = Some(what.clone());
            }
            return Err(failure);
        }
        let mut state = segment.state.lock();
        let mut offset = end;
        for write in writes {
            let (version, streams) = match write {
                Write::Commit(commit) => (commit.version, !commit.stream.is_empty()),
                Write::Ingestion { version, stream } => (version, !stream.is_empty()),
                Write::Trim { .. } => continue,
            };
            state.note(version, time_ms, streams, offset);
            writer.last = version;
            // Only the first of a group gets an exact mark; the others are found by reading from there.
            offset = end;
        }
        state.end = end + bytes;
        drop(state);
        writer.last_ms = time_ms;
        if writer
            .unsynced
            .last()
            .is_none_or(|last| last.number != segment.number)
        {
            writer.unsynced.push(segment.clone());
        }
        if writer.buffer.capacity() > MAX_REUSED_BUFFER_BYTES {
            writer.buffer = Vec::new();
        }
        Ok(segment)
    }

    /// The segment that is written to, and the end of its records.
    fn active_segment(&self, writer: &mut Writer) -> Result<(Arc<Segment>, u64), Failure> {
        let segment = match &writer.active {
            Some(segment) => segment.clone(),
            None => self.next_segment(writer, 0)?,
        };
        let end = segment.state.lock().end;
        Ok((segment, end))
    }

    /// Writes a group with one write.
    fn write_whole<'a>(
        &self,
        writer: &mut Writer,
        writes: impl Iterator<Item = Write<'a>> + Clone,
        time_ms: u64,
        durable: Version,
    ) -> Result<Written, Failure> {
        let (mut segment, mut end) = self.active_segment(writer)?;
        loop {
            writer.buffer.clear();
            writer.starts.clear();
            for write in writes.clone() {
                let offset = end + writer.buffer.len() as u64;
                writer.starts.push(offset);
                let position = RecordPosition {
                    segment: segment.number,
                    salt: segment.salt,
                    offset,
                };
                record::encode(
                    &mut writer.buffer,
                    position,
                    &self.options.seal,
                    write,
                    time_ms,
                    durable,
                );
            }
            let bytes = (writer.buffer.len() + record::RECEIPT_BYTES) as u64;
            if end + bytes <= segment.capacity {
                break;
            }
            // The checksums include the position: a record that moves is encoded again.
            segment = self.next_segment(writer, bytes)?;
            end = FIRST_RECORD;
        }
        let written = segment.file.write_all_at(&writer.buffer, end);
        Ok((segment, end, writer.buffer.len() as u64, written))
    }

    /// Writes a large group record by record, each of them in pieces: it is in memory already, and is not
    /// copied as a whole.
    fn write_pieces<'a>(
        &self,
        writer: &mut Writer,
        writes: impl Iterator<Item = Write<'a>> + Clone,
        time_ms: u64,
        durable: Version,
    ) -> Result<Written, Failure> {
        let (mut segment, mut end) = self.active_segment(writer)?;
        let sizes = writes
            .clone()
            .map(|write| record::plain_bytes(write, time_ms, durable));
        let bytes = sizes.sum::<u64>();
        let needed = bytes + record::RECEIPT_BYTES as u64;
        if end + needed > segment.capacity {
            segment = self.next_segment(writer, needed)?;
            end = FIRST_RECORD;
        }
        writer.starts.clear();
        let mut offset = end;
        let mut written = Ok(());
        for write in writes {
            writer.starts.push(offset);
            let position = RecordPosition {
                segment: segment.number,
                salt: segment.salt,
                offset,
            };
            written = record::write_plain(&*segment.file, position, write, time_ms, durable);
            if written.is_err() {
                break;
            }
            offset += record::plain_bytes(write, time_ms, durable);
        }
        Ok((segment, end, bytes, written))
    }

    /// Ensures that nothing of a failed write is read as a record: neither now nor after a loss of power.
    fn take_back(&self, segment: &Segment, starts: &[u64], error: &io::Error) -> Failure {
        let path = segment::path(&self.folder, segment.number);
        let zeros = [0; record::HEAD_BYTES];
        // The last record first: if this fails midway, only complete records at the beginning of the group
        // remain.
        let undone = starts.iter().rev().try_for_each(|offset| {
            let position = RecordPosition {
                segment: segment.number,
                salt: segment.salt,
                offset: *offset,
            };
            match segment.file.write_all_at(&zeros, *offset) {
                // A full disk refuses zeros as well; but then it has not stored a record.
                Err(second)
                    if second.kind() == io::ErrorKind::StorageFull
                        && begins_nothing(segment, position) =>
                {
                    Ok(())
                }
                other => other,
            }
        });
        let second = match undone {
            Ok(()) => match self.sync_file(segment) {
                Ok(()) => return Failure::Refused(io_error("writing", &path, error)),
                Err(Failure::Unknown(second)) => second,
                Err(Failure::Refused(second)) => second.to_string(),
            },
            Err(second) => second.to_string(),
        };
        Failure::Unknown(format!(
            "writing `{}` failed ({error}), and the partial write could not be undone ({second})",
            path.display()
        ))
    }

    /// Makes all writes durable.
    pub fn sync(&self) -> Result<(), Failure> {
        let mut writer = self.writer.lock();
        let last = writer.unsynced.last().cloned();
        self.sync_writer(&mut writer)?;
        if let Some(segment) = last {
            self.write_receipt(&segment);
        }
        Ok(())
    }

    /// Records after the last record that all of it is durable, so that damage to it is detected even if
    /// nothing is written after it. The caller holds the writer.
    fn write_receipt(&self, segment: &Segment) {
        let position = RecordPosition {
            segment: segment.number,
            salt: segment.salt,
            offset: segment.state.lock().end,
        };
        let receipt = record::receipt(position, self.durable());
        // Commits are durable without the receipt.
        let _ = segment.file.write_all_at(&receipt, position.offset);
    }

    fn sync_writer(&self, writer: &mut Writer) -> Result<(), Failure> {
        for segment in &writer.unsynced {
            self.sync_segment(segment)?;
        }
        writer.unsynced.clear();
        self.durable.fetch_max(writer.last, Ordering::AcqRel);
        Ok(())
    }

    /// Number of the segment that was last written to.
    pub fn current_segment(&self) -> u64 {
        self.current.load(Ordering::Acquire)
    }

    /// Ends the active segment, so that the next group goes into another one; returns that one's number.
    pub fn rotate(&self) -> u64 {
        let mut writer = self.writer.lock();
        if let Some(segment) = writer.active.take() {
            segment.state.lock().closed = true;
        }
        self.current.load(Ordering::Acquire) + 1
    }

    /// The next segment, with room for `bytes`.
    fn next_segment(&self, writer: &mut Writer, bytes: u64) -> Result<Arc<Segment>, Failure> {
        if let Some(segment) = writer.active.take() {
            segment.state.lock().closed = true;
        }
        let capacity = self
            .options
            .segment_bytes
            .max((FIRST_RECORD + bytes).next_multiple_of(4096));
        let mut spares = self.spares.lock();
        // A segment being created gets the number after the ready ones: none of these is taken until then,
        // except to become the current one.
        while spares.making
            && spares
                .ready
                .front()
                .is_none_or(|next| next.capacity < capacity)
        {
            self.spare_made.wait(&mut spares);
        }
        let number = self.current.load(Ordering::Acquire) + 1;
        let doubted = spares.doubted.contains(&number);
        let ready = spares.ready.front().cloned();
        let segment = match ready {
            Some(segment) if segment.capacity >= capacity && !doubted => segment,
            // Too small for the group, or perhaps without its name: another one is created. If that fails its
            // number is free again, and later ones must not exist.
            Some(segment) => {
                self.forget_segments(|named| named >= number)
                    .map_err(Failure::Refused)?;
                spares.ready.pop_front();
                let behind: Vec<_> = spares.ready.drain(..).rev().collect();
                spares.doubted.clear();
                self.remove_segments(&behind).map_err(Failure::Refused)?;
                // Another file takes its name: a file made longer under its existing name could be found with
                // its old length after a loss of power.
                drop(segment);
                self.make_segment(number, capacity, None)
                    .map_err(Failure::Refused)?
            }
            None => {
                let reused = self.take_reusable();
                self.make_segment(number, capacity, reused.as_deref())
                    .map_err(Failure::Refused)?
            }
        };
        // The loss of a segment is detected only if the manifest names it. Usually the thread that created it
        // has ensured that.
        let stored = self.options.chain.ensure_stored(number, segment.salt);
        stored.map_err(Failure::Refused)?;
        spares.ready.pop_front();
        spares.doubted.remove(&number);
        self.segments.write().insert(number, segment.clone());
        self.current.store(number, Ordering::Release);
        drop(spares);
        self.lacks_spare.store(true, Ordering::Relaxed);
        writer.active = Some(segment.clone());
        Ok(segment)
    }

    /// Creates a segment, from an old one if one is given, durable under its name. The manifest names it with
    /// its next write.
    fn make_segment(
        &self,
        number: u64,
        capacity: u64,
        old: Option<&Segment>,
    ) -> Result<Arc<Segment>, StorageError> {
        // An earlier attempt may have been named: that one has another salt.
        self.forget_segments(|named| named >= number)?;
        let disk = &self.options.disk;
        let path = segment::path(&self.folder, number);
        let new = path.with_extension("new");
        let head = SegmentHead {
            number,
            salt: (self.options.random)(),
            capacity,
        };
        let made = (|| {
            let file = match old {
                Some(old) => {
                    disk.rename(&segment::path(&self.folder, old.number), &new)?;
                    if old.capacity < capacity {
                        old.file.set_len(capacity)?;
                    }
                    old.file.clone()
                }
                None => {
                    let file = disk.open(&new, OpenMode::Create)?;
                    file.set_len(capacity)?;
                    file
                }
            };
            segment::write_head(&*file, head)?;
            file.sync()?;
            disk.rename(&new, &path)?;
            disk.sync_folder(&self.folder)?;
            Ok(file)
        })();
        match made {
            Ok(file) => {
                let state = Extent {
                    end: FIRST_RECORD,
                    ..Extent::default()
                };
                self.options.chain.name(number, head.salt);
                Ok(Arc::new(Segment {
                    number,
                    salt: head.salt,
                    capacity,
                    file,
                    state: Mutex::new(state),
                    failed_sync: Mutex::new(None),
                }))
            }
            Err(error) => {
                // If they are left behind they only take space.
                drop(disk.remove(&new));
                drop(disk.remove(&path));
                Err(io_error("making", &path, &error))
            }
        }
    }

    /// Makes durable, in the full segments, the commits up to `upto` that must not be lost once they are in
    /// tables: those with entries of the change stream, and earlier ones, because these segments are about to
    /// be closed. Writers continue concurrently.
    pub fn sync_closed(&self, upto: Version) -> Result<(), Failure> {
        let full: Vec<Arc<Segment>> = {
            let writer = self.writer.lock();
            let is_full = |segment: &Arc<Segment>| segment.state.lock().closed;
            writer
                .unsynced
                .iter()
                .take_while(|segment| is_full(segment))
                .cloned()
                .collect()
        };
        let streams = |segment: &Arc<Segment>| {
            let state = segment.state.lock();
            state.stream_entries > 0 && state.first <= upto
        };
        let needed = full.iter().rposition(streams).map_or(0, |last| last + 1);
        for segment in &full[..needed] {
            self.sync_segment(segment)?;
            let mut writer = self.writer.lock();
            writer
                .unsynced
                .retain(|unsynced| unsynced.number != segment.number);
        }
        Ok(())
    }

    fn sync_segment(&self, segment: &Segment) -> Result<(), Failure> {
        self.syncs.fetch_add(1, Ordering::Relaxed);
        let end = segment.state.lock().end;
        self.sync_file(segment)?;
        let mut state = segment.state.lock();
        state.synced_end = state.synced_end.max(end);
        Ok(())
    }

    /// Syncs the file of a segment. One call at a time, and none after a failed one: the operating system
    /// reports an error once and then considers the unwritten pages clean, so a second caller would believe
    /// that they are durable.
    fn sync_file(&self, segment: &Segment) -> Result<(), Failure> {
        let mut failed = segment.failed_sync.lock();
        if let Some(what) = &*failed {
            return Err(Failure::Unknown(what.clone()));
        }
        segment.file.sync().map_err(|error| {
            let path = segment::path(&self.folder, segment.number);
            let what = format!("a sync of `{}` failed ({error})", path.display());
            *failed = Some(what.clone());
            Failure::Unknown(what)
        })
    }

    /// Whether the next segment is still to be created. True once per segment that is started: if creating one
    /// fails, it is retried with the next one.
    pub fn lacks_spare(&self) -> bool {
        self.lacks_spare.load(Ordering::Relaxed) && self.lacks_spare.swap(false, Ordering::Relaxed)
    }

    /// Creates the next segments in advance, reusing one that is no longer needed if possible. Not on the
    /// writer's thread, which waits only if there is none left.
    pub fn prepare(&self) -> Result<(), StorageError> {
        if self.options.read_only {
            return Ok(());
        }
        loop {
            let number = {
                let mut spares = self.spares.lock();
                // No segment is created after one whose name may be lost: its number might be missing. It is
                // created again when it is taken.
                if spares.making || spares.ready.len() >= SPARES || !spares.doubted.is_empty() {
                    self.lacks_spare.store(false, Ordering::Relaxed);
                    drop(spares);
                    // The manifest names all of them at once. If that fails, the writer that takes one retries
                    // it.
                    return self.options.chain.store();
                }
                spares.making = true;
                // Taking one increments the current number and decrements the count.
                self.current.load(Ordering::Acquire) + 1 + spares.ready.len() as u64
            };
            let making = Making(self);
            let reused = self.take_reusable();
            let made = self.make_segment(number, self.options.segment_bytes, reused.as_deref());
            self.spares.lock().ready.push_back(made?);
            drop(making);
        }
    }

    /// Gives the disk space of segments created in advance back. Their replacements are created on demand.
    pub fn shrink(&self) -> Result<(), StorageError> {
        let mut spares = self.spares.lock();
        while spares.making {
            self.spare_made.wait(&mut spares);
        }
        let had = !spares.ready.is_empty();
        let current = self.current.load(Ordering::Acquire);
        self.forget_segments(|named| named > current)?;
        let (renamed, failed) = self.rename_unused(&mut spares);
        self.name_ready(&spares);
        drop(spares);
        // Freeing a large file takes time: writers that wait for a segment must not wait for that.
        self.remove_files(&renamed)?;
        failed.map_or(Ok(()), Err)?;
        if had { self.prepare() } else { Ok(()) }
    }

    /// Renames the segments created in advance and removes them from the log: writers may reuse their names.
    /// Starts with the last one, so that there is never a gap. Returns the files to remove, and the error that
    /// ended it early.
    fn rename_unused(&self, spares: &mut Spares) -> (Vec<PathBuf>, Option<StorageError>) {
        let (mut renamed, mut failed) = (Vec::new(), None);
        let mut next = spares.ready.pop_back();
        while let Some(segment) = next.take() {
            spares.doubted.remove(&segment.number);
            let path = segment::path(&self.folder, segment.number);
            let old = path.with_extension(segment::OLD);
            match self.options.disk.rename(&path, &old) {
                Ok(()) => renamed.push(old),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    // The file still has its name, or the name is lost in spite of the error: it keeps its
                    // number, and is created again before anything is written to it.
                    spares.doubted.insert(segment.number);
                    spares.ready.push_back(segment);
                    failed = Some(io_error("renaming", &path, &error));
                    break;
                }
            }
            next = spares.ready.pop_back();
        }
        // Its number is an old one, which is not given to another segment.
        renamed.extend(
            self.reusable
                .lock()
                .take()
                .map(|old| segment::path(&self.folder, old.number)),
        );
        (renamed, failed)
    }

    /// Removes segments from the chain, durably, before their files.
    fn forget_segments(&self, goes: impl Fn(u64) -> bool + Copy) -> Result<(), StorageError> {
        self.options.chain.forget(goes)
    }

    /// Adds segments to the chain again that stay ready although they were to be removed. One whose file may be
    /// lost is created again, and then named, before it is used.
    fn name_ready(&self, spares: &Spares) {
        for segment in &spares.ready {
            if !spares.doubted.contains(&segment.number) {
                self.options.chain.name(segment.number, segment.salt);
            }
        }
    }

    /// A segment that is no longer part of the log, for reuse.
    fn take_reusable(&self) -> Option<Arc<Segment>> {
        let reused = self.reusable.lock().take();
        reused.filter(|segment| self.is_reusable(segment))
    }

    /// Removes the files of segments.
    fn remove_segments(&self, segments: &[Arc<Segment>]) -> Result<(), StorageError> {
        let path = |segment: &Arc<Segment>| segment::path(&self.folder, segment.number);
        self.remove_files(&segments.iter().map(path).collect::<Vec<_>>())
    }

    fn remove_files(&self, paths: &[PathBuf]) -> Result<(), StorageError> {
        paths
            .iter()
            .try_for_each(|path| match self.options.disk.remove(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    Err(io_error("removing", path, &error))
                }
                _ => Ok(()),
            })
    }

    /// Whether a segment that is no longer part of the log may be reused: it has no readers, and its file is
    /// not linked into a copy of the database.
    fn is_reusable(&self, segment: &Arc<Segment>) -> bool {
        segment.capacity == self.options.segment_bytes
            && Arc::strong_count(segment) == 1
            && segment.file.name_count().is_ok_and(|names| names == 1)
            && segment.file.len().is_ok_and(|len| len == segment.capacity)
    }

    /// Removes segments that are no longer needed, except for one that is kept for reuse, and closes full ones.
    /// Not on the writer's thread.
    pub fn tidy(&self, keep: Keep) -> Result<(), Failure> {
        if self.options.read_only {
            return Ok(());
        }
        self.forget_old_entries(keep);
        // Segments closed from now on record the trim watermark.
        self.close_full()?;
        let Some(behind) = self.end_of_old(keep)? else {
            return Ok(());
        };
        self.forget_segments(|named| named < behind)
            .map_err(Failure::Refused)?;
        let mut old: Vec<Arc<Segment>> = {
            let mut segments = self.segments.write();
            let stays = segments.split_off(&behind);
            std::mem::replace(&mut *segments, stays)
                .into_values()
                .collect()
        };
        let mut reusable = self.reusable.lock();
        if reusable.is_none() {
            let at = old.iter().position(|segment| self.is_reusable(segment));
            *reusable = at.map(|at| old.remove(at));
        }
        drop(reusable);
        self.remove_segments(&old).map_err(Failure::Refused)
    }

    /// The number after the segments that are no longer needed, once the remaining ones record what is trimmed
    /// with them.
    fn end_of_old(&self, keep: Keep) -> Result<Option<u64>, Failure> {
        let trimmed = self.trimmed();
        let mut recorded = *self.recorded.lock();
        let (mut behind, mut end_of_recorded) = (None, None);
        let mut is_recorded = true;
        {
            let segments = self.segments.read();
            let current = self.current.load(Ordering::Acquire);
            let mut rest = segments.iter();
            while let Some((&number, segment)) = rest.next() {
                // Its last version is the version at all times up to the next segment's first.
                let next_ms = rest
                    .clone()
                    .find(|(_, next)| next.state.lock().first > 0)
                    .map_or(u64::MAX, |(_, next)| next.state.lock().first_ms);
                let state = segment.state.lock();
                let streams = state.stream_entries > 0;
                let times = keep.versions_since_ms.is_some_and(|since| next_ms > since);
                if number >= keep.needed_from
                    || number >= current
                    || !state.closed
                    || streams && state.last > trimmed
                    || times
                {
                    break;
                }
                // The segment that records the watermark would be removed as well.
                is_recorded &=
                    number < recorded.segment && !(streams && state.last > recorded.trimmed);
                behind = Some(number + 1);
                if is_recorded {
                    end_of_recorded = behind;
                }
            }
        }
        if behind.is_some() && trimmed > 0 && !is_recorded {
            recorded = match self.record_trim(trimmed) {
                // On a full disk, removing what is recorded already frees space; the rest is removed later.
                Err(Failure::Refused(_)) => return Ok(end_of_recorded),
                recorded => recorded?,
            };
            let mut known = self.recorded.lock();
            if known.segment <= recorded.segment {
                *known = recorded;
            }
        }
        Ok(behind)
    }

    /// Writes a note with the trim watermark to the end of the log, durably. Writers continue concurrently.
    fn record_trim(&self, trimmed: Version) -> Result<RecordedTrim, Failure> {
        let version = self.writer.lock().last;
        let note = Write::Trim {
            version,
            upto: trimmed,
        };
        let segment = self.write(std::iter::once(note), 0)?;
        self.make_note_durable(&segment, trimmed)
    }

    /// Makes the note at the end of `segment` durable, whatever was written or synced since.
    fn make_note_durable(
        &self,
        segment: &Segment,
        trimmed: Version,
    ) -> Result<RecordedTrim, Failure> {
        // A note counts only if the commits before it exist.
        let mut unsynced = self.writer.lock().unsynced.clone();
        unsynced.retain(|before| before.number < segment.number);
        for before in &unsynced {
            self.sync_segment(before)?;
        }
        self.sync_segment(segment)?;
        Ok(RecordedTrim {
            segment: segment.number,
            trimmed,
        })
    }

    /// Drops entries of the change stream that are too old, or too many, in whole segments.
    fn forget_old_entries(&self, keep: Keep) {
        let segments = self.segments.read();
        let mut bytes: u64 = segments
            .values()
            .map(|segment| segment.state.lock().end)
            .sum();
        for segment in segments.values() {
            let state = segment.state.lock();
            let too_old = keep
                .stream_since_ms
                .is_some_and(|since| state.last_ms < since);
            let too_many = keep.stream_bytes.is_some_and(|most| bytes > most);
            if !state.closed || !(too_old || too_many) {
                break;
            }
            bytes -= state.end;
            self.trimmed.fetch_max(state.last, Ordering::AcqRel);
        }
    }

    /// Writes the closing parts of segments that are full and durable and have no unsynced predecessors:
    /// anything missing before a closed segment is detected.
    pub fn close_full(&self) -> Result<(), Failure> {
        let mut full = Vec::new();
        for segment in self.segments.read().values() {
            let state = segment.state.lock();
            let is_synced = state.synced_end == state.end;
            // Up to the durable watermark everything is synced or in tables.
            if !state.closing_written && !is_synced && state.last > self.durable() {
                break;
            }
            if state.closed && !state.closing_written && is_synced {
                full.push(segment.clone());
            }
        }
        full.iter()
            .try_for_each(|segment| self.write_closing(segment))
    }

    /// Writes a closing part, and makes it durable: only then is damage to the segment detected. After a
    /// failure it is unknown whether there is one.
    fn write_closing(&self, segment: &Segment) -> Result<(), Failure> {
        let closing = {
            let state = segment.state.lock();
            let durable = self.durable().max(state.last);
            Closing {
                end: state.end,
                first: state.first,
                last: state.last,
                first_ms: state.first_ms,
                last_ms: state.last_ms,
                stream_entries: state.stream_entries,
                // A later commit that takes the version of a lost one must not be trimmed with it.
                trimmed: self.trimmed().min(durable),
                durable,
            }
        };
        let path = segment::path(&self.folder, segment.number);
        segment::write_closing(&*segment.file, segment.salt, closing)
            .map_err(|error| Failure::Refused(io_error("writing", &path, &error)))?;
        self.sync_file(segment)?;
        segment.state.lock().closing_written = true;
        self.options.chain.close(segment.number, closing.into());
        let mut recorded = self.recorded.lock();
        if recorded.segment <= segment.number {
            // Notes in it are not read any more.
            *recorded = RecordedTrim {
                segment: segment.number,
                trimmed: closing.trimmed,
            };
        }
        Ok(())
    }

    /// Makes everything durable, records the end of the log, and frees the unused rest of it. Nothing is
    /// written later.
    pub fn close(&self) -> Result<(), StorageError> {
        if self.options.read_only {
            return Ok(());
        }
        let mut writer = self.writer.lock();
        let recorded = |failure| match failure {
            Failure::Refused(error) => error,
            Failure::Unknown(what) => StorageError::Unavailable(what),
        };
        self.sync_writer(&mut writer).map_err(recorded)?;
        if let Some(segment) = writer.active.take() {
            segment.state.lock().closed = true;
        }
        drop(writer);
        for segment in self.segments.read().values() {
            if segment.state.lock().closing_written {
                continue;
            }
            let path = segment::path(&self.folder, segment.number);
            let error = |error| io_error("writing", &path, &error);
            let unsynced = {
                let state = segment.state.lock();
                state.synced_end < state.end
            };
            if unsynced {
                self.sync_file(segment).map_err(recorded)?;
            }
            self.write_closing(segment).map_err(recorded)?;
            let end = segment.state.lock().end;
            segment.file.set_len(end).map_err(error)?;
        }
        let mut spares = self.spares.lock();
        let current = self.current.load(Ordering::Acquire);
        self.forget_segments(|named| named > current)?;
        // From here on the log must be complete up to its end.
        self.options.chain.store()?;
        let (renamed, failed) = self.rename_unused(&mut spares);
        self.remove_files(&renamed)?;
        failed.map_or(Ok(()), Err)
    }

    /// Trims the change stream up to `upto`, and records that.
    pub fn trim(&self, upto: Version, time_ms: u64) -> Result<(), Failure> {
        let version = self.writer.lock().last;
        let upto = upto.min(version);
        if upto <= self.trimmed() {
            return Ok(());
        }
        self.write(std::iter::once(Write::Trim { version, upto }), time_ms)?;
        self.trimmed.fetch_max(upto, Ordering::AcqRel);
        Ok(())
    }

    /// Entries of the change stream after `after` and up to `upto`, which was committed before the call.
    pub fn stream(
        &self,
        after: Version,
        upto: Version,
        max_entries: usize,
        max_bytes: usize,
    ) -> Result<Vec<StreamEntry>, StorageError> {
        let (mut entries, mut bytes) = (Vec::new(), 0);
        self.each_record(None, after.max(self.trimmed()), upto, true, &mut |record| {
            if !record.stream.is_empty() {
                bytes += record.stream.len();
                entries.push(StreamEntry {
                    version: record.version,
                    bytes: record.stream.to_vec(),
                });
            }
            Ok(entries.len() < max_entries.max(1) && (bytes < max_bytes || entries.is_empty()))
        })?;
        Ok(entries)
    }

    /// Calls `visit` with the pinned commits after `after` and up to `upto`, in order, until it returns false.
    pub fn each_commit(
        &self,
        pinned: &Pinned,
        after: Version,
        upto: Version,
        visit: &mut dyn FnMut(&Record<'_>) -> Result<bool, StorageError>,
    ) -> Result<(), StorageError> {
        self.each_record(Some(pinned), after, upto, false, visit)
    }

    /// The present contents.
    pub fn pin(&self) -> Pinned {
        let segments = self.segments.read();
        let noted = segments
            .values()
            .map(|segment| (segment.clone(), segment.state.lock().clone()));
        Pinned(noted.collect())
    }

    /// The same, of the present contents if nothing is pinned; segments without entries of the change stream
    /// are skipped if `streams_only`.
    fn each_record(
        &self,
        pinned: Option<&Pinned>,
        after: Version,
        upto: Version,
        streams_only: bool,
        visit: &mut dyn FnMut(&Record<'_>) -> Result<bool, StorageError>,
    ) -> Result<(), StorageError> {
        if after >= upto {
            return Ok(());
        }
        let wanted = |state: &Extent| {
            let within = state.last > after && state.first <= upto;
            let wanted = within && (!streams_only || state.stream_entries > 0);
            wanted.then(|| (state.offset_before(after + 1), state.end))
        };
        let segments = match pinned {
            Some(pinned) => pinned
                .0
                .iter()
                .filter_map(|(segment, state)| Some((segment.clone(), wanted(state)?)))
                .collect::<Vec<_>>(),
            None => self
                .segments
                .read()
                .values()
                .filter_map(|segment| Some((segment.clone(), wanted(&segment.state.lock())?)))
                .collect(),
        };
        for (segment, (from, end)) in segments {
            let mut reader = Reader::new(segment.clone(), &self.folder, &self.options.seal, from);
            reader.limit(end);
            let mut marked = from;
            while reader.offset() < end {
                let offset = reader.offset();
                match reader.read()? {
                    ReadOutcome::Record => {}
                    ReadOutcome::Nothing | ReadOutcome::Broken => {
                        return Err(reader.damage("is damaged"));
                    }
                }
                let record = reader.record()?;
                if let Content::Trim(_) = record.content {
                    continue;
                }
                // A closed segment is opened without marks: each page of a reader would start at its beginning.
                if offset >= marked + segment::MARK_BYTES {
                    segment.state.lock().mark(record.version, offset);
                    marked = offset;
                }
                if record.version > upto {
                    return Ok(());
                }
                if record.version > after && !visit(&record)? {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// The last version committed at or before `time_ms`, if the log reaches that far back.
    pub fn version_at(&self, time_ms: u64, upto: Version) -> Result<Option<Version>, StorageError> {
        let (mut found, mut first) = (None, None);
        for segment in self.segments.read().values() {
            let state = segment.state.lock();
            if state.last == 0 {
                continue;
            }
            if state.last_ms <= time_ms {
                found = Some(state.last.min(upto));
            } else if state.first_ms <= time_ms {
                first = Some(state.first);
                break;
            } else {
                break;
            }
        }
        let Some(first) = first else { return Ok(found) };
        self.each_record(None, first - 1, upto, false, &mut |record| {
            let is_before = record.time_ms <= time_ms;
            if is_before {
                found = Some(record.version);
            }
            Ok(is_before)
        })?;
        Ok(found)
    }

    /// Sizes and counts, of the change stream up to `upto`.
    pub fn statistics(&self, upto: Version) -> Result<LogStatistics, StorageError> {
        let mut statistics = LogStatistics {
            syncs: self.syncs.load(Ordering::Relaxed),
            dropped_bytes: self.dropped_bytes,
            ..LogStatistics::default()
        };
        let trimmed = self.trimmed();
        let mut partly = None;
        for segment in self.segments.read().values() {
            let state = segment.state.lock();
            statistics.segments += 1;
            let path = segment::path(&self.folder, segment.number);
            statistics.stored_bytes += segment
                .file
                .stored_bytes()
                .map_err(|error| io_error("reading", &path, &error))?;
            if state.first > trimmed {
                statistics.stream_entries += state.stream_entries;
            } else if state.last > trimmed {
                partly = Some(state.last);
            }
        }
        if let Some(last) = partly {
            self.each_record(None, trimmed, last.min(upto), true, &mut |record| {
                statistics.stream_entries += u64::from(!record.stream.is_empty());
                Ok(true)
            })?;
        }
        Ok(statistics)
    }

    /// Reads all records; `progress` is called with the bytes read.
    pub fn verify(
        &self,
        pinned: &Pinned,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Verified, StorageError> {
        let mut verified = Verified {
            whole_from: 1,
            ..Verified::default()
        };
        for (segment, state) in &pinned.0 {
            let mut reader = Reader::new(
                segment.clone(),
                &self.folder,
                &self.options.seal,
                FIRST_RECORD,
            );
            let mut before = FIRST_RECORD;
            while reader.offset() < state.end {
                match reader.read()? {
                    ReadOutcome::Record => {}
                    ReadOutcome::Nothing | ReadOutcome::Broken => {
                        verified
                            .damage
                            .push(reader.damage("is damaged").to_string());
                        break;
                    }
                }
                match reader.record() {
                    Ok(record) => verified.note(&record),
                    Err(error) => {
                        verified.damage.push(error.to_string());
                        break;
                    }
                }
                progress(reader.offset() - before);
                before = reader.offset();
            }
        }
        Ok(verified)
    }

    /// Copies the records up to and including `upto`, which is durable, into the folder `target`. Returns the
    /// chain of the copy.
    pub fn copy_to(&self, target: &Path, upto: Version) -> Result<Links, StorageError> {
        let mut links = Links::new();
        let disk = &self.options.disk;
        let segments: Vec<(Arc<Segment>, Extent)> = self
            .segments
            .read()
            .values()
            .map(|segment| (segment.clone(), segment.state.lock().clone()))
            .collect();
        for (segment, state) in segments {
            // A segment without commits is copied as well: a log must not have gaps.
            if state.first > upto {
                break;
            }
            // The copy ends after the last record up to `upto`.
            let mut closing = Closing {
                end: state.end,
                first: state.first,
                last: state.last,
                first_ms: state.first_ms,
                last_ms: state.last_ms,
                stream_entries: state.stream_entries,
                trimmed: self.trimmed(),
                durable: upto.min(self.durable()),
            };
            if state.last > upto {
                let mut reader = Reader::new(
                    segment.clone(),
                    &self.folder,
                    &self.options.seal,
                    FIRST_RECORD,
                );
                closing = Closing {
                    end: FIRST_RECORD,
                    last: 0,
                    last_ms: 0,
                    stream_entries: 0,
                    ..closing
                };
                while reader.offset() < state.end {
                    match reader.read()? {
                        ReadOutcome::Record => {}
                        ReadOutcome::Nothing | ReadOutcome::Broken => {
                            return Err(reader.damage("is damaged"));
                        }
                    }
                    let record = reader.record()?;
                    if record.version > upto {
                        break;
                    }
                    closing.end = reader.offset();
                    if !matches!(record.content, Content::Trim(_)) {
                        (closing.last, closing.last_ms) = (record.version, record.time_ms);
                        closing.stream_entries += u64::from(!record.stream.is_empty());
                    }
                }
            }
            let path = segment::path(target, segment.number);
            let copied = (|| {
                let file = disk.open(&path, OpenMode::Create)?;
                let head = SegmentHead {
                    number: segment.number,
                    salt: segment.salt,
                    capacity: closing.end,
                };
                segment::write_head(&*file, head)?;
                let mut bytes = vec![0; 1 << 20];
                let mut at = FIRST_RECORD;
                while at < closing.end {
                    let part = (closing.end - at).min(bytes.len() as u64) as usize;
                    segment.file.read_exact_at(&mut bytes[..part], at)?;
                    file.write_all_at(&bytes[..part], at)?;
                    at += part as u64;
                }
                segment::write_closing(&*file, segment.salt, closing)?;
                file.sync()
            })();
            copied.map_err(|error| io_error("writing", &path, &error))?;
            let link = Link {
                salt: segment.salt,
                ended: Some(closing.into()),
            };
            links.insert(segment.number, link);
        }
        disk.sync_folder(target)
            .map_err(|error| io_error("writing", target, &error))?;
        Ok(links)
    }
}

/// Whether no record begins at a position.
fn begins_nothing(segment: &Segment, position: RecordPosition) -> bool {
    let mut head = [0; record::HEAD_BYTES];
    match segment.file.read_exact_at(&mut head, position.offset) {
        Ok(()) => record::head(&head, position) == record::Head::None,
        Err(error) => error.kind() == io::ErrorKind::UnexpectedEof,
    }
}
