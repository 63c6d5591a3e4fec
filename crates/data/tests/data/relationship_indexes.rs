//! Indexes and constraints over relationships: kept by every write, refused violations, isolation, concurrent builds.

use std::{collections::BTreeMap, ops::Bound};

use crate::common::{int, list, map, memory, on_disk, second_process::needs_alone, text};
use isomer_data::{
    Access, ConstraintKind, ConstraintSpec, ConvergentOp, ConvergentOwner, DataError, DataStore,
    ErrorKind, FieldPath, GraphRead, IndexCursor, IndexField, IndexSeek, IndexSpec, Order, RelRow,
    SchemaChange, ScopeName, Transaction, ValueType,
};
use isomer_value::{IndexId, Map, NodeId, RelId, TypeId, Value};

const EVERYTHING: (Bound<&Value>, Bound<&Value>) = (Bound::Unbounded, Bound::Unbounded);

fn field(name: &str, each: bool) -> IndexField {
    IndexField {
        path: FieldPath::top(name),
        each,
    }
}

fn create_index(store: &DataStore, name: &str, fields: Vec<IndexField>) -> Result<u64, DataError> {
    let spec = IndexSpec {
        name: Some(name.into()),
        scope: ScopeName::rel_type("PAID"),
        fields,
        unique: false,
    };
    let change = SchemaChange::CreateIndex {
        spec,
        if_not_exists: false,
    };
    Ok(store.change_schema(change)?.records_read)
}

fn constrain(
    store: &DataStore,
    name: &str,
    kind: ConstraintKind,
    fields: &[&str],
) -> Result<u64, DataError> {
    let spec = ConstraintSpec {
        name: Some(name.into()),
        scope: ScopeName::rel_type("PAID"),
        kind,
        unique_fields: fields.iter().map(|name| field(name, false)).collect(),
    };
    let change = SchemaChange::CreateConstraint {
        spec,
        if_not_exists: false,
    };
    Ok(store.change_schema(change)?.records_read)
}

fn unique() -> ConstraintKind {
    ConstraintKind::Unique { index: IndexId(0) }
}

/// A store with that many nodes.
fn nodes(store: &DataStore, count: usize) -> Vec<NodeId> {
    let mut tx = store.begin(Access::Write).unwrap();
    let new = |_| tx.graph_mut().create_node(&[], &Map::new()).unwrap();
    let nodes = (0..count).map(new).collect();
    tx.commit().unwrap();
    nodes
}

fn paid(tx: &Transaction) -> TypeId {
    tx.name_ids().intern_type("PAID").unwrap()
}

fn pay(
    tx: &mut Transaction,
    (source, target): (NodeId, NodeId),
    properties: &[(&str, Value)],
) -> Result<RelId, DataError> {
    let type_id = paid(tx);
    tx.graph_mut()
        .create_relationship(type_id, source, target, &map(properties))
}

fn sought(
    tx: &Transaction,
    index: &str,
    prefix: &[Value],
    range: (Bound<&Value>, Bound<&Value>),
    order: Order,
) -> Vec<RelRow> {
    let index = tx.catalog().index_named(index).expect("it exists").id;
    let seek = IndexSeek {
        index,
        prefix,
        range,
        order,
    };
    let (mut cursor, mut found) = (IndexCursor::default(), Vec::new());
    while !cursor.is_done() {
        tx.relationship_index_seek(&seek, &mut cursor, 3, &mut found)
            .unwrap();
    }
    found
}

fn ids(rows: &[RelRow]) -> Vec<u64> {
    rows.iter().map(|row| row.id.0).collect()
}

