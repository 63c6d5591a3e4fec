//! Small histories, one behaviour each.

use std::{ops::ControlFlow, sync::Arc};

use isomer_check::check;
use isomer_data::{
    Access, BucketOptions, ConflictKind, ConvergentOp, ConvergentOwner, DataStore,
    DataStoreOptions, Direction, Expiry, GraphRead, KvChangeKind, Neighbours, Transaction,
    WatchScope, internals::own_replica,
};
use isomer_layout::keyspace;
use isomer_storage::MemoryEngine;
use isomer_value::{Map, NodeId, Value};

use super::dump::dump;
use crate::{
    Applied, apply, begin, cells, conflicts, exchange, members, records, scrub,
    state_transfer::{receive, send},
    status,
};

pub(super) fn open() -> DataStore {
    let store = crate::open(Arc::new(MemoryEngine::new()), DataStoreOptions::default()).unwrap();
    begin::begin_replication(&store).unwrap();
    store
}

pub(super) fn write<T>(store: &DataStore, body: impl FnOnce(&mut Transaction) -> T) -> T {
    let mut tx = store.begin(Access::Write).unwrap();
    let value = body(&mut tx);
    tx.commit().unwrap();
    value
}

pub(super) fn map(pairs: &[(&str, Value)]) -> Map {
    pairs
        .iter()
        .map(|(name, value)| (*name, value.clone()))
        .collect()
}

/// The entries of `from` that `to` lacks.
pub(super) fn send(from: &DataStore, to: &DataStore) -> Applied {
    let page = exchange::entries_for(from, &exchange::greeting(to).unwrap(), 1 << 20).unwrap();
    exchange::apply_entries(to, &page).unwrap()
}

pub(super) fn both(one: &DataStore, other: &DataStore) {
    send(one, other);
    send(other, one);
    assert_eq!(dump(one), dump(other));
    for store in [one, other] {
        assert_eq!(store.check_convergent().unwrap(), Vec::<String>::new());
    }
}

pub(super) fn person(tx: &mut Transaction, key: &str, more: &[(&str, Value)]) -> NodeId {
    let label = tx.name_ids().intern_label("Person").unwrap();
    let mut properties = map(more);
    properties.insert("_key", Value::from(key));
    tx.graph_mut().create_node(&[label], &properties).unwrap()
}

pub(super) fn find(tx: &Transaction, key: &str) -> NodeId {
    tx.documents()
        .node("Person", &Value::from(key))
        .unwrap()
        .expect("the person")
}

#[test]
fn changes_reach_the_other_replica() {
    let (a, b) = (open(), open());
    // Numbers of names differ.
    write(&b, |tx| {
        for name in ["X", "Y"] {
            let label = tx.name_ids().intern_label(name).unwrap();
            tx.graph_mut()
                .create_node(
                    &[label],
                    &map(&[("p", Value::Int(1)), ("q", Value::Int(2))]),
                )
                .unwrap();
        }
    });
    write(&a, |tx| {
        let nested = Value::Map(Arc::new(map(&[("city", Value::from("London"))])));
        let ada = person(tx, "ada", &[("address", nested)]);
        let bob = person(tx, "bob", &[]);
        let knows = tx.name_ids().intern_type("KNOWS").unwrap();
        tx.graph_mut()
            .create_relationship(knows, ada, bob, &map(&[("since", Value::Int(1833))]))
            .unwrap();
        tx.graph_mut()
            .create_relationship(knows, ada, ada, &Map::new())
            .unwrap();
        let owner = ConvergentOwner::Node(ada);
        tx.fields_mut()
            .converge(owner, &["likes"], &ConvergentOp::Count(5), None)
            .unwrap();
        tx.fields_mut()
            .converge(
                owner,
                &["m", "tags"],
                &ConvergentOp::Insert(Value::from("x")),
                None,
            )
            .unwrap();
        tx.kv_mut().put("b", b"k", b"v").unwrap();
        tx.kv_mut()
            .put_value(
                "b",
                &Value::from("t"),
                &Value::List(Arc::new(vec![Value::Int(7)])),
                Expiry::Never,
            )
            .unwrap();
    });
    both(&a, &b);
    assert_eq!(dump(&a).len(), 8);
    // And back: changes, deletions, other numbers.
    write(&b, |tx| {
        let ada = find(tx, "ada");
        tx.graph_mut()
            .set_node_property(ada, &["address", "city"], Value::from("Paris"))
            .unwrap();
        let label = tx.name_ids().intern_label("Y").unwrap();
        tx.graph_mut().add_label(ada, label).unwrap();
        let bob = find(tx, "bob");
        tx.graph_mut().delete_node(bob, true).unwrap();
        tx.fields_mut()
            .converge(
                ConvergentOwner::Node(ada),
                &["m", "tags"],
                &ConvergentOp::Remove(Value::from("x")),
                None,
            )
            .unwrap();
        tx.kv_mut().delete("b", b"k").unwrap();
    });
    both(&a, &b);
    assert_eq!(send(&a, &b), Applied::default());
}

#[test]
fn concurrent_records_of_one_key_are_one_record() {
    let (a, b) = (open(), open());
    write(&a, |tx| {
        person(
            tx,
            "ada",
            &[("a", Value::Int(1)), ("both", Value::from("a"))],
        )
    });
    write(&b, |tx| {
        person(
            tx,
            "ada",
            &[("b", Value::Int(2)), ("both", Value::from("b"))],
        )
    });
    both(&a, &b);
    assert_eq!(dump(&a).len(), 1);
    assert_eq!(status::replication_status(&a).unwrap().conflicts, 1);
    // A write that has seen both resolves the conflict.
    write(&b, |tx| {
        let ada = find(tx, "ada");
        tx.graph_mut()
            .set_node_property(ada, &["both"], Value::from("c"))
            .unwrap();
    });
    both(&a, &b);
    assert_eq!(status::replication_status(&a).unwrap().conflicts, 0);
    assert_eq!(status::replication_status(&b).unwrap().conflicts, 0);
    assert!(
        dump(&a)[0].contains("both: String(\"c\")"),
        "{:?}",
        dump(&a)
    );
}

