//! Opening, making and recognising database directories.
//!
//! ```text
//! DIR/KEYS      wrapped data keys, where the database is encrypted (see `vfs::keys`)
//! DIR/LOCK      locked while the database is open, holds the process id of the one who has it open
//! DIR/STORE     "isomerST", u32 format, u32 0, u128 identity of the database, u64 check of these (XXH3); written once, as
//!               the last step of making the database
//! DIR/log/      segments of the log
//! DIR/tables/   tables and their manifest
//! ```

use std::{io, path::Path};

use isomer_storage::{StorageError, damaged, io_error};
use isomer_vfs::{
    Disk, Kind, Lock, LockError, LockMode, Open, Seal,
    keys::{self, KEYS_FILE, KeyError, NEW_KEYS_FILE},
    sync_above,
};
use xxhash_rust::xxh3::xxh3_64;

use crate::{StoreOptions, backup::refuse_unfinished};

/// The file that makes a folder a database of this engine.
pub const STORE: &str = "STORE";
const NEW_STORE: &str = "STORE.new";
const LOCK: &str = "LOCK";
pub const LOG: &str = "log";
pub const TABLES: &str = "tables";
const MAGIC: [u8; 8] = *b"isomerST";
const FORMAT: u32 = 1;
const STORE_BYTES: usize = 40;

/// Makes sure that `directory` may be a database, making the folder where that is allowed. One that is being restored is
/// none, unless it may be `unfinished`.
pub fn prepare(
    directory: &Path,
    options: &StoreOptions,
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
        Ok(Kind::File | Kind::Other) => {
            return not_a_database(
                "it is a file, a database is a directory: give another path".to_owned(),
            );
        }
        Ok(Kind::Folder) => {}
    }
    if !unfinished {
        refuse_unfinished(&*options.disk, directory)?;
    }
    if exists(directory, options)? {
        return Ok(());
    }
    let names = options.disk.list(directory);
    for name in names.map_err(|error| io_error("reading", directory, &error))? {
        if ![LOCK, NEW_STORE, LOG, TABLES, KEYS_FILE, NEW_KEYS_FILE]
            .iter()
            .any(|own| name == Path::new(own))
        {
            let name = name.display();
            return not_a_database(format!(
                "it holds other files (`{name}`), and none named `{STORE}`: give an empty or a new directory"
            ));
        }
    }
    if !options.create || options.read_only {
        return not_a_database("it is empty: check the path, or create the database".to_owned());
    }
    Ok(())
}

/// Whether `directory` holds a database of this engine.
pub fn exists(directory: &Path, options: &StoreOptions) -> Result<bool, StorageError> {
    let path = directory.join(STORE);
    options
        .disk
        .exists(&path)
        .map_err(|error| io_error("opening", &path, &error))
}

/// Locks `directory` for one writer, or for readers that keep writers out.
pub fn lock(directory: &Path, options: &StoreOptions) -> Result<Option<Lock>, StorageError> {
    let path = directory.join(LOCK);
    let mode = if options.read_only {
        LockMode::Shared
    } else {
        LockMode::Exclusive
    };
    let place = directory.display();
    options.disk.lock(&path, mode).map_err(|error| match error {
        LockError::Io(error) => io_error("locking", &path, &error),
        LockError::Held(Some(pid)) if pid == std::process::id() => StorageError::Unavailable(format!(
            "the database `{place}` is already open in this process ({pid}): share the open one, or close it first"
        )),
        LockError::Held(Some(pid)) => {
            StorageError::Unavailable(format!("the database `{place}` is in use by process {pid}: close it there first"))
        }
        LockError::Held(None) => {
            StorageError::Unavailable(format!("the database `{place}` is in use by another process: close it there first"))
        }
    })
}

