//! Copies of an open database: checkpoints and backups.

use std::{path::Path, sync::Arc};

use isomer_storage::{StorageError, Version, View as _, io_error, sync::MutexGuard};
use isomer_vfs::{Lock, OpenMode};

use crate::{
    backup::{begin, end},
    core::Core,
    manifest::Whole,
    open,
    processes::{self, Wal},
    state::LsmView,
    tree::LiveFile,
};

/// The lock of a backup: one at a time, of all processes that share the database.
pub(super) fn begin_backup(core: &Core) -> Result<BackupLock<'_>, StorageError> {
    let in_progress = || {
        StorageError::Unavailable(format!(
            "another backup of `{}` is in progress: wait until it ends",
            core.directory.display()
        ))
    };
    let here = core.backing_up.try_lock().ok_or_else(in_progress)?;
    let elsewhere = match core.wal {
        Wal::Own(_) => None,
        Wal::Shared(_) => {
            let lock = processes::lock_backup(&core.directory, &core.options)?;
            Some(lock.ok_or_else(in_progress)?)
        }
    };
    Ok(BackupLock {
        _here: here,
        _elsewhere: elsewhere,
    })
}

/// Like [`isomer_storage::Backend::checkpoint`], with a given identity of the copy. `sync` makes the last version
/// durable, `view` gives it.
pub(super) fn copy_database(
    core: &Core,
    target: &Path,
    identity: u128,
    sync: &dyn Fn() -> Result<(), StorageError>,
    view: &dyn Fn() -> Result<Arc<LsmView>, StorageError>,
) -> Result<Copied, StorageError> {
    let disk = &core.options.disk;
    let occupied = match disk.list(target) {
        Ok(names) => !names.is_empty(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => false,
        Err(error) => return Err(io_error("reading", target, &error)),
    };
    if occupied {
        return Err(StorageError::Invalid(format!(
            "`{}` already exists: give a new or an empty directory",
            target.display()
        )));
    }
    if !core.options.read_only {
        sync()?;
    }
    // The tables of a follower should not be much older than the log.
    core.follow_tables()?;
    // An incomplete copy must not open, in particular not as an older version of the database.
    let marker = begin(&**disk, target)?;
    // Until the log is copied, segments that the manifest refers to must stay.
    let _tidying = core.tidying.lock();
    // No bulk load may take place in between: the log would have one that the manifest does not.
    let writer = core.writer.lock();
    let files = core.tree.live_files();
    let view = view()?;
    let time_ms = core.wal.last_ms();
    drop(writer);
    let (tables, log) = (target.join(open::TABLES), target.join(open::LOG));
    for folder in [&tables, &log] {
        disk.make_folder(folder)
            .map_err(|error| io_error("making", folder, &error))?;
    }
    let links = match &core.wal {
        Wal::Own(own) => own.copy_to(&log, view.version())?,
        Wal::Shared(wal) => {
            let point = files.stored.log_point.unwrap_or_default();
            processes::copy_log(core, wal, &log, point, view.version())?
        }
    };
    copy_tables(core, &tables, &files.files)?;
    let whole = Whole {
        database: identity,
        links,
    };
    core.tree.write_copy(&files.stored, &tables, whole)?;
    open::copy_keys(&core.directory, target, &**disk)?;
    // A database that is open exclusively, such as a replica, has exclusive copies.
    let of_shared = core.wal.shared().is_some() && core.options.sharing.is_shared();
    let store = open::StoreFile::of_copy(identity, of_shared);
    open::create(target, &core.options, store)?;
    end(&**disk, target, &marker)?;
    Ok(Copied {
        version: view.version(),
        time_ms,
    })
}

/// Keeps other backups of the database away.
pub struct BackupLock<'a> {
    _here: MutexGuard<'a, ()>,
    _elsewhere: Option<Lock>,
}

/// Contents of a copy of the database.
#[derive(Clone, Copy, Debug)]
pub struct Copied {
    /// Its version.
    pub version: Version,
    /// Time of the last commit in it, or of a later one, in milliseconds since 1970; 0 if no commit is known.
    pub time_ms: u64,
}

/// Hard-links tables into the folder of a copy of the database, or copies them if that is impossible.
fn copy_tables(core: &Core, folder: &Path, files: &[LiveFile]) -> Result<(), StorageError> {
    let disk = &core.options.disk;
    for LiveFile { name, file } in files {
        let (from, to) = (
            core.directory.join(open::TABLES).join(name),
            folder.join(name),
        );
        if disk.link(&from, &to).is_ok() {
            continue;
        }
        let copied = (|| {
            // After an error a link may still exist, and a write to it would write into the database's own
            // file.
            match disk.remove(&to) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            // Another process, which maintains the tables, may have removed its name.
            let (from, to) = (file, disk.open(&to, OpenMode::Create)?);
            let (mut bytes, mut at) = (vec![0; 1 << 20], 0);
            loop {
                match from.read_at(&mut bytes, at)? {
                    0 => return to.sync(),
                    count => {
                        to.write_all_at(&bytes[..count], at)?;
                        at += count as u64;
                    }
                }
            }
        })();
        copied.map_err(|error| io_error("copying", &to, &error))?;
    }
    disk.sync_folder(folder)
        .map_err(|error| io_error("writing", folder, &error))
}
