//! The public API as its users meet it.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use isomer_db::{
    CancelHandle, Database, Durability, EngineKind, Error, ErrorKind, Map, Phase, QueryOptions,
    Value, from_value, params, to_map, to_value,
};
use serde::{Deserialize, Serialize};

fn memory() -> Database {
    Database::open_in_memory().expect("a database in memory")
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
    db.query("CREATE (n:All) SET n = $all", params! { "all" => map })
        .expect("it is stored");
    #[derive(Deserialize)]
    struct Part {
        large: i64,
        kinds: Vec<Kind>,
        none: Option<u32>,
    }
    let part: Part = db
        .query("MATCH (n:All) RETURN n", ())
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
fn what_does_not_fit_is_refused() {
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
        .query(
            "UNWIND [1, 2] AS a RETURN a, toString(a) AS b, null AS c",
            (),
        )
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
        db.query("UNWIND [] AS x RETURN x", ())
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
    db.query(
        "UNWIND range(1, 20) AS n CREATE (:N {_key: n, half: n / 2.0, name: 'n' + n})",
        (),
    )
    .expect("nodes");
    for n in 1..=20 {
        let found = db
            .query(
                &format!("MATCH (x:N) WHERE x._key = {n} AND x.half >= 0.5 RETURN x.name AS name"),
                (),
            )
            .expect("a row");
        assert_eq!(
            found.deserialize::<String>().expect("names"),
            [format!("n{n}")]
        );
    }
    // A parameter of one's own beside the literals.
    let found = db
        .query(
            "MATCH (x:N {_key: 3}) WHERE x.name = $name RETURN x.half AS half",
            [("name", "n3")],
        )
        .expect("a row");
    assert_eq!(
        found
            .single()
            .expect("one")
            .get::<f64>("half")
            .expect("a float"),
        1.5
    );
    // Columns keep the text that was written.
    assert_eq!(
        db.query("RETURN 1 + 1", ()).expect("a row").columns()[0].as_ref(),
        "1 + 1"
    );
    assert_eq!(
        db.query("RETURN 1 + 2", ())
            .expect("a row")
            .single()
            .expect("one")
            .get::<i64>("1 + 2")
            .expect("a sum"),
        3
    );
    // Errors tell places of the text that was written.
    let error = db
        .query("MATCH (x:N) WHERE x._key = 7 RETURN y", ())
        .expect_err("no such variable");
    assert!(error.to_string().contains("line 1, column 37"), "{error}");
}

#[test]
fn a_plan_is_made_again_when_the_schema_changes() {
    let db = memory();
    let query = "MATCH (p:P {name: 'b'}) RETURN p._key AS key";
    let prepared = db.prepare(query).expect("a plan");
    db.query("UNWIND range(1, 2000) AS n CREATE (:P {_key: n, name: CASE n WHEN 7 THEN 'b' ELSE 'a' END})", ()).expect("nodes");
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
            db.query(query, ())
                .expect("rows")
                .deserialize::<i64>()
                .expect("keys"),
            [7]
        );
        let _ = db
            .query("CREATE INDEX names IF NOT EXISTS FOR (p:P) ON (p.name)", ())
            .expect("an index");
    }
    let plan = db.query(&format!("EXPLAIN {query}"), ()).expect("a plan");
    assert!(
        plan.plan().is_some_and(|plan| plan.contains("Index")),
        "{:?}",
        plan.plan()
    );
    db.query("DROP INDEX names", ()).expect("no index");
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
fn transact_runs_again_until_nobody_was_faster() {
    let db = Database::builder()
        .max_retries(10_000)
        .open_in_memory()
        .expect("a database");
    db.query("CREATE (:Counter {_key: 'c', n: 0})", ())
        .expect("a counter");
    let attempts = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..25 {
                    db.transact(|tx| {
                        attempts.fetch_add(1, Ordering::Relaxed);
                        tx.query("MATCH (c:Counter {_key: 'c'}) SET c.n = c.n + 1", ())
                    })
                    .expect("it succeeds in the end");
                }
            });
        }
    });
    let n: u32 = db
        .query("MATCH (c:Counter) RETURN c.n AS n", ())
        .expect("a row")
        .single()
        .expect("one")
        .get("n")
        .expect("a number");
    assert_eq!(n, 100);
    assert!(attempts.load(Ordering::Relaxed) >= 100);
}

