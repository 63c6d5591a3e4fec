//! Neo4j's older HTTP interface, for clients that speak neither Bolt nor the Query API: several statements in one
//! transaction, which may stay open between requests.
//!
//! | request | does |
//! |---|---|
//! | `POST /db/{db}/tx/commit` | begins a transaction, runs statements, commits |
//! | `POST /db/{db}/tx` | begins a transaction and runs statements; it stays open |
//! | `POST /db/{db}/tx/{transaction}` | runs statements in it |
//! | `POST /db/{db}/tx/{transaction}/commit` | runs statements in it, commits |
//! | `DELETE /db/{db}/tx/{transaction}` | rolls it back |
//!
//! The body is `{"statements": [{"statement": …, "parameters": {…}, "resultDataContents": ["row", "graph"],
//! "includeStats": false}, …]}`. The answer is `{"results": [{"columns": […], "data": [{"row": […], "meta": […]}, …]},
//! …], "errors": [{"code": …, "message": …}]}`; its status is 200 or 201 even if a statement failed, which rolls the
//! transaction back. In a row, nodes and relationships are their properties and paths lists of them; `meta` has their
//! ids and kinds. `graph` has the nodes and relationships of a row, each once.

use std::{collections::HashSet, sync::Arc, time::Instant};

use axum::http::{StatusCode, header};
use isomer_db::{CancelHandle, ErrorKind, Map, Value, jiff::Timestamp, params};
use isomer_value::{DatabaseId, Element, Node, Relationship};

use super::{
    call::{Call, Fields, StopOnDrop, wrong},
    query_api::{admit, element_id, failure_value, json_values, stats},
    reply::Reply,
};
use crate::{
    Result, ServerError,
    access::{DatabaseAccess, Role, Session},
    bolt, clock,
    core::Core,
    open::OpenTransaction,
    slow,
};

/// Most statements in a request.
const MAX_STATEMENTS: usize = 10_000;

/// What happens to the transaction after the statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Completion {
    KeepOpen,
    Commit,
}

/// `POST /db/{db}/tx/commit`
pub async fn run_and_commit(call: Call) -> Result<Reply> {
    transact(call, Completion::Commit).await
}

/// `POST /db/{db}/tx`, `POST /db/{db}/tx/{transaction}`
pub async fn run(call: Call) -> Result<Reply> {
    transact(call, Completion::KeepOpen).await
}

/// `DELETE /db/{db}/tx/{transaction}`
pub async fn rollback(mut call: Call) -> Result<Reply> {
    let outcome = async {
        let session = admit(&mut call).await?;
        let (core, access) = (call.core.clone(), opened(&call, session)?);
        core.clone()
            .blocking(move || {
                if let Some(open) = access.open() {
                    core.open.rollback(open)?;
                }
                answer(StatusCode::OK, Vec::new(), None, Map::new())
            })
            .await
    };
    outcome.await.or_else(|error| refused(&error))
}

/// A request that was refused as a whole.
fn refused(error: &ServerError) -> Result<Reply> {
    let status = super::reply::status(error);
    let reply = answer(status, Vec::new(), Some(error), Map::new())?;
    Ok(match status {
        StatusCode::UNAUTHORIZED => {
            reply.with(header::WWW_AUTHENTICATE, "Basic realm=\"IsomerDB\"")
        }
        _ => reply,
    })
}

fn answer(
    status: StatusCode,
    results: Vec<Value>,
    error: Option<&ServerError>,
    more: Map,
) -> Result<Reply> {
    let errors: Vec<Value> = error.map(failure_value).into_iter().collect();
    let mut body = params! { "results" => results, "errors" => errors };
    for (name, value) in more {
        body.insert(name, value);
    }
    Reply::value_with(status, &body.into())
}

/// Access to the database of the path, in the transaction of the path if it names one.
fn opened(call: &Call, session: Session) -> Result<DatabaseAccess> {
    let name = call
        .core
        .resolve(call.path_param("db"), session.principal());
    let has_transaction = call.route.path.contains("{transaction}");
    let open = match has_transaction {
        true => Some(call.core.open.get(call.path_param("transaction"))?),
        false => None,
    };
    session.database(&name, Role::Reader, open)
}

