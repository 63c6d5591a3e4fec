//! Graph algorithms through the public API: what they see, what they refuse, and what footprint they leave.

use std::time::{Duration, Instant};

use isomer_db::{
    Database, ErrorKind, Query, QueryOptions, Value, internals::DatabaseInternals as _,
};

use crate::place;

fn database() -> Database {
    let database = place::open_empty().unwrap();
    database
        .query("CREATE (a:P {n: 1}), (b:P {n: 2}), (c:P {n: 3}), (x:Q {n: 4}), \
             (a)-[:T {w: 1.5}]->(b), (b)-[:T {w: 2}]->(c), (a)-[:T {w: 9}]->(c), (c)-[:U]->(x), (a)-[:T {w: 1}]->(a)")
        .unwrap();
    database
}

/// The rows of a query whose cells are numbers or nulls.
fn numbers(database: &Database, query: &str) -> Vec<Vec<f64>> {
    let rows = database.query(query).unwrap();
    let number = |value: &Value| value.to_f64().unwrap_or(f64::NAN);
    rows.iter()
        .map(|row| row.values().iter().map(number).collect())
        .collect()
}

#[test]
fn labels_types_and_direction_choose_the_part() {
    let database = database();
    let degrees = |options: &str| {
        let query = format!(
            "CALL algo.degree({options}) YIELD node, degree RETURN node.n AS n, degree ORDER BY n"
        );
        numbers(&database, &query)
            .iter()
            .map(|row| (row[0] as i64, row[1] as i64))
            .collect::<Vec<_>>()
    };
    assert_eq!(degrees(""), [(1, 3), (2, 1), (3, 1), (4, 0)]);
    assert_eq!(degrees("{labels: 'P'}"), [(1, 3), (2, 1), (3, 0)]);
    assert_eq!(
        degrees("{labels: ['Q', 'P'], types: ['U']}"),
        [(1, 0), (2, 0), (3, 1), (4, 0)]
    );
    assert_eq!(
        degrees("{labels: 'P', direction: 'incoming'}"),
        [(1, 1), (2, 1), (3, 2)]
    );
    assert_eq!(
        degrees("{labels: 'P', direction: 'both'}"),
        [(1, 3), (2, 2), (3, 2)]
    );
    assert_eq!(degrees("{labels: 'Nobody'}"), []);
    assert_eq!(
        degrees("{labels: 'P', types: 'Nothing'}"),
        [(1, 0), (2, 0), (3, 0)]
    );
}

#[test]
fn distances_carry_their_way_back() {
    let database = database();
    let rows = numbers(
        &database,
        "MATCH (a:P {n: 1}) CALL algo.distances(a, {types: 'T', weight: 'w'}) YIELD node, distance, previous \
         RETURN node.n, distance, previous.n",
    );
    assert_eq!(rows[1..], [[2.0, 1.5, 1.0], [3.0, 3.5, 2.0]]);
    assert_eq!((rows[0][0], rows[0][1]), (1.0, 0.0));
    assert!(rows[0][2].is_nan(), "the source comes from nowhere");
}

#[test]
fn invalid_options_are_refused_by_name() {
    let database = database();
    for (call, words) in [
        (
            "algo.pageRank({dampng: 0.5})",
            "no option `dampng`: it takes labels, types, direction",
        ),
        (
            "algo.pageRank({damping: 1.5})",
            "`damping` takes a number from 0 to 1, not the float 1.5",
        ),
        ("algo.pageRank({iterations: 0})", "an integer from 1"),
        (
            "algo.pageRank({direction: 'up'})",
            "one of 'outgoing', 'incoming', 'both'",
        ),
        ("algo.kCore({direction: 'both'})", "no option `direction`"),
        (
            "algo.degree({labels: 1})",
            "a string or a list of strings, not the integer 1",
        ),
        ("algo.louvain({defaultWeight: 1})", "name the property"),
        ("algo.louvain({weight: 'w'})", "defaultWeight"),
        (
            "algo.louvain({weight: 'n', defaultWeight: -1})",
            "a number from 0, not the integer -1",
        ),
        ("algo.betweenness({samples: 0})", "an integer from 1"),
        ("algo.betweenness({normalized: 1})", "true or false"),
    ] {
        let query = format!("CALL {call} YIELD node RETURN count(*)");
        let error = database.query(&query).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{query}: {error}");
        assert!(error.to_string().contains(words), "{query}: {error}");
    }
    let outside = "MATCH (x:Q) CALL algo.distances(x, {labels: 'P'}) YIELD node RETURN node";
    let error = database.query(outside).unwrap_err();
    assert!(
        error.to_string().contains("`labels` leaves it out"),
        "{error}"
    );
}

