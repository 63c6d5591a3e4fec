//! Files over HTTP: whole and in part, in both directions.

use std::io::Write;

use crate::support::{Server, read_answer};

const FILE: &str = "/v1/databases/people/file";
const FILES: &str = "/v1/databases/people/files";
const BYTES: [(&str, &str); 1] = [("Content-Type", "application/octet-stream")];

#[test]
fn a_file_is_read_whole_and_in_part() {
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

/// Concurrent uploads under a precondition that holds when they begin: one of them succeeds.
#[test]
fn one_of_several_concurrent_uploads_under_a_condition_wins() {
    let server = Server::new();
    let admin = server.admin();
    let path = format!("{FILE}?path=/raced");
    // First for a free name, then for the content that the winner wrote.
    let mut condition = ("If-None-Match".to_owned(), "*".to_owned());
    for round in 0..3_u8 {
        let uploads: Vec<_> = (0..4_u8)
            .map(|number| {
                let head = format!(
                    "PUT {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {}\r\n{}: {}\r\nContent-Length: 2000\r\n\r\n",
                    server.admin, condition.0, condition.1
                );
                let mut stream = admin.connect();
                stream.write_all(head.as_bytes()).unwrap();
                stream.write_all(&[10 * round + number; 1000]).unwrap();
                stream
            })
            .collect();
        // All have been admitted and wait for the rest of their content; the fifth request reads the metrics.
        server.await_metric("isomer_requests_at_work", 5);
        let answers: Vec<_> = std::thread::scope(|scope| {
            let sending: Vec<_> = uploads
                .into_iter()
                .enumerate()
                .map(|(number, mut stream)| {
                    scope.spawn(move || {
                        stream
                            .write_all(&[10 * round + number as u8; 1000])
                            .unwrap();
                        (number as u8, read_answer(&mut stream).unwrap())
                    })
                })
                .collect();
            sending.into_iter().map(|one| one.join().unwrap()).collect()
        });
        let won: Vec<_> = answers
            .iter()
            .filter(|(_, answer)| answer.status < 300)
            .collect();
        assert_eq!(won.len(), 1, "{answers:?}");
        let lost = answers.iter().filter(|(_, answer)| answer.status == 412);
        assert_eq!(lost.count(), 3, "{answers:?}");
        let (number, answer) = won[0];
        assert_eq!(answer.status, if round == 0 { 201 } else { 204 });
        let kept = admin.get(&path);
        assert!(kept.body == [10 * round + number; 2000]);
        let tag = answer.header("etag").unwrap();
        assert_eq!(kept.header("etag"), Some(tag));
        condition = ("If-Match".to_owned(), tag.to_owned());
    }
}

/// No path leads out of the database, and an interrupted request leaves no partial file.
#[test]
fn invalid_paths_and_interrupted_bodies_leave_nothing() {
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
    stream.write_all(head.as_bytes()).unwrap();
    drop(stream);
    server.await_end_of_requests();
    assert_eq!(admin.get(FILES).value()["entries"], serde_json::json!([]));
}

/// A folder is not confused with another one whose name has the same prefix.
#[test]
fn folders_with_a_common_prefix_are_different() {
    let server = Server::new();
    let admin = server.admin();
    let at = |path: &str| admin.get(&format!("{FILE}?path={path}"));
    for path in ["/data/db/a", "/data/db-other/b", "/data/db.txt"] {
        let put = format!("{FILE}?path={path}&folders");
        let made = admin.send("PUT", &put, &BYTES, path.as_bytes());
        assert_eq!(made.status, 201, "{made:?}");
    }
    for path in [
        "/data/db/../db-other/b",
        "/data/db/..-other/b",
        "/data/db%2f..%2fdb-other%2fb",
        "/data/db/.",
        "/data/db-",
        "/data/db/a/../../db-other/b",
    ] {
        let answer = at(path);
        assert!((400..500).contains(&answer.status), "{path}: {answer:?}");
        assert!(!answer.text().contains("db-other/b\n"), "{path}");
    }
    let listed = admin.get(&format!("{FILES}?path=/data/db")).value();
    let names: Vec<_> = listed["entries"].as_array().unwrap().iter().collect();
    assert_eq!(names.len(), 1, "{listed}");
    let moved = admin.post(&format!("{FILE}/move?path=/data/db&to=/data/db-2"));
    assert_eq!(moved.status, 204, "{moved:?}");
    assert_eq!(at("/data/db-2/a").text(), "/data/db/a");
    assert_eq!(at("/data/db-other/b").text(), "/data/db-other/b");
    assert_eq!(
        admin.delete(&format!("{FILE}?path=/data/db-2&all")).status,
        204
    );
    assert_eq!(at("/data/db-2/a").status, 404);
    for path in ["/data/db-other/b", "/data/db.txt"] {
        assert_eq!(at(path).text(), path);
    }
}
