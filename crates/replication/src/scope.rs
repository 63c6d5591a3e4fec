//! Which records, entries and operations are in the replicated space, and how a database declares one.

use std::{collections::BTreeSet, sync::Arc};

use isomer_data::{
    Change, ConvergentOwner, DataError, DataStore, Transaction,
    internals::{footprint::Item, hold_commits, names, notes},
};
use isomer_layout::{
    catalog::names::NameKind,
    keyspace::{self, IdSpace, SPACE, sole_id, take_id},
    replicated::{codec::malformed, identity::Identity},
};
use isomer_storage::{Durability, GuardMode, KeyRange, Order, Page, PageLimit, Read};
use isomer_value::{LabelId, NodeId, RelId, TypeId, record::RecordRef};
use rustc_hash::FxHashMap;

use crate::{
    entry::{Op, Owner},
    relationship_ends,
    space::{ReplicatedSpace, Space},
    state::replication_of,
    state_transfer::section::Section,
};

/// The replicated space; none where everything is replicated.
pub fn replicated_space(store: &DataStore) -> Option<ReplicatedSpace> {
    let space = replication_of(store).space.read().clone()?;
    let names = names(store);
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
pub fn declare_space(store: &DataStore, space: &ReplicatedSpace) -> Result<(), DataError> {
    // Excludes a concurrent `begin_replication`.
    let _applying = replication_of(store).applying.lock();
    take_space(store, space)
}

pub(crate) fn take_space(store: &DataStore, space: &ReplicatedSpace) -> Result<(), DataError> {
    space.check()?;
    if replicated_space(store).as_ref() == Some(space) {
        return Ok(());
    }
    store.become_exclusive()?;
    if store.options().read_only {
        return Err(DataError::read_only());
    }
    let ids = |kind, names: &BTreeSet<String>| -> Result<Vec<u32>, DataError> {
        let ids = names.iter().map(|name| store.intern(kind, name));
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
    let _gate = hold_commits(store);
    let mut tx = store.engine().begin()?;
    if store.is_replicated() && !is_open(store, &*tx)? {
        return Err(DataError::Denied(format!(
            "this database is a replica of {} already: `isomer export` it, and declare the space `{}` in a new one before it is replicated",
            match replicated_space(store) {
                Some(own) => format!("the space `{}`", own.name),
                None => "all of it".to_owned(),
            },
            space.name
        )));
    }
    tx.put(SPACE, &declared.encode())?;
    tx.guard(Item::Schema.granule(), GuardMode::Write);
    tx.commit(Durability::Synced)?;
    *replication_of(store).space.write() = Some(Arc::new(declared));
    Ok(())
}

/// Whether this replica adopts the space of the first member that it hears of: it has heard of none, and is empty.
pub(crate) fn is_open(store: &DataStore, read: &dyn Read) -> Result<bool, DataError> {
    let replication = replication_of(store);
    let undeclared = replication.space.read().is_none();
    let has_no_members = replication.members.lock().is_empty();
    // Deleted records are still in the log, from which others would receive them.
    Ok(undeclared && has_no_members && is_empty(read)? && !has_any(read, keyspace::LOG)?)
}

/// Checks that a peer replicates this space, or everything.
///
/// # Errors
/// [`DataError::Invalid`] if this database does not replicate the same.
pub(crate) fn meet_space(
    store: &DataStore,
    theirs: Option<&ReplicatedSpace>,
) -> Result<(), DataError> {
    match would_meet(store, theirs)? {
        Some(taken) => take_space(store, taken),
        None => Ok(()),
    }
}

/// As [`meet_space`], without writing: the space that this database would adopt.
pub(crate) fn would_meet<'s>(
    store: &DataStore,
    theirs: Option<&'s ReplicatedSpace>,
) -> Result<Option<&'s ReplicatedSpace>, DataError> {
    let ours = replicated_space(store);
    if ours.as_ref() == theirs {
        return Ok(None);
    }
    if ours.is_none() && theirs.is_some() && is_open(store, &*store.engine().snapshot()?)? {
        return Ok(theirs);
    }
    let listed = |names: &BTreeSet<String>| match names.is_empty() {
        true => "none named".to_owned(),
        false => names
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join(", "),
    };
    let describe = |space: Option<&ReplicatedSpace>| match space {
        None => "all of it".to_owned(),
        Some(space) => format!(
            "the space `{}` (labels: {}; types: {}; buckets: {})",
            space.name,
            listed(&space.labels),
            listed(&space.rel_types),
            listed(&space.buckets)
        ),
    };
    Err(DataError::invalid(format!(
        "the two databases do not replicate the same: this one {}, the other one {}: declare one space in both before they become replicas",
        describe(ours.as_ref()),
        describe(theirs)
    )))
}

