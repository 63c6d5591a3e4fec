//! Conflicts between concurrent writes of replicas: recorded when a transaction is applied, listed until a user
//! resolves them.
//!
//! | kind | rest of the key | what |
//! |---|---|---|
//! | 0, 1 | `id` node or relationship, `id` property | several versions of a property: the latest is read |
//! | 2 | `id` index, `id` node or relationship | a value that a unique index has for another record too: both stay |
//! | 3 | `id` label, `text` key, `id` node | nodes made under different names with one `_key`: one of them is found by it |
//! | 4 | `id` node | a node that breaks a constraint |
//! | 5 | a key of a bucket's entry or a file's chunk | several versions of it |
//! | 6 | `id` bucket | a bucket that was created with different options |
//! | 7 | `id` file | a file that is shown under a substitute name |
//! | 8 | `id` relationship | a relationship that breaks a constraint |
//!
//! Entries may be stale; readers re-validate them.

use isomer_data::{
    CHUNK_BYTES, Change, Conflict, ConflictKind, ConvergentOwner, DataError, GraphRead,
    Transaction, after_prefix,
    internals::{footprint::Space, notes, own_replica, replica_state},
};
use isomer_layout::{
    catalog::schema::RecordScope,
    graph::state::{KeyChanges, RecordId, RecordState},
    index::{EntryChanges, brief_values, entries_of},
    keyspace::{self, CONFLICTS, take_id, take_terminated},
    properties::brief,
    replicated::codec::malformed,
};
use isomer_value::{
    IndexId, LabelId, NodeId, PropId, RelId, Value, key,
    record::{RecordRef, decode_value},
};

use crate::{
    buckets,
    cells::{self, differ},
    files::{self, chunk_of},
    records, scope,
    spelling::spell_identity,
    versions::{self, Version},
};

/// Conflicts that are listed, at most.
const MAX_CONFLICTS: usize = 10_000;

/// The record that a node or a relationship breaks a constraint.
fn schema_note(id: RecordId) -> Vec<u8> {
    match id {
        RecordId::Node(id) => keyspace::conflict_in_schema(id),
        RecordId::Relationship(id) => keyspace::conflict_in_schema_of_relationship(id),
    }
}

// ---- Conflicts and local transactions: resolution.

/// Properties were set by a local transaction, perhaps to the value that is read already: this selects one of
/// several versions, and is sent to other replicas as any change is.
pub(crate) fn resolve_conflict_notes<'n>(
    tx: &mut Transaction,
    owner: ConvergentOwner,
    names: impl IntoIterator<Item = &'n str>,
) -> Result<(), DataError> {
    if !tx.replication().is_replicated() {
        return Ok(());
    }
    for name in names {
        let Some(prop) = tx.names().prop_id(name) else {
            continue;
        };
        let (note, stored) = match owner {
            ConvergentOwner::Node(id) => (keyspace::conflict_in_node(id, prop), keyspace::node(id)),
            ConvergentOwner::Relationship(id) => (
                keyspace::conflict_in_relationship(id, prop),
                keyspace::relationship(id),
            ),
        };
        if tx.read().get(&note)?.is_none() {
            continue;
        }
        let Some(bytes) = tx.read().get(&stored)? else {
            continue;
        };
        let record = RecordRef::new(&bytes)?;
        let Some(value) = record.get_raw(prop)? else {
            continue;
        };
        let set = vec![(prop, value)];
        match owner {
            ConvergentOwner::Node(id) => {
                let Some(state) = tx.graph().load_node(id)? else {
                    continue;
                };
                records::note_identity(tx, id, &state)?;
                tx.footprint_mut().change_node(id, &state.labels);
                tx.log(&Change::NodeChanged {
                    id,
                    labels_added: Vec::new(),
                    labels_removed: Vec::new(),
                    set,
                    removed: Vec::new(),
                });
            }
            ConvergentOwner::Relationship(id) => {
                let row = isomer_layout::graph::rows::row_of(id, &record)?;
                tx.log(&Change::RelationshipChanged {
                    id,
                    type_id: row.type_id,
                    set,
                    removed: Vec::new(),
                });
            }
        }
    }
    Ok(())
}

