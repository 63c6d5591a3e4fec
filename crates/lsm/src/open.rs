//! Opening, creating and recognising database directories.
//!
//! ```text
//! DIR/KEYS      wrapped data keys, where the database is encrypted (see `vfs::keys`)
//! DIR/LOCK      locked while the database is open, holds the id of the process that has it open
//! DIR/STORE     "isomerST", u32 format, u32 1 for a copy of a shared database, otherwise 0, u128 identity of the
//!               database, u64 check of these (XXH3); written as the last step of creating the database, after its
//!               manifest
//! DIR/log/      segments of the log
//! DIR/shared/   since format 3, instead of `log`: the log that processes share
//! DIR/tables/   tables and their manifest
//! ```
//!
//! The names of the files and their magic bytes are part of the format, and stay: `STORE` is from version 0.1.0, in
//! which the engine was called `store`.
//!
//! Format 2 means that the manifest is of format 2 at least: a missing or older one is detected. A database of
//! format 1 is upgraded to format 2 when it is first opened for writing, after its manifest. Format 3 means that the
//! log is the shared one: a database gets it when it is first opened for several processes (see `processes`).
//!
//! A copy (a checkpoint, a restored backup) has format 2, so that it can be made without a log. If its source was open
//! as a shared database, it says so, and the first opening for writing decides as for a new database: it becomes a
//! shared one, or stays as it is and says so no more. Earlier versions of the program ignore the mark.

use std::{io, path::Path};

use isomer_storage::{StorageError, damaged, io_error};
use isomer_vfs::{
    Disk, FileType, Lock, LockError, LockMode, OpenMode, Seal,
    keys::{self, KEYS_FILE, KeyError, NEW_KEYS_FILE},
    sync_above,
};
use xxhash_rust::xxh3::xxh3_64;

use crate::{LsmOptions, backup::refuse_unfinished, manifest::Stored};

/// The file that makes a folder a database of this engine.
pub const STORE: &str = "STORE";
const NEW_STORE: &str = "STORE.new";
pub const LOCK: &str = "LOCK";
pub const LOG: &str = "log";
/// The folder of the shared log.
pub const SHARED: &str = "shared";
pub const TABLES: &str = "tables";
const MAGIC: [u8; 8] = *b"isomerST";
/// The format of a database with a private log.
const OWN_LOG: u32 = 2;
/// The format of a database whose log processes share.
const SHARED_LOG: u32 = 3;
/// The mark of a copy of a shared database.
const SHARED_COPY: u32 = 1;
const STORE_BYTES: usize = 40;

/// Checks that `directory` may be a database, and creates the folder if that is allowed. A database that is
/// being restored is refused, unless it may be `unfinished`.
pub fn prepare(
    directory: &Path,
    options: &LsmOptions,
    unfinished: bool,
) -> Result<(), StorageError> {
    let place = directory.display();
    let not_a_database = |why: String| {
        Err(StorageError::Corrupt(format!(
            "`{place}` is not a database: {why}"
        )))
    };
    match options.disk.kind(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if !options.create || options.read_only {
                return Err(StorageError::Unavailable(format!(
                    "there is no database at `{place}`: check the path, or create it"
                )));
            }
            options
                .disk
                .make_folder(directory)
                .map_err(|error| io_error("making", directory, &error))?;
        }
        Err(error) => return Err(io_error("opening", directory, &error)),
        Ok(FileType::File | FileType::Other) => {
            return not_a_database(
                "it is a file, a database is a directory: give another path".to_owned(),
            );
        }
        Ok(FileType::Folder) => {}
    }
    if !unfinished {
        refuse_unfinished(&*options.disk, directory)?;
    }
    if exists(directory, options)? {
        return Ok(());
    }
    let names = options.disk.list(directory);
    for name in names.map_err(|error| io_error("reading", directory, &error))? {
        let own = [
            LOCK,
            NEW_STORE,
            LOG,
            SHARED,
            TABLES,
            KEYS_FILE,
            NEW_KEYS_FILE,
        ];
        if !own.iter().any(|own| name == Path::new(own)) {
            let name = name.display();
            return not_a_database(format!(
                "it holds other files (`{name}`), and none named `{STORE}`: give an empty or a new directory"
            ));
        }
    }
    for (folder, ending) in [(LOG, "log"), (TABLES, "tab"), (TABLES, "val")] {
        if holds(directory, folder, ending, options)? {
            return not_a_database(format!(
                "its file `{STORE}` is missing, and `{folder}` holds data: put the file back, or restore the database from a backup"
            ));
        }
    }
    if !options.create || options.read_only {
        return not_a_database("it is empty: check the path, or create the database".to_owned());
    }
    Ok(())
}

