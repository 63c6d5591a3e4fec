//! Spilling: the same rows, in the same order, and no files left.

use std::{sync::Arc, time::Duration};

use isomer_db::{
    CancelHandle, Database, ErrorKind, Limits, Map, MemoryKind, Query, QueryOptions, Value,
    internals::{
        DatabaseInternals as _,
        data::{SpillFault, SpillFolder},
    },
    params, to_value,
};
use proptest::prelude::*;

use isomer_testkit::second_process;

use crate::place::{self, Opening as _};

fn with_memory(bytes: usize) -> QueryOptions {
    let mut limits = Limits::default();
    limits.memory_bytes = bytes;
    QueryOptions::new().limits(limits)
}

fn spills(db: &Database) -> Arc<SpillFolder> {
    db.store().unwrap().spill_folder().clone()
}

/// Rows as text: `1` differs from `1.0`, and NaN equals itself.
fn rows(db: &Database, query: &str, rows: &Value, options: &QueryOptions) -> Vec<String> {
    let stream = || {
        let stream = db.stream(
            Query::new(query)
                .params(params! { "rows" => rows.clone() })
                .options(options),
        );
        stream?
            .map(|row| row.map(|row| format!("{:?}", row.values())))
            .collect::<isomer_db::Result<_>>()
    };
    loop {
        match stream() {
            Ok(rows) => return rows,
            // The caller of a stream repeats it.
            Err(error) if second_process::is_wanted() && error.kind() == ErrorKind::Retry => {}
            Err(error) => panic!("{query}: {error}"),
        }
    }
}

/// Memory that queries hold: all that is used, unless the database is in a folder.
fn used_by_queries(db: &Database) -> usize {
    let memory = db.memory().unwrap();
    match second_process::is_wanted() {
        true => memory.usage(MemoryKind::Queries).used_bytes,
        false => memory.used_bytes(),
    }
}

/// Statements that buffer rows, over `$rows`: maps of `a`, `b` and `n`, the row's number.
const STATEMENTS: &[&str] = &[
    "UNWIND $rows AS r RETURN r.a AS a, r.b AS b, r.n AS n ORDER BY a, b DESC",
    "UNWIND $rows AS r RETURN r.n AS n, r.pad AS pad ORDER BY r.b DESC, r.a",
    "UNWIND $rows AS r WITH r ORDER BY r.a SKIP 100 LIMIT 3000 RETURN r.a AS a, r.n AS n, r.pad AS pad",
    "UNWIND $rows AS r RETURN DISTINCT r.a AS a, r.b AS b",
    "UNWIND $rows AS r RETURN DISTINCT r.pad + toString(r.n % 1500) AS pad",
    "UNWIND $rows AS r RETURN DISTINCT r.n % 4000 AS n",
    "UNWIND $rows AS r RETURN r.a AS a, r.b AS b, count(*) AS c, sum(r.f) AS s, avg(r.f) AS m, min(r.b) AS least, max(r.a) AS most",
    "UNWIND $rows AS r RETURN r.n % 2000 AS k, collect(r.a) AS all, count(DISTINCT r.b) AS kinds, stDev(r.f) AS d",
    "UNWIND $rows AS r RETURN r.pad + toString(r.n % 1000) AS k, percentileCont(r.f, 0.3) AS p, percentileDisc(r.f, 0.9) AS q, collect(DISTINCT r.a) AS all",
    "UNWIND $rows AS r WITH r ORDER BY r.n DESC RETURN r.n % 1500 AS k, collect(r.n) AS numbers",
    "UNWIND $rows AS r WITH r.n % 700 AS k, r.pad AS pad, count(*) AS c RETURN k, pad, c ORDER BY c DESC, k",
];

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        (0..5_i64).prop_map(Value::Int),
        (0..5_i8).prop_map(|x| Value::Float(f64::from(x))),
        prop_oneof![Just(f64::NAN), Just(0.5), Just(-0.0)].prop_map(Value::Float),
        any::<bool>().prop_map(Value::Bool),
        "[ab]{0,2}".prop_map(Value::from),
        prop::collection::vec((0..3_i64).prop_map(Value::Int), 0..3).prop_map(Value::from),
        prop::collection::btree_map("[xy]", (0..2_i64).prop_map(Value::Int), 0..3)
            .prop_map(|map| Value::from(Map::from_iter(map))),
        (1..4_i8).prop_map(|day| Value::Date(isomer_db::jiff::civil::date(2024, 1, day))),
        (1..4_i8).prop_map(|hour| Value::LocalTime(isomer_db::jiff::civil::time(hour, 0, 0, 1))),
    ]
}