/// Entries are made for what exists and for what is written later, with the ends of each relationship; ranges, orders
/// and composite indexes read them.
#[test]
fn a_seek_finds_relationships_with_their_ends() {
    let store = memory();
    let nodes = nodes(&store, 3);
    let mut tx = store.begin(Access::Write).unwrap();
    for at in 0..700 {
        let ends = (nodes[at % 3], nodes[at % 2]);
        pay(&mut tx, ends, &[("at", int(at as i64))]).unwrap();
    }
    pay(&mut tx, (nodes[0], nodes[1]), &[("note", text("no time"))]).unwrap();
    tx.commit().unwrap();
    assert_eq!(
        create_index(&store, "at", vec![field("at", false)]).unwrap(),
        701
    );
    let mut tx = store.begin(Access::Write).unwrap();
    for at in 700..710 {
        pay(&mut tx, (nodes[2], nodes[2]), &[("at", int(at))]).unwrap();
    }
    tx.commit().unwrap();

    let tx = store.begin(Access::Read).unwrap();
    let (low, high) = (int(697), Value::Float(703.5));
    let range = (Bound::Excluded(&low), Bound::Included(&high));
    let found = sought(&tx, "at", &[], range, Order::Ascending);
    let mut rows = Vec::new();
    tx.scan_relationships(None, None, 1000, &mut rows).unwrap();
    let mut expected: Vec<RelRow> = rows[698..700].to_vec();
    expected.extend(&rows[701..705]);
    assert_eq!(found, expected);
    let mut down = sought(&tx, "at", &[], range, Order::Descending);
    down.reverse();
    assert_eq!(down, expected);
    let one = sought(&tx, "at", &[int(5)], EVERYTHING, Order::Ascending);
    assert_eq!(
        (one[0].source, one[0].target, one.len()),
        (nodes[2], nodes[1], 1)
    );
    // A seek of nodes in it is an error, not a node with the number of a relationship.
    let seek = IndexSeek {
        index: tx.catalog().index_named("at").unwrap().id,
        prefix: &[],
        range: EVERYTHING,
        order: Order::Ascending,
    };
    let wrong = tx.index_seek(&seek, &mut IndexCursor::default(), 1, &mut Vec::new());
    assert_eq!(wrong.unwrap_err().kind(), ErrorKind::Invalid);
}

/// What a plain map says each index holds.
fn expected_entries(
    model: &BTreeMap<u64, (bool, Map)>,
    fields: &[(&str, bool)],
) -> Vec<(Vec<Value>, u64)> {
    let mut entries = Vec::new();
    for (id, (_, properties)) in model.iter().filter(|(_, (is_paid, _))| *is_paid) {
        let mut rows: Vec<Vec<Value>> = vec![Vec::new()];
        for (name, each) in fields {
            let values: Vec<Value> = match properties.get(name) {
                None => Vec::new(),
                Some(Value::List(items)) if *each => {
                    let mut items = items.to_vec();
                    items.sort_by(isomer_value::order::cmp_order);
                    items.dedup();
                    items
                }
                Some(value) => vec![value.clone()],
            };
            let with = |row: &Vec<Value>| -> Vec<Vec<Value>> {
                let values = values.iter();
                values
                    .map(|value| [&row[..], std::slice::from_ref(value)].concat())
                    .collect()
            };
            rows = rows.iter().flat_map(with).collect();
        }
        entries.extend(rows.into_iter().map(|row| (row, *id)));
    }
    entries.sort_by(|(a, one), (b, other)| {
        let values = a.iter().zip(b);
        let order = values.map(|(a, b)| isomer_value::order::cmp_order(a, b));
        order
            .fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
            .then(one.cmp(other))
    });
    entries
}