// ---- Conflicts found by merges, where a local transaction would be refused.

/// Records how a record's new state breaks unique indexes and constraints.
pub(crate) fn note_refused(
    tx: &mut Transaction,
    id: RecordId,
    new: Option<&impl RecordState>,
    entries: &EntryChanges,
) -> Result<(), DataError> {
    let Some(new) = new else {
        return tx.replication_mut().delete_row(&schema_note(id));
    };
    if tx.names().schema.check(tx.names(), Some(id), new).is_err() {
        tx.replication_mut().put_row(&schema_note(id), &[])?;
    }
    for entry in entries.added.iter().filter(|entry| entry.unique) {
        tx.footprint()
            .read_fields(Space::Index(entry.index.0), entry.ends.len(), &entry.values);
        let number = id.parts().1;
        if tx.indexes().holder(entry, number)?.is_some() {
            tx.replication_mut()
                .put_row(&keyspace::conflict_in_index(entry.index, number), &[])?;
        }
    }
    Ok(())
}

/// Of several nodes with one `_key` in one label, the one with the lowest identity is found by it, in all replicas.
/// Returns the keys whose owner changes.
pub(crate) fn merge_keys(
    tx: &mut Transaction,
    id: NodeId,
    changes: KeyChanges,
) -> Result<KeyChanges, DataError> {
    let mut moved = release_keys(
        tx,
        id,
        KeyChanges {
            removed: changes.removed,
            ..KeyChanges::default()
        },
    )?;
    for (label, key) in changes.added {
        tx.footprint().read_key(Space::Keys(label.0), &key);
        let stored = [&keyspace::keys_of(label)[..], &key].concat();
        let holder = match tx.read().get(&stored)? {
            Some(value) => NodeId(keyspace::sole_id(&value, "the node under a key")?),
            None => {
                moved.added.push((label, key));
                continue;
            }
        };
        // Both are recorded, so that the key passes to the other one when one of them releases it.
        for claimant in [holder, id] {
            tx.replication_mut()
                .put_row(&claim(label, &key, claimant), &[])?;
        }
        if turn(tx, label, id)? < turn(tx, label, holder)? {
            moved.added.push((label, key));
        }
    }
    Ok(moved)
}

/// Released keys: a key that another node is found by is kept, and a key of this node passes to the next node that
/// has it.
pub(crate) fn release_keys(
    tx: &mut Transaction,
    id: NodeId,
    mut changes: KeyChanges,
) -> Result<KeyChanges, DataError> {
    if !replica_state(tx.store()).is_on() {
        return Ok(changes);
    }
    let mut removed = Vec::new();
    for (label, key) in std::mem::take(&mut changes.removed) {
        let prefix = keyspace::conflict_of_key(label, &key);
        let end = after_prefix(&prefix);
        let mut others = Vec::new();
        for claim in tx.raw().keys_between(&prefix, end.as_deref())? {
            let other = keyspace::sole_id(&claim[prefix.len()..], "a claim to a key")?;
            others.push(NodeId(other));
        }
        if others.is_empty() {
            removed.push((label, key));
            continue;
        }
        tx.replication_mut().delete_row(&claim(label, &key, id))?;
        others.retain(|other| *other != id);
        // With one claimant left, the conflict is resolved.
        if let [last] = others[..] {
            tx.replication_mut().delete_row(&claim(label, &key, last))?;
        }
        let mut next: Option<(_, NodeId)> = None;
        for other in others {
            let turn = turn(tx, label, other)?;
            if next.as_ref().is_none_or(|(first, _)| turn < *first) {
                next = Some((turn, other));
            }
        }
        match next {
            Some((_, other)) => changes.passed.push((label, key, other)),
            None => removed.push((label, key)),
        }
    }
    changes.removed = removed;
    Ok(changes)
}

