//! Holding what is stored against what the change stream told of it last.
//!
//! The stream is read forwards. What it tells is noted by the key under which it is stored: for a node or relationship each
//! label and property apart, as changes name only these; for everything else a hash of what should be there. Then each of
//! these keys is read. Ranges that were taken out must hold nothing but what was told later. Memory is bounded: where more is
//! told than fits, a pass goes on with the lower keys and leaves the others to the next one. So is time: after a few passes
//! over all of the stream, the keys that are left are held against its newest part. What is read is kept as for any other
//! reader, up to the same limits: where it goes meanwhile, the rest is held against what is left.
//!
//! Left out: the content of files and of convergent fields, whose operations do not tell what comes of them alone (they are
//! held against their own derived structures), and the records of bulk loads, which the stream only counts.

use std::{collections::BTreeMap, ops::Bound};

use isomer_storage::Version;
use isomer_value::{LabelId, NodeId, PropId, TypeId, record::RecordRef};
use xxhash_rust::xxh3::xxh3_128;

use super::{Check, MOST_FINDINGS};
use crate::{
    ChangeSet, DataError, Store, StreamHold,
    files::Stored,
    keyspace::{self, FileKind, TAG_BUCKET_ENTRY, TAG_NODE, TAG_REL, after_prefix},
    kv::{BucketKind, BucketOptions, Content, encode_entry},
    stream::Change,
};

/// Most bytes of what is told, at once.
const MOST_BYTES: usize = if cfg!(test) { 4 << 10 } else { 32 << 20 };
/// What each key takes beside its bytes, and each label or property of a record.
const BYTES_EACH: usize = 96;
const BYTES_OF_FIELD: usize = 48;
/// Keys read at once.
const KEYS: usize = 256;
/// Passes over all of the stream, and what is read of it from then on.
const WHOLE_PASSES: usize = 8;
const NEWEST_BYTES: u64 = if cfg!(test) { 2 << 10 } else { 64 << 20 };
/// So often a part of the stream may be forgotten while it is read, before what is left is left alone.
const MOST_LOSSES: usize = 3;
const ENTRIES: usize = if cfg!(test) { 16 } else { 1024 };
const ENTRY_BYTES: usize = 4 << 20;

type Key = Box<[u8]>;

/// What should be under a key, and since which commit.
#[derive(Debug)]
struct Told {
    version: Version,
    what: What,
}

impl Told {
    /// What it takes beside the key.
    fn bytes(&self) -> usize {
        match &self.what {
            What::Value(_) => 0,
            What::Record(known) => known.bytes(),
        }
    }
}

#[derive(Debug)]
enum What {
    /// A value with this hash; none: nothing.
    Value(Option<u128>),
    /// A record of which this is known.
    Record(Known),
}

/// What the stream told of a record.
#[derive(Debug, Default)]
struct Known {
    /// From its beginning, so that it has nothing else.
    whole: bool,
    ends: Option<(TypeId, NodeId, NodeId)>,
    labels: BTreeMap<LabelId, bool>,
    properties: BTreeMap<PropId, Option<u128>>,
}

impl Known {
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

/// What is told of the keys from `start` up to `end`, which comes down when it is too much.
struct Pass {
    start: Key,
    /// None: the end of the key space.
    end: Option<Key>,
    told: BTreeMap<Key, Told>,
    /// Taken out, but for what was told later: from a key up to another (none: the end). They do not overlap.
    erased: BTreeMap<Key, Option<Key>>,
    bytes: usize,
}

impl Pass {
    fn new(start: Key) -> Self {
        Self {
            start,
            end: None,
            told: BTreeMap::new(),
            erased: BTreeMap::new(),
            bytes: 0,
        }
    }

    fn takes(&self, key: &[u8]) -> bool {
        *key >= *self.start && self.end.as_deref().is_none_or(|end| key < end)
    }

    fn value(&mut self, version: Version, key: &[u8], value: Option<&[u8]>) {
        if value.is_none() && self.is_erased(key) {
            // That nothing is there is known.
            return self.forget(key);
        }
        let what = What::Value(value.map(xxh3_128));
        self.put(key, Told { version, what });
    }