/// A deletion removes what it has seen; the rest comes back for a node that is created again without having seen the
/// deletion.
#[test]
fn what_a_deletion_has_not_seen() {
    for order in 0..2 {
        let (a, b, c) = (open(), open(), open());
        write(&a, |tx| person(tx, "ada", &[("x", Value::Int(1))]));
        both(&a, &b);
        both(&a, &c);
        write(&a, |tx| {
            let ada = find(tx, "ada");
            tx.graph_mut().delete_node(ada, false).unwrap();
        });
        write(&b, |tx| {
            let ada = find(tx, "ada");
            tx.graph_mut()
                .set_node_property(ada, &["y"], Value::Int(2))
                .unwrap();
            tx.fields_mut()
                .converge(
                    ConvergentOwner::Node(ada),
                    &["n"],
                    &ConvergentOp::Count(3),
                    None,
                )
                .unwrap();
        });
        send(&a, &c);
        write(&c, |tx| person(tx, "ada", &[("z", Value::Int(3))]));
        match order {
            0 => {
                both(&a, &b);
                assert_eq!(dump(&a), Vec::<String>::new());
                send(&c, &a);
                send(&b, &c);
            }
            _ => {
                send(&c, &a);
                send(&b, &a);
                send(&b, &c);
            }
        }
        send(&a, &b);
        send(&c, &b);
        send(&b, &c);
        both(&a, &b);
        both(&a, &c);
        let lines = dump(&a);
        assert_eq!(lines.len(), 1, "{lines:?}");
        for part in ["y: Int(2)", "n: Int(3)", "z: Int(3)"] {
            assert!(lines[0].contains(part), "{lines:?}");
        }
        assert!(!lines[0].contains("x:"), "{lines:?}");
    }
}

#[test]
fn relationships_are_deleted_with_their_original_ends() {
    let (a, b) = (open(), open());
    write(&a, |tx| {
        person(tx, "ada", &[]);
        person(tx, "bob", &[]);
    });
    both(&a, &b);
    write(&a, |tx| {
        let ada = find(tx, "ada");
        tx.graph_mut().delete_node(ada, false).unwrap();
    });
    write(&b, |tx| {
        let (ada, bob) = (find(tx, "ada"), find(tx, "bob"));
        let knows = tx.name_ids().intern_type("KNOWS").unwrap();
        tx.graph_mut()
            .create_relationship(knows, ada, bob, &Map::new())
            .unwrap();
    });
    both(&a, &b);
    assert_eq!(dump(&a).len(), 1);
    // Created again, it is a different node for relationships.
    write(&a, |tx| person(tx, "ada", &[]));
    both(&a, &b);
    let tx = b.begin(Access::Read).unwrap();
    let mut found = Neighbours::new();
    tx.expand(&[find(&tx, "ada")], Direction::Both, &[], &mut found)
        .unwrap();
    assert!(found.rows().is_empty());
}

#[test]
fn buckets_keep_the_later_value_and_range_deletions_delete_what_was_seen() {
    let (a, b) = (open(), open());
    write(&a, |tx| {
        for key in ["k1", "k2", "k3"] {
            tx.kv_mut().put("b", key.as_bytes(), b"old").unwrap();
        }
    });
    both(&a, &b);
    write(&a, |tx| {
        let range = isomer_data::KeyRange {
            start: b"",
            end: None,
        };
        tx.kv_mut().delete_range("b", range).unwrap();
    });
    write(&b, |tx| tx.kv_mut().put("b", b"k2", b"new").unwrap());
    write(&a, |tx| tx.kv_mut().put("c", b"k", b"from a").unwrap());
    write(&b, |tx| tx.kv_mut().put("c", b"k", b"from b").unwrap());
    both(&a, &b);
    assert_eq!(dump(&a).len(), 2);
    assert_eq!(status::replication_status(&a).unwrap().conflicts, 1);
    // Dropping a bucket removes what was seen in it.
    write(&a, |tx| {
        assert!(tx.kv_mut().drop_bucket("b").unwrap());
    });
    write(&b, |tx| tx.kv_mut().put("b", b"k9", b"unseen").unwrap());
    both(&a, &b);
    assert_eq!(dump(&a).len(), 2);
}

/// State from before replication has no log. An end that is deleted elsewhere concurrently exists again, with its
/// content at the time when the relationship was made.
#[test]
fn relationships_that_keep_their_ends() {
    let (a, b) = (open(), open());
    b.keep_endpoints("NEEDS", true).unwrap();
    let keepers = b.endpoint_keepers();
    let names: Vec<_> = keepers
        .iter()
        .map(|one| (&*one.name, &*one.rel_type))
        .collect();
    assert_eq!(names, [("NEEDS_keep_endpoints", "NEEDS")]);
    write(&a, |tx| {
        person(
            tx,
            "ada",
            &[("born", Value::Int(1815)), ("city", Value::from("London"))],
        );
        person(tx, "bob", &[]);
        person(tx, "eve", &[]);
    });
    both(&a, &b);
    let relate = |store: &DataStore, name: &str, to: &str| {
        write(store, |tx| {
            let kind = tx.name_ids().intern_type(name).unwrap();
            let (from, to) = (find(tx, "ada"), find(tx, to));
            tx.graph_mut()
                .create_relationship(kind, from, to, &Map::new())
                .unwrap();
        });
    };
    relate(&a, "LIKES", "eve");
    both(&a, &b);
    // A moves her and deletes her; B, which has seen neither, needs her.
    write(&a, |tx| {
        let ada = find(tx, "ada");
        tx.graph_mut()
            .set_node_property(ada, &["city"], Value::from("Paris"))
            .unwrap();
    });
    write(&a, |tx| {
        let ada = find(tx, "ada");
        tx.graph_mut().delete_node(ada, true).unwrap();
    });
    relate(&b, "NEEDS", "bob");
    both(&a, &b);
    for store in [&a, &b] {
        let tx = store.begin(Access::Read).unwrap();
        let ada = find(&tx, "ada");
        let mut contents = Vec::new();
        tx.node_contents(&[ada], &mut contents).unwrap();
        let content = contents.pop().flatten().unwrap();
        assert_eq!(content.properties.get("born"), Some(&Value::Int(1815)));
        assert_eq!(content.properties.get("city"), Some(&Value::from("London")));
        let mut found = Neighbours::new();
        tx.expand(&[ada], Direction::Both, &[], &mut found).unwrap();
        // The one that keeps no end was deleted with her.
        assert_eq!(found.rows().len(), 1);
        assert_eq!(conflicts::conflicts(&tx).unwrap(), []);
    }
    // A value written later than one that was copied is read, without a conflict.
    relate(&b, "NEEDS", "eve");
    write(&a, |tx| {
        let ada = find(tx, "ada");
        tx.graph_mut()
            .set_node_property(ada, &["city"], Value::from("Rome"))
            .unwrap();
    });
    both(&a, &b);
    let tx = b.begin(Access::Read).unwrap();
    let ada = find(&tx, "ada");
    let mut contents = Vec::new();
    tx.node_contents(&[ada], &mut contents).unwrap();
    let content = contents.pop().flatten().unwrap();
    assert_eq!(content.properties.get("city"), Some(&Value::from("Rome")));
    assert_eq!(conflicts::conflicts(&tx).unwrap(), []);
    // A deletion that has seen all of it removes it.
    write(&a, |tx| {
        let ada = find(tx, "ada");
        tx.graph_mut().delete_node(ada, true).unwrap();
    });
    both(&a, &b);
    assert_eq!(dump(&a).len(), 2);
}

