//! Buckets, documents, graph, import and export, changes, databases.

use isomer_db::internals::DatabaseInternals as _;
use std::io::{Read, Write};

use isomer_testkit::poll;
use serde_json::json;

use crate::support::{Client, Server};

const PEOPLE: &str = "/v1/databases/people";

fn at(path: &str) -> String {
    format!("{PEOPLE}{path}")
}

#[test]
fn keys_are_put_read_scanned_and_deleted() {
    let server = Server::new();
    let admin = server.admin();
    for number in 0..25 {
        let put = admin.json(
            "PUT",
            &at(&format!("/buckets/log/keys/k{number:02}")),
            &format!("{{\"n\":{number}}}"),
        );
        assert_eq!(put.status, 204, "{put:?}");
    }
    assert_eq!(
        admin.get(&at("/buckets/log/keys/k07")).value(),
        json!({"n": 7})
    );
    assert_eq!(admin.get(&at("/buckets/log/keys/none")).status, 404);
    // Page by page, in both orders.
    for (order, first, last) in [("asc", "k00", "k24"), ("desc", "k24", "k00")] {
        let (mut keys, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = admin
                .get(&at(&format!(
                    "/buckets/log/keys?limit=10&order={order}{cursor}"
                )))
                .value();
            keys.extend(
                page["pairs"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|pair| pair["key"].as_str().unwrap().to_owned()),
            );
            match page["next"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        assert_eq!(
            (keys.len(), keys[0].as_str(), keys[24].as_str()),
            (25, first, last)
        );
    }
    let range = admin.get(&at("/buckets/log/keys?from=k05&to=k08")).value();
    assert_eq!(range["pairs"].as_array().unwrap().len(), 3);
    assert_eq!(
        admin.get(&at("/buckets/log/keys?prefix=k1")).value()["pairs"]
            .as_array()
            .unwrap()
            .len(),
        10
    );
    assert_eq!(admin.delete(&at("/buckets/log/keys?prefix=k1")).status, 204);
    assert_eq!(
        admin.get(&at("/buckets/log/keys")).value()["pairs"]
            .as_array()
            .unwrap()
            .len(),
        15
    );
    assert_eq!(
        admin.delete(&at("/buckets/log/keys")).status,
        400,
        "not everything by accident"
    );
    assert_eq!(admin.delete(&at("/buckets/log/keys/k07")).status, 204);
    assert_eq!(admin.get(&at("/buckets/log/keys/k07")).status, 404);
    assert_eq!(
        admin.get(&at("/buckets")).value()["buckets"][0]["bucket"],
        "log"
    );
    assert_eq!(admin.delete(&at("/buckets/log")).status, 204);
    assert_eq!(admin.delete(&at("/buckets/log")).status, 404);
}

#[test]
fn keys_and_values_may_be_any_bytes() {
    let server = Server::new();
    let admin = server.admin();
    let bytes = [0, 255, 10, 13, 0];
    let path = at("/buckets/raw/keys/AP8K?key_encoding=base64");
    let put = admin.send(
        "PUT",
        &path,
        &[("Content-Type", "application/octet-stream")],
        &bytes,
    );
    assert_eq!(put.status, 204, "{put:?}");
    assert_eq!(
        admin
            .with("Accept", "application/octet-stream")
            .get(&path)
            .body,
        bytes
    );
    assert_eq!(admin.get(&path).value(), json!({"$bytes": "AP8KDQA="}));
    let pairs = admin.get(&at("/buckets/raw/keys")).value();
    assert_eq!(pairs["pairs"][0]["key"], json!({"$bytes": "AP8K"}));
    let text = admin.send(
        "PUT",
        &at("/buckets/raw/keys/a%2Fb%20%C3%A4"),
        &[("Content-Type", "text/plain; charset=utf-8")],
        "ä".as_bytes(),
    );
    assert_eq!(text.status, 204);
    assert_eq!(
        admin.get(&at("/buckets/raw/keys/a%2Fb%20%C3%A4")).value(),
        json!("ä")
    );
    assert_eq!(
        admin.json("PUT", &at("/buckets/raw/keys/x"), "null").status,
        400
    );
    assert_eq!(
        admin
            .get(&at("/buckets/raw/keys/x?key_encoding=base32"))
            .status,
        400
    );
}

#[test]
fn a_key_expires_at_its_time() {
    let server = Server::new();
    let admin = server.admin();
    admin.json("PUT", &at("/buckets/s/keys/short?expires_in_ms=50"), "1");
    admin.json("PUT", &at("/buckets/s/keys/long?expires_in_ms=100000"), "1");
    poll::until("the key expires", || {
        admin.get(&at("/buckets/s/keys/short")).status == 404
    });
    assert_eq!(admin.get(&at("/buckets/s/keys/long")).status, 200);
}

#[test]
fn buckets_with_several_values_and_sequences() {
    let server = Server::new();
    let admin = server.admin();
    assert_eq!(
        admin
            .json("PUT", &at("/buckets/tags"), "{\"multi\":true}")
            .status,
        201
    );
    assert_eq!(admin.json("PUT", &at("/buckets/tags"), "{}").status, 409);
    for tag in ["rust", "database", "rust"] {
        assert_eq!(
            admin
                .json(
                    "POST",
                    &at("/buckets/tags/keys/post/values"),
                    &format!("\"{tag}\"")
                )
                .status,
            204
        );
    }
    assert_eq!(
        admin.get(&at("/buckets/tags/keys/post/values")).value()["values"],
        json!(["database", "rust"])
    );
    admin.json(
        "POST",
        &at("/buckets/tags/keys/post/values?remove=true"),
        "\"rust\"",
    );
    assert_eq!(
        admin.get(&at("/buckets/tags/keys/post/values")).value()["values"],
        json!(["database"])
    );
    assert_eq!(
        admin.get(&at("/buckets/tags/keys")).value()["pairs"],
        json!([{"key": "post"}])
    );
    let next = || {
        admin
            .post(&at("/buckets/shop/sequences/invoice/next"))
            .value()["number"]
            .as_u64()
            .unwrap()
    };
    assert_eq!((next(), next()), (1, 2));
}

/// Twenty writers increment one number by compare-and-set: no increment is lost.
#[test]
fn compare_and_set_by_etag_loses_nothing() {
    let server = Server::new();
    let admin = server.admin();
    let path = at("/buckets/n/keys/counter");
    let made = admin.with("If-None-Match", "*").json("PUT", &path, "0");
    assert_eq!(made.status, 204);
    assert_eq!(
        admin
            .with("If-None-Match", "*")
            .json("PUT", &path, "0")
            .status,
        412
    );
    assert_eq!(admin.with("If-Match", "\"0123\"").delete(&path).status, 412);
    std::thread::scope(|scope| {
        for _ in 0..5 {
            scope.spawn(|| {
                let mut left = 4;
                while left > 0 {
                    let now = admin.get(&path);
                    let number = now.value().as_u64().unwrap();
                    let tagged = admin.with("If-Match", now.header("etag").unwrap());
                    match tagged.json("PUT", &path, &(number + 1).to_string()).status {
                        204 => left -= 1,
                        412 => {}
                        other => panic!("{other}"),
                    }
                }
            });
        }
    });
    let now = admin.get(&path);
    assert_eq!(now.value(), 20);
    assert_eq!(
        admin
            .with("If-None-Match", now.header("etag").unwrap())
            .get(&path)
            .status,
        304
    );
}

#[test]
fn documents_are_stored_under_their_keys() {
    let server = Server::new();
    let admin = server.admin();
    let made = admin.json(
        "POST",
        &at("/collections/User"),
        r#"{"_key": "ada/1", "name": "Ada", "tags": [1, {"deep": true}]}"#,
    );
    assert_eq!(made.status, 201, "{made:?}");
    let path = made.header("location").unwrap().to_owned();
    assert_eq!(path, at("/collections/User/ada%2F1"));
    let got = admin.get(&path);
    assert_eq!(
        got.value(),
        json!({"_key": "ada/1", "name": "Ada", "tags": [1, {"deep": true}]})
    );
    assert_eq!(
        admin
            .with("If-None-Match", got.header("etag").unwrap())
            .get(&path)
            .status,
        304
    );
    let patched = admin.json("PATCH", &path, r#"{"name": null, "born": 1815}"#);
    assert_eq!(
        patched.value(),
        json!({"_key": "ada/1", "born": 1815, "tags": [1, {"deep": true}]})
    );
    assert_eq!(patched.header("etag"), admin.get(&path).header("etag"));
    assert_eq!(
        admin
            .with("If-Match", got.header("etag").unwrap())
            .json("PUT", &path, "{}")
            .status,
        412
    );
    let put = admin
        .with("If-Match", patched.header("etag").unwrap())
        .json("PUT", &path, r#"{"name": "Ada"}"#);
    assert_eq!(put.status, 204);
    assert_eq!(put.header("etag"), admin.get(&path).header("etag"));
    assert_eq!(admin.json("PUT", &path, r#"{"_key": "other"}"#).status, 400);
    assert_eq!(
        admin.json("PUT", &at("/collections/User/bob"), "{}").status,
        201
    );
    assert_eq!(
        admin
            .json("PATCH", &at("/collections/User/missing"), "{}")
            .status,
        404
    );
    assert_eq!(
        admin
            .json("POST", &at("/collections/User"), r#"{"_key": "bob"}"#)
            .status,
        409
    );
    let many = admin.json(
        "POST",
        &at("/collections/Day"),
        r#"[{"_key": 1}, {"_key": 2}, {"_key": 3}]"#,
    );
    assert_eq!(many.value()["keys"], json!([1, 2, 3]));
    assert_eq!(
        admin
            .get(&at("/collections/Day/2?key_type=integer"))
            .value(),
        json!({"_key": 2})
    );
    assert_eq!(
        admin.get(&at("/collections/Day/2")).status,
        404,
        "a string is not a number"
    );
    let page = admin.get(&at("/collections/Day?limit=2")).value();
    let rest = admin
        .get(&at(&format!(
            "/collections/Day?limit=2&cursor={}",
            page["next"].as_str().unwrap()
        )))
        .value();
    assert_eq!(
        (
            page["documents"].as_array().unwrap().len(),
            &rest["documents"]
        ),
        (2, &json!([{"_key": 3}]))
    );
    assert_eq!(admin.delete(&path).status, 204);
    assert_eq!(admin.delete(&path).status, 404);
    // With one invalid document, none is inserted.
    let bad = admin.json(
        "POST",
        &at("/collections/Day"),
        r#"[{"_key": 4}, {"_key": 1}]"#,
    );
    assert_eq!(bad.status, 409);
    assert_eq!(
        admin.get(&at("/collections/Day/4?key_type=integer")).status,
        404
    );
}

#[test]
fn nodes_and_relationships_by_id() {
    let server = Server::new();
    let admin = server.admin();
    let node = |key: &str| {
        let body = json!({"labels": ["Person"], "properties": {"_key": key}}).to_string();
        let made = admin.json("POST", &at("/nodes"), &body);
        assert_eq!(made.status, 201, "{made:?}");
        made.value()["$node"].as_u64().unwrap()
    };
    let (ada, bob, eve) = (node("ada"), node("bob"), node("eve"));
    let relate = |rel_type: &str, source: u64, target: u64| {
        let body = json!({"type": rel_type, "source": source, "target": target, "properties": {"since": 1833}}).to_string();
        admin.json("POST", &at("/relationships"), &body)
    };
    let knows = relate("KNOWS", ada, bob);
    assert_eq!(knows.status, 201, "{knows:?}");
    let knows_path = knows.header("location").unwrap().to_owned();
    relate("KNOWS", eve, ada);
    relate("LIKES", ada, eve);
    assert_eq!(relate("LIKES", ada, 999_999).status, 404);
    let degree = |query: &str| {
        admin
            .get(&at(&format!("/nodes/{ada}/degree{query}")))
            .value()["degree"]
            .as_u64()
            .unwrap()
    };
    assert_eq!(degree(""), 3);
    assert_eq!(degree("?direction=out"), 2);
    assert_eq!(degree("?direction=in"), 1);
    assert_eq!(degree("?direction=out&types=KNOWS"), 1);
    assert_eq!(degree("?types=KNOWS,LIKES"), 3);
    assert_eq!(degree("?types=NEVER"), 0);
    let out = admin
        .get(&at(&format!(
            "/nodes/{ada}/neighbours?direction=out&types=KNOWS"
        )))
        .value();
    assert_eq!(out["neighbours"][0]["node"]["properties"]["_key"], "bob");
    assert_eq!(
        out["neighbours"][0]["relationship"]["properties"]["since"],
        1833
    );
    let page = admin
        .get(&at(&format!("/nodes/{ada}/neighbours?limit=2")))
        .value();
    let rest = admin
        .get(&at(&format!(
            "/nodes/{ada}/neighbours?limit=2&cursor={}",
            page["next"].as_str().unwrap()
        )))
        .value();
    assert_eq!(
        (
            page["neighbours"].as_array().unwrap().len(),
            rest["neighbours"].as_array().unwrap().len()
        ),
        (2, 1)
    );
    // Individual properties of both.
    for path in [at(&format!("/nodes/{ada}")), knows_path.clone()] {
        assert_eq!(
            admin
                .json("PUT", &format!("{path}/properties/note"), "{\"a\": [1, 2]}")
                .status,
            204
        );
        assert_eq!(
            admin.get(&format!("{path}/properties/note")).value(),
            json!({"a": [1, 2]})
        );
        assert_eq!(
            admin.json("PATCH", &path, "{\"more\": 1}").value()["properties"]["more"],
            1
        );
        assert_eq!(admin.delete(&format!("{path}/properties/note")).status, 204);
        assert_eq!(admin.delete(&format!("{path}/properties/note")).status, 404);
        assert_eq!(admin.get(&format!("{path}/properties")).value()["more"], 1);
    }
    assert_eq!(
        admin
            .send("PUT", &at(&format!("/nodes/{ada}/labels/Admin")), &[], b"")
            .status,
        204
    );
    assert_eq!(
        admin.get(&at(&format!("/nodes/{ada}"))).value()["labels"],
        json!(["Admin", "Person"])
    );
    assert_eq!(
        admin
            .delete(&at(&format!("/nodes/{ada}/labels/Admin")))
            .status,
        204
    );
    assert_eq!(
        admin.get(&at("/relationship-types")).value()["types"],
        json!([
        {"type": "KNOWS", "relationships": 2}, {"type": "LIKES", "relationships": 1}])
    );
    assert_eq!(
        admin.get(&at("/labels")).value()["labels"][0],
        json!({"label": "Person", "nodes": 3})
    );
    let refused = admin.delete(&at(&format!("/nodes/{ada}")));
    assert_eq!(refused.status, 400, "it has relationships: {refused:?}");
    assert_eq!(admin.delete(&knows_path).status, 204);
    assert_eq!(admin.delete(&knows_path).status, 404);
    assert_eq!(
        admin
            .delete(&at(&format!("/nodes/{ada}?detach=true")))
            .status,
        204
    );
    assert_eq!(admin.get(&at(&format!("/nodes/{ada}"))).status, 404);
    assert_eq!(admin.get(&at("/nodes/seven")).status, 404);
}

/// With `value_types=keep` every route that changes a value keeps its stored type, or refuses.
#[test]
fn changed_values_keep_their_types_on_request() {
    let server = Server::new();
    let admin = server.admin();
    let query = |text: &str| {
        let body = json!({ "query": text }).to_string();
        admin.json("POST", &at("/query"), &body).value()
    };
    let made = query(
        "CREATE (a:Todo {_key: 't', due: date('2026-01-01'), days: [date('2026-01-01')], rate: 1.0})\
         -[r:NEXT {due: date('2026-01-01')}]->(:Todo {_key: 'u'}) RETURN id(a), id(r)",
    );
    query("CALL kv.put('log', 'day', date('2026-01-01'))");
    let [node, relationship] = [0, 1].map(|at| made["rows"][0][at].as_i64().unwrap());
    let due = "{\"due\": \"2026-05-05\"}";
    for (number, (method, path, body)) in [
        ("PATCH", format!("/nodes/{node}"), due),
        (
            "PUT",
            format!("/nodes/{node}/properties/due"),
            "\"2026-05-05\"",
        ),
        ("PATCH", "/collections/Todo/t".to_owned(), due),
        ("PUT", "/collections/Todo/t".to_owned(), due),
        ("PATCH", format!("/relationships/{relationship}"), due),
        (
            "PUT",
            format!("/relationships/{relationship}/properties/due"),
            "\"2026-05-05\"",
        ),
        ("PUT", "/buckets/log/keys/day".to_owned(), "\"2026-05-05\""),
    ]
    .into_iter()
    .enumerate()
    {
        // Another date each time, so that the previous value does not count.
        let day = format!("2026-05-{:02}", number + 10);
        let body = body.replace("2026-05-05", &day);
        let put = admin.json(method, &at(&format!("{path}?value_types=keep")), &body);
        assert!((200..300).contains(&put.status), "{method} {path}: {put:?}");
        let source = match path.as_str() {
            bucket if bucket.starts_with("/buckets") => "WITH kv.get('log', 'day') AS d",
            one if one.starts_with("/relationships") => "MATCH ()-[r:NEXT]->() WITH r.due AS d",
            _ => "MATCH (n:Todo {_key: 't'}) WITH n.due AS d",
        };
        let found = query(&format!("{source} RETURN valueType(d), d"));
        assert_eq!(found["rows"][0], json!(["DATE", day]), "{method} {path}");
        let wrong = body.replace(&day, "soon");
        let refused = admin.json(method, &at(&format!("{path}?value_types=keep")), &wrong);
        assert_eq!(refused.status, 400, "{method} {path}: {refused:?}");
        let message = refused.value()["error"]["message"]
            .as_str()
            .unwrap()
            .to_owned();
        assert!(message.contains("the type DATE"), "{message}");
        let found = query(&format!("{source} RETURN d"));
        assert_eq!(found["rows"][0][0], json!(day), "{method} {path}");
    }
    // Without it, the JSON type is stored.
    admin.json("PATCH", &at(&format!("/nodes/{node}")), due);
    admin.json("PATCH", &at("/collections/Todo/u?value_types=keep"), due);
    let types = query("MATCH (n:Todo) RETURN valueType(n.due) ORDER BY n._key");
    assert_eq!(types["rows"], json!([["STRING"], ["STRING"]]));
    let unknown = admin.json("PATCH", &at(&format!("/nodes/{node}?value_types=all")), due);
    assert_eq!(unknown.status, 400, "{unknown:?}");
}

#[test]
fn records_are_imported_atomically_and_exported_again() {
    let server = Server::new();
    let admin = server.admin();
    let lines: String = (0..5_000)
        .map(|n| format!("{{\"id\": \"p{n}\", \"n\": {n}}}\n"))
        .collect();
    let post = |path: &str, body: &[u8], more: &[(&str, &str)]| {
        let headers = [&[("Content-Type", "application/jsonl")], more].concat();
        admin.send("POST", &at(path), &headers, body)
    };
    let loaded = post("/import/nodes?label=Person&key=id", lines.as_bytes(), &[]);
    assert_eq!(
        (loaded.status, loaded.value()["loaded"].as_u64()),
        (200, Some(5_000)),
        "{loaded:?}"
    );
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    for n in 1..5_000 {
        writeln!(
            packed,
            "{{\"_from\": \"p0\", \"_to\": \"p{n}\", \"w\": {n}}}"
        )
        .unwrap();
    }
    let friends = post(
        "/import/relationships?type=FRIEND&from=Person&to=Person",
        &packed.finish().unwrap(),
        &[("Content-Encoding", "gzip")],
    );
    assert_eq!(
        (friends.status, friends.value()["loaded"].as_u64()),
        (200, Some(4_999)),
        "{friends:?}"
    );
    let bad = post(
        "/import/nodes?label=Person",
        b"{\"_key\": \"q1\"}\n{\"_key\": \"q2\"\n",
        &[],
    );
    assert_eq!(bad.status, 400);
    assert!(bad.text().contains("line 2"), "{bad:?}");
    assert_eq!(
        post(
            "/import/nodes?label=Person",
            b"{\"_key\": \"q1\"}\n{\"_key\": \"p1\"}",
            &[]
        )
        .status,
        409
    );
    assert_eq!(
        admin.get(&at("/collections/Person/q1")).status,
        404,
        "all or none"
    );
    assert_eq!(post("/import/nodes", b"{}", &[]).status, 400);

    let nodes = admin.get(&at("/export/nodes?label=Person"));
    assert_eq!(nodes.text().lines().count(), 5_000);
    let ends = admin
        .with("Accept-Encoding", "gzip")
        .get(&at("/export/relationships?type=FRIEND"));
    let mut text = String::new();
    flate2::read::GzDecoder::new(&ends.body[..])
        .read_to_string(&mut text)
        .unwrap();
    assert_eq!(text.lines().count(), 4_999);
    let again = server.admin().send(
        "POST",
        "/v1/databases/other/import/nodes?label=Person",
        &[("Content-Type", "application/x-ndjson")],
        &nodes.body,
    );
    assert_eq!(again.value()["loaded"], 5_000);
    assert_eq!(admin.get(&at("/export/nodes?label=Never")).status, 404);
}

/// Keys are unique per label: relationships between nodes of several labels are exported in parts.
#[test]
fn relationships_between_several_labels_are_exported_in_parts() {
    let server = Server::new();
    let admin = server.admin();
    admin.rows(
        "people",
        "CREATE (a:A {_key: 1}), (b:B {_key: 1}), (a)-[:M {n: 1}]->(b), (b)-[:M {n: 2}]->(a)",
    );
    let export = |more: &str| admin.get(&at(&format!("/export/relationships?type=M{more}")));
    let mixed = export("");
    assert_eq!(mixed.status, 400, "{mixed:?}");
    assert!(mixed.text().contains("`from=LABEL`"), "{mixed:?}");
    assert_eq!(export("&plain=true").text().lines().count(), 2);
    let part = export("&from=A&to=B");
    assert_eq!(part.text(), "{\"_from\":1,\"_to\":1,\"n\":1}\n");
    assert_eq!(export("&from=A&to=A").text(), "");
    assert_eq!(export("&from=Never").status, 404);
}

/// Reads events until `count` have arrived.
fn events(
    client: &Client,
    path: &str,
    count: usize,
    during: impl FnOnce(),
) -> Vec<(String, String, serde_json::Value)> {
    let mut stream = client.connect();
    let head = client.head("GET", path) + "\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    let mut text = String::new();
    let mut buffer = [0; 4096];
    let mut during = Some(during);
    loop {
        // Events end with an empty line; chunk sizes are between them.
        let found: Vec<_> = text
            .split("event: ")
            .skip(1)
            .filter_map(|event| {
                let event = event.split("\n\n").next()?;
                let kind = event.lines().next()?.to_owned();
                let field = |name: &str| {
                    event
                        .lines()
                        .find_map(|line| line.strip_prefix(name))
                        .map(str::to_owned)
                };
                let data = serde_json::from_str(&field("data: ")?).ok()?;
                Some((kind, field("id: ").unwrap_or_default(), data))
            })
            .collect();
        if !found.is_empty()
            && let Some(during) = during.take()
        {
            during();
        }
        if found.len() >= count {
            return found;
        }
        let read = stream.read(&mut buffer).unwrap();
        assert!(read > 0, "the feed ended: {text}");
        text += std::str::from_utf8(&buffer[..read]).unwrap();
    }
}

#[test]
fn the_change_feed_sends_every_commit_and_is_resumed() {
    let server = Server::new();
    let admin = server.admin();
    let all = events(&admin, &at("/changes"), 4, || {
        admin.rows(
            "people",
            "CREATE (:Person {_key: 'ada'})-[:KNOWS {since: 1}]->(:Person {_key: 'bob'})",
        );
        admin.json("PUT", &at("/buckets/b/keys/k"), "1");
        admin.rows("people", "MATCH (p:Person {_key: 'ada'}) SET p.age = 36");
    });
    assert_eq!(all[0].0, "start");
    let changes = &all[1].2["changes"];
    assert_eq!(changes[0]["op"], "node_created");
    assert_eq!(changes[0]["properties"]["_key"], "ada");
    let known = changes
        .as_array()
        .unwrap()
        .iter()
        .find(|change| change["op"] == "relationship_created")
        .unwrap();
    assert_eq!(
        (&known["type"], &known["properties"]["since"]),
        (&json!("KNOWS"), &json!(1))
    );
    assert!(
        all[2].2["changes"].to_string().contains("\"key_put\""),
        "{all:?}"
    );
    assert_eq!(all[3].2["changes"][0]["set"], json!({"age": 36}));

    // From the middle: exactly the commits after it.
    let resumed = events(
        &admin,
        &at(&format!("/changes?from={}", all[1].1)),
        3,
        || {},
    );
    assert_eq!(resumed[1..], all[2..]);
    // As a browser reconnects: the same request as at first, with the last id.
    for path in [at("/changes"), at(&format!("/changes?from={}", all[0].1))] {
        let back = admin.with("Last-Event-ID", &all[1].1);
        let resumed = events(&back, &path, 3, || {});
        assert_eq!((&resumed[0].1, &resumed[1..]), (&all[1].1, &all[2..]));
    }
    let no_id = admin.with("Last-Event-ID", "x").get(&at("/changes"));
    assert_eq!((no_id.status, no_id.kind().as_str()), (400, "Invalid"));
    // Filtered.
    let path = at(&format!("/changes?from={}&buckets=b", all[0].1));
    let filtered = events(&admin, &path, 2, || {});
    assert_eq!(filtered[1].1, all[2].1);
    let path = at(&format!("/changes?from={}&types=KNOWS", all[0].1));
    let filtered = events(&admin, &path, 2, || {});
    assert_eq!(filtered[1].2["changes"].as_array().unwrap().len(), 1);
    assert_eq!(admin.get(&at("/changes?from=99999999")).status, 400);
}

/// Only the last event of a large commit has the id: a client that disconnects before it gets the whole commit again.
#[test]
fn a_large_commit_is_sent_in_pieces_and_resumed_whole() {
    let server = Server::new();
    let admin = server.admin();
    let all = events(&admin, &at("/changes"), 4, || {
        admin.rows("people", "UNWIND range(1, 2500) AS n CREATE (:Many {n: n})");
    });
    let version = all[3].2["version"].as_u64().unwrap();
    let counts: Vec<_> = all[1..]
        .iter()
        .map(|(kind, id, data)| {
            assert_eq!(
                (kind.as_str(), data["version"].as_u64()),
                ("commit", Some(version))
            );
            (data["changes"].as_array().unwrap().len(), id.clone())
        })
        .collect();
    let id = version.to_string();
    let none = String::new;
    assert_eq!(
        counts,
        [(1_000, none()), (1_000, none()), (500, id.clone())]
    );
    // The last id that a client has seen, in the middle of the commit and after it.
    let back = admin.with("Last-Event-ID", &all[0].1);
    assert_eq!(events(&back, &at("/changes"), 4, || {})[1..], all[1..]);
    let back = admin.with("Last-Event-ID", &id);
    let after = events(&back, &at("/changes"), 2, || {
        admin.rows("people", "CREATE (:One)");
    });
    assert_eq!(after[1].2["changes"].as_array().unwrap().len(), 1);
}

#[test]
fn a_feed_from_too_long_ago_is_refused() {
    let server = Server::new();
    let admin = server.admin();
    let start = admin.get(PEOPLE).value()["version"].as_u64().unwrap();
    server
        .people
        .transact(|tx| tx.bucket("b").put("k", 1))
        .unwrap();
    // More than the retention of the stream.
    let large = "x".repeat(4 << 20);
    for _ in 0..40 {
        server
            .people
            .transact(|tx| tx.bucket("b").put("k", large.as_str()))
            .unwrap();
    }
    let gone = admin.get(&at(&format!("/changes?from={start}")));
    assert_eq!((gone.status, gone.kind().as_str()), (410, "Gone"));
}

/// Changes that a slow client has not received are dropped; it is notified, and the feed ends.
#[test]
fn a_feed_that_is_too_slow_is_notified_and_ended() {
    let server = Server::new();
    let admin = server.admin();
    // Creating the bucket is a separate commit without changes in the stream.
    let make = |tx: &isomer_db::WriteTransaction| tx.bucket("b").put("k", 0);
    server.people.transact(make).unwrap();
    let all = events(&admin, &at("/changes"), 2, || {
        // It is not sent before it is durable.
        let tx = server.people.begin().unwrap();
        tx.bucket("b").put("k", 1).unwrap();
        tx.set_durability(isomer_db::Durability::Buffered);
        tx.commit().unwrap();
        let store = server.people.store().unwrap();
        store.engine().trim_stream(u64::MAX).unwrap();
    });
    assert_eq!(all[1].0, "gone", "{all:?}");
    assert_eq!(all[1].2["version"], all[0].2["version"]);
    let message = all[1].2["message"].as_str().unwrap();
    assert!(message.contains("read the data anew"), "{message}");
}

#[test]
fn databases_are_created_used_and_dropped() {
    let server = Server::new();
    let admin = server.admin();
    let made = admin.json("POST", "/v1/databases", "{\"database\":\"shop\"}");
    assert_eq!(made.status, 201, "{made:?}");
    assert_eq!(
        admin
            .json("POST", "/v1/databases", "{\"database\":\"shop\"}")
            .status,
        409
    );
    admin.rows("shop", "CREATE (:Item {_key: 'i'})");
    let about = admin.get("/v1/databases/shop").value();
    assert_eq!(
        (about["nodes"].as_u64(), &about["role"]),
        (Some(1), &json!("admin"))
    );
    for name in ["", "..", "../x", "a/b", "a b", "ä", &"x".repeat(65)] {
        let body = json!({ "database": name }).to_string();
        assert_eq!(
            admin.json("POST", "/v1/databases", &body).status,
            400,
            "{name}"
        );
        let body = json!({ "backup": format!("../{name}") }).to_string();
        assert_eq!(
            admin
                .json("POST", "/v1/databases/shop/backups", &body)
                .status,
            400,
            "{name}"
        );
    }
    assert_eq!(admin.delete("/v1/databases/shop").status, 204);
    assert_eq!(admin.get("/v1/databases/shop").status, 404);
    assert!(!server.folder.path().join("databases/shop").exists());
    assert_eq!(
        admin.delete("/v1/databases/people").status,
        400,
        "it was named at the start"
    );
    assert_eq!(
        admin.get("/v1/databases").value()["databases"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
}

/// A database that cannot be opened is reported wherever databases are listed, and keeps its name; it is reopened
/// without a restart.
#[test]
fn a_database_that_cannot_be_opened_is_reported_everywhere() {
    let server = Server::new();
    for name in ["app", "billing"] {
        let body = json!({ "database": name }).to_string();
        let made = server.admin().json("POST", "/v1/databases", &body);
        assert_eq!(made.status, 201, "{made:?}");
    }
    server.admin().rows("app", "CREATE (:Kept)");
    let folder = server.folder.path().join("databases/app");
    server.user("ann", "{\"app\":\"reader\"}");
    let stopped = server.again();
    let ann = stopped.login("ann");
    // While it is served its files are locked: they are damaged between two starts.
    let mut kept = Vec::new();
    let server = {
        let Server {
            running,
            folder: home,
            ..
        } = stopped;
        running.stop().unwrap();
        for file in std::fs::read_dir(&folder).unwrap() {
            let path = file.unwrap().path();
            if path.is_file() {
                kept.push((path.clone(), std::fs::read(&path).unwrap()));
                std::fs::write(path, "damaged").unwrap();
            }
        }
        Server::on(home, &[])
    };
    let (admin, anonymous, ann) = (server.admin(), server.client(""), server.client(&ann));
    assert_eq!(anonymous.get("/health").value()["failed"], 1);
    let ready = anonymous.get("/ready");
    assert_eq!(ready.status, 503, "{ready:?}");
    assert!(ready.text().contains("1 of 4 databases"), "{ready:?}");
    assert_eq!(anonymous.get("/ready?some").status, 200);
    let figures = admin.get("/metrics").text().to_owned();
    assert!(figures.contains("isomer_databases_failed 1\n"), "{figures}");
    let of = |client: &Client, name: &str| {
        let all = client.get("/v1/databases").value()["databases"].clone();
        let all = all.as_array().unwrap().clone();
        all.into_iter()
            .find(|one| one["database"] == name)
            .unwrap_or_default()
    };
    assert_eq!(of(&admin, "app")["open"], false);
    let why = of(&admin, "app")["error"].as_str().unwrap().to_owned();
    assert!(why.contains(": "), "{why}");
    assert_eq!(of(&admin, "billing")["open"], true);
    let listed = of(&ann, "app");
    assert_eq!(
        (&listed["open"], &listed["error"]),
        (&json!(false), &json!(null))
    );
    for answer in [
        ann.get("/v1/databases/app"),
        ann.json(
            "POST",
            "/v1/databases/app/query",
            "{\"query\":\"RETURN 1\"}",
        ),
        admin.post("/v1/databases/app/open"),
    ] {
        assert_eq!(answer.status, 503, "{answer:?}");
        assert_eq!(answer.kind(), "Unavailable");
    }
    assert_eq!(ann.post("/v1/databases/app/open").status, 403);
    // A client that names no database never reaches another one.
    let mut driver = crate::driver::Driver::of(&server, "ann");
    let answer = driver.ask(crate::driver::BEGIN, &[isomer_db::Map::new().into()]);
    assert_eq!(
        answer.code(),
        "Neo.TransientError.General.DatabaseUnavailable",
        "{answer:?}"
    );
    let made = admin.json("POST", "/v1/databases", "{\"database\":\"app\"}");
    assert_eq!(made.status, 409, "{made:?}");

    for (path, bytes) in kept {
        std::fs::write(path, bytes).unwrap();
    }
    let opened = admin.post("/v1/databases/app/open");
    assert_eq!(opened.value(), json!({"database": "app", "opened": true}));
    let opened = admin.post("/v1/databases/app/open");
    assert_eq!(opened.value(), json!({"database": "app", "opened": false}));
    assert_eq!(
        ann.rows("app", "MATCH (k:Kept) RETURN count(k)"),
        json!([[1]])
    );
    assert_eq!(anonymous.get("/ready").status, 200);
    assert_eq!(
        of(&admin, "app"),
        json!({"database": "app", "role": "admin", "open": true})
    );
    assert_eq!(admin.post("/v1/databases/none/open").status, 404);
    assert_eq!(admin.delete("/v1/databases/app").status, 204);
}

#[test]
fn health_readiness_and_metrics() {
    let server = Server::new();
    let anonymous = server.client("");
    assert_eq!(
        anonymous.get("/health").value(),
        json!({"status": "ok", "databases": 2})
    );
    assert_eq!(anonymous.get("/ready").status, 200);
    assert_eq!(anonymous.get("/metrics").status, 401);
    server.admin().rows("people", "RETURN 1");
    let figures = server.admin().get("/metrics").text().to_owned();
    for line in [
        "isomer_http_requests_total{method=\"POST\",route=\"/v1/databases/{db}/query\",status=\"2xx\"} 1",
        "isomer_database_commits_total{database=\"people\"}",
        "isomer_http_request_seconds_bucket{method=\"GET\",route=\"/health\",le=\"+Inf\"} 1",
        "# TYPE isomer_connections gauge",
    ] {
        assert!(figures.contains(line), "{line}\n{figures}");
    }
    assert_eq!(
        anonymous.get("/v1/openapi.json").value()["info"]["title"],
        "IsomerDB"
    );
    let page = anonymous.get("/v1/docs");
    assert!(
        page.header("content-security-policy")
            .unwrap()
            .contains("script-src 'self'")
    );
    assert!(
        !page.text().contains("http://") && !page.text().contains("https://"),
        "nothing from another host"
    );
}

/// Compaction, caches, replication and backups have metrics, and each metric has a help text.
#[test]
fn metrics_cover_compaction_cache_replication_and_backups() {
    let server = Server::new();
    let admin = server.admin();
    let made = admin.json("POST", "/v1/databases", "{\"database\": \"shop\"}");
    assert_eq!(made.status, 201, "{made:?}");
    let query = "{\"query\": \"UNWIND range(1, 1000) AS n CREATE (:Item {n: n})\"}";
    assert_eq!(
        admin.json("POST", "/v1/databases/shop/query", query).status,
        200
    );
    let backup = "{\"backup\": \"nightly\"}";
    assert_eq!(
        admin
            .json("POST", "/v1/databases/shop/backups", backup)
            .status,
        201
    );
    assert_eq!(
        admin
            .json(
                "POST",
                "/v1/databases/shop/backups",
                "{\"backup\": \"nightly\", \"copy\": true}"
            )
            .status,
        409
    );
    let peer = server.running.address();
    let store = server.people.store().unwrap();
    isomer_sync::add_peer(&store, &format!("http://{peer}/other"), None, None).unwrap();
    assert_eq!(admin.get("/nothing/here").status, 404);
    assert_eq!(admin.delete("/health").status, 405);
    let figures = admin.get("/metrics").text().to_owned();
    for part in [
        "isomer_database_compaction_runs{database=\"shop\"}",
        "isomer_database_compaction_backlog_bytes{database=\"shop\"}",
        "isomer_database_compaction_written_bytes_total{database=\"shop\"}",
        "isomer_database_cache_hits_total{database=\"shop\"}",
        "isomer_database_cache_misses_total{database=\"shop\"}",
        "isomer_database_cache_bytes{database=\"shop\"}",
        "isomer_database_replication_peers{database=\"people\"} 1",
        "isomer_database_replication_behind_transactions{database=\"people\"}",
        "isomer_database_views_bytes{database=\"other\"} 0",
        "isomer_backups_total 1",
        "isomer_backups_failed_total 1",
        "isomer_http_requests_total{method=\"\",route=\"none\",status=\"4xx\"} 2",
    ] {
        assert!(figures.contains(part), "{part}\n{figures}");
    }
    assert!(!figures.contains("replication_peers{database=\"shop\"}"));
    for line in figures
        .lines()
        .filter_map(|line| line.strip_prefix("# HELP "))
    {
        let (name, help) = line.split_once(' ').unwrap();
        assert!(
            help.split(' ').count() > 1 || name.ends_with("_commits_total"),
            "{line}"
        );
        let bare = name
            .trim_start_matches("isomer_database_")
            .replace('_', " ");
        assert!(!help.starts_with(&bare), "the name again: {line}");
    }
    assert!(!figures.contains(" -0\n"), "{figures}");
}

/// A large transaction reaches a server whole, even above the limit of other bodies.
#[test]
fn a_large_transaction_reaches_a_server() {
    let server = Server::with(&[("limits.body", "1MiB")]);
    let own = isomer_db::Database::builder()
        .memory(256 << 20)
        .open_in_memory()
        .expect("a database");
    let store = own.store().expect("a store");
    isomer_replication::begin_replication(&store).expect("a replica");
    // Incompressible.
    let mut state = 1_u64;
    let value: Vec<u8> = (0..1 << 20)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 56) as u8
        })
        .collect();
    let mut tx = store
        .begin(isomer_db::internals::data::Access::Write)
        .expect("begun");
    for key in 0..18_u8 {
        tx.kv_mut().put("large", &[key], &value).expect("put");
    }
    tx.commit().expect("committed");
    let options = isomer_sync::RemoteOptions {
        token: Some(server.admin.clone()),
        ..isomer_sync::RemoteOptions::default()
    };
    let url = format!("http://{}/people", server.address());
    let mut peer = isomer_sync::Remote::new(&url, options).expect("an address");
    let done = isomer_sync::exchange(&store, &mut peer, &mut |_| ()).expect("exchanged");
    assert_eq!(done.sent, 1);
    let people = server.people.store().expect("a store");
    let tx = people
        .begin(isomer_db::internals::data::Access::Read)
        .expect("begun");
    assert_eq!(tx.kv().get("large", &[17]).expect("read"), Some(value));
}
