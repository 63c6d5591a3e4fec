//! Live queries: results that are sent again when they have changed.

use std::{
    io::{Read, Write},
    net::TcpStream,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::support::{Answer, Client, Server};

const CHANGES: &str = "/v1/databases/people/changes";

/// A feed that is read event by event.
struct Feed {
    stream: TcpStream,
    text: String,
}

#[derive(Debug)]
struct Event {
    kind: String,
    id: String,
    data: Value,
}

impl Feed {
    /// The change feed.
    fn of_changes(client: &Client, path: &str) -> Self {
        let head = format!(
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\r\n",
            client.token
        );
        let mut stream = client.connect();
        stream.write_all(head.as_bytes()).unwrap();
        Self {
            stream,
            text: String::new(),
        }
    }

    fn open(client: &Client, path: &str, body: &Value, last: &str) -> Self {
        let body = body.to_string();
        let last = match last {
            "" => String::new(),
            id => format!("Last-Event-ID: {id}\r\n"),
        };
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n{last}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            client.token,
            body.len()
        );
        let mut stream = client.connect();
        stream.write_all(head.as_bytes()).unwrap();
        Self {
            stream,
            text: String::new(),
        }
    }

    /// The next event; `None` if the feed has ended.
    fn next(&mut self) -> Option<Event> {
        loop {
            if let Some((_, rest)) = self.text.split_once("event: ")
                && let Some((event, after)) = rest.split_once("\n\n")
            {
                let field = |name: &str| {
                    let mut lines = event.lines();
                    let line = lines.find_map(|line| line.strip_prefix(name));
                    line.unwrap_or_default().to_owned()
                };
                let found = Event {
                    kind: event.lines().next().unwrap_or_default().to_owned(),
                    id: field("id: "),
                    data: serde_json::from_str(&field("data: ")).unwrap(),
                };
                self.text = after.to_owned();
                return Some(found);
            }
            if self.text.ends_with("\r\n0\r\n\r\n") {
                // The last chunk: the connection stays open.
                return None;
            }
            let mut buffer = [0; 4096];
            let read = self.stream.read(&mut buffer).unwrap();
            if read == 0 {
                return None;
            }
            self.text += std::str::from_utf8(&buffer[..read]).unwrap();
        }
    }

    /// Reads until `part` has arrived.
    fn until(&mut self, part: &str) -> String {
        let mut buffer = [0; 4096];
        while !self.text.contains(part) {
            let read = self.stream.read(&mut buffer).expect("something comes");
            assert!(read > 0, "{} and no {part}", self.text);
            self.text += std::str::from_utf8(&buffer[..read]).unwrap();
        }
        std::mem::take(&mut self.text)
    }

    fn rows(&mut self) -> Value {
        let event = self.next().expect("an event");
        assert_eq!(event.kind, "result", "{event:?}");
        event.data["rows"].clone()
    }

    /// Whether no event arrives for this time; comments may.
    fn is_silent(&mut self, time: Duration) -> bool {
        let began = Instant::now();
        while began.elapsed() < time && !self.text.contains("event: ") {
            let left = (time - began.elapsed().min(time)).max(Duration::from_millis(1));
            self.stream.set_read_timeout(Some(left)).unwrap();
            let mut buffer = [0; 4096];
            if let Ok(read) = self.stream.read(&mut buffer) {
                self.text += std::str::from_utf8(&buffer[..read]).unwrap();
            }
        }
        let long = Duration::from_secs(20);
        self.stream.set_read_timeout(Some(long)).unwrap();
        !self.text.contains("event: ")
    }
}

fn refused(client: &Client, path: &str, body: &Value) -> Answer {
    client.json("POST", path, &body.to_string())
}

