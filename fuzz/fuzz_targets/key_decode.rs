//! Arbitrary bytes as a key: decoding never panics, and an accepted key round-trips to an equal key.
#![no_main]

use isomer_value::{equality::equivalent, key};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(value) = key::decode(bytes) {
        let again = key::encode(&value).expect("what was decoded can be encoded");
        let back = key::decode(&again).expect("what was encoded can be decoded");
        assert!(equivalent(&value, &back), "{value:?} came back as {back:?}");
    }
    // Two parts of the input as two keys: the byte order of keys is the order of their values.
    let (left, right) = bytes.split_at(bytes.len() / 2);
    if let (Ok(a), Ok(b)) = (key::decode(left), key::decode(right)) {
        let keys =
            [&a, &b].map(|value| key::encode(value).expect("what was decoded can be encoded"));
        assert_eq!(
            keys[0].cmp(&keys[1]),
            isomer_value::order::cmp_order(&a, &b),
            "{a:?} against {b:?}"
        );
    }
    let _ = key::decode_all(bytes);
});
