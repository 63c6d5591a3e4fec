//! Whatever a query is doing, it stops within a second of its cancellation, and the transaction remains usable.
//!
//! One row per operator, function and command that can run for long. Each is started and cancelled after a while; and
//! the same rows again, stopped by a timeout.

use std::{
    sync::mpsc::channel,
    time::{Duration, Instant},
};

use isomer_db::{
    CancelHandle, Database, Error, ErrorKind, Limits, Query, QueryOptions,
    internals::DatabaseInternals as _,
};

use crate::place;

/// A name, and a statement that would run for minutes.
const LONG: &[(&str, &str)] = &[
    (
        "scan",
        "MATCH (a:Person) MATCH (b:Person) MATCH (c:Person) WHERE a.n + b.n + c.n = -1 RETURN a",
    ),
    (
        "cartesian product",
        "MATCH (a:Person), (b:Person), (c:Person) RETURN count(*) + sum(a.n * b.n * c.n)",
    ),
    (
        "hash join",
        "MATCH (a:Person), (b:Person), (c:Person) WHERE a.same = b.same AND b.same = c.same RETURN sum(a.n * c.n)",
    ),
    (
        "expand",
        "MATCH (a:Core)-[:KNOWS]->(b)-[:KNOWS]->(c)-[:KNOWS]->(d)-[:KNOWS]->(e) WHERE a.n + e.n = b.n * c.n * d.n - 1 RETURN count(*)",
    ),
    (
        "expand into",
        "MATCH (a:Core)-[:KNOWS]->(b)-[:KNOWS]->(c)-[:KNOWS]->(d)-[:KNOWS]->(a) WHERE a.n * b.n = c.n - d.n - 1 RETURN count(*)",
    ),
    (
        "variable length",
        "MATCH p = (a:Core)-[:KNOWS*1..9]-(b) RETURN count(p)",
    ),
    (
        "variable length, distinct ends",
        "MATCH (a:Core)-[k:KNOWS*5..9]->(b) RETURN count(DISTINCT size(k))",
    ),
    (
        "quantified path",
        "MATCH p = ((a:Core)-[:KNOWS]->(b:Core)){4,9} RETURN count(p)",
    ),
    (
        "all shortest paths",
        "UNWIND range(1, 1000000) AS i MATCH (a:Person {n: 1}), (b:Person {n: 1500}) MATCH p = allShortestPaths((a)-[:NEXT*]->(b)) RETURN count(p)",
    ),
    (
        "shortest path",
        "MATCH (a:Person), (b:Person) WHERE a.n <> b.n MATCH p = shortestPath((a)-[:NEXT*]-(b)) RETURN sum(length(p))",
    ),
    (
        "shortest path with a predicate",
        "MATCH (a:Core {n: 1}), (b:Core {n: 2}) MATCH p = shortestPath((a)-[:KNOWS*]->(b)) WHERE none(x IN nodes(p) WHERE x.n = 2) RETURN p",
    ),
    (
        "k shortest",
        "MATCH (a:Core {n: 1}), (b:Core {n: 2}) MATCH p = SHORTEST 100000000 (a)-[:KNOWS]->+(b) RETURN count(p)",
    ),
    (
        "filter",
        "UNWIND range(1, 4000000000) AS n WITH n WHERE n < 0 RETURN n",
    ),
    ("unwind", "UNWIND range(1, 4000000000) AS n RETURN count(n)"),
    (
        "project",
        "UNWIND range(1, 4000000000) AS n WITH toString(n) + 'x' AS text RETURN count(text)",
    ),
    (
        "skip",
        "UNWIND range(1, 4000000000) AS n RETURN n SKIP 3999999999",
    ),
    (
        "union",
        "UNWIND range(1, 4000000000) AS n WITH n WHERE n < 0 RETURN n UNION ALL UNWIND range(1, 4000000000) AS n WITH n WHERE n < 0 RETURN n",
    ),
    (
        "apply",
        "UNWIND range(1, 4000000000) AS n CALL { WITH n MATCH (p:Person) WHERE p.n = n RETURN count(p) AS c } RETURN sum(c)",
    ),
    (
        "optional match",
        "UNWIND range(1, 4000000000) AS n OPTIONAL MATCH (p:Person) WHERE p.n = -n RETURN count(p)",
    ),
    (
        "existential subquery",
        "UNWIND range(1, 4000000000) AS n WITH n WHERE EXISTS { MATCH (p:Person) WHERE p.n = -n } RETURN n",
    ),
    (
        "count subquery",
        "UNWIND range(1, 4000000000) AS n RETURN sum(COUNT { MATCH (p:Person) WHERE p.n = n })",
    ),
    (
        "pattern comprehension",
        "MATCH (a:Core) RETURN size([(a)-[:KNOWS*1..8]->(b) | b.n])",
    ),
    (
        "sort",
        "UNWIND range(1, 30000000) AS n WITH n ORDER BY toString(n % 1000003) RETURN count(n)",
    ),
    (
        "sort of long lists",
        "UNWIND range(1, 100000) AS n WITH [x IN range(1, 3000) | 1] + [n % 7] AS list ORDER BY list RETURN count(list)",
    ),
    (
        "sort, spilled",
        "UNWIND range(1, 400000000) AS n WITH n, toString(n) AS text ORDER BY n % 1000003, text RETURN count(n)",
    ),
    (
        "top",
        "UNWIND range(1, 4000000000) AS n RETURN n ORDER BY n % 1000003 LIMIT 100000",
    ),
    (
        "group",
        "UNWIND range(1, 4000000000) AS n RETURN n % 10 AS k, count(*) AS c",
    ),
    (
        "group, spilled",
        "UNWIND range(1, 400000000) AS n WITH toString(n) AS k, count(*) AS c RETURN sum(c)",
    ),
    (
        "collect and percentile",
        "UNWIND range(1, 4000000000) AS n RETURN percentileCont(n % 1000, 0.5)",
    ),
    (
        "distinct",
        "UNWIND range(1, 4000000000) AS n WITH DISTINCT n % 1000 AS k RETURN count(k)",
    ),
    (
        "distinct, spilled",
        "UNWIND range(1, 400000000) AS n WITH DISTINCT toString(n) AS k RETURN count(k)",
    ),
    (
        "range",
        "UNWIND range(1, 1000000) AS i RETURN sum(size(range(1, 5000000)))",
    ),
    (
        "list comprehension",
        "RETURN size([x IN range(1, 20000000) WHERE size([y IN range(1, 50) | y * x]) < 0 | x])",
    ),
    (
        "reduce",
        "RETURN reduce(s = 0, x IN range(1, 20000000) | s + size([y IN range(1, 50) | y]) % 7)",
    ),
    (
        "quantifier",
        "RETURN all(x IN range(1, 20000000) WHERE any(y IN range(1, 50) WHERE y > 49))",
    ),
    (
        "growing list",
        "RETURN size(reduce(l = [], x IN range(1, 1000000) | l + x))",
    ),
    (
        "in a long list",
        "UNWIND range(1, 1000000) AS n WITH n WHERE n IN [x IN range(1, 20000) | x + n + 1] RETURN count(n)",
    ),
    (
        "regular expression",
        "UNWIND range(1, 100000000) AS n WITH n WHERE ('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa' + toString(n)) =~ '(a|aa)*(b|c)' RETURN n",
    ),
    (
        "long text, regular expression",
        "WITH reduce(t = 'ab', i IN range(1, 20) | t + t) AS text UNWIND range(1, 1000) AS n WITH text, n WHERE text =~ '((a|b)?(a|b)?(a|b)?)*(x|y)' + n RETURN count(*)",
    ),
    (
        "procedure",
        "UNWIND range(1, 1000000) AS n CALL kv.scan('pairs', '', '~') YIELD key RETURN count(key)",
    ),
    (
        "algorithm",
        "UNWIND range(1, 100000) AS i CALL algo.betweenness({}) YIELD node, score RETURN count(*)",
    ),
    (
        "create",
        "UNWIND range(1, 400000000) AS n CREATE (:New {n: n}) RETURN count(*)",
    ),
    (
        "merge",
        "UNWIND range(1, 400000000) AS n MERGE (x:Merged {n: n % 100000}) RETURN count(*)",
    ),
    (
        "set",
        "UNWIND range(1, 400000000) AS i MATCH (p:Person {n: i % 3000}) SET p.i = i RETURN count(*)",
    ),
    (
        "foreach",
        "FOREACH (i IN range(1, 400000000) | CREATE (:New {i: i}))",
    ),
    (
        "delete",
        "UNWIND range(1, 1000000) AS i MATCH (p:Person) WITH p, i DETACH DELETE p RETURN count(i)",
    ),
    (
        "kv.put",
        "UNWIND range(1, 400000000) AS i CALL kv.put('many', toString(i), i) RETURN count(*)",
    ),
];

