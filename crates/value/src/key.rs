//! The order-preserving key codec: byte order of encoded values is [`cmp_order`](crate::order::cmp_order).
//!
//! Each encoded value is self-delimiting, so that composite keys are concatenations and any bytes may follow.
//! Equivalent values have equal bytes: `1` and `1.0`, the two zeros, every NaN. Decoding yields one
//! representative, the integer if there is one; a caller that needs the number's type reads the record.
//!
//! Layout, a tag byte and then:
//!
//! ```text
//! 08 map              u32 number of entries, big-endian; every name (as text below), then every value
//! 10 list             the items, each with its tag; 00
//! 18 point            u8 system, then x, y, z as ordered doubles (8 bytes each)
//! 20 zoned date-time  i64 seconds since 1970 UTC, u32 nanoseconds, i32 offset in seconds, zone name as text
//! 22 local date-time  date and local time as below
//! 24 date             u16 year + 32768, u8 month, u8 day
//! 26 zoned time       i64 nanoseconds since midnight UTC (may leave the day), i32 offset in seconds
//! 28 local time       6 bytes: nanoseconds since midnight
//! 2a duration         i128 mean length in seconds, u32 nanoseconds, i64 months, i64 days
//! 30 bytes            as text
//! 38 string           text: the bytes, 00 written as 01 01 and 01 as 01 02; 00
//! 40 false, 41 true
//! 48 number           ordered double; where it is an integer of 2^53 or more in size and fits 64 bits, 2 more bytes
//! 49 NaN
//! f0 null
//! ```
//!
//! All integers are big-endian, signed ones with the top bit flipped. An *ordered double* has its top bit
//! flipped if that was clear, and all bits flipped if it was set. An integer is written as the largest double
//! that is not above it, with the difference in the 2 extra bytes, so that integers and floats interleave
//! exactly. No value starts with a byte below 08 or above f0: those bytes are free for terminators and range
//! bounds.

use std::sync::Arc;

use jiff::{civil, tz::Offset};

use crate::{
    Crs, Map, Point, Value, ValueError, ZonedTime,
    bytes::Reader,
    limits::{MAX_NESTING, deeper},
    number::{exact_int, float_of_ordered_bits, floor_double, has_rest, ordered_bits},
    temporal::{
        clock::{NANOS_PER_SECOND, nanos_of_day, time_of_nanos},
        parts::{
            ZonedParts, duration_of_rank, duration_rank, zoned_of_parts, zoned_parts,
            zoned_time_rank,
        },
    },
};

const END: u8 = 0x00;
const ESCAPE: u8 = 0x01;
const MAP: u8 = 0x08;
const LIST: u8 = 0x10;
const POINT: u8 = 0x18;
const ZONED_DATE_TIME: u8 = 0x20;
const LOCAL_DATE_TIME: u8 = 0x22;
const DATE: u8 = 0x24;
const ZONED_TIME: u8 = 0x26;
const LOCAL_TIME: u8 = 0x28;
const DURATION: u8 = 0x2a;
const BYTES: u8 = 0x30;
const STRING: u8 = 0x38;
const FALSE: u8 = 0x40;
const TRUE: u8 = 0x41;
const NUMBER: u8 = 0x48;
const NAN: u8 = 0x49;
const NULL: u8 = 0xf0;

/// The encoded key of one value.
///
/// # Errors
/// Like [`encode_into`].
pub fn encode(value: &Value) -> Result<Vec<u8>, ValueError> {
    let mut out = Vec::with_capacity(16);
    encode_into(value, &mut out)?;
    Ok(out)
}

/// The encoded keys of several values, concatenated.
///
/// # Errors
/// Like [`encode_into`].
pub fn encode_all<'a>(values: impl IntoIterator<Item = &'a Value>) -> Result<Vec<u8>, ValueError> {
    let mut out = Vec::with_capacity(32);
    for value in values {
        encode_into(value, &mut out)?;
    }
    Ok(out)
}

/// Appends the encoded key of `value`. On an error `out` is unchanged.
///
/// # Errors
/// `NotStorable` for nodes, relationships and paths, `TooDeep` for nesting over [`MAX_NESTING`].
pub fn encode_into(value: &Value, out: &mut Vec<u8>) -> Result<(), ValueError> {
    let start = out.len();
    put(value, out, MAX_NESTING).inspect_err(|_| out.truncate(start))
}

