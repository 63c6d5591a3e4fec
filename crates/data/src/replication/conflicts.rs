//! What replicas wrote at once and cannot both have: noted where a transaction arrives, listed until somebody resolves it.
//!
//! | kind | rest of the key | what |
//! |---|---|---|
//! | 0, 1 | `id` node or relationship, `id` property | several versions of a property: the latest is read |
//! | 2 | `id` index, `id` node | a value that a unique index holds of another node too: both stay |
//! | 3 | `id` label, `text` key, `id` node | nodes made under different names with one `_key`: one of them is found by it |
//! | 4 | `id` node | a node that breaks a constraint |
//! | 5 | a bucket's key | several versions of an entry |
//!
//! Notes may outlive what they tell of; whoever lists looks.

use isomer_value::{LabelId, NodeId, PropId};

use super::{cells::differ, identity::Identity, shadow::Properties};
use crate::{
    DataError, Transaction,
    footprint::Space,
    graph::{KeyChanges, NodeState},
    index::EntryChanges,
    keyspace::{self, IdSpace, after_prefix},
};

/// Properties with several values.
pub(super) fn contested(properties: &Properties) -> Vec<PropId> {
    let several = properties.iter().filter(|(_, own)| differ(own));
    several.map(|(prop, _)| *prop).collect()
}

impl Transaction {
    /// Notes properties with several values, and forgets those `before` that have one now.
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

    /// Notes that a node breaks a constraint.
    pub(crate) fn note_broken(&mut self, id: NodeId) -> Result<(), DataError> {
        self.put(&keyspace::conflict_in_schema(id), &[])
    }
}

/// What a merge does where a local transaction would be refused.
impl Transaction {
    /// Notes what of a node's new state breaks unique indexes and constraints.
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
            .check(self.catalog_ref(), new)
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

    /// Of nodes under different names that have one `_key` in one label, the one whose name comes first is found by it,
    /// everywhere. Answers which keys really move.
    pub(crate) fn share_keys(
        &mut self,
        id: NodeId,
        changes: KeyChanges,
    ) -> Result<KeyChanges, DataError> {
        let mut moved = self.leave_keys(
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
            for claimant in [holder, id] {
                self.put(&claim(label, &key, claimant), &[])?;
            }
            if self.spelled(id)? < self.spelled(holder)? {
                moved.added.push((label, key));
            }
        }
        Ok(moved)
    }

    /// Keys that go leave those alone that another node is found by, and pass to the next one that has them.
    pub(crate) fn leave_keys(
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
            if let [last] = others[..] {
                self.delete(&claim(label, &key, last))?;
            }
            let mut next: Option<(Vec<u8>, NodeId)> = None;
            for other in others {
                let spelled = self.spelled(other)?;
                if next.as_ref().is_none_or(|(first, _)| spelled < *first) {
                    next = Some((spelled, other));
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

    /// A node's name in bytes that are the same in every replica.
    pub(super) fn spelled(&self, id: NodeId) -> Result<Vec<u8>, DataError> {
        let identity = match self.node_identity(id) {
            Ok(identity) => identity,
            Err(_) => match &self.noted.merged {
                Some((merged, identity)) if *merged == id => identity.clone(),
                _ => return Err(DataError::Internal(format!("node {id} has no name"))),
            },
        };
        Ok(match identity {
            Identity::Keyed { label, key } => {
                let name = self.catalog_ref().label_name(label).unwrap_or_default();
                [&[1], name.as_bytes(), &[0], &key].concat()
            }
            Identity::Made { replica, id } => {
                let name = self.shared().own_replica.name(replica);
                let name = name.map(|name| name.to_bytes()).unwrap_or_default();
                [&[2][..], &name, &id.to_be_bytes()].concat()
            }
        })
    }
}

fn claim(label: LabelId, key: &[u8], id: NodeId) -> Vec<u8> {
    let mut stored = keyspace::conflict_of_key(label, key);
    keyspace::push_id(&mut stored, id.0);
    stored
}
