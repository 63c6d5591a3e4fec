//! A segment: a file of frames.

use std::{io, path::PathBuf, sync::Arc};

use isomer_vfs::DiskFile;

use super::{
    file_system::io_error,
    frame::{HEAD_BYTES, HEADER_BYTES, Head, Header, MAX_RECORD_BYTES, frame_bytes, record_check},
};
use crate::{LogError, Position};

/// Bytes of the first read of a window: the frame of a small record. Each further read is twice as large.
const FIRST_BYTES: usize = 4 << 10;
/// Largest read of a window, unless a record is larger.
const WINDOW_BYTES: usize = 256 << 10;
/// Bytes that are read at once after the tail.
const SWEEP_BYTES: usize = 1 << 20;

/// A point in the log: the position of the next record, where its frame begins, and the hash of the frame before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cursor {
    pub(super) position: Position,
    /// The first position of its segment.
    pub(super) segment: Position,
    pub(super) offset: u64,
    /// The hash of the frame before.
    pub(super) previous: u64,
}

/// What is at a cursor.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Frame<T> {
    /// A record, as far as it was read, and the cursor after it.
    Record(T, Cursor),
    /// Zeros, or the end of the file.
    None,
    /// Neither: torn, damaged, or not the next one.
    Invalid,
}

/// An open segment.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) header: Header,
    pub(super) file: Arc<dyn DiskFile>,
    pub(super) path: PathBuf,
}

impl Segment {
    /// The cursor before its first record.
    pub(super) fn start(&self) -> Cursor {
        Cursor {
            position: self.header.first,
            segment: self.header.first,
            offset: HEADER_BYTES as u64,
            previous: self.header.previous,
        }
    }

