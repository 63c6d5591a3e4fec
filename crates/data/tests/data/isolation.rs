//! Every isolation guarantee, by example: what must not conflict does not, what must does, with the right message.

use std::{ops::Bound, sync::Arc};

use crate::common::{int, map, memory, names, second_process::needs_alone, text};
use isomer_data::{
    Access, DataError, DataStore, DataStoreOptions, Direction, ErrorKind, GraphRead, Neighbours,
    Transaction, Version,
};
use isomer_storage::MemoryEngine;
use isomer_value::{Map, NodeId, Value};

fn write(store: &DataStore) -> Transaction {
    store.begin(Access::Write).unwrap()
}

fn node(store: &DataStore, label: &str, properties: &Map) -> NodeId {
    let mut tx = write(store);
    let label = tx.name_ids().intern_label(label).unwrap();
    let id = tx.graph_mut().create_node(&[label], properties).unwrap();
    tx.commit().unwrap();
    id
}

#[track_caller]
fn refused(result: Result<Version, DataError>, what: &str) {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Retry, "{error}");
    assert!(
        error.to_string().contains(what),
        "`{error}` does not name `{what}`"
    );
}

/// Reads one property of one node.
fn read(tx: &Transaction, id: NodeId, name: &str) -> Value {
    let Some(prop) = tx.catalog().prop_id(name) else {
        return Value::Null;
    };
    let mut out = [Vec::new()];
    tx.node_properties(&[id], &[prop], &mut out).unwrap();
    out[0][0].clone()
}

#[test]
fn many_transactions_add_to_one_hub() {
    let store = memory();
    let hub = node(&store, "Hub", &Map::new());
    let spokes: Vec<_> = (0..5).map(|_| node(&store, "Spoke", &Map::new())).collect();
    let mut open: Vec<_> = (0..5).map(|_| write(&store)).collect();
    for (tx, spoke) in open.iter_mut().zip(&spokes) {
        let likes = tx.name_ids().intern_type("LIKES").unwrap();
        tx.graph_mut()
            .create_relationship(likes, hub, *spoke, &Map::new())
            .unwrap();
        tx.graph_mut()
            .create_relationship(likes, *spoke, hub, &Map::new())
            .unwrap();
    }
    for tx in open {
        tx.commit().unwrap();
    }
    let tx = store.begin(Access::Read).unwrap();
    let mut degrees = Vec::new();
    tx.degree(&[hub], Direction::Both, &[], &mut degrees)
        .unwrap();
    assert_eq!(degrees, [10]);
}

/// MERGE of a relationship: look it up between two nodes, create it if absent.
fn merge(tx: &mut Transaction, source: NodeId, target: NodeId) {
    let likes = tx.name_ids().intern_type("LIKES").unwrap();
    let mut found = Neighbours::new();
    tx.expand_into(
        &[(source, target)],
        Direction::Outgoing,
        &[likes],
        &mut found,
    )
    .unwrap();
    if found.of(0).is_empty() {
        tx.graph_mut()
            .create_relationship(likes, source, target, &Map::new())
            .unwrap();
    }
}

#[test]
fn merges_of_different_relationships_on_a_hub_commit_and_of_the_same_conflict() {
    let store = memory();
    let hub = node(&store, "Hub", &Map::new());
    let (x, y) = (
        node(&store, "Spoke", &Map::new()),
        node(&store, "Spoke", &Map::new()),
    );
    let (mut a, mut b, mut c) = (write(&store), write(&store), write(&store));
    merge(&mut a, hub, x);
    merge(&mut b, hub, y);
    merge(&mut c, hub, x);
    a.commit().unwrap();
    b.commit().unwrap();
    refused(c.commit(), "from node");
    let mut again = write(&store);
    merge(&mut again, hub, x);
    assert!(!again.has_writes());
}

