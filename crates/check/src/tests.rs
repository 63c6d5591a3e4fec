//! A consistent database has no finding, and each kind of damage has a finding.

use std::{ops::ControlFlow, sync::Arc};

use isomer_storage::{Durability, KeyRange, MemoryEngine};
use isomer_value::{IndexId, LabelId, Map, NodeId, RelId, TypeId, Value};

use isomer_data::{
    Access, BucketOptions, Change, ChangeSet, Content, DataError, DataStore, DataStoreOptions,
    FieldPath, IndexField, IndexSpec, RelRow, SchemaChange, ScopeName, Transaction, after_prefix,
};
use isomer_layout::{
    graph::{key::encode_key, rows, state::EntryOwner},
    keyspace::{self, IdSpace, push_id},
    stream::stored::StoredChange,
};

use crate::check;

/// Ada (node 0) and Bob (node 1), who know each other, an index over their ages, and a bucket's worth of nothing.
fn sound() -> DataStore {
    let store =
        DataStore::open(Arc::new(MemoryEngine::new()), DataStoreOptions::default()).unwrap();
    create_index(&store, ScopeName::label("P"), "age");
    let mut tx = store.begin(Access::Write).unwrap();
    let person = |key: &str, age: i64| -> Map {
        [
            ("_key", Value::String(key.into())),
            ("age", Value::Int(age)),
        ]
        .into_iter()
        .collect()
    };
    tx.documents_mut().insert("P", &person("ada", 36)).unwrap();
    tx.documents_mut().insert("P", &person("bob", 40)).unwrap();
    let knows = tx.name_ids().intern_type("KNOWS").unwrap();
    tx.graph_mut()
        .create_relationship(knows, NodeId(0), NodeId(1), &Map::new())
        .unwrap();
    tx.graph_mut()
        .create_relationship(knows, NodeId(1), NodeId(1), &Map::new())
        .unwrap();
    tx.commit().unwrap();
    store
}

fn create_index(store: &DataStore, scope: ScopeName, property: &str) {
    let field = IndexField {
        path: FieldPath::top(property),
        each: false,
    };
    let spec = IndexSpec {
        name: Some(property.into()),
        scope,
        fields: vec![field],
        unique: false,
    };
    store
        .change_schema(SchemaChange::CreateIndex {
            spec,
            if_not_exists: false,
        })
        .unwrap();
}

/// As [`sound`], with an index over the years since when they know each other.
fn sound_since() -> DataStore {
    let store = sound();
    create_index(&store, ScopeName::rel_type("KNOWS"), "since");
    let mut tx = store.begin(Access::Write).unwrap();
    tx.graph_mut()
        .set_relationship_property(RelId(0), &["since"], Value::Int(1999))
        .unwrap();
    tx.commit().unwrap();
    assert_eq!(findings(&store), [""; 0]);
    store
}

/// The key of the entry of a relationship in the second index.
fn since_entry(id: RelId, since: i64) -> Vec<u8> {
    let mut key = keyspace::entries_of(IndexId(1));
    key.extend(isomer_value::key::encode(&Value::Int(since)).unwrap());
    push_id(&mut key, id.0);
    key
}

/// An index over relationships: a missing entry, one under another value, one with other ends, one of no
/// relationship.
#[test]
fn damaged_entries_of_relationships_are_found() {
    let value = |row: RelRow| EntryOwner::Relationship(row).entry_value();
    #[track_caller]
    fn damaged(change: impl FnOnce(&mut dyn isomer_storage::EngineTransaction), expected: &[&str]) {
        damaged_in(&sound_since(), change, expected);
    }
    damaged(
        |tx| tx.delete(&since_entry(RelId(0), 1999)).unwrap(),
        &["index since lacks relationship 0 under 1999"],
    );
    damaged(
        |tx| {
            let row = knows(RelId(0), NodeId(0), NodeId(1));
            tx.put(&since_entry(RelId(0), 2000), &value(row)).unwrap();
        },
        &["index since holds relationship 0 under a value that it does not have"],
    );
    damaged(
        |tx| {
            let row = knows(RelId(0), NodeId(1), NodeId(1));
            tx.put(&since_entry(RelId(0), 1999), &value(row)).unwrap();
        },
        &["index since holds relationship 0 with ends that it does not have"],
    );
    damaged(
        |tx| {
            let row = knows(RelId(9), NodeId(0), NodeId(1));
            tx.put(&since_entry(RelId(9), 1999), &value(row)).unwrap();
        },
        &["index since holds relationship 9 under a value that it does not have"],
    );
}

fn findings(store: &DataStore) -> Vec<String> {
    check(store, &mut |_, _| ControlFlow::Continue(())).unwrap()
}