/// Whether a folder in `directory` holds files with an extension.
fn holds(
    directory: &Path,
    folder: &str,
    ending: &str,
    options: &LsmOptions,
) -> Result<bool, StorageError> {
    let folder = directory.join(folder);
    match options.disk.list(&folder) {
        Ok(names) => Ok(names
            .iter()
            .any(|name| name.extension().is_some_and(|own| own == ending))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(io_error("reading", &folder, &error)),
    }
}

/// Whether `directory` holds a database of this engine.
pub fn exists(directory: &Path, options: &LsmOptions) -> Result<bool, StorageError> {
    let path = directory.join(STORE);
    options
        .disk
        .exists(&path)
        .map_err(|error| io_error("opening", &path, &error))
}

/// Locks `directory` for one writer, or for readers, which exclude writers; of a shared database, for all processes
/// that share it.
pub fn lock(
    directory: &Path,
    options: &LsmOptions,
    mode: LockMode,
) -> Result<Option<Lock>, StorageError> {
    let path = directory.join(LOCK);
    options.disk.lock(&path, mode).map_err(|error| match error {
        LockError::Io(error) => io_error("locking", &path, &error),
        LockError::Held(pid) => StorageError::InUse {
            path: directory.to_owned(),
            pid,
        },
    })
}

/// The contents of the file `STORE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreFile {
    /// Identity of the database.
    pub identity: u128,
    format: u32,
    is_shared_copy: bool,
}

impl StoreFile {
    /// Of a database with a private log.
    pub fn with_own_log(identity: u128) -> Self {
        Self {
            identity,
            format: OWN_LOG,
            is_shared_copy: false,
        }
    }

    /// Of a database whose log processes share.
    pub fn with_shared_log(identity: u128) -> Self {
        Self {
            identity,
            format: SHARED_LOG,
            is_shared_copy: false,
        }
    }

    /// Of a copy with a private log; `of_shared` if its source was open as a shared database.
    pub fn of_copy(identity: u128, of_shared: bool) -> Self {
        Self {
            is_shared_copy: of_shared,
            ..Self::with_own_log(identity)
        }
    }

    /// Whether it is a copy of a shared database that was not opened for writing yet.
    pub fn is_shared_copy(&self) -> bool {
        self.is_shared_copy
    }

    /// Whether the manifest must name the files that belong to it.
    pub fn is_whole(&self) -> bool {
        self.format >= OWN_LOG
    }

    /// Whether its log is the shared one.
    pub fn is_shared(&self) -> bool {
        self.format >= SHARED_LOG
    }
}

/// The contents of the file `STORE` in `directory`; `None` if there is none: the database is still to be
/// created.
pub fn read(directory: &Path, options: &LsmOptions) -> Result<Option<StoreFile>, StorageError> {
    if !exists(directory, options)? {
        return Ok(None);
    }
    let path = directory.join(STORE);
    let read = |error: io::Error| io_error("reading", &path, &error);
    let file = options.disk.open(&path, OpenMode::Read).map_err(read)?;
    let mut bytes = [0; STORE_BYTES];
    match file.read_exact_at(&mut bytes, 0) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            return Err(damaged(
                directory,
                &format!("its file `{STORE}` is too short"),
            ));
        }
        other => other.map_err(read)?,
    }
    let (fields, check) = bytes.split_at(STORE_BYTES - 8);
    if fields[..8] != MAGIC {
        return Err(StorageError::Corrupt(format!(
            "`{}` is not a database: its file `{STORE}` was not written by this program: give another path, or restore it from a backup",
            directory.display()
        )));
    }
    if check != xxh3_64(fields).to_le_bytes() {
        return Err(damaged(
            directory,
            &format!("its file `{STORE}` is not what was written"),
        ));
    }
    let format = u32::from_le_bytes(fields[8..12].try_into().expect("four bytes"));
    if format > SHARED_LOG {
        return Err(StorageError::Corrupt(format!(
            "the database `{}` was written in format {format}, this program reads up to format {SHARED_LOG}: use a newer program",
            directory.display()
        )));
    }
    let mark = u32::from_le_bytes(fields[12..16].try_into().expect("four bytes"));
    let identity = u128::from_le_bytes(fields[16..32].try_into().expect("sixteen bytes"));
    Ok(Some(StoreFile {
        identity,
        format,
        is_shared_copy: format == OWN_LOG && mark == SHARED_COPY,
    }))
}

