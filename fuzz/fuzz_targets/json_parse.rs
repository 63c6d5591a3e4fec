//! Arbitrary bytes as JSON: reading never panics, and values round-trip.
#![no_main]

use isomer_value::json;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(value) = json::parse_bytes(bytes) {
        let text = json::to_string(&value).expect("what was read is not too deep");
        let back = json::parse(&text).expect("what was written is JSON");
        assert_eq!(back, value, "{text}");
    }
});
