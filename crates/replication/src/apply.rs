//! Applying a transaction of another replica, in one local transaction.

use isomer_data::{
    Access, BucketKind, Change, ConvergentOwner, DataError, DataStore, Direction, Dot, Durability,
    Neighbours, ReplicaNo, Transaction, Vector, after_prefix,
    internals::{
        convergent::{decode_seen, encode_seen},
        footprint::Space,
        notes_mut, own_replica,
    },
};
use isomer_layout::{
    convergent::{effect::Action, place::entry_dot, position::FieldPosition},
    graph::state::NodeState,
    keyspace::{self, IdSpace, push_id},
    kv::options::decode_options,
    replicated::{codec::malformed, identity::Identity},
};
use isomer_value::{LabelId, Map, NodeId, PropId, RelId, record::decode_value};

use crate::{
    ahead, buckets,
    cells::{self, differ, read_pair},
    convergent, crash_point, endpoint_keepers,
    entry::{LogEntry, Op, Owner},
    files,
    metadata::{NodeMetadata, Properties, RelMetadata, remove_seen},
    property_conflicts::conflicting_properties,
    records, relationship_ends, scope,
    versions::{self, Version},
};

/// Where a transaction stands in causal order, relative to what this replica has applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CausalOrder {
    /// It was applied before.
    Applied,
    /// All that it depends on was applied: it can be applied next.
    Next,
    /// It depends on transactions that are not applied yet.
    Waits,
}

/// The causal order of an entry where `here` was seen.
pub(crate) fn causal_order(entry: &LogEntry, here: &Vector) -> CausalOrder {
    if here.saw(entry.origin, entry.number) {
        return CausalOrder::Applied;
    }
    // The transactions of one replica are applied in the order of their numbers; numbers that were
    // given up are skipped by `store_applied_number`. Everything that the transaction had seen elsewhere
    // must be here as well, so that what it saw means the same entries here as at its origin.
    let next = here.reach(entry.origin).checked_add(1);
    let follows = next == Some(entry.number);
    let caused = here.includes(&entry.seen_elsewhere());
    match follows && caused {
        true => CausalOrder::Next,
        false => CausalOrder::Waits,
    }
}

/// Attempts to apply a transaction after conflicts with local ones.
const MAX_ATTEMPTS: usize = 1000;

/// Applies a transaction that can be applied, and adds it to the log for other replicas.
pub(crate) fn apply_entry(store: &DataStore, entry: &LogEntry) -> Result<(), DataError> {
    let bytes = entry.encode();
    merging(store, |tx| {
        for op in &entry.ops {
            apply_op(tx, entry, op)?;
        }
        tx.log(&Change::ConvergedBy {
            replica: entry.origin,
            number: entry.number,
            time: entry.time,
            seen: entry.seen.clone(),
        });
        // In the same commit as the operations: after a crash, the entry was either applied and logged, or is
        // received again.
        tx.replication_mut()
            .put_row(&keyspace::log_entry(entry.origin.0, entry.number), &bytes)?;
        store_applied_number(tx, entry.origin, entry.number)
    })?;
    ahead::advance_time(store, entry.time);
    Ok(())
}

fn begin_merging(store: &DataStore) -> Result<Transaction, DataError> {
    let mut tx = Transaction::begin(store.clone(), Access::Write)?;
    notes_mut(&mut tx).is_merging = true;
    Ok(tx)
}

/// Runs `body` in a transaction that is rolled back.
pub(crate) fn try_merging(
    store: &DataStore,
    mut body: impl FnMut(&mut Transaction) -> Result<(), DataError>,
) -> Result<(), DataError> {
    let _noted = endpoint_keepers::begin_merge(store);
    body(&mut begin_merging(store)?)
}

