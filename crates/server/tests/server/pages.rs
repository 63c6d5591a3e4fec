//! Pages end when they are full, and the cursor leads to the next one.

use isomer_db::internals::DatabaseInternals as _;
use serde_json::{Value, json};

use crate::support::{Client, Server};

const PEOPLE: &str = "/v1/databases/people";

fn at(path: &str) -> String {
    format!("{PEOPLE}{path}")
}

/// The items of all pages, and how many were on each.
fn all(client: &Client, path: &str, name: &str) -> (Vec<Value>, Vec<usize>) {
    let (mut things, mut sizes, mut cursor) = (Vec::new(), Vec::new(), String::new());
    let sign = if path.contains('?') { '&' } else { '?' };
    loop {
        let page = client.get(&at(&format!("{path}{cursor}")));
        assert_eq!(page.status, 200, "{}", page.text());
        let page = page.value();
        let found = page[name].as_array().expect("things").clone();
        sizes.push(found.len());
        things.extend(found);
        match page["next"].as_str() {
            Some(next) => cursor = format!("{sign}cursor={next}"),
            None => return (things, sizes),
        }
    }
}

/// Large items make pages short instead of answers large.
#[test]
fn a_page_of_large_items_ends_early_with_a_cursor() {
    let server = Server::with(&[("limits.result", "12MiB")]);
    let admin = server.admin();
    let text = "x".repeat(5 << 20);
    for n in 0..5 {
        let key = at(&format!("/buckets/big/keys/k{n}"));
        assert_eq!(admin.json("PUT", &key, &format!("\"{text}\"")).status, 204);
        let document = at(&format!("/collections/Big/d{n}"));
        let body = format!("{{\"text\": \"{text}\"}}");
        assert_eq!(admin.json("PUT", &document, &body).status, 201);
    }
    let (pairs, sizes) = all(&admin, "/buckets/big/keys", "pairs");
    let keys: Vec<_> = pairs.iter().map(|pair| &pair["key"]).collect();
    assert_eq!(keys, ["k0", "k1", "k2", "k3", "k4"]);
    assert_eq!(sizes, [2, 2, 1]);
    let (pairs, sizes) = all(&admin, "/buckets/big/keys?order=desc", "pairs");
    assert_eq!((&pairs[0]["key"], sizes), (&json!("k4"), vec![2, 2, 1]));
    let (documents, sizes) = all(&admin, "/collections/Big", "documents");
    let keys: Vec<_> = documents.iter().map(|one| &one["_key"]).collect();
    assert_eq!(keys, ["d0", "d1", "d2", "d3", "d4"]);
    assert_eq!(sizes, [2, 2, 1]);
    admin.rows(
        "people",
        "CREATE (h:Hub) WITH h MATCH (b:Big) CREATE (h)-[:T]->(b)",
    );
    let hub = admin.rows("people", "MATCH (h:Hub) RETURN id(h)")[0][0].clone();
    let path = format!("/nodes/{hub}/neighbours");
    let (found, sizes) = all(&admin, &path, "neighbours");
    assert_eq!((found.len(), sizes), (5, vec![2, 2, 1]));
    // One item that is too large for any page is an error.
    let server = Server::with(&[("limits.result", "1MiB")]);
    let admin = server.admin();
    let key = at("/buckets/big/keys/k");
    assert_eq!(admin.json("PUT", &key, &format!("\"{text}\"")).status, 204);
    assert_eq!(admin.get(&at("/buckets/big/keys")).status, 413);
}

/// An export reads no more at a time than its buffer, however many records there are.
#[test]
fn an_export_of_large_records_is_complete() {
    let server = Server::new();
    let admin = server.admin();
    admin.rows("people", "UNWIND range(1, 30) AS n CREATE (:Big {_key: n})");
    let text = "x".repeat(3 << 20);
    let parameters = json!({"text": text});
    let query = |query: &str| {
        let body = json!({"query": query, "parameters": parameters}).to_string();
        let answer = admin.json("POST", &at("/query"), &body);
        assert_eq!(answer.status, 200, "{}", answer.text());
    };
    query("UNWIND range(1, 5) AS n MATCH (b:Big {_key: n * 6}) SET b.text = $text");
    query(
        "MATCH (a:Big {_key: 1}), (b:Big {_key: 2}) UNWIND range(1, 5) AS n CREATE (a)-[:T {n: n, text: $text}]->(b)",
    );
    for (path, count) in [
        ("/export/nodes?label=Big", 30),
        ("/export/relationships?type=T", 5),
    ] {
        let lines = admin.get(&at(path));
        assert_eq!(lines.text().lines().count(), count);
        assert!(lines.body.len() > 15 << 20);
    }
}

