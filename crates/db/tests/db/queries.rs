//! Queries through the public API: one query must not affect another.

use isomer_db::{Database, ErrorKind, Limits, Query, QueryOptions, Value, params};

use isomer_testkit::second_process;

use crate::place;

/// A plan that was made for a text with literals serves a text with parameters in their place, but not with the
/// literals' values.
#[test]
fn a_cached_plan_brings_no_value_of_another_query() {
    let db = place::open_empty().unwrap();
    db.query("CREATE (:User {name: 'ada'}), (:User {name: 'bob'})")
        .unwrap();
    let ada = "MATCH (u:User {name: 'ada'}) RETURN u.name AS name";
    assert_eq!(db.query(ada).unwrap().len(), 1);
    let by_parameter = "MATCH (u:User {name: $__0}) RETURN u.name AS name";
    let found = db
        .query((by_parameter, params! { "__0" => "bob" }))
        .unwrap();
    assert_eq!(found.deserialize::<String>().unwrap(), ["bob"]);
    let missing = db.query(by_parameter).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::Invalid, "{missing}");
    let again = db.query(ada).unwrap();
    assert_eq!(again.deserialize::<String>().unwrap(), ["ada"]);
}

/// The memory limit covers nested values: here 64 nodes of a mebibyte each.
#[test]
fn gathered_nodes_count_against_the_memory_limit() {
    let db = place::open_empty().unwrap();
    let text = "x".repeat(1 << 20);
    for _ in 0..64 {
        db.query((
            "CREATE (:Large {parts: [[$text]]})",
            params! { "text" => text.as_str() },
        ))
        .unwrap();
    }
    let mut limits = Limits::default();
    limits.memory_bytes = 32 << 20;
    let options = QueryOptions::new().limits(limits);
    let refused = db
        .query(Query::new("MATCH (l:Large) RETURN l").options(&options))
        .unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Limit, "{refused}");
    let streamed = db
        .stream(Query::new("MATCH (l:Large) RETURN l").options(&options))
        .unwrap();
    assert_eq!(streamed.filter(Result::is_ok).count(), 64);
}

/// Operands and results are alive at the same time: doubling a string needs three times its length, doubling a list
/// twice.
#[test]
fn a_growing_value_counts_with_its_operands() {
    let db = place::open_empty().unwrap();
    let mut limits = Limits::default();
    limits.memory_bytes = 8 << 20;
    let options = QueryOptions::new().limits(limits);
    let grown = |start: Value, times: i64| -> isomer_db::Result<i64> {
        let query = "RETURN size(reduce(v = $start, x IN range(1, $times) | v + v)) AS size";
        let params = params! { "start" => start, "times" => times };
        db.query(Query::new(query).params(params).options(&options))?
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

/// Values nest as deep as records may; a deeper parameter is refused before any recursion over it.
#[test]
fn a_parameter_that_nests_too_deep_is_refused() {
    let db = place::open_empty().unwrap();
    let nested =
        |levels: usize| (0..levels).fold(Value::Int(1), |value, _| Value::from(vec![value]));
    let same = db.query(("RETURN $v = $v AS same", params! { "v" => nested(128) }));
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
                .query((query, params! { "v" => nested(levels) }))
                .unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Limit, "{query}: {refused}");
            assert!(refused.to_string().contains("$v"), "{refused}");
        }
    }
}

/// `SHOW` lists existing names, not every name that was ever looked up.
#[test]
fn show_lists_existing_names_only() {
    let db = place::open_empty().unwrap();
    db.query("CREATE (:Real)-[:KNOWS]->(:Gone)").unwrap();
    db.query("MATCH (n:Gone) DETACH DELETE n").unwrap();
    db.query("MATCH (n:Typo)-[:TYPPO]->() SET n.x = 1").unwrap();
    db.transact(|tx| {
        tx.bucket("plain").put("key", 1)?;
        tx.bucket("dropped").put("key", 1)?;
        let options = isomer_db::BucketOptions::reversible();
        tx.bucket("reversible").create(options)
    })
    .unwrap();
    db.transact(|tx| tx.bucket("dropped").drop_bucket())
        .unwrap();
    let rows = |text: &str| -> Vec<Vec<Value>> {
        let rows = db.query(text).unwrap().into_rows();
        rows.into_iter().map(isomer_db::Row::into_values).collect()
    };
    assert_eq!(rows("SHOW LABELS"), [[Value::from("Real"), Value::from(1)]]);
    assert_eq!(rows("SHOW TYPES"), Vec::<Vec<Value>>::new());
    let buckets = [["plain", "plain"], ["reversible", "reversible"]];
    let mut shown = rows("SHOW BUCKETS");
    shown.retain(|row| row[0] != Value::from(second_process::BUCKET));
    assert_eq!(shown, buckets.map(|row| row.map(Value::from)));
}

