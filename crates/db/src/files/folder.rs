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
    /// Where something is to be written stands what it must not replace, or a link, through which nothing is written.
    #[error("{path}: a {what} stands there: remove it, or copy to another place")]
    InTheWay {
        /// The path.
        path: PathBuf,
        /// What it is.
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
    /// place of files. Nothing is written through a link ([`FolderError::InTheWay`]), but into the
    /// folder, device or pipe that `to` itself is a link to.
    pub fn export_folder(&self, from: &str, to: impl AsRef<Path>) -> Result<Copied, FolderError> {
        let mut copied = Copied::default();
        let mut tx = self.begin_read()?;
        let mut left = vec![(
            from.trim_end_matches('/').to_owned(),
            to.as_ref().to_owned(),
        )];
        let mut is_named = true;
        while let Some((from, to)) = left.pop() {
            let path = if from.is_empty() { "/" } else { from.as_str() };
            let about = tx.files().about(path)?.ok_or_else(|| {
                Error::new(
                    crate::ErrorKind::NotFound,
                    format!("there is no file or folder `{path}`"),
                )
            })?;
            if about.kind == PathKind::Folder {
                if !stands(&to, about.kind, is_named)? {
                    fs::create_dir(&to).map_err(FolderError::system(&to))?;
                }
                copied.folders += 1;
                for (name, _) in tx.files().list(path)? {
                    left.push((format!("{from}/{name}"), to.join(name)));
                }
            } else {
                if !(is_named && is_device(&to)) {
                    stands(&to, about.kind, false)?;
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

/// Whether there is a device or a pipe, or a link to one: `/dev/stdout`.
fn is_device(at: &Path) -> bool {
    fs::metadata(at).is_ok_and(|about| !about.is_file() && !about.is_dir())
}

/// Whether a file or a folder stands there, as wanted; an error where it is anything else. A link is what is behind it, or is itself.
fn stands(at: &Path, wanted: PathKind, follows: bool) -> Result<bool, FolderError> {
    let about = match follows {
        true => fs::metadata(at),
        false => fs::symlink_metadata(at),
    };
    let kind = match about {
        Ok(about) => about.file_type(),
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
    Err(FolderError::InTheWay {
        path: at.to_owned(),
        what,
    })
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn outside() -> tempfile::TempDir {
        let outside = tempfile::tempdir().unwrap();
        fs::create_dir(outside.path().join("private")).unwrap();
        for name in ["secret", "private/secret"] {
            fs::write(outside.path().join(name), "theirs").unwrap();
        }
        outside
    }

    #[test]
    fn links_are_left_out_of_an_import() {
        let (outside, from) = (outside(), tempfile::tempdir().unwrap());
        fs::create_dir(from.path().join("sub")).unwrap();
        fs::write(from.path().join("sub/note"), "ours").unwrap();
        for (target, link) in [
            ("secret", "file"),
            ("private", "sub/folder"),
            ("nothing", "sub/dangling"),
        ] {
            symlink(outside.path().join(target), from.path().join(link)).unwrap();
        }
        symlink(from.path(), from.path().join("sub/circle")).unwrap();
        let db = Database::open_in_memory().unwrap();
        let copied = db.import_folder(from.path(), "/in").unwrap();
        assert_eq!((copied.files, copied.folders, copied.bytes), (1, 2, 4));
        let mut tx = db.begin_read().unwrap();
        let mut names = |path: &str| -> Vec<String> {
            let list = tx.files().list(path).unwrap();
            list.into_iter().map(|(name, _)| name.to_string()).collect()
        };
        assert_eq!(
            (names("/in"), names("/in/sub")),
            (vec!["sub".into()], vec!["note".into()])
        );
        // One that is named itself, too.
        let link = from.path().join("file");
        assert_eq!(db.import_folder(link, "/link").unwrap(), Copied::default());
    }

    #[test]
    fn an_export_writes_through_no_link_and_into_nothing_else() {
        let outside = outside();
        let (theirs, db) = (outside.path(), Database::open_in_memory().unwrap());
        db.transact(|tx| tx.files().create_folders("/private"))
            .unwrap();
        for path in ["/private/secret", "/note"] {
            let mut writer = db.create_file(path).unwrap();
            io::Write::write_all(&mut writer, b"ours").unwrap();
            writer.finish().unwrap();
        }
        let refused = |stands: &dyn Fn(&Path), at: &str| {
            let to = tempfile::tempdir().unwrap();
            let at = to.path().join(at);
            stands(&at);
            let error = db.export_folder("/", to.path()).unwrap_err().to_string();
            assert!(error.starts_with(&format!("{}: ", at.display())), "{error}");
            assert!(error.contains("stands there"), "{error}");
        };
        let link = |target: &str| {
            let target = theirs.join(target);
            move |at: &Path| symlink(&target, at).unwrap()
        };
        refused(&link("secret"), "note");
        refused(&link("nothing"), "note");
        refused(&link("private"), "private");
        refused(&|at| fs::create_dir(at).unwrap(), "note");
        refused(&|at| fs::write(at, "a file").unwrap(), "private");
        for name in ["secret", "private/secret"] {
            assert_eq!(fs::read_to_string(theirs.join(name)).unwrap(), "theirs");
        }
        assert!(!theirs.join("nothing").exists());
        // Whoever names a link himself means the folder behind it; what stood there goes.
        let (to, link) = (theirs.join("private"), theirs.join("link"));
        symlink(&to, &link).unwrap();
        assert_eq!(db.export_folder("/private", &link).unwrap().files, 1);
        assert_eq!(fs::read_to_string(to.join("secret")).unwrap(), "ours");
        let link = theirs.join("another");
        symlink(theirs.join("secret"), &link).unwrap();
        assert!(db.export_folder("/note", &link).is_err());
    }
}
