//! Streamed requests and answers: rights, rates, and how they end.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use serde_json::json;

use crate::support::{Client, Server, read_answer};

const PEOPLE: &str = "/v1/databases/people";

fn at(path: &str) -> String {
    format!("{PEOPLE}{path}")
}

/// Sends a request, and reads the beginning of the answer.
fn begin(client: &Client, head: &str, body: &str) -> TcpStream {
    let mut stream = client.connect();
    let head = format!(
        "{head} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nAccept: application/jsonl\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        client.token,
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut buffer = [0; 1 << 12];
    let read = stream.read(&mut buffer).unwrap();
    let text = String::from_utf8_lossy(&buffer[..read]);
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
    stream
}

/// Reads until the connection ends; returns the count and the last bytes.
fn rest(stream: &mut TcpStream) -> (usize, Vec<u8>) {
    let mut buffer = vec![0; 1 << 16];
    let (mut count, mut last) = (0, Vec::new());
    let began = Instant::now();
    while let Ok(read) = stream.read(&mut buffer)
        && read > 0
    {
        count += read;
        last.extend_from_slice(&buffer[..read]);
        last.drain(..last.len().saturating_sub(64));
        assert!(began.elapsed() < Duration::from_secs(20), "it does not end");
    }
    (count, last)
}

/// Rows, records and files stop when the token of their request is revoked.
#[test]
fn an_answer_breaks_off_when_its_token_is_revoked() {
    let server = Server::new();
    let admin = server.admin();
    admin.rows(
        "people",
        "UNWIND range(1, 200000) AS n CREATE (:P {_key: n, text: 'a text that fills the buffers of the connection, and more of it'})",
    );
    let content = vec![7; 24 << 20];
    let kind = [("Content-Type", "application/octet-stream")];
    let path = at("/file?path=/large");
    let put = admin.send("PUT", &path, &kind, &content);
    assert_eq!(put.status, 201, "{put:?}");
    let rows = "{\"query\": \"UNWIND range(1, 1000000000) AS n RETURN n, 'a text that fills the buffers'\"}";
    for (head, body) in [
        (format!("POST {}", at("/query")), rows),
        (format!("GET {}", at("/export/nodes?label=P")), ""),
        (format!("GET {path}"), ""),
    ] {
        let made = admin
            .json("POST", "/v1/tokens", "{\"name\": \"once\"}")
            .value();
        let client = server.client(made["token"].as_str().unwrap());
        let mut stream = begin(&client, &head, body);
        let id = made["about"]["id"].as_str().unwrap();
        assert_eq!(admin.delete(&format!("/v1/tokens/{id}")).status, 204);
        let (count, last) = rest(&mut stream);
        assert!(count < 20 << 20, "{head}: {count} more bytes");
        assert!(
            !last.ends_with(b"\r\n0\r\n\r\n"),
            "{head}: it looks complete"
        );
    }
}

/// A client that sends single bytes occupies a slot only for a limited time, although pauses and slow connections are
/// allowed.
#[test]
fn an_upload_that_trickles_in_is_ended() {
    let server = Server::with(&[("limits.body_time", "500ms")]);
    for (method, path, kind) in [
        ("PUT", "/file?path=/slow", "application/octet-stream"),
        ("POST", "/import/nodes?label=P", "application/jsonl"),
    ] {
        let mut stream = server.admin().connect();
        let head = format!(
            "{method} {} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nContent-Type: {kind}\r\n\
             Content-Length: 100000\r\n\r\n",
            at(path),
            server.admin
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut drip = stream.try_clone().unwrap();
        let began = Instant::now();
        let dripping = std::thread::spawn(move || {
            while began.elapsed() < Duration::from_secs(5) && drip.write_all(b" ").is_ok() {
                // A slow client.
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        let answer = read_answer(&mut stream).unwrap();
        assert_eq!(
            (answer.status, answer.kind().as_str()),
            (408, "Limit"),
            "{path}"
        );
        assert!(began.elapsed() < Duration::from_secs(4), "{path}");
        drop(stream);
        dripping.join().unwrap();
    }
}

#[test]
fn a_record_that_is_too_large_is_refused_with_a_message() {
    let server = Server::with(&[("limits.import", "64KiB")]);
    let admin = server.admin();
    let lines = "{\"n\": 1}\n".repeat(10_000);
    let post = |path: &str, kind: &str, body: &[u8]| {
        let answer = admin.send("POST", &at(path), &[("Content-Type", kind)], body);
        (answer.status, answer.kind())
    };
    let large = post(
        "/import/nodes?label=P",
        "application/jsonl",
        lines.as_bytes(),
    );
    assert_eq!(large, (413, "Limit".into()));
    let kind = [("Content-Type", "application/octet-stream")];
    let large = admin.send("PUT", &at("/file?path=/f"), &kind, &[0; 80_000]);
    assert_eq!((large.status, large.kind().as_str()), (413, "Limit"));
    let server = Server::new();
    let line = format!("{{\"text\": \"{}\"}}\n", "x".repeat(17 << 20));
    let kind = [("Content-Type", "application/jsonl")];
    let long = server
        .admin()
        .send("POST", &at("/import/nodes?label=P"), &kind, line.as_bytes());
    assert_eq!((long.status, long.kind().as_str()), (413, "Limit"));
    assert!(long.text().contains("line 1"), "{long:?}");
}

/// Values of every type survive an export and an import. A convergent field is refused, unless only its value is
/// requested.
#[test]
fn an_export_keeps_the_types_of_values() {
    let server = Server::new();
    let admin = server.admin();
    let create = "CREATE (:V {_key: 7, day: date('2024-02-29'), span: duration('P1DT2H'), nan: 0.0 / 0.0, place: point({x: 1, y: 2}),
        at: datetime('2023-11-05T01:40-08:00[America/Los_Angeles]'), list: [1, 2.0, time('10:00+01:00')], text: '2024-02-29'})";
    admin.rows("people", create);
    let shown = "MATCH (v:V) RETURN v._key, valueType(v._key), v.day, valueType(v.day), v.span, valueType(v.span), v.nan, valueType(v.nan),
        v.place, valueType(v.place), v.at, valueType(v.at), v.list, [x IN v.list | valueType(x)], v.text, valueType(v.text)";
    let before = admin.rows("people", shown);
    let lines = admin.get(&at("/export/nodes?label=V"));
    assert!(
        lines.text().contains(r#""day":{"$date":"2024-02-29"}"#),
        "{lines:?}"
    );
    let kind = [("Content-Type", "application/jsonl")];
    let path = "/v1/databases/other/import/nodes?label=V";
    assert_eq!(admin.send("POST", path, &kind, &lines.body).status, 200);
    assert_eq!(admin.rows("other", shown), before);
    let plain = admin.get(&at("/export/nodes?label=V&plain=true"));
    assert!(plain.text().contains(r#""day":"2024-02-29""#), "{plain:?}");
    admin.rows(
        "people",
        "CREATE (v:W {_key: 'w'}) WITH v SET v.votes = counter.add(v.votes, 5)",
    );
    let refused = admin.get(&at("/export/nodes?label=W"));
    assert_eq!(refused.status, 400, "{refused:?}");
    assert!(
        refused.text().contains("`votes` is a convergent field"),
        "{refused:?}"
    );
    let plain = admin.get(&at("/export/nodes?label=W&plain=true"));
    assert!(plain.text().contains(r#""votes":5"#), "{plain:?}");
}

/// An export is complete or breaks off, and includes all labels; an import refuses what it would lose.
#[test]
fn nothing_is_lost_silently_between_export_and_import() {
    let server = Server::new();
    let admin = server.admin();
    admin.rows("people", "CREATE (:A {_key: 'one'}), (:A:B {_key: 'two'})");
    let lines = admin.get(&at("/export/nodes?label=A"));
    let rows: Vec<serde_json::Value> = lines
        .text()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(
        rows,
        [
            json!({"_key": "one"}),
            json!({"_key": "two", "_labels": ["A", "B"]})
        ]
    );
    let import = |body: &[u8]| {
        let kind = [("Content-Type", "application/jsonl")];
        let path = "/v1/databases/other/import/nodes?label=A";
        admin.send("POST", path, &kind, body)
    };
    let refused = import(&lines.body);
    assert_eq!(refused.status, 400, "{refused:?}");
    assert!(refused.text().contains("line 2: `_labels`"), "{refused:?}");
    let sole = import(b"{\"_key\": \"three\", \"_labels\": [\"A\"]}");
    assert_eq!(sole.status, 200, "{sole:?}");
    let cut = import(
        b"{\"_key\": \"four\"}\n{\"error\": {\"kind\": \"Cancelled\", \"message\": \"stopped\"}}\n",
    );
    assert_eq!(cut.status, 400, "{cut:?}");
    assert!(cut.text().contains("broke off"), "{cut:?}");
    // An end node without a key is found late: the answer breaks off.
    admin.rows(
        "people",
        "CREATE (a:K {_key: 'a'}) WITH a UNWIND range(1, 2000) AS n CREATE (a)-[:T {n: n}]->(a)",
    );
    admin.rows("people", "MATCH (a:K) CREATE (a)-[:T]->(:NoKey)");
    let path = at("/export/relationships?type=T");
    let mut stream = admin.connect();
    let head = format!(
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\r\n",
        admin.token
    );
    stream.write_all(head.as_bytes()).unwrap();
    let answer = read_answer(&mut stream);
    assert!(
        answer.is_err() || answer.as_ref().unwrap().status == 400,
        "it breaks off, or is an error: {answer:?}"
    );
}
