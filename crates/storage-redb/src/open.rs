//! Opens, creates and recognises database directories.

use std::{
    cell::Cell,
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    rc::Rc,
};

use isomer_storage::{StorageError, damaged, io_error};
use isomer_vfs::{DiskFile, FileType, Lock, LockError, LockMode, OpenMode};
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};

use crate::{
    RedbOptions,
    block_file::{self, BlockFile, FORMAT_VERSION, Superblock},
};

pub const PAIRS: TableDefinition<'static, &[u8], &[u8]> = TableDefinition::new("pairs");
pub const STREAM: TableDefinition<'static, u64, &[u8]> = TableDefinition::new("stream");
pub const META: TableDefinition<'static, &str, u64> = TableDefinition::new("meta");
pub const VERSION: &str = "version";
/// The version up to which the change stream was trimmed; missing if it never was.
pub const TRIMMED: &str = "stream_trimmed";

pub const DATA: &str = "data";
const LOCK: &str = "LOCK";
pub const NEW_DATA: &str = "data.new";

/// An open redb instance over one file.
pub struct Instance {
    pub database: Database,
    pub blocks: BlockFile,
    /// Whether the last commit was damaged, so that redb rolled back to the one before.
    pub rolled_back: bool,
    /// Blocks whose checksums were renewed, because redb has verified their pages in use.
    pub healed: Vec<u64>,
}

/// Converts a panic inside redb, which only damaged data can cause, into an error.
pub fn guarded<T>(
    path: &Path,
    run: impl FnOnce() -> Result<T, StorageError>,
) -> Result<T, StorageError> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied());
        Err(damaged(
            path,
            text.unwrap_or("it panicked on unreadable data"),
        ))
    })
}

/// Converts redb's error into one of the contract.
pub fn redb_error(path: &Path, error: impl Into<redb::Error>) -> StorageError {
    match error.into() {
        redb::Error::Corrupted(what) => damaged(path, &what),
        redb::Error::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            damaged(path, "the file ends before the data does")
        }
        redb::Error::Io(error) => io_error("reading or writing", path, &error),
        redb::Error::TableDoesNotExist(table) => {
            damaged(path, &format!("the table `{table}` is missing"))
        }
        error @ (redb::Error::TableTypeMismatch { .. }
        | redb::Error::TypeDefinitionChanged { .. }) => damaged(path, &error.to_string()),
        redb::Error::RepairAborted => damaged(path, "it was not closed and cannot be repaired"),
        error => StorageError::Unavailable(format!("the database `{}`: {error}", path.display())),
    }
}

fn has_data(directory: &Path, options: &RedbOptions) -> Result<bool, StorageError> {
    let path = directory.join(DATA);
    let found = options.disk.exists(&path);
    found.map_err(|error| io_error("opening", &path, &error))
}

/// Locks `directory` for one writer, or for readers that exclude writers. Takes no lock if there is no lock
/// file and none may be created.
pub fn lock(directory: &Path, options: &RedbOptions) -> Result<Option<Lock>, StorageError> {
    let path = directory.join(LOCK);
    let mode = if options.read_only {
        LockMode::Shared
    } else {
        LockMode::Exclusive
    };
    options.disk.lock(&path, mode).map_err(|error| match error {
        LockError::Io(error) => io_error("locking", &path, &error),
        LockError::Held(pid) => StorageError::InUse {
            path: directory.to_owned(),
            pid,
        },
    })
}

/// Ensures that `directory` is a database; creates one if that is allowed.
pub fn prepare(directory: &Path, options: &RedbOptions) -> Result<(), StorageError> {
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
    if has_data(directory, options)? {
        return Ok(());
    }
    let names = options.disk.list(directory);
    for name in names.map_err(|error| io_error("reading", directory, &error))? {
        if name != Path::new(LOCK) && name != Path::new(NEW_DATA) {
            let name = name.display();
            return not_a_database(format!(
                "it holds other files (`{name}`), and none named `{DATA}`: give an empty or a new directory"
            ));
        }
    }
    if !options.create || options.read_only {
        return not_a_database("it is empty: check the path, or create the database".to_owned());
    }
    Ok(())
}

