//! Maps from property names to values.

use std::sync::{Arc, OnceLock};

use crate::Value;

/// A name with its value.
pub(crate) type NamedValue = (Arc<str>, Value);

/// A map from names to values: entries sorted by name, each name once.
///
/// `get` is a binary search; building from `n` unsorted entries is O(n log n), and the last of duplicate
/// names wins. The properties of a record that was read as a whole are decoded on the first access (see
/// [`RecordSealer`](crate::record::RecordSealer)).
#[derive(Clone)]
pub struct Map {
    entries: Entries,
}

#[derive(Clone)]
enum Entries {
    Plain(Vec<NamedValue>),
    Sealed(Sealed),
}

/// A record's properties in its batch. Clones share the decoded form.
#[derive(Clone)]
struct Sealed {
    batch: Arc<SealedBatch>,
    at: u32,
}

/// Encoded records that share one allocation, each decoded at most once.
pub(crate) struct SealedBatch {
    opener: Arc<dyn OpenRecord>,
    bytes: Vec<u8>,
    records: Vec<SealedRecord>,
}

/// Where a record is in the bytes of its batch, and its decoded form.
#[derive(Debug)]
pub(crate) struct SealedRecord {
    start: u32,
    end: u32,
    /// Number of properties.
    len: u32,
    entries: OnceLock<Vec<NamedValue>>,
}

/// Decodes records, for maps that are decoded on first access; the codec of records implements it.
pub(crate) trait OpenRecord: Send + Sync {
    /// The properties of a record, sorted by name. It cannot fail: the record was validated when its batch was made.
    fn open(&self, record: &[u8]) -> Vec<NamedValue>;
}

impl Map {
    /// The empty map.
    pub fn new() -> Self {
        Self::default()
    }

    /// The value under `name`.
    pub fn get(&self, name: &str) -> Option<&Value> {
        let entries = self.entries();
        position(entries, name).ok().map(|at| &entries[at].1)
    }

    /// The value under `name`, mutable.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Value> {
        let entries = self.plain();
        let at = position(entries, name).ok()?;
        Some(&mut entries[at].1)
    }

    /// Whether there is an entry of this name.
    pub fn contains(&self, name: &str) -> bool {
        position(self.entries(), name).is_ok()
    }

    /// Inserts `value` under `name` and returns the previous value.
    pub fn insert(&mut self, name: impl Into<Arc<str>>, value: Value) -> Option<Value> {
        let name = name.into();
        let entries = self.plain();
        match position(entries, &name) {
            Ok(at) => Some(std::mem::replace(&mut entries[at].1, value)),
            Err(at) => {
                entries.insert(at, (name, value));
                None
            }
        }
    }

    /// Removes `name`.
    pub fn remove(&mut self, name: &str) -> Option<Value> {
        let entries = self.plain();
        let at = position(entries, name).ok()?;
        Some(entries.remove(at).1)
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        match &self.entries {
            Entries::Plain(entries) => entries.len(),
            Entries::Sealed(sealed) => sealed.len(),
        }
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Entries in the order of their names.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Arc<str>, &Value)> + DoubleEndedIterator {
        self.entries().iter().map(|(name, value)| (name, value))
    }

    /// Names in order.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &Arc<str>> + DoubleEndedIterator {
        self.entries().iter().map(|(name, _)| name)
    }

    /// Values in the order of their names.
    pub fn values(&self) -> impl ExactSizeIterator<Item = &Value> + DoubleEndedIterator {
        self.entries().iter().map(|(_, value)| value)
    }

    /// A map of entries that are already sorted by name, without duplicates.
    pub fn from_sorted(entries: Vec<(Arc<str>, Value)>) -> Self {
        debug_assert!(
            entries.windows(2).all(|pair| pair[0].0 < pair[1].0),
            "entries must be sorted by name, without duplicates"
        );
        Self {
            entries: Entries::Plain(entries),
        }
    }

    /// Properties that are still encoded: those of record `at` of the batch.
    pub(crate) fn sealed(batch: Arc<SealedBatch>, at: u32) -> Self {
        Self {
            entries: Entries::Sealed(Sealed { batch, at }),
        }
    }

    /// Bytes that the map holds while its entries are not decoded; 0 afterwards.
    pub fn unopened_bytes(&self) -> Option<usize> {
        match &self.entries {
            Entries::Plain(_) => None,
            Entries::Sealed(sealed) => sealed.unopened_bytes(),
        }
    }

    #[inline]
    fn entries(&self) -> &[NamedValue] {
        match &self.entries {
            Entries::Plain(entries) => entries,
            Entries::Sealed(sealed) => sealed.entries(),
        }
    }

    pub(crate) fn into_entries(self) -> Vec<NamedValue> {
        match self.entries {
            Entries::Plain(entries) => entries,
            Entries::Sealed(sealed) => sealed.into_entries(),
        }
    }

    /// The entries, mutable.
    fn plain(&mut self) -> &mut Vec<NamedValue> {
        if let Entries::Sealed(_) = &self.entries {
            let sealed = std::mem::take(self);
            self.entries = Entries::Plain(sealed.into_entries());
        }
        match &mut self.entries {
            Entries::Plain(entries) => entries,
            Entries::Sealed(_) => unreachable!("the map was decoded above"),
        }
    }
}

