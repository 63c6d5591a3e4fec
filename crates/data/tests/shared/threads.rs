//! Processes that commit at the same time: nothing is lost, and in the end all of them read the same.

use std::{collections::BTreeSet, thread};

use isomer_data::{
    Access, ConvergentOp, ConvergentOwner, DataError, DataStore, Durability, ErrorKind, FieldPath,
    GraphRead, IndexField, IndexSpec, SchemaChange, ScopeName, Transaction,
};
use isomer_value::{Map, Value};

use crate::{
    histories::Dice,
    model::Content,
    processes::{SharedDatabase, assert_sound},
};

fn retrying<T>(
    store: &DataStore,
    mut body: impl FnMut(&mut Transaction) -> Result<T, DataError>,
) -> T {
    loop {
        let outcome = store.begin(Access::Write).and_then(|mut tx| {
            let value = body(&mut tx)?;
            tx.commit_with(Durability::Buffered)?;
            Ok(value)
        });
        match outcome {
            Ok(value) => return value,
            Err(error) if error.kind() == ErrorKind::Retry => {}
            Err(error) => panic!("{error}"),
        }
    }
}

fn document(key: i64) -> Map {
    let mut document = Map::new();
    document.insert("_key", Value::Int(key));
    document
}

const ROUNDS: i64 = 150;

/// What one process does, concurrently with others.
fn work(store: &DataStore, process: i64) -> BTreeSet<u64> {
    let mut dice = Dice::new(process as u64);
    let mut numbers = BTreeSet::new();
    for round in 0..ROUNDS {
        // New names, of which some are new in several processes at once.
        let collection = format!("C{}", round % 20);
        let key = process * ROUNDS + round;
        retrying(store, |tx| {
            let mut made = document(key);
            made.insert(format!("p{}", round / 4), Value::Int(round));
            tx.documents_mut().insert(&collection, &made)
        });
        numbers.insert(store.sequence_take("numbers", "n").expect("taken"));
        retrying(store, |tx| {
            let hub = tx.documents().node("Hub", &Value::Int(0))?.expect("made");
            let own = tx.documents().node(&collection, &Value::Int(key))?;
            let own = own.expect("it was just made");
            let type_id = tx.name_ids().intern_type("IN")?;
            tx.graph_mut()
                .create_relationship(type_id, own, hub, &Map::new())?;
            tx.fields_mut().converge(
                ConvergentOwner::Node(hub),
                &["count"],
                &ConvergentOp::Count(1),
                None,
            )
        });
        // A transaction that reads before it writes: the sum stays.
        retrying(store, |tx| {
            let read = |tx: &Transaction, key: &[u8]| {
                let value = tx.kv().get("accounts", key)?;
                let value = value.and_then(|value| value.try_into().ok());
                Ok::<_, DataError>(value.map_or(0, i64::from_be_bytes))
            };
            let (from, to) = ([dice.below(4) as u8], [dice.below(4) as u8]);
            if from != to {
                let (one, other) = (read(tx, &from)?, read(tx, &to)?);
                tx.kv_mut()
                    .put("accounts", &from, &(one - 1).to_be_bytes())?;
                tx.kv_mut()
                    .put("accounts", &to, &(other + 1).to_be_bytes())?;
            }
            Ok(())
        });
        if round % 50 == 7 {
            let spec = IndexSpec {
                name: Some(format!("i{process}_{round}")),
                scope: ScopeName::label(&collection),
                fields: vec![IndexField {
                    path: FieldPath::top(&format!("q{process}_{round}")),
                    each: false,
                }],
                unique: false,
            };
            let change = SchemaChange::CreateIndex {
                spec,
                if_not_exists: false,
            };
            store.change_schema(change).expect("created");
        }
    }
    numbers
}

#[test]
fn concurrent_processes_lose_nothing() {
    for follows in [false, true] {
        let database = SharedDatabase::new(follows);
        let stores = database.open_all(3);
        retrying(&stores[0], |tx| {
            tx.documents_mut().insert("Hub", &document(0)).map(drop)
        });
        let taken: Vec<BTreeSet<u64>> = thread::scope(|scope| {
            let running: Vec<_> = stores
                .iter()
                .zip(0..)
                .map(|(store, process)| scope.spawn(move || work(store, process)))
                .collect();
            let ended = running.into_iter().map(|thread| thread.join());
            ended.map(|outcome| outcome.expect("no panic")).collect()
        });
        let all: BTreeSet<u64> = taken.iter().flatten().copied().collect();
        assert_eq!(all.len() as i64, 3 * ROUNDS, "no number is given twice");
        let late = database.open();
        for store in stores.iter().chain([&late]) {
            assert_sound(store);
            let tx = store.begin(Access::Read).expect("begun");
            let nodes = tx.exact_node_count(None).expect("counted");
            assert_eq!(nodes as i64, 3 * ROUNDS + 1);
            let count = tx.exact_relationship_count(None).expect("counted");
            assert_eq!(count as i64, 3 * ROUNDS);
            let hub = tx.documents().node("Hub", &Value::Int(0)).expect("read");
            let owner = ConvergentOwner::Node(hub.expect("made"));
            let counted = tx.fields().value(owner, &["count"]).expect("read");
            assert_eq!(counted.and_then(|count| count.as_int()), Some(3 * ROUNDS));
            let sum: i64 = (0..4_u8)
                .filter_map(|key| tx.kv().get("accounts", &[key]).expect("read"))
                .map(|value| i64::from_be_bytes(value.try_into().expect("eight bytes")))
                .sum();
            assert_eq!(sum, 0);
            assert_eq!(tx.catalog().indexes().len(), 9);
            // Each name has one number, in every process.
            assert_eq!(tx.catalog().labels(), late.catalog().labels());
            assert_eq!(tx.catalog().props(), late.catalog().props());
        }
        let contents: Vec<Content> = stores
            .iter()
            .map(|store| Content::read(store, &Content::default()))
            .collect();
        assert!(contents.windows(2).all(|two| two[0] == two[1]));
    }
}