#[test]
fn reading_the_neighbours_conflicts_with_a_new_one() {
    let store = memory();
    let (hub, x) = (
        node(&store, "Hub", &Map::new()),
        node(&store, "Spoke", &Map::new()),
    );
    let (mut a, mut b) = (write(&store), write(&store));
    let (likes, knows) = (
        a.name_ids().intern_type("LIKES").unwrap(),
        a.name_ids().intern_type("KNOWS").unwrap(),
    );
    let mut degrees = Vec::new();
    a.degree(&[hub], Direction::Outgoing, &[likes], &mut degrees)
        .unwrap();
    a.graph_mut()
        .set_node_property(hub, &["degree"], int(degrees[0] as i64))
        .unwrap();
    b.graph_mut()
        .create_relationship(likes, hub, x, &Map::new())
        .unwrap();
    b.commit().unwrap();
    refused(
        a.commit(),
        "the outgoing relationships of type LIKES of node",
    );

    // Another type, or the other direction, is a different granule.
    let (mut a, mut b) = (write(&store), write(&store));
    a.degree(&[hub], Direction::Outgoing, &[likes], &mut degrees)
        .unwrap();
    a.graph_mut()
        .set_node_property(hub, &["degree"], int(degrees[1] as i64))
        .unwrap();
    b.graph_mut()
        .create_relationship(knows, hub, x, &Map::new())
        .unwrap();
    b.graph_mut()
        .create_relationship(likes, x, hub, &Map::new())
        .unwrap();
    b.commit().unwrap();
    a.commit().unwrap();
}

#[test]
fn a_new_relationship_conflicts_with_the_deletion_of_its_end() {
    let store = memory();
    let (x, y) = (
        node(&store, "P", &Map::new()),
        node(&store, "P", &Map::new()),
    );
    let (mut creator, mut deleter) = (write(&store), write(&store));
    let knows = creator.name_ids().intern_type("KNOWS").unwrap();
    creator
        .graph_mut()
        .create_relationship(knows, x, y, &Map::new())
        .unwrap();
    deleter.graph_mut().delete_node(y, false).unwrap();
    deleter.commit().unwrap();
    refused(creator.commit(), "existence of node");

    let z = node(&store, "P", &Map::new());
    let (mut creator, mut deleter) = (write(&store), write(&store));
    creator
        .graph_mut()
        .create_relationship(knows, x, z, &Map::new())
        .unwrap();
    deleter.graph_mut().delete_node(z, true).unwrap();
    creator.commit().unwrap();
    refused(deleter.commit(), "relationships of node");
}

#[test]
fn a_lost_update_is_refused_and_another_node_is_not() {
    let store = memory();
    let (x, y) = (
        node(&store, "A", &map(&[("n", int(0))])),
        node(&store, "A", &map(&[("n", int(0))])),
    );
    let (mut a, mut b, mut c) = (write(&store), write(&store), write(&store));
    for (tx, id) in [(&mut a, x), (&mut b, x), (&mut c, y)] {
        let Value::Int(n) = read(tx, id, "n") else {
            panic!("n is missing")
        };
        tx.graph_mut()
            .set_node_property(id, &["n"], int(n + 1))
            .unwrap();
    }
    a.commit().unwrap();
    refused(b.commit(), &format!("node {x}"));
    c.commit().unwrap();
    assert_eq!(
        read(&store.begin(Access::Read).unwrap(), x, "n").as_int(),
        Some(1)
    );
}

#[test]
fn write_skew_is_refused() {
    let store = memory();
    let (x, y) = (
        node(&store, "Doctor", &map(&[("on", int(1))])),
        node(&store, "Doctor", &map(&[("on", int(1))])),
    );
    let (mut a, mut b) = (write(&store), write(&store));
    for (tx, leaves) in [(&mut a, x), (&mut b, y)] {
        let on = [x, y]
            .iter()
            .filter(|id| read(tx, **id, "on").as_int() == Some(1))
            .count();
        assert_eq!(on, 2);
        tx.graph_mut()
            .set_node_property(leaves, &["on"], int(0))
            .unwrap();
    }
    a.commit().unwrap();
    refused(b.commit(), "node");
}

