//! Malformed and hostile requests.

use std::{
    io::{Read, Write},
    time::{Duration, Instant},
};

use crate::support::{Server, read_answer};

const QUERY: &str = "/v1/databases/people/query";

fn post_head(token: &str, more: &str) -> String {
    format!(
        "POST {QUERY} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n{more}\r\n"
    )
}

#[test]
fn a_length_of_two_gibibytes_is_refused_before_a_byte_is_buffered() {
    let server = Server::new();
    for length in ["2147483648", "18446744073709551615", "16777217"] {
        let answer = server
            .admin()
            .raw(post_head(&server.admin, &format!("Content-Length: {length}\r\n")).as_bytes())
            .unwrap();
        assert!(matches!(answer.status, 413 | 431), "{length}: {answer:?}");
    }
    for length in ["-1", "1e3", "0x10", "18446744073709551616", "1, 2", ""] {
        let answer = server
            .admin()
            .raw(post_head(&server.admin, &format!("Content-Length: {length}\r\n")).as_bytes());
        assert!(
            answer
                .as_ref()
                .map_or(true, |answer| matches!(answer.status, 400 | 431)),
            "{length}: {answer:?}"
        );
    }
}

#[test]
fn a_body_shorter_than_its_length_is_not_a_request() {
    let server = Server::with(&[("limits.body_time", "300ms")]);
    let body = "{\"query\":\"CREATE (:Half)\"}";
    let head = post_head(
        &server.admin,
        &format!("Content-Length: {}\r\n", body.len() + 10),
    );
    let answer = server
        .admin()
        .raw(format!("{head}{body}").as_bytes())
        .unwrap();
    assert_eq!(answer.status, 408, "{answer:?}");
    // Longer: the rest is not another request.
    let head = post_head(
        &server.admin,
        &format!("Content-Length: {}\r\n", body.len()),
    );
    let mut stream = server.admin().connect();
    stream
        .write_all(
            format!("{head}{body}DELETE /v1/databases/people/buckets/b HTTP/1.1\r\n\r\n")
                .as_bytes(),
        )
        .unwrap();
    assert_eq!(read_answer(&mut stream).unwrap().status, 200);
    let second = read_answer(&mut stream);
    assert!(
        second
            .as_ref()
            .map_or(true, |answer| matches!(answer.status, 400 | 401 | 421)),
        "{second:?}"
    );
    assert_eq!(
        server
            .people
            .query("MATCH (h:Half) RETURN h")
            .unwrap()
            .len(),
        1
    );
}

#[test]
fn endless_chunks_are_refused_at_the_limit() {
    let server = Server::with(&[("limits.body", "64KiB")]);
    let mut stream = server.admin().connect();
    stream
        .write_all(post_head(&server.admin, "Transfer-Encoding: chunked\r\n").as_bytes())
        .unwrap();
    let chunk = format!("1000\r\n{}\r\n", "x".repeat(4096));
    for _ in 0..64 {
        if stream.write_all(chunk.as_bytes()).is_err() {
            break;
        }
    }
    assert_eq!(read_answer(&mut stream).unwrap().status, 413);
    for size in ["7fffffffffffffff", "ffffffffffffffffff", "-1", "zz"] {
        let request = format!(
            "{}{size}\r\n{{}}\r\n0\r\n\r\n",
            post_head(&server.admin, "Transfer-Encoding: chunked\r\n")
        );
        let answer = server.admin().raw(request.as_bytes());
        assert!(
            answer
                .as_ref()
                .map_or(true, |answer| matches!(answer.status, 400 | 413 | 408)),
            "{size}: {answer:?}"
        );
    }
}

#[test]
fn a_compression_bomb_is_refused_at_the_limit() {
    let server = Server::with(&[("limits.body", "1MiB")]);
    let zeros = vec![b' '; 200 << 20];
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gzip.write_all(&zeros).unwrap();
    let packed = gzip.finish().unwrap();
    assert!(packed.len() < 1 << 20);
    let bomb = |coding: &str, packed: &[u8]| {
        let headers = [
            ("Content-Type", "application/json"),
            ("Content-Encoding", coding),
        ];
        server.admin().send("POST", QUERY, &headers, packed).status
    };
    assert_eq!(bomb("gzip", &packed), 413);
    assert_eq!(bomb("zstd", &zstd::encode_all(&zeros[..], 1).unwrap()), 413);
    assert_eq!(bomb("gzip", b"no gzip"), 400);
    assert_eq!(bomb("br", b"x"), 415);
    assert_eq!(bomb("gzip, gzip", &packed), 415);
    // Compressed well, and within the limit.
    let fine = zstd::encode_all(&b"{\"query\":\"RETURN 1\"}"[..], 1).unwrap();
    assert_eq!(bomb("zstd", &fine), 200);
}

