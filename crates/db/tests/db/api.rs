//! The public API from the user's point of view.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use isomer_db::{
    CancelHandle, Database, Durability, EngineKind, Error, ErrorKind, Map, Phase, Query,
    QueryOptions, Value, from_value, params, to_map, to_value,
};
use serde::{Deserialize, Serialize};

use crate::place::{self, Opening as _};

fn memory() -> Database {
    place::open_empty().expect("a database in memory")
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
enum Kind {
    Plain,
    Named(String),
    Pair(u8, u8),
    Fields { x: f64 },
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
struct Everything {
    truth: bool,
    small: u8,
    large: i64,
    float: f64,
    text: String,
    character: char,
    none: Option<u32>,
    some: Option<u32>,
    list: Vec<i32>,
    pair: (u8, String),
    map: std::collections::BTreeMap<String, i32>,
    kinds: Vec<Kind>,
    unit: (),
}

#[test]
fn structures_become_values_and_come_back() {
    let everything = Everything {
        truth: true,
        small: 255,
        large: i64::MIN,
        float: 0.1,
        text: "ä\u{0}b".into(),
        character: 'ß',
        none: None,
        some: Some(7),
        list: vec![-1, 0, 1],
        pair: (1, "x".into()),
        map: [("a".to_owned(), 1)].into(),
        kinds: vec![
            Kind::Plain,
            Kind::Named("n".into()),
            Kind::Pair(1, 2),
            Kind::Fields { x: 2.5 },
        ],
        unit: (),
    };
    let value = to_value(&everything).expect("a value");
    assert_eq!(
        from_value::<Everything>(&value).expect("it comes back"),
        everything
    );
    // Through a node and back.
    let db = memory();
    let mut map = to_map(&everything).expect("a map");
    map.remove("unit");
    db.query(("CREATE (n:All) SET n = $all", params! { "all" => map }))
        .expect("it is stored");
    #[derive(Deserialize)]
    struct Part {
        large: i64,
        kinds: Vec<Kind>,
        none: Option<u32>,
    }
    let part: Part = db
        .query("MATCH (n:All) RETURN n")
        .expect("a row")
        .single()
        .expect("one")
        .deserialize()
        .expect("it fits");
    assert_eq!(
        (part.large, part.kinds, part.none),
        (i64::MIN, everything.kinds, None)
    );
}

#[test]
fn values_that_do_not_fit_are_refused() {
    assert_eq!(
        to_value(&u64::MAX).expect_err("too large").kind(),
        ErrorKind::Invalid
    );
    assert_eq!(
        from_value::<u8>(&Value::Int(256))
            .expect_err("too large")
            .kind(),
        ErrorKind::Invalid
    );
    assert_eq!(
        from_value::<i64>(&Value::Float(1.5))
            .expect_err("no integer")
            .kind(),
        ErrorKind::Invalid
    );
    assert!(
        from_value::<f64>(&Value::Int((1 << 53) + 1)).is_err(),
        "it would be rounded"
    );
    assert_eq!(
        from_value::<f64>(&Value::Int(1 << 53)).expect("exact"),
        9_007_199_254_740_992.0
    );
    // A list within a list, 200 deep.
    #[derive(Serialize)]
    struct Deep(Vec<Deep>);
    let deep = (0..200).fold(Deep(Vec::new()), |inner, _| Deep(vec![inner]));
    assert!(
        to_value(&deep)
            .expect_err("too deep")
            .message()
            .contains("128")
    );
}

#[test]
fn rows_are_read_by_name_by_order_and_as_structures() {
    let db = memory();
    let result = db
        .query("UNWIND [1, 2] AS a RETURN a, toString(a) AS b, null AS c")
        .expect("rows");
    assert_eq!(
        result
            .columns()
            .iter()
            .map(AsRef::as_ref)
            .collect::<Vec<_>>(),
        ["a", "b", "c"]
    );
    assert_eq!(
        result
            .deserialize::<(i64, String, Option<u8>)>()
            .expect("tuples"),
        [(1, "1".into(), None), (2, "2".into(), None)]
    );
    #[derive(Deserialize, PartialEq, Debug)]
    struct Line {
        b: String,
        a: u8,
    }
    assert_eq!(
        result.deserialize::<Line>().expect("structures")[1],
        Line {
            b: "2".into(),
            a: 2
        }
    );
    assert_eq!(
        result.rows()[0]
            .get::<u8>("nosuch")
            .expect_err("no column")
            .kind(),
        ErrorKind::NotFound
    );
    assert_eq!(
        result.rows()[0]
            .get::<bool>("a")
            .expect_err("no boolean")
            .kind(),
        ErrorKind::Invalid
    );
    assert_eq!(
        result.single().expect_err("two rows").kind(),
        ErrorKind::Invalid
    );
    assert_eq!(
        db.query("UNWIND [] AS x RETURN x")
            .expect("rows")
            .single()
            .expect_err("no row")
            .kind(),
        ErrorKind::NotFound
    );
}

#[test]
fn literals_share_a_plan_and_keep_their_values() {
    let db = memory();
    db.query("UNWIND range(1, 20) AS n CREATE (:N {_key: n, half: n / 2.0, name: 'n' + n})")
        .expect("nodes");
    for n in 1..=20 {
        let found = db
            .query(&format!(
                "MATCH (x:N) WHERE x._key = {n} AND x.half >= 0.5 RETURN x.name AS name"
            ))
            .expect("a row");
        assert_eq!(
            found.deserialize::<String>().expect("names"),
            [format!("n{n}")]
        );
    }
    // A parameter in addition to the literals.
    let found = db
        .query((
            "MATCH (x:N {_key: 3}) WHERE x.name = $name RETURN x.half AS half",
            [("name", "n3")],
        ))
        .expect("a row");
    assert_eq!(
        found
            .single()
            .expect("one")
            .get::<f64>("half")
            .expect("a float"),
        1.5
    );
    // Column names are the source text.
    assert_eq!(
        db.query("RETURN 1 + 1").expect("a row").columns()[0].as_ref(),
        "1 + 1"
    );
    assert_eq!(
        db.query("RETURN 1 + 2")
            .expect("a row")
            .single()
            .expect("one")
            .get::<i64>("1 + 2")
            .expect("a sum"),
        3
    );
    // Errors give positions in the source text.
    let error = db
        .query("MATCH (x:N) WHERE x._key = 7 RETURN y")
        .expect_err("no such variable");
    assert!(error.to_string().contains("line 1, column 37"), "{error}");
}

#[test]
fn a_plan_is_made_again_when_the_schema_changes() {
    let db = memory();
    let query = "MATCH (p:P {name: 'b'}) RETURN p._key AS key";
    let prepared = db.prepare(query).expect("a plan");
    db.query("UNWIND range(1, 2000) AS n CREATE (:P {_key: n, name: CASE n WHEN 7 THEN 'b' ELSE 'a' END})").expect("nodes");
    for _ in 0..2 {
        assert_eq!(
            prepared
                .query(())
                .expect("rows")
                .deserialize::<i64>()
                .expect("keys"),
            [7]
        );
        assert_eq!(
            db.query(query)
                .expect("rows")
                .deserialize::<i64>()
                .expect("keys"),
            [7]
        );
        let _ = db
            .query("CREATE INDEX names IF NOT EXISTS FOR (p:P) ON (p.name)")
            .expect("an index");
    }
    let plan = db.query(&format!("EXPLAIN {query}")).expect("a plan");
    assert!(
        plan.plan().is_some_and(|plan| plan.contains("Index")),
        "{:?}",
        plan.plan()
    );
    db.query("DROP INDEX names").expect("no index");
    assert_eq!(
        prepared
            .query(())
            .expect("rows")
            .deserialize::<i64>()
            .expect("keys"),
        [7]
    );
}

#[test]
fn transact_retries_until_there_is_no_conflict() {
    let db = Database::builder()
        .max_retries(10_000)
        .open_empty()
        .expect("a database");
    db.query("CREATE (:Counter {_key: 'c', n: 0})")
        .expect("a counter");
    let attempts = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..25 {
                    db.transact(|tx| {
                        attempts.fetch_add(1, Ordering::Relaxed);
                        tx.query("MATCH (c:Counter {_key: 'c'}) SET c.n = c.n + 1")
                    })
                    .expect("it succeeds in the end");
                }
            });
        }
    });
    let n: u32 = db
        .query("MATCH (c:Counter) RETURN c.n AS n")
        .expect("a row")
        .single()
        .expect("one")
        .get("n")
        .expect("a number");
    assert_eq!(n, 100);
    assert!(attempts.load(Ordering::Relaxed) >= 100);
}

