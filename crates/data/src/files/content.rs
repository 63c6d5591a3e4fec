//! Content of files: reads and writes at positions, in chunks.

use isomer_layout::{
    DataError,
    files::{CHUNK_BYTES, MAX_FILE_BYTES, Stored},
    keyspace::{self, after_prefix},
    stream::change::Change,
};
use isomer_storage::{KeyRange, Order, Page, PageLimit};

use crate::{FileId, FileTree, FileTreeMut, footprint::Space, replicated::FileNote};

/// Chunks that are read at a time.
const PAGE: PageLimit = PageLimit {
    keys: 64,
    bytes: 4 << 20,
};

impl FileTree<'_> {
    /// The size of a file in bytes.
    pub fn file_bytes(self, file: FileId) -> Result<u64, DataError> {
        Ok(self.file_record(file)?.bytes)
    }

    /// Reads from `offset` on into `into`; returns how many bytes were read, fewer than requested only at the end.
    pub fn read_file(self, file: FileId, offset: u64, into: &mut [u8]) -> Result<usize, DataError> {
        let size = self.file_record(file)?.bytes;
        let length = into
            .len()
            .min(usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX));
        if length == 0 {
            return Ok(0);
        }
        let into = &mut into[..length];
        into.fill(0);
        let end = offset + length as u64;
        let (first, behind) = (offset / CHUNK_BYTES, end.div_ceil(CHUNK_BYTES));
        let prefix = keyspace::file_chunks(file.0);
        let mut from = keyspace::file_chunk(file.0, first);
        let to = keyspace::file_chunk(file.0, behind);
        let mut page = Page::new();
        loop {
            let range = KeyRange {
                start: &from,
                end: Some(&to),
            };
            self.tx
                .read()
                .scan(range, Order::Ascending, PAGE, &mut page)?;
            for (key, bytes) in page.iter() {
                let chunk = keyspace::sole_id(&key[prefix.len()..], "the number of a chunk")?;
                copy_chunk(chunk * CHUNK_BYTES, bytes, offset, into);
            }
            match page.next() {
                Some(rest) => from = rest.start.to_vec(),
                None => return Ok(length),
            }
        }
    }
}

