//! Plans depend on the content of the database, and show estimated and actual rows.

use isomer_db::{Database, QueryResult, Value, params};

use crate::place::{self, Opening as _};

/// 3,000 orders, nearly all of them closed, each of one of 30 customers; a hundred customers have no order.
fn shop(db: Database) -> Database {
    for statement in [
        "UNWIND range(0, 129) AS i CREATE (:Customer {_key: i, vip: i < 3})",
        "UNWIND range(0, 2999) AS i
         CREATE (o:Order {_key: i, number: i, state: CASE i % 300 WHEN 7 THEN 'open' ELSE 'closed' END, total: i % 97})",
        "MATCH (o:Order), (c:Customer {_key: 7}) WHERE o.number % 30 <> 1 CREATE (o)-[:OF]->(c)",
        "MATCH (o:Order) WHERE o.number % 30 = 1 MATCH (c:Customer {_key: o.number % 29}) CREATE (o)-[:OF]->(c)",
        "CREATE INDEX FOR (o:Order) ON (o.state)",
        "CREATE INDEX FOR (o:Order) ON (o.total)",
    ] {
        db.query(statement).expect(statement);
    }
    db
}

fn in_memory() -> Database {
    shop(place::open_empty().expect("a database"))
}

fn plan(result: &QueryResult) -> &str {
    result.plan().expect("it was asked for")
}

fn estimate(db: &Database, text: &str) -> String {
    let result = db.query(text).expect(text);
    let first = plan(&result).lines().next().expect("a line");
    first.rsplit('~').next().expect("an estimate").to_owned()
}

#[test]
fn a_skewed_literal_gets_a_separate_plan() {
    let db = in_memory();
    let text = |state: &str| format!("EXPLAIN MATCH (o:Order {{state: '{state}'}}) RETURN o");
    // In either order, and again from the cache.
    for state in ["closed", "open", "lost", "open", "closed"] {
        let expected = match state {
            "closed" => "2900",
            "open" => "10",
            _ => "1",
        };
        assert_eq!(estimate(&db, &text(state)), expected, "{state}");
    }
    for (state, count) in [
        ("closed", 2_990),
        ("open", 10),
        ("lost", 0),
        ("closed", 2_990),
    ] {
        let text = format!("MATCH (o:Order {{state: '{state}'}}) RETURN count(o.total) AS orders");
        let result = db.query(&text).expect("counted");
        assert_eq!(
            result.rows()[0].get::<i64>("orders").expect("a count"),
            count
        );
    }
}

#[test]
fn a_profile_tells_rows_time_and_memory_as_text_and_as_json() {
    let db = in_memory();
    let text = "PROFILE MATCH (o:Order) WHERE o.number * 7 >= 0 WITH o ORDER BY o.number DESC RETURN o.number AS n";
    let result = db.query(text).expect("profiled");
    assert_eq!(result.len(), 3_000);
    let plan = plan(&result).to_owned();
    let sort = plan
        .lines()
        .find(|line| line.starts_with("Sort"))
        .expect("a sort");
    assert!(
        sort.contains("rows 3000") && sort.contains(" ms") && sort.contains(" KiB"),
        "{sort}"
    );
    let json: serde_json::Value =
        serde_json::from_str(result.plan_json().expect("JSON")).expect("JSON");
    let mut operators = vec![&json["plan"]];
    let mut held = 0;
    while let Some(operator) = operators.pop() {
        for figure in [
            "rows",
            "actual_rows",
            "time_ms",
            "own_time_ms",
            "memory_bytes",
        ] {
            assert!(operator[figure].is_number(), "{figure} in {operator}");
        }
        if operator["operator"] == "Sort" {
            assert_eq!(operator["actual_rows"], 3_000);
            held = operator["memory_bytes"].as_u64().expect("bytes");
        }
        operators.extend(operator["inputs"].as_array().expect("a list"));
    }
    assert!(held > 3_000 * 8, "a sort holds its rows: {held} bytes");
    let explained = db
        .query("EXPLAIN MATCH (o:Order) RETURN o")
        .expect("explained");
    let json: serde_json::Value =
        serde_json::from_str(explained.plan_json().expect("JSON")).expect("JSON");
    assert_eq!(json["plan"]["rows"], 3_000.0);
    assert!(json["plan"]["actual_rows"].is_null());
    assert!(db.query("RETURN 1").expect("run").plan_json().is_none());
}

#[test]
fn an_estimate_that_was_far_off_shows() {
    let db = in_memory();
    // No statistics tell that every number passes.
    let text = "PROFILE MATCH (o:Order) WHERE o.number % 10 = o.number % 10 AND o.number + 1 = o.number + 1 AND o.total = o.total RETURN o.number";
    let result = db.query(text).expect("profiled");
    assert_eq!(result.len(), 3_000);
    assert!(
        plan(&result).contains("times the estimate)"),
        "{}",
        plan(&result)
    );
    let result = db
        .query("PROFILE MATCH (o:Order) RETURN o.number")
        .expect("profiled");
    assert!(!plan(&result).contains("expected"), "{}", plan(&result));
}

