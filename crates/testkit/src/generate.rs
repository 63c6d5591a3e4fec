//! Random values, records and names with a bias to edge cases that tend to break codecs and comparisons.

use std::sync::Arc;

use isomer_value::{
    Crs, Duration, Map, Point, Value, ZonedTime,
    jiff::{civil, tz},
};

use crate::random::Random;

const INTEGERS: [i64; 12] = [
    0,
    1,
    -1,
    127,
    128,
    -129,
    i64::MIN,
    i64::MAX,
    (1 << 53) - 1,
    1 << 53,
    (1 << 53) + 1,
    -(1 << 53) - 1,
];
const FLOATS: [f64; 11] = [
    0.0,
    -0.0,
    1.0,
    -1.5,
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::MIN_POSITIVE,
    f64::MAX,
    9_007_199_254_740_992.0,
    9.223_372_036_854_776e18,
];
const STRINGS: [&str; 14] = [
    "",
    "a",
    "ab",
    "a\0b",
    "\0",
    "\u{1}",
    "ÿ",
    "\u{FFFF}",
    "🦀",
    "e\u{301}",
    "é",
    "'\"\\`",
    "line\nfeed",
    "\u{202E}right to left",
];
const NAMES: [&str; 10] = [
    "",
    "a",
    "b",
    "a.b",
    "_key ",
    "name with spaces",
    "`",
    "名前",
    "$where",
    "__proto__",
];

/// A value of any type that a property can hold, nested at most `depth` times. Never null at the top level.
pub fn property(random: &mut Random, depth: u32) -> Value {
    let kinds = if depth == 0 { 11 } else { 13 };
    match random.below(kinds) {
        0 => Value::Bool(random.once_in(2)),
        1 => Value::Int(integer(random)),
        2 => Value::Float(float(random)),
        3 => Value::from(string(random)),
        4 => Value::from(
            (0..random.below(12))
                .map(|_| random.below(256) as u8)
                .collect::<Vec<u8>>(),
        ),
        5 => Value::Date(date(random)),
        6 => Value::LocalTime(time(random)),
        7 => Value::LocalDateTime(date(random).to_datetime(time(random))),
        8 => zoned(random),
        9 => Value::from(Duration {
            months: random.below(50) as i64 - 25,
            days: random.below(100) as i64 - 50,
            seconds: random.below(200_000) as i64 - 100_000,
            nanos: random.below(1_000_000_000) as i32,
        }),
        10 => point(random),
        11 => (0..random.below(4))
            .map(|_| nested(random, depth - 1))
            .collect(),
        _ => Value::from(map(random, depth - 1)),
    }
}

/// Like [`property`], but possibly null, as elements of lists may be.
fn nested(random: &mut Random, depth: u32) -> Value {
    if random.once_in(8) {
        Value::Null
    } else {
        property(random, depth)
    }
}

/// A map of at most four entries with awkward names.
pub fn map(random: &mut Random, depth: u32) -> Map {
    (0..random.below(5))
        .map(|_| (*random.pick(&NAMES), property(random, depth)))
        .collect()
}

/// A key of a document: a string or an integer.
pub fn document_key(random: &mut Random) -> Value {
    if random.once_in(2) {
        Value::Int(integer(random))
    } else {
        Value::from(string(random))
    }
}

/// Between 1 and `max` bytes, often with the values that codecs treat specially.
pub fn bytes(random: &mut Random, max: u64) -> Vec<u8> {
    let byte = |random: &mut Random| {
        if random.once_in(2) {
            *random.pick(&[0x00, 0x01, 0xFE, 0xFF])
        } else {
            random.below(256) as u8
        }
    };
    (0..=random.below(max)).map(|_| byte(random)).collect()
}

/// Any integer, with a bias to edge cases.
pub fn integer(random: &mut Random) -> i64 {
    match random.below(3) {
        0 => *random.pick(&INTEGERS),
        1 => random.below(10) as i64,
        _ => random.next_u64() as i64 >> random.below(64),
    }
}

/// Any float, with a bias to edge cases.
pub fn float(random: &mut Random) -> f64 {
    match random.below(3) {
        0 => *random.pick(&FLOATS),
        1 => random.below(100) as f64 / 4.0,
        _ => f64::from_bits(random.next_u64()),
    }
}

/// Any string, with a bias to edge cases.
pub fn string(random: &mut Random) -> String {
    if random.once_in(2) {
        return (*random.pick(&STRINGS)).to_owned();
    }
    let character =
        |random: &mut Random| char::from_u32(random.below(0x2_0000) as u32).unwrap_or('x');
    (0..random.below(10)).map(|_| character(random)).collect()
}

fn date(random: &mut Random) -> civil::Date {
    let year = *random.pick(&[-9999, -1, 0, 1, 1582, 1969, 1970, 2000, 2024, 2026, 9999]);
    let (month, day) = (1 + random.below(12) as i8, 1 + random.below(28) as i8);
    civil::Date::new(year, month, day).expect("every month has 28 days")
}

fn time(random: &mut Random) -> civil::Time {
    let nanos = *random.pick(&[0, 1, 999_999_999, 500_000_000]);
    let (hour, minute, second) = (
        random.below(24) as i8,
        random.below(60) as i8,
        random.below(60) as i8,
    );
    civil::Time::new(hour, minute, second, nanos).expect("the parts are in their ranges")
}

fn zoned(random: &mut Random) -> Value {
    let offset = tz::Offset::from_seconds((random.below(25) as i32 - 12) * 3_600)
        .expect("half a day is in range");
    if random.once_in(2) {
        return Value::from(ZonedTime {
            time: time(random),
            offset,
        });
    }
    let day = civil::Date::new(
        1970 + random.below(100) as i16,
        1 + random.below(12) as i8,
        1,
    )
    .expect("every month has a first day");
    let instant = day
        .to_datetime(time(random))
        .to_zoned(tz::TimeZone::fixed(offset));
    Value::from(instant.expect("these years have room for any offset"))
}

fn point(random: &mut Random) -> Value {
    let small = |random: &mut Random| random.below(180) as f64 / 2.0;
    let (x, y) = (small(random), small(random));
    Value::from(match random.below(2) {
        0 => Point {
            crs: Crs::Cartesian,
            x,
            y,
            z: 0.0,
        },
        _ => Point {
            crs: Crs::Cartesian3d,
            x,
            y,
            z: small(random),
        },
    })
}

/// A number in `depth` nested lists; can be built and dropped without stack overflow up to some thousands.
pub fn deep_list(depth: usize) -> Value {
    (0..depth).fold(Value::Int(1), |inner, _| Value::List(Arc::new(vec![inner])))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_type_of_a_property_comes_up() {
        let mut random = Random::new(1);
        let types: HashSet<&str> = (0..2_000)
            .map(|_| property(&mut random, 2).type_name())
            .collect();
        assert_eq!(types.len(), 14, "{types:?}");
        assert!(!types.contains(Value::Null.type_name()));
    }

    #[test]
    fn depth_is_bounded() {
        fn depth(value: &Value) -> u32 {
            match value {
                Value::List(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
                Value::Map(map) => 1 + map.iter().map(|(_, value)| depth(value)).max().unwrap_or(0),
                _ => 0,
            }
        }
        let mut random = Random::new(2);
        assert!((0..2_000).all(|_| depth(&property(&mut random, 3)) <= 3));
        assert_eq!(depth(&deep_list(5)), 5);
    }
}