/// Runs `body` in a transaction in which constraints refuse nothing; repeats it after a conflict with a local one.
pub(crate) fn merging<T>(
    store: &DataStore,
    mut body: impl FnMut(&mut Transaction) -> Result<T, DataError>,
) -> Result<T, DataError> {
    let mut attempt = 0;
    let _noted = endpoint_keepers::begin_merge(store);
    loop {
        let mut tx = begin_merging(store)?;
        let done = body(&mut tx).and_then(|value| {
            crash_point();
            tx.commit_with(Durability::Buffered)?;
            crash_point();
            Ok(value)
        });
        match done {
            Err(error)
                // The body runs again from the beginning, on a new snapshot: it merges with what the
                // local transaction has committed.
                if error.kind() == isomer_data::ErrorKind::Retry && attempt < MAX_ATTEMPTS =>
            {
                attempt += 1;
            }
            done => return done,
        }
    }
}

/// All transactions of a replica up to a number are applied now, or were given up.
pub(crate) fn store_applied_number(
    tx: &mut Transaction,
    replica: ReplicaNo,
    number: u64,
) -> Result<(), DataError> {
    let stored = tx.read().get(&keyspace::seen(replica.0))?;
    let (upto, mut except) = match stored {
        Some(stored) => decode_seen(&stored)?,
        None => (0, Vec::new()),
    };
    except.retain(|lacking| *lacking > number);
    let seen = encode_seen(upto.max(number), &except);
    tx.replication_mut()
        .put_row(&keyspace::seen(replica.0), &seen)
}

fn apply_op(tx: &mut Transaction, entry: &LogEntry, op: &Op) -> Result<(), DataError> {
    let saw = |dot: Dot| entry.saw(dot);
    match op {
        // A creation replaces everything that it had seen of the identity: an earlier node with the
        // same key, which its origin had deleted, must not add its properties to the new one.
        Op::NodeCreated { node, labels, set } => edit_node(
            tx,
            node,
            labels.first().copied(),
            Some(&saw),
            &mut |metadata| {
                metadata.creations.push(entry.stamp());
                for label in labels {
                    metadata
                        .labels
                        .entry(*label)
                        .or_default()
                        .push(entry.stamp());
                }
                put_all(&mut metadata.properties, entry, set);
            },
        ),
        Op::NodeChanged {
            node,
            added,
            removed,
            set,
            unset,
        } => edit_node(tx, node, None, None, &mut |metadata| {
            // Only the seen dots: a label that was added concurrently survives its removal.
            for label in added.iter().chain(removed) {
                if let Some(stamps) = metadata.labels.get_mut(label) {
                    stamps.retain(|stamp| !saw(stamp.dot));
                }
            }
            for label in added {
                metadata
                    .labels
                    .entry(*label)
                    .or_default()
                    .push(entry.stamp());
            }
            metadata.labels.retain(|_, stamps| !stamps.is_empty());
            take_all(&mut metadata.properties, entry, unset);
            put_all(&mut metadata.properties, entry, set);
        }),
        Op::NodeDeleted { node } => {
            if records::find_node(tx, node)?.is_none() {
                return Ok(()); // nothing is known of it, so nothing was left
            }
            let gone = |dot: Dot| entry.saw(dot);
            edit_node(tx, node, None, Some(&gone), &mut |_| ())
        }
        Op::NodeCreationAdded { .. } => endpoint_keepers::apply_added_creation(tx, entry, op),
        Op::RelCreated { .. } => apply_relationship(tx, entry, op),
        Op::RelChanged { rel, set, unset } => {
            let Some(id) = records::find_rel(tx, rel)? else {
                return Ok(()); // it is gone for good
            };
            edit_relationship(tx, id, &mut |metadata| {
                take_all(&mut metadata.properties, entry, unset);
                put_all(&mut metadata.properties, entry, set);
            })
        }
        // A relationship has one creation, so its deletion is final and leaves no ghost.
        Op::RelDeleted { rel } => match records::find_rel(tx, rel)? {
            Some(id) => purge_relationship(tx, id),
            None => Ok(()),
        },
        Op::Field {
            owner,
            op,
            place,
            action,
        } => apply_field(tx, entry, owner, *op, place, action),
        Op::FileCreated { .. }
        | Op::FileDeleted { .. }
        | Op::FileRenamed { .. }
        | Op::FileResized { .. }
        | Op::ChunkPut { .. }
        | Op::ChunksDeleted { .. }
        | Op::FolderCreated { .. }
        | Op::FolderDeleted { .. } => files::apply_to_files(tx, entry, op),
        _ => apply_to_bucket(tx, entry, op),
    }
}

