//! Real threads: what must hold whatever they do.

mod common;

use std::time::{Duration, Instant};

use common::{int, map, memory, on_disk};
use isomer_data::{
    Access, DataError, Direction, ErrorKind, FieldPath, GraphRead, IndexField, IndexSpec,
    SchemaChange, Store, Transaction, Verdict,
};
use isomer_value::{Map, NodeId};

/// Runs `work` until it commits.
fn transact<T>(store: &Store, mut work: impl FnMut(&mut Transaction) -> Result<T, DataError>) -> T {
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

/// Money moves between accounts, everybody hangs relationships on one hub, new names appear, an index is built.
fn commotion(store: &Store, rounds: u64) {
    const THREADS: u64 = 4;
    let (hub, accounts) = transact(store, |tx| {
        let label = tx.intern_label("Account")?;
        let hub = tx.create_node(&[], &Map::new())?;
        let accounts: Result<Vec<_>, _> = (0..5)
            .map(|_| tx.create_node(&[label], &map(&[("amount", int(100))])))
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
                        tx.set_node_property(a, &["amount"], int(mine - 1))?;
                        tx.set_node_property(b, &["amount"], int(theirs + 1))
                    });
                    transact(store, |tx| {
                        let paid = tx.intern_type("PAID")?;
                        let label = tx.intern_label(&format!("Round{}", round % 7))?;
                        let node = tx
                            .create_node(&[label], &map(&[(&format!("p{}", round % 5), int(1))]))?;
                        tx.create_relationship(paid, hub, node, &Map::new())
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
                label: "Account".into(),
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
    let mut names = common::names(store);
    names.sort();
    names.dedup();
    assert_eq!(names.len(), store.catalog().labels().len());
    assert_eq!(
        store.check(&mut |_, _| Verdict::Continue).unwrap(),
        Vec::<String>::new()
    );
    assert!(matches!(store.catalog().index_named("amount"), Some(index) if index.label.0 == 0));
}

#[test]
fn in_memory() {
    commotion(&memory(), 150);
}

#[test]
fn on_redb() {
    let (store, _folder) = on_disk();
    commotion(&store, 40);
}
