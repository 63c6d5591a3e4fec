//! Handles of a database: used by many threads, closed during other operations, opened read-only.

use std::thread;

use isomer_db::{
    Builder, CancelHandle, Database, EngineKind, Error, ErrorKind, Limits, Order, Prepared, Query,
    QueryOptions, QueryResult, ReadTransaction, Result, Row, RowStream, Sharing, Value,
    WriteTransaction, params,
};

use crate::place;

/// Runs a test on a database of each engine: in memory, and on disk.
fn on_each_engine(test: impl Fn(&Database)) {
    for engine in [EngineKind::Memory, EngineKind::Lsm, EngineKind::Redb] {
        let folder = tempfile::tempdir().unwrap();
        let builder = Database::builder().engine(engine);
        let db = match engine {
            EngineKind::Memory => builder.open_in_memory().unwrap(),
            _ => builder.open(folder.path().join("db")).unwrap(),
        };
        test(&db);
        db.close().unwrap();
    }
}

fn count(db: &Database, label: &str) -> u64 {
    let text = format!("MATCH (n:{label}) RETURN count(n) AS n");
    let result = db.query(&text).unwrap();
    result.single().unwrap().get("n").unwrap()
}

#[test]
fn handles_go_to_other_threads() {
    fn send<T: Send>() {}
    fn sync<T: Send + Sync>() {}
    sync::<Database>();
    sync::<Prepared>();
    sync::<Builder>();
    sync::<CancelHandle>();
    sync::<Error>();
    sync::<QueryResult>();
    sync::<Row>();
    send::<ReadTransaction>();
    send::<WriteTransaction>();
    send::<RowStream>();
    send::<isomer_db::RowCursor>();
}

/// Eight threads count in a node and in a bucket: no increment is lost, and both agree.
#[test]
fn transact_runs_again_until_it_wins() {
    let folder = tempfile::tempdir().unwrap();
    let db = place::open(folder.path().join("db")).unwrap();
    db.query("CREATE (:Counter {_key: 'c', n: 0})").unwrap();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..25 {
                    db.transact(|tx| {
                        tx.query("MATCH (c:Counter {_key: 'c'}) SET c.n = c.n + 1")?;
                        let numbers = tx.bucket("numbers");
                        let last = numbers.get("n")?.and_then(|n| n.as_int()).unwrap_or(0);
                        numbers.put("n", last + 1)
                    })
                    .unwrap();
                }
            });
        }
    });
    let node = db.query("MATCH (c:Counter) RETURN c.n AS n").unwrap();
    assert_eq!(node.single().unwrap().get::<i64>("n").unwrap(), 200);
    let bucket = db
        .read(|tx| tx.bucket("numbers").get("n"))
        .unwrap()
        .unwrap();
    assert_eq!(bucket.as_int(), Some(200));
}

/// Transactions begun before closing can finish, later ones are refused, and then the files are released.
#[test]
fn closing_neither_waits_nor_loses_data() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let db = place::open(&path).unwrap();
    db.query("CREATE (:Early)").unwrap();
    let prepared = db.prepare("MATCH (n) RETURN n").unwrap();
    let under_way = db.begin().unwrap();
    under_way.query("CREATE (:Late)").unwrap();
    let mut stream = db.stream("UNWIND range(1, 10000) AS n RETURN n").unwrap();
    stream.next().unwrap().unwrap();
    db.close().unwrap();
    db.close().unwrap();
    assert!(db.is_closed());
    let closed = [
        db.query("RETURN 1").err(),
        db.begin().err(),
        db.stream("RETURN 1").err(),
        prepared.query(()).err(),
        db.sync().err(),
    ];
    for error in closed {
        assert_eq!(error.unwrap().kind(), ErrorKind::Closed);
    }
    assert_eq!(
        stream
            .by_ref()
            .collect::<Result<Vec<_>, _>>()
            .unwrap()
            .len(),
        9_999
    );
    under_way.commit().unwrap();
    let in_use = Database::builder().sharing(Sharing::Exclusive).open(&path);
    drop(stream);
    drop(in_use);
    let again = place::open(&path).unwrap();
    assert_eq!((count(&again, "Early"), count(&again, "Late")), (1, 1));
}

/// Opened read-only, a database answers queries and writes nothing.
#[test]
fn a_read_only_database_refuses_writes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    place::open(&path)
        .unwrap()
        .query(("CREATE (:Note {text: $text})", params! { "text" => "kept" }))
        .unwrap();
    let db = Database::builder().read_only(true).open(&path).unwrap();
    assert_eq!(count(&db, "Note"), 1);
    for write in [
        "CREATE (:Note)",
        "CREATE INDEX FOR (n:Note) ON (n.text)",
        "MATCH (n) DELETE n",
    ] {
        assert_eq!(
            db.query(write).unwrap_err().kind(),
            ErrorKind::Denied,
            "{write}"
        );
    }
    assert_eq!(count(&db, "Note"), 1);
    drop(db);
    assert_eq!(count(&place::open(&path).unwrap(), "Note"), 1);
}

