//! Blocks: sorted entries with prefix compression. Data blocks, indexes and the index of indexes have this
//! format.
//!
//! ```text
//! entries    each: shared: varint (bytes in common with the previous key), suffix length: varint, value length: varint,
//!            suffix, value
//! stamps     per entry `width` bytes, little-endian: (version - base) * 4 + kind (0 value, 1 deletion, 2 value in a blob file)
//! restarts   per `interval` entries: offset of the first of them in the entries, u16 or u32; it shares nothing
//! trailer    base: u64, entry count: u16, interval: u8 (its highest bit: restarts are u32), width: u8
//! ```
//!
//! A search is a binary search over the restarts, then a scan of at most `interval` entries without building
//! their keys.

use std::{cmp::Ordering, ops::Range, sync::Arc};

use isomer_storage::{Version, Visitor};

use crate::codec::{put_varint, varint};

/// Bytes after entries, stamps and restarts.
const TRAILER_BYTES: usize = 12;
/// Flag in the interval: restarts take four bytes each, because a long key puts the last one beyond two bytes.
const WIDE_RESTARTS: u8 = 0x80;

/// The bytes are not a block, or were not written by a builder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Damaged;

/// The kind of an entry's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueKind {
    /// A value.
    Value,
    /// None: the key was deleted.
    Deletion,
    /// A reference to a blob file.
    Apart,
}

impl ValueKind {
    #[inline]
    fn from_stamp(stamp: u64) -> Result<Self, Damaged> {
        match stamp & 3 {
            0 => Ok(Self::Value),
            1 => Ok(Self::Deletion),
            2 => Ok(Self::Apart),
            _ => Err(Damaged),
        }
    }
}

/// Order of entries: ascending keys, descending versions.
#[inline]
pub(crate) fn entry_order(key: (&[u8], Version), other: (&[u8], Version)) -> Ordering {
    key.0.cmp(other.0).then(other.1.cmp(&key.1))
}

/// Builds a block from entries.
pub(crate) struct BlockBuilder {
    interval: usize,
    entries: Vec<u8>,
    restarts: Vec<u32>,
    stamps: Vec<(Version, ValueKind)>,
    last_key: Vec<u8>,
    lowest: Version,
    highest: Version,
}

impl BlockBuilder {
    pub(crate) fn new(interval: u8) -> Self {
        let mut builder = Self {
            interval: 1,
            entries: Vec::new(),
            restarts: Vec::new(),
            stamps: Vec::new(),
            last_key: Vec::new(),
            lowest: Version::MAX,
            highest: 0,
        };
        builder.set_interval(interval);
        builder
    }

    /// Sets the number of entries between two restarts, for an empty block.
    pub(crate) fn set_interval(&mut self, interval: u8) {
        debug_assert!(self.is_empty());
        self.interval = usize::from(interval.clamp(1, WIDE_RESTARTS - 1));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.stamps.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.stamps.len()
    }

    pub(crate) fn last(&self) -> (&[u8], Version) {
        (
            &self.last_key,
            self.stamps.last().map_or(0, |stamp| stamp.0),
        )
    }

    /// Bytes of the block if it was finished now.
    pub(crate) fn byte_len(&self) -> usize {
        self.len_with(self.lowest, self.highest, self.stamps.len())
    }

    /// Whether the block stays within `bytes` with one more entry.
    pub(crate) fn has_room(
        &self,
        key: &[u8],
        value: usize,
        version: Version,
        bytes: usize,
    ) -> bool {
        if self.stamps.len() >= usize::from(u16::MAX) {
            return false;
        }
        let shared = common_prefix(&self.last_key, key);
        let grown = self.len_with(
            self.lowest.min(version),
            self.highest.max(version),
            self.stamps.len() + 1,
        );
        grown + 6 + (key.len() - shared) + value <= bytes
    }

    fn len_with(&self, lowest: Version, highest: Version, count: usize) -> usize {
        self.entries.len()
            + count * width_of(highest.saturating_sub(lowest))
            + count.div_ceil(self.interval) * 2
            + TRAILER_BYTES
    }

