//! Loading relationships of one type between the nodes of two labels.

use std::{
    io::{self, Read, Write},
    sync::Arc,
};

use isomer_storage::{StorageError, Version};
use isomer_value::{LabelId, NodeId, RelId, TypeId, Value, record::RecordBuilder};
use rustc_hash::FxHashMap;
use xxhash_rust::xxh3::xxh3_128;

use super::{
    BulkEnds, BulkOptions, BulkOutcome, BulkPhase, BulkRelationship, BulkWatch, Load, LoadPairs,
    REPORT_EVERY, Relied, Room, Verdict,
    sorter::{Sortable, Sorted, Sorter, Spool, Spooled},
};
use crate::{
    Access, DataError, GraphRead, Store, Transaction,
    catalog::NameKind,
    graph::{encode_key, without_nulls},
    keyspace::{self, Side, after_prefix, sole_id},
    observer::{Loading, Sinks},
    properties::brief,
    spill::SpillFolder,
    store::PropNames,
    stream::{self, Change, Counted, Deltas},
};

/// One entry of an adjacency: node and side, other end, number of the relationship in this load.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Link {
    node_side: u64,
    other: u64,
    number: u64,
}

impl Sortable for Link {
    fn heap_bytes(&self) -> usize {
        0
    }

    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let mut bytes = [0; 24];
        for (at, number) in [self.node_side, self.other, self.number]
            .into_iter()
            .enumerate()
        {
            bytes[at * 8..at * 8 + 8].copy_from_slice(&number.to_le_bytes());
        }
        out.write_all(&bytes)
    }

    fn read(input: &mut impl Read) -> io::Result<Self> {
        let mut bytes = [0; 24];
        input.read_exact(&mut bytes)?;
        let number =
            |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| bytes[at * 8 + byte]));
        Ok(Self {
            node_side: number(0),
            other: number(1),
            number: number(2),
        })
    }
}

/// Finds nodes by key.
struct Keys {
    label: LabelId,
    name: String,
    /// Hash of the encoded key → node, where all keys fit.
    table: Option<FxHashMap<u128, u64>>,
}

