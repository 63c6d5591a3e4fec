//! `apoc.map.*`: functions on maps. Null as the map gives null.

use isomer_plan::expr::StaticType;
use isomer_value::{Map, Value, equality};

use super::arguments::{Arguments, LIST, MAP, plain_text};
use crate::{error::Result, procedure::table::FunctionRow};

/// The functions.
pub(super) const FUNCTIONS: &[FunctionRow] = &[
    FunctionRow::new(
        "apoc.map.fromPairs",
        "pairs: LIST?",
        MAP,
        "a map of pairs of a key and a value",
        |args| {
            let args = Arguments::new("apoc.map.fromPairs", args);
            let Some(list) = args.list(0)? else {
                return Ok(Value::Null);
            };
            pairs_of(args, list).map(Value::from)
        },
    ),
    FunctionRow::new(
        "apoc.map.fromLists",
        "keys: LIST?, values: LIST?",
        MAP,
        "a map of a list of keys and a list of values",
        |args| {
            let args = Arguments::new("apoc.map.fromLists", args);
            let (Some(keys), Some(values)) = (args.list(0)?, args.list(1)?) else {
                return Ok(Value::Null);
            };
            lists(args, keys, values).map(Value::from)
        },
    ),
    FunctionRow::new(
        "apoc.map.fromValues",
        "values: LIST?",
        MAP,
        "a map of a list of keys and values in turn",
        |args| {
            let args = Arguments::new("apoc.map.fromValues", args);
            let Some(values) = args.list(0)? else {
                return Ok(Value::Null);
            };
            let entry = |pair: &[Value]| {
                let key = pair.first().map(plain_text).unwrap_or_default();
                (key, pair.get(1).cloned().unwrap_or_default())
            };
            Ok(Map::from_iter(values.chunks(2).map(entry)).into())
        },
    ),
    FunctionRow::new(
        "apoc.map.merge",
        "first: MAP?, second: MAP?",
        MAP,
        "the entries of two maps; those of the second take precedence",
        |args| {
            let args = Arguments::new("apoc.map.merge", args);
            let mut merged = args.map(0)?.cloned().unwrap_or_default();
            add_all(&mut merged, args.map(1)?);
            Ok(merged.into())
        },
    ),
    FunctionRow::new(
        "apoc.map.mergeList",
        "maps: LIST?",
        MAP,
        "the entries of several maps; later ones take precedence",
        |args| {
            let args = Arguments::new("apoc.map.mergeList", args);
            let mut merged = Map::new();
            for value in args.list(0)?.unwrap_or_default() {
                match value {
                    Value::Null => {}
                    Value::Map(map) => add_all(&mut merged, Some(map)),
                    other => return Err(args.wrong("a list of maps", other)),
                }
            }
            Ok(merged.into())
        },
    ),
    FunctionRow::new(
        "apoc.map.setKey",
        "map: MAP?, key: STRING, value: ANY",
        MAP,
        "the map with an entry added or replaced",
        |args| set_key("apoc.map.setKey", args),
    ),
    FunctionRow::new(
        "apoc.map.setEntry",
        "map: MAP?, key: STRING, value: ANY",
        MAP,
        "the map with an entry added or replaced",
        |args| set_key("apoc.map.setEntry", args),
    ),
    FunctionRow::new(
        "apoc.map.setPairs",
        "map: MAP?, pairs: LIST?",
        MAP,
        "the map with entries added or replaced, given as pairs",
        |args| {
            let args = Arguments::new("apoc.map.setPairs", args);
            let mut map = args.map(0)?.cloned().unwrap_or_default();
            let added = pairs_of(args, args.list(1)?.unwrap_or_default())?;
            add_all(&mut map, Some(&added));
            Ok(map.into())
        },
    ),
    FunctionRow::new(
        "apoc.map.setLists",
        "map: MAP?, keys: LIST?, values: LIST?",
        MAP,
        "the map with entries added or replaced, given as keys and values",
        |args| {
            let args = Arguments::new("apoc.map.setLists", args);
            let mut map = args.map(0)?.cloned().unwrap_or_default();
            let (keys, values) = (args.list(1)?, args.list(2)?);
            let added = lists(args, keys.unwrap_or_default(), values.unwrap_or_default())?;
            add_all(&mut map, Some(&added));
            Ok(map.into())
        },
    ),
    FunctionRow::new(
        "apoc.map.removeKey",
        "map: MAP?, key: STRING, config: MAP? = {}",
        MAP,
        "the map without an entry; with {recursive: true} in nested maps, too",
        |args| {
            let args = Arguments::new("apoc.map.removeKey", args);
            remove_keys(args, &[args.value(1).clone()])
        },
    ),
    FunctionRow::new(
        "apoc.map.removeKeys",
        "map: MAP?, keys: LIST?, config: MAP? = {}",
        MAP,
        "the map without some entries; with {recursive: true} in nested maps, too",
        |args| {
            let args = Arguments::new("apoc.map.removeKeys", args);
            remove_keys(args, args.list(1)?.unwrap_or_default())
        },
    ),
    FunctionRow::new(
        "apoc.map.clean",
        "map: MAP?, keys: LIST?, values: LIST?",
        MAP,
        "the map without some keys, without some values, and without nulls",
        clean,
    ),
    FunctionRow::new(
        "apoc.map.submap",
        "map: MAP?, keys: LIST?, values: LIST? = [], fail: BOOLEAN = true",
        MAP,
        "the map of some keys; one that is missing gets its default, or fails",
        |args| {
            let args = Arguments::new("apoc.map.submap", args);
            let (Some(map), Some(keys)) = (args.map(0)?, args.list(1)?) else {
                return Ok(Value::Null);
            };
            let mut found = Map::new();
            for (at, key) in keys.iter().enumerate() {
                let key = plain_text(key);
                let value = entry_or_default(args, map, &key, args.list(2)?, at)?;
                found.insert(key, value);
            }
            Ok(found.into())
        },
    ),
    FunctionRow::new(
        "apoc.map.mget",
        "map: MAP?, keys: LIST?, values: LIST? = [], fail: BOOLEAN = true",
        LIST,
        "the values of some keys; one that is missing gets its default, or fails",
        |args| {
            let args = Arguments::new("apoc.map.mget", args);
            let (Some(map), Some(keys)) = (args.map(0)?, args.list(1)?) else {
                return Ok(Value::Null);
            };
            let mut found = Vec::new();
            for (at, key) in keys.iter().enumerate() {
                let key = plain_text(key);
                found.push(entry_or_default(args, map, &key, args.list(2)?, at)?);
            }
            Ok(found.into())
        },
    ),
    FunctionRow::new(
        "apoc.map.get",
        "map: MAP?, key: STRING, value: ANY = null, fail: BOOLEAN = true",
        StaticType::Any,
        "the value of a key; one that is missing gets the default, or fails",
        |args| {
            let args = Arguments::new("apoc.map.get", args);
            let (Some(map), Some(key)) = (args.map(0)?, args.text(1)?) else {
                return Ok(Value::Null);
            };
            let default = Some(args.value(2).clone()).filter(|value| !value.is_null());
            entry_or_default(args, map, key, default.as_slice().into(), 0)
        },
    ),
    FunctionRow::new(
        "apoc.map.values",
        "map: MAP?, keys: LIST? = [], addNullsForMissing: BOOLEAN = false",
        LIST,
        "the values of some keys",
        |args| {
            let args = Arguments::new("apoc.map.values", args);
            let Some(map) = args.map(0)? else {
                return Ok(Value::Null);
            };
            let with_nulls = args.boolean(2)?;
            let keys = args.list(1)?.unwrap_or_default().iter();
            let values = keys.filter_map(|key| {
                let value = map.get(&plain_text(key)).cloned();
                value.or(with_nulls.then_some(Value::Null))
            });
            Ok(values.collect())
        },
    ),
    FunctionRow::new(
        "apoc.map.sortedProperties",
        "map: MAP?, ignoreCase: BOOLEAN = true",
        LIST,
        "pairs of a key and its value, by key",
        |args| {
            let args = Arguments::new("apoc.map.sortedProperties", args);
            let Some(map) = args.map(0)? else {
                return Ok(Value::Null);
            };
            let mut entries: Vec<_> = map.iter().collect();
            if args.boolean(1)? {
                entries.sort_by_key(|(name, _)| name.to_lowercase());
            }
            let pair = |(name, value): (&std::sync::Arc<str>, &Value)| -> Value {
                vec![Value::String(name.clone()), value.clone()].into()
            };
            Ok(entries.into_iter().map(pair).collect())
        },
    ),
    FunctionRow::new(
        "apoc.map.groupBy",
        "values: LIST?, key: STRING",
        MAP,
        "maps by the value of one of their entries; the last one of each value",
        |args| group("apoc.map.groupBy", args, |_, value| value),
    ),
    FunctionRow::new(
        "apoc.map.groupByMulti",
        "values: LIST?, key: STRING",
        MAP,
        "lists of maps by the value of one of their entries",
        |args| {
            group("apoc.map.groupByMulti", args, |known, value| {
                let mut list = known.and_then(Value::as_list).unwrap_or_default().to_vec();
                list.push(value);
                list.into()
            })
        },
    ),
    FunctionRow::new(
        "apoc.map.dropNullValues",
        "map: MAP?",
        MAP,
        "the map without nulls",
        |args| {
            let map = Arguments::new("apoc.map.dropNullValues", args).map(0)?;
            let kept = map.map(|map| {
                let kept = map.iter().filter(|(_, value)| !value.is_null());
                Map::from_iter(kept.map(|(name, value)| (name.clone(), value.clone())))
            });
            Ok(kept.into())
        },
    ),
    FunctionRow::new(
        "apoc.map.flatten",
        "map: MAP?, delimiter: STRING = '.'",
        MAP,
        "the entries of nested maps, with the keys joined",
        |args| {
            let args = Arguments::new("apoc.map.flatten", args);
            let (Some(map), delimiter) = (args.map(0)?, args.text(1)?.unwrap_or(".")) else {
                return Ok(Value::Null);
            };
            let mut flat = Map::new();
            let mut rest = vec![(String::new(), map)];
            while let Some((prefix, map)) = rest.pop() {
                for (name, value) in map.iter() {
                    let key = match prefix.is_empty() {
                        true => name.to_string(),
                        false => format!("{prefix}{delimiter}{name}"),
                    };
                    match value {
                        Value::Map(inner) => rest.push((key, inner)),
                        other => drop(flat.insert(key, other.clone())),
                    }
                }
            }
            Ok(flat.into())
        },
    ),
];

