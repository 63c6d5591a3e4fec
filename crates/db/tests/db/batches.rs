//! `CALL { … } IN TRANSACTIONS`.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use isomer_db::{Database, ErrorKind, Query, QueryOptions, Value};

fn open() -> Database {
    Database::open_in_memory().expect("in memory")
}

fn number(db: &Database, query: &str) -> i64 {
    let result = db.query(query).expect(query);
    let row = result.single().expect(query);
    row.values()[0].as_int().expect(query)
}

fn lists(db: &Database, query: &str) -> Vec<Vec<Value>> {
    let result = db.query(query).expect(query);
    result.iter().map(|row| row.values().to_vec()).collect()
}

/// Each batch is a separate commit: an error leaves the batches before it.
#[test]
fn an_error_leaves_earlier_batches() {
    let db = open();
    let before = db.version().expect("open");
    let query = "UNWIND [1, 2, 3, 4, 0, 6] AS x CALL (x) { CREATE (:N {x: 12 / x}) } IN TRANSACTIONS OF 2 ROWS";
    let error = db.query(query).expect_err("a division by zero");
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert_eq!(number(&db, "MATCH (n:N) RETURN count(n)"), 4);
    assert!(db.version().expect("open") >= before + 2, "two commits");
}

#[test]
fn errors_continue_break_and_are_reported() {
    let statement = |on_error: &str| {
        format!(
            "UNWIND [1, 2, 0, 4, 5] AS x \
             CALL (x) {{ CREATE (n:N {{x: 10 / x}}) RETURN n.x AS y }} IN TRANSACTIONS OF 2 ROWS {on_error} \
             REPORT STATUS AS s RETURN x, y, s.started, s.committed, s.errorMessage IS NULL ORDER BY x"
        )
    };
    let row = |x: i64, y: Option<i64>, started: bool, committed: bool, fine: bool| -> Vec<Value> {
        let y = y.map_or(Value::Null, Value::Int);
        vec![x.into(), y, started.into(), committed.into(), fine.into()]
    };
    let db = open();
    assert_eq!(
        lists(&db, &statement("ON ERROR CONTINUE")),
        [
            row(0, None, true, false, false),
            row(1, Some(10), true, true, true),
            row(2, Some(5), true, true, true),
            row(4, None, true, false, false),
            row(5, Some(2), true, true, true),
        ]
    );
    assert_eq!(number(&db, "MATCH (n:N) RETURN count(n)"), 3);
    let db = open();
    assert_eq!(
        lists(&db, &statement("ON ERROR BREAK")),
        [
            row(0, None, true, false, false),
            row(1, Some(10), true, true, true),
            row(2, Some(5), true, true, true),
            row(4, None, true, false, false),
            row(5, None, false, false, true),
        ]
    );
    assert_eq!(number(&db, "MATCH (n:N) RETURN count(n)"), 2);
}

/// What follows the subquery reads what it has committed; its input does not.
#[test]
fn what_follows_reads_the_committed_state() {
    let db = open();
    db.query("UNWIND range(1, 10) AS x CREATE (:N {x: x})")
        .expect("created");
    let query = "MATCH (n:N) \
                 CALL (n) { CREATE (m:N {x: n.x + 100}) SET n.seen = true RETURN m } IN TRANSACTIONS OF 3 ROWS \
                 RETURN n.x AS x, n.seen AS seen, m.x AS y, labels(m) AS labels ORDER BY x";
    let rows = lists(&db, query);
    let labels: Value = vec![Value::from("N")].into();
    let expected =
        (1..=10_i64).map(|x| vec![x.into(), true.into(), (x + 100).into(), labels.clone()]);
    assert_eq!(rows, expected.collect::<Vec<Vec<Value>>>());
    assert_eq!(
        number(
            &db,
            "MATCH (n:N) CALL (n) { DETACH DELETE n } IN TRANSACTIONS OF 7 ROWS \
             WITH count(*) AS c MATCH (n) RETURN count(n)"
        ),
        0
    );
}