/// The identity of the database in `directory`, which is made first where there is none.
pub fn identity(directory: &Path, options: &StoreOptions) -> Result<u128, StorageError> {
    if !exists(directory, options)? {
        let identity = new_identity(options);
        // Before it is a database: one that is there has a durable name.
        sync_above(&*options.disk, directory)
            .map_err(|error| io_error("making", directory, &error))?;
        create(directory, options, identity)?;
        return Ok(identity);
    }
    let path = directory.join(STORE);
    let read = |error: io::Error| io_error("reading", &path, &error);
    let file = options.disk.open(&path, Open::Read).map_err(read)?;
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
    if format > FORMAT {
        return Err(StorageError::Corrupt(format!(
            "the database `{}` was written in format {format}, this program reads up to format {FORMAT}: use a newer program",
            directory.display()
        )));
    }
    Ok(u128::from_le_bytes(
        fields[16..32].try_into().expect("sixteen bytes"),
    ))
}

/// What no other database is called.
pub fn new_identity(options: &StoreOptions) -> u128 {
    u128::from((options.random)()) << 64 | u128::from((options.random)())
}

/// Makes an empty database with an identity in a folder whose own name is durable. What an attempt before left behind is taken over: it is empty.
pub fn create(
    directory: &Path,
    options: &StoreOptions,
    identity: u128,
) -> Result<(), StorageError> {
    let disk = &options.disk;
    for name in [LOG, TABLES] {
        let folder = directory.join(name);
        disk.make_folder(&folder)
            .map_err(|error| io_error("making", &folder, &error))?;
    }
    let mut bytes = Vec::with_capacity(STORE_BYTES);
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&FORMAT.to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&identity.to_le_bytes());
    let check = xxh3_64(&bytes);
    bytes.extend_from_slice(&check.to_le_bytes());
    let (new, path) = (directory.join(NEW_STORE), directory.join(STORE));
    let made = (|| {
        let file = disk.open(&new, Open::Create)?;
        file.write_all_at(&bytes, 0)?;
        file.sync()?;
        disk.rename(&new, &path)?;
        disk.sync_folder(directory)
    })();
    made.map_err(|error| io_error("making", &path, &error))
}

/// Makes durable what is found in `directory` (the database itself, its keys) before anything builds upon it: whoever made or
/// changed it may have ended, or failed, before its name was, and only the operating system's memory has it.
pub fn settle(directory: &Path, options: &StoreOptions) -> Result<(), StorageError> {
    if options.read_only {
        return Ok(());
    }
    let synced = options.disk.sync_folder(directory);
    synced.map_err(|error| io_error("opening", directory, &error))
}

/// What encrypts the database in `directory`: a wrong or missing key is told before anything is touched.
pub fn seal(directory: &Path, options: &StoreOptions) -> Result<Seal, StorageError> {
    if options.seal.encrypts() {
        return Ok(options.seal.clone());
    }
    let new = !exists(directory, options)?;
    keys::open(&*options.disk, directory, options.key.as_ref(), new).map_err(key_error)
}

/// A key that was refused, in the contract's words.
pub fn key_error(error: KeyError) -> StorageError {
    let told = error.to_string();
    match error {
        KeyError::Io(..) => StorageError::Unavailable(told),
        KeyError::Damaged(..) | KeyError::Format(..) => StorageError::Corrupt(told),
        KeyError::Missing(_)
        | KeyError::NotEncrypted(_)
        | KeyError::Wrong(_)
        | KeyError::Malformed(_) => StorageError::Invalid(told),
    }
}

/// Copies the file of keys, where the database in `directory` has one, into its copy in `target`.
pub fn copy_keys(directory: &Path, target: &Path, disk: &dyn Disk) -> Result<(), StorageError> {
    let path = directory.join(KEYS_FILE);
    let file = match disk.open(&path, Open::Read) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found.map_err(|error| io_error("reading", &path, &error))?,
    };
    let copied = (|| {
        let mut bytes = vec![0; file.len()? as usize];
        file.read_exact_at(&mut bytes, 0)?;
        let copy = disk.open(&target.join(KEYS_FILE), Open::Create)?;
        copy.write_all_at(&bytes, 0)?;
        copy.sync()
    })();
    copied.map_err(|error: io::Error| io_error("copying", &path, &error))
}