/// Random creations, changes (one property, all, some), removals and deletions, in transactions of which some roll
/// back, with indexes that come and go: each index always holds what the records say.
#[test]
fn indexes_follow_every_write() {
    let indexes: [(&str, &[(&str, bool)]); 3] = [
        ("a", &[("a", false)]),
        ("tags", &[("tags", true)]),
        ("both", &[("b", false), ("a", false)]),
    ];
    let mut seed = 1_u64;
    let mut below = |bound: u64| {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % bound
    };
    let store = memory();
    let nodes = nodes(&store, 5);
    let mut model: BTreeMap<u64, (bool, Map)> = BTreeMap::new();
    for round in 0..150 {
        let (name, fields) = indexes[round % 3];
        if round % 7 == 0 && store.catalog().index_named(name).is_none() {
            let fields = fields
                .iter()
                .map(|(name, each)| field(name, *each))
                .collect();
            create_index(&store, name, fields).unwrap();
        } else if round % 40 == 39 {
            let drop = SchemaChange::DropIndex {
                name: name.into(),
                if_exists: true,
            };
            store.change_schema(drop).unwrap();
        }
        let mut tx = store.begin(Access::Write).unwrap();
        let (paid, other) = (paid(&tx), tx.name_ids().intern_type("OTHER").unwrap());
        let mut after = model.clone();
        for _ in 0..1 + below(6) {
            let number = int(below(4) as i64);
            let properties = match below(4) {
                0 => map(&[("a", number)]),
                1 => map(&[("a", number), ("b", text("x"))]),
                2 => map(&[("b", text("y")), ("tags", list(&[number, int(1)]))]),
                _ => map(&[("b", Value::Null), ("a", number)]),
            };
            let kept: Map = properties
                .iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect();
            let all: Vec<u64> = after.keys().copied().collect();
            let chosen = (!all.is_empty()).then(|| all[below(all.len() as u64) as usize]);
            let graph = &mut tx.graph_mut();
            match (below(8), chosen) {
                (0..3, _) | (_, None) => {
                    let is_paid = below(4) > 0;
                    let (a, b) = (nodes[below(5) as usize], nodes[below(5) as usize]);
                    let type_id = if is_paid { paid } else { other };
                    let id = graph
                        .create_relationship(type_id, a, b, &properties)
                        .unwrap();
                    after.insert(id.0, (is_paid, kept));
                }
                (3, Some(id)) => {
                    let (path, value) = (["a"], int(below(4) as i64));
                    graph
                        .set_relationship_property(RelId(id), &path, value.clone())
                        .unwrap();
                    after.get_mut(&id).unwrap().1.insert("a", value);
                }
                (4, Some(id)) => {
                    graph
                        .set_relationship_property(RelId(id), &["tags"], Value::Null)
                        .unwrap();
                    after.get_mut(&id).unwrap().1.remove("tags");
                }
                (5, Some(id)) => {
                    graph
                        .replace_relationship_properties(RelId(id), &properties)
                        .unwrap();
                    after.get_mut(&id).unwrap().1 = kept;
                }
                (6, Some(id)) => {
                    graph
                        .merge_relationship_properties(RelId(id), &properties)
                        .unwrap();
                    let own = &mut after.get_mut(&id).unwrap().1;
                    for (name, value) in properties.iter() {
                        match value.is_null() {
                            true => drop(own.remove(name)),
                            false => drop(own.insert(name.clone(), value.clone())),
                        }
                    }
                }
                (_, Some(id)) => {
                    graph.delete_relationship(RelId(id)).unwrap();
                    after.remove(&id);
                }
            }
        }
        if below(5) > 0 {
            tx.commit().unwrap();
            model = after;
        }
        let tx = store.begin(Access::Read).unwrap();
        for (name, fields) in indexes {
            if tx.catalog().index_named(name).is_none() {
                continue;
            }
            let found = sought(&tx, name, &[], EVERYTHING, Order::Ascending);
            let expected = expected_entries(&model, fields);
            let expected: Vec<u64> = expected.into_iter().map(|(_, id)| id).collect();
            assert_eq!(ids(&found), expected, "{name} in round {round}");
        }
    }
}

/// Deleting a node with its relationships removes their entries; a rolled back statement puts them back.
#[test]
fn detaching_a_node_removes_the_entries() {
    if needs_alone("it names the first relationship") {
        return;
    }
    let store = memory();
    let nodes = nodes(&store, 3);
    create_index(&store, "at", vec![field("at", false)]).unwrap();
    let mut tx = store.begin(Access::Write).unwrap();
    pay(&mut tx, (nodes[0], nodes[1]), &[("at", int(1))]).unwrap();
    pay(&mut tx, (nodes[1], nodes[2]), &[("at", int(2))]).unwrap();
    pay(&mut tx, (nodes[2], nodes[2]), &[("at", int(3))]).unwrap();
    let mark = tx.savepoint();
    tx.graph_mut().delete_node(nodes[2], true).unwrap();
    let left = |tx: &Transaction| ids(&sought(tx, "at", &[], EVERYTHING, Order::Ascending));
    assert_eq!(left(&tx), [0]);
    tx.rollback_to(mark).unwrap();
    assert_eq!(left(&tx), [0, 1, 2]);
    tx.graph_mut().delete_node(nodes[1], true).unwrap();
    tx.commit().unwrap();
    assert_eq!(left(&store.begin(Access::Read).unwrap()), [2]);
}

