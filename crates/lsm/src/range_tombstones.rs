//! Range tombstones, split into fragments that do not overlap, so that one search finds those of a key.

use std::sync::Arc;

use isomer_storage::Version;

use crate::RangeTombstone;

/// Largest number of fragments in a chunk.
const CHUNK: usize = 64;

/// An immutable set of range tombstones.
///
/// Shape: fragments ascend and do not overlap; each has the versions of the tombstones that cover it,
/// descending. `n` range tombstones make at most `2 n` fragments. They are stored in chunks that sets share: a
/// lookup costs O(log n), [`RangeTombstones::with`] copies the chunks that the new tombstone touches and shares the
/// others, at one reference count per [`CHUNK`] fragments.
#[derive(Clone, Debug, Default)]
pub struct RangeTombstones {
    chunks: Vec<Arc<Chunk>>,
}

#[derive(Debug)]
struct Chunk {
    /// Never empty.
    fragments: Box<[Fragment]>,
    bytes: usize,
}

/// A position in a set: index of the chunk, and of the fragment in it.
type At = (usize, usize);

impl PartialEq for RangeTombstones {
    fn eq(&self, other: &Self) -> bool {
        self.fragments().eq(other.fragments())
    }
}

impl Eq for RangeTombstones {}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Fragment {
    start: Arc<[u8]>,
    /// `None`: the end of the key space.
    end: Option<Arc<[u8]>>,
    /// Descending, distinct, never empty.
    versions: Arc<[Version]>,
}

/// Range tombstones at a key: the same for all keys from `from` up to (and without) `until`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TombstoneSpan<'a> {
    /// Version of the newest visible range tombstone, 0 if there is none.
    pub version: Version,
    /// First key of the span; empty: the beginning of the key space.
    pub from: &'a [u8],
    /// First key after the span; `None`: the end of the key space.
    pub until: Option<&'a [u8]>,
}

impl RangeTombstones {
    /// An empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// A set of all of `range_tombstones`.
    pub fn of(range_tombstones: impl IntoIterator<Item = RangeTombstone>) -> Self {
        let sets = range_tombstones
            .into_iter()
            .filter(|range_tombstone| {
                range_tombstone
                    .end
                    .as_ref()
                    .is_none_or(|end| range_tombstone.start[..] < end[..])
            })
            .map(|range_tombstone| Self::made_of(vec![Fragment::of(range_tombstone)]));
        Self::union_of(sets.collect())
    }

    /// The union of the sets. Divide and conquer, so that each tombstone is merged O(log n) times.
    pub fn union_of(mut sets: Vec<Self>) -> Self {
        while sets.len() > 1 {
            sets = sets
                .chunks(2)
                .map(|pair| match pair {
                    [one, other] => one.union(other),
                    _ => pair[0].clone(),
                })
                .collect();
        }
        sets.pop().unwrap_or_default()
    }

    /// A set of fragments that ascend and do not overlap. Adjacent ones with the same versions are joined.
    fn made_of(mut fragments: Vec<Fragment>) -> Self {
        fragments.dedup_by(|next, before| {
            let same = before.end.as_ref() == Some(&next.start) && before.versions == next.versions;
            if same {
                before.end = next.end.take();
            }
            same
        });
        let count = fragments.len().div_ceil(CHUNK);
        // Of about equal size, so that no chunk is full while its neighbour is nearly empty.
        let len = fragments.len().div_ceil(count.max(1));
        let mut chunks = Vec::with_capacity(count);
        let mut rest = fragments.into_iter();
        loop {
            let fragments: Box<[Fragment]> = rest.by_ref().take(len).collect();
            if fragments.is_empty() {
                return Self { chunks };
            }
            let bytes = fragments.iter().map(Fragment::bytes).sum();
            chunks.push(Arc::new(Chunk { fragments, bytes }));
        }
    }

    /// This set and one range tombstone more.
    pub fn with(&self, range_tombstone: RangeTombstone) -> Self {
        let RangeTombstone { start, end, .. } = &range_tombstone;
        if end.as_ref().is_some_and(|end| end <= start) {
            return self.clone();
        }
        // The chunks that it may touch, with a neighbour on either side, as those may be joined with the new
        // fragments.
        let begins_before = |key: &[u8]| {
            let before = |chunk: &Arc<Chunk>| *chunk.fragments[0].start <= *key;
            self.chunks.partition_point(before)
        };
        let first = begins_before(start).saturating_sub(1);
        let first = match self.chunks.get(first) {
            Some(chunk) if *chunk.fragments[0].start >= **start => first.saturating_sub(1),
            _ => first,
        };
        let after = end
            .as_ref()
            .map_or(self.chunks.len(), |end| begins_before(end));
        let part = Self {
            chunks: self.chunks[first..after.max(first)].to_vec(),
        };
        let made = part.union(&Self::made_of(vec![Fragment::of(range_tombstone)]));
        let mut chunks = Vec::with_capacity(self.chunks.len() + 2);
        chunks.extend_from_slice(&self.chunks[..first]);
        chunks.extend(made.chunks);
        chunks.extend_from_slice(&self.chunks[after.max(first)..]);
        Self { chunks }
    }

