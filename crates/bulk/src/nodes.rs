//! Loading nodes of one label.

use std::{
    cmp::Ordering,
    io::{self, Read, Write},
    sync::Arc,
};

use isomer_data::{
    Access, DataError, DataStore, GraphRead, Ingest, LoadSinks, Loading, SpillFolder, Transaction,
    after_prefix,
};
use isomer_layout::{
    graph::{
        key::encode_key,
        state::{EntryOwner, KEY, NodeState},
    },
    index::IndexEntry,
    keyspace::{self, push_id},
    properties::{brief, without_nulls},
};
use isomer_storage::StorageError;
use isomer_value::{LabelId, NodeId, Value, key, record::RecordBuilder};
use xxhash_rust::xxh3::xxh3_128_with_seed;

use crate::{
    entries::{LoadedScope, repeated_value},
    load::{
        BulkNode, BulkOptions, BulkOutcome, BulkWatch, Load, LoadMemory, LoadPairs,
        NumberedRecords, Precondition, write_pairs,
    },
    pipeline::read_rows,
    sorter::{Sortable, Sorted, Sorter, Spool, read_bytes, write_bytes},
    uniques::{Claim, Refused, Uniques},
};

/// A key or index entry of the node with a number in this load; sorts like the stored key.
struct Placed {
    prefix: Vec<u8>,
    number: u64,
}

impl PartialEq for Placed {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Placed {}

impl PartialOrd for Placed {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Placed {
    fn cmp(&self, other: &Self) -> Ordering {
        self.prefix
            .cmp(&other.prefix)
            .then(self.number.cmp(&other.number))
    }
}

impl Sortable for Placed {
    fn heap_bytes(&self) -> usize {
        self.prefix.capacity() + 16
    }

    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        out.write_all(&self.number.to_le_bytes())?;
        write_bytes(out, &self.prefix)
    }

    fn read(input: &mut impl Read) -> io::Result<Self> {
        let mut number = [0; 8];
        input.read_exact(&mut number)?;
        Ok(Self {
            prefix: read_bytes(input)?,
            number: u64::from_le_bytes(number),
        })
    }
}

/// The first phase.
struct Reading<'a> {
    ingest: &'a Ingest,
    tx: Transaction,
    label: LabelId,
    scope: LoadedScope,
    uniques: Uniques,
    room: LoadMemory,
    records: Spool,
    keys: Sorter<Placed>,
    entries: Sorter<Placed>,
}

/// Loads nodes of one label, all or nothing. `rows` is read to its end first; an error in it ends the load.
///
/// # Errors
/// The first row's error that `watch` stops at, [`DataError::Cancelled`] if its progress does,
/// [`DataError::Conflict`] if other writers changed the label during the load.
pub fn load_nodes(
    store: &DataStore,
    label: &str,
    options: &BulkOptions,
    rows: &mut dyn Iterator<Item = Result<BulkNode, DataError>>,
    watch: &mut dyn BulkWatch,
) -> Result<BulkOutcome, DataError> {
    let ingest = store.begin_ingest()?;
    let label = ingest.label(label)?;
    let tx = store.begin(Access::Read)?;
    let since = tx.version();
    let room = LoadMemory::take(store, options)?;
    let share = room.bytes / 4;
    let mut reading = Reading {
        ingest: &ingest,
        label,
        scope: LoadedScope::new(label.into(), tx.exact_node_count(Some(label))? > 0),
        tx,
        uniques: Uniques::new(share, &room.spill),
        records: Spool::new(share, &room.spill),
        keys: Sorter::new(share, &room.spill),
        entries: Sorter::new(share, &room.spill),
        room,
    };
    let mut outcome = BulkOutcome {
        version: since,
        ..BulkOutcome::default()
    };
    let take = |row: &BulkNode| reading.take(row);
    outcome.rejected = read_rows(rows, watch, take, |row| row.row)?;
    let refused = reading.refuse_late(watch)?;
    outcome.rejected += refused.len() as u64;
    outcome.loaded = reading.records.len() - refused.len() as u64;
    if outcome.loaded > 0 {
        outcome.version = reading.write(refused, watch)?;
    }
    Ok(outcome)
}