    /// Appends an entry, which must follow the last one.
    pub(crate) fn add(&mut self, key: &[u8], version: Version, held: ValueKind, value: &[u8]) {
        let shared = if self.stamps.len().is_multiple_of(self.interval) {
            self.restarts
                .push(u32::try_from(self.entries.len()).expect("a block is far below 4 GiB"));
            0
        } else {
            common_prefix(&self.last_key, key)
        };
        put_varint(&mut self.entries, shared as u64);
        put_varint(&mut self.entries, (key.len() - shared) as u64);
        put_varint(&mut self.entries, value.len() as u64);
        self.entries.extend_from_slice(&key[shared..]);
        self.entries.extend_from_slice(value);
        self.last_key.truncate(shared);
        self.last_key.extend_from_slice(&key[shared..]);
        self.stamps.push((version, held));
        self.lowest = self.lowest.min(version);
        self.highest = self.highest.max(version);
    }

    /// Appends the block to `out` and starts the next one.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) {
        let base = if self.stamps.is_empty() {
            0
        } else {
            self.lowest
        };
        // The kind takes two bits; entries of one version and kind 0 take none.
        let plain = self
            .stamps
            .iter()
            .all(|(_, held)| *held == ValueKind::Value);
        let span = self.highest.saturating_sub(base);
        let width = if plain && span == 0 {
            0
        } else {
            width_of(span)
        };
        let count = self.stamps.len() as u16;
        out.append(&mut self.entries);
        for (version, held) in self.stamps.drain(..) {
            let stamp = ((version - base) << 2) | held as u64;
            out.extend_from_slice(&stamp.to_le_bytes()[..width]);
        }
        let wide = self
            .restarts
            .last()
            .is_some_and(|last| *last > u32::from(u16::MAX));
        let restart_bytes = if wide { 4 } else { 2 };
        for restart in self.restarts.drain(..) {
            out.extend_from_slice(&restart.to_le_bytes()[..restart_bytes]);
        }
        out.extend_from_slice(&base.to_le_bytes());
        out.extend_from_slice(&count.to_le_bytes());
        out.push(self.interval as u8 | if wide { WIDE_RESTARTS } else { 0 });
        out.push(width as u8);
        self.last_key.clear();
        self.lowest = Version::MAX;
        self.highest = 0;
    }
}

/// Bytes of a stamp whose version is this far above the base.
fn width_of(span: u64) -> usize {
    let bits = 64 - span.leading_zeros() as usize + 2;
    bits.div_ceil(8)
}