fn put(value: &Value, out: &mut Vec<u8>, depth_left: usize) -> Result<(), ValueError> {
    match value {
        Value::Null => out.push(NULL),
        Value::Bool(false) => out.push(FALSE),
        Value::Bool(true) => out.push(TRUE),
        Value::Int(int) => {
            let (floor, rest) = floor_double(*int);
            put_number(floor, rest, out);
        }
        Value::Float(float) if float.is_nan() => out.push(NAN),
        Value::Float(float) => put_number(*float, 0, out),
        Value::String(text) => {
            out.push(STRING);
            put_text(text.as_bytes(), out);
        }
        Value::Bytes(bytes) => {
            out.push(BYTES);
            put_text(bytes, out);
        }
        Value::List(items) => {
            let depth_left = deeper(depth_left)?;
            out.push(LIST);
            for item in items.iter() {
                put(item, out, depth_left)?;
            }
            out.push(END);
        }
        Value::Map(map) => {
            let depth_left = deeper(depth_left)?;
            let count = u32::try_from(map.len()).map_err(|_| ValueError::TooLarge {
                what: "a map",
                size: map.len(),
                max: u32::MAX as usize,
            })?;
            out.push(MAP);
            out.extend(count.to_be_bytes());
            map.names().for_each(|name| put_text(name.as_bytes(), out));
            for value in map.values() {
                put(value, out, depth_left)?;
            }
        }
        Value::Date(date) => {
            out.push(DATE);
            put_date(*date, out);
        }
        Value::LocalTime(time) => {
            out.push(LOCAL_TIME);
            put_time(*time, out);
        }
        Value::ZonedTime(time) => {
            let (nanos, offset) = zoned_time_rank(time);
            out.push(ZONED_TIME);
            put_i64(nanos, out);
            put_i32(offset, out);
        }
        Value::LocalDateTime(date_time) => {
            out.push(LOCAL_DATE_TIME);
            put_date(date_time.date(), out);
            put_time(date_time.time(), out);
        }
        Value::ZonedDateTime(zoned) => {
            let parts = zoned_parts(zoned);
            out.push(ZONED_DATE_TIME);
            put_i64(parts.seconds, out);
            out.extend(parts.nanos.to_be_bytes());
            put_i32(parts.offset, out);
            put_text(parts.zone.as_bytes(), out);
        }
        Value::Duration(duration) => {
            let (length, nanos, months, days) = duration_rank(duration);
            out.push(DURATION);
            out.extend((length as u128 ^ 1 << 127).to_be_bytes());
            out.extend((nanos as u32).to_be_bytes());
            put_i64(months, out);
            put_i64(days, out);
        }
        Value::Point(point) => {
            out.extend([POINT, point.crs as u8]);
            for coordinate in [point.x, point.y, point.z] {
                out.extend(ordered_bits(coordinate).to_be_bytes());
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

fn put_number(floor: f64, rest: u16, out: &mut Vec<u8>) {
    out.push(NUMBER);
    out.extend(ordered_bits(floor).to_be_bytes());
    if has_rest(floor) {
        out.extend(rest.to_be_bytes());
    }
}

fn put_text(bytes: &[u8], out: &mut Vec<u8>) {
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|byte| *byte <= ESCAPE) {
        out.extend(&rest[..at]);
        out.extend([ESCAPE, rest[at] + 1]);
        rest = &rest[at + 1..];
    }
    out.extend(rest);
    out.push(END);
}

fn put_i64(value: i64, out: &mut Vec<u8>) {
    out.extend((value as u64 ^ 1 << 63).to_be_bytes());
}

fn put_i32(value: i32, out: &mut Vec<u8>) {
    out.extend((value as u32 ^ 1 << 31).to_be_bytes());
}

fn put_date(date: civil::Date, out: &mut Vec<u8>) {
    out.extend((date.year() as u16 ^ 1 << 15).to_be_bytes());
    out.extend([date.month() as u8, date.day() as u8]);
}

fn put_time(time: civil::Time, out: &mut Vec<u8>) {
    out.extend(&nanos_of_day(time).to_be_bytes()[2..]);
}

/// The value of a whole encoded key.
///
/// # Errors
/// `Corrupt` if the bytes are not exactly one value as [`encode`] writes it.
pub fn decode(bytes: &[u8]) -> Result<Value, ValueError> {
    let (value, used) = decode_prefix(bytes)?;
    if used == bytes.len() {
        Ok(value)
    } else {
        Err(ValueError::Corrupt {
            what: "key",
            at: used,
            reason: "bytes follow the value",
        })
    }
}

/// The first value of `bytes` and its encoded length.
///
/// # Errors
/// `Corrupt` if `bytes` does not start with a value as [`encode`] writes it.
pub fn decode_prefix(bytes: &[u8]) -> Result<(Value, usize), ValueError> {
    let mut reader = Reader::new(bytes, "key");
    let value = take(&mut reader, MAX_NESTING)?;
    Ok((value, reader.position()))
}

/// All the values of a composite key.
///
/// # Errors
/// Like [`decode`].
pub fn decode_all(bytes: &[u8]) -> Result<Vec<Value>, ValueError> {
    let mut reader = Reader::new(bytes, "key");
    let mut values = Vec::new();
    while !reader.is_at_end() {
        values.push(take(&mut reader, MAX_NESTING)?);
    }
    Ok(values)
}

fn take(reader: &mut Reader<'_>, depth_left: usize) -> Result<Value, ValueError> {
    Ok(match reader.u8()? {
        NULL => Value::Null,
        FALSE => Value::Bool(false),
        TRUE => Value::Bool(true),
        NAN => Value::Float(f64::NAN),
        NUMBER => take_number(reader)?,
        STRING => Value::String(take_string(reader)?),
        BYTES => Value::Bytes(take_text(reader)?.into()),
        LIST => {
            let depth_left = deeper(depth_left)?;
            let mut items = Vec::new();
            while reader.peek() != Some(END) {
                items.push(take(reader, depth_left)?);
            }
            reader.u8()?;
            Value::from(items)
        }
        MAP => take_map(reader, deeper(depth_left)?)?,
        DATE => Value::Date(take_date(reader)?),
        LOCAL_TIME => Value::LocalTime(take_time(reader)?),
        LOCAL_DATE_TIME => {
            let date = take_date(reader)?;
            Value::LocalDateTime(date.to_datetime(take_time(reader)?))
        }
        ZONED_TIME => {
            let (nanos, seconds) = (take_i64(reader)?, take_i32(reader)?);
            let offset = Offset::from_seconds(seconds).ok();
            offset
                .zip(time_of_nanos(
                    nanos.saturating_add(i64::from(seconds) * NANOS_PER_SECOND),
                ))
                .map(|(offset, time)| Value::ZonedTime(ZonedTime { time, offset }))
                .ok_or_else(|| reader.corrupt("a zoned time is out of range"))?
        }
        ZONED_DATE_TIME => take_zoned(reader)?,
        DURATION => {
            let length = (u128::from_be_bytes(reader.array()?) ^ 1 << 127) as i128;
            let nanos = u32::from_be_bytes(reader.array()?) as i32;
            let rank = (length, nanos, take_i64(reader)?, take_i64(reader)?);
            Value::from(
                duration_of_rank(rank)
                    .ok_or_else(|| reader.corrupt("a duration is out of range"))?,
            )
        }
        POINT => take_point(reader)?,
        _ => return Err(reader.corrupt("no value starts with this byte")),
    })
}

fn take_number(reader: &mut Reader<'_>) -> Result<Value, ValueError> {
    let bits = u64::from_be_bytes(reader.array()?);
    let floor = float_of_ordered_bits(bits);
    let rest = if has_rest(floor) {
        u16::from_be_bytes(reader.array()?)
    } else {
        0
    };
    let Some(whole) = exact_int(floor) else {
        let canonical = !floor.is_nan();
        return canonical
            .then_some(Value::Float(floor))
            .ok_or_else(|| reader.corrupt("a number is NaN"));
    };
    whole
        .checked_add(i64::from(rest))
        .filter(|int| floor_double(*int) == (floor, rest) && ordered_bits(floor) == bits)
        .map(Value::Int)
        .ok_or_else(|| reader.corrupt("a number is not written as its shortest"))
}

fn take_text(reader: &mut Reader<'_>) -> Result<Vec<u8>, ValueError> {
    let mut text = Vec::new();
    loop {
        let (run, stop) = reader.until_low()?;
        text.extend(run);
        if stop == END {
            return Ok(text);
        }
        match reader.u8()? {
            escaped @ 1..=2 => text.push(escaped - 1),
            _ => return Err(reader.corrupt("a string has an unknown escape")),
        }
    }
}

fn take_string(reader: &mut Reader<'_>) -> Result<Arc<str>, ValueError> {
    String::from_utf8(take_text(reader)?)
        .map(Into::into)
        .map_err(|_| reader.corrupt("a string is not UTF-8"))
}

fn take_map(reader: &mut Reader<'_>, depth_left: usize) -> Result<Value, ValueError> {
    let count = u32::from_be_bytes(reader.array()?) as usize;
    if count > reader.remaining() {
        return Err(reader.corrupt("a length points past the end"));
    }
    let names = (0..count)
        .map(|_| take_string(reader))
        .collect::<Result<Vec<_>, _>>()?;
    if !names.is_sorted_by(|a, b| a < b) {
        return Err(reader.corrupt("the names of a map are not sorted"));
    }
    let mut entries = Vec::with_capacity(names.len());
    for name in names {
        entries.push((name, take(reader, depth_left)?));
    }
    Ok(Value::from(Map::from_sorted(entries)))
}

fn take_i64(reader: &mut Reader<'_>) -> Result<i64, ValueError> {
    Ok((u64::from_be_bytes(reader.array()?) ^ 1 << 63) as i64)
}

fn take_i32(reader: &mut Reader<'_>) -> Result<i32, ValueError> {
    Ok((u32::from_be_bytes(reader.array()?) ^ 1 << 31) as i32)
}

fn take_date(reader: &mut Reader<'_>) -> Result<civil::Date, ValueError> {
    let year = (u16::from_be_bytes(reader.array()?) ^ 1 << 15) as i16;
    let [month, day] = reader.array::<2>()?.map(|part| part as i8);
    civil::Date::new(year, month, day).map_err(|_| reader.corrupt("there is no such day"))
}

fn take_time(reader: &mut Reader<'_>) -> Result<civil::Time, ValueError> {
    let mut wide = [0; 8];
    wide[2..].copy_from_slice(&reader.array::<6>()?);
    time_of_nanos(i64::from_be_bytes(wide))
        .ok_or_else(|| reader.corrupt("a time is longer than a day"))
}

fn take_zoned(reader: &mut Reader<'_>) -> Result<Value, ValueError> {
    let seconds = take_i64(reader)?;
    let nanos = u32::from_be_bytes(reader.array()?);
    let offset = take_i32(reader)?;
    let zone = take_string(reader)?;
    if i64::from(nanos) >= NANOS_PER_SECOND {
        return Err(reader.corrupt("a second has too many nanoseconds"));
    }
    zoned_of_parts(ZonedParts {
        seconds,
        nanos,
        offset,
        zone: &zone,
    })
    .map(Value::from)
    .ok_or_else(|| reader.corrupt("a date-time is out of range"))
}

fn take_point(reader: &mut Reader<'_>) -> Result<Value, ValueError> {
    let crs = reader.u8()?;
    let crs = Crs::ALL
        .into_iter()
        .find(|known| *known as u8 == crs)
        .ok_or_else(|| reader.corrupt("a point's system is unknown"))?;
    let mut coordinate = || {
        reader
            .array()
            .map(|bits| float_of_ordered_bits(u64::from_be_bytes(bits)))
    };
    Ok(Value::from(Point {
        crs,
        x: coordinate()?,
        y: coordinate()?,
        z: coordinate()?,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pins the format on disk: a change of this table is a change of format.
    #[test]
    fn keys_are_written_as_documented() {
        let hex = |value: Value| {
            encode(&value)
                .unwrap()
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect::<String>()
        };
        let map = Map::from_iter([("a", Value::Int(0))]);
        let cases = [
            (Value::Null, "f0"),
            (true.into(), "41"),
            (0_i64.into(), "488000000000000000"),
            (1_i64.into(), "48bff0000000000000"),
            (1.0.into(), "48bff0000000000000"),
            ((-1_i64).into(), "48400fffffffffffff"),
            (((1_i64 << 53) + 1).into(), "48c3400000000000000001"),
            (f64::NAN.into(), "49"),
            ("a\0\u{1}b".into(), "38610101010262" /* then the end */),
            (vec![0_u8, 255].into(), "300101ff"),
            (vec![Value::Null, Value::Bool(false)].into(), "10f04000"),
            (map.into(), "08000000016100488000000000000000"),
            (civil::date(2024, 2, 29).into(), "2487e8021d"),
            (civil::time(0, 0, 1, 1).into(), "2800003b9aca01"),
        ];
        for (value, expected) in cases {
            let ends = matches!(value, Value::String(_) | Value::Bytes(_));
            assert_eq!(
                hex(value),
                format!("{expected}{}", if ends { "00" } else { "" })
            );
        }
    }

    #[test]
    fn a_key_that_is_not_written_as_its_shortest_is_refused() {
        for bytes in [
            &[0x48, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff][..], // -0.0
            &[0x48, 0xc3, 0x40, 0, 0, 0, 0, 0, 0, 0, 2],                 // 2^53 + 2 is a double
            &[0x38, 0x61, 0x01, 0x03, 0x00],
            &[0x38, 0x61],
            &[0x38, 0xff, 0x00],
            &[0x10, 0xf0],
            &[0x00],
            &[],
        ] {
            assert!(decode(bytes).is_err(), "{bytes:02x?}");
        }
    }
}
