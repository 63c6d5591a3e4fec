//! Files as `Read`, `Write` and `Seek`.

use std::{
    io::{self, Read, Seek, SeekFrom, Write},
    ops::Deref,
};

use isomer_data::{Durability, FileId, FileMetadata};

use super::io_error::as_io;
use crate::{Database, Error, ReadTransaction, Result};

/// An open file in a transaction that reads: `Read` and `Seek`. Each call accesses the transaction: wrap it in a
/// `BufReader` for small accesses.
pub struct ReadFile<'t> {
    transaction: &'t ReadTransaction,
    id: FileId,
    at: u64,
}

impl<'t> ReadFile<'t> {
    pub(super) fn new(transaction: &'t ReadTransaction, id: FileId) -> Self {
        let at = 0;
        Self {
            transaction,
            id,
            at,
        }
    }

    /// Its size in bytes.
    pub fn size(&self) -> Result<u64> {
        self.transaction
            .reading(|data| data.files().file_bytes(self.id))
    }
}

impl Read for ReadFile<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self
            .transaction
            .reading(|data| data.files().read_file(self.id, self.at, into))
            .map_err(as_io)?;
        self.at += read as u64;
        Ok(read)
    }
}

impl Seek for ReadFile<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let size = match to {
            SeekFrom::End(_) => self.size().map_err(as_io)?,
            _ => 0,
        };
        self.at = sought(to, self.at, size)?;
        Ok(self.at)
    }
}

/// An open file in a transaction that writes: `Read`, `Write` and `Seek`. Each call accesses the transaction: wrap it
/// in a `BufReader` or `BufWriter` for small accesses. All methods of [`ReadFile`] are available.
pub struct File<'t> {
    read: ReadFile<'t>,
}

impl<'t> Deref for File<'t> {
    type Target = ReadFile<'t>;

    fn deref(&self) -> &ReadFile<'t> {
        &self.read
    }
}

impl<'t> File<'t> {
    pub(super) fn new(transaction: &'t ReadTransaction, id: FileId, at: u64) -> Self {
        Self {
            read: ReadFile {
                transaction,
                id,
                at,
            },
        }
    }

    /// Truncates it, or extends it with zeros. The position does not change.
    pub fn set_size(&self, bytes: u64) -> Result<()> {
        let ReadFile {
            transaction, id, ..
        } = self.read;
        transaction.writing(|data| data.files_mut().resize_file(id, bytes))
    }
}

impl Read for File<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.read.read(into)
    }
}

impl Write for File<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let ReadFile {
            transaction,
            id,
            at,
        } = &mut self.read;
        transaction
            .writing(|data| data.files_mut().write_file(*id, *at, bytes))
            .map_err(as_io)?;
        *at += bytes.len() as u64;
        Ok(bytes.len())
    }

    /// Nothing is buffered: all writes are in the transaction.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for File<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.read.seek(to)
    }
}

fn sought(to: SeekFrom, at: u64, size: u64) -> io::Result<u64> {
    let place = match to {
        SeekFrom::Start(place) => Some(place),
        SeekFrom::Current(by) => at.checked_add_signed(by),
        SeekFrom::End(by) => size.checked_add_signed(by),
    };
    place.ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            "the position is before the beginning of the file",
        )
    })
}

/// A file opened for reading, at the version of its opening, for as long as needed: see [`Database::open_file`]. Reads
/// ahead, so that small reads are cheap.
pub struct FileReader {
    transaction: ReadTransaction,
    id: FileId,
    metadata: FileMetadata,
    at: u64,
    /// The read-ahead buffer, from this offset on.
    ahead: Vec<u8>,
    begins: u64,
}

/// Size of the read-ahead buffer.
const AHEAD_BYTES: usize = 256 << 10;

impl FileReader {
    /// Metadata of the file.
    pub fn metadata(&self) -> FileMetadata {
        self.metadata
    }

    fn buffered(&self) -> &[u8] {
        let within = self.at.checked_sub(self.begins);
        within
            .and_then(|within| self.ahead.get(usize::try_from(within).ok()?..))
            .unwrap_or_default()
    }
}