/// Unique constraints, keys, existence and types refuse relationships as they refuse nodes; nodes and other types are
/// not concerned.
#[test]
fn constraints_refuse_relationships() {
    if needs_alone("it names the first relationship") {
        return;
    }
    let store = memory();
    let nodes = nodes(&store, 2);
    let ends = (nodes[0], nodes[1]);
    let path = |name: &str| FieldPath::top(name);
    constrain(&store, "number", unique(), &["number"]).unwrap();
    let mut tx = store.begin(Access::Write).unwrap();
    let first = pay(&mut tx, ends, &[("number", int(7)), ("sum", int(1))]).unwrap();
    let twice = pay(&mut tx, ends, &[("number", int(7))]).unwrap_err();
    assert_eq!(
        twice.to_string(),
        "relationship 1 and relationship 0 share the property value PAID.number = 7, number allows each value once: change or delete one of them"
    );
    // Other types, and relationships without the property, are free.
    let other = tx.name_ids().intern_type("OTHER").unwrap();
    let same = map(&[("number", int(7))]);
    let graph = &mut tx.graph_mut();
    graph
        .create_relationship(other, nodes[0], nodes[1], &same)
        .unwrap();
    let second = pay(&mut tx, ends, &[("sum", int(2))]).unwrap();
    let moved = tx
        .graph_mut()
        .set_relationship_property(second, &["number"], int(7))
        .unwrap_err();
    assert_eq!(moved.kind(), ErrorKind::Exists);
    // A deleted value is free again.
    tx.graph_mut().delete_relationship(first).unwrap();
    tx.graph_mut()
        .set_relationship_property(second, &["number"], int(7))
        .unwrap();
    tx.commit().unwrap();

    let required = ConstraintKind::Required { path: path("sum") };
    constrain(&store, "sum", required, &[]).unwrap();
    let types = vec![ValueType::Int];
    let typed = ConstraintKind::Type {
        path: path("sum"),
        types,
    };
    constrain(&store, "sum_type", typed, &[]).unwrap();
    let mut tx = store.begin(Access::Write).unwrap();
    let missing = pay(&mut tx, ends, &[]).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::Invalid);
    assert!(missing.to_string().contains("PAID.sum"), "{missing}");
    let many = tx.graph_mut().create_relationships(
        paid(&store.begin(Access::Read).unwrap()),
        &[ends],
        &mut Vec::new(),
    );
    assert!(many.is_err());
    let wrong = pay(&mut tx, ends, &[("sum", text("1"))]).unwrap_err();
    assert!(wrong.to_string().contains("sum_type"), "{wrong}");
    let removed = tx
        .graph_mut()
        .set_relationship_property(second, &["sum"], Value::Null)
        .unwrap_err();
    assert!(removed.to_string().contains("relationship"), "{removed}");
    drop(tx);

    // Existing relationships that break a new constraint prevent it, and nothing is left of it.
    let broken = constrain(
        &store,
        "key",
        ConstraintKind::Key { index: IndexId(0) },
        &["absent"],
    )
    .unwrap_err();
    assert!(matches!(broken, DataError::SchemaBroken { .. }), "{broken}");
    assert!(store.catalog().index_named("key").is_none());
}

/// Checks may be deferred to the end of a statement, as for nodes.
#[test]
fn two_relationships_may_swap_a_unique_value() {
    let store = memory();
    let nodes = nodes(&store, 2);
    let ends = (nodes[0], nodes[1]);
    constrain(&store, "number", unique(), &["number"]).unwrap();
    let mut tx = store.begin(Access::Write).unwrap();
    let one = pay(&mut tx, ends, &[("number", int(1))]).unwrap();
    let two = pay(&mut tx, ends, &[("number", int(2))]).unwrap();
    let set = |tx: &mut Transaction, id, number| {
        tx.graph_mut()
            .set_relationship_property(id, &["number"], int(number))
    };
    tx.constraints_mut().defer_checks();
    set(&mut tx, one, 2).unwrap();
    set(&mut tx, two, 1).unwrap();
    tx.constraints_mut().check_deferred().unwrap();
    tx.constraints_mut().defer_checks();
    set(&mut tx, one, 1).unwrap();
    let both = tx.constraints_mut().check_deferred().unwrap_err();
    assert_eq!(both.kind(), ErrorKind::Exists);
}

