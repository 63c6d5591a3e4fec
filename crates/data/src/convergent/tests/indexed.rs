//! Indexes over convergent fields: random concurrent histories, compared with a full scan.

use std::{
    collections::BTreeSet,
    ops::{Bound, ControlFlow},
    sync::Arc,
};

use isomer_layout::convergent::{
    clock::Dot, effect::Action, place::element, position::FieldPosition, testing::Dice,
};
use isomer_storage::{Engine, MemoryEngine};
use isomer_value::{Map, NodeId, PropId, Value, key};

use crate::{
    Access, ConvergentKind, ConvergentOp, ConvergentOwner, DataError, DataStore, DataStoreOptions,
    ErrorKind, FieldPath, GraphRead, IndexCursor, IndexField, IndexSeek, IndexSpec, Order,
    SchemaChange, ScopeName, Transaction,
};

/// Name, paths, whether over elements.
type Named = (&'static str, &'static [&'static [&'static str]], bool);

const INDEXES: [Named; 10] = [
    ("count", &[&["count"]], false),
    ("tags", &[&["tags"]], true),
    ("grown", &[&["grown"]], true),
    ("last", &[&["last"]], false),
    ("all", &[&["all"]], true),
    ("flag", &[&["flag"]], false),
    ("inner", &[&["map", "tags"]], true),
    ("pair", &[&["year"], &["map", "count"]], false),
    ("two", &[&["count"], &["last"]], false),
    ("flagged", &[&["flag"], &["count"]], false),
];

fn open() -> DataStore {
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
    DataStore::open(engine, DataStoreOptions::default()).unwrap()
}

fn create(store: &DataStore, (name, paths, each): Named, unique: bool) -> Result<(), DataError> {
    let fields = paths.iter().map(|path| IndexField {
        path: FieldPath::new(path.iter().copied()),
        each,
    });
    store
        .change_schema(SchemaChange::CreateIndex {
            spec: IndexSpec {
                name: Some(name.into()),
                scope: ScopeName::label("Post"),
                fields: fields.collect(),
                unique,
            },
            if_not_exists: false,
        })
        .map(drop)
}

fn operation(dice: &mut Dice) -> (&'static [&'static str], ConvergentOp) {
    let element = Value::Int(dice.below(5) as i64);
    match dice.below(16) {
        0 | 1 => (&["count"], ConvergentOp::Count(dice.below(5) as i64 - 2)),
        2 | 3 => (&["tags"], ConvergentOp::Insert(element)),
        4 => (&["tags"], ConvergentOp::Remove(element)),
        5 => (&["grown"], ConvergentOp::InsertGrowing(element)),
        6 => (&["last"], ConvergentOp::Assign(element)),
        7 => (&["all"], ConvergentOp::AssignMulti(element)),
        8 => (&["flag"], ConvergentOp::Enable),
        9 => (&["flag"], ConvergentOp::Disable),
        10 => (&["map", "tags"], ConvergentOp::Insert(element)),
        11 => (&["map", "tags"], ConvergentOp::Remove(element)),
        12 => (&["map", "count"], ConvergentOp::Count(1)),
        13 => (&["map"], ConvergentOp::Clear),
        14 => (&["tags"], ConvergentOp::Clear),
        _ => (&["count"], ConvergentOp::Clear),
    }
}

fn step(tx: &mut Transaction, dice: &mut Dice) -> Result<(), DataError> {
    let mut nodes = Vec::new();
    tx.scan_nodes(None, None, 100, &mut nodes)?;
    let label = tx.name_ids().intern_label("Post")?;
    if nodes.len() < 3 {
        let plain: Map = [("year", Value::Int(1)), ("tags", Value::from("plain"))]
            .into_iter()
            .collect();
        let plain = if dice.below(2) == 0 {
            plain
        } else {
            Map::new()
        };
        return tx.graph_mut().create_node(&[label], &plain).map(drop);
    }
    let node = nodes[dice.below(nodes.len())];
    match dice.below(20) {
        0 => tx.graph_mut().add_label(node, label).map(drop),
        1 => tx.graph_mut().remove_label(node, label).map(drop),
        2 => tx.graph_mut().delete_node(node, true).map(drop),
        3 => tx
            .graph_mut()
            .set_node_property(node, &["year"], Value::Int(dice.below(3) as i64)),
        4 => tx
            .graph_mut()
            .set_node_property(node, &["year"], Value::Null),
        5 => {
            let list = Value::List(Arc::new(vec![Value::Int(1), Value::from("x")]));
            tx.graph_mut().set_node_property(node, &["tags"], list)
        }
        6 => tx
            .graph_mut()
            .set_node_property(node, &["count"], Value::Int(7)),
        _ => {
            let (path, op) = operation(dice);
            tx.fields_mut()
                .converge(ConvergentOwner::Node(node), path, &op, None)
        }
    }
}

