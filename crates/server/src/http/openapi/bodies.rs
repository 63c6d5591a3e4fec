//! Schemas of bodies. Their objects have no other fields than those described.

use serde_json::{Value as Json, json};

use super::schema::{Named, any, text, truth};

/// All schemas of bodies.
pub(super) fn all() -> Vec<Named> {
    [
        errors_and_access(),
        databases(),
        data(),
        convergent(),
        exchange(),
    ]
    .concat()
}

fn object(properties: Json, required: &[&str]) -> Json {
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

fn number() -> Json {
    json!({"type": "integer", "minimum": 0})
}

fn roles() -> Json {
    json!({
        "type": "object",
        "additionalProperties": {"type": "string", "enum": ["reader", "editor", "schema", "replica", "admin"]},
        "description": "roles by database; `*` means all"
    })
}

fn password() -> Json {
    json!({"type": "string", "minLength": 8, "maxLength": 1024})
}

/// Errors, logins, users and tokens.
fn errors_and_access() -> Vec<Named> {
    vec![
        (
            "Error",
            object(
                json!({"error": {
                    "type": "object",
                    "properties": {"kind": text(), "message": text(), "code": text(), "retryable": truth()},
                    "required": ["kind", "message"]
                }}),
                &["error"],
            ),
        ),
        (
            "Setup",
            object(
                json!({"token": text(), "user": text(), "password": password(), "cookie": truth()}),
                &["token", "user", "password"],
            ),
        ),
        (
            "Login",
            object(
                json!({"user": text(), "password": text(), "cookie": truth()}),
                &["user", "password"],
            ),
        ),
        (
            "NewUser",
            object(
                json!({"user": text(), "password": password(), "roles": roles()}),
                &["user", "password"],
            ),
        ),
        ("Roles", roles()),
        (
            "Password",
            object(
                json!({"password": password(), "current": text(), "end_tokens": truth()}),
                &["password"],
            ),
        ),
        (
            "NewToken",
            object(
                json!({"name": text(), "user": text(), "scope": roles(), "expires_in_ms": number()}),
                &[],
            ),
        ),
    ]
}

/// Databases, backups and queries.
fn databases() -> Vec<Named> {
    vec![
        (
            "NewDatabase",
            object(
                json!({
                    "database": {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"},
                    "restore": {
                        "type": "object",
                        "properties": {"database": text(), "backup": text(), "version": number(), "time_ms": number()},
                        "required": ["database", "backup"],
                        "additionalProperties": false,
                        "description": "the backup to restore from: the newest state, or one of `version` and `time_ms`"
                    }
                }),
                &["database"],
            ),
        ),
        (
            "Backup",
            object(
                json!({
                    "backup": {"type": "string", "pattern": "^[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}$"},
                    "keep": {"type": "integer", "minimum": 1},
                    "copy": truth()
                }),
                &["backup"],
            ),
        ),
        (
            "Query",
            object(
                json!({
                    "query": text(),
                    "parameters": any(),
                    "limits": {"type": "object", "properties": {"time_ms": number(), "rows": number()}, "additionalProperties": false},
                    "types": {"type": "object", "additionalProperties": {"type": "string"}, "description": "types of columns, for Arrow"}
                }),
                &["query"],
            ),
        ),
        (
            "Followed",
            object(
                json!({
                    "query": text(),
                    "parameters": any(),
                    "limits": {"type": "object", "properties": {"time_ms": number(), "rows": number()}, "additionalProperties": false}
                }),
                &["query"],
            ),
        ),
        ("Begin", object(json!({"read_only": truth()}), &[])),
    ]
}

/// Buckets, documents and the graph.
fn data() -> Vec<Named> {
    vec![
        (
            "Bucket",
            object(json!({"multi": truth(), "reversible": truth()}), &[]),
        ),
        ("Value", json!({"description": "any JSON but null"})),
        ("Json", json!({"description": "any JSON"})),
        ("Object", any()),
        (
            "Documents",
            json!({"oneOf": [any(), {"type": "array", "items": any()}]}),
        ),
        (
            "NewNode",
            object(
                json!({"labels": {"type": "array", "items": text()}, "properties": any()}),
                &[],
            ),
        ),
        (
            "NewRelationship",
            object(
                json!({"type": text(), "source": number(), "target": number(), "properties": any()}),
                &["type", "source", "target"],
            ),
        ),
    ]
}

/// Convergent fields.
fn convergent() -> Vec<Named> {
    vec![(
        "Change",
        object(
            json!({
                "update": {
                    "type": "object",
                    "minProperties": 1,
                    "maxProperties": 1,
                    "properties": {
                        "counter": {"type": "integer"},
                        "set": {"type": "object", "properties": {"add": {"type": "array"}, "remove": {"type": "array"}}},
                        "grow_set": {"type": "array"},
                        "register": {},
                        "multi_register": {},
                        "flag": truth(),
                        "hll": {"type": "object", "properties": {"add": {"type": "array"}, "precision": {"type": "integer"}}},
                        "map": {"type": "object", "properties": {"update": {"type": "object"}, "remove": {"type": "array", "items": text()}}},
                        "remove": {"const": true}
                    },
                    "additionalProperties": false
                },
                "context": text()
            }),
            &["update"],
        ),
    )]
}

/// Files, replication and transfers.
fn exchange() -> Vec<Named> {
    vec![
        (
            "Bytes",
            json!({"type": "string", "description": "the raw content"}),
        ),
        (
            "AcceptClock",
            object(
                json!({"accept_until": {"type": ["string", "null"], "format": "date-time"}}),
                &["accept_until"],
            ),
        ),
        (
            "Frame",
            json!({"type": "string", "format": "binary", "description": "a frame of the replication protocol"}),
        ),
        (
            "Lines",
            json!({"type": "string", "description": "one JSON object a line"}),
        ),
    ]
}
