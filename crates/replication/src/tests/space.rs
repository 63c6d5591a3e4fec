//! Databases with a replicated space.

use std::{collections::BTreeSet, sync::Arc};

use isomer_data::{
    Access, ConvergentOp, ConvergentOwner, DataStore, DataStoreOptions, ErrorKind, ReplicaNo,
    Transaction,
};
use isomer_layout::replicated::identity::Identity;
use isomer_storage::{Engine, MemoryEngine};
use isomer_value::{LabelId, Map, Value};

use super::{
    dump::{dump, outside},
    small::{map, send},
};
use crate::{
    ReplicatedSpace, begin,
    entry::Op,
    exchange, scope, scrub,
    state_transfer::{receive, send},
    status,
};

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Nodes L and M, and the buckets `b` and `m`.
fn space() -> ReplicatedSpace {
    ReplicatedSpace {
        name: "shared".into(),
        labels: names(&["L", "M"]),
        rel_types: BTreeSet::new(),
        buckets: names(&["b", "m"]),
    }
}

fn bare() -> DataStore {
    crate::open(Arc::new(MemoryEngine::new()), DataStoreOptions::default()).unwrap()
}

fn spaced() -> DataStore {
    let store = bare();
    scope::declare_space(&store, &space()).unwrap();
    begin::begin_replication(&store).unwrap();
    store
}

fn write<T>(store: &DataStore, body: impl FnOnce(&mut Transaction) -> T) -> T {
    let mut tx = store.begin(Access::Write).unwrap();
    let value = body(&mut tx);
    tx.commit().unwrap();
    value
}

fn make(tx: &mut Transaction, labels: &[&str], key: &str) -> isomer_value::NodeId {
    let labels: Vec<_> = labels
        .iter()
        .map(|label| tx.name_ids().intern_label(label).unwrap())
        .collect();
    tx.graph_mut()
        .create_node(&labels, &map(&[("_key", Value::from(key))]))
        .unwrap()
}

fn find(tx: &Transaction, label: &str, key: &str) -> Option<isomer_value::NodeId> {
    tx.documents().node(label, &Value::from(key)).unwrap()
}

/// Records inside and outside the space, in one transaction.
fn fill(store: &DataStore, key: &str) {
    write(store, |tx| {
        let (shared, own) = (make(tx, &["L"], key), make(tx, &["Outside"], key));
        let type_id = tx.name_ids().intern_type("T").unwrap();
        tx.graph_mut()
            .create_relationship(type_id, own, shared, &Map::new())
            .unwrap();
        tx.graph_mut()
            .create_relationship(type_id, shared, shared, &Map::new())
            .unwrap();
        for id in [shared, own] {
            let owner = ConvergentOwner::Node(id);
            let op = ConvergentOp::Insert(Value::from(key));
            tx.fields_mut()
                .converge(owner, &["tags"], &op, None)
                .unwrap();
        }
        for bucket in ["b", "outside"] {
            tx.kv_mut().put(bucket, key.as_bytes(), b"1").unwrap();
        }
        tx.kv_mut().sequence_next("outside", "x").unwrap();
    });
}

fn both(one: &DataStore, other: &DataStore) {
    let before = [outside(one), outside(other)];
    send(one, other);
    send(other, one);
    assert_eq!(dump(one), dump(other));
    before[0].is_left_alone(&outside(one));
    before[1].is_left_alone(&outside(other));
    let differ = scrub::differing(one, &scrub::fingerprints(other).unwrap()).unwrap();
    assert_eq!(differ, Some(Vec::new()));
}