impl Read for FileReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.buffered().is_empty() {
            if into.len() >= AHEAD_BYTES {
                let read = self
                    .transaction
                    .reading(|data| data.files().read_file(self.id, self.at, into))
                    .map_err(as_io)?;
                self.at += read as u64;
                return Ok(read);
            }
            self.ahead.resize(AHEAD_BYTES, 0);
            let (id, at, ahead) = (self.id, self.at, &mut self.ahead);
            let read = self
                .transaction
                .reading(|data| data.files().read_file(id, at, ahead))
                .inspect_err(|_| ahead_lost(ahead))
                .map_err(as_io)?;
            self.ahead.truncate(read);
            self.begins = self.at;
        }
        let from = self.buffered();
        let count = from.len().min(into.len());
        into[..count].copy_from_slice(&from[..count]);
        self.at += count as u64;
        Ok(count)
    }
}

fn ahead_lost(ahead: &mut Vec<u8>) {
    ahead.clear();
}

impl Seek for FileReader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.at = sought(to, self.at, self.metadata.bytes)?;
        Ok(self.at)
    }
}

/// A file that is being written, of any size, in bounded memory: see [`Database::create_file`]. [`FileWriter::finish`]
/// publishes it under its path atomically; if it is dropped earlier, it leaves no trace.
#[must_use = "what is written becomes a file with `finish`"]
pub struct FileWriter {
    db: Database,
    path: String,
    id: FileId,
    /// The write buffer, from this offset on.
    held: Vec<u8>,
    stored: u64,
    finished: bool,
}

/// Size of the write buffer; each flush is a separate commit.
const WRITE_BUFFER_BYTES: usize = 4 << 20;

impl FileWriter {
    /// Bytes written so far.
    pub fn size(&self) -> u64 {
        self.stored + self.held.len() as u64
    }

    /// Flushes the buffer. Never conflicts: the file has no path yet.
    fn store(&mut self) -> Result<()> {
        if self.held.is_empty() {
            return Ok(());
        }
        let (db, id, at, held) = (&self.db, self.id, self.stored, &self.held);
        commit(db, Durability::Buffered, |data| {
            data.files_mut().write_file(id, at, held)
        })?;
        self.stored += self.held.len() as u64;
        self.held.clear();
        Ok(())
    }

    /// Publishes the file under its path, replacing an existing one, as durable as the database's commits are.
    pub fn finish(self) -> Result<FileMetadata> {
        self.finish_if(|_| Ok::<_, Error>(()))
    }

    /// Like [`FileWriter::finish`], if `check` accepts the file that exists at the path: it runs in the transaction
    /// that publishes the name, so no other transaction can interfere, and again if that conflicts. If it refuses, the
    /// existing file remains.
    ///
    /// ```
    /// use isomerdb::{Database, Error};
    /// use std::io::Write;
    ///
    /// let db = Database::open_in_memory()?;
    /// let only_new = |now: Option<&isomerdb::FileMetadata>| match now {
    ///     Some(_) => Err(Error::invalid("the name is taken")),
    ///     None => Ok(()),
    /// };
    /// let (mut first, mut second) = (db.create_file("/name")?, db.create_file("/name")?);
    /// first.write_all(b"first")?;
    /// second.write_all(b"second")?;
    /// assert_eq!(second.finish_if(only_new)?.bytes, 6);
    /// assert!(first.finish_if(only_new).is_err());
    /// assert_eq!(db.read(|tx| tx.files().read("/name"))?, b"second");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn finish_if<E: From<Error>>(
        mut self,
        mut check: impl FnMut(Option<&FileMetadata>) -> Result<(), E>,
    ) -> Result<FileMetadata, E> {
        self.store()?;
        let (id, path) = (self.id, self.path.as_str());
        let metadata = self.db.try_transact(|tx| -> Result<FileMetadata, E> {
            check(tx.files().metadata(path)?.as_ref())?;
            tx.writing(|data| data.files_mut().name_file(id, path))?;
            let metadata = tx.files().metadata(path)?;
            Ok(metadata.ok_or_else(|| {
                Error::new(
                    crate::ErrorKind::Internal,
                    "a file is not found under its new name",
                )
            })?)
        })?;
        self.finished = true;
        Ok(metadata)
    }
}

