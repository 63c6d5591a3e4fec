//! Truncating a log after a version or a time: for restoring a point between two backups.
//!
//! The log is a copy with closed segments only, which is not open.

use std::{io, path::Path, sync::Arc};

use isomer_storage::sync::Mutex;
use isomer_storage::{StorageError, Version, damaged, io_error};
use isomer_vfs::{Disk, OpenMode, Seal};

use super::{
    chain::{Link, Links},
    reader::{ReadOutcome, Reader},
    record::Content,
    segment::{self, Closing, Extent, FIRST_RECORD, Part, Segment},
};

/// The last commit that is kept.
#[derive(Clone, Copy, Debug)]
pub struct Cut {
    /// Later versions are dropped,
    pub version: Version,
    /// and so are later times (in milliseconds since 1970).
    pub time_ms: u64,
}

/// Truncates the log in `folder`. Everything up to `have` is in the tables that the log belongs to, and stays.
/// Returns the last version and its time.
pub fn cut(
    disk: &dyn Disk,
    folder: &Path,
    seal: &Seal,
    have: Version,
    at: Cut,
) -> Result<(Version, u64), StorageError> {
    let numbers = numbers(disk, folder)?;
    let mut last = (0, 0);
    let mut ended = false;
    let mut behind = Vec::new();
    for number in numbers {
        if ended {
            behind.push(segment::path(folder, number));
            continue;
        }
        let (segment, mut closing) = open(disk, folder, number)?;
        let known = closing;
        let reached = last.0.max(have);
        ended = shorten(&segment, folder, seal, have, reached, at, &mut closing)?;
        if closing.last > 0 {
            last = (closing.last, closing.last_ms);
        }
        closing.trimmed = closing.trimmed.min(last.0.max(have));
        if ended || closing.trimmed != known.trimmed {
            let path = segment::path(folder, number);
            segment::write_closing(&*segment.file, segment.salt, closing)
                .and_then(|()| segment.file.sync())
                .map_err(|error| io_error("writing", &path, &error))?;
        }
    }
    // The last one first: a log must not have gaps.
    for path in behind.iter().rev() {
        disk.remove(path)
            .map_err(|error| io_error("removing", path, &error))?;
    }
    disk.sync_folder(folder)
        .map_err(|error| io_error("writing", folder, &error))?;
    Ok(last)
}

/// The chain of a log with closed segments only.
pub fn closed_links(disk: &dyn Disk, folder: &Path) -> Result<Links, StorageError> {
    let mut links = Links::new();
    for number in numbers(disk, folder)? {
        let (segment, closing) = open(disk, folder, number)?;
        let link = Link {
            salt: segment.salt,
            ended: Some(closing.into()),
        };
        links.insert(number, link);
    }
    Ok(links)
}

/// The time of the last commit in a log with closed segments only, in milliseconds since 1970; 0 if there is
/// none.
pub fn last_ms(disk: &dyn Disk, folder: &Path) -> Result<u64, StorageError> {
    let mut last_ms = 0;
    for number in numbers(disk, folder)? {
        last_ms = last_ms.max(open(disk, folder, number)?.1.last_ms);
    }
    Ok(last_ms)
}

/// The numbers of the segments in a folder, ascending.
fn numbers(disk: &dyn Disk, folder: &Path) -> Result<Vec<u64>, StorageError> {
    let names = disk.list(folder);
    let names = names.map_err(|error| io_error("reading", folder, &error))?;
    let mut numbers: Vec<u64> = names
        .iter()
        .filter_map(|name| segment::number_of(name))
        .collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// Opens a closed segment.
fn open(
    disk: &dyn Disk,
    folder: &Path,
    number: u64,
) -> Result<(Arc<Segment>, Closing), StorageError> {
    let path = segment::path(folder, number);
    let read = |error: io::Error| io_error("reading", &path, &error);
    let file = disk.open(&path, OpenMode::Write).map_err(read)?;
    let (Part::Valid(head), len) = (
        segment::read_head(&*file).map_err(read)?,
        file.len().map_err(read)?,
    ) else {
        return Err(broken(folder, &path));
    };
    let Part::Valid(closing) = segment::read_closing(&*file, head.salt).map_err(read)? else {
        return Err(broken(folder, &path));
    };
    if len < closing.end || closing.end < FIRST_RECORD || head.number != number {
        return Err(broken(folder, &path));
    }
    let segment = Segment {
        number,
        salt: head.salt,
        capacity: closing.end,
        file,
        state: Mutex::new(Extent::default()),
        failed_sync: Mutex::new(None),
    };
    Ok((Arc::new(segment), closing))
}

fn broken(folder: &Path, path: &Path) -> StorageError {
    let what = format!("its log segment `{}` was not closed", path.display());
    damaged(folder.parent().unwrap_or(folder), &what)
}

/// Moves the closing part before the first record to drop; returns whether there is one. The versions before
/// the segment go up to `reached`.
fn shorten(
    segment: &Arc<Segment>,
    folder: &Path,
    seal: &Seal,
    have: Version,
    mut reached: Version,
    at: Cut,
    closing: &mut Closing,
) -> Result<bool, StorageError> {
    let (first, end) = (closing.first, closing.end);
    let mut kept = Closing {
        end: FIRST_RECORD,
        first: 0,
        last: 0,
        first_ms: 0,
        last_ms: 0,
        stream_entries: 0,
        ..*closing
    };
    let mut reader = Reader::new(segment.clone(), folder, seal, FIRST_RECORD);
    reader.limit(end);
    while reader.offset() < end {
        match reader.read()? {
            ReadOutcome::Record => {}
            ReadOutcome::Nothing | ReadOutcome::Broken => return Err(reader.damage("is damaged")),
        }
        let record = reader.record()?;
        let goes = record.version > at.version || record.time_ms > at.time_ms;
        if goes && record.version > have {
            kept.durable = kept.last.max(have);
            *closing = kept;
            return Ok(true);
        }
        let is_commit = !matches!(record.content, Content::Trim(_));
        if is_commit && record.version > reached + 1 {
            return Err(StorageError::Invalid(format!(
                "the backups hold version {reached} and then version {}: the log in between was trimmed before it was backed up: choose version {reached}, or that of a backup",
                record.version
            )));
        }
        reached = reached.max(record.version);
        match record.content {
            Content::Trim(_) => {}
            Content::Ingestion if record.version > have => {
                return Err(StorageError::Invalid(format!(
                    "there was a bulk load at version {}, which only a backup made after it has: choose version {}, or one from such a backup",
                    record.version,
                    record.version - 1
                )));
            }
            Content::Ingestion | Content::Commit(_) => {
                if kept.first == 0 {
                    (kept.first, kept.first_ms) = (record.version, record.time_ms);
                }
                (kept.last, kept.last_ms) = (record.version, record.time_ms);
                kept.stream_entries += u64::from(!record.stream.is_empty());
            }
        }
        kept.end = reader.offset();
    }
    debug_assert_eq!(kept.first, first, "the closing part has the first commit");
    Ok(false)
}
