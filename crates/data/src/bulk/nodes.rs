//! Loading nodes of one label.

use std::{
    cmp::Ordering,
    io::{self, Read, Write},
};

use isomer_storage::StorageError;
use isomer_value::{LabelId, NodeId, key, record::RecordBuilder};
use rustc_hash::FxHashSet;
use xxhash_rust::xxh3::xxh3_128;

use super::{
    BulkNode, BulkOptions, BulkOutcome, BulkPhase, BulkWatch, Load, REPORT_EVERY, Relied, Verdict,
    sorter::{Sortable, Sorted, Sorter, Spool, Spooled, read_bytes, write_bytes},
    spill_failed,
};
use crate::{
    Access, DataError, GraphRead, Store, Transaction,
    catalog::NameKind,
    graph::{KEY, NodeState, encode_key, without_nulls},
    index::{Entry, brief_values, entries_of},
    keyspace::{self, push_id},
    properties::brief,
    store::PropNames,
    stream::{self, Change, Counted, Deltas},
};

/// A key or index entry of the node with a number in this load; sorts as the stored key will.
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
    fn size(&self) -> usize {
        self.prefix.capacity() + size_of::<Self>() + 16
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
    store: &'a Store,
    tx: Transaction,
    label: LabelId,
    /// Whether the label has nodes already, among which keys and unique values must be new.
    occupied: bool,
    /// Hashes of the keys and unique values of this load.
    seen: FxHashSet<u128>,
    records: Spool,
    keys: Sorter<Placed>,
    entries: Sorter<Placed>,
}

impl Store {
    /// Loads nodes of one label, all or nothing. `rows` is read to its end first; an error in it ends the load.
    ///
    /// # Errors
    /// The first row's error that `watch` stops at, [`DataError::Cancelled`] where its progress does,
    /// [`DataError::Conflict`] where other writers changed the label meanwhile.
    pub fn bulk_nodes(
        &self,
        label: &str,
        options: &BulkOptions,
        rows: &mut dyn Iterator<Item = Result<BulkNode, DataError>>,
        watch: &mut dyn BulkWatch,
    ) -> Result<BulkOutcome, DataError> {
        let label = LabelId(self.intern(NameKind::Label, label)?);
        let _hold = self.hold_stream(self.engine().version());
        let tx = self.begin(Access::Read)?;
        let since = tx.version();
        let mut reading = Reading {
            store: self,
            label,
            occupied: tx.exact_node_count(Some(label))? > 0,
            tx,
            seen: FxHashSet::default(),
            records: Spool::new(options.memory_bytes / 2, &options.spill_folder),
            keys: Sorter::new(options.memory_bytes / 4, &options.spill_folder),
            entries: Sorter::new(options.memory_bytes / 4, &options.spill_folder),
        };
        let mut outcome = BulkOutcome {
            version: since,
            ..BulkOutcome::default()
        };
        for (done, row) in rows.enumerate() {
            let row = row?;
            if let Err(error) = reading.take(&row)? {
                outcome.rejected += 1;
                if watch.rejected(row.row, &error) == Verdict::Stop {
                    return Err(error);
                }
            }
            if (done as u64 + 1).is_multiple_of(REPORT_EVERY)
                && watch.progress(BulkPhase::Reading, done as u64 + 1, None) == Verdict::Stop
            {
                return Err(DataError::Cancelled);
            }
        }
        outcome.loaded = reading.records.len();
        if outcome.loaded > 0 {
            outcome.version = reading.write(outcome.loaded, watch)?;
        }
        Ok(outcome)
    }
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
            checked.entries.into_iter().try_for_each(|entry| {
                self.entries.push(Placed {
                    prefix: entry.prefix(),
                    number,
                })
            })
        })();
        spilled.map_err(|error: io::Error| DataError::Storage(spill_failed(&error)))?;
        self.seen.extend(checked.hashes);
        Ok(Ok(()))
    }

    fn check(&self, state: &NodeState) -> Result<Checked, DataError> {
        let catalog = self.tx.names();
        let mut hashes = Vec::new();
        let mut key = None;
        if let Some(value) = state.properties.get(KEY) {
            let encoded = encode_key(value)?;
            let prefix = [keyspace::keys_of(self.label), encoded].concat();
            let hash = xxh3_128(&prefix);
            if self.seen.contains(&hash)
                || self.occupied && self.tx.find_key(self.label, value)?.is_some()
            {
                let label = catalog
                    .label_name(self.label)
                    .unwrap_or_default()
                    .to_string();
                return Err(DataError::KeyExists {
                    label,
                    key: brief(value),
                });
            }
            hashes.push(hash);
            key = Some(prefix);
        }
        catalog.schema.check(catalog, state)?;
        let mut entries = Vec::new();
        for index in catalog
            .indexes()
            .iter()
            .filter(|index| index.label == self.label)
        {
            for entry in entries_of(index, state)? {
                if index.unique {
                    let hash = xxh3_128(&entry.prefix());
                    let holder = if self.occupied {
                        self.tx.holder(&entry, NodeId(u64::MAX))?
                    } else {
                        None
                    };
                    if holder.is_some() || self.seen.contains(&hash) {
                        return Err(DataError::NotUnique {
                            index: index.name.to_string(),
                            value: brief_values(&entry.values),
                            holder: match holder {
                                Some(holder) => format!("node {holder}"),
                                None => "another row of this load".into(),
                            },
                        });
                    }
                    hashes.push(hash);
                }
                entries.push(entry);
            }
        }
        let mut names = PropNames::new(self.store);
        let mut builder = RecordBuilder::node(&state.labels);
        match builder.put_all(&state.properties, &mut names) {
            Ok(()) => Ok(Checked {
                record: builder.finish()?,
                key,
                entries,
                hashes,
            }),
            Err(error) => Err(names.explain(error)),
        }
    }

    /// The second phase.
    fn write(self, count: u64, watch: &mut dyn BulkWatch) -> Result<u64, DataError> {
        let Self {
            store,
            tx,
            label,
            records,
            keys,
            entries,
            ..
        } = self;
        let catalog = tx.names().clone();
        let unique = catalog
            .indexes()
            .iter()
            .any(|index| index.label == label && index.unique);
        let since = tx.version();
        drop(tx);
        let failed = |error: io::Error| DataError::Storage(spill_failed(&error));
        let first = store
            .shared()
            .nodes
            .reserve(&**store.engine(), label.0, count)?;
        let mut pairs = Pairs {
            first,
            label,
            records: records.finish().map_err(failed)?,
            number: 0,
            members: 0..count,
            keys: keys.finish().map_err(failed)?,
            entries: entries.finish().map_err(failed)?,
        };
        let mut deltas = Deltas::default();
        deltas.add(Counted::Nodes, count as i64);
        deltas.add(Counted::Label(label), count as i64);
        let mut operations = Vec::new();
        Change::NodesLoaded {
            label,
            first: NodeId(first),
            count,
        }
        .push(&mut operations);
        let relied = Relied::Label { label, unique };
        let load = Load {
            since,
            relied,
            entry: stream::entry(&deltas, &operations),
            pairs_at_least: count * 2,
        };
        store.ingest(&load, &mut pairs, watch)
    }
}

