//! The log entry of a local transaction in a replica: its operations for other replicas, and the metadata of what it
//! wrote.

use std::collections::BTreeSet;

use isomer_data::{
    BucketKind, Change, Content, ConvergentOwner, DataError, Dot, Transaction, after_prefix,
    internals::footprint::Space,
};
use isomer_layout::{
    keyspace::{self, IdSpace},
    kv::content as kv,
    replicated::{codec::malformed, identity::Identity},
    stream::codec as stream,
};
use isomer_storage::MemoryKind;
use isomer_value::{LabelId, NodeId, PropId, RelId, record::RecordRef};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::{
    buckets::{self, sequence_key},
    cells::{self, read_pair},
    endpoint_keepers::{self, keeper_stamp},
    entry::{LogEntry, MAX_ENTRY_BYTES, Op, Owner, Reserved},
    file_log,
    metadata::NodeMetadata,
    property_conflicts::conflicting_properties,
    records, scope,
    state::replication_of,
    versions::{Stamp, Version},
};

/// Copies of a log entry in memory while it is encoded.
const ENTRY_COPIES: usize = 3;
/// The commit reserves memory for the copies of an entry from this size on.
const MIN_RESERVED_BYTES: usize = 256 << 10;

/// What a transaction did to a record, in total.
#[derive(Default)]
struct RecordChanges {
    labels: FxHashSet<LabelId>,
    properties: FxHashSet<PropId>,
    /// Its identity, where it was created here.
    made: Option<Identity>,
    gone: bool,
}

struct LogEntryBuilder {
    stamp: Stamp,
    ops: Vec<Op>,
    nodes: FxHashMap<NodeId, RecordChanges>,
    rels: FxHashMap<RelId, RecordChanges>,
    /// Ends of relationships created here, with the creations seen.
    ends: FxHashMap<RelId, [Vec<Dot>; 2]>,
    /// Identities by key of nodes that were created or changed here: they may have another key by now, and their
    /// identities may not be stored yet.
    reserved_identities: FxHashSet<Identity>,
    /// Ends that relationships created here keep.
    kept: BTreeSet<NodeId>,
    /// Buckets that were created or dropped, or from which entries were deleted.
    buckets: BTreeSet<u32>,
    /// Buckets of which a map was dropped, which may have shadowed values of the other kind.
    uncovered: BTreeSet<u32>,
    /// In the order of the changes, which is deterministic.
    node_order: Vec<NodeId>,
    rel_order: Vec<RelId>,
}

/// Logs what this transaction did, for other replicas. Before `FieldsMut::finish_convergent`.
pub(crate) fn log_for_replicas(tx: &mut Transaction) -> Result<(), DataError> {
    if !tx.replication().is_replicated() || !tx.has_writes() {
        return Ok(());
    }
    let operations = tx.operations_so_far();
    // In addition to the write set: this copy, the operations for other replicas, and their bytes.
    let copies = ENTRY_COPIES * operations.len();
    let _copies = match copies >= MIN_RESERVED_BYTES {
        true => Some(tx.store().memory().reserve(MemoryKind::Writes, copies)?),
        false => None,
    };
    let mut changes = stream::operations(&operations)?;
    if let Some(space) = scope::space(tx) {
        changes = scope::only_in_space(tx, &space, changes)?;
        // A transaction without changes in the space gets neither a log entry nor a number.
        if changes.is_empty() {
            return Ok(());
        }
    }
    let (replica, number, time, seen) = tx.fields_mut().number()?;
    let dot = Dot {
        replica,
        number,
        op: 0,
    };
    let mut builder = LogEntryBuilder {
        stamp: Stamp { dot, time },
        ops: Vec::new(),
        nodes: FxHashMap::default(),
        rels: FxHashMap::default(),
        ends: FxHashMap::default(),
        reserved_identities: FxHashSet::default(),
        kept: BTreeSet::new(),
        buckets: BTreeSet::new(),
        uncovered: BTreeSet::new(),
        node_order: Vec::new(),
        rel_order: Vec::new(),
    };
    for change in &changes {
        builder.note(tx, change)?;
    }
    // The metadata rows are written when all changes are known: a record that is changed several times has one row.
    let mut ops = builder.finish(tx)?;
    ops.extend(file_log::log_file_changes(tx, Stamp { dot, time })?);
    let entry = LogEntry {
        origin: replica,
        number,
        time,
        seen,
        ops,
    };
    let bytes = entry.encode();
    if bytes.len() > MAX_ENTRY_BYTES {
        return Err(DataError::Limit {
            what: "the replication log entry of a transaction".into(),
            size: format!("{} bytes", bytes.len()),
            max: format!("{MAX_ENTRY_BYTES} bytes"),
            advice: "write it in several transactions; a large file by a writer of files, which does so by itself",
        });
    }
    tx.replication_mut()
        .put_row(&keyspace::log_entry(replica.0, number), &bytes)
}