/// The order of nodes with one key in a label: the lowest is found by it, by the order of identities; nodes outside
/// the space come first where the label is not replicated.
fn turn(tx: &Transaction, label: LabelId, id: NodeId) -> Result<(bool, Vec<u8>), DataError> {
    Ok((!scope::is_outside_space(tx, id, label)?, spelled(tx, id)?))
}

/// A node's identity in bytes that are the same in every replica.
pub(crate) fn spelled(tx: &Transaction, id: NodeId) -> Result<Vec<u8>, DataError> {
    let identity = match records::node_identity(tx, id) {
        Ok(identity) => identity,
        Err(_) => match &notes(tx).merged {
            Some((merged, identity)) if *merged == id => identity.clone(),
            _ => return Err(DataError::Internal(format!("node {id} has no name"))),
        },
    };
    Ok(spell_identity(tx, &identity))
}

fn claim(label: LabelId, key: &[u8], id: NodeId) -> Vec<u8> {
    let mut stored = keyspace::conflict_of_key(label, key);
    keyspace::push_id(&mut stored, id.0);
    stored
}

// ---- Listing conflicts.

/// The current conflicts, at most ten thousand.
///
/// # Errors
/// Those of the engine.
pub fn conflicts(tx: &Transaction) -> Result<Vec<Conflict>, DataError> {
    let mut found = Vec::new();
    if !replica_state(tx.store()).is_on() {
        return Ok(found);
    }
    let end = after_prefix(CONFLICTS);
    let mut listed_keys = Vec::new();
    for note in tx.raw().keys_between(CONFLICTS, end.as_deref())? {
        if found.len() == MAX_CONFLICTS {
            break;
        }
        let rest = &note[CONFLICTS.len()..];
        let (kind, mut rest) = rest.split_first().ok_or_else(|| malformed("a conflict"))?;
        let rest = &mut rest;
        let mut id = || take_id(rest).ok_or_else(|| malformed("a conflict"));
        let conflict = match kind {
            0 | 1 => {
                let (id, prop) = (id()?, PropId(id()? as u32));
                property_conflict(tx, *kind == 0, id, prop)?
            }
            2 => {
                let (index, record) = (IndexId(id()? as u32), id()?);
                index_conflict(tx, index, record)?
            }
            3 => {
                let label = LabelId(id()? as u32);
                let key = take_terminated(rest).ok_or_else(|| malformed("a conflict"))?;
                match listed_keys.contains(&(label, key.clone())) {
                    true => None,
                    false => {
                        listed_keys.push((label, key.clone()));
                        key_conflict(tx, label, &key)?
                    }
                }
            }
            4 => schema_conflict(tx, RecordId::Node(NodeId(id()?)))?,
            5 => entry_conflict(tx, rest)?,
            6 => conflict_of_bucket(tx, id()? as u32)?,
            7 => conflict_of_file(tx, id()?)?,
            8 => schema_conflict(tx, RecordId::Relationship(RelId(id()?)))?,
            _ => return Err(malformed("a conflict")),
        };
        found.extend(conflict);
    }
    Ok(found)
}

fn property_conflict(
    tx: &Transaction,
    is_node: bool,
    id: u64,
    prop: PropId,
) -> Result<Option<Conflict>, DataError> {
    let (properties, record) = match is_node {
        true => match records::node_metadata(tx, NodeId(id))? {
            Some(metadata) if !metadata.creations.is_empty() => {
                (metadata.properties, describe_node(tx, NodeId(id))?)
            }
            _ => return Ok(None),
        },
        false => match records::rel_metadata(tx, RelId(id))? {
            Some(metadata) => (metadata.properties, format!("relationship {id}")),
            None => return Ok(None),
        },
    };
    let names = tx.names().names.clone();
    let versions = properties.get(&prop).cloned().unwrap_or_default();
    let value = |version: &Version| Ok(decode_value(&version.value, &*names)?);
    let field = tx.names().prop_name(prop).unwrap_or_default();
    of_versions(
        tx,
        ConflictKind::Property,
        Some(id),
        record,
        &field,
        &versions,
        &value,
    )
}