// ---- nodes

/// Changes the metadata of a node (a ghost is created where there is none), then its record accordingly. First,
/// everything that `seen` covers is removed from the metadata.
pub(crate) fn edit_node(
    tx: &mut Transaction,
    identity: &Identity,
    home: Option<LabelId>,
    seen: Option<&dyn Fn(Dot) -> bool>,
    edit: &mut dyn FnMut(&mut NodeMetadata),
) -> Result<(), DataError> {
    let (id, mut metadata, old) = match records::find_node(tx, identity)? {
        Some(id) => {
            let metadata = records::node_metadata(tx, id)?;
            let metadata = metadata.ok_or_else(|| malformed("the metadata of a node"))?;
            (id, metadata, tx.graph().load_node(id)?)
        }
        None => {
            let id = records::new_node_id(tx, home)?;
            (id, NodeMetadata::new(identity.clone()), None)
        }
    };
    // Of the state before the edit: relationships depend on which creations disappear, and the list
    // of conflicts on which properties had several versions.
    let before = (
        metadata.creation_dots(),
        conflicting_properties(&metadata.properties),
    );
    if let Some(seen) = seen {
        metadata.remove_seen(seen);
        remove_fields(tx, ConvergentOwner::Node(id), seen)?;
    }
    edit(&mut metadata);
    materialize_node(tx, id, old, metadata, before)
}

/// Materializes a node: creates, changes or deletes its record according to its metadata row.
pub(crate) fn materialize_node(
    tx: &mut Transaction,
    id: NodeId,
    old: Option<NodeState>,
    metadata: NodeMetadata,
    (creations, conflicting_properties): (Vec<Dot>, Vec<PropId>),
) -> Result<(), DataError> {
    // A relationship exists only while its end has one of the creations that its creator saw.
    let still = metadata.creation_dots();
    if creations.iter().any(|dot| !still.contains(dot)) {
        cut_relationships(tx, id, &still)?;
    }
    // The only rule for existence: a node exists while a creation is
    // left that no deletion has seen.
    let is_there = !still.is_empty();
    if is_there {
        let new = state_of(tx, &metadata)?;
        notes_mut(tx).merged = Some((id, metadata.identity.clone()));
        tx.graph_mut()
            .apply_node_change(id, old.as_ref(), Some(&new))?;
        return records::put_node_metadata(tx, id, &metadata, &conflicting_properties, true);
    }
    let place = match &old {
        None => id,
        Some(old) => {
            tx.graph_mut().apply_node_change(id, Some(old), None)?;
            records::delete_metadata(tx, IdSpace::Nodes, id.0, &metadata.identity)?;
            // The id of a deleted record is never reused.
            records::new_node_id(tx, None)?
        }
    };
    // A ghost is needed only while it has something that the deletion had not seen.
    let fields = move_fields(tx, id, place)?;
    match metadata.is_empty() && !fields {
        true => records::delete_metadata(tx, IdSpace::Nodes, place.0, &metadata.identity),
        false => records::put_node_metadata(tx, place, &metadata, &[], false),
    }
}

fn state_of(tx: &Transaction, metadata: &NodeMetadata) -> Result<NodeState, DataError> {
    Ok(NodeState {
        labels: metadata.labels.keys().copied().collect(),
        properties: read_of(tx, &metadata.properties)?,
    })
}

/// The values that are read.
fn read_of(tx: &Transaction, properties: &Properties) -> Result<Map, DataError> {
    let names = tx.names().clone();
    let mut map = Map::new();
    for (prop, own) in properties {
        // Deterministic by time and replica, so that all replicas read the same version.
        let Some(at) = versions::winner(own, own_replica(tx.store())) else {
            continue;
        };
        let name = names
            .prop_name(*prop)
            .ok_or_else(|| DataError::corrupt("a property has no name"))?;
        map.insert(name, decode_value(&own[at].value, &*names.names)?);
    }
    Ok(map)
}

