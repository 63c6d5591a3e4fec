//! Structures of values: nodes, relationships, paths, dates, times, durations, points.
//!
//! | tag | structure | fields |
//! |---|---|---|
//! | `N` | node | id, labels, properties, element id (5.0) |
//! | `R` | relationship | id, start, end, type, properties; element ids of it, of start and end (5.0) |
//! | `r` | relationship in a path | id, type, properties, element id (5.0) |
//! | `P` | path | nodes, relationships, indices |
//! | `D` | date | days since 1970-01-01 |
//! | `t` `T` | time, without and with an offset | nanoseconds since midnight; seconds ahead of UTC |
//! | `d` | date and time without a zone | seconds since 1970-01-01T00:00, nanoseconds |
//! | `I` `i` | the same with an offset, with a zone | seconds since 1970 UTC, nanoseconds, seconds ahead of UTC or the zone's name |
//! | `F` `f` | before 5.0, unless the patch `utc` is agreed on | as `I` and `i`, the seconds in local time of the zone |
//! | `E` | duration | months, days, seconds, nanoseconds |
//! | `X` `Y` | point of 2 and of 3 coordinates | the number of the system, the coordinates |
//!
//! Ids and element ids are what `id()` and `elementId()` give.

use isomer_db::{Node, Path, Point, Relationship, Value};
use isomer_value::{
    Crs, Duration, Element, NodeId, RelId, ZonedDateTime, ZonedTime,
    jiff::{
        civil,
        tz::{Offset, TimeZone},
    },
};
use rustc_hash::FxHashMap;

use super::packstream::{ParseResult, Writer, malformed, refused};

/// Encodings that differ between versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forms {
    /// Whether nodes and relationships carry element ids.
    pub element_ids: bool,
    /// Whether instants are encoded in UTC.
    pub utc: bool,
}

const NANOS_PER_SECOND: i64 = 1_000_000_000;
const SECONDS_PER_DAY: i64 = 86_400;

/// Converts a structure to a value.
pub(super) fn read(tag: u8, fields: &[Value]) -> ParseResult<Value> {
    use Value::{Float, Int, String};
    Ok(match (tag, fields) {
        (b'D', [Int(days)]) => date(*days)?.into(),
        (b't', [Int(nanos)]) => time(*nanos)?.into(),
        (b'T', [Int(nanos), Int(ahead)]) => ZonedTime {
            time: time(*nanos)?,
            offset: offset(*ahead)?,
        }
        .into(),
        (b'd', [Int(seconds), Int(nanos)]) => local(*seconds, *nanos)?.into(),
        (b'I', [Int(seconds), Int(nanos), Int(ahead)]) => {
            zoned(*seconds, *nanos, TimeZone::fixed(offset(*ahead)?))?.into()
        }
        (b'i', [Int(seconds), Int(nanos), String(name)]) => {
            zoned(*seconds, *nanos, zone(name)?)?.into()
        }
        (b'F', [Int(seconds), Int(nanos), Int(ahead)]) => {
            ZonedDateTime::of_offset(local(*seconds, *nanos)?, offset(*ahead)?).into()
        }
        (b'f', [Int(seconds), Int(nanos), String(name)]) => {
            match ZonedDateTime::of_local(local(*seconds, *nanos)?, zone(name)?) {
                Ok(zoned) => zoned.into(),
                Err(_) => return out_of_range("a date-time"),
            }
        }
        (b'E', [Int(months), Int(days), Int(seconds), Int(nanos)]) => {
            match Duration::new(*months, *days, *seconds, *nanos) {
                Some(duration) => duration.into(),
                None => return out_of_range("a duration"),
            }
        }
        (b'X', [Int(srid), Float(x), Float(y)]) => point(*srid, *x, *y, None)?,
        (b'Y', [Int(srid), Float(x), Float(y), Float(z)]) => point(*srid, *x, *y, Some(*z))?,
        (b'N' | b'R' | b'r' | b'P', _) => {
            return refused(
                "nodes, relationships and paths cannot be parameters: pass their key, id or properties",
            );
        }
        _ => {
            return malformed(format!(
                "invalid structure {tag:02X} of {} such fields",
                fields.len()
            ));
        }
    })
}

fn out_of_range<T>(what: &str) -> ParseResult<T> {
    refused(format!(
        "{what} is out of range: years must be -9999 to 9999, seconds and days must fit 64 bits"
    ))
}

/// The date `days` after 1970-01-01, in the proleptic Gregorian calendar: whole cycles of 400 years (146,097 days),
/// then years that begin in March, so that the leap day is the last one.
fn date(days: i64) -> ParseResult<civil::Date> {
    if !(-5_000_000..5_000_000).contains(&days) {
        return out_of_range("a date");
    }
    let shifted = days + 719_468;
    let (cycle, day) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = cycle * 400 + year + i64::from(month <= 2);
    let made = i16::try_from(year)
        .ok()
        .and_then(|year| civil::Date::new(year, month as i8, of_month as i8).ok());
    made.map_or_else(|| out_of_range("a date"), Ok)
}