#[test]
fn a_conflict_without_retries_has_the_kind_retry() {
    let db = memory();
    db.query("CREATE (:C {_key: 'c', n: 0})").expect("a node");
    let add = "MATCH (c:C {_key: 'c'}) SET c.n = c.n + 1";
    let (first, second) = (
        db.begin().expect("a transaction"),
        db.begin().expect("a transaction"),
    );
    first.query(add).expect("a change");
    second.query(add).expect("a change");
    first.commit().expect("the first wins");
    assert_eq!(
        second.commit().expect_err("the second loses").kind(),
        ErrorKind::Retry
    );
}

#[test]
fn errors_of_the_body_undo_everything() {
    let db = memory();
    let error = db
        .transact(|tx| {
            tx.query("CREATE (:A)")?;
            tx.bucket("b").put("k", "v")?;
            Err::<(), _>(Error::invalid("changed my mind"))
        })
        .expect_err("the body's error");
    assert_eq!(error.message(), "changed my mind");
    assert!(
        db.query("MATCH (a:A) RETURN a")
            .expect("no rows")
            .is_empty()
    );
    assert_eq!(
        db.begin_read()
            .expect("a transaction")
            .bucket("b")
            .get("k")
            .expect("no value"),
        None
    );
}

#[test]
fn a_failed_query_leaves_the_transaction_usable() {
    let db = memory();
    db.transact(|tx| {
        tx.query("CREATE (:A {n: 1})")?;
        let error = tx
            .query("UNWIND [1, 0] AS d CREATE (:A {n: 1 / d})")
            .expect_err("a division by zero");
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert_eq!(
            error.query_error().map(|query| (query.phase, query.class)),
            Some((Phase::Run, "ArithmeticError"))
        );
        assert_eq!(
            tx.query("MATCH (a:A) RETURN a")?.len(),
            1,
            "what the failed query made is undone"
        );
        Ok(())
    })
    .expect("the rest is committed");
    assert_eq!(db.query("MATCH (a:A) RETURN a").expect("rows").len(), 1);
}

