//! Convergent fields through the public API: atomic updates, many threads, columns, separate copies.

use std::thread;

use isomer_db::{
    Database, EngineKind, ErrorKind, Result, Update, Value,
    internals::{
        DatabaseInternals as _,
        views::{ViewKind, ViewState},
    },
    params,
};

use isomer_testkit::second_process;

use crate::place::{self, Opening as _};

fn posts() -> Database {
    let db = place::open_empty().unwrap();
    db.query("CREATE (:Post {_key: 'p'})").unwrap();
    db
}

fn one(db: &Database, query: &str) -> Value {
    let rows = db.query(query).unwrap();
    rows.iter().next().unwrap().values()[0].clone()
}

/// A sum beyond 64 bits is refused, also after a transaction that was rolled back or that counted several times.
#[test]
fn a_counter_stays_within_64_bits() {
    let db = posts();
    let add = |by: i64| format!("MATCH (p:Post) SET p.n = counter.add(p.n, {by})");
    let shown = || one(&db, "MATCH (p:Post) RETURN p.n");
    let refused = |text: &str| {
        let error = db.query(text).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        let message = "does not fit into 64 bits: nothing was changed";
        assert!(error.to_string().contains(message), "{error}");
    };
    db.query(&add(i64::MAX - 1)).unwrap();
    db.query(&add(1)).unwrap();
    assert_eq!(shown(), Value::Int(i64::MAX));
    refused(&add(1));
    refused(&add(i64::MAX));
    assert_eq!(shown(), Value::Int(i64::MAX));
    // What a transaction sees that is rolled back makes no room.
    let tx = db.begin().unwrap();
    for by in [-i64::MAX, 5, 7] {
        tx.query(&add(by)).unwrap();
    }
    tx.rollback();
    refused(&add(1));
    // The sum of one transaction counts, and so does the end of the range on the other side.
    let tx = db.begin().unwrap();
    tx.query(&add(-i64::MAX)).unwrap();
    tx.query(&add(-i64::MAX)).unwrap();
    tx.query(&add(-1)).unwrap();
    assert!(tx.query(&add(-1)).is_err());
    tx.commit().unwrap();
    assert_eq!(shown(), Value::Int(i64::MIN));
    refused("MATCH (p:Post) SET p.n = counter.subtract(p.n, 1)");
    db.query("MATCH (p:Post) REMOVE p.n").unwrap();
    db.query(&add(-5)).unwrap();
    db.query(&add(i64::MAX)).unwrap();
    assert_eq!(shown(), Value::Int(i64::MAX - 5));
}

#[test]
fn an_update_happens_whole_or_not_at_all() {
    let db = posts();
    let set = |add: &[&str], remove: &[&str]| Update::Set {
        add: add.iter().map(|text| Value::from(*text)).collect(),
        remove: remove.iter().map(|text| Value::from(*text)).collect(),
    };
    let update = |changes: Vec<(&str, Update)>, remove: &[&str]| Update::Map {
        update: changes
            .into_iter()
            .map(|(name, change)| (name.to_owned(), change))
            .collect(),
        remove: remove.iter().map(|name| (*name).to_owned()).collect(),
    };
    let tx = db.begin().unwrap();
    let posts = tx.collection("Post");
    let field = posts.field("p", &["m"]).unwrap();
    let inner = update(vec![("on", Update::Flag(true))], &[]);
    let first = update(
        vec![
            ("n", Update::Counter(3)),
            ("s", set(&["a", "b"], &["c"])),
            ("r", Update::Register(1.into())),
            ("v", Update::MultiRegister(2.into())),
            ("g", Update::GrowSet(vec![7.into()])),
            (
                "h",
                Update::Sketch {
                    add: vec![1.into()],
                    precision: Some(6),
                },
            ),
            ("inner", inner),
        ],
        &[],
    );
    field.update(&first).unwrap();
    let before = field.value().unwrap();
    assert_eq!(field.size().unwrap(), Some(7));
    let wrong = update(
        vec![("s", set(&["x"], &["a"])), ("n", Update::Flag(true))],
        &["r"],
    );
    let refused = field.update(&wrong).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    assert_eq!(field.value().unwrap(), before, "nothing of it happened");
    let fetched = field.fetch().unwrap();
    assert_eq!(fetched.value, before);
    assert_eq!(fetched.kind.map(|kind| kind.name()), Some("MAP"));
    field
        .update(&update(vec![], &["s", "inner", "r", "v", "g", "h"]))
        .unwrap();
    field
        .update(&update(vec![("n", Update::Counter(-4))], &[]))
        .unwrap();
    tx.commit().unwrap();
    assert_eq!(one(&db, "MATCH (p:Post) RETURN p.m.n"), (-1).into());
    let tx = db.begin().unwrap();
    let posts = tx.collection("Post");
    assert_eq!(
        posts
            .field("unknown", &["m"])
            .err()
            .map(|error| error.kind()),
        Some(ErrorKind::NotFound)
    );
    posts
        .field("p", &["m"])
        .unwrap()
        .update(&Update::Remove)
        .unwrap();
    tx.commit().unwrap();
    assert_eq!(one(&db, "MATCH (p:Post) RETURN p.m"), Value::Null);
}

