//! Writing a table.

use std::{collections::BTreeMap, path::PathBuf};

use isomer_storage::{StorageError, Version};
use isomer_vfs::{Disk, Seal};

use super::{
    Footer, Properties,
    block::{BlockBuilder, ValueKind, common_prefix, entry_order},
    filter::{build_filter, filter_hash},
    index::MAX_PARTITION_BLOCKS,
    sealed::{Handle, Pace, SealedWriter},
};
use crate::{RangeTombstones, blob::BlobRef, codec::put_varint};

/// Largest number of entries between two restarts of a data block, and of an index.
const DATA_INTERVAL: u8 = 16;
const INDEX_INTERVAL: u8 = 4;
/// Large entries have restarts this many bytes apart: a search visits each entry after a restart, and most of
/// them are in a separate cache line.
const DATA_INTERVAL_BYTES: usize = 1024;
/// The filter of a partition takes at most about 20 KiB.
const MAX_PARTITION_KEYS: usize = 16 << 10;

/// Options for writing tables.
#[derive(Clone)]
pub struct TableOptions {
    /// Bytes of a data block before compression; one entry may take more.
    pub block_bytes: usize,
    /// Whether blocks are compressed if that saves space.
    pub compression: bool,
    /// Lengths of key prefixes that are added to filters: a scan of all keys with such a prefix skips tables
    /// without any.
    pub filter_prefixes: Vec<usize>,
}

impl Default for TableOptions {
    fn default() -> Self {
        Self {
            block_bytes: 4096,
            compression: true,
            filter_prefixes: Vec::new(),
        }
    }
}

/// Destination of a table.
pub(crate) struct TableTarget<'a> {
    pub(crate) disk: &'a dyn Disk,
    pub(crate) path: PathBuf,
    pub(crate) identity: u128,
    pub(crate) seal: Seal,
    pub(crate) pace: Option<Pace>,
}

/// A table that was written and synced; its name is not durable yet.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    pub(crate) file_bytes: u64,
    pub(crate) footer_sum: u64,
}

/// Writes entries, which must be in order, into a table.
pub(crate) struct TableBuilder {
    writer: SealedWriter,
    options: TableOptions,
    identity: u128,
    data: BlockBuilder,
    partition: BlockBuilder,
    top: BlockBuilder,
    payload: Vec<u8>,
    hashes: Vec<u64>,
    /// The key whose hash was last added to the current partition, and how many bytes of it were hashed.
    hashed: Vec<u8>,
    hashed_any: bool,
    properties: Properties,
    blobs: BTreeMap<u64, (u64, u64)>,
}

impl TableBuilder {
    pub(crate) fn create(
        target: TableTarget<'_>,
        options: &TableOptions,
    ) -> Result<Self, StorageError> {
        let identity = target.identity;
        let writer = SealedWriter::create(
            target.disk,
            target.path,
            identity,
            target.seal,
            options.compression,
            target.pace,
        )?;
        Ok(Self {
            writer,
            options: options.clone(),
            identity,
            data: BlockBuilder::new(DATA_INTERVAL),
            partition: BlockBuilder::new(INDEX_INTERVAL),
            top: BlockBuilder::new(INDEX_INTERVAL),
            payload: Vec::new(),
            hashes: Vec::new(),
            hashed: Vec::new(),
            hashed_any: false,
            properties: Properties {
                filter_prefixes: options.filter_prefixes.clone(),
                ..Properties::default()
            },
            blobs: BTreeMap::new(),
        })
    }

