//! Convergent fields over HTTP.

use crate::support::Server;
use isomer_db::internals::DatabaseInternals as _;

const DOCUMENT: &str = "/v1/databases/people/collections/Post/p1";

#[test]
fn fields_are_changed_by_operations_and_removals_keep_what_they_have_not_seen() {
    let server = Server::new();
    let admin = server.admin();
    let path = |field: &str| format!("{DOCUMENT}/fields/{field}");
    let change = |field: &str, body: &str| admin.json("POST", &path(field), body);
    let counted = "{\"update\":{\"counter\":2}}";
    assert_eq!(change("likes", counted).status, 404, "no document yet");
    assert_eq!(admin.json("PUT", DOCUMENT, "{\"a\":1}").status, 201);
    assert_eq!(admin.get(&path("likes")).status, 404);
    for _ in 0..3 {
        assert_eq!(change("likes", counted).status, 200);
    }
    let likes = admin.get(&path("likes")).value();
    assert_eq!(
        (&likes["kind"], &likes["value"]),
        (&"counter".into(), &6.into())
    );
    // A retried request is executed once.
    let once = admin.with("Idempotency-Key", "k");
    for _ in 0..2 {
        assert_eq!(once.json("POST", &path("likes"), counted).status, 200);
    }
    assert_eq!(admin.get(&path("likes")).value()["value"], 8);

    let add = "{\"update\":{\"set\":{\"add\":[\"a\",\"b\",3]}}}";
    assert_eq!(change("tags", add).status, 200);
    let context = admin.get(&path("tags")).value()["context"].clone();
    assert_eq!(
        change("tags", "{\"update\":{\"set\":{\"add\":[\"a\"]}}}").status,
        200
    );
    let remove = serde_json::json!({
        "update": {"set": {"remove": ["a", "b"]}},
        "context": context,
    });
    assert_eq!(change("tags", &remove.to_string()).status, 200);
    let contains = |element: &str| {
        let answer = admin.get(&format!("{}?contains={element}", path("tags")));
        answer.value()["contains"].clone()
    };
    assert_eq!(contains("%22a%22"), true, "it was added again afterwards");
    assert_eq!(contains("%22b%22"), false);
    let page = admin.get(&format!("{}?limit=1", path("tags"))).value();
    assert_eq!(
        (page["elements"].as_array().unwrap().len(), &page["size"]),
        (1, &2.into())
    );

    let map = "{\"update\":{\"map\":{\"update\":{\"n\":{\"counter\":1},\"on\":{\"flag\":true}}}}}";
    assert_eq!(change("m", map).status, 200);
    assert_eq!(
        admin.get(&path("m")).value()["value"],
        serde_json::json!({"n": 1, "on": true})
    );
    assert_eq!(admin.get(&path("m.n")).value()["value"], 1);
    for (field, body) in [
        ("likes", "{\"update\":{\"flag\":true}}"),
        ("likes", "{\"update\":{}}"),
        (
            "tags",
            "{\"update\":{\"set\":{\"remove\":[1]}},\"context\":\"!\"}",
        ),
        ("a..b", counted),
    ] {
        let answer = change(field, body);
        assert_eq!(answer.status, 400, "{field} {body}: {answer:?}");
    }
    // In a transaction, and rolled back with it.
    let open = admin.post("/v1/databases/people/tx").value()["transaction"].clone();
    let within = admin.with("Isomer-Transaction", open.as_str().unwrap());
    assert_eq!(within.json("POST", &path("likes"), counted).status, 200);
    assert_eq!(within.get(&path("likes")).value()["value"], 10);
    assert_eq!(admin.get(&path("likes")).value()["value"], 8);
}