/// Completeness: none of the statements above may be rejected as unknown.
fn network() -> Database {
    let db = place::open_empty().unwrap();
    db.query("UNWIND range(1, 3000) AS n CREATE (:Person {n: n, same: 1})")
        .unwrap();
    db.query("CREATE INDEX FOR (p:Person) ON (p.n)").unwrap();
    db.query("MATCH (a:Person) UNWIND [1, 2] AS step MATCH (b:Person {n: a.n + step}) CREATE (a)-[:NEXT]->(b)")
    .unwrap();
    db.query("UNWIND range(1, 40) AS n CREATE (:Core {n: n})")
        .unwrap();
    db.query("MATCH (a:Core), (b:Core) WHERE a.n <> b.n CREATE (a)-[:KNOWS]->(b)")
        .unwrap();
    db.query("UNWIND range(1, 2000) AS n CALL kv.put('pairs', toString(n), n) RETURN count(*)")
        .unwrap();
    db
}

fn options() -> QueryOptions {
    let mut limits = Limits::default();
    limits.memory_bytes = 256 << 20;
    limits.time = None;
    QueryOptions::new().limits(limits)
}

/// Runs a statement until it is cancelled after `delay`: its outcome, and how long it took to stop.
fn cancelled(db: &Database, statement: &str, delay: Duration) -> (Result<(), Error>, Duration) {
    let cancel = CancelHandle::new();
    let options = options().cancel(cancel.clone());
    let (sender, receiver) = channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let transaction = db.begin().unwrap();
            let outcome = transaction
                .query(Query::new(statement).options(&options))
                .map(drop);
            sender.send((outcome, Instant::now())).unwrap();
            // Only the statement is rolled back: its transaction remains usable.
            let rest = transaction.query("MATCH (p:Person) RETURN count(p) AS c");
            assert_eq!(
                rest.unwrap().deserialize::<i64>().unwrap(),
                [3000],
                "{statement}"
            );
        });
        // In the middle of the statement, which takes far longer.
        std::thread::sleep(delay);
        let asked = Instant::now();
        cancel.cancel();
        let (outcome, ended) = receiver.recv().unwrap();
        (outcome, ended.saturating_duration_since(asked))
    })
}

