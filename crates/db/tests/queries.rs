//! Queries through the public API: what one query leaves behind must not show in another.

use isomer_db::{Database, ErrorKind, Limits, QueryOptions, Value, params};

/// A plan that was made for a text with literals serves a text with parameters in their place, but not with their
/// values.
#[test]
fn a_cached_plan_brings_no_value_of_another_query() {
    let db = Database::open_in_memory().unwrap();
    db.query("CREATE (:User {name: 'ada'}), (:User {name: 'bob'})", ())
        .unwrap();
    let ada = "MATCH (u:User {name: 'ada'}) RETURN u.name AS name";
    assert_eq!(db.query(ada, ()).unwrap().len(), 1);
    let by_parameter = "MATCH (u:User {name: $__0}) RETURN u.name AS name";
    let found = db.query(by_parameter, params! { "__0" => "bob" }).unwrap();
    assert_eq!(found.deserialize::<String>().unwrap(), ["bob"]);
    let missing = db.query(by_parameter, ()).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::Invalid, "{missing}");
    let again = db.query(ada, ()).unwrap();
    assert_eq!(again.deserialize::<String>().unwrap(), ["ada"]);
}

/// The memory limit holds for what lies deep in the rows: here 64 nodes of a mebibyte each.
#[test]
fn gathered_nodes_count_against_the_memory_limit() {
    let db = Database::open_in_memory().unwrap();
    let text = "x".repeat(1 << 20);
    for _ in 0..64 {
        db.query(
            "CREATE (:Large {parts: [[$text]]})",
            params! { "text" => text.as_str() },
        )
        .unwrap();
    }
    let mut limits = Limits::default();
    limits.memory_bytes = 32 << 20;
    let options = QueryOptions::new().limits(limits);
    let refused = db
        .query_with("MATCH (l:Large) RETURN l", (), &options)
        .unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Limit, "{refused}");
    let streamed = db
        .stream_with("MATCH (l:Large) RETURN l", (), &options)
        .unwrap();
    assert_eq!(streamed.filter(Result::is_ok).count(), 64);
}

/// What a value is made of lives beside it: a text that doubles needs three times its length, a list twice.
#[test]
fn a_value_that_grows_counts_with_what_it_is_made_of() {
    let db = Database::open_in_memory().unwrap();
    let mut limits = Limits::default();
    limits.memory_bytes = 8 << 20;
    let options = QueryOptions::new().limits(limits);
    let grown = |start: Value, times: i64| -> isomer_db::Result<i64> {
        let query = "RETURN size(reduce(v = $start, x IN range(1, $times) | v + v)) AS size";
        let params = params! { "start" => start, "times" => times };
        db.query_with(query, params, &options)?
            .single()?
            .get("size")
    };
    assert_eq!(grown(Value::from("a"), 21).unwrap(), 2 << 20);
    let refused = grown(Value::from("a"), 22).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Limit, "{refused}");
    let list = || Value::from(vec![Value::Int(1)]);
    let most = (8 << 20) / (2 * size_of::<Value>());
    assert_eq!(
        grown(list(), i64::from(most.ilog2())).unwrap(),
        1 << most.ilog2()
    );
    let refused = grown(list(), i64::from(most.ilog2()) + 1).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Limit, "{refused}");
}

/// Values nest as deep as records may, and a parameter that nests deeper is refused before anything walks through it.
#[test]
fn a_parameter_that_nests_too_deep_is_refused() {
    let db = Database::open_in_memory().unwrap();
    let nested =
        |levels: usize| (0..levels).fold(Value::Int(1), |value, _| Value::from(vec![value]));
    let same = db.query("RETURN $v = $v AS same", params! { "v" => nested(128) });
    assert!(same.unwrap().single().unwrap().get::<bool>("same").unwrap());
    for query in [
        "RETURN $v = $v",
        "CREATE (:Deep {v: $v})",
        "MATCH (n {v: $v}) RETURN n",
        "WITH $v AS v ORDER BY v RETURN toString(v)",
        "CALL kv.put('bucket', 'key', $v)",
    ] {
        for levels in [129, 5_000] {
            let refused = db
                .query(query, params! { "v" => nested(levels) })
                .unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Limit, "{query}: {refused}");
            assert!(refused.to_string().contains("$v"), "{refused}");
        }
    }
}

/// `SHOW` lists what is there, not every name that was ever asked for.
#[test]
fn show_lists_what_is_there() {
    let db = Database::open_in_memory().unwrap();
    db.query("CREATE (:Real)-[:KNOWS]->(:Gone)", ()).unwrap();
    db.query("MATCH (n:Gone) DETACH DELETE n", ()).unwrap();
    db.query("MATCH (n:Typo)-[:TYPPO]->() SET n.x = 1", ())
        .unwrap();
    db.transact(|tx| {
        tx.bucket("plain").put("key", 1)?;
        tx.bucket("dropped").put("key", 1)?;
        let options = isomer_db::BucketOptions {
            reversible: true,
            ..Default::default()
        };
        tx.bucket("reversible").create(options)
    })
    .unwrap();
    db.transact(|tx| tx.bucket("dropped").drop_bucket())
        .unwrap();
    let rows = |text: &str| -> Vec<Vec<Value>> {
        let rows = db.query(text, ()).unwrap().into_rows();
        rows.into_iter().map(isomer_db::Row::into_values).collect()
    };
    assert_eq!(rows("SHOW LABELS"), [[Value::from("Real"), Value::from(1)]]);
    assert_eq!(rows("SHOW TYPES"), Vec::<Vec<Value>>::new());
    let buckets = [["plain", "plain"], ["reversible", "reversible"]];
    assert_eq!(
        rows("SHOW BUCKETS"),
        buckets.map(|row| row.map(Value::from))
    );
}