fn run(tx: &mut Transaction, dice: &mut Dice) {
    for _ in 0..1 + dice.below(4) {
        let mark = tx.savepoint();
        match step(tx, dice) {
            Ok(()) if dice.below(8) > 0 => tx.release(mark),
            Ok(()) => tx.rollback_to(mark).unwrap(),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
                tx.rollback_to(mark).unwrap();
            }
        }
    }
}

fn value_at(tx: &Transaction, node: NodeId, path: &[&str]) -> Value {
    let Some(prop) = tx.name_ids().find_prop(path[0]) else {
        return Value::Null;
    };
    let mut columns = vec![Vec::new()];
    let props: [PropId; 1] = [prop];
    tx.node_properties(&[node], &props, &mut columns).unwrap();
    let mut value = columns[0][0].clone();
    for name in &path[1..] {
        value = match &value {
            Value::Map(map) => map.get(name).cloned().unwrap_or(Value::Null),
            _ => Value::Null,
        };
    }
    value
}

fn sought(tx: &Transaction, name: &str, prefix: &[Value]) -> BTreeSet<NodeId> {
    let index = tx.catalog().index_named(name).unwrap().id;
    let seek = IndexSeek {
        index,
        prefix,
        range: (Bound::Unbounded, Bound::Unbounded),
        order: Order::Ascending,
    };
    let (mut cursor, mut out) = (IndexCursor::default(), Vec::new());
    while !cursor.is_done() {
        tx.index_seek(&seek, &mut cursor, 7, &mut out).unwrap();
    }
    let found: BTreeSet<NodeId> = out.iter().copied().collect();
    assert!(
        found.len() == out.len() || prefix.is_empty(),
        "{name} finds a node twice"
    );
    found
}

/// Every index finds for each existing value what a full scan finds.
fn compare(tx: &Transaction) {
    let mut members = Vec::new();
    let label = tx.name_ids().find_label("Post").unwrap();
    tx.scan_nodes(Some(label), None, 1000, &mut members)
        .unwrap();
    for (name, paths, each) in INDEXES {
        if tx.catalog().index_named(name).is_none() {
            continue;
        }
        let mut expected: Vec<(Vec<u8>, Vec<Value>, NodeId)> = Vec::new();
        for &node in &members {
            let values: Vec<Value> = paths.iter().map(|path| value_at(tx, node, path)).collect();
            if values.iter().any(Value::is_null) {
                continue;
            }
            let tuples: Vec<Vec<Value>> = match &values[..] {
                [Value::List(items)] if each => items.iter().map(|one| vec![one.clone()]).collect(),
                _ => vec![values],
            };
            for tuple in tuples {
                expected.push((key::encode_all(&tuple).unwrap(), tuple, node));
            }
        }
        let keys: BTreeSet<&Vec<u8>> = expected.iter().map(|(key, ..)| key).collect();
        for key in keys {
            let here = expected.iter().filter(|(own, ..)| own == key);
            let nodes: BTreeSet<NodeId> = here.clone().map(|(.., node)| *node).collect();
            let (_, tuple, _) = here.clone().next().unwrap();
            assert_eq!(sought(tx, name, tuple), nodes, "{name} of {tuple:?}");
        }
        let all: BTreeSet<NodeId> = expected.iter().map(|(.., node)| *node).collect();
        assert_eq!(sought(tx, name, &[]), all, "all of {name}");
    }
}

fn check(store: &DataStore) {
    let found = crate::consistency::check(store, &mut |_, _| ControlFlow::Continue(())).unwrap();
    assert_eq!(found, Vec::<String>::new());
}

