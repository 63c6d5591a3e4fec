//! Folders of the file system into a database and out of it.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use isomer_data::PathKind;
use thiserror::Error as ThisError;

use crate::{Database, Error};

/// What was copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Files.
    pub files: u64,
    /// Folders.
    pub folders: u64,
    /// Bytes of the files.
    pub bytes: u64,
}

/// What stopped a copy; what was copied before stays.
#[derive(Debug, ThisError)]
pub enum FolderError {
    /// The file system refused.
    #[error("{path}: {source}")]
    System {
        /// The path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The database refused.
    #[error(transparent)]
    Database(#[from] Error),
    /// A name that cannot be one of the other side.
    #[error("{0}")]
    Name(String),
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
    /// Copies a file, or a folder with all that is in it, from the file system to `to`, file by file; each takes the place of one that
    /// stands there. Links and other things that are neither files nor folders are left out.
    ///
    /// ```
    /// use isomer_db::Database;
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
            let about = fs::symlink_metadata(&from).map_err(FolderError::system(&from))?;
            if about.is_file() {
                copied.bytes += self.import_file(&from, &to)?;
                copied.files += 1;
            } else if about.is_dir() {
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

    /// Copies a file, or a folder with all that is in it, as they are at one version, to `to` in the file system, where files take the
    /// place of files.
    pub fn export_folder(&self, from: &str, to: impl AsRef<Path>) -> Result<Copied, FolderError> {
        let mut copied = Copied::default();
        let mut tx = self.begin_read()?;
        let mut left = vec![(
            from.trim_end_matches('/').to_owned(),
            to.as_ref().to_owned(),
        )];
        while let Some((from, to)) = left.pop() {
            let path = if from.is_empty() { "/" } else { from.as_str() };
            let about = tx.files().about(path)?.ok_or_else(|| {
                Error::new(
                    crate::ErrorKind::NotFound,
                    format!("there is no file or folder `{path}`"),
                )
            })?;
            if about.kind == PathKind::Folder {
                match fs::create_dir(&to) {
                    Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                        return Err(FolderError::system(&to)(error));
                    }
                    _ => copied.folders += 1,
                }
                for (name, _) in tx.files().list(path)? {
                    left.push((format!("{from}/{name}"), to.join(name)));
                }
            } else {
                let mut target = fs::File::create(&to).map_err(FolderError::system(&to))?;
                let mut source = io::BufReader::with_capacity(1 << 20, tx.files().open(path)?);
                copied.bytes +=
                    io::copy(&mut source, &mut target).map_err(FolderError::system(&to))?;
                copied.files += 1;
            }
        }
        Ok(copied)
    }
}
