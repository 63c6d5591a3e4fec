//! Small histories, one behaviour each.

use std::sync::Arc;

use isomer_storage::MemoryEngine;
use isomer_value::{Map, NodeId, Value};

use super::dump::dump;
use crate::{
    Access, Applied, ConvergentOp, ConvergentOwner, Direction, Expiry, GraphRead, Neighbours,
    Store, StoreOptions, Transaction,
};

pub(super) fn open() -> Store {
    let store = Store::open(Arc::new(MemoryEngine::new()), StoreOptions::default()).unwrap();
    store.begin_replication().unwrap();
    store
}

pub(super) fn write<T>(store: &Store, body: impl FnOnce(&mut Transaction) -> T) -> T {
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

/// What `to` lacks of `from`.
pub(super) fn send(from: &Store, to: &Store) -> Applied {
    let page = from.entries_for(&to.greeting().unwrap(), 1 << 20).unwrap();
    to.apply_entries(&page).unwrap()
}

pub(super) fn both(one: &Store, other: &Store) {
    send(one, other);
    send(other, one);
    assert_eq!(dump(one), dump(other));
    for store in [one, other] {
        assert_eq!(store.check_convergent().unwrap(), Vec::<String>::new());
    }
}

fn person(tx: &mut Transaction, key: &str, more: &[(&str, Value)]) -> NodeId {
    let label = tx.intern_label("Person").unwrap();
    let mut properties = map(more);
    properties.insert("_key", Value::from(key));
    tx.create_node(&[label], &properties).unwrap()
}

fn find(tx: &Transaction, key: &str) -> NodeId {
    tx.document_node("Person", &Value::from(key))
        .unwrap()
        .expect("the person")
}

#[test]
fn what_one_does_the_other_has() {
    let (a, b) = (open(), open());
    // Numbers of names differ.
    write(&b, |tx| {
        for name in ["X", "Y"] {
            let label = tx.intern_label(name).unwrap();
            tx.create_node(
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
        let knows = tx.intern_type("KNOWS").unwrap();
        tx.create_relationship(knows, ada, bob, &map(&[("since", Value::Int(1833))]))
            .unwrap();
        tx.create_relationship(knows, ada, ada, &Map::new())
            .unwrap();
        let owner = ConvergentOwner::Node(ada);
        tx.converge(owner, &["likes"], &ConvergentOp::Count(5), None)
            .unwrap();
        tx.converge(
            owner,
            &["m", "tags"],
            &ConvergentOp::Insert(Value::from("x")),
            None,
        )
        .unwrap();
        tx.kv_put("b", b"k", b"v").unwrap();
        tx.kv_put_value(
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
        tx.set_node_property(ada, &["address", "city"], Value::from("Paris"))
            .unwrap();
        let label = tx.intern_label("Y").unwrap();
        tx.add_label(ada, label).unwrap();
        let bob = find(tx, "bob");
        tx.delete_node(bob, true).unwrap();
        tx.converge(
            ConvergentOwner::Node(ada),
            &["m", "tags"],
            &ConvergentOp::Remove(Value::from("x")),
            None,
        )
        .unwrap();
        tx.kv_delete("b", b"k").unwrap();
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
    assert_eq!(a.replication_status().unwrap().conflicts, 1);
    // Who has seen both decides.
    write(&b, |tx| {
        let ada = find(tx, "ada");
        tx.set_node_property(ada, &["both"], Value::from("c"))
            .unwrap();
    });
    both(&a, &b);
    assert_eq!(a.replication_status().unwrap().conflicts, 0);
    assert_eq!(b.replication_status().unwrap().conflicts, 0);
    assert!(
        dump(&a)[0].contains("both: String(\"c\")"),
        "{:?}",
        dump(&a)
    );
}

/// Deleting takes what was seen; what was not comes back for one made anew by somebody who had not seen it go.
#[test]
fn what_a_deletion_has_not_seen() {
    for order in 0..2 {
        let (a, b, c) = (open(), open(), open());
        write(&a, |tx| person(tx, "ada", &[("x", Value::Int(1))]));
        both(&a, &b);
        both(&a, &c);
        write(&a, |tx| {
            let ada = find(tx, "ada");
            tx.delete_node(ada, false).unwrap();
        });
        write(&b, |tx| {
            let ada = find(tx, "ada");
            tx.set_node_property(ada, &["y"], Value::Int(2)).unwrap();
            tx.converge(
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
fn relationships_go_with_the_ends_they_were_made_for() {
    let (a, b) = (open(), open());
    write(&a, |tx| {
        person(tx, "ada", &[]);
        person(tx, "bob", &[]);
    });
    both(&a, &b);
    write(&a, |tx| {
        let ada = find(tx, "ada");
        tx.delete_node(ada, false).unwrap();
    });
    write(&b, |tx| {
        let (ada, bob) = (find(tx, "ada"), find(tx, "bob"));
        let knows = tx.intern_type("KNOWS").unwrap();
        tx.create_relationship(knows, ada, bob, &Map::new())
            .unwrap();
    });
    both(&a, &b);
    assert_eq!(dump(&a).len(), 1);
    // Made anew it is another one to relationships.
    write(&a, |tx| person(tx, "ada", &[]));
    both(&a, &b);
    let tx = b.begin(Access::Read).unwrap();
    let mut found = Neighbours::new();
    tx.expand(&[find(&tx, "ada")], Direction::Both, &[], &mut found)
        .unwrap();
    assert!(found.rows().is_empty());
}

#[test]
fn buckets_keep_the_later_value_and_ranges_take_what_was_seen() {
    let (a, b) = (open(), open());
    write(&a, |tx| {
        for key in ["k1", "k2", "k3"] {
            tx.kv_put("b", key.as_bytes(), b"old").unwrap();
        }
    });
    both(&a, &b);
    write(&a, |tx| {
        let range = crate::KeyRange {
            start: b"",
            end: None,
        };
        tx.kv_delete_range("b", range).unwrap();
    });
    write(&b, |tx| tx.kv_put("b", b"k2", b"new").unwrap());
    write(&a, |tx| tx.kv_put("c", b"k", b"from a").unwrap());
    write(&b, |tx| tx.kv_put("c", b"k", b"from b").unwrap());
    both(&a, &b);
    assert_eq!(dump(&a).len(), 2);
    assert_eq!(a.replication_status().unwrap().conflicts, 1);
    // A dropped bucket takes what was seen in it.
    write(&a, |tx| {
        assert!(tx.drop_bucket("b").unwrap());
    });
    write(&b, |tx| tx.kv_put("b", b"k9", b"unseen").unwrap());
    both(&a, &b);
    assert_eq!(dump(&a).len(), 2);
}

/// What was there before a database became a replica has no log.
#[test]
fn a_log_says_where_it_begins() {
    let a = Store::open(Arc::new(MemoryEngine::new()), StoreOptions::default()).unwrap();
    write(&a, |tx| person(tx, "ada", &[]));
    a.begin_replication().unwrap();
    let b = open();
    assert!(send(&a, &b).behind);
    assert_eq!(dump(&b), Vec::<String>::new());
}