/// A few KB before a login must not become hundreds of MiB of values, nor may the server wait for megabytes.
#[test]
fn unauthenticated_clients_may_send_only_small_bodies() {
    let server = Server::new();
    let anonymous = server.client("");
    let many = format!(
        "{{\"user\":[{}0],\"password\":\"x\"}}",
        "{\"a\":0},".repeat(500_000)
    );
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gzip.write_all(many.as_bytes()).unwrap();
    let packed = gzip.finish().unwrap();
    assert!(packed.len() < 16 << 10, "{}", packed.len());
    for path in ["/v1/login", "/v1/setup"] {
        let json = ("Content-Type", "application/json");
        let headers = [json, ("Content-Encoding", "gzip")];
        let bomb = anonymous.send("POST", path, &headers, &packed);
        assert_eq!(
            (bomb.status, bomb.kind().as_str()),
            (413, "Limit"),
            "{path}"
        );
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 20000\r\n\r\n"
        );
        let answer = anonymous.raw(head.as_bytes()).unwrap();
        assert_eq!(answer.status, 413, "{path}: the body is not waited for");
    }
    server.login("admin");
}

/// The values of a body count for its user while the request is in progress.
#[test]
fn values_of_a_body_count_for_their_user() {
    let server = Server::with(&[
        ("limits.user_memory", "32MiB"),
        ("limits.query_memory", "8MiB"),
    ]);
    let ada = server.client(&server.user("ada", "{\"people\":\"editor\"}"));
    let many = format!("[{}0]", "{\"a\":0},".repeat(150_000));
    let query = format!("{{\"query\":\"RETURN size($p)\",\"parameters\":{{\"p\":{many}}}}}");
    for (method, path, body) in [
        ("POST", QUERY, &query),
        ("POST", "/v1/databases/people/collections/L", &many),
        ("PUT", "/v1/databases/people/buckets/b/keys/k", &many),
    ] {
        let answer = ada.json(method, path, body);
        assert_eq!(
            (answer.status, answer.kind().as_str()),
            (413, "Limit"),
            "{path}"
        );
        assert!(answer.text().contains("limits.user_memory"), "{answer:?}");
    }
    // A long text is not many values, and a refused body no longer counts.
    let text = "a,b:{[".repeat(1_000_000);
    let body = serde_json::json!({ "query": "RETURN size($p)", "parameters": { "p": text } });
    let answer = ada.json("POST", QUERY, &body.to_string());
    assert_eq!(answer.status, 200, "{answer:?}");
}

/// Invalid header fields are refused, not ignored.
#[test]
fn invalid_header_fields_are_refused() {
    let server = Server::new();
    let admin = server.admin();
    let key = "/v1/databases/people/buckets/b/keys/k";
    let one = admin.json("PUT", key, "1");
    let tag = one.header("etag").unwrap().to_owned();
    for (name, values) in [
        ("If-Match", vec!["\"é\""]),
        ("If-None-Match", vec!["\"é\""]),
        ("Isomer-Transaction", vec!["é"]),
        ("Isomer-Transaction", vec!["a", "b"]),
        ("Idempotency-Key", vec!["é"]),
        ("Idempotency-Key", vec!["a", "a"]),
        ("Origin", vec!["http://é"]),
        ("Origin", vec!["http://localhost", "http://elsewhere"]),
    ] {
        let asked = values
            .iter()
            .fold(admin.clone(), |client, value| client.with(name, value));
        let answer = asked.json("PUT", key, "2");
        assert_eq!(
            (answer.status, answer.kind().as_str()),
            (400, "Invalid"),
            "{name} {values:?}"
        );
    }
    // Lists may be split over several fields.
    let listed = |name: &str, values: [&str; 2]| {
        let asked = admin.with(name, values[0]).with(name, values[1]);
        asked.json("PUT", key, "2").status
    };
    assert_eq!(listed("If-None-Match", ["\"x\"", "*"]), 412);
    assert_eq!(listed("If-Match", ["\"x\"", "\"y\""]), 412);
    assert_eq!(admin.get(key).text(), "1");
    assert_eq!(listed("If-Match", ["\"x\"", &tag]), 204);
    assert_eq!(admin.get(key).text(), "2");
}