/// The findings after `change` bypassed everything that keeps structures consistent.
#[track_caller]
fn damaged(change: impl FnOnce(&mut dyn isomer_storage::EngineTransaction), expected: &[&str]) {
    damaged_in(&sound(), change, expected);
}

#[track_caller]
fn damaged_in(
    store: &DataStore,
    change: impl FnOnce(&mut dyn isomer_storage::EngineTransaction),
    expected: &[&str],
) {
    let mut tx = store.engine().begin().unwrap();
    change(&mut *tx);
    tx.commit(Durability::Synced).unwrap();
    let found = findings(store);
    for expected in expected {
        assert!(
            found.iter().any(|finding| finding.contains(expected)),
            "`{expected}` is not in {found:#?}"
        );
    }
    assert_eq!(found.len(), expected.len(), "{found:#?}");
}

/// A relationship of the only type.
fn knows(id: RelId, source: NodeId, target: NodeId) -> RelRow {
    RelRow {
        id,
        type_id: TypeId(0),
        source,
        target,
    }
}

/// The key and the value that an operation stores.
fn stored(change: &Change<'_>) -> (Vec<u8>, Vec<u8>) {
    let mut pair = None;
    change
        .each_stored(&mut |stored| {
            if let StoredChange::ValuePut { key, value } = stored {
                pair = Some((key, value));
            }
            Ok(())
        })
        .unwrap();
    pair.unwrap()
}

/// A pair of the bucket `map`.
fn entry(store: &DataStore, key: &[u8], value: &[u8]) -> (Vec<u8>, Vec<u8>) {
    stored(&Change::KeyPut {
        bucket: store.catalog().bucket_id("map").unwrap(),
        key,
        value,
        content: Content::Bytes,
    })
}

#[test]
fn a_sound_database_has_no_finding() {
    assert_eq!(findings(&sound()), Vec::<String>::new());
}

