//! Functions on nodes, relationships, paths and maps.

use std::sync::Arc;

use isomer_data::Direction;
use isomer_plan::function::Function as Builtin;
use isomer_value::{Element, Map, Node, NodeId, Value, key};

use super::{
    body::{Function, lenient, list, node, strict, string, text, wrong},
    environment::Environment,
};
use crate::error::{ErrorClass, ExecError, Result, not_a_list, shown};

pub(super) fn find(function: Builtin) -> Option<Function> {
    match function {
        Builtin::Id => strict(|args, _| Ok(Value::Int(entity_id("id", &args[0])? as i64))),
        Builtin::ElementId => strict(|args, env| {
            let (element, id) = element_of("elementId", &args[0])?;
            Ok(string(env.database().element_id(element, id).as_str()))
        }),
        Builtin::NodeIdOf => strict(|args, env| Ok(number_of(Element::Node, &args[0], env))),
        Builtin::NodeIdsOf => strict(|args, env| numbers_of(Element::Node, &args[0], env)),
        Builtin::RelationshipIdOf => {
            strict(|args, env| Ok(number_of(Element::Relationship, &args[0], env)))
        }
        Builtin::RelationshipIdsOf => {
            strict(|args, env| numbers_of(Element::Relationship, &args[0], env))
        }
        Builtin::ElementIdLike => strict(|args, env| element_id_like(&args[0], &args[1], env)),
        Builtin::ElementIdsLike => strict(element_ids_like),
        Builtin::Labels => strict(labels),
        Builtin::HasAllNames => lenient(|args, _| has_names(args, false)),
        Builtin::HasAnyName => lenient(|args, _| has_names(args, true)),
        Builtin::Type => strict(relationship_type),
        Builtin::Keys => strict(keys),
        Builtin::Properties => strict(|args, env| {
            Ok(Value::Map(Arc::new(properties(
                "properties",
                &args[0],
                env,
            )?)))
        }),
        Builtin::Nodes => strict(nodes),
        Builtin::IsAcyclic => strict(|args, _| repeats_no_node("isAcyclic", &args[0], false)),
        Builtin::IsSimple => strict(|args, _| repeats_no_node("isSimple", &args[0], true)),
        Builtin::Relationships => strict(relationships),
        Builtin::StartNode => strict(|args, _| endpoint("startNode", &args[0], true)),
        Builtin::EndNode => strict(|args, _| endpoint("endNode", &args[0], false)),
        Builtin::Degree => strict(degree),
        Builtin::KvGet => strict(|args, env| env.bucket_get(text("kv.get", &args[0])?, &args[1])),
        Builtin::KvExists => strict(|args, env| {
            Ok(Value::Bool(
                !env.bucket_get(text("kv.exists", &args[0])?, &args[1])?
                    .is_null(),
            ))
        }),
        Builtin::KvKey => strict(|args, _| bucket_key(&args[0])),
        Builtin::KvKeyParts => strict(|args, _| bucket_key_parts(&args[0])),
        _ => None,
    }
}

/// Labels or types that a statement computes: a text, or a list of texts. Fails for anything else, also for null.
pub(crate) fn computed_names(value: &Value) -> Result<Vec<Arc<str>>> {
    let name = |value: &Value| match value {
        Value::String(name) if name.is_empty() => Err(ExecError::raised(
            ErrorClass::ArgumentError,
            "InvalidArgumentValue",
            "a label or type has a name, and the computed one is empty",
        )),
        Value::String(name) => Ok(name.clone()),
        other => Err(ExecError::type_error(format!(
            "a computed label or type is a text or a list of texts, not {}",
            shown(other)
        ))),
    };
    match value {
        Value::List(names) => names.iter().map(name).collect(),
        one => Ok(vec![name(one)?]),
    }
}