impl LogEntryBuilder {
    fn node(&mut self, id: NodeId) -> &mut RecordChanges {
        self.nodes.entry(id).or_insert_with(|| {
            self.node_order.push(id);
            RecordChanges::default()
        })
    }

    fn rel(&mut self, id: RelId) -> &mut RecordChanges {
        self.rels.entry(id).or_insert_with(|| {
            self.rel_order.push(id);
            RecordChanges::default()
        })
    }

    fn node_name(&self, tx: &Transaction, id: NodeId) -> Result<Identity, DataError> {
        match self.nodes.get(&id).and_then(|node| node.made.clone()) {
            Some(made) => Ok(made),
            None => records::node_identity(tx, id),
        }
    }

    fn rel_name(&self, tx: &Transaction, id: RelId) -> Result<Identity, DataError> {
        match self.rels.get(&id).and_then(|rel| rel.made.clone()) {
            Some(made) => Ok(made),
            None => records::rel_identity(tx, id),
        }
    }

    /// Creations of an end of a relationship that is created here, as this transaction has seen them.
    fn creations(
        &mut self,
        tx: &Transaction,
        id: NodeId,
        keeps: bool,
    ) -> Result<Vec<Dot>, DataError> {
        // Its metadata row is written at the end; its only creation is this transaction.
        if self.nodes.get(&id).is_some_and(|node| node.made.is_some()) {
            return Ok(vec![self.stamp.dot]);
        }
        let metadata = records::node_metadata(tx, id)?;
        let mut creations = metadata.map_or_else(Vec::new, |metadata| metadata.creation_dots());
        if keeps {
            self.kept.insert(id);
            creations.push(keeper_stamp(self.stamp).dot);
        }
        Ok(creations)
    }