    /// Bytes of the file so far.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.writer.len() + self.data.byte_len() as u64
    }

    pub(crate) fn entry_count(&self) -> u64 {
        self.properties.entries
    }

    /// Records that `count` more entries are needed for readers older than `until` only.
    pub(crate) fn note_superseded(&mut self, count: u64, until: Version) {
        self.properties.superseded += count;
        self.properties.clean_from = self.properties.clean_from.max(until);
    }

    /// Appends an entry with its value.
    pub(crate) fn add(
        &mut self,
        key: &[u8],
        version: Version,
        value: Option<&[u8]>,
    ) -> Result<(), StorageError> {
        let held = match value {
            Some(_) => ValueKind::Value,
            None => ValueKind::Deletion,
        };
        self.add_held(key, version, held, value.unwrap_or_default())
    }

    /// Appends an entry whose value is in a blob file.
    pub(crate) fn add_apart(
        &mut self,
        key: &[u8],
        version: Version,
        reference: &BlobRef,
    ) -> Result<(), StorageError> {
        let mut bytes = Vec::with_capacity(24);
        reference.put(&mut bytes);
        let (stored, values) = self.blobs.entry(reference.file).or_default();
        *stored += u64::from(reference.handle.len);
        *values += 1;
        self.properties.raw_bytes += reference.value_bytes;
        self.add_held(key, version, ValueKind::Apart, &bytes)
    }

    fn add_held(
        &mut self,
        key: &[u8],
        version: Version,
        held: ValueKind,
        value: &[u8],
    ) -> Result<(), StorageError> {
        debug_assert!(
            self.properties.entries == 0
                || self.data.is_empty()
                || entry_order(self.data.last(), (key, version)).is_lt(),
            "entries come in their order"
        );
        if !self.data.is_empty()
            && !self
                .data
                .has_room(key, value.len(), version, self.options.block_bytes)
        {
            self.finish_block(Some(key))?;
        }
        self.add_hash(key);
        let properties = &mut self.properties;
        if properties.entries == 0 {
            properties.first_key = key.into();
            properties.oldest = version;
        }
        properties.entries += 1;
        if held == ValueKind::Deletion {
            properties.deletions += 1;
            properties.clean_from = properties.clean_from.max(version);
        }
        properties.oldest = properties.oldest.min(version);
        properties.newest = properties.newest.max(version);
        properties.raw_bytes += key.len() as u64;
        if held == ValueKind::Value {
            properties.raw_bytes += value.len() as u64;
        }
        self.data.add(key, version, held, value);
        Ok(())
    }

    fn add_hash(&mut self, key: &[u8]) {
        let common = if self.hashed_any {
            let common = common_prefix(&self.hashed, key);
            if common == key.len() && common == self.hashed.len() {
                return;
            }
            Some(common)
        } else {
            None
        };
        self.hashes.push(filter_hash(key));
        for prefix in &self.options.filter_prefixes {
            if *prefix < key.len() && common.is_none_or(|common| common < *prefix) {
                self.hashes.push(filter_hash(&key[..*prefix]));
            }
        }
        let keep = common.unwrap_or(0);
        self.hashed.truncate(keep);
        self.hashed.extend_from_slice(&key[keep..]);
        self.hashed_any = true;
    }

    /// Writes the data block; `next` is the first key of the following one.
    fn finish_block(&mut self, next: Option<&[u8]>) -> Result<(), StorageError> {
        if self.data.is_empty() {
            return Ok(());
        }
        let (last_key, last_version) = self.data.last();
        let separator = separator(last_key, last_version, next);
        if next.is_none() {
            self.properties.last_key = last_key.into();
        }
        self.payload.clear();
        // Entries of the next block are assumed to be about as large.
        let interval = DATA_INTERVAL_BYTES * self.data.len() / self.data.byte_len();
        self.data.finish(&mut self.payload);
        self.data
            .set_interval(interval.min(DATA_INTERVAL.into()) as u8);
        let handle = self.writer.put_entries(&self.payload)?;
        self.properties.blocks += 1;
        self.partition.add(
            &separator.0,
            separator.1,
            ValueKind::Value,
            &handle_bytes(handle),
        );
        if next.is_none()
            || self.partition.len() >= MAX_PARTITION_BLOCKS
            || self.hashes.len() >= MAX_PARTITION_KEYS
        {
            self.finish_partition(&separator)?;
        }
        Ok(())
    }

    fn finish_partition(&mut self, separator: &(Vec<u8>, Version)) -> Result<(), StorageError> {
        self.payload.clear();
        self.partition.finish(&mut self.payload);
        let filter_at = self.payload.len();
        build_filter(&self.hashes, &mut self.payload);
        let filter_bytes = self.payload.len() - filter_at;
        self.payload
            .extend_from_slice(&(filter_bytes as u32).to_le_bytes());
        let handle = self.writer.put(&self.payload)?;
        self.top.add(
            &separator.0,
            separator.1,
            ValueKind::Value,
            &handle_bytes(handle),
        );
        self.hashes.clear();
        self.hashed_any = false;
        Ok(())
    }

    /// Finishes the table with its range tombstones, and makes it durable.
    pub(crate) fn finish(
        mut self,
        range_tombstones: &RangeTombstones,
    ) -> Result<Written, StorageError> {
        self.finish_block(None)?;
        self.payload.clear();
        self.top.finish(&mut self.payload);
        let index = self.writer.put(&self.payload)?;
        let range_tombstones = if range_tombstones.is_empty() {
            None
        } else {
            self.payload.clear();
            self.properties
                .put_range_tombstones(range_tombstones, &mut self.payload);
            Some(self.writer.put(&self.payload)?)
        };
        self.properties.blobs = self
            .blobs
            .iter()
            .map(|(file, (bytes, values))| (*file, *bytes, *values))
            .collect();
        self.payload.clear();
        self.properties.put(&mut self.payload);
        let properties = self.writer.put(&self.payload)?;
        let footer = Footer {
            properties,
            index,
            range_tombstones,
            identity: self.identity,
        };
        let (bytes, footer_sum) = footer.encode();
        self.writer.put_plain(&bytes);
        let (_, file_bytes) = self.writer.finish()?;
        Ok(Written {
            file_bytes,
            footer_sum,
        })
    }
}

