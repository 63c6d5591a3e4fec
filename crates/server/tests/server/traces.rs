//! Traces: what is sent to a collector, and what is not.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    sync::mpsc::{Receiver, Sender, channel},
    time::Duration,
};

use serde_json::json;

use crate::support::Server;

/// A collector that returns the head and the body of each request.
fn collector() -> (String, Receiver<(String, Vec<u8>)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (sender, batches) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            if take(stream.unwrap(), &sender).is_none() {
                return;
            }
        }
    });
    (address, batches)
}

fn take(mut stream: TcpStream, sender: &Sender<(String, Vec<u8>)>) -> Option<()> {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 16 << 10]);
    let (head, length) = loop {
        let read = stream.read(&mut buffer).ok()?;
        bytes.extend_from_slice(&buffer[..read]);
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8(bytes.drain(..end + 4).collect()).ok()?;
            let said = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                let is_length = name.eq_ignore_ascii_case("content-length");
                is_length.then(|| value.trim().parse::<usize>().ok())?
            })?;
            break (head, said);
        }
    };
    while bytes.len() < length {
        let read = stream.read(&mut buffer).ok()?;
        bytes.extend_from_slice(&buffer[..read]);
    }
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    sender.send((head, bytes)).ok()
}

fn holds(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[test]
fn requests_and_queries_are_traced_without_contents() {
    let (endpoint, batches) = collector();
    let server = Server::with(&[
        ("traces.endpoint", &endpoint),
        ("traces.service_name", "shop-database"),
    ]);
    let admin = server.admin();
    let within = admin.with(
        "traceparent",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    );
    let body = json!({"query": "CREATE (p:Person {name: 'a secret name', n: $n})", "parameters": {"n": "a secret number"}});
    let answer = within.json("POST", "/v1/databases/people/query", &body.to_string());
    assert_eq!(answer.status, 200, "{answer:?}");
    let body = json!({"query": "UNWIND range(1, 10) AS n RETURN 1 / (10 - n) AS x"});
    let broken = admin.with("Accept", "application/jsonl").json(
        "POST",
        "/v1/databases/people/query",
        &body.to_string(),
    );
    assert_eq!(broken.status, 200, "{broken:?}");
    let body = json!({"query": "RETURN 1 / 0 AS x"});
    let wrong = admin.json("POST", "/v1/databases/people/query", &body.to_string());
    assert_eq!(wrong.status, 400, "{wrong:?}");
    // The rest is sent before the server stops.
    server.running.stop().unwrap();
    let mut all = Vec::new();
    while let Ok((head, batch)) = batches.recv_timeout(Duration::from_millis(500)) {
        assert!(head.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{head}");
        assert!(head.contains("application/x-protobuf"), "{head}");
        all.extend(batch);
    }
    for expected in [
        "shop-database",
        "POST /v1/databases/{db}/query",
        "http.response.status_code",
        "db.query.text",
        "people",
        "write",
        "error.type",
        "isomer.answer.outcome",
        "http.response.body.size",
    ] {
        assert!(holds(&all, expected.as_bytes()), "{expected} was not sent");
    }
    let trace = [
        0x0a, 0xf7, 0x65, 0x19, 0x16, 0xcd, 0x43, 0xdd, 0x84, 0x48, 0xeb, 0x21, 0x1c, 0x80, 0x31,
        0x9c,
    ];
    let parent = [0xb7, 0xad, 0x6b, 0x71, 0x69, 0x20, 0x33, 0x31];
    assert!(holds(&all, &trace) && holds(&all, &parent));
    for kept in ["secret", admin.token.as_str()] {
        assert!(!holds(&all, kept.as_bytes()), "{kept} was sent");
    }
}

#[test]
fn nothing_is_sent_without_sampling_and_a_missing_collector_blocks_nothing() {
    let (endpoint, batches) = collector();
    let server = Server::with(&[("traces.endpoint", &endpoint), ("traces.sample_ratio", "0")]);
    let admin = server.admin();
    admin.rows("people", "RETURN 1");
    // The client's sampling flag does not decide.
    let kept = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    admin.with("traceparent", kept).rows("people", "RETURN 1");
    server.running.stop().unwrap();
    assert!(batches.try_recv().is_err());
    // A port without a listener.
    let server = Server::with(&[("traces.endpoint", "http://127.0.0.1:9")]);
    server.admin().rows("people", "RETURN 1");
    let began = std::time::Instant::now();
    server.running.stop().unwrap();
    assert!(began.elapsed() < Duration::from_secs(8));
}

#[test]
fn unauthenticated_requests_are_not_traced_and_long_texts_are_truncated() {
    let (endpoint, batches) = collector();
    let server = Server::with(&[("traces.endpoint", &endpoint)]);
    let admin = server.admin();
    let of = |trace: &str| format!("00-{}-b7ad6b7169203331-01", trace.repeat(32));
    let anonymous = server.client("");
    for path in ["/health", "/ready", "/metrics", "/v1/databases"] {
        anonymous.with("traceparent", &of("e")).get(path);
    }
    assert_eq!(
        admin.with("traceparent", &of("e")).get("/metrics").status,
        200
    );
    // Neither malformed trace ids nor texts that are not queries are recorded.
    for wrong in ["00-0-0-01", &of("0"), &of("A"), "ff"] {
        admin.with("traceparent", wrong).rows("people", "RETURN 1");
    }
    let wrong = json!({"query": "CREATE (p {name: Ada Lovelace'})"}).to_string();
    let answer = admin.json("POST", "/v1/databases/people/query", &wrong);
    assert_eq!(answer.status, 400, "{answer:?}");
    let sum = " + 1".repeat(10_000);
    let long = format!("WITH 1 AS someverylongname RETURN someverylongname{sum} AS s");
    admin.rows("people", &long);
    server.running.stop().unwrap();
    let mut all = Vec::new();
    while let Ok((_, batch)) = batches.recv_timeout(Duration::from_millis(500)) {
        all.extend(batch);
    }
    assert!(holds(&all, b"someverylongname"));
    assert!(!holds(&all, &[0xee; 16]) && !holds(&all, b"Lovelace"));
    assert!(all.len() < 40_000, "{}", all.len());
}
