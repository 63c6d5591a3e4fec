//! Nodes and relationships by their ids.

use axum::http::StatusCode;
use isomer_db::{
    Map, Node, Query, ReadTransaction, Relationship, Value, WriteTransaction,
    internals::{
        TransactionInternals as _,
        data::{DataError, Direction, GraphRead},
    },
    json, params,
};
use isomer_value::{NodeId, RelId};

use super::{
    call::{Call, StopOnDrop},
    data::{conditions, identifying, read, write},
    once::Answer,
    page::Page,
    query::typed_value,
    reply::{Conditions, JSON, Reply, etag, etag_of},
};
use crate::{
    Result, ServerError,
    access::{DatabaseAccess, Role},
};

fn no_node(id: u64) -> ServerError {
    ServerError::NotFound(format!("no node {id}"))
}

fn no_relationship(id: u64) -> ServerError {
    ServerError::NotFound(format!("no relationship {id}"))
}

fn node(tx: &ReadTransaction, id: u64) -> Result<Node> {
    let mut contents = Vec::new();
    tx.data_ref().node_contents(&[NodeId(id)], &mut contents)?;
    let content = contents.pop().flatten().ok_or_else(|| no_node(id))?;
    Ok(Node {
        id: NodeId(id),
        content: Some(content),
    })
}

fn relationship(tx: &ReadTransaction, id: u64) -> Result<Relationship> {
    let (mut rows, mut contents) = (Vec::new(), Vec::new());
    tx.data_ref().relationship_rows(&[RelId(id)], &mut rows)?;
    tx.data_ref()
        .relationship_contents(&[RelId(id)], &mut contents)?;
    match (rows.pop().flatten(), contents.pop().flatten()) {
        (Some(row), Some(content)) => Ok(Relationship {
            id: row.id,
            type_id: row.type_id,
            source: row.source,
            target: row.target,
            content: Some(content),
        }),
        _ => Err(no_relationship(id)),
    }
}

fn node_value(node: Node) -> Value {
    Value::Node(std::sync::Arc::new(node))
}

fn relationship_value(relationship: Relationship) -> Value {
    Value::Relationship(std::sync::Arc::new(relationship))
}

/// A value with its ETag; only the ETag if the client has the value.
fn tagged(value: &Value, conditions: Option<&Conditions>) -> Result<Reply> {
    let text = json::to_string(value)?;
    let tag = etag_of(text.as_bytes());
    if conditions.is_some_and(|conditions| conditions.is_known(&tag)) {
        return Ok(Reply::empty(StatusCode::NOT_MODIFIED).with_etag(&tag));
    }
    Ok(Reply::whole(StatusCode::OK, JSON, text).with_etag(&tag))
}

/// A changed value, with its new ETag.
fn changed(value: &Value) -> Result<Answer> {
    let text = json::to_string(value)?;
    let tag = etag_of(text.as_bytes());
    Ok(Answer::of(StatusCode::OK).with_etag(tag).with_json(text))
}

/// Checks the preconditions of a change.
fn check(conditions: Option<&Conditions>, now: Option<&Value>) -> Result<()> {
    let Some(conditions) = conditions else {
        return Ok(());
    };
    conditions.check(now.map(etag).transpose()?.as_deref())
}

fn typed(map: Map) -> Map {
    map.into_iter()
        .map(|(name, value)| (name, typed_value(value)))
        .collect()
}

/// `POST …/nodes`
pub async fn create_node(mut call: Call, access: DatabaseAccess) -> Result<Reply> {
    let mut fields = call.fields(&["labels", "properties"]).await?;
    let labels = fields.texts("labels")?;
    let properties = typed(fields.map("properties")?.unwrap_or_default());
    let body = identifying(&call, || {
        json::to_string(&properties.clone().into()).map(|text| format!("{labels:?} {text}"))
    })?;
    let path = call.target.clone();
    write(&call, access, Role::Editor, body.as_bytes(), move |tx| {
        let ids: Result<Vec<_>, DataError> = labels
            .iter()
            .map(|label| tx.data_ref().name_ids().intern_label(label))
            .collect();
        let id = tx.data().graph_mut().create_node(&ids?, &properties)?;
        let made = node_value(node(tx, id.0)?);
        let mut answer = Answer::of(StatusCode::CREATED).with_json(json::to_string(&made)?);
        answer.location = Some(format!("{path}/{id}"));
        Ok(answer)
    })
    .await
}

