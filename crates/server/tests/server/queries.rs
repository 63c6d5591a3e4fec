//! Queries, streams, open transactions, idempotency keys.

use std::io::Write;

use isomer_db::params;
use isomer_testkit::poll;

use crate::{
    driver::Driver,
    support::{Client, Server, read_answer},
};

const QUERY: &str = "/v1/databases/people/query";

fn query(text: &str) -> String {
    serde_json::json!({ "query": text }).to_string()
}

#[test]
fn a_query_returns_columns_rows_and_counters() {
    let server = Server::new();
    let admin = server.admin();
    let body = r#"{"query": "CREATE (p:Person {_key: $key, born: date('1815-12-10'), raw: $raw}) RETURN p.born AS born, p.raw AS raw, 1.5 AS x",
                   "parameters": {"key": "ada", "raw": {"$bytes": "AP8="}}}"#;
    let answer = admin.json("POST", QUERY, body);
    assert_eq!(answer.status, 200, "{answer:?}");
    let value = answer.value();
    assert_eq!(value["columns"], serde_json::json!(["born", "raw", "x"]));
    assert_eq!(
        value["rows"],
        serde_json::json!([["1815-12-10", {"$bytes": "AP8="}, 1.5]])
    );
    assert_eq!(value["class"], "write");
    assert_eq!(value["counters"]["nodes_created"], 1);
    let plan = admin
        .json("POST", QUERY, &query("EXPLAIN MATCH (p:Person) RETURN p"))
        .value();
    assert!(plan["plan"].as_str().unwrap().contains("Person"), "{plan}");
    assert_eq!(
        server
            .people
            .query("MATCH (p:Person) RETURN p")
            .unwrap()
            .len(),
        1
    );
}

#[test]
fn errors_have_kind_code_and_position() {
    let server = Server::new();
    let admin = server.admin();
    let answer = admin.json("POST", QUERY, &query("MATCH (n) RETUN n"));
    assert_eq!((answer.status, answer.kind().as_str()), (400, "Invalid"));
    let error = answer.value()["error"].clone();
    assert!(
        error["message"]
            .as_str()
            .unwrap()
            .contains("line 1, column 11"),
        "{error}"
    );
    assert!(
        error["code"].as_str().unwrap().starts_with("SyntaxError"),
        "{error}"
    );
    server
        .people
        .query("CREATE CONSTRAINT u FOR (p:Person) REQUIRE p.name IS UNIQUE")
        .unwrap();
    let create = query("CREATE (:Person {name: 'ada'})");
    assert_eq!(admin.json("POST", QUERY, &create).status, 200);
    let again = admin.json("POST", QUERY, &create);
    assert_eq!((again.status, again.kind().as_str()), (409, "Exists"));
    let missing = admin.json("POST", QUERY, &query("RETURN $nothing"));
    assert_eq!(missing.status, 400, "{missing:?}");
    let slow =
        r#"{"query": "UNWIND range(1, 100000000) AS n RETURN sum(n)", "limits": {"time_ms": 50}}"#;
    let slow = admin.json("POST", QUERY, slow);
    assert_eq!((slow.status, slow.kind().as_str()), (422, "Limit"));
}

