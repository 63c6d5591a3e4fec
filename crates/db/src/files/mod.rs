//! Files in a database.

mod directory;
mod folder;
mod stream;

use isomer_data::{FileAbout, FileId, PathKind};

pub(crate) use directory::Locks;
pub use directory::{Directory, DirectoryLock, ReadAt, ReadSeek, WriteFile};
pub use folder::{Copied, FolderError};
pub use stream::{File, FileReader, FileWriter};

use crate::{Error, Result, Transaction};

/// Entries per read of a listing.
const PAGE: usize = 1024;

/// The files of a database, in a transaction: see [`Transaction::files`]. Paths begin with `/`.
///
/// ```
/// use isomer_db::Database;
/// use std::io::{Read, Seek, SeekFrom, Write};
///
/// let db = Database::open_in_memory()?;
/// db.transact(|tx| {
///     let mut files = tx.files();
///     files.create_folders("/letters/2026")?;
///     files.write("/letters/2026/ada.txt", b"Dear Ada,")?;
///     let mut letter = tx.files().append("/letters/2026/ada.txt")?;
///     letter.write_all(b" how are you?")?;
///     letter.seek(SeekFrom::Start(5))?;
///     letter.write_all(b"BOB")?;
///     let mut files = tx.files();
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
    transaction: &'t mut Transaction,
}

impl Transaction {
    /// The files of the database.
    pub fn files(&mut self) -> Files<'_> {
        Files { transaction: self }
    }
}

impl<'t> Files<'t> {
    /// The metadata of the file or folder at a path; none if there is none.
    pub fn about(&mut self, path: &str) -> Result<Option<FileAbout>> {
        self.transaction.below(|data| data.file_about(path))
    }

    /// Whether a file or folder exists at a path.
    pub fn exists(&mut self, path: &str) -> Result<bool> {
        Ok(self.about(path)?.is_some())
    }

    /// All entries of a folder, by name.
    pub fn list(&mut self, folder: &str) -> Result<Vec<(String, FileAbout)>> {
        let mut all: Vec<(String, FileAbout)> = Vec::new();
        loop {
            let after = all.last().map(|(name, _)| name.clone());
            let page = self
                .transaction
                .below(|data| data.list_folder(folder, after.as_deref(), PAGE))?;
            let complete = page.len() < PAGE;
            all.extend(page);
            if complete {
                return Ok(all);
            }
        }
    }

    /// The entries of a folder, by name, starting after the name `after`, at most `limit`.
    pub fn list_page(
        &mut self,
        folder: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, FileAbout)>> {
        self.transaction
            .below(|data| data.list_folder(folder, after, limit))
    }

    /// Creates a folder; its parent must exist. `Exists` if the path is taken.
    pub fn create_folder(&mut self, path: &str) -> Result<()> {
        self.transaction.below(|data| data.create_folder(path))
    }

    /// Creates a folder and its missing parents.
    pub fn create_folders(&mut self, path: &str) -> Result<()> {
        self.transaction.below(|data| data.create_folders(path))
    }

    /// Creates an empty file and opens it. `Exists` if the path is taken.
    pub fn create(self, path: &str) -> Result<File<'t>> {
        let id = self.transaction.below(|data| data.create_file(path))?;
        Ok(File::new(self.transaction, id, 0))
    }

    /// Opens a file at its beginning, for reading and, if the transaction may write, for writing.
    pub fn open(self, path: &str) -> Result<File<'t>> {
        let id = self.transaction.below(|data| data.file(path))?;
        Ok(File::new(self.transaction, id, 0))
    }

    /// Opens a file at its end; creates it if the path is free.
    pub fn append(mut self, path: &str) -> Result<File<'t>> {
        let id = self.open_or_create(path)?;
        let end = self.transaction.below(|data| data.file_bytes(id))?;
        Ok(File::new(self.transaction, id, end))
    }

    /// All bytes of a file.
    pub fn read(&mut self, path: &str) -> Result<Vec<u8>> {
        self.transaction.below(|data| {
            let id = data.file(path)?;
            let size = data.file_bytes(id)?;
            let size = usize::try_from(size).map_err(|_| {
                isomer_data::DataError::Invalid(format!(
                    "`{path}` has {size} bytes, more than this machine can address: read it in parts"
                ))
            })?;
            let mut bytes = vec![0; size];
            data.read_file(id, 0, &mut bytes)?;
            Ok(bytes)
        })
    }

    /// Creates or replaces the file at a path with the content `bytes`: concurrent calls on two replicas never mix
    /// their content.
    pub fn write(&mut self, path: &str, bytes: &[u8]) -> Result<()> {
        self.transaction.below(|data| data.put_file(path, bytes))
    }

    /// Moves a file or a folder with its content; the cost does not depend on the content. A file may replace a file.
    pub fn rename(&mut self, from: &str, to: &str) -> Result<()> {
        self.transaction.below(|data| data.rename_path(from, to))
    }

    /// Removes a file, or an empty folder.
    pub fn remove(&mut self, path: &str) -> Result<()> {
        self.transaction.below(|data| data.remove_path(path))
    }

    /// Removes a file, or a folder with its content; returns how many files and folders were removed.
    pub fn remove_all(&mut self, path: &str) -> Result<u64> {
        self.transaction.below(|data| data.remove_all(path))
    }

    fn open_or_create(&mut self, path: &str) -> Result<FileId> {
        self.transaction.below(
            |data| match data.file_about(path)?.map(|about| about.kind) {
                None => data.create_file(path),
                Some(PathKind::File | PathKind::Folder) => data.file(path),
            },
        )
    }
}

/// Converts an error of the database to an I/O error.
fn as_io(error: Error) -> std::io::Error {
    use crate::ErrorKind;
    let kind = match error.kind() {
        ErrorKind::NotFound => std::io::ErrorKind::NotFound,
        ErrorKind::Exists => std::io::ErrorKind::AlreadyExists,
        ErrorKind::Denied => std::io::ErrorKind::PermissionDenied,
        ErrorKind::Invalid => std::io::ErrorKind::InvalidInput,
        _ => std::io::ErrorKind::Other,
    };
    std::io::Error::new(kind, error)
}