#[test]
fn rows_are_kept_counted_and_optional() {
    let db = open();
    let query = Query::new(
        "UNWIND range(1, 25) AS x CALL (x) { CREATE (:N {x: x})-[:T]->(:M) } IN TRANSACTIONS OF $rows ROWS",
    );
    let result = db.query(query.param("rows", 10)).expect("created");
    let counters = result.counters();
    assert_eq!(counters.nodes_created, 50);
    assert_eq!(counters.relationships_created, 25);
    assert_eq!(
        lists(
            &db,
            "UNWIND [1, 2, 3] AS x OPTIONAL CALL (x) { MATCH (n:N {x: x * 10}) RETURN n.x AS y } \
             IN TRANSACTIONS OF 2 ROWS \
             RETURN x, y ORDER BY x"
        ),
        [
            vec![Value::Int(1), Value::Int(10)],
            vec![Value::Int(2), Value::Int(20)],
            vec![Value::Int(3), Value::Null],
        ]
    );
    for (rows, kind) in [
        (Value::Int(0), ErrorKind::Invalid),
        ("a".into(), ErrorKind::Invalid),
    ] {
        let query = "UNWIND [1] AS x CALL (x) { CREATE (:N) } IN TRANSACTIONS OF $rows ROWS";
        let error = db
            .query(Query::new(query).param("rows", rows))
            .expect_err("no number");
        assert_eq!(error.kind(), kind, "{error}");
    }
}

/// The caller of an explicit transaction decides what is committed.
#[test]
fn explicit_transactions_refuse_it() {
    let db = open();
    let query = "UNWIND [1] AS x CALL (x) { CREATE (:N) } IN TRANSACTIONS";
    let tx = db.begin().expect("begun");
    let error = tx.query(query).expect_err("explicit");
    assert!(
        error.to_string().contains("implicit transaction"),
        "{error}"
    );
    tx.commit().expect("nothing to commit");
    let error = db
        .transact(|tx| tx.query(query).map(drop))
        .expect_err("explicit");
    assert!(
        error.to_string().contains("implicit transaction"),
        "{error}"
    );
    assert_eq!(number(&db, "MATCH (n) RETURN count(n)"), 0);
    let prepared = db.prepare(query).expect("planned");
    prepared.query(()).expect("a separate statement");
    assert_eq!(number(&db, "MATCH (n) RETURN count(n)"), 1);
    let streamed: Result<Vec<_>, _> = db.stream(query).expect("planned").collect();
    assert_eq!(streamed.expect("run").len(), 0);
    assert_eq!(number(&db, "MATCH (n) RETURN count(n)"), 2);
}

#[test]
fn misplaced_transactions_are_refused() {
    let db = open();
    for (query, part) in [
        (
            "CREATE (:A) WITH 1 AS x CALL (x) { CREATE (:B) } IN TRANSACTIONS",
            "a clause that writes",
        ),
        (
            "UNWIND [1] AS x CALL (x) { CREATE (:B) } IN TRANSACTIONS WITH x CREATE (:A)",
            "a clause that writes",
        ),
        (
            "CALL { CALL { CREATE (:A) } IN TRANSACTIONS }",
            "inside another subquery",
        ),
        (
            "CALL { CREATE (:A) } IN TRANSACTIONS RETURN 1 AS x UNION RETURN 2 AS x",
            "in a UNION",
        ),
        (
            "UNWIND [1] AS x CALL (x) { CREATE (:A) } IN TRANSACTIONS OF x ROWS",
            "no variable changes",
        ),
        (
            "UNWIND [1] AS x CALL (x) { CREATE (:A) } IN TRANSACTIONS OF -1 ROWS",
            "positive integer",
        ),
        (
            "UNWIND [1] AS x CALL (x) { CREATE (:A) } IN TRANSACTIONS REPORT STATUS AS s",
            "REPORT STATUS needs",
        ),
    ] {
        let error = db.query(query).expect_err(query);
        assert!(error.to_string().contains(part), "{query}: {error}");
    }
    assert_eq!(number(&db, "MATCH (n) RETURN count(n)"), 0);
    let reader = QueryOptions::new().allow(isomer_db::StatementClass::Read);
    let query =
        Query::new("UNWIND [1] AS x CALL (x) { CREATE (:A) } IN TRANSACTIONS").options(&reader);
    assert_eq!(
        db.query(query).expect_err("a reader").kind(),
        ErrorKind::Denied
    );
}

