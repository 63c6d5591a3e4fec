//! A sound database has no finding, and each kind of damage has its own.

use std::sync::Arc;

use isomer_storage::{Durability, Engine, MemoryEngine};
use isomer_value::{IndexId, LabelId, Map, NodeId, RelId, TypeId, Value};

use super::*;
use crate::{FieldPath, IndexField, IndexSpec, SchemaChange, StoreOptions, counts};

/// Ada (node 0) and Bob (node 1), who know each other, an index over their ages, and a bucket's worth of nothing.
fn sound() -> Store {
    let store = Store::open(Arc::new(MemoryEngine::new()), StoreOptions::default()).unwrap();
    let field = IndexField {
        path: FieldPath::top("age"),
        each: false,
    };
    let spec = IndexSpec {
        name: Some("age".into()),
        label: "P".into(),
        fields: vec![field],
        unique: false,
    };
    store
        .change_schema(SchemaChange::CreateIndex {
            spec,
            if_not_exists: false,
        })
        .unwrap();
    let mut tx = store.begin(Access::Write).unwrap();
    let person = |key: &str, age: i64| -> Map {
        [
            ("_key", Value::String(key.into())),
            ("age", Value::Int(age)),
        ]
        .into_iter()
        .collect()
    };
    tx.insert_document("P", &person("ada", 36)).unwrap();
    tx.insert_document("P", &person("bob", 40)).unwrap();
    let knows = tx.intern_type("KNOWS").unwrap();
    tx.create_relationship(knows, NodeId(0), NodeId(1), &Map::new())
        .unwrap();
    tx.create_relationship(knows, NodeId(1), NodeId(1), &Map::new())
        .unwrap();
    tx.commit().unwrap();
    store
}

fn findings(store: &Store) -> Vec<String> {
    store.check(&mut |_, _| Verdict::Continue).unwrap()
}

/// What is found after `change` went past everything that keeps structures together.
#[track_caller]
fn damaged(change: impl FnOnce(&mut dyn isomer_storage::Transaction), expected: &[&str]) {
    let store = sound();
    let mut tx = store.engine().begin().unwrap();
    change(&mut *tx);
    tx.commit(Durability::Synced).unwrap();
    let found = findings(&store);
    for expected in expected {
        assert!(
            found.iter().any(|finding| finding.contains(expected)),
            "`{expected}` is not in {found:#?}"
        );
    }
    assert_eq!(found.len(), expected.len(), "{found:#?}");
}

#[test]
fn a_sound_database_has_no_finding() {
    assert_eq!(findings(&sound()), Vec::<String>::new());
}

#[test]
fn missing_pairs_are_found() {
    damaged(
        |tx| tx.delete(&keyspace::member(LabelId(0), NodeId(0))).unwrap(),
        &["node 0 carries :P and is not among its nodes"],
    );
    let key = [
        keyspace::keys_of(LabelId(0)),
        encode_key(&Value::String("ada".into())).unwrap(),
    ]
    .concat();
    damaged(
        |tx| tx.delete(&key).unwrap(),
        &["the _key of node 0 does not lead to it"],
    );
    let link = |side| {
        let (node, other) = if side == Side::Out {
            (NodeId(0), NodeId(1))
        } else {
            (NodeId(1), NodeId(0))
        };
        keyspace::adjacency(node, side, TypeId(0), other, RelId(0))
    };
    damaged(
        |tx| tx.delete(&link(Side::Out)).unwrap(),
        &["relationship 0 is not found from its source, node 0"],
    );
    damaged(
        |tx| tx.delete(&link(Side::In)).unwrap(),
        &["relationship 0 is not found from its target, node 1"],
    );
    let entries = keyspace::entries_of(IndexId(0));
    let end = after_prefix(&entries);
    damaged(
        |tx| {
            tx.delete_range(isomer_storage::KeyRange {
                start: &entries,
                end: end.as_deref(),
            })
            .unwrap()
        },
        &[
            "index age lacks node 0 under 36",
            "index age lacks node 1 under 40",
        ],
    );
}

#[test]
fn pairs_without_a_source_are_found() {
    damaged(
        |tx| {
            tx.put(&keyspace::member(LabelId(0), NodeId(9)), b"")
                .unwrap()
        },
        &["node 9 is among the nodes of :P"],
    );
    let key = [
        keyspace::keys_of(LabelId(0)),
        encode_key(&Value::Int(7)).unwrap(),
    ]
    .concat();
    damaged(
        |tx| tx.put(&key, &[1]).unwrap(),
        &["a _key leads to node 1, which does not have it"],
    );
    let link = keyspace::adjacency(NodeId(0), Side::Out, TypeId(0), NodeId(0), RelId(0));
    damaged(
        |tx| tx.put(&link, b"").unwrap(),
        &["node 0 lists relationship 0 to node 0, which is not so"],
    );
    let mut entry = keyspace::entries_of(IndexId(0));
    entry.extend(isomer_value::key::encode(&Value::Int(99)).unwrap());
    push_id(&mut entry, 1);
    damaged(
        |tx| tx.put(&entry, &[1]).unwrap(),
        &["index age holds node 1 under a value that it does not have"],
    );
}

#[test]
fn bad_records_and_ids_are_found() {
    damaged(
        |tx| tx.put(&keyspace::node(NodeId(0)), b"\xff").unwrap(),
        &[
            "the record of node 0 cannot be read",
            "node 0 is among the nodes of :P and does not carry it",
            "a _key leads to node 0, which does not have it",
            "index age holds node 0",
            "2 nodes :P are counted, 1 are there",
        ],
    );
    damaged(
        |tx| tx.delete(&keyspace::relationship(RelId(1))).unwrap(),
        &[
            "node 1 lists relationship 1 to node 1",
            "node 1 lists relationship 1 to node 1",
            "2 relationships are counted, 1 are there",
            "2 relationships :KNOWS are counted, 1 are there",
        ],
    );
    damaged(
        |tx| tx.delete(&keyspace::reserved(IdSpace::Nodes)).unwrap(),
        &[
            "node 0 has an id that was never reserved",
            "node 1 has an id that was never reserved",
        ],
    );
}

#[test]
fn a_check_can_be_stopped() {
    let store = sound();
    let mut tx = store.begin(Access::Write).unwrap();
    let label = tx.intern_label("Q").unwrap();
    for _ in 0..9000 {
        tx.create_node(&[label], &Map::new()).unwrap();
    }
    tx.commit().unwrap();
    assert!(matches!(
        store.check(&mut |_, _| Verdict::Stop),
        Err(DataError::Cancelled)
    ));
}

/// The numbers that were stored lead, with the change stream after them, to those of now.
#[test]
fn counts_survive_saving_trimming_and_reopening() {
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
    let options = StoreOptions {
        stream_retention: 5,
        ..StoreOptions::default()
    };
    let store = Store::open(engine.clone(), options.clone()).unwrap();
    for number in 0..counts::COMMITS_BETWEEN_SAVES + 50 {
        let mut tx = store.begin(Access::Write).unwrap();
        tx.insert_document(
            "P",
            &[("n", Value::Int(number as i64))].into_iter().collect(),
        )
        .unwrap();
        tx.commit().unwrap();
    }
    assert!(engine.statistics().unwrap().stream_entries < 200);
    let reopened = Store::open(engine, options).unwrap();
    let tx = reopened.begin(Access::Read).unwrap();
    use crate::GraphRead;
    assert_eq!(
        tx.exact_node_count(tx.catalog().label_id("P")).unwrap(),
        counts::COMMITS_BETWEEN_SAVES + 50
    );
    assert_eq!(findings(&reopened), Vec::<String>::new());
}