/// A record that lacks a field of an index is not in the index, which is therefore useless for a query on some of its
/// fields only.
#[test]
fn an_index_of_two_fields_hides_no_record_with_one() {
    let db = place::open_empty().unwrap();
    db.query("CREATE INDEX FOR (b:B) ON (b.v, b.s)").unwrap();
    db.query("CREATE (:B {v: 0}), (:B {v: 0, s: 'a'})").unwrap();
    let count = |text: &str| {
        db.query(text)
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
    db.query("MATCH (b:B) WHERE b.s IS NOT NULL DELETE b")
        .unwrap();
    assert_eq!(count("MERGE (b:B {v: 0}) RETURN count(*) AS c"), 1);
    assert_eq!(count("MATCH (b:B) RETURN count(*) AS c"), 1);
}

/// A limit that no result reaches is often used for "all the rest".
#[test]
fn a_page_may_reach_beyond_64_bits() {
    let db = place::open_empty().unwrap();
    let page = "UNWIND [3, 1, 2] AS x RETURN x ORDER BY x SKIP $skip LIMIT $limit";
    let ask =
        |skip: i64, limit: i64| db.query((page, params! { "skip" => skip, "limit" => limit }));
    let all = ask(1, i64::MAX).unwrap();
    assert_eq!(all.deserialize::<i64>().unwrap(), [2, 3]);
    assert_eq!(ask(i64::MAX, i64::MAX).unwrap().len(), 0);
    let refused = ask(-1, i64::MAX).unwrap_err();
    assert!(refused.message().contains("SKIP"), "{refused}");
    let written = "UNWIND [3, 1, 2] AS x RETURN x ORDER BY x SKIP 1 LIMIT 9223372036854775807";
    assert_eq!(db.query(written).unwrap().len(), 2);
}

/// A clause has run for all rows before the next one begins, even if the plan merges two clauses into one operator.
#[test]
fn a_second_create_sees_all_rows_of_the_first() {
    let db = place::open_empty().unwrap();
    let counts = db
        .query("UNWIND [1, 2] AS x CREATE (:B) CREATE (c:C {v: COUNT { MATCH (:B) }}) RETURN c.v AS v ORDER BY v")
        .unwrap();
    assert_eq!(counts.deserialize::<i64>().unwrap(), [2, 2]);
}

/// Relationships are created in batches: in the order of the rows, all or none, and the error names the first invalid
/// row.
#[test]
fn relationships_of_many_rows_are_all_created_or_none() {
    let db = place::open_empty().unwrap();
    let count = |text: &str| -> u64 {
        let found = db.query(text).unwrap();
        found.single().unwrap().get("n").unwrap()
    };
    let create = "\
UNWIND range(0, 9) AS i CREATE (a:A {i: i})
WITH collect(a) AS all
UNWIND range(0, 4999) AS at
WITH all[at % 10] AS one, CASE at WHEN $wrong THEN null ELSE all[at / 7 % 10] END AS other
CREATE (one)-[r:R]->(other)
RETURN count(r) AS n, count(DISTINCT r) AS different";
    let refused = db
        .query((create, params! { "wrong" => 3_333 }))
        .unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid, "{refused}");
    assert!(refused.to_string().contains("`other` is null"), "{refused}");
    assert_eq!(count("MATCH (n) RETURN count(n) AS n"), 0);
    let found = db.query((create, params! { "wrong" => -1 })).unwrap();
    assert_eq!(found.counters().relationships_created, 5_000);
    let row = found.single().unwrap();
    let numbers: (u64, u64) = (row.get("n").unwrap(), row.get("different").unwrap());
    assert_eq!(numbers, (5_000, 5_000));
    assert_eq!(count("MATCH (:A)-[r:R]->(:A) RETURN count(r) AS n"), 5_000);
    let third = "MATCH (:A {i: 3})-[r:R]->(:A) RETURN count(r) AS n";
    assert_eq!(count(third), 500);
    let found = db.query("MATCH (:A)-[r:R]->(b:A) RETURN b.i AS b ORDER BY id(r)");
    let ends: Vec<u64> = found.unwrap().deserialize().unwrap();
    assert!(
        (0..5_000).map(|at| at / 7 % 10).eq(ends),
        "in the order of the rows"
    );
}

