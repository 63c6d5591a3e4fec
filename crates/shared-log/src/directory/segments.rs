//! The segments in the folder of a log.

use std::{
    collections::{BTreeMap, VecDeque},
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use isomer_vfs::{Disk, OpenMode};
use parking_lot::Mutex;

use super::{
    file_system::io_error,
    frame::{HEADER_BYTES, Header},
    segment::{Cursor, Frame, Segment, Window},
};
use crate::{LogError, LogId, Position};

/// Number of records whose places are remembered.
const CURSORS: usize = 1024;

/// Records that were read, and the cursor after them.
#[derive(Debug)]
pub(super) struct Records {
    pub(super) records: Vec<Vec<u8>>,
    pub(super) next: Cursor,
    /// Whether reading ended at something else than a record.
    pub(super) ended: bool,
}

/// The segments in the folder of a log, as far as this handle has opened them.
#[derive(Debug)]
pub(super) struct Segments {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) folder: PathBuf,
    pub(super) id: LogId,
    how: OpenMode,
    known: Mutex<OpenSegments>,
}

#[derive(Debug, Default)]
struct OpenSegments {
    open: BTreeMap<Position, Arc<Segment>>,
    cursors: Cursors,
}

/// Some cursors, by ascending position. Appending to it is cheap.
#[derive(Debug, Default)]
struct Cursors(VecDeque<Cursor>);

impl Cursors {
    /// Number of cursors at positions below `at`.
    fn below(&self, at: Position) -> usize {
        match self.0.back() {
            Some(last) if last.position < at => self.0.len(),
            _ => self.0.partition_point(|cursor| cursor.position < at),
        }
    }

    fn insert(&mut self, cursor: Cursor) {
        let at = self.below(cursor.position);
        match self.0.get_mut(at) {
            Some(known) if known.position == cursor.position => *known = cursor,
            _ => self.0.insert(at, cursor),
        }
        if self.0.len() > CURSORS {
            // The newest ones are asked for again most often.
            self.0.pop_front();
        }
    }

    /// The last one at a position below `at`.
    fn last_below(&self, at: Position) -> Option<Cursor> {
        let last = self.below(at).checked_sub(1)?;
        self.0.get(last).copied()
    }

    fn forget_below(&mut self, at: Position) {
        self.0.drain(..self.below(at));
    }
}

impl Segments {
    pub(super) fn new(disk: Arc<dyn Disk>, folder: &Path, id: LogId, how: OpenMode) -> Self {
        Self {
            disk,
            folder: folder.to_owned(),
            id,
            how,
            known: Mutex::default(),
        }
    }

    /// The first positions of the segments in `folder`, ascending.
    pub(super) fn list(disk: &dyn Disk, folder: &Path) -> Result<Vec<Position>, LogError> {
        let names = disk
            .list(folder)
            .map_err(|error| io_error(folder, &error))?;
        let mut all: Vec<Position> = names.iter().filter_map(|name| number(name)).collect();
        all.sort_unstable();
        Ok(all)
    }

    /// Creates a segment, durably, and replaces one of the same name.
    pub(super) fn create(
        disk: &dyn Disk,
        folder: &Path,
        header: &Header,
        bytes: u64,
    ) -> Result<(), LogError> {
        let path = path(folder, header.first);
        let new = folder.join("segment.new");
        let created = disk.open(&new, OpenMode::Create).and_then(|file| {
            file.write_zeros(0, bytes)?;
            file.write_all_at(&header.encode(), 0)?;
            file.sync()?;
            disk.rename(&new, &path)?;
            disk.sync_folder(folder)
        });
        created.map_err(|error| io_error(&path, &error))
    }

    /// The segment that begins with `first`; `None` if there is none.
    pub(super) fn get(&self, first: Position) -> Result<Option<Arc<Segment>>, LogError> {
        if let Some(segment) = self.known.lock().open.get(&first) {
            return Ok(Some(segment.clone()));
        }
        let segment = self.open(first)?.map(Arc::new);
        if let Some(segment) = &segment {
            self.known.lock().open.insert(first, segment.clone());
        }
        Ok(segment)
    }

    fn open(&self, first: Position) -> Result<Option<Segment>, LogError> {
        let path = path(&self.folder, first);
        let mut bytes = [0; HEADER_BYTES];
        let opened = self.disk.open(&path, self.how).and_then(|file| {
            file.read_exact_at(&mut bytes, 0)?;
            Ok(file)
        });
        let file = match opened {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(io_error(&path, &error)),
        };
        let header = Header::decode(&bytes).filter(|header| header.first == first);
        let Some(header) = header.filter(|header| header.log == self.id) else {
            let what = format!("`{}` does not belong to this log", path.display());
            return Err(LogError::Damaged(what));
        };
        Ok(Some(Segment { header, file, path }))
    }

    /// The segment that begins with `first`, which the log needs.
    pub(super) fn existing(&self, first: Position) -> Result<Arc<Segment>, LogError> {
        self.get(first)?.ok_or_else(|| {
            let path = path(&self.folder, first);
            LogError::Damaged(format!("`{}` is missing", path.display()))
        })
    }

