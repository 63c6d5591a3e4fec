//! Folders: finding, making, listing, renaming, removing.

use isomer_layout::{
    DataError,
    files::{ROOT, Stored, UNNAMED, names, not_there},
    keyspace::{self, FileKind, after_prefix},
    stream::change::Change,
};
use isomer_storage::{Durability, KeyRange, Order, Page, PageLimit};

use crate::{
    Access, DataStore, FileId, FileMetadata, FileTree, FileTreeMut, PathKind,
    files::numbers::FIRST_FILE, footprint::Space, replicated::FileNote,
};

/// Entries that are read at a time.
const PAGE: PageLimit = PageLimit {
    keys: 512,
    bytes: 1 << 20,
};

type PathEntry = (FileKind, u64);

/// The path of these names.
fn whole(names: &[&str]) -> String {
    names.iter().flat_map(|name| ["/", name]).collect()
}

impl FileTree<'_> {
    /// Resolves a path from the root.
    #[doc(hidden)]
    pub fn find_path(self, names: &[&str]) -> Result<Option<PathEntry>, DataError> {
        let mut found = (FileKind::Folder, ROOT);
        for name in names {
            if found.0 != FileKind::Folder {
                return Ok(None);
            }
            match self.find_entry(found.1, name)? {
                Some(next) => found = next,
                None => return Ok(None),
            }
        }
        Ok(Some(found))
    }

    #[doc(hidden)]
    pub fn find_entry(self, folder: u64, name: &str) -> Result<Option<PathEntry>, DataError> {
        let key = keyspace::file_entry(folder, name);
        self.tx.footprint().read_key(Space::Folders, &key[1..]);
        let entry = self.tx.read().get(&key)?;
        entry
            .map(|entry| keyspace::take_file_entry(&entry))
            .transpose()
    }

    /// The folder that contains the last name of a path, and that name.
    #[doc(hidden)]
    pub fn parent(self, path: &str) -> Result<(u64, &str), DataError> {
        let names = names(path)?;
        let Some((last, before)) = names.split_last() else {
            return Err(DataError::invalid(
                "`/` is the root folder: it cannot be created, renamed or removed",
            ));
        };
        match self.find_path(before)? {
            Some((FileKind::Folder, number)) => Ok((number, last)),
            Some((FileKind::File, _)) => Err(DataError::invalid(format!(
                "`/{}` is a file: only a folder can hold `{last}`",
                before.join("/")
            ))),
            None => Err(DataError::NotFound(format!(
                "there is no folder `/{}`: make it first",
                before.join("/")
            ))),
        }
    }

    /// The content of a folder, by name, from the first name after `after` on, at most `limit`.
    ///
    /// # Errors
    /// [`DataError::NotFound`] if the folder does not exist, [`DataError::Invalid`] if the path is a file.
    pub fn list_folder(
        self,
        path: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, FileMetadata)>, DataError> {
        let folder = match self.find_path(&names(path)?)? {
            Some((FileKind::Folder, number)) => number,
            Some((FileKind::File, _)) => {
                return Err(DataError::invalid(format!(
                    "`{path}` is a file: give the path of a folder"
                )));
            }
            None => return Err(not_there(path)),
        };
        let entries = self.entries(folder, after, limit)?;
        entries
            .into_iter()
            .map(|(name, (kind, number))| Ok((name, self.metadata(kind, number)?)))
            .collect()
    }

    fn entries(
        self,
        folder: u64,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, PathEntry)>, DataError> {
        let prefix = keyspace::file_entries(folder);
        let start = match after {
            Some(after) => {
                let mut start = keyspace::file_entry(folder, after);
                start.push(0);
                start
            }
            None => prefix.clone(),
        };
        let end = after_prefix(&prefix);
        let mut found = Vec::new();
        let mut page = Page::new();
        let mut next = (limit > 0).then(|| start.clone());
        while let Some(from) = next.take() {
            let range = KeyRange {
                start: &from,
                end: end.as_deref(),
            };
            let room = PageLimit {
                keys: PAGE.keys.min(limit - found.len()),
                ..PAGE
            };
            self.tx
                .read()
                .scan(range, Order::Ascending, room, &mut page)?;
            for (key, value) in page.iter() {
                let name = std::str::from_utf8(&key[prefix.len()..])
                    .map_err(|_| DataError::corrupt("the name of a file is not UTF-8"))?;
                found.push((name.to_owned(), keyspace::take_file_entry(value)?));
            }
            let rest = page.next().map(|rest| rest.start.to_vec());
            if found.len() < limit {
                next = rest;
            } else {
                let seen = rest.as_deref().or(end.as_deref());
                self.tx.footprint().read_range(
                    Space::Folders,
                    &start[1..],
                    seen.map(|seen| &seen[1..]),
                );
                return Ok(found);
            }
        }
        if limit > 0 {
            let end = end.as_deref().map(|end| &end[1..]);
            self.tx
                .footprint()
                .read_range(Space::Folders, &start[1..], end);
        }
        Ok(found)
    }

    /// Whether a folder is not empty.
    #[doc(hidden)]
    pub fn has_entries(self, folder: u64) -> Result<bool, DataError> {
        Ok(!self.entries(folder, None, 1)?.is_empty())
    }

    /// Whether there is an unnamed file.
    fn has_unnamed_files(self) -> Result<bool, DataError> {
        self.has_entries(UNNAMED)
    }

    /// Whether a path is a folder.
    pub fn is_folder(self, path: &str) -> Result<bool, DataError> {
        let metadata = self.file_metadata(path)?;
        Ok(metadata.is_some_and(|metadata| metadata.kind == PathKind::Folder))
    }
}

