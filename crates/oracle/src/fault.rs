//! Why a statement has no result.

/// Why there is no result.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// The query raises an error.
    Raised(String),
    /// It raises an error for a row on which a predicate was evaluated; another order of predicates may avoid
    /// it.
    Predicate(String),
    /// It exceeds the limit of operations or rows.
    TooLarge,
    /// The interpreter does not support it.
    Unknown(String),
    /// The language does not say what the result is.
    LeftOpen(&'static str),
}

/// Result type of this crate.
pub type Result<T, E = Fault> = std::result::Result<T, E>;

/// The result of a predicate.
pub(crate) fn mark_predicate_fault<T>(result: Result<T>) -> Result<T> {
    result.map_err(|fault| match fault {
        Fault::Raised(message) => Fault::Predicate(message),
        other => other,
    })
}

/// An error of the query.
pub(crate) fn raised<T>(message: impl Into<String>) -> Result<T> {
    Err(Fault::Raised(message.into()))
}

/// Something that the interpreter does not support.
pub(crate) fn unsupported<T>(what: &str) -> Result<T> {
    Err(Fault::Unknown(what.to_owned()))
}

/// A value that exists, or the error that there is none.
pub(crate) fn in_range<T>(value: Option<T>, what: &str) -> Result<T> {
    match value {
        Some(value) => Ok(value),
        None => raised(format!("there is no such {what}")),
    }
}
