//! Convergent fields in columns of replicas: transactions of other replicas, joined states and repairs change
//! them, and columns equal rows at each version.

use std::{collections::BTreeSet, sync::Arc};

use crate::common::{Random, World, commit, compare};
use isomer_data::{
    Access, ConvergentOp, ConvergentOwner, DataStore, DataStoreOptions, GraphRead, Transaction,
};
use isomer_storage::MemoryEngine;
use isomer_value::{Map, NodeId, Value};
use isomer_views::{Cell, ViewKind, ViewOptions, ViewReader, Views};

struct Replica {
    store: DataStore,
    views: Arc<Views>,
    world: World,
}

impl Replica {
    fn new(merge_after: usize) -> Self {
        let store =
            isomer_replication::open(Arc::new(MemoryEngine::new()), DataStoreOptions::default())
                .unwrap();
        isomer_replication::begin_replication(&store).unwrap();
        let mut options = ViewOptions::default();
        options.demand = u64::MAX >> 20; // views are built explicitly
        options.merge_after = merge_after;
        let views = Views::open(&store, options).unwrap();
        let world = World::new(&store);
        Self {
            store,
            views,
            world,
        }
    }
}

/// All entries that one replica has and the other lacks.
fn send(from: &DataStore, to: &DataStore) {
    let page = isomer_replication::entries_for(
        from,
        &isomer_replication::greeting(to).unwrap(),
        usize::MAX,
    )
    .unwrap();
    isomer_replication::apply_entries(to, &page).unwrap();
}

/// The whole state of one replica.
fn join(from: &DataStore, to: &DataStore) {
    let mut joining = isomer_replication::begin_state_transfer(to).unwrap();
    loop {
        let page = isomer_replication::state_page(from, joining.cursor(), 500).unwrap();
        if joining.merge_page(to, &page).unwrap() {
            break;
        }
    }
    drop(joining);
    send(from, to);
}

fn history(seed: u64, steps: usize) -> BTreeSet<&'static str> {
    let mut random = Random::new(seed);
    let merge_after = [1, 4, 1 << 20][random.below(3)];
    let replicas: [_; 3] = std::array::from_fn(|_| Replica::new(merge_after));
    let mut readers: Vec<(usize, Transaction)> = Vec::new();
    let mut used = BTreeSet::new();
    for _ in 0..steps {
        let (at, other) = (random.below(3), 1 + random.below(2));
        let other = &replicas[(at + other) % 3];
        let Replica {
            store,
            views,
            world,
        } = &replicas[at];
        let kinds = world.kinds();
        match random.below(20) {
            0..7 => {
                let mut tx = store.begin(Access::Write).unwrap();
                for _ in 0..1 + random.below(6) {
                    world.write(&mut tx, &mut random);
                }
                commit(tx);
            }
            7..10 => {
                for _ in 0..4 {
                    views.make(&kinds[random.below(kinds.len())]).unwrap();
                }
            }
            10 => views.merge_now(&kinds[random.below(kinds.len())]).unwrap(),
            11..14 => send(&other.store, store),
            14 => join(&other.store, store),
            15 => {
                // Replicas with equal state need no repair.
                let theirs = isomer_replication::fingerprints(&other.store).unwrap();
                if let Some(ranges) = isomer_replication::differing(store, &theirs).unwrap() {
                    assert_eq!(ranges, []);
                }
            }
            16 => {
                if readers.len() > 4 {
                    readers.swap_remove(random.below(5));
                }
                readers.push((at, store.begin(Access::Read).unwrap()));
            }
            _ => {
                for (at, tx) in &readers {
                    let Replica { views, world, .. } = &replicas[*at];
                    compare(world, tx, views, &mut random, &mut used);
                }
                let now = store.begin(Access::Read).unwrap();
                compare(world, &now, views, &mut random, &mut used);
            }
        }
    }
    for replica in &replicas {
        replica.views.close();
    }
    used
}