/// The inverse of [`date`].
fn days(date: civil::Date) -> i64 {
    let (month, day) = (i64::from(date.month()), i64::from(date.day()));
    let year = i64::from(date.year()) - i64::from(month <= 2);
    let (cycle, of_cycle) = (year.div_euclid(400), year.rem_euclid(400));
    let from_march = (month + 9) % 12;
    let of_year = (153 * from_march + 2) / 5 + day - 1;
    cycle * 146_097 + of_cycle * 365 + of_cycle / 4 - of_cycle / 100 + of_year - 719_468
}

fn time(nanos: i64) -> ParseResult<civil::Time> {
    if !(0..SECONDS_PER_DAY * NANOS_PER_SECOND).contains(&nanos) {
        return refused(format!(
            "invalid time of {nanos} nanoseconds: expected 0 to 86399999999999"
        ));
    }
    let seconds = nanos / NANOS_PER_SECOND;
    // All parts are in range, as the whole is.
    Ok(civil::time(
        (seconds / 3600) as i8,
        (seconds / 60 % 60) as i8,
        (seconds % 60) as i8,
        (nanos % NANOS_PER_SECOND) as i32,
    ))
}

fn nanos(time: civil::Time) -> i64 {
    seconds(time) * NANOS_PER_SECOND + i64::from(time.subsec_nanosecond())
}

fn seconds(time: civil::Time) -> i64 {
    i64::from(time.hour()) * 3600 + i64::from(time.minute()) * 60 + i64::from(time.second())
}

fn offset(ahead: i64) -> ParseResult<Offset> {
    let made = i32::try_from(ahead)
        .ok()
        .and_then(|ahead| Offset::from_seconds(ahead).ok());
    made.map_or_else(
        || refused(format!("invalid offset from UTC: {ahead} seconds")),
        Ok,
    )
}

fn subsecond(nanos: i64) -> ParseResult<i32> {
    match i32::try_from(nanos) {
        Ok(nanos @ 0..1_000_000_000) => Ok(nanos),
        _ => refused(format!(
            "invalid nanoseconds {nanos} of a second: expected 0 to 999999999"
        )),
    }
}

fn local(seconds: i64, nanos: i64) -> ParseResult<civil::DateTime> {
    let day = date(seconds.div_euclid(SECONDS_PER_DAY))?;
    let of_day = seconds.rem_euclid(SECONDS_PER_DAY) * NANOS_PER_SECOND;
    Ok(day.to_datetime(time(of_day + i64::from(subsecond(nanos)?))?))
}

fn zoned(seconds: i64, nanos: i64, zone: TimeZone) -> ParseResult<ZonedDateTime> {
    let nanos = subsecond(nanos)?.unsigned_abs();
    ZonedDateTime::of_epoch(seconds, nanos, zone).or_else(|_| out_of_range("a date-time"))
}

fn zone(name: &str) -> ParseResult<TimeZone> {
    match TimeZone::get(name) {
        Ok(zone) if zone.iana_name().is_some() => Ok(zone),
        _ => refused(format!(
            "the time zone `{}` is unknown: use an IANA name such as Europe/Rome, or an offset",
            name.chars().take(60).collect::<String>()
        )),
    }
}

fn point(srid: i64, x: f64, y: f64, z: Option<f64>) -> ParseResult<Value> {
    let Some(crs) = Crs::from_srid(srid).filter(|crs| crs.has_z() == z.is_some()) else {
        return refused(format!(
            "invalid coordinate system {srid} for this number of coordinates: 4326 and 7203 have two, 4979 and 9157 three"
        ));
    };
    let z = z.unwrap_or_default();
    // As `point()` does.
    if ![x, y, z].into_iter().all(f64::is_finite) {
        return refused("the coordinates of a point must be finite numbers");
    }
    let on_earth = matches!(crs, Crs::Wgs84 | Crs::Wgs84Height);
    if on_earth && !(x.abs() <= 180.0 && y.abs() <= 90.0) {
        return refused(format!(
            "longitude {x} must be within ±180 and latitude {y} within ±90 degrees"
        ));
    }
    Ok(Point { crs, x, y, z }.into())
}

