//! A database that several processes have open: two handles with separate engines, as in two processes.

use std::{
    collections::BTreeSet,
    io,
    path::Path,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use isomer_db::{
    Database, Directory as _, EngineKind, ErrorKind, Sharing, WatchScope,
    internals::{
        DatabaseInternals as _, LayerResult as _,
        views::{ViewKind, ViewState},
    },
    params,
};
use isomer_vfs::{LockFile, LockMode};

fn open(path: &Path) -> Database {
    let builder = Database::builder().engine(EngineKind::Lsm);
    builder
        .sharing(Sharing::Shared)
        .memory(64 << 20)
        .open(path)
        .unwrap()
}

const COUNT_NOTES: &str = "MATCH (n:Note) RETURN count(n) AS n";

fn number(db: &Database, query: &str) -> i64 {
    db.query(query).unwrap().single().unwrap().get("n").unwrap()
}

/// Cached plans, prepared queries and read views of one process answer with the last commit of the other one.
#[test]
fn plans_and_views_see_the_last_commit_of_another_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let (one, other) = (open(&path), open(&path));
    one.query("UNWIND range(0, 999) AS i CREATE (:P {_key: i, age: i % 80})")
        .unwrap();
    one.query("MATCH (a:P), (b:P {_key: (a._key * 7 + 1) % 1000}) CREATE (a)-[:T]->(b)")
        .unwrap();
    let walk = "MATCH (a:P)-[:T]->(b)-[:T]->(c) RETURN count(c) + sum(b.age) AS n";
    let by_age = "MATCH (p:P) WHERE p.age = 17 RETURN count(p) AS n";
    let missing = "MATCH (q:Later) RETURN count(q) AS n";
    let point = other
        .prepare("MATCH (p:P {_key: $key}) RETURN p.age AS n")
        .unwrap();
    let read_point = |key: i64| -> i64 {
        let rows = point.query(params! { "key" => key }).unwrap();
        rows.single().unwrap().get("n").unwrap()
    };
    // The views of the other process are built, and its plans are cached.
    for _ in 0..3 {
        assert_eq!(number(&one, walk), number(&other, walk));
        other.views().wait_ready();
    }
    let views = other.views().status();
    assert!(views.iter().any(|view| view.state == ViewState::Standing));
    assert_eq!((number(&other, by_age), number(&other, missing)), (13, 0));
    assert_eq!(read_point(17), 17);

    for round in 0..40_i64 {
        let (writer, reader) = if round % 2 == 0 {
            (&one, &other)
        } else {
            (&other, &one)
        };
        writer
            .query((
                "MATCH (p:P {_key: $key}) SET p.age = 17",
                params! { "key" => round },
            ))
            .unwrap();
        writer
            .query("MATCH (a:P {_key: 5}) CREATE (a)-[:T]->(:P {age: 1}) CREATE (:Later)")
            .unwrap();
        assert_eq!(number(reader, missing), round + 1);
        assert_eq!(number(reader, by_age), number(writer, by_age));
        assert_eq!(number(reader, walk), number(writer, walk), "round {round}");
        assert_eq!(read_point(round), 17);
        // Rows alone give the same.
        writer.views().clear();
        assert_eq!(number(reader, walk), number(writer, walk), "round {round}");
    }
    // An index that one process creates serves the plans of the other one.
    one.query("CREATE INDEX ages FOR (p:P) ON (p.age)").unwrap();
    let plan = other.query(format!("EXPLAIN {by_age}").as_str()).unwrap();
    assert!(plan.plan().unwrap_or_default().contains("IndexSeek"));
    assert_eq!(number(&other, by_age), number(&one, by_age));
    one.query("DROP INDEX ages").unwrap();
    assert_eq!(number(&other, by_age), number(&one, by_age));
    for db in [&one, &other] {
        assert_eq!(db.check().run().unwrap(), Vec::<String>::new());
    }
}

