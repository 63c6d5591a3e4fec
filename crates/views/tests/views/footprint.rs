//! An observation in a view conflicts exactly as reading the row would.

use std::sync::Arc;

use crate::common::World;
use isomer_data::{
    Access, ConvergentOp, ConvergentOwner, DataError, DataStore, DataStoreOptions, Direction,
    GraphRead, Neighbours, NodeLabels, Transaction,
};
use isomer_storage::MemoryEngine;
use isomer_value::{LabelId, Map, NodeId, TypeId, Value};
use isomer_views::{ViewOptions, ViewReader, Views};

struct Fixture {
    store: DataStore,
    views: Arc<Views>,
    a: LabelId,
    b: LabelId,
    r: TypeId,
}

const NODES: u64 = 8;

fn fixture() -> Fixture {
    let store =
        DataStore::open(Arc::new(MemoryEngine::new()), DataStoreOptions::default()).unwrap();
    let views = Views::open(&store, ViewOptions::default()).unwrap();
    let world = World::new(&store);
    let mut tx = store.begin(Access::Write).unwrap();
    let (a, b) = (
        tx.name_ids().intern_label("A").unwrap(),
        tx.name_ids().intern_label("B").unwrap(),
    );
    let r = tx.name_ids().intern_type("R").unwrap();
    let properties: Map = [("p", Value::Int(1))].into_iter().collect();
    for _ in 0..NODES {
        let node = tx.graph_mut().create_node(&[a], &properties).unwrap();
        let op = ConvergentOp::Count(1);
        tx.fields_mut()
            .converge(ConvergentOwner::Node(node), &["f"], &op, None)
            .unwrap();
    }
    tx.graph_mut()
        .create_relationship(r, NodeId(0), NodeId(1), &Map::new())
        .unwrap();
    tx.commit().unwrap();
    for kind in world.kinds() {
        views.make(&kind).unwrap();
    }
    Fixture {
        store,
        views,
        a,
        b,
        r,
    }
}

/// Whether a transaction with this read, through views and through rows, conflicts with a commit of this
/// change.
fn collides(
    read: impl Fn(&Fixture, &dyn GraphRead),
    change: impl Fn(&Fixture, &mut Transaction),
) -> bool {
    let outcome = |through_views: bool| {
        let fixture = fixture();
        let mut tx = fixture.store.begin(Access::Write).unwrap();
        let at = fixture.views.at(&tx);
        if through_views {
            let reader = ViewReader::new(&tx, &at);
            read(&fixture, &reader);
        } else {
            read(&fixture, &tx);
        }
        let mut other = fixture.store.begin(Access::Write).unwrap();
        change(&fixture, &mut other);
        other.commit().unwrap();
        // One more write, so that the commit is not empty.
        tx.graph_mut()
            .create_node(&[fixture.b], &Map::new())
            .unwrap();
        match tx.commit() {
            Ok(_) => false,
            Err(DataError::Conflict { .. }) => true,
            Err(error) => panic!("{error}"),
        }
    };
    let (views, rows) = (outcome(true), outcome(false));
    assert_eq!(views, rows, "views and rows record different footprints");
    views
}

fn asked() -> Vec<NodeId> {
    (0..NODES - 1).map(NodeId).collect()
}

#[test]
fn neighbours_that_were_seen_must_not_change() {
    let read = |fixture: &Fixture, read: &dyn GraphRead| {
        let mut found = Neighbours::new();
        read.expand(&asked()[..2], Direction::Outgoing, &[fixture.r], &mut found)
            .unwrap();
    };
    let link = |from: u64, to: u64| {
        move |fixture: &Fixture, tx: &mut Transaction| {
            tx.graph_mut()
                .create_relationship(fixture.r, NodeId(from), NodeId(to), &Map::new())
                .unwrap();
        }
    };
    assert!(collides(read, link(1, 4)));
    assert!(!collides(read, link(4, 1)));
    assert!(!collides(read, link(4, 5)));
    let degree = |fixture: &Fixture, read: &dyn GraphRead| {
        let mut found = Vec::new();
        let types = [fixture.r];
        read.degree(&asked()[..2], Direction::Both, &types, &mut found)
            .unwrap();
    };
    assert!(collides(degree, link(4, 1)));
    assert!(!collides(degree, link(4, 5)));
    let between = |_: &Fixture, read: &dyn GraphRead| {
        let mut found = Neighbours::new();
        read.expand_into(&[(NodeId(0), NodeId(3))], Direction::Both, &[], &mut found)
            .unwrap();
    };
    assert!(collides(between, link(3, 0)));
    assert!(!collides(between, link(0, 4)));
}