/// Writes a value that is a structure.
pub(super) fn write(writer: &mut Writer<'_>, value: &Value, depth: usize) {
    match value {
        Value::Node(node) => write_node(writer, node, depth),
        Value::Relationship(rel) => write_relationship(writer, rel, depth),
        Value::Path(path) => write_path(writer, path, depth),
        Value::Date(date) => {
            writer.structure(b'D', 1);
            writer.integer(days(*date));
        }
        Value::LocalTime(time) => {
            writer.structure(b't', 1);
            writer.integer(nanos(*time));
        }
        Value::ZonedTime(zoned) => {
            writer.structure(b'T', 2);
            writer.integer(nanos(zoned.time));
            writer.integer(i64::from(zoned.offset.seconds()));
        }
        Value::LocalDateTime(local) => {
            writer.structure(b'd', 2);
            writer.integer(days(local.date()) * SECONDS_PER_DAY + seconds(local.time()));
            writer.integer(i64::from(local.subsec_nanosecond()));
        }
        Value::ZonedDateTime(zoned) => write_zoned(writer, zoned),
        Value::Duration(duration) => {
            writer.structure(b'E', 4);
            writer.integer(duration.months);
            writer.integer(duration.days);
            writer.integer(duration.seconds);
            writer.integer(i64::from(duration.nanos));
        }
        Value::Point(point) => {
            let has_z = point.crs.has_z();
            writer.structure(if has_z { b'Y' } else { b'X' }, 3 + u8::from(has_z));
            writer.integer(point.crs.srid());
            writer.float(point.x);
            writer.float(point.y);
            if has_z {
                writer.float(point.z);
            }
        }
        // Not structures: written by the writer itself.
        plain => writer.value_at(plain, depth),
    }
}

fn write_zoned(writer: &mut Writer<'_>, zoned: &ZonedDateTime) {
    let utc = writer.forms().utc;
    let (whole, fraction) = (zoned.epoch_seconds(), zoned.subsec_nanosecond());
    let ahead = i64::from(zoned.offset().seconds());
    let named = zoned.zone_name();
    writer.structure(
        match (utc, named) {
            (true, None) => b'I',
            (true, Some(_)) => b'i',
            (false, None) => b'F',
            (false, Some(_)) => b'f',
        },
        3,
    );
    writer.integer(if utc { whole } else { whole + ahead });
    writer.integer(fraction.into());
    match named {
        Some(name) => writer.text(name),
        None => writer.integer(ahead),
    }
}

/// Dense 64-bit ids; the highest bit is never used.
fn number(writer: &mut Writer<'_>, id: u64) {
    writer.integer(id.cast_signed());
}

fn element_id(writer: &mut Writer<'_>, element: Element, id: u64) {
    if writer.forms().element_ids {
        writer.text(writer.database().element_id(element, id).as_str());
    }
}

/// Number of fields of a structure with as many element ids.
fn fields(writer: &Writer<'_>, plain: u8, element_ids: u8) -> u8 {
    plain + element_ids * u8::from(writer.forms().element_ids)
}

fn write_node(writer: &mut Writer<'_>, node: &Node, depth: usize) {
    writer.structure(b'N', fields(writer, 3, 1));
    number(writer, node.id.0);
    match &node.content {
        Some(content) => {
            writer.list(content.labels.len());
            for label in content.labels.iter() {
                writer.text(label);
            }
            writer.dictionary(content.properties.len());
            for (name, value) in content.properties.iter() {
                writer.text(name);
                writer.value_at(value, depth + 1);
            }
        }
        None => {
            writer.list(0);
            writer.dictionary(0);
        }
    }
    element_id(writer, Element::Node, node.id.0);
}

fn write_content(writer: &mut Writer<'_>, rel: &Relationship, depth: usize) {
    match &rel.content {
        Some(content) => {
            writer.text(&content.type_name);
            writer.dictionary(content.properties.len());
            for (name, value) in content.properties.iter() {
                writer.text(name);
                writer.value_at(value, depth + 1);
            }
        }
        None => {
            writer.text("");
            writer.dictionary(0);
        }
    }
}

fn write_relationship(writer: &mut Writer<'_>, rel: &Relationship, depth: usize) {
    writer.structure(b'R', fields(writer, 5, 3));
    for id in [rel.id.0, rel.source.0, rel.target.0] {
        number(writer, id);
    }
    write_content(writer, rel, depth);
    element_id(writer, Element::Relationship, rel.id.0);
    for end in [rel.source, rel.target] {
        element_id(writer, Element::Node, end.0);
    }
}