#[test]
fn deeply_nested_json_does_not_overflow_before_or_after_a_login() {
    let server = Server::new();
    for depth in [200, 100_000, 4_000_000] {
        let deep = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let login = format!("{{\"user\":{deep},\"password\":\"x\"}}");
        let status = server.client("").json("POST", "/v1/login", &login).status;
        assert_eq!(status, if depth == 200 { 400 } else { 413 });
        let query = format!("{{\"query\":\"RETURN $p\",\"parameters\":{{\"p\":{deep}}}}}");
        assert_eq!(server.admin().json("POST", QUERY, &query).status, 400);
        let text = serde_json::json!({ "query": format!("RETURN {deep}") }).to_string();
        let answer = server.admin().json("POST", QUERY, &text);
        assert!(
            matches!(answer.status, 400 | 413 | 422),
            "{}",
            answer.status
        );
    }
    assert_eq!(server.client("").get("/health").status, 200);
}

#[test]
fn invalid_bodies_are_refused() {
    let server = Server::new();
    let admin = server.admin();
    for body in [
        "",
        "null",
        "[]",
        "7",
        "{",
        "{\"query\":\"RETURN 1\"} {}",
        "{\"query\":\"RETURN 1\"}x",
        "{\"query\":7}",
        "{\"query\":\"RETURN 1\",\"query\":\"RETURN 2\"}",
        "{\"qeury\":\"RETURN 1\"}",
        "{'query':'RETURN 1'}",
        "\u{feff}{}",
        "{\"query\":\"RETURN 1\",\"parameters\":[]}",
        "{\"query\":\"RETURN 1\",\"limits\":{\"memory\":1}}",
    ] {
        let answer = admin.json("POST", QUERY, body);
        assert_eq!(
            (answer.status, answer.kind().as_str()),
            (400, "Invalid"),
            "{body}"
        );
    }
    assert_eq!(
        admin
            .send(
                "POST",
                QUERY,
                &[("Content-Type", "application/json")],
                b"{\"query\":\"\xff\"}"
            )
            .status,
        400
    );
    for content_type in [
        "text/plain",
        "application/xml",
        "multipart/form-data; boundary=x",
        "application/json+evil",
        "json",
    ] {
        assert_eq!(
            admin
                .send("POST", QUERY, &[("Content-Type", content_type)], b"{}")
                .status,
            415,
            "{content_type}"
        );
    }
    assert_eq!(admin.send("POST", QUERY, &[], b"{}").status, 415);
    let twice = [
        ("Content-Type", "application/json"),
        ("Content-Type", "text/plain"),
    ];
    assert_eq!(
        admin
            .send("POST", QUERY, &twice, b"{\"query\":\"RETURN 1\"}")
            .status,
        415
    );
    assert_eq!(
        admin
            .get("/v1/databases/people/buckets/b/keys?limt=1")
            .status,
        400,
        "a parameter that is not known"
    );
    assert_eq!(
        admin
            .get("/v1/databases/people/buckets/b/keys?limit=1&limit=2")
            .status,
        400
    );
    assert_eq!(
        admin
            .get("/v1/databases/people/buckets/b/keys?limit=0")
            .status,
        400
    );
    assert_eq!(
        admin
            .get("/v1/databases/people/buckets/b/keys?from=%ff")
            .status,
        400
    );
    assert_eq!(admin.send("BREW", QUERY, &[], b"").status, 405);
    assert_eq!(admin.send("TRACE", QUERY, &[], b"").status, 405);
    assert_eq!(admin.delete(QUERY).status, 405);
}

