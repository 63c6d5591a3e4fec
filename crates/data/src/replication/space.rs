//! The replicated part of a database: all of it, or a declared *space*: labels, relationship types and buckets by name.
//!
//! All members of a replication replicate the same space; each names it on the first line of its pages (see `wire`),
//! and another one is refused. A database that holds nothing yet and has heard of no member adopts the space of the
//! first member that it hears of. Everything outside the space is local: it is not sent, and received changes cannot
//! touch it.
//!
//! - A node is in the space if it was made with a label of it. It stays: taking its last such label away here, or
//!   giving one to a node outside the space, is refused, as others would keep what they have, or never get what was
//!   there before. (Where two replicas take different labels away, the node is left without one, and is still in the
//!   space: its shadow says so.)
//! - A relationship is in the space if both its ends are, and its type, where types are named. One outside the space is
//!   deleted with its ends, by whichever replica these are deleted.
//! - A bucket is in the space by its name, with its sequences.
//! - Files are not in a declared space: they are replicated only where everything is.
//!
//! A record with a shadow is in the space. One without a shadow, in a database with a declared space, is in it if its
//! labels say so: it is older than replication.
//!
//! ```text
//! stored   u8 1, bytes name, then for labels, types and buckets: id number, and as many ids
//! on wire  bytes name, then for labels, types and buckets: id number, and as many: bytes name
//! ```

use std::{collections::BTreeSet, sync::Arc};

use isomer_storage::{Durability, GuardMode, Read};
use isomer_value::{LabelId, NodeId, RelId, TypeId, record::RecordRef};
use rustc_hash::FxHashMap;

use super::{
    codec::{malformed, push_bytes, take_byte, take_count, take_text, take_u32},
    entry::Op,
    identity::{Identity, Owner},
    rules::{self, Mutant},
    settings::{has_any, is_empty},
    snapshot::Part,
};
use crate::{
    ConvergentOwner, DataError, DataStore, Transaction,
    catalog::NameKind,
    footprint::Item,
    keyspace::{self, IdSpace, SPACE, push_id, sole_id, take_id},
    stream::Change,
};

/// The part of a database that is replicated. Names are sorted and unique.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplicatedSpace {
    /// Its name, for display.
    pub name: String,
    /// Nodes that are created with one of these labels are in it.
    pub labels: BTreeSet<String>,
    /// Relationships of these types between nodes of the space are in it; of all types where the list is empty.
    pub rel_types: BTreeSet<String>,
    /// Buckets.
    pub buckets: BTreeSet<String>,
}

impl ReplicatedSpace {
    pub(super) fn spell(&self) -> Vec<u8> {
        let mut out = Vec::new();
        push_bytes(&mut out, self.name.as_bytes());
        for names in [&self.labels, &self.rel_types, &self.buckets] {
            push_id(&mut out, names.len() as u64);
            names
                .iter()
                .for_each(|name| push_bytes(&mut out, name.as_bytes()));
        }
        out
    }

    pub(super) fn read(mut bytes: &[u8]) -> Option<Self> {
        let name = take_text(&mut bytes)?;
        let [mut labels, mut rel_types, mut buckets] = [const { BTreeSet::new() }; 3];
        for names in [&mut labels, &mut rel_types, &mut buckets] {
            for _ in 0..take_count(&mut bytes)? {
                names.insert(take_text(&mut bytes)?);
            }
        }
        bytes.is_empty().then_some(Self {
            name,
            labels,
            rel_types,
            buckets,
        })
    }

    fn check(&self) -> Result<(), DataError> {
        crate::store::check_name("space", &self.name)?;
        if self.name.is_empty() {
            return Err(DataError::invalid(
                "the name of the space is empty: give it a name",
            ));
        }
        let named = [
            (NameKind::Label, &self.labels),
            (NameKind::Type, &self.rel_types),
            (NameKind::Bucket, &self.buckets),
        ];
        for (kind, names) in named {
            for name in names {
                crate::store::check_name(kind.noun(), name)?;
            }
        }
        match self.labels.is_empty() && self.buckets.is_empty() {
            true => Err(DataError::invalid(format!(
                "the space `{}` holds nothing: name a label or a bucket",
                self.name
            ))),
            false => Ok(()),
        }
    }
}

