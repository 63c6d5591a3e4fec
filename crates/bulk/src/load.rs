//! What is loaded, the options and the progress of a load, and its second phase.

use std::{io, ops::ControlFlow, sync::Arc};

use isomer_data::{
    Change, ChangeSet, DataError, DataStore, Ingest, LoadSinks, Loading, RecordScope, SpillFolder,
};
use isomer_layout::graph::state::KEY;
use isomer_storage::{MemoryKind, Reservation, StorageError, Version};
use isomer_value::{LabelId, Map, PropId, TypeId, Value, record::RecordRef};

use crate::{pipeline::Pair, sorter::Spooled};

/// A node to be loaded.
#[derive(Clone, Debug)]
pub struct BulkNode {
    /// Its number in the input, for messages.
    pub row: u64,
    /// Its properties; `_key` among them where it has one.
    pub properties: Map,
}

/// A relationship to be loaded.
#[derive(Clone, Debug)]
pub struct BulkRelationship {
    /// Its number in the input, for messages.
    pub row: u64,
    /// `_key` of the node where it starts.
    pub source: Value,
    /// `_key` of the node where it ends.
    pub target: Value,
    /// Its properties.
    pub properties: Map,
}

/// Which relationships are loaded.
#[derive(Clone, Copy, Debug)]
pub struct BulkEnds<'a> {
    /// Their type.
    pub rel_type: &'a str,
    /// The label in which sources are looked up.
    pub from: &'a str,
    /// The label in which targets are looked up.
    pub to: &'a str,
}

/// How much memory a load may take.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct BulkOptions {
    /// Bytes of memory for rows that wait to be written. A quarter of the store's budget if absent, or what is free of
    /// it where that is less. What does not fit goes to the store's spill folder.
    pub memory_bytes: Option<usize>,
}

/// The memory budget of one load, and the folder to which it spills.
pub(crate) struct LoadMemory {
    pub(crate) bytes: usize,
    pub(crate) spill: Arc<SpillFolder>,
    _reservation: Reservation,
}

/// Below this a load is refused: it would be too slow.
const MIN_LOAD_BYTES: usize = 1 << 20;

impl LoadMemory {
    /// Reserves a load's memory from the store's budget.
    pub(crate) fn take(store: &DataStore, options: &BulkOptions) -> Result<Self, DataError> {
        let memory = store.memory();
        let mut bytes = options.memory_bytes.unwrap_or(memory.total_bytes() / 4);
        let reservation = loop {
            match memory.reserve(MemoryKind::Import, bytes) {
                Ok(reservation) => break reservation,
                Err(_) if bytes / 2 >= MIN_LOAD_BYTES => bytes /= 2,
                Err(over) => return Err(over.into()),
            }
        };
        Ok(Self {
            bytes,
            spill: store.spill_folder().clone(),
            _reservation: reservation,
        })
    }
}

/// What a load is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BulkPhase {
    /// Reading rows.
    Reading,
    /// Writing pairs.
    Writing,
}

/// Receives the progress of a load, and the rows that it refuses.
pub trait BulkWatch {
    /// A row that cannot be loaded: bad key, duplicate key, missing end, broken constraint. `Continue` leaves it out,
    /// `Break` makes `error` the result of the load.
    fn rejected(&mut self, row: u64, error: &DataError) -> ControlFlow<()> {
        let _ = (row, error);
        ControlFlow::Break(())
    }

    /// Called every few thousand rows or pairs. `Break` cancels the load; nothing of it is kept.
    fn progress(&mut self, phase: BulkPhase, done: u64, total: Option<u64>) -> ControlFlow<()> {
        let _ = (phase, done, total);
        ControlFlow::Continue(())
    }
}

/// Stops at the first bad row and ignores progress.
impl BulkWatch for () {}

/// What a load did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BulkOutcome {
    /// Records loaded.
    pub loaded: u64,
    /// Rows left out.
    pub rejected: u64,
    /// The version at which the records are visible.
    pub version: Version,
}

/// Rows or pairs between two calls of [`BulkWatch::progress`].
pub(crate) const REPORT_EVERY: u64 = 8192;

/// What must not change between the phases.
pub(crate) enum Precondition {
    /// No node joined the label or changed a key; where `unique`, no node changed at all.
    Label { label: LabelId, unique: bool },
    /// No node was deleted and no key changed; no relationship of the type `unique` was created or changed.
    Ends { unique: Option<TypeId> },
}

/// What the second phase writes, in addition to the pairs.
pub(crate) struct Load {
    pub(crate) since: Version,
    pub(crate) precondition: Precondition,
    pub(crate) loading: Loading,
    /// An estimate for the progress: index entries are not counted.
    pub(crate) pairs_at_least: u64,
}

/// The records of a load in the order of their rows. Ids are numbered from the first one on, without gaps for the rows
/// that are refused.
pub(super) struct NumberedRecords {
    first: u64,
    /// Numbers of the refused rows, ascending.
    refused: Vec<u64>,
    records: Spooled,
    /// The number of the next record's row.
    number: u64,
}

impl NumberedRecords {
    pub(super) fn new(first: u64, refused: Vec<u64>, records: Spooled) -> Self {
        Self {
            first,
            refused,
            records,
            number: 0,
        }
    }