/// A node that the same statement deleted cannot be an end, whatever row it is in.
#[test]
fn a_deleted_node_is_no_end() {
    let db = place::open_empty().unwrap();
    db.query("UNWIND range(0, 9) AS i CREATE (:A {i: i})")
        .unwrap();
    let text = "\
MATCH (a:A) WITH collect(a) AS all
CALL (all) { UNWIND all AS a WITH a WHERE a.i = 7 DELETE a RETURN count(*) AS gone }
UNWIND all AS one UNWIND all AS other CREATE (one)-[:R]->(other)";
    let refused = db.query(text).unwrap_err();
    assert!(refused.to_string().contains("deleted"), "{refused}");
    let found = db.query("MATCH (a:A) RETURN count(a) AS n").unwrap();
    assert_eq!(found.single().unwrap().get::<u64>("n").unwrap(), 10);
}

/// Both forms of an element id find the same records in all comparisons; an id of another database, of the other kind,
/// or an invalid one finds nothing, and is not an error.
#[test]
fn element_ids_name_one_record_of_one_kind_in_one_database() {
    let db = place::open_empty().unwrap();
    let other = place::open_empty().unwrap();
    let make = "UNWIND range(0, 9) AS i CREATE (:A {i: i})-[:R {i: i}]->(:B {i: i})";
    for db in [&db, &other] {
        db.query(make).unwrap();
    }
    let ids = |db: &Database, text: &str| -> Vec<String> {
        db.query(text).unwrap().deserialize().unwrap()
    };
    const NODES: &str = "MATCH (n:A) RETURN elementId(n) AS id ORDER BY n.i";
    const RELATIONSHIPS: &str = "MATCH ()-[r:R]->() RETURN elementId(r) AS id ORDER BY r.i";
    let (nodes, relationships) = (ids(&db, NODES), ids(&db, RELATIONSHIPS));
    assert!(nodes.iter().all(|id| id.starts_with("4:")), "{nodes:?}");
    assert!(
        relationships.iter().all(|id| id.starts_with("5:")),
        "{relationships:?}"
    );
    let count = |text: &str, id: Value| -> i64 {
        let result = db.query((text, params! { "id" => id })).unwrap();
        result.single().unwrap().get("c").unwrap()
    };
    let number = |id: &str| id.rsplit(':').next().unwrap().to_owned();
    let of_node = [
        "MATCH (n) WHERE elementId(n) = $id RETURN count(n) AS c",
        "MATCH (n:A) WHERE $id = elementId(n) RETURN count(n) AS c",
        "MATCH (n:A) WHERE elementId(n) IN [$id, 'no'] RETURN count(n) AS c",
        "MATCH (n:A) WHERE elementId(n) IN [null, $id] RETURN count(n) AS c",
        "UNWIND [$id] AS id MATCH (n:A) WHERE elementId(n) = id RETURN count(n) AS c",
        "MATCH (n:A) WITH n WHERE elementId(n) = $id OR n.i = 99 RETURN count(n) AS c",
        "MATCH (n:A) WITH [n] AS ns UNWIND ns AS x WITH x WHERE elementId(x) = $id RETURN count(x) AS c",
        "MATCH (n:A) WITH {x: n} AS m WHERE elementId(m.x) IN [$id] RETURN count(m) AS c",
        "MATCH (a:A)-[r:R]->() WHERE elementId(startNode(r)) = $id RETURN count(a) AS c",
        "MATCH (n:A) RETURN 10 - sum(CASE WHEN elementId(n) <> $id THEN 1 ELSE 0 END) AS c",
    ];
    let wrong = |mine: &str, kind: &str| -> Vec<Value> {
        let (_, rest) = mine.split_once(':').unwrap();
        let texts = [
            format!("{kind}:{rest}"),
            mine.to_uppercase() + "x",
            format!("{mine}0000000000000000000000"),
            format!("0{}", number(mine)),
            format!(" {}", number(mine)),
            "-1".to_owned(),
            String::new(),
        ];
        let others = [
            Value::Int(number(mine).parse().unwrap()),
            Value::Bool(true),
            Value::Float(0.0),
        ];
        texts
            .iter()
            .map(|text| text.as_str().into())
            .chain(others)
            .collect()
    };
    for text in of_node {
        for id in [&nodes[3], &number(&nodes[3])] {
            assert_eq!(count(text, id.as_str().into()), 1, "{text} {id}");
        }
        for id in wrong(&nodes[3], "5") {
            assert_eq!(count(text, id.clone()), 0, "{text} {id:?}");
        }
        let foreign = ids(&other, NODES);
        assert_eq!(count(text, foreign[3].as_str().into()), 0, "{text}");
    }
    let of_relationship = [
        "MATCH ()-[r]->() WHERE elementId(r) = $id RETURN count(r) AS c",
        "MATCH (:A)-[r:R]->() WHERE elementId(r) IN [$id] RETURN count(r) AS c",
        "MATCH ()-[r]->() WITH [r] AS rs UNWIND rs AS x WITH x WHERE elementId(x) = $id RETURN count(x) AS c",
    ];
    for text in of_relationship {
        for id in [&relationships[3], &number(&relationships[3])] {
            assert_eq!(count(text, id.as_str().into()), 1, "{text} {id}");
        }
        for id in wrong(&relationships[3], "4") {
            assert_eq!(count(text, id.clone()), 0, "{text} {id:?}");
        }
    }
    // Null stays null.
    for text in [
        "MATCH (n:A) RETURN elementId(n) = null AS t LIMIT 1",
        "MATCH (n:A) RETURN elementId(n) IN null AS t LIMIT 1",
        "MATCH (n:A) RETURN elementId(n) IN [null, 'x'] AS t LIMIT 1",
        "OPTIONAL MATCH (n:None) RETURN elementId(n) = 'x' AS t",
        "RETURN elementId(null) IN ['x'] AS t",
    ] {
        let result = db.query(text).unwrap();
        assert_eq!(
            result.single().unwrap().value("t").unwrap(),
            &Value::Null,
            "{text}"
        );
    }
    // A list that every row uses is converted once: this takes milliseconds, not minutes.
    let many: Vec<Value> = (0..20_000)
        .map(|number: i64| number.to_string().into())
        .collect();
    let found = db
        .query(("UNWIND range(1, 1000) AS _ MATCH (a:A)-[:R]->(b) WHERE elementId(b) IN $ids RETURN count(*) AS c", params! { "ids" => Value::from(many) }))
        .unwrap();
    assert_eq!(found.single().unwrap().get::<i64>("c").unwrap(), 10_000);
}