/// Transactions run at once and against other writers: a lost race is run again, and nothing is counted twice.
#[test]
fn concurrent_transactions_lose_no_update() {
    let db = open();
    db.query("CREATE (:Sum {x: 0}), (:Other {x: 0})")
        .expect("created");
    let stop = Arc::new(AtomicBool::new(false));
    let writer = {
        let (db, stop) = (db.clone(), stop.clone());
        std::thread::spawn(move || {
            let mut count = 0;
            while !stop.load(Ordering::Relaxed) {
                db.query("MATCH (s:Sum) SET s.x = s.x + 1")
                    .expect("retried");
                count += 1;
            }
            count
        })
    };
    let query = "UNWIND range(1, 200) AS x \
                 CALL (x) { MATCH (s:Sum) SET s.x = s.x + 1 } IN 4 CONCURRENT TRANSACTIONS OF 10 ROWS \
                 RETURN count(*) AS n";
    assert_eq!(number(&db, query), 200);
    stop.store(true, Ordering::Relaxed);
    let others: i64 = writer.join().expect("no panic");
    assert_eq!(number(&db, "MATCH (s:Sum) RETURN s.x"), 200 + others);
}

/// A unique constraint is checked for each batch.
#[test]
fn constraints_hold_in_each_batch() {
    let db = open();
    db.query("CREATE CONSTRAINT FOR (n:N) REQUIRE n.x IS UNIQUE")
        .expect("created");
    let query = "UNWIND [1, 2, 2, 3] AS x CALL (x) { CREATE (:N {x: x}) } IN TRANSACTIONS OF 1 ROW \
                 ON ERROR CONTINUE REPORT STATUS AS s RETURN collect(s.committed) AS committed";
    let committed: Value = [true, true, false, true]
        .map(Value::from)
        .into_iter()
        .collect();
    assert_eq!(lists(&db, query), [vec![committed]]);
    assert_eq!(number(&db, "MATCH (n:N) RETURN count(n)"), 3);
}

/// A deletion that leaves relationships fails in its batch alone.
#[test]
fn deletions_are_checked_in_each_batch() {
    let db = open();
    db.query("CREATE (:N {x: 1})-[:T]->(:M), (:N {x: 2})")
        .expect("created");
    let query = "MATCH (n:N) WITH n ORDER BY n.x CALL (n) { DELETE n } IN TRANSACTIONS OF 1 ROW ON ERROR CONTINUE";
    db.query(query).expect("continued");
    assert_eq!(number(&db, "MATCH (n:N) RETURN count(n)"), 1);
}

#[test]
fn the_plan_shows_the_transactions() {
    let db = open();
    let query = "EXPLAIN UNWIND [1] AS x CALL (x) { CREATE (:N) } \
                 IN 3 CONCURRENT TRANSACTIONS OF 5 ROWS ON ERROR BREAK";
    let plan = db
        .query(query)
        .expect("planned")
        .plan()
        .expect("a plan")
        .to_owned();
    assert!(
        plan.contains("ApplyInTransactions of 5 rows, 3 concurrent, on error break"),
        "{plan}"
    );
    assert_eq!(number(&db, "MATCH (n) RETURN count(n)"), 0);
}
