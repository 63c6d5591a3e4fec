//! Relationships that keep their ends: types whose new relationships let an end live that somebody deletes without having seen them.
//!
//! Who makes such a relationship gives each end another *life*, and carries along what is in it: labels, and properties with the
//! times at which they were written. A deletion that has not seen this leaves that life, and so the node with all
//! that was in it then. (Convergent fields are not carried along: those that a deletion has seen go with it.) A value that was
//! carried along never wins over one that was written later, and is no conflict: its dot has an operation from 1 on, where all else
//! has 0.
//!
//! Lives would gather at a node with many such relationships. Those that everybody has seen are replaced by the new one, where the
//! node still has a life that it was made with and that everybody has seen, too: whoever deletes it now takes them all. No life
//! goes on which a relationship rests that has no other one: it would go with it, though nobody deleted it.

use std::sync::Arc;

use isomer_storage::{Durability, Read, Version};
use isomer_value::{NodeId, PropId, TypeId};
use rustc_hash::FxHashMap;

use super::{
    conflicts::contested,
    entry::{Entry, Op},
    identity::Identity,
    versions::{self, Stamp, rank, remove_seen},
};
use crate::{
    DataError, Direction, Dot, Neighbours, Store, Transaction,
    catalog::NameKind,
    keyspace::{self, KEEPERS, Side},
    read::each_pair,
    schema_change::default_keeper,
};

/// Values that are carried along: each with the time at which it was written.
pub(crate) type Carried = Vec<(PropId, Vec<(u64, Vec<u8>)>)>;

/// Where the life stands among the operations of its transaction.
const KEPT: u32 = 1;

/// A type whose new relationships keep their ends, and what the constraint is called that says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointKeeper {
    /// The constraint's name.
    pub name: Arc<str>,
    /// The type.
    pub rel_type: Arc<str>,
}

/// Nodes of which it is known which relationships they have are remembered, up to so many.
const MOST_RESTED: usize = 10_000;

/// Of nodes at which many relationships are made that keep their ends: that all of its relationships, in a state, rest on one of these
/// lives. It stays so while only local ones are made, as these rest on all lives that there are.
#[derive(Default)]
pub(super) struct Rested {
    nodes: FxHashMap<NodeId, (Version, Vec<Dot>)>,
    /// Merges under way, and the version of the last one.
    merging: u32,
    merged: Version,
    /// Relationships looked at, for tests.
    pub(super) looked_at: u64,
}

/// Merges while it lives: nothing is known of nodes.
pub(super) struct MergeNoted<'s>(&'s Store);

impl Drop for MergeNoted<'_> {
    fn drop(&mut self) {
        let version = self.0.engine().version();
        let mut rested = self.0.shared().replication.rested.lock();
        rested.merging -= 1;
        rested.merged = rested.merged.max(version);
    }
}

impl Store {
    /// To be held by whoever merges, until the commit is through.
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
        let (id, name) = id
            .ok()
            .zip(name)
            .ok_or_else(|| DataError::corrupt("a type that keeps its ends is malformed"))?;
        types.insert(TypeId(id), name.into());
        Ok(())
    })?;
    Ok(types)
}

/// The stamp of the life that an end is given.
pub(super) fn kept_stamp(stamp: Stamp) -> Stamp {
    let dot = Dot {
        op: KEPT,
        ..stamp.dot
    };
    Stamp { dot, ..stamp }
}

impl Store {
    /// Says whether relationships of a type that are made here from now on keep their ends: whoever deletes an end elsewhere without
    /// having seen the relationship does not take it away. Each replica says so for what is made there.
    ///
    /// # Errors
    /// [`DataError::NameExists`] where the constraint that says so would have the name of another one, or of an index: say so by a
    /// statement, under another name; [`DataError::Limit`] for a name that is too long; those of a commit.
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

    /// The same, by a constraint of this name; none that they do not. The caller holds the lock of schema changes.
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
        let told = keepers.iter().filter_map(|(id, name)| {
            let rel_type = catalog.type_name(*id)?;
            let name = match name.is_empty() {
                true => default_keeper(&rel_type).into(),
                false => name.clone(),
            };
            Some(EndpointKeeper { name, rel_type })
        });
        let mut told: Vec<EndpointKeeper> = told.collect();
        told.sort_by(|one, other| one.rel_type.cmp(&other.rel_type));
        told
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

    /// Gives a node another life, at the end of a local transaction, and carries along what is in it.
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
            // The one that is read comes last, and so stays the one that is read: they are of one transaction from now on.
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

    /// Whether each relationship of a node was made for one of these lives of it, or in this transaction.
    fn rests_on(&self, id: NodeId, lives: &[Dot]) -> Result<bool, DataError> {
        let known = {
            let rested = self.shared().replication.rested.lock();
            let known = rested.nodes.get(&id);
            rested.merging == 0
                && known.is_some_and(|(version, of)| rested.merged <= *version && of == lives)
        };
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
            // One that is this database's own alone goes with its ends in any case.
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

    /// Does the same for another replica's transaction.
    pub(super) fn apply_kept(&mut self, entry: &Entry, op: &Op) -> Result<(), DataError> {
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
            // A state that was joined may have brought it before.
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
