//! The last write of each key, ascending by key.

use super::content::{Content, Place};

/// From so many writes on they are put into groups by what their keys begin with, before they are sorted.
const MANY: usize = 2048;
/// Bits of the keys by which those of a large group are parted.
const DIGIT_BITS: u32 = 11;

/// The last write of each key, ascending by key. Memory: 4 bytes a write, 26 more while it sorts.
pub(super) fn sorted(content: &Content) -> Vec<Place> {
    let mut sorted = Vec::with_capacity(content.len());
    for group in groups(content) {
        group.sort_into(content, &mut sorted);
    }
    sorted
}

/// All writes: of many, those whose keys begin with one byte together; where they are few, all of them are one group.
fn groups(content: &Content) -> Vec<Group<'_>> {
    let by_first_byte = content.len() >= MANY;
    let mut groups = vec![Group::default(); if by_first_byte { 257 } else { 1 }];
    for (place, (key, _)) in content.since(Place::default()) {
        let group = match key.first() {
            Some(byte) if by_first_byte => usize::from(*byte) + 1,
            _ => 0,
        };
        groups[group].push(place, key);
    }
    groups
}

/// Some of the writes, in the order in which they came.
#[derive(Clone, Default)]
struct Group<'a> {
    places: Vec<Place>,
    /// What the first one's key begins with.
    first: u64,
    /// The last one's key.
    last: &'a [u8],
    /// In which bits of their first eight bytes some keys differ from it.
    differing: u64,
    /// Whether a key is not above the one before it. Often they came in order: records do.
    mixed: bool,
}

impl<'a> Group<'a> {
    fn push(&mut self, place: Place, key: &'a [u8]) {
        let beginning = prefix(key);
        if self.places.is_empty() {
            self.first = beginning;
        } else {
            self.differing |= beginning ^ self.first;
            self.mixed = self.mixed || self.last >= key;
        }
        self.last = key;
        self.places.push(place);
    }

    /// Appends the last write of each key, ascending by key.
    fn sort_into(self, content: &Content, sorted: &mut Vec<Place>) {
        if !self.mixed {
            sorted.extend_from_slice(&self.places);
            return;
        }
        let (common, differing) = self.first_difference(content);
        let entry = |place: &Place| Entry::new(beginning(content, *place, common), *place);
        let (mut entries, ends) = match self.places.len() < MANY {
            true => (self.places.iter().map(entry).collect(), Vec::new()),
            false => in_parts(&self.places, entry, differing),
        };
        let (all, mut start) = (entries.len(), 0);
        for end in ends.into_iter().chain([all]) {
            push_part(content, &mut entries[start..end], sorted);
            start = end;
        }
    }

    /// How many bytes all keys have in common, zeros thought behind their ends, and in which bits of the next eight some of them
    /// differ. All of it where they differ in nothing but such zeros.
    fn first_difference(&self, content: &Content) -> (usize, u64) {
        let key = |place: &Place| content.at(*place).0;
        let (mut at, mut bits) = (0, self.differing);
        let longest = || self.places.iter().map(|place| key(place).len()).max();
        let longest = if bits == 0 { longest() } else { None };
        while bits == 0 {
            at += 8;
            if longest.is_none_or(|longest| at >= longest) {
                return (0, 0);
            }
            let eight = |place| prefix(key(place).get(at..).unwrap_or_default());
            let first = eight(&self.places[0]);
            let differing = self.places.iter().map(|place| eight(place) ^ first);
            bits = differing.fold(0, |all, differing| all | differing);
        }
        let bytes = bits.leading_zeros() / 8;
        (at + bytes as usize, bits << (8 * bytes))
    }
}

/// What a key begins with behind the bytes that all keys of its group have in common, above the place of its write: ordered
/// as these two are.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Entry(u128);

impl Entry {
    fn new(beginning: u64, place: Place) -> Self {
        Self(u128::from(beginning) << u32::BITS | u128::from(place.0))
    }

    fn beginning(self) -> u64 {
        (self.0 >> u32::BITS) as u64
    }

    fn place(self) -> Place {
        Place(self.0 as u32)
    }
}

/// The entries of writes, parted by the first of the `differing` bits of what their keys begin with, ascending; and where each
/// part ends.
fn in_parts(
    places: &[Place],
    entry: impl Fn(&Place) -> Entry,
    differing: u64,
) -> (Vec<Entry>, Vec<usize>) {
    let shift = (u64::BITS - differing.leading_zeros()).saturating_sub(DIGIT_BITS);
    let mut ends = vec![0; 1 << DIGIT_BITS];
    let digits = places.iter().map(|place| {
        let digit = (entry(place).beginning() >> shift) as u16 % (1 << DIGIT_BITS);
        ends[usize::from(digit)] += 1;
        digit
    });
    let digits: Vec<u16> = digits.collect();
    let mut sum = 0;
    for count in &mut ends {
        sum += std::mem::replace(count, sum);
    }
    let mut parted = vec![Entry::default(); places.len()];
    for (place, digit) in places.iter().zip(digits) {
        let at = &mut ends[usize::from(digit)];
        parted[*at] = entry(place);
        *at += 1;
    }
    (parted, ends)
}

/// Sorts a part and appends the last write of each key, ascending by key.
fn push_part(content: &Content, part: &mut [Entry], sorted: &mut Vec<Place>) {
    part.sort_unstable();
    let key = |entry: &Entry| content.at(entry.place()).0;
    for same in part.chunk_by_mut(|a, b| a.beginning() == b.beginning()) {
        if same.len() > 1 {
            // Stable: of one key they stay in the order in which they came.
            same.sort_by(|a, b| key(a).cmp(key(b)));
        }
        for (at, entry) in same.iter().enumerate() {
            let next = same.get(at + 1);
            if next.is_none_or(|next| key(next) != key(entry)) {
                sorted.push(entry.place());
            }
        }
    }
}

/// What a key begins with behind its first `common` bytes.
#[inline]
fn beginning(content: &Content, place: Place, common: usize) -> u64 {
    prefix(content.at(place).0.get(common..).unwrap_or_default())
}

/// The first 8 bytes of a key as a number, zeros behind its end: smaller where the key is smaller, if it differs.
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