#[test]
fn a_streamed_result_is_lines_with_a_summary() {
    let server = Server::new();
    let lines = server.admin().with("Accept", "application/jsonl");
    let answer = lines.json(
        "POST",
        QUERY,
        &query("UNWIND range(1, 50000) AS n RETURN n, 'row ' + toString(n) AS text"),
    );
    assert_eq!(answer.header("content-type"), Some("application/jsonl"));
    let all: Vec<serde_json::Value> = answer
        .text()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(all.len(), 50_002);
    assert_eq!(all[0]["columns"], serde_json::json!(["n", "text"]));
    assert_eq!(all[50_000], serde_json::json!([50_000, "row 50000"]));
    assert_eq!(all[50_001]["summary"]["rows"], 50_000);
    // An error during streaming is the last line.
    let broken = lines.json(
        "POST",
        QUERY,
        &query("UNWIND [1, 2, 0] AS n RETURN 10 / n AS x"),
    );
    assert_eq!(broken.status, 200);
    let last: serde_json::Value =
        serde_json::from_str(broken.text().lines().last().unwrap()).unwrap();
    assert_eq!(last["error"]["kind"], "Invalid", "{broken:?}");
    let gathered = server.admin().json(
        "POST",
        QUERY,
        &query("UNWIND [1, 2, 0] AS n RETURN 10 / n AS x"),
    );
    assert!(last["error"]["code"].is_string(), "{broken:?}");
    assert_eq!(last["error"], gathered.value()["error"]);
    // The writes of a streamed query are committed when its summary arrives.
    let wrote = lines.json(
        "POST",
        QUERY,
        &query("UNWIND range(1, 10) AS n CREATE (:N {n: n}) RETURN n"),
    );
    assert!(wrote.text().contains("\"nodes_created\":10"));
    assert_eq!(
        server.people.query("MATCH (n:N) RETURN n").unwrap().len(),
        10
    );
}

#[test]
fn answers_are_compressed_for_clients_that_accept_it() {
    use std::io::Read;
    let server = Server::new();
    let text = query("UNWIND range(1, 20000) AS n RETURN 'the same text again and again' AS t");
    for accept in ["application/json", "application/jsonl"] {
        let client = server.admin().with("Accept", accept);
        let plain = client.json("POST", QUERY, &text);
        let packed = client
            .with("Accept-Encoding", "gzip")
            .json("POST", QUERY, &text);
        assert!(plain.header("content-encoding").is_none());
        assert_eq!(packed.header("content-encoding"), Some("gzip"), "{accept}");
        assert!(packed.body.len() * 10 < plain.body.len(), "{accept}");
        let mut unpacked = Vec::new();
        flate2::read::GzDecoder::new(&packed.body[..])
            .read_to_end(&mut unpacked)
            .unwrap();
        assert_eq!(unpacked, plain.body, "{accept}");
    }
}

#[test]
fn a_transaction_stays_open_between_requests() {
    let server = Server::new();
    let admin = server.admin();
    // An empty body is accepted with any content type.
    assert_eq!(
        admin.json("POST", "/v1/databases/people/tx", "").status,
        201
    );
    assert_eq!(
        admin.json("POST", "/v1/databases/people/tx", "[]").status,
        400
    );
    let begun = admin.post("/v1/databases/people/tx");
    assert_eq!(begun.status, 201, "{begun:?}");
    let path = begun.header("location").unwrap().to_owned();
    let id = begun.value()["transaction"].as_str().unwrap().to_owned();
    let made = admin.json(
        "POST",
        &format!("{path}/query"),
        &query("CREATE (:Person {_key: 'ada'})"),
    );
    assert_eq!(made.status, 200, "{made:?}");
    // All data models take part in it, and other requests do not see its writes.
    let within = admin.with("Isomer-Transaction", &id);
    assert_eq!(
        within
            .get("/v1/databases/people/collections/Person/ada")
            .status,
        200
    );
    assert_eq!(
        within
            .json("PUT", "/v1/databases/people/buckets/b/keys/k", "1")
            .status,
        204
    );
    assert_eq!(
        admin
            .get("/v1/databases/people/collections/Person/ada")
            .status,
        404
    );
    assert!(admin.get(&path).value()["expires_in_ms"].as_u64().unwrap() > 1000);
    assert_eq!(admin.post(&format!("{path}/commit")).status, 200);
    assert_eq!(
        admin
            .get("/v1/databases/people/collections/Person/ada")
            .status,
        200
    );
    assert_eq!(
        admin.get("/v1/databases/people/buckets/b/keys/k").text(),
        "1"
    );
    assert_eq!(admin.post(&format!("{path}/commit")).status, 404);

    let path = admin
        .post("/v1/databases/people/tx")
        .header("location")
        .unwrap()
        .to_owned();
    admin.json(
        "POST",
        &format!("{path}/query"),
        &query("MATCH (p:Person) DETACH DELETE p"),
    );
    assert_eq!(admin.delete(&path).status, 204);
    assert_eq!(
        admin
            .get("/v1/databases/people/collections/Person/ada")
            .status,
        200
    );
}