    fn is_erased(&self, key: &[u8]) -> bool {
        let upto = (Bound::Unbounded, Bound::Included(key));
        let before = self.erased.range::<[u8], _>(upto).next_back();
        before.is_some_and(|(_, end)| end.as_deref().is_none_or(|end| key < end))
    }

    fn forget(&mut self, key: &[u8]) {
        if let Some(told) = self.told.remove(key) {
            self.bytes -= key.len() + BYTES_EACH + told.bytes();
        }
    }

    fn put(&mut self, key: &[u8], told: Told) {
        if !self.takes(key) {
            return;
        }
        self.bytes += told.bytes();
        match self.told.insert(key.into(), told) {
            Some(old) => self.bytes -= old.bytes(),
            None => self.bytes += key.len() + BYTES_EACH,
        }
        self.shrink();
    }

    /// Changes what is known of a record.
    fn change(&mut self, version: Version, key: &[u8], change: impl FnOnce(&mut Known)) {
        if !self.takes(key) {
            return;
        }
        // Taken out and put again: what was told before stands no more, and what is told now is no change.
        let known = match self.told.remove(key) {
            None => Some(Known::default()),
            Some(old) => {
                self.bytes -= key.len() + BYTES_EACH;
                match old.what {
                    What::Record(known) => {
                        self.bytes -= known.bytes();
                        Some(known)
                    }
                    What::Value(_) => None,
                }
            }
        };
        let mut known = known.unwrap_or_default();
        change(&mut known);
        let what = What::Record(known);
        self.put(key, Told { version, what });
    }

    /// Everything with a prefix is taken out.
    fn erase_prefix(&mut self, prefix: &[u8]) {
        self.erase(prefix, after_prefix(prefix).as_deref());
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
        // One with those that it meets.
        let (mut from, mut until): (Key, Option<Key>) = (start.into(), end.map(Into::into));
        // Each goes once, however often the range is taken out.
        let within = (
            Bound::Included(start),
            end.map_or(Bound::Unbounded, Bound::Excluded),
        );
        let keys = self.told.range::<[u8], _>(within);
        let keys: Vec<Key> = keys.map(|(key, _)| key.clone()).collect();
        for key in keys {
            self.forget(&key);
        }
        loop {
            // They do not overlap: only the last one that begins up to the end may reach into it.
            let reaches =
                |behind: &Option<Key>| behind.as_ref().is_none_or(|behind| *behind >= from);
            let mut below = match &until {
                Some(until) => self.erased.range(..=until.clone()),
                None => self.erased.range::<Key, _>(..),
            };
            let met = below.next_back().filter(|(_, behind)| reaches(behind));
            let Some((other, behind)) = met else { break };
            let (other, behind) = (other.clone(), behind.clone());
            self.erased.remove(&other);
            self.bytes -= other.len() + BYTES_EACH;
            until = match (until, behind) {
                (Some(until), Some(behind)) => Some(until.max(behind)),
                _ => None,
            };
            from = from.min(other);
        }
        self.bytes += from.len() + BYTES_EACH;
        self.erased.insert(from, until);
        self.shrink();
    }

    /// Lets the higher half go where it is too much, and never all: each pass gets beyond its start.
    fn shrink(&mut self) {
        if self.bytes <= MOST_BYTES {
            return;
        }
        while self.told.len() + self.erased.len() > 1 && self.bytes > MOST_BYTES / 2 {
            let last_told = self.told.last_key_value().map(|(key, _)| key);
            let last_erased = self.erased.last_key_value().map(|(key, _)| key);
            let is_told = last_told >= last_erased;
            let Some(end) = last_told.max(last_erased).cloned() else {
                return;
            };
            if end <= self.start {
                // A key and a range begin there, and both stay.
                let mut behind = end.into_vec();
                behind.push(0);
                self.end = Some(behind.into());
                break;
            }
            let gone = match is_told {
                true => self.told.remove(&end),
                false => {
                    self.erased.remove(&end);
                    None
                }
            };
            if let Some(What::Record(known)) = gone.map(|told| told.what) {
                self.bytes -= known.bytes();
            }
            self.bytes -= end.len() + BYTES_EACH;
            self.end = Some(end);
        }
        // Ranges end where the pass does.
        let end = self.end.clone();
        for behind in self.erased.values_mut() {
            if behind.is_none() || *behind > end {
                *behind = end.clone();
            }
        }
    }