/// Each node and relationship once, then the path: for each step the 1-based index of the relationship, negative if
/// traversed against its direction, and the 0-based index of the node.
fn write_path(writer: &mut Writer<'_>, path: &Path, depth: usize) {
    let mut nodes: Vec<&Node> = Vec::new();
    let mut node_at: FxHashMap<NodeId, i64> = FxHashMap::default();
    for node in &path.nodes {
        node_at.entry(node.id).or_insert_with(|| {
            nodes.push(node);
            nodes.len() as i64 - 1
        });
    }
    let mut rels: Vec<&Relationship> = Vec::new();
    let mut rel_at: FxHashMap<RelId, i64> = FxHashMap::default();
    for rel in &path.relationships {
        rel_at.entry(rel.id).or_insert_with(|| {
            rels.push(rel);
            rels.len() as i64
        });
    }
    writer.structure(b'P', 3);
    writer.list(nodes.len());
    for node in nodes {
        write_node(writer, node, depth + 1);
    }
    writer.list(rels.len());
    for rel in rels {
        writer.structure(b'r', fields(writer, 3, 1));
        number(writer, rel.id.0);
        write_content(writer, rel, depth + 1);
        element_id(writer, Element::Relationship, rel.id.0);
    }
    writer.list(2 * path.relationships.len());
    for (rel, ends) in path.relationships.iter().zip(path.nodes.windows(2)) {
        let forwards = rel.source == ends[0].id && rel.target == ends[1].id;
        let at = rel_at[&rel.id];
        writer.integer(if forwards { at } else { -at });
        writer.integer(node_at[&ends[1].id]);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn days_are_counted_by_the_calendar() {
        let epoch = civil::date(1970, 1, 1);
        let (first, last) = (
            days(civil::date(-9999, 1, 1)),
            days(civil::date(9999, 12, 31)),
        );
        for day in (first..=last).step_by(97).chain([first, last, -1, 0, 1]) {
            let date = date(day).unwrap();
            assert_eq!(days(date), day, "{date}");
            let since = epoch.until(date).unwrap().get_days();
            assert_eq!(i64::from(since), day, "{date}");
        }
        for beyond in [first - 1, last + 1, i64::MIN, i64::MAX] {
            assert!(date(beyond).is_err(), "{beyond}");
        }
    }

    #[test]
    fn out_of_range_values_are_refused() {
        use crate::bolt::packstream::Unreadable;
        let int = Value::Int;
        for (tag, fields) in [
            (b't', vec![int(-1)]),
            (b't', vec![int(86_400_000_000_000)]),
            (b'T', vec![int(0), int(1_000_000)]),
            (b'd', vec![int(i64::MAX), int(0)]),
            (b'd', vec![int(0), int(-1)]),
            (b'I', vec![int(0), int(1_000_000_000), int(0)]),
            (b'F', vec![int(i64::MIN), int(0), int(3_600)]),
            (b'i', vec![int(0), int(0), "Europe/Atlantis".into()]),
            (b'i', vec![int(0), int(0), "../../etc/passwd".into()]),
            (b'E', vec![int(0), int(0), int(i64::MAX), int(i64::MAX)]),
            (b'X', vec![int(1), Value::Float(0.0), Value::Float(0.0)]),
            (
                b'X',
                vec![int(4326), Value::Float(500.0), Value::Float(0.0)],
            ),
            (
                b'X',
                vec![int(4326), Value::Float(0.0), Value::Float(-90.5)],
            ),
            (
                b'Y',
                vec![
                    int(4979),
                    Value::Float(-180.1),
                    Value::Float(0.0),
                    Value::Float(1.0),
                ],
            ),
            (
                b'X',
                vec![int(7203), Value::Float(f64::NAN), Value::Float(0.0)],
            ),
            (
                b'Y',
                vec![
                    int(9157),
                    Value::Float(0.0),
                    Value::Float(0.0),
                    Value::Float(f64::INFINITY),
                ],
            ),
            (b'N', vec![int(1)]),
        ] {
            assert!(
                matches!(read(tag, &fields), Err(Unreadable::Refused(_))),
                "{} {fields:?}",
                tag as char
            );
        }
        assert!(matches!(
            read(b'D', &["today".into()]),
            Err(Unreadable::Malformed(_))
        ));
    }

    #[test]
    fn a_path_lists_each_node_once_and_directions_by_sign() {
        let node = |id| Node::new(NodeId(id));
        let rel = |id, source, target| {
            Relationship::new(
                RelId(id),
                isomer_value::TypeId(0),
                NodeId(source),
                NodeId(target),
            )
        };
        // (4)-[10]->(6)-[10]-(4)<-[11]-(1): forward, back over the same relationship, and against the next.
        let path = Path {
            nodes: vec![node(4), node(6), node(4), node(1)],
            relationships: vec![rel(10, 4, 6), rel(10, 4, 6), rel(11, 1, 4)],
        };
        let mut bytes = Vec::new();
        let forms = Forms {
            element_ids: false,
            utc: true,
        };
        Writer::new(&mut bytes, forms).value(&Value::Path(Arc::new(path)));
        let indices = [0x96, 0x01, 0x01, 0xff, 0x00, 0xfe, 0x02];
        assert!(bytes.ends_with(&indices), "{bytes:02X?}");
        assert_eq!(bytes[..3], [0xb3, b'P', 0x93]);
    }
}
