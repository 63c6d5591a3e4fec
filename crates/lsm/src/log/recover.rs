//! Recovery of a log: commits are replayed, a torn tail is dropped, damage is refused.
//!
//! Each segment that the manifest names must exist as it is named (see [`chain`](super::chain)). A segment that
//! it does not name is empty, or older than those that it names and in tables: it is removed after everything
//! else was found to be correct. One with other commits is refused, whatever its name. A manifest of format 1
//! does not name segments; then only the numbers and the contents of the segments are checked.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64},
    },
};

use isomer_storage::sync::{Condvar, Mutex, RwLock};
use isomer_storage::{StorageError, Version, damaged, io_error};
use isomer_vfs::OpenMode;

use super::{
    Ended, Link, Links, Log, LogOptions, Writer,
    reader::{ReadOutcome, Reader, SearchOutcome},
    record::{Content, Writes},
    segment::{self, Closing, Extent, FIRST_RECORD, Part, Segment},
};

/// The state of the tables, for recovering the log.
#[derive(Clone, Debug, Default)]
pub struct Flushed {
    /// Everything up to this version is in tables.
    pub version: Version,
    /// The first segment that may hold a later one.
    pub needed_from: u64,
    /// The last ingestion that the manifest contains.
    pub ingested: Option<Version>,
    /// The segments that the manifest names; `None` if its format does not name them.
    pub links: Option<Links>,
}

/// A commit that only the log has.
pub struct Replayed<'a> {
    /// Its version.
    pub version: Version,
    /// Its writes.
    pub writes: Writes<'a>,
}