/// Deletes relationships of a node that were created for creations of it that no longer exist.
fn cut_relationships(tx: &mut Transaction, id: NodeId, creations: &[Dot]) -> Result<(), DataError> {
    let mut found = Neighbours::new();
    tx.graph()
        .expand_rows(&[id], Direction::Both, &[], &mut found)?;
    let mut rels: Vec<RelId> = found.rows().iter().map(|row| row.id).collect();
    rels.sort_unstable();
    // A self loop is found from both ends.
    rels.dedup();
    for rel in rels {
        let Some(metadata) = records::rel_metadata(tx, rel)? else {
            continue;
        };
        let Some(ends) = relationship_ends::ends_of(tx, rel)? else {
            continue;
        };
        let is_cut = |end: NodeId, seen: &[Dot]| {
            end == id && !seen.iter().any(|dot| creations.contains(dot))
        };
        let cut = is_cut(ends.source, &metadata.source_creations)
            || is_cut(ends.target, &metadata.target_creations);
        // A relationship outside the space is deleted with its ends, whichever replica recreated these.
        if creations.is_empty() || cut && scope::has_relationship(tx, rel)? {
            purge_relationship(tx, rel)?;
        }
    }
    Ok(())
}

// ---- relationships

fn apply_relationship(tx: &mut Transaction, entry: &LogEntry, op: &Op) -> Result<(), DataError> {
    let Op::RelCreated {
        rel,
        type_id,
        source,
        target,
        source_creations,
        target_creations,
        set,
        ..
    } = op
    else {
        return Err(malformed("an operation"));
    };
    if records::find_rel(tx, rel)?.is_some() {
        return Ok(()); // a state transfer brought it
    }
    let mut properties = Properties::new();
    put_all(&mut properties, entry, set);
    let metadata = RelMetadata {
        identity: rel.clone(),
        creation: entry.stamp(),
        source_creations: source_creations.clone(),
        target_creations: target_creations.clone(),
        properties,
    };
    make_relationship(tx, *type_id, source, target, metadata)
}

/// Creates a relationship, unless one of the creations of an end for which it was created is gone: then it never will
/// exist.
pub(crate) fn make_relationship(
    tx: &mut Transaction,
    type_id: isomer_value::TypeId,
    source: &Identity,
    target: &Identity,
    metadata: RelMetadata,
) -> Result<(), DataError> {
    let mut ends = [NodeId(0); 2];
    let both = [
        (source, &metadata.source_creations),
        (target, &metadata.target_creations),
    ];
    for (end, (identity, seen)) in ends.iter_mut().zip(both) {
        let Some(id) = records::find_node(tx, identity)? else {
            return Ok(());
        };
        let creations = records::node_metadata(tx, id)?.map(|node| node.creation_dots());
        // If none of the creations that the relationship's creator saw is left, the end was
        // deleted here by a transaction that had seen them, or was created anew. Causal order
        // excludes that they arrive later.
        let creations = creations.unwrap_or_default();
        if !seen.iter().any(|dot| creations.contains(dot)) {
            return Ok(());
        }
        *end = id;
    }
    let map = read_of(tx, &metadata.properties)?;
    let id = tx
        .graph_mut()
        .create_relationship(type_id, ends[0], ends[1], &map)?;
    records::put_rel_metadata(tx, id, &metadata, &[])
}

pub(crate) fn edit_relationship(
    tx: &mut Transaction,
    id: RelId,
    edit: &mut dyn FnMut(&mut RelMetadata),
) -> Result<(), DataError> {
    let metadata = records::rel_metadata(tx, id)?;
    let mut metadata = metadata.ok_or_else(|| malformed("the metadata of a relationship"))?;
    let before = conflicting_properties(&metadata.properties);
    edit(&mut metadata);
    let map = read_of(tx, &metadata.properties)?;
    tx.graph_mut().replace_relationship_properties(id, &map)?;
    records::put_rel_metadata(tx, id, &metadata, &before)
}

/// Deletes a relationship with its metadata.
pub(crate) fn purge_relationship(tx: &mut Transaction, id: RelId) -> Result<(), DataError> {
    let identity = records::rel_identity(tx, id)?;
    tx.graph_mut().delete_relationship(id)?;
    records::delete_metadata(tx, IdSpace::Relationships, id.0, &identity)
}

// ---- convergent fields

