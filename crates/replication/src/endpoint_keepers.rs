//! Relationship types that keep their end nodes: creating such a relationship adds each end node once more, so that a
//! concurrent deletion of the node, which has not seen that, does not remove it (add-wins).
//!
//! A node exists while one of its *creations* is not deleted: each is a dot of the operation that added the node. Such
//! a relationship gives each end another creation, and copies the node's content into it: labels, and properties with
//! the times at which they were written. A deletion that has not seen this leaves that creation, and so the node with
//! its content at that time. (Convergent fields are not copied: those that a deletion has seen are deleted with it.) A
//! copied value never wins over one that was written later, and is not a conflict: its dot has an operation from 1 on,
//! where all others have 0.
//!
//! Creations would accumulate at a node with many such relationships. A new one replaces those that all members have
//! seen, if the node still has its original creation and all members have seen that, too: any later deletion has seen
//! them all. A creation is never replaced while a relationship depends on it alone: the relationship would disappear
//! without having been deleted.

use isomer_data::{
    DataError, DataStore, Direction, Dot, Neighbours, Transaction,
    internals::{own_replica, replica_state},
};
use isomer_layout::{keyspace::Side, replicated::identity::Identity};
use isomer_value::NodeId;

use crate::{
    apply,
    entry::{LogEntry, Op},
    property_conflicts::conflicting_properties,
    records, relationship_ends, scope,
    state::{MAX_CACHED_NODES, replication_of},
    versions::{self, CopiedProperties, Stamp, rank, remove_seen},
};

/// The first operation of the dots of copied content and of the creation that keeps a node; others have operation 0.
const KEEPER_OP: u32 = 1;

/// A merge under way: the cache is invalid until it is dropped.
pub(super) struct MergeInProgress<'s>(&'s DataStore);

impl Drop for MergeInProgress<'_> {
    fn drop(&mut self) {
        let version = self.0.engine().version();
        let mut creation_cache = replication_of(self.0).creation_cache.lock();
        creation_cache.merging -= 1;
        creation_cache.merged = creation_cache.merged.max(version);
    }
}

/// Held while a merge is committed.
pub(crate) fn begin_merge(store: &DataStore) -> MergeInProgress<'_> {
    replication_of(store).creation_cache.lock().merging += 1;
    MergeInProgress(store)
}

/// The stamp of the creation that an end gets.
pub(super) fn keeper_stamp(stamp: Stamp) -> Stamp {
    let dot = Dot {
        op: KEEPER_OP,
        ..stamp.dot
    };
    Stamp { dot, ..stamp }
}

/// Gives a node another creation, at the end of a local transaction, and copies its content.
pub(crate) fn add_creation(
    tx: &mut Transaction,
    id: NodeId,
    node: Identity,
    stamp: Stamp,
) -> Result<Option<Op>, DataError> {
    let Some(mut metadata) = records::node_metadata(tx, id)? else {
        return Ok(None);
    };
    let before = conflicting_properties(&metadata.properties);
    let is_own =
        |one: Stamp| one.dot.replica == stamp.dot.replica && one.dot.number == stamp.dot.number;
    let stable = replica_state(tx.store()).stable();
    let (mut replaced, mut stay) = (Vec::new(), Vec::new());
    for creation in metadata.creation_dots() {
        match creation.op >= KEEPER_OP && stable.covers(creation) {
            true => replaced.push(creation),
            false => stay.push(creation),
        }
    }
    let was_made = stay
        .iter()
        .any(|creation| creation.op < KEEPER_OP && stable.covers(*creation));
    // Nothing is replaced unless the original creation of the node is stable, and no relationship depends on a replaced
    // creation alone.
    if !was_made || !replaced.is_empty() && !depend_on(tx, id, &stay)? {
        replaced.clear();
    }
    metadata
        .creations
        .retain(|creation| !replaced.contains(&creation.dot));
    let kept = keeper_stamp(stamp);
    metadata.creations.push(kept);
    let mut labels = Vec::new();
    for (label, stamps) in &mut metadata.labels {
        if !stamps.iter().any(|one| is_own(*one)) {
            labels.push(*label);
            *stamps = vec![kept];
        }
    }
    let mut carried = CopiedProperties::new();
    for (prop, versions) in &mut metadata.properties {
        if versions.iter().any(|one| is_own(one.stamp)) {
            continue;
        }
        // The version that is read comes last, and so stays the one that is read: they are of one transaction from
        // now on.
        versions.sort_by_cached_key(|one| rank(one, own_replica(tx.store())));
        let values: Vec<_> = versions
            .iter()
            .map(|one| (one.stamp.time, one.value.clone()))
            .collect();
        *versions = copied_versions(stamp, &values);
        carried.push((*prop, values));
    }
    records::put_node_metadata(tx, id, &metadata, &before, true)?;
    Ok(Some(Op::NodeCreationAdded {
        node,
        replaced,
        labels,
        carried,
    }))
}

