//! Finding the cause of a difference: every source is checked for its pairs, every pair for its source.

use isomer_data::{DataError, IndexDef, RelRow};
use isomer_layout::{
    graph::{
        rows::{self, row_of, take_adjacency},
        state::NodeState,
    },
    keyspace::{
        self, TAG_ADJACENCY, TAG_KEY, TAG_LABEL, TAG_NODE, TAG_REL, entry_node, sole_id, take_id,
    },
};
use isomer_value::{LabelId, NodeId, RelId, record::RecordRef};

use super::{Check, node_state, stored_keys};

impl Check<'_> {
    pub(super) fn search_members(&mut self) -> Result<(), DataError> {
        self.each_node(|check, id, state| {
            for &label in &state.labels {
                if !check.has(&keyspace::member(label, id))? {
                    let label = check.label(label);
                    check.find(format!("node {id} has {label} but is not among its nodes"));
                }
            }
            Ok(())
        })?;
        self.scan("labels", &[TAG_LABEL], |check, key, _| {
            let mut rest = &key[1..];
            let entry = (|| Some((take_id(&mut rest)?, take_id(&mut rest)?)))();
            let Some((label, node)) = entry.filter(|_| rest.is_empty()) else {
                check.find("an entry of a label is malformed".into());
                return Ok(());
            };
            let (label, node) = (LabelId(label as u32), NodeId(node));
            if !check
                .node(node)?
                .is_some_and(|state| state.labels.contains(&label))
            {
                let label = check.label(label);
                check.find(format!(
                    "node {node} is among the nodes of {label} but does not have it"
                ));
            }
            Ok(())
        })
    }

    pub(super) fn search_keys(&mut self) -> Result<(), DataError> {
        self.each_node(|check, id, state| {
            for key in stored_keys(state).unwrap_or_default() {
                let found = check.pairs().get(&key)?;
                if found.map(|value| sole_id(&value, "")).and_then(Result::ok) != Some(id.0) {
                    check.find(format!("the _key of node {id} does not lead to it"));
                }
            }
            Ok(())
        })?;
        self.scan("keys", &[TAG_KEY], |check, key, value| {
            let Ok(node) = sole_id(value, "").map(NodeId) else {
                check.find("the node under a _key is malformed".into());
                return Ok(());
            };
            let holds = check.node(node)?.is_some_and(|state| {
                stored_keys(&state).is_ok_and(|keys| keys.iter().any(|own| own == key))
            });
            if !holds {
                check.find(format!(
                    "a _key leads to node {node}, which does not have it"
                ));
            }
            Ok(())
        })
    }

    pub(super) fn search_adjacency(&mut self) -> Result<(), DataError> {
        self.scan("relationships", &[TAG_REL], |check, key, value| {
            let id = RelId(sole_id(&key[1..], "the key of a relationship")?);
            let Some(row) = row(id, value) else {
                return Ok(());
            };
            for (outgoing, node, name) in
                [(true, row.source, "source"), (false, row.target, "target")]
            {
                if !check.has(&rows::adjacency(&row, outgoing))? {
                    check.find(format!(
                        "relationship {id} is not found from its {name}, node {node}"
                    ));
                }
            }
            Ok(())
        })?;
        self.scan("adjacency", &[TAG_ADJACENCY], |check, key, _| {
            let Ok((entry, outgoing)) = take_adjacency(key) else {
                check.find("an entry of an adjacency is malformed".into());
                return Ok(());
            };
            let stored = check.pairs().get(&keyspace::relationship(entry.id))?;
            if stored.and_then(|value| row(entry.id, &value)) != Some(entry) {
                let (node, other) = match outgoing {
                    true => (entry.source, entry.target),
                    false => (entry.target, entry.source),
                };
                check.find(format!(
                    "node {node} lists relationship {} to node {other}, which does not match its record",
                    entry.id
                ));
            }
            Ok(())
        })
    }

    pub(super) fn search_entries(&mut self, index: &IndexDef) -> Result<(), DataError> {
        self.each_node(|check, id, state| {
            let entries = check.pairs().required_entries(index, id, state);
            for entry in entries.unwrap_or_default() {
                if !check.has(&entry.key(id))? {
                    check.find(format!(
                        "index {} lacks node {id} under {}",
                        index.name,
                        entry.brief()
                    ));
                }
            }
            Ok(())
        })?;
        // A cache of the last node that was read: a node may have very many pairs.
        let mut last: Option<(NodeId, Vec<Vec<u8>>)> = None;
        self.scan(
            "indexes",
            &keyspace::entries_of(index.id),
            |check, key, value| {
                let Ok(node) = entry_node(key, value) else {
                    check.find(format!("an entry of index {} is malformed", index.name));
                    return Ok(());
                };
                let own = match &mut last {
                    Some((of, own)) if *of == node => own,
                    last => {
                        let state = check.node(node)?.unwrap_or_default();
                        let own = check.pairs().required_entries(index, node, &state);
                        let own = own.unwrap_or_default();
                        let mut own: Vec<_> = own.iter().map(|entry| entry.key(node)).collect();
                        own.sort_unstable();
                        &mut last.insert((node, own)).1
                    }
                };
                if own.binary_search_by(|own| own[..].cmp(key)).is_err() {
                    check.find(format!(
                        "index {} holds node {node} under a value that it does not have",
                        index.name
                    ));
                }
                Ok(())
            },
        )
    }

    fn each_node(
        &mut self,
        mut visit: impl FnMut(&mut Self, NodeId, &NodeState) -> Result<(), DataError>,
    ) -> Result<(), DataError> {
        self.scan("nodes", &[TAG_NODE], |check, key, value| {
            let id = NodeId(sole_id(&key[1..], "the key of a node")?);
            // An unreadable record has been reported already.
            match node_state(value, check.tx.names()) {
                Ok(state) => visit(check, id, &state),
                Err(_) => Ok(()),
            }
        })
    }

    fn node(&self, id: NodeId) -> Result<Option<NodeState>, DataError> {
        let stored = self.pairs().get(&keyspace::node(id))?;
        Ok(stored.and_then(|value| node_state(&value, self.tx.names()).ok()))
    }

    fn has(&self, key: &[u8]) -> Result<bool, DataError> {
        Ok(self.pairs().get(key)?.is_some())
    }

    fn label(&self, label: LabelId) -> String {
        match self.tx.names().label_name(label) {
            Some(name) => format!(":{name}"),
            None => format!("label number {label}"),
        }
    }
}

fn row(id: RelId, value: &[u8]) -> Option<RelRow> {
    row_of(id, &RecordRef::new(value).ok()?).ok()
}
