//! Reads of single records by their keys, which run without an execution.

use std::collections::HashMap;

use isomer_db::{
    CancelHandle, Database, EngineKind, ErrorKind, Limits, Prepared, QueryOptions, ReadTransaction,
    Value, params,
};

use crate::place::{self, Opening as _};

const LABELS: [&str; 2] = ["A", "B"];
const KEYS: i64 = 12;

/// Pseudo-random numbers from a seed (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    fn key(&mut self) -> Value {
        let number = self.below(KEYS as u64) as i64;
        match self.below(2) {
            0 => Value::Int(number),
            _ => Value::from(format!("k{number}")),
        }
    }
}

fn text(label: &str) -> String {
    format!("MATCH (n:{label} {{_key: $key}}) RETURN n, n.v AS v")
}

/// All records of a label at a transaction's version, by their keys, without key lookups.
fn scanned(tx: &ReadTransaction, label: &str) -> HashMap<String, (u64, Value)> {
    let rows = tx.query(&format!(
        "MATCH (n:{label}) RETURN n, n._key AS key, n.v AS v"
    ));
    let rows = rows.expect("a scan");
    let row = |row: &isomer_db::Row| {
        let node = row.value("n").unwrap().as_node().expect("a node").id.0;
        let key = format!("{:?}", row.value("key").unwrap());
        (key, (node, row.value("v").unwrap().clone()))
    };
    rows.iter().map(row).collect()
}

fn check(tx: &ReadTransaction, prepared: &[Prepared]) {
    for (label, prepared) in LABELS.iter().zip(prepared) {
        let wanted = scanned(tx, label);
        let ints = (0..KEYS).map(Value::Int);
        let texts = (0..KEYS).map(|number| Value::from(format!("k{number}")));
        for key in ints.chain(texts) {
            let found = tx.query_prepared(prepared, params! { "key" => key.clone() });
            let found = found.expect("a point read");
            let found = found.iter().next().map(|row| {
                let node = row.value("n").unwrap().as_node().expect("a node");
                let content = node.content.as_ref().expect("with its content");
                assert!(content.labels.iter().any(|own| &**own == *label));
                assert_eq!(content.properties.get("_key"), Some(&key));
                let v = content.properties.get("v").cloned().unwrap_or_default();
                assert_eq!(&v, row.value("v").unwrap());
                (node.id.0, v)
            });
            assert_eq!(
                found.as_ref(),
                wanted.get(&format!("{key:?}")),
                "{label} {key:?}"
            );
        }
    }
}

/// Keys that are created, deleted, moved from one record to another or to another label are found as a scan finds them,
/// at the newest version and at those that readers hold.
#[test]
fn point_reads_equal_a_scan() {
    for seed in [3, 20_261_122, 0xfeed] {
        let db = place::open_empty().expect("a database");
        let mut random = Random(seed);
        let prepared = LABELS.map(|label| db.prepare(&text(label)).expect("it is prepared"));
        let mut held: Vec<ReadTransaction> = Vec::new();
        let mut refused = 0;
        for step in 0..150 {
            let label = LABELS[random.below(2) as usize];
            let (key, other, v) = (random.key(), random.key(), random.below(1000) as i64);
            let parameters = params! { "key" => key, "other" => other, "v" => v };
            let change = match random.below(8) {
                0..=2 => format!("CREATE (:{label} {{_key: $key, v: $v}})"),
                3 => format!("MATCH (n:{label} {{_key: $key}}) DETACH DELETE n"),
                4 => format!("MATCH (n:{label} {{_key: $key}}) SET n._key = $other"),
                5 => format!("MATCH (n:{label} {{_key: $key}}) REMOVE n:A SET n:B, n.v = $v"),
                6 => format!("MATCH (n:{label} {{_key: $key}}) REMOVE n._key"),
                _ => format!(
                    "MATCH (n:{label} {{_key: $key}}) SET n.v = $v, n.long = 'x{}'",
                    "y".repeat(70_000)
                ),
            };
            match db.query((&change, parameters)) {
                Ok(_) => {}
                Err(error) => {
                    assert!(
                        matches!(error.kind(), ErrorKind::Exists | ErrorKind::Invalid),
                        "{error}"
                    );
                    refused += 1;
                }
            }
            if step % 10 == 0 {
                check(&db.begin_read().expect("it reads"), &prepared);
            }
            if step % 30 == 0 {
                held.push(db.begin_read().expect("it reads"));
            }
        }
        assert!(refused > 0);
        held.iter().for_each(|tx| check(tx, &prepared));
        // A transaction that writes sees its own changes.
        let tx = db.begin().expect("it writes");
        tx.query("MATCH (n:A) SET n.v = -1").expect("set");
        tx.query("MERGE (n:A {_key: 0}) SET n.v = 5")
            .expect("merged");
        check(&tx, &prepared);
    }
}

