//! Local transactions that run concurrently with merges: one of the two conflicts, or it would overwrite what it has
//! not seen.

use isomer_data::{
    Access, BucketOptions, ConvergentOp, ConvergentOwner, DataStore, ErrorKind, GraphRead,
    Transaction, internals::own_replica,
};
use isomer_value::{Map, NodeId, RelId, Value};

use super::{
    dump::dump,
    small::{both, map, open, send, write},
};
use crate::{exchange, status};

/// Runs `body` on `a`; `b`'s transactions are merged before it commits. Returns whether it had to run again.
fn race(a: &DataStore, b: &DataStore, body: impl Fn(&mut Transaction)) -> bool {
    let mut runs = 0;
    loop {
        let mut tx = a.begin(Access::Write).unwrap();
        body(&mut tx);
        if runs == 0 {
            send(b, a);
        }
        runs += 1;
        match tx.commit() {
            Ok(_) => break,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Retry, "{error}"),
        }
    }
    for _ in 0..2 {
        both(a, b);
        let conflicts = |store: &DataStore| status::replication_status(store).unwrap().conflicts;
        assert_eq!(conflicts(a), conflicts(b));
        assert_eq!(a.check_convergent().unwrap(), Vec::<String>::new());
    }
    runs > 1
}

fn add(tx: &mut Transaction, more: &[(&str, Value)]) -> NodeId {
    let label = tx.name_ids().intern_label("L").unwrap();
    let mut properties = map(more);
    properties.insert("_key", Value::Int(1));
    tx.graph_mut().create_node(&[label], &properties).unwrap()
}

fn node(tx: &Transaction) -> NodeId {
    tx.documents().node("L", &Value::Int(1)).unwrap().unwrap()
}

fn count(tx: &mut Transaction, by: i64) {
    let owner = ConvergentOwner::Node(node(tx));
    tx.fields_mut()
        .converge(owner, &["n"], &ConvergentOp::Count(by), None)
        .unwrap();
}

fn relationship(tx: &Transaction) -> RelId {
    let mut rows = Vec::new();
    tx.scan_relationships(None, None, 9, &mut rows).unwrap();
    rows[0].id
}

#[test]
fn a_deletion_concurrent_with_an_invisible_creation() {
    let (a, b) = (open(), open());
    write(&a, |tx| add(tx, &[]));
    write(&b, |tx| add(tx, &[]));
    assert!(race(&a, &b, |tx| {
        let node = node(tx);
        tx.graph_mut().delete_node(node, true).unwrap();
    }));
    assert_eq!(dump(&a), Vec::<String>::new());
}

#[test]
fn a_change_concurrent_with_a_version_that_is_not_read() {
    let (a, b) = (open(), open());
    write(&a, |tx| add(tx, &[]));
    both(&a, &b);
    let set = |tx: &mut Transaction, name: &str, value: i64| {
        let node = node(tx);
        tx.graph_mut()
            .set_node_property(node, &[name], Value::Int(value))
            .unwrap();
    };
    write(&b, |tx| set(tx, "p", 1));
    let now = a.options().clock.now_ms();
    own_replica(&a).advance_time((now + 60_000) << 16);
    write(&a, |tx| set(tx, "p", 2));
    assert!(race(&a, &b, |tx| set(tx, "q", 3)));
    assert_eq!(status::replication_status(&a).unwrap().conflicts, 1);
}

#[test]
fn a_deletion_concurrent_with_an_increment() {
    for is_new in [true, false] {
        let (a, b) = (open(), open());
        write(&a, |tx| {
            add(tx, &[]);
            if !is_new {
                count(tx, 1);
            }
        });
        both(&a, &b);
        write(&b, |tx| count(tx, 5));
        assert!(race(&a, &b, |tx| {
            let node = node(tx);
            tx.graph_mut().delete_node(node, true).unwrap();
        }));
        assert_eq!(dump(&a), Vec::<String>::new());
        // It was merged before, so the increment was seen.
        write(&a, |tx| add(tx, &[]));
        both(&a, &b);
        assert!(!dump(&b)[0].contains("Int(5)"), "{:?}", dump(&b));
    }
}

#[test]
fn a_creation_concurrent_with_a_ghost() {
    let (a, b) = (open(), open());
    write(&a, |tx| add(tx, &[]));
    both(&a, &b);
    write(&a, |tx| {
        let node = node(tx);
        tx.graph_mut().delete_node(node, true).unwrap();
    });
    write(&b, |tx| count(tx, 5));
    assert!(race(&a, &b, |tx| {
        add(tx, &[("x", Value::Int(1))]);
    }));
    assert_eq!(dump(&a).len(), 1);
    // And where a ghost exists already, and more arrives.
    write(&a, |tx| {
        let node = node(tx);
        tx.graph_mut().delete_node(node, true).unwrap();
    });
    write(&b, |tx| count(tx, 6));
    send(&b, &a);
    write(&b, |tx| count(tx, 7));
    race(&a, &b, |tx| {
        add(tx, &[("x", Value::Int(2))]);
    });
    assert_eq!(dump(&a).len(), 1);
}