impl Keys {
    /// The keys of a label: in a table where that takes at most `budget` bytes, else they are looked up one by one.
    fn load(tx: &Transaction, name: &str, budget: usize) -> Result<Self, DataError> {
        let label = tx.catalog().label_id(name).ok_or_else(|| {
            DataError::NotFound(format!("there is no label `{name}`: load its nodes first"))
        })?;
        let mut table = None;
        let count = usize::try_from(tx.exact_node_count(Some(label))?).unwrap_or(usize::MAX);
        if table_bytes(count) <= budget {
            let mut nodes = FxHashMap::with_capacity_and_hasher(count, Default::default());
            let base = keyspace::keys_of(label);
            tx.each_pair(
                &base,
                after_prefix(&base).as_deref(),
                usize::MAX,
                |key, value| {
                    nodes.insert(
                        xxh3_128(&key[base.len()..]),
                        sole_id(value, "the node under a key")?,
                    );
                    Ok(())
                },
            )?;
            table = Some(nodes);
        }
        Ok(Self {
            label,
            name: name.to_owned(),
            table,
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
                .get(&xxh3_128(&encode_key(key)?))
                .map(|id| NodeId(*id)),
            None => tx.find_key(self.label, key)?,
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

/// Bytes of a table of so many keys: entries of 32 bytes and one of control, of which up to seven eighths are in use.
fn table_bytes(count: usize) -> usize {
    let buckets = (count.saturating_mul(8) / 7).checked_next_power_of_two();
    buckets.map_or(usize::MAX, |buckets| buckets.saturating_mul(33))
}

impl Store {
    /// Loads relationships of one type, all or nothing; see [`Store::bulk_nodes`].
    pub fn bulk_relationships(
        &self,
        ends: BulkEnds<'_>,
        options: &BulkOptions,
        rows: &mut dyn Iterator<Item = Result<BulkRelationship, DataError>>,
        watch: &mut dyn BulkWatch,
    ) -> Result<BulkOutcome, DataError> {
        let type_id = TypeId(self.intern(NameKind::Type, ends.rel_type)?);
        let _hold = self.hold_stream(self.engine().version());
        let tx = self.begin(Access::Read)?;
        let since = tx.version();
        let room = Room::take(self, options)?;
        let from = Keys::load(&tx, ends.from, room.bytes / 3)?;
        let own_to = if ends.to == ends.from {
            None
        } else {
            Some(Keys::load(&tx, ends.to, room.bytes / 3)?)
        };
        let to = own_to.as_ref().unwrap_or(&from);
        let tables = from.bytes() + own_to.as_ref().map_or(0, Keys::bytes);
        let mut read = Gathered {
            records: Spool::new(room.bytes / 16, &room.spill),
            links: Sorter::new((room.bytes - tables) / 8 * 7, &room.spill),
            last_source: NodeId(0),
            last_target: NodeId(0),
        };
        let mut outcome = BulkOutcome {
            version: since,
            ..BulkOutcome::default()
        };
        for (done, row) in rows.enumerate() {
            let row = row?;
            let checked = from.find(&tx, &row.source, "source").and_then(|source| {
                let target = to.find(&tx, &row.target, "target")?;
                Ok((source, target, self.encode(type_id, source, target, &row)?))
            });
            match checked {
                Ok((source, target, record)) => {
                    read.push(source, target, &record)
                        .map_err(|error| room.spill.error(&error))?;
                }
                Err(error)
                    if matches!(error, DataError::Storage(_) | DataError::Corrupt { .. }) =>
                {
                    return Err(error);
                }
                Err(error) => {
                    outcome.rejected += 1;
                    if watch.rejected(row.row, &error) == Verdict::Stop {
                        return Err(error);
                    }
                }
            }
            if (done as u64 + 1).is_multiple_of(REPORT_EVERY)
                && watch.progress(BulkPhase::Reading, done as u64 + 1, None) == Verdict::Stop
            {
                return Err(DataError::Cancelled);
            }
        }
        drop((tx, from, own_to));
        outcome.loaded = read.records.len();
        if outcome.loaded > 0 {
            outcome.version = self.write_relationships(type_id, since, &room, read, watch)?;
        }
        Ok(outcome)
    }

    fn encode(
        &self,
        type_id: TypeId,
        source: NodeId,
        target: NodeId,
        row: &BulkRelationship,
    ) -> Result<Vec<u8>, DataError> {
        let mut names = PropNames::new(self);
        let mut builder = RecordBuilder::relationship(type_id, source, target);
        match builder.put_all(&without_nulls(&row.properties), &mut names) {
            Ok(()) => Ok(builder.finish()?),
            Err(error) => Err(names.explain(error)),
        }
    }

    fn write_relationships(
        &self,
        type_id: TypeId,
        since: Version,
        room: &Room,
        read: Gathered,
        watch: &mut dyn BulkWatch,
    ) -> Result<Version, DataError> {
        let failed = |error: io::Error| room.spill.error(&error);
        let count = read.records.len();
        let first = self
            .shared()
            .relationships
            .reserve(&**self.engine(), type_id.0, count)?;
        let loading = Loading::Relationships {
            type_id,
            first: RelId(first),
            count,
            last_source: read.last_source,
            last_target: read.last_target,
        };
        let mut pairs = Pairs {
            sinks: self.sinks(&loading),
            type_id,
            first,
            number: 0,
            spill: room.spill.clone(),
            records: read.records.finish(),
            links: read.links.finish().map_err(failed)?,
        };
        let mut deltas = Deltas::default();
        deltas.add(Counted::Relationships, count as i64);
        deltas.add(Counted::Type(type_id), count as i64);
        let mut operations = Vec::new();
        Change::RelationshipsLoaded {
            type_id,
            first: RelId(first),
            count,
        }
        .push(&mut operations);
        let load = Load {
            since,
            relied: Relied::Ends,
            counted: (Counted::Type(type_id), Counted::Relationships),
            entry: stream::entry(&deltas, &operations),
            pairs_at_least: count * 3,
        };
        self.ingest(&load, &mut pairs, watch)
    }
}

/// What the first phase leaves for the second.
struct Gathered {
    records: Spool,
    links: Sorter<Link>,
    last_source: NodeId,
    last_target: NodeId,
}

impl Gathered {
    fn push(&mut self, source: NodeId, target: NodeId, record: &[u8]) -> io::Result<()> {
        let number = self.records.len();
        self.last_source = self.last_source.max(source);
        self.last_target = self.last_target.max(target);
        let link = |node: NodeId, side: Side, other: NodeId| Link {
            node_side: node.0 << 1 | side as u64,
            other: other.0,
            number,
        };
        self.records.push(record)?;
        self.links.push(link(source, Side::Out, target))?;
        self.links.push(link(target, Side::In, source))
    }
}

/// All pairs of a load in key order: records, then adjacency.
struct Pairs {
    sinks: Sinks,
    type_id: TypeId,
    first: u64,
    number: u64,
    spill: Arc<SpillFolder>,
    records: Spooled,
    links: Sorted<Link>,
}

impl LoadPairs for Pairs {
    fn sinks(&mut self) -> &mut Sinks {
        &mut self.sinks
    }
}

impl Iterator for Pairs {
    type Item = Result<(Vec<u8>, Vec<u8>), StorageError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(record) = self.records.next() {
            let id = RelId(self.first + self.number);
            let key = keyspace::relationship(id);
            self.number += 1;
            if let Ok(record) = &record {
                self.sinks.each(|sink| sink.relationship(id, record));
            }
            return Some(
                record
                    .map(|record| (key, record))
                    .map_err(|error| self.spill.explain(&error)),
            );
        }
        let link = self.links.next()?;
        let pair = link.map(|link| {
            let side = if link.node_side & 1 == 0 {
                Side::Out
            } else {
                Side::In
            };
            let (node, other, rel) = (
                NodeId(link.node_side >> 1),
                NodeId(link.other),
                RelId(self.first + link.number),
            );
            self.sinks
                .each(|sink| sink.link(node, side == Side::Out, other, rel));
            (
                keyspace::adjacency(node, side, self.type_id, other, rel),
                Vec::new(),
            )
        });
        Some(pair.map_err(|error| self.spill.explain(&error)))
    }
}
