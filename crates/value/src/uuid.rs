//! Generated keys.

use uuid::{Builder, Uuid};

/// A new UUID of version 7 in lower case with dashes. UUIDs ascend with time, also within a millisecond of one process,
/// so that consecutively inserted records are adjacent in key order.
pub fn new_uuid_v7() -> String {
    Uuid::now_v7().hyphenated().to_string()
}

/// The UUID of version 7 for a time in milliseconds since 1970 and random bytes, for reproducible runs.
pub fn uuid_v7_of(unix_ms: u64, random: [u8; 10]) -> String {
    Builder::from_unix_timestamp_millis(unix_ms, &random)
        .into_uuid()
        .hyphenated()
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_keys_ascend() {
        let keys: Vec<_> = (0..1000).map(|_| new_uuid_v7()).collect();
        assert!(keys.is_sorted_by(|a, b| a < b));
        assert!(
            keys.iter()
                .all(|key| key.len() == 36 && &key[14..15] == "7")
        );
    }

    #[test]
    fn the_same_time_and_random_bytes_give_the_same_key() {
        assert_eq!(
            uuid_v7_of(0x0189_0000_0000, [0; 10]),
            "01890000-0000-7000-8000-000000000000"
        );
    }
}
