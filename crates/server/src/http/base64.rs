//! Base64 (RFC 4648): read in both alphabets, with or without padding; written for paths.

use base64::{
    Engine,
    prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD},
};

/// The bytes of a text.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let text = text.trim_end_matches('=');
    BASE64_URL_SAFE_NO_PAD
        .decode(text.replace('+', "-").replace('/', "_"))
        .ok()
}

/// Encodes bytes for paths: without padding.
pub fn encode(bytes: &[u8]) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

/// Encodes bytes in the standard alphabet, with padding.
pub fn encode_padded(bytes: &[u8]) -> String {
    BASE64_STANDARD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_lengths_round_trip() {
        for length in 0..100 {
            let bytes: Vec<u8> = (0..length).map(|at| (at * 37 + 250) as u8).collect();
            assert_eq!(decode(&encode(&bytes)).unwrap(), bytes);
        }
        assert_eq!(decode("/+8=").unwrap(), [0xff, 0xef]);
        assert_eq!(decode("_-8").unwrap(), [0xff, 0xef]);
        for wrong in ["a", "a b", "ab%", "_-9"] {
            assert_eq!(decode(wrong), None, "{wrong}");
        }
    }
}
