//! The pairs: two UUIDs as text, each derived from its number alone, so that none has to be stored.

use crate::random::Random;

const SEED: u64 = 0x1507;

/// A UUID in its usual spelling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uuid([u8; 36]);

impl Uuid {
    /// A random UUID (version 4).
    fn new(high: u64, low: u64) -> Self {
        let high = high & !0xf000 | 0x4000;
        let low = low & !(3 << 62) | 1 << 63;
        let mut text = [b'-'; 36];
        let mut at = 0;
        for byte in [high.to_be_bytes(), low.to_be_bytes()].as_flattened() {
            if matches!(at, 8 | 13 | 18 | 23) {
                at += 1;
            }
            text[at] = HEX[usize::from(byte >> 4)];
            text[at + 1] = HEX[usize::from(byte & 15)];
            at += 2;
        }
        Self(text)
    }

    /// Its 36 characters.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Its 36 characters, as text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("hexadecimal digits and hyphens are ASCII")
    }
}

const HEX: &[u8; 16] = b"0123456789abcdef";

/// A key and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The key.
    pub key: Uuid,
    /// The value.
    pub value: Uuid,
}

/// Pair number `number`: the same in every run, unordered.
pub fn pair(number: u64) -> Pair {
    let mut random = Random::for_item(SEED, 1, number);
    let mut uuid = || Uuid::new(random.next_u64(), random.next_u64());
    Pair {
        key: uuid(),
        value: uuid(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_uuids_and_differ() {
        let mut keys = std::collections::BTreeSet::new();
        for number in (0..1000).chain(u64::MAX - 1000..u64::MAX) {
            let Pair { key, value } = pair(number);
            assert_eq!(pair(number).key, key);
            assert_ne!(key, value);
            let text = key.as_str();
            assert_eq!((text.len(), &text[14..15]), (36, "4"));
            assert!(text.bytes().enumerate().all(|(at, byte)| match at {
                8 | 13 | 18 | 23 => byte == b'-',
                _ => byte.is_ascii_hexdigit(),
            }));
            keys.insert(text.to_owned());
        }
        assert_eq!(keys.len(), 2000);
    }
}