fn apply_field(
    tx: &mut Transaction,
    entry: &LogEntry,
    owner: &Owner,
    op: u32,
    place: &[u8],
    action: &[u8],
) -> Result<(), DataError> {
    let action = Action::decode(action).ok_or_else(|| malformed("an action"))?;
    let found = match owner {
        Owner::Node(identity) => match records::find_node(tx, identity)? {
            Some(id) => ConvergentOwner::Node(id),
            None => {
                // Deleted here already. What this deletion had not seen is kept for a node that is created again by
                // a replica that had not seen the deletion, either.
                let id = records::new_node_id(tx, None)?;
                records::put_node_metadata(
                    tx,
                    id,
                    &NodeMetadata::new(identity.clone()),
                    &[],
                    false,
                )?;
                ConvergentOwner::Node(id)
            }
        },
        Owner::Relationship(identity) => match records::find_rel(tx, identity)? {
            Some(id) => ConvergentOwner::Relationship(id),
            None => return Ok(()),
        },
    };
    // A concurrent deletion of the owner deletes the field without this operation.
    match found {
        ConvergentOwner::Node(id) if tx.graph().load_node(id)?.is_none() => {
            records::observe_metadata(tx, IdSpace::Nodes, id.0);
        }
        ConvergentOwner::Node(_) => {}
        ConvergentOwner::Relationship(id) => {
            records::observe_metadata(tx, IdSpace::Relationships, id.0);
        }
    }
    let position =
        FieldPosition::parse(found, place).ok_or_else(|| malformed("the place of a field"))?;
    let dot = Dot {
        op,
        ..entry.stamp().dot
    };
    let saw = |other: Dot| {
        entry.seen.covers(other)
            || other.replica == dot.replica && other.number == dot.number && other.op < op
    };
    tx.fields_mut()
        .converge_remote(found, position, &action, (dot, entry.time), &saw)?;
    if let ConvergentOwner::Node(id) = found {
        drop_empty_ghost(tx, id)?;
    }
    Ok(())
}

fn drop_empty_ghost(tx: &mut Transaction, id: NodeId) -> Result<(), DataError> {
    if tx.read().get(&keyspace::node(id))?.is_some() {
        return Ok(());
    }
    let Some(metadata) = records::node_metadata(tx, id)? else {
        return Ok(());
    };
    let owner = ConvergentOwner::Node(id).prefix();
    let end = after_prefix(&owner);
    if metadata.is_empty() && tx.raw().keys_between(&owner, end.as_deref())?.is_empty() {
        records::delete_metadata(tx, IdSpace::Nodes, id.0, &metadata.identity)?;
    }
    Ok(())
}

/// Removes the seen entries of an owner's convergent fields.
pub(crate) fn remove_fields(
    tx: &mut Transaction,
    owner: ConvergentOwner,
    seen: &dyn Fn(Dot) -> bool,
) -> Result<(), DataError> {
    if !own_replica(tx.store()).has_any() {
        return Ok(());
    }
    let prefix = owner.prefix();
    for prop in convergent::convergent_properties_of(tx, owner)? {
        let before = tx.indexes_mut().fields_before(owner, prop)?;
        let mut head = prefix.clone();
        push_id(&mut head, prop.0.into());
        let end = after_prefix(&head);
        let mut touched = Vec::new();
        // Keys are collected before the first deletion: the scan does not
        // run over rows that it changes.
        for key in tx.raw().keys_between(&head, end.as_deref())? {
            if seen(entry_dot(&key[prefix.len()..])?) {
                tx.replication_mut().delete_row(&key)?;
                touched.push(key);
            }
        }
        tx.indexes_mut().fields_after(before, &touched)?;
        if !touched.is_empty() {
            tx.fields_mut().log_merged(owner, prop);
        }
    }
    // In the footprint as a whole, whatever was removed: a local transaction that read
    // one of these fields runs again.
    tx.fields_mut().clear_owner(owner);
    Ok(())
}

