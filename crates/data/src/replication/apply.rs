//! Applying a transaction of another replica, in one local transaction.

use isomer_value::{LabelId, Map, NodeId, PropId, RelId, record::decode_value};

use super::{
    cells::differ,
    codec::malformed,
    conflicts::contested,
    entry::{LogEntry, Op},
    identity::{Identity, Owner},
    log_builder::read_pair,
    rules::{self, Mutant},
    shadow::{NodeShadow, Properties, RelShadow, remove_seen},
    versions::{self, Version},
};
use crate::{
    Access, BucketKind, BucketOptions, ConvergentOwner, DataError, DataStore, Direction, Dot,
    Durability, Neighbours, Transaction,
    convergent::{
        Action, FieldPosition, ReplicaNo, Vector, entry_dot,
        replica::{decode_seen, encode_seen},
    },
    footprint::Space,
    graph::NodeState,
    keyspace::{self, IdSpace, after_prefix, push_id},
    stream::Change,
};

/// Whether a transaction may be applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// It was applied before.
    Past,
    /// It can be applied now.
    Now,
    /// It depends on transactions that are not applied yet.
    Later,
}

/// Whether an entry can be applied where `here` was seen.
pub(crate) fn turn(entry: &LogEntry, here: &Vector) -> Turn {
    if here.saw(entry.origin, entry.number) {
        return match rules::broken(Mutant::AppliesTwice) {
            true => Turn::Now,
            false => Turn::Past,
        };
    }
    let next = here.reach(entry.origin).checked_add(1);
    let follows = next == Some(entry.number) || rules::broken(Mutant::NoGapGate);
    let caused = here.includes(&entry.seen_elsewhere()) || rules::broken(Mutant::NoCausalGate);
    match follows && caused {
        true => Turn::Now,
        false => Turn::Later,
    }
}

/// Attempts to apply a transaction after conflicts with local ones.
const ATTEMPTS: usize = 1000;

impl DataStore {
    /// Applies a transaction that can be applied, and adds it to the log for other replicas.
    pub(super) fn apply_entry(&self, entry: &LogEntry) -> Result<(), DataError> {
        let bytes = entry.encode();
        self.merging(|tx| {
            for (at, op) in entry.ops.iter().enumerate() {
                tx.apply_op(entry, op)?;
                if rules::broken(Mutant::HalfTransactions) && at == 0 && entry.ops.len() > 1 {
                    let half = self.begin_merging()?;
                    std::mem::replace(tx, half).commit_with(Durability::Buffered)?;
                    if entry.number.is_multiple_of(3) {
                        return Err(super::join::joining_error());
                    }
                }
            }
            tx.log(&Change::ConvergedBy {
                replica: entry.origin,
                number: entry.number,
                time: entry.time,
                seen: entry.seen.clone(),
            });
            // In the same commit as the operations: after a crash, the entry was either applied and logged, or is
            // received again.
            tx.put(&keyspace::log_entry(entry.origin.0, entry.number), &bytes)?;
            tx.put_reached(entry.origin, entry.number)
        })?;
        self.reach_time(entry.time);
        Ok(())
    }

    fn begin_merging(&self) -> Result<Transaction, DataError> {
        let mut tx = Transaction::begin(self.clone(), Access::Write)?;
        tx.noted.is_merging = true;
        Ok(tx)
    }

    /// Runs `body` in a transaction that is rolled back.
    pub(super) fn try_merging(
        &self,
        mut body: impl FnMut(&mut Transaction) -> Result<(), DataError>,
    ) -> Result<(), DataError> {
        let _noted = self.note_merge();
        body(&mut self.begin_merging()?)
    }

    /// Runs `body` in a transaction in which constraints refuse nothing; repeats it after a conflict with a local one.
    pub(super) fn merging<T>(
        &self,
        mut body: impl FnMut(&mut Transaction) -> Result<T, DataError>,
    ) -> Result<T, DataError> {
        let mut attempt = 0;
        let _noted = self.note_merge();
        loop {
            let mut tx = self.begin_merging()?;
            let done = body(&mut tx).and_then(|value| {
                rules::end_point();
                tx.commit_with(Durability::Buffered)?;
                rules::end_point();
                Ok(value)
            });
            match done {
                Err(error) if error.kind() == crate::ErrorKind::Retry && attempt < ATTEMPTS => {
                    attempt += 1;
                }
                done => return done,
            }
        }
    }
}

