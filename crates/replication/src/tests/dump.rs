//! The visible content of a database, as text that is the same in every replica.

use std::{collections::BTreeSet, sync::Arc};

use isomer_data::{
    Access, DataStore, Direction, GraphRead, KeyRange, Neighbours, Order, PageLimit, Transaction,
};
use isomer_layout::{
    graph::rows::row_of,
    keyspace::{self, TAG_NODE, TAG_REL, sole_id},
    pairs::each_pair,
};
use isomer_value::{NodeId, RelId, record::RecordRef};

use super::naive::text;
use crate::conflicts;

fn spelled(tx: &Transaction, id: NodeId) -> String {
    let bytes = conflicts::spelled(tx, id).expect("it has a name");
    bytes
        .iter()
        .map(|byte| std::ascii::escape_default(*byte).to_string())
        .collect()
}

/// What the histories keep outside the space that is replicated: nodes with the label Outside, relationships of them
/// and those of the type OUTSIDE, buckets whose names begin with `outside`.
fn is_outside_node(labels: &[Arc<str>]) -> bool {
    labels.iter().any(|label| **label == *"Outside")
}

fn is_outside_bucket(name: &str) -> bool {
    name.starts_with("outside")
}

/// The content outside the space.
pub(super) struct OutsideContent {
    nodes: BTreeSet<NodeId>,
    lines: Vec<String>,
    rels: Vec<(RelId, NodeId, NodeId, String)>,
}

impl OutsideContent {
    /// Whether merging changed nothing of it, except for relationships of deleted ends.
    pub(super) fn is_left_alone(&self, after: &Self) {
        assert_eq!(
            self.lines, after.lines,
            "the content outside the space changed"
        );
        let stays = |rel: &&(RelId, NodeId, NodeId, String)| {
            after.nodes.contains(&rel.1) && after.nodes.contains(&rel.2)
        };
        let left: Vec<_> = self.rels.iter().filter(stays).cloned().collect();
        assert_eq!(left, after.rels, "relationships outside the space");
    }
}

pub(super) fn outside(store: &DataStore) -> OutsideContent {
    // Also while a state is being merged.
    let tx = Transaction::begin(store.clone(), Access::Read).unwrap();
    let catalog = tx.names().clone();
    let mut ids = Vec::new();
    each_pair(tx.read(), &[TAG_NODE], |key, _| {
        ids.push(NodeId(sole_id(&key[1..], "node")?));
        Ok(())
    })
    .unwrap();
    let mut contents = Vec::new();
    tx.node_contents(&ids, &mut contents).unwrap();
    let (mut own, mut lines) = (BTreeSet::new(), Vec::new());
    for (id, content) in ids.iter().zip(contents) {
        let content = content.unwrap();
        if is_outside_node(&content.labels) {
            own.insert(*id);
            lines.push(format!(
                "{id} {:?} {}",
                content.labels,
                shown(&content.properties)
            ));
        }
    }
    let mut rels = Vec::new();
    each_pair(tx.read(), &[TAG_REL], |key, record| {
        let id = RelId(sole_id(&key[1..], "relationship")?);
        let row = row_of(id, &RecordRef::new(record)?)?;
        let name = catalog.type_name(row.type_id).unwrap().to_string();
        if name == "OUTSIDE" || own.contains(&row.source) || own.contains(&row.target) {
            rels.push((id, row.source, row.target, name));
        }
        Ok(())
    })
    .unwrap();
    for tag in [0x20, 0x21, 0x22, 0x25] {
        each_pair(tx.read(), &[tag], |key, value| {
            let bucket = keyspace::take_id(&mut &key[1..]).unwrap();
            if is_outside_bucket(&catalog.bucket_name(bucket as u32).unwrap()) {
                lines.push(format!("{key:?} = {value:?}"));
            }
            Ok(())
        })
        .unwrap();
    }
    OutsideContent {
        nodes: ids.into_iter().collect(),
        lines,
        rels,
    }
}

