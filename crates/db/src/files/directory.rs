//! A database as a directory for other libraries.

use std::io::{self, Read, Seek, Write};

use super::{FileReader, FileWriter, as_io};
use crate::{Database, ErrorKind};

/// What libraries that keep files of their own ask of a directory: an index of texts, a cache, a store of images. A database fills
/// it ([`Database`] implements it), so that such a library keeps its files in the database.
///
/// A file appears under its name when it is finished, whole, in the place of an older one; readers of the older one go on with it.
///
/// ```
/// use isomer_db::{Database, Directory};
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
    /// The bytes of a file; nothing where there is none.
    fn size(&self, path: &str) -> io::Result<Option<u64>>;
    /// Opens a file to read, as it is now.
    fn open(&self, path: &str) -> io::Result<Box<dyn ReadSeek>>;
    /// Begins a file.
    fn create(&self, path: &str) -> io::Result<Box<dyn WriteFile>>;
    /// Moves a file, in the place of another one where one stands there, or a folder.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file or an empty folder.
    fn remove(&self, path: &str) -> io::Result<()>;
}

/// A stream to read from anywhere.
pub trait ReadSeek: Read + Seek + Send {}

impl<T: Read + Seek + Send> ReadSeek for T {}

/// A file that is being written.
pub trait WriteFile: Write + Send {
    /// Puts it under its path, on disk when this returns.
    fn finish(self: Box<Self>) -> io::Result<()>;
}

impl WriteFile for FileWriter {
    fn finish(self: Box<Self>) -> io::Result<()> {
        FileWriter::finish(*self).map_err(as_io)
    }
}

impl Directory for Database {
    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let listed = self.read(|tx| tx.files().list(folder)).map_err(as_io)?;
        Ok(listed.into_iter().map(|(name, _)| name).collect())
    }

    fn size(&self, path: &str) -> io::Result<Option<u64>> {
        match self.open_file(path) {
            Ok(file) => Ok(Some(FileReader::about(&file).bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(as_io(error)),
        }
    }

    fn open(&self, path: &str) -> io::Result<Box<dyn ReadSeek>> {
        Ok(Box::new(self.open_file(path).map_err(as_io)?))
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
}
