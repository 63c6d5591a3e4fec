//! One value inside a record, self-delimiting:
//!
//! ```text
//! 00 null   01 false   02 true
//! 03 float            8 bytes, little-endian; exact, NaN included
//! 04, 05, 06, 07 integer of 1, 2, 4, 8 bytes, little-endian, signed
//! 08 string           varint length, UTF-8
//! 09 bytes            varint length, bytes
//! 0a list             varint length of the rest in bytes, varint number of items, items
//! 0b map              varint length of the rest in bytes, varint number of entries, each varint property id and value,
//!                     ids ascending
//! 0c date             i16 year, u8 month, u8 day
//! 0d local time       6 bytes: nanoseconds since midnight
//! 0e zoned time       6 bytes as above, i32 offset in seconds
//! 0f local date-time  date, time as above
//! 10 zoned date-time  i64 seconds since 1970 UTC, u32 nanoseconds, i32 offset in seconds, varint length, zone name
//! 11 duration         zigzag varints: months, days, seconds; u32 nanoseconds
//! 12 point            u8 system, x, y and, where the system has it, z: 8 bytes each
//! 40-7f string        of 0 to 63 bytes, UTF-8
//! 80-ff integer       -32 to 95
//! ```
//! All fixed-width integers are little-endian.

use std::sync::Arc;

use jiff::{civil, tz::Offset};

use super::format::WHAT;
use crate::{
    Crs, Duration, Interner, Map, Names, Point, PropId, Value, ValueError, ZonedTime,
    bytes::{Reader, put_varint, put_zigzag},
    limits::{MAX_NESTING, deeper},
    temporal::{
        clock::{NANOS_PER_SECOND, nanos_of_day, time_of_nanos},
        parts::{ZonedParts, zoned_of_parts, zoned_parts},
    },
};

const NULL: u8 = 0x00;
const FALSE: u8 = 0x01;
const TRUE: u8 = 0x02;
const FLOAT: u8 = 0x03;
const INT_8: u8 = 0x04;
const INT_16: u8 = 0x05;
const INT_32: u8 = 0x06;
const INT_64: u8 = 0x07;
const STRING: u8 = 0x08;
const BYTES: u8 = 0x09;
const LIST: u8 = 0x0a;
const MAP: u8 = 0x0b;
const DATE: u8 = 0x0c;
const LOCAL_TIME: u8 = 0x0d;
const ZONED_TIME: u8 = 0x0e;
const LOCAL_DATE_TIME: u8 = 0x0f;
const ZONED_DATE_TIME: u8 = 0x10;
const DURATION: u8 = 0x11;
const POINT: u8 = 0x12;
const SHORT_STRING: u8 = 0x40;
const SHORT_STRING_MAX: usize = 0x3f;
const SMALL_INT: u8 = 0x80;
const SMALL_INT_MIN: i64 = -32;
const SMALL_INT_MAX: i64 = 95;

/// Appends one encoded value. On an error `out` is unchanged.
///
/// # Errors
/// `NotStorable` for nodes, relationships and paths at any depth, `TooDeep`, and errors of `interner`.
pub fn encode_value(
    value: &Value,
    interner: &mut dyn Interner,
    out: &mut Vec<u8>,
) -> Result<(), ValueError> {
    let start = out.len();
    put(value, interner, out, MAX_NESTING).inspect_err(|_| out.truncate(start))
}