/// A space in numbers of this database, each list ascending.
#[derive(Debug)]
pub(super) struct Space {
    name: String,
    labels: Vec<u32>,
    types: Vec<u32>,
    buckets: Vec<u32>,
}

pub(super) fn load(read: &dyn Read) -> Result<Option<Arc<Space>>, DataError> {
    let Some(stored) = read.get(SPACE)? else {
        return Ok(None);
    };
    let space = Space::decode(&stored).ok_or_else(|| malformed("the space"))?;
    Ok(Some(Arc::new(space)))
}

impl Space {
    fn encode(&self) -> Vec<u8> {
        let mut out = vec![1];
        push_bytes(&mut out, self.name.as_bytes());
        for ids in [&self.labels, &self.types, &self.buckets] {
            push_id(&mut out, ids.len() as u64);
            ids.iter().for_each(|id| push_id(&mut out, (*id).into()));
        }
        out
    }

    fn decode(mut bytes: &[u8]) -> Option<Self> {
        let rest = &mut bytes;
        if take_byte(rest)? != 1 {
            return None;
        }
        let name = take_text(rest)?;
        let mut ids =
            || -> Option<Vec<u32>> { (0..take_count(rest)?).map(|_| take_u32(rest)).collect() };
        let space = Self {
            name,
            labels: ids()?,
            types: ids()?,
            buckets: ids()?,
        };
        bytes.is_empty().then_some(space)
    }

    pub(super) fn has_any(&self, labels: &[LabelId]) -> bool {
        labels
            .iter()
            .any(|label| self.labels.binary_search(&label.0).is_ok())
    }

    pub(super) fn has_label_of(&self, record: &RecordRef<'_>) -> bool {
        record.labels().any(|label| self.has_any(&[label]))
    }

    fn has_type(&self, type_id: TypeId) -> bool {
        self.types.is_empty() || self.types.binary_search(&type_id.0).is_ok()
    }

    fn has_bucket(&self, bucket: u32) -> bool {
        self.buckets.binary_search(&bucket).is_ok()
    }
}

impl DataStore {
    /// The replicated space; none where everything is replicated.
    pub fn replicated_space(&self) -> Option<ReplicatedSpace> {
        let space = self.shared().replication.space.read().clone()?;
        let names = self.shared_names();
        let spelled = |kind, ids: &[u32]| {
            let names = ids.iter().filter_map(|id| names.name(kind, *id));
            names.map(|name| name.to_string()).collect()
        };
        Some(ReplicatedSpace {
            name: space.name.clone(),
            labels: spelled(NameKind::Label, &space.labels),
            rel_types: spelled(NameKind::Type, &space.types),
            buckets: spelled(NameKind::Bucket, &space.buckets),
        })
    }

    /// Declares that only a part of this database is replicated: before its first peer is added, or while it holds
    /// nothing, never held anything and has heard of no member. It cannot be changed afterwards. Transactions under way
    /// fail with a conflict.
    ///
    /// # Errors
    /// [`DataError::Invalid`] for a space without a name or without content; [`DataError::Denied`] in a database that
    /// is a replica already, or is opened for reading only; those of a commit.
    pub fn declare_space(&self, space: &ReplicatedSpace) -> Result<(), DataError> {
        // Excludes a concurrent `begin_replication`.
        let _applying = self.shared().replication.applying.lock();
        self.take_space(space)
    }