impl Log {
    /// Opens the log in `folder`, which exists; calls `apply` with each commit that is not in tables. Returns
    /// the last version as well.
    pub fn open(
        folder: &Path,
        options: LogOptions,
        flushed: &Flushed,
        apply: &mut dyn FnMut(Replayed<'_>) -> Result<(), StorageError>,
    ) -> Result<(Self, Version), StorageError> {
        let database = folder.parent().unwrap_or(folder).to_owned();
        let mut recovery = Recovery {
            folder: folder.to_owned(),
            database,
            options,
            segments: BTreeMap::new(),
            last: flushed.version,
            last_ms: 0,
            trimmed: 0,
            dropped_bytes: 0,
            gap: false,
            closings: BTreeMap::new(),
            used: BTreeSet::new(),
            leftovers: Vec::new(),
        };
        if let Some(links) = &flushed.links {
            recovery.options.chain.load(links.clone());
        }
        recovery.list(flushed)?;
        recovery.replay(flushed, apply)?;
        recovery.forget_remnants();
        // Notes beyond that refer to commits that were lost and whose versions will be reused.
        recovery.trimmed = recovery.trimmed.min(recovery.last);
        recovery.finish(flushed.needed_from)?;
        let Recovery {
            folder,
            options,
            segments,
            last,
            last_ms,
            trimmed,
            dropped_bytes,
            ..
        } = recovery;
        let next_number = segments
            .last_key_value()
            .map_or(1, |(number, _)| number + 1)
            .max(flushed.needed_from);
        let writer = Writer {
            active: None,
            buffer: Vec::new(),
            starts: Vec::new(),
            unsynced: Vec::new(),
            failed: None,
            last,
            last_ms,
        };
        let log = Self {
            folder,
            options,
            segments: RwLock::new(segments),
            writer: Mutex::new(writer),
            spares: Mutex::default(),
            spare_made: Condvar::new(),
            lacks_spare: AtomicBool::new(true),
            reusable: Mutex::default(),
            current: AtomicU64::new(next_number - 1),
            trimmed: AtomicU64::new(trimmed),
            recorded: Mutex::default(),
            durable: AtomicU64::new(last),
            syncs: AtomicU64::new(0),
            dropped_bytes,
        };
        Ok((log, last))
    }
}

struct Recovery {
    folder: PathBuf,
    database: PathBuf,
    options: LogOptions,
    segments: BTreeMap<u64, Arc<Segment>>,
    last: Version,
    last_ms: u64,
    trimmed: Version,
    dropped_bytes: u64,
    /// Whether a version was missing; what follows is only checked.
    gap: bool,
    /// The closing parts of the segments that have one.
    closings: BTreeMap<u64, Closing>,
    /// Segments with the beginning of a record, kept or not.
    used: BTreeSet<u64>,
    /// Files left behind by an interrupted creation or removal of segments.
    leftovers: Vec<PathBuf>,
}

impl Recovery {
    /// Opens the segments, compares them with those that the manifest names, and collects the files to remove.
    fn list(&mut self, flushed: &Flushed) -> Result<(), StorageError> {
        let disk = self.options.disk.clone();
        let names = disk
            .list(&self.folder)
            .map_err(|error| io_error("reading", &self.folder, &error))?;
        // Segments that the manifest no longer names are older.
        let named = flushed.links.iter().flat_map(Links::keys).min();
        let first = named.copied().unwrap_or(flushed.needed_from);
        for name in names {
            let path = self.folder.join(&name);
            let Some(number) = segment::number_of(&name) else {
                let left = |ending: &OsStr| ending == "new" || ending == segment::OLD;
                if name.extension().is_some_and(left) {
                    self.leave_out(path, flushed)?;
                }
                continue;
            };
            let link = flushed.links.as_ref().map(|links| links.get(&number));
            if link == Some(None) && number < first {
                self.leave_out(path, flushed)?;
                continue;
            }
            let how = if self.options.read_only {
                OpenMode::Read
            } else {
                OpenMode::Write
            };
            let file = disk
                .open(&path, how)
                .map_err(|error| io_error("opening", &path, &error))?;
            let read = |error: io::Error| io_error("reading", &path, &error);
            let head = match segment::read_head(&*file).map_err(read)? {
                Part::Valid(head) if matches!(link, Some(Some(link)) if link.salt != head.salt) => {
                    return Err(self.wrong(
                        number,
                        "is not the one that the manifest names: it comes from another copy, or from another time",
                    ));
                }
                Part::Valid(head) if head.number != number => {
                    self.leave_out(path, flushed)?;
                    continue;
                }
                Part::Valid(head) => head,
                Part::Newer(format) => {
                    return Err(StorageError::Corrupt(format!(
                        "the log segment `{}` was written in format {format}, this program reads an older one: use a newer program",
                        path.display()
                    )));
                }
                Part::Absent | Part::Damaged => {
                    return Err(self.damage(number, "has no valid header"));
                }
            };
            let len = file.len().map_err(read)?;
            let mut state = Extent {
                end: FIRST_RECORD,
                closed: true,
                ..Extent::default()
            };
            match segment::read_closing(&*file, head.salt).map_err(read)? {
                Part::Valid(closing) => {
                    if len < closing.end {
                        return Err(
                            self.damage(number, &format!("ends at {len} of {} bytes", closing.end))
                        );
                    }
                    (state.end, state.closing_written) = (closing.end, true);
                    self.closings.insert(number, closing);
                    (state.first, state.last) = (closing.first, closing.last);
                    (state.first_ms, state.last_ms) = (closing.first_ms, closing.last_ms);
                    state.stream_entries = closing.stream_entries;
                    self.trimmed = self.trimmed.max(closing.trimmed);
                }
                Part::Absent if len < head.capacity => {
                    return Err(
                        self.damage(number, &format!("ends at {len} of {} bytes", head.capacity))
                    );
                }
                Part::Absent => {}
                // Half written when the power was lost, or damaged later: the records decide, as if there was
                // no closing part. Only the closing part detects that a file was cut after it.
                Part::Damaged if len >= head.capacity => {}
                Part::Newer(_) | Part::Damaged => {
                    return Err(self.damage(number, "has a damaged closing part"));
                }
            }
            if let Some(Some(link)) = link {
                self.compare(number, *link, &state)?;
            }
            let (capacity, state) = (head.capacity.max(state.end), Mutex::new(state));
            let segment = Arc::new(Segment {
                number,
                salt: head.salt,
                capacity,
                file,
                state,
                failed_sync: Mutex::new(None),
            });
            if link == Some(None) {
                self.refuse_later(&segment, &path, 0)?;
                self.leftovers.push(path);
                continue;
            }
            self.segments.insert(number, segment);
        }
        let mut links = flushed.links.iter().flatten();
        if let Some((number, _)) = links.find(|(number, _)| !self.segments.contains_key(number)) {
            return Err(self.wrong(*number, "is missing"));
        }
        self.check_numbers(flushed)
    }