    /// What is at `cursor`, which is in this segment.
    pub(super) fn frame<'w>(
        &self,
        cursor: &Cursor,
        window: &'w mut Window,
    ) -> Result<Frame<&'w [u8]>, LogError> {
        let (head, next) = match self.head(cursor, window)? {
            Frame::Record(head, next) => (head, next),
            Frame::None => return Ok(Frame::None),
            Frame::Invalid => return Ok(Frame::Invalid),
        };
        self.frame_after(&head, next, cursor, window)
    }

    /// The frame at `cursor`, whose head is read.
    fn frame_after<'w>(
        &self,
        head: &Head,
        next: Cursor,
        cursor: &Cursor,
        window: &'w mut Window,
    ) -> Result<Frame<&'w [u8]>, LogError> {
        let bytes = window.bytes(self, cursor.offset, HEAD_BYTES + head.length as usize)?;
        let record = bytes.get(HEAD_BYTES..HEAD_BYTES + head.length as usize);
        let is_valid = |record: &&[u8]| record_check(record, cursor.position) == head.check;
        Ok(match record.filter(is_valid) {
            Some(record) => Frame::Record(record, next),
            None => Frame::Invalid,
        })
    }

    /// What is at `cursor`, with a copy of the record.
    pub(super) fn record(
        &self,
        cursor: &Cursor,
        window: &mut Window,
    ) -> Result<Frame<Vec<u8>>, LogError> {
        let (head, next) = match self.head(cursor, window)? {
            Frame::Record(head, next) => (head, next),
            Frame::None => return Ok(Frame::None),
            Frame::Invalid => return Ok(Frame::Invalid),
        };
        let length = head.length as usize;
        if length <= WINDOW_BYTES {
            return Ok(match self.frame_after(&head, next, cursor, window)? {
                Frame::Record(record, next) => Frame::Record(record.to_vec(), next),
                Frame::None => Frame::None,
                Frame::Invalid => Frame::Invalid,
            });
        }
        // Not through the window: a large record would be in memory twice.
        let mut record = vec![0; length];
        let read = self.read(&mut record, cursor.offset + HEAD_BYTES as u64)?;
        let is_valid = read == length && record_check(&record, cursor.position) == head.check;
        Ok(match is_valid {
            true => Frame::Record(record, next),
            false => Frame::Invalid,
        })
    }

    /// What is at `cursor`, which is in this segment, without the record.
    pub(super) fn skip(&self, cursor: &Cursor, window: &mut Window) -> Result<Frame<()>, LogError> {
        Ok(match self.head(cursor, window)? {
            Frame::Record(_, next) => Frame::Record((), next),
            Frame::None => Frame::None,
            Frame::Invalid => Frame::Invalid,
        })
    }

    /// The head at `cursor`.
    fn head(&self, cursor: &Cursor, window: &mut Window) -> Result<Frame<Head>, LogError> {
        let bytes = window.bytes(self, cursor.offset, HEAD_BYTES)?;
        if bytes.iter().all(|byte| *byte == 0) {
            return Ok(Frame::None);
        }
        let is_next = |head: &Head| {
            head.position == cursor.position
                && head.previous == cursor.previous
                && head.length as usize <= MAX_RECORD_BYTES
        };
        let bytes = bytes.first_chunk::<HEAD_BYTES>();
        let decoded = bytes.and_then(|bytes| Head::decode(bytes, self.header.salt));
        let Some((head, hash)) = decoded.filter(|(head, _)| is_next(head)) else {
            return Ok(Frame::Invalid);
        };
        let next = Cursor {
            position: cursor.position + 1,
            segment: cursor.segment,
            offset: cursor.offset + frame_bytes(head.length as usize),
            previous: hash,
        };
        Ok(Frame::Record(head, next))
    }

    /// The cursor before the last valid record from `from` on, and the one after it; both are `from` if there is none.
    pub(super) fn scan(&self, from: Cursor) -> Result<(Cursor, Cursor), LogError> {
        let mut window = Window::default();
        let (mut last, mut cursor) = (from, from);
        while let Frame::Record(_, next) = self.frame(&cursor, &mut window)? {
            (last, cursor) = (cursor, next);
        }
        Ok((last, cursor))
    }

    /// Whether it has no records.
    pub(super) fn is_empty(&self) -> Result<bool, LogError> {
        Ok(self.skip(&self.start(), &mut Window::default())? == Frame::None)
    }

    /// What is stored after the tail: what is left of records that are no part of the log.
    ///
    /// # Errors
    /// `Damaged` if a later record is there for which `is_loss` holds: it proves that the one at the tail was lost.
    pub(super) fn remains(
        &self,
        tail: &Cursor,
        is_loss: impl Fn(&Head) -> bool,
    ) -> Result<Option<u64>, LogError> {
        let mut last = None;
        let mut offset = tail.offset;
        let mut bytes = vec![0; SWEEP_BYTES + HEAD_BYTES];
        loop {
            bytes.fill(0);
            let count = self.read(&mut bytes, offset)?;
            if count == 0 {
                return Ok(last);
            }
            if let Some(at) = bytes[..count].iter().rposition(|byte| *byte != 0) {
                last = Some(offset + at as u64 + 1);
                for start in (0..SWEEP_BYTES.min(at + 1)).step_by(8) {
                    let Some(head) = bytes[start..].first_chunk() else {
                        break;
                    };
                    if let Some((head, _)) = Head::decode(head, self.header.salt)
                        && head.position > tail.position
                        && is_loss(&head)
                    {
                        return Err(self.damaged(tail, "it was lost, and later ones were not"));
                    }
                }
            }
            offset += SWEEP_BYTES as u64;
        }
    }

    /// Writes everything before the tail again, as it is in the operating system's memory: a sync that succeeds after
    /// one that failed covers only what was written in between.
    pub(super) fn rewrite(&self, tail: &Cursor) -> Result<(), LogError> {
        let mut bytes = vec![0; WINDOW_BYTES];
        let mut offset = 0;
        while offset < tail.offset {
            let left = usize::try_from(tail.offset - offset).unwrap_or(usize::MAX);
            let part = &mut bytes[..WINDOW_BYTES.min(left)];
            let count = self.read(part, offset)?;
            if count < part.len() {
                return Err(self.damaged(tail, "it became shorter"));
            }
            let written = self.file.write_all_at(part, offset);
            written.map_err(|error| io_error(&self.path, &error))?;
            offset += count as u64;
        }
        Ok(())
    }

    /// Overwrites what is stored from the tail up to `end` with zeros.
    pub(super) fn clear(&self, tail: &Cursor, end: u64) -> Result<(), LogError> {
        let zeros = vec![0; SWEEP_BYTES];
        let mut offset = tail.offset;
        while offset < end {
            let count = (end - offset).min(SWEEP_BYTES as u64) as usize;
            let written = self.file.write_all_at(&zeros[..count], offset);
            written.map_err(|error| io_error(&self.path, &error))?;
            offset += count as u64;
        }
        Ok(())
    }

    /// The record at `cursor` is not what was appended.
    pub(super) fn damaged(&self, cursor: &Cursor, what: &str) -> LogError {
        let (
            path,
            Cursor {
                position, offset, ..
            },
        ) = (self.path.display(), cursor);
        LogError::Damaged(format!(
            "the record {position} in `{path}` at byte {offset}: {what}"
        ))
    }

    /// Reads until `out` is full or the file ends.
    fn read(&self, out: &mut [u8], offset: u64) -> Result<usize, LogError> {
        let mut filled = 0;
        while filled < out.len() {
            match self
                .file
                .read_at(&mut out[filled..], offset + filled as u64)
            {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(io_error(&self.path, &error)),
            }
        }
        Ok(filled)
    }
}

