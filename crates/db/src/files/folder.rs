//! Copies folders between the file system and a database.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use isomer_data::PathKind;
use thiserror::Error as ThisError;

use crate::{Database, Error};

/// The result of a copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Copied {
    /// Files.
    pub files: u64,
    /// Folders.
    pub folders: u64,
    /// Bytes of the files.
    pub bytes: u64,
}

/// The reason why a copy stopped; what was copied before remains.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum FolderError {
    /// An error of the file system.
    #[error("{path}: {source}")]
    System {
        /// The path.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// An error of the database.
    #[error(transparent)]
    Database(#[from] Error),
    /// A name that is invalid on the other side.
    #[error("{0}")]
    Name(String),
    /// The target exists and must not be replaced, or is a link: nothing is written through links.
    #[error("{path}: a {what} already exists: remove it, or copy to another path")]
    Exists {
        /// The path.
        path: PathBuf,
        /// Its kind.
        what: &'static str,
    },
}

impl FolderError {
    fn system(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| Self::System {
            path: path.to_owned(),
            source,
        }
    }
}

impl Database {
    /// Copies a file, or a folder with its content, from the file system to `to`, file by file; existing files are
    /// replaced. Links and other things that are neither files nor folders are skipped.
    ///
    /// ```
    /// use isomerdb::Database;
    ///
    /// let outside = tempfile::tempdir()?;
    /// std::fs::create_dir(outside.path().join("sub"))?;
    /// std::fs::write(outside.path().join("sub/note"), "kept")?;
    /// let db = Database::open_in_memory()?;
    /// let copied = db.import_folder(outside.path(), "/inside")?;
    /// assert_eq!((copied.files, copied.bytes), (1, 4));
    ///
    /// let back = outside.path().join("back");
    /// assert_eq!(db.export_folder("/inside", &back)?, copied);
    /// assert_eq!(std::fs::read_to_string(back.join("sub/note"))?, "kept");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn import_folder(&self, from: impl AsRef<Path>, to: &str) -> Result<Copied, FolderError> {
        let mut copied = Copied::default();
        let mut left = vec![(
            from.as_ref().to_owned(),
            to.trim_end_matches('/').to_owned(),
        )];
        while let Some((from, to)) = left.pop() {
            let metadata = fs::symlink_metadata(&from).map_err(FolderError::system(&from))?;
            if metadata.is_file() {
                copied.bytes += self.import_file(&from, &to)?;
                copied.files += 1;
            } else if metadata.is_dir() {
                self.transact(|tx| match to.as_str() {
                    "" => Ok(()),
                    to => tx.files().create_folders(to),
                })?;
                copied.folders += 1;
                for entry in fs::read_dir(&from).map_err(FolderError::system(&from))? {
                    let entry = entry.map_err(FolderError::system(&from))?;
                    let name = entry.file_name();
                    let name = name.to_str().ok_or_else(|| {
                        FolderError::Name(format!(
                            "the name of {} is not UTF-8: rename it first",
                            entry.path().display()
                        ))
                    })?;
                    left.push((entry.path(), format!("{to}/{name}")));
                }
            }
        }
        Ok(copied)
    }

    fn import_file(&self, from: &Path, to: &str) -> Result<u64, FolderError> {
        let mut source = fs::File::open(from).map_err(FolderError::system(from))?;
        let mut writer = self.create_file(to)?;
        let bytes = io::copy(&mut source, &mut writer).map_err(FolderError::system(from))?;
        writer.finish()?;
        Ok(bytes)
    }

    /// Copies a file, or a folder with its content, from one version of the database to `to` in the file system,
    /// replacing existing files. Nothing is written through a link ([`FolderError::Exists`]), except into the folder,
    /// device or pipe that `to` itself links to.
    pub fn export_folder(&self, from: &str, to: impl AsRef<Path>) -> Result<Copied, FolderError> {
        let mut copied = Copied::default();
        let tx = self.begin_read()?;
        let mut left = vec![(
            from.trim_end_matches('/').to_owned(),
            to.as_ref().to_owned(),
        )];
        let mut is_named = true;
        while let Some((from, to)) = left.pop() {
            let path = if from.is_empty() { "/" } else { from.as_str() };
            let metadata = tx.files().metadata(path)?.ok_or_else(|| {
                Error::new(
                    crate::ErrorKind::NotFound,
                    format!("there is no file or folder `{path}`"),
                )
            })?;
            if metadata.kind == PathKind::Folder {
                if !exists_as(&to, metadata.kind, is_named)? {
                    fs::create_dir(&to).map_err(FolderError::system(&to))?;
                }
                copied.folders += 1;
                for (name, _) in tx.files().list(path)? {
                    left.push((format!("{from}/{name}"), to.join(name)));
                }
            } else {
                if !(is_named && is_device(&to)) {
                    exists_as(&to, metadata.kind, false)?;
                }
                let mut target = fs::File::create(&to).map_err(FolderError::system(&to))?;
                let mut source = io::BufReader::with_capacity(1 << 20, tx.files().open(path)?);
                copied.bytes +=
                    io::copy(&mut source, &mut target).map_err(FolderError::system(&to))?;
                copied.files += 1;
            }
            is_named = false;
        }
        Ok(copied)
    }
}

/// Whether it is a device or a pipe, or a link to one: `/dev/stdout`.
fn is_device(at: &Path) -> bool {
    fs::metadata(at).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir())
}

/// Whether the wanted file or folder exists; an error if something else does. Links are followed or not as requested.
fn exists_as(at: &Path, wanted: PathKind, follows: bool) -> Result<bool, FolderError> {
    let metadata = match follows {
        true => fs::metadata(at),
        false => fs::symlink_metadata(at),
    };
    let kind = match metadata {
        Ok(metadata) => metadata.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(FolderError::system(at)(error)),
    };
    let what = match wanted {
        PathKind::Folder if kind.is_dir() => return Ok(true),
        PathKind::File if kind.is_file() => return Ok(true),
        _ if kind.is_symlink() => "link",
        _ if kind.is_dir() => "folder",
        _ if kind.is_file() => "file",
        _ => "device or pipe",
    };
    Err(FolderError::Exists {
        path: at.to_owned(),
        what,
    })
}

#[cfg(test)]
mod tests;