#[test]
fn transactions_that_conflict_are_retryable() {
    let server = Server::new();
    let admin = server.admin();
    admin.rows("people", "CREATE (:Account {_key: 'a', euros: 1})");
    let begin = || {
        admin
            .post("/v1/databases/people/tx")
            .header("location")
            .unwrap()
            .to_owned()
    };
    let (one, two) = (begin(), begin());
    let spend = query("MATCH (a:Account {_key: 'a'}) SET a.euros = a.euros - 1 RETURN a.euros");
    for path in [&one, &two] {
        assert_eq!(
            admin.json("POST", &format!("{path}/query"), &spend).status,
            200
        );
    }
    assert_eq!(admin.post(&format!("{one}/commit")).status, 200);
    let lost = admin.post(&format!("{two}/commit"));
    assert_eq!((lost.status, lost.kind().as_str()), (409, "Retry"));
    assert_eq!(lost.value()["error"]["retryable"], true);
    assert_eq!(
        admin.rows("people", "MATCH (a:Account) RETURN a.euros")[0][0],
        0
    );
}

#[test]
fn an_unused_transaction_is_rolled_back() {
    let server = Server::with(&[
        ("limits.transaction_idle", "300ms"),
        ("limits.user_transactions", "2"),
    ]);
    let admin = server.admin();
    let path = admin
        .post("/v1/databases/people/tx")
        .header("location")
        .unwrap()
        .to_owned();
    admin.json("POST", &format!("{path}/query"), &query("CREATE (:Draft)"));
    admin.post("/v1/databases/people/tx");
    assert_eq!(
        admin.post("/v1/databases/people/tx").status,
        429,
        "two are the limit"
    );
    // The first of the two is unused for longer, so its place is the one that becomes free.
    poll::until("a transaction is rolled back", || {
        admin.post("/v1/databases/people/tx").status == 201
    });
    assert_eq!(admin.post(&format!("{path}/commit")).status, 404);
    assert_eq!(
        admin.rows("people", "MATCH (d:Draft) RETURN count(d)")[0][0],
        0
    );
}

#[test]
fn a_write_that_is_retried_with_its_key_is_executed_once() {
    let server = Server::new();
    let admin = server.admin().with("Idempotency-Key", "order-17");
    let body = query("CREATE (o:Order) RETURN 1 AS made");
    let first = admin.json("POST", QUERY, &body);
    let again = admin.json("POST", QUERY, &body);
    assert_eq!((first.status, &first.body), (again.status, &again.body));
    assert_eq!(again.header("idempotent-replay"), Some("true"));
    assert!(first.header("idempotent-replay").is_none());
    assert_eq!(
        server
            .people
            .query("MATCH (o:Order) RETURN o")
            .unwrap()
            .len(),
        1
    );
    let other = admin.json("POST", QUERY, &query("CREATE (:Other)"));
    assert_eq!((other.status, other.kind().as_str()), (400, "Invalid"));
    // Keys are per user, and a failed write does not use one up.
    let ada = server
        .client(&server.user("ada", "{\"people\":\"editor\"}"))
        .with("Idempotency-Key", "order-17");
    assert_eq!(ada.json("POST", QUERY, &body).status, 200);
    assert_eq!(
        server
            .people
            .query("MATCH (o:Order) RETURN o")
            .unwrap()
            .len(),
        2
    );
    let insert = server.admin().with("Idempotency-Key", "i-1");
    let twice: Vec<_> = (0..2)
        .map(|_| {
            insert.json(
                "POST",
                "/v1/databases/people/collections/User",
                "{\"name\":\"x\"}",
            )
        })
        .collect();
    assert_eq!(twice[0].value()["_key"], twice[1].value()["_key"]);
    assert_eq!(
        server
            .people
            .query("MATCH (u:User) RETURN u")
            .unwrap()
            .len(),
        1
    );
}

