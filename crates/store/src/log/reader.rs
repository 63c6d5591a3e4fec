//! Reading records one after another.

use std::{io, path::Path, sync::Arc};

use isomer_storage::{StorageError, Version, damaged, io_error};
use isomer_vfs::Seal;

use super::{
    record::{self, HEAD_BYTES, Head, RECEIPT_BYTES, Record, Spot},
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
pub enum Found {
    /// A record; [`Reader::record`] has it.
    Record,
    /// No beginning of a record.
    Nothing,
    /// A beginning of a record, and something else behind it.
    Broken,
}

/// What is found behind an offset that begins no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behind {
    /// A record; [`Reader::record`] has it.
    Record,
    /// A receipt for this version; the reader is behind it.
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

    /// Reads nothing from `end` on.
    pub fn limit(&mut self, end: u64) {
        self.limit = end;
    }

    /// Where the next record begins.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    fn spot(&self) -> Spot {
        Spot {
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

    /// The error for damage where a record should be.
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

    /// Bytes at the offset, as many as there are up to `len`.
    fn bytes(&mut self, at: u64, len: usize) -> Result<&[u8], StorageError> {
        let within =
            at >= self.window_at && at + len as u64 <= self.window_at + self.window.len() as u64;
        if !within {
            let wanted = len
                .max(READ_BYTES)
                .min(self.limit.saturating_sub(at) as usize);
            self.window.resize(wanted, 0);
            self.window_at = at;
            let mut filled = 0;
            while filled < wanted {
                match self
                    .segment
                    .file
                    .read_at(&mut self.window[filled..], at + filled as u64)
                {
                    Ok(0) => break,
                    Ok(count) => filled += count,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => {
                        self.window.clear();
                        return Err(self.fail(&error));
                    }
                }
            }
            self.window.truncate(filled);
        }
        let from = (at - self.window_at) as usize;
        let to = (from + len).min(self.window.len());
        Ok(&self.window[from.min(to)..to])
    }

    /// Reads what is at the offset, and goes behind it if it is a record.
    pub fn read(&mut self) -> Result<Found, StorageError> {
        let (offset, spot) = (self.offset, self.spot());
        let Some(head) = self.bytes(offset, HEAD_BYTES)?.first_chunk::<HEAD_BYTES>() else {
            return Ok(Found::Nothing);
        };
        let Head::Record { len, check } = record::head(head, spot) else {
            return Ok(Found::Nothing);
        };
        if record::record_bytes(len) > self.limit.saturating_sub(offset) {
            return Ok(Found::Broken);
        }
        let mut body = std::mem::take(&mut self.body);
        body.clear();
        body.extend_from_slice(self.bytes(offset + HEAD_BYTES as u64, len)?);
        let whole = body.len() == len && record::open(&mut body, spot, self.seal, check);
        self.body = body;
        if !whole {
            return Ok(Found::Broken);
        }
        self.offset += record::record_bytes(len);
        Ok(Found::Record)
    }

    /// The record that was read last.
    pub fn record(&self) -> Result<Record<'_>, StorageError> {
        record::decode(&self.body)
            .map_err(|_| self.damage("holds a record that this program does not know"))
    }

    /// What was durable, where a receipt is at the offset.
    pub fn receipt(&mut self) -> Result<Option<Version>, StorageError> {
        let (offset, spot) = (self.offset, self.spot());
        let bytes = self.bytes(offset, RECEIPT_BYTES)?.first_chunk();
        Ok(bytes.and_then(|bytes| record::read_receipt(bytes, spot)))
    }

    /// Looks for a record or a receipt behind the offset, which begins no record; goes to it and behind it.
    pub fn search(&mut self) -> Result<Behind, StorageError> {
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
                let spot = Spot {
                    segment,
                    salt,
                    offset: at + *from as u64,
                };
                record::head(head, spot) != Head::None
            });
            match found {
                Some(from) => {
                    self.offset = at + from as u64;
                    if let Some(durable) = self.receipt()? {
                        self.offset += RECEIPT_BYTES as u64;
                        return Ok(Behind::Receipt(durable));
                    }
                    if let Found::Record = self.read()? {
                        return Ok(Behind::Record);
                    }
                    at = self.offset + 8;
                }
                None => at += last as u64 / 8 * 8 + 8,
            }
        }
        self.offset = start;
        Ok(Behind::Nothing)
    }
}