#[inline]
pub(crate) fn common_prefix(one: &[u8], other: &[u8]) -> usize {
    let limit = one.len().min(other.len());
    let mut at = 0;
    while at + 8 <= limit {
        let left = u64::from_le_bytes(one[at..at + 8].try_into().expect("8 bytes"));
        let right = u64::from_le_bytes(other[at..at + 8].try_into().expect("8 bytes"));
        let differ = left ^ right;
        if differ != 0 {
            return at + (differ.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    while at < limit && one[at] == other[at] {
        at += 1;
    }
    at
}

/// The parts of a block with restarts of two bytes.
pub(super) struct SmallEntries<'a> {
    pub(super) entries: &'a [u8],
    pub(super) stamps: &'a [u8],
    restarts: &'a [u8],
    pub(super) trailer: &'a [u8],
    pub(super) count: usize,
    pub(super) interval: usize,
}

impl<'a> SmallEntries<'a> {
    /// Splits a whole block into its parts.
    pub(super) fn of(block: &'a [u8]) -> Option<Self> {
        let (front, trailer) = block.split_at_checked(block.len().checked_sub(TRAILER_BYTES)?)?;
        let count = usize::from(u16::from_le_bytes([trailer[8], trailer[9]]));
        let restart_bytes = count.div_ceil(usize::from(trailer[10]).max(1)) * 2;
        let (front, restarts) = front.split_at_checked(front.len().checked_sub(restart_bytes)?)?;
        let stamp_bytes = count * usize::from(trailer[11]);
        let entry_bytes = front.len().checked_sub(stamp_bytes)?;
        let (entries, stamps) = front.split_at(entry_bytes);
        Self::from_parts(entries, stamps, restarts, trailer)
    }

    /// Splits stamps and trailer of a block with `count` entries into their parts.
    pub(super) fn tail(tail: &'a [u8], count: usize) -> Option<Self> {
        let (stamps, trailer) = tail.split_at_checked(tail.len().checked_sub(TRAILER_BYTES)?)?;
        let parts = Self::from_parts(&[], stamps, &[], trailer)?;
        let fits = parts.count == count && stamps.len() == count * usize::from(trailer[11]);
        fits.then_some(parts)
    }

    fn from_parts(
        entries: &'a [u8],
        stamps: &'a [u8],
        restarts: &'a [u8],
        trailer: &'a [u8],
    ) -> Option<Self> {
        let interval = trailer[10];
        (interval != 0 && interval & WIDE_RESTARTS == 0).then(|| Self {
            entries,
            stamps,
            restarts,
            trailer,
            count: usize::from(u16::from_le_bytes([trailer[8], trailer[9]])),
            interval: usize::from(interval),
        })
    }

    /// Offset of the entry of a restart.
    pub(super) fn restart(&self, number: usize) -> Option<usize> {
        let bytes = self.restarts.get(number * 2..number * 2 + 2)?;
        Some(usize::from(u16::from_le_bytes([bytes[0], bytes[1]])))
    }
}

/// A block in memory, cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    /// The buffer with the block, possibly with others.
    bytes: Arc<[u8]>,
    /// Offset of the block in `bytes`.
    start: u32,
    /// Offset of the stamps in the block.
    stamps: u32,
    /// Offset of the restarts in the block.
    restarts: u32,
    /// Bytes of the block.
    len: u32,
    count: u16,
    interval: u8,
    /// Bytes of a restart.
    restart_bytes: u8,
    width: u8,
    base: Version,
}

/// An entry found by a search.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntryMatch<'a> {
    /// Its number in the block.
    pub(crate) index: usize,
    /// Whether it has the key that was searched for.
    pub(crate) equal: bool,
    pub(crate) version: Version,
    pub(crate) held: ValueKind,
    pub(crate) value: &'a [u8],
}

/// Lengths of an entry and the offset of its suffix.
struct Lengths {
    shared: usize,
    suffix: usize,
    value: usize,
    at: usize,
}

impl Block {
    /// Parses `bytes[..len]` as a block.
    pub(crate) fn parse(bytes: Arc<[u8]>, len: usize) -> Result<Self, Damaged> {
        Self::parse_at(bytes, 0, len)
    }

    /// Parses `bytes[start..start + len]` as a block.
    pub(crate) fn parse_at(bytes: Arc<[u8]>, start: usize, len: usize) -> Result<Self, Damaged> {
        let end = start.checked_add(len).ok_or(Damaged)?;
        let block = bytes.get(start..end).ok_or(Damaged)?;
        let trailer_at = len.checked_sub(TRAILER_BYTES).ok_or(Damaged)?;
        let trailer = &block[trailer_at..];
        let base = u64::from_le_bytes(trailer[..8].try_into().map_err(|_| Damaged)?);
        let count = u16::from_le_bytes([trailer[8], trailer[9]]);
        let (interval, width) = (trailer[10] & !WIDE_RESTARTS, trailer[11]);
        let restart_bytes = if trailer[10] & WIDE_RESTARTS == 0 {
            2
        } else {
            4
        };
        if interval == 0 || width > 8 {
            return Err(Damaged);
        }
        let restarts = usize::from(count).div_ceil(usize::from(interval)) * restart_bytes;
        let restarts = trailer_at.checked_sub(restarts).ok_or(Damaged)?;
        let stamps = restarts
            .checked_sub(usize::from(count) * usize::from(width))
            .ok_or(Damaged)?;
        Ok(Self {
            start: u32::try_from(start).map_err(|_| Damaged)?,
            stamps: u32::try_from(stamps).map_err(|_| Damaged)?,
            restarts: u32::try_from(restarts).map_err(|_| Damaged)?,
            len: u32::try_from(len).map_err(|_| Damaged)?,
            bytes,
            count,
            interval,
            restart_bytes: restart_bytes as u8,
            width,
            base,
        })
    }

