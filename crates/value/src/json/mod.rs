//! The one JSON codec: text to [`Value`](crate::Value) and back.
//!
//! Reading is strict RFC 8259 and exact, or an error: integers are exact within 64 bits and rejected beyond,
//! floats are the nearest double and rejected on overflow (`1e400`); duplicate keys in one object are
//! rejected, and so are lone surrogates and nesting beyond [`MAX_NESTING`](crate::limits::MAX_NESTING).
//! Errors carry line and column. `1.0`, `1e0` and `-0.0` are floats, `1` and `-0` integers.
//!
//! Writing uses one form per type:
//!
//! | value | JSON |
//! |---|---|
//! | null, boolean, integer, string | themselves; integers in full |
//! | float | shortest digits that read back the same, always with `.` or `e`: `1.0`, `1e300` |
//! | NaN, infinities | strings: `"NaN"`, `"Infinity"`, `"-Infinity"` |
//! | list, map | array, object with keys in order |
//! | bytes | `{"$bytes": "<base64, padded>"}` |
//! | date, times, date-times, duration | a string in ISO 8601: `"1984-10-11T12:31+01:00[Europe/Stockholm]"` |
//! | point | `{"crs": "cartesian", "x": 1.0, "y": 2.0}`, and `z` |
//! | node | `{"$node": 1, "labels": ["User"], "properties": {…}}` |
//! | relationship | `{"$relationship": 1, "type": "KNOWS", "source": 1, "target": 2, "properties": {…}}` |
//! | path | `{"$path": [node, relationship, node, …]}` |
//!
//! Written text may be nested twice as deep as text that is read: queries wrap stored documents in lists and
//! maps. A node or relationship that was read without its content has no `labels`, `type` and `properties`.

pub mod exact;
mod keep;
mod read;
mod write;

pub use exact::{from_exact, to_exact};
pub use keep::{keep_entry_types, keep_types};
pub use read::{JsonReader, parse, parse_bytes};
pub use write::{to_string, write};

#[cfg(test)]
mod tests;
