//! Convergent fields of documents: read with a context, changed by operations.
//!
//! A field is named by its path, names separated by dots (`profile.tags`); names with dots can be used only in the
//! language. A change is an object with one entry for its kind:
//!
//! | change | |
//! |---|---|
//! | `{"counter": 5}` | increments or decrements |
//! | `{"set": {"add": […], "remove": […]}}` | removes, then adds |
//! | `{"grow_set": […]}` | adds to a set that only grows |
//! | `{"register": VALUE}`, `{"multi_register": VALUE}` | assigns |
//! | `{"flag": true}` | enables or disables |
//! | `{"hll": {"add": […], "precision": 14}}` | adds values to a cardinality estimate |
//! | `{"map": {"update": {NAME: CHANGE}, "remove": [NAME]}}` | changes fields of a map |
//! | `{"remove": true}` | removes the field |

use std::ops::Bound;

use axum::http::StatusCode;
use isomer_db::{Context, ConvergentKind, FieldOrigins, Map, Update, Value, json, params};

use super::{
    base64,
    call::Call,
    data::{document_key, identifying, write},
    once::Answer,
    query::typed_value,
    reply::Reply,
};
use crate::{
    Result, ServerError,
    access::{DatabaseAccess, Role, password::hex},
};

/// The names on the path to a field.
fn path(text: &str) -> Result<Vec<String>> {
    let names: Vec<String> = text.split('.').map(str::to_owned).collect();
    if names.iter().any(String::is_empty) {
        return Err(ServerError::Invalid(format!(
            "invalid path of a field `{text}`: write names separated by dots"
        )));
    }
    Ok(names)
}

fn names(path: &[String]) -> Vec<&str> {
    path.iter().map(String::as_str).collect()
}

fn kind_name(kind: ConvergentKind) -> &'static str {
    match kind {
        ConvergentKind::Counter => "counter",
        ConvergentKind::Set => "set",
        ConvergentKind::GrowSet => "grow_set",
        ConvergentKind::Register => "register",
        ConvergentKind::MultiRegister => "multi_register",
        ConvergentKind::Flag => "flag",
        ConvergentKind::Sketch => "hll",
        ConvergentKind::Map => "map",
        other => other.name(),
    }
}

/// `GET …/collections/{label}/{key}/fields/{field}`
pub async fn fetch(call: Call, access: DatabaseAccess) -> Result<Reply> {
    let (label, key) = (
        call.path_param("label").to_owned(),
        document_key(&call, call.path_param("key"))?,
    );
    let path = path(call.path_param("field"))?;
    let parsed = |name: &str| {
        call.param(name)
            .map(|text| json::parse_bytes(text.as_bytes()).map(typed_value))
            .transpose()
    };
    let (contains, from) = (parsed("contains")?, parsed("from")?);
    let paged = call.param("limit").is_some() || from.is_some();
    let (limit, replicas) = (call.page()?, call.switch("replicas")?);
    let asked = [contains.is_some(), paged, replicas];
    if asked.iter().filter(|one| **one).count() > 1 {
        return Err(ServerError::Invalid(
            "`contains`, a page (`limit`, `from`) and `replicas` cannot be combined: send one per request".into(),
        ));
    }
    call.core
        .blocking(move || {
            access.read(|tx| {
                let collection = tx.collection(&label);
                let field = collection.field(key, &names(&path))?;
                let missing = || ServerError::NotFound("no such field".into());
                if let Some(element) = &contains {
                    let contains = field.contains(element)?.ok_or_else(missing)?;
                    return Reply::object(params! { "contains" => contains });
                }
                if paged {
                    // Elements in order; only those that are sent are read.
                    let from = from.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
                    let elements = field.elements((from, Bound::Unbounded))?;
                    let elements = elements.ok_or_else(missing)?.limit(limit);
                    let elements = elements.collect::<Result<Vec<Value>, _>>()?;
                    let size = field.size()?.unwrap_or_default();
                    return Reply::object(params! {
                        "elements" => elements,
                        "size" => i64::try_from(size).unwrap_or(i64::MAX),
                    });
                }
                if replicas {
                    let found = field.origins(MAX_ENTRIES)?.ok_or_else(missing)?;
                    return Reply::object(origins(&found));
                }
                let fetched = field.fetch()?;
                let kind = fetched.kind.ok_or_else(missing)?;
                let value = match fetched.value {
                    // The extreme integers also represent values beyond them.
                    Some(Value::Int(end @ (i64::MIN | i64::MAX)))
                        if kind == ConvergentKind::Counter =>
                    {
                        let found = field.origins(MAX_ENTRIES)?.ok_or_else(missing)?;
                        let sum = found
                            .replicas
                            .iter()
                            .map(|one| one.amount)
                            .fold(0, i128::saturating_add);
                        Some(if found.is_complete {
                            whole(sum)
                        } else {
                            Value::Int(end)
                        })
                    }
                    value => value,
                };
                Reply::object(params! {
                    "kind" => kind_name(kind),
                    "value" => value,
                    "context" => base64::encode(fetched.context.as_bytes()),
                })
            })
        })
        .await
}

