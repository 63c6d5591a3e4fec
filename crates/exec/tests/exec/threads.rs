//! Aggregations, sorts and distinct rows computed by several threads: the results and errors of one thread, and prompt
//! cancellation.

use std::sync::Arc;
use std::time::{Duration, Instant};

use isomer_data::{Access, DataStore, DataStoreOptions, GraphRead, Transaction};
use isomer_exec::{CancelHandle, ExecError, Execution, ExecutionOptions, Limits, ResultRows};
use isomer_plan::catalog::MockCatalog;
use isomer_storage::MemoryEngine;
use isomer_value::{Map, Value};

const NODES: i64 = 20_000;

fn store() -> DataStore {
    let store = DataStore::open(Arc::new(MemoryEngine::new()), DataStoreOptions::default())
        .expect("a store");
    let mut transaction = store.begin(Access::Write).expect("a transaction");
    let created = format!(
        "UNWIND range(1, {NODES}) AS i CREATE (n:N {{i: i, kind: i % 7}}) FOREACH (x IN CASE WHEN i % 5 = 0 THEN [1] ELSE [] END | SET n:Fifth) \
         WITH n WHERE n.i % 3 = 0 CREATE (n)-[:NEXT]->(:M {{i: n.i}})"
    );
    run(&mut transaction, &created, ExecutionOptions::default()).expect("created");
    transaction.commit().expect("committed");
    store
}

fn run(
    transaction: &mut Transaction,
    query: &str,
    options: ExecutionOptions,
) -> Result<Vec<Vec<Value>>, ExecError> {
    let mut catalog = MockCatalog::new();
    for (name, count) in [
        ("N", 20_000),
        ("M", 6_000),
        ("Fifth", 4_000),
        ("Wide", 12_000),
    ] {
        if transaction.catalog().label_id(name).is_some() {
            catalog = catalog.with_label(name, count);
        }
    }
    if transaction.catalog().type_id("NEXT").is_some() {
        catalog = catalog.with_type("NEXT", 6_000);
    }
    let plan = isomer_plan::prepare(query, &catalog, &isomer_plan::PlanningOptions::default())
        .unwrap_or_else(|error| panic!("{query}: {error}"));
    let mut execution = Execution::start(plan, &Map::new(), &options, transaction)?;
    let mut rows = ResultRows::new();
    let mut found = Vec::new();
    loop {
        let more = execution.next_rows(transaction, &mut rows)?;
        found.extend(rows.iter().map(<[Value]>::to_vec));
        if !more {
            return Ok(found);
        }
    }
}

fn threads(workers: usize) -> ExecutionOptions {
    ExecutionOptions {
        workers,
        parallel_rows: 1_000,
        ..ExecutionOptions::default()
    }
}

#[test]
fn several_threads_give_the_results_of_one() {
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
    // A statement that writes uses one thread.
    let mut writing = store.begin(Access::Write).expect("a transaction");
    let query = "MATCH (n:N) SET n.seen = true WITH n.seen AS seen RETURN count(seen)";
    let found = run(&mut writing, query, threads(4)).expect("rows");
    assert_eq!(found, [[Value::Int(NODES)]]);
}

