//! Indexes and constraints: results, refusals, and building concurrently with writes.

use std::{
    ops::Bound,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use crate::common::{int, list, map, memory, nested, second_process::needs_alone, text};
use isomer_data::{
    Access, Check, ConstraintKind, ConstraintSpec, DataError, DataStore, ErrorKind, FieldCheck,
    FieldPath, GraphRead, IndexCursor, IndexField, IndexSeek, IndexSpec, IndexState, Order,
    SchemaChange, SchemaOutcome, ScopeName, Transaction, ValueType,
};
use isomer_value::{Map, NodeId, Value};

fn field(path: &[&str]) -> IndexField {
    IndexField {
        path: FieldPath::new(path.iter().copied()),
        each: false,
    }
}

fn create_index(
    store: &DataStore,
    name: &str,
    fields: Vec<IndexField>,
    unique: bool,
) -> Result<SchemaOutcome, DataError> {
    let spec = IndexSpec {
        name: Some(name.into()),
        scope: ScopeName::label("P"),
        fields,
        unique,
    };
    store.change_schema(SchemaChange::CreateIndex {
        spec,
        if_not_exists: false,
    })
}

fn constrain(
    store: &DataStore,
    name: &str,
    kind: ConstraintKind,
) -> Result<SchemaOutcome, DataError> {
    let spec = ConstraintSpec {
        name: Some(name.into()),
        scope: ScopeName::label("P"),
        kind,
        unique_fields: vec![field(&["email"])],
    };
    store.change_schema(SchemaChange::CreateConstraint {
        spec,
        if_not_exists: false,
    })
}

fn insert(store: &DataStore, properties: &[(&str, Value)]) -> Result<NodeId, DataError> {
    let mut tx = store.begin(Access::Write)?;
    let label = tx.name_ids().intern_label("P")?;
    let id = tx.graph_mut().create_node(&[label], &map(properties))?;
    tx.commit()?;
    Ok(id)
}

fn seek(
    tx: &Transaction,
    index: &str,
    prefix: &[Value],
    range: (Bound<&Value>, Bound<&Value>),
    order: Order,
) -> Vec<NodeId> {
    let index = tx
        .catalog()
        .index_named(index)
        .expect("the index exists")
        .id;
    let (mut cursor, mut out) = (IndexCursor::default(), Vec::new());
    while !cursor.is_done() {
        tx.index_seek(
            &IndexSeek {
                index,
                prefix,
                range,
                order,
            },
            &mut cursor,
            3,
            &mut out,
        )
        .unwrap();
    }
    out
}

const ALL: (Bound<&Value>, Bound<&Value>) = (Bound::Unbounded, Bound::Unbounded);

#[test]
fn a_range_finds_what_was_there_before_and_after_the_index_was_made() {
    let store = memory();
    let mut ids: Vec<_> = (0..1500)
        .map(|age| insert(&store, &[("age", int(age))]).unwrap())
        .collect();
    insert(&store, &[("name", text("no age"))]).unwrap();
    let outcome = create_index(&store, "age", vec![field(&["age"])], false).unwrap();
    assert_eq!(
        (outcome.created, outcome.records_read),
        (vec!["age".to_owned()], 1501)
    );
    ids.extend((1500..1510).map(|age| insert(&store, &[("age", int(age))]).unwrap()));
    insert(&store, &[("age", text("old"))]).unwrap();
    insert(&store, &[("age", Value::Float(f64::NAN))]).unwrap();

    let tx = store.begin(Access::Read).unwrap();
    let (low, high) = (int(1497), Value::Float(1502.5));
    let range = (Bound::Excluded(&low), Bound::Included(&high));
    assert_eq!(
        seek(&tx, "age", &[], range, Order::Ascending),
        ids[1498..=1502]
    );
    let mut down = ids[1498..=1502].to_vec();
    down.reverse();
    assert_eq!(seek(&tx, "age", &[], range, Order::Descending), down);
    assert_eq!(seek(&tx, "age", &[int(7)], ALL, Order::Ascending), [ids[7]]);
    assert_eq!(
        seek(&tx, "age", &[Value::Float(7.0)], ALL, Order::Ascending),
        [ids[7]]
    );
    assert_eq!(seek(&tx, "age", &[Value::Null], ALL, Order::Ascending), []);
    // Open ends stay within the kind: no string, no NaN.
    assert_eq!(
        seek(
            &tx,
            "age",
            &[],
            (Bound::Included(&int(1508)), Bound::Unbounded),
            Order::Ascending
        ),
        ids[1508..]
    );
    assert_eq!(
        seek(
            &tx,
            "age",
            &[],
            (Bound::Unbounded, Bound::Excluded(&int(2))),
            Order::Ascending
        ),
        ids[..2]
    );
    assert_eq!(seek(&tx, "age", &[], ALL, Order::Ascending).len(), 1512);
}

#[test]
fn entries_follow_every_kind_of_change() {
    let store = memory();
    create_index(&store, "age", vec![field(&["age"])], false).unwrap();
    let id = insert(&store, &[("age", int(1))]).unwrap();
    let found = |age: i64| {
        seek(
            &store.begin(Access::Read).unwrap(),
            "age",
            &[int(age)],
            ALL,
            Order::Ascending,
        )
    };
    let change = |change: &dyn Fn(&mut Transaction)| {
        let mut tx = store.begin(Access::Write).unwrap();
        change(&mut tx);
        tx.commit().unwrap();
    };
    change(&|tx| {
        tx.graph_mut()
            .set_node_property(id, &["age"], int(2))
            .unwrap()
    });
    assert_eq!((found(1), found(2)), (vec![], vec![id]));
    change(&|tx| {
        tx.graph_mut()
            .merge_node_properties(id, &map(&[("age", Value::Null)]))
            .unwrap()
    });
    assert_eq!(found(2), []);
    change(&|tx| {
        tx.graph_mut()
            .replace_node_properties(id, &map(&[("age", int(3))]))
            .unwrap()
    });
    assert_eq!(found(3), [id]);
    let label = store.catalog().label_id("P").unwrap();
    change(&|tx| assert!(tx.graph_mut().remove_label(id, label).unwrap()));
    assert_eq!(found(3), []);
    change(&|tx| assert!(tx.graph_mut().add_label(id, label).unwrap()));
    assert_eq!(found(3), [id]);
    // Own writes are seen, and rolled back with their savepoint.
    let mut tx = store.begin(Access::Write).unwrap();
    let mark = tx.savepoint();
    tx.graph_mut()
        .set_node_property(id, &["age"], int(4))
        .unwrap();
    assert_eq!(seek(&tx, "age", &[int(4)], ALL, Order::Ascending), [id]);
    tx.rollback_to(mark).unwrap();
    assert_eq!(seek(&tx, "age", &[int(4)], ALL, Order::Ascending), []);
    assert_eq!(seek(&tx, "age", &[int(3)], ALL, Order::Ascending), [id]);
    drop(tx);
    change(&|tx| assert!(tx.graph_mut().delete_node(id, false).unwrap().is_empty()));
    assert_eq!(found(3), []);
}

#[test]
fn composite_nested_and_list_fields() {
    let store = memory();
    create_index(
        &store,
        "place",
        vec![field(&["address", "city"]), field(&["age"])],
        false,
    )
    .unwrap();
    create_index(
        &store,
        "tag",
        vec![IndexField {
            path: FieldPath::top("tags"),
            each: true,
        }],
        false,
    )
    .unwrap();
    let person = |city: &str, age: i64, tags: &[&str]| {
        let tags: Vec<_> = tags.iter().map(|tag| text(tag)).collect();
        insert(
            &store,
            &[
                ("address", nested(&[("city", text(city))])),
                ("age", int(age)),
                ("tags", list(&tags)),
            ],
        )
        .unwrap()
    };
    let (a, b, c) = (
        person("Pisa", 30, &["x", "y", "x"]),
        person("Pisa", 40, &["y"]),
        person("Lucca", 35, &[]),
    );
    let tx = store.begin(Access::Read).unwrap();
    assert_eq!(
        seek(&tx, "place", &[text("Pisa")], ALL, Order::Ascending),
        [a, b]
    );
    assert_eq!(
        seek(
            &tx,
            "place",
            &[text("Pisa"), int(40)],
            ALL,
            Order::Ascending
        ),
        [b]
    );
    let from = int(31);
    assert_eq!(
        seek(
            &tx,
            "place",
            &[text("Pisa")],
            (Bound::Included(&from), Bound::Unbounded),
            Order::Ascending
        ),
        [b]
    );
    assert_eq!(seek(&tx, "place", &[], ALL, Order::Ascending), [c, a, b]);
    assert_eq!(seek(&tx, "tag", &[text("x")], ALL, Order::Ascending), [a]);
    assert_eq!(
        seek(&tx, "tag", &[text("y")], ALL, Order::Ascending),
        [a, b]
    );
}

#[test]
fn a_unique_index_refuses_the_second_and_a_build_over_duplicates() {
    if needs_alone("it names the first node") {
        return;
    }
    let store = memory();
    insert(&store, &[("email", text("a@x"))]).unwrap();
    insert(&store, &[("email", text("a@x"))]).unwrap();
    let error = create_index(&store, "email", vec![field(&["email"])], true).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exists);
    assert!(error.to_string().contains("\"a@x\""), "{error}");
    assert!(store.catalog().indexes().is_empty());
    let mut tx = store.begin(Access::Write).unwrap();
    tx.graph_mut().delete_node(NodeId(0), false).unwrap();
    tx.commit().unwrap();
    create_index(&store, "email", vec![field(&["email"])], true).unwrap();
    assert_eq!(
        insert(&store, &[("email", text("a@x"))])
            .unwrap_err()
            .kind(),
        ErrorKind::Exists
    );
    insert(&store, &[("email", text("b@x"))]).unwrap();
    insert(&store, &[]).unwrap();
    insert(&store, &[]).unwrap();

    // Two concurrent ones: one of them conflicts, and is then refused.
    let (mut a, mut b) = (
        store.begin(Access::Write).unwrap(),
        store.begin(Access::Write).unwrap(),
    );
    let label = a.name_ids().intern_label("P").unwrap();
    a.graph_mut()
        .create_node(&[label], &map(&[("email", text("c@x"))]))
        .unwrap();
    b.graph_mut()
        .create_node(&[label], &map(&[("email", text("c@x"))]))
        .unwrap();
    a.commit().unwrap();
    assert_eq!(b.commit().unwrap_err().kind(), ErrorKind::Retry);
}

