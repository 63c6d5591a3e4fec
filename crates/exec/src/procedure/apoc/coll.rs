//! `apoc.coll.*`: functions on lists. Null as the list gives what APOC gives: null, an empty list, false, or -1.

use std::hash::{Hash, Hasher};

use isomer_plan::expr::StaticType;
use isomer_value::{Map, Value, equality, order};
use rustc_hash::{FxHashMap, FxHasher};

use super::arguments::{Arguments, LIST, MAP, plain_text};
use crate::{error::Result, procedure::table::FunctionRow};

/// The functions.
pub(super) const FUNCTIONS: &[FunctionRow] = &[
    FunctionRow::new(
        "apoc.coll.sum",
        "list: LIST?",
        StaticType::Any,
        "the sum of numbers, as a float",
        |args| numbers("apoc.coll.sum", args, |all| all.iter().sum()),
    ),
    FunctionRow::new(
        "apoc.coll.avg",
        "list: LIST?",
        StaticType::Any,
        "the average of numbers",
        |args| {
            numbers("apoc.coll.avg", args, |all| {
                all.iter().sum::<f64>() / all.len() as f64
            })
        },
    ),
    FunctionRow::new(
        "apoc.coll.stdev",
        "list: LIST?, isBiasCorrected: BOOLEAN = true",
        StaticType::Any,
        "the standard deviation of a sample, or of a population",
        stdev,
    ),
    FunctionRow::new(
        "apoc.coll.sumLongs",
        "list: LIST?",
        StaticType::Any,
        "the sum of numbers, as an integer",
        sum_longs,
    ),
    FunctionRow::new(
        "apoc.coll.min",
        "list: LIST?",
        StaticType::Any,
        "the smallest element",
        |args| with_list("apoc.coll.min", args, |list| extreme(list, false)),
    ),
    FunctionRow::new(
        "apoc.coll.max",
        "list: LIST?",
        StaticType::Any,
        "the greatest element",
        |args| with_list("apoc.coll.max", args, |list| extreme(list, true)),
    ),
    FunctionRow::new(
        "apoc.coll.toSet",
        "list: LIST?",
        LIST,
        "the distinct elements, in the order of their first occurrence",
        |args| with_list("apoc.coll.toSet", args, |list| distinct(list).into()),
    ),
    FunctionRow::new(
        "apoc.coll.flatten",
        "list: LIST?, recursive: BOOLEAN = false",
        LIST,
        "the elements of the lists in a list, of all levels if recursive",
        flatten,
    ),
    FunctionRow::new(
        "apoc.coll.contains",
        "list: LIST?, value: ANY",
        StaticType::Any,
        "whether an element is equal to a value",
        |args| {
            with_list_or("apoc.coll.contains", args, false.into(), |list| {
                position(list, args.get(1)).is_some().into()
            })
        },
    ),
    FunctionRow::new(
        "apoc.coll.containsAll",
        "list: LIST?, values: LIST?",
        StaticType::Any,
        "whether a list contains all elements of another",
        |args| {
            let both = both("apoc.coll.containsAll", args)?;
            let Some((list, values)) = both.filter(|(list, _)| !list.is_empty()) else {
                return Ok(false.into());
            };
            let known = Counted::of(list);
            Ok(values.iter().all(|value| known.has(value)).into())
        },
    ),
    FunctionRow::new(
        "apoc.coll.indexOf",
        "list: LIST?, value: ANY",
        StaticType::Any,
        "the position of the first element equal to a value, or -1",
        |args| {
            with_list_or("apoc.coll.indexOf", args, Value::Int(-1), |list| {
                Value::Int(position(list, args.get(1)).map_or(-1, |at| at as i64))
            })
        },
    ),
    FunctionRow::new(
        "apoc.coll.sort",
        "list: LIST?",
        LIST,
        "the elements in ascending order",
        |args| {
            with_list_or("apoc.coll.sort", args, Value::empty_list(), |list| {
                let mut sorted = list.to_vec();
                sorted.sort_by(order::cmp_order);
                sorted.into()
            })
        },
    ),
    FunctionRow::new(
        "apoc.coll.sortMaps",
        "list: LIST?, property: STRING",
        LIST,
        "maps by one of their entries, descending; ascending if the name begins with ^",
        sort_maps,
    ),
    FunctionRow::new(
        "apoc.coll.reverse",
        "list: LIST?",
        LIST,
        "the elements in reverse order",
        |args| {
            with_list("apoc.coll.reverse", args, |list| {
                list.iter().rev().cloned().collect()
            })
        },
    ),
    FunctionRow::new(
        "apoc.coll.zip",
        "list: LIST?, other: LIST?",
        LIST,
        "pairs of the elements at the same position",
        |args| {
            let Some((list, other)) = both("apoc.coll.zip", args)? else {
                return Ok(Value::Null);
            };
            let pair = |(at, value): (usize, &Value)| -> Value {
                vec![value.clone(), other.get(at).cloned().unwrap_or_default()].into()
            };
            // An empty list has no pairs; a shorter one is filled with nulls.
            let list = if other.is_empty() { other } else { list };
            Ok(list.iter().enumerate().map(pair).collect())
        },
    ),
    FunctionRow::new(
        "apoc.coll.pairs",
        "list: LIST?",
        LIST,
        "each element with its successor; the last one with null",
        |args| with_list("apoc.coll.pairs", args, |list| pairs(list, true)),
    ),
    FunctionRow::new(
        "apoc.coll.pairsMin",
        "list: LIST?",
        LIST,
        "each element with its successor",
        |args| with_list("apoc.coll.pairsMin", args, |list| pairs(list, false)),
    ),
    FunctionRow::new(
        "apoc.coll.union",
        "list: LIST?, other: LIST?",
        LIST,
        "the distinct elements of two lists",
        |args| {
            with_either("apoc.coll.union", args, |list, other| {
                distinct(&[list, other].concat()).into()
            })
        },
    ),
    FunctionRow::new(
        "apoc.coll.unionAll",
        "list: LIST?, other: LIST?",
        LIST,
        "the elements of two lists",
        |args| {
            with_either("apoc.coll.unionAll", args, |list, other| {
                [list, other].concat().into()
            })
        },
    ),
    FunctionRow::new(
        "apoc.coll.intersection",
        "list: LIST?, other: LIST?",
        LIST,
        "the distinct elements that are in both lists",
        |args| {
            let Some((list, other)) = both("apoc.coll.intersection", args)? else {
                return Ok(Value::empty_list());
            };
            let known = Counted::of(other);
            Ok(filtered(distinct(list), |value| known.has(value)))
        },
    ),
    FunctionRow::new(
        "apoc.coll.subtract",
        "list: LIST?, other: LIST?",
        LIST,
        "the distinct elements of the first list that are not in the second",
        |args| {
            with_lists("apoc.coll.subtract", args, |list, other| {
                let known = Counted::of(other);
                filtered(distinct(list), |value| !known.has(value))
            })
        },
    ),
    FunctionRow::new(
        "apoc.coll.disjunction",
        "list: LIST?, other: LIST?",
        LIST,
        "the distinct elements that are in one of the lists only",
        |args| {
            with_either("apoc.coll.disjunction", args, |list, other| {
                let (first, second) = (Counted::of(list), Counted::of(other));
                filtered(distinct(&[list, other].concat()), |value| {
                    first.has(value) != second.has(value)
                })
            })
        },
    ),
    FunctionRow::new(
        "apoc.coll.removeAll",
        "list: LIST?, other: LIST?",
        LIST,
        "the elements of the first list that are not in the second",
        |args| {
            with_lists("apoc.coll.removeAll", args, |list, other| {
                let known = Counted::of(other);
                filtered(list.to_vec(), |value| !known.has(value))
            })
        },
    ),
    FunctionRow::new(
        "apoc.coll.remove",
        "list: LIST?, index: INTEGER, length: INTEGER = 1",
        LIST,
        "the list without a number of elements from a position on",
        remove,
    ),
    FunctionRow::new(
        "apoc.coll.insert",
        "list: LIST?, index: INTEGER, value: ANY",
        LIST,
        "the list with a value at a position",
        |args| insert("apoc.coll.insert", args, |value| vec![value.clone()]),
    ),
    FunctionRow::new(
        "apoc.coll.insertAll",
        "list: LIST?, index: INTEGER, values: LIST",
        LIST,
        "the list with values from a position on",
        |args| {
            insert("apoc.coll.insertAll", args, |values| {
                values.as_list().unwrap_or_default().to_vec()
            })
        },
    ),
    FunctionRow::new(
        "apoc.coll.set",
        "list: LIST?, index: INTEGER, value: ANY",
        LIST,
        "the list with the element at a position replaced",
        set,
    ),
    FunctionRow::new(
        "apoc.coll.duplicates",
        "list: LIST?",
        LIST,
        "the distinct elements that occur several times",
        |args| {
            with_list_or("apoc.coll.duplicates", args, Value::empty_list(), |list| {
                let known = Counted::of(list);
                filtered(distinct(list), |value| known.count(value) > 1)
            })
        },
    ),
    FunctionRow::new(
        "apoc.coll.frequencies",
        "list: LIST?",
        LIST,
        "a map for each distinct element: item, count",
        |args| {
            with_list("apoc.coll.frequencies", args, |list| {
                let known = Counted::of(list);
                let row = |item: Value| -> Value {
                    let count = Value::Int(known.count(&item));
                    Map::from_iter([("count", count), ("item", item)]).into()
                };
                distinct(list).into_iter().map(row).collect()
            })
        },
    ),
    FunctionRow::new(
        "apoc.coll.frequenciesAsMap",
        "list: LIST?",
        MAP,
        "how often each element occurs, by its text",
        |args| {
            with_list("apoc.coll.frequenciesAsMap", args, |list| {
                let known = Counted::of(list);
                let entry = |item: Value| {
                    let count = Value::Int(known.count(&item));
                    (plain_text(&item), count)
                };
                Map::from_iter(distinct(list).into_iter().map(entry)).into()
            })
        },
    ),
    FunctionRow::new(
        "apoc.coll.occurrences",
        "list: LIST?, value: ANY",
        StaticType::Any,
        "how often a value occurs",
        |args| {
            with_list("apoc.coll.occurrences", args, |list| {
                let wanted = args.get(1).unwrap_or(&Value::Null);
                let found = list
                    .iter()
                    .filter(|value| equality::equivalent(value, wanted));
                Value::Int(found.count() as i64)
            })
        },
    ),
    FunctionRow::new(
        "apoc.coll.isEqualCollection",
        "list: LIST?, other: LIST?",
        StaticType::Any,
        "whether two lists have the same elements, each as often",
        |args| {
            let function = "apoc.coll.isEqualCollection";
            let Some((list, other)) = both(function, args)? else {
                return Ok(args.iter().all(Value::is_null).into());
            };
            let (first, second) = (Counted::of(list), Counted::of(other));
            let same = |value: &Value| first.count(value) == second.count(value);
            Ok((list.len() == other.len() && list.iter().all(same)).into())
        },
    ),
    FunctionRow::new(
        "apoc.coll.different",
        "list: LIST?",
        StaticType::Any,
        "whether all elements differ",
        |args| {
            with_list("apoc.coll.different", args, |list| {
                (distinct(list).len() == list.len()).into()
            })
        },
    ),
    FunctionRow::new(
        "apoc.coll.dropDuplicateNeighbors",
        "list: LIST?",
        LIST,
        "the list without elements that equal the one before",
        |args| {
            with_list("apoc.coll.dropDuplicateNeighbors", args, |list| {
                let mut left = list.to_vec();
                left.dedup_by(|later, first| equality::equivalent(later, first));
                left.into()
            })
        },
    ),
    FunctionRow::new(
        "apoc.coll.fill",
        "value: ANY, count: INTEGER",
        LIST,
        "a list of a number of copies of a value",
        fill,
    ),
];

