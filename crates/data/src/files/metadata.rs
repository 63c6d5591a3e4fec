//! What is known of a file or folder.

use isomer_layout::{
    DataError,
    files::{ROOT, Stored, names, not_there},
    keyspace::{self, FileKind},
};

use crate::{FileTree, footprint::Space};

/// The kind of a path's target. Closed: the file tree has no links and no devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PathKind {
    /// A stream of bytes.
    File,
    /// A folder.
    Folder,
}

/// A file, independent of its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(#[doc(hidden)] pub u64);

/// The metadata of a file or folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileMetadata {
    /// Its kind.
    pub kind: PathKind,
    /// The file; nothing for a folder.
    pub file: Option<FileId>,
    /// Its bytes; 0 for a folder.
    pub bytes: u64,
    /// When it was made, in ms since 1970 UTC; 0 for the root, and for a folder of a replica that exists only because
    /// of its content.
    pub created_ms: u64,
    /// When its content last changed, in ms since 1970 UTC; for a folder when it was made.
    pub modified_ms: u64,
    /// Distinguishes contents of one size and time where several replicas wrote the file concurrently; else 0, and for
    /// a folder.
    pub merge_mark: u64,
}

impl FileTree<'_> {
    /// The target of a path; nothing if it does not exist.
    pub fn file_metadata(self, path: &str) -> Result<Option<FileMetadata>, DataError> {
        match self.find_path(&names(path)?)? {
            None => Ok(None),
            Some((kind, number)) => Ok(Some(self.metadata(kind, number)?)),
        }
    }

    /// The file under a path.
    ///
    /// # Errors
    /// [`DataError::NotFound`] if the path does not exist, [`DataError::Invalid`] if it is a folder.
    pub fn file(self, path: &str) -> Result<FileId, DataError> {
        match self.find_path(&names(path)?)? {
            None => Err(not_there(path)),
            Some((FileKind::File, number)) => Ok(FileId(number)),
            Some((FileKind::Folder, _)) => Err(DataError::invalid(format!(
                "`{path}` is a folder: give the path of a file"
            ))),
        }
    }

    pub(crate) fn metadata(self, kind: FileKind, number: u64) -> Result<FileMetadata, DataError> {
        let record = if number == ROOT {
            Stored {
                bytes: 0,
                created_ms: 0,
                modified_ms: 0,
            }
        } else {
            self.file_record(FileId(number))?
        };
        let merge_mark = match kind {
            FileKind::File => match self.tx.replication().hooks() {
                Some(hooks) => hooks.merge_mark(self.tx, number)?,
                None => 0,
            },
            FileKind::Folder => 0,
        };
        Ok(FileMetadata {
            kind: match kind {
                FileKind::File => PathKind::File,
                FileKind::Folder => PathKind::Folder,
            },
            file: (kind == FileKind::File).then_some(FileId(number)),
            bytes: record.bytes,
            created_ms: record.created_ms,
            modified_ms: record.modified_ms,
            merge_mark,
        })
    }

    /// The record of a file or folder that must exist.
    #[doc(hidden)]
    pub fn file_record(self, file: FileId) -> Result<Stored, DataError> {
        self.tx
            .footprint()
            .read_key(Space::Files, &file.0.to_be_bytes());
        match self.tx.read().get(&keyspace::file(file.0))? {
            Some(stored) => Stored::decode(&stored),
            None => Err(DataError::NotFound(
                "the file is gone: it was removed after it was opened".into(),
            )),
        }
    }
}