/// Setting a property to the value that is read already resolves the conflict in its favour.
#[test]
fn writing_the_read_value_resolves_a_conflict() {
    let (a, b) = (open(), open());
    write(&a, |tx| {
        let (ada, bob) = (person(tx, "ada", &[]), person(tx, "bob", &[]));
        let knows = tx.name_ids().intern_type("KNOWS").unwrap();
        tx.graph_mut()
            .create_relationship(knows, ada, bob, &Map::new())
            .unwrap();
    });
    both(&a, &b);
    let rel = |tx: &Transaction| {
        let mut rows = Vec::new();
        tx.scan_relationships(None, None, 1, &mut rows).unwrap();
        rows[0].id
    };
    let set = |store: &DataStore, value: &Value| {
        write(store, |tx| {
            let ada = find(tx, "ada");
            tx.graph_mut()
                .set_node_property(ada, &["city"], value.clone())
                .unwrap();
            let rel = rel(tx);
            tx.graph_mut()
                .merge_relationship_properties(rel, &map(&[("since", value.clone())]))
                .unwrap();
        });
    };
    set(&a, &Value::from("London"));
    set(&b, &Value::from("Paris"));
    both(&a, &b);
    let listed =
        |store: &DataStore| conflicts::conflicts(&store.begin(Access::Read).unwrap()).unwrap();
    assert_eq!(listed(&a).len(), 2);
    let read = listed(&a)[0].value.clone();
    set(&b, &read);
    both(&a, &b);
    for store in [&a, &b] {
        assert_eq!(listed(store), []);
        let tx = store.begin(Access::Read).unwrap();
        let mut contents = Vec::new();
        tx.node_contents(&[find(&tx, "ada")], &mut contents)
            .unwrap();
        let content = contents.pop().flatten().unwrap();
        assert_eq!(content.properties.get("city"), Some(&read));
    }
}

/// A bucket that is dropped in one replica while another one continues to use it holds, in both, what was put
/// concurrently.
#[test]
fn buckets_and_sequences_that_are_dropped_and_created_again() {
    let (a, b) = (open(), open());
    write(&a, |tx| {
        tx.kv_mut().put("x", b"k", b"1").unwrap();
        for _ in 0..3 {
            tx.kv_mut().sequence_next("x", "n").unwrap();
        }
        tx.kv_mut()
            .create_bucket("empty", BucketOptions::default())
            .unwrap();
    });
    both(&a, &b);
    write(&a, |tx| {
        tx.kv_mut().drop_bucket("x").unwrap();
        tx.kv_mut().drop_bucket("empty").unwrap();
    });
    write(&b, |tx| {
        tx.kv_mut().sequence_next("x", "n").unwrap();
        tx.kv_mut().drop_bucket("empty").unwrap();
        tx.kv_mut()
            .create_bucket("empty", BucketOptions::default())
            .unwrap();
    });
    both(&a, &b);
    for store in [&a, &b] {
        let tx = store.begin(Access::Read).unwrap();
        let names: Vec<_> = tx.kv().list_buckets().unwrap();
        let names: Vec<&str> = names.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, ["empty", "x"]);
        assert_eq!(tx.kv().sequences("x").unwrap(), [("n".to_owned(), 4)]);
        assert_eq!(tx.kv().get("x", b"k").unwrap(), None);
    }
    // What was put concurrently is deleted, and the bucket, which has no creation any more, with it.
    write(&b, |tx| {
        tx.kv_mut().put("y", b"k", b"1").unwrap();
    });
    both(&a, &b);
    write(&a, |tx| assert!(tx.kv_mut().drop_bucket("y").unwrap()));
    write(&b, |tx| tx.kv_mut().put("y", b"l", b"2").unwrap());
    both(&a, &b);
    write(&a, |tx| tx.kv_mut().delete("y", b"l").unwrap());
    both(&a, &b);
    for store in [&a, &b] {
        let tx = store.begin(Access::Read).unwrap();
        assert!(
            tx.kv()
                .list_buckets()
                .unwrap()
                .iter()
                .all(|(name, _)| &**name != "y")
        );
    }
}

/// One name for two kinds: the map is read, the other one is listed, and becomes visible when the map is dropped.
#[test]
fn a_bucket_that_was_made_in_two_ways() {
    let (a, b) = (open(), open());
    write(&a, |tx| tx.kv_mut().put("x", b"k", b"map").unwrap());
    write(&b, |tx| {
        let options = BucketOptions::multi_value();
        tx.kv_mut().create_bucket("x", options).unwrap();
        tx.kv_mut().add("x", b"k", b"one").unwrap();
        tx.kv_mut().add("x", b"k", b"two").unwrap();
    });
    both(&a, &b);
    for store in [&a, &b] {
        let tx = store.begin(Access::Read).unwrap();
        assert_eq!(tx.kv().get("x", b"k").unwrap().unwrap(), b"map");
        let conflicts = conflicts::conflicts(&tx).unwrap();
        assert_eq!(conflicts.len(), 1);
        assert_eq!(conflicts[0].kind, ConflictKind::Bucket);
        assert_eq!(conflicts[0].record, "bucket x");
        assert_eq!(conflicts[0].value, Value::from("one value a key"));
        assert_eq!(conflicts[0].others, [Value::from("several values a key")]);
    }
    write(&b, |tx| {
        tx.kv_mut().put("x as map", b"k", b"map").unwrap();
        tx.kv_mut().drop_bucket("x").unwrap();
    });
    both(&a, &b);
    for store in [&a, &b] {
        let tx = store.begin(Access::Read).unwrap();
        assert_eq!(tx.kv().count("x", b"k").unwrap(), 2);
        assert_eq!(conflicts::conflicts(&tx).unwrap(), []);
        assert_eq!(store.check_buckets().unwrap(), Vec::<String>::new());
    }
}