/// Whether the first argument (the labels of a node, or the type of a relationship) has all the computed names, or any.
/// Null if it is null.
fn has_names(args: &[Value], any: bool) -> Result<Value> {
    let names = computed_names(&args[1])?;
    let has = |name: &Arc<str>| match &args[0] {
        Value::List(carried) => carried.iter().any(|one| one.as_str() == Some(&**name)),
        one => one.as_str() == Some(&**name),
    };
    if args[0].is_null() {
        return Ok(Value::Null);
    }
    Ok(Value::Bool(match any {
        true => names.iter().any(has),
        false => names.iter().all(has),
    }))
}

/// `kv.key(parts)`: bytes that sort as the parts do, one after the other.
fn bucket_key(parts: &Value) -> Result<Value> {
    let bytes = match parts {
        Value::List(parts) => key::encode_all(parts.iter())?,
        part => key::encode(part)?,
    };
    Ok(Value::Bytes(bytes.into()))
}

/// `kv.keyParts(key)`. A scan returns a key as a string if its bytes are valid text.
fn bucket_key_parts(encoded: &Value) -> Result<Value> {
    let bytes = match encoded {
        Value::Bytes(bytes) => bytes,
        Value::String(text) => text.as_bytes(),
        other => return Err(wrong("kv.keyParts", "a key of a bucket", other)),
    };
    match key::decode_all(bytes) {
        Ok(parts) => Ok(parts.into_iter().collect()),
        Err(_) => Err(wrong("kv.keyParts", "a key that kv.key() made", encoded)),
    }
}

/// `degree(n)`, `degree(n, 'T')`, `degree(n, ['T', 'U'], 'OUTGOING')`.
fn degree(args: &[Value], env: &dyn Environment) -> Result<Value> {
    let node = node("degree", &args[0])?;
    let types = match args.get(1) {
        None => Vec::new(),
        Some(Value::String(name)) => vec![name.clone()],
        Some(Value::List(names)) => names
            .iter()
            .map(|name| text("degree", name).cloned())
            .collect::<Result<_>>()?,
        Some(other) => {
            return Err(wrong(
                "degree",
                "a relationship type or a list of them",
                other,
            ));
        }
    };
    let direction = match args.get(2) {
        None => Direction::Both,
        Some(word) => match text("degree", word)?.to_ascii_uppercase().as_str() {
            "OUTGOING" | "OUT" => Direction::Outgoing,
            "INCOMING" | "IN" => Direction::Incoming,
            "BOTH" => Direction::Both,
            other => {
                return Err(ExecError::out_of_range(format!(
                    "degree() does not know the direction '{other}': use OUTGOING, INCOMING or BOTH"
                )));
            }
        },
    };
    Ok(Value::Int(
        i64::try_from(env.degree(node.id, &types, direction)?).unwrap_or(i64::MAX),
    ))
}

fn entity_id(function: &str, value: &Value) -> Result<u64> {
    element_of(function, value).map(|(_, id)| id)
}

fn element_of(function: &str, value: &Value) -> Result<(Element, u64)> {
    match value {
        Value::Node(node) => Ok((Element::Node, node.id.0)),
        Value::Relationship(relationship) => Ok((Element::Relationship, relationship.id.0)),
        other => Err(wrong(function, "a node or relationship", other)),
    }
}

/// A number that no node and no relationship has.
const NO_ID: Value = Value::Int(-1);

/// The number in an element id, to be compared with `id()`; [`NO_ID`] if it names nothing of this kind in this
/// database.
fn number_of(element: Element, id: &Value, env: &dyn Environment) -> Value {
    match id {
        Value::Null => Value::Null,
        Value::String(text) => env
            .database()
            .number_of(element, text)
            .and_then(|number| i64::try_from(number).ok())
            .map_or(NO_ID, Value::Int),
        _ => NO_ID,
    }
}

/// The numbers in a list of element ids.
fn numbers_of(element: Element, ids: &Value, env: &dyn Environment) -> Result<Value> {
    let Value::List(ids) = ids else {
        return Err(not_a_list(ids));
    };
    env.converted(ids, element, &|ids| {
        list(ids.iter().map(|id| number_of(element, id, env)).collect())
    })
}

