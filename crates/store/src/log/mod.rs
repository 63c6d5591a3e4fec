//! The log: what was committed, in order, before it is anywhere else. It is the change stream, too.
//!
//! Records go into segments (see [`segment`], [`record`]). A group of commits is one write, and one sync where one was
//! asked for. A segment that the memtables and the change stream need no more is used again under a new number.
//!
//! What opening makes of damage: commits have consecutive versions, and each record tells which version was durable when
//! it was written; behind the last one of a synced group a receipt does. Where the next version is missing, what follows
//! cannot be used. If anything behind the gap says that the missing version was durable, the log is damaged and refused;
//! else the power went while the tail was written, and the tail is dropped.
//!
//! What is in tables is no longer missed where it is damaged, but for the change stream. So a segment that has entries of
//! it is closed before tables make up for it: from then on all of it must be there.
//!
//! What follows is what keeps a loss of power from passing for damage, in whatever order the disk kept what was written:
//!
//! - A record or a receipt says that a version is durable only after it was synced here, or is in tables that the manifest
//!   names durably.
//! - A segment gets its closing part only when it was synced, and every commit in segments before it was synced, too, or is
//!   in such tables. So syncs and closing parts go upwards: while the database is open, when it is closed, and when it is
//!   opened, which syncs everything that it kept before it closes the first one (a process that was killed leaves much in
//!   the operating system's memory, and the power may go meanwhile).
//! - Numbers are made upwards and removed downwards at the end, so that none is missing in between: what is before a missing
//!   number was to go. An empty segment is not removed where the next one would not get its number. Up to [`SPARES`] empty
//!   segments stand behind the current one; where the first is too small, a new file takes its name in one step.
//! - What is forgotten of the change stream is never ahead of the commits that are there: a note counts only behind the
//!   commit that it follows, a closing part tells no more than what is durable.
//! - Segments go only when what stays tells, durably, that their part of the change stream is forgotten: nobody must take a
//!   stream that begins in the middle for a whole one.

mod cut;
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
use isomer_vfs::{Disk, Open, Seal};

pub use self::{
    cut::{Cut, cut},
    record::{Change, Content, Record, Write},
    recover::{Flushed, Replayed},
    segment::departs,
};
use self::{
    reader::{Found, Reader},
    record::Spot,
    segment::{Closing, Extent, FIRST_RECORD, Segment, SegmentHead},
};
use crate::{
    Random,
    mutants::{Mutant, broken},
};

/// How the log keeps its files.
#[derive(Clone)]
pub struct LogOptions {
    /// Where they are.
    pub disk: Arc<dyn Disk>,
    /// What encrypts records.
    pub seal: Seal,
    /// Bytes of a segment; a larger group gets a larger one.
    pub segment_bytes: u64,
    /// Where salts come from.
    pub random: Random,
    /// Whether nothing may be written.
    pub read_only: bool,
}

/// The log. One thread commits ([`Log::append`], [`Log::sync`], [`Log::rotate`]), others read and tidy up; who tidies up may
/// write a note between two groups of commits.
pub struct Log {
    folder: PathBuf,
    options: LogOptions,
    segments: RwLock<BTreeMap<u64, Arc<Segment>>>,
    writer: Mutex<Writer>,
    spares: Mutex<Spares>,
    /// Told when a spare segment was made, or could not be.
    spare_made: Condvar,
    lacks_spare: AtomicBool,
    /// One that is needed no more, kept for the next one.
    reusable: Mutex<Option<Arc<Segment>>>,
    /// Number of the segment that was written to last, or is.
    current: AtomicU64,
    trimmed: AtomicU64,
    told: Mutex<Told>,
    durable: AtomicU64,
    syncs: AtomicU64,
    dropped_bytes: u64,
}

/// What the log tells, durably, of what is forgotten of the change stream.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    /// The segment that tells.
    segment: u64,
    /// It is forgotten up to here.
    trimmed: Version,
}

struct Writer {
    /// What is written to, where anything was written since opening.
    active: Option<Arc<Segment>>,
    buffer: Vec<u8>,
    /// Where the records of the last group begin.
    starts: Vec<u64>,
    /// Segments that hold what was not synced.
    unsynced: Vec<Arc<Segment>>,
    /// What made it unknown what is in the log: nothing more is written.
    failed: Option<String>,
    last: Version,
    last_ms: u64,
}

/// So many segments are made ahead: the disk may take as long for one as a writer takes to fill another.
const SPARES: usize = 2;