    fn fragments(&self) -> impl Iterator<Item = &Fragment> {
        self.chunks.iter().flat_map(|chunk| &*chunk.fragments)
    }

    /// The last fragment that begins at or before `key`.
    #[inline]
    fn last_from(&self, key: &[u8]) -> Option<At> {
        let chunk = self
            .chunks
            .partition_point(|chunk| *chunk.fragments[0].start <= *key)
            .checked_sub(1)?;
        let fragments = &self.chunks[chunk].fragments;
        let at = fragments.partition_point(|fragment| *fragment.start <= *key);
        Some((chunk, at - 1))
    }

    /// The next fragment.
    fn behind(&self, (chunk, at): At) -> Option<&Fragment> {
        let next = self.chunks[chunk].fragments.get(at + 1);
        next.or_else(|| Some(&self.chunks.get(chunk + 1)?.fragments[0]))
    }

    fn fragment(&self, (chunk, at): At) -> &Fragment {
        &self.chunks[chunk].fragments[at]
    }

    /// The union of two sets.
    pub fn union(&self, other: &Self) -> Self {
        if self.is_empty() {
            return other.clone();
        }
        if other.is_empty() {
            return self.clone();
        }
        let mut out = Vec::with_capacity(self.fragment_count() + other.fragment_count());
        let (mut left, mut right) = (
            self.fragments().cloned().peekable(),
            other.fragments().cloned().peekable(),
        );
        loop {
            let (one, two) = match (left.peek_mut(), right.peek_mut()) {
                (Some(one), Some(two)) => (one, two),
                (None, _) => {
                    out.extend(right);
                    break;
                }
                (_, None) => {
                    out.extend(left);
                    break;
                }
            };
            // The part before the other's start is kept alone; after that both start at the same key.
            if one.start != two.start {
                let (first, second, first_iter_is_left) = if one.start < two.start {
                    (one, two, true)
                } else {
                    (two, one, false)
                };
                let ends_before = first.end.as_ref().is_some_and(|end| **end <= *second.start);
                if ends_before {
                    let whole = if first_iter_is_left {
                        left.next()
                    } else {
                        right.next()
                    };
                    out.extend(whole);
                } else {
                    let mut head = first.clone();
                    head.end = Some(second.start.clone());
                    first.start = second.start.clone();
                    out.push(head);
                }
                continue;
            }
            let versions = merged(&one.versions, &two.versions);
            let (end, one_done, two_done) = match (&one.end, &two.end) {
                (None, None) => (None, true, true),
                (Some(end), None) => (Some(end.clone()), true, false),
                (None, Some(end)) => (Some(end.clone()), false, true),
                (Some(a), Some(b)) => (Some(a.min(b).clone()), a <= b, b <= a),
            };
            out.push(Fragment {
                start: one.start.clone(),
                end: end.clone(),
                versions,
            });
            if let Some(end) = end {
                if !one_done {
                    one.start = end.clone();
                }
                if !two_done {
                    two.start = end;
                }
            }
            if one_done {
                left.next();
            }
            if two_done {
                right.next();
            }
        }
        Self::made_of(out)
    }

    /// The part within `from` (inclusive) and `until` (exclusive; `None`: the end).
    pub fn clipped(&self, from: &[u8], until: Option<&[u8]>) -> Self {
        let first = self.last_from(from).map_or(0, |(chunk, _)| chunk);
        let candidates = self.chunks[first..]
            .iter()
            .take_while(|chunk| until.is_none_or(|until| *chunk.fragments[0].start < *until));
        let mut fragments = Vec::new();
        for fragment in candidates.flat_map(|chunk| &*chunk.fragments) {
            if until.is_some_and(|until| *fragment.start >= *until) {
                break;
            }
            if fragment.end.as_ref().is_some_and(|end| **end <= *from) {
                continue;
            }
            let mut fragment = fragment.clone();
            if *fragment.start < *from {
                fragment.start = from.into();
            }
            if let Some(until) = until
                && fragment.end.as_ref().is_none_or(|end| **end > *until)
            {
                fragment.end = Some(until.into());
            }
            fragments.push(fragment);
        }
        Self::made_of(fragments)
    }

