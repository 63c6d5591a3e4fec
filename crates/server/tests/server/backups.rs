//! Backups over the network, and databases restored from them.

use std::sync::atomic::{AtomicBool, Ordering};

use isomer_db::Database;
use isomer_testkit::poll;
use serde_json::{Value, json};

use crate::support::{Client, Server};

const BACKUPS: &str = "/v1/databases/shop/backups";

fn back_up(admin: &Client, body: &Value) -> Value {
    let made = admin.json("POST", BACKUPS, &body.to_string());
    assert_eq!(made.status, 201, "{made:?}");
    made.value()
}

/// Number of records in the database that is backed up.
fn record_count(admin: &Client) -> u64 {
    let rows = admin.rows("shop", "MATCH (n) RETURN count(n)");
    rows[0][0].as_u64().expect("a number")
}

/// All contents of a database, in order.
fn content(query: impl Fn(&str) -> String) -> Vec<String> {
    [
        "MATCH (n) RETURN labels(n), properties(n) ORDER BY n.writer, n.number, labels(n)[0]",
        "MATCH (a)-[r]->(b) RETURN a.writer, a.number, type(r), properties(r), b.number ORDER BY a.writer, a.number",
    ]
    .map(query)
    .into()
}

/// Full and incremental backups while four clients write: each one restores to a state between two commits, and the
/// last one, made after all writers had stopped, to the current state.
#[test]
fn backups_made_during_writes_are_restored_elsewhere() {
    let server = Server::new();
    let admin = server.admin();
    let made = admin.json("POST", "/v1/databases", "{\"database\":\"shop\"}");
    assert_eq!(made.status, 201, "{made:?}");
    let large = "x".repeat(1 << 20);
    for key in 0..8 {
        let path = format!("/v1/databases/shop/buckets/large/keys/{key}");
        assert!(admin.json("PUT", &path, &json!(large).to_string()).status < 300);
    }
    let stop = AtomicBool::new(false);
    let versions: Vec<u64> = std::thread::scope(|scope| {
        for writer in 0..4 {
            let (admin, stop) = (server.admin(), &stop);
            scope.spawn(move || {
                for number in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    // Both or neither, and neither without the previous pair.
                    admin.rows("shop", &format!(
                        "CREATE (:In {{writer: {writer}, number: {number}}})-[:PAIR {{n: {number}}}]->(:Out {{writer: {writer}, number: {number}}})"
                    ));
                }
            });
        }
        let taken = (0..4)
            .map(|_| {
                let before = record_count(&admin);
                poll::until("writers commit between two backups", || {
                    record_count(&admin) > before + 4
                });
                let made = back_up(&admin, &json!({"backup": "nightly"}));
                made["version"].as_u64().unwrap()
            })
            .collect();
        stop.store(true, Ordering::Relaxed);
        taken
    });
    assert!(
        versions.is_sorted() && versions[0] < versions[3],
        "{versions:?}"
    );
    let last = back_up(&admin, &json!({"backup": "nightly"}));
    assert_eq!(last["number"], 5);
    let listed = admin.get(BACKUPS).value();
    assert_eq!(listed["backups"].as_array().unwrap().len(), 5);
    assert_eq!(listed["backups"][4]["version"], last["version"]);
    let again = back_up(&admin, &json!({"backup": "nightly"}));
    let (copied, shared) = (
        again["copied_bytes"].as_u64(),
        again["shared_bytes"].as_u64(),
    );
    assert!(copied < shared, "nothing has changed: {again}");

    let folder = server.folder.path().join("backups/shop/nightly");
    let all = server.folder.path().join("elsewhere");
    Database::restore(&folder, &all).run().unwrap();
    let restored = Database::open(&all).unwrap();
    let there = content(|query| {
        let rows = restored.query(query).unwrap();
        let rows: Vec<isomer_db::Value> = rows
            .iter()
            .map(|row| isomer_db::Value::from(row.values().to_vec()))
            .collect();
        isomer_db::json::to_string(&isomer_db::Value::from(rows)).unwrap()
    });
    let here = content(|query| {
        let rows = server.admin().rows("shop", query);
        let rows: isomer_db::Value = isomer_db::json::parse(&rows.to_string()).unwrap();
        isomer_db::json::to_string(&rows).unwrap()
    });
    assert!(here[1].len() > 1000, "something was written concurrently");
    assert_eq!(here, there);
    restored.close().unwrap();

    // The same over the network, at each version that was backed up.
    for (number, version) in versions.iter().enumerate() {
        let name = format!("shop-{number}");
        let body = json!({"database": name, "restore": {"database": "shop", "backup": "nightly", "version": version}});
        let made = admin.json("POST", "/v1/databases", &body.to_string());
        assert_eq!(made.status, 201, "{made:?}");
        assert_eq!(made.value()["version"].as_u64(), Some(*version));
        let counts = admin.rows(
            &name,
            "MATCH (i:In)-[:PAIR]->(o:Out) WITH i.writer AS writer, count(*) AS pairs, max(o.number) + 1 AS last \
             RETURN count(writer), sum(pairs) = sum(last), COUNT { (:In) } = sum(pairs), COUNT { (:Out) } = sum(pairs)",
        );
        assert_eq!(
            counts[0].as_array().unwrap()[1..],
            [json!(true), json!(true), json!(true)],
            "{counts}"
        );
        let large_here = admin.get(&format!("/v1/databases/{name}/buckets/large/keys/7"));
        assert_eq!(large_here.value(), json!(large));
    }
    let kept = back_up(&admin, &json!({"backup": "nightly", "keep": 2}));
    assert_eq!(kept["forgotten"], 5);
    assert_eq!(
        admin.get(BACKUPS).value()["backups"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
}

/// A copy opens in place; names cannot escape the folder, and each database has its own backups.
#[test]
fn copies_open_and_names_cannot_escape_their_folder() {
    let server = Server::new();
    let admin = server.admin();
    let made = admin.json("POST", "/v1/databases", "{\"database\":\"shop\"}");
    assert_eq!(made.status, 201, "{made:?}");
    admin.rows("shop", "CREATE (:Item {_key: 'i'})");
    back_up(&admin, &json!({"backup": "monday", "copy": true}));
    let again = admin.json("POST", BACKUPS, "{\"backup\":\"monday\",\"copy\":true}");
    assert_eq!(again.status, 409);
    let copy = Database::open(server.folder.path().join("backups/shop/monday")).unwrap();
    assert_eq!(copy.query("MATCH (i:Item) RETURN i").unwrap().len(), 1);
    let people = "/v1/databases/people/backups";
    // An in-memory database has no files that two backups could share.
    let refused = admin.json("POST", people, "{\"backup\":\"tuesday\"}");
    assert_eq!(refused.status, 422, "{refused:?}");
    for name in [
        "",
        "..",
        "../people/monday",
        "a/b",
        ".hidden",
        "a b",
        "ä",
        "a\u{0}",
    ] {
        let body = json!({"backup": name}).to_string();
        assert_eq!(admin.json("POST", people, &body).status, 400, "{name}");
        for body in [
            json!({"database": "new", "restore": {"database": "people", "backup": name}}),
            json!({"database": "new", "restore": {"database": name, "backup": "monday"}}),
        ] {
            let answer = admin.json("POST", "/v1/databases", &body.to_string());
            assert_eq!(answer.status, 400, "{body}");
        }
    }
    for body in [
        "{\"backup\":\"x\",\"keep\":0}",
        "{\"backup\":\"x\",\"keep\":1,\"copy\":true}",
        "{\"keep\":1}",
    ] {
        assert_eq!(admin.json("POST", people, body).status, 400, "{body}");
    }
    let missing = json!({"database": "new", "restore": {"database": "shop", "backup": "monday"}});
    let answer = admin.json("POST", "/v1/databases", &missing.to_string());
    assert_eq!(answer.status, 404, "a copy is not a backup: {answer:?}");
    // Incomplete backups are not listed as copies, and folders with invalid names are not listed.
    let backups = server.folder.path().join("backups/shop");
    std::fs::create_dir_all(backups.join("begun/files")).unwrap();
    std::fs::create_dir_all(backups.join(".copying-tuesday-17")).unwrap();
    let listed = admin.get(BACKUPS).value();
    assert_eq!(
        listed["backups"],
        json!([{"backup": "begun", "unfinished": true}, {"backup": "monday", "copy": true}])
    );
    let reader = server.client(&server.user("eve", "{\"shop\":\"schema\"}"));
    assert_eq!(reader.delete(&format!("{BACKUPS}/begun")).status, 403);
    assert_eq!(admin.delete(&format!("{BACKUPS}/begun")).status, 204);
    assert_eq!(admin.delete(&format!("{BACKUPS}/begun")).status, 404);
    assert_eq!(admin.delete(&format!("{BACKUPS}/..")).status, 400);
    assert_eq!(
        admin
            .delete(&format!("{BACKUPS}/.copying-tuesday-17"))
            .status,
        400
    );
    let left = std::fs::read_dir(&backups).unwrap().count();
    assert_eq!(left, 1, "the interrupted one was removed");
    let token = server.user("bob", "{\"shop\":\"admin\"}");
    let bob = server.client(&token);
    assert_eq!(bob.get(BACKUPS).value()["backups"][0]["backup"], "monday");
    assert_eq!(bob.get("/v1/databases/other/backups").status, 403);
    let own = json!({"database": "mine", "restore": {"database": "shop", "backup": "monday"}});
    let answer = bob.json("POST", "/v1/databases", &own.to_string());
    assert_eq!(
        answer.status, 403,
        "only administrators of the server create databases"
    );
}