#[test]
fn views_of_replicas_answer_what_rows_answer() {
    let mut used = BTreeSet::new();
    for seed in 0..24 {
        used.append(&mut history(seed, 160));
    }
    assert!(
        used.contains("field") && used.contains("changed field"),
        "{used:?}"
    );
}

// ---- single fields

fn write<T>(store: &DataStore, body: impl FnOnce(&mut Transaction) -> T) -> T {
    let mut tx = store.begin(Access::Write).unwrap();
    let done = body(&mut tx);
    tx.commit().unwrap();
    done
}

fn count(tx: &mut Transaction, node: NodeId, by: i64) {
    let owner = ConvergentOwner::Node(node);
    tx.fields_mut()
        .converge(owner, &["likes"], &ConvergentOp::Count(by), None)
        .unwrap();
}

fn make(replica: &Replica) -> ViewKind {
    let catalog = replica.store.catalog();
    let label = catalog.label_id("Post").unwrap();
    let likes = catalog.prop_id("likes").unwrap();
    let kind = ViewKind::Column(label, [likes].into());
    replica.views.make(&kind).unwrap();
    kind
}

/// The value that a reader gets.
fn read(replica: &Replica, tx: &Transaction, node: NodeId) -> Value {
    let at = replica.views.at(tx);
    let prop = tx.names().prop_id("likes").unwrap();
    let mut read = [Vec::new()];
    // A small number of nodes is read from the rows.
    ViewReader::new(tx, &at)
        .node_properties(&[node; 9], &[prop], &mut read)
        .unwrap();
    assert!(read[0].iter().all(|value| *value == read[0][0]));
    read[0].remove(0)
}

/// A node's cell in the column, and its value in the rows, at the newest version.
fn likes(replica: &Replica, node: NodeId) -> (Cell, Value) {
    let tx = replica.store.begin(Access::Read).unwrap();
    let names = tx.names();
    let (label, prop) = (
        names.label_id("Post").unwrap(),
        names.prop_id("likes").unwrap(),
    );
    let column = replica.views.at(&tx).column(label, &[prop]).unwrap();
    let mut rows = [Vec::new()];
    tx.node_properties(&[node], &[prop], &mut rows).unwrap();
    let row = rows[0].remove(0);
    assert_eq!(read(replica, &tx, node), row);
    (column.cell(node.0 as u32), row)
}

fn post(replica: &Replica) -> NodeId {
    write(&replica.store, |tx| {
        let label = tx.name_ids().intern_label("Post").unwrap();
        let key: Map = [("_key", Value::Int(1))].into_iter().collect();
        tx.graph_mut().create_node(&[label], &key).unwrap()
    })
}

fn find(replica: &Replica) -> NodeId {
    let tx = replica.store.begin(Access::Read).unwrap();
    tx.documents()
        .node("Post", &Value::Int(1))
        .unwrap()
        .unwrap()
}

fn holds(replica: &Replica, node: NodeId, value: Value) {
    let (cell, row) = likes(replica, node);
    assert_eq!(row, value);
    assert!(
        matches!(&cell, Cell::Value(held) if *held == value),
        "{cell:?}"
    );
}

fn asks(replica: &Replica, node: NodeId, value: Value) {
    let (cell, row) = likes(replica, node);
    assert_eq!(row, value);
    assert!(matches!(cell, Cell::Rows), "{cell:?}");
}

