//! Answers that are sent before the body of their request was read, to clients that keep their connection: head and
//! body are sent in two packets, as Python's `http.client` does.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use crate::support::{Answer, Server, read_answer};

/// A client that keeps its connection until an answer closes it.
struct Keeping<'s> {
    server: &'s Server,
    stream: Option<TcpStream>,
    opened: usize,
}

impl<'s> Keeping<'s> {
    fn new(server: &'s Server) -> Self {
        Self {
            server,
            stream: None,
            opened: 0,
        }
    }

    fn send(&mut self, head: &str, body: &[u8]) -> Answer {
        let mut stream = self.stream.take().unwrap_or_else(|| {
            self.opened += 1;
            self.server.client("").connect()
        });
        stream
            .write_all(head.as_bytes())
            .unwrap_or_else(|error| panic!("{head}: {error}"));
        // The body is a separate packet, which the server may see only after it has answered.
        std::thread::sleep(Duration::from_millis(5));
        stream
            .write_all(body)
            .unwrap_or_else(|error| panic!("{head}: body: {error}"));
        let answer = read_answer(&mut stream).unwrap_or_else(|error| panic!("{head}: {error}"));
        match answer.header("connection") {
            Some("close") => {
                let mut rest = Vec::new();
                stream
                    .read_to_end(&mut rest)
                    .unwrap_or_else(|error| panic!("{head}: {error}"));
                assert!(rest.is_empty(), "{head}");
            }
            other => {
                assert_eq!(other, None, "{head}");
                self.stream = Some(stream);
            }
        }
        answer
    }
}

/// Requests that are refused by their heads or their first bytes, with the expected status.
fn refused(server: &Server, reader: &str) -> Vec<(String, u16)> {
    let admin = &server.admin;
    let key = "/v1/databases/people/buckets/b/keys/k";
    let head = |method: &str, path: &str, token: &str, more: &str| {
        let token = match token {
            "" => String::new(),
            token => format!("Authorization: Bearer {token}\r\n"),
        };
        let host = if more.contains("Host:") {
            ""
        } else {
            "Host: localhost\r\n"
        };
        format!("{method} {path} HTTP/1.1\r\n{host}{token}{more}")
    };
    let json = "Content-Type: application/json\r\n";
    vec![
        (head("PUT", key, "", json), 401),
        (head("PUT", key, "wrong", json), 401),
        (head("PUT", key, reader, json), 403),
        (head("PUT", "/v1/nowhere", admin, json), 404),
        (
            head("PUT", "/v1/databases/none/buckets/b/keys/k", admin, json),
            404,
        ),
        (head("PUT", "/health", admin, json), 405),
        (
            head(
                "POST",
                "/v1/databases/people/query",
                admin,
                "Content-Type: text/plain\r\n",
            ),
            415,
        ),
        (
            head(
                "PUT",
                key,
                admin,
                "Content-Type: application/json\r\nContent-Encoding: br\r\n",
            ),
            415,
        ),
        (head("PUT", &format!("{key}?no=1"), admin, json), 400),
        (
            head(
                "PUT",
                key,
                admin,
                "Origin: http://evil.example\r\nContent-Type: application/json\r\n",
            ),
            403,
        ),
        (
            head(
                "PUT",
                key,
                admin,
                "Host: evil.example\r\nContent-Type: application/json\r\n",
            ),
            421,
        ),
        (
            head(
                "POST",
                "/v1/databases/people/import/nodes?label=P",
                reader,
                "Content-Type: application/jsonl\r\n",
            ),
            403,
        ),
    ]
}

#[test]
fn after_an_early_answer_the_connection_works_or_is_announced_as_closed() {
    let server = Server::with(&[("limits.login_failures", "100000")]);
    let reader = server.user("rita", "{\"people\":\"reader\"}");
    for (head, status) in refused(&server, &reader) {
        for bytes in [2, 1_000, 100_000, 600_000, 8_000_000] {
            // With a length, and in chunks.
            let body = vec![b' '; bytes];
            let sized = (
                format!("{head}Content-Length: {bytes}\r\n\r\n"),
                body.clone(),
            );
            let mut chunks = format!("{bytes:x}\r\n").into_bytes();
            chunks.extend_from_slice(&body);
            chunks.extend_from_slice(b"\r\n0\r\n\r\n");
            let chunked = (format!("{head}Transfer-Encoding: chunked\r\n\r\n"), chunks);
            for (head, body) in [sized, chunked] {
                let mut client = Keeping::new(&server);
                let times = if bytes > 100_000 { 3 } else { 20 };
                for _ in 0..times {
                    let answer = client.send(&head, &body);
                    assert_eq!(answer.status, status, "{head} {answer:?}");
                }
                // A short body is discarded, and the connection stays open.
                assert!(client.opened == 1 || bytes > 256 << 10, "{head}");
            }
        }
    }
}

#[test]
fn the_refusal_of_a_large_body_can_be_read() {
    let server = Server::with(&[("limits.body", "10KiB")]);
    let head = server.admin().head("POST", "/v1/databases/people/query");
    for bytes in [20_000, 1_000_000] {
        let head =
            format!("{head}Content-Type: application/json\r\nContent-Length: {bytes}\r\n\r\n");
        let mut client = Keeping::new(&server);
        for _ in 0..20 {
            assert_eq!(client.send(&head, &vec![b' '; bytes]).status, 413);
        }
    }
    // After too many wrong logins: refused before the body is read.
    let server = Server::with(&[("limits.login_failures", "3")]);
    let login = "{\"user\":\"admin\",\"password\":\"wrong wrong\"}";
    let head = format!(
        "POST /v1/login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        login.len()
    );
    let mut client = Keeping::new(&server);
    let answers: Vec<u16> = (0..20)
        .map(|_| client.send(&head, login.as_bytes()).status)
        .collect();
    assert!(
        answers[..3].iter().all(|status| *status == 401),
        "{answers:?}"
    );
    assert!(
        answers[3..].iter().all(|status| *status == 429),
        "{answers:?}"
    );
}

/// A client with `Expect: 100-continue` gets its answer, and does not send the body.
#[test]
fn a_refused_body_is_not_requested() {
    let server = Server::new();
    let mut stream = server.client("").connect();
    let head = "PUT /v1/databases/people/buckets/b/keys/k HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 100\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    let began = Instant::now();
    let answer = read_answer(&mut stream).unwrap();
    assert_eq!(
        (answer.status, answer.header("connection")),
        (401, Some("close"))
    );
    assert!(
        began.elapsed() < Duration::from_millis(900),
        "the body is not waited for"
    );
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert!(rest.is_empty());
    // One that never sends it gets its answer soon, too.
    let mut stream = server.client("").connect();
    stream
        .write_all(head.replace("Expect: 100-continue\r\n", "").as_bytes())
        .unwrap();
    let began = Instant::now();
    let answer = read_answer(&mut stream).unwrap();
    assert_eq!(
        (answer.status, answer.header("connection")),
        (401, Some("close"))
    );
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "{:?}",
        began.elapsed()
    );
}
