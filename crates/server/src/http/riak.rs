//! Riak's data types over its HTTP interface: `/types/TYPE/buckets/BUCKET/datatypes/KEY` below a database.
//!
//! The types are `counters`, `sets`, `gsets`, `hlls` and `maps`. A value is the convergent field `value` of the
//! document KEY of the collection BUCKET, which the first change creates; so queries can read it, too. In maps the
//! suffixes of names determine the types (`_counter`, `_set`, `_register`, `_flag`, `_map`), and are part of the
//! names, as in Riak.

use axum::http::StatusCode;
use isomer_db::{Context, ConvergentKind, Map, Update, Value, json, params};

use super::{
    base64,
    call::Call,
    data::{identifying, write},
    once::Answer,
    query::typed_value,
    reply::{JSON, Reply},
};
use crate::{
    Result, ServerError,
    access::{DatabaseAccess, Role},
};

/// The field of a value.
const FIELD: [&str; 1] = ["value"];
/// Nesting limit of maps of changes.
const MAX_DEPTH: usize = 32;

/// A data type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Type {
    Counter,
    Set,
    GrowSet,
    Hll,
    Map,
    /// Only in maps.
    Register,
    Flag,
}

impl Type {
    /// The type of a bucket type.
    fn of_buckets(name: &str) -> Result<Self> {
        Ok(match name {
            "counters" => Self::Counter,
            "sets" => Self::Set,
            "gsets" => Self::GrowSet,
            "hlls" => Self::Hll,
            "maps" => Self::Map,
            other => {
                return Err(ServerError::NotFound(format!(
                    "unknown type `{other}`: expected counters, sets, gsets, hlls or maps"
                )));
            }
        })
    }

    /// The type by the suffix of a name in a map.
    fn of_field(name: &str) -> Result<Self> {
        let end = name.rsplit_once('_').map(|(_, end)| end);
        Ok(match end {
            Some("counter") => Self::Counter,
            Some("set") => Self::Set,
            Some("register") => Self::Register,
            Some("flag") => Self::Flag,
            Some("map") => Self::Map,
            _ => {
                return Err(ServerError::Invalid(format!(
                    "the name `{name}` must end with _counter, _set, _register, _flag or _map"
                )));
            }
        })
    }

    fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Set => "set",
            Self::GrowSet => "gset",
            Self::Hll => "hll",
            Self::Map => "map",
            Self::Register => "register",
            Self::Flag => "flag",
        }
    }

    fn kind(self) -> ConvergentKind {
        match self {
            Self::Counter => ConvergentKind::Counter,
            Self::Set => ConvergentKind::Set,
            Self::GrowSet => ConvergentKind::GrowSet,
            Self::Hll => ConvergentKind::Sketch,
            Self::Map => ConvergentKind::Map,
            Self::Register => ConvergentKind::Register,
            Self::Flag => ConvergentKind::Flag,
        }
    }
}

/// `{"type", "value", "context"}` as Riak answers.
fn value_json(kind: Type, fetched: isomer_db::FieldState) -> Result<String> {
    if fetched.kind.is_some_and(|found| found != kind.kind()) {
        return Err(ServerError::Invalid(format!(
            "the stored value is not a {}",
            kind.name()
        )));
    }
    let value = fetched.value.unwrap_or_else(|| match kind {
        Type::Set | Type::GrowSet => Value::empty_list(),
        Type::Map => Map::new().into(),
        _ => Value::Int(0),
    });
    let body = params! {
        "type" => kind.name(),
        "value" => value,
        "context" => base64::encode(fetched.context.as_bytes()),
    };
    Ok(json::to_string(&body.into())?)
}