/// Refuses operations of a peer on records outside the space.
pub(crate) fn check_in_space(store: &DataStore, ops: &[Op]) -> Result<(), DataError> {
    let Some(space) = replication_of(store).space.read().clone() else {
        return Ok(());
    };
    // Created without a label of the space: the same transaction adds one.
    let mut without: Vec<(&Identity, &[LabelId])> = Vec::new();
    for op in ops {
        match op {
            Op::NodeCreated { node, labels, .. } => {
                check_identity(store, node)?;
                if matches!(node, Identity::Made { .. }) && !space.has_any(labels) {
                    without.push((node, labels));
                }
            }
            Op::NodeChanged { node, added, .. } => {
                check_identity(store, node)?;
                if space.has_any(added) {
                    without.retain(|(made, _)| *made != node);
                }
            }
            Op::NodeDeleted { node } | Op::NodeCreationAdded { node, .. } => {
                check_identity(store, node)?
            }
            Op::RelCreated {
                source,
                target,
                type_id,
                ..
            } => {
                check_identity(store, source)?;
                check_identity(store, target)?;
                if !space.has_type(*type_id) {
                    return Err(outside_space(store, &space, NameKind::Type, type_id.0));
                }
            }
            Op::Field {
                owner: Owner::Node(node),
                ..
            } => check_identity(store, node)?,
            Op::RelChanged { .. } | Op::RelDeleted { .. } | Op::Field { .. } => {}
            Op::BucketCreated { bucket, .. }
            | Op::BucketDropped { bucket }
            | Op::KindDropped { bucket, .. }
            | Op::Put { bucket, .. }
            | Op::Taken { bucket, .. }
            | Op::RangeTaken { bucket, .. }
            | Op::ValueAdded { bucket, .. }
            | Op::ValueRemoved { bucket, .. }
            | Op::Sequence { bucket, .. } => check_bucket(store, *bucket)?,
            Op::FileCreated { .. }
            | Op::FileDeleted { .. }
            | Op::FileRenamed { .. }
            | Op::FileResized { .. }
            | Op::ChunkPut { .. }
            | Op::ChunksDeleted { .. }
            | Op::FolderCreated { .. }
            | Op::FolderDeleted { .. } => check_files_travel(store)?,
        }
    }
    match without.first() {
        None => Ok(()),
        Some((_, [label, ..])) => Err(outside_space(store, &space, NameKind::Label, label.0)),
        Some(_) => Err(DataError::invalid(format!(
            "a page of replication has a node without a label, which is not in the space `{}`: the peer is damaged",
            space.name
        ))),
    }
}

pub(crate) fn check_identity(store: &DataStore, identity: &Identity) -> Result<(), DataError> {
    let space = replication_of(store).space.read();
    match (&*space, identity) {
        (Some(space), Identity::Keyed { label, .. }) if !space.has_any(&[*label]) => {
            Err(outside_space(store, space, NameKind::Label, label.0))
        }
        _ => Ok(()),
    }
}

pub(crate) fn check_bucket(store: &DataStore, bucket: u32) -> Result<(), DataError> {
    match &*replication_of(store).space.read() {
        Some(space) if !space.has_bucket(bucket) => {
            Err(outside_space(store, space, NameKind::Bucket, bucket))
        }
        _ => Ok(()),
    }
}

pub(crate) fn check_files_travel(store: &DataStore) -> Result<(), DataError> {
    match &*replication_of(store).space.read() {
        Some(space) => Err(DataError::invalid(format!(
            "a page of replication has a file, and there are no files in the space `{}`: the peer is damaged",
            space.name
        ))),
        None => Ok(()),
    }
}

pub(crate) fn outside_space(
    store: &DataStore,
    space: &Space,
    kind: NameKind,
    id: u32,
) -> DataError {
    let name = names(store).name(kind, id).unwrap_or_default();
    DataError::invalid(format!(
        "a page of replication has the {} `{name}`, which is not in the space `{}`: the peer is damaged",
        kind.noun(),
        space.name
    ))
}

/// Whether everything is replicated: no space is declared.
pub(crate) fn is_whole(store: &DataStore) -> bool {
    replication_of(store).space.read().is_none()
}

/// The replicated space; none where everything is replicated.
pub(crate) fn space(tx: &Transaction) -> Option<Arc<Space>> {
    replication_of(tx.store()).space.read().clone()
}

/// Whether a bucket is replicated, in a replica.
pub(crate) fn has_bucket(tx: &Transaction, bucket: u32) -> bool {
    space(tx).is_none_or(|space| space.has_bucket(bucket))
}

/// Whether a node or a ghost is replicated.
pub(crate) fn has_node(tx: &Transaction, id: NodeId) -> Result<bool, DataError> {
    let Some(space) = space(tx) else {
        return Ok(true);
    };
    let metadata_key = keyspace::metadata_row(IdSpace::Nodes, id.0);
    let record_key = keyspace::node(id);
    let found = tx.read().get_many(&[&metadata_key, &record_key])?;
    Ok(match &found[..] {
        [None, Some(record)] => space.has_label_of(&RecordRef::new(record)?),
        [metadata, _] => metadata.is_some(),
        _ => false,
    })
}

