//! Files: folders and streams of bytes under paths, in the same transactions as other data.
//!
//! A path is `/`, or names with a `/` before each. A name has 1 to 255 bytes, is neither `.` nor `..`, and contains no
//! `/` and no zero. A folder's entries name files and folders by number, so that renaming either moves one entry,
//! however large its content is.
//!
//! **Content** is stored in chunks of [`CHUNK_BYTES`]. A write inside a chunk rewrites it, and reading a byte reads it:
//! large enough that a gigabyte has only 16,384 keys, small enough that a change of a few bytes costs a few dozen
//! microseconds. Unwritten chunks, and the unwritten end of a chunk, read as zeros and use no space.
//!
//! **Isolation.** The unit of conflict is a file, not the folder it is in and not its chunks: two transactions that
//! write one file conflict, two that make two files in one folder do not. Looking a path up observes its entries;
//! listing a folder observes the names on the page.
//!
//! **Limits.** A file has up to 2^44 bytes. A transaction holds its writes in memory: a large file is written over
//! several (see `isomer_db::FileWriter`), without a path until it is complete.

mod check;
mod content;
mod folders;
mod numbers;

pub(crate) use numbers::FileNumbers;

use crate::{
    DataError, Transaction,
    footprint::Space,
    keyspace::{self, FileKind},
};

/// Bytes of a chunk.
pub const CHUNK_BYTES: u64 = 64 << 10;
/// Most bytes of a file.
pub const MAX_FILE_BYTES: u64 = 1 << 44;
/// Longest name of a file or folder.
pub const MAX_FILE_NAME_BYTES: usize = 255;
/// Most names of a path.
pub const MAX_PATH_NAMES: usize = 256;

/// The root folder; it has no entry.
pub(crate) const ROOT: u64 = 1;
/// The folder of files that are being written, without a path.
pub const UNNAMED: u64 = 0;
/// The first number that is assigned to a file or folder.
pub(crate) const FIRST_FILE: u64 = 16;

/// The kind of a path's target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PathKind {
    /// A stream of bytes.
    File,
    /// A folder.
    Folder,
}

/// A file, independent of its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(pub(crate) u64);

/// The metadata of a file or folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileAbout {
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

/// The stored record: size, created, modified, as ordered ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) bytes: u64,
    pub(crate) created_ms: u64,
    pub(crate) modified_ms: u64,
}

impl Stored {
    pub(crate) fn encode(self) -> Vec<u8> {
        let mut stored = Vec::with_capacity(20);
        for number in [self.bytes, self.created_ms, self.modified_ms] {
            keyspace::push_id(&mut stored, number);
        }
        stored
    }

    pub(crate) fn decode(stored: &[u8]) -> Result<Self, DataError> {
        let mut rest = stored;
        let mut take = || keyspace::take_id(&mut rest);
        let parsed = (|| {
            Some(Self {
                bytes: take()?,
                created_ms: take()?,
                modified_ms: take()?,
            })
        })();
        match parsed {
            Some(record) if rest.is_empty() => Ok(record),
            _ => Err(DataError::corrupt("the record of a file is malformed")),
        }
    }
}

/// The names of a path.
pub(crate) fn names(path: &str) -> Result<Vec<&str>, DataError> {
    let Some(rest) = path.strip_prefix('/') else {
        return Err(DataError::invalid(format!(
            "the path `{path}` does not begin with `/`: write paths from the root on"
        )));
    };
    if rest.is_empty() {
        return Ok(Vec::new());
    }
    let names: Vec<&str> = rest.strip_suffix('/').unwrap_or(rest).split('/').collect();
    if names.len() > MAX_PATH_NAMES {
        return Err(DataError::Limit {
            what: "a path".into(),
            size: format!("{} names", names.len()),
            max: format!("{MAX_PATH_NAMES} names"),
            advice: "nest folders less deeply",
        });
    }
    for name in &names {
        if name.len() > MAX_FILE_NAME_BYTES {
            return Err(DataError::Limit {
                what: format!(
                    "the name `{}…` of a file",
                    name.chars().take(40).collect::<String>()
                ),
                size: format!("{} bytes", name.len()),
                max: format!("{MAX_FILE_NAME_BYTES} bytes"),
                advice: "use a shorter name",
            });
        }
        if name.is_empty() || *name == "." || *name == ".." || name.contains('\0') {
            return Err(DataError::invalid(format!(
                "the path `{path}` holds the name `{}`: names are not empty, not `.`, not `..`, and hold no zero",
                name.escape_debug()
            )));
        }
    }
    Ok(names)
}

fn not_there(path: &str) -> DataError {
    DataError::NotFound(format!("there is no file or folder `{path}`"))
}

impl Transaction {
    /// The target of a path; nothing where it does not exist.
    pub fn file_about(&self, path: &str) -> Result<Option<FileAbout>, DataError> {
        match self.find_path(&names(path)?)? {
            None => Ok(None),
            Some((kind, number)) => Ok(Some(self.about(kind, number)?)),
        }
    }

    /// The file under a path.
    ///
    /// # Errors
    /// [`DataError::NotFound`] where the path does not exist, [`DataError::Invalid`] where it is a folder.
    pub fn file(&self, path: &str) -> Result<FileId, DataError> {
        match self.find_path(&names(path)?)? {
            None => Err(not_there(path)),
            Some((FileKind::File, number)) => Ok(FileId(number)),
            Some((FileKind::Folder, _)) => Err(DataError::invalid(format!(
                "`{path}` is a folder: give the path of a file"
            ))),
        }
    }

    fn about(&self, kind: FileKind, number: u64) -> Result<FileAbout, DataError> {
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
            FileKind::File => self.merge_mark(number)?,
            FileKind::Folder => 0,
        };
        Ok(FileAbout {
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
    pub(crate) fn file_record(&self, file: FileId) -> Result<Stored, DataError> {
        self.footprint()
            .read_key(Space::Files, &file.0.to_be_bytes());
        match self.read().get(&keyspace::file(file.0))? {
            Some(stored) => Stored::decode(&stored),
            None => Err(DataError::NotFound(
                "the file is gone: it was removed after it was opened".into(),
            )),
        }
    }
}