    /// Notes a change of the commit `version`.
    fn note(&mut self, version: Version, change: &Change<'_>) -> Result<(), DataError> {
        match change {
            Change::NodeCreated { id, record } => {
                let what = What::Record(Known::of_record(record)?);
                self.put(&keyspace::node(*id), Told { version, what });
            }
            Change::NodeChanged {
                id,
                labels_added,
                labels_removed,
                set,
                removed,
            } => self.change(version, &keyspace::node(*id), |known| {
                known.change(set, removed);
                let added = labels_added.iter().map(|label| (*label, true));
                known.labels.extend(added);
                let removed = labels_removed.iter().map(|label| (*label, false));
                known.labels.extend(removed);
            }),
            Change::NodeDeleted { id, .. } => self.value(version, &keyspace::node(*id), None),
            Change::RelationshipCreated { id, record } => {
                let what = What::Record(Known::of_record(record)?);
                self.put(&keyspace::relationship(*id), Told { version, what });
            }
            Change::RelationshipChanged {
                id, set, removed, ..
            } => self.change(version, &keyspace::relationship(*id), |known| {
                known.change(set, removed);
            }),
            Change::RelationshipDeleted { id, .. } => {
                self.value(version, &keyspace::relationship(*id), None);
            }
            Change::KeyPut {
                bucket,
                key,
                value,
                content,
            } => self.entry(version, *bucket, key, *content, None, value),
            Change::KeyPutUntil {
                bucket,
                key,
                value,
                content,
                expires_ms,
            } => self.entry(version, *bucket, key, *content, Some(*expires_ms), value),
            Change::KeyDeleted { bucket, key } => {
                self.value(version, &keyspace::bucket_entry(*bucket, key), None);
            }
            Change::KeysDeleted { bucket, start, end } => {
                let end = match end {
                    Some(end) => Some(keyspace::bucket_entry(*bucket, end)),
                    None => after_prefix(&keyspace::bucket_entry(*bucket, b"")),
                };
                let start = keyspace::bucket_entry(*bucket, start);
                self.erase(&start, end.as_deref());
            }
            Change::ValueAdded { bucket, key, value } => {
                let stored = keyspace::bucket_pair(*bucket, key, value);
                self.value(version, &stored, Some(b""));
            }
            Change::ValueRemoved { bucket, key, value } => {
                self.value(version, &keyspace::bucket_pair(*bucket, key, value), None);
            }
            Change::BucketCreated {
                bucket,
                multi,
                reversible,
            } => {
                let options = BucketOptions {
                    kind: match multi {
                        true => BucketKind::Multi,
                        false => BucketKind::Map,
                    },
                    reversible: *reversible,
                };
                let stored = options.encode();
                self.value(version, &keyspace::bucket(*bucket), Some(&stored));
            }
            Change::BucketDropped { bucket } => {
                for prefix in keyspace::bucket_prefixes(*bucket) {
                    self.erase_prefix(&prefix);
                }
            }
            Change::SequenceAdvanced { bucket, name, last } => {
                let key = keyspace::bucket_sequence(*bucket, text(name)?);
                let stored = last.to_be_bytes();
                self.value(version, &key, (*last > 0).then_some(&stored[..]));
            }
            Change::FileNamed {
                folder,
                name,
                is_folder,
                number,
            } => {
                let kind = match is_folder {
                    true => FileKind::Folder,
                    false => FileKind::File,
                };
                let key = keyspace::file_entry(*folder, text(name)?);
                let stored = keyspace::file_entry_value(kind, *number);
                self.value(version, &key, Some(&stored));
            }
            Change::FileUnnamed { folder, name } => {
                let key = keyspace::file_entry(*folder, text(name)?);
                self.value(version, &key, None);
            }
            Change::FileChanged {
                file,
                size,
                created_ms,
                modified_ms,
            } => {
                let stored = Stored {
                    bytes: *size,
                    created_ms: *created_ms,
                    modified_ms: *modified_ms,
                };
                self.value(version, &keyspace::file(*file), Some(&stored.encode()));
            }
            Change::FileRemoved { file } => {
                self.value(version, &keyspace::file(*file), None);
                self.erase_prefix(&keyspace::file_chunks(*file));
            }
            Change::NodesLoaded { .. }
            | Change::RelationshipsLoaded { .. }
            | Change::SchemaChanged { .. }
            | Change::FileWritten { .. }
            | Change::Converged { .. }
            | Change::ConvergedBy { .. }
            | Change::FieldMerged { .. } => {}
        }
        Ok(())
    }

