//! Writing nodes. Every change of a node is a transition from an old state to a new one, and is executed by one
//! function, which keeps the record, label membership, keys, index entries, constraints, counts and the change stream
//! consistent.

use isomer_layout::{
    DataError,
    convergent::position::ConvergentOwner,
    graph::{
        key::{encode_found_key, encode_key},
        state::{EntryOwner, KEY, KeyChanges, NodeState, RecordId},
    },
    index::{EntryChanges, IndexEntry},
    keyspace::{self, push_id, sole_id},
    properties::{merge_top, set_path, without_nulls},
    stream::change::{Change, Counted},
};
use isomer_value::{
    LabelId, Map, NodeId, PropId, RelId, Value, key,
    record::{RecordBuilder, RecordRef, encode_value},
};

use crate::{
    Graph, GraphMut, Transaction,
    footprint::{NONE, Space},
    store::PropNames,
};

impl GraphMut<'_> {
    /// Creates a node. `_key` among `properties` must be a string or an integer, new in each of the labels. Nulls are
    /// left out.
    pub fn create_node(
        &mut self,
        labels: &[LabelId],
        properties: &Map,
    ) -> Result<NodeId, DataError> {
        self.insert_node(labels, without_nulls(properties))
    }

    /// Creates a node with `properties`, which contain no nulls.
    pub(crate) fn insert_node(
        &mut self,
        labels: &[LabelId],
        properties: Map,
    ) -> Result<NodeId, DataError> {
        debug_assert!(properties.values().all(|value| !value.is_null()));
        self.tx.check_writable()?;
        let owner = labels.first().map_or(NONE, |label| label.0);
        let mut sorted = labels.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        let new = NodeState {
            labels: sorted,
            properties,
        };
        let id = NodeId(
            self.tx
                .store()
                .shared()
                .nodes
                .allocate(&**self.tx.store().engine(), owner)?,
        );
        self.apply_node_change(id, None, Some(&new))?;
        Ok(id)
    }

    /// Sets the property at `path` (one name, or names through nested maps, which are created where absent); `Null`
    /// removes it.
    ///
    /// # Errors
    /// [`DataError::NotFound`] if the node does not exist, [`DataError::Invalid`] if a step of the path is not a
    /// map.
    pub fn set_node_property(
        &mut self,
        id: NodeId,
        path: &[&str],
        value: Value,
    ) -> Result<(), DataError> {
        if self.tx.fields_mut().route_to_convergent_field(
            ConvergentOwner::Node(id),
            path,
            &value,
        )? {
            return Ok(());
        }
        self.update_node(id, |state| set_path(&mut state.properties, path, value))?;
        self.tx.replication_mut().resolve_conflicts(
            ConvergentOwner::Node(id),
            &mut path.first().copied().into_iter(),
        )
    }

    /// Replaces all properties.
    pub fn replace_node_properties(
        &mut self,
        id: NodeId,
        properties: &Map,
    ) -> Result<(), DataError> {
        self.update_node(id, |state| {
            state.properties = without_nulls(properties);
            Ok(())
        })?;
        let mut names = properties.iter().map(|(name, _)| &**name);
        self.tx
            .replication_mut()
            .resolve_conflicts(ConvergentOwner::Node(id), &mut names)
    }

    /// Sets the properties given, removes those given as `Null`, keeps the others.
    pub fn merge_node_properties(&mut self, id: NodeId, properties: &Map) -> Result<(), DataError> {
        for (name, _) in properties.iter().filter(|(_, value)| value.is_null()) {
            self.tx.fields_mut().route_to_convergent_field(
                ConvergentOwner::Node(id),
                &[name],
                &Value::Null,
            )?;
        }
        self.update_node(id, |state| {
            merge_top(&mut state.properties, properties);
            Ok(())
        })?;
        let mut names = properties.iter().map(|(name, _)| &**name);
        self.tx
            .replication_mut()
            .resolve_conflicts(ConvergentOwner::Node(id), &mut names)
    }

    /// Adds a label; returns whether it was new.
    pub fn add_label(&mut self, id: NodeId, label: LabelId) -> Result<bool, DataError> {
        let mut new = false;
        self.update_node(id, |state| {
            if let Err(at) = state.labels.binary_search(&label) {
                state.labels.insert(at, label);
                new = true;
            }
            Ok(())
        })?;
        Ok(new)
    }

    /// Removes a label; returns whether the node had it.
    pub fn remove_label(&mut self, id: NodeId, label: LabelId) -> Result<bool, DataError> {
        let mut was = false;
        self.update_node(id, |state| {
            if let Ok(at) = state.labels.binary_search(&label) {
                state.labels.remove(at);
                was = true;
            }
            Ok(())
        })?;
        Ok(was)
    }

    /// Deletes a node. A node with relationships is refused ([`DataError::StillConnected`]) unless `detach`, which
    /// deletes them too. Returns the relationships that were deleted with it. It is not an error if the node does not
    /// exist (any more).
    pub fn delete_node(&mut self, id: NodeId, detach: bool) -> Result<Vec<RelId>, DataError> {
        self.delete_node_while(id, detach, &mut || true)
    }

    /// As [`GraphMut::delete_node`], asking before each relationship whether to continue; [`DataError::Cancelled`]
    /// where not: some are deleted then, roll back to a savepoint.
    pub fn delete_node_while(
        &mut self,
        id: NodeId,
        detach: bool,
        should_continue: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<RelId>, DataError> {
        self.tx.check_writable()?;
        let Some(old) = self.tx.graph().load_node(id)? else {
            return Ok(Vec::new());
        };
        let rels = self.tx.graph().relationships_of(id)?;
        if !detach && !rels.is_empty() {
            return Err(DataError::StillConnected { node: id.0 });
        }
        for &rel in &rels {
            if !should_continue() {
                return Err(DataError::Cancelled);
            }
            self.delete_relationship(rel)?;
        }
        self.apply_node_change(id, Some(&old), None)?;
        self.tx
            .fields_mut()
            .drop_fields(ConvergentOwner::Node(id))?;
        Ok(rels)
    }

    pub(crate) fn update_node(
        &mut self,
        id: NodeId,
        change: impl FnOnce(&mut NodeState) -> Result<(), DataError>,
    ) -> Result<(), DataError> {
        self.tx.check_writable()?;
        let old = self.tx.graph().load_node(id)?.ok_or_else(|| {
            DataError::NotFound(format!(
                "node {id} does not exist, or was deleted in this transaction"
            ))
        })?;
        let mut new = old.clone();
        change(&mut new)?;
        self.tx.fields_mut().strip_convergent_fields(
            ConvergentOwner::Node(id),
            &old.properties,
            &mut new.properties,
        )?;
        self.apply_node_change(id, Some(&old), Some(&new))
    }

    /// Changes a node from `old` (absent: it is created) to `new` (absent: it is deleted). Refuses before it writes
    /// anything.
    #[doc(hidden)]
    pub fn apply_node_change(
        &mut self,
        id: NodeId,
        old: Option<&NodeState>,
        new: Option<&NodeState>,
    ) -> Result<(), DataError> {
        self.tx.check_writable()?;
        if let (Some(old), Some(new)) = (old, new)
            && old.labels == new.labels
            && self
                .tx
                .graph()
                .is_unchanged(&old.properties, &new.properties)?
        {
            return Ok(());
        }
        let record = new
            .map(|new| self.tx.graph().encode_node(new))
            .transpose()?;
        let keys = key_changes(old, new)?;
        let entries = self
            .tx
            .indexes_mut()
            .entry_changes(RecordId::Node(id), old, new)?;
        let keys = if self.tx.replication().is_merging() {
            let hooks = self
                .tx
                .replication()
                .hooks()
                .expect("only replication merges");
            hooks.note_refused(self.tx, id, new, &entries)?;
            hooks.merge_keys(self.tx, id, keys)?
        } else {
            let keys = self.check_keys(id, keys)?;
            self.tx
                .constraints_mut()
                .check_change(RecordId::Node(id), new, &entries)?;
            match self.tx.replication().hooks() {
                None => keys,
                Some(hooks) => {
                    if let Some(old) = old {
                        hooks.note_identity(self.tx, id, old)?;
                    }
                    hooks.release_keys(self.tx, id, keys)?
                }
            }
        };
        let mut logged = self.tx.scratch.take();
        self.tx
            .graph()
            .log_entry(id, old, new, record.as_deref(), &mut logged)?;

        if new.is_none() {
            self.tx.changes.ends.remove(id.0);
        }
        self.record_node_change(id, old, new);
        let mut key = self.tx.scratch.take();
        keyspace::push_node(&mut key, id);
        match &record {
            Some(record) => self.tx.put(&key, record)?,
            None => self.tx.delete(&key)?,
        }
        self.tx.scratch.keep(key);
        self.move_labels(id, old, new)?;
        self.move_keys(id, &keys)?;
        self.move_entries(EntryOwner::Node(id), &entries)?;
        self.tx.log_bytes(&logged);
        self.tx.scratch.keep(logged);
        Ok(())
    }

    /// Refuses keys that another node has. While checks are deferred the node waits for them instead, and gets them
    /// when the other one releases them. Returns the keys whose owner changes.
    fn check_keys(&mut self, id: NodeId, mut keys: KeyChanges) -> Result<KeyChanges, DataError> {
        if self.tx.changes.deferred.has_waiting() {
            for place in std::mem::take(&mut keys.removed) {
                match self.tx.changes.deferred.release_key(id, &place) {
                    None => keys.removed.push(place),
                    Some(None) => {}
                    Some(Some(next)) => keys.passed.push((place.0, place.1, next)),
                }
            }
        }
        let mut at = 0;
        while let Some((label, key)) = keys.added.get(at) {
            let mut stored = self.tx.scratch.take();
            keyspace::push_key(&mut stored, *label, key);
            self.tx.footprint().read_key(Space::Keys(label.0), key);
            let taken = self.tx.read().get(&stored)?.is_some();
            self.tx.scratch.keep(stored);
            if !taken {
                at += 1;
            } else if self.tx.changes.deferred.wait_for_key(id, (*label, key)) {
                keys.added.remove(at);
            } else {
                return Err(self.tx.constraints().key_exists(*label, key));
            }
        }
        Ok(keys)
    }

    fn record_node_change(&mut self, id: NodeId, old: Option<&NodeState>, new: Option<&NodeState>) {
        self.tx.changes.dirty.node(id);
        let footprint = self.tx.footprint_mut();
        match (old, new) {
            (None, _) => footprint.create_node(id),
            (Some(old), None) => footprint.delete_node(id, &old.labels),
            (Some(old), Some(new)) => {
                footprint.change_node(id, &old.labels);
                if old.labels != new.labels {
                    footprint.change_node(id, &new.labels);
                }
            }
        }
        if let (Some(old), Some(new)) = (old, new) {
            let moved = if old.labels == new.labels {
                0
            } else {
                old.labels.len().abs_diff(new.labels.len()).max(1)
            };
            self.tx.changes.statistics.node(&new.labels, moved);
        }
        let change = i64::from(new.is_some()) - i64::from(old.is_some());
        self.tx.changes.deltas.add(Counted::Nodes, change);
    }

    fn move_labels(
        &mut self,
        id: NodeId,
        old: Option<&NodeState>,
        new: Option<&NodeState>,
    ) -> Result<(), DataError> {
        let mut key = self.tx.scratch.take();
        for label in lacking(old, new) {
            self.change_member(label, -1);
            key.clear();
            keyspace::push_member(&mut key, label, id);
            self.tx.delete(&key)?;
        }
        for label in lacking(new, old) {
            self.change_member(label, 1);
            key.clear();
            keyspace::push_member(&mut key, label, id);
            self.tx.put(&key, b"")?;
        }
        self.tx.scratch.keep(key);
        Ok(())
    }

    fn change_member(&mut self, label: LabelId, change: i64) {
        self.tx.changes.dirty.label(label);
        self.tx.footprint_mut().change_member(label);
        self.tx.changes.deltas.add(Counted::Label(label), change);
    }

    fn move_keys(&mut self, id: NodeId, keys: &KeyChanges) -> Result<(), DataError> {
        let mut stored = self.tx.scratch.take();
        let mut value = self.tx.scratch.take();
        for (label, key) in &keys.removed {
            self.tx
                .footprint_mut()
                .change_key(Space::Keys(label.0), key, true);
            stored.clear();
            keyspace::push_key(&mut stored, *label, key);
            self.tx.delete(&stored)?;
        }
        let added = keys.added.iter().map(|(label, key)| (label, key, id));
        let passed = keys.passed.iter().map(|(label, key, to)| (label, key, *to));
        for (label, key, id) in added.chain(passed) {
            self.tx
                .footprint_mut()
                .change_key(Space::Keys(label.0), key, true);
            stored.clear();
            keyspace::push_key(&mut stored, *label, key);
            value.clear();
            push_id(&mut value, id.0);
            self.tx.put(&stored, &value)?;
        }
        self.tx.scratch.keep(stored);
        self.tx.scratch.keep(value);
        Ok(())
    }

    pub(crate) fn move_entries(
        &mut self,
        owner: EntryOwner,
        entries: &EntryChanges,
    ) -> Result<(), DataError> {
        if entries.removed.is_empty() && entries.added.is_empty() {
            return Ok(());
        }
        let value = owner.entry_value();
        let note = |tx: &mut Transaction, entry: &IndexEntry| {
            tx.footprint_mut().change_entry(
                Space::Index(entry.index.0),
                &entry.values,
                &entry.ends,
            );
        };
        for entry in &entries.removed {
            note(self.tx, entry);
            self.tx.delete(&entry.key(owner))?;
        }
        for entry in &entries.added {
            note(self.tx, entry);
            self.tx.put(&entry.key(owner), &value)?;
        }
        Ok(())
    }
}