/// The longest list that a function makes of a number.
const MAX_LENGTH: i64 = 10_000_000;

fn with_list(
    function: &'static str,
    args: &[Value],
    body: impl FnOnce(&[Value]) -> Value,
) -> Result<Value> {
    let list = Arguments::new(function, args).list(0)?;
    Ok(list.map_or(Value::Null, body))
}

/// Like [`with_list`]; null as the list gives `otherwise`.
fn with_list_or(
    function: &'static str,
    args: &[Value],
    otherwise: Value,
    body: impl FnOnce(&[Value]) -> Value,
) -> Result<Value> {
    let list = Arguments::new(function, args).list(0)?;
    Ok(list.map_or(otherwise, body))
}

/// Two lists; none if one is null.
fn both<'a>(
    function: &'static str,
    args: &'a [Value],
) -> Result<Option<(&'a [Value], &'a [Value])>> {
    let args = Arguments::new(function, args);
    Ok(args.list(0)?.zip(args.list(1)?))
}

/// Calls `body` with two lists; if one is null, the other is the result.
fn with_either(
    function: &'static str,
    args: &[Value],
    body: impl FnOnce(&[Value], &[Value]) -> Value,
) -> Result<Value> {
    let args = Arguments::new(function, args);
    Ok(match (args.list(0)?, args.list(1)?) {
        (Some(list), Some(other)) => body(list, other),
        (Some(_), None) => args.value(0).clone(),
        (None, _) => args.value(1).clone(),
    })
}

