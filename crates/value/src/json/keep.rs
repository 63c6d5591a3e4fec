//! Changes of a stored value through JSON: types that JSON cannot express are preserved.
//!
//! A date, a duration or a point reads back from JSON as a string or an object, and `1.0` may come back as `1`. A
//! client that reads a record as JSON, changes a part and sends it back would change the types of what it touched.
//! [`keep_types`] reads the JSON with the stored value as its pattern: each part has the type that it had, or is
//! refused.

use crate::{Crs, Map, Point, Value, ValueError, temporal};

/// The value that `given`, parsed from JSON with its bytes as [`Value::Bytes`], takes in place of `stored`.
///
/// - A part whose JSON equals that of the stored part is unchanged.
/// - A part of a type that JSON cannot express (temporal types, points, infinities) is parsed as that type; an integer
///   is
///   accepted for a float and a float for an integer if no digit is lost.
/// - Maps are compared by name. Lists are compared by index if their lengths are equal; otherwise each element has the
///   one
///   type that all stored elements have, or equals a stored element with the same JSON.
/// - Null is accepted everywhere, and parts without a counterpart in `stored` are taken from the JSON.
///
/// Cost: linear in both values; quadratic in the elements of a list of several types whose length changed.
///
/// # Errors
/// `OtherType` with the path of the part and why it does not fit.
pub fn keep_types(stored: &Value, given: Value) -> Result<Value, ValueError> {
    keep(&[stored], given)
}

/// Like [`keep_types`] for the entries of a map.
///
/// # Errors
/// Like [`keep_types`].
pub fn keep_entry_types(stored: &Map, given: Map) -> Result<Map, ValueError> {
    keep_map(&[stored], given)
}

/// `patterns` are the stored values that the given one may replace. Recursion is bounded by the nesting of stored
/// values.
fn keep(patterns: &[&Value], given: Value) -> Result<Value, ValueError> {
    let patterns: Vec<&Value> = patterns
        .iter()
        .copied()
        .filter(|pattern| !pattern.is_null())
        .collect();
    let Some(first) = patterns.first().copied() else {
        return Ok(given);
    };
    if given.is_null() {
        return Ok(given);
    }
    let type_name = first.type_name();
    if patterns
        .iter()
        .any(|pattern| pattern.type_name() != type_name)
    {
        return mixed(&patterns, given);
    }
    match first {
        Value::Map(_) => {
            let maps: Vec<&Map> = patterns.iter().filter_map(|one| one.as_map()).collect();
            match given {
                Value::Map(given) => keep_map(&maps, (*given).clone()).map(Value::from),
                other => Err(other_type(type_name, &other)),
            }
        }
        Value::List(_) => match given {
            Value::List(given) => keep_list(&patterns, &given),
            other => Err(other_type(type_name, &other)),
        },
        _ => match patterns.iter().find(|one| is_written_as(one, &given)) {
            Some(same) => Ok((*same).clone()),
            None => scalar(first, given),
        },
    }
}

fn keep_map(patterns: &[&Map], given: Map) -> Result<Map, ValueError> {
    let mut kept = Map::new();
    for (name, value) in given {
        let own: Vec<&Value> = patterns.iter().filter_map(|map| map.get(&name)).collect();
        let value = keep(&own, value).map_err(|error| below(error, &name))?;
        kept.insert(name, value);
    }
    Ok(kept)
}

fn keep_list(patterns: &[&Value], given: &[Value]) -> Result<Value, ValueError> {
    let all: Vec<&Value> = patterns
        .iter()
        .filter_map(|pattern| pattern.as_list())
        .flatten()
        .collect();
    let by_place = match patterns {
        [one] => one.as_list().filter(|stored| stored.len() == given.len()),
        _ => None,
    };
    let mut kept = Vec::with_capacity(given.len());
    for (at, value) in given.iter().enumerate() {
        // A null does not constrain the type at its position.
        let own = by_place
            .map(|stored| &stored[at])
            .filter(|own| !own.is_null());
        let value = match own {
            Some(own) => keep(&[own], value.clone()),
            None => keep(&all, value.clone()),
        };
        kept.push(value.map_err(|error| below(error, &format!("[{at}]")))?);
    }
    Ok(kept.into())
}

