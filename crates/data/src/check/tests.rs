//! A sound database has no finding, and each kind of damage has its own.

use std::sync::Arc;

use isomer_storage::{Durability, Engine, KeyRange, MemoryEngine};
use isomer_value::{IndexId, LabelId, Map, NodeId, RelId, TypeId, Value};

use super::*;
use crate::{
    BucketKind, BucketOptions, FieldPath, IndexField, IndexSpec, SchemaChange, StoreOptions,
    counts, stream::Change,
};

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

const SPARES: u64 = 40;

/// A store whose change stream tells of more than fits into one pass, and the first of its spare nodes.
fn eventful() -> (Store, NodeId) {
    let store = sound();
    let commit = |run: &dyn Fn(&mut Transaction)| {
        let mut tx = store.begin(Access::Write).unwrap();
        run(&mut tx);
        tx.commit().unwrap();
    };
    let multi = BucketOptions {
        kind: BucketKind::Multi,
        reversible: false,
    };
    commit(&|tx| {
        tx.create_bucket("multi", multi).unwrap();
        for number in 0..60_u8 {
            tx.kv_put("map", &[number], &[number; 9]).unwrap();
            tx.kv_add("multi", b"key", &[number]).unwrap();
        }
        tx.sequence_next("map", "numbers").unwrap();
        tx.kv_put("dropped", b"key", b"value").unwrap();
    });
    commit(&|tx| {
        let range = |start, end| KeyRange { start, end };
        tx.kv_delete_range("map", range(b"\x05", Some(b"\x14")))
            .unwrap();
        tx.kv_delete_range("map", range(b"\x10", Some(b"\x18")))
            .unwrap();
        tx.kv_put("map", b"\x07", b"again").unwrap();
        tx.kv_delete("map", b"\x30").unwrap();
        tx.kv_remove("multi", b"key", b"\x01").unwrap();
        tx.drop_bucket("dropped").unwrap();
    });
    let first = std::cell::Cell::new(None);
    commit(&|tx| {
        let spare = tx.intern_label("Spare").unwrap();
        for number in 0..SPARES as i64 {
            let properties: Map = [("n", Value::Int(number)), ("m", Value::Int(1))]
                .into_iter()
                .collect();
            let id = tx.create_node(&[spare], &properties).unwrap();
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
            tx.merge_node_properties(id, &properties).unwrap();
        }
        tx.delete_node(NodeId(first.0 + 3), false).unwrap();
    });
    (store, first)
}