/// `GET …/riak/types/{datatype}/buckets/{bucket}/datatypes/{key}`
pub async fn fetch(call: Call, access: DatabaseAccess) -> Result<Reply> {
    let kind = Type::of_buckets(call.path_param("datatype"))?;
    let (label, key) = (
        call.path_param("bucket").to_owned(),
        call.path_param("key").to_owned(),
    );
    call.core
        .blocking(move || {
            access.read(|tx| {
                let missing = || ServerError::NotFound("no such key".into());
                let collection = tx.collection(&label);
                if collection.get(key.as_str())?.is_none() {
                    return Err(missing());
                }
                let fetched = collection.field(key.as_str(), &FIELD)?.fetch()?;
                if fetched.kind.is_none() {
                    return Err(missing());
                }
                Ok(Reply::whole(
                    StatusCode::OK,
                    JSON,
                    value_json(kind, fetched)?,
                ))
            })
        })
        .await
}

/// `POST …/riak/types/{datatype}/buckets/{bucket}/datatypes/{key}`
pub async fn update(mut call: Call, access: DatabaseAccess) -> Result<Reply> {
    let kind = Type::of_buckets(call.path_param("datatype"))?;
    let returned = call.switch("returnbody")?;
    let body = call.json().await?;
    let text = identifying(&call, || json::to_string(&body))?;
    let context = match body.as_map().and_then(|map| map.get("context")) {
        None | Some(Value::Null) => None,
        Some(context) => {
            let bytes = context.as_str().and_then(base64::decode);
            Some(Context::from(bytes.ok_or_else(|| {
                ServerError::Invalid("invalid context: send one that this server returned".into())
            })?))
        }
    };
    let update = change(kind, &body, 0)?;
    let (label, key) = (
        call.path_param("bucket").to_owned(),
        call.path_param("key").to_owned(),
    );
    write(&call, access, Role::Editor, text.as_bytes(), move |tx| {
        let collection = tx.collection(&label);
        if collection.get(key.as_str())?.is_none() {
            collection.insert(&params! { "_key" => key.as_str() })?;
        }
        let field = collection.field(key.as_str(), &FIELD)?;
        let field = field.with_context(context.clone());
        field.update(&update)?;
        if !returned {
            return Ok(Answer::done());
        }
        let json = value_json(kind, field.fetch()?)?;
        Ok(Answer::of(StatusCode::OK).with_json(json))
    })
    .await
}

fn wrong(kind: Type) -> ServerError {
    let expected = match kind {
        Type::Counter => "{\"increment\": N}, {\"decrement\": N} or a number",
        Type::Set => "{\"add\" | \"remove\": VALUE} or {\"add_all\" | \"remove_all\": […]}",
        Type::GrowSet | Type::Hll => "{\"add\": VALUE} or {\"add_all\": […]}",
        Type::Map => "{\"update\": {NAME: CHANGE}, \"remove\": [NAME]}",
        Type::Register => "a value",
        Type::Flag => "\"enable\" or \"disable\"",
    };
    ServerError::Invalid(format!("a change of a {} must be {expected}", kind.name()))
}

