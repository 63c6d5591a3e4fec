//! Neo4j's HTTP Query API: `POST /db/{db}/query/v2`, for clients without Bolt.
//!
//! The request is `{"statement": …, "parameters": {…}}`, with a name and a password (Basic) or a token (Bearer). The
//! answer has status 202 and `{"data": {"fields": […], "values": [[…], …]}, "bookmarks": […]}`; an error is
//! `{"errors": [{"code": …, "message": …}]}`. Values are JSON: nodes and relationships are objects with their element
//! ids, a path is the list of its nodes and relationships, other types are text. `Accept: application/vnd.neo4j.query`
//! asks for values with their types (`typed_json`), and with it as `Content-Type` the parameters have types.

use std::{sync::Arc, time::Duration};

use axum::http::{StatusCode, header};
use isomer_db::{CancelHandle, Map, QueryResult, StatementClass, Value, params};
use isomer_value::{Crs, DatabaseId, Element, NodeId, Point, RelId, temporal};

use super::{
    base64,
    call::{Call, StopOnDrop, wrong},
    credentials::bearer,
    reply::{self, Reply},
    typed_json::{self, TYPED_JSON},
};
use crate::{
    Result, ServerError,
    access::{DatabaseAccess, Role, Session},
    bolt::{self, Failure},
    slow,
    use_clause::UseClause,
};

/// Fields of the body.
const FIELDS: &[&str] = &[
    "statement",
    "parameters",
    "includeCounters",
    "accessMode",
    "maxExecutionTime",
    "bookmarks",
    "impersonatedUser",
];

/// `POST /db/{db}/query/v2`
pub async fn query(mut call: Call) -> Result<Reply> {
    match run(&mut call).await {
        Ok(reply) => Ok(reply),
        Err(error) => failure(&error),
    }
}

/// An error in the form of this interface.
fn failure(error: &ServerError) -> Result<Reply> {
    let body = params! { "errors" => vec![failure_value(error)] };
    let status = reply::status(error);
    let reply = Reply::value_with(status, &body.into())?;
    Ok(match status {
        StatusCode::UNAUTHORIZED => {
            reply.with(header::WWW_AUTHENTICATE, "Basic realm=\"IsomerDB\"")
        }
        _ => reply,
    })
}

/// Neo4j's code of an error, and its message.
pub(super) fn failure_value(error: &ServerError) -> Value {
    let Failure { code, message, .. } = Failure::of(error);
    params! { "code" => code, "message" => message }.into()
}

/// Authenticates a request by its header `Authorization`.
pub(super) async fn admit(call: &mut Call) -> Result<Session> {
    let credential = bolt::authenticate(&call.core, call.from, &credentials(call)?).await?;
    let principal = call.core.principal(&credential)?;
    call.audit(|details| details.user = Some(principal.name.to_string()));
    let session = call.core.admit(principal, call.from)?;
    call.sent = Some(session.body().clone());
    Ok(session)
}

/// A parsed request.
struct QueryRequest {
    statement: String,
    parameters: Map,
    with_counters: bool,
    reads_only: bool,
    time: Option<Duration>,
    /// Whether the values of the answer have their types.
    is_typed: bool,
}

async fn run(call: &mut Call) -> Result<Reply> {
    let session = admit(call).await?;
    let principal = session.principal().clone();
    let mut asked = read(call).await?;
    let mut name = call.core.resolve(call.path_param("db"), &principal);
    if let Some(clause) = UseClause::of(&asked.statement) {
        name = call.core.resolve(&clause.database, &principal);
        asked.statement = clause.rest;
    }
    let mut access = session.database(&name, Role::Reader, None)?;
    let cancel = CancelHandle::new();
    // The client has disconnected if this is dropped before the end.
    let _stop = StopOnDrop::new(&cancel);
    let mut options = access.query_options()?.cancel(cancel.clone());
    if asked.reads_only {
        let most = access.role().class().min(StatementClass::Read);
        options = options.allow(most);
    }
    if let (Some(limits), Some(time)) = (&mut options.limits, asked.time) {
        limits.time = Some(limits.time.map_or(time, |most| most.min(time)));
    }
    let core = call.core.clone();
    let details = call.audit_details.clone();
    let work = move || {
        let began = std::time::Instant::now();
        let result = access.query(&asked.statement, &asked.parameters, &options);
        let failed = result.as_ref().err().map(ServerError::kind);
        slow::log(&core, &access, &asked.statement, began.elapsed(), failed);
        let result = result?;
        details.lock().class = Some(result.class());
        answer(&access, &asked, &result)
    };
    call.core.blocking(work).await
}