impl Transaction {
    /// All transactions of a replica up to a number are applied now, or were given up.
    pub(super) fn put_reached(&mut self, replica: ReplicaNo, number: u64) -> Result<(), DataError> {
        let stored = self.read().get(&keyspace::seen(replica.0))?;
        let (upto, mut except) = match stored {
            Some(stored) => decode_seen(&stored)?,
            None => (0, Vec::new()),
        };
        except.retain(|lacking| *lacking > number);
        let seen = encode_seen(upto.max(number), &except);
        self.put(&keyspace::seen(replica.0), &seen)
    }

    fn apply_op(&mut self, entry: &LogEntry, op: &Op) -> Result<(), DataError> {
        let saw = |dot: Dot| entry.saw(dot);
        match op {
            Op::NodeMade { node, labels, set } => {
                self.edit_node(node, labels.first().copied(), Some(&saw), &mut |shadow| {
                    shadow.lives.push(entry.stamp());
                    for label in labels {
                        shadow.labels.entry(*label).or_default().push(entry.stamp());
                    }
                    put_all(&mut shadow.properties, entry, set);
                })
            }
            Op::NodeChanged {
                node,
                added,
                removed,
                set,
                unset,
            } => self.edit_node(node, None, None, &mut |shadow| {
                // Only the seen dots: a label that was added concurrently survives its removal.
                for label in added.iter().chain(removed) {
                    if let Some(stamps) = shadow.labels.get_mut(label) {
                        stamps.retain(|stamp| !saw(stamp.dot));
                    }
                }
                for label in added {
                    shadow.labels.entry(*label).or_default().push(entry.stamp());
                }
                shadow.labels.retain(|_, stamps| !stamps.is_empty());
                take_all(&mut shadow.properties, entry, unset);
                put_all(&mut shadow.properties, entry, set);
            }),
            Op::NodeGone { node } => {
                if self.find_node(node)?.is_none() {
                    return Ok(()); // nothing is known of it, so nothing was left
                }
                let all = rules::broken(Mutant::DeletesUnseen);
                let gone = |dot: Dot| entry.saw(dot) || all;
                self.edit_node(node, None, Some(&gone), &mut |_| ())
            }
            Op::NodeKept { .. } => self.apply_kept(entry, op),
            Op::RelMade { .. } => self.apply_relationship(entry, op),
            Op::RelChanged { rel, set, unset } => {
                let Some(id) = self.find_rel(rel)? else {
                    return Ok(()); // it is gone for good
                };
                self.edit_relationship(id, &mut |shadow| {
                    take_all(&mut shadow.properties, entry, unset);
                    put_all(&mut shadow.properties, entry, set);
                })
            }
            // A relationship has one life, so its deletion is final and leaves no ghost.
            Op::RelGone { rel } => match self.find_rel(rel)? {
                Some(id) => self.purge_relationship(id),
                None => Ok(()),
            },
            Op::Field {
                owner,
                op,
                place,
                action,
            } => self.apply_field(entry, owner, *op, place, action),
            Op::FileMade { .. }
            | Op::FileGone { .. }
            | Op::FileCalled { .. }
            | Op::FileSized { .. }
            | Op::ChunkPut { .. }
            | Op::ChunksGone { .. }
            | Op::FolderMade { .. }
            | Op::FolderGone { .. } => self.apply_to_files(entry, op),
            _ => self.apply_to_bucket(entry, op),
        }
    }

    // ---- nodes