/// In place of values of several types: a number if all are numbers; what the JSON says if JSON can express all of
/// them; otherwise only the JSON of one of them.
fn mixed(patterns: &[&Value], given: Value) -> Result<Value, ValueError> {
    let mut same = patterns.iter().filter(|one| is_written_as(one, &given));
    match (same.next(), same.next()) {
        (Some(one), None) => return Ok((*one).clone()),
        (Some(one), Some(other)) if one.type_name() == other.type_name() => {
            return Ok((*one).clone());
        }
        (None, _) if patterns.iter().all(|one| has_json_form(one)) => return Ok(given),
        _ => {}
    }
    let mut types: Vec<&str> = patterns.iter().map(|one| one.type_name()).collect();
    types.sort_unstable();
    types.dedup();
    Err(ValueError::OtherType {
        path: String::new(),
        reason: format!(
            "replaces one of several values of the types {}, and it is not clear which: keep the length of the list",
            types.join(", ")
        ),
    })
}

/// Whether JSON can express the value's type.
fn has_json_form(value: &Value) -> bool {
    match value {
        Value::Float(float) => float.is_finite(),
        Value::List(items) => items.iter().all(has_json_form),
        Value::Map(map) => map.iter().all(|(_, value)| has_json_form(value)),
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::String(_) | Value::Bytes(_) => true,
        _ => false,
    }
}

/// Whether a given value is the JSON form of a stored one.
fn is_written_as(stored: &Value, given: &Value) -> bool {
    match (stored, given) {
        (Value::Int(stored), Value::Int(given)) => stored == given,
        (Value::Float(stored), Value::Float(given)) => stored.to_bits() == given.to_bits(),
        (Value::Bool(stored), Value::Bool(given)) => stored == given,
        (Value::String(stored), Value::String(given)) => stored == given,
        (Value::Bytes(stored), Value::Bytes(given)) => stored == given,
        (Value::Float(_) | Value::Point(_), Value::String(_) | Value::Map(_)) => {
            super::to_string(stored)
                .and_then(|text| super::parse(&text))
                .is_ok_and(|shown| shown == *given)
        }
        (Value::List(_) | Value::Map(_), _) => {
            super::to_string(stored).ok() == super::to_string(given).ok()
        }
        (_, Value::String(given)) => temporal::to_text(stored).is_some_and(|text| text == **given),
        _ => false,
    }
}

/// A given value in place of a scalar.
fn scalar(stored: &Value, given: Value) -> Result<Value, ValueError> {
    let type_name = stored.type_name();
    match (stored, given) {
        (Value::Bool(_), given @ Value::Bool(_))
        | (Value::Int(_), given @ Value::Int(_))
        | (Value::Float(_), given @ Value::Float(_))
        | (Value::String(_), given @ Value::String(_))
        | (Value::Bytes(_), given @ Value::Bytes(_)) => Ok(given),
        (Value::Float(_), Value::Int(int)) if int as f64 as i128 == i128::from(int) => {
            Ok(Value::Float(int as f64))
        }
        (Value::Int(_), Value::Float(float))
            if float as i64 as f64 == float && float.abs() < 9e18 =>
        {
            Ok(Value::Int(float as i64))
        }
        (Value::Float(_), Value::String(text)) => match &*text {
            "NaN" => Ok(Value::Float(f64::NAN)),
            "Infinity" => Ok(Value::Float(f64::INFINITY)),
            "-Infinity" => Ok(Value::Float(f64::NEG_INFINITY)),
            _ => Err(other_type(type_name, &Value::String(text))),
        },
        (Value::Point(point), Value::Map(map)) => point_of(**point, &map),
        (stored, Value::String(text)) if temporal::to_text(stored).is_some() => {
            temporal_of(stored, &text)
        }
        (_, other) => Err(other_type(type_name, &other)),
    }
}