/// The entries of a login, from the header `Authorization`.
fn credentials(call: &Call) -> Result<Map> {
    let header = call.header("authorization")?;
    let Some(basic) = header.and_then(|text| {
        let (scheme, rest) = text.split_once(' ')?;
        scheme.eq_ignore_ascii_case("basic").then(|| rest.trim())
    }) else {
        let token = bearer(&call.headers)?.unwrap_or_default();
        return Ok(params! { "scheme" => "bearer", "credentials" => token });
    };
    let decoded = base64::decode(basic).and_then(|bytes| String::from_utf8(bytes).ok());
    let pair = decoded.as_deref().and_then(|text| text.split_once(':'));
    let (name, password) = pair.ok_or_else(|| {
        ServerError::Unauthenticated(
            "`Authorization: Basic` must be the Base64 of NAME:PASSWORD".into(),
        )
    })?;
    Ok(params! { "scheme" => "basic", "principal" => name, "credentials" => password })
}

async fn read(call: &mut Call) -> Result<QueryRequest> {
    let is_media_type = |text: &str| {
        text.split(';').next().is_some_and(|name| {
            let name = name.trim();
            let versions = name.strip_prefix(TYPED_JSON);
            versions.is_some_and(|version| version.is_empty() || version.starts_with(".v"))
        })
    };
    let accepted = call.header(header::ACCEPT)?.unwrap_or_default();
    let is_typed = accepted.split(',').any(is_media_type);
    let has_typed_parameters = is_media_type(&call.content_type());
    let mut fields = match has_typed_parameters {
        true => call.fields_of_any_type(FIELDS).await?,
        false => call.fields(FIELDS).await?,
    };
    if fields.text("impersonatedUser")?.is_some() {
        return Err(ServerError::Denied(
            "impersonating a user is not supported: log in as that user".into(),
        ));
    }
    let reads_only = match fields.text("accessMode")?.as_deref() {
        None => false,
        Some(mode) if mode.eq_ignore_ascii_case("read") => true,
        Some(mode) if mode.eq_ignore_ascii_case("write") => false,
        Some(mode) => {
            return Err(ServerError::Invalid(format!(
                "invalid `accessMode` `{mode}`: expected READ or WRITE"
            )));
        }
    };
    let seconds = fields.take("maxExecutionTime");
    let time = match &seconds {
        None | Some(Value::Null) => None,
        Some(Value::Int(seconds @ 1..)) => Some(Duration::from_secs(seconds.unsigned_abs())),
        Some(other) => return Err(wrong("maxExecutionTime", "seconds, at least 1", other)),
    };
    // A transaction begins after every commit that has returned, in any process: the version of a bookmark is included.
    fields.take("bookmarks");
    Ok(QueryRequest {
        statement: fields.needed_text("statement")?,
        parameters: match fields.map("parameters")?.unwrap_or_default() {
            typed if has_typed_parameters => typed_json::parameters(typed)?,
            plain => plain,
        },
        with_counters: fields.switch("includeCounters")?,
        reads_only,
        time,
        is_typed,
    })
}

fn answer(access: &DatabaseAccess, asked: &QueryRequest, result: &QueryResult) -> Result<Reply> {
    let database = access.identity()?;
    let fields: Value = result
        .columns()
        .iter()
        .cloned()
        .map(Value::String)
        .collect();
    let rows = result.rows().iter().map(|row| -> Value {
        let values = row.values().iter();
        let form = match asked.is_typed {
            true => typed_json::typed,
            false => plain,
        };
        values.map(|value| form(value, database)).collect()
    });
    let data = params! { "fields" => fields, "values" => rows.collect::<Value>() };
    let bookmark = bolt::bookmark(access.name(), access.version()?);
    let mut body = params! { "data" => data, "bookmarks" => vec![Value::from(bookmark)] };
    if asked.with_counters {
        body.insert("counters", counters(result));
    }
    if let Some(notifications) = bolt::notifications(result.notices(), &asked.statement) {
        body.insert("notifications", notifications);
    }
    let reply = Reply::value_with(StatusCode::ACCEPTED, &body.into())?;
    Ok(match asked.is_typed {
        true => reply.with_content_type(TYPED_JSON),
        false => reply,
    })
}

/// All counters, under the names of this interface.
fn counters(result: &QueryResult) -> Value {
    let counters = result.counters();
    let number = |count: u64| Value::Int(i64::try_from(count).unwrap_or(i64::MAX));
    params! {
        "containsUpdates" => !counters.is_empty(),
        "nodesCreated" => number(counters.nodes_created),
        "nodesDeleted" => number(counters.nodes_deleted),
        "propertiesSet" => number(counters.properties_set),
        "relationshipsCreated" => number(counters.relationships_created),
        "relationshipsDeleted" => number(counters.relationships_deleted),
        "labelsAdded" => number(counters.labels_added),
        "labelsRemoved" => number(counters.labels_removed),
        "indexesAdded" => number(counters.indexes_added),
        "indexesRemoved" => number(counters.indexes_removed),
        "constraintsAdded" => number(counters.constraints_added),
        "constraintsRemoved" => number(counters.constraints_removed),
        "containsSystemUpdates" => false,
        "systemUpdates" => 0_i64,
    }
    .into()
}

