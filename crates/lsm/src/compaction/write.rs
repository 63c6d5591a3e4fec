//! Writing the output of a compaction to tables.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    sync::Arc,
};

use isomer_storage::{StorageError, Version};
use isomer_vfs::Disk;

use super::rule::{Fate, Rule};
use crate::{
    BlobRef, EntryCursor, EntryKind, RangeTombstones,
    blob::{BlobWriter, Blobs},
    manifest::StoredBlob,
    merge::Merge,
    table::{
        TableFile,
        builder::{TableBuilder, TableTarget},
        sealed::Pace,
    },
    tree::Files,
};

/// A table that was written, and the range of keys that it covers.
pub(crate) struct NewTable {
    pub(crate) file: TableFile,
    pub(crate) from: Box<[u8]>,
    pub(crate) until: Option<Box<[u8]>>,
}

/// Files that were written and synced, for one change of the levels. They are removed when dropped without one.
#[derive(Default)]
pub(crate) struct NewFiles {
    /// Their paths, until they are adopted.
    unused: Option<(Arc<dyn Disk>, Vec<PathBuf>)>,
    pub(crate) tables: Vec<NewTable>,
    pub(crate) blobs: Vec<StoredBlob>,
    /// Where the merge stopped: all keys below are done. `None`: all keys are.
    pub(crate) stopped_at: Option<Box<[u8]>>,
}

impl NewFiles {
    /// Keeps the files: the manifest names them, or may name them.
    pub(crate) fn adopt(&mut self) {
        self.unused = None;
    }
}

impl Drop for NewFiles {
    fn drop(&mut self) {
        // A file that cannot be removed is an orphan when the database is opened the next time.
        if let Some((disk, paths)) = &self.unused {
            for path in paths {
                let _ = disk.remove(path);
            }
        }
    }
}

/// Size at which a new blob file is started: a file is removed, or rewritten, as a whole.
const MAX_BLOB_FILE_BYTES: u64 = 256 << 20;

/// Limits on the output of a compaction.
pub(crate) struct Limits {
    /// Bytes of a table; it ends at the next key.
    pub(crate) table_bytes: u64,
    /// Bytes read and written after which the merge stops at the next key.
    pub(crate) slice_bytes: u64,
}

/// Writes tables, one after the other, and blob files.
pub(crate) struct Output<'a> {
    files: &'a Files,
    pace: Option<Pace>,
    limits: Limits,
    /// The range tombstones to write.
    range_tombstones: &'a RangeTombstones,
    table: Option<(TableBuilder, TableFile)>,
    blob: Option<BlobWriter>,
    /// Blob files whose values are rewritten.
    relocate: &'a HashSet<u64>,
    blobs: &'a Blobs,
    first_key: Vec<u8>,
    last_key: Vec<u8>,
    /// Start of the range that the current table covers.
    from: Box<[u8]>,
    written_bytes: u64,
    /// Superseded entries that are not yet recorded in a table, and the newest version that supersedes them.
    superseded: (u64, Version),
    /// Removed when dropped, together with this output, unless it was finished.
    done: NewFiles,
}

impl<'a> Output<'a> {
    pub(crate) fn new(
        files: &'a Files,
        pace: Option<Pace>,
        limits: Limits,
        range_tombstones: &'a RangeTombstones,
        blobs: &'a Blobs,
        relocate: &'a HashSet<u64>,
        from: &[u8],
    ) -> Self {
        Self {
            files,
            pace,
            limits,
            range_tombstones,
            table: None,
            blob: None,
            relocate,
            blobs,
            first_key: Vec::new(),
            last_key: Vec::new(),
            from: from.into(),
            written_bytes: 0,
            superseded: (0, 0),
            done: NewFiles {
                unused: Some((files.options.disk.clone(), Vec::new())),
                tables: Vec::new(),
                blobs: Vec::new(),
                stopped_at: None,
            },
        }
    }

    /// Called before the first entry of a key: ends the table if it is full.
    pub(crate) fn begin_key(&mut self, key: &[u8]) -> Result<(), StorageError> {
        if let Some((table, _)) = &self.table
            && table.file_bytes() >= self.limits.table_bytes
        {
            self.finish_table(Some(key))?;
        }
        Ok(())
    }

