//! Deleted ranges, cut into fragments that do not overlap, so that one search tells what is erased at a key.

use std::sync::Arc;

use isomer_storage::Version;

use crate::Erasure;

/// An immutable set of erasures.
///
/// Shape: fragments ascend and do not overlap; each has the versions that erased it, descending. `n` erasures make at
/// most `2 n` fragments. Lookups cost O(log n), [`Erasures::with`] O(n) reference counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Erasures {
    fragments: Vec<Fragment>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Fragment {
    start: Arc<[u8]>,
    /// `None`: the end of the key space.
    end: Option<Arc<[u8]>>,
    /// Descending, distinct, never empty.
    versions: Arc<[Version]>,
}

/// What is erased around a key: the same for all keys from `from` up to (and without) `until`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span<'a> {
    /// The newest erasure that counts, 0 where there is none.
    pub version: Version,
    /// First key of the span; empty: the beginning of the key space.
    pub from: &'a [u8],
    /// First key after the span; `None`: the end of the key space.
    pub until: Option<&'a [u8]>,
}

impl Erasures {
    /// No erasures.
    pub fn new() -> Self {
        Self::default()
    }

    /// A set of all of `erasures`.
    pub fn of(erasures: impl IntoIterator<Item = Erasure>) -> Self {
        let mut sets: Vec<Self> = erasures
            .into_iter()
            .filter(|erasure| {
                erasure
                    .end
                    .as_ref()
                    .is_none_or(|end| erasure.start[..] < end[..])
            })
            .map(|erasure| Self {
                fragments: vec![Fragment {
                    start: erasure.start.into(),
                    end: erasure.end.map(Into::into),
                    versions: Arc::new([erasure.version]),
                }],
            })
            .collect();
        // By halves, so that each erasure is merged O(log n) times.
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

    /// This set and one erasure more.
    pub fn with(&self, erasure: Erasure) -> Self {
        self.union(&Self::of([erasure]))
    }

    /// What is in either set.
    pub fn union(&self, other: &Self) -> Self {
        if self.is_empty() {
            return other.clone();
        }
        if other.is_empty() {
            return self.clone();
        }
        let mut out = Vec::with_capacity(self.fragments.len() + other.fragments.len());
        let (mut left, mut right) = (
            self.fragments.iter().cloned().peekable(),
            other.fragments.iter().cloned().peekable(),
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
            // What lies before the other's start stands alone; behind that both start at the same key.
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
        Self { fragments: out }.joined()
    }

    /// What lies within `from` (inclusive) and `until` (exclusive; `None`: the end).
    pub fn clipped(&self, from: &[u8], until: Option<&[u8]>) -> Self {
        let mut fragments = Vec::new();
        for fragment in &self.fragments {
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
        Self { fragments }
    }

    /// Only the erasures whose versions `keep`.
    pub fn retained(&self, keep: impl Fn(Version) -> bool) -> Self {
        let fragments = self
            .fragments
            .iter()
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
        Self { fragments }.joined()
    }

    /// Whether nothing is erased.
    pub fn is_empty(&self) -> bool {
        self.fragments.is_empty()
    }

    /// Number of fragments.
    pub fn fragment_count(&self) -> usize {
        self.fragments.len()
    }

    /// About how many bytes of memory it takes.
    pub fn bytes(&self) -> usize {
        self.fragments
            .iter()
            .map(|fragment| {
                size_of::<Fragment>()
                    + fragment.start.len()
                    + fragment.end.as_ref().map_or(0, |end| end.len())
                    + size_of_val(&*fragment.versions)
            })
            .sum()
    }

    /// The newest erasure that covers `key` and is no younger than `at`; 0 where there is none.
    #[inline]
    pub fn newest_covering(&self, key: &[u8], at: Version) -> Version {
        if self.fragments.is_empty() {
            return 0;
        }
        self.span(key, at).version
    }

    /// The oldest erasure that covers `key` and is younger than `version`.
    pub fn oldest_after(&self, key: &[u8], version: Version) -> Option<Version> {
        let fragment = self.covering(key)?;
        let younger = fragment.versions.partition_point(|v| *v > version);
        younger.checked_sub(1).map(|at| fragment.versions[at])
    }

    /// What a reader at `at` finds erased at `key`, and how far that holds.
    pub fn span(&self, key: &[u8], at: Version) -> Span<'_> {
        let after = self.fragments.partition_point(|f| *f.start <= *key);
        let Some(index) = after.checked_sub(1) else {
            return Span {
                version: 0,
                from: &[],
                until: self.fragments.first().map(|f| &*f.start),
            };
        };
        let fragment = &self.fragments[index];
        match &fragment.end {
            Some(end) if **end <= *key => Span {
                version: 0,
                from: end,
                until: self.fragments.get(after).map(|f| &*f.start),
            },
            end => Span {
                version: fragment
                    .versions
                    .iter()
                    .copied()
                    .find(|version| *version <= at)
                    .unwrap_or(0),
                from: &fragment.start,
                until: end.as_deref(),
            },
        }
    }

    /// The versions that erased all keys from `from` up to `until`, as one fragment; none where it is not all erased
    /// by the same.
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
        self.fragments
            .iter()
            .map(|f| (&*f.start, f.end.as_deref(), &*f.versions))
    }

    fn covering(&self, key: &[u8]) -> Option<&Fragment> {
        let after = self.fragments.partition_point(|f| *f.start <= *key);
        let fragment = &self.fragments[after.checked_sub(1)?];
        fragment
            .end
            .as_ref()
            .is_none_or(|end| **end > *key)
            .then_some(fragment)
    }

    /// Neighbours that touch and were erased by the same are one.
    fn joined(mut self) -> Self {
        self.fragments.dedup_by(|next, before| {
            let same = before.end.as_ref() == Some(&next.start) && before.versions == next.versions;
            if same {
                before.end = next.end.take();
            }
            same
        });
        self
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

    fn erasure(start: u8, end: Option<u8>, version: Version) -> Erasure {
        Erasure {
            start: Box::new([start]),
            end: end.map(|end| Box::from([end])),
            version,
        }
    }

    /// Against a list that is searched from front to back.
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
            let list: Vec<Erasure> = (0..random(12))
                .map(|_| {
                    let start = random(20) as u8;
                    let end = (random(5) != 0).then(|| (start as u64 + random(8)) as u8);
                    erasure(start, end, 1 + random(9))
                })
                .collect();
            let at_once = Erasures::of(list.clone());
            let one_by_one = list
                .iter()
                .fold(Erasures::new(), |all, one| all.with(one.clone()));
            assert_eq!(at_once, one_by_one, "seed {seed}");
            let (low, high) = (random(20) as u8, random(25) as u8);
            let clipped = at_once.clipped(&[low], Some(&[high]));
            for key in 0..30_u8 {
                for at in 0..12 {
                    let covers = |one: &&Erasure| {
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

    #[test]
    fn touching_fragments_of_the_same_commits_are_one() {
        let set = Erasures::of([erasure(1, Some(3), 5), erasure(3, Some(9), 5)]);
        assert_eq!(set.fragment_count(), 1);
        assert_eq!(set.covering_range(&[2], Some(&[9])), [5]);
        assert!(set.covering_range(&[2], None).is_empty());
        assert!(set.retained(|version| version > 5).is_empty());
    }
}