/// The identity of the database in `directory`.
pub fn identity(directory: &Path, options: &LsmOptions) -> Result<u128, StorageError> {
    match read(directory, options)? {
        Some(made) => Ok(made.identity),
        None => Err(damaged(
            directory,
            &format!("its file `{STORE}` is missing"),
        )),
    }
}

/// An identity that no other database has.
pub fn new_identity(options: &LsmOptions) -> u128 {
    u128::from((options.random)()) << 64 | u128::from((options.random)())
}

/// Creates the folders of a database, in a folder whose own name is durable afterwards, so that a database that
/// exists has a durable name. Folders left by an earlier attempt are reused: they are empty.
pub fn make_folders(directory: &Path, options: &LsmOptions) -> Result<(), StorageError> {
    let disk = &options.disk;
    sync_above(&**disk, directory).map_err(|error| io_error("making", directory, &error))?;
    for name in [LOG, TABLES] {
        let folder = directory.join(name);
        disk.make_folder(&folder)
            .map_err(|error| io_error("making", &folder, &error))?;
    }
    Ok(())
}

/// Creates the folders of a new database; returns its identity. An earlier attempt that was interrupted may have
/// written a manifest.
pub fn begin(directory: &Path, options: &LsmOptions) -> Result<u128, StorageError> {
    make_folders(directory, options)?;
    let folder = directory.join(TABLES);
    let begun = Stored::read(&*options.disk, &folder, &options.seal)?;
    let identity = begun
        .and_then(|stored| stored.whole)
        .map(|whole| whole.database);
    Ok(identity.unwrap_or_else(|| new_identity(options)))
}

/// Makes a folder with a log and tables a database, by writing its file `STORE`, or replaces that file.
pub fn create(
    directory: &Path,
    options: &LsmOptions,
    store: StoreFile,
) -> Result<(), StorageError> {
    let disk = &options.disk;
    let mark = match store.is_shared_copy {
        true => SHARED_COPY,
        false => 0,
    };
    let mut bytes = Vec::with_capacity(STORE_BYTES);
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&store.format.to_le_bytes());
    bytes.extend_from_slice(&mark.to_le_bytes());
    bytes.extend_from_slice(&store.identity.to_le_bytes());
    let check = xxh3_64(&bytes);
    bytes.extend_from_slice(&check.to_le_bytes());
    let (new, path) = (directory.join(NEW_STORE), directory.join(STORE));
    let made = (|| {
        let file = disk.open(&new, OpenMode::Create)?;
        file.write_all_at(&bytes, 0)?;
        file.sync()?;
        disk.rename(&new, &path)?;
        disk.sync_folder(directory)
    })();
    made.map_err(|error| io_error("making", &path, &error))
}

/// Makes durable what exists in `directory` (the database itself, its keys) before anything depends on it: the
/// process that created or changed it may have ended, or failed, before its name was durable, so that it is
/// only in the operating system's memory.
pub fn sync_names(directory: &Path, options: &LsmOptions) -> Result<(), StorageError> {
    if options.read_only {
        return Ok(());
    }
    let synced = options.disk.sync_folder(directory);
    synced.map_err(|error| io_error("opening", directory, &error))
}

/// The encryption of the database in `directory`: a wrong or missing key is reported before anything is
/// changed.
pub fn seal(directory: &Path, options: &LsmOptions) -> Result<Seal, StorageError> {
    if options.seal.encrypts() {
        return Ok(options.seal.clone());
    }
    let new = !exists(directory, options)?;
    keys::open(&*options.disk, directory, options.key.as_ref(), new).map_err(key_error)
}

/// The error for a refused key.
pub fn key_error(error: KeyError) -> StorageError {
    let text = error.to_string();
    match error {
        KeyError::Io(..) => StorageError::Unavailable(text),
        KeyError::Damaged(..) | KeyError::Format(..) => StorageError::Corrupt(text),
        // A wrong key, or none if there must be one.
        _ => StorageError::Invalid(text),
    }
}

/// Copies the file of keys, if the database in `directory` has one, into its copy in `target`.
pub fn copy_keys(directory: &Path, target: &Path, disk: &dyn Disk) -> Result<(), StorageError> {
    let path = directory.join(KEYS_FILE);
    let file = match disk.open(&path, OpenMode::Read) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found.map_err(|error| io_error("reading", &path, &error))?,
    };
    let copied = (|| {
        let mut bytes = vec![0; file.len()? as usize];
        file.read_exact_at(&mut bytes, 0)?;
        let copy = disk.open(&target.join(KEYS_FILE), OpenMode::Create)?;
        copy.write_all_at(&bytes, 0)?;
        copy.sync()
    })();
    copied.map_err(|error: io::Error| io_error("copying", &path, &error))
}
