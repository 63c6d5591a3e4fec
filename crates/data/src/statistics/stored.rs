//! How statistics are stored: each label's and each type's under a separate key (see `keyspace`), as one value in the
//! encoding of keys. What does not decode is dropped: it is sampled again.
//!
//! ```text
//! of a label  [1, version, nodes, sampled, [[label, count]…], [[path, values]…], [[index, entries, [distinct…], values]…]]
//! of a type   [1, version, relationships, sampled, [[label, count]…], [[label, count]…], [[label, label, count]…],
//!              [[index, entries, [distinct…], values]…]], the last one only where it is not empty
//! values      [present, distinct, [[value, count]…], [bound…]]
//! ```

use std::sync::Arc;

use isomer_layout::{
    DataError,
    catalog::schema::FieldPath,
    keyspace::{self, TAG_STATISTICS},
    pairs::each_pair,
};
use isomer_storage::Read;
use isomer_value::{IndexId, LabelId, TypeId, Value, key};

use super::{IndexStatistics, LabelStatistics, TypeStatistics, ValueStatistics};

const FORMAT: i64 = 1;

/// A stored record.
pub enum Stored {
    Label(LabelId, LabelStatistics),
    Type(TypeId, TypeStatistics),
}

/// Calls `take` with each stored record that decodes.
pub(super) fn each(read: &dyn Read, mut take: impl FnMut(Stored)) -> Result<(), DataError> {
    each_pair(read, &[TAG_STATISTICS], |key, value| {
        let stored = key
            .get(1..)
            .and_then(|rest| rest.split_first_chunk::<5>())
            .filter(|(_, rest)| rest.is_empty())
            .and_then(|(&[what, a, b, c, d], _)| {
                let id = u32::from_be_bytes([a, b, c, d]);
                let value = key::decode(value).ok()?;
                match what {
                    keyspace::STATISTICS_OF_LABEL => {
                        Some(Stored::Label(LabelId(id), label_of(&value)?))
                    }
                    keyspace::STATISTICS_OF_TYPE => {
                        Some(Stored::Type(TypeId(id), type_of(&value)?))
                    }
                    _ => None,
                }
            });
        if let Some(stored) = stored {
            take(stored);
        }
        Ok(())
    })
}

fn list(values: Vec<Value>) -> Value {
    Value::List(Arc::new(values))
}

fn number(number: impl Into<u64>) -> Value {
    Value::Int(i64::try_from(number.into()).unwrap_or(i64::MAX))
}

fn counts<K: Copy>(counts: &[(K, u64)], ids: impl Fn(K) -> Vec<u32>) -> Value {
    let one = |(key, count): &(K, u64)| {
        let mut parts: Vec<Value> = ids(*key).into_iter().map(number).collect();
        parts.push(number(*count));
        list(parts)
    };
    list(counts.iter().map(one).collect())
}

fn values(values: &ValueStatistics) -> Value {
    let common = values
        .common
        .iter()
        .map(|(value, count)| list(vec![value.clone(), number(*count)]));
    list(vec![
        number(values.present),
        number(values.distinct),
        list(common.collect()),
        list(values.bounds.clone()),
    ])
}

fn indexes(of: &[IndexStatistics]) -> Value {
    let one = |index: &IndexStatistics| {
        list(vec![
            number(index.index.0),
            number(index.entries),
            list(index.distinct.iter().map(|one| number(*one)).collect()),
            values(&index.first),
        ])
    };
    list(of.iter().map(one).collect())
}

fn indexes_of(value: &Value) -> Option<Vec<IndexStatistics>> {
    each_of(value, |parts| match parts {
        [index, entries, distinct, first] => Some(IndexStatistics {
            index: IndexId(take_id(index)?),
            entries: take(entries)?,
            distinct: items(distinct)?.iter().map(take).collect::<Option<_>>()?,
            first: values_of(first)?,
        }),
        _ => None,
    })
}