/// Parses a change. Recursion is bounded by [`MAX_DEPTH`].
fn change(kind: Type, body: &Value, depth: usize) -> Result<Update> {
    let entry = |name: &str| body.as_map().and_then(|map| map.get(name)).cloned();
    let known = |names: &[&str]| match body.as_map() {
        Some(map) if !map.names().all(|name| names.contains(&&**name)) => Err(wrong(kind)),
        _ => Ok(()),
    };
    // One value under one name, several under the other.
    let elements = |one: &str, all: &str| -> Result<Vec<Value>> {
        let mut elements: Vec<Value> = entry(one).into_iter().map(typed_value).collect();
        match entry(all) {
            None => {}
            Some(Value::List(items)) => {
                elements.extend(items.iter().cloned().map(typed_value));
            }
            Some(_) => return Err(wrong(kind)),
        }
        Ok(elements)
    };
    match kind {
        Type::Counter => {
            known(&["increment", "decrement", "context"])?;
            let by = match (body, entry("increment"), entry("decrement")) {
                (Value::Int(by), ..) => Some(*by),
                (_, Some(Value::Int(by)), None) => Some(by),
                (_, None, Some(Value::Int(by))) => by.checked_neg(),
                _ => None,
            };
            by.map(Update::Counter).ok_or_else(|| wrong(kind))
        }
        Type::Set => {
            known(&["add", "add_all", "remove", "remove_all", "context"])?;
            let (add, remove) = (
                elements("add", "add_all")?,
                elements("remove", "remove_all")?,
            );
            if add.is_empty() && remove.is_empty() {
                return Err(wrong(kind));
            }
            Ok(Update::Set { add, remove })
        }
        Type::GrowSet | Type::Hll => {
            known(&["add", "add_all", "context"])?;
            let add = elements("add", "add_all")?;
            match kind {
                _ if add.is_empty() => Err(wrong(kind)),
                Type::GrowSet => Ok(Update::GrowSet(add)),
                _ => Ok(Update::Sketch {
                    add,
                    precision: None,
                }),
            }
        }
        Type::Register => Ok(Update::Register(typed_value(body.clone()))),
        Type::Flag => match body.as_str() {
            Some("enable") => Ok(Update::Flag(true)),
            Some("disable") => Ok(Update::Flag(false)),
            _ => Err(wrong(kind)),
        },
        Type::Map => {
            known(&["update", "remove", "context"])?;
            if depth >= MAX_DEPTH {
                return Err(ServerError::Invalid(format!(
                    "maps are nested more than {MAX_DEPTH} levels"
                )));
            }
            let mut update = Vec::new();
            match entry("update") {
                None => {}
                Some(Value::Map(changes)) => {
                    for (name, one) in changes.iter() {
                        let one = change(Type::of_field(name)?, one, depth + 1)?;
                        update.push((name.to_string(), one));
                    }
                }
                Some(_) => return Err(wrong(kind)),
            }
            let mut remove = Vec::new();
            for name in elements("", "remove")? {
                let name = name.as_str().ok_or_else(|| wrong(kind))?;
                Type::of_field(name)?;
                remove.push(name.to_owned());
            }
            if update.is_empty() && remove.is_empty() {
                return Err(wrong(kind));
            }
            Ok(Update::Map { update, remove })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(kind: Type, text: &str) -> Result<Update> {
        change(kind, &json::parse_bytes(text.as_bytes()).unwrap(), 0)
    }

    #[test]
    fn changes_have_the_meaning_that_they_have_in_riak() {
        let set = |add: &[&str], remove: &[&str]| Update::Set {
            add: add.iter().map(|one| (*one).into()).collect(),
            remove: remove.iter().map(|one| (*one).into()).collect(),
        };
        for (kind, text, expected) in [
            (Type::Counter, "5", Update::Counter(5)),
            (Type::Counter, r#"{"decrement": 2}"#, Update::Counter(-2)),
            (Type::Set, r#"{"add": "a"}"#, set(&["a"], &[])),
            (
                Type::Set,
                r#"{"add_all": ["a", "b"], "remove": "c"}"#,
                set(&["a", "b"], &["c"]),
            ),
            (
                Type::Map,
                r#"{"update": {"on_flag": "enable", "n_counter": 1, "s_set": {"add": "a"}}, "remove": ["x_register"]}"#,
                Update::Map {
                    update: vec![
                        ("n_counter".into(), Update::Counter(1)),
                        ("on_flag".into(), Update::Flag(true)),
                        ("s_set".into(), set(&["a"], &[])),
                    ],
                    remove: vec!["x_register".into()],
                },
            ),
        ] {
            assert_eq!(read(kind, text).unwrap(), expected, "{text}");
        }
        for (kind, text) in [
            (Type::Counter, "1.5"),
            (Type::Counter, r#"{"increment": 1, "decrement": 1}"#),
            (Type::Set, "{}"),
            (Type::Set, r#"{"ad": 1}"#),
            (Type::GrowSet, r#"{"remove": 1}"#),
            (Type::Map, r#"{"update": {"n": 1}}"#),
            (Type::Map, r#"{"update": {"n_flag": 1}}"#),
            (Type::Map, r#"{"remove": "a_set"}"#),
        ] {
            assert!(read(kind, text).is_err(), "{text}");
        }
    }
}