fn history(seed: u64) {
    let mut dice = Dice::new(seed);
    let store = open();
    for round in 0..24 {
        if dice.below(3) == 0 {
            let name = INDEXES[dice.below(INDEXES.len())];
            let drop_it = SchemaChange::DropIndex {
                name: name.0.into(),
                if_exists: true,
            };
            // A field that is plain on one node and convergent on another is in the index all the same.
            if create(&store, name, false).is_err() {
                store.change_schema(drop_it).unwrap();
            }
        }
        let mut one = store.begin(Access::Write).unwrap();
        let mut other = store.begin(Access::Write).unwrap();
        run(&mut one, &mut dice);
        run(&mut other, &mut dice);
        if store.catalog().label_id("Post").is_some() {
            compare(&one);
        }
        for tx in [one, other] {
            match tx.commit() {
                Ok(_) => {}
                Err(error) => assert_eq!(error.kind(), ErrorKind::Retry, "{error}"),
            }
        }
        if round % 4 == 3 {
            compare(&store.begin(Access::Read).unwrap());
            check(&store);
        }
    }
}

#[test]
fn an_index_finds_what_a_full_scan_finds() {
    let count = std::env::var("ISOMER_HISTORIES").ok();
    let count = count.and_then(|count| count.parse().ok()).unwrap_or(300);
    for seed in 0..count {
        let done = std::panic::catch_unwind(|| history(seed));
        assert!(done.is_ok(), "seed {seed}");
    }
}

/// Two additions to an indexed set do not conflict, two increments do; a reader of the index conflicts.
#[test]
fn adding_stays_blind_and_counting_does_not() {
    let store = open();
    create(&store, INDEXES[0], false).unwrap();
    create(&store, INDEXES[1], false).unwrap();
    let mut tx = store.begin(Access::Write).unwrap();
    let label = tx.name_ids().intern_label("Post").unwrap();
    let node = tx.graph_mut().create_node(&[label], &Map::new()).unwrap();
    tx.commit().unwrap();
    let owner = ConvergentOwner::Node(node);
    let both = |ops: [(&str, ConvergentOp); 2]| {
        let mut open = ops.map(|(path, op)| {
            let mut tx = store.begin(Access::Write).unwrap();
            tx.fields_mut().converge(owner, &[path], &op, None).unwrap();
            Some(tx)
        });
        let mut done = open.iter_mut().map(|tx| tx.take().unwrap().commit());
        done.next().unwrap().unwrap();
        done.next().unwrap().map(drop)
    };
    let insert = |value: i64| ("tags", ConvergentOp::Insert(Value::Int(value)));
    // The first operation decides the kind.
    assert_eq!(
        both([insert(1), insert(1)]).unwrap_err().kind(),
        ErrorKind::Retry
    );
    both([insert(1), insert(1)]).unwrap();
    both([insert(1), insert(2)]).unwrap();
    let count = || ("count", ConvergentOp::Count(1));
    assert_eq!(
        both([count(), count()]).unwrap_err().kind(),
        ErrorKind::Retry
    );
    let remove = ("tags", ConvergentOp::Remove(Value::Int(2)));
    assert_eq!(
        both([insert(2), remove]).unwrap_err().kind(),
        ErrorKind::Retry
    );

    let mut reader = store.begin(Access::Write).unwrap();
    assert!(sought(&reader, "tags", &[Value::Int(9)]).is_empty());
    reader
        .graph_mut()
        .set_node_property(node, &["seen"], Value::Int(0))
        .unwrap();
    let mut tx = store.begin(Access::Write).unwrap();
    tx.fields_mut()
        .converge(owner, &["tags"], &insert(9).1, None)
        .unwrap();
    tx.commit().unwrap();
    assert_eq!(reader.commit().unwrap_err().kind(), ErrorKind::Retry);
    compare(&store.begin(Access::Read).unwrap());

    // Removing or adding the label conflicts with operations that did not see it.
    for add in [false, true] {
        let mut tx = store.begin(Access::Write).unwrap();
        match add {
            true => tx.graph_mut().add_label(node, label).unwrap(),
            false => tx.graph_mut().remove_label(node, label).unwrap(),
        };
        let mut concurrent = store.begin(Access::Write).unwrap();
        concurrent
            .fields_mut()
            .converge(owner, &["tags"], &insert(3).1, None)
            .unwrap();
        tx.commit().unwrap();
        assert_eq!(concurrent.commit().unwrap_err().kind(), ErrorKind::Retry);
        check(&store);
    }
}

