//! Grouping: one group per value, for any representation of the value, from views and from rows.

use std::time::{Duration, Instant};

use isomer_db::{
    Database, Limits, Query, QueryOptions,
    internals::{DatabaseInternals as _, data::CommitObserver},
};

use crate::place;

fn rows(db: &Database, query: &str) -> Vec<String> {
    let found = db
        .query(query)
        .unwrap_or_else(|error| panic!("{query}: {error}"));
    let shown = found.iter().map(|row| format!("{:?}", row.values()));
    let mut rows: Vec<String> = shown.collect();
    rows.sort();
    rows
}

/// A constant and a value read from a record are the same group.
#[test]
fn a_constant_is_in_the_group_of_its_equals() {
    let db = place::open_empty().unwrap();
    db.query("CREATE (:N {s: 'a', i: 1}), (:N {s: 'b', i: 2})")
        .unwrap();
    for (constant, name) in [("'a'", "s"), ("1", "i"), ("1.0", "i")] {
        let one = format!("RETURN {constant} AS k");
        let two = format!("MATCH (n:N) RETURN n.{name} AS k");
        for (first, second) in [(&one, &two), (&two, &one)] {
            let query = format!("CALL () {{ {first} UNION ALL {second} }} RETURN k, count(*) AS c");
            let found = rows(&db, &query);
            assert_eq!(found.len(), 2, "{query}: {found:?}");
        }
    }
}

/// Rows are merged before their keys are computed only if equal values are indistinguishable to the computation.
#[test]
fn equal_values_of_different_forms_are_computed_apart() {
    let db = place::open_empty().unwrap();
    db.query("UNWIND range(1, 50) AS i CREATE (:Z)-[:K]->({v: 1})")
        .unwrap();
    db.query("UNWIND range(1, 50) AS i CREATE (:Z)-[:K]->({v: 1.0})")
        .unwrap();
    let ends = "MATCH (z:Z)-[:K]->(a) WITH a.v AS v";
    assert_eq!(
        rows(
            &db,
            &format!("{ends} RETURN toString(v) AS s, count(*) AS c")
        ),
        [r#"[String("1"), Int(50)]"#, r#"[String("1.0"), Int(50)]"#]
    );
    assert_eq!(
        rows(&db, &format!("{ends} RETURN sum(v) AS s")),
        ["[Float(100.0)]"]
    );
    assert_eq!(
        rows(
            &db,
            &format!("{ends} MATCH (z:Z) WITH v, z LIMIT 3 RETURN count(v)")
        ),
        ["[Int(3)]"]
    );
}

/// A value that no node has any more does not determine the representation of a group.
#[test]
fn a_group_shows_an_existing_value() {
    let db = place::open_empty().unwrap();
    db.query("CREATE (:N {i: 0, p: 5.0, q: [1.0], r: -0.0}), (:N {i: 1, p: 5, q: [1], r: 0.0})")
        .unwrap();
    let all = || {
        ["p", "q", "r"].map(|name| {
            let query = format!("MATCH (n:N) RETURN n.{name} AS v, count(*) AS c");
            rows(&db, &query)
        })
    };
    all();
    assert!(db.views().status().iter().any(|view| view.count > 0));
    for change in ["SET n.p = 6, n.q = 6, n.r = 6", "DELETE n"] {
        db.query(&format!("MATCH (n:N {{i: 0}}) {change}")).unwrap();
        let overlaid = all();
        db.views().clear();
        assert_eq!(overlaid, all(), "{change}");
    }
}

/// More groups than fit into memory spill to disk, also if a column is available.
#[test]
fn groups_of_a_column_do_not_fail_for_want_of_memory() {
    let db = place::open_empty().unwrap();
    db.query("UNWIND range(1, 30000) AS i CREATE (:N {p: i * 7})")
        .unwrap();
    let mut limits = Limits::default();
    limits.memory_bytes = 2 << 20;
    let options = QueryOptions::new().limits(limits);
    let query = "MATCH (n:N) RETURN n.p AS p, count(*) AS c";
    let mut stream = db.stream(Query::new(query).options(&options)).unwrap();
    let count = stream.try_fold(0, |count, row| row.map(|_| count + 1));
    assert_eq!(count.unwrap(), 30_000);
    assert!(db.views().status().iter().any(|view| view.count == 30_000));
}

/// Views are notified when a bulk load begins, which may take minutes: counting by a column does not wait for it.
#[test]
fn a_commit_under_way_holds_up_no_group() {
    let db = place::open_empty().unwrap();
    db.query("CREATE (:N {p: 1}), (:N {p: 1}), (:N {p: 2})")
        .unwrap();
    let query = "MATCH (n:N) RETURN n.p AS p, count(*) AS c";
    let version = db.store().unwrap().engine().version() + 1;
    db.views().committing(version, b"a bulk load");
    let begun = Instant::now();
    let meanwhile = rows(&db, query);
    assert!(begun.elapsed() < Duration::from_secs(5));
    db.views().abandoned(version);
    assert_eq!(meanwhile, rows(&db, query));
    assert!(db.views().status().iter().any(|view| view.count == 3));
}
