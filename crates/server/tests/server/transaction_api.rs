//! Neo4j's older HTTP interface.

use std::time::Instant;

use serde_json::{Value, json};

use crate::support::{Answer, Client, PASSWORD, Server};

fn basic(server: &Server, name: &str) -> Client {
    let text = format!("{name}:{PASSWORD}");
    let coded = base64::Engine::encode(&base64::prelude::BASE64_STANDARD, text);
    Client::at(server.address()).with("Authorization", &format!("Basic {coded}"))
}

/// The part of an answer at a path such as `errors/0/code`; null if there is none.
fn at<'v>(value: &'v Value, path: &str) -> &'v Value {
    value.pointer(&format!("/{path}")).unwrap_or(&Value::Null)
}

fn length(value: &Value, path: &str) -> Option<usize> {
    at(value, path).as_array().map(Vec::len)
}

fn code(answer: &Answer) -> String {
    at(&answer.value(), "errors/0/code")
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

#[test]
fn statements_run_in_one_transaction() {
    let server = Server::new();
    let admin = basic(&server, "admin");
    let body = r#"{"statements": [
        {"statement": "CREATE (a:A {n: $n})-[r:R {w: 2}]->(b:B) RETURN a, r, [b] AS list, 1 AS one, point({x: 1, y: 2}) AS p",
         "parameters": {"n": 7}, "resultDataContents": ["row", "graph"], "includeStats": true},
        {"statement": "MATCH p = (:A)-->(:B) RETURN p"}]}"#;
    let answer = admin.json("POST", "/db/people/tx/commit", body);
    assert_eq!(answer.status, 200, "{answer:?}");
    let value = answer.value();
    assert_eq!(length(&value, "errors"), Some(0), "{answer:?}");
    let data = "results/0/data/0";
    for (path, expected) in [
        ("results/0/columns/2", json!("list")),
        (&format!("{data}/row/0/n"), json!(7)),
        (&format!("{data}/row/1/w"), json!(2)),
        (&format!("{data}/row/3"), json!(1)),
        (&format!("{data}/row/4/coordinates/1"), json!(2.0)),
        (&format!("{data}/meta/0/type"), json!("node")),
        (&format!("{data}/meta/1/type"), json!("relationship")),
        (&format!("{data}/meta/2/type"), json!("node")),
        (&format!("{data}/meta/3"), Value::Null),
        (&format!("{data}/graph/nodes/1/labels/0"), json!("B")),
        (&format!("{data}/graph/relationships/0/type"), json!("R")),
        ("results/0/stats/nodes_created", json!(2)),
        ("results/1/data/0/row/0/1/w", json!(2)),
        ("results/1/data/0/meta/0/1/type", json!("relationship")),
        ("results/1/stats", Value::Null),
    ] {
        assert_eq!(*at(&value, path), expected, "{path} of {answer:?}");
    }
    let graph = at(&value, &format!("{data}/graph"));
    let start = at(graph, "relationships/0/startNode");
    assert_eq!(start, at(graph, "nodes/0/id"));
    assert!(!at(&value, "lastBookmarks/0").is_null());
}

/// A request that loses a race is repeated as a whole: nothing was sent. So are single queries of each interface.
#[test]
fn lost_races_are_repeated_by_the_server() {
    const CLIENTS: i64 = 40;
    let server = Server::new();
    server
        .admin()
        .rows("people", "CREATE (c:Counter {_key: 1, n: 0})");
    let add = "MATCH (c:Counter {_key: 1}) SET c.n = c.n + 1 RETURN c.n AS n";
    let twice =
        json!({"statements": [{"statement": add}, {"statement": "MATCH (c:Counter) RETURN c.n"}]});
    let requests = [
        ("/db/people/tx/commit", twice),
        ("/db/people/query/v2", json!({ "statement": add })),
        ("/v1/databases/people/query", json!({ "query": add })),
    ];
    for (round, (path, body)) in (1_i64..).zip(requests) {
        let clients: Vec<Client> = (0..CLIENTS)
            .map(|_| match path.starts_with("/v1") {
                true => server.admin(),
                false => basic(&server, "admin"),
            })
            .collect();
        let began = Instant::now();
        std::thread::scope(|scope| {
            for client in clients {
                let body = body.to_string();
                scope.spawn(move || {
                    for _ in 0..2 {
                        let answer = client.json("POST", path, &body);
                        assert!((200..300).contains(&answer.status), "{answer:?}");
                        assert_eq!(code(&answer), "", "{answer:?}");
                    }
                });
            }
        });
        println!("80 increments by 40 clients, {path}: {:?}", began.elapsed());
        let counted = server
            .admin()
            .rows("people", "MATCH (c:Counter) RETURN c.n");
        assert_eq!(counted, json!([[2 * CLIENTS * round]]), "{path}");
    }
}