    /// Changes the metadata of a node (a ghost is created where there is none), then its record accordingly. First,
    /// everything that `seen` covers is removed from the metadata.
    pub(super) fn edit_node(
        &mut self,
        identity: &Identity,
        home: Option<LabelId>,
        seen: Option<&dyn Fn(Dot) -> bool>,
        edit: &mut dyn FnMut(&mut NodeShadow),
    ) -> Result<(), DataError> {
        let (id, mut shadow, old) = match self.find_node(identity)? {
            Some(id) => {
                let shadow = self.node_shadow(id)?;
                let shadow = shadow.ok_or_else(|| malformed("the metadata of a node"))?;
                (id, shadow, self.load_node(id)?)
            }
            None => {
                let id = self.new_node_id(home)?;
                (id, NodeShadow::new(identity.clone()), None)
            }
        };
        let before = (shadow.life_dots(), contested(&shadow.properties));
        if let Some(seen) = seen {
            shadow.remove_seen(seen);
            self.remove_fields(ConvergentOwner::Node(id), seen)?;
        }
        edit(&mut shadow);
        self.materialize_node(id, old, shadow, before)
    }

    /// Materializes a node: creates, changes or deletes its record according to its metadata row.
    pub(super) fn materialize_node(
        &mut self,
        id: NodeId,
        old: Option<NodeState>,
        shadow: NodeShadow,
        (lives, contested): (Vec<Dot>, Vec<PropId>),
    ) -> Result<(), DataError> {
        // A relationship exists only while its end has one of the lives that its creator saw.
        let still = shadow.life_dots();
        if lives.iter().any(|dot| !still.contains(dot)) {
            self.cut_relationships(id, &still)?;
        }
        let is_there = !still.is_empty();
        if is_there {
            let new = self.state_of(&shadow)?;
            self.noted.merged = Some((id, shadow.identity.clone()));
            self.apply_node_change(id, old.as_ref(), Some(&new))?;
            return self.put_node_shadow(id, &shadow, &contested, true);
        }
        let place = match &old {
            None => id,
            Some(old) => {
                self.apply_node_change(id, Some(old), None)?;
                self.drop_shadow(IdSpace::Nodes, id.0, &shadow.identity)?;
                // The id of a deleted record is never reused.
                self.new_node_id(None)?
            }
        };
        // A ghost is needed only while it has something that the deletion had not seen.
        let fields = self.move_fields(id, place)?;
        match shadow.is_empty() && !fields {
            true => self.drop_shadow(IdSpace::Nodes, place.0, &shadow.identity),
            false => self.put_node_shadow(place, &shadow, &[], false),
        }
    }

    fn state_of(&self, shadow: &NodeShadow) -> Result<NodeState, DataError> {
        Ok(NodeState {
            labels: shadow.labels.keys().copied().collect(),
            properties: self.read_of(&shadow.properties)?,
        })
    }

    /// The values that are read.
    fn read_of(&self, properties: &Properties) -> Result<Map, DataError> {
        let names = self.catalog_ref().clone();
        let mut map = Map::new();
        for (prop, own) in properties {
            // Deterministic by time and replica, so that all replicas read the same version.
            let Some(at) = versions::winner(own, &self.shared().own_replica) else {
                continue;
            };
            let name = names
                .prop_name(*prop)
                .ok_or_else(|| DataError::corrupt("a property has no name"))?;
            map.insert(name, decode_value(&own[at].value, &*names.names)?);
        }
        Ok(map)
    }

    /// Deletes relationships of a node that were created for lives of it that no longer exist.
    fn cut_relationships(&mut self, id: NodeId, lives: &[Dot]) -> Result<(), DataError> {
        let mut found = Neighbours::new();
        self.expand_rows(&[id], Direction::Both, &[], &mut found)?;
        let mut rels: Vec<RelId> = found.rows().iter().map(|row| row.id).collect();
        rels.sort_unstable();
        rels.dedup();
        for rel in rels {
            let Some(shadow) = self.rel_shadow(rel)? else {
                continue;
            };
            let Some(ends) = self.ends_of(rel)? else {
                continue;
            };
            let is_cut = |end: NodeId, seen: &[Dot]| {
                end == id && !seen.iter().any(|dot| lives.contains(dot))
            };
            let cut = is_cut(ends.source, &shadow.source_lives)
                || is_cut(ends.target, &shadow.target_lives);
            let is_cut = cut && !rules::broken(Mutant::EndsIgnored);
            // A relationship outside the space is deleted with its ends, whichever replica recreated these.
            if lives.is_empty() || is_cut && self.has_relationship(rel)? {
                self.purge_relationship(rel)?;
            }
        }
        Ok(())
    }

