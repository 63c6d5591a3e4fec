//! Small histories, one behaviour each.

use std::sync::Arc;

use isomer_storage::MemoryEngine;
use isomer_value::{Map, NodeId, Value};

use super::dump::dump;
use crate::replication::rules::{Mutant, break_rule};
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

/// A copy of all that an engine holds.
pub(super) fn copy(store: &Store) -> Arc<MemoryEngine> {
    let copied = Arc::new(MemoryEngine::new());
    let snapshot = store.engine().snapshot().unwrap();
    let mut tx = isomer_storage::Engine::begin(&*copied).unwrap();
    for tag in 0..=255_u8 {
        crate::read::each_pair(&*snapshot, &[tag], |key, value| Ok(tx.put(key, value)?)).unwrap();
    }
    tx.commit(crate::Durability::Synced).unwrap();
    copied
}

fn count(store: &Store, by: i64) {
    write(store, |tx| {
        let ada = find(tx, "ada");
        tx.converge(
            ConvergentOwner::Node(ada),
            &["n"],
            &ConvergentOp::Count(by),
            None,
        )
        .unwrap();
    });
}

/// What was written after a backup comes back from the others; what is written after it was restored is told apart from that.
#[test]
fn a_restored_backup_goes_on_under_another_name() {
    for mutant in [None, Some(Mutant::NoEpochAfterRestore)] {
        let (a, b) = (open(), open());
        write(&a, |tx| person(tx, "ada", &[]));
        count(&a, 1);
        both(&a, &b);
        let backup = copy(&a);
        count(&a, 10);
        write(&a, |tx| person(tx, "lost", &[]));
        both(&a, &b);
        drop(a);
        let a = Store::open(backup, StoreOptions::default()).unwrap();
        if mutant.is_none() {
            a.begin_epoch().unwrap();
        }
        count(&a, 100);
        write(&a, |tx| person(tx, "new", &[]));
        let page = a.entries_for(&b.greeting().unwrap(), 1 << 20).unwrap();
        let back = b.entries_for(&a.greeting().unwrap(), 1 << 20).unwrap();
        let exchanged = b.apply_entries(&page).and_then(|_| a.apply_entries(&back));
        a.give_up_unknown().unwrap();
        if mutant.is_none() {
            exchanged.unwrap();
            both(&a, &b);
            let lines = dump(&a);
            assert_eq!(lines.len(), 3, "{lines:?}");
            assert!(
                lines.iter().any(|line| line.contains("n: Int(111)")),
                "{lines:?}"
            );
        } else {
            // An opening that ended with a crash begins an epoch, too; but it has given up what it does not know.
            let whole = exchanged.is_ok() && dump(&a) == dump(&b);
            assert!(!whole, "a restore without a new epoch goes unnoticed");
        }
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let (a, b) = (open(), open());
    write(&a, |tx| person(tx, "ada", &[("x", Value::Int(1))]));
    let page = a.entries_for(&b.greeting().unwrap(), 1 << 20).unwrap();
    // Cut off, or damaged: an error, and nothing of the transaction.
    for cut in 0..page.len() {
        let _ = b.apply_entries(&page[..cut]);
        assert_eq!(dump(&b), Vec::<String>::new(), "cut at {cut}");
    }
    for at in 0..page.len() {
        let mut damaged = page.clone();
        damaged[at] ^= 0x55;
        let c = open();
        let _ = c.apply_entries(&damaged);
        let _ = c.greeted(&damaged);
        let _ = c.begin_join().unwrap().join_page(&c, &damaged);
    }
    let other_format = [&[9], &page[1..]].concat();
    let refused = b.apply_entries(&other_format).unwrap_err();
    assert_eq!(refused.kind(), crate::ErrorKind::Unsupported, "{refused}");
    // Twice is once.
    b.apply_entries(&page).unwrap();
    let again = b.apply_entries(&page).unwrap();
    assert_eq!((again.transactions, again.known), (0, 1));
    // One that bears this database's own name.
    let c = Store::open(copy(&b), StoreOptions::default()).unwrap();
    let name = c.enter_replica(b.replica().unwrap()).unwrap();
    forge(&c, name, 0);
    let page = c.entries_for(&b.greeting().unwrap(), 1 << 20).unwrap();
    let refused = b.apply_entries(&page).unwrap_err();
    assert!(refused.to_string().contains("own name"), "{refused}");
    // One from the future.
    let c = open();
    let name = c.shared().own_replica.own().unwrap();
    forge(&c, name, 3_600_000);
    let page = c.entries_for(&b.greeting().unwrap(), 1 << 20).unwrap();
    let refused = b.apply_entries(&page).unwrap_err();
    assert!(
        refused.to_string().contains("seconds from now"),
        "{refused}"
    );
    both(&a, &b);
}

/// Writes an entry that nobody wrote.
fn forge(store: &Store, origin: crate::ReplicaNo, ahead_ms: u64) {
    let number = 1 + store
        .seen_in(&*store.engine().snapshot().unwrap(), None)
        .unwrap()
        .upto(origin)
        .max(1);
    let entry = crate::replication::entry::Entry {
        origin,
        number,
        time: (store.options().clock.now_ms() + ahead_ms) << 16,
        seen: crate::Vector::new(),
        ops: Vec::new(),
    };
    store.apply_entry(&entry).unwrap();
    let mut tx = store.engine().begin().unwrap();
    tx.put(&crate::keyspace::own_number(number), &[]).unwrap();
    tx.commit(crate::Durability::Synced).unwrap();
    let ticket = store.take_number().unwrap();
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
        greeting.push(crate::ReplicaId { id, epoch: 0 });
    }
    let refused = greeting.iter().find_map(|name| {
        a.shared()
            .own_replica
            .number(*name)
            .is_none()
            .then(|| a.enter_replica(*name))
            .and_then(Result::err)
    });
    let refused = refused.unwrap();
    assert_eq!(refused.kind(), crate::ErrorKind::Limit, "{refused}");
    // It goes on with those that it knows.
    write(&a, |tx| person(tx, "ada", &[]));
    write(&b, |tx| person(tx, "bob", &[]));
    assert_eq!(send(&a, &b).transactions, 1);
}

