//! Reading records one after another.

use std::{io, path::Path, sync::Arc};

use isomer_storage::{StorageError, Version, damaged, io_error};
use isomer_vfs::Seal;

use super::{
    record::{self, HEAD_BYTES, Head, RECEIPT_BYTES, Record, RecordPosition},
    segment::{self, Segment},
};

/// Bytes that are read at once.
const READ_BYTES: usize = 256 << 10;

/// Reads the records of a segment.
pub struct Reader<'a> {
    segment: Arc<Segment>,
    folder: &'a Path,
    seal: &'a Seal,
    /// Where the next record begins.
    offset: u64,
    limit: u64,
    window: Vec<u8>,
    window_at: u64,
    body: Vec<u8>,
}

/// What is at an offset.
pub enum ReadOutcome {
    /// A record; [`Reader::record`] has it.
    Record,
    /// No header of a record.
    Nothing,
    /// A header of a record, but not its body.
    Broken,
}

/// Result of a search after an offset without a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchOutcome {
    /// A record; [`Reader::record`] has it.
    Record,
    /// A receipt for this version; the reader is after it.
    Receipt(Version),
    /// Neither.
    Nothing,
}

impl<'a> Reader<'a> {
    /// A reader from `offset` on, where a record begins.
    pub fn new(segment: Arc<Segment>, folder: &'a Path, seal: &'a Seal, offset: u64) -> Self {
        let limit = segment.capacity;
        Self {
            segment,
            folder,
            seal,
            offset,
            limit,
            window: Vec::new(),
            window_at: 0,
            body: Vec::new(),
        }
    }

    /// Limits the reader to the bytes before `end`.
    pub fn limit(&mut self, end: u64) {
        self.limit = end;
    }

    /// Where the next record begins.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    fn position(&self) -> RecordPosition {
        RecordPosition {
            segment: self.segment.number,
            salt: self.segment.salt,
            offset: self.offset,
        }
    }

    fn fail(&self, error: &io::Error) -> StorageError {
        io_error(
            "reading",
            &segment::path(self.folder, self.segment.number),
            error,
        )
    }

    /// The error for damage at the current offset.
    pub fn damage(&self, what: &str) -> StorageError {
        let number = self.segment.number;
        let file = segment::path(self.folder, number);
        damaged(
            self.folder.parent().unwrap_or(self.folder),
            &format!(
                "its log segment `{}` {what} at offset {}",
                file.display(),
                self.offset
            ),
        )
    }

    /// Bytes at the offset, up to `len`, fewer at the end of the file.
    fn bytes(&mut self, at: u64, len: usize) -> Result<&[u8], StorageError> {
        let within =
            at >= self.window_at && at + len as u64 <= self.window_at + self.window.len() as u64;
        if !within {
            let wanted = len
                .max(READ_BYTES)
                .min(self.limit.saturating_sub(at) as usize);
            let mut window = std::mem::take(&mut self.window);
            let filled = self.fill(&mut window, at, wanted);
            self.window = window;
            self.window_at = at;
            filled?;
        }
        let from = (at - self.window_at) as usize;
        let to = (from + len).min(self.window.len());
        Ok(&self.window[from.min(to)..to])
    }

    /// Fills `bytes` with up to `wanted` bytes from `at`; with none after an error.
    fn fill(&self, bytes: &mut Vec<u8>, at: u64, wanted: usize) -> Result<(), StorageError> {
        bytes.resize(wanted, 0);
        let mut filled = 0;
        while filled < wanted {
            let file = &self.segment.file;
            match file.read_at(&mut bytes[filled..], at + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    bytes.clear();
                    return Err(self.fail(&error));
                }
            }
        }
        bytes.truncate(filled);
        Ok(())
    }

    /// Reads at the offset, and moves past it if there is a record.
    pub fn read(&mut self) -> Result<ReadOutcome, StorageError> {
        let (offset, position) = (self.offset, self.position());
        let Some(head) = self.bytes(offset, HEAD_BYTES)?.first_chunk::<HEAD_BYTES>() else {
            return Ok(ReadOutcome::Nothing);
        };
        let Head::Record { len, check } = record::head(head, position) else {
            return Ok(ReadOutcome::Nothing);
        };
        if record::record_bytes(len) > self.limit.saturating_sub(offset) {
            return Ok(ReadOutcome::Broken);
        }
        let mut body = std::mem::take(&mut self.body);
        body.clear();
        let at = offset + HEAD_BYTES as u64;
        match len > READ_BYTES {
            // A large body is read directly to where it is decoded, to have it in memory only once.
            true => self.fill(&mut body, at, len)?,
            false => body.extend_from_slice(self.bytes(at, len)?),
        }
        let whole = body.len() == len && record::open(&mut body, position, self.seal, check);
        self.body = body;
        if !whole {
            return Ok(ReadOutcome::Broken);
        }
        self.offset += record::record_bytes(len);
        Ok(ReadOutcome::Record)
    }

    /// The record that was read last.
    pub fn record(&self) -> Result<Record<'_>, StorageError> {
        record::decode(&self.body)
            .map_err(|_| self.damage("holds a record that this program does not know"))
    }

    /// The durable version in the receipt at the offset, if there is one.
    pub fn receipt(&mut self) -> Result<Option<Version>, StorageError> {
        let (offset, position) = (self.offset, self.position());
        let bytes = self.bytes(offset, RECEIPT_BYTES)?.first_chunk();
        Ok(bytes.and_then(|bytes| record::read_receipt(bytes, position)))
    }

    /// Searches for a record or a receipt after the offset, which has no record; moves past it.
    pub fn search(&mut self) -> Result<SearchOutcome, StorageError> {
        let start = self.offset;
        let mut at = start + 8;
        while at + HEAD_BYTES as u64 <= self.limit {
            let (salt, segment) = (self.segment.salt, self.segment.number);
            let window = self.bytes(at, READ_BYTES)?;
            if window.len() < HEAD_BYTES {
                break;
            }
            let last = window.len() - HEAD_BYTES;
            let found = (0..=last).step_by(8).find(|from| {
                let head = window[*from..]
                    .first_chunk::<HEAD_BYTES>()
                    .expect("within the window");
                if head[..4] == [0; 4] {
                    return record::may_be_receipt(head);
                }
                let position = RecordPosition {
                    segment,
                    salt,
                    offset: at + *from as u64,
                };
                record::head(head, position) != Head::None
            });
            match found {
                Some(from) => {
                    self.offset = at + from as u64;
                    if let Some(durable) = self.receipt()? {
                        self.offset += RECEIPT_BYTES as u64;
                        return Ok(SearchOutcome::Receipt(durable));
                    }
                    if let ReadOutcome::Record = self.read()? {
                        return Ok(SearchOutcome::Record);
                    }
                    at = self.offset + 8;
                }
                None => at += last as u64 / 8 * 8 + 8,
            }
        }
        self.offset = start;
        Ok(SearchOutcome::Nothing)
    }
}
