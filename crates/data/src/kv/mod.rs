//! Buckets: ordered maps from bytes to bytes.
//!
//! A bucket holds one value a key ([`BucketKind::Map`]) or several, sorted ([`BucketKind::Multi`]). A map may be
//! *reversible*: it is then indexed by value, too, in the same transaction. A map's entries may expire: they are
//! invisible from that moment on, and deleted later by a sweep. Every bucket also has named sequences.
//!
//! A bucket is created explicitly, or as a plain map by the first write to it. Reading a bucket that does not exist
//! finds nothing.
//!
//! **Isolation.** A transaction that reads a key, a range or the keys of a value conflicts with a concurrent change of
//! it; a transaction that only puts or deletes without reading conflicts with readers alone, so two blind puts of one
//! key both commit, the later one last. In a reversible bucket every change reads what it replaces.
//!
//! **Limits.** Keys have 1 byte to 32 KiB, 16 KiB in multi-value and reversible buckets, as the values there; other
//! values have up to 16 MiB.
//!
//! **Entries.** The stored value of a map's entry is one byte (bit 0: it expires; bits 1 and 2: 0 bytes, 1 text, 2 a
//! typed value), the time in ms (`u64`, big endian) if it expires, then the value. For typed values see
//! [`Transaction::kv_put_value`].

mod bucket_cache;
mod check;
mod cursor;
mod entries;
mod key;
mod multi;
mod reverse;
mod scan;
mod sequence;
mod sweep;
mod values;
mod watch;

use std::sync::Arc;

use isomer_storage::{KeyRange, PageLimit};
use isomer_value::limits::MAX_KEY_BYTES;
use rustc_hash::FxHashMap;

pub(crate) use bucket_cache::BucketCache;
pub use cursor::{BucketCursor, BytePair};
pub use entries::Content;
pub(crate) use entries::encode_entry;
pub use key::{BucketKey, FromBucketKey, decode_key, encode_key};
pub use scan::KvCursor;
pub(crate) use sequence::Sequences;
pub use sweep::Sweeper;
pub(crate) use watch::Signals;
pub use watch::{KvChange, KvChangeKind, Watch, Watched, Watcher};

use crate::{
    DataError, Order, Transaction,
    catalog::NameKind,
    footprint::Space,
    keyspace::{self, after_prefix},
    read::each_pair,
    stream::Change,
};

/// Longest key of a map.
pub const MAX_BUCKET_KEY_BYTES: usize = MAX_KEY_BYTES;
/// Longest key, and longest value, where both are in one stored key: in multi-value and reversible buckets.
pub const MAX_PAIR_PART_BYTES: usize = 16 * 1024;
/// Longest value of a map that is not reversible.
pub const MAX_BUCKET_VALUE_BYTES: usize = 16 << 20;

/// The number of values that a bucket holds under a key.
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
pub struct BucketOptions {
    /// The number of values under a key.
    pub kind: BucketKind,
    /// Whether the keys of a value can be looked up; maps only.
    pub reversible: bool,
}

