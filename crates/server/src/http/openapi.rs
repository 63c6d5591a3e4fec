//! The description of the interface (OpenAPI 3.1), generated from the table of routes, as are the router, the rights
//! and their tests. Attributes at each function (utoipa) would be a second table, which could differ from the first.

mod answers;
mod bodies;
mod schema;

use std::sync::OnceLock;

use axum::http::StatusCode;
use serde_json::{Map, Value as Json, json};

use super::{
    call::Call,
    reply::Reply,
    route::{BodyOf, Route, RouteNeeds},
    routes::ROUTES,
};
use crate::Result;

/// `GET /v1/openapi.json`
pub async fn description(_call: Call) -> Result<Reply> {
    Ok(Reply::whole(StatusCode::OK, "application/json", text()))
}

/// The description as JSON.
pub fn text() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| document().to_string())
}

/// The description.
fn document() -> Json {
    let mut paths = Map::new();
    for route in ROUTES {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method.to_ascii_lowercase()] = operation(route);
    }
    let schemas: Map<String, Json> = bodies::all()
        .into_iter()
        .chain(answers::all())
        .map(|(name, schema)| (name.to_owned(), schema))
        .collect();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "IsomerDB",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Key-values, documents and a graph in one serializable transaction.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": schemas,
        },
    })
}

fn operation(route: &Route) -> Json {
    let mut parameters = Vec::new();
    for place in route.path_params() {
        let schema = if place == "datatype" {
            json!({"type": "string", "enum": ["counters", "sets", "gsets", "hlls", "maps"]})
        } else if place == "id" && !route.path.contains("tokens") {
            json!({"type": "integer", "minimum": 0})
        } else {
            json!({"type": "string", "minLength": 1})
        };
        parameters.push(parameter(place, "path", true, schema, ""));
    }
    for (name, needed) in route.params() {
        let (schema, about) = param(route, name);
        parameters.push(parameter(name, "query", needed, schema, about));
    }
    for (name, about) in heads(route) {
        parameters.push(parameter(
            name,
            "header",
            false,
            json!({"type": "string"}),
            about,
        ));
    }
    let error = json!({"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}});
    let mut operation = json!({
        "operationId": id(route),
        "tags": [route.tag],
        "summary": route.summary,
        "description": needs(route.needs),
        "parameters": parameters,
        "responses": {
            "4XX": {"description": "What to change, or when to retry, by kind.", "content": error},
            "5XX": {"description": "What went wrong, by kind.", "content": error},
        },
    });
    for (status, schema) in route.answers {
        operation["responses"][status.to_string()] = answer(*status, schema);
    }
    if let Some(body) = body(route) {
        operation["requestBody"] = body;
    }
    if route.needs != RouteNeeds::Public {
        operation["security"] = json!([{"token": []}]);
    }
    operation
}

fn answer(status: u16, schema: &str) -> Json {
    let about = match status {
        201 => "Created.",
        204 => "Done; no content.",
        206 => "The requested range.",
        304 => "Not modified: the ETag matches.",
        _ => "Success.",
    };
    match schema {
        "" => json!({"description": about}),
        name => json!({"description": about, "content": content(name)}),
    }
}

/// Content of a schema, in its content types.
fn content(name: &str) -> Json {
    let schema = json!({"schema": {"$ref": format!("#/components/schemas/{name}")}});
    let bytes = json!({"schema": {"type": "string"}});
    match name {
        "Lines" => json!({"application/jsonl": schema}),
        "Bytes" | "Frame" => json!({"application/octet-stream": schema}),
        "Value" => {
            json!({"application/json": schema, "application/octet-stream": bytes, "text/plain": bytes})
        }
        "Result" => {
            json!({"application/json": schema, "application/jsonl": bytes, "application/vnd.apache.arrow.stream": bytes})
        }
        "Events" => json!({"text/event-stream": schema}),
        "Figures" => json!({"text/plain": schema}),
        "Html" => json!({"text/html": schema}),
        _ => json!({"application/json": schema}),
    }
}

fn body(route: &Route) -> Option<Json> {
    let (name, needed) = match route.body {
        BodyOf::Nothing => return None,
        BodyOf::Schema(name) => (name, true),
        BodyOf::Optional(name) => (name, false),
    };
    Some(json!({"required": needed, "content": content(name)}))
}

/// A stable id: `get_databases_db_nodes_id`.
fn id(route: &Route) -> String {
    let mut id = route.method.to_ascii_lowercase();
    for part in route
        .path
        .split('/')
        .filter(|part| !part.is_empty() && *part != "v1")
    {
        id.push('_');
        id.extend(
            part.chars()
                .filter(|c| !matches!(c, '{' | '}'))
                .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }),
        );
    }
    id
}

fn needs(needs: RouteNeeds) -> String {
    match needs {
        RouteNeeds::Public => "Requires no token.".into(),
        RouteNeeds::Server(None) => "Requires a token.".into(),
        RouteNeeds::Server(Some(role)) => {
            format!("Requires the role {} on all databases.", role.name())
        }
        RouteNeeds::Database(role) => format!("Requires the role {} on the database.", role.name()),
    }
}

fn parameter(name: &str, place: &str, needed: bool, schema: Json, about: &str) -> Json {
    let mut parameter = json!({"name": name, "in": place, "required": needed, "schema": schema});
    if !about.is_empty() {
        parameter["description"] = about.into();
    }
    parameter
}