/// Calls `body` with two lists; a missing second one is empty.
fn with_lists(
    function: &'static str,
    args: &[Value],
    body: impl FnOnce(&[Value], &[Value]) -> Value,
) -> Result<Value> {
    let args = Arguments::new(function, args);
    let (list, other) = (args.list(0)?, args.list(1)?);
    Ok(list.map_or(Value::Null, |list| body(list, other.unwrap_or_default())))
}

fn numbers(
    function: &'static str,
    args: &[Value],
    body: impl FnOnce(&[f64]) -> f64,
) -> Result<Value> {
    let args = Arguments::new(function, args);
    let Some(list) = args.list(0)?.filter(|list| !list.is_empty()) else {
        return Ok(Value::Null);
    };
    let number = |value: &Value| value.to_f64().ok_or_else(|| args.wrong("numbers", value));
    let all = list.iter().map(number).collect::<Result<Vec<_>>>()?;
    Ok(Value::Float(body(&all)))
}

fn stdev(args: &[Value]) -> Result<Value> {
    let corrected = Arguments::new("apoc.coll.stdev", args).boolean(1)?;
    let deviation = numbers("apoc.coll.stdev", args, |all| {
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        let squares: f64 = all.iter().map(|number| (number - mean).powi(2)).sum();
        let degrees = all.len() - usize::from(corrected && all.len() > 1);
        (squares / degrees as f64).sqrt()
    })?;
    Ok(match deviation {
        Value::Float(number) if (number as i64) as f64 == number => Value::Int(number as i64),
        other => other,
    })
}