#[test]
fn a_lost_race_is_of_kind_retry_when_nobody_runs_it_again() {
    let db = memory();
    db.query("CREATE (:C {_key: 'c', n: 0})", ())
        .expect("a node");
    let add = "MATCH (c:C {_key: 'c'}) SET c.n = c.n + 1";
    let (mut first, mut second) = (
        db.begin().expect("a transaction"),
        db.begin().expect("a transaction"),
    );
    first.query(add, ()).expect("a change");
    second.query(add, ()).expect("a change");
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
            tx.query("CREATE (:A)", ())?;
            tx.bucket("b").put("k", "v")?;
            Err::<(), _>(Error::invalid("changed my mind"))
        })
        .expect_err("the body's error");
    assert_eq!(error.message(), "changed my mind");
    assert!(
        db.query("MATCH (a:A) RETURN a", ())
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
        tx.query("CREATE (:A {n: 1})", ())?;
        let error = tx
            .query("UNWIND [1, 0] AS d CREATE (:A {n: 1 / d})", ())
            .expect_err("a division by zero");
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert_eq!(
            error.query_error().map(|query| (query.phase, query.class)),
            Some((Phase::Run, "ArithmeticError"))
        );
        assert_eq!(
            tx.query("MATCH (a:A) RETURN a", ())?.len(),
            1,
            "what the failed query made is undone"
        );
        Ok::<_, Error>(())
    })
    .expect("the rest is committed");
    assert_eq!(db.query("MATCH (a:A) RETURN a", ()).expect("rows").len(), 1);
}

#[test]
fn reading_transactions_refuse_writes_and_see_one_version() {
    let db = memory();
    db.query("CREATE (:A)", ()).expect("a node");
    let mut reading = db.begin_read().expect("a transaction");
    db.query("CREATE (:A)", ()).expect("a node");
    let count = |tx: &mut isomer_db::Transaction| {
        tx.query("MATCH (a:A) RETURN count(a) AS n", ())
            .expect("a row")
            .single()
            .expect("one")
            .get::<u8>("n")
            .expect("a number")
    };
    assert_eq!(count(&mut reading), 1);
    assert_eq!(
        reading
            .query("CREATE (:A)", ())
            .expect_err("it only reads")
            .kind(),
        ErrorKind::Denied
    );
    assert_eq!(count(&mut db.begin_read().expect("a transaction")), 2);
}

#[test]
fn a_stream_that_is_dropped_leaves_no_trace() {
    let db = memory();
    let mut stream = db
        .stream(
            "UNWIND range(1, 10) AS n CREATE (a:A {n: n}) RETURN a.n AS n",
            (),
        )
        .expect("a stream");
    assert!(stream.next().expect("a row").is_ok());
    drop(stream);
    assert!(
        db.query("MATCH (a:A) RETURN a", ())
            .expect("rows")
            .is_empty()
    );
    let stream = db
        .stream(
            "UNWIND range(1, 10) AS n CREATE (a:A {n: n}) RETURN a.n AS n",
            (),
        )
        .expect("a stream");
    assert_eq!(stream.filter(|row| row.is_ok()).count(), 10);
    assert_eq!(
        db.query("MATCH (a:A) RETURN a", ()).expect("rows").len(),
        10
    );
}

#[test]
fn a_query_stops_within_a_second_of_being_cancelled() {
    let db = memory();
    let handle = CancelHandle::new();
    let (cancel, start) = (handle.clone(), Instant::now());
    let waiting = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        cancel.cancel();
    });
    let options = QueryOptions::new().cancel(handle);
    let error = db
        .query_with(
            "UNWIND range(1, 1000000) AS a UNWIND range(1, 1000000) AS b RETURN count(*)",
            (),
            &options,
        )
        .expect_err("it is stopped");
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    assert!(
        start.elapsed() < Duration::from_millis(1_200),
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
        other.query(
            "UNWIND range(1, 1000000) AS a UNWIND range(1, 1000000) AS b RETURN count(*)",
            (),
        )
    });
    let id = (0..500)
        .find_map(|_| {
            std::thread::sleep(Duration::from_millis(10));
            let running = db.query("SHOW QUERIES", ()).expect("a list");
            let found = running.iter().find(|row| {
                row.get::<String>("text")
                    .is_ok_and(|text| text.starts_with("UNWIND"))
            })?;
            found.get::<u64>("id").ok()
        })
        .expect("it is listed");
    db.query(&format!("KILL QUERY {id}"), ())
        .expect("it is there");
    assert_eq!(
        work.join()
            .expect("no panic")
            .expect_err("it is stopped")
            .kind(),
        ErrorKind::Cancelled
    );
    assert!(!db.cancel_query(id));
    assert_eq!(
        db.query("KILL QUERY 0", ())
            .expect_err("no such query")
            .kind(),
        ErrorKind::NotFound
    );
}

#[test]
fn a_closed_database_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let db = Database::open(folder.path().join("db")).expect("a database");
    let prepared = db.prepare("RETURN 1").expect("a plan");
    let mut under_way = db.begin().expect("a transaction");
    db.close().expect("it closes");
    db.close().expect("twice is no error");
    for error in [
        db.query("RETURN 1", ()).expect_err("closed"),
        prepared.query(()).expect_err("closed"),
        db.begin().map(|_| ()).expect_err("closed"),
        db.sync().expect_err("closed"),
        db.transact(|_| Ok::<_, Error>(())).expect_err("closed"),
    ] {
        assert_eq!(error.kind(), ErrorKind::Closed);
    }
    under_way
        .query("CREATE (:A)", ())
        .map(|_| ())
        .unwrap_or_else(|error| assert_eq!(error.kind(), ErrorKind::Closed));
    drop(under_way);
    let again =
        Database::open(folder.path().join("db")).expect("it opens again in the same process");
    assert!(
        again
            .query("MATCH (a:A) RETURN a", ())
            .expect("rows")
            .is_empty()
    );
}