#[test]
fn paths_outside_of_the_routes_lead_nowhere() {
    let server = Server::new();
    let admin = server.admin();
    for path in [
        "/../../etc/passwd",
        "/v1/../../../etc/passwd",
        "/v1/docs/../../Cargo.toml",
        "/v1/docs/%2e%2e%2f%2e%2e%2fetc%2fpasswd",
        "/v1/docs/page.js/../../../etc/passwd",
        "//etc/passwd",
        "/v1/databases/people/../other",
        "/v1/databases/people%2f..%2fother",
        "/V1/health",
        "/v1",
        "/console/../v1/me",
    ] {
        let answer = admin.get(path);
        assert!(matches!(answer.status, 403 | 404), "{path}: {answer:?}");
        assert!(!answer.text().contains("root:"), "{path}");
    }
    assert!(
        admin
            .raw(b"GET /%zz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            .unwrap()
            .status
            >= 400
    );
    let file = server.folder.path().join("secret.csv");
    std::fs::write(&file, "a\n1\n").unwrap();
    let load = serde_json::json!({ "query": format!("LOAD CSV FROM 'file://{}' AS row RETURN row", file.display()) });
    assert!(
        admin.json("POST", QUERY, &load.to_string()).status >= 400,
        "no file is read"
    );
    let fetch = "{\"query\":\"LOAD CSV FROM 'http://169.254.169.254/latest' AS row RETURN row\"}";
    assert!(
        admin.json("POST", QUERY, fetch).status >= 400,
        "no connection is made"
    );
}

/// Two lengths, or a hidden transfer coding, must not smuggle a second request into the first.
#[test]
fn smuggled_requests_are_not_executed() {
    let server = Server::new();
    let admin = server.admin();
    let smuggled = "DELETE /v1/databases/other HTTP/1.1\r\nHost: localhost\r\n\r\n";
    for head in [
        "Content-Length: 4\r\nContent-Length: 5\r\n",
        "Transfer-Encoding: chunked, identity\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding : chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        "Content-Length: 2\r\n X: y\r\n",
        "Content-Length : 2\r\n",
    ] {
        let request = format!("{}{{}}{smuggled}", post_head(&server.admin, head));
        let answer = admin.raw(request.as_bytes());
        assert!(
            answer.as_ref().map_or(true, |answer| answer.status == 400),
            "{head:?}: {answer:?}"
        );
    }
    // With both, the chunks take precedence (RFC 9112, 6.3), and what follows is another request, without a token.
    let body = "14\r\n{\"query\":\"RETURN 1\"}\r\n0\r\n\r\n";
    let head = post_head(
        &server.admin,
        "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
    );
    let mut stream = admin.connect();
    stream
        .write_all(format!("{head}{body}{smuggled}").as_bytes())
        .unwrap();
    let first = read_answer(&mut stream).unwrap();
    assert!(matches!(first.status, 200 | 400), "{first:?}");
    if let Ok(second) = read_answer(&mut stream) {
        assert!(matches!(second.status, 400 | 401), "{second:?}");
    }
    // Compressed transfer codings are refused: they would be taken for the body.
    for coding in ["gzip, chunked", "gzip,chunked"] {
        let head = post_head(
            &server.admin,
            &format!("Transfer-Encoding: {coding}\r\nConnection: close\r\n"),
        );
        let answer = admin.raw(format!("{head}{body}").as_bytes()).unwrap();
        assert_eq!(answer.status, 400, "{coding}: {answer:?}");
    }
    for name in ["Authorization\0", "Authori zation", "Authorization\r"] {
        let request = format!(
            "GET /v1/me HTTP/1.1\r\nHost: localhost\r\n{name}: Bearer {}\r\nConnection: close\r\n\r\n",
            server.admin
        );
        let answer = admin.raw(request.as_bytes());
        assert!(
            answer
                .as_ref()
                .map_or(true, |answer| matches!(answer.status, 400 | 401)),
            "{name:?}: {answer:?}"
        );
    }
}

#[test]
fn a_request_must_name_exactly_one_host() {
    let server = Server::new();
    let admin = server.admin();
    let ask = |target: &str, hosts: &str| {
        let request = format!(
            "GET {target} HTTP/1.1\r\n{hosts}Authorization: Bearer {}\r\nConnection: close\r\n\r\n",
            server.admin
        );
        admin.raw(request.as_bytes()).unwrap()
    };
    let own = "Host: localhost\r\n";
    for (target, hosts) in [
        ("/v1/me", "Host: localhost\r\nHost: elsewhere\r\n"),
        ("/v1/me", "Host: elsewhere\r\nHost: localhost\r\n"),
        ("/v1/me", "Host: localhost\r\nHost: localhost\r\n"),
        ("http://elsewhere/v1/me", own),
        ("http://localhost:x@elsewhere/v1/me", own),
    ] {
        let answer = ask(target, hosts);
        assert_eq!(answer.status, 400, "{target} {hosts:?}: {answer:?}");
    }
    assert_eq!(ask("/v1/me", own).status, 200);
    assert_eq!(ask("http://localhost/v1/me", own).status, 200);
}

#[test]
fn a_path_parameter_that_is_not_utf8_is_an_ordinary_error() {
    let server = Server::new();
    let path = "/v1/databases/people/buckets/b/keys/%ff";
    let answer = server.admin().get(path);
    assert_eq!(answer.status, 400, "{answer:?}");
    assert_eq!(answer.kind(), "Invalid");
    assert!(answer.text().contains("key_encoding=base64"), "{answer:?}");
    assert_eq!(server.client("").get(path).status, 401);
}

#[test]
fn the_size_of_heads_is_limited() {
    let server = Server::with(&[("limits.head", "16KiB")]);
    let anonymous = server.client("");
    let long = anonymous
        .with("X-Long", &"x".repeat(1 << 20))
        .get("/health");
    assert_eq!(long.status, 431);
    let mut many = anonymous.clone();
    for number in 0..200 {
        many = many.with(&format!("X-{number}"), "1");
    }
    assert_eq!(many.get("/health").status, 431);
    let path = anonymous.get(&format!("/health?{}", "x".repeat(60_000)));
    assert!(matches!(path.status, 414 | 431), "{path:?}");
    assert_eq!(anonymous.get("/health").status, 200);
}

#[test]
fn texts_of_queries_and_names_are_returned_unchanged() {
    let server = Server::new();
    let admin = server.admin();
    let evil = "x'}) MATCH (n) DETACH DELETE n //";
    admin.rows("people", "CREATE (:Keep)");
    let body = serde_json::json!({ "query": "CREATE (:A {name: $name}) RETURN 1", "parameters": { "name": evil } });
    assert_eq!(admin.json("POST", QUERY, &body.to_string()).status, 200);
    let types = "KNOWS%60%5D-()%20DETACH%20DELETE%20n%20//";
    let id = admin.rows("people", "MATCH (k:Keep) RETURN id(k)")[0][0]
        .as_u64()
        .unwrap();
    let answer = admin.get(&format!(
        "/v1/databases/people/nodes/{id}/neighbours?types={types}"
    ));
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(
        admin.rows("people", "MATCH (k:Keep) RETURN count(k)")[0][0],
        1
    );
    // Stored values are returned as data, never as a page.
    let script = "<script>alert(1)</script>";
    let put = serde_json::json!({ "name": script, script: 1 }).to_string();
    admin.json("PUT", "/v1/databases/people/collections/User/s", &put);
    let got = admin.get("/v1/databases/people/collections/User/s");
    assert_eq!(got.header("content-type"), Some("application/json"));
    assert_eq!(got.header("x-content-type-options"), Some("nosniff"));
    let error = admin.get(&format!(
        "/v1/databases/people/collections/User/s?{}=1",
        "%3Cscript%3E"
    ));
    assert_eq!(
        (error.status, error.header("content-type")),
        (400, Some("application/json"))
    );
}

#[test]
fn long_texts_of_queries_are_refused() {
    let server = Server::new();
    let text = format!("RETURN 1 // {}", "x".repeat(2 << 20));
    let body = serde_json::json!({ "query": text }).to_string();
    assert_eq!(server.admin().json("POST", QUERY, &body).status, 413);
    let parens = format!("RETURN {}1{}", "(".repeat(10_000), ")".repeat(10_000));
    let body = serde_json::json!({ "query": parens }).to_string();
    assert!(matches!(
        server.admin().json("POST", QUERY, &body).status,
        400 | 422
    ));
}

#[test]
fn connections_that_do_not_speak_http_are_closed() {
    let server = Server::new();
    for (bytes, status) in [
        (
            &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..],
            Some(400),
        ),
        // HTTP/2 is not supported.
        (&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], None),
        (
            &b"\x60\x60\xb0\x17\x00\x00\x05\x04\x00\x00\x00\x00"[..],
            Some(400),
        ),
        (&[0; 1000][..], Some(400)),
        (&b"GET / HTTP/9.9\r\n\r\n"[..], Some(400)),
        (&b"\r\n\r\n\r\nGET"[..], None),
    ] {
        let began = Instant::now();
        let mut stream = server.client("").connect();
        stream.write_all(bytes).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        // Unread data may reset the connection before the answer arrives; it is closed in time either way.
        let _ = stream.read_to_end(&mut answer);
        assert!(began.elapsed() < Duration::from_secs(5), "{bytes:?}");
        let answer = String::from_utf8_lossy(&answer);
        let sent = answer.split(' ').nth(1).and_then(|code| code.parse().ok());
        assert_eq!(sent, status, "{bytes:?}: {answer:?}");
    }
    assert_eq!(server.client("").get("/health").status, 200);
}
