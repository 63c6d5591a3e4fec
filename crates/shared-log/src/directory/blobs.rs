//! Shared objects in a directory of one machine.
//!
//! An object is a file, `@` and its name with `+` for `/`, so that any two names differ in the file system too:
//!
//! ```text
//! "isomerSB", u32 format, u32 0, u128 tag, u64 length of the content, u64 check of the content: XXH3, seeded with the length,
//! u64 check of the bytes before: XXH3, content
//! ```
//!
//! A file is written under a name that begins with `#`, with the process that writes it, and synced. It gets its name
//! by a link if the object must not exist, and by a rename if it replaces another one. Both, and [`Blobs::get`], take
//! the lock of the file `lock`: what a caller reads is durable, unless the process that wrote it was killed before it
//! had synced the folder.

use std::{
    io,
    ops::Range,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use isomer_vfs::{Disk, DiskFile, LockFile, OpenMode, RealDisk, process::ProcessId, sync_above};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::{
    file_system::check_file_system,
    frame::take,
    process_lock::{Locked, ProcessLock},
    random::random,
};
use crate::{BlobError, Blobs, Created, Replaced, Tag, check_name};

const MAGIC: [u8; 8] = *b"isomerSB";
const FORMAT: u32 = 1;
const HEAD_BYTES: usize = 56;
/// How long a call waits for one of another process, which may be stopped.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// Shared objects in a directory, for any number of processes of one machine. [`Blobs::get_range`] checks no content,
/// and may return that of an object that is not durable yet: read ranges of objects that a durable one names.
#[derive(Debug)]
pub struct DirectoryBlobs {
    folder: PathBuf,
    disk: Arc<dyn Disk>,
    lock: ProcessLock,
    /// Number of files that this handle has begun to write.
    written: AtomicU64,
    own: ProcessId,
}

/// An open object.
struct Object {
    file: Arc<dyn DiskFile>,
    path: PathBuf,
    tag: Tag,
    length: u64,
    check: u64,
}

impl DirectoryBlobs {
    /// Opens the objects in `folder`, which is made if it does not exist.
    ///
    /// # Errors
    /// `Refused` on a network file system and without the rights.
    pub fn open(folder: &Path) -> Result<Self, BlobError> {
        Self::open_on(Arc::new(RealDisk), folder)
    }

    /// The same, with the file system `disk`; locks are always those of the operating system.
    ///
    /// # Errors
    /// As for [`DirectoryBlobs::open`].
    pub fn open_on(disk: Arc<dyn Disk>, folder: &Path) -> Result<Self, BlobError> {
        let failed = |error: io::Error| blob_error(folder, &error);
        disk.make_folder(folder).map_err(failed)?;
        check_file_system(&*disk, folder).map_err(BlobError::Refused)?;
        sync_above(&*disk, &folder.join("lock")).map_err(failed)?;
        let lock = LockFile::open(&folder.join("lock")).map_err(failed)?;
        let blobs = Self {
            folder: folder.to_owned(),
            disk,
            lock: ProcessLock::new(lock),
            written: AtomicU64::new(0),
            own: ProcessId::current(),
        };
        blobs.remove_abandoned()?;
        Ok(blobs)
    }

    /// Removes what processes that have ended did not finish.
    fn remove_abandoned(&self) -> Result<(), BlobError> {
        let names = self.names()?;
        for name in names.iter().filter(|name| name.starts_with('#')) {
            let owner = owner(name);
            if owner.is_none_or(|owner| owner.is_running() == Some(false)) {
                // Another process may do the same.
                let _ = self.disk.remove(&self.folder.join(name));
            }
        }
        Ok(())
    }

    fn names(&self) -> Result<Vec<String>, BlobError> {
        let names = self.disk.list(&self.folder);
        let names = names.map_err(|error| blob_error(&self.folder, &error))?;
        let texts = names
            .into_iter()
            .filter_map(|name| Some(name.to_str()?.to_owned()));
        Ok(texts.collect())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("@{}", name.replace('/', "+")))
    }

    fn locked(&self) -> Result<Locked<'_>, BlobError> {
        let locked = self.lock.lock(None, LOCK_TIMEOUT);
        let locked = locked.map_err(|error| blob_error(&self.folder, &error))?;
        locked.ok_or_else(|| {
            let what = "another process has been writing for long, and may be stopped";
            BlobError::Unavailable(what.into())
        })
    }

    /// Writes a file with `content` under a temporary name, durably. Returns its path and the tag.
    fn write(&self, content: &[u8]) -> Result<(PathBuf, Tag), BlobError> {
        let tag = u128::from(random()) << 64 | u128::from(random());
        let number = self.written.fetch_add(1, Ordering::Relaxed);
        let ProcessId {
            pid,
            started,
            namespace,
        } = self.own;
        let name = format!("#{pid}.{started}.{namespace}.{number}.{:x}", random());
        let path = self.folder.join(name);
        let written = self.disk.open(&path, OpenMode::Create).and_then(|file| {
            file.write_all_at(&encode_head(tag, content), 0)?;
            file.write_all_at(content, HEAD_BYTES as u64)?;
            file.sync()
        });
        written.map_err(|error| {
            self.discard(&path);
            blob_error(&path, &error)
        })?;
        Ok((path, to_tag(tag)))
    }

    /// Removes a file that got no other name, or has another one. If that fails, it is removed later.
    fn discard(&self, path: &Path) {
        let _ = self.disk.remove(path);
    }

    /// The object in the file `path`, if there is one.
    fn object(&self, name: &str) -> Result<Option<Object>, BlobError> {
        let path = self.path(name);
        let mut head = [0; HEAD_BYTES];
        let opened = self.disk.open(&path, OpenMode::Read).and_then(|file| {
            file.read_exact_at(&mut head, 0)?;
            let len = file.len()?;
            Ok((file, len))
        });
        let (file, len) = match opened {
            Ok(opened) => opened,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(damaged(name, "it is too short"));
            }
            Err(error) => return Err(blob_error(&path, &error)),
        };
        if head[..8] != MAGIC {
            return Err(damaged(name, "it does not begin as an object does"));
        }
        let format = u32::from_le_bytes([head[8], head[9], head[10], head[11]]);
        if format != FORMAT {
            return Err(BlobError::Refused(format!(
                "`{name}` has the format {format}, and this program knows {FORMAT}: use the version of the program that \
                 made it"
            )));
        }
        let (tag, length, check) =
            decode_head(&head).ok_or_else(|| damaged(name, "its head does not match"))?;
        if len != HEAD_BYTES as u64 + length {
            return Err(damaged(name, "it has another length"));
        }
        Ok(Some(Object {
            file,
            path,
            tag: to_tag(tag),
            length,
            check,
        }))
    }
}