    /// Bytes of memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The bytes after the block in its buffer.
    pub(crate) fn tail(&self) -> &[u8] {
        &self.bytes[(self.start + self.len) as usize..]
    }

    pub(crate) fn len(&self) -> usize {
        usize::from(self.count)
    }

    #[inline]
    pub(super) fn entries(&self) -> &[u8] {
        &self.bytes[self.start as usize..][..self.stamps as usize]
    }

    /// The entries, and everything after them in the buffer.
    #[inline]
    fn onwards(&self) -> &[u8] {
        &self.bytes[self.start as usize..]
    }

    #[inline]
    fn stamp(&self, index: usize) -> Result<(Version, ValueKind), Damaged> {
        let width = usize::from(self.width);
        if width == 0 {
            return Ok((self.base, ValueKind::Value));
        }
        // 8 bytes from any stamp on are within the block: the trailer follows.
        let at = (self.start + self.stamps) as usize + index * width;
        let word = self.bytes.get(at..at + 8).ok_or(Damaged)?;
        let word = u64::from_le_bytes(word.try_into().map_err(|_| Damaged)?);
        let stamp = word & (u64::MAX >> (64 - 8 * width as u32));
        let version = self.base.checked_add(stamp >> 2).ok_or(Damaged)?;
        Ok((version, ValueKind::from_stamp(stamp)?))
    }

    /// Offset of the first entry of a restart.
    #[inline]
    pub(super) fn restart(&self, number: usize) -> Result<usize, Damaged> {
        let bytes = usize::from(self.restart_bytes);
        let at = (self.start + self.restarts) as usize + bytes * number;
        match self.bytes.get(at..at + bytes).ok_or(Damaged)? {
            &[low, high] => Ok(usize::from(u16::from_le_bytes([low, high]))),
            wide => {
                let wide = wide.try_into().map_err(|_| Damaged)?;
                Ok(u32::from_le_bytes(wide) as usize)
            }
        }
    }

    #[inline]
    fn lengths(&self, at: usize) -> Result<Lengths, Damaged> {
        let entries = self.entries();
        if let Some(&[shared, suffix, value]) = entries.get(at..at + 3)
            && (shared | suffix | value) < 0x80
        {
            return Ok(Lengths {
                shared: usize::from(shared),
                suffix: usize::from(suffix),
                value: usize::from(value),
                at: at + 3,
            });
        }
        Self::long_lengths(entries, at)
    }

    #[cold]
    fn long_lengths(entries: &[u8], at: usize) -> Result<Lengths, Damaged> {
        let mut at = at;
        let mut next = || -> Result<usize, Damaged> {
            let (value, end) = varint(entries, at).ok_or(Damaged)?;
            at = end;
            // No length is near 2^32: sums of lengths and offsets cannot overflow.
            u32::try_from(value)
                .map(|value| value as usize)
                .map_err(|_| Damaged)
        };
        let (shared, suffix, value) = (next()?, next()?, next()?);
        Ok(Lengths {
            shared,
            suffix,
            value,
            at,
        })
    }

    /// How many restarts there are.
    pub(super) fn restarts(&self) -> usize {
        self.len().div_ceil(usize::from(self.interval))
    }

    /// The key of the first entry of a restart.
    pub(super) fn restart_key(&self, number: usize) -> Result<&[u8], Damaged> {
        let lengths = self.lengths(self.restart(number)?)?;
        self.entries()
            .get(lengths.at..lengths.at + lengths.suffix)
            .ok_or(Damaged)
    }