/// A transaction that writes on both sides travels with what is in the space; one that writes only outside it is not
/// logged.
#[test]
fn records_outside_the_space_stay() {
    let (a, b) = (spaced(), spaced());
    fill(&a, "one");
    fill(&b, "two");
    both(&a, &b);
    assert_eq!(dump(&a).len(), 2 + 2 + 2);
    let read = b.begin(Access::Read).unwrap();
    assert!(find(&read, "L", "one").is_some());
    assert!(find(&read, "Outside", "one").is_none());
    assert!(read.kv().get("b", b"one").unwrap().is_some());
    assert!(read.kv().get("outside", b"one").unwrap().is_none());
    drop(read);
    let entries = status::replication_status(&a).unwrap().log_entries;
    write(&a, |tx| {
        let id = make(tx, &["Outside"], "alone");
        let owner = ConvergentOwner::Node(id);
        tx.fields_mut()
            .converge(owner, &["count"], &ConvergentOp::Count(1), None)
            .unwrap();
        tx.kv_mut().put("outside", b"k", b"v").unwrap();
    });
    assert_eq!(status::replication_status(&a).unwrap().log_entries, entries);
    // The number that it took is reported as given up.
    fill(&a, "three");
    both(&a, &b);
    assert!(!write(&b, |tx| tx.kv_mut().drop_bucket("none").unwrap()));
    assert!(write(&b, |tx| tx.kv_mut().drop_bucket("outside").unwrap()));
    assert!(write(&b, |tx| tx.kv_mut().drop_bucket("b").unwrap()));
    both(&a, &b);
    let read = a.begin(Access::Read).unwrap();
    assert!(read.kv().get("outside", b"one").unwrap().is_some());
    assert!(read.kv().get("b", b"one").unwrap().is_none());
}

/// A relationship outside the space is deleted with the end that another replica deletes, and only then.
#[test]
fn a_local_relationship_is_deleted_with_its_ends() {
    let (a, b) = (spaced(), spaced());
    fill(&a, "n");
    both(&a, &b);
    write(&b, |tx| {
        let id = find(tx, "L", "n").unwrap();
        tx.graph_mut()
            .set_node_property(id, &["p"], Value::Int(1))
            .unwrap();
    });
    both(&a, &b);
    let rels = |store: &DataStore| {
        let mut rows = Vec::new();
        let tx = store.begin(Access::Read).unwrap();
        isomer_data::GraphRead::scan_relationships(&tx, None, None, 10, &mut rows).unwrap();
        rows.len()
    };
    assert_eq!((rels(&a), rels(&b)), (2, 1));
    write(&b, |tx| {
        let id = find(tx, "L", "n").unwrap();
        tx.graph_mut().delete_node(id, true).unwrap();
    });
    both(&a, &b);
    assert_eq!((rels(&a), rels(&b)), (0, 0));
    assert!(find(&a.begin(Access::Read).unwrap(), "Outside", "n").is_some());
}

/// Records that are older than replication are in the space by their labels, and are sent by state transfer, in pages
/// too; what the other one has seen removed is removed, and nothing outside the space.
#[test]
fn states_are_joined_within_the_space() {
    for bytes in [100, 1 << 20] {
        let a = bare();
        fill(&a, "before");
        write(&a, |tx| {
            make(tx, &["L"], "gone");
        });
        scope::declare_space(&a, &space()).unwrap();
        begin::begin_replication(&a).unwrap();
        fill(&a, "after");
        let b = spaced();
        fill(&b, "there");
        let transfer_state = |from: &DataStore, to: &DataStore| {
            let before = outside(to);
            let mut transfer = receive::begin_state_transfer(to).unwrap();
            loop {
                let page = send::state_page(from, transfer.cursor(), bytes).unwrap();
                if transfer.merge_page(to, &page).unwrap() {
                    break;
                }
            }
            drop(transfer);
            before.is_left_alone(&outside(to));
            send(from, to);
        };
        transfer_state(&a, &b);
        assert!(!b.is_joining());
        transfer_state(&b, &a);
        both(&a, &b);
        assert_eq!(dump(&a).len(), 3 * 3 + 1);
        // Each has seen all of the other: what one deletes the other one deletes by a state, too.
        write(&b, |tx| {
            let id = find(tx, "L", "gone").unwrap();
            tx.graph_mut().delete_node(id, true).unwrap();
            tx.kv_mut().delete("b", b"after").unwrap();
        });
        transfer_state(&b, &a);
        both(&a, &b);
        assert_eq!(dump(&a).len(), 3 * 3 - 1);
    }
}