/// Consumers of the change stream get the values that become visible when a map is dropped, and so does the check.
#[test]
fn dropping_a_map_reports_the_values_it_shadowed() {
    let (a, b) = (open(), open());
    write(&a, |tx| {
        tx.kv_mut().put("x", b"k", b"map").unwrap();
        tx.kv_mut().put("y", b"k", b"map").unwrap();
    });
    write(&b, |tx| {
        let options = BucketOptions::multi_value();
        for name in ["x", "y"] {
            tx.kv_mut().create_bucket(name, options).unwrap();
            tx.kv_mut().add(name, b"k\0", b"one").unwrap();
            tx.kv_mut().add(name, b"l", b"").unwrap();
        }
    });
    both(&a, &b);
    let mut watches: Vec<_> = [&a, &b]
        .map(|store| store.watch("x", WatchScope::All, None).unwrap())
        .into();
    write(&b, |tx| {
        tx.kv_mut().drop_bucket("x").unwrap();
        // A map that is created again metadata rows them as before.
        tx.kv_mut().drop_bucket("y").unwrap();
        tx.kv_mut().put("y", b"l", b"again").unwrap();
    });
    both(&a, &b);
    let mut watch = watches.remove(1);
    let mut next = || {
        let change = watch.next_within(std::time::Duration::ZERO).unwrap();
        change.map(|change| change.kind)
    };
    let added = |key: &[u8], value: &[u8]| {
        Some(KvChangeKind::Added {
            key: key.into(),
            value: value.into(),
        })
    };
    assert_eq!(next(), Some(KvChangeKind::Dropped));
    assert_eq!(next(), added(b"k\0", b"one"));
    assert_eq!(next(), added(b"l", b""));
    assert_eq!(next(), None);
    // An entry that arrives by merging is deleted if the drop had seen it, one by one.
    let there = watches.remove(0).next_within(std::time::Duration::ZERO);
    let gone = KvChangeKind::Deleted { key: b"k".into() };
    assert_eq!(there.unwrap().map(|change| change.kind), Some(gone));
    for store in [&a, &b] {
        let tx = store.begin(Access::Read).unwrap();
        assert_eq!(tx.kv().count("x", b"l").unwrap(), 1);
        assert_eq!(tx.kv().get("y", b"l").unwrap().unwrap(), b"again");
        let found = check(store, &mut |_, _| ControlFlow::Continue(())).unwrap();
        assert_eq!(found, Vec::<String>::new());
    }
    write(&a, |tx| tx.kv_mut().drop_bucket("y").unwrap());
    both(&a, &b);
    for store in [&a, &b] {
        let found = check(store, &mut |_, _| ControlFlow::Continue(())).unwrap();
        assert_eq!(found, Vec::<String>::new());
    }
}

/// A map that only one replica made reversible is not reversible, and keeps entries that are too long for a reverse
/// entry.
#[test]
fn a_map_that_is_reversible_for_one_maker_only() {
    let (a, b) = (open(), open());
    let long = vec![7; 40_000];
    write(&a, |tx| tx.kv_mut().put("x", b"long", &long).unwrap());
    let reversible = BucketOptions::reversible();
    write(&b, |tx| {
        tx.kv_mut().create_bucket("x", reversible).unwrap();
        tx.kv_mut().put("x", b"k", b"v").unwrap();
    });
    both(&a, &b);
    for store in [&a, &b] {
        let tx = store.begin(Access::Read).unwrap();
        assert!(tx.kv().keys_of("x", b"v", None, 9).is_err());
        assert_eq!(
            conflicts::conflicts(&tx).unwrap()[0].kind,
            ConflictKind::Bucket
        );
        assert_eq!(store.check_buckets().unwrap(), Vec::<String>::new());
    }
    // Removing only A's creation leaves B's: long values stay, without reverse entries.
    let c = open();
    send(&b, &c);
    write(&a, |tx| {
        tx.kv_mut().drop_bucket("x").unwrap();
        tx.kv_mut().create_bucket("x", reversible).unwrap();
    });
    write(&c, |tx| tx.kv_mut().put("x", b"longer", &long).unwrap());
    send(&c, &b);
    both(&a, &b);
    let tx = a.begin(Access::Read).unwrap();
    assert_eq!(tx.kv().get("x", b"longer").unwrap().unwrap(), long);
    assert_eq!(conflicts::conflicts(&tx).unwrap(), []);
    assert_eq!(
        tx.kv().keys_of("x", b"nothing", None, 9).unwrap(),
        Vec::<Vec<u8>>::new()
    );
    assert_eq!(a.check_buckets().unwrap(), Vec::<String>::new());
}

/// Creations and sequences are in state transfers and fingerprints.
#[test]
fn buckets_in_snapshots_and_scrubs() {
    let (a, b) = (open(), open());
    write(&a, |tx| {
        tx.kv_mut()
            .create_bucket("empty", BucketOptions::default())
            .unwrap();
        tx.kv_mut().sequence_next("s", "n").unwrap();
        tx.kv_mut()
            .create_bucket("gone", BucketOptions::default())
            .unwrap();
    });
    both(&a, &b);
    write(&a, |tx| assert!(tx.kv_mut().drop_bucket("gone").unwrap()));
    members::trim_log(&a).unwrap();
    transfer_state(&a, &b, 150);
    assert_eq!(dump(&a), dump(&b));
    assert_eq!(
        scrub::differing(&b, &scrub::fingerprints(&a).unwrap()).unwrap(),
        Some(vec![])
    );
    // Damage removes a sequence: the scrub restores it.
    let stored = keyspace::bucket_sequence(b.catalog().bucket_id("s").unwrap(), "n");
    let mut tx = b.engine().begin().unwrap();
    tx.delete(&stored).unwrap();
    tx.delete(&keyspace::cell(&stored)).unwrap();
    tx.commit(isomer_data::Durability::Buffered).unwrap();
    let differ = scrub::differing(&b, &scrub::fingerprints(&a).unwrap())
        .unwrap()
        .unwrap();
    assert!(!differ.is_empty());
    scrub::repair(&b, &scrub::ranges_page(&a, &differ).unwrap()).unwrap();
    assert_eq!(dump(&a), dump(&b));
}