fn put(
    value: &Value,
    interner: &mut dyn Interner,
    out: &mut Vec<u8>,
    depth_left: usize,
) -> Result<(), ValueError> {
    match value {
        Value::Null => out.push(NULL),
        Value::Bool(false) => out.push(FALSE),
        Value::Bool(true) => out.push(TRUE),
        Value::Int(int) => put_int(*int, out),
        Value::Float(float) => {
            out.push(FLOAT);
            out.extend(float.to_le_bytes());
        }
        Value::String(text) => put_string(text, out),
        Value::Bytes(bytes) => {
            out.push(BYTES);
            put_varint(out, bytes.len() as u64);
            out.extend(&**bytes);
        }
        Value::List(items) => {
            let depth_left = deeper(depth_left)?;
            out.push(LIST);
            put_sized(out, |out| {
                put_varint(out, items.len() as u64);
                items
                    .iter()
                    .try_for_each(|item| put(item, interner, out, depth_left))
            })?;
        }
        Value::Map(map) => {
            let depth_left = deeper(depth_left)?;
            let mut entries = Vec::with_capacity(map.len());
            for (name, value) in map.iter() {
                entries.push((interner.intern(name)?, value));
            }
            entries.sort_unstable_by_key(|(prop, _)| *prop);
            out.push(MAP);
            put_sized(out, |out| {
                put_varint(out, entries.len() as u64);
                entries.iter().try_for_each(|(prop, value)| {
                    put_varint(out, prop.0.into());
                    put(value, interner, out, depth_left)
                })
            })?;
        }
        Value::Date(date) => {
            out.push(DATE);
            put_date(*date, out);
        }
        Value::LocalTime(time) => {
            out.push(LOCAL_TIME);
            put_time(*time, out);
        }
        Value::ZonedTime(zoned) => {
            out.push(ZONED_TIME);
            put_time(zoned.time, out);
            out.extend(zoned.offset.seconds().to_le_bytes());
        }
        Value::LocalDateTime(date_time) => {
            out.push(LOCAL_DATE_TIME);
            put_date(date_time.date(), out);
            put_time(date_time.time(), out);
        }
        Value::ZonedDateTime(zoned) => {
            let parts = zoned_parts(zoned);
            out.push(ZONED_DATE_TIME);
            out.extend(parts.seconds.to_le_bytes());
            out.extend(parts.nanos.to_le_bytes());
            out.extend(parts.offset.to_le_bytes());
            put_varint(out, parts.zone.len() as u64);
            out.extend(parts.zone.as_bytes());
        }
        Value::Duration(duration) => {
            out.push(DURATION);
            put_zigzag(out, duration.months);
            put_zigzag(out, duration.days);
            put_zigzag(out, duration.seconds);
            out.extend(duration.nanos.to_le_bytes());
        }
        Value::Point(point) => {
            out.extend([POINT, point.crs as u8]);
            out.extend(point.x.to_le_bytes());
            out.extend(point.y.to_le_bytes());
            if point.crs.has_z() {
                out.extend(point.z.to_le_bytes());
            }
        }
        Value::Node(_) | Value::Relationship(_) | Value::Path(_) => {
            return Err(ValueError::NotStorable {
                type_name: value.type_name(),
            });
        }
    }
    Ok(())
}

/// Writes the body that `body` produces, preceded by its length. Nearly all bodies are short: one byte is
/// reserved for the length, and longer bodies are moved.
fn put_sized(
    out: &mut Vec<u8>,
    body: impl FnOnce(&mut Vec<u8>) -> Result<(), ValueError>,
) -> Result<(), ValueError> {
    let at = out.len();
    out.push(0);
    body(out)?;
    let mut length = Vec::with_capacity(5);
    put_varint(&mut length, (out.len() - at - 1) as u64);
    out.splice(at..=at, length);
    Ok(())
}

fn put_int(int: i64, out: &mut Vec<u8>) {
    let bytes = int.to_le_bytes();
    if (SMALL_INT_MIN..=SMALL_INT_MAX).contains(&int) {
        out.push(SMALL_INT + (int - SMALL_INT_MIN) as u8);
        return;
    }
    let (tag, width) = if i8::try_from(int).is_ok() {
        (INT_8, 1)
    } else if i16::try_from(int).is_ok() {
        (INT_16, 2)
    } else if i32::try_from(int).is_ok() {
        (INT_32, 4)
    } else {
        (INT_64, 8)
    };
    out.push(tag);
    out.extend(&bytes[..width]);
}

fn put_string(text: &str, out: &mut Vec<u8>) {
    if text.len() <= SHORT_STRING_MAX {
        out.push(SHORT_STRING + text.len() as u8);
    } else {
        out.push(STRING);
        put_varint(out, text.len() as u64);
    }
    out.extend(text.as_bytes());
}

fn put_date(date: civil::Date, out: &mut Vec<u8>) {
    out.extend(date.year().to_le_bytes());
    out.extend([date.month() as u8, date.day() as u8]);
}

fn put_time(time: civil::Time, out: &mut Vec<u8>) {
    out.extend(&nanos_of_day(time).to_le_bytes()[..6]);
}