async fn transact(mut call: Call, completion: Completion) -> Result<Reply> {
    let outcome = async {
        let session = admit(&mut call).await?;
        let statements = read(&mut call).await?;
        let access = opened(&call, session)?;
        let cancel = CancelHandle::new();
        // The client has disconnected if this is dropped before the end.
        let _stop = StopOnDrop::new(&cancel);
        let work = Work {
            core: call.core.clone(),
            address: format!(
                "{}://{}{}",
                if call.over_tls { "https" } else { "http" },
                call.header(header::HOST)?.unwrap_or_default(),
                call.target.trim_end_matches('/')
            ),
            details: call.audit_details.clone(),
            statements,
            cancel,
            completion,
        };
        call.core.blocking(move || work.run(access)).await
    };
    outcome.await.or_else(|error| refused(&error))
}

// ---- requests -------------------------------------------------------------------------------------------------------

/// A statement of a request.
struct Statement {
    text: String,
    parameters: Map,
    has_row: bool,
    has_graph: bool,
    has_stats: bool,
}

async fn read(call: &mut Call) -> Result<Vec<Statement>> {
    let mut fields = call.optional_fields(&["statements"]).await?;
    let statements = match fields.take("statements") {
        None => return Ok(Vec::new()),
        Some(Value::List(statements)) => Arc::unwrap_or_clone(statements),
        Some(other) => return Err(wrong("statements", "a list", &other)),
    };
    if statements.len() > MAX_STATEMENTS {
        return Err(ServerError::TooLarge(format!(
            "{} statements in one request, the limit is {MAX_STATEMENTS}: use a list as a parameter and UNWIND",
            statements.len()
        )));
    }
    let read = |statement| match statement {
        Value::Map(map) => read_statement(Fields::of(Arc::unwrap_or_clone(map))),
        other => Err(wrong("statements", "a list of objects", &other)),
    };
    statements.into_iter().map(read).collect()
}

fn read_statement(mut fields: Fields) -> Result<Statement> {
    let mut contents = fields.texts("resultDataContents")?;
    contents
        .iter_mut()
        .for_each(|content| content.make_ascii_lowercase());
    if let Some(other) = contents
        .iter()
        .find(|one| !["row", "graph"].contains(&one.as_str()))
    {
        return Err(ServerError::Invalid(format!(
            "invalid entry `{other}` of `resultDataContents`: expected row or graph"
        )));
    }
    let has = |name: &str| contents.iter().any(|one| one == name);
    Ok(Statement {
        text: fields.needed_text("statement")?,
        parameters: fields.map("parameters")?.unwrap_or_default(),
        has_row: contents.is_empty() || has("row"),
        has_graph: has("graph"),
        has_stats: fields.switch("includeStats")?,
    })
}

// ---- work -----------------------------------------------------------------------------------------------------------

/// An admitted request.
struct Work {
    core: Arc<Core>,
    /// The address of the request.
    address: String,
    details: Arc<parking_lot::Mutex<crate::audit::AuditDetails>>,
    statements: Vec<Statement>,
    cancel: CancelHandle,
    completion: Completion,
}

impl Work {
    /// Runs the request; one that begins and commits its transaction runs again if it loses a race: nothing was sent.
    fn run(self, access: DatabaseAccess) -> Result<Reply> {
        if access.open().is_some() || self.completion == Completion::KeepOpen {
            return self.attempt(access).1;
        }
        let outcome = access.repeat(|access| self.attempt(access));
        outcome.or_else(|error| match error.kind() == ErrorKind::Retry.name() {
            true => answer(StatusCode::OK, Vec::new(), Some(&error), Map::new()),
            false => Err(error),
        })
    }

    /// Runs the request once. A lost race is an error if it can run again.
    fn attempt(&self, mut access: DatabaseAccess) -> (DatabaseAccess, Result<Reply>) {
        let is_new = access.open().is_none();
        if is_new {
            let begun = access.begin(false).and_then(|transaction| {
                let (user, name) = (&access.principal().name, access.name());
                self.core.open.add(user, name, transaction)
            });
            match begun {
                Ok(open) => access = access.within(open),
                Err(error) => return (access, Err(error)),
            }
        }
        let reply = self.statements(&mut access, is_new);
        (access.outside(), reply)
    }

