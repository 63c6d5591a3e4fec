//! How many nodes carry each label, how many relationships have each type.
//!
//! There is no stored counter that commits write: that would make every two creations conflict. The head of each
//! commit's entry in the change stream says how it changed the counts, and the counts at a version are those at an
//! earlier one plus the entries between. Memory holds the newest counts and the last few changes, so that readers of
//! slightly older versions are answered too. From time to time the counts are stored with their version, which bounds
//! what the next opening has to read, and lets the stream forget its oldest entries.
//!
//! The counts are right only together with every entry behind their version. Where the change stream begins later (an
//! engine may trim it), or where they are of a version that does not exist, they are recounted at opening.
//!
//! The stored value: id version, then the counts in the encoding of the change stream.

use std::{collections::VecDeque, ops::ControlFlow};

use isomer_layout::{
    DataError,
    graph::rows::row_of,
    keyspace::{COUNTS, TAG_NODE, TAG_REL, push_id, take_id},
    stream::{
        change::{Counted, Deltas},
        codec,
    },
};
use isomer_storage::{Engine, KeyRange, Order, Read, Version};
use isomer_value::{RelId, record::RecordRef};
use parking_lot::{Mutex, MutexGuard};

/// Commits after which the counts are stored again.
pub(crate) const COMMITS_BETWEEN_SAVES: u64 = 1024;
/// Bytes of change stream after which the counts are stored again.
pub(crate) const BYTES_BETWEEN_SAVES: u64 = 32 << 20;
/// How much of the change stream is read at once: by a caller that needs all of it, and by a commit whose turn it is to
/// store the counts.
pub(crate) const MAX_PIECE: Piece = Piece {
    entries: 1024,
    bytes: 8 << 20,
};
pub(crate) const SMALL_PIECE: Piece = Piece {
    entries: 64,
    bytes: 256 << 10,
};
/// Changes kept for readers of older versions.
const RECENT: usize = 1024;
/// Reported changes kept until the counts are asked for: beyond, the older ones are summed up.
const MAX_REPORTED: usize = 4 * RECENT;

/// The counts as of `version`.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) version: Version,
    pub(crate) numbers: Deltas,
    /// The most recent changes, oldest first; complete for versions from `recent_from` on.
    recent: VecDeque<(Version, Deltas)>,
    recent_from: Version,
}

/// The largest part of the change stream to read at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) entries: usize,
    pub(crate) bytes: usize,
}

/// What the commits since opening changed, as reported by the observer: saves reading the stream.
#[derive(Debug, Default)]
pub(crate) struct ReportedCounts(pub(crate) Mutex<Reports>);

#[derive(Debug, Default)]
pub(crate) struct Reports {
    /// Commits above this version are reported; `None` once a reported commit did not happen, or may not have.
    pub(crate) after: Option<Version>,
    pub(crate) changes: VecDeque<(Version, Deltas)>,
    /// The sum of the changes before those, up to a version.
    summed: Option<(Version, Deltas)>,
}

impl ReportedCounts {
    /// Every commit above `version` will be reported.
    pub(crate) fn begin(&self, version: Version) {
        self.0.lock().after = Some(version);
    }

    pub(crate) fn committing(&self, version: Version, stream: &[u8]) {
        if stream.is_empty() {
            return;
        }
        let mut reports = self.0.lock();
        match codec::counts(stream) {
            Ok(changes) if changes.is_empty() => {}
            Ok(changes) => reports.push(version, changes),
            Err(_) => reports.after = None,
        }
    }

    pub(crate) fn abandoned(&self) {
        let mut reports = self.0.lock();
        *reports = Reports::default();
    }
}

impl Reports {
    /// Adds the changes of a commit. A process that neither commits nor counts hears of any number of them.
    fn push(&mut self, version: Version, changes: Deltas) {
        self.changes.push_back((version, changes));
        if self.changes.len() > MAX_REPORTED
            && let Some((version, oldest)) = self.changes.pop_front()
        {
            let (upto, sum) = self.summed.get_or_insert_default();
            *upto = version;
            oldest
                .iter()
                .for_each(|(counted, change)| sum.add(counted, change));
        }
    }
}

/// The commits since the counts were stored.
#[derive(Debug, Default)]
pub(crate) struct SinceSave {
    pub(crate) commits: u64,
    pub(crate) bytes: u64,
    pub(crate) total_bytes: u64,
}

impl Counts {
    /// The counts for the version that `read` reads: the stored ones, if the change stream has all commits since, or a
    /// recount of all records.
    pub(crate) fn load(engine: &dyn Engine, read: &dyn Read) -> Result<Self, DataError> {
        let stored = Self::stored(read)?;
        let is_available = engine.stream_trimmed()? <= stored.version;
        match is_available && stored.version <= read.version() {
            true => Ok(stored),
            false => Self::count(read),
        }
    }