fn param(route: &Route, name: &str) -> (Json, &'static str) {
    let text = json!({"type": "string"});
    match name {
        "limit" => (
            json!({"type": "integer", "minimum": 1, "maximum": 10000, "default": 100}),
            "page size",
        ),
        "expires_in_ms" => (
            json!({"type": "integer", "minimum": 0}),
            "milliseconds until the key expires",
        ),
        "detach" | "all" | "remove" | "folders" | "returnbody" | "replicas" => {
            (json!({"type": "boolean"}), "")
        }
        "path" => (
            text,
            "names from the root with `/` between them, such as /docs/a.txt",
        ),
        "order" => (json!({"type": "string", "enum": ["asc", "desc"]}), ""),
        "direction" => (json!({"type": "string", "enum": ["in", "out", "both"]}), ""),
        "key_encoding" => (
            json!({"type": "string", "enum": ["text", "base64"]}),
            "encoding of keys in path and parameters",
        ),
        "key_type" => (
            json!({"type": "string", "enum": ["string", "integer"]}),
            "type of keys in path and parameters",
        ),
        "value_types" => (
            json!({"type": "string", "enum": ["json", "keep"], "default": "json"}),
            "`keep`: a value is replaced by one of its type (a date by a date), or refused",
        ),
        "pause_ms" => (
            json!({"type": "integer", "minimum": 0, "maximum": 60000, "default": 100}),
            "minimum milliseconds between two results",
        ),
        "cursor" => (text, "`next` of the page before"),
        "from" if route.tag == "changes" => (
            json!({"type": "integer", "minimum": 0}),
            "the version after which to begin",
        ),
        "contains" => (text, "an element, JSON"),
        "from" if route.tag == "convergent" => (text, "the element after which to begin, JSON"),
        "to" if route.tag == "files" => (text, "the new path"),
        "from" if route.tag == "transfer" => (text, "label of the start nodes"),
        "to" if route.tag == "transfer" => (text, "label of the end nodes"),
        "from" => (text, "first key, inclusive"),
        "to" => (text, "last key, exclusive"),
        "types" | "labels" | "buckets" => (text, "comma-separated names; all unless given"),
        _ => (text, ""),
    }
}

/// Header fields that a route uses.
fn heads(route: &Route) -> Vec<(&'static str, &'static str)> {
    let mut heads = Vec::new();
    let in_database = matches!(route.needs, RouteNeeds::Database(_))
        && !matches!(route.tag, "databases" | "transfer" | "changes");
    let on_its_own = route.path.ends_with("/file") && matches!(route.method, "GET" | "PUT");
    if in_database && !on_its_own && !route.path.contains("/tx") {
        heads.push(("Isomer-Transaction", "a transaction begun with POST …/tx"));
    }
    if route.keeps_answers() {
        heads.push((
            "Idempotency-Key",
            "a request with the same key is executed once within a day",
        ));
    }
    let bears_a_tag = match route.tag {
        "buckets" | "documents" => route.path.ends_with("/{key}"),
        "files" => route.path.contains("/file") && !route.path.ends_with("/files"),
        "graph" => {
            route.path.contains("/{id}")
                && !route.path.ends_with("/degree")
                && !route.path.ends_with("/neighbours")
        }
        _ => false,
    };
    if bears_a_tag {
        heads.push(("If-None-Match", "an ETag, or *"));
        if route.method != "GET" {
            heads.push(("If-Match", "an ETag, or *"));
        } else if route.tag == "files" {
            heads.push(("Range", "bytes=FROM-TO, bytes=FROM- or bytes=-LAST"));
        }
    }
    if route.tag == "changes" {
        heads.push((
            "Last-Event-ID",
            "the id of the last event that was received",
        ));
    }
    heads
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_is_described_once() {
        let document: Json = serde_json::from_str(text()).unwrap();
        let no_parameters = Vec::new();
        assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
        let mut ids = std::collections::HashSet::new();
        for route in ROUTES {
            let operation = &document["paths"][route.path][route.method.to_ascii_lowercase()];
            assert_eq!(
                operation["summary"], route.summary,
                "{} {}",
                route.method, route.path
            );
            assert!(
                ids.insert(operation["operationId"].as_str().unwrap().to_owned()),
                "{}",
                route.path
            );
            let parameters = operation["parameters"].as_array().unwrap_or(&no_parameters);
            for place in route.path_params() {
                assert!(
                    parameters
                        .iter()
                        .any(|one| one["name"] == place && one["in"] == "path"),
                    "{}",
                    route.path
                );
            }
            assert!(!route.answers.is_empty(), "{}", route.path);
            for (status, name) in route.answers {
                let answer = &operation["responses"][status.to_string()];
                assert_eq!(answer["content"].is_object(), !name.is_empty());
                let schema = &document["components"]["schemas"][name];
                assert!(name.is_empty() || schema.is_object(), "{name}");
            }
            if let BodyOf::Schema(name) | BodyOf::Optional(name) = route.body {
                let schema = &document["components"]["schemas"][name];
                assert!(
                    schema.is_object() && !schema.as_object().unwrap().is_empty(),
                    "{name}: {schema}"
                );
            }
        }
        assert_eq!(
            document["components"]["schemas"]["Query"]["required"][0],
            "query"
        );
    }
}
