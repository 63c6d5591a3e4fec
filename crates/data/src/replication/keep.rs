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

use std::sync::Arc;

use isomer_storage::{Durability, Read, Version};
use isomer_value::{NodeId, PropId, TypeId};
use rustc_hash::FxHashMap;

use super::{
    conflicts::contested,
    entry::{LogEntry, Op},
    identity::Identity,
    versions::{self, Stamp, rank, remove_seen},
};
use crate::{
    DataError, DataStore, Direction, Dot, Neighbours, Transaction,
    catalog::NameKind,
    keyspace::{self, KEEPERS, Side},
    read::each_pair,
    schema_change::default_keeper,
};

/// Values that are carried along: each with the time at which it was written.
pub(crate) type Carried = Vec<(PropId, Vec<(u64, Vec<u8>)>)>;

/// The position of the life among the operations of its transaction.
const KEPT: u32 = 1;

/// A type whose new relationships keep their ends, and the name of its constraint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointKeeper {
    /// The constraint's name.
    pub name: Arc<str>,
    /// The type.
    pub rel_type: Arc<str>,
}

/// Number of nodes of which the cache remembers the relationships.
const MOST_RESTED: usize = 10_000;

/// A cache for nodes at which many relationships are created that keep their ends: all relationships of the node, in a
/// state, depend on one of these lives. This holds while only local ones are created, as these depend on all existing
/// lives.
#[derive(Default)]
pub(super) struct LifeCache {
    nodes: FxHashMap<NodeId, (Version, Vec<Dot>)>,
    /// Merges under way, and the version of the last one.
    merging: u32,
    merged: Version,
    /// Relationships read, for tests.
    pub(super) looked_at: u64,
}

/// A merge under way: the cache is invalid until it is dropped.
pub(super) struct MergeNoted<'s>(&'s DataStore);

impl Drop for MergeNoted<'_> {
    fn drop(&mut self) {
        let version = self.0.engine().version();
        let mut rested = self.0.shared().replication.rested.lock();
        rested.merging -= 1;
        rested.merged = rested.merged.max(version);
    }
}

impl DataStore {
    /// Held while a merge is committed.
    pub(super) fn note_merge(&self) -> MergeNoted<'_> {
        self.shared().replication.rested.lock().merging += 1;
        MergeNoted(self)
    }
}

/// Types that keep their ends, each with the name of its constraint; empty for the usual one.
pub(super) type Keepers = FxHashMap<TypeId, Arc<str>>;

pub(super) fn load(read: &dyn Read) -> Result<Keepers, DataError> {
    let mut types = Keepers::default();
    each_pair(read, KEEPERS, |key, name| {
        let id = key[KEEPERS.len()..].try_into().map(u32::from_be_bytes);
        let name = std::str::from_utf8(name).ok();
        let (id, name) = id.ok().zip(name).ok_or_else(|| {
            DataError::corrupt("the record of a type that keeps its ends is malformed")
        })?;
        types.insert(TypeId(id), name.into());
        Ok(())
    })?;
    Ok(types)
}

/// The stamp of the life that an end gets.
pub(super) fn kept_stamp(stamp: Stamp) -> Stamp {
    let dot = Dot {
        op: KEPT,
        ..stamp.dot
    };
    Stamp { dot, ..stamp }
}

impl DataStore {
    /// Sets whether relationships of a type that are made here from now on keep their ends: a deletion of an end in
    /// another replica that has not seen the relationship does not delete it. Each replica sets this for its own
    /// relationships.
    ///
    /// # Errors
    /// [`DataError::NameExists`] where the default name of the constraint is taken by another one, or by an index:
    /// create it by a statement, under another name; [`DataError::Limit`] for a name that is too long; those of a
    /// commit.
    pub fn keep_endpoints(&self, type_name: &str, keep: bool) -> Result<(), DataError> {
        let _alone = self.shared().schema_change.lock();
        let name = default_keeper(type_name);
        let is_kept = || {
            let mut keepers = self.endpoint_keepers().into_iter();
            keepers.any(|own| *own.rel_type == *type_name)
        };
        if keep
            && !is_kept()
            && let Some(holder) = self.name_taken(&name)
        {
            return Err(DataError::NameExists {
                what: "an index or constraint named",
                name: holder.to_string(),
            });
        }
        self.keep_endpoints_as(type_name, keep.then_some(""))
    }