    /// Counts all records: O(nodes + relationships).
    pub(crate) fn count(read: &dyn Read) -> Result<Self, DataError> {
        let mut numbers = Deltas::default();
        each_record(read, TAG_NODE, |record| {
            numbers.add(Counted::Nodes, 1);
            record
                .labels()
                .for_each(|label| numbers.add(Counted::Label(label), 1));
            Ok(())
        })?;
        each_record(read, TAG_REL, |record| {
            let row = row_of(RelId(0), record)?;
            numbers.add(Counted::Relationships, 1);
            numbers.add(Counted::Type(row.type_id), 1);
            Ok(())
        })?;
        Ok(Self {
            version: read.version(),
            numbers,
            recent: VecDeque::new(),
            recent_from: read.version(),
        })
    }

    pub(crate) fn stored(read: &dyn Read) -> Result<Self, DataError> {
        let Some(value) = read.get(COUNTS)? else {
            return Ok(Self::default());
        };
        let mut rest = value.as_slice();
        let parsed = (|| {
            let version = take_id(&mut rest)?;
            let numbers = Deltas::take(&mut rest)?;
            rest.is_empty().then_some(Self {
                version,
                numbers,
                recent: VecDeque::new(),
                recent_from: version,
            })
        })();
        parsed.ok_or_else(|| DataError::corrupt("the stored counts are malformed"))
    }

    /// Applies reported commits up to `version`, and reads the change stream for the others.
    pub(crate) fn advance(
        &mut self,
        engine: &dyn Engine,
        reports: &ReportedCounts,
        version: Version,
    ) -> Result<(), DataError> {
        while !self.advance_by(engine, reports, version, MAX_PIECE)? {}
        Ok(())
    }

    /// The same, for at most one piece of the stream. Returns whether `version` was reached.
    pub(crate) fn advance_by(
        &mut self,
        engine: &dyn Engine,
        reports: &ReportedCounts,
        version: Version,
        piece: Piece,
    ) -> Result<bool, DataError> {
        let reported_after = reports.0.lock().after;
        let read_upto = reported_after.map_or(version, |after| after.min(version));
        if self.version < read_upto {
            // Later commits are reported, and there may be many.
            let versions = usize::try_from(read_upto - self.version).unwrap_or(usize::MAX);
            let most = piece.entries.min(versions);
            let entries = engine.stream(self.version, most, piece.bytes, false)?;
            // Another process may have trimmed what is missing here, after it has stored newer counts.
            if engine.stream_trimmed()? > self.version {
                *self = Self::load(engine, &*engine.snapshot()?)?;
                return Ok(false);
            }
            let is_far = entries.last().is_none_or(|last| last.version >= read_upto);
            for entry in entries {
                if entry.version > read_upto {
                    break;
                }
                self.apply(entry.version, codec::counts(&entry.bytes)?);
                self.version = entry.version;
            }
            if !is_far {
                return Ok(false);
            }
            self.version = read_upto;
        }
        let reports = reports.0.lock();
        // A reported commit turned out not to have happened: the caller reads the stream instead.
        if reports.after != reported_after {
            return Ok(false);
        }
        self.take(reports, version);
        // The commits in between do not change the counts.
        self.version = self.version.max(version);
        while self.recent.len() > RECENT {
            if let Some((version, _)) = self.recent.pop_front() {
                self.recent_from = version;
            }
        }
        Ok(true)
    }

    /// Takes the reported commits up to `version`, except those that were read from the stream.
    pub(crate) fn take(&mut self, mut reports: MutexGuard<'_, Reports>, version: Version) {
        if let Some((upto, sum)) = reports.summed.take()
            && upto > self.version
        {
            // Versions before it are not known any more.
            sum.iter()
                .for_each(|(counted, change)| self.numbers.add(counted, change));
            self.recent.clear();
            (self.version, self.recent_from) = (upto, upto);
        }
        while let Some((reported_version, _)) = reports.changes.front()
            && *reported_version <= version
        {
            if let Some((reported_version, changes)) = reports.changes.pop_front()
                && reported_version > self.version
            {
                self.apply(reported_version, changes);
            }
        }
    }

    pub(crate) fn apply(&mut self, version: Version, changes: Deltas) {
        changes
            .iter()
            .for_each(|(counted, change)| self.numbers.add(counted, change));
        if !changes.is_empty() {
            self.recent.push_back((version, changes));
        }
    }

    /// One count at `version`; `None` if that is too old.
    pub(crate) fn at(&self, counted: Counted, version: Version) -> Option<u64> {
        if version < self.recent_from {
            return None;
        }
        let later = self
            .recent
            .iter()
            .rev()
            .take_while(|(changed, _)| *changed > version);
        let change: i64 = later.map(|(_, changes)| changes.get(counted)).sum();
        u64::try_from(self.numbers.get(counted) - change).ok()
    }

    pub(crate) fn value(&self) -> Vec<u8> {
        let mut value = Vec::new();
        push_id(&mut value, self.version);
        self.numbers.push(&mut value);
        value
    }
}