    /// The last of these restarts whose entry is before (`key`, `version`); the first if there is none.
    fn restart_before(
        &self,
        key: &[u8],
        version: Version,
        among: Range<usize>,
    ) -> Result<usize, Damaged> {
        let interval = usize::from(self.interval);
        let (mut low, mut high) = (among.start, among.end);
        // Invariant: the entry at `low` is before (or `low` is the first), the one at `high` is not (or `high`
        // is the end).
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            let before = match self.restart_key(middle)?.cmp(key) {
                Ordering::Less => true,
                Ordering::Greater => false,
                Ordering::Equal => self.stamp(middle * interval)?.0 > version,
            };
            if before {
                low = middle;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    /// The first entry at or after (`key`, `version`), `None` if all are before.
    pub(crate) fn find(
        &self,
        key: &[u8],
        version: Version,
    ) -> Result<Option<EntryMatch<'_>>, Damaged> {
        self.find_among(key, version, 0..self.restarts())
    }

    /// Like [`Block::find`], if the last restart before it is one of these, or there is none and the first of
    /// them is the block's.
    pub(super) fn find_among(
        &self,
        key: &[u8],
        version: Version,
        restarts: Range<usize>,
    ) -> Result<Option<EntryMatch<'_>>, Damaged> {
        if self.len() == 0 {
            return Ok(None);
        }
        let restart = self.restart_before(key, version, restarts)?;
        self.find_from(key, version, restart, self.restart(restart)?)
    }

    /// Like [`Block::find`], from the last restart before it on, whose entry begins at `at`.
    pub(super) fn find_from(
        &self,
        key: &[u8],
        version: Version,
        restart: usize,
        mut at: usize,
    ) -> Result<Option<EntryMatch<'_>>, Damaged> {
        let entries = self.entries();
        let mut index = restart * usize::from(self.interval);
        // Common prefix length of the searched key and the previous entry's key, which is smaller.
        let mut matched = 0;
        while index < self.len() {
            let Lengths {
                shared,
                suffix,
                value,
                at: suffix_at,
            } = self.lengths(at)?;
            let value_at = suffix_at + suffix;
            let end = value_at + value;
            let bytes = entries.get(suffix_at..end).ok_or(Damaged)?;
            // An entry at a restart shares nothing, whatever it has in common.
            if index.is_multiple_of(usize::from(self.interval)) {
                matched = 0;
            }
            // Shares more than matched: differs from the searched key at the same byte as the previous one, and
            // is smaller. Shares less: is greater at a byte at which the previous one was still equal.
            let order = match shared.cmp(&matched) {
                Ordering::Greater => Ordering::Less,
                Ordering::Less => Ordering::Greater,
                Ordering::Equal => {
                    let suffix = &bytes[..suffix];
                    let rest = &key[matched..];
                    let common = common_prefix(suffix, rest);
                    matched += common;
                    suffix[common..].first().cmp(&rest[common..].first())
                }
            };
            if order != Ordering::Less {
                let (entry_version, held) = self.stamp(index)?;
                let equal = order == Ordering::Equal;
                if !equal || entry_version <= version {
                    return Ok(Some(EntryMatch {
                        index,
                        equal,
                        version: entry_version,
                        held,
                        value: &bytes[suffix..],
                    }));
                }
            }
            at = end;
            index += 1;
        }
        Ok(None)
    }
}

/// Why a run over entries ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunEnd {
    /// The visitor broke, at the current entry.
    Broke,
    /// The current value is in a blob file and was not visited.
    Apart,
    /// No more entries, or the current one needs the general path.
    Ended,
}

/// A key that is built from the previous one.
///
/// `bytes[..len]` is the key. The bytes after it have no meaning: they are there so that the suffixes of most
/// keys are copied as one piece of a fixed size.
#[derive(Clone)]
struct KeyBuffer {
    bytes: Vec<u8>,
    len: usize,
}

/// Bytes that are copied at once.
const PIECE_BYTES: usize = 48;

impl KeyBuffer {
    const fn new() -> Self {
        Self {
            bytes: Vec::new(),
            len: 0,
        }
    }