/// Other tests run concurrently: late ones are tried again when the machine may be less busy.
const ATTEMPTS: usize = 4;

#[test]
fn every_operator_stops_within_a_second() {
    let db = network();
    let (mut late, mut wrong) = (Vec::new(), Vec::new());
    for (name, statement) in LONG {
        let mut took = Vec::new();
        for attempt in 0..ATTEMPTS {
            let (outcome, time) = cancelled(&db, statement, Duration::from_millis(150));
            match outcome {
                Err(error) if error.kind() == ErrorKind::Cancelled => {}
                // Some use up their memory before they are cancelled.
                Err(error)
                    if error.kind() == ErrorKind::Limit && error.to_string().contains("memory") => {
                }
                other => {
                    wrong.push(format!("{name}: {other:?}"));
                    break;
                }
            }
            took.push(time);
            if time <= Duration::from_secs(1) {
                break;
            }
            if time > Duration::from_millis(500) {
                eprintln!("{name}: {time:?}");
            }
            if attempt + 1 == ATTEMPTS {
                late.push(format!("{name}: {took:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "not cancelled: {wrong:#?}");
    assert!(late.is_empty(), "too late: {late:#?}");
    let spilled = db.store().unwrap().spill_folder().open_files();
    assert_eq!(spilled, 0);
}

#[test]
fn every_operator_keeps_its_time_limit() {
    let db = network();
    for (name, statement) in LONG.iter().step_by(3) {
        let options = options().time_limit(Duration::from_millis(100));
        let transaction = db.begin().unwrap();
        let error = transaction
            .query(Query::new(statement).options(&options))
            .map(drop)
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Limit, "{name}: {error}");
    }
}

/// Building an index or a constraint stops, too, and leaves none.
#[test]
fn an_index_is_made_whole_or_not_at_all() {
    let db = place::open_empty().unwrap();
    for _ in 0..4 {
        db.query("UNWIND range(1, 10000) AS n CREATE (:Item {n: n, text: toString(n)})")
            .unwrap();
    }
    for statement in [
        "CREATE INDEX items FOR (i:Item) ON (i.text)",
        "CREATE CONSTRAINT items FOR (i:Item) REQUIRE i.n IS NOT NULL",
    ] {
        let cancel = CancelHandle::new();
        cancel.cancel();
        let asked = Instant::now();
        let error = db
            .query(Query::new(statement).options(&QueryOptions::new().cancel(cancel)))
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Cancelled, "{statement}: {error}");
        assert!(asked.elapsed() < Duration::from_secs(5));
        let error = db
            .query(
                Query::new(statement)
                    .options(&QueryOptions::new().time_limit(Duration::from_micros(1))),
            )
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Limit, "{statement}: {error}");
        db.query(statement).unwrap();
        let drop = statement
            .split(" FOR")
            .next()
            .unwrap()
            .replace("CREATE", "DROP");
        db.query(&drop).unwrap();
    }
}