/// All values of a key, and all keys with values, are reachable.
#[test]
fn a_bucket_with_several_values_per_key_is_paged_through() {
    let server = Server::new();
    let admin = server.admin();
    admin.json("PUT", &at("/buckets/many"), "{\"multi\": true}");
    let tx = server.people.store().unwrap();
    let mut tx = tx.begin(isomer_db::internals::data::Access::Write).unwrap();
    for n in 0..250 {
        let value = format!("v{n:03}");
        tx.kv_mut().add("many", b"k", value.as_bytes()).unwrap();
        tx.kv_mut()
            .add("many", format!("other{n:03}").as_bytes(), b"x")
            .unwrap();
        tx.kv_mut()
            .add("many", format!("other{n:03}").as_bytes(), b"y")
            .unwrap();
    }
    tx.commit().unwrap();
    let (values, sizes) = all(&admin, "/buckets/many/keys/k/values", "values");
    assert_eq!((values.len(), &sizes[..]), (250, &[100, 100, 50][..]));
    assert!(values.is_sorted_by(|a, b| a.as_str() < b.as_str()));
    let (values, _) = all(&admin, "/buckets/many/keys/k/values?limit=7", "values");
    assert_eq!(values.len(), 250);
    for order in ["asc", "desc"] {
        let path = format!("/buckets/many/keys?order={order}");
        let (keys, sizes) = all(&admin, &path, "pairs");
        assert_eq!((keys.len(), &sizes[..]), (251, &[100, 100, 51][..]));
        let last = usize::from(order == "desc") * 250;
        assert_eq!(keys[last], json!({"key": "k"}), "each once, without values");
    }
    let (keys, _) = all(&admin, "/buckets/many/keys?prefix=other1", "pairs");
    assert_eq!(keys.len(), 100);
}

/// A cursor never leads out of the requested range.
#[test]
fn a_cursor_of_another_page_stays_in_the_range() {
    let server = Server::new();
    let admin = server.admin();
    for n in 0..6 {
        admin.json("PUT", &at(&format!("/buckets/b/keys/k{n}")), "1");
        admin.json("PUT", &at(&format!("/collections/D/k{n}")), "{}");
    }
    let first = |path: &str, name: &str, key: &str| {
        let page = admin.get(&at(path));
        assert_eq!(page.status, 200, "{page:?}");
        page.value()[name][0][key].clone()
    };
    assert_eq!(
        first("/buckets/b/keys?cursor=AA&from=k3", "pairs", "key"),
        "k3"
    );
    assert_eq!(
        first("/buckets/b/keys?cursor=azE&prefix=z", "pairs", "key"),
        Value::Null
    );
    assert_eq!(
        first(
            "/buckets/b/keys?cursor=azQ&to=k3&order=desc",
            "pairs",
            "key"
        ),
        "k2"
    );
    let page = admin.get(&at("/collections/D?limit=1")).value();
    let path = format!(
        "/collections/D?from=k3&cursor={}",
        page["next"].as_str().unwrap()
    );
    assert_eq!(first(&path, "documents", "_key"), "k3");
}

/// Keys are strings and integers: pages continue from one to the other.
#[test]
fn pages_of_documents_continue_from_strings_to_integers() {
    let server = Server::new();
    let admin = server.admin();
    admin.rows(
        "people",
        "UNWIND range(1, 5) AS n CREATE (:D {_key: n}) CREATE (:D {_key: 's' + toString(n)})",
    );
    for limit in [1, 2, 3, 5, 10] {
        let path = format!("/collections/D?limit={limit}");
        let (documents, _) = all(&admin, &path, "documents");
        let keys: Vec<_> = documents.iter().map(|one| one["_key"].clone()).collect();
        let expected = json!(["s1", "s2", "s3", "s4", "s5", 1, 2, 3, 4, 5]);
        assert_eq!(Value::from(keys), expected, "{limit}");
    }
}

/// The memory of a user's open transactions is limited.
#[test]
fn the_writes_of_open_transactions_of_a_user_are_limited() {
    let server = Server::with(&[("limits.user_memory", "16MiB")]);
    let admin = server.admin();
    let begin = |client: &Client| {
        let begun = client.post(&at("/tx"));
        begun.value()["transaction"].as_str().unwrap().to_owned()
    };
    let text = format!("\"{}\"", "x".repeat(3 << 20));
    let mut written = 0;
    let mut refused: Option<crate::support::Answer> = None;
    let transactions: Vec<_> = (0..3).map(|_| begin(&admin)).collect();
    for (n, transaction) in transactions.iter().cycle().take(9).enumerate() {
        let put = admin.with("Isomer-Transaction", transaction).json(
            "PUT",
            &at(&format!("/buckets/b/keys/k{n}")),
            &text,
        );
        match put.status {
            204 => written += 3 << 20,
            // Later statements in the same transaction are refused because it is broken.
            _ => {
                refused.get_or_insert(put);
            }
        }
    }
    let refused = refused.expect("too much");
    // No memory is left for its writes, or already for its body.
    assert!(matches!(refused.status, 422 | 429), "{refused:?}");
    assert_eq!(refused.kind(), "Limit");
    assert!((6 << 20..=18 << 20).contains(&written), "{written}");
    // Other users are not affected.
    let bob = server.client(&server.user("bob", "{\"people\": \"editor\"}"));
    let own = begin(&bob);
    let put = bob
        .with("Isomer-Transaction", &own)
        .json("PUT", &at("/buckets/b/keys/x"), &text);
    assert_eq!(put.status, 204, "{put:?}");
    // Ended transactions release their memory.
    for transaction in &transactions {
        admin.delete(&at(&format!("/tx/{transaction}")));
    }
    let again = begin(&admin);
    let put = admin
        .with("Isomer-Transaction", &again)
        .json("PUT", &at("/buckets/b/keys/y"), &text);
    assert_eq!(put.status, 204, "{put:?}");
    assert_eq!(admin.post(&at(&format!("/tx/{again}/commit"))).status, 200);
}
