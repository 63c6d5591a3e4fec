//! Relationships that keep their ends: types whose new relationships keep an end alive that another replica deletes
//! without having seen them.
//!
//! Creating such a relationship gives each end another *life*, and carries along its content: labels, and properties
//! with the times at which they were written. A deletion that has not seen this leaves that life, and so the node with
//! its content at that time. (Convergent fields are not carried along: those that a deletion has seen are deleted with
//! it.) A value that was carried along never wins over one that was written later, and is not a conflict: its dot has
//! an operation from 1 on, where all else has 0.
//!
//! Lives would accumulate at a node with many such relationships. Those that all members have seen are replaced by the
//! new one, where the node still has a life that it was created with and that all members have seen, too: a deletion
//! from now on has seen them all. A life is never removed while a relationship depends on it alone: the relationship
//! would disappear without having been deleted.

use isomer_data::{
    DataError, DataStore, Direction, Dot, Neighbours, Transaction,
    internals::{own_replica, replica_state},
};
use isomer_layout::{keyspace::Side, replicated::identity::Identity};
use isomer_value::NodeId;

use crate::{
    apply,
    contested::contested,
    entry::{LogEntry, Op},
    records, relationship_ends, scope,
    state::{MOST_RESTED, replication_of},
    versions::{self, Carried, Stamp, rank, remove_seen},
};

/// The position of the life among the operations of its transaction.
const KEPT: u32 = 1;

/// A merge under way: the cache is invalid until it is dropped.
pub(super) struct MergeNoted<'s>(&'s DataStore);

impl Drop for MergeNoted<'_> {
    fn drop(&mut self) {
        let version = self.0.engine().version();
        let mut rested = replication_of(self.0).rested.lock();
        rested.merging -= 1;
        rested.merged = rested.merged.max(version);
    }
}

/// Held while a merge is committed.
pub(crate) fn note_merge(store: &DataStore) -> MergeNoted<'_> {
    replication_of(store).rested.lock().merging += 1;
    MergeNoted(store)
}

/// The stamp of the life that an end gets.
pub(super) fn kept_stamp(stamp: Stamp) -> Stamp {
    let dot = Dot {
        op: KEPT,
        ..stamp.dot
    };
    Stamp { dot, ..stamp }
}

/// Gives a node another life, at the end of a local transaction, and carries along its content.
pub(crate) fn keep_node(
    tx: &mut Transaction,
    id: NodeId,
    node: Identity,
    stamp: Stamp,
) -> Result<Option<Op>, DataError> {
    let Some(mut shadow) = records::node_shadow(tx, id)? else {
        return Ok(None);
    };
    let before = contested(&shadow.properties);
    let is_own =
        |one: Stamp| one.dot.replica == stamp.dot.replica && one.dot.number == stamp.dot.number;
    let stable = replica_state(tx.store()).stable();
    let (mut replaced, mut stay) = (Vec::new(), Vec::new());
    for life in shadow.life_dots() {
        match life.op >= KEPT && stable.covers(life) {
            true => replaced.push(life),
            false => stay.push(life),
        }
    }
    let was_made = stay
        .iter()
        .any(|life| life.op < KEPT && stable.covers(*life));
    // Nothing is replaced unless a life of the node's creation is stable, and no relationship depends on a replaced
    // life alone.
    if !was_made || !replaced.is_empty() && !rests_on(tx, id, &stay)? {
        replaced.clear();
    }
    shadow.lives.retain(|life| !replaced.contains(&life.dot));
    let kept = kept_stamp(stamp);
    shadow.lives.push(kept);
    let mut labels = Vec::new();
    for (label, stamps) in &mut shadow.labels {
        if !stamps.iter().any(|one| is_own(*one)) {
            labels.push(*label);
            *stamps = vec![kept];
        }
    }
    let mut carried = Carried::new();
    for (prop, versions) in &mut shadow.properties {
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
        *versions = echoes(stamp, &values);
        carried.push((*prop, values));
    }
    records::put_node_shadow(tx, id, &shadow, &before, true)?;
    Ok(Some(Op::NodeKept {
        node,
        replaced,
        labels,
        carried,
    }))
}