#[test]
fn a_phantom_in_an_index_range_is_refused_and_values_outside_it_pass() {
    let store = memory();
    create_index(&store, "age", vec![field(&["age"])], false).unwrap();
    let target = insert(&store, &[("age", int(1000))]).unwrap();
    let count = |low: i64, high: i64, inserted: i64| {
        let (mut a, mut b) = (
            store.begin(Access::Write).unwrap(),
            store.begin(Access::Write).unwrap(),
        );
        let (low, high) = (int(low), int(high));
        let found = seek(
            &a,
            "age",
            &[],
            (Bound::Included(&low), Bound::Included(&high)),
            Order::Ascending,
        );
        a.graph_mut()
            .set_node_property(target, &["found"], int(found.len() as i64))
            .unwrap();
        let label = b.name_ids().intern_label("P").unwrap();
        b.graph_mut()
            .create_node(&[label], &map(&[("age", int(inserted))]))
            .unwrap();
        b.commit().unwrap();
        let undo = |mut tx: Transaction| {
            tx.graph_mut()
                .set_node_property(target, &["found"], Value::Null)
                .unwrap();
            tx.commit().unwrap();
        };
        let result = a.commit().map(drop);
        undo(store.begin(Access::Write).unwrap());
        result
    };
    for inside in [18, 20, 25, 30] {
        let error = count(18, 30, inside).unwrap_err();
        assert!(
            error.to_string().contains("a range of index age"),
            "{error}"
        );
    }
    for outside in [-5, 5, 65, 100, 70_000] {
        count(18, 30, outside).unwrap();
    }
    // Also where the range begins at zero or below.
    for (low, high) in [(0, 9), (-3, 9), (0, 0)] {
        assert!(count(low, high, low).is_err());
        for outside in [-100, 70, 70_000] {
            count(low, high, outside).unwrap();
        }
    }
    // Equality is exact.
    let (mut a, mut b) = (
        store.begin(Access::Write).unwrap(),
        store.begin(Access::Write).unwrap(),
    );
    assert!(seek(&a, "age", &[int(500)], ALL, Order::Ascending).is_empty());
    a.graph_mut()
        .set_node_property(target, &["found"], int(0))
        .unwrap();
    let label = b.name_ids().intern_label("P").unwrap();
    b.graph_mut()
        .create_node(&[label], &map(&[("age", int(501))]))
        .unwrap();
    b.commit().unwrap();
    a.commit().unwrap();
}