fn add_all(map: &mut Map, added: Option<&Map>) {
    for (name, value) in added.into_iter().flat_map(Map::iter) {
        map.insert(name.clone(), value.clone());
    }
}

fn pairs_of(args: Arguments<'_>, list: &[Value]) -> Result<Map> {
    let entry = |pair: &Value| match pair.as_list() {
        Some([key, value]) => Ok((plain_text(key), value.clone())),
        _ => Err(args.wrong("a list of pairs", pair)),
    };
    let entries = list.iter().map(entry).collect::<Result<Vec<_>>>()?;
    Ok(Map::from_iter(entries))
}

fn lists(args: Arguments<'_>, keys: &[Value], values: &[Value]) -> Result<Map> {
    if keys.len() != values.len() {
        return Err(args.invalid(format!(
            "{} keys and {} values: give as many values as keys",
            keys.len(),
            values.len()
        )));
    }
    let entries = keys.iter().zip(values);
    Ok(Map::from_iter(
        entries.map(|(key, value)| (plain_text(key), value.clone())),
    ))
}

fn set_key(function: &'static str, args: &[Value]) -> Result<Value> {
    let args = Arguments::new(function, args);
    let mut map = args.map(0)?.cloned().unwrap_or_default();
    if let Some(key) = args.text(1)? {
        map.insert(key, args.value(2).clone());
    }
    Ok(map.into())
}

