//! Writing nodes. Every change of a node is a step from an old state to a new one, and goes through one function,
//! which keeps the record, label membership, keys, index entries, constraints, counts and the change stream together.

use isomer_value::{
    LabelId, Map, NodeId, PropId, RelId, Value, key,
    record::{RecordBuilder, RecordRef, encode_value},
};

use crate::{
    ConvergentOwner, DataError, Direction, Neighbours, Transaction,
    footprint::{NONE, Space},
    index::{Entry, EntryChanges},
    keyspace::{self, push_id, sole_id},
    properties::set_path,
    store::PropNames,
    stream::{Change, Counted},
};

/// The property that holds a record's key in its labels.
pub(crate) const KEY: &str = "_key";
/// Longest text of a `_key` in bytes.
pub(crate) const MAX_KEY_TEXT: usize = 2048;

/// Labels (ascending, distinct) and properties of a node.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeState {
    pub(crate) labels: Vec<LabelId>,
    pub(crate) properties: Map,
}

/// Keys of a node in its labels that appear or disappear.
#[derive(Default)]
pub(crate) struct KeyChanges {
    pub(crate) removed: Vec<(LabelId, Vec<u8>)>,
    pub(crate) added: Vec<(LabelId, Vec<u8>)>,
    /// Keys that another node is found by from now on.
    pub(crate) passed: Vec<(LabelId, Vec<u8>, NodeId)>,
}

impl Transaction {
    /// Creates a node. `_key` among `properties` must be a string or an integer, new in each of the labels. Nulls are
    /// left out.
    pub fn create_node(
        &mut self,
        labels: &[LabelId],
        properties: &Map,
    ) -> Result<NodeId, DataError> {
        self.check_writable()?;
        let owner = labels.first().map_or(NONE, |label| label.0);
        let mut sorted = labels.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        let new = NodeState {
            labels: sorted,
            properties: without_nulls(properties),
        };
        let id = NodeId(
            self.store()
                .shared()
                .nodes
                .allocate(&**self.store().engine(), owner)?,
        );
        self.step(id, None, Some(&new))?;
        Ok(id)
    }