    fn take_space(&self, space: &ReplicatedSpace) -> Result<(), DataError> {
        space.check()?;
        if self.replicated_space().as_ref() == Some(space) {
            return Ok(());
        }
        if self.options().read_only {
            return Err(DataError::Denied(
                "the database is opened for reading only".into(),
            ));
        }
        let ids = |kind, names: &BTreeSet<String>| -> Result<Vec<u32>, DataError> {
            let ids = names.iter().map(|name| self.intern(kind, name));
            let mut ids = ids.collect::<Result<Vec<_>, _>>()?;
            ids.sort_unstable();
            Ok(ids)
        };
        let declared = Space {
            name: space.name.clone(),
            labels: ids(NameKind::Label, &space.labels)?,
            types: ids(NameKind::Type, &space.rel_types)?,
            buckets: ids(NameKind::Bucket, &space.buckets)?,
        };
        // Nothing is committed between the check and the commit; a transaction that began before has read the schema,
        // and conflicts.
        let _gate = self.shared().gate.write();
        let mut tx = self.engine().begin()?;
        if self.is_replicated() && !self.is_open(&*tx)? {
            return Err(DataError::Denied(format!(
                "this database is a replica of {} already: `isomer export` it, and declare the space `{}` in a new one before it is replicated",
                match self.replicated_space() {
                    Some(own) => format!("the space `{}`", own.name),
                    None => "all of it".to_owned(),
                },
                space.name
            )));
        }
        tx.put(SPACE, &declared.encode())?;
        tx.guard(Item::Schema.granule(), GuardMode::Write);
        tx.commit(Durability::Synced)?;
        *self.shared().replication.space.write() = Some(Arc::new(declared));
        Ok(())
    }

    /// Whether this replica adopts the space of the first member that it hears of: it has heard of none, and is empty.
    pub(super) fn is_open(&self, read: &dyn Read) -> Result<bool, DataError> {
        let replication = &self.shared().replication;
        let undeclared = replication.space.read().is_none();
        let heard_nobody = replication.members.lock().is_empty();
        // Deleted records are still in the log, from which others would receive them.
        Ok(undeclared && heard_nobody && is_empty(read)? && !has_any(read, keyspace::LOG)?)
    }

    /// Checks that a peer replicates this space, or everything.
    ///
    /// # Errors
    /// [`DataError::Invalid`] where this database does not replicate the same.
    pub(super) fn meet_space(&self, theirs: Option<&ReplicatedSpace>) -> Result<(), DataError> {
        match self.would_meet(theirs)? {
            Some(taken) => self.take_space(taken),
            None => Ok(()),
        }
    }

