//! Loading relationships of one type between the nodes of two labels.

use std::{
    io::{self, Read, Write},
    sync::Arc,
};

use isomer_data::{
    Access, DataError, DataStore, GraphRead, Ingest, LoadSinks, Loading, RelRow, SpillFolder,
    Transaction, after_prefix,
};
use isomer_layout::{
    graph::{
        key::encode_key,
        rows,
        state::{EntryOwner, RelState},
    },
    index::IndexEntry,
    keyspace::{self, sole_id},
    properties::{brief, without_nulls},
};
use isomer_storage::{StorageError, Version};
use isomer_value::{LabelId, NodeId, RelId, TypeId, Value, record::RecordBuilder};
use rustc_hash::FxHashMap;
use xxhash_rust::xxh3::xxh3_128_with_seed;

use crate::{
    entries::{LoadedScope, repeated_value},
    links::{Link, Links, SortedLinks},
    load::{
        BulkEnds, BulkOptions, BulkOutcome, BulkRelationship, BulkWatch, Load, LoadMemory,
        LoadPairs, NumberedRecords, Precondition, own_seed, write_pairs,
    },
    pipeline::read_rows,
    sorter::{Sortable, Sorted, Sorter, Spool, read_bytes, write_bytes},
    uniques::{Claim, Uniques},
};

/// Finds nodes by key.
struct Keys {
    label: LabelId,
    name: String,
    /// Hash of the encoded key → node, where all keys fit.
    table: Option<FxHashMap<u128, u64>>,
    /// Random per load, so that an attacker cannot prepare keys whose hashes collide.
    seed: u64,
    /// The least and the largest id among them, if they are in the table; else all ids.
    ids: (u64, u64),
}

/// The end that was looked up last: files often come sorted by one of them.
#[derive(Default)]
struct Recent(Option<(Value, NodeId)>);

impl Recent {
    fn find(
        &mut self,
        keys: &Keys,
        tx: &Transaction,
        key: &Value,
        end: &str,
    ) -> Result<NodeId, DataError> {
        if let Some((known, node)) = &self.0
            && *known == *key
            && std::mem::discriminant(known) == std::mem::discriminant(key)
        {
            return Ok(*node);
        }
        let node = keys.find(tx, key, end)?;
        self.0 = Some((key.clone(), node));
        Ok(node)
    }
}

impl Keys {
    /// The keys of a label: in a table if that takes at most `budget` bytes, else they are looked up one by one.
    fn load(tx: &Transaction, name: &str, budget: usize) -> Result<Self, DataError> {
        let label = tx.catalog().label_id(name).ok_or_else(|| {
            DataError::NotFound(format!("there is no label `{name}`: load its nodes first"))
        })?;
        let (mut table, seed) = (None, own_seed());
        let mut ids = (u64::MAX, 0);
        let count = usize::try_from(tx.exact_node_count(Some(label))?).unwrap_or(usize::MAX);
        if table_bytes(count) <= budget {
            let mut nodes = FxHashMap::with_capacity_and_hasher(count, Default::default());
            let base = keyspace::keys_of(label);
            let end = after_prefix(&base);
            tx.stored_pairs()
                .scan(&base, end.as_deref(), usize::MAX, |key, value| {
                    let node = sole_id(value, "the node under a key")?;
                    ids = (ids.0.min(node), ids.1.max(node));
                    nodes.insert(xxh3_128_with_seed(&key[base.len()..], seed), node);
                    Ok(())
                })?;
            table = Some(nodes);
        } else {
            ids = (0, tx.store().node_id_end());
        }
        Ok(Self {
            label,
            name: name.to_owned(),
            table,
            seed,
            ids,
        })
    }

    /// Bytes of memory that the table takes.
    fn bytes(&self) -> usize {
        self.table
            .as_ref()
            .map_or(0, |table| table_bytes(table.len()))
    }

    fn find(&self, tx: &Transaction, key: &Value, end: &str) -> Result<NodeId, DataError> {
        let found = match &self.table {
            Some(table) => table
                .get(&xxh3_128_with_seed(&encode_key(key)?, self.seed))
                .map(|id| NodeId(*id)),
            None => tx.node_by_key(self.label, key)?,
        };
        found.ok_or_else(|| {
            DataError::NotFound(format!(
                "the {end} :{} with _key {} does not exist: load it first",
                self.name,
                brief(key)
            ))
        })
    }
}

/// Bytes of a hash table of `count` keys: 32 bytes and one control byte per entry, at a load factor of at most 7/8.
fn table_bytes(count: usize) -> usize {
    let buckets = (count.saturating_mul(8) / 7).checked_next_power_of_two();
    buckets.map_or(usize::MAX, |buckets| buckets.saturating_mul(33))
}