    fn note(&mut self, tx: &mut Transaction, change: &Change<'_>) -> Result<(), DataError> {
        match change {
            Change::NodeCreated { id, record } => self.log_created_node(tx, *id, record)?,
            Change::NodeChanged {
                id,
                labels_added,
                labels_removed,
                set,
                removed,
            } => {
                let node = self.node_name(tx, *id)?;
                self.reserve_identity(&node);
                let touched = self.node(*id);
                touched
                    .labels
                    .extend(labels_added.iter().chain(labels_removed));
                touched.properties.extend(set.iter().map(|(prop, _)| *prop));
                touched.properties.extend(removed);
                self.ops.push(Op::NodeChanged {
                    node,
                    added: labels_added.clone(),
                    removed: labels_removed.clone(),
                    set: owned(set),
                    unset: removed.clone(),
                });
            }
            Change::NodeDeleted { id, .. } => {
                let node = self.node_name(tx, *id)?;
                observe_fields(tx, ConvergentOwner::Node(*id));
                self.node(*id).gone = true;
                self.reserved_identities.remove(&node);
                self.ops.push(Op::NodeDeleted { node });
            }
            Change::RelationshipCreated { id, record } => {
                let record = RecordRef::new(record)?;
                let row = isomer_layout::graph::rows::row_of(*id, &record)?;
                let replica = self.stamp.dot.replica;
                let rel = Identity::Made { replica, id: id.0 };
                self.rel(*id).made = Some(rel.clone());
                // Part of the operation: constraints are local to each replica.
                let keeps = tx.constraints().keeps_ends(row.type_id);
                let creations = [
                    self.creations(tx, row.source, keeps)?,
                    self.creations(tx, row.target, keeps)?,
                ];
                self.ops.push(Op::RelCreated {
                    rel,
                    type_id: row.type_id,
                    source: self.node_name(tx, row.source)?,
                    target: self.node_name(tx, row.target)?,
                    source_creations: creations[0].clone(),
                    target_creations: creations[1].clone(),
                    keeps_ends: keeps,
                    set: properties_of(&record)?,
                });
                self.ends.insert(*id, creations);
            }
            Change::RelationshipChanged {
                id, set, removed, ..
            } => {
                let rel = self.rel_name(tx, *id)?;
                let touched = self.rel(*id);
                touched.properties.extend(set.iter().map(|(prop, _)| *prop));
                touched.properties.extend(removed);
                self.ops.push(Op::RelChanged {
                    rel,
                    set: owned(set),
                    unset: removed.clone(),
                });
            }
            Change::RelationshipDeleted { id, .. } => {
                let rel = self.rel_name(tx, *id)?;
                observe_fields(tx, ConvergentOwner::Relationship(*id));
                self.rel(*id).gone = true;
                self.ops.push(Op::RelDeleted { rel });
            }
            Change::Converged {
                owner,
                op,
                place,
                action,
            } => {
                let owner = match owner {
                    ConvergentOwner::Node(id) => Owner::Node(self.node_name(tx, *id)?),
                    ConvergentOwner::Relationship(id) => {
                        Owner::Relationship(self.rel_name(tx, *id)?)
                    }
                };
                self.ops.push(Op::Field {
                    owner,
                    op: *op,
                    place: place.to_vec(),
                    action: action.to_vec(),
                });
            }
            Change::NodesLoaded { .. } | Change::RelationshipsLoaded { .. } => {
                return Err(DataError::Internal("a bulk load in a replica".into()));
            }
            // Indexes and constraints are local to each replica.
            Change::SchemaChanged { .. } | Change::ConvergedBy { .. } => {}
            // Merges are not forwarded.
            Change::FieldMerged { .. } => {}
            // From the recorded names, which have paths.
            Change::FileNamed { .. }
            | Change::FileUnnamed { .. }
            | Change::FileChanged { .. }
            | Change::FileWritten { .. }
            | Change::FileRemoved { .. } => {}
            Change::KeyPut { .. }
            | Change::KeyPutUntil { .. }
            | Change::KeyDeleted { .. }
            | Change::KeysDeleted { .. }
            | Change::ValueAdded { .. }
            | Change::ValueRemoved { .. }
            | Change::BucketCreated { .. }
            | Change::BucketDropped { .. }
            | Change::SequenceAdvanced { .. } => self.note_entry(tx, change)?,
        }
        Ok(())
    }

    /// Reserves an identity: no later node of this transaction gets it.
    fn reserve_identity(&mut self, name: &Identity) {
        if matches!(name, Identity::Keyed { .. }) && !self.reserved_identities.contains(name) {
            self.reserved_identities.insert(name.clone());
        }
    }