/// A field that the index cannot hold is refused, by the creation of the index and of the field.
#[test]
fn what_cannot_be_indexed_is_refused() {
    let store = open();
    let mut tx = store.begin(Access::Write).unwrap();
    let label = tx.name_ids().intern_label("Post").unwrap();
    let node = tx.graph_mut().create_node(&[label], &Map::new()).unwrap();
    let owner = ConvergentOwner::Node(node);
    let sketch = ConvergentOp::Observe(Value::Int(1), None);
    let tag = ConvergentOp::Insert(Value::Int(1));
    tx.fields_mut()
        .converge(owner, &["tags"], &tag, None)
        .unwrap();
    tx.fields_mut()
        .converge(owner, &["sketch"], &sketch, None)
        .unwrap();
    tx.commit().unwrap();
    for (name, path, each, unique, why) in [
        ("a", "tags", false, false, "sets are indexed by element"),
        (
            "b",
            "sketch",
            false,
            false,
            "fields of that kind cannot be indexed",
        ),
        ("c", "tags", true, true, "is a convergent SET on node"),
    ] {
        let path: &'static [&'static str] = Box::leak(Box::new([path]));
        let refused = create(&store, (name, Box::leak(Box::new([path])), each), unique);
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains(why), "{refused}");
    }
    create(&store, ("d", &[&["other"]], false), false).unwrap();
    create(&store, ("e", &[&["only"]], true), true).unwrap();
    let mut tx = store.begin(Access::Write).unwrap();
    for (path, op) in [
        (&["other"][..], &tag),
        (&["other", "x"], &tag),
        (&["other"], &sketch),
        (&["only"], &tag),
    ] {
        let refused = tx.fields_mut().converge(owner, path, op, None).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid, "{refused}");
        assert!(refused.to_string().contains("indexed by"), "{refused}");
    }
    let long = Value::from("x".repeat(5000).as_str());
    let refused = tx
        .fields_mut()
        .converge(owner, &["other"], &ConvergentOp::Assign(long), None)
        .unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Limit, "{refused}");
    tx.fields_mut()
        .converge(
            owner,
            &["other"],
            &ConvergentOp::Assign(Value::Int(4)),
            None,
        )
        .unwrap();
    tx.commit().unwrap();
    check(&store);
    let tx = store.begin(Access::Read).unwrap();
    assert_eq!(sought(&tx, "d", &[Value::Int(4)]), BTreeSet::from([node]));
}

/// Removing a large set by one operation deletes its entries.
#[test]
fn large_sets_are_deleted_with_their_entries() {
    let store = open();
    create(&store, INDEXES[1], false).unwrap();
    let mut tx = store.begin(Access::Write).unwrap();
    let label = tx.name_ids().intern_label("Post").unwrap();
    let node = tx.graph_mut().create_node(&[label], &Map::new()).unwrap();
    let owner = ConvergentOwner::Node(node);
    for value in 0..12_000 {
        let op = ConvergentOp::Insert(Value::Int(value));
        tx.fields_mut()
            .converge(owner, &["tags"], &op, None)
            .unwrap();
    }
    tx.commit().unwrap();
    check(&store);
    for how in 0..2 {
        let mut tx = store.begin(Access::Write).unwrap();
        match how {
            0 => drop(tx.graph_mut().remove_label(node, label).unwrap()),
            _ => tx
                .fields_mut()
                .converge(owner, &["tags"], &ConvergentOp::Clear, None)
                .unwrap(),
        }
        assert!(sought(&tx, "tags", &[Value::Int(11_999)]).is_empty());
        if how == 1 {
            tx.commit().unwrap();
            check(&store);
        }
    }
}

fn a_post(store: &DataStore) -> NodeId {
    let mut tx = store.begin(Access::Write).unwrap();
    let label = tx.name_ids().intern_label("Post").unwrap();
    let node = tx.graph_mut().create_node(&[label], &Map::new()).unwrap();
    tx.commit().unwrap();
    node
}

/// Runs both in concurrent transactions; returns the outcome of the second.
fn run_concurrently(
    store: &DataStore,
    node: NodeId,
    ops: [(&[&str], ConvergentOp); 2],
) -> Result<(), DataError> {
    let [one, other] = ops.map(|(path, op)| {
        let mut tx = store.begin(Access::Write).unwrap();
        tx.fields_mut()
            .converge(ConvergentOwner::Node(node), path, &op, None)
            .unwrap();
        tx
    });
    one.commit().unwrap();
    other.commit().map(drop)
}

fn alone(store: &DataStore, node: NodeId, path: &[&str], op: &ConvergentOp) {
    let mut tx = store.begin(Access::Write).unwrap();
    tx.fields_mut()
        .converge(ConvergentOwner::Node(node), path, op, None)
        .unwrap();
    tx.commit().unwrap();
}

