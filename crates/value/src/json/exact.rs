//! A lossless JSON form for values of every type.
//!
//! Plain JSON cannot express dates, times, durations, points, NaN and infinities: [`write`](super::write) converts them
//! to strings and objects. Here each of them is an object with one member that names its type:
//!
//! | value | JSON |
//! |---|---|
//! | date, times, date-times, duration | `{"$date": "2024-02-29"}`, `$localtime`, `$time`, `$localdatetime`, `$datetime`, `$duration` |
//! | point | `{"$point": {"crs": "cartesian", "x": 1.0, "y": 2.0}}` |
//! | NaN, infinities | `{"$float": "NaN"}`, `Infinity`, `-Infinity` |
//! | bytes | `{"$bytes": "<base64, padded>"}`, as ever |
//! | map whose only key is one of these | `{"$map": {…}}` |
//!
//! An object of another form is a map, so that JSON of other programs is read unchanged.

use std::sync::Arc;

use base64::{Engine, prelude::BASE64_STANDARD};

use crate::{Crs, Map, Point, Value, ZonedDateTime, temporal};

const TAGS: [&str; 10] = [
    "$bytes",
    "$date",
    "$datetime",
    "$duration",
    "$float",
    "$localdatetime",
    "$localtime",
    "$map",
    "$point",
    "$time",
];

/// The value with tagged objects in place of types that plain JSON cannot express; to be written as JSON.
pub fn to_exact(value: &Value) -> Value {
    let tag = match value {
        Value::Float(number) if !number.is_finite() => "$float",
        Value::Date(_) => "$date",
        Value::LocalTime(_) => "$localtime",
        Value::ZonedTime(_) => "$time",
        Value::LocalDateTime(_) => "$localdatetime",
        Value::ZonedDateTime(_) => "$datetime",
        Value::Duration(_) => "$duration",
        Value::Point(_) => "$point",
        Value::List(items) => return items.iter().map(to_exact).collect(),
        Value::Map(map) => {
            let inner: Map = map
                .iter()
                .map(|(name, value)| (name.clone(), to_exact(value)))
                .collect();
            return match tag_of(map) {
                Some(_) => tagged("$map", inner.into()),
                None => inner.into(),
            };
        }
        plain => return plain.clone(),
    };
    match temporal::to_text(value) {
        Some(text) => tagged(tag, text.into()),
        // Points and floats are written as they always are.
        None => tagged(tag, value.clone()),
    }
}

/// The inverse of [`to_exact`], for the parsed JSON.
pub fn from_exact(value: Value) -> Value {
    match value {
        Value::List(items) => Arc::unwrap_or_clone(items)
            .into_iter()
            .map(from_exact)
            .collect(),
        Value::Map(map) => match tag_of(&map) {
            Some((tag, inner)) => untagged(tag, inner).unwrap_or_else(|| inner_exact(&map)),
            None => inner_exact(&map),
        },
        plain => plain,
    }
}

fn inner_exact(map: &Map) -> Value {
    let entries = map.iter();
    let exact = entries.map(|(name, value)| (name.clone(), from_exact(value.clone())));
    exact.collect::<Map>().into()
}

fn tagged(tag: &'static str, value: Value) -> Value {
    Map::from_iter([(tag, value)]).into()
}

fn tag_of(map: &Map) -> Option<(&'static str, &Value)> {
    let (name, value) = map.iter().next().filter(|_| map.len() == 1)?;
    let tag = TAGS.into_iter().find(|tag| **tag == **name)?;
    Some((tag, value))
}

fn untagged(tag: &str, value: &Value) -> Option<Value> {
    Some(match (tag, value) {
        ("$map", Value::Map(map)) => inner_exact(map),
        ("$point", Value::Map(map)) => point(map)?.into(),
        ("$float", Value::String(text)) => Value::Float(match &**text {
            "NaN" => f64::NAN,
            "Infinity" => f64::INFINITY,
            "-Infinity" => f64::NEG_INFINITY,
            _ => return None,
        }),
        // Only as it is written: with padding, and with zeros in the unused bits.
        ("$bytes", Value::String(text)) => BASE64_STANDARD.decode(&**text).ok()?.into(),
        ("$date", Value::String(text)) => temporal::date_of_text(text).ok()?.into(),
        ("$localtime", Value::String(text)) => temporal::local_time_of_text(text).ok()?.into(),
        ("$time", Value::String(text)) => temporal::zoned_time_of_text(text).ok()?.into(),
        ("$localdatetime", Value::String(text)) => {
            temporal::local_date_time_of_text(text).ok()?.into()
        }
        ("$datetime", Value::String(text)) => text.parse::<ZonedDateTime>().ok()?.into(),
        ("$duration", Value::String(text)) => temporal::duration_of_text(text).ok()?.into(),
        _ => return None,
    })
}

/// The point of a JSON object: `crs`, `x`, `y`, and `z` if the system has three coordinates. None for a point that the
/// language refuses, and where a coordinate is an integer that a double would round.
pub fn point(map: &Map) -> Option<Point> {
    let crs = Crs::from_name(map.get("crs")?.as_str()?)?;
    let coordinate = |name| match map.get(name)? {
        Value::Int(number) => {
            Some(*number as f64).filter(|float| *float as i128 == i128::from(*number))
        }
        value => value.to_f64().filter(|number| number.is_finite()),
    };
    let count = if crs.has_z() { 4 } else { 3 };
    (map.len() == count).then_some(())?;
    let point = Point {
        crs,
        x: coordinate("x")?,
        y: coordinate("y")?,
        z: if crs.has_z() { coordinate("z")? } else { 0.0 },
    };
    point.is_in_range().then_some(point)
}