    /// Removes the file of a segment.
    pub(super) fn remove(&self, first: Position) -> Result<(), LogError> {
        self.known.lock().open.remove(&first);
        let path = path(&self.folder, first);
        match self.disk.remove(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error(&path, &error)),
            _ => Ok(()),
        }
    }

    /// Forgets what is below `first`: closes trimmed segments.
    pub(super) fn forget_below(&self, first: Position) {
        let mut known = self.known.lock();
        known.cursors.forget_below(first);
        let needed = known.open.range(..=first).next_back();
        if let Some(needed) = needed.map(|(needed, _)| *needed)
            && known
                .open
                .first_key_value()
                .is_some_and(|(at, _)| *at < needed)
        {
            known.open = known.open.split_off(&needed);
        }
    }

    /// Remembers a cursor.
    pub(super) fn remember(&self, cursor: Cursor) {
        self.known.lock().cursors.insert(cursor);
    }

    /// The last remembered cursor in the segment `first`.
    pub(super) fn last_in(&self, first: Position) -> Option<Cursor> {
        let known = self.known.lock();
        let mut newest = known.cursors.0.iter().rev();
        newest.find(|cursor| cursor.segment == first).copied()
    }

    /// The last remembered cursor before `tail` in its segment.
    pub(super) fn last_before(&self, tail: &Cursor) -> Option<Cursor> {
        let known = self.known.lock();
        let last = known.cursors.last_below(tail.position);
        last.filter(|cursor| cursor.segment == tail.segment)
    }

    /// The records from `from` on, below `end`, of at most `max_bytes` together but at least one.
    pub(super) fn read(
        &self,
        from: Position,
        end: Position,
        max_bytes: usize,
    ) -> Result<Records, LogError> {
        let mut found = Records {
            records: Vec::new(),
            next: self.near(from)?,
            ended: false,
        };
        let mut window = Window::default();
        while found.next.position < from.min(end) {
            match self.skip(&found.next, &mut window)? {
                Some(next) => found.next = next,
                None => {
                    found.ended = true;
                    return Ok(found);
                }
            }
        }
        // An opening process reads one record several times.
        self.remember(found.next);
        let mut bytes = 0;
        while found.next.position < end {
            let Some((record, next)) = self.read_record(&found.next, &mut window)? else {
                found.ended = true;
                break;
            };
            bytes += record.len().max(1);
            if !found.records.is_empty() && bytes > max_bytes {
                break;
            }
            found.records.push(record);
            found.next = next;
        }
        self.remember(found.next);
        Ok(found)
    }

    /// The record at `cursor` and the cursor after it, in the next segment if that one begins there; `None` if there is
    /// no valid record.
    pub(super) fn read_record(
        &self,
        cursor: &Cursor,
        window: &mut Window,
    ) -> Result<Option<(Vec<u8>, Cursor)>, LogError> {
        self.advance(cursor, window, |segment, cursor, window| {
            segment.record(cursor, window)
        })
    }

    /// The cursor after the record at `cursor`, which is not read.
    fn skip(&self, cursor: &Cursor, window: &mut Window) -> Result<Option<Cursor>, LogError> {
        let next = self.advance(cursor, window, |segment, cursor, window| {
            segment.skip(cursor, window)
        })?;
        Ok(next.map(|((), next)| next))
    }

    fn advance<T>(
        &self,
        cursor: &Cursor,
        window: &mut Window,
        mut read: impl FnMut(&Segment, &Cursor, &mut Window) -> Result<Frame<T>, LogError>,
    ) -> Result<Option<(T, Cursor)>, LogError> {
        let segment = window.held(cursor.segment);
        let segment = segment.map_or_else(|| self.existing(cursor.segment), Ok)?;
        match read(&segment, cursor, window)? {
            Frame::Record(record, next) => {
                window.hold(segment);
                return Ok(Some((record, next)));
            }
            Frame::Invalid => return Ok(None),
            Frame::None if cursor.position == cursor.segment => return Ok(None),
            Frame::None => {}
        }
        let known = self.known.lock().open.get(&cursor.position).cloned();
        let segment = match known {
            Some(segment) => segment,
            None => match self.open(cursor.position)? {
                Some(segment) => Arc::new(segment),
                None => return Ok(None),
            },
        };
        let start = segment.start();
        if start.previous != cursor.previous {
            return Ok(None);
        }
        match read(&segment, &start, window)? {
            Frame::Record(record, next) => {
                self.known.lock().open.insert(start.segment, segment);
                Ok(Some((record, next)))
            }
            // Without records it may not be part of the log yet, and be replaced.
            Frame::None | Frame::Invalid => Ok(None),
        }
    }

    /// A cursor at or before `from`.
    fn near(&self, from: Position) -> Result<Cursor, LogError> {
        let known = self.known.lock().cursors.last_below(from.saturating_add(1));
        if let Some(cursor) = known.filter(|cursor| cursor.position == from) {
            return Ok(cursor);
        }
        let all = Self::list(&*self.disk, &self.folder)?;
        let before = all.iter().rfind(|first| **first <= from);
        let start = match before {
            Some(first) => self.get(*first)?.map(|segment| segment.start()),
            None => None,
        };
        let nearest = known.into_iter().chain(start);
        let nearest = nearest.max_by_key(|cursor| cursor.position);
        nearest.ok_or_else(|| {
            LogError::Damaged(format!("the segment of the record {from} is missing"))
        })
    }
}

/// The file of the segment that begins with `first`.
pub(super) fn path(folder: &Path, first: Position) -> PathBuf {
    folder.join(format!("{first:020}.log"))
}

/// The first position of the segment with the file name `name`.
fn number(name: &Path) -> Option<Position> {
    let name = name.to_str()?.strip_suffix(".log")?;
    let is_number = name.len() == 20 && name.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| name.parse().ok())?
}
