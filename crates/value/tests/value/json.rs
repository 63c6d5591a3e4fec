//! Compares the JSON codec with itself and with an independent one.

use crate::support::{any_float, any_int, any_text, any_value};
use isomer_value::{Map, Value, json};
use proptest::prelude::*;

/// Values that JSON can represent: they round-trip.
fn any_plain_value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any_int().prop_map(Value::from),
        any_float()
            .prop_filter("is finite", |float| float.is_finite())
            .prop_map(Value::from),
        any_text().prop_map(Value::from),
    ];
    scalar.prop_recursive(5, 32, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((any_text(), inner), 0..5)
                .prop_map(|entries| entries.into_iter().collect::<Map>().into()),
        ]
    })
}

/// Texts that are almost JSON.
fn near_json() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"",
        "\"a\"",
        "\"b\"",
        "\\u00e9",
        "\\ud83d\\ude00",
        "\\ud800",
        "1",
        "-0",
        "0.5",
        "1e3",
        "12345678901234567890",
        "true",
        "null",
        " ",
        "\n",
        "é",
        ".",
        "e",
    ]);
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

const TAGS: [&str; 4] = ["$date", "$map", "$float", "$point"];

/// Points that neither the language nor Bolt creates.
fn has_odd_point(value: &Value) -> bool {
    match value {
        Value::Point(point) => {
            ![point.x, point.y, point.z]
                .iter()
                .all(|one| one.is_finite())
                || !point.is_in_range()
        }
        Value::List(items) => items.iter().any(has_odd_point),
        Value::Map(map) => map.values().any(has_odd_point),
        _ => false,
    }
}

/// The debug text, which differs between the two zeros.
fn bits(value: &Value) -> String {
    format!("{value:?}")
}

fn agrees(ours: &Value, theirs: &serde_json::Value) -> bool {
    match (ours, theirs) {
        (Value::Null, serde_json::Value::Null) => true,
        (Value::Bool(a), serde_json::Value::Bool(b)) => a == b,
        (Value::Int(a), serde_json::Value::Number(b)) => {
            b.as_i64() == Some(*a) || (*a == 0 && b.as_f64() == Some(0.0)) // -0
        }
        (Value::Float(a), serde_json::Value::Number(b)) => {
            // The peer rounds its last digits, more of them for denormal numbers.
            b.as_f64()
                .is_some_and(|b| (a - b).abs() <= (a.abs() * 1e-15).max(1e-300))
        }
        (Value::String(a), serde_json::Value::String(b)) => **a == **b,
        (Value::List(a), serde_json::Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| agrees(a, b))
        }
        (Value::Map(a), serde_json::Value::Object(b)) => {
            a.len() == b.len()
                && a.iter()
                    .all(|(name, a)| b.get(&**name).is_some_and(|b| agrees(a, b)))
        }
        _ => false,
    }
}

fn check_against_peer(text: &str) {
    let theirs = serde_json::from_str::<serde_json::Value>(text);
    match (json::parse(text), theirs) {
        (Ok(ours), Ok(theirs)) => assert!(
            agrees(&ours, &theirs),
            "{text}: {ours:?} against {theirs:?}"
        ),
        (Ok(ours), Err(error)) => panic!("{text}: read as {ours:?}, but {error}"),
        (Err(error), Ok(_)) => {
            let text = error.to_string();
            let stricter = text.contains("64 bits") || text.contains("comes twice");
            assert!(stricter, "{text}: refused, but it is JSON");
        }
        (Err(_), Err(_)) => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1024) })]

    /// Every value survives a round trip in its exact form, including values that look like one.
    #[test]
    fn exact_values_round_trip(value in any_value(), tag in prop::sample::select(TAGS.to_vec())) {
        prop_assume!(!has_odd_point(&value));
        let looks_like_one: Value = Map::from_iter([(tag, value.clone())]).into();
        for value in [value, looks_like_one] {
            let text = json::to_string(&json::to_exact(&value)).unwrap();
            let back = json::from_exact(json::parse(&text).unwrap());
            prop_assert_eq!(bits(&back), bits(&value), "{}", text);
        }
    }

    /// Written text is read back identically, float bits included, and the other reader accepts it too.
    #[test]
    fn plain_values_round_trip(value in any_plain_value()) {
        let text = json::to_string(&value).unwrap();
        let back = json::parse(&text).unwrap();
        prop_assert_eq!(&back, &value);
        if let (Value::Float(back), Value::Float(value)) = (&back, &value) {
            prop_assert_eq!(back.to_bits(), value.to_bits());
        }
        check_against_peer(&text);
    }

    /// All written text is valid JSON, for values of every type.
    #[test]
    fn everything_written_is_json(value in any_value()) {
        let text = json::to_string(&value).unwrap();
        prop_assert!(json::parse(&text).is_ok(), "{text}");
        prop_assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok(), "{text}");
    }

    /// Almost valid texts are accepted or rejected as the independent reader does, except for what this codec
    /// rejects on purpose.
    #[test]
    fn near_json_is_judged_alike(text in near_json()) {
        check_against_peer(&text);
    }

    /// Arbitrary bytes never make the reader panic.
    #[test]
    fn the_reader_survives_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let _ = json::parse_bytes(&bytes);
    }
}
