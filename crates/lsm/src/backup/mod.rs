//! Incremental backups: copies of a database, each complete, that share equal files.
//!
//! A backup is taken from a *checkpoint*, a folder of immutable files (for this engine hard links, created at
//! once while writes continue). Files are stored in the target by content, so that a second backup copies only
//! files that the first one does not have:
//!
//! ```text
//! TARGET/BACKUP           the catalog: which backups there are, and the files of each (see `catalog`)
//! TARGET/LOCK             locked while a backup is made
//! TARGET/files/SUM-LEN    a file's bytes, named by their XXH3 of 128 bits and their number, both hexadecimal
//! ```
//!
//! Invariants: the catalog only names files that are complete and durable; it is replaced atomically, after
//! them. An interrupted backup leaves the earlier ones intact. Restoring compares every byte with its sum.
//!
//! Files of an encrypted database are copied as they are, including its file of keys: a backup is as secret as
//! the database, and needs the key that was its master key when the backup was made.

mod catalog;
mod engine;
mod files;
mod restore;
mod take;
#[cfg(test)]
mod tests;

#[cfg(any(test, fuzzing))]
pub(crate) use catalog::check_catalog;
pub use catalog::{BackupRecord, StoredFile};
pub use engine::{RestoreResult, Restoring};
pub use files::{CopyProgress, remove_folder};
pub use restore::{
    RESTORING, RestoreTarget, Selection, begin, end, list, refuse_unfinished, restore, select,
};
pub use take::{BackupResult, Source, keep_last, take};