    /// The same, by a constraint of this name; `None` removes it. The caller holds the lock of schema changes.
    pub(crate) fn keep_endpoints_as(
        &self,
        type_name: &str,
        name: Option<&str>,
    ) -> Result<(), DataError> {
        let type_id = TypeId(self.intern(NameKind::Type, type_name)?);
        let mut keepers = self.shared().replication.keepers.write();
        if name == Some("") && keepers.contains_key(&type_id) {
            return Ok(());
        }
        let mut tx = self.engine().begin()?;
        match name {
            Some(name) => tx.put(&keyspace::keeper(type_id), name.as_bytes())?,
            None => tx.delete(&keyspace::keeper(type_id))?,
        }
        tx.commit(Durability::Synced)?;
        match name {
            Some(name) => keepers.insert(type_id, name.into()),
            None => keepers.remove(&type_id),
        };
        Ok(())
    }

    /// The types whose new relationships keep their ends, by name.
    pub fn endpoint_keepers(&self) -> Vec<EndpointKeeper> {
        let catalog = self.catalog();
        let keepers = self.shared().replication.keepers.read();
        let listed = keepers.iter().filter_map(|(id, name)| {
            let rel_type = catalog.type_name(*id)?;
            let name = match name.is_empty() {
                true => default_keeper(&rel_type).into(),
                false => name.clone(),
            };
            Some(EndpointKeeper { name, rel_type })
        });
        let mut listed: Vec<EndpointKeeper> = listed.collect();
        listed.sort_by(|one, other| one.rel_type.cmp(&other.rel_type));
        listed
    }
}

impl Transaction {
    /// Whether new relationships of a type keep their ends.
    pub(super) fn keeps_ends(&self, type_id: TypeId) -> bool {
        self.shared()
            .replication
            .keepers
            .read()
            .contains_key(&type_id)
    }

    /// Gives a node another life, at the end of a local transaction, and carries along its content.
    pub(super) fn keep_node(
        &mut self,
        id: NodeId,
        node: Identity,
        stamp: Stamp,
    ) -> Result<Option<Op>, DataError> {
        let Some(mut shadow) = self.node_shadow(id)? else {
            return Ok(None);
        };
        let before = contested(&shadow.properties);
        let is_own =
            |one: Stamp| one.dot.replica == stamp.dot.replica && one.dot.number == stamp.dot.number;
        let stable = self.shared().replication.stable();
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
        if !was_made || !replaced.is_empty() && !self.rests_on(id, &stay)? {
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
            versions.sort_by_cached_key(|one| rank(one, &self.shared().own_replica));
            let values: Vec<_> = versions
                .iter()
                .map(|one| (one.stamp.time, one.value.clone()))
                .collect();
            *versions = echoes(stamp, &values);
            carried.push((*prop, values));
        }
        self.put_node_shadow(id, &shadow, &before, true)?;
        Ok(Some(Op::NodeKept {
            node,
            replaced,
            labels,
            carried,
        }))
    }

    /// Whether each relationship of a node was created for one of these lives of it, or in this transaction.
    fn rests_on(&self, id: NodeId, lives: &[Dot]) -> Result<bool, DataError> {
        let known = {
            let rested = self.shared().replication.rested.lock();
            let known = rested.nodes.get(&id);
            rested.merging == 0
                && known.is_some_and(|(version, of)| rested.merged <= *version && of == lives)
        };
        // The cached answer observes what reading the relationships would have observed.
        if known {
            for side in [Side::Out, Side::In] {
                self.footprint().read_adjacency(id, side, None);
            }
            return Ok(true);
        }
        let all = self.all_rest_on(id, lives)?;
        let mut rested = self.shared().replication.rested.lock();
        if all && rested.merging == 0 && rested.merged <= self.version() {
            if rested.nodes.len() >= MOST_RESTED {
                rested.nodes.clear();
            }
            rested.nodes.insert(id, (self.version(), lives.to_vec()));
        }
        Ok(all)
    }

    fn all_rest_on(&self, id: NodeId, lives: &[Dot]) -> Result<bool, DataError> {
        let mut found = Neighbours::new();
        self.expand_rows(&[id], Direction::Both, &[], &mut found)?;
        self.shared().replication.rested.lock().looked_at += found.rows().len() as u64;
        for row in found.rows() {
            // A relationship outside the space is deleted with its ends in any case.
            if !self.has_relationship(row.id)? {
                continue;
            }
            let Some(shadow) = self.rel_shadow(row.id)? else {
                continue;
            };
            let Some(ends) = self.ends_of(row.id)? else {
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
    pub(super) fn apply_kept(&mut self, entry: &LogEntry, op: &Op) -> Result<(), DataError> {
        let Op::NodeKept {
            node,
            replaced,
            labels,
            carried,
        } = op
        else {
            return Err(super::codec::malformed("an operation"));
        };
        let saw = |dot: Dot| entry.saw(dot);
        let kept = kept_stamp(entry.stamp());
        self.edit_node(node, labels.first().copied(), None, &mut |shadow| {
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