/// Segments that were made ahead, with the numbers behind the current one.
#[derive(Default)]
struct Spares {
    ready: VecDeque<Arc<Segment>>,
    /// Numbers of those whose names may be gone.
    doubted: BTreeSet<u64>,
    /// Whether the one behind these is being made. No other is then.
    making: bool,
}

/// Ends the making of a spare, whether there is one now or not.
struct Making<'a>(&'a Log);

impl Drop for Making<'_> {
    fn drop(&mut self) {
        self.0.spares.lock().making = false;
        self.0.spare_made.notify_all();
    }
}

/// What of the log must stay.
#[derive(Clone, Copy, Debug, Default)]
pub struct Keep {
    /// The first segment that holds what is not in tables.
    pub needed_from: u64,
    /// Times of commits can be asked for from here on.
    pub versions_since_ms: Option<u64>,
    /// Older entries of the change stream may go, trimmed or not.
    pub stream_since_ms: Option<u64>,
    /// Entries of the change stream may go, trimmed or not, where the log has more bytes.
    pub stream_bytes: Option<u64>,
}

/// A failure while writing.
#[derive(Debug)]
pub enum Failure {
    /// Nothing of what was to be written is in the log.
    Refused(StorageError),
    /// Nobody knows what is in the log.
    Unknown(String),
}

/// Sizes.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogStatistics {
    /// Segments.
    pub segments: u64,
    /// Bytes that they take on the disk.
    pub stored_bytes: u64,
    /// Entries of the change stream that are not trimmed.
    pub stream_entries: u64,
    /// Syncs since opening.
    pub syncs: u64,
    /// Bytes of a torn tail that opening dropped.
    pub dropped_bytes: u64,
}

/// What of the log is there at one time. It stays as it is, and its files are not used again, while this is held.
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

/// What reading all records finds.
#[derive(Clone, Debug, Default)]
pub struct Verified {
    /// What is damaged.
    pub damage: Vec<String>,
    /// From this version on the log has every commit up to `last`.
    pub whole_from: Version,
    /// The last commit in it; 0 where there is none.
    pub last: Version,
    last_ms: u64,
}