/// A record does not enter or leave the space: others would keep what they have, or never get what was there.
#[test]
fn records_do_not_enter_or_leave_the_space() {
    let a = spaced();
    write(&a, |tx| {
        make(tx, &["L", "M"], "in");
        make(tx, &["Outside"], "out");
    });
    let refused = |body: &dyn Fn(&mut Transaction)| {
        let mut tx = a.begin(Access::Write).unwrap();
        body(&mut tx);
        let error = tx.commit().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        error.to_string()
    };
    let message = refused(&|tx| {
        let id = find(tx, "L", "in").unwrap();
        for label in ["L", "M"] {
            let label = tx.name_ids().intern_label(label).unwrap();
            tx.graph_mut().remove_label(id, label).unwrap();
        }
    });
    assert!(
        message.contains("cannot leave the space `shared`"),
        "{message}"
    );
    let message = refused(&|tx| {
        let id = find(tx, "Outside", "out").unwrap();
        let label = tx.name_ids().intern_label("M").unwrap();
        tx.graph_mut().add_label(id, label).unwrap();
    });
    assert!(
        message.contains("cannot be brought into the space"),
        "{message}"
    );
    // One label of several is removed; labels outside the space come and go; a node is what its transaction makes it.
    write(&a, |tx| {
        let id = find(tx, "L", "in").unwrap();
        let [x, m] = ["Outside", "M"].map(|label| tx.name_ids().intern_label(label).unwrap());
        tx.graph_mut().remove_label(id, m).unwrap();
        tx.graph_mut().add_label(id, x).unwrap();
        let made = tx
            .graph_mut()
            .create_node(&[], &map(&[("p", Value::Int(1))]))
            .unwrap();
        tx.graph_mut().add_label(made, m).unwrap();
        let out = find(tx, "Outside", "out").unwrap();
        tx.graph_mut().add_label(out, m).unwrap();
        tx.graph_mut().remove_label(out, m).unwrap();
    });
    let b = spaced();
    send(&a, &b);
    let mut nodes = Vec::new();
    let tx = b.begin(Access::Read).unwrap();
    isomer_data::GraphRead::scan_nodes(&tx, None, None, 10, &mut nodes).unwrap();
    assert_eq!(nodes.len(), 2);
    assert!(find(&tx, "Outside", "in").is_some());
}

/// Two replicas that remove different labels leave a node without one, and it is still in the space.
#[test]
fn a_node_without_labels_is_still_shared() {
    let (a, b) = (spaced(), spaced());
    write(&a, |tx| {
        make(tx, &["L", "M"], "n");
    });
    both(&a, &b);
    for (store, label) in [(&a, "L"), (&b, "M")] {
        write(store, |tx| {
            let id = find(tx, "L", "n").unwrap();
            let label = tx.name_ids().intern_label(label).unwrap();
            tx.graph_mut().remove_label(id, label).unwrap();
        });
    }
    both(&a, &b);
    let mut nodes = Vec::new();
    let tx = a.begin(Access::Read).unwrap();
    isomer_data::GraphRead::scan_nodes(&tx, None, None, 10, &mut nodes).unwrap();
    drop(tx);
    assert_eq!(nodes.len(), 1);
    write(&a, |tx| {
        tx.graph_mut()
            .set_node_property(nodes[0], &["p"], Value::Int(7))
            .unwrap();
    });
    both(&a, &b);
    assert!(
        dump(&b).iter().any(|line| line.contains("p: Int(7)")),
        "{:?}",
        dump(&b)
    );
}

