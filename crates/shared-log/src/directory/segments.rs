//! The segments in the folder of a log.

use std::{
    collections::BTreeMap,
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
    /// Cursors by their position.
    cursors: BTreeMap<Position, Cursor>,
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
            let mut content = vec![0; bytes as usize];
            content[..HEADER_BYTES].copy_from_slice(&header.encode());
            file.write_all_at(&content, 0)?;
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
        if known
            .cursors
            .first_key_value()
            .is_some_and(|(at, _)| *at < first)
        {
            known.cursors = known.cursors.split_off(&first);
        }
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
        let cursors = &mut self.known.lock().cursors;
        cursors.insert(cursor.position, cursor);
        if cursors.len() > CURSORS {
            // The newest ones are asked for again most often.
            cursors.pop_first();
        }
    }

    /// The last remembered cursor in the segment `first`.
    pub(super) fn last_in(&self, first: Position) -> Option<Cursor> {
        let known = self.known.lock();
        let mut newest = known.cursors.values().rev();
        newest.find(|cursor| cursor.segment == first).copied()
    }

    /// The last remembered cursor before `tail` in its segment.
    pub(super) fn last_before(&self, tail: &Cursor) -> Option<Cursor> {
        let known = self.known.lock();
        let last = known.cursors.range(..tail.position).next_back();
        let last = last.map(|(_, cursor)| *cursor);
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
        let mut bytes = 0;
        while found.next.position < end {
            let step = match found.next.position < from {
                true => self
                    .skip(&found.next, &mut window)?
                    .map(|next| (None, next)),
                false => self
                    .read_record(&found.next, &mut window)?
                    .map(|(record, next)| (Some(record), next)),
            };
            let Some((record, next)) = step else {
                found.ended = true;
                break;
            };
            if let Some(record) = record {
                bytes += record.len().max(1);
                if !found.records.is_empty() && bytes > max_bytes {
                    break;
                }
                found.records.push(record);
            }
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
        self.advance(cursor, |segment, cursor| segment.record(cursor, window))
    }

    /// The cursor after the record at `cursor`, which is not read.
    fn skip(&self, cursor: &Cursor, window: &mut Window) -> Result<Option<Cursor>, LogError> {
        let next = self.advance(cursor, |segment, cursor| segment.skip(cursor, window))?;
        Ok(next.map(|((), next)| next))
    }

    fn advance<T>(
        &self,
        cursor: &Cursor,
        mut read: impl FnMut(&Segment, &Cursor) -> Result<Frame<T>, LogError>,
    ) -> Result<Option<(T, Cursor)>, LogError> {
        match read(&*self.existing(cursor.segment)?, cursor)? {
            Frame::Record(record, next) => return Ok(Some((record, next))),
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
        match read(&segment, &start)? {
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
        let known = {
            let known = self.known.lock();
            let before = known.cursors.range(..=from).next_back();
            before.map(|(_, cursor)| *cursor)
        };
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
