//! Random values for property tests.

use isomer_value::{
    Crs, Duration, Map, Point, Value, ZonedDateTime, ZonedTime,
    jiff::{
        civil,
        tz::{Offset, TimeZone},
    },
};
use proptest::prelude::*;

/// Doubles of all kinds, including those near integers and near the limits of exactness.
pub fn any_float() -> impl Strategy<Value = f64> {
    prop_oneof![
        any::<f64>(),
        any_int().prop_map(|int| int as f64),
        (-4_i32..4).prop_map(|half| f64::from(half) / 2.0),
        prop::sample::select(vec![
            0.0,
            -0.0,
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::MIN_POSITIVE,
            f64::MAX,
            9_223_372_036_854_775_808.0,
        ]),
    ]
}

/// Integers of all sizes, including those near powers of two.
pub fn any_int() -> impl Strategy<Value = i64> {
    let near_power =
        (0_u32..64, -2_i64..=2).prop_map(|(power, off)| (1_i64 << power).wrapping_add(off));
    prop_oneof![
        any::<i64>(),
        -3_i64..3,
        near_power.clone(),
        near_power.prop_map(i64::wrapping_neg)
    ]
}

/// A small set of short strings, so that equal ones occur, with the bytes that keys must escape.
pub fn any_text() -> impl Strategy<Value = String> {
    prop_oneof!["[\0\u{1}\u{2}ab\u{ff}\u{10ffff}]{0,4}", any::<String>()]
}

fn any_time() -> impl Strategy<Value = civil::Time> {
    let part = |below: i8| 0..below;
    (
        part(24),
        part(60),
        part(60),
        prop_oneof![Just(0), 0..1_000_000_000],
    )
        .prop_map(|(hour, minute, second, nanos)| civil::time(hour, minute, second, nanos))
}

fn any_date() -> impl Strategy<Value = civil::Date> {
    prop_oneof![-9999_i16..=9999, 2000_i16..2002]
        .prop_flat_map(|year| (Just(year), 1_i8..=12, 1_i8..=28))
        .prop_map(|(year, month, day)| civil::date(year, month, day))
}

fn any_offset() -> impl Strategy<Value = Offset> {
    prop_oneof![
        (-2_i32..=2).prop_map(|hours| hours * 3600),
        -64_800..=64_800_i32
    ]
    .prop_map(|seconds| Offset::from_seconds(seconds).expect("at most 18 hours"))
}

/// Date-times in fixed offsets and in named zones, including both ends of the calendar and hours that occur twice.
fn any_zoned() -> impl Strategy<Value = Value> {
    let name = prop::sample::select(vec!["Europe/Rome", "America/New_York", "Asia/Kolkata"]);
    let zone = prop_oneof![
        any_offset().prop_map(TimeZone::fixed),
        name.prop_map(|name| TimeZone::get(name).expect("is bundled")),
    ];
    let seconds = prop_oneof![
        -2_i64..2,
        -200_000_000_000..200_000_000_000_i64,
        // Around the end of summer time in Rome and in New York.
        1_509_232_000..1_509_244_000_i64,
        1_699_156_000..1_699_170_000_i64,
    ];
    let nanos = prop_oneof![Just(0), 0..1_000_000_000_u32];
    let inner = (seconds, nanos.clone(), zone.clone()).prop_map(|(seconds, nanos, zone)| {
        ZonedDateTime::of_epoch(seconds, nanos, zone).expect("is within four digits of years")
    });
    let ends = prop_oneof![Just(civil::DateTime::MIN), Just(civil::DateTime::MAX)];
    let end = (ends, zone).prop_map(|(local, zone)| {
        ZonedDateTime::of_local(local, zone).expect("no zone skips the ends")
    });
    prop_oneof![9 => inner, 1 => end].prop_map(Value::from)
}

/// Durations, including huge ones.
pub fn any_duration() -> impl Strategy<Value = Duration> {
    (any_int(), any_int(), any_int(), 0..1_000_000_000_i32).prop_map(
        |(months, days, seconds, nanos)| Duration {
            months,
            days,
            seconds,
            nanos,
        },
    )
}

/// Any date, time, date-time or duration.
pub fn any_temporal() -> impl Strategy<Value = Value> {
    prop_oneof![
        any_date().prop_map(Value::from),
        any_time().prop_map(Value::from),
        (any_time(), any_offset()).prop_map(|(time, offset)| ZonedTime { time, offset }.into()),
        (any_date(), any_time()).prop_map(|(date, time)| date.to_datetime(time).into()),
        any_zoned(),
        any_duration().prop_map(Value::from),
    ]
}

fn any_point() -> impl Strategy<Value = Point> {
    (
        prop::sample::select(Crs::ALL.to_vec()),
        any_float(),
        any_float(),
        any_float(),
    )
        .prop_map(|(crs, x, y, z)| Point {
            crs,
            x,
            y,
            z: if crs.has_z() { z } else { 0.0 },
        })
}

/// Any storable value.
pub fn any_value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        1 => Just(Value::Null),
        1 => any::<bool>().prop_map(Value::from),
        4 => any_int().prop_map(Value::from),
        4 => any_float().prop_map(Value::from),
        3 => any_text().prop_map(Value::from),
        1 => prop::collection::vec(0_u8..4, 0..5).prop_map(Value::from),
        6 => any_temporal(),
        1 => any_point().prop_map(Value::from),
    ];
    scalar.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((any_text(), inner), 0..4)
                .prop_map(|entries| entries.into_iter().collect::<Map>().into()),
        ]
    })
}
