//! Immutable sorted tables.
//!
//! ```text
//! file         partitions, index, range tombstones (if there are any), properties, footer
//! partition    data blocks, then one block with their index and their filter
//!   data         a block (`block.rs`) of entries; a large value is a reference to a blob file (`blob.rs`)
//!   index        a block of entries: key and version at or after the last one of a data block and before the first of the
//!                next; value: offset: varint, length: varint of the data block; then the filter (`filter.rs`) of the keys in
//!                the partition; then the filter's length: u32
//! index        a block of entries as in a partition's index, for the partitions
//! tombstones   per fragment: start: bytes, end: bytes or missing, versions: count: varint, each: varint
//! properties   see `Properties::put`
//! footer       80 bytes: (offset: u64, length: u32) of properties, index, range tombstones (length 0: none),
//!              identity: u128, format version: u32, 8 zero bytes, magic "IsoTable", XXH3-64 of all before: u64
//! ```
//!
//! All but the footer are encrypted blocks (`sealed.rs`). A partition's index and filter are read through the
//! cache like a data block; the index of partitions and the range tombstones stay in memory while the table is
//! open, counted in the cache.

mod ahead;
pub(crate) mod block;
pub(crate) mod builder;
pub(crate) mod cached;
mod columns;
pub(crate) mod cursor;
pub(crate) mod filter;
pub(crate) mod index;
pub(crate) mod sealed;
#[cfg(test)]
mod tests;
pub(crate) mod verify;

use std::{
    cell::RefCell,
    path::PathBuf,
    sync::{Arc, OnceLock},
};

use isomer_storage::{StorageError, Version};
use isomer_vfs::{Disk, Seal};
use xxhash_rust::xxh3::xxh3_64;

use crate::{
    RangeTombstone, RangeTombstones,
    blob::BlobRef,
    cache::{BlockCache, Pinned},
    codec::{Reader, put_bytes, put_option, put_varint, varint},
};
use block::{Block, Damaged, EntryMatch, ValueKind};
use cached::Cached;
use filter::may_hold;
use index::{Index, Partition};
use sealed::{Handle, SealedFile};

/// 2: blocks may be packed by columns.
const FORMAT_VERSION: u32 = 2;
/// The oldest format that is read.
const OLDEST_VERSION: u32 = 1;
const MAGIC: &[u8; 8] = b"IsoTable";
const FOOTER_BYTES: usize = 80;

/// How blocks are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// Through the cache, with read-ahead after several consecutive blocks.
    Cached,
    /// Bypassing the cache, with large reads: for compactions and checks.
    Bulk,
}

/// Properties of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Properties {
    /// Keys of the first and the last entry; empty if there is none.
    pub(crate) first_key: Box<[u8]>,
    pub(crate) last_key: Box<[u8]>,
    pub(crate) entries: u64,
    /// Entries that are deletions.
    pub(crate) deletions: u64,
    /// Entries that were already superseded when the table was written, kept for old readers.
    pub(crate) superseded: u64,
    /// Once no reader is older than this version, a compaction into the last level leaves no garbage of this
    /// table.
    pub(crate) clean_from: Version,
    /// Versions of the oldest and the newest entry.
    pub(crate) oldest: Version,
    pub(crate) newest: Version,
    /// Data blocks.
    pub(crate) blocks: u64,
    /// Bytes of keys and values, including those in blob files.
    pub(crate) raw_bytes: u64,
    /// Per blob file referred to: its number, bytes of blocks, number of values.
    pub(crate) blobs: Vec<(u64, u64, u64)>,
    /// Lengths of key prefixes in the filters.
    pub(crate) filter_prefixes: Vec<usize>,
}

impl Properties {
    fn put(&self, out: &mut Vec<u8>) {
        put_bytes(out, &self.first_key);
        put_bytes(out, &self.last_key);
        for number in [
            self.entries,
            self.deletions,
            self.superseded,
            self.clean_from,
            self.oldest,
            self.newest,
            self.blocks,
            self.raw_bytes,
            self.blobs.len() as u64,
        ] {
            put_varint(out, number);
        }
        for (file, bytes, values) in &self.blobs {
            put_varint(out, *file);
            put_varint(out, *bytes);
            put_varint(out, *values);
        }
        for len in &self.filter_prefixes {
            put_varint(out, *len as u64);
        }
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let mut properties = Self {
            first_key: reader.bytes()?.into(),
            last_key: reader.bytes()?.into(),
            entries: reader.varint()?,
            deletions: reader.varint()?,
            superseded: reader.varint()?,
            clean_from: reader.varint()?,
            oldest: reader.varint()?,
            newest: reader.varint()?,
            blocks: reader.varint()?,
            raw_bytes: reader.varint()?,
            blobs: Vec::new(),
            filter_prefixes: Vec::new(),
        };
        for _ in 0..reader.varint()? {
            let blob = (reader.varint()?, reader.varint()?, reader.varint()?);
            properties.blobs.push(blob);
        }
        while !reader.is_done() {
            let len = usize::try_from(reader.varint()?).ok()?;
            properties.filter_prefixes.push(len);
        }
        Some(properties)
    }