/// Counters and sets never conflict.
#[test]
fn many_threads_change_one_field() {
    let db = posts();
    db.query("MATCH (p:Post) SET p.n = counter.add(p.n, 0), p.s = set.add(p.s, -1)")
        .unwrap();
    thread::scope(|scope| {
        for thread in 0..4_i64 {
            let db = &db;
            scope.spawn(move || {
                for number in 0..200_i64 {
                    let tx = db.begin().unwrap();
                    let done: Result<()> = (|| {
                        let posts = tx.collection("Post");
                        posts.field("p", &["n"])?.update(&Update::Counter(1))?;
                        let add = Update::Set {
                            add: vec![(thread * 1000 + number).into(), number.into()],
                            remove: vec![],
                        };
                        posts.field("p", &["s"])?.update(&add)
                    })();
                    done.unwrap();
                    tx.commit().unwrap();
                }
            });
        }
    });
    assert_eq!(one(&db, "MATCH (p:Post) RETURN p.n"), 800.into());
    assert_eq!(one(&db, "MATCH (p:Post) RETURN size(p.s)"), 801.into());
}

/// A column that exists when a property becomes a convergent field covers both.
#[test]
fn columns_follow_properties_that_become_convergent() {
    let db = place::open_empty().unwrap();
    db.query("UNWIND range(1, 5000) AS n CREATE (:P {_key: n, score: n % 10, other: 1})")
        .unwrap();
    let total = "MATCH (p:P) RETURN sum(p.score) AS total";
    let by_score =
        "MATCH (p:P) RETURN p.score AS score, count(*) AS count ORDER BY count DESC, score LIMIT 1";
    for _ in 0..5 {
        assert_eq!(one(&db, total), 22_500.into());
        assert_eq!(one(&db, by_score), 0.into());
    }
    db.query("MATCH (p:P) WHERE p._key <= 1000 REMOVE p.score")
        .unwrap();
    db.query("MATCH (p:P) WHERE p._key <= 1000 SET p.score = counter.add(p.score, 100)")
        .unwrap();
    for _ in 0..3 {
        assert_eq!(one(&db, total), 118_000.into());
        assert_eq!(one(&db, by_score), 100.into());
        assert_eq!(
            one(&db, "MATCH (p:P) WHERE p.score > 99 RETURN count(*)"),
            1000.into()
        );
    }
    let text = "MATCH (p:P {_key: $key}) RETURN p.score, properties(p).score, p {.score}.score, [k IN keys(p) WHERE k = 'score']";
    let rows = db.query((text, params! { "key" => 7 })).unwrap();
    let row = rows.iter().next().unwrap();
    let all: Vec<Value> = row.values().to_vec();
    assert_eq!(all[..3], [100.into(), 100.into(), 100.into()]);
    assert_eq!(all[3].as_list().map(<[Value]>::len), Some(1));
}