/// `to` merges the whole state of `from`.
pub(super) fn transfer_state(from: &DataStore, to: &DataStore, bytes: usize) {
    let mut transfer = receive::begin_state_transfer(to).unwrap();
    loop {
        let page = send::state_page(from, transfer.cursor(), bytes).unwrap();
        if transfer.merge_page(to, &page).unwrap() {
            break;
        }
    }
}

/// Watches get a merged state when it is complete, and nothing that was read while only a part of it had arrived.
#[test]
fn nothing_is_read_as_whole_while_a_state_is_joined() {
    let (a, b) = (open(), open());
    for at in 0..20 {
        write(&a, |tx| person(tx, &format!("p{at}"), &[]));
    }
    let people = |store: &DataStore| {
        let tx = store.begin(Access::Read).unwrap();
        let keys = (0..20).map(|at| Value::from(format!("p{at}")));
        keys.filter(|key| tx.documents().node("Person", key).unwrap().is_some())
            .count()
    };
    let read = |store: &DataStore| store.while_whole(|| Ok(people(store))).unwrap();
    assert_eq!(read(&b), Some(0));
    let mut pages = 0;
    let mut transfer = receive::begin_state_transfer(&b).unwrap();
    loop {
        let page = send::state_page(&a, transfer.cursor(), 100).unwrap();
        pages += 1;
        if transfer.merge_page(&b, &page).unwrap() {
            break;
        }
        assert_eq!(read(&b), None);
    }
    drop(transfer);
    assert!(pages > 3, "{pages}");
    assert_eq!(read(&b), Some(20));
    // It begins and ends during a read.
    write(&a, |tx| person(tx, "late", &[]));
    let torn = b.while_whole(|| {
        transfer_state(&a, &b, 100);
        Ok(people(&b))
    });
    assert_eq!(torn.unwrap(), None);
    assert_eq!(read(&b), Some(20));
}

/// Fields are sent in runs of a few entries here: removals between two runs are merged as well, and an item with
/// several dots, or a folded one, is in one run.
#[test]
fn no_entry_is_between_two_runs_of_a_field() {
    for gone in 0..12 {
        let (a, b, c) = (open(), open(), open());
        write(&a, |tx| person(tx, "ada", &[]));
        for other in [&b, &c] {
            both(&a, other);
        }
        let operate = |store: &DataStore, path: &[&str], op: &ConvergentOp| {
            write(store, |tx| {
                let owner = ConvergentOwner::Node(find(tx, "ada"));
                tx.fields_mut().converge(owner, path, op, None).unwrap();
            });
        };
        // Each element twice at the same time, and counters in a map of many fields.
        for at in 0..12 {
            for store in [&a, &c] {
                operate(store, &["set"], &ConvergentOp::Insert(Value::Int(at)));
                let field = format!("f{at}");
                operate(store, &["map", &field], &ConvergentOp::Count(1));
            }
        }
        both(&a, &c);
        both(&a, &b);
        operate(&a, &["set"], &ConvergentOp::Remove(Value::Int(gone)));
        for _ in 0..70 {
            let field = format!("f{gone}");
            operate(&a, &["map", &field], &ConvergentOp::Count(1));
        }
        for bytes in [100, 1 << 20] {
            let late = crate::open(copy(&b), DataStoreOptions::default()).unwrap();
            transfer_state(&a, &late, bytes);
            assert_eq!(dump(&a), dump(&late), "{gone}, pages of {bytes} bytes");
            assert_eq!(late.check_convergent().unwrap(), Vec::<String>::new());
        }
    }
}

/// A field of a record that was deleted by a replica that had not seen the field arrives where the record still lived,
/// and exists when the record is created again.
#[test]
fn fields_outlive_their_record_where_it_still_lived() {
    for bytes in [100, 1 << 20] {
        let (a, b, state, late, maker) = (open(), open(), open(), open(), open());
        write(&a, |tx| person(tx, "ada", &[]));
        for other in [&b, &late] {
            both(&a, other);
        }
        write(&a, |tx| {
            let ada = find(tx, "ada");
            tx.graph_mut().delete_node(ada, true).unwrap();
        });
        count(&b, 6);
        send(&a, &state);
        send(&b, &state);
        transfer_state(&state, &late, bytes);
        assert_eq!(dump(&state), dump(&late));
        // A replica that has seen neither creates it as well.
        write(&maker, |tx| person(tx, "ada", &[("p", Value::Int(1))]));
        both(&maker, &state);
        both(&state, &late);
        let lines = dump(&late);
        assert!(
            lines.iter().any(|line| line.contains("n: Int(6)")),
            "{lines:?}"
        );
    }
}

/// A replica that was killed and has written nothing since hears of itself from others, and is not a member that it
/// waits for.
#[test]
fn a_replica_is_not_a_member_of_itself() {
    let (a, b) = (open(), open());
    let ada = write(&a, |tx| person(tx, "ada", &[]));
    both(&a, &b);
    exchange::read_greeting(&b, &exchange::greeting(&a).unwrap()).unwrap();
    let a = killed(a, ada);
    exchange::read_greeting(&a, &exchange::greeting(&b).unwrap()).unwrap();
    assert_eq!(members::replica_members(&a).unwrap().len(), 1);
}

/// Transactions that a restored backup lacks have reached others without those that were under way before: the others
/// stop waiting.
#[test]
fn what_was_never_committed_is_given_up_beyond_the_backup() {
    let (a, b, c) = (open(), open(), open());
    let ada = write(&a, |tx| person(tx, "ada", &[]));
    for other in [&b, &c] {
        both(&a, other);
    }
    let backup = copy(&a);
    // Its process is killed, and b merges what is left.
    let a = killed(a, ada);
    transfer_state(&a, &b, 1 << 20);
    find(&b.begin(Access::Read).unwrap(), "bea");
    drop(a);
    let a = crate::open(backup, DataStoreOptions::default()).unwrap();
    a.numbering().begin_epoch().unwrap();
    // Heard one after the other: nothing is given up before all were.
    for other in [&b, &c] {
        exchange::read_greeting(&a, &exchange::greeting(other).unwrap()).unwrap();
        exchange::give_up_unknown(&a).unwrap();
    }
    for (from, to) in [(&a, &b), (&b, &a), (&a, &c)] {
        if send(from, to).behind {
            transfer_state(from, to, 1 << 20);
        }
    }
    for store in [&a, &b, &c] {
        find(&store.begin(Access::Read).unwrap(), "bea");
    }
    assert_eq!(dump(&a), dump(&b));
    assert_eq!(dump(&a), dump(&c));
}

