//! Conflicts between concurrent writes of replicas: recorded when a transaction is applied, listed until a user
//! resolves them.
//!
//! | kind | rest of the key | what |
//! |---|---|---|
//! | 0, 1 | `id` node or relationship, `id` property | several versions of a property: the latest is read |
//! | 2 | `id` index, `id` node | a value that a unique index has for another node too: both stay |
//! | 3 | `id` label, `text` key, `id` node | nodes made under different names with one `_key`: one of them is found by it |
//! | 4 | `id` node | a node that breaks a constraint |
//! | 5 | a key of a bucket's entry or a file's chunk | several versions of it |
//! | 6 | `id` bucket | a bucket that was created with different options |
//! | 7 | `id` file | a file that is shown under a substitute name |
//!
//! Entries may be stale; readers re-validate them.

use isomer_value::{
    IndexId, LabelId, NodeId, PropId, RelId, Value, key,
    record::{RecordRef, decode_value},
};

use super::{
    cells::differ,
    codec::malformed,
    identity::Identity,
    join_files::chunk_of,
    shadow::Properties,
    versions::{self, Version},
};
use crate::{
    ConvergentOwner, DataError, GraphRead, Transaction,
    files::CHUNK_BYTES,
    footprint::Space,
    graph::{KeyChanges, NodeState},
    index::{EntryChanges, brief_values, entries_of},
    keyspace::{self, CONFLICTS, IdSpace, after_prefix, take_id, take_terminated},
    properties::brief,
    stream::Change,
};

/// Most conflicts that are listed.
const MOST: usize = 10_000;

/// The kinds of conflicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConflictKind {
    /// Several versions of a property: the latest is read. Setting the property resolves the conflict.
    Property,
    /// Several versions of an entry of a bucket: the latest is read. Putting the entry resolves the conflict.
    Entry,
    /// A value that a unique index has for another node too: change one of them.
    Unique,
    /// Two nodes with one `_key` in one label, made under different names: change the `_key` of one of them.
    Key,
    /// A node that breaks a constraint: change it.
    Constraint,
    /// A bucket that was created with different options: copy its visible entries into another bucket and drop it, and
    /// the shadowed ones become visible.
    Bucket,
    /// A file whose name another file or a folder has: it is shown under a substitute name until it is renamed or
    /// removed. Or a part of a file that was written concurrently: the latest is read, and writing it resolves the
    /// conflict.
    File,
}

impl ConflictKind {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Property => "property",
            Self::Entry => "entry",
            Self::Unique => "unique",
            Self::Key => "key",
            Self::Constraint => "constraint",
            Self::Bucket => "bucket",
            Self::File => "file",
        }
    }
}

/// A conflict between concurrent writes of replicas.
#[derive(Clone, Debug, PartialEq)]
pub struct Conflict {
    /// Its kind.
    pub kind: ConflictKind,
    /// The id of the node or relationship in this database.
    pub id: Option<u64>,
    /// A description of the record or bucket.
    pub record: String,
    /// The property, the key, the index or the rule.
    pub field: String,
    /// The value that is read.
    pub value: Value,
    /// The other values.
    pub others: Vec<Value>,
}

/// Properties with several values.
pub(super) fn contested(properties: &Properties) -> Vec<PropId> {
    let several = properties.iter().filter(|(_, own)| differ(own));
    several.map(|(prop, _)| *prop).collect()
}

impl Transaction {
    /// Records properties with several values, and forgets those of `before` that have one value now.
    pub(super) fn note_contested(
        &mut self,
        key: &dyn Fn(PropId) -> Vec<u8>,
        before: &[PropId],
        after: &Properties,
    ) -> Result<(), DataError> {
        let now = contested(after);
        for prop in now.iter().filter(|prop| !before.contains(prop)) {
            self.put(&key(*prop), &[])?;
        }
        for prop in before.iter().filter(|prop| !now.contains(prop)) {
            self.delete(&key(*prop))?;
        }
        Ok(())
    }

