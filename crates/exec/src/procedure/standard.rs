//! Functions of Neo4j's language that are registered rather than built into the planner: no rule of it knows them.

use isomer_plan::expr::StaticType;
use isomer_value::{Crs, Value};

use super::{
    Registry,
    table::{FunctionRow, register_functions},
};
use crate::error::{ErrorClass, ExecError, Result, shown};

const FUNCTIONS: &[FunctionRow] = &[
    FunctionRow::new(
        "vector.similarity.cosine",
        "a: LIST?, b: LIST?",
        StaticType::Any,
        "the cosine of the angle between two vectors as a similarity from 0 to 1",
        |args| {
            similarity("vector.similarity.cosine", args, |a, b| {
                let length = |vector: &[f64]| vector.iter().map(|x| x * x).sum::<f64>().sqrt();
                let product: f64 = a.iter().zip(b).map(|(x, y)| x * y).sum();
                (1.0 + product / (length(a) * length(b))) / 2.0
            })
        },
    ),
    FunctionRow::new(
        "vector.similarity.euclidean",
        "a: LIST?, b: LIST?",
        StaticType::Any,
        "the Euclidean distance of two vectors as a similarity from 0 to 1",
        |args| {
            similarity("vector.similarity.euclidean", args, |a, b| {
                let squares: f64 = a.iter().zip(b).map(|(x, y)| (x - y).powi(2)).sum();
                1.0 / (1.0 + squares)
            })
        },
    ),
    FunctionRow::new(
        "point.withinBBox",
        "point: ANY, lowerLeft: ANY, upperRight: ANY",
        StaticType::Any,
        "whether a point is within the box of two corners; null for different coordinate systems",
        within_box,
    ),
    FunctionRow::new(
        "trim.both",
        "text: STRING?, character: STRING? = ' '",
        StaticType::Any,
        "the text without a character at both ends: trim(BOTH character FROM text)",
        |args| {
            trimmed("trim(BOTH …)", args, |text, character| {
                text.trim_matches(character)
            })
        },
    ),
    FunctionRow::new(
        "trim.leading",
        "text: STRING?, character: STRING? = ' '",
        StaticType::Any,
        "the text without a character at its start: trim(LEADING character FROM text)",
        |args| {
            trimmed("trim(LEADING …)", args, |text, character| {
                text.trim_start_matches(character)
            })
        },
    ),
    FunctionRow::new(
        "trim.trailing",
        "text: STRING?, character: STRING? = ' '",
        StaticType::Any,
        "the text without a character at its end: trim(TRAILING character FROM text)",
        |args| {
            trimmed("trim(TRAILING …)", args, |text, character| {
                text.trim_end_matches(character)
            })
        },
    ),
    FunctionRow::new(
        "character_length",
        "text: STRING?",
        StaticType::Any,
        "the number of characters",
        |args| match args.first() {
            Some(Value::String(text)) => Ok(Value::Int(text.chars().count() as i64)),
            Some(Value::Null) | None => Ok(Value::Null),
            Some(other) => Err(ExecError::type_error(format!(
                "character_length() takes a string, not {}",
                shown(other)
            ))),
        },
    ),
];

/// Registers the functions.
pub(super) fn register(registry: &mut Registry) {
    register_functions(registry, FUNCTIONS);
}

fn invalid(function: &str, why: String) -> ExecError {
    let message = format!("{function}(): {why}");
    ExecError::raised(ErrorClass::ArgumentError, "InvalidArgumentValue", message)
}

fn similarity(
    function: &'static str,
    args: &[Value],
    of: impl FnOnce(&[f64], &[f64]) -> f64,
) -> Result<Value> {
    let [Value::List(a), Value::List(b)] = args else {
        return Ok(Value::Null);
    };
    let numbers = |list: &[Value]| {
        let numbers = list.iter().map(|value| {
            value.to_f64().ok_or_else(|| {
                invalid(
                    function,
                    format!("a vector has numbers, not {}", shown(value)),
                )
            })
        });
        numbers.collect::<Result<Vec<f64>>>()
    };
    let (a, b) = (numbers(a)?, numbers(b)?);
    if a.len() != b.len() || a.is_empty() {
        return Err(invalid(
            function,
            format!(
                "vectors of {} and {} numbers have no similarity: give two of the same length, at least 1",
                a.len(),
                b.len()
            ),
        ));
    }
    let similarity = of(&a, &b);
    match similarity.is_finite() {
        true => Ok(Value::Float(similarity)),
        false => Err(invalid(
            function,
            "a vector of zeros, or with numbers that are not finite, has no similarity".into(),
        )),
    }
}