impl Write for FileWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.held.len() >= WRITE_BUFFER_BYTES {
            self.store().map_err(as_io)?;
        }
        // For any size of the input, no commit is larger than the buffer.
        let taken = bytes.len().min(WRITE_BUFFER_BYTES - self.held.len());
        self.held.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.store().map_err(as_io)
    }
}

impl Drop for FileWriter {
    fn drop(&mut self) {
        if !self.finished {
            let id = self.id;
            // Leftovers are removed when the database is opened again.
            let _ = commit(&self.db, Durability::Buffered, |data| {
                data.files_mut().remove_unnamed_file(id)
            });
        }
    }
}

/// Runs `body` in its own transaction, with retries.
fn commit<T>(
    db: &Database,
    durability: Durability,
    mut body: impl FnMut(&mut isomer_data::Transaction) -> Result<T, isomer_data::DataError>,
) -> Result<T> {
    db.retrying(|| {
        let tx = db.begin()?;
        let made = tx.writing(&mut body)?;
        tx.set_durability(durability);
        tx.commit()?;
        Ok(made)
    })
}

impl Database {
    /// Opens a file for reading, in its own transaction: it is not affected by later writes.
    ///
    /// ```
    /// use isomerdb::Database;
    /// use std::io::{Read, Write};
    ///
    /// let db = Database::open_in_memory()?;
    /// let mut film = db.create_file("/film")?;
    /// for frame in 0..1000u32 {
    ///     film.write_all(&[frame as u8; 20_000])?; // in all 20 MB, at most 4 of them in memory
    /// }
    /// assert!(db.open_file("/film").is_err());
    /// film.finish()?;
    ///
    /// let mut film = db.open_file("/film")?;
    /// db.transact(|tx| tx.files().remove("/film"))?;
    /// let mut frame = vec![0; 20_000];
    /// for number in 0..1000u32 {
    ///     film.read_exact(&mut frame)?;
    ///     assert_eq!(frame[0], number as u8);
    /// }
    /// assert_eq!(film.read(&mut frame)?, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open_file(&self, path: &str) -> Result<FileReader> {
        let transaction = self.begin_read()?;
        let (id, metadata) = transaction.reading(|data| {
            let id = data.files().file(path)?;
            let metadata = data.files().file_metadata(path)?;
            Ok((id, metadata))
        })?;
        let metadata = metadata.ok_or_else(|| {
            Error::new(
                crate::ErrorKind::NotFound,
                format!("there is no file `{path}`"),
            )
        })?;
        Ok(FileReader {
            transaction,
            id,
            metadata,
            at: 0,
            ahead: Vec::new(),
            begins: 0,
        })
    }

    /// Starts writing a file of any size, which replaces an existing one when it is finished. Holds at most 4 MiB in
    /// memory; the rest is stored without a path, in separate commits.
    pub fn create_file(&self, path: &str) -> Result<FileWriter> {
        self.check_place(path)?;
        let id = commit(self, Durability::Buffered, |data| {
            data.files_mut().create_unnamed_file()
        })?;
        Ok(FileWriter {
            db: self.clone(),
            path: path.to_owned(),
            id,
            held: Vec::new(),
            stored: 0,
            finished: false,
        })
    }

    /// Reports errors early that otherwise would appear when it is finished.
    fn check_place(&self, path: &str) -> Result<()> {
        self.begin_read()?.reading(|data| {
            let folder = match path.trim_end_matches('/').rfind('/') {
                Some(0) | None => "/",
                Some(at) => &path[..at],
            };
            if !data.files().is_folder(folder)? {
                return Err(isomer_data::DataError::NotFound(format!(
                    "there is no folder `{folder}`: make it first"
                )));
            }
            match data.files().is_folder(path)? {
                true => Err(isomer_data::DataError::Exists(format!(
                    "`{path}` is a folder: choose another name"
                ))),
                false => Ok(()),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_write_is_stored_in_parts() {
        let least = Database::builder().max_transaction_bytes(3 * WRITE_BUFFER_BYTES);
        let db = least.open_in_memory().unwrap();
        let mut writer = db.create_file("/large").unwrap();
        writer
            .write_all(&vec![7; 5 * WRITE_BUFFER_BYTES + 1])
            .unwrap();
        let metadata = writer.finish().unwrap();
        assert_eq!(metadata.bytes, 5 * WRITE_BUFFER_BYTES as u64 + 1);
    }
}