/// Whether each relationship of a node depends on one of these creations of it, or was created in this transaction.
fn depend_on(tx: &Transaction, id: NodeId, creations: &[Dot]) -> Result<bool, DataError> {
    let known = {
        let creation_cache = replication_of(tx.store()).creation_cache.lock();
        let known = creation_cache.nodes.get(&id);
        creation_cache.merging == 0
            && known
                .is_some_and(|(version, of)| creation_cache.merged <= *version && of == creations)
    };
    // The cached answer observes what reading the relationships would have observed.
    if known {
        for side in [Side::Out, Side::In] {
            tx.footprint().read_adjacency(id, side, None);
        }
        return Ok(true);
    }
    let all = read_all_depend_on(tx, id, creations)?;
    let mut creation_cache = replication_of(tx.store()).creation_cache.lock();
    if all && creation_cache.merging == 0 && creation_cache.merged <= tx.version() {
        if creation_cache.nodes.len() >= MAX_CACHED_NODES {
            creation_cache.nodes.clear();
        }
        creation_cache
            .nodes
            .insert(id, (tx.version(), creations.to_vec()));
    }
    Ok(all)
}

fn read_all_depend_on(tx: &Transaction, id: NodeId, creations: &[Dot]) -> Result<bool, DataError> {
    let mut found = Neighbours::new();
    tx.graph()
        .expand_rows(&[id], Direction::Both, &[], &mut found)?;
    replication_of(tx.store())
        .creation_cache
        .lock()
        .relationships_read += found.rows().len() as u64;
    for row in found.rows() {
        // A relationship outside the space is deleted with its ends in any case.
        if !scope::has_relationship(tx, row.id)? {
            continue;
        }
        let Some(metadata) = records::rel_metadata(tx, row.id)? else {
            continue;
        };
        let Some(ends) = relationship_ends::ends_of(tx, row.id)? else {
            continue;
        };
        let both = [
            (ends.source, &metadata.source_creations),
            (ends.target, &metadata.target_creations),
        ];
        let falls = |(end, seen): &(NodeId, &Vec<Dot>)| {
            *end == id && !seen.iter().any(|creation| creations.contains(creation))
        };
        if both.iter().any(falls) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Applies a creation that another replica's transaction added.
pub(crate) fn apply_added_creation(
    tx: &mut Transaction,
    entry: &LogEntry,
    op: &Op,
) -> Result<(), DataError> {
    let Op::NodeCreationAdded {
        node,
        replaced,
        labels,
        carried,
    } = op
    else {
        return Err(isomer_layout::replicated::codec::malformed("an operation"));
    };
    let saw = |dot: Dot| entry.saw(dot);
    let kept = keeper_stamp(entry.stamp());
    apply::edit_node(tx, node, labels.first().copied(), None, &mut |metadata| {
        metadata
            .creations
            .retain(|creation| !replaced.contains(&creation.dot) || !saw(creation.dot));
        // A merged state may have brought it before.
        metadata
            .creations
            .retain(|creation| creation.dot != kept.dot);
        metadata.creations.push(kept);
        for label in labels {
            let stamps = metadata.labels.entry(*label).or_default();
            stamps.retain(|one| !saw(one.dot));
            stamps.push(kept);
        }
        for (prop, values) in carried {
            let own = metadata.properties.entry(*prop).or_default();
            remove_seen(own, &saw);
            own.extend(copied_versions(entry.stamp(), values));
            own.sort_unstable_by_key(|version| version.stamp.dot);
        }
    })
}

/// The versions that a transaction adds for copied values: each has the time at which its value was written.
pub(super) fn copied_versions(stamp: Stamp, values: &[(u64, Vec<u8>)]) -> Vec<versions::Version> {
    let echo = |(at, (time, value)): (usize, &(u64, Vec<u8>))| versions::Version {
        stamp: Stamp {
            dot: Dot {
                op: KEEPER_OP + at as u32,
                ..stamp.dot
            },
            time: *time,
        },
        value: value.clone(),
    };
    values.iter().enumerate().map(echo).collect()
}
