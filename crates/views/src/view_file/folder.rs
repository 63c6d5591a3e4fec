//! The folder of view files: `<database>/views/`.
//!
//! A file is named after its view (`adjacency-3-out`, `members-7`, `column-7-2-9`) with the suffix `.view`.
//! It is written under a temporary name with the suffix `.P-N.new`, where P is random for each process, synced, and
//! renamed, and the folder is synced: the final name always refers to a complete file, the old one or the new one.
//!
//! Of the processes that share a database one writes and removes files, for as long as it is open: it holds the lock
//! `views`. The others read them, and one of them takes over when it has ended.

use std::{
    fs::{self, File, OpenOptions},
    path::{Path, PathBuf},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use isomer_data::{DataStoreOptions, ProcessLock, ProcessLocks};
use isomer_value::{DatabaseId, PropId};
use isomer_vfs::{Seal, private_file, private_folder, sync_folder};
use parking_lot::Mutex;

use super::{Blocks, Head, ViewFileDamage, ViewFileError, Writer};
use crate::{ViewKind, side::AdjacencySide};

const ENDING: &str = "view";
const NEW: &str = "new";

/// Counter for temporary file names.
static FILES: AtomicU64 = AtomicU64::new(0);

/// A damaged view file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedFile {
    /// File name in the folder of views.
    pub name: String,
    /// What was wrong with it.
    pub reason: String,
}

/// The content of the folder.
#[derive(Default)]
pub(crate) struct FolderListing {
    /// The heads of the files, with their sizes.
    pub(crate) heads: Vec<(Head, u64)>,
    pub(crate) damaged: Vec<DamagedFile>,
}

/// Whether this process writes and removes files.
#[derive(Debug)]
enum WriteAccess {
    Always,
    /// The database is opened for reading only.
    Never,
    /// While it holds the lock between processes, from its first need on.
    Elected {
        locks: Arc<ProcessLocks>,
        held: Mutex<WriterLock>,
    },
}

/// The lock of the process that writes.
#[derive(Debug)]
enum WriterLock {
    NotYet,
    Now(#[allow(dead_code)] ProcessLock),
    /// The database is closed.
    NoMore,
}

/// The folder of view files.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    access: WriteAccess,
    seal: Seal,
}

impl Folder {
    /// A folder, which may not exist yet.
    pub(crate) fn new(path: &Path, options: &DataStoreOptions) -> Self {
        let access = match &options.process_locks {
            _ if options.read_only => WriteAccess::Never,
            None => WriteAccess::Always,
            Some(locks) => WriteAccess::Elected {
                locks: locks.clone(),
                held: Mutex::new(WriterLock::NotYet),
            },
        };
        Self {
            path: path.to_owned(),
            access,
            seal: options.seal.clone(),
        }
    }

    /// Whether files are encrypted.
    pub(crate) fn encrypts(&self) -> bool {
        self.seal.encrypts()
    }

    /// Whether this process writes and removes files; it becomes the one that does if there is none.
    pub(crate) fn may_write(&self) -> bool {
        match &self.access {
            WriteAccess::Always => true,
            WriteAccess::Never => false,
            WriteAccess::Elected { locks, held } => {
                let mut held = held.lock();
                if matches!(*held, WriterLock::NotYet)
                    && let Ok(Some(lock)) = locks.try_lock("views")
                {
                    *held = WriterLock::Now(lock);
                }
                matches!(*held, WriterLock::Now(_))
            }
        }
    }

    /// The database is closed: another process may write.
    pub(crate) fn let_go(&self) {
        if let WriteAccess::Elected { held, .. } = &self.access {
            *held.lock() = WriterLock::NoMore;
        }
    }

    /// The heads of all readable files, with their sizes. Temporary files and files with a damaged header are
    /// removed.
    pub(crate) fn list(&self) -> FolderListing {
        let mut found = FolderListing::default();
        let Ok(entries) = fs::read_dir(&self.path) else {
            return found;
        };
        for entry in entries.flatten() {
            let path = entry.path();
            match path.extension().and_then(|ending| ending.to_str()) {
                Some(NEW) => self.remove_file(&path),
                Some(ENDING) => {
                    match File::open(&path)
                        .map_err(Into::into)
                        .and_then(|file| Blocks::open(file, &self.seal))
                    {
                        Ok(blocks) if self.path_of(&blocks.head().kind) == path => {
                            let head = blocks.head().clone();
                            found.heads.push((head, blocks.bytes()));
                        }
                        // The file name does not match its head: a foreign file.
                        Ok(_) => self.remove_file(&path),
                        Err(ViewFileError::Damaged(damage)) => {
                            let (name, reason) = (name_of(&path), damage.to_string());
                            found.damaged.push(DamagedFile { name, reason });
                            self.remove_file(&path);
                        }
                        Err(_) => {}
                    }
                }
                _ => {} // a file of another origin
            }
        }
        found.heads.sort_by(|a, b| a.0.kind.cmp(&b.0.kind));
        found
    }

    /// The name of a view's file.
    pub(crate) fn name_of(&self, kind: &ViewKind) -> String {
        name_of(&self.path_of(kind))
    }

    /// Opens the file of a view.
    pub(crate) fn open(&self, kind: &ViewKind) -> Result<Blocks, ViewFileError> {
        let blocks = Blocks::open(File::open(self.path_of(kind))?, &self.seal)?;
        if blocks.head().kind != *kind {
            return Err(ViewFileDamage::OtherView.into());
        }
        Ok(blocks)
    }