/// Most entries read for finding out which replicas contributed to a value.
const MAX_ENTRIES: usize = 100_000;

/// A number as an integer, or as text if it exceeds 64 bits.
fn whole(number: i128) -> Value {
    match i64::try_from(number) {
        Ok(number) => Value::Int(number),
        Err(_) => number.to_string().into(),
    }
}

/// Replicas by name, with the contribution of each.
fn origins(found: &FieldOrigins) -> Map {
    let all: Vec<Value> = found
        .replicas
        .iter()
        .map(|one| {
            let name = one.replica.map(|replica| match replica.epoch {
                0 => hex(&replica.id),
                epoch => format!("{}.{epoch}", hex(&replica.id)),
            });
            let mut about = params! {
                "own" => one.own,
                "entries" => whole(one.entries.into()),
                "amount" => whole(one.amount),
            };
            if let Some(name) = name {
                about.insert("replica", name.into());
            }
            about.into()
        })
        .collect();
    params! { "replicas" => all, "complete" => found.is_complete }
}

/// `POST …/collections/{label}/{key}/fields/{field}`
pub async fn update(mut call: Call, access: DatabaseAccess) -> Result<Reply> {
    let mut fields = call.fields(&["update", "context"]).await?;
    let change = fields
        .map("update")?
        .ok_or_else(|| ServerError::Invalid("the field `update` is missing".into()))?;
    let text = identifying(&call, || json::to_string(&change.clone().into()))?;
    let update = update_of(change, 0)?;
    let context = match fields.text("context")? {
        None => None,
        Some(text) => Some(Context::from(base64::decode(&text).ok_or_else(|| {
            ServerError::Invalid("invalid context: send one that this server returned".into())
        })?)),
    };
    let (label, key) = (
        call.path_param("label").to_owned(),
        document_key(&call, call.path_param("key"))?,
    );
    let path = path(call.path_param("field"))?;
    write(&call, access, Role::Editor, text.as_bytes(), move |tx| {
        let collection = tx.collection(&label);
        let field = collection.field(key.clone(), &names(&path))?;
        let field = field.with_context(context.clone());
        field.update(&update)?;
        let fetched = field.fetch()?;
        let body = params! {
            "kind" => fetched.kind.map(kind_name),
            "context" => base64::encode(fetched.context.as_bytes()),
        };
        Ok(Answer::of(StatusCode::OK).with_json(json::to_string(&body.into())?))
    })
    .await
}

/// Nesting limit of maps of changes; the layer below has its own limit.
const MAX_DEPTH: usize = 32;

fn wrong(what: &str) -> ServerError {
    ServerError::Invalid(format!("unknown change `{what}`: see /v1/docs"))
}

fn values(value: Option<Value>, what: &str) -> Result<Vec<Value>> {
    match value {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::List(items)) => Ok(items.iter().cloned().map(typed_value).collect()),
        Some(_) => Err(wrong(what)),
    }
}