    fn log_created_node(
        &mut self,
        tx: &mut Transaction,
        id: NodeId,
        record: &[u8],
    ) -> Result<(), DataError> {
        let record = RecordRef::new(record)?;
        let labels: Vec<LabelId> = record.labels().collect();
        let replica = self.stamp.dot.replica;
        let made = Identity::Made { replica, id: id.0 };
        // A key names a record in all replicas, but only together with a label. Of several labels the
        // first by name counts: their numbers differ between replicas.
        let keyed = records::first_by_name(tx, &labels).zip(records::key_of(tx, &record)?);
        let identity = match keyed {
            None => made,
            Some((label, key)) => {
                let identity = Identity::Keyed { label, key };
                let is_reserved = self.reserved_identities.contains(&identity);
                match records::find_node(tx, &identity)?.filter(|other| *other != id) {
                    // A node created earlier in this transaction has the identity, although its key or label changed
                    // since.
                    _ if is_reserved => made,
                    None => identity,
                    // A node whose key or label changed since has the identity.
                    Some(other) if self.is_there(tx, other)? => made,
                    // The ghost of a deleted node is removed: the new node gets its identity.
                    Some(ghost) => {
                        let space = IdSpace::Nodes;
                        records::delete_metadata(tx, space, ghost.0, &identity)?;
                        observe_fields(tx, ConvergentOwner::Node(ghost));
                        tx.fields_mut().drop_fields(ConvergentOwner::Node(ghost))?;
                        identity
                    }
                }
            }
        };
        self.reserve_identity(&identity);
        self.node(id).made = Some(identity.clone());
        self.ops.push(Op::NodeCreated {
            node: identity,
            labels,
            set: properties_of(&record)?,
        });
        Ok(())
    }

    fn is_there(&self, tx: &Transaction, id: NodeId) -> Result<bool, DataError> {
        let gone = self.nodes.get(&id).is_some_and(|node| node.gone);
        Ok(!gone && tx.read().get(&keyspace::node(id))?.is_some())
    }

    /// Operations on buckets. They write without reading in a database that is not a replica; here the dots that a put
    /// replaces are part of the operation.
    fn note_entry(&mut self, tx: &mut Transaction, change: &Change<'_>) -> Result<(), DataError> {
        let stamp = self.stamp;
        let op = match change {
            Change::KeyPut {
                bucket,
                key,
                value,
                content,
            } => self.put(tx, *bucket, key, (*content, None, value))?,
            Change::KeyPutUntil {
                bucket,
                key,
                value,
                content,
                expires_ms,
            } => self.put(tx, *bucket, key, (*content, Some(*expires_ms), value))?,
            Change::KeyDeleted { bucket, key } => {
                tx.footprint().read_key(Space::Bucket(*bucket), key);
                cells::drop_cell(tx, &keyspace::bucket_entry(*bucket, key))?;
                self.buckets.insert(*bucket);
                Op::Taken {
                    bucket: *bucket,
                    key: key.to_vec(),
                }
            }
            Change::KeysDeleted { bucket, start, end } => {
                tx.footprint()
                    .read_range(Space::Bucket(*bucket), start, *end);
                let from = keyspace::cell(&keyspace::bucket_entry(*bucket, start));
                let to = match end {
                    Some(end) => Some(keyspace::cell(&keyspace::bucket_entry(*bucket, end))),
                    None => after_prefix(&keyspace::cell(&keyspace::bucket_entry(*bucket, b""))),
                };
                // The entries are deleted already, as one range; their cells are found by their own keys.
                for cell in tx.raw().keys_between(&from, to.as_deref())? {
                    cells::drop_cell(tx, &cell[1..])?;
                }
                self.buckets.insert(*bucket);
                Op::RangeTaken {
                    bucket: *bucket,
                    start: start.to_vec(),
                    end: end.map(<[u8]>::to_vec),
                }
            }
            Change::ValueAdded { bucket, key, value } => {
                read_pair(tx, *bucket, key, value);
                cells::own_cell(tx, &keyspace::bucket_pair(*bucket, key, value), stamp)?;
                Op::ValueAdded {
                    bucket: *bucket,
                    key: key.to_vec(),
                    value: value.to_vec(),
                }
            }
            Change::ValueRemoved { bucket, key, value } => {
                read_pair(tx, *bucket, key, value);
                cells::drop_cell(tx, &keyspace::bucket_pair(*bucket, key, value))?;
                self.buckets.insert(*bucket);
                Op::ValueRemoved {
                    bucket: *bucket,
                    key: key.to_vec(),
                    value: value.to_vec(),
                }
            }
            Change::BucketCreated {
                bucket,
                multi,
                reversible,
            } => {
                let value = vec![u8::from(*multi), u8::from(*reversible)];
                buckets::put_creations(
                    tx,
                    &keyspace::bucket(*bucket),
                    vec![Version { stamp, value }],
                )?;
                self.buckets.insert(*bucket);
                Op::BucketCreated {
                    bucket: *bucket,
                    options: u8::from(*multi) << 1 | u8::from(*reversible),
                }
            }
            Change::BucketDropped { bucket } => self.dropped(tx, *bucket)?,
            Change::SequenceAdvanced { bucket, name, last } => {
                let value = last.to_be_bytes().to_vec();
                let stored = sequence_key(*bucket, name)?;
                buckets::put_creations(tx, &stored, vec![Version { stamp, value }])?;
                Op::Sequence {
                    bucket: *bucket,
                    name: name.to_vec(),
                    last: *last,
                }
            }
            _ => return Err(malformed("an operation")),
        };
        self.ops.push(op);
        Ok(())
    }