#[test]
fn the_data_types_of_riak_answer_as_in_riak() {
    let server = Server::new();
    let admin = server.admin();
    let path = |kind: &str, key: &str| {
        format!("/v1/databases/people/riak/types/{kind}/buckets/travel/datatypes/{key}")
    };
    let change = |kind: &str, key: &str, body: &str| admin.json("POST", &path(kind, key), body);
    assert_eq!(admin.get(&path("counters", "visits")).status, 404);
    for body in ["{\"increment\":5}", "1", "{\"decrement\":2}"] {
        assert_eq!(change("counters", "visits", body).status, 204);
    }
    let visits = admin.get(&path("counters", "visits")).value();
    assert_eq!(
        (&visits["type"], &visits["value"]),
        (&"counter".into(), &4.into())
    );
    assert_eq!(admin.get(&path("sets", "visits")).status, 400);
    assert_eq!(admin.get(&path("lists", "visits")).status, 404);

    change("sets", "cities", "{\"add_all\":[\"Toronto\",\"Montreal\"]}");
    let context = admin.get(&path("sets", "cities")).value()["context"].clone();
    let remove = serde_json::json!({"remove": "Montreal", "add": "Hamilton", "context": context});
    let returned = admin.json(
        "POST",
        &format!("{}?returnbody=true", path("sets", "cities")),
        &remove.to_string(),
    );
    assert_eq!(returned.status, 200, "{returned:?}");
    assert_eq!(
        returned.value()["value"],
        serde_json::json!(["Hamilton", "Toronto"])
    );

    let map = "{\"update\":{\"name_register\":\"Ahmed\",\"pro_flag\":\"enable\",\"page_visits_counter\":{\"increment\":1},\
               \"interests_set\":{\"add\":\"robots\"},\"annika_map\":{\"update\":{\"phone_register\":\"555\"}}}}";
    assert_eq!(change("maps", "ahmed", map).status, 204);
    assert_eq!(
        change("maps", "ahmed", "{\"remove\":[\"pro_flag\"]}").status,
        204
    );
    let ahmed = admin.get(&path("maps", "ahmed")).value()["value"].clone();
    let expected = serde_json::json!({
        "annika_map": {"phone_register": "555"},
        "interests_set": ["robots"],
        "name_register": "Ahmed",
        "page_visits_counter": 1,
    });
    assert_eq!(ahmed, expected);
    // It is an ordinary document.
    let rows = admin.rows(
        "people",
        "MATCH (t:travel {_key: 'ahmed'}) RETURN t.value.name_register",
    );
    assert_eq!(rows[0][0], "Ahmed");
    assert_eq!(
        change("counters", "visits", "{\"increment\":\"x\"}").status,
        400
    );
    assert_eq!(
        change("maps", "ahmed", "{\"update\":{\"name\":1}}").status,
        400
    );
}

/// The contributions of each replica to a value.
#[test]
fn the_contributions_of_replicas_to_a_field_are_listed() {
    let server = Server::new();
    let admin = server.admin();
    assert_eq!(admin.json("PUT", DOCUMENT, "{\"a\":1}").status, 201);
    let likes = format!("{DOCUMENT}/fields/likes");
    let replicas = format!("{likes}?replicas");
    assert_eq!(admin.get(&replicas).status, 404);
    // Different questions cannot be combined.
    for two in ["&contains=1", "&limit=3", "&from=1"] {
        assert_eq!(admin.get(&format!("{replicas}{two}")).status, 400, "{two}");
    }
    let add = |by: i32| {
        let body = format!("{{\"update\":{{\"counter\":{by}}}}}");
        assert_eq!(admin.json("POST", &likes, &body).status, 200);
    };
    add(3);
    let till = isomer_db::Database::open_in_memory().unwrap();
    let (here, there) = (server.people.store().unwrap(), till.store().unwrap());
    for store in [&here, &there] {
        isomer_replication::begin_replication(store).unwrap();
    }
    let exchange = || {
        let mut peer = isomer_sync::Local::new("people", &server.people).unwrap();
        isomer_sync::exchange(&there, &mut peer, &mut |_| {}).unwrap();
    };
    exchange();
    till.query("MATCH (p:Post {_key: 'p1'}) SET p.likes = counter.add(p.likes, 4)")
        .unwrap();
    add(5);
    exchange();
    let body = admin.get(&replicas).value();
    assert_eq!(body["complete"], true, "{body}");
    let of = |own: bool| {
        let all = body["replicas"].as_array().unwrap();
        all.iter()
            .filter(|one| one["own"] == own)
            .map(|one| one["amount"].as_i64().unwrap())
            .sum::<i64>()
    };
    assert_eq!((of(true), of(false)), (8, 4), "{body}");
    let names: std::collections::HashSet<_> = body["replicas"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["replica"].as_str().unwrap())
        .collect();
    assert_eq!(names.len(), 2);
}

/// A sum that does not fit into 64 bits is refused, and nothing is changed.
#[test]
fn a_counter_beyond_64_bits_is_refused() {
    let server = Server::new();
    let admin = server.admin();
    let post = "/v1/databases/people/collections/Post/p";
    admin.json("PUT", post, "{}");
    let likes = format!("{post}/fields/likes");
    let add = |by: i64| {
        let body = format!("{{\"update\": {{\"counter\": {by}}}}}");
        admin.json("POST", &likes, &body)
    };
    assert_eq!(add(3).status, 200);
    let refused = add(i64::MAX);
    assert_eq!(refused.status, 400);
    assert!(
        refused.text().contains("does not fit into 64 bits"),
        "{}",
        refused.text()
    );
    assert_eq!(add(i64::MAX - 3).status, 200);
    assert_eq!(admin.get(&likes).value()["value"], i64::MAX);
}