/// Parses a change. Recursion is bounded by [`MAX_DEPTH`].
fn update_of(change: Map, depth: usize) -> Result<Update> {
    let mut entries = change.into_iter();
    let (Some((kind, value)), None) = (entries.next(), entries.next()) else {
        return Err(ServerError::Invalid(
            "a change must have one entry, such as {\"counter\": 1}".into(),
        ));
    };
    Ok(match (&*kind, value) {
        ("counter", Value::Int(by)) => Update::Counter(by),
        ("set", Value::Map(set)) => {
            check_names(&set, &["add", "remove"])?;
            Update::Set {
                add: values(set.get("add").cloned(), "set")?,
                remove: values(set.get("remove").cloned(), "set")?,
            }
        }
        ("grow_set", items @ Value::List(_)) => Update::GrowSet(values(Some(items), "grow_set")?),
        ("register", value) => Update::Register(typed_value(value)),
        ("multi_register", value) => Update::MultiRegister(typed_value(value)),
        ("flag", Value::Bool(on)) => Update::Flag(on),
        ("hll", Value::Map(hll)) => {
            check_names(&hll, &["add", "precision"])?;
            let precision = match hll.get("precision") {
                None | Some(Value::Null) => None,
                Some(value) => {
                    let precision = value.as_int().and_then(|bits| u8::try_from(bits).ok());
                    Some(precision.ok_or_else(|| wrong("hll"))?)
                }
            };
            Update::Sketch {
                add: values(hll.get("add").cloned(), "hll")?,
                precision,
            }
        }
        ("map", Value::Map(map)) => {
            check_names(&map, &["update", "remove"])?;
            if depth >= MAX_DEPTH {
                return Err(ServerError::Invalid(format!(
                    "maps of changes are nested more than {MAX_DEPTH} levels"
                )));
            }
            let mut update = Vec::new();
            match map.get("update") {
                None | Some(Value::Null) => {}
                Some(Value::Map(changes)) => {
                    for (name, change) in changes.iter() {
                        let change = change.as_map().ok_or_else(|| wrong(name))?;
                        update.push((name.to_string(), update_of(change.clone(), depth + 1)?));
                    }
                }
                Some(_) => return Err(wrong("map")),
            }
            let names = values(map.get("remove").cloned(), "map")?;
            let remove: Option<Vec<String>> = names
                .iter()
                .map(|name| name.as_str().map(str::to_owned))
                .collect();
            Update::Map {
                update,
                remove: remove.ok_or_else(|| wrong("map"))?,
            }
        }
        ("remove", Value::Bool(true)) => Update::Remove,
        (other, _) => return Err(wrong(other)),
    })
}

fn check_names(map: &Map, names: &[&str]) -> Result<()> {
    match map.names().find(|name| !names.contains(&&***name)) {
        Some(name) => Err(wrong(name)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Update> {
        let value = json::parse_bytes(text.as_bytes()).unwrap();
        update_of(value.as_map().unwrap().clone(), 0)
    }

    #[test]
    fn large_amounts_are_written_as_text() {
        assert_eq!(whole(-7), Value::Int(-7));
        assert_eq!(whole(i64::MAX.into()), Value::Int(i64::MAX));
        assert_eq!(
            whole(i128::from(i64::MAX) + 1),
            "9223372036854775808".into()
        );
    }

    #[test]
    fn changes_are_parsed_or_refused() {
        let nested = read(
            r#"{"map": {"update": {"n": {"counter": -2}, "tags": {"set": {"add": ["a"]}}}, "remove": ["old"]}}"#,
        );
        let expected = Update::Map {
            update: vec![
                ("n".into(), Update::Counter(-2)),
                (
                    "tags".into(),
                    Update::Set {
                        add: vec!["a".into()],
                        remove: Vec::new(),
                    },
                ),
            ],
            remove: vec!["old".into()],
        };
        assert_eq!(nested.unwrap(), expected);
        assert_eq!(read(r#"{"remove": true}"#).unwrap(), Update::Remove);
        for wrong in [
            "{}",
            r#"{"counter": 1.5}"#,
            r#"{"counter": 1, "flag": true}"#,
            r#"{"set": {"ad": [1]}}"#,
            r#"{"set": {"add": 1}}"#,
            r#"{"flag": "on"}"#,
            r#"{"map": {"update": {"a": 1}}}"#,
            r#"{"map": {"remove": [1]}}"#,
            r#"{"hll": {"precision": 1000}}"#,
            r#"{"remove": false}"#,
            r#"{"list": []}"#,
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        let mut deep = String::from("{\"counter\": 1}");
        for _ in 0..40 {
            deep = format!("{{\"map\": {{\"update\": {{\"a\": {deep}}}}}}}");
        }
        assert!(read(&deep).is_err());
    }
}
