//! Checking a shared database, and its sizes.

use std::io;

use isomer_storage::{StorageError, io_error};

use super::{SharedWal, copy::each_record};
use crate::{core::Core, log::LogStatistics, open};

/// Reads and checks the tables, and the records of the shared log that are applied.
pub fn verify(
    core: &Core,
    wal: &SharedWal,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Vec<String>, StorageError> {
    let state = core.shared.state();
    let levels = &state.levels;
    let in_tables = 2 * levels.file_bytes();
    let in_log = log_statistics(core)?.stored_bytes;
    let total = in_tables + in_log;
    let mut done = 0;
    let mut damage = Vec::new();
    let mut next_version = None;
    let read = each_record(
        &core.directory,
        &**wal.log(),
        wal.applied().next,
        &mut |at, group, bytes| {
            let expected = next_version.unwrap_or(group.head.first);
            // Versions from before the database was shared may be missing: they are in tables.
            if group.head.first < expected
                || group.head.first > expected && at > 1 && at >= levels.log_point.next
            {
                damage.push(format!(
                    "the record {at} of the shared log begins with the commit {}, and {expected} is the next one",
                    group.head.first
                ));
            }
            next_version = Some(group.next_version());
            if let Err(error) = group.commits() {
                damage.push(format!("the record {at} of the shared log: {error}"));
            }
            done += bytes as u64;
            progress(done.min(in_log), total);
            Ok(())
        },
    );
    match read {
        Ok(()) => {}
        Err(StorageError::Corrupt(what)) => damage.push(what),
        Err(error) => return Err(error),
    }
    damage.extend(levels.verify(&mut |done, _| progress(in_log + done.min(in_tables), total))?);
    progress(total, total);
    Ok(damage)
}

/// Sizes of the shared log; the layer above counts entries of the change stream.
pub fn log_statistics(core: &Core) -> Result<LogStatistics, StorageError> {
    let folder = core.directory.join(open::SHARED);
    let disk = &core.options.disk;
    let mut statistics = LogStatistics {
        syncs: core.wal.shared().map_or(0, |wal| wal.log().syncs()),
        ..LogStatistics::default()
    };
    let names = match disk.list(&folder) {
        Ok(names) => names,
        // It is elsewhere.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(statistics),
        Err(error) => return Err(io_error("reading", &folder, &error)),
    };
    for name in names {
        if name.extension().is_none_or(|ending| ending != "log") {
            continue;
        }
        let path = folder.join(&name);
        let file = disk.open(&path, isomer_vfs::OpenMode::Read);
        match file.and_then(|file| file.stored_bytes()) {
            Ok(bytes) => {
                statistics.segments += 1;
                statistics.stored_bytes += bytes;
            }
            // It was trimmed in between.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(io_error("reading", &path, &error)),
        }
    }
    Ok(statistics)
}