/// A transaction that found nothing in a range conflicts with a relationship that appears there; elsewhere it does not.
#[test]
fn phantoms_in_a_range_conflict() {
    if needs_alone("it names the first relationship") {
        return;
    }
    let store = memory();
    let nodes = nodes(&store, 4);
    create_index(&store, "at", vec![field("at", false)]).unwrap();
    let write = |at: i64, seeks: (i64, i64)| {
        let mut tx = store.begin(Access::Write).unwrap();
        let (low, high) = (int(seeks.0), int(seeks.1));
        let range = (Bound::Included(&low), Bound::Excluded(&high));
        assert_eq!(sought(&tx, "at", &[], range, Order::Ascending), []);
        pay(&mut tx, (nodes[0], nodes[1]), &[("at", int(at))]).unwrap();
        tx
    };
    let (a, b) = (write(11, (10, 13)), write(12, (11, 14)));
    a.commit().unwrap();
    let lost = b.commit().unwrap_err();
    assert_eq!(lost.kind(), ErrorKind::Retry);
    assert!(lost.to_string().contains("index at"), "{lost}");
    let (a, b) = (write(20, (20, 22)), write(300, (100, 200)));
    b.commit().unwrap();
    a.commit().unwrap();
    // Moving a relationship into the range is a phantom, too, and so is its deletion.
    let reader = write(500, (40, 50));
    let mut mover = store.begin(Access::Write).unwrap();
    let graph = &mut mover.graph_mut();
    graph
        .set_relationship_property(RelId(0), &["at"], int(45))
        .unwrap();
    mover.commit().unwrap();
    assert_eq!(reader.commit().unwrap_err().kind(), ErrorKind::Retry);
    let mut reader = store.begin(Access::Write).unwrap();
    let found = sought(&reader, "at", &[int(45)], EVERYTHING, Order::Ascending);
    assert_eq!(ids(&found), [0]);
    pay(&mut reader, (nodes[2], nodes[3]), &[]).unwrap();
    let mut other = store.begin(Access::Write).unwrap();
    other.graph_mut().delete_relationship(RelId(0)).unwrap();
    other.commit().unwrap();
    assert_eq!(reader.commit().unwrap_err().kind(), ErrorKind::Retry);
}

/// An index is complete however many relationships are written while it is built, on disk, and after a reopening.
#[test]
fn an_index_is_built_while_relationships_are_written() {
    let (store, folder) = on_disk();
    let nodes = nodes(&store, 10);
    let mut tx = store.begin(Access::Write).unwrap();
    for at in 0..3_000_usize {
        pay(
            &mut tx,
            (nodes[at % 10], nodes[at % 7]),
            &[("at", int(at as i64))],
        )
        .unwrap();
    }
    tx.commit().unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    let written = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..2)
            .map(|writer: i64| {
                let (store, nodes, done) = (&store, &nodes, &done);
                scope.spawn(move || {
                    let mut written = 0;
                    while !done.load(std::sync::atomic::Ordering::Relaxed) {
                        let mut tx = store.begin(Access::Write).unwrap();
                        let at = 10_000 + writer * 100_000 + written;
                        let made = pay(&mut tx, (nodes[0], nodes[1]), &[("at", int(at))]);
                        let moved = made.and_then(|_| {
                            let id = RelId((at as u64 * 7919) % 3_000);
                            tx.graph_mut()
                                .set_relationship_property(id, &["note"], int(at))
                        });
                        match moved.and_then(|()| tx.commit().map(|_| ())) {
                            Ok(()) => written += 1,
                            Err(error) => assert_eq!(error.kind(), ErrorKind::Retry, "{error}"),
                        }
                    }
                    written
                })
            })
            .collect();
        create_index(&store, "at", vec![field("at", false)]).unwrap();
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        let counts = writers.into_iter().map(|writer| writer.join().unwrap());
        counts.sum::<i64>()
    });
    let all = |store: &DataStore| {
        let tx = store.begin(Access::Read).unwrap();
        sought(&tx, "at", &[], EVERYTHING, Order::Ascending).len() as i64
    };
    assert_eq!(all(&store), 3_000 + written);
    drop(store);
    let engine = crate::common::engine_at(&folder.path().join("db"));
    let store = DataStore::open(engine, isomer_data::DataStoreOptions::default()).unwrap();
    assert_eq!(all(&store), 3_000 + written);
}