fn within_box(args: &[Value]) -> Result<Value> {
    let [Value::Point(point), Value::Point(low), Value::Point(high)] = args else {
        return match args
            .iter()
            .find(|value| !matches!(value, Value::Point(_) | Value::Null))
        {
            Some(other) => Err(ExecError::type_error(format!(
                "point.withinBBox() takes points, not {}",
                shown(other)
            ))),
            None => Ok(Value::Null),
        };
    };
    if point.crs != low.crs || point.crs != high.crs {
        return Ok(Value::Null);
    }
    let between = |value: f64, low: f64, high: f64| (low..=high).contains(&value);
    // A box whose western edge is east of its eastern one spans the 180th meridian.
    let spans = matches!(point.crs, Crs::Wgs84 | Crs::Wgs84Height) && low.x > high.x;
    let within_x = match spans {
        true => point.x >= low.x || point.x <= high.x,
        false => between(point.x, low.x, high.x),
    };
    let within_z = !point.crs.has_z() || between(point.z, low.z, high.z);
    Ok(Value::Bool(
        within_x && between(point.y, low.y, high.y) && within_z,
    ))
}

fn trimmed(function: &str, args: &[Value], trim: impl FnOnce(&str, char) -> &str) -> Result<Value> {
    let [Value::String(text), Value::String(character)] = args else {
        return match args
            .iter()
            .find(|value| !matches!(value, Value::String(_) | Value::Null))
        {
            Some(other) => Err(ExecError::type_error(format!(
                "{function} takes strings, not {}",
                shown(other)
            ))),
            None => Ok(Value::Null),
        };
    };
    let mut letters = character.chars();
    match (letters.next(), letters.next()) {
        (Some(character), None) => Ok(trim(text, character).into()),
        _ => Err(invalid(
            function,
            format!("`{character}` is not one character"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use isomer_value::Point;

    use super::*;

    fn call(name: &str, args: &[Value]) -> Result<Value> {
        let row = FUNCTIONS.iter().find(|row| row.name == name);
        (row.expect("the function is in the table").body)(args)
    }

    fn vector(numbers: &[f64]) -> Value {
        numbers.iter().copied().map(Value::Float).collect()
    }

    /// The vectors have the squares 77 and 77, the product 66, and the squared distance 22.
    #[test]
    fn vectors_are_compared() {
        let (a, b) = (vector(&[4.0, 5.0, 6.0]), vector(&[2.0, 8.0, 3.0]));
        let euclidean = call("vector.similarity.euclidean", &[a.clone(), b.clone()]);
        assert_eq!(euclidean.expect("a number"), Value::Float(1.0 / 23.0));
        let cosine = call("vector.similarity.cosine", &[a.clone(), b]).expect("a number");
        let cosine = cosine.to_f64().expect("a number");
        assert!((cosine - 13.0 / 14.0).abs() < 1e-12, "{cosine}");
        let same = call("vector.similarity.cosine", &[a.clone(), a.clone()]).expect("a number");
        assert!((same.to_f64().expect("a number") - 1.0).abs() < 1e-12);
        assert!(call("vector.similarity.cosine", &[a.clone(), vector(&[1.0])]).is_err());
        assert!(
            call(
                "vector.similarity.cosine",
                &[vector(&[0.0]), vector(&[0.0])]
            )
            .is_err()
        );
        let null = call("vector.similarity.cosine", &[a, Value::Null]);
        assert_eq!(null.expect("null"), Value::Null);
    }

    #[test]
    fn boxes_contain_their_edges_and_may_span_the_meridian() {
        let point = |crs, x, y| Value::Point(Arc::new(Point { crs, x, y, z: 0.0 }));
        let within = |crs, x: f64, low: f64, high: f64| {
            let args = [
                point(crs, x, 1.0),
                point(crs, low, 0.0),
                point(crs, high, 1.0),
            ];
            call("point.withinBBox", &args).expect("points")
        };
        assert_eq!(within(Crs::Cartesian, 1.0, 0.0, 1.0), true.into());
        assert_eq!(within(Crs::Cartesian, 1.5, 0.0, 1.0), false.into());
        assert_eq!(within(Crs::Wgs84, -179.0, 170.0, -170.0), true.into());
        assert_eq!(within(Crs::Wgs84, 0.0, 170.0, -170.0), false.into());
        let mixed = [
            point(Crs::Wgs84, 0.0, 0.0),
            point(Crs::Cartesian, 0.0, 0.0),
            point(Crs::Cartesian, 1.0, 1.0),
        ];
        assert_eq!(
            call("point.withinBBox", &mixed).expect("points"),
            Value::Null
        );
    }

    #[test]
    fn characters_are_trimmed() {
        let trim = |name: &str, character: &str| {
            call(name, &["xaxx".into(), character.into()]).map_err(|error| error.to_string())
        };
        assert_eq!(trim("trim.both", "x"), Ok("a".into()));
        assert_eq!(trim("trim.leading", "x"), Ok("axx".into()));
        assert_eq!(trim("trim.trailing", "x"), Ok("xa".into()));
        assert!(trim("trim.both", "xy").is_err());
        let length = call("character_length", &["añ".into()]);
        assert_eq!(length.expect("a number"), Value::Int(2));
    }
}
