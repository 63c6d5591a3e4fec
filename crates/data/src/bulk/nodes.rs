//! Loading nodes of one label.

use std::{
    cmp::Ordering,
    io::{self, Read, Write},
    sync::Arc,
};

use isomer_storage::StorageError;
use isomer_value::{LabelId, NodeId, key, record::RecordBuilder};
use xxhash_rust::xxh3::xxh3_128_with_seed;

use super::{
    BulkNode, BulkOptions, BulkOutcome, BulkWatch, Load, LoadPairs, Relied, Room, Verdict,
    pipeline::read_rows,
    sorter::{Sortable, Sorted, Sorter, Spool, Spooled, read_bytes, write_bytes},
    uniques::{Claim, Refused, Uniques},
};
use crate::{
    Access, DataError, GraphRead, Store, Transaction,
    catalog::NameKind,
    graph::{KEY, NodeState, encode_key, without_nulls},
    index::{Entry, brief_values, entries_of},
    keyspace::{self, push_id},
    observer::{Loading, Sinks},
    properties::brief,
    spill::SpillFolder,
    store::PropNames,
    stream::{self, Change, Counted, Deltas},
};

/// Who has what a row of this load repeats.
const ANOTHER_ROW: &str = "another row of this load";

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
    store: &'a Store,
    tx: Transaction,
    label: LabelId,
    /// Whether the label has nodes already, among which keys and unique values must be new.
    occupied: bool,
    uniques: Uniques,
    /// Of this load alone: nobody can draw up keys beforehand that are taken for one another.
    seed: u64,
    room: Room,
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
        self.refuse_in_replica()?;
        let label = LabelId(self.intern(NameKind::Label, label)?);
        let _hold = self.hold_stream_firmly(self.engine().version());
        let tx = self.begin(Access::Read)?;
        let since = tx.version();
        let room = Room::take(self, options)?;
        let share = room.bytes / 4;
        let mut reading = Reading {
            store: self,
            label,
            occupied: tx.exact_node_count(Some(label))? > 0,
            tx,
            uniques: Uniques::new(share, &room.spill),
            seed: super::own_seed(),
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
        spilled.map_err(|error: io::Error| self.room.spill.error(&error))?;
        Ok(Ok(()))
    }

    /// Rows that turn out to repeat an earlier one only now that all are sorted: their numbers, ascending.
    fn refuse_late(&mut self, watch: &mut dyn BulkWatch) -> Result<Vec<u64>, DataError> {
        let none = Uniques::new(0, &self.room.spill);
        let mut numbers = Vec::new();
        for refused in std::mem::replace(&mut self.uniques, none).finish()? {
            let error = self.repeated(&refused);
            if watch.rejected(refused.row, &error) == Verdict::Stop {
                return Err(error);
            }
            numbers.push(refused.number);
        }
        Ok(numbers)
    }

    fn repeated(&self, refused: &Refused) -> DataError {
        let catalog = self.tx.names();
        let value = refused.value.clone();
        match refused.place.checked_sub(1) {
            None => DataError::KeyExists {
                label: self.label_name(),
                key: value,
            },
            Some(place) => DataError::NotUnique {
                index: catalog
                    .indexes()
                    .get(place as usize)
                    .map_or_else(String::new, |index| index.name.to_string()),
                value,
                holder: ANOTHER_ROW.into(),
            },
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
            let hash = xxh3_128_with_seed(&prefix, self.seed);
            if self.uniques.is_taken(hash)
                || self.occupied && self.tx.find_key(self.label, value)?.is_some()
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
        catalog.schema.check(catalog, state)?;
        let mut entries = Vec::new();
        for (place, index) in catalog
            .indexes()
            .iter()
            .enumerate()
            .filter(|(_, index)| index.label == self.label)
        {
            for entry in entries_of(index, state)? {
                if index.unique {
                    let hash = xxh3_128_with_seed(&entry.prefix(), self.seed);
                    let holder = if self.occupied {
                        self.tx.holder(&entry, NodeId(u64::MAX))?
                    } else {
                        None
                    };
                    if holder.is_some() || self.uniques.is_taken(hash) {
                        return Err(DataError::NotUnique {
                            index: index.name.to_string(),
                            value: brief_values(&entry.values),
                            holder: match holder {
                                Some(holder) => format!("node {holder}"),
                                None => ANOTHER_ROW.into(),
                            },
                        });
                    }
                    claims.push(Claim {
                        hash,
                        place: place as u32 + 1,
                        value: brief_values(&entry.values),
                    });
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
                claims,
            }),
            Err(error) => Err(names.explain(error)),
        }
    }

    /// The second phase.
    fn write(self, refused: Vec<u64>, watch: &mut dyn BulkWatch) -> Result<u64, DataError> {
        let Self {
            store,
            tx,
            label,
            records,
            keys,
            entries,
            room,
            ..
        } = self;
        let count = records.len() - refused.len() as u64;
        let catalog = tx.names().clone();
        let unique = catalog
            .indexes()
            .iter()
            .any(|index| index.label == label && index.unique);
        let since = tx.version();
        drop(tx);
        let failed = |error: io::Error| room.spill.error(&error);
        let first = store
            .shared()
            .nodes
            .reserve(&**store.engine(), label.0, count)?;
        let loading = Loading::Nodes {
            label,
            first: NodeId(first),
            count,
        };
        let mut pairs = Pairs {
            sinks: store.sinks(&loading),
            first,
            label,
            refused,
            spill: room.spill.clone(),
            records: records.finish(),
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
            counted: (Counted::Label(label), Counted::Nodes),
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
    claims: Vec<Claim>,
}

/// All pairs of a load in key order: records, members, keys, index entries.
struct Pairs {
    sinks: Sinks,
    first: u64,
    label: LabelId,
    /// Numbers of the rows that are left out after all, ascending.
    refused: Vec<u64>,
    spill: Arc<SpillFolder>,
    records: Spooled,
    number: u64,
    members: std::ops::Range<u64>,
    keys: Sorted<Placed>,
    entries: Sorted<Placed>,
}

impl Pairs {
    /// The node that row `number` becomes; none where the row was refused.
    fn id(&self, number: u64) -> Option<NodeId> {
        if self.refused.is_empty() {
            return Some(NodeId(self.first + number));
        }
        match self.refused.binary_search(&number) {
            Ok(_) => None,
            Err(before) => Some(NodeId(self.first + number - before as u64)),
        }
    }

    fn record(&mut self) -> Option<io::Result<(Vec<u8>, Vec<u8>)>> {
        loop {
            let record = self.records.next()?;
            let node = self.id(self.number);
            self.number += 1;
            match (record, node) {
                (Ok(record), Some(node)) => {
                    self.sinks.each(|sink| sink.node(node, &record));
                    return Some(Ok((keyspace::node(node), record)));
                }
                (Ok(_), None) => {}
                (Err(error), _) => return Some(Err(error)),
            }
        }
    }

    fn key(&mut self) -> Option<io::Result<(Vec<u8>, Vec<u8>)>> {
        loop {
            match self.keys.next()? {
                Ok(Placed { prefix, number }) => {
                    if let Some(node) = self.id(number) {
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
                    if let Some(node) = self.id(number) {
                        push_id(&mut prefix, node.0);
                        return Some(Ok((prefix, Entry::value(node).to_vec())));
                    }
                }
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

impl LoadPairs for Pairs {
    fn sinks(&mut self) -> &mut Sinks {
        &mut self.sinks
    }
}

impl Iterator for Pairs {
    type Item = Result<(Vec<u8>, Vec<u8>), StorageError>;

    fn next(&mut self) -> Option<Self::Item> {
        let pair = match self.record() {
            Some(pair) => pair,
            None => match self.members.next() {
                Some(number) => {
                    let node = NodeId(self.first + number);
                    Ok((keyspace::member(self.label, node), Vec::new()))
                }
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