fn is_retry(done: Result<(), DataError>) -> bool {
    matches!(done, Err(error) if error.kind() == ErrorKind::Retry)
}

/// The entry of two fields is computed from both: changing one of them observes the other.
#[test]
fn concurrent_changes_of_fields_of_one_index_conflict() {
    let count = || ConvergentOp::Count(1);
    let assign = || ConvergentOp::Assign(Value::Int(3));
    for (index, other) in [
        (INDEXES[8], (&["last"][..], assign())),
        (INDEXES[9], (&["flag"][..], ConvergentOp::Enable)),
    ] {
        for swapped in [false, true] {
            for is_known in [false, true] {
                let store = open();
                create(&store, index, false).unwrap();
                let node = a_post(&store);
                if is_known {
                    alone(&store, node, &["count"], &count());
                    alone(&store, node, other.0, &other.1);
                }
                let mut ops = [(&["count"][..], count()), (other.0, other.1.clone())];
                if swapped {
                    ops.reverse();
                }
                assert!(is_retry(run_concurrently(&store, node, ops)), "{}", index.0);
                compare(&store.begin(Access::Read).unwrap());
                check(&store);
            }
        }
    }
}

/// Two transactions that create one field, of two kinds: the second conflicts, and is refused when it runs again.
#[test]
fn an_indexed_field_is_made_of_one_kind() {
    let ops = [
        ConvergentOp::Insert(Value::Int(1)),
        ConvergentOp::InsertGrowing(Value::Int(2)),
        ConvergentOp::Enable,
        ConvergentOp::Count(1),
    ];
    for one in &ops {
        for other in &ops {
            let store = open();
            create(&store, INDEXES[1], false).unwrap();
            let node = a_post(&store);
            let both = [(&["tags"][..], one.clone()), (&["tags"][..], other.clone())];
            assert!(
                is_retry(run_concurrently(&store, node, both)),
                "{one:?} and {other:?}"
            );
            compare(&store.begin(Access::Read).unwrap());
            check(&store);
        }
    }
}

/// As if another replica had done it: of any kind the field has here.
fn from_elsewhere(tx: &mut Transaction, node: NodeId, path: &[&str], does: &ConvergentOp) {
    let prop = tx.name_ids().intern_prop(path[0]).unwrap();
    let (kind, action) = match does {
        ConvergentOp::Count(by) => (ConvergentKind::Counter, Action::Count(*by)),
        ConvergentOp::Enable => (ConvergentKind::Flag, Action::Enable),
        ConvergentOp::Insert(value) => {
            let (element, exact) = element(value).unwrap();
            (ConvergentKind::Set, Action::Insert { element, exact })
        }
        _ => unreachable!("no test does it"),
    };
    let owner = ConvergentOwner::Node(node);
    let position = FieldPosition::new(owner, prop, &path[1..]).kind(kind, 0);
    let (replica, number, time, _) = tx.fields_mut().number().unwrap();
    let dot = Dot {
        replica,
        number,
        op: 1000,
    };
    tx.fields_mut()
        .converge_remote(owner, position, &action, (dot, time), &|_| false)
        .unwrap();
}

/// A set that a field of another kind shadows is not in its index any more, and again when that field is removed.
#[test]
fn entries_of_a_set_follow_a_field_that_shadows_it() {
    let store = open();
    create(&store, INDEXES[6], false).unwrap();
    let insert = |value| ConvergentOp::Insert(Value::Int(value));
    let found = |value| {
        let tx = store.begin(Access::Read).unwrap();
        compare(&tx);
        check(&store);
        sought(&tx, "inner", &[Value::Int(value)])
    };
    let elsewhere = |node, path: &[&str], op: &ConvergentOp| {
        let mut tx = store.begin(Access::Write).unwrap();
        from_elsewhere(&mut tx, node, path, op);
        tx.commit().unwrap();
    };

    let node = a_post(&store);
    alone(&store, node, &["map", "tags"], &insert(5));
    assert_eq!(found(5), BTreeSet::from([node]));
    elsewhere(node, &["map"], &ConvergentOp::Count(1));
    assert_eq!(found(5), BTreeSet::new());

    let node = a_post(&store);
    alone(&store, node, &["map"], &ConvergentOp::Enable);
    elsewhere(node, &["map", "tags"], &insert(6));
    assert_eq!(found(6), BTreeSet::new());
    alone(&store, node, &["map"], &ConvergentOp::Disable);
    assert_eq!(found(6), BTreeSet::from([node]));

    // Shadowing a set conflicts with adding to it.
    for swapped in [false, true] {
        let node = a_post(&store);
        alone(&store, node, &["map", "tags"], &insert(7));
        let mut adding = store.begin(Access::Write).unwrap();
        let owner = ConvergentOwner::Node(node);
        adding
            .fields_mut()
            .converge(owner, &["map", "tags"], &insert(8), None)
            .unwrap();
        let mut hiding = store.begin(Access::Write).unwrap();
        from_elsewhere(&mut hiding, node, &["map"], &ConvergentOp::Count(1));
        let (one, other) = match swapped {
            false => (adding, hiding),
            true => (hiding, adding),
        };
        one.commit().unwrap();
        assert!(is_retry(other.commit().map(drop)));
        found(8);
    }
}