    /// Sets the property at `path` (one name, or names through nested maps, which are made where absent); `Null` removes
    /// it.
    ///
    /// # Errors
    /// [`DataError::NotFound`] where there is no such node, [`DataError::Invalid`] where a step of the path is no map.
    pub fn set_node_property(
        &mut self,
        id: NodeId,
        path: &[&str],
        value: Value,
    ) -> Result<(), DataError> {
        if self.divert(ConvergentOwner::Node(id), path, &value)? {
            return Ok(());
        }
        self.update_node(id, |state| set_path(&mut state.properties, path, value))
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
        })
    }

    /// Sets the properties given, removes those given as `Null`, keeps the others.
    pub fn merge_node_properties(&mut self, id: NodeId, properties: &Map) -> Result<(), DataError> {
        for (name, _) in properties.iter().filter(|(_, value)| value.is_null()) {
            self.divert(ConvergentOwner::Node(id), &[name], &Value::Null)?;
        }
        self.update_node(id, |state| {
            merge_top(&mut state.properties, properties);
            Ok(())
        })
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

    /// Removes a label; returns whether it was there.
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

    /// Deletes a node; with relationships it is refused ([`DataError::StillConnected`]) unless `detach`, which deletes
    /// them too. Returns the relationships that were deleted with it. A node that does not exist (any more) is no error.
    pub fn delete_node(&mut self, id: NodeId, detach: bool) -> Result<Vec<RelId>, DataError> {
        self.delete_node_while(id, detach, &mut || true)
    }

    /// As [`Transaction::delete_node`], asking before each relationship whether to go on; [`DataError::Cancelled`] where
    /// not: some are deleted then, undo it with a mark.
    pub fn delete_node_while(
        &mut self,
        id: NodeId,
        detach: bool,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<RelId>, DataError> {
        self.check_writable()?;
        let Some(old) = self.load_node(id)? else {
            return Ok(Vec::new());
        };
        let mut found = Neighbours::new();
        self.expand_rows(&[id], Direction::Both, &[], &mut found)?;
        if !detach && !found.rows().is_empty() {
            return Err(DataError::StillConnected { node: id.0 });
        }
        let rels: Vec<RelId> = found.rows().iter().map(|row| row.id).collect();
        for &rel in &rels {
            if !go_on() {
                return Err(DataError::Cancelled);
            }
            self.delete_relationship(rel)?;
        }
        self.step(id, Some(&old), None)?;
        self.drop_fields(ConvergentOwner::Node(id))?;
        Ok(rels)
    }

    pub(crate) fn update_node(
        &mut self,
        id: NodeId,
        change: impl FnOnce(&mut NodeState) -> Result<(), DataError>,
    ) -> Result<(), DataError> {
        self.check_writable()?;
        let old = self.load_node(id)?.ok_or_else(|| {
            DataError::NotFound(format!(
                "node {id} does not exist, or was deleted in this transaction"
            ))
        })?;
        let mut new = old.clone();
        change(&mut new)?;
        self.leave_fields(
            ConvergentOwner::Node(id),
            &old.properties,
            &mut new.properties,
        )?;
        self.step(id, Some(&old), Some(&new))
    }

    /// Labels and properties, observed.
    pub(crate) fn load_node(&self, id: NodeId) -> Result<Option<NodeState>, DataError> {
        let Some(bytes) = self.read().get(&keyspace::node(id))? else {
            self.footprint().read_absent_node();
            return Ok(None);
        };
        let record = RecordRef::new(&bytes)?;
        let labels: Vec<LabelId> = record.labels().collect();
        self.footprint().read_node(id, labels.first().copied());
        Ok(Some(NodeState {
            labels,
            properties: record.properties(&*self.catalog_ref().names)?,
        }))
    }

    pub(crate) fn find_key(
        &self,
        label: LabelId,
        key: &Value,
    ) -> Result<Option<NodeId>, DataError> {
        // A whole float equals the integer; any other value that can be no key equals none.
        let whole = match key {
            Value::Float(float) => whole_int(*float).map(Value::Int),
            _ => None,
        };
        let Ok(encoded) = encode_key(whole.as_ref().unwrap_or(key)) else {
            return Ok(None);
        };
        self.footprint().read_key(Space::Keys(label.0), &encoded);
        let mut stored = keyspace::keys_of(label);
        stored.extend_from_slice(&encoded);
        match self.read().get(&stored)? {
            Some(value) => Ok(Some(NodeId(sole_id(&value, "the node under a key")?))),
            None => Ok(None),
        }
    }

    /// From `old` (absent: the node is created) to `new` (absent: it is deleted). Refuses before it writes anything.
    pub(crate) fn step(
        &mut self,
        id: NodeId,
        old: Option<&NodeState>,
        new: Option<&NodeState>,
    ) -> Result<(), DataError> {
        self.check_writable()?;
        let same = |old: &NodeState, new: &NodeState| {
            old.labels == new.labels && old.properties == new.properties
        };
        if let (Some(old), Some(new)) = (old, new)
            && same(old, new)
        {
            return Ok(());
        }
        let record = new.map(|new| self.encode_node(new)).transpose()?;
        let keys = key_changes(old, new)?;
        let entries = EntryChanges::between(&self.catalog_ref().schema, old, new)?;
        let keys = if self.is_merging() {
            self.note_refused(id, new, &entries)?;
            self.share_keys(id, keys)?
        } else {
            if let Some(new) = new {
                self.catalog_ref().schema.check(self.catalog_ref(), new)?;
            }
            self.check_keys_free(&keys)?;
            self.check_entries_free(id, &entries)?;
            if let Some(old) = old {
                self.note_identity(id, old)?;
            }
            self.leave_keys(id, keys)?
        };
        let logged = self.log_entry(id, old, new, record.as_deref())?;

        if new.is_none() {
            self.ends_mut().remove(&id);
        }
        self.note_step(id, old, new);
        match &record {
            Some(record) => self.put(&keyspace::node(id), record)?,
            None => self.delete(&keyspace::node(id))?,
        }
        self.move_labels(id, old, new)?;
        self.move_keys(id, &keys)?;
        self.move_entries(id, &entries)?;
        logged.log(self);
        Ok(())
    }

    fn encode_node(&self, state: &NodeState) -> Result<Vec<u8>, DataError> {
        let mut names = PropNames::new(self.store());
        let mut builder = RecordBuilder::node(&state.labels);
        match builder.put_all(&state.properties, &mut names) {
            Ok(()) => Ok(builder.finish()?),
            Err(error) => Err(names.explain(error)),
        }
    }

    fn check_keys_free(&self, keys: &KeyChanges) -> Result<(), DataError> {
        for (label, key) in &keys.added {
            let mut stored = keyspace::keys_of(*label);
            stored.extend_from_slice(key);
            self.footprint().read_key(Space::Keys(label.0), key);
            if self.read().get(&stored)?.is_some() {
                let label = self.catalog_ref().label_name(*label).unwrap_or_default();
                return Err(DataError::KeyExists {
                    label: label.to_string(),
                    key: crate::properties::brief(&key::decode(key)?),
                });
            }
        }
        Ok(())
    }

    fn note_step(&mut self, id: NodeId, old: Option<&NodeState>, new: Option<&NodeState>) {
        self.dirty_mut().node(id);
        let footprint = self.footprint_mut();
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
            self.changed_mut().node(&new.labels, moved);
        }
        let change = i64::from(new.is_some()) - i64::from(old.is_some());
        self.deltas_mut().add(Counted::Nodes, change);
    }

    fn move_labels(
        &mut self,
        id: NodeId,
        old: Option<&NodeState>,
        new: Option<&NodeState>,
    ) -> Result<(), DataError> {
        let (removed, added) = label_changes(old, new);
        for &label in removed.iter().chain(&added) {
            self.dirty_mut().label(label);
        }
        for label in removed {
            self.footprint_mut().change_member(label);
            self.deltas_mut().add(Counted::Label(label), -1);
            self.delete(&keyspace::member(label, id))?;
        }
        for label in added {
            self.footprint_mut().change_member(label);
            self.deltas_mut().add(Counted::Label(label), 1);
            self.put(&keyspace::member(label, id), b"")?;
        }
        Ok(())
    }

    fn move_keys(&mut self, id: NodeId, keys: &KeyChanges) -> Result<(), DataError> {
        for (label, key) in &keys.removed {
            self.footprint_mut()
                .change_key(Space::Keys(label.0), key, true);
            let mut stored = keyspace::keys_of(*label);
            stored.extend_from_slice(key);
            self.delete(&stored)?;
        }
        let added = keys.added.iter().map(|(label, key)| (label, key, id));
        let passed = keys.passed.iter().map(|(label, key, to)| (label, key, *to));
        for (label, key, id) in added.chain(passed) {
            self.footprint_mut()
                .change_key(Space::Keys(label.0), key, true);
            let mut stored = keyspace::keys_of(*label);
            stored.extend_from_slice(key);
            let mut value = Vec::new();
            push_id(&mut value, id.0);
            self.put(&stored, &value)?;
        }
        Ok(())
    }

    fn move_entries(&mut self, id: NodeId, entries: &EntryChanges) -> Result<(), DataError> {
        let note = |tx: &mut Self, entry: &Entry| {
            tx.footprint_mut().change_entry(
                Space::Index(entry.index.0),
                &entry.values,
                &entry.ends,
            );
        };
        for entry in &entries.removed {
            note(self, entry);
            self.delete(&entry.key(id))?;
        }
        for entry in &entries.added {
            note(self, entry);
            self.put(&entry.key(id), &Entry::value(id))?;
        }
        Ok(())
    }

    /// What the change stream will say, made before anything is written as it may still be refused.
    fn log_entry(
        &self,
        id: NodeId,
        old: Option<&NodeState>,
        new: Option<&NodeState>,
        record: Option<&[u8]>,
    ) -> Result<Logged, DataError> {
        let mut bytes = Vec::new();
        match (old, new, record) {
            (None, _, Some(record)) => Change::NodeCreated { id, record }.push(&mut bytes),
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
                .push(&mut bytes);
            }
            (Some(before), Some(after), _) => {
                let (labels_removed, labels_added) = label_changes(old, new);
                let difference = self.property_changes(&before.properties, &after.properties)?;
                let (set, removed) = difference.parts();
                Change::NodeChanged {
                    id,
                    labels_added,
                    labels_removed,
                    set,
                    removed,
                }
                .push(&mut bytes);
            }
            _ => {}
        }
        Ok(Logged(bytes))
    }

    /// How two maps of properties differ at their top.
    pub(super) fn property_changes(
        &self,
        old: &Map,
        new: &Map,
    ) -> Result<PropertyChanges, DataError> {
        let mut names = PropNames::new(self.store());
        let mut changes = PropertyChanges::default();
        for (name, value) in new.iter() {
            if old.get(name) != Some(value) {
                let start = changes.bytes.len();
                if let Err(error) = encode_value(value, &mut names, &mut changes.bytes) {
                    return Err(names.explain(error));
                }
                changes
                    .set
                    .push((self.intern_prop(name)?, start..changes.bytes.len()));
            }
        }
        for name in old.names() {
            if !new.contains(name) {
                changes.removed.push(self.intern_prop(name)?);
            }
        }
        Ok(changes)
    }
}