#[test]
fn a_failed_statement_rolls_all_back() {
    let server = Server::new();
    let admin = basic(&server, "admin");
    let body = r#"{"statements": [{"statement": "CREATE (:No)"}, {"statement": "CREATE (:No) RETURN 1 / 0"}, {"statement": "CREATE (:No)"}]}"#;
    let answer = admin.json("POST", "/db/people/tx/commit", body);
    assert_eq!(answer.status, 200);
    assert_eq!(code(&answer), "Neo.ClientError.Statement.ArithmeticError");
    assert_eq!(length(&answer.value(), "results"), Some(1));
    assert_eq!(
        server
            .people
            .query("MATCH (n:No) RETURN n")
            .expect("answered")
            .len(),
        0
    );
}

#[test]
fn a_transaction_stays_open_between_requests() {
    let server = Server::new();
    let admin = basic(&server, "admin");
    let begun = admin.json(
        "POST",
        "/db/people/tx",
        r#"{"statements": [{"statement": "CREATE (:Open {n: 1})"}]}"#,
    );
    assert_eq!(begun.status, 201, "{begun:?}");
    let value = begun.value();
    let commit = at(&value, "commit").as_str().expect("an address");
    let expires = at(&value, "transaction/expires").as_str().expect("a time");
    assert!(
        expires.ends_with(" GMT") && expires.len() == 29,
        "{expires}"
    );
    let (location, _) = commit.rsplit_once('/').expect("a path");
    assert_eq!(begun.header("location"), Some(location));
    let path = &location[location.find("/db/").expect("a path")..];
    let count = r#"{"statements": [{"statement": "MATCH (o:Open) RETURN count(o)"}]}"#;
    let counted = admin.json("POST", path, count);
    assert_eq!(
        (
            counted.status,
            at(&counted.value(), "results/0/data/0/row/0")
        ),
        (200, &json!(1))
    );
    // Other users are refused, and nothing is visible before the commit.
    server.user("eve", "{\"people\":\"editor\"}");
    let stranger = basic(&server, "eve").json("POST", path, count);
    assert_eq!(stranger.status, 404, "{stranger:?}");
    let before = basic(&server, "eve").json("POST", "/db/people/tx/commit", count);
    assert_eq!(at(&before.value(), "results/0/data/0/row/0"), &json!(0));
    assert_eq!(admin.post(&format!("{path}/commit")).status, 200);
    let after = basic(&server, "eve").json("POST", "/db/people/tx/commit", count);
    assert_eq!(at(&after.value(), "results/0/data/0/row/0"), &json!(1));
    assert_eq!(admin.post(path).status, 404);

    let begun = admin.json(
        "POST",
        "/db/people/tx",
        r#"{"statements": [{"statement": "CREATE (:Open {n: 2})"}]}"#,
    );
    let location = begun.header("location").expect("an address").to_owned();
    let path = &location[location.find("/db/").expect("a path")..];
    assert_eq!(admin.delete(path).status, 200);
    assert_eq!(admin.post(path).status, 404);
    assert_eq!(
        server
            .people
            .query("MATCH (o:Open) RETURN o")
            .expect("answered")
            .len(),
        1
    );
}

#[test]
fn rights_are_checked() {
    let server = Server::new();
    server.user("ada", "{\"people\":\"reader\"}");
    let write = r#"{"statements": [{"statement": "CREATE (:No)"}]}"#;
    let reader = basic(&server, "ada");
    let refused = reader.json("POST", "/db/people/tx/commit", write);
    assert_eq!(
        code(&refused),
        "Neo.ClientError.Security.Forbidden",
        "{refused:?}"
    );
    for database in ["other", "nowhere"] {
        let answer = reader.json("POST", &format!("/db/{database}/tx/commit"), write);
        assert_eq!(
            (answer.status, code(&answer).as_str()),
            (403, "Neo.ClientError.Security.Forbidden")
        );
    }
    let system = basic(&server, "admin").json("POST", "/db/system/tx/commit", write);
    assert_eq!(
        code(&system),
        "Neo.ClientError.Security.Forbidden",
        "{system:?}"
    );
    let anonymous = Client::at(server.address()).json("POST", "/db/people/tx/commit", write);
    assert_eq!(
        (anonymous.status, code(&anonymous).as_str()),
        (401, "Neo.ClientError.Security.Unauthorized")
    );
    let wrong = basic(&server, "admin").json(
        "POST",
        "/db/people/tx/commit",
        r#"{"statements": [{"statement": 1}]}"#,
    );
    assert_eq!(wrong.status, 400);
    assert_eq!(
        server
            .people
            .query("MATCH (n:No) RETURN n")
            .expect("answered")
            .len(),
        0
    );
}