    // ---- relationships

    fn apply_relationship(&mut self, entry: &LogEntry, op: &Op) -> Result<(), DataError> {
        let Op::RelMade {
            rel,
            type_id,
            source,
            target,
            source_lives,
            target_lives,
            set,
            ..
        } = op
        else {
            return Err(malformed("an operation"));
        };
        if self.find_rel(rel)?.is_some() {
            return Ok(()); // a snapshot brought it
        }
        let mut properties = Properties::new();
        put_all(&mut properties, entry, set);
        let shadow = RelShadow {
            identity: rel.clone(),
            life: entry.stamp(),
            source_lives: source_lives.clone(),
            target_lives: target_lives.clone(),
            properties,
        };
        self.make_relationship(*type_id, source, target, shadow)
    }

    /// Creates a relationship, unless one of the lives of an end for which it was created is gone: then it never will
    /// exist.
    pub(super) fn make_relationship(
        &mut self,
        type_id: isomer_value::TypeId,
        source: &Identity,
        target: &Identity,
        shadow: RelShadow,
    ) -> Result<(), DataError> {
        let mut ends = [NodeId(0); 2];
        let both = [
            (source, &shadow.source_lives),
            (target, &shadow.target_lives),
        ];
        for (end, (identity, seen)) in ends.iter_mut().zip(both) {
            let Some(id) = self.find_node(identity)? else {
                return Ok(());
            };
            let lives = self.node_shadow(id)?.map(|node| node.life_dots());
            let lives = lives.unwrap_or_default();
            let ignored = rules::broken(Mutant::EndsIgnored) && !lives.is_empty();
            if !seen.iter().any(|dot| lives.contains(dot)) && !ignored {
                return Ok(());
            }
            *end = id;
        }
        let map = self.read_of(&shadow.properties)?;
        let id = self.create_relationship(type_id, ends[0], ends[1], &map)?;
        self.put_rel_shadow(id, &shadow, &[])
    }

    pub(super) fn edit_relationship(
        &mut self,
        id: RelId,
        edit: &mut dyn FnMut(&mut RelShadow),
    ) -> Result<(), DataError> {
        let shadow = self.rel_shadow(id)?;
        let mut shadow = shadow.ok_or_else(|| malformed("the metadata of a relationship"))?;
        let before = contested(&shadow.properties);
        edit(&mut shadow);
        let map = self.read_of(&shadow.properties)?;
        self.replace_relationship_properties(id, &map)?;
        self.put_rel_shadow(id, &shadow, &before)
    }

    /// Deletes a relationship with its metadata.
    pub(super) fn purge_relationship(&mut self, id: RelId) -> Result<(), DataError> {
        let identity = self.rel_identity(id)?;
        self.delete_relationship(id)?;
        self.drop_shadow(IdSpace::Relationships, id.0, &identity)
    }

    // ---- convergent fields