#[test]
fn what_is_not_there_is_not_made_unless_asked() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("nothing");
    assert!(Database::builder().create(false).open(&path).is_err());
    assert!(Database::builder().read_only(true).open(&path).is_err());
    assert!(!path.exists());
    let db = Database::builder()
        .durability(Durability::Buffered)
        .engine(EngineKind::Redb)
        .open(&path)
        .expect("it is made");
    db.query("CREATE (:A)", ()).expect("a node");
    db.close().expect("it closes");
    drop(db);
    let db = Database::builder()
        .read_only(true)
        .open(&path)
        .expect("it opens");
    assert_eq!(db.query("MATCH (a:A) RETURN a", ()).expect("rows").len(), 1);
    assert_eq!(
        db.query("CREATE (:A)", ())
            .expect_err("it only reads")
            .kind(),
        ErrorKind::Denied
    );
}

#[test]
fn a_result_is_as_large_as_its_limit_allows() {
    let db = memory();
    let mut limits = isomer_db::Limits::default();
    limits.memory_bytes = 1 << 20;
    let error = db
        .query_with(
            "UNWIND range(1, 1000000) AS n RETURN 'text ' + n AS t",
            (),
            &QueryOptions::new().limits(limits.clone()),
        )
        .expect_err("too large");
    assert_eq!(error.kind(), ErrorKind::Limit);
    let count = db
        .stream_with(
            "UNWIND range(1, 100000) AS n RETURN 'text ' + n AS t",
            (),
            &QueryOptions::new().limits(limits),
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
        tx.query(
            "MATCH (u:User {_key: 'ada'}) CREATE (u)-[:OWNS]->(:Thing {n: 1})",
            (),
        )?;
        Ok::<_, Error>(())
    })
    .expect("all three");
    let row = db.query("MATCH (u:User {_key: kv.get('sessions', 's')})-[:OWNS]->(t) RETURN t.n AS n, u.tags AS tags", ()).expect("a row");
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
        db.transact(|tx| tx.collection("User").replace("nobody", &Map::new()))
            .expect_err("nobody")
            .kind(),
        ErrorKind::NotFound
    );
    let scanned = db
        .query(
            "CALL kv.scan('sessions') YIELD key, value RETURN key, value",
            (),
        )
        .expect("rows");
    assert_eq!(
        scanned.deserialize::<(String, String)>().expect("pairs"),
        [("s".into(), "ada".into())]
    );
    db.query("CALL kv.put('sessions', 's', null)", ())
        .expect("it is taken out");
    assert!(
        db.query("CALL kv.scan('sessions') YIELD key RETURN key", ())
            .expect("rows")
            .is_empty()
    );
}

#[test]
fn missing_parameters_and_syntax_errors_are_told_before_anything_runs() {
    let db = memory();
    let missing = db
        .query("CREATE (:A {x: $x})", ())
        .expect_err("no value for x");
    assert_eq!(missing.kind(), ErrorKind::Invalid);
    assert!(missing.message().contains("$x"), "{missing}");
    let syntax = db
        .query("MATCH (n)\nRETRUN n", ())
        .expect_err("a slip of the pen");
    assert_eq!(
        syntax.query_error().map(|query| (query.phase, query.class)),
        Some((Phase::Prepare, "SyntaxError"))
    );
    assert!(
        syntax.to_string().contains("line 2, column 1") && syntax.to_string().contains("RETURN"),
        "{syntax}"
    );
    assert!(db.query("", ()).is_err());
    assert!(db.query(&"(".repeat(100_000), ()).is_err());
}

/// The engine's cache, queries and loads take their parts of one budget, which databases can share, and give them back.
#[test]
fn one_budget_of_memory() {
    use isomer_db::{Memory, MemoryKind};

    let folder = tempfile::tempdir().unwrap();
    let memory = Memory::new(64 << 20);
    let open = |name: &str| {
        Database::builder()
            .shared_memory(&memory)
            .open(folder.path().join(name))
    };
    let first = open("first").unwrap();
    let cache = || memory.usage(MemoryKind::EngineCache).used_bytes;
    assert_eq!(cache(), 16 << 20);
    let second = open("second").unwrap();
    // A quarter of what the first one left.
    assert_eq!(cache(), 28 << 20);
    assert_eq!(second.memory().unwrap().used_bytes(), 28 << 20);
    first.close().unwrap();
    second.close().unwrap();
    assert_eq!(memory.used_bytes(), 0);

    let too_large = Database::builder()
        .shared_memory(&memory)
        .cache_bytes(65 << 20)
        .open(folder.path().join("third"))
        .unwrap_err();
    assert_eq!(too_large.kind(), ErrorKind::Limit);
    let too_small = Database::builder().memory(1 << 20).open_in_memory();
    assert_eq!(too_small.unwrap_err().kind(), ErrorKind::Invalid);
}