    /// Dropping a bucket removes what was read of it; shadowed entries stay.
    fn dropped(&mut self, tx: &mut Transaction, bucket: u32) -> Result<Op, DataError> {
        for space in [Space::Bucket(bucket), Space::Sequences(bucket)] {
            tx.footprint().read_range(space, b"", None);
        }
        let kind = buckets::dropped_kind(tx, bucket)?;
        let entries = match kind {
            BucketKind::Map => keyspace::bucket_entry(bucket, b""),
            BucketKind::Multi => keyspace::bucket_pairs(bucket),
        };
        for prefix in [entries, keyspace::bucket_sequence(bucket, "")] {
            let cells = keyspace::cell(&prefix);
            let end = after_prefix(&cells);
            for cell in tx.raw().keys_between(&cells, end.as_deref())? {
                cells::drop_cell(tx, &cell[1..])?;
            }
        }
        // This transaction has seen every creation that its snapshot contains.
        buckets::change_lives(tx, bucket, Some(kind), &|_| true, None)?;
        self.buckets.insert(bucket);
        if kind == BucketKind::Map {
            self.uncovered.insert(bucket);
        }
        Ok(Op::KindDropped { bucket, kind })
    }

    fn put(
        &mut self,
        tx: &mut Transaction,
        bucket: u32,
        key: &[u8],
        entry: (Content, Option<u64>, &[u8]),
    ) -> Result<Op, DataError> {
        tx.footprint().read_key(Space::Bucket(bucket), key);
        cells::own_cell(tx, &keyspace::bucket_entry(bucket, key), self.stamp)?;
        Ok(Op::Put {
            bucket,
            reserved: Reserved,
            key: key.to_vec(),
            entry: kv::encode_entry(entry.0, entry.1, entry.2),
        })
    }

    /// Writes the metadata rows.
    fn finish(mut self, tx: &mut Transaction) -> Result<Vec<Op>, DataError> {
        // Deleted records first: a new one may get their identity.
        for id in &self.node_order {
            if self.nodes[id].gone {
                let identity = self.node_name(tx, *id)?;
                records::delete_metadata(tx, IdSpace::Nodes, id.0, &identity)?;
            }
        }
        for id in &self.rel_order {
            if self.rels[id].gone {
                let identity = self.rel_name(tx, *id)?;
                records::delete_metadata(tx, IdSpace::Relationships, id.0, &identity)?;
            }
        }
        for id in std::mem::take(&mut self.node_order) {
            let touched = &self.nodes[&id];
            if !touched.gone {
                self.finish_node(tx, id, touched)?;
            }
        }
        for id in std::mem::take(&mut self.rel_order) {
            let touched = &self.rels[&id];
            if !touched.gone {
                self.finish_rel(tx, id, touched)?;
            }
        }
        let mut kept = Vec::new();
        for id in std::mem::take(&mut self.kept) {
            let is_gone = self.nodes.get(&id).is_some_and(|node| node.gone);
            if !is_gone {
                let node = self.node_name(tx, id)?;
                kept.extend(endpoint_keepers::add_creation(tx, id, node, self.stamp)?);
            }
        }
        // Nodes are written before relationships, which need their ends.
        self.ops.splice(0..0, kept);
        for bucket in &self.buckets {
            buckets::end_bucket(tx, *bucket)?;
        }
        for bucket in &self.uncovered {
            buckets::stream_existing_values(tx, *bucket)?;
        }
        Ok(self.ops)
    }