impl Graph<'_> {
    /// Labels and properties, observed.
    #[doc(hidden)]
    pub fn load_node(self, id: NodeId) -> Result<Option<NodeState>, DataError> {
        let Some(bytes) = self.tx.read().get(&keyspace::node(id))? else {
            self.tx.footprint().read_absent_node();
            return Ok(None);
        };
        let record = RecordRef::new(&bytes)?;
        let labels: Vec<LabelId> = record.labels().collect();
        self.tx.footprint().read_node(id, labels.first().copied());
        Ok(Some(NodeState {
            labels,
            properties: record.properties(&*self.tx.names().names)?,
        }))
    }

    pub(crate) fn find_key(self, label: LabelId, key: &Value) -> Result<Option<NodeId>, DataError> {
        match encode_found_key(key) {
            Some(encoded) => self.find_encoded_key(label, &encoded),
            None => Ok(None),
        }
    }

    pub(crate) fn find_encoded_key(
        self,
        label: LabelId,
        encoded: &[u8],
    ) -> Result<Option<NodeId>, DataError> {
        self.tx.footprint().read_key(Space::Keys(label.0), encoded);
        self.tx.constraints().check_sole_key(label, encoded)?;
        let mut stored = keyspace::keys_of(label);
        stored.extend_from_slice(encoded);
        match self.tx.read().get(&stored)? {
            Some(value) => Ok(Some(NodeId(sole_id(&value, "the node under a key")?))),
            None => Ok(None),
        }
    }

    fn encode_node(self, state: &NodeState) -> Result<Vec<u8>, DataError> {
        let mut names = PropNames::new(self.tx.store());
        let mut builder = RecordBuilder::node(&state.labels);
        match builder.put_all(&state.properties, &mut names) {
            Ok(()) => Ok(builder.finish()?),
            Err(error) => Err(names.explain(error)),
        }
    }

    /// The operation for the change stream, appended to `bytes` before anything is written, as it may still be refused.
    fn log_entry(
        self,
        id: NodeId,
        old: Option<&NodeState>,
        new: Option<&NodeState>,
        record: Option<&[u8]>,
        bytes: &mut Vec<u8>,
    ) -> Result<(), DataError> {
        match (old, new, record) {
            (None, _, Some(record)) => Change::NodeCreated { id, record }.push(bytes),
            (Some(old), None, _) => {
                let key = match old.properties.get(KEY) {
                    Some(key) => key::encode(key)?,
                    None => Vec::new(),
                };
                Change::NodeDeleted {
                    id,
                    labels: old.labels.clone(),
                    key: &key,
                }
                .push(bytes);
            }
            (Some(before), Some(after), _) => {
                let (labels_removed, labels_added) =
                    (lacking(old, new).collect(), lacking(new, old).collect());
                let difference = self.property_changes(&before.properties, &after.properties)?;
                let (set, removed) = difference.parts();
                Change::NodeChanged {
                    id,
                    labels_added,
                    labels_removed,
                    set,
                    removed,
                }
                .push(bytes);
            }
            _ => {}
        }
        Ok(())
    }

    /// Whether the write is a no-op. Equal values may have different bytes (0.0 and -0.0): a merge must produce the
    /// same bytes in all replicas, whichever of them was stored before.
    pub(crate) fn is_unchanged(self, old: &Map, new: &Map) -> Result<bool, DataError> {
        Ok(old == new
            && (!self.tx.replication().is_merging() || self.property_changes(old, new)?.is_empty()))
    }

    fn is_same(self, old: Option<&Value>, new: &Value) -> Result<bool, DataError> {
        if old != Some(new) || !self.tx.replication().is_merging() {
            return Ok(old == Some(new));
        }
        let mut names = PropNames::new(self.tx.store());
        let mut bytes = [Vec::new(), Vec::new()];
        for (value, bytes) in old.into_iter().chain([new]).zip(&mut bytes) {
            if let Err(error) = encode_value(value, &mut names, bytes) {
                return Err(names.explain(error));
            }
        }
        Ok(bytes[0] == bytes[1])
    }

    /// How two maps of properties differ at their top level.
    pub(crate) fn property_changes(
        self,
        old: &Map,
        new: &Map,
    ) -> Result<PropertyChanges, DataError> {
        let mut names = PropNames::new(self.tx.store());
        let mut changes = PropertyChanges::default();
        for (name, value) in new.iter() {
            if !self.is_same(old.get(name), value)? {
                let start = changes.bytes.len();
                if let Err(error) = encode_value(value, &mut names, &mut changes.bytes) {
                    return Err(names.explain(error));
                }
                changes.set.push((
                    self.tx.name_ids().intern_prop(name)?,
                    start..changes.bytes.len(),
                ));
            }
        }
        for name in old.names() {
            if !new.contains(name) {
                changes.removed.push(self.tx.name_ids().intern_prop(name)?);
            }
        }
        Ok(changes)
    }
}

