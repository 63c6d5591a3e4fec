//! Ranges of keys.

use std::{
    borrow::Cow,
    ops::{
        Bound, Range, RangeBounds, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive,
    },
};

use isomer_data::{KeyRange, after_prefix};

/// A range of keys: every type of [`std::ops`] that is a [`RangeBounds`], such as `..`, `"a".."b"`, `b"a"..` or
/// `..=17`, and a pair of [`Bound`]s.
///
/// In contrast to [`RangeBounds`], `..` needs no type of keys.
pub trait KeyBounds {
    /// The type of its bounds.
    type Key;
    /// Its lower and its upper bound.
    fn into_bounds(self) -> (Bound<Self::Key>, Bound<Self::Key>);
}

impl KeyBounds for RangeFull {
    type Key = &'static str;

    fn into_bounds(self) -> (Bound<&'static str>, Bound<&'static str>) {
        (Bound::Unbounded, Bound::Unbounded)
    }
}

impl<K> KeyBounds for Range<K> {
    type Key = K;

    fn into_bounds(self) -> (Bound<K>, Bound<K>) {
        (Bound::Included(self.start), Bound::Excluded(self.end))
    }
}

impl<K> KeyBounds for RangeInclusive<K> {
    type Key = K;

    fn into_bounds(self) -> (Bound<K>, Bound<K>) {
        let (start, end) = self.into_inner();
        (Bound::Included(start), Bound::Included(end))
    }
}

impl<K> KeyBounds for RangeFrom<K> {
    type Key = K;

    fn into_bounds(self) -> (Bound<K>, Bound<K>) {
        (Bound::Included(self.start), Bound::Unbounded)
    }
}

impl<K> KeyBounds for RangeTo<K> {
    type Key = K;

    fn into_bounds(self) -> (Bound<K>, Bound<K>) {
        (Bound::Unbounded, Bound::Excluded(self.end))
    }
}

impl<K> KeyBounds for RangeToInclusive<K> {
    type Key = K;

    fn into_bounds(self) -> (Bound<K>, Bound<K>) {
        (Bound::Unbounded, Bound::Included(self.end))
    }
}

impl<K> KeyBounds for (Bound<K>, Bound<K>) {
    type Key = K;

    fn into_bounds(self) -> (Bound<K>, Bound<K>) {
        self
    }
}

/// A range of byte keys from `start` (inclusive) to `end` (exclusive; none for the end of the bucket). Borrows the
/// bounds where they have this form.
pub(crate) struct ByteRange<'k> {
    pub(crate) start: Cow<'k, [u8]>,
    pub(crate) end: Option<Cow<'k, [u8]>>,
}

impl<'k> ByteRange<'k> {
    pub(crate) fn new<K: AsRef<[u8]>>(bounds: &'k (Bound<K>, Bound<K>)) -> Self {
        let start = match &bounds.0 {
            Bound::Unbounded => Cow::Borrowed(&[][..]),
            Bound::Included(key) => Cow::Borrowed(key.as_ref()),
            Bound::Excluded(key) => Cow::Owned(after(key.as_ref())),
        };
        let end = match &bounds.1 {
            Bound::Unbounded => None,
            Bound::Excluded(key) => Some(Cow::Borrowed(key.as_ref())),
            Bound::Included(key) => Some(Cow::Owned(after(key.as_ref()))),
        };
        Self { start, end }
    }

    /// The keys that begin with `prefix`.
    pub(crate) fn prefix(prefix: &'k [u8]) -> Self {
        Self {
            start: Cow::Borrowed(prefix),
            end: after_prefix(prefix).map(Cow::Owned),
        }
    }

    pub(crate) fn keys(&self) -> KeyRange<'_> {
        KeyRange {
            start: &self.start,
            end: self.end.as_deref(),
        }
    }
}

/// The smallest key after `key`.
fn after(key: &[u8]) -> Vec<u8> {
    let mut next = Vec::with_capacity(key.len() + 1);
    next.extend_from_slice(key);
    next.push(0);
    next
}

/// The bounds of a range of typed keys, encoded.
pub(crate) fn encoded<K>(
    range: impl RangeBounds<K>,
    encode: impl Fn(&K) -> Vec<u8>,
) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    (
        range.start_bound().map(&encode),
        range.end_bound().map(&encode),
    )
}
