//! Buckets: their kinds, options and limits.

use std::cell::{RefCell, RefMut};

use isomer_storage::{Order, PageLimit};
use isomer_value::limits::MAX_KEY_BYTES;
use rustc_hash::FxHashMap;

use crate::{DataError, footprint::Space};

/// Longest key of a map.
pub const MAX_BUCKET_KEY_BYTES: usize = MAX_KEY_BYTES;

/// Longest key, and longest value, where both are in one stored key: in multi-value and reversible buckets.
pub const MAX_PAIR_PART_BYTES: usize = 16 * 1024;

/// Longest value of a map that is not reversible.
pub const MAX_BUCKET_VALUE_BYTES: usize = 16 << 20;

/// The number of values that a bucket holds under a key. Closed: a third kind would need its own methods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BucketKind {
    /// One value.
    #[default]
    Map,
    /// Several values, each once, sorted by their bytes.
    Multi,
}

/// The options of a bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BucketOptions {
    /// The number of values under a key.
    pub kind: BucketKind,
    /// Whether the keys of a value can be looked up; maps only.
    pub reversible: bool,
}

impl BucketOptions {
    /// A bucket of a kind. Only a [`BucketKind::Map`] can be reversible; creating another such bucket is `Invalid`.
    pub const fn new(kind: BucketKind, reversible: bool) -> Self {
        Self { kind, reversible }
    }

    /// One value a key, and the keys of a value can be looked up.
    pub const fn reversible() -> Self {
        Self {
            kind: BucketKind::Map,
            reversible: true,
        }
    }

    /// Several values a key.
    pub const fn multi_value() -> Self {
        Self {
            kind: BucketKind::Multi,
            reversible: false,
        }
    }

    /// The definition as it is stored: kind, then whether reversible.
    #[doc(hidden)]
    pub fn encode(self) -> [u8; 2] {
        let kind = match self.kind {
            BucketKind::Map => 0,
            BucketKind::Multi => 1,
        };
        [kind, u8::from(self.reversible)]
    }

    #[doc(hidden)]
    pub fn decode(bytes: &[u8]) -> Result<Self, DataError> {
        let (kind, reversible) = match bytes {
            [0, 0] => (BucketKind::Map, false),
            [0, 1] => (BucketKind::Map, true),
            [1, 0] => (BucketKind::Multi, false),
            _ => {
                return Err(DataError::corrupt(
                    "the definition of a bucket is malformed",
                ));
            }
        };
        Ok(Self { kind, reversible })
    }
}

/// When an entry expires.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Expiry {
    /// Never.
    #[default]
    Never,
    /// At a time, in milliseconds since 1970 UTC.
    At(u64),
    /// This number of milliseconds after the transaction's timestamp.
    After(u64),
}

/// A bucket that exists, as a transaction sees it.
#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    pub id: u32,
    pub options: BucketOptions,
}

/// The buckets that a transaction has used.
#[derive(Debug, Default)]
pub struct KnownBuckets {
    pub(crate) options: FxHashMap<u32, Option<BucketOptions>>,
    /// The last bucket that was looked up: a loop over its keys asks the catalog for its number once.
    pub(crate) latest: Option<(Box<str>, Bucket)>,
}

impl KnownBuckets {
    pub(crate) fn latest(&self, name: &str) -> Option<Bucket> {
        let (known, bucket) = self.latest.as_ref()?;
        (**known == *name).then_some(*bucket)
    }

    /// The known state of the bucket of that name and number: `Some(None)` if it is known not to exist.
    pub(crate) fn look_up(&mut self, name: &str, id: u32) -> Option<Option<Bucket>> {
        let options = *self.options.get(&id)?;
        let bucket = options.map(|options| Bucket { id, options });
        if let Some(bucket) = bucket {
            self.latest = Some((name.into(), bucket));
        }
        Some(bucket)
    }

    pub(crate) fn note(&mut self, id: u32, options: Option<BucketOptions>) {
        self.options.insert(id, options);
        self.latest = None;
    }
}

/// The buckets as one transaction knows and changes them.
#[derive(Debug, Default)]
pub(crate) struct BucketState {
    /// Those that were looked up, by number; nothing for one that does not exist.
    known: RefCell<KnownBuckets>,
    /// Names of those that it dropped.
    dropped: Vec<String>,
    /// Whether it created, dropped or changed one.
    is_changed: bool,
    /// Buckets whose names begin with this are read-only.
    reserved: Option<&'static str>,
}