/// Convergent fields of relationships have entries, as those of nodes do: a counter under its value, a set under each
/// element; an index that cannot hold a field refuses it.
#[test]
fn convergent_fields_of_relationships_are_indexed() {
    let store = memory();
    let nodes = nodes(&store, 2);
    create_index(&store, "likes", vec![field("likes", false)]).unwrap();
    create_index(&store, "tags", vec![field("tags", true)]).unwrap();
    constrain(&store, "number", unique(), &["number"]).unwrap();
    let mut tx = store.begin(Access::Write).unwrap();
    let rel = pay(&mut tx, (nodes[0], nodes[1]), &[]).unwrap();
    let owner = ConvergentOwner::Relationship(rel);
    let mut operate =
        |path: &str, op: ConvergentOp| tx.fields_mut().converge(owner, &[path], &op, None);
    operate("likes", ConvergentOp::Count(2)).unwrap();
    operate("likes", ConvergentOp::Count(3)).unwrap();
    operate("tags", ConvergentOp::Insert(text("x"))).unwrap();
    operate("tags", ConvergentOp::Insert(text("y"))).unwrap();
    operate("tags", ConvergentOp::Remove(text("x"))).unwrap();
    let refused = operate("number", ConvergentOp::Count(1)).unwrap_err();
    assert!(
        refused.to_string().contains("indexed by number"),
        "{refused}"
    );
    tx.commit().unwrap();
    let tx = store.begin(Access::Read).unwrap();
    let under = |index: &str, value: Value| {
        ids(&sought(&tx, index, &[value], EVERYTHING, Order::Ascending))
    };
    assert_eq!(under("likes", int(5)), [rel.0]);
    assert_eq!(under("likes", int(2)), [0; 0]);
    assert_eq!(under("tags", text("y")), [rel.0]);
    assert_eq!(under("tags", text("x")), [0; 0]);
    drop(tx);
    let mut tx = store.begin(Access::Write).unwrap();
    tx.graph_mut().delete_relationship(rel).unwrap();
    tx.commit().unwrap();
    let tx = store.begin(Access::Read).unwrap();
    for index in ["likes", "tags"] {
        let left = sought(&tx, index, &[], EVERYTHING, Order::Ascending);
        assert_eq!(left, [], "{index}");
    }
}

/// An index over relationships has statistics, which survive a reopening and are taken for a new index.
#[test]
fn an_index_over_relationships_has_statistics() {
    let (store, folder) = on_disk();
    let nodes = nodes(&store, 2);
    create_index(&store, "at", vec![field("at", false)]).unwrap();
    let mut tx = store.begin(Access::Write).unwrap();
    for number in 0..1_000 {
        let mut properties = vec![("kind", int(number % 4))];
        if number % 2 == 0 {
            properties.push(("at", int(number % 20)));
        }
        pay(&mut tx, (nodes[0], nodes[1]), &properties).unwrap();
    }
    tx.commit().unwrap();
    let facts = |store: &DataStore, name: &str| {
        let catalog = store.catalog();
        let index = catalog.index_named(name).expect("it exists");
        let type_id = catalog.type_id("PAID").expect("it exists");
        let statistics = store.statistics().of_type(type_id).unwrap().unwrap();
        let facts = statistics.index(index.id).expect("it is sampled").clone();
        (facts.entries, facts.distinct, facts.first.present)
    };
    assert_eq!(facts(&store, "at"), (500, vec![10], 500));
    create_index(
        &store,
        "both",
        vec![field("kind", false), field("at", false)],
    )
    .unwrap();
    assert_eq!(facts(&store, "both"), (500, vec![2, 10], 500));
    store.statistics().save().unwrap();
    drop(store);
    let engine = crate::common::engine_at(&folder.path().join("db"));
    let store = DataStore::open(engine, isomer_data::DataStoreOptions::default()).unwrap();
    assert_eq!(facts(&store, "at"), (500, vec![10], 500));
    assert_eq!(facts(&store, "both"), (500, vec![2, 10], 500));
}