#[test]
fn relationships_concurrent_with_invisible_changes() {
    for deletes in [true, false] {
        let (a, b) = (open(), open());
        write(&a, |tx| {
            let node = add(tx, &[]);
            let knows = tx.name_ids().intern_type("T").unwrap();
            tx.graph_mut()
                .create_relationship(knows, node, node, &Map::new())
                .unwrap();
        });
        both(&a, &b);
        let set = |tx: &mut Transaction, name: &str, value: i64| {
            let rel = relationship(tx);
            tx.graph_mut()
                .set_relationship_property(rel, &[name], Value::Int(value))
                .unwrap();
        };
        for store in [&a, &b] {
            write(store, |tx| set(tx, "p", 1));
        }
        assert!(race(&a, &b, |tx| match deletes {
            true => {
                let rel = relationship(tx);
                tx.graph_mut().delete_relationship(rel).unwrap();
            }
            false => set(tx, "q", 2),
        }));
    }
}

#[test]
fn bucket_entries_concurrent_with_versions_that_are_not_read() {
    for step in 0..4 {
        let (a, b) = (open(), open());
        for store in [&a, &b] {
            write(store, |tx| {
                let options = BucketOptions::multi_value();
                tx.kv_mut().create_bucket("m", options).unwrap();
                tx.kv_mut().put("b", b"k", b"same").unwrap();
                tx.kv_mut().add("m", b"k", b"v").unwrap();
            });
        }
        race(&a, &b, |tx| match step {
            0 => tx.kv_mut().put("b", b"k", b"other").unwrap(),
            1 => tx.kv_mut().delete("b", b"k").unwrap(),
            2 => tx.kv_mut().add("m", b"k", b"v").unwrap(),
            _ => tx.kv_mut().remove("m", b"k", b"v").unwrap(),
        });
    }
}

/// With an older greeting a replica receives its own transactions again, and the numbers that it gave up between them:
/// it knows them.
#[test]
fn a_number_that_a_replica_gave_up_may_be_reported_to_it() {
    let (a, b) = (open(), open());
    let before = exchange::greeting(&a).unwrap();
    write(&a, |tx| add(tx, &[]));
    let mut given_up = a.begin(Access::Write).unwrap();
    let id = given_up
        .documents()
        .node("L", &Value::Int(1))
        .unwrap()
        .unwrap();
    let owner = ConvergentOwner::Node(id);
    given_up
        .fields_mut()
        .converge(owner, &["n"], &ConvergentOp::Count(1), None)
        .unwrap();
    drop(given_up);
    write(&a, |tx| {
        let owner =
            ConvergentOwner::Node(tx.documents().node("L", &Value::Int(1)).unwrap().unwrap());
        tx.fields_mut()
            .converge(owner, &["n"], &ConvergentOp::Count(1), None)
            .unwrap();
    });
    send(&a, &b);
    let page = exchange::entries_for(&b, &before, 1 << 20).unwrap();
    let applied = exchange::apply_entries(&a, &page).unwrap();
    assert_eq!((applied.transactions, applied.known), (0, 2));
    both(&a, &b);
}

/// The same with threads: two replicas that have applied the same transactions agree.
#[test]
fn threads_write_while_others_merge() {
    let (a, b) = (open(), open());
    write(&a, |tx| add(tx, &[]));
    both(&a, &b);
    let work = |store: &DataStore, seed: u64| {
        let mut numbers = super::world::Numbers(seed);
        for _ in 0..60 {
            let mut tx = store.begin(Access::Write).unwrap();
            let there = tx.documents().node("L", &Value::Int(1)).unwrap();
            let done = match (numbers.below(6), there) {
                (_, None) => {
                    let label = tx.name_ids().intern_label("L").unwrap();
                    let properties = map(&[("_key", Value::Int(1))]);
                    tx.graph_mut().create_node(&[label], &properties).map(drop)
                }
                (0, Some(id)) => tx.graph_mut().delete_node(id, true).map(drop),
                (1 | 2, Some(id)) => {
                    let value = Value::Int(numbers.below(2) as i64);
                    tx.graph_mut()
                        .set_node_property(id, &["p"], value)
                        .map(drop)
                }
                (_, Some(id)) => {
                    let owner = ConvergentOwner::Node(id);
                    tx.fields_mut()
                        .converge(owner, &["n"], &ConvergentOp::Count(1), None)
                        .map(drop)
                }
            };
            for error in [done.err(), tx.commit().err()].into_iter().flatten() {
                let known = matches!(error.kind(), ErrorKind::Retry | ErrorKind::Exists);
                assert!(known, "{error}");
            }
        }
    };
    for round in 0..4 {
        std::thread::scope(|scope| {
            for (store, seed) in [(&a, 1), (&a, 2), (&b, 3)] {
                scope.spawn(move || work(store, round * 10 + seed));
            }
            scope.spawn(|| {
                for _ in 0..60 {
                    send(&a, &b);
                    send(&b, &a);
                }
            });
        });
        send(&a, &b);
        both(&a, &b);
    }
}
