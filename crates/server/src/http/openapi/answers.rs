//! Schemas of answers. Further fields may be added to their objects.

use serde_json::{Value as Json, json};

use super::schema::{Named, any, text, truth};

/// All schemas of answers.
pub(super) fn all() -> Vec<Named> {
    [watching(), access(), databases(), data(), graph()].concat()
}

fn object(properties: Json, required: &[&str]) -> Json {
    json!({"type": "object", "properties": properties, "required": required})
}

fn list(items: Json) -> Json {
    json!({"type": "array", "items": items})
}

/// A page of items. `next` is present if another page may follow.
fn page(name: &str, items: &Json) -> Json {
    object(json!({name: list(items.clone()), "next": text()}), &[name])
}

fn number() -> Json {
    json!({"type": "integer"})
}

fn texts() -> Json {
    list(text())
}

fn objects() -> Json {
    list(any())
}

fn user() -> Json {
    object(
        json!({"user": text(), "roles": any(), "created_ms": number()}),
        &["user", "roles"],
    )
}

fn token() -> Json {
    object(
        json!({
            "id": text(), "user": text(), "name": text(), "login": truth(), "created_ms": number(),
            "expires_ms": number(), "scope": any()
        }),
        &["id", "user"],
    )
}

fn database() -> Json {
    object(
        json!({"database": text(), "role": text(), "open": truth(), "error": text()}),
        &["database", "role"],
    )
}

fn node() -> Json {
    object(
        json!({"$node": number(), "labels": texts(), "properties": any()}),
        &["$node", "labels", "properties"],
    )
}

fn relationship() -> Json {
    object(
        json!({"$relationship": number(), "type": text(), "source": number(), "target": number(), "properties": any()}),
        &["$relationship", "type", "properties"],
    )
}

/// Pages, metrics, events and health.
fn watching() -> Vec<Named> {
    vec![
        ("Html", json!({"type": "string"})),
        (
            "Figures",
            json!({"type": "string", "description": "metrics in the Prometheus text format"}),
        ),
        (
            "Events",
            json!({"type": "string", "description": "server-sent events"}),
        ),
        (
            "Health",
            object(
                json!({"status": text(), "databases": number(), "failed": number()}),
                &["status"],
            ),
        ),
        ("Ready", object(json!({"status": text()}), &["status"])),
    ]
}

/// Logins, users and tokens.
fn access() -> Vec<Named> {
    vec![
        (
            "LoggedIn",
            object(
                json!({"token": text(), "csrf": text(), "about": token()}),
                &["about"],
            ),
        ),
        (
            "Me",
            object(
                json!({
                    "user": text(), "admin": truth(), "databases": list(database()), "version": text(),
                    "csrf": text()
                }),
                &["user", "admin", "databases"],
            ),
        ),
        ("Users", object(json!({"users": list(user())}), &["users"])),
        ("User", user()),
        (
            "Tokens",
            object(json!({"tokens": list(token())}), &["tokens"]),
        ),
    ]
}

/// Databases, backups and replication; queries and transactions.
fn databases() -> Vec<Named> {
    vec![
        (
            "Databases",
            object(json!({"databases": list(database())}), &["databases"]),
        ),
        ("Made", object(json!({"database": text()}), &["database"])),
        (
            "Opened",
            object(
                json!({"database": text(), "opened": truth()}),
                &["database", "opened"],
            ),
        ),
        (
            "Database",
            object(
                json!({
                    "database": text(), "role": text(), "engine": text(), "version": number(), "nodes": number(),
                    "relationships": number(), "keys": number(), "stored_bytes": number()
                }),
                &["database", "role", "engine", "version"],
            ),
        ),
        (
            "Running",
            object(
                json!({"queries": objects(), "operations": objects()}),
                &["queries", "operations"],
            ),
        ),
        (
            "Backups",
            object(json!({"backups": objects()}), &["backups"]),
        ),
        (
            "Result",
            object(
                json!({
                    "columns": texts(), "rows": list(json!({"type": "array"})), "class": text(), "counters": any(),
                    "notices": texts(), "plan": text(), "plan_tree": {}
                }),
                &["columns", "rows", "class", "counters", "notices"],
            ),
        ),
        (
            "Transaction",
            object(
                json!({"transaction": text(), "read_only": truth(), "version": number(), "expires_in_ms": number()}),
                &["transaction", "expires_in_ms"],
            ),
        ),
        (
            "Version",
            object(json!({"version": number()}), &["version"]),
        ),
        (
            "Replication",
            object(
                json!({
                    "replica": {"type": ["string", "null"]}, "replicates": text(), "log_transactions": number(),
                    "conflicts": number(), "kept_days": number(),
                    "accepts_stamps_until": {"type": ["string", "null"]}, "joining": {"type": ["object", "null"]},
                    "peers": objects(), "members": objects(), "text": texts()
                }),
                &["replica", "text"],
            ),
        ),
    ]
}

/// Buckets, documents, convergent fields and files.
fn data() -> Vec<Named> {
    vec![
        (
            "Buckets",
            object(
                json!({
                    "buckets": list(object(json!({"bucket": text(), "multi": truth(), "reversible": truth()}), &["bucket"]))
                }),
                &["buckets"],
            ),
        ),
        (
            "Pairs",
            page("pairs", &object(json!({"key": {}, "value": {}}), &["key"])),
        ),
        ("Values", page("values", &json!({}))),
        ("Number", object(json!({"number": number()}), &["number"])),
        ("DocumentPage", page("documents", &any())),
        (
            "Keys",
            object(json!({"_key": {}, "keys": {"type": "array"}}), &[]),
        ),
        (
            "Field",
            object(
                json!({
                    "kind": text(), "value": {}, "context": text(), "contains": truth(),
                    "elements": {"type": "array"}, "size": number(), "replicas": objects(), "complete": truth()
                }),
                &[],
            ),
        ),
        (
            "RiakValue",
            object(
                json!({"type": text(), "value": {}, "context": text()}),
                &["type", "value"],
            ),
        ),
        (
            "Entries",
            page(
                "entries",
                &object(
                    json!({
                        "name": text(), "kind": text(), "bytes": number(), "created_ms": number(),
                        "modified_ms": number()
                    }),
                    &["name", "kind"],
                ),
            ),
        ),
    ]
}

/// The graph, and loads of it.
fn graph() -> Vec<Named> {
    vec![
        ("Degree", object(json!({"degree": number()}), &["degree"])),
        (
            "Neighbours",
            page(
                "neighbours",
                &object(
                    json!({"relationship": relationship(), "node": node()}),
                    &["relationship", "node"],
                ),
            ),
        ),
        ("Node", node()),
        ("Relationship", relationship()),
        (
            "Types",
            object(
                json!({"types": list(object(json!({"type": text(), "relationships": number()}), &["type"]))}),
                &["types"],
            ),
        ),
        (
            "Labels",
            object(
                json!({"labels": list(object(json!({"label": text(), "nodes": number()}), &["label"]))}),
                &["labels"],
            ),
        ),
        (
            "Loaded",
            object(
                json!({"loaded": number(), "version": number()}),
                &["loaded", "version"],
            ),
        ),
    ]
}