/// `elementIdLike(x, id)`: the element id of `x` if `id` is its plain number, else `id` unchanged.
fn element_id_like(entity: &Value, id: &Value, env: &dyn Environment) -> Result<Value> {
    let (element, own) = element_of("elementId", entity)?;
    Ok(match id {
        Value::String(text) if env.database().number_of(element, text) == Some(own) => {
            string(env.database().element_id(element, own).as_str())
        }
        other => other.clone(),
    })
}

/// `elementIdsLike(x, ids)`: the same for each element of a list.
fn element_ids_like(args: &[Value], env: &dyn Environment) -> Result<Value> {
    let Value::List(ids) = &args[1] else {
        return Err(not_a_list(&args[1]));
    };
    let like = |id| element_id_like(&args[0], id, env);
    Ok(list(ids.iter().map(like).collect::<Result<_>>()?))
}

fn labels(args: &[Value], env: &dyn Environment) -> Result<Value> {
    let node = node("labels", &args[0])?;
    Ok(list(
        env.node_labels(node.id)?
            .into_iter()
            .map(Value::String)
            .collect(),
    ))
}

fn relationship_type(args: &[Value], env: &dyn Environment) -> Result<Value> {
    match &args[0] {
        Value::Relationship(relationship) => {
            Ok(Value::String(env.type_name(relationship.type_id)?))
        }
        other => Err(wrong("type", "a relationship", other)),
    }
}

fn properties(function: &str, value: &Value, env: &dyn Environment) -> Result<Map> {
    match value {
        Value::Node(node) => env.node_properties(node.id),
        Value::Relationship(relationship) => env.relationship_properties(relationship),
        Value::Map(map) => Ok(Map::clone(map)),
        other => Err(wrong(function, "a node, relationship or map", other)),
    }
}

fn keys(args: &[Value], env: &dyn Environment) -> Result<Value> {
    if let Value::Map(map) = &args[0] {
        return Ok(list(
            map.iter()
                .map(|(name, _)| Value::String(name.clone()))
                .collect(),
        ));
    }
    let map = properties("keys", &args[0], env)?;
    Ok(list(
        map.iter()
            .map(|(name, _)| Value::String(name.clone()))
            .collect(),
    ))
}

fn nodes(args: &[Value], _: &dyn Environment) -> Result<Value> {
    match &args[0] {
        Value::Path(path) => Ok(list(
            path.nodes
                .iter()
                .map(|node| Value::Node(Arc::new(node.clone())))
                .collect(),
        )),
        other => Err(wrong("nodes", "a path", other)),
    }
}

/// Whether no node occurs twice in a path; with `may_close`, the last one may be the first.
fn repeats_no_node(function: &str, path: &Value, may_close: bool) -> Result<Value> {
    let Value::Path(path) = path else {
        return Err(wrong(function, "a path", path));
    };
    let nodes = match path.nodes.as_slice() {
        [first, between @ .., last] if may_close && first.id == last.id => {
            let mut open = Vec::with_capacity(between.len() + 1);
            open.extend(between.iter().chain([first]).map(|node| node.id));
            open
        }
        nodes => nodes.iter().map(|node| node.id).collect(),
    };
    let mut sorted = nodes;
    sorted.sort_unstable();
    Ok(Value::Bool(
        sorted.windows(2).all(|pair| pair[0] != pair[1]),
    ))
}

fn relationships(args: &[Value], _: &dyn Environment) -> Result<Value> {
    match &args[0] {
        Value::Path(path) => Ok(list(
            path.relationships
                .iter()
                .map(|relationship| Value::Relationship(Arc::new(relationship.clone())))
                .collect(),
        )),
        other => Err(wrong("relationships", "a path", other)),
    }
}

fn endpoint(function: &str, value: &Value, source: bool) -> Result<Value> {
    match value {
        Value::Relationship(relationship) => Ok(node_value(if source {
            relationship.source
        } else {
            relationship.target
        })),
        other => Err(wrong(function, "a relationship", other)),
    }
}

/// A node of which only the id is loaded.
pub(crate) fn node_value(id: NodeId) -> Value {
    Value::Node(Arc::new(Node { id, content: None }))
}
