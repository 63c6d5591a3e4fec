//! Points and distances.

use isomer_plan::function::Function as Builtin;
use isomer_value::{Crs, Map, Point, Value};

use super::{
    body::{Function, strict, wrong},
    environment::Environment,
};
use crate::error::{ExecError, Result, shown};

pub(super) fn find(function: Builtin) -> Option<Function> {
    match function {
        Builtin::Point => strict(point),
        Builtin::PointDistance | Builtin::Distance => strict(distance),
        _ => None,
    }
}

fn point(args: &[Value], _: &dyn Environment) -> Result<Value> {
    let map = match &args[0] {
        Value::Map(map) => map,
        Value::Point(_) => return Ok(args[0].clone()),
        other => {
            return Err(wrong(
                "point",
                "a map such as {x: 1, y: 2} or {longitude: 8.5, latitude: 47.4}",
                other,
            ));
        }
    };
    // As in Neo4j: a missing coordinate means fewer dimensions, a null coordinate makes the point unknown.
    if map.values().any(Value::is_null) {
        return Ok(Value::Null);
    }
    let declared = match (map.get("srid"), map.get("crs")) {
        (Some(Value::Int(srid)), _) => {
            Some(Crs::from_srid(*srid).ok_or_else(|| unknown_crs(&srid.to_string()))?)
        }
        (_, Some(Value::String(name))) => {
            Some(Crs::from_name(name).ok_or_else(|| unknown_crs(name))?)
        }
        (None, None) => None,
        (srid, crs) => {
            return Err(wrong(
                "point",
                "an integer srid or a string crs",
                srid.or(crs).unwrap_or(&Value::Null),
            ));
        }
    };
    let geographic = map.contains("longitude") || map.contains("latitude");
    let (first, second, third) = if geographic {
        ("longitude", "latitude", "height")
    } else {
        ("x", "y", "z")
    };
    let (Some(x), Some(y)) = (coordinate(map, first)?, coordinate(map, second)?) else {
        return Err(ExecError::type_error(format!(
            "point() needs `{first}` and `{second}`"
        )));
    };
    let z = match coordinate(map, third)? {
        Some(z) => Some(z),
        None => coordinate(map, "z")?,
    };
    let crs = match (declared, geographic, z.is_some()) {
        (Some(crs), _, _) => crs,
        (None, true, false) => Crs::Wgs84,
        (None, true, true) => Crs::Wgs84Height,
        (None, false, false) => Crs::Cartesian,
        (None, false, true) => Crs::Cartesian3d,
    };
    if crs.has_z() != z.is_some() {
        return Err(ExecError::type_error(format!(
            "points of {} have {} coordinates",
            crs.name(),
            if crs.has_z() { 3 } else { 2 }
        )));
    }
    if is_geographic(crs) && (!(-180.0..=180.0).contains(&x) || !(-90.0..=90.0).contains(&y)) {
        return Err(ExecError::out_of_range(format!(
            "longitude {x} must be within ±180 and latitude {y} within ±90 degrees"
        )));
    }
    Ok(Value::from(Point {
        crs,
        x,
        y,
        z: z.unwrap_or(0.0),
    }))
}

fn unknown_crs(name: &str) -> ExecError {
    ExecError::out_of_range(format!(
        "point() does not know the coordinate system {name}: use {}",
        Crs::ALL
            .map(|crs| format!("{} ({})", crs.name(), crs.srid()))
            .join(", ")
    ))
}

fn coordinate(map: &Map, name: &str) -> Result<Option<f64>> {
    match map.get(name) {
        None => Ok(None),
        Some(Value::Int(i)) => Ok(Some(*i as f64)),
        Some(Value::Float(f)) if f.is_finite() => Ok(Some(*f)),
        Some(other) => Err(ExecError::type_error(format!(
            "the coordinate `{name}` is a finite number, not {}",
            shown(other)
        ))),
    }
}

fn is_geographic(crs: Crs) -> bool {
    matches!(crs, Crs::Wgs84 | Crs::Wgs84Height)
}

/// Metres over the earth's surface (haversine on the mean radius of WGS 84), or the straight line; null for different
/// coordinate systems.
fn distance(args: &[Value], _: &dyn Environment) -> Result<Value> {
    let point = |value: &Value| match value {
        Value::Point(point) => Ok(**point),
        other => Err(wrong("distance", "two points", other)),
    };
    let (a, b) = (point(&args[0])?, point(&args[1])?);
    Ok(point_distance(&a, &b).map_or(Value::Null, Value::Float))
}

/// The result of the function `distance`; none for different coordinate systems.
pub(crate) fn point_distance(a: &Point, b: &Point) -> Option<f64> {
    if a.crs != b.crs {
        return None;
    }
    let rise = a.z - b.z;
    if !is_geographic(a.crs) {
        return Some((a.x - b.x).hypot(a.y - b.y).hypot(rise));
    }
    const EARTH_RADIUS_M: f64 = 6_378_140.0;
    let half_sine = |degrees: f64| (degrees.to_radians() / 2.0).sin().powi(2);
    let h = half_sine(b.y - a.y)
        + a.y.to_radians().cos() * b.y.to_radians().cos() * half_sine(b.x - a.x);
    let radius = EARTH_RADIUS_M + (a.z + b.z) / 2.0;
    Some((2.0 * radius * h.sqrt().min(1.0).asin()).hypot(rise))
}

/// `point.name`; none for other values.
pub(super) fn field(value: &Value, name: &str) -> Option<Result<Value>> {
    let Value::Point(point) = value else {
        return None;
    };
    Some(Ok(match name {
        "x" => Value::Float(point.x),
        "y" => Value::Float(point.y),
        "z" if point.crs.has_z() => Value::Float(point.z),
        "longitude" if is_geographic(point.crs) => Value::Float(point.x),
        "latitude" if is_geographic(point.crs) => Value::Float(point.y),
        "height" if is_geographic(point.crs) && point.crs.has_z() => Value::Float(point.z),
        "srid" => Value::Int(point.crs.srid()),
        "crs" => Value::from(point.crs.name()),
        _ => Value::Null,
    }))
}