/// Decodes bytes that [`encode_value`] wrote.
///
/// # Errors
/// `Corrupt` if the bytes are not exactly one value, or `names` lacks a name.
#[inline]
pub fn decode_value(bytes: &[u8], names: &dyn Names) -> Result<Value, ValueError> {
    let mut reader = Reader::new(bytes, WHAT);
    let value = take(&mut reader, names, MAX_NESTING)?;
    if reader.is_at_end() {
        Ok(value)
    } else {
        Err(reader.corrupt("bytes follow a value"))
    }
}

fn take(
    reader: &mut Reader<'_>,
    names: &dyn Names,
    depth_left: usize,
) -> Result<Value, ValueError> {
    Ok(match reader.u8()? {
        tag @ SMALL_INT.. => Value::Int(i64::from(tag - SMALL_INT) + SMALL_INT_MIN),
        tag @ SHORT_STRING..SMALL_INT => {
            Value::String(take_str(reader, (tag - SHORT_STRING).into())?.into())
        }
        NULL => Value::Null,
        FALSE => Value::Bool(false),
        TRUE => Value::Bool(true),
        FLOAT => Value::Float(f64::from_le_bytes(reader.array()?)),
        INT_8 => Value::Int(i8::from_le_bytes(reader.array()?).into()),
        INT_16 => Value::Int(i16::from_le_bytes(reader.array()?).into()),
        INT_32 => Value::Int(i32::from_le_bytes(reader.array()?).into()),
        INT_64 => Value::Int(i64::from_le_bytes(reader.array()?)),
        STRING => {
            let length = reader.length()?;
            Value::String(take_str(reader, length)?.into())
        }
        BYTES => {
            let length = reader.length()?;
            Value::Bytes(reader.take(length)?.into())
        }
        LIST => take_list(reader, names, deeper(depth_left)?)?,
        MAP => take_map(reader, names, deeper(depth_left)?)?,
        DATE => Value::Date(take_date(reader)?),
        LOCAL_TIME => Value::LocalTime(take_time(reader)?),
        ZONED_TIME => {
            let time = take_time(reader)?;
            let offset = Offset::from_seconds(i32::from_le_bytes(reader.array()?))
                .map_err(|_| reader.corrupt("an offset is out of range"))?;
            Value::ZonedTime(ZonedTime { time, offset })
        }
        LOCAL_DATE_TIME => {
            let date = take_date(reader)?;
            Value::LocalDateTime(date.to_datetime(take_time(reader)?))
        }
        ZONED_DATE_TIME => take_zoned(reader)?,
        DURATION => take_duration(reader)?,
        POINT => take_point(reader)?,
        _ => return Err(reader.corrupt("no value starts with this byte")),
    })
}

/// Validates one value, so that [`decode_value`] cannot fail afterwards; `named` returns whether a property
/// has a name. Returns whether the result is permanent: a named time zone is looked up at each decoding, and
/// may be missing by then.
pub(super) fn check_value(
    bytes: &[u8],
    named: &dyn Fn(PropId) -> Result<(), ValueError>,
) -> Result<bool, ValueError> {
    let mut reader = Reader::new(bytes, WHAT);
    let lasts = check(&mut reader, named, MAX_NESTING)?;
    if reader.is_at_end() {
        Ok(lasts)
    } else {
        Err(reader.corrupt("bytes follow a value"))
    }
}

/// Like [`take`], without constructing values.
fn check(
    reader: &mut Reader<'_>,
    named: &dyn Fn(PropId) -> Result<(), ValueError>,
    depth_left: usize,
) -> Result<bool, ValueError> {
    let width = match reader.u8()? {
        SMALL_INT.. | NULL | FALSE | TRUE => 0,
        tag @ SHORT_STRING..SMALL_INT => {
            return check_str(reader, (tag - SHORT_STRING).into());
        }
        INT_8 => 1,
        INT_16 => 2,
        INT_32 => 4,
        INT_64 | FLOAT => 8,
        STRING => {
            let length = reader.length()?;
            return check_str(reader, length);
        }
        BYTES => reader.length()?,
        LIST => {
            let depth_left = deeper(depth_left)?;
            let (mut body, count) = take_body(reader)?;
            let mut lasts = true;
            for _ in 0..count {
                lasts &= check(&mut body, named, depth_left)?;
            }
            return if body.is_at_end() {
                Ok(lasts)
            } else {
                Err(body.corrupt("bytes follow a list"))
            };
        }
        MAP => {
            let depth_left = deeper(depth_left)?;
            let (mut body, count) = take_body(reader)?;
            let (mut last, mut lasts) = (None, true);
            for _ in 0..count {
                let prop = PropId(body.varint_u32()?);
                if last.replace(prop) >= Some(prop) {
                    return Err(body.corrupt("the names of a map are not sorted"));
                }
                named(prop)?;
                lasts &= check(&mut body, named, depth_left)?;
            }
            return if body.is_at_end() {
                Ok(lasts)
            } else {
                Err(body.corrupt("bytes follow a map"))
            };
        }
        // The rarer types are constructed and dropped; none of them contains a name or another value.
        tag => {
            reader.back();
            return take(reader, &NoNames, depth_left).map(|_| tag != ZONED_DATE_TIME);
        }
    };
    reader.take(width).map(|_| true)
}