    fn put_range_tombstones(&mut self, range_tombstones: &RangeTombstones, out: &mut Vec<u8>) {
        for (start, end, versions) in range_tombstones.iter() {
            put_bytes(out, start);
            put_option(out, end);
            put_varint(out, versions.len() as u64);
            for version in versions {
                put_varint(out, *version);
                self.clean_from = self.clean_from.max(*version);
            }
        }
    }
}

fn parse_range_tombstones(bytes: &[u8]) -> Option<RangeTombstones> {
    let mut reader = Reader::new(bytes);
    let mut range_tombstones = Vec::new();
    while !reader.is_done() {
        let start = reader.bytes()?;
        let end = reader.option()?;
        for _ in 0..reader.varint()? {
            range_tombstones.push(RangeTombstone {
                start: start.into(),
                end: end.map(Into::into),
                version: reader.varint()?,
            });
        }
    }
    Some(RangeTombstones::of(range_tombstones))
}

struct Footer {
    properties: Handle,
    index: Handle,
    range_tombstones: Option<Handle>,
    identity: u128,
}

impl Footer {
    /// The bytes, and the checksum among them.
    fn encode(&self) -> (Vec<u8>, u64) {
        let none = Handle { offset: 0, len: 0 };
        let mut out = Vec::with_capacity(FOOTER_BYTES);
        for handle in [
            self.properties,
            self.index,
            self.range_tombstones.unwrap_or(none),
        ] {
            out.extend_from_slice(&handle.offset.to_le_bytes());
            out.extend_from_slice(&handle.len.to_le_bytes());
        }
        out.extend_from_slice(&self.identity.to_le_bytes());
        out.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        out.extend_from_slice(&[0; 8]);
        out.extend_from_slice(MAGIC);
        let sum = xxh3_64(&out);
        out.extend_from_slice(&sum.to_le_bytes());
        debug_assert_eq!(out.len(), FOOTER_BYTES);
        (out, sum)
    }

    fn parse(bytes: &[u8; FOOTER_BYTES]) -> Result<(Self, u64), &'static str> {
        let (body, sum) = bytes.split_at(FOOTER_BYTES - 8);
        let sum = u64::from_le_bytes(sum.try_into().map_err(|_| "too short")?);
        if xxh3_64(body) != sum {
            return Err("the table's footer does not match its checksum");
        }
        let mut reader = Reader::new(body);
        let mut handle = || {
            Some(Handle {
                offset: reader.fixed_u64()?,
                len: reader.fixed_u32()?,
            })
        };
        let parts = (handle(), handle(), handle());
        let (Some(properties), Some(index), Some(range_tombstones)) = parts else {
            return Err("the table's footer is too short");
        };
        let identity = reader.fixed_u128();
        let version = reader.fixed_u32();
        if reader.take(8).is_none() || reader.take(8) != Some(MAGIC) {
            return Err("this is not a table");
        }
        if !version.is_some_and(|version| (OLDEST_VERSION..=FORMAT_VERSION).contains(&version)) {
            return Err("the table has a format that this version does not know: use a newer one");
        }
        let footer = Self {
            properties,
            index,
            range_tombstones: (range_tombstones.len > 0).then_some(range_tombstones),
            identity: identity.unwrap_or_default(),
        };
        Ok((footer, sum))
    }
}

/// A table file, as the manifest names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableFile {
    pub(crate) number: u64,
    pub(crate) identity: u128,
    pub(crate) file_bytes: u64,
    pub(crate) footer_sum: u64,
}

/// An open table.
pub(crate) struct Table {
    pub(crate) number: u64,
    pub(crate) footer_sum: u64,
    file: SealedFile,
    cache: BlockCache,
    /// Number of the file in the cache.
    cached_as: u64,
    top: Index,
    top_offset: u64,
    /// The partitions that stay in memory, loaded on first use while there is room for them.
    partitions: Box<[OnceLock<Partition>]>,
    pub(crate) range_tombstones: Arc<RangeTombstones>,
    pub(crate) properties: Properties,
    _pinned: Pinned,
}

/// Larger blocks are always cached.
const SPARE_BYTES: usize = 16 << 10;

