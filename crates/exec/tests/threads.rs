//! Aggregations whose rows several threads make: the answers of one thread, its errors, and an end when they are to stop.

use std::sync::Arc;
use std::time::{Duration, Instant};

use isomer_data::{Access, GraphRead, Store, StoreOptions, Transaction};
use isomer_exec::{CancelHandle, ExecError, Execution, Limits, Options, Rows};
use isomer_plan::catalog::MockCatalog;
use isomer_storage::MemoryEngine;
use isomer_value::{Map, Value};

const NODES: i64 = 20_000;

fn store() -> Store {
    let store =
        Store::open(Arc::new(MemoryEngine::new()), StoreOptions::default()).expect("a store");
    let mut transaction = store.begin(Access::Write).expect("a transaction");
    let created = format!(
        "UNWIND range(1, {NODES}) AS i CREATE (n:N {{i: i, kind: i % 7}}) FOREACH (x IN CASE WHEN i % 5 = 0 THEN [1] ELSE [] END | SET n:Fifth) \
         WITH n WHERE n.i % 3 = 0 CREATE (n)-[:NEXT]->(:M {{i: n.i}})"
    );
    run(&mut transaction, &created, Options::default()).expect("created");
    transaction.commit().expect("committed");
    store
}

fn run(
    transaction: &mut Transaction,
    query: &str,
    options: Options,
) -> Result<Vec<Vec<Value>>, ExecError> {
    let mut catalog = MockCatalog::new();
    for (name, count) in [("N", 20_000), ("M", 6_000), ("Fifth", 4_000)] {
        if transaction.catalog().label_id(name).is_some() {
            catalog = catalog.with_label(name, count);
        }
    }
    if transaction.catalog().type_id("NEXT").is_some() {
        catalog = catalog.with_type("NEXT", 6_000);
    }
    let plan = isomer_plan::prepare(query, &catalog, &isomer_plan::Options::default())
        .unwrap_or_else(|error| panic!("{query}: {error}"));
    let mut execution = Execution::start(plan, &Map::new(), &options, transaction)?;
    let mut rows = Rows::new();
    let mut found = Vec::new();
    loop {
        let more = execution.next_rows(transaction, &mut rows)?;
        found.extend(rows.iter().map(<[Value]>::to_vec));
        if !more {
            return Ok(found);
        }
    }
}

fn threads(workers: usize) -> Options {
    Options {
        workers,
        parallel_rows: 1_000,
        ..Options::default()
    }
}

#[test]
fn several_threads_answer_what_one_does() {
    let store = store();
    let mut transaction = store.begin(Access::Read).expect("a transaction");
    for query in [
        "MATCH (n:N) WHERE n.i > 100 RETURN n.kind AS k, count(*), sum(n.i), min(n.i) ORDER BY k",
        "MATCH (n:Fifth) RETURN count(*), sum(n.i)",
        "MATCH (n) RETURN count(n.kind), sum(n.i)",
        "MATCH (n:N)-[:NEXT]->(m) WHERE m.i = n.i RETURN n.kind AS k, count(*) ORDER BY k",
        "MATCH (n:N)-[:NEXT]->(m) WITH m, count(*) AS c RETURN count(m), sum(c)",
        "MATCH (n:N) WITH n.kind AS k, count(*) AS c MATCH (m:M) WHERE m.i % 7 = k RETURN k, c, count(m) ORDER BY k",
        "MATCH (n:None) RETURN count(*)",
        "MATCH (n)-[r:NEXT]->(m) RETURN n.kind AS k, count(*), sum(m.i) ORDER BY k",
        "MATCH (n)-[r]-(m) RETURN n.kind AS k, count(*), max(id(r)) ORDER BY k",
    ] {
        let one = run(&mut transaction, query, threads(1)).expect("rows");
        for workers in [2, 5] {
            let found = run(&mut transaction, query, threads(workers)).expect("rows");
            assert_eq!(found, one, "{query}");
        }
    }
    // A statement that writes keeps to one thread.
    let mut writing = store.begin(Access::Write).expect("a transaction");
    let query = "MATCH (n:N) SET n.seen = true WITH n.seen AS seen RETURN count(seen)";
    let found = run(&mut writing, query, threads(4)).expect("rows");
    assert_eq!(found, [[Value::Int(NODES)]]);
}

#[test]
fn an_error_of_one_thread_is_the_query_s() {
    let store = store();
    let mut transaction = store.begin(Access::Read).expect("a transaction");
    let query = "MATCH (n:N) WHERE 10 / (n.i - 15000) < 100 RETURN count(*)";
    let error = run(&mut transaction, query, threads(3)).expect_err("a division by zero");
    assert!(error.to_string().contains("zero"), "{error}");
    let again = run(
        &mut transaction,
        "MATCH (n:N) RETURN count(n.i)",
        threads(3),
    )
    .expect("rows");
    assert_eq!(again, [[Value::Int(NODES)]]);
}

#[test]
fn threads_stop_with_their_query() {
    let store = store();
    let mut transaction = store.begin(Access::Read).expect("a transaction");
    // Far more rows than anybody waits for.
    let query = "MATCH (n:N) WHERE all(x IN range(1, 100000) WHERE x + n.i > 0) RETURN count(*)";
    let cancel = CancelHandle::new();
    let options = Options {
        cancel: cancel.clone(),
        ..threads(3)
    };
    let stopper = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        cancel.cancel();
    });
    let start = Instant::now();
    let error = run(&mut transaction, query, options).expect_err("cancelled");
    assert!(matches!(error, ExecError::Cancelled), "{error}");
    assert!(
        start.elapsed() < Duration::from_secs(20),
        "{:?}",
        start.elapsed()
    );
    stopper.join().expect("stopped");

    let mut limits = Limits::default();
    limits.time = Some(Duration::from_millis(200));
    let options = Options {
        limits,
        ..threads(3)
    };
    let error = run(&mut transaction, query, options).expect_err("out of time");
    assert!(error.to_string().contains("time"), "{error}");
}