struct NoNames;

impl Names for NoNames {
    fn name(&self, _prop: PropId) -> Option<Arc<str>> {
        None
    }
}

/// Like [`take_str`]. Most strings are short and ASCII, which is a faster check.
fn check_str(reader: &mut Reader<'_>, length: usize) -> Result<bool, ValueError> {
    let bytes = reader.take(length)?;
    if !bytes.is_ascii() && str::from_utf8(bytes).is_err() {
        return Err(reader.corrupt("a string is not UTF-8"));
    }
    Ok(true)
}

fn take_str<'a>(reader: &mut Reader<'a>, length: usize) -> Result<&'a str, ValueError> {
    str::from_utf8(reader.take(length)?).map_err(|_| reader.corrupt("a string is not UTF-8"))
}

/// The body of a list or map in a separate reader, and the number of entries: each takes at least one byte.
fn take_body<'a>(reader: &mut Reader<'a>) -> Result<(Reader<'a>, usize), ValueError> {
    let length = reader.length()?;
    let mut body = Reader::new(reader.take(length)?, WHAT);
    let count = body.length()?;
    Ok((body, count))
}

fn take_list(
    reader: &mut Reader<'_>,
    names: &dyn Names,
    depth_left: usize,
) -> Result<Value, ValueError> {
    let (mut body, count) = take_body(reader)?;
    let mut items = Vec::with_capacity(count.min(1024));
    for _ in 0..count {
        items.push(take(&mut body, names, depth_left)?);
    }
    if body.is_at_end() {
        Ok(Value::from(items))
    } else {
        Err(body.corrupt("bytes follow a list"))
    }
}

fn take_map(
    reader: &mut Reader<'_>,
    names: &dyn Names,
    depth_left: usize,
) -> Result<Value, ValueError> {
    let (mut body, count) = take_body(reader)?;
    let mut entries: Vec<(Arc<str>, Value)> = Vec::with_capacity(count.min(1024));
    let mut last = None;
    for _ in 0..count {
        let prop = PropId(body.varint_u32()?);
        if last.replace(prop) >= Some(prop) {
            return Err(body.corrupt("the names of a map are not sorted"));
        }
        let name = names
            .name(prop)
            .ok_or_else(|| body.corrupt("a property has no name"))?;
        entries.push((name, take(&mut body, names, depth_left)?));
    }
    if !body.is_at_end() {
        return Err(body.corrupt("bytes follow a map"));
    }
    Ok(Value::from(entries.into_iter().collect::<Map>()))
}

fn take_date(reader: &mut Reader<'_>) -> Result<civil::Date, ValueError> {
    let year = i16::from_le_bytes(reader.array()?);
    let [month, day] = reader.array::<2>()?.map(|part| part as i8);
    civil::Date::new(year, month, day).map_err(|_| reader.corrupt("there is no such day"))
}

fn take_time(reader: &mut Reader<'_>) -> Result<civil::Time, ValueError> {
    let mut wide = [0; 8];
    wide[..6].copy_from_slice(&reader.array::<6>()?);
    time_of_nanos(i64::from_le_bytes(wide))
        .ok_or_else(|| reader.corrupt("a time is longer than a day"))
}

fn take_zoned(reader: &mut Reader<'_>) -> Result<Value, ValueError> {
    let seconds = i64::from_le_bytes(reader.array()?);
    let nanos = u32::from_le_bytes(reader.array()?);
    let offset = i32::from_le_bytes(reader.array()?);
    let length = reader.length()?;
    let zone = take_str(reader, length)?;
    if i64::from(nanos) >= NANOS_PER_SECOND {
        return Err(reader.corrupt("a second has too many nanoseconds"));
    }
    zoned_of_parts(ZonedParts {
        seconds,
        nanos,
        offset,
        zone,
    })
    .map(Value::from)
    .ok_or_else(|| reader.corrupt("a date-time is out of range"))
}