/// Whether each relationship of a node was created for one of these lives of it, or in this transaction.
fn rests_on(tx: &Transaction, id: NodeId, lives: &[Dot]) -> Result<bool, DataError> {
    let known = {
        let rested = replication_of(tx.store()).rested.lock();
        let known = rested.nodes.get(&id);
        rested.merging == 0
            && known.is_some_and(|(version, of)| rested.merged <= *version && of == lives)
    };
    // The cached answer observes what reading the relationships would have observed.
    if known {
        for side in [Side::Out, Side::In] {
            tx.footprint().read_adjacency(id, side, None);
        }
        return Ok(true);
    }
    let all = all_rest_on(tx, id, lives)?;
    let mut rested = replication_of(tx.store()).rested.lock();
    if all && rested.merging == 0 && rested.merged <= tx.version() {
        if rested.nodes.len() >= MOST_RESTED {
            rested.nodes.clear();
        }
        rested.nodes.insert(id, (tx.version(), lives.to_vec()));
    }
    Ok(all)
}

fn all_rest_on(tx: &Transaction, id: NodeId, lives: &[Dot]) -> Result<bool, DataError> {
    let mut found = Neighbours::new();
    tx.graph()
        .expand_rows(&[id], Direction::Both, &[], &mut found)?;
    replication_of(tx.store()).rested.lock().looked_at += found.rows().len() as u64;
    for row in found.rows() {
        // A relationship outside the space is deleted with its ends in any case.
        if !scope::has_relationship(tx, row.id)? {
            continue;
        }
        let Some(shadow) = records::rel_shadow(tx, row.id)? else {
            continue;
        };
        let Some(ends) = relationship_ends::ends_of(tx, row.id)? else {
            continue;
        };
        let both = [
            (ends.source, &shadow.source_lives),
            (ends.target, &shadow.target_lives),
        ];
        let falls = |(end, seen): &(NodeId, &Vec<Dot>)| {
            *end == id && !seen.iter().any(|life| lives.contains(life))
        };
        if both.iter().any(falls) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The same, for another replica's transaction.
pub(crate) fn apply_kept(tx: &mut Transaction, entry: &LogEntry, op: &Op) -> Result<(), DataError> {
    let Op::NodeKept {
        node,
        replaced,
        labels,
        carried,
    } = op
    else {
        return Err(isomer_layout::replicated::codec::malformed("an operation"));
    };
    let saw = |dot: Dot| entry.saw(dot);
    let kept = kept_stamp(entry.stamp());
    apply::edit_node(tx, node, labels.first().copied(), None, &mut |shadow| {
        shadow
            .lives
            .retain(|life| !replaced.contains(&life.dot) || !saw(life.dot));
        // A joined state may have brought it before.
        shadow.lives.retain(|life| life.dot != kept.dot);
        shadow.lives.push(kept);
        for label in labels {
            let stamps = shadow.labels.entry(*label).or_default();
            stamps.retain(|one| !saw(one.dot));
            stamps.push(kept);
        }
        for (prop, values) in carried {
            let own = shadow.properties.entry(*prop).or_default();
            remove_seen(own, &saw);
            own.extend(echoes(entry.stamp(), values));
            own.sort_unstable_by_key(|version| version.stamp.dot);
        }
    })
}

/// Values that are carried along by a transaction.
pub(super) fn echoes(stamp: Stamp, values: &[(u64, Vec<u8>)]) -> Vec<versions::Version> {
    let echo = |(at, (time, value)): (usize, &(u64, Vec<u8>))| versions::Version {
        stamp: Stamp {
            dot: Dot {
                op: KEPT + at as u32,
                ..stamp.dot
            },
            time: *time,
        },
        value: value.clone(),
    };
    values.iter().enumerate().map(echo).collect()
}