struct Checked {
    record: Vec<u8>,
    key: Option<Vec<u8>>,
    entries: Vec<Entry>,
    hashes: Vec<u128>,
}

/// All pairs of a load in key order: records, members, keys, index entries.
struct Pairs {
    first: u64,
    label: LabelId,
    records: Spooled,
    number: u64,
    members: std::ops::Range<u64>,
    keys: Sorted<Placed>,
    entries: Sorted<Placed>,
}

impl Iterator for Pairs {
    type Item = Result<(Vec<u8>, Vec<u8>), StorageError>;

    fn next(&mut self) -> Option<Self::Item> {
        let id = |number: u64| NodeId(self.first + number);
        if let Some(record) = self.records.next() {
            let key = keyspace::node(id(self.number));
            self.number += 1;
            return Some(
                record
                    .map(|record| (key, record))
                    .map_err(|error| spill_failed(&error)),
            );
        }
        if let Some(number) = self.members.next() {
            return Some(Ok((keyspace::member(self.label, id(number)), Vec::new())));
        }
        if let Some(placed) = self.keys.next() {
            let pair = placed.map(|placed| {
                let mut value = Vec::new();
                push_id(&mut value, id(placed.number).0);
                (placed.prefix, value)
            });
            return Some(pair.map_err(|error| spill_failed(&error)));
        }
        let placed = self.entries.next()?;
        let pair = placed.map(|placed| {
            let mut key = placed.prefix;
            let node = id(placed.number);
            push_id(&mut key, node.0);
            (key, Entry::value(node).to_vec())
        });
        Some(pair.map_err(|error| spill_failed(&error)))
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

impl Store {
    /// The types of a label's keys, so that whoever reads the ends of relationships from text knows which to look for.
    pub fn key_types(&self, label: &str) -> Result<KeyTypes, DataError> {
        let mut types = KeyTypes::default();
        let Some(label) = self.catalog().label_id(label) else {
            return Ok(types);
        };
        let tx = self.begin(Access::Read)?;
        let base = keyspace::keys_of(label);
        // The least string and the least integer tell where each kind begins.
        for (kind, least) in [
            (&mut types.strings, isomer_value::Value::from("")),
            (&mut types.integers, i64::MIN.into()),
        ] {
            let start = [&base[..], &key::encode(&least)?[..1]].concat();
            tx.each_pair(
                &start,
                keyspace::after_prefix(&start).as_deref(),
                1,
                |_, _| {
                    *kind = true;
                    Ok(())
                },
            )?;
        }
        Ok(types)
    }
}