#[test]
fn a_result_is_sent_again_when_it_has_changed() {
    let server = Server::new();
    let admin = server.admin();
    admin.rows(
        "people",
        "CREATE (:P {_key: 'ada', n: 1})-[:K]->(:P {_key: 'bob', n: 2})",
    );
    let body = json!({"query": "MATCH (:P {_key: $k})-[:K]->(b:P) RETURN b._key, b.n ORDER BY b._key", "parameters": {"k": "ada"}});
    let path = format!("{CHANGES}?pause_ms=0");
    let mut feed = Feed::open(&admin, &path, &body, "");
    let first = feed.next().unwrap();
    assert_eq!(first.data["rows"], json!([["bob", 2]]));
    assert_eq!(first.data["columns"], json!(["b._key", "b.n"]));
    // Of a property, a relationship, a node.
    admin.rows("people", "MATCH (b:P {_key: 'bob'}) SET b.n = 3");
    assert_eq!(feed.rows(), json!([["bob", 3]]));
    admin.rows(
        "people",
        "MATCH (a:P {_key: 'ada'}) CREATE (a)-[:K]->(:P {_key: 'eve', n: 9})",
    );
    assert_eq!(feed.rows(), json!([["bob", 3], ["eve", 9]]));
    admin.rows("people", "MATCH (b:P {_key: 'bob'}) DETACH DELETE b");
    assert_eq!(feed.rows(), json!([["eve", 9]]));
    // A commit that touches nothing relevant, and one that does not change the result.
    admin.rows("people", "CREATE (:Q {n: 1})");
    admin.rows("people", "CREATE (:P {_key: 'far', n: 1})");
    admin.rows("people", "MATCH (a:P {_key: 'ada'}) SET a.n = 17");
    assert!(feed.is_silent(Duration::from_millis(300)));
    admin.rows("people", "MATCH (b:P {_key: 'eve'}) SET b.n = 10");
    let last = feed.next().unwrap();
    assert_eq!(last.data["rows"], json!([["eve", 10]]));

    // A reconnecting client has it already, or gets the newest one.
    let mut again = Feed::open(&admin, &path, &body, &last.id);
    assert_eq!(again.next().unwrap().kind, "unchanged");
    let mut later = Feed::open(&admin, &path, &body, &first.id);
    assert_eq!(later.rows(), json!([["eve", 10]]));
    admin.rows("people", "MATCH (b:P {_key: 'eve'}) SET b.n = 11");
    for feed in [&mut feed, &mut again, &mut later] {
        assert_eq!(feed.rows(), json!([["eve", 11]]));
    }
    // All feeds end with the server without being aborted.
    server.running.stop().unwrap();
    for feed in [&mut feed, &mut again, &mut later] {
        assert!(feed.next().is_none() && feed.text.ends_with("\r\n0\r\n\r\n"));
    }
}

#[test]
fn keys_are_followed_and_many_changes_are_combined() {
    let server = Server::new();
    let admin = server.admin();
    admin.json("PUT", "/v1/databases/people/buckets/b/keys/k", "0");
    let body = json!({"query": "RETURN kv.get($b, 'k') AS v", "parameters": {"b": "b"}});
    let mut feed = Feed::open(&admin, &format!("{CHANGES}?pause_ms=1000"), &body, "");
    assert_eq!(feed.rows(), json!([[0]]));
    for n in 1..=20 {
        let put = |tx: &isomer_db::WriteTransaction| tx.bucket("b").put("k", n);
        server.people.transact(put).unwrap();
    }
    // Whatever the timing, far fewer results than changes, and the last one is sent.
    let mut results = 0;
    loop {
        results += 1;
        if feed.rows() == json!([[20]]) {
            break;
        }
    }
    assert!(results < 20, "{results}");
}

#[test]
fn unsupported_and_forbidden_queries_are_refused() {
    let server = Server::with(&[("limits.result", "1KiB")]);
    let admin = server.admin();
    for (body, status, kind, why) in [
        (
            json!({"query": "CREATE (n:P) RETURN n"}),
            422,
            "Unsupported",
            "it changes something",
        ),
        (
            json!({"query": "RETURN rand() AS r"}),
            422,
            "Unsupported",
            "differs from call to call",
        ),
        (json!({"query": "SHOW QUERIES"}), 422, "Unsupported", ""),
        (json!({"query": "MATCH (n"}), 400, "Invalid", ""),
        (json!({"query": "RETURN $x AS x"}), 400, "Invalid", "x"),
        (
            json!({"query": "UNWIND range(1, 1000) AS n RETURN n"}),
            413,
            "Limit",
            "limits.result",
        ),
        (
            json!({"query": "RETURN $x AS x", "parameters": {"x": "y".repeat(300_000)}}),
            413,
            "Limit",
            "text and the parameters",
        ),
        (
            json!({"query": "RETURN 1 AS x", "types": {}}),
            400,
            "Invalid",
            "types",
        ),
    ] {
        let answer = refused(&admin, CHANGES, &body);
        assert_eq!(
            (answer.status, answer.kind().as_str()),
            (status, kind),
            "{body}: {answer:?}"
        );
        let message = answer.value()["error"]["message"].to_string();
        assert!(message.contains(why), "{body}: {message}");
    }
    let simple = json!({"query": "RETURN 1 AS x"});
    for path in ["?pause_ms=60001", "?pause_ms=x", "?from=3"] {
        assert_eq!(
            refused(&admin, &format!("{CHANGES}{path}"), &simple).status,
            400,
            "{path}"
        );
    }
    assert_eq!(
        refused(&admin.with("Last-Event-ID", "17"), CHANGES, &simple).status,
        400
    );
    let open = admin.json("POST", "/v1/databases/people/tx", "{}").value();
    let id = open["transaction"].as_str().unwrap();
    assert_eq!(
        refused(&admin.with("Isomer-Transaction", id), CHANGES, &simple).status,
        400
    );
    let anonymous = server.client(&server.user("eve", "{\"other\": \"admin\"}"));
    assert_eq!(refused(&anonymous, CHANGES, &simple).status, 403);
    assert_eq!(
        admin.rows("people", "MATCH (n:P) RETURN count(*)"),
        json!([[0]])
    );
}