impl Reading<'_> {
    /// Takes one row. The inner error is the row's, the outer one the load's.
    fn take(&mut self, row: &BulkNode) -> Result<Result<(), DataError>, DataError> {
        let state = NodeState {
            labels: vec![self.label],
            properties: without_nulls(&row.properties),
        };
        let checked = match self.check(&state) {
            Ok(checked) => checked,
            Err(error) if matches!(error, DataError::Storage(_) | DataError::Corrupt { .. }) => {
                return Err(error);
            }
            Err(error) => return Ok(Err(error)),
        };
        let number = self.records.len();
        let spilled = (|| {
            self.records.push(&checked.record)?;
            if let Some(prefix) = checked.key {
                self.keys.push(Placed { prefix, number })?;
            }
            for entry in checked.entries {
                self.entries.push(Placed {
                    prefix: entry.prefix(),
                    number,
                })?;
            }
            self.uniques.take(number, row.row, checked.claims)
        })();
        spilled.map_err(|error: io::Error| self.room.spill.explain(&error))?;
        Ok(Ok(()))
    }

    /// Rows that turn out to repeat an earlier one only after sorting: their numbers, ascending.
    fn refuse_late(&mut self, watch: &mut dyn BulkWatch) -> Result<Vec<u64>, DataError> {
        let none = Uniques::new(0, &self.room.spill);
        let mut numbers = Vec::new();
        for refused in std::mem::replace(&mut self.uniques, none).finish()? {
            let error = self.repeated(&refused);
            if watch.rejected(refused.row, &error).is_break() {
                return Err(error);
            }
            numbers.push(refused.number);
        }
        Ok(numbers)
    }

    fn repeated(&self, refused: &Refused) -> DataError {
        let value = refused.value.clone();
        match refused.place.checked_sub(1) {
            None => DataError::KeyExists {
                label: self.label_name(),
                key: value,
            },
            Some(place) => repeated_value(self.tx.names(), place, refused),
        }
    }

    fn label_name(&self) -> String {
        let name = self.tx.names().label_name(self.label);
        name.unwrap_or_default().to_string()
    }

    fn check(&self, state: &NodeState) -> Result<Checked, DataError> {
        let catalog = self.tx.names();
        let mut claims = Vec::new();
        let mut key = None;
        if let Some(value) = state.properties.get(KEY) {
            let encoded = encode_key(value)?;
            let prefix = [keyspace::keys_of(self.label), encoded].concat();
            let hash = xxh3_128_with_seed(&prefix, self.scope.seed);
            if self.uniques.is_taken(hash)
                || self.scope.occupied && self.tx.node_by_key(self.label, value)?.is_some()
            {
                return Err(DataError::KeyExists {
                    label: self.label_name(),
                    key: brief(value),
                });
            }
            claims.push(Claim {
                hash,
                place: 0,
                value: brief(value),
            });
            key = Some(prefix);
        }
        catalog.check_new_node(state)?;
        let entries =
            self.scope
                .entries(&self.tx, &state.properties, &self.uniques, &mut claims)?;
        let builder = RecordBuilder::node(&state.labels);
        Ok(Checked {
            record: self.ingest.encode(builder, &state.properties)?,
            key,
            entries,
            claims,
        })
    }

    /// The second phase.
    fn write(self, refused: Vec<u64>, watch: &mut dyn BulkWatch) -> Result<u64, DataError> {
        let Self {
            ingest,
            tx,
            label,
            scope,
            records,
            keys,
            entries,
            room,
            ..
        } = self;
        let count = records.len() - refused.len() as u64;
        let catalog = tx.names().clone();
        let unique = scope.has_unique(&catalog);
        let since = tx.version();
        drop(tx);
        let failed = |error: io::Error| room.spill.explain(&error);
        let first = ingest.reserve_nodes(label, count)?;
        let loading = Loading::Nodes {
            label,
            first,
            count,
        };
        let mut pairs = Pairs {
            sinks: ingest.sinks(&loading),
            label,
            spill: room.spill.clone(),
            records: NumberedRecords::new(first.0, refused, records.finish()),
            members: first.0..first.0 + count,
            keys: keys.finish().map_err(failed)?,
            entries: entries.finish().map_err(failed)?,
        };
        let precondition = Precondition::Label { label, unique };
        let load = Load {
            since,
            precondition,
            loading,
            pairs_at_least: count * 2,
        };
        write_pairs(ingest, &load, &mut pairs, watch)
    }
}