/// The same through a scan of more records than a footprint names: it widens to the label, and still only to it.
#[test]
fn write_skew_through_a_wide_scan_is_refused_and_other_labels_do_not_conflict() {
    let mut options = isomer_data::DataStoreOptions::default();
    options.footprint_limit = 10;
    let store = DataStore::open(Arc::new(isomer_storage::MemoryEngine::new()), options).unwrap();
    let doctors: Vec<_> = (0..40)
        .map(|_| node(&store, "Doctor", &map(&[("on", int(1))])))
        .collect();
    let other = node(&store, "Nurse", &map(&[("on", int(1))]));
    let scan = |tx: &Transaction| {
        let label = tx.catalog().label_id("Doctor").unwrap();
        let mut ids = Vec::new();
        tx.scan_nodes(Some(label), None, 1000, &mut ids).unwrap();
        let mut out = [Vec::new()];
        tx.node_properties(&ids, &[tx.catalog().prop_id("on").unwrap()], &mut out)
            .unwrap();
        out[0].iter().filter(|on| on.as_int() == Some(1)).count()
    };
    let (mut a, mut b, mut c) = (write(&store), write(&store), write(&store));
    assert_eq!(scan(&a), 40);
    assert_eq!(scan(&b), 40);
    a.graph_mut()
        .set_node_property(doctors[38], &["on"], int(0))
        .unwrap();
    b.graph_mut()
        .set_node_property(doctors[39], &["on"], int(0))
        .unwrap();
    assert_eq!(scan(&c), 40);
    c.graph_mut()
        .set_node_property(other, &["on"], int(0))
        .unwrap();
    // A change of another label does not disturb the scan.
    let mut nurse = write(&store);
    let label = nurse.catalog().label_id("Nurse").unwrap();
    nurse
        .graph_mut()
        .create_node(&[label], &Map::new())
        .unwrap();
    nurse.commit().unwrap();
    a.commit().unwrap();
    refused(b.commit(), "records of :Doctor");
    refused(c.commit(), "records of :Doctor");
}

/// A transaction that changes more than it can name still conflicts with a reader of one of these records.
#[test]
fn a_wide_writer_is_seen_by_a_narrow_reader() {
    let mut options = isomer_data::DataStoreOptions::default();
    options.footprint_limit = 10;
    let store = DataStore::open(Arc::new(isomer_storage::MemoryEngine::new()), options).unwrap();
    let all: Vec<_> = (0..30)
        .map(|_| node(&store, "A", &map(&[("n", int(0))])))
        .collect();
    let (mut wide, mut narrow) = (write(&store), write(&store));
    for id in &all {
        wide.graph_mut()
            .set_node_property(*id, &["n"], int(1))
            .unwrap();
    }
    assert_eq!(read(&narrow, all[29], "n").as_int(), Some(0));
    let b = narrow.name_ids().intern_label("B").unwrap();
    narrow.graph_mut().create_node(&[b], &Map::new()).unwrap();
    wide.commit().unwrap();
    refused(narrow.commit(), ":A");

    // The same with relationships: more of them than are named, and a reader of one node's neighbours.
    let (mut wide, mut narrow) = (write(&store), write(&store));
    let knows = wide.name_ids().intern_type("KNOWS").unwrap();
    for pair in all.windows(2) {
        wide.graph_mut()
            .create_relationship(knows, pair[0], pair[1], &Map::new())
            .unwrap();
    }
    let mut found = Neighbours::new();
    narrow
        .expand(&[all[28]], Direction::Outgoing, &[], &mut found)
        .unwrap();
    narrow.graph_mut().create_node(&[b], &Map::new()).unwrap();
    wide.commit().unwrap();
    refused(narrow.commit(), "relationships");
}

#[test]
fn a_phantom_in_a_label_or_type_is_refused() {
    let store = memory();
    let (x, y) = (
        node(&store, "A", &Map::new()),
        node(&store, "A", &Map::new()),
    );
    let (mut a, mut b) = (write(&store), write(&store));
    let label = a.catalog().label_id("A").unwrap();
    let count = a.exact_node_count(Some(label)).unwrap();
    a.graph_mut()
        .set_node_property(x, &["count"], int(count as i64))
        .unwrap();
    b.graph_mut().create_node(&[label], &Map::new()).unwrap();
    b.commit().unwrap();
    refused(a.commit(), "the set of nodes :A");

    let (mut a, mut b) = (write(&store), write(&store));
    let knows = a.name_ids().intern_type("KNOWS").unwrap();
    let mut rows = Vec::new();
    a.scan_relationships(Some(knows), None, 10, &mut rows)
        .unwrap();
    assert!(rows.is_empty());
    a.graph_mut()
        .set_node_property(x, &["count"], int(0))
        .unwrap();
    b.graph_mut()
        .create_relationship(knows, y, y, &Map::new())
        .unwrap();
    b.commit().unwrap();
    refused(a.commit(), "the set of relationships of type KNOWS");
}

#[test]
fn two_inserts_of_one_key_conflict_and_of_two_keys_do_not() {
    let store = memory();
    let document = |key: &str| map(&[("_key", text(key))]);
    let (mut a, mut b, mut c) = (write(&store), write(&store), write(&store));
    a.documents_mut().insert("users", &document("ada")).unwrap();
    b.documents_mut().insert("users", &document("ada")).unwrap();
    c.documents_mut().insert("users", &document("bob")).unwrap();
    a.commit().unwrap();
    refused(b.commit(), "one key of the keys of :users");
    c.commit().unwrap();
    let error = write(&store)
        .documents_mut()
        .insert("users", &document("bob"))
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exists);
    assert!(
        error.to_string().contains("users with _key \"bob\""),
        "{error}"
    );
}