/// Scans and groups over counters, registers and flags are answered by columns, before and after deltas are merged.
#[test]
fn columns_hold_convergent_fields() {
    let db = place::open_empty().unwrap();
    db.query("UNWIND range(1, 5000) AS n CREATE (:P {_key: n})")
        .unwrap();
    db.query(
        "MATCH (p:P) SET p.likes = counter.add(p.likes, p._key % 10), \
         p.seen = register.set(p.seen, p._key % 3), p.on = flag.enable(p.on)",
    )
    .unwrap();
    let sum = "MATCH (p:P) RETURN sum(p.likes) AS n";
    let seen = "MATCH (p:P) WHERE p.on AND p.seen = 2 RETURN count(*) AS n";
    let groups = "MATCH (p:P) RETURN p.likes AS likes, count(*) AS c ORDER BY c, likes LIMIT 1";
    let held = |count: u64| {
        let status = db.views().status();
        let columns = status.iter().filter(|view| {
            let is_column = matches!(&view.kind, ViewKind::Column(_, path) if path.len() == 1);
            is_column && view.state == ViewState::Standing && view.count == count
        });
        columns.count()
    };
    let check = |total: i64, twos: i64| {
        for _ in 0..3 {
            assert_eq!(one(&db, sum), total.into());
            assert_eq!(one(&db, seen), twos.into());
            db.views().wait_ready();
            let profile = db.query(&format!("PROFILE {groups}")).unwrap();
            let plan = profile.plan().unwrap();
            assert!(plan.contains("from a view"), "{plan}");
        }
    };
    check(22_500, 1667);
    // Likes, seen, on.
    assert_eq!(held(5000), 3, "{:?}", db.views().status());
    db.query(
        "MATCH (p:P) WHERE p._key <= 100 SET p.likes = counter.add(p.likes, 1000), \
         p.seen = register.set(p.seen, 2)",
    )
    .unwrap();
    db.query("MATCH (p:P) WHERE p._key <= 10 SET p.on = flag.disable(p.on)")
        .unwrap();
    let twos = 1667 - 33 + 90;
    check(122_500, twos);
    for view in db.views().status() {
        db.views().merge_now(&view.kind).unwrap();
    }
    check(122_500, twos);
    assert!(db.views().check(&mut |_| {}).wrong.is_empty());
}

/// The plan of a query changes when a property becomes a convergent field.
#[test]
fn plans_look_into_sets_without_loading_them() {
    let db = posts();
    let text = "MATCH (p:Post) RETURN 'x' IN p.tags AS there, size(p.tags) AS size";
    let prepared = db.prepare(text).unwrap();
    let run = || {
        let tx = db.begin_read().unwrap();
        let rows = tx.query_prepared(&prepared, ()).unwrap();
        rows.iter().next().unwrap().values().to_vec()
    };
    assert_eq!(run(), [Value::Null, Value::Null]);
    db.query("MATCH (p:Post) SET p.tags = set.addAll(p.tags, ['x', 'y'])")
        .unwrap();
    assert_eq!(run(), [true.into(), 2.into()]);
    let rows = db.query(&format!("EXPLAIN {text}")).unwrap();
    let plan = format!("{rows:?}");
    assert!(plan.contains("convergent.contains"), "{plan}");
}

/// Operations on a restored database are distinguished from those made after its backup.
#[test]
fn a_restored_database_numbers_apart() {
    let folder = tempfile::tempdir().unwrap();
    let (path, backups) = (folder.path().join("db"), folder.path().join("backups"));
    let count = "MATCH (p:Post) SET p.n = counter.add(p.n, 1) RETURN p.n";
    let open = |path| {
        Database::builder()
            .engine(EngineKind::Lsm)
            .open_at(path)
            .unwrap()
    };
    let db = open(&path);
    db.query("CREATE (:Post {_key: 'p'})").unwrap();
    db.query(count).unwrap();
    let replica = db.store().unwrap().replica().unwrap();
    db.close().unwrap();
    // Nothing was written since it was opened: the backup looks like the end of a run.
    let db = open(&path);
    db.backup(&backups).run().unwrap();
    db.query(count).unwrap();
    assert_eq!(db.store().unwrap().replica(), Some(replica));
    db.close().unwrap();

    let target = folder.path().join("restored");
    Database::restore(&backups, &target).run().unwrap();
    let restored = open(&target);
    assert_eq!(one(&restored, count), 2.into());
    let other = restored.store().unwrap().replica().unwrap();
    assert_eq!(other.id, replica.id);
    assert_ne!(other.epoch, replica.epoch);
}