/// Of two processes one writes the files of views; the other one reads them, and writes when the first has ended.
#[test]
fn one_process_writes_the_files_of_views() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let one = open(&path);
    one.query("UNWIND range(0, 5999) AS i CREATE (:P {_key: i})")
        .unwrap();
    let kind = || {
        let catalog = one.store().unwrap().catalog();
        ViewKind::Members(catalog.label_id("P"))
    };
    let (kind, other) = (kind(), open(&path));
    for db in [&one, &other] {
        db.views().make(&kind).unwrap();
        db.views().wait_ready();
    }
    let stored = |db: &Database| {
        let all = db.views().status();
        let view = all.into_iter().find(|view| view.kind == kind);
        view.and_then(|view| view.stored_version)
    };
    assert!(stored(&one).is_some() && stored(&other).is_none());
    let late = open(&path);
    assert_eq!(stored(&late), stored(&one), "it finds the file");
    late.query("CREATE (:P)").unwrap();
    assert_eq!(number(&late, "MATCH (p:P) RETURN count(p) AS n"), 6001);
    late.views().make(&kind).unwrap();
    drop((one, other));
    // The last process is the one that writes now.
    late.views().merge_now(&kind).unwrap();
    let version = late.version().unwrap();
    late.close().unwrap();
    let again = open(&path);
    assert_eq!(stored(&again), Some(version));
    assert_eq!(again.check().run().unwrap(), Vec::<String>::new());
}

#[test]
fn a_watch_and_a_named_lock_reach_across_processes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let (one, other) = (open(&path), open(&path));
    let mut watch = one.watch("sessions", WatchScope::All, None).unwrap();
    let (sender, receiver) = mpsc::channel();
    let watching = thread::spawn(move || sender.send(watch.next_change()).unwrap());
    other
        .transact(|tx| tx.bucket("sessions").put("s", 1))
        .unwrap();
    let change = receiver.recv_timeout(Duration::from_secs(10)).unwrap();
    assert_eq!(change.unwrap().version, other.version().unwrap());
    watching.join().unwrap();

    let held = one.lock("index", false).unwrap();
    let refused = other.lock("index", false).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
    drop(held);
    let held = other.lock("index", true).unwrap();
    assert!(one.lock("index", false).is_err() && one.lock("another", false).is_ok());
    drop(held);
    assert!(one.lock("index", false).is_ok());
}

/// Another process that opens the database does not take what is in progress for leftovers.
#[test]
fn an_opening_removes_nothing_of_processes_that_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let one = open(&path);
    let mut file = one.create("/report").unwrap();
    io::Write::write_all(&mut file, b"first ").unwrap();
    let other = open(&path);
    io::Write::write_all(&mut file, b"second").unwrap();
    file.finish().unwrap();
    assert_eq!(other.read_whole("/report").unwrap(), b"first second");
    assert_eq!(other.check().run().unwrap(), Vec::<String>::new());
}

#[test]
fn what_needs_one_process_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let db = open(&path);
    let other = open(&path);
    let loading = db.store().unwrap().begin_ingest().map(drop).lift();
    let error = loading.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let advice = format!("end these processes: {} (library)", std::process::id());
    assert!(error.to_string().contains(&advice), "{error}");
    other.close().unwrap();
    // Alone it works, and others wait.
    let loading = db.store().unwrap().begin_ingest().unwrap();
    let refused = Database::builder().sharing(Sharing::Shared).open(&path);
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Unavailable);
    drop(loading);
    open(&path).close().unwrap();
    // An exclusive opening waits for all processes.
    let exclusive = || {
        let builder = Database::builder().sharing(Sharing::Exclusive);
        builder.open(&path)
    };
    assert_eq!(exclusive().unwrap_err().kind(), ErrorKind::Unavailable);
    db.query("CREATE (:P)").unwrap();
    drop(db);
    let alone = exclusive().unwrap();
    assert_eq!(number(&alone, "MATCH (p:P) RETURN count(p) AS n"), 1);
    let shared = Database::builder().sharing(Sharing::Shared).open(&path);
    assert_eq!(shared.unwrap_err().kind(), ErrorKind::Unavailable);
    drop(alone);
    let memory = Database::builder()
        .sharing(Sharing::Shared)
        .open_in_memory();
    assert_eq!(memory.unwrap_err().kind(), ErrorKind::Unsupported);
}