/// What is found after a change past everything that keeps stream and records together.
#[track_caller]
fn disagrees(
    change: impl FnOnce(&mut dyn isomer_storage::Transaction, NodeId, &Store),
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
fn what_the_change_stream_told_last_is_there() {
    let (store, _) = eventful();
    assert_eq!(findings(&store), Vec::<String>::new());
    // As far as it is kept.
    let half = store.engine().version() - 2;
    store.engine().trim_stream(half).unwrap();
    assert_eq!(findings(&store), Vec::<String>::new());
}

#[test]
fn records_that_are_not_what_was_told_are_found() {
    let record = |store: &Store, n: i64, extra: Option<&str>| {
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
        "set its property n to something else",
    );
    disagrees(
        |tx, first, store| {
            tx.put(&keyspace::node(first), &record(store, 7, Some("m")))
                .unwrap();
        },
        "took its property m out",
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
fn keys_that_are_not_what_was_told_are_found() {
    let entry = |store: &Store, key: &[u8]| {
        let bucket = store.catalog().bucket_id("map").unwrap();
        keyspace::bucket_entry(bucket, key)
    };
    disagrees(
        |tx, _, store| tx.delete(&entry(store, b"\x02")).unwrap(),
        "put it, and it is not there",
    );
    disagrees(
        |tx, _, store| {
            let stored = crate::kv::encode_entry(crate::kv::Content::Bytes, None, b"other");
            tx.put(&entry(store, b"\x3a"), &stored).unwrap();
        },
        "put something else than what is there",
    );
    for (key, expected) in [
        (b"\x06", "was taken out with others"),
        (b"\x17", "was taken out with others"),
        (b"\x30", "took it out, and it is there"),
    ] {
        disagrees(
            |tx, _, store| {
                let stored = crate::kv::encode_entry(crate::kv::Content::Bytes, None, b"back");
                tx.put(&entry(store, key), &stored).unwrap();
            },
            expected,
        );
    }
    disagrees(
        |tx, _, store| {
            // Never told, in a range that was taken out.
            let stored = crate::kv::encode_entry(crate::kv::Content::Bytes, None, b"back");
            tx.put(&entry(store, b"\x06\x01"), &stored).unwrap();
        },
        "was taken out with others",
    );
    disagrees(
        |tx, _, store| {
            let bucket = store.catalog().bucket_id("multi").unwrap();
            tx.delete(&keyspace::bucket_pair(bucket, b"key", b"\x05"))
                .unwrap();
        },
        "put it, and it is not there",
    );
    disagrees(
        |tx, _, store| {
            let bucket = store.catalog().bucket_id("map").unwrap();
            let key = keyspace::bucket_sequence(bucket, "numbers");
            tx.put(&key, &9_u64.to_be_bytes()).unwrap();
        },
        "put something else than what is there",
    );
}

/// The other side is damaged: the stream tells of what never was.
#[test]
fn what_was_told_and_never_done_is_found() {
    let tell = |change: &dyn Fn(u32) -> Change<'static>, expected| {
        disagrees(
            |tx, _, store| {
                let bucket = store.catalog().bucket_id("map").unwrap();
                let mut operations = Vec::new();
                change(bucket).push(&mut operations);
                tx.append_stream(&crate::stream::entry(&Default::default(), &operations));
            },
            expected,
        );
    };
    tell(
        &|bucket| Change::KeyPut {
            bucket,
            key: b"never",
            value: b"put",
            content: crate::kv::Content::Bytes,
        },
        "put it, and it is not there",
    );
    tell(
        &|bucket| Change::KeyDeleted {
            bucket,
            key: b"\x01",
        },
        "took it out, and it is there",
    );
    tell(
        &|bucket| Change::KeysDeleted {
            bucket,
            start: b"\x3b",
            end: None,
        },
        "was taken out with others",
    );
}

/// Many commits, each of which puts ten keys, and the store that was told to keep little for slow readers.
fn busy(commits: u32, keys: u32) -> Store {
    let options = StoreOptions {
        stream_retention: u64::MAX,
        stream_retention_bytes: u64::MAX,
        stream_hold_bytes: 1,
        ..StoreOptions::default()
    };
    let store = Store::open(Arc::new(MemoryEngine::new()), options).unwrap();
    for commit in 0..commits {
        put_ten(&store, commit * 10 % keys);
    }
    store
}

fn put_ten(store: &Store, from: u32) {
    let mut tx = store.begin(Access::Write).unwrap();
    for number in from..from + 10 {
        tx.kv_put("b", &number.to_be_bytes(), b"value").unwrap();
    }
    tx.commit_with(Durability::Buffered).unwrap();
}

/// A stream that tells of far more keys than fit is not read again for each few of them.
#[test]
fn the_change_stream_is_not_read_without_end() {
    let store = busy(500, 5_000);
    let mut steps = 0;
    let mut count = |_: &'static str, done| {
        steps = done;
        Verdict::Continue
    };
    assert_eq!(store.check(&mut count).unwrap(), Vec::<String>::new());
    assert!(steps < 100_000, "{steps} steps for 5,000 changes");
    // What was told last is looked for however much there is.
    let bucket = store.catalog().bucket_id("b").unwrap();
    let mut tx = store.engine().begin().unwrap();
    let last = keyspace::bucket_entry(bucket, &4_999_u32.to_be_bytes());
    tx.delete(&last).unwrap();
    tx.commit(Durability::Buffered).unwrap();
    let found = findings(&store);
    assert!(
        found.len() == 1 && found[0].contains("put it, and it is not there"),
        "{found:#?}"
    );
}

/// A check keeps no more of the stream than any other reader, and takes what is left for no damage.
#[test]
fn the_change_stream_may_go_while_it_is_checked() {
    let store = busy(1_000, 30);
    let before = store.engine().stream_trimmed().unwrap();
    let mut seen = Vec::new();
    let found = store.check(&mut |what, _| {
        if what == "change stream" {
            put_ten(&store, 0);
            put_ten(&store, 10);
            store
                .engine()
                .trim_stream(store.engine().version() - 2)
                .unwrap();
            seen.push(store.engine().stream_trimmed().unwrap());
        }
        Verdict::Continue
    });
    assert_eq!(found.unwrap(), Vec::<String>::new());
    assert!(seen.len() == 1 && seen[0] > before, "{seen:?}");
}