/// A label with a unique index over a convergent field cannot be added to a node that has it.
#[test]
fn a_label_with_a_unique_index_is_refused_to_convergent_fields() {
    let store = open();
    create(&store, ("mail", &[&["mail"]], false), true).unwrap();
    let mut tx = store.begin(Access::Write).unwrap();
    let post = tx.name_ids().intern_label("Post").unwrap();
    let other = tx.name_ids().intern_label("Other").unwrap();
    let node = tx.graph_mut().create_node(&[other], &Map::new()).unwrap();
    let owner = ConvergentOwner::Node(node);
    let mail = ConvergentOp::Assign(Value::from("a@b"));
    tx.fields_mut()
        .converge(owner, &["mail"], &mail, None)
        .unwrap();
    tx.commit().unwrap();
    let mut tx = store.begin(Access::Write).unwrap();
    let refused = tx.graph_mut().add_label(node, post).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid, "{refused}");
    drop(tx);

    let mut tx = store.begin(Access::Write).unwrap();
    tx.fields_mut()
        .converge(owner, &["mail"], &ConvergentOp::Clear, None)
        .unwrap();
    tx.commit().unwrap();
    let mut labels = store.begin(Access::Write).unwrap();
    labels.graph_mut().add_label(node, post).unwrap();
    let mut making = store.begin(Access::Write).unwrap();
    making
        .fields_mut()
        .converge(owner, &["mail"], &mail, None)
        .unwrap();
    making.commit().unwrap();
    assert_eq!(labels.commit().unwrap_err().kind(), ErrorKind::Retry);
    check(&store);
}

/// An index over one field of a map is independent of the other fields of the map.
#[test]
fn other_fields_of_an_indexed_map_do_not_conflict() {
    let store = open();
    create(&store, ("views", &[&["map", "views"]], false), false).unwrap();
    let node = a_post(&store);
    let long = |bytes: usize| ConvergentOp::Assign(Value::from("x".repeat(bytes).as_str()));
    alone(&store, node, &["map", "bio"], &long(9000));
    alone(&store, node, &["map", "views"], &long(3000));
    let count = || (&["map", "likes"][..], ConvergentOp::Count(1));
    alone(&store, node, count().0, &count().1);
    run_concurrently(&store, node, [count(), count()]).unwrap();
    let tx = store.begin(Access::Read).unwrap();
    assert_eq!(value_at(&tx, node, &["map", "likes"]), Value::Int(3));
    check(&store);
}

/// An index that was given up while it was built is not created.
#[test]
fn an_index_that_was_given_up_is_not_created() {
    let store = open();
    let node = a_post(&store);
    alone(&store, node, &["count"], &ConvergentOp::Count(1));
    let spec = IndexSpec {
        name: Some("tags".into()),
        scope: ScopeName::label("Post"),
        fields: vec![IndexField {
            path: FieldPath::new(["tags"]),
            each: false,
        }],
        unique: false,
    };
    let change = SchemaChange::CreateIndex {
        spec,
        if_not_exists: false,
    };
    let refused = store.change_schema_while(change, &mut || {
        if let Some(index) = store.catalog().index_named("tags") {
            store.give_up_index(index.id).unwrap();
        }
        true
    });
    let refused = refused.unwrap_err();
    assert!(refused.to_string().contains("another replica"), "{refused}");
    assert!(store.catalog().index_named("tags").is_none());
    check(&store);
}