    #[inline]
    fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    fn clear(&mut self) {
        self.len = 0;
    }

    /// Keeps `shared` bytes, at most the present length, and appends `from[at..at + len]`, which must exist.
    #[inline]
    fn extend(&mut self, shared: usize, from: &[u8], at: usize, len: usize) {
        let end = shared + len;
        if self.bytes.len() < end + PIECE_BYTES {
            self.bytes.resize(end + 2 * PIECE_BYTES, 0);
        }
        if len <= PIECE_BYTES
            && let Some(piece) = from.get(at..at + PIECE_BYTES)
        {
            self.bytes[shared..shared + PIECE_BYTES].copy_from_slice(piece);
        } else {
            self.bytes[shared..end].copy_from_slice(&from[at..at + len]);
        }
        self.len = end;
    }
}

/// A position in a block.
#[derive(Clone)]
pub(crate) struct BlockCursor {
    block: Option<Block>,
    /// Number of the entry; the block's count if there is none.
    index: usize,
    /// Offset of the next entry.
    next_at: usize,
    key: KeyBuffer,
    value: (usize, usize),
}

impl BlockCursor {
    /// A cursor without a position.
    pub(crate) fn new() -> Self {
        Self {
            block: None,
            index: 0,
            next_at: 0,
            key: KeyBuffer::new(),
            value: (0, 0),
        }
    }

    /// Sets another block, without a position.
    pub(crate) fn set(&mut self, block: Block) {
        self.index = block.len();
        self.block = Some(block);
    }

    /// Clears the position.
    pub(crate) fn clear(&mut self) {
        self.block = None;
    }

    #[inline]
    pub(crate) fn valid(&self) -> bool {
        self.block
            .as_ref()
            .is_some_and(|block| self.index < block.len())
    }