/// A database that opens before its new epoch has begun would issue numbers twice.
#[test]
fn a_restored_database_opens_when_it_numbers_apart() {
    use isomer_lsm::{LsmOptions, backup::Restoring};
    use isomer_vfs::RealDisk;
    let folder = tempfile::tempdir().unwrap();
    let (path, backups) = (folder.path().join("db"), folder.path().join("backups"));
    let db = Database::builder()
        .engine(EngineKind::Lsm)
        .open_at(&path)
        .unwrap();
    db.query("CREATE (:Post {_key: 'p'})").unwrap();
    db.query("MATCH (p:Post) SET p.n = counter.add(p.n, 1)")
        .unwrap();
    let first = db.backup(&backups).run().unwrap();
    db.query("MATCH (p:Post) SET p.n = counter.add(p.n, 1)")
        .unwrap();
    db.backup(&backups).run().unwrap();
    db.close().unwrap();
    let refused = |target: &std::path::Path| {
        let error = Database::open(target).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains("was interrupted"), "{error}");
    };

    // The process is killed before the epoch is on disk, with the engine open and not.
    let target = folder.path().join("killed");
    let restoring = Restoring::begin(
        &RealDisk,
        &backups,
        &target,
        Default::default(),
        None,
        &LsmOptions::default(),
        &mut |_, _| {},
    )
    .unwrap();
    refused(&target);
    drop(restoring.open().unwrap());
    drop(restoring);
    refused(&target);

    // Restoring a missing version leaves nothing that can be opened.
    let between = first.version + 1;
    let target = folder.path().join("other");
    let point = isomer_db::RestorePoint::Version(first.version + 1000);
    let restoring = Database::restore(&backups, &target).point(point);
    let error = restoring.run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(!target.exists());

    // A key that the backup does not need is ignored.
    let key = isomer_db::MasterKey::generate().unwrap();
    let target = folder.path().join("with a key");
    let point = isomer_db::RestorePoint::Version(between);
    let restoring = Database::restore(&backups, &target).point(point).key(key);
    restoring.run().unwrap();
    place::open(&target).unwrap().close().unwrap();
}

/// Leftovers of a killed backup in the database are removed when it is opened.
#[test]
fn leftovers_of_a_backup_are_removed() {
    if second_process::needs_alone("the process that maintains the tables removes them") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let open = || {
        Database::builder()
            .engine(EngineKind::Lsm)
            .open_at(&path)
            .unwrap()
    };
    open().close().unwrap();
    let left = path.join("backup.tmp").join("tables");
    std::fs::create_dir_all(&left).unwrap();
    std::fs::write(left.join("1.table"), b"linked").unwrap();
    open().close().unwrap();
    assert!(!path.join("backup.tmp").exists());
}

/// Queries seek in indexes over convergent fields, with the same results as without.
#[test]
fn indexes_over_convergent_fields_are_used() {
    let db = place::open_empty().unwrap();
    for key in 0..500 {
        db.query((
            "CREATE (p:Post {_key: $key}) SET p.tags = set.addAll(p.tags, [$key % 50, 'all']), \
             p.likes = counter.add(p.likes, $key), p.m.seen = register.set(p.m.seen, $key % 7), \
             p.year = $key % 3",
            params! { "key" => key },
        ))
        .unwrap();
    }
    let queries = [
        "MATCH (p:Post) WHERE 7 IN p.tags RETURN p._key AS k ORDER BY k",
        "MATCH (p:Post) WHERE p.likes = 40 RETURN p._key AS k ORDER BY k",
        "MATCH (p:Post) WHERE p.likes > 490 RETURN p._key AS k ORDER BY k",
        "MATCH (p:Post) WHERE p.m.seen = 3 AND p.likes < 50 RETURN p._key AS k ORDER BY k",
        "MATCH (p:Post) WHERE p.year = 1 AND p.likes = 100 RETURN p._key AS k ORDER BY k",
    ];
    let answers = || queries.map(|query| db.query(query).unwrap().rows().to_vec());
    let before = answers();
    assert!(before.iter().all(|rows| !rows.is_empty()));
    for index in [
        "CREATE INDEX FOR (p:Post) ON (p.tags[])",
        "CREATE INDEX FOR (p:Post) ON (p.likes)",
        "CREATE INDEX FOR (p:Post) ON (p.m.seen)",
        "CREATE INDEX FOR (p:Post) ON (p.year, p.likes)",
    ] {
        db.query(index).unwrap();
    }
    for query in queries {
        let plan = format!("{:?}", db.query(&format!("EXPLAIN {query}")).unwrap());
        assert!(plan.contains("IndexSeek"), "{query}: {plan}");
    }
    assert_eq!(format!("{:?}", answers()), format!("{before:?}"));
    db.query("MATCH (p:Post {_key: 7}) SET p.tags = set.remove(p.tags, 7), p.likes = counter.add(p.likes, 33)")
    .unwrap();
    let keys = |query| format!("{:?}", db.query(query).unwrap().rows());
    assert!(!keys(queries[0]).contains("Int(7)"), "{}", keys(queries[0]));
    assert!(keys(queries[1]).contains("Int(7)"), "{}", keys(queries[1]));
    assert_eq!(db.check().run().unwrap(), Vec::<String>::new());
}