impl FileTreeMut<'_> {
    /// Writes `bytes` at `offset`, over the existing content; a gap behind the end becomes zeros.
    ///
    /// # Errors
    /// [`DataError::Limit`] beyond the largest size, [`DataError::NotFound`] for a removed file.
    pub fn write_file(&mut self, file: FileId, offset: u64, bytes: &[u8]) -> Result<(), DataError> {
        self.tx.check_writable()?;
        let record = self.tx.files().file_record(file)?;
        if bytes.is_empty() {
            return Ok(());
        }
        let end = check_end(offset, bytes.len() as u64)?;
        let mut at = offset;
        while at < end {
            let chunk = at / CHUNK_BYTES;
            let begin = chunk * CHUNK_BYTES;
            let upto = end.min(begin + CHUNK_BYTES);
            let part = &bytes[(at - offset) as usize..(upto - offset) as usize];
            let key = keyspace::file_chunk(file.0, chunk);
            // The part of the chunk that stays: nothing, where all of the file's bytes in it are overwritten.
            let stays = at > begin || upto < record.bytes.min(begin + CHUNK_BYTES);
            if stays {
                let mut whole = self.tx.read().get(&key)?.unwrap_or_default();
                let (from, to) = ((at - begin) as usize, (upto - begin) as usize);
                if whole.len() < to {
                    whole.resize(to, 0);
                }
                whole[from..to].copy_from_slice(part);
                self.tx.put(&key, &whole)?;
            } else {
                self.tx.put(&key, part)?;
            }
            at = upto;
        }
        let now = self.tx.now_ms();
        self.put_file_record(
            file,
            Stored {
                bytes: record.bytes.max(end),
                modified_ms: now,
                ..record
            },
        )?;
        self.tx.log(&Change::FileWritten {
            file: file.0,
            offset,
            bytes,
        });
        self.tx.replication_mut().note_file(|| {
            FileNote::Written(file.0, offset / CHUNK_BYTES, end.div_ceil(CHUNK_BYTES))
        });
        self.tx
            .replication_mut()
            .note_file(|| FileNote::Resized(file.0));
        Ok(())
    }

    /// Puts a file with this content under a path, replacing an existing one: concurrent puts in two replicas never mix
    /// parts of both.
    ///
    /// # Errors
    /// Those of [`FileTreeMut::create_file`]; [`DataError::Invalid`] if the path is a folder.
    pub fn put_file(&mut self, path: &str, bytes: &[u8]) -> Result<(), DataError> {
        if self.tx.files().file_metadata(path)?.is_some() {
            self.tx.files().file(path)?; // a folder is refused
            self.remove_path(path)?;
        }
        let file = self.create_file(path)?;
        self.write_file(file, 0, bytes)
    }

    /// Truncates a file, or extends it by zeros.
    pub fn resize_file(&mut self, file: FileId, size: u64) -> Result<(), DataError> {
        self.tx.check_writable()?;
        let record = self.tx.files().file_record(file)?;
        check_end(size, 0)?;
        if size < record.bytes {
            let within = (size % CHUNK_BYTES) as usize;
            let last = keyspace::file_chunk(file.0, size / CHUNK_BYTES);
            if within > 0
                && let Some(mut bytes) = self.tx.read().get(&last)?
                && bytes.len() > within
            {
                bytes.truncate(within);
                self.tx.put(&last, &bytes)?;
            }
            let behind = size.div_ceil(CHUNK_BYTES);
            self.delete_chunks(file, behind)?;
            self.tx
                .replication_mut()
                .note_file(|| FileNote::Truncated(file.0, behind));
            if within > 0 {
                self.tx
                    .replication_mut()
                    .note_file(|| FileNote::Written(file.0, behind - 1, behind));
            }
        }
        self.tx
            .replication_mut()
            .note_file(|| FileNote::Resized(file.0));
        let now = self.tx.now_ms();
        self.put_file_record(
            file,
            Stored {
                bytes: size,
                modified_ms: now,
                ..record
            },
        )
    }

    /// Deletes all chunks from one on.
    fn delete_chunks(&mut self, file: FileId, first: u64) -> Result<(), DataError> {
        let start = keyspace::file_chunk(file.0, first);
        let end = after_prefix(&keyspace::file_chunks(file.0));
        self.tx.write(start.len(), |tx| {
            tx.delete_range(KeyRange {
                start: &start,
                end: end.as_deref(),
            })
        })
    }

    #[doc(hidden)]
    pub fn put_file_record(&mut self, file: FileId, record: Stored) -> Result<(), DataError> {
        self.tx.put(&keyspace::file(file.0), &record.encode())?;
        self.change_file(file);
        self.tx.log(&Change::FileChanged {
            file: file.0,
            size: record.bytes,
            created_ms: record.created_ms,
            modified_ms: record.modified_ms,
        });
        Ok(())
    }

    /// Deletes the record of a file or folder and all content.
    #[doc(hidden)]
    pub fn delete_content(&mut self, file: FileId) -> Result<(), DataError> {
        self.tx.delete(&keyspace::file(file.0))?;
        self.delete_chunks(file, 0)?;
        self.change_file(file);
        self.tx.log(&Change::FileRemoved { file: file.0 });
        Ok(())
    }

    #[doc(hidden)]
    pub fn change_file(&mut self, file: FileId) {
        self.tx
            .footprint_mut()
            .change_key_once(Space::Files, &file.0.to_be_bytes());
    }
}

/// Copies the intersection of a chunk that begins at `begin` with the range that begins at `offset`.
fn copy_chunk(begin: u64, bytes: &[u8], offset: u64, into: &mut [u8]) {
    let end = offset + into.len() as u64;
    let (from, to) = (begin.max(offset), (begin + bytes.len() as u64).min(end));
    if from < to {
        into[(from - offset) as usize..(to - offset) as usize]
            .copy_from_slice(&bytes[(from - begin) as usize..(to - begin) as usize]);
    }
}

fn check_end(offset: u64, length: u64) -> Result<u64, DataError> {
    let end = offset.saturating_add(length);
    if end > MAX_FILE_BYTES {
        return Err(DataError::Limit {
            what: "a file".into(),
            size: format!("{end} bytes"),
            max: format!("{MAX_FILE_BYTES} bytes"),
            advice: "write it as several files",
        });
    }
    Ok(end)
}