    /// Refuses a gap in the numbers of the segments that are needed.
    fn check_numbers(&self, flushed: &Flushed) -> Result<(), StorageError> {
        let needed: Vec<u64> = self
            .segments
            .range(flushed.needed_from..)
            .map(|(number, _)| *number)
            .collect();
        let missing = (flushed.needed_from.max(1)..)
            .zip(&needed)
            .find(|(expected, number)| expected != *number);
        match missing {
            Some((expected, _)) => Err(self.damage(expected, "is missing")),
            None => Ok(()),
        }
    }

    /// Refuses a segment that does not end as the manifest says.
    fn compare(&self, number: u64, link: Link, state: &Extent) -> Result<(), StorageError> {
        let Some(ended) = link.ended else {
            return Ok(());
        };
        let found = (state.end, state.first, state.last);
        if state.closing_written && found == (ended.end, ended.first, ended.last) {
            return Ok(());
        }
        Err(self.wrong(
            number,
            &format!(
                "does not end with the commit {}, as the manifest says: it is older, or was copied while it was written",
                ended.last
            ),
        ))
    }

    /// Leaves a file out that an interrupted creation, reuse or removal of segments has left behind: it is
    /// removed at the end. Refuses one that holds commits which such a file cannot hold: it was renamed.
    fn leave_out(&mut self, path: PathBuf, flushed: &Flushed) -> Result<(), StorageError> {
        let disk = &self.options.disk;
        let file = disk
            .open(&path, OpenMode::Read)
            .map_err(|error| io_error("opening", &path, &error))?;
        let read = |error: io::Error| io_error("reading", &path, &error);
        // A new file has no header yet, and a loss of power may have torn the header of a reused one.
        if let Part::Valid(head) = segment::read_head(&*file).map_err(read)? {
            let mut state = Extent {
                end: FIRST_RECORD,
                ..Extent::default()
            };
            if let Part::Valid(closing) = segment::read_closing(&*file, head.salt).map_err(read)? {
                (state.end, state.last) = (closing.end, closing.last);
                state.closing_written = true;
            }
            let segment = Arc::new(Segment {
                number: head.number,
                salt: head.salt,
                capacity: head.capacity.max(state.end),
                file,
                state: Mutex::new(state),
                failed_sync: Mutex::new(None),
            });
            self.refuse_later(&segment, &path, last_left(&path, head.number, flushed))?;
        }
        self.leftovers.push(path);
        Ok(())
    }

    /// Refuses a segment that the manifest does not name and that has a record of a commit after `last`.
    fn refuse_later(
        &self,
        segment: &Arc<Segment>,
        path: &Path,
        last: Version,
    ) -> Result<(), StorageError> {
        if !self.has_later(segment, last)? {
            return Ok(());
        }
        let is_renamed = segment::number_of_path(path) != Some(segment.number);
        let what = match is_renamed {
            true => format!(
                "is the segment {:016x} under another name, and holds commits",
                segment.number
            ),
            false => "holds commits, and the manifest does not name it: the manifest is older than the log, or the segment comes from another copy".to_owned(),
        };
        Err(self.wrong_file(path, &what))
    }