#[test]
fn a_log_says_where_it_begins() {
    let a = crate::open(Arc::new(MemoryEngine::new()), DataStoreOptions::default()).unwrap();
    write(&a, |tx| person(tx, "ada", &[]));
    begin::begin_replication(&a).unwrap();
    let b = open();
    assert!(send(&a, &b).behind);
    assert_eq!(dump(&b), Vec::<String>::new());
}

/// A process was killed while a transaction was under way. What was committed concurrently is forwarded, though nothing
/// is written afterwards.
#[test]
fn transactions_of_a_killed_process_block_nothing() {
    let (a, b) = (open(), open());
    let ada = write(&a, |tx| person(tx, "ada", &[]));
    both(&a, &b);
    let a = killed(a, ada);
    both(&a, &b);
    find(&b.begin(Access::Read).unwrap(), "bea");
    write(&b, |tx| person(tx, "cyd", &[]));
    both(&a, &b);
}

/// The leftovers of a process that was killed while a transaction was under way, and another one was committed
/// concurrently.
fn killed(store: DataStore, node: NodeId) -> DataStore {
    let mut begun = store.begin(Access::Write).unwrap();
    let owner = ConvergentOwner::Node(node);
    begun
        .fields_mut()
        .converge(owner, &["n"], &ConvergentOp::Count(1), None)
        .unwrap();
    write(&store, |tx| person(tx, "bea", &[]));
    let left = copy(&store);
    drop((begun, store));
    crate::open(left, DataStoreOptions::default()).unwrap()
}

/// A copy of the content of an engine.
pub(super) fn copy(store: &DataStore) -> Arc<MemoryEngine> {
    copy_of(&*store.engine().snapshot().unwrap())
}

/// A state without its change stream.
pub(super) fn copy_of(state: &dyn isomer_storage::Snapshot) -> Arc<MemoryEngine> {
    let copied = Arc::new(MemoryEngine::new());
    let mut tx = isomer_storage::Engine::begin(&*copied).unwrap();
    for tag in 0..=255_u8 {
        isomer_layout::pairs::each_pair(state, &[tag], |key, value| Ok(tx.put(key, value)?))
            .unwrap();
    }
    tx.commit(isomer_data::Durability::Synced).unwrap();
    copied
}

pub(super) fn count(store: &DataStore, by: i64) {
    write(store, |tx| {
        let ada = find(tx, "ada");
        tx.fields_mut()
            .converge(
                ConvergentOwner::Node(ada),
                &["n"],
                &ConvergentOp::Count(by),
                None,
            )
            .unwrap();
    });
}

/// What was written after a backup comes back from the others; what is written after it was restored is distinguished
/// from that.
#[test]
fn a_restored_backup_continues_under_another_name() {
    let (a, b) = (open(), open());
    write(&a, |tx| person(tx, "ada", &[]));
    count(&a, 1);
    both(&a, &b);
    let backup = copy(&a);
    count(&a, 10);
    write(&a, |tx| person(tx, "lost", &[]));
    both(&a, &b);
    drop(a);
    let a = crate::open(backup, DataStoreOptions::default()).unwrap();
    a.numbering().begin_epoch().unwrap();
    count(&a, 100);
    write(&a, |tx| person(tx, "new", &[]));
    let page = exchange::entries_for(&a, &exchange::greeting(&b).unwrap(), 1 << 20).unwrap();
    let back = exchange::entries_for(&b, &exchange::greeting(&a).unwrap(), 1 << 20).unwrap();
    exchange::apply_entries(&b, &page).unwrap();
    exchange::apply_entries(&a, &back).unwrap();
    exchange::give_up_unknown(&a).unwrap();
    both(&a, &b);
    let lines = dump(&a);
    assert_eq!(lines, dump(&b));
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(
        lines.iter().any(|line| line.contains("n: Int(111)")),
        "{lines:?}"
    );
}

/// After an unclean shutdown the first transaction has seen what was committed concurrently with one that was lost.
#[test]
fn the_first_transaction_after_a_crash_has_seen_all_that_is_here() {
    let (a, b) = (open(), open());
    let ada = write(&a, |tx| person(tx, "ada", &[]));
    both(&a, &b);
    let a = killed(a, ada);
    write(&a, |tx| {
        let bea = find(tx, "bea");
        tx.graph_mut().delete_node(bea, false).unwrap();
    });
    both(&a, &b);
    assert_eq!(dump(&b).len(), 1);
}

/// The process ended uncleanly after a backup, and its database continued under another epoch. The backup does not know
/// that epoch, and must not begin it again: its transactions would be taken for known ones.
#[test]
fn an_epoch_is_not_begun_twice() {
    let (a, b) = (open(), open());
    write(&a, |tx| person(tx, "ada", &[]));
    both(&a, &b);
    let backup = copy(&a);
    let after = crate::open(copy(&a), DataStoreOptions::default()).unwrap();
    drop(a);
    write(&after, |tx| person(tx, "bea", &[]));
    count(&after, 1);
    both(&after, &b);
    let restored = crate::open(backup, DataStoreOptions::default()).unwrap();
    restored.numbering().begin_epoch().unwrap();
    assert_ne!(restored.replica(), after.replica());
    write(&restored, |tx| person(tx, "cyd", &[]));
    count(&restored, 10);
    both(&restored, &b);
    let lines = dump(&b);
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(
        lines.iter().any(|line| line.contains("n: Int(11)")),
        "{lines:?}"
    );
}