#[test]
fn reading_transactions_refuse_writes_and_see_one_version() {
    let db = memory();
    db.query("CREATE (:A)").expect("a node");
    let reading = db.begin_read().expect("a transaction");
    db.query("CREATE (:A)").expect("a node");
    let count = |tx: &isomer_db::ReadTransaction| {
        tx.query("MATCH (a:A) RETURN count(a) AS n")
            .expect("a row")
            .single()
            .expect("one")
            .get::<u8>("n")
            .expect("a number")
    };
    assert_eq!(count(&reading), 1);
    assert_eq!(
        reading
            .query("CREATE (:A)")
            .expect_err("it only reads")
            .kind(),
        ErrorKind::Denied
    );
    assert_eq!(count(&db.begin_read().expect("a transaction")), 2);
}

#[test]
fn a_stream_that_is_dropped_leaves_no_trace() {
    let db = memory();
    let mut stream = db
        .stream("UNWIND range(1, 10) AS n CREATE (a:A {n: n}) RETURN a.n AS n")
        .expect("a stream");
    assert!(stream.next().expect("a row").is_ok());
    drop(stream);
    assert!(db.query("MATCH (a:A) RETURN a").expect("rows").is_empty());
    let stream = db
        .stream("UNWIND range(1, 10) AS n CREATE (a:A {n: n}) RETURN a.n AS n")
        .expect("a stream");
    assert_eq!(stream.filter(|row| row.is_ok()).count(), 10);
    assert_eq!(db.query("MATCH (a:A) RETURN a").expect("rows").len(), 10);
}