/// A changed cell refers to the rows until the next merge, for every kind of change.
#[test]
fn a_field_goes_through_its_kinds() {
    let replica = Replica::new(1 << 20);
    let node = post(&replica);
    let plain = |value: Value| {
        write(&replica.store, |tx| {
            tx.graph_mut()
                .set_node_property(node, &["likes"], value)
                .unwrap();
        });
    };
    plain(Value::Int(3));
    let kind = make(&replica);
    holds(&replica, node, Value::Int(3));
    plain(Value::Null);
    holds(&replica, node, Value::Null);
    let x = || Value::from("x");
    let steps = [
        (ConvergentOp::Count(5), Value::Int(5)),
        (ConvergentOp::Count(-7), Value::Int(-2)),
        (ConvergentOp::Clear, Value::Null),
        (ConvergentOp::Assign(x()), x()),
        (ConvergentOp::Assign(Value::Int(1)), Value::Int(1)),
        (ConvergentOp::Clear, Value::Null),
        (ConvergentOp::AssignMulti(x()), x()),
        (ConvergentOp::Clear, Value::Null),
        (ConvergentOp::Enable, Value::Bool(true)),
        (ConvergentOp::Disable, Value::Null),
    ];
    for (op, value) in steps {
        let before = replica.store.begin(Access::Read).unwrap();
        let old = read(&replica, &before, node);
        write(&replica.store, |tx| {
            let owner = ConvergentOwner::Node(node);
            tx.fields_mut()
                .converge(owner, &["likes"], &op, None)
                .unwrap();
        });
        asks(&replica, node, value.clone());
        assert_eq!(read(&replica, &before, node), old);
        replica.views.merge_now(&kind).unwrap();
        holds(&replica, node, value);
    }
    write(&replica.store, |tx| {
        let owner = ConvergentOwner::Node(node);
        let op = ConvergentOp::Insert(x());
        tx.fields_mut()
            .converge(owner, &["likes"], &op, None)
            .unwrap();
    });
    replica.views.merge_now(&kind).unwrap();
    asks(&replica, node, Value::from(vec![x()]));
    plain(Value::Null);
    plain(Value::Int(7));
    asks(&replica, node, Value::Int(7));
    replica.views.merge_now(&kind).unwrap();
    holds(&replica, node, Value::Int(7));
}

/// The node survives because it was created twice; increments seen by the deletion are lost.
#[test]
fn a_deletion_takes_out_what_it_had_seen() {
    let [a, b, c] = std::array::from_fn(|_| Replica::new(1 << 20));
    for (replica, by) in [(&a, 5), (&c, 2)] {
        let node = post(replica);
        write(&replica.store, |tx| count(tx, node, by));
        send(&replica.store, &b.store);
    }
    let node = find(&b);
    let kind = make(&b);
    holds(&b, node, Value::Int(7));
    write(&a.store, |tx| {
        tx.graph_mut().delete_node(find(&a), true).unwrap()
    });
    send(&a.store, &b.store);
    asks(&b, node, Value::Int(2));
    b.views.merge_now(&kind).unwrap();
    holds(&b, node, Value::Int(2));
}

/// Operations that no deletion had seen outlive the node, and reappear with it.
#[test]
fn a_node_that_is_made_anew_has_the_fields_that_outlived_it() {
    let [a, b] = std::array::from_fn(|_| Replica::new(1 << 20));
    let node = post(&a);
    write(&a.store, |tx| count(tx, node, 5));
    send(&a.store, &b.store);
    let kind = make(&b);
    holds(&b, find(&b), Value::Int(5));
    write(&b.store, |tx| count(tx, find(&b), 1));
    write(&a.store, |tx| {
        tx.graph_mut().delete_node(node, true).unwrap()
    });
    send(&a.store, &b.store);
    b.views.merge_now(&kind).unwrap();
    post(&a);
    send(&a.store, &b.store);
    let node = find(&b);
    asks(&b, node, Value::Int(1));
    b.views.merge_now(&kind).unwrap();
    holds(&b, node, Value::Int(1));
}

#[test]
fn a_joined_state_changes_fields() {
    let [a, b] = std::array::from_fn(|_| Replica::new(1 << 20));
    let node = post(&a);
    write(&a.store, |tx| count(tx, node, 5));
    send(&a.store, &b.store);
    let node = find(&b);
    let kind = make(&b);
    write(&a.store, |tx| count(tx, find(&a), 4));
    join(&a.store, &b.store);
    asks(&b, node, Value::Int(9));
    b.views.merge_now(&kind).unwrap();
    holds(&b, node, Value::Int(9));
}
