//! Statements over large values give the same rows, in the same order, whether there is room for all rows of a batch
//! or for few.

use isomer_db::{Database, ErrorKind, Value, internals::ResultInternals as _, json};

use crate::place::Opening as _;

const LARGE: &str = "reduce(s = 'x', k IN range(1, 14) | s + s)";

/// What makes rows `i, v` with large values.
const PRODUCERS: &[&str] = &[
    "UNWIND range(1, 300) AS i WITH i, {LARGE} + toString(i % 40) AS v",
    "UNWIND range(1, 300) AS i WITH i, CASE WHEN i % 3 = 0 THEN i ELSE [{LARGE}, i % 50] END AS v",
    "UNWIND range(1, 300) AS i WITH i, {a: [{LARGE}], b: [k IN range(1, 9) | {LARGE} + toString(k)][i % 9]} AS v",
    "UNWIND range(1, 100) AS i WITH i, reduce(l = [], k IN range(1, 20) | l + [{LARGE} + toString(k)]) AS v",
    "UNWIND range(1, 150) AS j UNWIND [{LARGE}, {LARGE} + toString(j)] AS v WITH j AS i, v",
    "UNWIND range(1, 200) AS i WITH i, COLLECT { UNWIND range(1, i % 5) AS k RETURN {LARGE} + toString(k) } AS v",
    "MATCH (n:Large) WITH n.i AS i, n.p AS v",
    "MATCH (n:Large) WITH n.i AS i, n AS v",
    "MATCH (n:Large)-[r:TO]->(m) WITH m.i AS i, r.p AS v",
    "MATCH (n:Large)-[r:TO]->(m) WITH m.i AS i, [r, n] AS v",
    "MATCH (n:Large) OPTIONAL MATCH (n)-[r:TO]->(m) WITH n.i AS i, coalesce(m.p + 'x', r.p, {LARGE}) AS v",
];

const CONSUMERS: &[&str] = &[
    "RETURN i, v",
    "RETURN v, i, [v, i] AS w, {v: v}.v AS u",
    "RETURN v, i ORDER BY i % 7, i",
    "RETURN i, v ORDER BY i DESC LIMIT 25",
    "RETURN i, v SKIP 30 LIMIT 100",
    "WITH i, v WHERE toString(i) + toString(v IS NULL) > '2' AND v <> 7 RETURN i, v",
    "RETURN DISTINCT v",
    "RETURN i % 5 AS g, count(v) AS c, max(v) AS m ORDER BY g",
    "RETURN v AS g, count(*) AS c, collect(i) AS all",
    "WITH i % 60 AS g, collect(v) AS vs UNWIND vs AS v RETURN g, v",
    "UNWIND [v, [v, i]] AS w RETURN i, w",
    "WITH i, v MATCH (n:Large {i: i % 20}) RETURN i, v, n.i AS j",
    "WITH i, v OPTIONAL MATCH (n:Large) WHERE n.p = v RETURN i, v, n.i AS j",
    "WITH i, v WHERE EXISTS { MATCH (n:Large) WHERE n.i = i % 150 } RETURN i, v",
    "RETURN [x IN [v, i] WHERE x IS NOT NULL | [x]] AS l, any(x IN [v] WHERE x = v) AS a",
];

fn database(memory: usize) -> Database {
    let db = Database::builder()
        .memory(memory)
        .open_empty()
        .expect("it opens");
    let create = "UNWIND range(0, 119) AS i CREATE (n:Large {i: i, p: {LARGE} + toString(i)}) WITH n, i MATCH (m:Large {i: i / 2}) CREATE (n)-[:TO {p: {LARGE} + toString(i % 9)}]->(m)";
    db.query(&create.replace("{LARGE}", LARGE))
        .expect("created");
    db
}

/// The rows as text, one after the other.
fn rows(db: &Database, text: &str) -> Result<Vec<String>, isomer_db::Error> {
    let row = |row: isomer_db::Row| {
        let value: Value = row.into_values().into();
        Ok(json::to_string(&value).expect("no deep value"))
    };
    db.stream(text)?.map(|next| row(next?)).collect()
}

#[test]
fn rows_do_not_depend_on_how_many_are_evaluated_at_once() {
    let (large, small) = (database(1 << 30), database(24 << 20));
    let mut done = 0;
    for (at, producer) in PRODUCERS.iter().enumerate() {
        for consumer in CONSUMERS.iter().skip(at % 2).step_by(2) {
            let text = format!("{producer} {consumer}").replace("{LARGE}", LARGE);
            let expected = rows(&large, &text).unwrap_or_else(|error| panic!("{text}: {error}"));
            match rows(&small, &text) {
                Ok(found) => {
                    assert!(
                        found == expected,
                        "{text}: {} and {} rows",
                        found.len(),
                        expected.len()
                    );
                    done += 1;
                }
                Err(error) => assert_eq!(error.kind(), ErrorKind::Limit, "{text}: {error}"),
            }
        }
    }
    assert!(done > 60, "{done} are done");
}

/// What is held for values goes back when the query ends, also where its rows are not taken.
#[test]
fn nothing_stays_reserved() {
    let db = database(64 << 20);
    let memory = db.memory().expect("a budget");
    let used = || memory.usage(isomer_db::MemoryKind::Queries).used_bytes;
    let before = used();
    let text = format!("UNWIND range(1, 400) AS i RETURN {LARGE} + toString(i) AS v");
    let mut stream = db.stream(&text).expect("it runs");
    let first = stream.next().expect("a row").expect("no error");
    assert!(used() > before, "the rows of the batch are reserved");
    drop((stream, first));
    assert_eq!(used(), before);
    let result = db.query(&text).expect("done");
    assert!(result.held_bytes() >= 400 << 14);
    assert!(used() >= before + result.held_bytes());
    drop(result);
    assert_eq!(used(), before);
    let error = db
        .query(&format!(
            "RETURN reduce(l = [], k IN range(1, 5000) | l + [{LARGE} + toString(k)]) AS l"
        ))
        .expect_err("more than the budget");
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
    assert_eq!(used(), before);
}
