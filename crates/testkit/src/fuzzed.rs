//! Properties of any text given as a query. The fuzz targets `parse` and `query` call these functions with
//! generated texts, the tests with the texts in `fuzz/corpus`.

use std::time::Duration;

use isomer_cypher::{ast::StatementBody, parse};
use isomer_db::{Database, ErrorKind, Limits, Query, QueryOptions};

/// A text is parsed or rejected; the printed form of a parsed text parses to the same printed form.
pub fn parse_and_print(text: &str) {
    let Ok(statement) = parse(text) else { return };
    let printed = statement.to_string();
    match parse(&printed) {
        Ok(again) => assert_eq!(again.to_string(), printed, "the print of the print differs"),
        // The printed form may be longer and more deeply nested than the text, and so exceed a limit that the
        // text keeps.
        Err(error) => assert_eq!(
            error.detail,
            isomer_cypher::Detail::LimitExceeded,
            "the print of a statement is refused: {error:?}\n{printed}"
        ),
    }
}

/// The graph before each text.
const GRAPH: &str = "CREATE (a:A:B {i: 1, v: 1, s: 'a', l: [1, 2]}), (b:B {i: 2, v: 2.5, m: {x: {y: 1}}}), (c:C {i: 3}),
    (a)-[:T {w: 1}]->(b), (b)-[:T {w: 2}]->(c), (c)-[:U]->(a), (a)-[:V]->(a), (:D {_key: 'k', day: date('2020-02-29')})";

/// A database with a small graph and an index.
pub fn tiny_database() -> Database {
    let database = Database::builder()
        .sweep_interval(None)
        .open_in_memory()
        .expect("memory opens");
    database
        .query("CREATE INDEX FOR (n:A) ON (n.v)")
        .expect("the index is made");
    database.query(GRAPH).expect("the graph is made");
    database
}

/// A text is executed or rejected within small limits; an error is never an internal one. Its writes are
/// rolled back, so that the next text finds the same graph. A schema statement is only planned.
pub fn execute(database: &Database, text: &str) {
    let is_query =
        parse(text).is_ok_and(|statement| matches!(statement.body, StatementBody::Query(_)));
    let mut limits = Limits::default();
    limits.time = Some(Duration::from_millis(300));
    limits.memory_bytes = 8 << 20;
    limits.rows = Some(10_000);
    limits.path_steps = 20;
    let options = QueryOptions::new().limits(limits);
    let answer = if is_query {
        let transaction = database.begin().expect("a transaction begins");
        let answer = transaction
            .query(Query::new(text).options(&options))
            .map(drop);
        transaction.rollback();
        answer
    } else {
        database.prepare(text).map(drop)
    };
    if let Err(error) = answer {
        assert!(
            !matches!(error.kind(), ErrorKind::Internal | ErrorKind::Corrupt),
            "{error}"
        );
        assert!(!error.message().is_empty());
    }
}

/// Number of nodes and relationships in the database.
pub fn size(database: &Database) -> (i64, i64) {
    let count = |text: &str| {
        let answer = database.query(text).expect("counting works");
        let row = answer.single().expect("a count is one row");
        row.get::<i64>("c").expect("a count is a number")
    };
    (
        count("MATCH (n) RETURN count(*) AS c"),
        count("MATCH ()-[r]->() RETURN count(*) AS c"),
    )
}