/// Key and value of a label's statistics; nothing if they cannot be encoded.
pub fn label(id: LabelId, one: &LabelStatistics) -> Option<(Vec<u8>, Vec<u8>)> {
    let properties = one.properties.iter().map(|(path, of)| {
        let path = path.0.iter().cloned().map(Value::String).collect();
        list(vec![list(path), values(of)])
    });
    let value = list(vec![
        Value::Int(FORMAT),
        number(one.version),
        number(one.nodes),
        number(one.sampled),
        counts(&one.together, |label| vec![label.0]),
        list(properties.collect()),
        indexes(&one.indexes),
    ]);
    let key = keyspace::statistics(keyspace::STATISTICS_OF_LABEL, id.0);
    Some((key, key::encode(&value).ok()?))
}

/// Key and value of a type's statistics.
pub(super) fn relationships(id: TypeId, one: &TypeStatistics) -> Option<(Vec<u8>, Vec<u8>)> {
    let mut parts = vec![
        Value::Int(FORMAT),
        number(one.version),
        number(one.relationships),
        number(one.sampled),
        counts(&one.sources, |label| vec![label.0]),
        counts(&one.targets, |label| vec![label.0]),
        counts(&one.both, |(source, target)| vec![source.0, target.0]),
    ];
    if !one.indexes.is_empty() {
        parts.push(indexes(&one.indexes));
    }
    let value = list(parts);
    let key = keyspace::statistics(keyspace::STATISTICS_OF_TYPE, id.0);
    Some((key, key::encode(&value).ok()?))
}

fn take(value: &Value) -> Option<u64> {
    match value {
        Value::Int(number) => u64::try_from(*number).ok(),
        _ => None,
    }
}

fn take_id(value: &Value) -> Option<u32> {
    take(value).and_then(|id| u32::try_from(id).ok())
}

fn items(value: &Value) -> Option<&[Value]> {
    match value {
        Value::List(items) => Some(items),
        _ => None,
    }
}

fn each_of<T>(value: &Value, one: impl Fn(&[Value]) -> Option<T>) -> Option<Vec<T>> {
    items(value)?.iter().map(|item| one(items(item)?)).collect()
}

fn label_counts(value: &Value) -> Option<Vec<(LabelId, u64)>> {
    each_of(value, |pair| match pair {
        [label, count] => Some((LabelId(take_id(label)?), take(count)?)),
        _ => None,
    })
}

fn values_of(value: &Value) -> Option<ValueStatistics> {
    let [present, distinct, common, bounds] = items(value)? else {
        return None;
    };
    Some(ValueStatistics {
        present: take(present)?,
        distinct: take(distinct)?,
        common: each_of(common, |pair| match pair {
            [value, count] => Some((value.clone(), take(count)?)),
            _ => None,
        })?,
        bounds: items(bounds)?.to_vec(),
    })
}

fn label_of(value: &Value) -> Option<LabelStatistics> {
    let [
        Value::Int(FORMAT),
        version,
        nodes,
        sampled,
        together,
        properties,
        indexes,
    ] = items(value)?
    else {
        return None;
    };
    let path = |value: &Value| -> Option<FieldPath> {
        let names = items(value)?.iter().map(|name| match name {
            Value::String(name) => Some(name.clone()),
            _ => None,
        });
        Some(FieldPath(names.collect::<Option<_>>()?))
    };
    Some(LabelStatistics {
        version: take(version)?,
        nodes: take(nodes)?,
        sampled: take(sampled)?,
        together: label_counts(together)?,
        properties: each_of(properties, |pair| match pair {
            [name, values] => Some((path(name)?, values_of(values)?)),
            _ => None,
        })?,
        indexes: indexes_of(indexes)?,
    })
}

fn type_of(value: &Value) -> Option<TypeStatistics> {
    let [
        Value::Int(FORMAT),
        version,
        relationships,
        sampled,
        sources,
        targets,
        both,
        rest @ ..,
    ] = items(value)?
    else {
        return None;
    };
    Some(TypeStatistics {
        version: take(version)?,
        relationships: take(relationships)?,
        sampled: take(sampled)?,
        relabelled: 0,
        sources: label_counts(sources)?,
        targets: label_counts(targets)?,
        both: each_of(both, |parts| match parts {
            [source, target, count] => Some((
                (LabelId(take_id(source)?), LabelId(take_id(target)?)),
                take(count)?,
            )),
            _ => None,
        })?,
        indexes: match rest {
            [] => Vec::new(),
            [indexes] => indexes_of(indexes)?,
            _ => return None,
        },
    })
}
