//! Commits of other processes on a shared database: what this process caches of the database is corrected before such
//! a commit is visible here.
//!
//! Everything here runs while the engine applies a commit: it takes only locks that no thread holds while it calls
//! the engine, and does not call the engine.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, Ordering},
};

use isomer_layout::{
    DataError,
    catalog::{
        keepers::{self, Keepers},
        names::NameTables,
    },
    keyspace::{
        self, GIVEN_UP, KEEPERS, NUMBERS, TAG_BUCKET, TAG_CONVERGENT_PROPERTY, TAG_EXTENT,
        TAG_NAME, TAG_NODE, TAG_OWN_NUMBER, TAG_REPLICA, TAG_RESERVED, TAG_SCHEMA, TAG_SEEN,
    },
    stream::change::{Change, ChangeSet},
};
use isomer_storage::{Commit, Version, WriteSet};
use isomer_value::{LabelId, record::RecordRef};
use parking_lot::{Mutex, RwLock};

use crate::{
    convergent::replica::OwnReplica,
    counts::SinceSave,
    current_schema::CurrentSchema,
    extents::Extents,
    kv::{BucketCache, Sequences, signal::Signal},
    statistics::{Changed, Statistics},
};

/// What an open store caches of the database, apart from what observers keep.
pub(crate) struct Caches {
    pub(crate) names: Arc<NameTables>,
    pub(crate) schema: Arc<CurrentSchema>,
    pub(crate) nodes: Arc<Extents>,
    pub(crate) relationships: Arc<Extents>,
    pub(crate) keepers: Arc<RwLock<Keepers>>,
    pub(crate) bucket_cache: Arc<BucketCache>,
    pub(crate) sequences: Arc<Sequences>,
    pub(crate) statistics: Arc<Statistics>,
    pub(crate) own_replica: Arc<OwnReplica>,
    pub(crate) since_save: Arc<Mutex<SinceSave>>,
    pub(crate) signal: Arc<Signal>,
}

/// The part of a commit that concerns caches, kept while the store is being opened.
struct DelayedCommit {
    version: Version,
    writes: WriteSet,
    stream: Vec<u8>,
}

enum State {
    /// The caches are being loaded: later commits wait.
    Opening(Vec<DelayedCommit>),
    Open(Caches),
}

/// Follows the commits of other processes.
pub(crate) struct Remote {
    state: RwLock<State>,
    /// Why the caches are not right any more.
    damage: OnceLock<String>,
    is_damaged: AtomicBool,
}

impl Default for Remote {
    fn default() -> Self {
        Self {
            state: RwLock::new(State::Opening(Vec::new())),
            damage: OnceLock::new(),
            is_damaged: AtomicBool::new(false),
        }
    }
}

impl Remote {
    /// The caches are loaded as of `version`: later commits are applied to them.
    pub(crate) fn open(&self, caches: Caches, version: Version) {
        let mut state = self.state.write();
        if let State::Opening(kept) = &*state {
            for one in kept.iter().filter(|one| one.version > version) {
                let commit = Commit {
                    version: one.version,
                    writes: &one.writes,
                    stream: &one.stream,
                };
                self.apply(&caches, &commit);
            }
        }
        *state = State::Open(caches);
    }

    /// A commit of another process is about to become visible.
    pub(crate) fn committing(&self, commit: &Commit<'_>) {
        if let State::Open(caches) = &*self.state.read() {
            self.apply(caches, commit);
            return;
        }
        match &mut *self.state.write() {
            State::Open(caches) => self.apply(caches, commit),
            State::Opening(kept) => kept.push(DelayedCommit::of(commit)),
        }
    }

    /// A commit of another process, of which the observers have heard, too, is about to become visible: threads
    /// that wait for commits look.
    pub(crate) fn announce(&self, version: Version) {
        if let State::Open(caches) = &*self.state.read() {
            caches.signal.announce(version);
        }
    }

    /// Refuses transactions once a commit of another process could not be read.
    pub(crate) fn check(&self) -> Result<(), DataError> {
        if !self.is_damaged.load(Ordering::Acquire) {
            return Ok(());
        }
        let damage = self.damage.get().cloned().unwrap_or_default();
        Err(DataError::corrupt(format!(
            "a commit of another process cannot be read ({damage}): open the database again, and check it"
        )))
    }

