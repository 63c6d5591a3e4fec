//! Opening a log: what was committed is read again, the torn tail is dropped, damage is refused.

use std::{
    collections::BTreeMap,
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
use isomer_vfs::Open;

use super::{
    Log, LogOptions, Writer,
    reader::{Behind, Found, Reader},
    record::{Content, Writes},
    segment::{self, Extent, FIRST_RECORD, Part, Segment},
};
use crate::mutants::{Mutant, broken};

/// What the tables know of the log.
#[derive(Clone, Debug, Default)]
pub struct Flushed {
    /// Everything up to this version is in tables.
    pub version: Version,
    /// The first segment that may hold a later one.
    pub needed_from: u64,
    /// The last ingestion that the manifest brought in.
    pub ingested: Option<Version>,
}

/// One commit that only the log has.
pub struct Replayed<'a> {
    /// Its version.
    pub version: Version,
    /// Its writes.
    pub writes: Writes<'a>,
}

impl Log {
    /// Opens the log in `folder`, which exists; calls `apply` with each commit that is not in tables. Answers
    /// the last version, too.
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
        };
        recovery.list(flushed)?;
        recovery.replay(flushed, apply)?;
        recovery.forget_remnants();
        // The rest was lost with the commits that it was about, and their versions come again.
        recovery.trimmed = recovery.trimmed.min(recovery.last);
        recovery.settle(flushed.needed_from)?;
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
            told: Mutex::default(),
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
    /// Whether a version was missing; what comes behind it is only looked at.
    gap: bool,
}

impl Recovery {
    /// Opens the segments and removes what making or removing one left behind.
    fn list(&mut self, flushed: &Flushed) -> Result<(), StorageError> {
        let disk = self.options.disk.clone();
        let names = disk
            .list(&self.folder)
            .map_err(|error| io_error("reading", &self.folder, &error))?;
        for name in names {
            let path = self.folder.join(&name);
            let Some(number) = segment::number_of(&name) else {
                let left = |ending: &OsStr| ending == "new" || ending == segment::OLD;
                if name.extension().is_some_and(left) {
                    self.remove(&path)?;
                }
                continue;
            };
            let how = if self.options.read_only {
                Open::Read
            } else {
                Open::Write
            };
            let file = disk
                .open(&path, how)
                .map_err(|error| io_error("opening", &path, &error))?;
            let read = |error: io::Error| io_error("reading", &path, &error);
            let head = match segment::read_head(&*file).map_err(read)? {
                Part::Valid(head) if head.number != number => {
                    // It was about to be used again under another number.
                    self.remove(&path)?;
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
                    return Err(self.damage(number, "has no valid head"));
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
                // Half written when the power went, or damaged later: the records tell, as if there were none. A file that was
                // cut behind it has no other witness.
                Part::Damaged if len >= head.capacity => {}
                Part::Newer(_) | Part::Damaged => {
                    return Err(self.damage(number, "has a damaged closing part"));
                }
            }
            let (capacity, state) = (head.capacity.max(state.end), Mutex::new(state));
            let segment = Segment {
                number,
                salt: head.salt,
                capacity,
                file,
                state,
                failed_sync: Mutex::new(None),
            };
            self.segments.insert(number, Arc::new(segment));
        }
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

    fn replay(
        &mut self,
        flushed: &Flushed,
        apply: &mut dyn FnMut(Replayed<'_>) -> Result<(), StorageError>,
    ) -> Result<(), StorageError> {
        let segments: Vec<Arc<Segment>> = self.segments.values().cloned().collect();
        let seal = self.options.seal.clone();
        let folder = self.folder.clone();
        // Whether what is missing is a bulk load that was only announced.
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
                match reader.read()? {
                    Found::Record => {}
                    // What was closed was durable.
                    _ if known.closing_written => return Err(reader.damage("is damaged")),
                    Found::Nothing | Found::Broken => {
                        // One at the end of what is whole says nothing of what is not, nor does one behind a bulk load that did
                        // not take place.
                        let lacks = hole || (self.gap && !withdrawn);
                        let here = match lacks {
                            true => reader.receipt()?,
                            false => None,
                        };
                        let behind = match here {
                            Some(durable) => Behind::Receipt(durable),
                            None => reader.search()?,
                        };
                        match behind {
                            Behind::Nothing => break,
                            // A record behind what is none. Where all that is missing is in tables it does not matter.
                            Behind::Record => hole = true,
                            Behind::Receipt(durable) => {
                                return Err(reader.damage(&format!(
                                    "lacks something that was on disk, as everything up to the commit {durable} was, before the receipt that ends"
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
                    if record.durable >= missing || known.closing_written {
                        let what = format!(
                            "lacks the commit {missing}, which was on disk; what is behind it begins"
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
                        // It was announced and did not take place: nothing can be behind it.
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

    /// Segments go when they are needed no more, one by one: what is left before a number that is missing would be a piece
    /// of the change stream with a hole behind it, and was to go, too.
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

    /// Removes what is empty at the end of the log, the last first, as a log has no gaps: what comes next has the number
    /// `needed_from` at least, so no earlier one goes, though a loss of power may have left nothing in it. Then makes durable what was found,
    /// from the first on, and writes down where it ends, so that whoever opens it next comes to the same answer.
    fn settle(&mut self, needed_from: u64) -> Result<(), StorageError> {
        if self.options.read_only {
            return Ok(());
        }
        while let Some((number, segment)) = self.segments.last_key_value() {
            let (number, state) = (*number, segment.state.lock().clone());
            if state.closing_written || state.end > FIRST_RECORD || number < needed_from {
                break;
            }
            self.segments.remove(&number);
            self.remove(&segment::path(&self.folder, number))?;
        }
        let is_open = |segment: &&Arc<Segment>| !segment.state.lock().closing_written;
        let open: Vec<Arc<Segment>> = self.segments.values().filter(is_open).cloned().collect();
        let error = |segment: &Segment, error: io::Error| {
            let path = segment::path(&self.folder, segment.number);
            io_error("writing", &path, &error)
        };
        // The records may be in the operating system's memory only, if the process ended and not the machine. Where a
        // sync has failed before, another one makes nothing durable: only what is written again is.
        if broken(Mutant::SettledOutOfOrder) {
            for segment in open.iter().rev() {
                let end = segment.state.lock().end;
                write_again(segment, end)
                    .and_then(|()| segment.file.sync())
                    .and_then(|()| self.close(segment))
                    .map_err(|failed| error(segment, failed))?;
            }
        }
        for segment in &open {
            let end = segment.state.lock().end;
            write_again(segment, end)
                .and_then(|()| segment.file.sync())
                .map_err(|failed| error(segment, failed))?;
        }
        // All of them are durable before one is closed: were the power to go meanwhile, what it took would be missed.
        for segment in &open {
            self.close(segment)
                .map_err(|failed| error(segment, failed))?;
        }
        let sync = self.options.disk.sync_folder(&self.folder);
        sync.map_err(|error| io_error("writing", &self.folder, &error))
    }

    /// Writes down where a segment ends, durably.
    fn close(&self, segment: &Segment) -> io::Result<()> {
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
        Ok(())
    }

    fn remove(&self, path: &Path) -> Result<(), StorageError> {
        if self.options.read_only {
            return Ok(());
        }
        self.options
            .disk
            .remove(path)
            .map_err(|error| io_error("removing", path, &error))
    }

    fn damage(&self, number: u64, what: &str) -> StorageError {
        let path = segment::path(&self.folder, number);
        damaged(
            &self.database,
            &format!("its log segment `{}` {what}", path.display()),
        )
    }
}

/// Writes the records of a segment where they are.
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