fn temporal_of(stored: &Value, text: &str) -> Result<Value, ValueError> {
    let read = |name: &str| {
        let function = temporal::function(name).expect("a function of the language");
        // A function of a text does not read the clock.
        let now = temporal::Now::utc(jiff::Timestamp::UNIX_EPOCH);
        function.call(&[text.into()], &now)
    };
    // A text without a zone would become UTC, which the caller did not write.
    let (name, without_zone) = match stored {
        Value::Date(_) => ("date", None),
        Value::LocalTime(_) => ("localtime", None),
        Value::ZonedTime(_) => ("time", Some("localtime")),
        Value::LocalDateTime(_) => ("localdatetime", None),
        Value::ZonedDateTime(_) => ("datetime", Some("localdatetime")),
        _ => ("duration", None),
    };
    let type_name = stored.type_name();
    let value = read(name).map_err(|error| other(type_name, &error.to_string()))?;
    if without_zone.is_some_and(|local| read(local).is_ok()) {
        let reason = format!("`{text}` has no zone and no offset");
        return Err(other(type_name, &reason));
    }
    Ok(value)
}

fn point_of(stored: Point, map: &Map) -> Result<Value, ValueError> {
    let wrong = |reason: String| other("POINT", &reason);
    let known = ["crs", "x", "y", "z"];
    if let Some((name, _)) = map.iter().find(|(name, _)| !known.contains(&&***name)) {
        return Err(wrong(format!("`{name}` is none of crs, x, y and z")));
    }
    let crs = match map.get("crs") {
        None => stored.crs,
        Some(name) => name.as_str().and_then(Crs::from_name).ok_or_else(|| {
            wrong("`crs` is none of wgs-84, wgs-84-3d, cartesian, cartesian-3d".into())
        })?,
    };
    let coordinate = |name: &str| match map.get(name) {
        Some(Value::Float(float)) => Ok(Some(*float)),
        Some(Value::Int(int)) if *int as f64 as i128 == i128::from(*int) => Ok(Some(*int as f64)),
        Some(Value::Int(_)) => Err(wrong(format!("`{name}` has more digits than a float"))),
        None => Ok(None),
        Some(_) => Err(wrong(format!("`{name}` is not a number"))),
    };
    let (x, y, z) = (coordinate("x")?, coordinate("y")?, coordinate("z")?);
    let (Some(x), Some(y)) = (x, y) else {
        return Err(wrong("`x` and `y` are needed".into()));
    };
    if z.is_some() != crs.has_z() {
        let count = if crs.has_z() { 3 } else { 2 };
        return Err(wrong(format!(
            "a point of {} has {count} coordinates",
            crs.name()
        )));
    }
    let z = z.unwrap_or(0.0);
    let point = Point { crs, x, y, z };
    if !point.is_in_range() {
        return Err(wrong(
            "longitude is within ±180 and latitude within ±90 degrees".into(),
        ));
    }
    Ok(Value::Point(point.into()))
}

fn other_type(type_name: &str, given: &Value) -> ValueError {
    let shown = super::to_string(given).unwrap_or_default();
    let short: String = shown.chars().take(60).collect();
    let more = if short.len() < shown.len() { "…" } else { "" };
    other(
        type_name,
        &format!("{short}{more} is a {}", given.type_name()),
    )
}

fn other(type_name: &str, reason: &str) -> ValueError {
    ValueError::OtherType {
        path: String::new(),
        reason: format!("has the type {type_name}: {reason}"),
    }
}