thread_local! {
    /// Buffer for a block that is not cached.
    static SPARE: RefCell<Arc<[u8]>> = RefCell::default();
}

/// The entry of a key in a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TableEntry<'a> {
    Value(&'a [u8]),
    Deletion,
    InBlobFile(BlobRef),
}

/// The block of a table that contains an entry if it exists.
pub(crate) struct CandidateBlock {
    handle: Handle,
    /// The block, if it is in memory.
    cached: Option<Arc<Cached>>,
}

impl CandidateBlock {
    /// See [`Cached::touch`].
    #[inline]
    pub(crate) fn touch(&self) {
        if let Some(cached) = &self.cached {
            cached.touch();
        }
    }

    /// The same for another key, if that must be in the same block (see [`Cached::surrounds`]).
    #[inline]
    pub(crate) fn also_of(&self, key: &[u8]) -> Option<Self> {
        let cached = self.cached.as_ref()?;
        cached.surrounds(key).then(|| Self {
            handle: self.handle,
            cached: Some(cached.clone()),
        })
    }

    /// See [`Cached::touch_entry`].
    #[inline]
    pub(crate) fn touch_entry(&self, key: &[u8]) {
        if let Some(cached) = &self.cached {
            cached.touch_entry(key);
        }
    }
}

impl Table {
    /// Opens the table, which must be the one described by `expected`.
    pub(crate) fn open(
        disk: &dyn Disk,
        path: PathBuf,
        expected: &TableFile,
        cache: &BlockCache,
        seal: Seal,
    ) -> Result<Self, StorageError> {
        let file = SealedFile::open(disk, path, expected.identity, seal)?;
        if file.len() != expected.file_bytes || file.len() < FOOTER_BYTES as u64 {
            return Err(file.damaged(
                file.len(),
                "the table does not have the length that was written",
            ));
        }
        let footer_at = file.len() - FOOTER_BYTES as u64;
        let mut bytes = [0; FOOTER_BYTES];
        file.read_plain(footer_at, &mut bytes)?;
        let (footer, sum) = Footer::parse(&bytes).map_err(|what| file.damaged(footer_at, what))?;
        if sum != expected.footer_sum || footer.identity != expected.identity {
            return Err(file.damaged(footer_at, "this is not the table that was written here"));
        }
        let unreadable = |handle: Handle| file.damaged(handle.offset, "a block is malformed");
        let properties = Properties::parse(&file.read(footer.properties)?)
            .ok_or_else(|| unreadable(footer.properties))?;
        let top = file.read(footer.index)?;
        let len = top.len();
        let top = Block::parse(top, len)
            .and_then(Index::new)
            .map_err(|_| unreadable(footer.index))?;
        let range_tombstones = match footer.range_tombstones {
            None => RangeTombstones::new(),
            Some(handle) => {
                parse_range_tombstones(&file.read(handle)?).ok_or_else(|| unreadable(handle))?
            }
        };
        let partitions: Box<[OnceLock<Partition>]> =
            (0..top.len()).map(|_| OnceLock::new()).collect();
        let pinned = cache.pin(
            top.memory_bytes()
                + range_tombstones.bytes()
                + size_of::<Self>()
                + size_of_val(&*partitions),
        );
        Ok(Self {
            number: expected.number,
            footer_sum: sum,
            file,
            cache: cache.clone(),
            cached_as: cache.file_number(),
            top,
            top_offset: footer.index.offset,
            partitions,
            range_tombstones: Arc::new(range_tombstones),
            properties,
            _pinned: pinned,
        })
    }

    pub(crate) fn file_bytes(&self) -> u64 {
        self.file.len()
    }

    pub(crate) fn identity(&self) -> u128 {
        self.file.identity()
    }

    pub(crate) fn file(&self) -> &SealedFile {
        &self.file
    }

    /// The block that contains the newest entry of `key` no newer than `at`, if there is one; `hash` is the
    /// key's for filters.
    #[inline]
    pub(crate) fn candidate(
        &self,
        key: &[u8],
        at: Version,
        hash: u64,
    ) -> Result<Option<CandidateBlock>, StorageError> {
        let handle = self.find_block(key, at, hash)?;
        Ok(handle.map(|handle| CandidateBlock {
            handle,
            cached: self.cache.get((self.cached_as, handle.offset)),
        }))
    }

