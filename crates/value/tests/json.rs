//! The JSON codec against itself and against an independent one.

mod support;

use isomer_value::{Map, Value, json};
use proptest::prelude::*;
use support::{any_float, any_int, any_text, any_value};

/// Values that JSON can say: they come back the same.
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

/// Texts that are nearly JSON.
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

fn agrees(ours: &Value, theirs: &serde_json::Value) -> bool {
    match (ours, theirs) {
        (Value::Null, serde_json::Value::Null) => true,
        (Value::Bool(a), serde_json::Value::Bool(b)) => a == b,
        (Value::Int(a), serde_json::Value::Number(b)) => {
            b.as_i64() == Some(*a) || (*a == 0 && b.as_f64() == Some(0.0)) // -0
        }
        (Value::Float(a), serde_json::Value::Number(b)) => {
            // The peer rounds its last digits, more of them where doubles are denormal.
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

    /// What is written is read back the same, float bits included, and any other reader takes it too.
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

    /// Whatever is written is JSON, for values of every type.
    #[test]
    fn everything_written_is_json(value in any_value()) {
        let text = json::to_string(&value).unwrap();
        prop_assert!(json::parse(&text).is_ok(), "{text}");
        prop_assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok(), "{text}");
    }

    /// Nearly right texts are judged as an independent reader judges them, but for what we refuse on purpose.
    #[test]
    fn near_json_is_judged_alike(text in near_json()) {
        check_against_peer(&text);
    }

    /// No bytes make the reader panic.
    #[test]
    fn the_reader_survives_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let _ = json::parse_bytes(&bytes);
    }
}
