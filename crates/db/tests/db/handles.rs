//! Handles of a database: used by many threads, closed during other operations, opened read-only.

use std::thread;

use isomer_db::{
    Bucket, Builder, CancelHandle, Collection, Database, Error, ErrorKind, Prepared, QueryResult,
    Row, RowStream, Transaction, params,
};

fn count(db: &Database, label: &str) -> u64 {
    let text = format!("MATCH (n:{label}) RETURN count(n) AS n");
    let result = db.query(&text, ()).unwrap();
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
    send::<Transaction>();
    send::<RowStream<'static>>();
    send::<Collection<'static>>();
    send::<Bucket<'static>>();
}

/// Eight threads count in a node and in a bucket: no increment is lost, and both agree.
#[test]
fn transact_runs_again_until_it_wins() {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path().join("db")).unwrap();
    db.query("CREATE (:Counter {_key: 'c', n: 0})", ()).unwrap();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..25 {
                    db.transact(|tx| {
                        tx.query("MATCH (c:Counter {_key: 'c'}) SET c.n = c.n + 1", ())?;
                        let mut numbers = tx.bucket("numbers");
                        let last = numbers.get("n")?.and_then(|n| n.as_int()).unwrap_or(0);
                        numbers.put("n", last + 1)
                    })
                    .unwrap();
                }
            });
        }
    });
    let node = db.query("MATCH (c:Counter) RETURN c.n AS n", ()).unwrap();
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
    let db = Database::open(&path).unwrap();
    db.query("CREATE (:Early)", ()).unwrap();
    let prepared = db.prepare("MATCH (n) RETURN n").unwrap();
    let mut under_way = db.begin().unwrap();
    under_way.query("CREATE (:Late)", ()).unwrap();
    let mut stream = db
        .stream("UNWIND range(1, 10000) AS n RETURN n", ())
        .unwrap();
    stream.next().unwrap().unwrap();
    db.close().unwrap();
    db.close().unwrap();
    assert!(db.is_closed());
    let closed = [
        db.query("RETURN 1", ()).err(),
        db.begin().err(),
        db.stream("RETURN 1", ()).err(),
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
    let in_use = Database::open(&path);
    drop(stream);
    drop(in_use);
    let again = Database::open(&path).unwrap();
    assert_eq!((count(&again, "Early"), count(&again, "Late")), (1, 1));
}

/// Opened read-only, a database answers queries and writes nothing.
#[test]
fn a_read_only_database_refuses_writes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    Database::open(&path)
        .unwrap()
        .query("CREATE (:Note {text: $text})", params! { "text" => "kept" })
        .unwrap();
    let db = Database::builder().read_only(true).open(&path).unwrap();
    assert_eq!(count(&db, "Note"), 1);
    for write in [
        "CREATE (:Note)",
        "CREATE INDEX FOR (n:Note) ON (n.text)",
        "MATCH (n) DELETE n",
    ] {
        assert_eq!(
            db.query(write, ()).unwrap_err().kind(),
            ErrorKind::Denied,
            "{write}"
        );
    }
    assert_eq!(count(&db, "Note"), 1);
    drop(db);
    assert_eq!(count(&Database::open(&path).unwrap(), "Note"), 1);
}