/// Point reads and pipelines accept and refuse the same inputs.
#[test]
fn limits_and_errors_are_those_of_any_query() {
    let folder = tempfile::tempdir().expect("a folder");
    let open = || {
        let builder = Database::builder().engine(EngineKind::Lsm);
        builder.open_at(folder.path().join("db")).expect("it opens")
    };
    let db = open();
    db.query("UNWIND range(1, 20) AS k CREATE (:A {_key: k, v: k * k})")
        .expect("made");
    let read = db
        .prepare("MATCH (n:A {_key: $key}) RETURN n.v AS v, n.none AS none")
        .expect("prepared");
    let v = |key: Value| -> Vec<(i64, Option<i64>)> {
        read.query(params! { "key" => key })
            .expect("it reads")
            .deserialize()
            .expect("numbers")
    };
    for round in 0..3 {
        assert_eq!(v(Value::Int(7)), [(49, None)], "{round}");
        assert_eq!(v(Value::Float(7.0)), [(49, None)]);
        assert_eq!(v(Value::Float(7.5)), []);
        assert_eq!(v(Value::from("7")), []);
        assert_eq!(v(Value::Null), []);
        assert_eq!(v(Value::Int(21)), []);
        let literal = db.query("MATCH (n:A {_key: 7}) RETURN n.v AS v");
        assert_eq!(
            literal.unwrap().single().unwrap().get::<i64>("v").unwrap(),
            49
        );
    }
    let missing = read.query(params! { "other" => 7 }).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::Invalid, "{missing}");
    let cancel = CancelHandle::new();
    cancel.cancel();
    let stopped = read.query((params! { "key" => 7 }, &QueryOptions::new().cancel(cancel)));
    assert!(
        stopped.is_ok_and(|rows| rows.len() == 1),
        "a read that is over at once cannot be stopped"
    );
    let mut limits = Limits::default();
    limits.rows = Some(0);
    let many = read.query((params! { "key" => 7 }, &QueryOptions::new().limits(limits)));
    assert_eq!(many.unwrap_err().kind(), ErrorKind::Limit);
    // Writes of other transactions are visible, and a schema change causes new planning.
    db.query("MATCH (n:A {_key: 7}) SET n.v = 50").expect("set");
    assert_eq!(v(Value::Int(7)), [(50, None)]);
    db.query("CREATE INDEX FOR (n:A) ON (n.v)")
        .expect("an index");
    assert_eq!(v(Value::Int(7)), [(50, None)]);
    let tx = db.begin_read().expect("it reads");
    db.close().expect("it closes");
    assert_eq!(
        read.query(params! { "key" => 7 }).unwrap_err().kind(),
        ErrorKind::Closed
    );
    drop(tx.query_prepared(&read, params! { "key" => 7 }));
    drop(tx);
    drop((read, db));
    let again = open();
    let found = again.query("MATCH (n:A {_key: 7}) RETURN n.v AS v");
    assert_eq!(
        found.unwrap().single().unwrap().get::<i64>("v").unwrap(),
        50
    );
}
