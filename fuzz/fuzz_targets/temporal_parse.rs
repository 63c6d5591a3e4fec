//! Arbitrary text as a date, time, date-time or duration: parsing never panics, and values round-trip through
//! text.
#![no_main]

use isomer_value::{
    Value,
    jiff::Timestamp,
    temporal::{Now, function, to_text},
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let now = Now::utc(Timestamp::UNIX_EPOCH);
    for name in [
        "date",
        "localtime",
        "time",
        "localdatetime",
        "datetime",
        "duration",
    ] {
        let function = function(name).expect("is a function");
        let Ok(value) = function.call(&[Value::from(text)], &now) else {
            continue;
        };
        let told = to_text(&value).expect("is temporal");
        assert_eq!(
            function.call(&[Value::from(told.as_str())], &now),
            Ok(value),
            "{name}: {told}"
        );
    }
});
