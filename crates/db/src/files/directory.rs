//! A database as a directory for other libraries.

use std::{
    io::{self, Read, Seek, SeekFrom, Write},
    sync::Arc,
};

use parking_lot::Mutex;

use super::{DirectoryLock, FileReader, FileWriter, io_error::as_io};
use crate::{Database, ErrorKind};

/// The interface that libraries with their own files need from a directory: a full-text index, a cache, an image store.
/// [`Database`] implements it, so that such a library stores its files in the database.
///
/// - A finished file appears under its name atomically, replacing an older one; readers of the older one are not
///   affected, even if it
///   is removed.
/// - When a writing call returns, its effect is as durable as the database's commits.
/// - A reader holds the version of the database at which it was opened: drop readers that are not needed.
/// - Locks are between the threads of this process, and between the processes that share the database; they end with
///   the process.
///
/// ```
/// use isomerdb::{Database, Directory};
/// use std::io::{self, Read};
///
/// /// A library that knows nothing of databases: keeps numbered segments, and a list of those that count.
/// struct Segments<'d> { directory: &'d dyn Directory }
///
/// impl Segments<'_> {
///     fn add(&self, content: &[u8]) -> io::Result<()> {
///         let number = self.directory.list("/segments")?.len();
///         self.save(&format!("/segments/{number}"), content)?;
///         self.save("/list.new", (0..=number).map(|at| format!("{at}\n")).collect::<String>().as_bytes())?;
///         self.directory.rename("/list.new", "/list")
///     }
///
///     fn save(&self, path: &str, content: &[u8]) -> io::Result<()> {
///         let mut file = self.directory.create(path)?;
///         io::Write::write_all(&mut file, content)?;
///         file.finish()
///     }
///
///     fn all(&self) -> io::Result<Vec<u8>> {
///         let (mut list, mut all) = (String::new(), Vec::new());
///         self.directory.open(&"/list")?.read_to_string(&mut list)?;
///         for number in list.lines() {
///             self.directory.open(&format!("/segments/{number}"))?.read_to_end(&mut all)?;
///         }
///         Ok(all)
///     }
/// }
///
/// let db = Database::open_in_memory()?;
/// db.transact(|tx| tx.files().create_folder("/segments"))?;
/// let segments = Segments { directory: &db };
/// segments.add(b"one ")?;
/// segments.add(b"two")?;
/// assert_eq!(segments.all()?, b"one two");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Directory: Send + Sync {
    /// The names in a folder, ascending.
    fn list(&self, folder: &str) -> io::Result<Vec<String>>;
    /// The bytes of a file; none if it does not exist.
    fn size(&self, path: &str) -> io::Result<Option<u64>>;
    /// Opens the current content of a file for reading.
    fn open(&self, path: &str) -> io::Result<Box<dyn ReadSeek>>;
    /// Opens the current content of a file for positioned reads by several threads.
    fn open_shared(&self, path: &str) -> io::Result<Arc<dyn ReadAt>>;
    /// Whether a file or folder exists at a path.
    fn exists(&self, path: &str) -> io::Result<bool>;
    /// All bytes of a file, consistently.
    fn read_whole(&self, path: &str) -> io::Result<Vec<u8>>;
    /// Writes a file with these bytes, atomically replacing an existing one.
    fn replace(&self, path: &str, bytes: &[u8]) -> io::Result<()>;
    /// Creates a folder and its missing parents.
    fn create_folders(&self, path: &str) -> io::Result<()>;
    /// Starts writing a file.
    fn create(&self, path: &str) -> io::Result<Box<dyn WriteFile>>;
    /// Moves a file, replacing an existing one, or a folder.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file or an empty folder.
    fn remove(&self, path: &str) -> io::Result<()>;
    /// Holds the lock with this name until the returned guard is dropped; [`io::ErrorKind::WouldBlock`] if it is held,
    /// unless `wait`. A lock is not a file.
    fn lock(&self, name: &str, wait: bool) -> io::Result<DirectoryLock>;
    /// Makes all writes durable, including buffered commits.
    fn sync(&self) -> io::Result<()>;
}

/// A file that several threads read concurrently.
pub trait ReadAt: Send + Sync {
    /// Its size in bytes.
    fn size(&self) -> u64;
    /// Reads exactly `into.len()` bytes from `offset` on; [`io::ErrorKind::UnexpectedEof`] if there are fewer.
    fn read_exact_at(&self, into: &mut [u8], offset: u64) -> io::Result<()>;
}

struct Shared {
    size: u64,
    reader: Mutex<FileReader>,
}

impl ReadAt for Shared {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_exact_at(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        let mut reader = self.reader.lock();
        reader.seek(SeekFrom::Start(offset))?;
        reader.read_exact(into)
    }
}

/// A stream with seeking.
pub trait ReadSeek: Read + Seek + Send {}

impl<T: Read + Seek + Send> ReadSeek for T {}

/// A file that is being written.
pub trait WriteFile: Write + Send {
    /// Publishes it under its path; it is on disk when this returns.
    fn finish(self: Box<Self>) -> io::Result<()>;
}

impl WriteFile for FileWriter {
    fn finish(self: Box<Self>) -> io::Result<()> {
        FileWriter::finish(*self).map(drop).map_err(as_io)
    }
}

impl Directory for Database {
    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let listed = self.read(|tx| tx.files().list(folder)).map_err(as_io)?;
        Ok(listed.into_iter().map(|(name, _)| name).collect())
    }

    fn size(&self, path: &str) -> io::Result<Option<u64>> {
        match self.open_file(path) {
            Ok(file) => Ok(Some(FileReader::metadata(&file).bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(as_io(error)),
        }
    }

    fn open(&self, path: &str) -> io::Result<Box<dyn ReadSeek>> {
        Ok(Box::new(self.open_file(path).map_err(as_io)?))
    }

    fn open_shared(&self, path: &str) -> io::Result<Arc<dyn ReadAt>> {
        let reader = self.open_file(path).map_err(as_io)?;
        Ok(Arc::new(Shared {
            size: reader.metadata().bytes,
            reader: Mutex::new(reader),
        }))
    }

    fn exists(&self, path: &str) -> io::Result<bool> {
        self.read(|tx| tx.files().exists(path)).map_err(as_io)
    }

    fn read_whole(&self, path: &str) -> io::Result<Vec<u8>> {
        self.read(|tx| tx.files().read(path)).map_err(as_io)
    }

    fn replace(&self, path: &str, bytes: &[u8]) -> io::Result<()> {
        self.transact(|tx| tx.files().write(path, bytes))
            .map_err(as_io)
    }

    fn create_folders(&self, path: &str) -> io::Result<()> {
        self.transact(|tx| tx.files().create_folders(path))
            .map_err(as_io)
    }

    fn create(&self, path: &str) -> io::Result<Box<dyn WriteFile>> {
        Ok(Box::new(self.create_file(path).map_err(as_io)?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.transact(|tx| tx.files().rename(from, to))
            .map_err(as_io)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.transact(|tx| tx.files().remove(path)).map_err(as_io)
    }

    fn lock(&self, name: &str, wait: bool) -> io::Result<DirectoryLock> {
        self.inner.locks.lock(name, wait)
    }

    fn sync(&self) -> io::Result<()> {
        Database::sync(self).map_err(as_io)
    }
}
