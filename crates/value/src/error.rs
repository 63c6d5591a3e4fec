//! Errors of this crate.

use thiserror::Error;

/// An error of this crate, classified by its cause.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum ValueError {
    /// An operand or argument has the wrong type.
    #[error("{operation} takes {expected}, not {found}")]
    Type {
        /// The operation.
        operation: String,
        /// The accepted types.
        expected: &'static str,
        /// The actual type.
        found: &'static str,
    },
    /// A number left the range of its type.
    #[error("{what} is out of range: {value} is not within {range}")]
    OutOfRange {
        /// The quantity.
        what: String,
        /// The number.
        value: String,
        /// The valid range.
        range: String,
    },
    /// The result of an integer or duration computation does not fit into 64 bits.
    #[error("the result of {operation} does not fit into 64 bits: use floats or smaller numbers")]
    Overflow {
        /// The computation.
        operation: String,
    },
    /// A division by zero.
    #[error("division by zero")]
    DivisionByZero,
    /// A string could not be parsed as a value of the requested type.
    #[error("`{text}` is not a {what}: {reason}")]
    Syntax {
        /// The requested type.
        what: &'static str,
        /// The text, shortened if long.
        text: String,
        /// The cause, and the expected syntax.
        reason: String,
    },
    /// The fields of a map do not define a value of the requested type.
    #[error("cannot make a {what}: {reason}")]
    Fields {
        /// The requested type.
        what: &'static str,
        /// The missing, unknown or superfluous fields.
        reason: String,
    },
    /// The time zone database does not contain this zone.
    #[error(
        "time zone `{name}` is unknown: give an IANA name such as Europe/Rome or an offset such as +01:00"
    )]
    UnknownZone {
        /// The given name.
        name: String,
    },
    /// The value has no such field.
    #[error("a {type_name} has no field `{field}`")]
    NoField {
        /// The value's type.
        type_name: &'static str,
        /// The requested field.
        field: String,
    },
    /// A value of this type can be neither a key nor a property.
    #[error("a {type_name} cannot be stored: store its properties or its key")]
    NotStorable {
        /// The value's type.
        type_name: &'static str,
    },
    /// Lists and maps are nested too deeply.
    #[error("the value is nested deeper than {max} levels: flatten it or store its parts as nodes")]
    TooDeep {
        /// The limit.
        max: usize,
    },
    /// Something exceeds the size limit of its format.
    #[error("{what} is {size} bytes, the limit is {max}")]
    TooLarge {
        /// The object.
        what: &'static str,
        /// Its size.
        size: usize,
        /// The limit.
        max: usize,
    },
    /// Stored bytes violate their format.
    #[error("stored {what} is damaged at byte {at}: {reason}")]
    Corrupt {
        /// The format.
        what: &'static str,
        /// The byte offset.
        at: usize,
        /// The cause.
        reason: &'static str,
    },
    /// A part of a changed value has another type than the stored one.
    #[error("{}{reason}", if path.is_empty() { "the value ".into() } else { format!("`{path}` ") })]
    OtherType {
        /// Its path in the value: names and list indexes; empty for the whole.
        path: String,
        /// The stored type, and the given value.
        reason: String,
    },
    /// Malformed JSON, or JSON that cannot be represented exactly.
    #[error("JSON, line {line}, column {column}: {reason}")]
    Json {
        /// Line, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
        /// The cause, and the expected syntax.
        reason: String,
    },
}