#[test]
fn a_query_stops_soon_after_its_cancellation() {
    let db = memory();
    let handle = CancelHandle::new();
    let (cancel, start) = (handle.clone(), Instant::now());
    let waiting = std::thread::spawn(move || {
        // In the middle of the query, which would take hours.
        std::thread::sleep(Duration::from_millis(200));
        cancel.cancel();
    });
    let options = QueryOptions::new().cancel(handle);
    let error = db
        .query(
            Query::new(
                "UNWIND range(1, 1000000) AS a UNWIND range(1, 1000000) AS b RETURN count(*)",
            )
            .options(&options),
        )
        .expect_err("it is stopped");
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    assert!(
        start.elapsed() < Duration::from_secs(10),
        "{:?}",
        start.elapsed()
    );
    waiting.join().expect("the thread ends");
}

#[test]
fn running_queries_are_listed_and_can_be_stopped_by_number() {
    let db = memory();
    let other = db.clone();
    let work = std::thread::spawn(move || {
        other.query("UNWIND range(1, 1000000) AS a UNWIND range(1, 1000000) AS b RETURN count(*)")
    });
    let id = (0..500)
        .find_map(|_| {
            // The other thread may not have begun it yet.
            std::thread::sleep(Duration::from_millis(10));
            let running = db.query("SHOW QUERIES").expect("a list");
            let found = running.iter().find(|row| {
                row.get::<String>("text")
                    .is_ok_and(|text| text.starts_with("UNWIND"))
            })?;
            found.get::<u64>("id").ok()
        })
        .expect("it is listed");
    db.query(&format!("KILL QUERY {id}")).expect("it is there");
    assert_eq!(
        work.join()
            .expect("no panic")
            .expect_err("it is stopped")
            .kind(),
        ErrorKind::Cancelled
    );
    assert!(!db.cancel_query(id));
    assert_eq!(
        db.query("KILL QUERY 0").expect_err("no such query").kind(),
        ErrorKind::NotFound
    );
}

#[test]
fn a_closed_database_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let db = place::open(folder.path().join("db")).expect("a database");
    let prepared = db.prepare("RETURN 1").expect("a plan");
    let under_way = db.begin().expect("a transaction");
    db.close().expect("it closes");
    db.close().expect("closing twice is accepted");
    for error in [
        db.query("RETURN 1").expect_err("closed"),
        prepared.query(()).expect_err("closed"),
        db.begin().map(|_| ()).expect_err("closed"),
        db.sync().expect_err("closed"),
        db.transact(|_| Ok(())).expect_err("closed"),
    ] {
        assert_eq!(error.kind(), ErrorKind::Closed);
    }
    under_way
        .query("CREATE (:A)")
        .map(|_| ())
        .unwrap_or_else(|error| assert_eq!(error.kind(), ErrorKind::Closed));
    drop(under_way);
    let again = place::open(folder.path().join("db")).expect("it opens again in the same process");
    assert!(
        again
            .query("MATCH (a:A) RETURN a")
            .expect("rows")
            .is_empty()
    );
}

#[test]
fn a_missing_database_is_not_created_unless_requested() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("nothing");
    assert!(Database::builder().create(false).open(&path).is_err());
    assert!(Database::builder().read_only(true).open(&path).is_err());
    assert!(!path.exists());
    let db = Database::builder()
        .durability(Durability::Buffered)
        .engine(EngineKind::Redb)
        .open_at(&path)
        .expect("it is made");
    db.query("CREATE (:A)").expect("a node");
    db.close().expect("it closes");
    drop(db);
    let db = Database::builder()
        .read_only(true)
        .open_at(&path)
        .expect("it opens");
    assert_eq!(db.query("MATCH (a:A) RETURN a").expect("rows").len(), 1);
    assert_eq!(
        db.query("CREATE (:A)").expect_err("it only reads").kind(),
        ErrorKind::Denied
    );
}