/// Calls `visit` with each record whose key begins with `tag`.
pub(crate) fn each_record(
    read: &dyn Read,
    tag: u8,
    mut visit: impl FnMut(&RecordRef<'_>) -> Result<(), DataError>,
) -> Result<(), DataError> {
    let (start, end) = ([tag], [tag + 1]);
    let range = KeyRange {
        start: &start,
        end: Some(&end),
    };
    let mut outcome = Ok(());
    read.visit(range, Order::Ascending, &mut |_, value| {
        let record = RecordRef::new(value).map_err(DataError::from);
        outcome = record.and_then(|record| visit(&record));
        match outcome {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    })?;
    outcome
}

/// The counts behind their lock.
pub(crate) type SharedCounts = Mutex<Counts>;

#[cfg(test)]
mod tests {
    use std::{ops::ControlFlow, sync::Arc};

    use isomer_storage::MemoryEngine;
    use isomer_value::{Map, Value};

    use super::*;
    use crate::{Access, DataStore, DataStoreOptions, Durability, GraphRead, consistency::check};

    fn create(store: &DataStore, count: u64) {
        for _ in 0..count {
            let mut tx = store.begin(Access::Write).unwrap();
            tx.graph_mut().create_node(&[], &Map::new()).unwrap();
            tx.commit_with(Durability::Buffered).unwrap();
        }
    }

    fn stored_version(store: &DataStore) -> Version {
        let snapshot = store.engine().snapshot().unwrap();
        Counts::stored(&*snapshot).unwrap().version
    }

    /// Saved counts are used only where the change stream continues from their version: otherwise all records are
    /// counted.
    #[test]
    fn counts_without_the_stream_behind_them_are_recounted() {
        let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
        let open = || DataStore::open(engine.clone(), DataStoreOptions::default()).unwrap();
        let store = open();
        create(&store, 30);
        store.counts().save().unwrap();
        create(&store, 20);
        let now = engine.version();
        drop(store);
        engine.trim_stream(now).unwrap();
        assert_eq!(open().counts().nodes_now(None), 50);

        // Saved at a version that does not exist: they belong to another state.
        let mut value = Vec::new();
        push_id(&mut value, now + 1_000);
        Deltas::default().push(&mut value);
        let mut tx = engine.begin().unwrap();
        tx.put(COUNTS, &value).unwrap();
        tx.commit(Durability::Buffered).unwrap();
        let store = open();
        assert_eq!(store.counts().nodes_now(None), 50);
        create(&store, 5);
        assert_eq!(store.counts().nodes_now(None), 55);
    }

    /// Reported commits are not read from the stream, however many; commits before opening are read in pieces,
    /// concurrently with new commits.
    #[test]
    fn no_commit_reads_much_of_the_stream() {
        let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
        let open = || DataStore::open(engine.clone(), DataStoreOptions::default()).unwrap();
        let one = Piece {
            entries: 1,
            bytes: 1,
        };
        let store = open();
        create(&store, 300);
        assert!(store.counts().save_by(one).unwrap());
        create(&store, 200);
        drop(store);

        let store = open();
        let mut pieces = 0;
        while !store.counts().save_by(one).unwrap() {
            pieces += 1;
            create(&store, 1);
        }
        assert!((199..=201).contains(&pieces), "{pieces} pieces");
        assert_eq!(store.counts().nodes_now(None), 500 + pieces);
        drop(store);

        // The commit at which they are to be stored, and the next ones, read the rest of them.
        let store = open();
        create(&store, COMMITS_BETWEEN_SAVES - 1);
        drop(store);
        let store = open();
        let opened = store.engine().version();
        create(&store, COMMITS_BETWEEN_SAVES);
        assert!(stored_version(&store) < opened);
        create(
            &store,
            COMMITS_BETWEEN_SAVES / SMALL_PIECE.entries as u64 + 1,
        );
        assert!(stored_version(&store) > opened + COMMITS_BETWEEN_SAVES);
        let count = store.counts().nodes_now(None);
        drop(store);
        assert_eq!(open().counts().nodes_now(None), count);
    }
    /// The stored counts and the change stream after them give the current counts.
    #[test]
    fn counts_survive_saving_trimming_and_reopening() {
        let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
        let options = DataStoreOptions {
            stream_retention: 5,
            ..DataStoreOptions::default()
        };
        let store = DataStore::open(engine.clone(), options.clone()).unwrap();
        for number in 0..COMMITS_BETWEEN_SAVES + 50 {
            let mut tx = store.begin(Access::Write).unwrap();
            tx.documents_mut()
                .insert(
                    "P",
                    &[("n", Value::Int(number as i64))].into_iter().collect(),
                )
                .unwrap();
            tx.commit().unwrap();
        }
        assert!(engine.statistics().unwrap().stream_entries < 200);
        let reopened = DataStore::open(engine, options).unwrap();
        let tx = reopened.begin(Access::Read).unwrap();
        assert_eq!(
            tx.exact_node_count(tx.catalog().label_id("P")).unwrap(),
            COMMITS_BETWEEN_SAVES + 50
        );
        assert_eq!(
            check(&reopened, &mut |_, _| ControlFlow::Continue(())).unwrap(),
            Vec::<String>::new()
        );
    }
}