fn take_duration(reader: &mut Reader<'_>) -> Result<Value, ValueError> {
    let (months, days, seconds) = (reader.zigzag()?, reader.zigzag()?, reader.zigzag()?);
    let nanos = i32::from_le_bytes(reader.array()?);
    if !(0..NANOS_PER_SECOND).contains(&nanos.into()) {
        return Err(reader.corrupt("a second has too many nanoseconds"));
    }
    Ok(Value::from(Duration {
        months,
        days,
        seconds,
        nanos,
    }))
}

fn take_point(reader: &mut Reader<'_>) -> Result<Value, ValueError> {
    let crs = reader.u8()?;
    let crs = Crs::ALL
        .into_iter()
        .find(|known| *known as u8 == crs)
        .ok_or_else(|| reader.corrupt("a point's system is unknown"))?;
    let mut coordinate = || reader.array().map(f64::from_le_bytes);
    let (x, y) = (coordinate()?, coordinate()?);
    let z = if crs.has_z() { coordinate()? } else { 0.0 };
    Ok(Value::from(Point { crs, x, y, z }))
}

/// Result of looking up a path of names through nested maps.
#[derive(Clone, Debug)]
pub enum AtPath {
    /// A value.
    Value(Value),
    /// No value: an element is missing or null.
    Missing,
    /// An element leads into a value that is not a map.
    NoMap,
}

/// The value at `path` inside an encoded value; the value itself for the empty path.
///
/// # Errors
/// `Corrupt` if the bytes along the path are damaged.
pub fn decode_at_path(
    mut raw: &[u8],
    path: &[PropId],
    names: &dyn Names,
) -> Result<AtPath, ValueError> {
    for step in path {
        match raw.first() {
            Some(&MAP) => match map_entry(raw, *step)? {
                Some(entry) => raw = entry,
                None => return Ok(AtPath::Missing),
            },
            Some(&NULL) => return Ok(AtPath::Missing),
            _ => return Ok(AtPath::NoMap),
        }
    }
    match decode_value(raw, names)? {
        Value::Null => Ok(AtPath::Missing),
        value => Ok(AtPath::Value(value)),
    }
}

/// The encoded value under `wanted` in an encoded map; `None` if it is missing or `raw` is not a map.
pub(super) fn map_entry(raw: &[u8], wanted: PropId) -> Result<Option<&[u8]>, ValueError> {
    let mut reader = Reader::new(raw, WHAT);
    if reader.u8()? != MAP {
        return Ok(None);
    }
    let length = reader.length()?;
    let body = reader.take(length)?;
    let mut reader = Reader::new(body, WHAT);
    for _ in 0..reader.length()? {
        let prop = PropId(reader.varint_u32()?);
        let start = reader.position();
        skip(&mut reader)?;
        if prop == wanted {
            return Ok(Some(&body[start..reader.position()]));
        }
        if prop > wanted {
            break;
        }
    }
    Ok(None)
}

/// Skips one value without decoding it.
fn skip(reader: &mut Reader<'_>) -> Result<(), ValueError> {
    let length = match reader.u8()? {
        SMALL_INT.. | NULL | FALSE | TRUE => 0,
        tag @ SHORT_STRING..SMALL_INT => (tag - SHORT_STRING).into(),
        INT_8 => 1,
        INT_16 => 2,
        INT_32 | DATE => 4,
        INT_64 | FLOAT => 8,
        STRING | BYTES | LIST | MAP => reader.length()?,
        LOCAL_TIME => 6,
        ZONED_TIME | LOCAL_DATE_TIME => 10,
        ZONED_DATE_TIME => {
            reader.take(16)?;
            reader.length()?
        }
        DURATION => {
            for _ in 0..3 {
                reader.varint()?;
            }
            4
        }
        POINT => match reader.u8()? {
            crs if crs == Crs::Wgs84Height as u8 || crs == Crs::Cartesian3d as u8 => 24,
            _ => 16,
        },
        _ => return Err(reader.corrupt("no value starts with this byte")),
    };
    reader.take(length).map(drop)
}