/// An operation in its bytes.
struct Logged(Vec<u8>);

impl Logged {
    fn log(self, tx: &mut Transaction) {
        tx.log_bytes(&self.0);
    }
}

/// Properties set, with their encoded values, and removed.
#[derive(Default)]
pub(super) struct PropertyChanges {
    bytes: Vec<u8>,
    set: Vec<(PropId, std::ops::Range<usize>)>,
    removed: Vec<PropId>,
}

impl PropertyChanges {
    pub(super) fn parts(&self) -> (Vec<(PropId, &[u8])>, Vec<PropId>) {
        let set = self
            .set
            .iter()
            .map(|(prop, range)| (*prop, &self.bytes[range.clone()]))
            .collect();
        (set, self.removed.clone())
    }
}

/// Labels removed and labels added.
fn label_changes(old: Option<&NodeState>, new: Option<&NodeState>) -> (Vec<LabelId>, Vec<LabelId>) {
    let labels = |state: Option<&NodeState>| state.map_or(Vec::new(), |state| state.labels.clone());
    let (before, after) = (labels(old), labels(new));
    let lacks = |labels: &[LabelId], label: &LabelId| labels.binary_search(label).is_err();
    let removed = before
        .iter()
        .copied()
        .filter(|label| lacks(&after, label))
        .collect();
    let added = after
        .iter()
        .copied()
        .filter(|label| lacks(&before, label))
        .collect();
    (removed, added)
}

