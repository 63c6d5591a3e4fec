//! Facts from the openCypher TCK and the proposal CIP2015-08-06, and some that were computed by hand.

use crate::{Datum, Fault, Map, Variation, graph::Graph, notation::literal, run};

/// The result of an expression, in the notation of the language.
fn value(text: &str) -> Result<String, Fault> {
    let statement = isomer_cypher::parse(&format!("RETURN {text} AS x"))
        .unwrap_or_else(|error| panic!("{text}: {}", error.message));
    let (answer, _) = run(
        &statement,
        &Graph::default(),
        &Map::new(),
        Variation::default(),
    )?;
    Ok(match &answer.rows[0][0] {
        Datum::Text(text) => text.to_string(),
        other => literal(other),
    })
}

fn check(facts: &[(&str, &str)]) {
    for (text, expected) in facts {
        assert_eq!(value(text).as_deref(), Ok(*expected), "{text}");
    }
}

#[test]
fn texts_of_iso_8601_are_read() {
    check(&[
        ("toString(date('2015-07-21'))", "2015-07-21"),
        ("toString(date('20150721'))", "2015-07-21"),
        ("toString(date('201507'))", "2015-07-01"),
        ("toString(date('2015-W30-2'))", "2015-07-21"),
        ("toString(date('2015W30'))", "2015-07-20"),
        ("toString(date('2015202'))", "2015-07-21"),
        ("toString(date('2015'))", "2015-01-01"),
        ("toString(localtime('214032.142'))", "21:40:32.142"),
        ("toString(localtime('21'))", "21:00"),
        ("toString(time('2140-00:00'))", "21:40Z"),
        ("toString(time('22+18:00'))", "22:00+18:00"),
        (
            "toString(localdatetime('2015-W30-2T214032.142'))",
            "2015-07-21T21:40:32.142",
        ),
        (
            "toString(datetime('20150721T21:40-01:30'))",
            "2015-07-21T21:40-01:30",
        ),
        ("toString(duration('P5M1.5D'))", "P5M1DT12H"),
        ("toString(duration('P0.75M'))", "P22DT19H51M49.5S"),
        (
            "toString(duration('P2012-02-02T14:37:21.545'))",
            "P2012Y2M2DT14H37M21.545S",
        ),
        (
            "toString(duration('P12Y5M14DT16H12M70S'))",
            "P12Y5M14DT16H13M10S",
        ),
    ]);
    for text in [
        "date('2015-02-29')",
        "date('2015-13')",
        "localtime('24:00')",
        "duration('P')",
        "duration('1D')",
    ] {
        assert!(matches!(value(text), Err(Fault::Raised(_))), "{text}");
    }
    let named = value("datetime('2015-07-21T21:40[Europe/London]')");
    assert!(matches!(named, Err(Fault::Unknown(_))));
}

#[test]
fn fields_make_values() {
    check(&[
        ("toString(date({year: 1817, week: 1}))", "1816-12-30"),
        (
            "toString(date({year: 1984, quarter: 3, dayOfQuarter: 45}))",
            "1984-08-14",
        ),
        (
            "toString(date({year: 1984, ordinalDay: 202}))",
            "1984-07-20",
        ),
        (
            "toString(date({date: date('1816-12-30'), week: 2, dayOfWeek: 3}))",
            "1817-01-08",
        ),
        (
            "toString(date({date: date('1984-11-11'), quarter: 3}))",
            "1984-08-11",
        ),
        (
            "toString(localtime({hour: 12, minute: 31, second: 14, nanosecond: 789, millisecond: 123, microsecond: 456}))",
            "12:31:14.123456789",
        ),
        (
            "toString(time({hour: 12, timezone: '+01:00'}))",
            "12:00+01:00",
        ),
        (
            "toString(time({time: time('12:31:14+01:00'), second: 42, timezone: '+05:00'}))",
            "16:31:42+05:00",
        ),
        (
            "toString(time({time: localtime('12:31'), timezone: '+05:00'}))",
            "12:31+05:00",
        ),
        (
            "toString(datetime({date: date('1984-10-11'), time: time('12:31:14+01:00'), timezone: '+05:00'}))",
            "1984-10-11T16:31:14+05:00",
        ),
        ("toString(datetime({year: 1984}))", "1984-01-01T00:00Z"),
        (
            "toString(datetime.fromepochmillis(237821673987))",
            "1977-07-15T13:34:33.987Z",
        ),
        ("toString(duration({weeks: 2.5}))", "P17DT12H"),
        (
            "toString(duration({seconds: -2, milliseconds: 1}))",
            "PT-1.999S",
        ),
        (
            "toString(duration({seconds: -60, milliseconds: -1}))",
            "PT-1M-0.001S",
        ),
        (
            "toString(duration({years: 12, months: 5, days: -14, hours: 16}))",
            "P12Y5M-14DT16H",
        ),
    ]);
    for text in [
        "date({month: 2})",
        "date({year: 2023, month: 2, day: 29})",
        "localtime({minute: 1})",
    ] {
        assert!(matches!(value(text), Err(Fault::Raised(_))), "{text}");
    }
}