    /// Approximate bytes written so far.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.written_bytes
            + self
                .table
                .as_ref()
                .map_or(0, |(table, _)| table.file_bytes())
            + self.blob.as_ref().map_or(0, BlobWriter::len)
    }

    fn note_path(&mut self, path: &Path) {
        if let Some((_, paths)) = &mut self.done.unused {
            paths.push(path.to_owned());
        }
    }

    fn builder(&mut self) -> Result<&mut TableBuilder, StorageError> {
        if self.table.is_none() {
            let (number, identity, path) = self.files.new_table();
            // Before the file is created: whatever fails from here on, the file is removed.
            self.note_path(&path);
            let target = TableTarget {
                disk: &*self.files.options.disk,
                path,
                identity,
                seal: self.files.options.seal.clone(),
                pace: self.pace.clone(),
            };
            let builder = TableBuilder::create(target, &self.files.options.table)?;
            let file = TableFile {
                number,
                identity,
                file_bytes: 0,
                footer_sum: 0,
            };
            self.table = Some((builder, file));
        }
        match &mut self.table {
            Some((builder, _)) => Ok(builder),
            None => Err(StorageError::Invalid("no table is open".to_owned())),
        }
    }

    /// Appends an entry; a large value goes into a blob file.
    pub(crate) fn add(
        &mut self,
        key: &[u8],
        version: Version,
        value: Option<&[u8]>,
    ) -> Result<(), StorageError> {
        let threshold = self.files.options.blob_threshold;
        let reference = match value {
            Some(value) if value.len() >= threshold => Some(self.put_apart(value)?),
            _ => None,
        };
        self.note(key);
        match reference {
            Some(reference) => self.builder()?.add_apart(key, version, &reference),
            None => self.builder()?.add(key, version, value),
        }
    }

    fn add_reference(
        &mut self,
        key: &[u8],
        version: Version,
        reference: &BlobRef,
    ) -> Result<(), StorageError> {
        // Other references are copied without reading the value: this is what blob files are for.
        let reference = if self.relocate.contains(&reference.file) {
            let value = self.blobs.read(reference)?;
            self.put_apart(&value)?
        } else {
            *reference
        };
        self.note(key);
        self.builder()?.add_apart(key, version, &reference)
    }

    #[inline]
    fn note(&mut self, key: &[u8]) {
        if self.table.is_none() {
            self.first_key.clear();
            self.first_key.extend_from_slice(key);
        }
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
    }

    fn put_apart(&mut self, value: &[u8]) -> Result<BlobRef, StorageError> {
        let full = |blob: &BlobWriter| blob.len() >= MAX_BLOB_FILE_BYTES;
        if self.blob.as_ref().is_some_and(full) {
            self.finish_blob()?;
        }
        if self.blob.is_none() {
            let options = &self.files.options;
            let (number, identity, path) = self.files.new_blob();
            self.note_path(&path);
            self.blob = Some(BlobWriter::create(
                &*options.disk,
                path,
                number,
                identity,
                options.seal.clone(),
                options.table.compression,
                self.pace.clone(),
            )?);
        }
        match &mut self.blob {
            Some(blob) => blob.put(value),
            None => Err(StorageError::Invalid("no blob file is open".to_owned())),
        }
    }

    fn finish_blob(&mut self) -> Result<(), StorageError> {
        if let Some(blob) = self.blob.take() {
            let (number, identity) = (blob.number, blob.identity);
            let bytes = blob.finish()?;
            self.written_bytes += bytes;
            self.done.blobs.push(StoredBlob {
                number,
                identity,
                bytes,
            });
        }
        Ok(())
    }

    /// Ends the table before `until`; the range tombstones in its range are written with it.
    fn finish_table(&mut self, until: Option<&[u8]>) -> Result<(), StorageError> {
        let range_tombstones = self.range_tombstones.clipped(&self.from, until);
        if self.table.is_none() {
            if range_tombstones.is_empty() {
                return Ok(());
            }
            // Range tombstones without entries need a table, too, or they would be lost.
            self.builder()?;
        }
        let Some((mut builder, mut file)) = self.table.take() else {
            return Ok(());
        };
        let (count, below) = std::mem::take(&mut self.superseded);
        builder.note_superseded(count, below);
        let entries = builder.entry_count();
        let written = builder.finish(&range_tombstones)?;
        file.file_bytes = written.file_bytes;
        file.footer_sum = written.footer_sum;
        self.written_bytes += file.file_bytes;
        // As tight as the entries and the range tombstones allow.
        let mut from: Option<Box<[u8]>> = None;
        let mut end: Option<Option<Box<[u8]>>> = None;
        if entries > 0 {
            from = Some(self.first_key.as_slice().into());
            let mut after = self.last_key.clone();
            after.push(0);
            end = Some(Some(after.into()));
        }
        for (start, until, _) in range_tombstones.iter() {
            if from.as_ref().is_none_or(|from| *start < **from) {
                from = Some(start.into());
            }
            let later = match (&end, until) {
                (None, _) | (Some(Some(_)), None) => true,
                (Some(None), _) => false,
                (Some(Some(end)), Some(until)) => **end < *until,
            };
            if later {
                end = Some(until.map(Into::into));
            }
        }
        self.done.tables.push(NewTable {
            file,
            from: from.unwrap_or_default(),
            until: end.flatten(),
        });
        if let Some(until) = until {
            self.from = until.into();
        }
        Ok(())
    }

    /// Ends with all keys below `until` written.
    pub(crate) fn finish(mut self, until: Option<&[u8]>) -> Result<NewFiles, StorageError> {
        self.finish_table(until)?;
        self.finish_blob()?;
        Ok(std::mem::take(&mut self.done))
    }
}

