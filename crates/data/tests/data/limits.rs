//! Bad input: a clear error, nothing changed, no panic.

use std::sync::Arc;

use crate::common::{int, list, map, memory, nested, text};
use isomer_data::{Access, DataError, ErrorKind, GraphRead, Transaction};
use isomer_value::{Map, NodeId, Value};

fn deep(levels: usize) -> Value {
    (0..levels).fold(int(1), |inner, _| list(&[inner]))
}

#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, DataError>, kind: ErrorKind, says: &str) {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    assert!(
        error.to_string().contains(says),
        "`{error}` does not say `{says}`"
    );
}

fn open() -> Transaction {
    memory().begin(Access::Write).unwrap()
}

#[test]
fn nesting() {
    let mut tx = open();
    tx.graph_mut()
        .create_node(&[], &map(&[("v", deep(128))]))
        .unwrap();
    refused(
        tx.graph_mut().create_node(&[], &map(&[("v", deep(129))])),
        ErrorKind::Limit,
        "128",
    );
    let id = tx.graph_mut().create_node(&[], &Map::new()).unwrap();
    let abyss = deep(100_000);
    std::mem::forget(abyss.clone()); // never dropped, which would recurse
    refused(
        tx.graph_mut().set_node_property(id, &["v"], abyss),
        ErrorKind::Limit,
        "128",
    );
    let path = vec!["p"; 200];
    refused(
        tx.graph_mut().set_node_property(id, &path, int(1)),
        ErrorKind::Limit,
        "200 names",
    );
    let patch = (0..200).fold(map(&[("x", int(1))]), |inner, _| {
        map(&[("m", Value::Map(Arc::new(inner)))])
    });
    let key = tx.documents_mut().insert("D", &Map::new()).unwrap();
    refused(
        tx.documents_mut().patch("D", &key, &patch),
        ErrorKind::Limit,
        "128",
    );
    assert_eq!(tx.documents().get("D", &key).unwrap().unwrap().len(), 1);
}

#[test]
fn keys() {
    let mut tx = open();
    for (key, kind, says) in [
        (text(""), ErrorKind::Invalid, "empty"),
        (text(&"k".repeat(2049)), ErrorKind::Limit, "2049 bytes"),
        (Value::Float(1.0), ErrorKind::Invalid, "FLOAT"),
        (list(&[]), ErrorKind::Invalid, "LIST"),
    ] {
        refused(
            tx.documents_mut().insert("D", &map(&[("_key", key)])),
            kind,
            says,
        );
    }
    for key in [
        int(i64::MIN),
        int(i64::MAX),
        int((1 << 53) + 1),
        text("\0"),
        text(&"k".repeat(2048)),
    ] {
        assert_eq!(
            tx.documents_mut()
                .insert("D", &map(&[("_key", key.clone())]))
                .unwrap(),
            key
        );
        let found = tx.documents().get("D", &key).unwrap().unwrap();
        assert_eq!(found.get("_key"), Some(&key));
    }
    // 2^53 and 2^53 + 1 are one float and two integers.
    assert_eq!(tx.documents().get("D", &int(1 << 53)).unwrap(), None);
    let label = tx.name_ids().intern_label("D").unwrap();
    tx.documents_mut()
        .insert("D", &map(&[("_key", int(2))]))
        .unwrap();
    assert!(tx.node_by_key(label, &Value::Float(2.0)).unwrap().is_some());
    for none in [2.5, f64::NAN, f64::INFINITY, 9_223_372_036_854_775_807.0] {
        assert_eq!(
            tx.node_by_key(label, &Value::Float(none)).unwrap(),
            None,
            "{none}"
        );
    }
    // A generated key is a UUID of version 7, and later ones sort later.
    let keys: Vec<_> = (0..3)
        .map(|_| tx.documents_mut().insert("E", &Map::new()).unwrap())
        .collect();
    assert!(
        keys.iter()
            .all(|key| matches!(key, Value::String(key) if key.len() == 36 && &key[14..15] == "7"))
    );
    refused(
        tx.documents_mut()
            .replace("D", &int(2), &map(&[("_key", int(3))])),
        ErrorKind::Invalid,
        "_key is 3",
    );
    refused(
        tx.documents_mut().replace("D", &int(99), &Map::new()),
        ErrorKind::NotFound,
        "no document with _key 99",
    );
}