/// An ignored key would let a write be executed twice that its client believes to be idempotent.
#[test]
fn a_key_is_refused_where_no_answer_is_kept() {
    let server = Server::new();
    let admin = server.admin();
    let with_key = admin.with("Idempotency-Key", "k-1");
    let lines = [("Content-Type", "application/jsonl")];
    let bytes = [("Content-Type", "application/octet-stream")];
    let import = "/v1/databases/people/import/nodes?label=P";
    let file = "/v1/databases/people/file?path=/a";
    let tx = admin.json("POST", "/v1/databases/people/tx", "{}").value()["transaction"].clone();
    let tx = tx.as_str().unwrap();
    let in_tx = format!("/v1/databases/people/tx/{tx}/query");
    let refused = [
        with_key.send("POST", import, &lines, b"{\"n\":1}\n"),
        with_key.json("POST", "/v1/tokens", "{}"),
        with_key.json("PUT", "/v1/databases/people/buckets/newb", "{}"),
        with_key.send("PUT", file, &bytes, b"x"),
        with_key.json("POST", "/v1/users", "{\"user\":\"eve\"}"),
        with_key.json("POST", "/v1/databases", "{\"database\":\"d\"}"),
        with_key.post("/v1/databases/people/tx"),
        with_key.json("POST", &in_tx, &query("CREATE (:P)")),
        with_key.with("Isomer-Transaction", tx).json(
            "POST",
            "/v1/databases/people/collections/P",
            "{}",
        ),
    ];
    for answer in refused {
        assert_eq!((answer.status, answer.kind().as_str()), (400, "Invalid"));
        assert!(answer.text().contains("Idempotency-Key"), "{answer:?}");
    }
    let found = server.people.query("MATCH (p:P) RETURN p").unwrap();
    assert_eq!(found.len(), 0);
    // A user who may only read has nothing that could be executed twice.
    let reader = server
        .client(&server.user("ada", "{\"people\":\"reader\"}"))
        .with("Idempotency-Key", "k-1");
    assert_eq!(reader.json("POST", QUERY, &query("RETURN 1")).status, 200);
    assert_eq!(
        reader.json("POST", QUERY, &query("CREATE (:P)")).status,
        403
    );
    assert_eq!(reader.get("/v1/databases/people/labels").status, 200);
}