/// Creates the data file of a new database. `fill` writes its content; the file gets its final name when it
/// is complete.
pub fn create_data(
    directory: &Path,
    options: &RedbOptions,
    fill: impl FnOnce(&Database) -> Result<(), StorageError>,
) -> Result<(), StorageError> {
    let new = directory.join(NEW_DATA);
    let made = (|| {
        let file = options
            .disk
            .open(&new, OpenMode::Create)
            .map_err(|error| io_error("making", &new, &error))?;
        block_file::write_superblock(&*file).map_err(|error| io_error("writing", &new, &error))?;
        let blocks =
            BlockFile::new(file, false).map_err(|error| io_error("reading", &new, &error))?;
        let result = guarded(directory, || {
            let database = Database::builder()
                .set_cache_size(options.cache_bytes)
                .create_with_backend(blocks.clone())
                .map_err(|error| redb_error(directory, error))?;
            fill(&database)
        });
        if let Some(failure) = blocks.failure() {
            return Err(failure_error(directory, &failure));
        }
        result?;
        blocks
            .file()
            .sync()
            .map_err(|error| io_error("writing", &new, &error))?;
        options
            .disk
            .rename(&new, &directory.join(DATA))
            .map_err(|error| io_error("renaming", &new, &error))?;
        options
            .disk
            .sync_folder(directory)
            .map_err(|error| io_error("writing", directory, &error))
    })();
    if made.is_err() {
        // A leftover would only take space: the next creation starts from scratch.
        drop(options.disk.remove(&new));
    }
    made
}

/// The tables of an empty database.
pub fn fill_empty(directory: &Path, database: &Database) -> Result<(), StorageError> {
    let convert = |error: redb::Error| redb_error(directory, error);
    let transaction = database
        .begin_write()
        .map_err(|error| convert(error.into()))?;
    transaction
        .open_table(PAIRS)
        .map_err(|error| convert(error.into()))?;
    transaction
        .open_table(STREAM)
        .map_err(|error| convert(error.into()))?;
    transaction
        .open_table(META)
        .map_err(|error| convert(error.into()))?
        .insert(VERSION, 0)
        .map_err(|error| convert(error.into()))?;
    transaction.commit().map_err(|error| convert(error.into()))
}

/// Creates a new, empty database if there is none.
pub fn create_if_missing(directory: &Path, options: &RedbOptions) -> Result<(), StorageError> {
    let sync = |folder: &Path| {
        let synced = options.disk.sync_folder(folder);
        synced.map_err(|error| io_error("writing", folder, &error))
    };
    if has_data(directory, options)? {
        // An earlier creation may have failed or been interrupted: without the final name nothing in it is
        // durable.
        return sync(directory);
    }
    create_data(directory, options, |database| {
        fill_empty(directory, database)
    })?;
    match directory.parent() {
        Some(parent) if parent != Path::new("") => sync(parent),
        _ => Ok(()),
    }
}

/// The path of the data file.
pub fn data_path(directory: &Path) -> PathBuf {
    directory.join(DATA)
}

/// Opens the data file. With `overlay`, the file is not written.
///
/// After a crash the last commit may be half written, and redb rolls back to the one before. It must not do
/// so with a commit that was durable, so a file that will be written is first opened with an overlay in
/// memory.
pub fn open_data(
    directory: &Path,
    options: &RedbOptions,
    overlay: bool,
) -> Result<Instance, StorageError> {
    if let Some(instance) = try_open(directory, options, overlay, overlay)? {
        return Ok(instance);
    }
    drop(try_open(directory, options, true, true)?);
    let opened = try_open(directory, options, false, true)?;
    opened.ok_or_else(|| damaged(directory, "it was not closed and cannot be repaired"))
}