fn sum_longs(args: &[Value]) -> Result<Value> {
    let args = Arguments::new("apoc.coll.sumLongs", args);
    let Some(list) = args.list(0)? else {
        return Ok(Value::Null);
    };
    let mut sum = 0_i64;
    for value in list {
        let number = match value {
            Value::Int(number) => *number,
            Value::Float(number) => *number as i64,
            other => return Err(args.wrong("numbers", other)),
        };
        sum = sum
            .checked_add(number)
            .ok_or_else(|| args.invalid("the sum does not fit into 64 bits"))?;
    }
    Ok(Value::Int(sum))
}

fn extreme(list: &[Value], greatest: bool) -> Value {
    let values = list.iter().filter(|value| !value.is_null());
    let found = match greatest {
        true => values.max_by(|a, b| order::cmp_order(a, b)),
        false => values.min_by(|a, b| order::cmp_order(a, b)),
    };
    found.cloned().unwrap_or_default()
}

fn hash(value: &Value) -> u64 {
    let mut state = FxHasher::default();
    equality::hash(value, &mut state);
    0_u8.hash(&mut state);
    state.finish()
}

/// How often each value occurs, with the equality of `DISTINCT`.
struct Counted<'a>(FxHashMap<u64, Vec<(&'a Value, i64)>>);