/// Users can neither forge stored answers nor remove them.
#[test]
fn stored_answers_are_written_only_by_the_server() {
    let server = Server::new();
    let admin = server.admin();
    let order = admin.with("Idempotency-Key", "order-1");
    let body = query("CREATE (o:Order) RETURN 1 AS made");
    assert_eq!(order.json("POST", QUERY, &body).status, 200);
    let bucket = "/v1/databases/people/buckets/isomer.answers";
    let all = format!("{bucket}/keys");
    let kept = admin.get(&all).value();
    let key = kept["pairs"][0]["key"].as_str();
    let key = key.unwrap_or_else(|| panic!("{kept}")).to_owned();
    let at = format!("{bucket}/keys/{key}");
    let tx = admin.json("POST", "/v1/databases/people/tx", "{}").value()["transaction"].clone();
    let in_tx = admin.with("Isomer-Transaction", tx.as_str().unwrap());
    let lines = admin.with("Accept", "application/jsonl");
    let other = "/v1/databases/people/buckets/isomer.other";
    let run = |client: &Client, text: &str| client.json("POST", QUERY, &query(text));
    let put = "CALL kv.put('isomer.answers', 'k', 1)";
    for answer in [
        admin.json("PUT", &at, "1"),
        admin.delete(&at),
        admin.delete(&format!("{all}?prefix=")),
        admin.delete(bucket),
        admin.json("PUT", other, "{\"multi\":true}"),
        admin.json("POST", &format!("{at}/values"), "\"x\""),
        admin.post(&format!("{bucket}/sequences/s/next")),
        in_tx.json("PUT", &at, "1"),
        run(
            &admin,
            &format!("CALL kv.put('isomer.answers', '{key}', 1)"),
        ),
        run(
            &admin,
            &format!("CALL kv.delete('isomer.answers', '{key}')"),
        ),
        run(&admin, "CALL kv.deletePrefix('isomer.answers', '')"),
        run(&admin, "CALL kv.deleteRange('isomer.' + 'answers')"),
        run(&lines, put),
        admin.json(
            "POST",
            &format!("/v1/databases/people/tx/{}/query", tx.as_str().unwrap()),
            &query(put),
        ),
    ] {
        let denied = answer.status == 403 || answer.text().contains("\"Denied\"");
        assert!(denied, "{answer:?}");
    }
    let mut driver = Driver::of(&server, "admin");
    let code = driver
        .run(put, params! { "db" => "people" })
        .1
        .code()
        .to_owned();
    assert_eq!(code, "Neo.ClientError.Security.Forbidden");
    assert_eq!(admin.get(&all).value(), kept);
    assert_eq!(run(&admin, "CALL kv.put('isomers', 'k', 1)").status, 200);
    let again = order.json("POST", QUERY, &body);
    assert_eq!(again.header("idempotent-replay"), Some("true"));
    // An unreadable stored answer was not written by the server: it is ignored.
    server
        .people
        .transact(|tx| tx.bucket("isomer.answers").put(&key, "forged"))
        .unwrap();
    let anew = order.json("POST", QUERY, &body);
    assert_eq!((anew.status, anew.header("idempotent-replay")), (200, None));
}

/// Of several acceptable contents the client gets the preferred one.
#[test]
fn the_preferred_content_is_sent() {
    let server = Server::new();
    let json = "application/json";
    let (lines, arrow) = ("application/jsonl", "application/vnd.apache.arrow.stream");
    for (accept, content) in [
        ("*/*", json),
        ("application/json, application/jsonl;q=0.1", json),
        ("application/jsonl;q=0.1, application/json;q=0.01", lines),
        ("application/jsonl;q=0", json),
        ("application/vnd.apache.arrow.stream;q=0, */*", json),
        (
            "application/vnd.apache.arrow.stream;q=0.5, application/jsonl",
            lines,
        ),
        (
            "application/jsonl;q=0.5, application/vnd.apache.arrow.stream",
            arrow,
        ),
        ("application/x-ndjson", lines),
    ] {
        let asked = server.admin().with("Accept", accept);
        let answer = asked.json("POST", QUERY, &query("RETURN 1 AS one"));
        assert_eq!(answer.header("content-type"), Some(content), "{accept}");
        let vary = answer.header("vary").unwrap_or_default();
        assert!(vary.contains("accept-encoding"), "{accept}: {vary}");
    }
}