#[test]
fn components_are_read() {
    check(&[
        ("date('1984-10-11').weekDay", "4"),
        ("date('1984-01-01').weekYear", "1983"),
        ("localtime('12:31:14.645876123').microsecond", "645876"),
        ("time('12:31+01:00').offsetMinutes", "60"),
        (
            "datetime('1984-11-11T12:31:14.645876123+01:00').epochMillis",
            "469020674645",
        ),
        ("duration('P1Y4M10DT1H1M1.111111111S').quarters", "5"),
        ("duration('P1Y4M10DT1H1M1.111111111S').minutesOfHour", "1"),
        (
            "duration('P1Y4M10DT1H1M1.111111111S').nanoseconds",
            "3661111111111",
        ),
        ("duration('PT-23H-59M-59.9S').seconds", "-86400"),
        (
            "duration('PT-23H-59M-59.9S').nanosecondsOfSecond",
            "100000000",
        ),
    ]);
}

#[test]
fn units_cut_off() {
    check(&[
        (
            "toString(date.truncate('millennium', date('2017-10-11'), {day: 2}))",
            "2000-01-02",
        ),
        (
            "toString(date.truncate('weekYear', date('1984-01-01'), {dayOfWeek: 2}))",
            "1983-01-04",
        ),
        (
            "toString(date.truncate('week', date('1984-10-11'), {dayOfWeek: 2}))",
            "1984-10-09",
        ),
        (
            "toString(datetime.truncate('quarter', date('1984-11-11')))",
            "1984-10-01T00:00Z",
        ),
        (
            "toString(datetime.truncate('millisecond', datetime('1984-10-11T12:31:14.645876123+01:00'), {nanosecond: 2}))",
            "1984-10-11T12:31:14.645000002+01:00",
        ),
        (
            "toString(time.truncate('hour', time('12:31-01:00'), {timezone: '+01:00'}))",
            "12:00+01:00",
        ),
        (
            "toString(localtime.truncate('day', localtime('12:31')))",
            "00:00",
        ),
    ]);
}

#[test]
fn durations_are_added_part_by_part() {
    check(&[
        (
            "toString(date('1984-10-11') + duration('P12Y5M14DT16H13M10.000000002S'))",
            "1997-03-25",
        ),
        (
            "toString(date('1984-10-11') - duration({days: 14, hours: 25}))",
            "1984-09-26",
        ),
        (
            "toString(date('2020-01-31') + duration('P1M'))",
            "2020-02-29",
        ),
        (
            "toString(localtime('12:31:14') + duration('P3DT13H'))",
            "01:31:14",
        ),
        (
            "toString(datetime('1984-10-11T12:31:14.000000001+01:00') - duration('P12Y5M14DT16H13M10.000000002S'))",
            "1972-04-26T20:18:03.999999999+01:00",
        ),
        (
            "toString(duration('P12Y5M14DT16H13M10S') / 2)",
            "P6Y2M22DT13H21M8S",
        ),
        ("toString(duration('P1D') * 2.5)", "P2DT12H"),
        (
            "toString(duration('PT1H') + duration('P1M') - duration('PT30M'))",
            "P1MT30M",
        ),
    ]);
}

#[test]
fn durations_between_instants_are_counted() {
    check(&[
        (
            "toString(duration.between(date('1984-10-11'), date('2015-06-24')))",
            "P30Y8M13D",
        ),
        (
            "toString(duration.between(date('2024-01-31'), date('2025-03-01')))",
            "P1Y1M1D",
        ),
        (
            "toString(duration.between(localdatetime('2015-07-21T21:40:32.142'), date('2015-06-24')))",
            "P-27DT-21H-40M-32.142S",
        ),
        (
            "toString(duration.between(datetime('2014-07-21T21:40:36.143+0200'), date('2015-06-24')))",
            "P11M2DT2H19M23.857S",
        ),
        (
            "toString(duration.between(datetime('2014-07-21T21:40:36.143+0200'), time('16:30+0100')))",
            "PT-4H-10M-36.143S",
        ),
        (
            "toString(duration.between(localtime('14:30'), date('2015-06-24')))",
            "PT-14H-30M",
        ),
        (
            "toString(duration.inMonths(datetime('2018-07-21T21:40:36.143+0500'), datetime('1984-07-21T22:40:36.143+0200')))",
            "P-33Y-11M",
        ),
        (
            "toString(duration.inMonths(date('2018-07-21'), datetime('2016-07-21T21:40:32.142+0100')))",
            "P-1Y-11M",
        ),
        (
            "toString(duration.inDays(date('1984-10-11'), date('2015-06-24')))",
            "P11213D",
        ),
        (
            "toString(duration.inSeconds(localtime('12:44:54.7'), localtime('12:34:55.3')))",
            "PT-9M-59.4S",
        ),
    ]);
}

#[test]
fn aggregates_take_durations() {
    check(&[
        (
            "toString(reduce(s = duration('PT0S'), d IN [duration('P1M'), duration('P1D')] | s + d))",
            "P1M1D",
        ),
        ("toString(-duration('P1M-2D'))", "P-1M2D"),
    ]);
}