/// A record that lacks a field of an index is not in it, so that an index is of no use to a query that asks for some of its
/// fields only.
#[test]
fn an_index_of_two_fields_hides_no_record_with_one() {
    let db = Database::open_in_memory().unwrap();
    db.query("CREATE INDEX FOR (b:B) ON (b.v, b.s)", ())
        .unwrap();
    db.query("CREATE (:B {v: 0}), (:B {v: 0, s: 'a'})", ())
        .unwrap();
    let count = |text: &str| {
        db.query(text, ())
            .unwrap()
            .single()
            .unwrap()
            .get::<i64>("c")
            .unwrap()
    };
    assert_eq!(count("MATCH (b:B {v: 0}) RETURN count(*) AS c"), 2);
    assert_eq!(count("MATCH (b:B) WHERE b.v >= 0 RETURN count(*) AS c"), 2);
    assert_eq!(
        count("MATCH (b:B {v: 0}) WHERE b.s > '' RETURN count(*) AS c"),
        1
    );
    db.query("MATCH (b:B) WHERE b.s IS NOT NULL DELETE b", ())
        .unwrap();
    assert_eq!(count("MERGE (b:B {v: 0}) RETURN count(*) AS c"), 1);
    assert_eq!(count("MATCH (b:B) RETURN count(*) AS c"), 1);
}

/// "All the rest" is often written as a limit that no result reaches.
#[test]
fn a_page_may_reach_beyond_64_bits() {
    let db = Database::open_in_memory().unwrap();
    let page = "UNWIND [3, 1, 2] AS x RETURN x ORDER BY x SKIP $skip LIMIT $limit";
    let ask = |skip: i64, limit: i64| db.query(page, params! { "skip" => skip, "limit" => limit });
    let all = ask(1, i64::MAX).unwrap();
    assert_eq!(all.deserialize::<i64>().unwrap(), [2, 3]);
    assert_eq!(ask(i64::MAX, i64::MAX).unwrap().len(), 0);
    let refused = ask(-1, i64::MAX).unwrap_err();
    assert!(refused.message().contains("SKIP"), "{refused}");
    let written = "UNWIND [3, 1, 2] AS x RETURN x ORDER BY x SKIP 1 LIMIT 9223372036854775807";
    assert_eq!(db.query(written, ()).unwrap().len(), 2);
}

/// A clause has run for all rows before the next one begins, also where the plan makes one operator of two.
#[test]
fn a_second_create_counts_what_the_first_one_made_for_all_rows() {
    let db = Database::open_in_memory().unwrap();
    let counts = db
        .query(
            "UNWIND [1, 2] AS x CREATE (:B) CREATE (c:C {v: COUNT { MATCH (:B) }}) RETURN c.v AS v ORDER BY v",
            (),
        )
        .unwrap();
    assert_eq!(counts.deserialize::<i64>().unwrap(), [2, 2]);
}

/// Relationships are created many at a time: in the order of the rows, all of them or none, and the first row that is wrong is named.
#[test]
fn relationships_of_many_rows_are_all_created_or_none() {
    let db = Database::open_in_memory().unwrap();
    let count = |text: &str| -> u64 {
        let found = db.query(text, ()).unwrap();
        found.single().unwrap().get("n").unwrap()
    };
    let create = "\
UNWIND range(0, 9) AS i CREATE (a:A {i: i})
WITH collect(a) AS all
UNWIND range(0, 4999) AS at
WITH all[at % 10] AS one, CASE at WHEN $wrong THEN null ELSE all[at / 7 % 10] END AS other
CREATE (one)-[r:R]->(other)
RETURN count(r) AS n, count(DISTINCT r) AS different";
    let refused = db.query(create, params! { "wrong" => 3_333 }).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid, "{refused}");
    assert!(refused.to_string().contains("`other` is null"), "{refused}");
    assert_eq!(count("MATCH (n) RETURN count(n) AS n"), 0);
    let found = db.query(create, params! { "wrong" => -1 }).unwrap();
    assert_eq!(found.counters().relationships_created, 5_000);
    let row = found.single().unwrap();
    let numbers: (u64, u64) = (row.get("n").unwrap(), row.get("different").unwrap());
    assert_eq!(numbers, (5_000, 5_000));
    assert_eq!(count("MATCH (:A)-[r:R]->(:A) RETURN count(r) AS n"), 5_000);
    let third = "MATCH (:A {i: 3})-[r:R]->(:A) RETURN count(r) AS n";
    assert_eq!(count(third), 500);
    let found = db.query("MATCH (:A)-[r:R]->(b:A) RETURN b.i AS b ORDER BY id(r)", ());
    let ends: Vec<u64> = found.unwrap().deserialize().unwrap();
    assert!(
        (0..5_000).map(|at| at / 7 % 10).eq(ends),
        "in the order of the rows"
    );
}

/// A node that the same statement deleted is no end, whichever row it stands in.
#[test]
fn a_deleted_node_is_no_end() {
    let db = Database::open_in_memory().unwrap();
    db.query("UNWIND range(0, 9) AS i CREATE (:A {i: i})", ())
        .unwrap();
    let text = "\
MATCH (a:A) WITH collect(a) AS all
CALL (all) { UNWIND all AS a WITH a WHERE a.i = 7 DELETE a RETURN count(*) AS gone }
UNWIND all AS one UNWIND all AS other CREATE (one)-[:R]->(other)";
    let refused = db.query(text, ()).unwrap_err();
    assert!(refused.to_string().contains("deleted"), "{refused}");
    let found = db.query("MATCH (a:A) RETURN count(a) AS n", ()).unwrap();
    assert_eq!(found.single().unwrap().get::<u64>("n").unwrap(), 10);
}
