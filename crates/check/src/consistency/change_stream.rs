//! Checks the stored state against the newest operations of the change stream.
//!
//! The stream is read forwards. Its operations are recorded by the key under which the result is stored: for a node or
//! relationship each label and property separately, as changes name only these; for everything else a hash of the
//! expected value. Then each of these keys is read. Deleted ranges must hold only what was put later. Memory is
//! bounded: when the operations exceed it, a pass continues with the lower keys and leaves the others to the next one.
//! So is time: after a few passes over the whole stream, the remaining keys are checked against its newest part. The
//! check retains the stream like any other reader, within the same limits: when entries are trimmed during the check,
//! the rest is checked against what is left.
//!
//! Not checked: the content of files and of convergent fields, whose operations do not determine the result alone (they
//! are checked against their own derived structures), and the records of bulk loads, which the stream only counts.

use std::{collections::BTreeMap, ops::Bound};

use isomer_data::{Change, ChangeSet, DataError, DataStore, StreamHold};
use isomer_layout::stream::stored::StoredChange;
use isomer_storage::Version;
use isomer_value::{LabelId, NodeId, PropId, TypeId, record::RecordRef};
use xxhash_rust::xxh3::xxh3_128;

use super::{Check, MAX_FINDINGS};

/// Most bytes of expectations in memory at a time.
const MAX_BYTES: usize = if cfg!(test) { 4 << 10 } else { 32 << 20 };
/// Estimated overhead of each key in addition to its bytes, and of each label or property of a record.
const BYTES_EACH: usize = 96;
const BYTES_OF_FIELD: usize = 48;
/// Keys read at a time.
const KEYS: usize = 256;
/// Passes over the whole stream, and the part of it that later passes read.
const WHOLE_PASSES: usize = 8;
const NEWEST_BYTES: u64 = if cfg!(test) { 2 << 10 } else { 64 << 20 };
/// How often a part of the stream may be trimmed while it is read, before the check ends.
const MAX_LOSSES: usize = 3;
const ENTRIES: usize = if cfg!(test) { 16 } else { 1024 };
const ENTRY_BYTES: usize = 4 << 20;

type Key = Box<[u8]>;

/// The expected content of a key, and the commit that wrote it.
#[derive(Debug)]
struct Expectation {
    version: Version,
    what: ExpectedContent,
}

impl Expectation {
    /// Bytes in addition to the key.
    fn bytes(&self) -> usize {
        match &self.what {
            ExpectedContent::Value(_) => 0,
            ExpectedContent::Record(known) => known.bytes(),
        }
    }
}

#[derive(Debug)]
enum ExpectedContent {
    /// A value with this hash; none: no value.
    Value(Option<u128>),
    /// A record with these parts.
    Record(ExpectedRecord),
}

/// The newest operations of the stream on a record.
#[derive(Debug, Default)]
struct ExpectedRecord {
    /// Described from its creation, so that it has nothing else.
    whole: bool,
    ends: Option<(TypeId, NodeId, NodeId)>,
    labels: BTreeMap<LabelId, bool>,
    properties: BTreeMap<PropId, Option<u128>>,
}

impl ExpectedRecord {
    fn bytes(&self) -> usize {
        (self.labels.len() + self.properties.len()) * BYTES_OF_FIELD
    }

    fn of_record(record: &[u8]) -> Result<Self, DataError> {
        let record = RecordRef::new(record)?;
        let mut known = Self {
            whole: true,
            ends: record.endpoints(),
            labels: record.labels().map(|label| (label, true)).collect(),
            ..Self::default()
        };
        for property in record.iter_raw() {
            let (prop, raw) = property?;
            known.properties.insert(prop, Some(xxh3_128(raw)));
        }
        Ok(known)
    }

    fn change(&mut self, set: &[(PropId, &[u8])], removed: &[PropId]) {
        for (prop, raw) in set {
            self.properties.insert(*prop, Some(xxh3_128(raw)));
        }
        for prop in removed {
            self.properties.insert(*prop, None);
        }
    }
}