struct Checked {
    record: Vec<u8>,
    key: Option<Vec<u8>>,
    entries: Vec<IndexEntry>,
    claims: Vec<Claim>,
}

/// All pairs of a load in key order: records, members, keys, index entries.
struct Pairs {
    sinks: LoadSinks,
    label: LabelId,
    spill: Arc<SpillFolder>,
    records: NumberedRecords,
    /// Ids of the nodes of which no membership was written yet.
    members: std::ops::Range<u64>,
    keys: Sorted<Placed>,
    entries: Sorted<Placed>,
}

impl Pairs {
    fn record(&mut self) -> Option<io::Result<(Vec<u8>, Vec<u8>)>> {
        let (id, record) = match self.records.next()? {
            Ok(next) => next,
            Err(error) => return Some(Err(error)),
        };
        let node = NodeId(id);
        self.sinks.each(|sink| sink.node(node, &record));
        Some(Ok((keyspace::node(node), record)))
    }

    fn key(&mut self) -> Option<io::Result<(Vec<u8>, Vec<u8>)>> {
        loop {
            match self.keys.next()? {
                Ok(Placed { prefix, number }) => {
                    if let Some(node) = self.records.id(number).map(NodeId) {
                        let mut value = Vec::new();
                        push_id(&mut value, node.0);
                        return Some(Ok((prefix, value)));
                    }
                }
                Err(error) => return Some(Err(error)),
            }
        }
    }

    fn entry(&mut self) -> Option<io::Result<(Vec<u8>, Vec<u8>)>> {
        loop {
            match self.entries.next()? {
                Ok(Placed { mut prefix, number }) => {
                    if let Some(node) = self.records.id(number).map(NodeId) {
                        push_id(&mut prefix, node.0);
                        return Some(Ok((prefix, EntryOwner::Node(node).entry_value())));
                    }
                }
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

impl LoadPairs for Pairs {
    fn sinks(&mut self) -> &mut LoadSinks {
        &mut self.sinks
    }
}

impl Iterator for Pairs {
    type Item = Result<(Vec<u8>, Vec<u8>), StorageError>;

    fn next(&mut self) -> Option<Self::Item> {
        let pair = match self.record() {
            Some(pair) => pair,
            None => match self.members.next() {
                Some(id) => Ok((keyspace::member(self.label, NodeId(id)), Vec::new())),
                None => self.key().or_else(|| self.entry())?,
            },
        };
        Some(pair.map_err(|error| self.spill.explain(&error)))
    }
}

/// The types that the keys of a label have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyTypes {
    /// Whether there are strings.
    pub strings: bool,
    /// Whether there are integers.
    pub integers: bool,
}

/// The types of a label's keys, so that a reader of relationship ends from text knows which types to try.
pub fn key_types(store: &DataStore, label: &str) -> Result<KeyTypes, DataError> {
    let mut types = KeyTypes::default();
    let Some(label) = store.catalog().label_id(label) else {
        return Ok(types);
    };
    let tx = store.begin(Access::Read)?;
    let base = keyspace::keys_of(label);
    // The least string and the least integer show whether each kind occurs.
    for (kind, least) in [
        (&mut types.strings, Value::from("")),
        (&mut types.integers, i64::MIN.into()),
    ] {
        let start = [&base[..], &key::encode(&least)?[..1]].concat();
        let end = after_prefix(&start);
        tx.stored_pairs().scan(&start, end.as_deref(), 1, |_, _| {
            *kind = true;
            Ok(())
        })?;
    }
    Ok(types)
}
