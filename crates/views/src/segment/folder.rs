//! The folder of the views' files: `<database>/views/`.
//!
//! A file is named after its view (`adjacency-3-out`, `members-7`, `column-7-2-9`) with the ending `.view`. It is written
//! beside its place with the ending `.N.new`, synced, and put in place by one renaming, which the folder is then synced for: so
//! a name leads to a whole file, the old one or the new one, at every moment.

use std::{
    fs::{self, File, OpenOptions},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use isomer_value::PropId;
use isomer_vfs::Seal;

use super::{Blocks, Head, SegmentError, Writer};
use crate::{DamagedFile, Side, ViewKind};

const ENDING: &str = "view";
const NEW: &str = "new";

/// Counts files that are being written.
static FILES: AtomicU64 = AtomicU64::new(0);

/// What is in a folder.
#[derive(Default)]
pub(crate) struct Found {
    /// What the files hold, and their sizes.
    pub(crate) heads: Vec<(Head, u64)>,
    pub(crate) damaged: Vec<DamagedFile>,
}

/// Where views are kept.
#[derive(Clone, Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    /// Nothing is written or removed.
    read_only: bool,
    seal: Seal,
}

impl Folder {
    /// That folder, which need not be there yet.
    pub(crate) fn new(path: &Path, read_only: bool, seal: Seal) -> Self {
        Self {
            path: path.to_owned(),
            read_only,
            seal,
        }
    }

    /// Whether files are encrypted.
    pub(crate) fn encrypts(&self) -> bool {
        self.seal.encrypts()
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// The heads of all files in it that can be read, with their sizes. Files that were not finished are removed, and so are
    /// those whose header is damaged.
    pub(crate) fn list(&self) -> Found {
        let mut found = Found::default();
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
                        // Not under its own name: somebody put it there.
                        Ok(_) => self.remove_file(&path),
                        Err(SegmentError::Damaged(reason)) => {
                            let name = name_of(&path);
                            found.damaged.push(DamagedFile { name, reason });
                            self.remove_file(&path);
                        }
                        Err(_) => {}
                    }
                }
                _ => {} // nobody's business
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
    pub(crate) fn open(&self, kind: &ViewKind) -> Result<Blocks, SegmentError> {
        let blocks = Blocks::open(File::open(self.path_of(kind))?, &self.seal)?;
        if blocks.head().kind != *kind {
            return Err(SegmentError::Damaged("it holds another view".into()));
        }
        Ok(blocks)
    }

    /// Writes the file of a view through `fill`, in place of the one that there may be. Answers its size.
    pub(crate) fn write(
        &self,
        head: Head,
        fill: impl FnOnce(&mut Writer) -> Result<(), SegmentError>,
    ) -> Result<u64, SegmentError> {
        let mut file = self.begin(head)?;
        fill(file.writer())?;
        file.finish()
    }

    /// Begins the file of a view: to be filled, and put in place by [`NewFile::finish`].
    pub(crate) fn begin(&self, head: Head) -> Result<NewFile, SegmentError> {
        self.make()?;
        let target = self.path_of(&head.kind);
        // Two may be at work on one view: one saves it, another loads its records anew.
        let number = FILES.fetch_add(1, Ordering::Relaxed);
        let passing = target.with_extension(format!("{number}.{NEW}"));
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let writer = Writer::new(options.open(&passing)?, head, &self.seal)?;
        Ok(NewFile {
            writer: Some(writer),
            folder: self.path.clone(),
            passing,
            target,
        })
    }

    fn make(&self) -> Result<(), SegmentError> {
        if self.path.is_dir() {
            return Ok(());
        }
        let mut builder = fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        match builder.create(&self.path) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(error.into()),
            _ => {
                if let Some(parent) = self.path.parent() {
                    File::open(parent)?.sync_all()?;
                }
                Ok(())
            }
        }
    }

    /// Removes the file of a view, where there is one.
    pub(crate) fn remove(&self, kind: &ViewKind) {
        self.remove_file(&self.path_of(kind));
    }

    fn remove_file(&self, path: &Path) {
        if !self.read_only {
            // What cannot be removed is recognised for what it is each time.
            let _ = fs::remove_file(path);
        }
    }

    fn path_of(&self, kind: &ViewKind) -> PathBuf {
        let name = match kind {
            ViewKind::Adjacency(type_id, Side::Out) => format!("adjacency-{}-out", type_id.0),
            ViewKind::Adjacency(type_id, Side::In) => format!("adjacency-{}-in", type_id.0),
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

/// A file that is being written; removed where it is not finished.
pub(crate) struct NewFile {
    writer: Option<Writer>,
    folder: PathBuf,
    passing: PathBuf,
    target: PathBuf,
}

impl NewFile {
    /// Where its blocks go.
    pub(crate) fn writer(&mut self) -> &mut Writer {
        self.writer.as_mut().expect("only finishing takes it")
    }

    /// Puts it in place; on disk when this returns. Answers its size.
    pub(crate) fn finish(mut self) -> Result<u64, SegmentError> {
        let writer = self.writer.take().expect("only finishing takes it");
        let bytes = writer.finish()?;
        fs::rename(&self.passing, &self.target)?;
        File::open(&self.folder)?.sync_all()?;
        Ok(bytes)
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        // After a renaming there is none of that name.
        let _ = fs::remove_file(&self.passing);
    }
}

fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// Property numbers with `-` between them.
fn numbers(path: &[PropId]) -> String {
    let numbers: Vec<String> = path.iter().map(|prop| prop.0.to_string()).collect();
    numbers.join("-")
}

#[cfg(test)]
mod tests {
    use isomer_value::TypeId;

    use super::*;

    fn head(version: u64) -> Head {
        Head {
            kind: ViewKind::Adjacency(TypeId(3), Side::Out),
            era: [1; 16],
            version,
        }
    }

    #[test]
    fn a_file_is_replaced_as_a_whole_and_rubbish_goes_away() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("views");
        let folder = Folder::new(&path, false, Seal::plain());
        assert!(folder.list().heads.is_empty());
        for version in [1, 2] {
            let fill = |writer: &mut Writer| writer.block(b"content");
            folder.write(head(version), fill).unwrap();
        }
        assert_eq!(folder.list().heads[0].0, head(2));

        let failed = folder.write(head(3), |_| Err(SegmentError::Foreign));
        assert!(matches!(failed, Err(SegmentError::Foreign)));
        assert_eq!(folder.list().heads[0].0, head(2), "the old one stays");

        fs::write(path.join("adjacency-9-in.new"), b"half").unwrap();
        fs::write(path.join("members-1.view"), b"rubbish").unwrap();
        let whole = path.join("adjacency-3-out.view");
        fs::copy(&whole, path.join("adjacency-4-out.view")).unwrap();
        fs::write(path.join("note.txt"), b"mine").unwrap();
        let looking = Folder::new(&path, true, Seal::plain());
        assert_eq!(looking.list().heads.len(), 1);
        assert_eq!(fs::read_dir(&path).unwrap().count(), 5, "only looked at");
        assert_eq!(folder.list().heads.len(), 1);
        assert_eq!(fs::read_dir(&path).unwrap().count(), 2);

        folder.remove(&head(0).kind);
        assert!(folder.open(&head(0).kind).is_err());
    }
}