impl FileTreeMut<'_> {
    /// Makes an empty file.
    ///
    /// # Errors
    /// [`DataError::Exists`] if the path exists, [`DataError::NotFound`] if its folder does not exist.
    pub fn create_file(&mut self, path: &str) -> Result<FileId, DataError> {
        self.make(path, FileKind::File).map(FileId)
    }

    /// Makes a folder in an existing one.
    ///
    /// # Errors
    /// As [`FileTreeMut::create_file`].
    pub fn create_folder(&mut self, path: &str) -> Result<(), DataError> {
        self.make(path, FileKind::Folder).map(drop)
    }

    /// Makes a folder, with its parents where they do not exist.
    pub fn create_folders(&mut self, path: &str) -> Result<(), DataError> {
        self.tx.check_writable()?;
        let names = names(path)?;
        let mut folder = ROOT;
        for (at, name) in names.iter().enumerate() {
            folder = match self.tx.files().find_entry(folder, name)? {
                Some((FileKind::Folder, number)) => number,
                Some((FileKind::File, _)) => {
                    return Err(DataError::Exists(format!(
                        "`/{}` is a file: choose another name for the folder",
                        names[..=at].join("/")
                    )));
                }
                None => {
                    let number = self.make_in(folder, name, FileKind::Folder)?;
                    self.tx
                        .replication_mut()
                        .note_file(|| FileNote::FolderCreated(whole(&names[..=at])));
                    number
                }
            };
        }
        Ok(())
    }

    fn make(&mut self, path: &str, kind: FileKind) -> Result<u64, DataError> {
        self.tx.check_writable()?;
        let (folder, name) = self.tx.files().parent(path)?;
        if self.tx.files().find_entry(folder, name)?.is_some() {
            return Err(DataError::Exists(format!(
                "`{path}` exists already: choose another name, or remove it first"
            )));
        }
        let number = self.make_in(folder, name, kind)?;
        let path = || names(path).map_or_else(|_| String::new(), |names| whole(&names));
        match kind {
            FileKind::File => {
                self.tx
                    .replication_mut()
                    .note_file(|| FileNote::Created(number));
                self.tx
                    .replication_mut()
                    .note_file(|| FileNote::Renamed(number, path()));
            }
            FileKind::Folder => self
                .tx
                .replication_mut()
                .note_file(|| FileNote::FolderCreated(path())),
        }
        Ok(number)
    }

    fn make_in(&mut self, folder: u64, name: &str, kind: FileKind) -> Result<u64, DataError> {
        let number = self
            .tx
            .store()
            .shared()
            .files
            .take(&**self.tx.store().engine())?;
        let now = self.tx.now_ms();
        let record = Stored {
            bytes: 0,
            created_ms: now,
            modified_ms: now,
        };
        self.put_entry(folder, name, (kind, number))?;
        self.put_file_record(FileId(number), record)?;
        Ok(number)
    }

    #[doc(hidden)]
    pub fn put_entry(
        &mut self,
        folder: u64,
        name: &str,
        (kind, number): PathEntry,
    ) -> Result<(), DataError> {
        let key = keyspace::file_entry(folder, name);
        self.tx
            .put(&key, &keyspace::file_entry_value(kind, number))?;
        self.tx
            .footprint_mut()
            .change_key(Space::Folders, &key[1..], true);
        self.tx.log(&Change::FileNamed {
            folder,
            name: name.as_bytes(),
            is_folder: kind == FileKind::Folder,
            number,
        });
        Ok(())
    }

    #[doc(hidden)]
    pub fn delete_entry(&mut self, folder: u64, name: &str) -> Result<(), DataError> {
        let key = keyspace::file_entry(folder, name);
        self.tx.delete(&key)?;
        self.tx
            .footprint_mut()
            .change_key(Space::Folders, &key[1..], true);
        self.tx.log(&Change::FileUnnamed {
            folder,
            name: name.as_bytes(),
        });
        Ok(())
    }

    /// Moves a file, or a folder with its content. A file may replace a file.
    ///
    /// # Errors
    /// [`DataError::NotFound`] if the path or the target's folder does not exist; [`DataError::Exists`] if the
    /// target exists;
    /// [`DataError::Invalid`] for a folder that would move into itself.
    pub fn rename_path(&mut self, from: &str, to: &str) -> Result<(), DataError> {
        self.tx.check_writable()?;
        let (old_names, new_names) = (names(from)?, names(to)?);
        if old_names == new_names {
            return self
                .tx
                .files()
                .find_path(&old_names)?
                .map(drop)
                .ok_or_else(|| not_there(from));
        }
        if new_names.starts_with(&old_names) {
            return Err(DataError::invalid(format!(
                "`{from}` cannot move to `{to}`, which is inside it"
            )));
        }
        let (old_folder, old_name) = self.tx.files().parent(from)?;
        let Some(found) = self.tx.files().find_entry(old_folder, old_name)? else {
            return Err(not_there(from));
        };
        let (new_folder, new_name) = self.tx.files().parent(to)?;
        self.clear_way(new_folder, new_name, found.0, to)?;
        self.delete_entry(old_folder, old_name)?;
        self.put_entry(new_folder, new_name, found)?;
        match self.tx.replication().replicates_files() {
            true => self.note_moved(found, whole(&old_names), whole(&new_names)),
            false => Ok(()),
        }
    }

    /// Records the new path of a file, or of a folder with its content.
    fn note_moved(&mut self, found: PathEntry, from: String, to: String) -> Result<(), DataError> {
        let mut left = vec![(found, from, to)];
        while let Some(((kind, number), from, to)) = left.pop() {
            if kind == FileKind::File {
                self.tx
                    .replication_mut()
                    .note_file(|| FileNote::Renamed(number, to));
                continue;
            }
            for (name, found) in self.tx.files().entries(number, None, usize::MAX)? {
                left.push((found, format!("{from}/{name}"), format!("{to}/{name}")));
            }
            self.tx
                .replication_mut()
                .note_file(|| FileNote::FolderDeleted(from));
            self.tx
                .replication_mut()
                .note_file(|| FileNote::FolderCreated(to));
        }
        Ok(())
    }

    /// Removes the file that is replaced at `path`, and refuses what may not be replaced.
    fn clear_way(
        &mut self,
        folder: u64,
        name: &str,
        kind: FileKind,
        path: &str,
    ) -> Result<(), DataError> {
        match (kind, self.tx.files().find_entry(folder, name)?) {
            (_, None) => Ok(()),
            (FileKind::File, Some((FileKind::File, replaced))) => {
                self.tx
                    .replication_mut()
                    .note_file(|| FileNote::Deleted(replaced));
                self.delete_content(FileId(replaced))
            }
            _ => Err(DataError::Exists(format!(
                "`{path}` exists already, and only a file can be replaced by a file: remove it first"
            ))),
        }
    }

    /// Removes a file, or a folder that is empty.
    ///
    /// # Errors
    /// [`DataError::NotFound`] if the path does not exist, [`DataError::Invalid`] for a folder that is not empty.
    pub fn remove_path(&mut self, path: &str) -> Result<(), DataError> {
        self.tx.check_writable()?;
        let (folder, name) = self.tx.files().parent(path)?;
        let Some((kind, number)) = self.tx.files().find_entry(folder, name)? else {
            return Err(not_there(path));
        };
        if kind == FileKind::Folder && self.tx.files().has_entries(number)? {
            return Err(DataError::invalid(format!(
                "the folder `{path}` is not empty: remove what is in it first, or all of it at once"
            )));
        }
        self.delete_entry(folder, name)?;
        self.note_gone((kind, number), || {
            names(path).map_or_else(|_| String::new(), |names| whole(&names))
        });
        self.delete_content(FileId(number))
    }

    fn note_gone(&mut self, (kind, number): PathEntry, path: impl FnOnce() -> String) {
        self.tx.replication_mut().note_file(|| match kind {
            FileKind::File => FileNote::Deleted(number),
            FileKind::Folder => FileNote::FolderDeleted(path()),
        });
    }

    /// Removes a file, or a folder with its content; returns the number of removed files and folders. The cost grows
    /// with their number, not with their bytes.
    pub fn remove_all(&mut self, path: &str) -> Result<u64, DataError> {
        self.tx.check_writable()?;
        let (folder, name) = self.tx.files().parent(path)?;
        let Some(found) = self.tx.files().find_entry(folder, name)? else {
            return Err(not_there(path));
        };
        self.delete_entry(folder, name)?;
        let mut removed = 0;
        let mut left = vec![(found, whole(&names(path)?))];
        while let Some(((kind, number), path)) = left.pop() {
            if kind == FileKind::Folder {
                for (name, found) in self.tx.files().entries(number, None, usize::MAX)? {
                    self.delete_entry(number, &name)?;
                    left.push((found, format!("{path}/{name}")));
                }
            }
            self.note_gone((kind, number), || path);
            self.delete_content(FileId(number))?;
            removed += 1;
        }
        Ok(removed)
    }

    // ---- files that are being written over several transactions

    /// Makes a file without a path: for content that is written over several transactions.
    /// [`FileTreeMut::remove_unnamed_files`] removes leftovers.
    pub fn create_unnamed_file(&mut self) -> Result<FileId, DataError> {
        self.tx.check_writable()?;
        let number = self
            .tx
            .store()
            .shared()
            .files
            .take(&**self.tx.store().engine())?;
        debug_assert!(number >= FIRST_FILE, "lower numbers have a meaning");
        let now = self.tx.now_ms();
        let record = Stored {
            bytes: 0,
            created_ms: now,
            modified_ms: now,
        };
        self.put_entry(UNNAMED, &number.to_string(), (FileKind::File, number))?;
        self.put_file_record(FileId(number), record)?;
        self.tx
            .replication_mut()
            .note_file(|| FileNote::Created(number));
        Ok(FileId(number))
    }

    /// Puts an unnamed file under a path, where it may replace a file.
    ///
    /// # Errors
    /// As [`FileTreeMut::rename_path`]; [`DataError::NotFound`] for a file that is not unnamed.
    pub fn name_file(&mut self, file: FileId, path: &str) -> Result<(), DataError> {
        self.tx.check_writable()?;
        let unnamed = file.0.to_string();
        if self.tx.files().find_entry(UNNAMED, &unnamed)?.is_none() {
            return Err(DataError::NotFound(
                "the file that was written was removed: write it again".into(),
            ));
        }
        let (folder, name) = self.tx.files().parent(path)?;
        self.clear_way(folder, name, FileKind::File, path)?;
        self.delete_entry(UNNAMED, &unnamed)?;
        self.put_entry(folder, name, (FileKind::File, file.0))?;
        let path = whole(&names(path)?);
        self.tx
            .replication_mut()
            .note_file(|| FileNote::Renamed(file.0, path));
        Ok(())
    }

    /// Removes an unnamed file.
    pub fn remove_unnamed_file(&mut self, file: FileId) -> Result<(), DataError> {
        self.tx.check_writable()?;
        let unnamed = file.0.to_string();
        if self.tx.files().find_entry(UNNAMED, &unnamed)?.is_some() {
            self.delete_entry(UNNAMED, &unnamed)?;
            self.tx
                .replication_mut()
                .note_file(|| FileNote::Deleted(file.0));
            self.delete_content(file)?;
        }
        Ok(())
    }

    /// Removes all unnamed files, and returns their number: no writer may be writing one. In a copy, and after a backup
    /// was restored, unnamed files that were written under the former name of this replica stay, invisible, as they do
    /// in other replicas: the database that continues under that name may have finished them.
    pub fn remove_unnamed_files(&mut self) -> Result<u64, DataError> {
        let left = self.tx.files().entries(UNNAMED, None, usize::MAX)?;
        for (name, (_, number)) in &left {
            self.delete_entry(UNNAMED, name)?;
            if let Some(hooks) = self.tx.replication().hooks()
                && hooks.may_be_finished_elsewhere(self.tx, *number)?
            {
                continue;
            }
            self.tx
                .replication_mut()
                .note_file(|| FileNote::Deleted(*number));
            self.delete_content(FileId(*number))?;
        }
        Ok(left.len() as u64)
    }

    /// Removes a file from the unnamed ones, if it is one.
    #[doc(hidden)]
    pub fn drop_unnamed(&mut self, number: u64) -> Result<(), DataError> {
        let unnamed = number.to_string();
        match self.tx.files().find_entry(UNNAMED, &unnamed)? {
            Some(_) => self.delete_entry(UNNAMED, &unnamed),
            None => Ok(()),
        }
    }
}

impl DataStore {
    /// Removes files that were being written when the database was last closed or lost; no writer may be writing one.
    pub fn remove_unnamed_files(&self) -> Result<u64, DataError> {
        if !self.begin(Access::Read)?.files().has_unnamed_files()? {
            return Ok(0);
        }
        let mut tx = self.begin(Access::Write)?;
        let removed = tx.files_mut().remove_unnamed_files()?;
        tx.commit_with(Durability::Buffered)?;
        Ok(removed)
    }
}
