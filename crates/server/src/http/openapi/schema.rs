//! Parts of schemas, and their names.

use serde_json::{Value as Json, json};

/// A schema with its name.
pub(super) type Named = (&'static str, Json);

pub(super) fn text() -> Json {
    json!({"type": "string"})
}

pub(super) fn truth() -> Json {
    json!({"type": "boolean"})
}

/// An object with any fields.
pub(super) fn any() -> Json {
    json!({"type": "object", "additionalProperties": true})
}