/// `GET …/nodes/{id}`
pub async fn get_node(call: Call, access: DatabaseAccess) -> Result<Reply> {
    let (id, conditions) = (call.path_number("id")?, conditions(&call)?);
    read(&call, access, move |tx| {
        tagged(&node_value(node(tx, id)?), conditions.as_ref())
    })
    .await
}

/// `PATCH …/nodes/{id}`
pub async fn patch_node(mut call: Call, access: DatabaseAccess) -> Result<Reply> {
    let properties = typed(call.object().await?);
    let id = call.path_number("id")?;
    let body = identifying(&call, || json::to_string(&properties.clone().into()))?;
    let (conditions, types) = (conditions(&call)?, call.types()?);
    write(&call, access, Role::Editor, body.as_bytes(), move |tx| {
        check(conditions.as_ref(), Some(&node_value(node(tx, id)?)))?;
        let properties = types.entries(&properties, || Entity::Node(id).properties(tx))?;
        tx.data()
            .graph_mut()
            .merge_node_properties(NodeId(id), &properties)?;
        changed(&node_value(node(tx, id)?))
    })
    .await
}

/// `DELETE …/nodes/{id}`
pub async fn delete_node(call: Call, access: DatabaseAccess) -> Result<Reply> {
    let (id, detach) = (call.path_number("id")?, call.switch("detach")?);
    let conditions = conditions(&call)?;
    write(&call, access, Role::Editor, b"", move |tx| {
        check(conditions.as_ref(), Some(&node_value(node(tx, id)?)))?;
        tx.data().graph_mut().delete_node(NodeId(id), detach)?;
        Ok(Answer::done())
    })
    .await
}

/// `PUT` and `DELETE …/nodes/{id}/labels/{label}`
pub async fn change_label(call: Call, access: DatabaseAccess) -> Result<Reply> {
    let (id, label) = (call.path_number("id")?, call.path_param("label").to_owned());
    let (add, conditions) = (call.route.method == "PUT", conditions(&call)?);
    write(&call, access, Role::Editor, b"", move |tx| {
        check(conditions.as_ref(), Some(&node_value(node(tx, id)?)))?;
        let label = tx.data_ref().name_ids().intern_label(&label)?;
        if add {
            tx.data().graph_mut().add_label(NodeId(id), label)?;
        } else {
            tx.data().graph_mut().remove_label(NodeId(id), label)?;
        }
        Ok(Answer::done())
    })
    .await
}

/// The owner of a property.
#[derive(Clone, Copy)]
enum Entity {
    Node(u64),
    Relationship(u64),
}

impl Entity {
    fn of(call: &Call) -> Result<Self> {
        let id = call.path_number("id")?;
        Ok(if call.route.path.contains("/nodes/") {
            Self::Node(id)
        } else {
            Self::Relationship(id)
        })
    }

    fn properties(self, tx: &ReadTransaction) -> Result<Map> {
        Ok(match self {
            Self::Node(id) => node(tx, id)?
                .content
                .map(|content| content.properties.clone()),
            Self::Relationship(id) => relationship(tx, id)?
                .content
                .map(|content| content.properties.clone()),
        }
        .unwrap_or_default())
    }

    fn set(self, tx: &WriteTransaction, name: &str, value: Value) -> Result<()> {
        Ok(match self {
            Self::Node(id) => tx
                .data()
                .graph_mut()
                .set_node_property(NodeId(id), &[name], value),
            Self::Relationship(id) => {
                tx.data()
                    .graph_mut()
                    .set_relationship_property(RelId(id), &[name], value)
            }
        }?)
    }
}

/// `GET …/properties`
pub async fn properties(call: Call, access: DatabaseAccess) -> Result<Reply> {
    let (entity, conditions) = (Entity::of(&call)?, conditions(&call)?);
    read(&call, access, move |tx| {
        tagged(&entity.properties(tx)?.into(), conditions.as_ref())
    })
    .await
}

/// `GET …/properties/{name}`
pub async fn get_property(call: Call, access: DatabaseAccess) -> Result<Reply> {
    let (entity, name) = (Entity::of(&call)?, call.path_param("name").to_owned());
    let conditions = conditions(&call)?;
    read(&call, access, move |tx| {
        match entity.properties(tx)?.get(&name) {
            Some(value) => tagged(value, conditions.as_ref()),
            None => Err(ServerError::NotFound(format!("no property `{name}`"))),
        }
    })
    .await
}