#[test]
fn impossible_pages_are_refused() {
    let (a, b) = (open(), open());
    write(&a, |tx| person(tx, "ada", &[("x", Value::Int(1))]));
    let page = exchange::entries_for(&a, &exchange::greeting(&b).unwrap(), 1 << 20).unwrap();
    // Truncated, or damaged: an error, and nothing of the transaction.
    for cut in 0..page.len() {
        let _ = exchange::apply_entries(&b, &page[..cut]);
        assert_eq!(dump(&b), Vec::<String>::new(), "cut at {cut}");
    }
    for at in 0..page.len() {
        let mut damaged = page.clone();
        damaged[at] ^= 0x55;
        let c = open();
        let _ = exchange::apply_entries(&c, &damaged);
        let _ = exchange::read_greeting(&c, &damaged);
        let _ = receive::begin_state_transfer(&c)
            .unwrap()
            .merge_page(&c, &damaged);
    }
    let other_format = [&[9], &page[1..]].concat();
    let refused = exchange::apply_entries(&b, &other_format).unwrap_err();
    assert_eq!(
        refused.kind(),
        isomer_data::ErrorKind::Unsupported,
        "{refused}"
    );
    // Applying twice equals applying once.
    exchange::apply_entries(&b, &page).unwrap();
    let again = exchange::apply_entries(&b, &page).unwrap();
    assert_eq!((again.transactions, again.known), (0, 1));
    // One with this database's own name.
    let c = crate::open(copy(&b), DataStoreOptions::default()).unwrap();
    let name = c.numbering().enter(b.replica().unwrap()).unwrap();
    forge(&c, name, 0);
    let page = exchange::entries_for(&c, &exchange::greeting(&b).unwrap(), 1 << 20).unwrap();
    let refused = exchange::apply_entries(&b, &page).unwrap_err();
    assert!(refused.to_string().contains("own name"), "{refused}");
    // One from the future.
    let c = open();
    let name = own_replica(&c).own().unwrap();
    forge(&c, name, 3_600_000);
    let page = exchange::entries_for(&c, &exchange::greeting(&b).unwrap(), 1 << 20).unwrap();
    let refused = exchange::apply_entries(&b, &page).unwrap_err();
    assert!(
        refused.to_string().contains("seconds from now"),
        "{refused}"
    );
    both(&a, &b);
}

/// Writes a forged entry.
fn forge(store: &DataStore, origin: isomer_data::ReplicaNo, ahead_ms: u64) {
    let number = 1 + store
        .numbering()
        .seen_in(&*store.engine().snapshot().unwrap(), None)
        .unwrap()
        .upto(origin)
        .max(1);
    let entry = crate::entry::LogEntry {
        origin,
        number,
        time: (store.options().clock.now_ms() + ahead_ms) << 16,
        seen: isomer_data::Vector::new(),
        ops: Vec::new(),
    };
    apply::apply_entry(store, &entry).unwrap();
    let mut tx = store.engine().begin().unwrap();
    tx.put(&isomer_layout::keyspace::own_number(number), &[])
        .unwrap();
    tx.commit(isomer_data::Durability::Synced).unwrap();
    let ticket = store.numbering().take().unwrap();
    ticket.committed(store.engine().version());
}

#[test]
fn too_many_replicas_are_refused() {
    let (a, b) = (open(), open());
    both(&a, &b);
    let mut greeting = Vec::new();
    for number in 0..10_000_u32 {
        let mut id = [7; 16];
        id[..4].copy_from_slice(&number.to_be_bytes());
        greeting.push(isomer_data::ReplicaId { id, epoch: 0 });
    }
    let refused = greeting.iter().find_map(|name| {
        own_replica(&a)
            .number(*name)
            .is_none()
            .then(|| a.numbering().enter(*name))
            .and_then(Result::err)
    });
    let refused = refused.unwrap();
    assert_eq!(refused.kind(), isomer_data::ErrorKind::Limit, "{refused}");
    // It continues with those that it knows.
    write(&a, |tx| person(tx, "ada", &[]));
    write(&b, |tx| person(tx, "bob", &[]));
    assert_eq!(send(&a, &b).transactions, 1);
}

/// A number is not shipped while a lower one is under way: the lower one could not be sent afterwards.
#[test]
fn lower_numbers_come_first() {
    let (a, b) = (open(), open());
    write(&a, |tx| person(tx, "ada", &[]));
    let mut slow = a.begin(Access::Write).unwrap();
    let ada = find(&slow, "ada");
    slow.fields_mut()
        .converge(
            ConvergentOwner::Node(ada),
            &["n"],
            &ConvergentOp::Count(1),
            None,
        )
        .unwrap();
    write(&a, |tx| person(tx, "bob", &[]));
    send(&a, &b);
    slow.commit().unwrap();
    send(&a, &b);
    assert_eq!(dump(&a), dump(&b));
}

#[test]
fn conflicts_are_listed_until_they_are_resolved() {
    let (a, b) = (open(), open());
    for store in [&a, &b] {
        let mut tx = store.begin(Access::Write).unwrap();
        let spec = isomer_data::IndexSpec {
            name: Some("email".into()),
            scope: isomer_data::ScopeName::label("Person"),
            fields: vec![isomer_data::IndexField {
                path: isomer_data::FieldPath::new(["email"]),
                each: false,
            }],
            unique: true,
        };
        tx.change_schema(isomer_data::SchemaChange::CreateIndex {
            spec,
            if_not_exists: false,
        })
        .unwrap();
    }
    write(&a, |tx| {
        person(
            tx,
            "ada",
            &[
                ("email", Value::from("x@y")),
                ("city", Value::from("London")),
            ],
        )
    });
    write(&b, |tx| {
        person(tx, "bob", &[("email", Value::from("x@y"))]);
        person(tx, "ada", &[("city", Value::from("Paris"))])
    });
    both(&a, &b);
    for store in [&a, &b] {
        let conflicts = conflicts::conflicts(&store.begin(Access::Read).unwrap()).unwrap();
        let kinds: Vec<_> = conflicts.iter().map(|one| one.kind.name()).collect();
        assert_eq!(kinds, ["property", "unique"], "{conflicts:?}");
        let cities = [&conflicts[0].value, &conflicts[0].others[0]];
        assert!(
            cities.contains(&&Value::from("Paris")) && cities.contains(&&Value::from("London"))
        );
    }
    write(&a, |tx| {
        let (ada, bob) = (find(tx, "ada"), find(tx, "bob"));
        tx.graph_mut()
            .set_node_property(ada, &["city"], Value::from("Rome"))
            .unwrap();
        tx.graph_mut()
            .set_node_property(bob, &["email"], Value::from("bob@y"))
            .unwrap();
    });
    both(&a, &b);
    for store in [&a, &b] {
        assert_eq!(
            conflicts::conflicts(&store.begin(Access::Read).unwrap()).unwrap(),
            []
        );
    }
}