    /// Number of the current entry.
    pub(crate) fn index(&self) -> usize {
        self.index
    }

    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        self.key.as_slice()
    }

    #[inline]
    pub(crate) fn value(&self) -> &[u8] {
        match &self.block {
            Some(block) => &block.entries()[self.value.0..self.value.1],
            None => &[],
        }
    }

    #[inline]
    pub(crate) fn stamp(&self) -> Result<(Version, ValueKind), Damaged> {
        self.block.as_ref().ok_or(Damaged)?.stamp(self.index)
    }

    /// Reads the entry at `next_at`, whose key is built from the current one.
    #[inline]
    fn read(&mut self) -> Result<(), Damaged> {
        let block = self.block.as_ref().ok_or(Damaged)?;
        let lengths = block.lengths(self.next_at)?;
        let value_at = lengths.at + lengths.suffix;
        let end = value_at + lengths.value;
        if lengths.shared > self.key.len || end > block.stamps as usize {
            return Err(Damaged);
        }
        self.key
            .extend(lengths.shared, block.onwards(), lengths.at, lengths.suffix);
        self.value = (value_at, end);
        self.next_at = end;
        Ok(())
    }

    fn go_to_restart(&mut self, number: usize) -> Result<(), Damaged> {
        let block = self.block.as_ref().ok_or(Damaged)?;
        self.index = number * usize::from(block.interval);
        if self.index >= block.len() {
            self.index = block.len();
            return Ok(());
        }
        self.next_at = block.restart(number)?;
        self.key.clear();
        self.read()
    }

    pub(crate) fn first(&mut self) -> Result<(), Damaged> {
        self.go_to_restart(0)
    }

    pub(crate) fn last(&mut self) -> Result<(), Damaged> {
        let count = self.block.as_ref().ok_or(Damaged)?.len();
        match count.checked_sub(1) {
            Some(last) => self.go_to(last),
            None => Ok(()),
        }
    }

    /// Moves to an entry by its number.
    fn go_to(&mut self, index: usize) -> Result<(), Damaged> {
        let interval = usize::from(self.block.as_ref().ok_or(Damaged)?.interval);
        self.go_to_restart(index / interval)?;
        while self.index < index {
            self.next()?;
        }
        Ok(())
    }

    /// Moves to the first entry at or after (`key`, `version`).
    pub(crate) fn seek(&mut self, key: &[u8], version: Version) -> Result<(), Damaged> {
        let block = self.block.as_ref().ok_or(Damaged)?;
        let restart = block.restart_before(key, version, 0..block.restarts())?;
        self.go_to_restart(restart)?;
        while self.valid() && entry_order((self.key(), self.stamp()?.0), (key, version)).is_lt() {
            self.next()?;
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn next(&mut self) -> Result<(), Damaged> {
        self.index += 1;
        if self.valid() { self.read() } else { Ok(()) }
    }

    /// Calls `visit` with what a reader at `at` sees from here on, up to `end`; see [`crate::Cursor::run`].
    pub(crate) fn run(
        &mut self,
        end: Option<&[u8]>,
        at: Version,
        visit: &mut Visitor<'_>,
    ) -> Result<RunEnd, Damaged> {
        let block = self.block.as_ref().ok_or(Damaged)?;
        let (count, entries, onwards) = (block.len(), block.entries(), block.onwards());
        while self.index < count {
            if end.is_some_and(|end| *self.key.as_slice() >= *end) {
                return Ok(RunEnd::Ended);
            }
            let (version, held) = block.stamp(self.index)?;
            if version > at {
                return Ok(RunEnd::Ended);
            }
            match held {
                ValueKind::Value => {
                    let value = entries.get(self.value.0..self.value.1).ok_or(Damaged)?;
                    if visit(self.key.as_slice(), value).is_break() {
                        return Ok(RunEnd::Broke);
                    }
                }
                ValueKind::Apart => return Ok(RunEnd::Apart),
                ValueKind::Deletion => {}
            }
            loop {
                self.index += 1;
                if self.index >= count {
                    break;
                }
                let lengths = block.lengths(self.next_at)?;
                let value_at = lengths.at + lengths.suffix;
                let next_at = value_at + lengths.value;
                let suffix = entries.get(lengths.at..value_at).ok_or(Damaged)?;
                let replaced = self.key.as_slice().get(lengths.shared..);
                let replaced = replaced.ok_or(Damaged)?;
                if next_at > entries.len() {
                    return Err(Damaged);
                }
                // Most keys differ from the previous one in the first byte that they do not share.
                let same = suffix.first() == replaced.first() && suffix == replaced;
                self.value = (value_at, next_at);
                self.next_at = next_at;
                if !same {
                    self.key
                        .extend(lengths.shared, onwards, lengths.at, lengths.suffix);
                    break;
                }
            }
        }
        Ok(RunEnd::Ended)
    }

    /// Moves to the first entry of another key.
    #[inline]
    pub(crate) fn next_key(&mut self) -> Result<(), Damaged> {
        loop {
            self.index += 1;
            if !self.valid() {
                return Ok(());
            }
            let block = self.block.as_ref().ok_or(Damaged)?;
            let Lengths {
                shared, suffix, at, ..
            } = block.lengths(self.next_at)?;
            let same = shared + suffix == self.key.len
                && block.entries().get(at..at + suffix).ok_or(Damaged)?
                    == self.key.as_slice().get(shared..).ok_or(Damaged)?;
            self.read()?;
            if !same {
                return Ok(());
            }
        }
    }

    pub(crate) fn prev(&mut self) -> Result<(), Damaged> {
        match self.index.checked_sub(1) {
            Some(index) => self.go_to(index),
            None => {
                self.index = self.block.as_ref().ok_or(Damaged)?.len();
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Entry = (Vec<u8>, Version, ValueKind, Vec<u8>);

    fn random_entries(seed: u64) -> Vec<Entry> {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut random = |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) % below
        };
        let base = if random(2) == 0 { 0 } else { 1 << 40 };
        let bits = random(20);
        let versions = 1 + random(1 << bits);
        let count = random(120);
        let mut entries: Vec<Entry> = (0..count)
            .map(|_| {
                let len = random(6);
                let key = (0..len).map(|_| random(4) as u8).collect();
                let held =
                    [ValueKind::Value, ValueKind::Deletion, ValueKind::Apart][random(3) as usize];
                let most = if random(20) == 0 { 400 } else { 9 };
                let value = vec![7; random(most) as usize];
                (key, base + random(versions), held, value)
            })
            .collect();
        entries.sort_by(|a, b| entry_order((&a.0, a.1), (&b.0, b.1)));
        entries.dedup_by(|a, b| (&a.0, a.1) == (&b.0, b.1));
        entries
    }

    fn build(entries: &[Entry], interval: u8) -> Vec<u8> {
        let mut builder = BlockBuilder::new(interval);
        for (key, version, held, value) in entries {
            builder.add(key, *version, *held, value);
        }
        let expected = builder.byte_len();
        let mut out = Vec::new();
        builder.finish(&mut out);
        assert!(out.len() <= expected);
        out
    }

    fn here(cursor: &BlockCursor) -> Option<Entry> {
        cursor.valid().then(|| {
            let (version, held) = cursor.stamp().unwrap();
            (
                cursor.key().to_vec(),
                version,
                held,
                cursor.value().to_vec(),
            )
        })
    }

    #[test]
    fn searches_and_walks_match_a_sorted_list() {
        for seed in 0..300 {
            let entries = random_entries(seed);
            let bytes = build(&entries, [1, 2, 4, 16][seed as usize % 4]);
            let len = bytes.len();
            let block = Block::parse(bytes.into(), len).unwrap();
            let mut cursor = BlockCursor::new();
            cursor.set(block.clone());
            cursor.first().unwrap();
            for entry in &entries {
                assert_eq!(here(&cursor).as_ref(), Some(entry));
                cursor.next().unwrap();
            }
            assert!(!cursor.valid());
            if !entries.is_empty() {
                cursor.last().unwrap();
                for entry in entries.iter().rev() {
                    assert_eq!(here(&cursor).as_ref(), Some(entry));
                    cursor.prev().unwrap();
                }
                assert!(!cursor.valid());
            }
            for (key, version, ..) in random_entries(seed + 1000).iter().chain(&entries) {
                let at =
                    entries.partition_point(|e| entry_order((&e.0, e.1), (key, *version)).is_lt());
                let found = block.find(key, *version).unwrap();
                assert_eq!(found.is_some(), at < entries.len());
                if let Some(found) = found {
                    let (expected, v, held, value) = &entries[at];
                    assert_eq!(found.equal, expected == key);
                    assert_eq!((found.version, found.held), (*v, *held));
                    assert_eq!(found.value, value);
                }
                cursor.seek(key, *version).unwrap();
                assert_eq!(here(&cursor).as_ref(), entries.get(at));
            }
        }
    }

    /// Checksums are checked elsewhere: without them damage gives an error or wrong entries, but never a panic.
    #[test]
    fn damaged_blocks_never_panic() {
        for seed in 0..400 {
            let entries = random_entries(seed);
            let mut bytes = build(&entries, 4);
            let mut state = seed + 1;
            for _ in 0..8 {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                let at = (state >> 33) as usize % bytes.len();
                bytes[at] ^= 1 << (state >> 60 & 7);
                let mut cut = bytes.clone();
                if state & 8 == 0 {
                    cut.truncate(at);
                }
                let len = cut.len();
                let Ok(block) = Block::parse(cut.into(), len) else {
                    continue;
                };
                let mut cursor = BlockCursor::new();
                cursor.set(block.clone());
                let mut walk = || -> Result<(), Damaged> {
                    cursor.first()?;
                    while cursor.valid() {
                        cursor.stamp()?;
                        cursor.value();
                        cursor.next()?;
                    }
                    cursor.last()?;
                    while cursor.valid() {
                        cursor.prev()?;
                    }
                    Ok(())
                };
                let _ = walk();
                for (key, version, ..) in &entries {
                    let _ = block.find(key, *version);
                    let _ = cursor.seek(key, *version);
                }
            }
        }
    }
}