/// All counters, under the names of the older interface.
pub(super) fn stats(result: &QueryResult) -> Value {
    let counters = result.counters();
    let number = |count: u64| Value::Int(i64::try_from(count).unwrap_or(i64::MAX));
    params! {
        "contains_updates" => !counters.is_empty(),
        "nodes_created" => number(counters.nodes_created),
        "nodes_deleted" => number(counters.nodes_deleted),
        "properties_set" => number(counters.properties_set),
        "relationships_created" => number(counters.relationships_created),
        "relationship_deleted" => number(counters.relationships_deleted),
        "labels_added" => number(counters.labels_added),
        "labels_removed" => number(counters.labels_removed),
        "indexes_added" => number(counters.indexes_added),
        "indexes_removed" => number(counters.indexes_removed),
        "constraints_added" => number(counters.constraints_added),
        "constraints_removed" => number(counters.constraints_removed),
        "contains_system_updates" => false,
        "system_updates" => 0_i64,
    }
    .into()
}

/// A value as JSON. Values are nested at most as deep as the language allows, so this may recurse.
pub(super) fn plain(value: &Value, database: DatabaseId) -> Value {
    match value {
        Value::List(items) => items.iter().map(|item| plain(item, database)).collect(),
        Value::Map(map) => json_values(map, database).into(),
        Value::Node(node) => {
            let content = node.content.clone().unwrap_or_default();
            let labels: Value = content.labels.iter().cloned().map(Value::String).collect();
            params! {
                "elementId" => node_id(node.id, database),
                "labels" => labels,
                "properties" => json_values(&content.properties, database),
            }
            .into()
        }
        Value::Relationship(relationship) => {
            let content = relationship.content.clone().unwrap_or_default();
            params! {
                "elementId" => relationship_id(relationship.id, database),
                "startNodeElementId" => node_id(relationship.source, database),
                "endNodeElementId" => node_id(relationship.target, database),
                "type" => Value::String(content.type_name.clone()),
                "properties" => json_values(&content.properties, database),
            }
            .into()
        }
        Value::Path(path) => {
            let mut parts = Vec::with_capacity(2 * path.nodes.len());
            for (at, node) in path.nodes.iter().enumerate() {
                parts.push(plain(&Value::Node(Arc::new(node.clone())), database));
                if let Some(relationship) = path.relationships.get(at) {
                    let relationship = Value::Relationship(Arc::new(relationship.clone()));
                    parts.push(plain(&relationship, database));
                }
            }
            parts.into()
        }
        Value::Bytes(bytes) => base64::encode_padded(bytes).into(),
        Value::Point(point) => well_known_text(point).into(),
        Value::Float(number) if !number.is_finite() => json_float(*number).into(),
        other => match temporal::to_text(other) {
            Some(text) => text.into(),
            None => other.clone(),
        },
    }
}

pub(super) fn json_values(map: &Map, database: DatabaseId) -> Map {
    let entries = map.iter();
    let plain = entries.map(|(name, value)| (name.clone(), plain(value, database)));
    Map::from_iter(plain)
}

pub(super) fn json_float(number: f64) -> &'static str {
    if number.is_nan() {
        "NaN"
    } else if number > 0.0 {
        "Infinity"
    } else {
        "-Infinity"
    }
}

pub(super) fn node_id(id: NodeId, database: DatabaseId) -> Value {
    element_id(Element::Node, id.0, database)
}

pub(super) fn relationship_id(id: RelId, database: DatabaseId) -> Value {
    element_id(Element::Relationship, id.0, database)
}

pub(super) fn element_id(element: Element, number: u64, database: DatabaseId) -> Value {
    database.element_id(element, number).as_str().into()
}

/// A point as `SRID=4326;POINT (x y)`.
pub(super) fn well_known_text(point: &Point) -> String {
    let Point { crs, x, y, z } = point;
    match crs {
        Crs::Cartesian3d | Crs::Wgs84Height => {
            format!("SRID={};POINT Z ({x:?} {y:?} {z:?})", crs.srid())
        }
        Crs::Cartesian | Crs::Wgs84 => format!("SRID={};POINT ({x:?} {y:?})", crs.srid()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_written_as_well_known_text() {
        let point = |crs| Point {
            crs,
            x: 1.0,
            y: 2.5,
            z: 3.0,
        };
        assert_eq!(
            well_known_text(&point(Crs::Wgs84)),
            "SRID=4326;POINT (1.0 2.5)"
        );
        assert_eq!(
            well_known_text(&point(Crs::Cartesian3d)),
            "SRID=9157;POINT Z (1.0 2.5 3.0)"
        );
    }
}