    /// Only the range tombstones whose versions satisfy `keep`.
    pub fn retained(&self, keep: impl Fn(Version) -> bool) -> Self {
        let fragments = self
            .fragments()
            .filter_map(|fragment| {
                let versions: Arc<[Version]> = fragment
                    .versions
                    .iter()
                    .copied()
                    .filter(|version| keep(*version))
                    .collect();
                (!versions.is_empty()).then(|| Fragment {
                    versions,
                    ..fragment.clone()
                })
            })
            .collect();
        Self::made_of(fragments)
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Number of fragments.
    pub fn fragment_count(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.fragments.len()).sum()
    }

    /// Approximate bytes of memory.
    pub fn bytes(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.bytes).sum()
    }

    /// Version of the newest range tombstone that covers `key` and is visible at `at`; 0 if there is none.
    #[inline]
    pub fn newest_covering(&self, key: &[u8], at: Version) -> Version {
        if self.chunks.is_empty() {
            return 0;
        }
        self.span(key, at).version
    }

    /// Version of the oldest range tombstone that covers `key` and is newer than `version`.
    pub fn oldest_after(&self, key: &[u8], version: Version) -> Option<Version> {
        let fragment = self.covering(key)?;
        let younger = fragment.versions.partition_point(|v| *v > version);
        younger.checked_sub(1).map(|at| fragment.versions[at])
    }

    /// The newest range tombstone at `key` for a reader at `at_most`, and the range for which that holds.
    pub fn span(&self, key: &[u8], at_most: Version) -> TombstoneSpan<'_> {
        let Some(at) = self.last_from(key) else {
            return TombstoneSpan {
                version: 0,
                from: &[],
                until: self.chunks.first().map(|chunk| &*chunk.fragments[0].start),
            };
        };
        let fragment = self.fragment(at);
        match &fragment.end {
            Some(end) if **end <= *key => TombstoneSpan {
                version: 0,
                from: end,
                until: self.behind(at).map(|fragment| &*fragment.start),
            },
            end => {
                let younger = fragment
                    .versions
                    .partition_point(|version| *version > at_most);
                TombstoneSpan {
                    version: fragment.versions.get(younger).copied().unwrap_or(0),
                    from: &fragment.start,
                    until: end.as_deref(),
                }
            }
        }
    }

    /// The versions of range tombstones that cover all keys from `from` up to `until` in one fragment; empty if
    /// there is no such fragment.
    pub fn covering_range(&self, from: &[u8], until: Option<&[u8]>) -> &[Version] {
        match self.covering(from) {
            Some(fragment)
                if match (&fragment.end, until) {
                    (None, _) => true,
                    (Some(_), None) => false,
                    (Some(end), Some(until)) => **end >= *until,
                } =>
            {
                &fragment.versions
            }
            _ => &[],
        }
    }

    /// The fragments: start, end, versions.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>, &[Version])> {
        self.fragments()
            .map(|f| (&*f.start, f.end.as_deref(), &*f.versions))
    }

    fn covering(&self, key: &[u8]) -> Option<&Fragment> {
        let fragment = self.fragment(self.last_from(key)?);
        fragment
            .end
            .as_ref()
            .is_none_or(|end| **end > *key)
            .then_some(fragment)
    }
}

impl Fragment {
    fn of(range_tombstone: RangeTombstone) -> Self {
        Self {
            start: range_tombstone.start.into(),
            end: range_tombstone.end.map(Into::into),
            versions: Arc::new([range_tombstone.version]),
        }
    }

    fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.start.len()
            + self.end.as_ref().map_or(0, |end| end.len())
            + size_of_val(&*self.versions)
    }
}

