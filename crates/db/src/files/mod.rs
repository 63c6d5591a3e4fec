//! Files in a database.

mod directory;
mod folder;
mod io_error;
mod locks;
mod stream;

use std::ops::Deref;

use isomer_data::{FileMetadata, PathKind};

pub use directory::{Directory, ReadAt, ReadSeek, WriteFile};
pub use folder::{Copied, FolderError};
pub use locks::DirectoryLock;
pub(crate) use locks::Locks;
pub use stream::{File, FileReader, FileWriter, ReadFile};

use crate::{ReadTransaction, Result, WriteTransaction};

/// Entries per read of a listing.
const PAGE: usize = 1024;

/// The files of a database, in a transaction that reads: see [`ReadTransaction::files`]. Paths begin with `/`.
pub struct ReadFiles<'t> {
    transaction: &'t ReadTransaction,
}

/// The files of a database, in a transaction: see [`WriteTransaction::files`]. Paths begin with `/`. All methods of
/// [`ReadFiles`] are available.
///
/// ```
/// use isomerdb::Database;
/// use std::io::{Read, Seek, SeekFrom, Write};
///
/// let db = Database::open_in_memory()?;
/// db.try_transact(|tx| {
///     let files = tx.files();
///     files.create_folders("/letters/2026")?;
///     files.write("/letters/2026/ada.txt", b"Dear Ada,")?;
///     let mut letter = tx.files().append("/letters/2026/ada.txt")?;
///     letter.write_all(b" how are you?")?;
///     letter.seek(SeekFrom::Start(5))?;
///     letter.write_all(b"BOB")?;
///     files.rename("/letters", "/archive")?;
///     assert_eq!(files.read("/archive/2026/ada.txt")?, b"Dear BOB, how are you?");
///     // In the same transaction as all else.
///     tx.bucket("letters").put("ada", "/archive/2026/ada.txt")?;
///     Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
/// })?;
/// let mut text = String::new();
/// db.open_file("/archive/2026/ada.txt")?.read_to_string(&mut text).unwrap();
/// assert_eq!(text, "Dear BOB, how are you?");
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
pub struct Files<'t> {
    read: ReadFiles<'t>,
}

impl<'t> Deref for Files<'t> {
    type Target = ReadFiles<'t>;

    fn deref(&self) -> &ReadFiles<'t> {
        &self.read
    }
}

impl ReadTransaction {
    /// The files of the database.
    pub fn files(&self) -> ReadFiles<'_> {
        ReadFiles { transaction: self }
    }
}

impl WriteTransaction {
    /// The files of the database.
    pub fn files(&self) -> Files<'_> {
        Files {
            read: ReadTransaction::files(self),
        }
    }
}

impl<'t> ReadFiles<'t> {
    /// The metadata of the file or folder at a path; none if there is none.
    pub fn metadata(&self, path: &str) -> Result<Option<FileMetadata>> {
        self.transaction
            .reading(|data| data.files().file_metadata(path))
    }

    /// Whether a file or folder exists at a path.
    pub fn exists(&self, path: &str) -> Result<bool> {
        Ok(self.metadata(path)?.is_some())
    }

    /// All entries of a folder, by name.
    pub fn list(&self, folder: &str) -> Result<Vec<(String, FileMetadata)>> {
        let mut all: Vec<(String, FileMetadata)> = Vec::new();
        loop {
            let after = all.last().map(|(name, _)| name.clone());
            let page = self
                .transaction
                .reading(|data| data.files().list_folder(folder, after.as_deref(), PAGE))?;
            let complete = page.len() < PAGE;
            all.extend(page);
            if complete {
                return Ok(all);
            }
        }
    }

    /// The entries of a folder, by name, starting after the name `after`, at most `limit`.
    pub fn list_page(
        &self,
        folder: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, FileMetadata)>> {
        self.transaction
            .reading(|data| data.files().list_folder(folder, after, limit))
    }

    /// All bytes of a file.
    pub fn read(&self, path: &str) -> Result<Vec<u8>> {
        self.transaction.reading(|data| {
            let id = data.files().file(path)?;
            let size = data.files().file_bytes(id)?;
            let size = usize::try_from(size).map_err(|_| {
                isomer_data::DataError::Invalid(format!(
                    "`{path}` has {size} bytes, more than this machine can address: read it in parts"
                ))
            })?;
            let mut bytes = vec![0; size];
            data.files().read_file(id, 0, &mut bytes)?;
            Ok(bytes)
        })
    }

    /// Opens a file at its beginning, for reading.
    pub fn open(&self, path: &str) -> Result<ReadFile<'t>> {
        let id = self.transaction.reading(|data| data.files().file(path))?;
        Ok(ReadFile::new(self.transaction, id))
    }
}

impl<'t> Files<'t> {
    /// Creates a folder; its parent must exist. `Exists` if the path is taken.
    pub fn create_folder(&self, path: &str) -> Result<()> {
        self.read
            .transaction
            .writing(|data| data.files_mut().create_folder(path))
    }

    /// Creates a folder and its missing parents.
    pub fn create_folders(&self, path: &str) -> Result<()> {
        self.read
            .transaction
            .writing(|data| data.files_mut().create_folders(path))
    }

    /// Creates an empty file and opens it. `Exists` if the path is taken.
    pub fn create(&self, path: &str) -> Result<File<'t>> {
        let transaction = self.read.transaction;
        let id = transaction.writing(|data| data.files_mut().create_file(path))?;
        Ok(File::new(transaction, id, 0))
    }

    /// Opens a file at its beginning, for reading and writing.
    pub fn open(&self, path: &str) -> Result<File<'t>> {
        let transaction = self.read.transaction;
        let id = transaction.reading(|data| data.files().file(path))?;
        Ok(File::new(transaction, id, 0))
    }

    /// Opens a file at its end; creates it if the path is free.
    pub fn append(&self, path: &str) -> Result<File<'t>> {
        let transaction = self.read.transaction;
        let id = transaction.writing(|data| {
            match data
                .files()
                .file_metadata(path)?
                .map(|metadata| metadata.kind)
            {
                None => data.files_mut().create_file(path),
                Some(PathKind::File | PathKind::Folder) => data.files().file(path),
            }
        })?;
        let end = transaction.reading(|data| data.files().file_bytes(id))?;
        Ok(File::new(transaction, id, end))
    }

    /// Creates or replaces the file at a path with the content `bytes`: concurrent calls on two replicas never mix
    /// their content.
    pub fn write(&self, path: &str, bytes: &[u8]) -> Result<()> {
        self.read
            .transaction
            .writing(|data| data.files_mut().put_file(path, bytes))
    }

    /// Moves a file or a folder with its content; the cost does not depend on the content. A file may replace a file.
    pub fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.read
            .transaction
            .writing(|data| data.files_mut().rename_path(from, to))
    }

    /// Removes a file, or an empty folder.
    pub fn remove(&self, path: &str) -> Result<()> {
        self.read
            .transaction
            .writing(|data| data.files_mut().remove_path(path))
    }

    /// Removes a file, or a folder with its content; returns how many files and folders were removed.
    pub fn remove_all(&self, path: &str) -> Result<u64> {
        self.read
            .transaction
            .writing(|data| data.files_mut().remove_all(path))
    }
}