/// Equal rows stay in the order in which one thread finds them, even if threads leave rows out.
#[test]
fn several_threads_sort_as_one_does() {
    let store = store();
    let mut transaction = store.begin(Access::Read).expect("a transaction");
    let queries = [
        "MATCH (n:N) RETURN n.i AS i ORDER BY n.kind LIMIT 10",
        "MATCH (n:N) RETURN n.i AS i, n.kind AS k ORDER BY k DESC, i % 3 LIMIT 700",
        "MATCH (n:N) RETURN n.i AS i ORDER BY n.kind LIMIT 19000",
        "MATCH (n:N) RETURN n.i AS i ORDER BY n.none LIMIT 5",
        "MATCH (n:N) WHERE n.i % 2 = 0 RETURN n.i AS i ORDER BY n.kind SKIP 9000 LIMIT 10",
        "MATCH (n:N) RETURN n.i AS i, n.kind AS k ORDER BY k",
        "MATCH (n:N)-[:NEXT]->(m) RETURN m.i AS i ORDER BY n.kind, m.i % 5 DESC LIMIT 300",
        "MATCH (n)-[r:NEXT]->(m) RETURN n.i AS i ORDER BY n.kind LIMIT 50",
        "MATCH (n:N) RETURN n.i AS i ORDER BY n.kind LIMIT 0",
        "MATCH (n:N) WITH n ORDER BY n.kind, n.i LIMIT 3 RETURN n.i AS i",
        "MATCH (n:N) WITH n ORDER BY n.kind LIMIT 100 MATCH (n)-[:NEXT]->(m) RETURN m.i AS i",
    ];
    for query in queries {
        let one = run(&mut transaction, query, threads(1)).expect("rows");
        for workers in [2, 5] {
            let found = run(&mut transaction, query, threads(workers)).expect("rows");
            assert_eq!(found, one, "{query}");
        }
        // As when rows exceed the memory, and when one thread has a smaller limit.
        for memory_bytes in [300_000, 24 << 20] {
            let mut options = threads(3);
            options.limits.memory_bytes = memory_bytes;
            let found = run(&mut transaction, query, options).expect("rows");
            assert_eq!(found, one, "{query}");
        }
    }
}

#[test]
fn several_threads_find_the_same_distinct_rows() {
    let store = store();
    let mut transaction = store.begin(Access::Read).expect("a transaction");
    for (query, count) in [
        ("MATCH (n:N) RETURN DISTINCT n.kind AS k", 7),
        (
            "MATCH (n:N) RETURN DISTINCT n.i % 4000 AS i, n.kind AS k",
            20_000,
        ),
        (
            "MATCH (n:N) WHERE n.i < 9000 RETURN DISTINCT n.i / 2.0 % 500 AS half",
            1_000,
        ),
        ("MATCH (n:N)-[:NEXT]->(m) RETURN DISTINCT m", 6_666),
        (
            "MATCH (n:N) WITH DISTINCT n.kind AS k, n.i % 2 AS two RETURN k ORDER BY k",
            14,
        ),
        ("MATCH (n:N) RETURN DISTINCT n.none", 1),
        ("MATCH (n:None) RETURN DISTINCT n", 0),
    ] {
        let sorted = |options: ExecutionOptions, transaction: &mut Transaction| {
            let mut found = run(transaction, query, options).expect("rows");
            found.sort_by_key(|row| format!("{row:?}"));
            found
        };
        let one = sorted(threads(1), &mut transaction);
        assert_eq!(one.len(), count, "{query}");
        for workers in [2, 5] {
            assert_eq!(sorted(threads(workers), &mut transaction), one, "{query}");
        }
        let mut options = threads(3);
        options.limits.memory_bytes = 300_000;
        assert_eq!(sorted(options, &mut transaction), one, "{query}");
    }
    // A few of them are enough.
    let first = "MATCH (n:N) RETURN DISTINCT n.i AS i LIMIT 3";
    assert_eq!(
        run(&mut transaction, first, threads(3))
            .expect("rows")
            .len(),
        3
    );
}