/// Rights are checked before each result, and for the change feed.
#[test]
fn a_feed_ends_with_the_right_to_it() {
    let server = Server::new();
    let admin = server.admin();
    let eve = server.client(&server.user("eve", "{\"people\": \"reader\"}"));
    let body = json!({"query": "MATCH (p:P) RETURN count(*)"});
    let mut feed = Feed::open(&eve, CHANGES, &body, "");
    assert_eq!(feed.rows(), json!([[0]]));
    admin.rows("people", "CREATE (:P)");
    assert_eq!(feed.rows(), json!([[1]]));
    let roles = admin.json("PUT", "/v1/users/eve/roles", "{\"other\": \"reader\"}");
    assert_eq!(roles.status, 200, "{roles:?}");
    admin.rows("people", "CREATE (:P)");
    let end = feed.next().unwrap();
    assert_eq!(
        (end.kind.as_str(), &end.data["kind"]),
        ("error", &json!("Denied"))
    );
    assert!(feed.next().is_none());
}

/// A later error is sent as an event, and ends the feed.
#[test]
fn a_result_that_grows_too_large_ends_its_feed() {
    let server = Server::with(&[("limits.result", "1KiB")]);
    let admin = server.admin();
    let mut feed = Feed::open(
        &admin,
        CHANGES,
        &json!({"query": "MATCH (p:P) RETURN p.t"}),
        "",
    );
    assert_eq!(feed.rows(), json!([]));
    admin.rows(
        "people",
        "UNWIND range(1, 100) AS n CREATE (:P {t: 'a text of some length'})",
    );
    let end = feed.next().unwrap();
    assert_eq!(
        (end.kind.as_str(), &end.data["kind"]),
        ("error", &json!("Limit"))
    );
    assert!(feed.next().is_none());
}

/// Commits that a feed does not send delay neither its comments nor the checks of its right; nor does a running
/// query.
#[test]
fn filtered_commits_do_not_affect_keep_alive_and_rights() {
    let server = Server::with(&[("limits.heartbeat", "200ms")]);
    let admin = server.admin();
    let eve = server.client(&server.user("eve", "{\"people\": \"reader\"}"));
    let body = json!({"query": "MATCH (p:P) RETURN count(*)"});
    let mut result = Feed::open(&eve, CHANGES, &body, "");
    assert_eq!(result.rows(), json!([[0]]));
    let mut changes = Feed::of_changes(&eve, &format!("{CHANGES}?labels=P"));
    changes.until("event: start");
    let (people, is_over) = (server.people.clone(), Arc::new(AtomicBool::new(false)));
    let others = {
        let is_over = is_over.clone();
        std::thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                people.query("CREATE (:Q)").unwrap();
                // Ten commits in each interval of the heartbeat.
                std::thread::sleep(Duration::from_millis(20));
            }
        })
    };
    for feed in [&mut result, &mut changes] {
        feed.until(": still here");
        feed.until(": still here");
    }
    let roles = admin.json("PUT", "/v1/users/eve/roles", "{\"other\": \"reader\"}");
    assert_eq!(roles.status, 200, "{roles:?}");
    for feed in [&mut result, &mut changes] {
        let last = feed.until("event: error");
        assert!(!last.contains("event: result"), "{last}");
    }
    is_over.store(true, Ordering::Relaxed);
    others.join().unwrap();
}