impl BucketOptions {
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
    pub(crate) fn encode(self) -> [u8; 2] {
        let kind = match self.kind {
            BucketKind::Map => 0,
            BucketKind::Multi => 1,
        };
        [kind, u8::from(self.reversible)]
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, DataError> {
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
pub(crate) struct Bucket {
    pub(crate) id: u32,
    pub(crate) options: BucketOptions,
}

/// The buckets that a transaction has used.
#[derive(Debug, Default)]
pub(crate) struct KnownBuckets {
    options: FxHashMap<u32, Option<BucketOptions>>,
    /// The last bucket that was looked up: a loop over its keys asks the catalog for its number once.
    latest: Option<(Box<str>, Bucket)>,
}

impl KnownBuckets {
    fn latest(&self, name: &str) -> Option<Bucket> {
        let (known, bucket) = self.latest.as_ref()?;
        (**known == *name).then_some(*bucket)
    }

    /// The known state of the bucket of that name and number: `Some(None)` if it is known not to exist.
    fn look_up(&mut self, name: &str, id: u32) -> Option<Option<Bucket>> {
        let options = *self.options.get(&id)?;
        let bucket = options.map(|options| Bucket { id, options });
        if let Some(bucket) = bucket {
            self.latest = Some((name.into(), bucket));
        }
        Some(bucket)
    }

    fn note(&mut self, id: u32, options: Option<BucketOptions>) {
        self.options.insert(id, options);
        self.latest = None;
    }
}

impl Bucket {
    /// The space of its keys.
    fn space(self) -> Space {
        Space::Bucket(self.id)
    }
}

impl Transaction {
    /// Creates a bucket.
    ///
    /// # Errors
    /// [`DataError::NameExists`] if it exists; [`DataError::Invalid`] for a multi-value bucket that is reversible.
    pub fn create_bucket(&mut self, name: &str, options: BucketOptions) -> Result<(), DataError> {
        self.check_bucket_writable(name)?;
        if options.kind == BucketKind::Multi && options.reversible {
            return Err(DataError::invalid(
                "a multi-value bucket cannot be reversible: keep a second bucket from value to key",
            ));
        }
        if self.bucket(name)?.is_some() {
            return Err(DataError::NameExists {
                what: "bucket",
                name: name.to_owned(),
            });
        }
        self.define(name, options).map(drop)
    }

    /// Drops a bucket with its content, sequences included; returns whether it existed.
    pub fn drop_bucket(&mut self, name: &str) -> Result<bool, DataError> {
        self.check_bucket_writable(name)?;
        let Some(bucket) = self.bucket(name)? else {
            return Ok(false);
        };
        if self.is_replicated() && self.has_bucket(bucket.id) {
            self.store_bucket_cells(bucket.id)?;
        }
        // In a replica there may be shadowed entries of the other kind, too: they stay, and become visible.
        let kept = match bucket.options.kind {
            BucketKind::Map => keyspace::bucket_pairs(bucket.id),
            BucketKind::Multi => keyspace::bucket_entry(bucket.id, b""),
        };
        let prefixes = keyspace::bucket_prefixes(bucket.id);
        for prefix in prefixes.into_iter().filter(|prefix| *prefix != kept) {
            let end = after_prefix(&prefix);
            self.write(prefix.len(), |tx| {
                tx.delete_range(KeyRange {
                    start: &prefix,
                    end: end.as_deref(),
                })
            })?;
        }
        self.change_bucket(name);
        let footprint = self.footprint_mut();
        for space in [
            Space::Bucket(bucket.id),
            Space::Reverse(bucket.id),
            Space::Sequences(bucket.id),
        ] {
            footprint.change_space(space);
        }
        self.log(&Change::BucketDropped { bucket: bucket.id });
        self.known_buckets().note(bucket.id, None);
        self.note_dropped_bucket(name);
        Ok(true)
    }

    /// The options of a bucket; none where it does not exist.
    pub fn bucket_options(&self, name: &str) -> Result<Option<BucketOptions>, DataError> {
        Ok(self.bucket(name)?.map(|bucket| bucket.options))
    }

    /// All buckets, by name.
    pub fn list_buckets(&self) -> Result<Vec<(Arc<str>, BucketOptions)>, DataError> {
        self.footprint().read_range(Space::Buckets, b"", None);
        let names = self.catalog_ref().clone();
        let mut buckets = Vec::new();
        each_pair(self.read(), &[keyspace::TAG_BUCKET], |key, value| {
            let id = keyspace::sole_id(&key[1..], "the number of a bucket")?;
            let name = u32::try_from(id).ok().and_then(|id| names.bucket_name(id));
            let name =
                name.ok_or_else(|| DataError::corrupt(format!("bucket number {id} has no name")))?;
            buckets.push((name, BucketOptions::decode(value)?));
            Ok(())
        })?;
        buckets.sort_by(|(one, _), (two, _)| one.cmp(two));
        Ok(buckets)
    }

    /// The bucket of that name, where it exists in this transaction.
    pub(crate) fn bucket(&self, name: &str) -> Result<Option<Bucket>, DataError> {
        // A known state was observed when it was read.
        if let Some(bucket) = self.known_buckets().latest(name) {
            return Ok(Some(bucket));
        }
        if let Some(id) = self.catalog_ref().bucket_id(name)
            && let Some(known) = self.known_buckets().look_up(name, id)
        {
            return Ok(known);
        }
        self.footprint().read_key(Space::Buckets, name.as_bytes());
        let Some(id) = self.catalog_ref().bucket_id(name) else {
            return Ok(None);
        };
        let options = match self.bucket_cache() {
            None => self.stored_options(id)?,
            Some(cache) => {
                let version = self.read().version();
                match cache.get(id, version) {
                    Some(known) => known,
                    None => {
                        let stored = self.stored_options(id)?;
                        cache.insert(id, stored, version);
                        stored
                    }
                }
            }
        };
        self.known_buckets().note(id, options);
        Ok(options.map(|options| Bucket { id, options }))
    }

    fn stored_options(&self, id: u32) -> Result<Option<BucketOptions>, DataError> {
        let stored = self.read().get(&keyspace::bucket(id))?;
        stored
            .map(|stored| BucketOptions::decode(&stored))
            .transpose()
    }

    /// Declares that it creates, drops or changes a bucket.
    pub(crate) fn change_bucket(&mut self, name: &str) {
        self.note_changed_bucket();
        self.footprint_mut()
            .change_key(Space::Buckets, name.as_bytes(), true);
    }

    /// The bucket to write to; a plain map is created where it does not exist.
    fn bucket_to_write(&mut self, name: &str) -> Result<Bucket, DataError> {
        self.check_bucket_writable(name)?;
        match self.bucket(name)? {
            Some(bucket) => Ok(bucket),
            None => self.define(name, BucketOptions::default()),
        }
    }

    fn define(&mut self, name: &str, options: BucketOptions) -> Result<Bucket, DataError> {
        if name.is_empty() {
            return Err(DataError::invalid(
                "the name of a bucket is empty: give it a name",
            ));
        }
        let id = self.intern(NameKind::Bucket, name)?;
        self.put(&keyspace::bucket(id), &options.encode())?;
        self.change_bucket(name);
        self.log(&Change::BucketCreated {
            bucket: id,
            multi: options.kind == BucketKind::Multi,
            reversible: options.reversible,
        });
        self.known_buckets().note(id, Some(options));
        Ok(Bucket { id, options })
    }
}

/// For replication: buckets by their numbers.
impl Transaction {
    /// The name of a bucket.
    pub(crate) fn bucket_name(&self, bucket: u32) -> Result<Arc<str>, DataError> {
        let name = self.catalog_ref().bucket_name(bucket);
        name.ok_or_else(|| DataError::corrupt(format!("bucket number {bucket} has no name")))
    }

    /// Sets the options of a bucket, whatever its content is; a missing bucket is created. Reverse entries are added or
    /// removed accordingly.
    pub(crate) fn redefine_bucket(
        &mut self,
        bucket: u32,
        options: Option<BucketOptions>,
    ) -> Result<(), DataError> {
        let name = self.bucket_name(bucket)?;
        let before = self.bucket(&name)?.map(|found| found.options);
        let Some(options) = options.filter(|_| before != options) else {
            return Ok(());
        };
        let was_reversible = before.is_some_and(|before| before.reversible);
        if was_reversible {
            let start = keyspace::bucket_reverses(bucket);
            let end = after_prefix(&start);
            self.write(start.len(), |tx| {
                tx.delete_range(KeyRange {
                    start: &start,
                    end: end.as_deref(),
                })
            })?;
            self.footprint_mut().change_space(Space::Reverse(bucket));
        }
        let bucket = self.define(&name, options)?;
        if options.reversible {
            self.make_reverses(bucket)?;
        }
        Ok(())
    }

    /// Adds or deletes a value of a key, whatever kind the bucket is read as.
    pub(crate) fn replace_pair(
        &mut self,
        bucket: u32,
        key: &[u8],
        value: &[u8],
        is_there: bool,
    ) -> Result<(), DataError> {
        let options = BucketOptions {
            kind: BucketKind::Multi,
            reversible: false,
        };
        self.set_pair(
            Bucket {
                id: bucket,
                options,
            },
            key,
            value,
            is_there,
        )
    }

    /// Puts or deletes the stored form of an entry.
    pub(crate) fn replace_entry(
        &mut self,
        bucket: u32,
        key: &[u8],
        stored: Option<&[u8]>,
    ) -> Result<(), DataError> {
        let name = self.bucket_name(bucket)?;
        match stored {
            Some(stored) => self.kv_put_entry(&name, key, entries::BucketEntry::decode(stored)?),
            None => self.kv_delete(&name, key),
        }
    }
}

/// Decodes a stored entry.
pub(crate) fn entry_parts(stored: &[u8]) -> Result<(Content, Option<u64>, &[u8]), DataError> {
    let entry = entries::BucketEntry::decode(stored)?;
    Ok((entry.content, entry.expires, entry.value))
}

/// The error where an operation is for the other kind of bucket.
fn wrong_kind(name: &str, kind: BucketKind) -> DataError {
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

fn check_size(what: &str, size: usize, max: usize, advice: &'static str) -> Result<(), DataError> {
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
fn check_key(bucket: Bucket, key: &[u8]) -> Result<(), DataError> {
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
fn check_value(bucket: Bucket, value: &[u8]) -> Result<(), DataError> {
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
fn pairs_up(options: BucketOptions) -> bool {
    options.reversible || options.kind == BucketKind::Multi
}

/// Pages of internal scans.
const PAGE: PageLimit = PageLimit {
    keys: 1024,
    bytes: 1 << 20,
};

/// Everything that a scan observes: the results and the gaps between them.
fn observed<'a>(
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