#[test]
fn a_result_is_as_large_as_its_limit_allows() {
    let db = memory();
    let mut limits = isomer_db::Limits::default();
    limits.memory_bytes = 1 << 20;
    let error = db
        .query(
            Query::new("UNWIND range(1, 1000000) AS n RETURN 'text ' + n AS t")
                .options(&QueryOptions::new().limits(limits.clone())),
        )
        .expect_err("too large");
    assert_eq!(error.kind(), ErrorKind::Limit);
    let count = db
        .stream(
            Query::new("UNWIND range(1, 100000) AS n RETURN 'text ' + n AS t")
                .options(&QueryOptions::new().limits(limits)),
        )
        .expect("a stream")
        .filter(|row| row.is_ok())
        .count();
    assert_eq!(count, 100_000, "a stream holds one chunk at a time");
}

#[test]
fn documents_keys_and_graph_are_one_transaction() {
    let db = memory();
    db.transact(|tx| {
        tx.bucket("sessions").put("s", "ada")?;
        tx.collection("User")
            .insert(&params! { "_key" => "ada", "tags" => to_value(&["x", "y"])? })?;
        tx.query("MATCH (u:User {_key: 'ada'}) CREATE (u)-[:OWNS]->(:Thing {n: 1})")?;
        Ok(())
    })
    .expect("all three");
    let row = db.query("MATCH (u:User {_key: kv.get('sessions', 's')})-[:OWNS]->(t) RETURN t.n AS n, u.tags AS tags").expect("a row");
    assert_eq!(
        row.single()
            .expect("one")
            .deserialize::<(u8, Vec<String>)>()
            .expect("a tuple"),
        (1, vec!["x".into(), "y".into()])
    );
    let error = db
        .transact(|tx| tx.collection("User").insert(&params! { "_key" => "ada" }))
        .expect_err("the key is taken");
    assert_eq!(error.kind(), ErrorKind::Exists);
    assert_eq!(
        db.transact(|tx| tx.collection("User").replace("unknown", &Map::new()))
            .expect_err("unknown")
            .kind(),
        ErrorKind::NotFound
    );
    let scanned = db
        .query("CALL kv.scan('sessions') YIELD key, value RETURN key, value")
        .expect("rows");
    assert_eq!(
        scanned.deserialize::<(String, String)>().expect("pairs"),
        [("s".into(), "ada".into())]
    );
    db.query("CALL kv.put('sessions', 's', null)")
        .expect("it is taken out");
    assert!(
        db.query("CALL kv.scan('sessions') YIELD key RETURN key")
            .expect("rows")
            .is_empty()
    );
}

#[test]
fn missing_parameters_and_syntax_errors_are_reported_before_anything_runs() {
    let db = memory();
    let missing = db.query("CREATE (:A {x: $x})").expect_err("no value for x");
    assert_eq!(missing.kind(), ErrorKind::Invalid);
    assert!(missing.message().contains("$x"), "{missing}");
    let syntax = db
        .query("MATCH (n)\nRETRUN n")
        .expect_err("a slip of the pen");
    assert_eq!(
        syntax.query_error().map(|query| (query.phase, query.class)),
        Some((Phase::Prepare, "SyntaxError"))
    );
    assert!(
        syntax.to_string().contains("line 2, column 1") && syntax.to_string().contains("RETURN"),
        "{syntax}"
    );
    assert!(db.query("").is_err());
    assert!(db.query(&"(".repeat(100_000)).is_err());
}