#[test]
fn missing_pairs_are_found() {
    damaged(
        |tx| tx.delete(&keyspace::member(LabelId(0), NodeId(0))).unwrap(),
        &["node 0 has :P but is not among its nodes"],
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
    let link = |outgoing| rows::adjacency(&knows(RelId(0), NodeId(0), NodeId(1)), outgoing);
    damaged(
        |tx| tx.delete(&link(true)).unwrap(),
        &["relationship 0 is not found from its source, node 0"],
    );
    damaged(
        |tx| tx.delete(&link(false)).unwrap(),
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
    let link = rows::adjacency(&knows(RelId(0), NodeId(0), NodeId(0)), true);
    damaged(
        |tx| tx.put(&link, b"").unwrap(),
        &["node 0 lists relationship 0 to node 0, which does not match its record"],
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
            "node 0 is among the nodes of :P but does not have it",
            "a _key leads to node 0, which does not have it",
            "index age holds node 0",
            "2 nodes :P are counted, 1 exist",
        ],
    );
    damaged(
        |tx| tx.delete(&keyspace::relationship(RelId(1))).unwrap(),
        &[
            "node 1 lists relationship 1 to node 1",
            "node 1 lists relationship 1 to node 1",
            "2 relationships are counted, 1 exist",
            "2 relationships :KNOWS are counted, 1 exist",
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
    let label = tx.name_ids().intern_label("Q").unwrap();
    for _ in 0..9000 {
        tx.graph_mut().create_node(&[label], &Map::new()).unwrap();
    }
    tx.commit().unwrap();
    assert!(matches!(
        check(&store, &mut |_, _| ControlFlow::Break(())),
        Err(DataError::Cancelled)
    ));
}

const SPARES: u64 = 40;

/// A store whose change stream has more operations than fit into one pass, and the first of its spare nodes.
fn eventful() -> (DataStore, NodeId) {
    let store = sound();
    let commit = |run: &dyn Fn(&mut Transaction)| {
        let mut tx = store.begin(Access::Write).unwrap();
        run(&mut tx);
        tx.commit().unwrap();
    };
    let multi = BucketOptions::multi_value();
    commit(&|tx| {
        tx.kv_mut().create_bucket("multi", multi).unwrap();
        for number in 0..60_u8 {
            tx.kv_mut().put("map", &[number], &[number; 9]).unwrap();
            tx.kv_mut().add("multi", b"key", &[number]).unwrap();
        }
        tx.kv_mut().sequence_next("map", "numbers").unwrap();
        tx.kv_mut().put("dropped", b"key", b"value").unwrap();
    });
    commit(&|tx| {
        let range = |start, end| KeyRange { start, end };
        tx.kv_mut()
            .delete_range("map", range(b"\x05", Some(b"\x14")))
            .unwrap();
        tx.kv_mut()
            .delete_range("map", range(b"\x10", Some(b"\x18")))
            .unwrap();
        tx.kv_mut().put("map", b"\x07", b"again").unwrap();
        tx.kv_mut().delete("map", b"\x30").unwrap();
        tx.kv_mut().remove("multi", b"key", b"\x01").unwrap();
        tx.kv_mut().drop_bucket("dropped").unwrap();
    });
    let first = std::cell::Cell::new(None);
    commit(&|tx| {
        let spare = tx.name_ids().intern_label("Spare").unwrap();
        for number in 0..SPARES as i64 {
            let properties: Map = [("n", Value::Int(number)), ("m", Value::Int(1))]
                .into_iter()
                .collect();
            let id = tx.graph_mut().create_node(&[spare], &properties).unwrap();
            first.set(first.get().or(Some(id)));
        }
    });
    let first = first.get().unwrap();
    commit(&|tx| {
        for number in 0..SPARES {
            let id = NodeId(first.0 + number);
            let properties: Map = [("n", Value::Int(7)), ("m", Value::Null)]
                .into_iter()
                .collect();
            tx.graph_mut()
                .merge_node_properties(id, &properties)
                .unwrap();
        }
        tx.graph_mut()
            .delete_node(NodeId(first.0 + 3), false)
            .unwrap();
    });
    (store, first)
}

/// The findings after a change that bypassed everything that keeps stream and records consistent.
#[track_caller]
fn disagrees(
    change: impl FnOnce(&mut dyn isomer_storage::EngineTransaction, NodeId, &DataStore),
    expected: &str,
) {
    let (store, first) = eventful();
    let mut tx = store.engine().begin().unwrap();
    change(&mut *tx, first, &store);
    tx.commit(Durability::Synced).unwrap();
    let found = findings(&store);
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(
        found[0].contains(expected),
        "`{expected}` is not in {found:#?}"
    );
}

#[test]
fn the_newest_operations_of_the_change_stream_match() {
    let (store, _) = eventful();
    assert_eq!(findings(&store), Vec::<String>::new());
    // As far as it is retained.
    let half = store.engine().version() - 2;
    store.engine().trim_stream(half).unwrap();
    assert_eq!(findings(&store), Vec::<String>::new());
}

#[test]
fn records_that_differ_from_the_change_stream_are_found() {
    let record = |store: &DataStore, n: i64, extra: Option<&str>| {
        let names = store.catalog();
        let label = names.label_id("Spare").unwrap();
        let mut record = isomer_value::record::RecordBuilder::node(&[label]);
        let prop = names.prop_id("n").unwrap();
        let mut raw = Vec::new();
        let mut interner = isomer_value::NameTable::default();
        isomer_value::record::encode_value(&Value::Int(n), &mut interner, &mut raw).unwrap();
        record.put_raw(prop, &raw);
        if let Some(extra) = extra {
            record.put_raw(names.prop_id(extra).unwrap(), &raw);
        }
        record.finish().unwrap()
    };
    disagrees(
        |tx, first, store| {
            let key = keyspace::node(NodeId(first.0 + 20));
            tx.put(&key, &record(store, 8, None)).unwrap();
        },
        "set its property n to another value",
    );
    disagrees(
        |tx, first, store| {
            tx.put(&keyspace::node(first), &record(store, 7, Some("m")))
                .unwrap();
        },
        "removed its property m",
    );
    disagrees(
        |tx, first, store| {
            tx.put(&keyspace::node(first), &record(store, 7, Some("age")))
                .unwrap();
        },
        "put it without a property that it has",
    );
}

#[test]
fn keys_that_differ_from_the_change_stream_are_found() {
    disagrees(
        |tx, _, store| tx.delete(&entry(store, b"\x02", b"").0).unwrap(),
        "put it, but it does not exist",
    );
    disagrees(
        |tx, _, store| {
            let (key, other) = entry(store, b"\x3a", b"other");
            tx.put(&key, &other).unwrap();
        },
        "put another value than the stored one",
    );
    for (key, expected) in [
        (&b"\x06"[..], "its range was deleted"),
        (b"\x17", "its range was deleted"),
        (b"\x30", "deleted it, but it exists"),
        // Absent from the stream, in a range that was deleted.
        (b"\x06\x01", "its range was deleted"),
    ] {
        disagrees(
            |tx, _, store| {
                let (key, back) = entry(store, key, b"back");
                tx.put(&key, &back).unwrap();
            },
            expected,
        );
    }
    disagrees(
        |tx, _, store| {
            let (key, _) = stored(&Change::ValueAdded {
                bucket: store.catalog().bucket_id("multi").unwrap(),
                key: b"key",
                value: b"\x05",
            });
            tx.delete(&key).unwrap();
        },
        "put it, but it does not exist",
    );
    disagrees(
        |tx, _, store| {
            let (key, nine) = stored(&Change::SequenceAdvanced {
                bucket: store.catalog().bucket_id("map").unwrap(),
                name: b"numbers",
                last: 9,
            });
            tx.put(&key, &nine).unwrap();
        },
        "put another value than the stored one",
    );
}

/// The other side is damaged: the stream has an operation that never happened.
#[test]
fn operations_in_the_stream_that_never_happened_are_found() {
    let append_to_stream = |change: &dyn Fn(u32) -> Change<'static>, expected| {
        disagrees(
            |tx, _, store| {
                let bucket = store.catalog().bucket_id("map").unwrap();
                let entry = ChangeSet {
                    counts: Vec::new(),
                    changes: vec![change(bucket)],
                };
                tx.append_stream(&entry.encode());
            },
            expected,
        );
    };
    append_to_stream(
        &|bucket| Change::KeyPut {
            bucket,
            key: b"never",
            value: b"put",
            content: Content::Bytes,
        },
        "put it, but it does not exist",
    );
    append_to_stream(
        &|bucket| Change::KeyDeleted {
            bucket,
            key: b"\x01",
        },
        "deleted it, but it exists",
    );
    append_to_stream(
        &|bucket| Change::KeysDeleted {
            bucket,
            start: b"\x3b",
            end: None,
        },
        "its range was deleted",
    );
}

/// Many commits, each of which puts ten keys, in a store with a small retention limit for slow readers.
fn busy(commits: u32, keys: u32) -> DataStore {
    let mut options = DataStoreOptions::default();
    options.stream_retention = u64::MAX;
    options.stream_retention_bytes = u64::MAX;
    options.stream_hold_bytes = 1;
    let store = DataStore::open(Arc::new(MemoryEngine::new()), options).unwrap();
    for commit in 0..commits {
        put_ten(&store, commit * 10 % keys);
    }
    store
}

fn put_ten(store: &DataStore, from: u32) {
    let mut tx = store.begin(Access::Write).unwrap();
    for number in from..from + 10 {
        tx.kv_mut()
            .put("b", &number.to_be_bytes(), b"value")
            .unwrap();
    }
    tx.commit_with(Durability::Buffered).unwrap();
}

/// A stream with far more keys than fit is not read again for each few of them.
#[test]
fn the_change_stream_is_not_read_without_end() {
    let store = busy(500, 5_000);
    let mut steps = 0;
    let mut count = |_: &'static str, done| {
        steps = done;
        ControlFlow::Continue(())
    };
    assert_eq!(check(&store, &mut count).unwrap(), Vec::<String>::new());
    assert!(steps < 100_000, "{steps} steps for 5,000 changes");
    // The newest operations are checked however many there are.
    let (last, _) = stored(&Change::KeyPut {
        bucket: store.catalog().bucket_id("b").unwrap(),
        key: &4_999_u32.to_be_bytes(),
        value: b"",
        content: Content::Bytes,
    });
    let mut tx = store.engine().begin().unwrap();
    tx.delete(&last).unwrap();
    tx.commit(Durability::Buffered).unwrap();
    let found = findings(&store);
    assert!(
        found.len() == 1 && found[0].contains("put it, but it does not exist"),
        "{found:#?}"
    );
}

/// A check retains no more of the stream than any other reader, and does not report trimmed entries as damage.
#[test]
fn the_change_stream_may_be_trimmed_while_it_is_checked() {
    let store = busy(1_000, 30);
    let before = store.engine().stream_trimmed().unwrap();
    let mut seen = Vec::new();
    let found = check(&store, &mut |what, _| {
        if what == "change stream" {
            put_ten(&store, 0);
            put_ten(&store, 10);
            store
                .engine()
                .trim_stream(store.engine().version() - 2)
                .unwrap();
            seen.push(store.engine().stream_trimmed().unwrap());
        }
        ControlFlow::Continue(())
    });
    assert_eq!(found.unwrap(), Vec::<String>::new());
    assert!(seen.len() == 1 && seen[0] > before, "{seen:?}");
}

/// The stream says that a bucket was dropped; it does not say which reverse entries a later one with its name has.
#[test]
fn a_reversible_bucket_that_was_made_again_is_sound() {
    let store = sound();
    for value in [b"first", b"other"] {
        let mut tx = store.begin(Access::Write).unwrap();
        tx.kv_mut().drop_bucket("emails").unwrap();
        let options = BucketOptions::reversible();
        tx.kv_mut().create_bucket("emails", options).unwrap();
        tx.kv_mut().put("emails", b"ada", value).unwrap();
        tx.commit().unwrap();
    }
    let found = check(&store, &mut |_, _| ControlFlow::Continue(())).unwrap();
    assert!(found.is_empty(), "{found:?}");
}
