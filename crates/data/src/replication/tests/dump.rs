//! What is to be seen in a database, in words that are the same in every replica.

use isomer_value::{NodeId, RelId, record::RecordRef};

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