fn key_changes(old: Option<&NodeState>, new: Option<&NodeState>) -> Result<KeyChanges, DataError> {
    let keys = |state: Option<&NodeState>| -> Result<Vec<(LabelId, Vec<u8>)>, DataError> {
        let Some(state) = state else {
            return Ok(Vec::new());
        };
        let Some(key) = state.properties.get(KEY) else {
            return Ok(Vec::new());
        };
        let key = encode_key(key)?;
        Ok(state
            .labels
            .iter()
            .map(|label| (*label, key.clone()))
            .collect())
    };
    let (before, after) = (keys(old)?, keys(new)?);
    let removed = before
        .iter()
        .filter(|key| !after.contains(key))
        .cloned()
        .collect();
    let added = after
        .into_iter()
        .filter(|key| !before.contains(key))
        .collect();
    Ok(KeyChanges {
        removed,
        added,
        passed: Vec::new(),
    })
}

/// The encoded form of a `_key`.
pub(crate) fn encode_key(key: &Value) -> Result<Vec<u8>, DataError> {
    match key {
        Value::Int(_) => {}
        Value::String(text) if text.is_empty() => {
            return Err(DataError::invalid(
                "_key is the empty string: give at least one character",
            ));
        }
        Value::String(text) if text.len() > MAX_KEY_TEXT => {
            return Err(DataError::Limit {
                what: "_key".into(),
                size: format!("{} bytes", text.len()),
                max: format!("{MAX_KEY_TEXT} bytes"),
                advice: "use a shorter key, or a hash of it",
            });
        }
        Value::String(_) => {}
        other => {
            return Err(DataError::invalid(format!(
                "_key is a {}: it must be a string or an integer",
                other.type_name()
            )));
        }
    }
    Ok(key::encode(key)?)
}

/// The integer that a float equals exactly.
fn whole_int(float: f64) -> Option<i64> {
    let int = float as i64; // saturates, and is 0 for NaN
    (float.fract() == 0.0 && int as f64 == float && int != i64::MAX).then_some(int)
}

/// Top-level nulls mean absence.
pub(crate) fn without_nulls(properties: &Map) -> Map {
    if properties.values().any(Value::is_null) {
        properties
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    } else {
        properties.clone()
    }
}

/// Sets what `changes` names, removes what it names as null.
pub(crate) fn merge_top(properties: &mut Map, changes: &Map) {
    for (name, value) in changes.iter() {
        if value.is_null() {
            properties.remove(name);
        } else {
            properties.insert(name.clone(), value.clone());
        }
    }
}