/// `PUT …/properties/{name}`
pub async fn put_property(mut call: Call, access: DatabaseAccess) -> Result<Reply> {
    let value = typed_value(call.json().await?);
    let body = identifying(&call, || json::to_string(&value))?;
    let (entity, name) = (Entity::of(&call)?, call.path_param("name").to_owned());
    let (conditions, types) = (conditions(&call)?, call.types()?);
    write(&call, access, Role::Editor, body.as_bytes(), move |tx| {
        let now = entity.properties(tx)?.get(&name).cloned();
        check(conditions.as_ref(), now.as_ref())?;
        entity.set(tx, &name, types.value(&value, || Ok(now))?)?;
        let new = entity.properties(tx)?;
        let tag = new.get(&name).map(etag).transpose()?;
        Ok(Answer {
            etag: tag,
            ..Answer::done()
        })
    })
    .await
}

/// `DELETE …/properties/{name}`
pub async fn delete_property(call: Call, access: DatabaseAccess) -> Result<Reply> {
    let (entity, name) = (Entity::of(&call)?, call.path_param("name").to_owned());
    let conditions = conditions(&call)?;
    write(&call, access, Role::Editor, b"", move |tx| {
        let properties = entity.properties(tx)?;
        check(conditions.as_ref(), properties.get(&name))?;
        if !properties.contains(&name) {
            return Err(ServerError::NotFound(format!("no property `{name}`")));
        }
        entity.set(tx, &name, Value::Null)?;
        Ok(Answer::done())
    })
    .await
}

fn direction(call: &Call) -> Result<Direction> {
    match call.param("direction") {
        None | Some("both") => Ok(Direction::Both),
        Some("out") => Ok(Direction::Outgoing),
        Some("in") => Ok(Direction::Incoming),
        Some(other) => Err(ServerError::Invalid(format!(
            "invalid `direction` `{other}`: expected in, out or both"
        ))),
    }
}

/// `GET …/nodes/{id}/degree`
pub async fn degree(call: Call, access: DatabaseAccess) -> Result<Reply> {
    let (id, direction, types) = (
        call.path_number("id")?,
        direction(&call)?,
        call.names("types"),
    );
    read(&call, access, move |tx| {
        node(tx, id)?;
        let known: Vec<_> = types
            .iter()
            .filter_map(|name| tx.data_ref().name_ids().find_type(name))
            .collect();
        let mut degrees = Vec::new();
        // If none of the requested types exists, the answer is zero: an empty list would mean all types.
        if types.is_empty() || !known.is_empty() {
            tx.data_ref()
                .degree(&[NodeId(id)], direction, &known, &mut degrees)?;
        }
        let degree = degrees.first().copied().unwrap_or_default();
        Reply::object(params! { "degree" => i64::try_from(degree).unwrap_or(i64::MAX) })
    })
    .await
}

/// `GET …/nodes/{id}/neighbours`
pub async fn neighbours(call: Call, mut access: DatabaseAccess) -> Result<Reply> {
    let (id, direction, limit) = (call.path_number("id")?, direction(&call)?, call.page()?);
    let skip: u64 = match call.param("cursor") {
        None => 0,
        Some(cursor) => cursor.parse().map_err(|_| {
            ServerError::Invalid("invalid cursor: use the one from an answer".into())
        })?,
    };
    let types: Vec<String> = call
        .names("types")
        .iter()
        .map(|name| format!("`{}`", name.replace('`', "``")))
        .collect();
    let types = if types.is_empty() {
        String::new()
    } else {
        format!(":{}", types.join("|"))
    };
    let (left, right) = match direction {
        Direction::Outgoing => ("-", "->"),
        Direction::Incoming => ("<-", "-"),
        Direction::Both => ("-", "-"),
    };
    let text = format!(
        "MATCH (n) WHERE id(n) = $id MATCH (n){left}[r{types}]{right}(m) RETURN r, m SKIP $skip LIMIT $limit"
    );
    let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let parameters =
        params! { "id" => number(id), "skip" => number(skip), "limit" => number(limit as u64) };
    let options = access.query_options()?;
    let stop = StopOnDrop::new(&options.cancel);
    let mut page = Page::new("neighbours", limit, call.core.config.limits.result_bytes);
    let reply = call
        .core
        .blocking(move || {
            access.read(|tx| {
                node(tx, id)?;
                let found = tx.query(Query::new(&text).params(&parameters).options(&options))?;
                let mut count = 0;
                for row in found.iter() {
                    let values = row.values();
                    let pair = params! { "relationship" => values[0].clone(), "node" => values[1].clone() };
                    if !page.push(&pair.into())? {
                        break;
                    }
                    count += 1;
                }
                let next = (page.room() == 0).then(|| (skip + count).to_string());
                page.finish(next)
            })
        })
        .await;
    drop(stop);
    reply
}