/// 6,000 rows from a few random ones: with ties, nulls and all types.
fn table(few: &[(Value, Value, f64)]) -> Value {
    (0..6000_usize)
        .map(|n| {
            let (a, b, f) = &few[(n * 7919) % few.len()];
            Value::from(Map::from_iter([
                ("a", a.clone()),
                ("b", b.clone()),
                ("f", Value::Float(f * (n % 13) as f64)),
                ("n", Value::Int(n as i64)),
                ("pad", Value::from("x".repeat(n % 40))),
            ]))
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4))]

    /// With little memory every statement gives the same rows as with much memory; to the last bit of a sum.
    #[test]
    fn memory_changes_no_answer(few in prop::collection::vec((scalar(), scalar(), 0.1..1.0_f64), 1..60)) {
        let db = place::open_empty().unwrap();
        let table = table(&few);
        let spilled = spills(&db);
        for statement in STATEMENTS {
            let before = spilled.written_bytes();
            let all = rows(&db, statement, &table, &QueryOptions::new());
            prop_assert_eq!(spilled.written_bytes(), before);
            for memory in [400_000, 1_500_000] {
                prop_assert_eq!(&rows(&db, statement, &table, &with_memory(memory)), &all, "{}", statement);
            }
        }
        prop_assert_eq!(spilled.open_files(), 0);
    }
}