    fn statements(&self, access: &mut DatabaseAccess, is_new: bool) -> Result<Reply> {
        let Some(open) = access.open().cloned() else {
            return Err(crate::open::no_transaction());
        };
        let mut results = Vec::with_capacity(self.statements.len());
        let mut error = None;
        for statement in &self.statements {
            match self.run_one(access, statement) {
                Ok(result) => results.push(result),
                Err(failed) => {
                    error = Some(failed);
                    break;
                }
            }
        }
        let mut more = Map::new();
        if error.is_none() && self.completion == Completion::Commit {
            match access.commit(&self.core.open) {
                Ok(version) => {
                    let bookmark = bolt::bookmark(access.name(), version);
                    more.insert("lastBookmarks", vec![Value::from(bookmark)].into());
                }
                Err(failed) => error = Some(failed),
            }
        }
        if error.is_some() {
            // A commit that failed has ended the transaction.
            let _ = self.core.open.rollback(&open);
        }
        let can_repeat = is_new && self.completion == Completion::Commit;
        if can_repeat
            && let Some(lost) = error.take_if(|error| error.kind() == ErrorKind::Retry.name())
        {
            return Err(lost);
        }
        let stays = error.is_none() && self.completion == Completion::KeepOpen;
        let location = match is_new {
            true => format!("{}/{}", self.address, open.id()),
            false => self.address.clone(),
        };
        if stays {
            more.insert("commit", format!("{location}/commit").into());
            more.insert("transaction", params! { "expires" => expiry(&open) }.into());
        }
        let status = match stays && is_new {
            true => StatusCode::CREATED,
            false => StatusCode::OK,
        };
        let reply = answer(status, results, error.as_ref(), more)?;
        Ok(match status {
            StatusCode::CREATED => reply.with(header::LOCATION, location),
            _ => reply,
        })
    }

    fn run_one(&self, access: &mut DatabaseAccess, statement: &Statement) -> Result<Value> {
        let began = Instant::now();
        let options = access.query_options()?.cancel(self.cancel.clone());
        let result = access.query(&statement.text, &statement.parameters, &options);
        let failed = result.as_ref().err().map(ServerError::kind);
        slow::log(&self.core, access, &statement.text, began.elapsed(), failed);
        let result = result?;
        let mut details = self.details.lock();
        details.class = details.class.max(Some(result.class()));
        drop(details);
        let database = access.identity()?;
        let columns: Value = result
            .columns()
            .iter()
            .cloned()
            .map(Value::String)
            .collect();
        let data: Value = result
            .rows()
            .iter()
            .map(|row| Value::from(row_data(statement, row.values(), database)))
            .collect();
        let mut body = params! { "columns" => columns, "data" => data };
        if statement.has_stats {
            body.insert("stats", stats(&result));
        }
        Ok(body.into())
    }
}

/// When a transaction ends unless it is used, as in the header `Expires`.
fn expiry(open: &OpenTransaction) -> String {
    let ends_in_ms = i64::try_from(open.ends_in().as_millis()).unwrap_or(i64::MAX);
    let now_ms = i64::try_from(clock::now_ms()).unwrap_or(i64::MAX);
    let end =
        Timestamp::from_millisecond(now_ms.saturating_add(ends_in_ms)).unwrap_or(Timestamp::MAX);
    end.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}

// ---- rows -----------------------------------------------------------------------------------------------------------

fn row_data(statement: &Statement, values: &[Value], database: DatabaseId) -> Map {
    let mut data = Map::new();
    if statement.has_row {
        let row: Value = values.iter().map(|value| bare(value, database)).collect();
        let mut meta = Vec::with_capacity(values.len());
        values
            .iter()
            .for_each(|value| describe(value, database, &mut meta));
        data.insert("row", row);
        data.insert("meta", meta.into());
    }
    if statement.has_graph {
        let mut graph = Graph::new(database);
        values.iter().for_each(|value| graph.add(value));
        let Graph {
            nodes,
            relationships,
            ..
        } = graph;
        let graph = params! { "nodes" => nodes, "relationships" => relationships };
        data.insert("graph", graph.into());
    }
    data
}

/// A value without ids: nodes and relationships are their properties. Values are nested at most as deep as the language
/// allows, so this may recurse.
fn bare(value: &Value, database: DatabaseId) -> Value {
    match value {
        Value::Node(node) => {
            let content = node.content.clone().unwrap_or_default();
            json_values(&content.properties, database).into()
        }
        Value::Relationship(relationship) => {
            let content = relationship.content.clone().unwrap_or_default();
            json_values(&content.properties, database).into()
        }
        Value::Path(path) => {
            let mut parts = Vec::with_capacity(2 * path.nodes.len());
            for (at, node) in path.nodes.iter().enumerate() {
                parts.push(bare(&Value::Node(Arc::new(node.clone())), database));
                if let Some(relationship) = path.relationships.get(at) {
                    let relationship = Value::Relationship(Arc::new(relationship.clone()));
                    parts.push(bare(&relationship, database));
                }
            }
            parts.into()
        }
        Value::List(items) => items.iter().map(|item| bare(item, database)).collect(),
        Value::Map(map) => {
            let entries = map.iter();
            let bare = entries.map(|(name, value)| (name.clone(), bare(value, database)));
            Map::from_iter(bare).into()
        }
        Value::Point(point) => {
            let z = point.crs.has_z().then_some(point.z);
            let coordinates: Vec<Value> = [Some(point.x), Some(point.y), z]
                .into_iter()
                .flatten()
                .map(Value::Float)
                .collect();
            let crs = params! { "srid" => point.crs.srid(), "name" => point.crs.name(), "type" => "link" };
            params! { "type" => "Point", "coordinates" => coordinates, "crs" => crs }.into()
        }
        other => super::query_api::plain(other, database),
    }
}