/// Expectations for the keys from `start` up to `end`, which is lowered when memory runs out.
struct Pass {
    start: Key,
    /// None: the end of the key space.
    end: Option<Key>,
    expectations: BTreeMap<Key, Expectation>,
    /// Deleted ranges, except for keys put later: from a key up to another (none: the end). They do not overlap.
    deleted_ranges: BTreeMap<Key, Option<Key>>,
    bytes: usize,
}

impl Pass {
    fn new(start: Key) -> Self {
        Self {
            start,
            end: None,
            expectations: BTreeMap::new(),
            deleted_ranges: BTreeMap::new(),
            bytes: 0,
        }
    }

    fn takes(&self, key: &[u8]) -> bool {
        *key >= *self.start && self.end.as_deref().is_none_or(|end| key < end)
    }

    fn value(&mut self, version: Version, key: &[u8], value: Option<&[u8]>) {
        if value.is_none() && self.is_erased(key) {
            // A deleted key is known to be absent.
            return self.forget(key);
        }
        let what = ExpectedContent::Value(value.map(xxh3_128));
        self.put(key, Expectation { version, what });
    }

    fn is_erased(&self, key: &[u8]) -> bool {
        let upto = (Bound::Unbounded, Bound::Included(key));
        let before = self.deleted_ranges.range::<[u8], _>(upto).next_back();
        before.is_some_and(|(_, end)| end.as_deref().is_none_or(|end| key < end))
    }

    fn forget(&mut self, key: &[u8]) {
        if let Some(expected) = self.expectations.remove(key) {
            self.bytes -= key.len() + BYTES_EACH + expected.bytes();
        }
    }

    fn put(&mut self, key: &[u8], expected: Expectation) {
        if !self.takes(key) {
            return;
        }
        self.bytes += expected.bytes();
        match self.expectations.insert(key.into(), expected) {
            Some(old) => self.bytes -= old.bytes(),
            None => self.bytes += key.len() + BYTES_EACH,
        }
        self.shrink();
    }

    /// Changes the expectation for a record.
    fn change(&mut self, version: Version, key: &[u8], change: impl FnOnce(&mut ExpectedRecord)) {
        if !self.takes(key) {
            return;
        }
        // Deleted and put again: earlier expectations are obsolete, and this one describes the whole record.
        let known = match self.expectations.remove(key) {
            None => Some(ExpectedRecord::default()),
            Some(old) => {
                self.bytes -= key.len() + BYTES_EACH;
                match old.what {
                    ExpectedContent::Record(known) => {
                        self.bytes -= known.bytes();
                        Some(known)
                    }
                    ExpectedContent::Value(_) => None,
                }
            }
        };
        let mut known = known.unwrap_or_default();
        change(&mut known);
        let what = ExpectedContent::Record(known);
        self.put(key, Expectation { version, what });
    }

    fn erase(&mut self, start: &[u8], end: Option<&[u8]>) {
        let start = start.max(&*self.start);
        let end = match (end, self.end.as_deref()) {
            (Some(end), Some(own)) => Some(end.min(own)),
            (end, own) => end.or(own),
        };
        if end.is_some_and(|end| end <= start) {
            return;
        }
        // Merged with the ranges that it meets.
        let (mut from, mut until): (Key, Option<Key>) = (start.into(), end.map(Into::into));
        // Each expectation is dropped once, however often its range is deleted.
        let within = (
            Bound::Included(start),
            end.map_or(Bound::Unbounded, Bound::Excluded),
        );
        let keys = self.expectations.range::<[u8], _>(within);
        let keys: Vec<Key> = keys.map(|(key, _)| key.clone()).collect();
        for key in keys {
            self.forget(&key);
        }
        loop {
            // They do not overlap: only the last one that begins up to the end may reach into it.
            let reaches =
                |behind: &Option<Key>| behind.as_ref().is_none_or(|behind| *behind >= from);
            let mut below = match &until {
                Some(until) => self.deleted_ranges.range(..=until.clone()),
                None => self.deleted_ranges.range::<Key, _>(..),
            };
            let met = below.next_back().filter(|(_, behind)| reaches(behind));
            let Some((other, behind)) = met else { break };
            let (other, behind) = (other.clone(), behind.clone());
            self.deleted_ranges.remove(&other);
            self.bytes -= other.len() + BYTES_EACH;
            until = match (until, behind) {
                (Some(until), Some(behind)) => Some(until.max(behind)),
                _ => None,
            };
            from = from.min(other);
        }
        self.bytes += from.len() + BYTES_EACH;
        self.deleted_ranges.insert(from, until);
        self.shrink();
    }