/// A few thousand rows exceed the query's memory: they spill, and senders wait for room.
#[test]
fn several_threads_spill_wide_rows() {
    let store = DataStore::open(Arc::new(MemoryEngine::new()), DataStoreOptions::default())
        .expect("a store");
    let text = "wide ".repeat(800);
    for part in 0..3 {
        let mut writing = store.begin(Access::Write).expect("a transaction");
        let created = format!(
            "UNWIND range(1, 4000) AS i CREATE (:Wide {{i: {part} * 4000 + i, kind: i % 3, text: '{text}' + toString(i % 3900)}})"
        );
        run(&mut writing, &created, ExecutionOptions::default()).expect("created");
        writing.commit().expect("committed");
    }
    let mut transaction = store.begin(Access::Read).expect("a transaction");
    for query in [
        "MATCH (n:Wide) RETURN n.i AS i, n.text AS text ORDER BY n.kind",
        "MATCH (n:Wide) RETURN n.i AS i, n.text AS text ORDER BY text LIMIT 11000",
        "MATCH (n:Wide) RETURN DISTINCT n.text AS text",
    ] {
        let sorted = |mut rows: Vec<Vec<Value>>| {
            if query.contains("DISTINCT") {
                rows.sort_by_key(|row| format!("{row:?}"));
            }
            rows
        };
        let one = sorted(run(&mut transaction, query, threads(1)).expect("rows"));
        assert!(one.len() >= 3_900, "{query}");
        for workers in [2, 3] {
            let mut options = threads(workers);
            options.limits.memory_bytes = 24 << 20;
            let found = run(&mut transaction, query, options)
                .unwrap_or_else(|error| panic!("{query}, {workers} threads: {error}"));
            assert!(sorted(found) == one, "{query}, {workers} threads");
        }
    }
}

#[test]
fn threads_that_sort_stop_with_their_query() {
    let store = store();
    let mut transaction = store.begin(Access::Read).expect("a transaction");
    for rest in ["RETURN n ORDER BY n.kind LIMIT 3", "RETURN DISTINCT n.kind"] {
        let slow = format!("MATCH (n:N) WHERE all(x IN range(1, 100000) WHERE x + n.i > 0) {rest}");
        let cancel = CancelHandle::new();
        let options = ExecutionOptions {
            cancel: cancel.clone(),
            ..threads(3)
        };
        let stopper = std::thread::spawn(move || {
            // In the middle of the query, which takes far longer.
            std::thread::sleep(Duration::from_millis(100));
            cancel.cancel();
        });
        let start = Instant::now();
        let error = run(&mut transaction, &slow, options).expect_err("cancelled");
        assert!(matches!(error, ExecError::Cancelled), "{error}");
        assert!(start.elapsed() < Duration::from_secs(10));
        stopper.join().expect("it cancelled");
        let wrong = format!("MATCH (n:N) WHERE 10 / (n.i - 9000) < 100 {rest}");
        let error = run(&mut transaction, &wrong, threads(3)).expect_err("a division by zero");
        assert!(error.to_string().contains("zero"), "{error}");
    }
}

#[test]
fn a_sum_does_not_depend_on_which_thread_is_first() {
    let store = store();
    let mut writing = store.begin(Access::Write).expect("a transaction");
    let query = "MATCH (n:N) SET n.v = CASE n.i WHEN 100 THEN 9223372036854775807 WHEN 6000 THEN 1 WHEN 12000 THEN -1 ELSE 0 END, \
                 n.f = CASE n.i WHEN 100 THEN 1e16 WHEN 6000 THEN 1.0 WHEN 12000 THEN -1e16 ELSE 0.0 END";
    run(&mut writing, query, ExecutionOptions::default()).expect("set");
    writing.commit().expect("committed");
    let mut transaction = store.begin(Access::Read).expect("a transaction");
    let query = "MATCH (n:N) RETURN sum(n.v), sum(n.f), stDev(n.i) > 5773.0";
    for round in 0..10 {
        let found = run(&mut transaction, query, threads(4)).expect("sums");
        let sums = [Value::Int(i64::MAX), Value::Float(1.0), Value::Bool(true)];
        assert_eq!(found, [sums], "{round}");
    }
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
    // Far more rows than are consumed.
    let query = "MATCH (n:N) WHERE all(x IN range(1, 100000) WHERE x + n.i > 0) RETURN count(*)";
    let cancel = CancelHandle::new();
    let options = ExecutionOptions {
        cancel: cancel.clone(),
        ..threads(3)
    };
    let stopper = std::thread::spawn(move || {
        // In the middle of the query, which takes far longer.
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
    let options = ExecutionOptions {
        limits,
        ..threads(3)
    };
    let error = run(&mut transaction, query, options).expect_err("out of time");
    assert!(error.to_string().contains("time"), "{error}");
}
