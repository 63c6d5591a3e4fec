//! Files over HTTP: whole and in part, in either direction.

use crate::support::Server;

const FILE: &str = "/v1/databases/people/file";
const FILES: &str = "/v1/databases/people/files";
const BYTES: [(&str, &str); 1] = [("Content-Type", "application/octet-stream")];

#[test]
fn a_file_comes_back_whole_and_in_part() {
    let server = Server::new();
    let admin = server.admin();
    let content: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
    let path = format!("{FILE}?path=/films/one.bin");
    let without = admin.send("PUT", &path, &BYTES, &content);
    assert_eq!(without.status, 404, "there is no such folder");
    let made = admin.send("PUT", &format!("{path}&folders"), &BYTES, &content);
    assert_eq!(made.status, 201, "{made:?}");
    let tag = made.header("etag").unwrap().to_owned();
    let whole = admin.get(&path);
    assert_eq!((whole.status, whole.body.len()), (200, content.len()));
    assert!(whole.body == content);
    assert_eq!(whole.header("etag"), Some(&*tag));
    assert_eq!(whole.header("accept-ranges"), Some("bytes"));
    for (range, part) in [
        ("bytes=0-0", 0..1),
        ("bytes=1000-1000999", 1_000..1_001_000),
        ("bytes=2999990-", 2_999_990..3_000_000),
        ("bytes=-5", 2_999_995..3_000_000),
    ] {
        let answer = admin.with("Range", range).get(&path);
        assert_eq!(answer.status, 206, "{range}");
        assert!(answer.body == content[part.clone()], "{range}");
        let said = format!("bytes {}-{}/3000000", part.start, part.end - 1);
        assert_eq!(answer.header("content-range"), Some(&*said));
    }
    let beyond = admin.with("Range", "bytes=3000000-").get(&path);
    assert_eq!(beyond.status, 416);
    assert_eq!(beyond.header("content-range"), Some("bytes */3000000"));
    let other = admin.with("Range", "bytes=0-0").with("If-Range", "\"x\"");
    assert_eq!(other.get(&path).status, 200);
    assert_eq!(admin.with("If-None-Match", &tag).get(&path).status, 304);
    // Compare-and-set.
    let changed = admin.with("If-Match", "\"x\"");
    assert_eq!(changed.send("PUT", &path, &BYTES, b"new").status, 412);
    let changed = admin.with("If-Match", &tag);
    assert_eq!(changed.send("PUT", &path, &BYTES, b"new").status, 204);
    assert_eq!(admin.get(&path).body, b"new");
    assert_eq!(admin.send("PUT", &path, &BYTES, b"").status, 204);
    assert_eq!(admin.get(&path).body, b"");
    assert_eq!(admin.with("Range", "bytes=0-").get(&path).status, 416);
}

#[test]
fn folders_are_listed_moved_and_removed() {
    let server = Server::new();
    let admin = server.admin();
    assert_eq!(
        admin
            .send("PUT", &format!("{FILES}?path=/a/b/c"), &[], b"")
            .status,
        201
    );
    for name in ["one", "two", "three"] {
        let path = format!("{FILE}?path=/a/{name}");
        assert_eq!(admin.send("PUT", &path, &BYTES, b"x").status, 201);
    }
    let first = admin.get(&format!("{FILES}?path=/a&limit=2")).value();
    assert_eq!(first["entries"][0]["name"], "b");
    assert_eq!(first["entries"][0]["kind"], "folder");
    let cursor = first["next"].as_str().unwrap();
    let second = admin
        .get(&format!("{FILES}?path=/a&limit=2&cursor={cursor}"))
        .value();
    assert_eq!(second["entries"][0]["name"], "three");
    assert_eq!(second["entries"][1]["bytes"], 1);
    let moved = admin.post(&format!("{FILE}/move?path=/a/one&to=/a/b/one"));
    assert_eq!(moved.status, 204);
    assert_eq!(admin.get(&format!("{FILE}?path=/a/one")).status, 404);
    assert_eq!(admin.get(&format!("{FILE}?path=/a/b/one")).body, b"x");
    let refused = admin.delete(&format!("{FILE}?path=/a"));
    assert!((400..500).contains(&refused.status), "{refused:?}");
    assert_eq!(admin.delete(&format!("{FILE}?path=/a&all")).status, 204);
    assert_eq!(admin.delete(&format!("{FILE}?path=/a&all")).status, 404);
    assert_eq!(admin.get(FILES).value()["entries"], serde_json::json!([]));
}

/// No path leads out of the database, and no request leaves half a file.
#[test]
fn paths_that_lead_nowhere_and_bodies_that_end_early_leave_nothing() {
    let server = Server::with(&[("limits.import", "1MiB")]);
    let admin = server.admin();
    for path in [
        "../etc/passwd",
        "/../etc/passwd",
        "/a/../../etc/passwd",
        "%2e%2e%2fetc%2fpasswd",
        "/etc/passwd",
        "//etc//passwd",
        "/%00",
        "",
    ] {
        let answer = admin.get(&format!("{FILE}?path={path}"));
        assert!((400..500).contains(&answer.status), "{path}: {answer:?}");
        assert!(!answer.text().contains("root:"), "{path}");
    }
    let large = vec![7; 2 << 20];
    let answer = admin.send("PUT", &format!("{FILE}?path=/large"), &BYTES, &large);
    assert!((400..500).contains(&answer.status), "{answer:?}");
    let head = format!(
        "PUT {FILE}?path=/half HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nContent-Length: 1000\r\n\r\nhalf of it",
        server.admin
    );
    let mut stream = admin.connect();
    std::io::Write::write_all(&mut stream, head.as_bytes()).unwrap();
    drop(stream);
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(admin.get(FILES).value()["entries"], serde_json::json!([]));
}
