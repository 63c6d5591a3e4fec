use super::*;
use crate::{Map, Value};

fn now() -> Now {
    Now::utc(Timestamp::new(1_700_000_000, 5).unwrap()) // 2023-11-14T22:13:20.000000005Z, a Tuesday
}

fn call(name: &str, args: &[Value]) -> Result<Value, ValueError> {
    function(name).expect(name).call(args, &now())
}

fn made(name: &str, arg: impl Into<Value>) -> Value {
    call(name, &[arg.into()]).unwrap()
}

fn map<const N: usize>(entries: [(&'static str, Value); N]) -> Value {
    Map::from_iter(entries).into()
}

fn int(value: i64) -> Value {
    value.into()
}

/// The result of a call as text, or its error's text.
fn text(name: &str, args: &[Value]) -> String {
    match call(name, args) {
        Ok(value) => to_text(&value).unwrap_or_else(|| format!("{value:?}")),
        Err(error) => error.to_string(),
    }
}

#[test]
fn now_is_told_by_the_clock_that_is_given() {
    assert_eq!(text("date", &[]), "2023-11-14");
    assert_eq!(text("localtime", &[]), "22:13:20.000000005");
    assert_eq!(text("time.statement", &[]), "22:13:20.000000005Z");
    assert_eq!(
        text("datetime.realtime", &["Asia/Tokyo".into()]),
        "2023-11-15T07:13:20.000000005+09:00[Asia/Tokyo]"
    );
    assert_eq!(
        text("date", &[map([("timezone", "Asia/Tokyo".into())])]),
        "2023-11-15"
    );
    assert_eq!(
        text("time", &[map([("timezone", "America/Los Angeles".into())])]),
        "14:13:20.000000005-08:00"
    );
    assert_eq!(call("date.transaction", &[Value::Null]), Ok(Value::Null));
    assert!(
        text("datetime", &[map([("timezone", "Middle/Earth".into())])])
            .contains("`Middle/Earth` is unknown")
    );
}

#[test]
fn parts_are_selected_from_other_values() {
    let zoned = made("datetime", "1984-10-11T12:00+01:00[Europe/Stockholm]");
    let local = made("localdatetime", "1984-11-11T12:31:14.645876");
    let date = made("date", "1984-11-11");
    let time = made("time", "12:31:14.645876+01:00");
    let at = |name, base: (&'static str, &Value), more: &[(&'static str, Value)]| {
        let mut fields: Map = more.iter().cloned().collect();
        fields.insert(base.0, base.1.clone());
        text(name, &[fields.into()])
    };
    let cases = [
        (text("date", std::slice::from_ref(&zoned)), "1984-10-11"),
        (
            text("localtime", std::slice::from_ref(&time)),
            "12:31:14.645876",
        ),
        (
            text("time", std::slice::from_ref(&local)),
            "12:31:14.645876Z",
        ),
        (
            text("datetime", std::slice::from_ref(&local)),
            "1984-11-11T12:31:14.645876Z",
        ),
        (
            text("localdatetime", std::slice::from_ref(&date)),
            "1984-11-11T00:00",
        ),
        (
            at("date", ("date", &local), &[("year", int(28))]),
            "0028-11-11",
        ),
        (
            at("date", ("date", &date), &[("day", int(28))]),
            "1984-11-28",
        ),
        (
            at(
                "date",
                ("date", &date),
                &[("month", int(2)), ("day", int(29))],
            ),
            "1984-02-29",
        ),
        (
            at("date", ("date", &date), &[("week", int(1))]),
            "1984-01-08",
        ),
        (
            at("date", ("date", &date), &[("dayOfWeek", int(2))]),
            "1984-11-06",
        ),
        (
            at("date", ("date", &date), &[("ordinalDay", int(28))]),
            "1984-01-28",
        ),
        (
            at("date", ("date", &date), &[("quarter", int(3))]),
            "1984-08-11",
        ),
        (
            at(
                "date",
                ("date", &date),
                &[("quarter", int(3)), ("dayOfQuarter", int(1))],
            ),
            "1984-07-01",
        ),
        (
            at("localtime", ("time", &time), &[("second", int(42))]),
            "12:31:42.645876",
        ),
        (
            at("time", ("time", &time), &[("timezone", "+05:00".into())]),
            "16:31:14.645876+05:00",
        ),
        (
            at("time", ("time", &time), &[("timezone", "-0500".into())]),
            "06:31:14.645876-05:00",
        ),
        (
            at("time", ("time", &local), &[("timezone", "+05:00".into())]),
            "12:31:14.645876+05:00",
        ),
        (at("time", ("time", &zoned), &[]), "12:00+01:00"),
        (
            at(
                "datetime",
                ("datetime", &zoned),
                &[("timezone", "+05:00".into())],
            ),
            "1984-10-11T16:00+05:00",
        ),
        (
            at(
                "datetime",
                ("datetime", &zoned),
                &[
                    ("day", int(28)),
                    ("second", int(42)),
                    ("timezone", "Pacific/Honolulu".into()),
                ],
            ),
            "1984-10-28T01:00:42-10:00[Pacific/Honolulu]",
        ),
        (
            at(
                "datetime",
                ("datetime", &local),
                &[("timezone", "Pacific/Honolulu".into())],
            ),
            "1984-11-11T12:31:14.645876-10:00[Pacific/Honolulu]",
        ),
        (
            at("datetime", ("date", &date), &[("time", time.clone())]),
            "1984-11-11T12:31:14.645876+01:00",
        ),
        (
            at(
                "datetime",
                ("date", &date),
                &[("time", time.clone()), ("timezone", "+05:00".into())],
            ),
            "1984-11-11T16:31:14.645876+05:00",
        ),
        (
            at("datetime", ("time", &local), &[("year", int(1984))]),
            "1984-01-01T12:31:14.645876Z",
        ),
        (
            at(
                "localdatetime",
                ("datetime", &zoned),
                &[("hour", int(18)), ("minute", int(30))],
            ),
            "1984-10-11T18:30",
        ),
        (
            text(
                "datetime",
                &[map([
                    ("epochSeconds", int(416_779)),
                    ("nanosecond", int(1)),
                ])],
            ),
            "1970-01-05T19:46:19.000000001Z",
        ),
        (
            text(
                "datetime",
                &[map([
                    ("epochMillis", int(-1)),
                    ("timezone", "+01:00".into()),
                ])],
            ),
            "1970-01-01T00:59:59.999+01:00",
        ),
    ];
    for (got, expected) in cases {
        assert_eq!(got, expected);
    }
}

#[test]
fn values_are_cut_off_below_a_unit() {
    let zoned = made("datetime", "2017-11-11T12:31:14.645876123+01:00");
    let cut = |name: &str, unit: &str, value: &Value, fields: Value| {
        text(
            &format!("{name}.truncate"),
            &[unit.into(), value.clone(), fields],
        )
    };
    let cases = [
        (
            "millennium",
            map([("timezone", "Europe/Stockholm".into())]),
            "2000-01-01T00:00+01:00[Europe/Stockholm]",
        ),
        ("century", Value::Null, "2000-01-01T00:00+01:00"),
        ("decade", Value::Null, "2010-01-01T00:00+01:00"),
        ("year", map([("day", int(5))]), "2017-01-05T00:00+01:00"),
        ("weekYear", Value::Null, "2017-01-02T00:00+01:00"),
        ("quarter", Value::Null, "2017-10-01T00:00+01:00"),
        ("month", Value::Null, "2017-11-01T00:00+01:00"),
        (
            "week",
            map([("dayOfWeek", int(2))]),
            "2017-11-07T00:00+01:00",
        ),
        (
            "day",
            map([("millisecond", int(2))]),
            "2017-11-11T00:00:00.002+01:00",
        ),
        ("hour", map([]), "2017-11-11T12:00+01:00"),
        ("minute", Value::Null, "2017-11-11T12:31+01:00"),
        (
            "second",
            map([("nanosecond", int(2))]),
            "2017-11-11T12:31:14.000000002+01:00",
        ),
        (
            "millisecond",
            map([("nanosecond", int(2))]),
            "2017-11-11T12:31:14.645000002+01:00",
        ),
        (
            "microsecond",
            map([("nanosecond", int(2))]),
            "2017-11-11T12:31:14.645876002+01:00",
        ),
        (
            "week",
            map([("time", made("localtime", "10:00")), ("dayOfWeek", int(1))]),
            "2017-11-06T10:00+01:00",
        ),
    ];
    for (unit, fields, expected) in cases {
        assert_eq!(cut("datetime", unit, &zoned, fields), expected, "{unit}");
    }
    let date = made("date", "1984-01-01");
    assert_eq!(
        cut("date", "weekYear", &date, map([("day", int(5))])),
        "1983-01-05"
    );
    assert_eq!(
        cut("date", "century", &made("date", "-0001-05-05"), Value::Null),
        "-0100-01-01"
    );
    assert_eq!(
        cut(
            "datetime",
            "day",
            &date,
            map([("timezone", "+02:00".into())])
        ),
        "1984-01-01T00:00+02:00"
    );
    assert_eq!(
        cut("localdatetime", "month", &zoned, Value::Null),
        "2017-11-01T00:00"
    );
    assert_eq!(
        cut("time", "day", &made("localtime", "12:31"), Value::Null),
        "00:00Z"
    );
    assert_eq!(
        cut(
            "time",
            "minute",
            &zoned,
            map([("timezone", "+02:00".into())])
        ),
        "12:31+02:00"
    );
    assert_eq!(
        cut("localtime", "hour", &zoned, map([("second", int(1))])),
        "12:00:01"
    );
    assert_eq!(text("date.truncate", &["year".into()]), "2023-01-01");
    assert_eq!(
        call("date.truncate", &["year".into(), Value::Null]),
        Ok(Value::Null)
    );
    for (name, unit, value) in [
        ("date", "hour", &date),
        ("time", "week", &zoned),
        ("date", "fortnight", &date),
        ("datetime", "hour", &date),
        ("date", "day", &made("localtime", "12")),
    ] {
        let error = call(&format!("{name}.truncate"), &[unit.into(), value.clone()]);
        assert!(error.is_err(), "{name} {unit}: {error:?}");
    }
}

#[test]
fn texts_are_read_in_all_forms() {
    let cases = [
        ("date", "2015-Q2-60", "2015-05-30"),
        ("date", "2015Q260", "2015-05-30"),
        ("date", "2015-Q2", "2015-04-01"),
        ("date", "+2015-W13-4", "2015-03-26"),
        ("date", "-0044-03-15", "-0044-03-15"),
        ("date", "+9999-12-31", "9999-12-31"),
        ("localtime", "T12:50:35,556", "12:50:35.556"),
        ("localtime", "12:50:35.1234567899", "12:50:35.123456789"),
        ("time", "125035.556+0100", "12:50:35.556+01:00"),
        ("time", "12:50", "12:50Z"),
        ("time", "12:50-00:30:15", "12:50-00:30:15"),
        ("localdatetime", "2015-05-05", "2015-05-05T00:00"),
        ("datetime", "2015-05-05", "2015-05-05T00:00Z"),
        ("datetime", "9999-12-31T23:59:59Z", "9999-12-31T23:59:59Z"),
        (
            "datetime",
            "9999-12-31T23:59:59.999999999-18:00",
            "9999-12-31T23:59:59.999999999-18:00",
        ),
        (
            "datetime",
            "-9999-01-01T00:00[Pacific/Kiritimati]",
            "-9999-01-01T00:00-10:29:20[Pacific/Kiritimati]",
        ),
        (
            "datetime",
            "-9999-01-01T00:00+18:00",
            "-9999-01-01T00:00+18:00",
        ),
        (
            "datetime",
            "2015-05-05T12:00[Europe/Rome]",
            "2015-05-05T12:00+02:00[Europe/Rome]",
        ),
        (
            "datetime",
            "2015-05-05T12:00Z[Europe/Rome]",
            "2015-05-05T14:00+02:00[Europe/Rome]",
        ),
        (
            "datetime",
            "2017-10-29T02:30[Europe/Rome]",
            "2017-10-29T02:30+02:00[Europe/Rome]",
        ),
        (
            "datetime",
            "2017-10-29T02:30+01:00[Europe/Rome]",
            "2017-10-29T02:30+01:00[Europe/Rome]",
        ),
        (
            "datetime",
            "2017-03-26T02:30[Europe/Rome]",
            "2017-03-26T03:30+02:00[Europe/Rome]",
        ),
        ("duration", "-P1DT2H", "P-1DT-2H"),
        ("duration", "P1Y2Q", "P1Y6M"),
        ("duration", "PT-0.5S", "PT-0.5S"),
        ("duration", "P0D", "PT0S"),
        ("duration", "P1Y9M-2D", "P1Y9M-2D"), // looks like a date after four characters
    ];
    for (name, given, expected) in cases {
        assert_eq!(text(name, &[given.into()]), expected, "{name}('{given}')");
    }
}

#[test]
fn what_is_no_value_is_refused_with_its_reason() {
    let cases = [
        ("date", "", "a year of four digits is expected"),
        ("date", "15-01-01", "a year of four digits"),
        (
            "date",
            "2015-13-01",
            "month is out of range: 13 is not within 1 to 12",
        ),
        (
            "date",
            "2023-02-29",
            "day is out of range: 29 is not within 1 to 28",
        ),
        ("date", "2015-01-01x", "`x` is not expected"),
        (
            "date",
            "-999999999-01-01",
            "year is out of range: -999999999 is not within -9999 to 9999",
        ),
        ("date", "2015-W54", "week is out of range"),
        ("date", "日付", "a year of four digits"),
        ("localtime", "24:00", "hour is out of range"),
        ("localtime", "12:5", "2 digits of the minute are expected"),
        (
            "localtime",
            "12:05:06.",
            "digits are expected behind the decimal point",
        ),
        ("time", "12:00[Europe/Rome]", "takes an offset"),
        ("time", "12:00+19:00", "offset in seconds is out of range"),
        ("datetime", "2015-05-05T12:00[Europe/Rome", "is not a zone"),
        (
            "datetime",
            "2015-05-05T12:00[Mordor]",
            "time zone `Mordor` is unknown",
        ),
        (
            "datetime",
            "9999-12-31T23:59Z[Europe/Rome]",
            "is not within the years -9999 to 9999",
        ),
        (
            "datetime",
            "2023-07-05T01:40-08:00[America/Los_Angeles]",
            "America/Los_Angeles is at -07:00 then, not at -08:00",
        ),
        (
            "datetime",
            "2023-07-05T01:40+00:00[America/Los_Angeles]",
            "America/Los_Angeles is at -07:00 then, not at Z",
        ),
        (
            "datetime",
            "2023-03-12T02:30-08:00[America/Los_Angeles]",
            "skip that time",
        ),
        ("duration", "1D", "it starts with `P`"),
        ("duration", "P", "an amount is missing"),
        ("duration", "P1DT", "an amount is missing"),
        ("duration", "P1D2Y", "in this order"),
        ("duration", "P1H", "one of Y, M, W, D"),
        (
            "duration",
            "P99999999999999999999Y",
            "does not fit into 64 bits",
        ),
        (
            "duration",
            "P9223372036854775807Y",
            "does not fit into 64 bits",
        ),
        ("duration", "P2012-14-02T14:37:21", "written as a date"),
    ];
    for (name, given, expected) in cases {
        let got = text(name, &[given.into()]);
        assert!(got.contains(expected), "{name}('{given}'): {got}");
    }
    let cases = [
        ("date", map([("month", int(1))]), "`year` is missing"),
        (
            "date",
            map([("year", int(1)), ("day", int(1))]),
            "`day` needs `month`",
        ),
        (
            "date",
            map([("year", int(1)), ("month", int(1)), ("week", int(1))]),
            "name the day twice",
        ),
        (
            "date",
            map([("year", 1.5.into())]),
            "`year` takes an integer, not FLOAT",
        ),
        (
            "date",
            map([("year", Value::Null)]),
            "`year` takes an integer, not NULL",
        ),
        (
            "date",
            map([("yaer", int(1))]),
            "it has no field `yaer`; known are year, month",
        ),
        (
            "localtime",
            map([("hour", int(1)), ("second", int(1))]),
            "`second` needs `minute`",
        ),
        ("time", map([("minute", int(1))]), "`hour` is missing"),
        (
            "datetime",
            map([("epochMillis", int(1)), ("year", int(1))]),
            "an epoch cannot be combined with a date or time",
        ),
        (
            "duration",
            map([("days", "1".into())]),
            "`days` takes a number, not STRING",
        ),
        ("duration", map([("days", f64::NAN.into())]), "too large"),
        (
            "date",
            int(1),
            "date takes a value with a date, not INTEGER",
        ),
        (
            "localtime",
            made("date", "2015"),
            "localtime takes a value with a time, not DATE",
        ),
    ];
    for (name, given, expected) in cases {
        let got = text(name, &[given]);
        assert!(got.contains(expected), "{name}: {got}");
    }
    assert!(function("date.between").is_none());
    assert!(function("datetime.fromEpochMillis").is_some());
}

#[test]
fn parts_are_read_by_name() {
    let zoned = made("datetime", "1969-12-31T23:59:59.5-01:30");
    let part = |value: &Value, name| accessor(value, name);
    assert_eq!(part(&zoned, "epochSeconds"), Ok(int(5399)));
    assert_eq!(
        part(&made("datetime", "1969-12-31T23:59:59.5Z"), "epochMillis"),
        Ok(int(-500))
    );
    assert_eq!(part(&zoned, "offsetMinutes"), Ok(int(-90)));
    assert_eq!(part(&zoned, "timezone"), Ok("-01:30".into()));
    assert_eq!(part(&made("time", "12Z"), "offset"), Ok("Z".into()));
    assert_eq!(
        part(&made("duration", "P-14M"), "monthsOfYear"),
        Ok(int(-2))
    );
    assert!(matches!(
        part(&zoned, "century"),
        Err(ValueError::NoField { .. })
    ));
    assert!(matches!(
        part(&int(1), "year"),
        Err(ValueError::Type { .. })
    ));
    let huge = Value::from(Duration {
        seconds: i64::MAX,
        ..Duration::default()
    });
    assert!(matches!(
        part(&huge, "nanoseconds"),
        Err(ValueError::Overflow { .. })
    ));
}

#[test]
fn durations_join_with_what_they_can() {
    let duration = |text: &str| made("duration", text);
    let date = made("date", "2011-01-31");
    let show = |value: Result<Value, ValueError>| {
        value.map_or_else(|error| error.to_string(), |value| to_text(&value).unwrap())
    };
    let year = add(&add(&date, &duration("P1M")).unwrap(), &duration("P12M"));
    assert_eq!(show(year), "2012-02-28");
    assert_eq!(show(add(&duration("P13M"), &date)), "2012-02-29");
    assert_eq!(
        show(add(&made("time", "13:42:19"), &duration("P1DT12H"))),
        "01:42:19Z"
    );
    assert_eq!(show(multiply(&int(14), &duration("PT5H21M"))), "PT74H54M");
    assert_eq!(show(divide(&duration("PT3H16M"), &int(2))), "PT1H38M");
    assert_eq!(show(divide(&duration("P1M"), &int(3))), "P10DT3H29M42S");
    assert_eq!(show(divide(&duration("P1D"), &int(-2))), "PT-12H");
    assert_eq!(show(multiply(&duration("P1D"), &0.1.into())), "PT2H24M");
    // Across a change of the offset: days are calendar days, hours are exact.
    let before = made("datetime", "2017-10-28T12:00[Europe/Rome]");
    assert_eq!(
        show(add(&before, &duration("P1D"))),
        "2017-10-29T12:00+01:00[Europe/Rome]"
    );
    assert_eq!(
        show(add(&before, &duration("PT24H"))),
        "2017-10-29T11:00+01:00[Europe/Rome]"
    );
    let second = made("datetime", "2017-10-29T02:30+01:00[Europe/Rome]");
    assert_eq!(
        show(add(&second, &duration("PT0S"))),
        "2017-10-29T02:30+01:00[Europe/Rome]"
    );
    assert_eq!(add(&Value::Null, &date), Ok(Value::Null));
    assert_eq!(
        divide(&duration("P1D"), &int(0)),
        Err(ValueError::DivisionByZero)
    );
    for (a, b) in [
        (&date, &date),
        (&date, &int(1)),
        (&duration("P1D"), &"x".into()),
    ] {
        assert!(matches!(add(a, b), Err(ValueError::Type { .. })));
        assert!(matches!(subtract(a, b), Err(ValueError::Type { .. })));
    }
    assert!(matches!(
        subtract(&duration("P1D"), &date),
        Err(ValueError::Type { .. })
    ));
    let most = Value::from(Duration {
        months: i64::MIN,
        days: i64::MIN,
        seconds: i64::MIN,
        nanos: 0,
    });
    for result in [
        add(&most, &most),
        subtract(&duration("P1D"), &most),
        subtract(&date, &most),
        multiply(&most, &int(-1)),
        multiply(&most, &f64::INFINITY.into()),
        divide(&most, &int(-1)),
        add(&date, &most),
        add(&before, &most),
    ] {
        let kind = matches!(
            result,
            Err(ValueError::Overflow { .. } | ValueError::OutOfRange { .. })
        );
        assert!(kind, "{result:?}");
    }
}

/// As `java.time` counts: the incomplete last day does not help to complete a month at whose end the day is missing.
#[test]
fn months_end_where_their_last_day_is_complete() {
    let cases = [
        ("2019-12-31T12:30", "2020-02-29T12:30", "P1M29D"),
        ("2019-12-31T12:30", "2020-03-01T00:00", "P1M29DT11H30M"),
        ("2019-12-31T12:30", "2020-03-01T12:30", "P2M1D"),
        ("2019-12-31T00:00", "2020-03-01T00:00", "P2M1D"),
        ("2020-03-01T00:00", "2019-12-31T12:30", "P-2MT-11H-30M"),
        ("2020-01-15T10:00", "2020-02-15T09:00", "P30DT23H"),
    ];
    for (from, to, expected) in cases {
        let between = [made("localdatetime", from), made("localdatetime", to)];
        assert_eq!(
            text("duration.between", &between),
            expected,
            "{from} to {to}"
        );
    }
}

#[test]
fn durations_between_values_say_what_they_cannot_take() {
    let error = call("duration.between", &[int(1), made("date", "2015")])
        .unwrap_err()
        .to_string();
    assert_eq!(
        error,
        "a duration between two values takes two dates, times or date-times, not INTEGER"
    );
    let times = [made("localtime", "10"), made("localtime", "09")];
    assert_eq!(text("duration.inMonths", &times), "PT0S");
    assert_eq!(
        text(
            "duration.between",
            &[made("date", "2024-01-31"), made("date", "2024-03-01")]
        ),
        "P1M1D"
    );
}

/// Values derived from a date-time keep its offset in the hour that occurs twice.
#[test]
fn the_second_of_two_equal_hours_stays_the_second() {
    let zone = "[America/Los_Angeles]";
    for offset in ["-07:00", "-08:00"] {
        let own = made("datetime", format!("2023-11-05T01:40:30.5{offset}{zone}"));
        let at = |fields: &[(&'static str, Value)]| {
            let mut map: Map = fields.iter().cloned().collect();
            if !map.contains("date") {
                map.insert("datetime", own.clone());
            }
            text("datetime", &[map.into()])
        };
        let truncated = |unit: &str, more: &[(&'static str, Value)]| {
            let fields: Map = more.iter().cloned().collect();
            text(
                "datetime.truncate",
                &[unit.into(), own.clone(), fields.into()],
            )
        };
        let expected = |clock: &str| format!("2023-11-05T{clock}{offset}{zone}");
        assert_eq!(at(&[]), expected("01:40:30.5"));
        assert_eq!(at(&[("second", int(5))]), expected("01:40:05.5"));
        assert_eq!(
            at(&[("date", own.clone()), ("time", own.clone())]),
            expected("01:40:30.5")
        );
        assert_eq!(truncated("minute", &[]), expected("01:40"));
        assert_eq!(truncated("hour", &[]), expected("01:00"));
        assert_eq!(truncated("hour", &[("minute", int(7))]), expected("01:07"));
        // Midnight has one offset, and so has another day.
        assert_eq!(
            truncated("day", &[]),
            format!("2023-11-05T00:00-07:00{zone}")
        );
        assert_eq!(
            at(&[("day", int(6))]),
            format!("2023-11-06T01:40:30.5-08:00{zone}")
        );
        let cut = call("datetime.truncate", &["minute".into(), own.clone()]).unwrap();
        assert_eq!(text("duration.inSeconds", &[cut, own.clone()]), "PT30.5S");
        // The same in another zone and back.
        let tokyo = at(&[("timezone", "Asia/Tokyo".into())]);
        let back = map([
            ("datetime", made("datetime", tokyo)),
            ("timezone", "America/Los_Angeles".into()),
        ]);
        assert_eq!(text("datetime", &[back]), expected("01:40:30.5"));
    }
}

/// The last and the first day support arithmetic, epochs, fields, orders like any other.
#[test]
fn both_ends_of_time_are_values() {
    let last = made("datetime", "9999-12-31T23:59:59.999999999Z");
    let first = made("datetime", "-9999-01-01T00:00Z");
    let field = |value: &Value, name| accessor(value, name).unwrap();
    assert_eq!(field(&last, "epochSeconds"), int(253_402_300_799));
    assert_eq!(field(&last, "epochMillis"), int(253_402_300_799_999));
    assert_eq!(field(&first, "epochSeconds"), int(-377_705_116_800));
    assert_eq!(
        made("datetime", map([("epochSeconds", int(253_402_300_799))])),
        made("datetime", "9999-12-31T23:59:59Z")
    );
    assert!(
        text("datetime", &[map([("epochSeconds", int(253_402_300_800))])])
            .contains("is not within the years -9999 to 9999")
    );
    let in_tokyo = map([
        ("datetime", made("datetime", "9999-12-31T23:59:59Z")),
        ("timezone", "Asia/Tokyo".into()),
    ]);
    assert!(
        text("datetime", &[in_tokyo])
            .contains("253402300799 seconds after 1970 at the offset +09 is not")
    );
    let second = made("duration", "PT1S");
    let earlier = subtract(&last, &second).unwrap();
    assert_eq!(to_text(&earlier).unwrap(), "9999-12-31T23:59:58.999999999Z");
    assert_eq!(add(&earlier, &second), Ok(last.clone()));
    assert!(add(&last, &second).is_err());
    assert!(subtract(&first, &second).is_err());
    assert_eq!(
        text("duration.inSeconds", &[first.clone(), last.clone()]),
        "PT175307615H59M59.999999999S"
    );
    assert_eq!(
        text("datetime.truncate", &["day".into(), last.clone()]),
        "9999-12-31T00:00Z"
    );
    let ahead = made("datetime", "9999-12-31T23:59:59.999999999-18:00");
    let behind = made("datetime", "-9999-01-01T00:00+18:00");
    let mut values = [last.clone(), behind.clone(), ahead.clone(), first.clone()];
    values.sort_by(crate::order::cmp_order);
    assert_eq!(values, [behind, first, last, ahead]);
    for value in values {
        let bytes = crate::key::encode(&value).unwrap();
        assert_eq!(crate::key::decode(&bytes), Ok(value));
    }
}