    /// Drops the higher half when there is too much, but never everything: each pass makes progress.
    fn shrink(&mut self) {
        if self.bytes <= MAX_BYTES {
            return;
        }
        while self.expectations.len() + self.deleted_ranges.len() > 1 && self.bytes > MAX_BYTES / 2
        {
            let last_expected = self.expectations.last_key_value().map(|(key, _)| key);
            let last_deleted = self.deleted_ranges.last_key_value().map(|(key, _)| key);
            let is_expectation = last_expected >= last_deleted;
            let Some(end) = last_expected.max(last_deleted).cloned() else {
                return;
            };
            if end <= self.start {
                // A key and a range begin there, and both stay.
                let mut behind = end.into_vec();
                behind.push(0);
                self.end = Some(behind.into());
                break;
            }
            let gone = match is_expectation {
                true => self.expectations.remove(&end),
                false => {
                    self.deleted_ranges.remove(&end);
                    None
                }
            };
            if let Some(ExpectedContent::Record(known)) = gone.map(|expected| expected.what) {
                self.bytes -= known.bytes();
            }
            self.bytes -= end.len() + BYTES_EACH;
            self.end = Some(end);
        }
        // Ranges end at the end of the pass.
        let end = self.end.clone();
        for behind in self.deleted_ranges.values_mut() {
            if behind.is_none() || *behind > end {
                *behind = end.clone();
            }
        }
    }

    /// Records a change of the commit `version`.
    fn note(&mut self, version: Version, change: &Change<'_>) -> Result<(), DataError> {
        change.each_stored(&mut |stored| {
            match stored {
                StoredChange::RecordPut { key, record } => {
                    let what = ExpectedContent::Record(ExpectedRecord::of_record(record)?);
                    self.put(&key, Expectation { version, what });
                }
                StoredChange::RecordChanged {
                    key,
                    labels_added,
                    labels_removed,
                    set,
                    removed,
                } => self.change(version, &key, |known| {
                    known.change(set, removed);
                    let added = labels_added.iter().map(|label| (*label, true));
                    known.labels.extend(added);
                    let removed = labels_removed.iter().map(|label| (*label, false));
                    known.labels.extend(removed);
                }),
                StoredChange::ValuePut { key, value } => self.value(version, &key, Some(&value)),
                StoredChange::Deleted { key } => self.value(version, &key, None),
                StoredChange::RangeDeleted { start, end } => self.erase(&start, end.as_deref()),
            }
            Ok(())
        })
    }
}

/// The part of the stream that is read, retained by a hold.
struct Span {
    from: Version,
    upto: Version,
    /// The last versions of its parts, and the bytes up to there.
    parts: Vec<(Version, u64)>,
    hold: StreamHold,
}

impl Span {
    /// The whole stream.
    fn begin(store: &DataStore, upto: Version) -> Result<Self, DataError> {
        let hold = store.change_stream().hold(store.engine().stream_trimmed()?);
        // From here on it is retained, within the limits for readers.
        Ok(Self {
            from: store.engine().stream_trimmed()?,
            upto,
            parts: Vec::new(),
            hold,
        })
    }