/// An empty replica adopts the space of the first member that it hears of; others are refused, in both directions, with
/// the reason.
#[test]
fn peers_replicate_the_same() {
    let a = spaced();
    fill(&a, "n");
    let open = bare();
    begin::begin_replication(&open).unwrap();
    // As an exchange does: each reads the other's greeting.
    exchange::read_greeting(&a, &exchange::greeting(&open).unwrap()).unwrap();
    send(&a, &open);
    assert_eq!(scope::replicated_space(&open), Some(space()));
    both(&a, &open);
    // All of a database that is not empty.
    let whole = bare();
    begin::begin_replication(&whole).unwrap();
    fill(&whole, "m");
    for (one, other) in [(&a, &whole), (&whole, &a)] {
        let error = exchange::read_greeting(one, &exchange::greeting(other).unwrap()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(
            error.to_string().contains("do not replicate the same"),
            "{error}"
        );
    }
    // And one that sends no greeting: its pages name the space, too.
    let page = send::state_page(&whole, &[], 1 << 20).unwrap();
    let error = receive::begin_state_transfer(&a)
        .unwrap()
        .merge_page(&a, &page)
        .unwrap_err();
    assert!(
        error.to_string().contains("do not replicate the same"),
        "{error}"
    );
    assert!(scrub::differing(&a, &scrub::fingerprints(&whole).unwrap()).is_err());
    // It cannot be declared any more.
    let error = scope::declare_space(&whole, &space()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    let other = ReplicatedSpace {
        buckets: names(&["b"]),
        ..space()
    };
    assert_eq!(
        scope::declare_space(&a, &other).unwrap_err().kind(),
        ErrorKind::Denied
    );
    scope::declare_space(&a, &space()).unwrap();
    let nothing = ReplicatedSpace {
        name: "n".into(),
        ..ReplicatedSpace::default()
    };
    assert_eq!(
        scope::declare_space(&bare(), &nothing).unwrap_err().kind(),
        ErrorKind::Invalid
    );
}

/// A peer that claims to replicate the same space, and sends something else.
#[test]
fn forged_pages_do_not_change_records_outside_the_space() {
    let (a, forger) = (spaced(), bare());
    fill(&a, "n");
    let mut wider = space();
    wider.buckets.insert("outside".into());
    wider.labels.insert("Outside".into());
    scope::declare_space(&forger, &wider).unwrap();
    begin::begin_replication(&forger).unwrap();
    let forge = |page: Vec<u8>| {
        let (wide, narrow) = (wider.spell(), space().spell());
        let at = page.windows(wide.len()).position(|at| at == wide).unwrap();
        // Tag, length, space.
        assert_eq!(usize::from(page[at - 1]), wide.len());
        let mut forged = page[..at - 1].to_vec();
        forged.push(narrow.len() as u8);
        forged.extend_from_slice(&narrow);
        forged.extend_from_slice(&page[at + wide.len()..]);
        forged
    };
    let greeting = {
        let open = bare();
        begin::begin_replication(&open).unwrap();
        exchange::greeting(&open).unwrap()
    };
    for body in [
        &(|tx: &mut Transaction| tx.kv_mut().put("outside", b"n", b"forged").unwrap())
            as &dyn Fn(&mut _),
        &|tx| {
            make(tx, &["Outside"], "n");
        },
    ] {
        write(&forger, body);
        let page = forge(exchange::entries_for(&forger, &greeting, 1 << 20).unwrap());
        let before = outside(&a);
        let error = exchange::apply_entries(&a, &page).unwrap_err();
        assert!(error.to_string().contains("not in the space"), "{error}");
        let page = forge(send::state_page(&forger, &[], 1 << 20).unwrap());
        let error = receive::begin_state_transfer(&a)
            .unwrap()
            .merge_page(&a, &page)
            .unwrap_err();
        assert!(error.to_string().contains("not in the space"), "{error}");
        before.is_left_alone(&outside(&a));
    }
}

/// A node without a label of the space, created so or changed in one transaction, and a relationship of another type.
#[test]
fn forged_records_without_names_are_refused() {
    let forged = |ops: &[Op]| scope::check_in_space(&spaced(), ops).is_err();
    let a = spaced();
    let (inside, outside) = write(&a, |tx| {
        (
            tx.name_ids().intern_label("L").unwrap(),
            tx.name_ids().intern_label("Outside").unwrap(),
        )
    });
    let node = |labels: &[LabelId]| Op::NodeCreated {
        node: Identity::Made {
            replica: ReplicaNo(1),
            id: 7,
        },
        labels: labels.to_vec(),
        set: Vec::new(),
    };
    let given = |added: &[LabelId]| Op::NodeChanged {
        node: Identity::Made {
            replica: ReplicaNo(1),
            id: 7,
        },
        added: added.to_vec(),
        removed: Vec::new(),
        set: Vec::new(),
        unset: Vec::new(),
    };
    let check = |ops: &[Op]| scope::check_in_space(&a, ops).is_ok();
    assert!(check(&[node(&[outside, inside])]));
    assert!(check(&[node(&[outside]), given(&[inside])]));
    assert!(!check(&[node(&[outside])]) && !check(&[node(&[])]));
    assert!(!check(&[node(&[]), given(&[outside])]));
    assert!(forged(&[node(&[])]));
}

/// In a label that is not replicated a key leads to the local node, whatever keys replicated nodes have.
#[test]
fn keys_of_labels_outside_the_space_keep_their_nodes() {
    let (a, b) = (spaced(), spaced());
    let own = write(&a, |tx| make(tx, &["Outside"], "today"));
    let there = write(&b, |tx| make(tx, &["L", "Outside"], "today"));
    send(&b, &a);
    send(&a, &b);
    let tx = a.begin(Access::Read).unwrap();
    let shared = find(&tx, "L", "today").unwrap();
    assert_ne!(shared, own);
    assert_eq!(find(&tx, "Outside", "today"), Some(own));
    drop(tx);
    write(&b, |tx| {
        tx.graph_mut()
            .set_node_property(there, &["p"], Value::Int(1))
            .unwrap()
    });
    send(&b, &a);
    let tx = a.begin(Access::Read).unwrap();
    assert_eq!(find(&tx, "Outside", "today"), Some(own));
    drop(tx);
    write(&a, |tx| tx.graph_mut().delete_node(own, true).unwrap());
    let tx = a.begin(Access::Read).unwrap();
    assert_eq!(find(&tx, "Outside", "today"), Some(shared));
}

/// Others would receive the content of its log.
#[test]
fn a_replica_that_was_not_empty_adopts_no_space() {
    let (a, b) = (spaced(), bare());
    begin::begin_replication(&b).unwrap();
    let id = write(&b, |tx| make(tx, &["Outside"], "x"));
    write(&b, |tx| tx.graph_mut().delete_node(id, true).unwrap());
    let error = exchange::read_greeting(&b, &exchange::greeting(&a).unwrap()).unwrap_err();
    assert!(
        error.to_string().contains("do not replicate the same"),
        "{error}"
    );
    assert_eq!(scope::replicated_space(&b), None);
    let fresh = bare();
    begin::begin_replication(&fresh).unwrap();
    exchange::read_greeting(&fresh, &exchange::greeting(&a).unwrap()).unwrap();
    assert_eq!(scope::replicated_space(&fresh), Some(space()));
}

/// The declaration is on disk.
#[test]
fn a_space_outlives_its_process() {
    let engine = Arc::new(MemoryEngine::new());
    let open = || {
        let engine: Arc<dyn Engine> = engine.clone();
        crate::open(engine, DataStoreOptions::default()).unwrap()
    };
    let store = open();
    scope::declare_space(&store, &space()).unwrap();
    begin::begin_replication(&store).unwrap();
    drop(store);
    let store = open();
    assert_eq!(scope::replicated_space(&store), Some(space()));
    assert_eq!(
        status::replication_status(&store).unwrap().space,
        Some(space())
    );
    fill(&store, "n");
    let b = spaced();
    both(&store, &b);
}

/// What damage took from one of two comes back, and nothing outside the space is compared.
#[test]
fn scrubbing_stays_within_the_space() {
    let (a, b) = (spaced(), spaced());
    fill(&a, "n");
    fill(&b, "m");
    both(&a, &b);
    let mut tx = b.engine().begin().unwrap();
    let bucket = b.catalog().bucket_id("b").unwrap();
    tx.delete(&isomer_layout::keyspace::bucket_entry(bucket, b"n"))
        .unwrap();
    tx.delete(&isomer_layout::keyspace::cell(
        &isomer_layout::keyspace::bucket_entry(bucket, b"n"),
    ))
    .unwrap();
    tx.commit(isomer_data::Durability::Synced).unwrap();
    let differ = scrub::differing(&b, &scrub::fingerprints(&a).unwrap())
        .unwrap()
        .unwrap();
    assert_eq!(differ.len(), 1);
    let before = outside(&b);
    scrub::repair(&b, &scrub::ranges_page(&a, &differ).unwrap()).unwrap();
    before.is_left_alone(&outside(&b));
    both(&a, &b);
    // Of all ranges: a page holds nothing outside the space.
    let all: Vec<u16> = (0..4096).collect();
    scrub::repair(&b, &scrub::ranges_page(&a, &all).unwrap()).unwrap();
    before.is_left_alone(&outside(&b));
}
