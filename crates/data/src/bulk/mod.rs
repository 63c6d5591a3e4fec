//! Loading in bulk: past the transaction path, sorted, all or nothing, in bounded memory.
//!
//! A load has two phases. **Reading** takes the rows, checks them, finds the ends of relationships, encodes the records
//! and sorts what must be sorted (keys, index entries, adjacency), in memory up to a budget and in runs on disk beyond.
//! The database stays open to everybody. **Writing** hands one ascending sequence of pairs to the engine, which makes
//! one commit of it; other writers wait for that long. If what the first phase relied on changed in between (a new
//! record of the label, a deleted end, an index), the load is refused with a conflict and nothing has happened.

mod links;
mod nodes;
mod pipeline;
mod relationships;
mod sorter;
mod uniques;

pub use nodes::KeyTypes;

use std::sync::Arc;

use isomer_storage::{MemoryKind, Reservation, StorageError, Version};
use isomer_value::{LabelId, Map, Value, record::RecordRef};

use crate::{Change, ChangeSet, DataError, SpillFolder, Store, observer::Sinks, stream::Counted};

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

/// The memory of one load, and where it goes on beyond.
struct Room {
    bytes: usize,
    spill: Arc<SpillFolder>,
    _reservation: Reservation,
}

/// A load is refused rather than begun with less: it would crawl.
const LEAST_LOAD_BYTES: usize = 1 << 20;

impl Room {
    /// Takes a load's memory from the store's budget.
    fn take(store: &Store, options: &BulkOptions) -> Result<Self, DataError> {
        let memory = store.memory();
        let mut bytes = options.memory_bytes.unwrap_or(memory.total_bytes() / 4);
        let reservation = loop {
            match memory.reserve(MemoryKind::Import, bytes) {
                Ok(reservation) => break reservation,
                Err(_) if bytes / 2 >= LEAST_LOAD_BYTES => bytes /= 2,
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

/// Whether a load goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Leave the row out and go on.
    Continue,
    /// Stop; nothing is loaded.
    Stop,
}

/// Who is told of a load's course.
pub trait BulkWatch {
    /// A row that cannot be loaded: bad key, duplicate key, missing end, broken constraint. `Stop` makes `error` the
    /// load's answer.
    fn rejected(&mut self, row: u64, error: &DataError) -> Verdict {
        let _ = (row, error);
        Verdict::Stop
    }

    /// Called every few thousand rows or pairs. `Stop` cancels the load.
    fn progress(&mut self, phase: BulkPhase, done: u64, total: Option<u64>) -> Verdict {
        let _ = (phase, done, total);
        Verdict::Continue
    }
}

/// Stops at the first bad row and shows nothing.
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
const REPORT_EVERY: u64 = 8192;

/// What must not have changed between the phases.
enum Relied {
    /// No node joined the label or changed a key; where `unique`, no node changed at all.
    Label { label: LabelId, unique: bool },
    /// No node was deleted and no key changed.
    Ends,
}

/// What the second phase writes, beside the pairs.
struct Load {
    since: Version,
    relied: Relied,
    /// What its records are counted as, of themselves and together with others.
    counted: (Counted, Counted),
    entry: Vec<u8>,
    /// For the progress: there may be more, index entries are not counted.
    pairs_at_least: u64,
}

/// A load's pairs in key order, shown to its sinks as they pass.
trait LoadPairs: Iterator<Item = pipeline::Pair> + Send {
    fn sinks(&mut self) -> &mut Sinks;
}

impl Store {
    /// Hands the pairs to the engine as one commit, with other commits kept out.
    fn ingest(
        &self,
        load: &Load,
        pairs: &mut impl LoadPairs,
        watch: &mut dyn BulkWatch,
    ) -> Result<Version, DataError> {
        let alone = self.shared().gate.write();
        self.check_unchanged(load.since, &load.relied)?;
        if self.count_now(load.counted.0)? > 0 {
            pairs.sinks().each(|sink| sink.not_alone());
        }
        let first = self.count_now(load.counted.1)? == 0;
        let mut done = 0;
        let mut cancelled = false;
        let ingested = pipeline::made_ahead(pairs, |pairs| {
            let mut watched = pairs.map(|pair| {
                done += 1;
                if done % REPORT_EVERY == 0
                    && watch.progress(BulkPhase::Writing, done, Some(load.pairs_at_least))
                        == Verdict::Stop
                {
                    cancelled = true;
                    return Err(StorageError::Invalid("the load was cancelled".into()));
                }
                pair
            });
            self.engine().ingest(&mut watched, Some(&load.entry))
        });
        drop(alone);
        match ingested {
            Ok(version) => {
                self.committed(load.entry.len());
                std::mem::take(pairs.sinks()).loaded(version, first);
                Ok(version)
            }
            Err(_) if cancelled => Err(DataError::Cancelled),
            Err(error) => Err(error.into()),
        }
    }

    /// Refuses where what the load relied on changed since `version`. The caller keeps commits out.
    fn check_unchanged(&self, since: Version, relied: &Relied) -> Result<(), DataError> {
        let key_prop = self.catalog().prop_id(crate::graph::KEY);
        let mut after = since;
        loop {
            let entries = self.stream_after(after, 256, 8 << 20, false)?;
            let Some(last) = entries.last() else {
                return Ok(());
            };
            after = last.version;
            for entry in &entries {
                for change in ChangeSet::decode(&entry.bytes)?.changes {
                    let collides = match (&change, relied) {
                        (Change::SchemaChanged { .. }, _) => true,
                        (Change::NodeCreated { record, .. }, Relied::Label { label, .. }) => {
                            RecordRef::new(record)?.has_label(*label)
                        }
                        (
                            Change::NodesLoaded { label: loaded, .. },
                            Relied::Label { label, .. },
                        ) => loaded == label,
                        (
                            Change::NodeChanged {
                                labels_added, set, ..
                            },
                            Relied::Label { label, unique },
                        ) => {
                            *unique
                                || labels_added.contains(label)
                                || set.iter().any(|(prop, _)| Some(*prop) == key_prop)
                        }
                        (Change::NodeDeleted { .. }, Relied::Ends) => true,
                        (
                            Change::NodeChanged {
                                labels_removed,
                                set,
                                removed,
                                ..
                            },
                            Relied::Ends,
                        ) => {
                            let keyed = |prop| Some(prop) == key_prop;
                            !labels_removed.is_empty()
                                || set.iter().any(|(prop, _)| keyed(*prop))
                                || removed.iter().any(|prop| keyed(*prop))
                        }
                        _ => false,
                    };
                    if collides {
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
}

/// A seed for the hashes by which a load tells keys apart, drawn anew: they are not kept, and no answer depends on them.
fn own_seed() -> u64 {
    use std::hash::{BuildHasher as _, RandomState};
    RandomState::new().hash_one(0)
}