/// Handles and streams borrow the transaction, and several are open at once.
#[test]
fn handles_are_used_alternately() {
    on_each_engine(use_handles_alternately);
}

fn use_handles_alternately(db: &Database) {
    let tx = db.begin().unwrap();
    let (a, b, users) = (tx.bucket("a"), tx.bucket("b"), tx.collection("User"));
    a.put("k", 1).unwrap();
    users.insert(&params! { "_key" => "ada" }).unwrap();
    let stream = tx.stream("UNWIND range(1, 5000) AS n RETURN n").unwrap();
    for row in stream {
        let n: i64 = row.unwrap().get("n").unwrap();
        b.put(n.to_be_bytes(), n).unwrap();
    }
    for pair in b.range(..) {
        let (key, value) = pair.unwrap();
        a.put(key, value).unwrap();
    }
    let made = tx.query("MATCH (u:User) RETURN u").unwrap();
    assert_eq!((made.len(), a.range(..).count()), (1, 5001));
    tx.commit().unwrap();
    let tx = db.begin_read().unwrap();
    assert_eq!(tx.bucket("a").range(..).count(), 5001);
}

/// A query that writes with its first row, and fails at a later one: it may give 10,000 rows.
fn failing(options: &QueryOptions, label: &str) -> Query<'static> {
    let text = match label {
        "A" => "UNWIND range(1, 20000) AS n CREATE (:A) RETURN n",
        _ => "UNWIND range(1, 20000) AS n CREATE (:B) RETURN n",
    };
    Query::new(text).options(options)
}

fn few_rows() -> QueryOptions {
    let mut limits = Limits::default();
    limits.rows = Some(10_000);
    QueryOptions::new().limits(limits)
}

/// A query that writes rolls back its own changes if it fails, and never those of other handles.
#[test]
fn a_failed_stream_takes_no_other_writes_along() {
    on_each_engine(fail_streams);
}

fn fail_streams(db: &Database) {
    let options = few_rows();
    let tx = db.begin().unwrap();
    let stream = tx.stream(failing(&options, "A")).unwrap();
    // What is written before its first row stays.
    tx.bucket("b").put("k", 1).unwrap();
    assert!(stream.last().unwrap().is_err());
    tx.commit().unwrap();
    assert_eq!(count(db, "A"), 0);
    assert!(db.read(|tx| tx.bucket("b").get("k")).unwrap().is_some());

    // After that, neither can be undone without the other: the transaction does not commit.
    let tx = db.begin().unwrap();
    let mut stream = tx.stream(failing(&options, "A")).unwrap();
    stream.next().unwrap().unwrap();
    tx.bucket("b").put("l", 1).unwrap();
    assert!(stream.last().unwrap().is_err());
    let error = tx.commit().unwrap_err();
    assert!(error.message().contains("run it again"), "{error}");
    assert_eq!(count(db, "A"), 0);
    assert!(db.read(|tx| tx.bucket("b").get("l")).unwrap().is_none());
}

/// Streams that write have savepoints of their own, in whatever order they end.
#[test]
fn streams_that_write_end_in_any_order() {
    on_each_engine(end_streams_in_any_order);
}

fn end_streams_in_any_order(db: &Database) {
    let options = few_rows();
    let works = "UNWIND range(1, 20000) AS n CREATE (:A) RETURN n";
    let tx = db.begin().unwrap();
    let mut first = tx.stream(works).unwrap();
    let mut second = tx.stream(failing(&options, "B")).unwrap();
    first.next().unwrap().unwrap();
    second.next().unwrap().unwrap();
    assert_eq!(first.count(), 19_999);
    let error = second.last().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
    tx.commit().unwrap();
    assert_eq!((count(db, "A"), count(db, "B")), (20_000, 0));

    let tx = db.begin().unwrap();
    let mut first = tx.stream(failing(&options, "A")).unwrap();
    let mut second = tx.stream(failing(&options, "B")).unwrap();
    first.next().unwrap().unwrap();
    second.next().unwrap().unwrap();
    // The changes of the second would go with those of the first.
    assert!(first.last().unwrap().is_err() && second.last().unwrap().is_err());
    assert!(tx.commit().is_err());
    assert_eq!((count(db, "A"), count(db, "B")), (20_000, 0));
}

/// A callback of a zero-copy read may read; writes and queries in it are errors and do no harm.
#[test]
fn a_callback_may_read_and_nothing_else() {
    on_each_engine(write_in_a_callback);
}

fn write_in_a_callback(db: &Database) {
    let tx = db.begin().unwrap();
    let bucket = tx.bucket("b");
    bucket.put("k", "v").unwrap();
    let mut outcomes = Vec::new();
    let visited = bucket.visit(.., Order::Ascending, |key, _| {
        assert_eq!(bucket.get(key).unwrap(), Some(Value::from("v")));
        assert_eq!(bucket.prefix("k").count(), 1);
        bucket
            .visit(.., Order::Ascending, |_, value| value != b"v")
            .unwrap();
        outcomes.push(bucket.put("other", 1).unwrap_err());
        outcomes.push(tx.query("CREATE (:A)").unwrap_err());
        outcomes.push(tx.stream("RETURN 1").err().unwrap());
        true
    });
    visited.unwrap();
    for error in &outcomes {
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.message().contains("callback"), "{error}");
    }
    bucket.put("after", 1).unwrap();
    tx.commit().unwrap();
    assert_eq!(count(db, "A"), 0);
    let kept = db.read(|tx| Ok(tx.bucket("b").range(..).count())).unwrap();
    assert_eq!((outcomes.len(), kept), (3, 2));
}