#[test]
fn names() {
    let mut tx = open();
    refused(
        tx.name_ids().intern_label(&"l".repeat(20_000)),
        ErrorKind::Limit,
        "label",
    );
    let long = "p".repeat(20_000);
    refused(
        tx.graph_mut().create_node(&[], &map(&[(&long, int(1))])),
        ErrorKind::Limit,
        "20000 bytes",
    );
    let odd = map(&[
        ("", int(1)),
        ("a.b", int(2)),
        ("ü\u{0}", int(3)),
        ("nested", nested(&[("", int(4)), ("x.y", int(5))])),
    ]);
    let id = tx.graph_mut().create_node(&[], &odd).unwrap();
    let mut contents = Vec::new();
    tx.node_contents(&[id], &mut contents).unwrap();
    assert_eq!(contents[0].as_ref().unwrap().properties, odd);
    tx.graph_mut()
        .set_node_property(id, &["nested", ""], int(6))
        .unwrap();
    tx.graph_mut()
        .set_node_property(id, &[""], Value::Null)
        .unwrap();
    refused(
        tx.graph_mut().set_node_property(id, &[], int(1)),
        ErrorKind::Invalid,
        "empty",
    );
    refused(
        tx.graph_mut().set_node_property(id, &["a.b", "c"], int(1)),
        ErrorKind::Invalid,
        "a.b is a INTEGER",
    );
}

#[test]
fn numbers_come_back_exactly() {
    let mut tx = open();
    let values = [
        int(i64::MIN),
        int((1 << 53) + 1),
        Value::Float(f64::NAN),
        Value::Float(f64::INFINITY),
        Value::Float(f64::NEG_INFINITY),
        Value::Float(-0.0),
        Value::Float(5e-324),
    ];
    let id = tx
        .graph_mut()
        .create_node(&[], &map(&[("v", list(&values))]))
        .unwrap();
    let mut out = [Vec::new()];
    tx.node_properties(&[id], &[tx.catalog().prop_id("v").unwrap()], &mut out)
        .unwrap();
    assert_eq!(out[0][0], list(&values));
}

#[test]
fn what_is_not_there() {
    let mut tx = open();
    let label = tx.name_ids().intern_label("A").unwrap();
    let knows = tx.name_ids().intern_type("KNOWS").unwrap();
    let here = tx.graph_mut().create_node(&[label], &Map::new()).unwrap();
    let gone = NodeId(4_711);
    refused(
        tx.graph_mut()
            .create_relationship(knows, here, gone, &Map::new()),
        ErrorKind::NotFound,
        "ends at node 4711",
    );
    refused(
        tx.graph_mut()
            .create_relationship(knows, gone, here, &Map::new()),
        ErrorKind::NotFound,
        "starts at node 4711",
    );
    refused(
        tx.graph_mut().set_node_property(gone, &["x"], int(1)),
        ErrorKind::NotFound,
        "node 4711",
    );
    assert_eq!(tx.graph_mut().delete_node(gone, false).unwrap(), []);
    tx.graph_mut()
        .create_relationship(knows, here, here, &Map::new())
        .unwrap();
    refused(
        tx.graph_mut().delete_node(here, false),
        ErrorKind::Invalid,
        "still has relationships",
    );
    assert_eq!(tx.graph_mut().delete_node(here, true).unwrap().len(), 1);
    assert_eq!(tx.exact_node_count(None).unwrap(), 0);
}

#[test]
fn an_engine_with_foreign_keys_is_refused() {
    use isomer_storage::Engine;
    let engine = Arc::new(isomer_storage::MemoryEngine::new());
    let mut tx = engine.begin().unwrap();
    tx.put(b"some", b"thing").unwrap();
    tx.commit(isomer_data::Durability::Synced).unwrap();
    let opened = isomer_data::DataStore::open(engine, Default::default()).map(drop);
    refused(
        opened,
        ErrorKind::Corrupt,
        "this is not an IsomerDB database",
    );

    let engine = Arc::new(isomer_storage::MemoryEngine::new());
    let mut tx = engine.begin().unwrap();
    tx.put(&[1], b"isomer\x63").unwrap();
    tx.commit(isomer_data::Durability::Synced).unwrap();
    refused(
        isomer_data::DataStore::open(engine, Default::default()).map(drop),
        ErrorKind::Unsupported,
        "format 99",
    );
}