/// Properties set, with their encoded values, and removed.
#[derive(Default)]
pub(crate) struct PropertyChanges {
    pub(crate) bytes: Vec<u8>,
    pub(crate) set: Vec<(PropId, std::ops::Range<usize>)>,
    pub(crate) removed: Vec<PropId>,
}

impl PropertyChanges {
    pub(crate) fn is_empty(&self) -> bool {
        self.set.is_empty() && self.removed.is_empty()
    }

    pub(crate) fn parts(&self) -> (Vec<(PropId, &[u8])>, Vec<PropId>) {
        let set = self
            .set
            .iter()
            .map(|(prop, range)| (*prop, &self.bytes[range.clone()]))
            .collect();
        (set, self.removed.clone())
    }
}

/// The labels of one state that another one lacks.
pub(crate) fn lacking<'s>(
    of: Option<&'s NodeState>,
    other: Option<&'s NodeState>,
) -> impl Iterator<Item = LabelId> + 's {
    let labels = of.map_or(&[][..], |state| &state.labels[..]);
    let others = other.map_or(&[][..], |state| &state.labels[..]);
    labels
        .iter()
        .copied()
        .filter(|label| others.binary_search(label).is_err())
}

fn key_changes(old: Option<&NodeState>, new: Option<&NodeState>) -> Result<KeyChanges, DataError> {
    let key = |state: Option<&NodeState>| -> Result<Option<Vec<u8>>, DataError> {
        let key = state.and_then(|state| state.properties.get(KEY));
        key.map(encode_key).transpose()
    };
    let (before, after) = (key(old)?, key(new)?);
    // With another key, the entry of every label changes.
    let same = before == after;
    let changes = |of: Option<&NodeState>, other: Option<&NodeState>, key: Option<Vec<u8>>| {
        let (Some(state), Some(key)) = (of, key) else {
            return Vec::new();
        };
        if same {
            return lacking(of, other)
                .map(|label| (label, key.clone()))
                .collect();
        }
        match &state.labels[..] {
            [label] => vec![(*label, key)],
            labels => labels.iter().map(|label| (*label, key.clone())).collect(),
        }
    };
    Ok(KeyChanges {
        removed: changes(old, new, before),
        added: changes(new, old, after),
        passed: Vec::new(),
    })
}