fn of_versions(
    tx: &Transaction,
    kind: ConflictKind,
    id: Option<u64>,
    record: String,
    field: &str,
    versions: &[Version],
    value: &dyn Fn(&Version) -> Result<Value, DataError>,
) -> Result<Option<Conflict>, DataError> {
    let read = versions::winner(versions, own_replica(tx.store()));
    let Some(read) = read.filter(|_| differ(versions)) else {
        return Ok(None);
    };
    // The latest first, the same order in all replicas.
    let names = own_replica(tx.store());
    let mut rest: Vec<&Version> = versions.iter().collect();
    rest.remove(read);
    rest.sort_by_key(|version| std::cmp::Reverse(versions::rank(version, names)));
    let others: Vec<Value> = rest.into_iter().map(value).collect::<Result<_, _>>()?;
    Ok(Some(Conflict {
        kind,
        id,
        record,
        field: field.to_owned(),
        value: value(&versions[read])?,
        others,
    }))
}

fn index_conflict(
    tx: &Transaction,
    index: IndexId,
    record: u64,
) -> Result<Option<Conflict>, DataError> {
    let catalog = tx.names().clone();
    let Some(index) = catalog.index(index).filter(|index| index.unique) else {
        return Ok(None);
    };
    let id = match index.scope {
        RecordScope::Label(_) => RecordId::Node(NodeId(record)),
        RecordScope::Type(_) => RecordId::Relationship(RelId(record)),
    };
    let Some(properties) = tx.graph().properties_in(index.scope, id)? else {
        return Ok(None);
    };
    for entry in entries_of(index, &properties)? {
        if let Some(other) = tx.indexes().holder(&entry, record)? {
            return Ok(Some(Conflict {
                kind: ConflictKind::Unique,
                id: Some(record),
                record: describe(tx, id)?,
                field: index.name.to_string(),
                value: Value::from(brief_values(&entry.values)),
                others: vec![Value::from(describe(tx, id.with_number(other))?)],
            }));
        }
    }
    Ok(None)
}

fn key_conflict(
    tx: &Transaction,
    label: LabelId,
    key: &[u8],
) -> Result<Option<Conflict>, DataError> {
    let prefix = keyspace::conflict_of_key(label, key);
    let end = after_prefix(&prefix);
    let value = key::decode(key)?;
    let read = tx.node_by_key(label, &value)?;
    let mut others = Vec::new();
    for claim in tx.raw().keys_between(&prefix, end.as_deref())? {
        let other = NodeId(keyspace::sole_id(
            &claim[prefix.len()..],
            "a claim to a key",
        )?);
        if Some(other) != read {
            others.push(Value::from(format!("node {other}")));
        }
    }
    let Some(read) = read.filter(|_| !others.is_empty()) else {
        return Ok(None);
    };
    let label = tx.names().label_name(label).unwrap_or_default();
    Ok(Some(Conflict {
        kind: ConflictKind::Key,
        id: Some(read.0),
        record: describe_node(tx, read)?,
        field: label.to_string(),
        value,
        others,
    }))
}

fn schema_conflict(tx: &Transaction, id: RecordId) -> Result<Option<Conflict>, DataError> {
    let Err(error) = tx.graph().check_schema(id) else {
        return Ok(None);
    };
    // The conflict names the record already.
    let broken = match error {
        DataError::Violates {
            label,
            field,
            problem,
            rule,
            ..
        } => format!("{label}.{field} {problem} ({rule}): change the value or the rule"),
        other => other.to_string(),
    };
    Ok(Some(Conflict {
        kind: ConflictKind::Constraint,
        id: Some(id.parts().1),
        record: describe(tx, id)?,
        field: broken,
        value: Value::Null,
        others: Vec::new(),
    }))
}