/// Writers in several processes, with queries: every increment counts once.
#[test]
fn concurrent_queries_of_processes_are_serializable() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let dbs: Vec<Database> = (0..3).map(|_| open(&path)).collect();
    dbs[0]
        .query("CREATE (:Counter {_key: 1, value: 0})")
        .unwrap();
    let began = Instant::now();
    thread::scope(|scope| {
        for (process, db) in dbs.iter().enumerate() {
            scope.spawn(move || {
                for round in 0..60 {
                    db.query("MATCH (c:Counter {_key: 1}) SET c.value = c.value + 1")
                        .unwrap();
                    db.query((
                        "MERGE (v:Visit {_key: $round}) ON CREATE SET v.by = $process, v.times = 1 \
                         ON MATCH SET v.times = v.times + 1",
                        params! { "round" => round, "process" => process as i64 },
                    ))
                    .unwrap();
                }
            });
        }
    });
    println!("180 transactions in conflict took {:?}", began.elapsed());
    let late = open(&path);
    let answers: BTreeSet<(i64, i64, i64)> = dbs
        .iter()
        .chain([&late])
        .map(|db| {
            assert_eq!(db.check().run().unwrap(), Vec::<String>::new());
            (
                number(db, "MATCH (c:Counter) RETURN c.value AS n"),
                number(db, "MATCH (v:Visit) RETURN count(v) AS n"),
                number(db, "MATCH (v:Visit) RETURN sum(v.times) AS n"),
            )
        })
        .collect();
    assert_eq!(answers, BTreeSet::from([(180, 60, 180)]));
}

/// A process that is stopped while it copies the database holds the lock of copies: others copy meanwhile.
#[test]
fn a_stopped_copy_blocks_no_other_copy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let db = open(&path);
    db.query("CREATE (:Note {text: 'copied'})").unwrap();
    let stopped = LockFile::open(&path.join("locks/copy")).unwrap();
    stopped.lock(LockMode::Shared).unwrap();
    let copy = folder.path().join("copy");
    db.checkpoint(&copy).unwrap();
    stopped.unlock().unwrap();
    let second_copy = folder.path().join("second copy");
    db.checkpoint(&second_copy).unwrap();
    for copy in [&copy, &second_copy] {
        assert_eq!(number(&Database::open(copy).unwrap(), COUNT_NOTES), 1);
    }
    assert_eq!(db.check().run().unwrap(), Vec::<String>::new());
}

/// Nothing is asked for: a new database is a shared one, and so are its copies.
#[test]
fn new_databases_and_their_copies_are_shared() {
    let folder = tempfile::tempdir().unwrap();
    let [path, copy, backups, restored] =
        ["db", "copy", "backups", "restored"].map(|name| folder.path().join(name));
    let lsm = || Database::builder().engine(EngineKind::Lsm).memory(64 << 20);
    let db = lsm().open(&path).unwrap();
    assert_eq!(Sharing::at(&path), Some(Sharing::Shared));
    db.query("CREATE (:Note {text: 'one'})").unwrap();
    db.checkpoint(&copy).unwrap();
    db.backup(&backups).run().unwrap();
    Database::restore(&backups, &restored).run().unwrap();
    for path in [&path, &copy, &restored] {
        let (one, other) = (lsm().open(path).unwrap(), lsm().open(path).unwrap());
        one.query("CREATE (:Note {text: 'two'})").unwrap();
        assert_eq!(number(&other, COUNT_NOTES), 2, "{}", path.display());
        assert_eq!(Sharing::at(path), Some(Sharing::Shared));
        assert_eq!(one.check().run().unwrap(), Vec::<String>::new());
    }
    drop(db);

    let exclusive = || lsm().sharing(Sharing::Exclusive);
    let own = folder.path().join("own");
    for path in [&own, &copy] {
        let db = exclusive().open(path).unwrap();
        assert_eq!(lsm().open(path).unwrap_err().kind(), ErrorKind::Unavailable);
        db.close().unwrap();
    }
    // How a database is stored does not change by itself.
    assert_eq!(Sharing::at(&own), Some(Sharing::Exclusive));
    lsm().open(&own).unwrap().close().unwrap();
    assert_eq!(Sharing::at(&own), Some(Sharing::Exclusive));
    assert_eq!(Sharing::at(&copy), Some(Sharing::Shared));
    // The copy of one that is open exclusively is exclusive.
    let back = folder.path().join("back");
    let db = exclusive().open(&copy).unwrap();
    db.checkpoint(&back).unwrap();
    db.close().unwrap();
    lsm().open(&back).unwrap().close().unwrap();
    assert_eq!(Sharing::at(&back), Some(Sharing::Exclusive));
}