/// A slow query delays neither the comments of its feed nor shutdown; one that finds no slot waits for it.
#[test]
fn a_feed_waits_for_a_slot_and_does_not_block_others() {
    let server = Server::with(&[
        ("limits.heartbeat", "100ms"),
        ("limits.requests", "1"),
        ("limits.head_time", "100ms"),
    ]);
    let admin = server.admin();
    let slow = "UNWIND range(1, 100000) AS a UNWIND range(1, 100000) AS b RETURN sum(a * b) AS s";
    let text = format!(
        "MATCH (p:P) WITH count(*) AS n {}",
        slow.replacen("100000", "n * 100000", 1)
    );
    let path = format!("{CHANGES}?pause_ms=0");
    let mut feed = Feed::open(&admin, &path, &json!({"query": text}), "");
    feed.until("event: result");
    // The only slot is taken for longer than a request would wait.
    let other = admin.clone();
    let busy = std::thread::spawn(move || {
        let body = json!({"query": slow, "limits": {"time_ms": 700}});
        other.json("POST", "/v1/databases/people/query", &body.to_string())
    });
    server.await_running_queries(1);
    server.people.query("CREATE (:P)").unwrap();
    server.people.query("CREATE (:P)").unwrap();
    let received = feed.until(": still here");
    assert!(!received.contains("event: error"), "{received}");
    assert_ne!(busy.join().unwrap().status, 200);
    // Now its own query has the slot.
    server.await_running_queries(1);
    let received = feed.until(": still here");
    assert!(!received.contains("event: error"), "{received}");
    let began = Instant::now();
    server.running.stop().unwrap();
    assert!(
        began.elapsed() < Duration::from_secs(6),
        "{:?}",
        began.elapsed()
    );
    assert!(feed.next().is_none());
}

/// A feed that waits for commits does not count as a request: many of them do not lock their user out.
#[test]
fn waiting_change_feeds_do_not_count_as_requests() {
    let server = Server::with(&[("limits.user_requests", "2")]);
    let eve = server.client(&server.user("eve", "{\"people\": \"reader\"}"));
    let mut feeds: Vec<Feed> = (0..8)
        .map(|_| {
            let mut feed = Feed::of_changes(&eve, CHANGES);
            assert_eq!(feed.next().expect("an event").kind, "start");
            feed
        })
        .collect();
    assert_eq!(eve.get("/v1/me").status, 200);
    server.admin().rows("people", "CREATE (:P)");
    for feed in &mut feeds {
        let event = feed.next().expect("an event");
        assert_eq!(event.data["changes"][0]["op"], "node_created");
    }
    assert_eq!(eve.get("/v1/me").status, 200);
}

/// Counters, sets and files are data as well: the change feed includes them.
#[test]
fn changes_of_convergent_fields_and_files_are_sent() {
    let server = Server::new();
    let admin = server.admin();
    admin.json("PUT", "/v1/databases/people/collections/Post/p", "{}");
    let mut feed = Feed::of_changes(&admin, CHANGES);
    assert_eq!(feed.next().expect("an event").kind, "start");
    let mut filtered = Feed::of_changes(&admin, &format!("{CHANGES}?labels=Post"));
    assert_eq!(filtered.next().expect("an event").kind, "start");
    let field = "/v1/databases/people/collections/Post/p/fields/tags";
    let body = "{\"update\": {\"set\": {\"add\": [\"a\", \"b\", \"c\"]}}}";
    assert_eq!(admin.json("POST", field, body).status, 200);
    let expected = json!([{"op": "field_changed", "field": "tags", "node": 0, "labels": ["Post"]}]);
    for feed in [&mut feed, &mut filtered] {
        assert_eq!(feed.next().expect("an event").data["changes"], expected);
    }
    let kind = [("Content-Type", "application/octet-stream")];
    let path = "/v1/databases/people/file?path=/a.txt";
    assert_eq!(admin.send("PUT", path, &kind, b"Dear Ada,").status, 201);
    let mut named = None;
    while named.is_none() {
        let event = feed.next().expect("an event");
        let changes = event.data["changes"].as_array().expect("changes").clone();
        named = changes.into_iter().find(|one| one["op"] == "file_named");
    }
    let named = named.expect("found");
    assert_eq!(
        (&named["name"], &named["kind"]),
        (&json!("a.txt"), &json!("file"))
    );
    assert_eq!(admin.delete(path).status, 204);
    loop {
        let event = feed.next().expect("an event");
        let text = event.data["changes"].to_string();
        if text.contains("file_removed") {
            assert!(text.contains("file_unnamed"), "{text}");
            break;
        }
    }
    admin.json(
        "PUT",
        "/v1/databases/people/collections/Post/p",
        "{\"n\": 1}",
    );
    let received = filtered.until("node_changed");
    assert!(!received.contains("file_"), "{received}");
}