#[test]
fn members_that_were_seen_must_not_change() {
    let scan = |fixture: &Fixture, read: &dyn GraphRead| {
        let mut found = Vec::new();
        read.scan_nodes(Some(fixture.a), None, 3, &mut found)
            .unwrap();
    };
    let create = |label: fn(&Fixture) -> LabelId| {
        move |fixture: &Fixture, tx: &mut Transaction| {
            tx.graph_mut()
                .create_node(&[label(fixture)], &Map::new())
                .unwrap();
        }
    };
    assert!(collides(scan, create(|fixture| fixture.a)));
    assert!(!collides(scan, create(|fixture| fixture.b)));
}

#[test]
fn labels_and_properties_that_were_seen_must_not_change() {
    let labels = |_: &Fixture, read: &dyn GraphRead| {
        let mut found = NodeLabels::new();
        read.node_labels(&asked(), &mut found).unwrap();
    };
    let properties = |_: &Fixture, read: &dyn GraphRead| {
        let prop = read.catalog().prop_id("p").unwrap();
        let mut found = [Vec::new()];
        read.node_properties(&asked(), &[prop], &mut found).unwrap();
        assert_eq!(found[0], vec![Value::Int(1); NODES as usize - 1]);
    };
    let exist = |_: &Fixture, read: &dyn GraphRead| {
        let mut found = Vec::new();
        read.nodes_exist(&asked(), &mut found).unwrap();
    };
    let set = |node: u64| {
        move |_: &Fixture, tx: &mut Transaction| {
            tx.graph_mut()
                .set_node_property(NodeId(node), &["p"], Value::Int(2))
                .unwrap();
        }
    };
    let label = |node: u64| {
        move |fixture: &Fixture, tx: &mut Transaction| {
            tx.graph_mut().add_label(NodeId(node), fixture.b).unwrap();
        }
    };
    let delete = |_: &Fixture, tx: &mut Transaction| {
        tx.graph_mut().delete_node(NodeId(5), true).unwrap();
    };
    assert!(collides(labels, label(3)));
    assert!(!collides(labels, label(NODES - 1)));
    assert!(collides(properties, set(3)));
    assert!(!collides(properties, set(NODES - 1)));
    assert!(collides(properties, delete));
    assert!(!collides(exist, set(3)));
    assert!(collides(exist, delete));
}

#[test]
fn convergent_fields_that_were_seen_must_not_change() {
    let read = |name: &'static str, value: Value| {
        move |_: &Fixture, read: &dyn GraphRead| {
            let prop = read.catalog().prop_id(name).unwrap();
            let mut found = [Vec::new()];
            read.node_properties(&asked(), &[prop], &mut found).unwrap();
            assert_eq!(found[0], vec![value.clone(); NODES as usize - 1]);
        }
    };
    let converge = |name: &'static str, node: u64, op: ConvergentOp| {
        move |_: &Fixture, tx: &mut Transaction| {
            let owner = ConvergentOwner::Node(NodeId(node));
            tx.fields_mut().converge(owner, &[name], &op, None).unwrap();
        }
    };
    let field = || read("f", Value::Int(1));
    assert!(collides(field(), converge("f", 3, ConvergentOp::Count(1))));
    assert!(collides(field(), converge("f", 3, ConvergentOp::Clear)));
    assert!(!collides(
        field(),
        converge("f", NODES - 1, ConvergentOp::Count(1))
    ));
    // The absence of the field in any record was observed.
    let plain = || read("q", Value::Null);
    let enable = |node| converge("q", node, ConvergentOp::Enable);
    assert!(collides(plain(), enable(NODES - 1)));
}