/// A transaction that found no document under a key conflicts with its insertion; one that read a range of keys, with
/// an insertion inside it.
#[test]
fn a_phantom_among_keys_is_refused() {
    let store = memory();
    node(&store, "users", &map(&[("_key", text("m"))]));
    let (mut a, mut b, mut c, mut d) = (write(&store), write(&store), write(&store), write(&store));
    assert!(a.documents().get("users", &text("ada")).unwrap().is_none());
    let (low, high) = (text("a"), text("b"));
    assert!(
        b.documents()
            .scan("users", (Bound::Included(&low), Bound::Excluded(&high)), 10)
            .unwrap()
            .is_empty()
    );
    let (low, high) = (text("x"), text("y"));
    assert!(
        c.documents()
            .scan("users", (Bound::Included(&low), Bound::Excluded(&high)), 10)
            .unwrap()
            .is_empty()
    );
    for tx in [&mut a, &mut b, &mut c] {
        tx.documents_mut().insert("log", &Map::new()).unwrap();
    }
    d.documents_mut()
        .insert("users", &map(&[("_key", text("ada"))]))
        .unwrap();
    d.commit().unwrap();
    refused(a.commit(), "one key of the keys of :users");
    refused(b.commit(), "a range of the keys of :users");
    c.commit().unwrap();
}

/// Transactions that use different new names, or the same new name, do not conflict over the catalog.
#[test]
fn new_names_do_not_conflict() {
    if needs_alone("it lists all names") {
        return;
    }
    let store = memory();
    let (mut a, mut b, mut c) = (write(&store), write(&store), write(&store));
    for (tx, label, prop) in [
        (&mut a, "L1", "p"),
        (&mut b, "L2", "q"),
        (&mut c, "L1", "p"),
    ] {
        let label = tx.name_ids().intern_label(label).unwrap();
        tx.graph_mut()
            .create_node(&[label], &map(&[(prop, int(1))]))
            .unwrap();
    }
    a.commit().unwrap();
    b.commit().unwrap();
    c.commit().unwrap();
    assert_eq!(names(&store), ["L1", "L2"]);
}

#[test]
fn a_reader_neither_waits_nor_fails_nor_sees_later_commits() {
    let store = memory();
    let x = node(&store, "A", &map(&[("n", int(0))]));
    let reader = store.begin(Access::Read).unwrap();
    let mut writer = write(&store);
    writer
        .graph_mut()
        .set_node_property(x, &["n"], int(1))
        .unwrap();
    writer.commit().unwrap();
    assert_eq!(read(&reader, x, "n").as_int(), Some(0));
    assert_eq!(reader.commit().unwrap(), store.engine().version() - 1);
}

#[test]
fn a_reading_transaction_refuses_writes() {
    let store = memory();
    let mut reader = store.begin(Access::Read).unwrap();
    assert_eq!(
        reader
            .graph_mut()
            .create_node(&[], &Map::new())
            .unwrap_err()
            .kind(),
        ErrorKind::Denied
    );
    assert_eq!(
        reader.name_ids().intern_label("new").unwrap_err().kind(),
        ErrorKind::Denied
    );
}

/// The change stream's part of a transaction counts too: one key deleted again and again is not free.
#[test]
fn operations_are_limited_as_writes_are() {
    let engine = MemoryEngine::with_max_transaction_bytes(1 << 20);
    let store = DataStore::open(Arc::new(engine), DataStoreOptions::default()).unwrap();
    let mut tx = store.begin(Access::Write).unwrap();
    tx.kv_mut().put("bucket", b"key", b"value").unwrap();
    let mark = tx.savepoint();
    let refused = (0..200_000).find_map(|_| tx.kv_mut().delete("bucket", b"key").err());
    assert_eq!(refused.unwrap().kind(), ErrorKind::Limit);
    assert!(tx.write_bytes() < 2 << 20);
    tx.rollback_to(mark).unwrap();
    tx.commit().unwrap();
    let tx = store.begin(Access::Read).unwrap();
    assert_eq!(
        tx.kv().get("bucket", b"key").unwrap(),
        Some(b"value".to_vec())
    );
}
