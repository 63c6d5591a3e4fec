//! Bulk loads: the result equals that of transactions, or nothing is loaded.

use std::{ops::ControlFlow, path::Path, sync::Arc};

use isomer_bulk::{
    BulkEnds, BulkNode, BulkOptions, BulkPhase, BulkRelationship, BulkWatch, KeyTypes, key_types,
    load_nodes, load_relationships,
};
use isomer_data::{
    Access, Change, ChangeSet, CommitObserver, ConstraintKind, ConstraintSpec, DataError,
    DataStore, DataStoreOptions, Direction, ErrorKind, FieldPath, GraphRead, IndexCursor,
    IndexField, IndexSeek, IndexSpec, Neighbours, Order, SchemaChange, ScopeName,
};
use isomer_storage::{Engine, MemoryEngine, Version};
use isomer_value::{Map, NodeId, Value};
use parking_lot::Mutex;

const FRIEND: BulkEnds<'_> = BulkEnds {
    rel_type: "FRIEND",
    from: "User",
    to: "User",
};

fn users(count: u64) -> impl Iterator<Item = Result<BulkNode, DataError>> {
    (0..count).map(|row| {
        Ok(BulkNode {
            row,
            properties: user(row),
        })
    })
}

fn user(row: u64) -> Map {
    map(&[
        ("_key", text(&row.to_string())),
        ("age", int((row % 70) as i64)),
        (
            "tags",
            list(&[text(if row.is_multiple_of(2) { "even" } else { "odd" })]),
        ),
    ])
}

fn friends(count: u64, users: u64) -> impl Iterator<Item = Result<BulkRelationship, DataError>> {
    (0..count).map(move |row| {
        Ok(BulkRelationship {
            row,
            source: text(&(row * 7919 % users).to_string()),
            target: text(&(row * 31 % users).to_string()),
            properties: if row.is_multiple_of(3) {
                map(&[("since", int(row as i64))])
            } else {
                Map::new()
            },
        })
    })
}

#[derive(Default)]
struct Log {
    rejected: Vec<(u64, String)>,
    most: usize,
    reading: u64,
    writing: u64,
    cancel_at: Option<(BulkPhase, u64)>,
}