impl BucketState {
    /// For another transaction with the same reserved names.
    pub(crate) fn fork(&self) -> Self {
        Self {
            reserved: self.reserved,
            ..Self::default()
        }
    }

    pub(crate) fn known(&self) -> RefMut<'_, KnownBuckets> {
        self.known.borrow_mut()
    }

    pub(crate) fn is_changed(&self) -> bool {
        self.is_changed
    }

    pub(crate) fn note_changed(&mut self) {
        self.is_changed = true;
    }

    pub(crate) fn note_dropped(&mut self, name: &str) {
        self.dropped.push(name.to_owned());
    }

    /// Names of the buckets that were dropped.
    pub(crate) fn into_dropped(self) -> Vec<String> {
        self.dropped
    }

    pub(crate) fn reserve(&mut self, prefix: Option<&'static str>) {
        self.reserved = prefix;
    }

    /// Refuses a write to a bucket with a reserved name.
    pub(crate) fn check_not_reserved(&self, name: &str) -> Result<(), DataError> {
        match self.reserved.filter(|prefix| name.starts_with(prefix)) {
            None => Ok(()),
            Some(prefix) => Err(DataError::Denied(format!(
                "the bucket `{name}` is reserved, as are all names that begin with `{prefix}`: choose another name"
            ))),
        }
    }

    /// Forgets what rests on writes that are rolled back.
    pub(crate) fn roll_back(&mut self) {
        *self.known.get_mut() = KnownBuckets::default();
    }
}

impl Bucket {
    /// The space of its keys.
    pub(crate) fn space(self) -> Space {
        Space::Bucket(self.id)
    }
}

/// The error where an operation is for the other kind of bucket.
pub(crate) fn wrong_kind(name: &str, kind: BucketKind) -> DataError {
    DataError::invalid(match kind {
        BucketKind::Map => {
            format!(
                "bucket `{name}` holds one value a key: use put and get, or create a multi-value bucket"
            )
        }
        BucketKind::Multi => {
            format!("bucket `{name}` holds several values a key: use add, remove and values")
        }
    })
}

pub(crate) fn check_size(
    what: &str,
    size: usize,
    max: usize,
    advice: &'static str,
) -> Result<(), DataError> {
    if size <= max {
        return Ok(());
    }
    let (size, max) = (format!("{size} bytes"), format!("{max} bytes"));
    Err(DataError::Limit {
        what: what.into(),
        size,
        max,
        advice,
    })
}

/// Refuses keys that are empty or too long for `bucket`.
pub(crate) fn check_key(bucket: Bucket, key: &[u8]) -> Result<(), DataError> {
    if key.is_empty() {
        return Err(DataError::invalid(
            "the key is empty: a key of a bucket has at least one byte",
        ));
    }
    let max = if pairs_up(bucket.options) {
        MAX_PAIR_PART_BYTES
    } else {
        MAX_BUCKET_KEY_BYTES
    };
    check_size(
        "the key",
        key.len(),
        max,
        "shorten the key, or put a hash of it",
    )
}

/// Refuses values that are too long for `bucket`.
pub(crate) fn check_value(bucket: Bucket, value: &[u8]) -> Result<(), DataError> {
    if pairs_up(bucket.options) {
        let advice = "a multi-value or reversible bucket keeps values as keys: keep large ones in another bucket";
        return check_size("the value", value.len(), MAX_PAIR_PART_BYTES, advice);
    }
    check_size(
        "the value",
        value.len(),
        MAX_BUCKET_VALUE_BYTES,
        "store it in several parts",
    )
}

/// Whether key and value are in one stored key.
pub(crate) fn pairs_up(options: BucketOptions) -> bool {
    options.reversible || options.kind == BucketKind::Multi
}

/// Pages of internal scans.
pub(crate) const PAGE: PageLimit = PageLimit {
    keys: 1024,
    bytes: 1 << 20,
};

/// Everything that a scan observes: the results and the gaps between them.
pub(crate) fn observed<'a>(
    range: (&'a [u8], Option<&'a [u8]>),
    order: Order,
    rest: Option<(&'a [u8], Option<&'a [u8]>)>,
) -> (&'a [u8], Option<&'a [u8]>) {
    match (order, rest) {
        (_, None) => range,
        (Order::Ascending, Some((start, _))) => (range.0, Some(start)),
        (Order::Descending, Some((_, end))) => (end.unwrap_or(range.0), range.1),
    }
}
