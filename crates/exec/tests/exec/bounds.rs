//! Memory and time are checked before they are spent: over read views and over rows.

use std::sync::Arc;
use std::time::{Duration, Instant};

use isomer_data::{Access, DataStore, DataStoreOptions, GraphRead, Transaction};
use isomer_exec::{ExecError, Execution, ExecutionOptions, Limits, Registry, ResultRows};
use isomer_plan::catalog::MockCatalog;
use isomer_storage::MemoryEngine;
use isomer_value::{Map, Value};
use isomer_views::{AdjacencySide, ViewKind, ViewOptions, Views};

fn run(
    transaction: &mut Transaction,
    query: &str,
    options: &ExecutionOptions,
) -> Result<Vec<Vec<Value>>, ExecError> {
    let mut catalog = MockCatalog::new();
    for name in ["N", "C"] {
        if transaction.catalog().label_id(name).is_some() {
            catalog = catalog.with_label(name, 2000);
        }
    }
    if transaction.catalog().type_id("R").is_some() {
        catalog = catalog.with_type("R", 2000);
    }
    let registry = Registry::with_builtins();
    for name in ["algo.shortestPath", "algo.shortestPaths"] {
        if let Some(paths) = registry.procedure(name) {
            catalog = catalog.with_procedure(paths.signature().as_ref().clone());
        }
    }
    let plan = isomer_plan::prepare(query, &catalog, &isomer_plan::PlanningOptions::default())
        .unwrap_or_else(|error| panic!("{query}: {error}"));
    let mut execution = Execution::start(plan, &Map::new(), options, transaction)?;
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

/// A database created by one statement.
fn store(created: &str) -> DataStore {
    let store = DataStore::open(Arc::new(MemoryEngine::new()), DataStoreOptions::default())
        .expect("a store");
    let mut transaction = store.begin(Access::Write).expect("a transaction");
    run(&mut transaction, created, &ExecutionOptions::default()).expect("created");
    transaction.commit().expect("committed");
    store
}

/// Views of the relationships, in both directions.
fn views(store: &DataStore) -> Arc<Views> {
    let views = Views::open(store, ViewOptions::default()).expect("views");
    let transaction = store.begin(Access::Read).expect("a transaction");
    let type_id = transaction.catalog().type_id("R").expect("a type");
    for side in AdjacencySide::BOTH {
        views
            .make(&ViewKind::Adjacency(type_id, side))
            .expect("a view");
    }
    views
}

fn limited(memory_bytes: usize, time: Duration, views: Option<&Arc<Views>>) -> ExecutionOptions {
    let mut limits = Limits::default();
    limits.memory_bytes = memory_bytes;
    limits.time = Some(time);
    ExecutionOptions {
        limits,
        views: views.cloned(),
        ..ExecutionOptions::default()
    }
}

const LONG: Duration = Duration::from_secs(120);

/// The first people have no neighbours and the later ones all live in one place: the first batches do not predict the
/// later ones.
#[test]
fn a_piece_of_rows_with_far_more_neighbours_than_those_before_is_cut() {
    let store = store(
        "CREATE (city:C) WITH city UNWIND range(1, 1000) AS i CREATE (n:N {i: i}) \
         FOREACH (x IN CASE WHEN i <= 400 THEN [1] ELSE [] END | CREATE (n)-[:R]->(:C)) \
         FOREACH (x IN CASE WHEN i > 400 THEN [1] ELSE [] END | CREATE (n)-[:R]->(city))",
    );
    let views = views(&store);
    let mut transaction = store.begin(Access::Read).expect("a transaction");
    // All pairs of the 600 at once would take 2.9 MB for the ends alone, and as much for their rows.
    for (views, relationships) in [(None, ""), (Some(&views), ""), (Some(&views), "r")] {
        let options = limited(2 << 20, LONG, views);
        let query = format!(
            "MATCH (a:N)-[:R]->(c) WITH a, c MATCH (c)<-[{relationships}:R]-(b) WHERE a.i + b.i > 0 \
             WITH a, b{} RETURN count(*), max(a.i + b.i)",
            if relationships.is_empty() { "" } else { ", r" }
        );
        let found = run(&mut transaction, &query, &options)
            .unwrap_or_else(|error| panic!("{query}, with views: {}: {error}", views.is_some()));
        assert_eq!(found, [[Value::Int(360_400), Value::Int(2000)]], "{query}");
    }
}

#[test]
fn parallel_relationships_on_shortest_paths_are_asked_for_before_they_are_multiplied() {
    let store = store(
        "CREATE (a:N {i: 0}), (b:N {i: 1}), (c:N {i: 2}), (d:N {i: 3}), (e:N {i: 4}) WITH * UNWIND range(1, 60) AS i \
         CREATE (a)-[:R]->(b), (b)-[:R]->(c), (c)-[:R]->(d), (d)-[:R]->(e)",
    );
    let views = views(&store);
    let mut transaction = store.begin(Access::Read).expect("a transaction");
    for views in [None, Some(&views)] {
        let options = limited(64 << 20, LONG, views);
        let query = |to: i64| {
            format!(
                "MATCH (a:N {{i: 0}}), (b:N {{i: {to}}}) MATCH p = allShortestPaths((a)-[:R*]->(b)) RETURN count(p)"
            )
        };
        let found = run(&mut transaction, &query(2), &options).expect("fits");
        assert_eq!(found, [[Value::Int(3600)]]);
        // Thirteen million.
        let error = run(&mut transaction, &query(4), &options).expect_err("does not fit");
        assert!(error.to_string().contains("memory"), "{error}");
    }
}

/// An exponential number of trails leads from layer to layer, and none back.
#[test]
fn a_shortest_path_back_to_its_start_is_searched_and_not_enumerated() {
    let store = store(
        "UNWIND range(0, 199) AS i CREATE (:N {i: i, layer: i / 10}) WITH count(*) AS c \
         MATCH (a:N), (b:N) WHERE b.layer = a.layer + 1 CREATE (a)-[:R]->(b)",
    );
    let views = views(&store);
    let mut transaction = store.begin(Access::Read).expect("a transaction");
    for views in [None, Some(&views)] {
        let options = limited(4 << 20, LONG, views);
        for (pattern, count) in [("-[:R*]->", 0), ("<-[:R*]-", 0), ("-[:R*]-", 1)] {
            let query = format!(
                "MATCH (a:N {{i: 5}}) MATCH p = shortestPath((a){pattern}(a)) RETURN length(p)"
            );
            let found = run(&mut transaction, &query, &options).expect("fits");
            assert_eq!(found, vec![vec![Value::Int(4)]; count], "{query}");
        }
    }
}

/// All nodes are cached after the first searches: cached work counts towards the time, too.
#[test]
fn time_stops_many_shortest_paths_over_remembered_nodes() {
    let store = store(
        "UNWIND range(0, 99) AS i CREATE (:N {i: i}) WITH count(*) AS c \
         MATCH (a:N), (b:N) WHERE a.i <> b.i CREATE (a)-[:R]->(b)",
    );
    let mut transaction = store.begin(Access::Read).expect("a transaction");
    let options = limited(1 << 30, Duration::from_millis(500), None);
    let begun = Instant::now();
    let query = "MATCH (a:N {i: 0}), (b:N {i: 1}) \
                 CALL algo.shortestPaths(a, b, 5000) YIELD rank RETURN count(rank)";
    let error = run(&mut transaction, query, &options).expect_err("too long");
    assert!(error.to_string().contains("time"), "{error}");
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(5), "stopped after {took:?}");
}

/// For a target at any distance, the weight of a step is checked against its own length.
#[test]
fn a_step_that_is_too_light_is_refused_far_from_the_target() {
    let store = store(
        "CREATE (:N {i: 1, at: point({x: 0.0, y: 0.0})})-[:R {w: 0.0}]->(:N {i: 2, at: point({x: 1.0, y: 0.0})})\
         -[:R {w: 1e10}]->(:C {at: point({x: 1e10, y: 0.0})})",
    );
    let mut transaction = store.begin(Access::Read).expect("a transaction");
    let query = |from: i64| {
        format!(
            "MATCH (a:N {{i: {from}}}), (b:C) CALL algo.shortestPath(a, b, {{weight: 'w', position: 'at'}}) YIELD weight RETURN weight"
        )
    };
    let options = ExecutionOptions::default();
    let found = run(&mut transaction, &query(2), &options).expect("a path");
    assert_eq!(found, [[Value::Float(1e10)]]);
    let error = run(&mut transaction, &query(1), &options).expect_err("too light");
    assert!(error.to_string().contains("perUnit"), "{error}");
}
