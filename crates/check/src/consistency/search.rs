//! Finding the cause of a difference: every source is checked for its pairs, every pair for its source.

use isomer_data::{DataError, IndexDef, RelRow};
use isomer_layout::{
    catalog::{rules::described, schema::RecordScope},
    graph::{
        rows::{self, row_of, take_adjacency},
        state::{EntryOwner, NodeState, RecordId},
    },
    keyspace::{
        self, TAG_ADJACENCY, TAG_KEY, TAG_LABEL, TAG_NODE, TAG_REL, entry_record, sole_id, take_id,
    },
};
use isomer_value::{LabelId, NodeId, RelId, record::RecordRef};

use super::{Check, node_state, rel_state, stored_keys};

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
        let lacks = |check: &mut Self, number: u64| {
            for (key, brief) in check.required(index, number)?.0 {
                if !check.has(&key)? {
                    let record = described(Some(record_in(index, number)), None);
                    check.find(format!("index {} lacks {record} under {brief}", index.name));
                }
            }
            Ok(())
        };
        match index.scope {
            RecordScope::Label(_) => self.each_node(|check, id, _| lacks(check, id.0))?,
            RecordScope::Type(_) => self.scan("relationships", &[TAG_REL], |check, key, _| {
                lacks(check, sole_id(&key[1..], "the key of a relationship")?)
            })?,
        }
        // A cache of the last record that was read: a record may have very many pairs.
        let mut last: Option<(u64, RequiredPairs)> = None;
        self.scan(
            "indexes",
            &keyspace::entries_of(index.id),
            |check, key, value| {
                let Ok(number) = entry_record(key, value) else {
                    check.find(format!("an entry of index {} is malformed", index.name));
                    return Ok(());
                };
                let (own, own_value) = match &mut last {
                    Some((of, own)) if *of == number => own,
                    last => &mut last.insert((number, check.required(index, number)?)).1,
                };
                let record = described(Some(record_in(index, number)), None);
                if own.binary_search_by(|(own, _)| own[..].cmp(key)).is_err() {
                    check.find(format!(
                        "index {} holds {record} under a value that it does not have",
                        index.name
                    ));
                } else if value != own_value {
                    check.find(format!(
                        "index {} holds {record} with ends that it does not have",
                        index.name
                    ));
                }
                Ok(())
            },
        )
    }

    /// The pairs that a record should have in an index; none if it does not exist or cannot be read.
    fn required(&self, index: &IndexDef, number: u64) -> Result<RequiredPairs, DataError> {
        let id = record_in(index, number);
        let Some(stored) = self.pairs().get(&id.record_key())? else {
            return Ok(RequiredPairs::default());
        };
        let (names, pairs) = (self.tx.names(), self.pairs());
        let read = match id {
            RecordId::Node(node) => node_state(&stored, names).and_then(|state| {
                let entries = pairs.required_entries(index, id, &state)?;
                Ok((EntryOwner::Node(node), entries))
            }),
            RecordId::Relationship(rel) => {
                rel_state(rel, &stored, names).and_then(|(row, state)| {
                    let entries = pairs.required_entries(index, id, &state)?;
                    Ok((EntryOwner::Relationship(row), entries))
                })
            }
        };
        // What cannot be read has been reported already.
        let Ok((owner, entries)) = read else {
            return Ok(RequiredPairs::default());
        };
        let mut keys: Vec<_> = entries
            .iter()
            .map(|entry| (entry.key(owner), entry.brief()))
            .collect();
        keys.sort_unstable();
        Ok((keys, owner.entry_value()))
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

/// The keys of the entries of a record, ascending, each with its values for a message; and the value of all of them.
type RequiredPairs = (Vec<(Vec<u8>, String)>, Vec<u8>);

/// The record with this id among those that an index is over.
fn record_in(index: &IndexDef, number: u64) -> RecordId {
    match index.scope {
        RecordScope::Label(_) => RecordId::Node(NodeId(number)),
        RecordScope::Type(_) => RecordId::Relationship(RelId(number)),
    }
}

fn row(id: RelId, value: &[u8]) -> Option<RelRow> {
    row_of(id, &RecordRef::new(value).ok()?).ok()
}