impl Object {
    fn read(&self, range: Range<u64>) -> Result<Vec<u8>, BlobError> {
        let end = range.end.min(self.length);
        let start = range.start.min(end);
        let mut content = vec![0; (end - start) as usize];
        let read = self
            .file
            .read_exact_at(&mut content, HEAD_BYTES as u64 + start);
        read.map_err(|error| blob_error(&self.path, &error))?;
        Ok(content)
    }
}

impl Blobs for DirectoryBlobs {
    fn get(&self, name: &str) -> Result<Option<(Vec<u8>, Tag)>, BlobError> {
        check_name(name)?;
        let object = {
            let _lock = self.locked()?;
            self.object(name)?
        };
        let Some(object) = object else {
            return Ok(None);
        };
        let content = object.read(0..object.length)?;
        match xxh3_64_with_seed(&content, object.length) == object.check {
            true => Ok(Some((content, object.tag))),
            false => Err(damaged(name, "its content does not match")),
        }
    }

    fn get_range(&self, name: &str, range: Range<u64>) -> Result<Option<Vec<u8>>, BlobError> {
        check_name(name)?;
        let object = self.object(name)?;
        object.map(|object| object.read(range)).transpose()
    }

    fn create(&self, name: &str, content: &[u8]) -> Result<Created, BlobError> {
        check_name(name)?;
        let path = self.path(name);
        let exists = self.disk.exists(&path);
        if exists.map_err(|error| blob_error(&path, &error))? {
            // The object that the caller learns of is durable then.
            drop(self.locked()?);
            return Ok(Created::Exists);
        }
        let (new, tag) = self.write(content)?;
        let linked = self.locked().map(|_lock| {
            let linked = self.disk.link(&new, &path);
            linked.map(|()| self.disk.sync_folder(&self.folder))
        });
        self.discard(&new);
        match linked? {
            Ok(Ok(())) => Ok(Created::Created(tag)),
            Ok(Err(error)) => Ok(Created::Unknown(error.to_string())),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(Created::Exists),
            // A failed link may have taken effect.
            Err(error) => Ok(Created::Unknown(format!("`{}`: {error}", path.display()))),
        }
    }