fn remove_keys(args: Arguments<'_>, keys: &[Value]) -> Result<Value> {
    let Some(map) = args.map(0)? else {
        return Ok(Value::Null);
    };
    let recursive = args
        .map(2)?
        .and_then(|config| config.get("recursive"))
        .is_some_and(|value| *value == Value::Bool(true));
    let keys: Vec<String> = keys.iter().map(plain_text).collect();
    Ok(without(map, &keys, recursive).into())
}

/// Maps nest at most as deep as values may, so this may recurse.
fn without(map: &Map, keys: &[String], recursive: bool) -> Map {
    let kept = map
        .iter()
        .filter(|(name, _)| !keys.iter().any(|key| **key == ***name));
    Map::from_iter(kept.map(|(name, value)| {
        let value = match value {
            Value::Map(inner) if recursive => without(inner, keys, true).into(),
            other => other.clone(),
        };
        (name.clone(), value)
    }))
}

fn clean(args: &[Value]) -> Result<Value> {
    let args = Arguments::new("apoc.map.clean", args);
    let Some(map) = args.map(0)? else {
        return Ok(Value::Null);
    };
    let keys = args.list(1)?.unwrap_or_default();
    let values = args.list(2)?.unwrap_or_default();
    let keys: Vec<String> = keys.iter().map(plain_text).collect();
    let kept = map.iter().filter(|(name, value)| {
        !value.is_null()
            && !keys.iter().any(|key| **key == ***name)
            && !values
                .iter()
                .any(|other| equality::equivalent(other, value))
    });
    Ok(Map::from_iter(kept.map(|(name, value)| (name.clone(), value.clone()))).into())
}

/// The value of a key, or the default at `at`; fails without both unless the fourth argument is false.
fn entry_or_default(
    args: Arguments<'_>,
    map: &Map,
    key: &str,
    defaults: Option<&[Value]>,
    at: usize,
) -> Result<Value> {
    let default = || defaults.and_then(|defaults| defaults.get(at));
    match map.get(key).or_else(default) {
        Some(value) => Ok(value.clone()),
        None if args.boolean(3)? => Err(args.invalid(format!(
            "the map has no key `{key}`: give a default, or false as the last argument"
        ))),
        None => Ok(Value::Null),
    }
}

fn group(
    function: &'static str,
    args: &[Value],
    add: impl Fn(Option<&Value>, Value) -> Value,
) -> Result<Value> {
    let args = Arguments::new(function, args);
    let (Some(list), Some(key)) = (args.list(0)?, args.text(1)?) else {
        return Ok(Value::Null);
    };
    let mut groups = Map::new();
    for value in list {
        let Value::Map(map) = value else {
            return Err(args.wrong("a list of maps (`n {.*}` for a node)", value));
        };
        if let Some(group) = map.get(key).filter(|group| !group.is_null()) {
            let group = plain_text(group);
            let grouped = add(groups.get(&group), value.clone());
            groups.insert(group, grouped);
        }
    }
    Ok(groups.into())
}