    /// Whether a segment has a record of a commit after `last`; any record counts if `last` is 0.
    fn has_later(&self, segment: &Arc<Segment>, last: Version) -> Result<bool, StorageError> {
        let state = segment.state.lock().clone();
        if state.closing_written {
            return Ok(match last {
                0 => state.end > FIRST_RECORD,
                last => state.last > last,
            });
        }
        let seal = &self.options.seal;
        let mut reader = Reader::new(segment.clone(), &self.folder, seal, FIRST_RECORD);
        loop {
            match reader.read()? {
                ReadOutcome::Record => {}
                // It may be encrypted with another key. Nothing is written to a segment that is not named.
                ReadOutcome::Broken if last == 0 => return Ok(true),
                // Damage may hide some records, but not those after it.
                ReadOutcome::Broken | ReadOutcome::Nothing => match reader.search()? {
                    SearchOutcome::Record => {}
                    SearchOutcome::Nothing => return Ok(false),
                    SearchOutcome::Receipt(durable) => return Ok(durable > last),
                },
            }
            if reader.record().map_or(true, |record| record.version > last) {
                return Ok(true);
            }
        }
    }

    fn replay(
        &mut self,
        flushed: &Flushed,
        apply: &mut dyn FnMut(Replayed<'_>) -> Result<(), StorageError>,
    ) -> Result<(), StorageError> {
        let segments: Vec<Arc<Segment>> = self.segments.values().cloned().collect();
        let seal = self.options.seal.clone();
        let folder = self.folder.clone();
        // Whether the missing version is a bulk load that was announced but not completed.
        let mut withdrawn = false;
        for segment in segments {
            let (number, known) = (segment.number, segment.state.lock().clone());
            if known.closing_written
                && known.last <= flushed.version
                && number < flushed.needed_from
            {
                self.last_ms = self.last_ms.max(known.last_ms);
                continue;
            }
            let mut extent = Extent {
                closed: true,
                closing_written: known.closing_written,
                end: FIRST_RECORD,
                ..Extent::default()
            };
            let mut reader = Reader::new(segment.clone(), &folder, &seal, FIRST_RECORD);
            let mut hole = false;
            loop {
                let at = reader.offset();
                if known.closing_written && at >= known.end {
                    break;
                }
                let outcome = reader.read()?;
                // Also the beginning of a record: the manifest must go on naming the segment, because an opening after
                // a loss of power could not tell it from a foreign one.
                if !matches!(outcome, ReadOutcome::Nothing) {
                    self.used.insert(number);
                }
                match outcome {
                    ReadOutcome::Record => {}
                    // Everything in a closed segment was durable.
                    _ if known.closing_written => return Err(reader.damage("is damaged")),
                    ReadOutcome::Nothing | ReadOutcome::Broken => {
                        // A receipt at the end of intact records says nothing about later ones, nor does one
                        // after a bulk load that was not completed.
                        let lacks = hole || (self.gap && !withdrawn);
                        match behind(&mut reader, lacks)? {
                            SearchOutcome::Nothing => break,
                            // A record after a gap. It does not matter if all missing commits are in tables.
                            SearchOutcome::Record => {
                                self.used.insert(number);
                                hole = true;
                            }
                            SearchOutcome::Receipt(durable) => {
                                return Err(reader.damage(&format!(
                                    "lacks data that was on disk, as everything up to the commit {durable} was, before the receipt of a sync that ends"
                                )));
                            }
                        }
                    }
                }
                let record = reader.record()?;
                let missing = self.last + 1;
                if hole && record.version < missing {
                    continue;
                }
                // A note follows a commit, and is lost with it.
                let note_of_missing =
                    matches!(record.content, Content::Trim(_)) && record.version == missing;
                if self.gap || hole || record.version > missing || note_of_missing {
                    self.gap = true;
                    // A later record proves that the missing commit was durable: this is damage, not a torn
                    // tail.
                    if record.durable >= missing || known.closing_written {
                        let what = format!(
                            "lacks the commit {missing}, which was on disk; the next record begins"
                        );
                        return Err(reader.damage(&what));
                    }
                    self.dropped_bytes += reader.offset() - at;
                    continue;
                }
                match record.content {
                    Content::Trim(upto) => self.trimmed = self.trimmed.max(upto),
                    Content::Ingestion
                        if record.version == missing && flushed.ingested < Some(missing) =>
                    {
                        // It was announced but not completed: nothing can follow it.
                        (self.gap, withdrawn) = (true, true);
                        continue;
                    }
                    Content::Ingestion | Content::Commit(_) => {
                        extent.note(
                            record.version,
                            record.time_ms,
                            !record.stream.is_empty(),
                            at,
                        );
                        if let (Content::Commit(writes), true) =
                            (record.content, record.version == missing)
                        {
                            apply(Replayed {
                                version: record.version,
                                writes,
                            })?;
                        }
                        self.last = self.last.max(record.version);
                    }
                }
                self.last_ms = self.last_ms.max(record.time_ms);
                extent.end = reader.offset();
            }
            *segment.state.lock() = extent;
        }
        Ok(())
    }

    /// Segments are removed one by one: those before a missing number would be a part of the change stream with
    /// a gap after it, and were about to be removed as well.
    fn forget_remnants(&mut self) {
        let mut numbers = self.segments.keys().rev();
        let Some(mut first) = numbers.next().copied() else {
            return;
        };
        for number in numbers {
            if number + 1 != first {
                break;
            }
            first = *number;
        }
        for segment in self.segments.range(..first).map(|(_, segment)| segment) {
            self.trimmed = self.trimmed.max(segment.state.lock().last);
        }
    }

    /// Makes everything found durable, from the first segment on, and records where it ends, so that the next
    /// opening has the same result. Then removes empty segments at the end of the log, the last one first, as a
    /// log must not have gaps: the next segment has at least the number `needed_from`, so earlier ones stay
    /// even if a loss of power left nothing in them.
    fn finish(&mut self, needed_from: u64) -> Result<(), StorageError> {
        if self.options.read_only {
            return Ok(());
        }
        let mut empty = Vec::new();
        while let Some((number, segment)) = self.segments.last_key_value() {
            let (number, state) = (*number, segment.state.lock().clone());
            // A segment with records is closed even if they were lost: if the manifest did not name it, it
            // would be considered foreign, should it still exist after a loss of power.
            if state.closing_written || self.used.contains(&number) || number < needed_from {
                break;
            }
            self.segments.remove(&number);
            empty.push(segment::path(&self.folder, number));
        }
        let is_open = |segment: &&Arc<Segment>| !segment.state.lock().closing_written;
        let open: Vec<Arc<Segment>> = self.segments.values().filter(is_open).cloned().collect();
        let folder = self.folder.clone();
        let error = |segment: &Segment, error: io::Error| {
            let path = segment::path(&folder, segment.number);
            io_error("writing", &path, &error)
        };
        // The records may be in the operating system's memory only, if the process ended but not the machine.
        // If a sync has failed before, another one makes nothing durable: only rewriting does.
        for segment in &open {
            let end = segment.state.lock().end;
            write_again(segment, end)
                .and_then(|()| segment.file.sync())
                .map_err(|failed| error(segment, failed))?;
        }
        self.close_again()
            .map_err(|(number, failed)| error(&self.segments[&number], failed))?;
        // All of them are durable before one is closed: if the power was lost in between, the lost records
        // would count as damage.
        for segment in &open {
            self.close(segment)
                .map_err(|failed| error(segment, failed))?;
        }
        let sync = self.options.disk.sync_folder(&self.folder);
        sync.map_err(|error| io_error("writing", &self.folder, &error))?;
        // Named segments are durable; removed segments are no longer named.
        let link = |(number, segment): (&u64, &Arc<Segment>)| {
            let ended = self
                .closings
                .get(number)
                .map(|closing| Ended::from(*closing));
            let salt = segment.salt;
            (*number, Link { salt, ended })
        };
        let links = self.segments.iter().map(link).collect();
        self.options.chain.replace(links);
        self.options.chain.store()?;
        empty.append(&mut self.leftovers);
        if empty.is_empty() {
            return Ok(());
        }
        empty.iter().try_for_each(|path| self.remove(path))?;
        let sync = self.options.disk.sync_folder(&self.folder);
        sync.map_err(|error| io_error("writing", &self.folder, &error))
    }

    /// Records where a segment ends, durably.
    fn close(&mut self, segment: &Segment) -> io::Result<()> {
        let mut state = segment.state.lock();
        let closing = segment::Closing {
            end: state.end,
            first: state.first,
            last: state.last,
            first_ms: state.first_ms,
            last_ms: state.last_ms,
            stream_entries: state.stream_entries,
            trimmed: self.trimmed,
            durable: self.last,
        };
        segment::write_closing(&*segment.file, segment.salt, closing)?;
        segment.file.sync()?;
        state.closing_written = true;
        self.closings.insert(segment.number, closing);
        Ok(())
    }

    /// Rewrites, durably, the closing parts that the manifest does not know of: their sync may have failed, or
    /// may not have been reached.
    fn close_again(&self) -> Result<(), (u64, io::Error)> {
        let chain = self.options.chain.links();
        for (&number, &closing) in &self.closings {
            let known = chain.get(&number).and_then(|link| link.ended);
            let Some(segment) = self.segments.get(&number) else {
                continue;
            };
            if known != Some(closing.into()) {
                segment::write_closing(&*segment.file, segment.salt, closing)
                    .and_then(|()| segment.file.sync())
                    .map_err(|error| (number, error))?;
            }
        }
        Ok(())
    }

    fn remove(&self, path: &Path) -> Result<(), StorageError> {
        let removed = self.options.disk.remove(path);
        removed.map_err(|error| io_error("removing", path, &error))
    }

    /// The error for a segment that is not the one that the manifest names.
    fn wrong(&self, number: u64, what: &str) -> StorageError {
        self.wrong_file(&segment::path(&self.folder, number), what)
    }

    fn wrong_file(&self, path: &Path, what: &str) -> StorageError {
        StorageError::Corrupt(format!(
            "the database `{}` is inconsistent: its log segment `{}` {what}: put all files back as they were when the database was closed, or restore it from a backup",
            self.database.display(),
            path.display()
        ))
    }

    fn damage(&self, number: u64, what: &str) -> StorageError {
        let path = segment::path(&self.folder, number);
        damaged(
            &self.database,
            &format!("its log segment `{}` {what}", path.display()),
        )
    }
}

/// The last commit that a file left behind may hold, if the segment in it has this number; 0 for none. A segment
/// under its own name, or about to be reused under another one, was removed from the log once its commits were
/// in tables. One that has its new number already is empty.
fn last_left(path: &Path, number: u64, flushed: &Flushed) -> Version {
    let is_own = segment::number_of_path(path) == Some(number);
    let is_segment = path.extension().is_some_and(|ending| ending == "log");
    let is_new = path.extension().is_some_and(|ending| ending == "new");
    match is_segment && is_own || is_new && !is_own {
        true => flushed.version,
        false => 0,
    }
}

/// What follows the intact records that the reader has read. A receipt at their end counts only where commits are
/// missing (`lacks`).
fn behind(reader: &mut Reader<'_>, lacks: bool) -> Result<SearchOutcome, StorageError> {
    if lacks && let Some(durable) = reader.receipt()? {
        return Ok(SearchOutcome::Receipt(durable));
    }
    reader.search()
}

/// Rewrites the records of a segment in place.
fn write_again(segment: &Segment, end: u64) -> io::Result<()> {
    let mut part = vec![0; (end - FIRST_RECORD).min(1 << 20) as usize];
    let mut at = FIRST_RECORD;
    while at < end {
        let part = &mut part[..(end - at).min(1 << 20) as usize];
        segment.file.read_exact_at(part, at)?;
        segment.file.write_all_at(part, at)?;
        at += part.len() as u64;
    }
    Ok(())
}