fn network(db: &Database, people: i64) {
    db.query(("UNWIND range(1, $people) AS n
         CREATE (:Person {n: n, city: n % 97, pad: substring('xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx', n % 30)})
         CREATE (:Town {n: n % 97, m: n, name: 'town ' + toString(n)})", params! { "people" => people }))
    .unwrap();
}

/// Joins, products, writes after reads: all operators that buffer rows of the graph.
#[test]
fn rows_of_the_graph_spill_too() {
    let db = place::open_empty().unwrap();
    network(&db, 3000);
    let spilled = spills(&db);
    let none = Value::Null;
    let statements = [
        "MATCH (p:Person) RETURN p, count(*) AS c",
        "MATCH (p:Person), (t:Town) WHERE p.n = t.m RETURN p.n AS n, p.pad AS pad, t.name AS name",
        "MATCH (p:Person), (t:Town) WHERE p.city = t.n AND p.n < 200 RETURN p.n AS n, t.name AS name",
        "MATCH (p:Person), (t:Town) WHERE p.n < 40 AND t.m < 3000 RETURN p.n AS n, t.name AS name",
        "MATCH (p:Person) RETURN p, p.pad AS pad ORDER BY p.pad, p.n",
        "MATCH (p:Person) WITH DISTINCT p, p.pad AS pad RETURN p, pad",
        "MATCH (p:Person) RETURN p.pad AS pad, p.n AS n, count(*) AS c",
    ];
    let mut spilling = 0;
    for statement in statements {
        let before = spilled.written_bytes();
        let mut all = rows(&db, statement, &none, &QueryOptions::new());
        assert_eq!(spilled.written_bytes(), before, "{statement}");
        let memory = if statement.contains("p, count") {
            100_000
        } else {
            250_000
        };
        let mut few = rows(&db, statement, &none, &with_memory(memory));
        spilling += usize::from(spilled.written_bytes() > before);
        if !statement.contains("ORDER BY") {
            all.sort();
            few.sort();
        }
        assert_eq!(few, all, "{statement}");
        assert_eq!(spilled.open_files(), 0, "{statement}");
    }
    assert!(spilling >= 6, "{spilling} statements spilled");

    // A write that must not see its own effects buffers its rows; so does a deletion.
    let write = "MATCH (p:Person) CREATE (:Person {n: -p.n, pad: p.pad}) RETURN count(*) AS c";
    let before = spilled.written_bytes();
    assert_eq!(
        rows(&db, write, &none, &with_memory(30_000)),
        ["[Int(3000)]"]
    );
    assert!(spilled.written_bytes() > before);
    let before = spilled.written_bytes();
    let delete =
        "MATCH (p:Person) WITH p, p.pad + toString(p.n) AS pad DELETE p RETURN count(pad) AS c";
    assert_eq!(
        rows(&db, delete, &none, &with_memory(400_000)),
        ["[Int(6000)]"]
    );
    assert!(spilled.written_bytes() > before);
    assert_eq!(spilled.open_files(), 0);
}

/// `PROFILE` shows which operator spilled how much.
#[test]
fn profile_shows_spilled_bytes() {
    let db = place::open_empty().unwrap();
    let query =
        "PROFILE UNWIND range(1, 50000) AS n RETURN n, toString(n) AS text ORDER BY n % 1000";
    let result = db
        .query(Query::new(query).options(&with_memory(500_000)))
        .unwrap_err();
    assert_eq!(
        result.kind(),
        ErrorKind::Limit,
        "the result itself is kept whole"
    );
    let query = "PROFILE UNWIND range(1, 50000) AS n WITH n, toString(n) AS text ORDER BY n % 1000 RETURN count(text)";
    let plan = db
        .query(Query::new(query).options(&with_memory(500_000)))
        .unwrap();
    let plan = plan.plan().unwrap().to_owned();
    let sort = plan.lines().find(|line| line.contains("Sort")).unwrap();
    assert!(sort.contains("spilled"), "{plan}");
    let plan = db.query(query).unwrap().plan().unwrap().to_owned();
    assert!(!plan.contains("spilled"), "{plan}");
}

/// If spilling cannot help, the error names the limit.
#[test]
fn one_huge_list_is_refused() {
    let db = place::open_empty().unwrap();
    for query in [
        "UNWIND range(1, 100000) AS n RETURN size(collect(n))",
        "UNWIND range(1, 100000) AS n WITH 1 AS one, collect(n) AS all RETURN size(all)",
        "UNWIND range(1, 100000) AS n RETURN count(DISTINCT toString(n))",
    ] {
        let error = db
            .query(Query::new(query).options(&with_memory(1 << 20)))
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Limit, "{query}: {error}");
        assert!(error.to_string().contains("memory"), "{error}");
    }
    // The advice of the message works.
    let query = "UNWIND range(1, 100000) AS n WITH DISTINCT toString(n) AS text RETURN count(text)";
    let result = db
        .query(Query::new(query).options(&with_memory(1 << 20)))
        .unwrap();
    assert_eq!(
        result.single().unwrap().deserialize::<i64>().unwrap(),
        100_000
    );
    assert_eq!(spills(&db).open_files(), 0);
}

const SPILLING: &[&str] = &[
    "UNWIND range(1, 50000) AS n WITH n, toString(n) AS text ORDER BY n % 1000, text RETURN count(text)",
    "UNWIND range(1, 50000) AS n WITH DISTINCT n, toString(n) AS text RETURN count(text)",
    "UNWIND range(1, 50000) AS n WITH toString(n) AS text, count(*) AS c RETURN count(text)",
];

/// A full disk and a damaged file give specific errors, and the files are removed; also after a cancellation and after
/// a client has disconnected.
#[test]
fn errors_and_cancellation_leave_nothing() {
    let db = place::open_empty().unwrap();
    let spilled = spills(&db);
    for query in SPILLING {
        for (fault, kind, word) in [
            (SpillFault::Full, ErrorKind::Unavailable, "full"),
            (
                SpillFault::Damage,
                ErrorKind::Corrupt,
                "not what was written",
            ),
        ] {
            spilled.set_fault(fault);
            let error = db
                .query(Query::new(query).options(&with_memory(500_000)))
                .unwrap_err();
            spilled.set_fault(SpillFault::None);
            assert_eq!(error.kind(), kind, "{query}: {error}");
            assert!(error.to_string().contains(word), "{error}");
            assert_eq!(spilled.open_files(), 0, "{query}");
        }
        for delay in [10, 60, 200] {
            let cancel = CancelHandle::new();
            let options = with_memory(500_000).cancel(cancel.clone());
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    // At several moments of the query; it may have ended by then.
                    std::thread::sleep(Duration::from_millis(delay));
                    cancel.cancel();
                });
                let outcome = db.query(Query::new(query).options(&options));
                assert!(
                    outcome.as_ref().is_ok_and(|result| result.len() == 1)
                        || outcome.is_err_and(|error| error.kind() == ErrorKind::Cancelled)
                );
            });
            assert_eq!(spilled.open_files(), 0, "{query}");
        }
        assert_eq!(
            db.query(Query::new(query).options(&with_memory(500_000)))
                .unwrap()
                .len(),
            1
        );
    }
    let sorted = "UNWIND range(1, 50000) AS n RETURN n, toString(n) AS text ORDER BY text";
    let mut stream = db
        .stream(Query::new(sorted).options(&with_memory(500_000)))
        .unwrap();
    stream.next().unwrap().unwrap();
    assert!(spilled.open_files() > 0);
    drop(stream);
    assert_eq!(spilled.open_files(), 0);
}

