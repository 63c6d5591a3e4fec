//! Buckets as a transaction knows them, and the checks of their keys and values.

use std::cell::{RefCell, RefMut};

use isomer_layout::{
    DataError,
    kv::options::{
        BucketKind, BucketOptions, MAX_BUCKET_KEY_BYTES, MAX_BUCKET_VALUE_BYTES,
        MAX_PAIR_PART_BYTES,
    },
};
use isomer_storage::{Order, PageLimit};
use rustc_hash::FxHashMap;

use crate::footprint::Space;

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

    /// The prefix of the reserved names.
    pub(crate) fn reserved(&self) -> Option<&'static str> {
        self.reserved
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
