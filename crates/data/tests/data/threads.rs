//! Real threads: invariants under any interleaving.

use std::{
    ops::ControlFlow,
    time::{Duration, Instant},
};

use crate::common::{int, map, memory, on_disk, second_process::needs_alone};
use isomer_data::{
    Access, DataError, DataStore, Direction, ErrorKind, FieldPath, GraphRead, IndexField,
    IndexSpec, RecordScope, SchemaChange, ScopeName, Transaction,
};
use isomer_value::{LabelId, Map, NodeId};

/// Runs `work` until it commits.
fn transact<T>(
    store: &DataStore,
    mut work: impl FnMut(&mut Transaction) -> Result<T, DataError>,
) -> T {
    let patience = Instant::now();
    loop {
        let mut tx = store.begin(Access::Write).unwrap();
        let done = work(&mut tx).and_then(|done| {
            tx.commit_with(isomer_data::Durability::Buffered)
                .map(|_| done)
        });
        match done {
            Ok(done) => return done,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Retry, "{error}");
                assert!(
                    patience.elapsed() < Duration::from_secs(60),
                    "no progress: {error}"
                );
            }
        }
    }
}

fn amount(tx: &Transaction, id: NodeId) -> Result<i64, DataError> {
    let prop = tx.catalog().prop_id("amount").unwrap_or_default();
    let mut out = [Vec::new()];
    tx.node_properties(&[id], &[prop], &mut out)?;
    Ok(out[0][0].as_int().unwrap_or_default())
}

/// Money moves between accounts, all threads add relationships to one hub, new names appear, an index is built.
fn write_concurrently(store: &DataStore, rounds: u64) {
    const THREADS: u64 = 4;
    let (hub, accounts) = transact(store, |tx| {
        let label = tx.name_ids().intern_label("Account")?;
        let hub = tx.graph_mut().create_node(&[], &Map::new())?;
        let accounts: Result<Vec<_>, _> = (0..5)
            .map(|_| {
                tx.graph_mut()
                    .create_node(&[label], &map(&[("amount", int(100))]))
            })
            .collect();
        Ok((hub, accounts?))
    });
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let accounts = &accounts;
            scope.spawn(move || {
                for round in 0..rounds {
                    let (from, to) = (
                        (thread + round) as usize % 5,
                        (thread + round * 3 + 1) as usize % 5,
                    );
                    transact(store, |tx| {
                        let (a, b) = (accounts[from], accounts[to]);
                        if a == b {
                            return Ok(());
                        }
                        let (mine, theirs) = (amount(tx, a)?, amount(tx, b)?);
                        tx.graph_mut()
                            .set_node_property(a, &["amount"], int(mine - 1))?;
                        tx.graph_mut()
                            .set_node_property(b, &["amount"], int(theirs + 1))
                    });
                    transact(store, |tx| {
                        let paid = tx.name_ids().intern_type("PAID")?;
                        let label = tx.name_ids().intern_label(&format!("Round{}", round % 7))?;
                        let node = tx
                            .graph_mut()
                            .create_node(&[label], &map(&[(&format!("p{}", round % 5), int(1))]))?;
                        tx.graph_mut()
                            .create_relationship(paid, hub, node, &Map::new())
                    });
                    if round % 4 == 0 {
                        let tx = store.begin(Access::Read).unwrap();
                        let sum: i64 = accounts.iter().map(|id| amount(&tx, *id).unwrap()).sum();
                        assert_eq!(sum, 500);
                    }
                }
            });
        }
        scope.spawn(|| {
            let field = IndexField {
                path: FieldPath::top("amount"),
                each: false,
            };
            let spec = IndexSpec {
                name: Some("amount".into()),
                scope: ScopeName::label("Account"),
                fields: vec![field],
                unique: false,
            };
            store
                .change_schema(SchemaChange::CreateIndex {
                    spec,
                    if_not_exists: false,
                })
                .unwrap();
        });
    });
    let tx = store.begin(Access::Read).unwrap();
    let mut degrees = Vec::new();
    tx.degree(&[hub], Direction::Outgoing, &[], &mut degrees)
        .unwrap();
    assert_eq!(degrees, [THREADS * rounds]);
    assert_eq!(tx.exact_relationship_count(None).unwrap(), THREADS * rounds);
    let mut names = crate::common::names(store);
    names.sort();
    names.dedup();
    assert_eq!(names.len(), store.catalog().labels().len());
    assert_eq!(
        isomer_check::check(store, &mut |_, _| ControlFlow::Continue(())).unwrap(),
        Vec::<String>::new()
    );
    assert!(
        matches!(store.catalog().index_named("amount"), Some(index) if index.scope == RecordScope::Label(LabelId(0)))
    );
}

#[test]
fn concurrent_writes_in_memory() {
    if needs_alone("it names the first label") {
        return;
    }
    write_concurrently(&memory(), 150);
}

#[test]
fn concurrent_writes_on_disk() {
    let (store, _folder) = on_disk();
    write_concurrently(&store, 40);
}