fn merged(one: &[Version], other: &[Version]) -> Arc<[Version]> {
    let mut all: Vec<Version> = one.iter().chain(other).copied().collect();
    all.sort_unstable_by(|a, b| b.cmp(a));
    all.dedup();
    all.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range_tombstone(start: u8, end: Option<u8>, version: Version) -> RangeTombstone {
        RangeTombstone {
            start: Box::new([start]),
            end: end.map(|end| Box::from([end])),
            version,
        }
    }

    /// Compared with a list that is searched from front to back.
    #[test]
    fn fragments_answer_as_a_list_does() {
        for seed in 0..400_u64 {
            let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            let mut random = |below: u64| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                (state >> 11) % below
            };
            let list: Vec<RangeTombstone> = (0..random(12))
                .map(|_| {
                    let start = random(20) as u8;
                    let end = (random(5) != 0).then(|| (start as u64 + random(8)) as u8);
                    range_tombstone(start, end, 1 + random(9))
                })
                .collect();
            let at_once = RangeTombstones::of(list.clone());
            let one_by_one = list
                .iter()
                .fold(RangeTombstones::new(), |all, one| all.with(one.clone()));
            assert_eq!(at_once, one_by_one, "seed {seed}");
            assert_eq!(at_once.iter().count(), one_by_one.fragment_count());
            let (low, high) = (random(20) as u8, random(25) as u8);
            let clipped = at_once.clipped(&[low], Some(&[high]));
            for key in 0..30_u8 {
                for at in 0..12 {
                    let covers = |one: &&RangeTombstone| {
                        *one.start <= [key][..]
                            && one.end.as_ref().is_none_or(|end| **end > [key][..])
                    };
                    let expected = list
                        .iter()
                        .filter(covers)
                        .map(|one| one.version)
                        .filter(|version| *version <= at)
                        .max()
                        .unwrap_or(0);
                    assert_eq!(at_once.newest_covering(&[key], at), expected);
                    let within = (low..high).contains(&key);
                    let clipped = clipped.newest_covering(&[key], at);
                    assert_eq!(clipped, if within { expected } else { 0 });
                    let younger = list
                        .iter()
                        .filter(covers)
                        .map(|one| one.version)
                        .filter(|version| *version > at)
                        .min();
                    assert_eq!(at_once.oldest_after(&[key], at), younger);
                    let span = at_once.span(&[key], at);
                    assert!(*span.from <= [key][..] && span.until.is_none_or(|u| [key][..] < *u));
                    for other in 0..30_u8 {
                        let inside = *span.from <= [other][..]
                            && span.until.is_none_or(|until| [other][..] < *until);
                        if inside {
                            assert_eq!(at_once.newest_covering(&[other], at), span.version);
                        }
                    }
                }
            }
        }
    }

    /// As above with enough that they fill many chunks, added one by one.
    #[test]
    fn many_fragments_answer_as_a_list_does() {
        for seed in 1..12_u64 {
            let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mut random = |below: u64| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                (state >> 11) % below
            };
            let key = |number: u64| Box::from((number as u16).to_be_bytes());
            let (mut set, mut list) = (RangeTombstones::new(), Vec::new());
            for version in 1..=1500 {
                let start = random(8000);
                let length = if random(100) == 0 { 900 } else { random(6) };
                let end = (random(400) != 0).then(|| key(start + length));
                let one = RangeTombstone {
                    start: key(start),
                    end,
                    version: 1 + version / (1 + random(3)),
                };
                set = set.with(one.clone());
                list.push(one);
            }
            assert_eq!(set, RangeTombstones::of(list.clone()), "seed {seed}");
            assert!(set.fragment_count() > 4 * CHUNK);
            let bytes: usize = set.fragments().map(Fragment::bytes).sum();
            assert_eq!(set.bytes(), bytes);
            let (low, high) = (key(random(8000)), key(random(9000)));
            let clipped = set.clipped(&low, Some(&high));
            for number in (0..8100).step_by(7) {
                let (key, at) = (key(number), random(1600));
                let covers = |one: &&RangeTombstone| {
                    one.start <= key && one.end.as_ref().is_none_or(|end| *end > key)
                };
                let versions = list.iter().filter(covers).map(|one| one.version);
                let expected = versions.filter(|version| *version <= at).max().unwrap_or(0);
                assert_eq!(set.newest_covering(&key, at), expected, "seed {seed}");
                let within = low <= key && key < high;
                let clipped = clipped.newest_covering(&key, at);
                assert_eq!(clipped, if within { expected } else { 0 }, "seed {seed}");
                let span = set.span(&key, at);
                assert_eq!(span.version, expected);
                assert!(*span.from <= *key && span.until.is_none_or(|until| *key < *until));
            }
        }
    }

    #[test]
    fn touching_fragments_of_the_same_commits_are_one() {
        let set = RangeTombstones::of([
            range_tombstone(1, Some(3), 5),
            range_tombstone(3, Some(9), 5),
        ]);
        assert_eq!(set.fragment_count(), 1);
        assert_eq!(set.covering_range(&[2], Some(&[9])), [5]);
        assert!(set.covering_range(&[2], None).is_empty());
        assert!(set.retained(|version| version > 5).is_empty());
    }
}