    fn replace(&self, name: &str, known: &Tag, content: &[u8]) -> Result<Replaced, BlobError> {
        check_name(name)?;
        let path = self.path(name);
        let (new, tag) = self.write(content)?;
        let replaced = self.locked().and_then(|_lock| {
            let current = self.object(name)?;
            if current.is_none_or(|current| current.tag != *known) {
                return Ok(Replaced::Changed);
            }
            let renamed = self.disk.rename(&new, &path);
            Ok(
                match renamed.and_then(|()| self.disk.sync_folder(&self.folder)) {
                    Ok(()) => Replaced::Replaced(tag),
                    Err(error) => Replaced::Unknown(format!("`{}`: {error}", path.display())),
                },
            )
        });
        if !matches!(replaced, Ok(Replaced::Replaced(_))) {
            self.discard(&new);
        }
        replaced
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>, BlobError> {
        let names = self.names()?;
        let names = names.iter().filter_map(|name| name.strip_prefix('@'));
        let mut names: Vec<String> = names.map(|name| name.replace('+', "/")).collect();
        names.retain(|name| name.starts_with(prefix) && check_name(name).is_ok());
        names.sort_unstable();
        Ok(names)
    }

    fn remove(&self, name: &str) -> Result<(), BlobError> {
        check_name(name)?;
        let path = self.path(name);
        let _lock = self.locked()?;
        let removed = self.disk.remove(&path);
        match removed.and_then(|()| self.disk.sync_folder(&self.folder)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(blob_error(&path, &error)),
            _ => Ok(()),
        }
    }
}

/// The process that writes the file `name`.
fn owner(name: &str) -> Option<ProcessId> {
    let mut parts = name.strip_prefix('#')?.split('.');
    Some(ProcessId {
        pid: parts.next()?.parse().ok()?,
        started: parts.next()?.parse().ok()?,
        namespace: parts.next()?.parse().ok()?,
    })
}

fn to_tag(tag: u128) -> Tag {
    Tag(format!("{tag:032x}"))
}

fn encode_head(tag: u128, content: &[u8]) -> [u8; HEAD_BYTES] {
    let length = content.len() as u64;
    head(tag, length, xxh3_64_with_seed(content, length))
}

fn head(tag: u128, length: u64, check: u64) -> [u8; HEAD_BYTES] {
    let mut bytes = [0; HEAD_BYTES];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&FORMAT.to_le_bytes());
    bytes[16..32].copy_from_slice(&tag.to_le_bytes());
    bytes[32..40].copy_from_slice(&length.to_le_bytes());
    bytes[40..48].copy_from_slice(&check.to_le_bytes());
    let own = xxh3_64(&bytes[..48]);
    bytes[48..].copy_from_slice(&own.to_le_bytes());
    bytes
}

/// Tag, length and check of the content.
fn decode_head(bytes: &[u8; HEAD_BYTES]) -> Option<(u128, u64, u64)> {
    let mut rest = &bytes[16..];
    let tag = u128::from_le_bytes(take(&mut rest)?);
    let length = u64::from_le_bytes(take(&mut rest)?);
    let check = u64::from_le_bytes(take(&mut rest)?);
    (head(tag, length, check) == *bytes).then_some((tag, length, check))
}

fn damaged(name: &str, what: &str) -> BlobError {
    BlobError::Damaged {
        name: name.to_owned(),
        what: what.to_owned(),
    }
}

/// A failed call of the file system at `path`.
fn blob_error(path: &Path, error: &io::Error) -> BlobError {
    let what = format!("`{}`: {error}", path.display());
    match error.kind() {
        io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            BlobError::Unavailable(what)
        }
        _ => BlobError::Refused(what),
    }
}