impl SealedBatch {
    /// Records in these bytes.
    pub(crate) fn new(
        opener: Arc<dyn OpenRecord>,
        bytes: Vec<u8>,
        records: Vec<SealedRecord>,
    ) -> Self {
        Self {
            opener,
            bytes,
            records,
        }
    }

    fn open(&self, record: &SealedRecord) -> Vec<NamedValue> {
        self.opener
            .open(&self.bytes[record.start as usize..record.end as usize])
    }
}

impl SealedRecord {
    /// The record of `byte_count` bytes and `len` properties that starts at `start` of its batch; `None` if its offset
    /// does not fit.
    pub(crate) fn at(start: usize, byte_count: usize, len: usize) -> Option<Self> {
        Some(Self {
            start: u32::try_from(start).ok()?,
            end: u32::try_from(start + byte_count).ok()?,
            len: u32::try_from(len).ok()?,
            entries: OnceLock::new(),
        })
    }
}

impl Sealed {
    fn record(&self) -> &SealedRecord {
        &self.batch.records[self.at as usize]
    }

    fn len(&self) -> usize {
        self.record().len as usize
    }

    fn entries(&self) -> &[NamedValue] {
        let record = self.record();
        record.entries.get_or_init(|| self.batch.open(record))
    }

    fn into_entries(mut self) -> Vec<NamedValue> {
        let at = self.at as usize;
        match Arc::get_mut(&mut self.batch).and_then(|batch| batch.records[at].entries.take()) {
            Some(entries) => entries,
            // Once decoded, copying is cheaper than decoding again.
            None => match self.record().entries.get() {
                Some(entries) => entries.clone(),
                None => self.batch.open(self.record()),
            },
        }
    }

    /// Bytes held before the first access, including the entries that decoding will allocate in addition to
    /// the record, which stays; 0 after the first access.
    fn unopened_bytes(&self) -> Option<usize> {
        let record = self.record();
        let bytes = (record.end - record.start) as usize;
        record
            .entries
            .get()
            .is_none()
            .then(|| size_of::<SealedRecord>() + bytes + self.len() * size_of::<NamedValue>())
    }
}

#[inline]
fn position(entries: &[NamedValue], name: &str) -> Result<usize, usize> {
    entries.binary_search_by(|(entry, _)| entry.as_ref().cmp(name))
}

impl Default for Map {
    fn default() -> Self {
        Self {
            entries: Entries::Plain(Vec::new()),
        }
    }
}

impl PartialEq for Map {
    fn eq(&self, other: &Self) -> bool {
        self.entries() == other.entries()
    }
}

impl Eq for Map {}

impl std::fmt::Debug for Map {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Map")
            .field("entries", &self.entries())
            .finish()
    }
}

impl<N: Into<Arc<str>>> FromIterator<(N, Value)> for Map {
    fn from_iter<I: IntoIterator<Item = (N, Value)>>(entries: I) -> Self {
        let mut entries: Vec<(Arc<str>, Value)> = entries
            .into_iter()
            .map(|(name, value)| (name.into(), value))
            .collect();
        entries.reverse();
        entries.sort_by(|a, b| a.0.cmp(&b.0)); // stable: of duplicate names the last given one now comes first
        entries.dedup_by(|later, first| later.0 == first.0);
        Self {
            entries: Entries::Plain(entries),
        }
    }
}

impl IntoIterator for Map {
    type Item = (Arc<str>, Value);
    type IntoIter = std::vec::IntoIter<(Arc<str>, Value)>;

    fn into_iter(self) -> Self::IntoIter {
        self.into_entries().into_iter()
    }
}
