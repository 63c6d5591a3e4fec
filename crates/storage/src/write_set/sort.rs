//! The last write of each key, ascending by key.

use super::content::{Content, Place};

/// From so many writes on they are put into groups by what their keys begin with, before they are sorted.
const MANY: usize = 2048;
/// Bits of the keys by which those of a large group are parted.
const DIGIT_BITS: u32 = 11;

/// The last write of each key, ascending by key. Memory: 4 bytes a write, twice where they are many.
pub(super) fn sorted(content: &Content) -> Vec<Place> {
    let mut sorting = Sorting {
        content,
        sorted: Vec::with_capacity(content.len()),
        room: Vec::new(),
    };
    let places = content.since(Place::default()).map(|(place, _)| place);
    if content.len() < MANY {
        sorting.sorted.extend(places);
        sorting.sort_from(&[content.len()], 0, 0);
        return sorting.sorted;
    }
    let (places, ends) = by_first_byte(content);
    let mut start = 0;
    for end in ends {
        sorting.push_group(&places[start..end as usize]);
        start = end as usize;
    }
    sorting.sorted
}

/// All writes, those whose keys begin with one byte together, in the order in which they came; and where those of each first
/// byte end.
fn by_first_byte(content: &Content) -> (Vec<Place>, [u32; 257]) {
    let all = || {
        content
            .since(Place::default())
            .map(|(place, (key, _))| (place, key.first().map_or(0, |byte| usize::from(*byte) + 1)))
    };
    let mut ends = [0; 257];
    all().for_each(|(_, group)| ends[group] += 1);
    sums_before(&mut ends);
    let mut places = vec![Place::default(); content.len()];
    for (place, group) in all() {
        let at = &mut ends[group];
        places[*at as usize] = place;
        *at += 1;
    }
    (places, ends)
}

struct Sorting<'a> {
    content: &'a Content,
    /// Those of the groups so far.
    sorted: Vec<Place>,
    /// What keys begin with, and whose: empty between two uses.
    room: Vec<(u64, Place)>,
}

impl Sorting<'_> {
    fn key(&self, place: Place) -> &[u8] {
        self.content.at(place).0
    }

    /// What a key begins with behind its first `common` bytes.
    fn beginning(&self, place: Place, common: usize) -> u64 {
        prefix(self.key(place).get(common..).unwrap_or_default())
    }

    /// Of writes whose keys are all above those so far, the last of each key. Often they came in order: records do.
    fn push_group(&mut self, group: &[Place]) {
        if group.is_sorted_by(|a, b| self.key(*a) < self.key(*b)) {
            self.sorted.extend_from_slice(group);
            return;
        }
        let (common, differing) = self.first_difference(group);
        let start = self.sorted.len();
        if group.len() < MANY {
            self.sorted.extend_from_slice(group);
            return self.sort_from(&[self.sorted.len()], start, common);
        }
        // Those that differ in their first differing bits are parted by them.
        let shift = (u64::BITS - differing.leading_zeros()).saturating_sub(DIGIT_BITS);
        let part = |sorting: &Self, place| {
            (sorting.beginning(place, common) >> shift) as usize & ((1 << DIGIT_BITS) - 1)
        };
        let mut ends = [0; 1 << DIGIT_BITS];
        group.iter().for_each(|place| ends[part(self, *place)] += 1);
        sums_before(&mut ends);
        self.sorted.resize(start + group.len(), Place::default());
        for place in group {
            let at = &mut ends[part(self, *place)];
            self.sorted[start + *at as usize] = *place;
            *at += 1;
        }
        let ends = ends.map(|end| start + end as usize);
        self.sort_from(&ends, start, common);
    }

    /// How many bytes all keys of a group have in common, zeros thought behind their ends, and in which bits of the next eight
    /// some of them differ. All of it where they differ in nothing but such zeros.
    fn first_difference(&self, group: &[Place]) -> (usize, u64) {
        let longest = group.iter().map(|place| self.key(*place).len()).max();
        for common in (0..longest.unwrap_or_default()).step_by(8) {
            let first = self.beginning(group[0], common);
            let bits = group.iter().fold(0, |bits, place| {
                bits | (self.beginning(*place, common) ^ first)
            });
            if bits != 0 {
                let bytes = bits.leading_zeros() / 8;
                return (common + bytes as usize, bits << (8 * bytes));
            }
        }
        (0, 0)
    }

    /// Sorts the parts of `sorted` from `start` on that end at `ends`, and keeps of each key the last write.
    fn sort_from(&mut self, ends: &[usize], mut start: usize, common: usize) {
        let content = self.content;
        let key = |place: Place| content.at(place).0;
        let mut kept = start;
        for &end in ends {
            let mut part = std::mem::take(&mut self.room);
            let places = self.sorted[start..end].iter();
            part.extend(places.map(|place| (self.beginning(*place, common), *place)));
            part.sort_unstable();
            for same in part.chunk_by_mut(|a, b| a.0 == b.0) {
                if same.len() > 1 {
                    // Stable: of one key they stay in the order in which they came.
                    same.sort_by(|a, b| key(a.1).cmp(key(b.1)));
                }
                for at in 0..same.len() {
                    let place = same[at].1;
                    if same
                        .get(at + 1)
                        .is_none_or(|next| key(next.1) != key(place))
                    {
                        self.sorted[kept] = place;
                        kept += 1;
                    }
                }
            }
            part.clear();
            self.room = part;
            start = end;
        }
        self.sorted.truncate(kept);
    }
}

/// Puts the sum of those before it in the place of each number.
fn sums_before(counts: &mut [u32]) {
    let mut sum = 0;
    for count in counts {
        sum += std::mem::replace(count, sum);
    }
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