/// The version of an entry in the last level once every reader sees it: there are no older entries of its key,
/// and equal versions in a block need no bytes (RocksDB does the same with sequence numbers). Only if all
/// commits before it are flushed: when opening the database after a bulk load, replay must find out what was
/// deleted before it and what follows it.
pub(crate) const BOTTOM_VERSION: Version = 1;

/// Merges the entries from the position of `merge` up to `until` into `output`. In the last level (`bottom`,
/// the version up to which everything is flushed), tombstones with nothing below them are dropped.
pub(crate) fn write_merged<C: EntryCursor>(
    merge: &mut Merge<C>,
    until: Option<&[u8]>,
    rule: &mut Rule<'_>,
    bottom: Option<Version>,
    stop: &dyn Fn() -> bool,
    mut output: Output<'_>,
) -> Result<NewFiles, StorageError> {
    let versions_dropped_upto = bottom.map_or(0, |flushed| flushed.min(rule.readable.floor()));
    let bottom = bottom.is_some();
    let mut key: Vec<u8> = Vec::new();
    let mut begun = false;
    // Tombstones that are needed only if an older entry of the key stays.
    let mut deletions: Vec<Version> = Vec::new();
    let mut last_version = 0;
    let mut read_bytes = 0;
    let mut steps = 0_u32;
    while let Some(source) = merge.top() {
        let same = begun && source.key() == key;
        if !same {
            if until.is_some_and(|until| source.key() >= until) {
                break;
            }
            // Input counts as well, so that a slice that writes little ends, too.
            steps += 1;
            // A slice ends between two keys only: all versions of a key are decided together. The first key
            // is always written, so each slice makes progress.
            if begun
                && (output.written_bytes() + read_bytes / 4 >= output.limits.slice_bytes
                    || (steps.is_multiple_of(1024) && stop()))
            {
                let stopped_at: Box<[u8]> = source.key().into();
                let mut files = output.finish(Some(&stopped_at))?;
                files.stopped_at = Some(stopped_at);
                return Ok(files);
            }
            key.clear();
            key.extend_from_slice(source.key());
            begun = true;
            rule.next_key();
            deletions.clear();
            output.begin_key(&key)?;
        } else if source.version() == last_version {
            // A duplicate: an entry may be in two places after a crash.
            merge.next()?;
            continue;
        }
        let version = source.version();
        last_version = version;
        read_bytes += key.len() as u64 + 16;
        let fate = rule.fate(&key, version);
        if fate != Fate::Gone {
            if let Fate::Until(until) = fate {
                output.superseded.0 += 1;
                output.superseded.1 = output.superseded.1.max(until);
            }
            match source.kind() {
                // A tombstone in the last level hides nothing, unless an older entry of the key is kept for an
                // old reader: it is written together with that entry, or not at all.
                EntryKind::Delete if bottom => deletions.push(version),
                EntryKind::Delete => output.add(&key, version, None)?,
                EntryKind::Put => {
                    // An entry below the deferred tombstones is kept, so they are needed.
                    for version in deletions.drain(..) {
                        output.add(&key, version, None)?;
                    }
                    let version = if fate == Fate::Current && version <= versions_dropped_upto {
                        BOTTOM_VERSION
                    } else {
                        version
                    };
                    match source.blob_ref()? {
                        Some(reference) => output.add_reference(&key, version, &reference)?,
                        None => {
                            let value = source.value()?;
                            read_bytes += value.len() as u64;
                            output.add(&key, version, Some(value))?;
                        }
                    }
                }
            }
        }
        merge.next()?;
    }
    output.finish(until)
}

/// Blob files with mostly garbage: less than half of their bytes are in use.
pub(crate) fn garbage(blobs: &Blobs, used: &std::collections::HashMap<u64, u64>) -> HashSet<u64> {
    blobs
        .files
        .values()
        .filter(|file| {
            let live = used.get(&file.number).copied().unwrap_or(0);
            live * 2 < file.file.len()
        })
        .map(|file| file.number)
        .collect()
}