/// Appends ids and kinds of the entities of a value: those of a list one by one, null for any other value.
fn describe(value: &Value, database: DatabaseId, meta: &mut Vec<Value>) {
    let entity = |kind: &str, element, id: u64| -> Value {
        params! {
            "id" => i64::try_from(id).unwrap_or(i64::MAX),
            "elementId" => element_id(element, id, database),
            "type" => kind,
            "deleted" => false,
        }
        .into()
    };
    match value {
        Value::Node(node) => meta.push(entity("node", Element::Node, node.id.0)),
        Value::Relationship(relationship) => {
            meta.push(entity(
                "relationship",
                Element::Relationship,
                relationship.id.0,
            ));
        }
        Value::Path(path) => {
            let mut parts = Vec::with_capacity(2 * path.nodes.len());
            for (at, node) in path.nodes.iter().enumerate() {
                parts.push(entity("node", Element::Node, node.id.0));
                if let Some(relationship) = path.relationships.get(at) {
                    parts.push(entity(
                        "relationship",
                        Element::Relationship,
                        relationship.id.0,
                    ));
                }
            }
            meta.push(parts.into());
        }
        Value::List(items) if items.iter().any(is_entity) => {
            items.iter().for_each(|item| describe(item, database, meta));
        }
        _ => meta.push(Value::Null),
    }
}

fn is_entity(value: &Value) -> bool {
    matches!(
        value,
        Value::Node(_) | Value::Relationship(_) | Value::Path(_)
    )
}

/// The nodes and relationships of a row, each once.
struct Graph {
    database: DatabaseId,
    seen: HashSet<(Element, u64)>,
    nodes: Vec<Value>,
    relationships: Vec<Value>,
}

impl Graph {
    fn new(database: DatabaseId) -> Self {
        Self {
            database,
            seen: HashSet::new(),
            nodes: Vec::new(),
            relationships: Vec::new(),
        }
    }

    fn add(&mut self, value: &Value) {
        match value {
            Value::Node(node) => self.add_node(node),
            Value::Relationship(relationship) => self.add_relationship(relationship),
            Value::Path(path) => {
                path.nodes.iter().for_each(|node| self.add_node(node));
                path.relationships
                    .iter()
                    .for_each(|one| self.add_relationship(one));
            }
            Value::List(items) => items.iter().for_each(|item| self.add(item)),
            Value::Map(map) => map.iter().for_each(|(_, value)| self.add(value)),
            _ => {}
        }
    }

    fn add_node(&mut self, node: &Node) {
        if !self.seen.insert((Element::Node, node.id.0)) {
            return;
        }
        let content = node.content.clone().unwrap_or_default();
        let labels: Value = content.labels.iter().cloned().map(Value::String).collect();
        let node = params! {
            "id" => node.id.0.to_string(),
            "elementId" => element_id(Element::Node, node.id.0, self.database),
            "labels" => labels,
            "properties" => json_values(&content.properties, self.database),
        };
        self.nodes.push(node.into());
    }

    fn add_relationship(&mut self, relationship: &Relationship) {
        if !self.seen.insert((Element::Relationship, relationship.id.0)) {
            return;
        }
        let content = relationship.content.clone().unwrap_or_default();
        let node = |id| element_id(Element::Node, id, self.database);
        let (source, target) = (relationship.source.0, relationship.target.0);
        let relationship = params! {
            "id" => relationship.id.0.to_string(),
            "elementId" => element_id(Element::Relationship, relationship.id.0, self.database),
            "type" => Value::String(content.type_name.clone()),
            "startNode" => source.to_string(),
            "startNodeElementId" => node(source),
            "endNode" => target.to_string(),
            "endNodeElementId" => node(target),
            "properties" => json_values(&content.properties, self.database),
        };
        self.relationships.push(relationship.into());
    }
}
