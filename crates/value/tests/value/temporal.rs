//! Properties of the temporal functions.

use crate::support::{any_temporal, any_text, any_value};
use isomer_value::{
    Map, Value,
    jiff::Timestamp,
    temporal::{Now, accessor, add, function, subtract, to_text},
};
use proptest::prelude::*;

const FUNCTIONS: [&str; 14] = [
    "date",
    "localtime",
    "time",
    "localdatetime",
    "datetime",
    "duration",
    "date.truncate",
    "time.truncate",
    "datetime.truncate",
    "duration.between",
    "duration.inMonths",
    "duration.inDays",
    "duration.inSeconds",
    "datetime.fromepochmillis",
];

const FIELDS: [&str; 12] = [
    "year",
    "month",
    "day",
    "week",
    "quarter",
    "hour",
    "minute",
    "second",
    "nanosecond",
    "timezone",
    "date",
    "datetime",
];

fn call(name: &str, args: &[Value]) -> Result<Value, isomer_value::ValueError> {
    function(name)
        .expect("is one of them")
        .call(args, &Now::utc(Timestamp::UNIX_EPOCH))
}

fn constructor(value: &Value) -> Option<&'static str> {
    Some(match value {
        Value::Date(_) => "date",
        Value::LocalTime(_) => "localtime",
        Value::ZonedTime(_) => "time",
        Value::LocalDateTime(_) => "localdatetime",
        Value::ZonedDateTime(_) => "datetime",
        Value::Duration(_) => "duration",
        _ => return None,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

    /// Written values are read back identically.
    #[test]
    fn texts_round_trip(value in any_temporal()) {
        let text = to_text(&value).unwrap();
        let back = call(constructor(&value).unwrap(), &[text.as_str().into()]);
        prop_assert_eq!(back, Ok(value), "{}", text);
    }

    /// The duration from a to b, added to a, yields b.
    #[test]
    fn a_difference_leads_from_one_to_the_other(a in any_temporal(), b in any_temporal()) {
        let is_whole = |value: &Value| matches!(value, Value::Date(_) | Value::LocalDateTime(_));
        if is_whole(&a) && is_whole(&b) {
            let between = call("duration.between", &[a.clone(), b.clone()]).unwrap();
            let from = call("localdatetime", &[a]).unwrap();
            prop_assert_eq!(add(&from, &between), call("localdatetime", &[b]));
        }
    }

    /// No arguments make a function panic.
    #[test]
    fn functions_survive_any_arguments(
        name in prop::sample::select(FUNCTIONS.to_vec()),
        mut args in prop::collection::vec(any_value(), 0..3),
        unit in prop::sample::select(vec!["year", "week", "day", "hour", "x"]),
        fields in prop::collection::vec((prop::sample::select(FIELDS.to_vec()), any_value()), 0..4),
    ) {
        let fields = Value::from(fields.into_iter().collect::<Map>());
        let _ = call(name, &args);
        let _ = call(name, std::slice::from_ref(&fields));
        args.insert(0, unit.into());
        args.push(fields);
        let _ = call(name, &args);
    }

    /// The same for arbitrary strings and operands.
    #[test]
    fn texts_and_operands_are_survived(
        name in prop::sample::select(FUNCTIONS[..6].to_vec()),
        text in prop_oneof!["[-+PTZWQ0-9:.,\\[\\]YMDHS]{0,20}", any_text()],
        a in any_value(),
        b in any_value(),
    ) {
        if let Ok(value) = call(name, &[text.into()]) {
            prop_assert!(to_text(&value).is_some());
        }
        let _ = add(&a, &b);
        let _ = subtract(&a, &b);
        for name in ["year", "nanoseconds", "epochMillis", "week"] {
            let _ = accessor(&a, name);
        }
    }
}