    fn apply(&self, caches: &Caches, commit: &Commit<'_>) {
        if let Err(error) = caches.apply(commit) {
            // The first one is the cause of the others.
            let _ = self.damage.set(error.to_string());
            self.is_damaged.store(true, Ordering::Release);
        }
    }
}

impl DelayedCommit {
    fn of(commit: &Commit<'_>) -> Self {
        let mut writes = WriteSet::new();
        commit
            .writes
            .deleted_ranges()
            .for_each(|range| writes.delete_range(range));
        for (key, value) in commit.writes.slots() {
            match value {
                Some(value) => writes.put(key, value),
                None => writes.delete(key),
            }
        }
        Self {
            version: commit.version,
            writes,
            stream: commit.stream.to_vec(),
        }
    }
}

impl Caches {
    fn apply(&self, commit: &Commit<'_>) -> Result<(), DataError> {
        self.since_save.lock().total_bytes += commit.stream.len() as u64;
        let mut schema = Vec::new();
        let mut changed_buckets = has_bucket_in_range(commit.writes);
        // Whether an operation of the stream is of interest.
        let mut has_operations = changed_buckets;
        for (key, value) in commit.writes.slots() {
            match (key[0], value) {
                (TAG_NAME, Some(value)) => self.names.enter_stored(key, value)?,
                (TAG_SCHEMA, value) => schema.push((key, value)),
                (TAG_EXTENT, Some(value)) => {
                    self.extents(key, |all| all.enter_extent(key, value))?
                }
                (TAG_RESERVED, Some(value)) => self.extents(key, |all| all.enter_end(value))?,
                (TAG_NODE, Some(_)) => has_operations = true,
                (TAG_BUCKET, _) => changed_buckets = true,
                (TAG_OWN_NUMBER, Some(_)) => has_operations = true,
                (TAG_REPLICA | TAG_SEEN, Some(value)) => {
                    self.own_replica
                        .apply_remote_change(commit.version, key, value)?;
                }
                (_, Some(value)) if key == NUMBERS => {
                    self.own_replica
                        .apply_remote_change(commit.version, key, value)?;
                }
                (TAG_CONVERGENT_PROPERTY, Some(_)) => self.own_replica.enter_stored(key)?,
                (_, value) if key.starts_with(KEEPERS) => {
                    keepers::enter(&mut self.keepers.write(), key, value)?;
                }
                (_, value) if key.starts_with(GIVEN_UP) => {
                    self.own_replica.give_up_stored(key, value.is_some())?;
                }
                _ => {}
            }
        }
        if changed_buckets {
            self.bucket_cache.changed(commit.version);
        }
        if !schema.is_empty() {
            self.schema.enter(commit.version, &schema)?;
        }
        if has_operations && !commit.stream.is_empty() {
            self.operations(commit)?;
        }
        Ok(())
    }

    fn extents(
        &self,
        key: &[u8],
        enter: impl FnOnce(&Extents) -> Result<(), DataError>,
    ) -> Result<(), DataError> {
        let mut all = [&self.nodes, &self.relationships].into_iter();
        all.find(|all| all.has_key(key))
            .map_or(Ok(()), |all| enter(all))
    }

    /// What the operations of the change stream say beyond the writes.
    fn operations(&self, commit: &Commit<'_>) -> Result<(), DataError> {
        let mut changed = Changed::default();
        for change in ChangeSet::changes_in(commit.stream)? {
            match change? {
                Change::NodeChanged {
                    id,
                    labels_added,
                    labels_removed,
                    ..
                } => {
                    if let Some(Some(record)) = commit.writes.get(&keyspace::node(id)) {
                        let labels: Vec<LabelId> = RecordRef::new(record)?.labels().collect();
                        changed.node(&labels, labels_added.len() + labels_removed.len());
                    }
                }
                Change::BucketDropped { bucket } => {
                    let name = self
                        .names
                        .name(isomer_layout::catalog::names::NameKind::Bucket, bucket);
                    self.sequences.note_dropped(name);
                }
                Change::ConvergedBy { time, .. } => self.own_replica.advance_time(time),
                _ => {}
            }
        }
        self.statistics.committed(changed);
        Ok(())
    }
}

/// Whether definitions of buckets are among the deleted ranges.
fn has_bucket_in_range(writes: &WriteSet) -> bool {
    let (first, behind) = ([TAG_BUCKET], [TAG_BUCKET + 1]);
    writes.deleted_ranges().any(|range| {
        range.start < behind.as_slice() && range.end.is_none_or(|end| end > first.as_slice())
    })
}