/// Opens the data file; returns `None` if redb would have to roll back the last commit, and must not.
fn try_open(
    directory: &Path,
    options: &RedbOptions,
    overlay: bool,
    may_roll_back: bool,
) -> Result<Option<Instance>, StorageError> {
    let path = data_path(directory);
    let how = if overlay {
        OpenMode::Read
    } else {
        OpenMode::Write
    };
    let file = options
        .disk
        .open(&path, how)
        .map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied
                if !overlay && options.disk.open(&path, OpenMode::Read).is_ok() =>
            {
                StorageError::Unavailable(format!(
                    "`{}` may not be written: open the database read-only, or change its mode",
                    path.display()
                ))
            }
            _ => io_error("opening", &path, &error),
        })?;
    let (clean, durable) = check_superblock(directory, &*file)?;
    let blocks =
        BlockFile::new(file, overlay).map_err(|error| io_error("reading", &path, &error))?;
    if let Some(expected) = clean {
        let found = blocks
            .header_sum()
            .map_err(|error| redb_error(directory, redb::Error::Io(error)))?;
        if found != expected {
            return Err(damaged(directory, "its header does not match its checksum"));
        }
        if !overlay {
            block_file::mark_in_use(blocks.file())
                .map_err(|error| io_error("writing", &path, &error))?;
        }
    }
    let (repaired, rolled_back) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(false)));
    let opened = guarded(directory, || {
        let (repaired, rolled_back, lenient) =
            (repaired.clone(), rolled_back.clone(), blocks.clone());
        let mut builder = Database::builder();
        builder
            .set_cache_size(options.cache_bytes)
            .set_repair_callback(move |session| {
                repaired.set(true);
                // redb reports 0.3 only when it rolls back the last commit.
                rolled_back.set(rolled_back.get() || (0.29..0.31).contains(&session.progress()));
                // A cleanly closed file needs no repair, so the damage is elsewhere.
                if clean.is_some() || (rolled_back.get() && !may_roll_back) {
                    session.abort();
                }
                lenient.set_lenient(true);
            });
        builder
            .create_with_backend(blocks.clone())
            .map_err(|error| redb_error(directory, error))
    });
    let damage = blocks.damaged();
    if !repaired.get() && !damage.is_empty() {
        return Err(damaged_blocks(directory, &damage));
    }
    if rolled_back.get() && !may_roll_back && clean.is_none() {
        blocks.supersede();
        return Ok(None);
    }
    let database = opened.map_err(|error| match blocks.failure() {
        Some(failure) if failure.full => failure_error(directory, &failure),
        _ => error,
    })?;
    if repaired.get() {
        blocks
            .heal()
            .map_err(|error| io_error("reading", &path, &error))?;
        blocks.set_lenient(false);
    }
    let healed = if repaired.get() { damage } else { Vec::new() };
    let instance = Instance {
        database,
        blocks,
        rolled_back: rolled_back.get(),
        healed,
    };
    let stored = stored_version(directory, &instance.database)?;
    if let Some(durable) = durable.filter(|durable| *durable > stored) {
        instance.blocks.supersede();
        let what = format!(
            "the commits from {} to {durable} were on disk and are lost",
            stored + 1
        );
        return Err(damaged(directory, &what));
    }
    Ok(Some(instance))
}

/// The error for damaged blocks.
pub fn damaged_blocks(directory: &Path, blocks: &[u64]) -> StorageError {
    let shown: Vec<String> = blocks.iter().take(5).map(u64::to_string).collect();
    let more = if blocks.len() > 5 {
        format!(" and {} more", blocks.len() - 5)
    } else {
        String::new()
    };
    let what = format!(
        "the checksum of block {}{more} of its file does not match",
        shown.join(", ")
    );
    damaged(directory, &what)
}

/// The error for the first failure on the file.
pub fn failure_error(directory: &Path, failure: &block_file::Failure) -> StorageError {
    let place = directory.display();
    StorageError::Unavailable(if failure.full {
        format!(
            "the disk of `{place}` is full: free some space and try again; nothing of this commit was kept"
        )
    } else {
        format!("an input or output error on `{place}`: {}", failure.message)
    })
}

/// Verifies the superblock; returns the checksum of block 0 and the durable version recorded in it.
fn check_superblock(
    directory: &Path,
    file: &dyn DiskFile,
) -> Result<(Option<u64>, Option<u64>), StorageError> {
    let path = data_path(directory);
    let superblock =
        block_file::read_superblock(file).map_err(|error| io_error("reading", &path, &error))?;
    match superblock {
        Superblock::Valid { clean, durable } => Ok((clean, durable)),
        Superblock::Newer(version) => Err(StorageError::Corrupt(format!(
            "the database `{}` was written in format {version}, this program reads up to format {FORMAT_VERSION}: use a newer program",
            directory.display()
        ))),
        Superblock::Foreign => {
            let empty = file.is_empty().unwrap_or(false);
            let what = if empty {
                "is empty"
            } else {
                "was not written by this program"
            };
            Err(StorageError::Corrupt(format!(
                "`{}` is not a database: its file `{DATA}` {what}: give another path, or restore it from a backup",
                directory.display()
            )))
        }
        Superblock::Damaged => Err(damaged(
            directory,
            "its first block does not match its checksum",
        )),
    }
}

/// The last version committed by an instance.
pub fn stored_version(directory: &Path, database: &Database) -> Result<u64, StorageError> {
    stored_number(directory, database, VERSION)?
        .ok_or_else(|| damaged(directory, "the record of its version is missing"))
}

/// A number stored by an instance.
pub fn stored_number(
    directory: &Path,
    database: &Database,
    name: &str,
) -> Result<Option<u64>, StorageError> {
    guarded(directory, || {
        let read = database
            .begin_read()
            .map_err(|error| redb_error(directory, error))?;
        let meta = read
            .open_table(META)
            .map_err(|error| redb_error(directory, error))?;
        let number =
            ReadableTable::get(&meta, name).map_err(|error| redb_error(directory, error))?;
        Ok(number.map(|number| number.value()))
    })
}