/// Nodes, relationships with both sides of their adjacency, buckets; sorted.
pub(super) fn dump(store: &DataStore) -> Vec<String> {
    let tx = store.begin(Access::Read).unwrap();
    let mut lines = Vec::new();
    let catalog = tx.names().clone();
    let mut nodes = Vec::new();
    each_pair(tx.read(), &[TAG_NODE], |key, _| {
        nodes.push(NodeId(sole_id(&key[1..], "node")?));
        Ok(())
    })
    .unwrap();
    let mut contents = Vec::new();
    tx.node_contents(&nodes, &mut contents).unwrap();
    let mut linked = [0_usize; 2];
    let mut own = BTreeSet::new();
    for (id, content) in nodes.iter().zip(contents) {
        let content = content.unwrap();
        let is_outside = is_outside_node(&content.labels);
        if is_outside {
            own.insert(*id);
        }
        let name = spelled(&tx, *id);
        let mut entry = Vec::new();
        entry.push(format!(
            "node {name} {:?} {}",
            content.labels,
            shown(&content.properties)
        ));
        for (at, direction) in [Direction::Outgoing, Direction::Incoming]
            .into_iter()
            .enumerate()
        {
            let mut found = Neighbours::new();
            tx.expand(&[*id], direction, &[], &mut found).unwrap();
            linked[at] += found.rows().len();
        }
        if !is_outside {
            lines.append(&mut entry);
        }
    }
    let mut rels = Vec::new();
    each_pair(tx.read(), &[TAG_REL], |key, record| {
        let id = RelId(sole_id(&key[1..], "relationship")?);
        rels.push((id, row_of(id, &RecordRef::new(record)?)?));
        Ok(())
    })
    .unwrap();
    assert_eq!(
        linked,
        [rels.len(); 2],
        "each relationship is found from both ends"
    );
    for (id, row) in rels {
        let type_name = catalog.type_name(row.type_id).unwrap();
        if *type_name == *"OUTSIDE" || own.contains(&row.source) || own.contains(&row.target) {
            continue;
        }
        let mut contents = Vec::new();
        tx.relationship_contents(&[id], &mut contents).unwrap();
        let content = contents.pop().flatten().unwrap();
        for end in [row.source, row.target] {
            assert!(
                tx.read().get(&keyspace::node(end)).unwrap().is_some(),
                "an end is missing"
            );
        }
        lines.push(format!(
            "relationship {} -{}-> {} {}",
            spelled(&tx, row.source),
            type_name,
            spelled(&tx, row.target),
            shown(&content.properties)
        ));
    }
    for (name, options) in shared_buckets(&tx) {
        let range = KeyRange {
            start: b"",
            end: None,
        };
        let limit = PageLimit {
            keys: usize::MAX,
            bytes: usize::MAX,
        };
        tx.kv()
            .scan_values(
                &name,
                range,
                Order::Ascending,
                limit,
                None,
                &mut |key, value| {
                    lines.push(format!(
                        "bucket {name} {:?} {key:?} = {value:?}",
                        options.kind
                    ));
                },
            )
            .unwrap();
        for (sequence, last) in tx.kv().sequences(&name).unwrap() {
            lines.push(format!("sequence {name} {sequence} {last}"));
        }
    }
    lines.extend(hidden_lines(&tx));
    lines.extend(super::files::known(&tx));
    for conflict in conflicts::conflicts(&tx).unwrap() {
        // The ids of records are local to each replica.
        if matches!(
            conflict.kind,
            isomer_data::ConflictKind::Bucket | isomer_data::ConflictKind::File
        ) {
            lines.push(format!("{conflict:?}"));
        }
    }
    lines.sort();
    lines
}

fn shown(properties: &isomer_value::Map) -> String {
    let mut pairs: Vec<String> = properties
        .iter()
        .map(|(name, value)| format!("{name}: {value:?}"))
        .collect();
    pairs.sort();
    pairs.join(", ")
}