fn entry_conflict(tx: &Transaction, stored: &[u8]) -> Result<Option<Conflict>, DataError> {
    if stored.first() == Some(&keyspace::TAG_FILE_CHUNK) {
        return chunk_conflict(tx, stored);
    }
    let versions = cells::cell_versions(tx, stored)?;
    let mut rest = stored.get(1..).unwrap_or_default();
    let bucket = take_id(&mut rest).ok_or_else(|| malformed("a conflict"))?;
    let bucket = tx.kv().bucket_name(bucket as u32)?;
    let field = String::from_utf8_lossy(rest).into_owned();
    of_versions(
        tx,
        ConflictKind::Entry,
        None,
        format!("bucket {bucket}"),
        &field,
        &versions,
        &|version| tx.kv().stored_value(&version.value),
    )
}

/// Chunks of files are described by the number of bytes of each version, not by their values.
fn chunk_conflict(tx: &Transaction, stored: &[u8]) -> Result<Option<Conflict>, DataError> {
    let (number, chunk) = chunk_of(stored)?;
    let Some(metadata) = files::file_metadata(tx, number)? else {
        return Ok(None);
    };
    let first = chunk * CHUNK_BYTES;
    of_versions(
        tx,
        ConflictKind::File,
        None,
        format!("file {}", metadata.shown),
        &format!("bytes {first} to {}", first + CHUNK_BYTES - 1),
        &cells::cell_versions(tx, stored)?,
        &|version| Ok(Value::from(format!("{} bytes", version.value.len()))),
    )
}

fn conflict_of_file(tx: &Transaction, number: u64) -> Result<Option<Conflict>, DataError> {
    let Some(metadata) = files::file_metadata(tx, number)? else {
        return Ok(None);
    };
    let replicas = own_replica(tx.store());
    let Some(at) = versions::winner(&metadata.called, replicas) else {
        return Ok(None);
    };
    Ok(Some(Conflict {
        kind: ConflictKind::File,
        id: None,
        record: format!("file {}", metadata.shown),
        field: "path".into(),
        value: Value::from(metadata.shown),
        others: vec![Value::from(
            String::from_utf8_lossy(&metadata.called[at].value).into_owned(),
        )],
    }))
}

fn conflict_of_bucket(tx: &Transaction, bucket: u32) -> Result<Option<Conflict>, DataError> {
    let Some((value, others)) = buckets::bucket_conflict(tx, bucket)? else {
        return Ok(None);
    };
    Ok(Some(Conflict {
        kind: ConflictKind::Bucket,
        id: None,
        record: format!("bucket {}", tx.kv().bucket_name(bucket)?),
        field: "kind".into(),
        value: Value::from(value),
        others: others.into_iter().map(Value::from).collect(),
    }))
}

/// A description of a node.
fn describe(tx: &Transaction, id: RecordId) -> Result<String, DataError> {
    match id {
        RecordId::Node(id) => describe_node(tx, id),
        RecordId::Relationship(id) => Ok(format!("relationship {id}")),
    }
}

fn describe_node(tx: &Transaction, id: NodeId) -> Result<String, DataError> {
    let Some(state) = tx.graph().load_node(id)? else {
        return Ok(format!("node {id}"));
    };
    let mut text = format!("node {id}");
    for label in &state.labels {
        let name = tx.names().label_name(*label).unwrap_or_default();
        text += &format!(" :{name}");
    }
    if let Some(key) = state.properties.get(isomer_layout::graph::state::KEY) {
        text += &format!(" {{_key: {}}}", brief(key));
    }
    Ok(text)
}