/// Spill files are unnamed, in the database's own folder, and leftovers of a crash are removed at the next opening.
#[test]
fn the_database_keeps_its_folder_clean() {
    if second_process::needs_alone("its first process removes what earlier ones left behind") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let db = place::open(&path).unwrap();
    let mut stream = db
        .stream(
            Query::new("UNWIND range(1, 50000) AS n RETURN n, toString(n) AS text ORDER BY text")
                .options(&with_memory(500_000)),
        )
        .unwrap();
    stream.next().unwrap().unwrap();
    let tmp = path.join("tmp");
    assert_eq!(spills(&db).path(), tmp);
    assert_eq!(std::fs::read_dir(&tmp).unwrap().count(), 0);
    drop(stream);
    db.close().unwrap();
    drop(db);
    std::fs::write(tmp.join("isomer-spill-1-1"), b"").unwrap();
    let db = place::open(&path).unwrap();
    assert_eq!(std::fs::read_dir(&tmp).unwrap().count(), 0);
    db.close().unwrap();
}

/// Concurrent queries share one budget: each gives the results that it gives alone, and the budget is not exceeded.
#[test]
fn queries_side_by_side_share_the_budget() {
    let db = Database::builder().memory(16 << 20).open_empty().unwrap();
    let memory = db.memory().unwrap();
    let values: Vec<i64> = (0..1000).collect();
    let rows = to_value(&values).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for query in SPILLING {
                    let result = db
                        .query((query, params! { "rows" => rows.clone() }))
                        .unwrap();
                    assert_eq!(
                        result.single().unwrap().deserialize::<i64>().unwrap(),
                        50_000
                    );
                }
            });
        }
        for _ in 0..200 {
            assert!(memory.used_bytes() <= memory.total_bytes());
            // Samples while they run.
            std::thread::sleep(Duration::from_millis(2));
        }
    });
    assert!(spills(&db).written_bytes() > 0);
    assert_eq!(used_by_queries(&db), 0);
}

/// Collected results count, too, until they are returned.
#[test]
fn results_count_against_the_budget_until_they_are_handed_over() {
    let db = Database::builder().memory(16 << 20).open_empty().unwrap();
    let query = "UNWIND range(1, $rows) AS n RETURN n, toString(n) AS text";
    let error = db
        .query((query, params! { "rows" => 400_000 }))
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
    let result = db.query((query, params! { "rows" => 20_000 })).unwrap();
    assert_eq!(result.len(), 20_000);
    assert!(db.memory().unwrap().used_bytes() > 0, "until it is dropped");
    drop(result);
    assert_eq!(used_by_queries(&db), 0);
    let rows = db.stream((query, params! { "rows" => 400_000 })).unwrap();
    assert_eq!(rows.count(), 400_000);
}
