//! Converting a database with a private log into a shared one.
//!
//! 1. All commits go into tables.
//! 2. What the log still has of the change stream, and the times of its commits, are written to a new shared log.
//! 3. The manifest gets the format with the place behind them.
//! 4. The file `STORE` gets the format of a shared database. Up to here the database is one with its private log: an
//!    attempt that ends earlier is repeated, and the database can also be opened as before.
//! 5. The log is removed, by the first process that maintains the tables.

use std::path::Path;

use isomer_shared_log::{Append, Record, RecordHash, SharedLog};
use isomer_storage::{
    Commit, GroupEncoder, LogPoint, LoggedFootprint, StorageError, Version, Watermarks, WriteSet,
    damaged,
};

use super::{
    opening::{OpenedLog, open_log},
    wal::log_error,
};
use crate::{
    LogSharing, LsmOptions,
    backup::remove_folder,
    log::Log,
    manifest::Stored,
    open::{self, StoreFile},
};

/// Bytes of the entries in one record.
const RECORD_BYTES: usize = 1 << 20;

/// A database with a private log, open.
pub trait PrivateDatabase {
    /// Flushes all commits to tables.
    fn flush(&self) -> Result<(), StorageError>;
    /// The last version.
    fn version(&self) -> Version;
    /// Its log.
    fn log(&self) -> Result<&Log, StorageError>;
    /// The options with which it was opened.
    fn options(&self) -> &LsmOptions;
}

/// Opens a database with a private log, whose lock the caller has.
pub type OpenPrivate<'a> =
    dyn Fn(LsmOptions, StoreFile) -> Result<Box<dyn PrivateDatabase>, StorageError> + 'a;

/// Converts the database in `directory`, for which this process has the exclusive lock.
pub fn convert(
    directory: &Path,
    options: &LsmOptions,
    store: StoreFile,
    open_private: &OpenPrivate<'_>,
) -> Result<(), StorageError> {
    let disk = &*options.disk;
    let alone = LsmOptions {
        sharing: LogSharing::Exclusive,
        background: false,
        ..options.clone()
    };
    let database = open_private(alone, store)?;
    database.flush()?;
    // An attempt that was interrupted may have left one.
    remove_folder(disk, &directory.join(open::SHARED))?;
    let options = LsmOptions {
        sharing: options.sharing.clone(),
        ..database.options().clone()
    };
    let OpenedLog { log, .. } = open_log(directory, &options)?;
    if log.end().map_err(log_error)? > 1 {
        return Err(damaged(
            directory,
            "it has a private log, and a shared log with records",
        ));
    }
    let point = write_history(&*database, &*log, &options)?;
    log.sync(point.next).map_err(log_error)?;
    let version = database.version();
    drop(log);
    // Closing it writes the manifest.
    drop(database);
    let tables = directory.join(open::TABLES);
    let stored = Stored::read(disk, &tables, &options.seal)?;
    let mut stored = stored.ok_or_else(|| damaged(directory, "its manifest is missing"))?;
    stored.log_point = Some(point);
    // Also if the last commits were loads, or had no writes: no flush says so then. The database is opened at this
    // version, and what is newer would be invisible.
    stored.flushed = stored.flushed.max(version);
    // To copies of the log, its commits so far are loads into tables.
    stored.ingested = Some(stored.flushed);
    stored.sequence += 1;
    let identity = open::new_identity(&options);
    let written = stored.write(disk, &tables, identity, &options.seal);
    written.map_err(|(error, _)| error)?;
    let shared = StoreFile::with_shared_log(store.identity);
    open::create(directory, &options, shared)
}

/// Writes what the private log still has to the shared log, and returns the place behind it.
fn write_history(
    database: &dyn PrivateDatabase,
    log: &dyn SharedLog,
    options: &LsmOptions,
) -> Result<LogPoint, StorageError> {
    let mut history = History {
        log,
        options,
        point: LogPoint::default(),
        watermarks: Watermarks::default(),
        group: None,
    };
    let own = database.log()?;
    let (version, trimmed) = (database.version(), own.trimmed());
    let pinned = own.pin();
    own.each_commit(&pinned, 0, version, &mut |record| {
        // Entries that are trimmed are not written again.
        let stream = match record.version > trimmed {
            true => record.stream,
            false => &[],
        };
        history.add(record.version, record.time_ms, stream, trimmed)?;
        Ok(true)
    })?;
    history.end_group()?;
    history.finish(version, trimmed, own.last_ms())
}

/// The shared log while it is written.
struct History<'a> {
    log: &'a dyn SharedLog,
    options: &'a LsmOptions,
    point: LogPoint,
    watermarks: Watermarks,
    group: Option<Group>,
}

/// Commits with consecutive versions and the same time.
struct Group {
    encoder: GroupEncoder,
    time_ms: u64,
    next: Version,
    bytes: usize,
}

impl History<'_> {
    fn add(
        &mut self,
        version: Version,
        time_ms: u64,
        stream: &[u8],
        trimmed: Version,
    ) -> Result<(), StorageError> {
        let continues = self.group.as_ref().is_some_and(|group| {
            group.next == version && group.time_ms == time_ms && group.bytes < RECORD_BYTES
        });
        if !continues {
            self.end_group()?;
        }
        let before = self.watermarks.after_trim(trimmed.min(version - 1));
        let group = self.group.get_or_insert_with(|| Group {
            encoder: GroupEncoder::new(time_ms, version, before),
            time_ms,
            next: version,
            bytes: 0,
        });
        // Its writes are in tables.
        let commit = Commit {
            version,
            writes: &WriteSet::new(),
            stream,
        };
        // Copies of the log say so, too.
        group.encoder.push(&commit, LoggedFootprint::Everything);
        group.encoder.trim(trimmed.min(version));
        group.next = version + 1;
        group.bytes += stream.len() + 32;
        Ok(())
    }

    fn end_group(&mut self) -> Result<(), StorageError> {
        let Some(group) = self.group.take() else {
            return Ok(());
        };
        self.append(group.encoder)
    }

    fn append(&mut self, encoder: GroupEncoder) -> Result<(), StorageError> {
        let (content, head) = encoder.finish();
        self.watermarks = head.stream;
        let random = || u128::from((self.options.random)());
        let record = Record {
            log: self.log.id(),
            writer: 0,
            nonce: random() << 64 | random(),
            previous: RecordHash(self.point.hash),
            content: &content,
        };
        let (bytes, RecordHash(hash)) = record.encode(self.point.next);
        match self
            .log
            .append(self.point.next, &bytes)
            .map_err(log_error)?
        {
            Append::Appended => {}
            Append::Taken => {
                return Err(StorageError::Unavailable(
                    "another process writes to the shared log while it is made: try again"
                        .to_owned(),
                ));
            }
            Append::Unknown(why) => return Err(StorageError::Unavailable(why)),
        }
        self.point = LogPoint {
            next: self.point.next + 1,
            hash,
        };
        Ok(())
    }

    /// Ends the log at `version`, also if the private log lacks the last commits.
    fn finish(
        mut self,
        version: Version,
        trimmed: Version,
        time_ms: u64,
    ) -> Result<LogPoint, StorageError> {
        if version > 0 {
            // What the private log does not have has no entry in the change stream.
            let before = Watermarks {
                without_entries: self.watermarks.without_entries.max(trimmed),
                ..self.watermarks
            };
            let mut note = GroupEncoder::new(time_ms, version + 1, before);
            note.trim(trimmed);
            self.append(note)?;
        }
        Ok(self.point)
    }
}