/// Whether a label of a node and the node are outside the space.
pub(crate) fn is_outside_space(
    tx: &Transaction,
    id: NodeId,
    label: LabelId,
) -> Result<bool, DataError> {
    match space(tx) {
        Some(space) if !space.has_any(&[label]) => {
            let merged = notes(tx).merged.as_ref();
            Ok(merged.is_none_or(|(merged, _)| *merged != id) && !has_node(tx, id)?)
        }
        _ => Ok(false),
    }
}

/// Whether a relationship is replicated.
pub(crate) fn has_relationship(tx: &Transaction, id: RelId) -> Result<bool, DataError> {
    let Some(space) = space(tx) else {
        return Ok(true);
    };
    let metadata = keyspace::metadata_row(IdSpace::Relationships, id.0);
    if tx.read().get(&metadata)?.is_some() {
        return Ok(true);
    }
    match relationship_ends::ends_of(tx, id)? {
        Some(row) => Ok(space.has_type(row.type_id)
            && has_node(tx, row.source)?
            && has_node(tx, row.target)?),
        None => Ok(false),
    }
}

/// Whether the row under a key of a part is replicated. All parts of buckets are treated alike.
pub(crate) fn holds(tx: &Transaction, part: Section, key: &[u8]) -> Result<bool, DataError> {
    let Some(space) = space(tx) else {
        return Ok(true);
    };
    let id = |skipped: usize| sole_id(&key[skipped..], "the key of a record");
    match part {
        Section::Nodes => has_node(tx, NodeId(id(1)?)),
        Section::Ghosts => Ok(true),
        Section::Relationships => has_relationship(tx, RelId(id(1)?)),
        Section::Fields => {
            let owner = &key[..keyspace::convergent_owner_len(key)?];
            let id = sole_id(&owner[2..], "the owner of a field")?;
            match owner[1] {
                0 => has_node(tx, NodeId(id)),
                _ => has_relationship(tx, RelId(id)),
            }
        }
        Section::Buckets | Section::Entries | Section::Values | Section::Sequences => {
            let bucket = take_id(&mut &key[1..]).and_then(|id| u32::try_from(id).ok());
            let bucket = bucket.ok_or_else(|| malformed("the key of a bucket"))?;
            Ok(space.has_bucket(bucket))
        }
        Section::Files | Section::Folders | Section::Chunks => Ok(false),
    }
}

/// The changes of a local transaction that are sent to others.
///
/// # Errors
/// [`DataError::Invalid`] if it moves a record out of the space, or into it.
pub(crate) fn only_in_space<'c>(
    tx: &Transaction,
    space: &Space,
    changes: Vec<Change<'c>>,
) -> Result<Vec<Change<'c>>, DataError> {
    let mut scope = Scope {
        tx,
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

/// A relationship that a transaction changed.
#[derive(Clone, Copy)]
pub(crate) enum Link {
    Between(TypeId, NodeId, NodeId),
    Known(bool),
}

/// The records that a transaction changed.
pub(crate) struct Scope<'t> {
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
                let row = isomer_layout::graph::rows::row_of(*id, &RecordRef::new(record)?)?;
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
            // Local to each replica.
            Change::SchemaChanged { .. } => false,
            // From the recorded names; there are no files in a space.
            Change::FileNamed { .. }
            | Change::FileUnnamed { .. }
            | Change::FileChanged { .. }
            | Change::FileWritten { .. }
            | Change::FileRemoved { .. } => false,
            // The transaction itself, not a change of a record.
            Change::ConvergedBy { .. } => false,
            // Merges are not forwarded.
            Change::FieldMerged { .. } => false,
        })
    }

    fn node(&mut self, id: NodeId) -> Result<bool, DataError> {
        if let Some(known) = self.nodes.get(&id) {
            return Ok(*known);
        }
        let is_home = match notes(self.tx).homes.get(&id) {
            Some(known) => *known,
            None => has_node(self.tx, id)?,
        };
        self.nodes.insert(id, is_home);
        Ok(is_home)
    }

    fn relationship(&mut self, id: RelId) -> Result<bool, DataError> {
        let is_home = match self.rels.get(&id) {
            Some(Link::Known(known)) => return Ok(*known),
            Some(Link::Between(type_id, source, target)) => {
                let (type_id, source, target) = (*type_id, *source, *target);
                let metadata = keyspace::metadata_row(IdSpace::Relationships, id.0);
                self.tx.read().get(&metadata)?.is_some()
                    || self.space.has_type(type_id) && self.node(source)? && self.node(target)?
            }
            None => has_relationship(self.tx, id)?,
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

/// Whether there is nothing that others could lack.
pub(crate) fn is_empty(read: &dyn Read) -> Result<bool, DataError> {
    for start in keyspace::CONTENT {
        if has_any(read, &[*start])? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether there is a key with this prefix.
pub(crate) fn has_any(read: &dyn Read, prefix: &[u8]) -> Result<bool, DataError> {
    let end = keyspace::after_prefix(prefix);
    let range = KeyRange {
        start: prefix,
        end: end.as_deref(),
    };
    let limit = PageLimit { keys: 1, bytes: 1 };
    let mut page = Page::new();
    read.scan(range, Order::Ascending, limit, &mut page)?;
    Ok(!page.is_empty())
}