/// `POST …/relationships`
pub async fn create_relationship(mut call: Call, access: DatabaseAccess) -> Result<Reply> {
    let mut fields = call
        .fields(&["type", "source", "target", "properties"])
        .await?;
    let rel_type = fields.needed_text("type")?;
    let mut end = |name: &str| {
        fields
            .number(name)?
            .ok_or_else(|| ServerError::Invalid(format!("the field `{name}` is missing")))
    };
    let (source, target) = (end("source")?, end("target")?);
    let properties = typed(fields.map("properties")?.unwrap_or_default());
    let body = identifying(&call, || {
        json::to_string(&properties.clone().into())
            .map(|text| format!("{rel_type:?} {source} {target} {text}"))
    })?;
    let path = call.target.clone();
    write(&call, access, Role::Editor, body.as_bytes(), move |tx| {
        node(tx, source)?;
        node(tx, target)?;
        let type_id = tx.data().name_ids().intern_type(&rel_type)?;
        let id = tx.data().graph_mut().create_relationship(
            type_id,
            NodeId(source),
            NodeId(target),
            &properties,
        )?;
        let made = relationship_value(relationship(tx, id.0)?);
        let mut answer = Answer::of(StatusCode::CREATED).with_json(json::to_string(&made)?);
        answer.location = Some(format!("{path}/{id}"));
        Ok(answer)
    })
    .await
}

/// `GET …/relationships/{id}`
pub async fn get_relationship(call: Call, access: DatabaseAccess) -> Result<Reply> {
    let (id, conditions) = (call.path_number("id")?, conditions(&call)?);
    read(&call, access, move |tx| {
        let value = relationship_value(relationship(tx, id)?);
        tagged(&value, conditions.as_ref())
    })
    .await
}

/// `PATCH …/relationships/{id}`
pub async fn patch_relationship(mut call: Call, access: DatabaseAccess) -> Result<Reply> {
    let properties = typed(call.object().await?);
    let id = call.path_number("id")?;
    let body = identifying(&call, || json::to_string(&properties.clone().into()))?;
    let (conditions, types) = (conditions(&call)?, call.types()?);
    write(&call, access, Role::Editor, body.as_bytes(), move |tx| {
        let now = relationship_value(relationship(tx, id)?);
        check(conditions.as_ref(), Some(&now))?;
        let properties = types.entries(&properties, || Entity::Relationship(id).properties(tx))?;
        tx.data()
            .graph_mut()
            .merge_relationship_properties(RelId(id), &properties)?;
        changed(&relationship_value(relationship(tx, id)?))
    })
    .await
}

/// `DELETE …/relationships/{id}`
pub async fn delete_relationship(call: Call, access: DatabaseAccess) -> Result<Reply> {
    let (id, conditions) = (call.path_number("id")?, conditions(&call)?);
    write(&call, access, Role::Editor, b"", move |tx| {
        let now = relationship_value(relationship(tx, id)?);
        check(conditions.as_ref(), Some(&now))?;
        tx.data().graph_mut().delete_relationship(RelId(id))?;
        Ok(Answer::done())
    })
    .await
}

/// `GET …/relationship-types`
pub async fn types(call: Call, access: DatabaseAccess) -> Result<Reply> {
    read(&call, access, |tx| {
        let mut types: Vec<Value> = Vec::new();
        for (id, name) in tx.catalog().types() {
            let count = tx.data_ref().exact_relationship_count(Some(id))?;
            types.push(
                params! { "type" => Value::String(name), "relationships" => count as i64 }.into(),
            );
        }
        Reply::object(params! { "types" => types })
    })
    .await
}

/// `GET …/labels`
pub async fn labels(call: Call, access: DatabaseAccess) -> Result<Reply> {
    read(&call, access, |tx| {
        let mut labels: Vec<Value> = Vec::new();
        for (id, name) in tx.catalog().labels() {
            let count = tx.data_ref().exact_node_count(Some(id))?;
            labels.push(params! { "label" => Value::String(name), "nodes" => count as i64 }.into());
        }
        Reply::object(params! { "labels" => labels })
    })
    .await
}