    fn finish_node(
        &self,
        tx: &mut Transaction,
        id: NodeId,
        touched: &RecordChanges,
    ) -> Result<(), DataError> {
        let bytes = tx.read().get(&keyspace::node(id))?;
        let Some(bytes) = bytes else {
            return Ok(());
        };
        let record = RecordRef::new(&bytes)?;
        let (mut metadata, before) = match &touched.made {
            Some(identity) => {
                let metadata = NodeMetadata::implied(identity.clone(), self.stamp, &record)?;
                (metadata, Vec::new())
            }
            None => {
                let stored = tx
                    .read()
                    .get(&keyspace::metadata_row(IdSpace::Nodes, id.0))?;
                let metadata = match stored {
                    Some(stored) => NodeMetadata::decode(&stored, Some(&record))?,
                    None => {
                        let base = replication_of(tx.store()).base()?;
                        NodeMetadata::implied(records::node_identity(tx, id)?, base, &record)?
                    }
                };
                let before = conflicting_properties(&metadata.properties);
                (metadata, before)
            }
        };
        for label in &touched.labels {
            if record.has_label(*label) {
                // In place of all stamps that are stored: this transaction has seen them. Other replicas remove
                // the same ones, by its vector, and keep those that are concurrent.
                metadata.labels.insert(*label, vec![self.stamp]);
            } else {
                metadata.labels.remove(label);
            }
        }
        for prop in &touched.properties {
            self.own_property(&mut metadata.properties, &record, *prop)?;
        }
        records::put_node_metadata(tx, id, &metadata, &before, true)
    }

    fn finish_rel(
        &self,
        tx: &mut Transaction,
        id: RelId,
        touched: &RecordChanges,
    ) -> Result<(), DataError> {
        let bytes = tx.read().get(&keyspace::relationship(id))?;
        let Some(bytes) = bytes else {
            return Ok(());
        };
        let record = RecordRef::new(&bytes)?;
        let mut metadata = match records::rel_metadata(tx, id)? {
            Some(metadata) => metadata,
            None => return Err(malformed("a relationship")),
        };
        let before = conflicting_properties(&metadata.properties);
        if let (Some(identity), Some([source, target])) = (&touched.made, self.ends.get(&id)) {
            metadata.identity = identity.clone();
            metadata.creation = self.stamp;
            (metadata.source_creations, metadata.target_creations) =
                (source.clone(), target.clone());
            for own in metadata.properties.values_mut().flatten() {
                own.stamp = self.stamp;
            }
        }
        for prop in &touched.properties {
            self.own_property(&mut metadata.properties, &record, *prop)?;
        }
        records::put_rel_metadata(tx, id, &metadata, &before)
    }

    fn own_property(
        &self,
        properties: &mut super::metadata::Properties,
        record: &RecordRef<'_>,
        prop: PropId,
    ) -> Result<(), DataError> {
        match record.get_raw(prop)? {
            Some(value) => {
                let version = Version {
                    stamp: self.stamp,
                    value: value.to_vec(),
                };
                properties.insert(prop, vec![version]);
            }
            None => drop(properties.remove(&prop)),
        }
        Ok(())
    }
}

/// A deletion removes the dots of its fields that it had seen: a concurrent addition must conflict.
fn observe_fields(tx: &Transaction, owner: ConvergentOwner) {
    tx.footprint().read_field(&owner.prefix());
}

fn owned(set: &[(PropId, &[u8])]) -> Vec<(PropId, Vec<u8>)> {
    set.iter()
        .map(|(prop, value)| (*prop, value.to_vec()))
        .collect()
}

fn properties_of(record: &RecordRef<'_>) -> Result<Vec<(PropId, Vec<u8>)>, DataError> {
    record
        .iter_raw()
        .map(|raw| raw.map(|(prop, value)| (prop, value.to_vec())))
        .collect::<Result<_, _>>()
        .map_err(DataError::from)
}
