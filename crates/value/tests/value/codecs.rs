//! Properties of the order, the equalities and the codecs, for all values.

use std::{
    cmp::Ordering,
    collections::hash_map::DefaultHasher,
    hash::{Hash, Hasher},
};

use crate::support::{any_float, any_int, any_value};
use isomer_value::{
    GroupKey, LabelId, Map, NameTable, PropId, Value,
    equality::{ComparisonResult, compare, equal, equivalent},
    key,
    order::cmp_order,
    record::{RecordBuilder, RecordRef, decode_value, encode_value},
};
use proptest::prelude::*;

fn hash_of(value: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    GroupKey(value.clone()).hash(&mut hasher);
    hasher.finish()
}

/// A value equivalent to `value`, with numbers converted to the other type.
fn twin(value: &Value) -> Value {
    match value {
        Value::Int(int) if (*int as f64) as i128 == i128::from(*int) => (*int as f64).into(),
        Value::Float(float) if *float == 0.0 => (-float).into(),
        Value::Float(float) if float.trunc() == *float && float.abs() < 1e15 => {
            (*float as i64).into()
        }
        Value::List(items) => items.iter().map(twin).collect(),
        Value::Map(map) => map
            .iter()
            .map(|(name, value)| (name.clone(), twin(value)))
            .collect::<Map>()
            .into(),
        other => other.clone(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1024) })]

    /// Keys sort as their values do: range scans rely on this.
    #[test]
    fn key_order_is_value_order(a in any_value(), b in any_value()) {
        let (key_a, key_b) = (key::encode(&a).unwrap(), key::encode(&b).unwrap());
        prop_assert_eq!(key_a.cmp(&key_b), cmp_order(&a, &b));
        prop_assert!(!key_a.starts_with(&key_b) || key_a == key_b, "a key must not begin with another");
    }

    /// Integers and floats interleave exactly, in values and in keys.
    #[test]
    fn numbers_interleave(int in any_int(), float in any_float()) {
        let (a, b) = (Value::from(int), Value::from(float));
        let order = cmp_order(&a, &b);
        prop_assert_eq!(key::encode(&a).unwrap().cmp(&key::encode(&b).unwrap()), order);
        if !float.is_nan() && float.abs() < 1e19 {
            // The whole part as 128-bit integer, compared without any rounding.
            let whole = float.floor() as i128;
            let expected = i128::from(int).cmp(&whole).then_with(|| {
                if float.floor() < float { Ordering::Less } else { Ordering::Equal }
            });
            prop_assert_eq!(order, expected);
        }
    }

    /// Composite keys sort by their first value, then by their second.
    #[test]
    fn composite_keys_sort_part_by_part(a in any_value(), b in any_value(), c in any_value(), d in any_value()) {
        let order = cmp_order(&a, &c).then_with(|| cmp_order(&b, &d));
        let (ab, cd) = (key::encode_all([&a, &b]).unwrap(), key::encode_all([&c, &d]).unwrap());
        prop_assert_eq!(ab.cmp(&cd), order);
        let parts = key::decode_all(&ab).unwrap();
        prop_assert!(parts.len() == 2 && equivalent(&parts[0], &a) && equivalent(&parts[1], &b));
    }

    /// A decoded key is an equivalent value, which has the same key.
    #[test]
    fn a_key_round_trips(value in any_value()) {
        let bytes = key::encode(&value).unwrap();
        let back = key::decode(&bytes).unwrap();
        prop_assert!(equivalent(&value, &back), "{value:?} came back as {back:?}");
        prop_assert_eq!(key::encode(&back).unwrap(), bytes);
    }

    /// A decoded record has exactly the original values, including number types and the sign of zero.
    #[test]
    fn a_record_value_round_trips(value in any_value()) {
        let mut names = NameTable::new();
        let mut bytes = Vec::new();
        encode_value(&value, &mut names, &mut bytes).unwrap();
        let back = decode_value(&bytes, &names).unwrap();
        prop_assert_eq!(&back, &value);
        if let (Value::Float(back), Value::Float(value)) = (&back, &value) {
            prop_assert_eq!(back.to_bits(), value.to_bits());
        }
    }

    /// Every property of a record can be read individually, and all together.
    #[test]
    fn a_record_round_trips(
        labels in prop::collection::vec(0_u32..300, 0..4),
        fields in prop::collection::btree_map(0_u32..400, any_value(), 0..12),
    ) {
        let mut names = NameTable::new();
        let labels: Vec<_> = labels.into_iter().map(LabelId).collect();
        let mut builder = RecordBuilder::node(&labels);
        for (id, value) in fields.iter().rev() {
            builder.put(PropId(*id), value, &mut names).unwrap();
        }
        let bytes = builder.finish().unwrap();
        let record = RecordRef::new(&bytes).unwrap();
        for id in 0..410 {
            let got = record.get(PropId(id), &names).unwrap();
            prop_assert_eq!(got.as_ref(), fields.get(&id));
        }
        let all: Result<Vec<_>, _> = record.iter(&names).collect();
        let expected: Vec<_> = fields.into_iter().map(|(id, value)| (PropId(id), value)).collect();
        prop_assert_eq!(all.unwrap(), expected);
        let copy = RecordBuilder::from_record(&record).unwrap().finish().unwrap();
        prop_assert_eq!(copy, bytes);
    }

    /// The order is total: it is transitive over three values.
    #[test]
    fn the_order_is_transitive(mut values in prop::collection::vec(any_value(), 3)) {
        values.sort_by(cmp_order);
        prop_assert!(cmp_order(&values[0], &values[1]).is_le());
        prop_assert!(cmp_order(&values[1], &values[2]).is_le());
        prop_assert!(cmp_order(&values[0], &values[2]).is_le());
        prop_assert_eq!(cmp_order(&values[0], &values[1]), cmp_order(&values[1], &values[0]).reverse());
    }

    /// Equal implies equivalent implies equal hashes, and comparison agrees with the order.
    #[test]
    fn the_relations_agree(a in any_value(), other in any_value(), near in any::<bool>()) {
        let b = if near { twin(&a) } else { other };
        prop_assert_eq!(equivalent(&a, &b), cmp_order(&a, &b).is_eq());
        if equal(&a, &b) == Some(true) {
            prop_assert!(equivalent(&a, &b));
        }
        if equivalent(&a, &b) {
            prop_assert_eq!(hash_of(&a), hash_of(&b));
        }
        if a == b {
            prop_assert!(equivalent(&a, &b));
        }
        if near {
            prop_assert!(equivalent(&a, &b));
        }
        if let (ComparisonResult::Ordered(order), false) = (compare(&a, &b), matches!(a, Value::List(_))) {
            prop_assert_eq!(order, cmp_order(&a, &b));
        }
        prop_assert_eq!(equal(&a, &b), equal(&b, &a));
    }

    /// Arbitrary bytes never make a decoder panic; a key that is accepted encodes to the same bytes.
    #[test]
    fn decoders_survive_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        decode_anything(&bytes);
    }

    /// The same for slightly damaged valid bytes.
    #[test]
    fn decoders_survive_damaged_bytes(value in any_value(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut names = NameTable::new();
        let mut builder = RecordBuilder::node(&[LabelId(1)]);
        builder.put(PropId(1), &value, &mut names).unwrap();
        for mut bytes in [key::encode(&value).unwrap(), builder.finish().unwrap()] {
            let at = at.index(bytes.len());
            bytes[at] = byte;
            decode_anything(&bytes);
            bytes.truncate(at);
            decode_anything(&bytes);
        }
    }
}

fn decode_anything(bytes: &[u8]) {
    if let Ok(value) = key::decode(bytes) {
        key::encode(&value).expect("what was decoded can be encoded");
    }
    let _ = key::decode_all(bytes);
    let names = NameTable::new();
    let _ = decode_value(bytes, &names);
    if let Ok(record) = RecordRef::new(bytes) {
        let _ = record.check(&names);
        for id in 0..4 {
            let _ = record.get(PropId(id), &names);
            let _ = record.get_path(&[PropId(id), PropId(1)], &names);
        }
        if let Ok(builder) = RecordBuilder::from_record(&record) {
            let _ = builder.finish();
        }
    }
}

/// A key of a thousand nested lists is rejected instead of overflowing the stack.
#[test]
fn deep_keys_and_records_are_refused() {
    assert!(key::decode(&[0x10; 100_000]).is_err());
    let nested = (0..129).fold(Value::Null, |inner, _| Value::from(vec![inner]));
    assert!(key::encode(&nested).is_err());
    let mut record = Vec::new();
    for _ in 0..100_000 {
        record.extend([0x0a, 0xff, 0xff, 0x03, 0x01]);
    }
    assert!(decode_value(&record, &NameTable::new()).is_err());
}