/// Loads relationships of one type, all or nothing; see [`crate::load_nodes`].
pub fn load_relationships(
    store: &DataStore,
    ends: BulkEnds<'_>,
    options: &BulkOptions,
    rows: &mut dyn Iterator<Item = Result<BulkRelationship, DataError>>,
    watch: &mut dyn BulkWatch,
) -> Result<BulkOutcome, DataError> {
    let ingest = store.begin_ingest()?;
    let type_id = ingest.rel_type(ends.rel_type)?;
    let mut tx = store.begin(Access::Read)?;
    let since = tx.version();
    let room = LoadMemory::take(store, options)?;
    let from = Keys::load(&tx, ends.from, room.bytes / 3)?;
    let own_to = if ends.to == ends.from {
        None
    } else {
        Some(Keys::load(&tx, ends.to, room.bytes / 3)?)
    };
    let to = own_to.as_ref().unwrap_or(&from);
    let tables = from.bytes() + own_to.as_ref().map_or(0, Keys::bytes);
    let least = from.ids.0.min(to.ids.0);
    let nodes = least..from.ids.1.max(to.ids.1).saturating_add(1).max(least);
    let is_ruled = tx.names().schema.concerns_type(type_id);
    // Entries and unique values get half of the memory, where there are any.
    let budget = (room.bytes - tables) / if is_ruled { 2 } else { 1 };
    let mut read = Gathered {
        records: Spool::new(room.bytes / 16, &room.spill),
        links: Links::new(nodes, budget / 8 * 7, &room.spill),
        entries: Sorter::new(budget / 4, &room.spill),
        uniques: Uniques::new(budget / 4, &room.spill),
        last_source: NodeId(0),
        last_target: NodeId(0),
    };
    let occupied = is_ruled && tx.exact_relationship_count(Some(type_id))? > 0;
    let scope = LoadedScope::new(type_id.into(), occupied);
    let unique = scope.has_unique(tx.names()).then_some(type_id);
    let mut outcome = BulkOutcome {
        version: since,
        ..BulkOutcome::default()
    };
    let (mut sources, mut targets) = (Recent::default(), Recent::default());
    let take = |row: &BulkRelationship| {
        // The transaction belongs to another thread, which does not use it during this phase.
        let reader: &mut Transaction = &mut tx;
        let checked = sources
            .find(&from, reader, &row.source, "source")
            .and_then(|source| {
                let target = targets.find(to, reader, &row.target, "target")?;
                let mut checked = Checked {
                    row: row.row,
                    source,
                    target,
                    record: encode(&ingest, type_id, source, target, row)?,
                    entries: Vec::new(),
                    claims: Vec::new(),
                };
                if is_ruled {
                    let state = RelState {
                        type_id,
                        properties: without_nulls(&row.properties),
                    };
                    reader.names().schema.check(reader.names(), None, &state)?;
                    checked.entries = scope.entries(
                        reader,
                        &state.properties,
                        &read.uniques,
                        &mut checked.claims,
                    )?;
                }
                Ok(checked)
            });
        match checked {
            Ok(checked) => {
                read.push(checked)
                    .map_err(|error| room.spill.explain(&error))?;
                Ok(Ok(()))
            }
            Err(error) if matches!(error, DataError::Storage(_) | DataError::Corrupt { .. }) => {
                Err(error)
            }
            Err(error) => Ok(Err(error)),
        }
    };
    outcome.rejected = read_rows(rows, watch, take, |row| row.row)?;
    let none = Uniques::new(0, &room.spill);
    let mut refused = Vec::new();
    for late in std::mem::replace(&mut read.uniques, none).finish()? {
        let error = repeated_value(tx.names(), late.place.saturating_sub(1), &late);
        if watch.rejected(late.row, &error).is_break() {
            return Err(error);
        }
        refused.push(late.number);
    }
    drop((tx, from, own_to));
    outcome.rejected += refused.len() as u64;
    outcome.loaded = read.records.len() - refused.len() as u64;
    if outcome.loaded > 0 {
        let target = LoadTarget {
            type_id,
            since,
            unique,
            refused,
        };
        outcome.version = write(&ingest, target, &room, read, watch)?;
    }
    Ok(outcome)
}

fn encode(
    ingest: &Ingest,
    type_id: TypeId,
    source: NodeId,
    target: NodeId,
    row: &BulkRelationship,
) -> Result<Vec<u8>, DataError> {
    let builder = RecordBuilder::relationship(type_id, source, target);
    if row.properties.is_empty() {
        return Ok(builder.finish()?);
    }
    ingest.encode(builder, &without_nulls(&row.properties))
}

/// What the first phase has decided.
struct LoadTarget {
    type_id: TypeId,
    /// The version that it has read.
    since: Version,
    /// The type, where it has a unique index.
    unique: Option<TypeId>,
    /// Numbers of the rows that are left out in the end, ascending.
    refused: Vec<u64>,
}

/// A row that can be loaded.
struct Checked {
    row: u64,
    source: NodeId,
    target: NodeId,
    record: Vec<u8>,
    entries: Vec<IndexEntry>,
    claims: Vec<Claim>,
}

/// An index entry of the relationship with a number in this load; sorts like the stored key.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct PlacedEntry {
    prefix: Vec<u8>,
    number: u64,
    source: u64,
    target: u64,
}