impl<'a> Counted<'a> {
    fn of(list: &'a [Value]) -> Self {
        let mut counted: FxHashMap<u64, Vec<(&'a Value, i64)>> = FxHashMap::default();
        for value in list {
            let same_hash = counted.entry(hash(value)).or_default();
            let mut known = same_hash.iter_mut();
            match known.find(|(known, _)| equality::equivalent(known, value)) {
                Some((_, count)) => *count += 1,
                None => same_hash.push((value, 1)),
            }
        }
        Self(counted)
    }

    fn count(&self, value: &Value) -> i64 {
        let mut known = self.0.get(&hash(value)).into_iter().flatten();
        known
            .find(|(known, _)| equality::equivalent(known, value))
            .map_or(0, |(_, count)| *count)
    }

    fn has(&self, value: &Value) -> bool {
        self.count(value) > 0
    }
}

/// The distinct elements, in the order of their first occurrence.
pub(super) fn distinct(list: &[Value]) -> Vec<Value> {
    let mut known: FxHashMap<u64, Vec<&Value>> = FxHashMap::default();
    let mut found = Vec::new();
    for value in list {
        let same_hash = known.entry(hash(value)).or_default();
        if !same_hash
            .iter()
            .any(|known| equality::equivalent(known, value))
        {
            same_hash.push(value);
            found.push(value.clone());
        }
    }
    found
}

fn filtered(mut list: Vec<Value>, keep: impl Fn(&Value) -> bool) -> Value {
    list.retain(|value| keep(value));
    list.into()
}

fn position(list: &[Value], wanted: Option<&Value>) -> Option<usize> {
    let wanted = wanted.unwrap_or(&Value::Null);
    list.iter()
        .position(|value| equality::equivalent(value, wanted))
}

fn pairs(list: &[Value], with_last: bool) -> Value {
    let pair = |(at, value): (usize, &Value)| -> Value {
        let next = list.get(at + 1).cloned().unwrap_or_default();
        vec![value.clone(), next].into()
    };
    let count = if with_last {
        list.len()
    } else {
        list.len().saturating_sub(1)
    };
    list.iter().enumerate().take(count).map(pair).collect()
}

fn flatten(args: &[Value]) -> Result<Value> {
    let args = Arguments::new("apoc.coll.flatten", args);
    let Some(list) = args.list(0)? else {
        return Ok(Value::Null);
    };
    let recursive = args.boolean(1)?;
    let mut flat = Vec::new();
    // The values still to come, the next one last: nesting must not recurse.
    let mut rest: Vec<(&Value, bool)> = list.iter().rev().map(|value| (value, true)).collect();
    while let Some((value, opens)) = rest.pop() {
        match value {
            Value::List(items) if opens => {
                rest.extend(items.iter().rev().map(|item| (item, recursive)));
            }
            other => flat.push(other.clone()),
        }
    }
    Ok(flat.into())
}

fn sort_maps(args: &[Value]) -> Result<Value> {
    let args = Arguments::new("apoc.coll.sortMaps", args);
    let (Some(list), Some(property)) = (args.list(0)?, args.text(1)?) else {
        return Ok(Value::empty_list());
    };
    let (property, ascending) = match property.strip_prefix('^') {
        Some(property) => (property, true),
        None => (property, false),
    };
    let entry = |value: &Value| -> Value {
        let entry = value.as_map().and_then(|map| map.get(property));
        entry.cloned().unwrap_or_default()
    };
    let mut sorted = list.to_vec();
    sorted.sort_by(|a, b| {
        let ordering = order::cmp_order(&entry(a), &entry(b));
        if ascending {
            ordering
        } else {
            ordering.reverse()
        }
    });
    Ok(sorted.into())
}

/// A position within a list of `len` elements.
fn place(args: Arguments<'_>, len: usize) -> Result<Option<usize>> {
    let index = args.integer(1)?.unwrap_or(-1);
    Ok(usize::try_from(index).ok().filter(|index| *index <= len))
}

fn remove(args: &[Value]) -> Result<Value> {
    let args = Arguments::new("apoc.coll.remove", args);
    let Some(list) = args.list(0)? else {
        return Ok(Value::Null);
    };
    let count = usize::try_from(args.integer(2)?.unwrap_or(1)).unwrap_or(0);
    let mut left = list.to_vec();
    if let Some(at) = place(args, left.len())? {
        let end = at.saturating_add(count).min(left.len());
        left.drain(at..end);
    }
    Ok(left.into())
}

fn insert(
    function: &'static str,
    args: &[Value],
    values: impl FnOnce(&Value) -> Vec<Value>,
) -> Result<Value> {
    let args = Arguments::new(function, args);
    let Some(list) = args.list(0)? else {
        return Ok(Value::Null);
    };
    let mut longer = list.to_vec();
    if let Some(at) = place(args, longer.len())?
        && !args.value(2).is_null()
    {
        longer.splice(at..at, values(args.value(2)));
    }
    Ok(longer.into())
}

fn set(args: &[Value]) -> Result<Value> {
    let args = Arguments::new("apoc.coll.set", args);
    let Some(list) = args.list(0)? else {
        return Ok(Value::Null);
    };
    let mut changed = list.to_vec();
    // Null leaves the list as it is.
    if let Some(at) = place(args, changed.len())?
        && let Some(element) = changed.get_mut(at)
        && !args.value(2).is_null()
    {
        *element = args.value(2).clone();
    }
    Ok(changed.into())
}

fn fill(args: &[Value]) -> Result<Value> {
    let args = Arguments::new("apoc.coll.fill", args);
    let count = args.integer(1)?.unwrap_or(0);
    if count > MAX_LENGTH {
        return Err(args.invalid(format!("{count} copies are more than {MAX_LENGTH}")));
    }
    let count = usize::try_from(count).unwrap_or(0);
    Ok(vec![args.value(0).clone(); count].into())
}