    pub(super) fn forget_conflicts(&mut self, space: IdSpace, id: u64) -> Result<(), DataError> {
        let prefix = keyspace::conflicts_of(space, id);
        let end = after_prefix(&prefix);
        for key in self.keys_between(&prefix, end.as_deref())? {
            self.delete(&key)?;
        }
        Ok(())
    }

    /// Records that a node breaks a constraint.
    pub(crate) fn note_broken(&mut self, id: NodeId) -> Result<(), DataError> {
        self.put(&keyspace::conflict_in_schema(id), &[])
    }
}

/// Conflicts and local transactions: resolution.
impl Transaction {
    /// Properties were set by a local transaction, perhaps to the value that is read already: this selects one of
    /// several versions, and is sent to other replicas as any change is.
    pub(crate) fn resolve_conflict_notes<'n>(
        &mut self,
        owner: ConvergentOwner,
        names: impl IntoIterator<Item = &'n str>,
    ) -> Result<(), DataError> {
        if !self.is_replicated() {
            return Ok(());
        }
        for name in names {
            let Some(prop) = self.catalog_ref().prop_id(name) else {
                continue;
            };
            let (note, stored) = match owner {
                ConvergentOwner::Node(id) => {
                    (keyspace::conflict_in_node(id, prop), keyspace::node(id))
                }
                ConvergentOwner::Relationship(id) => (
                    keyspace::conflict_in_relationship(id, prop),
                    keyspace::relationship(id),
                ),
            };
            if self.read().get(&note)?.is_none() {
                continue;
            }
            let Some(bytes) = self.read().get(&stored)? else {
                continue;
            };
            let record = RecordRef::new(&bytes)?;
            let Some(value) = record.get_raw(prop)? else {
                continue;
            };
            let set = vec![(prop, value)];
            match owner {
                ConvergentOwner::Node(id) => {
                    let Some(state) = self.load_node(id)? else {
                        continue;
                    };
                    self.note_identity(id, &state)?;
                    self.footprint_mut().change_node(id, &state.labels);
                    self.log(&Change::NodeChanged {
                        id,
                        labels_added: Vec::new(),
                        labels_removed: Vec::new(),
                        set,
                        removed: Vec::new(),
                    });
                }
                ConvergentOwner::Relationship(id) => {
                    let row = crate::graph::row_of(id, &record)?;
                    self.log(&Change::RelationshipChanged {
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
}

/// Conflicts found by merges, where a local transaction would be refused.
impl Transaction {
    /// Records how a node's new state breaks unique indexes and constraints.
    pub(crate) fn note_refused(
        &mut self,
        id: NodeId,
        new: Option<&NodeState>,
        entries: &EntryChanges,
    ) -> Result<(), DataError> {
        let Some(new) = new else {
            return self.delete(&keyspace::conflict_in_schema(id));
        };
        if self
            .catalog_ref()
            .schema
            .check(self.catalog_ref(), Some(id), new)
            .is_err()
        {
            self.note_broken(id)?;
        }
        for entry in entries.added.iter().filter(|entry| entry.unique) {
            self.footprint().read_fields(
                Space::Index(entry.index.0),
                entry.ends.len(),
                &entry.values,
            );
            if self.holder(entry, id)?.is_some() {
                self.put(&keyspace::conflict_in_index(entry.index, id), &[])?;
            }
        }
        Ok(())
    }

    /// Of several nodes with one `_key` in one label, the one with the lowest identity is found by it, in all replicas.
    /// Returns the keys whose owner changes.
    pub(crate) fn merge_keys(
        &mut self,
        id: NodeId,
        changes: KeyChanges,
    ) -> Result<KeyChanges, DataError> {
        let mut moved = self.release_keys(
            id,
            KeyChanges {
                removed: changes.removed,
                ..KeyChanges::default()
            },
        )?;
        for (label, key) in changes.added {
            self.footprint().read_key(Space::Keys(label.0), &key);
            let stored = [&keyspace::keys_of(label)[..], &key].concat();
            let holder = match self.read().get(&stored)? {
                Some(value) => NodeId(keyspace::sole_id(&value, "the node under a key")?),
                None => {
                    moved.added.push((label, key));
                    continue;
                }
            };
            // Both are recorded, so that the key passes to the other one when one of them releases it.
            for claimant in [holder, id] {
                self.put(&claim(label, &key, claimant), &[])?;
            }
            if self.turn(label, id)? < self.turn(label, holder)? {
                moved.added.push((label, key));
            }
        }
        Ok(moved)
    }

    /// Released keys: a key that another node is found by is kept, and a key of this node passes to the next node that
    /// has it.
    pub(crate) fn release_keys(
        &mut self,
        id: NodeId,
        mut changes: KeyChanges,
    ) -> Result<KeyChanges, DataError> {
        if !self.shared().replication.is_on() {
            return Ok(changes);
        }
        let mut removed = Vec::new();
        for (label, key) in std::mem::take(&mut changes.removed) {
            let prefix = keyspace::conflict_of_key(label, &key);
            let end = after_prefix(&prefix);
            let mut others = Vec::new();
            for claim in self.keys_between(&prefix, end.as_deref())? {
                let other = keyspace::sole_id(&claim[prefix.len()..], "a claim to a key")?;
                others.push(NodeId(other));
            }
            if others.is_empty() {
                removed.push((label, key));
                continue;
            }
            self.delete(&claim(label, &key, id))?;
            others.retain(|other| *other != id);
            // A single claimant is no conflict any more.
            if let [last] = others[..] {
                self.delete(&claim(label, &key, last))?;
            }
            let mut next: Option<(_, NodeId)> = None;
            for other in others {
                let turn = self.turn(label, other)?;
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
    fn turn(&self, label: LabelId, id: NodeId) -> Result<(bool, Vec<u8>), DataError> {
        Ok((!self.is_outside_space(id, label)?, self.spelled(id)?))
    }

    /// A node's identity in bytes that are the same in every replica.
    pub(super) fn spelled(&self, id: NodeId) -> Result<Vec<u8>, DataError> {
        let identity = match self.node_identity(id) {
            Ok(identity) => identity,
            Err(_) => match &self.noted.merged {
                Some((merged, identity)) if *merged == id => identity.clone(),
                _ => return Err(DataError::Internal(format!("node {id} has no name"))),
            },
        };
        Ok(self.spell_identity(&identity))
    }

    pub(super) fn spell_identity(&self, identity: &Identity) -> Vec<u8> {
        match identity {
            Identity::Keyed { label, key } => {
                let name = self.catalog_ref().label_name(*label).unwrap_or_default();
                [&[1], name.as_bytes(), &[0], key].concat()
            }
            Identity::Made { replica, id } => {
                let name = self.shared().own_replica.name(*replica);
                let name = name.map(|name| name.to_bytes()).unwrap_or_default();
                [&[2][..], &name, &id.to_be_bytes()].concat()
            }
        }
    }
}

fn claim(label: LabelId, key: &[u8], id: NodeId) -> Vec<u8> {
    let mut stored = keyspace::conflict_of_key(label, key);
    keyspace::push_id(&mut stored, id.0);
    stored
}

/// Listing conflicts.
impl Transaction {
    /// The current conflicts, at most ten thousand.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn conflicts(&self) -> Result<Vec<Conflict>, DataError> {
        let mut found = Vec::new();
        if !self.shared().replication.is_on() {
            return Ok(found);
        }
        let end = after_prefix(CONFLICTS);
        let mut listed_keys = Vec::new();
        for note in self.keys_between(CONFLICTS, end.as_deref())? {
            if found.len() == MOST {
                break;
            }
            let rest = &note[CONFLICTS.len()..];
            let (kind, mut rest) = rest.split_first().ok_or_else(|| malformed("a conflict"))?;
            let rest = &mut rest;
            let mut id = || take_id(rest).ok_or_else(|| malformed("a conflict"));
            let conflict = match kind {
                0 | 1 => {
                    let (id, prop) = (id()?, PropId(id()? as u32));
                    self.property_conflict(*kind == 0, id, prop)?
                }
                2 => {
                    let (index, node) = (IndexId(id()? as u32), NodeId(id()?));
                    self.index_conflict(index, node)?
                }
                3 => {
                    let label = LabelId(id()? as u32);
                    let key = take_terminated(rest).ok_or_else(|| malformed("a conflict"))?;
                    match listed_keys.contains(&(label, key.clone())) {
                        true => None,
                        false => {
                            listed_keys.push((label, key.clone()));
                            self.key_conflict(label, &key)?
                        }
                    }
                }
                4 => self.schema_conflict(NodeId(id()?))?,
                5 => self.entry_conflict(rest)?,
                6 => self.conflict_of_bucket(id()? as u32)?,
                7 => self.conflict_of_file(id()?)?,
                _ => return Err(malformed("a conflict")),
            };
            found.extend(conflict);
        }
        Ok(found)
    }

    fn property_conflict(
        &self,
        is_node: bool,
        id: u64,
        prop: PropId,
    ) -> Result<Option<Conflict>, DataError> {
        let (properties, record) = match is_node {
            true => match self.node_shadow(NodeId(id))? {
                Some(shadow) if !shadow.lives.is_empty() => {
                    (shadow.properties, self.describe_node(NodeId(id))?)
                }
                _ => return Ok(None),
            },
            false => match self.rel_shadow(RelId(id))? {
                Some(shadow) => (shadow.properties, format!("relationship {id}")),
                None => return Ok(None),
            },
        };
        let names = self.catalog_ref().names.clone();
        let versions = properties.get(&prop).cloned().unwrap_or_default();
        let value = |version: &Version| Ok(decode_value(&version.value, &*names)?);
        let field = self.catalog_ref().prop_name(prop).unwrap_or_default();
        self.of_versions(
            ConflictKind::Property,
            Some(id),
            record,
            &field,
            &versions,
            &value,
        )
    }

    fn of_versions(
        &self,
        kind: ConflictKind,
        id: Option<u64>,
        record: String,
        field: &str,
        versions: &[Version],
        value: &dyn Fn(&Version) -> Result<Value, DataError>,
    ) -> Result<Option<Conflict>, DataError> {
        let read = versions::winner(versions, &self.shared().own_replica);
        let Some(read) = read.filter(|_| differ(versions)) else {
            return Ok(None);
        };
        // The latest first, the same order in all replicas.
        let names = &self.shared().own_replica;
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

    fn index_conflict(&self, index: IndexId, id: NodeId) -> Result<Option<Conflict>, DataError> {
        let catalog = self.catalog_ref().clone();
        let (Some(index), Some(state)) = (catalog.index(index), self.load_node(id)?) else {
            return Ok(None);
        };
        if !index.unique || state.labels.binary_search(&index.label).is_err() {
            return Ok(None);
        }
        for entry in entries_of(index, &state)? {
            if let Some(other) = self.holder(&entry, id)? {
                return Ok(Some(Conflict {
                    kind: ConflictKind::Unique,
                    id: Some(id.0),
                    record: self.describe_node(id)?,
                    field: index.name.to_string(),
                    value: Value::from(brief_values(&entry.values)),
                    others: vec![Value::from(self.describe_node(other)?)],
                }));
            }
        }
        Ok(None)
    }

    fn key_conflict(&self, label: LabelId, key: &[u8]) -> Result<Option<Conflict>, DataError> {
        let prefix = keyspace::conflict_of_key(label, key);
        let end = after_prefix(&prefix);
        let value = key::decode(key)?;
        let read = self.node_by_key(label, &value)?;
        let mut others = Vec::new();
        for claim in self.keys_between(&prefix, end.as_deref())? {
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
        let label = self.catalog_ref().label_name(label).unwrap_or_default();
        Ok(Some(Conflict {
            kind: ConflictKind::Key,
            id: Some(read.0),
            record: self.describe_node(read)?,
            field: label.to_string(),
            value,
            others,
        }))
    }

    fn schema_conflict(&self, id: NodeId) -> Result<Option<Conflict>, DataError> {
        let Some(state) = self.load_node(id)? else {
            return Ok(None);
        };
        let kept = self
            .catalog_ref()
            .schema
            .check(self.catalog_ref(), None, &state);
        let Err(error) = kept else {
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
            id: Some(id.0),
            record: self.describe_node(id)?,
            field: broken,
            value: Value::Null,
            others: Vec::new(),
        }))
    }

    fn entry_conflict(&self, stored: &[u8]) -> Result<Option<Conflict>, DataError> {
        if stored.first() == Some(&keyspace::TAG_FILE_CHUNK) {
            return self.chunk_conflict(stored);
        }
        let versions = self.cell_versions(stored)?;
        let mut rest = stored.get(1..).unwrap_or_default();
        let bucket = take_id(&mut rest).ok_or_else(|| malformed("a conflict"))?;
        let bucket = self.bucket_name(bucket as u32)?;
        let field = String::from_utf8_lossy(rest).into_owned();
        self.of_versions(
            ConflictKind::Entry,
            None,
            format!("bucket {bucket}"),
            &field,
            &versions,
            &|version| self.stored_value(&version.value),
        )
    }

    /// Chunks of files are described by the number of bytes of each version, not by their values.
    fn chunk_conflict(&self, stored: &[u8]) -> Result<Option<Conflict>, DataError> {
        let (number, chunk) = chunk_of(stored)?;
        let Some(shadow) = self.file_shadow(number)? else {
            return Ok(None);
        };
        let first = chunk * CHUNK_BYTES;
        self.of_versions(
            ConflictKind::File,
            None,
            format!("file {}", shadow.shown),
            &format!("bytes {first} to {}", first + CHUNK_BYTES - 1),
            &self.cell_versions(stored)?,
            &|version| Ok(Value::from(format!("{} bytes", version.value.len()))),
        )
    }

    fn conflict_of_file(&self, number: u64) -> Result<Option<Conflict>, DataError> {
        let Some(shadow) = self.file_shadow(number)? else {
            return Ok(None);
        };
        let replicas = &self.shared().own_replica;
        let Some(at) = versions::winner(&shadow.called, replicas) else {
            return Ok(None);
        };
        Ok(Some(Conflict {
            kind: ConflictKind::File,
            id: None,
            record: format!("file {}", shadow.shown),
            field: "path".into(),
            value: Value::from(shadow.shown),
            others: vec![Value::from(
                String::from_utf8_lossy(&shadow.called[at].value).into_owned(),
            )],
        }))
    }

    fn conflict_of_bucket(&self, bucket: u32) -> Result<Option<Conflict>, DataError> {
        let Some((value, others)) = self.bucket_conflict(bucket)? else {
            return Ok(None);
        };
        Ok(Some(Conflict {
            kind: ConflictKind::Bucket,
            id: None,
            record: format!("bucket {}", self.bucket_name(bucket)?),
            field: "kind".into(),
            value: Value::from(value),
            others: others.into_iter().map(Value::from).collect(),
        }))
    }

    /// A description of a node.
    fn describe_node(&self, id: NodeId) -> Result<String, DataError> {
        let Some(state) = self.load_node(id)? else {
            return Ok(format!("node {id}"));
        };
        let mut text = format!("node {id}");
        for label in &state.labels {
            let name = self.catalog_ref().label_name(*label).unwrap_or_default();
            text += &format!(" :{name}");
        }
        if let Some(key) = state.properties.get(crate::graph::KEY) {
            text += &format!(" {{_key: {}}}", brief(key));
        }
        Ok(text)
    }
}