/// The error with one more step before its path.
fn below(error: ValueError, step: &str) -> ValueError {
    match error {
        ValueError::OtherType { path, reason } => {
            let dot = if path.is_empty() || path.starts_with('[') {
                ""
            } else {
                "."
            };
            ValueError::OtherType {
                path: format!("{step}{dot}{path}"),
                reason,
            }
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(name: &str, text: &str) -> Value {
        let now = temporal::Now::utc(jiff::Timestamp::UNIX_EPOCH);
        temporal::function(name)
            .expect("it is")
            .call(&[text.into()], &now)
            .expect("a value")
    }

    fn samples() -> Vec<Value> {
        vec![
            read("date", "2026-01-01"),
            read("localtime", "10:00"),
            read("time", "10:00+02:00"),
            read("localdatetime", "2026-01-01T10:00"),
            read("datetime", "2026-10-25T02:30+01:00[Europe/Rome]"),
            read("duration", "P1M2DT3.5S"),
            Value::Point(
                Point {
                    crs: Crs::Wgs84,
                    x: 8.5,
                    y: 47.0,
                    z: 0.0,
                }
                .into(),
            ),
            Value::Point(
                Point {
                    crs: Crs::Cartesian3d,
                    x: 1.0,
                    y: 2.0,
                    z: 3.0,
                }
                .into(),
            ),
            Value::Int(9_007_199_254_740_993),
            Value::Float(1.0),
            Value::Float(f64::INFINITY),
            Value::Bool(true),
            "2026-01-01".into(),
            vec![1u8, 2].into(),
        ]
    }

    fn given(text: &str) -> Value {
        super::super::parse(text).expect("JSON")
    }

    #[test]
    fn a_changed_text_has_the_stored_type() {
        for (stored, text, wanted) in [
            (
                read("date", "2026-01-01"),
                "\"2026-05-05\"",
                read("date", "2026-05-05"),
            ),
            (
                read("time", "10:00Z"),
                "\"11:00+02:00\"",
                read("time", "11:00+02:00"),
            ),
            (
                read("datetime", "2026-01-01T10:00Z"),
                "\"2026-05-05T10:00+02:00[Europe/Rome]\"",
                read("datetime", "2026-05-05T10:00+02:00[Europe/Rome]"),
            ),
            (
                read("duration", "P1D"),
                "\"PT2H\"",
                read("duration", "PT2H"),
            ),
            (Value::Float(1.0), "2", Value::Float(2.0)),
            (
                Value::Float(1.5),
                "\"-Infinity\"",
                Value::Float(f64::NEG_INFINITY),
            ),
            (Value::Int(1), "2.0", Value::Int(2)),
            (
                Value::Int(1),
                "9007199254740993",
                Value::Int(9_007_199_254_740_993),
            ),
            (
                Value::Point(
                    Point {
                        crs: Crs::Wgs84,
                        x: 1.0,
                        y: 2.0,
                        z: 0.0,
                    }
                    .into(),
                ),
                "{\"crs\": \"wgs-84\", \"x\": 3, \"y\": 4.5}",
                Value::Point(
                    Point {
                        crs: Crs::Wgs84,
                        x: 3.0,
                        y: 4.5,
                        z: 0.0,
                    }
                    .into(),
                ),
            ),
        ] {
            assert_eq!(
                keep_types(&stored, given(text)).expect(text),
                wanted,
                "{text}"
            );
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_with_its_path() {
        for (stored, text, part) in [
            (read("date", "2026-01-01"), "\"soon\"", "type DATE: "),
            (read("date", "2026-01-01"), "\"2026-02-30\"", "type DATE: "),
            (
                read("date", "2026-01-01"),
                "20260505",
                "20260505 is a INTEGER",
            ),
            (
                read("datetime", "2026-01-01T10:00Z"),
                "\"2026-05-05T10:00\"",
                "no zone",
            ),
            (read("time", "10:00Z"), "\"10:00\"", "no zone"),
            (Value::Int(1), "1.5", "type INTEGER: 1.5"),
            (Value::Int(1), "\"1\"", "type INTEGER: \"1\""),
            (Value::Float(1.0), "9007199254740993", "type FLOAT: "),
            (Value::Float(1.0), "\"one\"", "type FLOAT: "),
            (Value::Bool(true), "1", "type BOOLEAN: "),
            ("5".into(), "5", "type STRING: "),
            (vec![1u8].into(), "\"AQ==\"", "type BYTES: "),
            (Value::empty_list(), "{}", "type LIST: "),
            (
                Value::Point(
                    Point {
                        crs: Crs::Wgs84,
                        x: 1.0,
                        y: 2.0,
                        z: 0.0,
                    }
                    .into(),
                ),
                "{\"x\": 1, \"y\": 91}",
                "within ±90",
            ),
            (
                Value::Point(
                    Point {
                        crs: Crs::Cartesian,
                        x: 1.0,
                        y: 2.0,
                        z: 0.0,
                    }
                    .into(),
                ),
                "{\"x\": 1}",
                "`x` and `y`",
            ),
        ] {
            let error = keep_types(&stored, given(text))
                .expect_err(text)
                .to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
        let stored: Map = [(
            "a",
            Value::from(vec![
                Map::from_iter([("due", read("date", "2026-01-01"))]).into(),
                Value::Null,
            ]),
        )]
        .into_iter()
        .collect();
        let wrong = given("{\"a\": [{\"due\": \"2026-01-01\"}, {\"due\": \"no\"}]}");
        let error =
            keep_entry_types(&stored, wrong.as_map().expect("a map").clone()).expect_err("no date");
        assert!(
            error
                .to_string()
                .starts_with("`a[1].due` has the type DATE: "),
            "{error}"
        );
    }

    #[test]
    fn lists_keep_the_types_of_their_elements() {
        let dates: Value = vec![
            read("date", "2026-01-01"),
            Value::Null,
            read("date", "2026-01-03"),
        ]
        .into();
        let kept = keep_types(&dates, given("[\"2026-01-03\", \"2026-01-04\"]")).expect("dates");
        assert_eq!(
            kept,
            vec![read("date", "2026-01-03"), read("date", "2026-01-04")].into()
        );
        let kept = keep_types(
            &dates,
            given("[\"2026-01-01\", \"2026-01-02\", \"2026-01-09\"]"),
        )
        .expect("dates");
        assert_eq!(
            kept.as_list().expect("a list")[1],
            read("date", "2026-01-02")
        );
        assert!(keep_types(&dates, given("[\"2026-01-01\", \"x\"]")).is_err());
        // Of several types: by index, or one that is known.
        let mixed: Value = vec![read("date", "2026-01-01"), "a".into(), Value::Int(1)].into();
        let kept = keep_types(&mixed, given("[\"2026-02-01\", \"b\", 2]")).expect("by place");
        assert_eq!(
            kept,
            vec![read("date", "2026-02-01"), "b".into(), Value::Int(2)].into()
        );
        let kept = keep_types(&mixed, given("[1, \"2026-01-01\"]")).expect("known ones");
        assert_eq!(kept, vec![Value::Int(1), read("date", "2026-01-01")].into());
        let error = keep_types(&mixed, given("[\"2026-01-05\"]"))
            .expect_err("which one")
            .to_string();
        assert!(error.contains("DATE, INTEGER, STRING"), "{error}");
        let plain: Value = vec![Value::Int(1), "a".into()].into();
        assert_eq!(
            keep_types(&plain, given("[true]")).expect("plain"),
            vec![Value::Bool(true)].into()
        );
    }

    /// Values of every type, nested.
    fn value() -> impl Strategy<Value = Value> {
        prop::sample::select(samples()).prop_recursive(4, 40, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::vec(("[a-c]", inner), 0..5).prop_map(|entries| entries
                    .into_iter()
                    .map(|(name, value)| (std::sync::Arc::from(name), value))
                    .collect::<Map>()
                    .into()),
            ]
        })
    }

    proptest! {
        /// JSON that is read and sent back unchanged gives the stored value.
        #[test]
        fn unchanged_json_is_the_stored_value(stored in value()) {
            let shown = typed(super::super::parse(&super::super::to_string(&stored).unwrap()).unwrap());
            prop_assert_eq!(keep_types(&stored, shown).unwrap(), stored);
        }

        /// For any input, each part has the stored type, or the input is refused.
        #[test]
        fn types_are_kept_or_refused(stored in value(), other in value()) {
            let shown = typed(super::super::parse(&super::super::to_string(&other).unwrap()).unwrap());
            if let Ok(kept) = keep_types(&stored, shown) {
                prop_assert!(same_types(&stored, &kept), "{stored:?} became {kept:?}");
            }
        }
    }

    /// Bytes as parsed by readers of JSON for storage from `{"$bytes": …}`; here two of them.
    fn typed(value: Value) -> Value {
        match value {
            Value::Map(map) if map.contains("$bytes") => vec![1u8, 2].into(),
            Value::Map(map) => map
                .iter()
                .map(|(name, value)| (name.clone(), typed(value.clone())))
                .collect::<Map>()
                .into(),
            Value::List(items) => items.iter().cloned().map(typed).collect::<Vec<_>>().into(),
            other => other,
        }
    }

    fn same_types(stored: &Value, kept: &Value) -> bool {
        match (stored, kept) {
            (Value::Map(stored), Value::Map(kept)) => kept.iter().all(|(name, value)| {
                stored
                    .get(name)
                    .is_none_or(|stored| same_types(stored, value))
            }),
            (Value::List(stored), Value::List(kept)) if stored.len() == kept.len() => stored
                .iter()
                .zip(kept.iter())
                .all(|(stored, kept)| same_types(stored, kept)),
            (Value::List(_), Value::List(_)) => true,
            _ => stored.type_name() == kept.type_name(),
        }
    }
}