impl Verified {
    fn note(&mut self, record: &Record<'_>) {
        let version = record.version;
        // A note may bear a later time than what comes behind it after opening with a clock that was set back.
        if let Content::Trim(_) = record.content {
            return;
        }
        if record.time_ms < self.last_ms {
            self.damage.push(format!(
                "the commit {version} in the log was written earlier than the one before it, says its time"
            ));
        }
        self.last_ms = record.time_ms;
        if version <= self.last {
            self.damage.push(format!(
                "the commit {version} comes behind the commit {} in the log",
                self.last
            ));
        }
        // What a loss of power left out is in tables, or the log would not have been opened.
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

    /// Notes that everything up to `version` is durable, in tables.
    pub fn note_durable(&self, version: Version) {
        self.durable.fetch_max(version, Ordering::AcqRel);
        self.writer.lock().unsynced.retain(|segment| {
            let state = segment.state.lock();
            !state.closed || state.last > version
        });
    }

    /// The change stream is forgotten up to here.
    pub fn trimmed(&self) -> Version {
        self.trimmed.load(Ordering::Acquire)
    }

    /// Writes a group of commits. `time_ms` never falls.
    pub fn append(&self, commits: &[Commit<'_>], time_ms: u64) -> Result<(), Failure> {
        let writes = commits.iter().map(|commit| Write::Commit(*commit));
        self.write(writes, time_ms).map(drop)
    }

    /// Writes that an ingestion takes place.
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

    /// Writes a group to the end of the log and answers the segment it is in.
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
        let time_ms = time_ms.max(writer.last_ms);
        let mut segment = match &writer.active {
            Some(segment) => segment.clone(),
            None => self.next_segment(writer, 0)?,
        };
        let durable = match broken(Mutant::DurableBeforeSync) {
            true => writer.last,
            false => self.durable(),
        };
        let mut end = segment.state.lock().end;
        loop {
            writer.buffer.clear();
            writer.starts.clear();
            for write in writes.clone() {
                let offset = end + writer.buffer.len() as u64;
                writer.starts.push(offset);
                let spot = Spot {
                    segment: segment.number,
                    salt: segment.salt,
                    offset,
                };
                record::encode(
                    &mut writer.buffer,
                    spot,
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
            // The checks know their place: what goes elsewhere is encoded again.
            segment = self.next_segment(writer, bytes)?;
            end = FIRST_RECORD;
        }
        if let Err(error) = segment.file.write_all_at(&writer.buffer, end) {
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
            // Only the first of a group gets an exact mark; the others are found from there.
            offset = end;
        }
        state.end = end + writer.buffer.len() as u64;
        drop(state);
        writer.last_ms = time_ms;
        if writer
            .unsynced
            .last()
            .is_none_or(|last| last.number != segment.number)
        {
            writer.unsynced.push(segment.clone());
        }
        if writer.buffer.capacity() > 4 << 20 {
            writer.buffer = Vec::new();
        }
        Ok(segment)
    }

    /// Makes sure that none of what was half written is a record: not now, and not after a loss of power.
    fn take_back(&self, segment: &Segment, starts: &[u64], error: &io::Error) -> Failure {
        let path = segment::path(&self.folder, segment.number);
        let zeros = [0; record::HEAD_BYTES];
        let undone = starts.iter().rev().try_for_each(|offset| {
            let spot = Spot {
                segment: segment.number,
                salt: segment.salt,
                offset: *offset,
            };
            match segment.file.write_all_at(&zeros, *offset) {
                // A full disk takes no zeros either; but then it has taken no record.
                Err(second)
                    if second.kind() == io::ErrorKind::StorageFull
                        && begins_nothing(segment, spot) =>
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
            "writing `{}` broke off ({error}), and what was written could not be taken back ({second})",
            path.display()
        ))
    }

    /// Makes everything durable that was written.
    pub fn sync(&self) -> Result<(), Failure> {
        let mut writer = self.writer.lock();
        let last = writer.unsynced.last().cloned();
        self.sync_writer(&mut writer)?;
        if let Some(segment) = last {
            self.write_receipt(&segment);
        }
        Ok(())
    }

    /// Notes behind the last record that all of it is durable, so that it is missed if it is damaged before anything is
    /// written behind it. The caller holds the writer.
    fn write_receipt(&self, segment: &Segment) {
        let spot = Spot {
            segment: segment.number,
            salt: segment.salt,
            offset: segment.state.lock().end,
        };
        let receipt = record::receipt(spot, self.durable());
        // What was committed is durable without it.
        let _ = segment.file.write_all_at(&receipt, spot.offset);
    }

    fn sync_writer(&self, writer: &mut Writer) -> Result<(), Failure> {
        for segment in &writer.unsynced {
            self.sync_segment(segment)?;
        }
        writer.unsynced.clear();
        self.durable.fetch_max(writer.last, Ordering::AcqRel);
        Ok(())
    }

    /// Ends the active segment, so that what comes next goes into another one; answers that one's number.
    pub fn rotate(&self) -> u64 {
        let mut writer = self.writer.lock();
        if let Some(segment) = writer.active.take() {
            segment.state.lock().closed = true;
        }
        self.current.load(Ordering::Acquire) + 1
    }

    /// The segment that comes next, with room for `bytes`.
    fn next_segment(&self, writer: &mut Writer, bytes: u64) -> Result<Arc<Segment>, Failure> {
        if let Some(segment) = writer.active.take() {
            segment.state.lock().closed = true;
        }
        let capacity = self
            .options
            .segment_bytes
            .max((FIRST_RECORD + bytes).next_multiple_of(4096));
        let mut spares = self.spares.lock();
        // What is made gets the number behind those that are ready: none is taken while it is made, but to be the current one.
        while spares.making
            && spares
                .ready
                .front()
                .is_none_or(|next| next.capacity < capacity)
        {
            self.spare_made.wait(&mut spares);
        }
        let number = self.current.load(Ordering::Acquire) + 1;
        let doubted = spares.doubted.remove(&number);
        let segment = match spares.ready.pop_front() {
            Some(segment) if segment.capacity >= capacity && !doubted => segment,
            // Too small for what comes, or perhaps without its name: another one is made. Where that fails its number is free
            // again, and those behind it must not be there.
            Some(segment) => {
                let behind: Vec<_> = spares.ready.drain(..).rev().collect();
                spares.doubted.clear();
                self.remove_segments(&behind).map_err(Failure::Refused)?;
                // Another file takes its name: this one, made longer under a name that it had already, could be found with
                // the length that it had, too.
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
        self.segments.write().insert(number, segment.clone());
        self.current.store(number, Ordering::Release);
        drop(spares);
        self.lacks_spare.store(true, Ordering::Relaxed);
        writer.active = Some(segment.clone());
        Ok(segment)
    }

    /// Makes a segment, out of an old one where one is given, durable under its name.
    fn make_segment(
        &self,
        number: u64,
        capacity: u64,
        old: Option<&Segment>,
    ) -> Result<Arc<Segment>, StorageError> {
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
                    let file = disk.open(&new, Open::Create)?;
                    file.set_len(capacity)?;
                    file
                }
            };
            segment::write_head(&*file, head)?;
            file.sync()?;
            disk.rename(&new, &path)?;
            if !broken(Mutant::SegmentNameNotSynced) {
                disk.sync_folder(&self.folder)?;
            }
            Ok(file)
        })();
        match made {
            Ok(file) => {
                let state = Extent {
                    end: FIRST_RECORD,
                    ..Extent::default()
                };
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
                // Left behind, they would only take space.
                drop(disk.remove(&new));
                drop(disk.remove(&path));
                Err(io_error("making", &path, &error))
            }
        }
    }

    /// Makes durable what of the segments that are full belongs to commits up to `upto` and may not be lost once these are
    /// in tables: entries of the change stream, and what is before them, as they are going to be closed. Writers go on
    /// meanwhile.
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
            if broken(Mutant::ClosedAheadOfEarlier) && !streams(segment) {
                continue;
            }
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

    /// Syncs the file of a segment. One call at a time, and none after one that failed: the operating system tells of an error
    /// once, and then takes for clean what never reached the disk, so whoever came second would take it for durable.
    fn sync_file(&self, segment: &Segment) -> Result<(), Failure> {
        let mut failed = segment.failed_sync.lock();
        if let Some(what) = &*failed {
            return Err(Failure::Unknown(what.clone()));
        }
        if broken(Mutant::LogNotSynced) {
            return Ok(());
        }
        let mut outcome = segment.file.sync();
        if broken(Mutant::FailedSyncRepeated) {
            outcome = outcome.or_else(|_| segment.file.sync());
        }
        outcome.map_err(|error| {
            let path = segment::path(&self.folder, segment.number);
            let what = format!("a sync of `{}` failed ({error})", path.display());
            *failed = Some(what.clone());
            Failure::Unknown(what)
        })
    }

    /// Whether the segment that comes next is still to be made. Says so once for each segment that is begun: where making
    /// them fails, it is tried again with the next one.
    pub fn lacks_spare(&self) -> bool {
        self.lacks_spare.load(Ordering::Relaxed) && self.lacks_spare.swap(false, Ordering::Relaxed)
    }

    /// Makes the segments that come next ahead, out of one that is needed no more where there is one. Not on the writer's
    /// thread, which waits only where it has none left.
    pub fn prepare(&self) -> Result<(), StorageError> {
        if self.options.read_only {
            return Ok(());
        }
        loop {
            let number = {
                let mut spares = self.spares.lock();
                // Behind one whose name is perhaps gone none is made: its number would be missing. It is made anew when it is taken.
                if spares.making || spares.ready.len() >= SPARES || !spares.doubted.is_empty() {
                    self.lacks_spare.store(false, Ordering::Relaxed);
                    return Ok(());
                }
                spares.making = true;
                // A writer that takes one makes the current number higher, and these fewer.
                self.current.load(Ordering::Acquire) + 1 + spares.ready.len() as u64
            };
            let making = Making(self);
            let reused = self.take_reusable();
            let made = self.make_segment(number, self.options.segment_bytes, reused.as_deref());
            self.spares.lock().ready.push_back(made?);
            drop(making);
        }
    }

    /// Gives the room of segments made ahead back. Those that come in their place are made anew, and take none.
    pub fn shrink(&self) -> Result<(), StorageError> {
        let mut spares = self.spares.lock();
        while spares.making {
            self.spare_made.wait(&mut spares);
        }
        let had = !spares.ready.is_empty();
        let (renamed, failed) = self.rename_unused(&mut spares);
        drop(spares);
        // Giving the room of a large file back takes its time: nobody who waits for a segment waits for that.
        self.remove_files(&renamed)?;
        failed.map_or(Ok(()), Err)?;
        if had { self.prepare() } else { Ok(()) }
    }

    /// Takes the segments made ahead out of the log, and their names from them: whoever writes may give these to others.
    /// From the last one on, so that no number is missing in between. Answers what is to be removed, and
    /// why there is no more of it.
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
                    // It stands where it stood, or its name is gone all the same: it keeps its number, and is made anew before
                    // anything is written to it.
                    spares.doubted.insert(segment.number);
                    spares.ready.push_back(segment);
                    failed = Some(io_error("renaming", &path, &error));
                    break;
                }
            }
            next = spares.ready.pop_back();
        }
        // Its number is an old one: nobody gives it to another.
        renamed.extend(
            self.reusable
                .lock()
                .take()
                .map(|old| segment::path(&self.folder, old.number)),
        );
        (renamed, failed)
    }

    /// A segment that is not of the log any more, to be used again.
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

    /// Whether a segment that is not of the log any more may be used again: nobody reads it, and nobody has linked its file
    /// into a copy of the database.
    fn is_reusable(&self, segment: &Arc<Segment>) -> bool {
        segment.capacity == self.options.segment_bytes
            && Arc::strong_count(segment) == 1
            && segment.file.name_count().is_ok_and(|names| names == 1)
            && segment.file.len().is_ok_and(|len| len == segment.capacity)
    }

    /// Lets go of segments that are needed no more, but for one that is used again, and closes what is full. Not on the
    /// writer's thread.
    pub fn tidy(&self, keep: Keep) -> Result<(), Failure> {
        if self.options.read_only {
            return Ok(());
        }
        self.forget_old_entries(keep);
        // What is closed now tells of that.
        self.close_full()?;
        let Some(behind) = self.end_of_old(keep)? else {
            return Ok(());
        };
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

    /// The number behind the segments that nobody needs, once those that stay tell what is forgotten with them.
    fn end_of_old(&self, keep: Keep) -> Result<Option<u64>, Failure> {
        let trimmed = self.trimmed();
        let mut told = *self.told.lock();
        let (mut behind, mut behind_told) = (None, None);
        let mut is_told = true;
        {
            let segments = self.segments.read();
            let current = self.current.load(Ordering::Acquire);
            let mut rest = segments.iter();
            while let Some((&number, segment)) = rest.next() {
                // Its last version is the one of every time up to the next segment's first.
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
                // The one that tells takes that with it.
                is_told &= number < told.segment && !(streams && state.last > told.trimmed);
                behind = Some(number + 1);
                if is_told {
                    behind_told = behind;
                }
            }
        }
        if behind.is_some() && trimmed > 0 && !is_told && !broken(Mutant::TrimNotDurable) {
            told = match self.tell_trimmed(trimmed) {
                // On a full disk what is told already makes room; the rest goes another time.
                Err(Failure::Refused(_)) => return Ok(behind_told),
                told => told?,
            };
            let mut known = self.told.lock();
            if known.segment <= told.segment {
                *known = told;
            }
        }
        Ok(behind)
    }

    /// Notes at the end of the log what is forgotten of the change stream, durably. Writers go on meanwhile.
    fn tell_trimmed(&self, trimmed: Version) -> Result<Told, Failure> {
        let version = self.writer.lock().last;
        let note = Write::Trim {
            version,
            upto: trimmed,
        };
        let segment = self.write(std::iter::once(note), 0)?;
        self.settle_note(&segment, trimmed)
    }

    /// Makes the note at the end of `segment` durable, whatever was written or synced since.
    fn settle_note(&self, segment: &Segment, trimmed: Version) -> Result<Told, Failure> {
        // A note counts only where the commits before it are there.
        let mut unsynced = self.writer.lock().unsynced.clone();
        unsynced.retain(|before| before.number < segment.number);
        for before in &unsynced {
            self.sync_segment(before)?;
        }
        self.sync_segment(segment)?;
        Ok(Told {
            segment: segment.number,
            trimmed,
        })
    }

    /// Forgets entries of the change stream that are too old, or too many, by whole segments.
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

    /// Writes the closing parts of segments that are full and durable, and have nothing before them that may be lost: what
    /// is missing before a closed segment is missed.
    pub fn close_full(&self) -> Result<(), Failure> {
        let mut full = Vec::new();
        for segment in self.segments.read().values() {
            let state = segment.state.lock();
            let is_synced = state.synced_end == state.end;
            // Up to the last durable version everything is synced or in tables.
            if !state.closing_written && !is_synced && state.last > self.durable() {
                if broken(Mutant::ClosedAheadOfEarlier) {
                    continue;
                }
                break;
            }
            if state.closed && !state.closing_written && is_synced {
                full.push(segment.clone());
            }
        }
        full.iter()
            .try_for_each(|segment| self.write_closing(segment))
    }

    /// Writes a closing part, and makes it durable: only what is known to be closed is known to be damaged. After a failure
    /// nobody knows whether there is one.
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
                // What comes in the place of a commit that is lost must not be forgotten with it.
                trimmed: self.trimmed().min(durable),
                durable,
            }
        };
        let path = segment::path(&self.folder, segment.number);
        segment::write_closing(&*segment.file, segment.salt, closing)
            .map_err(|error| Failure::Refused(io_error("writing", &path, &error)))?;
        if !broken(Mutant::ClosingNotSynced) {
            self.sync_file(segment)?;
        }
        segment.state.lock().closing_written = true;
        let mut told = self.told.lock();
        if told.segment <= segment.number {
            // Notes in it are not looked at any more.
            *told = Told {
                segment: segment.number,
                trimmed: closing.trimmed,
            };
        }
        Ok(())
    }

    /// Makes everything durable, says where the log ends, and gives the unused rest of it back. Nothing is written later.
    pub fn close(&self) -> Result<(), StorageError> {
        if self.options.read_only {
            return Ok(());
        }
        let mut writer = self.writer.lock();
        let told = |failure| match failure {
            Failure::Refused(error) => error,
            Failure::Unknown(what) => StorageError::Unavailable(what),
        };
        self.sync_writer(&mut writer).map_err(told)?;
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
                self.sync_file(segment).map_err(told)?;
            }
            self.write_closing(segment).map_err(told)?;
            let end = segment.state.lock().end;
            segment.file.set_len(end).map_err(error)?;
        }
        let (renamed, failed) = self.rename_unused(&mut self.spares.lock());
        self.remove_files(&renamed)?;
        failed.map_or(Ok(()), Err)
    }

    /// Forgets the change stream up to `upto`, and writes that down.
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

    /// Entries of the change stream behind `after` and up to `upto`, which was committed before this was called.
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

    /// Calls `visit` with the commits behind `after` and up to `upto` that are pinned, in order, until it says no.
    pub fn each_commit(
        &self,
        pinned: &Pinned,
        after: Version,
        upto: Version,
        visit: &mut dyn FnMut(&Record<'_>) -> Result<bool, StorageError>,
    ) -> Result<(), StorageError> {
        self.each_record(Some(pinned), after, upto, false, visit)
    }

    /// What is there now.
    pub fn pin(&self) -> Pinned {
        let segments = self.segments.read();
        let noted = segments
            .values()
            .map(|segment| (segment.clone(), segment.state.lock().clone()));
        Pinned(noted.collect())
    }

    /// The same, of what is there now where nothing is pinned; segments without entries of the change stream are left out
    /// if `streams_only`.
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
                    Found::Record => {}
                    Found::Nothing | Found::Broken => return Err(reader.damage("is damaged")),
                }
                let record = reader.record()?;
                if let Content::Trim(_) = record.content {
                    continue;
                }
                // A closed segment is opened without marks: whoever reads it page by page would begin each at its start.
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

    /// The last version committed at or before `time_ms`, if the log reaches so far back.
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

    /// Reads all records; `progress` is told the bytes read.
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
                    Found::Record => {}
                    Found::Nothing | Found::Broken => {
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

    /// Copies the records up to and including `upto`, which is durable, into the folder `target`.
    pub fn copy_to(&self, target: &Path, upto: Version) -> Result<(), StorageError> {
        let disk = &self.options.disk;
        let segments: Vec<(Arc<Segment>, Extent)> = self
            .segments
            .read()
            .values()
            .map(|segment| (segment.clone(), segment.state.lock().clone()))
            .collect();
        for (segment, state) in segments {
            // One without commits is copied, too: a log has no gaps.
            if state.first > upto {
                break;
            }
            // The end is that of the last record in question.
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
                        Found::Record => {}
                        Found::Nothing | Found::Broken => return Err(reader.damage("is damaged")),
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
                let file = disk.open(&path, Open::Create)?;
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
        }
        disk.sync_folder(target)
            .map_err(|error| io_error("writing", target, &error))
    }
}

/// Whether no record begins at a spot.
fn begins_nothing(segment: &Segment, spot: Spot) -> bool {
    let mut head = [0; record::HEAD_BYTES];
    match segment.file.read_exact_at(&mut head, spot.offset) {
        Ok(()) => record::head(&head, spot) == record::Head::None,
        Err(error) => error.kind() == io::ErrorKind::UnexpectedEof,
    }
}