/// Databases that share a budget take little of it while they are idle, and return all of it.
#[test]
fn one_budget_of_memory() {
    use isomer_db::{Memory, MemoryKind};

    let folder = tempfile::tempdir().unwrap();
    let memory = Memory::new(64 << 20);
    let open = |name: &str| {
        Database::builder()
            .engine(EngineKind::Lsm)
            .shared_memory(&memory)
            .open_at(folder.path().join(name))
    };
    let databases: Vec<_> = (0..20).map(|at| open(&at.to_string()).unwrap()).collect();
    let idle = memory.used_bytes();
    assert!((1..=16 << 20).contains(&idle), "{idle}");
    // A transaction's writes count while it is open, and are refused if they do not fit.
    let writing = || memory.usage(MemoryKind::Writes).used_bytes;
    let write = |kib: usize| {
        let transaction = databases[7].begin().unwrap();
        let value = "x".repeat(kib << 10);
        let put = (0..16).try_for_each(|key| {
            let params = params! { "key" => key.to_string(), "value" => value.clone() };
            transaction
                .query(("CALL kv.put('b', $key, $value)", params))
                .map(drop)
        });
        put.map(|()| writing())
    };
    assert!(write(64).unwrap() >= 2 << 20);
    let error = write(4 << 10).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
    assert!(
        error.to_string().contains("raise the memory option"),
        "{error}"
    );
    assert_eq!(writing(), 0);
    for database in databases {
        database.close().unwrap();
    }
    assert_eq!(memory.used_bytes(), 0);

    let too_large = Database::builder()
        .shared_memory(&memory)
        .cache_bytes(65 << 20)
        .open_at(folder.path().join("third"))
        .unwrap_err();
    assert_eq!(too_large.kind(), ErrorKind::Limit);
    let too_small = Database::builder().memory(1 << 20).open_in_memory();
    assert_eq!(too_small.unwrap_err().kind(), ErrorKind::Invalid);
}

/// Constraints are checked at the end of a statement; each call of the API that writes is one statement. A transaction
/// conflicts if it uses a value that a concurrent one has taken.
#[test]
fn constraints_hold_for_statements_and_calls() {
    use isomer_db::SchemaError;

    let db = memory();
    db.query("CREATE CONSTRAINT owner FOR (n:R) REQUIRE n.o IS NOT NULL")
        .expect("a constraint");
    db.query("CREATE CONSTRAINT each FOR (n:R) REQUIRE n.e IS UNIQUE")
        .expect("a constraint");
    let tx = db.begin().expect("a transaction");
    let add = |tx: &isomer_db::WriteTransaction, key: &str, e: i64| {
        tx.collection("R")
            .insert(&params! { "_key" => key, "o" => 1, "e" => e })
            .expect("a record");
    };
    add(&tx, "a", 1);
    add(&tx, "b", 2);
    let refused = [
        tx.collection("R").insert(&params! { "_key" => "c" }).err(),
        tx.collection("R")
            .patch("a", &params! { "o" => Value::Null })
            .err(),
        tx.collection("R").patch("a", &params! { "e" => 2 }).err(),
        tx.query("MATCH (n:R) REMOVE n.o").err(),
    ];
    for error in refused {
        let error = error.expect("a violation");
        assert_eq!(error.schema_error(), Some(SchemaError::Violated), "{error}");
    }
    let both = tx.query("MATCH (n:R {_key: 'a'}) SET n.e = 2").unwrap_err();
    for named in ["each", "R.e = 2", "_key \"a\"", "_key \"b\""] {
        assert!(both.message().contains(named), "{both}");
    }
    tx.query("MATCH (n:R) SET n.e = n.e + 1")
        .expect("values shift");
    tx.query("MATCH (n:R) SET n.e = 5 - n.e")
        .expect("values change places");
    tx.commit().expect("a commit");
    let values = db
        .query("MATCH (n:R) RETURN n._key AS key, n.e AS e ORDER BY key")
        .expect("rows")
        .deserialize::<(String, i64)>()
        .expect("pairs");
    assert_eq!(values, [("a".to_owned(), 3), ("b".to_owned(), 2)]);

    let first = db.begin().expect("a transaction");
    let second = db.begin().expect("a transaction");
    for tx in [&first, &second] {
        tx.query("MERGE (n:R {e: 9}) ON CREATE SET n.o = 1")
            .expect("the value is free");
    }
    first.commit().expect("the first");
    assert_eq!(second.commit().unwrap_err().kind(), ErrorKind::Retry);
    assert!(db.check().run().expect("a check").is_empty());
}