/// A part of a segment that was read at once. It does not have what is written to the segment afterwards, so that each
/// call of the log has a new one.
#[derive(Debug)]
pub(super) struct Window {
    /// The first position of the segment; 0: none.
    segment: Position,
    offset: u64,
    bytes: Vec<u8>,
    /// Bytes to read next.
    next_bytes: usize,
    /// The segment that was read last, so that it need not be looked up for each record.
    held: Option<Arc<Segment>>,
}

impl Default for Window {
    fn default() -> Self {
        Self {
            segment: 0,
            offset: 0,
            bytes: Vec::new(),
            next_bytes: FIRST_BYTES,
            held: None,
        }
    }
}

impl Window {
    /// The segment that begins with `first`, if it was read last.
    pub(super) fn held(&mut self, first: Position) -> Option<Arc<Segment>> {
        self.held.take_if(|held| held.header.first == first)
    }

    /// Keeps a segment for [`Window::held`].
    pub(super) fn hold(&mut self, segment: Arc<Segment>) {
        self.held = Some(segment);
    }

    /// The `count` bytes of `segment` at `offset`, fewer at its end.
    fn bytes(&mut self, segment: &Segment, offset: u64, count: usize) -> Result<&[u8], LogError> {
        let (first, end) = (self.offset, self.offset + self.bytes.len() as u64);
        let is_here = self.segment == segment.header.first
            && (first..end).contains(&offset)
            && offset + count as u64 <= end;
        if !is_here {
            self.bytes.resize(count.max(self.next_bytes), 0);
            let read = segment.read(&mut self.bytes, offset)?;
            self.bytes.truncate(read);
            (self.segment, self.offset) = (segment.header.first, offset);
            self.next_bytes = (self.next_bytes * 2).min(WINDOW_BYTES);
        }
        let start = (offset - self.offset) as usize;
        let end = self.bytes.len().min(start + count);
        Ok(&self.bytes[start..end])
    }
}

/// The error for a position below the end whose record is missing or damaged.
pub(super) fn lost(at: &Cursor) -> LogError {
    let Cursor {
        position,
        segment,
        offset,
        ..
    } = at;
    LogError::Damaged(format!(
        "the record {position} in the segment {segment} at byte {offset} is missing or changed"
    ))
}