    fn entry(
        &mut self,
        version: Version,
        bucket: u32,
        key: &[u8],
        content: Content,
        expires: Option<u64>,
        value: &[u8],
    ) {
        let stored = encode_entry(content, expires, value);
        self.value(version, &keyspace::bucket_entry(bucket, key), Some(&stored));
    }
}

fn text(bytes: &[u8]) -> Result<&str, DataError> {
    std::str::from_utf8(bytes)
        .map_err(|_| DataError::corrupt("a name in the change stream is not UTF-8"))
}

/// What of the stream is read, and keeps it.
struct Span {
    from: Version,
    upto: Version,
    /// Versions that parts of it end with, and the bytes up to there.
    parts: Vec<(Version, u64)>,
    hold: StreamHold,
}

impl Span {
    /// All that the stream tells.
    fn begin(store: &Store, upto: Version) -> Result<Self, DataError> {
        let hold = store.hold_stream(store.engine().stream_trimmed()?);
        // From here on it stays, up to what is kept for readers.
        Ok(Self {
            from: store.engine().stream_trimmed()?,
            upto,
            parts: Vec::new(),
            hold,
        })
    }

    /// Only the newest part from now on.
    fn shorten(&mut self, store: &Store) {
        let all = self.parts.last().map_or(0, |(_, bytes)| *bytes);
        let older = |(_, bytes): &(Version, u64)| *bytes + NEWEST_BYTES <= all;
        let count = self.parts.partition_point(older);
        if let Some((version, _)) = count.checked_sub(1).map(|last| self.parts[last]) {
            self.from = version;
            self.hold = store.hold_stream(version);
        }
    }
}

impl Check<'_> {
    /// That what the change stream told last is what is there.
    pub(super) fn told(&mut self) -> Result<(), DataError> {
        let store = self.tx.store().clone();
        let mut span = Span::begin(&store, self.tx.version())?;
        let (mut passes, mut losses) = (0, 0);
        let mut next = Some(Key::default());
        while let Some(start) = next {
            let mut pass = Pass::new(start.clone());
            match self.read_stream(&store, &mut span, &mut pass) {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(DataError::Forgotten { .. }) if losses < MOST_LOSSES => {
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
            let more = self.findings.len() < MOST_FINDINGS;
            next = pass.end.filter(|_| more);
        }
        Ok(())
    }

    /// Notes what the stream tells of the keys of a pass; false where it cannot be read, which is found.
    fn read_stream(
        &mut self,
        store: &Store,
        span: &mut Span,
        pass: &mut Pass,
    ) -> Result<bool, DataError> {
        let (mut after, mut bytes) = (span.from, 0);
        span.parts.clear();
        while after < span.upto {
            let entries = store.stream_after(after, ENTRIES, ENTRY_BYTES, false)?;
            let Some(last) = entries.last() else { break };
            after = last.version;
            for entry in entries.iter().filter(|entry| entry.version <= span.upto) {
                bytes += entry.bytes.len() as u64;
                let mut changes = match ChangeSet::decode(&entry.bytes) {
                    Ok(changes) => changes.changes.into_iter(),
                    Err(error) => return Ok(self.unreadable(entry.version, &error)),
                };
                for change in &mut changes {
                    self.step("change stream")?;
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
        let mut told = pass.told.iter().peekable();
        while told.peek().is_some() {
            let part: Vec<_> = told.by_ref().take(KEYS).collect();
            let keys: Vec<&[u8]> = part.iter().map(|(key, _)| &***key).collect();
            let values = self.tx.read().get_many(&keys)?;
            for ((key, told), value) in part.into_iter().zip(values) {
                self.step("change stream")?;
                let differs = match (&told.what, value.as_deref()) {
                    (What::Value(None), None) => None,
                    (What::Value(None), Some(_)) => Some("took it out, and it is there".to_owned()),
                    (What::Value(Some(_)) | What::Record(_), None) => {
                        Some("put it, and it is not there".to_owned())
                    }
                    (What::Value(Some(hash)), Some(value)) => (xxh3_128(value) != *hash)
                        .then(|| "put something else than what is there".to_owned()),
                    (What::Record(known), Some(value)) => self.differs(known, value)?,
                };
                if let Some(differs) = differs {
                    self.find(format!(
                        "{}: the commit {} {differs}, says the change stream",
                        self.shown(key),
                        told.version
                    ));
                }
            }
        }
        for (start, end) in &pass.erased {
            self.nothing_else(pass, start, end.as_deref())?;
        }
        Ok(())
    }

    /// How a record differs from what was told.
    fn differs(&self, known: &Known, value: &[u8]) -> Result<Option<String>, DataError> {
        let Ok(record) = RecordRef::new(value) else {
            return Ok(Some(
                "put a record, and what is there cannot be read".to_owned(),
            ));
        };
        if known.ends.is_some() && known.ends != record.endpoints() {
            return Ok(Some("gave it another type or other ends".to_owned()));
        }
        let names = self.tx.names();
        for (label, carries) in &known.labels {
            if record.has_label(*label) != *carries {
                let name = names.label_name(*label).unwrap_or_default();
                let done = if *carries { "gave it" } else { "took off" };
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
                    (None, _) => format!("took its property {name} out"),
                    (_, None) => format!("set its property {name}, which it has not"),
                    _ => format!("set its property {name} to something else"),
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

    /// That a range which was taken out holds only what was told later.
    fn nothing_else(
        &mut self,
        pass: &Pass,
        start: &[u8],
        end: Option<&[u8]>,
    ) -> Result<(), DataError> {
        let mut start = start.to_vec();
        loop {
            let mut keys = Vec::new();
            self.tx.each_pair(&start, end, 4096, |key, _| {
                keys.push(key.to_vec());
                Ok(())
            })?;
            for key in &keys {
                self.step("change stream")?;
                if !pass.told.contains_key(&**key) {
                    self.find(format!(
                        "{}: it is there, and was taken out with others, says the change stream",
                        self.shown(key)
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

    /// What is stored under a key, in words.
    fn shown(&self, key: &[u8]) -> String {
        let mut rest = &key[1..];
        let id = keyspace::take_id(&mut rest).unwrap_or_default();
        match key[0] {
            TAG_NODE => format!("node {id}"),
            TAG_REL => format!("relationship {id}"),
            TAG_BUCKET_ENTRY => {
                let bucket = u32::try_from(id)
                    .ok()
                    .and_then(|id| self.tx.names().bucket_name(id))
                    .unwrap_or_default();
                let key = rest[..rest.len().min(40)].escape_ascii();
                format!("the key `{key}` of bucket `{bucket}`")
            }
            _ => format!("the stored key {}", key[..key.len().min(60)].escape_ascii()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A queue that is emptied by ranges again and again.
    #[test]
    fn what_is_taken_out_by_ranges_is_not_kept() {
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
            assert_eq!(pass.told.len(), 2);
            empty(&mut pass);
            assert!(pass.told.is_empty() && pass.bytes == bytes);
        }
        pass.value(20, b"c", None);
        pass.value(20, b"b", Some(b"there"));
        assert_eq!(pass.told.len(), 2);
    }
}