/// Ranges are iterated page by page, from both ends, with the pairs of a page boundary exactly once.
#[test]
fn ranges_are_iterated_from_both_ends() {
    on_each_engine(iterate_ranges);
}

fn iterate_ranges(db: &Database) {
    let total = 3_000_u32;
    db.transact(|tx| {
        let bucket = tx.bucket("b");
        (0..total).try_for_each(|n| bucket.put(n.to_be_bytes(), i64::from(n)))?;
        let tags = tx.bucket("tags");
        tags.create(isomer_db::BucketOptions::multi_value())?;
        (0..total).try_for_each(|n| tags.add((n % 3).to_be_bytes(), n.to_be_bytes()))
    })
    .unwrap();
    let tx = db.begin_read().unwrap();
    let bucket = tx.bucket("b");
    let number = |pair: Result<(Vec<u8>, Value)>| pair.unwrap().1.as_int().unwrap() as u32;
    assert!(bucket.range(..).map(number).eq(0..total));
    assert!(bucket.range(..).rev().map(number).eq((0..total).rev()));
    for taken in [0, 1, 15, 16, 17, 100, 1_500, 2_999, 3_000, 3_001] {
        let mut pairs = bucket.range(..);
        let front: Vec<u32> = pairs.by_ref().take(taken).map(number).collect();
        let back: Vec<u32> = pairs.by_ref().rev().map(number).collect();
        assert!(front.into_iter().chain(back.into_iter().rev()).eq(0..total));
        assert!(pairs.next().is_none() && pairs.next_back().is_none());
    }
    let mut pairs = bucket.range(..);
    let mut ends = Vec::new();
    while let (Some(low), high) = (pairs.next(), pairs.next_back()) {
        ends.push(number(low));
        ends.extend(high.map(number));
    }
    ends.sort_unstable();
    assert!(ends.into_iter().eq(0..total));
    let key = |n: u32| n.to_be_bytes();
    assert!(bucket.range(key(10)..key(2_000)).map(number).eq(10..2_000));
    assert!(
        bucket
            .range(key(10)..=key(20))
            .limit(5)
            .map(number)
            .eq(10..15)
    );
    assert!(
        bucket
            .range(..key(7))
            .limit(3)
            .rev()
            .map(number)
            .eq([6, 5, 4])
    );
    let after = (
        std::ops::Bound::Excluded(key(5)),
        std::ops::Bound::Unbounded,
    );
    assert_eq!(bucket.range(after).map(number).next(), Some(6));
    assert_eq!(bucket.range(key(9)..key(9)).count(), 0);
    // A bucket with several values per key: the page boundary is within a key.
    let tags = tx.bucket("tags");
    let mut pairs = tags.range(..);
    let first: Vec<_> = pairs.by_ref().take(1_234).collect::<Result<_>>().unwrap();
    let rest: Vec<_> = pairs.rev().collect::<Result<_>>().unwrap();
    let all: std::collections::BTreeSet<_> = first
        .iter()
        .chain(&rest)
        .map(|(k, v)| (k, format!("{v:?}")))
        .collect();
    assert_eq!((first.len() + rest.len(), all.len()), (3_000, 3_000));
}

/// Documents are iterated page by page, strings before integers.
#[test]
fn documents_are_iterated_in_key_order() {
    on_each_engine(iterate_documents);
}

fn iterate_documents(db: &Database) {
    for (text, ints) in [(0, 40), (40, 0), (16, 16), (17, 80), (80, 17), (100, 100)] {
        let label = format!("D{text}x{ints}");
        let create = format!("UNWIND $keys AS key CREATE (:{label} {{_key: key}})");
        let texts = (0..text).map(|n| Value::from(format!("{n:03}")));
        let wanted: Vec<Value> = texts.chain((0..ints).map(Value::Int)).collect();
        db.query((&create, params! { "keys" => wanted.clone() }))
            .unwrap();
        let tx = db.begin_read().unwrap();
        let documents = tx.collection(&label);
        let keys = |limit| -> Vec<Value> {
            let all = documents.scan(..).limit(limit);
            all.map(|document| document.unwrap().0).collect()
        };
        let show = |keys: &[Value]| format!("{keys:?}");
        assert_eq!(show(&keys(usize::MAX)), show(&wanted), "{label}");
        for limit in [0, 1, 16, 17, 50] {
            assert_eq!(show(&keys(limit)), show(&wanted[..limit.min(wanted.len())]));
        }
        assert_eq!(documents.scan(3..).count() as i64, (ints - 3).max(0));
        assert_eq!(documents.scan("003"..).count() as i64, (text - 3).max(0));
    }
}
