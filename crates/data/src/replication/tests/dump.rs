//! What is to be seen in a database, in words that are the same in every replica.

use isomer_value::{NodeId, RelId, record::RecordRef};

use super::naive::text;
use crate::{
    Access, Direction, GraphRead, KeyRange, Neighbours, Order, PageLimit, Store, Transaction,
    graph::row_of,
    keyspace::{self, TAG_NODE, TAG_REL, sole_id},
    read::each_pair,
};

fn spelled(tx: &Transaction, id: NodeId) -> String {
    let bytes = tx.spelled(id).expect("it has a name");
    bytes
        .iter()
        .map(|byte| std::ascii::escape_default(*byte).to_string())
        .collect()
}

/// Nodes, relationships with both sides of their adjacency, buckets; sorted.
pub(super) fn dump(store: &Store) -> Vec<String> {
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
    for (id, content) in nodes.iter().zip(contents) {
        let content = content.unwrap();
        let name = spelled(&tx, *id);
        lines.push(format!(
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
            catalog.type_name(row.type_id).unwrap(),
            spelled(&tx, row.target),
            shown(&content.properties)
        ));
    }
    for (name, options) in tx.list_buckets().unwrap() {
        let range = KeyRange {
            start: b"",
            end: None,
        };
        let limit = PageLimit {
            keys: usize::MAX,
            bytes: usize::MAX,
        };
        tx.kv_scan_values(
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
        for (sequence, last) in tx.sequences(&name).unwrap() {
            lines.push(format!("sequence {name} {sequence} {last}"));
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
pub(super) fn plain_lines(store: &Store) -> Vec<String> {
    let tx = store.begin(Access::Read).unwrap();
    let catalog = tx.names().clone();
    let mut lines = Vec::new();
    let plain = |record: &RecordRef<'_>| shown(&record.properties(&*catalog.names).unwrap());
    each_pair(tx.read(), &[TAG_NODE], |_, record| {
        let record = RecordRef::new(record)?;
        let mut labels: Vec<String> = record
            .labels()
            .map(|label| catalog.label_name(label).unwrap().to_string())
            .collect();
        labels.sort();
        lines.push(format!("node {labels:?} {}", plain(&record)));
        Ok(())
    })
    .unwrap();
    each_pair(tx.read(), &[TAG_REL], |_, record| {
        lines.push(format!("relationship {}", plain(&RecordRef::new(record)?)));
        Ok(())
    })
    .unwrap();
    for (name, _) in tx.list_buckets().unwrap() {
        let range = KeyRange {
            start: b"",
            end: None,
        };
        let limit = PageLimit {
            keys: usize::MAX,
            bytes: usize::MAX,
        };
        tx.kv_scan_values(
            &name,
            range,
            Order::Ascending,
            limit,
            None,
            &mut |key, value| {
                lines.push(format!("bucket {name} {} = {}", bytes(&key), bytes(&value)));
            },
        )
        .unwrap();
    }
    lines.sort();
    lines
}

fn bytes(value: &isomer_value::Value) -> String {
    match value {
        isomer_value::Value::String(text) => text.escape_debug().to_string(),
        isomer_value::Value::Bytes(bytes) => text(bytes),
        other => format!("{other:?}"),
    }
}