    /// As [`DataStore::meet_space`], without writing: the space that this database would adopt.
    pub(super) fn would_meet<'s>(
        &self,
        theirs: Option<&'s ReplicatedSpace>,
    ) -> Result<Option<&'s ReplicatedSpace>, DataError> {
        let ours = self.replicated_space();
        if ours.as_ref() == theirs {
            return Ok(None);
        }
        if ours.is_none() && theirs.is_some() && self.is_open(&*self.engine().snapshot()?)? {
            return Ok(theirs);
        }
        let describe = |space: Option<&ReplicatedSpace>| match space {
            None => "all of it".to_owned(),
            Some(space) => format!(
                "the space `{}` (labels {:?}, types {:?}, buckets {:?})",
                space.name, space.labels, space.rel_types, space.buckets
            ),
        };
        Err(DataError::invalid(format!(
            "the two databases do not replicate the same: this one {}, the other one {}: declare one space in both before they become replicas",
            describe(ours.as_ref()),
            describe(theirs)
        )))
    }

    /// Refuses operations of a peer on records outside the space.
    pub(super) fn check_in_space(&self, ops: &[Op]) -> Result<(), DataError> {
        let Some(space) = self.shared().replication.space.read().clone() else {
            return Ok(());
        };
        // Created without a label of the space: the same transaction adds one.
        let mut without: Vec<(&Identity, &[LabelId])> = Vec::new();
        for op in ops {
            match op {
                Op::NodeMade { node, labels, .. } => {
                    self.check_identity(node)?;
                    if matches!(node, Identity::Made { .. }) && !space.has_any(labels) {
                        without.push((node, labels));
                    }
                }
                Op::NodeChanged { node, added, .. } => {
                    self.check_identity(node)?;
                    if space.has_any(added) {
                        without.retain(|(made, _)| *made != node);
                    }
                }
                Op::NodeGone { node } | Op::NodeKept { node, .. } => self.check_identity(node)?,
                Op::RelMade {
                    source,
                    target,
                    type_id,
                    ..
                } => {
                    self.check_identity(source)?;
                    self.check_identity(target)?;
                    if !space.has_type(*type_id) {
                        return Err(self.outside_space(&space, NameKind::Type, type_id.0));
                    }
                }
                Op::Field {
                    owner: Owner::Node(node),
                    ..
                } => self.check_identity(node)?,
                Op::RelChanged { .. } | Op::RelGone { .. } | Op::Field { .. } => {}
                Op::BucketMade { bucket, .. }
                | Op::BucketGone { bucket, .. }
                | Op::Put { bucket, .. }
                | Op::Taken { bucket, .. }
                | Op::RangeTaken { bucket, .. }
                | Op::ValueAdded { bucket, .. }
                | Op::ValueRemoved { bucket, .. }
                | Op::Sequence { bucket, .. } => self.check_bucket(*bucket)?,
                Op::FileMade { .. }
                | Op::FileGone { .. }
                | Op::FileCalled { .. }
                | Op::FileSized { .. }
                | Op::ChunkPut { .. }
                | Op::ChunksGone { .. }
                | Op::FolderMade { .. }
                | Op::FolderGone { .. } => self.check_files_travel()?,
            }
        }
        match without.first() {
            None => Ok(()),
            Some((_, [label, ..])) => Err(self.outside_space(&space, NameKind::Label, label.0)),
            Some(_) => Err(DataError::invalid(format!(
                "a page of replication has a node without a label, which is not in the space `{}`: the peer is damaged",
                space.name
            ))),
        }
    }

    pub(super) fn check_identity(&self, identity: &Identity) -> Result<(), DataError> {
        let space = self.shared().replication.space.read();
        match (&*space, identity) {
            (Some(space), Identity::Keyed { label, .. }) if !space.has_any(&[*label]) => {
                Err(self.outside_space(space, NameKind::Label, label.0))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn check_bucket(&self, bucket: u32) -> Result<(), DataError> {
        match &*self.shared().replication.space.read() {
            Some(space) if !space.has_bucket(bucket) => {
                Err(self.outside_space(space, NameKind::Bucket, bucket))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn check_files_travel(&self) -> Result<(), DataError> {
        match &*self.shared().replication.space.read() {
            Some(space) => Err(DataError::invalid(format!(
                "a page of replication has a file, and there are no files in the space `{}`: the peer is damaged",
                space.name
            ))),
            None => Ok(()),
        }
    }

    fn outside_space(&self, space: &Space, kind: NameKind, id: u32) -> DataError {
        let name = self.shared_names().name(kind, id).unwrap_or_default();
        DataError::invalid(format!(
            "a page of replication has the {} `{name}`, which is not in the space `{}`: the peer is damaged",
            kind.noun(),
            space.name
        ))
    }
}

impl Transaction {
    /// The replicated space; none where everything is replicated.
    pub(super) fn space(&self) -> Option<Arc<Space>> {
        self.shared().replication.space.read().clone()
    }

    /// Whether a bucket is replicated, in a replica.
    pub(crate) fn has_bucket(&self, bucket: u32) -> bool {
        self.space().is_none_or(|space| space.has_bucket(bucket))
    }

    /// Whether a node or a ghost is replicated.
    fn has_node(&self, id: NodeId) -> Result<bool, DataError> {
        let Some(space) = self.space() else {
            return Ok(true);
        };
        let shadow_key = keyspace::shadow(IdSpace::Nodes, id.0);
        let record_key = keyspace::node(id);
        let found = self.read().get_many(&[&shadow_key, &record_key])?;
        Ok(match &found[..] {
            [None, Some(record)] => space.has_label_of(&RecordRef::new(record)?),
            [shadow, _] => shadow.is_some(),
            _ => false,
        })
    }

    /// Whether a label of a node and the node are outside the space.
    pub(super) fn is_outside_space(&self, id: NodeId, label: LabelId) -> Result<bool, DataError> {
        match self.space() {
            Some(space) if !space.has_any(&[label]) => {
                let merged = self.noted.merged.as_ref();
                Ok(merged.is_none_or(|(merged, _)| *merged != id) && !self.has_node(id)?)
            }
            _ => Ok(false),
        }
    }

    /// Whether a relationship is replicated.
    pub(super) fn has_relationship(&self, id: RelId) -> Result<bool, DataError> {
        let Some(space) = self.space() else {
            return Ok(true);
        };
        let shadow = keyspace::shadow(IdSpace::Relationships, id.0);
        if self.read().get(&shadow)?.is_some() {
            return Ok(true);
        }
        match self.ends_of(id)? {
            Some(row) => Ok(space.has_type(row.type_id)
                && self.has_node(row.source)?
                && self.has_node(row.target)?),
            None => Ok(false),
        }
    }

    /// Whether the row under a key of a part is replicated. All parts of buckets are treated alike.
    pub(super) fn holds(&self, part: Part, key: &[u8]) -> Result<bool, DataError> {
        let Some(space) = self.space() else {
            return Ok(true);
        };
        if rules::broken(Mutant::AppliesOutside) {
            return Ok(true);
        }
        let id = |skipped: usize| sole_id(&key[skipped..], "the key of a record");
        match part {
            Part::Nodes => self.has_node(NodeId(id(1)?)),
            Part::Ghosts => Ok(true),
            Part::Relationships => self.has_relationship(RelId(id(1)?)),
            Part::Fields => {
                let owner = &key[..keyspace::convergent_owner_len(key)?];
                let id = sole_id(&owner[2..], "the owner of a field")?;
                match owner[1] {
                    0 => self.has_node(NodeId(id)),
                    _ => self.has_relationship(RelId(id)),
                }
            }
            Part::Buckets | Part::Entries | Part::Values | Part::Sequences => {
                let bucket = take_id(&mut &key[1..]).and_then(|id| u32::try_from(id).ok());
                let bucket = bucket.ok_or_else(|| malformed("the key of a bucket"))?;
                Ok(space.has_bucket(bucket))
            }
            Part::Files | Part::Folders | Part::Chunks => Ok(false),
        }
    }

    /// The changes of a local transaction that are sent to others.
    ///
    /// # Errors
    /// [`DataError::Invalid`] where it moves a record out of the space, or into it.
    pub(super) fn only_in_space<'c>(
        &self,
        space: &Space,
        changes: Vec<Change<'c>>,
    ) -> Result<Vec<Change<'c>>, DataError> {
        if rules::broken(Mutant::SendsOutside) {
            return Ok(changes);
        }
        let mut scope = Scope {
            tx: self,
            space,
            nodes: FxHashMap::default(),
            rels: FxHashMap::default(),
        };
        for change in &changes {
            // The record of a deleted relationship is gone: only the change has its ends.
            if let Change::RelationshipDeleted {
                id,
                type_id,
                source,
                target,
            } = change
            {
                scope
                    .rels
                    .insert(*id, Link::Between(*type_id, *source, *target));
            }
        }
        let mut kept = Vec::with_capacity(changes.len());
        for change in changes {
            if scope.has(&change)? {
                kept.push(change);
            }
        }
        Ok(kept)
    }
}

/// A relationship that a transaction changed.
#[derive(Clone, Copy)]
enum Link {
    Between(TypeId, NodeId, NodeId),
    Known(bool),
}

/// The records that a transaction changed.
struct Scope<'t> {
    tx: &'t Transaction,
    space: &'t Space,
    nodes: FxHashMap<NodeId, bool>,
    rels: FxHashMap<RelId, Link>,
}

impl Scope<'_> {
    fn has(&mut self, change: &Change<'_>) -> Result<bool, DataError> {
        Ok(match change {
            Change::NodeCreated { id, record } => {
                // By its state after the transaction: it is sent as a whole.
                let stored = self.tx.read().get(&keyspace::node(*id))?;
                let record = RecordRef::new(stored.as_deref().unwrap_or(record))?;
                let is_home = self.space.has_label_of(&record);
                self.nodes.insert(*id, is_home);
                is_home
            }
            Change::NodeChanged {
                id,
                labels_added,
                labels_removed,
                ..
            } => {
                let is_home = self.node(*id)?;
                self.check_moved(*id, is_home, labels_added, labels_removed)?;
                is_home
            }
            Change::NodeDeleted { id, .. } => self.node(*id)?,
            Change::RelationshipCreated { id, record } => {
                let row = crate::graph::row_of(*id, &RecordRef::new(record)?)?;
                self.rels
                    .insert(*id, Link::Between(row.type_id, row.source, row.target));
                self.relationship(*id)?
            }
            Change::RelationshipChanged { id, .. } | Change::RelationshipDeleted { id, .. } => {
                self.relationship(*id)?
            }
            Change::Converged { owner, .. } => match owner {
                ConvergentOwner::Node(id) => self.node(*id)?,
                ConvergentOwner::Relationship(id) => self.relationship(*id)?,
            },
            Change::KeyPut { bucket, .. }
            | Change::KeyPutUntil { bucket, .. }
            | Change::KeyDeleted { bucket, .. }
            | Change::KeysDeleted { bucket, .. }
            | Change::ValueAdded { bucket, .. }
            | Change::ValueRemoved { bucket, .. }
            | Change::BucketCreated { bucket, .. }
            | Change::BucketDropped { bucket }
            | Change::SequenceAdvanced { bucket, .. } => self.space.has_bucket(*bucket),
            // Never sent, or refused.
            Change::NodesLoaded { .. } | Change::RelationshipsLoaded { .. } => true,
            _ => false,
        })
    }

    fn node(&mut self, id: NodeId) -> Result<bool, DataError> {
        if let Some(known) = self.nodes.get(&id) {
            return Ok(*known);
        }
        let is_home = match self.tx.noted.homes.get(&id) {
            Some(known) => *known,
            None => self.tx.has_node(id)?,
        };
        self.nodes.insert(id, is_home);
        Ok(is_home)
    }

    fn relationship(&mut self, id: RelId) -> Result<bool, DataError> {
        let is_home = match self.rels.get(&id) {
            Some(Link::Known(known)) => return Ok(*known),
            Some(Link::Between(type_id, source, target)) => {
                let (type_id, source, target) = (*type_id, *source, *target);
                let shadow = keyspace::shadow(IdSpace::Relationships, id.0);
                self.tx.read().get(&shadow)?.is_some()
                    || self.space.has_type(type_id) && self.node(source)? && self.node(target)?
            }
            None => self.tx.has_relationship(id)?,
        };
        self.rels.insert(id, Link::Known(is_home));
        Ok(is_home)
    }

    /// Refuses a node that enters or leaves the space.
    fn check_moved(
        &self,
        id: NodeId,
        is_home: bool,
        added: &[LabelId],
        removed: &[LabelId],
    ) -> Result<(), DataError> {
        let moves = match is_home {
            true => self.space.has_any(removed),
            false => self.space.has_any(added),
        };
        if !moves {
            return Ok(());
        }
        let Some(record) = self.tx.read().get(&keyspace::node(id))? else {
            return Ok(());
        };
        if self.space.has_label_of(&RecordRef::new(&record)?) == is_home {
            return Ok(());
        }
        let name = &self.space.name;
        Err(DataError::invalid(match is_home {
            true => format!(
                "node {id} cannot leave the space `{name}` that is replicated: keep one of the labels of the space, or delete it and create it again"
            ),
            false => format!(
                "node {id} cannot be brought into the space `{name}` that is replicated: delete it and create it again with the label"
            ),
        }))
    }
}