/// Nodes, relationships and buckets without convergent fields and the names of nodes; sorted.
pub(super) fn plain_lines(store: &DataStore) -> Vec<String> {
    let tx = store.begin(Access::Read).unwrap();
    let catalog = tx.names().clone();
    let mut lines = Vec::new();
    let plain = |record: &RecordRef<'_>| shown(&record.properties(&*catalog.names).unwrap());
    let mut own = BTreeSet::new();
    each_pair(tx.read(), &[TAG_NODE], |key, record| {
        let record = RecordRef::new(record)?;
        let mut labels: Vec<String> = record
            .labels()
            .map(|label| catalog.label_name(label).unwrap().to_string())
            .collect();
        labels.sort();
        if labels.iter().any(|label| label == "Outside") {
            own.insert(NodeId(sole_id(&key[1..], "node")?));
            return Ok(());
        }
        lines.push(format!("node {labels:?} {}", plain(&record)));
        Ok(())
    })
    .unwrap();
    each_pair(tx.read(), &[TAG_REL], |key, record| {
        let id = RelId(sole_id(&key[1..], "relationship")?);
        let row = row_of(id, &RecordRef::new(record)?)?;
        let type_name = catalog.type_name(row.type_id).unwrap();
        if *type_name == *"OUTSIDE" || own.contains(&row.source) || own.contains(&row.target) {
            return Ok(());
        }
        lines.push(format!("relationship {}", plain(&RecordRef::new(record)?)));
        Ok(())
    })
    .unwrap();
    for (name, options) in shared_buckets(&tx) {
        let reversible = if options.reversible {
            " reversible"
        } else {
            ""
        };
        lines.push(format!("bucket {name} is {:?}{reversible}", options.kind));
        for (sequence, last) in tx.kv().sequences(&name).unwrap() {
            lines.push(format!("sequence {name} {sequence} {last}"));
        }
    }
    lines.extend(entry_lines(&tx));
    lines.sort();
    lines
}

fn shared_buckets(tx: &Transaction) -> Vec<(Arc<str>, isomer_data::BucketOptions)> {
    let mut all = tx.kv().list_buckets().unwrap();
    all.retain(|(name, _)| !is_outside_bucket(name));
    all
}

/// Values of keys in buckets that are read as maps.
fn hidden_lines(tx: &Transaction) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, options) in tx.kv().list_buckets().unwrap() {
        let id = tx.names().bucket_id(&name).unwrap();
        if options.kind == isomer_data::BucketKind::Map {
            let prefix = keyspace::bucket_pairs(id);
            each_pair(tx.read(), &prefix, |key, _| {
                lines.push(format!("hidden in {name}: {}", text(&key[prefix.len()..])));
                Ok(())
            })
            .unwrap();
        }
    }
    lines
}

/// The content of buckets, also where another kind is read.
fn entry_lines(tx: &Transaction) -> Vec<String> {
    let catalog = tx.names();
    let mut lines = Vec::new();
    let name = |rest: &mut &[u8]| {
        let id = keyspace::take_id(rest).unwrap();
        catalog.bucket_name(id as u32).unwrap()
    };
    each_pair(tx.read(), &[keyspace::TAG_BUCKET_ENTRY], |key, stored| {
        let mut rest = &key[1..];
        let name = name(&mut rest);
        let (.., value) = isomer_layout::kv::content::entry_parts(stored)?;
        if is_outside_bucket(&name) {
            return Ok(());
        }
        lines.push(format!("bucket {name} {} = {}", text(rest), text(value)));
        Ok(())
    })
    .unwrap();
    each_pair(tx.read(), &[keyspace::TAG_BUCKET_PAIR], |key, _| {
        let mut rest = &key[1..];
        let name = name(&mut rest);
        let key = keyspace::take_terminated(&mut rest).unwrap();
        lines.push(format!("bucket {name} {} = {}", text(&key), text(rest)));
        Ok(())
    })
    .unwrap();
    lines
}