/// Relationships that break a unique constraint or an existence constraint after a merge are conflicts until a user
/// resolves them; indexes over relationships follow the merges.
#[test]
fn conflicts_of_relationships_are_listed_until_they_are_resolved() {
    let (a, b) = (open(), open());
    let field = isomer_data::IndexField {
        path: isomer_data::FieldPath::top("number"),
        each: false,
    };
    for store in [&a, &b] {
        let mut tx = store.begin(Access::Write).unwrap();
        tx.change_schema(isomer_data::SchemaChange::CreateIndex {
            spec: isomer_data::IndexSpec {
                name: Some("number".into()),
                scope: isomer_data::ScopeName::rel_type("PAID"),
                fields: vec![field.clone()],
                unique: true,
            },
            if_not_exists: false,
        })
        .unwrap();
    }
    write(&a, |tx| {
        person(tx, "ada", &[]);
        person(tx, "bob", &[])
    });
    both(&a, &b);
    let pay = |tx: &mut Transaction| {
        let (ada, bob) = (find(tx, "ada"), find(tx, "bob"));
        let paid = tx.name_ids().intern_type("PAID").unwrap();
        let seven = map(&[("number", Value::Int(7))]);
        tx.graph_mut()
            .create_relationship(paid, ada, bob, &seven)
            .unwrap()
    };
    let own = write(&a, pay);
    write(&b, pay);
    both(&a, &b);
    for store in [&a, &b] {
        let conflicts = conflicts::conflicts(&store.begin(Access::Read).unwrap()).unwrap();
        let shown: Vec<_> = conflicts
            .iter()
            .map(|one| (one.kind.name(), one.field.as_str()))
            .collect();
        assert_eq!(shown, [("unique", "number")], "{conflicts:?}");
        assert!(
            conflicts[0].record.starts_with("relationship "),
            "{conflicts:?}"
        );
    }
    write(&a, |tx| {
        tx.graph_mut()
            .set_relationship_property(own, &["number"], Value::Int(8))
            .unwrap();
    });
    both(&a, &b);
    for store in [&a, &b] {
        let tx = store.begin(Access::Read).unwrap();
        assert_eq!(conflicts::conflicts(&tx).unwrap(), []);
        let seek = isomer_data::IndexSeek {
            index: tx.catalog().index_named("number").unwrap().id,
            prefix: &[],
            range: (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded),
            order: isomer_data::Order::Ascending,
        };
        let (mut cursor, mut found) = (isomer_data::IndexCursor::default(), Vec::new());
        tx.relationship_index_seek(&seek, &mut cursor, 10, &mut found)
            .unwrap();
        assert_eq!(found.len(), 2);
    }
}

/// A record lost by one of two is restored; equal records are left alone.
#[test]
fn a_scrub_finds_and_repairs_damage() {
    let (a, b) = (open(), open());
    // Other numbers of names, other ids.
    write(&b, |tx| {
        let label = tx.name_ids().intern_label("Z").unwrap();
        tx.graph_mut()
            .create_node(&[label], &map(&[("zz", Value::Int(1))]))
            .unwrap();
        tx.kv_mut().put("zz", b"k", b"v").unwrap();
    });
    write(&a, |tx| {
        let ada = person(
            tx,
            "ada",
            &[
                ("x", Value::Int(1)),
                ("m", Value::Map(Arc::new(map(&[("y", Value::Int(2))])))),
            ],
        );
        let bob = person(tx, "bob", &[]);
        let knows = tx.name_ids().intern_type("KNOWS").unwrap();
        tx.graph_mut()
            .create_relationship(knows, ada, bob, &map(&[("w", Value::Int(3))]))
            .unwrap();
        let owner = ConvergentOwner::Node(ada);
        tx.fields_mut()
            .converge(owner, &["n"], &ConvergentOp::Count(5), None)
            .unwrap();
        tx.fields_mut()
            .converge(
                owner,
                &["tags"],
                &ConvergentOp::Insert(Value::from("x")),
                None,
            )
            .unwrap();
        tx.kv_mut().put("b", b"k", b"v").unwrap();
    });
    both(&a, &b);
    let differing = || {
        scrub::differing(&a, &scrub::fingerprints(&b).unwrap())
            .unwrap()
            .unwrap()
    };
    assert_eq!(differing(), Vec::<u16>::new());
    // A disk forgets a record with its convergent fields, a relationship and a key.
    let whole = dump(&a);
    apply::merging(&b, |tx| {
        let (ada, mut found) = (find(tx, "ada"), Neighbours::new());
        tx.expand(&[ada], Direction::Both, &[], &mut found).unwrap();
        for row in found.rows() {
            apply::purge_relationship(tx, row.id).unwrap();
        }
        let metadata = records::node_metadata(tx, ada).unwrap().unwrap();
        tx.graph_mut().delete_node(ada, true).unwrap();
        records::delete_metadata(
            tx,
            isomer_layout::keyspace::IdSpace::Nodes,
            ada.0,
            &metadata.identity,
        )
        .unwrap();
        let bucket = tx.names().bucket_id("b").unwrap();
        cells::put_cell(
            tx,
            &isomer_layout::keyspace::bucket_entry(bucket, b"k"),
            &[],
        )
        .unwrap();
        tx.kv_mut().delete("b", b"k")
    })
    .unwrap();
    assert_ne!(dump(&b), whole);
    let ranges = differing();
    assert!(!ranges.is_empty() && ranges.len() <= 3, "{ranges:?}");
    let (ours, theirs) = (
        scrub::ranges_page(&a, &ranges).unwrap(),
        scrub::ranges_page(&b, &ranges).unwrap(),
    );
    scrub::repair(&a, &theirs).unwrap();
    scrub::repair(&b, &ours).unwrap();
    assert_eq!(dump(&a), whole);
    assert_eq!(dump(&b), whole);
    assert_eq!(differing(), Vec::<u16>::new());
    both(&a, &b);
    // Replicas that have not seen the same cannot be compared.
    write(&a, |tx| person(tx, "new", &[]));
    assert_eq!(
        scrub::differing(&a, &scrub::fingerprints(&b).unwrap()).unwrap(),
        None
    );
}