#[test]
fn an_index_is_built_concurrently_with_writes() {
    let store = memory();
    for age in 0..2000 {
        insert(&store, &[("age", int(age % 50))]).unwrap();
    }
    let done = Arc::new(AtomicBool::new(false));
    let commits = Arc::new(AtomicU64::new(0));
    let writer = std::thread::spawn({
        let (store, done, commits) = (store.clone(), done.clone(), commits.clone());
        move || {
            let mut written = 0_u64;
            while !done.load(Ordering::Relaxed) {
                let mut tx = store.begin(Access::Write).unwrap();
                let label = tx.name_ids().intern_label("P").unwrap();
                let outcome = match written % 3 {
                    0 => tx
                        .graph_mut()
                        .create_node(&[label], &map(&[("age", int(77))]))
                        .map(drop),
                    1 => tx.graph_mut().set_node_property(
                        NodeId(written * 7 % 2000),
                        &["age"],
                        int(78),
                    ),
                    _ => tx
                        .graph_mut()
                        .delete_node(NodeId(1999 - written % 1000), false)
                        .map(drop),
                };
                match outcome.and_then(|()| tx.commit().map(drop)) {
                    Ok(()) => {
                        written += 1;
                        commits.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(error) if error.kind() == ErrorKind::Retry => {}
                    Err(error) if error.kind() == ErrorKind::NotFound => written += 1,
                    Err(error) => panic!("{error}"),
                }
            }
        }
    });
    // A fast machine may build the index between two writes: it is built again until some were committed during the
    // build.
    loop {
        let before = commits.load(Ordering::Relaxed);
        create_index(&store, "age", vec![field(&["age"])], false).unwrap();
        if commits.load(Ordering::Relaxed) > before || writer.is_finished() {
            break;
        }
        store
            .change_schema(SchemaChange::DropIndex {
                name: "age".into(),
                if_exists: false,
            })
            .unwrap();
    }
    done.store(true, Ordering::Relaxed);
    writer.join().unwrap();
    assert!(commits.load(Ordering::Relaxed) > 0);

    // The index holds what a scan finds.
    let tx = store.begin(Access::Read).unwrap();
    let mut ids = Vec::new();
    tx.scan_nodes(tx.catalog().label_id("P"), None, 100_000, &mut ids)
        .unwrap();
    let mut ages = [Vec::new()];
    tx.node_properties(&ids, &[tx.catalog().prop_id("age").unwrap()], &mut ages)
        .unwrap();
    for age in (0..50).chain([77, 78]) {
        let expected: Vec<_> = ids
            .iter()
            .zip(&ages[0])
            .filter(|(_, own)| own.as_int() == Some(age))
            .map(|(id, _)| *id)
            .collect();
        assert_eq!(
            seek(&tx, "age", &[int(age)], ALL, Order::Ascending),
            expected,
            "age {age}"
        );
    }
    assert_eq!(
        tx.exact_node_count(tx.catalog().label_id("P")).unwrap(),
        ids.len() as u64
    );
}

#[test]
fn constraints_refuse_bad_records_old_and_new() {
    if needs_alone("it names the first node") {
        return;
    }
    let store = memory();
    insert(&store, &[("age", text("old"))]).unwrap();
    let age = FieldPath::top("age");
    let integer = ConstraintKind::Type {
        path: age.clone(),
        types: vec![ValueType::Int],
    };
    let error = constrain(&store, "age_type", integer.clone()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "`age_type` cannot be created, existing records break it: \
         node 0: P.age is a STRING (\"old\"), INTEGER is allowed (age_type): change the value or the rule"
    );
    assert!(store.catalog().constraints().is_empty());
    let mut tx = store.begin(Access::Write).unwrap();
    tx.graph_mut()
        .set_node_property(NodeId(0), &["age"], int(50))
        .unwrap();
    tx.commit().unwrap();

    constrain(&store, "age_type", integer).unwrap();
    constrain(
        &store,
        "age_there",
        ConstraintKind::Required { path: age.clone() },
    )
    .unwrap();
    let range = Check::Range {
        min: Bound::Included(int(0)),
        max: Bound::Excluded(int(151)),
    };
    constrain(
        &store,
        "age_range",
        ConstraintKind::Check {
            checks: vec![FieldCheck {
                path: age,
                check: range,
            }],
        },
    )
    .unwrap();
    let sex = Check::OneOf(vec![text("f"), text("m")]);
    constrain(
        &store,
        "sex",
        ConstraintKind::Check {
            checks: vec![FieldCheck {
                path: FieldPath::top("sex"),
                check: sex,
            }],
        },
    )
    .unwrap();
    let length = Check::Length {
        min: Some(2),
        max: Some(4),
    };
    constrain(
        &store,
        "short",
        ConstraintKind::Check {
            checks: vec![FieldCheck {
                path: FieldPath::top("name"),
                check: length,
            }],
        },
    )
    .unwrap();
    constrain(
        &store,
        "email",
        ConstraintKind::Unique {
            index: isomer_value::IndexId(0),
        },
    )
    .unwrap();
    for (properties, problem) in [
        (vec![("age", int(-1))], "is -1, below 0"),
        (
            vec![("age", int(151))],
            "is 151, which is excluded by the bound 151",
        ),
        (vec![("age", Value::Float(1.0))], "is a FLOAT"),
        (vec![], "P.age is missing"),
        (
            vec![("age", int(1)), ("sex", text("x"))],
            "none of \"f\", \"m\"",
        ),
        (vec![("age", int(1)), ("name", text("x"))], "has length 1"),
    ] {
        let error = insert(&store, &properties).unwrap_err();
        assert!(error.to_string().contains(problem), "{error}");
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
    let ok = [
        ("age", int(1)),
        ("sex", text("f")),
        ("name", text("Ada")),
        ("email", text("a@x")),
    ];
    insert(&store, &ok).unwrap();
    assert_eq!(insert(&store, &ok).unwrap_err().kind(), ErrorKind::Exists);
    // A refused write leaves nothing behind.
    let mut tx = store.begin(Access::Write).unwrap();
    assert!(
        tx.graph_mut()
            .set_node_property(NodeId(0), &["age"], Value::Null)
            .is_err()
    );
    assert!(!tx.has_writes());

    // The index of a unique constraint is dropped with it.
    let drop_index = store.change_schema(SchemaChange::DropIndex {
        name: "email".into(),
        if_exists: false,
    });
    assert_eq!(drop_index.unwrap_err().kind(), ErrorKind::Invalid);
    store
        .change_schema(SchemaChange::DropConstraint {
            name: "email".into(),
            if_exists: false,
        })
        .unwrap();
    assert!(store.catalog().index_named("email").is_none());
    insert(&store, &ok).unwrap();
    let absent = store.change_schema(SchemaChange::DropConstraint {
        name: "email".into(),
        if_exists: false,
    });
    assert_eq!(absent.unwrap_err().kind(), ErrorKind::NotFound);
    store
        .change_schema(SchemaChange::DropConstraint {
            name: "email".into(),
            if_exists: true,
        })
        .unwrap();
}

#[test]
fn the_schema_survives_reopening() {
    let engine = Arc::new(isomer_storage::MemoryEngine::new());
    let open =
        || DataStore::open(engine.clone(), isomer_data::DataStoreOptions::default()).unwrap();
    let store = open();
    let id = insert(&store, &[("age", int(1))]).unwrap();
    create_index(
        &store,
        "age",
        vec![field(&["age"]), field(&["a", "b"])],
        false,
    )
    .unwrap();
    constrain(
        &store,
        "closed",
        ConstraintKind::Closed {
            names: vec!["age".into(), "a".into()],
        },
    )
    .unwrap();
    let reopened = open();
    let catalog = reopened.catalog();
    let index = catalog.index_named("age").unwrap();
    assert_eq!(
        (index.fields.len(), index.state, index.unique),
        (2, IndexState::Ready, false)
    );
    assert!(
        matches!(&catalog.constraints()[0].kind, ConstraintKind::Closed { names } if names.len() == 2)
    );
    assert_eq!(catalog.schema_version(), store.catalog().schema_version());
    assert!(
        insert(&reopened, &[("other", int(1))])
            .unwrap_err()
            .to_string()
            .contains("P.other")
    );
    let next = insert(&reopened, &[("age", int(2))]).unwrap();
    assert!(next > id);
    assert_eq!(
        reopened
            .begin(Access::Read)
            .unwrap()
            .exact_node_count(None)
            .unwrap(),
        2
    );
}

#[test]
fn values_too_long_for_an_index_say_so() {
    let store = memory();
    create_index(&store, "bio", vec![field(&["bio"])], false).unwrap();
    let error = insert(&store, &[("bio", text(&"x".repeat(5000)))]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit);
    assert!(error.to_string().contains("index bio"), "{error}");
    insert(&store, &[("other", text(&"x".repeat(5000)))]).unwrap();
}

#[test]
fn schema_changes_need_a_transaction_without_other_operations() {
    let store = memory();
    let mut tx = store.begin(Access::Write).unwrap();
    let spec = IndexSpec {
        name: None,
        scope: ScopeName::label("P"),
        fields: vec![field(&["a", "b"])],
        unique: false,
    };
    let change = SchemaChange::CreateIndex {
        spec,
        if_not_exists: false,
    };
    let outcome = tx.change_schema(change.clone()).unwrap();
    assert_eq!(outcome.created, ["P_a_b"]);
    let label = tx.name_ids().intern_label("P").unwrap();
    assert_eq!(tx.catalog().usable_indexes(label).count(), 1);
    tx.graph_mut().create_node(&[label], &Map::new()).unwrap();
    assert_eq!(
        tx.change_schema(change.clone()).unwrap_err().kind(),
        ErrorKind::Denied
    );
    assert_eq!(
        store.change_schema(change).unwrap_err().kind(),
        ErrorKind::Exists
    );
    // The transaction that had not seen the index when it was made would have conflicted.
    tx.commit().unwrap();
}