fn handle_bytes(handle: Handle) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(9);
    put_varint(&mut bytes, handle.offset);
    put_varint(&mut bytes, u64::from(handle.len));
    bytes
}

/// A short entry at or after the last one of a block and before the first one of the next.
fn separator(last: &[u8], version: Version, next: Option<&[u8]>) -> (Vec<u8>, Version) {
    let shared = match next {
        None => return (last.to_vec(), 0),
        Some(next) if next == last => return (last.to_vec(), version),
        Some(next) => common_prefix(last, next),
    };
    // A byte after the first that differs may be incremented; the first one as well if that stays below the
    // next key.
    let next = next.unwrap_or_default();
    let mut at = shared;
    if at < last.len() && at < next.len() && last[at] + 1 == next[at] {
        at += 1;
    }
    while at < last.len() && last[at] == 0xff {
        at += 1;
    }
    if at >= last.len() {
        return (last.to_vec(), 0);
    }
    let mut key = last[..=at].to_vec();
    key[at] += 1;
    if key.as_slice() < next {
        (key, 0)
    } else {
        (last.to_vec(), 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_lie_between() {
        let cases: [(&[u8], &[u8], &[u8]); 7] = [
            (b"abcd", b"abzz", b"abd"),
            (b"abcd", b"abdd", b"abce"),
            (b"abc", b"abcd", b"abc"),
            (b"a\xff\xffb", b"b", b"a\xff\xffc"),
            (b"a\xff", b"b", b"a\xff"),
            (b"a", b"b", b"a"),
            (b"", b"b", b""),
        ];
        for (last, next, expected) in cases {
            let (key, version) = separator(last, 7, Some(next));
            assert_eq!((&key[..], version), (expected, 0));
            assert!(*last <= key[..] && key[..] < *next);
        }
        assert_eq!(separator(b"a", 7, Some(b"a")), (b"a".to_vec(), 7));
        assert_eq!(separator(b"a", 7, None), (b"a".to_vec(), 0));
    }
}
