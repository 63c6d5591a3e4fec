//! The last write of each key, ascending by key.

use super::content::{Content, WritePosition};

/// With at least this many writes they are grouped by the first byte of their keys before they are sorted.
const MIN_GROUPED_WRITES: usize = 2048;
/// Bits of the keys by which a large group is partitioned (radix sort).
const DIGIT_BITS: u32 = 11;

/// The last write of each key, ascending by key. Memory: 4 bytes per write, 4 more while sorting and 22 for each
/// of the writes with one first byte, if these were not written in order.
pub(super) fn sorted(content: &Content) -> Vec<WritePosition> {
    let mut sorted = Vec::with_capacity(content.len());
    for group in groups(content) {
        group.sort_into(content, &mut sorted);
    }
    sorted
}

/// All writes: if they are many, grouped by the first byte of their keys; if they are few, in one group.
fn groups(content: &Content) -> Vec<Group<'_>> {
    let by_first_byte = content.len() >= MIN_GROUPED_WRITES;
    let mut groups = vec![Group::default(); if by_first_byte { 257 } else { 1 }];
    for (position, (key, _)) in content.since(WritePosition::default()) {
        let group = match key.first() {
            Some(byte) if by_first_byte => usize::from(*byte) + 1,
            _ => 0,
        };
        groups[group].push(position, key);
    }
    groups
}

/// Some of the writes, in the order in which they were made.
#[derive(Clone, Default)]
struct Group<'a> {
    positions: Vec<WritePosition>,
    /// The first bytes of the first key.
    first: u64,
    /// The last key.
    last: &'a [u8],
    /// The bits of their first eight bytes in which some keys differ from it.
    differing: u64,
    /// Whether a key is not above the previous one. Often they are in order: records are.
    mixed: bool,
}

impl<'a> Group<'a> {
    fn push(&mut self, position: WritePosition, key: &'a [u8]) {
        let beginning = prefix(key);
        if self.positions.is_empty() {
            self.first = beginning;
        } else {
            self.differing |= beginning ^ self.first;
            self.mixed = self.mixed || self.last >= key;
        }
        self.last = key;
        self.positions.push(position);
    }

    /// Appends the last write of each key, ascending by key.
    fn sort_into(self, content: &Content, sorted: &mut Vec<WritePosition>) {
        if !self.mixed {
            sorted.extend_from_slice(&self.positions);
            return;
        }
        let (common, differing) = self.first_difference(content);
        let entry = |position: &WritePosition| {
            SortKey::new(beginning(content, *position, common), *position)
        };
        let (mut entries, ends) = match self.positions.len() < MIN_GROUPED_WRITES {
            true => (self.positions.iter().map(entry).collect(), Vec::new()),
            false => in_parts(&self.positions, entry, differing),
        };
        let (all, mut start) = (entries.len(), 0);
        for end in ends.into_iter().chain([all]) {
            push_part(content, &mut entries[start..end], sorted);
            start = end;
        }
    }

    /// Length of the common prefix of all keys, padded with zeros, and the bits of the next eight bytes in which some
    /// of them differ. Zero if they differ only in the padding.
    fn first_difference(&self, content: &Content) -> (usize, u64) {
        let key = |position: &WritePosition| content.at(*position).0;
        let (mut at, mut bits) = (0, self.differing);
        let longest = || {
            self.positions
                .iter()
                .map(|position| key(position).len())
                .max()
        };
        let longest = if bits == 0 { longest() } else { None };
        while bits == 0 {
            at += 8;
            if longest.is_none_or(|longest| at >= longest) {
                return (0, 0);
            }
            let eight = |position| prefix(key(position).get(at..).unwrap_or_default());
            let first = eight(&self.positions[0]);
            let differing = self
                .positions
                .iter()
                .map(|position| eight(position) ^ first);
            bits = differing.fold(0, |all, differing| all | differing);
        }
        let bytes = bits.leading_zeros() / 8;
        (at + bytes as usize, bits << (8 * bytes))
    }
}

/// The eight bytes of a key after the common prefix of its group, above the position of its write: ordered as these
/// two are.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct SortKey(u128);

impl SortKey {
    fn new(beginning: u64, position: WritePosition) -> Self {
        Self(u128::from(beginning) << u32::BITS | u128::from(position.0))
    }

    fn beginning(self) -> u64 {
        (self.0 >> u32::BITS) as u64
    }

    fn position(self) -> WritePosition {
        WritePosition(self.0 as u32)
    }
}

/// The sort keys of writes, partitioned by the first of the `differing` bits, ascending; and the end of each part.
fn in_parts(
    positions: &[WritePosition],
    entry: impl Fn(&WritePosition) -> SortKey,
    differing: u64,
) -> (Vec<SortKey>, Vec<usize>) {
    let shift = (u64::BITS - differing.leading_zeros()).saturating_sub(DIGIT_BITS);
    let mut ends = vec![0; 1 << DIGIT_BITS];
    let digits = positions.iter().map(|position| {
        let digit = (entry(position).beginning() >> shift) as u16 % (1 << DIGIT_BITS);
        ends[usize::from(digit)] += 1;
        digit
    });
    let digits: Vec<u16> = digits.collect();
    let mut sum = 0;
    for count in &mut ends {
        sum += std::mem::replace(count, sum);
    }
    let mut parted = vec![SortKey::default(); positions.len()];
    for (position, digit) in positions.iter().zip(digits) {
        let at = &mut ends[usize::from(digit)];
        parted[*at] = entry(position);
        *at += 1;
    }
    (parted, ends)
}

/// Sorts a part and appends the last write of each key, ascending by key.
fn push_part(content: &Content, part: &mut [SortKey], sorted: &mut Vec<WritePosition>) {
    part.sort_unstable();
    let key = |entry: &SortKey| content.at(entry.position()).0;
    for same in part.chunk_by_mut(|a, b| a.beginning() == b.beginning()) {
        if same.len() > 1 {
            // Stable: the writes of one key stay in the order in which they were made.
            same.sort_by(|a, b| key(a).cmp(key(b)));
        }
        for (at, entry) in same.iter().enumerate() {
            let next = same.get(at + 1);
            if next.is_none_or(|next| key(next) != key(entry)) {
                sorted.push(entry.position());
            }
        }
    }
}

/// The eight bytes of a key after its first `common` bytes.
#[inline]
fn beginning(content: &Content, position: WritePosition, common: usize) -> u64 {
    prefix(content.at(position).0.get(common..).unwrap_or_default())
}

/// The first 8 bytes of a key as a number, padded with zeros: if two differ, the smaller one is of the smaller key.
pub(super) fn prefix(key: &[u8]) -> u64 {
    match key.first_chunk::<8>() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => {
            let mut bytes = [0; 8];
            bytes[..key.len()].copy_from_slice(key);
            u64::from_be_bytes(bytes)
        }
    }
}