#[test]
fn a_call_sees_its_transaction_and_nothing_else() {
    let database = database();
    let before = database.begin_read().unwrap();
    let own = database.begin().unwrap();
    own.query("MATCH (x:Q) CREATE (x)-[:U]->(:Q {n: 5})")
        .unwrap();
    own.query("MATCH (a:P {n: 1}) DETACH DELETE a").unwrap();
    let query = "CALL algo.weaklyConnected() YIELD node, component RETURN component, count(*) AS n ORDER BY component";
    let counts = |rows: isomer_db::QueryResult| {
        rows.iter()
            .map(|row| row.values()[1].as_int().unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(counts(own.query(query).unwrap()), [4]);
    own.query("MATCH (:P {n: 3})-[u:U]->() DELETE u").unwrap();
    assert_eq!(counts(own.query(query).unwrap()), [2, 2]);
    own.commit().unwrap();
    assert_eq!(counts(before.query(query).unwrap()), [4]);
    assert_eq!(counts(database.query(query).unwrap()), [2, 2]);
}

/// Write skew: two transactions each decide by an algorithm and then change what the other read; one of them conflicts.
#[test]
fn an_algorithm_has_read_its_labels_and_types() {
    let database = database();
    let decide = "CALL algo.degree({labels: 'P', types: 'T'}) YIELD degree RETURN sum(degree)";
    let link = "MATCH (a:P {n: 2}), (b:P {n: 1}) CREATE (a)-[:T]->(b)";
    let (mut one, mut two) = (database.begin().unwrap(), database.begin().unwrap());
    for transaction in [&mut one, &mut two] {
        transaction.query(decide).unwrap();
        transaction.query(link).unwrap();
    }
    one.commit().unwrap();
    assert_eq!(two.commit().unwrap_err().kind(), ErrorKind::Retry);

    // A type that was not requested does not conflict.
    let one = database.begin().unwrap();
    one.query(decide).unwrap();
    database
        .query("MATCH (a:P {n: 2}), (b:P {n: 1}) CREATE (a)-[:U]->(b)")
        .unwrap();
    one.query("CREATE (:Other)").unwrap();
    one.commit().unwrap();
}

#[test]
fn limits_hold_inside() {
    let database = place::open_empty().unwrap();
    database
        .query("UNWIND range(0, 3999) AS i CREATE (:N {i: i}) WITH count(*) AS all MATCH (n:N) WITH collect(n) AS ns \
             UNWIND range(0, 3999) AS i UNWIND [7, 31, 301] AS step WITH ns[i] AS a, ns[(i * step + 1) % 4000] AS b CREATE (a)-[:T]->(b)")
        .unwrap();
    let query =
        "CALL algo.betweenness({labels: 'N', direction: 'both'}) YIELD score RETURN sum(score)";
    let options = QueryOptions::new().time_limit(Duration::from_millis(50));
    let started = Instant::now();
    let error = database
        .query(Query::new(query).options(&options))
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
    // Without the limit it runs for much longer.
    assert!(started.elapsed() < Duration::from_secs(5));
}

/// Rows and views give the same results, including writes since the views were built and in the transaction itself.
#[test]
fn views_change_no_answer() {
    let database = database();
    let query = "CALL algo.pageRank({types: ['T', 'U'], direction: 'both'}) YIELD node, score RETURN node.n AS n, score ORDER BY n";
    let rows = |database: &Database| numbers(database, query);
    let first = rows(&database);
    database.views().wait_ready();
    assert!(database.views().status().iter().any(|view| view.count > 0));
    assert_eq!(rows(&database), first);
    database
        .query("MATCH (a:P {n: 2}), (x:Q {n: 4}) CREATE (x)-[:T]->(a), (:Q {n: 6})-[:U]->(x)")
        .unwrap();
    let overlaid = rows(&database);
    assert_ne!(overlaid, first);
    database.views().clear();
    assert_eq!(rows(&database), overlaid);
}

/// A graph of `count` places with roads between them that are longer than the straight line; some are dead ends.
fn places(count: u64, seed: u64, point: impl Fn(f64, f64) -> String) -> Database {
    let database = place::open_empty().unwrap();
    let mut state = seed;
    let mut random = move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / (1u64 << 31) as f64
    };
    let mut parts = Vec::new();
    for n in 0..count {
        let place = point(random(), random());
        parts.push(format!("(p{n}:Place {{n: {n}, at: {place}}})"));
    }
    database
        .query(&format!("CREATE {}", parts.join(", ")))
        .unwrap();
    for _ in 0..3 * count {
        let (one, other) = (
            (random() * count as f64) as i64,
            (random() * count as f64) as i64,
        );
        let longer = 1.0 + random() * random();
        let text = format!(
            "MATCH (a:Place {{n: {one}}}), (b:Place {{n: {other}}}) \
             CREATE (a)-[:ROAD {{metres: point.distance(a.at, b.at) * {longer}}}]->(b)"
        );
        database.query(&text).unwrap();
    }
    database
}

/// A* finds paths of the same weights as Dijkstra's algorithm, over the plane and over the earth.
#[test]
fn estimates_change_no_weight() {
    let plane = |x: f64, y: f64| format!("point({{x: {}, y: {}}})", x * 100.0, y * 100.0);
    let earth = |x: f64, y: f64| {
        let (longitude, latitude) = (x * 40.0 - 20.0, y * 60.0);
        format!("point({{longitude: {longitude}, latitude: {latitude}}})")
    };
    type PointText<'p> = &'p dyn Fn(f64, f64) -> String;
    let cases: [(u64, PointText<'_>); 3] = [(1, &plane), (2, &plane), (3, &earth)];
    let (mut found, mut none) = (0, 0);
    for (seed, point) in cases {
        let database = places(40, seed, point);
        for direction in ["outgoing", "both"] {
            for to in (0..40).step_by(7) {
                let ways = |options: &str| {
                    let text = format!(
                        "MATCH (a:Place {{n: 0}}), (b:Place {{n: {to}}}) \
                         CALL algo.shortestPaths(a, b, 3, {{weight: 'metres', direction: '{direction}'{options}}}) \
                         YIELD rank, path, weight \
                         RETURN rank, weight, reduce(sum = 0.0, r IN relationships(path) | sum + r.metres) AS sum ORDER BY rank"
                    );
                    numbers(&database, &text)
                };
                let wanted = ways("");
                for options in [
                    ", position: 'at'",
                    ", position: 'at', perUnit: 0.5",
                    ", position: 'at', perUnit: 0",
                ] {
                    let got = ways(options);
                    assert_eq!(got.len(), wanted.len());
                    for (got, wanted) in got.iter().zip(&wanted) {
                        let near = |a: f64, b: f64| (a - b).abs() <= 1e-9 * a.abs().max(1.0);
                        assert!(near(got[1], wanted[1]), "{seed} {to}: {got:?} {wanted:?}");
                        assert!(near(got[1], got[2]), "{got:?}");
                    }
                }
                found += wanted.len();
                none += usize::from(wanted.is_empty());
            }
        }
    }
    assert!(found > 60 && none > 0, "{found} found, {none} times none");
}

/// An inadmissible estimate is reported as far as it is visited, instead of returning a result.
#[test]
fn estimates_that_say_too_much_are_refused() {
    let database = place::open_empty().unwrap();
    database
        .query("CREATE (a:P {n: 1, at: point({x: 0, y: 0})}), (b:P {n: 2, at: point({x: 3, y: 4})}), (c:P {n: 3, at: point({x: 6, y: 8})}), \
             (d:P {n: 4}), (e:P {n: 5, at: point({longitude: 1, latitude: 2})}), (f:P {n: 6, at: point({longitude: 1, latitude: 2, height: 3})}), \
             (a)-[:T {w: 5}]->(b), (b)-[:T {w: 6}]->(c), (c)-[:T {w: 1}]->(d), (c)-[:T {w: 1}]->(e), (e)-[:T {w: -1}]->(f)")
        .unwrap();
    let call = |from: i64, to: i64, options: &str| {
        let text = format!(
            "MATCH (a:P {{n: {from}}}), (b:P {{n: {to}}}) \
             CALL algo.shortestPath(a, b, {{weight: 'w', {options}}}) YIELD weight RETURN weight"
        );
        let found = database.query(&text);
        found.map(|rows| {
            rows.iter()
                .map(|row| row.get::<f64>("weight").unwrap())
                .collect::<Vec<_>>()
        })
    };
    assert_eq!(call(1, 3, "position: 'at'").unwrap(), [11.0]);
    assert_eq!(
        call(3, 1, "position: 'at', types: 'None'").unwrap(),
        [0.0; 0]
    );
    assert_eq!(call(1, 1, "position: 'at'").unwrap(), [0.0]);
    for (from, to, options, says) in [
        (1, 3, "position: 'at', perUnit: 1.1", "lower `perUnit`"),
        (1, 3, "position: 'none'", "needs a point"),
        (1, 3, "perUnit: 1", "name the property"),
        (1, 3, "position: 'at', perUnit: -1", "a number from 0"),
        (1, 3, "position: 7", "a string"),
        (1, 4, "position: 'at'", "needs a point"),
        (1, 5, "position: 'at'", "one system"),
        (5, 6, "position: 'at'", "without a height"),
        (4, 3, "position: 'n'", "needs a point"),
        (
            5,
            6,
            "direction: 'both'",
            "weights must be finite and not negative",
        ),
    ] {
        let error = call(from, to, options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(
            error.to_string().contains(says),
            "{error} does not say {says}"
        );
    }
}
