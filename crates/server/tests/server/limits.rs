//! Slow clients, too many connections, and limits per user.

use isomer_db::internals::DatabaseInternals as _;
use std::{
    io::{Read, Write},
    time::{Duration, Instant},
};

use isomer_testkit::poll;

use crate::support::{Server, read_answer};

const QUERY: &str = "/v1/databases/people/query";

/// How long the server keeps a connection during which `during` runs.
fn kept_for(server: &Server, during: impl FnOnce(&mut std::net::TcpStream)) -> Duration {
    let mut stream = server.client("").connect();
    let began = Instant::now();
    during(&mut stream);
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    began.elapsed()
}

#[test]
fn slow_heads_and_idle_connections_are_closed() {
    let server = Server::with(&[("limits.head_time", "1200ms"), ("limits.idle_time", "6s")]);
    // The time of the first head begins with the accept.
    let nothing = kept_for(&server, |_| {});
    assert!(
        nothing >= Duration::from_millis(1_150) && nothing < Duration::from_secs(5),
        "{nothing:?}"
    );
    // Single bytes do not prolong it.
    let slow = kept_for(&server, |stream| {
        for byte in b"GET /health HTTP/1.1\r\nHost: localhost\r\n" {
            if stream.write_all(&[*byte]).is_err() {
                return;
            }
            // A slow client.
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    assert!(slow < Duration::from_secs(10), "{slow:?}");
    // Between two requests the time of idle connections applies, not that of heads.
    let mut stream = server.client("").connect();
    for _ in 0..2 {
        stream
            .write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            .unwrap();
        assert_eq!(read_answer(&mut stream).unwrap().status, 200);
        // Idle for longer than the limit of heads.
        std::thread::sleep(Duration::from_millis(1_800));
    }
    let figures = server.admin().get("/metrics").text().to_owned();
    assert!(
        !figures.contains("isomer_connections_slow_total 0"),
        "{figures}"
    );
}

/// A connection releases its buffers a second after its last request; this is a little longer.
const RELEASE_TIME: Duration = Duration::from_millis(1_300);

/// A connection that had no request for a second has released its buffers: whatever arrives afterwards, in whatever
/// pieces, is answered as if it had not, and the same time limits apply. Several connections are idle concurrently.
#[test]
fn an_idle_connection_behaves_like_any_other() {
    let server = Server::new();
    std::thread::scope(|scope| {
        for cut in [1, 20, 40] {
            let server = &server;
            scope.spawn(move || requests_in_pieces(server, cut));
        }
        scope.spawn(|| a_request_that_began_before_the_idle_time(&server));
        scope.spawn(|| an_unread_body_is_no_request(&server));
        scope.spawn(idle_connections_are_closed);
    });
}

const HEALTH: &[u8] = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// The first request after the connection and one after another: both in two pieces, after an idle time.
fn requests_in_pieces(server: &Server, cut: usize) {
    let mut stream = server.client("").connect();
    for _ in 0..2 {
        // Its buffers are released.
        std::thread::sleep(RELEASE_TIME);
        stream.write_all(&HEALTH[..cut]).unwrap();
        // Time for the server to see the first piece alone.
        std::thread::sleep(Duration::from_millis(20));
        stream.write_all(&HEALTH[cut..]).unwrap();
        assert_eq!(read_answer(&mut stream).unwrap().status, 200);
    }
}

/// The first bytes of a request came with the one before: they are kept while the connection is idle.
fn a_request_that_began_before_the_idle_time(server: &Server) {
    let mut stream = server.client("").connect();
    stream.write_all(&[HEALTH, &HEALTH[..20]].concat()).unwrap();
    assert_eq!(read_answer(&mut stream).unwrap().status, 200);
    // Its buffers are released, except for these bytes.
    std::thread::sleep(RELEASE_TIME);
    stream.write_all(&HEALTH[20..]).unwrap();
    assert_eq!(read_answer(&mut stream).unwrap().status, 200);
}

/// A request with a body after an idle time, then one that is refused before its body, which never counts as a request.
fn an_unread_body_is_no_request(server: &Server) {
    let mut stream = server.client("").connect();
    // Its buffers are released.
    std::thread::sleep(RELEASE_TIME);
    let body = "{\"query\":\"RETURN 1 AS one\"}";
    let post = format!(
        "POST {QUERY} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        server.admin,
        body.len()
    );
    stream.write_all(post.as_bytes()).unwrap();
    assert_eq!(read_answer(&mut stream).unwrap().status, 200);
    let left = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let refused = format!(
        "POST {QUERY} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n",
        left.len()
    );
    stream.write_all(refused.as_bytes()).unwrap();
    assert_eq!(read_answer(&mut stream).unwrap().status, 401);
    // The body comes late, when the buffers are released.
    std::thread::sleep(RELEASE_TIME);
    let _ = stream.write_all(left.as_bytes());
    let mut more = Vec::new();
    let _ = stream.read_to_end(&mut more);
    assert!(more.is_empty(), "{}", String::from_utf8_lossy(&more));
}

/// With or without an idle time, a connection is closed when it has waited too long.
fn idle_connections_are_closed() {
    let server = Server::with(&[("limits.idle_time", "1500ms")]);
    let kept = kept_for(&server, |stream| {
        stream.write_all(HEALTH).unwrap();
        assert_eq!(read_answer(stream).unwrap().status, 200);
    });
    assert!(
        kept >= Duration::from_millis(1_500) && kept < Duration::from_secs(20),
        "{kept:?}"
    );
}

/// A stopping server does not wait for idle connections.
#[test]
fn idle_connections_do_not_delay_a_stop() {
    let server = Server::with(&[("limits.drain_time", "2min")]);
    let streams: Vec<_> = (0..20)
        .map(|_| {
            let mut stream = server.client("").connect();
            stream
                .write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
                .unwrap();
            assert_eq!(read_answer(&mut stream).unwrap().status, 200);
            stream
        })
        .collect();
    // Idle for so long that their buffers are released.
    std::thread::sleep(RELEASE_TIME);
    let fresh = server.client("").connect();
    let began = Instant::now();
    server.running.stop().unwrap();
    assert!(began.elapsed() < Duration::from_secs(60));
    for mut stream in streams.into_iter().chain([fresh]) {
        let mut rest = Vec::new();
        // Closed or reset: nothing more arrives.
        let _ = stream.read_to_end(&mut rest);
        assert!(rest.is_empty());
    }
}

#[test]
fn a_body_that_trickles_in_is_refused_in_time() {
    let server = Server::with(&[("limits.body_time", "500ms")]);
    let mut stream = server.admin().connect();
    let head = format!(
        "POST {QUERY} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n",
        server.admin
    );
    stream.write_all(head.as_bytes()).unwrap();
    let began = Instant::now();
    let mut drip = stream.try_clone().unwrap();
    let dripping = std::thread::spawn(move || {
        for _ in 0..40 {
            if drip.write_all(b" ").is_err() {
                return;
            }
            // A slow client.
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    assert_eq!(read_answer(&mut stream).unwrap().status, 408);
    assert!(began.elapsed() < Duration::from_secs(10));
    dripping.join().unwrap();
}

#[test]
fn an_interrupted_import_leaves_nothing() {
    let server = Server::with(&[("limits.body_time", "400ms")]);
    let head = format!(
        "POST /v1/databases/people/import/nodes?label=P HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\
         Content-Type: application/jsonl\r\nTransfer-Encoding: chunked\r\n\r\n10\r\n{{\"_key\": \"abcd\"}}\r\n",
        server.admin
    );
    let mut stalled = server.admin().connect();
    stalled.write_all(head.as_bytes()).unwrap();
    let answer = read_answer(&mut stalled).unwrap();
    assert_eq!(answer.status, 408, "{answer:?}");
    let mut gone = server.admin().connect();
    gone.write_all(head.as_bytes()).unwrap();
    drop(gone);
    drop(stalled);
    server.await_end_of_requests();
    assert_eq!(
        server.people.query("MATCH (p:P) RETURN p").unwrap().len(),
        0
    );
}

#[test]
fn a_client_that_does_not_read_is_disconnected_and_its_snapshot_is_released() {
    let server = Server::with(&[
        ("limits.write_time", "500ms"),
        ("limits.query_time", "5min"),
    ]);
    let body = "{\"query\":\"UNWIND range(1, 100000000) AS n RETURN n, 'a text that fills the buffers of the connection' AS t\"}";
    let head = format!(
        "POST {QUERY} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nAccept: application/jsonl\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        server.admin,
        body.len()
    );
    let mut stream = server.admin().connect();
    stream
        .write_all(format!("{head}{body}").as_bytes())
        .unwrap();
    server.await_running_queries(1);
    server.await_running_queries(0);
    drop(stream);
}

/// If all connections have requests of users in progress, a new one is refused at once, and `/health` is still
/// answered.
#[test]
fn connections_beyond_the_limit_are_closed_at_once() {
    let server = Server::with(&[("limits.connections", "5"), ("limits.query_time", "5min")]);
    let held: Vec<_> = (0..5).map(|_| endless(&server.admin())).collect();
    server.await_running_queries(5);
    let began = Instant::now();
    let refused = server.admin().get("/v1/me");
    assert_eq!(
        (refused.status, refused.kind().as_str()),
        (503, "Unavailable")
    );
    assert_eq!(server.client("").get("/health").status, 200);
    assert!(crate::driver::is_refused(server.bolt_address()));
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "it was kept waiting"
    );
    drop(held);
    poll::until("a connection is free", || {
        server.admin().get("/v1/me").status == 200
    });
}

/// A request that runs until its connection is dropped.
fn endless(client: &crate::support::Client) -> std::net::TcpStream {
    let body = "{\"query\":\"UNWIND range(1, 1000000) AS a UNWIND range(1, 1000000) AS b RETURN count(*)\"}";
    let mut stream = client.connect();
    let head = client.head("POST", QUERY);
    let about = "Content-Type: application/json\r\nContent-Length";
    let request = format!("{head}{about}: {}\r\n\r\n{body}", body.len());
    stream.write_all(request.as_bytes()).unwrap();
    stream
}

#[test]
fn one_user_cannot_take_the_slots_of_all() {
    let server = Server::with(&[("limits.user_requests", "2"), ("limits.query_time", "5min")]);
    let ada = server.client(&server.user("ada", "{\"people\":\"reader\"}"));
    let bob = server.client(&server.user("bob", "{\"people\":\"reader\"}"));
    let endless = "{\"query\":\"UNWIND range(1, 1000000) AS a UNWIND range(1, 1000000) AS b RETURN count(*)\"}";
    let mut held: Vec<_> = (0..2)
        .map(|_| {
            let mut stream = ada.connect();
            let head = format!(
                "POST {QUERY} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
                ada.token,
                endless.len()
            );
            stream.write_all(format!("{head}{endless}").as_bytes()).unwrap();
            stream
        })
        .collect();
    poll::until("both slots are taken", || ada.get("/v1/me").status == 429);
    assert_eq!(bob.rows("people", "RETURN 1")[0][0], 1);
    held.clear();
    poll::until("a slot is free", || ada.get("/v1/me").status != 429);
}

/// The time limit is on running time, not on reading.
#[test]
fn a_streamed_query_may_be_read_slowly_but_not_run_for_long() {
    let server = Server::with(&[("limits.query_time", "2s")]);
    let lines = server.admin().with("Accept", "application/jsonl");
    let endless = "{\"query\":\"UNWIND range(1, 1000000) AS a UNWIND range(1, 1000000) AS b RETURN count(*)\"}";
    let began = Instant::now();
    let answer = lines.json("POST", QUERY, endless);
    assert!(
        answer
            .text()
            .lines()
            .last()
            .unwrap()
            .contains("\"kind\":\"Limit\""),
        "{answer:?}"
    );
    assert!(began.elapsed() < Duration::from_secs(15));
    let body = "{\"query\":\"UNWIND range(1, 300000) AS n RETURN n, 'a text that makes the row longer than it would be' AS t\"}";
    let mut stream = server.admin().connect();
    let head = format!(
        "POST {QUERY} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nAccept: application/jsonl\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        server.admin,
        body.len()
    );
    stream
        .write_all(format!("{head}{body}").as_bytes())
        .unwrap();
    // The client is slower than the limit on running time.
    std::thread::sleep(Duration::from_secs(3));
    let answer = read_answer(&mut stream).unwrap();
    assert!(
        answer.text().ends_with("\"rows\":300000}}\n"),
        "{}",
        answer.body.len()
    );
}

#[test]
fn results_and_memory_have_limits() {
    let server = Server::with(&[("limits.result", "100KiB"), ("limits.query_memory", "4MiB")]);
    let admin = server.admin();
    let run = |text: &str| {
        admin.json(
            "POST",
            QUERY,
            &serde_json::json!({ "query": text }).to_string(),
        )
    };
    let wide = run("UNWIND range(1, 20000) AS n RETURN n");
    assert_eq!((wide.status, wide.kind().as_str()), (413, "Limit"));
    let held = run("UNWIND range(1, 1000000) AS n RETURN collect(toString(n))");
    assert_eq!((held.status, held.kind().as_str()), (422, "Limit"));
    let rows = r#"{"query": "UNWIND range(1, 100) AS n RETURN n", "limits": {"rows": 10}}"#;
    assert_eq!(admin.json("POST", QUERY, rows).status, 422);
}

/// Requests that are running when the server stops are answered; new ones are refused.
#[test]
fn running_requests_complete_at_shutdown() {
    let server = Server::new();
    let (address, admin) = (server.address(), server.admin());
    let keys = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let (admin, keys) = (admin.clone(), keys.clone());
            std::thread::spawn(move || {
                for number in 0.. {
                    let key = format!("{writer}-{number}");
                    let request = format!(
                        "PUT /v1/databases/people/buckets/b/keys/{key} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\
                         Content-Type: application/json\r\nContent-Length: 1\r\nConnection: close\r\n\r\n1",
                        admin.token
                    );
                    let Ok(mut stream) = std::net::TcpStream::connect(admin.address) else {
                        return;
                    };
                    let _ = stream.write_all(request.as_bytes());
                    match read_answer(&mut stream) {
                        Ok(answer) => {
                            assert_eq!(answer.status, 204);
                            keys.lock().unwrap().push(key);
                        }
                        Err(_) => return,
                    }
                }
            })
        })
        .collect();
    poll::until("some writes are acknowledged", || {
        keys.lock().unwrap().len() > 10
    });
    let people = server.people.clone();
    let store = people.store().unwrap();
    let began = Instant::now();
    server.running.stop().unwrap();
    assert!(began.elapsed() < Duration::from_secs(10));
    writers
        .into_iter()
        .for_each(|writer| writer.join().unwrap());
    assert!(std::net::TcpStream::connect(address).is_err());
    let keys = keys.lock().unwrap();
    assert!(keys.len() > 10, "{}", keys.len());
    let tx = store
        .begin(isomer_db::internals::data::Access::Read)
        .unwrap();
    for key in keys.iter() {
        assert!(
            tx.kv().get("b", key.as_bytes()).unwrap().is_some(),
            "{key} was acknowledged"
        );
    }
}

#[test]
fn the_number_of_feeds_is_limited() {
    let server = Server::with(&[("limits.feeds", "1")]);
    let admin = server.admin();
    let path = "/v1/databases/people/changes";
    let query = "{\"query\":\"MATCH (n) RETURN n\"}";
    // Reads only the status: a feed has no end.
    let open = |method: &str, body: &str| {
        let mut stream = admin.connect();
        let head = admin.head(method, path);
        let about = "Content-Type: application/json\r\nContent-Length";
        let request = format!("{head}{about}: {}\r\n\r\n{body}", body.len());
        stream.write_all(request.as_bytes()).unwrap();
        let mut status = [0; 12];
        stream.read_exact(&mut status).unwrap();
        (String::from_utf8_lossy(&status).into_owned(), stream)
    };
    let (status, feed) = open("GET", "");
    assert_eq!(status, "HTTP/1.1 200");
    for (method, body) in [("GET", ""), ("POST", query)] {
        assert_eq!(open(method, body).0, "HTTP/1.1 429", "{method}");
    }
    let refused = admin.get(path);
    assert_eq!((refused.status, refused.kind().as_str()), (429, "Limit"));
    assert!(refused.header("retry-after").is_some(), "{refused:?}");
    // The slot is released when its client has disconnected.
    drop(feed);
    poll::until("the slot is free", || open("GET", "").0 == "HTTP/1.1 200");
}

#[test]
fn a_login_expires() {
    let server = Server::with(&[("limits.login_time", "50ms")]);
    let late = poll::until_some("the login expires", || {
        Some(server.admin().get("/v1/me")).filter(|answer| answer.status != 200)
    });
    assert_eq!(
        (late.status, late.kind().as_str()),
        (401, "Unauthenticated")
    );
    // It is the time since the login, not since the start.
    let server = Server::with(&[("limits.login_time", "3s")]);
    let token = server.login("admin");
    let began = Instant::now();
    let mut seen = 0;
    poll::until("the login expires", || {
        let is_valid = server.client(&token).get("/v1/me").status == 200;
        seen += u32::from(is_valid);
        !is_valid
    });
    assert!(seen > 0 && began.elapsed() > Duration::from_secs(2));
}