#[test]
fn negative_numbers_are_named_in_errors() {
    let server = Server::new();
    let ask = |path: &str, body: &str| {
        let answer = server.admin().json("POST", path, body);
        assert_eq!(answer.status, 400, "{answer:?}");
        let message = answer.value()["error"]["message"].clone();
        message.as_str().unwrap().to_owned()
    };
    assert_eq!(
        ask(QUERY, r#"{"query": "RETURN 1", "limits": {"time_ms": -1}}"#),
        "invalid field `limits.time_ms`: expected a number of at least 0, not -1"
    );
    assert_eq!(
        ask("/v1/tokens", r#"{"expires_in_ms": -5}"#),
        "invalid field `expires_in_ms`: expected a number of at least 0, not -5"
    );
}

/// Twenty concurrent requests with one key: one is executed, all get the same answer.
#[test]
fn concurrent_requests_with_one_key_are_executed_once() {
    let server = Server::new();
    let admin = server.admin().with("Idempotency-Key", "once");
    let answers: Vec<_> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..20)
            .map(|_| {
                scope.spawn(|| admin.json("POST", "/v1/databases/people/collections/Order", "{}"))
            })
            .collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert!(
        answers
            .iter()
            .all(|answer| answer.status == 201 && answer.body == answers[0].body),
        "{answers:?}"
    );
    assert_eq!(
        server
            .people
            .query("MATCH (o:Order) RETURN o")
            .unwrap()
            .len(),
        1
    );
}

#[test]
fn a_client_that_disconnects_cancels_its_query() {
    let server = Server::with(&[("limits.query_time", "5min")]);
    let body = query("UNWIND range(1, 1000000) AS a UNWIND range(1, 1000000) AS b RETURN count(*)");
    let mut stream = server.admin().connect();
    let head = format!(
        "POST {QUERY} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        server.admin,
        body.len()
    );
    stream
        .write_all(format!("{head}{body}").as_bytes())
        .unwrap();
    let admin = server.admin();
    let running = || {
        admin
            .get("/v1/databases/people/queries")
            .text()
            .matches("UNWIND range(1, 1000000) AS a")
            .count()
    };
    poll::until("it runs", || running() == 1);
    drop(stream);
    poll::until("it is cancelled", || running() == 0);
}

#[test]
fn a_running_query_is_listed_and_cancelled() {
    let server = Server::with(&[("limits.query_time", "5min")]);
    let admin = server.admin();
    let body = query("UNWIND range(1, 1000000) AS a UNWIND range(1, 1000000) AS b RETURN count(*)");
    std::thread::scope(|scope| {
        let running = scope.spawn(|| admin.json("POST", QUERY, &body));
        let find = || {
            let all = admin.get("/v1/databases/people/queries").value()["queries"].clone();
            let found = all
                .as_array()
                .unwrap()
                .iter()
                .find(|one| one.to_string().contains("UNWIND"))
                .cloned();
            found.map(|one| one.to_string())
        };
        poll::until("it runs", || find().is_some());
        let text = find().unwrap();
        let one: serde_json::Value = serde_json::from_str(&text).unwrap();
        let id = one
            .as_object()
            .unwrap()
            .iter()
            .find(|(name, _)| name.to_lowercase().contains("id"))
            .unwrap()
            .1
            .clone();
        assert_eq!(
            admin
                .delete(&format!("/v1/databases/people/queries/{id}"))
                .status,
            204,
            "{text}"
        );
        let answer = running.join().unwrap();
        assert_eq!((answer.status, answer.kind().as_str()), (409, "Cancelled"));
    });
    assert_eq!(
        admin.delete("/v1/databases/people/queries/999999").status,
        404
    );
}

/// A client that does not read holds no thread: others are served, even with a single thread for queries.
#[test]
fn a_slow_reader_holds_no_thread() {
    let server = Server::with(&[("limits.requests", "1"), ("threads", "1")]);
    let body = query(
        "UNWIND range(1, 3000000) AS n RETURN n, 'a text that makes the row longer than it would be' AS t",
    );
    let mut slow: Vec<_> = (0..4)
        .map(|_| {
            let mut stream = server.admin().connect();
            let head = format!(
                "POST {QUERY} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nAccept: application/jsonl\r\n\
                 Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
                server.admin,
                body.len()
            );
            stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
            stream
        })
        .collect();
    // The first rows have arrived at each.
    for stream in &slow {
        assert_eq!(stream.peek(&mut [0]).unwrap(), 1);
    }
    for _ in 0..20 {
        assert_eq!(server.admin().rows("people", "RETURN 1")[0][0], 1);
    }
    // It receives all of it in the end.
    let answer = read_answer(&mut slow[0]).unwrap();
    assert!(
        answer.text().ends_with("\"rows\":3000000}}\n"),
        "{}",
        &answer.text()[answer.body.len() - 200..]
    );
}