#[test]
fn statistics_are_listed_and_change_no_answer() {
    let db = in_memory();
    let listed = db
        .query("CALL db.statistics() YIELD kind, name, count, distinctCount, common RETURN kind, name, count, distinctCount, common[0].value AS first")
        .expect("listed");
    let find = |kind: &str, name: &str| {
        let row = listed.iter().find(|row| {
            row.get::<String>("kind").expect("a kind") == kind
                && row.get::<String>("name").expect("a name") == name
        });
        row.unwrap_or_else(|| panic!("no {kind} {name}"))
    };
    let count = |kind: &str, name: &str| find(kind, name).get::<i64>("count").expect("a count");
    assert_eq!(count("label", "(:Order)"), 3_000);
    assert_eq!(count("label", "(:Customer)"), 130);
    assert_eq!(count("type", "()-[:OF]->()"), 3_000);
    assert_eq!(count("ends", "(:Order)-[:OF]->(:Customer)"), 3_000);
    let state = find("property", "(:Order).state");
    assert_eq!(state.get::<i64>("distinctCount").expect("a count"), 2);
    assert_eq!(state.get::<String>("first").expect("a value"), "closed");
    let plain = shop(
        Database::builder()
            .plan_statistics(false)
            .open_empty()
            .expect("a database"),
    );
    for query in [
        "MATCH (c:Customer {vip: true})<-[:OF]-(o:Order {state: 'open'}) RETURN c, o.number ORDER BY o.number",
        "MATCH (o:Order {state: 'open'})-[:OF]->(c)<-[:OF]-(p:Order {total: 5}) RETURN count(*) AS n, min(p.number) AS m",
        "MATCH (o:Order) RETURN o.number ORDER BY o.total, o.number LIMIT 5",
        "MATCH (o:Order) WHERE o.state <> 'closed' RETURN o.total AS t, count(*) AS n ORDER BY t",
    ] {
        let shown = |db: &Database| {
            let result = db.query(query).expect(query);
            let rows: Vec<String> = result
                .iter()
                .map(|row| format!("{:?}", row.values()))
                .collect();
            rows
        };
        assert_eq!(shown(&db), shown(&plain), "{query}");
    }
}

/// An index finds by equality exactly what scanning the nodes finds, for any value: numbers of either type, values that
/// contain nulls or NaN, times of the same instant, points.
#[test]
fn index_equality_equals_a_scan() {
    let values = "[0, 0.0, -0.0, 1, 1.0, 9007199254740993, 9007199254740992.0, 0.0 / 0.0, true, '', 'a', 'A', \
        [], [1], [1.0], [1, null], [0.0 / 0.0], [[1], 'a'], {a: 1}, {a: 1.0}, {a: null}, {}, \
        date('2024-02-29'), localdatetime('2024-02-29T12:00'), datetime('2024-02-29T12:00Z'), \
        datetime('2024-02-29T13:00+01:00'), time('12:00Z'), time('13:00+01:00'), duration('P1D'), duration('PT24H'), \
        duration('P1M'), point({x: 1, y: 2}), point({x: 1.0, y: 2.0, z: 3.0}), point({longitude: 1, latitude: 2})]";
    let db = place::open_empty().expect("a database");
    let make = format!(
        "UNWIND {values} AS value UNWIND ['x', 'y'] AS kind CREATE (:Plain {{value: value, kind: kind}}), (:Indexed {{value: value, kind: kind}})"
    );
    let indexes = [
        "CREATE INDEX alone FOR (n:Indexed) ON (n.value)",
        "CREATE INDEX both FOR (n:Both) ON (n.kind, n.value)",
        "CREATE INDEX first FOR (n:First) ON (n.value, n.kind)",
    ];
    for statement in [&make[..], "MATCH (n:Indexed) SET n:Both:First"]
        .iter()
        .chain(&indexes)
    {
        db.query(statement).expect(statement);
    }
    let given = db
        .query(&format!("UNWIND {values} AS value RETURN value"))
        .expect("values");
    let ask = |text: &str, value: &Value| -> Vec<String> {
        let found = db.query((text, params! { "value" => value.clone() }));
        let rows = found.expect(text);
        rows.iter()
            .map(|row| row.get::<String>("found").expect("a text"))
            .collect()
    };
    let mut found_by_index = 0;
    for row in &given {
        let value = row.value("value").expect("a value").clone();
        for tests in [
            "n.value = $value",
            "n.kind = 'y' AND n.value = $value",
            "n.value = $value AND n.kind > 'x'",
        ] {
            let text = |label: &str| {
                format!(
                    "MATCH (n:{label}) WHERE {tests} RETURN toString(n.kind) + toString(valueType(n.value)) AS found ORDER BY found"
                )
            };
            let expected = ask(&text("Plain"), &value);
            for label in ["Indexed", "Both", "First"] {
                assert_eq!(
                    ask(&text(label), &value),
                    expected,
                    "{label}, {tests}, {value:?}"
                );
            }
            found_by_index += expected.len();
        }
    }
    assert!(found_by_index > 100, "{found_by_index}");
    let plan_of = db.query((
        "EXPLAIN MATCH (n:Indexed) WHERE n.value = $value RETURN n",
        params! { "value" => 1 },
    ));
    let plan_of = plan_of.expect("a plan");
    assert!(
        plan(&plan_of).contains("IndexSeek") && !plan(&plan_of).contains("Filter"),
        "{}",
        plan(&plan_of)
    );
}

/// Notices are up to date: a name that was unknown is not reported any more once it exists.
#[test]
fn a_cached_plan_drops_the_notice_once_the_name_exists() {
    let db = place::open_empty().unwrap();
    let query = "MATCH (:Person)-[:LIKES]->(x) RETURN x";
    let prepared = db.prepare(query).unwrap();
    for notices in [2, 2, 0] {
        if notices == 0 {
            db.query("CREATE (:Person)-[:LIKES]->(:Person)").unwrap();
        }
        let found = db.query(query).unwrap();
        assert_eq!(found.notices().len(), notices, "{:?}", found.notices());
        let found = prepared.query(()).unwrap();
        assert_eq!(found.notices().len(), notices, "{:?}", found.notices());
    }
}