    /// Calls `then` with the entry, if it exists.
    pub(crate) fn look_up<R>(
        &self,
        candidate: &CandidateBlock,
        key: &[u8],
        at: Version,
        then: impl FnOnce(Version, TableEntry<'_>) -> Result<R, StorageError>,
    ) -> Result<Option<R>, StorageError> {
        let handle = candidate.handle;
        if let Some(cached) = &candidate.cached {
            return self.visit_found(handle, cached.find(key, at), then);
        }
        let id = (self.cached_as, handle.offset);
        if self.cache.admits(id) || handle.len as usize > SPARE_BYTES {
            let cached = self.read_kept(handle)?;
            return self.visit_found(handle, cached.find(key, at), then);
        }
        // Taken, not borrowed: `then` may call this function again.
        let mut spare = SPARE.take();
        let block = self.read_block_into(handle, &mut spare)?;
        let found = block
            .find(key, at)
            .map(|found| found.filter(|found| found.equal));
        let visited = self.visit_found(handle, found, then);
        drop(block);
        SPARE.set(spare);
        visited
    }

    /// Reads a data block and caches it.
    fn read_kept(&self, handle: Handle) -> Result<Arc<Cached>, StorageError> {
        let block = self.parse_block(self.file.read(handle)?, handle)?;
        self.keep(handle, block)
    }

    /// Inserts a block into the cache.
    fn keep(&self, handle: Handle, block: Block) -> Result<Arc<Cached>, StorageError> {
        let cached = Arc::new(Cached::new(block).map_err(self.damaged(handle.offset))?);
        self.cache
            .insert((self.cached_as, handle.offset), cached.clone());
        Ok(cached)
    }

    #[inline]
    fn visit_found<R>(
        &self,
        handle: Handle,
        found: Result<Option<EntryMatch<'_>>, Damaged>,
        then: impl FnOnce(Version, TableEntry<'_>) -> Result<R, StorageError>,
    ) -> Result<Option<R>, StorageError> {
        let Some(found) = found.map_err(self.damaged(handle.offset))? else {
            return Ok(None);
        };
        let got = match found.held {
            ValueKind::Value => TableEntry::Value(found.value),
            ValueKind::Deletion => TableEntry::Deletion,
            ValueKind::Apart => TableEntry::InBlobFile(
                BlobRef::parse(found.value).ok_or_else(|| self.unreadable(handle.offset))?,
            ),
        };
        then(found.version, got).map(Some)
    }

    /// The data block that may hold the newest entry of `key` no newer than `at`.
    #[inline]
    fn find_block(
        &self,
        key: &[u8],
        at: Version,
        hash: u64,
    ) -> Result<Option<Handle>, StorageError> {
        let found = self.top.find(key, at);
        let Some(number) = found.map_err(|_| self.unreadable(self.top_offset))? else {
            return Ok(None);
        };
        let offset = self.top.handle(number).offset;
        if let Some(partition) = self.pinned(number)? {
            if !may_hold(partition.filter(), hash) {
                return Ok(None);
            }
            let found = partition.index.find(key, at);
            let found = found.map_err(|_| self.unreadable(offset))?;
            return Ok(found.map(|number| partition.index.handle(number)));
        }
        let handle = self.top.handle(number);
        let partition = self.partition(handle)?;
        if !may_hold(self.filter(&partition, handle)?, hash) {
            return Ok(None);
        }
        let found = partition.find(key, at);
        match found.map_err(|_| self.unreadable(offset))? {
            Some(found) => self.handle(found.value, offset).map(Some),
            None => Ok(None),
        }
    }

    /// The partition, if it stays in memory.
    #[inline]
    fn pinned(&self, number: usize) -> Result<Option<&Partition>, StorageError> {
        match self.partitions[number].get() {
            Some(partition) => Ok(Some(partition)),
            None => self.pin(number),
        }
    }

    #[cold]
    fn pin(&self, number: usize) -> Result<Option<&Partition>, StorageError> {
        let handle = self.top.handle(number);
        // Its size is known only after reading it: about as much as on disk, and the search structure.
        let Some(pinned) = self.cache.try_pin(handle.len as usize + index::HELP_BYTES) else {
            return Ok(None);
        };
        let block = self.read_partition(handle)?;
        let partition = Partition::new(block, pinned).map_err(self.damaged(handle.offset))?;
        Ok(Some(self.partitions[number].get_or_init(|| partition)))
    }

    /// Whether there may be a key with the prefix `prefix`; `hash` is that of the prefix for filters.
    pub(crate) fn may_hold_prefix(&self, prefix: &[u8], hash: u64) -> Result<bool, StorageError> {
        if !self.properties.filter_prefixes.contains(&prefix.len()) {
            return Ok(true);
        }
        let found = self.top.find(prefix, Version::MAX);
        let Some(number) = found.map_err(|_| self.unreadable(self.top_offset))? else {
            return Ok(false);
        };
        let handle = self.top.handle(number);
        let partition = self.partition_numbered(number, handle, Reading::Cached)?;
        if may_hold(self.filter(&partition, handle)?, hash) {
            return Ok(true);
        }
        // Keys with the prefix may begin in the next partition: not if this one has a greater key already.
        let found = partition.find(prefix, Version::MAX);
        let found = found.map_err(|_| self.unreadable(handle.offset))?;
        let Some(found) = found else {
            return Ok(true);
        };
        let handle = self.handle(found.value, handle.offset)?;
        let block = self.block(handle)?;
        let found = block.find(prefix, Version::MAX);
        Ok(found.map_err(|_| self.unreadable(handle.offset))?.is_none())
    }

    /// The block of a partition's index, followed by its filter.
    fn partition_numbered(
        &self,
        number: usize,
        handle: Handle,
        reading: Reading,
    ) -> Result<Block, StorageError> {
        match self.partitions.get(number).and_then(OnceLock::get) {
            Some(partition) => Ok(partition.index.block().clone()),
            None if reading == Reading::Bulk => self.read_partition(handle),
            None => match self.pinned(number)? {
                Some(partition) => Ok(partition.index.block().clone()),
                None => self.partition(handle),
            },
        }
    }

    pub(crate) fn unreadable(&self, offset: u64) -> StorageError {
        self.file.damaged(offset, "a block is malformed")
    }

    fn damaged(&self, offset: u64) -> impl Fn(Damaged) -> StorageError {
        move |_| self.unreadable(offset)
    }

    fn handle(&self, bytes: &[u8], offset: u64) -> Result<Handle, StorageError> {
        let parse = || {
            let (at, next) = varint(bytes, 0)?;
            let (len, _) = varint(bytes, next)?;
            Some(Handle {
                offset: at,
                len: u32::try_from(len).ok()?,
            })
        };
        parse().ok_or_else(|| self.unreadable(offset))
    }

    /// A data block.
    fn block(&self, handle: Handle) -> Result<Block, StorageError> {
        let cached = match self.cache.get((self.cached_as, handle.offset)) {
            Some(cached) => cached,
            None => self.read_kept(handle)?,
        };
        Ok(cached.block.clone())
    }

    /// A data block that is used once, in a buffer that is reused after it is dropped.
    fn read_block_into(
        &self,
        handle: Handle,
        spare: &mut Arc<[u8]>,
    ) -> Result<Block, StorageError> {
        self.file.check(handle)?;
        let len = handle.len as usize;
        if spare.len() < len || Arc::get_mut(spare).is_none() {
            *spare = std::iter::repeat_n(0, len.next_multiple_of(1 << 10)).collect();
        }
        let stored = Arc::get_mut(spare).expect("not shared");
        self.file.read_plain(handle.offset, &mut stored[..len])?;
        match self.file.plain_payload(handle, &spare[..len])? {
            Some(len) => Block::parse(spare.clone(), len).map_err(self.damaged(handle.offset)),
            None => self.parse_block(self.file.open_block(handle, &spare[..len])?, handle),
        }
    }

    fn parse_block(&self, bytes: Arc<[u8]>, handle: Handle) -> Result<Block, StorageError> {
        let len = bytes.len();
        Block::parse(bytes, len).map_err(self.damaged(handle.offset))
    }

    /// A partition's index, followed by its filter.
    fn partition(&self, handle: Handle) -> Result<Block, StorageError> {
        let cached = match self.cache.get((self.cached_as, handle.offset)) {
            Some(cached) => cached,
            None => self.keep(handle, self.read_partition(handle)?)?,
        };
        Ok(cached.block.clone())
    }

    fn read_partition(&self, handle: Handle) -> Result<Block, StorageError> {
        let bytes = self.file.read(handle)?;
        let parse = || {
            let body = bytes.len().checked_sub(4)?;
            let filter = u32::from_le_bytes(bytes[body..].try_into().ok()?) as usize;
            let index = body.checked_sub(filter)?;
            Block::parse(bytes.clone(), index).ok()
        };
        parse().ok_or_else(|| self.unreadable(handle.offset))
    }

    fn filter<'a>(&self, partition: &'a Block, handle: Handle) -> Result<&'a [u8], StorageError> {
        let tail = partition.tail();
        let end = tail.len().checked_sub(4);
        end.map(|end| &tail[..end])
            .ok_or_else(|| self.unreadable(handle.offset))
    }
}

impl std::fmt::Debug for Table {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Table")
            .field("number", &self.number)
            .field("entries", &self.properties.entries)
            .finish_non_exhaustive()
    }
}