impl BulkWatch for Log {
    fn rejected(&mut self, row: u64, error: &DataError) -> ControlFlow<()> {
        self.rejected.push((row, error.to_string()));
        if self.rejected.len() > self.most {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }

    fn progress(&mut self, phase: BulkPhase, done: u64, _total: Option<u64>) -> ControlFlow<()> {
        match phase {
            BulkPhase::Reading => self.reading = done,
            BulkPhase::Writing => self.writing = done,
        }
        match self.cancel_at {
            Some((at, from)) if at == phase && done >= from => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }
}

fn age_index(store: &DataStore) {
    let field = IndexField {
        path: FieldPath::top("age"),
        each: false,
    };
    let spec = IndexSpec {
        name: Some("age".into()),
        scope: ScopeName::label("User"),
        fields: vec![field],
        unique: false,
    };
    store
        .change_schema(SchemaChange::CreateIndex {
            spec,
            if_not_exists: false,
        })
        .unwrap();
}

fn loads_what_transactions_would_make(store: &DataStore) {
    age_index(store);
    // Spills: the budget holds a fraction of the rows.
    let mut options = BulkOptions::default();
    options.memory_bytes = Some(100_000);
    let mut log = Log::default();
    let outcome = load_nodes(store, "User", &options, &mut users(20_000), &mut log).unwrap();
    assert_eq!((outcome.loaded, outcome.rejected), (20_000, 0));
    assert!(log.reading > 10_000 && log.writing > 10_000);
    let outcome = load_relationships(
        store,
        FRIEND,
        &options,
        &mut friends(30_000, 20_000),
        &mut log,
    )
    .unwrap();
    assert_eq!((outcome.loaded, outcome.rejected), (30_000, 0));

    let tx = store.begin(Access::Read).unwrap();
    let label = tx.catalog().label_id("User").unwrap();
    assert_eq!(tx.exact_node_count(Some(label)).unwrap(), 20_000);
    assert_eq!(
        tx.exact_relationship_count(tx.catalog().type_id("FRIEND"))
            .unwrap(),
        30_000
    );
    assert_eq!(
        tx.documents().get("User", &text("1234")).unwrap().unwrap(),
        user(1234)
    );
    let index = tx.catalog().index_named("age").unwrap().id;
    let seek = IndexSeek {
        index,
        prefix: &[int(7)],
        range: (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded),
        order: Order::Ascending,
    };
    let mut found = Vec::new();
    tx.index_seek(&seek, &mut IndexCursor::default(), 10_000, &mut found)
        .unwrap();
    assert_eq!(found.len(), (0..20_000).filter(|row| row % 70 == 7).count());

    // Adjacency both ways agrees with the rows.
    let node = |key: u64| {
        tx.node_by_key(label, &text(&key.to_string()))
            .unwrap()
            .unwrap()
    };
    for key in [0, 17, 1999, 19_999] {
        let mut expected: Vec<(NodeId, NodeId)> = (0..30_000_u64)
            .map(|row| (row * 7919 % 20_000, row * 31 % 20_000))
            .filter(|(source, target)| *source == key || *target == key)
            .map(|(source, target)| (node(source), node(target)))
            .collect();
        let mut found = Neighbours::new();
        tx.expand(&[node(key)], Direction::Both, &[], &mut found)
            .unwrap();
        let mut rows: Vec<_> = found
            .of(0)
            .iter()
            .map(|row| (row.source, row.target))
            .collect();
        expected.sort_unstable();
        rows.sort_unstable();
        assert_eq!(rows, expected, "of {key}");
    }
    let mut rows = Vec::new();
    tx.scan_relationships(None, None, 4, &mut rows).unwrap();
    let since = tx.catalog().prop_id("since").unwrap();
    let mut out = [Vec::new()];
    tx.relationship_properties(
        &rows.iter().map(|row| row.id).collect::<Vec<_>>(),
        &[since],
        &mut out,
    )
    .unwrap();
    assert_eq!(out[0], [int(0), Value::Null, Value::Null, int(3)]);

    // The loaded database is usable: new ids, the keys are taken.
    let mut tx = store.begin(Access::Write).unwrap();
    assert_eq!(
        tx.documents_mut()
            .insert("User", &user(5))
            .unwrap_err()
            .kind(),
        ErrorKind::Exists
    );
    tx.documents_mut()
        .insert("User", &map(&[("_key", text("new"))]))
        .unwrap();
    let node = node_of(&tx, "1234");
    tx.graph_mut().delete_node(node, true).unwrap();
    tx.commit().unwrap();
}

fn node_of(tx: &isomer_data::Transaction, key: &str) -> NodeId {
    tx.node_by_key(tx.catalog().label_id("User").unwrap(), &text(key))
        .unwrap()
        .unwrap()
}

#[test]
fn in_memory() {
    loads_what_transactions_would_make(&memory());
}

#[test]
fn on_disk_too() {
    let (store, _folder) = on_disk();
    loads_what_transactions_would_make(&store);
}

#[test]
fn bad_rows_are_left_out_or_stop_the_load() {
    let store = memory();
    let rows = || {
        let keys = [
            text("a"),
            text("b"),
            text("a"),
            Value::Float(1.5),
            text(""),
            int(1),
        ];
        keys.into_iter().enumerate().map(|(row, key)| {
            Ok(BulkNode {
                row: row as u64,
                properties: map(&[("_key", key)]),
            })
        })
    };
    let error = load_nodes(
        &store,
        "User",
        &BulkOptions::default(),
        &mut rows(),
        &mut (),
    )
    .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exists);
    assert!(error.to_string().contains("\"a\""));
    assert_eq!(
        store
            .begin(Access::Read)
            .unwrap()
            .exact_node_count(None)
            .unwrap(),
        0
    );

    let mut log = Log {
        most: 10,
        ..Log::default()
    };
    let outcome = load_nodes(
        &store,
        "User",
        &BulkOptions::default(),
        &mut rows(),
        &mut log,
    )
    .unwrap();
    assert_eq!((outcome.loaded, outcome.rejected), (3, 3));
    assert_eq!(
        log.rejected.iter().map(|(row, _)| *row).collect::<Vec<_>>(),
        [2, 3, 4]
    );
    assert_eq!(
        key_types(&store, "User").unwrap(),
        KeyTypes {
            strings: true,
            integers: true
        }
    );
    assert_eq!(key_types(&store, "Missing").unwrap(), KeyTypes::default());

    // A second load into the same label knows the keys of the first.
    let mut log = Log {
        most: 10,
        ..Log::default()
    };
    let outcome = load_nodes(
        &store,
        "User",
        &BulkOptions::default(),
        &mut rows(),
        &mut log,
    )
    .unwrap();
    assert_eq!((outcome.loaded, outcome.rejected), (0, 6));

    let relationship = |row, source: &Value, target: &Value| {
        Ok(BulkRelationship {
            row,
            source: source.clone(),
            target: target.clone(),
            properties: Map::new(),
        })
    };
    let (a, missing) = (text("a"), text("missing"));
    let rows = || {
        vec![
            relationship(1, &a, &int(1)),
            relationship(2, &a, &missing),
            relationship(3, &a, &a),
        ]
        .into_iter()
    };
    let error = load_relationships(
        &store,
        FRIEND,
        &BulkOptions::default(),
        &mut rows(),
        &mut (),
    )
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "the target :User with _key \"missing\" does not exist: load it first"
    );
    let mut log = Log {
        most: 1,
        ..Log::default()
    };
    let outcome = load_relationships(
        &store,
        FRIEND,
        &BulkOptions::default(),
        &mut rows(),
        &mut log,
    )
    .unwrap();
    assert_eq!(
        (outcome.loaded, outcome.rejected, log.rejected[0].0),
        (2, 1, 2)
    );
    let ends = BulkEnds {
        to: "Missing",
        ..FRIEND
    };
    let error = load_relationships(&store, ends, &BulkOptions::default(), &mut rows(), &mut ())
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

/// A load keeps the indexes and constraints of its type, refuses rows that break them, also when what it must compare
/// exceeds its memory, and gives each entry the ends of its relationship.
#[test]
fn relationships_keep_indexes_and_constraints() {
    for memory_bytes in [None, Some(100_000)] {
        let store = memory();
        load_nodes(
            &store,
            "User",
            &BulkOptions::default(),
            &mut users(1_000),
            &mut (),
        )
        .unwrap();
        let field = |name: &str| IndexField {
            path: FieldPath::top(name),
            each: false,
        };
        let create = SchemaChange::CreateIndex {
            spec: IndexSpec {
                name: Some("since".into()),
                scope: ScopeName::rel_type("FRIEND"),
                fields: vec![field("since")],
                unique: false,
            },
            if_not_exists: false,
        };
        store.change_schema(create).unwrap();
        let constrain = |kind: ConstraintKind, fields: Vec<IndexField>| {
            let spec = ConstraintSpec {
                name: None,
                scope: ScopeName::rel_type("FRIEND"),
                kind,
                unique_fields: fields,
            };
            store
                .change_schema(SchemaChange::CreateConstraint {
                    spec,
                    if_not_exists: false,
                })
                .unwrap();
        };
        let unique = ConstraintKind::Unique {
            index: isomer_value::IndexId(0),
        };
        constrain(unique, vec![field("number")]);
        let path = FieldPath::top("since");
        constrain(ConstraintKind::Required { path }, Vec::new());
        let row = |row: u64, properties: Map| {
            Ok(BulkRelationship {
                row,
                source: text(&(row * 7 % 1_000).to_string()),
                target: text(&(row * 31 % 1_000).to_string()),
                properties,
            })
        };
        // Each 500th row has a number that an earlier one has, each 701st lacks what is required.
        let mut rows = (0..20_000_u64).map(|at| {
            let number = if at % 500 == 499 { at - 1 } else { at };
            let mut properties = map(&[("number", int(number as i64))]);
            if at % 701 != 700 {
                properties.insert("since", int((at % 50) as i64));
            }
            row(at, properties)
        });
        let is_refused = |at: u64| at % 701 == 700 || at % 500 == 499 && (at - 1) % 701 != 700;
        let refused = (0..20_000).filter(|at| is_refused(*at)).count();
        let mut log = Log {
            most: usize::MAX,
            ..Log::default()
        };
        let mut options = BulkOptions::default();
        options.memory_bytes = memory_bytes;
        let outcome = load_relationships(&store, FRIEND, &options, &mut rows, &mut log).unwrap();
        assert_eq!(
            (outcome.loaded as usize, outcome.rejected as usize),
            (20_000 - refused, refused)
        );
        let mut rejected: Vec<u64> = log.rejected.iter().map(|(row, _)| *row).collect();
        rejected.sort_unstable();
        let expected: Vec<u64> = (0..20_000).filter(|at| is_refused(*at)).collect();
        assert_eq!(rejected, expected);

        let tx = store.begin(Access::Read).unwrap();
        let mut rows = Vec::new();
        tx.scan_relationships(None, None, 30_000, &mut rows)
            .unwrap();
        let ids: Vec<_> = rows.iter().map(|row| row.id).collect();
        let props = ["since", "number"].map(|name| tx.catalog().prop_id(name).unwrap());
        let mut values = [Vec::new(), Vec::new()];
        tx.relationship_properties(&ids, &props, &mut values)
            .unwrap();
        let constraint = tx.catalog().indexes()[1].name.clone();
        for (index, values) in [("since", &values[0]), (&*constraint, &values[1])] {
            let seek = IndexSeek {
                index: tx.catalog().index_named(index).unwrap().id,
                prefix: &[],
                range: (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded),
                order: Order::Ascending,
            };
            let (mut cursor, mut found) = (IndexCursor::default(), Vec::new());
            tx.relationship_index_seek(&seek, &mut cursor, usize::MAX, &mut found)
                .unwrap();
            let mut expected: Vec<_> = values.iter().zip(&rows).collect();
            expected.sort_by(|(a, one), (b, other)| {
                isomer_value::order::cmp_order(a, b).then(one.id.cmp(&other.id))
            });
            let expected: Vec<_> = expected.into_iter().map(|(_, row)| *row).collect();
            assert_eq!(found, expected, "{index}");
        }
        drop(tx);
        // Against relationships that exist, too.
        let again = map(&[("number", int(4)), ("since", int(1))]);
        let mut one = std::iter::once(row(0, again));
        let error = load_relationships(&store, FRIEND, &options, &mut one, &mut ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Exists, "{error}");
    }
}

#[test]
fn a_cancelled_load_leaves_nothing() {
    for phase in [BulkPhase::Reading, BulkPhase::Writing] {
        let (store, _folder) = on_disk();
        let mut log = Log {
            cancel_at: Some((phase, 8192)),
            ..Log::default()
        };
        let error = load_nodes(
            &store,
            "User",
            &BulkOptions::default(),
            &mut users(20_000),
            &mut log,
        )
        .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
        let tx = store.begin(Access::Read).unwrap();
        assert_eq!(tx.exact_node_count(None).unwrap(), 0);
        assert_eq!(
            tx.node_by_key(tx.catalog().label_id("User").unwrap(), &text("1"))
                .unwrap(),
            None
        );
        load_nodes(
            &store,
            "User",
            &BulkOptions::default(),
            &mut users(100),
            &mut (),
        )
        .unwrap();
    }
}

/// The preconditions of the load change between its phases: it is refused, and other changes do not disturb it.
#[test]
fn a_load_detects_concurrent_changes() {
    let store = memory();
    load_nodes(
        &store,
        "User",
        &BulkOptions::default(),
        &mut users(100),
        &mut (),
    )
    .unwrap();
    let disturb = |change: &dyn Fn(&mut isomer_data::Transaction)| {
        let mut rows = friends(10, 100).inspect(|row| {
            if row.as_ref().unwrap().row == 9 {
                let mut tx = store.begin(Access::Write).unwrap();
                change(&mut tx);
                tx.commit().unwrap();
            }
        });
        load_relationships(&store, FRIEND, &BulkOptions::default(), &mut rows, &mut ())
            .map(|outcome| outcome.loaded)
    };
    let deleted = disturb(&|tx| {
        let node = node_of(tx, "77");
        drop(tx.graph_mut().delete_node(node, true).unwrap());
    });
    assert_eq!(deleted.unwrap_err().kind(), ErrorKind::Retry);
    let added = disturb(&|tx| drop(tx.documents_mut().insert("User", &user(500)).unwrap()));
    assert_eq!(added.unwrap(), 10);

    let mut rows = users(3).map(|row| {
        let mut row = row.unwrap();
        row.properties.insert("_key", int(row.row as i64));
        if row.row == 2 {
            let mut tx = store.begin(Access::Write).unwrap();
            tx.documents_mut()
                .insert("User", &map(&[("_key", int(1))]))
                .unwrap();
            tx.commit().unwrap();
        }
        Ok(row)
    });
    let joined = load_nodes(&store, "User", &BulkOptions::default(), &mut rows, &mut ());
    assert_eq!(joined.unwrap_err().kind(), ErrorKind::Retry);

    // And a transaction that counted before the load conflicts.
    let mut tx = store.begin(Access::Write).unwrap();
    let label = tx.catalog().label_id("User").unwrap();
    let count = tx.exact_node_count(Some(label)).unwrap();
    tx.documents_mut()
        .insert("Report", &map(&[("users", int(count as i64))]))
        .unwrap();
    load_nodes(
        &store,
        "User",
        &BulkOptions::default(),
        &mut users(300).skip(200),
        &mut (),
    )
    .unwrap();
    assert_eq!(tx.commit().unwrap_err().kind(), ErrorKind::Retry);
}

/// The commits that an observer has seen, and how many changes each has.
#[derive(Default)]
struct Observer {
    seen: Mutex<Vec<(Version, usize)>>,
    store: Mutex<Option<DataStore>>,
}

impl CommitObserver for Observer {
    fn committing(&self, version: Version, changes: &[u8]) {
        // Not visible yet.
        if let Some(store) = &*self.store.lock() {
            assert!(store.engine().version() < version);
        }
        if !changes.is_empty() {
            let changes = ChangeSet::decode(changes).unwrap().changes;
            self.seen.lock().push((version, changes.len()));
        }
    }
}

#[test]
fn an_observer_gets_each_commit_before_it_is_visible() {
    let store = memory();
    let log = Arc::new(Observer::default());
    *log.store.lock() = Some(store.clone());
    store.observe(log.clone());
    let mut tx = store.begin(Access::Write).unwrap();
    let label = tx.name_ids().intern_label("A").unwrap();
    tx.graph_mut().create_node(&[label], &Map::new()).unwrap();
    tx.graph_mut().create_node(&[label], &Map::new()).unwrap();
    let first = tx.commit().unwrap();
    let mut tx = store.begin(Access::Write).unwrap();
    tx.graph_mut().delete_node(NodeId(0), false).unwrap();
    let second = tx.commit().unwrap();
    let mut rows = (0..3).map(|row| {
        Ok(BulkNode {
            row,
            properties: Map::new(),
        })
    });
    let third = load_nodes(&store, "A", &BulkOptions::default(), &mut rows, &mut ())
        .unwrap()
        .version;
    assert_eq!(*log.seen.lock(), [(first, 2), (second, 1), (third, 1)]);

    // The observer received what the change stream keeps.
    let entries = store.engine().stream(0, 100, 1 << 20, false).unwrap();
    let kept: Vec<_> = entries.iter().map(|entry| entry.version).collect();
    assert_eq!(kept, [first, second, third]);
    let changes = ChangeSet::decode(&entries[1].bytes).unwrap().changes;
    assert_eq!(
        changes,
        [Change::NodeDeleted {
            id: NodeId(0),
            labels: vec![label],
            key: b""
        }]
    );
    assert_eq!(
        store
            .begin(Access::Read)
            .unwrap()
            .exact_node_count(Some(label))
            .unwrap(),
        4
    );
    *log.store.lock() = None;
}

/// A store in memory.
fn memory() -> DataStore {
    DataStore::open(Arc::new(MemoryEngine::new()), DataStoreOptions::default()).unwrap()
}

/// A store on disk; the folder must be kept.
fn on_disk() -> (DataStore, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine_at(&folder.path().join("db"));
    let store = DataStore::open(engine, DataStoreOptions::default()).unwrap();
    (store, folder)
}

/// An engine on disk: the one that ISOMER_ENGINE names, or the default one.
fn engine_at(path: &Path) -> Arc<dyn Engine> {
    match std::env::var("ISOMER_ENGINE").as_deref() {
        Ok("redb") => {
            Arc::new(isomer_storage_redb::RedbEngine::open(path, Default::default()).unwrap())
        }
        _ => Arc::new(isomer_lsm::LsmEngine::open(path, Default::default()).unwrap()),
    }
}

fn map(entries: &[(&str, Value)]) -> Map {
    entries
        .iter()
        .map(|(name, value)| (*name, value.clone()))
        .collect()
}

fn int(value: i64) -> Value {
    Value::Int(value)
}

fn text(value: &str) -> Value {
    Value::String(value.into())
}

fn list(values: &[Value]) -> Value {
    Value::List(Arc::new(values.to_vec()))
}