    fn apply_field(
        &mut self,
        entry: &LogEntry,
        owner: &Owner,
        op: u32,
        place: &[u8],
        action: &[u8],
    ) -> Result<(), DataError> {
        let action = Action::decode(action).ok_or_else(|| malformed("an action"))?;
        let found = match owner {
            Owner::Node(identity) => match self.find_node(identity)? {
                Some(id) => ConvergentOwner::Node(id),
                None => {
                    // Deleted here already. What this deletion had not seen is kept for a node that is created again by
                    // a replica that had not seen the deletion, either.
                    let id = self.new_node_id(None)?;
                    self.put_node_shadow(id, &NodeShadow::new(identity.clone()), &[], false)?;
                    ConvergentOwner::Node(id)
                }
            },
            Owner::Relationship(identity) => match self.find_rel(identity)? {
                Some(id) => ConvergentOwner::Relationship(id),
                None => return Ok(()),
            },
        };
        // A concurrent deletion of the owner deletes the field without this operation.
        match found {
            ConvergentOwner::Node(id) if self.load_node(id)?.is_none() => {
                self.observe_metadata(IdSpace::Nodes, id.0);
            }
            ConvergentOwner::Node(_) => {}
            ConvergentOwner::Relationship(id) => {
                self.observe_metadata(IdSpace::Relationships, id.0);
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
        self.converge_remote(found, position, &action, (dot, entry.time), &saw)?;
        if let ConvergentOwner::Node(id) = found {
            self.drop_empty_ghost(id)?;
        }
        Ok(())
    }

    fn drop_empty_ghost(&mut self, id: NodeId) -> Result<(), DataError> {
        if self.read().get(&keyspace::node(id))?.is_some() {
            return Ok(());
        }
        let Some(shadow) = self.node_shadow(id)? else {
            return Ok(());
        };
        let owner = ConvergentOwner::Node(id).prefix();
        let end = after_prefix(&owner);
        if shadow.is_empty() && self.keys_between(&owner, end.as_deref())?.is_empty() {
            self.drop_shadow(IdSpace::Nodes, id.0, &shadow.identity)?;
        }
        Ok(())
    }

    /// Removes the seen entries of an owner's convergent fields.
    pub(super) fn remove_fields(
        &mut self,
        owner: ConvergentOwner,
        seen: &dyn Fn(Dot) -> bool,
    ) -> Result<(), DataError> {
        if !self.shared().own_replica.has_any() {
            return Ok(());
        }
        let prefix = owner.prefix();
        for prop in self.convergent_properties_of(owner)? {
            let before = self.fields_before(owner, prop)?;
            let mut head = prefix.clone();
            push_id(&mut head, prop.0.into());
            let end = after_prefix(&head);
            let mut touched = Vec::new();
            for key in self.keys_between(&head, end.as_deref())? {
                if seen(entry_dot(&key[prefix.len()..])?) {
                    self.delete(&key)?;
                    touched.push(key);
                }
            }
            self.fields_after(before, &touched)?;
            if !touched.is_empty() {
                self.log_merged(owner, prop);
            }
        }
        self.clear_owner(owner);
        Ok(())
    }

    /// Moves the remaining convergent fields of a node to another id; returns whether there were any.
    fn move_fields(&mut self, from: NodeId, to: NodeId) -> Result<bool, DataError> {
        let (old, new) = (
            ConvergentOwner::Node(from).prefix(),
            ConvergentOwner::Node(to).prefix(),
        );
        let end = after_prefix(&old);
        let keys = self.keys_between(&old, end.as_deref())?;
        if from != to {
            for key in &keys {
                let value = self.read().get(key)?.unwrap_or_default();
                self.delete(key)?;
                let moved = [&new[..], &key[old.len()..]].concat();
                self.put(&moved, &value)?;
            }
        }
        Ok(!keys.is_empty())
    }

    // ---- buckets

    fn apply_to_bucket(&mut self, entry: &LogEntry, op: &Op) -> Result<(), DataError> {
        let saw = |dot: Dot| entry.saw(dot);
        let stamp = entry.stamp();
        match op {
            Op::BucketMade { bucket, options } => {
                let value = vec![options >> 1, options & 1];
                BucketOptions::decode(&value)
                    .map_err(|_| DataError::invalid("the options of a bucket are malformed"))?;
                let life = Version { stamp, value };
                self.change_lives(*bucket, None, &saw, Some(life))?;
                self.materialize_bucket(*bucket, None)
            }
            Op::Put { bucket, key, entry } => {
                let stored = keyspace::bucket_entry(*bucket, key);
                let (before, mut after) = self.see_cell(&stored, &saw)?;
                after.push(Version {
                    stamp,
                    value: entry.clone(),
                });
                self.materialize_entry(*bucket, key, &before, after)
            }
            Op::Taken { bucket, key } => {
                let stored = keyspace::bucket_entry(*bucket, key);
                let (before, after) = self.see_cell(&stored, &saw)?;
                self.materialize_entry(*bucket, key, &before, after)
            }
            Op::RangeTaken { bucket, start, end } => {
                self.take_entries(*bucket, start, end.as_deref(), &saw)
            }
            Op::ValueAdded { bucket, key, value } => {
                let stored = keyspace::bucket_pair(*bucket, key, value);
                let (before, mut after) = self.see_cell(&stored, &saw)?;
                after.push(Version {
                    stamp,
                    value: Vec::new(),
                });
                self.materialize_pair(*bucket, key, value, &before, after)
            }
            Op::ValueRemoved { bucket, key, value } => {
                let stored = keyspace::bucket_pair(*bucket, key, value);
                let (before, after) = self.see_cell(&stored, &saw)?;
                self.materialize_pair(*bucket, key, value, &before, after)
            }
            Op::Sequence { bucket, name, last } => {
                let version = Version {
                    stamp,
                    value: last.to_be_bytes().to_vec(),
                };
                self.change_sequence(*bucket, name, &saw, Some(version))
            }
            Op::BucketGone { bucket, kind } => {
                self.change_lives(*bucket, *kind, &saw, None)?;
                if *kind != Some(BucketKind::Multi) {
                    self.take_entries(*bucket, b"", None, &saw)?;
                }
                if *kind != Some(BucketKind::Map) {
                    self.take_pairs(*bucket, &saw)?;
                }
                self.take_sequences(*bucket, &saw)?;
                self.materialize_bucket(*bucket, None)
            }
            _ => Err(malformed("an operation")),
        }
    }

    /// Removes the seen values of a multi-value bucket.
    fn take_pairs(&mut self, bucket: u32, saw: &dyn Fn(Dot) -> bool) -> Result<(), DataError> {
        let pairs = keyspace::bucket_pairs(bucket);
        let end = after_prefix(&pairs);
        for stored in self.keys_between(&pairs, end.as_deref())? {
            let mut rest = &stored[pairs.len()..];
            let key = keyspace::take_terminated(&mut rest)
                .ok_or_else(|| malformed("an entry of a bucket"))?;
            let (before, after) = self.see_cell(&stored, saw)?;
            self.materialize_pair(bucket, &key, rest, &before, after)?;
        }
        Ok(())
    }

    /// Removes what was seen of a range of a bucket's entries.
    fn take_entries(
        &mut self,
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
        for stored in self.keys_between(&from, to.as_deref())? {
            let (before, after) = self.see_cell(&stored, saw)?;
            self.materialize_entry(bucket, &stored[prefix.len()..], &before, after)?;
        }
        Ok(())
    }

    /// Materializes an entry of a bucket from its versions.
    pub(super) fn materialize_entry(
        &mut self,
        bucket: u32,
        key: &[u8],
        before: &[Version],
        mut after: Vec<Version>,
    ) -> Result<(), DataError> {
        after.sort_unstable_by_key(|version| version.stamp.dot);
        if before == after {
            return Ok(());
        }
        let stored = keyspace::bucket_entry(bucket, key);
        self.footprint().read_key(Space::Bucket(bucket), key);
        if !after.is_empty() {
            self.expect_entry(bucket, BucketKind::Map)?;
        }
        let read = self.put_cell(&stored, &after)?;
        let value = read.map(|at| after[at].value.clone());
        self.replace_entry(bucket, key, value.as_deref())?;
        match after.is_empty() {
            true => self.drop_bucket_without_lives(bucket),
            false => Ok(()),
        }
    }

    /// Adds or removes a value of a multi-value bucket.
    pub(super) fn materialize_pair(
        &mut self,
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
        read_pair(self, bucket, key, value);
        if !after.is_empty() {
            self.expect_entry(bucket, BucketKind::Multi)?;
        }
        self.put_cell(&keyspace::bucket_pair(bucket, key, value), &after)?;
        match (before.is_empty(), after.is_empty()) {
            (true, false) => self.replace_pair(bucket, key, value, true),
            (false, true) => {
                self.replace_pair(bucket, key, value, false)?;
                self.drop_bucket_without_lives(bucket)
            }
            _ => {
                self.touch_pair(bucket, key, value);
                Ok(())
            }
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