/// A number is not shipped while a lower one is under way: nothing could be told of that one afterwards.
#[test]
fn lower_numbers_come_first() {
    for mutant in [None, Some(Mutant::ShipsUnsettled)] {
        break_rule(mutant);
        let (a, b) = (open(), open());
        write(&a, |tx| person(tx, "ada", &[]));
        let mut slow = a.begin(Access::Write).unwrap();
        let ada = find(&slow, "ada");
        slow.converge(
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
        break_rule(None);
        let same = dump(&a) == dump(&b);
        assert_eq!(same, mutant.is_none(), "{:?}", dump(&b));
    }
}

#[test]
fn conflicts_are_listed_until_they_are_settled() {
    let (a, b) = (open(), open());
    for store in [&a, &b] {
        let mut tx = store.begin(Access::Write).unwrap();
        let spec = crate::IndexSpec {
            name: Some("email".into()),
            label: "Person".into(),
            fields: vec![crate::IndexField {
                path: crate::FieldPath::new(["email"]),
                each: false,
            }],
            unique: true,
        };
        tx.change_schema(crate::SchemaChange::CreateIndex {
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
        let conflicts = store.begin(Access::Read).unwrap().conflicts().unwrap();
        let kinds: Vec<_> = conflicts.iter().map(|one| one.kind.name()).collect();
        assert_eq!(kinds, ["property", "unique"], "{conflicts:?}");
        let cities = [&conflicts[0].value, &conflicts[0].others[0]];
        assert!(
            cities.contains(&&Value::from("Paris")) && cities.contains(&&Value::from("London"))
        );
    }
    write(&a, |tx| {
        let (ada, bob) = (find(tx, "ada"), find(tx, "bob"));
        tx.set_node_property(ada, &["city"], Value::from("Rome"))
            .unwrap();
        tx.set_node_property(bob, &["email"], Value::from("bob@y"))
            .unwrap();
    });
    both(&a, &b);
    for store in [&a, &b] {
        assert_eq!(store.begin(Access::Read).unwrap().conflicts().unwrap(), []);
    }
}

/// What one of two lost comes back; what is the same is left alone.
#[test]
fn a_scrub_finds_and_repairs_damage() {
    let (a, b) = (open(), open());
    // Other numbers of names, other ids.
    write(&b, |tx| {
        let label = tx.intern_label("Z").unwrap();
        tx.create_node(&[label], &map(&[("zz", Value::Int(1))]))
            .unwrap();
        tx.kv_put("zz", b"k", b"v").unwrap();
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
        let knows = tx.intern_type("KNOWS").unwrap();
        tx.create_relationship(knows, ada, bob, &map(&[("w", Value::Int(3))]))
            .unwrap();
        let owner = ConvergentOwner::Node(ada);
        tx.converge(owner, &["n"], &ConvergentOp::Count(5), None)
            .unwrap();
        tx.converge(
            owner,
            &["tags"],
            &ConvergentOp::Insert(Value::from("x")),
            None,
        )
        .unwrap();
        tx.kv_put("b", b"k", b"v").unwrap();
    });
    both(&a, &b);
    let differing = || a.differing(&b.fingerprints().unwrap()).unwrap().unwrap();
    assert_eq!(differing(), Vec::<u16>::new());
    // A disk forgets a record with its convergent fields, a relationship and a key.
    let whole = dump(&a);
    b.merging(|tx| {
        let (ada, mut found) = (find(tx, "ada"), Neighbours::new());
        tx.expand(&[ada], Direction::Both, &[], &mut found).unwrap();
        for row in found.rows() {
            tx.purge_relationship(row.id).unwrap();
        }
        let shadow = tx.node_shadow(ada).unwrap().unwrap();
        tx.delete_node(ada, true).unwrap();
        tx.drop_shadow(crate::keyspace::IdSpace::Nodes, ada.0, &shadow.identity)
            .unwrap();
        let bucket = tx.names().bucket_id("b").unwrap();
        tx.put_cell(&crate::keyspace::bucket_entry(bucket, b"k"), &[])
            .unwrap();
        tx.kv_delete("b", b"k")
    })
    .unwrap();
    assert_ne!(dump(&b), whole);
    let ranges = differing();
    assert!(!ranges.is_empty() && ranges.len() <= 3, "{ranges:?}");
    let (ours, theirs) = (
        a.ranges_page(&ranges).unwrap(),
        b.ranges_page(&ranges).unwrap(),
    );
    a.repair(&theirs).unwrap();
    b.repair(&ours).unwrap();
    assert_eq!(dump(&a), whole);
    assert_eq!(dump(&b), whole);
    assert_eq!(differing(), Vec::<u16>::new());
    both(&a, &b);
    // Those that have not seen the same cannot be compared.
    write(&a, |tx| person(tx, "new", &[]));
    assert_eq!(a.differing(&b.fingerprints().unwrap()).unwrap(), None);
}
