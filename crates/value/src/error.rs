//! What can go wrong with values.

use thiserror::Error;

/// An error of this crate, split by what went wrong.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum ValueError {
    /// An operand or argument has the wrong type.
    #[error("{operation} takes {expected}, not {found}")]
    Type {
        /// What was to be done.
        operation: String,
        /// The types it takes.
        expected: &'static str,
        /// The type it got.
        found: &'static str,
    },
    /// A number left the range of its type.
    #[error("{what} is out of range: {value} is not within {range}")]
    OutOfRange {
        /// What the number is.
        what: String,
        /// The number.
        value: String,
        /// The range that holds.
        range: String,
    },
    /// An integer or duration computation left 64 bits.
    #[error("the result of {operation} does not fit into 64 bits: use floats or smaller numbers")]
    Overflow {
        /// The computation.
        operation: String,
    },
    /// A division by zero.
    #[error("division by zero")]
    DivisionByZero,
    /// A text does not spell the value wanted.
    #[error("`{text}` is not a {what}: {reason}")]
    Syntax {
        /// The value wanted.
        what: &'static str,
        /// The text, shortened if long.
        text: String,
        /// What is wrong, and what is expected.
        reason: String,
    },
    /// The fields of a map do not make the value wanted.
    #[error("cannot make a {what}: {reason}")]
    Fields {
        /// The value wanted.
        what: &'static str,
        /// What is missing, unknown or in excess.
        reason: String,
    },
    /// A time zone is not in the database of zones.
    #[error(
        "time zone `{name}` is unknown: give an IANA name such as Europe/Rome or an offset such as +01:00"
    )]
    UnknownZone {
        /// The name given.
        name: String,
    },
    /// A value has no such field.
    #[error("a {type_name} has no field `{field}`")]
    NoField {
        /// The value's type.
        type_name: &'static str,
        /// The field asked for.
        field: String,
    },
    /// A value of this type can be neither a key nor a property.
    #[error("a {type_name} cannot be stored: store its properties or its key")]
    NotStorable {
        /// The value's type.
        type_name: &'static str,
    },
    /// Lists and maps are nested too deep.
    #[error("the value is nested deeper than {max} levels: flatten it or store its parts as nodes")]
    TooDeep {
        /// The limit.
        max: usize,
    },
    /// Something is larger than its format allows.
    #[error("{what} is {size} bytes, the limit is {max}")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// Its size.
        size: usize,
        /// The limit.
        max: usize,
    },
    /// Stored bytes are not what the format allows.
    #[error("stored {what} is damaged at byte {at}: {reason}")]
    Corrupt {
        /// The format.
        what: &'static str,
        /// Where.
        at: usize,
        /// What is wrong.
        reason: &'static str,
    },
    /// A JSON text is malformed, or says something that cannot be kept exactly.
    #[error("JSON, line {line}, column {column}: {reason}")]
    Json {
        /// Line, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
        /// What is wrong, and what is expected.
        reason: String,
    },
}