/// A shared database of which one process keeps the others out: its numbers continue as in one that was opened
/// exclusively, and afterwards several processes take them again.
#[test]
fn a_process_keeps_others_out_of_a_shared_database_until_it_closes_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let (one, other) = (open(&path), open(&path));
    one.query("CREATE (:C {_key: 1}), (:C {_key: 2})").unwrap();
    let count = |db: &Database, key: i64, times: i64| {
        for _ in 0..times {
            let query = "MATCH (c:C {_key: $key}) SET c.n = counter.add(c.n, 1)";
            db.query((query, params! { "key" => key })).unwrap();
        }
    };
    let counts = |db: &Database| {
        let rows = db.query("MATCH (c:C) RETURN c.n ORDER BY c._key").unwrap();
        rows.deserialize::<i64>().unwrap()
    };
    count(&one, 1, 100);
    count(&other, 2, 100);
    let refused = one.store().unwrap().become_exclusive().unwrap_err();
    let own = format!("end these processes: {} (library)", std::process::id());
    assert!(refused.to_string().contains(&own), "{refused}");
    assert!(one.store().unwrap().is_shared());
    count(&other, 1, 10);
    other.close().unwrap();

    // A transaction that began before conflicts, also if it has no number yet.
    let under_way = one.begin().unwrap();
    under_way.query("MATCH (c:C {_key: 2}) RETURN c").unwrap();
    one.store().unwrap().become_exclusive().unwrap();
    one.store().unwrap().become_exclusive().unwrap();
    assert!(!one.store().unwrap().is_shared());
    under_way
        .query("MATCH (c:C {_key: 2}) SET c.n = counter.add(c.n, 1000)")
        .unwrap();
    assert_eq!(under_way.commit().unwrap_err().kind(), ErrorKind::Retry);
    let shared = || Database::builder().sharing(Sharing::Shared).open(&path);
    assert_eq!(shared().unwrap_err().kind(), ErrorKind::Unavailable);
    count(&one, 1, 1200);
    count(&one, 2, 7);
    assert_eq!(counts(&one), [1310, 107]);
    assert_eq!(one.check().run().unwrap(), Vec::<String>::new());
    one.close().unwrap();

    let (one, other) = (open(&path), open(&path));
    count(&one, 1, 30);
    count(&other, 2, 30);
    for db in [&one, &other] {
        assert_eq!(counts(db), [1340, 137]);
        assert_eq!(db.check().run().unwrap(), Vec::<String>::new());
    }
}

/// Transactions with convergent operations that are under way are waited for, for a moment.
#[test]
fn a_transaction_with_a_number_keeps_a_database_shared() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let db = open(&path);
    db.query("CREATE (:C {_key: 1})").unwrap();
    let tx = db.begin().unwrap();
    tx.query("MATCH (c:C) SET c.n = counter.add(c.n, 1)")
        .unwrap();
    let refused = db.store().unwrap().become_exclusive().unwrap_err();
    assert!(refused.to_string().contains("are under way"), "{refused}");
    // Others can open it: it was alone for no longer than the attempt.
    open(&path).close().unwrap();
    tx.commit().unwrap();
    db.store().unwrap().become_exclusive().unwrap();
    assert_eq!(number(&db, "MATCH (c:C) RETURN c.n AS n"), 1);
}

/// Files below `folder` that this process has open or mapped; `None` if the system does not tell.
fn open_files(folder: &Path) -> Option<Vec<String>> {
    let links = std::fs::read_dir("/proc/self/fd").ok()?;
    let links = links.filter_map(|link| std::fs::read_link(link.ok()?.path()).ok());
    let open = links.map(|target| target.to_string_lossy().into_owned());
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let folder = folder.to_str()?;
    let all = open.chain(maps.lines().map(str::to_owned));
    Some(all.filter(|name| name.contains(folder)).collect())
}

/// When the last handle is gone, no thread uses the database any more: its folder can be removed, or its disk be
/// unmounted.
#[test]
fn a_dropped_database_has_no_open_files() {
    let folder = tempfile::tempdir().unwrap();
    for sharing in [Sharing::Exclusive, Sharing::Shared] {
        let path = folder.path().join(format!("{sharing:?}"));
        for round in 0..20 {
            let db = Database::builder().sharing(sharing).open(&path).unwrap();
            db.query("CREATE (a:N {n: 1})-[:T]->(:N {n: 2})").unwrap();
            assert!(number(&db, "MATCH (:N)-[:T]->(b:N) RETURN sum(b.n) AS n") > 0);
            db.views().wait_ready();
            if round % 2 == 0 {
                db.close().unwrap();
            }
            drop(db);
            let left = open_files(&path).unwrap_or_default();
            assert!(left.is_empty(), "{sharing:?}, round {round}: {left:?}");
        }
    }
}
