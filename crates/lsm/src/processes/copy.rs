//! Copying a shared database: the copy has a private log, with what the shared one still has.

use std::path::Path;

use isomer_shared_log::{Record, SharedLog};
use isomer_storage::{Commit, GroupRecord, LogPoint, StorageError, Version, damaged, io_error};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::{SharedWal, wal::log_error};
use crate::{
    core::Core,
    log::{Links, SegmentExport},
};

/// Records of the shared log that become one segment of the copy: the segments of two copies are the same, except for
/// the first and the last one, so that backups share them.
const RECORDS_PER_SEGMENT: u64 = 4096;
/// Bytes of records that are read at once.
const PAGE_BYTES: usize = 4 << 20;

/// Calls `visit` with each record from the first one up to (and without) the position `end`, checked: its position, its
/// content, and its bytes.
pub(super) fn each_record(
    directory: &Path,
    log: &dyn SharedLog,
    end: u64,
    visit: &mut dyn FnMut(u64, GroupRecord<'_>, usize) -> Result<(), StorageError>,
) -> Result<(), StorageError> {
    let mut at = log.first().map_err(log_error)?;
    let mut last = None;
    while at < end {
        let page = log.read(at, PAGE_BYTES).map_err(log_error)?;
        if page.is_empty() {
            let what = format!("its shared log ends before the record {at}");
            return Err(damaged(directory, &what));
        }
        for bytes in page.iter().take((end - at) as usize) {
            let broken = |error: &dyn std::error::Error| damaged(directory, &error.to_string());
            let (record, hash) =
                Record::decode(bytes, at, log.id()).map_err(|error| broken(&error))?;
            if let Some(last) = last {
                record.follows(at, last).map_err(|error| broken(&error))?;
            }
            last = Some(hash);
            let group = GroupRecord::decode(record.content);
            let group =
                group.map_err(|error| damaged(directory, &format!("the record {at}: {error}")))?;
            visit(at, group, bytes.len())?;
            at += 1;
        }
    }
    Ok(())
}

/// The error if records between the tables and the log are missing.
fn is_trimmed() -> StorageError {
    StorageError::Unavailable(
        "the shared log was trimmed while the database was copied: try again".to_owned(),
    )
}

/// Writes the commits up to `upto`, which are applied, as a private log into the folder `target`, for tables that hold
/// everything before `point`. Returns its segments.
pub fn copy_log(
    core: &Core,
    wal: &SharedWal,
    target: &Path,
    point: LogPoint,
    upto: Version,
) -> Result<Links, StorageError> {
    let disk = &*core.options.disk;
    let seal = &core.options.seal;
    let id = wal.log().id().0.to_le_bytes();
    let mut links = Links::new();
    let mut next = None;
    let mut open: Option<(u64, SegmentExport)> = None;
    let mut trimmed = 0;
    let mut last = (0, 0);
    each_record(
        &core.directory,
        &**wal.log(),
        wal.applied().next,
        &mut |at, group, _| {
            if next.is_none() && at > point.next {
                return Err(is_trimmed());
            }
            next = Some(at + 1);
            let number = 1 + at / RECORDS_PER_SEGMENT;
            if open.as_ref().is_some_and(|(segment, _)| *segment != number)
                && let Some((segment, export)) = open.take()
            {
                links.insert(segment, export.finish(last.0, trimmed)?);
            }
            if open.is_none() {
                // The same for the same records of the same log, as backups compare it.
                let salt = xxh3_64_with_seed(&id, number);
                let export = SegmentExport::create(disk, target, seal, number, salt)?;
                open = Some((number, export));
            }
            let Some((_, export)) = &mut open else {
                return Ok(());
            };
            let commits = group
                .commits()
                .map_err(|error| damaged(&core.directory, &format!("the record {at}: {error}")))?;
            let time_ms = group.head.time_ms.max(last.1);
            for commit in commits.iter().filter(|commit| commit.version <= upto) {
                let writes = commit.writes().map_err(|error| {
                    damaged(&core.directory, &format!("the record {at}: {error}"))
                })?;
                let copied = Commit {
                    version: commit.version,
                    writes: &writes,
                    stream: commit.stream,
                };
                match commit.is_in_tables(&writes) {
                    true => export.ingestion(copied, time_ms)?,
                    false => export.commit(copied, time_ms)?,
                }
                last = (commit.version, time_ms);
            }
            // Later commits, and trims of theirs, are no part of the copy: it gives their versions to its own commits.
            let known = group.head.stream.trimmed;
            let known = known.min(group.next_version() - 1).min(upto);
            if known > trimmed {
                trimmed = known;
                if last.0 >= trimmed {
                    export.trim(last.0, trimmed, time_ms)?;
                }
            }
            Ok(())
        },
    )?;
    if next.is_none() && wal.applied().next > point.next {
        return Err(is_trimmed());
    }
    if let Some((segment, export)) = open {
        links.insert(segment, export.finish(last.0, trimmed)?);
    }
    disk.sync_folder(target)
        .map_err(|error| io_error("writing", target, &error))?;
    Ok(links)
}