    /// Writes the file of a view through `fill`, and replaces an existing one. Returns its size.
    pub(crate) fn write(
        &self,
        head: Head,
        fill: impl FnOnce(&mut Writer) -> Result<(), ViewFileError>,
    ) -> Result<u64, ViewFileError> {
        let mut file = self.begin(head)?;
        fill(file.writer())?;
        file.finish()
    }

    /// Starts the file of a view: the caller fills it, and [`NewFile::finish`] renames it.
    pub(crate) fn begin(&self, head: Head) -> Result<NewFile, ViewFileError> {
        self.make()?;
        let target = self.path_of(&head.kind);
        // Two threads may write the same view: one saves it, another reloads its records.
        let number = FILES.fetch_add(1, Ordering::Relaxed);
        let process = process_name();
        let passing = target.with_extension(format!("{process}-{number}.{NEW}"));
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        private_file(&mut options);
        let writer = Writer::new(options.open(&passing)?, head, &self.seal)?;
        Ok(NewFile {
            writer: Some(writer),
            folder: self.path.clone(),
            passing,
            target,
        })
    }

    fn make(&self) -> Result<(), ViewFileError> {
        if self.path.is_dir() {
            return Ok(());
        }
        match private_folder().create(&self.path) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(error.into()),
            _ => {
                if let Some(parent) = self.path.parent() {
                    sync_folder(parent)?;
                }
                Ok(())
            }
        }
    }

    /// Removes the file of a view, if it exists.
    pub(crate) fn remove(&self, kind: &ViewKind) {
        self.remove_file(&self.path_of(kind));
    }

    fn remove_file(&self, path: &Path) {
        if self.may_write() {
            // A file that cannot be removed is rejected again at each opening.
            let _ = fs::remove_file(path);
        }
    }

    fn path_of(&self, kind: &ViewKind) -> PathBuf {
        let name = match kind {
            ViewKind::Adjacency(type_id, AdjacencySide::Out) => {
                format!("adjacency-{}-out", type_id.0)
            }
            ViewKind::Adjacency(type_id, AdjacencySide::In) => {
                format!("adjacency-{}-in", type_id.0)
            }
            ViewKind::Members(None) => "members-all".into(),
            ViewKind::Members(Some(label)) => format!("members-{}", label.0),
            ViewKind::Column(label, path) => format!("column-{}-{}", label.0, numbers(path)),
            ViewKind::RelColumn(type_id, path) => {
                format!("relcolumn-{}-{}", type_id.0, numbers(path))
            }
        };
        self.path.join(name).with_extension(ENDING)
    }
}

/// A file being written; removed on drop unless it was finished.
pub(crate) struct NewFile {
    writer: Option<Writer>,
    folder: PathBuf,
    passing: PathBuf,
    target: PathBuf,
}

impl NewFile {
    /// The writer for its blocks.
    pub(crate) fn writer(&mut self) -> &mut Writer {
        self.writer
            .as_mut()
            .expect("only `finish` takes the writer")
    }

    /// Syncs and renames the file; it is durable when this returns. Returns its size.
    pub(crate) fn finish(mut self) -> Result<u64, ViewFileError> {
        let writer = self.writer.take().expect("only `finish` takes the writer");
        let bytes = writer.finish()?;
        fs::rename(&self.passing, &self.target)?;
        sync_folder(&self.folder)?;
        Ok(bytes)
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        // After the rename there is no file of that name.
        let _ = fs::remove_file(&self.passing);
    }
}

fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// A name that no other process has, also none of another container.
fn process_name() -> &'static str {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| {
        let bytes = DatabaseId::random().0;
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    })
}

/// Property numbers joined by `-`.
fn numbers(path: &[PropId]) -> String {
    let numbers: Vec<String> = path.iter().map(|prop| prop.0.to_string()).collect();
    numbers.join("-")
}

#[cfg(test)]
mod tests {
    use isomer_value::TypeId;

    use super::*;
    use crate::view_file::ViewFileRejection;

    fn head(version: u64) -> Head {
        Head {
            kind: ViewKind::Adjacency(TypeId(3), AdjacencySide::Out),
            era: [1; 16],
            version,
        }
    }

    #[test]
    fn a_file_is_replaced_as_a_whole_and_rubbish_goes_away() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("views");
        let folder = Folder::new(&path, &DataStoreOptions::default());
        assert!(folder.list().heads.is_empty());
        for version in [1, 2] {
            let fill = |writer: &mut Writer| writer.block(b"content");
            folder.write(head(version), fill).unwrap();
        }
        assert_eq!(folder.list().heads[0].0, head(2));

        let failed = folder.write(head(3), |_| Err(ViewFileRejection::Foreign.into()));
        assert!(matches!(
            failed,
            Err(ViewFileError::Rejected(ViewFileRejection::Foreign))
        ));
        assert_eq!(folder.list().heads[0].0, head(2), "the old one stays");

        fs::write(path.join("adjacency-9-in.new"), b"half").unwrap();
        fs::write(path.join("members-1.view"), b"rubbish").unwrap();
        let whole = path.join("adjacency-3-out.view");
        fs::copy(&whole, path.join("adjacency-4-out.view")).unwrap();
        fs::write(path.join("note.txt"), b"mine").unwrap();
        let mut reads = DataStoreOptions::default();
        reads.read_only = true;
        let looking = Folder::new(&path, &reads);
        assert_eq!(looking.list().heads.len(), 1);
        assert_eq!(
            fs::read_dir(&path).unwrap().count(),
            5,
            "read-only: nothing was removed"
        );
        assert_eq!(folder.list().heads.len(), 1);
        assert_eq!(fs::read_dir(&path).unwrap().count(), 2);

        folder.remove(&head(0).kind);
        assert!(folder.open(&head(0).kind).is_err());
    }
}