/// Moves the remaining convergent fields of a node to another id; returns whether there were any.
fn move_fields(tx: &mut Transaction, from: NodeId, to: NodeId) -> Result<bool, DataError> {
    let (old, new) = (
        ConvergentOwner::Node(from).prefix(),
        ConvergentOwner::Node(to).prefix(),
    );
    let end = after_prefix(&old);
    let keys = tx.raw().keys_between(&old, end.as_deref())?;
    if from != to {
        for key in &keys {
            let value = tx.read().get(key)?.unwrap_or_default();
            tx.replication_mut().delete_row(key)?;
            let moved = [&new[..], &key[old.len()..]].concat();
            tx.replication_mut().put_row(&moved, &value)?;
        }
    }
    Ok(!keys.is_empty())
}

// ---- buckets

fn apply_to_bucket(tx: &mut Transaction, entry: &LogEntry, op: &Op) -> Result<(), DataError> {
    let saw = |dot: Dot| entry.saw(dot);
    let stamp = entry.stamp();
    match op {
        Op::BucketCreated { bucket, options } => {
            let value = vec![options >> 1, options & 1];
            decode_options(&value)
                .map_err(|_| DataError::invalid("the options of a bucket are malformed"))?;
            let creation = Version { stamp, value };
            buckets::change_lives(tx, *bucket, None, &saw, Some(creation))?;
            buckets::materialize_bucket(tx, *bucket, None)
        }
        Op::Put {
            bucket, key, entry, ..
        } => {
            let stored = keyspace::bucket_entry(*bucket, key);
            let (before, mut after) = cells::see_cell(tx, &stored, &saw)?;
            after.push(Version {
                stamp,
                value: entry.clone(),
            });
            materialize_entry(tx, *bucket, key, &before, after)
        }
        Op::Taken { bucket, key } => {
            let stored = keyspace::bucket_entry(*bucket, key);
            let (before, after) = cells::see_cell(tx, &stored, &saw)?;
            materialize_entry(tx, *bucket, key, &before, after)
        }
        Op::RangeTaken { bucket, start, end } => {
            take_entries(tx, *bucket, start, end.as_deref(), &saw)
        }
        Op::ValueAdded { bucket, key, value } => {
            let stored = keyspace::bucket_pair(*bucket, key, value);
            let (before, mut after) = cells::see_cell(tx, &stored, &saw)?;
            after.push(Version {
                stamp,
                value: Vec::new(),
            });
            materialize_pair(tx, *bucket, key, value, &before, after)
        }
        Op::ValueRemoved { bucket, key, value } => {
            let stored = keyspace::bucket_pair(*bucket, key, value);
            let (before, after) = cells::see_cell(tx, &stored, &saw)?;
            materialize_pair(tx, *bucket, key, value, &before, after)
        }
        Op::Sequence { bucket, name, last } => {
            let version = Version {
                stamp,
                value: last.to_be_bytes().to_vec(),
            };
            buckets::change_sequence(tx, *bucket, name, &saw, Some(version))
        }
        Op::BucketDropped { bucket } => drop_bucket(tx, *bucket, None, &saw),
        Op::KindDropped { bucket, kind } => drop_bucket(tx, *bucket, Some(*kind), &saw),
        _ => Err(malformed("an operation")),
    }
}

/// Removes the seen values of a multi-value bucket.
fn take_pairs(
    tx: &mut Transaction,
    bucket: u32,
    saw: &dyn Fn(Dot) -> bool,
) -> Result<(), DataError> {
    let pairs = keyspace::bucket_pairs(bucket);
    let end = after_prefix(&pairs);
    for stored in tx.raw().keys_between(&pairs, end.as_deref())? {
        let mut rest = &stored[pairs.len()..];
        let key = keyspace::take_terminated(&mut rest)
            .ok_or_else(|| malformed("an entry of a bucket"))?;
        let (before, after) = cells::see_cell(tx, &stored, saw)?;
        materialize_pair(tx, bucket, &key, rest, &before, after)?;
    }
    Ok(())
}

/// Applies that a bucket was dropped, or its values of one kind.
fn drop_bucket(
    tx: &mut Transaction,
    bucket: u32,
    kind: Option<BucketKind>,
    saw: &dyn Fn(Dot) -> bool,
) -> Result<(), DataError> {
    buckets::change_lives(tx, bucket, kind, saw, None)?;
    if kind != Some(BucketKind::Multi) {
        take_entries(tx, bucket, b"", None, saw)?;
    }
    if kind != Some(BucketKind::Map) {
        take_pairs(tx, bucket, saw)?;
    }
    buckets::take_sequences(tx, bucket, saw)?;
    buckets::materialize_bucket(tx, bucket, None)
}