/// Documents are created, changed and deleted with their relationships while indexes are created and dropped, bulk
/// loads run and a reversible bucket is swept: whatever was refused, everything derived matches the records at the end.
fn change_schema_during_writes(store: &DataStore, rounds: u64) {
    fn field(path: &str, each: bool) -> IndexField {
        IndexField {
            path: FieldPath::top(path),
            each,
        }
    }
    transact(store, |tx| {
        let options = isomer_data::BucketOptions::reversible();
        tx.kv_mut().create_bucket("sessions", options)
    });
    let patience = Instant::now();
    let tolerated = |error: Option<&DataError>| {
        use ErrorKind::{Exists, NotFound, Retry};
        let kind = error.map(DataError::kind);
        assert!(
            matches!(kind, None | Some(Retry | Exists | NotFound)),
            "{error:?}"
        );
    };
    std::thread::scope(|scope| {
        for thread in 0..2_u64 {
            scope.spawn(move || {
                for round in 0..rounds {
                    let number = (round * 7 + thread * 3) % 23;
                    let key = isomer_value::Value::from(format!("k{number}"));
                    let mut tx = store.begin(Access::Write).unwrap();
                    let done = (|| {
                        let friend = tx.name_ids().intern_type("FRIEND")?;
                        match tx.documents().node("Person", &key)? {
                            Some(_) if round % 3 == 0 => {
                                tx.documents_mut().remove("Person", &key, true)?;
                            }
                            Some(id) => {
                                let tags = isomer_value::Value::from(vec![
                                    int(round as i64 % 5),
                                    int(thread as i64),
                                ]);
                                tx.graph_mut().set_node_property(id, &["tags"], tags)?;
                                let other = isomer_value::Value::from(format!("k{}", number / 2));
                                if let Some(other) = tx.documents().node("Person", &other)? {
                                    tx.graph_mut().create_relationship(
                                        friend,
                                        id,
                                        other,
                                        &Map::new(),
                                    )?;
                                }
                            }
                            None => {
                                let properties = [("_key", key.clone()), ("nick", key.clone())];
                                tx.documents_mut().insert("Person", &map(&properties))?;
                            }
                        }
                        let expiry = isomer_data::Expiry::After(round % 3);
                        let (session, user) = ([number as u8 + 1], [round as u8 % 4 + 1]);
                        tx.kv_mut().put_with("sessions", &session, &user, expiry)
                    })();
                    let done = done
                        .and_then(|()| tx.commit_with(isomer_data::Durability::Buffered).map(drop));
                    tolerated(done.as_ref().err());
                }
            });
        }
        scope.spawn(move || {
            for round in 0..rounds / 10 {
                let spec = IndexSpec {
                    name: Some("made".into()),
                    scope: ScopeName::label("Person"),
                    fields: vec![if round % 2 == 0 {
                        field("nick", false)
                    } else {
                        field("tags", true)
                    }],
                    unique: round % 2 == 0,
                };
                let made = store.change_schema(SchemaChange::CreateIndex {
                    spec,
                    if_not_exists: false,
                });
                tolerated(made.as_ref().err());
                if round + 2 < rounds / 10 {
                    let name = "made".to_owned();
                    let dropped = store.change_schema(SchemaChange::DropIndex {
                        name,
                        if_exists: true,
                    });
                    tolerated(dropped.as_ref().err());
                }
            }
        });
        scope.spawn(move || {
            for round in 0..rounds / 10 {
                let mut rows = (0..5).map(|row| {
                    let key = isomer_value::Value::from(format!("b{round}-{row}"));
                    Ok(isomer_bulk::BulkNode {
                        row,
                        properties: map(&[("_key", key.clone()), ("nick", key)]),
                    })
                });
                let options = isomer_bulk::BulkOptions::default();
                let loaded = isomer_bulk::load_nodes(store, "Person", &options, &mut rows, &mut ());
                tolerated(loaded.as_ref().err());
                let ends = isomer_bulk::BulkEnds {
                    rel_type: "FRIEND",
                    from: "Person",
                    to: "Person",
                };
                let mut rows = (0..5).map(|row| {
                    Ok(isomer_bulk::BulkRelationship {
                        row,
                        source: isomer_value::Value::from(format!("k{row}")),
                        target: isomer_value::Value::from(format!("k{}", row + 1)),
                        properties: Map::new(),
                    })
                });
                let loaded =
                    isomer_bulk::load_relationships(store, ends, &options, &mut rows, &mut ());
                tolerated(loaded.as_ref().err());
                store.sweep_expired(100).unwrap();
            }
        });
    });
    assert!(patience.elapsed() < Duration::from_secs(120));
    assert_eq!(
        isomer_check::check(store, &mut |_, _| ControlFlow::Continue(())).unwrap(),
        Vec::<String>::new()
    );
    let tx = store.begin(Access::Read).unwrap();
    assert!(tx.exact_node_count(None).unwrap() > 0 && store.engine().version() > rounds);
}

#[test]
fn schema_changes_during_writes_in_memory() {
    if needs_alone("a bulk load") {
        return;
    }
    change_schema_during_writes(&memory(), 600);
}

#[test]
fn schema_changes_during_writes_on_disk() {
    let (store, _folder) = on_disk();
    change_schema_during_writes(&store, 200);
}
