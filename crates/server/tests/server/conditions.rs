//! `If-Match` and `If-None-Match` wherever an answer has an ETag: no update is lost, and unchanged values are not
//! sent again.

use crate::support::{Client, Server};

const PEOPLE: &str = "/v1/databases/people";

fn at(path: &str) -> String {
    format!("{PEOPLE}{path}")
}

fn tag(client: &Client, path: &str) -> String {
    let answer = client.get(path);
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.header("etag").expect("a tag").to_owned()
}

/// Each change is refused with an outdated ETag, and succeeds with the current one.
#[test]
fn records_and_properties_are_changed_only_with_their_current_etag() {
    let server = Server::new();
    let admin = server.admin();
    admin.rows("people", "CREATE (:A {n: 1})-[:T {n: 1}]->(:B)");
    for entity in ["/nodes/0", "/relationships/0"] {
        let (entity, property) = (at(entity), at(&format!("{entity}/properties/n")));
        let old = tag(&admin, &entity);
        let patched = admin
            .with("If-Match", &old)
            .json("PATCH", &entity, "{\"n\": 2}");
        assert_eq!(patched.status, 200, "{patched:?}");
        assert_eq!(
            patched.header("etag"),
            Some(tag(&admin, &entity).as_str()),
            "the answer to a change has the new ETag"
        );
        let late = admin.with("If-Match", &old);
        assert_eq!(late.json("PATCH", &entity, "{\"n\": 3}").status, 412);
        assert_eq!(late.json("PUT", &property, "4").status, 412);
        assert_eq!(late.delete(&property).status, 412);
        assert_eq!(admin.get(&property).text(), "2", "nothing was changed");
        let put = admin
            .with("If-Match", &tag(&admin, &property))
            .json("PUT", &property, "5");
        assert_eq!(put.status, 204, "{put:?}");
        assert_eq!(put.header("etag"), Some(tag(&admin, &property).as_str()));
        let new = admin.with("If-None-Match", "*");
        assert_eq!(new.json("PUT", &property, "6").status, 412);
        assert_eq!(
            new.json("PUT", &format!("{entity}/properties/new"), "6")
                .status,
            204
        );
    }
    let late = admin.with("If-Match", "\"nope\"");
    assert_eq!(
        late.send("PUT", &at("/nodes/0/labels/C"), &[], b"").status,
        412
    );
    assert_eq!(late.delete(&at("/nodes/0/labels/A")).status, 412);
    assert_eq!(late.delete(&at("/relationships/0")).status, 412);
    assert_eq!(late.delete(&at("/nodes/0?detach=true")).status, 412);
    let node = tag(&admin, &at("/nodes/0"));
    let gone = admin.with("If-Match", &node);
    assert_eq!(gone.delete(&at("/nodes/0?detach=true")).status, 204);
    assert_eq!(gone.delete(&at("/nodes/0?detach=true")).status, 404);
}

#[test]
fn unchanged_values_are_not_sent_again() {
    let server = Server::new();
    let admin = server.admin();
    admin.rows("people", "CREATE (:A {n: 1})-[:T {n: 1}]->(:B)");
    for path in [
        "/nodes/0",
        "/nodes/0/properties",
        "/nodes/0/properties/n",
        "/relationships/0",
        "/relationships/0/properties",
        "/relationships/0/properties/n",
    ] {
        let known = tag(&admin, &at(path));
        let again = admin.with("If-None-Match", &known).get(&at(path));
        assert_eq!(
            (again.status, again.header("etag"), again.body.len()),
            (304, Some(known.as_str()), 0),
            "{path}"
        );
        let other = admin.with("If-None-Match", "\"nope\"").get(&at(path));
        assert_eq!(other.status, 200, "{path}");
    }
}

#[test]
fn a_file_is_moved_only_with_its_current_etag() {
    let server = Server::new();
    let admin = server.admin();
    let put = |content: &[u8]| {
        let kind = [("Content-Type", "application/octet-stream")];
        let put = admin.send("PUT", &at("/file?path=/a"), &kind, content);
        put.header("etag").expect("a tag").to_owned()
    };
    let old = put(b"one");
    let new = put(b"another");
    let moving = at("/file/move?path=/a&to=/b");
    assert_eq!(admin.with("If-Match", &old).post(&moving).status, 412);
    assert_eq!(admin.get(&at("/file?path=/a")).status, 200);
    assert_eq!(admin.with("If-Match", &new).post(&moving).status, 204);
    assert_eq!(admin.get(&at("/file?path=/b")).body, b"another");
}
