//! The `_key` of a node, encoded.

use isomer_value::{Value, key};

use crate::DataError;

/// Longest text of a `_key` in bytes.
const MAX_KEY_TEXT: usize = 2048;

/// The encoded form of a `_key`.
pub fn encode_key(key: &Value) -> Result<Vec<u8>, DataError> {
    match key {
        Value::Int(_) => {}
        Value::String(text) if text.is_empty() => {
            return Err(DataError::invalid(
                "_key is the empty string: give at least one character",
            ));
        }
        Value::String(text) if text.len() > MAX_KEY_TEXT => {
            return Err(DataError::Limit {
                what: "_key".into(),
                size: format!("{} bytes", text.len()),
                max: format!("{MAX_KEY_TEXT} bytes"),
                advice: "use a shorter key, or a hash of it",
            });
        }
        Value::String(_) => {}
        other => {
            return Err(DataError::invalid(format!(
                "_key is a {}: it must be a string or an integer",
                other.type_name()
            )));
        }
    }
    Ok(key::encode(key)?)
}

/// The encoded form of a `_key` for a lookup; nothing for values that cannot be keys. A whole float equals the integer.
pub fn encode_found_key(key: &Value) -> Option<Vec<u8>> {
    let whole = match key {
        Value::Float(float) => whole_int(*float).map(Value::Int),
        _ => None,
    };
    encode_key(whole.as_ref().unwrap_or(key)).ok()
}

/// The integer that a float equals exactly.
fn whole_int(float: f64) -> Option<i64> {
    let int = float as i64; // saturates, and is 0 for NaN
    (float.fract() == 0.0 && int as f64 == float && int != i64::MAX).then_some(int)
}