impl Sortable for PlacedEntry {
    fn heap_bytes(&self) -> usize {
        self.prefix.capacity() + 16
    }

    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        for number in [self.number, self.source, self.target] {
            out.write_all(&number.to_le_bytes())?;
        }
        write_bytes(out, &self.prefix)
    }

    fn read(input: &mut impl Read) -> io::Result<Self> {
        let mut numbers = [[0; 8]; 3];
        for number in &mut numbers {
            input.read_exact(number)?;
        }
        let [number, source, target] = numbers.map(u64::from_le_bytes);
        Ok(Self {
            prefix: read_bytes(input)?,
            number,
            source,
            target,
        })
    }
}

/// The second phase.
fn write(
    ingest: &Ingest,
    target: LoadTarget,
    room: &LoadMemory,
    read: Gathered,
    watch: &mut dyn BulkWatch,
) -> Result<Version, DataError> {
    let failed = |error: io::Error| room.spill.explain(&error);
    let LoadTarget {
        type_id,
        since,
        unique,
        refused,
    } = target;
    let count = read.records.len() - refused.len() as u64;
    let first = ingest.reserve_relationships(type_id, count)?;
    let loading = Loading::Relationships {
        type_id,
        first,
        count,
        last_source: read.last_source,
        last_target: read.last_target,
    };
    let mut pairs = Pairs {
        sinks: ingest.sinks(&loading),
        type_id,
        spill: room.spill.clone(),
        records: NumberedRecords::new(first.0, refused, read.records.finish()),
        links: read.links.finish().map_err(failed)?,
        entries: read.entries.finish().map_err(failed)?,
    };
    let load = Load {
        since,
        precondition: Precondition::Ends { unique },
        loading,
        pairs_at_least: count * 3,
    };
    write_pairs(ingest, &load, &mut pairs, watch)
}

/// The result of the first phase.
struct Gathered {
    records: Spool,
    links: Links,
    entries: Sorter<PlacedEntry>,
    uniques: Uniques,
    last_source: NodeId,
    last_target: NodeId,
}

impl Gathered {
    fn push(&mut self, checked: Checked) -> io::Result<()> {
        let Checked { source, target, .. } = checked;
        let number = self.records.len();
        self.last_source = self.last_source.max(source);
        self.last_target = self.last_target.max(target);
        let link = |node: NodeId, incoming: bool, other: NodeId| Link {
            node: node.0,
            incoming,
            other: other.0,
            number,
        };
        self.records.push(&checked.record)?;
        self.links.push(link(source, false, target))?;
        self.links.push(link(target, true, source))?;
        for entry in checked.entries {
            self.entries.push(PlacedEntry {
                prefix: entry.prefix(),
                number,
                source: source.0,
                target: target.0,
            })?;
        }
        self.uniques.take(number, checked.row, checked.claims)
    }
}

/// All pairs of a load in key order: records, adjacency, index entries.
struct Pairs {
    sinks: LoadSinks,
    type_id: TypeId,
    spill: Arc<SpillFolder>,
    records: NumberedRecords,
    links: SortedLinks,
    entries: Sorted<PlacedEntry>,
}

impl Pairs {
    fn record(&mut self) -> Option<io::Result<(Vec<u8>, Vec<u8>)>> {
        let (id, record) = match self.records.next()? {
            Ok(next) => next,
            Err(error) => return Some(Err(error)),
        };
        let id = RelId(id);
        self.sinks.each(|sink| sink.relationship(id, &record));
        Some(Ok((keyspace::relationship(id), record)))
    }

    fn link(&mut self) -> Option<io::Result<(Vec<u8>, Vec<u8>)>> {
        loop {
            let link = match self.links.next()? {
                Ok(link) => link,
                Err(error) => return Some(Err(error)),
            };
            let Some(id) = self.records.id(link.number).map(RelId) else {
                continue;
            };
            let (node, other) = (NodeId(link.node), NodeId(link.other));
            let outgoing = !link.incoming;
            self.sinks.each(|sink| sink.link(node, outgoing, other, id));
            let (source, target) = match outgoing {
                true => (node, other),
                false => (other, node),
            };
            let row = RelRow {
                id,
                type_id: self.type_id,
                source,
                target,
            };
            return Some(Ok((rows::adjacency(&row, outgoing), Vec::new())));
        }
    }

    fn entry(&mut self) -> Option<io::Result<(Vec<u8>, Vec<u8>)>> {
        loop {
            let PlacedEntry {
                mut prefix,
                number,
                source,
                target,
            } = match self.entries.next()? {
                Ok(entry) => entry,
                Err(error) => return Some(Err(error)),
            };
            if let Some(id) = self.records.id(number).map(RelId) {
                keyspace::push_id(&mut prefix, id.0);
                let owner = EntryOwner::Relationship(RelRow {
                    id,
                    type_id: self.type_id,
                    source: NodeId(source),
                    target: NodeId(target),
                });
                return Some(Ok((prefix, owner.entry_value())));
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
        let pair = self.record();
        let pair = pair.or_else(|| self.link()).or_else(|| self.entry())?;
        Some(pair.map_err(|error| self.spill.explain(&error)))
    }
}