    /// Only the newest part from now on.
    fn shorten(&mut self, store: &DataStore) {
        let all = self.parts.last().map_or(0, |(_, bytes)| *bytes);
        let older = |(_, bytes): &(Version, u64)| *bytes + NEWEST_BYTES <= all;
        let count = self.parts.partition_point(older);
        if let Some((version, _)) = count.checked_sub(1).map(|last| self.parts[last]) {
            self.from = version;
            self.hold = store.change_stream().hold(version);
        }
    }
}

impl Check<'_> {
    /// Checks that the newest operations of the change stream match the stored state.
    pub(super) fn check_change_stream(&mut self) -> Result<(), DataError> {
        let store = self.tx.store().clone();
        let mut span = Span::begin(&store, self.tx.version())?;
        let (mut passes, mut losses) = (0, 0);
        let mut next = Some(Key::default());
        while let Some(start) = next {
            let mut pass = Pass::new(start.clone());
            match self.read_stream(&store, &mut span, &mut pass) {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(DataError::Forgotten { .. }) if losses < MAX_LOSSES => {
                    losses += 1;
                    span = Span::begin(&store, self.tx.version())?;
                    next = Some(start);
                    continue;
                }
                Err(DataError::Forgotten { .. }) => return Ok(()),
                Err(error) => return Err(error),
            }
            self.compare(&pass)?;
            assert!(
                pass.end.as_ref().is_none_or(|end| *end > pass.start),
                "a pass settles some keys"
            );
            passes += 1;
            if passes == WHOLE_PASSES {
                span.shorten(&store);
            }
            let more = self.findings.len() < MAX_FINDINGS;
            next = pass.end.filter(|_| more);
        }
        Ok(())
    }

    /// Records the operations on the keys of a pass; returns false if the stream cannot be read, which is a finding.
    fn read_stream(
        &mut self,
        store: &DataStore,
        span: &mut Span,
        pass: &mut Pass,
    ) -> Result<bool, DataError> {
        let (mut after, mut bytes) = (span.from, 0);
        span.parts.clear();
        while after < span.upto {
            let entries = store
                .change_stream()
                .after(after, ENTRIES, ENTRY_BYTES, false)?;
            let Some(last) = entries.last() else { break };
            after = last.version;
            for entry in entries.iter().filter(|entry| entry.version <= span.upto) {
                bytes += entry.bytes.len() as u64;
                let mut changes = match ChangeSet::decode(&entry.bytes) {
                    Ok(changes) => changes.changes.into_iter(),
                    Err(error) => return Ok(self.unreadable(entry.version, &error)),
                };
                for change in &mut changes {
                    self.report_progress("change stream")?;
                    if let Err(error) = pass.note(entry.version, &change) {
                        return Ok(self.unreadable(entry.version, &error));
                    }
                }
            }
            span.parts.push((after, bytes));
        }
        Ok(true)
    }

    fn unreadable(&mut self, version: Version, error: &DataError) -> bool {
        self.find(format!(
            "the commit {version} in the change stream cannot be read: {error}"
        ));
        false
    }

    fn compare(&mut self, pass: &Pass) -> Result<(), DataError> {
        let mut expectations = pass.expectations.iter().peekable();
        while expectations.peek().is_some() {
            let part: Vec<_> = expectations.by_ref().take(KEYS).collect();
            let keys: Vec<&[u8]> = part.iter().map(|(key, _)| &***key).collect();
            let values = self.pairs().get_many(&keys)?;
            for ((key, expected), value) in part.into_iter().zip(values) {
                self.report_progress("change stream")?;
                let differs = match (&expected.what, value.as_deref()) {
                    (ExpectedContent::Value(None), None) => None,
                    (ExpectedContent::Value(None), Some(_)) => {
                        Some("deleted it, but it exists".to_owned())
                    }
                    (ExpectedContent::Value(Some(_)) | ExpectedContent::Record(_), None) => {
                        Some("put it, but it does not exist".to_owned())
                    }
                    (ExpectedContent::Value(Some(hash)), Some(value)) => (xxh3_128(value) != *hash)
                        .then(|| "put another value than the stored one".to_owned()),
                    (ExpectedContent::Record(known), Some(value)) => self.differs(known, value)?,
                };
                if let Some(differs) = differs {
                    self.find(format!(
                        "{}: according to the change stream, the commit {} {differs}",
                        self.tx.names().describe_key(key),
                        expected.version
                    ));
                }
            }
        }
        for (start, end) in &pass.deleted_ranges {
            self.check_deleted_range(pass, start, end.as_deref())?;
        }
        Ok(())
    }

    /// How a record differs from the operations of the stream.
    fn differs(&self, known: &ExpectedRecord, value: &[u8]) -> Result<Option<String>, DataError> {
        let Ok(record) = RecordRef::new(value) else {
            return Ok(Some(
                "put a record, but the stored one cannot be read".to_owned(),
            ));
        };
        if known.ends.is_some() && known.ends != record.endpoints() {
            return Ok(Some("gave it another type or other ends".to_owned()));
        }
        let names = self.tx.names();
        for (label, carries) in &known.labels {
            if record.has_label(*label) != *carries {
                let name = names.label_name(*label).unwrap_or_default();
                let done = if *carries { "added" } else { "removed" };
                return Ok(Some(format!("{done} the label {name}")));
            }
        }
        let mut others = record.labels();
        if known.whole && others.any(|label| !known.labels.contains_key(&label)) {
            return Ok(Some("put it without a label that it has".to_owned()));
        }
        for (prop, hash) in &known.properties {
            let raw = record.get_raw(*prop)?;
            if raw.map(xxh3_128) != *hash {
                let name = names.prop_name(*prop).unwrap_or_default();
                return Ok(Some(match (hash, raw) {
                    (None, _) => format!("removed its property {name}"),
                    (_, None) => format!("set its property {name}, which is missing"),
                    _ => format!("set its property {name} to another value"),
                }));
            }
        }
        if known.whole {
            for property in record.iter_raw() {
                if !known.properties.contains_key(&property?.0) {
                    return Ok(Some("put it without a property that it has".to_owned()));
                }
            }
        }
        Ok(None)
    }

    /// Checks that a deleted range holds only what was put later.
    fn check_deleted_range(
        &mut self,
        pass: &Pass,
        start: &[u8],
        end: Option<&[u8]>,
    ) -> Result<(), DataError> {
        let mut start = start.to_vec();
        loop {
            let mut keys = Vec::new();
            self.pairs().scan(&start, end, 4096, |key, _| {
                keys.push(key.to_vec());
                Ok(())
            })?;
            for key in &keys {
                self.report_progress("change stream")?;
                if !pass.expectations.contains_key(&**key) {
                    self.find(format!(
                        "{}: it exists, but according to the change stream its range was deleted",
                        self.tx.names().describe_key(key)
                    ));
                }
            }
            let Some(mut last) = keys.pop() else {
                return Ok(());
            };
            last.push(0);
            start = last;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A queue that is emptied by ranges repeatedly.
    #[test]
    fn deleted_ranges_discard_expectations() {
        let mut pass = Pass::new(Key::default());
        let empty = |pass: &mut Pass| pass.erase(b"a", Some(b"c"));
        empty(&mut pass);
        let bytes = pass.bytes;
        for round in 0..20_u64 {
            for key in [b"a1", b"a2", b"b3"] {
                pass.value(round, key, Some(b"value"));
            }
            pass.value(round, b"a2", None);
            pass.value(round, b"a9", None);
            assert_eq!(pass.expectations.len(), 2);
            empty(&mut pass);
            assert!(pass.expectations.is_empty() && pass.bytes == bytes);
        }
        pass.value(20, b"c", None);
        pass.value(20, b"b", Some(b"there"));
        assert_eq!(pass.expectations.len(), 2);
    }
}