/// `IN` with something other than a list names what it got, as it was given, and says what it takes.
#[test]
fn in_with_no_list_says_what_it_got() {
    let db = place::open_empty().unwrap();
    db.query("CREATE (:A {i: 1})-[:R]->(:A {i: 2})").unwrap();
    for (value, shown) in [
        (Value::from("0"), "the string '0'"),
        (Value::from(7), "the integer 7"),
        (Value::from(1.5), "the float 1.5"),
        (Value::from(true), "the boolean true"),
        (Value::Map(std::sync::Arc::default()), "a map of 0"),
    ] {
        for text in [
            "RETURN 1 IN $value",
            "MATCH (n:A) RETURN n.i IN $value",
            "MATCH (n:A) WHERE n.i IN $value RETURN n",
            "MATCH (n) WHERE elementId(n) IN $value RETURN n",
            "MATCH (n:A) WHERE id(n) IN $value RETURN n",
            "MATCH (n:A) RETURN elementId(n) IN $value",
            "MATCH ()-[r:R]->() WHERE elementId(r) IN $value RETURN r",
            "MATCH (n:A) WITH {x: n} AS m RETURN elementId(m.x) IN $value",
        ] {
            let error = db
                .query((text, params! { "value" => value.clone() }))
                .unwrap_err()
                .to_string();
            assert!(
                error.contains("IN takes a list on its right") && error.contains(shown),
                "{text}: {error}"
            );
        }
    }
    for text in [
        "MATCH (n) WHERE elementId(n) IN '0' RETURN n",
        "MATCH (n:A) WHERE n.i IN '0' RETURN n",
        "RETURN '0' IN '0'",
    ] {
        let error = db.query(text).unwrap_err().to_string();
        assert!(
            error.contains("IN takes a list on its right") && error.contains("string"),
            "{text}: {error}"
        );
    }
}

/// An id stored by a client remains valid after the database was closed and reopened.
#[test]
fn element_ids_outlive_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let text = "MERGE (n:A {_key: 'a'}) RETURN elementId(n) AS id";
    let id = |path: &std::path::Path| -> String {
        let db = place::open(path).unwrap();
        let id = db.query(text).unwrap().single().unwrap().get("id").unwrap();
        db.close().unwrap();
        id
    };
    let (first, other) = (folder.path().join("one"), folder.path().join("two"));
    assert_eq!(id(&first), id(&first));
    assert_ne!(id(&first), id(&other));
}
