//! Writing closed segments of a log that is a copy: of a shared log, for an independent database.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use isomer_storage::{Commit, StorageError, Version, io_error};
use isomer_vfs::{Disk, DiskFile, OpenMode, Seal};

use super::{
    chain::Link,
    record::{self, RecordPosition, Write},
    segment::{self, Closing, FIRST_RECORD, SegmentHead},
};

/// Bytes that are gathered for one write.
const WRITE_BYTES: usize = 1 << 20;

/// A closed segment while it is written. Its file is not valid before [`SegmentExport::finish`].
pub struct SegmentExport {
    folder: PathBuf,
    file: Arc<dyn DiskFile>,
    seal: Seal,
    number: u64,
    salt: u64,
    closing: Closing,
    buffer: Vec<u8>,
    /// Offset of the buffer in the file.
    written: u64,
}

impl SegmentExport {
    /// Creates the segment `number` in `folder`.
    pub fn create(
        disk: &dyn Disk,
        folder: &Path,
        seal: &Seal,
        number: u64,
        salt: u64,
    ) -> Result<Self, StorageError> {
        let path = segment::path(folder, number);
        let file = disk.open(&path, OpenMode::Create);
        Ok(Self {
            folder: folder.to_owned(),
            file: file.map_err(|error| io_error("making", &path, &error))?,
            seal: seal.clone(),
            number,
            salt,
            closing: Closing::default(),
            buffer: Vec::new(),
            written: FIRST_RECORD,
        })
    }

    /// Appends a commit; their versions ascend.
    pub fn commit(&mut self, commit: Commit<'_>, time_ms: u64) -> Result<(), StorageError> {
        self.note_commit(&commit, time_ms);
        self.put(Write::Commit(commit), time_ms, commit.version - 1)
    }

    /// Appends a bulk load, whose pairs are in tables.
    pub fn ingestion(&mut self, commit: Commit<'_>, time_ms: u64) -> Result<(), StorageError> {
        self.note_commit(&commit, time_ms);
        let (version, stream) = (commit.version, commit.stream);
        self.put(Write::Ingestion { version, stream }, time_ms, version - 1)
    }

    fn note_commit(&mut self, commit: &Commit<'_>, time_ms: u64) {
        let closing = &mut self.closing;
        if closing.first == 0 {
            (closing.first, closing.first_ms) = (commit.version, time_ms);
        }
        (closing.last, closing.last_ms) = (commit.version, time_ms);
        closing.stream_entries += u64::from(!commit.stream.is_empty());
    }

    /// Appends a note that the change stream is trimmed up to `upto`; `version` is the last commit before it.
    pub fn trim(
        &mut self,
        version: Version,
        upto: Version,
        time_ms: u64,
    ) -> Result<(), StorageError> {
        self.put(Write::Trim { version, upto }, time_ms, version)
    }

    fn put(
        &mut self,
        write: Write<'_>,
        time_ms: u64,
        durable: Version,
    ) -> Result<(), StorageError> {
        let position = RecordPosition {
            segment: self.number,
            salt: self.salt,
            offset: self.written + self.buffer.len() as u64,
        };
        record::encode(
            &mut self.buffer,
            position,
            &self.seal,
            write,
            time_ms,
            durable,
        );
        match self.buffer.len() < WRITE_BYTES {
            true => Ok(()),
            false => self.write_buffer(),
        }
    }

    fn write_buffer(&mut self) -> Result<(), StorageError> {
        let written = self.file.write_all_at(&self.buffer, self.written);
        written.map_err(|error| self.failed(&error))?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Writes the rest, durably. Everything up to `durable` is, and the change stream is trimmed up to `trimmed`.
    pub fn finish(mut self, durable: Version, trimmed: Version) -> Result<Link, StorageError> {
        self.write_buffer()?;
        let closing = Closing {
            end: self.written,
            trimmed,
            durable,
            ..self.closing
        };
        let head = SegmentHead {
            number: self.number,
            salt: self.salt,
            capacity: self.written,
        };
        let finished = segment::write_head(&*self.file, head)
            .and_then(|()| segment::write_closing(&*self.file, self.salt, closing))
            .and_then(|()| self.file.sync());
        finished.map_err(|error| self.failed(&error))?;
        Ok(Link {
            salt: self.salt,
            ended: Some(closing.into()),
        })
    }

    fn failed(&self, error: &std::io::Error) -> StorageError {
        io_error("writing", &segment::path(&self.folder, self.number), error)
    }
}
