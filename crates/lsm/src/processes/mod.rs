//! A database that several processes have open: they commit to one shared log, and one of them maintains the tables.
//!
//! ```text
//! DIR/shared/       the shared log: the order of all commits (see the crate `shared-log`)
//! DIR/MAINTENANCE   locked by the process that maintains the tables, holds its id
//! DIR/FLUSH         asks that process to flush; removed by it
//! DIR/HANDOVER      locked by a process that asks the one that maintains the tables to let it do that
//! DIR/BACKUP-LOCK   locked by the process that makes a backup
//! DIR/LOCK          locked shared by every process that has the database open; exclusively by one that needs it alone
//! DIR/tables/MANIFEST.load   the manifest of a bulk load that has not ended
//! ```
//!
//! Every process applies all commits to its memtables. The *maintainer*, which holds the lock of `MAINTENANCE`,
//! flushes and compacts, and publishes a manifest with the place in the shared log behind what the tables hold. The
//! others *follow*: they adopt a newer manifest as soon as they have applied everything that is in its tables, and drop
//! the memtables that it contains. They write, rename and remove nothing. The operating system releases the lock when
//! the maintainer ends, however it ends; then one of the others takes over.
//!
//! A follower may have open files that the maintainer has removed: they stay readable until they are closed. The
//! maintainer does not know which versions are read elsewhere. So a follower with views of versions that newer tables
//! lack keeps the state from before for these views.
//!
//! A bulk load writes tables. It needs the database alone, because the others would not find its pairs in the log:
//!
//! 1. The memtables are flushed, and the pairs are written into tables, at the next version.
//! 2. The manifest with these tables is written as `MANIFEST.load`.
//! 3. The record of the commit, without writes, is appended to the log and synced: the load is committed.
//! 4. `MANIFEST.load` becomes `MANIFEST`.
//!
//! If the process ends in between, the next one that opens the database does 4 if the log has the record, and removes
//! `MANIFEST.load` if it has not.
//!
//! After an adoption, or a takeover, an entry may be in a memtable and in a table: that changes no answer, because the
//! memtables of a process always hold *all* entries of the versions after some version, and compactions drop
//! duplicates.

mod alone;
mod convert;
mod copy;
mod follow;
mod lease;
mod numbers;
mod opening;
mod sealed_log;
mod verify;
mod wal;

pub use self::{
    alone::DatabaseLock,
    convert::PrivateDatabase,
    copy::copy_log,
    follow::run,
    lease::{Lease, LeaseOutcome},
    numbers::ManifestNumbers,
    opening::{
        Entered, OpenedLog, becomes_shared, check_log_exists, check_sharing, enter, lock_backup,
        open_log, open_tables, remove_own_log,
    },
    verify::{log_statistics, verify},
    wal::{SharedWal, Wal},
};