    /// The id of row `number`; none if the row was refused. O(log of the refused rows).
    pub(super) fn id(&self, number: u64) -> Option<u64> {
        match self.refused.binary_search(&number) {
            Ok(_) => None,
            Err(before) => Some(self.first + number - before as u64),
        }
    }
}

impl Iterator for NumberedRecords {
    type Item = io::Result<(u64, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let record = self.records.next()?;
            let id = self.id(self.number);
            self.number += 1;
            match (record, id) {
                (Ok(record), Some(id)) => return Some(Ok((id, record))),
                (Ok(_), None) => {}
                (Err(error), _) => return Some(Err(error)),
            }
        }
    }
}

/// A load's pairs in key order, shown to its sinks as they are written.
pub(crate) trait LoadPairs: Iterator<Item = Pair> + Send {
    fn sinks(&mut self) -> &mut LoadSinks;
}

/// Hands the pairs to the engine as one commit, with other commits blocked.
pub(crate) fn write_pairs(
    ingest: &Ingest,
    load: &Load,
    pairs: &mut impl LoadPairs,
    watch: &mut dyn BulkWatch,
) -> Result<Version, DataError> {
    let alone = ingest.block_commits();
    check_unchanged(ingest.store(), load.since, &load.precondition)?;
    if !alone.is_alone(&load.loading)? {
        pairs.sinks().each(|sink| sink.not_alone());
    }
    let first = alone.is_first(&load.loading)?;
    let mut done = 0;
    let mut cancelled = false;
    let mut last_key = None;
    let ingested = crate::pipeline::made_ahead(pairs, |pairs| {
        let mut watched = pairs.map(|pair| {
            assert_ascending(&mut last_key, &pair);
            done += 1;
            if done % REPORT_EVERY == 0
                && watch
                    .progress(BulkPhase::Writing, done, Some(load.pairs_at_least))
                    .is_break()
            {
                cancelled = true;
                return Err(StorageError::Invalid("the load was cancelled".into()));
            }
            pair
        });
        alone.ingest(&load.loading, &mut watched)
    });
    match ingested {
        Ok(version) => {
            std::mem::take(pairs.sinks()).loaded(version, first);
            Ok(version)
        }
        Err(_) if cancelled => Err(DataError::Cancelled),
        Err(error) => Err(error),
    }
}

/// The engine writes tables from the pairs as they come, so each key must be above the one before. The engine refuses
/// others; here the fault is this crate's.
fn assert_ascending(last_key: &mut Option<Vec<u8>>, pair: &Pair) {
    if cfg!(debug_assertions)
        && let Ok((key, _)) = pair
    {
        let last = last_key.replace(key.clone());
        assert!(
            last.is_none_or(|last| last < *key),
            "the pairs of a load do not ascend"
        );
    }
}

/// Refuses where the preconditions of the load changed since `version`. The caller blocks commits.
fn check_unchanged(
    store: &DataStore,
    since: Version,
    precondition: &Precondition,
) -> Result<(), DataError> {
    let key_prop = store.catalog().prop_id(KEY);
    let mut after = since;
    loop {
        let entries = store.change_stream().after(after, 256, 8 << 20, false)?;
        let Some(last) = entries.last() else {
            return Ok(());
        };
        after = last.version;
        for entry in &entries {
            for change in ChangeSet::changes_in(&entry.bytes)? {
                if precondition.collides(&change?, key_prop)? {
                    let what = "records or indexes that the load relied on".to_owned();
                    return Err(DataError::Conflict {
                        what,
                        version: entry.version,
                    });
                }
            }
        }
    }
}

impl Precondition {
    /// Whether a change breaks it; `key_prop` is the number of `_key`.
    fn collides(&self, change: &Change<'_>, key_prop: Option<PropId>) -> Result<bool, DataError> {
        let keyed = |prop: PropId| Some(prop) == key_prop;
        Ok(match (change, self) {
            (Change::SchemaChanged { .. }, _) => true,
            (Change::NodeCreated { record, .. }, Self::Label { label, .. }) => {
                RecordRef::new(record)?.has_label(*label)
            }
            (Change::NodesLoaded { label: loaded, .. }, Self::Label { label, .. }) => {
                loaded == label
            }
            (
                Change::NodeChanged {
                    labels_added, set, ..
                },
                Self::Label { label, unique },
            ) => {
                *unique || labels_added.contains(label) || set.iter().any(|(prop, _)| keyed(*prop))
            }
            (Change::NodeDeleted { .. }, Self::Ends { .. }) => true,
            (
                Change::NodeChanged {
                    labels_removed,
                    set,
                    removed,
                    ..
                },
                Self::Ends { .. },
            ) => {
                !labels_removed.is_empty()
                    || set.iter().any(|(prop, _)| keyed(*prop))
                    || removed.iter().any(|prop| keyed(*prop))
            }
            (Change::RelationshipCreated { record, .. }, Self::Ends { unique: Some(own) }) => {
                RecordScope::Type(*own).covers(&RecordRef::new(record)?)
            }
            (
                Change::RelationshipChanged { type_id, .. }
                | Change::RelationshipsLoaded { type_id, .. },
                Self::Ends { unique: Some(own) },
            ) => type_id == own,
            _ => false,
        })
    }
}

/// A random seed for the hashes of keys: they are not stored, and no result depends on them.
pub(crate) fn own_seed() -> u64 {
    use std::hash::{BuildHasher as _, RandomState};
    RandomState::new().hash_one(0)
}