/// Removes what was seen of a range of a bucket's entries.
fn take_entries(
    tx: &mut Transaction,
    bucket: u32,
    start: &[u8],
    end: Option<&[u8]>,
    saw: &dyn Fn(Dot) -> bool,
) -> Result<(), DataError> {
    let prefix = keyspace::bucket_entry(bucket, b"");
    let from = keyspace::bucket_entry(bucket, start);
    let to = match end {
        Some(end) => Some(keyspace::bucket_entry(bucket, end)),
        None => after_prefix(&prefix),
    };
    for stored in tx.raw().keys_between(&from, to.as_deref())? {
        let (before, after) = cells::see_cell(tx, &stored, saw)?;
        materialize_entry(tx, bucket, &stored[prefix.len()..], &before, after)?;
    }
    Ok(())
}

/// Materializes an entry of a bucket from its versions.
pub(crate) fn materialize_entry(
    tx: &mut Transaction,
    bucket: u32,
    key: &[u8],
    before: &[Version],
    mut after: Vec<Version>,
) -> Result<(), DataError> {
    // A fixed order, so that equal sets of versions are equal lists.
    after.sort_unstable_by_key(|version| version.stamp.dot);
    if before == after {
        return Ok(());
    }
    let stored = keyspace::bucket_entry(bucket, key);
    // The result depends on the versions that are here: a local transaction that puts the same
    // key concurrently must conflict.
    tx.footprint().read_key(Space::Bucket(bucket), key);
    if !after.is_empty() {
        buckets::expect_entry(tx, bucket, BucketKind::Map)?;
    }
    let read = cells::put_cell(tx, &stored, &after)?;
    let value = read.map(|at| after[at].value.clone());
    tx.kv_mut().replace_entry(bucket, key, value.as_deref())?;
    match after.is_empty() {
        true => buckets::drop_bucket_without_lives(tx, bucket),
        false => Ok(()),
    }
}

/// Adds or removes a value of a multi-value bucket.
pub(crate) fn materialize_pair(
    tx: &mut Transaction,
    bucket: u32,
    key: &[u8],
    value: &[u8],
    before: &[Version],
    mut after: Vec<Version>,
) -> Result<(), DataError> {
    after.sort_unstable_by_key(|version| version.stamp.dot);
    if before == after {
        return Ok(());
    }
    debug_assert!(!differ(&after), "members of a set have no value");
    read_pair(tx, bucket, key, value);
    if !after.is_empty() {
        buckets::expect_entry(tx, bucket, BucketKind::Multi)?;
    }
    cells::put_cell(tx, &keyspace::bucket_pair(bucket, key, value), &after)?;
    match (before.is_empty(), after.is_empty()) {
        (true, false) => tx.kv_mut().replace_pair(bucket, key, value, true),
        (false, true) => {
            tx.kv_mut().replace_pair(bucket, key, value, false)?;
            buckets::drop_bucket_without_lives(tx, bucket)
        }
        _ => {
            tx.kv_mut().touch_pair(bucket, key, value);
            Ok(())
        }
    }
}

/// Puts properties, replacing their seen versions.
fn put_all(properties: &mut Properties, entry: &LogEntry, set: &[(PropId, Vec<u8>)]) {
    for (prop, value) in set {
        let own = properties.entry(*prop).or_default();
        versions::remove_seen(own, &|dot| entry.saw(dot));
        own.push(Version {
            stamp: entry.stamp(),
            value: value.clone(),
        });
        own.sort_unstable_by_key(|version| version.stamp.dot);
    }
}

/// Removes the seen versions of properties.
fn take_all(properties: &mut Properties, entry: &LogEntry, unset: &[PropId]) {
    for prop in unset {
        if let Some(own) = properties.get_mut(prop) {
            versions::remove_seen(own, &|dot| entry.saw(dot));
        }
    }
    remove_seen(properties, &|_| false);
}
